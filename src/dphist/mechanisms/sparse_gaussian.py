"""The Gaussian sparse histogram as a mechanism."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import ClassVar

import numpy as np

from dphist import checks
from dphist.errors import InvalidParameter
from dphist.mechanisms.base import (
    MOST_LATTICE_BITS,
    Integers,
    Kept,
    above,
    add_noise,
    gaussian_count_released_with,
    gaussian_quantile,
    gaussian_release_probability,
    round_up_to_lattice,
    with_sampler_error,
)
from dphist.noise import Entropy, RoundedGaussian
from dphist.privacy import sparse_gaussian as gshm

_THEOREMS = {"exact": "Theorem 5.4", "f-dp": "Theorem 7.1", "add-the-deltas": "Corollary 5.4.1"}


@dataclass(frozen=True, slots=True)
class SparseGaussian:
    """Noise N(0, noise_std^2) on every count; release what is strictly above the threshold [KKWZ24].

    The noise is drawn rounded to 2^-lattice_bits, which is post-processing; the threshold lies on that lattice.
    sums_sensitivity: how far one unit moves the other aggregates of one group, in units of their noise.
    """

    name: ClassVar[str] = "sparse-gaussian"

    max_groups: int
    noise_std: float
    threshold: float
    low_threshold: int = 1
    sums_sensitivity: float = 0.0
    analysis: gshm.Analysis = "exact"
    lattice_bits: int = 10

    def __post_init__(self) -> None:
        checks.check_whole("max_groups", self.max_groups)
        checks.check_positive("noise_std", self.noise_std)
        checks.check_whole("low_threshold", self.low_threshold)
        checks.check_not_negative("sums_sensitivity", self.sums_sensitivity)
        checks.check_choice("analysis", self.analysis, gshm.ANALYSES)
        check_threshold(self.threshold, self.low_threshold, self.lattice_bits)

    @property
    def gap(self) -> float:
        """threshold - low_threshold."""
        return self.threshold - self.low_threshold

    @property
    def theorem(self) -> str:
        """Where the analysis is stated."""
        return f"[KKWZ24] {_THEOREMS[self.analysis]}"

    @property
    def assumption(self) -> str:
        """What must hold for the data."""
        return in_at_most(self.max_groups)

    def perturb(self, counts: Integers, entropy: Entropy | None = None) -> Kept:
        """Noise every count of at least low_threshold and keep what is strictly above the threshold."""
        eligible = np.flatnonzero(counts >= self.low_threshold)
        law = RoundedGaussian(Fraction(self.noise_std), self.lattice_bits)
        noisy = add_noise(counts[eligible], law, self.lattice_bits, entropy)
        return above(noisy, eligible, self.threshold, self.lattice_bits)

    def delta(self, epsilon: float) -> float:
        """An upper bound on delta at epsilon."""
        exact = partial(
            gshm.delta,
            max_groups=self.max_groups,
            noise_std=self.noise_std,
            gap=self.gap,
            sums_sensitivity=self.sums_sensitivity,
            analysis=self.analysis,
        )
        return with_sampler_error(exact, epsilon, self.max_groups)

    def delta_gauss(self, epsilon: float) -> float:
        """The part of the noise alone."""
        return gshm.delta_gauss(epsilon, self.max_groups, self.noise_std, self.sums_sensitivity)

    def delta_infinity(self) -> float:
        """The probability that a group of one unit is released."""
        return gshm.delta_infinity(self.gap, self.max_groups, self.noise_std)

    def noise_quantile(self, probability: float) -> float:
        """The quantile of the noise on one count."""
        return gaussian_quantile(self.noise_std, probability)

    def release_probability(self, count: float) -> float:
        """The probability that a group with this many units is released."""
        return (
            gaussian_release_probability(count, self.threshold, self.noise_std) if count >= self.low_threshold else 0.0
        )

    def count_released_with(self, probability: float) -> float:
        """The number of units at which a group is released with this probability."""
        return max(gaussian_count_released_with(probability, self.threshold, self.noise_std), self.low_threshold)


def check_threshold(threshold: float, low_threshold: int, lattice_bits: int) -> None:
    """A threshold not below low_threshold, on a lattice that divides a half."""
    checks.check_positive("threshold", threshold)
    check_lattice(lattice_bits)
    if threshold < low_threshold:
        raise InvalidParameter(f"a threshold of at least low_threshold = {low_threshold}", threshold)
    if round_up_to_lattice(threshold, lattice_bits) != threshold:
        raise InvalidParameter(f"a threshold that is a multiple of 2^-{lattice_bits}", threshold, "round it up.")


def check_lattice(lattice_bits: int) -> None:
    """A lattice that divides a half and leaves room for counts in 64 bits."""
    checks.check_whole("lattice_bits", lattice_bits)
    if lattice_bits > MOST_LATTICE_BITS:
        raise InvalidParameter(f"lattice_bits of at most {MOST_LATTICE_BITS}", lattice_bits)


def in_at_most(max_groups: int) -> str:
    """The bound on a unit's groups in words."""
    groups = "one group" if max_groups == 1 else f"{max_groups:,} groups"
    return f"each unit is counted in at most {groups}, once in each (a release enforces it)"
