"""Each hypothesis of the proof in docs/adaptive.md, one test or more for each."""

import math
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from adaptive_tables import codes_of, counted, draw_sample, loose, rounds, table, zipf
from dphist.aggregates.measures import Lattice
from dphist.aggregates.noisy_sums import NoisyMeasure
from dphist.aggregates.total import SumOfUnit
from dphist.engines import memory as adaptive_pairs
from dphist.engines.histogram import LocalGroups
from dphist.engines.memory import (
    MemoryPairs,
    bucket,
    clipped_steps,
    norm_factors,
    unit_weights,
)
from dphist.errors import Infeasible, InvalidParameter
from dphist.mechanisms.adaptive import calibrate
from dphist.mechanisms.counts import CountNoise
from dphist.mechanisms.tuning import FACTOR_BITS, LATTICE_BITS, NORM_BITS, ONE, Tuning
from dphist.mechanisms.weights import next_weights
from dphist.noise import RoundedGaussian
from dphist.noise.entropy import SystemEntropy
from dphist.noise.testing import SeededEntropy
from dphist.run.counting import edges, group_weights
from dphist.run.rounds import select
from word_sources import drawn_from, words_from

WEIGHTS = st.lists(st.integers(0, ONE), min_size=1, max_size=300)


@settings(max_examples=100, deadline=None)
@given(weights=WEIGHTS)
def test_a_units_norm_is_at_most_one_after_rounding(weights: list[int]) -> None:
    """H1, integer norms: sum w^2 <= 1, checked in integers, and not much smaller."""
    a = np.array(weights, np.int64)
    square = int((a * a).sum())
    factor = norm_factors(np.array([square]))
    assert int(factor[0]) == (math.isqrt((1 << 2 * NORM_BITS) // square) if square else 0)
    w = unit_weights(a, factor)
    total = sum(int(x) ** 2 for x in w)
    assert total <= 4**LATTICE_BITS
    assert int(w.max()) <= 2**LATTICE_BITS
    if square:
        assert total >= 0.99 * 4**LATTICE_BITS or a.max() < 32


def test_the_largest_value_of_a_step_does_not_overflow() -> None:
    steps = clipped_steps(np.array([2**30, -(2**30)]), np.array([ONE, ONE]), np.array([1 << FACTOR_BITS] * 2), 0)
    assert steps.tolist() == [2**30, -(2**30)]
    fine = clipped_steps(np.array([3]), np.array([ONE]), np.array([1 << FACTOR_BITS]), 30)
    assert fine.tolist() == [3 << 30]


def test_the_same_sums_by_hand() -> None:
    pairs = table([(0, 0), (0, 1), (1, 1), (2, 2)], 4)
    half = math.floor(math.isqrt((1 << 52) // (2 * ONE * ONE)) * ONE / 2 ** (NORM_BITS - LATTICE_BITS))
    sums = pairs.weighted_sums(np.full(4, ONE))
    assert sums.tolist() == [half, half + 2**16, 2**16, 0]
    assert pairs.weighted_sums(np.array([ONE, 0, 0, 0])).tolist() == [2**16, 0, 0, 0]
    assert pairs.degree_histogram(np.array([1, 2, 3])).tolist() == [2, 1, 0]
    with pytest.raises(InvalidParameter, match="same length"):
        MemoryPairs.of_rows(pairs.unit, pairs.group[:2], 3, 4)
    with pytest.raises(InvalidParameter, match="same length"):
        MemoryPairs.of_rows(pairs.unit, pairs.group, 3, 4, np.ones(2, np.bool_))


def test_values_outside_the_buckets_go_to_the_nearest() -> None:
    assert bucket(np.array([0, 1, 5, 99]), np.array([1, 4, 8])).tolist() == [0, 0, 1, 2]
    assert np.all(np.diff(edges(1)) > 0)
    assert np.all(np.diff(edges(2)) > 0)


def by_classes(pairs: MemoryPairs, weights: NDArray[np.int64]) -> list[NDArray[np.int64]]:
    chosen = np.flatnonzero(weights)
    return [
        column
        for power in (1, 2)
        for column in pairs.class_sums(weights, chosen, [ONE**power, 3 * ONE**power], power, {"s": 0}).values()
    ]


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 10**6))
def test_any_order_of_pairs_gives_the_same_bits(seed: int) -> None:
    """H5, order independence: shuffled pairs, in other chunks, add up to the same integers."""
    rng = np.random.default_rng(seed)
    pairs = zipf(60, 25, 6, seed)
    steps = rng.integers(-(2**30), 2**30, len(pairs.unit))
    sampled = draw_sample(pairs.unit, pairs.units, 4, rng.random(len(pairs.unit)))
    order = rng.permutation(len(pairs.unit))
    one = MemoryPairs.of_rows(pairs.unit, pairs.group, 60, 25, sampled, {"s": steps})
    two = MemoryPairs.of_rows(pairs.unit[order], pairs.group[order], 60, 25, sampled[order], {"s": steps[order]})
    weights = rng.integers(0, ONE + 1, 25) * rng.integers(0, 2, 25)
    expected = [one.weighted_sums(weights), *by_classes(one, weights)]
    expected += [one.norms(weights, edges(2), 2), one.norms(weights, edges(1), 1), one.eligible().astype(np.int64)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(adaptive_pairs, "CHUNK", 7)
        found = [two.weighted_sums(weights), *by_classes(two, weights)]
        found += [two.norms(weights, edges(2), 2), two.norms(weights, edges(1), 1), two.eligible().astype(np.int64)]
    for left, right in zip(expected, found, strict=True):
        assert left.tobytes() == right.tobytes()


@settings(max_examples=100, deadline=None)
@given(totals=st.lists(st.integers(-(2**26), 2**28), min_size=2, max_size=20), other=st.integers(-(2**26), 2**28))
def test_weights_are_local(totals: list[int], other: int) -> None:
    """H2, locality: a group's weight is a function of its own published sums, whatever the other groups are."""
    mechanism = calibrate(1.0, 1e-8)
    for number in (1, 2, 3):
        all_at_once = next_weights(mechanism, number, np.array([*totals, other]))
        alone = [int(next_weights(mechanism, number, np.array([total]))[0]) for total in totals]
        assert all_at_once[:-1].tolist() == alone
        assert np.all((all_at_once >= 0) & (all_at_once <= ONE))


def test_weights_move_to_the_undecided() -> None:
    mechanism = calibrate(1.0, 1e-8)
    fine = 2 ** (LATTICE_BITS + 4)
    past = mechanism.tuning.fractions[0]
    levels = np.array([0.1, 0.5, 0.9, 3.0, 30.0]) * mechanism.threshold * past * fine
    weights = next_weights(mechanism, 1, levels.astype(np.int64))
    assert weights[0] == 0  # hopeless
    assert weights[1] == weights[2] == ONE
    assert 0 < weights[3] < ONE
    assert weights[4] == 0  # safe


class Counting:
    """The system's entropy, and how many words were asked for."""

    def __init__(self) -> None:
        self.asked = 0

    def words(self, size: int) -> NDArray[np.uint64]:
        self.asked += size
        return SystemEntropy().words(size)


def test_every_eligible_group_gets_fresh_noise_in_every_round() -> None:
    """H3, fresh noise: also a group that was given up is noised anew, and no group twice with the same draw."""
    pairs = zipf(3000, 500, 5, 1)
    eligible = np.flatnonzero(pairs.eligible())
    mechanism = calibrate(1.0, 1e-8)
    source, noises, words = Counting(), [], []
    with words_from(source):
        for published in rounds(mechanism, pairs, eligible):
            spread = np.zeros(pairs.groups, np.int64)
            spread[eligible] = published.weights
            noises.append(published.noisy - pairs.weighted_sums(spread)[eligible])
            words.append(source.asked)
            last = published.weights
    assert np.count_nonzero(last == 0) > 100  # some were given up, and yet
    for earlier, later in pairwise(noises):
        assert np.mean(earlier == later) < 0.01
    for noise, std in zip(noises, mechanism.round_stds, strict=True):
        assert np.count_nonzero(noise) > 0.99 * len(eligible)
        idle = noise[last == 0] / 2**LATTICE_BITS
        assert np.std(idle) == pytest.approx(std, rel=5 / math.sqrt(2 * len(idle)))
    assert np.diff([0, *words]).min() >= 2 * len(eligible)


def test_groups_that_nobody_sampled_are_never_selected() -> None:
    """H4, one fixed sample: eligibility is that of the sample, in every round the same."""
    pairs = zipf(2000, 40, 6, 2)
    hidden = np.flatnonzero(pairs.group != 0)
    sampled = np.ones(len(pairs.unit), np.bool_)
    sampled[pairs.group == 0] = False
    without = MemoryPairs.of_rows(pairs.unit, pairs.group, pairs.units, pairs.groups, sampled)
    codes = codes_of(select(calibrate(3.0, 1e-3), without))
    assert 0 not in codes
    assert len(codes) > 5
    weights = np.full(pairs.groups, ONE)
    only = MemoryPairs.of_rows(pairs.unit[hidden], pairs.group[hidden], pairs.units, pairs.groups)
    assert without.weighted_sums(weights).tolist() == only.weighted_sums(weights).tolist()


def test_a_group_must_be_strictly_above_the_threshold() -> None:
    """With lattice noise >= would be a leak."""

    class Zero:
        def words(self, size: int) -> NDArray[np.uint64]:
            return np.zeros(size, np.uint64)

    pairs = table([(unit, 0) for unit in range(10)] + [(20 + unit, 1) for unit in range(11)], 2, 40)
    exact = loose(threshold=10.0, std=1.0)
    found = drawn_from(Zero(), select, exact, pairs)
    assert isinstance(found, LocalGroups)
    assert found.codes.tolist() == [1]
    assert found.columns["total_1"].tolist() == [2 * 11 << LATTICE_BITS]


SUM = SumOfUnit("s", -100.0, 100.0, lattice=Lattice(0.0, 1.0))


@pytest.mark.parametrize("sums", [(), (NoisyMeasure(SUM, RoundedGaussian(Fraction(3), 0)),)])
def test_the_whole_run_is_a_function_of_pairs_and_noise(sums: tuple[NoisyMeasure, ...]) -> None:
    pairs = zipf(4000, 60, 4, 4)
    rng = np.random.default_rng(4)
    steps = {noisy.name: rng.integers(-100, 101, len(pairs.unit)) for noisy in sums}
    order = rng.permutation(len(pairs.unit))
    same = {name: values[order] for name, values in steps.items()}
    shuffled = MemoryPairs.of_rows(pairs.unit[order], pairs.group[order], pairs.units, pairs.groups, None, same)
    results = []
    for table_ in (MemoryPairs.of_rows(pairs.unit, pairs.group, pairs.units, pairs.groups, None, steps), shuffled):
        with words_from(SeededEntropy(9)):
            selection = select(calibrate(2.0, 1e-4), table_)
            results.append(counted(calibrate(2.0, 1e-4), table_, selection, sums))
    one, two = results
    assert len(one.weights) > 10
    assert one.classes == two.classes
    assert one.scaled.tobytes() == two.scaled.tobytes()
    assert one.by_class.tobytes() == two.by_class.tobytes()
    for name, parts in one.sums.items():
        assert [part.tobytes() for part in parts] == [part.tobytes() for part in two.sums[name]]


def test_sums_with_too_many_steps_are_refused() -> None:
    fine = SumOfUnit("s", -100.0, 100.0, lattice=Lattice(0.0, 2.0**-25))
    with pytest.raises(InvalidParameter, match="steps"):
        loose().require_drawable([fine])


def test_noise_that_cannot_be_drawn_is_refused_before_any_data_is_read() -> None:
    calibrate(1.0, 1e-8).require_drawable([SumOfUnit("s", 0.0, 1.0)])
    with pytest.raises(Infeasible, match="noise on sum_s"):
        calibrate(1.0, 1e-8).require_drawable([SumOfUnit("s", 0.0, 1.0, weight=1e-6, lattice=Lattice(0.0, 2.0**-30))])
    with pytest.raises(Infeasible, match="noise that can be drawn"):
        loose(threshold=2.0**30, std=2.0**29).require_drawable([])
    for law in ("gaussian", "laplace"):
        for change in ({"unit_noise": 1e9}, {"histogram_noise": 1e12}):
            wild = replace(CountNoise(law, 4.0, 2.5, 0.65), **change)  # type: ignore[arg-type]
            with pytest.raises(Infeasible, match="noise on counts"):
                wild.require_drawable([])


def test_weights_of_counts_come_from_published_values() -> None:
    assert group_weights(np.zeros(0), Tuning()).tolist() == []
    weights = group_weights(np.array([-3.0, 1.0, 16.0, 10_000.0]), Tuning())
    assert np.all((weights >= 1) & (weights <= ONE))
    assert weights[0] == weights[:2].max()
    assert weights[3] < weights[2]


LOOKS: list[Callable[[MemoryPairs], object]] = [repr, str]


@pytest.mark.parametrize("look", LOOKS)
def test_pairs_do_not_show_what_they_hold(look: Callable[[MemoryPairs], object]) -> None:
    assert "array" not in str(look(zipf(20, 5, 2, 0)))
