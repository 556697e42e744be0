"""What one unit adds to the counts: exact integers inside the bounds that the noise is for, in one class, on every engine."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from dphist.aggregates.measures import Lattice
from dphist.aggregates.total import SumOfUnit
from dphist.engines import memory
from dphist.engines.histogram import LocalGroups
from dphist.engines.memory import MemoryPairs, clip_factors, no_keys
from dphist.engines.query import GroupByQuery, Key
from dphist.mechanisms.counts import CountNoise
from dphist.mechanisms.tuning import FACTOR_BITS, LARGEST_CAP, LATTICE_BITS, ONE, SCALE_BITS, WEIGHT_BITS, Tuning
from dphist.run.counting import CENTRES, UPPER, Classes, Norms, choose_classes, edges, norms_from
from duckdb_pairs import open_pairs
from example_numbers import examples

Integers = NDArray[np.int64]
POWERS = pytest.mark.parametrize("power", [1, 2])
MOST, SHIFT = 1000, 3
"""The most steps of a unit in a group, and their refinement."""

NOISES = {1: CountNoise("laplace", 4.0, 2.5, 0.65), 2: CountNoise("gaussian", 4.0, 2.5, 0.65)}


@dataclass(frozen=True)
class Table:
    """Units with groups and steps; weights of all groups; bounds of classes and how many of them are light."""

    units: list[dict[int, int]]
    weights: list[int]
    bounds: list[int]
    light: int
    power: int

    def sums(self, units: Sequence[int]) -> dict[str, Integers]:
        """The columns of `by_class` for some of the units."""
        rows = [(unit, group, steps) for unit in units for group, steps in self.units[unit].items()]
        unit, group, steps = (np.array([row[i] for row in rows], np.int64) for i in range(3))
        pairs = MemoryPairs.of_rows(
            unit.astype(np.int32), group.astype(np.int32), len(self.units), len(self.weights), steps={"s": steps}
        )
        codes = np.flatnonzero(self.weights)
        given = LocalGroups(codes, {"weight": np.array(self.weights)[codes]}, no_keys)
        return dict(pairs.by_class(given, self.bounds, self.light, self.power, [SHIFT]).columns)


@st.composite
def tables(draw: st.DrawFn) -> Table:
    """Light and heavy units, weights of all sizes, bounds below and above the norms."""
    groups, power = draw(st.integers(1, 12)), draw(st.sampled_from([1, 2]))
    weights = draw(st.lists(st.sampled_from([0, 1, 7, 100, 1000, ONE - 1, ONE]), min_size=groups, max_size=groups))
    steps = st.integers(-MOST, MOST)
    unit = st.dictionaries(st.integers(0, groups - 1), steps, max_size=groups)
    units = draw(st.lists(unit, min_size=1, max_size=5))
    norms = [sum(weights[g] ** power for g in own) for own in units]
    near = st.sampled_from([*norms, *(norm - 1 for norm in norms), *(norm + 1 for norm in norms), ONE**power])
    some = st.one_of(near, st.integers(1, groups * ONE**power))
    bounds = sorted({max(bound, 1) for bound in draw(st.lists(some, min_size=1, max_size=5))})
    return Table(units, weights, bounds, draw(st.integers(1, len(bounds))), power)


def within(vector: Sequence[int], bound: int, power: int, step: int) -> bool:
    """Whether the norm of a vector, in steps of which `step` are 1, is at most the root of the bound. Exact."""
    return bool(sum(abs(x) ** power for x in vector) * ONE**power <= bound * step**power)


@examples(80)
@given(table=tables(), data=st.data())
def test_one_unit_moves_one_class_the_scaled_count_and_half_of_the_sums_within_bounds(
    table: Table, data: st.DataObject
) -> None:
    everybody = list(range(len(table.units)))
    one = data.draw(st.sampled_from(everybody))
    whole, without = table.sums(everybody), table.sums([unit for unit in everybody if unit != one])
    moved = {name: (whole[name] - without[name]).tolist() for name in whole}
    norm = sum(table.weights[group] ** table.power for group in table.units[one])
    place = next((i for i, bound in enumerate(table.bounds) if norm <= bound), len(table.bounds) - 1)
    vectors = [moved[f"class_{i}"] for i in range(1, len(table.bounds) + 1)]
    assert all(not any(vector) for i, vector in enumerate(vectors) if i != place)
    bound, step = table.bounds[place], 1 << LATTICE_BITS
    assert within(vectors[place], bound, table.power, step)
    if norm <= bound:  # nothing is lost
        kept = [table.weights[g] << (LATTICE_BITS - WEIGHT_BITS) for g in sorted(table.units[one]) if table.weights[g]]
        assert [x for x in vectors[place] if x] == kept
    else:
        least = (bound / norm) ** (1 / table.power) - 2.0**-FACTOR_BITS
        own = {g: table.weights[g] / ONE for g in table.units[one]}
        for group, x in zip(np.flatnonzero(table.weights).tolist(), vectors[place], strict=True):
            assert x / step >= own.get(group, 0.0) * least - 1 / step  # and no more is lost than rounding

    noise = NOISES[table.power]
    unscaled = 1 + table.light % len(table.bounds)  # another class than the last light one, if there is any
    classes = Classes(tuple(table.bounds), table.light, table.power, unscaled)
    factors = classes.factors(noise)
    scaled = [sum(f * vector[g] for f, vector in zip(factors, vectors, strict=True)) for g in range(len(vectors[0]))]
    assert within(scaled, table.bounds[unscaled - 1], table.power, step << SCALE_BITS)

    halves = (moved["light_1"], moved["heavy_1"])
    other = halves[place < table.light]
    assert not any(other)
    limits = (table.bounds[table.light - 1], table.bounds[-1])
    for half, limit in zip(halves, limits, strict=True):
        assert within(half, limit, table.power, MOST << SHIFT)


@settings(max_examples=200, deadline=None)
@given(bounds=st.lists(st.integers(1, LARGEST_CAP << 2 * WEIGHT_BITS), min_size=1, max_size=8, unique=True))
def test_factors_of_scaled_units_are_rounded_down(bounds: list[int]) -> None:
    """F/2^10 <= (C/C_l)^(1/q), C of a lighter class, and one step more would be too much. Those below it are not scaled."""
    ordered = sorted(bounds)
    for power, noise in NOISES.items():
        for whole in range(1, len(ordered) + 1):
            classes = Classes(tuple(ordered), 1, power, whole)
            to = ordered[whole - 1]
            assert classes.scaled_bound == to / ONE**power
            for factor, bound in zip(classes.factors(noise), ordered, strict=True):
                if bound <= to:
                    assert factor == 1 << SCALE_BITS
                    continue
                assert factor**power * bound <= to << SCALE_BITS * power
                assert (factor + 1) ** power * bound > to << SCALE_BITS * power


@settings(max_examples=200, deadline=None)
@given(norm=st.integers(0, 2**53), cap=st.integers(1, LARGEST_CAP << 2 * WEIGHT_BITS))
def test_units_beyond_the_last_bound_are_scaled_down_to_it(norm: int, cap: int) -> None:
    """floor(2^16 (cap/norm)^(1/q)), by integers."""
    for power in (1, 2):
        (factor,) = clip_factors(np.array([norm]), cap, power).tolist()
        if norm <= cap:
            assert factor == 1 << FACTOR_BITS
        else:
            assert factor**power * norm <= cap << FACTOR_BITS * power
            assert (factor + 1) ** power * norm > cap << FACTOR_BITS * power


@POWERS
def test_the_same_sums_by_hand(power: int) -> None:
    pairs = MemoryPairs.of_rows(np.array([0, 0, 1, 2], np.int32), np.array([0, 1, 1, 2], np.int32), 3, 4)
    weights = np.array([ONE, ONE, 0, 0])
    one = ONE**power
    assert pairs.norms(weights, np.array([0, one + 1]), power).tolist() == [1, 1]  # unit 2 has no weight
    codes = np.array([0, 1])
    whole = 2**LATTICE_BITS
    assert pairs.class_sums(weights, codes, [one, 2 * one], power, {})["units"].tolist() == [[0, whole], [whole, whole]]
    part = math.isqrt(2**31) if power == 2 else whole // 2
    assert pairs.class_sums(weights, codes, [one], power, {})["units"].tolist() == [[part], [whole + part]]


# Engines


SUM = SumOfUnit("value", -4.0, 4.0, lattice=Lattice(0.0, 2.0**-10))
QUERY = GroupByQuery("user", (Key("item"),), (SUM,))


def events(seed: int, units: int = 60, groups: int = 25) -> pa.Table:
    rng = np.random.default_rng(seed)
    unit = np.repeat(np.arange(units), np.ceil(rng.lognormal(1, 1, units)).astype(np.int64))
    item = (groups * rng.random(len(unit)) ** 2).astype(np.int64)
    return pa.table({"user": unit, "item": [f"i{k:03}" for k in item], "value": rng.normal(0, 3, len(unit))})


Answers = dict[str, dict[str, int] | list[int]]


def answers(table: pa.Table, power: int, bounds: Sequence[int], light: int, in_memory: bool) -> Answers:
    """Everything that counting asks of pairs, by key, for weights that are functions of the key."""
    with open_pairs(table, QUERY, seed=7) as pairs:
        coded = pairs.sampled(3, in_memory=in_memory)
        keys = pairs.keys_of(np.arange(coded.groups)).column("item").to_pylist()
        every = np.array([int(key[1:]) * 37 % (ONE + 1) for key in keys])
        codes = np.flatnonzero(every)[:-1]  # one is not selected
        weights = LocalGroups(codes, {"weight": every[codes]}, pairs.keys_of)
        found = coded.by_class(weights, bounds, light, power, [5])
        assert found.codes.tolist() == codes.tolist()
        named = {
            name: {keys[code]: int(value) for code, value in zip(codes, column, strict=True)}
            for name, column in found.columns.items()
        }
        return {**named, "norms": coded.norm_histogram(weights, edges(power), power).tolist()}


@POWERS
@pytest.mark.parametrize("bounds", [(0.5, 1, 2, 9), (3,), (0.01,), (1000,)])
def test_numpy_and_sql_give_the_same_bits_in_any_order(power: int, bounds: tuple[float, ...]) -> None:
    whole = [int(bound * ONE**power) for bound in bounds]
    for seed, light in ((1, 1), (2, len(whole)))[: len(whole)]:
        table = events(seed)
        expected = answers(table, power, whole, light, True)
        assert any(expected["class_1"])
        shuffled = table.take(pa.array(np.random.default_rng(seed).permutation(table.num_rows)))
        for other, in_memory in ((shuffled, True), (shuffled, False)):
            assert answers(other, power, whole, light, in_memory) == expected


@POWERS
def test_chunks_make_no_difference(power: int, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = [int(bound * ONE**power) for bound in (0.5, 1, 2, 9)]
    expected = answers(events(3), power, whole, 2, True)
    monkeypatch.setattr(memory, "CHUNK", 7)
    assert answers(events(3), power, whole, 2, True) == expected


# Classes


def norms_of(noisy: dict[int, float], std: float = 10.0, largest: float = 1e9) -> Norms:
    values = np.zeros(len(CENTRES))
    for place, units in noisy.items():
        values[place] = units
    return norms_from(values, std, largest, Tuning())


SHAPES: list[Callable[[], Norms]] = [
    lambda: norms_of({}),
    lambda: norms_of({0: 1000.0}),
    lambda: norms_of({6: 1000.0}),
    lambda: norms_of({6: 1000.0, 10: 500.0}),
    lambda: norms_of({len(CENTRES) - 1: 1000.0}),
    lambda: norms_of({6: 1000.0}, largest=1.0),
    lambda: norms_of({6: 1000.0}, largest=0.001),
    lambda: norms_of(dict.fromkeys(range(len(CENTRES)), -50.0)),
]


@POWERS
@pytest.mark.parametrize("shape", SHAPES)
def test_classes_are_octaves_below_the_largest_bound(shape: Callable[[], Norms], power: int) -> None:
    """Whatever the histogram is: increasing integers, none of them 0, none above what counting allows."""
    classes = choose_classes(shape(), power, Tuning())
    assert 1 <= classes.light <= classes.whole <= len(classes.bounds)
    assert classes.bounds[0] > 0
    assert np.all(np.diff(classes.bounds) > 0)
    assert classes.bounds[-1] <= LARGEST_CAP * ONE**power
    assert classes.sizes[1:] / classes.sizes[:-1] == pytest.approx(2.0, rel=0.05)


def test_classes_reach_above_what_was_seen() -> None:
    norms = norms_of({6: 1000.0, 7: 900.0, 10: 500.0})  # norms of 1, 2 and 16
    classes = choose_classes(norms, 2, Tuning())
    assert classes.sizes[0] == pytest.approx(UPPER[6], rel=1e-3)
    assert classes.sizes[-1] == pytest.approx(UPPER[11], rel=1e-3)
    assert (classes.light, classes.whole) == (2, 5)  # up to where half of all units are, and four fifths
    after_election = choose_classes(norms, 1, Tuning())
    assert after_election.whole == after_election.light == 2


def test_the_tail_of_norms_is_weighed_against_its_noise() -> None:
    """Buckets far above the noise stay; in the tail what is expected and what is seen are mixed, and the doubt is told."""
    noisy = np.zeros(len(CENTRES))
    noisy[6], noisy[7], noisy[9] = 5000.0, 2000.0, 60.0
    found = norms_from(noisy, 37.0, 256.0, Tuning())
    assert (found.first, found.last) == (6, 7)
    assert found.units[6] == 5000
    assert found.units[8] == pytest.approx(500 * (1 - 5e2**2 / (5e2**2 + 37**2)), rel=0.1)  # expected, but not there
    assert 5 < found.units[9] < 60
    assert np.all(found.units[CENTRES > 512] == 0)  # more than all weights together is impossible
    assert np.all(found.variances[CENTRES > 512] == 0)
    assert np.all(found.variances[6:8] == 37.0**2)
    assert np.all((found.variances[8:13] > 0) & (found.variances[8:13] <= 37.0**2))


def test_few_very_heavy_units_are_seen_together() -> None:
    """No bucket of theirs is far above its noise, all of them together are."""
    alone = norms_of({6: 5000.0}, std=37.0)
    together = norms_of({6: 5000.0, **dict.fromkeys(range(10, 18), 80.0)}, std=37.0)
    assert alone.last == 6
    assert together.last >= 10
