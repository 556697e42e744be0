"""The mean over units of the mean of a unit's values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from dphist.aggregates.base import PRESENT_SHARE, Aggregate
from dphist.aggregates.count import Present
from dphist.aggregates.measures import IfPresent, Measure, Of
from dphist.aggregates.noisy_sums import Column, NoisySum, one_error, or_lost
from dphist.aggregates.numbers import clamped, double
from dphist.aggregates.total import sums_of_any_size

if TYPE_CHECKING:
    from dphist.engines.dialect import Dialect


@dataclass(frozen=True, slots=True)
class MeanOfUnit(IfPresent):
    """The mean of a unit's values in a group, clamped."""

    kind: ClassVar[str] = "mean"
    size: ClassVar[Of] = "mean"
    sized_by_record: ClassVar[bool] = False

    def _away(self, number: str, total: str) -> str:
        # Where nothing is there, nothing is divided.
        mean = f"{self._total(total)} / GREATEST({number}, 1)"
        return f"{clamped(mean, self.lower, self.upper)} - {double(self.centre)}"

    def sizes(self, value: str, dialect: Dialect) -> tuple[list[str], str]:
        """The mean in one of the unit's groups."""
        columns, total = sums_of_any_size(value, dialect)
        return columns, f"({total}) / number"


@dataclass(frozen=True, slots=True)
class Mean(Aggregate):
    """The mean over units with a value of their means."""

    kind: ClassVar[str] = "mean"
    option: ClassVar[str] = "means"
    sql: ClassVar[tuple[str, ...]] = ("AVG",)
    main: ClassVar[type[Measure]] = MeanOfUnit

    @property
    def span(self) -> tuple[float, float]:
        """A mean of clamped means is inside the bounds."""
        return self.bounds

    def _measures(self) -> tuple[Measure, ...]:
        return self._part(MeanOfUnit, 1 - PRESENT_SHARE), self._part(Present, PRESENT_SHARE, (0.0, 1.0))

    def _column(self, *sums: NoisySum) -> Column:
        """centre + recentred sum/number of units with a value, cut to the bounds. Errors are of first order in the noise."""
        deviation, present = sums
        units, noises = present.total()
        number, std = units, np.sqrt(sum(noise**2 for noise in noises))
        units = np.maximum(units, 1.0)
        centre = deviation.measure.centre
        values = np.clip(centre + deviation.values / units, *self.bounds)
        own = (*deviation.noises, *(np.abs(values - centre) * noise for noise in noises[:-1]))
        of_count = one_error((centre - values) * noises[-1], *deviation.of_units)
        noises = tuple(noise / units for noise in (*own, *self._cut(units)))
        errors = (*noises, or_lost(of_count / units, self.bounds, number, std))
        return Column(self.name, values, errors, span=self.span, present=number)

    def _in_words(self, clamped: str, values: str, records: str) -> str:
        return f"the mean over units with a value of the mean of a unit's {values} in the group, {clamped}"
