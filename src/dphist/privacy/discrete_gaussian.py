"""Discrete Gaussian noise on several counts at once: its profile, all counts together."""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from dphist.checks import proved
from dphist.privacy.gaussian import raise_for_rounding

_POINTS_PER_STD: Final = 20_000
"""Sums with a larger standard deviation are added up in blocks."""

_REACH: Final = 60.0
"""Terms beyond have e^-60 of the first one's weight; a bound stands for them."""

_FEWEST_SPLITS: Final = 64
_SMOOTH: Final = 4.0  # a variance above which the Gaussian integral is the sum over the integers, to 1e-34
_UP: Final = 1 + 1e-11


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
    return total / _UP, total * _UP


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
