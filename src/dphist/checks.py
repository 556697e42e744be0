"""Checks of parameters, used by constructors and at the edge of the command line, nowhere else; and what a check found."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

from dphist.errors import Infeasible, InvalidParameter

SMALLEST_EPSILON = 1e-9
SMALLEST_DELTA = 1e-100
"""Public limits of what may be asked for: below them noise and thresholds leave what doubles and samplers are exact for."""

MOST_GROUPS = 2**40
"""A public limit on max_groups, sparsity and lists of keys: far above use, far below where doubles lose integers."""

T = TypeVar("T")


def proved(citation: str) -> Callable[[T], T]:
    """Name what proves a mechanism or an accounting function: an anchor of docs/, or a theorem of a paper of references.md."""

    def cite(thing: T) -> T:
        marked: Any = thing
        marked.proof = citation
        return thing

    return cite


def check_epsilon(value: float) -> None:
    """A finite epsilon > 0."""
    if not (math.isfinite(value) and value > 0):
        raise InvalidParameter("a finite epsilon > 0", value, "1 is a common choice; smaller is more private.")


def check_delta(value: float) -> None:
    """A delta in (0, 1)."""
    if not 0 < value < 1:
        raise InvalidParameter("delta in (0, 1)", value, "unknown groups need delta > 0; try 1e-8.")


def check_budget(epsilon: float, delta: float, *, pure: bool = False) -> None:
    """What may be asked for; pure: also delta = 0. The parts that a mechanism divides it into may be smaller."""
    check_epsilon(epsilon)
    if not (pure and delta == 0):
        check_delta(delta)
    for name, value, least in (("epsilon", epsilon, SMALLEST_EPSILON), ("delta", delta, SMALLEST_DELTA)):
        if 0 < value < least:
            raise Infeasible(f"{name} of at least {least:g}", value, "with less, noise would hide any count.")


def check_between(name: str, value: float, least: float, most: float, hint: str = "") -> None:
    """A number in a range; NaN is in none."""
    if not least <= value <= most:
        raise InvalidParameter(f"{name} from {least:g} to {most:g}", value, hint)


def check_whole(name: str, value: int, least: int = 1, hint: str = "") -> None:
    """An integer in [least, 2^40]."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise InvalidParameter(f"{name} to be a whole number", repr(value), hint)
    if value < least:
        raise InvalidParameter(f"{name} of at least {least}", value, hint)
    if value > MOST_GROUPS:
        raise InvalidParameter(f"{name} of at most 2^40", value, hint)


def check_positive(name: str, value: float, hint: str = "") -> None:
    """A finite number > 0."""
    if not (math.isfinite(value) and value > 0):
        raise InvalidParameter(f"a finite {name} > 0", value, hint)


def check_not_negative(name: str, value: float, hint: str = "") -> None:
    """A finite number >= 0."""
    if not (math.isfinite(value) and value >= 0):
        raise InvalidParameter(f"a finite {name} >= 0", value, hint)


def check_share(name: str, value: float, hint: str = "") -> None:
    """A number in (0, 1)."""
    if not 0 < value < 1:
        raise InvalidParameter(f"{name} in (0, 1)", value, hint)


def check_choice(name: str, value: str, choices: tuple[str, ...], hint: str = "") -> None:
    """One of some words."""
    if value not in choices:
        raise InvalidParameter(f"{name} to be one of {', '.join(choices)}", repr(value), hint)


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that was looked at in a file or a ledger. passed is None where there was nothing to compare with."""

    name: str
    passed: bool | None
    detail: str

    @property
    def failed(self) -> bool:
        """Whether something is wrong; a check that was skipped has not failed."""
        return self.passed is False

    @property
    def state(self) -> Literal["passed", "failed", "not checked"]:
        """The outcome in words."""
        if self.passed is None:
            return "not checked"
        return "passed" if self.passed else "failed"
