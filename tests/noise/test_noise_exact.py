"""The sampler without an error: its coins enclose their probabilities, its digits make the law, and no other scale fits."""

from __future__ import annotations

import math
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest
from noise_oracle import ALPHA, chi_square_p_value, rescaled
from scipy import stats

from dphist.errors import InvalidParameter
from dphist.noise import DiscreteLaplace, add_exactly, exact, sample_exactly
from dphist.noise.enclosure import exp_bounds
from dphist.noise.exact import CHUNK, LARGEST_NOISY, SATURATION
from dphist.noise.testing import ScriptedEntropy, SeededEntropy
from word_sources import drawn_from, without_permission

SIZE = 70_000
LAST_WORD = (1 << 64) - 1


@pytest.mark.parametrize(
    "scale",
    [Fraction(1, 4), Fraction(2, 3), Fraction(1), Fraction(30), Fraction(10**6) + Fraction(1, 7), Fraction(2**45)],
)
def test_samples_fit_their_law_and_no_other_scale(scale: Fraction) -> None:
    law = DiscreteLaplace(scale)
    samples = drawn_from(SeededEntropy(11), sample_exactly, law, SIZE)
    assert chi_square_p_value(samples, law) > ALPHA
    for factor in (Fraction(9, 10), Fraction(21, 20)):
        if scale * factor < 2**45:
            assert chi_square_p_value(samples, rescaled(law, factor)) < ALPHA
    signs = int((samples > 0).sum()), int((samples != 0).sum())
    assert stats.binomtest(*signs).pvalue > ALPHA
    assert len(samples) > CHUNK


@pytest.mark.parametrize("gamma", [Fraction(1, 2**45), Fraction(1, 3), Fraction(1), Fraction(50), Fraction(2**40)])
@pytest.mark.parametrize("bits", [64, 128, 192])
def test_coins_enclose_their_probabilities_closely(gamma: Fraction, bits: int) -> None:
    """By decimals with far more digits than the enclosures need."""
    with localcontext(prec=200, Emin=-(10**17), Emax=10**17):
        ratio = (-Decimal(gamma.numerator) / Decimal(gamma.denominator)).exp()
        digit, zero = (2**bits * p for p in (ratio / (1 + ratio), (1 - ratio) / (1 + ratio)))
        for bounds, truth in ((exact.digit_bounds(gamma, bits), digit), (exact.zero_bounds(gamma, bits), zero)):
            low, high = bounds
            assert 0 <= low <= truth <= high <= 2**bits
            assert high - low <= 2


@pytest.mark.parametrize("scale", [0.7, 1.0, 5.3])
def test_digits_and_coins_make_the_geometric_law(scale: float) -> None:
    """Independent digits with the odds r^(2^j) and a geometric number of wholes above them: enumerated."""
    digits = next(d for d in range(9) if 2**d >= 4 * scale)
    law = np.ones(1)
    for digit in range(digits):
        odds = math.exp(-(2**digit) / scale)
        law = np.concatenate([law / (1 + odds), law * odds / (1 + odds)])
    above = math.exp(-(2**digits) / scale)
    found = np.concatenate([law * (1 - above) * above**k for k in range(5)])
    ratio = math.exp(-1 / scale)
    assert found == pytest.approx((1 - ratio) * ratio ** np.arange(len(found)), rel=1e-12)


def test_every_word_has_its_place() -> None:
    """Scale 1/8: no digits. Zero, a sign, one coin that goes on and one that ends it."""
    law = DiscreteLaplace(Fraction(1, 8))
    (low, _), (going_on, _) = exact.zero_bounds(Fraction(8), 64), exp_bounds(Fraction(8), 64)
    for words, value in (
        ([0], 0),
        ([low - 1], 0),
        ([LAST_WORD, 0, LAST_WORD], 1),
        ([LAST_WORD, 1 << 63, LAST_WORD], -1),
        ([LAST_WORD, 1 << 63, going_on - 1, LAST_WORD], -2),
        ([LAST_WORD, 0, 0, 0, LAST_WORD], 3),
    ):
        script = ScriptedEntropy(words)
        assert drawn_from(script, sample_exactly, law, 1).tolist() == [value]
        assert script.left == 0


def test_a_tie_is_decided_by_further_words() -> None:
    gamma = Fraction(8)
    leading = exact.zero_bounds(gamma, 128)[0] >> 64
    second = exact.zero_bounds(gamma, 192)[0] >> 64 & LAST_WORD
    for more, zero in (
        ([0], True),
        ([LAST_WORD], False),
        ([second, 0], True),
        ([second, LAST_WORD], False),
    ):
        script = ScriptedEntropy([leading, *more])
        assert exact.coins(lambda bits: exact.zero_bounds(gamma, bits), 1, script).tolist() == [zero]
        assert script.left == 0


def test_magnitudes_saturate_and_keep_their_law_below() -> None:
    law = DiscreteLaplace(Fraction(3))
    cut = drawn_from(SeededEntropy(5), sample_exactly, law, SIZE, saturation=8)
    full = drawn_from(SeededEntropy(6), sample_exactly, law, SIZE)
    assert np.abs(cut).max() == 8
    for value in (-8, -3, 0, 8):
        counts = [int((np.clip(one, -8, 8) == value).sum()) for one in (cut, full)]
        assert stats.binomtest(counts[0], sum(counts)).pvalue > ALPHA


def test_noisy_values_stay_in_a_public_range(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cut after the noise: whatever noise at or beyond the saturation would have been, the result is the end of the range."""
    for value in (-(SATURATION - LARGEST_NOISY), -7, 0, SATURATION - LARGEST_NOISY):
        drawn = np.array([SATURATION, -SATURATION, 5 - value])
        monkeypatch.setattr(exact, "sample_exactly", lambda law, n, drawn=drawn: drawn)
        noisy = add_exactly(np.full(3, value), DiscreteLaplace(Fraction(1)))
        assert noisy.tolist() == [LARGEST_NOISY, -LARGEST_NOISY, 5]


def test_noise_is_added_to_the_values_as_they_are() -> None:
    """What `sample_exactly` gives for the same words."""
    values, law = np.arange(-50, 50) * 10**9, DiscreteLaplace(Fraction(40))
    noise = drawn_from(SeededEntropy(3), sample_exactly, law, 100)
    assert len(set(noise.tolist())) > 50
    assert drawn_from(SeededEntropy(3), add_exactly, values, law).tolist() == (values + noise).tolist()


def test_nonsense_is_refused() -> None:
    with pytest.raises(InvalidParameter):
        sample_exactly(DiscreteLaplace(Fraction(1)), -1)
    with without_permission(SeededEntropy(1)), pytest.raises(InvalidParameter):
        sample_exactly(DiscreteLaplace(Fraction(1)), 1)
    assert sample_exactly(DiscreteLaplace(Fraction(1)), 0).shape == (0,)
