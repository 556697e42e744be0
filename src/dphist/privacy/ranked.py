"""A ranked list of keys without counts, by the exponential mechanism [Rogers24, Theorems 9 and 10, corrected].

The candidates are the k' = shortlist largest groups and a symbol STOP whose score is the (k'+1)-th largest count (0
if there are fewer) plus T. Symbols are chosen one after the other, without replacement, with probability proportional
to exp(e score/max_per_group), e = symbol_epsilon; the list ends with STOP or after a given number of symbols. One
unit moves scores by at most max_per_group, all in the same direction, however many groups it is in: each choice has a
privacy loss within a range of length e. STOP is a symbol and is paid for.

A candidate that is there only because of one unit has a score of at most max_per_group above the (k'+1)-th count, and
d = k'/(k' + exp(e (T - max_per_group)/max_per_group)) is the probability that one of k' such precedes STOP. (The
paper's own T for Theorem 10 does not grow with max_per_group; that is false for max_per_group > 1.) Neighbours differ
by adding or removing one unit.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from dphist.checks import proved
from dphist.privacy.composition import delta_from_rho
from dphist.privacy.gaussian import raise_for_rounding

Floats = NDArray[np.float64]

_POINTS = 1 << 14
_MOST_POINTS_PER_SYMBOL = 256


@proved("[Rogers24] Theorem 9")
def delta_infinity(threshold: float, symbol_epsilon: float, shortlist: int, max_per_group: int = 1) -> float:
    """[Rogers24] Theorem 9: d, the probability that a new group precedes STOP. Rounded up."""
    log_odds = symbol_epsilon * (threshold - max_per_group) / max_per_group - math.log(shortlist)
    if log_odds > 700:
        return raise_for_rounding(math.exp(-log_odds))
    return raise_for_rounding(1 / (1 + math.exp(log_odds)))


def threshold(target_delta: float, symbol_epsilon: float, shortlist: int, max_per_group: int = 1) -> float:
    """The smallest T for real scores: max_per_group + (max_per_group/e) ln(k'(1 - delta)/delta)."""
    odds = math.log(shortlist) + math.log1p(-target_delta) - math.log(target_delta)
    return max_per_group + max(0.0, max_per_group / symbol_epsilon * odds)


def threshold_paper(target_delta: float, symbol_epsilon: float, shortlist: int, max_per_group: int = 1) -> float:
    """The paper's T: max_per_group + (max_per_group/e) ln(k'/delta); a little larger."""
    return max_per_group + max_per_group / symbol_epsilon * math.log(shortlist / target_delta)


def smallest_threshold(target_delta: float, symbol_epsilon: float, shortlist: int, max_per_group: int = 1) -> int:
    """The smallest whole T with `delta_infinity` <= target_delta: from below, until the forward map holds."""
    found = max(max_per_group, math.ceil(threshold(target_delta, symbol_epsilon, shortlist, max_per_group)) - 2)
    while delta_infinity(found, symbol_epsilon, shortlist, max_per_group) > target_delta:
        found += 1
    return found


@proved("[Rogers24] Theorem 10")
def delta_of_session(per_query: float, queries: int, symbols: int) -> float:
    """[Rogers24] Theorem 10: 1 - (1 - d)^min(queries, symbols), since every query returns at least one symbol. Rounded up."""
    return raise_for_rounding(-math.expm1(min(queries, symbols) * math.log1p(-min(per_query, 1 - 1e-16))))


@proved("unknown-domain.md#the-corrections")
def rho(symbol_epsilon: float, symbols: int) -> float:
    """The tight zCDP parameter: symbols (x - 1 - ln x), x = e/(exp(e) - 1); the paper's is symbols e^2/8. Rounded up."""
    e = symbol_epsilon
    if e < 1e-2:
        return symbols * e**2 / 8  # the two agree to a relative e^2/100, and below it subtraction loses digits
    # ln x = ln e - e - ln(1 - exp(-e))
    log_x = math.log(e) - e - math.log(-math.expm1(-e))
    return symbols * (math.exp(log_x) - 1 - log_x) * (1 + 1e-9)


@proved("unknown-domain.md#the-corrections")
def delta_of_symbol(symbol_epsilon: float, epsilon: float) -> float:
    """The largest delta at any real epsilon of a choice whose privacy loss lies in some range of length e.

    (1 - exp((epsilon - e)/2))^2/(1 - exp(-e)) for |epsilon| <= e, 0 above, 1 - exp(epsilon) below.
    """
    e = symbol_epsilon
    if epsilon >= e:
        return 0.0
    if epsilon <= -e:
        return -math.expm1(epsilon)
    return math.expm1((epsilon - e) / 2) ** 2 / -math.expm1(-e)


@lru_cache(maxsize=256)
def _losses(symbol_epsilon: float, symbols: int) -> tuple[float, float, Floats]:
    """The privacy loss of `symbols` choices: (smallest loss, step, probabilities), pessimistic.

    The profile of one choice as a function of exp(epsilon) is convex. Its chords between the points of a grid lie
    above it and are the profile of a pair of laws with losses on the grid; pairs that dominate step by step dominate
    the composition, whatever a choice depends on. All numbers are positive, so direct convolution keeps their
    relative precision.
    """
    points = max(4, min(_MOST_POINTS_PER_SYMBOL, _POINTS // symbols))
    step = 2 * symbol_epsilon / points
    grid = -symbol_epsilon + step * np.arange(points + 1)
    grid[-1] = symbol_epsilon
    profile = np.array([delta_of_symbol(symbol_epsilon, float(s)) for s in grid])
    slopes = np.diff(profile) / np.diff(np.exp(grid))
    # On exp(epsilon), the slope of a profile is minus the chance, under the other law, of a larger loss: its jumps are Q.
    other = np.diff(np.concatenate([[-1.0], slopes, [0.0]]))
    single = np.maximum(other, 0.0) * np.exp(grid)
    total, power, left = np.ones(1), single, symbols
    while left:
        if left & 1:
            total = np.convolve(total, power)
        left >>= 1
        if left:
            power = np.convolve(power, power)
    return -symbol_epsilon * symbols, step, total


@proved("unknown-domain.md#the-corrections")
def delta_composed(symbol_epsilon: float, symbols: int, epsilon: float) -> float:
    """The delta of `symbols` choices, each chosen in view of those before: a pessimistic privacy-loss distribution.

    The sum of p(l)(1 - exp(epsilon - l)) over losses l > epsilon. Rounded up.
    """
    lowest, step, chances = _losses(symbol_epsilon, symbols)
    losses = lowest + step * np.arange(len(chances))
    counted = losses > epsilon
    value = float(np.sum(chances[counted] * -np.expm1(epsilon - losses[counted])))
    return min(1.0, value * (1 + 1e-9) + 1e-18)


@proved("unknown-domain.md#the-corrections")
def delta_of_symbols(symbol_epsilon: float, symbols: int, epsilon: float) -> float:
    """The better of `delta_composed` and zCDP: what at most `symbols` symbols cost without d."""
    concentrated = delta_from_rho(rho(symbol_epsilon, symbols), epsilon)
    if symbols > _POINTS // 4:
        return concentrated
    return min(concentrated, delta_composed(symbol_epsilon, symbols, epsilon))


@proved("[Rogers24] Theorem 10")
def delta(
    epsilon: float,
    *,
    symbol_epsilon: float,
    threshold: float,
    shortlist: int,
    symbols: int,
    queries: int = 1,
    max_per_group: int = 1,
) -> float:
    """[Rogers24] Theorems 9 (one query) and 10: d over all queries plus delta_of_symbols(epsilon). Rounded up.

    The good-event lemma: laws that agree outside a set of probability d differ by at most d more.
    """
    per_query = delta_infinity(threshold, symbol_epsilon, shortlist, max_per_group)
    infinity = delta_of_session(per_query, queries, symbols)
    return raise_for_rounding(infinity + delta_of_symbols(symbol_epsilon, symbols, epsilon))
