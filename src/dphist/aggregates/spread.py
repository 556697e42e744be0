"""The variance of records, and its root, the standard deviation."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dphist.aggregates.base import PRESENT_SHARE, Aggregate
from dphist.aggregates.count import Present, RecordWeight
from dphist.aggregates.measures import Floats, IfPresent, Measure
from dphist.aggregates.noisy_sums import Column, NoisySum, one_error, or_lost
from dphist.aggregates.numbers import clamped, double
from dphist.errors import InvalidParameter


@dataclass(frozen=True, slots=True)
class Deviation(IfPresent):
    """How far a unit's records are from the middle of the bounds, added up; they weigh at most `records` together."""

    kind: ClassVar[str] = "deviation"

    @property
    def name(self) -> str:
        """With all that it depends on."""
        return f"{self.kind}_{self.records}_{self.column}_{self.lower!r}_{self.upper!r}"

    @property
    def sensitivity_steps(self) -> int:
        """All records of a unit count together."""
        least, most = self.span
        return math.ceil(self.records * max(most - self.centre, self.centre - least) / self.step)

    def _of_record(self, value: str) -> str:
        return clamped(value, self.lower, self.upper)

    def _away(self, number: str, total: str) -> str:
        away = f"({self._total(total)} - {number} * {double(self.centre)})"
        return f"{away} * LEAST({double(1)}, {double(self.records)} / GREATEST({number}, 1))"


@dataclass(frozen=True, slots=True)
class Square(Deviation):
    """The squares of these deviations."""

    kind: ClassVar[str] = "square"

    def _check_bounds(self, bounds: str) -> None:
        if not 2.0**-400 < self.upper - self.lower < 2.0**400:
            raise InvalidParameter(f"bounds of {self.name} that can be squared", bounds)

    @property
    def span(self) -> tuple[float, float]:
        """Of one record."""
        return 0.0, self.half**2

    @property
    def even_mean(self) -> float:
        """The variance of the uniform law, counted from the centre."""
        return self.half**2 / 3 - self.centre

    @property
    def _largest(self) -> float:
        return self.half**2

    def _of_record(self, value: str) -> str:
        away = f"({clamped(value, self.lower, self.upper)} - {double(self.lower + self.half)})"
        return f"{away} * {away}"


@dataclass(frozen=True, slots=True)
class Variance(Aggregate):
    """The variance of the records of a group, those of one unit weighing at most `records` together."""

    kind: ClassVar[str] = "variance"
    option: ClassVar[str] = "variances"
    sql: ClassVar[tuple[str, ...]] = ("VAR_POP",)
    main: ClassVar[type[Measure]] = Deviation
    of_records: ClassVar[bool] = True
    squared: ClassVar[bool] = True

    @property
    def span(self) -> tuple[float, float]:
        """Values between two bounds vary by at most half of their distance."""
        lower, upper = self.bounds
        return 0.0, ((upper - lower) / 2) ** 2

    def _measures(self) -> tuple[Measure, ...]:
        share = (1 - PRESENT_SHARE) / 2
        present = Present if self.records == 1 else RecordWeight
        return (
            self._part(Deviation, share),
            self._part(Square, share),
            self._part(present, PRESENT_SHARE, (0.0, 1.0)),
        )

    def _column(self, *sums: NoisySum) -> Column:
        """The mean of squares less the square of the mean, both about the middle of the bounds.

        With S and Q the recentred sums of deviations and squares, k what squares are recentred by, n the records: Q/n + k -
        (S/n)^2, cut to what is possible. Errors are of first order in the noise.
        """
        deviations, squares, present = sums
        records, of_records = present.total()
        n = np.maximum(records, 1.0)
        mean, recentred = deviations.values / n, squares.values / n
        largest = deviations.measure.half**2
        variance = np.clip(recentred + squares.measure.centre - mean**2, 0.0, largest)
        slope = (2 * mean**2 - recentred) / n
        *own, of_count = of_records
        of_units = one_error(
            slope * of_count,
            *(moved / n for moved in squares.of_units),
            *(-2 * mean / n * moved for moved in deviations.of_units),
        )
        std = np.sqrt(sum(noise**2 for noise in of_records))
        noises = (
            *(noise / n for noise in squares.noises),
            *(2 * np.abs(mean) / n * noise for noise in deviations.noises),
            *(np.abs(slope) * noise for noise in own),
            *(cut / n for cut in self._cut(n)),
            or_lost(of_units, (0.0, largest), records, std),
        )
        return Column(self.name, *self._read(variance, noises, largest), span=self.span, present=records)

    def _read(self, variance: Floats, noises: tuple[Floats, ...], largest: float) -> tuple[Floats, tuple[Floats, ...]]:
        """What is published of a variance, with the stds of its noises."""
        return variance, noises

    def _in_words(self, clamped: str, values: str, records: str) -> str:
        return f"the variance {records}"


@dataclass(frozen=True, slots=True)
class StandardDeviation(Variance):
    """The root of the variance."""

    kind: ClassVar[str] = "std"
    option: ClassVar[str] = "stds"
    sql: ClassVar[tuple[str, ...]] = ("STDDEV_POP",)

    @property
    def span(self) -> tuple[float, float]:
        """Half of the distance of the bounds."""
        lower, upper = self.bounds
        return 0.0, (upper - lower) / 2

    def _read(self, variance: Floats, noises: tuple[Floats, ...], largest: float) -> tuple[Floats, tuple[Floats, ...]]:
        """Two errors of the root reach as far as the root of the variance does with two of its own, up or down."""
        std = np.sqrt(variance)
        error = np.sqrt(sum(noise**2 for noise in noises))
        down = std - np.sqrt(np.maximum(variance - 2 * error, 0.0))
        own = np.maximum(down, np.sqrt(variance + 2 * error) - std) / 2 * (1 + 1e-9)  # down to 0 itself
        return std, tuple(np.minimum(noise / error * own, math.sqrt(largest)) for noise in noises)

    def _in_words(self, clamped: str, values: str, records: str) -> str:
        return f"the standard deviation {records}"
