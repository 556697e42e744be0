"""Bounds on exp(−γ) by integers, as narrow as asked for: what every exact decision rests on, and the coins they make.

`decimal` rounds exp correctly at any precision, so an enclosure is that value plus a margin that covers the rounding
of the argument. A comparison with such bounds is a proof; when it cannot decide, the caller draws more bits and asks
for more.
"""

from __future__ import annotations

from decimal import MAX_EMAX, MIN_EMIN, ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_EVEN, Context, Decimal
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from dphist.errors import InvalidParameter
from dphist.noise.entropy import Entropy, current_source
from dphist.noise.laws import LARGEST_SAMPLE, exact_fraction, whole_number

COINS_AT_ONCE = 1 << 16
_MARGIN = Decimal("1e-9")


def decimal_context(digits: int) -> Context:
    """A context of its own, so that no setting of the caller's thread changes a result; underflow goes to zero."""
    return Context(prec=digits, rounding=ROUND_HALF_EVEN, Emin=MIN_EMIN, Emax=MAX_EMAX, traps=[])


def exp_bounds(gamma: Fraction, bits: int) -> tuple[int, int]:
    """Integers (low, high) with low ≤ 2^bits · exp(−gamma) ≤ high and high − low ≤ 2, for gamma ≥ 0.

    With d digits the quotient γ is off by at most γ·10^(1−d), so exp(−γ)·2^bits is off by at most 2^bits·(γ +
    1)·10^(2−d). d is chosen to make that less than 10^−15, far inside the margin of 10^−9.
    """
    if gamma == 0:
        return 1 << bits, 1 << bits
    if gamma > bits + 1:  # e^−γ < 2^−γ < 2^−bits: also spares a pointless exp of an enormous argument
        return 0, 1
    digits = (bits * 302) // 1000 + len(str(bits)) + 22
    context = decimal_context(digits)
    exponent = context.divide(Decimal(gamma.numerator), Decimal(gamma.denominator))
    scaled = context.multiply(context.exp(exponent.copy_negate()), Decimal(1 << bits))
    low = context.subtract(scaled, _MARGIN).to_integral_value(rounding=ROUND_FLOOR)
    high = context.add(scaled, _MARGIN).to_integral_value(rounding=ROUND_CEILING)
    return max(0, int(low)), min(1 << bits, int(high))


def next_word(entropy: Entropy) -> int:
    """One fresh word as a Python integer."""
    return int(entropy.words(1)[0])


def below_exp(gamma: Fraction, leading: int, bits: int, entropy: Entropy) -> bool:
    """Whether U < exp(−gamma), where U is uniform on [0, 1) and `leading` are its first `bits` bits.

    Exact: bits are drawn until the two are separated, which happens with probability one.
    """
    while True:
        low, high = exp_bounds(gamma, bits)
        if leading + 1 <= low:
            return True
        if leading >= high:
            return False
        leading, bits = (leading << 64) | next_word(entropy), bits + 64


def bernoulli_exp(gamma: Fraction | int, n: int) -> NDArray[np.bool_]:
    """Draw n independent coins, each true with probability exp(−gamma) exactly, for gamma ≥ 0.

    A coin is U < exp(−gamma) with U read one word at a time. All but two or so of the 2^64 first words settle it by a
    comparison of integers; the others are read further. Nothing is rounded, so there is no sampler error to pay for.
    """
    exponent, count = exact_fraction("gamma", gamma), whole_number("n", n, 0, LARGEST_SAMPLE)
    if exponent < 0:
        raise InvalidParameter("gamma ≥ 0", gamma)
    source = current_source()
    if exponent == 0:
        return np.ones(count, dtype=np.bool_)
    low, high = exp_bounds(exponent, 64)
    coins = np.empty(count, dtype=np.bool_)
    for first in range(0, count, COINS_AT_ONCE):
        words = source.words(min(COINS_AT_ONCE, count - first))
        chunk = np.less(words, np.uint64(low), out=coins[first : first + COINS_AT_ONCE])
        for index in np.flatnonzero(~chunk & (words <= np.uint64(high - 1))):
            chunk[index] = below_exp(exponent, int(words[index]), 64, source)
    return coins
