"""Choosing the bounds of aggregates before anything is added up: the plan goes on with those that were chosen."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial

from dphist.aggregates.base import Aggregate
from dphist.aggregates.measures import MOST_RECORDS
from dphist.engines.base import Records
from dphist.planning import Plan, storage
from dphist.run.chosen_bounds import (
    ChosenBounds,
    Integers,
    choose_bounds,
    cover_tails,
    noise_sizes,
    read_sizes,
    share_outside,
)


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
            exact = records.sizes(positions[measure.name])
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
    if aggregate.tails is not None:
        low, high = cover_tails(sizes, *aggregate.tails, aggregate.lower, aggregate.upper)
        told = ChosenBounds(aggregate.name, low, high, share_outside(sizes, low, high))
        return replace(aggregate, lower=low, upper=high), told
    noise_of = partial(aggregate.noise_of_sum, min(branch.noise_std for branch in plan.branches))
    ordinary = ordinary_size(plan, sizes.total)
    cut = choose_bounds(sizes, noise_of, ordinary, aggregate.lower, aggregate.upper, squared=aggregate.squared)
    upper = min(max(1.0, math.floor(cut.upper)), MOST_RECORDS) if aggregate.whole else cut.upper
    outside = share_outside(sizes, cut.lower, upper)
    each = (cut.bias / sizes.total, cut.spread / math.sqrt(sizes.total)) if aggregate.states_excess else ()
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
