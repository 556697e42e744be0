"""One vote per unit: the optimal rule that turns votes into released keys. The mathematics; docs/voting.md has the proofs.

The election gives every group its votes, h(i) <= capacity. **Theorem (one group, one vote).** With one unit more and the same
seed, capacity and rule for lists, h' = h or h' = h + e_x for one group x. It holds for all lists, however many groups a unit
has. So a mechanism on votes that treats each group by itself has the profile of *one* count that moves by one, and that is
what `delta_of` computes.

Probabilities are whole multiples of 2^-`BITS`: what is stored is what coins are tossed with, to the last bit.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise
from typing import Final

from dphist.checks import proved
from dphist.errors import Infeasible, InvalidParameter

BITS: Final = 128
ONE: Final = 1 << BITS
"""The probability 1."""

MOST_VOTES: Final = 10**6
"""A rule that is not sure of a group with so many votes has too little budget to be of use."""

SURE: Final = Fraction(999, 1000)
"""Votes beyond the first number that is released with this probability are wasted."""

_GROWTH_BITS: Final = 256
_DIGITS: Final = 120
LARGEST_EPSILON: Final = 60.0
"""No delta is smaller than at this epsilon: a smaller factor e^epsilon makes every bound here larger, so it is safe."""


@proved("voting.md#theorem-2")
@lru_cache(maxsize=8)  # up to a million numbers each
def release_probabilities(epsilon: float, delta: float) -> tuple[int, ...]:
    """[DVGM22]: the largest probabilities pi(n) of showing a group with n votes, in units of 2^-BITS.

        pi(0) = 0,  pi(n+1) = min(e^epsilon pi(n) + delta, 1 - e^-epsilon (1 - pi(n) - delta), 1)

    Assumption: one unit moves one count by one. Neighbouring coins then differ by (epsilon, delta) and no more, and no
    (epsilon, delta)-private rule shows any count more often. Each pi(n+1) is rounded down from the *stored* pi(n), with a
    lower bound of e^epsilon: rounding each exact pi(n) by itself could break the inequality between two neighbours. Rises
    strictly and ends with 1, which is the value of all larger counts.
    """
    growth, share = _growth(epsilon), math.floor(Fraction(delta) * ONE)
    if share < 1:
        raise Infeasible(f"a delta of at least 2^-{BITS}", f"{delta:g}", "raise delta.")
    table = [0]
    while table[-1] < ONE:
        if len(table) > MOST_VOTES:
            raise Infeasible(
                f"a budget that shows a group with {MOST_VOTES:,} votes",
                f"epsilon = {epsilon:g}",
                "raise epsilon or delta.",
            )
        now = table[-1]
        left = max(ONE - now - share, 0)
        table.append(min((growth * now >> _GROWTH_BITS) + share, ONE - -((-left << _GROWTH_BITS) // growth)))
    return tuple(table)


@proved("voting.md#theorem-2")
def delta_of(probabilities: Sequence[int], epsilon: float) -> float:
    """The smallest delta at which a stored rule is (epsilon, delta)-private, for any epsilon >= 0. Rounded up.

    The largest of both directions of the hockey stick between Bernoulli(p) and Bernoulli(q), p = pi(n), q = pi(n+1), over n:
    (p - e^epsilon q)_+ + (1 - p - e^epsilon (1 - q))_+, and with p and q exchanged. It is the profile of the whole election by
    the theorem above. Assumption: groups without votes are never shown, pi(0) = 0 (nobody could list them), and counts beyond
    the table have its last value. With a lower bound of e^epsilon, which can only add.
    """
    if not probabilities or probabilities[0] != 0 or not all(0 <= p <= ONE for p in probabilities):
        raise InvalidParameter("probabilities between 0 and 1 that begin with 0", "others")
    growth, worst = _growth(epsilon), 0
    for p, q in pairwise(probabilities):
        low, high = (p, q) if p < q else (q, p)
        # As e^epsilon >= 1, (low - e^epsilon high)_+ and (1 - high - e^epsilon (1 - low))_+ are 0: one term is left each way.
        shown = (high << _GROWTH_BITS) - growth * low
        hidden = (ONE - low << _GROWTH_BITS) - growth * (ONE - high)
        worst = max(worst, shown, hidden)
    exact = Fraction(worst, ONE << _GROWTH_BITS)
    nearest = float(exact)
    return nearest if Fraction(nearest) >= exact else math.nextafter(nearest, math.inf)


@proved("voting.md#theorem-2")
def probability(probabilities: Sequence[int], votes: int, low_threshold: int = 1) -> int:
    """pi_k(n) = pi(n - k + 1), 0 below k = low_threshold, in units of 2^-BITS: the same steps, so the same profile."""
    return probabilities[min(max(votes - low_threshold + 1, 0), len(probabilities) - 1)]


def votes_for(probabilities: Sequence[int], wanted: Fraction, low_threshold: int = 1) -> int:
    """The smallest number of votes that is shown with at least this probability; it must be in (0, 1] and reached."""
    least = math.ceil(wanted * ONE)
    return low_threshold - 1 + next(n for n, p in enumerate(probabilities) if p >= least)


def capacity(probabilities: Sequence[int], low_threshold: int = 1) -> int:
    """The number of votes at which a group is nearly `SURE` to be shown: room for more would be wasted.

    A function of public parameters alone, as the theorem asks; any other public capacity is as private.
    """
    return votes_for(probabilities, SURE, low_threshold)


@lru_cache(maxsize=64)
def _growth(epsilon: float) -> int:
    """A lower bound of e^epsilon, at least 1, in units of 2^-_GROWTH_BITS.

    A float is an exact decimal, and `decimal` rounds exp correctly, so the number before the result is below the truth.
    """
    if not epsilon >= 0:
        raise InvalidParameter("epsilon >= 0", epsilon)
    context = Context(prec=_DIGITS, Emin=MIN_EMIN, Emax=MAX_EMAX, traps=[])
    below = context.next_minus(context.exp(Decimal(min(epsilon, LARGEST_EPSILON))))
    return max(math.floor(Fraction(below) * (1 << _GROWTH_BITS)), 1 << _GROWTH_BITS)
