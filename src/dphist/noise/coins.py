"""Coins with exact probabilities k/2^128: what is tossed is what was stored, so there is no sampler error to pay for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from dphist.errors import InvalidParameter
from dphist.noise.entropy import current_source

COIN_BITS: Final = 128
COINS_AT_ONCE: Final = 1 << 16
_WORD: Final = 1 << 64


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
