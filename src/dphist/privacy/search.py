"""The one inversion of monotone maps that all calibration uses, a one-dimensional minimiser, and the worst of many splits.

Only forward maps are trusted. Whatever the inversions return is a point at which the forward map was evaluated and
found to hold; no root finder's answer is taken on faith.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache, lru_cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from dphist.errors import Infeasible

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

SPLIT_TOLERANCE: Final = 1e-9
"""How far, relatively, the bound of `worst_split` may lie above the largest split."""

_INVERSE_GOLDEN = (math.sqrt(5.0) - 1) / 2
_MOST_RANGES = 20_000
_PARTS = 32
"""Open ranges are divided into so many in all, or halved if there are more: few rounds while there are few of them."""


def edge(
    delta_at: Callable[[float], float], target: float, holds: float, fails: float, *, tolerance: float = 1e-13
) -> float:
    """The point nearest to `fails` where delta_at(x) <= target, given that it holds at `holds`.

    delta_at is monotone between the two points (in either direction). The end of the bracket that is returned has
    itself been evaluated, so the answer satisfies the forward map even where that map is slightly rough.
    Interpolate, truncate and project [OT20] on log(delta): about ten evaluations on smooth maps, never more than one
    above bisection's on kinked or flat ones. The bracket is closed to `tolerance` relative.
    """
    inside, outside = holds, fails
    value_in, value_out = _log_excess(delta_at(inside), target), _log_excess(delta_at(outside), target)
    if value_out <= 0:
        return outside
    if value_in > 0:
        raise Infeasible("a bracket whose inner end meets the target", f"an excess of exp({value_in:.3g})")
    first = outside - inside
    close = max(tolerance, 2.0**-52) * max(abs(inside), abs(outside))
    allowed = close * 2.0 ** (math.ceil(math.log2(max(abs(first) / close, 1.0))) + 1)
    while abs(width := outside - inside) > close:
        middle = inside + width / 2
        false_position = inside - width * value_in / (value_out - value_in)
        towards = math.copysign(1.0, middle - false_position)
        truncation = 0.2 * width * width / abs(first)
        guess = middle
        if truncation <= abs(middle - false_position):
            guess = false_position + towards * truncation
        room = max(allowed - abs(width) / 2, 0.0)
        point = guess if abs(guess - middle) <= room else middle - towards * room
        if not min(inside, outside) < point < max(inside, outside):
            break  # neighbouring doubles
        value = _log_excess(delta_at(point), target)
        if value <= 0:
            inside, value_in = point, value
        else:
            outside, value_out = point, value
        allowed /= 2
    return inside


def _log_excess(value: float, target: float) -> float:
    """log(value/target), clipped to what doubles can hold, and <= 0 exactly when value <= target."""
    if value <= target:
        return math.log(value / target) if value / target > 0 else -745.0
    return max(math.log(value / target), 1e-300)


def smallest(
    delta_at: Callable[[float], float],
    target: float,
    *,
    start: float,
    low: float,
    high: float,
    tolerance: float = 1e-13,
) -> float:
    """The smallest x in [low, high] with delta_at(x) <= target, for decreasing delta_at.

    Walks outwards from `start` with doubling steps to find a bracket, then closes it with `edge`. Raises Infeasible
    if even `high` does not meet the target.
    """
    delta_at = cache(delta_at)  # the ends of the bracket are looked at twice
    if delta_at(start) <= target:
        holds, step = start, max(abs(start), 1e-3) * 1e-3
        while holds > low:
            fails = max(low, holds - step)
            if delta_at(fails) > target:
                return edge(delta_at, target, holds, fails, tolerance=tolerance)
            holds, step = fails, 4 * step
        return low
    fails, step = start, max(abs(start), 1e-3) * 1e-3
    while fails < high:
        holds = min(high, fails + step)
        if delta_at(holds) <= target:
            return edge(delta_at, target, holds, fails, tolerance=tolerance)
        fails, step = holds, 4 * step
    raise Infeasible(f"a value of at most {high:g} that meets delta = {target:g}", "none")


def smallest_whole(
    holds: Callable[[int], bool], *, limit: int, start: int | None = None, tolerance: float = 1e-6
) -> int:
    """The smallest whole number >= 0 at which a monotone condition holds; Infeasible if it does not at `limit`.

    From a good `start` the steps double until they pass the place, so that few evaluations are needed, none far away. Beyond
    1/tolerance it is known relatively: what is returned holds, and so much less does not.
    """
    point = limit if start is None else min(start, limit)
    low, high, step = -1, point, max(1, int(16 * tolerance * point))
    if holds(point):
        while start is not None and high - step > -1 and holds(high - step):
            high, step = high - step, 2 * step
        low = -1 if start is None else max(-1, high - step)
    else:
        while True:
            if high == limit:
                expected = f"a whole number of at most {limit} that is enough"
                raise Infeasible(expected, "none", "more noise, or more epsilon.")
            low, high, step = high, min(high + step, limit), 2 * step
            if holds(high):
                break
    while high - low > max(1, int(tolerance * high)):
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high


def bisect_floats(holds: Callable[[Floats], NDArray[np.bool_]], inside: Floats, outside: Floats) -> Floats:
    """Element by element the double nearest to `outside` at which `holds` is true, by bisection of the doubles.

    `inside` is known to hold. If `outside` holds too it is returned. The order of the doubles is the order of their
    bit patterns as signed integers, so 64 halvings reach neighbouring doubles whatever the magnitudes.
    """
    inner, outer = _ordinal(inside), _ordinal(outside)
    whole = holds(_from_ordinal(outer))
    inner = np.where(whole, outer, inner)
    while True:
        middle = (inner >> 1) + (outer >> 1) + (inner & outer & 1)
        open_ = (middle != inner) & (middle != outer)
        if not open_.any():
            # neighbours whose midpoint falls on one of them: nothing lies between
            return _from_ordinal(inner)
        good = holds(_from_ordinal(middle))
        inner = np.where(open_ & good, middle, inner)
        outer = np.where(open_ & ~good, middle, outer)


def _ordinal(values: Floats) -> NDArray[np.int64]:
    """Integers in the order of the doubles: the bit pattern, with the magnitude flipped where the sign bit is set."""
    bits = np.array(values, np.float64, order="C").view(np.int64)
    return np.asarray(bits ^ ((bits >> 63) & 0x7FFFFFFFFFFFFFFF))


def _from_ordinal(ordinals: NDArray[np.int64]) -> Floats:
    return np.asarray(ordinals ^ ((ordinals >> 63) & 0x7FFFFFFFFFFFFFFF)).view(np.float64)


def minimise(
    objective: Callable[[float], float], low: float, high: float, *, tolerance: float = 1e-7
) -> tuple[float, float]:
    """(x, objective(x)) of the smallest value met by a golden-section search of [low, high], ends included.

    Exact for unimodal objectives; for others still the smallest value of all points visited. Nothing about privacy
    depends on how good the minimum is.
    """
    seen = {x: objective(x) for x in (low, high)}
    left = high - _INVERSE_GOLDEN * (high - low)
    right = low + _INVERSE_GOLDEN * (high - low)
    seen[left], seen[right] = objective(left), objective(right)
    while high - low > tolerance:
        if seen[left] <= seen[right]:
            high, right = right, left
            left = high - _INVERSE_GOLDEN * (high - low)
            fresh = left
        else:
            low, left = left, right
            right = low + _INVERSE_GOLDEN * (high - low)
            fresh = right
        seen[fresh] = objective(fresh)
    best = min(seen, key=seen.__getitem__)
    return best, seen[best]


def best_noise(
    least: float,
    gap_at: Callable[[float], float],
    *,
    weight: float,
    floor: float,
    rough: Callable[[float], float] | None = None,
    tolerance: float = 1e-3,
) -> tuple[float, float]:
    """(noise, gap) with the smallest gap + weight * noise, noise >= least; an infinite weight takes `least` itself.

    gap_at raises Infeasible where no gap is enough; `rough`, if given, stands for it during the search: faster, and not below
    it. `floor` is a gap that `least` cannot go below and that grows with the noise: where it is attained, nothing is better.
    """

    def attempt(noise: float, gap_of: Callable[[float], float] = gap_at) -> float:
        try:
            return gap_of(noise)
        except Infeasible:
            return math.inf

    first = attempt(least)
    if math.isinf(weight) or first <= floor * (1 + 1e-6):
        return least, first

    def noise_at(log_excess: float) -> float:
        return least * math.exp(math.exp(log_excess))

    log_excess, value = minimise(
        lambda v: attempt(noise_at(v), rough or gap_at) + weight * noise_at(v),
        math.log(1e-9),
        math.log(0.5),
        tolerance=tolerance,
    )
    if first + weight * least <= value:
        return least, first
    return noise_at(log_excess), attempt(noise_at(log_excess))


def worst_split(
    upper: Callable[[Integers, Integers], Floats],
    first: int,
    last: int,
    *,
    at_least: float = 0.0,
    tolerance: float = SPLIT_TOLERANCE,
    enough: float | None = None,
) -> float:
    """An upper bound on max(at_least, max over integers a in [first, last] of the delta of a).

    With `enough`, only whether it is at most that: a result up to `enough` is such a bound, but one further above the
    maximum; a result above it may be less than the maximum. A search needs no more, and most of its points are told at once.

    Else it is at most `tolerance` above the largest upper(a, a) if upper(low, high) bounds these too; it is a bound in any
    case in which upper(low, high) bounds the delta of every a in [low, high].

    A unit in n groups may be new in some of them and one of many in the others. Every analysis maximises a delta over that
    split; n can be ten million. The delta of a split is increasing in one count and decreasing in another, so a whole range
    of splits is bounded by evaluating each part at its own worst end: upper(low, high) bounds the delta of every a in
    [low, high] and shrinks with the range. Ranges that cannot hold the maximum are dropped, the others divided.
    """
    best = dropped = at_least
    if last < first:
        return best
    low, high = _ranges(first, last)
    while True:
        single = low == high
        wide = high[~single]
        # One call for the ranges and for their ends: on arrays this short a call costs more than its elements.
        values = upper(np.concatenate([low, wide]), np.concatenate([high, wide]))
        bound, at_ends = values[: len(low)], values[len(low) :]
        best = max(best, float(bound[single].max(initial=0.0)), float(at_ends.max(initial=0.0)))
        open_ = ~single & (bound > best * (1 + tolerance))
        dropped = max(dropped, float(bound[~single & ~open_].max(initial=0.0)))
        still_open = int(open_.sum())
        if not still_open or (enough is not None and best > enough):
            return max(best, dropped)
        if enough is not None and float(bound[open_].max()) <= enough:
            return max(best, dropped, float(bound[open_].max()))
        if 2 * still_open > _MOST_RANGES:
            return max(dropped, float(bound[open_].max()))
        low, high = _split(low[open_], high[open_], max(2, _PARTS // still_open))


def _split(low: Integers, high: Integers, parts: int) -> tuple[Integers, Integers]:
    """Each range in so many parts of about the same size, or in single numbers."""
    edges = low[:, None] + (high + 1 - low)[:, None] * np.arange(parts + 1) // parts
    begins, ends = edges[:, :-1].ravel(), edges[:, 1:].ravel()
    some = begins < ends
    return begins[some], ends[some] - 1


@lru_cache(maxsize=64)
def _ranges(first: int, last: int) -> tuple[Integers, Integers]:
    """Ranges that cover [first, last], single near both ends and growing geometrically towards the middle."""
    size = last - first + 1
    if size <= 64:
        every = np.arange(first, last + 1, dtype=np.int64)
        return every, every
    steps = np.round(np.geomspace(1, size / 2, 12)).astype(np.int64)
    starts = np.array(
        sorted({0, *steps.tolist(), *(size - steps).tolist()}), np.int64
    )  # np.unique would load masked arrays
    return first + starts, first + np.append(starts[1:] - 1, size - 1)
