"""(alpha, beta, gamma)-accuracy [BCDP22, Definition 3] and how it composes: small calculators for one's own mechanisms."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from dphist import checks
from dphist.errors import InvalidParameter
from dphist.flexible.masses import share

Sensitivity = Callable[[float], float]


@dataclass(frozen=True, slots=True)
class Accuracy:
    """An answer within beta of the function of an input at distortion <= alpha, but for a probability gamma."""

    alpha: float
    beta: float
    gamma: float = 0.0

    def __post_init__(self) -> None:
        checks.check_not_negative("alpha", self.alpha)
        checks.check_not_negative("beta", self.beta)
        share("gamma", self.gamma)


def identity(amount: float) -> float:
    """The distortion sensitivity of the identity on histograms: what is dropped after it can be dropped before it."""
    return amount


def error_sensitivity(metric_sensitivity: Sensitivity) -> Callable[[float, float], float]:
    """[BCDP22] Lemma 2: for a deterministic function computed exactly, tau(beta, 0) is its metric sensitivity at beta.

    The metric sensitivity of f at beta is the largest distance of f(x) and f(x') for inputs at distance beta. Lossy inputs
    (gamma > 0) are outside the lemma.
    """

    def of(beta: float, gamma: float) -> float:
        if gamma != 0:
            raise InvalidParameter("an exact first step, gamma = 0", gamma, "Lemma 2 is stated for gamma = 0.")
        return metric_sensitivity(beta)

    return of


def compose(
    first: Accuracy,
    *,
    distortion_sensitivity: Sensitivity = identity,
    second_alpha: float = 0.0,
    second_gamma: float = 0.0,
    second_error: Callable[[float, float], float],
) -> Accuracy:
    """[BCDP22] Theorem 1: the accuracy of a second mechanism run on the output of a first one.

    alpha = alpha_1 + sigma_f1(alpha_2), beta = tau_M2,f2(beta_1, gamma_1), gamma = gamma_2, where tau is the error
    sensitivity of the second mechanism with alpha_2 and gamma_2 allowed. sigma must be finite.
    """
    alpha = first.alpha + distortion_sensitivity(second_alpha)
    return Accuracy(alpha, second_error(first.beta, first.gamma), second_gamma)


def own_function(*, bars: int, q: int, records: int, error: float, eta: float) -> Accuracy:
    """[BCDP22] Theorem 6: any function of the private histogram is exact for an input at distortion alpha + eta beta.

    alpha = bars q/records, beta = error, the furthest that bucketing moves a record: bars * q records at most were dropped, all
    others moved by at most beta. Distortion is `drop_and_move_distance` with the same eta; alpha is rounded up.
    """
    for name, value in (("bars", bars), ("records", records)):
        checks.check_whole(name, value)
    checks.check_whole("q", q, least=0)
    checks.check_not_negative("error", error)
    checks.check_positive("eta", eta)
    return Accuracy(math.nextafter(min(1.0, bars * q / records) + eta * error, math.inf), 0.0)


def after_preprocessing(epsilon: float, delta: float, *, neighbours_stay_neighbours: bool) -> tuple[float, float]:
    """[BCDP22] Theorem 2: a step that maps neighbours to neighbours keeps the guarantee of what comes after it.

    Clamping and bucketing are such steps: each record is mapped by itself. Without the property there is no guarantee at all.
    """
    if not neighbours_stay_neighbours:
        raise InvalidParameter("a step that maps neighbouring inputs to neighbouring or equal ones", "another")
    return epsilon, delta
