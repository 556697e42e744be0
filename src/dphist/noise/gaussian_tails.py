"""Tail sums of exp(−x²/(2V)) over the integers: the table and the integral behind `dphist.noise.tails`."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_ndtr

__all__ = ["gaussian_log_normaliser", "gaussian_log_tail_bounds"]

_Floats: TypeAlias = NDArray[np.float64]

LARGEST_TABLE_STD = 4096
_DEEPEST_EXPONENT = 690.0  # exp(−690) is still a normal float
_SLACK = 2.0**-46


def gaussian_log_normaliser(variance: Fraction) -> float:
    """log Σ_x exp(−x²/(2·variance)) over all integers, within 10^−14 or so.

    By Poisson summation the sum is √(2π·variance)·(1 + 2Σ_k exp(−2π²·variance·k²)); either series has terms that fall
    faster than geometrically, and the one with the smaller ratio is used.
    """
    spread = float(variance)
    if spread < 1:
        steps = np.arange(1, 10)
        return float(np.log1p(2 * np.sum(np.exp(-(steps**2) / (2 * spread)))))
    return float(0.5 * np.log(2 * np.pi * spread) + np.log1p(2 * np.exp(-2 * np.pi**2 * spread)))


@dataclass(frozen=True, slots=True)
class _TailTable:
    """sums[k] ≈ Σ_{x ≥ k} exp(−x²/(2V)) up to the last k, with `rest` ≥ what lies beyond; relative error ≤ slack."""

    sums: _Floats
    rest: float
    slack: float


@lru_cache(maxsize=8)
def _tail_table(variance: Fraction) -> _TailTable:
    """Sums from the far end inwards: only positive numbers, the small ones first.

    Each term is off by at most 2^−42 (the exponent, below 690, is rounded three times), and adding n numbers one
    after the other by at most n·2^−53 of the sum. Should `rest` be too small for a float, it is nothing beside sums
    of at least exp(−690).
    """
    rate = float(1 / (2 * variance))
    last = int(np.sqrt(_DEEPEST_EXPONENT / rate))
    points = np.arange(last + 1, dtype=np.float64)
    sums = np.cumsum(np.exp(-rate * points * points)[::-1])[::-1]
    sums.flags.writeable = False
    rest = float(np.exp(-rate * (last + 1.0) ** 2) / -np.expm1(-rate * (2 * last + 3.0)))
    return _TailTable(sums, rest, 2.0**-42 + (last + 1) * 2.0**-52)


def gaussian_log_tail_bounds(variance: Fraction, t: _Floats) -> tuple[_Floats, _Floats]:
    """Lower and upper bounds on log Pr[Z > t] for t ≥ 0 and Z discrete Gaussian."""
    first = t + 1
    if variance > LARGEST_TABLE_STD**2:
        low, high = _integral_bounds(float(variance), first)
    else:
        low, high = _summed_bounds(variance, first)
    normaliser = gaussian_log_normaliser(variance)
    return low - normaliser, high - normaliser


def _summed_bounds(variance: Fraction, first: _Floats) -> tuple[_Floats, _Floats]:
    """Bounds on log Σ_{x ≥ first} exp(−x²/(2V)) from the table, and from one term beyond it.

    Beyond the table the first term is a lower bound; terms fall by at least the first ratio exp(−(2·first + 1)/(2V)),
    so dividing by one minus it is an upper bound.
    """
    table, rate = _tail_table(variance), float(1 / (2 * variance))
    inside = first < table.sums.size
    sums = table.sums[np.where(inside, first, 0).astype(np.int64)]
    term = -rate * first * first
    beyond_slack = _SLACK * (1 + np.abs(term))
    geometric = term - np.log(-np.expm1(-rate * (2 * first + 1)))
    low = np.where(inside, np.log(sums) - table.slack, term - beyond_slack)
    high = np.where(inside, np.log(sums + table.rest) + table.slack, geometric + beyond_slack)
    return low, high


def _integral_bounds(variance: float, first: _Floats) -> tuple[_Floats, _Floats]:
    """Bounds on log Σ_{x ≥ first} f(x), f(x) = exp(−x²/(2V)), from its integral, for a standard deviation above 4096.

    The integral of f over [x − ½, x + ½] minus f(x) is the integral of f'' against a kernel between 0 and 1/8. From
    a = first − ½ ≥ σ on f is convex, so the sum lies between ∫ − |f'(a)|/8 and ∫, where ∫ is the integral from a.
    For smaller a both signs of f'' occur, and ∫|f''| ≤ 4·max|f'| < 2.43/σ, so the sum is within 0.31/σ of ∫.
    """
    std = np.sqrt(variance)
    start = first - 0.5
    integral = 0.5 * np.log(2 * np.pi * variance) + log_ndtr(-start / std)
    slack = _SLACK * (1 + np.abs(integral))
    convex = start >= std
    slope = start / variance * np.exp(-(start * start) / (2 * variance) - integral)
    wobble = 0.31 / std * np.exp(-np.where(convex, 0.0, integral))
    low = integral + np.log1p(-np.where(convex, slope / 8, wobble))
    high = integral + np.log1p(np.where(convex, 0.0, wobble))
    return low - slack, high + slack
