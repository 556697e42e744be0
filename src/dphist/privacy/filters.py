"""Filters: how much may be spent in all, when every spend is chosen in view of the results so far.

Two sums with two limits, both fixed before anything is spent: one for the noise, one for the d's.

    basic   sum epsilon_i <= epsilon,  sum delta_i <= delta                                          [RRUV16] Theorem 4.1
    zcdp    sum rho_i <= rho_B,        sum d_i <= d_B,   d_B + delta_CKS(rho_B, epsilon) <= delta    [FZ21], [WRRW23]
    gdp     sum mu_i^2 <= mu_B^2,      sum d_i <= d_B,   d_B + delta_G(mu_B, epsilon) <= delta       [ST22], [KTH23]

The one condition sum d_i + delta_G(sqrt(sum mu_i^2), epsilon) <= delta would be false: who watches the privacy loss spends
what is left as d when the loss is low, and goes on with noise when it is high. A test searches for exactly that.

Budgets are kept in decimal, as people write them: ten times 0.1 is 1. An epsilon or a delta is the shortest decimal that names
its double, and a cost is proved for that decimal (`Mechanism.event`). Sums are whole multiples of 10^-100, each term rounded
up: exact, whatever the order.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Final, Literal, get_args

from dphist.checks import proved
from dphist.errors import Infeasible
from dphist.privacy.composition import PrivacyCost, delta_from_rho
from dphist.privacy.gaussian import ROUNDING, delta_gaussian, largest_mu, raise_for_rounding
from dphist.privacy.search import edge

Accountant = Literal["basic", "gdp", "zcdp"]
ACCOUNTANTS: Final[tuple[Accountant, ...]] = get_args(Accountant)

UNITS: Final = 10**100
"""How many units of a sum are 1."""

DELTA_SHARE: Final = 0.5
"""The part of delta that is kept for the d's, unless told otherwise."""

_LARGEST_NOISE = 1e4


@dataclass(frozen=True, slots=True)
class Amount:
    """Noise (epsilon, rho or mu^2) and delta, in units of sums."""

    noise: int = 0
    delta: int = 0

    def __add__(self, other: Amount) -> Amount:
        return Amount(self.noise + other.noise, self.delta + other.delta)

    def times(self, number: int) -> Amount:
        """The same spend so many times."""
        return Amount(self.noise * number, self.delta * number)

    def __sub__(self, other: Amount) -> Amount:
        return Amount(self.noise - other.noise, self.delta - other.delta)

    def within(self, limit: Amount) -> bool:
        """Neither sum is above its limit."""
        return self.noise <= limit.noise and self.delta <= limit.delta


@proved("composition.md#three-ways-to-add-up")
def amount(cost: PrivacyCost, accountant: Accountant) -> Amount:
    """What a cost adds to the two sums. Rounded up."""
    if accountant == "basic":
        return Amount(_up(_exact(cost.epsilon)), _up(_exact(cost.delta)))
    if accountant == "zcdp":
        return Amount(_up(Fraction(cost.rho)), _up(_exact(cost.rho_delta)))
    return Amount(_up(Fraction(cost.mu) ** 2), _up(_exact(cost.mu_delta)))


@proved("composition.md#filters")
def limit(
    accountant: Accountant,
    epsilon: float,
    delta: float,
    delta_share: float = DELTA_SHARE,
) -> Amount:
    """The two limits of a budget. Rounded down. `delta_share` of delta is for the d's; basic has no such split."""
    allowed, whole = _exact(epsilon), _exact(delta)
    if accountant == "basic":
        return Amount(math.floor(allowed * UNITS), math.floor(whole * UNITS))
    for_events = whole * _exact(delta_share)
    left, below = _down(whole - for_events), _down(allowed)
    if accountant == "gdp":
        mu = largest_mu(below, left / (1 + 2 * ROUNDING))
        noise = Fraction(mu) ** 2
        if not raise_for_rounding(float(delta_gaussian(mu, below))) <= left:  # only the forward map is trusted
            raise Infeasible("a budget that some mu meets", f"epsilon = {epsilon:g}, delta = {delta:g}", "raise it.")
    else:
        noise = Fraction(largest_rho(below, left))
    return Amount(math.floor(noise * UNITS), math.floor(for_events * UNITS))


def largest_rho(epsilon: float, delta: float) -> float:
    """The largest rho with delta_from_rho(rho, epsilon) <= delta, from below."""
    least = 1e-12
    if delta_from_rho(least, epsilon) > delta:
        raise Infeasible("a budget that some rho meets", f"epsilon = {epsilon:g}, delta = {delta:g}", "raise it.")
    return edge(lambda rho: delta_from_rho(rho, epsilon), delta, least, _LARGEST_NOISE)


@proved("composition.md#filters")
def delta_of_noise(total: Amount, accountant: Accountant, epsilon: float) -> float:
    """What the noise of a sum has as delta at epsilon. Rounded up."""
    if accountant == "basic":
        return 0.0 if total.noise <= _exact(epsilon) * UNITS else 1.0
    if accountant == "zcdp":
        return delta_from_rho(value(total.noise), epsilon)
    mu = math.nextafter(math.sqrt(value(total.noise)), math.inf)
    return raise_for_rounding(float(delta_gaussian(mu, epsilon)))


@proved("composition.md#filters")
def composed_epsilon(total: Amount, accountant: Accountant, delta: float) -> float:
    """The smallest epsilon at which a fixed list of spends with this sum has `delta` in all; infinite if there is none.

    For comparison: the list must not have been chosen in view of results for gdp and zcdp, whose filters hold at the
    epsilon and the split that were fixed before.
    """
    left = delta - value(total.delta)
    if accountant == "basic":
        return value(total.noise) if left >= 0 else math.inf
    if left <= 0:
        return math.inf

    def delta_at(epsilon: float) -> float:
        return delta_of_noise(total, accountant, epsilon)

    enough = 1.0
    while delta_at(enough) > left:
        enough *= 2
    return edge(delta_at, left, enough, 0.0)


def value(units: int) -> float:
    """A sum as a double: the one with this decimal, or else rounded up."""
    exact = Fraction(units, UNITS)
    nearest = float(exact)
    return nearest if _exact(nearest) >= exact else math.nextafter(nearest, math.inf)


def _exact(number: float) -> Fraction:
    """What a double stands for: the shortest decimal that names it."""
    return Fraction(repr(float(number)))


def _up(exact: Fraction) -> int:
    """In units of sums, rounded up."""
    return math.ceil(exact * UNITS)


def _down(exact: Fraction) -> float:
    """The largest double that is not above it."""
    nearest = float(exact)
    return nearest if Fraction(nearest) <= exact else math.nextafter(nearest, 0.0)
