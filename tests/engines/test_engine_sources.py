"""Files: whether a run succeeds, and what others contribute, must not depend on one person's record."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from engine_oracle import groups_of

from dphist.aggregates.measures import Lattice
from dphist.aggregates.total import SumOfUnit
from dphist.engines.base import BOUNDING, READING, SKETCHING
from dphist.engines.duckdb.engine import DuckDBEngine
from dphist.engines.histogram import ContributionBounds
from dphist.engines.query import GroupByQuery, Key, PerformanceSettings, parse_key
from dphist.engines.source import Files
from dphist.errors import EngineFailure, InvalidParameter, UnreadableSource

ENGINE = DuckDBEngine()
KEY = GroupByQuery("user", (Key("key"),))
SUM = SumOfUnit("v", 0.0, 16.0, lattice=Lattice(0.0, 2.0**-16))
KEY_SUM = GroupByQuery("user", (Key("key"),), (SUM,))


def one_place_each(rows: Iterable[str], places: Sequence[Any]) -> list[Any]:
    """Every row in one of the places, in turn; in the others in `make test-long`."""
    return [
        pytest.param(row, place, marks=[] if number % len(places) == turn else [pytest.mark.long])
        for number, row in enumerate(rows)
        for turn, place in enumerate(places)
    ]


def run(source: Any, query: GroupByQuery = KEY) -> dict[Any, Any]:
    return dict(groups_of(ENGINE.histogram(source, query, ContributionBounds(5))))


def test_parquet_and_globs(tmp_path: Path) -> None:
    for part in range(3):
        pq.write_table(pa.table({"user": [part, 7], "key": ["a", "b"]}), tmp_path / f"part {part}'s.parquet")
    assert run(tmp_path / "part 0's.parquet") == {("a",): (1,), ("b",): (1,)}
    want = {("a",): (3,), ("b",): (1,)}
    assert run(str(tmp_path / "*.parquet")) == want
    assert run([tmp_path / "part 0's.parquet", str(tmp_path / "part [12]*")]) == want


def test_parquet_files_with_different_types_are_refused_by_their_schema(tmp_path: Path) -> None:
    pq.write_table(pa.table({"user": [1], "key": [1], "x": [1]}), tmp_path / "a.parquet")
    pq.write_table(pa.table({"user": [1], "key": ["1"], "x": ["1"]}), tmp_path / "b.parquet")
    with pytest.raises(UnreadableSource, match="same type of 'key' in every file"):
        run(tmp_path / "*.parquet")
    assert run(tmp_path / "*.parquet", GroupByQuery("user", (Key("user"),))) == {(1,): (1,)}


@pytest.mark.parametrize(("first", "second", "got"), [(1, 0, "b.parquet without it"), (0, 1, "b.parquet with it")])
def test_a_column_that_one_file_lacks_is_named(first: int, second: int, got: str, tmp_path: Path) -> None:
    for name, has_it in (("a", first), ("b", second)):
        columns = {"user": [1], **({"key": [1]} if has_it else {})}
        pq.write_table(pa.table(columns), tmp_path / f"{name}.parquet")
    with pytest.raises(UnreadableSource, match=f"column 'key' in every file or in none, got .*{got}") as refused:
        run(tmp_path / "*.parquet")
    assert "None" not in str(refused.value)


def test_partition_names_stay_text(tmp_path: Path) -> None:
    for year in ("2023", "2024"):
        (tmp_path / f"year={year}").mkdir()
        pq.write_table(pa.table({"user": [1]}), tmp_path / f"year={year}" / "x.parquet")
    assert run(tmp_path / "*" / "*.parquet", GroupByQuery("user", (Key("year"),))) == {("2023",): (1,), ("2024",): (1,)}


CSV_ROWS = {
    "plain": b"2,b,1\n",
    "too short": b"2,b\n",
    "too long": b"2,b,1,4,5\n",
    "a number in words": b"2,b,many\n",
    "an empty line": b"\n",
    "empty fields": b",,\n",
    "bytes that are not UTF-8": b"2,\xff\xfe,1\n",
    "a NUL": b"2,b\x00,1\n",
    "a quote inside": b'2,a"b,1\n',
    "a quoted newline": b'2,"a\nb",1\n',
    "text behind a quote": b'2,"d"b,1\n',
    "carriage return": b"2,b,1\r\n",
    "a lone carriage return": b"2,b\r,1\n",
    "another delimiter": b"2;b;1\n",
    "an enormous field": b"2," + b"x" * 3_000_000 + b",1\n",
    "an infinity": b"2,b,inf\n",
    "a comment": b"#2,b,1\n",
}


@pytest.mark.parametrize(("name", "place"), one_place_each(CSV_ROWS, ["first", "last"]))
def test_one_row_of_a_csv_file_does_not_move_the_others(tmp_path: Path, name: str, place: str) -> None:
    rows = [b"1,a,2\n", b"3,a,3\n", b"4,c,1\n"]
    rows.insert(0 if place == "first" else 3, CSV_ROWS[name])
    path = tmp_path / "x.csv"
    path.write_bytes(b"user,key,v\n" + b"".join(rows))
    got = run(path, KEY_SUM)
    assert got[("a",)] == (2, 5 * 2**16)
    assert got[("c",)] == (1, 2**16)
    assert sum(row[0] for row in got.values()) <= 4


@pytest.mark.parametrize(
    ("name", "want"),
    [
        ("plain", {("b",): (1, 2**16)}),
        ("too short", {}),
        ("too long", {}),
        ("a number in words", {("b",): (1, 0)}),
        ("an infinity", {("b",): (1, 2**20)}),
        ("bytes that are not UTF-8", {}),
        ("a quoted newline", {}),
        ("a quote inside", {('a"b',): (1, 2**16)}),
        ("text behind a quote", {}),
        ("a lone carriage return", {}),
        ("an enormous field", {}),
        ("carriage return", {("b",): (1, 2**16)}),
    ],
)
def test_rules_for_rows_of_csv_files(tmp_path: Path, name: str, want: dict[Any, Any]) -> None:
    path = tmp_path / "x.csv"
    path.write_bytes(b"user,key,v\n" + CSV_ROWS[name])
    assert run(path, KEY_SUM) == want


def test_an_open_quote_stays_in_its_line(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text('user,key\n1,"a\n2,b\n3,b\n4,"c""\n5,"d"\n')
    assert run(path) == {("b",): (2,), ("d",): (1,)}
    assert run(Files((path,), quote=None)) == {('"a',): (1,), ("b",): (2,), ('"c""',): (1,), ('"d"',): (1,)}


def test_csv_columns_are_text_and_one_record_cannot_change_that(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text("user,key\n1,01\n2,1\n")
    assert run(path) == {("01",): (1,), ("1",): (1,)}
    assert run(Files((path,), types={"key": "INTEGER"})) == {(1,): (2,)}
    path.write_text("user,key\n1,01\n2,1\n3,x\n")
    assert run(path) == {("01",): (1,), ("1",): (1,), ("x",): (1,)}
    assert run(Files((path,), types={"key": "INTEGER"})) == {(1,): (2,), (None,): (1,)}


def test_csv_dialects(tmp_path: Path) -> None:
    (tmp_path / "x.tsv").write_text("user\tkey\n1\ta,b\n")
    assert run(tmp_path / "x.tsv") == {("a,b",): (1,)}
    (tmp_path / "x.txt").write_bytes(b"\xef\xbb\xbf'us;er';key\n1;'a;b'\n")
    files = Files((tmp_path / "x.txt",), delimiter=";", quote="'")
    assert run(files, GroupByQuery("us;er", (Key("key"),))) == {("a;b",): (1,)}
    (tmp_path / "y.csv").write_text("1,a\n2,a\n")
    assert run(Files((tmp_path / "y.csv",), header=["user", "key"])) == {("a",): (2,)}
    assert run(Files((tmp_path / "y.csv",), header=["user", "key", "more"])) == {}
    (tmp_path / "z.csv.gz").write_bytes(gzip.compress(b"user,key\n1,a\n"))
    assert run(tmp_path / "z.csv.gz") == {("a",): (1,)}


def test_csv_headers_must_agree(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("user,key\n1,a\n")
    (tmp_path / "b.csv").write_text("key,user\n1,a\n")
    with pytest.raises(UnreadableSource, match="same header"):
        run(tmp_path / "*.csv")
    (tmp_path / "c.csv").write_text("user,User\n")
    with pytest.raises(UnreadableSource, match="different names in the 2 columns of the first line, got some that are"):
        run(tmp_path / "c.csv")
    (tmp_path / "d.csv").write_text("")
    with pytest.raises(UnreadableSource, match="header"):
        run(tmp_path / "d.csv")
    (tmp_path / "e.csv").write_text("user,key\n")
    assert run(tmp_path / "e.csv") == {}


TEXTS = {"user": "text", "key": "text", "v": "text"}
JSON_ROWS = [
    "{bad",
    "5",
    "[1, 2]",
    "null",
    "",
    "{}",
    '{"user": null, "key": "a"}',
    '{"user": 9, "key"',
    '"x"',
    "}",
    "\x00",
]


@pytest.mark.parametrize(("row", "place"), one_place_each(JSON_ROWS, [0, 1, 2]))
def test_one_line_of_a_json_file_does_not_move_the_others(tmp_path: Path, row: str, place: int) -> None:
    lines = ['{"user": 1, "key": "a", "v": 2}', '{"user": "2", "key": "a", "v": "1.5", "more": {}}']
    lines.insert(place, row)
    path = tmp_path / "x.ndjson"
    path.write_text("\n".join(lines) + "\n")
    assert run(Files((path,), types=TEXTS), KEY_SUM) == {("a",): (2, 7 * 2**15)}


def test_nested_values_and_missing_fields_of_json(tmp_path: Path) -> None:
    path, array = tmp_path / "x.json", tmp_path / "y.json"
    records = [{"user": 1, "key": {"a": [1]}}, {"user": 2}, 5, {"user": True, "key": 1.50}]
    path.write_text("".join(f"{json.dumps(record)}\n" for record in records))
    array.write_text(json.dumps(records))
    files = Files((path,), types=TEXTS)
    assert run(files) == {('{"a":[1]}',): (1,), (None,): (1,), ("1.5",): (1,)}
    with pytest.raises(UnreadableSource, match="one record in each line"):
        run(Files((path, array), types=TEXTS))
    path.write_text('{"user": 1, "key": "a"}\n{"user": 2, "key": "a"}\n')
    assert run(files) == {("a",): (2,)}
    assert run(Files((path,), types={"user": "BIGINT", "key": "TEXT"})) == {("a",): (2,)}


def test_expressions_read_the_columns_they_name(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    path.write_text(
        '{"user": 1, "time": "2024-02-03 10:00", "Ok": "true"}\n{"user": 2, "time": "never", "Ok": "true"}\n'
    )
    query = GroupByQuery(
        "user", (parse_key("month=strftime(CAST(time AS DATE), '%Y-%m')"),), where="CAST(Ok AS BOOLEAN)"
    )
    files = Files((path,), types={"user": "bigint", "time": "text", "Ok": "text"})
    assert run(files, query) == {("2024-02",): (1,), (None,): (1,)}


def test_errors_name_what_is_wrong(tmp_path: Path) -> None:
    path = tmp_path / "x.parquet"
    pq.write_table(pa.table({"user_id": [1], "URL": ["a"], "day": ["x"]}), path)
    with pytest.raises(
        InvalidParameter, match=r"Expected a column that exists, got 'userid'. Hint: did you mean 'user_id'\?"
    ):
        run(path, GroupByQuery("userid", (Key("URL"),)))
    with pytest.raises(InvalidParameter, match="did you mean 'URL'"):
        run(path, GroupByQuery("user_id", (Key("url"),)))
    with pytest.raises(InvalidParameter, match="the columns are user_id, URL, day"):
        run(path, GroupByQuery("user_id", (Key("zzzzzzzz"),)))
    with pytest.raises(InvalidParameter, match="numbers in 'day', got the type VARCHAR"):
        run(
            path,
            GroupByQuery("user_id", (Key("URL"),), (SumOfUnit("day", 0.0, 1.0, lattice=Lattice(0.5, 2.0**-20)),)),
        )
    with pytest.raises(InvalidParameter, match="a column that exists, got 'current_date'"):
        run(path, GroupByQuery("user_id", (parse_key("d=current_date"),)))
    with pytest.raises(
        InvalidParameter, match=r"date_trunc of the type BIGINT at character 1. Hint: what works: date_trunc\(text lit"
    ):
        run(path, GroupByQuery("user_id", (parse_key("d=date_trunc('month', user_id)"),)))
    with pytest.raises(InvalidParameter, match="in 'day > 5', got text beside a number at character 1"):
        run(path, GroupByQuery("user_id", (Key("URL"),), where="day > 5"))
    with pytest.raises(InvalidParameter, match="public keys that differ, read as BIGINT, got 1 more than once"):
        run(path, GroupByQuery("user_id", (Key("user_id"),), public_keys=pa.table({"user_id": ["1", "01"]})))
    with pytest.raises(InvalidParameter, match="true or false in 'user_id', got BIGINT"):
        run(path, GroupByQuery("user_id", (Key("URL"),), where="user_id"))
    with pytest.raises(InvalidParameter, match="public keys of the type BIGINT for 'user_id', got 'x'"):
        run(path, GroupByQuery("user_id", (Key("user_id"),), public_keys=pa.table({"user_id": ["1", "x"]})))
    for missing in ("nowhere.parquet", "*.nothing"):
        with pytest.raises(UnreadableSource, match="a file that exists"):
            run(tmp_path / missing)
    (tmp_path / "empty").mkdir()
    with pytest.raises(UnreadableSource, match="a folder with files"):
        run(tmp_path / "empty")
    with pytest.raises(UnreadableSource, match="a local path"):
        run("https://example.org/x.parquet")
    (tmp_path / "broken.parquet").write_bytes(b"PAR1 no")
    with pytest.raises(UnreadableSource, match="readable parquet files"):
        run(tmp_path / "broken.parquet")
    (tmp_path / "x.xlsx").write_bytes(b"")
    with pytest.raises(UnreadableSource, match="a name that ends in"):
        run(tmp_path / "x.xlsx")
    (tmp_path / "x.csv").write_text("user,key\n")
    with pytest.raises(UnreadableSource, match="one format"):
        run([tmp_path / "x.csv", path])
    with pytest.raises(InvalidParameter, match="types for columns that exist"):
        run(Files((tmp_path / "x.csv",), types={"kez": "DATE"}))


def test_a_damaged_file_fails_without_a_word_about_its_records(tmp_path: Path) -> None:
    path = tmp_path / "x.parquet"
    pq.write_table(
        pa.table({"user": list(range(10_000)), "key": ["secret"] * 10_000}),
        path,
        compression="none",
        use_dictionary=False,
    )
    content = bytearray(path.read_bytes())
    content[50:40_000] = b"\xff" * 39_950
    path.write_bytes(content)
    with pytest.raises(EngineFailure) as caught:
        run(path)
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None
    assert "secret" not in str(caught.value)


def test_too_little_memory_is_an_error_of_ours(tmp_path: Path) -> None:
    engine = DuckDBEngine(PerformanceSettings(threads=1, memory_limit="1MB", temp_directory=tmp_path))
    table = pa.table({"user": list(range(200_000)), "key": list(range(200_000))})
    with pytest.raises(EngineFailure, match="enough memory"):
        engine.histogram(table, KEY, ContributionBounds(1))
    assert list(tmp_path.iterdir()) == []


def test_spilling_stays_in_its_directory_and_is_removed(tmp_path: Path) -> None:
    seen: list[list[str]] = []
    engine = DuckDBEngine(PerformanceSettings(threads=1, memory_limit="60MB", temp_directory=tmp_path))
    table = pa.table(
        {"user": [i % 400_000 for i in range(800_000)], "key": [str(i * 7919 % 400_000) for i in range(800_000)]}
    )
    histogram = engine.histogram(
        table, KEY, ContributionBounds(1), progress=lambda phase: seen.append([p.name for p in tmp_path.iterdir()])
    )
    assert int(histogram.counts.sum()) == 400_000
    assert all(name.startswith("dphist-") for names in seen for name in names)
    assert list(tmp_path.iterdir()) == []


def test_settings_are_checked() -> None:
    wrong: Any
    for wrong in ({"threads": 0}, {"memory_limit": "4GB'; DROP"}, {"memory_limit": "much"}):
        with pytest.raises(InvalidParameter):
            PerformanceSettings(**wrong)
    with pytest.raises(InvalidParameter, match="a directory for temporary files"):
        DuckDBEngine(PerformanceSettings(temp_directory=Path("/nowhere at all"))).histogram(
            pa.table({"user": [1], "key": [1]}), KEY, ContributionBounds(1)
        )
    files: Any
    for files in (
        {"delimiter": ";;"},
        {"quote": "\n"},
        {"format": "xml"},
        {"types": {"x": "INT) --"}},
        {"header": False},
    ):
        with pytest.raises(InvalidParameter):
            Files(("x.csv",), **files)
    with pytest.raises(InvalidParameter):
        Files(())


def test_progress_names_phases_only(tmp_path: Path) -> None:
    said: list[str] = []
    table = pa.table({"user": [1], "key": [1]})
    ENGINE.histogram(table, KEY, ContributionBounds(1), progress=said.append)
    ENGINE.sketch(table, KEY, 1, progress=said.append)
    assert set(said) == {READING, BOUNDING, SKETCHING}


def test_a_run_touches_no_other_file_and_no_network(tmp_path: Path) -> None:
    """What an expression could reach if the checks had a hole: the connection itself is shut."""
    from dphist.engines.duckdb.engine import resolve
    from dphist.engines.duckdb.session import session

    path = tmp_path / "x.parquet"
    pq.write_table(pa.table({"user": [1], "key": ["a"]}), path)
    (tmp_path / "other.csv").write_text("a\n1\n")
    with session(PerformanceSettings()) as connection:
        resolve(connection, path, KEY, 0)
        assert connection.sql("SELECT count(*) FROM source").fetchall() == [(1,)]
        for reach in (
            f"SELECT * FROM read_csv('{tmp_path / 'other.csv'}')",
            f"COPY (SELECT 1) TO '{tmp_path / 'out.csv'}'",
            f"ATTACH '{tmp_path / 'x.db'}'",
            "INSTALL httpfs",
            "SET enable_external_access = true",
        ):
            with pytest.raises(duckdb.Error):
                connection.execute(reach)


def test_the_explained_sql_is_what_runs() -> None:
    table = pa.table({"user": [1, 1, 2], "key": ["a", "b", "a"], "v": [1.0, 2.0, 3.0]})
    with duckdb.connect() as connection:
        connection.register("source", table)
        text = ENGINE.explain(KEY_SUM, ContributionBounds(5), table)
        rows = connection.sql(text).fetchall()
    assert {(row[0],): row[1:] for row in rows} == run(table, KEY_SUM)
    derived = GroupByQuery("user", (parse_key("m=lower(key)"),), where="v > 1")
    assert 'TRY("lower"("key"))' in ENGINE.explain(derived, ContributionBounds(3), table)
