"""The correlated histogram with discrete Gaussian noise [LR25, Algorithm 4]."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, ClassVar, Final

import numpy as np

from dphist import checks
from dphist.aggregates.measures import Measure
from dphist.checks import proved
from dphist.errors import InvalidParameter
from dphist.mechanisms.base import (
    LARGEST_EPSILON,
    OBJECTIVE_WEIGHTS,
    Builder,
    Exact,
    GroupMechanism,
    Integers,
    Kept,
    above,
    add_noise,
    at_most_non_empty,
    error_of_draws,
    target_delta,
    with_sampler_error,
)
from dphist.mechanisms.conditional import Noise, exact_quantile
from dphist.mechanisms.discrete_gaussian import NOISE_SHARES
from dphist.noise import DiscreteGaussian, sample
from dphist.noise.tails import log_max_tail
from dphist.privacy.composition import delta_from_rho, smallest_std
from dphist.privacy.correlated_design import smallest_t
from dphist.privacy.events import ApproximateEvent, ConcentratedEvent, Event
from dphist.privacy.search import smallest_whole

if TYPE_CHECKING:
    from dphist.planning.choices import Objective
    from dphist.planning.request import Request

_MANY: Final = 16.0


@proved("[LR25] Theorem 7.7")
@dataclass(frozen=True, slots=True)
class DiscreteCorrelatedGaussian(GroupMechanism):
    """Release count + (Z_i + Z_c)/2 if above the threshold; Z_i ~ N_Z(0, 4 sigma^2), Z_c ~ N_Z(0, 4 sigma^2/sqrt(k)).

    k = sparsity. variance and common_variance are those two parameters, exact rationals. The formulas of continuous noise
    are false for discrete noise; this one is accounted for by zCDP, and costs more noise than the rounded Gaussian that
    the other mechanisms draw. The threshold is a multiple of one half.
    """

    name: ClassVar[str] = "discrete-correlated-gaussian"
    analysis = "zcdp-and-tail"
    theorem = "[LR25] Theorem 7.7 with the exact chance that a new group is released"
    lattice_bits = 1
    sums_sensitivity = 0.0

    sparsity: int
    variance: Exact
    common_variance: Exact
    threshold: float
    low_threshold: int = 1

    def __post_init__(self) -> None:
        checks.check_whole("sparsity", self.sparsity)
        checks.check_whole("low_threshold", self.low_threshold)
        for law in (self.variance, self.common_variance):
            DiscreteGaussian(law)
        if self.threshold < self.low_threshold or not float(2 * self.threshold).is_integer():
            raise InvalidParameter("a threshold above low_threshold that is a multiple of 1/2", self.threshold)

    @classmethod
    def for_request(cls, request: Request) -> Iterator[Builder]:
        """For who wants multiples of one half, where a public number bounds the non-empty groups."""
        most = request.bounded_groups
        if request.thresholded and request.noise == "discrete" and most is not None:
            yield lambda: calibrate(
                request.mechanism_epsilon,
                target_delta(request),
                most,
                low_threshold=request.low_threshold,
                objective=request.objective,
            )

    @property
    def max_groups(self) -> int:
        """One unit may move every counter."""
        return self.sparsity

    @property
    def noise_std(self) -> float:
        """The total noise on one count."""
        return math.sqrt(self.variance + self.common_variance) / 2

    @property
    def independent_std(self) -> float:
        """The independent noise on one count."""
        return math.sqrt(self.variance) / 2

    @property
    def correlation(self) -> float:
        """Variance of the common noise relative to the independent noise."""
        return float(self.common_variance / self.variance)

    @property
    def assumption(self) -> str:
        """What must hold for the data."""
        return at_most_non_empty(self.sparsity)

    def draw_shared(self) -> int:
        """The common noise of one release, in halves."""
        return int(sample(DiscreteGaussian(self.common_variance), 1)[0])

    def perturb_part(self, counts: Integers, shared: int) -> Kept:
        """Own noise and threshold for some of the groups, whose sparsity has been enforced."""
        eligible = np.flatnonzero(counts >= self.low_threshold)
        noisy = add_noise(counts[eligible], DiscreteGaussian(self.variance), self.lattice_bits, shared)
        return above(noisy, eligible, self.threshold, self.lattice_bits)

    @property
    def gap(self) -> float:
        """threshold - low_threshold."""
        return self.threshold - self.low_threshold

    @property
    def rho(self) -> float:
        """Theorem 7.7: the zCDP parameter of the noise, k/(8 sigma^2) + 1/(2 common_variance); (k + sqrt k)/(8 sigma^2).

        In units of one half a unit moves p <= k counters by 2. Shifting Z_c by 1 leaves a shift of 1 on every counter, up
        or down: k/(2 * 4 sigma^2), whichever counters moved. Rounded up.
        """
        rho = Fraction(self.sparsity) / (2 * self.variance) + 1 / (2 * self.common_variance)
        return math.nextafter(float(rho), math.inf)

    def delta(self, epsilon: float) -> float:
        """Theorem 7.7: the delta of the noise plus the chance that a group of one unit is released. Rounded up."""
        infinity = self.delta_infinity()
        return with_sampler_error(lambda at: self.delta_noise(at) + infinity, epsilon, self.sparsity)

    def delta_noise(self, epsilon: float) -> float:
        """The part of the noise alone."""
        return delta_from_rho(self.rho, epsilon)

    def delta_infinity(self) -> float:
        """P(max_i Z_i + Z_c > 2 gap) over k new groups, as a sum over Z_c. Rounded up."""
        each, common = DiscreteGaussian(self.variance), DiscreteGaussian(self.common_variance)
        return min(1.0, math.exp(log_max_tail(each, common, int(2 * self.gap), self.sparsity)))

    def count_noise(self) -> Noise:
        """The sum of two discrete Gaussians, in halves."""
        laws = (DiscreteGaussian(self.variance), DiscreteGaussian(self.common_variance))
        return Noise(laws, self.lattice_bits, self.noise_std)

    def noise_quantile(self, probability: float) -> float:
        """The smallest half z with P(Z <= z) >= probability; by symmetry below a half."""
        return exact_quantile(self.count_noise(), probability)

    @property
    def _halfway(self) -> float:
        """Between the threshold and the next half."""
        return self.threshold + 0.25

    def covers(self, aggregates: Sequence[Measure]) -> bool:
        """No aggregates: the formulas of continuous noise are false beside this law."""
        return not aggregates

    @property
    def noise_event(self) -> Event:
        """rho of discrete Gaussian noise; mu from (epsilon, delta)."""
        return ApproximateEvent(ConcentratedEvent(self.rho), self.delta_infinity(), error_of_draws(self.sparsity))

    def with_noise(self, request: Request) -> DiscreteCorrelatedGaussian:
        """Its noise is not free: the same."""
        return self


def calibrate(
    epsilon: float,
    target_delta: float,
    sparsity: int,
    *,
    low_threshold: int = 1,
    objective: Objective = "release95",
) -> DiscreteCorrelatedGaussian:
    """The best way to share delta between noise and threshold by the formulas of Gaussian noise, or half and half.

    Little noise is far from Gaussian, so half and half is tried too.
    """
    epsilon = min(epsilon, LARGEST_EPSILON)
    correlation = 1 / math.sqrt(sparsity)

    def sigma_and_gap(share: float) -> tuple[float, float]:
        """The least noise with its share of delta, and about the gap that it then needs."""
        sigma = smallest_std(epsilon, target_delta * share, (sparsity + math.sqrt(sparsity)) / 8)
        return sigma, sigma * smallest_t(target_delta * (1 - share), sparsity, correlation)

    def about(share: float) -> float:
        sigma, gap = sigma_and_gap(share)
        weight = OBJECTIVE_WEIGHTS[objective]
        return sigma if math.isinf(weight) else gap + weight * sigma * math.sqrt(1 + correlation)

    def with_share(share: float) -> DiscreteCorrelatedGaussian:
        sigma, gap = sigma_and_gap(share)
        variance = Fraction(4 * sigma * sigma)
        common = Fraction(float(variance) / math.sqrt(sparsity))

        def built(halves: int) -> DiscreteCorrelatedGaussian:
            return DiscreteCorrelatedGaussian(sparsity, variance, common, low_threshold + halves / 2, low_threshold)

        halves = smallest_whole(
            lambda halves: built(halves).delta(epsilon) <= target_delta,
            limit=math.ceil(240 * sigma) + 4,
            start=max(0, math.ceil(2 * gap)),
        )
        return built(halves)

    likely = min(NOISE_SHARES, key=about)
    shares = [likely] if sigma_and_gap(likely)[0] > _MANY else sorted({0.5, likely})
    return min(map(with_share, shares), key=lambda found: found.objective_value(objective))
