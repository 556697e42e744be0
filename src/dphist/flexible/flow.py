"""The gamma-lossy infinity-Wasserstein distance [BCDP22, Definition 1] on a finite metric: a maximum flow per candidate."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from dphist.errors import InvalidParameter
from dphist.flexible.masses import Floats, share, to_common_total, whole


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
