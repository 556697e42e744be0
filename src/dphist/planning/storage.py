"""Plans on disk: versioned JSON, checked anew when read."""

from __future__ import annotations

import json
import re
from dataclasses import asdict, fields
from fractions import Fraction
from pathlib import Path
from typing import Any, Final, get_args

from dphist.errors import DphistError, Infeasible, InvalidParameter, InvalidPlan
from dphist.mechanisms import (
    AdaptiveGaussian,
    CorrelatedGaussian,
    DiscreteCorrelatedGaussian,
    KnownGroups,
    LaplaceThreshold,
    Mechanism,
)
from dphist.mechanisms.tuning import Tuning
from dphist.outputs import write_text
from dphist.planning.aggregates import covers_aggregates, require_drawable
from dphist.planning.options import check_types
from dphist.planning.request import Aggregate, Request

FORMAT: Final = "dphist-plan"
VERSION: Final = 1

_FRACTION: Final = re.compile(r"[0-9]{1,1000}(/[0-9]{1,1000})?", re.ASCII)
_MECHANISMS: Final[dict[str, type[Any]]] = {kind.name: kind for kind in get_args(Mechanism)}


def write(
    request: Request, mechanism: Mechanism, alternatives: tuple[Mechanism, ...], path: Path, *, overwrite: bool = False
) -> None:
    """Write a plan; numbers are written so that they are read back to the same bits."""
    text = json.dumps(to_data(request, mechanism, alternatives), indent=2, allow_nan=False) + "\n"
    write_text(text, path, overwrite=overwrite)


def to_data(request: Request, mechanism: Mechanism, alternatives: tuple[Mechanism, ...]) -> dict[str, Any]:
    """A plan as plain data."""
    return {
        "format": FORMAT,
        "version": VERSION,
        "request": asdict(request),
        "mechanism": _mechanism_data(mechanism),
        "alternatives": [_mechanism_data(other) for other in alternatives],
    }


def _mechanism_data(mechanism: Mechanism) -> dict[str, Any]:
    values = {f.name: getattr(mechanism, f.name) for f in fields(mechanism)}
    return {"name": mechanism.name, **{name: _plain(value) for name, value in values.items()}}


def _plain(value: object) -> object:
    """A parameter as JSON has it."""
    if isinstance(value, Tuning):
        return asdict(value)
    return str(value) if isinstance(value, Fraction) else value


def read(path: Path) -> tuple[Request, Mechanism, tuple[Mechanism, ...]]:
    """Read a plan and refuse it unless its guarantee holds."""
    try:
        data = json.loads(path.read_text())
    except (OSError, ValueError) as problem:
        raise InvalidPlan(f"Expected a plan in {path}, got an unreadable file ({type(problem).__name__}).") from None
    return from_data(data, str(path))


def from_data(data: Any, source: str) -> tuple[Request, Mechanism, tuple[Mechanism, ...]]:
    """The inverse of `to_data`, checked."""
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        raise InvalidPlan(f"Expected a plan in {source}, got something else. Hint: dphist plan --save writes one.")
    if data.get("version") != VERSION:
        raise InvalidPlan(
            f"Expected a plan of version {VERSION} in {source}, got version {data.get('version')}."
            " Hint: plan again with this version of dphist."
        )
    try:
        check_types(Request, data["request"])
        asked = dict(data["request"])
        aggregates = tuple(Aggregate(**aggregate) for aggregate in asked.pop("aggregates"))
        request = Request(**asked, aggregates=aggregates)
        mechanism = _mechanism(data["mechanism"])
        alternatives = tuple(_mechanism(other) for other in data["alternatives"])
    except (KeyError, TypeError, AttributeError, ValueError, ArithmeticError, DphistError) as problem:
        raise InvalidPlan(f"Expected a complete plan in {source}, got a damaged one: {problem}") from None
    check(request, mechanism, source)
    if request.undecided:
        for other in alternatives:  # a release may choose any of them
            check(request, other, source)
    if any(other.delta(request.mechanism_epsilon) > request.delta for other in alternatives):
        raise InvalidPlan(f"Expected alternatives in {source} that meet the budget, got one that does not.")
    return request, mechanism, alternatives


def _mechanism(data: dict[str, Any]) -> Mechanism:
    parameters = dict(data)
    kind = _MECHANISMS[parameters.pop("name")]
    types = {f.name: f.type for f in fields(kind)}
    for name, value in parameters.items():
        if types.get(name) == "Fraction":
            parameters[name] = _fraction(value)
        elif types.get(name) == "Tuning":
            parameters[name] = Tuning(**value)
    mechanism: Mechanism = kind(**parameters)
    return mechanism


def _fraction(text: str) -> Fraction:
    """Whole numbers alone: a power of ten in a few letters (1e999999999) would fill the memory."""
    if _FRACTION.fullmatch(text) is None:
        raise InvalidParameter("a fraction of whole numbers", "something else")
    return Fraction(text)


def check(request: Request, mechanism: Mechanism, source: str) -> None:
    """Refuse a mechanism that does not do what the request paid for."""
    problems = []
    if isinstance(mechanism, AdaptiveGaussian) != (request.unbounded and request.choice != "max_groups") and not (
        request.undecided and isinstance(mechanism, LaplaceThreshold)
    ):
        problems.append("the groups of a unit are not bounded, or are where they need not be")
    request = request.for_branch(mechanism.name, mechanism.max_groups)
    if not mechanism.delta(request.mechanism_epsilon) <= request.delta:
        problems.append(
            f"delta({request.mechanism_epsilon:g}) = {mechanism.delta(request.mechanism_epsilon):.6g} exceeds {request.delta:g}"
        )
    if isinstance(mechanism, KnownGroups) == request.thresholded:
        problems.append("a threshold is missing, or there is one that the request does not ask for")
    if isinstance(mechanism, CorrelatedGaussian | DiscreteCorrelatedGaussian) and request.keys is None:
        if mechanism.max_groups != mechanism.sparsity or mechanism.sparsity != request.bounded_groups:
            problems.append("the sparsity bound differs, or max_groups is used without a public list of keys")
    elif not isinstance(mechanism, AdaptiveGaussian) and mechanism.max_groups != request.groups_per_unit:
        problems.append("max_groups differs from the request")
    if isinstance(mechanism, CorrelatedGaussian | KnownGroups) and request.keys is not None:
        listed = mechanism.groups if isinstance(mechanism, KnownGroups) else mechanism.sparsity
        if listed != request.keys:
            problems.append("the number of public keys differs")
    if not isinstance(mechanism, KnownGroups) and mechanism.low_threshold != request.low_threshold:
        problems.append("low_threshold differs from the request")
    if not covers_aggregates(request, mechanism):
        problems.append("the aggregates are not paid for")
    if isinstance(mechanism, AdaptiveGaussian):
        try:
            require_drawable(request, mechanism)
        except (Infeasible, InvalidParameter) as problem:
            problems.append(f"noise cannot be drawn ({problem})")
    if problems:
        raise InvalidPlan(f"Expected a plan in {source} whose guarantee holds, got one where {'; '.join(problems)}.")
