"""Statistics of a private histogram: post-processing, so they cost no budget.

A private histogram is the histogram of some records of the true one: noise is never positive, so a bar of y <= x is x with
x - y records dropped, at most q of them. Whatever is computed from it is therefore *exact* for the input without those
records, and off by what bucketing moved (the factor of `OUTPUT_ERROR` times beta):

    max, min, quantiles    an order statistic moves by at most beta when every value does; quantiles are values of rank
                           ceil(p n), at least 1, so the median is the lower one
    mean                   an average of moves
    standard deviation     of the population (divided by n): |std(a) - std(b)| <= sqrt(mean (a - b)^2) <= beta
    range                  two ends, 2 beta
    support                Hausdorff distance beta (the paper's formula with the ends alone is false: {0, 10}, {0, 5, 10})

mode and max_k have no finite sensitivity to moves: they are offered on unbucketed data only, with output error 0.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final, TypeVar

import numpy as np
from numpy.typing import NDArray

from dphist import checks
from dphist.errors import InvalidParameter
from dphist.mechanisms import TruncatedLaplace

Integers = NDArray[np.int64]
T = TypeVar("T")

BUCKETED: Final = ("max", "min", "range", "median", "quantile", "mean", "std", "support")
UNBUCKETED: Final = ("mode", "max-k")
NAMES: Final = (*BUCKETED, *UNBUCKETED, "is-empty")
OUTPUT_ERROR: Final = {name: 2 if name == "range" else 1 for name in BUCKETED}
"""The output error in units of the error of one value."""


@dataclass(frozen=True, slots=True)
class Accuracy:
    """An answer within beta of the function of an input at distortion <= alpha, but for a probability gamma."""

    alpha: float
    beta: float
    gamma: float = 0.0

    def __post_init__(self) -> None:
        checks.check_not_negative("alpha", self.alpha)
        checks.check_not_negative("beta", self.beta)
        checks.check_between("gamma", self.gamma, 0, 1)


def own_function(*, bars: int, q: int, records: int, error: float, eta: float) -> Accuracy:
    """[BCDP22] Theorem 6: any function of the private histogram is exact for an input at distortion alpha + eta beta.

    alpha = bars q/records, beta = error, the furthest that bucketing moves a record: bars * q records at most were dropped, all
    others moved by at most beta. Distortion is `drop_and_move_distance` with the same eta; alpha is rounded up.
    """
    for name, value in (("bars", bars), ("records", records)):
        checks.check_whole(name, value)
    checks.check_whole("q", q, least=0)
    checks.check_not_negative("error", error)
    checks.check_positive("eta", eta)
    return Accuracy(math.nextafter(min(1.0, bars * q / records) + eta * error, math.inf), 0.0)


@dataclass(frozen=True, slots=True, eq=False)
class PrivateHistogram:
    """Values (or rows of coordinates) in order with noisy counts > 0. Holds no true count."""

    values: NDArray[Any]
    counts: Integers

    def apply(self, function: Callable[[NDArray[Any], Integers], T]) -> T:
        """A user's own function of values and counts: no further budget, accuracy as said for drop-and-move distortion.

        [BCDP22] Theorem 6: the answer is exact for some input at distortion alpha + eta beta.
        """
        return function(self.values, self.counts)


def sanitise(values: NDArray[Any], counts: Integers, mechanism: TruncatedLaplace) -> PrivateHistogram:
    """Draw the noise. The only function here that sees true counts; what it returns is in the order of the values."""
    kept = mechanism.perturb(counts)
    found = values[kept.index]
    order = np.argsort(found, kind="stable") if found.ndim == 1 else np.lexsort(found.T[::-1])
    return PrivateHistogram(found[order], kept.noisy[order])


def statistic(name: str, data: PrivateHistogram, *, probability: float | None = None, k: int | None = None) -> Any:
    """A statistic by its name; None where there is no answer (nothing was left, or no value has k records)."""
    checks.check_choice("the statistic", name, NAMES)
    if name == "is-empty":
        return len(data.counts) == 0
    if name == "support":
        return [_plain(value) for value in data.values]
    if len(data.counts) == 0:
        return None
    values, counts = data.values, data.counts
    match name:
        case "max":
            return _plain(values[-1])
        case "min":
            return _plain(values[0])
        case "range":
            return _plain(values[-1] - values[0])
        case "median":
            return quantile(data, 0.5)
        case "quantile":
            if probability is None:
                raise InvalidParameter("the probability of the quantile", "none", "for example 0.9.")
            return quantile(data, probability)
        case "mean":
            return mean(data)
        case "std":
            return math.sqrt(float(np.average((values - mean(data)) ** 2, weights=counts)))
        case "mode":
            return _plain(values[int(np.argmax(counts))])  # the first of equals: the lowest value
        case _:
            return max_k(data, k)


def quantile(data: PrivateHistogram, probability: float) -> float:
    """The value of rank ceil(p n), at least 1, of n records in order; the rank is computed exactly."""
    if not 0 <= probability <= 1:
        raise InvalidParameter("a probability in [0, 1]", probability)
    ends = np.cumsum(data.counts)
    rank = max(1, math.ceil(Fraction(repr(float(probability))) * int(ends[-1])))
    return float(data.values[int(np.searchsorted(ends, rank))])


def mean(data: PrivateHistogram) -> float:
    """The mean of the records that are left."""
    return float(np.average(data.values, weights=data.counts))


def max_k(data: PrivateHistogram, k: int | None) -> Any:
    """The largest value with at least k records; None if there is none."""
    if k is None:
        raise InvalidParameter("k, the records that a value must have", "none", "for example 10.")
    checks.check_whole("k", k)
    enough = np.flatnonzero(data.counts >= k)
    return _plain(data.values[int(enough[-1])]) if enough.size else None


def _plain(value: Any) -> Any:
    """A value of Python's own types. datetime has no nanoseconds (item() would be a bare integer): those stay numpy's."""
    if not isinstance(value, np.generic) or (isinstance(value, np.datetime64) and isinstance(value.item(), int)):
        return value
    return value.item()
