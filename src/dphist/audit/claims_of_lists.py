"""Claims of the adaptive release, of top-k lists, sessions and streams, and of statistics."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from functools import partial
from typing import Any

from dphist.audit import laws, neighbours, trials, view
from dphist.audit.claim_parts import DELTA, EPSILON, MANY, ONE_BY_ONE, enumerated, in_words, selections, whole_budget
from dphist.audit.findings import Claim, Pair
from dphist.audit.trials import Layout
from dphist.mechanisms import ContinualCounts, CorrelatedTopK, FromTop, LaplaceThreshold, Ranked, TruncatedLaplace
from dphist.mechanisms.continual import calibrate as calibrate_continual
from dphist.mechanisms.ranked import calibrate as calibrate_ranked
from dphist.noise import DiscreteLaplace
from dphist.planning import plan_for
from dphist.planning.top_k import TopKPlan, plan_top_k


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
            view.ratios(loose, target), 20_000, 200_000,
        )  # fmt: skip
    plan = plan_for(epsilon=EPSILON, delta=0.3, mechanism="adaptive")
    yield from selections(plan, plan.mechanism.delta, Layout(1, 4, 1))
    law, groups = plan_for(epsilon=EPSILON, delta=0.3), plan_for(epsilon=EPSILON, delta=0.3, max_groups="auto")
    for name, chosen, layouts in (
        ("of the law", law, (Layout(1, 0, 1),)),
        ("of max_groups", groups, (Layout(1, 0, 1), Layout(4, 0, 4))),
    ):
        for claim in selections(chosen, whole_budget(chosen), *layouts):
            yield replace(claim, mechanism="automatic choice", analysis=name)
    yield chosen_law()


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


def of_largest(made: CorrelatedTopK, counts: list[tuple[int, ...]]) -> Claim:
    """Lists of counts with every set of groups for the unit."""
    setting = in_words(made, "k", "independent_std", "correlation", "base_variance", "threshold")
    return enumerated(made, setting, partial(neighbours.largest, made, counts))


def of_top(made: FromTop, most: int) -> Claim:
    """All neighbours with three groups and counts up to `most`."""
    setting = in_words(made, "most_groups", "max_groups", "noise_std", "threshold")
    return enumerated(made, setting, partial(neighbours.from_top, made, "ABC", most))


def of_ranked(made: Ranked, labels: str, most: int) -> Claim:
    """All neighbours with these groups and counts up to `most`."""
    setting = in_words(made, "symbols", "queries", "shortlist", "symbol_epsilon", "threshold", "max_per_group")
    return enumerated(made, setting, partial(neighbours.ranked, made, labels, most))


def of_stream(made: ContinualCounts) -> Claim:
    """A group over three rounds."""
    setting = in_words(made, "rounds", "max_groups", "noise_std", "threshold")
    return enumerated(made, setting, partial(neighbours.running, made, 8))


def of_bars(made: TruncatedLaplace) -> Claim:
    """Bars below and above the range of the noise."""
    setting = in_words(made, "epsilon_per_group", "q", "max_groups")
    return enumerated(made, setting, partial(neighbours.bars, made, (0, 1, made.q // 2, made.q, 2 * made.q)))


def top_k() -> Iterator[Claim]:
    """The largest groups by three methods, and sessions."""
    counts: list[tuple[int, ...]] = [(0, 0), (1, 0), (1, 1), (2, 1), (9, 0), (9, 9), (14, 5)]
    yield of_largest(CorrelatedTopK(1, 1.5, 1.0, 1.0, 5.0, lattice_bits=2), counts)
    yield of_top(FromTop(1, 0.8, 3, 1), 2)
    yield of_top(FromTop(1, 0.8, 3), 2)
    yield of_ranked(Ranked(2, 2, 0.7, 5), "ABC", 3)
    yield of_ranked(Ranked(2, 1, 0.8, 6, max_per_group=2), "ABC", 2)
    yield replace(of_ranked(Ranked(2, 1, 0.9, 4, queries=2), "AB", 3), mechanism="session")
    budget: dict[str, Any] = {"epsilon": EPSILON, "delta": DELTA}
    correlated = CorrelatedTopK(2, 0.9, 0.7, 1.4, 2.75)
    plans = {
        "correlated": TopKPlan(EPSILON, correlated.delta(EPSILON), 2, "correlated", correlated),
        "from-top": plan_top_k(k=2, method="from-top", **budget),
        "ranked": plan_top_k(k=2, method="ranked", shortlist=2, **budget),
    }
    for method, large in (("correlated", (12, 12, 3)), ("from-top", (12, 12, 3)), ("ranked", (5, 5, 0))):
        for without in (large, (0, 0, 0)):
            run = trials.largest_groups(plans[method], without, (1, 1, 0))
            made: Any = plans[method].mechanism
            setting = f"top-k, groups of {without}, the unit in two"
            yield Claim(made.name, "", setting, made.delta, None, run, *ONE_BY_ONE)
    run = trials.sessions((4, 4), (1, 0), epsilon=2.0, delta=0.3, results=2, queries=2)
    session = calibrate_ranked(2.0, 0.3, 2, 2, queries=2)
    yield Claim("session", "", "sessions of two queries", session.delta, None, run, 10, 300)


def streams() -> Iterator[Claim]:
    """Running counts over three rounds."""
    yield of_stream(ContinualCounts(3, 1, 1.0, 4))
    real = calibrate_continual(EPSILON, DELTA, 3, 2)
    for name, base in (("new", 0), ("large", math.ceil(real.threshold + 5 * real.noise_std))):
        run = trials.stream(Layout(2, base, 2), rounds=3, max_groups=2, epsilon=EPSILON, delta=DELTA, event=1)
        yield Claim("continual", "", f"a stream of 3 rounds, {name} groups", real.delta, None, run, 20_000, 150_000)


def truncated() -> Iterator[Claim]:
    """Truncated Laplace noise, and the statistics behind it."""
    yield of_bars(TruncatedLaplace(Fraction(1, 2), 6, 2))
    real = TruncatedLaplace.for_budget(EPSILON, DELTA, 2)
    for name, base in (("new", 0), ("large", real.q + 1)):
        run = trials.statistic(Layout(2, base, 2), epsilon=EPSILON, delta=DELTA)
        yield Claim("truncated-laplace", "exact", f"stat support, {name} bars", real.delta, None, run, *MANY)
