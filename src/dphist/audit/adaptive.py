"""The adaptive release attacked where its proof gives everything away: all rounds, the histogram of norms, counts and sums.

For groups that exist without the unit the best attack on that view is known. Given the same published past each part is
Gaussian around sums that differ by a known vector, so the log of the likelihood ratio of each part is a known number. Runs of
the real code on both sides give one such number for each part; the sampled attack weighs them and does the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_ndtr, ndtr

from dphist.aggregates import Aggregate
from dphist.audit.judge import Claim, Run, Trials
from dphist.audit.laws import NOTHING, Floats, Integers, Pair, joint, kinds_of_groups, thresholded
from dphist.audit.trials import Scene, one_release
from dphist.engines.base import Engine, LocalGroups
from dphist.engines.memory import MemoryPairs
from dphist.mechanisms import AdaptiveGaussian
from dphist.mechanisms.adaptive import sum_shift
from dphist.mechanisms.counts import CountNoise
from dphist.mechanisms.tuning import LATTICE_BITS, ONE, Tuning
from dphist.mechanisms.weights import next_weights
from dphist.noise import DiscreteLaplace
from dphist.planning import Plan, plan_for
from dphist.privacy.gaussian import delta_gaussian
from dphist.selection.choice import DEGREE_EDGES, noisy_degrees
from dphist.selection.counting import CENTRES, count, count_stds, noise_clipped, noise_norms, whole_cap
from dphist.selection.rounds import noise_round

Pairs = Callable[..., MemoryPairs]

GROUPS, UNITS = 8, 25
_OTHERS = np.array([(u, g) for u in range(UNITS - 1) for g in range(GROUPS) if (u * 5 + g * 3) % 7 < 3])

EVERYWHERE = tuple(range(GROUPS))
"""The unit under attack is in all of the 8 groups that 24 others share."""

IN_ONE = (0,)
"""It is in one of them, with its whole weight."""

SUM = Aggregate("sum", "value", 0.0, 1.0, weight=4.0)
"""A sum that gets most of the budget: what is wrong with it shows. The unit has the largest value, all others the smallest."""


def claims(engine: Engine | None, runs: tuple[int, int]) -> Iterator[Claim]:
    """Releases, also where the data chooses the law: which groups they show."""
    plan = plan_for(epsilon=1.0, delta=0.3, mechanism="adaptive")
    yield from selections(plan, plan.mechanism.delta, runs, Scene(1, 4, 1), engine=engine)
    keys = plan_for(epsilon=1.0, delta=0.3, mechanism="adaptive", keys_only=True)
    for claim in selections(keys, keys.mechanism.delta, runs, Scene(1, 4, 1), engine=engine):
        yield replace(claim, analysis="rounds, keys alone")
    chosen_keys = plan_for(epsilon=1.0, delta=0.3, keys_only=True)
    law, groups = plan_for(epsilon=1.0, delta=0.3), plan_for(epsilon=1.0, delta=0.3, max_groups="auto")
    for name, chosen, scenes in (
        ("of the law", law, (Scene(1, 0, 1),)),
        ("of max_groups", groups, (Scene(1, 0, 1), Scene(4, 0, 4))),
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
    clear = replace(mechanism, counts=replace(mechanism.count_noise, histogram_std=1.0))
    yield Claim(
        "adaptive", "rounds, Lemma 1", "one bucket of the histogram of norms",
        lambda epsilon: float(delta_gaussian(1 / clear.histogram_std, epsilon)), None,
        partial(_one_more, partial(noisy_buckets, clear)), 20_000, 200_000,
    )  # fmt: skip
    counts = replace(
        mechanism, round_stds=(1e6,) * mechanism.rounds, counts=replace(mechanism.count_noise, histogram_std=1e6)
    )
    yield Claim(
        "adaptive", "rounds, Lemma 1", "counts and sums of a unit that is scaled down to a norm of 2", counts.delta_noise,
        None, partial(_clipped, counts, (4.0, 8.0)), 20_000, 200_000,
    )  # fmt: skip
    yield from claims_of_choice()


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
    """A mechanism with deltas so large that runs see them; what its sums cost is what the noise that is accounted for costs."""
    tuning = Tuning(most_groups=groups)
    stds = tuple(std / share**0.5 for share in tuning.fractions)
    counts = CountNoise(4.0, 2.5, 5.0)
    paid = replace(counts, sums_sensitivity=SUM.weight**0.5 / counts.noise_std * (1 + 1e-12))
    return AdaptiveGaussian(stds, threshold, paid, tuning)


def pairs_of(rows: Integers, groups: int, units: int, kind: Pairs = MemoryPairs) -> MemoryPairs:
    """Pairs (unit, group), all of them sampled, each with the steps of a sum."""
    unit, group = rows.astype(np.int32).T
    steps = np.where(unit % UNITS == UNITS - 1, 1, -1) * SUM.sensitivity_steps
    return kind(unit.copy(), group.copy(), units, groups, steps={SUM.name: steps})


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
            state = groups.each(noise_round(mechanism, number, None), ())
            noisy = (state.columns["total"] - groups.columns["total"]) // share
            loss += self._log_ratio(noisy, self._sums(weights), mechanism.round_stds[number])
            weights, groups = state.columns["weight"], self.truth.next_round(state)
        selected = groups.each(noise_round(mechanism, last, None), ())
        chosen = np.isin(groups.codes, selected.codes)
        choice = self._selection_ratio(groups.columns["total"], chosen, self._sums(weights))
        counted, clipping = count(mechanism, self.truth, selected, mechanism.noisy([SUM]))
        assert isinstance(counted, LocalGroups)
        spread = np.zeros(self.truth.groups, np.int64)
        spread[counted.codes] = counted.columns["weight"]
        parts = [loss, choice, self._bucket(spread)]
        shift, (main, probe) = sum_shift(SUM), clipping.caps
        stds = count_stds(mechanism, clipping.caps)
        sums_std = SUM.sensitivity_steps / mechanism.sums_sensitivity * main**0.5 * 2.0 ** (shift - LATTICE_BITS)
        for name, kind, cap, std in (
            ("main", "units", main, stds[0]),
            ("probe", "units", probe, stds[1]),
            ("steps_1", SUM.name, main, sums_std),
        ):
            exact = [
                side.clipped_sums(spread, whole_cap(cap), {SUM.name: shift})[kind]
                for side in (self.without, self.with_)
            ]
            noisy = np.zeros(self.truth.groups, np.int64)
            noisy[counted.codes] = counted.columns[name]
            parts.append(self._log_ratio(noisy, exact, std))
        return np.stack(parts, axis=1)

    def _sums(self, weights: Integers) -> list[Integers]:
        return [side.weighted_sums(weights) for side in (self.without, self.with_)]

    def _log_ratio(self, published: Integers, sums: list[Integers], std: float) -> Floats:
        """log N(published; with, std^2) - log N(published; without, std^2), summed over the groups of each copy.

        A group that is not counted has the same sums, 0, on both sides.
        """
        without, with_ = ((published - side) / (std * 2.0**LATTICE_BITS) for side in sums)
        return np.asarray(((without**2 - with_**2) / 2).reshape(-1, GROUPS).sum(axis=1))

    def _selection_ratio(self, totals: Integers, chosen: NDArray[np.bool_], sums: list[Integers]) -> Floats:
        """The same of whether each group passed the threshold, given its sums before the last round."""
        share, tuning = self.mechanism.tuning.round_shares[-1], self.mechanism.tuning
        limit = self.mechanism.threshold * 2.0 ** (LATTICE_BITS + tuning.share_bits)
        noise = share * self.mechanism.round_stds[-1] * 2.0**LATTICE_BITS
        without, with_ = (log_ndtr(np.where(chosen, 1, -1) * (totals + share * side - limit) / noise) for side in sums)
        return np.asarray((with_ - without).reshape(-1, GROUPS).sum(axis=1))

    def _bucket(self, spread: Integers) -> Floats:
        """The unit adds one to one bucket of the norms, if it is in a selected group. Each copy has its own histogram."""
        there = np.zeros(self.truth.units, np.bool_)
        there[self.truth.unit[spread[self.truth.group] > 0]] = True
        exact = there[UNITS - 1 :: UNITS].astype(np.int64)
        return noisy_buckets(self.mechanism, exact)


def _clipped(mechanism: AdaptiveGaussian, caps: tuple[float, float], n: int) -> Trials:
    """What is published of all groups of a copy, added up: one unit moves them alike. The norms allowed are public."""
    truth = _copies(EVERYWHERE, 2 * n, n, MemoryPairs)
    weights = LocalGroups(np.arange(truth.groups), {"weight": np.full(truth.groups, ONE)}, truth.keys_of)
    exact = truth.clipped(weights, (whole_cap(caps[0]), whole_cap(caps[1])), [sum_shift(SUM)])
    noisy = exact.each(noise_clipped(mechanism, caps, mechanism.noisy([SUM]), None), ())
    parts = [noisy.columns[name].reshape(-1, GROUPS).sum(axis=1) for name in ("main", "probe", "steps_1")]
    rows = np.stack(parts, axis=1).astype(np.float64)
    return Trials(rows[:n], rows[n:])


def noisy_buckets(mechanism: AdaptiveGaussian, units: Integers) -> Floats:
    """Numbers of units as the histogram of norms publishes them, each in a bucket that is large enough to be taken as it is."""
    many, width = 1 << 30, len(CENTRES)
    padded = np.append(units, np.zeros(-len(units) % width, np.int64)).reshape(-1, width)
    everything = float(ONE**2 * CENTRES.max() * 2)
    return np.concatenate([noise_norms(mechanism, row + many, everything, None).units - many for row in padded])[
        : len(units)
    ]


def _one_more(draw: Callable[[Integers], Floats], n: int) -> Trials:
    """A number in noise, and the same with one unit more."""
    noisy = draw(np.repeat([0, 1], n))
    return Trials(noisy[:n, None], noisy[n:, None])


def alone_in_one_group(mechanism: AdaptiveGaussian, cells: int = 3000) -> Pair:
    """A group that only the unit is in: whether it is selected, by the law of its weighted sum from round to round.

    Its weight is 1 until the group is given up, and then 0. The sum so far lies on a grid; each round adds share * weight and
    share * noise, rounded to the nearest point: an error of about the square of the step, below 10^-4 of the chance.
    """
    tuning = mechanism.tuning
    spread = [share * std for share, std in zip(tuning.fractions, mechanism.round_stds, strict=True)]
    reach = 8 * float(np.hypot.reduce(spread))
    grid = np.linspace(-reach, mechanism.threshold + reach, cells)
    step = grid[1] - grid[0]
    law = np.zeros(cells)
    law[np.abs(grid).argmin()] = 1.0
    for number, (share, std) in enumerate(zip(tuning.fractions, spread, strict=True)):
        weights = np.ones(cells)
        if number:
            totals = np.floor(grid * 2.0 ** (LATTICE_BITS + tuning.share_bits)).astype(np.int64)
            weights = (next_weights(mechanism, number, totals) > 0).astype(np.float64)
        centre = grid + share * weights
        edges = np.append(grid - step / 2, np.inf)
        law = law @ np.diff(ndtr((edges[None, :] - centre[:, None]) / std), axis=1)
    shown = float(law[grid > mechanism.threshold].sum())
    return Pair("alone in one group", np.array([1.0, 0.0]), np.array([1 - shown, shown]))


# The choice


def claims_of_choice() -> Iterator[Claim]:
    """What the data chooses with: a branch behind a noisy histogram of degrees, and the noise of that histogram."""
    plan = plan_for(epsilon=1.0, delta=1e-3)
    branch = next(branch for branch in plan.branches if branch.max_groups == 1)
    yield Claim(
        "automatic choice", "of the law", f"{branch.name} for one group, behind a noisy histogram of degrees",
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


def _behind_a_bucket(branch: object, epsilon: float) -> Iterator[Pair]:
    """A release and the bucket that the choice was made from are looked at together."""
    law = DiscreteLaplace(1 / Fraction(epsilon))
    bucket = thresholded([0], [1], own=law, common=None, threshold=NOTHING, low=0)
    for pair in kinds_of_groups(branch):
        sides = zip((pair.without, pair.with_), bucket, strict=True)
        yield Pair(f"{pair.name} and one bucket", *(joint(list(side)) for side in sides))
