"""A published table as Python shows it: a line, a card in a notebook, a picture."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from dphist import checks, notebook
from dphist.errors import InvalidParameter
from dphist.planning.plan import HIGH, LOW, NOISY, STD_ERROR
from dphist.publish.text import totals_text
from dphist.report import plots
from dphist.words import budget, cut, with_error

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from dphist.publish.record import Record
    from dphist.publish.result import Published

_ROWS: Final = 10
_LINE: Final = 90
"""Letters above a picture."""
_ELSEWHERE: Final = "The table is where Spark wrote it: first(10) brings ten rows, to_spark() none, to_arrow() all."


def line(published: Published) -> str:
    """Type, groups and budget; of a table that is elsewhere its size is not asked for."""
    told, name = published.record, type(published).__name__
    where = _size(published.table.num_rows) if published.at_hand else "a table on Spark"
    by = f" by {', '.join(told.by)}" if told.by else ""
    return f"{name}({where}{by}; {budget(told.epsilon, told.delta)})"


def card(published: Published) -> str:
    """The first rows with ±, a bar for each count, and the guarantee in one sentence."""
    told = published.record
    if not published.at_hand:
        return notebook.card(line(published), [("table", _ELSEWHERE), ("guarantee", told.guarantee)])
    first, groups = published.first(_ROWS)
    keys = [name for name in first.column_names if name in told.by or name == "rank"]
    names = [*keys, *_values(first, keys)]
    rows = [[_cell(row, name) for name in names] for row in first.to_pylist()]
    reaches = [notebook.Reach(*reach) for reach in _reaches(first)] if "count" in names else []
    more = f"… and {groups - len(rows):,} more groups" if groups > len(rows) else ""
    whiskers = f"± is one standard error. {_whiskers(told)}" if reaches else ""
    totals = getattr(published, "totals", None)
    shown = [more, whiskers] if rows else ["No group was released: none was large enough."]
    notes = [*shown, *told.without_value, told.left_out, "" if totals is None else totals_text(totals)]
    title = f"{type(published).__name__}: {_size(groups)}"
    return notebook.listing(title, names, rows, reaches, keys=len(keys), notes=notes, guarantee=told.guarantee)


def plot(published: Published, most: int, axes: Axes | None) -> Axes:
    """Bars with whiskers, the largest first; or a line through days and times, in their order."""
    checks.check_whole("most", most)
    table = published.table
    if "count" not in table.column_names:
        raise InvalidParameter("a table with counts to draw", "keys alone", "print them, or release counts.")
    keys = [name for name in table.column_names if name in published.record.by]
    timed = len(keys) == 1 and pa.types.is_temporal(table.schema.field(keys[0]).type)
    if timed:
        shown = table.filter(table.column(keys[0]).is_valid()).sort_by(keys[0])
    else:
        shown = table.sort_by([("count", "descending")]).slice(0, most)
    axes = plots.new_axes() if axes is None else axes
    places = shown.column(keys[0]).to_pylist() if timed else [_label(row, keys) for row in shown.to_pylist()]
    plots.draw_reaches(axes, places, _reaches(shown), timed=timed)
    title = textwrap.wrap(f"{_whiskers(published.record)} {published.left_out()}", _LINE)
    axes.set_title("\n".join(title), fontsize=9, loc="left")
    return axes


def _values(table: pa.Table, keys: Sequence[str]) -> list[str]:
    """The columns of values, without those that tell of their errors."""
    ends = (STD_ERROR, NOISY, LOW, HIGH)
    named = [name for name in table.column_names if name not in keys]
    return [name for name in named if not any(name.endswith(end) and name.removesuffix(end) in named for end in ends)]


def _reaches(table: pa.Table) -> list[tuple[float, float, float]]:
    """Each count with the ends of its interval, or of one standard error where no interval was asked for."""
    counts = table.column("count").to_pylist()
    if "count" + LOW in table.column_names:
        return list(zip(counts, *(table.column("count" + end).to_pylist() for end in (LOW, HIGH)), strict=True))
    errors = table.column("count" + STD_ERROR).to_pylist()
    return [(count, count - error, count + error) for count, error in zip(counts, errors, strict=True)]


def _whiskers(told: Record) -> str:
    level = told.intervals
    return "Whiskers reach one standard error." if level is None else f"Whiskers are intervals of {100 * level:g} %."


def _cell(row: dict[str, Any], name: str) -> str:
    value, error = row[name], row.get(name + STD_ERROR)
    if value is None:
        return "(null)"
    return str(value) if error is None else with_error(value, error)


def _label(row: dict[str, Any], keys: Sequence[str]) -> str:
    return cut(", ".join(_cell(row, key) for key in keys) or "all", 40)


def _size(groups: int) -> str:
    return f"{groups:,} {'group' if groups == 1 else 'groups'}"
