"""Runs of the code that people run, on two neighbours: what was published, one row per run.

Where noise is independent from group to group, one release holds many runs: disjoint sets of groups with disjoint units, half
of them with the unit under attack and half without. Where noise is shared by all groups, every run is a release of its own,
from the histograms that the engine made of the two tables.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute

from dphist.audit.findings import Floats, Trials
from dphist.audit.spark_parts import source_of
from dphist.engines.duckdb.engine import DuckDBEngine
from dphist.engines.query import GroupByQuery, Key
from dphist.engines.spark.engine import SparkEngine
from dphist.histogram import ContributionBounds, Histogram
from dphist.lists.continual import Continual
from dphist.lists.session import Session
from dphist.lists.top_k import privatise_largest
from dphist.mechanisms import GaussianRecords, KnownGroups, LaplaceRecords
from dphist.planning import Plan
from dphist.planning.top_k import TopKPlan
from dphist.publish.privatise import privatise
from dphist.publish.result import Release
from dphist.publish.run import prepare
from dphist.publish.stat import stat

Run = Callable[[int], Trials]

UNIT, KEY = "unit", "key"


@dataclass(frozen=True, slots=True)
class Layout:
    """One run: `groups` groups that `base` units share, and the unit under attack in the first `moved` of them."""

    groups: int
    base: int
    moved: int

    def table(self, n: int, columns: Sequence[str] = ()) -> pa.Table:
        """2n runs: the first n without the unit, the others with it. Columns of values are 1 for the unit and 0 else."""
        runs = 2 * n
        shared = np.arange(runs * self.groups * self.base)
        group = shared // max(self.base, 1)
        unit = group // self.groups * self.base + shared % max(self.base, 1)
        first = n * self.groups
        attacked = np.arange(n * self.moved)
        key = first + attacked // self.moved * self.groups + attacked % self.moved
        own = runs * self.base + attacked // self.moved
        units, keys = np.concatenate([unit, own]), np.concatenate([group, key])
        value = np.repeat([0.0, 1.0], [len(unit), len(own)])
        return pa.table({UNIT: units, KEY: keys, **dict.fromkeys(columns, value)})

    def split(self, n: int, keys: Floats, values: Sequence[Floats]) -> Trials:
        """Published values, by key, as one row per run."""
        found = np.full((2 * n, self.groups * len(values)), np.nan)
        place = keys.astype(np.int64)
        for number, column in enumerate(values):
            found[place // self.groups, number * self.groups + place % self.groups] = column
        return Trials(found[:n], found[n:])


def published(
    source: object, plan: Plan, keys: object = None, engine: DuckDBEngine | SparkEngine | None = None
) -> Release:
    """A release as a user makes it, here or on Spark; an engine that is not the product's own audits the auditor."""
    if isinstance(engine, SparkEngine) and isinstance(source, pa.Table):
        with source_of(engine, source) as readable:
            return prepare(readable, unit=UNIT, by=KEY, plan=plan, keys=keys, engine=engine).run()
    job = prepare(source, unit=UNIT, by=KEY, plan=plan, keys=keys)
    return (job if engine is None else replace(job, engine=engine)).run()


def one_release(
    plan: Plan, layout: Layout, *, engine: DuckDBEngine | SparkEngine | None = None, selection_only: bool = False
) -> Run:
    """Many runs in one release. `selection_only` looks at which groups are shown: what is shared by all runs plays no role."""
    columns = [a.aggregate.column for a in plan.aggregates if a.aggregate.column is not None]

    def run(n: int) -> Trials:
        listed = None
        asked = plan
        if plan.request.keys is not None:
            size = 2 * n * layout.groups
            listed = list(range(size))
            assert isinstance(plan.mechanism, KnownGroups)
            longer = replace(plan.mechanism, groups=size)
            asked = replace(plan, request=replace(plan.request, keys=size), mechanism=longer)
        with published(layout.table(n, columns), asked, listed, engine) as made:
            table = made.table
        names = [name for name in plan.value_names if name in table.column_names]
        values = [table.column(name).to_numpy().astype(np.float64) for name in names]
        if selection_only:
            values = [np.ones(table.num_rows)]
        return layout.split(n, table.column(KEY).to_numpy(), values)

    return run


def many_releases(plan: Plan, without: Sequence[int], moved: Sequence[int], *, seed: int = 1) -> Run:
    """One run is one release of a few groups with these counts; the unit under attack is in the groups marked in `moved`."""
    labels = np.arange(len(without))
    tables = [_counts_table(without, None), _counts_table(without, moved)]
    query = GroupByQuery(UNIT, (Key(KEY),))

    def run(n: int) -> Trials:
        engine = DuckDBEngine()
        sides = []
        for table in tables:
            job = prepare(
                table, unit=UNIT, by=KEY, plan=plan, keys=None if plan.request.keys is None else labels.tolist()
            )
            if plan.request.sketch is not None:
                histogram = engine.sketch(table, query, plan.request.sketch, seed=seed)
            else:
                bounds = ContributionBounds(plan.request.groups_per_unit)
                histogram = engine.histogram(table, job.query, bounds, seed=seed)
            found = np.full((n, len(without)), np.nan)
            for row in found:
                shown = privatise(histogram, plan, job.request).table
                row[shown.column(KEY).to_numpy()] = shown.column("count").to_numpy()
            sides.append(found)
        return Trials(*sides)

    return run


def largest_groups(plan: TopKPlan, without: Sequence[int], moved: Sequence[int]) -> Run:
    """One run is one list of the largest groups: noisy counts, or ranks."""
    query = GroupByQuery(UNIT, (Key(KEY),))

    def run(n: int) -> Trials:
        sides = []
        for table in (_counts_table(without, None), _counts_table(without, moved)):
            histogram = DuckDBEngine().histogram(table, query, ContributionBounds(plan.max_groups), seed=1)
            found = np.full((n, len(without)), np.nan)
            for row in found:
                shown = privatise_largest(histogram, plan).table
                row[shown.column(KEY).to_numpy()] = shown.column(
                    "rank" if plan.method == "ranked" else "count"
                ).to_numpy()
            sides.append(found)
        return Trials(*sides)

    return run


def sessions(
    without: Sequence[int], moved: Sequence[int], *, epsilon: float, delta: float, results: int, queries: int
) -> Run:
    """One run is a whole session: a fresh copy of its file, and all of its queries about the same table."""

    def one(path: Path, table: pa.Table) -> Floats:
        row = np.full(len(without) * queries, np.nan)
        session = Session(path)
        for query in range(queries):
            shown, _ = session.query(table, by=KEY, k=results // queries)
            row[shown.column(KEY).to_numpy() + query * len(without)] = shown.column("rank").to_numpy()
        return row

    def run(n: int) -> Trials:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "session.json"
            Session.start(
                path, unit=UNIT, epsilon=epsilon, delta=delta, results=results, queries=queries, shortlist=len(without)
            )
            fresh = path.read_bytes()
            sides = []
            for table in (_counts_table(without, None), _counts_table(without, moved)):
                rows = []
                for _ in range(n):
                    path.write_bytes(fresh)
                    rows.append(one(path, table))
                sides.append(np.array(rows))
        return Trials(*sides)

    return run


def stream(layout: Layout, *, rounds: int, max_groups: int, epsilon: float, delta: float, event: int) -> Run:
    """Many groups in one stream; the event is in round `event`, the other units are all in round 1."""

    def run(n: int) -> Trials:
        everything = layout.table(n)
        attacked = pa.array(everything.column(UNIT).to_numpy() >= 2 * n * layout.base)
        others = everything.filter(pa.compute.invert(attacked))
        with tempfile.TemporaryDirectory() as folder:
            made = Continual.start(
                Path(folder) / "stream", unit=UNIT, by=KEY, rounds=rounds, max_groups=max_groups, epsilon=epsilon,
                delta=delta,
            )  # fmt: skip
            sides: list[list[Floats]] = [[], []]
            for number in range(1, rounds + 1):
                batch = pa.concat_tables(
                    [*([others] if number == 1 else []), *([everything.filter(attacked)] if number == event else [])]
                    or [everything.slice(0, 0)]
                )
                shown = made.add(batch, str(number)).table
                trials = layout.split(n, shown.column(KEY).to_numpy(), [shown.column("count").to_numpy()])
                sides[0].append(trials.without)
                sides[1].append(trials.with_)
        return Trials(np.hstack(sides[0]), np.hstack(sides[1]))

    return run


def statistic(layout: Layout, *, epsilon: float, delta: float) -> Run:
    """Many bars in one private histogram behind `dphist stat support`."""

    def run(n: int) -> Trials:
        bars = 2 * n * layout.groups
        answer = stat(
            "support", layout.table(n), unit=UNIT, column=KEY, lower=0, upper=bars, error=0.5, epsilon=epsilon,
            delta=delta, max_records=layout.moved,
        )  # fmt: skip
        return layout.split(n, np.floor(answer.data.values), [answer.data.counts.astype(np.float64)])

    return run


def records(made: LaplaceRecords | GaussianRecords, layout: Layout) -> Run:
    """Counts of records have no command of their own: the mechanism's own `perturb` on many groups."""

    def run(n: int) -> Trials:
        counts = np.full((2 * n, layout.groups), layout.base, np.int64)
        counts[n:, : layout.moved] += made.max_per_group
        kept = made.perturb(counts.ravel())
        return layout.split(n, kept.index.astype(np.float64), [kept.counts])

    return run


def _counts_table(counts: Sequence[int], moved: Sequence[int] | None) -> pa.Table:
    """Units 0, 1, 2, ... of which group i holds the first counts[i]; and one more unit in the groups marked."""
    keys = np.repeat(np.arange(len(counts)), counts)
    units = np.concatenate([np.arange(count) for count in counts])
    if moved is not None:
        own = np.flatnonzero(np.array(moved))
        keys, units = np.append(keys, own), np.append(units, np.full(len(own), max(counts) + 1))
    return pa.table({UNIT: units.astype(np.int64), KEY: keys.astype(np.int64)})


def histogram_of(counts: Sequence[int], max_groups: int | None = None) -> Histogram:
    """A histogram with these counts under the keys 0, 1, 2, ..."""
    keys = pa.table({KEY: np.arange(len(counts))})
    return Histogram(keys, np.array(counts, np.int64), ContributionBounds(max_groups))
