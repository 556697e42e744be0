"""The golden values of the page, and the closed forms against each other."""

import math
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from records import GaussianRecords, LaplaceRecords, delta_records, rho_laplace

from dphist.mechanisms import Mechanism, epsilon_at
from dphist.mechanisms.continual import ContinualCounts
from dphist.mechanisms.from_top import FromTop
from dphist.noise import DiscreteLaplace
from dphist.noise.tails import log_pmf
from dphist.privacy import ranked, unknown_domain
from dphist.privacy.composition import delta_from_rho, epsilon_from_rho
from dphist.privacy.gaussian import quantile_for_infinity


def test_theorem_7_thresholds_and_rho() -> None:
    assert rho_laplace(1.0, 1) == pytest.approx(0.4621171573, rel=1e-8)
    assert 1 + quantile_for_infinity(1e-6, 1) == pytest.approx(5.753424309, rel=1e-9)
    assert unknown_domain.rho_records(2.0, 5, 3) == pytest.approx(5 * 9 / 8)


def test_theorem_7_epsilons_at_delta() -> None:
    threshold = 1 + quantile_for_infinity(1e-6, 1)
    rho = unknown_domain.rho_records(1.0, 1)
    by_cks = epsilon_from_rho(rho, (1e-5 - 1e-6) / (1 - 1e-6))
    assert by_cks == pytest.approx(4.752099332, rel=1e-7)

    class Exact(Mechanism):
        def delta(self, epsilon: float) -> float:
            return delta_records(epsilon, noise_std=1.0, threshold=threshold, max_groups=1)

    assert epsilon_at(Exact(), 1e-5) == pytest.approx(4.377178096, rel=1e-7)


@pytest.mark.parametrize(("std", "delta", "groups", "expected"), [(2.0, 1e-5, 1, 9), (5.0, 1e-6, 10, 27)])
def test_discrete_gaussian_thresholds_of_theorem_7(std: float, delta: float, groups: int, expected: int) -> None:
    assert GaussianRecords(groups, 1, std, float(expected), discrete=True).delta_infinity() <= delta
    assert GaussianRecords(groups, 1, std, float(expected - 1), discrete=True).delta_infinity() > delta


def test_rounding_a_threshold_down_leaks_as_much_as_the_page_says() -> None:
    low = math.floor(1 + 5.0 * quantile_for_infinity(1e-6, 10))
    assert GaussianRecords(10, 1, 5.0, float(low), discrete=True).delta_infinity() == pytest.approx(1.62e-6, rel=5e-3)


def test_discrete_laplace_threshold_of_theorem_7() -> None:
    assert LaplaceRecords(1, 1, 1.0, 14.0).delta_infinity() <= 1e-6 < LaplaceRecords(1, 1, 1.0, 13.0).delta_infinity()
    assert LaplaceRecords(1, 1, 1.0, 14.0).rho == pytest.approx(0.4621171573, rel=1e-8)


def test_rho_of_discrete_laplace_noise_is_its_divergence() -> None:
    for scale, step in [(1.0, 1), (2.0, 3), (5.0, 2)]:
        x = np.arange(-2000, 2001)
        p = np.exp(log_pmf(DiscreteLaplace(Fraction(scale)), x))
        log_ratio = (np.abs(x - step) - np.abs(x)) / scale
        expected = float(np.sum(p * log_ratio))
        assert rho_laplace(step / scale, 1, step) == pytest.approx(expected, rel=1e-7)
        # every Renyi divergence is below alpha rho
        for alpha in (1.1, 2.0, 5.0, 40.0):
            divergence = math.log(float(np.sum(p * np.exp((alpha - 1) * log_ratio)))) / (alpha - 1)
            assert divergence <= alpha * rho_laplace(step / scale, 1, step)


def test_theorem_8_thresholds_and_rho() -> None:
    assert unknown_domain.rho_from_top(1.0, 100, 10) == pytest.approx(5)
    assert unknown_domain.rho_from_top(2.0, 10, 50) == pytest.approx(1.375)
    assert unknown_domain.rho_from_top(1.0, 7, None, 2) == pytest.approx(8 * 4 / 2)
    assert FromTop(100, 2.0, 16, max_groups=10).delta_infinity() <= 1e-6
    assert FromTop(100, 2.0, 15, max_groups=10).delta_infinity() > 1e-6


def test_theorem_9_thresholds_and_rho() -> None:
    assert ranked.threshold_paper(1e-6, 1.0, 10) == pytest.approx(17.11809565, rel=1e-9)
    assert ranked.threshold(1e-6, 1.0, 10) == pytest.approx(17.11809465, rel=1e-9)
    assert ranked.rho(1e-3, 3) == 3e-6 / 8
    assert ranked.rho(1.0, 3) == pytest.approx(0.3699046844, rel=1e-8)
    assert ranked.smallest_threshold(1e-6, 1.0, 10) == 18
    assert ranked.smallest_threshold(0.6, 1.0, 1) == 1
    assert ranked.delta_infinity(10**6, 1.0, 10) < 1e-300
    for e in (1e-3, 0.0099, 0.0101, 0.5, 5.0):
        assert ranked.rho(e, 1) <= e * e / 8 * (1 + 1e-6)


def test_theorem_11_thresholds_and_rho() -> None:
    assert unknown_domain.rho_rounds(1.0, 1, 100) == pytest.approx(3.5)
    assert unknown_domain.rho_rounds(2.0, 5, 365) == pytest.approx(5.625)
    assert ContinualCounts(100, 1, 2.0, 25).delta_infinity() <= 1e-6 < ContinualCounts(100, 1, 2.0, 24).delta_infinity()


@settings(deadline=None)
@given(st.integers(1, 3000))
def test_rounds_are_counted_by_their_set_bits(rounds: int) -> None:
    counted = Counter(t.bit_count() for t in range(1, rounds + 1))
    assert unknown_domain.rounds_by_popcount(rounds) == [counted[p] for p in range(rounds.bit_length() + 1)]


@settings(deadline=None)
@given(st.floats(0.01, 4.0), st.floats(-5.0, 5.0))
def test_the_profile_of_one_choice_is_the_worst_over_all_ranges(e: float, at: float) -> None:
    """A choice with losses in [t - e, t]: the extreme pair has two outcomes with these losses."""
    worst = max(0.0, -math.expm1(at))
    for t in np.linspace(1e-9, e * (1 - 1e-9), 200):
        p = math.expm1(-(t - e)) / (math.exp(e - t) - math.exp(-t))  # P(loss = t): sum of Q = P e^-loss is 1
        worst = max(worst, p * max(0.0, -math.expm1(at - t)) + (1 - p) * max(0.0, -math.expm1(at - t + e)))
    bound = ranked.delta_of_symbol(e, at)
    assert worst <= bound * (1 + 1e-9) + 1e-15
    assert worst >= bound * 0.99 - 1e-4


def test_composition_of_choices_is_pessimistic_and_close() -> None:
    for e, at in [(0.3, 0.1), (1.0, 0.5)]:
        assert ranked.delta_of_symbol(e, at) <= ranked.delta_composed(e, 1, at) <= ranked.delta_of_symbol(e, at) * 1.001
    # Two symbols: the true composition is at least what any fixed pair of two-outcome choices has.
    e, at = 0.5, 0.4
    worst = 0.0
    for t in np.linspace(0.01, 0.49, 49):
        p = math.expm1(e - t) / (math.exp(e - t) - math.exp(-t))
        losses, chances = np.array([2 * t, 2 * t - e, 2 * t - 2 * e]), np.array([p * p, 2 * p * (1 - p), (1 - p) ** 2])
        worst = max(worst, float(np.sum(chances * np.maximum(0, -np.expm1(at - losses)))))
    assert worst <= ranked.delta_composed(e, 2, at) <= 1.3 * worst
    # Never worse than zCDP alone, and far better at few symbols.
    assert ranked.delta_of_symbols(0.1, 10, 1.0) <= 1e-17
    assert ranked.delta_of_symbols(1e-4, 10_000, 0.1) == delta_from_rho(ranked.rho(1e-4, 10_000), 0.1)


def test_sessions_pay_for_the_smaller_of_queries_and_symbols() -> None:
    assert ranked.delta_of_session(1e-9, 50, 20) == pytest.approx(20e-9, rel=1e-6)
    assert ranked.delta_of_session(1e-9, 5, 20) == pytest.approx(5e-9, rel=1e-6)
