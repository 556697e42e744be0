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


def frame_of(spark: SparkSession, table: pa.Table) -> DataFrame:
    """A table of the driver as a DataFrame. Types of Arrow that Spark does not read become what it has for them."""
    from pyspark.sql.pandas.types import from_arrow_schema

    known = table.cast(pa.schema([field.with_type(_known(field.type)) for field in table.schema]))
    return spark.createDataFrame(known, from_arrow_schema(known.schema, prefer_timestamp_ntz=True))


def _known(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_dictionary(kind):
        return kind.value_type
    return {pa.uint64(): pa.decimal128(20, 0), pa.string_view(): pa.string()}.get(kind, kind)


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
    raise InvalidParameter("a column that the header of the CSV file names once", repr(name), NO_HEADER)


def _lines(spark: SparkSession, paths: Sequence[str]) -> DataFrame:
    return spark.read.options(**_LINES).text(list(dict.fromkeys(paths)))
