"""Plans on disk: versioned JSON, checked anew when read."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from dphist.errors import InvalidParameter, InvalidPlan
from dphist.files import stored
from dphist.files.outputs import write_text
from dphist.mechanisms import GROUP_MECHANISMS, GroupMechanism
from dphist.planning.request import Request

FORMAT: Final = "dphist-plan"
VERSION: Final = 1
MOST_OF_A_KIND: Final = 3
"""Mechanisms of one name in a plan: each has at most three analyses."""

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
    """A plan as plain data. What was never in files of version 1 is written only where it is asked for."""
    asked = {
        name: value
        for name, value in asdict(request).items()
        if value is not None or name not in ("keep_above", "keep_groups")
    }
    return {
        "format": FORMAT,
        "version": VERSION,
        "request": {**asked, "aggregates": [aggregate.to_data() for aggregate in request.aggregates]},
        "mechanism": mechanism.to_data(),
        "alternatives": [other.to_data() for other in alternatives],
    }


@dataclass(frozen=True, slots=True)
class _File:
    """What a file of version 1 holds."""

    format: str
    version: int
    request: Request
    mechanism: dict[str, Any]
    alternatives: tuple[dict[str, Any], ...]


def read(path: Path) -> tuple[Request, GroupMechanism, tuple[GroupMechanism, ...]]:
    """Read a plan and refuse it unless its guarantee holds.

    It has no checksum: people edit plans, and whatever they change, the guarantee is checked anew.
    """
    try:
        data = stored.parse(stored.read_file(path, "a plan"), str(path))
    except InvalidParameter as problem:
        raise InvalidPlan(str(problem)) from None
    return from_data(data, str(path))


def from_data(data: Any, source: str) -> tuple[Request, GroupMechanism, tuple[GroupMechanism, ...]]:
    """The inverse of `to_data`, checked. Whatever it holds, that takes bounded time and memory."""
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        raise InvalidPlan(f"Expected a plan in {source}, got something else. Hint: dphist plan --save writes one.")
    try:
        stored.check_version(data.get("version"), VERSION, f"a plan in {source}", "plan again")
        file = stored.build(_File, data, source)
        mechanism = _mechanism(file.mechanism, f"the mechanism of {source}")
        alternatives = tuple(_mechanism(other, f"an alternative of {source}") for other in file.alternatives)
        _check_number(mechanism, alternatives, source)
        check_branches(file.request, (mechanism, *alternatives), source)
    except InvalidParameter as problem:
        raise InvalidPlan(str(problem)) from None
    except ArithmeticError:
        raise InvalidPlan(f"Expected numbers in {source} that a guarantee can be checked with, got others.") from None
    return file.request, mechanism, alternatives


def _mechanism(data: dict[str, Any], source: str) -> GroupMechanism:
    name = data.get("name")
    if not isinstance(name, str) or name not in _KINDS:
        raise InvalidParameter(f"{source} to be one of {', '.join(_KINDS)}", "another one")
    return _KINDS[name].from_data(data, source)


def _check_number(mechanism: GroupMechanism, alternatives: tuple[GroupMechanism, ...], source: str) -> None:
    """A plan compares a few: to check the guarantees of any number of them would take any time."""
    names = [one.name for one in (mechanism, *alternatives)]
    if any(names.count(name) > MOST_OF_A_KIND for name in _KINDS):
        raise InvalidParameter(f"at most {MOST_OF_A_KIND} mechanisms of a kind in {source}", "more")


def check(request: Request, mechanism: GroupMechanism, source: str) -> None:
    """Refuse a mechanism that does not do what the request paid for."""
    if problems := mechanism.misfits(request):
        raise InvalidPlan(f"Expected a plan in {source} whose guarantee holds, got one where {'; '.join(problems)}.")


def check_branches(request: Request, mechanisms: tuple[GroupMechanism, ...], source: str) -> None:
    """Refuse a plan of which a release may choose a mechanism that is not paid for, or one that compares with such."""
    used = mechanisms if request.choice_epsilon else mechanisms[:1]
    for mechanism in used:
        check(request, mechanism, source)
    if not all(
        other.proved_delta(request.mechanism_epsilon) <= request.mechanism_delta for other in mechanisms[len(used) :]
    ):
        raise InvalidPlan(f"Expected alternatives in {source} that meet the budget, got one that does not.")
