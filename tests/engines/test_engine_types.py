"""Every type of key and unit works, or is refused by its type."""

from __future__ import annotations

import datetime as dt
import decimal
import uuid
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from engine_oracle import Engine, canonical, every_engine, groups_of

from dphist.engines.duckdb.engine import DuckDBEngine
from dphist.engines.histogram import ContributionBounds
from dphist.engines.query import GroupByQuery, Key
from dphist.errors import InvalidParameter
from example_numbers import some

Z = dt.UTC
KEYS: dict[str, tuple[pa.DataType, list[Any]]] = {
    "bool": (pa.bool_(), [True, False]),
    "int8": (pa.int8(), [-128, 127]),
    "uint64": (pa.uint64(), [0, 2**64 - 1]),
    "int64": (pa.int64(), [-(2**63), 2**63 - 1]),
    "float32": (pa.float32(), [0.5, float("-inf")]),
    "float64": (pa.float64(), [0.1, float("inf")]),
    "decimal": (
        pa.decimal128(38, 3),
        [decimal.Decimal("1.500"), decimal.Decimal("-99999999999999999999999999999999999.125")],
    ),
    "text": (pa.string(), ["\x00a", "\x00b", "a" * 65_536, "\U0010ffff"]),
    "large text": (pa.large_string(), ["x", ""]),
    "text view": (pa.string_view(), ["a long string view that is not inlined", "short"]),
    "binary": (pa.binary(), [b"\x00\xff", b""]),
    "fixed binary": (pa.binary(2), [b"\x00\xff", b"ab"]),
    "date": (pa.date32(), [dt.date(1, 1, 1), dt.date(9999, 12, 31)]),
    "time": (pa.time64("us"), [dt.time(0), dt.time(23, 59, 59, 999999)]),
    "timestamp s": (pa.timestamp("s"), [dt.datetime(2024, 1, 1)]),
    "timestamp us": (pa.timestamp("us"), [dt.datetime(1, 1, 1), dt.datetime(9999, 12, 31, 23, 59, 59, 999999)]),
    "timestamp tz": (
        pa.timestamp("us", "UTC"),
        [dt.datetime(2024, 3, 31, 1, tzinfo=Z), dt.datetime(1970, 1, 1, tzinfo=Z)],
    ),
    "dictionary": (pa.dictionary(pa.int8(), pa.string()), ["a", "b"]),
    "null": (pa.null(), []),
}


@every_engine
@pytest.mark.parametrize(
    ("null_keys", "name"), [*(("group", name) for name in KEYS), *some([("drop", name) for name in KEYS], 3)]
)
def test_keys_come_out_as_they_went_in(engine: Engine, name: str, null_keys: Any) -> None:
    kind, values = KEYS[name]
    keys = pa.array([*values, None, *values], kind)
    users = pa.array([*[1] * len(values), 1, *range(2, 2 + len(values))])
    histogram = engine.histogram(
        pa.table({"user": users, "key": keys}),
        GroupByQuery("user", (Key("key"),), null_keys=null_keys),
        ContributionBounds(9),
    )
    want = {(canonical(value),): (2,) for value in values}
    if null_keys == "group":
        want[(None,)] = (1,)
    assert groups_of(histogram) == want


@every_engine
@pytest.mark.parametrize("name", KEYS)
def test_units_of_every_type(engine: Engine, name: str) -> None:
    kind, values = KEYS[name]
    users = pa.array([*values, None, *values], kind)
    table = pa.table({"user": users, "key": ["x"] * len(users)})
    histogram = engine.histogram(table, GroupByQuery("user", (Key("key"),), want_total=True), ContributionBounds(1))
    assert groups_of(histogram) == ({("x",): (len(values),)} if values else {})
    assert histogram.total_units == len(values)


@every_engine
@pytest.mark.parametrize("role", ["user", "key"])
def test_nan_is_null_and_zeros_are_one(engine: Engine, role: str) -> None:
    """Whatever its payload, NaN is neither a unit nor a key of its own, and no bit of it is published."""
    bits = [0x7FF8000000000000, 0xFFF8000000000000, 0x7FF8000000000001, 0x7FF0000000000001]
    floats = pa.array(np.concatenate([np.array(bits, np.uint64).view(np.float64), [0.0, -0.0]]))
    other = "key" if role == "user" else "user"
    table = pa.table({role: floats, other: pa.array([1] * 6)})
    for order in ([0, 1, 2, 3, 4, 5], [5, 4, 3, 2, 1, 0]):
        histogram = engine.histogram(table.take(order), GroupByQuery("user", (Key("key"),)), ContributionBounds(2))
        if role == "user":
            assert histogram.counts.tolist() == [1]
        else:
            assert groups_of(histogram) == {(None,): (1,), (0.0,): (1,)}
            assert histogram.keys["key"].drop_null().to_numpy().view(np.uint64).tolist() == [0]


WRITTEN_OUT: dict[str, Any] = {
    "'b'::ENUM('a', 'b')": "b",
    "170141183460469231731687303715884105727::HUGEINT": None,
    "5::HUGEINT": decimal.Decimal(5),
    "340282366920938463463374607431768211455::UHUGEINT": None,
    "'00000000-0000-0000-0000-00000000002a'::UUID": str(uuid.UUID(int=42)),
    "DATE 'infinity'": None,
    "DATE '-infinity'": None,
    "DATE '10000-01-01'": None,
    "DATE '0044-03-15 (BC)'": None,
    "TIMESTAMP 'infinity'": None,
    "TIMESTAMPTZ '-infinity'": None,
    "TIME '24:00:00'": None,
    "TIMESTAMP_NS 'infinity'": None,
    "repeat('x', 65537)": None,
    "repeat('ä', 32769)": None,
    "repeat('x', 65537)::BLOB": None,
    "'101'::BIT": "101",
    "'{\"a\": 1}'::JSON": '{"a": 1}',
}


def test_what_cannot_be_written_out_becomes_null() -> None:
    """All of them in one record."""
    names = [f"key_{place}" for place in range(len(WRITTEN_OUT))]
    columns = ", ".join(f"{value} AS {name}" for value, name in zip(WRITTEN_OUT, names, strict=True))
    with duckdb.connect() as connection:
        relation = connection.sql(f'SELECT 1 AS "user", {columns}')
        query = GroupByQuery("user", tuple(map(Key, names)))
        ((found, counts),) = groups_of(DuckDBEngine().histogram(relation, query, ContributionBounds(1))).items()
    assert dict(zip(WRITTEN_OUT, found, strict=True)) == WRITTEN_OUT
    assert counts == (1,)


@pytest.mark.parametrize(
    "value",
    ["[1, 2]", "{'a': 1}", "MAP {1: 2}", "INTERVAL 1 MONTH", "[1, 2]::INTEGER[2]"],
)
@pytest.mark.parametrize("role", ["key", "user"])
def test_other_types_are_refused_before_a_record_is_read(value: str, role: str) -> None:
    other = "user" if role == "key" else "key"
    with duckdb.connect() as connection:
        relation = connection.sql(f'SELECT 1 AS "{other}", {value} AS "{role}" WHERE FALSE')
        with pytest.raises(InvalidParameter, match="simple type"):
            DuckDBEngine().histogram(relation, GroupByQuery("user", (Key("key"),)), ContributionBounds(1))


def test_frames() -> None:
    data: dict[str, list[Any]] = {
        "user": [1, 1, 2, None],
        "key": ["a", "b", None, "a"],
        "f": [1.5, float("nan"), None, 2.0],
    }
    query = GroupByQuery("user", (Key("key"),))
    want = {("a",): (1,), ("b",): (1,), (None,): (1,)}
    frames = [
        pd.DataFrame(data),
        pl.DataFrame(data),
        pl.DataFrame(data).lazy(),
        pa.table(data),
        pa.table(data).to_reader(),
        pa.table(data).to_batches()[0],
        pd.DataFrame(data).astype({"key": "category"}),
        pd.DataFrame(data).astype({"key": object, "user": object}),
        pd.DataFrame({**data, "key": pd.array(data["key"], dtype="string")}),
    ]
    for frame in frames:
        assert groups_of(DuckDBEngine().histogram(frame, query, ContributionBounds(3))) == want


def test_pandas_objects_are_text_whatever_one_record_holds() -> None:
    frame = pd.DataFrame({"user": [1, 2, 3], "key": pd.Series([1, "1", dt.date(2024, 1, 1)], dtype=object)})
    histogram = DuckDBEngine().histogram(frame, GroupByQuery("user", (Key("key"),)), ContributionBounds(1))
    assert groups_of(histogram) == {("1",): (2,), ("2024-01-01",): (1,)}


def test_columns_nobody_asked_for_may_be_of_any_type() -> None:
    table = pa.table({"user": [1], "key": [1], "odd": pa.array([1.0], pa.float16())})
    assert groups_of(DuckDBEngine().histogram(table, GroupByQuery("user", (Key("key"),)), ContributionBounds(1))) == {
        (1,): (1,)
    }
    with pytest.raises(InvalidParameter, match="simple type"):
        DuckDBEngine().histogram(table, GroupByQuery("user", (Key("odd"),)), ContributionBounds(1))


def test_an_unknown_source() -> None:
    with pytest.raises(InvalidParameter, match=r"Expected a path, an Arrow table.* got int\."):
        DuckDBEngine().histogram(5, GroupByQuery("user", (Key("key"),)), ContributionBounds(1))


@pytest.mark.parametrize("kind", [pa.string(), pa.binary()], ids=str)
def test_the_longest_text_is_kept_and_a_longer_one_is_null(kind: pa.DataType) -> None:
    """In bytes: two of them are one letter here."""
    texts = [("é" * 32_768).encode(), ("é" * 32_768 + "a").encode()]
    table = pa.table({"user": [1, 2], "key": pa.array(texts, pa.binary()).cast(kind)})
    found = groups_of(DuckDBEngine().histogram(table, GroupByQuery("user", (Key("key"),)), ContributionBounds(1)))
    keys: set[Any] = {key for (key,) in found}
    assert {None if key is None else len(key) for key in keys} == {None, 32_768 if kind == pa.string() else 65_536}
