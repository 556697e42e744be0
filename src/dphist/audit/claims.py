"""Every claim of the product: one row per mechanism and analysis, with parameters small enough to be attacked.

Deltas are large on purpose. A formula that is right is right for every delta, and only a large one can be seen in a sample.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from fractions import Fraction
from typing import Any, Final

from dphist.audit import laws, neighbours, trials, view
from dphist.audit.findings import Claim, Pair
from dphist.audit.neighbours import normal_shift
from dphist.audit.trials import Layout
from dphist.mechanisms import (
    ContinualCounts,
    CorrelatedGaussian,
    CorrelatedTopK,
    DiscreteCorrelatedGaussian,
    DiscreteGaussianThreshold,
    FromTop,
    GaussianRecords,
    KnownGroups,
    LaplaceRecords,
    LaplaceThreshold,
    Profile,
    Ranked,
    SparseGaussian,
    TruncatedLaplace,
)
from dphist.mechanisms.continual import calibrate as calibrate_continual
from dphist.mechanisms.ranked import calibrate as calibrate_ranked
from dphist.noise import DiscreteLaplace, RoundedGaussian
from dphist.planning import Plan, plan_for
from dphist.planning.top_k import plan_top_k
from dphist.privacy import correlated_gaussian as csh

MANY: Final = (60_000, 1_000_000)
"""Runs on each side where one release holds them all: quick, thorough."""

ONE_BY_ONE: Final = (1_500, 60_000)
"""Runs where each is a release of its own."""

EPSILON, DELTA = 1.0, 0.2


def claims(*, thorough: bool = False) -> list[Claim]:
    """All of them; the thorough audit has more settings of those that can be enumerated."""
    made = [
        *sparse_gaussian(), *laplace(), *correlated_gaussian(), *known_groups(), *discrete(), *adaptive(), *top_k(),
        *streams(), *truncated(), *records(), *sketches(),
    ]  # fmt: skip
    return [*made, *more_settings()] if thorough else made


def in_words(made: object, *names: str) -> str:
    """Parameters as text."""
    return ", ".join(f"{name} {_shown(getattr(made, name))}" for name in names)


def _shown(value: Any) -> str:
    return f"{float(value):.4g}" if isinstance(value, float | Fraction) else str(value)


def _enumerated(made: Any, setting: str, pairs: Callable[[], Iterator[Pair]], analysis: str | None = None) -> Claim:
    named = getattr(made, "analysis", "") if analysis is None else analysis
    return Claim(made.name, named, setting, made.delta, pairs)


def _sampled(
    plan: Plan, setting: str, run: Any, runs: tuple[int, int], claimed: Callable[[float], float] | None = None
) -> Claim:
    """A claim about what a plan's release publishes."""
    made: Any = plan.mechanism
    return Claim(made.name, made.analysis, setting, claimed or made.delta, None, run, *runs)


def sparse_gaussian() -> Iterator[Claim]:
    """Three analyses enumerated; releases with new, large and too many groups, and with a sum."""
    for analysis in ("exact", "f-dp", "add-the-deltas"):
        yield enumerated_sparse(SparseGaussian(2, 1.5, 4.0, analysis=analysis, lattice_bits=4))
    summed = SparseGaussian(1, 1.5, 4.0, sums_sensitivity=0.5, lattice_bits=3)
    yield _enumerated(
        summed, "a count and a sum", lambda: neighbours.with_a_sum(summed, RoundedGaussian(Fraction(8), 0), 4), "exact, sums"
    )
    plan = plan_for(epsilon=EPSILON, delta=DELTA, max_groups=2, mechanism="sparse-gaussian")
    yield from released(plan)
    heavy = trials.one_release(plan, Layout(groups=5, base=9, moved=5))
    yield _sampled(plan, "release, a unit in 5 groups where 2 are allowed", heavy, MANY)
    with_sum = plan_for(epsilon=EPSILON, delta=DELTA, max_groups=2, mechanism="sparse-gaussian", sums={"value": (0, 1)})
    shared = trials.one_release(with_sum, Layout(groups=2, base=9, moved=2))
    yield _sampled(with_sum, "release of counts and sums, large groups", shared, MANY)


def enumerated_sparse(made: SparseGaussian) -> Claim:
    """All kinds of neighbours of a sparse Gaussian."""
    return _enumerated(made, in_words(made, "max_groups", "noise_std", "threshold"), lambda: neighbours.counted(made))


def released(plan: Plan) -> Iterator[Claim]:
    """Releases of a plan whose noise is independent: groups that are new with the unit, and large ones."""
    most = plan.mechanism.max_groups
    large = math.ceil(getattr(plan.mechanism, "threshold", 0) + 5 * plan.mechanism.noise_std)
    for name, base in (("new", 0), ("large", large)):
        run = trials.one_release(plan, Layout(groups=most, base=base, moved=most))
        yield _sampled(plan, f"release, {name} groups", run, MANY)


def laplace() -> Iterator[Claim]:
    """Enumerated, with a sum, with a choice of the law in front of it, and released."""
    made = LaplaceThreshold(2, 1.5, 6.0)
    yield _enumerated(made, in_words(made, "max_groups", "scale", "threshold"), lambda: neighbours.counted(made))
    summed = LaplaceThreshold(1, 1.5, 6.0, sums_epsilon=0.5)
    yield _enumerated(
        summed, "a count and a sum", lambda: neighbours.with_a_sum(summed, DiscreteLaplace(Fraction(8)), 4),
        "pure-and-tail, sums",
    )  # fmt: skip
    yield from released(plan_for(epsilon=EPSILON, delta=DELTA, max_groups=2, mechanism="laplace"))


def correlated_gaussian() -> Iterator[Claim]:
    """The tight analysis with its two bounds, the paper's two, a public list with fewer groups per unit; releases."""
    root = 1 / math.sqrt(2)
    for analysis in ("tight", "paper-3.5", "paper-3.3"):
        made = CorrelatedGaussian(2, 2, 1.5, root, 5.0, analysis=analysis, lattice_bits=3)
        yield enumerated_correlated(made)
    tight = CorrelatedGaussian(2, 2, 1.5, root, 5.0, lattice_bits=3)

    def theorem_2(epsilon: float) -> float:
        return csh.delta(
            epsilon, sparsity=2, max_groups=2, independent_std=1.5, correlation=root, gap=tight.gap,
            lattice_step=2.0**-3, sharp=False,
        )  # fmt: skip

    yield replace(enumerated_correlated(tight), analysis="tight, Theorem 2 alone", delta=theorem_2)
    listed = CorrelatedGaussian(3, 1, 1.0, 0.3, 4.0, lattice_bits=2)
    yield replace(enumerated_correlated(listed), analysis="tight, listed keys")
    crowded = CorrelatedGaussian(2, 2, 1.0, 0.7, 4.0, lattice_bits=2)
    counts = [(9, 9, 0), (9, 9, 1), (12, 10, 1), (1, 1, 1), (3, 2, 2), (9, 3, 3)]
    yield _enumerated(
        crowded, "three groups where the sparsity is 2", lambda: neighbours.too_many_groups(crowded, counts),
        "tight, sparsity enforced",
    )  # fmt: skip
    plan = plan_for(epsilon=EPSILON, delta=DELTA, sparsity=2, mechanism="correlated-gaussian")
    yield _sampled(plan, "releases, new groups", trials.many_releases(plan, (0, 0), (1, 1)), ONE_BY_ONE)
    yield _sampled(plan, "releases, large groups", trials.many_releases(plan, (9, 9), (1, 1)), ONE_BY_ONE)


def enumerated_correlated(made: CorrelatedGaussian | DiscreteCorrelatedGaussian) -> Claim:
    """All kinds of neighbours under a common noise."""
    setting = in_words(made, "sparsity", "max_groups", "independent_std", "correlation", "threshold")
    return _enumerated(made, setting, lambda: neighbours.counted(made))


def known_groups() -> Iterator[Claim]:
    """A public list with and without common noise."""
    for made in (KnownGroups(2, 2, 1.5, lattice_bits=4), KnownGroups(2, 2, 1.5, 0.7, lattice_bits=4)):
        setting = in_words(made, "groups", "max_groups", "independent_std", "correlation")
        yield _enumerated(made, setting, lambda made=made: neighbours.counted(made))
    plan = plan_for(epsilon=EPSILON, delta=DELTA, keys=1000, max_groups=2)
    independent = replace(plan, mechanism=next(m for m in plan.alternatives if m.analysis == "independent"))
    run = trials.one_release(independent, Layout(groups=2, base=0, moved=2))
    yield _sampled(independent, "release, empty groups of the list", run, MANY)
    few = plan_for(epsilon=EPSILON, delta=DELTA, keys=4, max_groups=2)
    yield _sampled(few, "releases, 2 of 4 listed groups", trials.many_releases(few, (5, 5, 5, 5), (1, 1, 0, 0)), ONE_BY_ONE)


def discrete() -> Iterator[Claim]:
    """Discrete Gaussian noise, independent and correlated."""
    made = DiscreteGaussianThreshold(2, 1.5, 5.0)
    yield _enumerated(made, in_words(made, "max_groups", "noise_std", "threshold"), lambda: neighbours.counted(made))
    yield enumerated_correlated(DiscreteCorrelatedGaussian(2, Fraction(9), Fraction(6), 6.0))
    yield from released(
        plan_for(epsilon=EPSILON, delta=DELTA, max_groups=2, mechanism="sparse-gaussian", noise="discrete")
    )
    plan = plan_for(epsilon=EPSILON, delta=DELTA, sparsity=2, mechanism="correlated-gaussian", noise="discrete")
    yield _sampled(plan, "releases, new groups", trials.many_releases(plan, (0, 0), (1, 1)), ONE_BY_ONE)


def adaptive() -> Iterator[Claim]:
    """The selection of a group of one unit integrated; the full view; releases, also where the data chooses the law."""
    alone = view.loose(groups=1)
    yield Claim(
        "adaptive", "rounds, Lemma 2", "a group of one unit over all rounds, integrated", lambda _: alone.delta_infinity(),
        lambda: [view.alone_in_one_group(alone)],
    )  # fmt: skip
    loose = view.loose()
    for name, target in (("all groups", view.EVERYWHERE), ("one group", view.IN_ONE)):
        yield Claim(
            "adaptive", "rounds, Lemma 1", f"the full view, a unit in {name}", loose.delta_gauss, None,
            view.ratios(loose, target), 20_000, 400_000,
        )  # fmt: skip
    plan = plan_for(epsilon=EPSILON, delta=0.3, mechanism="adaptive")
    yield from _selections(plan, plan.mechanism.delta)
    for name, chosen in (
        ("of the law", plan_for(epsilon=EPSILON, delta=0.3)),
        ("of max_groups", plan_for(epsilon=EPSILON, delta=0.3, max_groups="auto")),
    ):
        for claim in _selections(chosen, whole_budget(chosen)):
            yield replace(claim, mechanism="automatic choice", analysis=name)
    yield chosen_law()


def whole_budget(plan: Plan) -> Callable[[float], float]:
    """What is promised where the data chooses: delta at the epsilon of the plan and above, nothing below."""
    return lambda epsilon: plan.request.delta if epsilon >= plan.request.epsilon else 1.0


def _selections(plan: Plan, claimed: Callable[[float], float]) -> Iterator[Claim]:
    """Which groups a release shows: independent from run to run, since weights depend on a group's own sums alone."""
    for name, layout in (("new", Layout(1, 0, 1)), ("close", Layout(1, 4, 1)), ("new", Layout(4, 0, 4))):
        run = trials.one_release(plan, layout, selection_only=True)
        yield _sampled(plan, f"release, {name} groups, a unit in {layout.moved}", run, MANY, claimed)


def chosen_law() -> Claim:
    """Laplace thresholding behind a noisy histogram of degrees: both are looked at together."""
    share, branch = 0.1, LaplaceThreshold(1, 1.5, 6.0)

    def pairs() -> Iterator[Pair]:
        law = DiscreteLaplace(1 / Fraction(share))
        bucket = laws.thresholded([0], [1], own=law, common=None, threshold=neighbours.NOTHING, low=0)
        for pair in neighbours.counted(branch):
            sides = (pair.without, pair.with_)
            first, second = (laws.joint(list(side)) for side in zip(sides, bucket, strict=True))
            yield Pair(f"{pair.name} and one bucket", first, second)

    return Claim(
        "automatic choice", "of the law", "Laplace behind a noisy histogram of degrees",
        lambda epsilon: branch.delta(epsilon - share) if epsilon >= share else 1.0, pairs,
    )  # fmt: skip


def top_k() -> Iterator[Claim]:
    """The largest groups by three methods, and sessions."""
    correlated = CorrelatedTopK(1, 1.5, 1.0, 1.0, 5.0, lattice_bits=2)
    counts = [(0, 0), (1, 0), (1, 1), (2, 1), (9, 0), (9, 9), (14, 5)]
    setting = in_words(correlated, "k", "independent_std", "correlation", "base_variance", "threshold")
    yield _enumerated(correlated, setting, lambda: neighbours.largest(correlated, counts))
    for limited in (FromTop(1, 0.8, 3, 1), FromTop(1, 0.8, 3)):
        bound = "no bound on groups" if limited.max_groups is None else "max_groups 1"
        yield _enumerated(
            limited, f"{in_words(limited, 'most_groups', 'noise_std', 'threshold')}, {bound}",
            lambda limited=limited: neighbours.from_top(limited, "ABC", 2),
        )  # fmt: skip
    for made, labels, most in ((Ranked(2, 2, 0.7, 5), "ABC", 3), (Ranked(2, 1, 0.8, 6, max_per_group=2), "ABC", 2)):
        setting = in_words(made, "symbols", "shortlist", "symbol_epsilon", "threshold", "max_per_group")
        yield _enumerated(made, setting, lambda m=made, a=labels, b=most: neighbours.ranked(m, a, b))
    session = Ranked(2, 1, 0.9, 4, queries=2)
    yield replace(
        _enumerated(
            session, in_words(session, "symbols", "queries", "shortlist", "symbol_epsilon", "threshold"),
            lambda: neighbours.ranked(session, "AB", 3),
        ), mechanism="session",
    )  # fmt: skip
    for method, without, moved in (
        ("correlated", (12, 12, 3), (1, 1, 0)),
        ("correlated", (0, 0, 0), (1, 1, 0)),
        ("from-top", (0, 0, 0), (1, 1, 0)),
        ("from-top", (12, 12, 3), (1, 1, 0)),
        ("ranked", (5, 5, 0), (1, 1, 0)),
        ("ranked", (0, 0, 0), (1, 1, 0)),
    ):
        plan = plan_top_k(k=2, epsilon=EPSILON, delta=DELTA, method=method, **({"shortlist": 2} if method == "ranked" else {}))  # type: ignore[arg-type]
        run = trials.largest_groups(plan, without, moved)
        named: Any = plan.mechanism
        yield Claim(named.name, "", f"top-k, groups of {without}, the unit in {moved}", named.delta, None, run, *ONE_BY_ONE)
    budget = {"epsilon": 2.0, "delta": 0.3, "results": 2, "queries": 2}
    made_for = calibrate_ranked(2.0, 0.3, 2, 2, queries=2)
    yield Claim(
        "session", "", "sessions of two queries", made_for.delta, None,
        trials.sessions((4, 4), (1, 0), **budget), 10, 1_500,  # type: ignore[arg-type]
    )  # fmt: skip


def streams() -> Iterator[Claim]:
    """Running counts over three rounds."""
    made = ContinualCounts(3, 1, 1.0, 4)
    yield _enumerated(made, in_words(made, "rounds", "max_groups", "noise_std", "threshold"), lambda: neighbours.running(made, 8))
    real = calibrate_continual(EPSILON, DELTA, 3, 2)
    for name, base, event in (("new", 0, 1), ("large", math.ceil(real.threshold + 5 * real.noise_std), 1)):
        run = trials.stream(
            Layout(2, base, 2), rounds=3, max_groups=2, epsilon=EPSILON, delta=DELTA, event=event
        )  # fmt: skip
        yield Claim("continual", "", f"a stream of 3 rounds, {name} groups", real.delta, None, run, 20_000, 300_000)


def truncated() -> Iterator[Claim]:
    """Truncated Laplace noise, and the statistics behind it."""
    made = TruncatedLaplace(Fraction(1, 2), 6, 2)
    yield _enumerated(made, in_words(made, "epsilon_per_group", "q", "max_groups"), lambda: neighbours.bars(made, (0, 1, 3, 6, 12)))
    real = TruncatedLaplace.for_budget(EPSILON, DELTA, 2)
    for name, base in (("new", 0), ("large", real.q + 1)):
        run = trials.statistic(Layout(2, base, 2), epsilon=EPSILON, delta=DELTA)
        yield Claim("truncated-laplace", "exact", f"stat support, {name} bars", real.delta, None, run, *MANY)


def records() -> Iterator[Claim]:
    """Counts of records: up to two from one unit in a group."""
    made: Profile
    for made in (
        LaplaceRecords(2, 2, 3.0, 8.0),
        GaussianRecords(2, 2, 3.0, 9.0, lattice_bits=3),
        GaussianRecords(2, 2, 3.0, 9.0, discrete=True),
    ):
        kind = ("discrete" if made.discrete else "rounded") if isinstance(made, GaussianRecords) else "discrete"
        scale = "scale" if isinstance(made, LaplaceRecords) else "noise_std"
        setting = in_words(made, "max_groups", "max_per_group", scale, "threshold")
        yield _enumerated(made, setting, lambda made=made: neighbours.counted(made, per_group=2), kind)
        for name, base in (("new", 0), ("large", 30)):
            run = trials.records(made, Layout(2, base, 2))
            yield Claim(made.name, kind, f"perturb, {name} groups", made.delta, None, run, *MANY)


def sketches() -> Iterator[Claim]:
    """Misra-Gries in front of correlated noise."""
    made = CorrelatedGaussian(2, 2, 1.2, 0.7, 4.0, lattice_bits=2)
    blocks = [{"a": 9, "b": 8, "c": 1}, {"a": 8, "b": 9, "c": 2}]
    yield replace(
        _enumerated(made, "2 counters, 3 groups, 2 blocks", lambda: neighbours.sketched(made, blocks), "tight"),
        mechanism="sketch",
    )
    plan = plan_for(epsilon=EPSILON, delta=DELTA, sketch=2)
    run = trials.many_releases(plan, (14, 14, 3), (1, 1, 0))
    yield replace(_sampled(plan, "releases of sketches", run, ONE_BY_ONE), mechanism="sketch")


def more_settings() -> Iterator[Claim]:
    """Other parameters of what can be enumerated: little and much noise, low and high thresholds, one to three groups."""
    for groups, std, threshold, low in (
        (1, 0.4, 1.0, 1), (1, 3.0, 14.0, 1), (2, 0.8, 1.5, 1), (2, 3.0, 12.0, 3), (3, 1.0, 4.0, 1), (3, 2.0, 2.0, 2),
    ):  # fmt: skip
        made = SparseGaussian(groups, std, threshold, low, lattice_bits=1 if groups == 3 else 3)
        yield replace(enumerated_sparse(made), setting=f"{in_words(made, 'max_groups', 'noise_std', 'threshold', 'low_threshold')}")
        integer = DiscreteGaussianThreshold(groups, std, float(math.ceil(threshold)), low)
        yield _enumerated(
            integer, in_words(integer, "max_groups", "noise_std", "threshold", "low_threshold"),
            lambda integer=integer: neighbours.counted(integer),
        )  # fmt: skip
    for groups, scale, threshold in ((1, 0.5, 2.0), (1, 3.0, 10.0), (2, 0.8, 1.0), (2, 3.0, 20.0)):
        exponential = LaplaceThreshold(groups, scale, threshold)
        yield _enumerated(
            exponential, in_words(exponential, "max_groups", "scale", "threshold"),
            lambda exponential=exponential: neighbours.counted(exponential),
        )  # fmt: skip
    for sparsity, most, std, correlation, threshold in (
        (2, 2, 0.5, 0.2, 2.0), (2, 2, 1.0, 5.0, 5.0), (2, 1, 1.0, 1.0, 4.0), (3, 3, 0.7, 0.577, 3.0), (3, 2, 0.7, 0.2, 3.0),
        (2, 2, 3.0, 0.7, 10.0),
    ):  # fmt: skip
        yield enumerated_correlated(CorrelatedGaussian(sparsity, most, std, correlation, threshold, lattice_bits=2))
    for variance, common in ((Fraction(4), Fraction(1)), (Fraction(1), Fraction(1)), (Fraction(30), Fraction(21))):
        yield enumerated_correlated(DiscreteCorrelatedGaussian(2, variance, common, 5.0))
    for q, epsilon, groups in ((3, Fraction(1), 2), (9, Fraction(1, 3), 1), (8, Fraction(1), 2), (4, Fraction(1, 5), 3)):
        noise = TruncatedLaplace(epsilon, q, groups)
        yield _enumerated(
            noise, in_words(noise, "epsilon_per_group", "q", "max_groups"),
            lambda noise=noise: neighbours.bars(noise, (0, 1, 2, noise.q, 2 * noise.q)),
        )  # fmt: skip
    two = CorrelatedTopK(2, 0.7, 0.7, 1.4, 3.0, lattice_bits=1)
    yield _enumerated(
        two, in_words(two, "k", "independent_std", "correlation", "base_variance", "threshold"),
        lambda: neighbours.largest(two, [(0, 0, 0), (1, 1, 0), (1, 1, 1), (7, 7, 1), (7, 7, 7), (3, 2, 1)]),
    )  # fmt: skip
    for std, t in ((1.4, 6), (0.7, 2)):
        running = ContinualCounts(3, 1, std, t)
        yield _enumerated(running, in_words(running, "rounds", "noise_std", "threshold"), lambda r=running: neighbours.running(r, 10))
    for most, bound, std, t in ((2, 1, 0.8, 3), (1, 2, 1.1, 5)):
        limited = FromTop(most, std, t, bound)
        yield _enumerated(
            limited, in_words(limited, "most_groups", "max_groups", "noise_std", "threshold"),
            lambda limited=limited: neighbours.from_top(limited, "ABC", 1),
        )  # fmt: skip


def of_plan(plan: Plan) -> list[Claim]:
    """The claims of one plan at its own parameters: integrated cases of its noise, and its own releases."""
    made: Any = plan.mechanism
    claimed = whole_budget(plan) if plan.request.choice != "given" else made.delta
    setting = "the plan's own parameters"
    found = []
    cases = list(_integrated(made))
    if cases:
        found.append(Claim(made.name, made.analysis, setting, claimed, lambda: cases))
    most = plan.request.max_groups or 1
    if plan.request.sketch is None and made.name in ("sparse-gaussian", "laplace", "discrete-gaussian") and most <= 20:
        size = max(200, MANY[0] // most)
        for claim in released(plan):
            found.append(replace(claim, delta=claimed, quick=size, thorough=10 * size))
    elif plan.request.unbounded:
        found += list(_selections(plan, claimed))
    elif plan.request.sketch is None:
        groups = plan.request.keys or min(plan.request.groups_per_unit, 20)
        large = math.ceil(getattr(made, "threshold", 0) + 5 * made.noise_std)
        moved = [int(i < min(plan.request.groups_per_unit, made.max_groups)) for i in range(groups)]
        if groups <= 20:
            run = trials.many_releases(plan, [large] * groups, moved)
            found.append(Claim(made.name, made.analysis, setting, claimed, None, run, *ONE_BY_ONE))
    return found


def _integrated(made: Any) -> Iterator[Pair]:
    """Neighbours of a mechanism of any size whose laws reduce to one number: its own noise, and groups of one unit."""
    if isinstance(made, SparseGaussian):
        chance = _hidden(made.gap / made.noise_std)
        for shared in sorted({0, 1, made.max_groups // 2, made.max_groups - 1, made.max_groups}):
            mu = math.sqrt(shared * (1 / made.noise_std**2 + made.sums_sensitivity**2))
            new = made.max_groups - shared
            yield normal_shift(f"{shared} large and {new} new groups", mu, chance**new)
    elif isinstance(made, KnownGroups | CorrelatedGaussian):
        size = made.groups if isinstance(made, KnownGroups) else made.sparsity
        c, per_group = made.correlation, made.sums_sensitivity**2
        for moved in sorted({1, made.max_groups, min(made.max_groups, max(1, round((size + 1 / c) / 2 if c else size)))}):
            squared = moved * (1 + c * (size - moved)) / (1 + c * size) / made.independent_std**2 + moved * per_group
            yield normal_shift(f"{moved} large groups", math.sqrt(squared))


def _hidden(t: float) -> float:
    return 0.5 * math.erfc(-t / math.sqrt(2))
