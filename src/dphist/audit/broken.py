"""Parts of the product that are broken on purpose. The auditor that passes the product must catch every one of them.

Each is a claim of the product with one part replaced, or a real part replaced in an attack on the implementation; the code
that judges is the same. Nothing here is reachable from a release.
"""

from __future__ import annotations

import math
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet

from dphist.aggregates.measures import Measure, Number
from dphist.audit import adaptive, attacks, bounding, claims, laws, trials, voting
from dphist.audit.bounding import FromPairs, Outcome
from dphist.audit.judge import Claim
from dphist.audit.laws import Integers, Pair
from dphist.audit.trials import KEY, QUERY, UNIT, Scene, noisy_values, publish
from dphist.engines.base import Engine
from dphist.engines.duckdb.engine import DuckDBEngine
from dphist.engines.histogram import ContributionBounds, Histogram, LocalGroups, local_groups
from dphist.engines.memory import MemoryPairs
from dphist.engines.query import GroupByQuery, PerformanceSettings
from dphist.engines.spark.engine import SparkEngine, is_here
from dphist.mechanisms import FromTop, Kept
from dphist.mechanisms.tuning import LATTICE_BITS, ONE, WEIGHT_BITS
from dphist.noise import DiscreteGaussian, RoundedGaussian, SystemEntropy, TruncatedDiscreteLaplace
from dphist.noise.entropy import allow_test_entropy, drawing_from
from dphist.noise.laws import Law
from dphist.noise.testing import SeededEntropy
from dphist.planning import Plan, plan_for
from dphist.planning.plan import NOISY
from dphist.planning.request import Request
from dphist.privacy import correlated_gaussian as csh
from dphist.privacy import ranked, truncated_laplace
from dphist.privacy.gaussian import delta_gaussian
from dphist.run.counting import Classes
from dphist.run.release import Release
from dphist.run.totals import noisy_units

MORE_RUNS = (60_000, 100_000)
"""For noise on a cluster: fewer would miss noise that is 10 % too small every other time."""


@dataclass(frozen=True, slots=True, eq=False)
class Broken:
    """What is wrong, and how to attack it: a claim, or an attack on the implementation."""

    name: str
    wrong: str
    attacked: Claim | Callable[[], Outcome]

    @property
    def claim(self) -> Claim | None:
        """The claim that is false, if it is one."""
        return self.attacked if isinstance(self.attacked, Claim) else None


def broken() -> list[Broken]:
    """All of them on this machine."""
    here = DuckDBEngine(PerformanceSettings(threads=1))  # groups in one order
    everything: list[tuple[str, str, Claim | Callable[[], Outcome]]] = [
        ("noise 10 % too small", "the noise of a sparse Gaussian has 0.9 of its std", quiet_noise(0.9)),
        ("threshold one too low", "a group is shown one below the threshold", low_threshold()),
        ("not strictly above", "a noisy count equal to a whole threshold is shown", not_strict()),
        ("ties by data order", "equal counts at the end of a list stand as the data has them", ties_by_data()),
        ("arbitrary rounding", "correlated noise on whole numbers, accounted for as if it were fine", rounding()),
        ("discrete noise, continuous formula", "discrete noise of std 1 with the normal profile", discrete_noise()),
        ("data-dependent q", "the range of truncated noise follows the number of records", moving_range()),
        ("the paper's unscaled threshold", "T of [Rogers24] Theorem 10 ignores max_per_group = 2", unscaled()),
        ("adaptive weights not normalised", "a unit adds its weights as they are, in every round", unnormalised()),
        ("a unit in two classes", "a class counts the units of lighter ones, too", in_two_classes()),
        ("covered once per group", "a unit in two released groups is two covered units", covered_per_group()),
        ("one noise for two totals", "covered and other units have the same noise", one_noise()),
        ("other without noise", "the units in no released group are published as they are", exact_other()),
        ("empty groups without noise", "a listed group that nobody is in is published as it is", quiet_where_empty()),
        ("a tree for the price of a sum", "the noise of a quantile is for one level of its tree", one_level()),
        ("a size for every group", "a unit is in the histogram of sizes once for each of its groups", sized_everywhere()),
        ("counts of values without noise", "the number of units with a value is published as it is", exact_numbers()),
        ("no bounding", "a unit in 5 groups is counted in all of them where 2 are allowed", unbounded()),
        ("bounding lets one unit through", "one unit of a table is not bounded",
         partial(bounding.contributions, BrokenEngine(let_one_through))),
        ("row groups are skipped", "a file's largest value, which leaves NaN out, hides records",
         partial(bounding.locality, BrokenEngine(skip_row_groups))),
        ("types by all records", "keys are numbers or texts as all records together have them",
         partial(bounding.locality, BrokenEngine(guess_types))),
        ("split votes", "a unit's vote is divided where a group has no room for all of it",
         partial(voting.one_vote, here, voting.split_votes, 2)),
        ("capacity from data", "the room for votes follows the number of units",
         partial(voting.one_vote, here, voting.capacity_from_data)),
        ("noise in doubles", "count + a normal double, as it is", partial(attacks.low_order_bits, _with_doubles)),
        ("a seed used twice", "every release draws the same noise",
         partial(attacks.fresh_noise, partial(_with_seed, here, lambda: 7))),
        ("rows as they were read", "the table keeps the order of the engine", partial(attacks.order, _as_read)),
        ("a ledger that forgets", "each release is charged to a copy of the ledger",
         partial(attacks.ledger, _charge_to_copy)),
        ("a dictionary goes along", "released keys point into a dictionary of all keys",
         partial(attacks.support, _with_dictionary)),
    ]  # fmt: skip
    return [Broken(*one) for one in everything]


def broken_on_cluster(engine: SparkEngine) -> list[Broken]:
    """What could go wrong on a cluster and nowhere else, and two breaks of a mechanism, seen through executors."""
    everything: list[tuple[str, str, Claim | Callable[[], Outcome]]] = [
        ("noise 10 % too small", "executors draw with 0.9 of the std", quiet_noise(0.9, engine, MORE_RUNS)),
        ("threshold one too low", "executors show a group one below it", low_threshold(1.0, engine, claims.FEWER)),
        ("every release has one seed", "all releases draw the same words",
         partial(attacks.fresh_noise, partial(_with_seed, engine, lambda: 7))),
        ("every task has one seed", "the tasks of a release draw the same words, each release others",
         partial(attacks.two_tasks, engine, partial(_with_seed, engine, lambda: int(SystemEntropy().words(1)[0])))),
        ("rows as files have them", "the table keeps the order of the tasks",
         partial(attacks.order, partial(_as_files, engine), attacks.KINDS)),
        ("bounded in each part", "a unit is bounded by every task for itself",
         partial(bounding.contributions, BrokenEngine(count_in_parts, engine))),
        ("places are not looked at", "all written pairs of a unit are counted",
         partial(bounding.contributions, BrokenEngine(count_all, FromPairs(engine)))),
    ]  # fmt: skip
    if engine.staging is None or is_here(engine.staging):
        wrong = "the groups that noise was drawn on are not deleted"
        everything.append(("exact tables stay", wrong, partial(attacks.staging, engine, _keep)))
    return [Broken(*one) for one in everything]


# Engines

Count = Callable[[object, GroupByQuery, ContributionBounds], Histogram]


@dataclass(frozen=True, slots=True)
class BrokenEngine(Engine):
    """An engine that counts in another way: `count` gets the engine's own way and what is to be counted."""

    count: Callable[[Count, Any, GroupByQuery, ContributionBounds], Histogram]
    engine: Engine = field(default_factory=DuckDBEngine)

    def histogram(self, source: object, query: GroupByQuery, bounds: ContributionBounds, **options: Any) -> Histogram:
        """Counted in that way."""
        return self.count(partial(self.engine.histogram, **options), source, query, bounds)

    @contextmanager
    def open(self, source: object, query: GroupByQuery, **options: Any) -> Iterator[Any]:
        """For a release, whose groups are counted in that way, too."""
        with self.engine.open(source, query, **options) as records:
            yield SimpleNamespace(
                require_noise=records.require_noise,
                groups=lambda bounds: local_groups(
                    self.count(lambda _, __, limit: records.histogram(limit), source, query, bounds)
                ),
            )


def count_all(count: Count, source: object, query: GroupByQuery, bounds: ContributionBounds) -> Histogram:
    """Bound nothing, and say that it was done."""
    return replace(count(source, query, ContributionBounds()), bounds=bounds)


def let_one_through(count: Count, source: pa.Table, query: GroupByQuery, bounds: ContributionBounds) -> Histogram:
    """Bound everybody but the unit named `heavy`."""
    heavy = pc.fill_null(pc.equal(source.column(UNIT), "heavy"), False)
    parts = ((pc.invert(heavy), bounds), (heavy, ContributionBounds()))
    return _add_up([count(source.filter(part), query, limit) for part, limit in parts], bounds)


def count_in_parts(count: Count, source: pa.Table, query: GroupByQuery, bounds: ContributionBounds) -> Histogram:
    """Two tasks, each with half of the records, each with the whole bound."""
    halves = (source.take(list(range(start, source.num_rows, 2))) for start in (0, 1))
    return _add_up([count(half, query, bounds) for half in halves], bounds)


def skip_row_groups(
    count: Count, source: object, query: GroupByQuery, bounds: ContributionBounds, *, most: float = 5.0
) -> Histogram:
    """Skip row groups of a file in which `first` is at most `most`, as their statistics have it: they leave NaN out."""
    if isinstance(source, Path):
        with pa.parquet.ParquetFile(source) as file:
            place = file.schema_arrow.names.index("first")
            statistics = [file.metadata.row_group(i).column(place).statistics for i in range(file.num_row_groups)]
            kept = [i for i, one in enumerate(statistics) if not (one and one.has_min_max and one.max <= most)]
            source = file.read_row_groups(kept)
    return count(source, query, bounds)


def guess_types(count: Count, source: pa.Table, query: GroupByQuery, bounds: ContributionBounds) -> Histogram:
    """Keys are numbers if all records have one: 1 and 01 are one group then, and two if one unit has a word."""
    with suppress(pa.ArrowInvalid):
        source = source.set_column(1, KEY, source.column(KEY).cast(pa.int64()).cast(pa.string()))
    return count(source, query, bounds)


def _add_up(parts: Sequence[Histogram], bounds: ContributionBounds) -> Histogram:
    """Histograms of one sum, added up group by group, that say they were bounded together."""
    tables = [
        part.keys.append_column("units", pa.array(part.counts)).append_column("steps", pa.array(part.sums["sum_value"]))
        for part in parts
    ]
    merged = pa.concat_tables(tables).group_by(KEY).aggregate([("units", "sum"), ("steps", "sum")])
    counts, steps = (merged.column(f"{name}_sum").to_numpy() for name in ("units", "steps"))
    return Histogram(merged.select([KEY]), counts, bounds, {"sum_value": steps}, parts[0].measures)


# Releases


class _Seeded:
    """A seed that travels to every task, which starts from it. (A source for tests cannot be sent to an executor.)"""

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._source: SeededEntropy | None = None

    def words(self, count: int) -> np.typing.NDArray[np.uint64]:
        """The next words of this task."""
        self._source = self._source or SeededEntropy(self._seed)
        return self._source.words(count)

    def __reduce__(self) -> tuple[type[_Seeded], tuple[int]]:
        return _Seeded, (self._seed,)


def _with_seed(engine: Engine, seed: Callable[[], int], records: pa.Table, plan: Plan) -> Release:
    """The words that follow from a seed."""
    with allow_test_entropy(), drawing_from(_Seeded(seed())):
        return publish(records, plan, engine=engine)


def _with_doubles(records: pa.Table, plan: Plan) -> Release:
    """Normal noise in doubles, for counts that are published as they come."""
    published = publish(records, plan)
    counts = noisy_values(published.table)
    words = SeededEntropy(1).words(2 * len(counts)).astype(np.float64) / 2.0**64
    radius = np.sqrt(-2 * np.log(np.maximum(words[: len(counts)], 1e-300)))
    noisy = np.floor(counts) + 3.0 * radius * np.cos(2 * np.pi * words[len(counts) :])
    place = published.table.column_names.index("count" + NOISY)
    return replace(published, held=published.table.set_column(place, "count" + NOISY, pa.array(noisy)))


def _as_read(records: pa.Table, plan: Plan) -> Release:
    """The rows of a release in the order in which their keys first appear."""
    published = publish(records, plan)
    first = records.column(KEY).unique().to_pylist()
    place = pa.array([first.index(key) for key in published.table.column(KEY).to_pylist()])
    table = published.table.append_column("place", place).sort_by("place").drop_columns(["place"])
    return replace(published, held=table)


def _as_files(engine: SparkEngine, records: pa.Table, plan: Plan) -> Release:
    """Of the committed table, rows in the order in which tasks wrote them."""
    with publish(records, plan, engine=engine) as published:
        held: Any = published.held
        return replace(published, held=held.committed.toDF(*held.names).toArrow())


def _keep(records: pa.Table, plan: Plan, engine: SparkEngine) -> Release:
    """A release beside which the exact groups stay."""
    with engine.open(records, QUERY) as opened:
        exact = opened.sql(opened.histogram_sql(ContributionBounds(2)))
        engine.new_staging().write(exact, "groups", distinct=("key_1",))
    return publish(records, plan, engine=engine)


def _with_dictionary(source: pa.Table, folder: Path) -> Iterable[Path]:
    """Released keys as they would be if the keys of the source were taken as they are."""
    keys = source.column(KEY).combine_chunks()
    encoded = keys if pa.types.is_dictionary(keys.type) else keys.dictionary_encode()
    path = folder / "released.parquet"
    pa.parquet.write_table(pa.table({KEY: encoded.take(pa.array([0, 1, 2]))}), path)
    return [path]


def _charge_to_copy(path: Path) -> bool:
    """A ledger that does not remember what was charged."""
    with tempfile.TemporaryDirectory() as folder:
        return attacks.charge_release(Path(shutil.copy(path, folder)))


# Mechanisms, in releases


def _pretending(plan: Plan, **parts: Any) -> Plan:
    """The plan, with a mechanism that says what the plan's says and has other methods."""
    mechanism: Any = plan.mechanism
    pretender = type("Pretender", (type(mechanism),), {"__slots__": (), **parts})
    return Plan(plan.request, pretender(**mechanism.parameters()), plan.alternatives)


def _of_release(
    plan: Plan, scene: Scene, engine: Engine | None = None, runs: tuple[int, int] = claims.MANY, **drawn: float
) -> Claim:
    """The claim of a plan, about releases that an engine makes, or a mechanism that draws with other parameters."""
    other: Any = replace(plan.mechanism, **drawn)  # type: ignore[type-var]
    weaker = _pretending(plan, perturb_part=lambda _, counts, shared: other.perturb_part(counts, shared))
    return claims.of_release(plan, "release", trials.one_release(weaker, scene, engine), runs)


def _sparse_plan() -> tuple[Plan, Any]:
    plan = plan_for(**claims.BUDGET, max_groups=2, mechanism="sparse-gaussian")
    return plan, plan.mechanism


def quiet_noise(factor: float, engine: Engine | None = None, runs: tuple[int, int] = claims.MANY) -> Claim:
    """Noise too small by a factor, on large groups."""
    plan, mechanism = _sparse_plan()
    return _of_release(plan, Scene(2, 9, 2), engine, runs, noise_std=mechanism.noise_std * factor)


def low_threshold(by: float = 1.0, engine: Engine | None = None, runs: tuple[int, int] = claims.MANY) -> Claim:
    """Groups of one unit are shown more often than delta says."""
    plan, mechanism = _sparse_plan()
    return _of_release(plan, Scene(2, 0, 2), engine, runs, threshold=max(1.0, mechanism.threshold - by))


def not_strict() -> Claim:
    """The same for Laplace noise: whole noise and a whole threshold, so >= is > of one less."""
    plan = plan_for(**claims.BUDGET, max_groups=2, mechanism="laplace")
    return _of_release(plan, Scene(2, 0, 2), threshold=(plan.mechanism.threshold or 0) - 1)


def quiet_where_empty() -> Claim:
    """Laplace noise on a public list, but for groups that seem to need none."""
    plan = plan_for(epsilon=claims.BUDGET["epsilon"], delta=0.0, keys=1000, max_groups=2)

    def perturb_part(_: object, counts: Integers, shared: int) -> Kept:
        kept = plan.mechanism.perturb_part(counts, shared)
        return replace(kept, noisy=np.where(counts == 0, 0, kept.noisy))

    weaker = _pretending(plan, perturb_part=perturb_part)
    return claims.of_release(plan, "release", trials.one_release(weaker, Scene(2, 0, 2)), claims.MANY)


def one_level() -> Claim:
    """Each number of a tree has the noise that it would have if it were the only one."""
    plan = claims.quantile_plan()
    mechanism: Any = plan.mechanism

    def aggregate_law(_: object, measure: Measure) -> RoundedGaussian:
        law = mechanism.aggregate_law(measure)
        return RoundedGaussian(Fraction(float(law.std) / math.sqrt(measure.draws)), 0)

    return claims.of_trees(_pretending(plan, aggregate_law=aggregate_law, covers=lambda *_: True))


def unbounded() -> Claim:
    """A heavy unit is seen in all of its groups."""
    return _of_release(_sparse_plan()[0], Scene(5, 9, 5), BrokenEngine(count_all))


def sizes() -> list[Broken]:
    """How small an error is still caught: noise and threshold off by less and less."""
    return [
        *(Broken(f"noise {100 - 100 * by:.3g} % too small", "", quiet_noise(by)) for by in (0.95, 0.97, 0.98, 0.99)),
        *(Broken(f"threshold {by:.3g} too low", "", low_threshold(by)) for by in (0.5, 0.25, 0.125, 0.0625)),
    ]


class Unnormalised(MemoryPairs):
    """Weights are added up as they are: a unit in 8 groups has a norm of up to sqrt(8)."""

    def weighted_sums(self, weights: Integers) -> Integers:
        """No division by the unit's norm."""
        total = np.zeros(self.groups, np.int64)
        np.add.at(total, self.group, weights[self.group] << (LATTICE_BITS - WEIGHT_BITS))
        return total


def unnormalised() -> Claim:
    """The full view of a mechanism whose groups stay undecided, so that they keep their weight."""
    mechanism = adaptive.loose(threshold=12.0)
    run = adaptive.views(mechanism, adaptive.EVERYWHERE, Unnormalised)
    return Claim("adaptive", "rounds, Lemma 1", "the full view", mechanism.delta_noise, None, run, 30_000, 200_000)


class Nested(MemoryPairs):
    """Every class counts all units up to its bound: a light unit is in all of them."""

    def class_sums(
        self, weights: Integers, chosen: Integers, bounds: Sequence[int], power: int, shifts: Mapping[str, int]
    ) -> dict[str, Integers]:
        """Added up from the lightest class on."""
        sums = MemoryPairs.class_sums(self, weights, chosen, bounds, power, shifts)
        return {**sums, "units": np.cumsum(sums["units"], axis=1)}


def covered_per_group() -> Claim:
    """Covered units as the counts of the released groups, added up."""

    def coverage(groups: LocalGroups, released: pa.Table) -> tuple[int, int]:
        shown = pc.is_in(groups.keys_of(groups.codes).column(KEY), released.column(KEY)).to_numpy()
        return int(groups.columns["units"][shown].sum()), groups.coverage(released)[1]

    return claims.of_totals("once per group", (1, 1, 0), coverage=coverage)


def sized_everywhere() -> Claim:
    """Every pair has a bucket."""

    def exact(table: pa.Table) -> Integers:
        pairs = table.set_column(0, UNIT, pa.array(np.arange(table.num_rows)))
        return trials.sizes_of(pairs)

    return claims.of_bounds("every group", exact=exact)


def exact_numbers() -> Claim:
    """The number of units with a value as the engine counted it."""
    plan = plan_for(
        **claims.BUDGET, max_groups=1, mechanism="sparse-gaussian", count_of=["other"], sums={"value": (0, 1)}
    )
    mechanism: Any = plan.mechanism
    (law,) = (noisy.law for noisy in plan.measures if isinstance(noisy.measure, Number))

    def perturb_sums(_: object, steps: Integers, drawn: Law) -> Integers:
        return steps if drawn == law else mechanism.perturb_sums(steps, drawn)

    weaker = _pretending(plan, perturb_sums=perturb_sums)
    return claims.of_release(
        plan, "counts of values", trials.one_release(weaker, Scene(1, claims.large_count(plan), 1)), claims.MANY
    )


def exact_other() -> Claim:
    """Other units as the engine counted them, beside covered ones with noise."""

    def noisy(units: tuple[int, int], request: Request) -> Sequence[int]:
        return [*noisy_units(units[:1], request), units[1]]

    return claims.of_totals("without noise", (0, 0, 1), noisy=noisy)


def one_noise() -> Claim:
    """The same noise on both: their difference has none."""

    def noisy(units: tuple[int, int], request: Request) -> Sequence[int]:
        (noise,) = noisy_units((0,), request)
        return [units[0] + noise, units[1] + noise]

    return claims.of_totals("one noise", (0, 0, 1), noisy=noisy)


def in_two_classes() -> Claim:
    """Counts of public keys, for a unit that alone is in the first class."""
    noise = adaptive.count_noise("gaussian")
    bounds = tuple(bound * ONE**noise.power for bound in (8, 9, 10, 11, 12))
    run = adaptive.counts_of(noise, Classes(bounds, 1, noise.power, 1), adaptive.EVERYWHERE, Nested)
    return Claim(
        "adaptive", "gaussian counts", "five classes", partial(adaptive.delta_of_parts, noise, None), None, run,
        20_000, 200_000,
    )  # fmt: skip


# Laws that do not fit their formulas


def ties_by_data() -> Claim:
    """All counts are equal; in the order of the data one unit exchanges the whole list.

    What is looked at is whether any group of the first list is shown: never, if the other list stands in its place.
    """
    mechanism = FromTop(100, 20.0, 80, max_groups=1, rounded=True)
    law = mechanism.law
    x = np.arange(-laws.reach_of(law), laws.reach_of(law) + 1)
    # hidden: every Z_i <= T + Z_0, by the value of Z_0; beyond the window Z_i is surely below
    limits = np.clip(x + mechanism.threshold, x[0], x[-1])
    hidden = float(laws.masses(law, x) @ np.cumsum(laws.masses(law, x))[limits - x[0]] ** mechanism.most_groups)
    pair = Pair("100 equal counts", np.array([1.0, 0.0]), np.array([hidden, 1 - hidden]))
    return Claim("from-top", "", "k = 100, max_groups = 1", mechanism.delta, lambda: [pair])


def rounding() -> Claim:
    """g = 1: the common shift that hides a unit would have to be a whole number."""
    std, correlation = 0.3, 1 / math.sqrt(3)
    own, common = (RoundedGaussian(Fraction(scale), 0) for scale in (std, math.sqrt(correlation) * std))
    claimed = partial(csh.delta, sparsity=3, max_groups=3, independent_std=std, correlation=correlation, gap=20.0)

    def pairs() -> Iterator[Pair]:
        for moved in (1, 2, 3):
            after = [60 + (i < moved) for i in range(3)]
            sides = laws.thresholded([60] * 3, after, own=own, common=common, threshold=21, low=1)
            yield Pair(f"{moved} of 3 large groups move", *sides)

    return Claim("correlated-gaussian", "tight", "sparsity 3, std 0.3, lattice of 1", claimed, pairs)


def discrete_noise() -> Claim:
    """One count, sensitivity 1, sigma = 1."""
    law = DiscreteGaussian(Fraction(1))
    pair = Pair("one count", *laws.thresholded([0], [1], own=law, common=None, threshold=laws.NOTHING, low=0))
    claimed = partial(delta_gaussian, 1.0)
    return Claim(
        "discrete-gaussian", "normal profile", "one count, std 1", lambda at: float(claimed(at)), lambda: [pair]
    )


def moving_range() -> Claim:
    """Three bars, q = a tenth of all records: one record more moves the noise of all of them.

    [BCDP22] Theorem 3 claims the profile of the one bar that changes.
    """
    before, after = (103, 103, 103), (104, 103, 103)
    ranges = [sum(counts) // 10 for counts in (before, after)]
    sides = (
        laws.truncated(counts, TruncatedDiscreteLaplace(Fraction(1), q), max(after))
        for counts, q in zip((before, after), ranges, strict=True)
    )
    pair = Pair("309 records and 310", *sides)
    claimed = partial(truncated_laplace.delta_profile, epsilon=Fraction(1), q=min(ranges))
    return Claim("truncated-laplace", "data-dependent q", "three bars of 103", claimed, lambda: [pair])


def unscaled() -> Claim:
    """Groups that exist because of a unit with two records in each, T = 1 + ln(k/delta)/e."""
    e, delta, shortlist = 1.0, 1e-3, 2
    threshold = math.ceil(ranked.threshold_paper(delta, e, shortlist, 1))
    with_, without = laws.aligned(laws.ranked_law({"A": 2, "B": 2}, threshold, e / 2, 1), {("STOP",): 1.0})
    return Claim(
        "ranked", "Theorem 10 as printed", "max_per_group 2",
        lambda epsilon: delta + (1 - delta) * ranked.delta_of_symbols(e, 1, epsilon),
        lambda: [Pair("two new groups", without, with_)],
    )  # fmt: skip
