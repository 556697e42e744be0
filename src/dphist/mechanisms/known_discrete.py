"""Discrete Gaussian noise on a public list of groups: whole counts."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from dphist import checks
from dphist.aggregates.measures import Measure
from dphist.checks import proved
from dphist.errors import Infeasible
from dphist.mechanisms.base import (
    Builder,
    Integers,
    Kept,
    add_noise,
    error_of_draws,
    round_up,
    target_delta,
    with_sampler_error,
)
from dphist.mechanisms.conditional import Noise, exact_quantile
from dphist.mechanisms.known_groups import ListedGroups
from dphist.noise import DiscreteGaussian
from dphist.privacy.composition import delta_from_rho
from dphist.privacy.discrete_gaussian import delta_discrete_gaussian
from dphist.privacy.events import ApproximateEvent, ConcentratedEvent, Event
from dphist.privacy.search import smallest

if TYPE_CHECKING:
    from dphist.planning.request import Request


@proved("[CKS20] Theorem 7")
@dataclass(frozen=True, slots=True)
class KnownDiscrete(ListedGroups):
    """Noise N_Z(0, noise_std^2) on every group of a public list. No sums: their formulas are of continuous noise.

    Its own profile, all groups of a unit together: the formulas of continuous noise are false for this law.
    """

    name: ClassVar[str] = "known-discrete"
    analysis = "discrete"
    theorem = "[CKS20] Theorem 7 for the sum of a unit's noises"
    lattice_bits = 0
    sums_sensitivity = 0.0
    independent_std = correlation = None

    groups: int
    max_groups: int
    noise_std: float

    def __post_init__(self) -> None:
        self._check_groups()
        checks.check_positive("noise_std", self.noise_std)
        DiscreteGaussian(self.variance)

    @classmethod
    def for_request(cls, request: Request) -> Iterator[Builder]:
        """For counts alone on a dense list of keys, unless it asks for noise that groups share."""
        if not request.thresholded and request.delta > 0 and request.correlation is None and not request.aggregates:
            yield partial(known_discrete, request)

    @property
    def variance(self) -> Fraction:
        """The parameter of the law; its true variance is a little smaller."""
        return Fraction(self.noise_std) ** 2

    @property
    def rho(self) -> float:
        """The zCDP parameter of the noise: max_groups/(2 noise_std^2). Rounded up."""
        return round_up(self.max_groups / (2 * self.variance))

    def perturb_part(self, counts: Integers, shared: int) -> Kept:
        """Own noise for some of the listed groups."""
        noisy = add_noise(counts, DiscreteGaussian(self.variance), 0)
        return Kept(np.arange(len(counts)), noisy, 0)

    def delta(self, epsilon: float) -> float:
        """An upper bound on delta at epsilon."""
        return with_sampler_error(self.delta_noise, epsilon, self.max_groups)

    def delta_noise(self, epsilon: float) -> float:
        """The smaller of two bounds: the law of the sum of a unit's noises, and zCDP, which is better for tiny noise."""
        exact = delta_discrete_gaussian(epsilon, self.noise_std**2, self.max_groups)
        return min(exact, delta_from_rho(self.rho, epsilon))

    def count_noise(self) -> Noise:
        """One discrete Gaussian."""
        return Noise((DiscreteGaussian(self.variance),), 0, self.noise_std)

    def noise_quantile(self, probability: float) -> float:
        """The smallest integer z with P(Z <= z) >= probability; by symmetry below a half."""
        return exact_quantile(self.count_noise(), probability)

    def covers(self, aggregates: Sequence[Measure]) -> bool:
        """No aggregates."""
        return not aggregates

    @property
    def noise_event(self) -> Event:
        """rho of discrete Gaussian noise; no mu is proved for it but that of (epsilon, delta)."""
        return ApproximateEvent(ConcentratedEvent(self.rho), 0.0, error_of_draws(self.max_groups))


def known_discrete(request: Request) -> KnownDiscrete:
    """The least discrete Gaussian noise on a public list, or the noise asked for."""
    assert request.keys is not None
    listed, groups, epsilon, target = (
        request.keys,
        request.groups_per_unit,
        request.mechanism_epsilon,
        target_delta(request),
    )

    def delta_at(log_std: float) -> float:
        return KnownDiscrete(listed, groups, math.exp(log_std)).delta_noise(epsilon)

    if request.noise_std is not None:
        least = delta_at(math.log(request.noise_std))
        if least > target:
            raise Infeasible("noise_std with which discrete noise meets delta", f"{request.noise_std:.6g}", "raise it.")
        return KnownDiscrete(listed, groups, request.noise_std)
    start = math.log(math.sqrt(groups) / epsilon)
    found = smallest(delta_at, target, start=start, low=-14.0, high=30.0, tolerance=1e-9)
    return KnownDiscrete(listed, groups, math.exp(found))
