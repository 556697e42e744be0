"""A report as one HTML file with its style and its script. It loads nothing; its content security policy enforces that.

Keys may be any text. They stay text: HTML, SVG and the JSON for the script escape them, and the script puts them into the page
as text. The policy allows this script and this style and nothing else.

A page carries the metadata of its table, sealed with the rest of the page: `dphist verify` reads it. The numbers in a page are
rounded and may be the first of many, so `verify` does not compare them with the plan: a digest covers them as they are.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
from collections.abc import Iterable, Sequence
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, Final

from dphist.files.digests import FILE, seal
from dphist.show.charts import Chart, share_bar
from dphist.show.report import Appendix, Content, capital
from dphist.show.table import Table
from dphist.words import printable

FIRST_ROWS: Final = 25
"""The rows that the page itself shows; its script shows the others."""

PAGES: Final = (".html", ".htm")
"""How names of pages end."""

_BEGIN: Final = '<script type="application/json" id="metadata">'
_CLOSE: Final = "</script>"
_END: Final = "</body></html>\n"

_DANGEROUS: Final = str.maketrans({letter: f"\\u{ord(letter):04x}" for letter in "<>&'"})


def render(content: Content) -> str:
    """The report of a published table."""
    headline = "".join(f"<div>{_pair(*fact)}</div>" for fact in content.headline)
    charts = [_section(chart.heading, _figure(chart)) for chart in content.charts() if chart is not None]
    bar = "" if content.share is None else share_bar(content.share)
    curve = content.curve()
    appendix = "".join(f"<h3>{_text(part.heading)}</h3>{_of_appendix(part)}" for part in content.appendix())
    parts = [
        f'<header><h1>{_text(content.title)}</h1><dl class="headline">{headline}</dl><p class="guarantee"><strong>Guarantee.'
        f'</strong> {_text(content.guarantee)} <a href="#guarantee">What this means</a></p></header>',
        *charts,
        _section("The table", _table(content.table, content.title, content.table_note)),
        _section(
            "Which groups could be seen", bar + _paragraphs(content.seen) + ("" if curve is None else _figure(curve))
        ),
        _section("How to read this", _paragraphs(content.reading)),
        _section("What the guarantee means", _paragraphs(content.explanation), "guarantee"),
        _section("How to cite this", f'<p class="citation">{_text(content.citation)}</p>'),
        f"<details><summary>Technical appendix</summary>{appendix}</details>",
        f"<footer>{_text(content.maker)}</footer>",
    ]
    return document(content.title, parts, script=True)


def document(title: str, parts: Iterable[str], *, script: bool = False) -> str:
    """A page in the look of all reports, without the parts that are empty."""
    style, code = _asset("report.css"), _asset("report.js") if script else ""
    allowed = f"default-src 'none'; style-src {_digest(style)}" + (f"; script-src {_digest(code)}" if code else "")
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{allowed}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1"><meta name="color-scheme" content="light dark">'
        f"<title>{_text(title)}</title><style>{style}</style></head>"
        f"<body><main>{''.join(part for part in parts if part)}</main>"
        f"{f'<script>{code}</script>' if code else ''}</body></html>\n"
    )


@cache
def _asset(name: str) -> str:
    return "\n" + files("dphist.show").joinpath(name).read_text(encoding="utf-8")


def _digest(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _text(text: str) -> str:
    """A text that somebody else typed, as the browser shows it."""
    return html.escape(printable(text, lines=True))


def _section(heading: str, content: str, name: str = "") -> str:
    """A heading with its content, or nothing."""
    anchor = f' id="{name}" tabindex="-1"' if name else ""
    return f"<section{anchor}><h2>{_text(heading)}</h2>{content}</section>" if content else ""


def _paragraphs(words: Iterable[str]) -> str:
    return "".join(f"<p>{_text(paragraph)}</p>" for paragraph in words)


def _pair(label: str, words: str) -> str:
    return f"<dt>{_text(label)}</dt><dd>{_text(words)}</dd>"


def _figure(chart: Chart) -> str:
    legend = "".join(f'<li class="c{number}">{_text(label)}</li>' for number, label in enumerate(chart.legend, 1))
    listed = f'<ul class="legend">{legend}</ul>' if legend else ""
    return f"<figure>{chart.picture}{listed}<figcaption>{_text(chart.caption)}</figcaption></figure>"


_KINDS: Final[dict[str, str]] = {"number": "value", "number key": "number"}
"""Classes of columns in the style sheet and the script. Other columns are text."""


def _table(table: Table, title: str, note: str) -> str:
    """The first rows, the controls that the script shows, and all rows as data for the script."""
    if not (rows := table.rows):
        return ""
    kinds = [_KINDS.get(column.kind, "text") for column in table.columns]
    head = "".join(
        f'<th scope="col" class="{kind}">{_text(name)}</th>' for name, kind in zip(table.names, kinds, strict=True)
    )
    body = "".join("<tr>" + "".join(map(_cell, row, kinds)) + "</tr>" for row in rows[:FIRST_ROWS])
    held, data = len(rows), {"kinds": kinds, "rows": rows}
    whole = "" if held == table.total else (
        f"<p>This page holds the first {held:,} of {table.total:,} rows; the table file has all of them.</p>"
    )  # fmt: skip
    first = "" if held <= FIRST_ROWS else (
        f'<noscript><p>The first {FIRST_ROWS} of {held:,} rows. Search and paging need JavaScript.</p></noscript>'
    )  # fmt: skip
    return (
        f"{_controls([name for name, kind in zip(table.names, kinds, strict=True) if kind != 'value'])}"
        f'<div class="scroll" tabindex="0" role="region" aria-label="{_text(title)}: the table">'
        f'<table id="table"><caption>{_text(title)}. {_text(note)}</caption>'
        f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
        f'{_PAGES}{first}{whole}<script type="application/json" id="rows">{as_json(data)}</script>'
    )


def _cell(text: str | None, kind: str) -> str:
    if kind == "value":
        value, sign, error = _text(text or "").partition(" ± ")
        return f'<td class="value">{value}{f" <span>± {error}</span>" if sign else ""}</td>'
    words = "<i>(null)</i>" if text is None else _text(text)
    return f'<td class="{kind}"><div>{words}</div></td>'


def _controls(keys: Sequence[str]) -> str:
    """Search and the number of rows on a page. The script shows them."""
    sizes = "".join(
        f"<option{' selected' if size == FIRST_ROWS else ''}>{size}</option>" for size in (25, 50, 100, 500)
    )
    return (
        f'<div class="controls" hidden><label>Search {_text(", ".join(keys))} <input type="search" id="search"'
        ' autocomplete="off" spellcheck="false"></label>'
        f'<label>Rows on a page <select id="size">{sizes}</select></label></div>'
    )


_BUTTONS: Final = "".join(
    f'<button type="button" id="{words.lower()}">{words}</button>' for words in ("First", "Back", "Next", "Last")
)
_PAGES: Final = (
    f'<nav class="pages" aria-label="Pages of the table" hidden>{_BUTTONS}</nav>'
    '<p id="status" role="status" aria-live="polite"></p>'
)


def as_json(data: object) -> str:
    """Data in a page for its script or another program: ASCII in which nothing ends or opens a tag."""
    text = json.dumps(data, ensure_ascii=True, separators=(",", ":"), allow_nan=False)
    return text.translate(_DANGEROUS)


def _of_appendix(part: Appendix) -> str:
    labelled = [(label, words if label == "mechanism" else capital(words)) for label, words in part.facts]
    if len(labelled) == 1:
        return f"<p>{_text(labelled[0][1])}</p>"
    described = f"<dl>{''.join(_pair(*fact) for fact in labelled)}</dl>" if labelled else ""
    table = plain_table(part.rows[0], part.rows[1:], part.heading) if part.rows else ""
    return described + table + ("" if part.picture is None else _figure(part.picture))


def plain_table(head: Sequence[str], rows: Iterable[Sequence[str]], name: str) -> str:
    """A table of texts. The first cell of a row is its name."""
    titles = "".join(f'<th scope="col">{_text(title)}</th>' for title in head)
    lines = "".join(
        f'<tr><th scope="row">{_text(row[0])}</th>' + "".join(f"<td>{_text(cell)}</td>" for cell in row[1:]) + "</tr>"
        for row in rows
    )
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-label="{_text(name)}"><table class="plain">'
        f"<thead><tr>{titles}</tr></thead><tbody>{lines}</tbody></table></div>"
    )


def with_metadata(page: str, metadata: dict[str, Any]) -> str:
    """A page with the metadata as its last part. They have a digest of everything before."""
    digest = hashlib.sha256(page.encode()).hexdigest()
    record = seal({**metadata, FILE: {"sha256": digest}})
    return f"{page.removesuffix(_END)}{_BEGIN}{as_json(record)}{_CLOSE}{_END}"


def metadata_in(page: bytes) -> bytes | None:
    """The bytes in the place of a page's metadata; None if the page has no such place."""
    _, begin, after = page.rpartition(_BEGIN.encode())
    return after.partition(_CLOSE.encode())[0] if begin else None


def is_as_written(path: Path, metadata: dict[str, Any]) -> bool:
    """Whether the digest in the metadata is that of the rest of the page."""
    page = path.read_bytes()
    before = page.rpartition(_BEGIN.encode())[0] + _END.encode()
    return with_metadata(before.decode("utf-8", "replace"), metadata).encode() == page
