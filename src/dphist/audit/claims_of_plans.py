"""The claims of a plan that someone is about to use."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from dphist.audit import trials
from dphist.audit.claim_parts import MANY, ONE_BY_ONE, released, selections, whole_budget
from dphist.audit.findings import Claim, Pair
from dphist.audit.neighbours import normal_shift
from dphist.audit.trials import Layout
from dphist.mechanisms import CorrelatedGaussian, KnownGroups, SparseGaussian
from dphist.planning import Plan


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
        found += list(selections(plan, claimed, Layout(1, 0, 1), Layout(1, 4, 1), Layout(4, 0, 4)))
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
        for moved in sorted(
            {1, made.max_groups, min(made.max_groups, max(1, round((size + 1 / c) / 2 if c else size)))}
        ):
            squared = moved * (1 + c * (size - moved)) / (1 + c * size) / made.independent_std**2 + moved * per_group
            yield normal_shift(f"{moved} large groups", math.sqrt(squared))


def _hidden(t: float) -> float:
    return 0.5 * math.erfc(-t / math.sqrt(2))
