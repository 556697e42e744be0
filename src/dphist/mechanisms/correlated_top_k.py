"""Noisy counts of the k largest groups with correlated noise [LR25, Algorithm 3], debiased."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np

from dphist import checks
from dphist.errors import Infeasible
from dphist.mechanisms.base import (
    LARGEST_COUNT,
    LARGEST_EPSILON,
    Integers,
    Kept,
    add_noise,
    gaussian_quantile,
    round_up_to_lattice,
    sampler_surcharge,
    with_sampler_error,
)
from dphist.mechanisms.correlated_gaussian import check_correlation, common_noise
from dphist.mechanisms.sparse_gaussian import check_threshold
from dphist.noise import Entropy, RoundedGaussian
from dphist.privacy.correlated_design import calibrate_with_base
from dphist.privacy.correlated_gaussian import delta_with_base

LATTICE_BITS = 12


@dataclass(frozen=True, slots=True)
class CorrelatedTopK:
    """Subtract the (k+1)-th largest count, noise what stays positive, keep what is above the threshold, add the noisy base.

    s = independent_std, c = correlation, c0 = base_variance: every counter gets N(0, s^2) and one common N(0, c s^2);
    the base, the (k+1)-th count, is released with N(0, c0 s^2) minus the common noise, which so cancels in the
    counts. One unit may be in any number of groups. All noise is drawn on the lattice of 2^-lattice_bits.
    """

    name: ClassVar[str] = "correlated-top-k"

    k: int
    independent_std: float
    correlation: float
    base_variance: float
    threshold: float
    lattice_bits: int = LATTICE_BITS

    def __post_init__(self) -> None:
        checks.check_whole("k", self.k)
        checks.check_positive("independent_std", self.independent_std)
        checks.check_positive("correlation", self.correlation)
        checks.check_positive("base_variance", self.base_variance)
        check_correlation(self.correlation)
        check_correlation(self.base_variance)
        check_threshold(self.threshold, 1, self.lattice_bits)

    @property
    def gap(self) -> float:
        """threshold - 1: how far the noise must lift a new counter."""
        return self.threshold - 1

    @property
    def noise_std(self) -> float:
        """The total noise on a released count: s sqrt(1 + c0)."""
        return self.independent_std * math.sqrt(1 + self.base_variance)

    @property
    def theorem(self) -> str:
        """Where the analysis is stated."""
        return "csh-derivation Theorems 2 and 3 with the base released anti-correlated (the exact analysis of [LR25])"

    @property
    def assumption(self) -> str:
        """What must hold for the data."""
        return "each unit is counted once in a group, in any number of groups"

    def perturb(self, largest: Integers, entropy: Entropy | None = None) -> tuple[Kept, int]:
        """(released positions with their noisy counts, the noisy base in lattice steps), from the k + 1 largest counts."""
        counts = np.minimum(largest, LARGEST_COUNT)
        base = int(counts[self.k]) if len(counts) > self.k else 0
        above_base = counts[: self.k] - base
        eligible = np.flatnonzero(above_base > 0)
        common = common_noise(self.independent_std, self.correlation, self.lattice_bits, entropy)
        of_base = common_noise(self.independent_std, self.base_variance, self.lattice_bits, entropy)
        own = RoundedGaussian(Fraction(self.independent_std), self.lattice_bits)
        noisy = add_noise(above_base[eligible], own, self.lattice_bits, entropy, common)
        passed = noisy > int(self.threshold * 2**self.lattice_bits)
        noisy_base = (base << self.lattice_bits) + of_base - common
        return Kept(eligible[passed], noisy[passed] + noisy_base, self.lattice_bits), noisy_base

    def delta(self, epsilon: float) -> float:
        """An upper bound on delta at epsilon."""

        def bound(at: float) -> float:
            return delta_with_base(
                at,
                k=self.k,
                independent_std=self.independent_std,
                correlation=self.correlation,
                base_variance=self.base_variance,
                gap=self.gap,
                lattice_step=2.0**-self.lattice_bits,
            )

        return with_sampler_error(bound, epsilon, self.k + 1)

    @property
    def excess_released_with_95(self) -> float:
        """How far a count must be above the next largest to be released with 95 % probability."""
        return self.threshold + gaussian_quantile(self.independent_std * math.sqrt(1 + self.correlation), 0.95)


def calibrate(epsilon: float, target_delta: float, k: int) -> CorrelatedTopK:
    """Noise and threshold for a budget, with c = 1/sqrt(k) and the better of c0 = 1/sqrt(k) and 2/sqrt(k)."""
    checks.check_whole("k", k)
    epsilon = min(epsilon, LARGEST_EPSILON)
    target = (target_delta - sampler_surcharge(epsilon, k + 2)) * (1 - 1e-6)
    if target <= 0:
        raise Infeasible("a delta above the error of the noise sampler", f"{target_delta:g}", "ask for a larger delta.")
    correlation = 1 / math.sqrt(k)

    def with_base(base_variance: float) -> CorrelatedTopK:
        std, gap = calibrate_with_base(
            epsilon,
            target,
            k=k,
            correlation=correlation,
            base_variance=base_variance,
            lattice_step=2.0**-LATTICE_BITS,
            weight=2.0,
        )
        threshold = round_up_to_lattice(1 + gap, LATTICE_BITS)
        return CorrelatedTopK(k, std, correlation, base_variance, threshold)

    return min(map(with_base, (correlation, 2 * correlation)), key=lambda made: made.excess_released_with_95)
