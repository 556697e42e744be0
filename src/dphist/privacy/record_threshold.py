"""Thresholding counts to which one unit adds up to max_per_group in each of max_groups groups [Rogers24, Theorem 7, corrected].

Every positive count gets noise; what is strictly above the threshold T is released. A group that holds only this unit
has a count of at most max_per_group, so with gap = T - max_per_group it stays hidden unless its noise exceeds the
gap. The paper's typing errors: the l2 sensitivity is max_per_group sqrt(max_groups), and rho = max_groups
max_per_group^2/(2 noise_std^2). Neighbours differ by adding or removing one unit. Laplace noise:
`privacy/laplace.py`.
"""

from __future__ import annotations

import math

from scipy.special import ndtri

from dphist.privacy import sparse_gaussian
from dphist.privacy.laplace import smallest_gap_continuous, tail_per_group
from dphist.privacy.search import smallest


def rho_gaussian(noise_std: float, max_groups: int, max_per_group: int = 1) -> float:
    """[Rogers24] Theorem 7: the zCDP parameter of Gaussian noise, max_groups max_per_group^2/(2 noise_std^2). Rounded up."""
    return max_groups * max_per_group**2 / (2 * noise_std**2) * (1 + 1e-14)


def delta_gaussian_noise(
    epsilon: float, *, noise_std: float, threshold: float, max_groups: int, max_per_group: int = 1
) -> float:
    """[Rogers24] Theorem 7, exactly: the sparse Gaussian of [KKWZ24] Theorem 5.4 in units of max_per_group. Rounded up.

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


def delta_infinity_gaussian(noise_std: float, threshold: float, max_groups: int, max_per_group: int = 1) -> float:
    """The probability that a group of one unit is released: 1 - Phi(gap/noise_std)^max_groups. Rounded up."""
    return sparse_gaussian.delta_infinity(threshold - max_per_group, max_groups, noise_std)


def threshold_gaussian(target_delta: float, noise_std: float, max_groups: int, max_per_group: int = 1) -> float:
    """The smallest T with `delta_infinity_gaussian` <= target_delta: max_per_group - noise_std Phi^-1(tail). Rounded up."""
    guess = max_per_group - noise_std * float(ndtri(tail_per_group(target_delta, max_groups)))
    return smallest(
        lambda t: delta_infinity_gaussian(noise_std, t, max_groups, max_per_group),
        target_delta,
        start=max(guess, float(max_per_group)),
        low=float(max_per_group),
        high=max_per_group + 60 * noise_std,
    )


def threshold_laplace(target_delta: float, scale: float, max_groups: int, max_per_group: int = 1) -> float:
    """The smallest T for Laplace noise: max_per_group + scale ln(1/(2 tail)). Rounded up."""
    return math.nextafter(max_per_group + smallest_gap_continuous(target_delta, scale, max_groups), math.inf)
