"""The pictures of a report.

The counts have a picture that fits the key: a time line for dates, a heat map for two keys, bars otherwise. Other pictures show
which groups could be seen, how many groups have which count, and counts over the rounds of a stream. Whiskers are those of the
table: the intervals of the release where it has any, otherwise one standard error.
"""

from __future__ import annotations

import datetime as dt
import itertools
import math
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa

from dphist.mechanisms import ContinualCounts, GroupMechanism
from dphist.show import svg
from dphist.show.table import key_text, labels, numbers, reaches, whiskers_beside_table
from dphist.words import enough

MOST_BARS: Final = 20
MOST_MOMENTS: Final = 1000
_ROWS, _COLUMNS = 20, 10
_SHADES: Final = 7
_LABEL: Final = 34
_MOMENT: Final = re.compile(r"(\d{4})(?:-(\d\d)(?:-(\d\d)(?:[T ](\d\d)(?::(\d\d)(?::(\d\d))?)?)?)?)?")
_YEARS: Final = (1000, 2999)


@dataclass(frozen=True, slots=True)
class Chart:
    """A picture with its heading, its caption and the names of its lines in the order of their colours."""

    heading: str
    picture: str
    caption: str
    legend: Sequence[str] = ()


def chart(table: pa.Table, by: Sequence[str], level: float | None) -> Chart | None:
    """The picture of the counts. None if there is only one row, or no count."""
    if table.num_rows < 2 or not by or "count" not in table.column_names:
        return None
    if len(by) == 1:
        places = moments(table.column(by[0]), by[0])
        return _bars(table, by, level) if places is None else _time_line(table, by[0], level, places)
    if len(by) == 2 and all(len(table.column(name).unique()) > 1 for name in by):
        return _heat_map(table, by)
    return _bars(table, by, level)


def moments(column: pa.ChunkedArray, name: str) -> list[float | None] | None:
    """The place of each key in time, None for a missing key. If some key is no date, time or year, None for the column."""
    values = column.to_pylist()
    read = _reader(column.type, name)
    places = [None if value is None else read(value) for value in values]
    bad = any(place is None and value is not None for place, value in zip(places, values, strict=True))
    return None if bad or len({place for place in places if place is not None}) < 2 else places


def _reader(kind: pa.DataType, name: str) -> Callable[[Any], float | None]:
    if pa.types.is_date(kind) or pa.types.is_timestamp(kind):
        return _place
    if pa.types.is_integer(kind) and "year" in name.lower():
        return lambda value: float(value) if _YEARS[0] <= value <= _YEARS[1] else None
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return _read_text
    return lambda value: None


def _place(moment: dt.date) -> float:
    """A date or time in days. The time zone is the same in a whole column."""
    if not isinstance(moment, dt.datetime):
        return float(moment.toordinal())
    start = moment.replace(hour=0, minute=0, second=0, microsecond=0)
    return moment.toordinal() + (moment - start) / dt.timedelta(days=1)


def _read_text(text: str) -> float | None:
    """2024, 2024-05, 2024-05-17 or 2024-05-17 08:30 in days."""
    match = _MOMENT.fullmatch(text)
    if match is None:
        return None
    year, month, day, hour, minute, second = (None if part is None else int(part) for part in match.groups())
    try:
        clock = dt.time(hour or 0, minute or 0, second or 0)
        return _place(dt.datetime.combine(dt.date(year or 0, _or_first(month), _or_first(day)), clock))
    except ValueError:
        return None


def _or_first(part: int | None) -> int:
    return 1 if part is None else part


def _bars(table: pa.Table, by: Sequence[str], level: float | None) -> Chart:
    """The largest counts: the key and the count above each bar."""
    counts = numbers(table, "count")
    top = np.argsort(-counts, kind="stable")[:MOST_BARS]
    low, high = (side[top] for side in reaches(table, "count", level))
    full = [key_text(table, by, int(row)) for row in top]
    scale = svg.Scale(min(0.0, float(low.min())), float(high.max()), 0.0, 100.0, most=4)
    row_height, base = 40, 40 * len(top) + 4
    parts = [svg.line((scale(tick), 0), (scale(tick), base), "grid") for tick in scale.ticks]
    for row, (label, whole) in enumerate(zip(labels(full, _LABEL), full, strict=True)):
        y, value = row * row_height, float(counts[top[row]])
        drawn = [
            svg.words((0, y + 15), label, "ink halo"),
            svg.words((100, y + 15), svg.short(value), "ink halo number", "end"),
            svg.box(scale(min(value, 0.0)), y + 21, scale(max(value, 0.0)), y + 35, "bar"),
            svg.whisker((scale(float(low[row])), y + 28), (scale(float(high[row])), y + 28)),
        ]
        parts.append(svg.group(f"{whole}: {svg.short(value)}", drawn))
    parts += svg.marks([(scale(tick), svg.short(tick)) for tick in scale.ticks], base)
    names = ", ".join(by)
    few = f"the {len(top)} largest of {table.num_rows:,} groups" if len(top) < table.num_rows else "all groups"
    words = f"Bars of {few} of {names}, from {full[0]} with {svg.short(float(counts[top[0]]))} units downwards."
    picture = svg.picture("chart", base + 26, f"Counts by {names}", words, parts)
    shown = f"{few[0].upper()}{few[1:]}"
    return Chart(
        "The largest groups" if len(top) < table.num_rows else "All groups",
        picture,
        f"{shown}. {whiskers_beside_table(level)}",
    )


def _time_line(table: pa.Table, name: str, level: float | None, places: list[float | None]) -> Chart:
    """Counts in the order of time; the line breaks where groups between two others are missing."""
    placed = sorted((place, row) for row, place in enumerate(places) if place is not None)
    order = [row for _, row in placed[-MOST_MOMENTS:]]
    at = np.array([place for place, _ in placed[-MOST_MOMENTS:]])
    counts, (low, high) = numbers(table, "count")[order], (side[order] for side in reaches(table, "count", level))
    texts = [_moment_text(table.column(name)[row].as_py()) for row in order]
    x = 3.0 + 94.0 * (at - at[0]) / max(float(at[-1] - at[0]), 1e-9)
    up = svg.Scale(min(0.0, float(low.min())), float(high.max()), 250.0, 22.0)
    points = [(float(a), up(float(count))) for a, count in zip(x, counts, strict=True)]
    size = 2.5 if len(order) > 60 else 3.5
    parts = svg.levels(up)
    for a, down, top in zip(x, low, high, strict=True):
        parts.append(svg.line((a, up(float(down))), (a, up(float(top))), "whisker"))
    parts += [svg.path([points[i] for i in piece], "curve", 280) for piece in _unbroken(at) if len(piece) > 1]
    for point, text, count in zip(points, texts, counts, strict=True):
        parts.append(svg.group(f"{text}: {svg.short(float(count))}", [svg.dot(point, "point", size)]))
    parts += svg.marks([(float(x[i]), texts[i]) for i in _spread(at, 4 if len(texts[0]) < 11 else 2)], 258)
    least, most = (svg.short(float(count)) for count in (counts.min(), counts.max()))
    words = f"Counts from {texts[0]} to {texts[-1]}, between {least} and {most}."
    caption = [
        "Counts in the order of time; the line breaks where groups are missing.",
        whiskers_beside_table(level),
    ]
    if len(order) < len(placed):
        caption.append(f"The last {len(order):,} of {len(placed):,} are shown.")
    if len(placed) < len(places):
        caption.append(f"Records without {name} are one group, in the table below.")
    picture = svg.picture("chart", 284, f"Counts by {name}, over time", words, parts)
    return Chart("Over time", picture, " ".join(caption))


def _unbroken(at: svg.Floats) -> Iterator[list[int]]:
    """Runs of moments without a gap. Months differ in length by a tenth; a missing moment doubles the step."""
    steps = np.diff(at)
    usual = float(np.median(steps))
    number = np.concatenate([[0], np.cumsum(steps > 1.5 * usual)])
    for _, run in itertools.groupby(range(len(at)), lambda i: number[i]):
        yield list(run)


def _spread(at: svg.Floats, most: int) -> list[int]:
    """Moments at about equal distances, with the first and the last."""
    wanted = np.linspace(at[0], at[-1], min(most, len(at)))
    return sorted({int(np.argmin(np.abs(at - moment))) for moment in wanted})


def _moment_text(value: object) -> str:
    return str(value).removesuffix(" 00:00:00")


def _heat_map(table: pa.Table, by: Sequence[str]) -> Chart:
    """A table of counts of pairs of keys, as shades; the key with more values goes down. A screen reader can read it aloud."""
    down, across = sorted(by, key=lambda name: -len(table.column(name).unique()))
    counts = numbers(table, "count")
    pairs = zip(_axis(table, down), _axis(table, across), strict=True)
    rows, heads = _ends(table, down, counts, _ROWS), _ends(table, across, counts, _COLUMNS)
    cells = dict(zip(pairs, counts.tolist(), strict=True))
    largest = max((cells.get((row, head), 0.0) for row in rows for head in heads), default=0.0)
    names = [_cell_head(texts) for texts in (rows, heads)]
    lines = [
        f'<tr><th scope="col">{svg.escape(down)}</th>'
        + "".join(f'<th scope="col">{head}</th>' for head in names[1])
        + "</tr>"
    ]
    for row, text in zip(rows, names[0], strict=True):
        shades = "".join(_shade(cells.get((row, head)), largest) for head in heads)
        lines.append(f'<tr><th scope="row">{text}</th>{shades}</tr>')
    title = f"Counts by {down}, down, and {across}, across"
    picture = (
        f'<div class="scroll" tabindex="0" role="region" aria-label="{svg.escape(title)}"><table class="heat">'
        f"<caption>{svg.escape(title)}</caption><thead>{lines[0]}</thead><tbody>{''.join(lines[1:])}</tbody></table></div>"
    )
    cut_off = [f"{len(keys)} of {whole:,} values of {name}" for name, keys in ((down, rows), (across, heads))
               if len(keys) < (whole := len(table.column(name).unique()))]  # fmt: skip
    largest_only = f" The largest {' and '.join(cut_off)} are shown." if cut_off else ""
    caption = f"The stronger the colour, the larger the count; a dot: no such group was released.{largest_only}"
    return Chart("Where the units are", picture, caption)


def _axis(table: pa.Table, name: str) -> list[Any]:
    """The keys of all rows. Every NaN becomes the same object, as NaN does not equal itself."""
    return [math.nan if value != value else value for value in table.column(name).to_pylist()]


def _ends(table: pa.Table, name: str, counts: svg.Floats, most: int) -> list[Any]:
    """The keys with the largest counts, in the order of time, or of counts if they are no dates."""
    values = _axis(table, name)
    sums: dict[Any, float] = {}
    for value, count in zip(values, counts.tolist(), strict=True):
        sums[value] = sums.get(value, 0.0) + count
    kept = sorted(sums, key=lambda value: (-sums[value], str(value)))[:most]
    places = moments(table.column(name), name)
    if places is None:
        return kept
    when = dict(zip(values, places, strict=True))
    return sorted(kept, key=lambda value: (when[value] is None, when[value] or 0.0))


def _cell_head(keys: Sequence[Any]) -> list[str]:
    full = ["(null)" if key is None else _moment_text(key) for key in keys]
    pairs = zip(map(svg.escape, full), map(svg.escape, labels(full, 18)), strict=True)
    return [f'<span title="{whole}">{text}</span>' for whole, text in pairs]


def _shade(count: float | None, largest: float) -> str:
    if count is None:
        return '<td class="none">·</td>'
    share = max(count, 0.0) / largest if largest > 0 else 0.0
    return f'<td class="h{min(int(share * _SHADES), _SHADES - 1)}">{svg.short(round(count))}</td>'


_HEIGHT, _BASE, _TOP = 284, 250, 22
_COLOURS: Final = 6
"""The most lines that a reader can tell apart."""


def chances(mechanism: GroupMechanism) -> Chart | None:
    """The probability that a group is released, by its size, up to sizes of which hardly any group is missing."""
    if mechanism.threshold is None:
        return None
    marks = [mechanism.count_released_with(p) for p in (0.5, 0.95)]
    if not mechanism.counted:
        sizes = _sizes(4 * marks[0], 31)  # each probability is an integral
        points = [(x, 1 - mechanism.share_lost(x)) for x in marks]
        heights = np.array([1 - mechanism.share_lost(x) for x in sizes])
        name, by = "The share of groups that are released", f"their units ({mechanism.size_in_words})"
    else:
        sizes = _sizes(1.15 * mechanism.count_released_with(0.999), 120)
        points = list(zip(marks, (0.5, 0.95), strict=True))
        heights = np.array([mechanism.release_probability(x) for x in sizes])
        weight = "the weight of its units" if mechanism.in_rounds else "its true number of units"
        name, by = "The probability that a group is released", weight
    return Chart("", _curve(sizes, heights, points, name), f"{name}, by {by}.")


def _sizes(high: float, points: int) -> svg.Floats:
    """Counts from 0 to the end of an axis that shows `high`."""
    return np.linspace(0, svg.nice_ticks(0, high, 5)[-1], points)


def _curve(x: svg.Floats, y: svg.Floats, points: Sequence[tuple[float, float]], title: str) -> str:
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


def histogram(values: svg.Floats) -> Chart:
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
    least, most = (svg.short(float(value)) for value in (values.min(), values.max()))
    words = f"{len(values):,} groups with counts from {least} to {most}."
    picture = svg.picture("distribution", _HEIGHT, "How many groups have which count", words, parts)
    return Chart("", picture, "How many released groups have which count.")


def over_rounds(
    table: pa.Table, by: Sequence[str], mechanism: ContinualCounts, history: Sequence[tuple[int, pa.Table]]
) -> Chart | None:
    """The largest groups over the rounds of a stream, with bands, and the threshold that all of them exceed."""
    if table.num_rows == 0 or len(history) < 2:
        return None
    x = np.array([number for number, _ in history], np.float64)
    reach = np.array([mechanism.std_at(number) for number, _ in history])
    counted = [dict(zip(_keys(past, by), numbers(past, "count").tolist(), strict=True)) for _, past in history]
    top = table.slice(0, _COLOURS)
    names = labels([key_text(top, by, row) for row in range(top.num_rows)], _LABEL)
    lines = {
        name: np.array([counts.get(key, np.nan) for counts in counted])
        for name, key in zip(names, _keys(top, by), strict=True)
        if any(key in counts for counts in counted)
    }
    highest = max([float(mechanism.threshold), *(float(np.nanmax(values + reach)) for values in lines.values())])
    span = max(float(x[-1] - x[0]), 1.0)
    across, up = svg.Scale(0, 1, 3.0, 97.0, most=1), svg.Scale(0.0, highest, _BASE, _TOP)
    at, level = [across(float(value - x[0]) / span) for value in x], up(mechanism.threshold)
    parts = [*svg.levels(up), svg.line((0, level), (100, level), "axis")]
    for number, values in enumerate(lines.values(), 1):
        for piece in _pieces(values):
            above = [(at[i], up(float(values[i] + reach[i]))) for i in piece]
            below = [(at[i], up(float(values[i] - reach[i]))) for i in reversed(piece)]
            parts.append(svg.band(above + below, f"band c{number}", _HEIGHT))
            points = [(at[i], up(float(values[i]))) for i in piece]
            parts.append(svg.path(points, f"curve c{number}", _HEIGHT))
            if len(piece) == 1:
                parts.append(svg.dot(points[0], f"point c{number}", 3))
    places = sorted({round(float(value)) for value in np.linspace(x[0], x[-1], min(5, len(x)))})
    parts += svg.marks([(across((place - float(x[0])) / span), f"{place:,}") for place in places], _BASE + 8)
    words = f"Lines of {len(lines)} groups from round {x[0]:g} to {x[-1]:g}."
    caption = (
        "Running counts as they were released; the bands reach one standard error to both sides. A line is missing where the"
        f" noisy count was not above the threshold of {mechanism.threshold:,} (grey)."
    )
    picture = svg.picture("rounds", _HEIGHT, "Counts over each round", words, parts)
    return Chart("The largest groups over the rounds", picture, caption, list(lines))


def _keys(table: pa.Table, by: Sequence[str]) -> list[tuple[Any, ...]]:
    return list(zip(*(table.column(name).to_pylist() for name in by), strict=True))


def _pieces(values: svg.Floats) -> Iterator[list[int]]:
    """The runs of points without a gap."""
    for missing, run in itertools.groupby(range(len(values)), lambda i: bool(np.isnan(values[i]))):
        if not missing:
            yield list(run)


def share_bar(share: float) -> str:
    """A bar that is filled by a share."""
    parts = [svg.box(0, 0, 100, 14, "rest"), svg.box(0, 0, 100 * share, 14, "bar")]
    title = f"About {100 * share:.0f} % of all units are in a group that is shown"
    return svg.picture("share", 14, title, f"A bar, filled to {100 * share:.0f} %.", parts)
