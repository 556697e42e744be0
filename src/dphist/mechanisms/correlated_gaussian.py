"""The correlated stability histogram as a mechanism."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import ClassVar

import numpy as np

from dphist import checks
from dphist.errors import InvalidParameter
from dphist.mechanisms.base import (
    MOST_CORRELATION,
    Integers,
    Kept,
    above,
    add_noise,
    draw_common,
    gaussian_count_released_with,
    gaussian_quantile,
    gaussian_release_probability,
    with_sampler_error,
)
from dphist.mechanisms.sparse_gaussian import check_threshold
from dphist.noise import Entropy, RoundedGaussian
from dphist.privacy import correlated_gaussian as csh

_THEOREMS = {
    "tight": "csh-derivation Theorems 2 and 3 (the exact analysis of [LR25])",
    "paper-3.5": "[LR25] Theorem 3.5",
    "paper-3.3": "[LR25] Theorem 3.3",
}


@dataclass(frozen=True, slots=True)
class CorrelatedGaussian:
    """Independent noise N(0, s^2) on every count plus one common N(0, c s^2); release what is above the threshold [LR25].

    s = independent_std, c = correlation. Every data set has at most `sparsity` non-empty groups, and one unit changes at
    most max_groups of the counters: fewer than `sparsity` only if the keys come from a public list of that length.
    Both noises are drawn rounded to 2^-lattice_bits; the analysis `tight` pays for it.
    """

    name: ClassVar[str] = "correlated-gaussian"

    sparsity: int
    max_groups: int
    independent_std: float
    correlation: float
    threshold: float
    low_threshold: int = 1
    sums_sensitivity: float = 0.0
    analysis: csh.Analysis = "tight"
    lattice_bits: int = 10

    def __post_init__(self) -> None:
        checks.check_whole("sparsity", self.sparsity)
        checks.check_whole("max_groups", self.max_groups)
        checks.check_positive("independent_std", self.independent_std)
        check_correlation(self.correlation)
        checks.check_whole("low_threshold", self.low_threshold)
        checks.check_not_negative("sums_sensitivity", self.sums_sensitivity)
        checks.check_choice("analysis", self.analysis, csh.ANALYSES)
        check_threshold(self.threshold, self.low_threshold, self.lattice_bits)
        if self.max_groups > self.sparsity:
            raise InvalidParameter(f"sparsity of at least max_groups = {self.max_groups}", self.sparsity)
        if self.analysis != "tight":
            self._check_paper()

    def _check_paper(self) -> None:
        if not math.isclose(self.correlation, 1 / math.sqrt(self.sparsity), rel_tol=1e-12):
            raise InvalidParameter(
                f"correlation 1/sqrt(sparsity) for {self.analysis}", self.correlation, "other correlations need tight."
            )
        if self.sums_sensitivity > 0 or self.max_groups != self.sparsity:
            raise InvalidParameter(
                f"no aggregates and max_groups = sparsity for {self.analysis}", self.max_groups, "tight covers both."
            )

    @property
    def gap(self) -> float:
        """threshold - low_threshold."""
        return self.threshold - self.low_threshold

    @property
    def noise_std(self) -> float:
        """The total noise on one count: s sqrt(1 + c)."""
        return self.independent_std * math.sqrt(1 + self.correlation)

    @property
    def theorem(self) -> str:
        """Where the analysis is stated."""
        return _THEOREMS[self.analysis]

    @property
    def assumption(self) -> str:
        """What must hold for the data."""
        if self.max_groups < self.sparsity:
            return (
                f"every key is one of a public list of {self.sparsity:,}, and each unit is counted in at most"
                f" {self.max_groups:,} groups (a release enforces both)"
            )
        return at_most_non_empty(self.sparsity)

    def perturb(self, counts: Integers, entropy: Entropy | None = None) -> Kept:
        """Enforce the sparsity, then noise every count of at least low_threshold and keep what is above the threshold.

        With more than `sparsity` non-empty groups the next largest count is subtracted from all: 0 where the bound holds.
        """
        return self.perturb_part(enforce_sparsity(counts, self.sparsity), self.draw_shared(entropy), entropy)

    def draw_shared(self, entropy: Entropy | None = None) -> int:
        """The common noise of one release, in lattice steps."""
        return common_noise(self.independent_std, self.correlation, self.lattice_bits, entropy)

    def perturb_part(self, sparse: Integers, shared: int, entropy: Entropy | None = None) -> Kept:
        """Own noise and threshold for some of the groups, whose sparsity has been enforced."""
        eligible = np.flatnonzero(sparse >= self.low_threshold)
        own = RoundedGaussian(Fraction(self.independent_std), self.lattice_bits)
        noisy = add_noise(sparse[eligible], own, self.lattice_bits, entropy, shared)
        return above(noisy, eligible, self.threshold, self.lattice_bits)

    def delta(self, epsilon: float) -> float:
        """An upper bound on delta at epsilon."""
        bound = partial(
            csh.delta,
            sparsity=self.sparsity,
            max_groups=self.max_groups,
            independent_std=self.independent_std,
            correlation=self.correlation,
            gap=self.gap,
            sums_sensitivity=self.sums_sensitivity,
            lattice_step=2.0**-self.lattice_bits,
            analysis=self.analysis,
        )
        # The common noise is hidden by shifting the noise of every counter, so all of their samplers count.
        return with_sampler_error(bound, epsilon, self.sparsity)

    def delta_gauss(self, epsilon: float) -> float:
        """The part of the noise alone."""
        if self.analysis != "tight":
            return csh.paper_delta_gauss(epsilon, self.sparsity, self.independent_std, 2.0**-self.lattice_bits)
        return csh.delta_gauss(
            epsilon,
            sparsity=self.sparsity,
            max_groups=self.max_groups,
            independent_std=self.independent_std,
            correlation=self.correlation,
            sums_sensitivity=self.sums_sensitivity,
            lattice_step=2.0**-self.lattice_bits,
        )

    def delta_infinity(self) -> float:
        """The probability that a group of one unit is released (by the paper's bound on it, for the paper's analyses)."""
        if self.analysis != "tight":
            return csh.paper_delta_infinity(self.sparsity, self.independent_std, self.gap)
        return csh.delta_infinity(self.gap, self.max_groups, self.independent_std, self.correlation)

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


def check_correlation(correlation: float) -> None:
    """A correlation >= 0 that is not absurd."""
    checks.check_not_negative("correlation", correlation)
    if correlation > MOST_CORRELATION:
        raise InvalidParameter(f"a correlation of at most {MOST_CORRELATION:g}", correlation)


def at_most_non_empty(sparsity: int) -> str:
    """The bound on non-empty groups in words."""
    return (
        f"at most {sparsity:,} groups are non-empty in any data set (a release enforces it by subtracting the next largest"
        " count)"
    )


def enforce_sparsity(counts: Integers, sparsity: int) -> Integers:
    """Subtract the (sparsity + 1)-th largest count from all and cut at 0: at most `sparsity` stay positive.

    Lemma 4.1 of [LR25]: the result moves by a 0/1 vector or its negative when one unit comes or goes, in up to `sparsity`
    places, whatever order equal counts stand in.
    """
    if len(counts) <= sparsity:
        return counts
    base = np.partition(counts, len(counts) - sparsity - 1)[len(counts) - sparsity - 1]
    return np.asarray(np.maximum(counts - base, 0))


def common_noise(independent_std: float, correlation: float, lattice_bits: int, entropy: Entropy | None) -> int:
    """One draw of N(0, correlation * independent_std^2) on the lattice; 0 without correlation.

    The double nearest to sqrt(correlation) * independent_std stands for the common noise: its square is off by at most
    a few 1e-16, which the rounding allowance of the profile covers.
    """
    if correlation == 0:
        return 0
    return draw_common(RoundedGaussian(Fraction(math.sqrt(correlation) * independent_std), lattice_bits), entropy)
