"""Noise on a public list of groups: nothing to hide, no threshold."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np

from dphist import checks
from dphist.errors import InvalidParameter
from dphist.mechanisms.base import Integers, Kept, add_noise, gaussian_quantile, with_sampler_error
from dphist.mechanisms.correlated_gaussian import check_correlation, common_noise
from dphist.mechanisms.sparse_gaussian import check_lattice
from dphist.noise import Entropy, RoundedGaussian
from dphist.privacy import correlated_gaussian as csh


@dataclass(frozen=True, slots=True)
class KnownGroups:
    """Every group of a public list gets N(0, s^2) of its own plus one common N(0, c s^2), also where nobody is in it.

    s = independent_std, c = correlation. [LR25] Lemma 2.8 with a free correlation and contribution bound.
    """

    name: ClassVar[str] = "known-groups"

    groups: int
    max_groups: int
    independent_std: float
    correlation: float = 0.0
    sums_sensitivity: float = 0.0
    lattice_bits: int = 10

    def __post_init__(self) -> None:
        checks.check_whole("the number of public keys", self.groups)
        checks.check_whole("max_groups", self.max_groups)
        checks.check_positive("independent_std", self.independent_std)
        check_correlation(self.correlation)
        checks.check_not_negative("sums_sensitivity", self.sums_sensitivity)
        check_lattice(self.lattice_bits)
        if self.max_groups > self.groups:
            raise InvalidParameter(f"max_groups of at most the {self.groups} listed keys", self.max_groups)

    @property
    def analysis(self) -> str:
        """Whether the common noise is used."""
        return "correlated" if self.correlation > 0 else "independent"

    @property
    def theorem(self) -> str:
        """Where the analysis is stated."""
        return "[BW18] Theorem 8" + (" with the sensitivity of [LR25] Lemma 2.8" if self.correlation > 0 else "")

    @property
    def noise_std(self) -> float:
        """The total noise on one count: s sqrt(1 + c)."""
        return self.independent_std * math.sqrt(1 + self.correlation)

    @property
    def assumption(self) -> str:
        """What must hold for the data."""
        return (
            f"the list of {self.groups:,} keys is public, other keys are dropped, and each unit is counted in at most"
            f" {self.max_groups:,} groups (a release enforces it)"
        )

    def perturb(self, counts: Integers, entropy: Entropy | None = None) -> Kept:
        """Noise every listed group, the empty ones too; all are kept."""
        if len(counts) != self.groups:
            raise InvalidParameter(f"the counts of all {self.groups} listed groups", len(counts))
        return self.perturb_part(counts, self.draw_shared(entropy), entropy)

    def draw_shared(self, entropy: Entropy | None = None) -> int:
        """The common noise of one release, in lattice steps."""
        return common_noise(self.independent_std, self.correlation, self.lattice_bits, entropy)

    def perturb_part(self, counts: Integers, shared: int, entropy: Entropy | None = None) -> Kept:
        """Own noise for some of the listed groups."""
        own = RoundedGaussian(Fraction(self.independent_std), self.lattice_bits)
        noisy = add_noise(counts, own, self.lattice_bits, entropy, shared)
        return Kept(np.arange(len(counts)), noisy, self.lattice_bits)

    def delta(self, epsilon: float) -> float:
        """An upper bound on delta at epsilon."""
        return with_sampler_error(self.delta_gauss, epsilon, self.groups)

    def delta_gauss(self, epsilon: float) -> float:
        """The part of the noise alone: all of it."""
        return csh.delta_gauss(
            epsilon,
            sparsity=self.groups,
            max_groups=self.max_groups,
            independent_std=self.independent_std,
            correlation=self.correlation,
            sums_sensitivity=self.sums_sensitivity,
            lattice_step=2.0**-self.lattice_bits,
        )

    def noise_quantile(self, probability: float) -> float:
        """The quantile of the noise on one count."""
        return gaussian_quantile(self.noise_std, probability)
