"""The noisy tree of balances: exact without noise, monotone and inside the bounds with any, private, honest about its error."""

from __future__ import annotations

import math
from collections import Counter
from fractions import Fraction
from itertools import pairwise, product
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from numpy.typing import NDArray

from dphist.aggregates import tree as trees
from dphist.aggregates.noisy_sums import NoisyMeasure, pure_epsilon, squared_sensitivity
from dphist.aggregates.quantile import BinsOfUnit
from dphist.aggregates.tree import Bins, NoisyQuantiles, Tree, TreeLaw, critical_value, noisy_quantiles
from dphist.errors import InvalidParameter
from dphist.noise import DiscreteLaplace, RoundedGaussian, sampler_error
from dphist.noise.testing import SeededEntropy
from drawn_laws import recorded, silence
from tree_tables import bins_of_records, gaussian_law, laplace_law
from word_sources import drawn_from

TINY = RoundedGaussian(Fraction(1, 1000), 0)
PROBABILITIES = (0.01, 0.07, 0.1, 0.25, 0.5, 0.7, 0.9, 0.99)
records = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 15), st.integers(1, 5)), max_size=40)


def drawn(
    bins: Bins, tree: Tree, law: TreeLaw, p: tuple[float, ...], level: float | None = None, seed: int = 0
) -> NoisyQuantiles:
    return drawn_from(SeededEntropy(seed), noisy_quantiles, bins, tree, law, p, level)


def copies(tree: Tree, values: list[float], groups: int) -> Bins:
    """So many groups that all hold these values, of one unit each."""
    of = np.repeat(np.arange(groups), len(values))
    return bins_of_records(groups, of, np.tile(tree.bins_of(values), groups), np.full(len(of), 1 << tree.step_bits))


def quantile_bin(weights: dict[int, int], p: float) -> int:
    """The smallest bin whose cumulative weight reaches p * total, in decimals."""
    total, sum_ = sum(weights.values()), 0
    for place in sorted(weights):
        sum_ += weights[place]
        if sum_ >= Fraction(str(p)) * total:
            return place
    raise AssertionError("no weight")


# The ragged column.


@given(records)
def test_bins_are_what_was_put_in(rows: list[tuple[int, int, int]]) -> None:
    bins = bins_of_records(5, *np.array(rows, np.int64).reshape(-1, 3).T)
    expected = [Counter[int]() for _ in range(5)]
    for group, place, steps in rows:
        expected[group][place] += steps

    def seen(part: Bins) -> list[list[tuple[int, int]]]:
        ends = part.offsets.tolist()
        entries = list(zip(part.bins.tolist(), part.steps.tolist(), strict=True))
        return [entries[a:b] for a, b in pairwise(ends)]

    whole = [sorted(counter.items()) for counter in expected]
    assert seen(bins) == whole
    assert bins.totals.tolist() == [sum(counter.values()) for counter in expected]
    assert len(bins) == 5
    assert seen(bins[1:3]) == whole[1:3]
    assert seen(bins[np.array([4, 0, 0])]) == [whole[4], whole[0], whole[0]]
    offsets = pa.array(bins.offsets, pa.int32())
    lists = [pa.ListArray.from_arrays(offsets, pa.array(part)) for part in (bins.bins, bins.steps)]
    assert seen(Bins.from_lists(*lists)) == whole
    assert seen(Bins.from_lists(*(part[2:4] for part in lists))) == whole[2:4]


def test_a_null_is_an_empty_list() -> None:
    column = pa.array([[1, 2], None, [], [3]], pa.list_(pa.int64()))
    assert Bins.from_lists(column, column).offsets.tolist() == [0, 2, 2, 2, 3]


# What is estimated.


@given(records.filter(len), st.sampled_from([1, 3, 4, 6]))
def test_without_noise_the_quantile_of_the_bins(rows: list[tuple[int, int, int]], height: int) -> None:
    rows = [(group, place % (1 << height), steps) for group, place, steps in rows]
    tree = Tree(-3.0, 5.0, height)
    bins = bins_of_records(5, *np.array(rows).T)
    with recorded(silence):
        found = noisy_quantiles(bins, tree, TINY, PROBABILITIES, 0.9)
    assert found.low is not None
    assert found.high is not None
    for group in {row[0] for row in rows}:
        weights: Counter[int] = Counter()
        for of, place, steps in rows:
            weights[place] += steps * (of == group)
        for row, p in enumerate(PROBABILITIES):
            left = tree.lower + quantile_bin(+weights, p) * tree.resolution
            assert left <= found.values[row, group] <= left + tree.resolution
            assert found.low[row, group] <= left
            assert found.high[row, group] >= left + tree.resolution


def test_googlesql_prints_these_without_noise() -> None:
    """Records of TestTableWithUid2, all of which count: five per unit at most."""
    doubles, whole = [1.5, 1.5, 2.5, 3.5, -0.5, -1.5, 1.5, 2.5], [2.0, 1.0, 1.0, 2.0, 1.0, 4.0, 2.0, 3.0]
    cases = [
        (doubles, (-2, 10), 0.1, -1.5), (doubles, (-8, 8), 0.1, -1.5), (doubles, (-8, 8), 0.7, 2.5),
        (doubles, (1, 3), 0.4, 1.5), (whole, (1, 3), 0.6, 2.0),
    ]  # fmt: skip
    for values, (lower, upper), p, expected in cases:
        tree = Tree(lower, upper, records=5)
        with recorded(silence):
            found = noisy_quantiles(copies(tree, values, 1), tree, TINY, [p])
        assert abs(found.values[0, 0] - expected) <= tree.resolution < 0.01


@given(records, st.integers(0, 2**32), st.sampled_from(["1/10", "2", "60", "100000"]), st.booleans())
def test_answers_rise_with_the_probability_inside_bounds_and_intervals(
    rows: list[tuple[int, int, int]], seed: int, size: str, laplace: bool
) -> None:
    tree = Tree(-7.0, 2.0, 4, step_bits=0)
    law = DiscreteLaplace(Fraction(size)) if laplace else RoundedGaussian(Fraction(size), 0)
    found = drawn(bins_of_records(5, *np.array(rows, np.int64).reshape(-1, 3).T), tree, law, PROBABILITIES, 0.9, seed)
    assert found.low is not None
    assert found.high is not None
    assert (np.diff(found.values, axis=0) >= 0).all()
    assert (tree.lower <= found.low).all()
    assert (found.low <= found.values).all()
    assert (found.values <= found.high).all()
    assert (found.high <= tree.upper).all()
    assert (found.std_errors > 0).all()
    assert (found.std_errors <= tree.upper - tree.lower).all()


def test_no_groups_and_groups_at_once_and_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    tree = Tree(0, 1, 3, step_bits=0)
    empty = np.array([], np.int64)
    assert drawn(bins_of_records(0, empty, empty, empty), tree, TINY, (0.5,), 0.9).values.shape == (1, 0)
    bins = bins_of_records(9, np.arange(9), np.arange(9) % 8, np.arange(1, 10))
    whole = drawn(bins, tree, TINY, (0.5, 0.6), 0.9)
    monkeypatch.setattr(trees, "WALKS_AT_ONCE", 25)
    np.testing.assert_allclose(drawn(bins, tree, TINY, (0.5, 0.6), 0.9).values, whole.values, atol=1e-9)


def test_a_constant_column_comes_out_at_its_bin() -> None:
    tree = Tree(0, 100)
    found = drawn(copies(tree, [73.0] * 200, 50), tree, gaussian_law(tree, 3.0), (0.1, 0.5, 0.9), 0.95)
    assert found.low is not None
    assert found.high is not None
    assert (np.abs(found.values[1] - 73.0) <= 2 * tree.resolution).all()
    assert (found.std_errors[1] <= tree.resolution).all()
    assert (found.high - found.low)[1].max() <= 2 * tree.resolution


# What one unit can change, and what that costs.


def node_sums(tree: Tree, places: NDArray[np.int64], steps: NDArray[np.int64]) -> list[NDArray[np.int64]]:
    """The total and the balances of each level, in full."""
    leaves = np.bincount(places, steps, 1 << tree.height).astype(np.int64)
    rows = [leaves.reshape(1 << level, 2, -1).sum(axis=2) for level in range(tree.height)]
    return [leaves.sum(keepdims=True), *(row[:, 0] - row[:, 1] for row in rows)]


@given(
    st.lists(st.floats(-5, 15) | st.sampled_from([-math.inf, 0.0, 10.0, math.inf]), min_size=1, max_size=30),
    st.integers(1, 6),
    st.integers(1, 7),
    st.sampled_from([0, 3, 20]),
)
@example([3.0] * 7, 5, 2, 20)
def test_one_unit_moves_each_level_within_its_sensitivity(
    values: list[float], height: int, most: int, step_bits: int
) -> None:
    tree = Tree(0, 10, height, most, step_bits)
    places, each = tree.bins_of(values), int(tree.weight_steps(len(values)))
    assert each <= 1 << step_bits
    assert places.min() >= 0
    assert places.max() < 1 << height
    for row in node_sums(tree, places, np.full(len(values), each)):
        assert np.abs(row).sum() <= tree.sensitivity_steps
    if len(values) <= most:
        assert each == 1 << step_bits


def test_a_unit_with_one_value_moves_every_level_by_all_of_it() -> None:
    tree = Tree(0, 10, 5)
    rows = node_sums(tree, tree.bins_of([7.3]), tree.weight_steps([1]))
    assert [int(np.abs(row).sum()) for row in rows] == [tree.sensitivity_steps] * tree.levels


@given(st.floats(0.01, 1e3), st.floats(0.1, 100), st.integers(1, 100))
def test_laws_cost_what_counts_of_that_noise_cost(noise: float, weight: float, most: int) -> None:
    measure = BinsOfUnit("x", 0, 10, records=most)
    paid = Fraction(weight) / Fraction(noise) ** 2
    cost = squared_sensitivity([NoisyMeasure(measure, gaussian_law(measure.tree, noise, weight))])
    assert paid * (1 - Fraction(1, 10**13)) <= cost <= paid
    laplace = NoisyMeasure(measure, laplace_law(measure.tree, noise, weight))
    assert pure_epsilon([laplace]) == Fraction(weight) / Fraction(noise)


def test_every_draw_is_of_the_law_and_each_node_has_one() -> None:
    tree = Tree(0, 10, 6)
    law = gaussian_law(tree, 4.0)
    with recorded() as draws:
        noisy_quantiles(copies(tree, [1.0, 5.0, 9.0], 7), tree, law, [0.1, 0.5, 0.9], 0.9)
    assert [draw.law for draw in draws] == [law] * tree.levels
    assert [len(draw.noise) for draw in draws[:2]] == [7, 7]
    assert all(len(draw.noise) <= 7 * min(1 << level, 15) for level, draw in enumerate(draws[1:]))
    assert sum(len(draw.noise) for draw in draws) <= 7 * tree.most_draws(3)


def test_noise_is_added_to_the_steps_of_every_node() -> None:
    tree = Tree(0, 10, 3)
    law, bins = gaussian_law(tree, 4.0), copies(tree, [1.0, 5.0, 9.0], 7)
    seen = []
    walk = trees._walk

    def spied(bins: Bins, tree: Tree, law: TreeLaw, walks: object, noise: trees._Noise) -> Any:
        with recorded() as draws:
            seen.append((noise.add(bins.totals, np.arange(len(bins))) - bins.totals, draws[0].noise))
        return walk(bins, tree, law, walks, noise)  # type: ignore[arg-type]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(trees, "_walk", spied)
        noisy_quantiles(bins, tree, law, [0.5])
    ((added, noise),) = seen
    assert added.tolist() == noise.tolist()
    assert len(set(noise.tolist())) == 7


def test_the_sampler_is_exact_enough_for_all_draws_of_a_group() -> None:
    tree = Tree(0, 10, trees.MOST_HEIGHT)
    draws = tree.most_draws(trees.MOST_QUANTILES)
    assert draws < 2**13
    for law in (gaussian_law(tree, 3.0), laplace_law(tree, 3.0)):
        assert draws * sampler_error(law) < Fraction(1, 2**100)


REACH = 5


def output_law(weights: list[int], scale: Fraction, silent: tuple[int, ...] = ()) -> Counter[float]:
    """All published numbers of one group with four bins, with their probabilities, from all noises up to REACH."""
    tree = Tree(0, 4, 2, step_bits=0)
    values = np.arange(-REACH, REACH + 1)
    mass = np.exp(-np.abs(values) / float(scale)) * math.tanh(1 / (2 * float(scale)))
    noises = np.array(list(product(values, repeat=4)))  # of the total, the root, its left and its right child
    probability = np.array([math.prod(row) for row in product(mass, repeat=4)])
    depth = iter(range(3))

    def draw(law: TreeLaw, nodes: NDArray[np.int64]) -> NDArray[np.int64]:
        level = next(depth)
        if level in silent:
            return np.zeros(len(nodes), np.int64)
        return noises[nodes, level] if level < 2 else noises[nodes // 2, 2 + nodes % 2]

    groups = len(noises)
    bins = bins_of_records(groups, np.repeat(np.arange(groups), 4), np.tile(range(4), groups), np.tile(weights, groups))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(trees, "_draw", draw)
        patch.setattr(trees, "WALKS_AT_ONCE", 1 << 40)
        found = noisy_quantiles(bins, tree, DiscreteLaplace(scale), [0.3, 0.5], 0.5)
    assert found.low is not None
    assert found.high is not None
    told = np.vstack([found.values, found.std_errors, found.low, found.high])
    names = np.round(np.sqrt([2, 3, 5, 7, 11, 13, 17, 19]) @ told, 9)  # a number for each set of published numbers
    outputs, where = np.unique(names, return_inverse=True)
    return Counter(dict(zip(outputs.tolist(), np.bincount(where, probability).tolist(), strict=True)))


def excess(one: Counter[float], other: Counter[float], epsilon: float) -> float:
    """By how much the first law exceeds e^epsilon times the second one."""
    return sum(max(0.0, p - math.exp(epsilon) * other[output]) for output, p in one.items())


@pytest.mark.parametrize("place", [0, 2])
def test_the_law_of_what_is_published_on_neighbours(place: int) -> None:
    """Discrete Laplace noise of scale 1/2 on three levels: a pure epsilon of 6, up to noises that have no
    counterpart below REACH on the other side."""
    scale, epsilon = Fraction(1, 2), 6.0
    weights = [1, 0, 2, 0]
    more = [weight + (index == place) for index, weight in enumerate(weights)]
    alone = 4 * 2 * math.exp(-2 * REACH) / (1 + math.exp(-2))
    laws = [output_law(counts, scale) for counts in (weights, more)]
    tree = Tree(0, 4, 2, step_bits=0)
    assert tree.levels * tree.sensitivity_steps / DiscreteLaplace(scale).scale == epsilon
    for one, other in (laws, laws[::-1]):
        assert abs(1 - one.total()) < alone
        assert excess(one, other, epsilon) < alone
        assert excess(one, other, 1.5) > 0.01  # the attack sees something
    broken = [
        max(excess(one, other, epsilon), excess(other, one, epsilon))
        for silent in range(3)
        for one, other in [[output_law(counts, scale, (silent,)) for counts in (weights, more)]]
    ]
    assert min(broken) > 10 * alone  # the noise of any one level left out


# What is told about the error.


@pytest.mark.parametrize("miss", [0.2, 0.05, 0.004, 1e-4])
def test_tails_of_sums_of_laplace_noise(miss: float) -> None:
    """Against exact tails: weighted sums of Laplace noises have a product of 1/(1 + (c t)^2) as characteristic function."""
    reach = critical_value(DiscreteLaplace(Fraction(1)), miss)
    frequencies = np.arange(1, 1 << 16) * 1e-3
    for squares in ([1.0], [0.9, 0.1], [0.5, 0.5], [0.5, 0.25, 0.125, 0.125], [1 / 12] * 12, [0.7] + [0.03] * 10):
        transform = np.prod([1 / (1 + square * frequencies**2 / 2) for square in squares], axis=0)
        tail = 0.5 - float(np.sum(transform * np.sin(frequencies * reach) / frequencies)) * 1e-3 / math.pi
        tail -= reach * 1e-3 / (2 * math.pi)  # the trapezium at 0
        assert tail < miss * (1 + 1e-6) + 1e-6
    assert reach < 1.25 * critical_value(DiscreteLaplace(Fraction(1)), 1.25 * miss)
    assert critical_value(RoundedGaussian(Fraction(1), 0), 0.025) == pytest.approx(1.959964, abs=1e-5)


SHAPES = {
    "empty": [],
    "one": [3.0],
    "tiny": [1.0, 40.0, 41.0],
    "one bin": [62.0] * 60,
    "two points": [10.0] * 40 + [90.0] * 40,
    "ties at the end": [0.0] * 50 + [100.0] * 50,
    "spread": [float(value) for value in np.exp(np.linspace(-2, 4.6, 120))],
}


def misses(shape: str, laplace: bool, groups: int, drawn_more: int = 1, height: int = 6) -> NDArray[np.float64]:
    """How often intervals of level 0.9 miss the quantiles 0.1, 0.5 and 0.9, at worst."""
    tree = Tree(0, 100, height)
    told = laplace_law(tree, 2.0) if laplace else gaussian_law(tree, 3.0)
    law: TreeLaw = laplace_law(tree, 2.0 * drawn_more) if laplace else gaussian_law(tree, 3.0 * drawn_more)
    values, p = SHAPES[shape], (0.1, 0.5, 0.9)
    with pytest.MonkeyPatch.context() as patch:
        original = trees._draw
        patch.setattr(trees, "_draw", lambda _, nodes: original(law, nodes))
        found = drawn(copies(tree, values, groups), tree, told, p, 0.9, seed=groups)
    assert found.low is not None
    assert found.high is not None
    weights = Counter(tree.bins_of(values).tolist()) or Counter([0])
    at = np.array([tree.lower + quantile_bin(weights, q) * tree.resolution for q in p])[:, None]
    return np.asarray(((found.low > at) | (found.high < at + tree.resolution * 0.999)).mean(axis=1))


@pytest.mark.parametrize("laplace", [False, True])
@pytest.mark.parametrize("shape", SHAPES)
def test_intervals_cover_as_often_as_they_say(shape: str, laplace: bool) -> None:
    """Six stds of 1,500 trials: a false alarm in 10^8 or so."""
    assert misses(shape, laplace, 1500).max() <= 0.1 + 6 * math.sqrt(0.09 / 1500)


def test_intervals_are_not_wide_for_no_reason() -> None:
    """With four times the noise that they were told of, they miss too often."""
    assert misses("spread", False, 400, drawn_more=4).max() > 0.2
    assert misses("empty", False, 3000).max() > 0.03


@pytest.mark.statistical
@pytest.mark.parametrize("laplace", [False, True])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("height", [1, 3, 12])
def test_intervals_cover_at_length(shape: str, laplace: bool, height: int) -> None:
    """Six stds of 30,000 trials."""
    assert misses(shape, laplace, 30_000, height=height).max() <= 0.1 + 6 * math.sqrt(0.09 / 30_000)


def test_tiny_groups_tell_that_they_tell_nothing() -> None:
    tree = Tree(0, 100)
    for values in ([], [50.0]):
        found = drawn(copies(tree, values, 300), tree, gaussian_law(tree, 10.0), (0.5,), 0.95)
        assert found.low is not None
        assert found.high is not None
        assert np.mean(found.high - found.low == 100) > 0.9
        assert np.median(found.std_errors) > 25


def test_standard_errors_are_the_size_of_errors() -> None:
    tree = Tree(0, 100)
    values = [float(value) for value in np.linspace(5, 60, 300)]
    found = drawn(copies(tree, values, 1500), tree, gaussian_law(tree, 3.0), (0.25, 0.5, 0.75))
    rms = np.sqrt(np.mean((found.values - np.quantile(values, [0.25, 0.5, 0.75])[:, None]) ** 2, axis=1))
    ratio = np.median(found.std_errors, axis=1) / rms
    assert (ratio > 0.75).all()
    assert (ratio < 1.4).all()


# What is refused.


@pytest.mark.parametrize(
    ("shape", "words"),
    [
        ((1.0, 1.0), "lower < upper"), ((0.0, math.inf), "finite bounds"), ((-1e300, 1e300), "ordinary size"),
        ((1e15, 1e15 + 1), "not so far from zero"), ((0.0, 1.0, 0), "height"), ((0.0, 1.0, 21), "height"),
        ((0.0, 1.0, 4, 0), "records"), ((0.0, 1.0, 4, 2**17), "records"), ((0.0, 1.0, 4, 1, 21), "step_bits"),
    ],
)  # fmt: skip
def test_bad_trees(shape: tuple[float, ...], words: str) -> None:
    with pytest.raises(InvalidParameter, match=words):
        Tree(*shape)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("law", "p", "level", "words"),
    [
        (TINY, (), None, "probabilities"), (TINY, (0.0,), None, "probabilities"), (TINY, (0.5, 1.0), None, "probabilities"),
        (TINY, (math.nan,), None, "probabilities"), (TINY, (0.5,) * 65, None, "probabilities"),
        (TINY, (0.5,), 1.0, "level"), (RoundedGaussian(Fraction(3), 2), (0.5,), None, "whole steps"),
    ],
)  # fmt: skip
def test_bad_requests(law: TreeLaw, p: tuple[float, ...], level: float | None, words: str) -> None:
    tree = Tree(0, 1, 2)
    with pytest.raises(InvalidParameter, match=words):
        noisy_quantiles(copies(tree, [0.5], 1), tree, law, p, level)
