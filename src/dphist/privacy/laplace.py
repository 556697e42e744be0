"""Laplace thresholding as an (epsilon, delta) guarantee [Rogers24, Theorem 7, corrected].

Noise of scale b on every count; one unit moves at most max_groups counts by at most max_per_group each. The noise alone is
pure: epsilon = max_groups max_per_group/b. A group that holds only this unit has a count of at most max_per_group and must
stay hidden: delta = 1 - (1 - tail)^max_groups, tail = P(noise > gap), gap = threshold - (low_threshold - 1 + max_per_group).
"""

from __future__ import annotations

import math

from dphist.privacy.gaussian import raise_for_rounding


def tail_per_group(target_delta: float, max_groups: int) -> float:
    """The largest tail probability of one group: 1 - (1 - delta)^(1/max_groups). Rounded down."""
    return -math.expm1(math.log1p(-target_delta) / max_groups) * (1 - 1e-12)


def epsilon(scale: float, max_groups: int, max_per_group: int = 1) -> float:
    """max_groups max_per_group/scale. Rounded up."""
    return max_groups * max_per_group / scale * (1 + 1e-15)


def delta_continuous(gap: float, scale: float, max_groups: int) -> float:
    """delta for Laplace noise, gap >= 0: 1 - (1 - exp(-gap/scale)/2)^max_groups. Rounded up."""
    return raise_for_rounding(-math.expm1(max_groups * math.log1p(-math.exp(-gap / scale) / 2)))


def delta_discrete(gap: int, scale: float, max_groups: int) -> float:
    """delta for discrete Laplace noise, P(z) proportional to exp(-|z|/scale), gap >= 0 an integer.

    P(Z > gap) = r^(gap+1)/(1 + r), r = exp(-1/scale). Rounded up.
    """
    tail = math.exp(-(gap + 1) / scale) / (1 + math.exp(-1 / scale))
    return raise_for_rounding(-math.expm1(max_groups * math.log1p(-tail)))


def smallest_gap_continuous(target_delta: float, scale: float, max_groups: int) -> float:
    """The smallest gap >= 0 for Laplace noise: b ln(1/(2 tail))."""
    tail = tail_per_group(target_delta, max_groups)
    gap = max(0.0, -scale * math.log(2 * tail))
    while delta_continuous(gap, scale, max_groups) > target_delta:
        gap = gap * (1 + 1e-12) + scale * 1e-12
    return gap


def smallest_gap_discrete(target_delta: float, scale: float, max_groups: int) -> int:
    """The smallest integer gap >= 0 for discrete Laplace noise: from below, until the forward map holds."""
    tail = tail_per_group(target_delta, max_groups)
    gap = max(0, math.ceil(-scale * math.log(tail * (1 + math.exp(-1 / scale)))) - 3)
    while delta_discrete(gap, scale, max_groups) > target_delta:
        gap += 1
    return gap


def rho_continuous(epsilon_per_group: float, max_groups: int) -> float:
    """The tight zCDP parameter of Laplace noise: max_groups (e + exp(-e) - 1), e = max_per_group/scale. Rounded up."""
    e = epsilon_per_group
    return max_groups * (e + math.expm1(-e)) * (1 + 1e-10) if e > 1e-3 else max_groups * e * e / 2


def rho_discrete(epsilon_per_group: float, max_groups: int, max_per_group: int = 1) -> float:
    """The same for discrete Laplace noise, for which the continuous formula is too small.

    max_groups (e - s (1 - exp(-e))/sinh(s)), s = e/max_per_group the exponent per step. Rounded up.
    """
    e = epsilon_per_group
    s = e / max_per_group
    if e < 1e-3:
        return max_groups * e * e / 2  # what every pure mechanism has
    return max_groups * max(0.0, e + s * math.expm1(-e) / math.sinh(s)) * (1 + 1e-9)
