"""Attach a table of records to a DuckDB connection, with types that no single record can change.

Parquet, Arrow and frames bring a schema. Text formats do not, and a schema guessed from the whole file would let one record
turn everybody's key from a number into a text: their columns are text unless a type is declared.
"""

# ruff: noqa: S608 - SQL is what this file is for: names are quoted, expressions are checked and written out again
from __future__ import annotations

import csv
import glob
import gzip
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import duckdb
import pyarrow as pa

from dphist.engines.settings import Files, Format
from dphist.errors import InvalidParameter, UnreadableSource

SOURCE: Final = "source"
_SUFFIXES: Final[dict[str, Format]] = {
    ".parquet": "parquet",
    ".pq": "parquet",
    ".csv": "csv",
    ".tsv": "csv",
    ".txt": "csv",
    ".json": "json",
    ".jsonl": "json",
    ".ndjson": "json",
}
_COMPRESSIONS: Final = (".gz", ".zst")


@dataclass(frozen=True, slots=True)
class Attached:
    """The columns of `source` with their DuckDB types; `typed` if the types were declared by the source itself."""

    columns: dict[str, str]
    typed: bool
    paths: tuple[str, ...] = ()


def attach(connection: duckdb.DuckDBPyConnection, source: object, needed: Sequence[str]) -> Attached:
    """Make `source` readable under the name SOURCE and say what columns it has."""
    if isinstance(source, str | Path):
        source = Files((source,))
    elif isinstance(source, list | tuple) and source and all(isinstance(path, str | Path) for path in source):
        source = Files(tuple(source))
    if isinstance(source, Files):
        return _attach_files(connection, source, needed)
    return _attach_arrow(connection, source, needed)


def described(connection: duckdb.DuckDBPyConnection, relation: str) -> dict[str, str]:
    """Column names and types of a relation, from its schema alone."""
    rows = connection.execute(f"DESCRIBE SELECT * FROM {relation}").fetchall()
    return {str(row[0]): str(row[1]) for row in rows}


def quote_identifier(name: str) -> str:
    """A column name as an SQL identifier."""
    return '"' + name.replace('"', '""') + '"'


def quote_text(value: str) -> str:
    """A text as an SQL literal."""
    return "'" + value.replace("'", "''") + "'"


def _attach_arrow(connection: duckdb.DuckDBPyConnection, source: object, needed: Sequence[str]) -> Attached:
    """Only the columns that are needed have to be of a type that DuckDB reads."""
    table, names, typed = _as_arrow(source, needed)
    check_unique(names)
    if isinstance(table, pa.Table):
        table = table.select(_wanted(names, needed))
    if not table.schema.names:  # none of the columns exists: whoever asked for them will say which
        return Attached(dict.fromkeys(names, ""), typed)
    try:
        connection.register("arrow_source", table)
        _create_view(connection, "*", "arrow_source")
        return Attached({**dict.fromkeys(names, ""), **described(connection, SOURCE)}, typed)
    except duckdb.Error:
        types = ", ".join(sorted({str(field.type) for field in table.schema}))
    raise UnreadableSource("columns of types that DuckDB reads", types, "cast the unusual ones.")


def _wanted(names: Sequence[str], needed: Sequence[str]) -> list[str]:
    """The columns that are needed. Without regard to case, as SQL reads names."""
    folded = {name.casefold() for name in needed}
    return [name for name in names if name.casefold() in folded]


def _as_arrow(source: Any, needed: Sequence[str]) -> tuple[pa.Table | pa.RecordBatchReader, list[str], bool]:
    """Arrow data, all column names and whether it has declared types; frames go by their module, none must be installed."""
    module = type(source).__module__.partition(".")[0]
    if module == "pandas":
        return _from_pandas(source, needed)
    if isinstance(source, pa.Table | pa.RecordBatchReader):
        table = source
    elif isinstance(source, pa.RecordBatch):
        table = pa.Table.from_batches([source])
    elif isinstance(source, duckdb.DuckDBPyRelation):
        return _from_relation(source, needed), list(source.columns), True
    elif module == "polars":
        table = (source.collect() if hasattr(source, "collect") else source).to_arrow()
    else:
        expected = "a path, an Arrow table, a pandas or Polars frame or a DuckDB relation"
        raise UnreadableSource(expected, type(source).__name__)
    return table, list(table.schema.names), True


def _from_relation(relation: duckdb.DuckDBPyRelation, needed: Sequence[str]) -> pa.RecordBatchReader | pa.Table:
    """Arrow has no 128-bit integers and no bits: 39 digits would come out as another number, so they become null."""
    columns = []
    wanted = set(_wanted(relation.columns, needed))
    for name, kind in zip(relation.columns, map(str, relation.types), strict=True):
        quoted = quote_identifier(name)
        target = {"HUGEINT": "DECIMAL(38, 0)", "UHUGEINT": "DECIMAL(38, 0)", "BIT": "VARCHAR"}.get(kind)
        if name in wanted:
            columns.append(quoted if target is None else f"TRY_CAST({quoted} AS {target}) AS {quoted}")
    return relation.project(", ".join(columns)).to_arrow_reader() if columns else pa.table({})


def _from_pandas(frame: Any, needed: Sequence[str]) -> tuple[pa.Table, list[str], bool]:
    """Columns of Python objects become text, value by value: guessing their type would let one record decide it."""
    names = [str(name) for name in frame.columns]
    check_unique(names)
    arrays: dict[str, pa.Array] = {}
    typed = True
    for name in _wanted(names, needed):
        column = frame.iloc[:, names.index(name)]
        if column.dtype == object:
            texts = [None if gone else str(value) for value, gone in zip(column, column.isna(), strict=True)]
            arrays[name] = pa.array(texts, pa.large_string())
            typed = False
        else:
            arrays[name] = pa.Array.from_pandas(column)
    return pa.table(arrays), names, typed


def _attach_files(connection: duckdb.DuckDBPyConnection, files: Files, needed: Sequence[str]) -> Attached:
    paths = tuple(path for pattern in files.paths for path in _expand(str(pattern)))
    formats = {files.format or format_of_file(path) for path in paths}
    if len(formats) > 1:
        raise UnreadableSource("files of one format", ", ".join(sorted(formats)))
    try:
        if formats == {"parquet"}:
            return _attach_parquet(connection, paths, needed)
        if formats == {"csv"}:
            return _attach_csv(connection, paths, files)
        return _attach_json(connection, paths, files, needed)
    except duckdb.Error:
        kind = formats.pop()
    raise UnreadableSource(f"readable {kind} files", ", ".join(paths[:3]), "a file is damaged or of another format.")


def _attach_parquet(connection: duckdb.DuckDBPyConnection, paths: tuple[str, ...], needed: Sequence[str]) -> Attached:
    scans = [_scan("read_parquet", [path], {"hive_types_autocast": "false"}) for path in paths]
    first = described(connection, scans[0])
    for path, scan in zip(paths[1:], scans[1:], strict=True):
        other = described(connection, scan)
        for name in needed:
            if other.get(name) != first.get(name):
                raise UnreadableSource(
                    f"the same type of {name!r} in every file ({first.get(name)})",
                    f"{other.get(name)} in {path}",
                    "rewrite the files with one schema.",
                )
    _create_view(connection, "*", _scan("read_parquet", paths, {"hive_types_autocast": "false"}))
    return Attached(first, typed=True, paths=paths)


def _attach_csv(connection: duckdb.DuckDBPyConnection, paths: tuple[str, ...], files: Files) -> Attached:
    delimiter = files.delimiter or ("\t" if ".tsv" in Path(paths[0]).suffixes else ",")
    headers = [_first_line(connection, path, delimiter, files.quote) for path in paths]
    if any(header != headers[0] for header in headers) and files.header:
        raise UnreadableSource("the same header in every file", "different ones", "rewrite the files with one header.")
    names = headers[0] if files.header else [f"column{position}" for position in range(len(headers[0]))]
    check_unique(names)
    if not names:
        raise UnreadableSource(
            "a header in the first line", "an empty file", "write at least the names of the columns."
        )
    options = {
        "auto_detect": "false",
        "header": "true" if files.header else "false",
        "delim": quote_text(delimiter),
        "quote": quote_text(files.quote or ""),
        "escape": quote_text(files.quote or ""),
        "new_line": "'\\n'",
        "ignore_errors": "true",
        "strict_mode": "false",
        "columns": _struct(dict.fromkeys(names, "VARCHAR")),
    }
    _create_view(connection, _declared(names, files), _scan("read_csv", paths, options))
    return Attached(described(connection, SOURCE), typed=False, paths=paths)


def _attach_json(
    connection: duckdb.DuckDBPyConnection, paths: tuple[str, ...], files: Files, needed: Sequence[str]
) -> Attached:
    """Only the columns that the query asks for exist, so that no record can add or change one."""
    names = list(dict.fromkeys(needed))
    check_unique(names)
    options = {
        "columns": _struct(dict.fromkeys(names, "VARCHAR")),
        "format": "'array'" if _is_json_array(paths[0]) else "'newline_delimited'",
        "ignore_errors": "true",
    }
    _create_view(connection, _declared(names, files), _scan("read_json", paths, options))
    return Attached(described(connection, SOURCE), typed=False, paths=paths)


def _is_json_array(path: str) -> bool:
    """A .json file may be one array of records; anything else is read as one record per line."""
    if ".json" not in Path(path).suffixes:
        return False
    with gzip.open(path) if path.endswith(".gz") else open(path, "rb") as opened:
        return opened.read(4096).removeprefix(b"\xef\xbb\xbf").lstrip().startswith(b"[")


def _declared(names: Sequence[str], files: Files) -> str:
    unknown = set(files.types) - set(names)
    if unknown:
        raise InvalidParameter("types for columns that exist", ", ".join(sorted(unknown)))
    columns = []
    for name in names:
        quoted = quote_identifier(name)
        columns.append(f"TRY_CAST({quoted} AS {files.types[name]}) AS {quoted}" if name in files.types else quoted)
    return ", ".join(columns)


def _first_line(connection: duckdb.DuckDBPyConnection, path: str, delimiter: str, quote: str | None) -> list[str]:
    """The fields of a file's first line. DuckDB unpacks it; a control character as delimiter keeps it in one piece."""
    options = {
        "auto_detect": "false",
        "header": "false",
        "delim": "'\x01'",
        "quote": "''",
        "escape": "''",
        "new_line": "'\\n'",
        "ignore_errors": "true",
        "strict_mode": "false",
        "columns": "{'line': 'VARCHAR'}",
    }
    rows = connection.execute(f"SELECT line FROM {_scan('read_csv', [path], options)} LIMIT 1").fetchall()
    if not rows or rows[0][0] is None:
        return []
    line = str(rows[0][0]).removeprefix("\ufeff")
    if quote is None:
        return line.split(delimiter)
    return next(csv.reader([line], delimiter=delimiter, quotechar=quote), [])


def _create_view(connection: duckdb.DuckDBPyConnection, columns: str, scan: str) -> None:
    connection.execute(f"CREATE TEMP VIEW {SOURCE} AS SELECT {columns} FROM {scan}")


def _scan(function: str, paths: Sequence[str], options: dict[str, str]) -> str:
    listed = ", ".join(quote_text(path) for path in paths)
    named = "".join(f", {name} = {value}" for name, value in options.items())
    return f"{function}([{listed}]{named})"


def _struct(fields: dict[str, str]) -> str:
    return "{" + ", ".join(f"{quote_text(name)}: {quote_text(value)}" for name, value in fields.items()) + "}"


def _expand(pattern: str) -> list[str]:
    if "://" in pattern:
        raise UnreadableSource(
            "a local path", repr(pattern), "copy the files here first; dphist opens no network connection."
        )
    if Path(pattern).is_file():
        return [str(Path(pattern).resolve())]
    if Path(pattern).is_dir():
        raise UnreadableSource(
            "a file or a glob", f"the directory {pattern!r}", f"try {pattern.rstrip('/')}/*.parquet."
        )
    found = sorted(str(Path(path).resolve()) for path in glob.glob(pattern, recursive=True) if Path(path).is_file())
    if not found:
        raise UnreadableSource("a file that exists", repr(pattern), "check the path; quote a glob for the shell.")
    return found


def format_of_file(path: str) -> Format:
    """The format by the end of the name."""
    suffixes = Path(path).suffixes
    last = suffixes[-2] if len(suffixes) > 1 and suffixes[-1].lower() in _COMPRESSIONS else (suffixes or [""])[-1]
    if (found := _SUFFIXES.get(last.lower())) is None:
        raise UnreadableSource(
            "a name that ends in .parquet, .csv, .tsv, .json, .jsonl or .ndjson",
            repr(Path(path).name),
            "say format=... otherwise.",
        )
    return found


def check_unique(names: Sequence[str]) -> None:
    """SQL does not tell names apart by case."""
    times = Counter(name.casefold() for name in names)
    twice = [name for name in names if times[name.casefold()] > 1]
    if twice:
        raise InvalidParameter("column names that differ in more than case", ", ".join(twice), "rename one of them.")
