"""Plans on disk: versioned JSON, checked anew when read."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from dphist.aggregates import Aggregate
from dphist.errors import DphistError, InvalidParameter, InvalidPlan
from dphist.mechanisms import GROUP_MECHANISMS, GroupMechanism
from dphist.outputs import write_text
from dphist.planning.options import check_types
from dphist.planning.request import Request

FORMAT: Final = "dphist-plan"
VERSION: Final = 1

_KINDS: Final = {kind.name: kind for kind in GROUP_MECHANISMS}


def write(
    request: Request,
    mechanism: GroupMechanism,
    alternatives: tuple[GroupMechanism, ...],
    path: Path,
    *,
    overwrite: bool = False,
) -> None:
    """Write a plan; numbers are written so that they are read back to the same bits."""
    text = json.dumps(to_data(request, mechanism, alternatives), indent=2, allow_nan=False) + "\n"
    write_text(text, path, overwrite=overwrite)


def to_data(request: Request, mechanism: GroupMechanism, alternatives: tuple[GroupMechanism, ...]) -> dict[str, Any]:
    """A plan as plain data."""
    return {
        "format": FORMAT,
        "version": VERSION,
        "request": {**asdict(request), "aggregates": [aggregate.to_data() for aggregate in request.aggregates]},
        "mechanism": mechanism.to_data(),
        "alternatives": [other.to_data() for other in alternatives],
    }


def read(path: Path) -> tuple[Request, GroupMechanism, tuple[GroupMechanism, ...]]:
    """Read a plan and refuse it unless its guarantee holds."""
    try:
        data = json.loads(path.read_text())
    except (OSError, ValueError) as problem:
        raise InvalidPlan(f"Expected a plan in {path}, got an unreadable file ({type(problem).__name__}).") from None
    return from_data(data, str(path))


def from_data(data: Any, source: str) -> tuple[Request, GroupMechanism, tuple[GroupMechanism, ...]]:
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
    try:
        check_branches(request, (mechanism, *alternatives), source)
        excess = any(other.delta(request.mechanism_epsilon) > request.delta for other in alternatives)
    except (ArithmeticError, InvalidParameter) as problem:
        raise InvalidPlan(f"Expected a plan in {source} that can be checked, got a damaged one: {problem}") from None
    if excess:
        raise InvalidPlan(f"Expected alternatives in {source} that meet the budget, got one that does not.")
    return request, mechanism, alternatives


def _mechanism(data: dict[str, Any]) -> GroupMechanism:
    return _KINDS[data["name"]].from_data(data)


def check(request: Request, mechanism: GroupMechanism, source: str) -> None:
    """Refuse a mechanism that does not do what the request paid for."""
    if problems := mechanism.misfits(request):
        raise InvalidPlan(f"Expected a plan in {source} whose guarantee holds, got one where {'; '.join(problems)}.")


def check_branches(request: Request, mechanisms: tuple[GroupMechanism, ...], source: str) -> None:
    """Refuse a plan of which a release may choose a mechanism that is not paid for."""
    for mechanism in mechanisms if request.undecided else mechanisms[:1]:
        check(request, mechanism, source)
