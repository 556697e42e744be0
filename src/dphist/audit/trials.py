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
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dphist.aggregates import noisy_sums
from dphist.aggregates.total import SumOfUnit
from dphist.audit.judge import Run, Trials
from dphist.audit.laws import Floats, Integers
from dphist.engines.base import Engine
from dphist.engines.duckdb.engine import DuckDBEngine
from dphist.engines.histogram import ContributionBounds, Histogram, LocalGroups
from dphist.engines.query import GroupByQuery, Key
from dphist.planning import Plan
from dphist.planning.plan import NOISY
from dphist.planning.request import Request
from dphist.planning.top_k import TopKPlan
from dphist.run.chosen_bounds import noise_sizes
from dphist.run.continual import Continual
from dphist.run.job import Work, prepare, prepare_selection, privatise
from dphist.run.release import Release
from dphist.run.session import Session
from dphist.run.statistics import stat
from dphist.run.strategies import bounds_of
from dphist.run.top_k import privatise_list
from dphist.run.totals import noisy_units

UNIT, KEY = "unit", "key"
QUERY = GroupByQuery(UNIT, (Key(KEY),))


@dataclass(frozen=True, slots=True)
class Scene:
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
        rows = np.full((2 * n, self.groups * len(values)), np.nan)
        place = keys.astype(np.int64)
        for number, column in enumerate(values):
            rows[place // self.groups, number * self.groups + place % self.groups] = column
        return Trials(rows[:n], rows[n:])


def publish(source: object, plan: Plan, keys: object = None, engine: Engine | None = None) -> Release:
    """A release as a user makes it; an engine that is not the product's own audits the auditor."""
    if not plan.mechanism.counted:
        return prepare_selection(source, unit=UNIT, by=KEY, plan=plan, engine=engine).run()
    return prepare(source, unit=UNIT, by=KEY, plan=plan, keys=keys, engine=engine).run()


def one_release(plan: Plan, scene: Scene, engine: Engine | None = None, *, selection_only: bool = False) -> Run:
    """Many runs in one release. `selection_only` looks at which groups are shown: what is shared by all runs plays no role.

    The attacker sees more than is published: values that are withheld, too, since they follow from the same noise.
    """

    def run(n: int) -> Trials:
        listed, longer = None, plan
        if plan.request.keys is not None:
            size = 2 * n * scene.groups
            mechanism: Any = plan.mechanism
            request = replace(plan.request, keys=size)
            listed = pa.table({KEY: np.arange(size)})
            longer = replace(plan, request=request, mechanism=replace(mechanism, groups=size))
        with (
            patch.object(noisy_sums, "says_nothing", lambda errors, span: np.zeros(len(errors), np.bool_)),
            publish(scene.table(n, _columns(plan)), longer, listed, engine) as release,
        ):
            table = release.table
        values = [noisy_values(table, name).astype(np.float64) for name in plan.value_names]
        return scene.split(n, table.column(KEY).to_numpy(), [np.ones(table.num_rows)] if selection_only else values)

    return run


def noisy_values(table: pa.Table, name: str = "count") -> Any:
    """A column as noise left it: an attacker does not look at what was estimated from it."""
    return table.column(name + NOISY if name + NOISY in table.column_names else name).to_numpy()


def _columns(plan: Plan) -> list[str]:
    return [aggregate.column for aggregate in plan.request.measures if aggregate.column is not None]


def read_columns(release: Release, groups: int) -> Floats:
    """Every column with values, by key."""
    names = release.plan.value_names
    row = np.full((len(names), groups), np.nan)
    for values, name in zip(row, names, strict=True):
        values[release.table.column(KEY).to_numpy()] = noisy_values(release.table, name)
    return row.ravel()


def many_releases(plan: Plan, without: Sequence[int], moved: Sequence[int]) -> Run:
    """One run is one release of a few groups with these counts; the unit under attack is in the groups marked in `moved`."""

    def run(n: int) -> Trials:
        engine, sides = DuckDBEngine(), []
        for table in _neighbours(without, moved, _columns(plan)):
            listed = None if plan.request.keys is None else pa.table({KEY: np.arange(len(without))})
            job = prepare(table, unit=UNIT, by=KEY, plan=plan, keys=listed)
            if plan.request.sketch is not None:
                histogram = engine.sketch(table, job.query, plan.request.sketch, seed=1)
            else:
                histogram = engine.histogram(table, job.query, bounds_of(plan), seed=1)
            sides.append([read_columns(privatise(histogram, plan, job.selection), len(without)) for _ in range(n)])
        return Trials(*map(np.array, sides))

    return run


Coverage = Callable[[LocalGroups, pa.Table], tuple[int, int]]
Noisy = Callable[[tuple[int, int], Request], Sequence[int]]


def many_totals(
    plan: Plan,
    without: Sequence[int],
    moved: Sequence[int],
    coverage: Coverage = LocalGroups.coverage,
    noisy: Noisy = noisy_units,
) -> Run:
    """One run is the numbers of units in some and in no group of one release, whose keys are the same for all runs."""

    def run(n: int) -> Trials:
        sides = []
        for table in _neighbours(without, moved):
            job = prepare(table, unit=UNIT, by=KEY, plan=plan)
            with DuckDBEngine().open(table, job.query, seed=1) as records:
                groups = records.groups(bounds_of(plan))
                released = Work(plan, job.selection).from_groups(groups).table
                exact = coverage(groups, released)
            sides.append([noisy(exact, plan.request) for _ in range(n)])
        return Trials(*map(np.array, sides))

    return run


def sizes_of(table: pa.Table) -> Integers:
    """The exact histogram of how large sums are, as the product counts it."""
    query = GroupByQuery(UNIT, (Key(KEY),), (SumOfUnit("value", 0.0, 1.0),))
    with DuckDBEngine().open(table, query, seed=1) as records:
        return records.sizes(1)


def many_sizes(scale: float, exact: Callable[[pa.Table], Integers]) -> Run:
    """One run is the noisy histogram of sizes, in the buckets of the unit's three groups, where others are, too."""

    def run(n: int) -> Trials:
        values = [1.0, 8.0, 64.0]
        others = {UNIT: [*range(1, 31)], KEY: [i % 3 for i in range(30)], "value": [values[i % 3] for i in range(30)]}
        own = pa.table({UNIT: [0, 0, 0], KEY: [0, 1, 2], "value": values})
        histograms = [exact(part) for part in (pa.table(others), pa.concat_tables([pa.table(others), own]))]
        places = np.flatnonzero(np.maximum(histograms[0], histograms[1]))
        rows = [np.tile(histogram[places], n) for histogram in histograms]
        without, with_ = (noise_sizes(row, scale).reshape(n, -1).astype(np.float64) for row in rows)
        return Trials(without, with_)

    return run


def lists(plan: TopKPlan, without: Sequence[int], moved: Sequence[int], *, least: bool = False) -> Run:
    """One run is one list of the largest groups: noisy counts, or ranks. `least` looks at the smallest of them alone."""
    name = "rank" if plan.mechanism.noise_std is None else "count"

    def row(histogram: Histogram) -> Floats:
        table = privatise_list(histogram, plan).table
        values = np.full(len(without), np.nan)
        values[table.column(KEY).to_numpy()] = noisy_values(table, name)
        return np.array([np.nan if table.num_rows == 0 else np.nanmin(values)]) if least else values

    def run(n: int) -> Trials:
        sides = []
        for table in _neighbours(without, moved):
            bounds = ContributionBounds(plan.max_groups)
            histogram = DuckDBEngine().histogram(table, QUERY, bounds, largest=plan.needed, seed=1)
            sides.append(np.array([row(histogram) for _ in range(n)]))
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
            ranks, _ = session.query(table, by=KEY, k=results // queries)
            row[ranks.column(KEY).to_numpy() + query * len(without)] = ranks.column("rank").to_numpy()
        return row

    def run(n: int) -> Trials:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "session.json"
            Session.start(
                path, unit=UNIT, epsilon=epsilon, delta=delta, results=results, queries=queries, shortlist=len(without)
            )
            fresh, sides = path.read_bytes(), []
            for table in _neighbours(without, moved):
                rows = []
                for _ in range(n):
                    path.write_bytes(fresh)
                    rows.append(one(path, table))
                sides.append(np.array(rows))
        return Trials(*sides)

    return run


def stream(
    scene: Scene,
    engine: Engine | None = None,
    *,
    rounds: int,
    max_groups: int,
    epsilon: float,
    delta: float,
    event: int,
) -> Run:
    """Many groups in one stream; the event is in round `event`, the other units are all in round 1."""

    def run(n: int) -> Trials:
        records = scene.table(n)
        attacked = pa.array(records.column(UNIT).to_numpy() >= 2 * n * scene.base)
        batches = {1: records.filter(pc.invert(attacked))}
        batches[event] = pa.concat_tables([batches.get(event, records.slice(0, 0)), records.filter(attacked)])
        with tempfile.TemporaryDirectory() as folder:
            counts = Continual.start(
                Path(folder) / "stream", unit=UNIT, by=KEY, rounds=rounds, max_groups=max_groups, epsilon=epsilon,
                delta=delta,
            )  # fmt: skip
            sides: list[list[Floats]] = [[], []]
            for number in range(1, rounds + 1):
                table = counts.add(batches.get(number, records.slice(0, 0)), str(number), engine=engine).table
                trials = scene.split(n, table.column(KEY).to_numpy(), [table.column("count").to_numpy()])
                sides[0].append(trials.without)
                sides[1].append(trials.with_)
        return Trials(np.hstack(sides[0]), np.hstack(sides[1]))

    return run


def statistic(scene: Scene, engine: Engine | None = None, *, epsilon: float, delta: float) -> Run:
    """Many bars in one private histogram behind `dphist stat support`."""

    def run(n: int) -> Trials:
        answer = stat(
            "support", scene.table(n), unit=UNIT, column=KEY, lower=0, upper=2 * n * scene.groups, error=0.5,
            epsilon=epsilon, delta=delta, max_records=scene.moved, engine=engine,
        )  # fmt: skip
        return scene.split(n, np.floor(answer.data.values), [answer.data.counts.astype(np.float64)])

    return run


def _neighbours(counts: Sequence[int], moved: Sequence[int], columns: Sequence[str] = ()) -> list[pa.Table]:
    """Groups of so many units, each unit in one of them; and the same with one more unit, in the groups marked.

    Columns of values are 1 for that unit and 0 else.
    """
    keys, own, tables = np.repeat(np.arange(len(counts)), counts), np.flatnonzero(np.array(moved)), []
    for extra in (own[:0], own):
        units = np.append(np.arange(len(keys)), np.full(len(extra), len(keys)))
        value = np.repeat([0.0, 1.0], [len(keys), len(extra)])
        tables.append(pa.table({UNIT: units, KEY: np.append(keys, extra), **dict.fromkeys(columns, value)}))
    return tables
