"""The flexible error of an answer: its distance from the nearest answer that is right after a few records were dropped."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

Integers = NDArray[np.int64]


def reachable_max_k(counts: Integers, k: int, drops: int) -> NDArray[np.bool_]:
    """Which bars can become max{i: x(i) >= k} when `drops` records may be dropped.

    Bar g if x(g) >= k and the bars h > g with x(h) >= k can all be brought below k: sum of x(h) - k + 1 <= drops.
    """
    cost = np.where(counts >= k, counts - k + 1, 0)
    to_the_right = np.cumsum(cost[::-1])[::-1] - cost
    return (counts >= k) & (to_the_right <= drops)


def reachable_mode(counts: Integers, drops: int) -> NDArray[np.bool_]:
    """Which bars can become the mode, ties going to the lowest index: sum of (x(h) - x(g))_+ + #{h < g: x(h) >= x(g)}.

    A bar h < g with x(h) >= x(g) must fall below x(g), one with h > g must not exceed it.
    """
    order = np.sort(counts)[::-1]
    above = np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(order)])
    number = len(counts) - np.searchsorted(order[::-1], counts, side="right")  # how many are larger
    excess = above[number] - number * counts
    found = np.zeros(len(counts), dtype=np.bool_)
    for g in np.flatnonzero((counts > 0) & (excess <= drops)):
        found[g] = excess[g] + int(np.count_nonzero(counts[:g] >= counts[g])) <= drops
    return found


def flexible_error_max_k(counts: Integers, answer: float, *, k: int = 1, drops: int) -> float:
    """min |answer - g| over the reachable bars g; max is k = 1. Infinity if no bar has k records."""
    return _nearest(reachable_max_k(counts, k, drops), answer)


def flexible_error_mode(counts: Integers, answer: float, *, drops: int) -> float:
    """min |answer - g| over the bars that can become the mode."""
    return _nearest(reachable_mode(counts, drops), answer)


def _nearest(reachable: NDArray[np.bool_], answer: float) -> float:
    bars = np.flatnonzero(reachable)
    return float(np.abs(bars - answer).min()) if bars.size else math.inf
