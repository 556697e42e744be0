"""One aggregate from request to column: what is asked, what one unit adds to a group, and the noise that is drawn."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final, Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray

from dphist import checks
from dphist.errors import InvalidParameter
from dphist.noise.laws import DiscreteLaplace, Law, RoundedGaussian

Kind = Literal["sum", "mean", "rows"]
Floats: TypeAlias = NDArray[np.float64]

MOST_AGGREGATES: Final = 16
MOST_STEPS: Final = 2**40
LARGEST_SUM: Final = 2**61
"""Sums in steps saturate here, a public limit: saturation never adds to what one unit can change, wrapping would. With noise
of at most 2^58 steps int64 is enough."""

LARGEST_WEIGHT: Final = 1e6
"""How far the shares of an aggregate and of the count may be apart."""

_STEPS_PER_HALF_RANGE: Final = 20
_RECORD_BITS: Final = 40
_LARGEST_BOUND: Final = 2.0**960


@dataclass(frozen=True, slots=True)
class Lattice:
    """Where the values of units lie: whole steps from a centre. Both are public, the step is a power of two."""

    centre: float
    step: float


@dataclass(frozen=True, slots=True)
class Measure:
    """A sum, mean or number of records per group, besides the count of units.

    Each unit's value in each group is clamped to [lower, upper], recentred and rounded towards the centre of a public lattice,
    so that sums are exact integers and one unit moves the sum of one group by at most `sensitivity_steps` steps, in either
    direction. `weight` is its share of the budget, relative to the count's. With an `expression`, which gives a record's value,
    `column` is just its name.
    """

    kind: Kind
    column: str | None
    lower: float
    upper: float
    weight: float = 1.0
    lattice: Lattice | None = None
    expression: str | None = None

    def __post_init__(self) -> None:
        checks.check_choice("kind", self.kind, get_args(Kind))
        if (self.column is None) != (self.kind == "rows"):
            raise InvalidParameter("a column for sums and means, none for rows", repr(self.column))
        if self.expression is not None and (self.column is None or not self.expression.strip()):
            raise InvalidParameter(f"an expression of a record's value for {self.name}", repr(self.expression))
        bounds = f"[{self.lower}, {self.upper}]"
        if not (math.isfinite(self.lower) and math.isfinite(self.upper) and self.lower < self.upper):
            raise InvalidParameter(f"finite bounds lower < upper for {self.name}", bounds, "for example likes:0:1.")
        if not 2.0**-900 < self.upper - self.lower < 2.0**900:
            raise InvalidParameter(f"bounds of ordinary size for {self.name}", bounds)
        checks.check_between(f"a weight of {self.name}", self.weight, 1 / LARGEST_WEIGHT, LARGEST_WEIGHT)
        if self.lattice is None:
            object.__setattr__(self, "lattice", self._usual_lattice())
        if not self.lower <= self.centre <= self.upper:
            raise InvalidParameter(f"a centre of {self.name} inside its bounds", self.centre)
        if not (0 < self.step < math.inf and math.frexp(self.step)[0] == 0.5):
            raise InvalidParameter(f"a power of two as the step of {self.name}", self.step)
        if self.sensitivity_steps > MOST_STEPS:
            raise InvalidParameter(f"at most 2^40 steps for {self.name}", self.sensitivity_steps)
        far = max(abs(self.lower), abs(self.upper)) > _LARGEST_BOUND
        if far or (self.kind != "rows" and self.record_step > self.step):
            hint = "subtract a public offset from the column first."
            raise InvalidParameter(f"bounds of {self.name} not so far from zero", bounds, hint)

    def _usual_lattice(self) -> Lattice:
        """The middle of the bounds, and about a millionth of half the range (a half for whole rows)."""
        half = (self.upper - self.lower) / 2
        bits = math.ceil(math.log2(half)) - _STEPS_PER_HALF_RANGE
        return Lattice(self.lower + half, 0.5 if self.kind == "rows" else 2.0**bits)

    def to_data(self) -> dict[str, Any]:
        """As plans store it: the lattice follows from the rest. A plan without expressions is one of earlier versions."""
        names = ("kind", "column", "lower", "upper", "weight", *(("expression",) if self.expression else ()))
        return {name: getattr(self, name) for name in names}

    @property
    def name(self) -> str:
        """The name of its column in a release."""
        return "rows" if self.kind == "rows" else f"{self.kind}_{self.column}"

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
        return math.ceil(max(self.upper - self.centre, self.centre - self.lower) / self.step)

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
        mantissa, exponent = math.frexp(max(abs(self.lower), abs(self.upper)))
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
    """

    name: str
    values: Floats
    noises: tuple[Floats, ...]
    plain: Floats | None = None
    bounds: tuple[Floats, Floats] | None = None

    @property
    def std_errors(self) -> Floats:
        """Independent noises add up in squares."""
        return np.asarray(np.sqrt(sum(noise**2 for noise in self.noises)))


@dataclass(frozen=True, slots=True, eq=False)
class NoisySum:
    """Noisy recentred sums, the stds of their noises, and the noisy number of units in them with its std."""

    values: Floats
    noises: tuple[Floats, ...]
    units: Floats
    units_std: Floats | float


@dataclass(frozen=True, slots=True)
class NoisyMeasure:
    """An aggregate and the law of the noise that is drawn on its recentred sum in one group, in steps of its lattice.

    Whatever is accounted for or told about the noise is computed from that law.
    """

    aggregate: Measure
    law: Law

    @property
    def name(self) -> str:
        """The name of the column."""
        return self.aggregate.name

    @property
    def noise_std(self) -> float:
        """The standard deviation in the units of the column; of discrete Laplace noise the bound sqrt(2) scale."""
        if isinstance(self.law, DiscreteLaplace):
            return math.sqrt(2) * float(self.law.scale) * self.aggregate.step
        assert isinstance(self.law, RoundedGaussian)
        return float(self.law.std) * self.aggregate.step

    def column(self, total: NoisySum, ratio: NoisySum) -> Column:
        """The published column, from noisy values alone: of `total` for sums, of `ratio` for means, whose units are positive.

        A sum has the centre added for each unit; a mean is cut to the bounds.
        """
        part = ratio if self.aggregate.kind == "mean" else total
        values = part.values + self.aggregate.centre * part.units
        if self.aggregate.kind == "mean":
            means = self.aggregate.centre + part.values / part.units
            values = np.clip(means, self.aggregate.lower, self.aggregate.upper)
        return Column(self.name, values, self.errors(values, part))

    def errors(self, values: Floats, part: NoisySum) -> tuple[Floats, ...]:
        """The stds of the noises in published values: their own, and the count's, which enters with the centre.

        Of means to first order, with the noise of recentred/units.
        """
        centre = self.aggregate.centre
        if self.aggregate.kind != "mean":
            return (*part.noises, np.asarray(abs(centre) * part.units_std))
        own = tuple(noise / part.units for noise in part.noises)
        return (*own, np.abs(values - centre) * part.units_std / part.units)


def squared_sensitivity(aggregates: Iterable[NoisyMeasure]) -> Fraction:
    """How far one unit moves the sums of one group, in units of their Gaussian noise, squared. Exact."""
    total = Fraction(0)
    for noisy in aggregates:
        assert isinstance(noisy.law, RoundedGaussian)
        total += (noisy.aggregate.sensitivity_steps / noisy.law.std) ** 2
    return total


def pure_epsilon(aggregates: Iterable[NoisyMeasure]) -> Fraction:
    """The epsilon of the sums of one group under discrete Laplace noise. Exact."""
    total = Fraction(0)
    for noisy in aggregates:
        assert isinstance(noisy.law, DiscreteLaplace)
        total += noisy.aggregate.sensitivity_steps / noisy.law.scale
    return total
