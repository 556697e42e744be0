"""Noisy counts of the largest groups when a source gives only its k+1 largest [Rogers24, Theorem 8, corrected].

k = most_groups. Each of the k largest counts gets its own noise; a group is released if its noisy count is strictly
above the (k+1)-th largest count (0 if there are fewer) plus T plus a noise of its own. That noisy threshold is free
to publish.

What the paper has to add: one unit can bring a group into the list and push another out, so up to max_groups + 1
coordinates change when max_per_group > 1, but their squared distance is at most min(max_groups, k+1) max_per_group^2.
Groups with equal counts are taken in an order of their labels that does not depend on the data; otherwise up to k
groups of the list can be exchanged, and only m = k is valid. Only at most m = min(max_groups, k) groups of the list
are new, each with a count of at most max_per_group above the (k+1)-th. Neighbours differ by adding or removing one
unit; replacing one would need T = 2 max_per_group + ... and is not supported.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.special import log_ndtr, ndtri

from dphist.privacy.gaussian import delta_gaussian, raise_for_rounding
from dphist.privacy.search import smallest


def new_groups(most_groups: int, max_groups: int | None) -> int:
    """m: the most groups of the list that one unit can bring into it; None is no bound on the groups of a unit."""
    return most_groups if max_groups is None else min(max_groups, most_groups)


def moved_groups(most_groups: int, max_groups: int | None) -> int:
    """min(max_groups, k + 1): the squared distance of two neighbouring lists, in units of max_per_group^2."""
    return most_groups + 1 if max_groups is None else min(max_groups, most_groups + 1)


def rho(noise_std: float, most_groups: int, max_groups: int | None, max_per_group: int = 1) -> float:
    """[Rogers24] Theorem 8: min(max_groups, k+1) max_per_group^2/(2 noise_std^2), for Gaussian noise. Rounded up."""
    return moved_groups(most_groups, max_groups) * max_per_group**2 / (2 * noise_std**2) * (1 + 1e-14)


def delta_infinity(gap: float, noise_std: float, new: int) -> float:
    """The probability that one of `new` groups of count max_per_group passes the noisy threshold, for Gaussian noise.

    The integral of phi(x) (1 - Phi(x + gap/noise_std)^new) dx, gap = T - max_per_group. By the trapezoidal rule,
    which converges exponentially here; rounded up by 1e-9.
    """
    t = gap / noise_std
    step = 1 / 64
    x = np.arange(-40 * 64, 40 * 64 + 1) * step
    inside = -np.expm1(new * log_ndtr(x + t))
    total = float(np.sum(np.exp(-x * x / 2) * inside)) * step / math.sqrt(2 * math.pi)
    return min(1.0, total * (1 + 1e-9))


def threshold_simple(target_delta: float, noise_std: float, new: int, max_per_group: int = 1) -> float:
    """The closed form: max_per_group - sqrt(2) noise_std Phi^-1(delta/new), by a union bound."""
    return max_per_group - math.sqrt(2) * noise_std * float(ndtri(target_delta / new))


def threshold_exact(target_delta: float, noise_std: float, new: int, max_per_group: int = 1) -> float:
    """The smallest T with `delta_infinity` <= target_delta."""
    gap = smallest(
        lambda g: delta_infinity(g, noise_std, new),
        target_delta,
        start=threshold_simple(target_delta, noise_std, new, 0),
        low=0.0,
        high=80 * noise_std,
    )
    return max_per_group + gap


def delta(
    epsilon: float,
    *,
    noise_std: float,
    threshold: float,
    most_groups: int,
    max_groups: int | None,
    max_per_group: int = 1,
) -> float:
    """[Rogers24] Theorem 8 with Gaussian noise: d + (1 - d) delta_G(sqrt(2 rho), epsilon), d = delta_infinity. Rounded up."""
    infinity = delta_infinity(threshold - max_per_group, noise_std, new_groups(most_groups, max_groups))
    mu = math.sqrt(2 * rho(noise_std, most_groups, max_groups, max_per_group))
    return raise_for_rounding(infinity + (1 - infinity) * float(delta_gaussian(mu, epsilon)))
