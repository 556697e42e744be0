from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import mpmath as mp
import numpy as np
import pytest

from dphist.errors import InvalidParameter
from dphist.noise import (
    DiscreteGaussian,
    DiscreteLaplace,
    TruncatedDiscreteLaplace,
    log_cdf,
    log_max_tail,
    log_pmf,
    log_sum_tail,
    log_tail,
)
from dphist.noise.tails import DiscreteLaw

LAWS: list[DiscreteLaw] = [
    DiscreteGaussian(Fraction(1, 400)),
    DiscreteGaussian(Fraction(1, 4)),
    DiscreteGaussian(Fraction(9)),
    DiscreteGaussian(Fraction(40) ** 2),
    DiscreteLaplace(Fraction(1, 20)),
    DiscreteLaplace(Fraction(1)),
    DiscreteLaplace(Fraction(40)),
    TruncatedDiscreteLaplace(Fraction(1), 0),
    TruncatedDiscreteLaplace(Fraction(1), 1),
    TruncatedDiscreteLaplace(Fraction(1, 3), 26),
    TruncatedDiscreteLaplace(Fraction(1, 3), 27),
    TruncatedDiscreteLaplace(Fraction(20), 300),
    TruncatedDiscreteLaplace(Fraction(1, 10**6), 300),
]


def _exact(value: Fraction) -> mp.mpf:
    return mp.mpf(value.numerator) / value.denominator


def _exact_law(law: DiscreteLaw, reach: int) -> dict[int, mp.mpf]:
    """All probabilities up to `reach` by definition."""
    if isinstance(law, TruncatedDiscreteLaplace):
        weights = {j - law.q: mp.exp(_exact(law.epsilon) * min(j, law.q - j)) for j in range(law.q + 1)}
    elif isinstance(law, DiscreteGaussian):
        weights = {x: mp.exp(-(mp.mpf(x) ** 2) / (2 * _exact(law.variance))) for x in range(-reach, reach + 1)}
    else:
        weights = {x: mp.exp(-abs(x) / _exact(law.scale)) for x in range(-reach, reach + 1)}
    total = mp.fsum(weights.values())
    return {x: weight / total for x, weight in weights.items()}


def _scale(law: DiscreteLaw) -> float:
    if isinstance(law, DiscreteGaussian):
        return math.sqrt(law.variance)
    return float(law.scale) if isinstance(law, DiscreteLaplace) else law.q / 8


@pytest.mark.parametrize("law", LAWS)
def test_probabilities_are_tight_and_on_the_safe_side(law: DiscreteLaw) -> None:
    with mp.workdps(60):
        reach = int(150 * _scale(law)) + 60 if isinstance(law, DiscreteLaplace) else int(50 * _scale(law)) + 60
        exact = _exact_law(law, reach)
        tails, heads, above, below = {}, {}, mp.mpf(0), mp.mpf(0)
        for low, high in zip(sorted(exact), sorted(exact, reverse=True), strict=True):
            tails[high] = above
            above += exact[high]
            below += exact[low]
            heads[low] = below
        points = [t for t in exact if abs(t) <= 40 * _scale(law) + 3][:: max(1, int(_scale(law)) // 2)]
        upper, lower, mass = log_tail(law, points), log_cdf(law, points), log_pmf(law, points)
        for index, t in enumerate(points):
            assert mass[index] == pytest.approx(float(mp.log(exact[t])), rel=1e-12, abs=1e-12)
            tail, head = tails[t], heads[t]
            room = min(tail, head) * mp.mpf(10) ** -9 + mp.mpf(10) ** -55 if min(tail, head) > mp.mpf(10) ** -290 else 1
            assert -(mp.mpf(10) ** -55) * tail <= mp.exp(mp.mpf(float(upper[index]))) - tail <= room
            assert -(mp.mpf(10) ** -55) * head <= head - mp.exp(mp.mpf(float(lower[index]))) <= room


def test_beyond_the_support_of_a_truncated_law() -> None:
    law = TruncatedDiscreteLaplace(Fraction(1), 5)
    assert log_pmf(law, [-6, 1, 100]).tolist() == [-math.inf] * 3
    assert log_tail(law, [-100, -6, 0, 7]).tolist() == [0.0, 0.0, -math.inf, -math.inf]
    assert log_cdf(law, [-100, -6, 0, 7]).tolist() == [-math.inf, -math.inf, 0.0, 0.0]


def test_golden_tail_at_eight_standard_deviations() -> None:
    law = DiscreteGaussian(Fraction(2228) ** 2)
    assert 2 * math.exp(log_tail(law, 8 * 2228)) == pytest.approx(1.24192584574e-15, rel=1e-9)


@pytest.mark.parametrize("std", [4097, 10**6, 1 << 45])
def test_wide_gaussians_are_bounded_by_their_integral(std: int) -> None:
    """Against Euler–Maclaurin with three terms, which is exact to (t/σ)^6/σ^6 here."""
    law = DiscreteGaussian(Fraction(std) ** 2)
    t = np.array([0, std // 2, std - 1, std, 2 * std, 6 * std, 20 * std, 38 * std])
    upper, lower = log_tail(law, t), log_cdf(law, -t - 1)
    with mp.workdps(40):
        for index, first in enumerate((t + 1).tolist()):
            a = (mp.mpf(first) - mp.mpf(1) / 2) / std
            density = mp.npdf(a) / mp.mpf(std)
            tail = (
                mp.ncdf(-a)
                - density * a / (24 * mp.mpf(std))
                - 7 * density * (3 * a - a**3) / (5760 * mp.mpf(std) ** 3)
            )
            excess = mp.exp(mp.mpf(float(upper[index]))) / tail - 1
            shortfall = 1 - mp.exp(mp.mpf(float(lower[index]))) / tail
            room = (1 + a**2) / mp.mpf(std) ** 2 + mp.mpf(10) ** -10
            assert -(mp.mpf(10) ** -16) * (1 + a**6) / std <= excess <= room
            assert -(mp.mpf(10) ** -16) * (1 + a**6) / std <= shortfall <= room
    assert np.all(np.diff(upper) < 0)


def test_the_table_and_the_integral_meet() -> None:
    t = np.arange(0, 30 * 4096, 1111)
    below = log_tail(DiscreteGaussian(Fraction(4096) ** 2), t)
    above = log_tail(DiscreteGaussian(Fraction(4096) ** 2 + Fraction(1, 1000)), t)
    assert np.abs(below - above).max() < 1e-4


def test_deep_tails_beyond_the_table_stay_upper_bounds() -> None:
    law = DiscreteGaussian(Fraction(3) ** 2)
    t = np.arange(100, 200)
    first_term = -((t + 1.0) ** 2) / 18 - math.log(3 * math.sqrt(2 * math.pi))
    assert np.all(log_tail(law, t) > first_term)
    assert np.all(log_tail(law, t) < first_term + 1e-4)


def _smallest(condition: Any) -> int:
    return next(t for t in range(1000) if condition(t))


@pytest.mark.parametrize(("std", "delta", "groups", "threshold"), [(2, 1e-5, 1, 9), (5, 1e-6, 10, 27)])
def test_golden_thresholds_of_discrete_gaussian_noise(std: int, delta: float, groups: int, threshold: int) -> None:
    tail = math.log(-math.expm1(math.log1p(-delta) / groups))
    law = DiscreteGaussian(Fraction(std) ** 2)
    assert 1 + _smallest(lambda t: log_tail(law, t) <= tail) == threshold


def test_golden_threshold_of_discrete_laplace_noise() -> None:
    assert 1 + _smallest(lambda t: log_tail(DiscreteLaplace(Fraction(1)), t) <= math.log(1e-6)) == 14


def test_golden_threshold_relative_to_a_noisy_one() -> None:
    law = DiscreteGaussian(Fraction(4))
    assert 1 + _smallest(lambda t: log_max_tail(law, law, t, 10) <= math.log(1e-6)) == 16


def test_golden_threshold_of_a_binary_tree() -> None:
    law = DiscreteGaussian(Fraction(4))

    def holds(t: int) -> bool:
        return sum(math.exp(log_sum_tail(law, prefix.bit_count(), t)) for prefix in range(1, 101)) <= 1e-6

    assert 1 + _smallest(holds) == 25


@pytest.mark.parametrize(
    ("each", "shared"),
    [
        (DiscreteGaussian(Fraction(4)), DiscreteGaussian(Fraction(4))),
        (DiscreteGaussian(Fraction(9, 4)), DiscreteGaussian(Fraction(1, 7))),
        (DiscreteLaplace(Fraction(1, 2)), DiscreteLaplace(Fraction(1))),
    ],
)
def test_the_largest_of_many_by_definition(
    each: DiscreteGaussian | DiscreteLaplace, shared: DiscreteGaussian | DiscreteLaplace
) -> None:
    with mp.workdps(50):
        single, common = _exact_law(each, 130), _exact_law(shared, 130)
        cdf, total = {}, mp.mpf(0)
        for x in sorted(single):
            total += single[x]
            cdf[x] = total
        for t, count in ((0, 1), (5, 10), (12, 1000), (20, 3)):
            exact = mp.fsum(p * (1 - cdf[min(max(t - s, -130), 130)] ** count) for s, p in common.items())
            bound = mp.exp(mp.mpf(log_max_tail(each, shared, t, count)))
            assert exact <= bound <= exact * (1 + mp.mpf(10) ** -9)
    assert log_max_tail(each, shared, -1000, 1) == pytest.approx(0.0, abs=1e-9)


def test_a_wide_shared_noise_costs_little() -> None:
    """Scaling everything by 2^10 changes a smooth probability hardly; the coarser sum may only add."""
    narrow, wide = 4000, 4000 << 10
    small, large = (
        log_max_tail(DiscreteGaussian(Fraction(std) ** 2), DiscreteGaussian(Fraction(std) ** 2), 8 * std, 100)
        for std in (narrow, wide)
    )
    assert -1e-3 < large - small < 2e-3


@pytest.mark.parametrize(
    "variance", [Fraction(1, 400), Fraction(1, 4), Fraction(1), Fraction(399, 100), Fraction(4), Fraction(25)]
)
@pytest.mark.parametrize("terms", [1, 2, 3, 6])
def test_sums_against_exact_convolution(variance: Fraction, terms: int) -> None:
    law = DiscreteGaussian(variance)
    reach = int(30 * math.sqrt(variance)) + 6
    with mp.workdps(50):
        single = [p for _, p in sorted(_exact_law(law, reach).items())]
        scale = 10**45  # integers are fast, and exact to 35 digits
        packed = np.array([int(p * scale) for p in single], dtype=object)
        summed = packed
        for _ in range(terms - 1):
            summed = np.convolve(summed, packed)
        law_of_sum = [mp.mpf(value) / mp.mpf(scale) ** terms for value in summed.tolist()]
        for t in (-3, 0, 2, int(5 * math.sqrt(variance * terms)) + 1):
            exact = mp.fsum(law_of_sum[terms * reach + t + 1 :])
            bound = mp.exp(mp.mpf(float(log_sum_tail(law, terms, t))))
            assert exact - mp.mpf(10) ** -35 <= bound <= exact * (1 + mp.mpf(10) ** -9) + mp.mpf(10) ** -35


def test_nonsense_is_refused() -> None:
    law = DiscreteGaussian(Fraction(1))
    with pytest.raises(InvalidParameter, match="DiscreteGaussian"):
        log_sum_tail(DiscreteLaplace(Fraction(1)), 2, 3)  # type: ignore[arg-type]
    for terms in (0, 1.5, 2000):
        with pytest.raises(InvalidParameter, match="terms"):
            log_sum_tail(law, terms, 3)  # type: ignore[arg-type]
    with pytest.raises(InvalidParameter, match="count"):
        log_max_tail(law, law, 3, 0)
    with pytest.raises(InvalidParameter, match="t as an int"):
        log_max_tail(law, law, 3.5, 1)  # type: ignore[arg-type]
