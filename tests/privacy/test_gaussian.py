"""The Gaussian profile against 60-digit arithmetic, and its inverse against the profile."""

import math
from typing import Any

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dphist.privacy.gaussian import delta_gaussian, largest_mu


def phi(z: Any) -> Any:
    return mp.erfc(-z / mp.sqrt(2)) / 2


def reference(mu: float, epsilon: float) -> Any:
    with mp.workdps(70):
        m, e = mp.mpf(mu), mp.mpf(epsilon)
        return phi(m / 2 - e / m) - mp.exp(e) * phi(-m / 2 - e / m)


@given(log_mu=st.floats(-8, 2), x=st.floats(-8, 37.0))
def test_profile_is_accurate_to_1e_12_down_to_1e_300(log_mu: float, x: float) -> None:
    mu = 10**log_mu
    epsilon = (x + mu / 2) * mu
    exact = reference(mu, epsilon)
    if 1e-300 < exact < 1:
        assert abs(float(mp.mpf(float(delta_gaussian(mu, epsilon))) / exact - 1)) < 1e-12


@given(log_mu=st.floats(-6, 1.5), epsilon=st.floats(-30, 30))
def test_profile_holds_for_any_sign_of_epsilon(log_mu: float, epsilon: float) -> None:
    mu = 10**log_mu
    exact = reference(mu, epsilon)
    if exact > 1e-300:
        assert float(delta_gaussian(mu, epsilon)) == pytest.approx(float(exact), rel=1e-12)


def test_known_values() -> None:
    # gshm.md: sigma = 2228 just misses 1e-5 at epsilon = 0.349
    assert float(delta_gaussian(math.sqrt(51914) / 2228, 0.349)) == pytest.approx(1.00310e-05, rel=5e-6)
    assert float(delta_gaussian(0.0, 1.0)) == 0.0
    assert float(delta_gaussian(0.0, -1.0)) == pytest.approx(1 - math.exp(-1))
    assert float(delta_gaussian(1.0, math.inf)) == 0.0
    assert float(delta_gaussian(1e-3, 5.0)) == 0.0  # far below the smallest double


def test_profile_broadcasts() -> None:
    mu, epsilon = np.array([0.1, 1.0, 3.0])[:, None], np.array([-1.0, 0.0, 2.0])
    table = delta_gaussian(mu, epsilon)
    assert table.shape == (3, 3)
    assert all(table[i, j] == delta_gaussian(mu[i, 0], epsilon[j]) for i in range(3) for j in range(3))


@given(epsilon=st.floats(1e-3, 20), log_delta=st.floats(-300, -0.1))
def test_largest_mu_meets_its_target_and_one_step_more_does_not(epsilon: float, log_delta: float) -> None:
    delta = 10.0**log_delta
    mu = largest_mu(epsilon, delta)
    assert delta_gaussian(mu, epsilon) <= delta
    assert delta_gaussian(mu * (1 + 1e-10), epsilon) > delta
