"""Attacks on the implementation: what a formula cannot be wrong about, but a program can.

Each attack takes the part it attacks as an argument, so that a broken part can be put in its place. It returns whether the
part withstood, and what was tried.
"""

from __future__ import annotations

import itertools
import json
import tempfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dphist.aggregates import Measure
from dphist.audit import ledger_attack
from dphist.audit.contributions import Bounding, Outcome, contributions, equal_keys, withstood
from dphist.audit.findings import Claim
from dphist.audit.locality import locality
from dphist.audit.sampled import BITS_ALPHA, sampled
from dphist.audit.trials import KEY, UNIT, Layout, published
from dphist.engines.duckdb.engine import DuckDBEngine
from dphist.engines.query import GroupByQuery, Key
from dphist.errors import DphistError
from dphist.histogram import ContributionBounds
from dphist.lists.continual import Continual
from dphist.lists.session import Session
from dphist.lists.top_k import release_largest
from dphist.planning import Plan, plan_for
from dphist.planning.top_k import METHODS, plan_top_k
from dphist.publish.result import Release

Publish = Callable[[pa.Table, Plan], Release]


@dataclass(frozen=True, slots=True)
class ImplementationAttack:
    """A name, what it would mean if it succeeded, and the attack on the real product."""

    name: str
    about: str
    run: Callable[[], Outcome]


def shown(publish: Publish, table: pa.Table, plan: Plan) -> pa.Table:
    """What a release shows; nothing of it stays anywhere."""
    with publish(table, plan) as made:
        return made.table


# Low-order bits


def low_order_bits(publish: Publish = published, n: int = 40_000) -> Outcome:
    """Every published count lies on the public lattice, and what is left of it below 1 tells nothing about the true count."""
    plan = plan_for(epsilon=1, delta=0.2, max_groups=1, mechanism="sparse-gaussian", noise_std=3.0)
    layout = Layout(groups=1, base=20, moved=1)
    table = shown(publish, layout.table(n), plan)
    counts = table.column("count").to_numpy()
    bits = plan.mechanism.lattice_bits
    off = np.flatnonzero(np.ldexp(counts, bits) % 1)
    if len(off):
        return False, f"{len(off):,} of {len(counts):,} counts are not multiples of 2^-{bits}"
    fractions = layout.split(n, table.column(KEY).to_numpy(), [counts % 1])
    found = sampled(Claim("fractions", "", "", lambda _: 0.0, None, lambda _: fractions), n, BITS_ALPHA)
    return found.holds, f"{len(counts):,} counts on the lattice of 2^-{bits}; their fractions tell {found.attacked:.2g}"


# Support: keys that exist in one data set only

SECRET = "zz-secret-key-zz"
GROUPS_WITH_SECRET = 21


def table_with_secret() -> pa.Table:
    """Twenty groups of 500 units each, and one that a single unit is in."""
    keys = [*(f"public-{i}" for i in range(GROUPS_WITH_SECRET - 1) for _ in range(500)), SECRET]
    return pa.table({UNIT: np.arange(len(keys)), KEY: keys})


def support(write: Callable[[pa.Table, Path], Iterable[Path]] | None = None) -> Outcome:
    """A key below the threshold is in no byte of anything that is written: table, metadata, report, dictionary of a column."""
    plain = table_with_secret()
    problems, files = [], 0
    with tempfile.TemporaryDirectory() as folder:
        for source in (plain, plain.set_column(1, KEY, plain.column(KEY).dictionary_encode())):
            for path in (write or _write_everything)(source, Path(folder)):
                files += 1
                if SECRET.encode() in path.read_bytes():
                    problems.append(f"the key of one unit is in {path.name}")
    return withstood(problems, f"the key of one unit is in none of {files} files")


def _write_everything(source: pa.Table, folder: Path) -> Iterator[Path]:
    """Every kind of file that a user can write from one table."""
    for name, plan in plans_of_each_kind(groups=GROUPS_WITH_SECRET).items():
        release = published(source, plan)
        for ending in ("parquet", "csv", "json"):
            release.write(folder / f"{name}.{ending}", overwrite=True)
        release.report(folder / f"{name}.html", overwrite=True)
    counted = source.group_by(KEY).aggregate([(UNIT, "count")]).rename_columns([KEY, "units"])
    for method in METHODS:
        largest = plan_top_k(k=5, epsilon=1, delta=1e-8, method=method)
        found = release_largest(counted, count="units", plan=largest, all_groups=True)
        found.write(folder / f"{method}.parquet", overwrite=True)
    yield from (path for path in folder.iterdir() if path.is_file())


def plans_of_each_kind(groups: int) -> dict[str, Plan]:
    """One plan of each kind, with a budget at which groups of hundreds are released and groups of one are not."""
    budget: dict[str, Any] = {"epsilon": 1, "delta": 1e-9}
    return {
        "gaussian": plan_for(**budget, max_groups=2, mechanism="sparse-gaussian"),
        "laplace": plan_for(**budget, max_groups=2, mechanism="laplace"),
        "correlated": plan_for(**budget, sparsity=groups, mechanism="correlated-gaussian"),
        "discrete": plan_for(**budget, max_groups=2, noise="discrete"),
        "adaptive": plan_for(**budget, mechanism="adaptive"),
        "sketch": plan_for(**budget, sketch=groups),
    }


# Order


def order(publish: Publish = published, names: Iterable[str] | None = None) -> Outcome:
    """The rows of a release are in an order that their own published values give, whatever order the records came in."""
    rng = np.arange(4000)
    problems, tried = [], 0
    base = pa.table({UNIT: rng, KEY: (rng * 7919) % 40})
    plans = plans_of_each_kind(groups=40)
    for name in names or plans:
        for table in (base, base.take(pa.array(rng[::-1])), base.sort_by(KEY)):
            tried += 1
            released = shown(publish, table, plans[name])
            ordered = released.sort_by([("count", "descending"), (KEY, "ascending")])
            if not released.equals(ordered):
                problems.append(f"the rows of a {name} release are not sorted by count and key")
    return withstood(problems, f"the rows of {tried} releases are sorted by noisy count, then key")


def sketch_moves(engine: Bounding | None = None) -> Outcome:
    """One unit moves a sketch by a vector of zeros and ones or its negative, for many seeds of the blocks."""
    rows = np.arange(300)
    table = pa.table({UNIT: rows % 60, KEY: (rows * rows) % 17})
    query = GroupByQuery(UNIT, (Key(KEY),))
    worker, problems, tried = engine or DuckDBEngine(), [], 0
    for seed, unit in itertools.product(range(4), range(5)):
        sides = []
        for part in (table, table.filter(pc.not_equal(table.column(UNIT), unit))):
            found = worker.sketch(part, query, 4, seed=seed)
            sides.append(dict(zip(found.keys.column(0).to_pylist(), found.counts.tolist(), strict=True)))
        moves = {sides[0].get(key, 0) - sides[1].get(key, 0) for key in {*sides[0], *sides[1]}}
        tried += 1
        if not (moves <= {0, 1} or moves <= {0, -1}):
            problems.append(f"one unit moves a sketch by {sorted(moves)}")
    return withstood(problems, f"{tried} units taken out of sketches")


# Sums


def sums(engine: Bounding | None = None) -> Outcome:
    """Sums saturate instead of wrapping, lose no integer, and do not depend on the order of records."""
    worker, problems = engine or DuckDBEngine(), []
    wide = Measure("sum_value", "sum", "value", -(2.0**30), 2.0**30, 0.0, 1.0, 2**30)
    query = GroupByQuery(UNIT, (Key(KEY),), measures=(wide,))
    units = 40_000
    large = pa.table({UNIT: np.arange(units), KEY: np.zeros(units, np.int64), "value": np.full(units, 2.0**30 - 1)})
    found = int(worker.histogram(large, query, ContributionBounds(1)).sums["sum_value"][0])
    if found != units * (2**30 - 1):
        problems.append(f"a sum of {units:,} whole numbers is off by {units * (2**30 - 1) - found}")
    values = np.where(np.arange(3000) % 3 == 0, 1e16, np.where(np.arange(3000) % 3 == 1, -1e16, 0.25))
    mixed = pa.table({UNIT: np.zeros(3000, np.int64), KEY: np.zeros(3000, np.int64), "value": values})
    orders = {
        int(worker.histogram(mixed.take(pa.array(places)), query, ContributionBounds(1)).sums["sum_value"][0])
        for places in (np.arange(3000), np.arange(3000)[::-1], np.argsort(values, kind="stable"))
    }
    if len(orders) > 1:
        problems.append("the sum of a unit's records depends on their order")
    return withstood(problems, f"{units:,} sums of 2^30 - 1 are exact; 1e16 - 1e16 + 0.25 is the same in three orders")


# Randomness and replay


def fresh_noise(publish: Publish = published) -> Outcome:
    """Two releases of the same records share no noise: else the difference of two neighbours would show the unit."""
    plan = plan_for(epsilon=1, delta=1e-6, max_groups=1, mechanism="sparse-gaussian")
    table = Layout(groups=1, base=100, moved=1).table(1000).slice(0, 100 * 2000)
    first, second = (shown(publish, table, plan).sort_by(KEY).column("count").to_numpy() for _ in range(2))
    same = float(np.mean(first == second))
    spread = float(np.corrcoef(first, second)[0, 1])
    # alpha < 1e-9: 2,000 independent noises have a correlation within 6/sqrt(2000)
    holds = same < 0.01 and abs(spread) < 0.14
    return holds, f"of 2,000 noises {same:.1%} repeat in a second release; correlation {spread:+.3f}"


def replay() -> Outcome:
    """Spent budgets stay spent: a session that is used up, a batch sent twice, a plan edited to promise more than it pays."""
    problems: list[str] = []
    table = pa.table({UNIT: np.arange(400), KEY: np.arange(400) % 4})
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        session = Session.start(folder / "s.json", unit=UNIT, epsilon=1, delta=1e-3, results=2, queries=1, shortlist=4)
        session.query(table, by=KEY, k=2)
        _must_fail(
            lambda: Session(folder / "s.json").query(table, by=KEY, k=1), "a session that is used up answers", problems
        )
        edited = json.loads((folder / "s.json").read_text())
        edited["account"]["mechanism"]["symbols"] = 100
        (folder / "s.json").write_text(json.dumps(edited))
        _must_fail(lambda: Session(folder / "s.json"), "a session edited to hold more results is opened", problems)
        stream = Continual.start(
            folder / "c", unit=UNIT, by=KEY, rounds=4, max_groups=1, epsilon=1, delta=1e-3
        )  # fmt: skip
        first = stream.add(table, "monday").table
        _must_fail(lambda: stream.add(table, "monday"), "a batch is counted twice", problems)
        if not Continual(folder / "c").show().table.equals(first):
            problems.append("showing a round again draws new noise")
        plan_for(epsilon=1, delta=1e-6, max_groups=2).save(folder / "p.json")
        data = json.loads((folder / "p.json").read_text())
        for change in ({"noise_std": 1.0}, {"threshold": 2.0}, {"max_groups": 1}):
            data["mechanism"] = {**data["mechanism"], **change}
            (folder / "p.json").write_text(json.dumps(data))
            _must_fail(lambda: Plan.load(folder / "p.json"), f"a plan edited to {change} is loaded", problems)
    return withstood(
        problems, "a spent session, an edited session, a batch twice, a round shown twice, three edited plans"
    )


def _must_fail(work: Callable[[], object], problem: str, problems: list[str]) -> None:
    try:
        work()
    except DphistError:
        return
    problems.append(problem)


def timing() -> Outcome:
    """Not an attack that is withstood: a limit that is stated."""
    return True, "known limit: the time of a run and the number of its rows are not hidden (docs/limits.md)"


ATTACKS: tuple[ImplementationAttack, ...] = (
    ImplementationAttack(
        "low-order bits", "a published number that only one of two neighbours can have", low_order_bits
    ),
    ImplementationAttack("support", "a key that exists because of one unit shows in a file", support),
    ImplementationAttack("order of rows", "the order of a table tells what its values do not", order),
    ImplementationAttack("contribution bounds", "one unit changes more than was accounted for", contributions),
    ImplementationAttack("equal keys and units", "one person or group under two names, or two under one", equal_keys),
    ImplementationAttack("locality", "one unit's value changes how another's is read", locality),
    ImplementationAttack("sketches", "one unit moves counters up and down at once", sketch_moves),
    ImplementationAttack("sums", "a sum that overflows, loses integers or depends on order", sums),
    ImplementationAttack("fresh noise", "noise that repeats cancels between two releases", fresh_noise),
    ImplementationAttack("replay", "a budget that is spent twice", replay),
    ImplementationAttack("ledger", "a budget in a ledger that is spent twice", ledger_attack.replay),
    ImplementationAttack("timing", "time tells the size of the data", timing),
)
