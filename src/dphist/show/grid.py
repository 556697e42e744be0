"""Tables for terminals: columns that fit the width, long keys cut and still distinct, nothing lost in silence.

Rich draws them. It is imported when the first table is drawn, not before.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from dphist.show.table import NULL, Column
from dphist.words import printable, told_apart

if TYPE_CHECKING:
    from rich.table import Table
    from rich.text import Text

_INDENT: Final = "  "
_GAP: Final = 2
_NARROW: Final = 12
"""Cells that a column of texts keeps, however many columns there are. With less, rows are stacked."""
_NARROWEST: Final = 40
"""Cells of a screen: on one with less, lines run over the edge."""
_RULE: Final = "    \n    \n ── \n    \n    \n    \n    \n    \n"
"""A line below the headings and no other, as Rich writes boxes."""


@dataclass(frozen=True, slots=True)
class Screen:
    """Where a table is shown. The defaults are those of a file or a pipe, which look the same everywhere."""

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
    """The cells of each column: as many as it needs, less for the widest columns of texts. None if they do not fit."""
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
    """The texts of a column from top to bottom, its last one among them; keys in at most so many cells."""
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
    from rich.table import Table
    from rich.text import Text

    box = Box(_RULE if screen.unicode else _RULE.replace("─", "-"), ascii=not screen.unicode)
    table = Table(box=box, pad_edge=False, show_edge=False, padding=(0, 1, 0, 0), border_style="dim")
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
    from rich.table import Table
    from rich.text import Text

    room = screen.width - len(_INDENT) - _GAP
    names = _headings(columns, [room // 2] * len(columns))
    label = max(map(cell_len, names))
    table = Table(box=None, pad_edge=False, show_header=False, padding=(0, _GAP, 0, 0))
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
    """What is before ± is what one reads. A Text, since Rich would read brackets in a string as a style."""
    from rich.text import Text

    value, sign, error = text.partition(" ± ") if kind == "number" else (text, "", "")
    return Text.assemble(value, (sign + error, "dim"))


def _draw(table: Table, screen: Screen) -> list[str]:
    """Lines, without blanks at their ends. Only here do escapes of a terminal come in, and only for one."""
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
