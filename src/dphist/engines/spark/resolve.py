"""From a query to checked Spark SQL over one record of a source. No record is read: every refusal is by name or type."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from dphist.aggregates.measures import Measure
from dphist.engines.duckdb.names import check_columns
from dphist.engines.duckdb.sources import check_unique
from dphist.engines.duckdb.types import LONGEST_KEY
from dphist.engines.joins import together
from dphist.engines.parser import read_query
from dphist.engines.query import GroupByQuery, parse_unit
from dphist.engines.relations import Derived
from dphist.engines.spark import types as spark_types
from dphist.engines.spark.derived import SparkWriter, derived_frame
from dphist.engines.spark.expressions import spark_expression
from dphist.engines.spark.frames import ViewNames, check_times, narrowed, read_frame, types_of
from dphist.engines.spark.session import without_leaks
from dphist.engines.sql import Fields
from dphist.errors import InvalidParameter
from dphist.words import printable

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def resolve(spark: SparkSession, source: object, query: GroupByQuery, views: ViewNames, seed: int) -> Fields:
    """Check everything that can be checked without reading a record. seed: of what is drawn from the rows of a unit."""
    names: dict[str, str] = {}

    def named(column: str) -> str:
        return names.setdefault(column.casefold(), f"column_{len(names)}")

    columns, expressions = read_query(query)
    parts, plain = parse_unit(query.unit), list(columns)
    for part in parts:
        check_times(source, [part.name] if part.expression is None else expressions[part.expression].columns)
    columns += [name for expression in expressions.values() for name in expression.columns]
    definitions: tuple[str, ...] = ()
    longest = LONGEST_KEY
    if isinstance(source, Derived):
        writer = SparkWriter(spark, source.tables, views, seed, source.most_rows)
        (frame, longest), typed = derived_frame(writer, source, query, expressions, columns), True
        definitions = writer.definitions
    else:
        frame, typed = read_frame(spark, source, plain, expressions.values())
    check_unique(frame.columns)
    check_columns(plain, expressions.values(), frame.columns, None)
    for column in columns:
        named(column)
    view = views.add(narrowed(frame, names), "source")
    if definitions:
        shown = {name.casefold(): name for name in frame.columns}
        listed = ", ".join(f"{ours}: {printable(shown[name])}" for name, ours in names.items())
        definitions += (f"-- {view}: the last relation, with {listed}",)

    def written(name: str, text: str | None) -> str:
        if text is None:
            return named(name)
        return spark_expression(expressions[text], named, lambda sql: types_of(spark, view, [sql])[0], longest)

    units = [written(part.name, part.expression) for part in parts]
    keys = [written(key.name, key.expression) for key in query.by]
    where = None if query.where is None else written("", query.where)
    values = [None if m.column is None else written(m.column, m.expression) for m in query.measures]
    types = types_of(spark, view, [*units, *keys])
    canonical = [
        spark_types.canonical(expression, kind, f"the key {key.name!r}")
        for expression, kind, key in zip(keys, types[len(units) :], query.by, strict=True)
    ]
    if longest < LONGEST_KEY:
        lengths = map(spark_types.length, keys, types[len(units) :])
        canonical = together(list(zip(canonical, lengths, strict=True)), longest)
    if where is not None and (kind := types_of(spark, view, [where])[0]) != "boolean":
        raise InvalidParameter(f"a condition that is true or false in {query.where!r}", kind)
    return Fields(
        source=view,
        unit=tuple(
            spark_types.canonical(sql, kind, f"the unit {part.name!r}")
            for sql, kind, part in zip(units, types, parts, strict=False)
        ),
        keys=tuple(canonical),
        values=tuple(
            None if sql is None else _value(spark, view, sql, measure, typed)
            for sql, measure in zip(values, query.measures, strict=True)
        ),
        measures=query.measures,
        where=where,
        drop_null_keys=query.null_keys == "drop",
        listed=None if query.public_keys is None else _list_keys(spark, query, view, canonical, views),
        want_total=query.want_total,
        definitions=definitions,
    )


def _value(spark: SparkSession, view: str, sql: str, measure: Measure, typed: bool) -> str:
    """By its type. What an expression gives must be a number; a column of a source without types may spell one."""
    kind = types_of(spark, view, [sql])[0]
    if measure.any_type:
        return spark_types.canonical(sql, kind, repr(measure.column))
    if measure.expression is None:
        return spark_types.number(sql, kind, str(measure.column), typed=typed)
    return spark_types.guarded(spark_types.number(sql, kind, measure.expression, typed=True), "double")


def _list_keys(spark: SparkSession, query: GroupByQuery, view: str, canonical: Sequence[str], views: ViewNames) -> str:
    """The public list under the types of the keys, each key once. Its values are public and may be named."""
    assert query.public_keys is not None
    types = types_of(spark, view, canonical)
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
