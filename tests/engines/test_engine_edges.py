"""Sources and settings at the edges: types that are no key, wide tables, long headers, too many threads, too much memory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from engine_oracle import Engine, every_engine, groups_of

from dphist.engines.duckdb.engine import DuckDBEngine
from dphist.engines.duckdb.source import attach
from dphist.engines.histogram import ContributionBounds
from dphist.engines.parser import LONGEST_EXPRESSION, read_expression
from dphist.engines.query import EngineOptions, GroupByQuery, Key, PerformanceSettings
from dphist.errors import InvalidParameter, UnreadableSource

ONE = ContributionBounds(1)
NESTED = pa.table({
    "user": ["a", "b"],
    "list": [[1], [2]],
    "lists": [[[1]], [[2]]],
    "struct": [{"a": 1}, {"a": 2}],
    "map": pa.array([[("a", 1)], [("b", 2)]], pa.map_(pa.string(), pa.int64())),
})  # fmt: skip


@every_engine
def test_nested_keys_are_refused_by_name_with_a_hint(engine: Engine, tmp_path: Path) -> None:
    pq.write_table(NESTED, tmp_path / "nested.parquet")
    for name in NESTED.column_names[1:]:
        with pytest.raises(InvalidParameter, match=f"'{name}' to be of a simple type.*Hint: ") as caught:
            engine.histogram(tmp_path / "nested.parquet", GroupByQuery("user", (Key(name),)), ONE)
        assert caught.value.__cause__ is None
        with pytest.raises(InvalidParameter, match=f"'{name}' to be of a simple type.*Hint: "):
            engine.histogram(tmp_path / "nested.parquet", GroupByQuery(name, (Key("user"),)), ONE)


def test_nested_keys_of_a_table_in_memory_are_refused_too() -> None:
    for name in NESTED.column_names[1:]:
        with pytest.raises(InvalidParameter, match=f"'{name}' to be of a simple type.*Hint: "):
            DuckDBEngine().histogram(NESTED, GroupByQuery("user", (Key(name),)), ONE)


@pytest.mark.parametrize("size", [131_071, 131_072, 140_000, 1_000_000])
@pytest.mark.parametrize("quote", ["", '"'])
def test_a_header_may_have_fields_of_any_length(size: int, quote: str, tmp_path: Path) -> None:
    """Python's reader ends at 131,072 letters unless it is told otherwise; the line may have a MiB."""
    (tmp_path / "long.csv").write_text(f"user,key,{quote}{'x' * size}{quote}\na,b,1\n")
    found = groups_of(DuckDBEngine().histogram(tmp_path / "long.csv", GroupByQuery("user", (Key("key"),)), ONE))
    assert found == {("b",): (1,)}


def test_a_header_beyond_the_limit_is_one_error(tmp_path: Path) -> None:
    (tmp_path / "long.csv").write_text(f"user,key,{'x' * 2**20}\na,b,1\n")
    with pytest.raises(UnreadableSource, match="first line of at most 1 MiB"):
        DuckDBEngine().histogram(tmp_path / "long.csv", GroupByQuery("user", (Key("key"),)), ONE)


def test_only_the_needed_columns_of_a_wide_file_are_looked_at(tmp_path: Path) -> None:
    """DuckDB took over a minute and 1.6 GB to describe a hundred thousand columns."""
    wide = {"user": ["a"], "key": ["b"], **{f"c{i}": [i] for i in range(3_000)}}
    path = tmp_path / "wide.parquet"
    pq.write_table(pa.table(wide), path)
    with duckdb.connect() as connection:
        attached = attach(connection, path, ["USER", "key"])
        assert list(attached.columns) == list(wide)
        assert {name for name, kind in attached.columns.items() if kind} == {"user", "key"}
        assert len(connection.execute("DESCRIBE source").fetchall()) == 2
    assert groups_of(DuckDBEngine().histogram(path, GroupByQuery("user", (Key("key"),)), ONE)) == {("b",): (1,)}
    with pytest.raises(InvalidParameter, match="a column that exists, got 'nothing'"):
        DuckDBEngine().histogram(path, GroupByQuery("user", (Key("nothing"),)), ONE)


def test_columns_of_a_file_that_differ_in_case_are_told_apart_or_refused(tmp_path: Path) -> None:
    path = tmp_path / "twice.parquet"
    pq.write_table(pa.table([["a"], ["b"], ["c"], ["d"]], names=["user", "key", "Key", "other"]), path)
    for name in ("key", "Key"):
        with pytest.raises(UnreadableSource, match="one column 'key'"):
            DuckDBEngine().histogram(path, GroupByQuery("user", (Key(name),)), ONE)
    assert groups_of(DuckDBEngine().histogram(path, GroupByQuery("user", (Key("other"),)), ONE)) == {("d",): (1,)}


@pytest.mark.parametrize("threads", [0, -1, 2**31, 2**31 - 1, 1_025, 2**63, 10**400, 1.5, "2", True])
def test_threads_have_a_public_limit(threads: Any) -> None:
    with pytest.raises(InvalidParameter, match="threads"):
        PerformanceSettings(threads=threads)


@pytest.mark.parametrize(
    "limit",
    ["0", "0GB", "-1GB", "1e30TB", "99999999999999999999GB", "1001TB", "0.5MB", "", " ", "GB", "4", "٣GB", "4GB;", 4,
     "inf GB", "9" * 400 + "B"],
)  # fmt: skip
def test_memory_has_public_limits(limit: Any) -> None:
    with pytest.raises(InvalidParameter, match="a memory limit from 1MB to 1000TB, such as 4GB"):
        PerformanceSettings(memory_limit=limit)


def test_settings_within_the_limits_are_taken(tmp_path: Path) -> None:
    for settings in (
        {"threads": 1_024},
        {"memory_limit": "1000TB"},
        {"memory_limit": "1.5 GiB"},
        {"temp_directory": str(tmp_path)},
    ):
        chosen: Any = settings
        engine = DuckDBEngine(PerformanceSettings(**chosen))
        table = pa.table({"user": ["a"], "key": ["b"]})
        assert groups_of(engine.histogram(table, GroupByQuery("user", (Key("key"),)), ONE)) == {("b",): (1,)}


@pytest.mark.parametrize("name", ["master", "remote", "staging"])
def test_an_address_of_nothing_is_refused(name: str) -> None:
    given: Any = {name: " "}
    with pytest.raises(InvalidParameter, match=f"an address for --{name}, got nothing"):
        EngineOptions(**given)


@pytest.mark.parametrize(
    "text",
    ["(" * 5_000, "(" * 300 + "1" + ")" * 300, "1+" * 5_000 + "1", "not " * 3_000 + "true", "9" * 5_000, "1e" + "9" * 500,
     "-" * 3_000 + "1",
     "0" * 2**20, "[" * 5_000, "a" * (LONGEST_EXPRESSION + 1), "0x1F", "n AS m", "n m", "n\udcff"],
)  # fmt: skip
def test_expressions_have_a_length_and_a_depth_and_no_name(text: str) -> None:
    with pytest.raises(InvalidParameter) as caught:
        read_expression(text)
    assert len(str(caught.value)) < 2_000
