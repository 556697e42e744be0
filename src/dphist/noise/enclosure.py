"""Bounds on exp(−γ) by integers, as narrow as asked for, and the exact decisions that rest on such bounds.

`decimal` rounds exp correctly at any precision, so an enclosure is that value plus a margin that covers the rounding
of the argument. A comparison with such bounds is a proof; when it cannot decide, the caller draws more bits and asks
for more.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import MAX_EMAX, MIN_EMIN, ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_EVEN, Context, Decimal
from fractions import Fraction
from typing import TypeAlias

from dphist.noise.entropy import Entropy

Bounds: TypeAlias = Callable[[int], tuple[int, int]]
"""Integers (low, high) for a number of bits, with low ≤ 2^bits · p ≤ high."""

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


def is_below(bounds: Bounds, leading: int, bits: int, entropy: Entropy) -> bool:
    """Whether U < p: U is uniform on [0, 1), `leading` are its first `bits` bits, and bounds(bits) encloses 2^bits · p.

    Exact: bits are drawn until the two are separated, which happens with probability one.
    """
    while True:
        low, high = bounds(bits)
        if leading + 1 <= low:
            return True
        if leading >= high:
            return False
        leading, bits = leading << 64 | next_word(entropy), bits + 64
