"""A release on Spark: charged, counted and written down, noised once on the executors, committed, and read from there."""

from __future__ import annotations

import datetime as dt
import json
import shutil
import tempfile
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from dphist.engines.duckdb.session import BOUNDING, READING, Progress
from dphist.engines.spark.engine import SparkEngine, SparkRecords
from dphist.engines.spark.session import without_leaks
from dphist.engines.spark.sketch import sketch
from dphist.engines.spark.staging import COMMITTER, Staging, delete_here, remove_all
from dphist.errors import EngineFailure, InvalidParameter
from dphist.mechanisms.parts import draw_shared, sparsity_to_enforce
from dphist.noise import Entropy
from dphist.planning import Plan
from dphist.publish import files
from dphist.publish.digests import without_content
from dphist.publish.privatise import bounds_of, noisy_total
from dphist.publish.result import Release, Request
from dphist.publish.run import Job
from dphist.publish.spark_noise import OnBatches, noise_groups
from dphist.publish.table import Order, column_names
from dphist.version import __version__

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

Charge = Callable[[], None]

ROWS_IN_A_PART: Final = 1 << 17
"""Of the released table, at least, if it has more than one part: a file with fewer rows costs more than they do."""


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class SparkTable:
    """A committed private table in a private directory. Nothing of it is here until it is asked for."""

    committed: DataFrame
    directory: Staging
    names: tuple[str, ...]
    order: Order

    def to_spark(self) -> DataFrame:
        """The table as a DataFrame, in its order."""
        from pyspark.sql import functions as F  # noqa: N812

        keys = [F.col(name).asc_nulls_last() for name in self.committed.columns if name.startswith("key_")]
        order = [F.col("value_1").desc(), *keys] if self.order == "count" else keys
        return self.committed.orderBy(*order).toDF(*self.names)

    def to_arrow(self) -> pa.Table:
        """The private table, brought to this machine."""
        return without_leaks(lambda: self.to_spark().toArrow())

    def first(self, most: int) -> tuple[pa.Table, int]:
        """The first rows, and how many there are in all."""
        return without_leaks(lambda: (self.to_spark().limit(most).toArrow(), self.committed.count()))

    def write(
        self, path: str, metadata: dict[str, Any], *, inputs: Iterable[Path] = (), overwrite: bool = False
    ) -> None:
        """Let Spark write a folder of Parquet, CSV or JSON files, with the metadata in a folder inside it."""
        from pyspark.sql import functions as F  # noqa: N812

        kind = files.format_of(Path(path))
        files.check_folder(path, None, inputs=inputs, overwrite=overwrite)
        check_elsewhere(self.directory.spark, path)
        writer = self.to_spark().write.options(**COMMITTER).mode("error")
        writer = writer.option("header", True) if kind == "csv" else writer
        # a literal: a list of rows would start a Python process
        text = F.lit(json.dumps(without_content(metadata), allow_nan=False))
        line = self.directory.spark.range(1).select(text.alias("metadata")).coalesce(1)
        with out_of_the_way(files.local(path)):
            without_leaks(lambda: writer.format(kind).save(path))
            without_leaks(lambda: line.write.mode("error").text(f"{path}/{files.FOLDER_METADATA}"))

    def close(self) -> None:
        """Delete the private directory."""
        self.directory.remove()


def run(
    job: Job,
    engine: SparkEngine,
    *,
    report: Progress,
    entropy: Entropy | None = None,
    charge: Charge | None = None,
    diagnose: Callable[[dict[str, int]], None] | None = None,
) -> Release:
    """Check what needs no record, charge, bound and count, write that down, add noise once, commit.

    `charge` is called on the driver, once, before the first record is read.
    """
    from dphist.publish.spark_adaptive import run_on_pairs

    check_executors(engine.spark)
    exact = engine.new_staging()
    noisy = engine.new_staging()
    try:
        report(READING)
        with engine.open(job.source, job.query) as records:
            work = Work(job, records, exact, noisy, entropy, report, diagnose)
            if records.fields.listed is not None:
                _check_listed(work, job.plan)
            if charge is not None:
                charge()
            report(BOUNDING)
            made = run_on_pairs(work) if job.plan.request.unbounded else _run_on_groups(work)
        exact.remove()
    except BaseException:
        remove_all(exact, noisy)
        raise
    if noisy.here is not None:
        weakref.finalize(made.held, delete_here, noisy.here)
    return made


def check_elsewhere(spark: SparkSession, path: str) -> None:
    """Refuse a folder that exists on a file system that only Spark reaches, where nothing is overwritten."""
    if files.local(path) is None and _is_there(spark, path):
        hint = "remove it or choose another name: only folders of this machine are overwritten."
        raise InvalidParameter("a new folder for the output of Spark", f"{path}, which exists", hint)


def _is_there(spark: SparkSession, path: str) -> bool:
    """On a file system that only Spark reaches: whoever reads a path that does not exist is refused."""
    try:
        without_leaks(lambda: spark.read.text(path).schema)
    except EngineFailure:
        return False
    return True


@contextmanager
def out_of_the_way(folder: Path | None) -> Iterator[None]:
    """Put a folder aside while another is written in its place; it comes back if that fails, and is deleted if not."""
    if folder is None or not folder.exists():
        yield
        return
    aside = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
    folder.rename(aside / folder.name)
    try:
        yield
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        (aside / folder.name).rename(folder)
        raise
    finally:
        shutil.rmtree(aside)


_CHECKED: weakref.WeakSet[SparkSession] = weakref.WeakSet()


def check_executors(spark: SparkSession) -> None:
    """Find out before any budget is spent that an executor could not draw noise, or would draw it with another version."""
    if spark in _CHECKED:
        return

    def version_of_executor(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from dphist.publish import spark_noise as spark_estimates  # noqa: F401 - everything that a task may need
        from dphist.version import __version__ as found

        for _ in batches:
            yield pa.RecordBatch.from_arrays([pa.array([found])], ["version"])

    wanted = f"dphist {__version__} in the Python of the executors"
    hint = "install dphist[spark] there, and name that Python as PYSPARK_PYTHON or spark.pyspark.python."
    try:
        found = without_leaks(lambda: spark.range(1).mapInArrow(version_of_executor, "version string").collect())
    except EngineFailure:
        found = None
    if found is None:
        raise EngineFailure(wanted, hint)
    if found[0][0] != __version__:
        raise InvalidParameter(wanted, found[0][0], hint)
    _CHECKED.add(spark)


@dataclass(frozen=True, slots=True, eq=False)
class Work:
    """One run: its records, the directory of what goes with it and that of what stays."""

    job: Job
    records: SparkRecords
    exact: Staging
    noisy: Staging
    entropy: Entropy | None
    report: Progress
    diagnose: Callable[[dict[str, int]], None] | None

    def scalar(self, sql: str) -> int:
        """One number."""
        return int(without_leaks(lambda: self.records.sql(sql).collect())[0][0] or 0)

    def noised(self, frame: DataFrame, function: OnBatches, schema: StructType, name: str) -> DataFrame:
        """Noise a written table, task by task, and write the result once, where it goes with the exact tables.

        Between the rounds it holds groups that nobody may learn of. A group that is in it twice is found in the next table,
        which is made from it.
        """
        return self.exact.write(frame.mapInArrow(function, schema), name, distinct=None)

    def published(self, frame: DataFrame, function: OnBatches, schema: StructType) -> DataFrame:
        """The same for the released table; what stays of it is a copy laid out by the released keys alone.

        Which part of the first copy a group is in, and where Spark would therefore cut the files of a sorted table, depends on
        groups that were not released. How many parts the copy has follows from the number of released rows: Spark's own
        choice would follow the sizes of compressed parts.
        """
        keys = self.records.fields.key_names
        noised = self.noised(frame, function, schema, "noised")
        most = int(str(self.records.spark.conf.get("spark.sql.shuffle.partitions")))
        parts = max(1, min(most, without_leaks(noised.count) // ROWS_IN_A_PART))
        laid_out = noised.repartition(parts, *keys).sortWithinPartitions(*keys)
        return self.noisy.write(laid_out, "released", distinct=keys)

    def finished(self, plan: Plan, committed: DataFrame, total: int | None) -> Release:
        """The release of what was committed; the total is noised here, on the driver."""
        request = self.job.request
        names = [*(key.name for key in self.job.query.by), *column_names(plan, request.intervals)]
        held = SparkTable(committed, self.noisy, tuple(names), request.order)
        return Release(held, plan, request, noisy_total(total, plan, self.entropy), dt.datetime.now(dt.UTC))


def _run_on_groups(work: Work) -> Release:
    records, plan = work.records, work.job.plan
    if plan.request.sketch is not None:
        counted = sketch(records, plan.request.sketch)
    else:
        counted = records.histogram(bounds_of(plan))
    return noise_written(work, plan, work.exact.write(counted, "groups", distinct=records.fields.key_names))


def noise_written(work: Work, plan: Plan, groups: DataFrame) -> Release:
    """From written groups to a committed release."""
    view = work.records.views.add(groups, "groups")
    total = work.scalar(f"SELECT SUM(first_units) FROM {view}") if plan.request.total else None  # noqa: S608
    if work.diagnose is not None:
        work.diagnose({"non-empty groups": work.scalar(f"SELECT COUNT(*) FROM {view}")})  # noqa: S608
    work.report("adding noise")
    sparse = enforced(work, view, groups.columns, plan)
    function = noise_groups(plan, work.job.request, draw_shared(plan.mechanism, work.entropy), work.entropy)
    schema = released_schema(groups.schema, len(work.job.query.by), plan, work.job.request)
    return work.finished(plan, work.published(sparse, function, schema), total)


def enforced(work: Work, view: str, names: Sequence[str], plan: Plan) -> DataFrame:
    """The groups, with the next largest count subtracted where at most `sparsity` may be non-empty."""
    most = sparsity_to_enforce(plan.mechanism)
    if most is None:
        return work.records.sql(f"SELECT * FROM {view}")  # noqa: S608
    next_largest = (
        f"(SELECT CASE WHEN COUNT(*) > {most} THEN MIN(units) ELSE 0 END"  # noqa: S608
        f" FROM (SELECT units FROM {view} ORDER BY units DESC LIMIT {most + 1}) AS largest)"
    )
    columns = [f"GREATEST(units - {next_largest}, 0) AS units" if name == "units" else name for name in names]
    return work.records.sql(f"SELECT {', '.join(columns)} FROM {view}")  # noqa: S608


def released_schema(exact: StructType, keys: int, plan: Plan, request: Request) -> StructType:
    """Keys of their types, then value_1, value_2, ...: doubles, or whole numbers where they were asked for."""
    from pyspark.sql.types import DoubleType, LongType, StructField, StructType

    fields = [StructField(f"key_{i}", exact[f"key_{i}"].dataType) for i in range(1, keys + 1)]
    for position, name in enumerate(column_names(plan, request.intervals), 1):
        kind = LongType() if request.integers and name in ("count", "rows") else DoubleType()
        fields.append(StructField(f"value_{position}", kind))
    return StructType(fields)


def _check_listed(work: Work, plan: Plan) -> None:
    """The list is public, and so is its length once equal keys are one."""
    found = work.scalar(f"SELECT COUNT(*) FROM {work.records.fields.listed}")  # noqa: S608
    if found != plan.request.keys:
        raise InvalidParameter(f"{plan.request.keys} different public keys", found)
