"""Sparsity: neighbours stay neighbours, and counts are off by no more than is stated."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dphist.engines.duckdb.engine import DuckDBEngine
from dphist.engines.duckdb.sketch import MisraGries
from dphist.engines.histogram import ContributionBounds, Histogram
from dphist.engines.query import GroupByQuery, Key
from dphist.errors import InvalidParameter
from example_numbers import examples

SCHEMA = pa.schema([("item", pa.int64())])
units = st.lists(st.sets(st.integers(0, 9), min_size=1), max_size=25)


def counted(people: list[set[int]]) -> Histogram:
    totals = Counter(item for groups in people for item in groups)
    return Histogram(
        pa.table({"item": pa.array(list(totals), pa.int64())}),
        np.array(list(totals.values()), dtype=np.int64),
        ContributionBounds(),
    )


def sketched(people: list[tuple[int, set[int]]], sparsity: int, blocks: int) -> dict[int, int]:
    sketch = MisraGries(sparsity, SCHEMA)
    for block in range(blocks):
        exact = counted([groups for number, groups in people if number % blocks == block])
        sketch.add(exact.keys, exact.counts)
    return as_dict(sketch.histogram())


def as_dict(histogram: Histogram) -> dict[int, int]:
    return dict(zip(histogram.keys["item"].to_pylist(), histogram.counts.tolist(), strict=True))


def assert_monotonic_neighbours(one: dict[int, int], other: dict[int, int]) -> None:
    differences = {one.get(item, 0) - other.get(item, 0) for item in one.keys() | other.keys()}
    assert differences <= {0, 1} or differences <= {0, -1}


@examples(100)
@given(
    people=units,
    more=st.sets(st.integers(0, 9), min_size=1),
    sparsity=st.integers(1, 6),
    blocks=st.integers(1, 5),
    number=st.integers(0, 4),
)
def test_a_sketch_keeps_neighbours_close_and_states_its_error(
    people: list[set[int]], more: set[int], sparsity: int, blocks: int, number: int
) -> None:
    numbered = list(enumerate(people))
    one = sketched(numbered, sparsity, blocks)
    assert_monotonic_neighbours(one, sketched([*numbered, (number, more)], sparsity, blocks))
    assert len(one) <= sparsity
    worst = sum(map(len, people)) // (sparsity + 1)
    for item, count in as_dict(counted(people)).items():
        assert count - worst <= one.get(item, 0) <= count


@pytest.mark.parametrize("sparsity", range(1, 8))
def test_a_reduction_subtracts_the_next_largest_count(sparsity: int) -> None:
    counts = [9, 7, 5, 5, 3, 1]
    sketch = MisraGries(sparsity, SCHEMA)
    sketch.add(pa.table({"item": range(len(counts))}), np.array(counts, np.int64))
    cut = counts[sparsity] if sparsity < len(counts) else 0
    assert as_dict(sketch.histogram()) == {item: count - cut for item, count in enumerate(counts) if count > cut}
    assert len(sketch.histogram()) <= sparsity


def test_blocks_by_arrival_would_break_it() -> None:
    """The reason for hashing: a newcomer at the front pushes others into other blocks, and a counter moves by two."""
    people: list[set[int]] = [{3}, {0, 3}, {1}]

    def by_arrival(everyone: list[set[int]]) -> dict[int, int]:
        return sketched([(position // 2, groups) for position, groups in enumerate(everyone)], 1, 2)

    assert by_arrival(people) == {}
    assert by_arrival([{3}, *people]) == {3: 2}


def test_the_engine_sketches_by_units() -> None:
    people = [{item for item in range(12) if (person * 7919 + item * 104729) % 12 >= item} for person in range(300)]
    rows = [(person, item) for person, groups in enumerate(people) for item in groups for _ in range(2)]
    table = pa.table({"user": [person for person, _ in rows], "item": [item for _, item in rows]})
    query = GroupByQuery("user", (Key("item"),))
    exact = as_dict(counted(people))
    assert as_dict(DuckDBEngine().sketch(table, query, 12)) == exact
    sketch = as_dict(DuckDBEngine().sketch(table, query, 4, seed=3))
    assert 0 < len(sketch) <= 4
    worst = sum(map(len, people)) // 5
    assert all(exact[item] - worst <= sketch.get(item, 0) <= exact[item] for item in exact)
    gone = table.filter(pa.compute.not_equal(table["user"], 5))
    assert_monotonic_neighbours(sketch, as_dict(DuckDBEngine().sketch(gone, query, 4, seed=3)))
    with pytest.raises(InvalidParameter, match="a sketch of counts alone"):
        DuckDBEngine().sketch(table, GroupByQuery("user", (Key("item"),), want_total=True), 4)
    empty = DuckDBEngine().sketch(table.slice(0, 0), query, 4)
    assert len(empty) == 0
