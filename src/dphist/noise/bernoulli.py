"""Exact coins with probability exp(−γ), γ rational."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from dphist.errors import InvalidParameter
from dphist.noise.enclosure import below_exp, exp_bounds
from dphist.noise.entropy import Entropy, require_secure
from dphist.noise.parameters import LARGEST_SAMPLE, exact_fraction, whole_number

__all__ = ["bernoulli_exp"]

_CHUNK = 1 << 16


def bernoulli_exp(gamma: Fraction | int, n: int, entropy: Entropy | None = None) -> NDArray[np.bool_]:
    """Draw n independent coins, each true with probability exp(−gamma) exactly, for gamma ≥ 0.

    A coin is U < exp(−gamma) with U read one word at a time. All but two or so of the 2^64 first words settle it by a
    comparison of integers; the others are read further. Nothing is rounded, so there is no sampler error to pay for.
    """
    exponent, count = exact_fraction("gamma", gamma), whole_number("n", n, 0, LARGEST_SAMPLE)
    if exponent < 0:
        raise InvalidParameter("gamma ≥ 0", gamma)
    source = require_secure(entropy)
    if exponent == 0:
        return np.ones(count, dtype=np.bool_)
    low, high = exp_bounds(exponent, 64)
    coins = np.empty(count, dtype=np.bool_)
    for first in range(0, count, _CHUNK):
        words = source.words(min(_CHUNK, count - first))
        chunk = np.less(words, np.uint64(low), out=coins[first : first + _CHUNK])
        for index in np.flatnonzero(~chunk & (words <= np.uint64(high - 1))):
            chunk[index] = below_exp(exponent, int(words[index]), 64, source)
    return coins
