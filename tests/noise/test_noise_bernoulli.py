from __future__ import annotations

import math
from fractions import Fraction
from functools import partial

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from dphist.noise.enclosure import exp_bounds
from dphist.noise.entropy import current_source
from dphist.noise.exact import coins
from dphist.noise.testing import ScriptedEntropy, SeededEntropy
from word_sources import drawn_from

ALPHA, SIZE = 1e-6, 400_000
LAST_WORD = (1 << 64) - 1


def bernoulli_exp(gamma: Fraction, n: int) -> NDArray[np.bool_]:
    return coins(partial(exp_bounds, gamma), n, current_source())


@pytest.mark.parametrize("gamma", [Fraction(1, 100), Fraction(1, 2), Fraction(1), Fraction(3), Fraction(7)])
def test_coins_have_their_probability_and_no_other(gamma: Fraction) -> None:
    heads = int(drawn_from(SeededEntropy(30), bernoulli_exp, gamma, SIZE).sum())
    assert stats.binomtest(heads, SIZE, math.exp(-gamma)).pvalue > ALPHA
    for factor in (0.9, 1.1):
        assert stats.binomtest(heads, SIZE, math.exp(-gamma * factor)).pvalue < ALPHA


def test_the_ends_are_certain() -> None:
    assert bernoulli_exp(Fraction(1, 1 << 300), 100).all()
    assert not bernoulli_exp(Fraction(10**9), 100).any()
    assert bernoulli_exp(Fraction(1), 0).shape == (0,)


def test_a_tie_is_decided_by_further_words() -> None:
    gamma = Fraction(1, 3)
    leading = exp_bounds(gamma, 128)[0] >> 64
    second = exp_bounds(gamma, 192)[0] >> 64 & LAST_WORD
    for words, coin in (
        ([leading - 2], True),
        ([leading + 2], False),
        ([leading, 0], True),
        ([leading, LAST_WORD], False),
        ([leading, second, 0], True),
        ([leading, second, LAST_WORD], False),
    ):
        script = ScriptedEntropy(words)
        assert drawn_from(script, bernoulli_exp, gamma, 1).tolist() == [coin]
        assert script.left == 0
