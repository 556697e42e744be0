"""Attacks on the implementation: what a formula cannot be wrong about, but a program can.

Each attack takes the part it attacks as an argument, so that a broken part can be put in its place. It returns whether the
part withstood, and what was tried. Those on what an engine counts are in `bounding`.
"""

from __future__ import annotations

import json
import sqlite3
import tempfile
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Final, NoReturn

import numpy as np
import pyarrow as pa

from dphist.audit import bounding, voting
from dphist.audit.bounding import FromPairs, Outcome, outcome
from dphist.audit.claims import COLUMNS
from dphist.audit.judge import BITS_ALPHA, Claim, attack_runs
from dphist.audit.trials import KEY, UNIT, Scene, noisy_values, publish
from dphist.engines.base import Engine
from dphist.engines.spark.engine import SparkEngine, is_here
from dphist.engines.spark.session import SETTINGS
from dphist.errors import DphistError
from dphist.ledger import DataSet, Ledger
from dphist.ledger.accountant import price
from dphist.noise.entropy import allow_test_entropy, drawing_from
from dphist.planning import Plan, plan_for
from dphist.planning.plan import STD_ERROR
from dphist.planning.top_k import METHODS, plan_top_k
from dphist.privacy.composition import rho_of_pure
from dphist.run.continual import Continual
from dphist.run.job import prepare, release
from dphist.run.release import Release
from dphist.run.session import Session
from dphist.run.top_k import release_largest, top_k

Publish = Callable[[pa.Table, Plan], Release]


@dataclass(frozen=True, slots=True)
class ImplementationAttack:
    """A name, what it would mean if it succeeded, and the attack on the real product."""

    name: str
    about: str
    run: Callable[[], Outcome]


def attacks_on(engine: Engine, runs: int = 40_000, kinds: Iterable[str] | None = None) -> list[ImplementationAttack]:
    """What any engine must withstand; `kinds` are the plans that take different roads on it, all if None."""
    on_engine: Publish = partial(publish, engine=engine)
    attacks: list[tuple[str, str, Callable[[], Outcome]]] = [
        ("low-order bits", "a published number that only one of two neighbours can have",
         partial(low_order_bits, on_engine, runs)),
        ("order of rows", "the order of a table tells what its values do not", partial(order, on_engine, kinds)),
        ("noise on every number", "a number is published as it is", partial(noise_everywhere, on_engine, kinds)),
        ("strictly above", "a count at the threshold is shown", partial(strictly_above, engine)),
        ("sparsity", "more groups are shown than the noise was accounted for", partial(sparsity, on_engine)),
        ("contribution bounds", "one unit changes more than was accounted for", partial(bounding.contributions, engine)),
        ("bounds, pairs written", "the same, counted from pairs that are written down",
         partial(bounding.contributions, FromPairs(engine))),
        ("equal keys and units", "one person or group under two names, or two under one",
         partial(bounding.equal_keys, engine)),
        ("sketches", "one unit moves counters up and down at once", partial(bounding.sketch_moves, engine)),
        ("sums", "a sum that overflows, loses integers or depends on order", partial(bounding.sums, engine)),
        ("fresh noise", "noise that repeats cancels between two releases", partial(fresh_noise, on_engine)),
        ("charge first", "noise is drawn before the budget is charged", partial(charge_first, engine)),
    ]  # fmt: skip
    return [ImplementationAttack(*attack) for attack in attacks]


def attacks_here(engine: Engine) -> list[ImplementationAttack]:
    """What concerns files and states of this machine, with the limit that is stated."""
    limit = "known limit: the time of a run and the number of its rows are not hidden (docs/limits.md)"
    attacks: list[tuple[str, str, Callable[[], Outcome]]] = [
        ("support", "a key that exists because of one unit shows in a file", support),
        ("locality", "one unit's value changes how another's is read", partial(bounding.locality, engine)),
        ("one group, one vote", "one unit moves more than one vote", partial(voting.one_vote, engine)),
        ("replay", "a budget that is spent twice", replay),
        ("ledger", "a budget in a ledger that is spent twice, or not at all", ledger),
        ("timing", "time tells the size of the data", lambda: (True, limit)),
    ]
    return [ImplementationAttack(*attack) for attack in attacks]


def attacks_on_cluster(engine: SparkEngine) -> list[ImplementationAttack]:
    """What only a cluster can get wrong. Files are looked at where they are on this machine."""
    files = ("support and staging", "a key that exists because of one unit stays in a file", partial(staging, engine))
    tasks = ("noise of two tasks", "noise that repeats cancels between two groups")
    here = engine.staging is None or is_here(engine.staging)
    return [
        *([ImplementationAttack(*files)] if here else []),
        ImplementationAttack(*tasks, partial(two_tasks, engine, partial(publish, engine=engine))),
    ]


def table_of(publish_: Publish, records: pa.Table, plan: Plan) -> pa.Table:
    """What a release shows; nothing of it stays anywhere."""
    with publish_(records, plan) as published:
        return published.table


def plans_of_each_kind(groups: int, epsilon: float = 1.0, columns: dict[str, Any] | None = None) -> dict[str, Plan]:
    """One plan of each kind, with a budget at which groups of hundreds are released and groups of one are not."""
    budget: dict[str, Any] = {"epsilon": epsilon, "delta": 1e-9}
    more = columns or {}
    return {
        "gaussian": plan_for(**budget, **more, max_groups=2, mechanism="sparse-gaussian"),
        "laplace": plan_for(**budget, **more, max_groups=2, mechanism="laplace"),
        "correlated": plan_for(**budget, **more, sparsity=groups, mechanism="correlated-gaussian"),
        "discrete": plan_for(**budget, max_groups=2, noise="discrete"),
        "adaptive": plan_for(**budget, **more, mechanism="adaptive"),
        "sketch": plan_for(**budget, sketch=groups),
    }


# Published numbers


def low_order_bits(publish_: Publish = publish, n: int = 40_000) -> Outcome:
    """Every published count lies on the public lattice, and what is left of it below 1 tells nothing about the true count."""
    plan = plan_for(epsilon=1, delta=0.2, max_groups=1, mechanism="sparse-gaussian", noise_std=3.0)
    scene = Scene(groups=1, base=20, moved=1)
    table = table_of(publish_, scene.table(n), plan)
    counts = noisy_values(table)
    bits = plan.mechanism.lattice_bits
    off = np.flatnonzero(np.ldexp(counts, bits) % 1)
    if len(off):
        return False, f"{len(off):,} of {len(counts):,} counts are not multiples of 2^-{bits}"
    fractions = scene.split(n, table.column(KEY).to_numpy(), [counts % 1])
    finding = attack_runs(Claim("fractions", "", "", lambda _: 0.0, None, lambda _: fractions), n, BITS_ALPHA)
    return (
        finding.holds,
        f"{len(counts):,} counts on the lattice of 2^-{bits}; their fractions tell {finding.attacked:.2g}",
    )


def order(publish_: Publish = publish, kinds: Iterable[str] | None = None) -> Outcome:
    """The rows of a release are in an order that their own published values give, whatever order the records came in."""
    rows, tried = np.arange(4000), 0
    base = pa.table({UNIT: rows, KEY: (rows * 7919) % 40})
    plans = plans_of_each_kind(groups=40)
    for kind in kinds or plans:
        for records in (base, base.take(pa.array(rows[::-1])), base.sort_by(KEY)):
            tried += 1
            table = table_of(publish_, records, plans[kind])
            if not table.equals(table.sort_by([("count", "descending"), (KEY, "ascending")])):
                return False, f"the rows of a {kind} release are not sorted by count and key"
    return True, f"the rows of {tried} releases are sorted by noisy count, then key"


def noise_everywhere(publish_: Publish = publish, kinds: Iterable[str] | None = None) -> Outcome:
    """No column of 60 groups is near the truth too often, nor is a total the number of units.

    A value is within a fiftieth of its std of the truth with a chance of at most 5 %: that 20 of 60 are has one below 10^-9.
    Each group is nine standard deviations above every threshold: noise that all groups share could hide half of them at once.
    A total of this noise is right with a chance of 3e-6.
    """
    groups, size = 60, 4_000
    units = np.arange(groups * size)
    values = {"value": (units % 2).astype(np.float64), "other": (units % 4 == 0).astype(np.float64)}
    values |= {"third": values["other"], "fourth": values["other"]}
    records = pa.table({UNIT: units, KEY: units // size, **values})
    truth = {"count": size, "sum_value": size / 2, "mean_other": 0.25, "rows": size}
    truth |= {"variance_third": 0.1875, "count_of_fourth": size}
    plans, problems, numbers = plans_of_each_kind(groups, 0.3, COLUMNS), [], 0
    for kind in kinds or plans:
        table = table_of(publish_, records, plans[kind])
        for name in plans[kind].value_names:
            column, std = noisy_values(table, name), table.column(name + STD_ERROR).to_numpy()
            numbers += len(column)
            if len(column) < groups // 2 or np.count_nonzero(np.abs(column - truth[name]) < std / 50) >= 20:
                problems.append(f"{name} of a {kind} release has no noise")
        if kind in ("gaussian", "adaptive"):
            tiny: dict[str, Any] = {"epsilon": 1e-4, "delta": 0.3, "total": True}
            tiny |= {"mechanism": kind} if kind == "adaptive" else {"max_groups": 1}
            plan = plan_for(**tiny)
            with publish_(records, plan) as published:
                if published.total == len(units):
                    problems.append(f"the total of a {kind} release has no noise")
    return outcome(problems, f"{numbers:,} numbers in all kinds of columns, and the totals, differ from the true ones")


def strictly_above(engine: Engine) -> Outcome:
    """Of 2,000 groups whose counts are the threshold, a whole number, none is shown with it: by a release or a stream."""
    problems = []
    with tempfile.TemporaryDirectory() as folder:
        start = partial(Continual.start, unit=UNIT, by=KEY, max_groups=1, epsilon=1, delta=1e-3)
        stream = start(Path(folder) / "c", rounds=1)
        counts = (
            stream.add(_groups_of(stream.mechanism.threshold), "one", engine=engine).table.column("count").to_numpy()
        )
        shown = [("a stream", counts, stream.mechanism.threshold)]
    plans = {
        "laplace": plan_for(epsilon=1, delta=1e-3, max_groups=1, mechanism="laplace"),
        "discrete noise": plan_for(epsilon=1, delta=1e-3, max_groups=1, noise="discrete"),
    }
    for name, plan in plans.items():
        threshold = int(plan.mechanism.threshold or 0)
        table = table_of(partial(publish, engine=engine), _groups_of(threshold), plan)
        shown.append((name, noisy_values(table), threshold))
    for name, column, threshold in shown:
        if min(column, default=threshold) <= threshold:
            problems.append(f"{name} shows a count of {threshold}, the threshold")
    return outcome(problems, f"{sum(len(column) for _, column, _ in shown):,} counts are all above their thresholds")


def _groups_of(size: int, groups: int = 2_000) -> pa.Table:
    units = np.arange(groups * size)
    return pa.table({UNIT: units, KEY: units // size})


def sparsity(publish_: Publish = publish) -> Outcome:
    """Forty groups where ten are allowed: the eleventh largest count is taken from all, so thirty are never looked at."""
    most, large, small = 10, 900, 500
    plan = plan_for(epsilon=1, delta=1e-6, sparsity=most, mechanism="correlated-gaussian")
    keys = np.repeat(np.arange(40), [large] * most + [small] * 30)
    table = table_of(publish_, pa.table({UNIT: np.arange(len(keys)), KEY: keys}), plan)
    far = np.abs(noisy_values(table) - (large - small)) > 10 * plan.mechanism.noise_std
    problems = [f"{table.num_rows} groups are shown where {most} are allowed"] if table.num_rows > most else []
    problems += ["a count is shown from which the next largest was not taken"] if far.any() else []
    return outcome(problems, f"{table.num_rows} of 40 groups are shown where {most} are allowed")


def fresh_noise(publish_: Publish = publish) -> Outcome:
    """Two releases of the same records share no noise: else the difference of two neighbours would show the unit."""
    plan = plan_for(epsilon=1, delta=1e-6, max_groups=1, mechanism="sparse-gaussian")
    records = _groups_of(100)
    first, second = (noisy_values(table_of(publish_, records, plan).sort_by(KEY)) for _ in range(2))
    same = float(np.mean(first == second))
    spread = float(np.corrcoef(first, second)[0, 1])
    # alpha < 1e-9: 2,000 independent noises have a correlation within 6/sqrt(2000)
    holds = same < 0.01 and abs(spread) < 0.14
    return holds, f"of 2,000 noises {same:.1%} repeat in a second release; correlation {spread:+.3f}"


# Keys that exist in one data set only

SECRET: Final = "zz-secret-key-zz"
GROUPS_WITH_SECRET: Final = 21


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
    return outcome(problems, f"the key of one unit is in none of {files} files")


def _write_everything(source: pa.Table, folder: Path) -> Iterator[Path]:
    """Every kind of file that a user can write from one table."""
    for kind, plan in plans_of_each_kind(groups=GROUPS_WITH_SECRET).items():
        published = publish(source, plan)
        for ending in ("parquet", "csv", "json"):
            published.write(folder / f"{kind}.{ending}", overwrite=True)
        published.report(folder / f"{kind}.html", overwrite=True)
    counted = source.group_by(KEY).aggregate([(UNIT, "count")]).rename_columns([KEY, "units"])
    for method in METHODS:
        largest = plan_top_k(k=5, epsilon=1, delta=1e-8, method=method)
        listed = release_largest(counted, count="units", plan=largest, all_groups=True)
        listed.write(folder / f"{method}.parquet", overwrite=True)
    yield from (path for path in folder.iterdir() if path.is_file())


# Budgets


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
        stream = Continual.start(folder / "c", unit=UNIT, by=KEY, rounds=4, max_groups=1, epsilon=1, delta=1e-3)
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
    return outcome(
        problems, "a spent session, an edited session, a batch twice, a round shown twice, three edited plans"
    )


def _must_fail(work: Callable[[], object], problem: str, problems: list[str]) -> None:
    try:
        work()
    except DphistError:
        return
    problems.append(problem)


class _Refused(Exception):
    """A charge that was refused, or words that were drawn before it."""


class _NoWords:
    def words(self, count: int) -> NoReturn:
        """Nobody may draw yet."""
        raise _Refused("noise is drawn")


def charge_first(engine: Engine) -> Outcome:
    """A charge that is refused comes before any noise: also before that of a choice from the data."""

    def refuse() -> None:
        raise _Refused("the budget is charged")

    problems, records = [], _groups_of(20, 10)
    how: dict[str, Any]
    for kind, how in (("gaussian", {"max_groups": 1}), ("adaptive", {"mechanism": "adaptive"}), ("automatic", {})):
        plan = plan_for(epsilon=1, delta=1e-6, total=True, **how)
        try:
            with allow_test_entropy(), drawing_from(_NoWords()):
                prepare(records, unit=UNIT, by=KEY, plan=plan, engine=engine).run(charge=refuse)
        except _Refused as first:
            problems += [f"{first} first in a release that is {kind}"] if "noise" in str(first) else []
        else:
            problems.append(f"a release that is {kind} does without its charge")
    return outcome(problems, "three releases whose charge is refused draw no noise")


Charge = Callable[[Path], bool]
_TABLE: Final = pa.table({UNIT: np.arange(400), KEY: np.arange(400) % 4})
_NAME: Final = "people"


def charge_release(path: Path) -> bool:
    """One release for the whole budget; whether it was made."""
    try:
        release(_TABLE, unit=UNIT, by=KEY, epsilon=1.0, delta=1e-6, max_groups=1, ledger=str(path), dataset=_NAME)
    except DphistError:
        return False
    return True


def ledger(charge: Charge = charge_release) -> Outcome:
    """A data set whose budget is that of one release, in a file that the attacker may edit with plain SQL."""
    problems: list[str] = []
    with tempfile.TemporaryDirectory() as name:
        for number, attack in enumerate((_again, _at_once, _deleted, _restored)):
            path = Path(name) / f"{number}.db"
            with Ledger(str(path), create=True) as opened:
                opened.create(DataSet(_NAME, 1.0, 1e-6, UNIT, "basic"))
            problems += attack(path, charge)
    problems += _unpaid()
    return outcome(
        problems,
        "asking again, four at once, deleting what was spent, a backup put back; a total and a choice are charged",
    )


def _again(path: Path, charge: Charge) -> Iterator[str]:
    if not charge(path):
        yield "a ledger refuses a release that fits"
    if charge(path):
        yield "the same budget is spent twice, one after the other"


def _at_once(path: Path, charge: Charge) -> Iterator[str]:
    with ThreadPoolExecutor(4) as pool:
        releases = sum(pool.map(lambda _: charge(path), range(4)))
    if releases > 1:
        yield f"a budget for one release paid for {releases} at the same time"


def _deleted(path: Path, charge: Charge) -> Iterator[str]:
    """Delete the newest row of every table: the database must refuse it, or the ledger must see it."""
    charge(path)
    with sqlite3.connect(path) as database:
        tables = [row[0] for row in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        for table in tables:
            try:
                database.execute(f'DELETE FROM "{table}" WHERE rowid = (SELECT max(rowid) FROM "{table}")')  # noqa: S608
            except sqlite3.Error:
                continue
    if charge(path) and _sound(path, None):
        yield "a spend that was deleted from the database is forgotten without a trace"


def _restored(path: Path, charge: Charge) -> Iterator[str]:
    """A backup put back forgets; the head of the chain, kept elsewhere, must show it."""
    backup = path.read_bytes()
    charge(path)
    with Ledger(str(path)) as opened:
        head = opened.export(_NAME)["head"]
    for beside in path.parent.glob(f"{path.name}-*"):
        beside.unlink()
    path.write_bytes(backup)
    if _sound(path, head):
        yield "a backup that was put back agrees with the head of a later chain"


def _sound(path: Path, head: str | None) -> bool:
    """Whether the ledger finds nothing wrong with itself."""
    try:
        with Ledger(str(path)) as opened:
            return all(check.passed for check in opened.verify(_NAME, head))
    except DphistError:
        return False


def _unpaid() -> Iterator[str]:
    """Each branch, the choice between them and the total are charged: rhos add up."""
    plan = plan_for(epsilon=1, delta=1e-6, total=True)
    request = plan.request
    pure = [request.choice_epsilon, 1 / (request.total_scale or 1)]
    branches = (branch.event(request.mechanism_epsilon) for branch in plan.branches)
    parts = max(price(branch).rho for branch in branches) + sum(map(rho_of_pure, pure))
    if price(plan.event, request.epsilon).rho < parts * (1 - 1e-9) or request.choice_epsilon == 0:
        yield "a total or a choice is not charged"


# What only a cluster can get wrong

KINDS: Final = ("gaussian", "correlated", "adaptive")
"""Plans that take different roads on Spark: one pass, a noise that all tasks share, rounds."""


def staging(engine: SparkEngine, publish_: Callable[..., Release] = publish) -> Outcome:
    """A key of one unit is in no byte that is written, nor in what stays in the staging directory; closed, nothing stays."""
    problems: list[str] = []
    seen: set[Path] = set()
    source = table_with_secret()
    with tempfile.TemporaryDirectory() as name:
        folder, private = Path(name) / "out", Path(name) / "staging"
        folder.mkdir()
        private.mkdir(mode=0o700)
        watched = replace(engine, staging=str(private))

        def look(kind: str) -> None:
            for path in _files(Path(name)):
                if path not in seen and SECRET.encode() in path.read_bytes():
                    problems.append(f"the key of one unit is in {path.relative_to(name).parts[0]}, {kind}")
                seen.add(path)

        plans = plans_of_each_kind(groups=GROUPS_WITH_SECRET)
        for kind in KINDS:
            with publish_(source, plans[kind], engine=watched) as published:
                published.write(folder / f"{kind}.parquet")
                published.report(folder / f"{kind}.html")
                look(kind)
        largest = plan_top_k(k=5, epsilon=1, delta=1e-8, method="correlated")
        top_k(source, unit=UNIT, by=KEY, plan=largest, engine=watched).write(folder / "top.csv")
        look("top-k")
        if left := len(_files(private)):
            problems.append(f"{left} files stay in the staging directory when releases are closed")
    return outcome(
        problems, f"the key of one unit is in none of {len(seen)} files; no file stays in the staging directory"
    )


def _files(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


def two_tasks(engine: SparkEngine, publish_: Publish) -> Outcome:
    """Tasks of one release draw noises of their own: of 2,000 equal counts in two tasks few noises are equal.

    Independent noises of std 10 on the lattice of 2^-10 are equal in 2000^2/(4 sqrt(pi) 10 2^10) = 55 pairs, with a std of 7;
    two tasks with the same words would give some 1,000 more. The limit of 150 is 13 std away.
    """
    plan = plan_for(epsilon=1, delta=0.01, max_groups=1, mechanism="sparse-gaussian", noise_std=10.0)
    with _divided(engine):
        counts = noisy_values(table_of(publish_, _groups_of(100), plan))
    _, times = np.unique(counts, return_counts=True)
    pairs = int((times * (times - 1) // 2).sum())
    holds = len(counts) > 1_980 and pairs < 150
    return holds, f"of {len(counts):,} noises drawn in two tasks {pairs} pairs are equal; by chance there would be 55"


_TWO_TASKS: Final = {
    "spark.sql.adaptive.coalescePartitions.enabled": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.files.minPartitionNum": "2",
}
_BATCH: Final = "spark.sql.execution.arrow.maxRecordsPerBatch"


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
            conf.unset(name) if old is None else conf.set(name, old)
