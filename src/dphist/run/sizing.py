"""Choosing the bounds of aggregates before anything is added up: the plan goes on with those that were chosen."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Final

import numpy as np

from dphist.aggregates.base import Aggregate
from dphist.aggregates.measures import MOST_RECORDS
from dphist.engines.base import Records
from dphist.engines.buckets import of_measure
from dphist.planning import Plan, storage
from dphist.run.chosen_bounds import (
    ChosenBounds,
    Floats,
    Integers,
    choose_bounds,
    cover_tails,
    noise_sizes,
    read_sizes,
    share_outside,
)

_OUTSIDE: Final = 0.01
"""The share of units beyond each of the bounds of a quantile; less of them beyond one that is close to a quantile."""


def settle_bounds(plan: Plan, records: Records) -> tuple[Plan, Records, tuple[ChosenBounds, ...]]:
    """The plan and the records with chosen bounds, and what they are expected to do. Aggregates of one histogram share it."""
    request, records = plan.request, records.keep()
    positions = {measure.name: position for position, measure in enumerate(request.measures, 1)}
    noisy: dict[object, Integers] = {}
    aggregates, told = [], []
    for aggregate in request.aggregates:
        if not aggregate.open:
            aggregates.append(aggregate)
            continue
        source = aggregate.source
        if source not in noisy:
            measure = aggregate.measures[0]
            exact = records.sizes(positions[measure.name], of_measure(measure))
            noisy[source] = noise_sizes(exact, request.bounds_scale)
        chosen, bounds = chosen_from(plan, aggregate, noisy[source])
        aggregates.append(chosen)
        told.append(bounds)
    decided = replace(plan, request=replace(request, aggregates=tuple(aggregates)))
    for branch in decided.branches:
        storage.check(decided.request, branch, "the plan with its bounds")
    return decided, records.with_measures(decided.request.measures), tuple(told)


def chosen_from(plan: Plan, aggregate: Aggregate, noisy: Integers) -> tuple[Aggregate, ChosenBounds]:
    """The aggregate with the bounds that follow from a noisy histogram, and what is told of them."""
    sizes = read_sizes(noisy, plan.request.bounds_scale)
    if sizes is None:
        return replace(aggregate, chosen="nothing"), ChosenBounds(aggregate.name, aggregate.lower, aggregate.upper)
    if aggregate.kind == "quantile":
        below, above = (
            min(_OUTSIDE, tail / 10) for tail in (aggregate.probabilities[0], 1 - aggregate.probabilities[-1])
        )
        low, high = cover_tails(sizes, below, above, aggregate.lower, aggregate.upper)
        told = ChosenBounds(aggregate.name, low, high, share_outside(sizes, low, high))
        return replace(aggregate, lower=low, upper=high), told
    std = min(branch.noise_std for branch in plan.branches)
    squared = aggregate.kind in ("variance", "std")

    def noise_of(lower: Floats, upper: Floats) -> Floats:
        share = aggregate.measures[0].weight
        if aggregate.kind == "distinct":  # nothing is counted from a centre
            return np.asarray(std * upper / math.sqrt(share))
        if aggregate.kind in ("sum", "rows"):  # who has no value adds 0; the count's noise enters with the centre
            least, most = np.minimum(lower, 0.0), np.maximum(upper, 0.0)
            return np.asarray(std * np.hypot((most - least) / 2 / math.sqrt(share), (most + least) / 2))
        half = (upper - lower) / 2
        return np.asarray(std * aggregate.records * (half**2 if squared else half) / math.sqrt(share))

    ordinary = ordinary_size(plan, sizes.total)
    cut = choose_bounds(sizes, noise_of, ordinary, aggregate.lower, aggregate.upper, squared=squared)
    upper = cut.upper
    if aggregate.kind in ("rows", "distinct"):
        upper = min(max(1.0, math.floor(upper)), MOST_RECORDS)
    outside = share_outside(sizes, cut.lower, upper)
    each = () if aggregate.kind == "distinct" else (cut.bias / sizes.total, cut.spread / math.sqrt(sizes.total))
    told = ChosenBounds(
        aggregate.name, cut.lower, upper, outside, cut.bias * ordinary / sizes.total, cut.noise, ordinary
    )
    return replace(aggregate, lower=cut.lower, upper=upper, excess=each), told


def ordinary_size(plan: Plan, units: float) -> float:
    """About how many units a group has that is released: twice as many as one that is released every other time has.

    Of a public list, where all are, as many as there are units for each of them.
    """
    if plan.mechanism.threshold is None and plan.request.keys is not None:
        return max(units * min(plan.request.groups_per_unit, 4) / plan.request.keys, 1.0)
    return min(2 * max(min(branch.count_released_with(0.5) for branch in plan.branches), 1.0), units)
