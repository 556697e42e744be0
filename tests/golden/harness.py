"""What the golden cases stand on: predictable noise, one thread, a folder with files, and results as plain data.

Only `dphist`, `dphist.cli.main` and `dphist.noise.entropy` are named here, so that everything else may move.
"""

from __future__ import annotations

import datetime as dt
import functools
import hashlib
import io
import json
import math
import os
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import asdict, is_dataclass
from pathlib import Path
from typing import Any
from unittest import mock

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

import dphist as dp
from dphist.cli import main
from dphist.noise.entropy import SystemEntropy

OUTPUTS = Path(__file__).parent / "outputs"
CLOSE = 1e-9
"""Numbers whose ratio differs from 1 by less are the same."""

_connect = duckdb.connect

Words = Callable[[int], Any]


def seeded() -> Words:
    """One stream of words, the same however it is cut into calls."""
    stream = np.random.PCG64(20240229)
    return lambda count: stream.random_raw(count)


def zeros() -> Words:
    """All words are zero: every law draws its middle, whatever the order of the groups."""
    return lambda count: np.zeros(count, dtype=np.uint64)


@contextmanager
def predictable(words: Words) -> Iterator[None]:
    """Everything that would ask the operating system for noise or a seed gets these words instead."""
    with mock.patch.object(SystemEntropy, "words", lambda self, count: words(count)):
        yield


@contextmanager
def workplace(folder: Path) -> Iterator[None]:
    """A folder with files to work in, a plain terminal of 100 columns, one thread in DuckDB and Arrow.

    With more threads groups come in any order, and noise that is drawn in this order falls on other groups.
    """

    def connect(*arguments: Any, **options: Any) -> duckdb.DuckDBPyConnection:
        return _connect(*arguments, **{**options, "config": {"threads": 1, **options.get("config", {})}})

    old, threads = Path.cwd(), pa.cpu_count()
    unset = ("DPHIST_LEDGER", "DPHIST_DATASET", "FORCE_COLOR", "TERMINAL_WIDTH")
    with mock.patch.dict(os.environ, {"COLUMNS": "100", "LINES": "40", "NO_COLOR": "1"}):
        for name in unset:
            os.environ.pop(name, None)
        os.chdir(folder)
        pa.set_cpu_count(1)
        try:
            for name, content in _files().items():
                Path(name).write_bytes(content)
            with mock.patch.object(duckdb, "connect", connect):
                yield
        finally:
            pa.set_cpu_count(threads)
            os.chdir(old)


def run(case: Callable[[], Any], folder: Path) -> Any:
    """The result of a case in a fresh folder, as it is stored."""
    with workplace(folder), predictable(seeded()):
        return normal(case(), folder)


def text_of(result: Any) -> str:
    """A result as it is stored: JSON, with what fits into a line in one line."""
    return _laid_out(result, 0) + "\n"


_METADATA = re.compile(r'<script type="application/json" id="metadata">.*?</script>', re.DOTALL)
_NUMBER = re.compile(r"-?\b\d+\.\d+(?:[eE][-+]?\d+)?\b|-?\b\d+[eE][-+]?\d+\b|\b\d{17,}\b")


def settled(found: Any, stored: Any) -> Any:
    """A result, with the stored one's number wherever the two are closer than `CLOSE`.

    The last digits of a number belong to one kind of processor.
    """
    if isinstance(found, dict) and isinstance(stored, dict):
        return {name: settled(value, stored.get(name)) for name, value in found.items()}
    if isinstance(found, list) and isinstance(stored, list):
        return [settled(*both) for both in zip(found, stored, strict=False)] + found[len(stored) :]
    if isinstance(found, float) and isinstance(stored, float):
        return stored if math.isclose(found, stored, rel_tol=CLOSE) else found
    if isinstance(found, str) and isinstance(stored, str) and _NUMBER.split(found) == _NUMBER.split(stored):
        numbers = iter(_NUMBER.findall(stored))

        def close(number: re.Match[str]) -> str:
            other = next(numbers)
            return other if math.isclose(float(number[0]), float(other), rel_tol=CLOSE) else number[0]

        return _NUMBER.sub(close, found)
    return found


def _laid_out(value: Any, depth: int) -> str:
    line = json.dumps(value, ensure_ascii=False, allow_nan=False)
    held = list(value.values()) if isinstance(value, dict) else value
    if not isinstance(held, list) or len(line) <= 116 - depth or not held:
        return line
    inner = [_laid_out(part, depth + 1) for part in held]
    if isinstance(value, dict):
        inner = [f"{json.dumps(name, ensure_ascii=False)}: {part}" for name, part in zip(value, inner, strict=True)]
    pad = " " * (depth + 1)
    opening, closing = "{}" if isinstance(value, dict) else "[]"
    return f"{opening}\n{pad}" + f",\n{pad}".join(inner) + f"\n{' ' * depth}{closing}"


# --- the records -----------------------------------------------------------------------------------------------------


def events(units: int = 1200, most: int = 9, items: int = 16) -> pa.Table:
    """People with some records each, in few large and many small groups; some keys and values are missing."""
    rows = [(unit, record) for unit in range(units) for record in range(1 + unit * 7919 % most)]
    parts = [(unit * 2654435761 + record * 1013904223) % 2**32 / 2**32 for unit, record in rows]
    item = [int(items * part**3) for part in parts]
    values = [None if n % 29 == 5 else math.nan if n % 31 == 7 else (n * 37 % 160) / 8 - 2 for n in range(len(rows))]
    return pa.table(
        {
            "user": pa.array([unit for unit, _ in rows], pa.int64()),
            "item": pa.array([None if i == 4 else f"item {i:02}" for i in item], pa.string()),
            "country": pa.array([("de", "fr", 'O\'Hare "x"')[unit % 5 % 3] for unit, _ in rows], pa.string()),
            "likes": pa.array([n % 2 for n in range(len(rows))], pa.int32()),
            "spent": pa.array(values, pa.float64()),
            "day": pa.array([dt.date(2024, 1, 1 + (unit + record) % 28) for unit, record in rows], pa.date32()),
        }
    )


EVENTS = events()
LIGHT = pa.table({"user": pa.array(range(2000)), "item": pa.array([f"i{n % 9 % 7}" for n in range(2000)])})
"""Each unit is in one group."""


@functools.cache
def _files() -> dict[str, bytes]:
    """The same records in every format, lists of keys, and batches of a stream."""
    names = EVENTS.column_names
    few = EVENTS.slice(0, 3000).to_pylist()
    quoted = [",".join('"' + str(row[name] or "").replace('"', '""') + '"' for name in names) for row in few]
    lines = [json.dumps({name: row[name] for name in ("user", "item", "likes")}) for row in few]
    texts = {
        "events.csv": [",".join(names), *quoted],
        "bare.csv": [f"{row['user']},{row['likes']},{row['spent']}" for row in few],
        "events.jsonl": lines,
        "keys.txt": ["item 00", "item 01", "item 02", "item 20", "nobody"],
        "pairs.csv": ["item,country", "item 00,de", "item 00,fr", "item 01,de", "nobody,xx"],
    }
    batches = {f"batch{n}.parquet": EVENTS.filter(pc.equal(EVENTS["likes"], n % 2)) for n in range(3)}
    return {
        **{name: ("\n".join(text) + "\n").encode() for name, text in texts.items()},
        **{name: _parquet(table) for name, table in {"events.parquet": EVENTS, **batches}.items()},
    }


def _parquet(table: pa.Table) -> bytes:
    sink = io.BytesIO()
    pq.write_table(table, sink)
    return sink.getvalue()


# --- what is stored --------------------------------------------------------------------------------------------------


def rows(table: pa.Table) -> dict[str, Any]:
    """A table as its types, its rows, and the columns that hold one value only."""
    held = {name: table.column(name).to_pylist() for name in table.column_names}
    constant = {
        name: values[0] for name, values in held.items() if len(values) > 1 and len(set(map(repr, values))) == 1
    }
    varying = {name: values for name, values in held.items() if name not in constant}
    return {
        "types": {field.name: str(field.type) for field in table.schema},
        "constant": constant,
        "rows": [list(varying), *map(list, zip(*varying.values(), strict=True))],
    }


def page(html: str) -> dict[str, Any]:
    """An HTML report: its headings and a fingerprint of all but the last digits of numbers. Call it on normalised text.

    The metadata in it is left out: that of the table is stored beside it, number by number."""
    html = _METADATA.sub("", html)
    html = _NUMBER.sub(
        lambda found: f"{float(found[0]):.9g}" if len(found[0]) > 12 and "." in found[0] else found[0], html
    )
    headings = [re.sub(r"<[^>]+>", "", found) for found in re.findall(r"<h[1-3][^>]*>(.*?)</h[1-3]>", html, re.DOTALL)]
    return {"headings": headings, "length": len(html), "sha256": hashlib.sha256(html.encode()).hexdigest()[:32]}


def file(name: str) -> Any:
    """A written file as it is stored."""
    path = Path(name)
    if path.suffix == ".parquet":
        table = pq.read_table(path)
        metadata = {key.decode(): value.decode() for key, value in (table.schema.metadata or {}).items()}
        return {**rows(table), "metadata": {key: _parsed(value) for key, value in metadata.items()}}
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".html":
        return page(_normal_text(text, Path.cwd()))
    return _parsed(text) if path.suffix == ".json" and text.startswith("{\n") else text.splitlines()


def _parsed(text: str) -> Any:
    return json.loads(text) if text.startswith(("{", "[")) else text


def checks(path: str, **options: Any) -> list[str]:
    """What verify says about a published file."""
    return [f"{check.state} {check.name}: {check.detail}" for check in dp.verify(path, **options)]


def error(call: Callable[[], Any]) -> str:
    """What a wrong call says."""
    try:
        found = call()
    except Exception as problem:
        return f"{type(problem).__name__}: {problem}"
    return f"no error: {found}"


def cli(*commands: str, files: tuple[str, ...] = ()) -> dict[str, Any]:
    """What commands print, one after the other, and the files they leave. Words are split at blanks, `~` is a blank."""
    return {
        "commands": [_command([word.replace("~", " ") for word in command.split()]) for command in commands],
        **({"files": {name: file(name) for name in files}} if files else {}),
    }


def _command(words: list[str]) -> dict[str, Any]:
    out, err = io.StringIO(), io.StringIO()
    code: Any = None
    alone = mock.patch.object(sys.modules["__main__"], "__package__", "")  # or the help names `python -m pytest`
    with alone, mock.patch.object(sys, "argv", ["dphist", *words]), redirect_stdout(out), redirect_stderr(err):
        try:
            main()
        except SystemExit as problem:
            code = problem.code
    printed = {"command": " ".join(words), "exit": code or 0, "out": out.getvalue().splitlines()}
    return {**printed, **({"err": err.getvalue().splitlines()} if err.getvalue() else {})}


_PATTERNS = (
    (re.compile(r"\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?(\+00:00|Z| UTC)?"), "<time>"),
    (re.compile(r"\b\d{4}-\d\d-\d\d \d\d:\d\d( UTC)?"), "<time>"),
    (re.compile(r"\bon \d{4}-\d\d-\d\d\b"), "on <day>"),
    (re.compile(r"\b[0-9a-f]{64}\b"), "<hash>"),
    (re.compile(r"\bdphist_[0-9a-f]{16}_"), "dphist_<fresh>_"),
    (re.compile(r"\b[0-9a-f]{16}…"), "<hash>…"),
    (re.compile(rf"\b(dphist(?: version)?) {re.escape(dp.__version__)}"), r"\1 <version>"),
)
_VARYING = {"created": "<time>", "dphist": "<version>", "time": "<time>"}


def _normal_text(text: str, folder: Path) -> str:
    for place in {str(folder.resolve()), str(folder)}:
        text = text.replace(place, "<folder>")
    for pattern, word in _PATTERNS:
        text = pattern.sub(word, text)
    return text


def normal(value: Any, folder: Path) -> Any:
    """Plain data without times, versions, hashes and places; floats stay exact, since JSON writes their shortest form."""
    if isinstance(value, str):
        return _normal_text(value, folder)
    if isinstance(value, dict):
        return {
            str(key): _VARYING[key] if key in _VARYING and isinstance(held, str) else normal(held, folder)
            for key, held in value.items()
        }
    if isinstance(value, list | tuple):
        return [normal(held, folder) for held in value]
    if isinstance(value, np.generic):
        return normal(value.item(), folder)
    if is_dataclass(value) and not isinstance(value, type):
        return {"type": type(value).__name__, **normal(asdict(value), folder)}
    if isinstance(value, float) and not math.isfinite(value):
        return repr(value)
    return value if value is None or isinstance(value, bool | int | float) else _normal_text(str(value), folder)
