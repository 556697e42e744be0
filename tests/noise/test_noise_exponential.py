from __future__ import annotations

import itertools
import math
from collections import Counter
from decimal import Decimal
from fractions import Fraction
from typing import Any

import mpmath as mp
import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from dphist.errors import InvalidParameter
from dphist.noise import exponential_top_k
from dphist.noise.exponential import CHUNK, ExactScore, overlapping_runs, score_bounds
from dphist.noise.testing import ScriptedEntropy, SeededEntropy
from word_sources import drawn_from, words_from

ALPHA = 1e-6
LAST_WORD = (1 << 64) - 1


def _peeling_probability(order: tuple[int, ...], utilities: list[int], coefficient: float) -> float:
    """Choose without replacement, each time with probability ∝ exp(coefficient · utility)."""
    probability, left = 1.0, list(range(len(utilities)))
    for chosen in order:
        weights = {item: math.exp(coefficient * utilities[item]) for item in left}
        probability *= weights[chosen] / sum(weights.values())
        left.remove(chosen)
    return probability


@pytest.mark.parametrize(
    ("k", "coefficient", "rounds", "wrong"),
    [
        (1, Fraction(1, 2), 1_000, 2.0),
        (2, Fraction(2, 3), 6_000, 1.25),
        (4, Fraction(1, 3), 1_000, 2.0),
        (2, Fraction(0), 600, 1.0),
    ],
)
def test_the_order_is_that_of_the_peeled_exponential_mechanism(
    k: int, coefficient: Fraction, rounds: int, wrong: float
) -> None:
    """At α = 1e-6 these rounds reject coefficients that are wrong by the factor with a power of at least 0.994."""
    utilities = [0, 3, 1, 3]
    with words_from(SeededEntropy(40)):
        seen = Counter(tuple(exponential_top_k(utilities, coefficient, k).tolist()) for _ in range(rounds))
    orders = list(itertools.permutations(range(4), k))

    def p_value(scale: float) -> float:
        expected = [rounds * _peeling_probability(order, utilities, scale) for order in orders]
        return float(stats.chisquare([seen[order] for order in orders], expected).pvalue)

    assert sum(seen.values()) == sum(seen[order] for order in orders)
    assert p_value(float(coefficient)) > ALPHA
    if coefficient:
        assert p_value(float(coefficient) / wrong) < ALPHA
        assert p_value(float(coefficient) * wrong) < ALPHA


def _brute_force_order(utilities: NDArray[np.int64], coefficient: Fraction, words: NDArray[np.uint64]) -> list[int]:
    with mp.workdps(40):
        slope = mp.mpf(coefficient.numerator) / coefficient.denominator
        scores = [
            slope * int(utility) - mp.log(-mp.log1p(-(mp.mpf(int(word)) + 0.5) / 2**64))
            for utility, word in zip(utilities, words, strict=True)
        ]
    return sorted(range(len(scores)), key=scores.__getitem__, reverse=True)


@pytest.mark.parametrize("coefficient", [Fraction(0), Fraction(1, 7), Fraction(5)])
@pytest.mark.parametrize("shape", ["flat", "rising", "falling", "spread"])
def test_the_stages_agree_with_brute_force(shape: str, coefficient: Fraction) -> None:
    n = 400
    utilities = {
        "flat": np.full(n, 17),
        "rising": np.arange(n),
        "falling": np.arange(n)[::-1],
        "spread": (np.arange(n) * 7919 % n) * 10**12 - 10**14,
    }[shape].astype(np.int64)
    expected = _brute_force_order(utilities, coefficient, SeededEntropy(41).words(n))
    for k in (1, 10, n, n + 5):
        assert drawn_from(SeededEntropy(41), exponential_top_k, utilities, coefficient, k).tolist() == expected[:k]


@pytest.mark.parametrize("rising", [False, True])
def test_many_chunks_keep_the_best(rising: bool) -> None:
    n, k = 3 * CHUNK + 5, 50
    utilities = np.arange(n, dtype=np.int32) // 100 if rising else np.zeros(n, dtype=np.int32)
    source = SeededEntropy(42)
    words = np.concatenate([source.words(min(CHUNK, n - first)) for first in range(0, n, CHUNK)])
    scores = utilities / 3 - np.log(-np.log1p(-(words.astype(np.float64) + 0.5) / 2.0**64))
    expected = np.argsort(-scores)[:k]
    assert drawn_from(SeededEntropy(42), exponential_top_k, utilities, Fraction(1, 3), k).tolist() == expected.tolist()


def test_utilities_far_from_the_best_keep_their_own_differences() -> None:
    """One item 10^17 above the others must not blur them: floats relative to the best would be off by hundreds."""
    n = 300
    utilities = np.concatenate([[10**17], np.arange(n)]).astype(np.int64)
    expected = _brute_force_order(utilities, Fraction(1), SeededEntropy(43).words(n + 1))
    assert drawn_from(SeededEntropy(43), exponential_top_k, utilities, 1, n + 1).tolist() == expected


def test_equal_words_are_told_apart_by_further_words() -> None:
    same = 123456789 << 30
    # The smaller uniform has the larger Gumbel noise.
    script = ScriptedEntropy([same, same, 5, 3])
    assert drawn_from(script, exponential_top_k, [7, 7], 1, 2).tolist() == [1, 0]
    assert script.left == 0
    script = ScriptedEntropy([same, same, 3, 3, 8, 20])
    assert drawn_from(script, exponential_top_k, [7, 7], 1, 1).tolist() == [0]
    assert script.left == 0


def test_words_are_not_wasted_on_items_behind_the_best() -> None:
    """Far from the best item floats are too coarse to drop the last two at first; their tie need not be resolved."""
    script = ScriptedEntropy([1 << 63, 1 << 50, 1 << 60, 1 << 60])
    assert drawn_from(script, exponential_top_k, [10**17, 0, 0, 0], 1, 2).tolist() == [0, 1]


def test_extreme_words_are_decided_exactly() -> None:
    ordinary = 1 << 63
    for words, order in (([ordinary, 1, LAST_WORD - 1], [1, 0, 2]), ([LAST_WORD, ordinary, 5], [2, 1, 0])):
        assert drawn_from(ScriptedEntropy(words), exponential_top_k, [0, 0, 0], 1, 3).tolist() == order
    # A first word of zero leaves the noise unbounded above: more of it is read.
    assert drawn_from(ScriptedEntropy([0, ordinary, 1 << 62]), exponential_top_k, [0, 0], 1, 1).tolist() == [0]
    assert drawn_from(ScriptedEntropy([0, ordinary, 1 << 62]), exponential_top_k, [0, 100], 1, 1).tolist() == [1]


def test_float_bounds_hold_and_are_narrow() -> None:
    generator = np.random.default_rng(44)
    edges = [1 << 20, (1 << 20) + 1, 1 << 30, (1 << 63) - 1, 1 << 63, LAST_WORD - (1 << 34), LAST_WORD - (1 << 40)]
    words = np.array(
        [*edges, *generator.integers(1 << 20, LAST_WORD - (1 << 34), 300, dtype=np.uint64)], dtype=np.uint64
    )
    penalties = np.where(np.arange(words.size) % 2, 0.0, 12345.678)
    low, high = score_bounds(penalties, words)
    assert np.all(high - low < 2.0**-15)
    assert np.median(high - low) < 2.0**-35
    with mp.workdps(50):
        for index, word in enumerate(words.tolist()):
            largest, smallest = (
                -mp.mpf(float(penalties[index])) - mp.log(-mp.log1p(-mp.mpf(w) / 2**64)) for w in (word, word + 1)
            )
            assert low[index] <= smallest < largest <= high[index]
    low, high = score_bounds(np.zeros(4), np.array([0, (1 << 20) - 1, LAST_WORD - (1 << 34) + 1, LAST_WORD], np.uint64))
    assert np.all(np.isneginf(low))
    assert np.all(np.isposinf(high))


def test_exact_bounds_hold_and_shrink() -> None:
    for penalty in (Fraction(0), Fraction(10**18, 7)):
        for word in (0, 1, 12345, 1 << 63, LAST_WORD):
            score = ExactScore(penalty, word)
            widths = []
            for _ in range(3):
                with mp.workdps(120):
                    middle = (mp.mpf(score.leading) + 0.5) / 2**score.bits
                    true = -mp.mpf(penalty.numerator) / penalty.denominator - mp.log(-mp.log1p(-middle))
                    assert score.low < Decimal(mp.nstr(true, 110)) < score.high
                widths.append(score.high - score.low)
                score.read_on(ScriptedEntropy([1 << 62]))
            assert widths[2] < widths[1] < widths[0]


def test_runs_join_everything_that_overlaps() -> None:
    high = np.array([10.0, 9.0, 8.0, 5.0, 4.9, 1.0])
    low = np.array([9.5, 7.0, 7.5, 4.8, 4.7, 0.5])
    assert list(overlapping_runs(low, high)) == [slice(1, 3), slice(3, 5)]
    assert list(overlapping_runs(low[:1], high[:1])) == []


def test_empty_requests_give_nothing() -> None:
    assert exponential_top_k(np.empty(0, dtype=np.int64), 1, 3).tolist() == []
    assert exponential_top_k([1, 2], 1, 0).tolist() == []


@pytest.mark.parametrize(
    ("utilities", "coefficient", "k"),
    [
        ([1.5], 1, 1),
        ([[1]], 1, 1),
        (np.array([1], dtype=np.uint64), 1, 1),
        ([True], 1, 1),
        ([1], 0.5, 1),
        ([1], -1, 1),
        ([1], (1 << 40) + 1, 1),
        ([1], 1, -1),
        ([(1 << 61) + 1], 1, 1),
        ([-(1 << 61) - 1], 1, 1),
    ],
)
def test_nonsense_is_refused(utilities: Any, coefficient: Any, k: Any) -> None:
    with pytest.raises(InvalidParameter):
        exponential_top_k(utilities, coefficient, k)
