"""The privacy-loss distribution of a fixed list of spends, with its atom at infinity: shown for comparison.

Needs the extra [accounting]. It is an upper bound (losses are rounded up to a grid) for a list that was not chosen in view of
results; no filter is built on it.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable

from dphist.errors import MissingExtra
from dphist.privacy.composition import PrivacyCost

MOST_RESPONSES = 64
"""So many different pure epsilons are composed as they are; the rest by their mu."""


def epsilon_of_losses(costs: Iterable[PrivacyCost] | Counter[PrivacyCost], delta: float, grid: float = 1e-4) -> float:
    """The epsilon at delta of all spends together; infinite if the d's alone exceed it.

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
    total = privacy_loss_distribution.from_privacy_parameters(
        common.DifferentialPrivacyParameters(0.0, atom), value_discretization_interval=grid
    )
    if (mu := math.sqrt(math.fsum(squares))) > 0:
        gaussian = privacy_loss_distribution.from_gaussian_mechanism(1 / mu, value_discretization_interval=grid)
        total = total.compose(gaussian)
    for epsilon, number in responses.items():
        one = privacy_loss_distribution.from_privacy_parameters(
            common.DifferentialPrivacyParameters(epsilon, 0.0), value_discretization_interval=grid
        )
        total = total.compose(one.self_compose(number))
    return float(total.get_epsilon_for_delta(delta))
