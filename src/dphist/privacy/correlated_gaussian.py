"""The correlated stability histogram [LR25], analysed exactly, with any correlation and any contribution bound.

Draw one Z_c ~ N(0, c s^2) and for every non-empty group Z_i ~ N(0, s^2); release count + Z_i + Z_c where it is strictly
above the threshold. s is `independent_std`, c is `correlation`, k is `sparsity`: a public bound on the number of
non-empty groups of *every* data set. One unit changes at most m = `max_groups` <= k counters, all by +1 or all by -1.
c = 0 is the sparse Gaussian histogram; [LR25] fix c = 1/sqrt(k).

The proofs are in csh-derivation.md: a pair of neighbours is described by p shared counters that change, u that do not,
and a new ones; a = 0 and a = m are exact, the rest is bounded. The noise actually drawn lies on a lattice of step g, on
which the common shift must lie too; `squared_sensitivity` pays for that.

Correlated noise on the k largest counts [LR25, Algorithm 3], debiased: subtract K, the (k+1)-th largest count, from every
counter and keep the positive ones: a k-sparse histogram in which one unit moves counters all up or all down (Lemma 4.1). To
publish counts instead of residuals K must be published too, as K + N(0, c0 s^2) - Z_c: -K then behaves as one more counter,
a block of 1/c0 virtual ones, moving with the others; S2 = (k + 1/c + 1/c0)/4, and Z_c cancels in residual + K, whose noise
is s^2 (1 + c0). When K rises every untouched counter falls, so a unit can move all k counters however few groups it is in:
max_groups cannot be used there.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Final, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from dphist.checks import proved
from dphist.privacy import weaker
from dphist.privacy.gaussian import ROUNDING, delta_gaussian, raise_for_rounding
from dphist.privacy.search import worst_split
from dphist.privacy.special import log_ndtr, ndtr, ndtri

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Analysis = Literal["tight", "paper-3.5", "paper-3.3"]
MuOfNew = Callable[[Integers], Floats]
ANALYSES: Final[tuple[Analysis, ...]] = get_args(Analysis)

_QUADRATURE_ERROR = 1e-31
_ROUGH_ERROR = 1e-9  # of a delta that is only searched for, relative
_MOST_NODES = 2**18  # beyond it (correlations far above any use) the bound is given up: delta_infinity = 1
_MOST_CELLS = 2**22
_MOST_BINS = 128
_MIXED_TOLERANCE = 1e-4


@proved("correlated.md#2-no-new-group")
def squared_sensitivity(
    sparsity: int,
    max_groups: int,
    correlation: float,
    new: Integers | int = 0,
    *,
    sums_ratio: float = 0.0,
    lattice_step: float = 0.0,
) -> Floats:
    """S2 of csh.md for `new` groups: the squared shift of all Gaussian outputs, in units of independent_std^2.

    With n = sparsity - new shared counters, of which p <= max_groups - new change, the common noise can hide a shift b of
    all of them: p(1-b)^2 + (n-p)b^2 + b^2/c, smallest at b = p/(n + 1/c), where it is p - p^2/(n + 1/c). Aggregates add
    p sums_ratio, sums_ratio = (sums_sensitivity independent_std)^2, and the maximum over p is joint. b must lie on the
    lattice: at distance <= g/2 from the optimum the sum is larger by at most (n + 1/c)(g/2)^2.
    """
    added = np.asarray(new, np.float64)
    most = np.minimum(max_groups, sparsity) - added
    linear = most * (1 + sums_ratio)  # b = 0: the common noise hides nothing
    if correlation == 0:
        return np.asarray(linear)
    effective = sparsity - added + 1 / correlation
    peak = np.floor(effective * (1 + sums_ratio) / 2)
    # p - p^2/effective, written so that nothing cancels when p is all there is and 1/c is tiny
    values = [
        p * sums_ratio + p * ((sparsity - added - p) + 1 / correlation) / effective
        for p in (np.minimum(peak, most), np.minimum(peak + 1, most))
    ]
    surcharge = np.where(most > 0, effective * lattice_step**2 / 4, 0.0)
    return np.asarray(np.minimum(linear, np.maximum(*values) + surcharge))


@proved("correlated.md#3-only-new-groups")
class CommonNoise:
    """Integrals over the common noise: E of Phi(t - sqrt(c) xi)^a for many a at one (c, t), t = gap/independent_std.

    The trapezoidal rule with step h on the whole line. Integrand and weight are entire, and on the line Im xi = y
    |phi| = e^(y^2/2) phi and |Phi(u + iv)| <= e^(v^2/2) Phi(u), so F = phi Phi^a has an integral of at most
    e^((1 + a c) y^2/2) there. By [TW14] Theorem 5.1 the error is below 2 e^((1+ac)d^2/2)/(e^(2 pi d/h) - 1) for every d;
    the best d makes it about 2 exp(-2 pi^2/(h^2 (1 + a c))), and 5 times that exponential is a bound. h makes this a quarter
    of `error`, and so are the tails that are left out. About 50 sqrt(1 + a c) nodes give an absolute error that is no longer
    of interest; it is added.
    """

    def __init__(self, correlation: float, t: float, most_new: int, error: float = _QUADRATURE_ERROR) -> None:
        if correlation == 0:
            self._nodes: Floats = np.zeros(1)
            self._weights = np.ones(1)
            self._error = 0.0
        else:
            step = math.pi * math.sqrt(2 / (math.log(20 / error) * (1 + most_new * correlation)))
            side = min(math.ceil(-float(ndtri(error / 8)) / step), _MOST_NODES)
            self._nodes = step * np.arange(-side, side + 1, dtype=np.float64)
            self._weights = step * np.exp(-(self._nodes**2) / 2) / math.sqrt(2 * math.pi)
            self._error = error
        self._given_up = len(self._nodes) > _MOST_NODES
        self._log_keep = log_ndtr(t - math.sqrt(correlation) * self._nodes)

    def delta_infinity(self, new: Integers) -> Floats:
        """Section 2 of the derivation: 1 - E[Phi(t - sqrt(c) xi)^new], the chance that a new counter is released."""
        # Ranges are looked at with their ends: the same numbers come twice.
        single, place = np.unique(np.asarray(new, np.float64), return_inverse=True)
        return self._delta_infinity(single)[place]

    def _delta_infinity(self, count: Floats) -> Floats:
        if self._given_up:
            return np.ones(count.shape)
        released = np.empty(count.shape)
        rows = max(1, _MOST_CELLS // len(self._nodes))
        for first in range(0, len(count), rows):
            part = slice(first, first + rows)
            # einsum, not @: BLAS would start threads for a sum that is over before they are.
            released[part] = np.einsum("ij,j->i", -np.expm1(count[part, None] * self._log_keep), self._weights)
        return np.asarray(np.minimum(released + self._error, 1.0))

    def refined(self, epsilon: float, mu: Floats, new: Integers, delta_infinity: Floats) -> Floats:
        """Theorem 3 of the derivation: E[1 - q + q delta_G(mu, epsilon - log q)], q = Phi(t - sqrt(c) xi)^new.

        The first part is delta_infinity. The second falls as xi grows, so that on each interval between nodes its value
        at the left end is an upper bound: an upper Darboux sum.
        """
        stride = -(-len(self._nodes) // _MOST_BINS)
        nodes, log_keep = self._nodes[::stride], self._log_keep[::stride]
        log_q = np.asarray(new, np.float64)[:, None] * log_keep
        second = np.exp(log_q) * delta_gaussian(mu[:, None], epsilon - log_q)
        if len(nodes) == 1:
            return np.asarray(delta_infinity + second[:, 0])
        mass = -np.diff(ndtr(-nodes), append=0.0)
        below = float(ndtr(nodes[0])) * delta_gaussian(mu, epsilon)
        return np.asarray(delta_infinity + second @ mass + below)


@proved("correlated.md#2-no-new-group")
def delta_gauss(
    epsilon: float,
    *,
    sparsity: int,
    max_groups: int,
    independent_std: float,
    correlation: float,
    sums_sensitivity: float = 0.0,
    lattice_step: float = 0.0,
) -> float:
    """The delta of the noise alone, no group being new: delta_G(sqrt(S2)/independent_std, epsilon). Rounded up."""
    ratio = (sums_sensitivity * independent_std) ** 2
    squared = squared_sensitivity(sparsity, max_groups, correlation, sums_ratio=ratio, lattice_step=lattice_step)
    return raise_for_rounding(float(delta_gaussian(np.sqrt(squared) / independent_std, epsilon)))


@proved("correlated.md#3-only-new-groups")
def delta_infinity(gap: float, max_groups: int, independent_std: float, correlation: float) -> float:
    """The probability that one of max_groups groups that hold a single unit is released. Rounded up."""
    common = CommonNoise(correlation, gap / independent_std, max_groups)
    return raise_for_rounding(float(common.delta_infinity(np.array([max_groups]))[0]))


@proved("correlated.md#4-both")
def delta(
    epsilon: float,
    *,
    sparsity: int,
    max_groups: int,
    independent_std: float,
    correlation: float,
    gap: float,
    sums_sensitivity: float = 0.0,
    lattice_step: float = 0.0,
    analysis: Analysis = "tight",
    sharp: bool = True,
    close: bool = True,
    enough: float | None = None,
) -> float:
    """Delta at epsilon >= 0: an upper bound on the true one. With `enough` only a result up to that is one: for searches.

    `tight` is the smaller of Theorems 2 and 3 of the derivation, which hold in both directions and equal the true delta
    wherever one of the pure cases (a = 0, a = max_groups) decides: at small deltas and correlations near the best one. The
    paper's analyses need correlation = 1/sqrt(sparsity), no aggregates and cannot use max_groups. Without `sharp` Theorem 2
    alone is used, which is fast and close; without `close` its maximum is known to 1e-4 only, from above.
    """
    if analysis == "paper-3.3":
        return weaker.delta_theorem_33(epsilon, sparsity, independent_std, gap, lattice_step)
    if analysis == "paper-3.5":
        return weaker.delta_theorem_35(epsilon, sparsity, independent_std, gap, lattice_step, enough)
    ratio = (sums_sensitivity * independent_std) ** 2

    def mu(new: Integers) -> Floats:
        squared = squared_sensitivity(
            sparsity, max_groups, correlation, new, sums_ratio=ratio, lattice_step=lattice_step
        )
        return np.sqrt(squared) / independent_std

    error = _QUADRATURE_ERROR if close or enough is None else max(_QUADRATURE_ERROR, enough * _ROUGH_ERROR)
    common = CommonNoise(correlation, gap / independent_std, max_groups, error)
    return tight_bound(epsilon, mu, common, max_groups, sharp=sharp, close=close, enough=enough)


@proved("correlated.md#4-both")
def tight_bound(
    epsilon: float,
    mu: MuOfNew,
    common: CommonNoise,
    most_new: int,
    *,
    sharp: bool = True,
    close: bool = True,
    enough: float | None = None,
) -> float:
    """The largest over new = 0..most_new of the smaller of Theorem 2 and Theorem 3 of the derivation. Rounded up.

    Theorem 2: 1 - (1 - delta_G(mu(new), epsilon))(1 - delta_infinity(new)). mu falls and delta_infinity grows with `new`,
    so a range of `new` takes mu at its smallest and delta_infinity at its largest. Theorem 3, which costs more, is
    evaluated only where Theorem 2 exceeds the pure cases, and then to `_MIXED_TOLERANCE`, from above.
    """
    ends = np.array([0, most_new])

    def product(low: Integers, high: Integers) -> Floats:
        noise = delta_gaussian(mu(low), epsilon)
        return np.asarray((noise + (1 - noise) * common.delta_infinity(high)) * (1 + ROUNDING))

    def smaller(low: Integers, high: Integers) -> Floats:
        shift, infinity = mu(low), common.delta_infinity(high)
        noise = delta_gaussian(shift, epsilon)
        both = np.minimum(noise + (1 - noise) * infinity, common.refined(epsilon, shift, high, infinity))
        return np.asarray(both * (1 + ROUNDING))

    pure = float(product(ends, ends).max())
    search = partial(worst_split, first=1, last=most_new - 1, at_least=pure, enough=enough)
    bound = search(product, tolerance=_MIXED_TOLERANCE)
    if enough is not None and (bound <= enough or pure > enough):
        return min(1.0, bound)
    if close and bound <= pure * (1 + 2 * _MIXED_TOLERANCE):  # a pure case decides, or nearly: look closely
        bound = search(product)
    if sharp and bound > pure * (1 + 1e-8):
        bound = min(bound, search(smaller, tolerance=_MIXED_TOLERANCE))
    return min(1.0, bound)


@proved("[LR25] Algorithm 3")
def squared_sensitivity_with_base(
    k: int, correlation: float, base_variance: float, new: Integers | int = 0, *, lattice_step: float = 0.0
) -> Floats:
    """S2 of the k largest counts and K for `new` new counters, in units of independent_std^2; base_variance is c0.

    With n = k - new + 1/c0 (virtual) counters the moved weight is P = p (K does not move) or P = p + 1/c0 (it does), and
    S2 = P - P^2/(n + 1/c), largest over the integers p = 0..k - new in both cases.
    """
    added = np.asarray(new, np.float64)
    block = 1 / base_variance
    effective = k - added + block + 1 / correlation
    candidates = [
        (p + moved) * ((k - added - p) + (block - moved) + 1 / correlation) / effective
        for moved in (0.0, block)
        for up in (0, 1)
        for p in [np.clip(np.floor(effective / 2 - moved) + up, 0, k - added)]
    ]
    return np.asarray(np.max(candidates, axis=0) + effective * lattice_step**2 / 4)


@proved("correlated.md#4-both")
def delta_with_base(
    epsilon: float,
    *,
    k: int,
    independent_std: float,
    correlation: float,
    base_variance: float,
    gap: float,
    lattice_step: float = 0.0,
    sharp: bool = True,
    enough: float | None = None,
) -> float:
    """Delta at epsilon >= 0 of the k largest counts with K: Theorems 2 and 3 of the derivation, section 6. Rounded up.

    The mixed cases bind here, and at `new` = k the delta is not delta_infinity alone, since K still moves.
    """

    def mu(new: Integers) -> Floats:
        squared = squared_sensitivity_with_base(k, correlation, base_variance, new, lattice_step=lattice_step)
        return np.asarray(np.sqrt(squared / independent_std**2))

    common = CommonNoise(correlation, gap / independent_std, k)
    return tight_bound(epsilon, mu, common, k, sharp=sharp, close=sharp, enough=enough)
