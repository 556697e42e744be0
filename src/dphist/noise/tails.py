"""Probabilities of the discrete laws in log space, for the thresholds of mechanisms that add them.

Rounding direction, the same everywhere: `log_tail` is never below log Pr[Z > t] and `log_cdf` never above log Pr[Z ≤
t], so a threshold found with either is safe. Both are tight for probabilities above 10^−290: the relative error of
the smaller of the two probabilities is below 10^−9 up to a standard deviation of 4096, and below (1 + (t/σ)²)/σ² beyond.
`log_pmf` is the nearest value, within 10^−12·(1 + |log|).

Every function takes an array of whole numbers t and returns an array of the same shape.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dphist.noise.gaussian_tails import gaussian_log_normaliser, gaussian_log_tail_bounds
from dphist.noise.laws import DiscreteGaussian, DiscreteLaplace, TruncatedDiscreteLaplace

__all__ = ["DiscreteLaw", "log_cdf", "log_pmf", "log_tail"]

DiscreteLaw: TypeAlias = DiscreteGaussian | DiscreteLaplace | TruncatedDiscreteLaplace
_Floats: TypeAlias = NDArray[np.float64]

_SLACK = 2.0**-46
"""Relative and absolute room for the rounding of a handful of float operations and library functions."""


def log_pmf(law: DiscreteLaw, x: ArrayLike) -> _Floats:
    """log Pr[Z = x]."""
    points = np.asarray(x, dtype=np.float64)
    if isinstance(law, DiscreteGaussian):
        exponent: _Floats = points * points * float(1 / (2 * law.variance))
        return -exponent - gaussian_log_normaliser(law.variance)
    if isinstance(law, DiscreteLaplace):
        rate = float(1 / law.scale)  # (1 − e^−r)/(1 + e^−r) = tanh(r/2)
        distance: _Floats = np.abs(points) * rate
        return float(np.log(np.tanh(rate / 2))) - distance
    rate, j = float(law.epsilon), points + law.q
    inside = (j >= 0) & (j <= law.q)
    weight = -rate * (law.q // 2 - np.minimum(j, law.q - j))
    return np.where(inside, weight - _truncated_log_total(law), -np.inf)


def log_tail(law: DiscreteLaw, t: ArrayLike) -> _Floats:
    """log Pr[Z > t], rounded up."""
    points = np.asarray(t, dtype=np.float64)
    if isinstance(law, TruncatedDiscreteLaplace):
        return _truncated_log_tail(law, points)
    # Z is symmetric: Pr[Z > t] = 1 − Pr[Z > −t − 1] for t < 0.
    low, high = _log_tail_bounds(law, np.where(points >= 0, points, -points - 1))
    return np.where(points >= 0, high, _log_complement(low) * (1 - _SLACK))


def log_cdf(law: DiscreteLaw, t: ArrayLike) -> _Floats:
    """log Pr[Z ≤ t], rounded down."""
    points = np.asarray(t, dtype=np.float64)
    if isinstance(law, TruncatedDiscreteLaplace):
        # The law is symmetric about −q/2: Pr[Z ≤ t] = Pr[Z ≥ −q − t] = 1 − Pr[Z ≤ −q − t − 1].
        upper = _truncated_log_tail(law, -law.q - points - 1)
        direct = upper - 2 * _truncated_slack(law)
        complement = _log_complement(_truncated_log_tail(law, points)) * (1 + _SLACK)
        return np.where(2 * points < -law.q, direct, complement)
    low, high = _log_tail_bounds(law, np.where(points >= 0, points, -points - 1))
    return np.where(points >= 0, _log_complement(high) * (1 + _SLACK), low)


def _log_complement(log_probability: _Floats) -> _Floats:
    """log(1 − p) for p ≤ 1, without losing a small p."""
    with np.errstate(divide="ignore"):
        return np.log1p(-np.minimum(np.exp(log_probability), 1.0))


def _log_tail_bounds(law: DiscreteGaussian | DiscreteLaplace, t: _Floats) -> tuple[_Floats, _Floats]:
    """Lower and upper bounds on log Pr[Z > t] for t ≥ 0."""
    if isinstance(law, DiscreteGaussian):
        return gaussian_log_tail_bounds(law.variance, t)
    rate = float(1 / law.scale)
    nearest = -(t + 1) * rate - np.log1p(np.exp(-rate))  # q^(t+1)/(1 + q), q = e^−rate
    slack = _SLACK * (1 + np.abs(nearest))
    return nearest - slack, nearest + slack


def _truncated_log_total(law: TruncatedDiscreteLaplace) -> float:
    """log of the sum of all weights, the weight in the middle being one (exp(−ε·distance) elsewhere)."""
    rate, half = float(law.epsilon), (law.q + 1) // 2
    if law.q % 2:
        return float(np.log(2.0) + _log_geometric(rate, np.float64(half)))
    return float(np.log(1 + 2 * np.exp(-rate + _log_geometric(rate, np.float64(half)))))


def _log_geometric(rate: float, terms: _Floats | np.float64) -> _Floats:
    """log(1 + e^−rate + … + e^−rate·(terms − 1)); −inf for no terms."""
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(-np.expm1(-rate * terms)) - np.log(-np.expm1(-rate)))


def _truncated_slack(law: TruncatedDiscreteLaplace) -> float:
    return _SLACK * (1 + float(law.epsilon * law.q))


def _truncated_log_tail(law: TruncatedDiscreteLaplace, t: _Floats) -> _Floats:
    """log Pr[Z > t], rounded up: a geometric sum of what lies above t, or one minus the sum of what does not."""
    rate, half = float(law.epsilon), (law.q + 1) // 2
    total = _truncated_log_total(law)

    def edge(count: _Floats) -> _Floats:
        """Log probability of the `count` outermost values of one side: weights e^(−ε·(q//2 − count + 1)) and outwards."""
        return -rate * (law.q // 2 - count + 1) + _log_geometric(rate, count) - total

    above = np.clip(-t, 0, law.q + 1)  # how many values of {−q, …, 0} are above t
    upper = edge(np.minimum(above, half)) + _truncated_slack(law)
    below = edge(np.minimum(law.q + 1 - above, half)) - _truncated_slack(law)
    middle_and_more = np.where(above > law.q, 0.0, _log_complement(below) * (1 - _SLACK))
    return np.minimum(np.where(above <= half, upper, middle_and_more), 0.0)
