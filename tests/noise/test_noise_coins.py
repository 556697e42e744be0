"""Coins whose probabilities are whole multiples of 2^-128: decided by comparing words, to the last bit."""

import numpy as np
import pytest

from dphist.errors import InvalidParameter
from dphist.noise import toss
from dphist.noise.coins import COINS_AT_ONCE
from dphist.noise.entropy import allow_test_entropy
from dphist.noise.testing import ScriptedEntropy, SeededEntropy

TOP = 2**128
K = (5 << 64) + 7


@pytest.mark.parametrize(
    ("words", "shown"), [([4], True), ([6], False), ([5, 6], True), ([5, 7], False), ([5, 8], False)]
)
def test_a_coin_is_a_comparison_with_128_bits(words: list[int], shown: bool) -> None:
    entropy = ScriptedEntropy(words)
    with allow_test_entropy():
        assert toss([K], np.array([0]), entropy).tolist() == [shown]
    assert entropy.left == 0


def test_certain_coins_are_certain() -> None:
    with allow_test_entropy():
        for words in (0, 2**64 - 1):
            choice, entropy = np.array([0, 1, 0, 1]), ScriptedEntropy([words] * 4 + [0] * 4)
            assert toss([0, TOP], choice, entropy).tolist() == [False, True, False, True]
        assert toss([TOP - 1], np.array([0]), ScriptedEntropy([2**64 - 1, 2**64 - 2])).tolist() == [True]
        assert toss([TOP - 1], np.array([0]), ScriptedEntropy([2**64 - 1, 2**64 - 1])).tolist() == [False]


def test_shares_of_many_coins() -> None:
    """alpha < 1e-8: 6 standard deviations of a binomial of 200,000."""
    n, chances = 200_000, [0, TOP // 10, TOP // 2, TOP * 9 // 10, TOP]
    assert n > COINS_AT_ONCE
    with allow_test_entropy():
        for index, k in enumerate(chances):
            share = k / TOP
            found = toss(chances, np.full(n, index), SeededEntropy(index)).mean()
            assert abs(found - share) <= 6 * (share * (1 - share) / n) ** 0.5


def test_sources_and_probabilities_are_checked() -> None:
    with pytest.raises(InvalidParameter, match="source of noise"):
        toss([0], np.array([0]), SeededEntropy(1))
    for wrong in (-1, TOP + 1):
        with pytest.raises(InvalidParameter):
            toss([wrong], np.array([0]))
    assert toss([TOP], np.zeros(3, np.int64)).all()
