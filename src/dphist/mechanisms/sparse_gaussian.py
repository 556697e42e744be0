"""The Gaussian sparse histogram as a mechanism."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import TYPE_CHECKING, ClassVar

from dphist import checks
from dphist.checks import proved
from dphist.mechanisms.base import OBJECTIVE_WEIGHTS, Builder, ThresholdMechanism
from dphist.mechanisms.lattice import check_threshold, round_up_to_lattice
from dphist.mechanisms.surcharge import COST_UP, UP, error_of_draws, target_delta, with_sampler_error
from dphist.noise import RoundedGaussian
from dphist.privacy import sparse_gaussian as gshm
from dphist.privacy.events import ApproximateEvent, Event, GaussianEvent

if TYPE_CHECKING:
    from dphist.planning.request import Request

_THEOREMS = {"exact": "Theorem 5.4", "f-dp": "Theorem 7.1", "add-the-deltas": "Corollary 5.4.1"}


@proved("[KKWZ24] Theorem 5.4")
@dataclass(frozen=True, slots=True)
class SparseGaussian(ThresholdMechanism):
    """Noise N(0, noise_std^2) on every count; release what is strictly above the threshold [KKWZ24].

    The noise is drawn rounded to 2^-lattice_bits, which is post-processing; the threshold lies on that lattice.
    sums_sensitivity: how far one unit moves the other aggregates of one group, in units of their noise.

    Example:
        >>> dp.SparseGaussian(max_groups=10, noise_std=16.25, threshold=99.0).delta(1.0) < 1e-8
        True
    """

    name: ClassVar[str] = "sparse-gaussian"
    sparsity = independent_std = correlation = None

    max_groups: int
    noise_std: float
    threshold: float
    low_threshold: int = 1
    sums_sensitivity: float = 0.0
    analysis: gshm.Analysis = "exact"
    lattice_bits: int = 10

    def __post_init__(self) -> None:
        checks.check_whole("max_groups", self.max_groups)
        checks.check_positive("noise_std", self.noise_std)
        checks.check_whole("low_threshold", self.low_threshold)
        checks.check_not_negative("sums_sensitivity", self.sums_sensitivity)
        checks.check_choice("analysis", self.analysis, gshm.ANALYSES)
        check_threshold(self.threshold, self.low_threshold, self.lattice_bits)

    @classmethod
    def for_request(cls, request: Request) -> Iterator[Builder]:
        """One for each analysis, where groups are unknown and nothing but max_groups bounds a unit."""
        if request.noise == "rounded":
            yield from (partial(sparse_gaussian, request, analysis) for analysis in gshm.ANALYSES)

    @property
    def theorem(self) -> str:
        """Where the analysis is stated."""
        return f"[KKWZ24] {_THEOREMS[self.analysis]}"

    @property
    def law(self) -> RoundedGaussian:
        """One Gaussian, rounded."""
        return RoundedGaussian(Fraction(self.noise_std), self.lattice_bits)

    def delta(self, epsilon: float) -> float:
        """An upper bound on delta at epsilon."""
        exact = partial(
            gshm.delta,
            max_groups=self.max_groups,
            noise_std=self.noise_std,
            gap=self.gap,
            sums_sensitivity=self.sums_sensitivity,
            analysis=self.analysis,
        )
        return with_sampler_error(exact, epsilon, self.max_groups)

    def delta_noise(self, epsilon: float) -> float:
        """The part of the noise alone."""
        return gshm.delta_gauss(epsilon, self.max_groups, self.noise_std, self.sums_sensitivity)

    def delta_infinity(self) -> float:
        """The probability that a group of one unit is released."""
        return gshm.delta_infinity(self.gap, self.max_groups, self.noise_std)

    @property
    def noise_event(self) -> Event:
        """mu^2 = max_groups (1/noise_std^2 + sums_sensitivity^2); d: a group of one unit is released."""
        mu = math.sqrt(self.max_groups * (1 / self.noise_std**2 + self.sums_sensitivity**2)) * COST_UP
        return ApproximateEvent(GaussianEvent(mu), self.delta_infinity(), error_of_draws(self.max_groups))

    def with_noise(self, request: Request) -> SparseGaussian:
        """The same analysis for a request with another noise_std."""
        return sparse_gaussian(request, self.analysis)


def sparse_gaussian(request: Request, analysis: gshm.Analysis) -> SparseGaussian:
    """The sparse Gaussian with the best noise, or the noise asked for, and the smallest gap for it."""
    epsilon, target, groups = request.mechanism_epsilon, target_delta(request), request.groups_per_unit
    if request.noise_std is None:
        noise_std, gap = gshm.best_pair(
            epsilon,
            target,
            max_groups=groups,
            sums_ratio=request.sums_budget,
            analysis=analysis,
            weight=OBJECTIVE_WEIGHTS[request.objective],
        )
    else:
        noise_std = request.noise_std
        sums = math.sqrt(request.sums_budget) / noise_std
        gap = gshm.smallest_gap(
            epsilon, target, max_groups=groups, noise_std=noise_std, sums_sensitivity=sums, analysis=analysis
        )
    bits = lattice_bits(noise_std)
    return SparseGaussian(
        max_groups=groups,
        noise_std=noise_std,
        threshold=request.low_threshold + round_up_to_lattice(gap, bits),
        low_threshold=request.low_threshold,
        sums_sensitivity=math.sqrt(request.sums_budget) / noise_std * UP,
        analysis=analysis,
        lattice_bits=bits,
    )


def lattice_bits(noise_std: float) -> int:
    """A lattice on which rounding the threshold up costs at most about a thousandth of the noise."""
    return min(max(10, 10 - math.floor(math.log2(noise_std))), 40)
