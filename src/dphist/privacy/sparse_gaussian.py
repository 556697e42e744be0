"""The Gaussian sparse histogram [KKWZ24]: noise every non-empty group, release what exceeds the threshold.

For each group whose true count of units is at least low_threshold: add N(0, noise_std^2), release the noisy count if it
is strictly above the threshold, and with it the group's other aggregates. A unit counts once in each of at most
`max_groups` groups. Everything depends on the gap = threshold - low_threshold. `sums_sensitivity` (mu_o on the page) is
how far one unit can move the other aggregates of one group, in units of their noise.

Neighbours differ by adding or removing all records of one unit.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Final, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from dphist.checks import proved
from dphist.errors import Infeasible
from dphist.privacy.gaussian import delta_gaussian, largest_mu, quantile_for_infinity, raise_for_rounding
from dphist.privacy.search import SPLIT_TOLERANCE, best_noise, smallest, worst_split
from dphist.privacy.special import log_ndtr, ndtri
from dphist.privacy.weaker import add_the_deltas, f_dp

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Analysis = Literal["exact", "f-dp", "add-the-deltas"]
ANALYSES: Final[tuple[Analysis, ...]] = get_args(Analysis)

Z95: Final = float(-ndtri(0.05))
"""A group is released with probability 95 % when its count is the threshold plus this many noise_std."""

_MARGIN = 1 - 4 * SPLIT_TOLERANCE
_ROUGH = 1e-5


@proved("[KKWZ24] Corollary 5.4.1")
def delta_gauss(epsilon: float, max_groups: int, noise_std: float, sums_sensitivity: float = 0.0) -> float:
    """Corollary 5.4.1: the delta of the noise alone, every group of the unit being large. Rounded up."""
    mu = math.sqrt(max_groups * (1 / noise_std**2 + sums_sensitivity**2))
    return raise_for_rounding(float(delta_gaussian(mu, epsilon)))


@proved("[KKWZ24] Corollary 5.4.1")
def delta_infinity(gap: float, max_groups: int, noise_std: float) -> float:
    """Corollary 5.4.1: the probability that a group which holds only one unit is released.

    1 - Phi(gap/noise_std)^max_groups. Rounded up.
    """
    return raise_for_rounding(-math.expm1(max_groups * float(log_ndtr(gap / noise_std))))


@proved("[KKWZ24] Theorem 5.4")
def delta(
    epsilon: float,
    *,
    max_groups: int,
    noise_std: float,
    gap: float,
    sums_sensitivity: float = 0.0,
    analysis: Analysis = "exact",
    tolerance: float = SPLIT_TOLERANCE,
    enough: float | None = None,
) -> float:
    """Delta at epsilon >= 0: an upper bound on the true one, by the chosen analysis of the same mechanism.

    A larger `tolerance` is faster and lets it be that much larger, relatively. With `enough` only a result up to that is
    a bound (`worst_split`): for searches.
    """
    gauss = delta_gauss(epsilon, max_groups, noise_std, sums_sensitivity)
    infinity = delta_infinity(gap, max_groups, noise_std)
    if analysis == "add-the-deltas":
        return add_the_deltas(gauss, infinity)
    bound = partial(
        _exact if analysis == "exact" else f_dp,
        epsilon=epsilon,
        max_groups=max_groups,
        log_keep=float(log_ndtr(gap / noise_std)),
        per_group=1 / noise_std**2 + sums_sensitivity**2,
    )
    # max(gauss, infinity) are the two ends a = K and a = 0 of the maximum.
    pure = max(gauss, infinity)
    return min(1.0, worst_split(bound, 1, max_groups - 1, at_least=pure, tolerance=tolerance, enough=enough))


def _exact(
    low: Integers, high: Integers, *, epsilon: float, max_groups: int, log_keep: float, per_group: float
) -> Floats:
    """Theorem 5.4 for a range of a = shared groups; b = max_groups - a are new, beta = Phi(gap/noise_std)^b.

    The larger of 1 - beta + beta delta_G(mu(a), epsilon - log beta) and delta_G(mu(a), epsilon + log beta). Both grow
    with mu(a) = sqrt(a per_group) and with b, so a range takes its largest a for the one and its smallest for the other.
    """
    mu = np.sqrt(high * per_group)
    log_beta = (max_groups - low) * log_keep
    added = -np.expm1(log_beta) + np.exp(log_beta) * delta_gaussian(mu, epsilon - log_beta)
    removed = delta_gaussian(mu, epsilon + log_beta)
    return np.asarray(np.maximum(added, removed) * (1 + 1e-11))


def smallest_noise(epsilon: float, target_delta: float, max_groups: int, sums_ratio: float = 0.0) -> float:
    """The smallest noise_std for which some gap meets the target: the noise of a plain Gaussian mechanism.

    sums_ratio = (sums_sensitivity noise_std)^2: the budget of the other aggregates relative to the count's.
    """
    mu = largest_mu(epsilon, target_delta * _MARGIN)
    return math.sqrt(max_groups * (1 + sums_ratio)) / mu


def smallest_gap(
    epsilon: float,
    target_delta: float,
    *,
    max_groups: int,
    noise_std: float,
    sums_sensitivity: float = 0.0,
    analysis: Analysis = "exact",
    tolerance: float = SPLIT_TOLERANCE,
) -> float:
    """The smallest gap that meets the target with this noise; Infeasible if none does. `tolerance` as in `delta`."""

    def delta_at(gap: float) -> float:
        return delta(
            epsilon,
            max_groups=max_groups,
            noise_std=noise_std,
            gap=gap,
            sums_sensitivity=sums_sensitivity,
            analysis=analysis,
            tolerance=tolerance,
            enough=target_delta,
        )

    largest = 40 * noise_std  # there delta_infinity is 0 in doubles
    if delta_at(largest) > target_delta:
        raise Infeasible(
            f"noise_std of at least {_least_for(epsilon, target_delta, max_groups, sums_sensitivity)}"
            f" for epsilon = {epsilon:g}, delta = {target_delta:g}, max_groups = {max_groups}",
            f"{noise_std:.6g}",
            "more noise, more epsilon, or fewer groups or aggregates per unit",
        )
    gauss = delta_gauss(epsilon, max_groups, noise_std, sums_sensitivity)
    left = target_delta - gauss if analysis == "add-the-deltas" else target_delta
    # Below this gap the chance that a new group is released is by itself more than what is left for it.
    least = noise_std * quantile_for_infinity(max(left * _MARGIN, target_delta * 1e-12), max_groups)
    if least >= 0 and delta_at(least) <= target_delta:
        return least
    start = min(max(least, 0.0), largest)
    return smallest(delta_at, target_delta, start=start, low=0.0, high=largest, tolerance=tolerance / 10)


def _least_for(epsilon: float, target_delta: float, max_groups: int, sums_sensitivity: float) -> str:
    left = largest_mu(epsilon, target_delta * _MARGIN) ** 2 / max_groups - sums_sensitivity**2
    return f"{1 / math.sqrt(left):.6g}" if left > 0 else "infinity (the other aggregates alone spend the budget)"


def best_pair(
    epsilon: float,
    target_delta: float,
    *,
    max_groups: int,
    sums_ratio: float = 0.0,
    analysis: Analysis = "exact",
    weight: float = 0.0,
) -> tuple[float, float]:
    """(noise_std, gap) with the smallest gap + weight * noise_std among all that meet the target.

    weight = 0 minimises the gap, weight = `Z95` the true count that is released with 95 % probability; an infinite
    weight asks for the smallest noise (add-the-deltas, which cannot attain its infimum, then keeps 1 % of delta for
    the threshold). Under the exact analysis the smallest noise has the smallest gap too, wherever the maximum of the two
    pure deltas is the exact delta; the search starts there and only ever improves on it.
    """
    share = 0.99 if analysis == "add-the-deltas" and math.isinf(weight) else 1.0
    least = smallest_noise(epsilon, target_delta * share, max_groups, sums_ratio)

    def gap_at(noise_std: float, tolerance: float = SPLIT_TOLERANCE) -> float:
        return smallest_gap(
            epsilon,
            target_delta,
            max_groups=max_groups,
            noise_std=noise_std,
            sums_sensitivity=math.sqrt(sums_ratio) / noise_std,
            analysis=analysis,
            tolerance=tolerance,
        )

    floor = least * quantile_for_infinity(target_delta, max_groups)
    return best_noise(least, gap_at, weight=weight, floor=floor, rough=partial(gap_at, tolerance=_ROUGH))
