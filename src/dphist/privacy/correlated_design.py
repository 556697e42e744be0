"""Calibration of correlated noise: smallest noise, smallest gap, best correlation.

For a given correlation c no design can have less noise than s_min(c) = sqrt(S2(c))/mu, mu the sensitivity a Gaussian
mechanism may have at (epsilon, delta), nor a threshold below t_inf(c) = the t at which delta_infinity alone is delta. Where
the bound holds at that pair, it is optimal (section 4 of the derivation); elsewhere s is raised a little. The best c is a
one-dimensional search; c = 0, the sparse Gaussian, is always among its candidates, so correlation never makes it worse.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import cache, partial

import numpy as np

from dphist.errors import Infeasible
from dphist.privacy import correlated_gaussian as csh
from dphist.privacy import weaker
from dphist.privacy.gaussian import largest_mu, quantile_for_infinity
from dphist.privacy.search import SPLIT_TOLERANCE, best_noise, edge, minimise, smallest

_MARGIN = 1 - 20 * SPLIT_TOLERANCE
_LARGEST_T = 60.0
_STEPS = (0.8, 0.4, 0.2, 0.1, 0.05)  # in log correlation
_EXCESSES = (0.0, 3e-3, 1e-2, 3e-2, 0.1)
_MOST_DESIGNS = 3  # where the mixed cases bind a design takes long, and the best is among the first by their floor


@dataclass(frozen=True, slots=True)
class Setting:
    """What a design must meet, and what it is judged by.

    sums_budget: the budget of the other aggregates relative to the count's, in squares: sums_sensitivity^2 times the
    total variance s^2 (1 + c) of a count. weight: the objective is gap + weight * total noise; infinite asks for the
    smallest noise.
    """

    epsilon: float
    target_delta: float
    sparsity: int
    max_groups: int
    sums_budget: float = 0.0
    lattice_step: float = 0.0
    weight: float = 0.0
    analysis: csh.Analysis = "tight"

    def sums_ratio(self, correlation: float) -> float:
        """(sums_sensitivity * independent_std)^2 at this correlation."""
        return self.sums_budget / (1 + correlation)

    def sensitivity(self, correlation: float) -> float:
        """sqrt(S2) in units of independent_std."""
        ratio, step = self.sums_ratio(correlation), self.lattice_step
        squared = csh.squared_sensitivity(
            self.sparsity, self.max_groups, correlation, sums_ratio=ratio, lattice_step=step
        )
        return math.sqrt(float(squared))

    def delta(
        self,
        independent_std: float,
        correlation: float,
        gap: float,
        *,
        sharp: bool = True,
        close: bool = True,
        enough: float | None = None,
    ) -> float:
        """The forward map at this design; the last three as in `csh.delta`, for faster maps that are never below it."""
        return csh.delta(
            self.epsilon,
            sparsity=self.sparsity,
            max_groups=self.max_groups,
            independent_std=independent_std,
            correlation=correlation,
            gap=gap,
            sums_sensitivity=math.sqrt(self.sums_ratio(correlation)) / independent_std,
            lattice_step=self.lattice_step,
            analysis=self.analysis,
            sharp=sharp,
            close=close,
            enough=enough,
        )


@dataclass(frozen=True, slots=True)
class Design:
    """A calibrated choice of noise and gap."""

    independent_std: float
    correlation: float
    gap: float

    @property
    def noise_std(self) -> float:
        """The total noise on one count."""
        return self.independent_std * math.sqrt(1 + self.correlation)

    def value(self, weight: float) -> float:
        """The objective: gap + weight * noise, or the noise alone for an infinite weight."""
        return self.noise_std if math.isinf(weight) else self.gap + weight * self.noise_std


def smallest_independent_std(setting: Setting, correlation: float) -> float:
    """s_min(c): the smallest noise for which some gap meets the target."""
    return setting.sensitivity(correlation) / largest_mu(setting.epsilon, setting.target_delta * _MARGIN)


def smallest_t(target_delta: float, max_groups: int, correlation: float, tolerance: float = 1e-12) -> float:
    """t_inf(c): the smallest t = gap/independent_std with delta_infinity(max_groups) <= target_delta, to `tolerance`."""

    def delta_at(t: float) -> float:
        return csh.delta_infinity(t, max_groups, 1.0, correlation)

    total = math.sqrt(1 + correlation)
    start = max(0.0, quantile_for_infinity(target_delta, max_groups) * total)
    return smallest(delta_at, target_delta, start=start, low=0.0, high=_LARGEST_T * total, tolerance=tolerance)


def smallest_gap(setting: Setting, independent_std: float, correlation: float) -> float:
    """The smallest gap that meets the target with this noise; Infeasible if none does."""
    least = _floor_of_gap(setting, independent_std, correlation)
    fast = fast_gap(setting, independent_std, correlation)
    if fast <= least:
        return fast

    # The mixed cases bind: the sharper bound, which takes long, lowers the gap a little.
    def delta_at(gap: float) -> float:
        return setting.delta(independent_std, correlation, gap, enough=setting.target_delta)

    return edge(delta_at, setting.target_delta, fast, least, tolerance=1e-6)


def fast_gap(setting: Setting, independent_std: float, correlation: float, start: float = 0.0) -> float:
    """A gap that meets the target, the smallest by the fast bound; Infeasible if there is none. It may be near `start`."""

    def delta_at(gap: float, close: bool = False) -> float:
        return setting.delta(independent_std, correlation, gap, sharp=False, close=close, enough=setting.target_delta)

    least = _floor_of_gap(setting, independent_std, correlation)
    if delta_at(least, close=True) <= setting.target_delta:
        return least
    largest = independent_std * _LARGEST_T * math.sqrt(1 + correlation)
    if delta_at(largest, close=True) > setting.target_delta:
        raise Infeasible(
            f"independent noise of at least {smallest_independent_std(setting, correlation):.6g} for"
            f" epsilon = {setting.epsilon:g}, delta = {setting.target_delta:g}, sparsity = {setting.sparsity},"
            f" correlation = {correlation:g}",
            f"{independent_std:.6g}",
            "more noise, more epsilon, or fewer groups or aggregates per unit",
        )
    start = min(max(start, least), largest)
    return smallest(delta_at, setting.target_delta, start=start, low=least, high=largest, tolerance=1e-5)


def _floor_of_gap(setting: Setting, independent_std: float, correlation: float) -> float:
    """A gap below which the chance that a new group is released is by itself too large."""
    if setting.analysis == "tight":
        # A few ulp up: gap/independent_std must not round to below t.
        return independent_std * smallest_t(setting.target_delta, setting.max_groups, correlation) * (1 + 1e-15)
    pure = weaker.paper_gap_for_infinity(setting.target_delta * _MARGIN, setting.sparsity, independent_std)
    if setting.analysis == "paper-3.5":
        return pure
    try:
        return weaker.gap_lemma_34(setting.epsilon, setting.target_delta * _MARGIN, setting.sparsity, independent_std)
    except Infeasible:
        return pure


def _fast_design(setting: Setting, correlation: float) -> Design:
    """The best design with this correlation by the fast bound."""
    least = smallest_independent_std(setting, correlation)
    if setting.analysis != "tight":
        # Lemma 2.8 has no integer p and no lattice: its own smallest noise; add-the-deltas cannot attain its infimum.
        share = 0.99 if setting.analysis == "paper-3.3" and math.isinf(setting.weight) else 1.0
        mu = largest_mu(setting.epsilon, setting.target_delta * share * _MARGIN)
        least = weaker.paper_sensitivity(setting.sparsity, setting.lattice_step) / mu
    floor = 0.0 if setting.analysis == "paper-3.3" else _floor_of_gap(setting, least, correlation)
    t = 0.0  # gap/independent_std moves little from one noise to the next

    def gap_at(independent_std: float) -> float:
        nonlocal t
        gap = fast_gap(setting, independent_std, correlation, t * independent_std)
        t = gap / independent_std
        return gap

    independent_std, gap = best_noise(
        least,
        gap_at,
        weight=setting.weight * math.sqrt(1 + correlation),
        floor=floor,
        tolerance=0.2 if setting.analysis == "tight" else 1e-2,
    )
    return Design(independent_std, correlation, gap)


def design_for(setting: Setting, correlation: float) -> Design:
    """The best design with this correlation."""
    return sharpened(setting, _fast_design(setting, correlation))


def sharpened(setting: Setting, design: Design) -> Design:
    """The design with the gap of the sharp bound."""
    if math.isinf(design.gap):
        return design
    return replace(design, gap=smallest_gap(setting, design.independent_std, design.correlation))


def best_design(setting: Setting) -> Design:
    """The best correlation and its design.

    s_min(c) (t_inf(c) + weight sqrt(1 + c)) bounds the objective from below and is cheap: the correlations worth trying are
    found by it. c = 0 is among them, so that the result is never worse than the sparse Gaussian.
    """
    floor = _floor(setting)
    found = moved(setting, sharpened(setting, best_of(setting, _promising(setting, floor), floor)), floor)
    if found.value(setting.weight) <= floor(0.0):
        return found
    plain = design_for(setting, 0.0)  # always among them: correlation never makes it worse
    return min(found, plain, key=lambda design: design.value(setting.weight))


def moved(setting: Setting, found: Design, floor: Callable[[float], float]) -> Design:
    """A better design near one that the fast bound found, by the sharper bound, where the mixed cases bind.

    At deltas around epsilon the two bounds have their minima at other correlations and other noise, by up to 5 % of the
    objective. A step is taken if it improves; most are refused by their lower bound or at their first evaluation.
    """
    weight = setting.weight
    if math.isinf(weight) or found.value(weight) <= floor(found.correlation) * (1 + 1e-4):
        return found
    best = found
    for step in _STEPS:
        for correlation in (best.correlation * math.exp(step), best.correlation * math.exp(-step)):
            if floor(correlation) < best.value(weight):
                least = smallest_independent_std(setting, correlation)
                ratio = best.independent_std / smallest_independent_std(setting, best.correlation)
                for noise in sorted({least, least * ratio}):
                    best = _better(setting, best, noise, correlation)
    least = smallest_independent_std(setting, best.correlation)
    for excess in _EXCESSES:
        best = _better(setting, best, least * (1 + excess), best.correlation)
    return replace(best, gap=smallest_gap(setting, best.independent_std, best.correlation))


def _better(setting: Setting, best: Design, independent_std: float, correlation: float) -> Design:
    """The design with this noise and correlation and its smallest gap, to 1e-4, if that is better than the best so far."""

    def delta_at(gap: float) -> float:
        return setting.delta(independent_std, correlation, gap, enough=setting.target_delta)

    most = best.value(setting.weight) - setting.weight * independent_std * math.sqrt(1 + correlation)
    least = _floor_of_gap(setting, independent_std, correlation)
    if most * (1 - 1e-4) <= least or delta_at(most * (1 - 1e-4)) > setting.target_delta:
        return best
    gap = edge(delta_at, setting.target_delta, most * (1 - 1e-4), least, tolerance=1e-4)
    return Design(independent_std, correlation, gap)


def quietest_correlation(setting: Setting) -> float:
    """The correlation with the least total noise on a count, for groups that need no threshold."""
    floor = _floor(replace(setting, weight=math.inf))
    return min(_promising(setting, floor), key=floor)


def _promising(setting: Setting, floor: Callable[[float], float]) -> set[float]:
    """0, the minimum of `floor` by a grid of log c and golden section, and the places where it often sits.

    Those are 1/sqrt(k), the closed-form optimum, and the kinks c = 1/(2p + 1 - k) where the integer p that maximises S2
    changes.
    """
    if setting.max_groups == 1:
        return {0.0}  # nothing to hide behind: correlation only adds noise
    centre = math.log(noise_optimal_correlation(setting.sparsity, setting.max_groups))
    grid = centre + np.linspace(-3.0, 4.0, 15)
    coarse = int(np.argmin([floor(math.exp(x)) for x in grid]))
    fine, _ = minimise(
        lambda x: floor(math.exp(x)), grid[max(coarse - 1, 0)], grid[min(coarse + 1, 14)], tolerance=1e-2
    )
    near = math.exp(fine)
    middle = round((setting.sparsity + 1 / near) / 2 - 0.5)
    kinks = [
        1 / (2 * p + 1 - setting.sparsity)
        for p in range(middle - 2, middle + 3)
        if 0 < p < setting.max_groups and 2 * p + 1 > setting.sparsity
    ]
    return {0.0, near, math.exp(centre), 1 / math.sqrt(setting.sparsity), *kinks}


def best_of(setting: Setting, correlations: Iterable[float], floor: Callable[[float], float]) -> Design:
    """The best design among some correlations: the one that is best with its smallest noise, those with the smallest lower
    bound first. More noise than that lowers the objective little, and about as much for all of them.
    """

    def quiet(correlation: float) -> float:
        least = smallest_independent_std(setting, correlation)
        return Design(least, correlation, fast_gap(setting, least, correlation)).value(setting.weight)

    best, *others = sorted(correlations, key=floor)[:_MOST_DESIGNS]
    value = quiet(best) if others else 0.0
    for correlation in others:
        if floor(correlation) >= value:
            break
        if (other := quiet(correlation)) < value:
            best, value = correlation, other
    return _fast_design(setting, best)


def _floor(setting: Setting) -> Callable[[float], float]:
    @cache
    def floor(correlation: float) -> float:
        noise = smallest_independent_std(setting, correlation)
        t = 0.0
        if not math.isinf(setting.weight):
            t = smallest_t(setting.target_delta, setting.max_groups, correlation, 1e-6)
        return Design(noise, correlation, noise * t).value(setting.weight)

    return floor


def noise_optimal_correlation(sparsity: int, max_groups: int) -> float:
    """Section 4 of the derivation: the c > 0 with the least total noise, for real p. max_groups >= 2."""
    if max_groups >= sparsity:
        return 1 / math.sqrt(sparsity)
    c = (math.sqrt(1 + sparsity * (max_groups - 1) / (sparsity - max_groups)) - 1) / sparsity
    if 2 * max_groups <= sparsity or c <= 1 / (2 * max_groups - sparsity):
        return c
    return max(1 / math.sqrt(sparsity), 1 / (2 * max_groups - sparsity))


def calibrate_with_base(
    epsilon: float,
    target_delta: float,
    *,
    k: int,
    correlation: float,
    base_variance: float,
    lattice_step: float = 0.0,
    weight: float = 0.0,
) -> tuple[float, float]:
    """(independent_std, gap) of the k largest counts and K, with the smallest gap + weight * independent_std."""
    squared = csh.squared_sensitivity_with_base(k, correlation, base_variance, lattice_step=lattice_step)
    least = math.sqrt(float(squared)) / largest_mu(epsilon, target_delta * _MARGIN)
    t = smallest_t(target_delta, k, correlation)

    def gap_at(independent_std: float, sharp: bool = True, most: float = math.inf) -> float:
        def delta_at(gap: float) -> float:
            return csh.delta_with_base(
                epsilon,
                k=k,
                independent_std=independent_std,
                correlation=correlation,
                base_variance=base_variance,
                gap=gap,
                lattice_step=lattice_step,
                sharp=sharp,
                enough=target_delta,
            )

        floor = independent_std * t
        largest = independent_std * _LARGEST_T * math.sqrt(1 + correlation)
        if most < math.inf and (most <= floor or delta_at(most) > target_delta):
            return math.inf
        tolerance = 1e-10 if sharp else 1e-5
        return smallest(delta_at, target_delta, start=floor, low=floor, high=largest, tolerance=tolerance)

    rough = partial(gap_at, sharp=False)
    noise, gap = best_noise(least, gap_at, weight=weight, floor=least * t, rough=rough, tolerance=0.2)
    if gap > noise * t * (1 + 1e-4):  # the mixed cases bind: the sharper bound may prefer other noise
        for other in (least * (1 + excess) for excess in _EXCESSES):
            value = gap + weight * noise
            lower = gap_at(other, most=value * (1 - 1e-4) - weight * other)
            noise, gap = (other, lower) if lower + weight * other < value else (noise, gap)
    return noise, gap
