"""Bounding and counting in Spark: the plan of `sql`, in Spark's words. Works through classic sessions and Spark Connect.

No group comes to the driver, unless a caller asks for a histogram there: every step is a DataFrame. Exact numbers are written
down (`staging`) before noise is drawn on them, so that a repeated task finds the same integers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar

from dphist.aggregates.measures import Measure
from dphist.engines.base import (
    BOUNDING,
    READING,
    SIZING,
    Engine,
    Integers,
    Progress,
    Reading,
    check_sketch,
    commented,
    fresh,
    silent,
)
from dphist.engines.buckets import buckets_sql, spread
from dphist.engines.dialect import SPARK
from dphist.engines.distinct import explained_sql
from dphist.engines.expressions import LONGEST_KEY
from dphist.engines.histogram import NO_BOUNDS, ContributionBounds, Histogram, histogram_of, integers
from dphist.engines.names import check_columns, check_unique
from dphist.engines.parser import read_query
from dphist.engines.query import GroupByQuery, parse_unit
from dphist.engines.relations import Derived
from dphist.engines.spark import WRITES_FOLDERS
from dphist.engines.spark import types as spark_types
from dphist.engines.spark.derived import SparkWriter, derived_frame
from dphist.engines.spark.expressions import spark_expression
from dphist.engines.spark.session import check_executors, pinned, tasks_done, without_leaks
from dphist.engines.spark.source import Views, check_times, column_names, narrowed, read_frame, types_of
from dphist.engines.spark.staging import Staging, new_staging, remove_all
from dphist.engines.sql import (
    Fields,
    added_names,
    coverage_sql,
    fields_of,
    histogram_sql,
    list_names,
    pairs_sql,
    ranked_sql,
    records_sql,
)
from dphist.errors import EngineFailure, InvalidParameter
from dphist.words import printable

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from dphist.engines.spark.groups import SparkGroups
    from dphist.engines.spark.pairs import SparkPairs


@dataclass(frozen=True, slots=True, eq=False)
class SparkEngine(Engine):
    """A Spark session, and a place for tables that nobody else may read.

    Args:
        spark: the session.
        staging: a directory that driver and executors share and others cannot read, such as hdfs:///user/me/private. Without
            one a private temporary directory of this machine is used, which only a master on this machine can do.

    Example:
        >>> from pyspark.sql import SparkSession  # doctest: +SKIP
        >>> engine = dp.SparkEngine(SparkSession.builder.getOrCreate(), "hdfs:///user/me/private")  # doctest: +SKIP
        >>> dp.release(frame, unit="user_id", by="url", epsilon=1, delta=1e-8, engine=engine)  # doctest: +SKIP
    """

    writes_folders: ClassVar[bool] = WRITES_FOLDERS

    spark: SparkSession
    staging: str | None = None

    @contextmanager
    def open(
        self, source: object, query: GroupByQuery, *, seed: int | None = None, progress: Progress | None = None
    ) -> Iterator[SparkRecords]:
        """Check everything that can be checked without reading a record, and prepare the session for one run.

        Exact tables are deleted when the block ends. If it fails, the released table is deleted, too.
        """
        tell, views, seed = progress or silent, Views(self.spark), fresh(seed)
        tell(READING)
        try:
            with pinned(self.spark):
                fields = resolve(self.spark, source, query, views, seed)
                records = SparkRecords(self, fields, query, seed, views, tell)
                try:
                    yield records
                    for staging in records.stagings[:1]:
                        staging.remove()
                except BaseException:
                    remove_all(*records.stagings)
                    raise
        finally:
            views.drop()

    def columns(self, source: object) -> list[str]:
        """All columns. Columns of folder names come last."""
        with pinned(self.spark):
            return column_names(self.spark, source)

    def new_staging(self) -> Staging:
        """A new private directory for one run."""
        return new_staging(self.spark, self.staging)

    def check_output(self, path: str) -> None:
        """Refuse a folder that exists where only Spark can see it."""
        check_elsewhere(self.spark, path)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class SparkRecords:
    """The records of a query, ready to be counted, and the directories of the run: one that is deleted with it, and one that
    stays.
    """

    engine: SparkEngine
    fields: Fields
    query: GroupByQuery
    seed: int
    views: Views
    tell: Progress
    stagings: list[Staging] = field(default_factory=list)

    @property
    def spark(self) -> SparkSession:
        """The session."""
        return self.engine.spark

    def tell_reading(self, phase: str) -> None:
        """A phase that begins with the source, unless it is written down already."""
        self.tell(phase if self.fields.kept is not None else Reading(phase, tasks_done(self.spark)))

    def staging(self, *, stays: bool = False) -> Staging:
        """The directory of exact tables, or that of the released one, which stays; made when it is first asked for."""
        while len(self.stagings) <= stays:
            self.stagings.append(self.engine.new_staging())
        return self.stagings[stays]

    def check_listed(self) -> None:
        """The list of keys is public, and so is its length once equal keys are one."""
        if self.fields.listed is None or self.query.public_keys is None:
            return
        number = self.scalar(f"SELECT COUNT(*) FROM {self.fields.listed}")
        if number != self.query.public_keys.num_rows:
            raise InvalidParameter(f"{self.query.public_keys.num_rows} different public keys", number)

    def require_noise(self) -> None:
        """Check that executors can draw noise, that the public list has no key twice, and that there is a place for exact
        tables.
        """
        check_executors(self.spark)
        self.check_listed()
        self.staging()

    def written_records(self) -> SparkRecords:
        """The records as a table, since a source may differ when it is computed again."""
        sql = f"WITH {records_sql(self.fields, SPARK)} SELECT * FROM records"
        kept = self.views.add(self.staging().write(self.sql(sql), "records", distinct=None), "records")
        return replace(self, fields=replace(self.fields, kept=kept, read=self.fields.reads))

    def groups(self, bounds: ContributionBounds) -> SparkGroups:
        """Bounded counts and sums, written down."""
        if self.fields.distinct and self.fields.kept is None:
            return self.written_records().groups(bounds)
        self.tell_reading(BOUNDING)
        if not self.query.want_coverage:
            return self.written(self.sql(self.histogram_sql(bounds)), "groups", ContributionBounds(bounds.max_groups))
        pairs = self.written_pairs()
        groups = self.written(
            self.sql(self.histogram_sql(bounds, pairs)), "groups", ContributionBounds(bounds.max_groups)
        )
        return replace(groups, pairs=pairs)

    def written_pairs(self) -> str:
        """The pairs, written down once, under a name for SQL."""
        distinct = ("unit", *self.fields.key_names)
        return self.views.add(self.staging().write(self.sql(self.pairs_sql()), "pairs", distinct=distinct), "pairs")

    def written_view(self, kind: str, sql: str, distinct: Sequence[str]) -> str:
        """A table, written down, under a name for SQL that no other has."""
        name = f"{kind}_{self.views.number()}"
        return self.views.add(self.staging().write(self.sql(sql), name, distinct=distinct), name)

    def coverage(self, pairs: str, released: DataFrame) -> tuple[int, int]:
        """The coverage of pairs, by the name of their table, by a table of released keys."""
        shown = self.views.add(released, f"released_{self.views.number()}")
        sql = coverage_sql(pairs, shown, self.fields.key_names, SPARK)
        (counted,) = without_leaks(lambda: self.sql(sql).collect())
        return int(counted[0]), int(counted[1])

    def sketch(self, sparsity: int) -> SparkGroups:
        """A sketch, written down."""
        self.tell_reading(BOUNDING)
        return self.written(self._sketch(sparsity), "groups", ContributionBounds(sparsity=sparsity))

    def keep(self) -> SparkRecords:
        """A DataFrame can be read again."""
        return self

    def sizes(self, position: int) -> Integers:
        """One bucket for each unit; the buckets come to the driver."""
        self.tell_reading(SIZING)
        sql = buckets_sql(self.fields, position, self.seed, SPARK)
        table = without_leaks(self.sql(sql).toArrow)
        return spread(integers(table, "bucket"), integers(table, "units"))

    def with_measures(self, measures: Sequence[Measure]) -> SparkRecords:
        """The view stays."""
        query = replace(self.query, measures=tuple(measures))
        return replace(self, fields=self.fields.with_measures(measures), query=query)

    def histogram(self, bounds: ContributionBounds, largest: int | None = None) -> Histogram:
        """Collected to the driver: each task's own largest groups, merged. True values."""
        if self.fields.distinct and self.fields.kept is None:
            return self.written_records().histogram(bounds, largest)
        self.tell_reading(BOUNDING)
        table = without_leaks(self.sql(self.histogram_sql(bounds, largest=largest)).toArrow)
        return histogram_of(table, self.query, bounds)

    def sketched(self, sparsity: int) -> Histogram:
        """Collected to the driver."""
        table = without_leaks(self._sketch(sparsity).toArrow)
        return histogram_of(table, self.query, ContributionBounds(sparsity=sparsity))

    def _sketch(self, sparsity: int) -> DataFrame:
        from dphist.engines.spark.sketch import sketch_sql

        check_sketch(self.query, sparsity)
        return self.sql(sketch_sql(self, sparsity))

    @contextmanager
    def pairs(self) -> Iterator[SparkPairs]:
        """The pairs, written down."""
        from dphist.engines.spark.pairs import pairs_of

        self.tell_reading(BOUNDING)
        yield pairs_of(self)

    def explain(self, bounds: ContributionBounds) -> str:
        """The SQL that `groups` executes."""
        return commented(self.query, self.fields.explained(explained_sql(self.fields, bounds, SPARK)))

    def explain_pairs(self) -> str:
        """The SQL that `pairs` executes."""
        return commented(self.query, self.fields.explained(self.pairs_sql()))

    def histogram_sql(self, bounds: ContributionBounds, pairs: str | None = None, largest: int | None = None) -> str:
        """The whole plan in SQL, or the rest of it if the pairs are written down."""
        taken: dict[int, str] = {}
        if self.fields.distinct:
            from dphist.engines.spark.pairs import count_distinct

            taken = count_distinct(self, bounds)
        return histogram_sql(self.fields, bounds, self.seed, SPARK, largest=largest, written=pairs, taken=taken)

    def pairs_sql(self) -> str:
        """One row per unit and group: the steps of each aggregate, and the group's place in the unit's random order."""
        dialect = SPARK
        stages = [
            records_sql(self.fields, dialect),
            pairs_sql(self.fields, dialect),
            ranked_sql(self.fields, self.seed, dialect),
        ]
        measures = self.fields.measures
        columns = ", ".join(["unit", *self.fields.key_names, *added_names(measures), *list_names(measures), "place"])
        return "WITH " + ",\n".join(stages) + f"\nSELECT {columns} FROM ranked"

    def written(self, frame: DataFrame, name: str, bounds: ContributionBounds = NO_BOUNDS) -> SparkGroups:
        """A table of groups, computed once, with how much one unit contributes to it."""
        from dphist.engines.spark.groups import SparkGroups

        committed = self.staging().write(frame, name, distinct=self.fields.key_names)
        return SparkGroups(self, committed, bounds)

    def sql(self, text: str) -> DataFrame:
        """A query of the rounds or of a sketch; only names of this package are in it."""
        return without_leaks(lambda: self.spark.sql(text))

    def scalar(self, sql: str) -> int:
        """One number."""
        return int(without_leaks(lambda: self.sql(sql).collect())[0][0] or 0)


def check_elsewhere(spark: SparkSession, path: str) -> None:
    """Refuse a folder that exists on a file system that only Spark reaches, where nothing is overwritten.

    Spark refuses to read a path that does not exist: that is the test.
    """
    if is_here(path):
        return
    try:
        without_leaks(lambda: spark.read.text(path).schema)
    except EngineFailure:
        return
    hint = "remove it or choose another name: only folders of this machine are overwritten."
    raise InvalidParameter("a new folder for the output of Spark", f"{path}, which exists", hint)


def is_here(path: str) -> bool:
    """Whether a path is one of this machine."""
    return "://" not in path or path.startswith("file:")


def resolve(spark: SparkSession, source: object, query: GroupByQuery, views: Views, seed: int) -> Fields:
    """Check everything that can be checked without reading a record. seed: of the draws from a unit's rows."""
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
    if where is not None and (kind := types_of(spark, view, [where])[0]) != "boolean":
        raise InvalidParameter(f"a condition that is true or false in {query.where!r}", kind)
    numbers = [
        None if sql is None else _value(spark, view, sql, measure, typed)
        for sql, measure in zip(values, query.measures, strict=True)
    ]
    own, typed_keys = zip(units, types, strict=False), list(zip(keys, types[len(units) :], strict=True))
    fields = fields_of(query, spark_types, own, typed_keys, numbers, where, view, definitions, longest)
    if query.public_keys is not None:
        fields = replace(fields, listed=_list_keys(spark, query, view, fields.keys, views))
    return fields


def _value(spark: SparkSession, view: str, sql: str, measure: Measure, typed: bool) -> str:
    """A measure's value by its type. An expression must give a number; a column of a source without types may spell one."""
    kind = types_of(spark, view, [sql])[0]
    if measure.any_type:
        return spark_types.canonical(sql, kind, repr(measure.column))
    if measure.expression is None:
        return spark_types.number(sql, kind, str(measure.column), typed=typed)
    return spark_types.guarded(spark_types.number(sql, kind, measure.expression, typed=True), "double")


def _list_keys(spark: SparkSession, query: GroupByQuery, view: str, canonical: Sequence[str], views: Views) -> str:
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
