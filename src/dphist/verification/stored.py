"""Reads a published file. Anyone may have made it: whatever is in it, the result is a table or a DphistError."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

from dphist.errors import InvalidParameter
from dphist.files.formats import FOLDER_METADATA, METADATA_KEY, format_of, sidecar
from dphist.files.outputs import near
from dphist.files.spreadsheet import ESCAPED, escaped, restored_table
from dphist.files.stored import MOST_BYTES, parse
from dphist.show.page import PAGES, metadata_in

_CSV_BLOCK: Final = 64 << 20
"""The block of a reader of CSV files. A row of sixteen quoted keys of 65,536 bytes fits."""

_PAGE: Final = "page"

_UNREADABLE: Final = (
    OSError, ValueError, TypeError, ArithmeticError, RecursionError, MemoryError, pa.ArrowException,
)  # fmt: skip


@dataclass(frozen=True, slots=True, eq=False)
class Stored:
    """A file or a folder that Spark wrote, with its metadata: inside (Parquet, pages, folders) and beside it."""

    path: Path
    kind: str
    inside: dict[str, Any] | None
    beside: dict[str, Any] | None

    @property
    def is_folder(self) -> bool:
        """Whether Spark wrote it."""
        return self.path.is_dir()

    @property
    def is_page(self) -> bool:
        """Whether it is a report, whose rounded numbers are for people."""
        return self.kind == _PAGE

    @property
    def is_typed(self) -> bool:
        """Whether the format keeps the types of columns."""
        return self.kind == "parquet"

    @property
    def metadata(self) -> dict[str, Any]:
        """The metadata inside the file, which cannot be another file's; else the metadata beside it."""
        metadata = self.inside if self.inside is not None else self.beside
        if metadata is None:
            beside = "" if self.is_page else f" or in {sidecar(self.path).name}"
            places = f"the metadata of {self.path.name} inside it{beside}"
            raise InvalidParameter(places, "none", "is it a file that dphist released? The data themselves have none.")
        return metadata

    def table(self, keys: Sequence[str]) -> pa.Table:
        """The table; None for a page. Text formats have no types: keys are read as texts, other columns as numbers."""
        if self.is_page:
            return pa.table({})
        try:
            files = [self.path]
            if self.is_folder:  # readers of data skip other names
                files = sorted(file for file in self.path.iterdir() if file.name[0] not in "._" and file.is_file())
            read = _read_escaped if self.kind == "csv" and self.metadata.get(ESCAPED) is True else _read
            tables = [read(file, self.kind, keys, complete=not self.is_folder) for file in files]
            named = [table for table in tables if table.num_columns]
            return pa.concat_tables(named) if named else pa.table({})
        except _UNREADABLE as problem:
            raise _unreadable(self.path, problem) from None


def open_stored(path: Path) -> Stored:
    """Find a published file and its metadata."""
    kind, beside = _kind_of(path), sidecar(path)
    try:
        for file in (path, beside):
            if file.exists() and not (file.is_file() or (file is path and file.is_dir())):
                raise InvalidParameter(f"a released file at {file}", "a pipe, a device or something else")
        known = kind != _PAGE and beside.exists()
        return Stored(path, kind, _inside(path, kind), _parse_files([beside], beside.name) if known else None)
    except InvalidParameter:
        raise
    except (OSError, ValueError, pa.ArrowException) as problem:
        raise _unreadable(path, problem) from None


def _kind_of(path: Path) -> str:
    """The format, by the suffix."""
    if path.suffix.lower() in PAGES and not os.path.isdir(path):
        return _PAGE
    with suppress(InvalidParameter):
        return format_of(path)
    if not os.path.exists(path):
        raise _unreadable(path, FileNotFoundError())
    hint = "a summary as .md or .txt carries no metadata, and other files were not written by dphist."
    raise InvalidParameter("a table (.parquet, .csv, .json) or a report (.html) of dphist", path.name, hint)


def _unreadable(path: Path, problem: BaseException) -> InvalidParameter:
    what = "a released folder" if os.path.isdir(path) else "a released file"
    if isinstance(problem, FileNotFoundError) and not os.path.exists(path):
        return InvalidParameter(f"{what} at {path}", "no file", near(path))
    return InvalidParameter(f"{what} at {path}", f"an unreadable one ({type(problem).__name__})")


def _inside(path: Path, kind: str) -> dict[str, Any] | None:
    if path.is_dir():
        files = sorted((path / FOLDER_METADATA).glob("part-*"))
        if not files:
            raise FileNotFoundError(FOLDER_METADATA)
        return _parse_files(files, f"{path.name}/{FOLDER_METADATA}")
    if kind == _PAGE:
        content = metadata_in(path.read_bytes())
        return None if content is None else parse(content, path.name)
    if kind != "parquet":
        path.open("rb").close()
        return None
    # Writers store the metadata twice and readers take either, so both must be there and equal.
    with pq.ParquetFile(path) as file:
        copies = [(held or {}).get(METADATA_KEY) for held in (file.metadata.metadata, file.schema_arrow.metadata)]
    if copies[0] != copies[1]:
        raise InvalidParameter(f"one set of metadata in {path.name}", "two that differ")
    return None if copies[0] is None else parse(copies[0], path.name)


def _parse_files(files: Iterable[Path], name: str) -> dict[str, Any]:
    """The metadata of a folder. Of a file that is too long little more is read than metadata may have."""
    text = b""
    for file in files:
        with file.open("rb") as data:
            text += data.read(MOST_BYTES + 1 - len(text))
    return parse(text, name)


def strange_in(folder: Path) -> list[str]:
    """Files in a folder of Spark that Spark did not write."""

    def is_usual(file: Path) -> bool:
        if file.is_dir():
            return file == folder / FOLDER_METADATA
        if file.name == "_SUCCESS":
            return file.is_file() and not file.stat().st_size
        checked = re.fullmatch(r"\.(.+)\.crc", file.name)
        return file.is_file() and (file.with_name(checked[1]).exists() if checked else file.name.startswith("part-"))

    inside = [*folder.iterdir(), *(folder / FOLDER_METADATA).iterdir()]
    return sorted(str(file.relative_to(folder)) for file in inside if not is_usual(file))


def _read(file: Path, kind: str, keys: Sequence[str], *, complete: bool) -> pa.Table:
    if kind == "parquet":  # not by read_table, which would add the folders' names as columns
        return pq.ParquetFile(file).read().replace_schema_metadata(None)
    return _read_csv(file, keys) if kind == "csv" else _read_json(file, keys, complete=complete)


def _read_escaped(file: Path, kind: str, keys: Sequence[str], *, complete: bool) -> pa.Table:
    """Texts without the marks that keep spreadsheets from running them."""
    return restored_table(_read(file, kind, [escaped(str(key)) for key in keys], complete=complete))


def _read_csv(file: Path, keys: Sequence[str]) -> pa.Table:
    """A table of CSV. A null is an empty field, an empty text is ""."""
    if file.stat().st_size == 0:
        raise ValueError("no header")
    read = pa_csv.ReadOptions(block_size=_CSV_BLOCK)
    parse = pa_csv.ParseOptions(newlines_in_values=True)
    with pa_csv.open_csv(file, read_options=read, parse_options=parse) as opened:
        names = opened.schema.names
    convert = pa_csv.ConvertOptions(
        column_types={name: pa.string() if name in keys else pa.float64() for name in names},
        strings_can_be_null=True,
        quoted_strings_can_be_null=False,
        null_values=[""],
    )
    return pa_csv.read_csv(file, read_options=read, parse_options=parse, convert_options=convert)


def _read_json(file: Path, keys: Sequence[str], *, complete: bool) -> pa.Table:
    """A table of JSON, one object a line. Python parses it, since Arrow's parser ends the process at a line `null`.

    complete: whether every row has every key. Spark leaves out nulls, so a key may be missing even in all rows.
    """
    with file.open("rb") as lines:
        bounded = iter(lambda: lines.readline(_CSV_BLOCK), b"")
        rows = [json.loads(line.decode("utf-8")) for line in bounded if line.strip()]
    if not all(isinstance(row, dict) for row in rows):
        raise TypeError("a line that is no object")
    names = list(dict.fromkeys(name for row in rows for name in row))
    if complete and any(len(row) != len(names) for row in rows):
        raise ValueError("a row that lacks a column")
    if rows and not complete:
        names = [*keys, *(name for name in names if name not in keys)]
    return pa.table({name: _column([row.get(name) for row in rows], text=name in keys) for name in names})


def _column(values: list[Any], *, text: bool) -> pa.Array:
    if text:  # 1 and "1" are different keys
        return pa.array([None if value is None else json.dumps(value) for value in values], pa.string())
    if not all(value is None or (isinstance(value, int | float) and not isinstance(value, bool)) for value in values):
        raise TypeError("a value that is no number")
    return pa.array([None if value is None else float(value) for value in values], pa.float64())
