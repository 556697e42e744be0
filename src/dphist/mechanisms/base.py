"""The seam of mechanisms: what each of them can do. Planning, publishing, charging, verifying, reporting and auditing call it.

`Mechanism` is what all share: a proved profile and an event to add up. `GroupMechanism` noises the counts of groups, for a
release; it also says which requests it serves, what it draws on other aggregates, and how it is described and stored. A new
one is a file here and a line in `mechanisms/__init__.py`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, fields, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final, Self, TypeAlias

import numpy as np

from dphist.aggregates.measures import Measure
from dphist.aggregates.noisy_sums import NoisyMeasure, squared_sensitivity
from dphist.errors import Infeasible, InvalidParameter
from dphist.files import stored
from dphist.mechanisms.conditional import CountLaw, Estimates, Noise, estimate_given_release
from dphist.mechanisms.counts import CountNoise
from dphist.mechanisms.lattice import Floats, Integers, Kept, above, add_noise, enforce_sparsity
from dphist.mechanisms.surcharge import UP, next_double
from dphist.mechanisms.tuning import Tuning
from dphist.noise import RoundedGaussian, sample
from dphist.noise.laws import Law
from dphist.privacy import sparse_gaussian as gshm
from dphist.privacy.events import Event, ProfileEvent
from dphist.privacy.search import edge
from dphist.privacy.special import ndtr, ndtri
from dphist.words import enough, number

if TYPE_CHECKING:
    from dphist.planning.choices import Objective
    from dphist.planning.request import Request

Fact: TypeAlias = tuple[str, str]
Builder: TypeAlias = Callable[[], "GroupMechanism"]

OBJECTIVE_WEIGHTS: Final = {"release95": gshm.Z95, "gap": 0.0, "noise": math.inf}

_FRACTION: Final = re.compile(r"[0-9]{1,1000}(/[0-9]{1,1000})?", re.ASCII)


def _fraction(text: Any) -> Fraction:
    """Whole numbers alone: a power of ten in a few letters (1e999999999) would fill the memory."""
    if not isinstance(text, str) or _FRACTION.fullmatch(text) is None:
        raise InvalidParameter("a fraction of whole numbers", "something else")
    return Fraction(text)


Exact: TypeAlias = Annotated[Fraction, stored.StoredAs(_fraction)]
"""A fraction, written as one of whole numbers."""


class Mechanism:
    """What every mechanism has: a name, a theorem with its assumption about the data, a proved profile, an event."""

    __slots__ = ()
    name: ClassVar[str]

    if TYPE_CHECKING:

        @property
        def theorem(self) -> str:
            """Where the analysis is stated."""

        @property
        def assumption(self) -> str:
            """What must hold for the data, and who sees to it."""

    def delta(self, epsilon: float) -> float:
        """The trusted forward map: an upper bound on delta at epsilon, the sampler's own error included."""
        raise NotImplementedError

    def event(self, epsilon: float) -> ProfileEvent:
        """What one run spends, its own profile read at `epsilon`. docs/composition.md has the table and the proofs.

        A ledger reads epsilon and delta as the shortest decimal that names the double, which may lie to either side of it. So
        delta is that at the double below epsilon, and one double larger than computed.
        """
        delta = self.delta(epsilon)
        for_decimal = next_double(max(delta, self.delta(math.nextafter(epsilon, 0.0))))
        return ProfileEvent(epsilon, min(for_decimal, 1.0), delta, self.noise_event)

    @property
    def noise_event(self) -> Event | None:
        """What the noise is; None if nothing is known but the profile."""
        return None

    def with_budget(self, epsilon: float, delta: float) -> Mechanism:
        """The same kind of mechanism, calibrated for another budget."""
        raise NotImplementedError

    def parameters(self) -> dict[str, Any]:
        """The parameters by their names."""
        values: Any = self
        return asdict(values)

    def to_data(self) -> dict[str, Any]:
        """The parameters as JSON has them, with the name; numbers are read back to the same bits."""
        values: Any = self
        return {"name": self.name, **{f.name: _plain(getattr(self, f.name)) for f in fields(values)}}

    @classmethod
    def from_data(cls, data: Mapping[str, Any], source: str = "a mechanism") -> Self:
        """The inverse of `to_data`, strict about types; the constructor checks the parameters. The name may be left out."""
        if data.get("name", cls.name) != cls.name:
            raise InvalidParameter(f"the mechanism {cls.name} in {source}", "another one")
        return stored.build(cls, {name: value for name, value in data.items() if name != "name"}, source)

    def proved_delta(self, epsilon: float) -> float:
        """`delta` of parameters that anyone may have written: 1, which proves nothing, where doubles cannot compute it."""
        try:
            with np.errstate(all="ignore"):
                delta = self.delta(epsilon)
        except (ArithmeticError, ValueError):
            return 1.0
        return delta if delta >= 0 else 1.0


class GroupMechanism(Mechanism):
    """A mechanism on the counts of groups, as a plan may choose it.

    threshold, low_threshold, gap and `delta_infinity` are None where no group is hidden; sparsity where the number of non-empty
    groups is not bounded; independent_std and correlation where no noise is shared.
    """

    __slots__ = ()

    strategies: ClassVar[frozenset[str]] = frozenset({"one pass"})
    """The roads of a release that it serves."""

    in_rounds: ClassVar[bool] = False
    """Whether it needs the pairs of units and groups, several times, instead of one bounded histogram."""

    splits_epsilon: ClassVar[bool] = False
    """Whether parts of the budget are shares of epsilon; else of the square of a Gaussian parameter."""

    @property
    def rounds(self) -> int:
        """How many times it looks at them."""
        return 1

    @property
    def rounds_with_sums(self) -> int:
        """In how many of these it publishes a noisy sum of each group, which says how large the group is."""
        return 0

    @property
    def counted(self) -> bool:
        """Whether released groups have counts; else there is no noise_std, and keys alone are published."""
        return True

    if TYPE_CHECKING:

        @property
        def analysis(self) -> str:
            """Which of several analyses proves the profile."""

        @property
        def max_groups(self) -> int:
            """How many groups one unit moves."""

        @property
        def noise_std(self) -> float:
            """The standard deviation of all the noise on one count."""

        @property
        def lattice_bits(self) -> int:
            """Noisy counts are multiples of 2^-lattice_bits."""

        @property
        def threshold(self) -> float | None:
            """Groups are released strictly above it."""

        @property
        def low_threshold(self) -> int | None:
            """Groups with fewer units are dropped before noise is drawn."""

        @property
        def sparsity(self) -> int | None:
            """How many groups may be non-empty; a release enforces it."""

        @property
        def independent_std(self) -> float | None:
            """The standard deviation of each group's own noise, where some noise is shared."""

        @property
        def correlation(self) -> float | None:
            """Variance of the shared noise relative to each group's own."""

        @property
        def size_in_words(self) -> str:
            """Which units of a group `share_lost` asks for, where keys alone can be published."""

        @property
        def selection_in_words(self) -> str:
            """How keys are selected before they are counted, of a mechanism in rounds."""

        @property
        def counts(self) -> CountNoise | None:
            """The noise on counts of selected keys, of a mechanism in rounds; None if keys alone are published."""

        @property
        def tuning(self) -> Tuning:
            """The constants of selecting and counting, of a mechanism in rounds."""

        @property
        def sums_sensitivity(self) -> float:
            """How far one unit moves the other aggregates of one group, in units of their noise."""

    @classmethod
    def for_request(cls, request: Request) -> Iterator[Builder]:
        """Calibrated candidates for a request; each may raise `Infeasible` when it is built. None where it does not fit."""
        raise NotImplementedError

    # What is proved.

    def delta_noise(self, epsilon: float) -> float:
        """The part of delta that the noise has without any threshold."""
        raise NotImplementedError

    def delta_infinity(self) -> float | None:
        """The probability that a group of one unit is released."""
        return None

    @property
    def gap(self) -> float | None:
        """threshold - low_threshold: how far the noise must lift a new group."""
        return None if self.threshold is None or self.low_threshold is None else self.threshold - self.low_threshold

    # What is drawn.

    def perturb(self, counts: Integers) -> Kept:
        """Noise and threshold for all groups at once."""
        sparse = counts if self.sparsity is None else enforce_sparsity(counts, self.sparsity)
        return self.perturb_part(sparse, self.draw_shared())

    if TYPE_CHECKING:

        @property
        def law(self) -> CountLaw:
            """The law of each group's own noise on its count, in lattice steps."""

    @property
    def common(self) -> CountLaw | None:
        """The law of the noise that all groups share, in lattice steps; None where there is none."""
        return None

    def draw_shared(self) -> int:
        """The noise that all groups share: once per release. 0 where there is none."""
        law = self.common
        return 0 if law is None else int(sample(law, 1)[0])

    def perturb_part(self, counts: Integers, shared: int) -> Kept:
        """Own noise and threshold for some of the groups, whose sparsity has been enforced, around the shared noise.

        Each group's noise and threshold are its own affair, so the law does not depend on how the groups are divided.
        """
        raise NotImplementedError

    def aggregate_law(self, aggregate: Measure) -> Law:
        """The law of the noise on the recentred sum of an aggregate in one group, in steps.

        Gaussian budgets add up in squares: noise/sensitivity = noise_std of the count/sqrt(weight), rounded up; a tree shares
        its weight among its draws.
        """
        std = self.noise_std * aggregate.sensitivity / math.sqrt(aggregate.weight / aggregate.draws) * UP
        return RoundedGaussian(Fraction(std) / Fraction(aggregate.step), 0)

    def perturb_sums(self, steps: Integers, law: Law) -> Integers:
        """Noise of a law of `aggregate_law` on recentred sums in steps, which are at most 2^61 in size."""
        return steps + sample(law, len(steps))

    def noisy(self, aggregates: Sequence[Measure]) -> tuple[NoisyMeasure, ...]:
        """Every aggregate with its noise: the budget is split by the weights."""
        return tuple(NoisyMeasure(aggregate, self.aggregate_law(aggregate)) for aggregate in aggregates)

    def covers(self, aggregates: Sequence[Measure]) -> bool:
        """Whether the profile accounts for the noise that is drawn on the aggregates. Exact."""
        if not self.counted:
            return not aggregates
        return Fraction(self.sums_sensitivity) ** 2 >= squared_sensitivity(self.noisy(aggregates))

    # What a reader is told.

    @property
    def hides_small_counts(self) -> bool:
        """Whether a count is published because its noisy value passed the threshold: it is then estimated given that."""
        return self.threshold is not None and not self.in_rounds

    def count_noise(self) -> Noise:
        """The laws of all the noise on one count: the common noise is part of the law of each count by itself."""
        common = self.common
        laws = (self.law,) if common is None else (self.law, common)
        return Noise(laws, self.lattice_bits, self.noise_std)

    def given_release(self, noisy: Floats, level: float | None = None) -> Estimates:
        """Counts, standard errors and bounds from noisy counts above the threshold, given the release of each by itself.

        Noise that all groups share is part of each one's own law.
        """
        assert self.threshold is not None
        least = self.low_threshold or 1
        return estimate_given_release(noisy, self.threshold, self.count_noise(), least=least, level=level)

    def half_width(self, noises: Sequence[Floats], level: float) -> Floats:
        """How far a value with these independent noises, told by their stds, is from the truth with this probability."""
        return np.asarray(np.sqrt(sum(noise**2 for noise in noises)) * float(ndtri(0.5 + level / 2)))

    def noise_quantile(self, probability: float) -> float:
        """The quantile of the noise on one count; by the normal law where that is close to it."""
        return self.noise_std * float(ndtri(probability))

    def release_probability(self, count: float) -> float:
        """The probability that a group with this many units is released; by the normal law where that is close to it."""
        if self.threshold is None:
            return 1.0
        low = self.low_threshold or 1
        return float(ndtr((count - self._halfway) / self.noise_std)) if count >= low else 0.0

    def count_released_with(self, probability: float) -> float:
        """The number of units at which a group is released with this probability; 0 if all are."""
        if self.threshold is None:
            return 0.0
        return max(self._halfway + self.noise_std * float(ndtri(probability)), self.low_threshold or 1)

    @property
    def _halfway(self) -> float:
        """The count that is released every other time."""
        assert self.threshold is not None
        return self.threshold

    def objective_value(self, objective: Objective) -> float:
        """The number that a choice of mechanisms minimises. Without a threshold only the noise is left to compare."""
        if self.gap is None or objective == "noise":
            return self.noise_std
        return self.gap if objective == "gap" else self.count_released_with(0.95)

    def predicted_releases(self, degrees: Floats, centres: Floats) -> float:
        """A number that grows with how many groups would be released: all contributions over the size that is released.

        degrees: how many units are in about `centres` groups. Exact for counts that fall like 1/rank, where it is the number
        of groups itself, up to a factor that all mechanisms share.
        """
        return float((degrees * np.minimum(centres, self.max_groups)).sum()) / self.count_released_with(0.5)

    def budget_split(self) -> dict[str, float] | None:
        """Shares of the budget that add up to 1, where it is split."""
        return None

    def facts(self) -> list[Fact]:
        """Noise and threshold in words."""
        noise = (
            f"std {number(self.noise_std)} on every count; 95 % of them within ±{number(self.noise_quantile(0.975))}"
        )
        if self.correlation and self.independent_std is not None:
            noise += (
                f" ({number(self.independent_std)} independent, the rest common to all groups,"
                f" correlation {number(self.correlation)})"
            )
        facts = [("noise", noise)]
        if self.threshold is not None and self.low_threshold is not None:
            half, most = (enough(self.count_released_with(probability)) for probability in (0.5, 0.95))
            words = f"a group is released when its noisy count exceeds {number(self.threshold)}: with probability 50 %"
            facts.append(("threshold", f"{words} at {half} units, 95 % at {most} units"))
            if self.low_threshold > 1:
                facts.append(("", f"groups of fewer than {self.low_threshold:,} units are dropped first"))
        return facts

    def steps(self) -> list[Fact]:
        """Why each of its own steps is private: none, where one bounded histogram is all it needs."""
        return []

    @property
    def bound_in_words(self) -> str:
        """The bound on the groups of a unit, in two words."""
        return f"max_groups {self.max_groups}"

    @property
    def shown_in_words(self) -> str:
        """From which sizes on groups are shown, before any data."""
        half, most = (enough(self.count_released_with(probability)) for probability in (0.5, 0.95))
        alone = " that are in no other" if self.in_rounds else ""
        return f"one of {half} units{alone} is shown with 50 % probability, one of {most} with 95 %"

    def sure_size(self, groups: int) -> float:
        """A group of so many units, each in at most so many of the groups, is lost at most about once in ten thousand.

        Bounded counts are of all its units, as long as none is in more groups than it may be counted in.
        """
        return self.count_released_with(0.9999)

    def share_lost(self, size: float) -> float:
        """The expected share of groups of this size that are not released."""
        return 1 - self.release_probability(size)

    # How it fits.

    def misfits(self, request: Request) -> list[str]:
        """Why this is not what the request paid for; empty if it is."""
        problems = []
        if self.strategies.isdisjoint(request.strategies):
            bounding = "the groups of a unit are not bounded, or are where they need not be"
            same = self.in_rounds == (request.bound is None)
            problems.append("it serves requests of another kind" if same else bounding)
        delta = self.proved_delta(request.mechanism_epsilon)
        if not delta <= request.mechanism_delta:
            problems.append(f"delta({request.mechanism_epsilon:g}) = {delta:.6g} exceeds {request.mechanism_delta:g}")
        if self.counted == request.keys_only:
            problems.append("counts are published where keys alone are asked for, or are missing")
        if (self.threshold is None) == request.thresholded:
            problems.append("a threshold is missing, or there is one that the request does not ask for")
        if self.sparsity is not None and request.keys is None:
            if self.max_groups != self.sparsity or self.sparsity != request.bounded_groups:
                problems.append("the sparsity bound differs, or max_groups is used without a public list of keys")
        elif not self.in_rounds and self.max_groups != request.groups_per_unit:
            problems.append("max_groups differs from the request")
        if self.sparsity is not None and request.keys is not None and self.sparsity != request.keys:
            problems.append("the number of public keys differs")
        if self.low_threshold is not None and self.low_threshold != request.low_threshold:
            problems.append("low_threshold differs from the request")
        if request.keep_above is not None and not self.sure_size(request.kept_in) <= request.keep_above:
            problems.append(f"groups of {request.keep_above:,} units may be missing")
        return problems if self.covers(request.measures) else [*problems, "the aggregates are not paid for"]

    def with_groups(self, max_groups: int) -> GroupMechanism | None:
        """The same noise and threshold for another bound on a unit's groups, where that is possible."""
        return None

    def with_noise(self, request: Request) -> GroupMechanism:
        """The same kind of mechanism for a request with another noise_std."""
        return next(iter(self.for_request(request)))()


class ThresholdMechanism(GroupMechanism):
    """Noise on every count of at least low_threshold; a noisy count strictly above the threshold is released."""

    __slots__ = ()

    if TYPE_CHECKING:

        @property
        def threshold(self) -> float:
            """Groups are released strictly above it."""

        @property
        def low_threshold(self) -> int:
            """Groups with fewer units are dropped before noise is drawn."""

        def delta_infinity(self) -> float:
            """The probability that a group of one unit is released."""

    @property
    def gap(self) -> float:
        """threshold - low_threshold."""
        return self.threshold - self.low_threshold

    @property
    def assumption(self) -> str:
        """What must hold for the data."""
        if self.sparsity is None:
            return in_at_most(self.max_groups)
        if self.max_groups < self.sparsity:
            return (
                f"every key is one of a public list of {self.sparsity:,}, and each unit is counted in at most"
                f" {self.max_groups:,} groups (a release enforces both)"
            )
        return (
            f"at most {self.sparsity:,} groups are non-empty in any data set (a release enforces it by subtracting the"
            " next largest count)"
        )

    def perturb_part(self, counts: Integers, shared: int) -> Kept:
        """Noise every count of at least low_threshold and keep the noisy counts strictly above the threshold."""
        eligible = np.flatnonzero(counts >= self.low_threshold)
        noisy = add_noise(counts[eligible], self.law, self.lattice_bits, shared)
        return above(noisy, eligible, self.threshold, self.lattice_bits)

    def with_groups(self, max_groups: int) -> GroupMechanism | None:
        """The same noise and threshold for another bound on a unit's groups; None under a bound on non-empty groups."""
        this: Any = self
        changed: GroupMechanism | None = replace(this, max_groups=max_groups) if self.sparsity is None else None
        return changed


def epsilon_at(mechanism: Mechanism, delta: float) -> float:
    """The smallest epsilon >= 0 at which the mechanism's delta is at most `delta`.

    Args:
        mechanism: one that is calibrated, or chosen by hand.
        delta: the probability of failure that is allowed.

    Returns:
        That epsilon, rounded up.

    Raises:
        Infeasible: no epsilon meets it.

    Example:
        >>> mechanism = dp.SparseGaussian(max_groups=10, noise_std=16.25, threshold=99.0)
        >>> 0.9 < dp.epsilon_at(mechanism, 1e-8) < 1
        True
    """
    if mechanism.delta(0.0) <= delta:
        return 0.0
    enough = 1.0
    while mechanism.delta(enough) > delta:
        enough *= 2
        if enough > 600:
            raise Infeasible(
                "a delta that some epsilon below 600 meets",
                f"{delta:g}",
                "the probability that a group of one unit is released bounds delta from below; raise the gap.",
            )
    return edge(mechanism.delta, delta, enough, 0.0 if enough == 1.0 else enough / 2)


def in_at_most(max_groups: int) -> str:
    """The bound on a unit's groups in words."""
    groups = "one group" if max_groups == 1 else f"{max_groups:,} groups"
    return f"each unit is counted in at most {groups}, once in each (a release enforces it)"


def _plain(value: object) -> object:
    """A parameter as JSON has it."""
    if isinstance(value, Tuning | CountNoise):
        return asdict(value)
    return str(value) if isinstance(value, Fraction) else value
