"""The guarantee of a mechanism in one sentence, and plans of one mechanism as text."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import Protocol

from dphist.errors import InvalidParameter
from dphist.words import factor_of, rounded_up

_WIDTH = 100
_LABEL = 13


class Proved(Protocol):
    """A mechanism with a profile and its source."""

    @property
    def theorem(self) -> str:
        """Where the analysis is stated."""
        ...

    @property
    def assumption(self) -> str:
        """What must hold for the data."""
        ...

    def delta(self, epsilon: float) -> float:
        """An upper bound on delta at epsilon."""
        ...


def check_neighbours(value: str) -> None:
    """Only adding or removing is supported: replacing one unit by another breaks these theorems as they stand."""
    if value != "add-remove":
        raise InvalidParameter(
            "neighbours that differ by adding or removing a unit (add-remove)",
            repr(value),
            "to replace a unit is to remove one and add one: the guarantee then holds at twice the epsilon and"
            " (1 + e^epsilon) times the delta.",
        )


def sentence(mechanism: Proved, epsilon: float, delta: float, protected: str = "all records of one unit") -> str:
    """What adding or removing something changes, with the theorem that says so."""
    return bounded_change(protected, epsilon, mechanism.delta(epsilon), delta, mechanism.theorem)


def bounded_change(protected: str, epsilon: float, proved: float, asked: float, theorem: str) -> str:
    """An (epsilon, delta) guarantee as a sentence; what is proved is rounded up, what was asked for is told in full."""
    return (
        f"adding or removing {protected} changes the probability of any result by at most a factor"
        f" {factor_of(epsilon)} plus delta = {rounded_up(proved)} (asked for: {asked!r}), by {theorem}."
    )


def layout(title: str, facts: Sequence[tuple[str, str]]) -> str:
    """A title and labelled, wrapped sentences."""
    lines = [title, ""]
    for label, text in facts:
        wrapped = textwrap.wrap(text, _WIDTH - _LABEL - 2)
        lines += [f"  {label if i == 0 else '':<{_LABEL}}{line}" for i, line in enumerate(wrapped)]
    return "\n".join(lines)
