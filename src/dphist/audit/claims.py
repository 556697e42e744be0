"""Every claim of the product: one per kind of published column and mechanism, with parameters small enough to be attacked.

Deltas are large on purpose. A formula that is right is right for every delta, and only a large one can be seen in a sample.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from fractions import Fraction
from functools import cache, partial
from typing import Any, Final

import numpy as np
from scipy.special import ndtr
from scipy.stats import binom

from dphist import mechanisms as m
from dphist.audit import adaptive, laws, trials, voting
from dphist.audit.adaptive import whole_budget
from dphist.audit.judge import Claim, Run
from dphist.audit.laws import Pair, normal_shift
from dphist.audit.trials import Scene
from dphist.engines.base import Engine
from dphist.mechanisms.continual import calibrate as calibrate_continual
from dphist.mechanisms.ranked import calibrate as calibrate_ranked
from dphist.noise import DiscreteLaplace, Law, RoundedGaussian
from dphist.planning import Plan, plan_for
from dphist.planning.top_k import TopKPlan, plan_top_k
from dphist.privacy import correlated_gaussian as csh
from dphist.privacy import sparse_gaussian as gshm

MANY: Final = (60_000, 300_000)
"""Runs on each side where one release holds them all: quick, thorough."""

FEWER: Final = (20_000, 100_000)
"""The same on an engine that is not of this process."""

ONE_BY_ONE: Final = (1_500, 12_000)
"""Runs where each is a release of its own."""

FEW: Final = (500, 4_000)
"""Where what could be wrong shows at once."""

EPSILON, DELTA = 1.0, 0.2
BUDGET: Final[dict[str, Any]] = {"epsilon": EPSILON, "delta": DELTA}
"""The budget of most releases: so much that a sample sees it."""

FIXED: Final[dict[str, Any]] = {"noise_std": 1.0, "correlation": 1.0}
"""Close to what the planner would choose at this budget, without the time for its search."""

COLUMNS: Final[dict[str, Any]] = {
    "sums": {"value": (0, 1)}, "means": {"other": (0, 1)}, "variances": {"third": (0, 1)}, "count_of": ["fourth"], "rows": 1,
    "weights": {"sum_value": 0.01},
}  # fmt: skip
"""Every kind of column beside the count. The sum has a small share of the budget: a share that is used wrongly shows."""

SPARSE = ("max_groups", "noise_std", "threshold")
CORRELATED = ("sparsity", "max_groups", "independent_std", "correlation", "threshold")


@cache
def claims(*, thorough: bool = False) -> tuple[Claim, ...]:
    """All of them; the thorough audit has more settings of those that can be enumerated."""
    everything = (
        *enumerated_counts(), *enumerated_lists(), *adaptive.claims_of_view(), *voting.claims(MANY), *releases(),
        *releases_one_by_one(), *lists(),
    )  # fmt: skip
    return (*everything, *more_settings()) if thorough else everything


def releases(engine: Engine | None = None, runs: tuple[int, int] = MANY) -> Iterator[Claim]:
    """Releases, streams and statistics of an engine in which many runs fit into one.

    Every mechanism whose noise is independent, with every column it can publish; groups that are new with the unit, and large
    ones.
    """
    plans = [plan_for(**BUDGET, max_groups=2, mechanism=name) for name in ("sparse-gaussian", "laplace")]
    plans.append(plan_for(**BUDGET, max_groups=2, mechanism="sparse-gaussian", noise="discrete"))
    for plan in plans:
        yield of_release(plan, "release, new groups", trials.one_release(plan, Scene(2, 0, 2), engine), runs)
        run = trials.one_release(plan, Scene(2, large_count(plan), 2), engine)
        yield of_release(plan, "release, large groups", run, runs)
    heavy = trials.one_release(plans[0], Scene(groups=5, base=9, moved=5), engine)
    fewer = (runs[0] * 2 // 3, runs[1] // 3)
    yield of_release(plans[0], "release, a unit in 5 groups where 2 are allowed", heavy, fewer)
    for plan in (*(plan_for(**BUDGET, **COLUMNS, max_groups=1, mechanism=p.request.mechanism) for p in plans[:2]),):
        run = trials.one_release(plan, Scene(1, large_count(plan), 1), engine)
        yield of_release(plan, "release of counts, sums, means and rows, large groups", run, runs)
    for plan in _of_lists_of_keys():
        name = "the same with sums, means and rows" if plan.request.aggregates else "release, empty groups of the list"
        yield of_release(plan, name, trials.one_release(plan, Scene(2, 0, 2), engine), runs)
    yield of_trees(quantile_plan(), engine)
    yield from adaptive.claims(engine, runs)
    stream = calibrate_continual(**_target(), rounds=3, max_groups=2)
    for name, base in (("new", 0), ("large", math.ceil(stream.threshold + 5 * stream.noise_std))):
        run = trials.stream(Scene(2, base, 2), engine, rounds=3, max_groups=2, event=1, **BUDGET)
        third = (runs[0] // 3, runs[1] // 2)
        yield Claim("continual", "", f"a stream of 3 rounds, {name} groups", stream.delta, None, run, *third)
    bars = m.TruncatedLaplace.for_budget(EPSILON, DELTA, 2)
    for name, base in (("new", 0), ("large", bars.q + 1)):
        run = trials.statistic(Scene(2, base, 2), engine, **BUDGET)
        yield Claim("truncated-laplace", "exact", f"stat support, {name} bars", bars.delta, None, run, *runs)


def quantile_plan() -> Plan:
    """A median with nearly all of the budget, of a group of a public list."""
    more: dict[str, Any] = {"medians": {"value": (0, 1)}, "weights": {"quantile_value": 50.0}}
    listed = plan_for(**BUDGET, **more, keys=1000, max_groups=1)
    chosen = (listed.mechanism, *listed.alternatives)
    return replace(listed, mechanism=next(one for one in chosen if one.analysis == "independent"))


def of_trees(plan: Plan, engine: Engine | None = None, runs: tuple[int, int] = (6_000, 60_000)) -> Claim:
    """Empty groups, where the walk to the median of nothing tells every balance on its way from that of one unit."""
    return of_release(plan, "medians of empty groups", trials.one_release(plan, Scene(1, 0, 1), engine), runs)


def of_totals(setting: str, moved: tuple[int, ...], **other: Any) -> Claim:
    """Two large groups and one that is never shown: the numbers of units have the profile of one discrete Laplace noise."""
    plan = plan_for(epsilon=20.0, delta=DELTA, max_groups=2, mechanism="laplace", low_threshold=9, total=True)
    assert plan.request.total_scale is not None
    pure = math.exp(1 / plan.request.total_scale)
    run = trials.many_totals(plan, (30, 30, 3), moved, **other)
    claim = partial(_two_points, pure)
    return of_release(plan, f"totals, {setting}", run, (4_000, 40_000), claim)


def of_bounds(setting: str, scale: float = 2.0, exact: Any = trials.sizes_of) -> Claim:
    """The histogram of sizes, looked at in the buckets that the unit under attack can be in: it has values in three groups."""
    run = trials.many_sizes(scale, exact)
    return Claim(
        "known-laplace",
        "pure",
        f"sizes for bounds, {setting}",
        partial(_two_points, math.exp(1 / scale)),
        None,
        run,
        20_000,
        100_000,
    )


def _two_points(pure: float, at: float) -> float:
    """delta(at) of discrete Laplace noise on a number that changes by one."""
    return max(0.0, (pure - math.exp(at)) / (1 + pure))


def _of_lists_of_keys() -> Iterator[Plan]:
    """Every kind of independent noise on a public list, with every column it can publish."""
    listed: dict[str, Any] = {"keys": 1000, "max_groups": 2}
    for more in ({}, COLUMNS):
        gaussian = plan_for(**BUDGET, **more, **listed)
        every = (gaussian.mechanism, *gaussian.alternatives)
        yield replace(gaussian, mechanism=next(one for one in every if one.analysis == "independent"))
        yield plan_for(epsilon=EPSILON, delta=0.0, **more, **listed)
    yield plan_for(**BUDGET, **listed, mechanism="sparse-gaussian", noise="discrete")


def releases_one_by_one() -> Iterator[Claim]:
    """Releases whose groups share a noise or that publish a total: every run is a release of its own. Counts of records."""
    correlated = plan_for(**BUDGET, sparsity=2, mechanism="correlated-gaussian", **FIXED)
    summed = plan_for(epsilon=EPSILON, delta=DELTA, sparsity=2, mechanism="correlated-gaussian", **COLUMNS)
    few = plan_for(**BUDGET, keys=4, max_groups=2, mechanism="correlated-gaussian")
    discrete = plan_for(**BUDGET, sparsity=2, mechanism="correlated-gaussian", noise="discrete")
    sketch = plan_for(**BUDGET, sketch=2, **FIXED)
    for plan, setting, without, moved in (
        (correlated, "releases, new groups", (0, 0), (1, 1)),
        (summed, "releases of counts, sums, means and rows, large groups", (30, 30), (1, 1)),
        (few, "releases, 2 of 4 listed groups", (5, 5, 5, 5), (1, 1, 0, 0)),
        (discrete, "releases, new groups", (0, 0), (1, 1)),
        (sketch, "releases of sketches", (14, 14, 3), (1, 1, 0)),
    ):
        runs = FEW if plan is summed else ONE_BY_ONE
        claim = of_release(plan, setting, trials.many_releases(plan, without, moved), runs)
        yield claim if plan.request.sketch is None else replace(claim, mechanism="sketch")
    yield of_bounds("a unit in three groups")
    yield of_totals("a unit in two released groups", (1, 1, 0))
    yield of_totals("a unit in no released group", (0, 0, 1))


def lists() -> Iterator[Claim]:
    """The largest groups by three methods, and sessions."""
    correlated = m.CorrelatedTopK(2, 0.9, 0.7, 1.4, 2.75)
    from_top, ranked = (
        plan_top_k(k=2, method="from-top", **BUDGET),
        plan_top_k(k=2, method="ranked", shortlist=2, **BUDGET),
    )
    many = plan_top_k(k=20, method="from-top", max_groups=1, **BUDGET)
    for plan, large in (
        (TopKPlan(EPSILON, correlated.delta(EPSILON), 2, "correlated", correlated), (12, 12, 3)),
        (from_top, (12, 12, 3)),
        (ranked, (5, 5, 0)),
    ):
        for without in (large, (0, 0, 0)):
            setting = f"top-k, groups of {without}, the unit in two"
            yield _of_list(plan, setting, trials.lists(plan, without, (1, 1, 0)))
    threshold: int = many.mechanism.threshold  # type: ignore[attr-defined]
    close = (*(5 + threshold for _ in range(20)), 5)
    run = trials.lists(many, close, (*(0 for _ in range(20)), 1), least=True)
    yield _of_list(many, "top-k, the smallest of 20 counts at the threshold, the unit in the next group", run, FEW)
    run = trials.sessions((4, 4), (1, 0), epsilon=2.0, delta=0.3, results=2, queries=2)
    session = calibrate_ranked(2.0, 0.3, 2, 2, queries=2)
    yield Claim("session", "", "sessions of two queries", session.delta, None, run, 10, 300)


def enumerated_counts() -> Iterator[Claim]:
    """Counts of unknown or listed groups, their sums, sketches, and counts of records: every analysis of every mechanism."""
    for analysis in gshm.ANALYSES:
        yield of_counts(m.SparseGaussian(2, 1.5, 4.0, analysis=analysis, lattice_bits=4), *SPARSE)
    gaussian = m.SparseGaussian(1, 1.5, 4.0, sums_sensitivity=0.5, lattice_bits=3)
    yield _with_sum(gaussian, "exact, sums", RoundedGaussian(Fraction(8), 0))
    yield of_counts(m.LaplaceThreshold(2, 1.5, 6.0), "max_groups", "scale", "threshold")
    laplace = m.LaplaceThreshold(1, 1.5, 6.0, sums_epsilon=0.5)
    yield _with_sum(laplace, "pure-and-tail, sums", DiscreteLaplace(Fraction(8)))
    root = 1 / math.sqrt(2)
    for analysis_of_paper in csh.ANALYSES:
        yield of_counts(
            m.CorrelatedGaussian(2, 2, 1.5, root, 5.0, analysis=analysis_of_paper, lattice_bits=3), *CORRELATED
        )
    tight = m.CorrelatedGaussian(2, 2, 1.5, root, 5.0, lattice_bits=3)
    theorem_2 = partial(
        csh.delta, sparsity=2, max_groups=2, independent_std=1.5, correlation=root, gap=tight.gap, lattice_step=2.0**-3,
        sharp=False,
    )  # fmt: skip
    yield replace(of_counts(tight, *CORRELATED), analysis="tight, Theorem 2 alone", delta=theorem_2)
    listed = m.CorrelatedGaussian(3, 1, 1.0, 0.3, 4.0, lattice_bits=2)
    yield replace(of_counts(listed, *CORRELATED), analysis="tight, listed keys")
    crowded = m.CorrelatedGaussian(2, 2, 1.0, 0.7, 4.0, lattice_bits=2)
    counts = [(9, 9, 0), (9, 9, 1), (12, 10, 1), (1, 1, 1), (3, 2, 2), (9, 3, 3)]
    pairs: Callable[[], Iterable[Pair]] = partial(laws.too_many_groups, crowded, counts)
    yield of_laws(crowded, "three groups where the sparsity is 2", pairs, "tight, sparsity enforced")
    for known in (m.KnownGroups(2, 2, 1.5, lattice_bits=4), m.KnownGroups(2, 2, 1.5, 0.7, lattice_bits=4)):
        yield of_counts(known, "groups", "max_groups", "independent_std", "correlation")
    yield of_counts(m.KnownLaplace(2, 2, 1.5), "groups", "max_groups", "scale")
    yield of_counts(m.KnownDiscrete(2, 2, 1.5), "groups", "max_groups", "noise_std")
    yield of_counts(m.DiscreteGaussianThreshold(2, 1.5, 5.0), *SPARSE)
    yield of_counts(m.DiscreteCorrelatedGaussian(2, Fraction(9), Fraction(6), 6.0), *CORRELATED)
    counters = m.CorrelatedGaussian(2, 2, 1.2, 0.7, 4.0, lattice_bits=2)
    blocks = [{"a": 9, "b": 8, "c": 1}, {"a": 8, "b": 9, "c": 2}]
    claim = of_laws(counters, "2 counters, 3 groups, 2 blocks", partial(laws.sketches, counters, blocks), "tight")
    yield replace(claim, mechanism="sketch")


def enumerated_lists() -> Iterator[Claim]:
    """Lists of the largest groups, sessions, streams and truncated noise."""
    counts: list[tuple[int, ...]] = [(0, 0), (1, 0), (1, 1), (2, 1), (9, 0), (9, 9), (14, 5)]
    yield of_lists(m.CorrelatedTopK(1, 1.5, 1.0, 1.0, 5.0, lattice_bits=2), laws.lists_above_base, counts)
    for rounded in (False, True):
        yield of_lists(m.FromTop(1, 0.8, 3, 1, rounded=rounded), laws.lists_from_top, "ABC", 2)
        yield of_lists(m.FromTop(1, 0.8, 3, rounded=rounded), laws.lists_from_top, "ABC", 2)
    yield of_lists(m.Ranked(2, 2, 0.7, 5), laws.rankings, "ABC", 3)
    yield of_lists(m.Ranked(2, 1, 0.8, 6, max_per_group=2), laws.rankings, "ABC", 2)
    yield replace(of_lists(m.Ranked(2, 1, 0.9, 4, queries=2), laws.rankings, "AB", 3), mechanism="session")
    for rounded in (False, True):
        yield of_lists(m.ContinualCounts(3, 1, 1.0, 4, rounded), laws.running_counts, 8)
    yield of_bars(m.TruncatedLaplace(Fraction(1, 2), 6, 2))


def more_settings() -> Iterator[Claim]:
    """Other parameters of what can be enumerated: little and much noise, low and high thresholds, one to three groups."""
    for groups, std, threshold, low in (
        (1, 0.4, 1.0, 1), (1, 3.0, 14.0, 1), (2, 0.8, 1.5, 1), (2, 3.0, 12.0, 3), (3, 1.0, 4.0, 1), (3, 2.0, 2.0, 2),
    ):  # fmt: skip
        bits = 1 if groups == 3 else 3
        yield of_counts(m.SparseGaussian(groups, std, threshold, low, lattice_bits=bits), *SPARSE, "low_threshold")
        whole = m.DiscreteGaussianThreshold(groups, std, float(math.ceil(threshold)), low)
        yield of_counts(whole, *SPARSE, "low_threshold")
    for groups, scale, threshold in ((1, 0.5, 2.0), (1, 3.0, 10.0), (2, 0.8, 1.0), (2, 3.0, 20.0)):
        yield of_counts(m.LaplaceThreshold(groups, scale, threshold), "max_groups", "scale", "threshold")
    for sparsity, most, std, correlation, threshold in (
        (2, 2, 0.5, 0.2, 2.0), (2, 2, 1.0, 5.0, 5.0), (2, 1, 1.0, 1.0, 4.0), (3, 3, 0.7, 0.577, 3.0), (3, 2, 0.7, 0.2, 3.0),
        (2, 2, 3.0, 0.7, 10.0),
    ):  # fmt: skip
        yield of_counts(m.CorrelatedGaussian(sparsity, most, std, correlation, threshold, lattice_bits=2), *CORRELATED)
    for variance, common in ((4, 1), (1, 1), (30, 21)):
        yield of_counts(m.DiscreteCorrelatedGaussian(2, Fraction(variance), Fraction(common), 5.0), *CORRELATED)
    for q, epsilon, groups in (
        (3, Fraction(1), 2),
        (9, Fraction(1, 3), 1),
        (8, Fraction(1), 2),
        (4, Fraction(1, 5), 3),
    ):
        yield of_bars(m.TruncatedLaplace(epsilon, q, groups))
    two = m.CorrelatedTopK(2, 0.7, 0.7, 1.4, 3.0, lattice_bits=1)
    yield of_lists(two, laws.lists_above_base, [(0, 0, 0), (1, 1, 0), (1, 1, 1), (7, 7, 1), (7, 7, 7), (3, 2, 1)])
    for std, t in ((1.4, 6), (0.7, 2)):
        yield of_lists(m.ContinualCounts(3, 1, std, t, rounded=True), laws.running_counts, 8)
    for most, bound, std, t in ((2, 1, 0.8, 3), (1, 2, 1.1, 5)):
        yield of_lists(m.FromTop(most, std, t, bound, rounded=True), laws.lists_from_top, "ABC", 1)


# What claims are made of


def in_words(mechanism: object, *names: str) -> str:
    """Parameters as text."""
    values = [(name, getattr(mechanism, name)) for name in names]
    return ", ".join(f"{name} {f'{float(v):.4g}' if isinstance(v, float | Fraction) else v}" for name, v in values)


def of_laws(mechanism: Any, setting: str, pairs: Callable[[], Iterable[Pair]], analysis: str | None = None) -> Claim:
    """A mechanism whose output laws on worst-case neighbours can be listed."""
    name = getattr(mechanism, "analysis", "") if analysis is None else analysis
    return Claim(mechanism.name, name, setting, mechanism.delta, pairs)


def of_counts(mechanism: Any, *names: str) -> Claim:
    """All kinds of neighbours of a mechanism on counts; `names` are the parameters to tell."""
    return of_laws(mechanism, in_words(mechanism, *names), partial(laws.kinds_of_groups, mechanism))


def _with_sum(mechanism: m.SparseGaussian | m.LaplaceThreshold, analysis: str, law: Law) -> Claim:
    return of_laws(mechanism, "a count and a sum", partial(laws.group_with_sum, mechanism, law, 4), analysis)


def of_lists(mechanism: Any, neighbours: Callable[..., Iterable[Pair]], *arguments: Any) -> Claim:
    """Neighbours of a mechanism on lists, streams or bars, which take these arguments."""
    setting = in_words(mechanism, *_PARAMETERS[mechanism.name])
    return of_laws(mechanism, setting, partial(neighbours, mechanism, *arguments))


def of_bars(mechanism: m.TruncatedLaplace) -> Claim:
    """Bars below and above the range of the noise."""
    return of_lists(mechanism, laws.bars, (0, 1, mechanism.q // 2, mechanism.q, 2 * mechanism.q))


_PARAMETERS: Final = {
    "correlated-top-k": ("k", "independent_std", "correlation", "base_variance", "threshold"),
    "from-top": ("most_groups", "max_groups", "noise_std", "threshold", "rounded"),
    "ranked": ("symbols", "queries", "shortlist", "symbol_epsilon", "threshold", "max_per_group"),
    "continual": ("rounds", "max_groups", "noise_std", "threshold", "rounded"),
    "truncated-laplace": ("epsilon_per_group", "q", "max_groups"),
}
"""What is told of a mechanism."""


def of_release(
    plan: Plan, setting: str, run: Run, runs: tuple[int, int], claimed: Callable[[float], float] | None = None
) -> Claim:
    """A claim about what a plan's release publishes."""
    mechanism = plan.mechanism
    return Claim(mechanism.name, mechanism.analysis, setting, claimed or mechanism.delta, None, run, *runs)


def _of_list(plan: TopKPlan, setting: str, run: Run, runs: tuple[int, int] = ONE_BY_ONE) -> Claim:
    return Claim(plan.mechanism.name, "", setting, plan.mechanism.delta, None, run, *runs)


def _target() -> dict[str, float]:
    return {"epsilon": EPSILON, "target_delta": DELTA}


def large_count(plan: Plan) -> int:
    """A count that is nearly always shown."""
    return math.ceil((plan.mechanism.threshold or 0) + 3 * plan.mechanism.noise_std)


# A plan that someone is about to use

MOST_RECORDS: Final = 4_000_000
"""What a quick audit of a plan may make up: the runs that fit into it."""


def of_plan(plan: Plan) -> list[Claim]:
    """The claims of one plan at its own parameters: integrated cases of its noise and threshold, and its own releases."""
    plan, mechanism = _of_columns(plan), plan.mechanism
    claimed = whole_budget(plan) if plan.request.choice_epsilon else mechanism.delta
    cases = list(_INTEGRATED.get(mechanism.name, lambda _: ())(mechanism))
    found = [Claim(mechanism.name, mechanism.analysis, "the plan's own parameters", claimed, lambda: cases)]
    found = found if cases else []
    if plan.request.sketch is not None:
        return found
    if plan.request.bound is None:
        return [*found, *adaptive.selections(plan, claimed, MANY, Scene(1, 0, 1), Scene(1, 4, 1), Scene(4, 0, 4))]
    most, large, setting = plan.request.groups_per_unit, large_count(plan), "releases of the plan, large groups"
    if not mechanism.correlation and mechanism.threshold is not None:
        runs = min(MANY[0], MOST_RECORDS // (2 * most * large))
        if runs >= 1000:
            run = trials.one_release(plan, Scene(most, large, most))
            found.append(of_release(plan, setting, run, (runs, 10 * runs), claimed))
        return found
    groups = plan.request.keys or most
    if groups <= 20:
        run = trials.many_releases(plan, [large] * groups, [int(i < most) for i in range(groups)])
        found.append(of_release(plan, setting, run, ONE_BY_ONE, claimed))
    return found


def _of_columns(plan: Plan) -> Plan:
    """The plan with columns in the place of expressions: an attacker chooses the values themselves."""
    columns = tuple(replace(one, expression=None) for one in plan.request.aggregates)
    return replace(plan, request=replace(plan.request, aggregates=columns))


def _of_sparse(mechanism: m.SparseGaussian) -> Iterator[Pair]:
    """Some groups are large, the others new."""
    shown = float(ndtr(-mechanism.gap / mechanism.noise_std))
    for shared in sorted({0, 1, mechanism.max_groups // 2, mechanism.max_groups - 1, mechanism.max_groups}):
        mu = math.sqrt(shared * (1 / mechanism.noise_std**2 + mechanism.sums_sensitivity**2))
        new = mechanism.max_groups - shared
        yield normal_shift(f"{shared} large and {new} new groups", mu, -math.expm1(new * math.log1p(-shown)))


def _of_laplace(mechanism: m.LaplaceThreshold) -> Iterator[Pair]:
    """New groups; and large ones, of which only how many are above the old count matters: the loss has two values."""
    if mechanism.sums_epsilon > 0:
        return
    law, gap, groups = laws.own_law(mechanism), int(mechanism.gap), mechanism.max_groups
    reach = laws.reach_of(law)
    shown = float(laws.masses(law, np.arange(gap + 1, gap + 1 + reach)).sum())
    any_shown = -math.expm1(groups * math.log1p(-shown))
    yield Pair("new groups", np.array([1.0, 0.0]), np.array([1 - any_shown, any_shown]))
    yield _moved_by_one(law, groups)


def _of_listed_laplace(mechanism: m.KnownLaplace) -> Iterator[Pair]:
    """Listed groups: the same."""
    if mechanism.sums_epsilon == 0:
        yield _moved_by_one(laws.own_law(mechanism), mechanism.max_groups)


def _moved_by_one(law: Law, groups: int) -> Pair:
    """Groups that are never hidden, under Laplace noise: the loss of each has two values."""
    above = float(laws.masses(law, np.arange(1, laws.reach_of(law))).sum())
    return Pair("large groups", *(binom.pmf(np.arange(groups + 1), groups, p) for p in (above, 1 - above)))


def _of_correlated(mechanism: m.KnownGroups | m.CorrelatedGaussian) -> Iterator[Pair]:
    """Large groups, of which some move: the common noise hides a part of it."""
    size: int = mechanism.sparsity or mechanism.groups  # type: ignore[union-attr]
    c, most = mechanism.correlation, mechanism.max_groups
    half = round((size + 1 / c) / 2) if c else size
    for moved in sorted({1, most, min(most, max(1, half))}):
        squared = moved * (1 + c * (size - moved)) / (1 + c * size) / mechanism.independent_std**2
        yield normal_shift(f"{moved} large groups", math.sqrt(squared + moved * mechanism.sums_sensitivity**2))


_INTEGRATED: Final[dict[str, Callable[[Any], Iterable[Pair]]]] = {
    m.SparseGaussian.name: _of_sparse,
    m.LaplaceThreshold.name: _of_laplace,
    m.KnownGroups.name: _of_correlated,
    m.KnownLaplace.name: _of_listed_laplace,
    m.CorrelatedGaussian.name: _of_correlated,
    m.AdaptiveGaussian.name: lambda mechanism: [adaptive.alone_in_one_group(mechanism)],
}
"""Neighbours of a mechanism of any size whose laws reduce to one number: its own noise, and groups of one unit."""
