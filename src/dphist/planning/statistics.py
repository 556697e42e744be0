"""What a private statistic costs and promises, before any data is read."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from dphist import checks, columns
from dphist.columns import Unit
from dphist.errors import Infeasible, InvalidParameter
from dphist.mechanisms import TruncatedLaplace
from dphist.planning.flexible import BUCKETED, NAMES, OUTPUT_ERROR, UNBUCKETED, Buckets
from dphist.words import bounded_change, exactly, percent

DEFAULT_DELTA: Final = 1e-6
EPSILONS: Final = (0.1, 0.2, 0.5, 1.0, 2.0)
DELTAS: Final = (1e-5, 2.0**-20, 1e-8)
READ_AS: Final = ("number", "text")


@dataclass(frozen=True, slots=True)
class StatisticPlan:
    """A statistic with its calibrated noise; `bars` bounds the number of bars (None: not bounded), `drop` is what was asked.

    `min_records` and, for mode and max-k, `bars` are the user's word: they are never compared with the data, and every sentence
    that needs them says so.
    """

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
    read_as: str | None = None

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
                f"at least {self.records_needed:,} records for a share of {exactly(self.drop or 0)}"
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
        what = _WORDS[self.statistic].format(k=self.k, p=exactly(self.probability or 0))
        close = f"within {exactly(self.error)} of" if self.error else "exactly"
        ranged = ""
        if self.buckets is not None:
            ranged = f", clamped to [{exactly(self.buckets.lower)}, {exactly(self.buckets.upper)}],"
        given = " and ".join(self.conditions())
        provided = f", provided that {given} (stated, not compared with the data)" if given else ""
        return f"{close} {what} of the bounded records{ranged} after dropping {self._dropped()}{provided}."

    def conditions(self) -> tuple[str, ...]:
        """What the user stated about the data and the promise rests on."""
        found = []
        if self.feasible:
            found.append(f"there are at least {self.min_records:,} of them")
        if self.statistic in UNBUCKETED and self.bars is not None:
            found.append(f"they have at most {self.bars:,} different values")
        return tuple(found)

    def _dropped(self) -> str:
        if self.most_dropped is None:
            return f"at most {self.q:,} of them at each value"
        most = f"at most {self.most_dropped:,} of them"
        if self.drop is None:
            return most
        if self.feasible:
            return f"at most {percent(self.drop)} % of them"
        return f"{most} (at most {percent(self.drop)} % if there are {self.records_needed:,} or more)"

    def bounding(self) -> str:
        """How units with several records are bounded, in one sentence."""
        where = "bucket" if self.buckets is not None else "value"
        most = self.mechanism.max_groups
        if self.statistic == "is-empty":
            return "Each unit counts once."
        number = f"{most:,} {where}s" if most > 1 else f"one {where}"
        numbers = self.buckets is not None or self.read_as == "number"
        left_out = "number (null, NaN, text that is none)" if numbers else "value (null, NaN)"
        return (
            f"Bounded records: each unit counts at most once per {where} and in at most {number}, chosen at random; records"
            f" without a {left_out} are left out."
        )

    def privacy(self, unit: Unit | None = None) -> str:
        """The guarantee in one sentence, its numbers rounded up."""
        theorem = f"{self.mechanism.theorem}, q = {self.q:,}"
        proved = self.mechanism.delta(self.epsilon)
        named, other = columns.protected(unit), columns.not_protected(unit)
        return bounded_change(named, self.epsilon, proved, self.delta, theorem, other)


_WORDS: Final = {
    "max": "the true maximum",
    "min": "the true minimum",
    "range": "the true range (largest minus smallest)",
    "median": "the true lower median (rank ⌈n/2⌉)",
    "quantile": "the true {p}-quantile (rank ⌈{p}·n⌉, at least 1)",
    "mean": "the true mean",
    "std": "the true population standard deviation",
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
    read_as: str | None = None,
) -> StatisticPlan:
    """Choose buckets and the smallest q for an output error, and say what share of records may be disregarded.

    On bucketed data `lower`, `upper` and `error` are needed; `max_values` bounds the different values of unbucketed data.
    `max_records` is the number of different buckets (or values) that one unit may be counted in. `read_as` says how mode and
    max-k read their values: as they are (None; max-k then refuses text), as a "number", or as "text".
    """
    checks.check_choice("the statistic", name, NAMES)
    checks.check_budget(epsilon, delta)
    _check_share(name, drop, min_records, max_values)
    _check_extras(name, probability, k, read_as, max_records)
    mechanism = TruncatedLaplace.for_budget(epsilon, delta, max_records)
    buckets, bars = None, 1 if name == "is-empty" else max_values
    if name in BUCKETED:
        if lower is None or upper is None or error is None:
            missing = [word for word, value in (("lower", lower), ("upper", upper), ("error", error)) if value is None]
            hint = "public ends of the range, and the allowed error: --lower 0 --upper 120 --error 1, for example."
            raise InvalidParameter("lower, upper and error", f"no {' and no '.join(missing)}", hint)
        buckets = Buckets(lower, upper, error / OUTPUT_ERROR[name])
        bars = buckets.number
    elif error is not None or lower is not None or upper is not None:
        hint = "it has no finite sensitivity to buckets; its output error is 0."
        if name == "is-empty":
            hint = "it counts units, whatever their values."
        raise InvalidParameter(f"no range and no error for {name}", "one", hint)
    return StatisticPlan(
        name, epsilon, delta, mechanism, buckets, error or 0.0, bars, drop, min_records, probability, k, read_as
    )


def _check_share(name: str, drop: float | None, min_records: int | None, max_values: int | None) -> None:
    """A share of the records means something only where the drops are bounded; what would be ignored is refused."""
    if drop is not None and not 0 < drop < 1:
        raise InvalidParameter("a share of dropped records in (0, 1)", drop, "0.005 is half a per cent.")
    if min_records is not None:
        checks.check_whole("min_records", min_records)
    if max_values is not None:
        checks.check_whole("max_values", max_values)
        if name not in UNBUCKETED:
            raise InvalidParameter(f"no max_values for {name}", max_values, "it bounds the values of mode and max-k.")
    asked = drop is not None or min_records is not None
    if asked and name == "is-empty":
        raise InvalidParameter("neither drop nor min_records for is-empty", "one", "its promise has no share in it.")
    if asked and name in UNBUCKETED and max_values is None:
        raise InvalidParameter(
            f"max_values with drop or min_records for {name}",
            "none",
            "up to q records are dropped at each value: say publicly how many different values there can be.",
        )
    if min_records is not None and drop is None:
        raise InvalidParameter("drop with min_records", "none", "the share of the records that may be disregarded.")


def _check_extras(name: str, probability: float | None, k: int | None, read_as: str | None, max_records: int) -> None:
    """What belongs to one statistic alone."""
    if name == "quantile":
        if probability is None or not 0 <= probability <= 1:
            got = "none" if probability is None else probability
            raise InvalidParameter("a probability in [0, 1] for a quantile", got, "for example --probability 0.9.")
    elif probability is not None:
        raise InvalidParameter(f"no probability for {name}", probability, "only quantile has one.")
    if name == "max-k":
        checks.check_whole("k", 0 if k is None else k, hint="the records that a value must have.")
    elif k is not None:
        raise InvalidParameter(f"no k for {name}", k, "only max-k has one.")
    if read_as is not None:
        checks.check_choice("read_as", read_as, READ_AS)
        if name not in UNBUCKETED:
            raise InvalidParameter(
                f"no read_as for {name}", repr(read_as), "only mode and max-k have a choice; buckets are of numbers."
            )
    if name == "is-empty" and max_records != 1:
        raise InvalidParameter("each unit once for is-empty", f"max_records = {max_records}")


@dataclass(frozen=True, slots=True)
class TradeOff:
    """What a budget costs in dropped records: a row of [BCDP22] Remark 2 and H.4 with exact numbers."""

    epsilon: float
    delta: float
    q: int
    dropped: int
    records_needed: int

    def share_of(self, records: int) -> Fraction:
        """The largest share of so many records that can be dropped."""
        return min(Fraction(1), Fraction(self.dropped, records))


def trade_offs(bars: int, drop: float, max_records: int = 1, own: tuple[float, float] | None = None) -> list[TradeOff]:
    """The table for so many bars and a share of records that may be dropped; `own` is one budget more."""
    budgets = {(epsilon, delta) for epsilon in EPSILONS for delta in DELTAS} | ({own} if own is not None else set())
    rows = []
    for epsilon, delta in sorted(budgets, key=lambda budget: (budget[0], -budget[1])):
        q = TruncatedLaplace.for_budget(epsilon, delta, max_records).q
        needed = math.ceil(bars * q / Fraction(repr(float(drop))))
        rows.append(TradeOff(epsilon, delta, q, bars * q, needed))
    return rows
