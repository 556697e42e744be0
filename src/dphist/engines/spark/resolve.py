"""From a query to checked Spark SQL over one record of a source. No record is read: every refusal is by name or type."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

import duckdb
import pyarrow as pa

from dphist.engines.duckdb.resolve import check_columns
from dphist.engines.duckdb.sources import (
    check_folders,
    check_types,
    check_unique,
    folders_of,
    form_of,
    format_of_files,
    json_columns,
)
from dphist.engines.expressions import Expressions, check_query
from dphist.engines.query import Files, GroupByQuery, Key, parse_unit
from dphist.engines.spark import owns
from dphist.engines.spark import types as spark_types
from dphist.engines.spark.expressions import quote_identifier, spark_expression, spark_type
from dphist.engines.spark.session import without_leaks
from dphist.engines.spark.sources import csv_header, folder_columns, frame_of, listed, read_csv, read_json
from dphist.engines.sql import Fields
from dphist.errors import EngineFailure, InvalidParameter, UnreadableSource
from dphist.measures import Measure

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_T = TypeVar("_T")

BARRIER: Final = "spark_partition_id() >= 0"
"""True for every record, which Spark does not know: it moves no filter past a condition that is not deterministic.

So no filter of ours, and none that Spark infers from one, reaches a source, whatever it is (Parquet, ORC, JDBC, Delta, a cached
table), where statistics would answer it: they leave NaN out, and may be wrong.
"""


class _Views(Protocol):
    def add(self, frame: DataFrame, name: str) -> str: ...


def resolve(spark: SparkSession, source: object, query: GroupByQuery, views: _Views) -> Fields:
    """Check everything that can be checked without reading a record."""
    names: dict[str, str] = {}

    def named(column: str) -> str:
        return names.setdefault(column.casefold(), f"column_{len(names)}")

    with duckdb.connect(":memory:") as connection:
        columns, checked = check_query(query, connection)
        parts, plain = parse_unit(query.unit), list(columns)
        for part in parts:
            _check_times(source, [part.name] if part.expression is None else checked[part.expression].columns)
        columns += [name for expression in checked.values() for name in expression.columns]
        frame, typed = _frame(spark, source, plain, checked)
        check_unique(frame.columns)
        check_columns(plain, checked, frame.columns, None)
        for column in columns:
            named(column)
        view = views.add(_narrowed(frame, names), "source")

        def written(name: str, text: str | None) -> str:
            if text is None:
                return named(name)
            return spark_expression(text, connection, named, lambda sql: _types(spark, view, [sql])[0])

        units = [written(part.name, part.expression) for part in parts]
        keys = [written(key.name, key.expression) for key in query.by]
        where = None if query.where is None else written("", query.where)
        values = [None if m.column is None else written(m.column, m.expression) for m in query.measures]
    types = _types(spark, view, [*units, *keys])
    canonical = tuple(
        spark_types.canonical(expression, kind, f"the key {key.name!r}")
        for expression, kind, key in zip(keys, types[len(units) :], query.by, strict=True)
    )
    if where is not None and (kind := _types(spark, view, [where])[0]) != "boolean":
        raise InvalidParameter(f"a condition that is true or false in {query.where!r}", kind)
    return Fields(
        source=view,
        unit=tuple(_unit(*one) for one in zip(units, types, parts, strict=False)),
        keys=canonical,
        values=tuple(
            None if sql is None else _value(spark, view, sql, measure, typed)
            for sql, measure in zip(values, query.measures, strict=True)
        ),
        measures=query.measures,
        where=where,
        drop_null_keys=query.null_keys == "drop",
        listed=None if query.public_keys is None else _list_keys(spark, query, view, canonical, views),
        want_total=query.want_total,
    )


def _narrowed(frame: DataFrame, names: dict[str, str]) -> DataFrame:
    """Only the columns that are needed, under names of ours: no name from outside gets into the SQL. Values are guarded."""
    from pyspark.sql import functions as F  # noqa: N812

    types = {name.casefold(): (name, kind) for name, kind in frame.dtypes}
    taken = frame.where(BARRIER).select(
        *(F.col(quote_identifier(types[fold][0])).alias(ours) for fold, ours in names.items())
    )
    return taken.select(
        *(F.expr(spark_types.guarded(ours, types[fold][1])).alias(ours) for fold, ours in names.items())
    )


def _types(spark: SparkSession, view: str, expressions: Sequence[str]) -> list[str]:
    listed = ", ".join(f"{sql} AS typed_{position}" for position, sql in enumerate(expressions))
    try:
        return [kind for _, kind in without_leaks(lambda: spark.sql(f"SELECT {listed} FROM {view}").dtypes)]
    except EngineFailure:
        pass
    raise InvalidParameter(
        "expressions that fit the columns", "a type error of Spark", "check the types of the columns."
    )


def _check_times(source: object, names: Sequence[str]) -> None:
    """Refuse a unit that is cut short on its way to Spark, which has microseconds: two units would be bounded as one."""
    folded = {name.casefold() for name in names}
    for field in source.schema if isinstance(source, pa.Table) else ():
        if field.name.casefold() in folded and pa.types.is_timestamp(field.type) and field.type.unit == "ns":
            hint = "cast it to text or microseconds first."
            raise InvalidParameter(f"the unit {field.name!r} to be read as it is", f"the type {field.type}", hint)


def _unit(sql: str, kind: str, part: Key) -> str:
    spark_types.check_unit(kind, part.name)
    return spark_types.canonical(sql, kind, f"the unit {part.name!r}")


def _value(spark: SparkSession, view: str, sql: str, measure: Measure, typed: bool) -> str:
    """By its type. What an expression gives must be a number; a column of a source without types may spell one."""
    kind = _types(spark, view, [sql])[0]
    if measure.any_type:
        return spark_types.canonical(sql, kind, repr(measure.column))
    if measure.expression is None:
        return spark_types.number(sql, kind, str(measure.column), typed=typed)
    return spark_types.guarded(spark_types.number(sql, kind, measure.expression, typed=True), "double")


def _list_keys(spark: SparkSession, query: GroupByQuery, view: str, canonical: Sequence[str], views: _Views) -> str:
    """The public list under the types of the keys, each key once. Its values are public and may be named."""
    assert query.public_keys is not None
    types = _types(spark, view, canonical)
    names = [f"key_{position}" for position in range(1, len(types) + 1)]
    given = views.add(
        spark.createDataFrame(query.public_keys.select([key.name for key in query.by]).rename_columns(names)), "given"
    )
    casts = [f"TRY_CAST({name} AS {kind})" for name, kind in zip(names, types, strict=True)]
    for name, cast, kind, key in zip(names, casts, types, query.by, strict=True):
        lost = f"{name} IS NOT NULL AND {spark_types.canonical(cast, kind, key.name)} IS NULL"
        if misfits := _collected(spark, f"SELECT {name} FROM {given} WHERE {lost} LIMIT 1"):
            raise InvalidParameter(f"public keys of the type {kind} for {key.name!r}", repr(misfits[0][0]))
    listed = ", ".join(
        f"{spark_types.canonical(cast, kind, key.name)} AS {name}"
        for name, cast, kind, key in zip(names, casts, types, query.by, strict=True)
    )
    once = ", ".join(names)
    spelled = f"SELECT DISTINCT struct({once}) AS given, {listed} FROM {given}"
    merged = f"SELECT min(given), max(given) FROM ({spelled}) AS keys GROUP BY {once} HAVING COUNT(*) > 1 LIMIT 1"
    if alike := _collected(spark, merged):
        pair = " and ".join(repr(value[0] if len(names) == 1 else tuple(value)) for value in alike[0])
        raise InvalidParameter(
            "public keys that stay different under the types of the keys", pair, "list each group once."
        )
    keep = " AND ".join(f"{name} IS NOT NULL" for name in names) if query.null_keys == "drop" else "TRUE"
    distinct = f"SELECT DISTINCT {once} FROM ({spelled}) AS keys WHERE {keep}"
    return views.add(without_leaks(lambda: spark.sql(distinct)), "listed")


def _collected(spark: SparkSession, sql: str) -> list[Any]:
    return without_leaks(lambda: spark.sql(sql).collect())


def column_names(spark: SparkSession, source: object) -> list[str]:
    """The columns of a source, by its schema or header."""
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


def _frame(spark: SparkSession, source: object, plain: Sequence[str], checked: Expressions) -> tuple[DataFrame, bool]:
    """A DataFrame, and whether its types were declared by itself. plain: columns that the query names itself."""
    if isinstance(source, pa.Table):
        needed = [*plain, *(name for expression in checked.values() for name in expression.columns)]
        return without_leaks(lambda: frame_of(spark, source, needed)), True
    return _opened(
        spark,
        source,
        lambda frame: (frame, True),
        lambda files, found: _read_files(spark, files, found, plain, checked),
    )


def _opened(
    spark: SparkSession,
    source: object,
    of_frame: Callable[[DataFrame], _T],
    of_files: Callable[[Files, Sequence[str]], _T],
) -> _T:
    """What a function makes of a frame, or of files, which Spark alone may be able to reach."""
    if owns(source):
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
    checked: Expressions,
) -> tuple[DataFrame, bool]:
    kind, paths = format_of_files(files, found), [str(path) for path in files.paths]
    needed = [*plain, *(name for expression in checked.values() for name in expression.columns)]
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
    check_columns(plain, checked, [*header, *folder], form if form.header else None)
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
