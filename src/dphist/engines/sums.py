"""Sums of doubles within a unit: exact, in whatever order the rows come, and held in a few numbers.

A sorted list would do, too, but it is as long as the unit has rows: whether there is memory for it would tell how many.

A value is cut towards zero to a multiple of 2^-155 and kept inside +-2^155, so that every FLOAT32 is itself. Each value is
five whole numbers below 2^62, one per `_PLACES`, which are added as integers; their sums become one double at the end, up to
a few roundings. Infinities are the largest value, so that no sum is NaN.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

from dphist.aggregates.numbers import clamped, double

_BITS: Final = 62
_PLACES: Final = (-155, -93, -31, 31, 93)
LARGEST: Final = math.nextafter(2.0 ** (_PLACES[-1] + _BITS), 0.0)


def exact_total(number: str, whole: Callable[[str], str], exact_sum: Callable[[str], str]) -> str:
    """The sum of doubles as a double; null of none. whole: a double inside +-2^62 cut towards zero, as a 64-bit integer."""
    inside, parts = clamped(number, -LARGEST, LARGEST), []
    for place in _PLACES:
        part = whole(f"({inside} / {double(2.0**place)}) % {double(2.0**_BITS)}")
        total = exact_sum(f"CASE WHEN {number} IS NOT NULL THEN {part} END")
        read = f"CAST(CAST({total} AS VARCHAR(40)) AS DOUBLE)"  # from digits, which every engine rounds alike
        parts.append(f"{read} * {double(2.0**place)}")
    return f"({' + '.join(parts)})"
