"""The adaptive release attacked where its proof gives everything away: all rounds, the histogram of norms, counts and sums.

For groups that exist without the unit the best attack on that view is known. Given the same published past each part is
Gaussian, or Laplace, around sums that differ by a known vector, so the log of the likelihood ratio of each part is a known
number. Runs of the real code on both sides give one such number for each part; the sampled attack weighs them and does the
rest.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_ndtr, ndtr

from dphist.aggregates.noisy_sums import NoisyMeasure
from dphist.aggregates.total import SumOfUnit
from dphist.audit import voting
from dphist.audit.judge import Claim, Run, Trials
from dphist.audit.laws import NOTHING, Floats, Integers, Pair, joint, thresholded
from dphist.audit.trials import Scene, one_release
from dphist.engines.base import Engine
from dphist.engines.histogram import LocalGroups
from dphist.engines.memory import MemoryPairs
from dphist.mechanisms import AdaptiveGaussian, Voting
from dphist.mechanisms.counts import CountNoise, NoiseLaw, sum_shift
from dphist.mechanisms.lattice import round_up_to_lattice
from dphist.mechanisms.tuning import LATTICE_BITS, ONE, Tuning
from dphist.mechanisms.weights import accepted, next_weights
from dphist.noise import DiscreteLaplace, Law, RoundedGaussian
from dphist.planning import Plan, plan_for
from dphist.privacy import adaptive as theory
from dphist.privacy.gaussian import delta_gaussian
from dphist.run.choice import DEGREE_EDGES, noisy_degrees
from dphist.run.counting import CENTRES, Classes, Counting, NoisyCounts, count, noise_classes, noise_norms
from dphist.run.rounds import noise_round

Pairs = type[MemoryPairs]

GROUPS, UNITS = 8, 25
_OTHERS = np.array([(u, g) for u in range(UNITS - 1) for g in range(GROUPS) if (u * 5 + g * 3) % 7 < 3])

_TUNING = Tuning()

EVERYWHERE = tuple(range(GROUPS))
"""The unit under attack is in all of the 8 groups that 24 others share."""

IN_ONE = (0,)
"""It is in one of them, with its whole weight."""

SUM = SumOfUnit("value", 0.0, 1.0, weight=4.0)
"""A sum that gets most of the budget: what is wrong with it shows. The unit has the largest value, all others the smallest."""


def claims(engine: Engine | None, runs: tuple[int, int]) -> Iterator[Claim]:
    """Releases, also where the data chooses the law: which groups they show."""
    plan = plan_for(epsilon=1.0, delta=0.3, mechanism="adaptive")
    yield from selections(plan, plan.mechanism.delta, runs, Scene(1, 4, 1), engine=engine)
    keys = plan_for(epsilon=1.0, delta=0.3, mechanism="adaptive", keys_only=True)
    for claim in selections(keys, keys.mechanism.delta, runs, Scene(1, 4, 1), engine=engine):
        yield replace(claim, analysis="rounds, keys alone")
    chosen_keys = plan_for(epsilon=1.0, delta=0.3, keys_only=True)
    law = plan_for(epsilon=1.0, delta=0.3)
    for name, chosen, scenes in (
        ("of the law", law, (Scene(1, 0, 1), Scene(4, 0, 4))),
        ("of keys alone", chosen_keys, (Scene(1, 0, 1), Scene(1, 2, 1))),
    ):
        for claim in selections(chosen, whole_budget(chosen), runs, *scenes, engine=engine):
            yield replace(claim, mechanism="automatic choice", analysis=name)


def claims_of_view() -> Iterator[Claim]:
    """The selection of a group of one unit integrated; the full view; what the choice looks at, with its branch."""
    alone = loose(groups=1)
    yield Claim(
        "adaptive", "rounds, Lemma 2", "a group of one unit over all rounds, integrated", lambda _: alone.delta_infinity(),
        lambda: [alone_in_one_group(alone)],
    )  # fmt: skip
    mechanism = loose()
    for name, target in (("all groups", EVERYWHERE), ("one group", IN_ONE)):
        yield Claim(
            "adaptive", "rounds, Lemma 1", f"the full view, a unit in {name}", mechanism.delta_noise, None,
            views(mechanism, target), 12_000, 200_000,
        )  # fmt: skip
    yield from claims_of_counts()
    yield from claims_of_choice()


def claims_of_counts() -> Iterator[Claim]:
    """What counting publishes of public keys, under each law: a bucket, and all counts and sums of one unit."""
    for law, name in (("gaussian", "adaptive"), ("laplace", "voting")):
        noise = count_noise(law)  # type: ignore[arg-type]
        clear = replace(noise, histogram_noise=1.0)
        one = partial(delta_of_parts, noise, [clear.histogram_noise])
        yield Claim(
            name, f"{law} counts", "one bucket of the histogram of norms", one, None,
            partial(_one_more, partial(noisy_buckets, clear)), 20_000, 200_000,
        )  # fmt: skip
        for setting, target, bounds, light in (
            ("a unit of norm 1 in the first of two classes", IN_ONE, (1, 2), 1),
            ("a unit in 8 groups in the third of three classes", EVERYWHERE, (1, 4, 8), 2),
            ("a unit in 8 groups that is scaled down to a norm of 2", EVERYWHERE, (1, 2), 1),
        ):
            classes = Classes(tuple(bound * ONE**noise.power for bound in bounds), light, noise.power, light)
            yield Claim(
                name, f"{law} counts", f"counts and sums of {setting}", partial(delta_of_parts, noise, None), None,
                counts_of(noise, classes, target), 20_000, 200_000,
            )  # fmt: skip


def delta_of_parts(noise: CountNoise, parts: list[float] | None, epsilon: float) -> float:
    """The claim for noises over sensitivities, or for scaled count, class and sum: Gaussian, or pure epsilons."""
    if parts is None:
        parts = [noise.scaled_noise, noise.class_noise, 1 / noise.sums_sensitivity]
    if noise.law == "gaussian":
        return float(delta_gaussian(theory.gdp(parts), epsilon))
    pure = math.fsum(1 / scale for scale in parts)
    return max(0.0, -math.expm1(epsilon - pure) / (1 + math.exp(-pure)))


def selections(
    plan: Plan, claimed: Callable[[float], float], runs: tuple[int, int], *scenes: Scene, engine: Engine | None = None
) -> Iterator[Claim]:
    """Which groups a release shows: independent from run to run, since weights depend on a group's own sums alone."""
    for scene in scenes:
        kind = f"groups of {scene.base}" if scene.base else "new groups"
        setting = f"release, {kind}, a unit in {scene.moved}"
        run = one_release(plan, scene, engine, selection_only=True)
        yield Claim(plan.mechanism.name, plan.mechanism.analysis, setting, claimed, None, run, *runs)


def whole_budget(plan: Plan) -> Callable[[float], float]:
    """What is promised where the data chooses: delta at the epsilon of the plan and above, nothing below."""
    return lambda epsilon: plan.request.delta if epsilon >= plan.request.epsilon else 1.0


# The full view


def loose(threshold: float = 3.0, *, groups: int = GROUPS, std: float = 2.0) -> AdaptiveGaussian:
    """A mechanism with deltas so large that runs see them, and bars a little further out than its threshold; what its sums
    cost is what the noise that is accounted for costs.
    """
    tuning = Tuning(most_groups=groups)
    stds = tuple(std / share**0.5 for share in tuning.fractions)
    past = np.cumsum(tuning.fractions[:-1]) ** 0.5
    bars = tuple(round_up_to_lattice(float(bar), LATTICE_BITS) for bar in 1.25 * threshold * past)
    return AdaptiveGaussian(stds, threshold, count_noise("gaussian"), tuning, bars)


def count_noise(law: NoiseLaw) -> CountNoise:
    """Noise on counts that runs see through."""
    noise = CountNoise(law, 4.0, 2.5, 0.65)
    budget = SUM.weight if law == "laplace" else SUM.weight**0.5
    return replace(noise, sums_sensitivity=budget / noise.unit_noise * (1 + 1e-12))


def noisy_sum(noise: CountNoise) -> NoisyMeasure:
    """The sum with noise for its part of the budget."""
    of = loose() if noise.law == "gaussian" else Voting(1.0, 0.1, 3)
    return replace(of, counts=noise).noisy([SUM])[0]


def pairs_of(rows: Integers, groups: int, units: int, kind: Pairs = MemoryPairs) -> MemoryPairs:
    """Pairs (unit, group), all of them sampled, each with the steps of a sum."""
    unit, group = rows.astype(np.int32).T
    steps = np.where(unit % UNITS == UNITS - 1, 1, -1) * SUM.sensitivity_steps
    return kind.of_rows(unit.copy(), group.copy(), units, groups, steps={SUM.name: steps})


def views(mechanism: AdaptiveGaussian, target: tuple[int, ...], kind: Pairs = MemoryPairs) -> Run:
    """What n views on each side tell, part by part: disjoint copies of the same 8 groups in one run.

    What copies share is the choice of the norm that counting allows, a public number by then.
    """

    def run(n: int) -> Trials:
        without, truth, with_ = (_copies(target, 2 * n, first, kind) for first in (2 * n, n, 0))
        parts = View(mechanism, without, truth, with_).parts()
        return Trials(parts[:n], parts[n:])

    return run


def _copies(target: tuple[int, ...], copies: int, first: int, kind: Pairs) -> MemoryPairs:
    """Copies of the same groups and units; from copy `first` on the unit under attack is there."""
    attacked = np.array([(UNITS - 1, group) for group in target])
    size = np.array([UNITS, GROUPS])
    parts = [
        (np.arange(begin, copies)[:, None, None] * size + rows).reshape(-1, 2)
        for begin, rows in ((0, _OTHERS), (first, attacked))
    ]
    return pairs_of(np.concatenate(parts), copies * GROUPS, copies * UNITS, kind)


@dataclass(frozen=True, slots=True, eq=False)
class View:
    """One run on the true pairs, seen by who knows the pairs in which nobody is attacked and those in which everybody is."""

    mechanism: AdaptiveGaussian
    without: MemoryPairs
    truth: MemoryPairs
    with_: MemoryPairs

    def parts(self) -> Floats:
        """For each copy log P(part | with) - log P(part | without): the rounds, the selection, counts and sums; a bucket.

        Whatever is published of the rounds before the last is read off the totals; of the last round it is the selection.
        """
        mechanism, tuning = self.mechanism, self.mechanism.tuning
        groups, last = self.truth.first_round(), tuning.rounds - 1
        weights = np.full(len(groups.codes), ONE)
        loss = np.zeros(len(groups.codes) // GROUPS)
        for number, share in enumerate(tuning.round_shares[:last]):
            state = groups.each(noise_round(mechanism, number), ())
            totals = [state.columns[f"total_{place}"] for place in range(1, number + 2)]
            noisy = np.diff(totals, axis=0, prepend=0)[-1] // share
            loss += self._log_ratio(noisy, self._sums(weights), mechanism.round_stds[number])
            weights, groups = state.columns["weight"], self.truth.next_round(state)
        selected = groups.each(noise_round(mechanism, last), ())
        chosen, open_ = np.isin(groups.codes, selected.codes), ~accepted(mechanism, totals)
        choice = self._selection_ratio(totals[-1], chosen, open_, self._sums(weights))
        noise, noisy_sums = mechanism.counts, mechanism.noisy([SUM])
        assert noise is not None
        counted, counting = count(mechanism, self.truth, selected, noisy_sums)
        assert isinstance(counted, LocalGroups)
        spread = np.zeros(self.truth.groups, np.int64)
        spread[counted.codes] = counted.columns["weight"]
        published = counting.noisy_counts([SUM.name], counted.columns)
        ratios = count_ratios(noise, noisy_sums[0], published, counted, self.without, self.with_)
        return np.stack([loss, choice, self._bucket(spread), *ratios], axis=1)

    def _sums(self, weights: Integers) -> list[Integers]:
        return [side.weighted_sums(weights) for side in (self.without, self.with_)]

    def _log_ratio(self, published: Integers, sums: list[Integers], std: float) -> Floats:
        """log N(published; with, std^2) - log N(published; without, std^2), summed over the groups of each copy.

        A group that is not counted has the same sums, 0, on both sides.
        """
        return log_ratio(RoundedGaussian(Fraction(std), LATTICE_BITS), published, sums)

    def _selection_ratio(
        self, totals: Integers, chosen: NDArray[np.bool_], open_: NDArray[np.bool_], sums: list[Integers]
    ) -> Floats:
        """The same of whether each group passed the threshold, given its sums before the last round, if it is still open."""
        share, tuning = self.mechanism.tuning.round_shares[-1], self.mechanism.tuning
        limit = self.mechanism.threshold * 2.0 ** (LATTICE_BITS + tuning.share_bits)
        noise = share * self.mechanism.round_stds[-1] * 2.0**LATTICE_BITS
        without, with_ = (log_ndtr(np.where(chosen, 1, -1) * (totals + share * side - limit) / noise) for side in sums)
        return np.asarray((open_ * (with_ - without)).reshape(-1, GROUPS).sum(axis=1))

    def _bucket(self, spread: Integers) -> Floats:
        """The unit adds one to one bucket of the norms, if it is in a selected group. Each copy has its own histogram."""
        there = np.zeros(self.truth.units, np.bool_)
        there[self.truth.unit[spread[self.truth.group] > 0]] = True
        exact = there[UNITS - 1 :: UNITS].astype(np.int64)
        assert self.mechanism.counts is not None
        return noisy_buckets(self.mechanism.counts, exact)


def log_ratio(law: Law, published: Integers, sums: list[Integers]) -> Floats:
    """log P(published | with) - log P(published | without) under noise of this law, summed over the groups of each copy.

    A group that is not counted has the same sums, 0, on both sides.
    """
    without, with_ = ((published - side).astype(np.float64) for side in sums)
    if isinstance(law, RoundedGaussian):
        scale = float(law.std) * 2.0**law.lattice_bits
        ratio = ((without / scale) ** 2 - (with_ / scale) ** 2) / 2
    else:
        assert isinstance(law, DiscreteLaplace)
        ratio = (np.abs(without) - np.abs(with_)) / float(law.scale)
    return np.asarray(ratio.reshape(-1, GROUPS).sum(axis=1))


def count_ratios(
    noise: CountNoise,
    noisy_sum: NoisyMeasure,
    noisy: NoisyCounts,
    counted: LocalGroups,
    without: MemoryPairs,
    with_: MemoryPairs,
) -> list[Floats]:
    """What scaled counts, counts of classes and sums tell about each copy. Weights and classes are public."""
    classes, shift, codes = noisy.classes, sum_shift(SUM), counted.codes
    spread = np.zeros(without.groups, np.int64)
    spread[codes] = noisy.weights
    sides = [
        side.class_sums(spread, codes, classes.bounds, classes.power, {SUM.name: shift}) for side in (without, with_)
    ]

    def ratio(law: Law, published: Integers, exact: list[Integers]) -> Floats:
        at = [np.zeros(without.groups, np.int64) for _ in range(3)]
        for column, values in zip(at, (published, *exact), strict=True):
            column[codes] = values
        return log_ratio(law, at[0], at[1:])

    factors = np.array(classes.factors(noise))
    scaled = ratio(
        noise.scaled_law(classes.scaled_bound),
        noisy.scaled,
        [(side["units"] * factors).sum(axis=1) for side in sides],
    )
    by_class = [
        ratio(noise.class_law(float(bound)), noisy.by_class[:, place], [side["units"][:, place] for side in sides])
        for place, bound in enumerate(classes.sizes)
    ]
    parts = (slice(None, classes.light), slice(classes.light, None))
    sums = [
        ratio(
            noise.sum_law(noisy_sum, bound, shift), published, [side[SUM.name][:, part].sum(axis=1) for side in sides]
        )
        for published, bound, part in zip(noisy.sums[SUM.name], classes.split_bounds, parts, strict=True)
    ]
    return [scaled, np.sum(by_class, axis=0), np.sum(sums, axis=0)]


def counts_of(noise: CountNoise, classes: Classes, target: tuple[int, ...], kind: Pairs = MemoryPairs) -> Run:
    """What counting publishes of all groups of n copies on each side, which are public, with weights of 1.

    The attacker knows how units are to be counted; the pairs under attack are of the given kind.
    """

    def run(n: int) -> Trials:
        truth = _copies(target, 2 * n, n, kind)
        without, with_ = (_copies(target, 2 * n, first, MemoryPairs) for first in (2 * n, 0))
        weights = LocalGroups(np.arange(truth.groups), {"weight": np.full(truth.groups, ONE)}, truth.keys_of)
        aggregate = noisy_sum(noise)
        exact = truth.by_class(weights, classes.bounds, classes.light, classes.power, [sum_shift(SUM)])
        counted = exact.each(noise_classes(noise, classes, [aggregate]), ())
        norms = noise_norms(noise, _TUNING, np.zeros(len(CENTRES), np.int64), 1.0)
        noisy = Counting(norms, classes).noisy_counts([SUM.name], counted.columns)
        rows = np.stack(count_ratios(noise, aggregate, noisy, counted, without, with_), axis=1)
        return Trials(rows[:n], rows[n:])

    return run


def noisy_buckets(noise: CountNoise, units: Integers) -> Floats:
    """Numbers of units as the histogram of norms publishes them, each in a bucket that is large enough to be taken as it is."""
    many, width = 1 << 30, len(CENTRES)
    padded = np.append(units, np.zeros(-len(units) % width, np.int64)).reshape(-1, width)
    everything = float(ONE**noise.power * CENTRES.max() * 2)
    return np.concatenate([noise_norms(noise, _TUNING, row + many, everything).units - many for row in padded])[
        : len(units)
    ]


def _one_more(draw: Callable[[Integers], Floats], n: int) -> Trials:
    """A number in noise, and the same with one unit more."""
    noisy = draw(np.repeat([0, 1], n))
    return Trials(noisy[:n, None], noisy[n:, None])


def alone_in_one_group(mechanism: AdaptiveGaussian, cells: int = 3000) -> Pair:
    """A group that only the unit is in: whether it is selected, by the law of its weighted sum from round to round.

    Its weight is 1 until the group is accepted or given up, and then 0. The sum so far lies on a grid; each round adds
    share * weight and share * noise, rounded to the nearest point: an error of about the square of the step, below 10^-4 of
    the chance.
    """
    tuning = mechanism.tuning
    spread = [share * std for share, std in zip(tuning.fractions, mechanism.round_stds, strict=True)]
    reach = 8 * float(np.hypot.reduce(spread))
    grid = np.linspace(-reach, mechanism.threshold + reach, cells)
    step = grid[1] - grid[0]
    law, shown = np.zeros(cells), 0.0
    law[np.abs(grid).argmin()] = 1.0
    bars = (*mechanism.bars, mechanism.threshold)
    for number, (share, std) in enumerate(zip(tuning.fractions, spread, strict=True)):
        weights = np.ones(cells)
        if number:
            totals = np.floor(grid * 2.0 ** (LATTICE_BITS + tuning.share_bits)).astype(np.int64)
            weights = (next_weights(mechanism, number, totals) > 0).astype(np.float64)
        centre = grid + share * weights
        edges = np.append(grid - step / 2, np.inf)
        law = law @ np.diff(ndtr((edges[None, :] - centre[:, None]) / std), axis=1)
        above = grid > bars[number]
        shown += float(law[above].sum())
        law[above] = 0.0
    return Pair("alone in one group", np.array([1.0, 0.0]), np.array([1 - shown, shown]))


# The choice


def claims_of_choice() -> Iterator[Claim]:
    """What the data chooses with: a branch behind a noisy histogram of degrees, and the noise of that histogram."""
    plan = plan_for(epsilon=1.0, delta=1e-3, keys_only=True)
    branch: Any = next(one for one in plan.branches if getattr(one, "look_epsilon", None) == 0)  # a blind election
    yield Claim(
        "automatic choice", "of the law", "a blind election, behind a noisy histogram of degrees",
        whole_budget(plan), partial(_behind_a_bucket, branch, plan.request.choice_epsilon),
    )  # fmt: skip
    epsilon = plan_for(epsilon=30.0, delta=1e-3).request.choice_epsilon
    pure = np.exp(epsilon)

    def buckets(units: Integers) -> Floats:
        """Degrees as the choice sees them, each in a bucket that is large enough to be taken as it is."""
        many, width = 1 << 20, len(DEGREE_EDGES)
        padded = np.append(units, np.zeros(-len(units) % width, np.int64)).reshape(-1, width)
        return np.concatenate([noisy_degrees(row + many, epsilon) - many for row in padded])[: len(units)]

    yield Claim(
        "automatic choice", "of the law", "one bucket of degrees",
        lambda at: max(0.0, float((pure - np.exp(at)) / (1 + pure))), None, partial(_one_more, buckets), 20_000, 200_000,
    )  # fmt: skip


def _behind_a_bucket(branch: Voting, epsilon: float) -> Iterator[Pair]:
    """An election and the bucket that the choice was made from are looked at together."""
    law = DiscreteLaplace(1 / Fraction(epsilon))
    bucket = thresholded([0], [1], own=law, common=None, threshold=NOTHING, low=0)
    for pair in voting.neighbours(branch):
        sides = zip((pair.without, pair.with_), bucket, strict=True)
        yield Pair(f"{pair.name} and one bucket", *(joint(list(side)) for side in sides))
