"""Texts that a spreadsheet would run as formulas, written so that it does not and that every reader can undo it.

A cell of a CSV file that begins with = + - @, a tab or the end of a line is a formula to many programs, also in quotes, in full
width, or behind what some of them drop before they look: blanks of any width, control characters, and marks that are not seen,
such as those of direction. An apostrophe before it makes it a text; what is in the cell stays as it is. Texts that have
apostrophes or quotes before such a letter get one too, or two texts would become one: what is written begins with an apostrophe
and has the form `RISKY` if and only if one was added, so `restored` knows. Numbers are not texts and stay as they are.
"""

from __future__ import annotations

import re
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

MARK: Final = "'"
UNSEEN: Final = (
    "\0-\x20\x7f-\xa0\xad\u061c\u1680\u180e\u2000-\u200f\u2028-\u202f\u205f-\u206f\u3000\ufeff\ufff9-\ufffb"
    "\U000e0000-\U000e007f"
)
"""Blanks, control characters and marks that are not seen: as signs, since no two dialects of patterns spell them alike."""

RISKY: Final = rf"""\A['"{UNSEEN}]*[=+@\t\r\n＝＋－＠-]"""
_RISKY: Final = re.compile(RISKY)

ESCAPED: Final = "escaped_csv"
"""The name under which metadata says that the texts of a CSV file are to be restored."""


def escaped(text: str) -> str:
    """The text as it is written."""
    return MARK + text if _RISKY.match(text) else text


def restored(text: str) -> str:
    """The text that was written so."""
    return text.removeprefix(MARK) if _RISKY.match(text) else text


def escaped_table(table: pa.Table) -> pa.Table:
    """A table with its texts, and the names of its columns, as they are written."""
    columns = [_changed(_plain(column), escape=True) for column in table.columns]
    return pa.table(columns, [escaped(name) for name in table.column_names])


def restored_table(table: pa.Table) -> pa.Table:
    """The table that was written so."""
    columns = [_changed(column, escape=False) for column in table.columns]
    return pa.table(columns, [restored(name) for name in table.column_names])


def _plain(column: pa.ChunkedArray) -> pa.ChunkedArray:
    return column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column


def _changed(column: pa.ChunkedArray, *, escape: bool) -> pa.ChunkedArray:
    if not (pa.types.is_string(column.type) or pa.types.is_large_string(column.type)):
        return column
    risky = pc.match_substring_regex(column, RISKY)
    if escape:
        mark, nothing = (pa.scalar(text, column.type) for text in (MARK, ""))
        return pc.if_else(risky, pc.binary_join_element_wise(mark, column, nothing), column)
    return pc.if_else(risky, pc.replace_substring_regex(column, r"\A'", ""), column)
