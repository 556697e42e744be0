"""Noisy sums of measures, the noise that is drawn on them, and the columns that are published from them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from dphist.aggregates.measures import Floats, Integers, Measure
from dphist.aggregates.tree import LOST, NoisyQuantiles
from dphist.noise.laws import DiscreteLaplace, Law, RoundedGaussian


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
    """Noisy recentred sums of a measure, the stds of their noises, and the noisy number of units in them with its std.

    of_units: how far the sums move, with a sign, where the number of units is one std too large, part by part: where sums are
    estimated with the help of that number.
    """

    measure: Measure
    values: Floats
    noises: tuple[Floats, ...]
    units: Floats
    units_std: Floats | float
    of_units: tuple[Floats, ...] = ()

    def total(self) -> tuple[Floats, tuple[Floats, ...]]:
        """The noisy sum of what units add, with the stds of its noises: last the count's, with the centre."""
        centre = self.measure.centre
        return self.values + centre * self.units, (*self.noises, one_error(centre * self.units_std, *self.of_units))


Parts: TypeAlias = Mapping[str, NoisySum | NoisyQuantiles]
"""What was drawn for the measures of aggregates, by their names."""


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

    def sums(self, steps: Integers, units: Floats, units_std: Floats | float) -> NoisySum:
        """Noisy recentred sums from noisy steps, beside the noisy number of units."""
        values = np.asarray(steps * self.measure.step, np.float64)
        return NoisySum(self.measure, values, (np.full(len(values), self.noise_std),), units, units_std)


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
