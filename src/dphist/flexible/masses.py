"""Finite distributions and histograms with exact masses: "mass >= 1 - gamma" is a comparison that floats would flip."""

from __future__ import annotations

import math
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
