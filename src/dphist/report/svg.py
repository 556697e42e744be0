"""Small pictures as SVG text: bars with whiskers, a histogram, a curve, lines with bands. No dependency, no script."""

from __future__ import annotations

import html
import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dphist.words import printable

Floats = NDArray[np.float64]

_WIDTH = 860
_INK, _SOFT, _LINE, _BLUE, _ORANGE = "#1f2933", "#616e7c", "#e4e7eb", "#0072b2", "#d55e00"
_LABEL = 290
_ROW = 24


def bars(labels: Sequence[str], values: Floats, reaches: Floats) -> str:
    """Horizontal bars with whiskers, one row each."""
    top = float((values + reaches).max(initial=1.0))
    ticks = nice_ticks(0.0, top)
    margin = min(_LABEL, 30 + 8 * max(len(_cut(label)) for label in labels))
    scale = (_WIDTH - margin - 90) / max(ticks[-1], top)
    height = _ROW * len(labels) + 34
    parts = [_open(height)]
    for tick in ticks:
        x = margin + tick * scale
        parts.append(_line(x, 4, x, height - 28, _LINE))
        parts.append(_words(x, height - 10, _short(tick), "middle"))
    for row, (label, value, reach) in enumerate(zip(labels, values, reaches, strict=True)):
        y = row * _ROW + 6
        end = max(float(value), 0.0)
        parts.append(_words(margin - 8, y + 13, _cut(label), "end", _INK))
        parts.append(f'<rect x="{margin}" y="{y}" width="{end * scale:.1f}" height="16" rx="2" fill="{_BLUE}"/>')
        left, right = margin + max(value - reach, 0) * scale, margin + max(value + reach, 0) * scale
        parts.append(_line(left, y + 8, right, y + 8, _ORANGE, 1.6))
        parts += [_line(x, y + 4, x, y + 12, _ORANGE, 1.6) for x in (left, right)]
        parts.append(_words(right + 6, y + 13, _short(float(value))))
    return "".join([*parts, "</svg>"])


def histogram(values: Floats) -> str:
    """How many values fall into each of some geometric bins."""
    low = max(float(values.min()), 1.0)
    high = max(float(values.max()), low * 1.01)
    edges = np.geomspace(low, high * 1.0001, min(24, 4 + len(values) // 4) + 1)
    counts, _ = np.histogram(np.maximum(values, low), edges)
    left, base, height = 60, 220, 260
    ticks = nice_ticks(0.0, float(counts.max()))
    scale = (base - 14) / max(ticks[-1], counts.max())
    span = (_WIDTH - left - 20) / math.log(edges[-1] / edges[0])
    parts = [_open(height)]
    parts += _levels(left, _WIDTH - 20, [(base - tick * scale, _short(tick)) for tick in ticks])
    for count, begin, end in zip(counts, edges[:-1], edges[1:], strict=True):
        x, width = left + math.log(begin / edges[0]) * span, math.log(end / begin) * span
        tall = count * scale
        parts.append(
            f'<rect x="{x + 1:.1f}" y="{base - tall:.1f}" width="{width - 2:.1f}" height="{tall:.1f}" fill="{_BLUE}"/>'
        )
    places = _log_ticks(edges[0], edges[-1])
    parts += _marks(base, [(left + math.log(value / edges[0]) * span, value) for value in places])
    parts.append(_words((left + _WIDTH) / 2, height - 2, "noisy count", "middle"))
    return "".join([*parts, "</svg>"])


def curve(x: Floats, y: Floats, marks: Sequence[tuple[float, float]]) -> str:
    """A probability as a function of a count, with some points marked."""
    left, base, height = 60, 220, 260
    ticks = nice_ticks(0.0, float(x[-1]))
    scale = (_WIDTH - left - 40) / float(x[-1])
    rise = base - 14
    parts = [_open(height)]
    parts += _levels(left, _WIDTH - 40, [(base - p * rise, f"{p:.0%}") for p in (0, 0.25, 0.5, 0.75, 1)])
    parts += _marks(base, [(left + tick * scale, tick) for tick in ticks if tick <= x[-1]])
    path = _points([(left + a * scale, base - b * rise) for a, b in zip(x, y, strict=True)])
    parts.append(f'<polyline points="{path}" fill="none" stroke="{_BLUE}" stroke-width="2.2"/>')
    for a, b in marks:
        px, py = left + a * scale, base - b * rise
        parts.append(f'<circle cx="{px:.1f}" cy="{py:.1f}" r="4.5" fill="{_ORANGE}"/>')
        parts.append(_words(px + 9, py + 14, f"{b:.0%} at {_short(a)}", "start", _INK))
    parts.append(_words((left + _WIDTH) / 2, height - 2, "true number of units", "middle"))
    return "".join([*parts, "</svg>"])


_COLOURS = (_BLUE, _ORANGE, "#009e73", "#cc79a7", "#e69f00", "#56b4e9")


@dataclass(frozen=True, slots=True, eq=False)
class Line:
    """One line: values (NaN where there is none) and how far the noise reaches about them."""

    label: str
    values: Floats
    reaches: Floats


def lines(x: Floats, drawn: Sequence[Line], level: float, level_name: str, x_name: str) -> str:
    """Lines with bands over x, each named at its right end, and one level that all of them must exceed."""
    left, right, base, height = 70, 670, 300, 340
    top = max([level, *(float(np.nanmax(line.values + line.reaches)) for line in drawn)])
    ticks = nice_ticks(0.0, top)
    rise, span = (base - 14) / max(ticks[-1], top), (right - left) / max(float(x[-1] - x[0]), 1.0)
    parts = [_open(height)]
    parts += _levels(left, right, [(base - tick * rise, _short(tick)) for tick in ticks])
    places = [t for t in nice_ticks(float(x[0]), float(x[-1])) if x[0] <= t <= x[-1] and t == int(t)]
    parts += _marks(base, [(left + (tick - x[0]) * span, tick) for tick in places])
    parts.append(_line(left, base - level * rise, right, base - level * rise, _SOFT))
    if level * rise > 40:  # further down the lines themselves would run through the words
        parts.append(_words(left + 4, base - level * rise - 5, level_name))
    ends = []
    for line, colour in zip(drawn, _COLOURS, strict=False):
        for piece in _pieces(line.values):
            points = [
                (left + (x[i] - x[0]) * span, base - line.values[i] * rise, line.reaches[i] * rise) for i in piece
            ]
            band = [(a, b - r) for a, b, r in points] + [(a, min(b + r, base)) for a, b, r in reversed(points)]
            parts.append(f'<polygon points="{_points(band)}" fill="{colour}" fill-opacity="0.15"/>')
            path = _points([(a, b) for a, b, _ in points])
            parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
            if len(piece) == 1:
                parts.append(f'<circle cx="{points[0][0]:.1f}" cy="{points[0][1]:.1f}" r="3" fill="{colour}"/>')
        last = [i for i in range(len(x)) if not np.isnan(line.values[i])][-1]
        ends.append((base - float(line.values[last]) * rise, line.label, colour))
    lowest = 0.0
    for y, name, colour in sorted(ends):
        lowest = max(y, lowest + 16)
        parts.append(_words(right + 8, lowest + 4, _cut(name, 24), "start", colour))
    parts.append(_words((left + right) / 2, height - 2, x_name, "middle"))
    return "".join([*parts, "</svg>"])


def _pieces(values: Floats) -> Iterator[list[int]]:
    """The runs of values that are there."""
    for missing, run in itertools.groupby(range(len(values)), lambda i: bool(np.isnan(values[i]))):
        if not missing:
            yield list(run)


def _levels(left: float, right: float, levels: Sequence[tuple[float, str]]) -> Iterator[str]:
    """Lines across the picture, named at their left end."""
    for y, name in levels:
        yield _line(left, y, right, y, _LINE) + _words(left - 8, y + 4, name, "end")


def _marks(base: float, marks: Sequence[tuple[float, float]]) -> Iterator[str]:
    """Numbers below the picture, each with its mark."""
    for x, value in marks:
        yield _line(x, base, x, base + 5, _SOFT) + _words(x, base + 20, _short(value), "middle")


def _points(pairs: Sequence[tuple[float, float]]) -> str:
    return " ".join(f"{a:.1f},{b:.1f}" for a, b in pairs)


def nice_ticks(low: float, high: float, most: int = 6) -> list[float]:
    """Round numbers from low to at least high."""
    span = max(high - low, 1e-12)
    power = 10.0 ** math.floor(math.log10(span / most))
    step = next(power * factor for factor in (1, 2, 5, 10) if span / (power * factor) <= most)
    first = math.floor(low / step)
    return [step * i for i in range(first, math.ceil(high / step) + 1)]


def _log_ticks(low: float, high: float) -> list[float]:
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    factors = (1, 2, 5) if high / low < 1000 else (1,)
    return [10.0**p * f for p in powers for f in factors if low <= 10.0**p * f <= high]


def _open(height: float) -> str:
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height:.0f}" role="img"'
        ' font-family="system-ui, DejaVu Sans, sans-serif" font-size="13">'
    )


def _line(x1: float, y1: float, x2: float, y2: float, colour: str, width: float = 1.0) -> str:
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{colour}" stroke-width="{width}"/>'


def _words(x: float, y: float, text: str, anchor: str = "start", colour: str = _SOFT) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{colour}">{html.escape(printable(text))}</text>'


def _cut(label: str, most: int = 34) -> str:
    return label if len(label) <= most else label[: most - 1] + "…"


def _short(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 10 or value == int(value) else f"{value:.2g}"
