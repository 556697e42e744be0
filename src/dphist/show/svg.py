"""The strokes of pictures: SVG as text, as wide as its page and never scaled, so that words stay legible on a phone.

Places across are per cent of the width, places down are pixels. A line through points goes into a frame that is stretched
to the width. Colours are classes of report.css, one set for light and one for dark. No dependency, no script.
"""

from __future__ import annotations

import html
import math
from collections.abc import Iterable, Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from dphist.words import printable

Floats: TypeAlias = NDArray[np.float64]
Point: TypeAlias = tuple[float, float]
"""Across in per cent, down in pixels."""


def picture(name: str, height: float, title: str, description: str, parts: Iterable[str]) -> str:
    """A picture, with a title and a description for screen readers. `name` is unique on the page."""
    return (
        f'<svg role="img" width="100%" height="{height:.0f}" aria-labelledby="{name}-title {name}-words">'
        f'<title id="{name}-title">{escape(title)}</title><desc id="{name}-words">{escape(description)}</desc>'
        f"{''.join(parts)}</svg>"
    )


def group(title: str, parts: Iterable[str]) -> str:
    """Parts of a picture with a text that appears under the pointer."""
    return f"<g><title>{escape(title)}</title>{''.join(parts)}</g>"


def line(start: Point, end: Point, kind: str) -> str:
    """A straight line."""
    return f'<line class="{kind}" x1="{start[0]:.2f}%" y1="{start[1]:.1f}" x2="{end[0]:.2f}%" y2="{end[1]:.1f}"/>'


def box(left: float, top: float, right: float, bottom: float, kind: str) -> str:
    """A rectangle. A browser does not draw it without width."""
    return (
        f'<rect class="{kind}" x="{left:.2f}%" y="{top:.1f}" width="{max(right - left, 0):.2f}%"'
        f' height="{max(bottom - top, 0):.1f}"/>'
    )


def dot(at: Point, kind: str, radius: float = 3.5) -> str:
    """A point."""
    return f'<circle class="{kind}" cx="{at[0]:.2f}%" cy="{at[1]:.1f}" r="{radius:g}"/>'


def words(at: Point, text: str, kind: str = "soft", anchor: str = "start") -> str:
    """A text in one line."""
    return f'<text class="{kind}" x="{at[0]:.2f}%" y="{at[1]:.1f}" text-anchor="{anchor}">{escape(text)}</text>'


def whisker(left: Point, right: Point) -> str:
    """A line across with an end at both sides: how far the noise reaches."""
    ends = [line((x, y - 4), (x, y + 4), "whisker") for x, y in (left, right)]
    return line(left, right, "whisker") + "".join(ends)


def path(points: Sequence[Point], kind: str, height: float) -> str:
    """A line through points."""
    return _stretched(f'<polyline class="{kind}" points="{_places(points)}"/>', height)


def band(points: Sequence[Point], kind: str, height: float) -> str:
    """The area within points."""
    return _stretched(f'<polygon class="{kind}" points="{_places(points)}"/>', height)


def _stretched(shape: str, height: float) -> str:
    return f'<svg width="100%" height="{height:.0f}" viewBox="0 0 100 {height:.0f}" preserveAspectRatio="none">{shape}</svg>'


def _places(points: Sequence[Point]) -> str:
    return " ".join(f"{x:.2f},{y:.1f}" for x, y in points)


class Scale:
    """Places for values, from a round number below all of them to a round number above."""

    __slots__ = ("_end", "_start", "high", "low", "ticks")

    def __init__(self, low: float, high: float, start: float, end: float, *, most: int = 5) -> None:
        self.ticks = nice_ticks(low, high, most)
        self.low, self.high = self.ticks[0], self.ticks[-1]
        self._start, self._end = start, end

    def __call__(self, value: float) -> float:
        """The place of a value; an end of the scale if the value is beyond it."""
        share = (value - self.low) / (self.high - self.low)
        return self._start + min(max(share, 0.0), 1.0) * (self._end - self._start)


def levels(scale: Scale, name: str = "{}") -> list[str]:
    """Lines across the picture at the ticks of a scale, each with its number above its left end."""
    return [
        line((0, scale(tick)), (100, scale(tick)), "grid")
        + words((0, scale(tick) - 4), name.format(short(tick)), "soft halo")
        for tick in scale.ticks
    ]


def marks(places: Iterable[tuple[float, str]], base: float) -> list[str]:
    """Words below the picture; the first and the last stay within it."""

    def anchor(x: float, text: str) -> str:
        inside = 12 < x < 88 or (2 < x < 98 and len(text) < 3)
        return "middle" if inside else "start" if x < 50 else "end"

    return [
        line((x, base), (x, base + 5), "axis") + words((x, base + 19), text, "soft", anchor(x, text))
        for x, text in places
    ]


def nice_ticks(low: float, high: float, most: int = 6) -> list[float]:
    """Round numbers from at most low to at least high: two of them or more."""
    span = max(high - low, 1e-12, abs(low) * 1e-9)
    power = 10.0 ** math.floor(math.log10(span / most))
    step = next(power * factor for factor in (1, 2, 5, 10) if span / (power * factor) <= most)
    first, last = math.floor(low / step), math.ceil(high / step)
    return [step * i for i in range(first, max(last, first + 1) + 1)]


def log_ticks(low: float, high: float) -> list[float]:
    """Powers of ten from low to high; if they are few, also 2 and 5 times each power."""
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    factors = (1, 2, 5) if high / low < 100 else (1,)
    return [10.0**p * f for p in powers for f in factors if low <= 10.0**p * f <= high]


def short(value: float) -> str:
    """A number for an axis."""
    if abs(value) >= 1e6:
        size, letter = next((s, name) for s, name in ((1e12, "T"), (1e9, "G"), (1e6, "M")) if abs(value) >= s)
        return f"{value / size:,.4g}{letter}"
    return f"{value:,.0f}" if abs(value) >= 10 or value == int(value) else f"{value:.2g}"


def escape(text: str) -> str:
    """A text that somebody else typed, in HTML or SVG."""
    return html.escape(printable(text))
