"""A released table as plain text."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from dphist.planning import Plan
from dphist.planning.describe import with_error
from dphist.planning.plan import STD_ERROR

_WIDEST = 40
_ERROR = ["", "± is one standard error of the noise."]


def table_text(first: pa.Table, plan: Plan, groups: int) -> str:
    """The first rows of a release of so many groups: keys, values and their standard errors."""
    if groups == 0:
        return "No group was released: none had a noisy count above the threshold."
    values = plan.value_names
    keys = first.column_names[: first.column_names.index("count")]
    rows = [(*keys, *values)]
    for row in first.to_pylist():
        shown = [with_error(row[name], row[name + STD_ERROR]) for name in values]
        rows.append((*(_cut(row[key]) for key in keys), *shown))
    return "\n".join([*_lines(rows, len(keys), groups), *_ERROR])


def rows_text(table: pa.Table, most: int) -> str:
    """The first rows of any released table; a count is shown with its standard error."""
    if table.num_rows == 0:
        return "No group was released."
    names = [name for name in table.column_names if not name.endswith(STD_ERROR)]
    rows = [tuple(names)]
    for row in table.slice(0, most).to_pylist():
        error = row.get("count" + STD_ERROR)
        rows.append(
            tuple(with_error(row[n], error) if n == "count" and error is not None else _cut(row[n]) for n in names)
        )
    return "\n".join([*_lines(rows, len(names), table.num_rows), *(_ERROR if "count" in names else [])])


def _lines(rows: Sequence[Sequence[str]], keys: int, groups: int) -> list[str]:
    """A heading and rows in columns, the keys to the left and values to the right; then how many groups are not shown."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for row in rows:
        cells = [
            f"{cell:<{w}}" if i < keys else f"{cell:>{w}}" for i, (cell, w) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append("  " + "  ".join(cells).rstrip())
    left = groups - (len(rows) - 1)
    return [*lines, f"  … and {left:,} more groups"] if left > 0 else lines


def _cut(value: object) -> str:
    text = "(null)" if value is None else str(value)
    text = "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)
    return text if len(text) <= _WIDEST else text[: _WIDEST - 1] + "…"
