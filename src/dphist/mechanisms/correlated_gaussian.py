"""The correlated stability histogram as a mechanism."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from typing import TYPE_CHECKING, ClassVar

from dphist import checks
from dphist.checks import proved
from dphist.errors import InvalidParameter
from dphist.mechanisms.base import OBJECTIVE_WEIGHTS, Builder, ThresholdMechanism
from dphist.mechanisms.lattice import (
    check_correlation,
    check_threshold,
    common_law,
    round_up_to_lattice,
)
from dphist.mechanisms.surcharge import COST_UP, UP, error_of_draws, target_delta, with_sampler_error
from dphist.noise import RoundedGaussian
from dphist.privacy import correlated_design as design
from dphist.privacy import correlated_gaussian as csh
from dphist.privacy import weaker
from dphist.privacy.events import ApproximateEvent, Event, GaussianEvent
from dphist.privacy.search import edge

if TYPE_CHECKING:
    from dphist.mechanisms.known_groups import KnownGroups
    from dphist.planning.request import Request

_THEOREMS = {
    "tight": "csh-derivation Theorems 2 and 3 (the exact analysis of [LR25])",
    "paper-3.5": "[LR25] Theorem 3.5",
    "paper-3.3": "[LR25] Theorem 3.3",
}


@proved("correlated.md#4-both")
@dataclass(frozen=True, slots=True)
class CorrelatedGaussian(ThresholdMechanism):
    """Independent noise N(0, s^2) on every count plus one common N(0, c s^2); release what is above the threshold [LR25].

    s = independent_std, c = correlation. Every data set has at most `sparsity` non-empty groups, and one unit changes at
    most max_groups of the counters: fewer than `sparsity` only if the keys come from a public list of that length.
    Both noises are drawn rounded to 2^-lattice_bits; the analysis `tight` pays for it.

    Example:
        >>> dp.plan(epsilon=1, delta=1e-8, sparsity=1000).mechanism.name
        'correlated-gaussian'
    """

    name: ClassVar[str] = "correlated-gaussian"
    strategies: ClassVar[frozenset[str]] = frozenset({"one pass", "sketch"})

    sparsity: int
    max_groups: int
    independent_std: float
    correlation: float
    threshold: float
    low_threshold: int = 1
    sums_sensitivity: float = 0.0
    analysis: csh.Analysis = "tight"
    lattice_bits: int = 10

    def __post_init__(self) -> None:
        checks.check_whole("sparsity", self.sparsity)
        checks.check_whole("max_groups", self.max_groups)
        checks.check_positive("independent_std", self.independent_std)
        check_correlation(self.correlation)
        checks.check_whole("low_threshold", self.low_threshold)
        checks.check_not_negative("sums_sensitivity", self.sums_sensitivity)
        checks.check_choice("analysis", self.analysis, csh.ANALYSES)
        check_threshold(self.threshold, self.low_threshold, self.lattice_bits)
        if self.max_groups > self.sparsity:
            raise InvalidParameter(f"sparsity of at least max_groups = {self.max_groups}", self.sparsity)
        if self.analysis != "tight":
            self._check_paper()

    def _check_paper(self) -> None:
        if not math.isclose(self.correlation, 1 / math.sqrt(self.sparsity), rel_tol=1e-12):
            raise InvalidParameter(
                f"correlation 1/sqrt(sparsity) for {self.analysis}", self.correlation, "other correlations need tight."
            )
        if self.sums_sensitivity > 0 or self.max_groups != self.sparsity:
            raise InvalidParameter(
                f"no aggregates and max_groups = sparsity for {self.analysis}", self.max_groups, "tight covers both."
            )

    @classmethod
    def for_request(cls, request: Request) -> Iterator[Builder]:
        """Where a public number bounds the non-empty groups. The paper's analyses know neither aggregates nor max_groups."""
        if request.noise == "rounded" and request.bounded_groups is not None:
            analyses = csh.ANALYSES if not request.measures and request.keys is None else csh.ANALYSES[:1]
            yield from (partial(correlated_gaussian, request, analysis) for analysis in analyses)

    @property
    def noise_std(self) -> float:
        """The total noise on one count: s sqrt(1 + c)."""
        return self.independent_std * math.sqrt(1 + self.correlation)

    @property
    def theorem(self) -> str:
        """Where the analysis is stated."""
        return _THEOREMS[self.analysis]

    @property
    def law(self) -> RoundedGaussian:
        """Each group's own noise, rounded."""
        return RoundedGaussian(Fraction(self.independent_std), self.lattice_bits)

    @property
    def common(self) -> RoundedGaussian | None:
        """The common noise of one release, rounded."""
        return common_law(self.independent_std, self.correlation, self.lattice_bits)

    def delta(self, epsilon: float) -> float:
        """An upper bound on delta at epsilon."""
        bound = partial(
            csh.delta,
            sparsity=self.sparsity,
            max_groups=self.max_groups,
            independent_std=self.independent_std,
            correlation=self.correlation,
            gap=self.gap,
            sums_sensitivity=self.sums_sensitivity,
            lattice_step=2.0**-self.lattice_bits,
            analysis=self.analysis,
        )
        # The common noise is hidden by shifting the noise of every counter, so all of their samplers count.
        return with_sampler_error(bound, epsilon, self.sparsity)

    def delta_noise(self, epsilon: float) -> float:
        """The part of the noise alone."""
        if self.analysis != "tight":
            return weaker.paper_delta_gauss(epsilon, self.sparsity, self.independent_std, 2.0**-self.lattice_bits)
        return csh.delta_gauss(
            epsilon,
            sparsity=self.sparsity,
            max_groups=self.max_groups,
            independent_std=self.independent_std,
            correlation=self.correlation,
            sums_sensitivity=self.sums_sensitivity,
            lattice_step=2.0**-self.lattice_bits,
        )

    def delta_infinity(self) -> float:
        """The probability that a group of one unit is released (by the paper's bound on it, for the paper's analyses)."""
        if self.analysis != "tight":
            return weaker.paper_delta_infinity(self.sparsity, self.independent_std, self.gap)
        return csh.delta_infinity(self.gap, self.max_groups, self.independent_std, self.correlation)

    @property
    def noise_event(self) -> Event:
        """mu^2 = S2/independent_std^2 on the lattice; d: 1 - E Phi(t - sqrt(c) xi)^max_groups, for every analysis (Lemma 4)."""
        new = csh.delta_infinity(self.gap, self.max_groups, self.independent_std, self.correlation)
        return ApproximateEvent(GaussianEvent(correlated_mu(self, self.sparsity)), new, error_of_draws(self.sparsity))

    def with_noise(self, request: Request) -> CorrelatedGaussian:
        """The same analysis and correlation for a request with another noise_std."""
        return correlated_gaussian(replace(request, correlation=self.correlation), self.analysis)


def correlated_mu(mechanism: CorrelatedGaussian | KnownGroups, groups: int) -> float:
    """The Gaussian parameter of correlated noise on so many groups, with the sums. Rounded up."""
    squared = csh.squared_sensitivity(
        groups,
        mechanism.max_groups,
        mechanism.correlation,
        sums_ratio=(mechanism.sums_sensitivity * mechanism.independent_std) ** 2,
        lattice_step=2.0**-mechanism.lattice_bits,
    )
    return math.sqrt(float(squared)) / mechanism.independent_std * COST_UP


def correlated_gaussian(request: Request, analysis: csh.Analysis) -> CorrelatedGaussian:
    """The correlated Gaussian with the best correlation, or the one asked for.

    max_groups is used only with a public list of keys: a sparsity bound is enforced by subtracting the next largest
    count, after which one unit can move all counters.
    """
    sparsity = request.bounded_groups
    assert sparsity is not None
    bits = correlated_lattice_bits(sparsity)
    setting = design.Setting(
        epsilon=request.mechanism_epsilon,
        target_delta=target_delta(request),
        sparsity=sparsity,
        max_groups=sparsity if request.keys is None else request.groups_per_unit,
        sums_budget=request.sums_budget,
        lattice_step=2.0**-bits,
        weight=OBJECTIVE_WEIGHTS[request.objective],
        analysis=analysis,
    )
    correlation = request.correlation if analysis == "tight" else 1 / math.sqrt(sparsity)
    if request.noise_std is not None:
        chosen = _with_total_noise(setting, request.noise_std, correlation)
    elif correlation is not None:
        chosen = design.design_for(setting, correlation)
    else:
        chosen = design.best_design(setting)
    return CorrelatedGaussian(
        sparsity=sparsity,
        max_groups=setting.max_groups,
        independent_std=chosen.independent_std,
        correlation=chosen.correlation,
        threshold=request.low_threshold + round_up_to_lattice(chosen.gap, bits),
        low_threshold=request.low_threshold,
        sums_sensitivity=math.sqrt(setting.sums_ratio(chosen.correlation)) / chosen.independent_std * UP,
        analysis=analysis,
        lattice_bits=bits,
    )


def _with_total_noise(setting: design.Setting, noise_std: float, correlation: float | None) -> design.Design:
    """The smallest gap for a given total noise on a count, over the correlation unless that is given too."""

    def attempt(c: float) -> design.Design:
        independent_std = noise_std / math.sqrt(1 + c)
        return design.Design(independent_std, c, design.smallest_gap(setting, independent_std, c))

    if correlation is not None:
        return attempt(correlation)
    quietest = design.quietest_correlation(setting)
    found = attempt(quietest)  # Infeasible if even this needs more noise
    if quietest == 0:
        return found

    def total(log_c: float) -> float:
        c = math.exp(log_c)
        return design.smallest_independent_std(setting, c) * math.sqrt(1 + c)

    # At a given total noise more correlation makes the largest of many noises smaller, and with it the threshold, until the
    # independent part gets too small; close to that end the mixed cases bind.
    most = edge(total, noise_std, math.log(quietest), 20.0, tolerance=1e-9)

    for share in (0.9, 0.99):
        candidate = attempt(max(share * math.exp(most), quietest))
        found = min(found, candidate, key=lambda design_: design_.gap)
    return found


def correlated_lattice_bits(sparsity: int) -> int:
    """A lattice so fine that the shift of correlated noise costs below 1e-9 of the squared sensitivity.

    (k + 1/c) g^2/4 against S2 >= k/4, about: g = 2^-16 and below, growing slowly with k where 1/c does.
    """
    return 16 + min(4, sparsity.bit_length() // 8)
