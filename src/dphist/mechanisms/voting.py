"""The election as a mechanism: keys alone, with the smallest threshold that any mechanism can have."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import TYPE_CHECKING, ClassVar, Final

import numpy as np

from dphist import checks
from dphist.aggregates.measures import Measure
from dphist.aggregates.noisy_sums import pure_epsilon
from dphist.checks import proved
from dphist.errors import Infeasible, InvalidParameter
from dphist.mechanisms.base import Builder, Fact, GroupMechanism
from dphist.mechanisms.counts import COUNTERS, COUNTS_IN_WORDS, CountNoise, Emphasis, laplace_counts
from dphist.mechanisms.lattice import Floats, Integers, Kept
from dphist.mechanisms.surcharge import LARGEST_EPSILON, error_of_draws, round_up, sampler_surcharge, with_sampler_error
from dphist.mechanisms.tuning import LATTICE_BITS, Tuning
from dphist.noise import DiscreteLaplace, toss
from dphist.privacy import voting as theory
from dphist.privacy.events import ApproximateEvent, Event, PureEvent, RepeatedEvent
from dphist.words import enough, number, rounded_up

if TYPE_CHECKING:
    from dphist.planning.request import Request

_DEFAULT: Final = Tuning()

LOOK_SHARE: Final = 0.1
"""The part of epsilon that a first look takes, where there is one."""

VOTE_WORTH: Final = 1.3
LOOK_GAIN: Final = 0.15
"""What the choice expects: a vote finds groups like so much weight in the rounds, and with a look like d^LOOK_GAIN times as
much if its unit is in d groups. Chosen on generated tables (`benchmarks/keys.py --tune`): in 96 runs there, with the
choice paid for, it finds 96 % of the keys of the best of the three on average, and 84 % at worst."""

MOST_SHARES: Final = 1 << LATTICE_BITS
"""The most groups of which one unit moves the shares: each by at least one step, by 2^LATTICE_BITS together."""


@proved("voting.md#theorem-4")
@dataclass(frozen=True, slots=True)
class Voting(GroupMechanism):
    """Each unit votes for one of its groups; a group is shown by a coin whose probability grows with its votes.

    vote_epsilon, vote_delta: the budget of the election, whose rule follows from it. capacity: the most votes of a group.
    look_epsilon: what a first look at the groups costs, by which units order their lists; 0 if they do so blindly.
    low_threshold: groups with fewer votes are never shown. counts: the noise on the counts of shown groups; None if keys alone
    are published.
    """

    name: ClassVar[str] = "voting"
    in_rounds: ClassVar[bool] = True
    strategies: ClassVar[frozenset[str]] = frozenset({"election"})
    splits_epsilon: ClassVar[bool] = True
    max_groups = 1
    lattice_bits = 0
    sparsity = independent_std = correlation = None
    bound_in_words = "no bound"
    size_in_words = "that vote for it; more are lost where some vote for other groups"

    vote_epsilon: float
    vote_delta: float
    capacity: int
    look_epsilon: float = 0.0
    low_threshold: int = 1
    counts: CountNoise | None = None
    tuning: Tuning = _DEFAULT

    def __post_init__(self) -> None:
        checks.check_epsilon(self.vote_epsilon)
        if self.counts is not None and self.counts.law != "laplace":
            raise InvalidParameter("Laplace noise on counts after an election", self.counts.law)
        checks.check_delta(self.vote_delta)
        checks.check_whole("capacity", self.capacity)
        checks.check_not_negative("look_epsilon", self.look_epsilon)
        checks.check_whole("low_threshold", self.low_threshold)
        if self.capacity < self.low_threshold:
            raise InvalidParameter(f"a capacity of at least low_threshold = {self.low_threshold}", self.capacity)
        _ = self.probabilities, self.look_law  # can be built

    @classmethod
    def for_request(cls, request: Request) -> Iterator[Builder]:
        """Where nothing bounds the groups of a unit: blind, and after a look, which the data chooses between."""
        yield partial(_drawable, request, 0.0)
        if request.choice_epsilon:
            yield partial(_drawable, request, LOOK_SHARE)

    @property
    def counted(self) -> bool:
        """Whether the shown keys are counted."""
        return self.counts is not None

    @property
    def noise_std(self) -> float:
        """Of the noise on one count, for units in one shown group, had it all of the counts' budget; 0 for keys alone."""
        return 0.0 if self.counts is None else self.counts.unit_std

    @property
    def sums_sensitivity(self) -> float:
        """The epsilon of the other aggregates; 0 where there are none."""
        return 0.0 if self.counts is None else self.counts.sums_sensitivity

    @property
    def pure_epsilon(self) -> Fraction:
        """The epsilon of the look and of the counts. Exact."""
        return Fraction(self.look_epsilon) + (0 if self.counts is None else self.counts.pure_epsilon)

    def aggregate_law(self, aggregate: Measure) -> DiscreteLaplace:
        """Laplace budgets add up linearly: noise scale/sensitivity = scale/weight, exactly; a tree has that for each level."""
        assert self.counts is not None, "keys alone have no aggregates"
        steps = aggregate.draws * aggregate.sensitivity_steps
        return DiscreteLaplace(Fraction(self.counts.unit_noise) * steps / Fraction(aggregate.weight))

    def covers(self, aggregates: Sequence[Measure]) -> bool:
        """Whether the profile accounts for the noise that is drawn on the aggregates. Exact."""
        if not self.counted:
            return not aggregates
        return Fraction(self.sums_sensitivity) >= pure_epsilon(self.noisy(aggregates))

    @property
    def theorem(self) -> str:
        """The fourth adds counts."""
        return f"docs/voting.md, Theorems 1 to {4 if self.counted else 3}"

    @property
    def analysis(self) -> str:
        """Both are one theorem; the name tells them apart."""
        return "blind" if self.look_epsilon == 0 else "after a look"

    @property
    def selection_in_words(self) -> str:
        """One vote of each unit."""
        return f"by an election ({self.analysis})"

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
        """Basic composition: a pure_epsilon of look and counts, and the rule's own profile at what is left of epsilon.

        Below pure_epsilon nothing is left, and look and counts add (e^p - e^epsilon)/(1 + e^p), p = pure_epsilon: no pure
        mechanism has a larger delta.
        """
        return with_sampler_error(self.delta_noise, epsilon, self._changed_counters)

    def delta_noise(self, epsilon: float) -> float:
        """The same without the error of the samplers; the coins are exact."""
        left = Fraction(epsilon) - self.pure_epsilon
        if left >= 0:
            return theory.delta_of(self.probabilities, _round_down(left))
        pure = -math.expm1(float(left)) / (1 + math.exp(-float(self.pure_epsilon))) * (1 + 1e-12)
        return min(1.0, pure + theory.delta_of(self.probabilities, 0.0))

    def delta_infinity(self) -> float:
        """The probability that a group of one unit is shown. Rounded up."""
        return math.nextafter(self.release_probability(1), 1.0)

    @property
    def _changed_counters(self) -> int:
        return changed_counters(look=self.look_epsilon > 0, counted=self.counted)

    @property
    def noise_event(self) -> Event:
        """The look, the election and the counts, pure mechanisms; d: the delta of the rule at its own epsilon."""
        counts = [] if self.counts is None else [round_up(self.counts.pure_epsilon)]
        parts = (self.look_epsilon, self.vote_epsilon, *counts)
        d = theory.delta_of(self.probabilities, self.vote_epsilon)
        error = error_of_draws(self._changed_counters)
        return ApproximateEvent(RepeatedEvent(tuple(map(PureEvent, parts)), 1), d, error)

    # What is drawn.

    def perturb_part(self, counts: Integers, shared: int) -> Kept:
        """Coins for some of the groups, by their votes. What is kept has no count."""
        votes = np.maximum(counts - (self.low_threshold - 1), 0)
        index = np.flatnonzero(toss(self.probabilities, np.minimum(votes, len(self.probabilities) - 1)))
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

    def sure_size(self, groups: int) -> float:
        """None: each full group is lost about once in a thousand, and votes may go to other groups."""
        return math.inf

    def predicted_releases(self, degrees: Floats, centres: Floats) -> float:
        """All votes over what a group needs to be shown every other time; with a look fewer of them are wasted."""
        gain = np.ones(len(centres)) if self.look_epsilon == 0 else centres**LOOK_GAIN
        return VOTE_WORTH * float((degrees * gain).sum()) / self.count_released_with(0.5)

    def budget_split(self) -> dict[str, float] | None:
        """The shares of epsilon, where it is split."""
        if self.pure_epsilon == 0:
            return None
        counts = {} if self.counts is None else self.counts.shares
        parts = {"look": self.look_epsilon, "election": self.vote_epsilon, **counts}
        total = math.fsum(parts.values())
        return {name: part / total for name, part in parts.items() if part}

    def steps(self) -> list[Fact]:
        """Look, election and coins."""
        rare = f"of one unit is shown with probability {rounded_up(self.delta_infinity())}"
        if self.low_threshold > 1:
            rare = f"of fewer than {self.low_threshold:,} votes is never shown"
        words = _COINS.format(epsilon=self.vote_epsilon, delta=self.vote_delta, rare=rare)
        look = [] if self.look_epsilon == 0 else [("Look", _LOOK.format(look=self.look_epsilon))]
        steps = [*look, ("Election", _ELECTION.format(capacity=self.capacity)), ("Coins", words)]
        return [*steps, ("Counts", COUNTS_IN_WORDS)] if self.counted else steps

    def facts(self) -> list[Fact]:
        """Election, rule and look in words."""
        half, most = (enough(self.count_released_with(chance)) for chance in (0.5, 0.95))
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
        if split := self.budget_split():
            facts.insert(
                0, ("budget", "of epsilon " + ", ".join(f"{share:.0%} {name}" for name, share in split.items()))
            )
        return facts if self.counts is None else [*facts, self.counts.fact]

    def misfits(self, request: Request) -> list[str]:
        """Why this is not what the request paid for."""
        problems = GroupMechanism.misfits(self, request)
        try:
            self.require_drawable(request.measures)
        except (Infeasible, InvalidParameter) as problem:
            problems.append(f"noise cannot be drawn ({problem})")
        return problems

    def require_drawable(self, aggregates: Sequence[Measure]) -> None:
        """Refuse, before any data is read, a budget whose noise could leave the range of the sampler."""
        if self.counts is not None:
            self.counts.require_drawable(self.noisy(aggregates))


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


def _drawable(request: Request, look_share: float) -> Voting:
    """The election with everything that epsilon leaves for it."""
    mechanism = calibrate(
        request.mechanism_epsilon,
        request.mechanism_delta,
        look_share=look_share,
        low_threshold=request.low_threshold,
        emphasis=None if request.keys_only else request.emphasis,
        sums_budget=request.sums_budget,
    )
    mechanism.require_drawable(request.measures)
    return mechanism


def changed_counters(*, look: bool, counted: bool) -> int:
    """How many draws one unit can change: its shares in the look, and the counts."""
    return (MOST_SHARES if look else 0) + (COUNTERS if counted else 0)


def calibrate(
    epsilon: float,
    delta: float,
    *,
    look_share: float = 0.0,
    low_threshold: int = 1,
    capacity: int | None = None,
    emphasis: Emphasis | None = None,
    sums_budget: float = 0.0,
) -> Voting:
    """The election for a budget, with a look if it has a share; the capacity follows, or is given.

    emphasis: how much of the budget counts get; None for keys alone. look_share: of what the counts leave.
    """
    checks.check_epsilon(epsilon)
    checks.check_delta(delta)
    if not 0 <= look_share < 1:
        raise InvalidParameter(
            "a share of epsilon for the look in [0, 1)", look_share, f"{LOOK_SHARE:g} is a common choice."
        )
    usable = min(epsilon, LARGEST_EPSILON)
    counts = None if emphasis is None else laplace_counts(usable, emphasis, _DEFAULT, sums_budget)
    left = Fraction(usable) - (0 if counts is None else counts.pure_epsilon)
    look = float(left) * look_share
    counters = changed_counters(look=look > 0, counted=counts is not None)
    target = delta * (1 - 1e-12) - sampler_surcharge(usable, counters)
    if target <= 0:
        raise Infeasible("a delta above the error of the noise sampler", f"{delta:g}", "raise delta or lower epsilon.")
    # A ledger reads epsilon as a decimal, which may be below the double: where the parts add up to more, delta is no bound.
    vote = _round_down(left - Fraction(look) - (Fraction(usable) - Fraction(math.nextafter(usable, 0.0))))
    room = theory.capacity(theory.release_probabilities(vote, target), low_threshold) if capacity is None else capacity
    built = Voting(vote, target, room, look, low_threshold, counts)
    assert built.delta(epsilon) <= delta, "only the forward map is trusted; a plan checks it again"
    return built


def _round_down(value: Fraction) -> float:
    """The largest double that is not above an exact value."""
    nearest = float(value)
    return nearest if Fraction(nearest) <= value else math.nextafter(nearest, -math.inf)
