"""Probabilities of the discrete laws in log space, for the thresholds of mechanisms that add them.

Rounding direction, the same everywhere: `log_tail` is never below log Pr[Z > t] and `log_cdf` never above log Pr[Z ≤
t], so a threshold found with either is safe. Both are tight for probabilities above 10^−290: the relative error of
the smaller of the two probabilities is below 10^−9 up to a standard deviation of 4096, and below (1 + (t/σ)²)/σ² beyond.
`log_pmf` is the nearest value, within 10^−12·(1 + |log|).

These functions take an array of whole numbers t and return an array of the same shape.

`log_max_tail`, `log_two_tail` and `log_sum_tail` are about several noises together: the exact probabilities behind the
thresholds of mechanisms that compare a noisy count with a noisy threshold, share one noise among all counts, or add up the
noise of several nodes of a tree, and behind the bounds of a sum of two noisy numbers.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dphist.errors import InvalidParameter
from dphist.noise.laws import DiscreteGaussian, DiscreteLaplace, TruncatedDiscreteLaplace, whole_number
from dphist.privacy.special import log_ndtr

DiscreteLaw: TypeAlias = DiscreteGaussian | DiscreteLaplace | TruncatedDiscreteLaplace
_Floats: TypeAlias = NDArray[np.float64]

_SLACK = 2.0**-46
"""Relative and absolute room for the rounding of a handful of float operations and library functions."""
_SUM_SLACK = 2.0**-38  # covers the rounding of a sum of 2^20 logarithms of products
_LARGEST_TABLE_STD = 4096
_DEEPEST_EXPONENT = 690.0  # exp(−690) is still a normal float
_MOST_POINTS = 1 << 20
_POINTS_AT_ONCE = 1 << 16
_SMALLEST_SMOOTH_VARIANCE = 4
_LARGEST_COUNT = 1 << 52
_MOST_TERMS = 1024


def log_pmf(law: DiscreteLaw, x: ArrayLike) -> _Floats:
    """log Pr[Z = x]."""
    points = np.asarray(x, dtype=np.float64)
    if isinstance(law, DiscreteGaussian):
        exponent: _Floats = points * points * float(1 / (2 * law.variance))
        return -exponent - _gaussian_log_normaliser(law.variance)
    if isinstance(law, DiscreteLaplace):
        rate = float(1 / law.scale)  # (1 − e^−r)/(1 + e^−r) = tanh(r/2)
        distance: _Floats = np.abs(points) * rate
        return float(np.log(np.tanh(rate / 2))) - distance
    rate, j = float(law.epsilon), points + law.q
    inside = (j >= 0) & (j <= law.q)
    weight = -rate * (law.q // 2 - np.minimum(j, law.q - j))
    return np.where(inside, weight - _truncated_log_total(law), -np.inf)


def log_tail(law: DiscreteLaw, t: ArrayLike) -> _Floats:
    """log Pr[Z > t], rounded up."""
    points = np.asarray(t, dtype=np.float64)
    if isinstance(law, TruncatedDiscreteLaplace):
        return _truncated_log_tail(law, points)
    # Z is symmetric: Pr[Z > t] = 1 − Pr[Z > −t − 1] for t < 0.
    low, high = _log_tail_bounds(law, np.where(points >= 0, points, -points - 1))
    return np.where(points >= 0, high, _log_complement(low) * (1 - _SLACK))


def log_cdf(law: DiscreteLaw, t: ArrayLike) -> _Floats:
    """log Pr[Z ≤ t], rounded down."""
    points = np.asarray(t, dtype=np.float64)
    if isinstance(law, TruncatedDiscreteLaplace):
        # The law is symmetric about −q/2: Pr[Z ≤ t] = Pr[Z ≥ −q − t] = 1 − Pr[Z ≤ −q − t − 1].
        upper = _truncated_log_tail(law, -law.q - points - 1)
        direct = upper - 2 * _truncated_slack(law)
        complement = _log_complement(_truncated_log_tail(law, points)) * (1 + _SLACK)
        return np.where(2 * points < -law.q, direct, complement)
    low, high = _log_tail_bounds(law, np.where(points >= 0, points, -points - 1))
    return np.where(points >= 0, _log_complement(high) * (1 + _SLACK), low)


def _log_complement(log_probability: _Floats) -> _Floats:
    """log(1 − p) for p ≤ 1, without losing a small p."""
    with np.errstate(divide="ignore"):
        return np.log1p(-np.minimum(np.exp(log_probability), 1.0))


def _log_tail_bounds(law: DiscreteGaussian | DiscreteLaplace, t: _Floats) -> tuple[_Floats, _Floats]:
    """Lower and upper bounds on log Pr[Z > t] for t ≥ 0."""
    if isinstance(law, DiscreteGaussian):
        return _gaussian_log_tail_bounds(law.variance, t)
    rate = float(1 / law.scale)
    nearest = -(t + 1) * rate - np.log1p(np.exp(-rate))  # q^(t+1)/(1 + q), q = e^−rate
    slack = _SLACK * (1 + np.abs(nearest))
    return nearest - slack, nearest + slack


def _truncated_log_total(law: TruncatedDiscreteLaplace) -> float:
    """log of the sum of all weights, the weight in the middle being one (exp(−ε·distance) elsewhere)."""
    rate, half = float(law.epsilon), (law.q + 1) // 2
    if law.q % 2:
        return float(np.log(2.0) + _log_geometric(rate, np.float64(half)))
    return float(np.log(1 + 2 * np.exp(-rate + _log_geometric(rate, np.float64(half)))))


def _log_geometric(rate: float, terms: _Floats | np.float64) -> _Floats:
    """log(1 + e^−rate + … + e^−rate·(terms − 1)); −inf for no terms."""
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(-np.expm1(-rate * terms)) - np.log(-np.expm1(-rate)))


def _truncated_slack(law: TruncatedDiscreteLaplace) -> float:
    return _SLACK * (1 + float(law.epsilon * law.q))


def _truncated_log_tail(law: TruncatedDiscreteLaplace, t: _Floats) -> _Floats:
    """log Pr[Z > t], rounded up: a geometric sum of what lies above t, or one minus the sum of what does not."""
    rate, half = float(law.epsilon), (law.q + 1) // 2
    total = _truncated_log_total(law)

    def edge(count: _Floats) -> _Floats:
        """Log probability of the `count` outermost values of one side: weights e^(−ε·(q//2 − count + 1)) and outwards."""
        return -rate * (law.q // 2 - count + 1) + _log_geometric(rate, count) - total

    above = np.clip(-t, 0, law.q + 1)  # how many values of {−q, …, 0} are above t
    upper = edge(np.minimum(above, half)) + _truncated_slack(law)
    below = edge(np.minimum(law.q + 1 - above, half)) - _truncated_slack(law)
    middle_and_more = np.where(above > law.q, 0.0, _log_complement(below) * (1 - _SLACK))
    return np.minimum(np.where(above <= half, upper, middle_and_more), 0.0)


def _gaussian_log_normaliser(variance: Fraction) -> float:
    """log Σ_x exp(−x²/(2·variance)) over all integers, within 10^−14 or so.

    By Poisson summation the sum is √(2π·variance)·(1 + 2Σ_k exp(−2π²·variance·k²)); either series has terms that fall
    faster than geometrically, and the one with the smaller ratio is used.
    """
    spread = float(variance)
    if spread < 1:
        steps = np.arange(1, 10)
        return float(np.log1p(2 * np.sum(np.exp(-(steps**2) / (2 * spread)))))
    return float(0.5 * np.log(2 * np.pi * spread) + np.log1p(2 * np.exp(-2 * np.pi**2 * spread)))


@dataclass(frozen=True, slots=True)
class _TailTable:
    """sums[k] ≈ Σ_{x ≥ k} exp(−x²/(2V)) up to the last k, with `rest` ≥ what lies beyond; relative error ≤ slack."""

    sums: _Floats
    rest: float
    slack: float


@lru_cache(maxsize=8)
def _tail_table(variance: Fraction) -> _TailTable:
    """Sums from the far end inwards: only positive numbers, the small ones first.

    Each term is off by at most 2^−42 (the exponent, below 690, is rounded three times), and adding n numbers one
    after the other by at most n·2^−53 of the sum. Should `rest` be too small for a float, it is nothing beside sums
    of at least exp(−690).
    """
    rate = float(1 / (2 * variance))
    last = int(np.sqrt(_DEEPEST_EXPONENT / rate))
    points = np.arange(last + 1, dtype=np.float64)
    sums = np.cumsum(np.exp(-rate * points * points)[::-1])[::-1]
    sums.flags.writeable = False
    rest = float(np.exp(-rate * (last + 1.0) ** 2) / -np.expm1(-rate * (2 * last + 3.0)))
    return _TailTable(sums, rest, 2.0**-42 + (last + 1) * 2.0**-52)


def _gaussian_log_tail_bounds(variance: Fraction, t: _Floats) -> tuple[_Floats, _Floats]:
    """Lower and upper bounds on log Pr[Z > t] for t ≥ 0 and Z discrete Gaussian."""
    first = t + 1
    if variance > _LARGEST_TABLE_STD**2:
        low, high = _integral_bounds(float(variance), first)
    else:
        low, high = _summed_bounds(variance, first)
    normaliser = _gaussian_log_normaliser(variance)
    return low - normaliser, high - normaliser


def _summed_bounds(variance: Fraction, first: _Floats) -> tuple[_Floats, _Floats]:
    """Bounds on log Σ_{x ≥ first} exp(−x²/(2V)) from the table, and from one term beyond it.

    Beyond the table the first term is a lower bound; terms fall by at least the first ratio exp(−(2·first + 1)/(2V)),
    so dividing by one minus it is an upper bound.
    """
    table, rate = _tail_table(variance), float(1 / (2 * variance))
    inside = first < table.sums.size
    sums = table.sums[np.where(inside, first, 0).astype(np.int64)]
    term = -rate * first * first
    beyond_slack = _SLACK * (1 + np.abs(term))
    geometric = term - np.log(-np.expm1(-rate * (2 * first + 1)))
    low = np.where(inside, np.log(sums) - table.slack, term - beyond_slack)
    high = np.where(inside, np.log(sums + table.rest) + table.slack, geometric + beyond_slack)
    return low, high


def _integral_bounds(variance: float, first: _Floats) -> tuple[_Floats, _Floats]:
    """Bounds on log Σ_{x ≥ first} f(x), f(x) = exp(−x²/(2V)), from its integral, for a standard deviation above 4096.

    The integral of f over [x − ½, x + ½] minus f(x) is the integral of f'' against a kernel between 0 and 1/8. From
    a = first − ½ ≥ σ on f is convex, so the sum lies between ∫ − |f'(a)|/8 and ∫, where ∫ is the integral from a.
    For smaller a both signs of f'' occur, and ∫|f''| ≤ 4·max|f'| < 2.43/σ, so the sum is within 0.31/σ of ∫.
    """
    std = np.sqrt(variance)
    start = first - 0.5
    integral = 0.5 * np.log(2 * np.pi * variance) + log_ndtr(-start / std)
    slack = _SLACK * (1 + np.abs(integral))
    convex = start >= std
    slope = start / variance * np.exp(-(start * start) / (2 * variance) - integral)
    wobble = 0.31 / std * np.exp(-np.where(convex, 0.0, integral))
    low = integral + np.log1p(-np.where(convex, slope / 8, wobble))
    high = integral + np.log1p(np.where(convex, 0.0, wobble))
    return low - slack, high + slack


def log_max_tail(
    each: DiscreteGaussian | DiscreteLaplace, shared: DiscreteGaussian | DiscreteLaplace, t: int, count: int
) -> float:
    """log Pr[max_i Z_i + Z_shared > t] for `count` independent Z_i ~ each and one Z_shared, rounded up.

    It is Σ_s p(s)·(1 − F(t − s)^count), p the shared law and F the cdf of each. Shared laws are symmetric, so a
    threshold that has noise of its own, Z_i > t + Z_0, is the same event. Where the shared law is so wide that the
    sum would have more than 2^20 terms, neighbouring s are taken together at the largest value of either factor,
    which stays an upper bound and costs less than 0.1 %.
    """
    from scipy.special import logsumexp  # no compiled function: it takes all of scipy.special, which few commands need

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
    return min(0.0, float(np.logaddexp(logsumexp(parts), outside)) + _SUM_SLACK)


def _log_any(each: DiscreteGaussian | DiscreteLaplace, t: _Floats, count: int) -> _Floats:
    """log(1 − F(t)^count), rounded up, without losing it when it is tiny."""
    with np.errstate(divide="ignore"):
        return np.log(-np.expm1(count * log_cdf(each, t)))


def _reach(law: DiscreteGaussian | DiscreteLaplace) -> int:
    """A point beyond which the law has less than 10^−100, beside any δ."""
    if isinstance(law, DiscreteGaussian):
        return int(22 * np.sqrt(float(law.variance))) + 2
    return int(231 * law.scale) + 2


def log_two_tail(law: DiscreteLaplace, t: ArrayLike) -> _Floats:
    """log Pr[Z_1 + Z_2 > t] for two independent discrete Laplace noises and t ≥ 0, rounded up.

    With q = e^(−1/scale), Σ_j q^(|j| + |k − j|) = q^k (k + (1 + q²)/(1 − q²)) for k ≥ 0: k + 1 terms inside, two geometric
    series outside. Times ((1 − q)/(1 + q))² and summed over k ≥ m = t + 1, this is q^m (m (1 − q) + a)/(1 + q)², with
    a = (1 + q²)/(1 + q) + q.
    """
    points = np.asarray(t, dtype=np.float64)
    rate = float(1 / law.scale)
    q, first = float(np.exp(-rate)), points + 1
    a = (1 + q * q) / (1 + q) + q
    nearest: _Floats = -first * rate + np.log(first * -np.expm1(-rate) + a) - 2 * np.log1p(q)
    return np.minimum(nearest + _SLACK * (1 + np.abs(nearest)), 0.0)


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
