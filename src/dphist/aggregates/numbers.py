"""Numbers in SQL, which every engine reads alike."""

from __future__ import annotations

from typing import Final

LARGEST_RECORD: Final = 2.0**62
LARGEST_SUM: Final = 2**61
"""Sums in steps saturate here, a public limit: saturation never adds to what one unit can change, wrapping would. With noise
of at most 2^58 steps int64 is enough."""


def clamped(sql: str, lower: float, upper: float) -> str:
    """Never on a null: LEAST and GREATEST would skip it and return the bound."""
    return f"LEAST(GREATEST({sql}, {double(lower)}), {double(upper)})"


def saturated(whole: str) -> str:
    """A sum that may leave 64 bits, kept inside the range that histograms promise."""
    return f"CAST(LEAST(GREATEST({whole}, -{LARGEST_SUM}), {LARGEST_SUM}) AS BIGINT)"


def double(value: float) -> str:
    """A double to the last bit."""
    return f"CAST('{float(value)!r}' AS DOUBLE)"
