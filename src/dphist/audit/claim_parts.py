"""What claims are made of: parameters in words, enumerated neighbours, releases."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import partial
from typing import Any, Final

from dphist.audit import neighbours, trials
from dphist.audit.findings import Claim, Pair
from dphist.audit.trials import Layout, Run
from dphist.engines.spark.engine import SparkEngine
from dphist.mechanisms import CorrelatedGaussian, DiscreteCorrelatedGaussian
from dphist.planning import Plan

MANY: Final = (60_000, 300_000)
"""Runs on each side where one release holds them all: quick, thorough."""

HEAVY: Final = (40_000, 100_000)
"""Runs with many records each."""

ONE_BY_ONE: Final = (1_500, 12_000)
"""Runs where each is a release of its own."""

EPSILON, DELTA = 1.0, 0.2
"""The budget of most releases: so much that a sample sees it."""


def in_words(made: object, *names: str) -> str:
    """Parameters as text."""
    return ", ".join(f"{name} {_shown(getattr(made, name))}" for name in names)


def _shown(value: Any) -> str:
    return f"{float(value):.4g}" if isinstance(value, float | Fraction) else str(value)


def enumerated(made: Any, setting: str, pairs: Callable[[], Iterator[Pair]], analysis: str | None = None) -> Claim:
    """A mechanism whose output laws on worst-case neighbours can be listed."""
    named = getattr(made, "analysis", "") if analysis is None else analysis
    return Claim(made.name, named, setting, made.delta, pairs)


def of_release(
    plan: Plan, setting: str, run: Run, runs: tuple[int, int], claimed: Callable[[float], float] | None = None
) -> Claim:
    """A claim about what a plan's release publishes."""
    made: Any = plan.mechanism
    return Claim(made.name, made.analysis, setting, claimed or made.delta, None, run, *runs)


def released(plan: Plan, engine: SparkEngine | None = None, runs: tuple[int, int] = MANY) -> Iterator[Claim]:
    """Releases of a plan whose noise is independent: groups that are new with the unit, and large ones."""
    most = plan.mechanism.max_groups
    large = math.ceil(getattr(plan.mechanism, "threshold", 0) + 5 * plan.mechanism.noise_std)
    for name, base in (("new", 0), ("large", large)):
        run = trials.one_release(plan, Layout(groups=most, base=base, moved=most), engine=engine)
        yield of_release(plan, f"release, {name} groups", run, runs)


def whole_budget(plan: Plan) -> Callable[[float], float]:
    """What is promised where the data chooses: delta at the epsilon of the plan and above, nothing below."""
    return lambda epsilon: plan.request.delta if epsilon >= plan.request.epsilon else 1.0


def selections(
    plan: Plan,
    claimed: Callable[[float], float],
    *layouts: Layout,
    engine: SparkEngine | None = None,
    runs: tuple[int, int] = MANY,
) -> Iterator[Claim]:
    """Which groups a release shows: independent from run to run, since weights depend on a group's own sums alone."""
    for layout in layouts:
        run = trials.one_release(plan, layout, engine=engine, selection_only=True)
        kind = f"groups of {layout.base}" if layout.base else "new groups"
        yield of_release(plan, f"release, {kind}, a unit in {layout.moved}", run, runs, claimed)


def of_counts(made: neighbours.Counted, *names: str, per_group: int = 1, analysis: str | None = None) -> Claim:
    """All kinds of neighbours of a mechanism on counts; `names` are the parameters to tell."""
    return enumerated(made, in_words(made, *names), partial(neighbours.counted, made, per_group=per_group), analysis)


def of_correlated(made: CorrelatedGaussian | DiscreteCorrelatedGaussian) -> Claim:
    """The same under a common noise."""
    return of_counts(made, "sparsity", "max_groups", "independent_std", "correlation", "threshold")
