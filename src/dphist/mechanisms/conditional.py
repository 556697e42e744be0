"""Counts estimated given that they were released: the law of a noisy count cut off at its threshold.

A group with n units is published only if its noisy count Y = n + Z exceeds the threshold T. Given that, Y is too large, and the
usual interval around it covers too little. What is known about Z gives the law of Y given Y > T for every n:

    P(Y >= y | Y > T; n) = P(Z >= y - n)/P(Z > T - n), and the same with > for >=.

Both grow with n, since the laws of noise are log-concave, so each n has its own median and quantiles of Y, and y points back:
- the estimate is the n at which y is the median, the largest one on a lattice (median-unbiased). An n more than two stds below
  the threshold is not told from those further below, all of which are hardly ever released: the estimate ends there;
- the interval at level 1 - a holds each n with P(Y >= y | ...) > a/2 and P(Y <= y | ...) > a/2 (equal tails). Whatever n is,
  at most a/2 of its releases miss it on either side: this is no approximation, also for noise of a few steps.

Only n - T as a function of y - T is needed. It is tabulated once per law, on the lattice itself where that is coarse.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Final, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dphist.noise.laws import DiscreteGaussian, DiscreteLaplace, RoundedGaussian
from dphist.noise.tails import log_pmf, log_tail
from dphist.privacy.special import log_ndtr, ndtr

Floats: TypeAlias = NDArray[np.float64]
Event: TypeAlias = Literal["more", "at least"]
CountLaw: TypeAlias = RoundedGaussian | DiscreteGaussian | DiscreteLaplace

_BELOW: Final = 40.0
"""So many stds below the threshold counts are told apart; none from further below is ever released."""
_ABOVE: Final = 30.0
"""So many stds above it the threshold is not felt: the law that is left out has less than 1e-18."""
_BEYOND: Final = 20.0
_POINTS: Final = 1024
"""In one std, at most. Straight lines between them are within 1e-6 stds of the law; `_SLACK` covers it."""
_SLACK: Final = 1e-5
_TINY: Final = 1e-6
"""Past the rounding of doubles, in steps."""
_MOST_CONVOLVED: Final = 32.0
"""Up to this std, in steps, two noises are added up point by point. Above it their sum is of their own kind, within a step."""
_ONE_STD: Final = float(ndtr(-1.0))
_LOWEST: Final = 2.0
"""An estimate is at most so many stds below the threshold. Smaller groups are released once in 30 times or less; where the tail
is exponential they all look alike, and half of their releases would be estimated by the smallest count there is."""


@dataclass(frozen=True, slots=True)
class Noise:
    """The noise on one count: independent draws of one or two laws, in steps of 2^-lattice_bits; std in units of the count."""

    laws: tuple[CountLaw, ...]
    lattice_bits: int
    std: float


@dataclass(frozen=True, slots=True, eq=False)
class Estimates:
    """Counts with standard errors and, where a level was asked for, bounds."""

    counts: Floats
    std_errors: Floats
    bounds: tuple[Floats, Floats] | None = None


def estimate_given_release(
    noisy: Floats, threshold: Floats | float, noise: Noise, *, least: int = 1, level: float | None = None
) -> Estimates:
    """Counts of at least `least` from noisy ones strictly above their thresholds, given that they are.

    Noisy counts lie on the lattice of the noise, and so do estimates and bounds. The standard error is half the
    width of the interval at 68.27 %, cut at `least`, in units in which the same far above the threshold is noise.std; and no
    less than that.
    """
    bits, std = noise.lattice_bits, math.ldexp(noise.std, noise.lattice_bits)
    steps, start = np.ldexp(noisy, bits), np.ldexp(np.asarray(threshold, np.float64), bits)
    above, floor = steps - start, math.ldexp(least, bits)
    median = _curve(noise, "more", math.log(0.5))
    counts = np.where(above > median.above[-1], steps, np.floor(start + median.at(above) - _TINY))
    counts = np.maximum(counts, np.maximum(np.ceil(start - _LOWEST * std), floor))
    lower, upper = _ends(noise, _ONE_STD)
    low, high = start + lower.at(above), start + upper.at(above)
    plain = lower.offset - upper.offset
    errors = np.maximum((high - np.maximum(low, floor)) / plain, 1.0) * std
    bounds = None
    if level is not None:
        lower, upper = _ends(noise, (1 - level) / 2)
        reach = _slack(noise)
        low = np.minimum(np.ceil(start + lower.at(above) - reach), counts)
        high = np.maximum(np.floor(start + upper.at(above) + reach), counts)
        bounds = (np.ldexp(np.maximum(low, floor), -bits), np.ldexp(high, -bits))
    return Estimates(np.ldexp(counts, -bits), np.ldexp(errors, -bits), bounds)


def exact_quantile(noise: Noise, probability: float) -> float:
    """The smallest z on the lattice with P(Z <= z) >= probability; by symmetry below a half."""
    if probability < 0.5:
        return -exact_quantile(noise, 1 - probability)
    points, logs = _tail(noise)
    enough = -np.expm1(logs) >= probability
    return math.ldexp(float(points[int(np.argmax(enough))]), -noise.lattice_bits)


@dataclass(frozen=True, slots=True, eq=False)
class _Curve:
    """n - T against y - T, in steps; `offset` is y - n far above the threshold."""

    above: Floats
    counts: Floats

    @property
    def offset(self) -> float:
        return float(self.above[-1] - self.counts[-1])

    def at(self, above: Floats) -> Floats:
        """The count for which the noisy one is so far above the threshold; -inf where every count would do."""
        inside = np.interp(above, self.above, self.counts, left=-np.inf)
        return np.where(above > self.above[-1], above - self.offset, inside)


def _ends(noise: Noise, tail: float) -> tuple[_Curve, _Curve]:
    """The n with P(Y >= y | Y > T; n) = tail, and that with P(Y > y | Y > T; n) = 1 - tail."""
    return _curve(noise, "at least", math.log(tail)), _curve(noise, "more", math.log1p(-tail))


@lru_cache(maxsize=64)
def _curve(noise: Noise, event: Event, log_share: float) -> _Curve:
    """Where Y > y ("more") or Y >= y ("at least"), given release, has the probability exp(log_share): y for n on a grid.

    y = n + t for the t where that probability of Z is exp(log_share) P(Z > T - n): the inverse of the tail, whose logarithm
    is a straight line between points of the lattice.
    """
    points, logs = _tail(noise)
    grid = points[(points >= -_reach(noise, _ABOVE)) & (points <= _reach(noise, _BELOW))]
    counts = -grid[::-1]
    released = logs[np.searchsorted(points, -counts)]
    above = counts + np.interp(-(log_share + released), -logs, points) + (1 if event == "at least" else 0)
    return _Curve(np.maximum.accumulate(above), counts)


def _steps(noise: Noise) -> int:
    """The distance of tabulated points: one step of the lattice, or more where it is much finer than the noise."""
    return max(1, math.floor(math.ldexp(noise.std, noise.lattice_bits) / _POINTS))


def _reach(noise: Noise, stds: float) -> float:
    return stds * math.ldexp(noise.std, noise.lattice_bits) + 8


def _slack(noise: Noise) -> float:
    """How far the tabulated law may be from that which is drawn, in steps."""
    std = math.ldexp(noise.std, noise.lattice_bits)
    merged = len(noise.laws) > 1 and std > _MOST_CONVOLVED
    return _TINY + (_SLACK * std if _steps(noise) > 1 else 0.0) + (1.0 if merged else 0.0)


@lru_cache(maxsize=16)
def _tail(noise: Noise) -> tuple[Floats, Floats]:
    """log P(Z > t) for t in steps, on a grid that reaches as far as counts are told apart."""
    steps = _steps(noise)
    low, high = _reach(noise, _ABOVE) // steps + 1, _reach(noise, _BELOW + _BEYOND) // steps + 1
    points = np.arange(-low, high + 1) * steps
    logs = _tails_of(noise, points)
    return points, np.minimum(np.minimum.accumulate(logs), 0.0)


def _tails_of(noise: Noise, points: Floats) -> Floats:
    if len(noise.laws) == 1:
        return _log_tail(noise.laws[0], points)
    one, other = noise.laws
    if math.ldexp(noise.std, noise.lattice_bits) > _MOST_CONVOLVED:
        return _log_tail(_merged(one, other), points)
    reach = max(-points[0], points[-1]) + 2  # points are all of the lattice here
    window = np.arange(-reach, reach + 1)
    each, shared = _log_pmf(one, window), _log_pmf(other, window)
    total = np.full(len(window), -np.inf)
    for shift, weight in zip(window.astype(np.int64), shared, strict=True):
        moved = each[max(0, -shift) : len(each) - max(0, shift)]
        total[max(0, shift) : len(total) + min(0, shift)] = np.logaddexp(
            total[max(0, shift) : len(total) + min(0, shift)], moved + weight
        )
    at_least = np.logaddexp.accumulate(total[::-1])[::-1]
    return np.asarray(at_least[np.searchsorted(window, points + 1)])


def _merged(one: CountLaw, other: CountLaw) -> CountLaw:
    """The law with the variance of both, which their sum has within less than a step where that is small beside the std."""
    if isinstance(one, RoundedGaussian) and isinstance(other, RoundedGaussian):
        return RoundedGaussian(Fraction(math.hypot(one.std, other.std)), one.lattice_bits)
    assert isinstance(one, DiscreteGaussian)
    assert isinstance(other, DiscreteGaussian)
    return DiscreteGaussian(one.variance + other.variance)


def _log_tail(law: CountLaw, points: Floats) -> Floats:
    """log P(Z > t): a Gaussian that is rounded to more than t was above t + 1/2."""
    if isinstance(law, RoundedGaussian):
        return np.asarray(log_ndtr(-(points + 0.5) / float(law.lattice_std)))
    return log_tail(law, points)


def _log_pmf(law: CountLaw, points: Floats) -> Floats:
    if isinstance(law, RoundedGaussian):
        outer, inner = (np.asarray(log_ndtr((end - np.abs(points)) / float(law.lattice_std))) for end in (-0.5, 0.5))
        with np.errstate(divide="ignore"):
            return np.asarray(inner + np.log1p(-np.exp(outer - inner)))
    return log_pmf(law, points)
