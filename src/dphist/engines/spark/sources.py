"""Text files in Spark: one line is one record, read alone, so that no record moves a border, a type or a name of another.

Spark's own readers would end the run for a line of too many fields, and take what stands behind a quote for another field.
Lines are read as text here and parted one by one: CSV by Python's `csv` on the executors, JSON by Spark's `from_json`. What is
not a record (too long, not UTF-8, malformed) costs itself.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc

from dphist.engines.duckdb.resolve import hint_of_name
from dphist.engines.duckdb.sources import NO_HEADER
from dphist.engines.lines import LONGEST_LINE
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


def read_json(spark: SparkSession, paths: Sequence[str], needed: Sequence[str]) -> DataFrame:
    """One JSON object per line: the columns that are asked for, as text. No record can add or change one."""
    names = list(dict.fromkeys(needed))
    malformed = "malformed" + "_" * max((len(name) for name in names), default=0)
    options = {**_JSON, "columnNameOfCorruptRecord": malformed}
    schema = ", ".join(f"{quote_identifier(name)} STRING" for name in (*names, malformed))
    listed = ", ".join(f"{quote_text(name)}, {quote_text(value)}" for name, value in options.items())
    line = f"CASE WHEN octet_length(value) <= {LONGEST_LINE} THEN try_validate_utf8(value) END"
    records = _lines(spark, paths).selectExpr(f"from_json({line}, {quote_text(schema)}, map({listed})) AS record")
    kept = records.where(f"record IS NOT NULL AND record.{malformed} IS NULL")
    return kept.selectExpr(*(f"record.{quote_identifier(name)} AS {quote_identifier(name)}" for name in names))


def read_csv(
    spark: SparkSession, paths: Sequence[str], files: Files, delimiter: str, needed: Sequence[str]
) -> DataFrame:
    """The columns that are asked for, as text. Nothing that may be a record is quoted: a file may lack its header."""
    named = files.header is True
    header = _header(spark, paths, delimiter, files.quote) if files.header is True else tuple(files.header)
    places = {header[place]: place for place in (_place(name, header) for name in (*needed, *files.types))}
    records = CsvRecords(header, places, delimiter, files.quote, named)
    line = f"CASE WHEN octet_length(value) <= {LONGEST_LINE} THEN CAST(value AS BINARY) END AS line"
    lines = _lines(spark, paths).selectExpr("xxhash64(_metadata.file_path) AS file", f"{_START} AS start", line)
    return lines.mapInArrow(records, ", ".join(f"{quote_identifier(name)} STRING" for name in places))


@dataclass(frozen=True, slots=True)
class CsvRecords:
    """From lines to fields, on the executors: the ones at `places` of every line that has the fields of the header.

    named: the header is the first line of each file.
    """

    header: tuple[str, ...]
    places: dict[str, int]
    delimiter: str
    quote: str | None
    named: bool

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Lines of a file come in their order, and the first one of each file is in the part that starts at 0."""
        csv.field_size_limit(max(csv.field_size_limit(), LONGEST_LINE))
        last = None
        for batch in batches:
            columns: list[list[str | None]] = [[] for _ in self.places]
            for file, start, line in zip(*(column.to_pylist() for column in batch.columns), strict=True):
                fields = None if line is None else fields_of(line, self.delimiter, self.quote)
                if self.named and start == 0 and file != last:
                    last = file
                    if fields is None or _names(fields) != self.header:
                        raise ValueError(OTHER_HEADER)
                elif fields is not None and len(fields) == len(self.header):
                    for column, place in zip(columns, self.places.values(), strict=True):
                        column.append(fields[place] or None)
            arrays = [pa.array(column, pa.string()) for column in columns]
            yield pa.RecordBatch.from_arrays(arrays, list(self.places))


def fields_of(line: bytes, delimiter: str, quote: str | None) -> list[str] | None:
    """The fields of one line as Python's `csv` reads it in strict mode, or None if it is no record."""
    try:
        text = line.decode().removeprefix("\ufeff").removesuffix("\r")
        if quote is not None and quote in text:
            rows = list(csv.reader([text], delimiter=delimiter, quotechar=quote, strict=True))
            return rows[0] if len(rows) == 1 else None
    except (UnicodeDecodeError, csv.Error):
        return None
    return text.split(delimiter) if text and "\r" not in text else None


def _header(spark: SparkSession, paths: Sequence[str], delimiter: str, quote: str | None) -> tuple[str, ...]:
    """The first line of a file. Of the other files, the executors compare theirs with it."""
    first = _lines(spark, paths).where(f"{_START} = 0").selectExpr("CAST(value AS BINARY)").limit(1).collect()
    fields = fields_of(bytes(first[0][0]), delimiter, quote) if first else None
    if fields is None:
        raise UnreadableSource(
            "a header in the first line", "none", "write the names of the columns there, or give them (--no-header)."
        )
    return _names(fields)


def _names(fields: Sequence[str]) -> tuple[str, ...]:
    return (fields[0].removeprefix("\ufeff"), *fields[1:])


def _place(name: str, header: Sequence[str]) -> int:
    places = [place for place, other in enumerate(header) if other.casefold() == name.casefold()]
    if len(places) == 1:
        return places[0]
    hint = NO_HEADER + hint_of_name(name)
    raise InvalidParameter("a column that the header of the CSV file names once", repr(name), hint)


def _lines(spark: SparkSession, paths: Sequence[str]) -> DataFrame:
    return spark.read.options(**_LINES).text(list(dict.fromkeys(paths)))
