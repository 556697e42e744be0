"""Mechanisms that are broken on purpose. The auditor that passes the product must catch every one of them.

Each is a claim of the product with one part replaced, or a real part replaced in an attack on the implementation; the code
that judges is the same. Nothing here is reachable from a release.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from dphist.audit import attacks, broken_parts, laws, ledger_attack, neighbours, trials, view
from dphist.audit.claim_parts import DELTA, EPSILON, MANY
from dphist.audit.contributions import Outcome, contributions
from dphist.audit.findings import Claim, Integers, Pair
from dphist.audit.locality import locality
from dphist.audit.trials import Layout
from dphist.engines.duckdb.engine import DuckDBEngine
from dphist.engines.memory import MemoryPairs
from dphist.engines.spark.engine import SparkEngine
from dphist.mechanisms import FromTop, Kept, LaplaceThreshold, SparseGaussian
from dphist.mechanisms.tuning import LATTICE_BITS, WEIGHT_BITS
from dphist.noise import DiscreteGaussian, Entropy, RoundedGaussian, TruncatedDiscreteLaplace
from dphist.planning import Plan, plan_for
from dphist.privacy import correlated_gaussian as csh
from dphist.privacy import ranked, truncated_laplace
from dphist.privacy.gaussian import delta_gaussian


@dataclass(frozen=True, slots=True, eq=False)
class Broken:
    """What is wrong, and how to attack it: a claim, or an attack on the implementation."""

    name: str
    wrong: str
    claim: Claim | None = None
    attack: Callable[[], Outcome] | None = None


def broken() -> list[Broken]:
    """All of them."""
    return [
        Broken("noise 10 % too small", "the noise of a sparse Gaussian has 0.9 of its std", quiet_noise(0.9)),
        Broken("threshold one too low", "a group is shown one below the threshold", low_threshold()),
        Broken("not strictly above", "a noisy count equal to a whole threshold is shown", not_strict()),
        Broken("ties by data order", "equal counts at the end of a list stand as the data has them", ties_by_data()),
        Broken("arbitrary rounding", "correlated noise on whole numbers, accounted for as if it were fine", rounding()),
        Broken(
            "discrete noise, continuous formula", "discrete noise of std 1 with the normal profile", discrete_noise()
        ),
        Broken("data-dependent q", "the range of truncated noise follows the number of records", moving_range()),
        Broken("the paper's unscaled threshold", "T of [Rogers24] Theorem 10 ignores max_per_group = 2", unscaled()),
        Broken(
            "adaptive weights not normalised", "a unit adds its weights as they are, in every round", unnormalised()
        ),
        Broken("no bounding", "a unit in 5 groups is counted in all of them where 2 are allowed", unbounded()),
        Broken("bounding lets one unit through", "one unit of a table is not bounded", attack=_one_through),
        Broken("row groups are skipped", "a file's largest value, which leaves NaN out, hides records", attack=_skips),
        Broken("types by all records", "keys are numbers or texts as all records together have them", attack=_guesses),
        Broken("noise in doubles", "count + a normal double, as it is", attack=_doubles),
        Broken("a seed used twice", "every release draws the same noise", attack=_one_seed),
        Broken("rows as they were read", "the table keeps the order of the engine", attack=_as_read),
        Broken("a ledger that forgets", "each release is charged to a copy of the ledger", attack=_forgetful),
        Broken("a dictionary goes along", "released keys point into a dictionary of all keys", attack=_dictionary),
    ]


def _one_through() -> Outcome:
    return contributions(broken_parts.OneThrough())


def _skips() -> Outcome:
    return locality(broken_parts.SkipsRowGroups())


def _guesses() -> Outcome:
    return locality(broken_parts.GuessesTypes())


def _doubles() -> Outcome:
    return attacks.low_order_bits(broken_parts.with_doubles)


def _one_seed() -> Outcome:
    return attacks.fresh_noise(broken_parts.with_one_seed)


def _as_read() -> Outcome:
    return attacks.order(broken_parts.as_read)


def _forgetful() -> Outcome:
    return ledger_attack.replay(broken_parts.charged_to_a_copy)


def _dictionary() -> Outcome:
    return attacks.support(broken_parts.with_dictionary)


# Sampled: the whole release with one part of the mechanism replaced


@dataclass(frozen=True, slots=True)
class Quiet(SparseGaussian):
    """Noise smaller than what is accounted for."""

    factor: float = 0.9

    def perturb(self, counts: Integers, entropy: Entropy | None = None) -> Kept:
        """Draw with less noise."""
        less = SparseGaussian(self.max_groups, self.noise_std * self.factor, self.threshold, self.low_threshold)
        return less.perturb(counts, entropy)


@dataclass(frozen=True, slots=True)
class Low(SparseGaussian):
    """A threshold lower than what is accounted for."""

    by: float = 1.0

    def perturb(self, counts: Integers, entropy: Entropy | None = None) -> Kept:
        """Show what is above a lower threshold."""
        lower = SparseGaussian(self.max_groups, self.noise_std, max(1.0, self.threshold - self.by), self.low_threshold)
        return lower.perturb(counts, entropy)


@dataclass(frozen=True, slots=True)
class NotStrict(LaplaceThreshold):
    """At least the threshold instead of above it."""

    def perturb(self, counts: Integers, entropy: Entropy | None = None) -> Kept:
        """Whole noise and a whole threshold: >= is > of one less."""
        return LaplaceThreshold(self.max_groups, self.scale, self.threshold - 1).perturb(counts, entropy)


def _sparse_plan() -> Plan:
    return plan_for(epsilon=EPSILON, delta=DELTA, max_groups=2, mechanism="sparse-gaussian")


def _released(
    plan: Plan,
    made: Any,
    layout: Layout,
    engine: DuckDBEngine | SparkEngine | None = None,
    runs: tuple[int, int] = MANY,
) -> Claim:
    """The claim of a plan, about releases that another mechanism or engine makes."""
    swapped = Plan(plan.request, made, plan.alternatives)
    run = trials.one_release(swapped, layout, engine=engine)
    return Claim(made.name, made.analysis, "release", plan.mechanism.delta, None, run, *runs)


def quiet_noise(factor: float, engine: SparkEngine | None = None, runs: tuple[int, int] = MANY) -> Claim:
    """Noise too small by a factor, on large groups."""
    plan = _sparse_plan()
    made: Any = plan.mechanism
    quiet = Quiet(made.max_groups, made.noise_std, made.threshold, lattice_bits=made.lattice_bits, factor=factor)
    return _released(plan, quiet, Layout(groups=2, base=9, moved=2), engine, runs)


def low_threshold(by: float = 1.0, engine: SparkEngine | None = None, runs: tuple[int, int] = MANY) -> Claim:
    """Groups of one unit are shown more often than delta says."""
    plan = _sparse_plan()
    made: Any = plan.mechanism
    return _released(
        plan,
        Low(made.max_groups, made.noise_std, made.threshold, lattice_bits=made.lattice_bits, by=by),
        Layout(2, 0, 2),
        engine,
        runs,
    )


def not_strict() -> Claim:
    """The same for Laplace noise."""
    plan = plan_for(epsilon=EPSILON, delta=DELTA, max_groups=2, mechanism="laplace")
    made: Any = plan.mechanism
    return _released(plan, NotStrict(made.max_groups, made.scale, made.threshold), Layout(2, 0, 2))


def unbounded() -> Claim:
    """A heavy unit is seen in all of its groups."""
    plan = _sparse_plan()
    return _released(plan, plan.mechanism, Layout(groups=5, base=9, moved=5), broken_parts.Unbounded())


class Unnormalised(MemoryPairs):
    """Weights are added up as they are: a unit in 8 groups has a norm of up to sqrt(8)."""

    def weighted_sums(self, weights: Integers) -> Integers:
        """No division by the unit's norm."""
        total = np.zeros(self.groups, np.int64)
        np.add.at(total, self.group, weights[self.group] << (LATTICE_BITS - WEIGHT_BITS))
        return total


def unnormalised() -> Claim:
    """The full view of a mechanism whose groups stay undecided, so that they keep their weight."""

    def tables(rows: Integers, groups: int, units: int) -> MemoryPairs:
        plain = view.pairs_of(rows, groups, units)
        return Unnormalised(plain.unit, plain.group, units, groups)

    made = view.loose(threshold=12.0)
    run = view.ratios(made, view.EVERYWHERE, tables)
    return Claim("adaptive", "rounds, Lemma 1", "the full view", made.delta_gauss, None, run, 20_000, 200_000)


# Exact: a law that does not fit its formula


def ties_by_data() -> Claim:
    """All counts are equal; in the order of the data one unit exchanges the whole list.

    What is looked at is whether any group of the first list is shown: never, if the other list stands in its place.
    """
    made = FromTop(100, 20.0, 80, max_groups=1)
    law = DiscreteGaussian(made.variance)
    x = np.arange(-laws.reach_of(law), laws.reach_of(law) + 1)
    below = np.cumsum(laws.masses(law, x))

    def pairs() -> Iterator[Pair]:
        # hidden: every Z_i <= T + Z_0, by the value of Z_0; beyond the window Z_i is surely below
        limits = np.clip(x + made.threshold, x[0], x[-1])
        hidden = float(laws.masses(law, x) @ below[limits - x[0]] ** made.most_groups)
        yield Pair("100 equal counts", np.array([1.0, 0.0]), np.array([hidden, 1 - hidden]))

    return Claim("from-top", "", "k = 100, max_groups = 1", made.delta, pairs)


def rounding() -> Claim:
    """g = 1: the common shift that hides a unit would have to be a whole number."""
    sparsity, std, correlation, gap = 3, 0.3, 1 / math.sqrt(3), 20.0

    def claimed(epsilon: float) -> float:
        return csh.delta(
            epsilon, sparsity=sparsity, max_groups=sparsity, independent_std=std, correlation=correlation, gap=gap
        )  # fmt: skip

    def pairs() -> Iterator[Pair]:
        own = RoundedGaussian(Fraction(std), 0)
        common = RoundedGaussian(Fraction(math.sqrt(correlation) * std), 0)
        for moved in (1, 2, 3):
            after = [60 + (i < moved) for i in range(3)]
            laws_of_both = laws.thresholded([60] * 3, after, own=own, common=common, threshold=21, low=1)
            yield Pair(f"{moved} of 3 large groups move", *laws_of_both)

    return Claim("correlated-gaussian", "tight", "sparsity 3, std 0.3, lattice of 1", claimed, pairs)


def discrete_noise() -> Claim:
    """One count, sensitivity 1, sigma = 1."""
    law = DiscreteGaussian(Fraction(1))

    def pairs() -> Iterator[Pair]:
        yield Pair("one count", *laws.thresholded([0], [1], own=law, common=None, threshold=neighbours.NOTHING, low=0))

    return Claim(
        "discrete-gaussian",
        "normal profile",
        "one count, std 1",
        lambda epsilon: float(delta_gaussian(1.0, epsilon)),
        pairs,
    )


def moving_range() -> Claim:
    """Three bars, q = a tenth of all records: one record more moves the noise of all of them.

    [BCDP22] Theorem 3 claims the profile of the one bar that changes.
    """
    before, after = (103, 103, 103), (104, 103, 103)
    ranges = [sum(counts) // 10 for counts in (before, after)]

    def pairs() -> Iterator[Pair]:
        sides = (
            laws.truncated(counts, TruncatedDiscreteLaplace(Fraction(1), q), max(after))
            for counts, q in zip((before, after), ranges, strict=True)
        )
        yield Pair("309 records and 310", *sides)

    def claimed(epsilon: float) -> float:
        return truncated_laplace.delta_profile(epsilon, epsilon=Fraction(1), q=min(ranges))

    return Claim("truncated-laplace", "data-dependent q", "three bars of 103", claimed, pairs)


def unscaled() -> Claim:
    """Groups that exist because of a unit with two records in each, T = 1 + ln(k/delta)/e."""
    e, delta, shortlist = 1.0, 1e-3, 2
    threshold = math.ceil(ranked.threshold_paper(delta, e, shortlist, 1))

    def pairs() -> Iterator[Pair]:
        law = laws.ranked_law({"A": 2, "B": 2}, threshold, e / 2, 1)
        first, second = laws.aligned(law, {("STOP",): 1.0})
        yield Pair("two new groups", second, first)

    def claimed(epsilon: float) -> float:
        noise = ranked.delta_of_symbols(e, 1, epsilon)
        return delta + (1 - delta) * noise

    return Claim("ranked", "Theorem 10 as printed", "max_per_group 2", claimed, pairs)
