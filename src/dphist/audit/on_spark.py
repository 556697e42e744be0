"""The audit of the Spark engine: claims and attacks of the product, run through a session, and copies broken on purpose.

What executors draw is attacked where one release holds many runs. Where all groups share a noise every run would be a release
of its own, some seconds each: there the enumerated laws stand, and the law is the same (`mechanisms.parts`).
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
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
from dphist.audit.claim_parts import DELTA, EPSILON, of_release, released, selections
from dphist.audit.contributions import Outcome, contributions, equal_keys, withstood
from dphist.audit.findings import Claim
from dphist.audit.spark_parts import CollectedSpark, frame_of, is_elsewhere, source_of
from dphist.audit.trials import KEY, UNIT, Layout, one_release, published
from dphist.engines.query import GroupByQuery, Key
from dphist.engines.spark import SparkEngine
from dphist.histogram import ContributionBounds, Histogram
from dphist.noise.entropy import allow_test_entropy
from dphist.noise.testing import SeededEntropy
from dphist.planning import Plan, plan_for
from dphist.planning.top_k import plan_top_k
from dphist.publish.release import prepare
from dphist.publish.released import Release
from dphist.publish.top_k import top_k

RUNS = (20_000, 100_000)
"""On each side, in one release: quick, thorough."""

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
    yield from selections(rounds, rounds.mechanism.delta, Layout(1, 4, 1), Layout(1, 0, 1), engine=engine, runs=RUNS)


def attacks_on(engine: SparkEngine) -> tuple[ImplementationAttack, ...]:
    """The attacks of the product, and one on what Spark leaves behind."""
    publish: Publish = partial(published, engine=engine)
    collected = CollectedSpark(lambda: engine)
    return (
        ImplementationAttack(
            "low-order bits",
            "a published number that only one of two neighbours can have",
            partial(attacks.low_order_bits, publish, RUNS[0]),
        ),
        ImplementationAttack(
            "support and staging", "a key that exists because of one unit stays in a file", partial(support, engine)
        ),
        ImplementationAttack(
            "order of rows",
            "the order of a table tells what its values do not",
            partial(attacks.order, publish, _KINDS),
        ),
        ImplementationAttack(
            "contribution bounds", "one unit changes more than was accounted for", partial(contributions, collected)
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
    )


def support(engine: SparkEngine, publish: Callable[[pa.Table, Plan, SparkEngine], Release] | None = None) -> Outcome:
    """A key of one unit is in no byte that is written, nor in what stays in the staging directory; closed, nothing stays."""
    problems, files = [], 0
    source = table_with_secret()
    release_of = publish or _published
    with tempfile.TemporaryDirectory() as name:
        folder, staging = Path(name) / "out", Path(name) / "staging"
        folder.mkdir()
        staging.mkdir(mode=0o700)
        elsewhere = is_elsewhere(engine)
        watched = engine if elsewhere else replace(engine, staging=str(staging))
        plans = plans_of_each_kind(groups=attacks.GROUPS_WITH_SECRET)
        for kind in _KINDS:
            with release_of(source, plans[kind], watched) as release:
                release.write(folder / f"{kind}.parquet")
                release.report(folder / f"{kind}.html")
                for path in _files(Path(name)):
                    files += 1
                    if SECRET.encode() in path.read_bytes():
                        problems.append(f"the key of one unit is in {path.relative_to(name).parts[0]}, {kind}")
        largest = plan_top_k(k=5, epsilon=1, delta=1e-8, method="correlated")
        top_k(frame_of(engine.spark, source), unit=UNIT, by=KEY, plan=largest, engine=watched).write(folder / "top.csv")
        files += 1
        if SECRET in (folder / "top.csv").read_text(encoding="utf-8"):
            problems.append("the key of one unit is in a list of the largest groups")
        left = len(_files(staging))
        if left:
            problems.append(f"{left} files stay in the staging directory when releases are closed")
    stays = f"{engine.staging} was not looked at" if elsewhere else "no file stays in the staging directory"
    return withstood(problems, f"the key of one unit is in none of {files} files; {stays}")


def _published(table: pa.Table, plan: Plan, engine: SparkEngine) -> Release:
    return published(table, plan, engine=engine)


def _files(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


# Broken on purpose


def broken(engine: SparkEngine) -> list[Broken]:
    """What could go wrong on a cluster and nowhere else, and two breaks of a mechanism, seen through executors."""
    return [
        Broken("noise 10 % too small", "executors draw with 0.9 of the std", quiet_noise(0.9, engine, RUNS)),
        Broken("threshold one too low", "executors show a group one below it", low_threshold(1.0, engine, RUNS)),
        Broken(
            "every task has one seed",
            "all tasks of all releases draw the same words",
            attack=lambda: attacks.fresh_noise(partial(_with_one_seed, engine)),
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
            "exact tables stay",
            "the groups that noise was drawn on are not deleted",
            attack=lambda: support(engine, _kept),
        ),
    ]


class _OneSeed:
    """The same words for whoever asks. (A source for tests cannot be sent to an executor.)"""

    def words(self, count: int) -> NDArray[np.uint64]:
        """From the start, every time."""
        return SeededEntropy(7).words(count)


def _with_one_seed(engine: SparkEngine, table: pa.Table, plan: Plan) -> Release:
    with source_of(engine, table) as source, allow_test_entropy():
        return prepare(source, unit=UNIT, by=KEY, plan=plan, engine=engine).run(entropy=_OneSeed())


def _as_files(engine: SparkEngine, table: pa.Table, plan: Plan) -> Release:
    """Of the committed table, rows in the order in which tasks wrote them."""
    made = published(table, plan, engine=engine)
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


def _kept(table: pa.Table, plan: Plan, engine: SparkEngine) -> Release:
    """A release beside which the exact groups stay."""
    with engine.open(frame_of(engine.spark, table), GroupByQuery(UNIT, (Key(KEY),))) as records:
        engine.new_staging().write(records.histogram(ContributionBounds(2)), "groups", distinct=("key_1",))
    return published(table, plan, engine=engine)
