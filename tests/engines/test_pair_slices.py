"""Sums over pairs are those of a loop over units: in memory for any slices and threads, in SQL, and from the records."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import groupby
from operator import itemgetter

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dphist.aggregates.measures import Lattice
from dphist.aggregates.total import SumOfUnit
from dphist.engines import memory
from dphist.engines.base import Integers
from dphist.engines.duckdb.pairs import SqlPairs
from dphist.engines.histogram import LocalGroups
from dphist.engines.memory import MemoryPairs
from dphist.engines.query import GroupByQuery, Key, PerformanceSettings
from dphist.mechanisms.tuning import FACTOR_BITS, LATTICE_BITS, NORM_BITS, ONE, WEIGHT_BITS
from duckdb_pairs import open_pairs

Units = list[dict[int, int]]
"""The steps of each unit in its groups; the first groups of a unit are its sample."""

EDGES = np.array([1, ONE // 2, ONE, 3 * ONE, 9 * ONE])
BOUNDS = (ONE**2, 3 * ONE**2)
MEASURE = SumOfUnit("value", -(2.0**20), 2.0**20, lattice=Lattice(0.0, 1.0))


def by_hand(units: Units, groups: int, most: int, weights: Integers) -> dict[str, list[int]]:
    """Integers of Python, unit after unit."""
    first, exact, shares = [0] * groups, [0] * groups, [0] * groups
    norms, degrees, covered = [0] * len(EDGES), [0] * 4, [0, 0]
    counts, sums = np.zeros((groups, 2), object), np.zeros((groups, 2), object)
    for unit in units:
        if sample := list(unit)[:most]:
            square = sum(int(weights[group]) ** 2 for group in sample)
            factor = math.isqrt((1 << 2 * NORM_BITS) // square) if square else 0
            for group in sample:
                first[group] = 1
                exact[group] += (int(weights[group]) * factor) >> (NORM_BITS - LATTICE_BITS)
        norm = sum(int(weights[group]) for group in unit)
        square = sum(int(weights[group]) ** 2 for group in unit)
        if norm:
            norms[max(sum(int(edge) <= norm for edge in EDGES) - 1, 0)] += 1
        degrees[min(max(len(unit), 1), 4) - 1] += 1
        covered[0 if norm else 1] += 1
        inside = square <= BOUNDS[-1]
        factor = 1 << FACTOR_BITS if inside else math.isqrt((BOUNDS[-1] << 2 * FACTOR_BITS) // square)
        for group, steps in unit.items():
            shares[group] += (1 << LATTICE_BITS) // len(unit)
            scaled = int(weights[group]) * factor
            class_ = 0 if square <= BOUNDS[0] else 1
            counts[group, class_] += scaled >> (WEIGHT_BITS + FACTOR_BITS - LATTICE_BITS)
            clipped = (abs(steps) * scaled) >> (WEIGHT_BITS + FACTOR_BITS)
            sums[group, class_] += clipped if steps >= 0 else -clipped
    chosen = np.flatnonzero(weights)
    return {
        "eligible": first, "exact": exact, "norms": norms, "degrees": degrees, "shares": shares, "covered": covered,
        "counts": counts[chosen].ravel().tolist(), "sums": sums[chosen].ravel().tolist(),
    }  # fmt: skip


def answers(pairs: MemoryPairs | SqlPairs, weights: Integers) -> dict[str, list[int]]:
    chosen = np.flatnonzero(weights)
    classes = pairs.class_sums(weights, chosen, BOUNDS, 2, dict.fromkeys(pairs.names, 0))
    return {
        "eligible": pairs.eligible().astype(int).tolist(), "exact": pairs.weighted_sums(weights).tolist(),
        "norms": pairs.norms(weights, EDGES, 1).tolist(), "degrees": pairs.degree_histogram(np.arange(1, 5)).tolist(),
        "shares": pairs.shares().columns["exact"].tolist(),
        "covered": list(pairs.coverage(LocalGroups(chosen, {}, pairs.keys_of))),
        "counts": classes["units"].ravel().tolist(),
        "sums": classes[pairs.names[0]].ravel().tolist(),
    }  # fmt: skip


def in_memory(units: Units, groups: int, most: int) -> MemoryPairs:
    rows = [
        (u, group, steps, place) for u, unit in enumerate(units) for place, (group, steps) in enumerate(unit.items())
    ]
    unit, group, steps, place = np.array(rows, np.int64).reshape(-1, 4).T
    pairs = MemoryPairs.of_rows(
        unit.astype(np.int32), group.astype(np.int32), len(units), groups, None, {"s": steps}, place.astype(np.int32)
    )
    return replace(pairs, sampled=np.minimum(pairs.degrees, most))


@settings(max_examples=60, deadline=None)
@given(
    units=st.lists(st.dictionaries(st.integers(0, 9), st.integers(-(2**30), 2**30), max_size=10), max_size=12),
    weights=st.lists(st.sampled_from([0, 1, 3, ONE // 3, ONE - 1, ONE]), min_size=10, max_size=10),
    most=st.integers(1, 10),
    chunk=st.integers(1, 40),
    threads=st.integers(1, 5),
    capacity=st.integers(1, 4),
)
def test_any_slices_and_threads_give_the_sums_of_a_loop(
    units: Units, weights: list[int], most: int, chunk: int, threads: int, capacity: int
) -> None:
    given_weights = np.array(weights, np.int64)
    one = in_memory(units, 10, most)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(memory, "CHUNK", chunk)
        several = replace(one, threads=threads)
        assert answers(several, given_weights) == by_hand(units, 10, most, given_weights)
        found = [several.votes(capacity, scores).tolist() for scores in (None, given_weights)]
    assert found == [one.votes(capacity, scores).tolist() for scores in (None, given_weights)]


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("chunk", [1, 50, 1 << 17])
def test_arrays_and_sql_give_the_sums_of_a_loop_over_the_records(
    chunk: int, threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Batches of a few pairs, as many as threads, of units with many and with few groups."""
    rng = np.random.default_rng(chunk)
    degrees = np.minimum(np.ceil(rng.lognormal(1, 1, 200)).astype(int), 40)
    units = [{int(group): int(rng.integers(-99, 99)) for group in rng.permutation(40)[:degree]} for degree in degrees]
    rows = [(u, group, float(steps)) for u, unit in enumerate(units) for group, steps in unit.items()]
    columns = zip(*(rows[place] for place in rng.permutation(len(rows))), strict=True)
    source = pa.table(dict(zip(("user", "item", "value"), map(list, columns), strict=True)))
    assert len({group for _, group, _ in rows}) == 40
    weights = rng.integers(0, ONE + 1, 40) * rng.integers(0, 2, 40)
    monkeypatch.setattr(memory, "CHUNK", chunk)
    monkeypatch.setattr("dphist.engines.duckdb.pairs.BATCH", chunk)
    query = GroupByQuery("user", (Key("item"),), (MEASURE,))
    with open_pairs(source, query, PerformanceSettings(threads=threads), seed=4) as table:
        in_sql = answers(table.sampled(7, in_memory=False), weights)
        sampled = "SELECT unit, group_code FROM coded JOIN units USING (unit_code) WHERE sampled"
        samples = [
            {group: units[u][group] for group in own}
            for u, own in _by_unit(table.connection.execute(sampled).fetchall())
        ]
    with open_pairs(source, query, PerformanceSettings(threads=threads), seed=4) as table:
        pairs = table.sampled(7, in_memory=True)
        assert isinstance(pairs, MemoryPairs)
        in_arrays = answers(pairs, weights)
    assert [len(sample) for sample in samples] == np.minimum(degrees, 7).tolist()
    expected = by_hand([{**sample, **unit} for sample, unit in zip(samples, units, strict=True)], 40, 7, weights)
    assert in_sql == in_arrays == expected


def _by_unit(rows: list[tuple[int, int]]) -> list[tuple[int, list[int]]]:
    """The groups of each unit, unit after unit."""
    return [(unit, [group for _, group in own]) for unit, own in groupby(sorted(rows), key=itemgetter(0))]
