"""The table as people read it: the text of every cell, and how far a value may be from the truth."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias

import numpy as np
import pyarrow as pa

from dphist.planning.plan import HIGH, LOW, STD_ERROR
from dphist.report.svg import Floats
from dphist.words import cut, percent, printable, told_apart, with_error

MOST_ROWS: Final = 20_000
"""So many rows a report holds at the most: a page of a few megabytes, which opens at once. The table file has all."""

MOST_LETTERS: Final = 400
"""Of a key in a report; longer ones lose their middle."""

NULL: Final = "(null)"
Kind: TypeAlias = Literal["text", "number", "value"]
"""How a column is sorted and set: keys as text or as numbers, values to the right."""


@dataclass(frozen=True, slots=True)
class Cells:
    """The first rows of a table as text, and how many rows it has. None is a key that is missing."""

    names: tuple[str, ...]
    kinds: tuple[Kind, ...]
    rows: tuple[tuple[str | None, ...], ...]
    total: int

    @property
    def keys(self) -> list[str]:
        """The names of the columns that are searched."""
        return [name for name, kind in zip(self.names, self.kinds, strict=True) if kind != "value"]

    def text(self, cell: str | None) -> str:
        """A cell where there is nothing but text."""
        return NULL if cell is None else cell


def cells_of(table: pa.Table, keys: Sequence[str], values: Sequence[str], level: float | None) -> Cells:
    """Keys as they are; values ± one standard error or, where the release has intervals, with these."""
    head = table.slice(0, MOST_ROWS)
    names: list[str] = []
    kinds: list[Kind] = []
    columns: list[list[str | None]] = []
    for name in keys:
        column = head.column(name)
        is_number = (
            pa.types.is_integer(column.type) or pa.types.is_floating(column.type) or pa.types.is_decimal(column.type)
        )
        names.append(printable(name))
        kinds.append("number" if is_number else "text")
        columns.append(
            [None if value is None else cut(printable(str(value)), MOST_LETTERS) for value in column.to_pylist()]
        )
    for name in values:
        pairs = list(zip(numbers(head, name).tolist(), numbers(head, name + STD_ERROR).tolist(), strict=True))
        names.append(printable(name))
        kinds.append("value")
        if level is None:
            columns.append([NULL if math.isnan(value) else with_error(value, error) for value, error in pairs])
            continue
        columns.append([_as_precise(value, (value, error)) for value, error in pairs])
        names.append(
            f"{percent(level)} % interval" if len(values) == 1 else f"{percent(level)} % interval of {printable(name)}"
        )
        kinds.append("value")
        sides = zip(numbers(head, name + LOW).tolist(), numbers(head, name + HIGH).tolist(), pairs, strict=True)
        columns.append(
            [
                NULL if math.isnan(pair[0]) else f"{_as_precise(low, pair)} to {_as_precise(high, pair)}"
                for low, high, pair in sides
            ]
        )
    return Cells(tuple(names), tuple(kinds), tuple(zip(*columns, strict=True)), table.num_rows)


def _as_precise(value: float, pair: tuple[float, float]) -> str:
    """A value, or a bound of it, with the digits of the value."""
    return NULL if math.isnan(value) else with_error(value, pair[1]).partition(" ")[0]


def spread_in_words(level: float | None, what: str) -> str:
    """What whiskers, or ± in a table, are."""
    if level is None:
        return f"{what} reach one standard error to both sides, as in the table."
    return f"{what} are {percent(level)} % intervals, as in the table."


def reaches(table: pa.Table, name: str, level: float | None) -> tuple[Floats, Floats]:
    """How far down and up values may be: as the cells say."""
    if level is None:
        values, errors = numbers(table, name), numbers(table, name + STD_ERROR)
        return values - errors, values + errors
    return numbers(table, name + LOW), numbers(table, name + HIGH)


def numbers(table: pa.Table, name: str) -> Floats:
    """A column as doubles."""
    return np.asarray(table.column(name).to_numpy(), np.float64)


def key_text(table: pa.Table, by: Sequence[str], row: int) -> str:
    """The key of a row in one line."""
    return " · ".join(shown(table.column(name)[row].as_py()) for name in by)


def shown(value: Any) -> str:
    """A key as text."""
    return NULL if value is None else str(value)


def labels(texts: Sequence[str], most: int) -> list[str]:
    """A short text for each row, no two of them alike."""
    return told_apart([str(row) for row in range(len(texts))], [printable(text) for text in texts], [most] * len(texts))
