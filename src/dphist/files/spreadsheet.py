"""Writes texts that a spreadsheet would run as formulas so that it does not, and so that a reader can undo it.

A cell of a CSV file that begins with = + - @, a tab or the end of a line is a formula to many programs. So are such cells in
quotes, in full width, or behind signs that some programs drop first: blanks of any width, control characters, and marks without
width. An apostrophe before the cell makes it a text. Texts with apostrophes or quotes before such a sign get another one:
otherwise two texts would become one. So a written text has the form `RISKY` behind an apostrophe if and only if the apostrophe
was added, and `restored` knows which to take away. Numbers are not texts and stay as they are.
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
"""Blanks, control characters and marks without width, as characters: every dialect of patterns spells classes differently."""

RISKY: Final = rf"""\A['"{UNSEEN}]*[=+@\t\r\n＝＋－＠-]"""
_RISKY: Final = re.compile(RISKY)

ESCAPED: Final = "escaped_csv"
"""The field of metadata that says that the texts of a CSV file have such apostrophes."""


def escaped(text: str) -> str:
    """The text, behind an apostrophe if it needs one."""
    return MARK + text if _RISKY.match(text) else text


def restored(text: str) -> str:
    """The text that `escaped` was given."""
    return text.removeprefix(MARK) if _RISKY.match(text) else text


def escaped_table(table: pa.Table) -> pa.Table:
    """The table with its texts and the names of its columns escaped."""
    columns = [_changed(_plain(column), escape=True) for column in table.columns]
    return pa.table(columns, [escaped(name) for name in table.column_names])


def restored_table(table: pa.Table) -> pa.Table:
    """The table that `escaped_table` was given."""
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
