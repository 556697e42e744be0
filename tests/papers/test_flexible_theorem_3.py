"""papers/flexible_theorem_3.py: the counterexamples to [BCDP22] Theorem 3, and what replaces it."""

import math
import runpy
from pathlib import Path

import numpy as np
import pytest

from dphist.errors import InvalidParameter

SCRIPT = runpy.run_path(str(Path(__file__).resolve().parents[2] / "papers" / "flexible_theorem_3.py"))
delta_continuous, data_dependent_bound = SCRIPT["delta_continuous"], SCRIPT["data_dependent_bound"]


@pytest.mark.parametrize(
    ("at", "delta"),
    [
        (0, 0.3934872045788),
        (0.25, 0.3127313665581),
        (0.5, 0.2212239864321),
        (1, 3.900670806390e-5),
        (2, 3.900670806390e-5),
    ],
)
def test_golden_continuous(at: float, delta: float) -> None:
    assert delta_continuous(at, epsilon=1, q=20) == pytest.approx(delta, rel=1e-11)


def test_golden_data_dependent_bound() -> None:
    found = data_dependent_bound(epsilon=1, drop_share=0.1, smaller_q=30, most_bars=3, changed_bars=1)
    assert found == pytest.approx((1.0500000447571, 2.94985317426e-7), rel=1e-10)


def continuous_cdf(t: np.ndarray | float, epsilon: float, q: float) -> np.ndarray:
    """The distribution function of continuous noise on [-q, 0], as the paper draws it."""
    centred = np.clip(t, -q, 0) + q / 2
    edge = 0.5 * math.exp(-epsilon * q / 2)
    half = 0.5 * np.exp(-epsilon * np.abs(centred))
    return np.asarray((np.where(centred < 0, half, 1 - half) - edge) / (1 - 2 * edge))


def rounded_law(count: int, epsilon: float, q: float) -> np.ndarray:
    """The law of count + noise, rounded to the nearest whole number and clipped at 0."""
    outputs = np.arange(count + 2)
    ends = continuous_cdf(np.append(outputs - 0.5, outputs[-1] + 0.5) - count, epsilon, q)
    return np.asarray(np.resize(np.diff(ends), 103)) * (np.arange(103) < count + 2)


def test_counterexample_of_three_bars_of_a_thousand() -> None:
    """epsilon = 1, tau = 0.1: one record more moves q from 300 to 300.1, and the centres of all three bars with it.

    The event: the changed bar at or above its new centre, both others at or below theirs. It has probability 1/8 with the
    record and e^-1.05/8 without it, so delta(1) >= (1 - e^(-epsilon tau/2))/8, far from what Theorem 3 claims.
    """

    def event(q: float, first: int) -> float:
        up = 1 - float(continuous_cdf(1001 - 150.05 - first, 1, q))
        return up * float(continuous_cdf(1000 - 150.05 - 1000, 1, q)) ** 2

    lower_bound = event(300.1, 1001) - math.e * event(300, 1000)
    assert lower_bound == pytest.approx(-math.expm1(-0.05) / 8, rel=1e-9)
    assert lower_bound == pytest.approx(0.0060963, abs=5e-8)
    claimed = delta_continuous(1, epsilon=1, q=300)
    assert claimed == pytest.approx(6e-66, rel=0.1)
    assert event(300, 1001) - math.e * event(300, 1000) <= claimed  # with a public q the same event proves nothing


def test_counterexample_after_rounding_and_clipping() -> None:
    """[100, 100, 100] against [101, 100, 100], epsilon = 1, tau = 0.1, every output enumerated."""
    q, larger_q = 30.0, 30.1

    def delta(q: float, other_q: float) -> float:
        p = np.einsum("i,j,k->ijk", *[rounded_law(100, 1, q)] * 3)
        r = np.einsum("i,j,k->ijk", rounded_law(101, 1, other_q), *[rounded_law(100, 1, other_q)] * 2)
        assert p.sum() == pytest.approx(1, abs=1e-12)
        assert r.sum() == pytest.approx(1, abs=1e-12)
        return float(max(np.maximum(p - math.e * r, 0).sum(), np.maximum(r - math.e * p, 0).sum()))

    claimed = delta_continuous(1, epsilon=1, q=q)
    assert claimed == pytest.approx(2.63e-7, rel=1e-3)
    assert delta(q, larger_q) == pytest.approx(0.00149997, abs=5e-9)
    assert delta(q, q) <= claimed * (1 + 1e-6)  # the same enumeration accepts a public q


def test_continuous_profile_against_integration() -> None:
    epsilon, q = 0.7, 9.0
    x = np.linspace(-q, 1, 2_000_001)
    density = np.where(x <= 0, np.exp(-epsilon * np.abs(x + q / 2)), 0)
    shifted = np.where(x >= -q + 1, np.exp(-epsilon * np.abs(x - 1 + q / 2)), 0)
    total = np.trapezoid(density, x)
    for at in (-0.5, 0, 0.3, 0.7, 2):
        stick = np.trapezoid(np.maximum(shifted - math.exp(at) * density, 0), x) / total
        assert delta_continuous(at, epsilon=epsilon, q=q) == pytest.approx(stick, rel=1e-4)


def test_wide_laws_do_not_overflow() -> None:
    """e^(epsilon q/2) is beyond the largest double from q = 1420 on at epsilon = 1."""
    for q in (1400, 1417, 1418, 1419, 1420, 1421, 5000, 10**6, 2**40):
        assert delta_continuous(1, epsilon=1, q=q) > 0
        assert data_dependent_bound(epsilon=1, drop_share=0.1, smaller_q=q, most_bars=3)[1] > 0
    assert delta_continuous(800, epsilon=800, q=10) > 0


def test_refusals() -> None:
    with pytest.raises(InvalidParameter, match="at least 2"):
        delta_continuous(1, epsilon=1, q=1.5)
    with pytest.raises(InvalidParameter, match="of at least -1"):
        delta_continuous(-2, epsilon=1, q=4)
    with pytest.raises(InvalidParameter, match="changed bars"):
        data_dependent_bound(epsilon=1, drop_share=0.1, smaller_q=1, most_bars=3)
