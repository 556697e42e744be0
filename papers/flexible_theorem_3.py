"""[BCDP22] Theorem 3, which is false for two or more bars, and what can be proved instead when q follows the data.

Calculators for continuous truncated Laplace noise; dphist draws the discrete law with a public q, which is exact
(`dphist.privacy.truncated_laplace`).
"""

from __future__ import annotations

import math

from dphist.errors import InvalidParameter

_UP = 1 + 1e-12


def delta_continuous(at: float, *, epsilon: float, q: float) -> float:
    """The profile of continuous truncated Laplace noise on [-q, 0], q >= 2 public, one bar: exact for at >= -epsilon.

    A = e^(-epsilon q/2). Up to epsilon: [2 - A - 2 e^(-(epsilon - epsilon')/2) + A e^epsilon']/(2 (1 - A)); from there on
    (e^epsilon - 1)/(2 (e^(epsilon q/2) - 1)).
    """
    if q < 2:
        raise InvalidParameter("q of at least 2", q, "the formula needs a law that is wider than two steps.")
    if at < -epsilon:
        raise InvalidParameter(f"epsilon' of at least {-epsilon:g}", at)
    a = math.exp(-epsilon * q / 2)
    if at >= epsilon:
        return _continuous_tail(epsilon, q)
    top = -2 * math.expm1(-(epsilon - at) / 2) + a * math.expm1(at)
    return top / (-2 * math.expm1(-epsilon * q / 2)) * _UP


def data_dependent_bound(
    *, epsilon: float, drop_share: float, smaller_q: float, most_bars: int, changed_bars: int = 1
) -> tuple[float, float]:
    """(epsilon', delta') of continuous noise whose q = max(q_floor, tau |x|) follows the data. Rounded up.

    tau = drop_share, q' = smaller_q >= 2 that of the smaller data set, t = most_bars non-empty bars, k = changed_bars,
    k tau <= 1, m = t - k, ln R = ln[(1 - e^(-epsilon (q' + k tau)/2))/(1 - e^(-epsilon q'/2))]:

        epsilon' = epsilon (k + max(0, m - k) k tau/2) + t ln R
        delta' = [k (e^epsilon - 1) + m (e^(epsilon k tau) - 1)]/(2 (e^(epsilon q'/2) - 1))

    It replaces the paper's Theorem 3, and needs a public bound on the bars and on the records.
    """
    k, t, tau, q = changed_bars, most_bars, drop_share, smaller_q
    if q < 2 or not 1 <= k <= t or not 0 <= k * tau <= 1:
        raise InvalidParameter("q' >= 2, 1 <= changed bars <= most bars, changed bars * share <= 1", (q, k, t, tau))
    m = t - k
    log_ratio = math.log1p(
        math.exp(-epsilon * q / 2) * math.expm1(-epsilon * k * tau / 2) / math.expm1(-epsilon * q / 2)
    )
    bound = epsilon * (k + max(0, m - k) * k * tau / 2) + t * log_ratio
    # k tau <= 1: the second part is at most m times the first, so one falling power in front keeps both finite
    shares = k + m * math.exp(-epsilon * (1 - k * tau)) * math.expm1(-epsilon * k * tau) / math.expm1(-epsilon)
    return bound * _UP, min(1.0, shares * _continuous_tail(epsilon, q) * _UP)


def _continuous_tail(epsilon: float, q: float) -> float:
    """(e^epsilon - 1)/(2 (e^(epsilon q/2) - 1)) with falling powers only. Rounded up, never 0."""
    ratio = math.expm1(-epsilon) / math.expm1(-epsilon * q / 2)
    return max(math.exp(-epsilon * (q / 2 - 1)) * ratio / 2 * _UP, 5e-324)
