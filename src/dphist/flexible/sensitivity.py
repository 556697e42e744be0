"""Sensitivities of a function over a finite set of inputs, by going through all of them: to check small steps of one's own."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

X = TypeVar("X")
Y = TypeVar("Y")


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
