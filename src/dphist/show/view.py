"""A published table for people: a line, a card in a notebook, a picture, and its report in every form."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from dphist import notebook
from dphist.planning.plan import HIGH, LOW, NOISY, STD_ERROR
from dphist.run.release import Answer, Published, Release
from dphist.run.stream import RunningCounts, facts
from dphist.run.top_k import TopK
from dphist.show import page
from dphist.show.plots import plot_counts
from dphist.show.report import Content, content_of, content_of_answer, content_of_largest, content_of_running
from dphist.show.table import numbers, reaches, sized, whiskers_in_words, with_its_error
from dphist.show.text import as_markdown, as_text, totals_text
from dphist.words import budget

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_ROWS: Final = 10
_ELSEWHERE: Final = "The table is where Spark wrote it: first(10) brings ten rows, to_spark() none, to_arrow() all."


@dataclass(frozen=True, slots=True)
class View:
    """The ways to show one published table."""

    published: Published

    def content(self) -> Content:
        """The words of the report, for any format."""
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
        """Type, groups and budget. A table on Spark is not read for its size."""
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
        drawn = []
        if "count" in names:
            ends = zip(numbers(first, "count"), *reaches(first, "count", told.intervals), strict=True)
            drawn = [notebook.Reach(*map(float, reach)) for reach in ends]
        more = f"… and {groups - len(rows):,} more groups" if groups > len(rows) else ""
        whiskers = f"± is one standard error. {whiskers_in_words(told.intervals)}" if drawn else ""
        totals = getattr(published, "totals", None)
        shown = [more, whiskers] if rows else ["No group was released: none was large enough."]
        notes = [*shown, *told.without_value, told.left_out, "" if totals is None else totals_text(totals)]
        title = f"{type(published).__name__}: {sized(groups)}"
        return notebook.listing(title, names, rows, drawn, keys=len(keys), notes=notes, guarantee=told.guarantee)

    def plot(self, most: int, axes: Axes | None) -> Axes:
        """The counts as a picture of Matplotlib."""
        return plot_counts(self.published.table, self.published.record, most, axes)


def _values(table: pa.Table, keys: Sequence[str]) -> list[str]:
    """The columns of values, without columns of errors and intervals."""
    ends = (STD_ERROR, NOISY, LOW, HIGH)
    named = [name for name in table.column_names if name not in keys]
    return [name for name in named if not any(name.endswith(end) and name.removesuffix(end) in named for end in ends)]
