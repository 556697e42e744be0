"""Sources as DataFrames of Spark: only the columns that are needed, guarded, out of reach of every statistic."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

import pyarrow as pa

from dphist.engines.duckdb.names import check_columns
from dphist.engines.duckdb.sources import check_folders, check_types, folders_of, form_of, format_of_files, json_columns
from dphist.engines.expressions import Expression
from dphist.engines.query import Files
from dphist.engines.relations import Derived
from dphist.engines.spark import is_frame
from dphist.engines.spark import types as spark_types
from dphist.engines.spark.expressions import quote_identifier, spark_type
from dphist.engines.spark.session import without_leaks
from dphist.engines.spark.sources import csv_header, folder_columns, frame_of, listed, read_csv, read_json
from dphist.errors import EngineFailure, InvalidParameter, UnreadableSource

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_T = TypeVar("_T")

BARRIER: Final = "spark_partition_id() >= 0"
"""True for every record, which Spark does not know: it moves no filter past a condition that is not deterministic.

So no filter of ours, and none that Spark infers from one, reaches a source, whatever it is (Parquet, ORC, JDBC, Delta, a cached
table), where statistics would answer it: they leave NaN out, and may be wrong.
"""


class ViewNames(Protocol):
    """Names for frames inside SQL."""

    def add(self, frame: DataFrame, name: str) -> str:
        """Register a frame; the name that comes back is the one to use."""
        ...


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
    """A DataFrame, and whether its types were declared by itself. plain: columns that the query names itself."""
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
    """What a function makes of a frame, or of files, which Spark alone may be able to reach."""
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
