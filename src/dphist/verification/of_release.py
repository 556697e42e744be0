"""Check a file of `release`: what its metadata states against its plan, and a table that such a plan can give."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from dphist import checks
from dphist.engines.query import parse_key
from dphist.errors import DphistError, InvalidParameter
from dphist.mechanisms import AdaptiveGaussian, KnownGroups
from dphist.planning import Plan, storage
from dphist.planning.plan import STD_ERROR
from dphist.publish.charge import spend_of_plan
from dphist.publish.result import Request, describe_release
from dphist.publish.table import HIGH, LOW, Column, Floats, column_names, interval, noises, row_order
from dphist.verification import claims
from dphist.verification.check import Check, columns, distinct_keys, skipped
from dphist.verification.verified import Findings, Loaded, close, numbers

_NULL_KEYS = ("group", "drop")


def check_release(loaded: Loaded) -> Findings:
    """Everything about a release that follows from its plan."""
    stated = loaded.metadata
    try:
        plan = Plan(*storage.from_data(stated.get("plan"), "the metadata"))
        request = _request(stated)
        expected = describe_release(
            plan, request, _total(stated, plan), claims.created_of(stated), claims.receipt_of_file(stated)
        )
    except (DphistError, KeyError, TypeError, ValueError, ArithmeticError) as problem:
        return Findings([Check("guarantee", False, _why(problem))])
    detail = f"delta({plan.request.mechanism_epsilon:g}) = {plan.delta:.4g} <= {plan.request.delta:g}, computed anew"
    found = [Check("guarantee", True, detail), *claims.compare(stated, expected)]
    found += _check_table(loaded, plan, request)
    told = plan.request.choice == "given"
    return Findings(found, lambda: spend_of_plan(_as_charged(plan), request.unit), told=told)


def _why(problem: Exception) -> str:
    return str(problem) if isinstance(problem, DphistError) else "the metadata lacks what it should say"


def _request(stated: dict[str, Any]) -> Request:
    level, whole = stated.get("intervals"), stated.get("integers")
    if isinstance(level, bool) or not isinstance(level, int | float | None):
        raise InvalidParameter("a level of intervals in (0, 1)", "something else")
    if not isinstance(whole, bool):
        raise InvalidParameter("true or false as integers", "something else")
    checks.check_choice("null_keys", claims.check_text(stated, "null_keys"), _NULL_KEYS)
    return Request(
        unit=claims.check_text(stated, "unit"),
        by=claims.check_names(stated, "keys"),
        where=claims.check_text_or_none(stated, "where"),
        null_keys=stated["null_keys"],
        order=stated["order"],
        intervals=level,
        integers=whole,
    )


def _total(stated: dict[str, Any], plan: Plan) -> float | None:
    """The noisy total, which follows from nothing, where the plan pays for one."""
    if not plan.request.total:
        return None
    value = stated["total_units"]["value"]
    if isinstance(value, bool) or not isinstance(value, int | float) or not float(value).is_integer():
        raise InvalidParameter("a whole number as the noisy total", "something else")
    return value


def _as_charged(plan: Plan) -> Plan:
    """The plan before the data chose among its mechanisms: all of them were paid for."""
    if plan.request.choice == "given" or isinstance(plan.mechanism, AdaptiveGaussian):
        return plan
    return Plan(replace(plan.request, max_groups=None), plan.mechanism, plan.alternatives)


def _check_table(loaded: Loaded, plan: Plan, request: Request) -> Iterator[Check]:
    keys = [parse_key(key).name for key in request.by]
    table, expected = loaded.table, [*keys, *column_names(plan, request.intervals)]
    yield (named := columns(table, expected))
    if not named.passed:
        return
    yield distinct_keys(table, keys)
    if request.null_keys == "drop" and plan.request.keys is None:
        none = not any(table.column(key).null_count for key in keys)
        yield Check("nulls", none, "no key is null" if none else "a key is null, where such records were dropped")
    if loaded.typed:
        yield _check_types(table, keys, request)
    counts = numbers(table, "count")
    if not np.isfinite(counts).all():
        yield Check("counts", False, "one is no number")
        return
    yield from _check_counts(counts, plan, request.integers)
    yield _check_order(loaded, counts, keys, request)
    yield from _check_errors(table, plan, request, counts)


def _check_types(table: pa.Table, keys: list[str], request: Request) -> Check:
    """Whole numbers only where they were asked for."""
    wrong = [
        name
        for name in table.column_names[len(keys) :]
        if table.schema.field(name).type
        != (pa.int64() if request.integers and name in ("count", "rows") else pa.float64())
    ]
    return Check("types", not wrong, f"are others in {wrong}" if wrong else "are those of the metadata")


def _check_counts(counts: Floats, plan: Plan, integers: bool) -> Iterator[Check]:
    mechanism = plan.mechanism
    if isinstance(mechanism, AdaptiveGaussian):
        yield Check("counts", True, "are numbers; selected keys have no threshold on counts")
        return
    if isinstance(mechanism, KnownGroups):
        whole = len(counts) == mechanism.groups
        yield Check("groups", whole, "are all that were listed" if whole else f"expected {mechanism.groups}")
        return
    least = mechanism.threshold - (0.5 if integers else 0.0)  # rounding to integers can lower a count by a half
    above = bool((counts >= least).all()) if integers else bool((counts > least).all())
    yield Check("threshold", above, f"every count exceeds {mechanism.threshold:g}" if above else "a count is below it")
    bits = 0 if integers else mechanism.lattice_bits
    steps = np.ldexp(counts, bits)
    on_lattice = bool((steps == np.rint(steps)).all())
    lattice = f"a multiple of 2^-{bits}" if bits else "a whole number"
    yield Check("lattice", on_lattice, f"every count is {lattice}" if on_lattice else f"a count is not {lattice}")


def _check_order(loaded: Loaded, counts: Floats, keys: list[str], request: Request) -> Check:
    if loaded.typed and not loaded.is_folder:  # Spark orders some keys in another way
        places = row_order(loaded.table, keys, request.order).to_numpy()
        right = bool((places == np.arange(len(places))).all())
    elif request.order == "key":
        return skipped("order", "by keys, whose types this format does not keep")
    else:
        right = bool((np.diff(counts) <= 0).all())
    return Check("order", right, f"is by {request.order}" if right else f"is not by {request.order}")


def _check_errors(table: pa.Table, plan: Plan, request: Request, counts: Floats) -> Iterator[Check]:
    """Standard errors and intervals, column by column, as the noise of the plan gives them."""
    level = request.intervals
    if request.integers and level is not None:  # an interval lies around the count before it was rounded
        counts = (numbers(table, "count" + LOW) + numbers(table, "count" + HIGH)) / 2
    wrong, unknown = [], []
    for name, parts in _noises(table, plan, request, counts):
        if parts is None:
            unknown.append(name)
            continue
        column = Column(name, np.zeros(len(counts)), parts)
        stated = numbers(table, name + STD_ERROR)
        if not close(stated, column.std_errors) or not bool((stated > 0).all()):
            wrong.append(name + STD_ERROR)
        elif level is not None:
            whole = request.integers and name in ("count", "rows")
            wrong += _wrong_bounds(table, name, interval(plan, column, level)[1], 0.5 if whole else 0.0)
    if wrong:
        yield Check("errors", False, f"are not those of the plan in {wrong}")
    elif isinstance(plan.mechanism, AdaptiveGaussian):
        yield skipped("errors", "are estimates of the release itself; its intervals fit them")
    else:
        yield Check("errors", True, "standard errors and intervals are those of the plan")
    if unknown:
        yield skipped("errors", f"of {unknown} depend on counts before they were rounded")


def _noises(
    table: pa.Table, plan: Plan, request: Request, counts: Floats
) -> Iterator[tuple[str, tuple[Floats, ...] | None]]:
    """The independent noises of every column; those of an adaptive release are known from the table alone."""
    if isinstance(plan.mechanism, AdaptiveGaussian):
        for name in plan.value_names:
            yield name, (numbers(table, name + STD_ERROR),)
        return
    count_std = np.full(len(counts), plan.mechanism.noise_std)
    yield "count", (count_std,)
    for noisy in plan.aggregates:
        name, rounded = noisy.aggregate.name, request.integers and request.intervals is None
        hidden = rounded and noisy.aggregate.kind == "mean"
        yield name, None if hidden else noises(noisy, numbers(table, name), counts, count_std)


def _wrong_bounds(table: pa.Table, name: str, reach: Floats, rounding: float) -> list[str]:
    low, high = numbers(table, name + LOW), numbers(table, name + HIGH)
    values = numbers(table, name)
    slack = 1e-9 * (np.abs(values) + reach)
    centred = bool((np.abs((low + high) / 2 - values) <= rounding + slack).all())
    wide = bool((np.abs((high - low) / 2 - reach) <= slack).all())
    return [] if centred and wide else [name + LOW, name + HIGH]
