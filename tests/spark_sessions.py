"""The one Spark session of all tests, started when the first of them asks for it; and Spark in the words of the engine tests.

Small tables on a small session: one shuffle partition, no code generation, no adaptive planning, no web page. Each of these
changes how fast a query is prepared, none what it computes. A task may fail three times before a job does.
"""

from __future__ import annotations

import atexit
import functools
import os
import shutil
import sys
import tempfile
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from dphist.engines import GroupByQuery
from dphist.engines.session import Progress, whole
from dphist.engines.spark import SparkEngine
from dphist.engines.spark_sketch import sketch
from dphist.histogram import ContributionBounds, Histogram

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

thorough = False
"""Whether Spark was asked for by name (`pytest --engines spark`): then it runs every example that DuckDB runs."""

SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.memory": "2g",
    "spark.sql.shuffle.partitions": "1",
    "spark.default.parallelism": "1",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "64",
    "spark.driver.extraJavaOptions": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -XX:CICompilerCount=1",
}


@functools.cache
def session() -> SparkSession:
    """Started once; it ends with the process."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    from pyspark.sql import SparkSession

    builder: Any = SparkSession.builder.master("local[2,4]").appName("dphist tests")
    events = tempfile.mkdtemp(prefix="spark-events-")
    atexit.register(shutil.rmtree, events, ignore_errors=True)
    written = {
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": f"file://{events}",
        "spark.eventLog.compress": "false",
    }
    for name, value in {**SETTINGS, **written}.items():
        builder = builder.config(name, value)
    spark: SparkSession = builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    return spark


def event_log() -> str:
    """Everything that the session has told its listeners."""
    folder = Path(str(session().conf.get("spark.eventLog.dir")).removeprefix("file://"))
    return "".join(
        path.read_text(encoding="utf-8") for path in folder.rglob("*") if path.is_file() and path.suffix != ".crc"
    )


def frame(table: pa.Table, partitions: int = 1) -> DataFrame:
    """A table of the driver as a DataFrame."""
    from pyspark.sql.pandas.types import from_arrow_schema

    known = table.cast(pa.schema([field.with_type(_known(field.type)) for field in table.schema]))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # pandas, which nothing here uses, is newer than Spark knows
        made = session().createDataFrame(known, from_arrow_schema(known.schema, prefer_timestamp_ntz=True))
    return made if partitions == 1 else made.repartition(partitions)


def _known(kind: pa.DataType) -> pa.DataType:
    """Two types of Arrow that Spark does not read, as what somebody would turn them into."""
    return {pa.uint64(): pa.decimal128(20, 0), pa.string_view(): pa.string()}.get(kind, kind)


class CollectedSpark:
    """Bounded histograms of small tables, brought to the test: what a release never does."""

    def histogram(
        self,
        source: object,
        query: GroupByQuery,
        bounds: ContributionBounds,
        *,
        progress: Progress | None = None,
        seed: int | None = None,
    ) -> Histogram:
        with SparkEngine(session()).open(self._source(source), query, seed=seed) as records:
            table = records.histogram(bounds).toArrow()
        return self._histogram(table, query, bounds)

    def sketch(self, source: object, query: GroupByQuery, sparsity: int, *, seed: int | None = None) -> Histogram:
        with SparkEngine(session()).open(self._source(source), query, seed=seed) as records:
            table = sketch(records, sparsity).toArrow()
        return self._histogram(table, query, ContributionBounds(sparsity=sparsity))

    def _source(self, source: object) -> object:
        return frame(source) if isinstance(source, pa.Table) else source

    def _histogram(self, table: pa.Table, query: GroupByQuery, bounds: ContributionBounds) -> Histogram:
        keys = table.select([f"key_{i}" for i in range(1, len(query.by) + 1)])
        return Histogram(
            keys=keys.rename_columns([key.name for key in query.by]),
            counts=whole(table, "units"),
            bounds=bounds,
            sums={measure.name: whole(table, f"steps_{i}") for i, measure in enumerate(query.measures, 1)},
            measures=query.measures,
            total_units=sum(table.column("first_units").to_pylist()) if query.want_total else None,
            listed=query.public_keys is not None,
        )
