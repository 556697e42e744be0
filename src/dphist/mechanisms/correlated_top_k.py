"""Noisy counts of the k largest groups with correlated noise [LR25, Algorithm 3], debiased."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np

from dphist import checks
from dphist.checks import proved
from dphist.errors import Infeasible
from dphist.mechanisms.base import Fact
from dphist.mechanisms.conditional import Estimates, Noise, estimate_given_release
from dphist.mechanisms.lattice import (
    LARGEST_COUNT,
    Floats,
    Integers,
    Kept,
    add_noise,
    check_correlation,
    check_threshold,
    common_law,
    round_up_to_lattice,
    shared_noise,
)
from dphist.mechanisms.lists import Listed, ListMechanism, counted_facts, counted_list
from dphist.mechanisms.surcharge import COST_UP, LARGEST_EPSILON, error_of_draws, sampler_surcharge, with_sampler_error
from dphist.noise import RoundedGaussian
from dphist.privacy import correlated_gaussian as csh
from dphist.privacy.correlated_design import calibrate_with_base
from dphist.privacy.events import ApproximateEvent, Event, GaussianEvent
from dphist.privacy.special import ndtri
from dphist.words import number

LATTICE_BITS = 12


@proved("correlated.md#4-both")
@dataclass(frozen=True, slots=True)
class CorrelatedTopK(ListMechanism):
    """Subtract the (k+1)-th largest count, noise what stays positive, keep what is above the threshold, add the noisy base.

    s = independent_std, c = correlation, c0 = base_variance: every counter gets N(0, s^2) and one common N(0, c s^2);
    the base, the (k+1)-th count, is released with N(0, c0 s^2) minus the common noise, which so cancels in the
    counts. One unit may be in any number of groups. All noise is drawn on the lattice of 2^-lattice_bits.
    """

    name: ClassVar[str] = "correlated-top-k"
    method: ClassVar[str] = "correlated"
    max_groups = None

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
    def length(self) -> int:
        """The most groups of a list."""
        return self.k

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

    def perturb(self, largest: Integers) -> tuple[Kept, int]:
        """(released positions with their noisy counts, the noisy base in lattice steps), from the k + 1 largest counts."""
        counts = np.minimum(largest, LARGEST_COUNT)
        base = int(counts[self.k]) if len(counts) > self.k else 0
        above_base = counts[: self.k] - base
        eligible = np.flatnonzero(above_base > 0)
        common = shared_noise(self.independent_std, self.correlation, self.lattice_bits)
        of_base = shared_noise(self.independent_std, self.base_variance, self.lattice_bits)
        own = RoundedGaussian(Fraction(self.independent_std), self.lattice_bits)
        noisy = add_noise(above_base[eligible], own, self.lattice_bits, common)
        passed = noisy > int(self.threshold * 2**self.lattice_bits)
        noisy_base = (base << self.lattice_bits) + of_base - common
        return Kept(eligible[passed], noisy[passed] + noisy_base, self.lattice_bits), noisy_base

    def listed(self, largest: Integers, k: int) -> Listed:
        """Keys with noisy counts."""
        kept, base = self.perturb(largest)
        return counted_list(kept, k, base + int(self.threshold * 2**self.lattice_bits))

    def given_cut_off(self, noisy: Floats, cut_off: Floats | float) -> Estimates:
        """Whatever the true base is, which nobody knows.

        y = n + own + of_base is listed if D = y - base, whose noise is own + common, exceeds the threshold. R = D - y/(1 + c0)
        is independent of y. Given R the group is listed if y > (1 + c0)(threshold - R) = y - (1 + c0)(y - cut_off), which
        does not move with y: a threshold like any other, one for each group.
        """
        own = RoundedGaussian(Fraction(self.independent_std), self.lattice_bits)
        of_base = common_law(self.independent_std, self.base_variance, self.lattice_bits)
        assert of_base is not None
        start = noisy - (1 + self.base_variance) * (noisy - cut_off)
        return estimate_given_release(noisy, start, Noise((own, of_base), self.lattice_bits, self.noise_std))

    def delta(self, epsilon: float) -> float:
        """An upper bound on delta at epsilon."""

        def bound(at: float) -> float:
            return csh.delta_with_base(
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
        return self.threshold + self.independent_std * math.sqrt(1 + self.correlation) * float(ndtri(0.95))

    @property
    def noise_event(self) -> Event:
        """mu^2 = S2 with the base released anti-correlated, over independent_std^2; d: a new one of k counters is released."""
        squared = csh.squared_sensitivity_with_base(
            self.k,
            self.correlation,
            self.base_variance,
            lattice_step=2.0**-self.lattice_bits,
        )
        new = csh.delta_infinity(self.gap, self.k, self.independent_std, self.correlation)
        mu = math.sqrt(float(squared)) / self.independent_std * COST_UP
        return ApproximateEvent(GaussianEvent(mu), new, error_of_draws(self.k + 1))

    def with_budget(self, epsilon: float, delta: float) -> CorrelatedTopK:
        """A list of the same length, calibrated for another budget."""
        return calibrate(epsilon, delta, self.k)

    def facts(self, k: int) -> list[Fact]:
        """Noise and threshold in words."""
        common, base = (self.independent_std * math.sqrt(c) for c in (self.correlation, self.base_variance))
        parts = (
            f"std {number(self.independent_std)} of each group's own, std {number(common)} common to all (it cancels in"
            f" the counts), std {number(base)} of the {k + 1:,}-th count: shares of 1 : {number(self.correlation)}"
            f" : {number(self.base_variance)} in variance, chosen for this k"
        )
        return counted_facts(k, ("parts", parts), self.noise_std, self.threshold, self.excess_released_with_95)


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
