"""Running counts per group over rounds [Rogers24, Theorem 11]."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from dphist import checks
from dphist.checks import proved
from dphist.errors import InvalidParameter
from dphist.mechanisms.lattice import Integers
from dphist.mechanisms.surcharge import LARGEST_EPSILON, error_of_draws, with_sampler_error
from dphist.mechanisms.whole_gaussian import WholeGaussian, best_of_laws, least_std
from dphist.noise import RoundedGaussian, require_headroom, sample
from dphist.noise.tails import log_sum_tail
from dphist.privacy import unknown_domain
from dphist.privacy.composition import delta_from_rho
from dphist.privacy.events import ApproximateEvent, Event
from dphist.privacy.gaussian import quantile_for_infinity
from dphist.privacy.search import smallest_whole
from dphist.privacy.special import ndtri

MOST_ROUNDS = 2**20
NOISE_SHARES = (0.5, 0.65, 0.8, 0.9, 0.95)
"""The parts of delta that calibration tries for the noise; the rest is for the threshold."""

LARGEST_RUNNING_COUNT = 2**61
"""A public limit: running counts stay below it, and int64 holds them with the noise of every node."""


@proved("unknown-domain.md#theorem-streams")
@dataclass(frozen=True, slots=True)
class ContinualCounts(WholeGaussian):
    """A running count per group over at most `rounds` rounds: the true count plus one noise per node of the binary tree.

    One event is what one unit adds in one round: 1 to each of at most max_groups groups. A count strictly above the
    threshold is released.
    """

    name: ClassVar[str] = "continual"
    theorem_number: ClassVar[int] = 11

    rounds: int
    max_groups: int
    noise_std: float
    threshold: int
    rounded: bool = False

    def __post_init__(self) -> None:
        checks.check_whole("rounds", self.rounds)
        if self.rounds > MOST_ROUNDS:
            raise InvalidParameter("at most 2^20 rounds", self.rounds)
        checks.check_whole("max_groups", self.max_groups)
        self._check_noise()
        checks.check_whole("threshold", self.threshold)
        require_headroom(self.law, LARGEST_RUNNING_COUNT, self.rounds.bit_length())

    @property
    def assumption(self) -> str:
        """What must hold for the data."""
        plural = "s" if self.max_groups > 1 else ""
        return (
            f"each unit is counted once in at most {self.max_groups:,} group{plural} of a round (each batch enforces it);"
            " a unit that comes back in another round is another event"
        )

    @property
    def rho(self) -> float:
        """The zCDP parameter of all nodes together."""
        return unknown_domain.rho_rounds(self.noise_std, self.max_groups, self.rounds)

    @property
    def most_per_round(self) -> int:
        """A public limit on the units of one group in one round; what is above it is cut."""
        return LARGEST_RUNNING_COUNT // self.rounds

    def std_at(self, round_: int) -> float:
        """The standard deviation of the noise on a count after this many rounds."""
        return self.count_std * math.sqrt(round_.bit_count())

    def draw(self, groups: int) -> Integers:
        """The noise of one node for each of some groups."""
        return sample(self.law, groups)

    def delta_infinity(self) -> float:
        """max_groups sum_t P(S_t > T - 1), S_t a sum of popcount(t) noises: a new group is ever released. Rounded up."""
        law = self.law
        if isinstance(law, RoundedGaussian):
            return unknown_domain.ever_released(self.threshold, self.noise_std, self.max_groups, self.rounds)
        total = sum(
            number * math.exp(float(log_sum_tail(law, terms, self.threshold - 1)))
            for terms, number in enumerate(unknown_domain.rounds_by_popcount(self.rounds))
            if number
        )
        return min(1.0, self.max_groups * total * (1 + 1e-12))

    def delta(self, epsilon: float) -> float:
        """delta_infinity plus that of the noise: delta_G, or delta_CKS(rho, epsilon), by the good-event lemma. Rounded up."""

        def bound(at: float) -> float:
            if not self.rounded:
                return min(1.0, self.delta_infinity() + delta_from_rho(self.rho, at))
            return unknown_domain.delta_rounds(
                at,
                noise_std=self.noise_std,
                threshold=self.threshold,
                max_groups=self.max_groups,
                rounds=self.rounds,
            )

        return with_sampler_error(bound, epsilon, 2 * self.max_groups * self.rounds)

    @property
    def noise_event(self) -> Event:
        """The noise of all nodes of the tree; d: a new group is ever released. The whole stream, whatever comes in between."""
        error = error_of_draws(2 * self.max_groups * self.rounds)
        return ApproximateEvent(self._whole_event, self.delta_infinity(), error)

    def with_budget(self, epsilon: float, delta: float) -> ContinualCounts:
        """A stream of as many rounds, calibrated for another budget."""
        return calibrate(epsilon, delta, self.rounds, self.max_groups)

    def count_released_with(self, probability: float, round_: int) -> float:
        """The count that is released with this probability in a round, by the normal law."""
        return self.threshold + 0.5 + self.std_at(round_) * float(ndtri(probability))


def calibrate(epsilon: float, target_delta: float, rounds: int, max_groups: int) -> ContinualCounts:
    """Noise and threshold for a budget: of a few ways to share delta, the one that releases the smallest groups.

    The noise is rounded, unless there is so little of it that the lighter tails of a discrete Gaussian count for more.
    """
    checks.check_whole("rounds", rounds)
    checks.check_whole("max_groups", max_groups)
    epsilon = min(epsilon, LARGEST_EPSILON)
    most_terms = unknown_domain.levels(rounds)

    def with_share(share: float, rounded: bool) -> ContinualCounts:
        std = least_std(epsilon, target_delta * share, max_groups * most_terms, rounded)

        def built(gap: int) -> ContinualCounts:
            return ContinualCounts(rounds, max_groups, std, 1 + gap, rounded)

        widest = std * math.sqrt(most_terms)
        near = widest * quantile_for_infinity(target_delta * (1 - share), max_groups)
        gap = smallest_whole(
            lambda gap: built(gap).delta(epsilon) <= target_delta,
            limit=math.ceil(60 * widest) + 2,
            start=max(0, round(near)),
        )
        return built(gap)

    return best_of_laws(with_share, NOISE_SHARES, lambda found: found.threshold + 2 * found.count_std)
