"""Sessions of Spark: a run sets all that could change its counts, and puts the owner's settings back.

A session of our own has a JVM of its own. Spark keeps shuffle files, spilled rows and tables on their way from Python in its
local directories, with the rights of any new file: everybody may read them. So they lie in private directories (`scratch`)
that are deleted with the process. The next run deletes those of a killed process. A user who starts a JVM decides where it
writes.
"""

from __future__ import annotations

import atexit
import importlib
import logging
import os
import signal
import sys
import tempfile
import threading
import warnings
import weakref
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import pyarrow as pa

from dphist.engines.base import (
    Share,
)
from dphist.errors import DphistError, EngineFailure, InvalidParameter, MissingExtra
from dphist.files.interruption import held, undo_at_stop
from dphist.files.scratch import PrivateDirectory, make_directory
from dphist.files.systems import no_core_dumps
from dphist.version import __version__

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
    # Names differ in more than case, and a column is in all files or in none.
    "spark.sql.caseSensitive": "false",
    "spark.sql.parquet.mergeSchema": "false",
    # One folder of another name must not turn a key of every record from a number into a text.
    "spark.sql.sources.partitionColumnTypeInference.enabled": "false",
    # Spark must not trust that files are divided by a column: a unit in two files would be counted twice.
    "spark.sql.sources.bucketing.enabled": "false",
    "spark.sql.sources.v2.bucketing.enabled": "false",
    "spark.sql.legacy.bucketedTableScan.outputOrdering": "false",
    # Statistics leave NaN out, so they answer no filter, not even one of the owner's own DataFrame. (No filter of ours gets
    # as far as a source: see `spark.source.BARRIER`.)
    "spark.sql.parquet.filterPushdown": "false",
    "spark.sql.orc.filterPushdown": "false",
    "spark.sql.csv.filterPushdown.enabled": "false",
    "spark.sql.json.filterPushdown.enabled": "false",
    "spark.sql.avro.filterPushdown.enabled": "false",
    "spark.sql.parquet.aggregatePushdown": "false",
    "spark.sql.orc.aggregatePushdown": "false",
    "spark.sql.optimizer.metadataOnly": "false",
    "spark.sql.inMemoryColumnarStorage.partitionPruning": "false",
    # Leaving a rule out should change no result, but we have tried Spark with all rules only.
    "spark.sql.optimizer.excludedRules": "",
    "spark.sql.adaptive.optimizer.excludedRules": "",
    # A batch of CSV lines on its way to Python: many of the longest lines must not fill the memory.
    "spark.sql.execution.arrow.maxRecordsPerBatch": "1024",
    "spark.sql.execution.arrow.maxBytesPerBatch": str(1 << 26),
    "spark.sql.execution.arrow.useLargeVarTypes": "false",
}

_LOCKS: Final[defaultdict[str, threading.RLock]] = defaultdict(threading.RLock)


def is_connect(spark: SparkSession) -> bool:
    """Whether a session is one of Spark Connect."""
    return "connect" in type(spark).__module__


def tasks_done(spark: SparkSession) -> Share:
    """The share of tasks that are done in the first stage from now on: it reads the source, in pieces of a fixed size.

    Later stages are not told, since their numbers of tasks depend on keys. Spark Connect tells nothing.
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
"""The error of a task that finds another header. It quotes nothing."""

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
    """Drops everything that a thread logs while it works here: Spark writes the text of an error to stderr when it makes the
    exception, before anybody can catch it.
    """

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


def delete_here(directory: PrivateDirectory) -> None:
    """Delete a directory of this machine, at a time when nobody waits for the outcome."""
    directory.remove()
    if directory.path.exists():
        warnings.warn(f"delete {directory.path} yourself: it could not be deleted", ResourceWarning, stacklevel=2)


LOCAL: Final = "SPARK_LOCAL_DIRS"
"""The variable that tells a driver where to write, whatever spark.local.dir says."""

_LONGEST_WAIT: Final = 20.0


def start(builder: Any, *, remote: bool) -> SparkSession:
    """A session. A JVM that it starts gets local directories that nobody else can read. remote: its JVM is elsewhere."""
    from pyspark import SparkContext

    no_core_dumps()  # before a JVM is started, which has the limits of this process
    if remote or SparkContext._gateway is not None or "PYSPARK_GATEWAY_PORT" in os.environ:
        session: SparkSession = without_leaks(builder.getOrCreate)
        undo_at_stop(session.stop)
        return session
    with held():
        directories = private_directories()
        undo = partial(_end_jvm, directories)
        atexit.register(undo)
        undo_at_stop(undo)
    with told(directories):
        session = without_leaks(builder.getOrCreate)
    context: Any = SparkContext._active_spark_context
    check_local(context._temp_dir, directories)
    return session


def private_directories() -> list[PrivateDirectory]:
    """One in each local directory of the environment, or in the one for temporary files."""
    places = [Path(place) for place in os.environ.get(LOCAL, "").split(",") if place]
    for place in places:
        place.mkdir(parents=True, exist_ok=True)
    return [make_directory(place.resolve()) for place in places or [Path(tempfile.gettempdir())]]


def check_local(path: str, directories: Sequence[PrivateDirectory]) -> None:
    """Refuse a JVM that writes elsewhere, as the scripts that start it may have told it."""
    if not any(Path(path).resolve().is_relative_to(directory.path) for directory in directories):
        raise InvalidParameter(
            "a Spark that keeps its files in a directory that only you can read",
            str(Path(path).parent),
            f"unset SPARK_EXECUTOR_DIRS, and set {LOCAL} where you call dphist, not in spark-env.sh.",
        )


@contextmanager
def told(directories: Sequence[PrivateDirectory]) -> Iterator[None]:
    """The environment from which a JVM learns where to write."""
    before = os.environ.get(LOCAL)
    os.environ[LOCAL] = ",".join(str(directory.path) for directory in directories)
    try:
        yield
    finally:
        del os.environ[LOCAL]
        if before is not None:
            os.environ[LOCAL] = before


def _end_jvm(directories: Sequence[PrivateDirectory]) -> None:
    """End the JVM and wait for it: a JVM that still writes would bring removed files back."""
    from pyspark import SparkContext

    context: Any = SparkContext._active_spark_context
    gateway: Any = SparkContext._gateway
    with suppress(Exception):  # it may be dead, or never have been alive
        context.stop()
    with suppress(Exception):
        gateway.shutdown()
    with suppress(Exception):
        gateway.proc.stdin.close()
        gateway.proc.wait(timeout=_LONGEST_WAIT)
    for directory in directories:
        delete_here(directory)


_CHECKED: Final[weakref.WeakSet[SparkSession]] = weakref.WeakSet()


def check_executors(spark: SparkSession) -> None:
    """Find out before any budget is spent that an executor could not draw noise, or would draw it with another version."""
    if spark in _CHECKED:
        return

    def version_of_executor(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from dphist.version import __version__ as version

        importlib.import_module("dphist.run.job")  # everything that a task may need
        for _ in batches:
            yield pa.RecordBatch.from_arrays([pa.array([version])], ["version"])

    wanted = f"dphist {__version__} in the Python of the executors"
    hint = "install dphist[spark] there, and name that Python as PYSPARK_PYTHON or spark.pyspark.python."
    try:
        answer = without_leaks(lambda: spark.range(1).mapInArrow(version_of_executor, "version string").collect())
    except EngineFailure:
        answer = None
    if answer is None:
        raise EngineFailure(wanted, hint)
    if answer[0][0] != __version__:
        raise InvalidParameter(wanted, answer[0][0], hint)
    _CHECKED.add(spark)


def open_session(master: str | None, remote: str | None) -> SparkSession:
    """A session of our own, for the command line."""
    try:
        from pyspark.sql import SparkSession
    except ImportError:
        raise MissingExtra("spark", "the Spark engine") from None
    if master is not None and remote is not None:
        raise InvalidParameter("--master or --remote", "both", "a Spark Connect server has its own master.")
    master = master if remote is not None or master is not None else "local[*]"
    if (master or remote or "").startswith("local"):
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # the one that has dphist
    # Spark's warning about pandas does not matter: tables travel as Arrow.
    warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas", FutureWarning)
    builder: Any = SparkSession.builder.appName("dphist").config("spark.ui.showConsoleProgress", "false")
    builder = builder.config("spark.log.level", "ERROR")
    builder = builder.remote(remote) if remote is not None else builder.master(master)
    handler = signal.getsignal(signal.SIGINT)
    builder = builder.config("spark.sql.session.timeZone", "UTC")
    spark = start(builder, remote=remote is not None and not remote.startswith("local"))
    if threading.current_thread() is threading.main_thread():  # Spark sets a handler of its own
        signal.signal(signal.SIGINT, handler)
    return spark
