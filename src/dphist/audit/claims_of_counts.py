"""Claims of the mechanisms that release counts of unknown or listed groups."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from functools import partial
from typing import Any

from dphist.audit import neighbours, trials
from dphist.audit.claim_parts import (
    DELTA,
    EPSILON,
    HEAVY,
    MANY,
    ONE_BY_ONE,
    enumerated,
    of_correlated,
    of_counts,
    of_release,
    released,
)
from dphist.audit.findings import Claim
from dphist.audit.trials import Layout
from dphist.mechanisms import (
    CorrelatedGaussian,
    DiscreteCorrelatedGaussian,
    DiscreteGaussianThreshold,
    GaussianRecords,
    KnownGroups,
    LaplaceRecords,
    LaplaceThreshold,
    SparseGaussian,
)
from dphist.noise import DiscreteLaplace, RoundedGaussian
from dphist.planning import plan_for
from dphist.privacy import correlated_gaussian as csh
from dphist.privacy import sparse_gaussian as gshm

FIXED: dict[str, Any] = {"noise_std": 1.0, "correlation": 1.0}
"""Close to what the planner would choose at this budget, without the time for its search."""

SPARSE = ("max_groups", "noise_std", "threshold")


def sparse_gaussian() -> Iterator[Claim]:
    """Three analyses enumerated; releases with new, large and too many groups, and with a sum."""
    for analysis in gshm.ANALYSES:
        yield of_counts(SparseGaussian(2, 1.5, 4.0, analysis=analysis, lattice_bits=4), *SPARSE)
    summed = SparseGaussian(1, 1.5, 4.0, sums_sensitivity=0.5, lattice_bits=3)
    yield enumerated(
        summed,
        "a count and a sum",
        partial(neighbours.with_a_sum, summed, RoundedGaussian(Fraction(8), 0), 4),
        "exact, sums",
    )
    plan = plan_for(epsilon=EPSILON, delta=DELTA, max_groups=2, mechanism="sparse-gaussian")
    yield from released(plan)
    heavy = trials.one_release(plan, Layout(groups=5, base=9, moved=5))
    yield of_release(plan, "release, a unit in 5 groups where 2 are allowed", heavy, HEAVY)
    with_sum = plan_for(epsilon=EPSILON, delta=DELTA, max_groups=2, mechanism="sparse-gaussian", sums={"value": (0, 1)})
    shared = trials.one_release(with_sum, Layout(groups=2, base=9, moved=2))
    yield of_release(with_sum, "release of counts and sums, large groups", shared, MANY)


def laplace() -> Iterator[Claim]:
    """Enumerated, with a sum, with a choice of the law in front of it, and released."""
    made = LaplaceThreshold(2, 1.5, 6.0)
    yield of_counts(made, "max_groups", "scale", "threshold")
    summed = LaplaceThreshold(1, 1.5, 6.0, sums_epsilon=0.5)
    yield enumerated(
        summed, "a count and a sum", partial(neighbours.with_a_sum, summed, DiscreteLaplace(Fraction(8)), 4),
        "pure-and-tail, sums",
    )  # fmt: skip
    yield from released(plan_for(epsilon=EPSILON, delta=DELTA, max_groups=2, mechanism="laplace"))


def correlated_gaussian() -> Iterator[Claim]:
    """The tight analysis with its two bounds, the paper's two, a public list with fewer groups per unit; releases."""
    root = 1 / math.sqrt(2)
    for analysis in csh.ANALYSES:
        made = CorrelatedGaussian(2, 2, 1.5, root, 5.0, analysis=analysis, lattice_bits=3)
        yield of_correlated(made)
    tight = CorrelatedGaussian(2, 2, 1.5, root, 5.0, lattice_bits=3)

    def theorem_2(epsilon: float) -> float:
        return csh.delta(
            epsilon, sparsity=2, max_groups=2, independent_std=1.5, correlation=root, gap=tight.gap,
            lattice_step=2.0**-3, sharp=False,
        )  # fmt: skip

    yield replace(of_correlated(tight), analysis="tight, Theorem 2 alone", delta=theorem_2)
    listed = CorrelatedGaussian(3, 1, 1.0, 0.3, 4.0, lattice_bits=2)
    yield replace(of_correlated(listed), analysis="tight, listed keys")
    crowded = CorrelatedGaussian(2, 2, 1.0, 0.7, 4.0, lattice_bits=2)
    counts = [(9, 9, 0), (9, 9, 1), (12, 10, 1), (1, 1, 1), (3, 2, 2), (9, 3, 3)]
    yield enumerated(
        crowded, "three groups where the sparsity is 2", partial(neighbours.too_many_groups, crowded, counts),
        "tight, sparsity enforced",
    )  # fmt: skip
    plan = plan_for(epsilon=EPSILON, delta=DELTA, sparsity=2, mechanism="correlated-gaussian", **FIXED)
    yield of_release(plan, "releases, new groups", trials.many_releases(plan, (0, 0), (1, 1)), ONE_BY_ONE)
    yield of_release(plan, "releases, large groups", trials.many_releases(plan, (9, 9), (1, 1)), ONE_BY_ONE)


def known_groups() -> Iterator[Claim]:
    """A public list with and without common noise."""
    for made in (KnownGroups(2, 2, 1.5, lattice_bits=4), KnownGroups(2, 2, 1.5, 0.7, lattice_bits=4)):
        yield of_counts(made, "groups", "max_groups", "independent_std", "correlation")
    plan = plan_for(epsilon=EPSILON, delta=DELTA, keys=1000, max_groups=2)
    independent = replace(plan, mechanism=next(m for m in plan.alternatives if m.analysis == "independent"))
    run = trials.one_release(independent, Layout(groups=2, base=0, moved=2))
    yield of_release(independent, "release, empty groups of the list", run, MANY)
    few = plan_for(epsilon=EPSILON, delta=DELTA, keys=4, max_groups=2)
    yield of_release(
        few, "releases, 2 of 4 listed groups", trials.many_releases(few, (5, 5, 5, 5), (1, 1, 0, 0)), ONE_BY_ONE
    )


def discrete() -> Iterator[Claim]:
    """Discrete Gaussian noise, independent and correlated."""
    made = DiscreteGaussianThreshold(2, 1.5, 5.0)
    yield of_counts(made, *SPARSE)
    yield of_correlated(DiscreteCorrelatedGaussian(2, Fraction(9), Fraction(6), 6.0))
    yield from released(
        plan_for(epsilon=EPSILON, delta=DELTA, max_groups=2, mechanism="sparse-gaussian", noise="discrete")
    )
    plan = plan_for(epsilon=EPSILON, delta=DELTA, sparsity=2, mechanism="correlated-gaussian", noise="discrete")
    yield of_release(plan, "releases, new groups", trials.many_releases(plan, (0, 0), (1, 1)), ONE_BY_ONE)


def sketches() -> Iterator[Claim]:
    """Misra-Gries in front of correlated noise."""
    made = CorrelatedGaussian(2, 2, 1.2, 0.7, 4.0, lattice_bits=2)
    blocks = [{"a": 9, "b": 8, "c": 1}, {"a": 8, "b": 9, "c": 2}]
    yield replace(
        enumerated(made, "2 counters, 3 groups, 2 blocks", partial(neighbours.sketched, made, blocks), "tight"),
        mechanism="sketch",
    )
    plan = plan_for(epsilon=EPSILON, delta=DELTA, sketch=2, **FIXED)
    run = trials.many_releases(plan, (14, 14, 3), (1, 1, 0))
    yield replace(of_release(plan, "releases of sketches", run, ONE_BY_ONE), mechanism="sketch")


def records() -> Iterator[Claim]:
    """Counts of records: up to two from one unit in a group."""
    made: LaplaceRecords | GaussianRecords
    for made in (
        LaplaceRecords(2, 2, 3.0, 8.0),
        GaussianRecords(2, 2, 3.0, 9.0, lattice_bits=3),
        GaussianRecords(2, 2, 3.0, 9.0, discrete=True),
    ):
        kind = ("discrete" if made.discrete else "rounded") if isinstance(made, GaussianRecords) else "discrete"
        scale = "scale" if isinstance(made, LaplaceRecords) else "noise_std"
        yield of_counts(made, "max_groups", "max_per_group", scale, "threshold", per_group=2, analysis=kind)
        for name, base in (("new", 0), ("large", 30)):
            run = trials.records(made, Layout(2, base, 2))
            yield Claim(made.name, kind, f"perturb, {name} groups", made.delta, None, run, *MANY)
