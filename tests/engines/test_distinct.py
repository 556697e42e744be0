"""Distinct values per group: the loop that defines them on every engine, the theorem, and what one unit can change."""

from __future__ import annotations

import datetime as dt
import hashlib
import itertools
import math
from collections.abc import Hashable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet
import pytest
from engine_oracle import canonical, every_engine, groups_of, quick
from hypothesis import example, given, settings
from hypothesis import strategies as st

from dphist.aggregates.distinct import DistinctOfUnit
from dphist.aggregates.total import SumOfUnit
from dphist.engines.base import Engine
from dphist.engines.dialect import DUCKDB as IN_DUCKDB
from dphist.engines.dialect import SPARK, Dialect
from dphist.engines.distinct import explained_sql
from dphist.engines.duckdb.engine import DuckDBEngine
from dphist.engines.duckdb.pairs import count_distinct
from dphist.engines.histogram import ContributionBounds
from dphist.engines.query import GroupByQuery, Key
from dphist.errors import InvalidParameter
from example_numbers import examples
from spark_sessions import LazySpark, frame, session

Row = tuple[Any, Any, Any]
"""Unit, key, value."""

DUCKDB = DuckDBEngine()
TYPES = pa.schema([("unit", pa.int64()), ("key", pa.string()), ("x", pa.float64())])


def table(rows: Sequence[Row]) -> pa.Table:
    return pa.table({name: [row[i] for row in rows] for i, name in enumerate(TYPES.names)}, schema=TYPES)


def query(most: int, **more: Any) -> GroupByQuery:
    return GroupByQuery(unit="unit", by=(Key("key"),), measures=(DistinctOfUnit("x", 0, most),), **more)


def counted(engine: Engine, rows: Sequence[Row], most: int, groups: int, seed: int = 5, **more: Any) -> dict[Any, Any]:
    found = groups_of(engine.histogram(table(rows), query(most, **more), ContributionBounds(groups), seed=seed))
    return {key: numbers for (key,), numbers in found.items()}


class Hashes:
    """The keyed hashes of an engine, by which it orders pairs and values."""

    def __init__(self, engine: Engine, rows: Sequence[Row], seed: int) -> None:
        dialect: Dialect = SPARK if isinstance(engine, LazySpark) else IN_DUCKDB
        clean = table([(unit, key, canonical(x)) for unit, key, x in rows if unit is not None])
        turn, order = dialect.priority(seed, ["unit", "key"]), dialect.priority(seed, ["unit", "key", "x"])
        sql = f"SELECT unit, key, x, {turn} AS turn, {order} AS preference FROM"
        if isinstance(engine, LazySpark):
            frame(clean).createOrReplaceTempView("hashed_rows")
            found = session().sql(f"{sql} hashed_rows").toArrow()
        else:
            with duckdb.connect() as connection:
                connection.register("hashed_rows", clean)
                found = connection.sql(f"{sql} hashed_rows").to_arrow_table()
        self.turn = {(row["unit"], row["key"]): row["turn"] for row in found.to_pylist()}
        self.preference = {(row["unit"], row["key"], row["x"]): row["preference"] for row in found.to_pylist()}


def one_after_the_other(lists: Sequence[Sequence[Hashable]], most: int) -> set[Hashable]:
    """The definition: each takes the first `most` of its values that nobody took before."""
    taken: set[Hashable] = set()
    for own in lists:
        taken |= set([value for value in own if value not in taken][:most])
    return taken


def _sortable(key: Any) -> tuple[bool, Any]:
    return key is None, "" if key is None else key


def expected(engine: Engine, rows: Sequence[Row], most: int, groups: int, seed: int = 5) -> dict[Any, tuple[int, int]]:
    """Units and taken values of each group, by the definition."""
    hashes = Hashes(engine, rows, seed)
    values: dict[Any, dict[Any, set[Any]]] = {}
    for unit, key, x in rows:
        if unit is not None:
            values.setdefault(unit, {}).setdefault(key, set()).add(canonical(x))
    of_groups: dict[Any, list[tuple[Any, set[Any]]]] = {}
    for unit, own in values.items():
        for key in sorted(own, key=lambda key: (hashes.turn[unit, key], _sortable(key)))[:groups]:
            of_groups.setdefault(key, []).append((unit, own[key] - {None}))
    found = {}
    for key, pairs in of_groups.items():
        acting = sorted(pairs, key=lambda pair: (len(pair[1]) > most, hashes.turn[pair[0], key], pair[0]))
        lists = [sorted(own, key=lambda x: (hashes.preference[unit, key, x], x)) for unit, own in acting]
        found[key] = len(pairs), len(one_after_the_other(lists, most))
    return found


CASES, IN_A_CASE = 80, 7


def many_crowds(seed: int) -> list[Row]:
    """Small tables side by side: each has units and groups of its own."""
    rows: list[Row] = []
    for case in range(CASES):
        noise = iter(hashlib.shake_256(f"{seed} {case}".encode()).digest(101))
        size = 5 + next(noise) % 29
        for unit, key, value in zip(*[noise] * 3, strict=False):
            rows.append((case * IN_A_CASE + unit % IN_A_CASE, f"{case} {'aab'[key % 3]}", float(value % 6)))
        del rows[len(rows) - 33 + size :]
    return rows


rows_of_few_values = st.lists(
    st.tuples(
        st.sampled_from([None, *range(4)]),
        st.sampled_from(["a", "a", "b", None]),
        st.sampled_from([None, math.nan, -0.0, 0.0, 1.0, 2.0, 3.0, 4.5, math.inf]),
    ),
    min_size=10,
    max_size=60,
)


@examples(8)
@given(rows=rows_of_few_values, most=st.integers(1, 3), groups=st.integers(1, 3))
def test_values_are_taken_as_the_loop_that_defines_them_takes_them(rows: list[Row], most: int, groups: int) -> None:
    assert counted(DUCKDB, rows, most, groups) == expected(DUCKDB, rows, most, groups)


@pytest.fixture(scope="module")
def crowded() -> list[Row]:
    """Many units with many of the same values: the election has work to do."""
    return [(u, "ab"[(u * v) % 2], float((u * u + 3 * v * v + v) % 23)) for u in range(25) for v in range(12)]


@every_engine
def test_crowds_are_served_as_the_loop_serves_them(engine: Engine) -> None:
    """Many small tables at once, with nulls, NaN and both zeros among the values, and a null among the keys."""
    special = {0.0: -0.0, 5.0: None, 4.0: math.nan}
    rows: list[Row] = [(None, "0 a", 9.0)]
    for place, (unit, key, value) in enumerate(many_crowds(7)):
        rows.append((unit, None if key == "3 a" else key, special.get(value, value) if place % 4 == 0 else value))
    if isinstance(engine, LazySpark):  # which takes a second for each round of an election
        rows = rows[:90]
    found = counted(engine, rows, 2, 1)
    assert found == expected(engine, rows, 2, 1)
    assert None in found


@every_engine
def test_who_has_few_values_is_counted_as_sql_counts(engine: Engine) -> None:
    """Values of any simple type; listed groups without records have 0, others are left out."""
    day = dt.date(2024, 1, 1)
    columns: dict[str, pa.Array] = {
        "text": pa.array(["x", "X", "x", None, "", "y", "x"]),
        "day": pa.array([day, day, None, dt.date(2024, 1, 2), day, day, day]),
    }
    if quick(engine):
        del columns["day"]
    keys = ["a", "a", "a", "b", "b", "b", "other"]
    source = pa.table({"unit": [1, 1, 2, 2, 3, 4, 5], "key": keys, **columns})
    measures = tuple(DistinctOfUnit(name, 0, 2) for name in columns)
    asked = GroupByQuery("unit", (Key("key"),), measures, public_keys=pa.table({"key": ["a", "b", "empty"]}))
    found = groups_of(engine.histogram(source, asked, ContributionBounds(3)))
    for (key,), (_, *numbers) in found.items():
        for column, number in zip(columns.values(), numbers, strict=True):
            values = {value for value, own in zip(column.to_pylist(), keys, strict=True) if own == key}
            assert number == len(values - {None})
    assert set(found) == {("a",), ("b",), ("empty",)}


@settings(max_examples=1, deadline=None)
@given(tables=st.integers(0, 10**9), most=st.integers(1, 3), groups=st.integers(1, 2), seed=st.integers(0, 2**64 - 1))
@example(tables=1, most=1, groups=1, seed=1)
@example(tables=2, most=2, groups=2, seed=2)
@example(tables=3, most=3, groups=2, seed=3)
def test_one_unit_less_takes_away_at_most_so_many_values_of_its_own_groups(
    tables: int, most: int, groups: int, seed: int
) -> None:
    """One unit of each of many small tables at once, since no two of them share a group."""
    rows = many_crowds(tables)
    whole = counted(DUCKDB, rows, most, groups, seed)
    moved = set()
    for number in range(IN_A_CASE):
        less = counted(DUCKDB, [row for row in rows if row[0] % IN_A_CASE != number], most, groups, seed)
        assert set(less) <= set(whole)
        for key, (units, taken) in whole.items():
            units_left, taken_left = less.get(key, (0, 0))
            assert units - units_left in (0, 1)
            assert 0 <= taken - taken_left <= most * (units - units_left)
            moved.add(taken - taken_left)
    assert max(moved) == most, "the bound is met, so there were cases that could have broken it"


@cache
def _every_list(values: int) -> list[tuple[int, ...]]:
    return [order for size in range(values + 1) for order in itertools.permutations(range(values), size)]


@pytest.mark.parametrize(("pairs", "values", "most"), [(3, 3, 1), (2, 4, 1), (2, 4, 2)])
def test_the_theorem_on_every_small_case(pairs: int, values: int, most: int) -> None:
    """T is in T', and T' has at most `most` more; nothing less is true."""
    largest = 0
    for lists in itertools.product(_every_list(values), repeat=pairs):
        whole = one_after_the_other(lists, most)
        for place in range(pairs):
            less = one_after_the_other(lists[:place] + lists[place + 1 :], most)
            assert less <= whole
            largest = max(largest, len(whole) - len(less))
    assert largest == most


def test_a_pair_takes_as_many_as_it_may() -> None:
    """A pair with room for two takes two, also where another wants one of them first."""
    rows: list[Row] = [(unit, "a", float(value)) for unit, value in [(1, 1), (1, 2), (1, 3), (2, 2), (2, 3), (2, 4)]]
    assert counted(DUCKDB, rows, 2, 1)["a"] == (2, 4)
    assert counted(DUCKDB, rows, 1, 1)["a"] == (2, 2)


@pytest.mark.parametrize("most", [1, 2, 5])
def test_the_election_in_arrays_is_that_in_sql(most: int, crowded: list[Row]) -> None:
    found = []
    for in_memory in (True, False):
        with DUCKDB.open(table(crowded), query(most), seed=3) as records:
            name = count_distinct(records, ContributionBounds(2), in_memory=in_memory)[1]
            found.append(records.connection.sql(f"SELECT * FROM {name} ORDER BY ALL").fetchall())
    assert found[0] == found[1]
    assert len(found[0]) == 2


def test_rows_in_another_order_give_the_same_values(crowded: list[Row]) -> None:
    assert counted(DUCKDB, crowded, 2, 2) == counted(DUCKDB, crowded[::-1], 2, 2)


def test_sums_beside_distinct_values_stay_as_they_are(crowded: list[Row]) -> None:
    rows = crowded[:60]
    total = SumOfUnit("x", 0, 100)
    both = (DistinctOfUnit("x", 0, 2), total)
    found = [
        DUCKDB.histogram(table(rows), GroupByQuery("unit", (Key("key"),), measures), ContributionBounds(1), seed=9)
        for measures in (both, (total,))
    ]
    sums = [dict(zip(one.keys["key"].to_pylist(), one.sums["sum_x"].tolist(), strict=True)) for one in found]
    assert sums[0] == sums[1]


@pytest.mark.parametrize("form", ["csv", "reader", "parquet"])
def test_a_source_that_can_be_read_only_once_is_read_once(form: str, crowded: list[Row], tmp_path: Path) -> None:
    whole = table(crowded)
    source: Any = whole.to_reader() if form == "reader" else tmp_path / f"rows.{form}"
    if form == "csv":
        lines = [f"{u},{k},{x}" for u, k, x in crowded]
        source.write_text("\n".join(["unit,key,x", *lines]) + "\n")
    elif form == "parquet":
        pa.parquet.write_table(whole, source)
    found = DUCKDB.histogram(source, query(50), ContributionBounds(2))
    plain = {(key,): len({x for _, other, x in crowded if other == key}) for key in "ab"}
    assert {key: numbers[1] for key, numbers in groups_of(found).items()} == plain


def test_bounds_are_whole_and_from_zero() -> None:
    for lower, upper in ((0, 1.5), (1, 2), (0, 2**21), (-1, 1)):
        with pytest.raises(InvalidParameter):
            DistinctOfUnit("x", lower, upper)
    measure = DistinctOfUnit("x", 0, 4)
    assert (measure.centre, measure.step, measure.sensitivity_steps) == (0.0, 1.0, 4)


def test_the_sql_that_is_explained_names_every_step() -> None:
    with DUCKDB.open(table([(1, "a", 1.0)]), query(2), seed=0) as records:
        text = explained_sql(records.fields, ContributionBounds(3), IN_DUCKDB)
        assert text == records.explain(ContributionBounds(3)).split("\n", 3)[3]
    assert all(word in text for word in ("valued", "light", "contested", "taken_1", "place <= 3", "number > 2"))
