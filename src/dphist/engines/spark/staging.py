"""Tables that are written down once, in a directory of their own, and read back from there.

Why. Spark computes a table again whenever it needs it: for a retried task, a speculative copy, a second action. Noise that is
drawn inside such a computation would be drawn again, and two noisings of one count cost twice. So every exact table is
written before noise is drawn on it, every noisy table is written once, by Spark's output committer, and only committed files
are read. Algorithm 1 of the committer moves a task's files to their place when the job is committed; algorithm 2 would move
them task by task and could leave files of a failed attempt beside those of its successor.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from dphist.engines.base import fresh
from dphist.engines.spark.session import is_connect, without_leaks
from dphist.errors import EngineFailure, InvalidParameter
from dphist.files.interruption import held, interruptible, undo_at_stop
from dphist.files.scratch import PrivateDirectory, make_directory

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType


COMMITTER: Final = {"mapreduce.fileoutputcommitter.algorithm.version": "1"}
_SECONDS_BETWEEN_LOOKS: Final = 0.2
_LONGEST_WAIT: Final = 60.0


@dataclass(slots=True, eq=False)
class Staging:
    """A private directory of one run: its address for Spark, and its path if it is on this machine."""

    spark: SparkSession
    root: str
    directory: PrivateDirectory | None
    _written: dict[str, StructType] = field(default_factory=dict)

    @property
    def here(self) -> Path | None:
        """Its path, if it is on this machine."""
        return None if self.directory is None else self.directory.path

    def write(self, frame: DataFrame, name: str, *, distinct: Sequence[str] | None) -> DataFrame:
        """Compute a table once, and return what was committed, in which no two rows agree in the columns `distinct`.

        The rows differ before they are written. They are checked again because every later step relies on it: a file format
        that rounds a value, or a file system that keeps the files of a lost task, would let one unit count twice in a group.
        """
        path, schema = f"{self.root}/{name}", without_leaks(lambda: frame.schema)
        if name in self._written:
            raise AssertionError(f"{name} is written once")
        self._written[name] = schema
        _stoppable(self.spark, lambda: frame.write.options(**COMMITTER).mode("error").parquet(path))
        if self.here is not None and not (self.here / name).is_dir():
            raise EngineFailure(
                f"{self.here / name} to be on this machine once Spark has written it",
                f"delete {path} on the file system of Spark yourself: it holds exact values.",
            )
        committed = self.spark.read.schema(schema).parquet(path)
        if distinct is not None and _most_alike(committed, distinct) > 1:
            raise EngineFailure(
                f"rows of {name} that differ after Spark wrote them as they did before",
                "a setting of the session or the file system changes what is written in Parquet files.",
            )
        return committed

    def remove(self) -> None:
        """Delete everything. On a file system that only Spark reaches, by overwriting each table with an empty one."""
        if self.directory is not None:
            self.directory.remove()
            left = self.directory.path.exists()
        else:
            self._written = {name: schema for name, schema in self._written.items() if not self._emptied(name, schema)}
            left = bool(self._written)
        if left:
            raise EngineFailure(f"{self.root} to be deleted", f"delete {self.root} yourself: it holds exact values.")

    def _emptied(self, name: str, schema: StructType) -> bool:
        try:
            empty = self.spark.createDataFrame([], schema).coalesce(1)
            without_leaks(lambda: empty.write.mode("overwrite").parquet(f"{self.root}/{name}"))
        except Exception:  # the other tables must be emptied, too; the caller says that this one was not
            return False
        return True


def remove_all(*stagings: Staging) -> None:
    """Delete several directories, even if one fails, and say once which are left."""
    left = []
    for staging in stagings:
        try:
            staging.remove()
        except Exception:
            left.append(staging.root)
    if left:
        roots = " and ".join(left)
        raise EngineFailure(f"{roots} to be deleted", f"delete {roots} yourself: exact values are there.")


def new_staging(spark: SparkSession, parent: str | None) -> Staging:
    """A directory nobody has used, readable by its owner alone where we make it ourselves."""
    if parent is not None and "://" in parent:
        return _removed_at_stop(Staging(spark, f"{parent.rstrip('/')}/dphist-{fresh(None):016x}", directory=None))
    if is_connect(spark) or not (spark.conf.get("spark.master", "") or "").startswith("local"):
        # Spark takes a path without a scheme for one of the cluster's default file system, and we for one of this machine.
        raise InvalidParameter(
            "the address of a directory that the cluster shares and only you can read",
            repr(parent) if parent is not None else "none",
            "give one with its scheme, as SparkEngine(spark, staging='hdfs:///...') or --staging.",
        )
    if parent is not None and not Path(parent).is_dir():
        raise InvalidParameter("a staging directory that exists", repr(parent))
    with held():
        directory = make_directory(None if parent is None else Path(parent))
        directory.path = directory.path.resolve()
        return _removed_at_stop(Staging(spark, directory.path.as_uri(), directory))


def _removed_at_stop(staging: Staging) -> Staging:
    def remove() -> None:
        _cancel_all(staging.spark)
        staging.remove()

    undo_at_stop(remove)
    return staging


def _cancel_all(spark: SparkSession) -> None:
    """End every job of a session that ends with the process, and wait for the tasks, which would write directories anew."""
    if is_connect(spark):
        spark.interruptAll()
        return
    spark.sparkContext.setLogLevel("OFF")
    spark.sparkContext.cancelAllJobs()
    tracker, until = spark.sparkContext.statusTracker(), time.monotonic() + _LONGEST_WAIT / 6
    while tracker.getActiveStageIds() and time.monotonic() < until:
        time.sleep(_SECONDS_BETWEEN_LOOKS)


def _most_alike(table: DataFrame, columns: Sequence[str]) -> int:
    from pyspark.sql import functions as F  # noqa: N812

    times = table.groupBy(*columns).agg(F.count(F.lit(1)).alias("times"))
    return int(without_leaks(times.agg(F.max("times")).collect)[0][0] or 0)


def _stoppable(spark: SparkSession, work: Callable[[], None]) -> None:
    """Run a job in a thread of its own. If it fails or we are stopped, end the rest of it and wait for its end.

    A task that goes on after its directory was removed would write it again.
    """
    from pyspark.util import inheritable_thread_target

    name = f"dphist-{fresh(None):016x}"

    def named() -> None:
        if is_connect(spark):
            spark.addTag(name)
        else:
            spark.sparkContext.setJobGroup(name, "dphist writes a private table", interruptOnCancel=True)
        without_leaks(work)

    stopped: list[bool] = []
    with interruptible(lambda: stopped.append(True)), ThreadPoolExecutor(1) as pool:
        job = pool.submit(inheritable_thread_target(spark)(named))
        try:
            while not (stopped or job.done()):
                wait([job], _SECONDS_BETWEEN_LOOKS)
            if stopped:
                raise KeyboardInterrupt
            job.result()
        except BaseException:
            while not job.done():
                _cancel(spark, name)
                wait([job], _SECONDS_BETWEEN_LOOKS)
            _wait_for_tasks(spark, name)
            raise


def _cancel(spark: SparkSession, name: str) -> None:
    if is_connect(spark):
        without_leaks(lambda: spark.interruptTag(name))
    else:
        without_leaks(lambda: spark.sparkContext.cancelJobGroup(name))


def _wait_for_tasks(spark: SparkSession, name: str) -> None:
    """Wait until no task of a cancelled job runs, but not for ever. Spark Connect does not tell."""
    if is_connect(spark):
        return
    tracker = spark.sparkContext.statusTracker()
    jobs = [tracker.getJobInfo(job) for job in tracker.getJobIdsForGroup(name)]
    stages = [stage for job in jobs if job is not None for stage in job.stageIds]
    until = time.monotonic() + _LONGEST_WAIT
    while time.monotonic() < until:
        found = [tracker.getStageInfo(stage) for stage in stages]
        if not any(stage.numActiveTasks for stage in found if stage is not None):
            return
        time.sleep(_SECONDS_BETWEEN_LOOKS)
