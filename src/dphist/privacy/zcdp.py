"""Zero-concentrated differential privacy: from rho to (epsilon, delta)."""

from __future__ import annotations

import math

from dphist.privacy.gaussian import raise_for_rounding
from dphist.privacy.search import edge, minimise, smallest


def delta_from_rho(rho: float, epsilon: float) -> float:
    """[CKS20] Proposition 7: the infimum over alpha > 1 of e^((alpha-1)(alpha rho - epsilon))/(alpha-1) (1 - 1/alpha)^alpha.

    Every alpha gives a valid bound, so an imperfect minimum is safe. Rounded up, at most 1.
    """
    if rho == 0:
        return 0.0

    def log_delta(log_x: float) -> float:
        x = math.exp(log_x)  # alpha - 1
        log_ratio = -math.log1p(1 / x) if x > 1 else log_x - math.log1p(x)  # log(1 - 1/alpha), without cancellation
        return x * ((1 + x) * rho - epsilon) - log_x + (1 + x) * log_ratio

    # (alpha-1)(alpha rho - epsilon) is smallest at alpha = (epsilon/rho + 1)/2; the last factors move that by ~1/sqrt(rho).
    top = math.log(epsilon / rho + 10 / math.sqrt(rho) + 10.0)
    _, value = minimise(log_delta, -40.0, top, tolerance=1e-9)
    return raise_for_rounding(math.exp(min(value, 0.0)))


def epsilon_from_rho(rho: float, delta: float) -> float:
    """The smallest epsilon >= 0 with delta_from_rho(rho, epsilon) <= delta."""
    simple = rho + 2 * math.sqrt(rho * math.log(1 / delta))  # [BS16] Proposition 1.3, always enough
    return edge(lambda e: delta_from_rho(rho, e), delta, simple * (1 + 1e-9), 0.0)


def smallest_std(epsilon: float, target_delta: float, rho_at_one: float) -> float:
    """The smallest std, to 1e-6 relative and from above, for which rho = rho_at_one/std^2 meets the target."""

    def delta_at(log_std: float) -> float:
        return delta_from_rho(rho_at_one * math.exp(-2 * log_std) * (1 + 1e-12), epsilon)

    return math.exp(smallest(delta_at, target_delta, start=0.0, low=-30.0, high=60.0, tolerance=1e-8))
