"""Laplace noise on counts and sums, and Laplace thresholding as a mechanism."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import TYPE_CHECKING, ClassVar, Final

import numpy as np

from dphist import checks
from dphist.aggregates.measures import Measure
from dphist.aggregates.noisy_sums import pure_epsilon
from dphist.checks import proved
from dphist.errors import Infeasible, InvalidParameter
from dphist.mechanisms.base import Builder, GroupMechanism, ThresholdMechanism
from dphist.mechanisms.lattice import Floats, check_threshold
from dphist.mechanisms.surcharge import COST_UP, error_of_draws, round_up, target_delta, with_sampler_error
from dphist.noise import DiscreteLaplace
from dphist.privacy.events import ApproximateEvent, Event, PureEvent, RepeatedEvent
from dphist.privacy.unknown_domain import delta_laplace, smallest_gap_laplace

if TYPE_CHECKING:
    from dphist.planning.request import Request


class LaplaceNoise(GroupMechanism):
    """Discrete Laplace noise, P(z) proportional to exp(-|z|/scale), on every count, and noise of the same kind on sums.

    What mechanisms with it share, with a threshold and without one. sums_epsilon: what the other aggregates of one group add
    to the epsilon of one group, which is 1/scale for the count.
    """

    __slots__ = ()
    splits_epsilon: ClassVar[bool] = True
    lattice_bits = 0
    independent_std = correlation = None

    if TYPE_CHECKING:

        @property
        def scale(self) -> float:
            """The scale of the noise on one count."""

        @property
        def sums_epsilon(self) -> float:
            """The epsilon of the other aggregates of one group."""

    @property
    def noise_std(self) -> float:
        """sqrt(2 r)/(1 - r), r = exp(-1/scale)."""
        return math.sqrt(2 * math.exp(-1 / self.scale)) / -math.expm1(-1 / self.scale)

    @property
    def pure_epsilon(self) -> Fraction:
        """The epsilon of the noise alone, exactly."""
        return self.max_groups * (1 / Fraction(self.scale) + Fraction(self.sums_epsilon))

    @property
    def pure_event(self) -> Event:
        """Per group a pure 1/scale for the count, a pure sums_epsilon for the sums."""
        parts = (1 / self.scale * COST_UP, self.sums_epsilon)
        return RepeatedEvent(tuple(map(PureEvent, parts)), self.max_groups)

    @property
    def law(self) -> DiscreteLaplace:
        """One discrete Laplace noise."""
        return DiscreteLaplace(Fraction(self.scale))

    def aggregate_law(self, aggregate: Measure) -> DiscreteLaplace:
        """Laplace budgets add up linearly: noise scale/sensitivity = scale/weight, exactly; a tree has that for each level."""
        steps = aggregate.draws * aggregate.sensitivity_steps
        return DiscreteLaplace(Fraction(self.scale) * steps / Fraction(aggregate.weight))

    def covers(self, aggregates: Sequence[Measure]) -> bool:
        """Whether sums_epsilon is at least the epsilon of the noise that is drawn; what is missing is added to delta."""
        return Fraction(self.sums_epsilon) >= pure_epsilon(self.noisy(aggregates))

    def delta_noise(self, epsilon: float) -> float:
        """The part of the noise alone: 0 from pure_epsilon on, else (e^p - e^epsilon)/(1 + e^p), p = pure_epsilon.

        No pure mechanism has a larger delta.
        """
        pure = self.pure_epsilon
        if pure <= Fraction(epsilon):
            return 0.0
        excess = float(pure - Fraction(epsilon))
        return min(1.0, -math.expm1(-excess) / (1 + math.exp(-float(pure))) * (1 + 1e-12))

    def half_width(self, noises: Sequence[Floats], level: float) -> Floats:
        """The quantile of one or two Laplace noises, rounded outwards by a step of the count: the noise is discrete."""
        scale, step = self.scale / self.noise_std, self._rounding / self.noise_std
        reach = laplace_quantile([noise * scale for noise in noises], 1 - level)
        return np.asarray(reach + step * sum(noises))

    @property
    def _rounding(self) -> float:
        """How much wider a discrete Laplace noise is than a continuous one, at most, in units of the count."""
        return 1.0

    def noise_quantile(self, probability: float) -> float:
        """The smallest integer z with P(Z <= z) >= probability."""
        if probability < 0.5:
            return -self.noise_quantile(1 - probability)
        ratio = math.exp(-1 / self.scale)
        return float(max(0, math.ceil(-self.scale * math.log((1 - probability) * (1 + ratio)) - 1)))


@proved("[Rogers24] Theorem 7")
@dataclass(frozen=True, slots=True)
class LaplaceThreshold(LaplaceNoise, ThresholdMechanism):
    """Release what is above the threshold after the noise. The counts and the threshold are integers.

    Example:
        >>> dp.LaplaceThreshold(max_groups=1, scale=1.0, threshold=21.0).delta(1.0) < 1e-8
        True
    """

    name: ClassVar[str] = "laplace"
    analysis = "pure-and-tail"
    theorem = "[Rogers24] Theorem 7 for discrete Laplace noise"
    sparsity = None

    max_groups: int
    scale: float
    threshold: float
    low_threshold: int = 1
    sums_epsilon: float = 0.0

    def __post_init__(self) -> None:
        checks.check_whole("max_groups", self.max_groups)
        checks.check_positive("scale", self.scale)
        checks.check_whole("low_threshold", self.low_threshold)
        checks.check_not_negative("sums_epsilon", self.sums_epsilon)
        check_threshold(self.threshold, self.low_threshold, 1)
        if not float(self.threshold).is_integer():
            raise InvalidParameter("a whole threshold", self.threshold, "discrete noise on counts is whole.")

    @classmethod
    def for_request(cls, request: Request) -> Iterator[Builder]:
        """With a bound on a unit's groups."""
        yield partial(laplace_threshold, request)

    def delta(self, epsilon: float) -> float:
        """delta_infinity from pure_epsilon on; below it the noise adds its own."""
        infinity = self.delta_infinity()
        return with_sampler_error(lambda at: infinity + (1 - infinity) * self.delta_noise(at), epsilon, self.max_groups)

    def delta_infinity(self) -> float:
        """The probability that a group of one unit is released."""
        return delta_laplace(int(self.gap), self.scale, self.max_groups)

    @property
    def noise_event(self) -> Event:
        """Pure noise; d: a group of one unit is released."""
        return ApproximateEvent(self.pure_event, self.delta_infinity(), error_of_draws(self.max_groups))

    def release_probability(self, count: float) -> float:
        """The probability that a group with this many units is released."""
        if count < self.low_threshold:
            return 0.0
        needed = math.floor(self.threshold - count)  # P(Z > needed)
        ratio = math.exp(-1 / self.scale)
        if needed >= 0:
            return math.exp(-(needed + 1) / self.scale) / (1 + ratio)
        return 1 - math.exp(needed / self.scale) / (1 + ratio)

    def count_released_with(self, probability: float) -> float:
        """The number of units at which a group is released with this probability."""
        return max(self.threshold + 1 + self.noise_quantile(probability), self.low_threshold)


def laplace_threshold(request: Request) -> LaplaceThreshold:
    """Discrete Laplace noise of the smallest scale, or of the noise asked for, and the smallest threshold for it."""
    groups = request.groups_per_unit
    share = 1 / (1 + request.sums_budget)  # of epsilon, which adds up linearly here
    scale = groups / (request.mechanism_epsilon * share) * (1 + 4e-16 * (2 + len(request.measures)))
    if request.noise_std is not None:
        asked = scale_of_std(request.noise_std)
        if asked < scale:
            raise Infeasible(
                f"noise_std of at least {math.sqrt(2) * scale:.6g} for laplace", f"{request.noise_std:.6g}"
            )
        scale = asked
    gap = smallest_gap_laplace(target_delta(request), scale, groups)
    return LaplaceThreshold(
        max_groups=groups,
        scale=scale,
        threshold=float(request.low_threshold + gap),
        low_threshold=request.low_threshold,
        sums_epsilon=round_up(sum(Fraction(a.weight) for a in request.measures) / Fraction(scale)),
    )


def scale_of_std(noise_std: float) -> float:
    """The scale at which discrete Laplace noise has this standard deviation: 2r/(1-r)^2 = variance, r = exp(-1/scale).

    cosh(1/scale) = 1 + 1/variance, so sinh(1/(2 scale))^2 = 1/(2 variance): written so that nothing cancels. Within a few
    units in the last place.
    """
    return 1 / (2 * math.asinh(1 / (math.sqrt(2) * noise_std)))


def laplace_quantile(scales: Sequence[Floats], miss: float) -> Floats:
    """The smallest x with P(|sum of independent Laplace noises| > x) <= miss, element by element.

    One noise: exp(-x/b). Two, with r = smaller scale/larger scale b: (exp(-x/b) - r^2 exp(-x/(r b)))/(1 - r^2), which tends
    to (1 + x/(2b)) exp(-x/b) as r tends to 1; close to it the two are taken as equal, which can only widen. More of them:
    the sum over i of exp(-x/b_i) times the product of b_i^2/(b_i^2 - b_j^2) over the others j; scales that are close to each
    other are moved apart, upwards, which can only widen.
    """
    if len(scales) == 1:
        return np.asarray(scales[0] * math.log(1 / miss))
    if len(scales) > 2:
        return _quantile_of_many(np.broadcast_arrays(*scales), miss)
    large, small = np.maximum(*scales), np.minimum(*scales)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.where(large > 0, small / large, 0.0)
    equal = ratio > 0.999
    ratio = np.where(equal, 0.5, np.maximum(ratio, 1e-9))

    def tail(x: Floats) -> Floats:  # in units of the larger scale
        apart = (np.exp(-x) - ratio**2 * np.exp(-x / ratio)) / (1 - ratio**2)
        return np.asarray(np.where(equal, (1 + x / 2) * np.exp(-x), apart))

    low, high = np.zeros(large.shape), np.full(large.shape, 2 * math.log(1 / miss) + 4)
    for _ in range(60):
        middle = (low + high) / 2
        enough = tail(middle) <= miss
        low, high = np.where(enough, low, middle), np.where(enough, middle, high)
    return np.asarray(high * large)


_APART: Final = 1.1
"""Scales as close as this are moved apart: partial fractions would lose their digits."""


def _quantile_of_many(scales: Sequence[Floats], miss: float) -> Floats:
    b = np.sort(np.stack(scales).astype(np.float64), axis=0)
    largest = np.maximum(b[-1], np.finfo(np.float64).tiny)
    b = np.maximum(b / largest, 1e-6)
    for i in range(1, len(b)):
        b[i] = np.maximum(b[i], _APART * b[i - 1])
    squares = b**2
    factors = np.stack(
        [
            np.prod([squares[i] / (squares[i] - squares[j]) for j in range(len(b)) if j != i], axis=0)
            for i in range(len(b))
        ]
    )
    low, high = np.zeros(b.shape[1:]), len(b) * b[-1] * (2 * math.log(1 / miss) + 4)
    for _ in range(60):
        middle = (low + high) / 2
        enough = (factors * np.exp(-middle / b)).sum(axis=0) <= miss
        low, high = np.where(enough, low, middle), np.where(enough, middle, high)
    return np.asarray(high * largest)
