"""A released table as text, for a terminal or a pipe."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

import pyarrow as pa

from dphist.planning import Plan
from dphist.planning.describe import standard_error_in_words
from dphist.planning.plan import HIGH, LOW, NOISY, STD_ERROR
from dphist.publish.totals import Estimate, Totals
from dphist.show.grid import Screen, grid
from dphist.show.table import NULL, Column, is_number, with_its_error
from dphist.words import percent, range_of, with_error

PIPE: Final = Screen()


def table_text(
    first: pa.Table,
    plan: Plan,
    groups: int,
    totals: Totals | None = None,
    *,
    level: float | None = None,
    screen: Screen = PIPE,
) -> str:
    """The first rows of a release of so many groups: keys, values, their errors and intervals. Then totals, if it has any."""
    in_all = [] if totals is None else ["", totals_text(totals)]
    if groups == 0:
        return "\n".join(["No group was released: none was large enough.", *in_all])
    more = _more(groups - first.num_rows)
    if plan.request.keys_only:
        return grid(_keys(first, first.column_names), screen, more)
    keys = first.column_names[: first.column_names.index("count")]
    other = None if totals is None or totals.other is None else with_error(totals.other.value, totals.other.std_error)
    columns = [*_keys(first, keys, other), *_values(first, plan.value_names, level, other)]
    words = standard_error_in_words(plan.mechanism)
    words += "" if level is None else f" Intervals have a level of {percent(level)} %."
    return "\n".join([grid(columns, screen, more), *in_all, "", words])


def totals_text(totals: Totals) -> str:
    """All units and those in no released group, in a sentence."""
    words = f"About {_of_units(totals.total)} units in all"
    if totals.other is None:
        return f"{words}."
    return f"{words}; (other), about {_of_units(totals.other)} of them, are in none of the released groups."


def _of_units(units: Estimate) -> str:
    bounds = "" if units.low is None or units.high is None else f" ({units.low:,.0f} to {units.high:,.0f})"
    return with_error(units.value, units.std_error) + bounds


def rows_text(table: pa.Table, most: int, screen: Screen = PIPE) -> str:
    """The first rows of any released table; what has a standard error is shown with it."""
    if table.num_rows == 0:
        return "No group was released."
    names = [name for name in table.column_names if not name.endswith(STD_ERROR) and name != "count" + NOISY]
    values = [name for name in names if name + STD_ERROR in table.column_names]
    first = table.slice(0, most)
    columns = [*_keys(first, [name for name in names if name not in values]), *_values(first, values)]
    error = ["", "± is one standard error of the noise."] if values else []
    return "\n".join([grid(columns, screen, _more(table.num_rows - first.num_rows)), *error])


def answer_text(first: pa.Table, rows: int, screen: Screen = PIPE) -> str:
    """The first of so many rows of the answer to a statement: columns in their order, values with their standard errors."""
    if rows == 0:
        return "No row was released."
    numbers = [field.name for field in first.schema if is_number(field.type)]
    errors = {name: name + STD_ERROR for name in numbers if name + STD_ERROR in numbers}
    shown = [name for name in first.column_names if name not in errors.values()]
    columns = [_answered(first, name, errors.get(name), name in numbers) for name in shown]
    told = ["", "± is one standard error of the noise."] if errors else []
    return "\n".join([grid(columns, screen, _more(rows - first.num_rows, "row")), *told])


def _answered(table: pa.Table, name: str, error: str | None, number: bool) -> Column:
    """A column of an answer, of which nothing is known but its type: a statement may compute what it likes."""
    values = table[name].to_pylist()
    if error is not None:
        pairs = zip(values, table[error].to_pylist(), strict=True)
        return Column(name, "number", [value if value is None else _plus_minus(value, one) for value, one in pairs])
    if pa.types.is_floating(table.schema.field(name).type):
        short = [value if value is None else _short(value) for value in values]
        return Column(name, "number", short if len(set(short)) == len(set(map(repr, values))) else values)
    return Column(name, "number" if number else "key", values)


def _plus_minus(value: Any, error: Any) -> str:
    if error is None or not math.isfinite(error):
        return f"{value} ± {NULL if error is None else error}"
    return with_error(value, float(error))


def _short(value: float) -> str:
    """Six digits, and all of those before the point."""
    return f"{value:.0f}" if 1e6 <= abs(value) < 1e15 else f"{value:.6g}"


def _more(left: int, what: str = "group") -> str:
    return f"… and {left:,} more {what}{'s' * (left > 1)}" if left > 0 else ""


def _keys(table: pa.Table, names: Sequence[str], other: str | None = None) -> list[Column]:
    """Columns of keys; the place of all other groups is below the first."""
    last = [None] * len(names) if other is None else ["(other)", *[""] * (len(names) - 1)]
    return [Column(name, "key", table[name].to_pylist(), below) for name, below in zip(names, last, strict=False)]


def _values(
    table: pa.Table, names: Sequence[str], level: float | None = None, other: str | None = None
) -> list[Column]:
    """Columns of values with their standard errors, and of intervals beside them; all other groups have a count alone."""
    rows: list[dict[str, Any]] = table.to_pylist()
    columns = []
    for name in names:
        below = None if other is None else other if name == "count" else ""
        columns.append(Column(name, "number", [with_its_error(row, name) for row in rows], below))
        if level is not None and name + LOW in table.column_names:
            cells = [_interval(row, name) for row in rows]
            columns.append(Column(f"{name}, {percent(level)} %", "number", cells, None if other is None else ""))
    return columns


def _interval(row: dict[str, Any], name: str) -> str:
    return NULL if row[name] is None else range_of(row[name + LOW], row[name + HIGH], row[name + STD_ERROR])
