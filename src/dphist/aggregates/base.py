"""Aggregates: what is asked for per group besides the count of units, the measures that it needs, and the columns it publishes.

Columns follow from noisy sums of measures and from the noisy count alone, so nothing here costs budget.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace
from decimal import Decimal
from types import MappingProxyType
from typing import Any, Final, Literal, get_args

import numpy as np

from dphist import checks
from dphist.aggregates.measures import Column, Floats, Measure, NoisyMeasure, NoisySum, one_error, or_lost
from dphist.aggregates.tree import NoisyQuantiles
from dphist.errors import InvalidParameter
from dphist.words import number

AggregateKind = Literal["sum", "mean", "rows", "count_of", "variance", "std", "quantile", "distinct"]
Chosen = Literal["given", "lower", "upper", "both", "nothing"]

PRESENT_SHARE: Final = 0.2
"""The part of a mean's budget, or of a variance's, for the number of units, or records, that have a value."""

_STORED_IF_OTHER: Final = ("records", "chosen", "expression", "probabilities", "excess")
"""Fields that a plan states where they differ from their defaults."""


@dataclass(frozen=True, slots=True)
class Aggregate:
    """A sum, mean, variance, ... per group. weight: its share of the budget, relative to the count's.

    records: how much the records of one unit weigh in one group at most, where an aggregate is of records (variance, std,
    quantile). probabilities: which quantiles, in rising order; all are read off one tree.

    chosen: which bounds a release chooses from the data, for a share of epsilon; they are None until then. "nothing": it saw
    no value, and the aggregate is left out. excess: what such bounds cut off of a unit's value, or of its square, on average,
    and the root of the mean of its squares; by the noisy histogram. expression: gives a record's value; `column` is just its
    name then.
    """

    kind: AggregateKind
    column: str | None
    lower: float | None
    upper: float | None
    weight: float = 1.0
    records: int = 1
    chosen: Chosen = "given"
    expression: str | None = None
    probabilities: tuple[float, ...] = ()
    excess: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        checks.check_choice("kind", self.kind, get_args(AggregateKind))
        checks.check_choice("chosen", self.chosen, get_args(Chosen))
        if self.kind in ("rows", "count_of", "distinct") and self.lower != 0:
            raise InvalidParameter(f"a lower bound of 0 for {self.name}", self.lower)
        for bound, sides in ((self.lower, ("lower", "both", "nothing")), (self.upper, ("upper", "both", "nothing"))):
            if bound is None and self.chosen not in sides:
                raise InvalidParameter(f"both bounds of {self.name}", "one or none", "or auto, to have it chosen.")
        if self.kind == "count_of" and self.chosen != "given":
            raise InvalidParameter("no bounds to choose for a count of values", self.chosen)
        if (self.kind == "quantile") != bool(self.probabilities):
            raise InvalidParameter(f"probabilities for a quantile, and for nothing else, in {self.name}", "others")
        if not all(0 < p < 1 for p in self.probabilities) or sorted(set(self.probabilities)) != [*self.probabilities]:
            hint = "0.95 is what 95 % of values are below; name each once."
            raise InvalidParameter(f"different probabilities inside (0, 1) for {self.name}", self.probabilities, hint)
        if self.excess and (self.chosen == "given" or self.open or not self._has_two_sizes()):
            raise InvalidParameter(f"what the bounds that {self.name} chose cut off, as two numbers", "others")
        _ = self.measures  # which check the bounds

    def _has_two_sizes(self) -> bool:
        return len(self.excess) == 2 and all(0 <= one < math.inf for one in self.excess)

    @property
    def bounds(self) -> tuple[float, float]:
        """The bounds; those of a range of one, where the data has not chosen them: shares and noise are relative to it."""
        if self.lower is None and self.upper is None:
            return -1.0, 1.0
        if self.upper is None and self.lower is not None:
            return self.lower, self.lower + max(1.0, abs(self.lower))
        if self.lower is None and self.upper is not None:
            return self.upper - 2 * max(1.0, abs(self.upper)), self.upper
        assert self.lower is not None
        assert self.upper is not None
        return self.lower, self.upper

    @property
    def span(self) -> tuple[float, float] | None:
        """The least and the largest value that its columns can have; None where only the number of units limits them."""
        lower, upper = self.bounds
        half = (upper - lower) / 2
        spans = {"mean": (lower, upper), "quantile": (lower, upper), "variance": (0.0, half**2), "std": (0.0, half)}
        return spans.get(self.kind)

    @property
    def source(self) -> tuple[object, ...]:
        """What its bounds are chosen from: aggregates for which it is the same share one noisy histogram."""
        family = self.kind if self.kind in ("sum", "mean", "rows", "distinct") else "record"
        lower = None if self.chosen in ("lower", "both") else self.lower
        upper = None if self.chosen in ("upper", "both") else self.upper
        return family, self.column, self.expression, lower, upper

    @property
    def open(self) -> bool:
        """Whether bounds are not chosen yet."""
        return self.chosen != "nothing" and (self.lower is None or self.upper is None)

    @property
    def name(self) -> str:
        """The name of its column in a release."""
        return "rows" if self.kind == "rows" else f"{self.kind}_{self.column}"

    @property
    def names(self) -> tuple[str, ...]:
        """The names of its columns in a release."""
        if self.kind == "quantile" and self.chosen != "nothing":
            return tuple(f"p{percent_in_name(p)}_{self.column}" for p in self.probabilities)
        return () if self.chosen == "nothing" else (self.name,)

    @property
    def measures(self) -> tuple[Measure, ...]:
        """What engines add up for it. Their weights add up to its own."""
        if self.chosen == "nothing":
            return ()
        if self.kind == "count_of":
            return (self._part("filled", 1.0),)
        if self.kind == "mean":
            return self._part("mean", 1 - PRESENT_SHARE), self._part("present", PRESENT_SHARE)
        if self.kind == "quantile":
            return (self._part("bins", 1.0),)
        if self.kind in ("variance", "std"):
            share = (1 - PRESENT_SHARE) / 2
            present = self._part("present" if self.records == 1 else "records", PRESENT_SHARE)
            return self._part("deviation", share), self._part("square", share), present
        return (self._part(self.kind, 1.0),)

    def _part(self, kind: Any, share: float) -> Measure:
        whole = kind in ("filled", "present", "records")  # of any bounds, so that aggregates of a column share it
        bounds = (0.0, 1.0) if whole else self.bounds
        by_record = kind in ("records", "deviation", "square", "bins")
        return Measure(
            kind,
            self.column,
            *bounds,
            weight=self.weight * share,
            records=self.records if by_record else 1,
            expression=self.expression,
        )

    def to_data(self) -> dict[str, Any]:
        """As plans store it."""
        stated = [
            one for one in fields(self) if one.name not in _STORED_IF_OTHER or getattr(self, one.name) != one.default
        ]
        return {one.name: getattr(self, one.name) for one in stated}

    def columns(
        self,
        sums: Mapping[str, tuple[NoisyMeasure, NoisySum]],
        quantiles: Mapping[str, NoisyQuantiles] = MappingProxyType({}),
    ) -> list[Column]:
        """The published columns, from noisy values alone. sums, quantiles: by the names of measures."""
        if self.kind == "quantile":
            return [column for measure in self.measures for column in self._quantiles(quantiles[measure.name])]
        parts = [sums[measure.name] for measure in self.measures]
        if not parts:
            return []
        if self.kind in ("variance", "std"):
            return [self._spread(*parts)]
        if self.kind == "mean":
            return [self._mean(*parts)]
        noisy, part = parts[0]
        values, noises = noisy.total(part)
        return [Column(self.name, values, (*noises, *self._cut(part.units)))]

    def _cut(self, units: Floats) -> tuple[Floats, ...]:
        """The error of the sum of so many units from what bounds that the data chose cut off."""
        if not self.excess:
            return ()
        each, spread = self.excess
        units = np.maximum(units, 1.0)
        return (np.asarray(np.hypot(each * units, spread * np.sqrt(units))),)

    def _quantiles(self, noisy: NoisyQuantiles) -> list[Column]:
        """A column for each probability, with the bounds of the tree's own interval."""
        none = noisy.low is None or noisy.high is None
        bounds = (None,) * len(self.names) if none else zip(noisy.low, noisy.high, strict=True)  # type: ignore[arg-type]
        rows = zip(self.names, noisy.values, noisy.std_errors, noisy.totals, bounds, strict=True)
        return [
            Column(name, values, (errors,), bounds=ends, span=self.span, present=totals)
            for name, values, errors, totals, ends in rows
        ]

    def _mean(self, deviation: tuple[NoisyMeasure, NoisySum], present: tuple[NoisyMeasure, NoisySum]) -> Column:
        """centre + recentred sum/number of units with a value, cut to the bounds. Errors are of first order in the noise."""
        part = deviation[1]
        units, noises = present[0].total(present[1])
        number, std = units, np.sqrt(sum(noise**2 for noise in noises))
        units = np.maximum(units, 1.0)
        centre = deviation[0].measure.centre
        values = np.clip(centre + part.values / units, *self.bounds)
        own = (*part.noises, *(np.abs(values - centre) * noise for noise in noises[:-1]))
        of_count = one_error((centre - values) * noises[-1], *part.of_units)
        noises = tuple(noise / units for noise in (*own, *self._cut(units)))
        errors = (*noises, or_lost(of_count / units, self.bounds, number, std))
        return Column(self.name, values, errors, span=self.span, present=number)

    def _spread(
        self,
        deviation: tuple[NoisyMeasure, NoisySum],
        square: tuple[NoisyMeasure, NoisySum],
        present: tuple[NoisyMeasure, NoisySum],
    ) -> Column:
        """The mean of squares less the square of the mean, both about the middle of the bounds; or its root.

        With S and Q the recentred sums of deviations and squares, k what squares are recentred by, n the records: Q/n + k -
        (S/n)^2, cut to what is possible. Errors are of first order in the noise.
        """
        records, of_records = present[0].total(present[1])
        n = np.maximum(records, 1.0)
        sums, squares = deviation[1], square[1]
        mean, recentred = sums.values / n, squares.values / n
        largest = deviation[0].measure.half ** 2
        variance = np.clip(recentred + square[0].measure.centre - mean**2, 0.0, largest)
        slope = (2 * mean**2 - recentred) / n
        *own, of_count = of_records
        of_units = one_error(
            slope * of_count,
            *(moved / n for moved in squares.of_units),
            *(-2 * mean / n * moved for moved in sums.of_units),
        )
        std = np.sqrt(sum(noise**2 for noise in of_records))
        noises = (
            *(noise / n for noise in squares.noises),
            *(2 * np.abs(mean) / n * noise for noise in sums.noises),
            *(np.abs(slope) * noise for noise in own),
            *(cut / n for cut in self._cut(n)),
            or_lost(of_units, (0.0, largest), records, std),
        )
        values = variance
        if self.kind == "std":
            values, noises = _root(variance, noises, math.sqrt(largest))
        return Column(self.name, values, noises, span=self.span, present=records)

    def noises(self, noisy: Mapping[str, NoisyMeasure], count: NoisySum) -> tuple[Floats, ...] | None:
        """The stds of the noises in published values, if they follow from the table; None if from unpublished sums, too."""
        measures = self.measures
        if len(measures) > 1 or self.kind == "quantile":
            return None
        own = np.full(len(count.units), noisy[measures[0].name].noise_std)
        return own, np.asarray(abs(measures[0].centre) * count.units_std), *self._cut(count.units)

    @property
    def estimand(self) -> str:
        """What its column estimates, in words."""
        if self.chosen == "nothing":
            return f"nothing: no value of {self.column or 'any unit'} but 0 could be told from noise, so no bounds were found"
        lower, upper = self.bounds
        clamped = "clamped to bounds that the data chooses" if self.open else f"clamped to [{lower:g}, {upper:g}]"
        weight = "one" if self.records == 1 else f"{self.records:,}"
        values = "values" if self.expression is None else f"values of {self.expression}"
        records = f"of records' {values} {clamped}, those of one unit in one group weighing at most {weight} together"
        words = {
            "sum": f"the sum over units of the sum of a unit's {values} in the group, {clamped}",
            "mean": f"the mean over units with a value of the mean of a unit's {values} in the group, {clamped}",
            "rows": f"the number of records, at most {'as many as the data chooses' if self.open else f'{upper:g}'} of a unit",
            "count_of": f"the number of units with a value in {self.column}",
            "distinct": (
                f"the number of distinct values of {self.column}, of which one unit adds at most "
                f"{'as many as the data chooses' if self.open else f'{upper:g}'} that nobody else has added:"
                " a lower bound where units have more of them"
            ),
            "variance": f"the variance {records}",
            "std": f"the standard deviation {records}",
            "quantile": f"quantiles {records}",
        }
        return words[self.kind]

    def fact(self, noisy: Mapping[str, NoisyMeasure]) -> str:
        """The same with its noise."""
        if self.chosen == "nothing":
            return self.estimand
        first = noisy[self.measures[0].name]
        if self.kind == "quantile":
            tree = f"a tree of {first.measure.draws} levels, from which all quantiles are read"
            return f"{self.estimand}; noise of std {number(first.noise_std)} on each weight in {tree}"
        if self.kind == "distinct":
            unit = " times that number" if self.open else ""
            return f"{self.estimand}; noise of std {number(first.noise_std)}{unit}"
        what = "deviations" if self.kind in ("variance", "std") else "what is added up, recentred"
        unit = " times the range of the bounds" if self.open else ""
        return f"{self.estimand}; noise of std {number(first.noise_std)}{unit} on the sum of {what}"


def percent_in_name(probability: float) -> str:
    """100 p as a part of a name: 50, or 99_9."""
    return f"{Decimal(repr(probability)) * 100:f}".rstrip("0").rstrip(".").replace(".", "_")


def _root(variance: Floats, noises: tuple[Floats, ...], most: float) -> tuple[Floats, tuple[Floats, ...]]:
    """The square root. Two of its errors reach as far as the root of the variance does with two of its own, up or down."""
    std = np.sqrt(variance)
    error = np.sqrt(sum(noise**2 for noise in noises))
    down = std - np.sqrt(np.maximum(variance - 2 * error, 0.0))
    own = np.maximum(down, np.sqrt(variance + 2 * error) - std) / 2 * (1 + 1e-9)  # down to 0 itself
    return std, tuple(np.minimum(noise / error * own, most) for noise in noises)


def merge(aggregates: Iterable[Aggregate]) -> tuple[Measure, ...]:
    """The measures of several aggregates: one that several need is added up once, with their shares together."""
    measures: dict[str, Measure] = {}
    # Numbers first: what engines call steps_1, steps_2, ... has no gap.
    aggregates = sorted(aggregates, key=lambda aggregate: aggregate.kind == "quantile")
    for aggregate in aggregates:
        for measure in aggregate.measures:
            before = measures.get(measure.name)
            measures[measure.name] = measure if before is None else _together(before, measure)
    return tuple(measures.values())


def _together(one: Measure, other: Measure) -> Measure:
    if replace(one, weight=1.0) != replace(other, weight=1.0):
        raise InvalidParameter(f"one pair of bounds for {one.name}", "two")
    return replace(one, weight=one.weight + other.weight)
