"""How much of a source Spark has read: tasks of the stage that reads it, asked from another thread while it runs."""

from __future__ import annotations

import threading
from pathlib import Path

import pyarrow.parquet as pq
from spark_tables import EVENTS

import dphist as dp
from dphist.engines.base import BOUNDING, NOISING, READING, Reading
from dphist.engines.spark.engine import SparkEngine
from dphist.engines.spark.session import tasks_done
from spark_sessions import session


def test_the_share_of_tasks_is_asked_for_while_spark_reads(tmp_path: Path) -> None:
    folder = tmp_path / "events"
    folder.mkdir()
    for part in range(3):
        pq.write_table(EVENTS, folder / f"{part}.parquet")
    told: list[str] = []
    shares: list[float | None] = []
    done = threading.Event()

    def watch() -> None:
        while not done.wait(0.02):
            shares.extend(phase.share() for phase in told[1:2] if isinstance(phase, Reading))

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        options = {"unit": "user", "by": "item", "epsilon": 1, "delta": 1e-6, "max_groups": 1}
        dp.release(str(folder / "*.parquet"), engine=SparkEngine(session()), progress=told.append, **options)  # type: ignore[arg-type]
    finally:
        done.set()
        watcher.join()
    assert told == [READING, BOUNDING, NOISING]
    known = [share for share in shares if share is not None]
    assert known == sorted(known)
    assert known
    assert known[-1] == 1.0


def test_spark_connect_tells_nothing() -> None:
    class Session:
        __module__ = "pyspark.sql.connect.session"

    assert tasks_done(Session())() is None  # type: ignore[arg-type]
