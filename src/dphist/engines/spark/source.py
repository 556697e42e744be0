"""Sources as DataFrames of Spark: only the columns that are needed, guarded, out of reach of every statistic.

One line of a text file is one record, read alone, so that no record moves a border, a type or a name of another. Spark's own
readers would end the run for a line of too many fields, and take text after a closing quote for another field. So lines are
read as text here and parsed one by one: CSV by Python's `csv` on the executors, JSON by Spark's `from_json`. A line that is
no record (too long, not UTF-8, malformed) costs only itself.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc

from dphist.engines.base import fresh
from dphist.engines.expressions import Expression
from dphist.engines.lines import LONGEST_LINE
from dphist.engines.names import check_columns, check_header_names
from dphist.engines.relations import Derived
from dphist.engines.source import (
    NULL_FOLDER,
    CsvFormat,
    Files,
    check_folders,
    check_types,
    folders_of,
    form_of,
    format_of_files,
    is_hidden,
    json_columns,
)
from dphist.engines.spark import is_frame
from dphist.engines.spark import types as spark_types
from dphist.engines.spark.expressions import quote_identifier, quote_text, spark_type
from dphist.engines.spark.session import OTHER_HEADER, without_leaks
from dphist.errors import EngineFailure, InvalidParameter, UnreadableSource

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


_T = TypeVar("_T")

BARRIER: Final = "spark_partition_id() >= 0"
"""True for every record, which Spark does not know: it moves no filter past a condition that is not deterministic.

So no filter of ours, and none that Spark infers from it, reaches a source (Parquet, ORC, JDBC, Delta, a cached table). There
statistics would answer the filter, and they leave NaN out and may be wrong.
"""


class Views:
    """Names for DataFrames inside SQL."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark, self._names = spark, [f"dphist_{fresh(None):016x}"]

    def add(self, frame: DataFrame, name: str) -> str:
        """Register a frame; the name that comes back is the one to use."""
        unique = f"{self._names[0]}_{name}"
        frame.createOrReplaceTempView(unique)
        self._names.append(unique)
        return unique

    def number(self) -> int:
        """A number that no earlier name has."""
        self._names.append("")
        return len(self._names)

    def drop(self) -> None:
        """Forget all names."""
        for name in filter(None, self._names[1:]):
            self._spark.catalog.dropTempView(name)


def narrowed(frame: DataFrame, names: dict[str, str]) -> DataFrame:
    """Only the columns that are needed, under names of ours: no name from outside gets into the SQL. Values are guarded."""
    from pyspark.sql import functions as F  # noqa: N812

    types = {name.casefold(): (name, kind) for name, kind in frame.dtypes}
    for fold in names:
        spark_types.check_equality(types[fold][1], types[fold][0])
    taken = frame.where(BARRIER).select(
        *(F.col(quote_identifier(types[fold][0])).alias(ours) for fold, ours in names.items())
    )
    return taken.select(
        *(F.expr(spark_types.guarded(ours, types[fold][1])).alias(ours) for fold, ours in names.items())
    )


def types_of(spark: SparkSession, view: str, expressions: Sequence[str]) -> list[str]:
    """Spark's types of expressions over a view."""
    typed = ", ".join(f"{sql} AS typed_{position}" for position, sql in enumerate(expressions))
    try:
        return [kind for _, kind in without_leaks(lambda: spark.sql(f"SELECT {typed} FROM {view}").dtypes)]
    except EngineFailure:
        pass
    raise InvalidParameter(
        "expressions that fit the columns", "a type error of Spark", "check the types of the columns."
    )


def check_times(source: object, names: Sequence[str]) -> None:
    """Refuse a unit that is cut short on its way to Spark, which has microseconds: two units would be bounded as one."""
    folded = {name.casefold() for name in names}
    for field in source.schema if isinstance(source, pa.Table) else ():
        if field.name.casefold() in folded and pa.types.is_timestamp(field.type) and field.type.unit == "ns":
            hint = "cast it to text or microseconds first."
            raise InvalidParameter(f"the unit {field.name!r} to be read as it is", f"the type {field.type}", hint)


def column_names(spark: SparkSession, source: object) -> list[str]:
    """The columns of a source, by its schema or header."""
    if isinstance(source, Derived):
        return list(source.relation.names)
    if isinstance(source, pa.Table):
        return list(source.schema.names)
    return _opened(
        spark, source, lambda frame: list(frame.columns), lambda files, found: _file_columns(spark, files, found)
    )


def _file_columns(spark: SparkSession, files: Files, found: Sequence[str]) -> list[str]:
    paths, folder = [str(path) for path in files.paths], folders_of(found)[0]
    match format_of_files(files, found):
        case "parquet":
            names = _parquet(spark, paths).columns
        case "json":
            names = list(files.types)
        case _:
            names = list(csv_header(spark, paths, files, form_of(files, found)))
    return [*names, *(name for name in folder if name not in names)]


def read_frame(
    spark: SparkSession, source: object, plain: Sequence[str], expressions: Collection[Expression]
) -> tuple[DataFrame, bool]:
    """A DataFrame, and whether the source declares its types. plain: columns that the query names outside of expressions."""
    if isinstance(source, pa.Table):
        needed = [*plain, *(name for expression in expressions for name in expression.columns)]
        return without_leaks(lambda: frame_of(spark, source, needed)), True
    return _opened(
        spark,
        source,
        lambda frame: (frame, True),
        lambda files, found: _read_files(spark, files, found, plain, expressions),
    )


def _opened(
    spark: SparkSession,
    source: object,
    of_frame: Callable[[DataFrame], _T],
    of_files: Callable[[Files, Sequence[str]], _T],
) -> _T:
    """The result of `of_frame` for a frame, or of `of_files` for files, which perhaps only Spark can reach."""
    if is_frame(source):
        frame: Any = source
        return of_frame(frame)
    if isinstance(source, str | Path):
        source = Files((source,))
    if not isinstance(source, Files):
        raise UnreadableSource("a Spark DataFrame, an Arrow table or paths for the Spark engine", type(source).__name__)
    files, paths = source, [str(path) for path in source.paths]
    try:
        found = without_leaks(lambda: listed(spark, paths))
        if found:
            return without_leaks(lambda: of_files(files, found))
    except EngineFailure:
        pass
    raise UnreadableSource("readable files", ", ".join(paths[:3]), "check that the cluster can read the paths.")


def _parquet(spark: SparkSession, paths: Sequence[str]) -> DataFrame:
    return spark.read.option("recursiveFileLookup", "true").parquet(*paths)


def _read_files(
    spark: SparkSession,
    files: Files,
    found: Sequence[str],
    plain: Sequence[str],
    expressions: Collection[Expression],
) -> tuple[DataFrame, bool]:
    kind, paths = format_of_files(files, found), [str(path) for path in files.paths]
    needed = [*plain, *(name for expression in expressions for name in expression.columns)]
    folder = folders_of(found)[0]
    wanted = {name.casefold() for name in needed}
    used = [name for name in folder if name.casefold() in wanted]
    if kind == "parquet":
        frame = _parquet(spark, paths)
        check_folders(folder, frame.columns)
        check_types(files, folder)
        return _declared(frame.selectExpr("*", *folder_columns(used)) if used else frame, files), True
    if kind == "json":
        names = [name for name in json_columns(files, needed, folder) if name not in folder]
        check_folders(folder, names)
        return _declared(read_json(spark, paths, names, used), files), False
    form = form_of(files, found)
    header = csv_header(spark, paths, files, form)
    check_folders(folder, header)
    check_types(files, [*header, *folder])
    check_columns(plain, expressions, [*header, *folder], form if form.header else None)
    return _declared(read_csv(spark, paths, form, header, needed, used), files), False


def _declared(frame: DataFrame, files: Files) -> DataFrame:
    """Texts as the types that are declared, where they fit."""
    columns = []
    for name in frame.columns:
        quoted = quote_identifier(name)
        kind = files.types.get(name)
        text = spark_types.dated(quoted) if kind is not None and kind.startswith("TIMESTAMP") else quoted
        columns.append(quoted if kind is None else f"TRY_CAST({text} AS {spark_type(kind, name)}) AS {quoted}")
    return frame.selectExpr(*columns) if files.types else frame


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

    A needed column without such a type is refused. No value decides whether the rest can be read: Spark's own conversion
    would fail on a time that microseconds cannot hold, and for a time in an hour that a clock shows twice.
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
    """A column of a type that Spark reads whatever the values are; None if Spark has no such type."""
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
    """Times as whole microseconds, rounded down; a time that 64 bits cannot hold is null."""
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
    """The files behind paths, which perhaps only Spark can reach. No file is read.

    Spark leaves hidden files out of a folder, but not out of the matches of a glob. A glob that matches hidden files is
    refused.
    """
    found = [unquote(path) for path in _lines(spark, paths).inputFiles()]
    for pattern in paths:
        fixed = re.split(r"[*?\[{]", pattern)[0]
        below = [path.partition(fixed.rpartition("/")[0] + "/")[2] for path in found] if fixed != pattern else []
        if hidden := [name for path in below for name in path.split("/") if is_hidden(name)]:
            raise UnreadableSource(f"data alone behind {pattern!r}", hidden[0], "name the folder, or a narrower glob.")
    return found


def folder_columns(folder: Iterable[str]) -> list[str]:
    """The columns that the names of a file's folders add, as text: see `engines.source.folders_of`."""
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
    """Escapes such as %20 decoded. A plus stays a plus."""
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
    """The needed columns, and those of the folders, as text."""
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
    """From lines to fields, on the executors: the fields at `places` of every line with as many fields as the header, and the
    columns of its folders.
    """

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
    """The first line of one file. Executors compare the first lines of other files with it."""
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
