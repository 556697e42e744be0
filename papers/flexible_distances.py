"""Lossy Wasserstein distances [BCDP22, Definitions 1 and 7] on a finite metric, with exact masses.

Masses are whole numbers or fractions: "mass >= 1 - gamma" is a comparison that floats would flip. On the line, where there are
faster ways: `flexible_on_line`.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dphist.errors import InvalidParameter

Floats: TypeAlias = NDArray[np.float64]
Masses: TypeAlias = NDArray[Any]
"""Whole numbers: int64, or Python integers where those could overflow."""

Points: TypeAlias = Mapping[Any, Any] | tuple[Floats, Masses]
"""A distribution or histogram on the line: {value: mass}, or sorted values with their masses."""

LARGEST_TOTAL = 2**61


def share(name: str, value: float | Fraction) -> Fraction:
    """A share in [0, 1], exactly; a float is read as the decimal number that is written for it: 0.3 is 3/10."""
    exact = Fraction(repr(value)) if isinstance(value, float) else Fraction(value)
    if not 0 <= exact <= 1:
        raise InvalidParameter(f"{name} in [0, 1]", value)
    return exact


def on_line(points: Points) -> tuple[Floats, Masses]:
    """Different values in order, and their positive masses as whole numbers."""
    if isinstance(points, Mapping):
        values = np.array(list(points.keys()), dtype=np.float64)
        masses = whole(list(points.values()))
    else:
        values, masses = np.asarray(points[0], dtype=np.float64), np.asarray(points[1])
        if masses.dtype != object and not np.issubdtype(masses.dtype, np.integer):
            raise InvalidParameter("whole masses", masses.dtype)
    if values.shape != masses.shape or values.ndim != 1 or not np.isfinite(values).all() or (masses < 0).any():
        raise InvalidParameter("finite values, each with a mass that is not negative", "something else")
    values, masses = values[masses > 0], masses[masses > 0]
    if values.size > 1 and not (values[1:] > values[:-1]).all():
        order = np.argsort(values, kind="stable")
        values, masses = values[order], masses[order]
        first = np.flatnonzero(np.append(True, values[1:] != values[:-1]))
        values, masses = values[first], np.add.reduceat(masses, first)
    return values, masses


def whole(masses: Sequence[int | Fraction]) -> Masses:
    """Masses times their common denominator, as whole numbers."""
    exact = [Fraction(mass) for mass in masses]
    factor = math.lcm(*(mass.denominator for mass in exact))
    return np.array([int(mass * factor) for mass in exact], dtype=object)


def to_common_total(first: Masses, second: Masses) -> tuple[Masses, Masses, int]:
    """Both scaled to the same total; in int64 if that is safe. Neither may be empty."""
    totals = total(first), total(second)
    if not all(totals):
        raise InvalidParameter("two distributions with some mass", "an empty one")
    common = math.lcm(*totals)
    small = common <= LARGEST_TOTAL
    scaled = [_as(masses, small) * (common // mine) for masses, mine in zip((first, second), totals, strict=True)]
    return scaled[0], scaled[1], common


def total(masses: Masses) -> int:
    """The sum of masses, as a Python integer."""
    if masses.dtype == object:
        return int(sum(masses.tolist()))
    return int(masses.sum(dtype=np.int64))


def _as(masses: Masses, small: bool) -> Masses:
    return masses.astype(np.int64 if small else object)


def lossy_infinity_distance(
    first: Sequence[int | Fraction], second: Sequence[int | Fraction], distances: Floats, gamma: float | Fraction = 0
) -> float:
    """The gamma-lossy infinity-Wasserstein distance W, Definition 1: masses of the points of either side, and their distances.

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


def lossy_average_distance(
    first: Sequence[int | Fraction], second: Sequence[int | Fraction], distances: Floats, theta: float | Fraction = 0
) -> float:
    """The theta-lossy average Wasserstein distance, Definition 7: the least expected distance when a share theta need not move.

    By linear programming, to about 1e-9.
    What is not moved costs nothing: the expectation is over a coupling that has the lost mass on the diagonal.
    """
    from scipy.optimize import linprog  # a fifth of the time every command takes to start, and used here only
    from scipy.sparse import csr_array, vstack

    loss = share("theta", theta)
    costs = np.asarray(distances, dtype=np.float64)
    rows, columns = len(first), len(second)
    if costs.shape != (rows, columns):
        raise InvalidParameter(f"a matrix of {rows} x {columns} distances", costs.shape)
    p, q, common = to_common_total(whole(first), whole(second))
    if loss == 1:
        return 0.0
    cells = np.arange(rows * columns)
    ones = np.ones(cells.size)
    per_row = csr_array((ones, (cells // columns, cells)))
    per_column = csr_array((ones, (cells % columns, cells)))
    limits = np.concatenate([p, q]).astype(np.float64) / common
    needed = csr_array(-ones.reshape(1, -1))
    found = linprog(  # type: ignore[call-overload]  # its stubs know no sparse matrix
        costs.ravel(),
        A_ub=vstack([per_row, per_column, needed]),
        b_ub=np.append(limits, -float(1 - loss)),
        method="highs",
    )
    return max(0.0, float(found.fun))
