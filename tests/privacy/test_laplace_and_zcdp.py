"""Laplace thresholds and the zCDP conversion: golden values of unknown-domain.md and enumeration."""

import math
from typing import Any

import mpmath as mp
import pytest
from hypothesis import given
from hypothesis import strategies as st
from records import rho_laplace

from dphist.errors import Infeasible
from dphist.privacy.composition import delta_from_rho, epsilon_from_rho, smallest_std
from dphist.privacy.search import smallest_whole
from dphist.privacy.unknown_domain import delta_laplace, smallest_gap_laplace


def test_golden_thresholds() -> None:
    assert 1 + smallest_gap_laplace(1e-6, 1.0, 1) == 14


def test_golden_rhos() -> None:
    assert rho_laplace(1.0, 1) == pytest.approx(math.tanh(0.5), rel=1e-8)
    assert rho_laplace(1.0, 1) == pytest.approx(0.4621171573, abs=1e-9)
    # finer steps approach the continuous law, e + exp(-e) - 1, from above
    assert rho_laplace(1.0, 1, 1000) == pytest.approx(math.exp(-1), rel=1e-5)


@given(log_delta=st.floats(-12, -0.5), scale=st.floats(0.05, 500), groups=st.integers(1, 1000))
def test_gaps_meet_their_target_and_are_smallest(log_delta: float, scale: float, groups: int) -> None:
    target = 10.0**log_delta
    gap = smallest_gap_laplace(target, scale, groups)
    assert delta_laplace(gap, scale, groups) <= target
    assert gap == 0 or delta_laplace(gap - 1, scale, groups) > target


def test_discrete_tail_is_the_sum_of_its_law() -> None:
    scale, gap = 3.0, 7
    weights = {z: math.exp(-abs(z) / scale) for z in range(-400, 401)}
    tail = math.fsum(w for z, w in weights.items() if z > gap) / math.fsum(weights.values())
    assert delta_laplace(gap, scale, 1) == pytest.approx(tail, rel=1e-9)
    assert delta_laplace(gap, scale, 4) == pytest.approx(1 - (1 - tail) ** 4, rel=1e-9)


def test_golden_conversions() -> None:
    assert epsilon_from_rho(0.1, 1e-6) == pytest.approx(2.141938928, abs=1e-8)
    assert epsilon_from_rho(0.5, 1e-6) == pytest.approx(5.221534445, abs=1e-8)
    assert delta_from_rho(0.0, 1.0) == 0.0
    assert delta_from_rho(5.0, 0.0) == pytest.approx(1.0, abs=0.2)


@given(rho=st.floats(1e-6, 50), epsilon=st.floats(0, 100))
def test_conversion_never_exceeds_any_single_order(rho: float, epsilon: float) -> None:
    found = delta_from_rho(rho, epsilon)
    assert 0 <= found <= 1
    for alpha in (1.01, 1.5, 2.0, 5.0, 20.0):
        log_bound = (alpha - 1) * (alpha * rho - epsilon) - math.log(alpha - 1) + alpha * math.log1p(-1 / alpha)
        if log_bound < 0:
            assert found <= math.exp(log_bound) * (1 + 1e-6)


def test_smallest_std_meets_its_target_from_above() -> None:
    std = smallest_std(1.0, 1e-6, 5.0)
    assert delta_from_rho(5.0 / std**2, 1.0) <= 1e-6 < delta_from_rho(5.0 / (std * (1 - 1e-5)) ** 2, 1.0)


def test_smallest_whole_number() -> None:
    assert smallest_whole(lambda n: n >= 17, limit=100) == 17
    assert smallest_whole(lambda n: True, limit=100) == 0
    with pytest.raises(Infeasible):
        smallest_whole(lambda n: False, limit=100)


def test_small_epsilons_are_rounded_up() -> None:
    for e in (1e-7, 1e-5, 5e-4, 1.1e-3):
        assert rho_laplace(e, 1) >= e * math.tanh(e / 2) * (1 - 1e-12)


def test_conversion_at_tiny_rho_against_many_digits() -> None:
    for rho, epsilon in [(1e-8, 1e-3), (1e-10, 1e-4), (1e-12, 1e-5)]:
        with mp.workdps(50):
            r, e = mp.mpf(rho), mp.mpf(epsilon)

            def log_delta(x: Any, r: Any = r, e: Any = e) -> Any:
                return x * ((1 + x) * r - e) - mp.log(x) - (1 + x) * mp.log1p(1 / x)

            best = mp.findroot(lambda x, f=log_delta: mp.diff(f, x), e / r / 2)
            exact = mp.exp(log_delta(best))
        assert delta_from_rho(rho, epsilon) >= float(exact)
        assert delta_from_rho(rho, epsilon) == pytest.approx(float(exact), rel=1e-8)
