"""A ranked list of keys without counts, and several of them from one allowance [Rogers24, Theorems 9 and 10]."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np

from dphist import checks
from dphist.checks import proved
from dphist.errors import InvalidParameter
from dphist.mechanisms.base import Fact
from dphist.mechanisms.lattice import LARGEST_COUNT, Integers
from dphist.mechanisms.lists import Listed, ListMechanism
from dphist.mechanisms.surcharge import COST_UP, LARGEST_EPSILON
from dphist.noise import exponential_top_k
from dphist.privacy import ranked
from dphist.privacy.events import ApproximateEvent, ChoiceEvent, ConcentratedEvent, Event, RepeatedEvent
from dphist.privacy.search import edge
from dphist.words import number

THRESHOLD_SHARES = (0.5, 0.2, 0.05)
"""The parts of delta that calibration tries for the threshold; the rest is for the choices."""


@dataclass(frozen=True, slots=True)
class Chosen:
    """The positions that were chosen, best first, and whether the list ended with STOP."""

    index: Integers
    stopped: bool

    @property
    def symbols(self) -> int:
        """What is paid for: the groups and STOP."""
        return len(self.index) + int(self.stopped)


@proved("[Rogers24] Theorem 10")
@dataclass(frozen=True, slots=True)
class Ranked(ListMechanism):
    """At most `symbols` symbols over at most `queries` queries, each chosen among the `shortlist` largest groups and STOP.

    The chance of a group is proportional to exp(symbol_epsilon count/max_per_group), exactly; STOP has the score of the
    (shortlist + 1)-th largest count plus the threshold. A unit may be in any number of groups.
    """

    name: ClassVar[str] = "ranked"
    method: ClassVar[str] = "ranked"
    max_groups = noise_std = None
    lattice_bits = 0

    symbols: int
    shortlist: int
    symbol_epsilon: float
    threshold: int
    queries: int = 1
    max_per_group: int = 1

    def __post_init__(self) -> None:
        for field in ("symbols", "shortlist", "queries", "max_per_group"):
            checks.check_whole(field, getattr(self, field))
        checks.check_positive("symbol_epsilon", self.symbol_epsilon)
        checks.check_whole("threshold", self.threshold, self.max_per_group)

    @property
    def theorem(self) -> str:
        """Where the analysis is stated."""
        number = 9 if self.queries == 1 else 10
        return f"[Rogers24] Theorem {number}, corrected, with the exact privacy loss of each choice"

    @property
    def assumption(self) -> str:
        """What must hold for the data."""
        often = "once" if self.max_per_group == 1 else f"at most {self.max_per_group:,} times"
        return f"each unit is counted {often} in a group, in any number of groups"

    @property
    def rho(self) -> float:
        """The zCDP parameter of the choices, for composition."""
        return ranked.rho(self.symbol_epsilon, self.symbols)

    @property
    def length(self) -> int:
        """The most groups of a list."""
        return self.symbols

    @property
    def needed(self) -> int:
        """The shortlist, and the group behind it."""
        return self.shortlist + 1

    def listed(self, largest: Integers, k: int) -> Listed:
        """Keys in order, without counts."""
        chosen = self.choose(largest, k)
        return Listed(chosen.index, None, not chosen.stopped)

    def choose(self, largest: Integers, symbols: int) -> Chosen:
        """At most `symbols` symbols from the shortlist + 1 largest counts, largest first; ties may stand in any order."""
        if not 1 <= symbols <= self.symbols:
            raise InvalidParameter(f"between 1 and {self.symbols} results", symbols)
        counts = np.minimum(largest, LARGEST_COUNT)
        listed = counts[: self.shortlist]
        base = int(counts[self.shortlist]) if len(counts) > self.shortlist else 0
        scores = np.append(listed, base + self.threshold).astype(np.int64)
        coefficient = Fraction(self.symbol_epsilon) / self.max_per_group
        order = exponential_top_k(scores, coefficient, symbols)
        stops = np.flatnonzero(order == len(listed))
        return Chosen(order[: stops[0]] if len(stops) else order, bool(len(stops)))

    def delta_infinity(self) -> float:
        """The probability that, in any of the queries, a new group precedes STOP. Rounded up."""
        per_query = ranked.delta_infinity(self.threshold, self.symbol_epsilon, self.shortlist, self.max_per_group)
        return ranked.delta_of_session(per_query, self.queries, self.symbols)

    def delta(self, epsilon: float) -> float:
        """An upper bound on delta at epsilon. The choices are exact: no sampler's error is to be added."""
        return ranked.delta(
            epsilon,
            symbol_epsilon=self.symbol_epsilon,
            threshold=self.threshold,
            shortlist=self.shortlist,
            symbols=self.symbols,
            queries=self.queries,
            max_per_group=self.max_per_group,
        )

    @property
    def noise_event(self) -> Event:
        """Per symbol a privacy loss within a range; d for each query, added up: other releases may come in between.

        The choices are exact, so no sampler's error is added.
        """
        per_query = ranked.delta_infinity(self.threshold, self.symbol_epsilon, self.shortlist, self.max_per_group)
        d = min(1.0, min(self.queries, self.symbols) * per_query * COST_UP)
        choices = RepeatedEvent((ChoiceEvent(self.symbol_epsilon),), self.symbols)
        return ApproximateEvent(ConcentratedEvent(self.rho, choices), d)

    def with_budget(self, epsilon: float, delta: float) -> Ranked:
        """As many results and queries, calibrated for another budget."""
        return calibrate(
            epsilon, delta, self.symbols, self.shortlist, queries=self.queries, max_per_group=self.max_per_group
        )

    def facts(self, k: int) -> list[Fact]:
        """The choices in words."""
        return [
            ("k", f"at most {k:,} keys in order, without counts; each of them costs, and so does an early end"),
            (
                "choices",
                f"one key after the other, each with epsilon {number(self.symbol_epsilon)}: a group that is"
                f" {number(1 / self.symbol_epsilon)} units larger is e times as likely to come first",
            ),
            (
                "shortlist",
                f"the {self.shortlist:,} largest groups may be chosen; a longer one costs a little in the threshold",
            ),
            (
                "end",
                f"the list ends early when no group is clearly more than {self.threshold:,} above the next largest",
            ),
        ]


def calibrate(
    epsilon: float, target_delta: float, symbols: int, shortlist: int, *, queries: int = 1, max_per_group: int = 1
) -> Ranked:
    """The choices and the threshold for a budget: of a few ways to share delta, the one with the smallest threshold."""
    epsilon = min(epsilon, LARGEST_EPSILON)

    def with_share(share: float) -> Ranked:
        for_choices = target_delta * (1 - share) * (1 - 1e-9)
        # One symbol with this epsilon is private by itself; all of them together with e = epsilon/symbols.
        symbol_epsilon = edge(
            lambda e: ranked.delta_of_symbols(e, symbols, epsilon), for_choices, epsilon / symbols, 2 * epsilon,
            tolerance=1e-6,
        )  # fmt: skip
        per_query = target_delta * share / min(queries, symbols) * (1 - 1e-9)
        threshold = ranked.smallest_threshold(per_query, symbol_epsilon, shortlist, max_per_group)
        return Ranked(symbols, shortlist, symbol_epsilon, threshold, queries, max_per_group)

    return min(map(with_share, THRESHOLD_SHARES), key=lambda made: made.threshold)
