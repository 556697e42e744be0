"""The Gaussian mechanism: its exact profile and the inverse of it; the profile of discrete Gaussian noise.

Written with x = epsilon/mu - mu/2, y = epsilon/mu + mu/2, and R(t) = Phi(-t)/phi(t), Mills' ratio:

    delta_G(mu, epsilon) = Phi(-x) - e^epsilon Phi(-y) = phi(x) (R(x) - R(y)),

because phi(x) = e^epsilon phi(y). The three hazards, and what is done about them:

* phi(x) far in the tail multiplies the rounding error of x by x. x is carried in two doubles.
* R(x) - R(y) cancels when mu is small. It is summed as a series of positive terms around the midpoint.
* epsilon < 0 would subtract two numbers near 1. delta_G(mu, -e) = 1 - e^-e + e^-e delta_G(mu, e) has only positive terms.

The relative error was measured against 60-digit arithmetic at below 1e-13 down to delta = 1e-300; `ROUNDING` is what
the forward maps of the mechanisms add for it (and for the sums and powers around it).
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dphist.checks import proved
from dphist.privacy.search import bisect_floats
from dphist.privacy.special import erfcx, ndtr, ndtri

Floats = NDArray[np.float64]

ROUNDING: Final = 1e-11
"""Relative amount by which every forward map is raised to stay above its own rounding errors."""

_SQRT_HALF = math.sqrt(0.5)
_SQRT_HALF_PI = math.sqrt(math.pi / 2)
_SERIES_REACH = 0.05  # the series is used for mu/2 <= 0.05 max(1, epsilon/mu): its k-th term is below 0.05^(2k)
_SERIES_TERMS = 6
_FAR = 4.0  # beyond it the moments of the Mills integral come from their continued fraction
_FRACTION_DEPTH = 48

_POINTS_PER_STD: Final = 20_000
"""Sums with a larger standard deviation are added up in blocks."""

_REACH: Final = 60.0
"""Terms beyond have e^-60 of the first one's weight; a bound stands for them."""

_FEWEST_SPLITS: Final = 64
_SMOOTH: Final = 4.0  # a variance above which the Gaussian integral is the sum over the integers, to 1e-34


def raise_for_rounding(delta: float) -> float:
    """Round a computed delta up, past the rounding errors of its computation, and cap it at 1."""
    return min(1.0, delta * (1.0 + ROUNDING))


@proved("[BW18] Theorem 8")
def delta_gaussian(mu: ArrayLike, epsilon: ArrayLike) -> Floats:
    """[BW18] Theorem 8: delta at epsilon of a Gaussian mechanism with sensitivity/noise_std = mu.

    Phi(mu/2 - epsilon/mu) - e^epsilon Phi(-mu/2 - epsilon/mu), for mu >= 0 and any real epsilon; at mu = 0 it is
    max(0, 1 - e^epsilon). Broadcasts. Rounded to nearest (see `ROUNDING`).
    """
    mu_all, epsilon_all = np.broadcast_arrays(np.asarray(mu, np.float64), np.asarray(epsilon, np.float64))
    magnitude = np.abs(epsilon_all)
    positive = _delta_for_nonnegative(mu_all.ravel(), magnitude.ravel()).reshape(mu_all.shape)
    mirrored = -np.expm1(-magnitude) + np.exp(-magnitude) * positive
    return np.asarray(np.where(epsilon_all < 0, mirrored, positive))


def _delta_for_nonnegative(mu: Floats, epsilon: Floats) -> Floats:
    result = np.zeros(mu.shape)
    # mu = 0 has delta 0. Where x > 39, delta < 1e-330 is no double; an infinite epsilon lands here too.
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        ratio = epsilon / mu
        alive = (mu > 0) & (ratio - mu / 2 < 39.0)
    if not alive.any():
        return result
    mu, epsilon, ratio = mu[alive], epsilon[alive], ratio[alive]
    half = mu / 2
    x = ratio - half
    correction = _ratio_remainder(epsilon, mu, ratio) + ((ratio - x) - half)
    value = np.empty(mu.shape)
    left = x < -1.0  # then mu > 2: nothing cancels, and Mills' ratio at x could overflow
    if left.any():
        # e^epsilon Phi(-y) = phi(x) R(y)
        value[left] = ndtr(-x[left]) - _density(x[left], correction[left]) * _mills((ratio + half)[left])
    near = ~left & (half <= _SERIES_REACH * np.maximum(1.0, ratio))
    if near.any():
        value[near] = _density(x[near], correction[near]) * _mills_difference_series(ratio[near], half[near])
    rest = ~left & ~near
    if rest.any():
        difference = _mills(x[rest] + correction[rest]) - _mills((ratio + half)[rest])
        value[rest] = _density(x[rest], correction[rest]) * difference
    result[alive] = value
    return result


def _ratio_remainder(numerator: Floats, denominator: Floats, quotient: Floats) -> Floats:
    """What the rounded quotient is short of: numerator/denominator - quotient, by an error-free product."""
    high, low = _product(quotient, denominator)
    return np.asarray(((numerator - high) - low) / denominator)


def _product(a: Floats, b: Floats) -> tuple[Floats, Floats]:
    """Dekker's product: a*b = high + low exactly (no overflow for the magnitudes met here)."""
    high = a * b
    a_high, a_low = _split(a)
    b_high, b_low = _split(b)
    low = ((a_high * b_high - high) + a_high * b_low + a_low * b_high) + a_low * b_low
    return high, low


def _split(a: Floats) -> tuple[Floats, Floats]:
    scaled = a * 134217729.0  # 2^27 + 1
    high = scaled - (scaled - a)
    return high, a - high


def _density(x: Floats, correction: Floats) -> Floats:
    """sqrt(2 pi) phi(x + correction), with x^2 carried in two doubles."""
    high, low = _product(x, x)
    return np.asarray(np.exp(-high / 2) * (1.0 - (low / 2 + x * correction)))


def _mills(t: Floats) -> Floats:
    """Mills' ratio over sqrt(2 pi): Phi(-t)/(sqrt(2 pi) phi(t))."""
    return np.asarray(0.5 * erfcx(t * _SQRT_HALF))


def _mills_difference_series(middle: Floats, half: Floats) -> Floats:
    """R(middle - half) - R(middle + half), over sqrt(2 pi), as 2 sum_n half^(2n+1) S_(2n+1)/(2n+1)!.

    S_n(t) = integral_0^inf u^n exp(-t u - u^2/2) du are the derivatives of Mills' ratio up to sign: all positive.
    """
    moments = _mills_moments(middle, 2 * _SERIES_TERMS)
    total = np.zeros(middle.shape)
    square = half * half
    for n in reversed(range(_SERIES_TERMS)):
        total = total * square + moments[2 * n + 1] / math.factorial(2 * n + 1)
    return np.asarray(2 * half * total / (2 * _SQRT_HALF_PI))


def _mills_moments(t: Floats, count: int) -> list[Floats]:
    """S_0..S_(count-1) at t >= 0, from S_(n+1) = n S_(n-1) - t S_n.

    That recurrence loses digits at large t, where its inverse, the continued fraction S_n/S_(n-1) = n/(t + S_(n+1)/S_n),
    is stable and converges fast.
    """
    first = 2 * _SQRT_HALF_PI * _mills(t)
    forward = [first, 1.0 - t * first]
    for n in range(1, count - 1):
        forward.append(n * forward[n - 1] - t * forward[n])
    far = t > _FAR
    if not far.any():
        return forward
    z = t[far]
    ratio = (np.sqrt(z * z + 4 * _FRACTION_DEPTH) - z) / 2
    ratios: list[Floats] = []
    for n in reversed(range(1, _FRACTION_DEPTH)):
        ratio = n / (z + ratio)
        ratios.append(ratio)
    ratios.reverse()
    moment = first[far]
    for n in range(1, count):
        moment = moment * ratios[n - 1]
        forward[n][far] = moment
    return forward


@lru_cache(maxsize=1024)
def largest_mu(epsilon: float, delta: float) -> float:
    """The largest mu with delta_gaussian(mu, epsilon) <= delta; it satisfies the forward map.

    Remembered: every calibration of a plan asks for the same few.
    """
    return float(bisect_floats(lambda mu: delta_gaussian(mu, epsilon) <= delta, np.zeros(()), np.array(1e6)))


def quantile_for_infinity(target_delta: float, max_groups: int) -> float:
    """The t that one of max_groups normal variables exceeds with this probability: Phi^-1((1 - delta)^(1/max_groups))."""
    return -float(ndtri(-math.expm1(math.log1p(-target_delta) / max_groups)))


def theta(variance: float) -> tuple[float, float]:
    """Bounds on the sum of e^(-x^2/(2 variance)) over all integers.

    By Poisson summation it is sqrt(2 pi variance) (1 + 2 sum_m e^(-2 pi^2 variance m^2)). Either series has positive terms, so
    a part of it is a lower bound, and a geometric series bounds what is left.
    """
    if variance > _SMOOTH:
        total = math.sqrt(2 * math.pi * variance)
    else:
        reach = math.ceil(math.sqrt(2 * _REACH * variance)) + 2
        total = 1 + 2 * math.fsum(math.exp(-x * x / (2 * variance)) for x in range(1, reach))
    return total / (1 + ROUNDING), total * (1 + ROUNDING)


@proved("[CKS20] Theorem 7")
def delta_discrete_gaussian(epsilon: float, variance: float, counts: int) -> float:
    """The delta at epsilon of noise N_Z(0, variance) on `counts` counts that one unit moves by one each. Rounded up.

    The privacy loss at noise x is (2 S + counts)/(2 variance), S = sum x_i, so that
    delta = sum over s > s0 = epsilon variance - counts/2 of P(S = s) (1 - e^(-(s - s0)/variance)).
    For one count this is [CKS20] Theorem 7. The law of S: completing the square, two sums of weights e^(-x^2/(2 a)) and
    e^(-x^2/(2 b)) convolve to e^(-s^2/(2 (a + b))) times a sum over x of e^(-(x - t)^2/(2 ab/(a + b))), which is largest at
    whole t (its Fourier coefficients are positive). Hence P(S = s) <= C e^(-s^2/(2 counts variance)) with
    C = prod_{j < counts} theta(variance j/(j + 1))/theta(variance)^counts, and equality for one count. C is the normaliser of
    a discrete Gaussian up to some e^(-pi^2 variance). A unit in fewer counts has no larger delta: leave the others out.
    """
    total = counts * variance
    first = epsilon * variance - counts / 2
    first -= 1e-15 * (epsilon * variance + counts)
    last = math.sqrt(max(first, 0.0) ** 2 + 2 * _REACH * total)
    width = 1 + int(math.sqrt(total) / _POINTS_PER_STD)
    starts = np.arange(math.floor(first) + 1, last + width, width, dtype=np.float64)
    ends = starts + (width - 1)
    # Of a block, the largest weight and the largest loss: both exact where a block is one value.
    nearest = np.where(starts * ends > 0, np.minimum(np.abs(starts), np.abs(ends)), 0.0)
    shift = max(first, 0.0) ** 2  # keeps the weights of far tails from underflow
    terms = np.exp(-(nearest * nearest - shift) / (2 * total)) * -np.expm1(-(ends - first) / variance)
    beyond = total / last * math.exp(-_REACH)  # the integral of e^(-x^2/(2 total)) from `last` on
    log_delta = _log_constant(variance, counts) - shift / (2 * total) + math.log(width * float(terms.sum()) + beyond)
    return raise_for_rounding(math.exp(min(log_delta, 0.0)))


def _log_constant(variance: float, counts: int) -> float:
    """log C, rounded up: theta(variance j/(j + 1)) by itself for small j; divided by its leading term it falls with j."""
    if counts == 1:
        return -math.log(theta(variance)[0])
    splits = min(counts - 1, _FEWEST_SPLITS)
    excess = [_log_excess(variance * j / (j + 1)) for j in range(1, splits + 1)]
    above = math.fsum(excess) + (counts - 1 - splits) * excess[-1]
    below = counts * max(0.0, math.log(theta(variance)[0] / math.sqrt(2 * math.pi * variance)))
    # The leading terms of all factors together are 1/sqrt(2 pi counts variance).
    return above - below - 0.5 * math.log(2 * math.pi * counts * variance) + 1e-12 * counts


def _log_excess(variance: float) -> float:
    """log(theta(variance)/sqrt(2 pi variance)), rounded up: log(1 + 2 sum_m e^(-2 pi^2 variance m^2)), at least 0."""
    if variance > _SMOOTH:
        return 2.1 * math.exp(-2 * math.pi**2 * variance)
    return max(0.0, math.log(theta(variance)[1] / math.sqrt(2 * math.pi * variance)))
