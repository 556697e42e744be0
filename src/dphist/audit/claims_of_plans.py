"""The claims of a plan that someone is about to use."""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
from scipy.special import ndtr
from scipy.stats import binom

from dphist.audit import laws, trials, view
from dphist.audit.claim_parts import MANY, ONE_BY_ONE, of_release, selections, whole_budget
from dphist.audit.findings import Claim, Pair
from dphist.audit.neighbours import normal_shift
from dphist.audit.trials import Layout
from dphist.mechanisms import AdaptiveGaussian, CorrelatedGaussian, KnownGroups, LaplaceThreshold, SparseGaussian
from dphist.noise import DiscreteLaplace
from dphist.planning import Plan

MOST_RECORDS = 4_000_000
"""What a quick audit of a plan may make up: the runs that fit into it."""


def of_plan(plan: Plan) -> list[Claim]:
    """The claims of one plan at its own parameters: integrated cases of its noise and threshold, and its own releases."""
    made: Any = plan.mechanism
    claimed = whole_budget(plan) if plan.request.choice != "given" else made.delta
    setting = "the plan's own parameters"
    found = [
        Claim(made.name, made.analysis, setting, claimed, partial(list, cases)) for cases in [integrated(made)] if cases
    ]
    if plan.request.sketch is not None:
        return found
    if plan.request.unbounded:
        return [*found, *selections(plan, claimed, Layout(1, 0, 1), Layout(1, 4, 1), Layout(4, 0, 4))]
    most = plan.request.groups_per_unit
    large = math.ceil(getattr(made, "threshold", 0) + 5 * made.noise_std)
    if made.name in ("sparse-gaussian", "laplace", "discrete-gaussian"):
        runs = min(MANY[0], MOST_RECORDS // (2 * most * large))
        if runs >= 1000:
            run = trials.one_release(plan, Layout(most, large, most))
            found.append(of_release(plan, "releases of the plan, large groups", run, (runs, 10 * runs), claimed))
        return found
    groups = plan.request.keys or most
    if groups <= 20:
        run = trials.many_releases(plan, [large] * groups, [int(i < most) for i in range(groups)])
        found.append(of_release(plan, "releases of the plan, large groups", run, ONE_BY_ONE, claimed))
    return found


def integrated(made: Any) -> list[Pair]:
    """Neighbours of a mechanism of any size whose laws reduce to one number: its own noise, and groups of one unit."""
    if isinstance(made, SparseGaussian):
        return list(_of_sparse(made))
    if isinstance(made, LaplaceThreshold) and made.sums_epsilon == 0:
        return list(_of_laplace(made))
    if isinstance(made, KnownGroups | CorrelatedGaussian):
        return list(_of_correlated(made))
    return [view.alone_in_one_group(made)] if isinstance(made, AdaptiveGaussian) else []


def _of_sparse(made: SparseGaussian) -> Iterator[Pair]:
    """Some groups are large, the others new."""
    shown = float(ndtr(-made.gap / made.noise_std))
    for shared in sorted({0, 1, made.max_groups // 2, made.max_groups - 1, made.max_groups}):
        mu = math.sqrt(shared * (1 / made.noise_std**2 + made.sums_sensitivity**2))
        new = made.max_groups - shared
        yield normal_shift(f"{shared} large and {new} new groups", mu, -math.expm1(new * math.log1p(-shown)))


def _of_laplace(made: LaplaceThreshold) -> Iterator[Pair]:
    """New groups; and large ones, of which only how many are above the old count matters: the loss has two values."""
    law = DiscreteLaplace(Fraction(made.scale))
    gap = int(made.gap)
    shown = float(laws.masses(law, np.arange(gap + 1, gap + 1 + laws.reach_of(law))).sum())
    any_shown = -math.expm1(made.max_groups * math.log1p(-shown))
    yield Pair("new groups", np.array([1.0, 0.0]), np.array([1 - any_shown, any_shown]))
    above = float(laws.masses(law, np.arange(1, laws.reach_of(law))).sum())
    number = np.arange(made.max_groups + 1)
    yield Pair("large groups", *(binom.pmf(number, made.max_groups, p) for p in (above, 1 - above)))


def _of_correlated(made: KnownGroups | CorrelatedGaussian) -> Iterator[Pair]:
    """Large groups, of which some move: the common noise hides a part of it."""
    size = made.groups if isinstance(made, KnownGroups) else made.sparsity
    c = made.correlation
    half = round((size + 1 / c) / 2) if c else size
    for moved in sorted({1, made.max_groups, min(made.max_groups, max(1, half))}):
        squared = moved * (1 + c * (size - moved)) / (1 + c * size) / made.independent_std**2
        yield normal_shift(f"{moved} large groups", math.sqrt(squared + moved * made.sums_sensitivity**2))
