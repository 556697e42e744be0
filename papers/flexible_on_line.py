"""The gamma-lossy infinity-Wasserstein distance [BCDP22, Definition 1] on the line: the least beta that moves mass 1 - gamma.

W <= beta if and only if a maximum flow over pairs at distance <= beta moves mass of at least 1 - gamma. On the line the flow
that is missing has a closed form that a reduction computes: by Hall's theorem it is the largest P(S) - Q(points within beta
of S), and the best set S is built from left to right. Masses are whole numbers: the comparison with gamma is exact.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
from flexible_distances import Floats, Masses, Points, on_line, share, to_common_total, total


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
        if 2 * same.size > self._open.size and 8 * np.count_nonzero(same) < same.size:
            return  # nearly all is open still: moving it around costs more than it saves
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
    cuts = np.sort(np.concatenate([first, second]), kind="stable")  # two sorted runs: merged in one pass
    cuts = cuts[np.append(True, cuts[1:] != cuts[:-1])]
    distances = np.abs(x[np.searchsorted(first, cuts)] - y[np.searchsorted(second, cuts)])
    masses = np.diff(np.concatenate([np.zeros(1, dtype=cuts.dtype), cuts]))
    order = np.argsort(distances, kind="stable")
    return float(distances[order][np.searchsorted(np.cumsum(masses[order]), kept)])


def _narrow(x: Floats, p: Masses, y: Floats, q: Masses, allowed: int, low: float, high: float) -> float:
    """The smallest distance of atoms in [low, high] at which at most `allowed` is missing; it is known to hold at `high`.

    The bracket is closed to the rounding of the values, then the distance of atoms inside it is the answer. Each point asked
    for costs a pass over the atoms until the bracket is about as narrow as the atoms are close; see `_Bracket`.
    """
    missing = missing_mass(x, p, y, q, low)
    if missing <= allowed:
        return low
    chain = _Chain(x, p, y, q, low, high)
    rounding = max(2.0**-52 * float(np.abs(x).max() + np.abs(y).max() + high), 2.0**-1074)
    bracket = _Bracket(low, high, missing, allowed)
    while bracket.high - bracket.low > 2 * rounding:
        guess = bracket.guess(rounding)
        missing = chain.missing(guess)
        bracket.narrow(guess, missing)
        chain.narrow(from_above=missing <= allowed)
    return _nearest_distance(x, y, bracket.high + rounding)


class _Bracket:
    """Where the missing mass falls to what is allowed, and which point to ask for next.

    The missing mass is close to a power of the distance over wide ranges, so the line through both ends is drawn in logarithms.
    Where it meets the target near one end, twice that distance is asked for: the root is then probably between, and both ends
    move. When three points have not halved the bracket, it is halved.
    """

    def __init__(self, low: float, high: float, missing: int, allowed: int) -> None:
        self.low, self.high = low, high
        self._over = math.log(missing)
        self._under: float | None = None  # not known at the upper end that one starts with
        self._target = math.log(2 * allowed + 1) - math.log(2)
        self._widths = [math.inf] * 3

    def narrow(self, at: float, missing: int) -> None:
        """One end moves to a point whose missing mass is known."""
        log = math.log(missing) if missing else self._target - 1
        if log < self._target:
            self.high, self._under = at, log
        else:
            self.low, self._over = at, log

    def guess(self, smallest: float) -> float:
        """The next point, at least `smallest` > 0 away from both ends."""
        first = max(self.low, self.high * 2.0**-12, smallest)
        width = math.log1p((self.high - first) / first)
        stuck = self._widths.pop(0) < 2 * width
        self._widths.append(width)
        share = 0.5
        if self._under is not None and not stuck:
            share = (self._over - self._target) / (self._over - self._under)
            share = 2 * share if share < 0.25 else 2 * share - 1 if share > 0.75 else share
        return min(max(first * math.exp(share * width), self.low + smallest), self.high - smallest)


def _nearest_distance(x: Floats, y: Floats, beta: float) -> float:
    """The largest |x_i - y_j| that is not above beta: the flow is the same from there to beta."""
    right = np.searchsorted(y, x + beta, side="right") - 1
    left = np.minimum(np.searchsorted(y, x - beta, side="left"), y.size - 1)
    found = np.concatenate([y[np.maximum(right, 0)] - x, x - y[left]])
    found = found[(found <= beta) & (found >= 0)]
    return float(found.max()) if found.size else 0.0
