"""The election as a mechanism: keys alone, with the smallest threshold that any mechanism can have."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import TYPE_CHECKING, ClassVar, Final

import numpy as np

from dphist import checks
from dphist.errors import Infeasible, InvalidParameter
from dphist.mechanisms.base import (
    LARGEST_EPSILON,
    Builder,
    Fact,
    Floats,
    GroupMechanism,
    Integers,
    Kept,
    sampler_surcharge,
    with_sampler_error,
)
from dphist.mechanisms.tuning import LATTICE_BITS
from dphist.noise import DiscreteLaplace, Entropy, toss
from dphist.privacy import voting as theory
from dphist.privacy.composition import PrivacyCost
from dphist.words import number, rounded_up

if TYPE_CHECKING:
    from dphist.planning.request import Request

LOOK_SHARE: Final = 0.1
"""The part of epsilon that a first look takes, where there is one."""

VOTE_WORTH: Final = 1.3
LOOK_GAIN: Final = 0.15
"""What the choice expects: a vote finds groups like so much weight in the rounds, and with a look like d^LOOK_GAIN times as
much if its unit is in d groups. Chosen on generated tables (`benchmarks/keys.py --tune`): in 96 runs there, with the
choice paid for, it finds 96 % of the keys of the best of the three on average, and 84 % at worst."""

MOST_SHARES: Final = 1 << LATTICE_BITS
"""The most groups of which one unit moves the shares: each by at least one step, by 2^LATTICE_BITS together."""


@dataclass(frozen=True, slots=True)
class Voting(GroupMechanism):
    """Each unit votes for one of its groups; a group is shown by a coin whose probability grows with its votes.

    vote_epsilon, vote_delta: the budget of the election, whose rule follows from it. capacity: the most votes of a group.
    look_epsilon: what a first look at the groups costs, by which units order their lists; 0 if they do so blindly.
    low_threshold: groups with fewer votes are never shown.
    """

    name: ClassVar[str] = "voting"
    in_rounds: ClassVar[bool] = True
    theorem = "docs/voting.md, Theorems 1 to 3"
    max_groups = 1
    noise_std = sums_sensitivity = 0.0
    lattice_bits = 0
    sparsity = independent_std = correlation = None
    counted = False
    bound_in_words = "no bound"
    size_in_words = "that vote for it; more are lost where some vote for other groups"

    vote_epsilon: float
    vote_delta: float
    capacity: int
    look_epsilon: float = 0.0
    low_threshold: int = 1

    def __post_init__(self) -> None:
        checks.check_epsilon(self.vote_epsilon)
        checks.check_delta(self.vote_delta)
        checks.check_whole("capacity", self.capacity)
        checks.check_not_negative("look_epsilon", self.look_epsilon)
        checks.check_whole("low_threshold", self.low_threshold)
        if self.capacity < self.low_threshold:
            raise InvalidParameter(f"a capacity of at least low_threshold = {self.low_threshold}", self.capacity)
        _ = self.probabilities, self.look_law  # can be built

    @classmethod
    def for_request(cls, request: Request) -> Iterator[Builder]:
        """Where keys alone are asked for: blind, and after a look, which the data chooses between."""
        if request.keys_only and request.mechanism in ("best", "voting"):
            yield partial(_for_keys, request, 0.0)
            if request.choice == "law":
                yield partial(_for_keys, request, LOOK_SHARE)

    @property
    def analysis(self) -> str:
        """Both are one theorem; the name tells them apart."""
        return "blind" if self.look_epsilon == 0 else "after a look"

    @property
    def rounds(self) -> int:
        """The look, if there is one, and the election."""
        return 1 if self.look_epsilon == 0 else 2

    @property
    def assumption(self) -> str:
        """What must hold for the data."""
        return "each unit gives one vote to one of its groups, in an order that no record can change (a release enforces it)"

    @property
    def probabilities(self) -> tuple[int, ...]:
        """The rule: pi(n) in units of 2^-BITS, the last for all larger n; before low_threshold moves it."""
        return theory.release_probabilities(self.vote_epsilon, self.vote_delta)

    @property
    def look_law(self) -> DiscreteLaplace | None:
        """The noise of the look, in steps of 2^-LATTICE_BITS; a unit moves them by 2^LATTICE_BITS in all. Exact."""
        if self.look_epsilon == 0:
            return None
        return DiscreteLaplace((1 << LATTICE_BITS) / Fraction(self.look_epsilon))

    @property
    def threshold(self) -> float:
        """The largest number of votes with which a group is shown less than every other time."""
        return self.count_released_with(0.5) - 1

    # What is proved.

    def delta(self, epsilon: float) -> float:
        """Basic composition: a pure look_epsilon, and the rule's own profile at what is left of epsilon.

        Below look_epsilon nothing is left, and the look adds (e^p - e^epsilon)/(1 + e^p), p = look_epsilon: no pure mechanism
        has a larger delta.
        """
        return with_sampler_error(self.delta_noise, epsilon, self._changed_counters)

    def delta_noise(self, epsilon: float) -> float:
        """The same without the error of the look's sampler; the coins are exact."""
        left = Fraction(epsilon) - Fraction(self.look_epsilon)
        if left >= 0:
            return theory.delta_of(self.probabilities, _round_down(left))
        look = -math.expm1(float(left)) / (1 + math.exp(-self.look_epsilon)) * (1 + 1e-12)
        return min(1.0, look + theory.delta_of(self.probabilities, 0.0))

    def delta_infinity(self) -> float:
        """The probability that a group of one unit is shown. Rounded up."""
        return math.nextafter(self.release_probability(1), 1.0)

    @property
    def _changed_counters(self) -> int:
        return 0 if self.look_epsilon == 0 else MOST_SHARES

    def _cost(self, epsilon: float, composed_epsilon: float) -> PrivacyCost:
        """The look and the election, two pure mechanisms; d: the delta of the rule at its own epsilon."""
        d = theory.delta_of(self.probabilities, self.vote_epsilon)
        d += sampler_surcharge(composed_epsilon, self._changed_counters)
        return self._pure_per_group(1, (self.look_epsilon, self.vote_epsilon), d, epsilon)

    # What is drawn.

    def perturb_part(self, counts: Integers, shared: int, entropy: Entropy | None = None) -> Kept:
        """Coins for some of the groups, by their votes. What is kept has no count."""
        votes = np.maximum(counts - (self.low_threshold - 1), 0)
        index = np.flatnonzero(toss(self.probabilities, np.minimum(votes, len(self.probabilities) - 1), entropy))
        return Kept(index, np.zeros(len(index), np.int64), 0)

    # What a reader is told.

    def release_probability(self, count: float) -> float:
        """The probability that a group with so many votes is shown."""
        return (
            theory.probability(self.probabilities, math.floor(min(count, self.capacity)), self.low_threshold)
            / theory.ONE
        )

    def count_released_with(self, probability: float) -> float:
        """The votes with which a group is shown with this probability, had it room for them."""
        return float(theory.votes_for(self.probabilities, Fraction(probability), self.low_threshold))

    def predicted_releases(self, degrees: Floats, centres: Floats) -> float:
        """All votes over what a group needs to be shown every other time; with a look fewer of them are wasted."""
        gain = np.ones(len(centres)) if self.look_epsilon == 0 else centres**LOOK_GAIN
        return VOTE_WORTH * float((degrees * gain).sum()) / self.count_released_with(0.5)

    def budget_split(self) -> dict[str, float] | None:
        """The shares of epsilon, where there is a look."""
        if self.look_epsilon == 0:
            return None
        look = self.look_epsilon / (self.look_epsilon + self.vote_epsilon)
        return {"look": look, "election": 1 - look}

    def steps(self) -> list[Fact]:
        """Look, election and coins."""
        rare = f"of one unit is shown with probability {rounded_up(self.delta_infinity())}"
        if self.low_threshold > 1:
            rare = f"of fewer than {self.low_threshold:,} votes is never shown"
        words = _COINS.format(epsilon=self.vote_epsilon, delta=self.vote_delta, rare=rare)
        look = [] if self.look_epsilon == 0 else [("Look", _LOOK.format(look=self.look_epsilon))]
        return [*look, ("Election", _ELECTION.format(capacity=self.capacity)), ("Coins", words)]

    def facts(self) -> list[Fact]:
        """Election, rule and look in words."""
        half, most = (number(self.count_released_with(chance)) for chance in (0.5, 0.95))
        facts = [
            ("election", f"each unit gives one vote to one of its groups; a group takes at most {self.capacity:,}"),
            ("threshold", f"a group is released with probability 50 % at {half} votes, 95 % at {most} votes"),
        ]
        if self.low_threshold > 1:
            facts.append(("", f"groups of fewer than {self.low_threshold:,} votes are never released"))
        if self.look_epsilon > 0:
            noise = number(math.sqrt(2) / self.look_epsilon)
            facts.append(
                (
                    "look",
                    f"units prefer groups that look large: shares of units with noise of std {noise}, never published",
                )
            )
        return facts


_LOOK = (
    "Every unit divides 1 evenly over its groups, in whole steps, rounded down; the sums get discrete Laplace noise of"
    " epsilon = {look:g}, fresh for every group that some unit has. Nothing of it is published: units order their lists by it."
)
_ELECTION = (
    "Units act one after the other, in an order drawn from the unit and a fresh seed alone, and each gives one vote to the"
    " first group of its list that has fewer than {capacity:,} votes. With one unit more, one group has one vote more, or none"
    " has: for any lists, however many groups units are in."
)
_COINS = (
    "Each group with votes is shown by a coin of its own, whose probability is the largest that this budget allows for its"
    " votes: epsilon = {epsilon:g}, delta = {delta:.3g}. A group {rare}."
)


def _for_keys(request: Request, look_share: float) -> Voting:
    """The election with everything that epsilon leaves for it."""
    return calibrate(
        request.mechanism_epsilon, request.delta, look_share=look_share, low_threshold=request.low_threshold
    )


def calibrate(
    epsilon: float, delta: float, *, look_share: float = 0.0, low_threshold: int = 1, capacity: int | None = None
) -> Voting:
    """The election for a budget, with a look if it has a share; the capacity follows from the rule, or is given."""
    checks.check_epsilon(epsilon)
    checks.check_delta(delta)
    if not 0 <= look_share < 1:
        raise InvalidParameter(
            "a share of epsilon for the look in [0, 1)", look_share, f"{LOOK_SHARE:g} is a common choice."
        )
    usable = min(epsilon, LARGEST_EPSILON)
    look = usable * look_share
    target = delta * (1 - 1e-12) - sampler_surcharge(usable, MOST_SHARES if look else 0)
    if target <= 0:
        raise Infeasible("a delta above the error of the noise sampler", f"{delta:g}", "raise delta or lower epsilon.")
    vote = _round_down(Fraction(usable) - Fraction(look))
    room = theory.capacity(theory.release_probabilities(vote, target), low_threshold) if capacity is None else capacity
    built = Voting(vote, target, room, look, low_threshold)
    assert built.delta(epsilon) <= delta, "only the forward map is trusted; a plan checks it again"
    return built


def _round_down(value: Fraction) -> float:
    """The largest double that is not above an exact value."""
    nearest = float(value)
    return nearest if Fraction(nearest) <= value else math.nextafter(nearest, -math.inf)
