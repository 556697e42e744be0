"""What a run sets in a Spark session, so that no setting of its owner changes what is counted; put back afterwards."""

from __future__ import annotations

import logging
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, TypeVar

import pyarrow as pa

from dphist.engines.reading import Share
from dphist.errors import DphistError, EngineFailure
from dphist.files.systems import no_core_dumps

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


SETTINGS: Final = {
    # A record on which an expression fails becomes null instead of ending the run.
    "spark.sql.ansi.enabled": "false",
    # Times are written to the microsecond: with less, keys that differ would become one after they were made distinct.
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    # Dates before 1582 are written and read as they are.
    "spark.sql.parquet.datetimeRebaseModeInWrite": "CORRECTED",
    "spark.sql.parquet.int96RebaseModeInWrite": "CORRECTED",
    "spark.sql.parquet.datetimeRebaseModeInRead": "CORRECTED",
    "spark.sql.parquet.int96RebaseModeInRead": "CORRECTED",
    # Days begin where DuckDB's begin, and TIMESTAMP means one thing.
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.timestampType": "TIMESTAMP_LTZ",
    # GROUP BY 1 is the first column, and ${...} in a literal is four characters like any other.
    "spark.sql.groupByOrdinal": "true",
    "spark.sql.variable.substitute": "false",
    # A part of a table that cannot be read ends the run.
    "spark.sql.files.ignoreCorruptFiles": "false",
    "spark.sql.files.ignoreMissingFiles": "false",
    "spark.sql.files.ignoreInvalidPartitionPaths": "false",
    # Names are told apart as everywhere here, and are those of all records or of none.
    "spark.sql.caseSensitive": "false",
    "spark.sql.parquet.mergeSchema": "false",
    # One folder of another name must not turn a key of every record from a number into a text.
    "spark.sql.sources.partitionColumnTypeInference.enabled": "false",
    # Files are not believed to hold what they were divided by: a unit in two of them would be counted twice.
    "spark.sql.sources.bucketing.enabled": "false",
    "spark.sql.sources.v2.bucketing.enabled": "false",
    "spark.sql.legacy.bucketedTableScan.outputOrdering": "false",
    # Statistics leave NaN out, and answer nothing: not even a filter of the owner's own DataFrame. (None of ours gets as far
    # as a source: see `spark.frames.BARRIER`.)
    "spark.sql.parquet.filterPushdown": "false",
    "spark.sql.orc.filterPushdown": "false",
    "spark.sql.csv.filterPushdown.enabled": "false",
    "spark.sql.json.filterPushdown.enabled": "false",
    "spark.sql.avro.filterPushdown.enabled": "false",
    "spark.sql.parquet.aggregatePushdown": "false",
    "spark.sql.orc.aggregatePushdown": "false",
    "spark.sql.optimizer.metadataOnly": "false",
    "spark.sql.inMemoryColumnarStorage.partitionPruning": "false",
    # No rule that somebody left out changes a result; but we have tried them all, not all but some.
    "spark.sql.optimizer.excludedRules": "",
    "spark.sql.adaptive.optimizer.excludedRules": "",
    # A batch of lines of a CSV file on its way to Python: the longest of them must not fill the memory together.
    "spark.sql.execution.arrow.maxRecordsPerBatch": "1024",
    "spark.sql.execution.arrow.maxBytesPerBatch": str(1 << 26),
    "spark.sql.execution.arrow.useLargeVarTypes": "false",
}

_LOCKS: Final[defaultdict[str, threading.RLock]] = defaultdict(threading.RLock)


def is_connect(spark: SparkSession) -> bool:
    """Whether a session is one of Spark Connect."""
    return "connect" in type(spark).__module__


def tasks_done(spark: SparkSession) -> Share:
    """The share of tasks that are done in the first stage from now on: it reads the source, in pieces of so many bytes.

    Later stages are not told: how many tasks they have is a matter of keys. Of Spark Connect nothing is known.
    """
    first: list[int] = []

    def share() -> float | None:
        if is_connect(spark):
            return None
        tracker = spark.sparkContext.statusTracker()
        first.extend([] if first else sorted(tracker.getActiveStageIds())[:1])
        stage = tracker.getStageInfo(first[0]) if first else None
        return None if stage is None else stage.numCompletedTasks / max(stage.numTasks, 1)

    return share


@contextmanager
def pinned(spark: SparkSession) -> Iterator[None]:
    """Our settings while the block runs; one block at a time, since a second one would put back the settings of the first.

    The classic sessions of a process share their settings or may do so: they share a lock.
    """
    no_core_dumps()  # also where somebody else has started the JVM: exact groups may come here
    with _LOCKS[str(getattr(spark, "session_id", "")) if is_connect(spark) else ""]:
        before = {name: spark.conf.get(name, None) for name in SETTINGS}
        try:
            for name, value in SETTINGS.items():
                spark.conf.set(name, value)
            yield
        finally:
            for name, old in before.items():
                if old is None:
                    spark.conf.unset(name)
                else:
                    spark.conf.set(name, old)


_T = TypeVar("_T")

OTHER_HEADER: Final = "dphist: the header of a CSV file differs from that of the first"
"""What a task says that finds one. It quotes nothing."""

_LOGGERS: Final = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")


def without_leaks(work: Callable[[], _T]) -> _T:
    """Replace Spark's errors, which may quote a record, by ours, raised where the original is no longer in sight."""
    try:
        with _unlogged():
            return work()
    except DphistError:
        raise
    except Exception as error:
        spark = type(error).__module__.partition(".")[0] in ("pyspark", "py4j", "grpc")
        if not spark and not isinstance(error, pa.ArrowException):
            raise
        name, other_header = type(error).__name__, OTHER_HEADER in str(error)
    if other_header:
        raise EngineFailure("the same header in every CSV file", "rewrite the files with one header.")
    raise EngineFailure("a Spark job that runs to its end", f"Spark reported {name}; its own logs say more.")


class _Silence(logging.Filter):
    """Lets nothing through that a thread logs while it is at work here: Spark writes the text of an error to stderr when it
    makes the exception, before anybody can catch it."""

    def __init__(self) -> None:
        super().__init__()
        self.here = threading.local()

    def filter(self, record: logging.LogRecord) -> bool:
        return getattr(self.here, "depth", 0) == 0


_SILENCE: Final = _Silence()


@contextmanager
def _unlogged() -> Iterator[None]:
    from pyspark.logger import PySparkLogger  # a logger of another class would not understand how Spark calls it

    for name in _LOGGERS:
        PySparkLogger.getLogger(name).addFilter(_SILENCE)  # once, however often it is added
    _SILENCE.here.depth = getattr(_SILENCE.here, "depth", 0) + 1
    try:
        yield
    finally:
        _SILENCE.here.depth -= 1
