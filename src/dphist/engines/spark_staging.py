"""Tables that are written down once, in a directory of their own, and read back from there.

Why. Spark computes a table again whenever it needs it: for a retried task, a speculative copy, a second action. Noise that is
drawn inside such a computation would be drawn again, and two noisings of one count cost twice. So every exact table is
written before noise is drawn on it, every noisy table is written once, by Spark's output committer, and only what was
committed is read. Algorithm 1 of the committer moves a task's files to their place when the job is committed; 2 would do so
task by task and could leave files of a failed attempt beside those of its successor.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

from dphist.engines.session import fresh
from dphist.errors import DphistError, EngineFailure, InvalidParameter

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

_T = TypeVar("_T")

COMMITTER: Final = {"mapreduce.fileoutputcommitter.algorithm.version": "1"}


@dataclass(slots=True, eq=False)
class Staging:
    """A private directory of one run."""

    spark: SparkSession
    root: str
    local: bool
    _written: dict[str, StructType] = field(default_factory=dict)

    def write(self, frame: DataFrame, name: str) -> DataFrame:
        """Compute a table once, and return what was committed."""
        path, schema = f"{self.root}/{name}", without_leaks(lambda: frame.schema)
        if name in self._written:
            raise AssertionError(f"{name} is written once")
        self._written[name] = schema
        without_leaks(lambda: frame.write.options(**COMMITTER).mode("error").parquet(path))
        return self.spark.read.schema(schema).parquet(path)

    def remove(self) -> None:
        """Delete everything. On a file system that only Spark reaches, by overwriting each table with an empty one."""
        if self.local:
            shutil.rmtree(self.root, ignore_errors=True)
            return
        try:
            for name, schema in self._written.items():
                self._empty(name, schema)
        except EngineFailure:
            left = EngineFailure(f"{self.root} to be emptied", "delete it yourself: it holds exact values.")
        else:
            self._written.clear()
            return
        raise left

    def _empty(self, name: str, schema: StructType) -> None:
        empty = self.spark.createDataFrame([], schema).coalesce(1)
        without_leaks(lambda: empty.write.mode("overwrite").parquet(f"{self.root}/{name}"))


def new_staging(spark: SparkSession, parent: str | None) -> Staging:
    """A directory nobody has used, readable by its owner alone where we make it ourselves."""
    if parent is not None and "://" not in parent and Path(parent).is_dir() and not _connect(spark):
        return Staging(spark, tempfile.mkdtemp(prefix="dphist-", dir=parent), local=True)
    if parent is not None:
        return Staging(spark, f"{parent.rstrip('/')}/dphist-{fresh(None):016x}", local=False)
    if _connect(spark) or not (spark.conf.get("spark.master", "") or "").startswith("local"):
        raise InvalidParameter(
            "a directory that the cluster shares and only you can read",
            "none",
            "give one as SparkEngine(spark, staging='hdfs:///...') or --staging.",
        )
    return Staging(spark, tempfile.mkdtemp(prefix="dphist-"), local=True)


def _connect(spark: SparkSession) -> bool:
    return "connect" in type(spark).__module__


def without_leaks(work: Callable[[], _T]) -> _T:
    """Replace Spark's errors, which may quote a record, by ours, raised where the original is no longer in sight."""
    try:
        return work()
    except DphistError:
        raise
    except Exception as error:
        if type(error).__module__.partition(".")[0] not in ("pyspark", "py4j", "grpc"):
            raise
        name = type(error).__name__
    raise EngineFailure("a Spark job that runs to its end", f"Spark reported {name}; its own logs say more.")
