"""The long runs: ten million samples of each law against its exact probabilities, from the system's own entropy."""

from __future__ import annotations

import tracemalloc
from fractions import Fraction

import numpy as np
import pytest
from noise_oracle import ALPHA, chi_square_p_value, rescaled

from dphist.noise import (
    DiscreteGaussian,
    DiscreteLaplace,
    Law,
    RoundedGaussian,
    TruncatedDiscreteLaplace,
    exponential_top_k,
    sample,
    sample_exactly,
)

SIZE = 10_000_000
pytestmark = pytest.mark.statistical


@pytest.mark.parametrize(
    "law",
    [
        DiscreteGaussian(Fraction(1, 4)),
        DiscreteGaussian(Fraction(1)),
        DiscreteGaussian(Fraction(1000) ** 2),
        DiscreteGaussian(Fraction(10**12)),
        RoundedGaussian(Fraction(1), 0),
        RoundedGaussian(Fraction(10), 10),
        RoundedGaussian(Fraction(10**6), 20),
        DiscreteLaplace(Fraction(1)),
        DiscreteLaplace(Fraction(1000)),
        DiscreteLaplace(Fraction(10**6)),
        TruncatedDiscreteLaplace(Fraction(1), 27),
        TruncatedDiscreteLaplace(Fraction(1, 1000), 10**5),
    ],
)
def test_ten_million_samples_fit_their_law_and_no_other_scale(law: Law) -> None:
    samples = sample(law, SIZE)
    assert chi_square_p_value(samples, law, bins=2000) > ALPHA
    # At this size one part in a hundred is enough to be found out.
    for factor in (Fraction(9, 10), Fraction(11, 10), Fraction(99, 100), Fraction(101, 100)):
        assert chi_square_p_value(samples, rescaled(law, factor), bins=2000) < ALPHA


@pytest.mark.parametrize("scale", [Fraction(1, 3), Fraction(1), Fraction(1000), Fraction(10**9)])
def test_ten_million_exact_samples_fit_their_law_and_no_other_scale(scale: Fraction) -> None:
    law = DiscreteLaplace(scale)
    samples = sample_exactly(law, SIZE)
    assert chi_square_p_value(samples, law, bins=2000) > ALPHA
    for factor in (Fraction(99, 100), Fraction(101, 100)):
        assert chi_square_p_value(samples, rescaled(law, factor), bins=2000) < ALPHA


def test_ten_million_samples_need_no_more_memory_than_their_array() -> None:
    law = RoundedGaussian(Fraction(1000), 10)
    tracemalloc.start()
    samples = sample(law, SIZE)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak - samples.nbytes < 6_000_000


def test_ten_million_items_are_ranked_in_little_memory() -> None:
    utilities = np.arange(SIZE, dtype=np.int64) % 1000
    tracemalloc.start()
    best = exponential_top_k(utilities, Fraction(1, 10), 1000)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert np.unique(best).size == 1000
    assert peak < 12_000_000
