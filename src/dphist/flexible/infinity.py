"""The gamma-lossy infinity-Wasserstein distance [BCDP22, Definition 1]: the least beta at which mass 1 - gamma can move.

W <= beta if and only if a maximum flow over pairs at distance <= beta moves mass of at least 1 - gamma. On the line the flow
that is missing has a closed form that a reduction computes: by Hall's theorem it is the largest P(S) - Q(points within beta
of S), and the best set S is built from left to right. Masses are whole numbers: the comparison with gamma is exact.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from dphist.errors import InvalidParameter
from dphist.flexible.masses import Floats, Masses, Points, on_line, share, to_common_total, total, whole


def lossy_infinity_on_line(first: Points, second: Points, gamma: float | Fraction = 0) -> float:
    """W of two distributions on the line; 10^6 atoms take seconds.

    The answer is |x - y| for some atoms x, y, or 0. It lies between the largest distance of quantiles after gamma of the mass
    may be left out on either side, and the (1 - gamma)-quantile of the distances of the monotone coupling.
    """
    loss = share("gamma", gamma)
    x, p = on_line(first)
    y, q = on_line(second)
    p, q, common = to_common_total(p, q)
    allowed = math.floor(loss * common)
    if allowed >= common:
        return 0.0
    low = max(_least(x, p, y, q, allowed), _least(y, q, x, p, allowed), 0.0)
    high = max(low, _monotone(x, p, y, q, common - allowed))
    return _narrow(x, p, y, q, allowed, low, high)


def bottleneck_into(inner: Points, outer: Points) -> float:
    """The least beta with which every record of `inner` can be matched to a record of its own in `outer`; both on the line."""
    x, p = on_line(inner)
    y, q = on_line(outer)
    if total(p) > total(q):
        return math.inf
    if not x.size:
        return 0.0
    return _narrow(x, p, y, q, 0, 0.0, float(max(abs(y[-1] - x[0]), abs(x[-1] - y[0]))))


def missing_mass(x: Floats, p: Masses, y: Floats, q: Masses, beta: float) -> int:
    """How much of p cannot be matched within beta: max over S of P(S) - Q(within beta of S).

    Going through the atoms of p in order, A is the best value of a set that ends with this atom, plus Q up to its right end,
    and B the best value so far. With g and h the masses of q left of x - beta and up to x + beta:

        A' = max(A, B + g) + p,   B' = max(B, A' - h),

    a product of 2 x 2 matrices over (max, +), taken pairwise. Only B from B is needed at the end.
    """
    left, right = _neighbours(x, y, beta)
    return _reduce(_steps(p, _cumulated(q), left, right))


def _cumulated(q: Masses) -> Masses:
    return np.concatenate([np.zeros(1, dtype=q.dtype), np.cumsum(q)])


def _neighbours(x: Floats, y: Floats, beta: float) -> tuple[Masses, Masses]:
    """The atoms of y within beta of each x, as a half-open range of places."""
    return np.searchsorted(y, x - beta, side="left"), np.searchsorted(y, x + beta, side="right")


def _steps(p: Masses, ends: Masses, left: Masses, right: Masses) -> Masses:
    """One matrix (A from A, A from B, B from A, B from B) per atom, as four rows."""
    g, h = ends[left], ends[right]
    return np.stack([p, p + g, p - h, np.maximum(p + g - h, 0)])


def _reduce(steps: Masses) -> int:
    """B from B of the product of all matrices, first to last."""
    tail = None
    while steps.shape[1] > 1:
        if steps.shape[1] % 2:
            tail = steps[:, -1:] if tail is None else _times(steps[:, -1:], tail)
            steps = steps[:, :-1]
        steps = _times(steps[:, ::2], steps[:, 1::2])
    return int((steps if tail is None else _times(steps, tail))[3, 0])


def _times(first: Masses, then: Masses) -> Masses:
    """One step and then another, over (max, +)."""
    return np.stack(
        [
            np.maximum(then[0] + first[0], then[1] + first[2]),
            np.maximum(then[0] + first[1], then[1] + first[3]),
            np.maximum(then[2] + first[0], then[3] + first[2]),
            np.maximum(then[2] + first[1], then[3] + first[3]),
        ]
    )


class _Chain:
    """The product of steps for any beta of a shrinking bracket.

    An atom whose neighbours are the same at both ends of the bracket has a fixed step, and neighbouring fixed steps are
    multiplied once and for all: what is left to do shrinks with the bracket.
    """

    def __init__(self, x: Floats, p: Masses, y: Floats, q: Masses, low: float, high: float) -> None:
        self._y, self._ends = y, _cumulated(q)
        self._x, self._p = x, p
        self._low, self._high = _neighbours(x, y, low), _neighbours(x, y, high)
        self._steps = _steps(p, self._ends, *self._low)
        self._open = np.ones(x.size, dtype=np.bool_)
        self._settle()

    def missing(self, beta: float) -> int:
        """The missing mass at a point of the bracket."""
        self._middle = _neighbours(self._x, self._y, beta)
        self._steps[:, self._open] = _steps(self._p, self._ends, *self._middle)
        return _reduce(self._steps)

    def narrow(self, *, from_above: bool) -> None:
        """The last point asked for becomes an end of the bracket."""
        if from_above:
            self._high = self._middle
        else:
            self._low = self._middle
        self._settle()

    def _settle(self) -> None:
        """Fix what can no longer change, and multiply neighbouring fixed steps in pairs."""
        same = (self._low[0] == self._high[0]) & (self._low[1] == self._high[1])
        places = np.flatnonzero(self._open)
        fixed = places[same]
        self._steps[:, fixed] = _steps(self._p[same], self._ends, self._low[0][same], self._low[1][same])
        self._open[fixed] = False
        self._x, self._p = self._x[~same], self._p[~same]
        self._low = self._low[0][~same], self._low[1][~same]
        self._high = self._high[0][~same], self._high[1][~same]
        index = np.arange(self._open.size)
        run = index - np.maximum.accumulate(np.where(self._open, index, -1)) - 1  # the place in a run of fixed steps
        second = ~self._open & (run % 2 == 1)
        at = np.flatnonzero(second)
        self._steps[:, at - 1] = _times(self._steps[:, at - 1], self._steps[:, at])
        self._steps, self._open = self._steps[:, ~second], self._open[~second]


def _least(x: Floats, p: Masses, y: Floats, q: Masses, allowed: int) -> float:
    """A lower bound: mass P(<= x_i) - allowed must reach q within beta to the right, for every i."""
    needed = np.cumsum(p) - allowed
    place = np.searchsorted(np.cumsum(q), needed, side="left")
    useful = needed > 0
    return float(np.max(y[place[useful]] - x[useful])) if useful.any() else 0.0


def _monotone(x: Floats, p: Masses, y: Floats, q: Masses, kept: int) -> float:
    """An upper bound: the distance within which the monotone coupling moves `kept` of the mass."""
    first, second = np.cumsum(p), np.cumsum(q)
    cuts = np.unique(np.concatenate([first, second]))
    distances = np.abs(x[np.searchsorted(first, cuts)] - y[np.searchsorted(second, cuts)])
    masses = np.diff(np.concatenate([np.zeros(1, dtype=cuts.dtype), cuts]))
    order = np.argsort(distances, kind="stable")
    return float(distances[order][np.searchsorted(np.cumsum(masses[order]), kept)])


def _narrow(x: Floats, p: Masses, y: Floats, q: Masses, allowed: int, low: float, high: float) -> float:
    """The smallest distance of atoms in [low, high] at which at most `allowed` is missing; it is known to hold at `high`.

    False position with halved weights (Illinois), and bisection every third time. The bracket is closed to the rounding of
    the values, then the distance of atoms inside it is the answer.
    """
    excess = missing_mass(x, p, y, q, low) - allowed
    if excess <= 0:
        return low
    chain = _Chain(x, p, y, q, low, high)
    over, under = float(excess), -1.0
    rounding = 2.0**-52 * float(np.abs(x).max() + np.abs(y).max() + high)
    turn, side = 0, 0
    while high - low > 2 * rounding:
        turn += 1
        guess = low + (high - low) * (0.5 if turn % 3 == 0 else over / (over - under))
        guess = min(max(guess, low + rounding), high - rounding)
        excess = chain.missing(guess) - allowed
        chain.narrow(from_above=excess <= 0)
        if excess <= 0:
            high, under = guess, excess - 0.5
            over, side = (over / 2 if side < 0 else over), -1
        else:
            low, over = guess, float(excess)
            under, side = (under / 2 if side > 0 else under), 1
    return _nearest_distance(x, y, high + rounding)


def _nearest_distance(x: Floats, y: Floats, beta: float) -> float:
    """The largest |x_i - y_j| that is not above beta: the flow is the same from there to beta."""
    right = np.searchsorted(y, x + beta, side="right") - 1
    left = np.minimum(np.searchsorted(y, x - beta, side="left"), y.size - 1)
    found = np.concatenate([y[np.maximum(right, 0)] - x, x - y[left]])
    found = found[(found <= beta) & (found >= 0)]
    return float(found.max()) if found.size else 0.0


def lossy_infinity_distance(
    first: Sequence[int | Fraction], second: Sequence[int | Fraction], distances: Floats, gamma: float | Fraction = 0
) -> float:
    """W on a finite metric: masses of the points of either side, and the matrix of their distances.

    A maximum flow for each candidate distance, found by bisection of the sorted distances.
    """
    loss = share("gamma", gamma)
    matrix = np.asarray(distances, dtype=np.float64)
    if matrix.shape != (len(first), len(second)):
        raise InvalidParameter(f"a matrix of {len(first)} x {len(second)} distances", matrix.shape)
    p, q, common = to_common_total(whole(first), whole(second))
    needed = common - math.floor(loss * common)
    if needed <= 0:
        return 0.0
    candidates = np.unique(matrix)
    low, high = -1, len(candidates) - 1
    while high - low > 1:
        middle = (low + high) // 2
        enough = maximum_flow(p.tolist(), q.tolist(), matrix <= candidates[middle]) >= needed
        low, high = (low, middle) if enough else (middle, high)
    return float(candidates[high])


def maximum_flow(supply: list[int], demand: list[int], allowed: np.ndarray[tuple[int, int], np.dtype[np.bool_]]) -> int:
    """The most mass that can go from supplies to demands over allowed pairs: shortest augmenting paths, exact integers."""
    left, right = list(supply), list(demand)
    sent: list[dict[int, int]] = [{} for _ in right]  # sent[j][i]: what i sends to j
    neighbours = [np.flatnonzero(row).tolist() for row in allowed]
    moved = 0
    while True:
        came_from: dict[tuple[str, int], int] = {}
        queue = deque(("i", i) for i, mass in enumerate(left) if mass > 0)
        seen = set(queue)
        end = None
        while queue and end is None:
            side, node = queue.popleft()
            reachable = [("j", j) for j in neighbours[node]] if side == "i" else [("i", i) for i in sent[node]]
            for step in reachable:
                if step in seen:
                    continue
                seen.add(step)
                came_from[step] = node
                if step[0] == "j" and right[step[1]] > 0:
                    end = step[1]
                    break
                queue.append(step)
        if end is None:
            return moved
        path = [end]  # j, i, j, i, ..., i from the end to a supply
        node_at: tuple[str, int] = ("j", end)
        while node_at in came_from:
            path.append(came_from[node_at])
            node_at = ("i" if node_at[0] == "j" else "j", came_from[node_at])
        amount = min(right[end], left[path[-1]], *(sent[path[k + 1]][path[k]] for k in range(1, len(path) - 1, 2)))
        for k in range(0, len(path), 2):
            sent[path[k]][path[k + 1]] = sent[path[k]].get(path[k + 1], 0) + amount
        for k in range(1, len(path) - 1, 2):
            remaining = sent[path[k + 1]].pop(path[k]) - amount
            if remaining:
                sent[path[k + 1]][path[k]] = remaining
        right[end] -= amount
        left[path[-1]] -= amount
        moved += amount
