"""The mechanisms for unknown domains: what they draw, what they refuse, and that calibration meets its budget."""

import math
from collections import Counter
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from records import GaussianRecords, LaplaceRecords
from scipy.stats import chi2

from dphist.audit.laws import ranked_law
from dphist.errors import InvalidParameter
from dphist.mechanisms import continual, correlated_top_k, from_top, ranked
from dphist.mechanisms.continual import ContinualCounts
from dphist.mechanisms.correlated_top_k import CorrelatedTopK
from dphist.mechanisms.from_top import FromTop
from dphist.mechanisms.ranked import Chosen, Ranked
from dphist.noise import DiscreteGaussian, RoundedGaussian
from dphist.noise.testing import SeededEntropy
from word_sources import drawn_from, words_from


def test_records_noise_positive_counts_and_keep_what_is_above() -> None:
    counts = np.array([0, 3, 500, 0, 900], dtype=np.int64)
    for mechanism in (
        LaplaceRecords(3, 2, 4.0, 100.0),
        GaussianRecords(3, 2, 9.0, 100.0, discrete=True),
        GaussianRecords(3, 2, 9.0, 100.0),
    ):
        kept = drawn_from(SeededEntropy(7), mechanism.perturb, counts)
        assert kept.index.tolist() == [2, 4]
        assert np.abs(kept.counts - counts[[2, 4]]).max() < 60
        assert "at most 3 groups, at most 2 times" in mechanism.assumption
        assert mechanism.theorem
        assert mechanism.rho > 0


@settings(max_examples=20, deadline=None)
@given(st.integers(1, 50), st.integers(1, 20), st.floats(1.0, 200.0), st.integers(0, 300))
def test_records_in_units_of_max_per_group_are_the_same_mechanism(
    groups: int, per_group: int, std: float, gap: int
) -> None:
    once = GaussianRecords(groups, 1, std, 1.0 + gap)
    many = GaussianRecords(groups, per_group, std * per_group, float(per_group + gap * per_group))
    assert many.delta(0.7) == pytest.approx(once.delta(0.7), rel=1e-6)


def test_laplace_records_take_the_better_of_pure_and_concentrated() -> None:
    many = LaplaceRecords(100, 1, 20.0, 2000.0)  # pure epsilon 5, rho 0.125
    assert many.delta(3.0) < 1e-4
    assert many.delta(5.0) == pytest.approx(many.delta_infinity(), abs=1e-25)
    assert many.delta(0.0) > many.delta(1.0)


def test_from_top_releases_what_is_above_a_noisy_threshold() -> None:
    mechanism = FromTop(3, 2.0, 20, max_groups=2)
    kept, limit = drawn_from(SeededEntropy(1), mechanism.perturb, np.array([900, 500, 101, 100], dtype=np.int64))
    assert kept.index.tolist() == [0, 1]
    assert abs(limit - 120) < 20
    kept, limit = drawn_from(SeededEntropy(2), mechanism.perturb, np.array([900, 15], dtype=np.int64))
    assert kept.index.tolist() == [0]
    assert abs(limit - 20) < 20
    kept, _ = drawn_from(SeededEntropy(2), mechanism.perturb, np.array([], dtype=np.int64))
    assert len(kept.index) == 0
    assert "at most 2 groups" in mechanism.assumption
    assert "at most 1 group" in FromTop(3, 2.0, 20, max_groups=1, max_per_group=4).assumption
    assert "any number" in FromTop(3, 2.0, 20).assumption
    assert "Theorem 8" in mechanism.theorem


def test_from_top_draws_the_law_it_is_accounted_for() -> None:
    """Chance that a group exactly at the threshold passes: P(Z - Z0 > 0), alpha = 1e-6 by a normal bound."""
    mechanism = FromTop(1, 3.0, 10)
    n, passed = 4000, 0
    with words_from(SeededEntropy(5)):
        for _ in range(n):
            passed += len(mechanism.perturb(np.array([30, 20], dtype=np.int64))[0].index)
    tie = 1 / math.sqrt(2 * math.pi * 18)
    expected = (1 - tie) / 2
    assert abs(passed / n - expected) < 4.9 * math.sqrt(0.25 / n)
    assert abs(passed / n - (1 + tie) / 2) > 0.02  # >= instead of > would show


def test_peeling_is_the_exponential_mechanism() -> None:
    """Chi-square over whole sequences, alpha = 1e-6; a coefficient 50 % off is rejected."""
    mechanism = Ranked(2, 3, 0.5, 4)
    counts = np.array([6, 5, 3, 2], dtype=np.int64)
    n = 2000
    seen: Counter[tuple[str, ...]] = Counter()
    with words_from(SeededEntropy(11)):
        for _ in range(n):
            chosen = mechanism.choose(counts, 2)
            seen[(*(("A", "B", "C")[i] for i in chosen.index), *(["STOP"] if chosen.stopped else []))] += 1
            assert chosen.symbols == len(chosen.index) + chosen.stopped

    def statistic(coefficient: float) -> tuple[float, int]:
        law = ranked_law({"A": 6, "B": 5, "C": 3}, 2 + 4, coefficient, 2)
        return math.fsum((seen[o] - n * p) ** 2 / (n * p) for o, p in law.items()), len(law) - 1  # type: ignore[index]

    value, freedom = statistic(0.5)
    assert value < chi2.isf(1e-6, freedom)
    assert statistic(0.5 * 1.5)[0] > chi2.isf(1e-6, freedom)


def test_a_ranked_list_ends_with_stop_or_is_full() -> None:
    mechanism = Ranked(3, 2, 5.0, 60)
    assert mechanism.choose(np.array([900, 500], dtype=np.int64), 2) == _Same([0, 1], False)
    assert mechanism.choose(np.array([900, 500, 400], dtype=np.int64), 3) == _Same([0, 1], True)
    assert mechanism.choose(np.array([], dtype=np.int64), 1) == _Same([], True)
    assert mechanism.delta_infinity() < 1e-100 < Ranked(3, 2, 5.0, 6, queries=9).delta_infinity()
    assert GaussianRecords(1, 1, 2.0, 9.0).delta_infinity() == pytest.approx(3.167e-5, rel=1e-3)
    with pytest.raises(InvalidParameter, match="between 1 and 3 results"):
        mechanism.choose(np.array([1], dtype=np.int64), 4)


class _Same:
    def __init__(self, index: list[int], stopped: bool) -> None:
        self.index, self.stopped = index, stopped

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Chosen) and other.index.tolist() == self.index and other.stopped == self.stopped


def test_correlated_top_k_cancels_the_common_noise() -> None:
    mechanism = CorrelatedTopK(3, 2.0, 400.0, 0.5, threshold=1.0 + 2.0**-12)
    counts = np.array([9000, 7000, 4000, 1000], dtype=np.int64)
    errors = []
    with words_from(SeededEntropy(3)):
        for _ in range(200):
            kept, base = mechanism.perturb(counts)
            assert kept.index.tolist() == [0, 1, 2]
            errors.append(kept.counts - counts[:3])
            assert abs(math.ldexp(base, -12) - 1000) < 400
    assert np.std(errors) == pytest.approx(mechanism.noise_std, rel=0.2)
    few, base = mechanism.perturb(counts[:2])
    assert few.index.tolist() == [0, 1]
    assert abs(math.ldexp(base, -12)) < 500


@pytest.mark.parametrize(("epsilon", "delta"), [(0.5, 1e-6), (1.0, 1e-8), (50.0, 1e-9)])
def test_calibration_meets_its_budget(epsilon: float, delta: float) -> None:
    for mechanism in (
        from_top.calibrate(epsilon, delta, 20, 3),
        from_top.calibrate(epsilon, delta, 20, None, 2),
        ranked.calibrate(epsilon, delta, 5, 50),
        ranked.calibrate(epsilon, delta, 20, 50, queries=4, max_per_group=3),
        continual.calibrate(epsilon, delta, 30, 2),
        correlated_top_k.calibrate(epsilon, delta, 20),
    ):
        assert mechanism.delta(epsilon) <= delta
        assert mechanism.delta(epsilon) > delta / 30 or epsilon > 10  # whole thresholds are coarse there
        assert "[" in mechanism.theorem
        assert mechanism.assumption


def test_a_threshold_one_step_lower_fails() -> None:
    made = from_top.calibrate(1.0, 1e-6, 10, 2)
    assert FromTop(10, made.noise_std, made.threshold - 1, 2, rounded=True).delta(1.0) > 1e-6
    stream = continual.calibrate(1.0, 1e-6, 12, 1)
    assert ContinualCounts(12, 1, stream.noise_std, stream.threshold - 1, rounded=True).delta(1.0) > 1e-6
    top = correlated_top_k.calibrate(1.0, 1e-6, 10)
    lower = CorrelatedTopK(10, top.independent_std, top.correlation, top.base_variance, top.threshold - 0.5)
    assert lower.delta(1.0) > 1e-6


@settings(max_examples=5, deadline=None)
@given(st.sampled_from([0.3, 1.0]), st.integers(1, 30), st.integers(1, 200))
def test_more_budget_never_raises_a_threshold(epsilon: float, symbols: int, shortlist: int) -> None:
    less, more = (ranked.calibrate(e, 1e-7, symbols, shortlist) for e in (epsilon, 2 * epsilon))
    assert more.threshold <= less.threshold
    assert more.rho >= less.rho


def test_continual_noise_grows_with_set_bits() -> None:
    mechanism = ContinualCounts(100, 1, 4.0, 60)
    assert mechanism.std_at(64) == 4.0
    assert mechanism.std_at(63) == pytest.approx(4 * math.sqrt(6))
    assert mechanism.count_released_with(0.95, 63) > mechanism.count_released_with(0.95, 64) > 60
    assert mechanism.draw(5).shape == (5,)
    assert "another event" in mechanism.assumption
    assert "at most 2 groups" in ContinualCounts(100, 2, 4.0, 60).assumption


@pytest.mark.parametrize(
    "build",
    [
        lambda: LaplaceRecords(0, 1, 1.0, 5.0),
        lambda: LaplaceRecords(1, 0, 1.0, 5.0),
        lambda: LaplaceRecords(1, 6, 1.0, 5.0),
        lambda: LaplaceRecords(1, 1, 1.0, 5.5),
        lambda: GaussianRecords(1, 1, 1.0, 5.5, discrete=True),
        lambda: GaussianRecords(1, 1, -1.0, 5.0),
        lambda: GaussianRecords(1, 1, 1.0, 5.00001),
        lambda: FromTop(0, 1.0, 5),
        lambda: FromTop(1, 0.0, 5),
        lambda: FromTop(1, 1.0, 5, 0),
        lambda: FromTop(1, 1.0, 1, None, 2),
        lambda: Ranked(0, 1, 1.0, 5),
        lambda: Ranked(1, 1, 0.0, 5),
        lambda: Ranked(1, 1, 1.0, 1, 1, 2),
        lambda: ContinualCounts(0, 1, 1.0, 5),
        lambda: ContinualCounts(2**21, 1, 1.0, 5),
        lambda: ContinualCounts(2, 1, 0.0, 5),
        lambda: ContinualCounts(2, 1, 1.0, 0),
        lambda: ContinualCounts(2, 1, 1.0, 5, 1),  # type: ignore[arg-type]
        lambda: FromTop(1, 1.0, 5, rounded="yes"),  # type: ignore[arg-type]
        lambda: FromTop(1, 1e-300, 5, rounded=True),
        lambda: CorrelatedTopK(0, 1.0, 0.5, 0.5, 5.0),
        lambda: CorrelatedTopK(1, 1.0, 0.0, 0.5, 5.0),
        lambda: CorrelatedTopK(1, 1.0, 0.5, 0.0, 5.0),
        lambda: CorrelatedTopK(1, 1.0, 0.5, 0.5, 0.5),
    ],
)
def test_impossible_parameters_are_refused(build: Callable[[], object]) -> None:
    with pytest.raises(InvalidParameter, match=r"^Expected .*, got "):
        build()


def test_parameters_are_exact() -> None:
    assert FromTop(1, 0.1, 5).law == DiscreteGaussian(Fraction(0.1) ** 2)
    assert FromTop(1, 0.1, 5, rounded=True).law == RoundedGaussian(Fraction(0.1), 0)
