"""The model of a table that people read, with the texts of its cells. Terminal, page, Markdown and text draw it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

import numpy as np
import pyarrow as pa

from dphist.planning.plan import HIGH, LOW, STD_ERROR
from dphist.show.svg import Floats
from dphist.words import cut, percent, printable, told_apart, with_error

MOST_ROWS: Final = 20_000
"""The most rows of a report: a page of a few megabytes opens at once. The table file has all rows."""

MOST_LETTERS: Final = 400
"""The most letters of a key in a report. Longer keys lose their middle."""

NULL: Final = "(null)"


@dataclass(frozen=True, slots=True)
class Column:
    """A heading and cells. key, number key: cut to fit. number, word: never cut; numbers go to the right. text: wrapped.

    last: a cell below all others, such as "(other)". No key is shown as this text.
    """

    name: str
    kind: Literal["key", "number key", "number", "word", "text"]
    cells: Sequence[object]
    last: str | None = None


@dataclass(frozen=True, slots=True)
class Table:
    """The first rows of a table, and how many rows it has. A cell None is a missing key."""

    columns: Sequence[Column]
    total: int

    @property
    def names(self) -> tuple[str, ...]:
        """The headings."""
        return tuple(column.name for column in self.columns)

    @property
    def rows(self) -> list[tuple[Any, ...]]:
        """The cells from top to bottom."""
        return list(zip(*(column.cells for column in self.columns), strict=True))


def table_of(table: pa.Table, keys: Sequence[str], values: Sequence[str], level: float | None) -> Table:
    """A table of keys and values. Values have intervals of this level, or ± one standard error if there is none."""
    head = table.slice(0, MOST_ROWS)
    columns = []
    for name in keys:
        cells = [None if key is None else cut(printable(str(key)), MOST_LETTERS) for key in head[name].to_pylist()]
        columns.append(Column(printable(name), "number key" if is_number(head[name].type) else "key", cells))
    rows = head.select([name for name in head.column_names if name not in keys]).to_pylist() if values else []
    for name in values:
        shown = printable(name)
        told = [with_its_error(row, name) for row in rows]
        if level is None:
            columns.append(Column(shown, "number", told))
            continue
        columns.append(Column(shown, "number", [cell.partition(" ± ")[0] for cell in told]))
        interval = f"{percent(level)} % interval" + (f" of {shown}" if len(values) > 1 else "")
        columns.append(Column(interval, "number", [_interval(row, name) for row in rows]))
    return Table(columns, table.num_rows)


def is_number(kind: pa.DataType) -> bool:
    """Whether values of a type are numbers."""
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))


def with_its_error(row: dict[str, Any], name: str) -> str:
    """A value of a row with its standard error, if it has one."""
    value, error = row[name], row.get(name + STD_ERROR)
    if value is None:
        return NULL
    return str(value) if error is None else with_error(value, error)


def _interval(row: dict[str, Any], name: str) -> str:
    """The interval of a value, with the digits of the value."""
    if row[name] is None:
        return NULL
    return " to ".join(with_error(row[name + end], row[name + STD_ERROR]).partition(" ")[0] for end in (LOW, HIGH))


def whiskers_beside_table(level: float | None) -> str:
    """The meaning of whiskers beside a table."""
    reach = "reach one standard error to both sides" if level is None else f"are {percent(level)} % intervals"
    return f"Whiskers {reach}, as in the table."


def whiskers_in_words(level: float | None) -> str:
    """The meaning of whiskers without a table."""
    return "Whiskers reach one standard error." if level is None else f"Whiskers are intervals of {100 * level:g} %."


def reaches(table: pa.Table, name: str, level: float | None) -> tuple[Floats, Floats]:
    """The lower and upper ends of whiskers, as the cells show them."""
    if level is None:
        values, errors = numbers(table, name), numbers(table, name + STD_ERROR)
        return values - errors, values + errors
    return numbers(table, name + LOW), numbers(table, name + HIGH)


def numbers(table: pa.Table, name: str) -> Floats:
    """A column as doubles."""
    return np.asarray(table.column(name).to_numpy(), np.float64)


def sized(count: int, what: str = "group") -> str:
    """A number of things in words, as "3 groups"."""
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def key_text(table: pa.Table, by: Sequence[str], row: int) -> str:
    """The key of a row in one line."""
    return " · ".join(shown(table.column(name)[row].as_py()) for name in by)


def shown(value: Any) -> str:
    """A key as text."""
    return NULL if value is None else str(value)


def labels(texts: Sequence[str], most: int) -> list[str]:
    """A short text for each row, no two of them alike."""
    return told_apart([str(row) for row in range(len(texts))], [printable(text) for text in texts], [most] * len(texts))
