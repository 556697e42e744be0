"""Where true values become published ones: the noise of a plan on a bounded histogram."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from fractions import Fraction

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dphist.errors import InvalidParameter
from dphist.histogram import ContributionBounds, Histogram
from dphist.mechanisms import AdaptiveGaussian, Kept, LaplaceThreshold
from dphist.noise import DiscreteLaplace, Entropy, Law, RoundedGaussian, sample
from dphist.planning import Plan
from dphist.planning.aggregates import AggregateNoise
from dphist.publish.result import Release, Request
from dphist.publish.table import build_table, columns

Integers = NDArray[np.int64]

LARGEST_SUM = 2**61
"""Sums in steps are saturated at this public limit before noise: with noise of at most 2^58 steps int64 is enough."""


def bounds_of(plan: Plan) -> ContributionBounds:
    """How much one unit may contribute: what the plan's guarantee assumes."""
    return ContributionBounds(max_groups=plan.request.groups_per_unit)


def privatise(histogram: Histogram, plan: Plan, request: Request, entropy: Entropy | None = None) -> Release:
    """Draw the noise of the plan on a bounded histogram. The only function that turns true values into published ones."""
    _require_bounds(histogram, plan)
    assert not isinstance(plan.mechanism, AdaptiveGaussian)  # which has no bounded histogram
    kept = plan.mechanism.perturb(histogram.counts, entropy)
    sums = noisy_sums(plan, kept, histogram.sums, entropy)
    table = build_table(
        histogram.keys.take(pa.array(kept.index)),
        columns(plan, kept.counts, sums),
        plan,
        level=request.intervals,
        integers=request.integers,
        order=request.order,
    )
    return Release(table, plan, request, noisy_total(histogram.total_units, plan, entropy), dt.datetime.now(dt.UTC))


def _require_bounds(histogram: Histogram, plan: Plan) -> None:
    """A histogram carries the evidence of its bounds; without it there is no guarantee."""
    sketch, bounds = plan.request.sketch, histogram.bounds
    held = bounds.sparsity if sketch is not None else bounds.max_groups
    needed = sketch if sketch is not None else plan.request.groups_per_unit
    if held is None or held > needed:
        raise InvalidParameter(f"a histogram bounded to {needed} groups per unit", held)
    if (plan.request.keys is not None) != histogram.listed:
        raise InvalidParameter("a histogram over the public list of keys, as the plan says", "another")


def noisy_sums(plan: Plan, kept: Kept, sums: Mapping[str, Integers], entropy: Entropy | None) -> dict[str, Integers]:
    """Fresh noise on the recentred sums of the released groups, in steps."""
    found = {}
    for noisy in plan.aggregates:
        true = np.clip(sums[noisy.aggregate.name][kept.index], -LARGEST_SUM, LARGEST_SUM)
        found[noisy.aggregate.name] = true + sample(aggregate_law(plan, noisy), len(true), entropy)
    return found


def aggregate_law(plan: Plan, noisy: AggregateNoise) -> Law:
    """The law of the noise on a recentred sum, in steps of its lattice."""
    aggregate = noisy.aggregate
    if isinstance(plan.mechanism, LaplaceThreshold):
        return DiscreteLaplace(
            Fraction(plan.mechanism.scale) * aggregate.sensitivity_steps / Fraction(aggregate.weight)
        )
    return RoundedGaussian(Fraction(noisy.noise_std) / Fraction(aggregate.step), 0)


def noisy_total(units: int | None, plan: Plan, entropy: Entropy | None) -> float | None:
    """The number of units with discrete Laplace noise: one unit changes it by one."""
    scale = plan.request.total_scale
    if scale is None:
        return None
    assert units is not None
    return float(units + int(sample(DiscreteLaplace(Fraction(scale)), 1, entropy)[0]))
