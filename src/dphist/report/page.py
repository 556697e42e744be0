"""What all reports share: one HTML document in one look, nothing loaded from anywhere."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from dphist.planning.describe import with_error
from dphist.planning.plan import STD_ERROR
from dphist.report import svg

_BARS = 30
_ROWS = 100

_STYLE = """
:root { color-scheme: light; --ink: #1f2933; --soft: #616e7c; --line: #e4e7eb; --blue: #0072b2; --paper: #fff; }
* { box-sizing: border-box; }
body { margin: 0; background: #f5f7fa; color: var(--ink); font: 16px/1.55 system-ui, "Segoe UI", "DejaVu Sans", sans-serif; }
main { max-width: 60rem; margin: 2rem auto; padding: 2.5rem; background: var(--paper); border-radius: .5rem;
       box-shadow: 0 1px 4px rgb(0 0 0 / .08); }
h1 { margin: 0 0 .25rem; font-size: 1.7rem; } h2 { margin: 2.5rem 0 .75rem; font-size: 1.2rem; }
.lead { color: var(--soft); margin: 0 0 1.5rem; }
.guarantee { border-left: 4px solid var(--blue); background: #eef6fb; padding: 1rem 1.25rem; border-radius: 0 .4rem .4rem 0; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .4rem 1.25rem; margin: 0; }
dt { color: var(--soft); } dd { margin: 0; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-size: .92rem; font-variant-numeric: tabular-nums; }
th, td { padding: .35rem .6rem; border-bottom: 1px solid var(--line); text-align: right; vertical-align: top; }
th { color: var(--soft); font-weight: 600; } td.key, th.key { text-align: left; overflow-wrap: anywhere; }
tr.chosen td { font-weight: 600; } .se { color: var(--soft); font-weight: 400; }
figure { margin: 1rem 0; } figcaption { color: var(--soft); font-size: .92rem; }
svg { width: 100%; height: auto; } code { font-size: .9em; overflow-wrap: anywhere; }
footer { margin-top: 3rem; color: var(--soft); font-size: .85rem; }
@media (max-width: 40rem) { main { margin: 0; padding: 1.25rem; border-radius: 0; } dl { grid-template-columns: 1fr; } }
"""


def document(title: str, parts: Iterable[str]) -> str:
    """The whole file; empty parts are left out."""
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{text(title)}</title><style>{_STYLE}</style></head>"
        f"<body><main>{''.join(part for part in parts if part)}</main></body></html>\n"
    )


def guarantee(metadata: dict[str, Any]) -> str:
    """What is promised, in a box of its own."""
    words = text(capital(metadata["guarantee"]))
    return f'<p class="guarantee"><strong>Guarantee.</strong> {words}</p>{_ledger(metadata.get("ledger"))}'


def _ledger(receipt: dict[str, Any] | None) -> str:
    """Which entry of a ledger paid for it."""
    if receipt is None:
        return "<p>Not recorded in a ledger.</p>"
    return (
        f"<p>Charged to the data set {text(receipt['dataset'])} of a ledger before noise was drawn,"
        f" entry {receipt['entry']:,}: <code>{text(receipt['hash'])}</code></p>"
    )


def footer(metadata: dict[str, Any]) -> str:
    """Which version made it, and when."""
    return f"<footer>dphist {text(metadata['dphist'])}, {text(metadata['created'])}</footer>"


def section(heading: str, content: str) -> str:
    """A heading with its content, or nothing."""
    return f"<section><h2>{text(heading)}</h2>{content}</section>" if content else ""


def described(facts: Iterable[tuple[str, str]]) -> str:
    """Names with their sentences."""
    return "<dl>" + "".join(f"<dt>{text(name)}</dt><dd>{text(words)}</dd>" for name, words in facts) + "</dl>"


def figure(picture: str, caption: str) -> str:
    """A picture with what it shows."""
    return f"<figure>{picture}<figcaption>{text(caption)}</figcaption></figure>"


def bars(table: pa.Table, by: Sequence[str]) -> str:
    """The largest counts as bars."""
    if table.num_rows == 0:
        return "<p>No group was released: none had a noisy count above the threshold.</p>"
    counts = numbers(table, "count")
    top = np.argsort(-counts, kind="stable")[:_BARS]
    labels = [label(table, by, int(i)) for i in top]
    picture = svg.bars(labels, counts[top], 1.96 * numbers(table, "count" + STD_ERROR)[top])
    return figure(picture, "Noisy counts; whiskers are ±1.96 standard errors of the noise.")


def rows(table: pa.Table, keys: Sequence[str], values: Sequence[str]) -> str:
    """The first rows: keys as they are, values with their standard errors."""
    head = "".join(f'<th class="key">{text(name)}</th>' for name in keys) + "".join(
        f"<th>{text(name)}</th>" for name in values
    )
    lines = []
    for row in table.slice(0, _ROWS).to_pylist():
        named = "".join(f'<td class="key">{text(shown(row[name]))}</td>' for name in keys)
        lines.append(f"<tr>{named}{''.join(_value(row[name], row[name + STD_ERROR]) for name in values)}</tr>")
    more = f"<p>The first {_ROWS} of {table.num_rows:,} rows.</p>" if table.num_rows > _ROWS else ""
    return f'<div class="scroll"><table><tr>{head}</tr>{"".join(lines)}</table></div>{more}'


def _value(value: float, error: float) -> str:
    said, _, reach = with_error(value, error).partition(" ")
    return f'<td>{said} <span class="se">{reach}</span></td>'


def cells(values: Iterable[str]) -> str:
    """Cells of a row."""
    return "".join(f"<td>{text(value)}</td>" for value in values)


def label(table: pa.Table, by: Sequence[str], row: int) -> str:
    """The key of a row in one line."""
    return " · ".join(shown(table.column(name)[row].as_py()) for name in by)


def shown(value: object) -> str:
    """A part of a key as text."""
    return "(null)" if value is None else str(value)


def numbers(table: pa.Table, name: str) -> np.ndarray[Any, np.dtype[np.float64]]:
    """A column as doubles."""
    return np.asarray(table.column(name).to_numpy(), np.float64)


def capital(words: str) -> str:
    """The words as a sentence begins."""
    return words[:1].upper() + words[1:]


def text(value: str) -> str:
    """A text that is safe inside HTML."""
    return html.escape(value)
