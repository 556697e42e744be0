"""Bounds for sums and means from a noisy histogram of how large values are, where nobody knows any.

Discrete Laplace noise on public buckets, one bucket for each unit (`engines.buckets`): a pure epsilon, which adds up with that
of the rest. From the noisy histogram alone follow the bounds for which clamping and noise together are expected to be least, in
groups of all sizes that there may be: wide bounds need more noise, narrow ones cut more off. Beyond the outermost buckets that
surely are not empty, tails are expected to go on as they fall before. What is cut off is part of the stated errors.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass
from fractions import Fraction
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from dphist.engines.buckets import BUCKETS, OF_A_SIGN, SMALLEST, upper_ends
from dphist.noise import DiscreteLaplace, add_exactly
from dphist.words import number

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

_SEEN: Final = 7.0
"""A bucket is seen if its noisy number is log(buckets) + this times the scale: one histogram in about 1,000 has a false one."""

_WINDOWS: Final = (2, 4, 16)
"""So many neighbours may be seen together, where each is too few by itself."""

_OUTSTANDING: Final = 5
"""Of such a window a bucket is seen if its noisy number is this times the scale."""

_NARROW: Final = 1e-6
"""Bounds are at least so far from each other, as a part of the larger."""

_NEAR: Final = 12
"""So many buckets before the last one that is seen tell how a tail goes on."""

_SLOWEST: Final = 0.7
"""Tails fall by this from a bucket to the next, at least."""

_FEWEST: Final = 0.1
"""Where fewer units than this are expected, a tail ends."""

_ORDERS: Final = 9
"""So many sizes of groups are looked at."""

_NEXT_TO_ZERO: Final = 0.02
"""A bound that is nearer to zero than this part of the other is zero: it costs no noise, and the zeros are inside."""

_MIDDLE: Final = 0.85
"""Where in its bucket a value is expected, as a part of the far end: between the near end, 0.71, and the far one."""


@dataclass(frozen=True, slots=True)
class ChosenBounds:
    """Bounds and what they are expected to do; all of it from noisy values and public numbers.

    name: of the aggregate. outside: the noisy share of units whose value is outside. bias, noise: what clamping takes from a
    group of `units` units, and the standard deviation of the noise there. lower and upper are None if nothing was seen.
    """

    name: str
    lower: float | None
    upper: float | None
    outside: float | None = None
    bias: float | None = None
    noise: float | None = None
    units: float | None = None

    def __str__(self) -> str:
        if self.lower is None or self.upper is None or self.outside is None:
            return f"{self.name}: no bounds found, no value but 0 could be told from noise; it is left out."
        words = (
            f"{self.name}: values are clamped to [{self.lower:g}, {self.upper:g}]; about {100 * self.outside:.1f} % of units"
            " are outside"
        )
        if self.units is None:  # of quantiles: bounds cost no bias inside of them
            return f"{words}."
        return (
            f"{words}; in a group of {self.units:,.0f} units that takes about {number(self.bias or 0)}, noise has std"
            f" {number(self.noise or 0)}."
        )

    def to_data(self) -> dict[str, Any]:
        """As metadata has it."""
        return {**asdict(self), "in_words": str(self)}


@dataclass(frozen=True, slots=True, eq=False)
class Sizes:
    """How many units have values of each size, as a noisy histogram shows it: one row for each bucket from the lowest seen to
    the highest, and for those beyond as tails go on.

    low, high: the ends of the buckets; middle: where values in them are expected; units: how many; doubt: the std of that
    number; tail: whether it is told from how a tail falls, one doubt for all of them; total: how many there are in all.
    """

    low: Floats
    high: Floats
    middle: Floats
    units: Floats
    doubt: Floats
    tail: NDArray[np.bool_]
    total: float

    @property
    def share(self) -> Floats:
        """Of all units."""
        return self.units / self.total


NoiseOf = Callable[[Floats, Floats], Floats]
"""The standard deviation of the noise on the sum of a group, for lower and upper bounds."""


def noise_sizes(exact: Integers, scale: float) -> Integers:
    """Noise on every bucket, also on the empty ones, without sampler error: one unit changes one of them by one."""
    return add_exactly(exact, DiscreteLaplace(Fraction(scale)))


def fewest_seen(scale: float) -> float:
    """How many units of one size can be told from noise."""
    return scale * (float(np.log(BUCKETS)) + _SEEN)


def _least_sum(width: int, scale: float) -> float:
    """Which sum of so many buckets can be told from noise.

    Chernoff's inequality for a sum of `width` Laplace noises of scale 1: above (L - width log(1 - s^2))/s with probability at
    most e^-L, for every s in (0, 1).
    """
    level, s = float(np.log(BUCKETS)) + _SEEN, np.linspace(0.01, 0.99, 99)
    return scale * float(np.min((level - width * np.log1p(-(s**2))) / s))


def _together(noisy: Integers, scale: float, width: int) -> NDArray[np.intp]:
    """The buckets of windows whose sum can be told from noise, as far as they stand out themselves."""
    sums = np.convolve(noisy, np.ones(width, np.int64), mode="valid")
    starts = np.flatnonzero(sums >= _least_sum(width, scale))
    inside = np.unique((starts[:, None] + np.arange(width)[None, :]).ravel())
    return np.asarray(inside[noisy[inside] >= _OUTSTANDING * scale], np.intp)


def _mirrored(noisy: Integers, scale: float, seen: NDArray[np.intp]) -> NDArray[np.intp]:
    """The buckets of the other sign beside those of one, if together they can be told from noise: or half of values around
    zero would be cut off."""
    other: NDArray[np.intp] = 2 * OF_A_SIGN - seen[seen != OF_A_SIGN]
    none = other[:0]
    if len(other) == 0 or (seen < OF_A_SIGN).any() == (seen > OF_A_SIGN).any():
        return none
    span = slice(int(other.min()), int(other.max()) + 1)
    return other if noisy[span].sum() >= _least_sum(span.stop - span.start, scale) else none


def read_sizes(noisy: Integers, scale: float) -> Sizes | None:
    """The part of the histogram that can be told from noise; None if there is none."""
    least = fewest_seen(scale)
    rest, found = noisy.copy(), [np.flatnonzero(noisy >= least)]
    for width in _WINDOWS:
        rest[found[-1]] = 0  # or every window around one of them would stand out
        found.append(_together(rest, scale, width))
    seen = np.unique(np.concatenate(found))
    seen = np.union1d(seen, _mirrored(noisy, scale, seen))
    if not np.any(seen != OF_A_SIGN):  # zeros alone tell nothing of how large the others are
        return None
    ends = upper_ends()
    starts = np.concatenate([[2.0**SMALLEST], ends[:-1]])  # to the last bit, so that bounds have a bucket between them
    high = np.concatenate([-starts[::-1], [0.0], ends])
    low = np.concatenate([-ends[::-1], [0.0], starts])
    middle = np.concatenate([-_MIDDLE * ends[::-1], [0.0], _MIDDLE * ends])
    first, last = int(seen[0]), int(seen[-1])
    after = _tail(noisy[first : last + 1][::-1], noisy[last + 1 :], scale)
    before = _tail(noisy[first : last + 1], noisy[:first][::-1], scale)
    if noisy[first:OF_A_SIGN].sum() < least:  # no negative value was seen
        before = before[: max(first - OF_A_SIGN, 0)]
    if noisy[OF_A_SIGN + 1 : last + 1].sum() < least:
        after = after[: max(OF_A_SIGN - last, 0)]
    kept = slice(first - len(before), last + 1 + len(after))
    units = np.concatenate([before[::-1], noisy[first : last + 1].astype(np.float64), after])
    doubt = np.concatenate([before[::-1], np.full(last + 1 - first, math.sqrt(2) * scale), after])
    tail = np.repeat([True, False, True], [len(before), last + 1 - first, len(after)])
    return Sizes(low[kept], high[kept], middle[kept], units, doubt, tail, max(float(units.sum()), 1.0))


def _tail(inward: Integers, outward: Integers, scale: float) -> Floats:
    """How many units are expected beyond the outermost bucket that was seen, bucket by bucket: as if logarithms fell in a line.

    inward: the outermost bucket and those before it; outward: those behind it. The line is the steepest of those through the
    outermost bucket and one before it, and what is left of it behind it, each with its doubt: logarithms of such histograms are
    concave there for most distributions, and fall ever steeper.
    """
    edge = max(float(inward[0]), 1.0)
    beyond = np.maximum(outward[:2].astype(np.float64), 0.0)
    falls = [(float(beyond.sum()) + 2 * scale) / (edge + float(beyond[:1].sum())), _SLOWEST]
    before = np.maximum(inward[1 : 1 + _NEAR].astype(np.float64), 1.0)
    fall = min(*falls, *((edge + 2 * scale) / before) ** (1 / np.arange(1, 1 + len(before))))
    length = max(math.floor(math.log(_FEWEST / edge) / math.log(fall)), 0)
    return np.asarray(edge * fall ** np.arange(1, min(length, len(outward)) + 1))


@dataclass(frozen=True, slots=True)
class Cut:
    """Bounds, and what they take from all units together: added up, with its doubt, and the root of the squares added up."""

    lower: float
    upper: float
    bias: float
    spread: float
    noise: float


def choose_bounds(
    sizes: Sizes,
    noise_of: NoiseOf,
    ordinary: float,
    lower: float | None = None,
    upper: float | None = None,
    *,
    squared: bool = False,
) -> Cut:
    """The ends of buckets with the least expected error in groups from an ordinary size to that of all units; an end that is
    given is kept.

    Nobody knows yet how large groups are: sizes of every order of magnitude count alike, and errors by their ratios. So small
    groups do not pay with much noise for what is cut off in large ones alone, nor these with much bias.

    squared: what is added up are squares of how far values are from their mean.
    """
    mean = float(sizes.share @ sizes.middle) if squared else None
    tops = sizes.high if upper is None else np.array([upper])
    bottoms = sizes.low if lower is None else np.array([lower])
    none = (np.zeros(1), np.zeros(1))
    over, over_spread = _excess(sizes, tops, 1.0, mean) if upper is None else none
    under, under_spread = _excess(sizes, bottoms, -1.0, mean) if lower is None else none
    bottom, top = np.meshgrid(bottoms, tops, indexing="ij")
    possible = top - bottom > _NARROW * np.maximum(np.abs(top), np.abs(bottom))
    if mean is not None:  # which is inside, wherever it is in its bucket
        place = int(np.argmax(sizes.high >= mean))
        possible &= (top >= sizes.high[place]) if upper is None else True
        possible &= (bottom <= sizes.low[place]) if lower is None else True
    if not possible.any():  # no value is on the right side of the end that is given
        narrow = float(upper_ends()[0])
        low = lower if lower is not None else (float(bottoms[0]) if upper is None else upper - max(narrow, abs(upper)))
        high = upper if upper is not None else low + max(narrow, abs(low))
        return choose_bounds(sizes, noise_of, ordinary, low, high, squared=squared)
    bias = under[:, None] + over[None, :]
    spread = np.hypot(under_spread[:, None], over_spread[None, :])
    noise = np.where(possible, noise_of(bottom, np.where(possible, top, bottom + 1)), np.inf)
    parts = np.geomspace(min(ordinary / sizes.total, 1.0), 1.0, _ORDERS)
    errors = sum(np.log((part * bias) ** 2 + part * spread**2 + noise**2) for part in parts)
    best = np.unravel_index(int(np.argmin(errors)), bias.shape)
    low, high = float(bottom[best]), float(top[best])
    if lower is None and 0 < low < _NEXT_TO_ZERO * high:
        low = 0.0
    if upper is None and _NEXT_TO_ZERO * low < high < 0:
        high = 0.0
    there = float(noise_of(np.array([low]), np.array([high]))[0])
    return Cut(low, high, float(bias[best]), float(spread[best]), there)


def cover_tails(
    sizes: Sizes, below: float, above: float, lower: float | None = None, upper: float | None = None
) -> tuple[float, float]:
    """The narrowest ends of buckets with at most the share `below` of all units below and `above` above them.

    For quantiles: clamping does not move them as long as they are inside, and wide bounds cost no more than wide bins. An end
    that is given is kept.
    """
    from_left, from_right = np.cumsum(sizes.share), np.cumsum(sizes.share[::-1])
    last = len(sizes.share) - 1
    first = min(int(np.searchsorted(np.maximum.accumulate(from_left), below, side="right")), last)
    final = max(last - int(np.searchsorted(np.maximum.accumulate(from_right), above, side="right")), 0)
    low = float(sizes.low[min(first, final)]) if lower is None else lower
    high = float(sizes.high[max(first, final)]) if upper is None else upper
    if low < high:
        return low, high
    narrow = float(upper_ends()[0])
    if lower is None:
        return high - max(narrow, abs(high)), high
    return low, low + max(narrow, abs(low))


def _excess(sizes: Sizes, ends: Floats, side: float, mean: float | None) -> tuple[Floats, Floats]:
    """What is cut off above each end (side 1), or below it (side -1): of all units together, with the doubt of their numbers,
    and the root of its squares, added up. Of squared distances from a mean, where there is one.
    """
    end, value = side * ends[:, None], side * sizes.middle[None, :]
    cut = np.maximum(value - end, 0.0)
    if mean is not None:
        cut = np.where(cut > 0, (value - side * mean) ** 2 - np.maximum(end - side * mean, 0.0) ** 2, 0.0)
    bias = np.maximum((cut * sizes.units).sum(axis=1), 0.0)
    doubts = cut * sizes.doubt
    doubt = np.hypot(doubts[:, sizes.tail].sum(axis=1), np.sqrt((doubts[:, ~sizes.tail] ** 2).sum(axis=1)))
    return np.hypot(bias, doubt), np.sqrt((cut**2 * np.maximum(sizes.units, 0.0)).sum(axis=1))


def share_outside(sizes: Sizes, lower: float, upper: float) -> float:
    """The noisy share of units whose value is outside."""
    outside = sizes.share[(sizes.middle > upper) | (sizes.middle < lower)].sum()
    return min(max(float(outside), 0.0), 1.0)


def cover(sizes: Sizes, outside: float, lower: float | None = None, upper: float | None = None) -> tuple[float, float]:
    """The ends of buckets that leave about this share of units outside, on both sides together; a given end is kept."""
    each = outside / ((lower is None) + (upper is None) or 1)
    above = np.append(np.cumsum(sizes.share[::-1])[::-1][1:], 0.0)
    below = np.concatenate([[0.0], np.cumsum(sizes.share)[:-1]])
    high = float(sizes.high[int(np.argmax(above <= each))]) if upper is None else upper
    low = float(sizes.low[len(below) - 1 - int(np.argmax(below[::-1] <= each))]) if lower is None else lower
    if low >= high:
        narrow = max(float(upper_ends()[0]), abs(high), abs(low))
        low, high = (low, low + narrow) if upper is None else (high - narrow, high)
    return low, high
