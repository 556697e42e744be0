"""How far one histogram is from another: records dropped, moved, or both [BCDP22, Section 3 and Appendix I].

Histograms are {value: count}. The edge cases that the paper leaves open: two empty histograms are at distance 0, and an empty
histogram is reached from any other by dropping everything (distance 1).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from dphist import checks
from dphist.flexible.infinity import bottleneck_into, lossy_infinity_on_line

Histogram = Mapping[Any, int]


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
