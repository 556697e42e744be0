from __future__ import annotations

import math
import tracemalloc
from fractions import Fraction

import numpy as np
import pytest
from noise_oracle import ALPHA, chi_square_p_value, rescaled

from dphist.noise import DiscreteGaussian, DiscreteLaplace, Law, RoundedGaussian, TruncatedDiscreteLaplace, sample
from dphist.noise.enclosure import exp_bounds
from dphist.noise.sampling import CHUNK, BlockSampler, Room, sampler_of
from dphist.noise.testing import ScriptedEntropy, SeededEntropy
from word_sources import drawn_from, words_from

LAWS: list[Law] = [
    DiscreteGaussian(Fraction(9, 100)),
    DiscreteGaussian(Fraction(1)),
    DiscreteGaussian(Fraction(70) ** 2),
    DiscreteGaussian(Fraction(77) ** 2),
    DiscreteGaussian(Fraction(2228) ** 2),
    DiscreteGaussian(Fraction(10**12)),
    DiscreteGaussian(Fraction(1 << 88)),
    RoundedGaussian(Fraction(1, 4), 0),
    RoundedGaussian(Fraction(1), 0),
    RoundedGaussian(Fraction(15, 7), 3),
    RoundedGaussian(Fraction(1000), 10),
    RoundedGaussian(Fraction(10**6), 20),
    RoundedGaussian(Fraction(1 << 44), 0),
    DiscreteLaplace(Fraction(3, 10)),
    DiscreteLaplace(Fraction(1)),
    DiscreteLaplace(Fraction(22)),
    DiscreteLaplace(Fraction(24)),
    DiscreteLaplace(Fraction(10**6)),
    DiscreteLaplace(Fraction(1 << 44)),
    TruncatedDiscreteLaplace(Fraction(1), 1),
    TruncatedDiscreteLaplace(Fraction(1), 2),
    TruncatedDiscreteLaplace(Fraction(1), 26),
    TruncatedDiscreteLaplace(Fraction(1), 27),
    TruncatedDiscreteLaplace(Fraction(1, 10**4), 10**5),
    TruncatedDiscreteLaplace(Fraction(1, 10**4), 10**5 + 1),
    TruncatedDiscreteLaplace(Fraction(1, 1000), 10**6 + 1),
]
SIZE = 200_000
LAST_WORD = (1 << 64) - 1


@pytest.mark.parametrize("law", LAWS)
def test_samples_fit_their_law_and_no_other_scale(law: Law) -> None:
    samples = drawn_from(SeededEntropy(20), sample, law, SIZE)
    assert chi_square_p_value(samples, law) > ALPHA
    if law != TruncatedDiscreteLaplace(Fraction(1), 1):  # a fair coin at any scale
        assert chi_square_p_value(samples, rescaled(law, Fraction(9, 10))) < ALPHA
        assert chi_square_p_value(samples, rescaled(law, Fraction(11, 10))) < ALPHA


@pytest.mark.parametrize("law", [DiscreteGaussian(Fraction(10**12)), RoundedGaussian(Fraction(10**6), 10)])
def test_the_last_digits_of_wide_gaussians_are_uniform(law: Law) -> None:
    """Wide bins would not see an error inside a block; a Gaussian of this width is uniform modulo 64 to within e^−10^9."""
    residues = np.bincount(drawn_from(SeededEntropy(21), sample, law, SIZE) & 63, minlength=64)
    statistic = float(np.sum((residues - SIZE / 64) ** 2) / (SIZE / 64))
    assert statistic < 63 + 10 * math.sqrt(2 * 63)


def test_both_sides_and_the_middle_have_their_share() -> None:
    samples = drawn_from(SeededEntropy(22), sample, DiscreteGaussian(Fraction(1)), SIZE)
    middle = 1 / sum(math.exp(-x * x / 2) for x in range(-20, 21))
    for share, expected in ((np.mean(samples == 0), middle), (np.mean(samples > 0), (1 - middle) / 2)):
        assert abs(float(share) - expected) < 5 * math.sqrt(expected * (1 - expected) / SIZE)


def test_a_tiny_scale_gives_zeros() -> None:
    for law in (
        DiscreteGaussian(Fraction(1, 400)),
        RoundedGaussian(Fraction(1, 20), 0),
        DiscreteLaplace(Fraction(1, 50)),
    ):
        assert not drawn_from(SeededEntropy(23), sample, law, 10_000).any()


@pytest.mark.parametrize("law", [LAWS[1], LAWS[5], LAWS[10], LAWS[17], LAWS[23]])
def test_chunks_join_without_a_seam(law: Law) -> None:
    """Many small draws, draws across chunk borders and one large draw have the same law."""
    with words_from(SeededEntropy(24)):
        small = np.concatenate([sample(law, size) for size in range(1, 300)])
        borders = np.concatenate([sample(law, CHUNK + extra) for extra in (-1, 0, 1, 5)])
        large = sample(law, 4 * CHUNK)
    for samples in (small, borders, large):
        assert chi_square_p_value(samples, law, bins=50) > ALPHA


def test_sizes_and_types() -> None:
    for law in (LAWS[1], LAWS[5]):
        for size in (0, 1, CHUNK, CHUNK + 1):
            samples = sample(law, size)
            assert samples.shape == (size,)
            assert samples.dtype == np.int64


def test_truncated_samples_stay_in_their_support() -> None:
    for q in (0, 1, 2, 5, 4096, 4097, 10**5, 10**5 + 1):
        samples = drawn_from(SeededEntropy(25), sample, TruncatedDiscreteLaplace(Fraction(1, 10**5), q), SIZE)
        assert samples.min() >= -q
        assert samples.max() <= 0
        if q <= 5:
            assert set(samples.tolist()) == set(range(-q, 1))


def test_memory_does_not_grow_with_n() -> None:
    law = RoundedGaussian(Fraction(1000), 10)
    sample(law, 1)

    def extra_memory(n: int) -> int:
        tracemalloc.start()
        samples = sample(law, n)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        return peak - samples.nbytes

    assert extra_memory(2_000_000) < extra_memory(4 * CHUNK) + 1_000_000 < 5_000_000


def test_a_tie_in_the_alias_table_is_decided_by_the_next_word() -> None:
    law = DiscreteGaussian(Fraction(1))
    table, values = sampler_of(law).alias, sampler_of(law).blocks.first_values
    column = next(
        c for c, threshold in enumerate(table.thresholds) if threshold % (1 << 64) > 0 and table.aliases[c] != c
    )
    threshold = table.thresholds[column]
    tie = column << table.word_bits | threshold >> 64
    rest = threshold % (1 << 64)
    for next_word, symbol in (
        (0, column),
        (rest - 1, column),
        (rest, table.aliases[column]),
        (LAST_WORD, table.aliases[column]),
    ):
        script = ScriptedEntropy([tie, next_word])
        assert drawn_from(script, sample, law, 1).tolist() == [values[symbol]]
        assert script.left == 0


def test_a_tie_in_a_full_column_changes_nothing() -> None:
    law = TruncatedDiscreteLaplace(Fraction(1), 0)
    table = sampler_of(law).alias
    full = table.thresholds.index(1 << table.threshold_bits)
    for next_word in (0, LAST_WORD):
        word = full << table.word_bits | ((1 << table.word_bits) - 1)
        assert drawn_from(ScriptedEntropy([word, next_word]), sample, law, 1).tolist() == [0]


def _first_word_of_block(sampler: BlockSampler, block: int) -> int:
    """A first word that draws this block: the lowest one of its own column."""
    assert sampler.alias.thresholds[block] >> 64 > 0
    return block << sampler.alias.word_bits


def _second_word(sampler: BlockSampler, uniform: int, position: int) -> int:
    """The second word with these leading bits of U and this position."""
    return (uniform << sampler.position_bits | position) ^ (1 << 63)


@pytest.mark.parametrize("law", [DiscreteGaussian(Fraction(1000) ** 2), DiscreteLaplace(Fraction(1 << 45))])
def test_a_close_call_of_a_discrete_law_is_decided_by_further_words(law: Law) -> None:
    sampler = sampler_of(law)
    block, position = 100, sampler.blocks.width - 1
    start = sampler.blocks.starts[block]
    gamma = sampler.blocks.decay.rise(start, position)
    bits = sampler.acceptance_bits
    uniform = exp_bounds(gamma, bits + 64)[0] >> 64  # the leading bits of exp(−gamma) itself
    second = _second_word(sampler, uniform, position)
    first, value = _first_word_of_block(sampler, block), start + position
    accepted = ScriptedEntropy([first, second, 0])
    assert drawn_from(accepted, sample, law, 1).tolist() == [value]
    assert accepted.left == 0
    easy = _second_word(sampler, 0, 0)
    rejected = ScriptedEntropy([first, second, LAST_WORD, first, easy])
    assert drawn_from(rejected, sample, law, 1).tolist() == [start]
    assert rejected.left == 0
    # The next 64 bits agree as well: one more word is read.
    further = exp_bounds(gamma, bits + 128)[0] >> 64 & LAST_WORD
    assert drawn_from(ScriptedEntropy([first, second, further, 0]), sample, law, 1).tolist() == [value]
    assert not sampler.accepts_exactly(start, second, ScriptedEntropy([further, LAST_WORD]))


def test_a_close_call_of_a_continuous_law_refines_the_position_too() -> None:
    law = RoundedGaussian(Fraction(1000), 4)
    sampler = sampler_of(law)
    start = sampler.blocks.starts[100]
    position = (1 << sampler.position_bits) - 1
    unit = Fraction(sampler.blocks.width, 1 << sampler.position_bits)
    uniform = exp_bounds(sampler.blocks.decay.rise(start, position * unit), sampler.acceptance_bits + 64)[0] >> 64
    second = _second_word(sampler, uniform, position)
    for word, answer in ((0, True), (LAST_WORD, False)):
        script = ScriptedEntropy([word, 1 << 63])
        assert sampler.accepts_exactly(start, second, script) is answer
        assert script.left == 0
    # Not close at all: no word is read.
    assert sampler.accepts_exactly(start, _second_word(sampler, 0, position), ScriptedEntropy([]))
    highest = (1 << sampler.acceptance_bits) - 1
    assert not sampler.accepts_exactly(start, _second_word(sampler, highest, position), ScriptedEntropy([]))


@pytest.mark.parametrize("law", [LAWS[4], LAWS[6], LAWS[9], LAWS[12], LAWS[16], LAWS[18], LAWS[23]])
def test_floats_never_contradict_the_exact_decision(law: Law) -> None:
    """Words at and around the edge of the guard band, where a float would be wrong first."""
    sampler = sampler_of(law)
    generator = np.random.default_rng(26)
    scale = 1 << sampler.acceptance_bits
    # Full columns of a truncated law's last block could be rejected for being outside: stay in the first half.
    blocks = [b for b in range(sampler.blocks.positive_blocks // 2) if sampler.alias.thresholds[b] >> 64 > 0]
    for _ in range(250):
        block = int(generator.choice(blocks))
        start = sampler.blocks.starts[block]
        position = int(generator.integers(1 << sampler.position_bits))
        unit = Fraction(sampler.blocks.width, 1 << sampler.position_bits)
        probability = math.exp(-float(sampler.blocks.decay.rise(start, position * unit)))
        distance = sampler.guard * float(generator.choice([-2, -1.01, -1, -0.99, -0.01, 0.01, 0.99, 1, 1.01, 2]))
        uniform = min(max(int((probability + distance) * scale), 0), scale - 1)
        second = _second_word(sampler, uniform, position)
        more = [int(word) for word in generator.integers(0, 1 << 64, 4, dtype=np.uint64)]
        exact = sampler.accepts_exactly(start, second, ScriptedEntropy(more))
        script = ScriptedEntropy([_first_word_of_block(sampler, block), second, *more])
        drawn = np.empty(1, dtype=np.int64)
        accepted = sampler.propose(drawn, Room(1), script)
        assert bool(accepted) is exact
