"""Spark sessions that are broken on purpose, in ways that only a cluster can be: the audit of the auditor."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dphist.audit import attacks, on_spark
from dphist.audit.broken import Broken, low_threshold, quiet_noise
from dphist.audit.broken_parts import added
from dphist.audit.contributions import contributions
from dphist.audit.spark_parts import CollectedSpark, frame_of, is_elsewhere, source_of
from dphist.audit.trials import KEY, UNIT, published
from dphist.engines.query import GroupByQuery, Key
from dphist.engines.spark.engine import SparkEngine
from dphist.histogram import ContributionBounds, Histogram
from dphist.noise.entropy import SystemEntropy, allow_test_entropy
from dphist.noise.testing import SeededEntropy
from dphist.planning import Plan
from dphist.publish.result import Release
from dphist.publish.run import prepare


def broken(engine: SparkEngine) -> list[Broken]:
    """What could go wrong on a cluster and nowhere else, and two breaks of a mechanism, seen through executors."""
    stays = Broken(
        "exact tables stay",
        "the groups that noise was drawn on are not deleted",
        attack=lambda: on_spark.support(engine, _kept),
    )
    return [
        Broken(
            "noise 10 % too small",
            "executors draw with 0.9 of the std",
            quiet_noise(0.9, engine, on_spark.RUNS_FOR_NOISE),
        ),
        Broken(
            "threshold one too low", "executors show a group one below it", low_threshold(1.0, engine, on_spark.RUNS)
        ),
        Broken(
            "every release has one seed",
            "all releases draw the same words",
            attack=lambda: attacks.fresh_noise(partial(_with_seed, engine, lambda: 7)),
        ),
        Broken(
            "every task has one seed",
            "the tasks of a release draw the same words, each release others",
            attack=lambda: on_spark.two_tasks(
                engine, partial(_with_seed, engine, lambda: int(SystemEntropy().words(1)[0]))
            ),
        ),
        Broken(
            "rows as files have them",
            "the table keeps the order of the tasks",
            attack=lambda: attacks.order(partial(_as_files, engine), on_spark.KINDS),
        ),
        Broken(
            "bounded in each part",
            "a unit is bounded by every task for itself",
            attack=lambda: contributions(_InParts(lambda: engine)),
        ),
        Broken(
            "places are not looked at",
            "all written pairs of a unit are counted",
            attack=lambda: contributions(_AllPairs(lambda: engine, written=True)),
        ),
        *([] if is_elsewhere(engine) else [stays]),
    ]


class _Seeded:
    """A seed that travels to every task, which starts from it. (A source for tests cannot be sent to an executor.)"""

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._source: SeededEntropy | None = None

    def words(self, count: int) -> NDArray[np.uint64]:
        """The next words of this task."""
        self._source = self._source or SeededEntropy(self._seed)
        return self._source.words(count)

    def __reduce__(self) -> tuple[type[_Seeded], tuple[int]]:
        return _Seeded, (self._seed,)


def _with_seed(engine: SparkEngine, seed: Callable[[], int], table: pa.Table, plan: Plan) -> Release:
    with source_of(engine, table) as source, allow_test_entropy():
        return prepare(source, unit=UNIT, by=KEY, plan=plan, engine=engine).run(entropy=_Seeded(seed()))


def _as_files(engine: SparkEngine, table: pa.Table, plan: Plan) -> Release:
    """Of the committed table, rows in the order in which tasks wrote them."""
    with published(table, plan, engine=engine) as made:
        held: Any = made.held
        return replace(made, held=held.committed.toDF(*held.names).toArrow())


class _InParts(CollectedSpark):
    """Two tasks, each with half of the records, each with the whole bound."""

    def histogram(self, source: object, query: GroupByQuery, bounds: ContributionBounds, **options: Any) -> Histogram:
        """The sum of both parts."""
        assert isinstance(source, pa.Table)
        halves = (source.take(list(range(start, source.num_rows, 2))) for start in (0, 1))
        return added([CollectedSpark.histogram(self, half, query, bounds, **options) for half in halves], bounds)


class _AllPairs(CollectedSpark):
    """Bounds nothing that was written, and says that it did."""

    def histogram(self, source: object, query: GroupByQuery, bounds: ContributionBounds, **options: Any) -> Histogram:
        """Count all pairs."""
        return replace(CollectedSpark.histogram(self, source, query, ContributionBounds(), **options), bounds=bounds)


def _kept(table: pa.Table, plan: Plan, engine: SparkEngine) -> Release:
    """A release beside which the exact groups stay."""
    with engine.open(frame_of(engine.spark, table), GroupByQuery(UNIT, (Key(KEY),))) as records:
        engine.new_staging().write(records.histogram(ContributionBounds(2)), "groups", distinct=("key_1",))
    return published(table, plan, engine=engine)
