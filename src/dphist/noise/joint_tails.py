"""Tails of several noises together: the largest of many around a shared one, and sums.

These are the exact probabilities behind the thresholds of discrete mechanisms that compare a noisy count with a noisy
threshold, share one noise among all counts, or add up the noise of several nodes of a tree.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import logsumexp

from dphist.errors import InvalidParameter
from dphist.noise.laws import DiscreteGaussian, DiscreteLaplace
from dphist.noise.parameters import whole_number
from dphist.noise.tails import log_cdf, log_pmf, log_tail

__all__ = ["log_max_tail", "log_sum_tail"]

_Floats: TypeAlias = NDArray[np.float64]

_MOST_POINTS = 1 << 20
_POINTS_AT_ONCE = 1 << 16
_SLACK = 2.0**-38  # covers the rounding of a sum of 2^20 logarithms of products
_SMALLEST_SMOOTH_VARIANCE = 4
_LARGEST_COUNT = 1 << 52
_MOST_TERMS = 1024


def log_max_tail(
    each: DiscreteGaussian | DiscreteLaplace, shared: DiscreteGaussian | DiscreteLaplace, t: int, count: int
) -> float:
    """log Pr[max_i Z_i + Z_shared > t] for `count` independent Z_i ~ each and one Z_shared, rounded up.

    It is Σ_s p(s)·(1 − F(t − s)^count), p the shared law and F the cdf of each. Shared laws are symmetric, so a
    threshold that has noise of its own, Z_i > t + Z_0, is the same event. Where the shared law is so wide that the
    sum would have more than 2^20 terms, neighbouring s are taken together at the largest value of either factor,
    which stays an upper bound and costs less than 0.1 %.
    """
    threshold = whole_number("t", t, -_LARGEST_COUNT, _LARGEST_COUNT)
    many = whole_number("count", count, 1, _LARGEST_COUNT)
    reach = _reach(shared)
    width = -(-(2 * reach + 1) // _MOST_POINTS)
    log_width, parts = float(np.log(width)), []
    for begin in range(-reach, reach + 1, width * _POINTS_AT_ONCE):
        lowest = np.arange(begin, min(begin + width * _POINTS_AT_ONCE, reach + 1), width, dtype=np.float64)
        highest = lowest + (width - 1)
        likeliest = np.where(lowest > 0, lowest, np.minimum(highest, 0))
        parts.append(logsumexp(log_pmf(shared, likeliest) + log_width + _log_any(each, threshold - highest, many)))
    # Beyond the reach of the shared noise the threshold is counted as passed.
    outside = float(log_tail(shared, reach)) + np.log(2.0)
    return min(0.0, float(np.logaddexp(logsumexp(parts), outside)) + _SLACK)


def _log_any(each: DiscreteGaussian | DiscreteLaplace, t: _Floats, count: int) -> _Floats:
    """log(1 − F(t)^count), rounded up, without losing it when it is tiny."""
    with np.errstate(divide="ignore"):
        return np.log(-np.expm1(count * log_cdf(each, t)))


def _reach(law: DiscreteGaussian | DiscreteLaplace) -> int:
    """A point beyond which the law has less than 10^−100, beside any δ."""
    if isinstance(law, DiscreteGaussian):
        return int(22 * np.sqrt(float(law.variance))) + 2
    return int(231 * law.scale) + 2


def log_sum_tail(law: DiscreteGaussian, terms: int, t: ArrayLike) -> _Floats:
    """log Pr[Z_1 + … + Z_terms > t] for independent discrete Gaussians, rounded up.

    Below variance 4 by convolution. From 4 on by this: adding a discrete Gaussian of variance V to a sum of variance
    iV, completing the square leaves exp(−z²/(2(i+1)V)) times a sum of exp(−(x − c)²/(2V')) over the integers, V' =
    iV/(i+1) ≥ V/2. By Poisson summation that sum is the same for every shift c up to a factor 1 ± η, η <
    2.1·exp(−2π²V') ≤ 2.1·exp(−π²V). So the sum of all is a discrete Gaussian of variance terms·V, every probability
    up to a factor ((1+η)/(1−η))^(terms−1).
    """
    if not isinstance(law, DiscreteGaussian):
        raise InvalidParameter("a DiscreteGaussian", type(law).__name__)
    number, points = whole_number("terms", terms, 1, _MOST_TERMS), np.asarray(t, dtype=np.float64)
    if law.variance >= _SMALLEST_SMOOTH_VARIANCE:
        eta = 2.1 * float(np.exp(-(np.pi**2) * float(law.variance)))
        return np.minimum(log_tail(DiscreteGaussian(number * law.variance), points) + (number - 1) * 2.2 * eta, 0.0)
    return _convolved_tail(law, number, points)


def _convolved_tail(law: DiscreteGaussian, terms: int, t: _Floats) -> _Floats:
    """The tail of the sum by direct convolution of positive numbers, each relative error at most terms·2^−40."""
    reach = int(37 * np.sqrt(float(law.variance))) + 1
    single = np.exp(log_pmf(law, np.arange(-reach, reach + 1)))
    summed = np.ones(1)
    for _ in range(terms):
        summed = np.convolve(summed, single)
    above = np.append(np.cumsum(summed[::-1])[::-1], 0.0)  # above[i] = Pr[sum ≥ i − terms·reach] inside the window
    index = np.clip(t + 1 + terms * reach, 0, above.size - 1).astype(np.int64)
    outside = float(log_tail(law, reach)) + np.log(2.0 * terms)  # some term lies beyond the window
    with np.errstate(divide="ignore"):
        inside = np.log(above[index]) + terms * 2.0**-40
    tail: _Floats = np.logaddexp(inside, outside)
    return np.minimum(tail, 0.0)
