"""Flexible accuracy: statistics whose error is measured after a few records were dropped [BCDP22].

Buckets have equal width over a public range, in one and in d dimensions [BCDP22, Algorithms 2 and 4, corrected]. The
paper's floor is wrong and its last bucket can lie outside the range; in d dimensions its width 2 beta has an l2 error of
beta sqrt(d). Here t = ceil(range/(2 beta)) buckets (times sqrt(d) for l2) divide the range exactly, so half a width is at most
beta. Values outside are clamped first. Each record is mapped by itself: neighbouring data sets stay neighbours (Theorem 2).

NaN is no number and has no bucket, like a null: `index` gives `NO_BUCKET` for it, and `count_rows` leaves such records out.

Values, ends and centres are doubles. What their rounding adds to beta is at most 5 units in the last place of the larger end;
an error below 1,024 of these units is refused.

Statistics of a private histogram are post-processing, so they cost no budget.

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
from typing import Any, Final, Literal, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dphist import checks
from dphist.errors import InvalidParameter
from dphist.mechanisms import TruncatedLaplace

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Metric = Literal["l2", "max"]

MOST_BUCKETS = 2**40
NO_BUCKET = -(2**63)
"""Not -1, which is a common label of points."""
SMALLEST_ERROR_IN_ULPS = 1024


@dataclass(frozen=True, slots=True)
class Buckets:
    """The buckets of [lower, upper] for an error beta per value; both ends are public."""

    lower: float
    upper: float
    error: float

    def __post_init__(self) -> None:
        for name in ("lower", "upper", "error"):
            object.__setattr__(self, name, as_double(name, getattr(self, name)))
        check_range(self.lower, self.upper, self.error)
        if self.number > MOST_BUCKETS:
            raise InvalidParameter("at most 2^40 buckets", self.number, "allow a larger error or a narrower range.")

    @property
    def number(self) -> int:
        """t = ceil((upper - lower)/(2 beta)), computed exactly."""
        return math.ceil((_decimal(self.upper) - _decimal(self.lower)) / (2 * _decimal(self.error)))

    @property
    def width(self) -> float:
        """(upper - lower)/t."""
        return (self.upper - self.lower) / self.number

    def index(self, values: ArrayLike) -> Integers:
        """min(floor((value - lower)/width), t - 1) of the clamped values; NO_BUCKET for NaN."""
        return _places(np.asarray(values, dtype=np.float64), self.lower, self.upper, self.width, self.number)

    def centre(self, index: ArrayLike) -> Floats:
        """lower + (index + 1/2) width: at most beta from every value of the bucket, up to the rounding of doubles."""
        return self.lower + (np.asarray(index, dtype=np.float64) + 0.5) * self.width


@dataclass(frozen=True, slots=True)
class Grid:
    """Buckets of points in d dimensions: error beta in the l2 norm (width 2 beta/sqrt(d)) or the largest coordinate."""

    lower: tuple[float, ...]
    upper: tuple[float, ...]
    error: float
    metric: Metric = "l2"

    def __post_init__(self) -> None:
        if len(self.lower) != len(self.upper) or not self.lower:
            raise InvalidParameter("as many lower as upper ends, at least one", (len(self.lower), len(self.upper)))
        checks.check_choice("metric", self.metric, ("l2", "max"))
        for name in ("lower", "upper"):
            object.__setattr__(self, name, tuple(as_double(name, value) for value in getattr(self, name)))
        object.__setattr__(self, "error", as_double("error", self.error))
        share = self.error / math.sqrt(len(self.lower)) if self.metric == "l2" else self.error
        for low, high in zip(self.lower, self.upper, strict=True):
            check_range(low, high, share)
        if max(self.axes) > MOST_BUCKETS:
            raise InvalidParameter("at most 2^40 buckets on each axis", max(self.axes), "allow a larger error.")

    @property
    def axes(self) -> tuple[int, ...]:
        """The buckets of each axis: the least t with t^2 >= (range/(2 beta))^2 d, in exact numbers."""
        dimensions = len(self.lower) if self.metric == "l2" else 1
        squares = [
            ((_decimal(high) - _decimal(low)) / (2 * _decimal(self.error))) ** 2 * dimensions
            for low, high in zip(self.lower, self.upper, strict=True)
        ]
        return tuple(math.isqrt(math.ceil(squared) - 1) + 1 for squared in squares)

    @property
    def number(self) -> int:
        """All buckets: the product of the axes."""
        return math.prod(self.axes)

    def index(self, points: ArrayLike) -> Integers:
        """The buckets of points (one row each), one column per axis; NO_BUCKET where a coordinate is NaN."""
        array = np.atleast_2d(np.asarray(points, dtype=np.float64))
        return _places(array, self.lower, self.upper, self._widths, self.axes)

    def centre(self, index: ArrayLike) -> Floats:
        """The centres of buckets."""
        centres: Floats = np.asarray(self.lower) + (np.asarray(index, dtype=np.float64) + 0.5) * self._widths
        return centres

    @property
    def _widths(self) -> Floats:
        widths: Floats = (np.asarray(self.upper) - np.asarray(self.lower)) / np.asarray(self.axes)
        return widths


def _places(values: Floats, lower: ArrayLike, upper: ArrayLike, width: ArrayLike, number: ArrayLike) -> Integers:
    places = np.floor((np.clip(values, lower, upper) - np.asarray(lower)) / width)
    return np.where(np.isnan(places), NO_BUCKET, np.minimum(places, np.asarray(number) - 1)).astype(np.int64)


def as_double(name: str, value: float) -> float:
    """A number that a double holds exactly: an end that is rounded silently would not be the end that was asked for."""
    try:
        found = float(value)
    except OverflowError:
        found = math.inf
    if isinstance(value, int) and math.isfinite(found) and int(found) != value:
        raise InvalidParameter(f"{name} to be a number that a double holds", value, f"{found!r} is the nearest one.")
    return found


def check_range(lower: float, upper: float, error: float) -> None:
    """Two finite numbers, lower < upper, and an error that doubles between them can resolve."""
    if not (math.isfinite(lower) and math.isfinite(upper) and lower < upper and math.isfinite(upper - lower)):
        raise InvalidParameter("finite lower < upper", (lower, upper), "choose the range without looking at the data.")
    checks.check_positive("error", error)
    least = SMALLEST_ERROR_IN_ULPS * math.ulp(max(abs(lower), abs(upper)))
    if error < least:
        raise InvalidParameter(
            f"an error of at least {least!r} for values up to {max(abs(lower), abs(upper))!r}",
            repr(error),
            "doubles are too coarse for less; subtract a public number from the column, or allow a larger error.",
        )


def count_rows(index: Integers) -> tuple[Integers, Integers]:
    """Different rows (or values) and how often each occurs: the histogram of bucketed records.

    Records without a bucket are left out, as those with a null are when a file is read.
    """
    rows = np.asarray(index)
    placed = rows != NO_BUCKET
    found, counts = np.unique(rows[placed if rows.ndim == 1 else placed.all(axis=1)], axis=0, return_counts=True)
    return found, counts.astype(np.int64)


def _decimal(value: float) -> Fraction:
    """A float as the decimal number that is written for it: 0.1 is 1/10, so that 120/0.1 has no bucket too many."""
    return Fraction(repr(float(value)))


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
