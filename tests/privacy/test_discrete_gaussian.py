"""The profile of discrete Gaussian noise on several counts, against the law of their sum by plain convolution."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.typing import NDArray

from dphist.privacy.gaussian import delta_discrete_gaussian, delta_gaussian, theta


def law_of_sum(variance: float, counts: int) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    reach = math.ceil(13 * math.sqrt(variance)) + 6
    x = np.arange(-reach, reach + 1)
    one = np.exp(-x * x / (2 * variance))
    law = np.ones(1)
    for _ in range(counts):
        law = np.convolve(law, one / one.sum())
    return law, np.arange(len(law)) - counts * reach


def true_delta(epsilon: float, variance: float, counts: int) -> float:
    """By the definition: the hockey-stick over the privacy loss, which is a function of the sum of the noises."""
    law, total = law_of_sum(variance, counts)
    return float(np.sum(law * np.maximum(0.0, -np.expm1(epsilon - (2 * total + counts) / (2 * variance)))))


@pytest.mark.parametrize(
    ("variance", "counts", "slack"),
    [(0.04, 1, 1e-9), (0.3, 1, 1e-9), (1.0, 1, 1e-9), (26.0, 1, 1e-9), (0.3, 3, 0.2), (1.0, 3, 1e-3), (2.5, 4, 1e-6),
     (9.0, 2, 1e-9), (30.0, 10, 1e-9), (60.0, 90, 1e-8)],
)  # fmt: skip
def test_the_profile_is_that_of_the_sum_from_above(variance: float, counts: int, slack: float) -> None:
    for epsilon in (0.0, 0.1, 1.0, 3.0):
        true = true_delta(epsilon, variance, counts)
        assert true * (1 - 1e-9) <= delta_discrete_gaussian(epsilon, variance, counts) <= true * (1 + slack) + 1e-40


def test_a_unit_in_fewer_groups_has_no_larger_delta() -> None:
    for variance in (0.5, 2.0, 20.0):
        deltas = [delta_discrete_gaussian(1.0, variance, counts) for counts in (1, 2, 3, 5, 9, 40)]
        assert deltas == sorted(deltas)


def test_the_normal_formula_is_false_for_it() -> None:
    """So it is never used: at std 1 the true delta is a tenth larger, and the profile says so."""
    assert true_delta(1.0, 1.0, 1) > 1.1 * float(delta_gaussian(1.0, 1.0))
    assert delta_discrete_gaussian(1.0, 1.0, 1) >= true_delta(1.0, 1.0, 1)


@pytest.mark.parametrize(("variance", "counts"), [(4e8 + 1e7, 1), (1e12, 1), (2.5e9, 10**6)])
def test_large_sums_are_added_up_in_blocks_from_above(variance: float, counts: int) -> None:
    """Where the noise is many steps wide the normal profile is the limit; blocks stay above it, by little."""
    mu = math.sqrt(counts / variance)
    for ratio in (0.5, 4.0, 7.0):
        normal = float(delta_gaussian(mu, ratio * mu))
        assert normal * (1 - 1e-5) <= delta_discrete_gaussian(ratio * mu, variance, counts) <= normal * 1.002


def test_theta_is_enclosed() -> None:
    for variance in (0.01, 0.5, 2.0, 3.9, 4.1, 30.0):
        x = np.arange(-400, 401)
        total = float(np.exp(-x * x / (2 * variance)).sum())
        low, high = theta(variance)
        assert low < total < high < low * (1 + 1e-10)
