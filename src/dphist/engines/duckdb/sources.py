"""Attach a table of records to a DuckDB connection, with types that no single record can change.

Parquet, Arrow and frames bring a schema. Text formats do not, and a schema guessed from the whole file would let one record
turn everybody's key from a number into a text: their columns are text unless a type is declared. Nothing is read here but
schemas, first lines and footers: records are read when the engine asks for the first one.
"""

from __future__ import annotations

import glob
import json
import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import unquote

import duckdb
import pyarrow as pa

from dphist.engines.duckdb.pages import fit
from dphist.engines.duckdb.parquet import is_read_by_arrow, parquet_columns, readable_parquet, stored_types
from dphist.engines.duckdb.types import LONGEST_KEY
from dphist.engines.frames import Arrow, as_arrow
from dphist.engines.lines import CsvFormat, check_no_array, csv_batches, first_line, json_lines
from dphist.engines.query import Files, Format
from dphist.errors import InvalidParameter, UnreadableSource
from dphist.files.outputs import near
from dphist.words import did_you_mean

SOURCE: Final = "source"
Folder = dict[str, str | None]
"""The columns that the names of a file's folders add, as in year=2026/month=11/events.parquet."""

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
NO_HEADER: Final = "if the file has no header, name its columns: --no-header a,b,c or dp.Files(paths, header=[...])."
NULL_FOLDER: Final = "__HIVE_DEFAULT_PARTITION__"


@dataclass(frozen=True, slots=True)
class Attached:
    """The columns of a view with their DuckDB types; those that are not needed have none.

    typed: the types were declared by the source itself. form: how the lines of a CSV file are divided whose first line names
    the columns: they may be a record, if there is no header, and are not shown. reread: reads the source
    another way, slowly, with null for values that DuckDB's reader would not take. tables: those that a derived source is made
    of. definitions: the views that it is made by, for people to read. longest: the bytes of a text that is made of its columns.
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


def quote_identifier(name: str) -> str:
    """A column name as an SQL identifier."""
    return '"' + name.replace('"', '""') + '"'


def quote_text(value: str) -> str:
    """A text as an SQL literal."""
    return "'" + value.replace("'", "''") + "'"


def _attach_arrow(connection: duckdb.DuckDBPyConnection, source: object, needed: Sequence[str], view: str) -> Attached:
    """Only the columns that are needed have to be of a type that DuckDB reads."""

    def wanted(names: Sequence[str]) -> list[str]:
        check_unique(names)
        return _wanted(names, needed)

    table, names, typed = as_arrow(source, wanted)
    if not table.schema.names:  # none of the columns exists: whoever asked for them will say which
        return Attached(dict.fromkeys(names, ""), typed)
    try:
        _create_view(connection, view, table)
        return Attached({**dict.fromkeys(names, ""), **described(connection, view)}, typed)
    except duckdb.Error:
        types = ", ".join(sorted({str(field.type) for field in table.schema}))
    raise UnreadableSource("columns of types that DuckDB reads", types, "cast the unusual ones.")


def _wanted(names: Sequence[str], needed: Sequence[str]) -> list[str]:
    """The columns that are needed. Without regard to case, as SQL reads names."""
    folded = {name.casefold() for name in needed}
    return [name for name in names if name.casefold() in folded]


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
        own = _listed(_wanted(names[-1], needed))
        schemas.append(described(connection, _parquet([path]), own) if own else {})
        _check_same_types(schemas[0], schemas[-1], needed, path)
    columns = dict.fromkeys([*names[0], *folders[0]], "")
    if wanted := _wanted(list(columns), needed):  # DuckDB takes minutes over a hundred thousand columns
        read = _parquet(paths)
        if folders[0]:
            path = "path" + "_" * max(map(len, columns))  # no column has this name
            read = f"(SELECT *, {_folder_columns(path, paths, folders)} FROM {_parquet(paths, path)}) AS files"
        connection.execute(f"CREATE TEMP VIEW {view} AS SELECT {_declared(wanted, files)} FROM {read}")
        columns |= described(connection, view)

    def reread() -> None:
        read = with_folders([readable_parquet(path, list(schemas[0]), kinds) for path in paths], folders)
        quoted = {name: quote_identifier(name) for name in _wanted(read.schema.names, needed)}
        typed = [f"TRY_CAST({sql} AS {columns[name]}) AS {sql}" for name, sql in quoted.items()]
        _create_view(connection, view, read, ", ".join(typed))

    kinds = stored_types(paths[0], list(schemas[0]))
    for path in paths[1:]:
        for name, kind, other in zip(schemas[0], kinds, stored_types(path, list(schemas[0])), strict=True):
            if kind != other:
                expected = f"the same type of {name!r} in every file ({kind})"
                raise UnreadableSource(expected, str(other), "rewrite the files with one schema.")
    by_engine = _types_of(connection, dict(zip(schemas[0], kinds, strict=True)))
    # Who reads a column must not hang on a record: where the readers could differ, it is always Arrow.
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
    """What the engine calls columns of Arrow's types."""
    if not kinds:
        return {}
    name = _registered("types")
    connection.register(name, pa.schema(list(kinds.items())).empty_table())
    try:
        return described(connection, name)
    finally:
        connection.unregister(name)


def _listed(names: Sequence[str]) -> str:
    return ", ".join(map(quote_identifier, names))


def _check_same_types(first: dict[str, str], other: dict[str, str], needed: Sequence[str], path: str) -> None:
    """Without regard to case, as SQL reads names."""
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
    wanted = _wanted(names, needed)
    if not wanted and _wanted(list(folders[0]), needed):
        wanted = names[:1]  # a file has records even if only its folders are asked for
    if wanted:
        readers = [csv_batches(path, form, names, wanted) for path in paths]
        _create_view(connection, view, with_folders(readers, folders), _declared([*wanted, *folders[0]], files))
    columns = {**dict.fromkeys([*names, *folders[0]], ""), **(described(connection, view) if wanted else {})}
    return Attached(columns, typed=False, paths=paths, form=form if form.header else None)


def form_of(files: Files, paths: Sequence[str]) -> CsvFormat:
    """How the lines of CSV files are divided: as declared, or by the end of the first name."""
    delimiter = files.delimiter or ("\t" if ".tsv" in Path(paths[0]).suffixes else ",")
    return CsvFormat(delimiter, files.quote, files.header is True, files.encoding, tuple(files.nulls))


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


def check_header_names(names: Sequence[str]) -> None:
    """Refuse a name that comes twice, without showing it."""
    if len({name.casefold() for name in names}) < len(names):
        raise UnreadableSource(
            f"different names in the {len(names)} columns of the first line", "some that are equal", NO_HEADER
        )


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


def json_columns(files: Files, needed: Sequence[str], folder: Folder) -> list[str]:
    """The columns that are declared. One that is needed and is not may be misspelled, and no record could tell.

    Whether some record has a column of a name is a fact about records, and an error would tell it. Without a declaration
    a name that no record has would be null in all of them: an empty table, charged in full.
    """
    known = {name.casefold() for name in (*files.types, *folder)}
    missing = [name for name in dict.fromkeys(needed) if name.casefold() not in known]
    if missing:
        options = " ".join(f"--type {name}=text" for name in missing)
        raise UnreadableSource(
            "every column of JSON files to be declared",
            f"no type for {', '.join(map(repr, missing))}",
            did_you_mean(missing[0], list(files.types))
            + f"JSON has no header: declare what is there with {options} or dp.Files(paths, types={{...}}); text, integer,"
            " double, boolean, date and timestamp are types.",
        )
    return _wanted(list(files.types), needed)


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


def check_types(files: Files, names: Iterable[str]) -> None:
    """Refuse a type for a column that is not there. Parquet files declare those of all but their folders."""
    if unknown := set(files.types) - set(names):
        hint = "a text column of a CSV or JSON file, or a folder such as year=2026, can have one."
        raise InvalidParameter("types for columns that exist and have none", ", ".join(sorted(unknown)), hint)


def _declared(names: Sequence[str], files: Files) -> str:
    columns = []
    for name in names:
        quoted = quote_identifier(name)
        columns.append(f"TRY_CAST({quoted} AS {files.types[name]}) AS {quoted}" if name in files.types else quoted)
    return ", ".join(columns)


def _create_view(
    connection: duckdb.DuckDBPyConnection, view: str, table: Arrow, columns: str = "*", read: str | None = None
) -> None:
    """Of a table, which `read` may mention under the name that it is registered by."""
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


def folders_of(paths: Sequence[str]) -> list[Folder]:
    """The columns of each file's folders; none at all unless every file has the same ones."""
    folders: list[Folder] = []
    for path in paths:
        pairs = [part.split("=", 1) for part in Path(path).parts[:-1] if part.partition("=")[1] and part[0] != "="]
        folders.append({name: None if value == NULL_FOLDER else _decoded(value) for name, value in pairs})
    return folders if all(list(folder) == list(folders[0]) for folder in folders) else [{} for _ in paths]


def _decoded(value: str) -> str:
    """Signs such as %20 as what they stand for, if all of them are such signs."""
    return value if re.search("%(?![0-9A-Fa-f]{2})", value) else unquote(value)


def without_values(path: str) -> str:
    """A path as an error may show it: the value of a folder such as user=alice is a key of its records."""
    return str(Path(*(f"{part.partition('=')[0]}=..." if "=" in part else part for part in Path(path).parts)))


def check_folders(folder: Folder, names: Sequence[str] | dict[str, str]) -> None:
    """A folder's name must not stand in for a column of the file: every record would be counted under it."""
    check_unique(list(folder))
    inside = {name.casefold() for name in names}
    if clash := [name for name in folder if name.casefold() in inside]:
        raise UnreadableSource(
            f"{clash[0]!r} as a column of the files or in the names of their folders",
            "both",
            "rename the folder or the column: one would silently replace the other.",
        )


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
    """The files of a folder and of those inside of it, but for hidden ones."""
    found = []
    for place, inside, names in os.walk(folder.resolve()):
        inside[:] = sorted(name for name in inside if not is_hidden(name))
        found += [os.path.join(place, name) for name in sorted(names) if not is_hidden(name)]
    return found


def is_hidden(name: str) -> bool:
    """Whether a file or folder is none of the data: _SUCCESS, .part-0.crc. A folder _x=1 is, as everywhere in Hive's layout."""
    return name.startswith(".") or (name.startswith("_") and "=" not in name) or name.endswith(".crc")


def format_of_files(files: Files, paths: Sequence[str]) -> Format:
    """The format of all files, if it is one and the options fit it."""
    found = {files.format: ""} if files.format else {format_of_file(path): path for path in paths}
    if len(found) > 1:
        names = ", ".join(f"{kind} ({Path(path).name})" for kind, path in sorted(found.items()))
        raise UnreadableSource("files of one format", names, "name those of one kind by a glob such as 'events/*.csv'.")
    (kind,) = found
    files.require_kind(kind)
    return kind


def format_of_file(path: str) -> Format:
    """The format by the end of the name."""
    suffixes = Path(path).suffixes
    last = suffixes[-2] if len(suffixes) > 1 and suffixes[-1].lower() in _COMPRESSIONS else (suffixes or [""])[-1]
    if (found := _SUFFIXES.get(last.lower())) is None:
        raise UnreadableSource(
            "a name that ends in .parquet, .csv, .tsv, .json, .jsonl or .ndjson",
            repr(Path(path).name),
            "rename it if it is one of these; if not, convert it: a spreadsheet can be saved as CSV.",
        )
    return found


def check_unique(names: Sequence[str]) -> None:
    """SQL does not tell names apart by case."""
    times = Counter(name.casefold() for name in names)
    twice = [name for name in names if times[name.casefold()] > 1]
    if twice:
        raise InvalidParameter("column names that differ in more than case", ", ".join(twice), "rename one of them.")
