"""Pictures beside the one of the key: who could be seen, all counts at a glance, counts over the rounds of a stream."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from dphist.show import svg
from dphist.show.svg import Floats
from dphist.words import enough

_HEIGHT, _BASE, _TOP = 284, 250, 22
COLOURS = 6
"""So many lines can be told apart."""


def grid(high: float, points: int) -> Floats:
    """Counts from 0 to where an axis that has to show `high` ends."""
    return np.linspace(0, svg.nice_ticks(0, high, 5)[-1], points)


def curve(x: Floats, y: Floats, points: Sequence[tuple[float, float]], title: str) -> str:
    """A probability as a function of a count, with some points marked."""
    across, up = svg.Scale(0.0, float(x[-1]), 3.0, 97.0), svg.Scale(0, 100, _BASE, _TOP, most=4)
    parts = svg.levels(up, "{} %")
    parts.append(svg.path([(across(a), up(100 * b)) for a, b in zip(x, y, strict=True)], "curve", _HEIGHT))
    for a, b in points:
        parts.append(svg.dot((across(a), up(100 * b)), "mark", 5))
        anchor, step = ("end", -1.8) if across(a) > 75 else ("start", 1.8)
        parts.append(
            svg.words((across(a) + step, up(100 * b) + 18), f"{100 * b:.0f} % at {enough(a)}", "ink halo", anchor)
        )
    parts += svg.marks([(across(tick), svg.short(tick)) for tick in across.ticks], _BASE + 8)
    words = "; ".join(f"{100 * b:.0f} % at {enough(a)}" for a, b in points)
    return svg.picture("curve", _HEIGHT, title, f"It grows with the number of units: {words}.", parts)


def histogram(values: Floats) -> str:
    """How many values fall into each of some geometric bins."""
    low = max(float(values.min()), 1.0)
    high = max(float(values.max()), low * 1.01)
    edges = np.geomspace(low, high * 1.0001, min(24, 4 + len(values) // 4) + 1)
    counts, _ = np.histogram(np.maximum(values, low), edges)
    up, span = svg.Scale(0.0, float(counts.max()), _BASE, _TOP), 94 / math.log(edges[-1] / edges[0])
    places = [3 + math.log(edge / edges[0]) * span for edge in edges]
    parts = svg.levels(up)
    for count, left, right in zip(counts, places[:-1], places[1:], strict=True):
        parts.append(svg.box(left + 0.15, up(float(count)), right - 0.15, _BASE, "bar"))
    ticks = svg.log_ticks(edges[0], edges[-1]) or [float(edges[0])]
    ticks = ticks[:: math.ceil(len(ticks) / 5)]
    parts += svg.marks([(3 + math.log(value / edges[0]) * span, svg.short(value)) for value in ticks], _BASE + 8)
    words = (
        f"{len(values):,} groups with counts from {svg.short(float(values.min()))} to {svg.short(float(values.max()))}."
    )
    return svg.picture("distribution", _HEIGHT, "How many groups have which count", words, parts)


@dataclass(frozen=True, slots=True, eq=False)
class Line:
    """One line: values (NaN where there is none) and how far the noise reaches about them."""

    label: str
    values: Floats
    reaches: Floats


def lines(x: Floats, drawn: Sequence[Line], level: float, x_name: str) -> str:
    """Lines with bands over x, and one level that all of them must exceed."""
    top = max([level, *(float(np.nanmax(line.values + line.reaches)) for line in drawn)])
    span = max(float(x[-1] - x[0]), 1.0)
    across, up = svg.Scale(0, 1, 3.0, 97.0, most=1), svg.Scale(0.0, top, _BASE, _TOP)
    at = [across(float(value - x[0]) / span) for value in x]
    parts = [*svg.levels(up), svg.line((0, up(level)), (100, up(level)), "axis")]
    for number, line in enumerate(drawn[:COLOURS], 1):
        for piece in _pieces(line.values):
            above = [(at[i], up(float(line.values[i] + line.reaches[i]))) for i in piece]
            below = [(at[i], up(float(line.values[i] - line.reaches[i]))) for i in reversed(piece)]
            parts.append(svg.band(above + below, f"band c{number}", _HEIGHT))
            points = [(at[i], up(float(line.values[i]))) for i in piece]
            parts.append(svg.path(points, f"curve c{number}", _HEIGHT))
            if len(piece) == 1:
                parts.append(svg.dot(points[0], f"point c{number}", 3))
    places = sorted({round(float(value)) for value in np.linspace(x[0], x[-1], min(5, len(x)))})
    parts += svg.marks([(across((place - float(x[0])) / span), f"{place:,}") for place in places], _BASE + 8)
    words = f"Lines of {len(drawn)} groups from {x_name} {x[0]:g} to {x[-1]:g}."
    return svg.picture("rounds", _HEIGHT, f"Counts over each {x_name}", words, parts)


def _pieces(values: Floats) -> Iterator[list[int]]:
    """The runs of values that are there."""
    for missing, run in itertools.groupby(range(len(values)), lambda i: bool(np.isnan(values[i]))):
        if not missing:
            yield list(run)


def share_bar(share: float) -> str:
    """A part of a whole as one bar."""
    parts = [svg.box(0, 0, 100, 14, "rest"), svg.box(0, 0, 100 * share, 14, "bar")]
    title = f"About {100 * share:.0f} % of all units are in a group that is shown"
    return svg.picture("share", 14, title, f"A bar, filled to {100 * share:.0f} %.", parts)
