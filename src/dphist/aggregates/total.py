"""The sum of a unit's values, added up over units."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final

import numpy as np

from dphist.aggregates.base import Aggregate
from dphist.aggregates.measures import Amount, Floats, Measure, Of
from dphist.aggregates.numbers import LARGEST_RECORD, clamped, double

if TYPE_CHECKING:
    from dphist.engines.dialect import Dialect

_SCALES: Final = (-60, -30, 0, 30)
"""Records are added up as integers in steps of these powers of two; the finest that does not overflow is the one to read.
(Doubles would make a sum depend on the order of rows.)"""


@dataclass(frozen=True, slots=True)
class SumOfUnit(Amount):
    """The sum of a unit's values in a group, clamped."""

    kind: ClassVar[str] = "sum"
    size: ClassVar[Of] = "sum"
    sized_by_record: ClassVar[bool] = False

    @property
    def span(self) -> tuple[float, float]:
        """Whoever has no value adds 0."""
        return min(self.lower, 0.0), max(self.upper, 0.0)

    def _away(self, number: str, total: str) -> str:
        kept = clamped(self._total(total), self.lower, self.upper)
        return f"CASE WHEN {number} = 0 THEN 0 ELSE {kept} END - {double(self.centre)}"

    def sizes(self, value: str, dialect: Dialect) -> tuple[list[str], str]:
        """The sum in one of the unit's groups."""
        return sums_of_any_size(value, dialect)


def sums_of_any_size(value: str, dialect: Dialect) -> tuple[list[str], str]:
    """The sum of values that nobody has bounded yet."""
    columns = [f"COUNT({value}) AS number", f"MAX(ABS({value})) AS farthest"]
    for place, power in enumerate(_SCALES):
        scaled = clamped(f"{value} / {double(2.0**power)}", -LARGEST_RECORD, LARGEST_RECORD)
        whole = f"CASE WHEN {value} IS NOT NULL THEN {dialect.nearest(scaled)} END"
        columns.append(f"{dialect.exact_sum(whole)} AS sum_{place}")
    read = [f"CAST(sum_{place} AS DOUBLE) * {double(2.0**power)}" for place, power in enumerate(_SCALES)]
    cases = " ".join(
        f"WHEN farthest < {double(2.0 ** (power + 58))} THEN {sql}" for power, sql in zip(_SCALES, read, strict=True)
    )
    return columns, f"CASE {cases} ELSE {read[-1]} END"


@dataclass(frozen=True, slots=True)
class Sum(Aggregate):
    """The sum over units of the sum of a unit's values."""

    kind: ClassVar[str] = "sum"
    option: ClassVar[str] = "sums"
    sql: ClassVar[tuple[str, ...]] = ("SUM",)
    main: ClassVar[type[Measure]] = SumOfUnit

    def noise_of_sum(self, std: float, lower: Floats, upper: Floats) -> Floats:
        """Who has no value adds 0; the noise of the count enters with the centre."""
        least, most = np.minimum(lower, 0.0), np.maximum(upper, 0.0)
        own = (most - least) / 2 / math.sqrt(self.measures[0].weight)
        return np.asarray(std * np.hypot(own, (most + least) / 2))

    def _in_words(self, clamped: str, values: str, records: str) -> str:
        return f"the sum over units of the sum of a unit's {values} in the group, {clamped}"
