"""Small tables and their exact histograms on Spark, for attacks: what a release never collects."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from dphist.engines.base import histogram_of
from dphist.engines.query import GroupByQuery
from dphist.engines.spark.engine import SparkEngine, SparkRecords
from dphist.engines.spark.sketch import sketch
from dphist.histogram import ContributionBounds, Histogram

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def frame_of(spark: SparkSession, table: pa.Table) -> DataFrame:
    """A table of the driver as a DataFrame."""
    from pyspark.sql.pandas.types import from_arrow_schema

    known = table.cast(pa.schema([field.with_type(_known(field.type)) for field in table.schema]))
    return spark.createDataFrame(known, from_arrow_schema(known.schema, prefer_timestamp_ntz=True))


@contextmanager
def source_of(engine: SparkEngine, table: pa.Table) -> Iterator[object]:
    """A table as a source for one release: a file, as users have them, where Spark reads the files of this machine.

    A large table as a DataFrame of the driver would have to fit into the memory of its JVM.
    """
    if is_elsewhere(engine):
        yield frame_of(engine.spark, table)
        return
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "table.parquet"
        pq.write_table(table, path, row_group_size=1 << 17)
        yield path


def is_elsewhere(engine: SparkEngine) -> bool:
    """Whether a session writes to a file system that is not this machine's."""
    return engine.staging is not None and "://" in engine.staging and not engine.staging.startswith("file:")


def _known(kind: pa.DataType) -> pa.DataType:
    """Types of Arrow that Spark does not read, as what somebody would turn them into."""
    if pa.types.is_dictionary(kind):
        return kind.value_type
    return {pa.uint64(): pa.decimal128(20, 0), pa.string_view(): pa.string()}.get(kind, kind)


@dataclass(frozen=True, slots=True, eq=False)
class CollectedSpark:
    """Bounded histograms of small tables, brought to the driver: Spark in the words of the DuckDB engine.

    start: the engine, asked for when a histogram is. written: count from pairs that are written down first, as releases do
    that need more than one pass over them.
    """

    start: Callable[[], SparkEngine]
    written: bool = False

    def histogram(
        self, source: object, query: GroupByQuery, bounds: ContributionBounds, *, seed: int | None = None
    ) -> Histogram:
        """Exact counts and sums."""
        with self._opened(source, query, seed) as records, self._pairs(records) as pairs:
            table = records.histogram(bounds, pairs).toArrow()
        return histogram_of(table, query, bounds)

    def sketch(self, source: object, query: GroupByQuery, sparsity: int, *, seed: int | None = None) -> Histogram:
        """Counters of the merged blocks."""
        with self._opened(source, query, seed) as records:
            table = sketch(records, sparsity).toArrow()
        return histogram_of(table, query, ContributionBounds(sparsity=sparsity))

    @contextmanager
    def _pairs(self, records: SparkRecords) -> Iterator[str | None]:
        if not self.written:
            yield None
            return
        staging = self.start().new_staging()
        try:
            pairs = staging.write(records.pairs(), "pairs", distinct=("unit", *records.fields.key_names))
            yield records.views.add(pairs, "pairs")
        finally:
            staging.remove()

    def _opened(self, source: object, query: GroupByQuery, seed: int | None) -> AbstractContextManager[SparkRecords]:
        engine = self.start()
        table = frame_of(engine.spark, source) if isinstance(source, pa.Table) else source
        return engine.open(table, query, seed=seed)
