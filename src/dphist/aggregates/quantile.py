"""Quantiles of records. All of a column are read off one noisy tree (`dphist.aggregates.tree`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any, ClassVar, Final, Self

import numpy as np

from dphist.aggregates.base import Aggregate
from dphist.aggregates.measures import Integers, Lattice, Measure
from dphist.aggregates.noisy_sums import Column, NoisyMeasure, Parts
from dphist.aggregates.tree import STEP_BITS, Bins, NoisyQuantiles, Perturb, Tree, noisy_quantiles
from dphist.columns import split_name
from dphist.errors import InvalidParameter
from dphist.noise.laws import Law
from dphist.words import number

if TYPE_CHECKING:
    from dphist.engines.dialect import Dialect

_OUTSIDE: Final = 0.01
"""The share of units beyond each of the bounds that the data chooses; less of them beyond one that is close to a quantile."""


@dataclass(frozen=True, slots=True)
class BinsOfUnit(Measure):
    """No number but a weight for each bin of a tree: the tree of a group is paid for like as many sums as it has `draws`."""

    kind: ClassVar[str] = "bins"

    def _check_bounds(self, bounds: str) -> None:
        _ = self.tree  # which checks bounds and records

    def _usual_lattice(self) -> Lattice:
        return Lattice(0.0, 2.0**-self.tree.step_bits)

    @property
    def span(self) -> tuple[float, float]:
        """All weights of a unit together."""
        return 0.0, float(self.records)

    @property
    def tree(self) -> Tree:
        """Steps are such that all weights of a unit are about 2^20 of them."""
        bits = max(STEP_BITS - (self.records - 1).bit_length(), 0)
        return Tree(self.lower, self.upper, records=self.records, step_bits=bits)

    @property
    def draws(self) -> int:
        """Every level of the tree."""
        return self.tree.levels

    @property
    def name(self) -> str:
        """With all that it depends on."""
        return f"{self.kind}_{self.records}_{self.column}_{self.lower!r}_{self.upper!r}"

    def steps(self, position: int, value: str, dialect: Dialect) -> str:
        """The list of bins, and the weight of each."""
        return f"bins_{position}, {self.tree.weight_sql(self.number(value), dialect)} AS weight_{position}"

    def draw(
        self,
        law: Law,
        position: int,
        groups: Mapping[str, Any],
        rows: Integers,
        perturb: Perturb,
        asked: Sequence[float],
        level: float | None,
    ) -> NoisyQuantiles:
        """The quantiles of some of the groups. The tree of a group is drawn once for all of its quantiles."""
        return noisy_quantiles(groups[f"bins_{position}"][rows], self.tree, law, asked, level, perturb)


@dataclass(frozen=True, slots=True)
class Quantile(Aggregate):
    """Quantiles of the records of a group, those of one unit weighing at most `records` together."""

    kind: ClassVar[str] = "quantile"
    option: ClassVar[str] = "quantiles"
    sql: ClassVar[tuple[str, ...]] = ("PERCENTILE_CONT", "APPROX_QUANTILES")
    main: ClassVar[type[Measure]] = BinsOfUnit
    of_records: ClassVar[bool] = True
    has_probabilities: ClassVar[bool] = True

    @classmethod
    def asked(cls, options: Mapping[str, Any], records: int) -> list[Self]:
        """One for each column: all of its quantiles, the median among them, are read off one tree."""
        asked = {
            column: (_probabilities(one[0]), _pair(one[1:])) for column, one in (options[cls.option] or {}).items()
        }
        for column, bounds in (options["medians"] or {}).items():
            probabilities, same = asked.get(column, ((), _pair(bounds)))
            if same != _pair(bounds):
                raise InvalidParameter(f"one pair of bounds for the quantiles of {column}", "two")
            asked[column] = ((*probabilities, 0.5), same)
        return [
            cls.of(*split_name(column), pair, records, tuple(sorted(set(some))))
            for column, (some, pair) in asked.items()
        ]

    def _check(self) -> None:
        Aggregate._check(self)
        if not all(0 < p < 1 for p in self.probabilities) or sorted(set(self.probabilities)) != [*self.probabilities]:
            hint = "0.95 is what 95 % of values are below; name each once."
            raise InvalidParameter(f"different probabilities inside (0, 1) for {self.name}", self.probabilities, hint)

    @property
    def span(self) -> tuple[float, float]:
        """Values are clamped."""
        return self.bounds

    @property
    def tails(self) -> tuple[float, float]:
        """Clamping moves no quantile that is inside the bounds."""
        return min(_OUTSIDE, self.probabilities[0] / 10), min(_OUTSIDE, (1 - self.probabilities[-1]) / 10)

    @property
    def names(self) -> tuple[str, ...]:
        """One for each probability."""
        some = () if self.chosen == "nothing" else self.probabilities
        return tuple(f"p{percent_in_name(p)}_{self.column}" for p in some)

    def ask(self, written: str, options: dict[str, Any]) -> None:
        """Those of one column are one, with one pair of bounds."""
        asked = options.setdefault(self.option, {})
        before, *_ = asked.get(written, ((),))
        asked[written] = (sorted({*before, *self.probabilities}), *self._stated)

    def columns(self, parts: Parts) -> list[Column]:
        """A column for each probability, with the bounds of the tree's own interval."""
        if self.chosen == "nothing":
            return []
        noisy = parts[self._measures()[0].name]
        assert isinstance(noisy, NoisyQuantiles)
        low, high = noisy.low, noisy.high
        ends = [None] * len(self.names) if low is None or high is None else list(zip(low, high, strict=True))
        rows = zip(self.names, noisy.values, noisy.std_errors, noisy.totals, ends, strict=True)
        return [
            Column(name, values, (errors,), bounds=bounds, span=self.span, present=totals)
            for name, values, errors, totals, bounds in rows
        ]

    def error_of(self, units: int, noisy: Mapping[str, NoisyMeasure], count_std: float) -> float:
        """Of several quantiles the worst counts."""
        (measure,) = self._measures()
        tree = measure.tree
        assert tree is not None
        ends = np.arange((1 << tree.height) + 1)
        even = Bins(ends[[0, -1]], ends[:-1], np.diff(ends * (units << tree.step_bits) >> tree.height))
        law = noisy[measure.name].law
        found = noisy_quantiles(even, tree, law, self.probabilities, perturb=lambda steps, law: steps)
        return float(found.std_errors.max())

    def _in_words(self, clamped: str, values: str, records: str) -> str:
        return f"quantiles {records}"

    def _noise_in_words(self, noisy: NoisyMeasure) -> str:
        levels = f"a tree of {noisy.measure.draws} levels, from which all quantiles are read"
        return f"{number(noisy.noise_std)} on each weight in {levels}"


def _probabilities(given: Any) -> tuple[float, ...]:
    return (float(given),) if isinstance(given, int | float) else tuple(map(float, given))


def _pair(bounds: Any) -> tuple[Any, Any]:
    """A pair of bounds, also of "auto", or of ("auto",)."""
    if bounds == "auto" or tuple(bounds) == ("auto",):
        return "auto", "auto"
    if len(bounds) != 2:
        raise InvalidParameter("a lower and an upper bound of a quantile", f"{len(bounds)} of them")
    return bounds[0], bounds[1]


def percent_in_name(probability: float) -> str:
    """100 p as a part of a name: 50, or 99_9."""
    return f"{Decimal(repr(probability)) * 100:f}".rstrip("0").rstrip(".").replace(".", "_")
