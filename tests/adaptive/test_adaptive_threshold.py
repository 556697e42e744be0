"""Lemma 2 with shared weight: the formula, the rule that it rests on, and adversaries that a wrong one would not survive."""

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.special import ndtr
from scipy.stats import binom

from adaptive_tables import codes_of, loose
from dphist.engines.memory import MemoryPairs
from dphist.mechanisms.adaptive import AdaptiveGaussian, calibrate, selection_rule
from dphist.mechanisms.tuning import LATTICE_BITS, ONE, Tuning
from dphist.mechanisms.weights import accepted, next_weights
from dphist.privacy import adaptive as theory
from dphist.run.rounds import select
from example_numbers import some

Floats = NDArray[np.float64]
Weigh = Callable[[int, Floats], Floats]
"""A unit's weights on its groups in a later round, from the sums so far: one row for each unit."""

FINE = 2.0 ** (LATTICE_BITS + 4)

RUNS = 6000
"""Standard errors of 4 %: an adversary that moves all weight to the leader lies 30 % above the bound at epsilon 1."""


def rule_of(mechanism: AdaptiveGaussian) -> theory.Rule:
    return selection_rule(mechanism.tuning, mechanism.round_stds, mechanism.bars)


def probability(mechanism: AdaptiveGaussian, runs: int, weigh: Weigh) -> tuple[float, float]:
    """That one of most_groups groups of one unit is selected, and the standard error of that.

    By importance sampling: the noise of a random group is lifted towards the bar of some round or to the threshold, and every
    run counts as often as it would occur without that, over the mixture of all groups and bars.
    """
    rng, groups, rounds = np.random.default_rng(17), mechanism.max_groups, mechanism.rounds
    total, passed = np.zeros((runs, groups)), np.zeros((runs, groups), np.bool_)
    bars = dict(enumerate(mechanism.bars)) | {rounds - 1: mechanism.threshold}
    parts = dict.fromkeys(range(len(mechanism.bars)), 0.1)
    parts[rounds - 1] = 1 - sum(parts.values())
    noises = np.array(mechanism.tuning.fractions) * mechanism.round_stds
    lifts = {}
    for number in parts:
        past = np.where(np.arange(rounds) <= number, noises, 0.0)
        lifts[number] = past * (bars[number] - 0.6 * sum(mechanism.tuning.fractions[: number + 1])) / (past @ past)
    one = (np.arange(runs), rng.integers(0, groups, runs))
    towards = rng.choice(list(parts), runs, p=list(parts.values()))
    ratios = {number: np.zeros((runs, groups), np.float32) for number in parts}
    for number, share in enumerate(mechanism.tuning.fractions):
        noise = rng.standard_normal(total.shape)
        noise[one] += np.array([lifts[aim][number] for aim in towards])
        for aim, ratio in ratios.items():
            lift = lifts[aim][number]
            ratio += lift * noise - lift**2 / 2
        weights = weigh(number, np.where(passed, 1e9, total)) if number else evenly(number, total)
        assert np.all((weights**2).sum(axis=1) <= 1 + 1e-9)
        total += share * weights + noises[number] * noise
        passed |= total > bars.get(number, math.inf)
    likely = sum(parts[aim] * np.exp(ratio).mean(axis=1) for aim, ratio in ratios.items())
    counts = passed.any(axis=1) / likely
    return float(counts.mean()), float(counts.std()) / math.sqrt(runs)


def own_rule(mechanism: AdaptiveGaussian) -> Weigh:
    """The weights of the product."""

    def weigh(number: int, total: Floats) -> Floats:
        weights = next_weights(mechanism, number, np.rint(total * FINE).astype(np.int64)).astype(np.float64)
        return np.asarray(weights / np.maximum(np.sqrt((weights**2).sum(axis=1, keepdims=True)), 1.0))

    return weigh


def all_on_the_leader(number: int, total: Floats) -> Floats:
    weights = np.zeros(total.shape)
    weights[np.arange(len(total)), total.argmax(axis=1)] = 1
    return weights


def evenly(number: int, total: Floats) -> Floats:
    return np.full(total.shape, 1 / math.sqrt(total.shape[1]))


def not_adaptive(mechanism: AdaptiveGaussian) -> float:
    """The worst of units that give the same weights of norm 1 in all rounds, alike on some of their groups: no bound here."""
    std, most = mechanism.selection_std, mechanism.max_groups
    weighted = np.arange(1, most + 1)
    reach = (mechanism.threshold - 1 / np.sqrt(weighted)) / std
    return float((weighted * ndtr(-reach) + (most - weighted) * ndtr(-mechanism.threshold / std)).max())


@pytest.mark.parametrize("epsilon", some([1.0, 3.0], 1))
def test_adversaries_under_and_above_the_bound(epsilon: float) -> None:
    """The rule of the product stays below, and close; what ignores that weights move, or lets them move freely, is caught."""
    mechanism = calibrate(epsilon, 1e-8)
    claimed = mechanism.delta_infinity()
    own, error = probability(mechanism, RUNS, own_rule(mechanism))
    assert 0.8 * claimed < own <= claimed + 4 * error
    assert own - 4 * error > not_adaptive(mechanism)  # weights of later rounds follow the noise
    spread, error = probability(mechanism, RUNS, evenly)
    assert spread <= claimed + 4 * error
    without = calibrate(epsilon, 1e-8, tuning=Tuning(early_share=0.0))
    free, error = probability(without, RUNS, all_on_the_leader)
    assert free - 4 * error > claimed  # the rule is a hypothesis: norms alone do not give this bound
    full = theory.delta_full_weight(without.threshold, without.selection_std, 300, 2.0**-LATTICE_BITS)
    assert free <= full + 4 * error


@pytest.mark.parametrize("groups", [300, 100])
def test_bars_without_a_higher_threshold_are_caught(groups: int) -> None:
    """Lemma 2, the union bound: with bars that have 45 % of the delta, what is selected fits the claim, closely; under the
    threshold of rounds without bars it is a quarter more than that.
    """
    tuning = Tuning(most_groups=groups, early_share=0.15)
    mechanism = calibrate(0.5, 1e-8, tuning=tuning)
    claimed = mechanism.delta_infinity()
    own, error = probability(mechanism, RUNS, own_rule(mechanism))
    assert 0.8 * claimed < own <= claimed + 4 * error
    broken = replace(mechanism, threshold=calibrate(0.5, 1e-8, tuning=replace(tuning, early_share=0.0)).threshold)
    assert broken.delta_infinity() > 1.4 * claimed
    own, error = probability(broken, RUNS, own_rule(broken))
    assert own - 4 * error > 1.05 * claimed


def test_bars_are_those_of_the_noise_so_far() -> None:
    """1 - Phi((T_r - F_r (1 + g/2))/s_r)^D0, each a fiftieth of delta infinity; one step lower is more."""
    mechanism = calibrate(1.0, 1e-8)
    target, step = 0.5e-8 * (1 - 1e-12), 1 / FINE
    rule = rule_of(mechanism)
    stds = [
        math.hypot(*(a * b for a, b in zip(rule.shares[:number], rule.noise[:number], strict=True)))
        for number in (1, 2, 3)
    ]
    for number, (bar, past, std) in enumerate(zip(mechanism.bars, (2 / 16, 5 / 16, 9 / 16), stds, strict=True), 1):
        reach = (bar - past * (1 + 2.0**-17)) / std
        exact = -math.expm1(300 * math.log1p(-float(ndtr(-reach))))
        assert theory.delta_bar(bar, rule, number) == pytest.approx(exact, rel=1e-9)
        assert (
            exact <= theory.delta_bar(bar, rule, number) <= 0.02 * target < theory.delta_bar(bar - step, rule, number)
        )
    lower = replace(mechanism, bars=tuple(bar - 64 * step for bar in mechanism.bars))
    assert lower.delta_infinity() > mechanism.delta_infinity()
    assert mechanism.bars == pytest.approx((15.79578, 25.09018, 33.80525), rel=1e-6)


def test_without_bars_a_group_is_accepted_at_the_end_only() -> None:
    """A plan that was stored without bars means rounds without them, under its old threshold, and its claim is the old one."""
    old = calibrate(1.0, 1e-8, tuning=Tuning(early_share=0.0))
    data = old.to_data()
    assert data.pop("bars") == ()
    del data["tuning"]["early_share"]
    read = AdaptiveGaussian.from_data(data)
    assert read.bars == ()
    assert read.delta(1.0) == old.delta(1.0)
    high = [np.array([1 << 40])] * 3
    assert not accepted(read, high).any()
    assert accepted(read, [*high, high[0]]).all()
    new = calibrate(1.0, 1e-8)
    assert AdaptiveGaussian.from_data(new.to_data()) == new
    assert accepted(new, high[:1]).all()


@pytest.mark.parametrize("number", [0, 1, 2, 3])
def test_a_group_is_accepted_strictly_above_its_bar_and_for_good(number: int) -> None:
    """H7: each group's own sums decide, on the lattice; no later sum takes back what was accepted."""
    mechanism = calibrate(1.0, 1e-8)
    bar = int((*mechanism.bars, mechanism.threshold)[number] * FINE)
    low = -(1 << 30)
    totals = [np.full(4, low) for _ in range(4)]
    totals[number] = np.array([bar - 1, bar, bar + 1, low])
    for known in range(1, 5):
        found = accepted(mechanism, totals[:known]).tolist()
        assert found == ([False, False, True, False] if known > number else [False] * 4)


def test_groups_of_twice_the_weight_of_95_percent_are_not_lost() -> None:
    """By the rounds as they are on the grid; without bars 2 % of groups of three times that weight are."""
    mechanism = calibrate(1.0, 1e-8)
    often = mechanism.count_released_with(0.95)
    assert mechanism.share_lost(often) == pytest.approx(0.061, abs=0.003)
    assert mechanism.share_lost(1.5 * often) == pytest.approx(7e-5, rel=0.6)
    assert max(mechanism.share_lost(size * often) for size in (2, 3, 8)) < 1e-6
    assert replace(mechanism, bars=()).share_lost(3 * often) > 0.015


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 3.0])
def test_groups_of_the_sure_size_are_hardly_ever_lost(epsilon: float) -> None:
    """Where units give only what their norm leaves if all of their other groups stay undecided: a/sqrt(d) of each.

    An estimate of the least they give. With half of that size one group in six is lost.
    """
    mechanism, runs = calibrate(epsilon, 1e-8), 100_000
    rng, lost = np.random.default_rng(3), {}
    for part in (1.0, 0.5):
        weight = part * mechanism.sure_size(25) / 25**0.5
        total, selected, given = np.zeros(runs), np.zeros(runs, np.bool_), np.ones(runs)
        for number, share in enumerate(mechanism.tuning.fractions[:3], 1):
            total += share * (weight * given + mechanism.round_stds[number - 1] * rng.standard_normal(runs))
            selected |= total > mechanism.bars[number - 1]
            given = next_weights(mechanism, number, np.rint(total * FINE).astype(np.int64)) / ONE
        share, std = mechanism.tuning.fractions[3], mechanism.round_stds[3]
        shown = ndtr((total + share * weight * given - mechanism.threshold) / (share * std))
        lost[part] = float((1 - np.where(selected, 1.0, shown)).mean())
    assert lost[1.0] < 2e-4
    assert 0.1 < lost[0.5] < 0.25


@pytest.mark.parametrize(
    ("groups", "threshold", "std", "bars"),
    [
        (20, 2.25, 0.5, ()),
        (100, 4.0, 1.0, ()),
        (2, 2.5, 1.0, ()),
        (20, 2.5, 0.5, (0.875, 1.375, 1.875)),
        (4, 3.0, 1.0, (1.0, 1.75, 2.375)),
    ],
)
def test_units_alone_are_selected_no_more_often_than_claimed(
    groups: int, threshold: float, std: float, bars: tuple[float, ...]
) -> None:
    """The real rounds, for all numbers of groups up to the one that is paid for, and bars that let some through."""
    mechanism = loose(threshold=threshold, groups=groups, std=std, bars=bars)
    claimed = mechanism.delta_infinity()
    for own in {groups, max(1, groups // 2), 1}:
        units = 100_000 // groups
        group = np.arange(own * units, dtype=np.int32)
        pairs = MemoryPairs.of_rows(group // own, group, units, own * units)
        found = len(np.unique(codes_of(select(mechanism, pairs)) // own)) / units
        assert found <= claimed + 4 * math.sqrt(claimed / units)


@settings(max_examples=60, deadline=None)
@given(
    epsilon=st.sampled_from([0.5, 1.0, 3.0]),
    later=st.integers(1, 3),
    inside=st.floats(0, 1),
    past_weight=st.floats(0, 1),
    rounding=st.floats(-0.5, 0.5),
)
@example(epsilon=1.0, later=1, inside=1.0, past_weight=1.0, rounding=0.5)
@example(epsilon=1.0, later=3, inside=1.0, past_weight=1.0, rounding=0.5)
@example(epsilon=1.0, later=1, inside=0.0, past_weight=0.0, rounding=-0.5)
@example(epsilon=1.0, later=3, inside=0.0, past_weight=0.0, rounding=-0.5)
def test_a_rival_keeps_its_weight(
    epsilon: float, later: int, inside: float, past_weight: float, rounding: float
) -> None:
    """H6: noise within the levels of the lemma keeps a group at weight 1, whatever weight it had and however it is rounded."""
    mechanism = calibrate(epsilon, 1e-8)
    low, high = theory.staying_levels(mechanism.threshold, rule_of(mechanism), later)
    noise = (low + inside * (high - low)) * mechanism.selection_std
    past = sum(mechanism.tuning.round_shares[:later]) / 16
    total = past * (noise + past_weight + rounding * 2.0**-LATTICE_BITS)
    assert next_weights(mechanism, later, np.array([round(total * FINE)])).tolist() == [ONE]


def test_levels_below_zero_are_not_counted_on() -> None:
    """Cut-offs may be anything; a group below zero may lose its weight where the goal is below zero, too."""
    tuning = Tuning(hopeless=(-5.0, -5.0, -5.0), reserve=-50.0)
    mechanism = replace(loose(), tuning=tuning)
    assert theory.chances_to_stay(mechanism.threshold, rule_of(mechanism)) == (1.0, 0.0, 0.0, 0.0)
    zero = theory.staying_levels(
        mechanism.threshold, rule_of(replace(mechanism, tuning=replace(tuning, reserve=1.0))), 1
    )
    assert 0 < zero[0] < 1e-4


def test_chances_are_those_of_the_noise() -> None:
    mechanism = calibrate(1.0, 1e-8)
    chances = theory.chances_to_stay(mechanism.threshold, rule_of(mechanism))
    level_stds = [math.sqrt(16 / past) for past in (2, 5, 9)]
    goal = mechanism.gap / mechanism.selection_std
    for chance, std, cut_off, past in zip(chances[1:], level_stds, mechanism.tuning.hopeless, (2, 5, 9), strict=True):
        exact = ndtr(-cut_off / std) - ndtr(-(goal + math.sqrt(1 - past / 16)) / std)
        assert chance <= exact
        assert chance == pytest.approx(exact, rel=1e-4)


@pytest.mark.parametrize("std", [0.5, 1.0, 6.0])
def test_two_rounds_by_hand(std: float) -> None:
    """One round of rivals: the bound is the expectation, over their number, of the tail."""
    shares, step = (0.25, 0.75), 2.0**-3
    noise = (std / 0.5, std / 0.75**0.5)
    rule = theory.Rule(shares, noise, (1.0,), 1.0, 40, step)
    threshold = 6.0 * std
    chance = theory.chances_to_stay(threshold, rule)[1]
    exact = 0.0
    for groups in range(1, 41):
        rivals = np.arange(groups)
        reach = (threshold - step / 2 - 0.25 / math.sqrt(groups) - 0.75 / np.sqrt(1 + rivals)) / std
        exact = max(exact, groups * float(binom.pmf(rivals, groups - 1, chance) @ ndtr(-reach)))
    assert exact <= theory.delta_shared_weight(threshold, rule) <= exact * 1.01


def test_the_bound_is_above_the_joint_law_of_all_rounds() -> None:
    """Rivals of different rounds are the same groups; the expectation over them, by simulation, is hardly below the bound."""
    mechanism = calibrate(3.0, 1e-8)
    rng = np.random.default_rng(5)
    past, rivals, lift = 0.0, np.zeros((6_000, 299)), np.full(6_000, 2 / 16 / math.sqrt(300))
    for later, share in enumerate(mechanism.tuning.fractions[1:], 1):
        before = mechanism.tuning.fractions[later - 1]
        rivals += before * mechanism.round_stds[later - 1] * rng.standard_normal(rivals.shape, np.float32)
        past += before
        low, high = theory.staying_levels(mechanism.threshold, rule_of(mechanism), later)
        level = rivals / (past * mechanism.selection_std)
        lift += share / np.sqrt(1 + ((level >= low) & (level <= high)).sum(axis=1))
    tails = 300 * ndtr(-(mechanism.threshold - lift) / mechanism.selection_std)
    error = float(tails.std()) / math.sqrt(len(tails))
    assert tails.mean() <= mechanism.delta_infinity() + 4 * error
    assert tails.mean() >= 0.93 * mechanism.delta_infinity()


@settings(max_examples=25, deadline=None)
@given(std=st.floats(0.2, 50), reach=st.floats(0.5, 7), groups=st.integers(1, 300))
def test_bounds_fall_with_the_threshold_and_never_exceed_full_weight(std: float, reach: float, groups: int) -> None:
    mechanism = loose(groups=groups, std=std)
    rule, low = rule_of(mechanism), 1 + reach * std
    values = [theory.delta_infinity(threshold, rule) for threshold in (low, low * 1.001, low * 1.05)]
    assert values[2] <= values[1] * (1 + 1e-5)
    assert values[1] <= values[0] * (1 + 1e-5)
    assert values[0] <= theory.delta_full_weight(low, rule.std, groups, rule.lattice_step)


@pytest.mark.parametrize(("std", "threshold"), [(0.3, 1.2), (0.6, 2.0), (6.0, 41.0)])
def test_the_worst_number_of_groups_is_covered(std: float, threshold: float) -> None:
    """Ranges are bounded by their ends: never below the bound of any number of groups, and hardly above the largest."""
    rule = rule_of(loose(groups=200, std=std))
    every = np.arange(1, 201)
    chances = theory.chances_to_stay(threshold, rule)
    worst = min(1.0, float((every * theory._one_selected(every, threshold, rule, chances)).max()))
    bound = theory.delta_shared_weight(threshold, rule)
    assert worst <= bound <= worst * (1 + 1e-4)


def test_one_round_is_a_plain_threshold() -> None:
    """Without later rounds the weights are 1/sqrt(m), or more for fewer groups, and nothing is random."""
    rule = theory.Rule((1.0,), (6.0,), (), 1.0, 100, 2.0**-16)
    worst = max(m * float(ndtr(-(40 - 2.0**-17 - 1 / math.sqrt(m)) / 6)) for m in range(1, 101))
    assert theory.delta_shared_weight(40.0, rule) == pytest.approx(worst, rel=1e-4)
    assert theory.delta_shared_weight(40.0, rule) >= worst


def test_the_tail_is_convex_and_never_too_small() -> None:
    x = np.linspace(-4, 9, 2001)
    tail = theory._convex_tail(x)
    assert np.all(tail >= ndtr(-x))
    assert np.array_equal(tail[x >= 0], ndtr(-x[x >= 0]))
    assert np.all(tail[2:] + tail[:-2] - 2 * tail[1:-1] >= -1e-15)
