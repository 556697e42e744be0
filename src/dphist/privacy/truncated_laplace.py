"""Truncated discrete Laplace noise on {-q, ..., 0} as an (epsilon, delta) guarantee [BCDP22, Theorem 3, corrected].

Noise z = j - q, j = 0..q, has weight exp(e min(j, q - j)), e the epsilon of one bar. Each non-empty bar becomes
max(0, count + z), and bars that become 0 are left out of the output. **q is public**: the paper lets it grow with the number
of records, which moves the noise of every other bar too, and its Theorem 3 is false for two or more bars. M = q + 1 is the
number of atoms, f(j) their probabilities. One unit more in one bar shifts the law by one step:

    loss  +infinity with probability f(0) (a value that the smaller bar cannot reach)
          0         with f(h), M = 2h only (the two middle atoms)
          +e        with the rest of the falling half, -e with the rest of the rising half

Clamping at 0 and leaving zeros out are post-processing. A bar that goes from 0 to 1 is the same shift, clamped: the output
without the bar is the event y <= 0.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from dphist.checks import proved
from dphist.errors import Infeasible, InvalidParameter
from dphist.privacy.special import gammaln

MOST_BARS = 256
"""A public limit on the bars of one unit: the exact profile sums over up to its square of cases."""

LARGEST_Q = 2**40
_UP = 1 + 1e-12


@dataclass(frozen=True, slots=True)
class LossOfOneBar:
    """The probabilities of the four values that the privacy loss of one bar can take."""

    infinite: float
    minus: float
    zero: float
    plus: float


@proved("[BCDP22] Theorem 3")
def delta_one_bar(epsilon: float, q: int) -> float:
    """The probability f(0) of the outermost atom, which is delta at epsilon and at every larger one. Rounded up.

    M = 2h: (e^epsilon - 1)/(2 (e^(epsilon h) - 1)); M = 2r + 1: (e^epsilon - 1)/((e^epsilon + 1) e^(epsilon r) - 2).
    No other integer noise on {-q, ..., 0} has a smaller delta at epsilon.
    """
    atoms = q + 1
    half = atoms // 2
    if epsilon * (half + 1) > 700:  # e^(epsilon half) would overflow; what is dropped is below 1e-300 of the result
        even = atoms % 2 == 0
        power = math.exp(-epsilon * (half - 1 if even else half))
        return max(-math.expm1(-epsilon) * power / (2 if even else 1 + math.exp(-epsilon)) * _UP, 5e-324)
    if atoms % 2 == 0:
        return min(1.0, math.expm1(epsilon) / (2 * math.expm1(epsilon * half)) * _UP)
    # (e^epsilon + 1) e^(epsilon r) - 2 without cancellation at small epsilon
    bottom = math.expm1(epsilon * (half + 1)) + math.expm1(epsilon * half)
    return min(1.0, math.expm1(epsilon) / bottom * _UP)


@proved("[BCDP22] Theorem 3")
def loss_of_one_bar(epsilon: float, q: int) -> LossOfOneBar:
    """The law of the privacy loss when one bar grows or shrinks by one; it is the same in both directions."""
    if q == 0:
        return LossOfOneBar(1.0, 0.0, 0.0, 0.0)
    outer, middle = delta_one_bar(epsilon, q), middle_atom(epsilon, q)
    if q % 2:
        return LossOfOneBar(outer, max(0.0, 0.5 - middle), middle, max(0.0, 0.5 - outer))
    return LossOfOneBar(outer, (1 - middle) / 2, 0.0, max(0.0, (1 + middle) / 2 - outer))


@proved("[BCDP22] Theorem 3")
def middle_atom(epsilon: float, q: int) -> float:
    """The probability of a largest atom, f(0) times e^(epsilon floor(q/2)). Rounded up.

    M = 2h: (1 - e^-epsilon)/(2 (1 - e^(-epsilon h))); M = 2r + 1: (1 - e^-epsilon)/(1 + e^-epsilon - 2 e^(-epsilon (r + 1))).
    Only falling powers: for a wide law f(0) is below the smallest double and the power beyond the largest.
    """
    half = (q + 1) // 2
    bottom = -2 * math.expm1(-epsilon * half)
    if q % 2 == 0:  # 1 + e^-epsilon - 2 e^(-epsilon (r + 1)) without cancellation at small epsilon
        bottom = -math.expm1(-epsilon * (half + 1)) - math.exp(-epsilon) * math.expm1(-epsilon * half)
    return min(1.0, -math.expm1(-epsilon) / bottom * _UP)


@proved("flexible-accuracy.md#several-bars-per-unit")
def delta_profile(at: float, *, epsilon: Fraction, q: int, bars: int = 1) -> float:
    """delta at any epsilon' = `at` >= 0 for a unit that is in up to `bars` bars, once in each: exact, rounded up.

    The losses of the bars are independent, so their sum is multinomial:

        delta(epsilon') = 1 - (1 - f(0))^bars + sum of P(L) (1 - e^(epsilon' - L))_+ over the finite L = (plus - minus) epsilon

    From bars*epsilon on only the first part is left. The comparison of epsilon' with L is made with exact numbers: at
    epsilon' = bars*epsilon a float could add the largest loss to delta, or lose it.
    """
    check_bars(bars)
    loss = loss_of_one_bar(float(epsilon), q)
    infinite = 1.0 if loss.infinite >= 1 else -math.expm1(bars * math.log1p(-loss.infinite))
    exact_at = Fraction(at)
    lowest = max(-bars, exact_at // epsilon + 1) if exact_at < bars * epsilon else bars + 1
    if q == 0 or lowest > bars:
        return min(1.0, infinite * _UP)
    steps = range(int(lowest), bars + 1)
    gains = np.array([-math.expm1(float(exact_at - step * epsilon)) for step in steps])
    return min(1.0, (infinite + float(gains @ _net_losses(loss, bars, steps))) * (1 + 1e-9))


def _net_losses(loss: LossOfOneBar, bars: int, steps: range) -> NDArray[np.float64]:
    """P(plus - minus = s and no infinite loss) for each s of `steps`, in log space; a relative error below 1e-10."""
    logs = [math.log(p) if p > 0 else -1e9 for p in (loss.minus, loss.zero, loss.plus)]
    found = np.zeros(len(steps))
    for place, step in enumerate(steps):
        # plus = minus + step, zero = bars - 2 minus - step
        minus = np.arange(max(0, -step), (bars - step) // 2 + 1)
        if loss.zero == 0:
            minus = minus[bars - 2 * minus - step == 0]
        counts = (minus, bars - 2 * minus - step, minus + step)
        terms = np.full(len(minus), float(gammaln(bars + 1.0)))
        for count, log in zip(counts, logs, strict=True):
            terms += np.where(count > 0, count * log, 0.0) - gammaln(count + 1.0)
        found[place] = float(np.exp(terms).sum())
    return found


def smallest_q(epsilon: float, target_delta: float) -> int:
    """The smallest q with delta_one_bar(epsilon, q) <= target: min(2h - 1, 2r), from the formula and then by the forward map.

    h = ceil(ln(1 + (e^epsilon - 1)/(2 delta))/epsilon), r = ceil(ln(((e^epsilon - 1)/delta + 2)/(e^epsilon + 1))/epsilon).
    The two parities are compared as they are: delta falls with q within each of them and across both.
    """
    if target_delta >= 1:
        return 0
    # ln(1 + (e^epsilon - 1)/(2 delta)) = epsilon + ln(e^-epsilon + (1 - e^-epsilon)/(2 delta)), which cannot overflow
    shrunk = math.exp(-epsilon)
    even = 1 + math.log(shrunk + -math.expm1(-epsilon) / (2 * target_delta)) / epsilon
    guess = 2 * even - 1
    if not guess < LARGEST_Q:
        raise Infeasible(
            "an epsilon and a delta for which noise below 2^40 is enough", f"({epsilon:g}, {target_delta:g})"
        )
    q = max(0, math.floor(guess) - 4)
    while delta_one_bar(epsilon, q) > target_delta:
        q += 1
    return q


@dataclass(frozen=True, slots=True)
class Calibrated:
    """The noise for a budget: the epsilon of one bar, and q."""

    epsilon: Fraction
    q: int


def calibrate(epsilon: float, target_delta: float, bars: int = 1) -> Calibrated:
    """The smallest q found for a unit in up to `bars` bars, and the epsilon of one bar to go with it.

    epsilon/bars is where composition costs nothing. A larger epsilon per bar, whose rare large losses go into delta, may
    need a smaller q when there are many bars: factors up to 4 are tried, and each q is searched with the exact profile.
    What is returned was evaluated with `delta_profile` and holds.
    """
    check_bars(bars)
    even_share = Fraction(epsilon) / bars
    # log1p(-d)/bars is the log of what each bar may keep: 1 - (1 - f)^bars <= d
    q = max(0, smallest_q(float(even_share), -math.expm1(math.log1p(-target_delta) / bars)) - 1)
    while delta_profile(epsilon, epsilon=even_share, q=q, bars=bars) > target_delta:
        q += 1
    best = Calibrated(even_share, q)
    for sixteenths in range(17, 65) if bars > 1 else ():
        share = even_share * sixteenths / 16
        smaller = _smaller_q(epsilon, target_delta, share, bars, best.q)
        if smaller is None:
            break  # the finite losses alone are above the target, and only grow from here
        if smaller < best.q:
            best = Calibrated(share, smaller)
    return best


def _smaller_q(epsilon: float, target_delta: float, share: Fraction, bars: int, most: int) -> int | None:
    """The smallest q <= most that meets the target with this epsilon per bar; None if `most` does not."""
    if delta_profile(epsilon, epsilon=share, q=most, bars=bars) > target_delta:
        return None
    low, high = -1, most
    while high - low > 1:
        middle = (low + high) // 2
        holds = delta_profile(epsilon, epsilon=share, q=middle, bars=bars) <= target_delta
        low, high = (low, middle) if holds else (middle, high)
    return high


def check_bars(bars: int) -> None:
    """A whole number in [1, MOST_BARS]."""
    if not 1 <= bars <= MOST_BARS:
        raise InvalidParameter(f"a number of bars per unit between 1 and {MOST_BARS}", bars)
