"""A published table as people see it: a line, a card in a notebook, a picture, and its report in every form."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from dphist import checks, notebook
from dphist.errors import InvalidParameter
from dphist.planning.plan import HIGH, LOW, NOISY, STD_ERROR
from dphist.run.answer import Answer
from dphist.run.record import Record
from dphist.run.release import Published, Release
from dphist.run.running import RunningCounts, facts
from dphist.run.top_k import TopK
from dphist.show import page, plots
from dphist.show.report import Content, content_of, content_of_answer, content_of_largest, content_of_running
from dphist.show.table import sized, with_its_error
from dphist.show.text import as_markdown, as_text, totals_text
from dphist.words import budget, cut

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_ROWS: Final = 10
_LINE: Final = 90
"""Letters above a picture."""
_ELSEWHERE: Final = "The table is where Spark wrote it: first(10) brings ten rows, to_spark() none, to_arrow() all."


@dataclass(frozen=True, slots=True)
class View:
    """A published table to look at."""

    published: Published

    def content(self) -> Content:
        """What a report says, whatever it is written as."""
        match self.published:
            case Release() as one:
                return content_of(one.table, one.record)
            case Answer() as one:
                return content_of_answer(one.table, one.record, [release.table for release in one.releases])
            case TopK() as one:
                return content_of_largest(one.table, one.record, complete=one.complete)
            case RunningCounts() as one:
                told = facts(one.mechanism, one.settings, one.round)[:4]
                return content_of_running(one.table, one.record, told, one.history())
        raise NotImplementedError

    def html(self) -> str:
        """The report as a page with the metadata in it."""
        return page.with_metadata(page.render(self.content()), self.published.metadata())

    def summary(self, *, markdown: bool) -> str:
        """The report as Markdown or plain text."""
        return as_markdown(self.content()) if markdown else as_text(self.content())

    def line(self) -> str:
        """Type, groups and budget; of a table that is elsewhere its size is not asked for."""
        published, told = self.published, self.published.record
        where = sized(published.table.num_rows) if published.at_hand else "a table on Spark"
        by = f" by {', '.join(told.by)}" if told.by else ""
        return f"{type(published).__name__}({where}{by}; {budget(told.epsilon, told.delta)})"

    def card(self) -> str:
        """The first rows with ±, a bar for each count, and the guarantee in one sentence."""
        published, told = self.published, self.published.record
        if not published.at_hand:
            return notebook.card(self.line(), [("table", _ELSEWHERE), ("guarantee", told.guarantee)])
        first, groups = published.first(_ROWS)
        keys = [name for name in first.column_names if name in told.by or name == "rank"]
        names = [*keys, *_values(first, keys)]
        rows = [[with_its_error(row, name) for name in names] for row in first.to_pylist()]
        reaches = [notebook.Reach(*reach) for reach in _reaches(first)] if "count" in names else []
        more = f"… and {groups - len(rows):,} more groups" if groups > len(rows) else ""
        whiskers = f"± is one standard error. {_whiskers(told)}" if reaches else ""
        totals = getattr(published, "totals", None)
        shown = [more, whiskers] if rows else ["No group was released: none was large enough."]
        notes = [*shown, *told.without_value, told.left_out, "" if totals is None else totals_text(totals)]
        title = f"{type(published).__name__}: {sized(groups)}"
        return notebook.listing(title, names, rows, reaches, keys=len(keys), notes=notes, guarantee=told.guarantee)

    def plot(self, most: int, axes: Axes | None) -> Axes:
        """Bars with whiskers, the largest first; or a line through days and times, in their order."""
        checks.check_whole("most", most)
        table, told = self.published.table, self.published.record
        if "count" not in table.column_names:
            raise InvalidParameter("a table with counts to draw", "keys alone", "print them, or release counts.")
        keys = [name for name in table.column_names if name in told.by]
        timed = len(keys) == 1 and pa.types.is_temporal(table.schema.field(keys[0]).type)
        if timed:
            shown = table.filter(table.column(keys[0]).is_valid()).sort_by(keys[0])
        else:
            shown = table.sort_by([("count", "descending")]).slice(0, most)
        axes = plots.new_axes() if axes is None else axes
        places = shown.column(keys[0]).to_pylist() if timed else [_label(row, keys) for row in shown.to_pylist()]
        plots.draw_reaches(axes, places, _reaches(shown), timed=timed)
        title = textwrap.wrap(f"{_whiskers(told)} {told.left_out}", _LINE)
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


def _label(row: dict[str, Any], keys: Sequence[str]) -> str:
    return cut(", ".join(with_its_error(row, key) for key in keys) or "all", 40)
