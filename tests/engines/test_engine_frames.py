"""Tables in memory and odd files: a value that the engine cannot take costs that value, and nothing is computed too early."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from engine_oracle import groups_of
from hypothesis import given
from hypothesis import strategies as st

from dphist.engines.duckdb.engine import DuckDBEngine
from dphist.engines.frames import readable
from dphist.engines.histogram import ContributionBounds
from dphist.engines.query import GroupByQuery, Key, parse_key
from dphist.engines.source import Files
from dphist.errors import InvalidParameter, UnreadableSource

ENGINE = DuckDBEngine()
QUERY = GroupByQuery("user", (Key("key"),))
LARGEST = 2**63 - 1


def run(source: object, key: str = "key") -> dict[Any, Any]:
    return groups_of(ENGINE.histogram(source, GroupByQuery("user", (parse_key(key),)), ContributionBounds()))


def of_numbers(kind: pa.DataType, numbers: list[int | None]) -> pa.Array:
    return pa.array(numbers, pa.int64()).view(kind)


TIMES = [make(unit) for unit in ("s", "ms", "us", "ns") for make in (pa.timestamp, pa.duration)]
TIMES += [pa.timestamp(unit, "Europe/Berlin") for unit in ("s", "ms", "us", "ns")]


@pytest.mark.parametrize("nested", ["plain", "list", "struct"])
def test_no_time_ends_a_run(nested: str) -> None:
    """Nor does a number under a null, which DuckDB converts too. A column for each type of time."""
    columns: dict[str, pa.Array] = {}
    keys = []
    for place, kind in enumerate(TIMES):
        numbers = of_numbers(kind, [0, LARGEST, -LARGEST - 1, LARGEST])
        column = pa.Array.from_buffers(kind, 4, [pa.py_buffer(b"\x07"), numbers.buffers()[1]])
        key = name = f"time_{place}"
        if nested == "list":
            column, key = pa.ListArray.from_arrays(pa.array(range(5), pa.int32()), column), f"{name}[1]"
        elif nested == "struct":
            column, key = pa.StructArray.from_arrays([column], ["f"]), f"{name}.f"
        columns[name] = column
        keys.append(Key(f"k{place}", f"TIMESTAMP '2000-01-01' + {key}" if pa.types.is_duration(kind) else key))
    table = pa.table({"user": range(4), **columns})
    found = groups_of(ENGINE.histogram(table, GroupByQuery("user", tuple(keys)), ContributionBounds()))
    assert sum(count for (count,) in found.values()) == 4
    for place, kind in enumerate(TIMES):
        times: list[Any] = [key[place] for key in found if key[place] is not None]
        assert {time.year for time in times} <= {1970, 2000, 1677, 2262, 1707, 2292}, kind


@given(texts=st.lists(st.binary(max_size=4) | st.none(), max_size=20))
def test_texts_that_are_not_utf8_are_null(texts: list[bytes | None]) -> None:
    def decoded(text: bytes | None) -> str | None:
        try:
            return None if text is None else text.decode()
        except UnicodeDecodeError:
            return None

    column = pa.array(texts, pa.binary())
    text = pa.Array.from_buffers(pa.string(), len(texts), column.buffers())
    assert readable(text).to_pylist() == list(map(decoded, texts))
    assert readable(pa.chunked_array([text, text])).to_pylist() == list(map(decoded, texts)) * 2


def test_a_bad_word_of_a_dictionary_costs_its_own_records() -> None:
    raw = pa.array([b"a", b"\xff", b"b"], pa.binary())
    words = pa.Array.from_buffers(pa.string(), 3, raw.buffers())
    column = pa.DictionaryArray.from_arrays(pa.array([0, 1, 2, 0, None], pa.int8()), words)
    table = pa.table({"user": range(5), "key": column})
    for source in (table, table.to_reader()):
        assert run(source) == {("a",): (2,), ("b",): (1,), (None,): (2,)}


def test_files_differ_in_a_type_whatever_the_case(tmp_path: Path) -> None:
    pq.write_table(pa.table({"user": [1], "key": ["a"], "age": [1]}), tmp_path / "a.parquet")
    pq.write_table(pa.table({"user": [2], "key": ["a"], "age": ["x"]}), tmp_path / "b.parquet")
    with pytest.raises(UnreadableSource, match="the same type of 'age' in every file"):
        run(tmp_path / "*.parquet", "k=AGE + 1")


ODD = {
    "map": pa.array([[("a", 1), ("a", 2)]], pa.map_(pa.string(), pa.int64())),
    "map in a struct": pa.array([{"m": [("a", 1)]}], pa.struct([("m", pa.map_(pa.string(), pa.int64()))])),
    "dictionary in a list": pa.array([["a"]], pa.list_(pa.dictionary(pa.int8(), pa.string()))),
    "run-end encoded": pa.RunEndEncodedArray.from_arrays([1], ["a"]),
    "half a float": pa.array([1.0], pa.float16()),
    "wide decimal": pa.array([Decimal(1)], pa.decimal256(70, 2)),
}


@pytest.mark.parametrize("name", ODD)
def test_types_that_one_record_could_break_are_refused(name: str) -> None:
    with pytest.raises(InvalidParameter, match="'key' to be of a simple type"):
        run(pa.table({"user": [1], "key": ODD[name]}), "k=key IS NULL")


def test_what_a_parquet_file_means_does_not_depend_on_who_reads_it(tmp_path: Path) -> None:
    """One text that is not UTF-8 sends all records through another reader."""
    bad = pa.Array.from_buffers(pa.string(), 3, pa.array([b"a", b"\xff", b"b"], pa.binary()).buffers())
    late = of_numbers(pa.timestamp("us"), [253_370_764_800_000_000, 0, 1])
    good = {
        "user": pa.array([1, 2, 3]),
        "span": of_numbers(pa.duration("us"), [5, 6, 7]),
        "late": late,
        "name.with.dots": pa.array(["x", "y", "z"]),
        "__filename": pa.array([1.5, 2.5, 3.5]),
        "word": pa.array(["p", "q", "p"]).dictionary_encode(),
    }
    keys = tuple(map(Key, [*list(good)[1:], "Text"]))
    for options in ({}, {"use_deprecated_int96_timestamps": True}):
        found = []
        for number, text in enumerate((pa.array(["a", None, "b"]), bad)):
            folder = tmp_path / f"{len(options)}{number}"
            folder.mkdir()
            table = pa.table({**good, "Text": text})
            pq.write_table(table, folder / "a.parquet", **options)
            pq.write_table(table.rename_columns([*good, "text"]).slice(0, 0), folder / "b.parquet", **options)
            query = GroupByQuery("user", keys)
            found.append(groups_of(ENGINE.histogram(folder / "*.parquet", query, ContributionBounds())))
        assert found[0] == found[1]
        assert len(found[0]) == 3


def test_folders_of_any_name(tmp_path: Path) -> None:
    for name in ("line=a", "line_=a", "record=a"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "x.ndjson").write_text('{"user": 1}\n')
        files = Files((tmp_path / name / "x.ndjson",), types={"user": "text"})
        assert run(files, name.partition("=")[0]) == {("a",): (1,)}


def test_text_in_parquet_that_is_not_utf8_is_null(tmp_path: Path) -> None:
    raw = pa.array([b"a", b"\xff\xfe", b"a", b"\xc3\xa9"], pa.binary())
    text = pa.Array.from_buffers(pa.string(), 4, raw.buffers())
    folder = tmp_path / "day=1%2F2"
    folder.mkdir()
    path = folder / "x.parquet"
    table = pa.table({"user": text, "key": text, "n": pa.array([1, 2, 3, 4], pa.uint8()), "s.t": text})
    pq.write_table(table, path)
    assert run(path) == {("a",): (1,), ("é",): (1,)}
    by = GroupByQuery("n", (Key("key"), Key("day"), Key("s.t")))
    found = groups_of(ENGINE.histogram(path, by, ContributionBounds()))
    assert found == {("a", "1/2", "a"): (2,), (None, "1/2", None): (1,), ("é", "1/2", "é"): (1,)}


def test_a_folder_does_not_replace_a_column(tmp_path: Path) -> None:
    folder = tmp_path / "key=all"
    folder.mkdir()
    table = pa.table({"user": [1, 2], "KEY": ["a", "b"]})
    pq.write_table(table, folder / "x.parquet")
    table.to_pandas().to_csv(folder / "x.csv", index=False)
    for name in ("x.parquet", "x.csv"):
        with pytest.raises(UnreadableSource, match="'key' as a column of the files or in the names of their folders"):
            run(folder / name)
    pq.write_table(table.select(["user"]), folder / "y.parquet")
    (folder / "y.ndjson").write_text('{"user": 1, "key": "b"}\n{"user": 2}\n')
    assert run(folder / "y.parquet") == {("all",): (2,)}
    assert run(Files((folder / "y.ndjson",), types={"user": "text"})) == {("all",): (2,)}


class Unspeakable:
    """An object that quotes itself when it fails."""

    def __str__(self) -> str:
        raise ValueError("alice has HIV")


ONES = [1, 1.0, True, np.int8(1), np.float32(1), np.True_, Decimal("1.00"), Fraction(2, 2), "1"]
ZEROS = [0, -0.0, Decimal("0E500"), False, Fraction(0)]
TENTHS = [Decimal("1.1"), Decimal("1.10"), Fraction(11, 10)]


@pytest.mark.parametrize("values", [ONES, ONES[::-1], ZEROS, TENTHS, [1e300, int(1e300)], [Fraction(1, 3)]])
def test_values_that_are_equal_are_one_unit(values: list[Any]) -> None:
    frame = pd.DataFrame({"user": pd.Series(values, dtype=object), "key": ["a"] * len(values)})
    assert run(frame) == {("a",): (1,)}


def test_objects_are_text_one_by_one() -> None:
    odd = [2.5, Decimal("2.5"), "\ud800", Unspeakable(), None, float("nan"), 1e300, int(1e300), Decimal("1E+999999999")]
    odd += [b"x", dt.date(2024, 1, 1), float("inf"), -0.0, 0]
    frame = pd.DataFrame({"user": range(len(odd)), "key": pd.Series(odd, dtype=object)})
    found = run(frame)
    assert found[("2.5",)] == (2,)
    assert found[(None,)] == (5,)
    assert found[(str(int(1e300)),)] == (2,)
    assert found[("0",)] == (2,)
    mixed = pd.DataFrame({"user": [1, 2, 3], "key": pd.Categorical([1, 1, "alice has HIV"])})
    assert run(mixed) == {("1",): (2,), ("alice has HIV",): (1,)}


@pytest.mark.parametrize("column", [[1j, 2j], pd.Series([1, 2]).astype("Sparse[int]")])
def test_types_that_arrow_lacks_are_refused_by_type(column: Any) -> None:
    with pytest.raises(InvalidParameter):
        run(pd.DataFrame({"user": [1, 2], "key": column}))


def lazies(seen: list[str]) -> dict[str, Callable[[], object]]:
    """Sources that say when they are computed."""
    table = pa.table({"user": [1, 2], "key": ["a", "b"]})

    def told(frame: pl.DataFrame) -> pl.DataFrame:
        seen.append("computed")
        return frame

    def batches() -> Any:
        seen.append("computed")
        yield from table.to_batches()

    def tell(key: str) -> str:
        seen.append("computed")
        return key

    def relation() -> object:
        connection = duckdb.connect()
        connection.create_function("tell", tell, ["VARCHAR"], "VARCHAR")
        connection.register("records", table)
        return connection.sql('SELECT "user", tell(key) AS key FROM records')

    return {
        "polars": lambda: pl.from_arrow(table).lazy().map_batches(told),  # type: ignore[union-attr]
        "reader": lambda: pa.RecordBatchReader.from_batches(table.schema, batches()),
        "relation": relation,
    }


@pytest.mark.parametrize("name", ["polars", "reader", "relation"])
def test_what_is_lazy_is_not_computed_for_its_schema(name: str) -> None:
    """A ledger is charged between the check of the schema and the first record."""
    seen: list[str] = []
    source = lazies(seen)[name]()
    ENGINE.explain(QUERY, ContributionBounds(1), source)
    assert seen == []
    assert run(source) == {("a",): (1,), ("b",): (1,)}
    assert seen
