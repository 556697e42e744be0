"""Check a file of `release`: what its metadata states against its plan, and a table that such a plan can give."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pydantic import AfterValidator

from dphist.checks import Check
from dphist.engines.base import Order, row_order
from dphist.engines.query import NullKeys, parse_key
from dphist.errors import InvalidParameter
from dphist.measures import Column, Floats, NoisySum
from dphist.planning import Plan, storage
from dphist.planning.plan import HIGH, LOW, NOISY, STD_ERROR
from dphist.publish.charge import spend_of_plan
from dphist.publish.result import Selection, describe_release
from dphist.publish.table import check_form, column_names, count_column
from dphist.publish.totals import Totals, contradiction, estimated
from dphist.publish.withheld import Withheld
from dphist.selection.bounds import ChosenBounds
from dphist.verification import claims
from dphist.verification.claims import Findings, MaybeNames, close, numbers, skipped
from dphist.verification.stored import Stored
from dphist.verification.withheld import check_withheld, nulls

_LEAST_ERROR: Final = 12**-0.5 * (1 - 1e-9)
"""Of a quantile, in bins: that of a uniform place in one."""


def _check_whole(value: float) -> float:
    if not value.is_integer():
        raise ValueError("a noisy total is a whole number")
    return value


class _Total(claims.Model):
    value: Annotated[float, AfterValidator(_check_whole)]


class _Bounds(claims.Model):
    name: str
    outside: float | None
    bias: float | None
    noise: float | None
    units: float | None


class _Withheld(claims.Model):
    names: claims.Names
    groups: int
    of_groups: int
    units: int
    with_a_value: int


class _Release(claims.Stated):
    unit: claims.UnitOfText
    by: MaybeNames
    keys: MaybeNames
    null_keys: NullKeys
    order: Order
    intervals: float | None = None
    integers: bool
    total_units: _Total | None = None
    bounds: tuple[_Bounds, ...] = ()
    withheld: tuple[_Withheld, ...] = ()
    covered_units: _Total | None = None
    other_units: _Total | None = None
    allow_negative: bool = False

    def selection(self) -> Selection:
        """What was released beside the plan."""
        form = (self.null_keys, self.order, self.intervals, self.integers, self.allow_negative)
        return Selection(self.unit, self.keys, self.where, *form)

    def totals(self, plan: Plan) -> Totals | None:
        """The numbers of units that the plan pays for, with the errors that it gives them."""
        request = plan.request
        if not request.total:
            return None
        parts = (self.total_units, *((self.covered_units, self.other_units) if request.other else ()))
        values = [part.value for part in parts if part is not None]
        if len(values) < len(parts):
            raise InvalidParameter("a noisy total, which the plan pays for", "none")
        if request.other and (problem := contradiction(values, allow_negative=self.allow_negative)):
            raise InvalidParameter("totals that fit together", problem)
        return estimated(values, request, self.intervals, allow_negative=self.allow_negative)


@dataclass(frozen=True, slots=True, eq=False)
class Claims:
    """What the metadata of a release states, as far as its plan gives it."""

    plan: Plan
    request: Selection
    checks: list[Check]
    withheld: tuple[Withheld, ...] = ()

    def findings(self, table: Iterable[Check] = ()) -> Findings:
        """The checks of its claims and of its table."""
        given = self.plan.request.choice == "given"
        spend = lambda: spend_of_plan(_as_charged(self.plan), self.request.unit)  # noqa: E731 - asked for later, if at all
        return Findings([*self.checks, *table], spend, same_words=given)


def check_release(stored: Stored, table: pa.Table) -> Findings:
    """Everything about a release that follows from its plan."""
    try:
        found = check_claims(stored.metadata)
    except claims.UNREADABLE as problem:
        return claims.unreadable(problem, "the metadata lacks what it should say")
    return found.findings(_check_table(stored, table, found))


def check_claims(metadata: dict[str, Any]) -> Claims:
    """What metadata states against its plan, whose guarantee is computed anew. Raises one of `claims.UNREADABLE`."""
    plan = Plan(*storage.from_data(metadata.get("plan"), "the metadata"))
    stated = _Release.read(metadata)
    request, totals = stated.selection(), stated.totals(plan)
    if not request.by and (plan.request.thresholded or plan.request.keys != 1):
        raise InvalidParameter("columns that make the groups, which the plan has", "none")
    check_form(plan, request.order, request.intervals, request.integers)
    bounds = _bounds_of(plan, stated.bounds)
    withheld = tuple(Withheld(*one.model_dump().values()) for one in stated.withheld)
    if not {name for one in withheld for name in one.names} <= set(plan.limited_names):
        raise InvalidParameter("withheld values of columns with bounds", "others")
    expected = describe_release(plan, request, totals, stated.created, stated.receipt, bounds, withheld)
    detail = f"delta({plan.request.mechanism_epsilon:g}) = {plan.delta:.4g} <= {plan.request.delta:g}, computed anew"
    return Claims(plan, request, [Check("guarantee", True, detail), *claims.compare(metadata, expected)], withheld)


def _bounds_of(plan: Plan, stated: Sequence[_Bounds]) -> tuple[ChosenBounds, ...]:
    """What is stated about chosen bounds, with the bounds that the plan went on with."""
    chosen = [one for one in plan.request.aggregates if one.chosen != "given"]
    if [one.name for one in stated] != [one.name for one in chosen] or any(one.open for one in chosen):
        raise InvalidParameter("bounds for each aggregate that has them chosen", "others")
    pairs = zip(stated, chosen, strict=True)
    return tuple(
        ChosenBounds(one.name, aggregate.lower, aggregate.upper, one.outside, one.bias, one.noise, one.units)
        for one, aggregate in pairs
    )


def _as_charged(plan: Plan) -> Plan:
    """The plan before the data chose among its mechanisms: all of them were paid for."""
    if plan.request.choice == "given" or plan.mechanism.in_rounds:
        return plan
    return Plan(replace(plan.request, max_groups=None), plan.mechanism, plan.alternatives)


def _check_table(stored: Stored, table: pa.Table, found: Claims) -> Iterator[Check]:
    plan, request = found.plan, found.request
    keys = [parse_key(key).name for key in request.by]
    yield from (named := claims.columns_and_keys(table, keys, column_names(plan, request.intervals)))
    if not named[0].passed:
        return
    if request.null_keys == "drop" and plan.request.keys is None:
        none = not any(table.column(key).null_count for key in keys)
        yield Check("nulls", none, "no key is null" if none else "a key is null, where such records were dropped")
    if stored.is_typed:
        yield _check_types(table, keys, request)
    if plan.request.keys_only:
        yield _check_order(stored, table, np.zeros(0), keys, request)
        return
    counts = numbers(table, "count")
    given = plan.mechanism.hides_small_counts
    noisy = numbers(table, "count" + NOISY) if given else counts
    if not (np.isfinite(counts).all() and np.isfinite(noisy).all()):
        yield Check("counts", False, "one is no number")
        return
    yield from _check_counts(noisy, plan, request.integers and not given)
    yield _check_order(stored, table, counts, keys, request)
    null = nulls(table, plan)
    if plan.limited_names:
        yield check_withheld(table, plan, () if request.intervals is None else (LOW, HIGH), found.withheld)
    yield from _check_quantiles(table, plan, request, null)
    if given:
        estimated_counts = count_column(plan.mechanism, noisy, request.intervals)
        yield _check_estimates(counts, estimated_counts.values, 0.5 if request.integers else 0.0)
        yield from _check_errors(table, plan, request, estimated_counts, null)
        return
    if request.integers and request.intervals is not None:  # an interval lies around the count before it was rounded
        counts = (numbers(table, "count" + LOW) + numbers(table, "count" + HIGH)) / 2
    std = np.full(len(counts), plan.mechanism.noise_std)
    yield from _check_errors(table, plan, request, Column("count", counts, (std,)), null)


def _check_quantiles(
    table: pa.Table, plan: Plan, request: Selection, null: Mapping[str, NDArray[np.bool_]]
) -> Iterator[Check]:
    """Inside the bounds, in the order of their probabilities, each inside its own interval, with a positive error."""
    wrong = []
    for aggregate in plan.request.aggregates:
        if not aggregate.probabilities or not aggregate.names:
            continue
        before = np.full(table.num_rows, aggregate.bounds[0])
        for name in aggregate.names:
            ends = [] if request.intervals is None else [name + LOW, name + HIGH]
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


def _check_types(table: pa.Table, keys: list[str], request: Selection) -> Check:
    """Whole numbers only where they were asked for."""
    whole = ("count", "rows") if request.integers else ()
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


def _check_order(stored: Stored, table: pa.Table, counts: Floats, keys: list[str], request: Selection) -> Check:
    if stored.is_typed and not stored.is_folder:  # Spark orders some keys in another way
        places = row_order(table, keys, request.order).to_numpy() if keys else np.arange(table.num_rows)
        right = bool((places == np.arange(len(places))).all())
    elif request.order == "key":
        return skipped("order", "by keys, whose types this format does not keep")
    else:
        right = bool((np.diff(counts) <= 0).all())
    return Check("order", right, f"is by {request.order}" if right else f"is not by {request.order}")


def _check_errors(
    table: pa.Table, plan: Plan, request: Selection, count: Column, null: Mapping[str, NDArray[np.bool_]]
) -> Iterator[Check]:
    """Standard errors and intervals, column by column, as the noise of the plan gives them."""
    level = request.intervals
    wrong, unknown = [], []
    whole_table = table
    for name, column in _noises(table, plan, request, count):
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
            whole = request.integers and name in ("count", "rows")
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


def _noises(table: pa.Table, plan: Plan, request: Selection, count: Column) -> Iterator[tuple[str, Column | None]]:
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
