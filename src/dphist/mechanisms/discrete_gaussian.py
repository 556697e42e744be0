"""Thresholding with discrete Gaussian noise [Rogers24, Theorem 7]."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, ClassVar, Final

import numpy as np

from dphist import checks
from dphist.aggregates.measures import Measure
from dphist.checks import proved
from dphist.errors import InvalidParameter
from dphist.mechanisms.base import (
    LARGEST_EPSILON,
    Builder,
    GroupMechanism,
    Integers,
    Kept,
    above,
    add_noise,
    error_of_draws,
    in_at_most,
    target_delta,
    with_sampler_error,
)
from dphist.mechanisms.conditional import Noise, exact_quantile
from dphist.noise import DiscreteGaussian
from dphist.noise.tails import log_tail
from dphist.privacy.composition import delta_from_rho, smallest_std
from dphist.privacy.events import ApproximateEvent, ConcentratedEvent, Event
from dphist.privacy.gaussian import quantile_for_infinity
from dphist.privacy.search import smallest_whole

if TYPE_CHECKING:
    from dphist.planning.choices import Objective
    from dphist.planning.request import Request

NOISE_SHARES: Final = (0.5, 0.65, 0.8, 0.9, 0.95)
"""The parts of delta that calibration tries for the noise; the rest is for the threshold."""


@proved("[Rogers24] Theorem 7")
@dataclass(frozen=True, slots=True)
class DiscreteGaussianThreshold(GroupMechanism):
    """Noise N_Z(0, noise_std^2) on every count; release what is strictly above the threshold, a whole number.

    The counts stay integers. The formulas of continuous noise are false for this law, so the noise is accounted for by
    zero-concentrated privacy, which costs more of it than the rounded Gaussian of `SparseGaussian`.
    """

    name: ClassVar[str] = "discrete-gaussian"
    analysis = "zcdp-and-tail"
    theorem = "[Rogers24] Theorem 7 for discrete Gaussian noise, converted by [CKS20] Proposition 7"
    lattice_bits = 0
    sums_sensitivity = 0.0
    sparsity = independent_std = correlation = None

    max_groups: int
    noise_std: float
    threshold: float
    low_threshold: int = 1

    def __post_init__(self) -> None:
        checks.check_whole("max_groups", self.max_groups)
        checks.check_positive("noise_std", self.noise_std)
        checks.check_whole("low_threshold", self.low_threshold)
        DiscreteGaussian(self.variance)
        if self.threshold < self.low_threshold or not float(self.threshold).is_integer():
            raise InvalidParameter("a whole threshold of at least low_threshold", self.threshold)

    @classmethod
    def for_request(cls, request: Request) -> Iterator[Builder]:
        """For who wants whole counts of unknown groups."""
        if request.thresholded and request.noise == "discrete" and request.sketch is None and not request.unbounded:
            yield lambda: calibrate(
                request.mechanism_epsilon,
                target_delta(request),
                request.groups_per_unit,
                noise_std=request.noise_std,
                low_threshold=request.low_threshold,
                objective=request.objective,
            )

    @property
    def variance(self) -> Fraction:
        """The parameter of the law; its true variance is a little smaller."""
        return Fraction(self.noise_std) ** 2

    @property
    def gap(self) -> float:
        """threshold - low_threshold."""
        return self.threshold - self.low_threshold

    @property
    def assumption(self) -> str:
        """What must hold for the data."""
        return in_at_most(self.max_groups)

    @property
    def rho(self) -> float:
        """The zCDP parameter of the noise: max_groups/(2 noise_std^2). Rounded up."""
        return math.nextafter(float(self.max_groups / (2 * self.variance)), math.inf)

    def perturb_part(self, counts: Integers, shared: int) -> Kept:
        """Noise every count of at least low_threshold and keep what is strictly above the threshold."""
        eligible = np.flatnonzero(counts >= self.low_threshold)
        noisy = add_noise(counts[eligible], DiscreteGaussian(self.variance), 0)
        return above(noisy, eligible, self.threshold, 0)

    def delta(self, epsilon: float) -> float:
        """d + (1 - d) delta_CKS(rho, epsilon), d = delta_infinity: this release is truly approximate zCDP. Rounded up."""
        infinity = self.delta_infinity()
        return with_sampler_error(lambda at: infinity + (1 - infinity) * self.delta_noise(at), epsilon, self.max_groups)

    def delta_noise(self, epsilon: float) -> float:
        """The part of the noise alone."""
        return delta_from_rho(self.rho, epsilon)

    def delta_infinity(self) -> float:
        """1 - (1 - P(Z > gap))^max_groups. Rounded up."""
        tail = math.exp(float(log_tail(DiscreteGaussian(self.variance), int(self.gap))))
        return min(1.0, -math.expm1(self.max_groups * math.log1p(-min(tail, 1 - 1e-16))) * (1 + 1e-11))

    def count_noise(self) -> Noise:
        """One discrete Gaussian."""
        return Noise((DiscreteGaussian(self.variance),), 0, self.noise_std)

    def noise_quantile(self, probability: float) -> float:
        """The smallest integer z with P(Z <= z) >= probability; by symmetry below a half."""
        return exact_quantile(self.count_noise(), probability)

    @property
    def _halfway(self) -> float:
        """Between the threshold and the next whole number."""
        return self.threshold + 0.5

    def covers(self, aggregates: Sequence[Measure]) -> bool:
        """No aggregates: the formulas of continuous noise are false beside this law."""
        return not aggregates

    @property
    def noise_event(self) -> Event:
        """rho of discrete Gaussian noise, which is not mu-GDP with the mu of its std: mu from (epsilon, delta)."""
        return ApproximateEvent(ConcentratedEvent(self.rho), self.delta_infinity(), error_of_draws(self.max_groups))

    def with_groups(self, max_groups: int) -> DiscreteGaussianThreshold:
        """The same noise and threshold for another bound on a unit's groups."""
        return replace(self, max_groups=max_groups)


def calibrate(
    epsilon: float,
    target_delta: float,
    max_groups: int,
    *,
    noise_std: float | None = None,
    low_threshold: int = 1,
    objective: Objective = "release95",
) -> DiscreteGaussianThreshold:
    """The best of a few ways to share delta between noise and threshold, or the noise asked for and its smallest threshold."""
    epsilon = min(epsilon, LARGEST_EPSILON)

    def with_noise(std: float) -> DiscreteGaussianThreshold:
        def built(gap: int) -> DiscreteGaussianThreshold:
            return DiscreteGaussianThreshold(max_groups, std, float(low_threshold + gap), low_threshold)

        gap = smallest_whole(
            lambda gap: built(gap).delta(epsilon) <= target_delta,
            limit=math.ceil(60 * std) + 2,
            start=max(0, math.ceil(std * quantile_for_infinity(target_delta / 2, max_groups))),
        )
        return built(gap)

    if noise_std is not None:
        return with_noise(noise_std)
    stds = (smallest_std(epsilon, target_delta * share, max_groups / 2) for share in NOISE_SHARES)
    return min(map(with_noise, stds), key=lambda found: found.objective_value(objective))
