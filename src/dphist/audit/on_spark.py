"""The audit of the Spark engine: claims of the product and attacks on it, run through a session.

What executors draw is attacked where one release holds many runs. Where all groups share a noise every run would be a release
of its own, some seconds each: there the enumerated laws stand, and the law is the same (`mechanisms.parts`).
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from dphist.audit import attacks
from dphist.audit.attacks import SECRET, ImplementationAttack, Publish, plans_of_each_kind, table_with_secret
from dphist.audit.claim_parts import DELTA, EPSILON, of_release, released, selections, whole_budget
from dphist.audit.contributions import Outcome, contributions, equal_keys, withstood
from dphist.audit.findings import Claim
from dphist.audit.spark_parts import CollectedSpark, frame_of, is_elsewhere
from dphist.audit.trials import KEY, UNIT, Layout, one_release, published
from dphist.engines.spark.engine import SparkEngine
from dphist.engines.spark.session import SETTINGS
from dphist.lists.top_k import top_k
from dphist.planning import Plan, plan_for
from dphist.planning.top_k import plan_top_k
from dphist.publish.result import Release

RUNS = (20_000, 100_000)
"""On each side, in one release: quick, thorough."""

RUNS_FOR_NOISE = (60_000, 100_000)
"""Fewer would miss noise that is 10 % too small every other time."""

KINDS = ("gaussian", "correlated", "adaptive")
"""Plans that take different roads on Spark: one pass, a noise that all tasks share, rounds."""


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
            partial(attacks.order, publish, KINDS),
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
        for kind in KINDS:
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
_BATCH = "spark.sql.execution.arrow.maxRecordsPerBatch"


@contextmanager
def _divided(engine: SparkEngine) -> Iterator[None]:
    """Groups are written in two files, which two tasks read, in batches of one size."""
    conf = engine.spark.conf
    before, rows = {name: conf.get(name, None) for name in _TWO_TASKS}, SETTINGS[_BATCH]
    try:
        for name, value in _TWO_TASKS.items():
            conf.set(name, value)
        SETTINGS[_BATCH] = "64"  # a run pins it; tasks of different length would use equal words differently
        yield
    finally:
        SETTINGS[_BATCH] = rows
        for name, old in before.items():
            if old is None:
                conf.unset(name)
            else:
                conf.set(name, old)


def _published(table: pa.Table, plan: Plan, engine: SparkEngine) -> Release:
    return published(table, plan, engine=engine)


def _files(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]
