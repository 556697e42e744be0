"""Truncated discrete Laplace noise as a mechanism: counts are only ever too small, by at most q."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dphist import checks
from dphist.checks import proved
from dphist.errors import Infeasible, InvalidParameter
from dphist.mechanisms.base import Exact, Mechanism, in_at_most
from dphist.mechanisms.lattice import Integers, Kept, above, add_noise
from dphist.mechanisms.surcharge import COST_UP, LARGEST_EPSILON, error_of_draws, round_up, with_sampler_error
from dphist.noise import TruncatedDiscreteLaplace, log_tail
from dphist.privacy import truncated_laplace
from dphist.privacy.events import ApproximateEvent, Event, PureEvent, RepeatedEvent


@proved("[BCDP22] Theorem 3")
@dataclass(frozen=True, slots=True)
class TruncatedLaplace(Mechanism):
    """max(0, count + z), z in {-q, ..., 0}, for every non-empty group; groups that become 0 are left out.

    `epsilon_per_group` is the exponent of the noise, exact; `q` is public and does not follow the data.
    """

    name: ClassVar[str] = "truncated-laplace"
    lattice_bits = 0
    analysis = "exact"
    theorem = "[BCDP22] Theorem 3 with a public q"

    epsilon_per_group: Exact
    q: int
    max_groups: int = 1

    def __post_init__(self) -> None:
        _ = self.law  # checks epsilon and q
        checks.check_positive("epsilon_per_group", float(self.epsilon_per_group))
        truncated_laplace.check_bars(self.max_groups)
        if self.q > truncated_laplace.LARGEST_Q:
            raise InvalidParameter("q of at most 2^40", self.q)

    @classmethod
    def for_budget(cls, epsilon: float, delta: float, max_groups: int = 1) -> TruncatedLaplace:
        """The smallest q found for a budget, re-checked with the sampler's own error included."""
        checks.check_epsilon(epsilon)
        checks.check_delta(delta)
        usable = min(epsilon, LARGEST_EPSILON)
        found = truncated_laplace.calibrate(usable, delta, max_groups)
        for q in range(max(found.q - 1, 0), found.q + 2):
            mechanism = cls(found.epsilon, q, max_groups)
            if mechanism.delta(usable) <= delta:
                return mechanism
        raise Infeasible("a delta above what the sampler itself may add", delta, "1e-20 is far above it.")

    @property
    def law(self) -> TruncatedDiscreteLaplace:
        """The law of the noise on one count."""
        return TruncatedDiscreteLaplace(self.epsilon_per_group, self.q)

    @property
    def assumption(self) -> str:
        """What must hold for the data."""
        return in_at_most(self.max_groups)

    @property
    def noise_std(self) -> float:
        """The standard deviation of z about -q/2."""
        steps = np.arange(self.q + 1) - self.q / 2 if self.q <= 2**20 else None
        if steps is None:  # the cut is then out of reach: discrete Laplace noise
            ratio = math.exp(-float(self.epsilon_per_group))
            return min(math.sqrt(2 * ratio) / (1 - ratio), self.q / 2)
        weights = np.exp(float(self.epsilon_per_group) * (np.minimum(self.q / 2 - np.abs(steps), self.q) - self.q / 2))
        return float(np.sqrt(np.sum(weights * steps * steps) / np.sum(weights)))

    def perturb(self, counts: Integers) -> Kept:
        """Noise every non-empty group and keep what is above 0."""
        eligible = np.flatnonzero(counts > 0)
        return above(add_noise(counts[eligible], self.law, 0), eligible, 0, 0)

    def delta(self, epsilon: float) -> float:
        """An upper bound on delta at epsilon >= 0."""
        return with_sampler_error(self.delta_noise, epsilon, self.max_groups)

    def delta_noise(self, epsilon: float) -> float:
        """The exact profile of the noise: there is no threshold beside it."""
        return truncated_laplace.delta_profile(epsilon, epsilon=self.epsilon_per_group, q=self.q, bars=self.max_groups)

    @property
    def noise_event(self) -> Event:
        """Per bar (e, f(0))-DP: a pure e, and d the chance that the outermost atom shows which it is."""
        one = truncated_laplace.delta_one_bar(float(self.epsilon_per_group), self.q)
        infinite = 1.0 if one >= 1 else -math.expm1(self.max_groups * math.log1p(-one)) * COST_UP
        pure = RepeatedEvent((PureEvent(round_up(self.epsilon_per_group) * COST_UP),), self.max_groups)
        return ApproximateEvent(pure, infinite, error_of_draws(self.max_groups))

    def with_budget(self, epsilon: float, delta: float) -> TruncatedLaplace:
        """The same bound on groups, calibrated for another budget."""
        return self.for_budget(epsilon, delta, self.max_groups)

    def release_probability(self, count: int) -> float:
        """Pr[count + z > 0]: 0 for an empty group, 1 above q. For one group this is `is_empty` of the Boolean case."""
        return 0.0 if count <= 0 else min(1.0, float(np.exp(log_tail(self.law, -count))))
