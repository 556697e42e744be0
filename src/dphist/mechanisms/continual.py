"""Running counts per group over rounds [Rogers24, Theorem 11]."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

from scipy.special import ndtri

from dphist import checks
from dphist.errors import InvalidParameter
from dphist.mechanisms.base import LARGEST_EPSILON, Integers, Mechanism, sampler_surcharge, with_sampler_error
from dphist.noise import DiscreteGaussian, Entropy, require_headroom, sample
from dphist.noise.tails import log_sum_tail
from dphist.privacy import unknown_domain
from dphist.privacy.composition import PrivacyCost, delta_from_rho, of_rho, smallest_std
from dphist.privacy.search import smallest_whole

MOST_ROUNDS = 2**20
NOISE_SHARES = (0.5, 0.8, 0.95)

LARGEST_RUNNING_COUNT = 2**61
"""A public limit: running counts stay below it, and int64 holds them with the noise of every node."""


@dataclass(frozen=True, slots=True)
class ContinualCounts(Mechanism):
    """A running count per group over at most `rounds` rounds: the true count plus one noise per node of the binary tree.

    One event is what one unit adds in one round: 1 to each of at most max_groups groups. A count strictly above the
    threshold is released.
    """

    name: ClassVar[str] = "continual"
    theorem = "[Rogers24] Theorem 11, corrected, for discrete Gaussian noise and converted by [CKS20] Proposition 7"

    rounds: int
    max_groups: int
    noise_std: float
    threshold: int

    def __post_init__(self) -> None:
        checks.check_whole("rounds", self.rounds)
        if self.rounds > MOST_ROUNDS:
            raise InvalidParameter("at most 2^20 rounds", self.rounds)
        checks.check_whole("max_groups", self.max_groups)
        checks.check_positive("noise_std", self.noise_std)
        checks.check_whole("threshold", self.threshold)
        require_headroom(DiscreteGaussian(self.variance), LARGEST_RUNNING_COUNT, self.rounds.bit_length())

    @property
    def variance(self) -> Fraction:
        """The parameter of the law of one node."""
        return Fraction(self.noise_std) ** 2

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
        return self.noise_std * math.sqrt(round_.bit_count())

    def draw(self, groups: int, entropy: Entropy | None = None) -> Integers:
        """The noise of one node for each of some groups."""
        return sample(DiscreteGaussian(self.variance), groups, entropy)

    def delta_infinity(self) -> float:
        """max_groups sum_t P(S_t > T - 1), S_t a sum of popcount(t) noises: a new group is ever released. Rounded up."""
        law = DiscreteGaussian(self.variance)
        total = sum(
            number * math.exp(float(log_sum_tail(law, terms, self.threshold - 1)))
            for terms, number in enumerate(unknown_domain.rounds_by_popcount(self.rounds))
            if number
        )
        return min(1.0, self.max_groups * total * (1 + 1e-12))

    def delta(self, epsilon: float) -> float:
        """delta_infinity + delta_CKS(rho, epsilon), by the good-event lemma. Rounded up."""
        infinity = self.delta_infinity()
        return with_sampler_error(
            lambda at: min(1.0, infinity + delta_from_rho(self.rho, at)), epsilon, 2 * self.max_groups * self.rounds
        )

    def _cost(self, epsilon: float, composed_epsilon: float) -> PrivacyCost:
        """rho of all nodes of the tree; d: a new group is ever released. The whole stream, whatever comes in between."""
        d = self.delta_infinity() + sampler_surcharge(composed_epsilon, 2 * self.max_groups * self.rounds)
        return of_rho(self.rho, d, epsilon=epsilon, delta=self.delta(epsilon))

    def count_released_with(self, probability: float, round_: int) -> float:
        """The count that is released with this probability in a round, by the normal law."""
        return self.threshold + 0.5 + self.std_at(round_) * float(ndtri(probability))


def calibrate(epsilon: float, target_delta: float, rounds: int, max_groups: int) -> ContinualCounts:
    """Noise and threshold for a budget: of a few ways to share delta, the one that releases the smallest groups."""
    checks.check_whole("rounds", rounds)
    checks.check_whole("max_groups", max_groups)
    epsilon = min(epsilon, LARGEST_EPSILON)
    most_terms = unknown_domain.levels(rounds)

    def with_share(share: float) -> ContinualCounts:
        std = smallest_std(epsilon, target_delta * share, max_groups * most_terms / 2)

        def built(gap: int) -> ContinualCounts:
            return ContinualCounts(rounds, max_groups, std, 1 + gap)

        limit = math.ceil(60 * std * math.sqrt(most_terms)) + 2
        return built(smallest_whole(lambda gap: built(gap).delta(epsilon) <= target_delta, limit=limit))

    return min(map(with_share, NOISE_SHARES), key=lambda made: made.threshold + 2 * made.noise_std)
