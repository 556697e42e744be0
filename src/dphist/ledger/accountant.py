"""The accountant: what an event costs in every way of adding up. docs/composition.md has the table and the proofs.

Every price is rounded up. Where nothing is proved the price is (0, 1): no noise, and a bad event for certain.
"""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from typing import Final, assert_never

from dphist.checks import proved
from dphist.errors import InvalidParameter
from dphist.mechanisms.surcharge import COST_UP, LARGEST_EPSILON, next_double
from dphist.noise import delta_surcharge
from dphist.privacy import events
from dphist.privacy.composition import PrivacyCost, mu_of_range, of_declared_rho, of_gaussian, of_pure, together, worst
from dphist.privacy.events import Event

_NOTHING: Final = (0.0, 1.0)
LARGEST_RECORDED: Final = 1e6


@proved("composition.md#lemma-1")
def price(event: Event, composed_epsilon: float = LARGEST_EPSILON) -> PrivacyCost:
    """What an event costs in a budget with this epsilon.

    In such a budget an error s of the noise sampler on either side costs (1 + e^composed_epsilon) s, which is part of every
    d.
    """
    if not 0 < composed_epsilon <= LARGEST_EPSILON:
        hint = "beyond it the noise samplers are not exact enough to add up."
        raise InvalidParameter(f"a budget with epsilon of at most {LARGEST_EPSILON:g}", composed_epsilon, hint)
    return _price(event, composed_epsilon)


def _price(event: Event, composed: float) -> PrivacyCost:
    match event:
        case events.GaussianEvent(mu):
            return of_gaussian(mu, 0.0, epsilon=0.0, delta=1.0)
        case events.ConcentratedEvent(rho, known):
            cost = PrivacyCost(*_NOTHING, rho, 0.0, *_NOTHING) if known is None else _price(known, composed)
            return replace(cost, rho=min(rho, cost.rho))
        case events.PureEvent(epsilon):
            return of_pure(epsilon)
        case events.ChoiceEvent(length):
            return replace(of_pure(length), mu=mu_of_range(length))
        case events.RepeatedEvent(parts, times):
            return _repeated([_price(one, composed) for one in parts], times)
        case events.ComposedEvent(parts):
            return together(_price(one, composed) for one in parts)
        case events.WorstOfEvent(parts):
            return worst(_price(one, composed) for one in parts)
        case events.ApproximateEvent(inner, delta, error):
            d = delta + (delta_surcharge(composed, 0, Fraction(error)) if error else 0.0)
            cost = _price(inner, composed)
            return replace(cost, delta=cost.delta + d, rho_delta=cost.rho_delta + d, mu_delta=cost.mu_delta + d)
        case events.ProfileEvent():
            return _of_profile(event, composed)
        case events.WholeEvent(inner, epsilon, delta):
            return replace(_price(inner, composed), epsilon=epsilon, delta=delta)
        case _:
            assert_never(event)


def _repeated(costs: list[PrivacyCost], times: int) -> PrivacyCost:
    """Several mechanisms, each of them `times` times: epsilons, rhos, squares of mus and d's add up."""
    epsilon, delta, rho, rho_delta, mu_delta = (
        times * math.fsum(getattr(cost, name) for cost in costs) * COST_UP
        for name in ("epsilon", "delta", "rho", "rho_delta", "mu_delta")
    )
    mu = math.sqrt(times) * math.hypot(*(cost.mu for cost in costs)) * COST_UP
    return PrivacyCost(epsilon, delta, rho, rho_delta, mu, mu_delta)


def _of_profile(event: events.ProfileEvent, composed: float) -> PrivacyCost:
    """The price of the noise where it has one, otherwise the price that (epsilon, delta) implies.

    A ledger reads every delta as the shortest decimal that names the double, so each delta is one double larger than
    computed.
    """
    profile = of_pure(event.epsilon, event.delta_of_double)
    noise = profile if event.event is None else _price(event.event, composed)
    zcdp = noise if (noise.rho, noise.rho_delta) != _NOTHING else profile
    gdp = noise if (noise.mu, noise.mu_delta) != _NOTHING else profile
    rho_delta, mu_delta = next_double(zcdp.rho_delta), next_double(gdp.mu_delta)
    return PrivacyCost(event.epsilon, event.delta, zcdp.rho, rho_delta, gdp.mu, mu_delta)


def declared_cost(
    epsilon: float | None, delta: float, rho: float | None, convert_at: float | None
) -> tuple[PrivacyCost, dict[str, float]]:
    """The cost of a release elsewhere, from (epsilon, delta), or from (rho, delta) and a further delta for its epsilon."""
    if (epsilon is None) == (rho is None):
        hint = "what the release elsewhere cost: --epsilon 0.5 --delta 1e-9, for example."
        raise InvalidParameter("--epsilon or --rho", "both" if rho is not None else "neither", hint)
    if not 0 <= delta <= 1:
        raise InvalidParameter("--delta in [0, 1]", delta)
    given = epsilon if rho is None else rho
    if given is None or not 0 <= given <= LARGEST_RECORDED:
        raise InvalidParameter(
            f"--epsilon or --rho in [0, {LARGEST_RECORDED:g}]", given, "--delta 1 says that everything was told."
        )
    if rho is None:
        if convert_at is not None:
            raise InvalidParameter("--convert-at beside --rho only", "beside --epsilon")
        return of_pure(given, delta), {"epsilon": given, "delta": delta}
    if convert_at is None or not 0 < convert_at < 1:
        raise InvalidParameter(
            "--convert-at in (0, 1) beside --rho", convert_at, "basic and gdp pay it on top of --delta; try 1e-9."
        )
    declared = {"rho": rho, "delta": delta, "convert_at": convert_at}
    return of_declared_rho(rho, delta, convert_at=convert_at), declared
