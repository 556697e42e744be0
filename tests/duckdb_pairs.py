"""The pairs of a source in an open session of DuckDB."""

from collections.abc import Iterator
from contextlib import contextmanager

from dphist.engines.duckdb.engine import DuckDBEngine
from dphist.engines.duckdb.pairs import DuckDBPairs
from dphist.engines.query import GroupByQuery, PerformanceSettings


@contextmanager
def open_pairs(
    source: object, query: GroupByQuery, settings: PerformanceSettings | None = None, *, seed: int | None = None
) -> Iterator[DuckDBPairs]:
    """They are gone when the block ends."""
    engine = DuckDBEngine(settings or PerformanceSettings())
    with engine.open(source, query, seed=seed) as records, records.pairs() as pairs:
        yield pairs
