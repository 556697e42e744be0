"""(alpha, beta, gamma)-accuracy [BCDP22, Definition 3], what it is made of and how it composes: calculators for one's own
mechanisms.

A distortion says how far one histogram is from another: records dropped, moved, or both (Section 3 and Appendix I). Histograms
are {value: count}. The edge cases that the paper leaves open: two empty histograms are at distance 0, and an empty histogram is
reached from any other by dropping everything (distance 1). The flexible error of an answer is its distance from the nearest
answer that is right after a few records were dropped. Sensitivities of a function are found over a finite set of inputs, by
going through all of them: to check small steps of one's own.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from fractions import Fraction
from typing import Any, TypeVar

import numpy as np
from flexible_on_line import bottleneck_into, lossy_infinity_on_line
from numpy.typing import NDArray

from dphist import checks
from dphist.errors import InvalidParameter
from dphist.planning.flexible import Accuracy

Histogram = Mapping[Any, int]
Integers = NDArray[np.int64]
Sensitivity = Callable[[float], float]
X = TypeVar("X")
Y = TypeVar("Y")


def identity(amount: float) -> float:
    """The distortion sensitivity of the identity on histograms: what is dropped after it can be dropped before it."""
    return amount


def error_sensitivity(metric_sensitivity: Sensitivity) -> Callable[[float, float], float]:
    """[BCDP22] Lemma 2: for a deterministic function computed exactly, tau(beta, 0) is its metric sensitivity at beta.

    The metric sensitivity of f at beta is the largest distance of f(x) and f(x') for inputs at distance beta. Lossy inputs
    (gamma > 0) are outside the lemma.
    """

    def of(beta: float, gamma: float) -> float:
        if gamma != 0:
            raise InvalidParameter("an exact first step, gamma = 0", gamma, "Lemma 2 is stated for gamma = 0.")
        return metric_sensitivity(beta)

    return of


def compose(
    first: Accuracy,
    *,
    distortion_sensitivity: Sensitivity = identity,
    second_alpha: float = 0.0,
    second_gamma: float = 0.0,
    second_error: Callable[[float, float], float],
) -> Accuracy:
    """[BCDP22] Theorem 1: the accuracy of a second mechanism run on the output of a first one.

    alpha = alpha_1 + sigma_f1(alpha_2), beta = tau_M2,f2(beta_1, gamma_1), gamma = gamma_2, where tau is the error
    sensitivity of the second mechanism with alpha_2 and gamma_2 allowed. sigma must be finite.
    """
    alpha = first.alpha + distortion_sensitivity(second_alpha)
    return Accuracy(alpha, second_error(first.beta, first.gamma), second_gamma)


def after_preprocessing(epsilon: float, delta: float, *, neighbours_stay_neighbours: bool) -> tuple[float, float]:
    """[BCDP22] Theorem 2: a step that maps neighbours to neighbours keeps the guarantee of what comes after it.

    Clamping and bucketing are such steps: each record is mapped by itself. Without the property there is no guarantee at all.
    """
    if not neighbours_stay_neighbours:
        raise InvalidParameter("a step that maps neighbouring inputs to neighbouring or equal ones", "another")
    return epsilon, delta


def drop_distance(x: Histogram, y: Histogram) -> Fraction | float:
    """(|x| - |y|)/|x| if y is x with records dropped, else infinity."""
    if any(count > x.get(value, 0) for value, count in y.items()):
        return math.inf
    return _dropped(x, y)


def move_distance(x: Histogram, y: Histogram) -> float:
    """The least distance over which the records of x can be moved to become y; infinity if the sizes differ."""
    if _size(x) != _size(y):
        return math.inf
    return lossy_infinity_on_line(x, y) if _size(x) else 0.0


def drop_and_move_distance(x: Histogram, y: Histogram, eta: float) -> float:
    """(|x| - |y|)/|x| + eta * (the least distance of an injective matching of y into x); infinity if y is larger.

    Dropping first and moving then is the same as matching each record of y to a record of its own in x. With eta = 0 this would
    not tell histograms of one size apart, and the paper's triangle inequality (Claim 12) needs eta > 0.
    """
    checks.check_positive("eta", eta)
    return float(_dropped(x, y)) + eta * bottleneck_into(y, x)


def _dropped(x: Histogram, y: Histogram) -> Fraction:
    return Fraction(_size(x) - _size(y), _size(x)) if _size(x) else Fraction(0)


def _size(x: Histogram) -> int:
    return sum(x.values())


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


def metric_sensitivity(
    function: Callable[[X], Y],
    inputs: Sequence[X],
    beta: float,
    *,
    input_distance: Callable[[X, X], float],
    output_distance: Callable[[Y, Y], float],
) -> float:
    """The largest distance of function(x) and function(x') for inputs x, x' at distance at most beta.

    Over a finite set it is a lower bound on the sensitivity over all inputs: enough to refute one, not to prove one.
    """
    answers = [function(x) for x in inputs]
    return max(
        (
            output_distance(answers[i], answers[j])
            for i, x in enumerate(inputs)
            for j, other in enumerate(inputs)
            if input_distance(x, other) <= beta
        ),
        default=0.0,
    )


def distortion_sensitivity(
    function: Callable[[X], Y],
    inputs: Sequence[X],
    outputs: Iterable[Y],
    alpha: float,
    *,
    input_distortion: Callable[[X, X], float],
    output_distortion: Callable[[Y, Y], float],
) -> float:
    """How much the input must be distorted to explain any distortion of the output by at most alpha.

    The largest, over x and outputs y at distortion at most alpha from function(x), of the least distortion from x to an input
    x' with function(x') = y; infinity if some y is the image of no input. This is the sigma of Theorem 1.
    """
    answers = [function(x) for x in inputs]
    worst = 0.0
    for y in outputs:
        sources = [x for x, answer in zip(inputs, answers, strict=True) if answer == y]
        for x, answer in zip(inputs, answers, strict=True):
            if output_distortion(answer, y) <= alpha:
                worst = max(worst, min((float(input_distortion(x, source)) for source in sources), default=math.inf))
    return worst
