"""Correlated noise on the k largest counts with the (k+1)-th count released."""

import math

import numpy as np
import pytest

from dphist.privacy.correlated_design import calibrate_with_base
from dphist.privacy.correlated_gaussian import delta_with_base, squared_sensitivity_with_base


def test_golden_threshold_at_k_100() -> None:
    _, gap = calibrate_with_base(0.35, 1e-5, k=100, correlation=0.1, base_variance=0.1)
    assert gap == pytest.approx(291, rel=3e-3)


def test_calibration_holds_and_one_step_tighter_fails() -> None:
    for k, epsilon, target in [(2, 0.1, 1e-2), (50, 1.0, 1e-8)]:
        c = 1 / math.sqrt(k)
        s, gap = calibrate_with_base(epsilon, target, k=k, correlation=c, base_variance=2 * c)

        def delta(gap: float, *, k: int = k, s: float = s, c: float = c, epsilon: float = epsilon) -> float:
            return delta_with_base(epsilon, k=k, independent_std=s, correlation=c, base_variance=2 * c, gap=gap)

        assert delta(gap) <= target
        assert delta(gap * (1 - 1e-5)) > target


def test_mixed_cases_bind_when_the_base_is_released() -> None:
    # csh.md: 12.6 % in the gap at k = 2, (0.1, 1e-2)
    c = 2**-0.5
    s, gap = calibrate_with_base(0.1, 1e-2, k=2, correlation=c, base_variance=c)
    pure = s * 2.0
    assert delta_with_base(0.1, k=2, independent_std=s, correlation=c, base_variance=c, gap=pure) > 1e-2
    assert gap > pure


def test_sensitivity_with_the_base_against_brute_force() -> None:
    for k, c, c0, new in [(3, 0.5, 0.7, 0), (6, 0.2, 0.4, 2), (10, 0.3, 0.3, 10), (1, 2.0, 0.1, 0)]:
        block = 1 / c0
        total = k - new + block + 1 / c
        brute = max(weight - weight**2 / total for p in range(k - new + 1) for weight in (float(p), p + block))
        assert float(squared_sensitivity_with_base(k, c, c0, new)) == pytest.approx(brute, rel=1e-12)
    assert float(squared_sensitivity_with_base(100, 0.1, 0.1)) == pytest.approx((100 + 10 + 10) / 4)


def test_new_counters_all_at_once_still_leave_the_base_moving() -> None:
    moving = squared_sensitivity_with_base(10, 0.3, 0.5, np.array([10]))
    assert moving[0] == pytest.approx(2 - 4 / (2 + 1 / 0.3))
