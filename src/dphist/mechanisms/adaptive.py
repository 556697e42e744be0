"""The adaptive release as a mechanism: a calibrated budget, and what it promises."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

from dphist import checks
from dphist.errors import Infeasible, InvalidParameter
from dphist.mechanisms.base import (
    gaussian_count_released_with,
    gaussian_quantile,
    gaussian_release_probability,
    round_up_to_lattice,
    sampler_surcharge,
    with_sampler_error,
)
from dphist.mechanisms.tuning import LATTICE_BITS, MOST_RELEASED, Tuning
from dphist.privacy import adaptive as theory
from dphist.privacy.gaussian import delta_gaussian, largest_mu, raise_for_rounding

MOST_SUMS = 16
_DEFAULT = Tuning()


@dataclass(frozen=True, slots=True)
class AdaptiveGaussian:
    """Select keys in rounds with weights that move to the undecided groups, then count the selected keys.

    round_stds: the noise on the sum of weights of a group in each round. threshold: of the rounds' weighted sum, in weights.
    histogram_std: the noise on the number of units in a bucket. noise_std, probe_std: the noise on the clipped counts, for a
    unit whose weights have norm 1; both grow with the norm that is allowed. sums_sensitivity: how far one unit moves the
    other aggregates, in units of their noise.
    """

    name: ClassVar[str] = "adaptive"
    analysis: ClassVar[str] = "rounds"
    low_threshold: ClassVar[int] = 1
    lattice_bits: ClassVar[int] = LATTICE_BITS

    round_stds: tuple[float, ...]
    threshold: float
    histogram_std: float
    noise_std: float
    probe_std: float
    sums_sensitivity: float = 0.0
    tuning: Tuning = _DEFAULT

    def __post_init__(self) -> None:
        object.__setattr__(self, "round_stds", tuple(self.round_stds))
        if len(self.round_stds) != self.tuning.rounds:
            raise InvalidParameter(f"the noise of {self.tuning.rounds} rounds", len(self.round_stds))
        for name, value in (
            *(("round_std", std) for std in self.round_stds),
            ("threshold", self.threshold),
            ("histogram_std", self.histogram_std),
            ("noise_std", self.noise_std),
            ("probe_std", self.probe_std),
        ):
            checks.check_positive(name, value)
        checks.check_not_negative("sums_sensitivity", self.sums_sensitivity)
        if round_up_to_lattice(self.threshold, LATTICE_BITS + self.tuning.share_bits) != self.threshold:
            raise InvalidParameter("a threshold on the lattice of weighted sums", self.threshold, "round it up.")

    @property
    def max_groups(self) -> int:
        """How many groups a unit samples for the selection."""
        return self.tuning.most_groups

    @property
    def selection_std(self) -> float:
        """The noise on the sum of weights that decides about a group: that of all rounds together. Rounded up."""
        return theory.combined_std(self.tuning.fractions, self.round_stds)

    @property
    def gap(self) -> float:
        """How far the threshold is above the weight of one unit."""
        return self.threshold - 1

    @property
    def theorem(self) -> str:
        """Where the analysis is stated."""
        return "docs/adaptive.md, Theorem 1"

    @property
    def assumption(self) -> str:
        """What must hold for the data."""
        return (
            f"each unit selects with a fixed random sample of at most {self.max_groups:,} of its groups and a total weight of"
            " norm 1 in every round, and is counted with a bounded norm (a release enforces all of it)"
        )

    @property
    def mu(self) -> float:
        """Lemma 1: the Gaussian parameter of everything that is published, were the groups known."""
        sums = [] if self.sums_sensitivity == 0 else [1 / self.sums_sensitivity]
        return theory.gdp([*self.round_stds, self.histogram_std, self.noise_std, self.probe_std, *sums])

    def delta(self, epsilon: float) -> float:
        """An upper bound on delta at epsilon."""
        bound = partial(theory.delta, mu=self.mu, infinity=self.delta_infinity())
        return with_sampler_error(bound, epsilon, changed_counters(self.tuning))

    def delta_gauss(self, epsilon: float) -> float:
        """The part of the noise alone."""
        return raise_for_rounding(float(delta_gaussian(self.mu, epsilon)))

    def delta_infinity(self) -> float:
        """The probability that a group of one unit is released."""
        return theory.delta_infinity(self.threshold, self.selection_std, self.max_groups, 2.0**-LATTICE_BITS)

    def budget_split(self) -> dict[str, float]:
        """The shares of the squared Gaussian budget, which add up to 1."""
        parts = {
            "selection": math.fsum(1 / std**2 for std in self.round_stds),
            "histogram": 1 / self.histogram_std**2,
            "counts": 1 / self.noise_std**2 + 1 / self.probe_std**2,
            "sums": self.sums_sensitivity**2,
        }
        total = math.fsum(parts.values())
        return {name: part / total for name, part in parts.items()}

    def noise_quantile(self, probability: float) -> float:
        """The quantile of the noise on a count, for a unit norm of 1."""
        return gaussian_quantile(self.noise_std, probability)

    def release_probability(self, count: float) -> float:
        """The probability that a group is released in which units have this much weight in all."""
        return gaussian_release_probability(count, self.threshold, self.selection_std)

    def count_released_with(self, probability: float) -> float:
        """The weight at which that probability is reached: so many units without another undecided group."""
        return max(gaussian_count_released_with(probability, self.threshold, self.selection_std), 1.0)


def changed_counters(tuning: Tuning) -> int:
    """How many draws one unit can change: its samples in every round, a bucket, and its counts and sums in all groups."""
    return tuning.rounds * tuning.most_groups + 1 + MOST_RELEASED * (2 + MOST_SUMS)


def calibrate(
    epsilon: float, delta: float, *, sums_budget: float = 0.0, tuning: Tuning | None = None
) -> AdaptiveGaussian:
    """The adaptive mechanism for a budget: noise rounded up first, then the threshold for that noise, then the forward map."""
    tuning = tuning or _DEFAULT
    target = delta * (1 - 1e-12) - sampler_surcharge(epsilon, changed_counters(tuning))
    if target <= 0:
        raise Infeasible("a delta above the error of the noise sampler", f"{delta:g}", "raise delta or lower epsilon.")
    infinity = tuning.delta_share * target
    mu = largest_mu(epsilon, theory.delta_gauss_left(target, infinity)) * (1 - 1e-12)
    if not mu > 2.0**-20:
        raise Infeasible("a budget that leaves less noise than a million units", f"epsilon = {epsilon:g}")
    counts = tuning.counts(sums_budget)
    selection = mu * math.sqrt(1 - counts - tuning.histogram_share)
    stds = tuple(1 / (math.sqrt(share) * selection) for share in tuning.fractions)
    one_count = mu * math.sqrt(counts / (1 + tuning.probe_share + sums_budget))
    threshold = theory.smallest_threshold(
        infinity, theory.combined_std(tuning.fractions, stds), tuning.most_groups, LATTICE_BITS, tuning.share_bits
    )
    built = AdaptiveGaussian(
        round_stds=stds,
        threshold=threshold,
        histogram_std=1 / (mu * math.sqrt(tuning.histogram_share)),
        noise_std=1 / one_count,
        probe_std=1 / (one_count * math.sqrt(tuning.probe_share)),
        sums_sensitivity=math.sqrt(sums_budget) * one_count * (1 + 2.0**-48),  # past the rounding of weights and of 1/x
        tuning=tuning,
    )
    assert built.delta(epsilon) <= delta, "only the forward map is trusted; a plan checks it again"
    return built
