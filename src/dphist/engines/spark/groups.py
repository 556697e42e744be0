"""Groups as tables of Spark. Functions go to the executors, which draw noise from the entropy of their own machine.

A function gets everything as parameters of a closure, which travels inside the task and is never printed: Spark shows the
names of functions in plans and logs, not the values in them. Between two steps there are groups that nobody may learn of, so
their tables are deleted with the exact ones.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from dphist.engines.base import NOISY_VALUE, PRESENT, Arrays, Layout, Missing, OnGroups, Order
from dphist.engines.histogram import NO_BOUNDS, ContributionBounds, as_arrow, bins_of, integers, row_order
from dphist.engines.spark.engine import SparkRecords, check_elsewhere
from dphist.engines.spark.session import delete_here, without_leaks
from dphist.engines.spark.staging import COMMITTER, Staging
from dphist.files.spreadsheet import MARK, RISKY, escaped
from dphist.noise.entropy import SystemEntropy, allow_test_entropy, current_source, drawing_from

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructField, StructType

OnBatches = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]

ROWS_IN_A_PART: Final = 1 << 17
"""The least rows of a part, if the released table has several: a file costs more than fewer rows."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class SparkGroups:
    """Keys and whole numbers of groups in a table that is written down, or that follows from one."""

    records: SparkRecords
    frame: DataFrame
    bounds: ContributionBounds = NO_BOUNDS
    pairs: str | None = None

    @property
    def listed(self) -> bool:
        """Whether the groups are those of a public list."""
        return self.records.fields.listed is not None

    def view(self) -> str:
        """The table under a name for SQL."""
        return self.records.views.add(self.frame, f"groups_{self.records.views.number()}")

    def each(self, function: OnGroups, names: Sequence[str]) -> SparkGroups:
        """Task by task, batch by batch, written once. A group that comes twice is found in the next table."""
        return self._applied(self.frame, on_each(function, names), names)

    def together(self, function: OnGroups, names: Sequence[str]) -> SparkGroups:
        """One task."""
        return self._applied(self.frame.coalesce(1), on_all(function, names), names)

    def _applied(self, frame: DataFrame, function: OnBatches, names: Sequence[str]) -> SparkGroups:
        from pyspark.sql.types import DoubleType, LongType, StructField

        kinds = [DoubleType() if name.startswith(NOISY_VALUE) else LongType() for name in names]
        schema = self._keys_and([StructField(name, kind) for name, kind in zip(names, kinds, strict=True)])
        name = f"noisy_{self.records.views.number()}"
        written = self.records.staging().write(frame.mapInArrow(function, schema), name, distinct=None)
        return SparkGroups(self.records, written)

    def _keys_and(self, fields: list[StructField]) -> StructType:
        from pyspark.sql.types import StructField, StructType

        schema = self.frame.schema
        keys = [StructField(name, schema[name].dataType) for name in self.records.fields.key_names]
        return StructType([*keys, *fields])

    def less_next_largest(self, most: int) -> SparkGroups:
        """By a query of the written table."""
        view = self.view()
        next_largest = (
            f"(SELECT CASE WHEN COUNT(*) > {most} THEN MIN(units) ELSE 0 END"
            f" FROM (SELECT units FROM {view} ORDER BY units DESC LIMIT {most + 1}) AS largest)"
        )
        less = f"GREATEST(units - {next_largest}, 0) AS units"
        columns = [less if name == "units" else name for name in self.frame.columns]
        return replace(self, frame=self.records.sql(f"SELECT {', '.join(columns)} FROM {view}"))

    def sum_of(self, column: str) -> int:
        """One number."""
        return self.records.scalar(f"SELECT SUM({column}) FROM {self.view()}")

    def total_units(self) -> int:
        """Each unit is marked in one of its groups."""
        return self.sum_of("first_units")

    def coverage(self, released: SparkTable) -> tuple[int, int]:
        """By the pairs that were counted and the table that was written."""
        assert self.pairs is not None, "the query asks for it"
        return self.records.coverage(self.pairs, released.committed)

    def number(self) -> int:
        """One number."""
        return self.records.scalar(f"SELECT COUNT(*) FROM {self.view()}")

    def publish(self, function: OnGroups, layout: Layout, *, together: bool = False) -> SparkTable:
        """The released table, as a copy that is laid out by the released keys alone.

        Groups that are not released decide in which part of the first copy a group is, and where Spark would cut a sorted
        table into files. The number of released rows decides how many parts the second copy has: Spark's own choice would
        follow the sizes of compressed parts.
        """
        from pyspark.sql.types import DoubleType, LongType, StructField

        kinds = [LongType() if name in layout.whole else DoubleType() for name in layout.columns]
        schema = self._keys_and([StructField(f"value_{i}", kind) for i, kind in enumerate(kinds, 1)])
        frame = self.frame.coalesce(1) if together else self.frame
        names = layout.columns
        work = on_all(function, names, layout) if together else on_each(function, names, layout)
        noised = self.records.staging().write(frame.mapInArrow(work, schema), "noised", distinct=None)
        keys = self.records.fields.key_names
        most = int(str(self.records.spark.conf.get("spark.sql.shuffle.partitions")))
        parts = max(1, min(most, without_leaks(noised.count) // ROWS_IN_A_PART))
        laid_out = noised.repartition(parts, *keys).sortWithinPartitions(*keys)
        directory = self.records.staging(stays=True)
        committed = directory.write(laid_out, "released", distinct=keys)
        names = (*(key.name for key in self.records.query.by if layout.keys), *layout.names)
        table = SparkTable(committed, directory, names, layout.order, layout.beside)
        if directory.directory is not None:
            weakref.finalize(table, delete_here, directory.directory)
        return table


def on_each(function: OnGroups, names: Sequence[str], layout: Layout | None = None) -> OnBatches:
    """A function of some groups for `mapInArrow`, batch by batch. A test's source of entropy goes along; no other source
    does.
    """
    source = current_source()
    blocks = () if type(source) is SystemEntropy else (allow_test_entropy, partial(drawing_from, source))

    def on_batches(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with ExitStack() as stack:
            for block in blocks:
                stack.enter_context(block())
            for batch in batches:
                yield from _applied(function, pa.Table.from_batches([batch]), names, layout).to_batches()

    on_batches.__name__ = function.__name__  # Spark shows this name
    return on_batches


def on_all(function: OnGroups, names: Sequence[str], layout: Layout | None = None) -> OnBatches:
    """A function of all groups for `mapInArrow` in one task."""

    def on_all_batches(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for table in _sorted(batches):
            yield from _applied(function, table, names, layout).to_batches()

    return on_all_batches


def _sorted(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.Table]:
    """All batches of the one task as one table, in the order of the keys: sums of doubles would show another order."""
    if parts := list(batches):
        table = pa.Table.from_batches(parts)
        yield table.take(row_order(table, _key_names(table), "key"))


def _applied(function: OnGroups, table: pa.Table, names: Sequence[str], layout: Layout | None) -> pa.Table:
    """Keys and new columns; a published table has numbered columns, which suit every file format, in the order of its keys."""
    rows = function(_arrays(table))
    result = table.select(_key_names(table)).take(pa.array(rows.index))
    for position, name in enumerate(names, 1):
        values = rows.columns[name]
        whole = layout is not None and name in layout.whole
        array = as_arrow(values, whole=whole)
        result = result.append_column(name if layout is None else f"value_{position}", array)
    return result if layout is None else result.take(row_order(result, _key_names(result), "key"))


def _arrays(table: pa.Table) -> Arrays:
    """Lists of bins and their weights are one column; the others are integers, or noisy doubles."""
    arrays: dict[str, Any] = {}
    for name in table.column_names:
        if name.startswith("bins_"):
            arrays[name] = bins_of(table, int(name.removeprefix("bins_")))
        elif name.startswith(NOISY_VALUE):
            arrays[name] = table.column(name).to_numpy()
        elif not name.startswith(("key_", "weights_")):
            arrays[name] = integers(table, name)
    return arrays


def _key_names(table: pa.Table) -> list[str]:
    return [name for name in table.column_names if name.startswith("key_")]


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class SparkTable:
    """A committed private table in a private directory. No part of it is on this machine until a caller asks for it."""

    committed: DataFrame
    directory: Staging
    names: tuple[str, ...]
    order: Order
    beside: tuple[str, ...] = ()

    def to_spark(self) -> DataFrame:
        """The table as a DataFrame, in its order."""
        from pyspark.sql import functions as F  # noqa: N812

        keys = [F.col(name).asc_nulls_last() for name in self.committed.columns if name.startswith("key_")]
        order = [F.col("value_1").desc(), *keys] if self.order == "count" else keys
        published = self.committed.columns[: len(self.committed.columns) - len(self.beside)]
        shown = published[-len(self.names) :]
        return self.committed.orderBy(*order).select(*shown).toDF(*self.names)

    def to_arrow(self) -> pa.Table:
        """The private table, brought to this machine."""
        return without_leaks(lambda: self.to_spark().toArrow())

    def first(self, most: int) -> tuple[pa.Table, int]:
        """The first rows, and how many there are in all."""
        return without_leaks(lambda: (self.to_spark().limit(most).toArrow(), self.committed.count()))

    def missing(self, names: Sequence[str]) -> tuple[int, dict[str, Missing]]:
        """By one query of the table, if any column can miss anything."""
        from pyspark.sql import functions as F  # noqa: N812

        numbered = [name for name in self.committed.columns if name.startswith("value_")]
        called = (*self.names[len(self.names) + len(self.beside) - len(numbered) :], *self.beside)
        column = dict(zip(called, map(F.col, numbered), strict=True))
        if not names:
            return 0, {}
        sums = [F.count(F.lit(1))]
        for name in names:
            null = column[name].isNull()
            parts = (F.lit(1), column["count"], column[PRESENT + name])
            sums += [F.coalesce(F.sum(F.when(null, part)), F.lit(0)) for part in parts]
        rows, *found = without_leaks(lambda: self.committed.agg(*sums).collect()[0])
        each = zip(names, *(found[place::3] for place in range(3)), strict=True)
        return rows, {name: Missing(groups, float(units), float(present)) for name, groups, units, present in each}

    def save(self, path: str, kind: str, metadata: str, folder: str, *, escape: bool = False) -> None:
        """Let Spark write a folder of files, with the metadata in a folder inside it."""
        from pyspark.sql import functions as F  # noqa: N812

        check_elsewhere(self.directory.spark, path)
        frame = self._escaped() if escape else self.to_spark()
        writer = frame.write.options(**COMMITTER).mode("error")
        if kind == "csv":  # blanks around a text are a part of it
            writer = writer.options(header=True, ignoreLeadingWhiteSpace=False, ignoreTrailingWhiteSpace=False)
        if kind == "json":  # Spark leaves nulls out of JSON by default
            writer = writer.options(ignoreNullFields=False)
        # a literal: a list of rows would start a Python process
        line = self.directory.spark.range(1).select(F.lit(metadata).alias("metadata")).coalesce(1)
        without_leaks(lambda: writer.format(kind).save(path))
        without_leaks(lambda: line.write.mode("error").text(f"{path}/{folder}"))

    def _escaped(self) -> DataFrame:
        from pyspark.sql import functions as F  # noqa: N812
        from pyspark.sql.types import StringType

        frame = self.to_spark()
        numbered = frame.toDF(*(f"column_{i}" for i in range(len(frame.columns))))
        columns = [
            F.when(F.col(field.name).rlike(RISKY), F.concat(F.lit(MARK), F.col(field.name))).otherwise(
                F.col(field.name)
            )
            if isinstance(field.dataType, StringType)
            else F.col(field.name)
            for field in numbered.schema.fields
        ]
        return numbered.select(*columns).toDF(*map(escaped, self.names))

    def close(self) -> None:
        """Delete the private directory."""
        self.directory.remove()
