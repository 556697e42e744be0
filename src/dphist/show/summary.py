"""A report for those without a browser: as plain text and as Markdown, with the same words and the first rows."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable
from typing import Final

from dphist.show.content import Content
from dphist.show.table import NULL, Table
from dphist.words import cut, printable

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
    lines += [*_wrapped(f"Guarantee: {content.guarantee}"), "", *_text_table(content.table), "", *_below(content), ""]
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
    """What is said of a table below it, if there is one."""
    total = content.table.total
    more = [f"The first {FIRST_ROWS} of {total:,} rows; the table file has all of them."] if total > FIRST_ROWS else []
    return [*more, content.table_note] if total else []


def _head(table: Table) -> Iterable[list[str]]:
    """The names, then the first rows; long keys without their middle."""
    yield [cut(name, _LONGEST_KEY) for name in table.names]
    for row in table.rows[:FIRST_ROWS]:
        yield [cut(NULL if cell is None else cell, _LONGEST_KEY) for cell in row]


def _text_table(table: Table) -> list[str]:
    rows = list(_head(table))
    widths = [max(len(row[i]) for row in rows) for i in range(len(table.columns))]
    left = [column.kind == "key" for column in table.columns]
    lines = []
    for row in rows:
        padded = (
            cell.ljust(width) if to_left else cell.rjust(width)
            for cell, width, to_left in zip(row, widths, left, strict=True)
        )
        lines.append(f"  {'  '.join(padded)}".rstrip())
    return [lines[0], "  " + "  ".join("-" * width for width in widths), *lines[1:]] if lines[1:] else []


def _markdown_table(table: Table) -> list[str]:
    head, *rows = (f"| {' | '.join(map(_plain, row))} |" for row in _head(table))
    rule = "|" + "".join(" --- |" if column.kind == "key" else " ---: |" for column in table.columns)
    return [head, rule, *rows] if rows else []


def _wrapped(words: str) -> list[str]:
    return textwrap.wrap(printable(words), _WIDTH, break_long_words=False, break_on_hyphens=False)


def _plain(words: str) -> str:
    """A text in which Markdown finds no marks, tags or addresses."""
    escaped = _MARKS.sub(r"\\\1", printable(words)).replace("://", ":\\//").replace("www.", "www\\.")
    return _LINE_MARKS.sub(lambda mark: f"\\{mark[1]}" if not mark[1].isdigit() else f"{mark[1]}\u200b", escaped)
