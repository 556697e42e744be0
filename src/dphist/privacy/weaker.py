"""Weaker analyses of the sparse and the correlated Gaussian, as the papers have them: for a plan's table and papers/."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from dphist.checks import proved
from dphist.errors import Infeasible
from dphist.privacy.gaussian import ROUNDING, delta_gaussian, quantile_for_infinity, raise_for_rounding
from dphist.privacy.search import worst_split
from dphist.privacy.special import log_ndtr

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


@proved("[KKWZ24] Corollary 5.4.1")
def add_the_deltas(gauss: float, infinity: float) -> float:
    """[KKWZ24] Corollary 5.4.1: the delta of the noise and the chance that a new group is released, added up."""
    return min(1.0, gauss + infinity)


@proved("[KKWZ24] Theorem 7.1")
def f_dp(
    low: Integers, high: Integers, *, epsilon: float, max_groups: int, log_keep: float, per_group: float
) -> Floats:
    """[KKWZ24] Theorem 7.1 for a range of a: 1 - beta + beta delta_G(mu(a), epsilon), as `sparse_gaussian._exact` has it."""
    log_beta = (max_groups - low) * log_keep
    noise = delta_gaussian(np.sqrt(high * per_group), epsilon)
    return np.asarray((-np.expm1(log_beta) + np.exp(log_beta) * noise) * (1 + 1e-11))


# The correlated histogram as [LR25] analyse it: correlation 1/sqrt(k), every unit may change all k counters; `tight` is never
# looser. s is `independent_std`, k is `sparsity`.


@proved("[LR25] Lemma 2.8")
def paper_sensitivity(sparsity: int, lattice_step: float = 0.0) -> float:
    """[LR25] Lemma 2.8 with correlation 1/sqrt(k): sqrt(k + sqrt(k))/2, in units of s.

    On a lattice the common shift of 1/2 is off by at most g/2, which adds (k + sqrt k)(g/2)^2 to the square.
    """
    return math.sqrt((sparsity + math.sqrt(sparsity)) * (1 + lattice_step**2)) / 2


@proved("[LR25] Lemma 2.8")
def paper_delta_gauss(epsilon: float, sparsity: int, independent_std: float, lattice_step: float = 0.0) -> float:
    """[LR25]: the delta of the noise alone. Rounded up."""
    return raise_for_rounding(
        float(delta_gaussian(paper_sensitivity(sparsity, lattice_step) / independent_std, epsilon))
    )


def _log_keep(sparsity: int, independent_std: float, gap: float) -> float:
    """log Phi(gap/(s (1 + k^(-1/4)))): Lemma 3.2 gives the common noise k^(-1/4) of the gap and each counter the rest."""
    return float(log_ndtr(gap / (independent_std * (1 + sparsity**-0.25))))


@proved("[LR25] Lemma 3.2")
def paper_delta_infinity(sparsity: int, independent_std: float, gap: float) -> float:
    """[LR25] Lemma 3.2: 1 - Phi(gap/(s(1 + k^(-1/4))))^(k+1). Rounded up."""
    return raise_for_rounding(-math.expm1((sparsity + 1) * _log_keep(sparsity, independent_std, gap)))


@proved("[LR25] Theorem 3.3")
def delta_theorem_33(
    epsilon: float, sparsity: int, independent_std: float, gap: float, lattice_step: float = 0.0
) -> float:
    """[LR25] Theorem 3.3, add the deltas: delta_gauss + delta_infinity."""
    gauss = paper_delta_gauss(epsilon, sparsity, independent_std, lattice_step)
    return add_the_deltas(gauss, paper_delta_infinity(sparsity, independent_std, gap))


@proved("[LR25] Theorem 3.5")
def delta_theorem_35(
    epsilon: float,
    sparsity: int,
    independent_std: float,
    gap: float,
    lattice_step: float = 0.0,
    enough: float | None = None,
) -> float:
    """[LR25] Theorem 3.5. With gamma(j) = min(sqrt j, sqrt(j + sqrt k)/2) and psi(i) = Phi(gap/((1 + k^(-1/4)) s))^(i+1):

    the largest of 1 - psi(k); delta_G(sqrt(k + sqrt k)/(2s), epsilon); and for j = 1..k-1
    1 - psi(k-j) + delta_G(gamma(j)/s, epsilon) and delta_G(gamma(j)/s, epsilon + log psi(k-j)). Rounded up.
    """
    log_keep = _log_keep(sparsity, independent_std, gap)

    def upper(low: Integers, high: Integers) -> Floats:
        shared = np.sqrt((high + math.sqrt(sparsity)) * (1 + lattice_step**2)) / 2
        gamma = np.minimum(np.sqrt(high), shared) / independent_std
        log_psi = (sparsity - low + 1) * log_keep
        added = -np.expm1(log_psi) + delta_gaussian(gamma, epsilon)
        return np.asarray(np.maximum(added, delta_gaussian(gamma, epsilon + log_psi)) * (1 + ROUNDING))

    gauss = paper_delta_gauss(epsilon, sparsity, independent_std, lattice_step)
    pure = max(paper_delta_infinity(sparsity, independent_std, gap), gauss)
    return min(1.0, worst_split(upper, 1, sparsity - 1, at_least=pure, enough=enough))


def paper_gap_for_infinity(target_delta: float, sparsity: int, independent_std: float) -> float:
    """The gap at which `paper_delta_infinity` alone is target_delta."""
    return quantile_for_infinity(target_delta, sparsity + 1) * independent_std * float(1 + sparsity**-0.25)


@proved("[LR25] Lemma 3.4")
def gap_lemma_34(epsilon: float, target_delta: float, sparsity: int, independent_std: float) -> float:
    """[LR25] Lemma 3.4 with the sign lost in print: s (1 + k^(-1/4)) Phi^-1((1 - delta + delta_gauss)^(1/(k+1)))."""
    left = target_delta - paper_delta_gauss(epsilon, sparsity, independent_std)
    if left <= 0:
        raise Infeasible("noise whose delta leaves something for the threshold", f"independent_std = {independent_std}")
    return paper_gap_for_infinity(left, sparsity, independent_std)
