"""What one release costs in every way of adding up, and how the ways turn into each other. docs/composition.md has the proofs.

A pair of neighbouring laws P, Q has cost (noise, d) when there are laws P', Q' that differ by no more than `noise` says and
agree with P, Q outside an event of probability at most d under P (the good-event lemma; in both directions). Then, whatever is
chosen in view of earlier results, the d's add up, and the noise adds up by itself: epsilons, rhos, or squares of mus.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import Any

from dphist.checks import proved
from dphist.errors import InvalidParameter, MissingExtra
from dphist.privacy.gaussian import raise_for_rounding
from dphist.privacy.search import edge, minimise, smallest
from dphist.privacy.special import ndtri_exp

MOST_RESPONSES = 64
"""`epsilon_of_losses` composes so many different pure epsilons as they are; the rest by their mu."""

LARGEST_COST = 1e140
"""Far above every budget; squares of it, and sums of these over any history, are doubles."""

_UP = 1 + 1e-12


@dataclass(frozen=True, slots=True)
class PrivacyCost:
    """The cost of one release, three times: (epsilon, delta), (rho, rho_delta) and (mu, mu_delta). Each is valid by itself."""

    epsilon: float
    delta: float
    rho: float
    rho_delta: float
    mu: float
    mu_delta: float

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if not 0 <= value <= LARGEST_COST:
                raise InvalidParameter(f"a cost {field.name} in [0, {LARGEST_COST:g}]", value)
            if field.name.endswith("delta"):
                object.__setattr__(self, field.name, min(value, 1.0))

    @property
    def response_dominates(self) -> bool:
        """Whether mu is only what (epsilon, delta) implies, so that randomised response tells more about the losses."""
        return self.mu_delta >= self.delta and self.mu >= mu_of_pure(self.epsilon)


@proved("composition.md#lemma-3")
def mu_of_pure(epsilon: float) -> float:
    """[DRS22] Section 2: an epsilon-DP mechanism is mu-GDP with mu = 2 Phi^-1(e^epsilon/(1 + e^epsilon)). Rounded up.

    Randomised response, of which every epsilon-DP pair is a post-processing, has a trade-off curve with one corner, at
    (q, q), q = 1/(1 + e^epsilon). The Gaussian curve is convex, so it lies below that curve if it does at the corner.
    """
    if epsilon == 0:
        return 0.0
    return -2 * float(ndtri_exp(-epsilon - math.log1p(math.exp(-epsilon)))) * _UP + 1e-15


@proved("composition.md#lemma-5")
def mu_of_range(length: float) -> float:
    """The mu of a choice whose privacy loss lies in some range of this length (the exponential mechanism). Rounded up.

    Such a pair is a post-processing of a pair on two points with logit(p) - logit(q) = length, and its mu is
    h(logit p) - h(logit q), h = Phi^-1 of the logistic function, which is odd and concave on the right: largest at p = 1 - q,
    where it is that of a pure epsilon of half the length. Proof in docs/composition.md, Lemma 5.
    """
    return mu_of_pure(length / 2)


@proved("composition.md#lemma-3")
def rho_of_pure(epsilon: float) -> float:
    """An epsilon-DP mechanism is epsilon tanh(epsilon/2)-zCDP: the KL divergence of randomised response. Rounded up.

    Its Renyi divergence of order a is [ln cosh((a - 1/2) epsilon) - ln cosh(epsilon/2)]/(a - 1), the integral of tanh, and
    tanh(x) <= x tanh(epsilon/2)/(epsilon/2) for x >= epsilon/2. Hence at most a epsilon tanh(epsilon/2), for every a.
    """
    return epsilon * math.tanh(epsilon / 2) * _UP


@proved("[CKS20] Proposition 7")
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


@proved("composition.md#lemma-3")
def of_pure(epsilon: float, delta: float = 0.0) -> PrivacyCost:
    """[KOV15] Theorem 3.1: an (epsilon, delta)-DP pair is a post-processing of "tell all with probability delta, else
    randomised response with epsilon": a pure epsilon with d = delta. All that is known where only this is proved.
    """
    return PrivacyCost(epsilon, delta, rho_of_pure(epsilon), delta, mu_of_pure(epsilon), delta)


@proved("composition.md#lemma-1")
def of_gaussian(mu: float, d: float, *, epsilon: float, delta: float) -> PrivacyCost:
    """A mu-GDP mechanism with a bad event of probability d; (epsilon, delta) is what its own analysis proves.

    A Gaussian pair is mu^2/2-zCDP, exactly at every order.
    """
    return PrivacyCost(epsilon, delta, mu * mu / 2 * _UP, d, mu, d)


@proved("[BS16] Section 8")
def of_declared_rho(rho: float, d: float, *, convert_at: float) -> PrivacyCost:
    """[BS16] Section 8: a spend known as d-approximate rho-zCDP; `convert_at` is a further delta for other ways to add up.

    Cut down to events of probability exactly 1 - d, P(S) <= (1 - d) P'(S) + d and (1 - d) Q'(S) <= Q(S), so the
    (epsilon, delta) of P', Q' turns into (epsilon, delta + d). Rounded up.
    """
    epsilon = epsilon_from_rho(rho, convert_at) if rho > 0 else 0.0
    delta = (d + convert_at) * _UP
    return PrivacyCost(epsilon, delta, rho, d, mu_of_pure(epsilon), delta)  # no mu is proved: that of (epsilon, delta)


@proved("composition.md#lemma-1")
def together(costs: Iterable[PrivacyCost]) -> PrivacyCost:
    """The cost of several mechanisms that see each other's results. Rounded up."""
    listed = list(costs)
    sums = {field.name: math.fsum(getattr(cost, field.name) for cost in listed) * _UP for field in fields(PrivacyCost)}
    return PrivacyCost(**sums | {"mu": math.hypot(*(cost.mu for cost in listed)) * _UP})


@proved("composition.md#lemma-1")
def worst(costs: Iterable[PrivacyCost]) -> PrivacyCost:
    """What covers each of several mechanisms, one of which will be run: the largest of everything."""
    listed = list(costs)
    return PrivacyCost(*(max(getattr(cost, field.name) for cost in listed) for field in fields(PrivacyCost)))


@proved("composition.md#three-ways-to-add-up")
def epsilon_of_losses(costs: Iterable[PrivacyCost] | Counter[PrivacyCost], delta: float, grid: float = 1e-4) -> float:
    """The epsilon at delta of a fixed list of spends, by its privacy-loss distribution; infinite if the d's alone exceed it.

    For comparison, with the extra [accounting]: an upper bound (losses are rounded up to a grid) for a list that was not
    chosen in view of results; no filter is built on it.
    Each spend is dominated by a Gaussian pair with its mu, or by randomised response with its epsilon where that is all its
    mu comes from, and in both cases by an atom at infinity of its d. Gaussian pairs add up to one, and so do the atoms.
    """
    try:
        from dp_accounting.pld import common, privacy_loss_distribution
    except ImportError:
        raise MissingExtra("accounting", "privacy-loss distributions") from None

    log_keep, squares, responses = 0.0, [0.0], Counter[float]()
    for cost, number in (costs if isinstance(costs, Counter) else Counter(costs)).items():
        if cost.response_dominates and (cost.epsilon in responses or len(responses) < MOST_RESPONSES):
            responses[cost.epsilon] += number
            d = cost.delta
        else:
            squares.append(number * cost.mu**2)
            d = cost.mu_delta
        log_keep += number * math.log1p(-d) if d < 1 else -math.inf
    atom = -math.expm1(log_keep)
    if atom >= delta:
        return math.inf

    def response(epsilon: float, delta: float) -> Any:
        parameters = common.DifferentialPrivacyParameters(epsilon, delta)
        return privacy_loss_distribution.from_privacy_parameters(parameters, value_discretization_interval=grid)

    total = response(0.0, atom)
    if (mu := math.sqrt(math.fsum(squares))) > 0:
        total = total.compose(
            privacy_loss_distribution.from_gaussian_mechanism(1 / mu, value_discretization_interval=grid)
        )
    for epsilon, number in responses.items():
        total = total.compose(response(epsilon, 0.0).self_compose(number))
    return float(total.get_epsilon_for_delta(delta))
