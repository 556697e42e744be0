"""Bounding and counting in Spark: the plan of `sql`, in Spark's words. Works through classic sessions and Spark Connect.

Nothing here collects a group to the driver: every step is a DataFrame, and what noise is drawn on is first written down
(`spark_staging`), so that a task that is run again finds the same integers.
"""

# ruff: noqa: S608 - SQL is what this file is for: names are quoted, expressions are checked and written out again
from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dphist.engines.base import commented, histogram_of
from dphist.engines.duckdb.session import BOUNDING, READING, Progress, fresh, silent
from dphist.engines.query import GroupByQuery
from dphist.engines.spark.expressions import quote_identifier
from dphist.engines.spark.resolve import resolve
from dphist.engines.spark.session import pinned, without_leaks
from dphist.engines.spark.staging import Staging, new_staging
from dphist.engines.sql import Fields, histogram_sql, pairs_sql, ranked_sql, records_sql
from dphist.errors import InvalidParameter, MissingExtra
from dphist.histogram import ContributionBounds, Histogram

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class SparkDialect:
    """How Spark says it."""

    def quote(self, name: str) -> str:
        """Backticks, doubled inside."""
        return quote_identifier(name)

    def priority(self, seed: int, columns: Sequence[str]) -> str:
        """XXH64, column after column, each hash the seed of the next. It skips nulls, so where they are is hashed too."""
        signed = seed - 2**64 if seed >= 2**63 else seed
        nulls = [f"{column} IS NULL" for column in columns if column != "unit"]
        return f"xxhash64(CAST('{signed}' AS BIGINT), {', '.join([*columns, *nulls])})"

    def exact_sum(self, whole: str) -> str:
        """20 digits each, 30 for the sum: 10^10 of the largest."""
        return f"SUM(CAST({whole} AS DECIMAL(20, 0)))"

    def same(self, left: str, right: str) -> str:
        """Spark's own operator, which joins by hash."""
        return f"{left} <=> {right}"

    def nearest(self, number: str) -> str:
        """A cast alone would cut the fraction off."""
        return f"CAST(rint({number}) AS BIGINT)"

    def truncated(self, number: str) -> str:
        """A cast cuts the fraction off."""
        return f"CAST(CAST({number} AS BIGINT) AS DOUBLE)"


@dataclass(frozen=True, slots=True, eq=False)
class SparkEngine:
    """A Spark session, and where it may write what no one else may read.

    staging: a directory that driver and executors share and others cannot read, such as hdfs:///user/me/private. Without
    one a private temporary directory of this machine is used, which only a master on this machine can do.
    """

    spark: SparkSession
    staging: str | None = None

    @contextmanager
    def open(self, source: object, query: GroupByQuery, *, seed: int | None = None) -> Iterator[SparkRecords]:
        """Check everything that can be checked without reading a record, and prepare the session for one run."""
        with pinned(self.spark), self.views() as views:
            fields = resolve(self.spark, source, query, views)
            yield SparkRecords(self.spark, fields, query, fresh(seed), views)

    @contextmanager
    def views(self) -> Iterator[Views]:
        """Temporary views with names of their own, dropped when the block ends."""
        views = Views(self.spark)
        try:
            yield views
        finally:
            views.drop()

    def new_staging(self) -> Staging:
        """A new private directory for one run."""
        return new_staging(self.spark, self.staging)

    def largest(
        self,
        source: object,
        query: GroupByQuery,
        bounds: ContributionBounds,
        most: int,
        *,
        progress: Progress | None = None,
        seed: int | None = None,
    ) -> Histogram:
        """The `most` largest groups, equal counts in the order of their keys: each task's own, merged. True values."""
        tell = progress or silent
        tell(READING)
        with self.open(source, query, seed=seed) as records:
            tell(BOUNDING)
            sql = records.histogram_sql(bounds, largest=most)
            table = without_leaks(records.sql(sql).toArrow)
        return histogram_of(table, query, bounds)

    def explain(self, query: GroupByQuery, bounds: ContributionBounds, source: object) -> str:
        """The SQL that a run executes, on a source whose schema is read."""
        with self.open(source, query, seed=0) as records:
            return commented(query, records.histogram_sql(bounds))

    def explain_pairs(self, query: GroupByQuery, source: object) -> str:
        """The SQL that makes the pairs of units and groups."""
        with self.open(source, query, seed=0) as records:
            return commented(query, records.pairs_sql())


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

    def drop(self) -> None:
        """Forget all of them."""
        for name in self._names[1:]:
            self._spark.catalog.dropTempView(name)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class SparkRecords:
    """The records of a query, ready to be counted."""

    spark: SparkSession
    fields: Fields
    query: GroupByQuery
    seed: int
    views: Views

    def histogram_sql(self, bounds: ContributionBounds, pairs: str | None = None, largest: int | None = None) -> str:
        """The whole plan in SQL, or what is left of it when the pairs are written down."""
        return histogram_sql(self.fields, bounds, self.seed, SparkDialect(), largest=largest, written=pairs)

    def histogram(self, bounds: ContributionBounds, pairs: str | None = None) -> DataFrame:
        """Keys, `units`, `steps_i` and `first_units` of each group: true values, not yet computed."""
        return self.sql(self.histogram_sql(bounds, pairs))

    def pairs_sql(self) -> str:
        """One row per unit and group: the steps of each measure, and the group's place in the random order of the unit's."""
        dialect = SparkDialect()
        stages = [
            records_sql(self.fields, dialect),
            pairs_sql(self.fields, dialect),
            ranked_sql(self.fields, self.seed, dialect),
        ]
        steps = [f"steps_{position}" for position in range(1, len(self.fields.measures) + 1)]
        columns = ", ".join(["unit", *self.fields.key_names, *steps, "place"])
        return "WITH " + ",\n".join(stages) + f"\nSELECT {columns} FROM ranked"

    def pairs(self) -> DataFrame:
        """The same, not yet computed."""
        return self.sql(self.pairs_sql())

    def sampled(self, pairs: str, most_groups: int) -> DataFrame:
        """Of written pairs, each unit's sample of at most `most_groups`."""
        keys = ", ".join(self.fields.key_names)
        return self.sql(f"SELECT unit, {keys} FROM {pairs} WHERE place <= {most_groups}")

    def sql(self, text: str) -> DataFrame:
        """A query of the rounds or of a sketch; only names of this package are in it."""
        return without_leaks(lambda: self.spark.sql(text))


def open_session(master: str | None, remote: str | None, staging: str | None = None) -> SparkEngine:
    """A session of our own, for the command line."""
    try:
        from pyspark.sql import SparkSession
    except ImportError:
        raise MissingExtra("spark", "the Spark engine") from None
    if master is not None and remote is not None:
        raise InvalidParameter("--master or --remote", "both", "a Spark Connect server has its own master.")
    master = None if remote is not None else master or "local[*]"
    if (master or remote or "").startswith("local"):
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # the one that has dphist
    # What Spark says of pandas concerns nobody here: tables travel as Arrow.
    warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas", FutureWarning)
    builder: Any = SparkSession.builder.appName("dphist").config("spark.ui.showConsoleProgress", "false")
    builder = builder.config("spark.log.level", "ERROR")
    builder = builder.remote(remote) if remote is not None else builder.master(master)
    spark = without_leaks(builder.config("spark.sql.session.timeZone", "UTC").getOrCreate)
    return SparkEngine(spark, staging)
