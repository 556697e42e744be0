"""Laplace thresholding as a mechanism."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np

from dphist import checks
from dphist.errors import InvalidParameter
from dphist.mechanisms.base import Integers, Kept, above, add_noise, with_sampler_error
from dphist.mechanisms.sparse_gaussian import check_threshold, in_at_most
from dphist.noise import DiscreteLaplace, Entropy
from dphist.privacy.unknown_domain import delta_laplace


@dataclass(frozen=True, slots=True)
class LaplaceThreshold:
    """Discrete Laplace noise, P(z) proportional to exp(-|z|/scale), on every count; release what is above the threshold.

    The counts and the threshold are integers. sums_epsilon: what the other aggregates of one group add to the epsilon of
    one group, which is 1/scale for the count.
    """

    name: ClassVar[str] = "laplace"
    lattice_bits: ClassVar[int] = 0

    max_groups: int
    scale: float
    threshold: float
    low_threshold: int = 1
    sums_epsilon: float = 0.0

    def __post_init__(self) -> None:
        checks.check_whole("max_groups", self.max_groups)
        checks.check_positive("scale", self.scale)
        checks.check_whole("low_threshold", self.low_threshold)
        checks.check_not_negative("sums_epsilon", self.sums_epsilon)
        check_threshold(self.threshold, self.low_threshold, 1)
        if not self.threshold.is_integer():
            raise InvalidParameter("a whole threshold", self.threshold, "discrete noise on counts is whole.")

    @property
    def analysis(self) -> str:
        """There is one."""
        return "pure-and-tail"

    @property
    def theorem(self) -> str:
        """Where the analysis is stated."""
        return "[Rogers24] Theorem 7 for discrete Laplace noise"

    @property
    def gap(self) -> float:
        """threshold - low_threshold."""
        return self.threshold - self.low_threshold

    @property
    def assumption(self) -> str:
        """What must hold for the data."""
        return in_at_most(self.max_groups)

    @property
    def noise_std(self) -> float:
        """sqrt(2 r)/(1 - r), r = exp(-1/scale)."""
        return math.sqrt(2 * math.exp(-1 / self.scale)) / -math.expm1(-1 / self.scale)

    @property
    def pure_epsilon(self) -> Fraction:
        """The epsilon of the noise alone, exactly."""
        return self.max_groups * (1 / Fraction(self.scale) + Fraction(self.sums_epsilon))

    def perturb(self, counts: Integers, entropy: Entropy | None = None) -> Kept:
        """Noise every count of at least low_threshold and keep what is strictly above the threshold."""
        eligible = np.flatnonzero(counts >= self.low_threshold)
        noisy = add_noise(counts[eligible], DiscreteLaplace(Fraction(self.scale)), 0, entropy)
        return above(noisy, eligible, self.threshold, 0)

    def delta(self, epsilon: float) -> float:
        """delta_infinity from pure_epsilon on.

        Below it the noise adds (e^p - e^epsilon)/(1 + e^p), p = pure_epsilon: no pure mechanism has a larger delta.
        """
        infinity = self.delta_infinity()

        def bound(at: float) -> float:
            noise = self.delta_gauss(at)
            return infinity + (1 - infinity) * noise

        return with_sampler_error(bound, epsilon, self.max_groups)

    def delta_gauss(self, epsilon: float) -> float:
        """The part of the noise alone: 0 from pure_epsilon on."""
        pure = self.pure_epsilon
        if pure <= Fraction(epsilon):
            return 0.0
        excess = float(pure - Fraction(epsilon))
        return min(1.0, -math.expm1(-excess) / (1 + math.exp(-float(pure))) * (1 + 1e-12))

    def delta_infinity(self) -> float:
        """The probability that a group of one unit is released."""
        return delta_laplace(int(self.gap), self.scale, self.max_groups)

    def noise_quantile(self, probability: float) -> float:
        """The smallest integer z with P(Z <= z) >= probability."""
        if probability < 0.5:
            return -self.noise_quantile(1 - probability)
        ratio = math.exp(-1 / self.scale)
        return float(max(0, math.ceil(-self.scale * math.log((1 - probability) * (1 + ratio)) - 1)))

    def release_probability(self, count: float) -> float:
        """The probability that a group with this many units is released."""
        if count < self.low_threshold:
            return 0.0
        needed = math.floor(self.threshold - count)  # P(Z > needed)
        ratio = math.exp(-1 / self.scale)
        if needed >= 0:
            return math.exp(-(needed + 1) / self.scale) / (1 + ratio)
        return 1 - math.exp(needed / self.scale) / (1 + ratio)

    def count_released_with(self, probability: float) -> float:
        """The number of units at which a group is released with this probability."""
        return max(self.threshold + 1 + self.noise_quantile(probability), self.low_threshold)
