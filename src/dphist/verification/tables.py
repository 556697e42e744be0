"""Checks of a published table against its plan: columns, keys, order, noisy values, errors and intervals."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dphist.aggregates.measures import Floats
from dphist.aggregates.noisy_sums import Column, says_nothing
from dphist.checks import Check
from dphist.engines.histogram import missing_in, row_order
from dphist.mechanisms import ContinualCounts
from dphist.planning import Plan
from dphist.planning.plan import HIGH, LOW, NOISY, STD_ERROR
from dphist.planning.top_k import TopKPlan
from dphist.run.record import ReleaseRecord
from dphist.run.table import column_names, count_column
from dphist.run.withheld import Withheld, whole
from dphist.verification.stored import Stored

CLOSE: Final = 1e-9
"""The relative difference that another version of a numerical library may make."""

_LEAST_ERROR: Final = 12**-0.5 * (1 - 1e-9)
"""The least error of a quantile, in bins: the standard deviation of a uniform place in one bin."""


def skipped(name: str, why: str) -> Check:
    """A check that could not be made."""
    return Check(name, None, why)


def _columns_and_keys(
    table: pa.Table, keys: Sequence[str], after: Sequence[str], before: Sequence[str] = ()
) -> list[Check]:
    """Whether the columns are as expected and, if so, no group is there twice.

    A JSON file without rows names no columns, which is no fault, and a report has no table to compare.
    """
    if table.num_columns == 0:
        return [skipped("columns", "none are there to compare with")]
    names, expected = list(keys), [*before, *keys, *after]
    if table.column_names != expected or len(set(expected)) < len(expected):
        return [Check("columns", False, f"expected {expected}, got {table.column_names}")]
    different = table.select(names).group_by(names).aggregate([]).num_rows if names else 1
    distinct = different == table.num_rows
    return [
        Check("columns", True, "are those of the plan"),
        Check("keys", distinct, "are all different" if distinct else "repeat"),
    ]


def _lattice(counts: Floats, bits: int) -> Check:
    """Whether the noise can give every count."""
    steps = np.ldexp(counts, bits)
    on_lattice = bool((steps == np.rint(steps)).all()) and bool(np.isfinite(counts).all())
    words = f"a multiple of 2^-{bits}" if bits else "a whole number"
    return Check("lattice", on_lattice, f"every count is {words}" if on_lattice else f"a count is not {words}")


def _numbers(table: pa.Table, name: str) -> Floats:
    """A column as doubles. A missing value is NaN, which no check lets pass."""
    return np.asarray(table.column(name).to_numpy(), np.float64)


def _close(stated: Floats, expected: Floats) -> bool:
    """Whether two columns are equal but for the last digits."""
    return bool((np.abs(stated - expected) <= CLOSE * np.abs(expected)).all())


def check_table(stored: Stored, table: pa.Table, record: ReleaseRecord) -> Iterator[Check]:
    """The table of a release."""
    plan, keys = record.plan, list(record.by)
    yield from (named := _columns_and_keys(table, keys, column_names(plan, record.intervals)))
    if not named[0].passed:
        return
    if record.null_keys == "drop" and plan.request.keys is None:
        none = not any(table.column(key).null_count for key in keys)
        yield Check("nulls", none, "no key is null" if none else "a key is null, where such records were dropped")
    if stored.is_typed:
        yield _check_types(table, keys, record)
    if not plan.mechanism.counted:
        yield _check_order(stored, table, np.zeros(0), keys, record)
        return
    counts = _numbers(table, "count")
    given = plan.mechanism.hides_small_counts
    noisy = _numbers(table, "count" + NOISY) if given else counts
    if not (np.isfinite(counts).all() and np.isfinite(noisy).all()):
        yield Check("counts", False, "one is no number")
        return
    yield from _check_counts(noisy, plan, record.integers and not given)
    yield _check_order(stored, table, counts, keys, record)
    null = _nulls(table, plan)
    if plan.limited_names:
        yield _check_withheld(table, plan, () if record.intervals is None else (LOW, HIGH), record.withheld)
    yield from _check_quantiles(table, plan, record.intervals, null)
    if given:
        estimated_counts = count_column(plan.mechanism, noisy, record.intervals)
        yield _check_estimates(counts, estimated_counts.values, 0.5 if record.integers else 0.0)
        yield from _check_errors(table, plan, record, estimated_counts, null)
        return
    if record.integers and record.intervals is not None:  # an interval lies around the count before it was rounded
        counts = (_numbers(table, "count" + LOW) + _numbers(table, "count" + HIGH)) / 2
    std = np.full(len(counts), plan.mechanism.noise_std)
    yield from _check_errors(table, plan, record, Column("count", counts, (std,)), null)


def _nulls(table: pa.Table, plan: Plan) -> dict[str, NDArray[np.bool_]]:
    """The places of nulls in columns that may have them. Other checks leave them out."""
    return {name: np.isnan(_numbers(table, name)) for name in plan.limited_names}


def _check_withheld(table: pa.Table, plan: Plan, ends: Sequence[str], told: Sequence[Withheld]) -> Check:
    """Whether the right values and their intervals are null, and whether the metadata has their number."""
    wrong = []
    for name, null in _nulls(table, plan).items():
        low, high = plan.limited_names[name].span or (0.0, 0.0)
        errors, slack = _numbers(table, name + STD_ERROR), (high - low) * CLOSE
        must, may = (says_nothing(errors, (low, high + further)) for further in (slack, -slack))
        with_ends = all(np.array_equal(np.isnan(_numbers(table, name + end)), null) for end in ends)
        if not (with_ends and bool((must <= null).all() and (null <= may).all())):
            wrong.append(name)
    if wrong:
        return Check("withheld", False, f"are not the values that say less than their bounds alone in {wrong}")
    rows, missing = missing_in(table, list(plan.limited_names))
    expected = {name: (one.groups, rows, whole(one.units)) for name, one in missing.items() if one.groups}
    stated = {name: (one.groups, one.of_groups, one.units) for one in told for name in one.names}
    if set(stated) != set(expected) or not all(np.allclose(stated[name], expected[name], 1e-9, 1) for name in stated):
        return Check("withheld", False, "are not as many values as the metadata says")
    return Check("withheld", True, "are the values that say less than their bounds alone, and no others")


def _check_quantiles(
    table: pa.Table, plan: Plan, level: float | None, null: Mapping[str, NDArray[np.bool_]]
) -> Iterator[Check]:
    """Whether quantiles lie in their bounds and intervals, rise with their probabilities, and have positive errors."""
    wrong = []
    for aggregate in plan.request.aggregates:
        if not aggregate.probabilities or not aggregate.names:
            continue
        before = np.full(table.num_rows, aggregate.bounds[0])
        for name in aggregate.names:
            ends = [] if level is None else [name + LOW, name + HIGH]
            values, *interval = (_numbers(table, one) for one in (name, *ends))
            low, high = interval or (values, values)
            inside = (aggregate.bounds[0] <= low) & (low <= values) & (values <= high) & (high <= aggregate.bounds[1])
            (bin_width,) = (one.tree.resolution for one in aggregate.measures if one.tree is not None)
            known = _numbers(table, name + STD_ERROR) >= bin_width * _LEAST_ERROR
            withheld = null.get(name, np.zeros(table.num_rows, np.bool_))
            if not bool((inside & (before <= values) & known)[~withheld].all()):
                wrong.append(name)
            before = np.where(withheld, before, values)
    if any(aggregate.probabilities and aggregate.names for aggregate in plan.request.aggregates):
        words = "are inside their bounds and intervals, and rise with their probabilities"
        yield Check("quantiles", not wrong, f"are not what a tree gives in {wrong}" if wrong else words)


def _check_estimates(counts: Floats, expected: Floats, rounding: float) -> Check:
    """Whether counts follow from noisy counts. Libraries may differ by more than a step of the lattice of counts."""
    right = bool((np.abs(counts - expected) <= rounding + 1e-9 * np.abs(expected)).all())
    return Check("estimates", right, "counts are those of the noisy ones, given release" if right else "are others")


def _check_types(table: pa.Table, keys: list[str], record: ReleaseRecord) -> Check:
    """Whether columns are whole numbers if and only if the release rounds them."""
    whole = record.plan.rounded_names if record.integers else ()
    expected = {name: pa.int64() if name in whole else pa.float64() for name in table.column_names[len(keys) :]}
    wrong = [name for name, kind in expected.items() if table.schema.field(name).type != kind]
    return Check("types", not wrong, f"are others in {wrong}" if wrong else "are those of the metadata")


def _check_counts(counts: Floats, plan: Plan, integers: bool) -> Iterator[Check]:
    mechanism = plan.mechanism
    if mechanism.in_rounds:
        yield Check("counts", True, "are numbers; selected keys have no threshold on counts")
        return
    if mechanism.threshold is None:
        complete = len(counts) == plan.request.keys
        yield Check("groups", complete, "are all that were listed" if complete else f"expected {plan.request.keys}")
        return
    least = mechanism.threshold - (0.5 if integers else 0.0)  # rounding lowers a count by at most a half
    above = bool((counts >= least).all()) if integers else bool((counts > least).all())
    yield Check("threshold", above, f"every count exceeds {mechanism.threshold:g}" if above else "a count is below it")
    yield _lattice(counts, 0 if integers else mechanism.lattice_bits)


def _check_order(stored: Stored, table: pa.Table, counts: Floats, keys: list[str], record: ReleaseRecord) -> Check:
    if stored.is_typed and not stored.is_folder:  # Spark orders some keys in another way
        places = row_order(table, keys, record.order).to_numpy() if keys else np.arange(table.num_rows)
        right = bool((places == np.arange(len(places))).all())
    elif record.order == "key":
        return skipped("order", "by keys, whose types this format does not keep")
    else:
        right = bool((np.diff(counts) <= 0).all())
    return Check("order", right, f"is by {record.order}" if right else f"is not by {record.order}")


def _check_errors(
    table: pa.Table, plan: Plan, record: ReleaseRecord, count: Column, null: Mapping[str, NDArray[np.bool_]]
) -> Iterator[Check]:
    """Whether standard errors and intervals follow from the noise of the plan, column by column."""
    level = record.intervals
    wrong, unknown = [], []
    whole_table = table
    for name, column in _noises(table, plan, record, count):
        if column is None:
            unknown.append(name)
            continue
        table = whole_table
        if name in null:
            column, table = column.where(~null[name]), table.filter(pa.array(~null[name]))
        stated = _numbers(table, name + STD_ERROR)
        if not _close(stated, column.std_errors) or not bool((stated > 0).all()):
            wrong.append(name + STD_ERROR)
        elif level is not None and column.bounds is not None:
            ends = zip((LOW, HIGH), column.bounds, strict=True)
            wrong += [name + end for end, bound in ends if not _close(_numbers(table, name + end), bound)]
        elif level is not None:
            whole = record.integers and name in plan.rounded_names
            reach = plan.mechanism.half_width(column.noises, level)
            wrong += _wrong_bounds(table, name, reach, 0.5 if whole else 0.0)
    if wrong:
        yield Check("errors", False, f"are not those of the plan in {wrong}")
    elif plan.mechanism.in_rounds:
        yield skipped("errors", "are estimates of the release itself; its intervals fit them")
    else:
        yield Check("errors", True, "standard errors and intervals are those of the plan")
    if unknown:
        yield skipped(
            "errors", f"of {unknown} depend on numbers that are not published, or on counts before they were rounded"
        )


def _noises(table: pa.Table, plan: Plan, record: ReleaseRecord, count: Column) -> Iterator[tuple[str, Column | None]]:
    """The independent noises of every column. An adaptive release has them in its table, not in its plan."""
    trees = {name for aggregate in plan.request.aggregates if aggregate.probabilities for name in aggregate.names}
    if plan.mechanism.in_rounds:
        for name in plan.value_names:
            if name in trees:
                yield name, None
                continue
            yield name, Column(name, _numbers(table, name), (_numbers(table, name + STD_ERROR),))
        return
    yield "count", count
    noisy = {one.name: one for one in plan.measures}
    for aggregate in plan.request.aggregates:
        if not aggregate.names:
            continue
        if aggregate.probabilities:
            yield from ((name, None) for name in aggregate.names)
            continue
        noises = aggregate.noises(noisy, count.values, count.std_errors)
        values = _numbers(table, aggregate.name)
        yield aggregate.name, None if noises is None else Column(aggregate.name, values, noises)


def _wrong_bounds(table: pa.Table, name: str, reach: Floats, rounding: float) -> list[str]:
    low, high = _numbers(table, name + LOW), _numbers(table, name + HIGH)
    values = _numbers(table, name)
    slack = 1e-9 * (np.abs(values) + reach)
    centred = bool((np.abs((low + high) / 2 - values) <= rounding + slack).all())
    wide = bool((np.abs((high - low) / 2 - reach) <= slack).all())
    return [] if centred and wide else [name + LOW, name + HIGH]


def check_list(table: pa.Table, plan: TopKPlan, keys: Sequence[str], cut_off: float | None) -> Iterator[Check]:
    """The largest groups, counted or ranked."""
    mechanism = plan.mechanism
    before, after = (["rank"], []) if mechanism.noise_std is None else ([], ["count", "count" + STD_ERROR])
    after += [] if cut_off is None else ["count" + NOISY]
    yield from (named := _columns_and_keys(table, keys, after, before))
    if not named[0].passed:
        return
    few = table.num_rows <= plan.k
    yield Check("groups", few, f"are at most {plan.k:,}" if few else f"are more than {plan.k:,}")
    if mechanism.noise_std is None or cut_off is None:
        ranks = _numbers(table, "rank").tolist() == list(range(1, table.num_rows + 1))
        yield Check("ranks", ranks, "are 1, 2, 3, …" if ranks else "are not 1, 2, 3, …")
        return
    noisy, bits = _numbers(table, "count" + NOISY), mechanism.lattice_bits
    yield _lattice(np.append(noisy, cut_off), bits)
    above = bool((noisy > cut_off).all())
    yield Check("cut-off", above, f"every noisy count exceeds {cut_off:,g}" if above else "a noisy count does not")
    found = mechanism.given_cut_off(noisy, cut_off)
    right = _close(_numbers(table, "count"), found.counts)
    yield Check("estimates", right, "counts are those of the noisy ones, given the list" if right else "are others")
    yield from _check_order_and_errors(table, found.std_errors)


def check_running_counts(
    table: pa.Table, mechanism: ContinualCounts, number: int, keys: Sequence[str]
) -> Iterator[Check]:
    """The counts of a stream after a round."""
    yield from (named := _columns_and_keys(table, keys, ["count", "count" + STD_ERROR]))
    if not named[0].passed:
        return
    threshold = mechanism.threshold
    above = bool((_numbers(table, "count") > threshold).all())
    yield Check("threshold", above, f"every count exceeds {threshold:,}" if above else "a count is not above it")
    yield _lattice(_numbers(table, "count"), 0)
    yield from _check_order_and_errors(table, np.full(table.num_rows, mechanism.std_at(number)))


def _check_order_and_errors(table: pa.Table, errors: Floats) -> Iterator[Check]:
    falling = bool((np.diff(_numbers(table, "count")) <= 0).all())
    yield Check("order", falling, "largest count first" if falling else "is not by count")
    right = _close(_numbers(table, "count" + STD_ERROR), errors)
    yield Check("errors", right, "standard errors are those of the noise" if right else "are not those of the noise")
