"""What is read from files, on every engine: as declared, as the header and the folders say, and never as records suggest."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from engine_oracle import (
    ENGINES,
    Engine,
    Groups,
    duckdb_and_at_length_spark,
    every_engine,
    expected,
    groups_of,
    quick,
)

import dphist as dp
from dphist.engines.duckdb.source import SOURCE, attach
from dphist.engines.histogram import ContributionBounds
from dphist.engines.query import GroupByQuery, parse_key
from dphist.engines.source import Files
from dphist.errors import InvalidParameter, UnreadableSource

RECORDS = [
    {"user": "1", "key": "Zürich", "v": "1.5"},
    {"user": "2", "key": "café", "v": "NA"},
    {"user": "2", "key": "Zürich", "v": "-"},
    {"user": "3", "key": "NA", "v": "7"},
    {"user": "NA", "key": "café", "v": "7"},
    {"user": "4", "key": "a;b|c\td", "v": "1e3"},
    {"user": "5", "key": "", "v": " 2"},
]
BY = ("key", "v")


def run(engine: Engine, source: Any, *by: str, unit: str = "user", where: str | None = None) -> Groups:
    query = GroupByQuery(unit, tuple(map(parse_key, by or BY)), where=where)
    return groups_of(engine.histogram(source, query, ContributionBounds(), seed=1))


def written(path: Path, records: list[dict[str, str]] = RECORDS, encoding: str = "utf-8", **options: Any) -> Path:
    text = io.StringIO()
    writer = csv.DictWriter(text, list(records[0]), lineterminator="\n", **options)
    writer.writeheader()
    writer.writerows(records)
    path.write_bytes(text.getvalue().encode(encoding))
    return path


def as_read(nulls: tuple[str, ...] = (), **types: Callable[[str], Any]) -> list[dict[str, Any]]:
    """What the records say: an empty field and the texts of `nulls` are null, the others of their declared types."""

    def value(name: str, text: str) -> Any:
        if not text or text in nulls:
            return None
        try:
            return types.get(name, str)(text)
        except ValueError:
            return None

    return [{name: value(name, text) for name, text in record.items()} for record in RECORDS]


@every_engine
@pytest.mark.parametrize(
    ("encoding", "delimiter"),
    [("utf-8-sig", ";"), ("windows-1252", "|"), ("latin-1", "tab"), ("utf-8", ",")],
)
def test_a_file_is_read_as_it_is_declared(engine: Engine, encoding: str, delimiter: str, tmp_path: Path) -> None:
    """A byte order mark is no part of the first column's name."""
    path = written(tmp_path / "x.csv", encoding=encoding, delimiter="\t" if delimiter == "tab" else delimiter)
    files = Files(
        (path,), delimiter=delimiter, encoding=encoding, nulls=["NA", "-"], types={"v": "double", "user": "int"}
    )
    assert run(engine, files) == expected(as_read(("NA", "-"), v=float, user=int), "user", BY)[0]


@every_engine
def test_a_line_that_is_not_of_the_encoding_costs_itself(engine: Engine, tmp_path: Path) -> None:
    """0x81 is no letter of windows-1252; every byte is one of latin-1."""
    path = tmp_path / "x.csv"
    path.write_bytes(b"user,key\n1,caf\xe9\n2,\x81\n3,caf\xe9\n")
    assert run(engine, Files((path,), encoding="cp1252"), "key") == {("café",): (2,)}
    assert run(engine, path, "key") == {}
    if not quick(engine):
        assert run(engine, Files((path,), encoding="latin1"), "key") == {("café",): (2,), ("\x81",): (1,)}


TYPED: dict[str, dict[str, Any]] = {
    "integer": {"7": 7, "-1": -1, "x": None, "2147483648": None, "NaN": None, "": None},
    "bigint": {"2147483648": 2**31, "1" * 19: int("1" * 19), "9" * 19: None, "1 2": None},
    "double": {"1.5": 1.5, "1e3": 1000.0, "-0.0": 0.0, "nan": None, "one": None, "1,5": None},
    "boolean": {"true": True, "False": False, "maybe": None},
    "decimal(5,2)": {"1.5": "1.50", "1234.5": None},
    "text": {"07": "07", "1.50": "1.50"},
}


@every_engine
@pytest.mark.parametrize("kind", TYPED)
def test_declared_types_mean_the_same_everywhere(engine: Engine, kind: str, tmp_path: Path) -> None:
    values = TYPED[kind]
    path = tmp_path / "x.csv"
    path.write_text("user,key\n" + "".join(f'{i},"{text}"\n' for i, text in enumerate(values)))
    found = run(engine, Files((path,), types={"key": kind}), "key")
    keys = [str(value) if kind.startswith("decimal") and value is not None else value for (value,) in found]
    assert sorted(keys, key=repr) == sorted(set(values.values()), key=repr)


@every_engine
def test_dates_and_times_are_declared(engine: Engine, tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text("user,day,time\n1,2024-02-03,2024-02-03 10:00:00\n2,soon,10:00\n3,2024-13-01,\n")
    files = Files((path,), types={"day": "date", "time": "timestamp"})
    spelled = ("d=CAST(day AS VARCHAR)", "h=date_trunc('hour', time) = TIMESTAMP '2024-02-03 10:00:00'")
    assert run(engine, files, *spelled) == {("2024-02-03", True): (1,), (None, None): (2,)}


def folder_of(kind: str, root: Path, days: dict[str, list[tuple[str, str]]]) -> Path:
    """A folder as Spark and Hive write it, with what they leave beside the data."""
    for day, rows in days.items():
        place = root / "events" / f"day={day}"
        place.mkdir(parents=True)
        path = place / f"part-0.{kind}"
        if kind == "parquet":
            pq.write_table(pa.table({"user": [u for u, _ in rows], "key": [k for _, k in rows]}), path)
        elif kind == "csv":
            path.write_text("user,key\n" + "".join(f"{u},{k}\n" for u, k in rows))
        else:
            path.write_text("".join(json.dumps({"user": u, "key": k}) + "\n" for u, k in rows))
        (place / f".part-1.{kind}.crc").write_bytes(b"\x00")
    (root / "events" / "_SUCCESS").write_text("")
    (root / "events" / "_temporary").mkdir()
    (root / "events" / "_temporary" / f"part-1.{kind}").write_text("unfinished")
    return root / "events"


DAYS = {
    "2024-01-01": [("1", "a"), ("2", "b")],
    "2024-01-02": [("1", "a"), ("3", "b")],
    "a b+c%2Fd%C3%A4": [("4", "a")],
    "__HIVE_DEFAULT_PARTITION__": [("5", "b")],
}
NAMES = {"a b+c%2Fd%C3%A4": "a b+c/dä", "__HIVE_DEFAULT_PARTITION__": None}


def rows_of(days: dict[str, list[tuple[str, str]]]) -> list[dict[str, Any]]:
    return [{"user": u, "key": k, "day": NAMES.get(day, day)} for day, rows in days.items() for u, k in rows]


@every_engine
@pytest.mark.parametrize("kind", ["parquet", "csv", "json"])
def test_a_folder_is_read_with_the_names_of_its_folders(engine: Engine, kind: str, tmp_path: Path) -> None:
    """They are text: one folder of another name must not change the key of every record."""
    source = folder_of(kind, tmp_path, DAYS)
    files = Files((source,), types={"user": "text", "key": "text"} if kind == "json" else {})
    assert run(engine, files, "day", "key") == expected(rows_of(DAYS), "user", ("day", "key"))[0]
    found = run(engine, files, "key", where="day = '2024-01-02'")
    assert found == expected(rows_of(DAYS), "user", ("key",), where=lambda record: record["day"] == "2024-01-02")[0]


@every_engine
def test_a_folder_name_may_have_a_type(engine: Engine, tmp_path: Path) -> None:
    for kind in ("parquet", "csv"):
        (tmp_path / kind).mkdir()
        source = folder_of(kind, tmp_path / kind, DAYS)
        files = Files((source / "day=*",), types={"day": "date"})
        found = run(engine, files, "y=date_part('year', day)", where="day > DATE '2024-01-01' OR day IS NULL")
        assert found == {(2024,): (2,), (None,): (2,)}
        with pytest.raises(InvalidParameter, match="types for columns that exist and have none, got usr"):
            run(engine, Files((source,), types={"usr": "date"}), "key")
    with pytest.raises(InvalidParameter, match="types for columns that exist and have none, got user"):
        run(engine, Files((tmp_path / "parquet" / "events",), types={"user": "integer"}), "key")


@every_engine
def test_a_folder_of_two_kinds_is_refused(engine: Engine, tmp_path: Path) -> None:
    source = folder_of("csv", tmp_path, {"1": [("1", "a")]})
    pq.write_table(pa.table({"user": [1]}), source / "x.parquet")
    with pytest.raises(UnreadableSource, match=r"files of one format, got csv \(part-0.csv\), parquet \(x.parquet\)"):
        run(engine, source, "key")
    (source / "x.parquet").rename(source / "notes.doc")
    with pytest.raises(UnreadableSource, match="a name that ends in"):
        run(engine, source, "key")
    pq.write_table(pa.table({"user": [1], "key": [1]}), tmp_path / "y.parquet")
    with pytest.raises(InvalidParameter, match="CSV files with the option delimiter, got parquet files"):
        run(engine, Files((tmp_path / "y.parquet",), delimiter=";"), "key")


@every_engine
def test_a_misspelled_column_of_json_is_refused_before_anything_is_read(engine: Engine, tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    path.write_text('{"user": 1, "key": "secret"}\n')
    with pytest.raises(UnreadableSource, match=r"--type user=text --type key=text or dp.Files") as caught:
        run(engine, path, "key")
    declared = Files((path,), types={"user": "bigint", "key": "text"})
    with pytest.raises(UnreadableSource, match=r"no type for 'usr'. Hint: did you mean 'user'\?"):
        run(engine, declared, "key", unit="usr")
    with pytest.raises(UnreadableSource, match="no type for 'kee'"):
        run(engine, declared, "k=lower(kee)")
    assert "secret" not in str(caught.value)
    assert run(engine, declared, "key") == {("secret",): (1,)}


@every_engine
@pytest.mark.parametrize("delimiter", [";", "\t", "|"])
def test_a_file_with_another_delimiter_says_which(engine: Engine, delimiter: str, tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text(delimiter.join(("\ufeffuser", "key", "v")) + "\n" + delimiter.join(("1", "secret", "2")) + "\n")
    option = "tab" if delimiter == "\t" else f"'{delimiter}'"
    with pytest.raises(InvalidParameter) as caught:
        run(engine, path, "key")
    assert str(caught.value) == (
        f"Expected a column 'user', got one column in all, with {option} in its name."
        f" Hint: the header looks separated by {option}; add --delimiter {option}."
    )
    path.write_text(delimiter.join(("1", "secret", "2")) + "\n")  # no header: nothing is said about a record
    with pytest.raises(InvalidParameter, match="the first line has 1 columns, none of this name") as caught:
        run(engine, path, "key")
    assert "secret" not in str(caught.value)


@every_engine
def test_a_name_close_to_one_of_the_header_is_suggested(engine: Engine, tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text("User-ID,url,secret\n1,a,b\n")
    with pytest.raises(InvalidParameter, match=r"got 'user_id'. Hint: did you mean 'User-ID'\?"):
        run(engine, path, "url", unit="user_id")
    with pytest.raises(InvalidParameter, match=r"got 'ulr'. Hint: did you mean 'url'\?"):
        run(engine, path, "ulr", unit="User-ID")
    with pytest.raises(InvalidParameter) as caught:  # no other name is there: the first line may be a record
        run(engine, path, "what", unit="secrets")
    assert "'secret'" not in str(caught.value)


@duckdb_and_at_length_spark
def test_what_a_unit_alone_yields_does_not_depend_on_others(engine: Engine, tmp_path: Path) -> None:
    """Some units' lines in a file of their own, with the same options: the sum is the whole."""
    options: dict[str, Any] = {"delimiter": ";", "encoding": "cp1252", "nulls": ["NA"], "types": {"v": "double"}}
    whole = run(engine, Files((written(tmp_path / "x.csv", delimiter=";", encoding="cp1252"),), **options))
    alone: dict[Any, int] = {}
    for users in ({"1", "NA"}, {"2"}, {"3", "4", "5"}):
        own = [record for record in RECORDS if record["user"] in users]
        path = written(tmp_path / f"{min(users)}.csv", own, delimiter=";", encoding="cp1252")
        for key, (count,) in run(engine, Files((path,), **options)).items():
            alone[key] = alone.get(key, 0) + count
    assert whole == {key: (count,) for key, count in alone.items()}


@duckdb_and_at_length_spark
def test_folders_of_one_unit_change_nothing_for_others(engine: Engine, tmp_path: Path) -> None:
    """Not even a folder whose name is no date makes the others texts, or nulls."""
    whole = Files((folder_of("csv", tmp_path, DAYS),), types={"day": "date"})
    alone: dict[Any, int] = {}
    for number, users in enumerate(({"1", "4"}, {"2", "3", "5"})):
        days = {day: [row for row in rows if row[0] in users] for day, rows in DAYS.items()}
        (tmp_path / str(number)).mkdir()
        own = folder_of("csv", tmp_path / str(number), {day: rows for day, rows in days.items() if rows})
        for key, (count,) in run(engine, Files((own,), types={"day": "date"}), "day", "key").items():
            alone[key] = alone.get(key, 0) + count
    assert run(engine, whole, "day", "key") == {key: (count,) for key, count in alone.items()}


SIGNS = ("a*b", "acb", "a?b", "[c]", "a\\b", "b=c", "it's", "100%", "%ZZ%41", "%FF", "NULL", "x\ny", "")


@every_engine
def test_signs_in_the_names_of_folders_are_only_signs(engine: Engine, tmp_path: Path) -> None:
    """As a pattern k=a*b would read the records of k=acb a second time, and a backslash would end a name."""
    for kind in ("parquet", "csv"):
        names = [sign for sign in SIGNS if kind == "parquet" or "\n" not in sign]
        (tmp_path / kind).mkdir()
        source = folder_of(kind, tmp_path / kind, {sign: [(str(i), "k")] for i, sign in enumerate(names)})
        values = {"%FF": "\ufffd"}
        assert run(engine, source, "user", "day") == {
            (str(i), values.get(sign, sign)): (1,) for i, sign in enumerate(names)
        }


def test_a_record_is_read_once_whatever_other_folders_are_called(tmp_path: Path) -> None:
    source = folder_of("parquet", tmp_path, {"a*b": [("1", "x")], "acb": [("2", "y")], "[a]cb": [("3", "z")]})
    with duckdb.connect() as connection:
        attach(connection, source, ["user", "day"])
        rows = connection.execute(f"SELECT user, day FROM {SOURCE} ORDER BY ALL").fetchall()
    assert rows == [("1", "a*b"), ("2", "acb"), ("3", "[a]cb")]


@every_engine
@pytest.mark.parametrize("kind", ["json", "csv", "parquet"])
def test_a_query_may_ask_for_folders_alone(engine: Engine, kind: str, tmp_path: Path) -> None:
    source = folder_of(kind, tmp_path, DAYS)
    with (source / "day=2024-01-01" / "part-0.json").open("a") if kind == "json" else io.StringIO() as more:
        more.write("no record\n")
    assert run(engine, source, "day", unit="day") == {
        (NAMES.get(day, day),): (1,) for day in DAYS if NAMES.get(day, day) is not None
    }


@every_engine
def test_an_error_shows_no_value_of_a_folder(engine: Engine, tmp_path: Path) -> None:
    """Values of folders are keys of their records."""
    source = folder_of("parquet", tmp_path, {"alice": [("1", "a")], "bob": [("2", "b")]})
    with pytest.raises(InvalidParameter, match="a column that exists") as misspelled:
        run(engine, source, "dya")
    for file in source.rglob("part-0.parquet"):
        file.write_bytes(b"damaged")
    with pytest.raises(UnreadableSource) as damaged:
        run(engine, source, "key")
    (source / "day=alice" / "Day=bob").mkdir()
    for file in source.rglob("part-0.parquet"):
        file.unlink()
    (source / "day=alice" / "Day=bob" / "x.csv").write_text("user,key\n1,a\n")
    with pytest.raises(InvalidParameter, match="column names that differ in more than case, got day, Day") as twice:
        run(engine, source, "key")
    for caught in (misspelled, damaged, twice):
        assert not {"alice", "bob"} & set(str(caught.value).replace("=", " ").replace("/", " ").split())


@pytest.mark.parametrize("nulls", [["x"] * 101, ["x" * 101], ["\udcff"]])
def test_nulls_that_no_reader_takes_are_refused(nulls: list[str]) -> None:
    """Before anything is read: Arrow would end the process, or fail at the first record."""
    with pytest.raises(InvalidParameter, match="nulls"):
        Files(("x.csv",), nulls=nulls)


def test_no_key_of_others_is_suggested_for_a_folder(tmp_path: Path) -> None:
    """What the name of a folder holds is a key."""
    for name in ("user=alice", "visits"):
        (tmp_path / name).mkdir()
    with pytest.raises(UnreadableSource, match="check the path") as refused:
        dp.release(tmp_path / "user=alicf", unit="user", by="k", epsilon=1, delta=1e-6)
    assert "alice" not in str(refused.value)
    with pytest.raises(UnreadableSource, match="visits"):
        dp.release(tmp_path / "visit", unit="user", by="k", epsilon=1, delta=1e-6)


def test_the_first_record_does_not_say_how_others_are_read() -> None:
    """U+FFFE at its start would turn the bytes of all the others."""
    with pytest.raises(InvalidParameter, match="UTF-16 files with a header"):
        Files(("x.csv",), encoding="utf-16", header=["a", "b"])
    assert Files(("x.csv",), encoding="latin-1", header=["a", "b"]).encoding == "latin-1"


@pytest.mark.parametrize("kind", ["decimal(39,2)", "decimal(2,5)", "decimal(0)", "decimal(٣)"])
def test_a_decimal_that_no_engine_has_is_refused(kind: str) -> None:
    """As a type, not as a damaged file."""
    with pytest.raises(InvalidParameter, match="for v, got 'decimal"):
        Files(("x.csv",), types={"v": kind})
    assert Files(("x.csv",), types={"v": "decimal(38, 38)"}).types == {"v": "DECIMAL(38, 38)"}


@every_engine
def test_marks_at_the_start_of_a_line_of_json_are_dropped(engine: Engine, tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    path.write_text("".join("\ufeff" * marks + f'{{"user": {marks}, "key": "a"}}\n' for marks in (2, 0, 1)))
    assert run(engine, Files((path,), types={"user": "bigint", "key": "text"}), "key") == {("a",): (3,)}


@every_engine
def test_a_glob_reads_files_and_folders_once(engine: Engine, tmp_path: Path) -> None:
    source = folder_of("csv", tmp_path, {"1": [("1", "a")]})
    (source / "more.csv").write_text("user,key\n2,a\n")
    assert run(engine, source / "[dm]*", "key") == {("a",): (2,)}
    if engine is ENGINES["duckdb"]:
        assert run(engine, source / "*", "key") == {("a",): (2,)}
        return
    with pytest.raises(UnreadableSource, match="data alone behind"):  # Spark would read what was left unfinished
        run(engine, source / "*", "key")
