"""Aggregates: what is asked for per group besides the count of units, the measures that it needs, and the columns it publishes.

Columns follow from noisy sums of measures and from the noisy count alone, so nothing here costs budget.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar, Final, Literal, Self, get_args

import numpy as np

from dphist import checks
from dphist.aggregates.measures import Floats, Measure
from dphist.aggregates.noisy_sums import Column, NoisyMeasure, NoisySum, Parts
from dphist.columns import split_name
from dphist.errors import InvalidParameter
from dphist.words import number

Chosen = Literal["given", "lower", "upper", "both", "nothing"]

PRESENT_SHARE: Final = 0.2
"""The part of a mean's budget, or of a variance's, for the number of units, or records, that have a value."""

_STORED_IF_OTHER: Final = ("records", "chosen", "expression", "probabilities", "excess")
"""Fields that a plan states where they differ from their defaults."""


@dataclass(frozen=True, slots=True)
class Aggregate(ABC):
    """A sum, mean, variance, ... per group. weight: its share of the budget, relative to the count's.

    records: how much the records of one unit weigh in one group at most, where an aggregate is of records (variance, std,
    quantile). probabilities: which quantiles, in rising order; all are read off one tree.

    chosen: which bounds a release chooses from the data, for a share of epsilon; they are None until then. "nothing": it saw
    no value, and the aggregate is left out. excess: what such bounds cut off of a unit's value, or of its square, on average,
    and the root of the mean of its squares; by the noisy histogram. expression: gives a record's value; `column` is just its
    name then.
    """

    kind: ClassVar[str]
    option: ClassVar[str]
    """Its option of plans and releases: columns with bounds."""

    sql: ClassVar[tuple[str, ...]] = ()
    """The functions of SQL that it is."""

    main: ClassVar[type[Measure]]
    """What engines add up for it, in the first place."""

    from_zero: ClassVar[bool] = False
    """Whether it counts, so that its lower bound is 0."""

    whole: ClassVar[bool] = False
    """Whether an upper bound that the data chooses is a whole number."""

    rounded: ClassVar[bool] = False
    """Whether its column is rounded where whole numbers are asked for."""

    of_records: ClassVar[bool] = False
    """Whether its values are those of records, each of which is clamped."""

    squared: ClassVar[bool] = False
    """Whether what is added up are squares of how far values are from their mean."""

    has_probabilities: ClassVar[bool] = False
    needs_max_groups: ClassVar[bool] = False
    """Whether it is private only where something bounds the groups of a unit."""

    states_excess: ClassVar[bool] = True
    """Whether its error states what bounds that the data chose cut off."""

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
        checks.check_choice("chosen", self.chosen, get_args(Chosen))
        if self.from_zero and self.lower != 0:
            raise InvalidParameter(f"a lower bound of 0 for {self.name}", self.lower)
        for bound, sides in ((self.lower, ("lower", "both", "nothing")), (self.upper, ("upper", "both", "nothing"))):
            if bound is None and self.chosen not in sides:
                raise InvalidParameter(f"both bounds of {self.name}", "one or none", "or auto, to have it chosen.")
        self._check()
        if self.excess and (self.chosen == "given" or self.open or not self._has_two_sizes()):
            raise InvalidParameter(f"what the bounds that {self.name} chose cut off, as two numbers", "others")
        _ = self.measures  # which check the bounds

    def _check(self) -> None:
        """What a kind asks of its parameters beside what all do."""
        if bool(self.probabilities) != self.has_probabilities:
            raise InvalidParameter(f"probabilities for a quantile, and for nothing else, in {self.name}", "others")
        if self.records != 1 and not self.of_records:
            raise InvalidParameter(
                f"records of one unit for an aggregate of records, not for {self.name}", self.records
            )

    def _has_two_sizes(self) -> bool:
        return len(self.excess) == 2 and all(0 <= one < math.inf for one in self.excess)

    @classmethod
    def of(
        cls,
        name: str | None,
        expression: str | None,
        bounds: Any,
        records: int = 1,
        probabilities: tuple[float, ...] = (),
    ) -> Self:
        """Of a column, or of an expression under a name; bounds: a pair, in which "auto" lets the data choose, or "auto"."""
        lower, upper = (
            None if bound == "auto" else float(bound) for bound in ((bounds, bounds) if bounds == "auto" else bounds)
        )
        sides: dict[tuple[bool, bool], Chosen] = {(True, True): "both", (True, False): "lower", (False, True): "upper"}
        chosen = sides.get((lower is None, upper is None), "given")
        return cls(
            name, lower, upper, records=records, chosen=chosen, expression=expression, probabilities=probabilities
        )

    @classmethod
    def asked(cls, options: Mapping[str, Any], records: int) -> list[Self]:
        """What the options of a plan ask for, column by column."""
        columns, own = options[cls.option] or {}, records if cls.of_records else 1
        return [cls.of(*split_name(text), bounds, own) for text, bounds in columns.items()]

    def ask(self, written: str, options: dict[str, Any]) -> None:
        """Add to the options of a plan what asks for it, of a column or an expression as they take it."""
        options.setdefault(self.option, {})[written] = self._stated

    @property
    def _stated(self) -> tuple[float | Literal["auto"], float | Literal["auto"]]:
        """The bounds as options have them."""
        return "auto" if self.lower is None else self.lower, "auto" if self.upper is None else self.upper

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
        return None

    @property
    def source(self) -> tuple[object, ...]:
        """Where its bounds come from: aggregates with equal sources choose theirs from one noisy histogram."""
        lower = None if self.chosen in ("lower", "both") else self.lower
        upper = None if self.chosen in ("upper", "both") else self.upper
        return self.main.size, self.column, self.expression, lower, upper

    @property
    def open(self) -> bool:
        """Whether bounds are not chosen yet."""
        return self.chosen != "nothing" and (self.lower is None or self.upper is None)

    @property
    def tails(self) -> tuple[float, float] | None:
        """Which shares of units may lie below and above bounds that the data chooses, if they may cut off no more than that."""
        return None

    def noise_of_sum(self, std: float, lower: Floats, upper: Floats) -> Floats:
        """The noise on the sum of a group, for bounds of these values, where the noise on a count has the given std."""
        half = (upper - lower) / 2
        amount = half**2 if self.squared else half
        return np.asarray(std * self.records * amount / math.sqrt(self.measures[0].weight))

    @property
    def name(self) -> str:
        """The name of its column in a release."""
        return f"{self.kind}_{self.column}"

    @property
    def names(self) -> tuple[str, ...]:
        """The names of its columns in a release."""
        return () if self.chosen == "nothing" else (self.name,)

    @property
    def measures(self) -> tuple[Measure, ...]:
        """What engines add up for it. Their weights add up to its own."""
        return () if self.chosen == "nothing" else self._measures()

    def _measures(self) -> tuple[Measure, ...]:
        """Its measures, if there is a value."""
        return (self._part(self.main),)

    def _part(self, kind: type[Measure], share: float = 1.0, bounds: tuple[float, float] | None = None) -> Measure:
        lower, upper = bounds or self.bounds
        weight = self.weight * share
        return kind(self.column, lower, upper, weight, records=self.records, expression=self.expression)

    def to_data(self) -> dict[str, Any]:
        """As plans store it."""
        stated = [
            one for one in fields(self) if one.name not in _STORED_IF_OTHER or getattr(self, one.name) != one.default
        ]
        return {"kind": self.kind, **{one.name: getattr(self, one.name) for one in stated}}

    def columns(self, parts: Parts) -> list[Column]:
        """The published columns, from noisy values alone. parts: by the names of measures."""
        sums = [part for measure in self.measures if isinstance(part := parts[measure.name], NoisySum)]
        return [self._column(*sums)] if sums else []

    def _column(self, *sums: NoisySum) -> Column:
        """The one column of an aggregate, from the sums of its measures."""
        values, noises = sums[0].total()
        return Column(self.name, values, (*noises, *self._cut(sums[0].units)))

    def _cut(self, units: Floats) -> tuple[Floats, ...]:
        """The error of the sum of so many units from what bounds that the data chose cut off."""
        if not self.excess:
            return ()
        each, spread = self.excess
        units = np.maximum(units, 1.0)
        return (np.asarray(np.hypot(each * units, spread * np.sqrt(units))),)

    def noises(self, noisy: Mapping[str, NoisyMeasure], units: Floats, units_std: Floats) -> tuple[Floats, ...] | None:
        """The stds of the noises in published values, if they follow from the table; None if from unpublished sums, too."""
        if self.span is not None:
            return None
        (measure,) = self.measures
        own = np.full(len(units), noisy[measure.name].noise_std)
        return own, np.asarray(abs(measure.centre) * units_std), *self._cut(units)

    def error_of(self, units: int, noisy: Mapping[str, NoisyMeasure], count_std: float) -> float:
        """The standard error that so many values get which lie evenly between the bounds, if noise has moved nothing."""
        sums = {}
        for measure in self.measures:
            one = noisy[measure.name]
            values = np.array([units * measure.even_mean])
            sums[measure.name] = NoisySum(
                measure, values, (np.array([one.noise_std]),), np.array([float(units)]), count_std
            )
        (column,) = self.columns(sums)
        return float(column.std_errors[0])

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
        return self._in_words(clamped, values, records)

    @abstractmethod
    def _in_words(self, clamped: str, values: str, records: str) -> str:
        """What it estimates, of values, or of records, that are clamped."""

    def fact(self, noisy: Mapping[str, NoisyMeasure]) -> str:
        """The same with its noise."""
        if self.chosen == "nothing":
            return self.estimand
        return f"{self.estimand}; noise of std {self._noise_in_words(noisy[self.measures[0].name])}"

    def _noise_in_words(self, noisy: NoisyMeasure) -> str:
        summed = "deviations" if self.squared else "what is added up, recentred"
        unit = " times the range of the bounds" if self.open else ""
        return f"{number(noisy.noise_std)}{unit} on the sum of {summed}"


def most_in_words(aggregate: Aggregate) -> str:
    """How many of one unit are counted at most."""
    return "as many as the data chooses" if aggregate.open else f"{aggregate.bounds[1]:g}"


def merge(aggregates: Iterable[Aggregate]) -> tuple[Measure, ...]:
    """The measures of several aggregates: one that several need is added up once, with their shares together."""
    measures: dict[str, Measure] = {}
    for aggregate in aggregates:
        for measure in aggregate.measures:
            before = measures.get(measure.name)
            measures[measure.name] = measure if before is None else _together(before, measure)
    # Numbers first: what engines call steps_1, steps_2, ... has no gap.
    return tuple(sorted(measures.values(), key=lambda measure: measure.tree is not None))


def _together(one: Measure, other: Measure) -> Measure:
    if replace(one, weight=1.0) != replace(other, weight=1.0):
        raise InvalidParameter(f"one pair of bounds for {one.name}", "two")
    return replace(one, weight=one.weight + other.weight)
