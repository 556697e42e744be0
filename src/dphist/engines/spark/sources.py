"""Text files in Spark: one line is one record, read alone, so that no record moves a border, a type or a name of another.

Spark's own readers would end the run for a line of too many fields, and take what stands behind a quote for another field.
Lines are read as text here and parted one by one: CSV by Python's `csv` on the executors, JSON by Spark's `from_json`. What is
not a record (too long, not UTF-8, malformed) costs itself.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc

from dphist.engines.duckdb.sources import NULL_FOLDER, check_header_names, is_hidden
from dphist.engines.lines import LONGEST_LINE, CsvFormat
from dphist.engines.query import Files
from dphist.engines.spark.expressions import quote_identifier, quote_text
from dphist.engines.spark.session import OTHER_HEADER
from dphist.errors import InvalidParameter, UnreadableSource

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_HELD_LINE: Final = 1 << 26
"""Bytes of a line that Spark holds in memory before we see it. It skips a longer one while it reads."""

_LINES: Final = {
    "lineSep": "\n",
    "recursiveFileLookup": "true",  # a part of a path is no column
    "mapreduce.input.linerecordreader.line.maxlength": str(_HELD_LINE),
}
_JSON: Final = {
    "mode": "PERMISSIVE",
    "allowSingleQuotes": "false",
    "allowNonNumericNumbers": "false",
}
_START: Final = "_metadata.file_block_start"
_UNMARKED: Final = "trim(LEADING '\ufeff' FROM value)"
_IS_RECORD: Final = f"octet_length({_UNMARKED}) - CAST(endswith({_UNMARKED}, '\r') AS INT) <= {LONGEST_LINE}"
"""As in `lines`: neither marks nor the line end are bytes of a record."""


def frame_of(spark: SparkSession, table: pa.Table, needed: Sequence[str] | None = None) -> DataFrame:
    """A table of the driver as a DataFrame, with the columns that Spark has a type for.

    A needed column without one is refused, by its type. No value decides whether the rest can be read: Spark's own
    conversion would fail on a time that microseconds cannot hold, and for a time in an hour that a clock shows twice.
    """
    from pyspark.sql.pandas.types import from_arrow_schema

    wanted = None if needed is None else {name.casefold() for name in needed}
    names, columns = [], []  # lists: a name that comes twice is refused later, by its name
    for field, column in zip(table.schema, table.columns, strict=True):
        if (plain := _plain(column)) is not None:
            names.append(field.name)
            columns.append(plain)
        elif wanted is None or field.name.casefold() in wanted:
            raise InvalidParameter(f"a type that Spark has for {field.name!r}", f"the type {field.type}")
    known = pa.Table.from_arrays(columns, names=names)
    return spark.createDataFrame(known, from_arrow_schema(known.schema, prefer_timestamp_ntz=True))


_UNSIGNED: Final = {
    pa.uint8(): pa.int16(),
    pa.uint16(): pa.int32(),
    pa.uint32(): pa.int64(),
    pa.uint64(): pa.decimal128(20, 0),
    pa.string_view(): pa.string(),
    pa.binary_view(): pa.binary(),
}
_PER_SECOND: Final = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}


def _plain(column: pa.ChunkedArray) -> pa.ChunkedArray | None:
    """A column of a type that Spark reads whatever the values; None if there is none."""
    kind = column.type
    if pa.types.is_dictionary(kind):
        return _plain(column.cast(kind.value_type))
    if pa.types.is_timestamp(kind):
        return _microseconds(column)
    if pa.types.is_fixed_size_binary(kind):
        return column.cast(pa.binary())
    if kind in _UNSIGNED:
        return column.cast(_UNSIGNED[kind])
    tests = (
        pa.types.is_boolean, pa.types.is_signed_integer, pa.types.is_float32, pa.types.is_float64, pa.types.is_decimal128,
        pa.types.is_string, pa.types.is_large_string, pa.types.is_binary, pa.types.is_large_binary, pa.types.is_date32,
        pa.types.is_null,
    )  # fmt: skip
    return column if any(test(kind) for test in tests) else None


def _microseconds(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Times as whole microseconds, rounded down; what 64 bits cannot hold is null."""
    raw, number = column.cast(pa.int64()), _PER_SECOND[column.type.unit]
    if number <= 10**6:
        factor = 10**6 // number
        most = (2**63 - 1) // factor
        fits = pc.and_(pc.less_equal(raw, most), pc.greater_equal(raw, -most))
        raw = pc.multiply(pc.if_else(fits, raw, pa.scalar(None, pa.int64())), factor)
    else:
        towards_zero = pc.divide(raw, 1000)
        below = pc.less(pc.subtract(raw, pc.multiply(towards_zero, 1000)), 0)
        raw = pc.subtract(towards_zero, pc.cast(below, pa.int64()))
    return raw.cast(pa.timestamp("us", column.type.tz))


def listed(spark: SparkSession, paths: Sequence[str]) -> list[str]:
    """The files behind paths, which Spark alone may be able to reach. None is read.

    Spark leaves hidden files out of a folder, but not out of what a glob matches: such a glob is refused.
    """
    found = [unquote(path) for path in _lines(spark, paths).inputFiles()]
    for pattern in paths:
        fixed = re.split(r"[*?\[{]", pattern)[0]
        below = [path.partition(fixed.rpartition("/")[0] + "/")[2] for path in found] if fixed != pattern else []
        if hidden := [name for path in below for name in path.split("/") if is_hidden(name)]:
            raise UnreadableSource(f"data alone behind {pattern!r}", hidden[0], "name the folder, or a narrower glob.")
    return found


def folder_columns(folder: Iterable[str]) -> list[str]:
    """The columns that the names of a file's folders add, as text: see `duckdb.sources.folders_of`."""
    parts = "split(_metadata.file_path, '/')"
    parts = f"transform(slice({parts}, 1, size({parts}) - 1), part -> {_decoded('part')})"
    columns = []
    for name in folder:
        own = f"element_at(filter({parts}, part -> startswith(part, {quote_text(f'{name}=')})), -1)"
        value = f"substring({own}, {len(name) + 2})"
        found = f"transform(array({value}), v -> CASE WHEN v <> '{NULL_FOLDER}' THEN coalesce({_decoded('v')}, v) END)"
        columns.append(f"{found}[0] AS {quote_identifier(name)}")
    return columns


def _decoded(sql: str) -> str:
    """Signs such as %20 as what they stand for; a plus stays one."""
    return f"try_url_decode(replace({sql}, '+', '%2B'))"


def read_json(spark: SparkSession, paths: Sequence[str], names: Sequence[str], folder: Iterable[str]) -> DataFrame:
    """One JSON object per line: the columns that are declared, as text. No record can add or change one."""
    malformed = "malformed" + "_" * max((len(name) for name in (*names, *folder)), default=0)
    options = {**_JSON, "columnNameOfCorruptRecord": malformed}
    schema = ", ".join(f"{quote_identifier(name)} STRING" for name in (*names, malformed))
    settings = ", ".join(f"{quote_text(name)}, {quote_text(value)}" for name, value in options.items())
    line = f"CASE WHEN {_IS_RECORD} THEN try_validate_utf8(value) END"
    line = f"trim(LEADING '\ufeff' FROM {line})"
    record = f"from_json({line}, {quote_text(schema)}, map({settings})) AS {malformed}"
    records = _lines(spark, paths).selectExpr(record, *folder_columns(folder))
    kept = records.where(f"{malformed} IS NOT NULL AND {malformed}.{malformed} IS NULL")
    fields = (f"{malformed}.{quote_identifier(name)} AS {quote_identifier(name)}" for name in names)
    return kept.selectExpr(*fields, *map(quote_identifier, folder))


def csv_header(spark: SparkSession, paths: Sequence[str], files: Files, form: CsvFormat) -> tuple[str, ...]:
    """The names of the columns. Nothing that may be a record is quoted: a file may lack its header."""
    if form.encoding == "utf-16":
        raise UnreadableSource(
            "CSV files of one byte per line feed on Spark", "utf-16", "convert them to UTF-8 first, as iconv does."
        )
    names = _header(spark, paths, form) if files.header is True else tuple(files.header)
    check_header_names(names)
    return names


def read_csv(
    spark: SparkSession,
    paths: Sequence[str],
    form: CsvFormat,
    header: tuple[str, ...],
    needed: Sequence[str],
    folder: Iterable[str],
) -> DataFrame:
    """The columns that are asked for, as text, and those of the folders."""
    folded = {name.casefold() for name in needed}
    places = {name: place for place, name in enumerate(header) if name.casefold() in folded}
    line = f"CASE WHEN {_IS_RECORD} THEN CAST(value AS BINARY) END AS line"
    lines = _lines(spark, paths).selectExpr(
        "xxhash64(_metadata.file_path) AS file", f"{_START} AS start", line, *folder_columns(folder)
    )
    names = [*places, *folder]
    return lines.mapInArrow(
        CsvRecords(header, places, form), ", ".join(f"{quote_identifier(name)} STRING" for name in names)
    )


@dataclass(frozen=True, slots=True)
class CsvRecords:
    """From lines to fields, on the executors: the ones at `places` of every line that has the fields of the header, and the
    columns of its folders, which come behind the line."""

    header: tuple[str, ...]
    places: dict[str, int]
    form: CsvFormat

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Lines of a file come in their order, and the first one of each file is in the part that starts at 0."""
        csv.field_size_limit(max(csv.field_size_limit(), LONGEST_LINE))
        last = None
        for batch in batches:
            columns: list[list[str | None]] = [[] for _ in self.places]
            kept = []
            for row, (file, start, line) in enumerate(zip(*(c.to_pylist() for c in batch.columns[:3]), strict=True)):
                fields = None if line is None else fields_of(line, self.form)
                if self.form.header and start == 0 and file != last:
                    last = file
                    if fields is None or _names(fields) != self.header:
                        raise ValueError(OTHER_HEADER)
                elif fields is not None and len(fields) == len(self.header):
                    kept.append(row)
                    for column, place in zip(columns, self.places.values(), strict=True):
                        column.append(self.form.value(fields[place]))
            arrays = [pa.array(column, pa.string()) for column in columns]
            arrays += [column.take(pa.array(kept, pa.int64())) for column in batch.columns[3:]]
            yield pa.RecordBatch.from_arrays(arrays, [*self.places, *batch.schema.names[3:]])


def fields_of(line: bytes, form: CsvFormat) -> list[str] | None:
    """The fields of one line as Python's `csv` reads it in strict mode, or None if it is no record."""
    try:
        text = line.decode(form.encoding).lstrip("\ufeff").removesuffix("\r")
        if form.encoding != "utf-8" and len(text.encode()) > LONGEST_LINE:
            return None
        if form.quote is not None and form.quote in text:
            rows = list(csv.reader([text], delimiter=form.delimiter, quotechar=form.quote, strict=True))
            return rows[0] if len(rows) == 1 else None
    except (UnicodeDecodeError, csv.Error):
        return None
    return text.split(form.delimiter) if text and "\r" not in text else None


def _header(spark: SparkSession, paths: Sequence[str], form: CsvFormat) -> tuple[str, ...]:
    """The first line of a file. Of the other files, the executors compare theirs with it."""
    first = _lines(spark, paths).where(f"{_START} = 0").selectExpr("CAST(value AS BINARY)").limit(1).collect()
    fields = fields_of(bytes(first[0][0]), form) if first else None
    if fields is None:
        raise UnreadableSource(
            f"a header of text in {form.encoding.upper()} in the first line",
            "none",
            "write the names of the columns there, or give them (--no-header); other encodings need --encoding.",
        )
    return _names(fields)


def _names(fields: Sequence[str]) -> tuple[str, ...]:
    return (fields[0].removeprefix("\ufeff"), *fields[1:])


def _lines(spark: SparkSession, paths: Sequence[str]) -> DataFrame:
    return spark.read.options(**_LINES).text(list(dict.fromkeys(paths)))
