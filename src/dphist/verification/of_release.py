"""Check a file of `release`: what its metadata states against its plan, and a table that such a plan can give.

Of a file of `dphist sql`: the claims of every private table that it is computed from, and what it says of itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dphist.aggregates.measures import Column, Floats, NoisySum, says_nothing
from dphist.checks import Check, check_share
from dphist.engines.base import missing_in, row_order
from dphist.errors import InvalidParameter
from dphist.planning import Plan
from dphist.planning.plan import HIGH, LOW, NOISY, STD_ERROR
from dphist.publish.record import AnswerRecord, ReleaseRecord
from dphist.publish.spends import spend_of_plan
from dphist.publish.table import check_form, column_names, count_column
from dphist.publish.totals import Estimate, contradiction, estimated
from dphist.publish.withheld import Withheld, whole
from dphist.selection.bounds import ChosenBounds
from dphist.verification import claims
from dphist.verification.claims import CLOSE, Findings, close, numbers, skipped
from dphist.verification.stored import Stored

_TABLE: Final = re.compile(r'FROM "(private_[0-9]+_*)"')
_TEXT: Final = re.compile(r"'(?:[^']|'')*'")

_LEAST_ERROR: Final = 12**-0.5 * (1 - 1e-9)
"""Of a quantile, in bins: that of a uniform place in one."""


@dataclass(frozen=True, slots=True, eq=False)
class Claims:
    """What a record states, as far as its plan gives it."""

    record: ReleaseRecord
    checks: list[Check]

    def findings(self, table: Iterable[Check] = ()) -> Findings:
        """The checks of its claims and of its table."""
        record = self.record
        given = record.plan.request.choice == "given"
        spend = lambda: spend_of_plan(_as_charged(record.plan), record.unit)  # noqa: E731 - asked for later, if at all
        return Findings([*self.checks, *table], spend, same_words=given)


def check_release(stored: Stored, table: pa.Table) -> Findings:
    """Everything about a release that follows from its plan."""
    try:
        found = check_claims(ReleaseRecord.read(stored.metadata), stored.metadata)
    except claims.UNREADABLE as problem:
        return claims.unreadable(problem, "the metadata lacks what it should say")
    return found.findings(_check_table(stored, table, found.record))


def check_answer(stored: Stored, table: pa.Table) -> Findings:
    """The guarantees of its private tables, computed anew. Its own rows follow from tables that are not in the file."""
    metadata = stored.metadata
    try:
        record = AnswerRecord.read(metadata)
        parts = [check_claims(*one).findings() for one in zip(record.releases, metadata["releases"], strict=True)]
        if table.num_columns:
            record = record.model_copy(update={"columns": tuple(table.column_names)})
        expected = {**record.to_data(), "releases": metadata["releases"]}
    except claims.UNREADABLE as problem:
        return claims.unreadable(problem, "the metadata lacks what it should say")
    checks = [*_named(parts), *claims.compare(metadata, expected), _check_tables(record.outer, len(parts))]
    checks.append(skipped("rows", "are computed from private tables that are not in this file"))
    return Findings(checks, paid=list(zip(metadata["releases"], parts, strict=True)))


def _check_tables(outer: str, releases: int) -> Check:
    """Whether the outer query reads as many private tables as are described: none is left out, none is added."""
    read = len(set(_TABLE.findall(_TEXT.sub("''", outer))))
    words = f"the outer query reads {read}, and {releases} are described" if read != releases else "all are described"
    return Check("tables", read == releases, words)


def _named(parts: list[Findings]) -> Iterator[Check]:
    """The checks of each private table, with its number where there are several."""
    for number, part in enumerate(parts, 1):
        for check in part.checks:
            name = check.name if len(parts) == 1 else f"{check.name} {number}"
            yield Check(name, check.passed, check.detail)


def check_claims(record: ReleaseRecord, metadata: dict[str, Any]) -> Claims:
    """What metadata states against the record that was read from it. Raises one of `claims.UNREADABLE`."""
    plan = record.plan
    if not record.keys and (plan.request.thresholded or plan.request.keys != 1):
        raise InvalidParameter("columns that make the groups, which the plan has", "none")
    if record.intervals is not None:
        check_share("intervals", record.intervals)
    check_form(plan, record.order, record.intervals, record.integers)
    withheld = [name for one in record.withheld for name in one.names]
    if len(set(withheld)) < len(withheld) or not all(one.names for one in record.withheld):
        raise InvalidParameter("different withheld columns", "others")
    if not set(withheld) <= set(plan.limited_names):
        raise InvalidParameter("withheld values of columns with bounds", "others")
    again = record.model_copy(update={**_totals_of(record), "bounds": _bounds_of(record)})
    detail = f"delta({plan.request.mechanism_epsilon:g}) = {plan.delta:.4g} <= {plan.request.delta:g}, computed anew"
    return Claims(record, [Check("guarantee", True, detail), *claims.compare(metadata, again.to_data())])


def _totals_of(record: ReleaseRecord) -> dict[str, Estimate | bool | None]:
    """The numbers of units that the plan pays for, with the errors that it gives them."""
    request, names = record.plan.request, ("total_units", "covered_units", "other_units")
    paid = names if request.other else names[:1] if request.total else ()
    values = [part.value for name in paid if (part := getattr(record, name)) is not None]
    if len(values) < len(paid):
        raise InvalidParameter("a noisy total, which the plan pays for", "none")
    if not all(value.is_integer() for value in values):
        raise InvalidParameter("a whole number as a noisy total", "another one")
    if request.other and (problem := contradiction(values, allow_negative=record.allow_negative)):
        raise InvalidParameter("totals that fit together", problem)
    found = None
    if record.total_units is not None and paid:
        found = estimated(values, request, record.intervals, allow_negative=record.allow_negative)
    parts = (found.total, found.covered, found.other) if found else (None,) * 3
    return {**dict(zip(names, parts, strict=True)), "allow_negative": record.allow_negative and found is not None}


def _bounds_of(record: ReleaseRecord) -> tuple[ChosenBounds, ...]:
    """What is stated about chosen bounds, with the bounds that the plan went on with."""
    chosen = [one for one in record.plan.request.aggregates if one.chosen != "given"]
    if [one.name for one in record.bounds] != [one.name for one in chosen] or any(one.open for one in chosen):
        raise InvalidParameter("bounds for each aggregate that has them chosen", "others")
    pairs = zip(record.bounds, chosen, strict=True)
    return tuple(replace(one, lower=aggregate.lower, upper=aggregate.upper) for one, aggregate in pairs)


def _as_charged(plan: Plan) -> Plan:
    """The plan before the data chose among its mechanisms: all of them were paid for."""
    if plan.request.choice == "given" or plan.mechanism.in_rounds:
        return plan
    return Plan(replace(plan.request, max_groups=None), plan.mechanism, plan.alternatives)


def _check_table(stored: Stored, table: pa.Table, record: ReleaseRecord) -> Iterator[Check]:
    plan, keys = record.plan, list(record.by)
    yield from (named := claims.columns_and_keys(table, keys, column_names(plan, record.intervals)))
    if not named[0].passed:
        return
    if record.null_keys == "drop" and plan.request.keys is None:
        none = not any(table.column(key).null_count for key in keys)
        yield Check("nulls", none, "no key is null" if none else "a key is null, where such records were dropped")
    if stored.is_typed:
        yield _check_types(table, keys, record)
    if plan.request.keys_only:
        yield _check_order(stored, table, np.zeros(0), keys, record)
        return
    counts = numbers(table, "count")
    given = plan.mechanism.hides_small_counts
    noisy = numbers(table, "count" + NOISY) if given else counts
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
        counts = (numbers(table, "count" + LOW) + numbers(table, "count" + HIGH)) / 2
    std = np.full(len(counts), plan.mechanism.noise_std)
    yield from _check_errors(table, plan, record, Column("count", counts, (std,)), null)


def _nulls(table: pa.Table, plan: Plan) -> dict[str, NDArray[np.bool_]]:
    """Where columns are null that may be: no other check looks there."""
    return {name: np.isnan(numbers(table, name)) for name in plan.limited_names}


def _check_withheld(table: pa.Table, plan: Plan, ends: Sequence[str], told: Sequence[Withheld]) -> Check:
    """Which values are null, with the ends of their intervals, and whether the metadata tells as many."""
    wrong = []
    for name, null in _nulls(table, plan).items():
        low, high = plan.limited_names[name].span or (0.0, 0.0)
        errors, slack = numbers(table, name + STD_ERROR), (high - low) * CLOSE
        must, may = (says_nothing(errors, (low, high + further)) for further in (slack, -slack))
        with_ends = all(np.array_equal(np.isnan(numbers(table, name + end)), null) for end in ends)
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
    """Inside the bounds, in the order of their probabilities, each inside its own interval, with a positive error."""
    wrong = []
    for aggregate in plan.request.aggregates:
        if not aggregate.probabilities or not aggregate.names:
            continue
        before = np.full(table.num_rows, aggregate.bounds[0])
        for name in aggregate.names:
            ends = [] if level is None else [name + LOW, name + HIGH]
            values, *interval = (numbers(table, one) for one in (name, *ends))
            low, high = interval or (values, values)
            inside = (aggregate.bounds[0] <= low) & (low <= values) & (values <= high) & (high <= aggregate.bounds[1])
            least = aggregate.measures[0].tree.resolution * _LEAST_ERROR
            known = numbers(table, name + STD_ERROR) >= least
            withheld = null.get(name, np.zeros(table.num_rows, np.bool_))
            if not bool((inside & (before <= values) & known)[~withheld].all()):
                wrong.append(name)
            before = np.where(withheld, before, values)
    if any(aggregate.probabilities and aggregate.names for aggregate in plan.request.aggregates):
        words = "are inside their bounds and intervals, and rise with their probabilities"
        yield Check("quantiles", not wrong, f"are not what a tree gives in {wrong}" if wrong else words)


def _check_estimates(counts: Floats, expected: Floats, rounding: float) -> Check:
    """Counts as the noisy ones give them; their own lattice is finer than what libraries may differ by."""
    right = bool((np.abs(counts - expected) <= rounding + 1e-9 * np.abs(expected)).all())
    return Check("estimates", right, "counts are those of the noisy ones, given release" if right else "are others")


def _check_types(table: pa.Table, keys: list[str], record: ReleaseRecord) -> Check:
    """Whole numbers only where they were asked for."""
    whole = ("count", "rows") if record.integers else ()
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
    least = mechanism.threshold - (0.5 if integers else 0.0)  # rounding to integers can lower a count by a half
    above = bool((counts >= least).all()) if integers else bool((counts > least).all())
    yield Check("threshold", above, f"every count exceeds {mechanism.threshold:g}" if above else "a count is below it")
    yield claims.lattice(counts, 0 if integers else mechanism.lattice_bits)


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
    """Standard errors and intervals, column by column, as the noise of the plan gives them."""
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
        stated = numbers(table, name + STD_ERROR)
        if not close(stated, column.std_errors) or not bool((stated > 0).all()):
            wrong.append(name + STD_ERROR)
        elif level is not None and column.bounds is not None:
            ends = zip((LOW, HIGH), column.bounds, strict=True)
            wrong += [name + end for end, bound in ends if not close(numbers(table, name + end), bound)]
        elif level is not None:
            whole = record.integers and name in ("count", "rows")
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
    """The independent noises of every column; those of an adaptive release are known from the table alone."""
    trees = {name for aggregate in plan.request.aggregates if aggregate.probabilities for name in aggregate.names}
    if plan.mechanism.in_rounds:
        for name in plan.value_names:
            if name in trees:
                yield name, None
                continue
            yield name, Column(name, numbers(table, name), (numbers(table, name + STD_ERROR),))
        return
    yield "count", count
    noisy = {one.name: one for one in plan.measures}
    counted = NoisySum(np.zeros(0), (), count.values, count.std_errors)
    for aggregate in plan.request.aggregates:
        if not aggregate.names:
            continue
        if aggregate.probabilities:
            yield from ((name, None) for name in aggregate.names)
            continue
        noises = aggregate.noises(noisy, counted)
        values = numbers(table, aggregate.name)
        yield aggregate.name, None if noises is None else Column(aggregate.name, values, noises)


def _wrong_bounds(table: pa.Table, name: str, reach: Floats, rounding: float) -> list[str]:
    low, high = numbers(table, name + LOW), numbers(table, name + HIGH)
    values = numbers(table, name)
    slack = 1e-9 * (np.abs(values) + reach)
    centred = bool((np.abs((low + high) / 2 - values) <= rounding + slack).all())
    wide = bool((np.abs((high - low) / 2 - reach) <= slack).all())
    return [] if centred and wide else [name + LOW, name + HIGH]
