"""What a notebook shows of an object: a small table, a small picture, the guarantee in one sentence.

Ink and background are the notebook's own (`currentColor`, nothing filled), so that it looks right in light and dark ones.
Every text is escaped: keys were typed by somebody else. No script, no style sheet, nothing is loaded.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from dphist.words import cut, number, printable

Fact = tuple[str, str]

_CARD: Final = "max-width:62em;color:inherit;line-height:1.4"
_LINE: Final = "color-mix(in srgb,currentColor 18%,transparent)"
_CELL: Final = f"border:0;border-bottom:1px solid {_LINE};padding:3px 12px 3px 0;background:none"
_SOFT: Final = "opacity:.75;font-size:.92em;margin:.5em 0 0"
_INK: Final = "var(--jp-brand-color1,#3987c9)"  # a blue that is read on white and on black
_WIDEST: Final = 48
_BAR: Final = 190


class Reach(NamedTuple):
    """A value with the ends of what is said about its error."""

    value: float
    low: float
    high: float


def card(title: str, facts: Sequence[Fact], picture: str = "") -> str:
    """An object in labelled sentences."""
    rows = "".join(
        f'<tr style="background:none"><th scope="row" style="{_CELL};text-align:left;vertical-align:top;white-space:nowrap">'
        f'{_text(label)}</th><td style="{_CELL};text-align:left">{_text(words)}</td></tr>'
        for label, words in facts
    )
    table = f'<table style="border-collapse:collapse;margin:.4em 0">{rows}</table>' if facts else ""
    return _frame(title, table + picture)


def listing(
    title: str,
    names: Sequence[str],
    rows: Sequence[Sequence[str]],
    reaches: Sequence[Reach],
    *,
    keys: int,
    notes: Sequence[str] = (),
    guarantee: str = "",
) -> str:
    """A table: the first `keys` columns to the left, values to the right, and behind each row its count as a bar."""
    heads = "".join(
        f'<th scope="col" style="{_CELL};text-align:{"left" if i < keys else "right"}">{_text(name)}</th>'
        for i, name in enumerate(names)
    )
    top = max((max(one.high, one.value) for one in reaches), default=0.0)
    lines = []
    for place, row in enumerate(rows):
        cells = "".join(
            f'<td style="{_CELL};text-align:left"{_whole(cell)}>{_text(_cut(cell))}</td>'
            if i < keys
            else f'<td style="{_CELL};text-align:right;white-space:nowrap;font-variant-numeric:tabular-nums">{_text(cell)}</td>'
            for i, cell in enumerate(row)
        )
        drawn = f'<td style="{_CELL}">{bar(reaches[place], top)}</td>' if reaches else ""
        lines.append(f'<tr style="background:none">{cells}{drawn}</tr>')
    empty = f'<th style="{_CELL}" aria-hidden="true"></th>' if reaches else ""
    table = (
        f'<table style="border-collapse:collapse;margin:.4em 0"><thead><tr style="background:none">{heads}{empty}</tr></thead>'
        f"<tbody>{''.join(lines)}</tbody></table>"
    )
    below = "".join(f'<p style="{_SOFT}">{_text(note)}</p>' for note in notes if note)
    promise = f'<p style="{_SOFT}"><b>Guarantee:</b> {_text(guarantee)}</p>' if guarantee else ""
    return _frame(title, (table if rows else "") + below + promise)


def bar(reach: Reach, top: float) -> str:
    """A bar with a whisker, on a scale that ends at `top`; what is below 0 begins there."""
    scale = (_BAR - 4) / top if top > 0 else 0.0
    value, low, high = (max(end, 0.0) * scale + 1 for end in reach)
    label = f"{number(reach.value)}, from {number(reach.low)} to {number(reach.high)}"
    return (
        f'<svg role="img" aria-label="{_text(label)}" width="{_BAR}" height="14" viewBox="0 0 {_BAR} 14"'
        f' style="display:block;overflow:visible"><rect x="1" y="2" width="{value - 1:.1f}" height="10" rx="1.5"'
        f' style="fill:{_INK};opacity:.75"/><path d="M{low:.1f} 7H{high:.1f}M{low:.1f} 4v6M{high:.1f} 4v6" fill="none"'
        ' stroke="currentColor" stroke-width="1.3"/></svg>'
    )


def share(part: float, label: str) -> str:
    """How much of something is used up, as a bar."""
    used = min(max(part, 0.0), 1.0) * 240
    return (
        f'<svg role="img" aria-label="{_text(label)}" width="244" height="14" viewBox="0 0 244 14" style="display:block">'
        f'<rect x="1" y="2" width="242" height="10" rx="3" fill="none" stroke="currentColor" opacity=".5"/>'
        f'<rect x="2" y="3" width="{used:.1f}" height="8" rx="2" style="fill:{_INK}"/></svg>'
    )


def curve(points: Sequence[tuple[float, float]], caption: str, label: str) -> str:
    """A probability that grows with the people in a group, from none to the last point."""
    last = points[-1][0] or 1.0
    path = "L".join(f"{36 + 250 * x / last:.1f} {66 - 56 * y:.1f}" for x, y in points)
    words = "".join(
        f'<text x="{x}" y="{y}" text-anchor="{side}" fill="currentColor" font-size="10" opacity=".8">{_text(text)}</text>'
        for x, y, side, text in (
            (32, 13, "end", "100 %"), (32, 69, "end", "0 %"), (36, 80, "start", "0"), (286, 80, "end", f"{last:,.0f}"),
            (161, 80, "middle", "people in a group"), (44, 18, "start", caption),
        )
    )  # fmt: skip
    return (
        f'<svg role="img" aria-label="{_text(label)}" width="300" height="84" viewBox="0 0 300 84"'
        ' style="display:block;margin:.4em 0"><path d="M36 10V66H286" fill="none" stroke="currentColor" opacity=".4"/>'
        f'<path d="M{path}" fill="none" style="stroke:{_INK}" stroke-width="2"/>{words}</svg>'
    )


def _frame(title: str, body: str) -> str:
    return f'<div style="{_CARD}"><div><b>{_text(title)}</b></div>{body}</div>'


def _cut(text: str) -> str:
    return cut(printable(text), _WIDEST)


def _whole(text: str) -> str:
    """The whole of a text that is shown in part."""
    return f' title="{_text(text)}"' if _cut(text) != printable(text) else ""


def _text(text: str) -> str:
    from html import escape  # which loads the names of all letters

    return escape(printable(text))
