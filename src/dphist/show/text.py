"""Tables and reports as text: on a terminal, in a pipe, as Markdown.

Columns fit the width, long keys are cut and stay distinct, and a sentence says what is left out. Rich draws tables for
terminals; it is imported when the first table is drawn.
"""

from __future__ import annotations

import io
import math
import re
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from dphist.planning import Plan
from dphist.planning.describe import standard_error_in_words
from dphist.planning.plan import HIGH, LOW, NOISY, STD_ERROR
from dphist.run.totals import Estimate, Totals
from dphist.show.table import NULL, Column, Table, is_number, with_its_error
from dphist.words import percent, printable, range_of, told_apart, with_error

if TYPE_CHECKING:
    from rich.table import Table as Drawn
    from rich.text import Text

    from dphist.show.report import Content

_INDENT: Final = "  "
_GAP: Final = 2
_NARROW: Final = 12
"""The least width of a column of texts. If less is left, rows are stacked."""
_NARROWEST: Final = 40
"""The least width of a screen. On a narrower screen lines run over the edge."""
_RULE: Final = "    \n    \n ── \n    \n    \n    \n    \n    \n"
"""A box of Rich with a line below the headings alone."""


@dataclass(frozen=True, slots=True)
class Screen:
    """The width, colours and signs of a screen. The defaults are for a file or a pipe."""

    width: int = 80
    styled: bool = False
    unicode: bool = True


def grid(columns: Sequence[Column], screen: Screen, more: str = "") -> str:
    """Columns side by side, or each row as a block of lines where they do not fit. `more` follows the rows."""
    screen = replace(screen, width=max(screen.width, _NARROWEST))
    widths = _widths(columns, screen.width)
    lines = _stacked(columns, screen) if widths is None else _side_by_side(columns, widths, screen)
    if more:
        last = sum(bool(column.last) for column in columns)
        at = len(lines) - (min(last, 1) if widths else last)
        lines[at:at] = [_INDENT + more] if widths or not last else [_INDENT + more, ""]
    return "\n".join(lines)


def _widths(columns: Sequence[Column], width: int) -> list[int] | None:
    """The width of each column. The widest columns of texts get less than they need. None if the columns do not fit."""
    from rich.cells import cell_len

    widths, least = [], []
    for one in columns:
        needed = max(map(cell_len, (printable(one.name), *_cells(one, width))))
        whole = one.kind in ("number", "word")
        widths.append(needed if whole else min(needed, width))
        least.append(needed if whole else min(needed, _NARROW))
    room = width - len(_INDENT) - _GAP * (len(columns) - 1)
    if sum(least) > room:
        return None
    while sum(widths) > room:
        place = max((i for i in range(len(widths)) if widths[i] > least[i]), key=lambda i: (widths[i], -i))
        widths[place] -= 1
    return widths


def _text_of(cell: object) -> str:
    return printable(NULL if cell is None else str(cell))


def _cells(column: Column, width: int) -> list[str]:
    """The texts of a column from top to bottom, keys cut to a width."""
    texts = list(map(_text_of, column.cells))
    if column.kind.endswith("key"):
        taken = () if column.last is None else (column.last,)
        texts = told_apart(list(map(repr, column.cells)), texts, [width] * len(texts), taken)
    return texts if column.last is None else [*texts, column.last]


def _headings(columns: Sequence[Column], widths: Sequence[int]) -> list[str]:
    names = [column.name for column in columns]
    return told_apart(names, list(map(printable, names)), widths)


def _side_by_side(columns: Sequence[Column], widths: Sequence[int], screen: Screen) -> list[str]:
    from rich.box import Box
    from rich.table import Table as Drawn
    from rich.text import Text

    box = Box(_RULE if screen.unicode else _RULE.replace("─", "-"), ascii=not screen.unicode)
    table = Drawn(box=box, pad_edge=False, show_edge=False, padding=(0, 1, 0, 0), border_style="dim")
    for column, heading, width in zip(columns, _headings(columns, widths), widths, strict=True):
        table.add_column(
            Text(heading, style="bold"),
            justify="right" if column.kind == "number" else "left",
            width=width,
            no_wrap=column.kind != "text",
            overflow="fold",
        )
    cells = [
        [_styled(text, column.kind) for text in _cells(column, width)]
        for column, width in zip(columns, widths, strict=True)
    ]
    for row in zip(*cells, strict=True):
        table.add_row(*row)
    return _draw(table, screen)


def _stacked(columns: Sequence[Column], screen: Screen) -> list[str]:
    """A line for each cell, behind the name of its column; an empty line between rows."""
    from rich.cells import cell_len
    from rich.table import Table as Drawn
    from rich.text import Text

    room = screen.width - len(_INDENT) - _GAP
    names = _headings(columns, [room // 2] * len(columns))
    label = max(map(cell_len, names))
    table = Drawn(box=None, pad_edge=False, show_header=False, padding=(0, _GAP, 0, 0))
    table.add_column(width=label, no_wrap=True)
    table.add_column(width=room - label, overflow="fold")
    cells = [_cells(column, room - label) for column in columns]
    for number, row in enumerate(zip(*cells, strict=True)):
        if number:
            table.add_row()
        for name, column, text in zip(names, columns, row, strict=True):
            if number == len(column.cells) and not text:
                continue
            table.add_row(Text(name, style="bold"), _styled(text, column.kind))
    return _draw(table, screen)


def _styled(text: str, kind: str) -> Text:
    """A value with its error in a weaker colour. It is a Text, since Rich would read brackets in a string as a style."""
    from rich.text import Text

    value, sign, error = text.partition(" ± ") if kind == "number" else (text, "", "")
    return Text.assemble(value, (sign + error, "dim"))


def _draw(table: Drawn, screen: Screen) -> list[str]:
    """Lines without blanks at their ends. Only here are escapes written, and only for a terminal."""
    from rich.console import Console

    console = Console(
        file=io.StringIO(),
        width=screen.width - len(_INDENT),
        force_terminal=screen.styled,
        color_system="standard" if screen.styled else None,
        no_color=not screen.styled,
        legacy_windows=False,
        markup=False,
        emoji=False,
        highlight=False,
        _environ={},
    )
    with console.capture() as drawn:
        console.print(table)
    return [(_INDENT + line).rstrip() for line in drawn.get().splitlines()]


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
    """The first rows of a release: keys, values, their errors and intervals, then totals if there are any."""
    in_all = [] if totals is None else ["", totals_text(totals)]
    if groups == 0:
        return "\n".join(["No group was released: none was large enough.", *in_all])
    more = _more(groups - first.num_rows)
    if not plan.mechanism.counted:
        return grid(_keys(first, first.column_names), screen, more)
    keys = first.column_names[: first.column_names.index("count")]
    other = None if totals is None or totals.other is None else with_error(totals.other.value, totals.other.std_error)
    columns = [*_keys(first, keys, other), *_values(first, plan.value_names, level, other)]
    words = standard_error_in_words(plan.mechanism)
    words += "" if level is None else f" Intervals have a level of {percent(level)} %."
    return "\n".join([grid(columns, screen, more), *in_all, "", words])


def totals_text(totals: Totals) -> str:
    """A sentence on the number of all units, and of units in no released group."""
    words = f"About {_of_units(totals.total)} units in all"
    if totals.other is None:
        return f"{words}."
    return f"{words}; (other), about {_of_units(totals.other)} of them, are in none of the released groups."


def _of_units(units: Estimate) -> str:
    bounds = "" if units.low is None or units.high is None else f" ({units.low:,.0f} to {units.high:,.0f})"
    return with_error(units.value, units.std_error) + bounds


def rows_text(table: pa.Table, most: int, screen: Screen = PIPE) -> str:
    """The first rows of any released table, values with their standard errors."""
    if table.num_rows == 0:
        return "No group was released."
    names = [name for name in table.column_names if not name.endswith(STD_ERROR) and name != "count" + NOISY]
    values = [name for name in names if name + STD_ERROR in table.column_names]
    first = table.slice(0, most)
    columns = [*_keys(first, [name for name in names if name not in values]), *_values(first, values)]
    error = ["", "± is one standard error of the noise."] if values else []
    return "\n".join([grid(columns, screen, _more(table.num_rows - first.num_rows)), *error])


def answer_text(first: pa.Table, rows: int, screen: Screen = PIPE) -> str:
    """The first rows of the answer to a statement: its columns in order, values with their standard errors."""
    if rows == 0:
        return "No row was released."
    numbers = [field.name for field in first.schema if is_number(field.type)]
    errors = {name: name + STD_ERROR for name in numbers if name + STD_ERROR in numbers}
    shown = [name for name in first.column_names if name not in errors.values()]
    columns = [_answered(first, name, errors.get(name), name in numbers) for name in shown]
    told = ["", "± is one standard error of the noise."] if errors else []
    return "\n".join([grid(columns, screen, _more(rows - first.num_rows, "row")), *told])


def _answered(table: pa.Table, name: str, error: str | None, number: bool) -> Column:
    """A column of an answer, by its type: a statement may compute anything."""
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
    """A number with six digits, or with all digits before the point."""
    return f"{value:.0f}" if 1e6 <= abs(value) < 1e15 else f"{value:.6g}"


def _more(left: int, what: str = "group") -> str:
    return f"… and {left:,} more {what}{'s' * (left > 1)}" if left > 0 else ""


def _keys(table: pa.Table, names: Sequence[str], other: str | None = None) -> list[Column]:
    """Columns of keys. Below the first stands the name of all other groups."""
    last = [None] * len(names) if other is None else ["(other)", *[""] * (len(names) - 1)]
    return [Column(name, "key", table[name].to_pylist(), below) for name, below in zip(names, last, strict=False)]


def _values(
    table: pa.Table, names: Sequence[str], level: float | None = None, other: str | None = None
) -> list[Column]:
    """Columns of values with their standard errors, and of their intervals. The row of all other groups has a count alone."""
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


FIRST_ROWS: Final = 20
_WIDTH: Final = 100
_LONGEST_KEY: Final = 48
_MARKS: Final = re.compile(r"([\\`*_\[\]<>|~&$])")
_LINE_MARKS: Final = re.compile(r"^([#+=-]|\d+(?=[.)]))")


def as_text(content: Content) -> str:
    """The summary for a terminal or a mail."""
    title = printable(content.title)
    lines = [title, "=" * len(title), ""]
    for label, words in content.headline:
        lines += [*_wrapped(f"{label}: {words}"), ""]
    table = grid(_first(content.table), Screen(_WIDTH)).splitlines() if content.table.total else []
    lines += [*_wrapped(f"Guarantee: {content.guarantee}"), "", *table, "", *_below(content), ""]
    for heading, paragraphs in _sections(content):
        lines += [heading, "-" * len(heading)]
        for words in paragraphs:
            lines += [*_wrapped(words), ""]
    return "\n".join([*lines, printable(content.maker), ""])


def as_markdown(content: Content) -> str:
    """The summary for a wiki or a repository."""
    lines = [f"# {_plain(content.title)}", ""]
    for label, words in content.headline:
        lines += [f"**{label}.** {_plain(words)}", ""]
    lines += [f"> **Guarantee.** {_plain(content.guarantee)}", "", *_markdown_table(content.table), ""]
    lines += [_plain(" ".join(_below(content))), ""]
    for heading, paragraphs in _sections(content):
        lines += [f"## {heading}", ""]
        for words in paragraphs:
            lines += [_plain(words), ""]
    return "\n".join([*lines, _plain(content.maker), ""])


def _sections(content: Content) -> list[tuple[str, list[str]]]:
    sections = [
        ("Which groups could be seen", list(content.seen)),
        ("How to read this", list(content.reading)),
        ("What the guarantee means", list(content.explanation)),
        ("How to cite this", [content.citation]),
    ]
    return [section for section in sections if section[1]]


def _below(content: Content) -> list[str]:
    """The words below a table."""
    total = content.table.total
    more = [f"The first {FIRST_ROWS} of {total:,} rows; the table file has all of them."] if total > FIRST_ROWS else []
    return [*more, content.table_note] if total else []


def _first(table: Table) -> list[Column]:
    return [replace(column, cells=column.cells[:FIRST_ROWS]) for column in table.columns]


def _markdown_table(table: Table) -> list[str]:
    columns = _first(table)
    names = _headings(columns, [_LONGEST_KEY] * len(columns))
    rule = "|" + "".join(" --- |" if column.kind == "key" else " ---: |" for column in columns)
    rows = [
        f"| {' | '.join(map(_plain, row))} |"
        for row in zip(*(_cells(one, _LONGEST_KEY) for one in columns), strict=True)
    ]
    return [f"| {' | '.join(map(_plain, names))} |", rule, *rows] if rows else []


def _wrapped(words: str) -> list[str]:
    return textwrap.wrap(printable(words), _WIDTH, break_long_words=False, break_on_hyphens=False)


def _plain(words: str) -> str:
    """A text in which Markdown finds no marks, tags or addresses."""
    escaped = _MARKS.sub(r"\\\1", printable(words)).replace("://", ":\\//").replace("www.", "www\\.")
    return _LINE_MARKS.sub(lambda mark: f"\\{mark[1]}" if not mark[1].isdigit() else f"{mark[1]}\u200b", escaped)
