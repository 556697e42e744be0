"""Bounds for sums and means from a noisy histogram of how large values are, where nobody knows any.

Discrete Laplace noise on public buckets, one bucket for each unit (`engines.buckets`): a pure epsilon, which adds up with that
of the rest. From the noisy histogram alone follow the bounds for which clamping and noise together are expected to be least in
a group of ordinary size: wide bounds need more noise, narrow ones cut more off.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from dphist.engines.buckets import BUCKETS, OF_A_SIGN, SMALLEST, upper_ends
from dphist.noise import DiscreteLaplace, Entropy, add_exactly
from dphist.words import number

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

_SEEN: Final = 8.0
"""A bucket is seen if its noisy number is log(buckets) + this times the scale: hardly any histogram has a false one."""

_WINDOWS: Final = (4, 16)
"""So many neighbours may be seen together, where each is too few by itself."""

_NARROW: Final = 1e-6
"""Bounds are at least so far from each other, as a part of the larger."""

_BEYOND: Final = 4
"""So many buckets behind the last one that is seen may be believed, too."""

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
        names = ("name", "lower", "upper", "outside", "bias", "noise", "units")
        return {**{name: getattr(self, name) for name in names}, "in_words": str(self)}


@dataclass(frozen=True, slots=True, eq=False)
class Sizes:
    """A noisy histogram of the sizes of values, cut to the buckets where something was seen: one row for each.

    low, high: the ends of the buckets; middle: where values in them are expected; share: of all units.
    """

    low: Floats
    high: Floats
    middle: Floats
    share: Floats
    total: float


NoiseOf = Callable[[Floats, Floats], Floats]
"""The standard deviation of the noise on the sum of a group, for lower and upper bounds."""


def noise_sizes(exact: Integers, scale: float, entropy: Entropy | None = None) -> Integers:
    """Noise on every bucket, also on the empty ones, without sampler error: one unit changes one of them by one."""
    return add_exactly(exact, DiscreteLaplace(Fraction(scale)), entropy)


def fewest_seen(scale: float) -> float:
    """How many units of one size can be told from noise."""
    return scale * (float(np.log(BUCKETS)) + _SEEN)


def _together(noisy: Integers, scale: float, width: int) -> NDArray[np.intp]:
    """The buckets of windows whose sum can be told from noise, as far as they stand out themselves.

    Bernstein's inequality for a sum of `width` Laplace noises of scale b: above b (L + sqrt(L^2 + 4 width L)) with probability
    at most e^-L.
    """
    level = float(np.log(BUCKETS)) + _SEEN
    sums = np.convolve(noisy, np.ones(width, np.int64), mode="valid")
    starts = np.flatnonzero(sums >= scale * (level + np.sqrt(level**2 + 4 * width * level)))
    inside = np.unique((starts[:, None] + np.arange(width)[None, :]).ravel())
    return np.asarray(inside[noisy[inside] >= 2 * scale], np.intp)


def read_sizes(noisy: Integers, scale: float) -> Sizes | None:
    """The part of the histogram that can be told from noise; None if there is none."""
    least = fewest_seen(scale)
    alone = np.flatnonzero(noisy >= least)
    rest = noisy.copy()
    rest[alone] = 0  # or every window around one of them would stand out
    seen = np.unique(np.concatenate([alone, *(_together(rest, scale, width) for width in _WINDOWS)]))
    if not np.any(seen != OF_A_SIGN):  # zeros alone tell nothing of how large the others are
        return None
    ends = upper_ends()
    starts = np.concatenate([[2.0**SMALLEST], ends[:-1]])  # to the last bit, so that bounds have a bucket between them
    high = np.concatenate([-starts[::-1], [0.0], ends])
    low = np.concatenate([-ends[::-1], [0.0], starts])
    middle = np.concatenate([-_MIDDLE * ends[::-1], [0.0], _MIDDLE * ends])
    first, last = max(int(seen[0]) - _BEYOND, 0), min(int(seen[-1]) + _BEYOND, BUCKETS - 1)
    if noisy[seen[0] : OF_A_SIGN].sum() < least:  # no negative value was seen
        first = max(first, min(OF_A_SIGN, int(seen[0])))
    if noisy[OF_A_SIGN + 1 : seen[-1] + 1].sum() < least:
        last = min(last, max(OF_A_SIGN, int(seen[-1])))
    kept = slice(first, last + 1)
    units = noisy[kept].astype(np.float64)
    total = max(float(units.sum()), 1.0)
    return Sizes(low[kept], high[kept], middle[kept], units / total, total)


def choose_bounds(
    sizes: Sizes,
    noise_of: NoiseOf,
    units: float,
    lower: float | None = None,
    upper: float | None = None,
    *,
    squared: bool = False,
) -> tuple[float, float, float, float]:
    """The ends of buckets with the least expected error in a group of `units` units; an end that is given is kept.

    squared: what is added up are squares of how far values are from their mean. Returns lower, upper, the bias and the noise
    there.
    """
    tops = sizes.high if upper is None else np.array([upper])
    bottoms = sizes.low if lower is None else np.array([lower])
    mean = float(sizes.share @ sizes.middle) if squared else None
    over = _excess(tops, sizes.middle, sizes.share, mean)
    under = _excess(-bottoms, -sizes.middle, sizes.share, None if mean is None else -mean)
    bottom, top = np.meshgrid(bottoms, tops, indexing="ij")
    possible = top - bottom > _NARROW * np.maximum(np.abs(top), np.abs(bottom))
    if not possible.any():  # no value is on the right side of the end that is given
        narrow = float(upper_ends()[0])
        low = lower if lower is not None else (float(bottoms[0]) if upper is None else upper - max(narrow, abs(upper)))
        high = upper if upper is not None else low + max(narrow, abs(low))
        return choose_bounds(sizes, noise_of, units, low, high, squared=squared)
    bias = units * (under[:, None] + over[None, :])
    noise = np.where(possible, noise_of(bottom, np.where(possible, top, bottom + 1)), np.inf)
    best = np.unravel_index(int(np.argmin(np.where(possible, np.hypot(bias, noise), np.inf))), bias.shape)
    return float(bottom[best]), float(top[best]), float(bias[best]), float(noise[best])


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


def _excess(tops: Floats, values: Floats, share: Floats, mean: float | None) -> Floats:
    """What is cut off above each candidate, of all units together; of squared distances from a mean, where there is one.

    Noise may make it negative.
    """
    top, value = tops[:, None], values[None, :]
    cut = (
        np.maximum(value - top, 0.0)
        if mean is None
        else np.where(value > top, (value - mean) ** 2 - (top - mean) ** 2, 0.0)
    )
    return np.asarray(np.maximum((np.maximum(cut, 0.0) * share).sum(axis=1), 0.0))


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
