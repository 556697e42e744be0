"""Bounding and counting in an embedded DuckDB.

One query per run, in a session of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Final

import numpy as np
import pyarrow as pa

from dphist import checks
from dphist.engines.counted import histogram_of, whole
from dphist.engines.query import GroupByQuery
from dphist.engines.resolve import resolve, resolve_without_source
from dphist.engines.session import (
    BOUNDING,
    READING,
    SKETCHING,
    Progress,
    fetch,
    fresh,
    session,
    silent,
    without_leaks,
)
from dphist.engines.settings import PerformanceSettings
from dphist.engines.sources import quote_identifier
from dphist.engines.sql import blocks_sql, histogram_sql
from dphist.errors import InvalidParameter
from dphist.histogram import ContributionBounds, Histogram, MisraGries

SKETCH_BLOCKS: Final = 64


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
            fields = resolve(connection, source, query)
            tell(BOUNDING)
            sql = histogram_sql(fields, bounds, fresh(seed), DuckDBDialect(), largest=largest)
            table = fetch(connection, sql)
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
            fields = resolve(connection, source, query)
            tell(SKETCHING)
            sql = blocks_sql(fields, SKETCH_BLOCKS, fresh(seed), DuckDBDialect())
            return without_leaks(lambda: _fold(connection.sql(sql).to_arrow_reader(), query, sparsity))

    def explain(self, query: GroupByQuery, bounds: ContributionBounds, source: object = None) -> str:
        """The SQL that a run executes; without a source the canonical forms that depend on types are left out."""
        with session(self.settings) as connection:
            fields = (
                resolve(connection, source, query) if source is not None else resolve_without_source(connection, query)
            )
            sql = histogram_sql(fields, bounds, 0, DuckDBDialect())
        names = [f"{inner}: {key.name}" for inner, key in zip(fields.key_names, query.by, strict=True)]
        names += [f"steps_{i}: {measure.name}" for i, measure in enumerate(query.measures, 1)]
        comments = [
            f"-- {text}".replace("\n", " ") for text in (*names, "the seed 0 stands for a fresh one in each run")
        ]
        return "\n".join([*comments, sql])


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
