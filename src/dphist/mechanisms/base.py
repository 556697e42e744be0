"""The seam of mechanisms: what each of them can do. Planning, publishing, charging, verifying, reporting and auditing call it.

`Mechanism` is what all share: a proved profile and an event to add up. `GroupMechanism` noises the counts of groups, for a
release; it also says which requests it serves, what it draws on other aggregates, and how it is described and stored. A new
one is a file here and a line in `mechanisms/__init__.py`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dphist import checks
from dphist.aggregates.measures import Measure, NoisyMeasure, squared_sensitivity
from dphist.checks import proved
from dphist.errors import Infeasible, InvalidParameter
from dphist.files import stored
from dphist.mechanisms.conditional import Estimates, Noise, estimate_given_release
from dphist.mechanisms.counts import CountNoise
from dphist.mechanisms.tuning import Tuning
from dphist.noise import RoundedGaussian, delta_surcharge, sample
from dphist.noise.laws import Law
from dphist.privacy import sparse_gaussian as gshm
from dphist.privacy.events import ApproximateEvent, Event, ProfileEvent, PureEvent
from dphist.privacy.search import edge
from dphist.privacy.special import ndtr, ndtri
from dphist.words import enough, number

if TYPE_CHECKING:
    from dphist.planning.choices import Objective
    from dphist.planning.request import Request

Integers: TypeAlias = NDArray[np.int64]
Floats: TypeAlias = NDArray[np.float64]
Fact: TypeAlias = tuple[str, str]
Builder: TypeAlias = Callable[[], "GroupMechanism"]

MOST_DRAWS: Final = 1 + 16 + 1 + 1
"""The most draws for one group: its count, up to 16 aggregates, and, in one group more than in the others, a total and the
bucket of the histogram from which a mechanism is chosen."""

SAMPLER_ERROR: Final = Fraction(1, 2**110)
"""A bound on the error of all `MOST_DRAWS` draws for one group. A test holds `noise.sampler_error` of the laws to its share.

A total and a choice have an epsilon of their own, so theirs counts with 1 + e^that, less than what it is added to.
"""

TREE_DRAW_ERROR: Final = Fraction(1, 2**116)
"""A bound on the error of each draw for the tree of a quantile. There may be hundreds for one group, so they are counted by
themselves: a request leaves `tree_surcharge` of its delta to them. The same test holds the laws to it."""

MOST_LATTICE_BITS: Final = 40
MOST_CORRELATION: Final = 1e6
LEAST_CORRELATION: Final = 1e-300
"""Below it 1/correlation, which formulas have, is no double."""

LARGEST_EPSILON: Final = 30.0
"""What the sampler's error adds to delta grows with e^epsilon. A delta at 30 holds for every larger epsilon too."""

LARGEST_COUNT: Final = 2**40
"""A public limit on the units of one group: with up to 20 lattice bits and any noise a plan can have, int64 is enough."""

UP: Final = 1 + 2.0**-48
"""Past the rounding of a few floating-point operations and of a sum of sixteen weights."""

COST_UP: Final = 1 + 1e-11
"""The same for costs: plans are checked with a slack of 1e-12."""

OBJECTIVE_WEIGHTS: Final = {"release95": gshm.Z95, "gap": 0.0, "noise": math.inf}

_FRACTION: Final = re.compile(r"[0-9]{1,1000}(/[0-9]{1,1000})?", re.ASCII)


def _fraction(text: Any) -> Fraction:
    """Whole numbers alone: a power of ten in a few letters (1e999999999) would fill the memory."""
    if not isinstance(text, str) or _FRACTION.fullmatch(text) is None:
        raise InvalidParameter("a fraction of whole numbers", "something else")
    return Fraction(text)


Exact: TypeAlias = Annotated[Fraction, stored.StoredAs(_fraction)]
"""A fraction, written as one of whole numbers."""


@dataclass(frozen=True, slots=True)
class Kept:
    """The positions of released groups and their noisy counts, in steps of 2^-lattice_bits. Holds no true count."""

    index: Integers
    noisy: Integers
    lattice_bits: int

    @property
    def counts(self) -> Floats:
        """The noisy counts as numbers; exact below 2^53 steps."""
        return np.ldexp(self.noisy.astype(np.float64), -self.lattice_bits)


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

    in_rounds: ClassVar[bool] = False
    """Whether it needs the pairs of units and groups, several times, instead of one bounded histogram."""

    splits_epsilon: ClassVar[bool] = False
    """Whether parts of the budget are shares of epsilon; else of the square of a Gaussian parameter."""

    @property
    def rounds(self) -> int:
        """How many times it looks at them."""
        return 1

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
            """Of all the noise on one count."""

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
            """Of each group's own noise, where some noise is shared."""

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

    def draw_shared(self) -> int:
        """The noise that all groups share, in lattice steps: once per release. 0 where there is none."""
        return 0

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
        """The laws of all the noise on one count."""
        raise NotImplementedError

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
        """What a choice minimises. Without a threshold only the noise is left to compare."""
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
        """Why each of its steps is private, where it is in rounds."""
        raise NotImplementedError

    @property
    def bound_in_words(self) -> str:
        """The bound on the groups of a unit, in two words."""
        return f"max_groups {self.max_groups}"

    def share_lost(self, size: float) -> float:
        """The expected share of groups of this size that are not released."""
        return 1 - self.release_probability(size)

    # How it fits.

    def misfits(self, request: Request) -> list[str]:
        """Why this is not what the request paid for; empty if it is."""
        problems = []
        if self.in_rounds != request.unbounded:
            problems.append("the groups of a unit are not bounded, or are where they need not be")
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
        return problems if self.covers(request.measures) else [*problems, "the aggregates are not paid for"]

    def with_groups(self, max_groups: int) -> GroupMechanism | None:
        """The same noise and threshold for another bound on a unit's groups, where that is possible."""
        return None

    def with_noise(self, request: Request) -> GroupMechanism:
        """The same kind of mechanism for a request with another noise_std."""
        return next(iter(self.for_request(request)))()


@dataclass(frozen=True, slots=True)
class Listed:
    """The positions of the groups of a list, their noisy counts (None for a list without), and whether it has all of k.

    cut_off is the noisy number that they exceed, which the guarantee allows to publish; None where there is none.
    """

    index: Integers
    counts: NDArray[Any] | None
    complete: bool
    cut_off: float | None = None


class ListMechanism(Mechanism):
    """A mechanism on the largest groups alone, largest first; one unit may be in any number of groups unless max_groups says
    otherwise."""

    __slots__ = ()
    method: ClassVar[str]

    if TYPE_CHECKING:

        @property
        def lattice_bits(self) -> int:
            """Noisy counts are multiples of 2^-lattice_bits."""

        @property
        def noise_std(self) -> float | None:
            """Of all the noise on one count; None for a list without counts."""

        @property
        def max_groups(self) -> int | None:
            """The bound on the groups of a unit that an engine has to keep."""

        @property
        def length(self) -> int:
            """The most groups of a list."""

    @property
    def needed(self) -> int:
        """How many of the largest groups the source has to give: the one behind the last is needed too."""
        return self.length + 1

    def listed(self, largest: Integers, k: int) -> Listed:
        """The private list from the `needed` largest counts, largest first."""
        raise NotImplementedError

    def given_cut_off(self, noisy: Floats, cut_off: Floats | float) -> Estimates:
        """Counts and standard errors of listed groups, given that each is listed, from noisy counts above a cut-off."""
        raise NotImplementedError

    def facts(self, k: int) -> list[Fact]:
        """Noise and threshold, or the choices, in words."""
        raise NotImplementedError


def counted_list(kept: Kept, k: int, cut_off: int) -> Listed:
    """A list with noisy counts above a cut-off, both in steps: whole numbers where the noise is whole."""
    counts = kept.noisy if kept.lattice_bits == 0 else kept.counts
    return Listed(kept.index, counts, len(kept.index) == k, math.ldexp(cut_off, -kept.lattice_bits))


def counted_facts(k: int, parts: Fact, noise_std: float, threshold: float, excess: float) -> list[Fact]:
    """What a list with noisy counts is told with."""
    base = f"the {k + 1:,}-th largest count"
    return [
        ("k", f"at most {k:,} groups; a larger k compares with a smaller {base[4:]}, under more noise"),
        parts,
        ("noise", f"std {number(noise_std)} on every count; 95 % of them within ±{number(1.96 * noise_std)}"),
        (
            "threshold",
            f"a group is released when its noisy count exceeds {base} by {number(threshold)}, that count being"
            f" noisy too: with probability 95 % when it is {number(excess)} larger",
        ),
    ]


def target_delta(request: Request) -> float:
    """What is left of delta when a mechanism adds its sampler's own error."""
    counters = max(request.groups_per_unit, request.bounded_groups or 1)
    target = request.mechanism_delta * (1 - 1e-12) - sampler_surcharge(request.mechanism_epsilon, counters)
    if target <= 0:
        raise Infeasible(
            "a delta above the error of the noise sampler", f"{request.delta:g}", "nobody needs so small a delta."
        )
    return target


def add_noise(counts: Integers, law: Law, lattice_bits: int, shared: int = 0) -> Integers:
    """count + noise (+ a noise that all share), in lattice steps. Counts are saturated at the public limit first."""
    noisy = np.minimum(counts, LARGEST_COUNT) << lattice_bits
    noisy += sample(law, len(counts))
    noisy += shared
    return noisy


def above(noisy: Integers, eligible: Integers, threshold: float, lattice_bits: int) -> Kept:
    """Those strictly above a threshold that lies on the lattice: with lattice noise, >= would be a leak."""
    passed = noisy > int(threshold * 2**lattice_bits)
    return Kept(eligible[passed], noisy[passed], lattice_bits)


def enforce_sparsity(counts: Integers, sparsity: int) -> Integers:
    """Subtract the (sparsity + 1)-th largest count from all and cut at 0: at most `sparsity` stay positive.

    Lemma 4.1 of [LR25]: the result moves by a 0/1 vector or its negative when one unit comes or goes, in up to `sparsity`
    places, whatever order equal counts stand in.
    """
    if len(counts) <= sparsity:
        return counts
    place = len(counts) - sparsity - 1
    return np.asarray(np.maximum(counts - np.partition(counts, place)[place], 0))


def shared_noise(independent_std: float, correlation: float, lattice_bits: int) -> int:
    """One draw of N(0, correlation * independent_std^2) on the lattice; 0 without correlation.

    The double nearest to sqrt(correlation) * independent_std stands for the shared noise: its square is off by at most
    a few 1e-16, which the rounding allowance of the profile covers.
    """
    law = common_law(independent_std, correlation, lattice_bits)
    return 0 if law is None else int(sample(law, 1)[0])


def common_law(independent_std: float, correlation: float, lattice_bits: int) -> RoundedGaussian | None:
    """The law of the noise that all groups share; None without correlation."""
    return RoundedGaussian(Fraction(math.sqrt(correlation) * independent_std), lattice_bits) if correlation else None


def with_sampler_error(delta_at: Callable[[float], float], epsilon: float, changed_counters: int) -> float:
    """delta_at(epsilon) plus what the sampler's distance from its law can add to it; at most 1.

    Rounded up, past the sums and products in which a delta is put together.
    """
    capped = min(epsilon, LARGEST_EPSILON)
    return min(1.0, (delta_at(capped) + sampler_surcharge(capped, changed_counters)) * (1 + 2.0**-49))


@proved("composition.md#lemma-2")
@lru_cache(maxsize=256)
def sampler_surcharge(epsilon: float, changed_counters: int) -> float:
    """What is added to delta for the sampler, at an epsilon of at most `LARGEST_EPSILON`.

    Kept, since a profile is asked at one epsilon again and again, and an enclosure of e^epsilon takes longer than the rest.
    """
    return delta_surcharge(epsilon, changed_counters, SAMPLER_ERROR)


@proved("composition.md#lemma-2")
def error_of_draws(changed_counters: int, each: Fraction = SAMPLER_ERROR) -> float:
    """How far the laws drawn are from their ideals: `each` per counter that one unit changes, and one that all share."""
    return round_up((changed_counters + 1) * each)


@proved("composition.md#lemma-2")
def tree_surcharge(epsilon: float, draws: int) -> float:
    """What is added to delta for the sampler of so many draws of trees, which one unit can change; 0 without any."""
    return delta_surcharge(min(epsilon, LARGEST_EPSILON), draws, TREE_DRAW_ERROR) if draws else 0.0


def next_double(value: float) -> float:
    """The next double, whose decimal is above this one's value; 0 is exact."""
    return math.nextafter(value, math.inf) if value else 0.0


def counter_event(epsilon: float) -> Event:
    """Discrete Laplace noise on one counter, such as a noisy total: a pure epsilon and the sampler's error."""
    return ApproximateEvent(PureEvent(epsilon), 0.0, error_of_draws(1))


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


def round_up_to_lattice(value: float, lattice_bits: int) -> float:
    """The smallest multiple of 2^-lattice_bits that is not below value; exact in a double up to 2^53 steps."""
    return _on_lattice(math.ceil(Fraction(value) * 2**lattice_bits), lattice_bits, value)


def round_down_to_lattice(value: float | Fraction, lattice_bits: int) -> float:
    """The largest multiple of 2^-lattice_bits that is not above value: for a threshold that is fixed already."""
    return _on_lattice(math.floor(Fraction(value) * 2**lattice_bits), lattice_bits, value)


def _on_lattice(steps: int, lattice_bits: int, value: float | Fraction) -> float:
    if abs(steps) > 2**53:
        most = f"a threshold of at most 2^{53 - lattice_bits} on this lattice"
        raise InvalidParameter(most, f"{float(value):g}", "a coarser lattice")
    return math.ldexp(steps, -lattice_bits)


def round_up(value: Fraction | int) -> float:
    """The smallest double that is not below an exact value."""
    nearest = float(value)
    return nearest if Fraction(nearest) >= value else math.nextafter(nearest, math.inf)


def check_threshold(threshold: float, low_threshold: int, lattice_bits: int) -> None:
    """A threshold not below low_threshold, on a lattice that divides a half."""
    checks.check_positive("threshold", threshold)
    check_lattice(lattice_bits)
    if threshold < low_threshold:
        raise InvalidParameter(f"a threshold of at least low_threshold = {low_threshold}", threshold)
    if round_up_to_lattice(threshold, lattice_bits) != threshold:
        raise InvalidParameter(f"a threshold that is a multiple of 2^-{lattice_bits}", threshold, "round it up.")


def check_lattice(lattice_bits: int) -> None:
    """A lattice that divides a half and leaves room for counts in 64 bits."""
    checks.check_whole("lattice_bits", lattice_bits)
    if lattice_bits > MOST_LATTICE_BITS:
        raise InvalidParameter(f"lattice_bits of at most {MOST_LATTICE_BITS}", lattice_bits)


def check_correlation(correlation: float) -> None:
    """A correlation >= 0 that is not absurd."""
    checks.check_not_negative("correlation", correlation)
    if correlation > MOST_CORRELATION:
        raise InvalidParameter(f"a correlation of at most {MOST_CORRELATION:g}", correlation)
    if 0 < correlation < LEAST_CORRELATION:
        raise InvalidParameter(f"a correlation of 0, or of at least {LEAST_CORRELATION:g}", correlation)


def in_at_most(max_groups: int) -> str:
    """The bound on a unit's groups in words."""
    groups = "one group" if max_groups == 1 else f"{max_groups:,} groups"
    return f"each unit is counted in at most {groups}, once in each (a release enforces it)"


def at_most_non_empty(sparsity: int) -> str:
    """The bound on non-empty groups in words."""
    return (
        f"at most {sparsity:,} groups are non-empty in any data set (a release enforces it by subtracting the next largest"
        " count)"
    )


def _plain(value: object) -> object:
    """A parameter as JSON has it."""
    if isinstance(value, Tuning | CountNoise):
        return asdict(value)
    return str(value) if isinstance(value, Fraction) else value
