"""What engines add up: one whole number for each pair of unit and group, what one unit can change of it, and its noise.

Aggregates publish columns from the noisy sums of one or more measures (`dphist.aggregates.base`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dphist import checks
from dphist.aggregates.numbers import LARGEST_RECORD, LARGEST_SUM, clamped, double
from dphist.aggregates.tree import NoisyQuantiles, Perturb, Tree
from dphist.errors import InvalidParameter
from dphist.noise.laws import Law

if TYPE_CHECKING:
    from dphist.engines.dialect import Dialect

Floats: TypeAlias = NDArray[np.float64]
Integers: TypeAlias = NDArray[np.int64]

MOST_MEASURES: Final = 16
MOST_STEPS: Final = 2**40

LARGEST_WEIGHT: Final = 1e6
"""How far the shares of an aggregate and of the count may be apart."""

MOST_RECORDS: Final = 2**20
"""A public limit on how much the records of one unit weigh in one group."""

_STEPS_PER_HALF_RANGE: Final = 20
_RECORD_BITS: Final = 40


Of = Literal["sum", "mean", "rows", "record", "distinct"]
"""Whose size bounds are chosen by: of the sum or the mean of a unit's values in a group, of its number of records or of
different values there, or of one record."""


@dataclass(frozen=True, slots=True)
class Lattice:
    """Where the values of units lie: whole steps from a centre. Both are public, the step is a power of two."""

    centre: float
    step: float


@dataclass(frozen=True, slots=True)
class Measure:
    """What one unit adds to one group, as a whole number of steps from a centre. Sums of it are exact integers.

    A unit without any value adds nothing, as in SQL. Its steps are then those of 0, and 0 lies inside the range of steps even
    where it is outside the bounds: the measure is 0 for whoever is not there. One unit moves the sum of one group by at most
    `sensitivity_steps` steps, in either direction.

    weight: its share of the budget, relative to the count's. records: how much the records of one unit weigh in one group at
    most, where each record is clamped. With an `expression`, which gives a record's value, `column` is just its name.
    """

    kind: ClassVar[str]
    size: ClassVar[Of] = "record"
    sized_by_record: ClassVar[bool] = True
    """Whether its bounds are chosen by the size of one record of each unit, or of all records in one of its groups."""

    of_column: ClassVar[bool] = True
    counted: ClassVar[bool] = False
    """Whether its bounds are whole numbers, from 0 on."""

    any_type: ClassVar[bool] = False
    """Whether values are compared or counted alone, so that they need not be numbers."""

    added: ClassVar[bool] = True
    """Whether what units add is added up. If not, values of a group are taken by one unit after the other."""

    column: str | None
    lower: float
    upper: float
    weight: float = 1.0
    lattice: Lattice | None = None
    records: int = 1
    expression: str | None = None

    def __post_init__(self) -> None:
        if (self.column is None) == self.of_column:
            raise InvalidParameter("a column for sums and means, none for rows", repr(self.column))
        if self.expression is not None and (self.column is None or not self.expression.strip()):
            raise InvalidParameter(f"an expression of a record's value for {self.name}", repr(self.expression))
        bounds = f"[{self.lower}, {self.upper}]"
        if not (math.isfinite(self.lower) and math.isfinite(self.upper) and self.lower < self.upper):
            raise InvalidParameter(f"finite bounds lower < upper for {self.name}", bounds, "for example likes:0:1.")
        if not 2.0**-900 < self.upper - self.lower < 2.0**900:
            raise InvalidParameter(f"bounds of ordinary size for {self.name}", bounds)
        checks.check_between(f"a weight of {self.name}", self.weight, 1 / LARGEST_WEIGHT, LARGEST_WEIGHT)
        checks.check_whole("records", self.records)
        checks.check_between("records", self.records, 1, MOST_RECORDS)
        self._check_bounds(bounds)
        if self.lattice is None:
            object.__setattr__(self, "lattice", self._usual_lattice())
        least, most = self.span
        if not least <= self.centre <= most:
            raise InvalidParameter(f"a centre of {self.name} inside its bounds", self.centre)
        if not (0 < self.step < math.inf and math.frexp(self.step)[0] == 0.5):
            raise InvalidParameter(f"a power of two as the step of {self.name}", self.step)
        if self.sensitivity_steps > MOST_STEPS:
            raise InvalidParameter(f"at most 2^40 steps for {self.name}", self.sensitivity_steps)
        self._check_step(bounds)

    def _check_bounds(self, bounds: str) -> None:
        """What a kind asks of its bounds beside what all do."""

    def _check_step(self, bounds: str) -> None:
        """What a kind asks of its lattice beside what all do."""

    def _usual_lattice(self) -> Lattice:
        """The middle of the span, and about a millionth of half of it."""
        least, most = self.span
        half = (most - least) / 2
        return Lattice(least + half, 2.0 ** (math.ceil(math.log2(half)) - _STEPS_PER_HALF_RANGE))

    @property
    def span(self) -> tuple[float, float]:
        """The least and the largest number that a unit in the group can add: also 0, for whoever has no value.

        Of a mean, a deviation and a square it is that of one record that is there; who is not there adds no step.
        """
        return self.lower, self.upper

    @property
    def tree(self) -> Tree | None:
        """The shape of the tree above the bins of a unit's records; None where a unit adds one number."""
        return None

    @property
    def draws(self) -> int:
        """How many numbers with noise of the law one unit moves by `sensitivity_steps` in one group: a level of a tree each."""
        return 1

    @property
    def half(self) -> float:
        """Half of the distance of the bounds."""
        return (self.upper - self.lower) / 2

    @property
    def name(self) -> str:
        """Its name among the measures of a query; that of a sum, a mean or rows is the name of the column, too."""
        return f"{self.kind}_{self.column}"

    @property
    def centre(self) -> float:
        """What values are counted from."""
        assert self.lattice is not None
        return self.lattice.centre

    @property
    def step(self) -> float:
        """The distance of two neighbours on the lattice."""
        assert self.lattice is not None
        return self.lattice.step

    @property
    def sensitivity_steps(self) -> int:
        """How many steps one unit moves the recentred sum of one group, at most."""
        least, most = self.span
        return math.ceil(max(most - self.centre, self.centre - least) / self.step)

    @property
    def sensitivity(self) -> float:
        """The same in the units of the column."""
        return self.sensitivity_steps * self.step

    @property
    def even_mean(self) -> float:
        """What units with one value each add on average, from the centre, if values lie evenly between the bounds."""
        return 1 - self.centre

    def number(self, value: str) -> str:
        """The name of the number of a unit's records that count."""
        return f"number_of_{value}"

    def totals(self, position: int, value: str, dialect: Dialect) -> dict[str, str]:
        """What the records of one unit in one group add up to, by name. Nulls are left out, of which NaN is one."""
        return {self.number(value): f"COUNT({value})"}

    def _away(self, number: str, total: str) -> str:
        """What a unit adds, less the centre: SQL of the number of its records and of their total."""
        return f"{clamped(f'CAST({number} AS DOUBLE)', *self.span)} - {double(self.centre)}"

    def steps(self, position: int, value: str, dialect: Dialect) -> str:
        """What one unit adds to the recentred sum of one group, in whole steps, as the column steps_i."""
        return f"{self._whole_steps(self.number(value), f'total_{position}', dialect)} AS steps_{position}"

    def _whole_steps(self, number: str, total: str, dialect: Dialect) -> str:
        # Truncation rounds towards the centre, so that the clamped range stays inside +-sensitivity_steps.
        whole = dialect.truncated(f"({self._away(number, total)}) / {double(self.step)}")
        limit = float(self.sensitivity_steps)
        return f"CAST({clamped(whole, -limit, limit)} AS BIGINT)"

    def sizes(self, value: str, dialect: Dialect) -> tuple[list[str], str]:
        """What is computed from the first of a unit's records or groups, as columns, and its size: SQL of these columns."""
        return [f"MIN({value}) AS number"], "CAST(number AS DOUBLE)"

    def draw(
        self,
        law: Law,
        position: int,
        groups: Mapping[str, Any],
        rows: Integers,
        perturb: Perturb,
        asked: Sequence[float],
        level: float | None,
    ) -> Integers | NoisyQuantiles:
        """Fresh noise on the recentred sums of some of the groups, in steps."""
        return perturb(np.clip(groups[f"steps_{position}"][rows], -LARGEST_SUM, LARGEST_SUM), law)


@dataclass(frozen=True, slots=True)
class Number(Measure):
    """A number of records, whatever is in them; of each unit it is clamped."""

    def _usual_lattice(self) -> Lattice:
        least, most = self.span
        return Lattice(least + (most - least) / 2, 0.5)


@dataclass(frozen=True, slots=True)
class Amount(Measure):
    """What is in the records of a unit, added up on a finer lattice before it is clamped."""

    @property
    def record_step(self) -> float:
        """The finer lattice on which single records are added up: 2^-40 of the larger bound, rounded up to a power of two.

        Adding doubles would make a unit's sum depend on the order of its records, and with it on who else is in the
        table: a scan is cut into pieces by the number of rows. Integers add up to the same sum in every order.
        """
        mantissa, exponent = math.frexp(self._largest)
        ceiling = exponent - 1 if mantissa == 0.5 else exponent
        return math.ldexp(1.0, max(ceiling - _RECORD_BITS, -1060))

    @property
    def _largest(self) -> float:
        return max(abs(self.lower), abs(self.upper))

    def _check_step(self, bounds: str) -> None:
        if self.record_step > self.step:
            hint = "subtract a public offset from the column first."
            raise InvalidParameter(f"bounds of {self.name} not so far from zero", bounds, hint)

    def _of_record(self, value: str) -> str:
        """What one record adds; infinities saturate."""
        return value

    def totals(self, position: int, value: str, dialect: Dialect) -> dict[str, str]:
        """The total, and the number of values; measures of one column share it."""
        scaled = clamped(f"{self._of_record(value)} / {double(self.record_step)}", -LARGEST_RECORD, LARGEST_RECORD)
        whole = f"CASE WHEN {value} IS NOT NULL THEN {dialect.nearest(scaled)} END"
        return {f"total_{position}": dialect.exact_sum(whole), self.number(value): f"COUNT({value})"}

    def _total(self, total: str) -> str:
        return f"CAST({total} AS DOUBLE) * {double(self.record_step)}"


@dataclass(frozen=True, slots=True)
class IfPresent(Amount):
    """An amount that is divided by the number of records: of a unit without a value nothing is added, not even a centre."""

    @property
    def even_mean(self) -> float:
        """Values that lie evenly cancel each other, counted from the middle of the bounds."""
        return 0.0

    def _whole_steps(self, number: str, total: str, dialect: Dialect) -> str:
        return f"CASE WHEN {number} = 0 THEN 0 ELSE {Amount._whole_steps(self, number, total, dialect)} END"


def check_names_of_values(measures: Iterable[Measure]) -> None:
    """Refuse one name for two values: what several measures share goes by the name."""
    meanings: dict[str | None, str | None] = {}
    for measure in measures:
        if meanings.setdefault(measure.column, measure.expression) != measure.expression:
            expected = f"one column or expression for the name {measure.column!r}"
            raise InvalidParameter(expected, "two", "give one of them another name.")
