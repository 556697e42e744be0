"""Sessions, files, values and ends of a run that nobody wishes for: one unit counts as one, and nothing stays or is told."""

from __future__ import annotations

import datetime as dt
import io
import logging
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from spark_tables import EVENTS, quiet

import dphist as dp
from dphist.engines.duckdb.engine import DuckDBEngine
from dphist.engines.histogram import ContributionBounds
from dphist.engines.query import GroupByQuery, Key, PerformanceSettings
from dphist.engines.source import Files
from dphist.engines.spark import groups as spark_groups
from dphist.engines.spark import pairs as spark_pairs
from dphist.engines.spark import session as spark_settings
from dphist.engines.spark.session import pinned, without_leaks
from dphist.engines.spark.staging import Staging, new_staging, remove_all
from dphist.files.scratch import PrivateDirectory
from spark_sessions import frame, session

OPTIONS: dict[str, Any] = {"unit": "user", "epsilon": 1, "delta": 1e-6, "max_groups": 1}


@contextmanager
def configured(**settings: str) -> Iterator[None]:
    """Settings of the owner of the session; `a__b` stands for a.b."""
    names = {name.replace("__", "."): value for name, value in settings.items()}
    before = {name: session().conf.get(name, None) for name in names}
    try:
        for name, value in names.items():
            session().conf.set(name, value)
        yield
    finally:
        for name, old in before.items():
            session().conf.unset(name) if old is None else session().conf.set(name, old)


def moments() -> Any:
    """One unit at 300 times, a microsecond apart."""
    from pyspark.sql import functions as F  # noqa: N812

    made = F.timestamp_micros(F.lit(1_700_000_000_000_000) + F.col("id"))
    return session().range(300).select(F.lit(7).alias("user"), made.alias("at"))


def test_one_unit_counts_once_in_a_group_in_a_session_that_rounds_times(tmp_path: Path) -> None:
    with configured(spark__sql__parquet__outputTimestampType="TIMESTAMP_MILLIS"):
        engine = dp.SparkEngine(session(), str(tmp_path))
        query = GroupByQuery("user", (Key("at"),))
        with engine.open(moments(), query, seed=1) as records, records.pairs() as pairs:
            counted = pairs.histogram(ContributionBounds(10))
            sums = [row["exact"] for row in pairs.sampled(300).first_round().frame.collect()]
        assert counted.counts.tolist() == [1] * 10
        assert len(set(counted.keys.column(0).to_pylist())) == 10
        assert len(sums) == 300
        assert sum((value / 2**16) ** 2 for value in sums) <= 1
        # Were the setting not ours to make, the table itself would be refused.
        with pytest.raises(dp.EngineFailure, match="differ after Spark wrote them"):
            engine.new_staging().write(moments(), "again", distinct=("user", "at"))


@pytest.mark.parametrize("larger", [pytest.param("first", marks=pytest.mark.cluster), "second"])
def test_csv_files_with_other_headers_are_refused(larger: str, tmp_path: Path) -> None:
    """Spark would give the columns of every file the names of one: the one it happens to look at."""
    many, few = (3000, 20) if larger == "first" else (20, 3000)
    first, second, unnamed = (tmp_path / name for name in ("a.csv", "b.csv", "c.csv"))
    first.write_text("user,item\n" + "".join(f"u{i},x\n" for i in range(many)))
    second.write_text("item,user\n" + "".join(f"z{i},bob\n" for i in range(few)))
    engine = dp.SparkEngine(session())
    with pytest.raises(dp.EngineFailure):
        dp.release(Files((first, second)), by="item", engine=engine, **OPTIONS)
    unnamed.write_text(",user,item\n" + "".join(f"{i},u{i},x\n" for i in range(300)))
    if larger == "first":
        with dp.release(Files((unnamed, unnamed)), by="item", engine=engine, **OPTIONS) as found:
            assert found.to_arrow().column("item").to_pylist() == ["x"]


@pytest.mark.cluster
def test_a_line_of_many_fields_ends_nothing(tmp_path: Path) -> None:
    path = tmp_path / "wide.csv"
    path.write_text("user,item\n" + "".join(f"u{i},x\n" for i in range(300)) + "u999," + "," * 30_000 + "\n")
    with dp.release(str(path), by="item", engine=dp.SparkEngine(session()), **OPTIONS) as found:
        assert found.to_arrow().column("item").to_pylist() == ["x"]


PARTS = ("year", "week", "hour")
MORE_PARTS = ("quarter", "month", "day", "minute")
TIMES = ("DATE", "TIMESTAMP", "TIMESTAMP WITH TIME ZONE")
ON_EXTREMES = [
    *(f"date_trunc('{part}', {column})" for part in PARTS for column in ("day", "seen", "local")),
    *(f"date_part('{part}', {column})" for part in PARTS for column in ("seen", "local")),
    *(f"{part}({column})" for part in PARTS[:2] for column in ("day", "seen")),
    *(f"CAST({a} AS {b})" for a in ("day", "seen", "local", "text") for b in ("VARCHAR", *TIMES)),
    *(f"CAST({a} AS {b})" for a in ("big", "real") for b in ("TINYINT", "INTEGER", "BIGINT", "DECIMAL(9, 2)", "VARCHAR")),
    "date_trunc('month', CAST(text AS DATE))", "date_trunc('week', CAST(text AS TIMESTAMP WITH TIME ZONE))", "day + 2147483647",
    "date_trunc('week', day + 2147483647)", "date_trunc('week', day - 2147483647)", "day > TIMESTAMP '2020-01-01'",
    "big + 1", "big - 1", "big * big", "-big", "abs(big)", "big % -1", "big / 0", "CAST(big AS BIGINT) // -1", "real + real",
    "real * real", "real / 0", "real % 0", "abs(real)", "isnan(real)", "length(text)", "upper(text)", "left(text, 2)",
    "substring(text, 1, 2000000000)", "split_part(text, '-', 3)", "replace(text, '-', '')", "nullif(day, seen)",
    "CASE WHEN day < DATE '2000-01-01' THEN seen ELSE local END", "coalesce(local, seen)", "text || text", "trim(text)",
]  # fmt: skip


OF_MORE_PARTS = [
    *(f"date_trunc('{part}', {column})" for part in MORE_PARTS for column in ("day", "seen", "local")),
    *(f"date_part('{part}', {column})" for part in MORE_PARTS for column in ("seen", "local")),
    *(f"{part}({column})" for part in MORE_PARTS[:3] for column in ("day", "seen")),
]


@pytest.mark.parametrize(
    "expressions",
    [pytest.param(ON_EXTREMES, id="all"), pytest.param(OF_MORE_PARTS, id="parts", marks=pytest.mark.cluster)],
)
def test_no_value_of_a_column_ends_a_run_in_an_expression(expressions: list[str], tmp_path: Path) -> None:
    """The smallest and the largest value of every type, and texts that spell such, in every function that is let through."""
    days, micros = [-(2**31), 2**31 - 1, -719_162, 2_932_896, None], [-(2**63) + 5, 2**63 - 1, 0, -(2**62), None]
    table = pa.table(
        {
            "user": pa.array(range(5)),
            "day": pa.array(days, pa.int32()).cast(pa.date32()),
            "seen": pa.array(micros, pa.int64()).cast(pa.timestamp("us", "UTC")),
            "local": pa.array(micros, pa.int64()).cast(pa.timestamp("us")),
            "big": pa.array([-(2**63), 2**63 - 1, 0, -1, None], pa.int64()),
            "real": pa.array([float("-inf"), float("nan"), 1.7e308, 5e-324, None]),
            "text": pa.array(["+5881580-07-11", "-290308-12-21 19:59:05", "+294247-01-10 04:00:54", "9999-12-31", ""]),
        }
    )
    pq.write_table(table, tmp_path / "extreme.parquet")
    query = GroupByQuery("user", tuple(Key(f"k{i}", text) for i, text in enumerate(expressions)))
    with dp.SparkEngine(session()).open(str(tmp_path / "extreme.parquet"), query, seed=1) as records:
        assert records.histogram(ContributionBounds(1)).counts.sum() == 5
    here = DuckDBEngine(PerformanceSettings()).histogram(table, query, ContributionBounds(1))
    assert here.counts.sum() == 5


@pytest.mark.cluster
def test_a_default_file_system_elsewhere_gets_nothing(tmp_path: Path) -> None:
    """A path without a scheme is one of Spark's default file system, where nobody would remove it."""
    staging, elsewhere = tmp_path / "staging", tmp_path / "elsewhere"
    staging.mkdir()
    elsewhere.mkdir()
    hadoop: Any = session().sparkContext._jsc.hadoopConfiguration()
    before = hadoop.get("fs.defaultFS")
    hadoop.set("fs.viewfs.mounttable.other.linkFallback", elsewhere.as_uri())
    hadoop.set("fs.defaultFS", "viewfs://other/")
    try:
        dp.release(frame(EVENTS), by="item", engine=dp.SparkEngine(session(), str(staging)), **OPTIONS).close()
    finally:
        hadoop.set("fs.defaultFS", before)
    assert list(elsewhere.rglob("*.parquet")) == []
    assert list(staging.iterdir()) == []


def test_what_is_not_where_it_is_looked_for_is_named(tmp_path: Path) -> None:
    staging = Staging(session(), (tmp_path / "there").as_uri(), PrivateDirectory(tmp_path / "here", None))
    with pytest.raises(dp.EngineFailure, match="there/ids on the file system of Spark yourself"):
        staging.write(session().range(1), "ids", distinct=("id",))


def test_a_cluster_refuses_a_path_without_a_scheme(tmp_path: Path) -> None:
    yarn: Any = SimpleNamespace(conf=SimpleNamespace(get=lambda name, default: "yarn"))
    for given in (None, str(tmp_path), "/user/me"):
        with pytest.raises(dp.InvalidParameter, match="with its scheme"):
            new_staging(yarn, given)
    with pytest.raises(dp.InvalidParameter, match="that exists"):
        new_staging(session(), str(tmp_path / "no"))


@pytest.mark.cluster
def test_every_table_is_emptied_that_can_be_and_the_root_is_named(tmp_path: Path) -> None:
    staging = Staging(session(), tmp_path.as_uri(), None)
    staging._written["broken"] = None  # type: ignore[assignment]  # whatever it is that fails
    good = staging.write(session().range(3), "good", distinct=("id",))
    with pytest.raises(dp.EngineFailure, match=f"delete {tmp_path.as_uri()} yourself"):
        remove_all(staging)
    assert session().read.schema(good.schema).parquet(str(tmp_path / "good")).count() == 0
    kept = Staging(session(), "", PrivateDirectory(tmp_path, None))
    (tmp_path / "good").chmod(0o500)
    tmp_path.chmod(0o500)
    try:
        if not _root():
            with pytest.raises(dp.EngineFailure, match="yourself"):
                kept.remove()
    finally:
        tmp_path.chmod(0o700)
        (tmp_path / "good").chmod(0o700)


def _root() -> bool:
    import os

    return os.geteuid() == 0


def layout(folder: Path) -> list[list[Any]]:
    """The keys in each file of the private table, in their order."""
    (released,) = folder.glob("*/released")
    return [pq.ParquetFile(path).read()["key_1"].to_pylist() for path in sorted(released.glob("part-*.parquet"))]


@pytest.mark.cluster
def test_where_files_are_cut_tells_nothing_about_hidden_groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Spark cuts a sorted table by samples of its parts: these must be the same with and without 400 hidden groups."""
    monkeypatch.setattr(spark_groups, "ROWS_IN_A_PART", 10)
    shown = pa.table({"user": np.arange(4000), "item": np.arange(4000) * 7 % 40 * 100})
    hidden = pa.table({"user": np.arange(400) + 10_000, "item": np.arange(400) * 10 + 1})
    law = dp.SparseGaussian(max_groups=1, noise_std=1.0, threshold=20.0)
    found = []
    with configured(spark__sql__shuffle__partitions="3"):
        for name, table in (("without", shown), ("with", pa.concat_tables([shown, hidden]))):
            (tmp_path / name).mkdir()
            engine = dp.SparkEngine(session(), str(tmp_path / name))
            with quiet(frame(table), law, max_groups=1, engine=engine):
                found.append(layout(tmp_path / name))
    assert sum(map(len, found[0])) == 40
    assert len(found[0]) == 3
    assert found[1] == found[0]


def test_no_record_gets_into_the_log_of_the_driver(capfd: Any) -> None:
    from pyspark.logger import PySparkLogger
    from pyspark.sql import functions as F  # noqa: N812

    heard, handler = io.StringIO(), None
    for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
        handler = logging.StreamHandler(heard)
        PySparkLogger.getLogger(name).addHandler(handler)
    with configured(spark__sql__ansi__enabled="true"):
        text = "CAST(CASE WHEN user = 5 THEN 'alice' ELSE '1' END AS INT)"
        by_sql = frame(EVENTS).withColumn("number", F.expr(text))
        by_call = frame(EVENTS).withColumn("number", F.when(F.col("user") == 5, "alice").otherwise("1").cast("int"))
        for source in (by_sql, by_call):
            _ = source.schema
            with pytest.raises(dp.EngineFailure):
                dp.release(source, by="number", **OPTIONS)
    told = capfd.readouterr()
    assert "alice" not in heard.getvalue() + told.err + told.out


def test_errors_of_arrow_tell_nothing() -> None:
    def failing() -> None:
        raise pa.ArrowInvalid("alice")

    with pytest.raises(dp.EngineFailure) as caught:
        without_leaks(failing)
    assert "alice" not in str(caught.value)


def test_hostile_settings_change_nothing() -> None:
    table = pa.table(
        {
            "user": np.arange(400),
            "seen": pa.array(
                [dt.datetime(2024, 1, 1 + i % 2, 23, tzinfo=dt.UTC) for i in range(400)], pa.timestamp("us", "UTC")
            ),
        }
    )
    law = dp.SparseGaussian(max_groups=1, noise_std=1.0, threshold=20.0)
    options: dict[str, Any] = {
        "by": ["day=CAST(date_trunc('day', seen) AS VARCHAR)", "text='${spark.app.name}' || ''"],
        "max_groups": 1,
        "order": "key",
    }
    here = quiet(table, law, **options).to_arrow().to_pylist()
    settings = {
        "spark__sql__session__timeZone": "America/New_York",
        "spark__sql__timestampType": "TIMESTAMP_NTZ",
        "spark__sql__groupByOrdinal": "false",
        "spark__sql__variable__substitute": "true",
        "spark__sql__parquet__datetimeRebaseModeInWrite": "LEGACY",
    }
    with configured(**settings):
        there = quiet(frame(table), law, **options).to_arrow().to_pylist()
        assert [(row["day"][:10], row["text"]) for row in there] == [(row["day"][:10], row["text"]) for row in here]
        assert [row["count"] for row in there] == [row["count"] for row in here]
        query = GroupByQuery("user", (Key("item"),))
        with dp.SparkEngine(session()).open(frame(EVENTS), query) as records, records.pairs() as pairs:
            assert pairs.degree_histogram(np.array([1, 2, 4])).sum() == 90
        assert session().conf.get("spark.sql.session.timeZone") == "America/New_York"


def test_two_runs_do_not_change_settings_under_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    entered = threading.Event()

    def enter() -> None:
        with pinned(session()):
            entered.set()

    other = threading.Thread(target=enter)
    with configured(spark__sql__ansi__enabled="true"):
        with pinned(session()):
            other.start()
            assert not entered.wait(0.3)
            assert session().conf.get("spark.sql.ansi.enabled") == "false"
        other.join()
        assert entered.is_set()
        assert session().conf.get("spark.sql.ansi.enabled") == "true"
        monkeypatch.setitem(spark_settings.SETTINGS, "spark.sql.warehouse.dir", "cannot be set")
        with pytest.raises(Exception, match="warehouse"), pinned(session()):
            pass
        assert session().conf.get("spark.sql.ansi.enabled") == "true"


def test_units_are_told_apart_by_their_bytes_or_refused() -> None:
    """So are keys, and what is inside of a struct; a column that nobody asks for is none."""
    collated = "'x' COLLATE UTF8_LCASE AS other, named_struct('a', 'Bob' COLLATE UTF8_LCASE) AS inside"
    source = session().sql(f"SELECT 'Bob' COLLATE UTF8_LCASE AS user, 'x' AS item, {collated}")
    derived = source.selectExpr("CAST(lower(user) AS STRING) AS user", "item", "other", "inside")
    for read, by in ((source, "item"), (derived, "other"), (derived, "key=inside.a")):
        with pytest.raises(dp.InvalidParameter, match="byte by byte"):
            dp.release(read, by=by, **OPTIONS)
    dp.release(derived, by="item", **OPTIONS)


@pytest.mark.cluster
@pytest.mark.parametrize("what", ["units", "groups"])
def test_no_more_groups_are_selected_than_the_guarantee_is_stated_for(
    what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There are 90 units, each in all of the five groups."""
    options = {**OPTIONS, "mechanism": "adaptive", "epsilon": 9, "delta": 1e-3, "max_groups": None}
    monkeypatch.setattr(spark_pairs, "MOST_RELEASED", {"units": 90, "groups": 5}[what])
    if what == "groups":
        monkeypatch.setattr(spark_pairs.SparkPairs, "total_units", lambda _: 1)
    with pytest.raises(
        dp.InvalidParameter, match={"units": "fewer than 2\\^31 units", "groups": "selected groups"}[what]
    ):
        dp.release(frame(EVENTS), by="item", **options)


@pytest.mark.cluster
def test_who_stops_a_run_stops_its_tasks_before_the_directory_goes(tmp_path: Path) -> None:
    def slow(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import time

        for batch in batches:
            time.sleep(4)
            yield batch

    engine = dp.SparkEngine(session(), str(tmp_path))
    source = frame(EVENTS).mapInArrow(slow, frame(EVENTS).schema)
    main, tracker = threading.main_thread().ident, session().sparkContext.statusTracker()
    assert main is not None
    # The check of the executors is a job too: let it be over.
    dp.release(frame(EVENTS), by="item", engine=engine, **OPTIONS).close()

    def running() -> int:
        stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
        return sum(stage.numActiveTasks for stage in stages if stage is not None)

    def stop() -> None:
        while not running():
            time.sleep(0.05)
        signal.pthread_kill(main, signal.SIGINT)

    threading.Thread(target=stop).start()
    previous = signal.signal(signal.SIGINT, signal.default_int_handler)  # not the one of Spark, which cancels every job
    try:
        with pytest.raises(KeyboardInterrupt):
            dp.release(source, by="item", engine=engine, **OPTIONS)
        assert running() == 0
    finally:
        signal.signal(signal.SIGINT, previous)
    assert list(tmp_path.iterdir()) == []
