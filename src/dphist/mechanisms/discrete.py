"""Discrete Gaussian noise: thresholds [Rogers24, Theorem 7; LR25, Algorithm 4], and public lists of groups."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import TYPE_CHECKING, ClassVar, Final

from dphist import checks
from dphist.aggregates.measures import Measure
from dphist.checks import proved
from dphist.errors import Infeasible, InvalidParameter
from dphist.mechanisms.base import OBJECTIVE_WEIGHTS, Builder, Exact, GroupMechanism, ThresholdMechanism
from dphist.mechanisms.conditional import exact_quantile
from dphist.mechanisms.known_groups import ListedGroups
from dphist.mechanisms.surcharge import LARGEST_EPSILON, error_of_draws, round_up, target_delta, with_sampler_error
from dphist.noise import DiscreteGaussian
from dphist.noise.tails import log_max_tail, log_tail
from dphist.privacy.composition import delta_from_rho, smallest_std
from dphist.privacy.correlated_design import smallest_t
from dphist.privacy.events import ApproximateEvent, ConcentratedEvent, Event
from dphist.privacy.gaussian import delta_discrete_gaussian, quantile_for_infinity
from dphist.privacy.search import smallest, smallest_whole

if TYPE_CHECKING:
    from dphist.planning.choices import Objective
    from dphist.planning.request import Request

NOISE_SHARES: Final = (0.5, 0.65, 0.8, 0.9, 0.95)
"""The parts of delta that calibration tries for the noise; the rest is for the threshold."""

_MANY: Final = 16.0


class DiscreteNoise(GroupMechanism):
    """Discrete Gaussian noise. The formulas of continuous noise are false for it: it is accounted for by zCDP."""

    __slots__ = ()
    sums_sensitivity = 0.0

    if TYPE_CHECKING:

        @property
        def rho(self) -> float:
            """The zCDP parameter of the noise."""

    def delta_noise(self, epsilon: float) -> float:
        """The part of the noise alone."""
        return delta_from_rho(self.rho, epsilon)

    def noise_quantile(self, probability: float) -> float:
        """The smallest step z with P(Z <= z) >= probability; by symmetry below a half."""
        return exact_quantile(self.count_noise(), probability)

    @property
    def _halfway(self) -> float:
        """Between the threshold and the next step."""
        assert self.threshold is not None
        return self.threshold + math.ldexp(0.5, -self.lattice_bits)

    def covers(self, aggregates: Sequence[Measure]) -> bool:
        """No aggregates: the formulas of continuous noise are false beside this law."""
        return not aggregates

    @property
    def noise_event(self) -> Event:
        """rho of discrete Gaussian noise, which is not mu-GDP with the mu of its std: mu from (epsilon, delta)."""
        return ApproximateEvent(
            ConcentratedEvent(self.rho), self.delta_infinity() or 0.0, error_of_draws(self.max_groups)
        )


class WholeDiscreteNoise(DiscreteNoise):
    """The noise N_Z(0, noise_std^2) of each group's own, on counts that stay whole."""

    __slots__ = ()
    lattice_bits = 0
    independent_std = correlation = None

    @property
    def variance(self) -> Fraction:
        """The parameter of the law; its true variance is a little smaller."""
        return Fraction(self.noise_std) ** 2

    @property
    def law(self) -> DiscreteGaussian:
        """One discrete Gaussian."""
        return DiscreteGaussian(self.variance)


@proved("[Rogers24] Theorem 7")
@dataclass(frozen=True, slots=True)
class DiscreteGaussianThreshold(WholeDiscreteNoise, ThresholdMechanism):
    """Noise N_Z(0, noise_std^2) on every count; release what is strictly above the threshold, a whole number.

    Zero-concentrated privacy costs more noise than the rounded Gaussian of `SparseGaussian`.
    """

    name: ClassVar[str] = "discrete-gaussian"
    analysis = "zcdp-and-tail"
    theorem = "[Rogers24] Theorem 7 for discrete Gaussian noise, converted by [CKS20] Proposition 7"
    sparsity = None

    max_groups: int
    noise_std: float
    threshold: float
    low_threshold: int = 1

    def __post_init__(self) -> None:
        checks.check_whole("max_groups", self.max_groups)
        checks.check_positive("noise_std", self.noise_std)
        checks.check_whole("low_threshold", self.low_threshold)
        _ = self.law  # checks the size
        if self.threshold < self.low_threshold or not float(self.threshold).is_integer():
            raise InvalidParameter("a whole threshold of at least low_threshold", self.threshold)

    @classmethod
    def for_request(cls, request: Request) -> Iterator[Builder]:
        """For who wants whole counts of unknown groups."""
        if request.noise == "discrete":
            yield lambda: discrete_threshold(
                request.mechanism_epsilon,
                target_delta(request),
                request.groups_per_unit,
                noise_std=request.noise_std,
                low_threshold=request.low_threshold,
                objective=request.objective,
            )

    @property
    def rho(self) -> float:
        """The zCDP parameter of the noise: max_groups/(2 noise_std^2). Rounded up."""
        return math.nextafter(float(self.max_groups / (2 * self.variance)), math.inf)

    def delta(self, epsilon: float) -> float:
        """d + (1 - d) delta_CKS(rho, epsilon), d = delta_infinity: this release is truly approximate zCDP. Rounded up."""
        infinity = self.delta_infinity()
        return with_sampler_error(lambda at: infinity + (1 - infinity) * self.delta_noise(at), epsilon, self.max_groups)

    def delta_infinity(self) -> float:
        """1 - (1 - P(Z > gap))^max_groups. Rounded up."""
        tail = math.exp(float(log_tail(self.law, int(self.gap))))
        return min(1.0, -math.expm1(self.max_groups * math.log1p(-min(tail, 1 - 1e-16))) * (1 + 1e-11))


def discrete_threshold(
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


@proved("[LR25] Theorem 7.7")
@dataclass(frozen=True, slots=True)
class DiscreteCorrelatedGaussian(DiscreteNoise, ThresholdMechanism):
    """Release count + (Z_i + Z_c)/2 if above the threshold; Z_i ~ N_Z(0, 4 sigma^2), Z_c ~ N_Z(0, 4 sigma^2/sqrt(k)).

    k = sparsity. variance and common_variance are those two parameters, exact rationals. The threshold is a multiple of
    one half. zCDP costs more noise than the rounded Gaussian of `CorrelatedGaussian`.
    """

    name: ClassVar[str] = "discrete-correlated-gaussian"
    strategies: ClassVar[frozenset[str]] = frozenset({"one pass", "sketch"})
    analysis = "zcdp-and-tail"
    theorem = "[LR25] Theorem 7.7 with the exact chance that a new group is released"
    lattice_bits = 1

    sparsity: int
    variance: Exact
    common_variance: Exact
    threshold: float
    low_threshold: int = 1

    def __post_init__(self) -> None:
        checks.check_whole("sparsity", self.sparsity)
        checks.check_whole("low_threshold", self.low_threshold)
        _ = self.law, self.common  # checks their sizes
        if self.threshold < self.low_threshold or not float(2 * self.threshold).is_integer():
            raise InvalidParameter("a threshold above low_threshold that is a multiple of 1/2", self.threshold)

    @classmethod
    def for_request(cls, request: Request) -> Iterator[Builder]:
        """For who wants multiples of one half, where a public number bounds the non-empty groups."""
        most = request.bounded_groups
        if request.noise == "discrete" and most is not None:
            yield lambda: discrete_correlated(
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
    def law(self) -> DiscreteGaussian:
        """Each group's own noise, in halves."""
        return DiscreteGaussian(self.variance)

    @property
    def common(self) -> DiscreteGaussian:
        """The common noise of one release, in halves."""
        return DiscreteGaussian(self.common_variance)

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

    def delta_infinity(self) -> float:
        """P(max_i Z_i + Z_c > 2 gap) over k new groups, as a sum over Z_c. Rounded up."""
        return min(1.0, math.exp(log_max_tail(self.law, self.common, int(2 * self.gap), self.sparsity)))

    def with_noise(self, request: Request) -> DiscreteCorrelatedGaussian:
        """Its noise is not free: the same."""
        return self


def discrete_correlated(
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


@proved("[CKS20] Theorem 7")
@dataclass(frozen=True, slots=True)
class KnownDiscrete(WholeDiscreteNoise, ListedGroups):
    """Noise N_Z(0, noise_std^2) on every group of a public list, with its own profile: all groups of a unit together."""

    name: ClassVar[str] = "known-discrete"
    strategies: ClassVar[frozenset[str]] = frozenset({"list"})
    analysis = "discrete"
    theorem = "[CKS20] Theorem 7 for the sum of a unit's noises"

    groups: int
    max_groups: int
    noise_std: float

    def __post_init__(self) -> None:
        self._check_groups()
        checks.check_positive("noise_std", self.noise_std)
        _ = self.law  # checks the size

    @classmethod
    def for_request(cls, request: Request) -> Iterator[Builder]:
        """For counts alone on a dense list of keys, unless it asks for noise that groups share."""
        if request.delta > 0 and request.correlation is None and not request.aggregates:
            yield partial(known_discrete, request)

    @property
    def rho(self) -> float:
        """The zCDP parameter of the noise: max_groups/(2 noise_std^2). Rounded up."""
        return round_up(self.max_groups / (2 * self.variance))

    def delta(self, epsilon: float) -> float:
        """An upper bound on delta at epsilon."""
        return with_sampler_error(self.delta_noise, epsilon, self.max_groups)

    def delta_noise(self, epsilon: float) -> float:
        """The smaller of two bounds: the law of the sum of a unit's noises, and zCDP, which is better for tiny noise."""
        exact = delta_discrete_gaussian(epsilon, self.noise_std**2, self.max_groups)
        return min(exact, delta_from_rho(self.rho, epsilon))


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
