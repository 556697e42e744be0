"""The adaptive release as a mechanism: a calibrated budget, and what it promises."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, ClassVar, Final

import numpy as np

from dphist import checks
from dphist.aggregates.measures import Measure
from dphist.checks import proved
from dphist.errors import Infeasible, InvalidParameter
from dphist.mechanisms.base import Builder, Fact, GroupMechanism
from dphist.mechanisms.counts import COUNTERS, COUNTS_IN_WORDS, CountNoise, Emphasis, gaussian_counts
from dphist.mechanisms.lattice import Floats, round_up_to_lattice
from dphist.mechanisms.surcharge import COST_UP, error_of_draws, sampler_surcharge, with_sampler_error
from dphist.mechanisms.tuning import LATTICE_BITS, Tuning
from dphist.mechanisms.weights import share_selected
from dphist.noise.laws import LARGEST_SCALE
from dphist.privacy import adaptive as theory
from dphist.privacy.events import ApproximateEvent, Event, GaussianEvent
from dphist.privacy.gaussian import delta_gaussian, largest_mu, raise_for_rounding
from dphist.privacy.special import ndtr, ndtri
from dphist.words import enough, number

if TYPE_CHECKING:
    from dphist.planning.request import Request

_DEFAULT = Tuning()

LIGHT: Final = Tuning(most_groups=100)
"""Where hardly any unit is in more groups than that, a smaller sample lowers the threshold."""


@proved("adaptive.md#theorem-1")
@dataclass(frozen=True, slots=True)
class AdaptiveGaussian(GroupMechanism):
    """Select keys in rounds with weights that move to the undecided groups; then count the selected keys, if `counts` is there.

    round_stds: the noise on the sum of weights of a group in each round. threshold: of the rounds' weighted sum, in weights.
    bars: of the sum so far after each round but the last, at which a group is accepted for good; none where groups are accepted
    at the end only.
    counts: the noise on the counts; None if keys alone are published, and the rounds have all of the budget.

    Example:
        >>> dp.plan(epsilon=1, delta=1e-8, mechanism="adaptive").mechanism.rounds
        4
    """

    name: ClassVar[str] = "adaptive"
    in_rounds: ClassVar[bool] = True
    strategies: ClassVar[frozenset[str]] = frozenset({"rounds"})
    theorem = "docs/adaptive.md, Theorem 1"
    low_threshold = 1
    lattice_bits = LATTICE_BITS
    sparsity = independent_std = correlation = None
    bound_in_words = "no bound"

    round_stds: tuple[float, ...]
    threshold: float
    counts: CountNoise | None
    tuning: Tuning = _DEFAULT
    bars: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        for name in ("round_stds", "bars"):
            object.__setattr__(self, name, tuple(getattr(self, name)))
        if self.counts is not None and self.counts.law != "gaussian":
            raise InvalidParameter("Gaussian noise on counts after rounds", self.counts.law)
        if len(self.round_stds) != self.tuning.rounds:
            raise InvalidParameter(f"the noise of {self.tuning.rounds} rounds", len(self.round_stds))
        if len(self.bars) not in (0, self.tuning.rounds - 1):
            raise InvalidParameter("a bar after each round but the last, or none", len(self.bars))
        for std in self.round_stds:
            checks.check_positive("round_std", std)
        for name, value in (*(("bar", bar) for bar in self.bars), ("threshold", self.threshold)):
            checks.check_positive(name, value)
            if round_up_to_lattice(value, LATTICE_BITS + self.tuning.share_bits) != value:
                raise InvalidParameter(f"a {name} on the lattice of weighted sums", value, "round it up.")

    @classmethod
    def for_request(cls, request: Request) -> Iterator[Builder]:
        """Where nothing bounds the groups of a unit and small groups count too; the data chooses between two samples."""
        if request.low_threshold == 1:
            yield partial(_drawable, request, _DEFAULT)
            if request.choice_epsilon:
                yield partial(_drawable, request, LIGHT)

    @property
    def analysis(self) -> str:
        """One theorem for all; the name tells the sizes of samples apart."""
        return "rounds" if self.max_groups == _DEFAULT.most_groups else f"rounds, {self.max_groups} groups a unit"

    @property
    def selection_in_words(self) -> str:
        """Rounds of one sample for each unit."""
        return f"in {self.rounds} rounds (samples of at most {self.max_groups:,} groups a unit)"

    @property
    def counted(self) -> bool:
        """Whether the selected keys are counted."""
        return self.counts is not None

    @property
    def noise_std(self) -> float:
        """Of the noise on one count, for units of norm 1, had it all of the counts' budget."""
        return 0.0 if self.counts is None else self.counts.unit_std

    @property
    def sums_sensitivity(self) -> float:
        """How far one unit moves the other aggregates, in units of their noise; 0 where there are none."""
        return 0.0 if self.counts is None else self.counts.sums_sensitivity

    @property
    def rounds(self) -> int:
        """How many rounds there are."""
        return self.tuning.rounds

    rounds_with_sums = rounds

    @property
    def max_groups(self) -> int:
        """How many groups a unit samples for the selection."""
        return self.tuning.most_groups

    @property
    def selection_std(self) -> float:
        """The noise on the sum of weights that decides about a group: that of all rounds together. Rounded up."""
        return theory.combined_std(self.tuning.fractions, self.round_stds)

    @property
    def size_in_words(self) -> str:
        """A unit gives its whole weight to its only undecided group."""
        return "that have no other undecided group; more are lost where they have"

    def sure_size(self, groups: int) -> float:
        """A group of so many units, each in at most so many of the groups it samples, is lost about once in ten thousand.

        Twice the weight that is shown with 95 %, if a unit gives a group 1/sqrt(groups): it gives more as soon as others are
        decided. An estimate, no bound. Without bars groups of any size are lost now and then.
        """
        return math.inf if not self.bars else 2 * self.count_released_with(0.95) * math.sqrt(groups)

    @property
    def shown_in_words(self) -> str:
        """By how many groups units are in, which decides how much weight they have for each."""
        if not self.bars:
            return "groups of any size may be missing, as rounds without bars lose some of every size"
        one, ten, hundred = (enough(self.sure_size(groups)) for groups in (1, 10, 100))
        return (
            f"of groups of {one} units about one in 10,000 is missing at most, where each of them is in no other group, of"
            f" groups of {ten} where each is in at most 10, of {hundred} where each is in at most 100 (an estimate); smaller"
            " ones may be missing"
        )

    def share_lost(self, size: float) -> float:
        """By the rounds, which give some groups up for good."""
        return 1 - share_selected(self, size)

    @property
    def gap(self) -> float:
        """How far the threshold is above the weight of one unit."""
        return self.threshold - 1

    @property
    def assumption(self) -> str:
        """What must hold for the data."""
        counting = " and is counted with a bounded norm (a release enforces all of it)"
        return (
            f"each unit selects with a fixed random sample of at most {self.max_groups:,} of its groups and a total weight of"
            f" norm 1 in every round{',' + counting if self.counted else ' (a release enforces it)'}"
        )

    @property
    def mu(self) -> float:
        """Lemma 1: the Gaussian parameter of everything that is published, were the groups known."""
        counting = [] if self.counts is None else self.counts.gaussian_parts
        return theory.gdp([*self.round_stds, *counting])

    @property
    def changed_counters(self) -> int:
        """How many draws one unit can change: see `changed_counters`."""
        return changed_counters(self.tuning, counted=self.counted)

    def delta(self, epsilon: float) -> float:
        """An upper bound on delta at epsilon."""
        bound = partial(theory.delta, mu=self.mu, infinity=self.delta_infinity())
        return with_sampler_error(bound, epsilon, self.changed_counters)

    def delta_noise(self, epsilon: float) -> float:
        """The part of the noise alone."""
        return raise_for_rounding(float(delta_gaussian(self.mu, epsilon)))

    def delta_infinity(self) -> float:
        """The probability that a group of one unit is released."""
        return theory.delta_infinity(self.threshold, selection_rule(self.tuning, self.round_stds, self.bars))

    def budget_split(self) -> dict[str, float]:
        """The shares of the squared Gaussian budget, which add up to 1."""
        counting = {} if self.counts is None else self.counts.shares
        parts = {"selection": math.fsum(1 / std**2 for std in self.round_stds), **counting}
        total = math.fsum(parts.values())
        return {name: part / total for name, part in parts.items()}

    @property
    def noise_event(self) -> Event:
        """mu of all rounds, the histogram, the counts and the sums; d: a group that one unit alone sampled is selected."""
        error = error_of_draws(self.changed_counters)
        return ApproximateEvent(GaussianEvent(self.mu * COST_UP), self.delta_infinity(), error)

    def release_probability(self, count: float) -> float:
        """The probability that a group is released in which units have this much weight in all."""
        return float(ndtr((count - self.threshold) / self.selection_std))

    def count_released_with(self, probability: float) -> float:
        """The weight at which that probability is reached: so many units without another undecided group."""
        return max(self.threshold + self.selection_std * float(ndtri(probability)), 1.0)

    def predicted_releases(self, degrees: Floats, centres: Floats) -> float:
        """A unit in d groups counts like d^moved_weight: see `Tuning`."""
        moved = np.minimum(centres, self.max_groups) ** self.tuning.moved_weight
        return float((degrees * moved).sum()) / self.count_released_with(0.5)

    def facts(self) -> list[Fact]:
        """Budget, rounds, threshold and noise in words."""
        shares = ", ".join(f"{share:.0%} {name}" for name, share in self.budget_split().items() if share > 0)
        rounds = ", ".join(number(std) for std in self.round_stds)
        facts = [
            ("budget", f"of the squared Gaussian budget {shares}"),
            (
                "selection",
                f"{self.tuning.rounds} rounds with noise of std {rounds} on the sum of weights; each unit gives weights of"
                f" norm 1 to a fixed sample of at most {self.max_groups:,} of its groups, in later rounds to those that are"
                " still undecided",
            ),
            (
                "threshold",
                f"a group is selected when its weights add up to more than {number(self.threshold)}; {self.shown_in_words}",
            ),
        ]
        if self.counts is None:
            return facts
        return [*facts, self.counts.fact]

    def steps(self) -> list[Fact]:
        """Rounds, threshold and counts."""
        steps = [
            ("Rounds", _ROUNDS.format(most=self.max_groups, rounds=self.rounds)),
            (
                "Threshold",
                _SELECTED.format(threshold=self.threshold, early=self._early, infinity=self.delta_infinity()),
            ),
        ]
        return [*steps, ("Counts", COUNTS_IN_WORDS)] if self.counted else steps

    @property
    def _early(self) -> str:
        """The bars in words."""
        return f", or earlier, once the sums so far exceed {', '.join(map(number, self.bars))}" if self.bars else ""

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
        largest = max(self.round_stds)
        if math.ldexp(largest, LATTICE_BITS) > float(LARGEST_SCALE) / 2:
            raise Infeasible("noise that can be drawn", f"a standard deviation of {largest:.3g}", "raise epsilon.")


def _drawable(request: Request, tuning: Tuning) -> AdaptiveGaussian:
    """The adaptive release with everything that epsilon leaves for it."""
    mechanism = calibrate(
        request.mechanism_epsilon,
        request.mechanism_delta,
        keys_only=request.keys_only,
        sums_budget=request.sums_budget,
        emphasis=request.emphasis,
        tuning=tuning,
    )
    mechanism.require_drawable(request.measures)
    return mechanism


def changed_counters(tuning: Tuning, *, counted: bool = True) -> int:
    """How many draws one unit can change: its samples in every round, a bucket, and its counts and sums in all groups."""
    return tuning.rounds * tuning.most_groups + (COUNTERS if counted else 0)


def selection_rule(tuning: Tuning, round_stds: tuple[float, ...], bars: tuple[float, ...] = ()) -> theory.Rule:
    """The rule of `run/rounds.py`, as Lemma 2 wants to know it."""
    return theory.Rule(
        tuning.fractions, round_stds, tuning.hopeless, tuning.reserve, tuning.most_groups, 2.0**-LATTICE_BITS, bars
    )


def calibrate(
    epsilon: float,
    delta: float,
    *,
    keys_only: bool = False,
    sums_budget: float = 0.0,
    emphasis: Emphasis = "balanced",
    tuning: Tuning | None = None,
) -> AdaptiveGaussian:
    """The adaptive mechanism for a budget: noise rounded up first, then bars and threshold for it, then the forward map.

    keys_only: no counts; the rounds have all of the budget.
    """
    tuning = tuning or _DEFAULT
    target = delta * (1 - 1e-12) - sampler_surcharge(epsilon, changed_counters(tuning, counted=not keys_only))
    if target <= 0:
        raise Infeasible("a delta above the error of the noise sampler", f"{delta:g}", "raise delta or lower epsilon.")
    infinity = tuning.delta_share * target
    mu = largest_mu(epsilon, theory.delta_gauss_left(target, infinity)) * (1 - 1e-12)
    if not mu > 2.0**-20:
        raise Infeasible("a budget that leaves less noise than a million units", f"epsilon = {epsilon:g}")
    counts, share = (None, 1.0) if keys_only else gaussian_counts(mu, emphasis, tuning, sums_budget)
    selection = mu * math.sqrt(share)
    stds = tuple(1 / (math.sqrt(part) * selection) for part in tuning.fractions)
    fine_bits, early = LATTICE_BITS + tuning.share_bits, tuning.early_share * infinity
    bars = theory.smallest_bars(early, selection_rule(tuning, stds), fine_bits) if early > 0 else ()
    threshold = theory.smallest_threshold(infinity, selection_rule(tuning, stds, bars), fine_bits)
    built = AdaptiveGaussian(stds, threshold, counts, tuning, bars)
    assert built.delta(epsilon) <= delta, "only the forward map is trusted; a plan checks it again"
    return built


_ROUNDS = (
    "In each of {rounds} rounds every group has a public weight, and every unit divides a norm of 1 over its sample of at most"
    " {most:,} groups in these proportions, in whole steps, rounded down. The sums get Gaussian noise, fresh for every group of"
    " any sample and in every round, even where the weight is 0. A group's next weight is a function of its own noisy sums:"
    " none if it is accepted or hopeless, less if it is as good as selected, so units spend their weight on the undecided."
    " Given equal noisy sums so far the weights are equal with and without one unit, whose own vector has norm 1 at most:"
    " Gaussian mechanisms in a row."
)
_SELECTED = (
    "A group is selected if its noisy sums, weighted by the rounds, exceed {threshold:g}{early}. One that only one unit"
    " sampled has at most weight 1, so that its own noise would have to be large; the probability that this happens to any of"
    " the unit's groups is at most {infinity:.3g}, which is part of delta."
)
