"""A released table as plain text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from dphist.planning import Plan
from dphist.planning.describe import standard_error_in_words
from dphist.planning.plan import NOISY, STD_ERROR
from dphist.publish.totals import Estimate, Totals
from dphist.words import printable, with_error

_WIDEST = 40
_ERROR = ["", "± is one standard error of the noise."]


def table_text(first: pa.Table, plan: Plan, groups: int, totals: Totals | None = None) -> str:
    """The first rows of a release of so many groups: keys, values and their standard errors. Then totals, if it has any."""
    in_all = [] if totals is None else ["", totals_text(totals)]
    if groups == 0:
        return "\n".join(["No group was released: none was large enough.", *in_all])
    if plan.request.keys_only:
        return "\n".join(_lines(first, first.column_names, (), groups))
    keys = first.column_names[: first.column_names.index("count")]
    other = None if totals is None or totals.other is None else with_error(totals.other.value, totals.other.std_error)
    error = standard_error_in_words(plan.mechanism)
    return "\n".join([*_lines(first, keys, plan.value_names, groups, other), *in_all, "", error])


def totals_text(totals: Totals) -> str:
    """All units and those in no released group, in a sentence."""
    words = f"About {_of_units(totals.total)} units in all"
    if totals.other is None:
        return f"{words}."
    return f"{words}; (other), about {_of_units(totals.other)} of them, are in none of the released groups."


def _of_units(units: Estimate) -> str:
    bounds = "" if units.low is None or units.high is None else f" ({units.low:,.0f} to {units.high:,.0f})"
    return with_error(units.value, units.std_error) + bounds


def rows_text(table: pa.Table, most: int) -> str:
    """The first rows of any released table; what has a standard error is shown with it."""
    if table.num_rows == 0:
        return "No group was released."
    names = [name for name in table.column_names if not name.endswith(STD_ERROR) and name != "count" + NOISY]
    lines = _lines(table.slice(0, most), names, (), table.num_rows)
    return "\n".join([*lines, *(_ERROR if "count" in names else [])])


def _lines(
    first: pa.Table, keys: Sequence[str], values: Sequence[str], groups: int, other: str | None = None
) -> list[str]:
    """A heading and rows in columns, keys to the left and values to the right; then how many groups are not shown.

    other: the count of units in none of the groups, which gets the last row.
    """
    names = (*keys, *values)
    rows = [tuple(map(printable, names))]
    for row in first.to_pylist():
        rows.append(tuple(_cell(row, name) for name in names))
    if other is not None:
        rows.append(("(other)", *[""] * (len(keys) - 1), other, *[""] * (len(values) - 1)))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    sides = "<" * len(keys) + ">" * len(values)
    lines = [
        "  " + "  ".join(f"{cell:{side}{width}}" for cell, side, width in zip(row, sides, widths, strict=True)).rstrip()
        for row in rows
    ]
    if (left := groups - first.num_rows) > 0:
        lines.insert(1 + first.num_rows, f"  … and {left:,} more groups")
    return lines


def _cell(row: dict[str, Any], name: str) -> str:
    error = row.get(name + STD_ERROR)
    return _cut(row[name]) if error is None else with_error(row[name], error)


def _cut(value: object) -> str:
    text = "(null)" if value is None else str(value)
    text = printable(text)
    return text if len(text) <= _WIDEST else text[: _WIDEST - 1] + "…"
