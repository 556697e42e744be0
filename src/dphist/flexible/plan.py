"""What a private statistic costs and promises, before any data is read."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from dphist import checks
from dphist.errors import Infeasible, InvalidParameter
from dphist.flexible.bucketing import Buckets
from dphist.flexible.statistics import BUCKETED, NAMES, OUTPUT_ERROR
from dphist.mechanisms import TruncatedLaplace

DEFAULT_DELTA: Final = 1e-6


@dataclass(frozen=True, slots=True)
class StatisticPlan:
    """A statistic with its calibrated noise; `bars` bounds the number of bars (None: not bounded), `drop` is what was asked."""

    statistic: str
    epsilon: float
    delta: float
    mechanism: TruncatedLaplace
    buckets: Buckets | None = None
    error: float = 0.0
    bars: int | None = None
    drop: float | None = None
    min_records: int | None = None
    probability: float | None = None
    k: int | None = None

    @property
    def q(self) -> int:
        """The most records that are dropped from one bar: public."""
        return self.mechanism.q

    @property
    def most_dropped(self) -> int | None:
        """The most records that are dropped in all; None without a bound on the bars."""
        return None if self.bars is None else self.bars * self.q

    @property
    def records_needed(self) -> int | None:
        """The least number of records for which the drops are within the share that was asked for."""
        if self.most_dropped is None or self.drop is None:
            return None
        return math.ceil(self.most_dropped / Fraction(repr(float(self.drop))))

    @property
    def feasible(self) -> bool | None:
        """Whether the share holds for every data set with min_records records; None if that is not known."""
        if self.records_needed is None or self.min_records is None:
            return None
        return self.min_records >= self.records_needed

    def require_feasible(self) -> None:
        """Refuse a plan that is known not to keep its promise: nothing about the data is needed to know it."""
        if self.feasible is False:
            raise Infeasible(
                f"at least {self.records_needed:,} records for a share of {self.drop:g}"
                f" ({self.bars:,} bars, up to {self.q:,} records dropped from each)",
                f"--min-records {self.min_records}",
                "allow a larger error or share, or more epsilon.",
            )

    def accuracy(self) -> str:
        """The promise in one sentence."""
        if self.statistic == "is-empty":
            return (
                f"'not empty' is always right; 'empty' means at most {self.q:,} units"
                f" (with more than {self.q:,} the answer is always 'not empty')."
            )
        what = _WORDS[self.statistic].format(k=self.k, p=self.probability)
        close = f"within {self.error:g} of" if self.error else "exactly"
        ranged = ""
        if self.buckets is not None:
            ranged = f", clamped to [{self.buckets.lower:g}, {self.buckets.upper:g}],"
        return f"{close} {what} of the bounded records{ranged} after dropping {self._dropped()}."

    def _dropped(self) -> str:
        each = f"at most {self.q:,} of them at each value"
        if self.most_dropped is None:
            return each
        most = f"at most {self.most_dropped:,} of them"
        if self.drop is None:
            return most
        if self.feasible:
            return f"at most {100 * self.drop:g} % of them"
        return f"{most} (at most {self.drop:g} of all if there are {self.records_needed:,} or more)"

    def bounding(self) -> str:
        """How units with several records are bounded, in one sentence."""
        where = "bucket" if self.buckets is not None else "value"
        most = self.mechanism.max_groups
        if self.statistic == "is-empty":
            return "Each unit counts once."
        number = f"{most:,} {where}s" if most > 1 else f"one {where}"
        return f"Bounded records: each unit counts at most once per {where} and in at most {number}, chosen at random."

    def privacy(self) -> str:
        """The guarantee in one sentence."""
        factor = f"e^{self.epsilon:g} = {math.exp(min(self.epsilon, 700)):.4g}"
        return (
            "adding or removing all records of one unit changes the probability of any result by at most a factor"
            f" {factor} plus delta = {self.mechanism.delta(self.epsilon):.4g} (asked for: {self.delta:g}), by"
            f" {self.mechanism.theorem}, q = {self.q:,}."
        )


_WORDS: Final = {
    "max": "the true maximum",
    "min": "the true minimum",
    "range": "the true range (largest minus smallest)",
    "median": "the true median",
    "quantile": "the true {p:g}-quantile",
    "mean": "the true mean",
    "std": "the true standard deviation",
    "support": "the true set of values (Hausdorff distance)",
    "mode": "the true most frequent value",
    "max-k": "the true largest value with {k:,} records",
}


def plan_statistic(
    name: str,
    *,
    epsilon: float,
    delta: float = DEFAULT_DELTA,
    lower: float | None = None,
    upper: float | None = None,
    error: float | None = None,
    drop: float | None = None,
    min_records: int | None = None,
    max_records: int = 1,
    max_values: int | None = None,
    probability: float | None = None,
    k: int | None = None,
) -> StatisticPlan:
    """Choose buckets and the smallest q for an output error, and say what share of records may be disregarded.

    On bucketed data `lower`, `upper` and `error` are needed; `max_values` bounds the different values of unbucketed data.
    `max_records` is the number of different buckets (or values) that one unit may be counted in.
    """
    checks.check_choice("the statistic", name, NAMES)
    if drop is not None and not 0 < drop < 1:
        raise InvalidParameter("a share of dropped records in (0, 1)", drop, "0.005 is half a per cent.")
    if min_records is not None:
        checks.check_whole("min_records", min_records)
    if name == "quantile" and (probability is None or not 0 <= probability <= 1):
        raise InvalidParameter("a probability in [0, 1] for a quantile", probability, "for example 0.9.")
    if name == "max-k":
        checks.check_whole("k", 0 if k is None else k, hint="the records that a value must have.")
    if name == "is-empty" and max_records != 1:
        raise InvalidParameter("each unit once for is-empty", f"max_records = {max_records}")
    mechanism = TruncatedLaplace.for_budget(epsilon, delta, max_records)
    buckets, bars = None, 1 if name == "is-empty" else max_values
    if name in BUCKETED:
        if lower is None or upper is None or error is None:
            raise InvalidParameter(
                "lower, upper and error", "not all of them", "public ends of the range, and the allowed error."
            )
        buckets = Buckets(lower, upper, error / OUTPUT_ERROR[name])
        bars = buckets.number
    elif error is not None or lower is not None or upper is not None:
        raise InvalidParameter(
            f"no range and no error for {name}",
            "one",
            "it has no finite sensitivity to buckets; its output error is 0.",
        )
    elif max_values is not None:
        checks.check_whole("max_values", max_values)
    return StatisticPlan(
        name, epsilon, delta, mechanism, buckets, error or 0.0, bars, drop, min_records, probability, k
    )


EPSILONS: Final = (0.1, 0.2, 0.5, 1.0, 2.0)
DELTAS: Final = (1e-5, 2.0**-20, 1e-8)


def trade_offs(bars: int, drop: float, max_records: int = 1) -> list[tuple[float, float, int, int, int]]:
    """Rows (epsilon, delta, q, records dropped at most, records needed): [BCDP22] Remark 2 and H.4 with exact numbers."""
    rows = []
    for epsilon in EPSILONS:
        for delta in DELTAS:
            q = TruncatedLaplace.for_budget(epsilon, delta, max_records).q
            rows.append((epsilon, delta, q, bars * q, math.ceil(bars * q / Fraction(repr(float(drop))))))
    return rows
