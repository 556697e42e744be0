"""Coins and discrete Laplace noise without any sampler error: what is drawn has the law itself, so a pure epsilon stays pure.

A value of the noise is 0 with probability (1 − r)/(1 + r), r = exp(−1/scale); else it has a fair sign and the magnitude
1 + G, with P(G = k) = (1 − r)·r^k. The binary digits of such a G are independent. Digit j is 1 with the odds r^(2^j) to 1. What
is left above the lowest d digits is geometric again, with r^(2^d): the number of coins of that probability that are tossed
before the first failure. [CKS20, Section 5] draws the same law from digits of another base.

Every coin compares a uniform number, read one word at a time, with integers that enclose its probability; the few words that
do not settle it are read further, with a narrower enclosure. Nothing is rounded.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from functools import partial
from typing import Final

import numpy as np
from numpy.typing import NDArray

from dphist.errors import InvalidParameter
from dphist.noise.enclosure import Bounds, exp_bounds, is_below
from dphist.noise.entropy import Entropy, current_source
from dphist.noise.laws import LARGEST_SAMPLE, DiscreteLaplace, whole_number

SATURATION: Final = 1 << 62
"""No magnitude is larger: a larger one is told as this one."""

LARGEST_NOISY: Final = 1 << 61
"""What is published lies between this and its negative: beyond, it would have to tell more of a saturated noise."""

CHUNK: Final = 1 << 15
_DIGITS_PER_SCALE: Final = 4  # the digits go up to at least this multiple of the scale; few coins are tossed beyond
_MORE_BITS: Final = 8

COIN_BITS: Final = 128
COINS_AT_ONCE: Final = 1 << 16
_WORD: Final = 1 << 64


def sample_exactly(law: DiscreteLaplace, n: int, saturation: int = SATURATION) -> NDArray[np.int64]:
    """Draw n independent values of a discrete Laplace law, exactly; magnitudes above `saturation` are told as that.

    A sum of such a value and of a number up to SATURATION − LARGEST_NOISY, cut to ±LARGEST_NOISY, is the same whether or not
    the value was saturated. So `add_exactly` is post-processing of noise that knows no bound.
    """
    source = current_source()
    out = np.empty(whole_number("n", n, 0, LARGEST_SAMPLE), dtype=np.int64)
    for first in range(0, out.size, CHUNK):
        _fill(out[first : first + CHUNK], law.scale, saturation, source)
    return out


def add_exactly(values: NDArray[np.int64], law: DiscreteLaplace) -> NDArray[np.int64]:
    """Values of at most SATURATION − LARGEST_NOISY in size with exact noise, cut to a public range."""
    noisy = values + sample_exactly(law, len(values))
    return np.asarray(np.clip(noisy, -LARGEST_NOISY, LARGEST_NOISY), np.int64)


def _fill(out: NDArray[np.int64], scale: Fraction, saturation: int, source: Entropy) -> None:
    out[...] = 0
    others = np.flatnonzero(~coins(partial(zero_bounds, 1 / scale), out.size, source))
    signs = 1 - 2 * (source.words(others.size) >> np.uint64(63)).astype(np.int64)
    out[others] = signs * (np.minimum(_geometric(others.size, scale, saturation, source), saturation - 1) + 1)


def _geometric(n: int, scale: Fraction, most: int, source: Entropy) -> NDArray[np.int64]:
    """n values with P(k) ∝ exp(−k/scale), k ≥ 0; those of at least `most` may be told as any value of at least `most`."""
    digits = 0
    while 1 << digits < _DIGITS_PER_SCALE * scale:
        digits += 1
    values = np.zeros(n, dtype=np.int64)
    for digit in range(digits):
        gamma = (1 << digit) / scale
        values += coins(partial(digit_bounds, gamma), n, source).astype(np.int64) << digit
    gamma = (1 << digits) / scale
    running = np.arange(n)
    while running.size:
        going_on = coins(partial(exp_bounds, gamma), running.size, source)
        running = running[going_on & (values[running] < most)]
        values[running] += 1 << digits
    return values


def coins(bounds: Bounds, n: int, source: Entropy) -> NDArray[np.bool_]:
    """n coins, each true with the probability p that bounds(bits) = (low, high) encloses: low ≤ p·2^bits ≤ high, tightly."""
    low, high = bounds(64)
    words = source.words(n)
    # A word w says that U is in [w, w + 1]/2^64: below p for w < low, not below p for w ≥ high.
    shown: NDArray[np.bool_] = words < np.uint64(low)
    for index in np.flatnonzero(~shown & (words <= np.uint64(high - 1))):
        shown[index] = is_below(bounds, int(words[index]), 64, source)
    return shown


def zero_bounds(gamma: Fraction, bits: int) -> tuple[int, int]:
    """Enclose 2^bits·(1 − r)/(1 + r), r = exp(−gamma): it falls with r."""
    low, high = exp_bounds(gamma, bits + _MORE_BITS)
    one = 1 << (bits + _MORE_BITS)
    return ((one - high) << bits) // (one + high), -((low - one << bits) // (one + low))


def digit_bounds(gamma: Fraction, bits: int) -> tuple[int, int]:
    """Enclose 2^bits·r/(1 + r), r = exp(−gamma): it grows with r."""
    low, high = exp_bounds(gamma, bits + _MORE_BITS)
    one = 1 << (bits + _MORE_BITS)
    return (low << bits) // (one + low), -(-(high << bits) // (one + high))


def toss(probabilities: Sequence[int], choice: NDArray[np.int64]) -> NDArray[np.bool_]:
    """One independent coin for each element of `choice`, true with probability probabilities[choice]/2^128 exactly.

    A coin is U < k with U uniform on 128 bits, read a word at a time: the second word is asked for only where the first is
    that of k. Every coin reads its first word, also a certain one, so that how many are read tells nothing but their number.
    """
    if not all(0 <= k <= 1 << COIN_BITS for k in probabilities):
        raise InvalidParameter(f"probabilities between 0 and 1 in units of 2^-{COIN_BITS}", "others")
    source = current_source()
    certain = np.array([k == 1 << COIN_BITS for k in probabilities], np.bool_)
    first = np.array([k // _WORD % _WORD for k in probabilities], np.uint64)
    second = np.array([k % _WORD for k in probabilities], np.uint64)
    coins = np.empty(len(choice), np.bool_)
    for start in range(0, len(choice), COINS_AT_ONCE):
        chosen = choice[start : start + COINS_AT_ONCE]
        words = source.words(len(chosen))
        shown = (words < first[chosen]) | certain[chosen]
        (open_,) = np.nonzero((words == first[chosen]) & ~certain[chosen])
        if len(open_):
            shown[open_] = source.words(len(open_)) < second[chosen[open_]]
        coins[start : start + COINS_AT_ONCE] = shown
    return coins
