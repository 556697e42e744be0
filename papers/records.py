"""Thresholding of counts of records: one unit adds up to max_per_group to each of max_groups groups [Rogers24, Theorem 7].

The counts handed to `perturb` must already be bounded in both ways. With max_per_group = 1 these are `LaplaceThreshold`,
`SparseGaussian` and `DiscreteGaussianThreshold`. No plan has them: they are the paper's theorem as it stands.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np

from dphist import checks
from dphist.checks import proved
from dphist.errors import InvalidParameter
from dphist.mechanisms.base import Mechanism
from dphist.mechanisms.lattice import Integers, Kept, above, add_noise
from dphist.mechanisms.surcharge import COST_UP, error_of_draws, with_sampler_error
from dphist.noise import DiscreteGaussian, DiscreteLaplace, RoundedGaussian
from dphist.noise.laws import Law
from dphist.noise.tails import log_tail
from dphist.privacy import sparse_gaussian, unknown_domain
from dphist.privacy.composition import delta_from_rho
from dphist.privacy.events import ApproximateEvent, ConcentratedEvent, Event, GaussianEvent, PureEvent, RepeatedEvent


def in_at_most_records(max_groups: int, max_per_group: int) -> str:
    """The bounds on one unit in words."""
    return f"each unit is counted in at most {max_groups:,} groups, at most {max_per_group:,} times in each"


def _check(max_groups: int, max_per_group: int, threshold: float, lattice_bits: int) -> None:
    checks.check_whole("max_groups", max_groups)
    checks.check_whole("max_per_group", max_per_group)
    checks.check_positive("threshold", threshold)
    if threshold < max_per_group or not math.ldexp(threshold, lattice_bits).is_integer():
        raise InvalidParameter(
            f"a threshold of at least max_per_group = {max_per_group} on the lattice of the noise", threshold
        )


def _released(counts: Integers, law: Law, threshold: float, lattice_bits: int) -> Kept:
    """Noise every positive count and keep what is strictly above the threshold."""
    eligible = np.flatnonzero(counts > 0)
    return above(add_noise(counts[eligible], law, lattice_bits), eligible, threshold, lattice_bits)


@proved("[Rogers24] Theorem 7")
def rho_laplace(epsilon_per_group: float, max_groups: int, max_per_group: int = 1) -> float:
    """The tight zCDP parameter of discrete Laplace noise, for which the formula of the continuous one is too small.

    max_groups (e - s (1 - exp(-e))/sinh(s)), e = max_per_group/scale, s = e/max_per_group the exponent per step. Rounded up.
    """
    e = epsilon_per_group
    s = e / max_per_group
    if e < 1e-3:
        return max_groups * e * e / 2  # what every pure mechanism has
    return max_groups * max(0.0, e + s * math.expm1(-e) / math.sinh(s)) * (1 + 1e-9)


@proved("[KKWZ24] Theorem 5.4")
def delta_records(
    epsilon: float, *, noise_std: float, threshold: float, max_groups: int, max_per_group: int = 1
) -> float:
    """Theorem 7, exactly: the sparse Gaussian of [KKWZ24] Theorem 5.4 in units of max_per_group. Rounded up.

    With u shared groups and v = max_groups - u new ones, mu = max_per_group sqrt(u)/noise_std and
    g = v ln Phi((T - max_per_group)/noise_std): the largest over u of 1 - e^g + e^g delta_G(mu, epsilon - g) and
    delta_G(mu, epsilon + g). Needs T >= max_per_group.
    """
    return sparse_gaussian.delta(
        epsilon,
        max_groups=max_groups,
        noise_std=noise_std / max_per_group * (1 - 1e-15),
        gap=(threshold - max_per_group) / max_per_group * (1 - 1e-15),
    )


@proved("[Rogers24] Theorem 7")
@dataclass(frozen=True, slots=True)
class LaplaceRecords(Mechanism):
    """Discrete Laplace noise, P(z) proportional to exp(-|z|/scale), on every count of records."""

    name: ClassVar[str] = "laplace-records"

    max_groups: int
    max_per_group: int
    scale: float
    threshold: float

    def __post_init__(self) -> None:
        DiscreteLaplace(Fraction(self.scale))
        _check(self.max_groups, self.max_per_group, self.threshold, 0)

    @property
    def theorem(self) -> str:
        """Where the analysis is stated."""
        return "[Rogers24] Theorem 7 for discrete Laplace noise"

    @property
    def assumption(self) -> str:
        """What must hold for the data."""
        return in_at_most_records(self.max_groups, self.max_per_group)

    @property
    def pure_epsilon(self) -> Fraction:
        """The epsilon of the noise alone, exactly: max_groups max_per_group/scale."""
        return self.max_groups * self.max_per_group / Fraction(self.scale)

    @property
    def rho(self) -> float:
        """The zCDP parameter of the noise alone, for composition."""
        return rho_laplace(self.max_per_group / self.scale, self.max_groups, self.max_per_group)

    def perturb(self, counts: Integers) -> Kept:
        """Noise every positive count and keep what is strictly above the threshold."""
        return _released(counts, DiscreteLaplace(Fraction(self.scale)), self.threshold, 0)

    def delta_infinity(self) -> float:
        """The probability that a group of one unit is released."""
        return unknown_domain.delta_laplace(int(self.threshold) - self.max_per_group, self.scale, self.max_groups)

    def delta(self, epsilon: float) -> float:
        """d + (1 - d) times the smaller of what a pure and what a zCDP mechanism can have, d = delta_infinity."""
        infinity = self.delta_infinity()

        def bound(at: float) -> float:
            excess = self.pure_epsilon - Fraction(at)
            if excess <= 0:
                return infinity
            pure = -math.expm1(-float(excess)) / (1 + math.exp(-float(self.pure_epsilon))) * (1 + 1e-12)
            return infinity + (1 - infinity) * min(pure, delta_from_rho(self.rho, at))

        return with_sampler_error(bound, epsilon, self.max_groups)

    @property
    def noise_event(self) -> Event:
        """Per group a pure max_per_group/scale, with the tighter rho of discrete Laplace noise."""
        pure = RepeatedEvent((PureEvent(self.max_per_group / self.scale * COST_UP),), self.max_groups)
        noise = ConcentratedEvent(self.rho * COST_UP, pure)
        return ApproximateEvent(noise, self.delta_infinity(), error_of_draws(self.max_groups))


@proved("[Rogers24] Theorem 7")
@dataclass(frozen=True, slots=True)
class GaussianRecords(Mechanism):
    """Gaussian noise on every count of records: rounded to 2^-lattice_bits, or discrete (whole counts).

    Rounded noise has the exact profile of continuous noise; discrete noise is accounted for by zCDP.
    """

    name: ClassVar[str] = "gaussian-records"

    max_groups: int
    max_per_group: int
    noise_std: float
    threshold: float
    discrete: bool = False
    lattice_bits: int = 10

    def __post_init__(self) -> None:
        checks.check_positive("noise_std", self.noise_std)
        if self.discrete:
            object.__setattr__(self, "lattice_bits", 0)
        _check(self.max_groups, self.max_per_group, self.threshold, self.lattice_bits)

    @property
    def law(self) -> DiscreteGaussian | RoundedGaussian:
        """The noise on one count."""
        std = Fraction(self.noise_std)
        return DiscreteGaussian(std**2) if self.discrete else RoundedGaussian(std, self.lattice_bits)

    @property
    def theorem(self) -> str:
        """Where the analysis is stated."""
        if self.discrete:
            return "[Rogers24] Theorem 7 for discrete Gaussian noise, converted by [CKS20] Proposition 7"
        return "[KKWZ24] Theorem 5.4 in units of max_per_group"

    @property
    def assumption(self) -> str:
        """What must hold for the data."""
        return in_at_most_records(self.max_groups, self.max_per_group)

    @property
    def rho(self) -> float:
        """The zCDP parameter of the noise alone, for composition."""
        return unknown_domain.rho_records(self.noise_std, self.max_groups, self.max_per_group)

    def perturb(self, counts: Integers) -> Kept:
        """Noise every positive count and keep what is strictly above the threshold."""
        return _released(counts, self.law, self.threshold, self.lattice_bits)

    def delta_infinity(self) -> float:
        """The probability that a group of one unit is released. Rounded up."""
        law = self.law
        if isinstance(law, RoundedGaussian):
            return sparse_gaussian.delta_infinity(self.threshold - self.max_per_group, self.max_groups, self.noise_std)
        tail = math.exp(float(log_tail(law, int(self.threshold) - self.max_per_group)))
        return min(1.0, -math.expm1(self.max_groups * math.log1p(-min(tail, 1 - 1e-16))) * (1 + 1e-11))

    def delta(self, epsilon: float) -> float:
        """The exact profile, or d + (1 - d) delta_CKS(rho, epsilon) for discrete noise. Rounded up."""

        def bound(at: float) -> float:
            if not self.discrete:
                return delta_records(
                    at,
                    noise_std=self.noise_std,
                    threshold=self.threshold,
                    max_groups=self.max_groups,
                    max_per_group=self.max_per_group,
                )
            infinity = self.delta_infinity()
            return infinity + (1 - infinity) * delta_from_rho(self.rho, at)

        return with_sampler_error(bound, epsilon, self.max_groups)

    @property
    def noise_event(self) -> Event:
        """Rounded noise: mu = max_per_group sqrt(max_groups)/noise_std. Discrete noise: rho."""
        noise = ConcentratedEvent(self.rho) if self.discrete else GaussianEvent(math.sqrt(2 * self.rho) * COST_UP)
        return ApproximateEvent(noise, self.delta_infinity(), error_of_draws(self.max_groups))
