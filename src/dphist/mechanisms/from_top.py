"""Noisy counts of the largest groups, from a source that gives only those [Rogers24, Theorem 8]."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dphist import checks
from dphist.checks import proved
from dphist.mechanisms.base import Fact
from dphist.mechanisms.conditional import Estimates, Noise, estimate_given_release
from dphist.mechanisms.lattice import LARGEST_COUNT, Floats, Integers, Kept, add_noise
from dphist.mechanisms.lists import Listed, ListMechanism, counted_facts, counted_list
from dphist.mechanisms.surcharge import LARGEST_EPSILON, error_of_draws, with_sampler_error
from dphist.mechanisms.whole_gaussian import WholeGaussian, best_of_laws, least_std
from dphist.noise import RoundedGaussian, sample
from dphist.noise.tails import log_max_tail
from dphist.privacy import unknown_domain
from dphist.privacy.composition import delta_from_rho
from dphist.privacy.events import ApproximateEvent, Event
from dphist.privacy.gaussian import quantile_for_infinity
from dphist.privacy.search import smallest_whole
from dphist.privacy.special import ndtri

NOISE_SHARES = (0.5, 0.65, 0.8, 0.9, 0.95, 0.999)
"""The parts of delta that calibration tries for the noise: above 0.9 where new groups leave less to the noise, below else."""


@proved("unknown-domain.md#theorem-lists")
@dataclass(frozen=True, slots=True)
class FromTop(WholeGaussian, ListMechanism):
    """Whole noise on the `most_groups` largest counts, against a noisy threshold above the next largest.

    max_groups None: nothing is known about how many groups a unit is in. max_per_group: how much it adds to a group. The
    counts must be the most_groups + 1 largest, equal counts in an order of their keys that does not depend on the data.
    """

    name: ClassVar[str] = "from-top"
    method: ClassVar[str] = "from-top"
    theorem_number: ClassVar[int] = 8
    lattice_bits = 0

    most_groups: int
    noise_std: float
    threshold: int
    max_groups: int | None = None
    max_per_group: int = 1
    rounded: bool = False

    def __post_init__(self) -> None:
        checks.check_whole("most_groups", self.most_groups)
        self._check_noise()
        checks.check_whole("max_per_group", self.max_per_group)
        checks.check_whole("threshold", self.threshold, self.max_per_group)
        if self.max_groups is not None:
            checks.check_whole("max_groups", self.max_groups)

    @property
    def length(self) -> int:
        """The most groups of a list."""
        return self.most_groups

    @property
    def assumption(self) -> str:
        """What must hold for the data."""
        often = "once" if self.max_per_group == 1 else f"at most {self.max_per_group:,} times"
        if self.max_groups is None:
            return f"each unit is counted {often} in a group, in any number of groups"
        plural = "s" if self.max_groups > 1 else ""
        return f"each unit is counted {often} in a group, in at most {self.max_groups:,} group{plural}"

    @property
    def rho(self) -> float:
        """The zCDP parameter of the noise."""
        return unknown_domain.rho_from_top(self.noise_std, self.most_groups, self.max_groups, self.max_per_group)

    def perturb(self, largest: Integers) -> tuple[Kept, int]:
        """(released positions with their noisy counts, the noisy threshold), from the largest counts, largest first."""
        listed = largest[: self.most_groups]
        base = int(min(largest[self.most_groups], LARGEST_COUNT)) if len(largest) > self.most_groups else 0
        law = self.law
        limit = base + self.threshold + int(sample(law, 1)[0])
        eligible = np.flatnonzero(listed > 0)
        noisy = add_noise(listed[eligible], law, 0)
        passed = noisy > limit
        return Kept(eligible[passed], noisy[passed], 0), limit

    def listed(self, largest: Integers, k: int) -> Listed:
        """Keys with noisy counts."""
        kept, limit = self.perturb(largest)
        return counted_list(kept, k, limit)

    def given_cut_off(self, noisy: Floats, cut_off: Floats | float) -> Estimates:
        """The noise of a count is independent of the noisy cut-off, which so is a threshold like any other."""
        noise = Noise((self.law,), 0, self.count_std)
        return estimate_given_release(noisy, cut_off, noise)

    def delta_infinity(self) -> float:
        """The probability that a new group passes the noisy threshold. Rounded up."""
        law, gap = self.law, self.threshold - self.max_per_group
        new = unknown_domain.new_groups(self.most_groups, self.max_groups)
        if isinstance(law, RoundedGaussian):
            return unknown_domain.new_group_passes(gap, self.noise_std, new)
        return min(1.0, math.exp(log_max_tail(law, law, gap, new)))

    def delta(self, epsilon: float) -> float:
        """The profile of rounded noise; of discrete noise delta_infinity + delta_CKS(rho, epsilon). Rounded up.

        Both by the good-event lemma: conditioning is not valid here.
        """

        def bound(at: float) -> float:
            if not self.rounded:
                return min(1.0, self.delta_infinity() + delta_from_rho(self.rho, at))
            return unknown_domain.delta_from_top(
                at,
                noise_std=self.noise_std,
                threshold=self.threshold,
                most_groups=self.most_groups,
                max_groups=self.max_groups,
                max_per_group=self.max_per_group,
            )

        return with_sampler_error(bound, epsilon, self.most_groups + 1)

    @property
    def excess_released_with_95(self) -> float:
        """How far a count must be above the next largest to be released with 95 % probability, by the normal law."""
        return self.threshold + 0.5 + math.sqrt(2) * (self.count_std * float(ndtri(0.95)))

    @property
    def noise_event(self) -> Event:
        """d: a new group passes the noisy threshold."""
        return ApproximateEvent(self._whole_event, self.delta_infinity(), error_of_draws(self.most_groups + 1))

    def with_budget(self, epsilon: float, delta: float) -> FromTop:
        """A list of the same length, calibrated for another budget."""
        return calibrate(epsilon, delta, self.most_groups, self.max_groups, self.max_per_group)

    def facts(self, k: int) -> list[Fact]:
        """Noise and threshold in words."""
        words = f"not bounded: the noise is for all {k + 1:,} largest groups; a bound lowers it"
        if self.max_groups is not None:
            most = f"{self.max_groups:,} for each unit, chosen at random if it has more"
            words = f"{most}; noise grows with its root, up to k + 1"
        return counted_facts(k, ("max groups", words), self.count_std, self.threshold, self.excess_released_with_95)


def calibrate(
    epsilon: float, target_delta: float, most_groups: int, max_groups: int | None = None, max_per_group: int = 1
) -> FromTop:
    """Noise and threshold for a budget: of a few ways to share delta, the one that releases the smallest groups.

    The noise is rounded, unless there is so little of it that the lighter tails of a discrete Gaussian count for more.
    """
    epsilon = min(epsilon, LARGEST_EPSILON)
    moved = unknown_domain.moved_groups(most_groups, max_groups) * max_per_group**2
    new = unknown_domain.new_groups(most_groups, max_groups)

    def with_share(share: float, rounded: bool) -> FromTop:
        std = least_std(epsilon, target_delta * share, moved, rounded)

        def built(gap: int) -> FromTop:
            return FromTop(most_groups, std, max_per_group + gap, max_groups, max_per_group, rounded)

        near = math.sqrt(2) * std * quantile_for_infinity(target_delta * min(share, 1 - share), new)
        gap = smallest_whole(
            lambda gap: built(gap).delta(epsilon) <= target_delta,
            limit=math.ceil(60 * std) + 2,
            start=max(0, round(near)),
        )
        return built(gap)

    return best_of_laws(with_share, NOISE_SHARES, lambda found: found.excess_released_with_95)
