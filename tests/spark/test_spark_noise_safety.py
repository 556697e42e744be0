"""Noise on a cluster: drawn once for what is published, from each task's own entropy, and never written anywhere else."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from spark_tables import EVENTS, quiet

import dphist as dp
from dphist.engines.histogram import ContributionBounds
from dphist.engines.query import GroupByQuery, Key
from dphist.engines.spark import groups as spark_groups
from dphist.engines.spark.groups import OnBatches
from dphist.engines.spark.session import SETTINGS
from dphist.ledger import DataSet, Ledger
from dphist.mechanisms import CorrelatedGaussian
from spark_sessions import event_log, frame, session

MANY = pa.table({"user": np.arange(20_000), "item": np.arange(20_000) % 100})
"""100 groups of 200 units: all of them are released, whatever the noise."""


@contextmanager
def several_tasks(number: int) -> Iterator[None]:
    """So many partitions after a shuffle, and a task for each file that is read."""
    names = {"spark.sql.shuffle.partitions": str(number), "spark.sql.files.openCostInBytes": str(2**30)}
    before = {name: session().conf.get(name, None) for name in names}
    for name, value in names.items():
        session().conf.set(name, value)
    try:
        yield
    finally:
        for name, old in before.items():
            if old is None:
                session().conf.unset(name)
            else:
                session().conf.set(name, old)


def recorded(function: OnBatches, folder: Path, failures: int) -> OnBatches:
    """Writes down what each attempt of each task noised, and fails the first attempts after their last row."""
    target, most = str(folder), failures

    def noised_and_failing(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pathlib

        import pyarrow as inner
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        name = f"{context.partitionId()}-{context.attemptNumber()}"
        seen = []
        for batch in function(batches):
            seen.append(batch)
            yield batch
        if seen:
            with inner.ipc.new_file(str(pathlib.Path(target, name)), seen[0].schema) as writer:
                for batch in seen:
                    writer.write_batch(batch)
        if context.attemptNumber() < most:
            raise RuntimeError("lost after noising")

    return noised_and_failing


def attempts(folder: Path) -> dict[tuple[int, int], set[tuple[Any, ...]]]:
    found = {}
    for path in folder.iterdir():
        task, attempt = map(int, path.name.split("-"))
        with pa.ipc.open_file(str(path)) as reader:
            rows = reader.read_all().select(["key_1", "value_1"]).to_pylist()
        found[task, attempt] = {(row["key_1"], row["value_1"]) for row in rows}
    return found


def test_a_task_that_fails_after_noising_publishes_one_consistent_result_and_is_charged_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    records, staging = tmp_path / "records", tmp_path / "staging"
    records.mkdir()
    staging.mkdir()
    original = spark_groups.on_each
    monkeypatch.setattr(spark_groups, "on_each", lambda *given: recorded(original(*given), records, failures=1))
    address = str(tmp_path / "ledger.db")
    with Ledger(address, create=True) as opened:
        opened.create(DataSet("people", 20.0, 1e-3, "user", "gdp"))
    with several_tasks(2):
        options: dict[str, Any] = {"max_groups": 1, "mechanism": "sparse-gaussian", "epsilon": 1, "delta": 1e-6}
        engine = dp.SparkEngine(session(), str(staging))
        found = dp.release(
            frame(MANY, 2), unit="user", by="item", engine=engine, ledger=address, dataset="people", **options
        )
    noised = attempts(records)
    tasks = {task for task, _ in noised}
    assert len(tasks) > 1
    assert {attempt for _, attempt in noised} == {0, 1}  # every task drew twice
    published = {(row["item"], row["count"]) for row in found.to_arrow().to_pylist()}
    assert len(published) == len({item for item, _ in published}) == 100
    first, second = ({row for task in tasks for row in noised[task, attempt]} for attempt in (0, 1))
    assert published == second  # the attempts that were committed, whole
    assert len(published & first) < 10  # 100 counts on a lattice of 2^-10: 0 or 1 by chance
    again = {(row["item"], row["count"]) for row in found.to_arrow().to_pylist()}
    assert again == published  # reading is not computing
    with Ledger(address) as opened:
        assert len(opened.status("people").spends) == 1
    assert found.metadata()["ledger"] is not None
    found.close()
    assert list(staging.iterdir()) == []


def test_a_job_that_fails_leaves_nothing_and_tells_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(*_: object) -> OnBatches:
        def fails(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for batch in batches:
                raise RuntimeError(f"a record: {batch.to_pylist()}")
            yield from batches

        return fails

    engine = dp.SparkEngine(session(), str(tmp_path))
    options: dict[str, Any] = {"unit": "user", "by": "item", "epsilon": 1, "delta": 1e-6, "engine": engine}
    monkeypatch.setattr(spark_groups, "on_each", failing)
    for plan in ({"max_groups": 2}, {"mechanism": "adaptive"}):
        with pytest.raises(dp.EngineFailure) as caught:
            dp.release(frame(EVENTS), **options, **plan)
        assert "i1" not in str(caught.value)
        assert caught.value.__cause__ is None
        assert caught.value.__context__ is None
        assert list(tmp_path.iterdir()) == []
    views = (
        session().sql("SHOW VIEWS").collect()
    )  # a view of another test whose files are gone cannot be listed as a table
    assert not [view.viewName for view in views if view.viewName.startswith("dphist")]


def test_tasks_draw_from_their_own_entropy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tasks that see the same counts must not draw the same noise: 400 groups of 60 units in 4 tasks, noise on 2^-10."""
    # Batches of one size: tasks of different length would use the same words differently.
    monkeypatch.setitem(SETTINGS, "spark.sql.execution.arrow.maxRecordsPerBatch", "16")
    table = pa.table({"user": np.arange(24_000), "item": np.arange(24_000) % 400})
    options: dict[str, Any] = {"epsilon": 1, "delta": 1e-3, "max_groups": 1, "mechanism": "sparse-gaussian"}
    with several_tasks(4), dp.release(frame(table), unit="user", by="item", **options) as found:
        counts = found.to_arrow().column("count").to_numpy()
    assert len(counts) > 330
    noise = counts - 60  # with one stream for all tasks, each value would come about four times
    assert len(np.unique(noise)) > 0.7 * len(noise)
    assert 0.8 < noise.std() / found.plan.mechanism.noise_std < 1.2


def test_the_shared_noise_is_in_no_plan_and_no_event(monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    secret = 987_654_321_012
    monkeypatch.setattr(CorrelatedGaussian, "draw_shared", lambda self: secret)
    plans: list[str] = []
    original = spark_groups.SparkGroups.publish

    def published(self: Any, function: Any, layout: Any, **more: Any) -> Any:
        work = spark_groups.on_each(function, layout.names, layout)
        self.frame.mapInArrow(work, "key_1 string, value_1 double, value_2 double").explain(True)
        plans.append(capsys.readouterr().out)
        return original(self, function, layout, **more)

    monkeypatch.setattr(spark_groups.SparkGroups, "publish", published)
    found = quiet(frame(EVENTS), sparsity=9)
    assert min(found.to_arrow().column("count").to_pylist()) > 1e6  # the noise was used
    assert "add_noise_to_groups" in plans[0]
    logged = event_log()
    assert "add_noise_to_groups" in logged
    for text in (*plans, logged):
        assert str(secret) not in text


def test_plain_count_and_release_differ_by_one_shuffle(capsys: Any) -> None:
    engine = dp.SparkEngine(session())
    table = frame(EVENTS, 2)
    table.createOrReplaceTempView("plain")
    session().sql("SELECT item, COUNT(DISTINCT user) FROM plain GROUP BY item").explain()
    plain = capsys.readouterr().out
    with engine.open(table, GroupByQuery("user", (Key("item"),))) as records:
        records.sql(records.histogram_sql(ContributionBounds(3))).explain()
    bounded = capsys.readouterr().out
    session().catalog.dropTempView("plain")
    assert bounded.count("Exchange hashpartitioning") - plain.count("Exchange hashpartitioning") == 1
    # A unit with very many groups loses all but max_groups of them before its rows meet in one task.
    assert bounded.count("WindowGroupLimit") == 2
    assert bounded.index("Final") < bounded.index("Exchange hashpartitioning(unit") < bounded.index("Partial")


@pytest.mark.cluster
def test_a_heavy_unit_and_a_heavy_group() -> None:
    """One unit with a tenth of the rows, each in a group of its own; one group with half of the rows."""
    rows = 20_000
    user = np.where(np.arange(rows) < rows // 10, -1, np.arange(rows) % 3000)
    item = np.where(np.arange(rows) < rows // 10, np.arange(rows) + 10, np.arange(rows) % 2 * (np.arange(rows) % 9))
    sparse = dp.SparseGaussian(max_groups=50, noise_std=1e-3, threshold=1.0)
    table = pa.table({"user": user, "item": item})
    here = quiet(table, sparse, max_groups=50).to_arrow()
    there = quiet(frame(table, 4), sparse, max_groups=50).to_arrow()
    shared = [row for row in here.to_pylist() if row["item"] < 10]
    assert [row for row in there.to_pylist() if row["item"] < 10] == shared
    assert max(row["count"] for row in shared) > 1000
