"""Truncated Laplace as a mechanism: calibrated to its budget, and what it draws."""

import math
from fractions import Fraction

import numpy as np
import pytest

from dphist.errors import Infeasible, InvalidParameter
from dphist.mechanisms import TruncatedLaplace
from dphist.mechanisms.surcharge import MOST_DRAWS, SAMPLER_ERROR
from dphist.noise import TruncatedDiscreteLaplace, log_pmf, sampler_error
from dphist.noise.testing import SeededEntropy
from drawn_laws import recorded
from word_sources import drawn_from


@pytest.mark.parametrize(
    ("epsilon", "delta", "bars"), [(1, 2**-20, 1), (0.5, 1e-5, 3), (2, 1e-8, 40), (1, 0.999999, 1)]
)
def test_calibrated_implies_target_and_one_step_less_fails(epsilon: float, delta: float, bars: int) -> None:
    found = TruncatedLaplace.for_budget(epsilon, delta, bars)
    assert found.delta(epsilon) <= delta
    if found.q:
        assert TruncatedLaplace(found.epsilon_per_group, found.q - 1, bars).delta(epsilon) > delta
    assert MOST_DRAWS * sampler_error(found.law) <= SAMPLER_ERROR
    assert ("one group" if bars == 1 else str(bars)) in found.assumption


def test_counts_are_too_small_by_at_most_q_and_empty_bars_never_appear() -> None:
    mechanism = TruncatedLaplace.for_budget(1, 2**-20)
    counts = np.array([0, 1, 5, 27, 28, 1000] * 2000, dtype=np.int64)
    kept = drawn_from(SeededEntropy(8), mechanism.perturb, counts)
    assert np.all(counts[kept.index] > 0)
    assert np.all(kept.noisy > 0)
    lost = counts[kept.index] - kept.noisy
    assert lost.min() >= 0
    assert lost.max() <= mechanism.q
    assert set(np.flatnonzero(counts > mechanism.q)) <= set(kept.index)
    share = np.isin(np.flatnonzero(counts == 5), kept.index).mean()
    assert share == pytest.approx(mechanism.release_probability(5), abs=0.05)


def test_counts_are_drawn_with_the_law_that_is_paid_for() -> None:
    """One unit moves a bar by one, which costs epsilon, and shows a bar of its own with at most delta: a plain sum."""
    mechanism = TruncatedLaplace.for_budget(0.5, 1e-5)
    counts = np.array([0, 70, 0, 90, 400], np.int64)
    with recorded(lambda _, size: -np.arange(size)) as draws:
        kept = mechanism.perturb(counts)
    (draw,) = draws
    assert isinstance(draw.law, TruncatedDiscreteLaplace)
    assert kept.index.tolist() == [1, 3, 4]
    assert kept.noisy.tolist() == [70, 89, 398]
    q, epsilon = draw.law.q, float(draw.law.epsilon)
    weights = np.exp(epsilon * np.minimum(np.arange(q + 1), np.arange(q, -1, -1)))  # of -q, ..., 0
    pmf = np.append(weights / weights.sum(), 0.0)
    moved = np.append(0.0, pmf[:-1])  # one unit more
    for at in (0.25, 0.5):
        exact = max(np.maximum(a - math.exp(at) * b, 0).sum() for a, b in ((pmf, moved), (moved, pmf)))
        assert exact * (1 - 1e-9) <= mechanism.delta(at) <= exact * (1 + 1e-6)
    assert mechanism.delta(0.5) <= 1e-5


def test_release_probability_and_noise() -> None:
    for q in (0, 1, 6, 7):
        mechanism = TruncatedLaplace(Fraction(1, 2), q)
        pmf = np.exp(log_pmf(mechanism.law, np.arange(-q, 1)))
        assert mechanism.release_probability(0) == 0
        assert mechanism.release_probability(q + 1) == 1
        for count in range(1, q + 2):
            above = pmf[np.arange(-q, 1) + count > 0].sum()
            assert mechanism.release_probability(count) == pytest.approx(above, rel=1e-9)
        steps = np.arange(-q, 1) + q / 2
        assert mechanism.noise_std == pytest.approx(math.sqrt(float(np.sum(pmf * steps**2))), abs=1e-12)
    wide, narrow = TruncatedLaplace(Fraction(1), 2**21), TruncatedLaplace(Fraction(1), 2**10)
    assert wide.noise_std == pytest.approx(narrow.noise_std, rel=1e-9)


def test_large_epsilons_are_capped_and_tiny_deltas_refused() -> None:
    assert TruncatedLaplace.for_budget(50, 1e-6) == TruncatedLaplace.for_budget(30, 1e-6)
    assert TruncatedLaplace.for_budget(50, 1e-6).delta(50) <= 1e-6
    with pytest.raises(Infeasible, match="what the sampler itself may add"):
        TruncatedLaplace.for_budget(1, 1e-40)


def test_wide_noise_has_a_finite_delta() -> None:
    """From q = 1420 on e^(q/2) is beyond the doubles."""
    for q in (1418, 1421, 20_000):
        mechanism = TruncatedLaplace(Fraction(1), q, 2)
        assert 0 < mechanism.delta(2) < 1e-25  # what the sampler itself may add
        assert mechanism.delta(0.5) == pytest.approx(TruncatedLaplace(Fraction(1), 200 + q % 2, 2).delta(0.5), rel=1e-8)


def test_refusals() -> None:
    with pytest.raises(InvalidParameter, match=r"at most 2\^40"):
        TruncatedLaplace(Fraction(1), 2**41)
    with pytest.raises(InvalidParameter, match="an int or a Fraction"):
        TruncatedLaplace(0.5, 3)  # type: ignore[arg-type]
    with pytest.raises(InvalidParameter, match="bars per unit"):
        TruncatedLaplace(Fraction(1), 3, 0)
