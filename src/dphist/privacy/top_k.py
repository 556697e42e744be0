"""Correlated noise on the k largest counts [LR25, Algorithm 3], debiased.

Subtract K, the (k+1)-th largest count, from every counter and keep the positive ones: a k-sparse histogram in which one
unit moves counters all up or all down (Lemma 4.1). To publish counts instead of residuals K must be published too:

* ``independent``: K + N(0, c0 s^2), the paper's way; adds 1/c0 to S2.
* ``anti-correlated``: K + N(0, c0 s^2) - Z_c. -K then behaves as one more counter, a block of 1/c0 virtual ones, moving
  with the others; S2 = (k + 1/c + 1/c0)/4, and Z_c cancels in residual + K, whose noise is s^2 (1 + c0).

When K rises every untouched counter falls, so a unit can move all k counters however few groups it is in: max_groups cannot
be used here. `sums_sensitivity` adds k mu_o^2.
"""

from __future__ import annotations

import math
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from dphist.privacy import correlated_paper
from dphist.privacy.correlated_design import smallest_t
from dphist.privacy.correlated_gaussian import CommonNoise, squared_sensitivity, tight_bound
from dphist.privacy.gaussian import delta_gaussian, largest_mu, raise_for_rounding
from dphist.privacy.search import best_noise, smallest
from dphist.privacy.splits import SPLIT_TOLERANCE

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
BaseRelease = Literal["none", "independent", "anti-correlated"]


def squared_sensitivity_with_base(
    k: int,
    correlation: float,
    base_variance: float,
    release: BaseRelease,
    new: Integers | int = 0,
    *,
    lattice_step: float = 0.0,
) -> Floats:
    """S2 for `new` new counters, in units of independent_std^2; base_variance is c0.

    Anti-correlated: with n = k - new + 1/c0 (virtual) counters the moved weight is P = p (K does not move) or P = p + 1/c0
    (it does), and S2 = P - P^2/(n + 1/c), largest over the integers p = 0..k - new in both cases.
    """
    added = np.asarray(new, np.float64)
    if release != "anti-correlated":
        plain = squared_sensitivity(k, k, correlation, new, lattice_step=lattice_step)
        return plain + (1 / base_variance if release == "independent" else 0.0)
    block = 1 / base_variance
    effective = k - added + block + 1 / correlation
    candidates = [
        (p + moved) * ((k - added - p) + (block - moved) + 1 / correlation) / effective
        for moved in (0.0, block)
        for up in (0, 1)
        for p in [np.clip(np.floor(effective / 2 - moved) + up, 0, k - added)]
    ]
    return np.asarray(np.max(candidates, axis=0) + effective * lattice_step**2 / 4)


def delta(
    epsilon: float,
    *,
    k: int,
    independent_std: float,
    correlation: float,
    gap: float,
    release: BaseRelease = "anti-correlated",
    base_variance: float = math.nan,
    sums_sensitivity: float = 0.0,
    lattice_step: float = 0.0,
) -> float:
    """Delta at epsilon >= 0: Theorems 2 and 3 of the derivation with K released as section 6 describes. Rounded up.

    The mixed cases bind here, and at `new` = k the delta is not delta_infinity alone, since K still moves.
    """

    def mu(new: Integers) -> Floats:
        squared = squared_sensitivity_with_base(k, correlation, base_variance, release, new, lattice_step=lattice_step)
        return np.asarray(np.sqrt(squared / independent_std**2 + k * sums_sensitivity**2))

    return tight_bound(epsilon, mu, CommonNoise(correlation, gap / independent_std, k), k)


def calibrate(
    epsilon: float,
    target_delta: float,
    *,
    k: int,
    correlation: float,
    release: BaseRelease = "anti-correlated",
    base_variance: float = math.nan,
    lattice_step: float = 0.0,
    weight: float = 0.0,
) -> tuple[float, float]:
    """(independent_std, gap) with the smallest gap + weight * independent_std for these correlations."""
    squared = squared_sensitivity_with_base(k, correlation, base_variance, release, lattice_step=lattice_step)
    noise = math.sqrt(float(squared)) / largest_mu(epsilon, target_delta * (1 - 20 * SPLIT_TOLERANCE))
    t = smallest_t(target_delta, k, correlation)

    def gap_at(independent_std: float) -> float:
        def delta_at(gap: float) -> float:
            return delta(
                epsilon,
                k=k,
                independent_std=independent_std,
                correlation=correlation,
                gap=gap,
                release=release,
                base_variance=base_variance,
                lattice_step=lattice_step,
            )

        least = independent_std * t
        return smallest(delta_at, target_delta, start=least, low=least, high=10 * least, tolerance=1e-10)

    return best_noise(noise, gap_at, weight=weight, floor=noise * t, tolerance=1e-2)


def delta_paper(epsilon: float, k: int, independent_std: float, gap: float) -> float:
    """Theorem 3.3 for top-k with K released independently, c = c0 = 1/sqrt(k): S2 = (k + 5 sqrt k)/4. Rounded up."""
    sensitivity = math.sqrt(k + 5 * math.sqrt(k)) / 2
    gauss = raise_for_rounding(float(delta_gaussian(sensitivity / independent_std, epsilon)))
    return min(1.0, gauss + correlated_paper.delta_infinity(k, independent_std, gap))
