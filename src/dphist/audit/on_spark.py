"""The audit of the Spark engine: claims and attacks of the product, run through a session, and copies broken on purpose.

What executors draw is attacked where one release holds many runs. Where all groups share a noise every run would be a release
of its own, some seconds each: there the enumerated laws stand, and the law is the same (`mechanisms.parts`).
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dphist.audit import attacks
from dphist.audit.attacks import SECRET, ImplementationAttack, Publish, plans_of_each_kind, table_with_secret
from dphist.audit.broken import Broken, low_threshold, quiet_noise
from dphist.audit.claim_parts import DELTA, EPSILON, of_release, released, selections, whole_budget
from dphist.audit.contributions import Outcome, contributions, equal_keys, withstood
from dphist.audit.findings import Claim
from dphist.audit.spark_parts import CollectedSpark, frame_of, is_elsewhere, source_of
from dphist.audit.trials import KEY, UNIT, Layout, one_release, published
from dphist.engines.query import GroupByQuery, Key
from dphist.engines.spark import SparkEngine
from dphist.histogram import ContributionBounds, Histogram
from dphist.noise.entropy import SystemEntropy, allow_test_entropy
from dphist.noise.testing import SeededEntropy
from dphist.planning import Plan, plan_for
from dphist.planning.top_k import plan_top_k
from dphist.publish.release import prepare
from dphist.publish.released import Release
from dphist.publish.top_k import top_k

RUNS = (20_000, 100_000)
"""On each side, in one release: quick, thorough."""

RUNS_FOR_NOISE = (60_000, 100_000)
"""Fewer would miss noise that is 10 % too small every other time."""

_KINDS = ("gaussian", "correlated", "adaptive")


def claims(engine: SparkEngine) -> Iterator[Claim]:
    """One release each, counted and noised by executors."""
    budget: dict[str, Any] = {"epsilon": EPSILON, "delta": DELTA, "max_groups": 2}
    plan = plan_for(**budget, mechanism="sparse-gaussian")
    yield from released(plan, engine, RUNS)
    heavy = one_release(plan, Layout(groups=5, base=9, moved=5), engine=engine)
    yield of_release(plan, "release, a unit in 5 groups where 2 are allowed", heavy, RUNS)
    summed = plan_for(**budget, mechanism="sparse-gaussian", sums={"value": (0, 1)})
    shared = one_release(summed, Layout(groups=2, base=9, moved=2), engine=engine)
    yield of_release(summed, "release of counts and sums, large groups", shared, RUNS)
    for made in (plan_for(**budget, mechanism="laplace"), plan_for(**budget, noise="discrete")):
        yield from released(made, engine, RUNS)
    rounds = plan_for(epsilon=EPSILON, delta=0.3, mechanism="adaptive")
    layouts = (Layout(1, 4, 1), Layout(1, 0, 1), Layout(8, 4, 8))
    yield from selections(rounds, rounds.mechanism.delta, *layouts, engine=engine, runs=RUNS)
    chosen = plan_for(epsilon=EPSILON, delta=0.3, max_groups="auto")
    for claim in selections(chosen, whole_budget(chosen), Layout(4, 0, 4), engine=engine, runs=RUNS):
        yield replace(claim, mechanism="automatic choice", analysis="of max_groups")


def attacks_on(engine: SparkEngine) -> tuple[ImplementationAttack, ...]:
    """The attacks of the product, and one on what Spark leaves behind."""
    publish: Publish = partial(published, engine=engine)
    collected, in_two_steps = CollectedSpark(lambda: engine), CollectedSpark(lambda: engine, written=True)
    files = (
        ()
        if is_elsewhere(engine)
        else (
            ImplementationAttack(
                "support and staging", "a key that exists because of one unit stays in a file", partial(support, engine)
            ),
        )
    )
    return (
        ImplementationAttack(
            "low-order bits",
            "a published number that only one of two neighbours can have",
            partial(attacks.low_order_bits, publish, RUNS[0]),
        ),
        *files,
        ImplementationAttack(
            "order of rows",
            "the order of a table tells what its values do not",
            partial(attacks.order, publish, _KINDS),
        ),
        ImplementationAttack(
            "contribution bounds", "one unit changes more than was accounted for", partial(contributions, collected)
        ),
        ImplementationAttack(
            "bounds, pairs written", "the same, counted from pairs in a file", partial(contributions, in_two_steps)
        ),
        ImplementationAttack(
            "equal keys and units",
            "one person or group under two names, or two under one",
            partial(equal_keys, collected),
        ),
        ImplementationAttack(
            "sketches", "one unit moves counters up and down at once", partial(attacks.sketch_moves, collected)
        ),
        ImplementationAttack(
            "sums", "a sum that overflows, loses integers or depends on order", partial(attacks.sums, collected)
        ),
        ImplementationAttack(
            "fresh noise", "noise that repeats cancels between two releases", partial(attacks.fresh_noise, publish)
        ),
        ImplementationAttack(
            "noise of two tasks", "noise that repeats cancels between two groups", partial(two_tasks, engine, publish)
        ),
    )


def support(engine: SparkEngine, publish: Callable[[pa.Table, Plan, SparkEngine], Release] | None = None) -> Outcome:
    """A key of one unit is in no byte that is written, nor in what stays in the staging directory; closed, nothing stays."""
    problems: list[str] = []
    seen: set[Path] = set()
    source, release_of = table_with_secret(), publish or _published
    with tempfile.TemporaryDirectory() as name:
        folder, staging = Path(name) / "out", Path(name) / "staging"
        folder.mkdir()
        staging.mkdir(mode=0o700)
        watched = replace(engine, staging=str(staging))

        def look(kind: str) -> None:
            for path in _files(Path(name)):
                if path not in seen and SECRET.encode() in path.read_bytes():
                    problems.append(f"the key of one unit is in {path.relative_to(name).parts[0]}, {kind}")
                seen.add(path)

        plans = plans_of_each_kind(groups=attacks.GROUPS_WITH_SECRET)
        for kind in _KINDS:
            with release_of(source, plans[kind], watched) as release:
                release.write(folder / f"{kind}.parquet")
                release.report(folder / f"{kind}.html")
                look(kind)
        largest = plan_top_k(k=5, epsilon=1, delta=1e-8, method="correlated")
        top_k(frame_of(engine.spark, source), unit=UNIT, by=KEY, plan=largest, engine=watched).write(folder / "top.csv")
        look("top-k")
        left = len(_files(staging))
        if left:
            problems.append(f"{left} files stay in the staging directory when releases are closed")
    return withstood(
        problems, f"the key of one unit is in none of {len(seen)} files; no file stays in the staging directory"
    )


def two_tasks(engine: SparkEngine, publish: Publish) -> Outcome:
    """Tasks of one release draw noises of their own: of 2,000 equal counts in two tasks few noises are equal.

    Independent noises of std 10 on the lattice of 2^-10 are equal in 2000^2/(4 sqrt(pi) 10 2^10) = 55 pairs, with a std of 7;
    two tasks with the same words would give some 1,000 more. The limit of 150 is 13 std away.
    """
    groups, large = 2_000, 100
    plan = plan_for(epsilon=1, delta=0.01, max_groups=1, mechanism="sparse-gaussian", noise_std=10.0)
    units = np.arange(groups * large)
    table = pa.table({UNIT: units, KEY: units // large})
    with _divided(engine):
        counts = attacks.shown(publish, table, plan).column("count").to_numpy()
    _, times = np.unique(counts, return_counts=True)
    pairs = int((times * (times - 1) // 2).sum())
    holds = len(counts) > 0.99 * groups and pairs < 150
    return holds, f"of {len(counts):,} noises drawn in two tasks {pairs} pairs are equal; by chance there would be 55"


_TWO_TASKS = {
    "spark.sql.adaptive.coalescePartitions.enabled": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.files.minPartitionNum": "2",
}


@contextmanager
def _divided(engine: SparkEngine) -> Iterator[None]:
    """Groups are written in two files, which two tasks read."""
    conf = engine.spark.conf
    before = {name: conf.get(name, None) for name in _TWO_TASKS}
    try:
        for name, value in _TWO_TASKS.items():
            conf.set(name, value)
        yield
    finally:
        for name, old in before.items():
            if old is None:
                conf.unset(name)
            else:
                conf.set(name, old)


def _published(table: pa.Table, plan: Plan, engine: SparkEngine) -> Release:
    return published(table, plan, engine=engine)


def _files(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


# Broken on purpose


def broken(engine: SparkEngine) -> list[Broken]:
    """What could go wrong on a cluster and nowhere else, and two breaks of a mechanism, seen through executors."""
    stays = Broken(
        "exact tables stay", "the groups that noise was drawn on are not deleted", attack=lambda: support(engine, _kept)
    )
    return [
        Broken("noise 10 % too small", "executors draw with 0.9 of the std", quiet_noise(0.9, engine, RUNS_FOR_NOISE)),
        Broken("threshold one too low", "executors show a group one below it", low_threshold(1.0, engine, RUNS)),
        Broken(
            "every release has one seed",
            "all releases draw the same words",
            attack=lambda: attacks.fresh_noise(partial(_with_seed, engine, lambda: 7)),
        ),
        Broken(
            "every task has one seed",
            "the tasks of a release draw the same words, each release others",
            attack=lambda: two_tasks(engine, partial(_with_seed, engine, lambda: int(SystemEntropy().words(1)[0]))),
        ),
        Broken(
            "rows as files have them",
            "the table keeps the order of the tasks",
            attack=lambda: attacks.order(partial(_as_files, engine), _KINDS),
        ),
        Broken(
            "bounded in each part",
            "a unit is bounded by every task for itself",
            attack=lambda: contributions(_InParts(engine)),
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


@dataclass(frozen=True, slots=True)
class _InParts:
    """Two tasks, each with half of the records, each with the whole bound."""

    engine: SparkEngine

    def histogram(
        self, source: object, query: GroupByQuery, bounds: ContributionBounds, *, seed: int | None = None
    ) -> Histogram:
        """The sum of both parts."""
        assert isinstance(source, pa.Table)
        collected = CollectedSpark(lambda: self.engine)
        rows = source.num_rows
        parts = [
            collected.histogram(source.take(list(range(start, rows, 2))), query, bounds, seed=seed) for start in (0, 1)
        ]
        columns = [
            part.keys.append_column("units", pa.array(part.counts)).append_column(
                "steps", pa.array(part.sums["sum_value"])
            )
            for part in parts
        ]
        merged = pa.concat_tables(columns).group_by(KEY).aggregate([("units", "sum"), ("steps", "sum")])
        counts, steps = (merged.column(f"{name}_sum").to_numpy() for name in ("units", "steps"))
        return Histogram(merged.select([KEY]), counts, bounds, {"sum_value": steps}, query.measures)

    def sketch(self, source: object, query: GroupByQuery, sparsity: int, *, seed: int | None = None) -> Histogram:
        """Not asked for."""
        raise NotImplementedError


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
