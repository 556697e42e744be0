"""No word of a record in an error, a log, a warning, a terminal, a report or a sidecar: only in the released table itself.

One record holds a marker. Whatever dphist says about such a source is searched for it, and every error must be one of ours.
"""

from __future__ import annotations

import gzip
import json
import logging
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dphist as dp
from dphist.cli import main

MARKER = "MARKER-alice-has-HIV"
NUMBER = 31337007
SOUGHT = ("alice", str(NUMBER))
PEOPLE = 60

Make = Callable[[Path], Any]
Verb = Callable[[Any, Path], None]


def rows(marked: str = MARKER, where: str = "key") -> list[dict[str, Any]]:
    """Sixty people with one record each, and the marked one among them."""
    plain = [{"user": str(person), "key": "a", "v": "1"} for person in range(PEOPLE)]
    return [*plain[:7], {**plain[7], where: marked}, *plain[8:]]


def text_file(name: str, content: str | bytes) -> Make:
    def make(folder: Path) -> Path:
        path = folder / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode("utf-8", "surrogatepass"))
        return path

    return make


def lines_of(records: list[dict[str, Any]], header: str = "user,key,v\n") -> str:
    return header + "".join(",".join(map(str, record.values())) + "\n" for record in records)


def json_of(records: list[dict[str, Any]], first: str = "") -> str:
    return first + "".join(json.dumps(record) + "\n" for record in records)


def column(values: list[Any], kind: pa.DataType | None = None) -> pa.Table:
    """A table whose key is given; the unit and a number beside it."""
    return pa.table({"user": list(range(len(values))), "key": pa.array(values, kind), "v": [1.0] * len(values)})


def broken_text() -> pa.Table:
    """Bytes that are not UTF-8 in a column that says it is text."""
    words = [b"a"] * PEOPLE + [b"\xff\xfe" + MARKER.encode()]
    return column(words, pa.binary()).set_column(1, "key", pa.array(words, pa.binary()).view(pa.string()))


def parquet(table: pa.Table | Callable[[], pa.Table], cut: int | None = None, **options: Any) -> Make:
    def make(folder: Path) -> Path:
        path = folder / "x.parquet"
        pq.write_table(table() if callable(table) else table, path, use_dictionary=False, compression="none", **options)
        content = path.read_bytes()
        path.write_bytes(content if cut is None else content[:cut])
        return path

    return make


def overwritten(folder: Path) -> Path:
    path: Path = parquet(column(["a"] * PEOPLE + [MARKER] * 100))(folder)
    content = bytearray(path.read_bytes())
    content[30:300] = b"\xff" * 270
    path.write_bytes(content)
    return path


def frame(**columns: Any) -> Make:
    def make(folder: Path) -> pd.DataFrame:
        given = {"user": list(range(PEOPLE + 1)), "key": ["a"] * (PEOPLE + 1), "v": [1.0] * (PEOPLE + 1)}
        return pd.DataFrame({**given, **columns})

    return make


def objects(value: Any) -> pd.Series:
    return pd.Series(["a"] * PEOPLE + [value], dtype=object)


class Wordy:
    """An object whose text cannot be had, or is not a text."""

    def __init__(self, answer: Any = None) -> None:
        self.answer = answer

    def __str__(self) -> str:
        if self.answer is None:
            raise ValueError(MARKER)
        return self.answer  # type: ignore[no-any-return]

    __repr__ = __str__
    __hash__ = object.__hash__

    def __eq__(self, other: object) -> bool:
        raise ValueError(MARKER)


def relation(sql: str) -> Make:
    def make(folder: Path) -> duckdb.DuckDBPyRelation:
        connection = duckdb.connect(config={"threads": 1})
        connection.execute(
            f"CREATE TABLE t AS SELECT i AS u, CASE WHEN i = 7 THEN '{MARKER}' ELSE '1' END AS c FROM range(60) t(i)"
        )
        return connection.sql(sql)

    return make


def lazy(change: Callable[[pl.LazyFrame], pl.LazyFrame]) -> Make:
    return lambda folder: change(pl.LazyFrame(rows()))


def refuse(value: Any) -> Any:
    raise ValueError(MARKER)


def stream(*, schema: pa.Schema | None = None, error: type[BaseException] = ValueError) -> Make:
    def batches() -> Iterator[pa.RecordBatch]:
        yield from column(["a"] * PEOPLE).to_batches()
        if schema is not None:
            yield pa.record_batch({"other": [MARKER]})
        raise error(MARKER)

    return lambda folder: pa.RecordBatchReader.from_batches(column(["a"]).schema, batches())


OF_TEXT = rows()
CASES: dict[str, Make] = {
    "csv plain key": text_file("x.csv", lines_of(rows())),
    "csv unit": text_file("x.csv", lines_of(rows(where="user"))),
    "csv value": text_file("x.csv", lines_of(rows(where="v"))),
    "csv first record without header": text_file("x.csv", lines_of(rows()[7:], header="")),
    "csv first record doubled": text_file("x.csv", lines_of(rows(), header=f"{MARKER},{MARKER},{MARKER}\n")),
    "csv header in latin-1": text_file("x.csv", "us\xe9r,key,v\n".encode("latin-1") + lines_of(rows()[7:], header="").encode()),
    "csv header in utf-16": text_file("x.csv", lines_of(rows()[7:]).encode("utf-16")),
    "csv key in latin-1": text_file("x.csv", lines_of(rows(f"\xe9{MARKER}")).encode("latin-1")),
    "csv short": text_file("x.csv", lines_of(rows()) + f"{MARKER}\n"),
    "csv open quote": text_file("x.csv", lines_of(rows(f'"{MARKER}'))),
    "csv semicolons": text_file("x.csv", lines_of(rows()).replace(",", ";")),
    "csv semicolons without header": text_file("x.csv", lines_of(rows()[7:], header="").replace(",", ";")),
    "csv a name nearly as asked": text_file("x.csv", lines_of(rows(), header=f"user,kee,{MARKER}\n")),
    "csv wrong encoding": lambda folder: dp.Files((text_file("x.csv", lines_of(rows()))(folder),), encoding="utf-16"),
    "csv NUL": text_file("x.csv", lines_of(rows(f"{MARKER}\x00"))),
    "csv open quote in the header": text_file("x.csv", lines_of(rows()[7:], header='user,key,"v\n')),
    "csv empty header": text_file("x.csv", lines_of(rows()[7:], header="\n")),
    "csv no such type": lambda folder: dp.Files((text_file("x.csv", lines_of(rows()))(folder),), types={"key": "INTEGER"}),
    "csv another type": lambda folder: dp.Files((text_file("x.csv", lines_of(rows()))(folder),), types={"key": "UUID"}),
    "csv gzip cut": text_file("x.csv.gz", gzip.compress(lines_of(rows() * 50).encode())[:-30]),
    "csv not gzip": text_file("x.csv.gz", lines_of(rows())),
    "csv not zstd": text_file("x.csv.zst", lines_of(rows())),
    "csv called parquet": text_file("x.parquet", lines_of(rows())),
    "json lines that begin like an array": text_file("x.json", json_of(OF_TEXT, first=f'["{MARKER}"]\n')),
    "json array": text_file("x.json", json.dumps(OF_TEXT)[:-1] + f",{MARKER}]"),
    "json bad line": text_file("x.jsonl", json_of(OF_TEXT) + f'{{"user": {MARKER}\n'),
    "json lone surrogate": text_file("x.jsonl", json_of(OF_TEXT) + f'{{"user": "1", "key": "{MARKER}\\ud800"}}\n'),
    "json bytes that are no text": text_file("x.jsonl", json_of(OF_TEXT).encode() + MARKER.encode() + b'\xff"}\n'),
    "json other types": text_file("x.jsonl", json_of([{"user": {"a": MARKER}, "key": [MARKER], "v": {MARKER: 1}}, *OF_TEXT])),
    "json not gzip": text_file("x.json.gz", json_of(OF_TEXT)),
    "json an enormous line": text_file("x.jsonl", json_of(rows(MARKER + "x" * 17_000_000))),
    "parquet plain": parquet(pa.Table.from_pylist(OF_TEXT)),
    "parquet broken text": parquet(broken_text),
    "parquet without its end": parquet(column(["a"] * PEOPLE + [MARKER]), cut=-20),
    "parquet overwritten": overwritten,
    "parquet a time that does not fit": parquet(column([*[0] * PEOPLE, NUMBER * 10**11], pa.timestamp("ms"))),
    "arrow broken text": lambda folder: broken_text(),
    "arrow nested": lambda folder: column([{"a": MARKER}]),
    "arrow plain": lambda folder: pa.Table.from_pylist(OF_TEXT),
    "stream that fails": stream(),
    "stream that fails with its own kind": stream(error=pa.ArrowInvalid),
    "stream that fails to look up": stream(error=KeyError),
    "stream with another schema": stream(schema=pa.schema([])),
    "pandas mixed categories": frame(key=pd.Categorical([1] * PEOPLE + [MARKER])),
    "pandas mixed units": frame(user=pd.Categorical([*range(PEOPLE), MARKER])),
    "pandas object without text": frame(key=objects(Wordy())),
    "pandas object with another text": frame(key=objects(Wordy(NUMBER))),
    "pandas object with a surrogate": frame(key=objects(f"\ud800{MARKER}")),
    "pandas unit with a surrogate": frame(user=objects(f"{MARKER}\udcff")),
    "pandas object with a list": frame(key=objects([MARKER])),
    "pandas value of another type": frame(v=pd.Series([1.0] * PEOPLE + [MARKER], dtype=object)),
    "pandas categories with a surrogate": frame(key=pd.Categorical(objects(f"\ud800{MARKER}"))),
    "pandas complex": frame(key=[1j] * PEOPLE + [NUMBER * 1j]),
    "pandas periods": frame(key=pd.PeriodIndex(["2000-01"] * PEOPLE + ["1337-07"], freq="M")),
    "pandas intervals": frame(key=pd.arrays.IntervalArray.from_tuples([(0, 1)] * PEOPLE + [(0, NUMBER)])),
    "pandas sparse": frame(key=pd.arrays.SparseArray([1] * PEOPLE + [NUMBER])),
    "polars lazy cast": lazy(lambda one: one.with_columns(pl.col("key").cast(pl.Int64))),
    "polars lazy date": lazy(lambda one: one.with_columns(pl.col("key").str.to_date())),
    "polars lazy function": lazy(lambda one: one.with_columns(pl.col("key").map_elements(refuse, return_dtype=pl.String))),
    "polars objects": lambda folder: pl.DataFrame({"user": [1], "v": [1], "key": pl.Series([{MARKER}], dtype=pl.Object)}),
    "relation with a cast": relation("SELECT u AS user, CAST(c AS INTEGER) AS key, 1 AS v FROM t"),
    "relation with a cast of the unit": relation("SELECT CAST(c AS INTEGER) AS user, 'a' AS key, 1 AS v FROM t"),
    "relation with a condition": relation("SELECT u AS user, u AS key, 1 AS v FROM t WHERE CAST(c AS DATE) > DATE '2000-1-1'"),
    "relation with an error": relation("SELECT u AS user, CASE WHEN u = 7 THEN error(c) ELSE c END AS key, 1 AS v FROM t"),
    "relation with an overflow": relation("SELECT u AS user, CAST(IF(u = 3, 10445669 * u, 0) AS INT1) AS key, 1 AS v FROM t"),
    "relation with a division": relation("SELECT u AS user, factorial(CAST(u AS INTEGER) + 31) AS key, 1 AS v FROM t"),
}  # fmt: skip


@cache
def plan_of_counts() -> dp.Plan:
    """Made once: to plan takes longer than to count sixty people."""
    return dp.plan(epsilon=1, delta=1e-9, max_groups=1)


@cache
def plan_with_sum() -> dp.Plan:
    return dp.plan(epsilon=1, delta=1e-9, sums={"v": (0, 1)})


@cache
def plan_of_ranks() -> dp.TopKPlan:
    return dp.plan_top_k(k=2, epsilon=1, delta=1e-9)


def released(source: Any, folder: Path) -> None:
    found = dp.release(source, unit="user", by="key", plan=plan_of_counts())
    found.write(folder / "out.parquet")
    found.report(folder / "out.html")


def released_with_sum(source: Any, folder: Path) -> None:
    dp.release(source, unit="user", by="key", plan=plan_with_sum(), where="length(CAST(key AS VARCHAR)) > 0")


def ranked(source: Any, folder: Path) -> None:
    dp.top_k(source, unit="user", by="key", plan=plan_of_ranks())


def median(source: Any, folder: Path) -> None:
    dp.stat("median", source, unit="user", column="v", lower=0, upper=10, error=1, epsilon=1, delta=1e-9)


FILES = [
    name for name in CASES if name.startswith(("csv", "json", "parquet")) and not {"type", "encoding"} & {*name.split()}
]
"""By default the library reads every second of them and the command line the others; `make test-long` has the rest."""

ALIKE = {
    "arrow plain", "pandas mixed units", "pandas object with another text", "pandas unit with a surrogate", "pandas complex",
    "pandas intervals", "polars lazy cast", "relation with a condition", "relation with an overflow",
}  # fmt: skip
"""Others fail at the same place."""


def case(name: str, *, by_default: bool) -> Any:
    return pytest.param(name, marks=[] if by_default else [pytest.mark.long])


COLUMNS = {"user": "text", "key": "text", "v": "text"}
VERBS: tuple[Verb, ...] = (released, released_with_sum, ranked, median)
BUDGET = ("--epsilon", "1", "--delta", "1e-9", "--unit", "user")
COMMANDS = (
    ("release", "--by", "key", "--max-groups", "1", "--sum", "v:0:1", "-o", "out.csv", "--report", "out.html", *BUDGET),
    ("top-k", "--by", "key", "--k", "2", "-o", "out.json", *BUDGET),
    ("stat", "median", "--column", "v", "--lower", "0", "--upper", "10", "--error", "1", *BUDGET),
)


def words_of(error: BaseException) -> Iterator[str]:
    """Everything that an error says, and the errors behind it."""
    yield from traceback.format_exception(error)
    seen: BaseException | None = error
    while seen is not None:
        yield from (str(seen), repr(seen), repr(seen.args), str(vars(seen)), *getattr(seen, "__notes__", ()))
        seen = seen.__cause__ or seen.__context__


def assert_silent(places: dict[str, str]) -> None:
    for place, text in places.items():
        found = [word for word in SOUGHT if word in text]
        assert not found, f"{place} quotes a record: ...{_around(text, found[0])}..."


def _around(text: str, word: str) -> str:
    place = text.index(word)
    return text[max(0, place - 120) : place + 60].replace("\n", " ")


def check_library(
    name: str, verb: Verb, folder: Path, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    caught: BaseException | None = None
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("ignore")
        source = CASES[name](folder)
        source = dp.Files((source,), types=COLUMNS) if name.startswith("json") else source
        warnings.simplefilter("always")
        capfd.readouterr()
        try:
            verb(source, folder)
        except BaseException as error:
            caught = error
    shown = capfd.readouterr()
    assert_silent(
        {
            "the error": "\n".join(words_of(caught)) if caught is not None else "",
            "a warning": " ".join(str(one.message) for one in warned),
            "a log": caplog.text,
            "stdout": shown.out,
            "stderr": shown.err,
            **_written(folder),
        }
    )
    assert caught is None or isinstance(caught, dp.DphistError), type(caught)


@pytest.mark.parametrize("name", [case(name, by_default=name not in {*ALIKE, *FILES[1::2]}) for name in CASES])
def test_the_library_quotes_no_record(
    name: str, tmp_path: Path, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    check_library(name, VERBS[list(CASES).index(name) % 3], tmp_path, capfd, caplog)


@pytest.mark.statistical
@pytest.mark.parametrize("verb", VERBS, ids=lambda verb: verb.__name__)
@pytest.mark.parametrize("name", CASES)
def test_no_verb_quotes_a_record(
    name: str, verb: Verb, tmp_path: Path, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    check_library(name, verb, tmp_path, capfd, caplog)


@pytest.mark.parametrize("name", [case(name, by_default=name in FILES[1::2]) for name in FILES])
def test_the_command_line_quotes_no_record(
    name: str, tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    command, *options = COMMANDS[FILES.index(name) % 3]
    source = CASES[name](tmp_path)
    monkeypatch.chdir(tmp_path)
    first = [options.pop(0)] if command == "stat" else []
    options += [f"--type={column}=text" for column in COLUMNS] if name.startswith("json") else []
    monkeypatch.setattr(sys, "argv", ["dphist", command, *first, source.name, *options])
    with pytest.raises(SystemExit) as stopped:
        main()
    shown = capfd.readouterr()
    assert_silent({"stdout": shown.out, "stderr": shown.err, **_written(tmp_path)})
    assert stopped.value.code in (0, 2, None)


def _written(folder: Path) -> dict[str, str]:
    """What was written beside the table."""
    beside = [path for path in folder.iterdir() if path.name.startswith("out.") and path.suffix in (".html", ".json")]
    return {path.name: path.read_text() for path in beside if path.name != "out.json"}
