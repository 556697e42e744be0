"""The worst of many neighbouring pairs, without visiting them all.

A unit in n groups may be new in some of them and one of many in the others. Every analysis maximises a delta over that
split; n can be ten million. The delta of a split is increasing in one count and decreasing in another, so a whole range
of splits is bounded by evaluating each part at its own worst end. Ranges that cannot hold the maximum are dropped, the
others halved.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np
from numpy.typing import NDArray

__all__ = ["SPLIT_TOLERANCE", "worst_split"]

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

SPLIT_TOLERANCE: Final = 1e-9
"""How far, relatively, the bound returned may lie above the largest split."""

_MOST_RANGES = 20_000


def worst_split(
    upper: Callable[[Integers, Integers], Floats],
    first: int,
    last: int,
    *,
    at_least: float = 0.0,
    tolerance: float = SPLIT_TOLERANCE,
) -> float:
    """An upper bound on max(at_least, max over integers a in [first, last] of upper(a, a)), at most `tolerance` above it.

    upper(low, high) bounds upper(a, a) for every a in [low, high] and shrinks with the range.
    """
    best = dropped = at_least
    if last < first:
        return best
    low, high = _ranges(first, last)
    while True:
        bound = upper(low, high)
        single = low == high
        ends = bound if single.all() else upper(high, high)
        best = max(best, float(ends.max()))
        open_ = ~single & (bound > best * (1 + tolerance))
        dropped = max(dropped, float(bound[~single & ~open_].max(initial=0.0)))
        if not open_.any():
            return max(best, dropped)
        if 2 * int(open_.sum()) > _MOST_RANGES:
            return max(dropped, float(bound[open_].max()))
        low, high = low[open_], high[open_]
        middle = low + (high - low) // 2
        low, high = np.concatenate([low, middle + 1]), np.concatenate([middle, high])


def _ranges(first: int, last: int) -> tuple[Integers, Integers]:
    """Ranges that cover [first, last], single near both ends and growing geometrically towards the middle."""
    size = last - first + 1
    if size <= 64:
        every = np.arange(first, last + 1, dtype=np.int64)
        return every, every
    steps = np.unique(np.round(np.geomspace(1, size / 2, 24)).astype(np.int64))
    starts = np.unique(np.concatenate([[0], steps, size - steps]))
    return first + starts, first + np.append(starts[1:] - 1, size - 1)
