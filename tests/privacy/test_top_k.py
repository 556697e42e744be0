"""Correlated top-k with the (k+1)-th count released."""

import math

import numpy as np
import pytest

from dphist.privacy import top_k
from dphist.privacy.search import minimise, smallest


def test_golden_thresholds_at_k_100() -> None:
    c = 0.1
    independent = top_k.calibrate(0.35, 1e-5, k=100, correlation=c, release="independent", base_variance=c)
    anti = top_k.calibrate(0.35, 1e-5, k=100, correlation=c, base_variance=c)
    assert independent[1] == pytest.approx(326, rel=3e-3)
    assert anti[1] == pytest.approx(291, rel=3e-3)

    def paper_gap(log_excess: float) -> float:
        s = 59.6 * math.exp(math.exp(log_excess))
        return smallest(lambda gap: top_k.delta_paper(0.35, 100, s, gap), 1e-5, start=400.0, low=0.0, high=40 * s)

    assert minimise(paper_gap, -6.0, -1.0, tolerance=1e-2)[1] == pytest.approx(437, rel=3e-3)


@pytest.mark.parametrize("release", ["none", "independent", "anti-correlated"])
def test_calibration_holds_and_one_step_tighter_fails(release: top_k.BaseRelease) -> None:
    for k, epsilon, target in [(2, 0.1, 1e-2), (50, 1.0, 1e-8)]:
        c = 1 / math.sqrt(k)
        s, gap = top_k.calibrate(epsilon, target, k=k, correlation=c, release=release, base_variance=2 * c)

        def delta(gap: float, *, k: int = k, s: float = s, c: float = c, epsilon: float = epsilon) -> float:
            return top_k.delta(
                epsilon, k=k, independent_std=s, correlation=c, gap=gap, release=release, base_variance=2 * c
            )

        assert delta(gap) <= target
        assert delta(gap * (1 - 1e-5)) > target


def test_mixed_cases_bind_when_the_base_is_released() -> None:
    # csh.md: 12.6 % in the gap at k = 2, (0.1, 1e-2)
    s, gap = top_k.calibrate(0.1, 1e-2, k=2, correlation=2**-0.5, base_variance=2**-0.5)
    pure = s * 2.0
    parameters = {"k": 2, "independent_std": s, "correlation": 2**-0.5, "base_variance": 2**-0.5}
    assert top_k.delta(0.1, **parameters, gap=pure) > 1e-2  # type: ignore[arg-type]
    assert gap > pure


def test_sensitivity_with_the_base_against_brute_force() -> None:
    for k, c, c0, new in [(3, 0.5, 0.7, 0), (6, 0.2, 0.4, 2), (10, 0.3, 0.3, 10), (1, 2.0, 0.1, 0)]:
        block = 1 / c0
        total = k - new + block + 1 / c
        brute = max(weight - weight**2 / total for p in range(k - new + 1) for weight in (float(p), p + block))
        found = float(top_k.squared_sensitivity_with_base(k, c, c0, "anti-correlated", new))
        assert found == pytest.approx(brute, rel=1e-12)
    real = (100 + 10 + 10) / 4
    assert float(top_k.squared_sensitivity_with_base(100, 0.1, 0.1, "anti-correlated")) == pytest.approx(real)
    assert float(top_k.squared_sensitivity_with_base(100, 0.1, 0.1, "independent")) == pytest.approx(27.5 + 10)


def test_new_counters_all_at_once_still_leave_the_base_moving() -> None:
    every = np.array([10])
    moving = top_k.squared_sensitivity_with_base(10, 0.3, 0.5, "anti-correlated", every)
    assert moving[0] == pytest.approx(2 - 4 / (2 + 1 / 0.3))


def test_sums_cost_all_k_groups() -> None:
    parameters = {"k": 20, "independent_std": 30.0, "correlation": 0.2, "base_variance": 0.2, "gap": 200.0}
    plain = top_k.delta(0.5, **parameters)  # type: ignore[arg-type]
    assert top_k.delta(0.5, **parameters, sums_sensitivity=1 / 30) > plain  # type: ignore[arg-type]
