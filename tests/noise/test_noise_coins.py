"""Coins whose probabilities are whole multiples of 2^-128: decided by comparing words, to the last bit."""

import numpy as np
import pytest

from dphist.errors import InvalidParameter
from dphist.noise import toss
from dphist.noise.exact import COINS_AT_ONCE
from dphist.noise.testing import ScriptedEntropy, SeededEntropy
from word_sources import drawn_from, without_permission

TOP = 2**128
K = (5 << 64) + 7


@pytest.mark.parametrize(
    ("words", "shown"), [([4], True), ([6], False), ([5, 6], True), ([5, 7], False), ([5, 8], False)]
)
def test_a_coin_is_a_comparison_with_128_bits(words: list[int], shown: bool) -> None:
    entropy = ScriptedEntropy(words)
    assert drawn_from(entropy, toss, [K], np.array([0])).tolist() == [shown]
    assert entropy.left == 0


def test_certain_coins_are_certain() -> None:
    for words in (0, 2**64 - 1):
        choice, entropy = np.array([0, 1, 0, 1]), ScriptedEntropy([words] * 4 + [0] * 4)
        assert drawn_from(entropy, toss, [0, TOP], choice).tolist() == [False, True, False, True]
    assert drawn_from(ScriptedEntropy([2**64 - 1, 2**64 - 2]), toss, [TOP - 1], np.array([0])).tolist() == [True]
    assert drawn_from(ScriptedEntropy([2**64 - 1, 2**64 - 1]), toss, [TOP - 1], np.array([0])).tolist() == [False]


def test_shares_of_many_coins() -> None:
    """alpha < 1e-8: 6 standard deviations of a binomial of 200,000."""
    n, chances = 200_000, [0, TOP // 10, TOP // 2, TOP * 9 // 10, TOP]
    assert n > COINS_AT_ONCE
    for index, k in enumerate(chances):
        share = k / TOP
        found = drawn_from(SeededEntropy(index), toss, chances, np.full(n, index)).mean()
        assert abs(found - share) <= 6 * (share * (1 - share) / n) ** 0.5


def test_sources_and_probabilities_are_checked() -> None:
    with without_permission(SeededEntropy(1)), pytest.raises(InvalidParameter, match="source of noise"):
        toss([0], np.array([0]))
    for wrong in (-1, TOP + 1):
        with pytest.raises(InvalidParameter):
            toss([wrong], np.array([0]))
    assert toss([TOP], np.zeros(3, np.int64)).all()
