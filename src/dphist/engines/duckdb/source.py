"""Attach a table of records to a DuckDB connection, with types that no single record can change.

Parquet, Arrow and frames bring a schema. Text formats do not, and a schema guessed from the whole file would let one record
turn everybody's key from a number into a text: their columns are text unless a type is declared. Nothing is read here but
schemas, first lines and footers: records are read when the engine asks for the first one.
"""

from __future__ import annotations

import glob
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Final

import duckdb
import pyarrow as pa

from dphist.columns import quote_identifier
from dphist.engines.duckdb.parquet import fit, is_read_by_arrow, parquet_columns, readable_parquet, stored_types
from dphist.engines.duckdb.session import quote_text
from dphist.engines.expressions import LONGEST_KEY
from dphist.engines.frames import Arrow, as_arrow
from dphist.engines.lines import check_no_array, csv_batches, first_line, json_lines
from dphist.engines.names import check_header_names, check_unique, wanted_columns
from dphist.engines.source import (
    _SUFFIXES,
    CsvFormat,
    Files,
    Folder,
    check_folders,
    check_types,
    folders_of,
    form_of,
    format_of_files,
    is_hidden,
    json_columns,
    without_values,
)
from dphist.errors import UnreadableSource
from dphist.files.outputs import near

SOURCE: Final = "source"


@dataclass(frozen=True, slots=True)
class Attached:
    """The columns of a view with their DuckDB types; a column that is not needed has none.

    typed: whether the source itself declares its types. form: how the lines of a CSV file are divided, if its first line
    names the columns. These names may be a record and are not shown. reread: reads the source again, slowly, with null for
    values on which DuckDB's reader fails. tables: the tables of a derived source. definitions: its views, for people to read.
    longest: most bytes of a text that is made of the columns.
    """

    columns: dict[str, str]
    typed: bool
    paths: tuple[str, ...] = ()
    form: CsvFormat | None = None
    reread: Callable[[], None] | None = None
    tables: tuple[Attached, ...] = ()
    definitions: tuple[str, ...] = ()
    longest: int = LONGEST_KEY

    @property
    def inputs(self) -> list[tuple[str, list[str]]]:
        """Each file as often as it is read, with the columns that are read of it."""
        needed = [name for name, kind in self.columns.items() if kind]
        if self.tables:
            return [one for table in self.tables for one in table.inputs]
        return [(path, needed) for path in self.paths]


def attach(
    connection: duckdb.DuckDBPyConnection, source: object, needed: Sequence[str], view: str = SOURCE
) -> Attached:
    """Make `source` readable as a view and say what columns it has. No record is read."""
    if isinstance(source, str | Path):
        source = Files((source,))
    elif isinstance(source, list | tuple) and source and all(isinstance(path, str | Path) for path in source):
        source = Files(tuple(source))
    if isinstance(source, Files):
        return _attach_files(connection, source, needed, view)
    return _attach_arrow(connection, source, needed, view)


def described(connection: duckdb.DuckDBPyConnection, relation: str, columns: str = "*") -> dict[str, str]:
    """Column names and types of a relation, from its schema alone."""
    rows = connection.execute(f"DESCRIBE SELECT {columns} FROM {relation}").fetchall()
    return {str(row[0]): str(row[1]) for row in rows}


def _attach_arrow(connection: duckdb.DuckDBPyConnection, source: object, needed: Sequence[str], view: str) -> Attached:
    """Only the columns that are needed have to be of a type that DuckDB reads."""

    def wanted(names: Sequence[str]) -> list[str]:
        check_unique(names)
        return wanted_columns(names, needed)

    table, names, typed = as_arrow(source, wanted)
    if not table.schema.names:  # no needed column exists: the caller says which
        return Attached(dict.fromkeys(names, ""), typed)
    try:
        _create_view(connection, view, table)
        return Attached({**dict.fromkeys(names, ""), **described(connection, view)}, typed)
    except duckdb.Error:
        types = ", ".join(sorted({str(field.type) for field in table.schema}))
    raise UnreadableSource("columns of types that DuckDB reads", types, "cast the unusual ones.")


def _attach_files(connection: duckdb.DuckDBPyConnection, files: Files, needed: Sequence[str], view: str) -> Attached:
    paths = tuple(path for pattern in files.paths for path in _expand(str(pattern)))
    kind = format_of_files(files, paths)
    attach_format = {"parquet": _attach_parquet, "csv": _attach_csv, "json": _attach_json}[kind]
    try:
        return attach_format(connection, paths, files, needed, view)
    except (duckdb.Error, pa.ArrowException, OSError):
        pass
    shown = ", ".join(dict.fromkeys(map(without_values, paths[:3])))
    raise UnreadableSource(f"readable {kind} files", shown, "a file is damaged, or its name ends like another format.")


def _attach_parquet(
    connection: duckdb.DuckDBPyConnection, paths: tuple[str, ...], files: Files, needed: Sequence[str], view: str
) -> Attached:
    paths = tuple(dict.fromkeys(paths)) if folders_of(paths)[0] else paths  # below, a path is looked up
    folders = folders_of(paths)
    check_types(files, folders[0])
    names, schemas = [], []
    for path in paths:
        names.append(parquet_columns(path, needed))
        check_folders(folders[0], names[-1])
        own = ", ".join(map(quote_identifier, wanted_columns(names[-1], needed)))
        schemas.append(described(connection, _parquet([path]), own) if own else {})
        _check_same_types(schemas[0], schemas[-1], needed, path)
    columns = dict.fromkeys([*names[0], *folders[0]], "")
    if wanted := wanted_columns(list(columns), needed):  # DuckDB takes minutes over a hundred thousand columns
        read = _parquet(paths)
        if folders[0]:
            path = "path" + "_" * max(map(len, columns))  # no column has this name
            read = f"(SELECT *, {_folder_columns(path, paths, folders)} FROM {_parquet(paths, path)}) AS files"
        connection.execute(f"CREATE TEMP VIEW {view} AS SELECT {_declared(wanted, files)} FROM {read}")
        columns |= described(connection, view)

    def reread() -> None:
        read = with_folders([readable_parquet(path, list(schemas[0]), kinds) for path in paths], folders)
        quoted = {name: quote_identifier(name) for name in wanted_columns(read.schema.names, needed)}
        typed = [f"TRY_CAST({sql} AS {columns[name]}) AS {sql}" for name, sql in quoted.items()]
        _create_view(connection, view, read, ", ".join(typed))

    kinds = stored_types(paths[0], list(schemas[0]))
    for path in paths[1:]:
        for name, kind, other in zip(schemas[0], kinds, stored_types(path, list(schemas[0])), strict=True):
            if kind != other:
                expected = f"the same type of {name!r} in every file ({kind})"
                raise UnreadableSource(expected, str(other), "rewrite the files with one schema.")
    by_engine = _types_of(connection, dict(zip(schemas[0], kinds, strict=True)))
    # A record must not decide who reads a column: where the readers could differ, it is always Arrow.
    by_arrow = [
        is_read_by_arrow(kind) or by_engine[name] != schemas[0][name]
        for name, kind in zip(schemas[0], kinds, strict=True)
    ]
    kinds = [
        pa.large_string() if kind == pa.large_binary() and schemas[0][name] == "VARCHAR" else kind
        for name, kind in zip(schemas[0], kinds, strict=True)
    ]
    if not fit(connection, paths, list(schemas[0])) or any(by_arrow):
        reread()
    return Attached(columns, typed=True, paths=paths, reread=reread)


def _types_of(connection: duckdb.DuckDBPyConnection, kinds: Mapping[str, pa.DataType]) -> dict[str, str]:
    """The engine's types for columns of Arrow's types."""
    if not kinds:
        return {}
    name = _registered("types")
    connection.register(name, pa.schema(list(kinds.items())).empty_table())
    try:
        return described(connection, name)
    finally:
        connection.unregister(name)


def _check_same_types(first: dict[str, str], other: dict[str, str], needed: Sequence[str], path: str) -> None:
    """Refuse files that differ in needed columns. Names are compared without regard to case, as SQL reads them."""
    wanted, found = ({name.casefold(): kind for name, kind in schema.items()} for schema in (first, other))
    for name in dict.fromkeys(map(str.casefold, needed)):
        if (name in wanted) != (name in found):
            raise UnreadableSource(
                f"the column {name!r} in every file or in none",
                f"{without_values(path)} {'with' if name in found else 'without'} it, unlike the first file",
                "leave that file out, or rewrite the files with one schema.",
            )
        if wanted.get(name) != found.get(name):
            raise UnreadableSource(
                f"the same type of {name!r} in every file ({wanted.get(name)})",
                f"{found.get(name)} in {without_values(path)}",
                "rewrite the files with one schema.",
            )


def _attach_csv(
    connection: duckdb.DuckDBPyConnection, paths: tuple[str, ...], files: Files, needed: Sequence[str], view: str
) -> Attached:
    form = form_of(files, paths)
    names = _header(paths, form) if files.header is True else list(files.header)
    check_unique(names)
    folders = folders_of(paths)
    check_folders(folders[0], names)
    check_types(files, [*names, *folders[0]])
    wanted = wanted_columns(names, needed)
    if not wanted and wanted_columns(list(folders[0]), needed):
        wanted = names[:1]  # a file has records even if only its folders are asked for
    if wanted:
        readers = [csv_batches(path, form, names, wanted) for path in paths]
        _create_view(connection, view, with_folders(readers, folders), _declared([*wanted, *folders[0]], files))
    columns = {**dict.fromkeys([*names, *folders[0]], ""), **(described(connection, view) if wanted else {})}
    return Attached(columns, typed=False, paths=paths, form=form if form.header else None)


def _header(paths: Sequence[str], form: CsvFormat) -> list[str]:
    """The names in the first line of every file. They may be a record, so none is shown."""
    first, *others = [first_line(path, form) for path in paths]
    if any(line != first for line in others):
        raise UnreadableSource("the same header in every file", "different ones", "rewrite the files with one header.")
    if not first:
        raise UnreadableSource(
            f"a header in the first line of {Path(paths[0]).name}",
            "an empty file",
            "write at least the names of the columns.",
        )
    check_header_names(first)
    return first


def _attach_json(
    connection: duckdb.DuckDBPyConnection, paths: tuple[str, ...], files: Files, needed: Sequence[str], view: str
) -> Attached:
    """Only the columns that are declared exist, so that no record can add or change one."""
    folders = folders_of(paths)
    names = [name for name in json_columns(files, needed, folders[0]) if name not in folders[0]]
    check_unique(names)
    check_folders(folders[0], names)
    for path in paths:
        check_no_array(path)
    if not names and not folders[0]:  # only its columns are asked for
        return Attached(dict.fromkeys(files.types, ""), typed=False, paths=paths)
    line = "line" + "_" * max(map(len, folders[0]), default=0)  # no folder has this name
    lines = with_folders([json_lines(path, line) for path in paths], folders)
    structure = quote_text(json.dumps(dict.fromkeys(names or [line], "VARCHAR")))
    record = f"TRY(CASE WHEN json_valid({line}) THEN from_json({line}, {structure}) END)"
    fields = [f"{line}.{quote_identifier(name)} AS {quote_identifier(name)}" for name in names]
    outer = ", ".join([*fields, *map(quote_identifier, folders[0])])
    inner = ", ".join([f"{record} AS {line}", *map(quote_identifier, folders[0])])
    parsed = f"(SELECT {inner} FROM {_registered(view)}) AS parsed"
    text = f"(SELECT {outer} FROM {parsed} WHERE {line} IS NOT NULL) AS text"
    _create_view(connection, view, lines, _declared([*names, *folders[0]], files), text)
    columns = {**dict.fromkeys(files.types, ""), **described(connection, view)}
    return Attached(columns, typed=False, paths=paths)


def with_folders(readers: Sequence[Arrow], folders: Sequence[Folder]) -> pa.RecordBatchReader:
    """One file after the other, with the columns of its folders."""
    kinds = [*readers[0].schema, *(pa.field(name, pa.large_string()) for name in folders[0])]
    schema = pa.schema([pa.field(kind.name, kind.type) for kind in kinds])

    def batches() -> Iterator[pa.RecordBatch]:
        for reader, folder in zip(readers, folders, strict=True):
            for batch in reader:
                constants = [pa.repeat(pa.scalar(value, pa.large_string()), len(batch)) for value in folder.values()]
                yield pa.RecordBatch.from_arrays([*batch.columns, *constants], schema=schema)

    return pa.RecordBatchReader.from_batches(schema, batches())


def _declared(names: Sequence[str], files: Files) -> str:
    columns = []
    for name in names:
        quoted = quote_identifier(name)
        columns.append(f"TRY_CAST({quoted} AS {files.types[name]}) AS {quoted}" if name in files.types else quoted)
    return ", ".join(columns)


def _create_view(
    connection: duckdb.DuckDBPyConnection, view: str, table: Arrow, columns: str = "*", read: str | None = None
) -> None:
    """A view of a table, which `read` may mention under its registered name."""
    connection.register(_registered(view), table)
    connection.execute(f"CREATE OR REPLACE TEMP VIEW {view} AS SELECT {columns} FROM {read or _registered(view)}")


def _registered(view: str) -> str:
    return f"arrow_{view}"


def _parquet(paths: Sequence[str], path_column: str | None = None) -> str:
    """Files by their own names: as a pattern, k=a*b would read k=acb once more."""
    listed = ", ".join(quote_text(glob.escape(path)) for path in paths)
    named = "" if path_column is None else f", filename = {quote_text(path_column)}"
    # NaN: the statistics of most writers leave it out. Folders: DuckDB reads k=a\b as k=a.
    return f"read_parquet([{listed}], can_have_nan = true, hive_partitioning = false{named})"


def _folder_columns(path: str, paths: Sequence[str], folders: Sequence[Folder]) -> str:
    """The columns of each file's folders, looked up by its path."""
    keys = ", ".join(map(quote_text, paths))
    columns = []
    for name in folders[0]:
        values = [folder[name] for folder in folders]
        listed = ", ".join("NULL::VARCHAR" if value is None else quote_text(value) for value in values)
        columns.append(f"map_extract_value(MAP([{keys}], [{listed}]), {path}) AS {quote_identifier(name)}")
    return ", ".join(columns)


def _expand(pattern: str) -> list[str]:
    if "://" in pattern:
        address = f"an address of {pattern.partition('://')[0]}://"  # the rest of it may hold a password
        raise UnreadableSource(
            "a local path", address, "copy the files here first; dphist opens no network connection."
        )
    if "\0" in pattern:
        raise UnreadableSource("a path", "one with a NUL in it")
    if Path(pattern).is_file():
        return [str(Path(pattern).resolve())]
    if Path(pattern).is_dir():
        if found := _below(Path(pattern)):
            return found
        raise UnreadableSource("a folder with files", repr(pattern), "its hidden files do not count.")
    matches = [Path(path) for path in sorted(glob.glob(pattern, recursive=True))]
    known = [path for path in matches if not is_hidden(path.name) or path.suffix.lower() in _SUFFIXES]
    each = [_below(path) if path.is_dir() else [str(path.resolve())] for path in known]
    found = list(dict.fromkeys(path for paths in each for path in paths))
    if not found:
        globbed = any(letter in pattern for letter in "*?[")
        hint = "no file has such a name: check the folder and the extension." if globbed else near(pattern)
        raise UnreadableSource("a file that exists", repr(pattern), hint)
    return found


def _below(folder: Path) -> list[str]:
    """The files of a folder and of its subfolders, without hidden ones."""
    found = []
    for place, inside, names in os.walk(folder.resolve()):
        inside[:] = sorted(name for name in inside if not is_hidden(name))
        found += [os.path.join(place, name) for name in sorted(names) if not is_hidden(name)]
    return found


class InputBytes:
    """The share of input files that this process has read: the needed columns of Parquet files, all of other files.

    On Linux the kernel counts the bytes that a process reads (/proc); elsewhere the share is unknown. DuckDB's own progress
    is not shown, because it follows from the keys and would tell of data. Spilled bytes are read back after the files, when
    the share is 1 already. A file that is read twice counts twice.
    """

    def __init__(self, files: Sequence[tuple[str, Sequence[str]]]) -> None:
        self._files = files
        self._before = bytes_read()

    def share(self) -> float | None:
        """The part of the bytes that was read since this object was made."""
        now = bytes_read()
        if now is None or self._before is None or not self._size:
            return None
        return min((now - self._before) / self._size, 1.0)

    @cached_property
    def _size(self) -> int:
        return sum(_size_of(path, {name.casefold() for name in columns}) for path, columns in self._files)


def _size_of(path: str, columns: set[str]) -> int:
    with open(path, "rb") as file:
        is_parquet = file.read(4) == b"PAR1"
    if not is_parquet:
        return Path(path).stat().st_size
    import pyarrow.parquet as pq

    metadata = pq.read_metadata(path)
    names = [metadata.schema.column(i).path.partition(".")[0].casefold() for i in range(metadata.num_columns)]
    needed = [i for i, name in enumerate(names) if name in columns]
    groups = (metadata.row_group(number) for number in range(metadata.num_row_groups))
    return sum(group.column(i).total_compressed_size for group in groups for i in needed)


def bytes_read() -> int | None:
    """How many bytes this process has read from files so far; None where the system does not tell."""
    try:
        lines = Path("/proc/self/io").read_text().splitlines()
        return int(dict(line.split(": ") for line in lines)["rchar"])
    except (OSError, KeyError, ValueError):
        return None
