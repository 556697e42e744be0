"""Public lists of groups: files, tables, queries, values, and products of columns. What is listed is public by declaration."""

from __future__ import annotations

import csv
import datetime as dt
import errno
import math
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence, Sized
from itertools import islice
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

from dphist.errors import InvalidParameter
from dphist.files.outputs import near

MOST_KEYS: Final = 10_000_000
"""Of a product or a query: what is larger is refused before it is built."""

_COLUMN: Final = re.compile(r'\s*(?:(?P<plain>[^\W\d]\w*)|"(?P<quoted>(?:[^"]|"")+)")\s*=(?P<values>.*)', re.DOTALL)
_QUERY: Final = re.compile(r"\s*(?:select|from|with|values)\s*[\s('\"*].*", re.IGNORECASE | re.DOTALL)
_WHOLE: Final = r"-?(?:0|[1-9][0-9]{0,17})"
_DAY: Final = r"[0-9]{4}-[0-9]{2}-[0-9]{2}"
_RANGE: Final = re.compile(rf"({_WHOLE}|{_DAY})\.\.({_WHOLE}|{_DAY})")
_COLUMNS: Final = "for example --keys country=DE,FR,CH --keys year=2020..2024."


def public_keys(source: object, names: Sequence[str] | None = None) -> pa.Table:
    """The different groups of a public list, one column per key, in the order of `names`; without names, whatever it has.

    A text file holds one key per line (one key column) or is a CSV with a header (several); a Parquet file has the key columns.
    A text may also be an SQL query, or ``column=value,value,first..last``. A mapping of columns to values stands for all their
    combinations; a list holds values, or tuples of them; tables and frames have the key columns.
    """
    table = _read(source, names)
    if names is not None and sorted(table.column_names) != sorted(names):
        raise InvalidParameter(f"public keys with the columns {list(names)}", table.column_names)
    listed = table.column_names if names is None else list(names)
    table = table.select(listed).group_by(listed, use_threads=False).aggregate([])
    if table.num_rows == 0:
        raise InvalidParameter("at least one public key", "none", "write one key per line into the file, or name them.")
    return table.select(listed)


def columns_of(texts: Sequence[str]) -> dict[str, list[Any]]:
    """Several `column=values` as a mapping."""
    columns: dict[str, list[Any]] = {}
    for text in texts:
        found = _COLUMN.fullmatch(text)
        if found is None:
            raise InvalidParameter("one file or query, or several column=values as public keys", repr(text), _COLUMNS)
        name = found["plain"] or found["quoted"].replace('""', '"')
        if name in columns:
            raise InvalidParameter("each column of the public keys once", f"{name} twice", _COLUMNS)
        columns[name] = _values(found["values"], name)
    return columns


def _read(source: object, names: Sequence[str] | None) -> pa.Table:
    if isinstance(source, pa.Table):
        return source
    if isinstance(source, str) and not os.path.isfile(source):
        if _QUERY.fullmatch(source):
            return _query(source)
        if _COLUMN.fullmatch(source):
            return _product(columns_of([source]))
    if isinstance(source, str | Path):
        return _file(Path(source), names)
    if isinstance(source, Mapping):
        return _product(source)
    if hasattr(source, "__arrow_c_stream__"):
        return pa.table(source)
    if isinstance(source, Iterable) and not isinstance(source, bytes):
        return _from_values(list(source), names)
    raise InvalidParameter("public keys as a file, a query, a table or a list", type(source).__name__)


def _file(path: Path, names: Sequence[str] | None) -> pa.Table:
    listed = "the key columns" if names is None else f"the columns {list(names)}"
    try:
        if path.suffix.lower() == ".parquet":
            return pq.read_table(path, columns=None if names is None else list(names))
        if path.suffix.lower() == ".csv":
            return _csv(path, names)
        lines = _lines(path)
    except (OSError, ValueError, KeyError) as problem:
        hint = f"one key per line, or a .csv or .parquet with {listed}; {_COLUMNS}"
        if isinstance(problem, FileNotFoundError):
            raise InvalidParameter(
                f"a readable list of keys at {path}", "no file", f"{near(path)} Or name them: {_COLUMNS}"
            ) from None
        got = "other columns" if isinstance(problem, KeyError) else type(problem).__name__
        raise InvalidParameter(f"a readable list of keys at {path}", got, hint) from None
    if names is not None and len(names) != 1:
        raise InvalidParameter("a .csv or .parquet list for several keys", path.name)
    return pa.table({"key" if names is None else names[0]: pa.array(lines, pa.string())})


def _csv(path: Path, names: Sequence[str] | None) -> pa.Table:
    """Every column as text, the header left out."""
    with pa_csv.open_csv(path) as reader:
        header = reader.schema.names
    types = pa_csv.ConvertOptions(column_types=dict.fromkeys(header, pa.string()), strings_can_be_null=False)
    table = pa_csv.read_csv(path, convert_options=types)
    return table if names is None else table.select(list(names))


def _lines(path: Path) -> list[str]:
    """The lines that hold a key; some devices have no last line."""
    if path.is_char_device() or path.is_block_device():
        raise OSError(errno.EINVAL, "a device")
    return [line for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]


def _query(text: str) -> pa.Table:
    """The rows of one SELECT, in a DuckDB of its own. Messages about a query's words are passed on, others may quote rows."""
    import duckdb

    with duckdb.connect(":memory:") as connection:
        connection.execute("SET python_enable_replacements = false")
        connection.execute("SET TimeZone = 'UTC'")
        try:
            statements = connection.extract_statements(text)
            if len(statements) != 1 or statements[0].type != duckdb.StatementType.SELECT:
                raise InvalidParameter("one SELECT as public keys", "another statement, or several")
            table = connection.sql(text).limit(MOST_KEYS + 1).to_arrow_table()
        except (duckdb.ParserException, duckdb.BinderException, duckdb.CatalogException) as problem:
            raise InvalidParameter("a query for public keys that can run", str(problem).partition("\n")[0]) from None
        except duckdb.Error as problem:
            raise InvalidParameter("a query for public keys that can run", type(problem).__name__) from None
    if table.num_rows > MOST_KEYS:
        raise _too_many("more")
    return table


def _product(columns: Mapping[Any, Any]) -> pa.Table:
    """All combinations of some values in each column."""
    if not columns or not all(isinstance(name, str) for name in columns):
        raise InvalidParameter("columns with their values as public keys", "none, or names that are no text", _COLUMNS)
    arrays = {name: _column(name, values) for name, values in columns.items()}
    size = math.prod(map(len, arrays.values()))
    if size > MOST_KEYS:
        raise _too_many(f"{size:,}")
    table, inner = {}, size
    for name, array in arrays.items():
        inner //= max(len(array), 1)
        table[name] = array.take(pa.array(np.arange(size) // max(inner, 1) % max(len(array), 1)))
    return pa.table(table)


def _column(name: str, values: object) -> pa.Array:
    """The different values of one column; no more of them are looked at than a product may have."""
    if isinstance(values, str | bytes) or not isinstance(values, Iterable):
        raise InvalidParameter(f"a list of values for {name}", type(values).__name__, _COLUMNS)
    if isinstance(values, Sized) and len(values) > MOST_KEYS:
        raise _too_many(f"{len(values):,}")
    taken = list(islice(values, MOST_KEYS + 1))
    if len(taken) > MOST_KEYS:
        raise _too_many("more")
    return _array(taken, name).unique()


def _array(values: list[Any], name: str) -> pa.Array:
    try:
        return pa.array(values)
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, OverflowError):
        raise InvalidParameter(f"public keys of one type for {name}", "several") from None


def _from_values(values: list[Any], names: Sequence[str] | None) -> pa.Table:
    rows = [value if isinstance(value, tuple) else (value,) for value in values]
    named = [f"key_{i}" for i in range(1, len(rows[0]) + 1)] if names is None and rows else names or ["key"]
    if any(len(row) != len(named) for row in rows):
        raise InvalidParameter(f"public keys with {len(named)} values each", "another number")
    return pa.table({name: _array([row[i] for row in rows], name) for i, name in enumerate(named)})


def _values(text: str, name: str) -> list[Any]:
    """`DE,"Bonn, old",CH`, or whole numbers or days with ranges of them: `2018,2020..2024`, `2024-01-01..2024-01-31`."""
    parts = next(csv.reader([text.strip()], skipinitialspace=True), [])
    ranges = [_RANGE.fullmatch(part.strip()) for part in parts]
    if not any(ranges):
        return list(parts)
    read, spelled = _reader(next(found[1] for found in ranges if found))
    listed: list[Any] = []
    for part, found in zip(parts, ranges, strict=True):
        first, last = (found[1], found[2]) if found else (part.strip(), part.strip())
        if not all(re.fullmatch(spelled, end) for end in (first, last)):
            raise InvalidParameter(
                f"whole numbers or days alone, where {name} has a range of them", repr(part), _COLUMNS
            )
        listed += _between(read(first), read(last), part)
    return listed


def _reader(first: str) -> tuple[Callable[[str], Any], str]:
    """How the ends of ranges are read, and how they are spelled."""
    return (_day, _DAY) if re.fullmatch(_DAY, first) else (int, _WHOLE)


def _day(text: str) -> dt.date:
    try:
        return dt.date.fromisoformat(text)
    except ValueError:
        raise InvalidParameter("a day as YYYY-MM-DD", repr(text)) from None


def _between(first: Any, last: Any, part: str) -> list[Any]:
    """Both ends and what is between them."""
    size = (last - first).days + 1 if isinstance(first, dt.date) else last - first + 1
    if size < 1:
        raise InvalidParameter("a range from the smaller to the larger", repr(part), _COLUMNS)
    if size > MOST_KEYS:
        raise _too_many(f"{size:,}")
    step = dt.timedelta(days=1) if isinstance(first, dt.date) else 1
    return [first + i * step for i in range(size)]


def _too_many(got: str) -> InvalidParameter:
    hint = "list the groups that can occur in a file, or release without a list."
    return InvalidParameter(f"at most {MOST_KEYS:,} public keys", got, hint)
