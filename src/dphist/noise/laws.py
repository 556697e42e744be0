"""The laws that noise is drawn from, as frozen values with exact parameters.

A parameter is an `int` or a `Fraction`, never a float that stands for "about": the sampled law is the accounted law.
A float is made exact by the caller with `Fraction(x)`, the dyadic number that it holds.

Every law is checked when it is built, against limits that are public constants. No sample of a valid law can exceed
`largest_value`, which is far below 2^63; `require_headroom` checks a sum before any data is touched.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TypeAlias

import numpy as np

from dphist.errors import InvalidParameter
from dphist.privacy.special import ndtr

# Between these two, block starts stay below 2^52 (exact in a float64) and the rounding shift below 2^47.
SMALLEST_SCALE = Fraction(1, 1 << 40)
LARGEST_SCALE = Fraction(1 << 45)
LARGEST_LATTICE_BITS = 52
LARGEST_TRUNCATION = 1 << 61
LARGEST_SAMPLE = 1 << 40
"""More values than this in one call are a mistake, not a request."""


@dataclass(frozen=True, slots=True)
class RoundedGaussian:
    """N(0, std²) rounded to the nearest multiple of g = 2^−lattice_bits; samples are integers in units of g.

    Rounding is post-processing: with counts on the lattice, count + sample·g is the continuous mechanism's answer
    rounded, so every formula for continuous Gaussian noise holds. (A halfway point has probability zero.)
    """

    std: Fraction
    lattice_bits: int

    def __post_init__(self) -> None:
        _make_exact(self, "std")
        whole_number("lattice_bits", self.lattice_bits, 0, LARGEST_LATTICE_BITS)
        _check_scale("std · 2^lattice_bits", self.lattice_std)

    @property
    def lattice_std(self) -> Fraction:
        """The standard deviation before rounding, in lattice units."""
        return self.std * (1 << self.lattice_bits)

    @property
    def drawn_std(self) -> float:
        """The standard deviation of the rounded values, in units of 1: rounding adds g²/12, and less where σ is near g."""
        std = float(self.lattice_std)
        variance = std * std + 1 / 12  # up to exp(−2π²·std²) by Poisson summation
        if std < 2:
            x = np.arange(1, 30, dtype=np.float64)
            variance = 2 * float(np.sum(x * x * (ndtr((0.5 - x) / std) - ndtr((-0.5 - x) / std))))
        return math.ldexp(math.sqrt(variance), -self.lattice_bits)


@dataclass(frozen=True, slots=True)
class DiscreteGaussian:
    """P(x) ∝ exp(−x² / (2·variance)) on the integers.

    `variance` is the parameter of the law; the true variance is a little smaller. Never use this law with formulas for
    continuous Gaussian noise: they are false for it.
    """

    variance: Fraction

    def __post_init__(self) -> None:
        _make_exact(self, "variance")
        if not SMALLEST_SCALE**2 <= self.variance <= LARGEST_SCALE**2:
            raise InvalidParameter("variance between 2^-80 and 2^90", float(self.variance))


@dataclass(frozen=True, slots=True)
class DiscreteLaplace:
    """P(x) ∝ exp(−|x| / scale) on the integers."""

    scale: Fraction

    def __post_init__(self) -> None:
        _make_exact(self, "scale")
        _check_scale("scale", self.scale)


@dataclass(frozen=True, slots=True)
class TruncatedDiscreteLaplace:
    """P(j − q) ∝ exp(epsilon · min(j, q − j)) for j = 0..q: discrete Laplace noise on {−q, …, 0}, centred at −q/2.

    With q odd the two middle values share the top; with q even there is one.
    """

    epsilon: Fraction
    q: int

    def __post_init__(self) -> None:
        _make_exact(self, "epsilon")
        if not 1 / LARGEST_SCALE <= self.epsilon <= 1 / SMALLEST_SCALE:
            raise InvalidParameter("epsilon between 2^-45 and 2^40", float(self.epsilon))
        whole_number("q", self.q, 0, LARGEST_TRUNCATION)


Law: TypeAlias = RoundedGaussian | DiscreteGaussian | DiscreteLaplace | TruncatedDiscreteLaplace


def _make_exact(law: Law, name: str) -> None:
    object.__setattr__(law, name, exact_fraction(name, getattr(law, name)))


def _check_scale(name: str, scale: Fraction) -> None:
    if not SMALLEST_SCALE <= scale <= LARGEST_SCALE:
        hint = "a coarser lattice makes the scale smaller" if scale > LARGEST_SCALE else ""
        raise InvalidParameter(f"{name} between 2^-40 and 2^45", float(scale), hint)


def exact_fraction(name: str, value: object) -> Fraction:
    """The value as a Fraction; refuse everything whose exact value is not plain to see, floats above all."""
    if isinstance(value, bool) or not isinstance(value, int | Fraction):
        hint = "Fraction(x) is the exact value that a float x holds"
        raise InvalidParameter(f"{name} as an int or a Fraction", repr(value), hint)
    return Fraction(value)


def whole_number(name: str, value: object, low: int, high: int) -> int:
    """The value as an int between `low` and `high`."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or not low <= value <= high:
        raise InvalidParameter(f"{name} as an int in [{low}, {high}]", repr(value))
    return int(value)
