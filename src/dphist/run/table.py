"""The columns of a release, from noisy values and the plan alone: values, standard errors, intervals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import get_args

import numpy as np

from dphist.aggregates.noisy_sums import Column, NoisySum
from dphist.aggregates.tree import NoisyQuantiles
from dphist.engines.base import PRESENT, Arrays, Layout, OnGroups, Order, Rows
from dphist.errors import InvalidParameter
from dphist.mechanisms import GroupMechanism
from dphist.mechanisms.lattice import Floats, Integers, Kept
from dphist.planning import Plan
from dphist.planning.plan import HIGH, LOW, NOISY, STD_ERROR

ORDERS: tuple[Order, ...] = get_args(Order)


def column_names(plan: Plan, level: float | None) -> list[str]:
    """The names of all columns beside the keys, in order."""
    suffixes = ["", STD_ERROR, *([] if level is None else [LOW, HIGH])]
    names = [name + suffix for name in plan.value_names for suffix in suffixes]
    if plan.mechanism.hides_small_counts:
        names.insert(len(suffixes), "count" + NOISY)
    return names


def layout_of(plan: Plan, *, level: float | None, integers: bool, order: Order) -> Layout:
    """The published table of a plan."""
    beside = tuple(PRESENT + name for name in plan.limited_names)
    rounded = plan.rounded_names if integers else frozenset()
    return Layout(tuple(column_names(plan, level)), rounded, order, beside=beside)


def check_names(by: Sequence[str], plan: Plan, level: float | None) -> None:
    """A key may not have the name of a column that the release adds, nor of another key, without regard to case.

    Some formats do not tell such names apart, and writers would rename one of them.
    """
    hidden = any(branch.hides_small_counts for branch in plan.branches)
    added = {name.casefold() for name in [*column_names(plan, level), *(["count" + NOISY] if hidden else [])]}
    released = [name.casefold() for name in column_names(plan, level)]
    if twice := sorted({name for name in released if released.count(name) > 1}):
        raise InvalidParameter(
            "aggregates whose columns have different names", twice[0], "give one of them a name: new=x."
        )
    folded = [name.casefold() for name in by]
    if clash := sorted(name for name in by if name.casefold() in added or folded.count(name.casefold()) > 1):
        twice_named = [name for name in clash if folded.count(name.casefold()) > 1]
        hint = "name each key once." if twice_named else f'rename: --by "my_{clash[0]}={clash[0]}".'
        raise InvalidParameter("keys with other names than each other and the released columns", clash, hint)


def check_form(plan: Plan, order: Order, level: float | None, integers: bool) -> None:
    """Keys alone are in their own order, and have nothing to round or to bound."""
    if not plan.mechanism.counted and (order != "key" or level is not None or integers):
        raise InvalidParameter("keys alone, in the order of keys", "another order, intervals or integers")


def keys_alone(groups: Arrays) -> Rows:
    """Selected groups without any of their numbers."""
    return Rows(np.arange(max(map(len, groups.values()))), {})


def noise_groups(plan: Plan, level: float | None, shared: int) -> OnGroups:
    """Exact counts and sums in, the released groups with their noisy values out.

    The only function that turns the true values of one pass into published ones. `shared` is the noise that all groups share.
    """

    def add_noise_to_groups(groups: Arrays) -> Rows:
        kept = plan.mechanism.perturb_part(groups["units"], shared)
        columns = noisy_columns(plan, kept, draw_parts(plan, kept, groups, level), level)
        return Rows(kept.index, published(columns, plan.mechanism, level))

    return add_noise_to_groups


def draw_parts(
    plan: Plan, kept: Kept, groups: Arrays, level: float | None = None
) -> dict[str, Integers | NoisyQuantiles]:
    """Fresh noise for the released groups, by the names of measures: sums in steps, and quantiles of noisy trees."""
    perturb, asked = plan.mechanism.perturb_sums, plan.request.probabilities
    return {
        one.name: one.measure.draw(one.law, position, groups, kept.index, perturb, asked.get(one.name, ()), level)
        for position, one in enumerate(plan.measures, 1)
    }


def noisy_columns(
    plan: Plan, kept: Kept, drawn: Mapping[str, Integers | NoisyQuantiles], level: float | None = None
) -> list[Column]:
    """The count and every aggregate of the plan, from noisy counts and what was drawn for their measures.

    The noise of a sum is independent of whether its group was released, that of its count is not: sums and means are computed
    with the count as it is estimated given release.
    """
    count = count_column(plan.mechanism, kept.counts, level)
    parts: dict[str, NoisySum | NoisyQuantiles] = {}
    for noisy in plan.measures:
        one = drawn[noisy.name]
        parts[noisy.name] = noisy.sums(one, count.values, count.std_errors) if isinstance(one, np.ndarray) else one
    return [count, *(column for aggregate in plan.request.aggregates for column in aggregate.columns(parts))]


def count_column(mechanism: GroupMechanism, noisy: Floats, level: float | None) -> Column:
    """Counts estimated given release, beside the noisy ones; or these alone where no group is hidden."""
    if not mechanism.hides_small_counts:
        return Column("count", noisy, (np.full(len(noisy), mechanism.noise_std),))
    found = mechanism.given_release(noisy, level)
    return Column("count", found.counts, (found.std_errors,), noisy, found.bounds)


def published(columns: Sequence[Column], mechanism: GroupMechanism, level: float | None) -> dict[str, Floats]:
    """Values, standard errors and, with a level, bounds that cover the value before noise with that probability.

    Of means to first order in the noise. A value that says less than its bounds alone is NaN, which is published as null: its
    standard error stays, from which that follows.
    """
    values: dict[str, Floats] = {}
    for column in columns:
        shown = {column.name: column.values}
        if level is not None:
            shown[column.name + LOW], shown[column.name + HIGH] = bounds_of_column(column, mechanism, level)
        values |= {name: np.where(column.withheld, np.nan, one) for name, one in shown.items()}
        values[column.name + STD_ERROR] = column.std_errors
        if column.plain is not None:
            values[column.name + NOISY] = column.plain
        if column.present is not None:
            values[PRESENT + column.name] = column.present
    return values


def bounds_of_column(column: Column, mechanism: GroupMechanism, level: float) -> tuple[Floats, Floats]:
    """Those of its estimate, or as far on both sides as its noises reach."""
    if column.bounds is not None:
        return column.bounds
    reach = mechanism.half_width(column.noises, level)
    return column.values - reach, column.values + reach
