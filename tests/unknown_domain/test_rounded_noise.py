"""Rounded Gaussian noise of lists and streams: its tails, its std as told, and that it is never worse than before."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from functools import partial
from typing import Any

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.special import log_ndtr, ndtr

from dphist.mechanisms import ContinualCounts, FromTop, continual, from_top, whole_gaussian
from dphist.mechanisms.base import Mechanism
from dphist.noise import RoundedGaussian, sample
from dphist.noise.testing import SeededEntropy
from dphist.privacy import unknown_domain
from dphist.privacy.composition import smallest_std
from dphist.privacy.search import smallest_whole
from example_numbers import some
from word_sources import drawn_from


def masses(std: float, reach: int) -> np.ndarray:
    z = np.abs(np.arange(-reach, reach + 1))
    return np.asarray(ndtr((0.5 - z) / std) - ndtr((-0.5 - z) / std))


@pytest.mark.parametrize("std", [0.2, 0.7, 3.0, 40.0, 3000.0])
@pytest.mark.parametrize("new", [1, 2, 30, 1000])
def test_a_new_group_passes_as_often_as_a_sum_over_every_whole_number_says(std: float, new: int) -> None:
    """Wide noise is added up at every w-th number: exact to 1e-9 all the same."""
    reach = math.ceil(14 * std) + 1
    s = np.arange(-reach, reach + 1)
    for stds in (0.0, 1.5, 6.0):
        gap = round(stds * std)
        exact = float(masses(std, reach) @ -np.expm1(new * log_ndtr((gap + s + 0.5) / std)))
        assert exact <= unknown_domain.new_group_passes(gap, std, new) <= exact * (1 + 1e-9) + 2e-35


@pytest.mark.parametrize("noise_std", [2.9e4, 3.1e4, 1e6, 1e9, 1e12])
@pytest.mark.parametrize("reach", [0.0, 3.0, 8.0])
def test_wide_noise_loses_no_digits(noise_std: float, reach: float) -> None:
    """One new group passes as the difference of two normal variables does, but for what rounding adds: 1/std^2."""
    gap = round(reach * noise_std)
    with mp.workdps(50):
        exact = mp.ncdf(-(gap + mp.mpf("0.5")) / (mp.mpf(noise_std) * mp.sqrt(2)))
        assert (
            exact * (1 - mp.mpf(10) ** -8)
            < unknown_domain.new_group_passes(gap, noise_std, 1)
            < exact * (1 + mp.mpf(10) ** -6)
        )


def test_very_many_new_groups_are_bounded_from_above_and_closely() -> None:
    std, new = 1e6, 10**10
    for stds in (5.0, 7.5, 10.0):
        exact, _ = quad(
            lambda x, stds=stds: math.exp(-x * x / 2) / math.sqrt(2 * math.pi) * -math.expm1(new * log_ndtr(stds + x)),
            -13, 13, limit=400, epsabs=0, epsrel=1e-10,
        )  # fmt: skip
        bound = unknown_domain.new_group_passes(round(stds * std), std, new)
        assert exact <= bound <= exact * 1.005


@pytest.mark.parametrize("std", [0.3, 1.0, 1.9, 2.0, 3.5, 12.0])
def test_a_sum_of_nodes_passes_at_most_as_often_as_claimed(std: float) -> None:
    """Against convolutions; what the closed form is above them falls with the noise."""
    reach = math.ceil(14 * std) + 1
    law, summed = masses(std, reach), np.ones(1)
    for terms in range(1, 10):
        summed = np.convolve(summed, law)
        above = np.cumsum(summed[::-1])[::-1]
        for stds in (0.5, 2.0, 5.0, 7.0):
            gap = round(stds * std * math.sqrt(terms))
            exact = float(above[gap + 1 + terms * reach])
            claimed = unknown_domain.sum_passes(gap, std, terms)
            assert exact <= claimed <= exact * (1 + (1e-9 if terms == 1 or std < 2 else 0.08 / std**2)) + 1e-30
    wide = float(ndtr(-12_000.5 / math.sqrt(2 * 3000**2 + 1 / 12)))
    assert wide <= unknown_domain.sum_passes(12_000, 3000.0, 2) <= wide * (1 + 1e-7)
    assert unknown_domain.sum_passes(10**9, 0.3, 5) < 1e-30
    assert unknown_domain.sum_passes(10**9, 3.0, 5) < 1e-30


@pytest.mark.parametrize("std", [0.1, 0.4, 1.0, 1.99, 2.0, 7.0])
def test_the_std_that_is_told_is_that_of_what_is_drawn(std: float) -> None:
    z = np.arange(-400, 401)
    truth = math.sqrt(float(masses(std, 400) @ (z * z)))
    assert RoundedGaussian(Fraction(std), 0).drawn_std == pytest.approx(truth, rel=1e-12)
    assert RoundedGaussian(Fraction(std), 3).drawn_std * 8 == RoundedGaussian(Fraction(std) * 8, 0).drawn_std
    listed, stream = FromTop(3, std, 20, rounded=True), ContinualCounts(9, 1, std, 20, rounded=True)
    assert listed.count_std == pytest.approx(truth, rel=1e-12)
    assert stream.std_at(7) == pytest.approx(truth * math.sqrt(3), rel=1e-12)
    assert FromTop(3, std, 20).count_std == std


def test_the_drawn_noise_has_the_std_that_is_told() -> None:
    """n = 40,000, alpha = 1e-6: the standard error of an empirical std is std sqrt((kurtosis - 1)/(4 n)) < 0.0036 std."""
    law = RoundedGaussian(Fraction(3, 5), 0)
    drawn = float(np.std(drawn_from(SeededEntropy(3), sample, law, 40_000)))
    assert abs(drawn / law.drawn_std - 1) < 4.9 * 0.0045
    assert abs(drawn / 0.6 - 1) > 4.9 * 0.0045  # the std before rounding is rejected


def of_before(epsilon: float, delta: float, most: int, max_groups: int | None) -> FromTop:
    """Discrete noise accounted for by zCDP, with three shares of delta: what calibration gave before."""
    moved = unknown_domain.moved_groups(most, max_groups)

    def with_share(share: float) -> FromTop:
        std = smallest_std(epsilon, delta * share, moved / 2)
        gap = smallest_whole(
            lambda gap: FromTop(most, std, 1 + gap, max_groups).delta(epsilon) <= delta, limit=math.ceil(60 * std) + 2
        )
        return FromTop(most, std, 1 + gap, max_groups)

    return min(map(with_share, (0.5, 0.8, 0.95)), key=lambda found: found.excess_released_with_95)


@pytest.mark.parametrize(
    ("epsilon", "delta", "most", "max_groups", "ratio"),
    [
        (1.0, 1e-8, 10, None, 0.93),
        (1.0, 1e-8, 10, 1, 0.97),
        (0.3, 1e-6, 30, 4, 0.91),
        (3.0, 1e-3, 5, None, 0.93),
        (12.0, 1e-6, 10, 1, 1.0),  # so little noise that the discrete law stays the better one
        (30.0, 1e-3, 5, 3, 1.0),
    ],
)
def test_lists_are_never_worse_than_before(
    epsilon: float, delta: float, most: int, max_groups: int | None, ratio: float
) -> None:
    now, before = from_top.calibrate(epsilon, delta, most, max_groups), of_before(epsilon, delta, most, max_groups)
    assert now.delta(epsilon) <= delta
    assert now.excess_released_with_95 <= ratio * before.excess_released_with_95
    assert now.threshold <= before.threshold
    assert now.rounded is (ratio < 1)


@settings(max_examples=4, deadline=None)
@given(
    st.floats(-3, 1.4),
    st.floats(-10, -0.5),
    st.integers(1, 200),
    st.one_of(st.none(), st.integers(1, 300)),
    st.floats(0, 1),
)
def test_more_epsilon_never_raises_what_is_released(
    log_epsilon: float, log_delta: float, size: int, max_groups: int | None, more: float
) -> None:
    """Of lists and of streams; and what is claimed holds."""
    delta = 10**log_delta
    values: list[tuple[float, float]] = []
    for epsilon in (10**log_epsilon, 10 ** (log_epsilon + more)):
        listed = from_top.calibrate(epsilon, delta, size, max_groups)
        stream = continual.calibrate(epsilon, delta, size, max_groups or 1)
        found: list[Mechanism] = [listed, stream]
        assert all(mechanism.delta(min(epsilon, 30)) <= delta for mechanism in found)
        values.append((listed.excess_released_with_95, stream.threshold + 2 * stream.count_std))
    assert values[1][0] <= values[0][0] * (1 + 1e-12)
    assert values[1][1] <= values[0][1] * (1 + 1e-12)


@pytest.mark.parametrize(("epsilon", "size"), some([(e, n) for e in (1e-4, 0.1, 2.0) for n in (1, 20, 1000)], 3))
def test_calibration_evaluates_its_forward_map_a_bounded_number_of_times(
    epsilon: float, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = 0

    for kind in (FromTop, ContinualCounts):

        def counted(self: Any, at: float, original: Callable[[Any, float], float] = kind.delta) -> float:
            nonlocal calls
            calls += 1
            return original(self, at)

        monkeypatch.setattr(kind, "delta", counted)
    from_top.calibrate(epsilon, 1e-9, size)
    assert calls <= 32 * len(from_top.NOISE_SHARES)
    calls = 0
    continual.calibrate(epsilon, 1e-9, size, 3)
    assert calls <= 32 * len(continual.NOISE_SHARES)


def off(wanted: float, found: FromTop) -> float:
    return abs(found.noise_std - wanted)


def test_the_discrete_law_is_tried_only_where_there_is_little_noise() -> None:
    tried: list[tuple[float, bool]] = []

    def calibrate(share: float, rounded: bool) -> FromTop:
        tried.append((share, rounded))
        return FromTop(1, 1.9 if share < 0.7 else 2.1, 9, rounded=rounded)

    for wanted, laws in ((1.9, {True, False}), (2.1, {True})):
        tried.clear()
        chosen = whole_gaussian.best_of_laws(calibrate, (0.6, 0.8), partial(off, wanted))
        assert chosen.noise_std == wanted
        assert {rounded for _, rounded in tried} == laws
