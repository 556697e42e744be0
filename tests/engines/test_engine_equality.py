"""Which values are one person or one group: the table of docs/release.md, a test for each of its cells."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from pathlib import Path
from typing import Any, Final

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from engine_oracle import Engine, every_engine

import dphist as dp
from dphist.engines.duckdb.engine import DuckDBEngine
from dphist.engines.histogram import ContributionBounds
from dphist.engines.query import GroupByQuery, Key, parse_key
from dphist.engines.source import Files
from dphist.errors import DphistError, UnreadableSource

NAN = float("nan")
Source = Callable[[Path, str], Any]
"""A table with the values as its column of this name."""


@dataclass(frozen=True)
class Values:
    """Values of one type: how many different ones they are, or that they are refused as a unit or as a key."""

    source: Source
    units: int | None
    keys: int | None


def arrow(values: Sequence[Any], kind: pa.DataType) -> Source:
    return lambda folder, name: beside(pa.array(values, kind), name)


def beside(column: Any, name: str) -> pa.Table:
    """With a number for each row as the other column."""
    other = "user" if name == "key" else "key"
    return pa.table({name: column, other: range(len(column))})


def sql(values: Sequence[str], kind: str = "") -> Source:
    def source(folder: Path, name: str) -> duckdb.DuckDBPyRelation:
        rows = ", ".join(f"({value}{kind and '::'}{kind}, {row})" for row, value in enumerate(values))
        return CONNECTION.sql(f"SELECT * FROM (VALUES {rows}) AS t({name}, {'user' if name == 'key' else 'key'})")

    return source


CONNECTION: Final = duckdb.connect()


def csv(fields: Sequence[str], kind: str = "text") -> Source:
    def source(folder: Path, name: str) -> Files:
        lines = [f"{field},{row}\n" for row, field in enumerate(fields)]
        (folder / "x.csv").write_text(f"{name},{'user' if name == 'key' else 'key'}\n" + "".join(lines))
        return Files((folder / "x.csv",), types={name: kind})

    return source


def objects(values: Sequence[Any]) -> Source:
    other = {"user": "key", "key": "user"}
    return lambda folder, name: pd.DataFrame({name: pd.Series(values, dtype=object), other[name]: range(len(values))})


def extension(name: str, values: Sequence[Any], kind: pa.DataType) -> Source:
    """A column of an extension type that Python does not know."""

    def source(folder: Path, column: str) -> pa.Table:
        table = beside(pa.array(values, kind), column)
        metadata = {"ARROW:extension:name": name, "ARROW:extension:metadata": ""}
        fields = [field.with_metadata(metadata) if field.name == column else field for field in table.schema]
        return table.cast(pa.schema(fields))

    return source


def parquet(source: Source) -> Source:
    def written(folder: Path, name: str) -> Path:
        pq.write_table(source(folder, name), folder / "x.parquet")
        return folder / "x.parquet"

    return written


def collated(folder: Path, name: str) -> duckdb.DuckDBPyRelation:
    other = "user" if name == "key" else "key"
    return CONNECTION.sql(f"SELECT x COLLATE NOCASE AS {name}, 1 AS {other} FROM (VALUES ('ann'), ('Ann')) AS t(x)")


def polars_objects(folder: Path, name: str) -> pl.LazyFrame:
    return (
        pl.DataFrame({"user": [1, 1], "key": [1, 1]}).with_columns(pl.Series(name, ["a", "a"], dtype=pl.Object)).lazy()
    )


class Spelled(str, Enum):  # noqa: UP042  # which says Spelled.A, where a StrEnum says a
    A = "a"


UUIDS = ["00000000-0000-0000-0000-0000000000AB", "00000000-0000-0000-0000-0000000000ab"]
ZONES = [dt.timezone(dt.timedelta(hours=hours)) for hours in (0, 2)]
NOON = [dt.datetime(2024, 7, 1, 12, tzinfo=ZONES[0]), dt.datetime(2024, 7, 1, 14, tzinfo=ZONES[1])]
DAY = dt.datetime(2024, 7, 1)
CENTS = [Decimal("1.5"), Decimal("1.50"), Decimal("1.51")]
EVERYWHERE: dict[str, list[Values]] = {
    "text": [
        Values(arrow(["a", "a", "A", "a ", "\u00e9", "e\u0301"], pa.string()), 5, 5),
        Values(arrow(["a", "A", "a"], pa.dictionary(pa.int8(), pa.string())), 2, 2),
    ],
    "whole numbers": [Values(arrow([2**53, 2**53 + 1, 2**53], pa.int64()), 2, 2)],
    "decimals": [Values(arrow(CENTS, pa.decimal128(9, 2)), 2, 2)],
    "floating point": [
        Values(arrow([0.0, -0.0, NAN, -NAN, 0.1], pa.float64()), 2, 3),
        Values(arrow([0.0, -0.0, NAN, 0.1], pa.float32()), 2, 3),
    ],
    "booleans": [Values(arrow([True, False, True], pa.bool_()), 2, 2)],
    "bytes": [Values(arrow([b"a", b"A", b"a"], pa.binary()), 2, 2)],
    "dates, times and timestamps": [
        Values(arrow([dt.datetime(2024, 1, 1, 0, 0, 0, us) for us in (0, 0, 1)], pa.timestamp("us")), 2, 2)
    ],
    "timestamps with a zone": [Values(arrow(NOON, pa.timestamp("us", "Europe/Berlin")), 1, 1)],
    "lists, structs, maps": [
        Values(arrow([[1], [1]], pa.list_(pa.int8())), None, None),
        Values(arrow([{"a": 1}], pa.struct({"a": pa.int8()})), None, None),
    ],
}
ON_DUCKDB: dict[str, list[Values]] = {
    "text": [
        Values(sql(["'a'", "'A'", "'a'"], "ENUM('a', 'A')"), 2, 2),
        Values(sql(["'{\"a\":1}'", "'{\"a\": 1}'"], "JSON"), 2, 2),
        Values(objects(["a", "A", "a"]), 2, 2),
    ],
    "text with a collation": [Values(collated, None, None)],
    "fields of CSV and JSON files": [
        Values(csv(["1", '"1"', "1.0", " 1"]), 3, 3),
        Values(csv(["1", '"1"', "1.0", " 1"], kind="double"), 1, 1),
    ],
    "Python objects": [
        Values(objects([1, 1.0, True, Decimal("1.0"), "1"]), 1, 1),
        Values(objects([1, np.int8(1), np.bool(True), np.float32(1), Fraction(1)]), 1, 1),
        Values(objects(["a", np.str_("a"), Spelled.A]), 1, 1),
        Values(objects([*NOON, *map(pd.Timestamp, NOON)]), 1, 1),
        Values(objects([DAY, pd.Timestamp(DAY), np.datetime64(DAY), np.datetime64(DAY, "ns")]), 1, 2),
        Values(objects([*(noon.timetz() for noon in NOON), DAY.time()]), 1, 2),
        Values(objects([b"a", bytearray(b"a"), memoryview(b"a"), (1,), (1.0,)]), 1, 2),
        Values(objects([dt.timedelta(1), pd.Timedelta("1D"), np.longdouble(1), 1 + 0j, 1]), 1, 2),
        Values(polars_objects, None, None),
        Values(objects(CENTS), 2, 2),
    ],
    "whole numbers": [Values(sql(["5", "5", "6"], "HUGEINT"), 2, 2), Values(sql(["5", "6"], "UHUGEINT"), 2, 2)],
    "decimals": [Values(sql(["1.5", "1.50", "1.51"], "DECIMAL(9, 3)"), 2, 2)],
    "dates, times and timestamps": [
        Values(arrow([0, 0, 1], pa.timestamp("ns")), 2, 2),
        Values(sql(["'10:00:00.0000001'", "'10:00:00.0000002'"], "TIME_NS"), None, 1),
        Values(sql(["'10:00'", "'10:00'"], "TIME"), 1, 1),
        Values(sql(["'2024-01-01'", "'2024-01-01'"], "DATE"), 1, 1),
    ],
    "timestamps with a zone": [
        Values(sql(["'2024-07-01 12:00+00'", "'2024-07-01 14:00+02'"], "TIMESTAMPTZ"), 1, 1),
        Values(arrow(NOON, pa.timestamp("ns", "UTC")), None, 1),
    ],
    "times with a zone": [Values(sql(["'12:00:00+00'", "'14:00:00+02'", "'12:00:00+00'"], "TIMETZ"), 2, 2)],
    "bits": [Values(sql(["'1'", "'01'", "'1'"], "BIT"), 2, 2)],
    "UUIDs": [
        Values(sql([f"'{one}'" for one in UUIDS], "UUID"), 1, 1),
        Values(arrow([bytes(15) + b"\xab"] * 2, pa.uuid()), 1, 1),
    ],
    "intervals": [
        Values(sql(["INTERVAL 1 MONTH", "INTERVAL 30 DAYS"]), None, None),
        Values(arrow([1, 1], pa.duration("s")), None, None),
    ],
    "extension types": [
        Values(extension("of.somebody", ["a", "A"], pa.string()), None, None),
        Values(parquet(extension("of.somebody", ["a", "A"], pa.string())), None, None),
        Values(arrow([1, 1], pa.bool8()), None, None),
        Values(arrow(['{"a":1}', '{"a": 1}', '{"a":1}'], pa.json_()), 2, 2),
    ],
    "lists, structs, maps": [
        Values(sql(["MAP {1: 2}"]), None, None),
        Values(sql(["1"], "BIGNUM"), None, None),
        Values(sql(["1"], "VARIANT"), None, None),
    ],
}


def number_of(engine: Engine, source: object, role: str) -> int:
    """How many units, or groups, there are, by whatever the engine counts."""
    histogram = engine.histogram(source, GroupByQuery("user", (Key("key"),), want_total=True), ContributionBounds(9))
    return int(histogram.total_units or 0) if role == "user" else len(histogram)


def check(engine: Engine, values: Values, role: str, folder: Path) -> None:
    want, source = values.units if role == "user" else values.keys, values.source(folder, role)
    if want is None:
        with pytest.raises(DphistError, match=r"simple type|byte by byte|read as it is|a type that Spark has|of types"):
            number_of(engine, source, role)
    else:
        assert number_of(engine, source, role) == want


@every_engine
@pytest.mark.parametrize("role", ["user", "key"])
@pytest.mark.parametrize("kind", EVERYWHERE)
def test_equal_values_are_one_everywhere(engine: Engine, kind: str, role: str, tmp_path: Path) -> None:
    for values in EVERYWHERE[kind]:
        check(engine, values, role, tmp_path)


@pytest.mark.parametrize("role", ["user", "key"])
@pytest.mark.parametrize("kind", ON_DUCKDB)
def test_equal_values_are_one(kind: str, role: str, tmp_path: Path) -> None:
    for values in ON_DUCKDB[kind]:
        check(DuckDBEngine(), values, role, tmp_path)


def test_the_table_of_the_documentation_has_a_row_for_every_type() -> None:
    page = Path(__file__).parents[2] / "docs" / "release.md"
    section = page.read_text(encoding="utf-8").partition("## Which values are one")[2].partition("\n## ")[0]
    rows = [line.split(" | ")[0].removeprefix("| ") for line in section.splitlines() if line.startswith("| ")]
    assert sorted(rows[2:]) == sorted({*EVERYWHERE, *ON_DUCKDB, "decimals of two scales"})


def test_decimals_of_two_scales_do_not_meet(tmp_path: Path) -> None:
    """In several files, and where two tables are put together by their unit."""
    for scale in (1, 2):
        table = pa.table({"user": pa.array([Decimal("1.5")], pa.decimal128(9, scale)), "key": ["a"]})
        pq.write_table(table, tmp_path / f"{scale}.parquet")
    with pytest.raises(UnreadableSource, match="same type"):
        number_of(DuckDBEngine(), tmp_path, "user")
    tables = {f"t{scale}": tmp_path / f"{scale}.parquet" for scale in (1, 2)}
    both = "(SELECT user, key FROM t1 UNION ALL SELECT user, key FROM t2)"
    options = "OPTIONS(epsilon = 1, delta = 1e-6, max_groups_contributed = 1)"
    connection = dp.connect(tables, unit="user")
    with pytest.raises(DphistError, match=r"one type on both sides.*DECIMAL"):
        connection.sql(f"SELECT WITH DIFFERENTIAL_PRIVACY {options} key, COUNT(*) AS n FROM {both} GROUP BY key")


COLLATED: Final = {
    "table": "FROM collated",
    "expression": "SELECT lower(name) AS name FROM collated",
    "cast": "SELECT CAST(name AS VARCHAR) AS name FROM collated",
    "last": "SELECT plain COLLATE NOACCENT AS name FROM collated",
    "chain": "SELECT plain COLLATE NOACCENT.NOCASE AS name FROM collated",
    "language": "SELECT plain COLLATE de AS name FROM collated",
    "struct": "SELECT {'a''b': [name]} AS name FROM collated",
}


@pytest.mark.parametrize("relation", COLLATED)
@pytest.mark.parametrize("role", ["unit", "key", "value", "condition"])
def test_text_with_a_collation_is_refused_wherever_it_is_read(relation: str, role: str) -> None:
    """DuckDB takes ann and Ann for one person; of a column that nobody reads it may think what it likes."""
    query = {
        "unit": GroupByQuery("name", (Key("k"),)),
        "key": GroupByQuery("u", (Key("name"),)),
        "value": GroupByQuery("u", (parse_key("x=name = 'ann'"),)),
        "condition": GroupByQuery("u", (Key("k"),), where="name = 'ann'"),
    }[role]
    with duckdb.connect() as connection:
        connection.execute("CREATE TABLE collated (name VARCHAR COLLATE NOCASE, plain VARCHAR)")
        connection.execute("INSERT INTO collated VALUES ('ann', 'ann'), ('Ann', 'Ann')")
        table = connection.sql(f"SELECT *, 1 AS u, 2 AS k FROM ({COLLATED[relation]})")
        with pytest.raises(UnreadableSource, match=r"'name' to be compared byte by byte.*decode\(encode"):
            DuckDBEngine().histogram(table, query, ContributionBounds(1))
        assert len(DuckDBEngine().histogram(table, GroupByQuery("u", (Key("k"),)), ContributionBounds(1))) == 1
        derived = connection.sql("SELECT decode(encode(lower(name))) AS name, [plain] AS k, 1 AS v FROM collated")
        assert number_of(DuckDBEngine(), derived.project("name AS user, v AS key"), "user") == 1


def test_the_usual_collation_of_a_connection_counts_too() -> None:
    with duckdb.connect() as connection:
        table = connection.sql("SELECT * FROM (VALUES ('ann', 1), ('Ann', 2)) AS t(user, key)")
        assert number_of(DuckDBEngine(), table, "user") == 2
        connection.execute("SET default_collation = 'nocase'")
        with pytest.raises(UnreadableSource, match="byte by byte"):
            number_of(DuckDBEngine(), table, "user")


def test_a_line_of_json_spells_a_value_in_one_way(tmp_path: Path) -> None:
    """What is no text is written as it stands in the line."""
    rows = ['{"user": 1}', '{"user": "1"}', '{"user": 1.0}', json.dumps({"user": "a"}), '{"user": "\\u0061"}']
    (tmp_path / "x.jsonl").write_text("\n".join(rows))
    files = Files((tmp_path / "x.jsonl",), types={"user": "text", "key": "text"})
    assert number_of(DuckDBEngine(), files, "user") == 3
