"""One unit with very many rows, groups or values: it takes what a public limit allows, and the others get what they had."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from engine_oracle import Engine, every_engine

import dphist as dp
from dphist.aggregates.distinct import DistinctOfUnit
from dphist.engines import distinct
from dphist.engines.dialect import DUCKDB
from dphist.engines.duckdb.engine import DuckDBEngine
from dphist.engines.histogram import ContributionBounds
from dphist.engines.memory import MemoryPairs
from dphist.engines.query import GroupByQuery, Key, PerformanceSettings
from dphist.engines.sql import plenty

GROUPS = pa.table({"user": ["ann"] * 3_000 + ["bob"] * 40, "group": [*range(3_000), *range(40)]})
VALUES = pa.table({"user": ["ann"] * 3_000 + ["bob"] * 40, "group": ["a"] * 3_040, "x": [*range(3_000), *range(40)]})
BY_GROUP = GroupByQuery("user", (Key("group"),))


@pytest.mark.parametrize("most", [1, 2, 40])
def test_dropping_groups_before_they_are_ordered_changes_no_sample(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    for seed in range(8):
        found = DuckDBEngine().histogram(GROUPS, BY_GROUP, ContributionBounds(most), seed=seed)
        with monkeypatch.context() as patch:
            patch.setattr("dphist.engines.duckdb.engine.DUCKDB", replace(DUCKDB, holds_windows=False))
            every = DuckDBEngine().histogram(GROUPS, BY_GROUP, ContributionBounds(most), seed=seed)
        assert found.counts.sum() == 2 * most
        assert sorted(map(str, found.keys.to_pylist())) == sorted(map(str, every.keys.to_pylist()))


@pytest.mark.parametrize("most", [1, 3])
def test_of_the_pairs_of_a_release_as_many_are_sampled(most: int) -> None:
    with DuckDBEngine().open(GROUPS, BY_GROUP, seed=3) as records, records.pairs() as pairs:
        assert pairs.histogram(ContributionBounds(most)).counts.sum() == 2 * most
        coded = pairs.sampled(most)
        assert isinstance(coded, MemoryPairs)
        assert coded.sampled is not None
        assert coded.sampled.sum() == 2 * most


@every_engine
def test_a_list_of_values_has_a_length(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 3,000 values some 114 are on it: enough for who is alone, and not for who wants more than others leave."""
    monkeypatch.setattr(distinct, "MOST_VALUES", 25)
    query = GroupByQuery("user", (Key("group"),), (DistinctOfUnit("x", 0, 30),))
    found = engine.histogram(VALUES, query, ContributionBounds(1), seed=1)
    assert found.sums["distinct_x"].tolist() == [60]
    with DuckDBEngine().open(VALUES, query, seed=1) as records:
        sql = distinct.valued_sql(records.fields, "given", 30, ContributionBounds(1), 1, DUCKDB)
        given = VALUES.rename_columns(["unit", "key_1", "value"])
        records.connection.register("given", given)
        of_ann = f"SELECT COUNT(*) FROM ({sql}) WHERE unit = 'ann'"
        (listed,) = records.connection.sql(of_ann).fetchall()[0]
    assert 0.7 * plenty(30) < listed < 1.4 * plenty(30)


def heavy(rows: int, kind: str) -> pa.Table:
    """One unit with so many rows, in one group or in as many."""
    others = 2_000
    groups = pa.array(np.arange(rows + others) % rows if kind == "groups" else np.zeros(rows + others, np.int64))
    users = pa.array(["ann"] * rows + [f"user {number}" for number in range(others)])
    return pa.table({"user": users, "group": groups, "x": np.arange(rows + others) * 1.5})


RUNS: dict[str, dict[str, Any]] = {
    "sum": {"max_groups": 2, "sums": {"x": (0, 1)}},
    "distinct": {"max_groups": 2, "distinct": {"x": 2}},
    "quantile": {"max_groups": 2, "quantiles": {"x": (0.5, 0, 100)}},
    "rounds": {"means": {"x": (0, 1)}},
    "select": {},
}


def run(name: str, table: pa.Table, memory: str) -> None:
    settings = PerformanceSettings(threads=2, memory_limit=memory)
    function = dp.select if name == "select" else dp.release
    function(table, unit="user", by="group", epsilon=1, delta=1e-9, settings=settings, **RUNS[name])


@pytest.mark.parametrize(("name", "kind"), [("sum", "groups"), ("distinct", "groups"), ("quantile", "rows")])
def test_a_release_of_one_heavy_unit_takes_little_memory(name: str, kind: str) -> None:
    run(name, heavy(*((2_000_000, kind) if kind == "rows" else (300_000, kind))), "30MB")


@pytest.mark.long
@pytest.mark.parametrize("kind", ["groups", "rows"])
@pytest.mark.parametrize("name", RUNS)
def test_a_release_of_ten_million_rows_of_one_unit_takes_little_memory(name: str, kind: str) -> None:
    run(name, heavy(10_000_000, kind), "400MB")
