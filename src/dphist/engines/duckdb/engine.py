"""Bounding and counting in an embedded DuckDB.

One query per run, in a session of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Final, TypeVar

import duckdb
import numpy as np
import pyarrow as pa

from dphist import checks
from dphist.engines.base import commented, histogram_of, whole
from dphist.engines.duckdb.resolve import resolve
from dphist.engines.duckdb.session import BOUNDING, READING, SKETCHING, Progress, fresh, session, silent, without_leaks
from dphist.engines.duckdb.sources import Attached, quote_identifier
from dphist.engines.query import GroupByQuery, PerformanceSettings
from dphist.engines.sql import Fields, blocks_sql, histogram_sql, pairs_sql, records_sql
from dphist.errors import InvalidParameter
from dphist.histogram import ContributionBounds, Histogram
from dphist.sketch import MisraGries

SKETCH_BLOCKS: Final = 64
_UNREADABLE: Final = (duckdb.InvalidInputException, duckdb.ConversionException, duckdb.OutOfRangeException)
_T = TypeVar("_T")


class DuckDBDialect:
    """How DuckDB says it."""

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

    def nearest(self, number: str) -> str:
        """A cast rounds halves to even."""
        return f"CAST({number} AS BIGINT)"

    def truncated(self, number: str) -> str:
        """A function of its own."""
        return f"trunc({number})"


@dataclass(frozen=True, slots=True)
class DuckDBEngine:
    """Rows -> bounded histogram on this machine."""

    settings: PerformanceSettings = field(default_factory=PerformanceSettings)

    def histogram(
        self,
        source: object,
        query: GroupByQuery,
        bounds: ContributionBounds,
        *,
        progress: Progress | None = None,
        seed: int | None = None,
        largest: int | None = None,
    ) -> Histogram:
        """Count units per group, each unit in at most `bounds.max_groups` of its groups, drawn uniformly.

        With `largest` only so many groups leave the engine, largest first, equal counts in the order of their keys.
        `seed` fixes the draw for tests; the guarantee holds for every seed, a fresh one is drawn for each run.
        """
        tell = progress or silent
        with session(self.settings) as connection:
            tell(READING)
            fields, attached = resolve(connection, source, query)
            tell(BOUNDING)
            sql = histogram_sql(fields, bounds, fresh(seed), DuckDBDialect(), largest=largest)
            table = reading(attached, lambda: connection.sql(sql).to_arrow_table())
        return histogram_of(table, query, replace(bounds, sparsity=None))

    def sketch(
        self,
        source: object,
        query: GroupByQuery,
        sparsity: int,
        *,
        progress: Progress | None = None,
        seed: int | None = None,
    ) -> Histogram:
        """A Misra-Gries sketch with at most `sparsity` groups; it carries no sums."""
        checks.check_whole("sparsity", sparsity)
        if query.measures or query.want_total or query.public_keys is not None:
            raise InvalidParameter("a sketch of counts alone", "sums, a total or public keys", "leave them out.")
        tell = progress or silent
        with session(self.settings) as connection:
            tell(READING)
            fields, attached = resolve(connection, source, query)
            tell(SKETCHING)
            sql = blocks_sql(fields, SKETCH_BLOCKS, fresh(seed), DuckDBDialect())
            return reading(attached, lambda: _fold(connection.sql(sql).to_arrow_reader(), query, sparsity))

    def explain(self, query: GroupByQuery, bounds: ContributionBounds, source: object) -> str:
        """The SQL that a run executes. Reads the schema of the source and no record."""
        with session(self.settings) as connection:
            fields, _ = resolve(connection, source, query)
            return commented(query, histogram_sql(fields, bounds, 0, DuckDBDialect()))

    def explain_pairs(self, query: GroupByQuery, source: object) -> str:
        """The SQL that makes the pairs of units and groups."""
        with session(self.settings) as connection:
            fields, _ = resolve(connection, source, query)
            return commented(query, ";\n".join([materialise_sql(fields), UNITS_SQL]))


UNITS_SQL: Final = (
    "CREATE TEMP TABLE units AS SELECT unit, CAST(ROW_NUMBER() OVER () - 1 AS INTEGER) AS unit_code,"
    " COUNT(*) AS degree FROM pairs GROUP BY unit"
)


def materialise_sql(fields: Fields) -> str:
    """One row per distinct pair, with what the unit adds to the group in whole steps."""
    stages = [records_sql(fields, DuckDBDialect()), pairs_sql(fields, DuckDBDialect())]
    return "CREATE TEMP TABLE pairs AS WITH " + ",\n".join(stages) + "\nSELECT * FROM pairs"


def reading(attached: Attached, work: Callable[[], _T]) -> _T:
    """Do what reads the records. Where DuckDB's reader does not take a value, once more with null for such values."""
    if attached.reread is None:
        return without_leaks(work)
    try:
        return without_leaks(work, let_through=_UNREADABLE)
    except _UNREADABLE:
        pass
    without_leaks(attached.reread)
    return without_leaks(work)


def _fold(reader: pa.RecordBatchReader, query: GroupByQuery, sparsity: int) -> Histogram:
    """Feed the blocks, which arrive one after the other, into one sketch."""
    names = [f"key_{position}" for position in range(1, len(query.by) + 1)]
    sketch = MisraGries(sparsity, pa.schema([reader.schema.field(name) for name in names]))
    waiting: list[pa.RecordBatch] = []

    def flush() -> None:
        if waiting:
            block = pa.Table.from_batches(waiting)
            sketch.add(block.select(names), whole(block, "units"))
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
