"""A released table as plain text."""

from __future__ import annotations

import pyarrow as pa

from dphist.planning import Plan
from dphist.planning.describe import with_error
from dphist.planning.plan import STD_ERROR

_WIDEST = 40


def table_text(table: pa.Table, plan: Plan, most: int) -> str:
    """The first rows: keys, values and their standard errors."""
    if table.num_rows == 0:
        return "No group was released: none had a noisy count above the threshold."
    values = plan.value_names
    keys = table.column_names[: table.column_names.index("count")]
    rows = [(*keys, *values)]
    for row in table.slice(0, most).to_pylist():
        shown = [with_error(row[name], row[name + STD_ERROR]) for name in values]
        rows.append((*(_cut(row[key]) for key in keys), *shown))
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = []
    for row in rows:
        cells = [
            f"{cell:<{w}}" if i < len(keys) else f"{cell:>{w}}"
            for i, (cell, w) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append("  " + "  ".join(cells).rstrip())
    left = table.num_rows - most
    lines += [f"  … and {left:,} more groups"] if left > 0 else []
    return "\n".join([*lines, "", "± is one standard error of the noise."])


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
    widths = [max(len(row[i]) for row in rows) for i in range(len(names))]
    lines = ["  " + "  ".join(f"{cell:<{w}}" for cell, w in zip(row, widths, strict=True)).rstrip() for row in rows]
    left = table.num_rows - most
    lines += [f"  … and {left:,} more groups"] if left > 0 else []
    lines += ["", "± is one standard error of the noise."] if "count" in names else []
    return "\n".join(lines)


def _cut(value: object) -> str:
    text = "(null)" if value is None else str(value)
    text = "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)
    return text if len(text) <= _WIDEST else text[: _WIDEST - 1] + "…"
