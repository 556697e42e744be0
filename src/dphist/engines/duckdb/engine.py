"""Bounding and counting in an embedded DuckDB, in a session of its own for each run."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Final, TypeVar

import duckdb
import numpy as np
import pyarrow as pa

from dphist.aggregates.measures import Measure
from dphist.aggregates.tree import Bins
from dphist.engines.base import (
    BOUNDING,
    READING,
    SIZING,
    SKETCHING,
    Engine,
    Integers,
    LocalGroups,
    Progress,
    check_sketch,
    commented,
    fresh,
    histogram_of,
    integers,
    local_groups,
    named,
    silent,
)
from dphist.engines.buckets import Of, buckets_sql, spread
from dphist.engines.distinct import explained_sql
from dphist.engines.duckdb.resolve import resolve
from dphist.engines.duckdb.session import fetch, leave_room, memory_limit, session, set_memory_limit, without_leaks
from dphist.engines.duckdb.sketch import MisraGries
from dphist.engines.duckdb.sources import Attached, attach, quote_identifier
from dphist.engines.histogram import ContributionBounds, Histogram
from dphist.engines.query import GroupByQuery, PerformanceSettings
from dphist.engines.reading import InputBytes, Reading
from dphist.engines.relations import Derived
from dphist.engines.sql import (
    Fields,
    blocks_sql,
    coverage_sql,
    histogram_sql,
    pairs_sql,
    records_sql,
    steps_names,
    trees_of,
)
from dphist.files.interruption import interruptible

if TYPE_CHECKING:
    from dphist.engines.duckdb.pairs import DuckDBPairs

SKETCH_BLOCKS: Final = 64
_UNREADABLE: Final = (duckdb.InvalidInputException, duckdb.ConversionException, duckdb.OutOfRangeException)
_T = TypeVar("_T")


class DuckDBDialect:
    """How DuckDB says it."""

    holds_windows = True

    def quote(self, name: str) -> str:
        """Double quotes, doubled inside."""
        return quote_identifier(name)

    def priority(self, seed: int, columns: Sequence[str]) -> str:
        """DuckDB combines hashes of columns by multiply and xor; a second round mixes what that leaves correlated."""
        return f"hash(hash(CAST({seed} AS UBIGINT), {', '.join(columns)}))"

    def exact_sum(self, whole: str) -> str:
        """DuckDB adds 64-bit integers in 128 bits."""
        return f"SUM({whole})"

    def same(self, left: str, right: str) -> str:
        """Standard SQL."""
        return f"{left} IS NOT DISTINCT FROM {right}"

    def combined(self, values: Sequence[str]) -> str:
        """A struct, which DuckDB hashes, compares and orders field by field."""
        fields = (f"part_{i} := {value}" for i, value in enumerate(values, 1))
        return f"struct_pack({', '.join(fields)})"

    def nearest(self, number: str) -> str:
        """A cast rounds halves to even."""
        return f"CAST({number} AS BIGINT)"

    def truncated(self, number: str) -> str:
        """A function of its own."""
        return f"trunc({number})"

    def among_first(self, priority: str, most: int, number: str) -> str:
        """Of 2^64."""
        return f"CAST({priority} AS DOUBLE) * {number} < {most * 2.0**64!r}"

    def gathered(self, value: str, known: str | None = None) -> str:
        """A list would hold nulls, too."""
        return f"list({value})" if known is None else f"list({value}) FILTER (WHERE {known} IS NOT NULL)"

    def spread(self, values: str) -> str:
        """A row for each, none for a null."""
        return f"unnest({values})"


@dataclass(frozen=True, slots=True)
class DuckDBEngine(Engine):
    """Rows -> bounded histogram on this machine."""

    settings: PerformanceSettings = field(default_factory=PerformanceSettings)

    @contextmanager
    def open(
        self, source: object, query: GroupByQuery, *, seed: int | None = None, progress: Progress | None = None
    ) -> Iterator[DuckDBRecords]:
        """Check everything that can be checked without reading a record."""
        tell, seed = progress or silent, fresh(seed)
        with session(self.settings) as connection:
            tell(READING)
            fields, attached = resolve(connection, source, query, seed)
            yield DuckDBRecords(connection, fields, attached, query, seed, tell)

    def columns(self, source: object) -> list[str]:
        """All that are there: the source is attached without any of them."""
        with session(self.settings) as connection:
            return list(
                source.relation.names if isinstance(source, Derived) else attach(connection, source, []).columns
            )


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class DuckDBRecords:
    """The records of a query in an open session."""

    connection: duckdb.DuckDBPyConnection
    fields: Fields
    attached: Attached
    query: GroupByQuery
    seed: int
    tell: Progress

    def require_noise(self) -> None:
        """It is drawn in this process."""

    def tell_reading(self, phase: str) -> None:
        """A phase that reads the files of the source, unless they are read already or there are none."""
        files = self.attached.inputs if self.fields.kept is None else []
        self.tell(Reading(phase, InputBytes(files).share) if files else phase)

    def keep(self) -> DuckDBRecords:
        """As a table of the session, which may spill: readers, lazy frames and some files can be read only once."""
        self.tell_reading(SIZING)
        records = records_sql(self.fields, DuckDBDialect())
        self.read(
            lambda: self.connection.execute(f"CREATE TEMP TABLE kept_records AS WITH {records} SELECT * FROM records")
        )
        return replace(self, fields=replace(self.fields, kept="kept_records", read=self.fields.reads))

    def sizes(self, position: int, of: Of) -> Integers:
        """One bucket for each unit."""
        sql = buckets_sql(self.fields, position, of, self.seed, DuckDBDialect())
        table = self.read(lambda: self.connection.sql(sql).to_arrow_table())
        return spread(integers(table, "bucket"), integers(table, "units"))

    def with_measures(self, measures: Sequence[Measure]) -> DuckDBRecords:
        """In the same session."""
        query = replace(self.query, measures=tuple(measures))
        return replace(self, fields=self.fields.with_measures(measures), query=query)

    def groups(self, bounds: ContributionBounds) -> LocalGroups:
        """Bounded counts and sums as arrays; keys stay in the engine until they are released."""
        if self.fields.distinct and self.fields.kept is None:
            return self.keep().groups(bounds)
        measures, total = self.query.measures, None
        limit = memory_limit(self.connection)
        self._count(bounds)
        leave_room(self.connection, limit, limit / 4)  # until keys are asked for
        trees = trees_of(measures)
        columns = ["code", "units", *steps_names(measures)]
        columns += [f"{name}_{position}" for position in trees for name in ("bins", "weights")]
        arrays, bins = self._arrays(f"SELECT {', '.join(columns)} FROM counted", trees)
        if self.fields.want_total:
            # Without any unit there is nothing to add up: 0, as for whoever is the only one.
            summed = "SELECT CAST(COALESCE(SUM(first_units), 0) AS BIGINT) AS total FROM counted"
            total = int(self._arrays(summed)[0]["total"][0])
        taken = sum(array.nbytes for array in arrays.values()) + sum(24 * len(one.bins) for one in bins.values())

        def keys_of(index: Integers) -> pa.Table:
            set_memory_limit(self.connection, max(limit - taken, limit / 2))
            return keys_of_codes(self, "counted", "code", index)

        return LocalGroups(
            codes=arrays.pop("code"),
            columns={**arrays, **bins},
            keys_of=keys_of,
            total=total,
            bounds=replace(bounds, sparsity=None),
            listed=self.query.public_keys is not None,
            coverage_of=self._coverage if self.query.want_coverage else None,
        )

    def _coverage(self, released: pa.Table) -> tuple[int, int]:
        """From the kept pairs: many sources can be read only once."""
        keys = self.fields.key_names
        self.connection.register("released_keys", released.select(range(len(keys))).rename_columns(list(keys)))
        counted = fetch(self.connection, coverage_sql("pairs", "released_keys", keys, DuckDBDialect()))
        self.connection.unregister("released_keys")
        return int(counted["covered"][0].as_py()), int(counted["other"][0].as_py())

    def _count(self, bounds: ContributionBounds) -> None:
        """A table of the groups, numbered in no order, in the engine: it may be larger than memory."""
        self.tell_reading(BOUNDING)
        taken = self._distinct(bounds)
        paired = self.query.want_coverage
        if paired:
            self.read(lambda: self.connection.execute(materialise_sql(self.fields)))
        sql = histogram_sql(self.fields, bounds, self.seed, DuckDBDialect(), paired=paired, taken=taken)
        code = "CAST(ROW_NUMBER() OVER () - 1 AS BIGINT) AS code"
        self.read(
            lambda: self.connection.execute(f"CREATE OR REPLACE TEMP TABLE counted AS SELECT *, {code} FROM ({sql})")
        )

    def _distinct(self, bounds: ContributionBounds) -> dict[int, str]:
        """The tables of taken values, where distinct ones are asked for."""
        if not self.fields.distinct:
            return {}
        from dphist.engines.duckdb.distinct import count_distinct

        return count_distinct(self, bounds)

    def _arrays(self, sql: str, trees: Sequence[int] = ()) -> tuple[dict[str, Integers], dict[str, Bins]]:
        """Whole numbers, filled in batch by batch: of a table in one piece there would be two copies. A null is refused."""
        rows = int(fetch(self.connection, f"SELECT COUNT(*) AS rows FROM ({sql})").column("rows")[0].as_py())

        def fill() -> tuple[dict[str, Integers], dict[str, Bins]]:
            reader = self.connection.sql(sql).to_arrow_reader()
            numbers = [name for name in reader.schema.names if not name.startswith(("bins_", "weights_"))]
            arrays = {name: np.empty(rows, np.int64) for name in numbers}
            parts: dict[int, list[Bins]] = {position: [] for position in trees}
            first = 0
            for batch in reader:
                for name, array in arrays.items():
                    array[first : first + batch.num_rows] = batch.column(name).to_numpy()
                for position, found in parts.items():
                    found.append(Bins.from_lists(batch.column(f"bins_{position}"), batch.column(f"weights_{position}")))
                first += batch.num_rows
            return arrays, {f"bins_{position}": Bins.joined(found) for position, found in parts.items()}

        return without_leaks(fill)

    def sketch(self, sparsity: int) -> LocalGroups:
        """A sketch as arrays."""
        return local_groups(self.sketched(sparsity))

    def histogram(self, bounds: ContributionBounds, largest: int | None = None) -> Histogram:
        """Units per group, each unit in at most `bounds.max_groups` of its groups, drawn uniformly."""
        if self.fields.distinct and self.fields.kept is None:
            return self.keep().histogram(bounds, largest)
        self.tell_reading(BOUNDING)
        taken = self._distinct(bounds)
        sql = histogram_sql(self.fields, bounds, self.seed, DuckDBDialect(), largest=largest, taken=taken)
        table = self.read(lambda: self.connection.sql(sql).to_arrow_table())
        return histogram_of(table, self.query, replace(bounds, sparsity=None))

    def sketched(self, sparsity: int) -> Histogram:
        """A Misra-Gries sketch with at most `sparsity` groups; it carries no sums."""
        check_sketch(self.query, sparsity)
        self.tell_reading(SKETCHING)
        sql = blocks_sql(self.fields, SKETCH_BLOCKS, self.seed, DuckDBDialect())
        return self.read(lambda: _fold(self.connection.sql(sql).to_arrow_reader(), self.query, sparsity))

    @contextmanager
    def pairs(self) -> Iterator[DuckDBPairs]:
        """The pairs as temporary tables of the session."""
        from dphist.engines.duckdb.pairs import pairs_of

        yield pairs_of(self)

    def explain(self, bounds: ContributionBounds) -> str:
        """The SQL that `groups` executes."""
        return commented(self.query, self.fields.explained(explained_sql(self.fields, bounds, DuckDBDialect())))

    def explain_pairs(self) -> str:
        """The SQL that `pairs` executes."""
        return commented(self.query, self.fields.explained(";\n".join([materialise_sql(self.fields), UNITS_SQL])))

    def read(self, work: Callable[[], _T]) -> _T:
        """Do what reads the records. Where DuckDB's reader does not take a value, once more with null for such values."""
        with interruptible(self.connection.interrupt):  # a reader in Python would turn it into an error of the source
            if self.attached.reread is None:
                return without_leaks(work)
            with suppress(*_UNREADABLE):
                return without_leaks(work, let_through=_UNREADABLE)
        with interruptible(self.connection.interrupt):
            without_leaks(self.attached.reread)
            return without_leaks(work)


def keys_of_codes(records: DuckDBRecords, table: str, code: str, index: Integers) -> pa.Table:
    """The keys of some groups of a table, in the order of their codes in `index`."""
    records.connection.register("wanted", pa.table({code: index, "place": np.arange(len(index))}))
    keys = ", ".join(records.fields.key_names)
    wanted = f"SELECT {keys} FROM {table} JOIN wanted USING ({code}) ORDER BY place"
    return named(fetch(records.connection, wanted), records.query)


UNITS_SQL: Final = (
    "CREATE TEMP TABLE units AS SELECT unit, CAST(ROW_NUMBER() OVER () - 1 AS INTEGER) AS unit_code,"
    " COUNT(*) AS degree FROM pairs GROUP BY unit"
)


def materialise_sql(fields: Fields) -> str:
    """One row per distinct pair, with what the unit adds to the group in whole steps."""
    stages = [records_sql(fields, DuckDBDialect()), pairs_sql(fields, DuckDBDialect())]
    return "CREATE TEMP TABLE pairs AS WITH " + ",\n".join(stages) + "\nSELECT * FROM pairs"


def _fold(reader: pa.RecordBatchReader, query: GroupByQuery, sparsity: int) -> Histogram:
    """Feed the blocks, which arrive one after the other, into one sketch."""
    names = [f"key_{position}" for position in range(1, len(query.by) + 1)]
    sketch = MisraGries(sparsity, pa.schema([reader.schema.field(name) for name in names]))
    waiting: list[pa.RecordBatch] = []

    def flush() -> None:
        if waiting:
            block = pa.Table.from_batches(waiting)
            sketch.add(block.select(names), integers(block, "units"))
            waiting.clear()

    current: int | None = None
    for batch in reader:
        blocks = batch.column("block").to_numpy()
        starts = [0, *(np.flatnonzero(blocks[1:] != blocks[:-1]) + 1).tolist(), len(blocks)]
        for first, last in pairwise(starts):
            if first == last:
                continue
            if current is not None and int(blocks[first]) != current:
                flush()
            current = int(blocks[first])
            waiting.append(batch.slice(first, last - first))
    flush()
    histogram = sketch.histogram()
    return replace(histogram, keys=histogram.keys.rename_columns([key.name for key in query.by]))
