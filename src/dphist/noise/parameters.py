"""Checks that the noise functions share: exact numbers stay exact, whole numbers are whole."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from dphist.errors import InvalidParameter

__all__ = ["LARGEST_SAMPLE", "exact_fraction", "whole_number"]

LARGEST_SAMPLE = 1 << 40
"""More values than this in one call are a mistake, not a request."""


def exact_fraction(name: str, value: object) -> Fraction:
    """The value as a Fraction; refuse everything whose exact value is not plain to see, floats above all."""
    if isinstance(value, bool) or not isinstance(value, int | Fraction):
        hint = "Fraction(x) is the exact value that a float x holds"
        raise InvalidParameter(f"{name} as an int or a Fraction", repr(value), hint)
    return Fraction(value)


def whole_number(name: str, value: object, low: int, high: int) -> int:
    """The value as an int between `low` and `high`."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or not low <= value <= high:
        raise InvalidParameter(f"{name} as an int in [{low}, {high}]", repr(value))
    return int(value)
