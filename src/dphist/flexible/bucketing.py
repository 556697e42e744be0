"""Buckets of equal width over a public range, in one and in d dimensions [BCDP22, Algorithms 2 and 4, corrected].

The paper's floor is wrong and its last bucket can lie outside the range; in d dimensions its width 2 beta has an l2 error of
beta sqrt(d). Here t = ceil(range/(2 beta)) buckets (times sqrt(d) for l2) divide the range exactly, so half a width is at most
beta. Values outside are clamped first. Each record is mapped by itself: neighbouring data sets stay neighbours (Theorem 2).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dphist import checks
from dphist.errors import InvalidParameter

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Metric = Literal["l2", "max"]

MOST_BUCKETS = 2**40


@dataclass(frozen=True, slots=True)
class Buckets:
    """The buckets of [lower, upper] for an error beta per value; both ends are public."""

    lower: float
    upper: float
    error: float

    def __post_init__(self) -> None:
        check_range(self.lower, self.upper)
        checks.check_positive("error", self.error)
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
        """min(floor((value - lower)/width), t - 1) of the clamped values."""
        clamped = np.clip(np.asarray(values, dtype=np.float64), self.lower, self.upper)
        return np.minimum(np.floor((clamped - self.lower) / self.width), self.number - 1).astype(np.int64)

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
        for low, high in zip(self.lower, self.upper, strict=True):
            check_range(low, high)
        checks.check_positive("error", self.error)
        checks.check_choice("metric", self.metric, ("l2", "max"))

    @property
    def axes(self) -> tuple[int, ...]:
        """The buckets of each axis: the least t with t^2 >= (range/(2 beta))^2 d, in exact numbers."""
        dimensions = len(self.lower) if self.metric == "l2" else 1
        found = []
        for low, high in zip(self.lower, self.upper, strict=True):
            squared = ((_decimal(high) - _decimal(low)) / (2 * _decimal(self.error))) ** 2 * dimensions
            whole = math.ceil(squared)
            root = math.isqrt(whole)
            found.append(max(1, root if root * root >= squared else root + 1))
        return tuple(found)

    @property
    def number(self) -> int:
        """All buckets: the product of the axes."""
        return math.prod(self.axes)

    def index(self, points: ArrayLike) -> Integers:
        """The buckets of points (one row each), one column per axis."""
        array = np.atleast_2d(np.asarray(points, dtype=np.float64))
        clamped = np.clip(array, self.lower, self.upper)
        found: Floats = np.minimum(np.floor((clamped - self.lower) / self._widths), np.array(self.axes) - 1)
        return found.astype(np.int64)

    def centre(self, index: ArrayLike) -> Floats:
        """The centres of buckets."""
        centres: Floats = np.asarray(self.lower) + (np.asarray(index, dtype=np.float64) + 0.5) * self._widths
        return centres

    @property
    def _widths(self) -> Floats:
        widths: Floats = (np.asarray(self.upper) - np.asarray(self.lower)) / np.asarray(self.axes)
        return widths


def check_range(lower: float, upper: float) -> None:
    """Two finite numbers, lower < upper."""
    if not (math.isfinite(lower) and math.isfinite(upper) and lower < upper):
        raise InvalidParameter("finite lower < upper", (lower, upper), "choose the range without looking at the data.")


def count_rows(index: Integers) -> tuple[Integers, Integers]:
    """Different rows (or values) and how often each occurs: the histogram of bucketed records."""
    found, counts = np.unique(index, axis=0, return_counts=True)
    return found, counts.astype(np.int64)


def _decimal(value: float) -> Fraction:
    """A float as the decimal number that is written for it: 0.1 is 1/10, so that 120/0.1 has no bucket too many."""
    return Fraction(repr(float(value)))
