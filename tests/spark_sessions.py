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
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from dphist.engines.base import Engine, Progress, Records
from dphist.engines.query import GroupByQuery
from dphist.engines.spark.engine import SparkEngine
from dphist.engines.spark.source import frame_of

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
    """A table of the driver as a DataFrame of the session."""
    made = frame_of(session(), table)
    return made if partitions == 1 else made.repartition(partitions)


class LazySpark(Engine):
    """The Spark engine on the session of the tests, which is started when the first source is opened."""

    def open(
        self, source: object, query: GroupByQuery, *, seed: int | None = None, progress: Progress | None = None
    ) -> AbstractContextManager[Records]:
        return SparkEngine(session()).open(source, query, seed=seed, progress=progress)

    def columns(self, source: object) -> list[str]:
        return SparkEngine(session()).columns(source)
