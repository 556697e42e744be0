"""What engines add up: one whole number for each pair of unit and group, what one unit can change of it, and its noise.

Aggregates publish columns from the noisy sums of one or more measures (`dphist.aggregates.base`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import Final, Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray

from dphist import checks
from dphist.aggregates.tree import LOST, STEP_BITS, Tree
from dphist.errors import InvalidParameter
from dphist.noise.laws import DiscreteLaplace, Law, RoundedGaussian

Kind = Literal["sum", "mean", "rows", "filled", "present", "records", "deviation", "square", "bins", "distinct"]
Floats: TypeAlias = NDArray[np.float64]

MOST_MEASURES: Final = 16
MOST_STEPS: Final = 2**40
LARGEST_SUM: Final = 2**61
"""Sums in steps saturate here, a public limit: saturation never adds to what one unit can change, wrapping would. With noise
of at most 2^58 steps int64 is enough."""

LARGEST_WEIGHT: Final = 1e6
"""How far the shares of an aggregate and of the count may be apart."""

MOST_RECORDS: Final = 2**20
"""A public limit on how much the records of one unit weigh in one group."""

_WHOLE: Final = ("rows", "filled", "present", "records", "distinct")
_BY_RECORD: Final = ("records", "deviation", "square", "bins")
_STEPS_PER_HALF_RANGE: Final = 20
_RECORD_BITS: Final = 40


@dataclass(frozen=True, slots=True)
class Lattice:
    """Where the values of units lie: whole steps from a centre. Both are public, the step is a power of two."""

    centre: float
    step: float


@dataclass(frozen=True, slots=True)
class Measure:
    """What one unit adds to one group, as a whole number of steps from a centre. Sums of it are exact integers.

    sum: the sum of the unit's values, clamped to [lower, upper]; mean: their mean, clamped. rows: how many records it has, at
    most `upper`. filled: 1 if it has a value of any type, 0 if not; present: the same of numbers. The others clamp each record,
    and all records of a unit weigh at most `records` together: records is their weight, deviation adds up how far they are
    from the middle of the bounds, square the squares of that. bins is no number but a weight for each bin of a `Tree`, from
    which quantiles are read: the tree of a group is paid for like as many sums as it has `draws`. distinct: how many values of
    any type it takes, at most `upper` that nobody has taken before it; nothing is added up, see `dphist.engines.distinct`. With
    an `expression`, which gives a record's value, `column` is just its name.

    A unit without any value adds nothing, as in SQL. Its steps are then those of 0, and 0 lies inside the range of steps even
    where it is outside the bounds: the measure is 0 for whoever is not there.

    One unit moves the sum of one group by at most `sensitivity_steps` steps, in either direction. `weight` is its share of the
    budget, relative to the count's.
    """

    kind: Kind
    column: str | None
    lower: float
    upper: float
    weight: float = 1.0
    lattice: Lattice | None = None
    records: int = 1
    expression: str | None = None

    def __post_init__(self) -> None:
        checks.check_choice("kind", self.kind, get_args(Kind))
        if (self.column is None) != (self.kind == "rows"):
            raise InvalidParameter("a column for sums and means, none for rows", repr(self.column))
        if self.kind == "distinct":
            checks.check_between("how many distinct values one unit takes in one group", self.upper, 1, MOST_RECORDS)
            if self.lower != 0 or self.upper != math.floor(self.upper) or self.lattice not in (None, Lattice(0.0, 1.0)):
                raise InvalidParameter(f"a whole number of values, counted from 0, for {self.name}", self.upper)
        if self.expression is not None and (self.column is None or not self.expression.strip()):
            raise InvalidParameter(f"an expression of a record's value for {self.name}", repr(self.expression))
        bounds = f"[{self.lower}, {self.upper}]"
        if not (math.isfinite(self.lower) and math.isfinite(self.upper) and self.lower < self.upper):
            raise InvalidParameter(f"finite bounds lower < upper for {self.name}", bounds, "for example likes:0:1.")
        if not 2.0**-900 < self.upper - self.lower < 2.0**900:
            raise InvalidParameter(f"bounds of ordinary size for {self.name}", bounds)
        if self.kind == "square" and not 2.0**-400 < self.upper - self.lower < 2.0**400:
            raise InvalidParameter(f"bounds of {self.name} that can be squared", bounds)
        checks.check_between(f"a weight of {self.name}", self.weight, 1 / LARGEST_WEIGHT, LARGEST_WEIGHT)
        checks.check_whole("records", self.records)
        checks.check_between("records", self.records, 1, MOST_RECORDS)
        if self.lattice is None:
            object.__setattr__(self, "lattice", self._usual_lattice())
        if self.kind == "bins":
            _ = self.tree  # which checks bounds and records
        least, most = self.span
        if not least <= self.centre <= most:
            raise InvalidParameter(f"a centre of {self.name} inside its bounds", self.centre)
        if not (0 < self.step < math.inf and math.frexp(self.step)[0] == 0.5):
            raise InvalidParameter(f"a power of two as the step of {self.name}", self.step)
        if self.sensitivity_steps > MOST_STEPS:
            raise InvalidParameter(f"at most 2^40 steps for {self.name}", self.sensitivity_steps)
        if not self.whole and self.kind not in ("square", "bins") and self.record_step > self.step:
            hint = "subtract a public offset from the column first."
            raise InvalidParameter(f"bounds of {self.name} not so far from zero", bounds, hint)

    def _usual_lattice(self) -> Lattice:
        """The middle of the span, and about a millionth of half of it (a half for whole numbers)."""
        if self.kind == "bins":
            return Lattice(0.0, 2.0**-self.tree.step_bits)
        if self.kind == "distinct":  # fewer than its most new values are new ones where others have them, too
            return Lattice(0.0, 1.0)
        least, most = self.span
        half = (most - least) / 2
        bits = math.ceil(math.log2(half)) - _STEPS_PER_HALF_RANGE
        return Lattice(least + half, 0.5 if self.whole else 2.0**bits)

    @property
    def span(self) -> tuple[float, float]:
        """The least and the largest number that a unit in the group can add: also 0, for whoever has no value.

        Of a mean, a deviation and a square it is that of one record that is there; who is not there adds no step.
        """
        if self.kind in ("filled", "present", "records", "bins"):
            return 0.0, float(self.records)
        if self.kind == "square":
            return 0.0, self.half**2
        if self.kind == "sum":
            return min(self.lower, 0.0), max(self.upper, 0.0)
        return self.lower, self.upper

    @property
    def whole(self) -> bool:
        """Whether it counts records, not what is in them."""
        return self.kind in _WHOLE

    @property
    def tree(self) -> Tree:
        """The shape of the tree above the bins. Steps are such that all weights of a unit are about 2^20 of them."""
        bits = max(STEP_BITS - (self.records - 1).bit_length(), 0)
        return Tree(self.lower, self.upper, records=self.records, step_bits=bits)

    @property
    def draws(self) -> int:
        """How many numbers with noise of the law one unit moves by `sensitivity_steps` in one group: a level of a tree each."""
        return self.tree.levels if self.kind == "bins" else 1

    @property
    def any_type(self) -> bool:
        """Whether values are compared or counted alone, so that they need not be numbers."""
        return self.kind in ("filled", "distinct")

    @property
    def half(self) -> float:
        """Half of the distance of the bounds."""
        return (self.upper - self.lower) / 2

    @property
    def middle(self) -> float:
        """The middle of the bounds, from which deviations are counted."""
        return self.lower + self.half

    @property
    def name(self) -> str:
        """Its name among the measures of a query; that of a sum, a mean or rows is the name of the column, too."""
        if self.kind == "rows":
            return "rows"
        weighed = f"_{self.records}" if self.kind in _BY_RECORD else ""
        bounds = f"_{self.lower!r}_{self.upper!r}" if self.kind in ("deviation", "square", "bins") else ""
        return f"{self.kind}{weighed}_{self.column}{bounds}"

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
        one = max(most - self.centre, self.centre - least)
        return math.ceil((self.records if self.kind in ("deviation", "square") else 1) * one / self.step)

    @property
    def sensitivity(self) -> float:
        """The same in the units of the column."""
        return self.sensitivity_steps * self.step

    @property
    def record_step(self) -> float:
        """The finer lattice on which single records are added up: 2^-40 of the larger bound, rounded up to a power of two.

        Adding doubles would make a unit's sum depend on the order of its records, and with it on who else is in the
        table: a scan is cut into pieces by the number of rows. Integers add up to the same sum in every order.
        """
        largest = self.half**2 if self.kind == "square" else max(abs(self.lower), abs(self.upper))
        mantissa, exponent = math.frexp(largest)
        ceiling = exponent - 1 if mantissa == 0.5 else exponent
        return math.ldexp(1.0, max(ceiling - _RECORD_BITS, -1060))


def check_names_of_values(measures: Iterable[Measure]) -> None:
    """Refuse one name for two values: what several measures share goes by the name."""
    meanings: dict[str | None, str | None] = {}
    for measure in measures:
        if meanings.setdefault(measure.column, measure.expression) != measure.expression:
            expected = f"one column or expression for the name {measure.column!r}"
            raise InvalidParameter(expected, "two", "give one of them another name.")


@dataclass(frozen=True, slots=True, eq=False)
class Column:
    """Published values, and the stds with which each independent noise enters their error.

    plain: the noisy values, where others are published that are estimated from them; bounds: those of the same estimate.
    span: the least and the largest value that there can be; present: the noisy number of units, or records, with a value.
    """

    name: str
    values: Floats
    noises: tuple[Floats, ...]
    plain: Floats | None = None
    bounds: tuple[Floats, Floats] | None = None
    span: tuple[float, float] | None = None
    present: Floats | None = None

    @property
    def std_errors(self) -> Floats:
        """Independent noises add up in squares."""
        return np.asarray(np.sqrt(sum(noise**2 for noise in self.noises)))

    def where(self, rows: NDArray[np.bool_]) -> Column:
        """Some of the groups; of a column without other bounds than its noises give."""
        return Column(self.name, self.values[rows], tuple(noise[rows] for noise in self.noises))

    @property
    def withheld(self) -> NDArray[np.bool_]:
        """Which values say less than their bounds alone, and are not published."""
        if self.span is None:
            return np.zeros(len(self.values), np.bool_)
        return says_nothing(self.std_errors, self.span)


@dataclass(frozen=True, slots=True, eq=False)
class NoisySum:
    """Noisy recentred sums, the stds of their noises, and the noisy number of units in them with its std.

    of_units: how far the sums move, with a sign, where the number of units is one std too large, part by part: where sums are
    estimated with the help of that number.
    """

    values: Floats
    noises: tuple[Floats, ...]
    units: Floats
    units_std: Floats | float
    of_units: tuple[Floats, ...] = ()


@dataclass(frozen=True, slots=True)
class NoisyMeasure:
    """A measure and the law of the noise that is drawn on its recentred sum in one group, in steps of its lattice.

    Whatever is accounted for or told about the noise is computed from that law.
    """

    measure: Measure
    law: Law

    @property
    def name(self) -> str:
        """The name of the measure."""
        return self.measure.name

    @property
    def noise_std(self) -> float:
        """The standard deviation in the units of the column; of discrete Laplace noise the bound sqrt(2) scale."""
        if isinstance(self.law, DiscreteLaplace):
            return math.sqrt(2) * float(self.law.scale) * self.measure.step
        assert isinstance(self.law, RoundedGaussian)
        return float(self.law.std) * self.measure.step

    def total(self, part: NoisySum) -> tuple[Floats, tuple[Floats, ...]]:
        """The noisy sum of what units add, with the stds of its noises: last the count's, with the centre."""
        centre = self.measure.centre
        of_count = one_error(centre * part.units_std, *part.of_units)
        return part.values + centre * part.units, (*part.noises, of_count)


def says_nothing(std_errors: Floats, span: tuple[float, float]) -> NDArray[np.bool_]:
    """Whether values inside these bounds have errors above that of not looking: of a uniform place between the bounds.

    A function of what is published, the errors, so that it costs nothing and anybody can compute it anew.
    """
    return np.asarray(std_errors > (span[1] - span[0]) * 12**-0.5)


def or_lost(noise: Floats, span: tuple[float, float], number: Floats, std: Floats) -> Floats:
    """The std of a noise; that of no knowledge where the number that a value is divided by is lost in its own noise.

    An error of first order is one only where the divisor is known.
    """
    return np.where(number < LOST * std + 0.5, span[1] - span[0], noise)


def one_error(*parts: Floats | float) -> Floats:
    """The largest std of a sum of errors that come, at least in part, from one cause: each given as a std with its sign.

    Their correlations are not known, but not negative: errors of one sign may add up, and those of two need not cancel.
    """
    up, down = (sum(side(part, 0.0) for part in parts) for side in (np.maximum, np.minimum))
    return np.asarray(np.hypot(up, down))


def squared_sensitivity(measures: Iterable[NoisyMeasure]) -> Fraction:
    """How far one unit moves the sums of one group, in units of their Gaussian noise, squared. Exact."""
    total = Fraction(0)
    for noisy in measures:
        assert isinstance(noisy.law, RoundedGaussian)
        total += noisy.measure.draws * (noisy.measure.sensitivity_steps / noisy.law.std) ** 2
    return total


def pure_epsilon(measures: Iterable[NoisyMeasure]) -> Fraction:
    """The epsilon of the sums of one group under discrete Laplace noise. Exact."""
    total = Fraction(0)
    for noisy in measures:
        assert isinstance(noisy.law, DiscreteLaplace)
        total += noisy.measure.draws * noisy.measure.sensitivity_steps / noisy.law.scale
    return total
