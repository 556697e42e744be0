"""The Gaussian sparse histogram: golden values, brute force over all splits, and the order of the analyses."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.special import log_ndtr, ndtri
from scipy.stats import norm

from dphist.errors import Infeasible
from dphist.privacy import sparse_gaussian as gshm
from dphist.privacy.gaussian import delta_gaussian

K = 51_914


@pytest.mark.parametrize(
    ("sigma", "exact", "added"),
    [
        (2240, 14022.149, 14916.871),
        (2300, 14397.742, 14748.987),
        (2396, 14998.691, 15148.717),
        (2699, 16895.437, 16912.292),
    ],
)
def test_golden_gaps(sigma: float, exact: float, added: float) -> None:
    def gap(analysis: gshm.Analysis) -> float:
        return gshm.smallest_gap(0.349, 1e-5, max_groups=K, noise_std=sigma, analysis=analysis)

    assert gap("exact") == pytest.approx(exact, abs=6e-4)
    assert gap("add-the-deltas") == pytest.approx(added, abs=6e-4)


@pytest.mark.parametrize(("epsilon", "ratio"), [(0.504, 1.9741), (0.45, 1.0696), (0.4, 1.00762), (0.349, 1.0009993)])
def test_golden_ratios(epsilon: float, ratio: float) -> None:
    def delta(analysis: gshm.Analysis) -> float:
        return gshm.delta(epsilon, max_groups=K, noise_std=2228, gap=16176, analysis=analysis)

    assert delta("add-the-deltas") / delta("exact") == pytest.approx(ratio, rel=5e-5)
    assert gshm.delta_infinity(16176, K, 2228) == pytest.approx(1.00237e-08, rel=1e-5)


def test_golden_best_pairs() -> None:
    assert gshm.best_pair(0.35, 1e-5, max_groups=K)[1] == pytest.approx(13913.45, abs=0.01)
    assert gshm.best_pair(0.349, 1e-5, max_groups=K)[1] == pytest.approx(13950.05, abs=0.01)
    # csh.md's table, GSHM columns
    for groups, added, exact in [(2, 65.9, 60.9), (10, 157.6, 146.6), (25, 258.0, 240.7), (1000, 1839, 1731)]:
        assert gshm.best_pair(0.35, 1e-5, max_groups=groups)[1] == pytest.approx(exact, rel=1e-3)
        assert gshm.best_pair(0.35, 1e-5, max_groups=groups, analysis="add-the-deltas")[1] == pytest.approx(
            added, rel=1e-3
        )


def brute(epsilon: float, groups: int, sigma: float, gap: float, sums: float) -> dict[str, float]:
    """The three theorems as they stand on the page, every split visited."""
    log_keep = float(log_ndtr(gap / sigma))
    a = np.arange(1, groups + 1)
    b = groups - a
    beta = np.exp(b * log_keep)
    mu = np.sqrt(a / sigma**2 + a * sums**2)
    infinite = -math.expm1(groups * log_keep)
    second = 1 - beta + beta * delta_gaussian(mu, epsilon - b * log_keep)
    third = delta_gaussian(mu, epsilon + b * log_keep)
    f_dp = 1 - beta + beta * delta_gaussian(mu, epsilon)
    return {
        "exact": max(infinite, float(second.max()), float(third.max())),
        "f-dp": max(infinite, float(f_dp.max())),
        "add-the-deltas": infinite + float(delta_gaussian(mu[-1], epsilon)),
    }


@settings(max_examples=60)
@given(
    epsilon=st.floats(0.01, 3),
    groups=st.integers(1, 2000),
    relative_noise=st.floats(0.3, 5),
    t=st.floats(0.5, 7),
    sums=st.floats(0, 1),
)
def test_fast_maximum_equals_the_loop(
    epsilon: float, groups: int, relative_noise: float, t: float, sums: float
) -> None:
    sigma = relative_noise * math.sqrt(groups)
    slow = brute(epsilon, groups, sigma, t * sigma, sums / sigma)
    for analysis in gshm.ANALYSES:
        fast = gshm.delta(
            epsilon, max_groups=groups, noise_std=sigma, gap=t * sigma, sums_sensitivity=sums / sigma, analysis=analysis
        )
        assert min(1.0, slow[analysis]) * (1 - 1e-12) <= fast <= min(1.0, slow[analysis] * (1 + 3e-9)) + 1e-300


@settings(max_examples=60)
@given(epsilon=st.floats(0.01, 3), groups=st.integers(1, 10**7), t=st.floats(0.5, 9), noise=st.floats(0.2, 5))
def test_analyses_are_ordered(epsilon: float, groups: int, t: float, noise: float) -> None:
    sigma = noise * math.sqrt(groups)
    exact, f_dp, added = (
        gshm.delta(epsilon, max_groups=groups, noise_std=sigma, gap=t * sigma, analysis=a) for a in gshm.ANALYSES
    )
    pure = max(gshm.delta_gauss(epsilon, groups, sigma), gshm.delta_infinity(t * sigma, groups, sigma))
    assert pure <= exact <= f_dp * (1 + 3e-9)
    assert f_dp <= added * (1 + 3e-9)
    if groups == 1:
        assert exact == pytest.approx(pure, rel=1e-9)


@settings(max_examples=40)
@given(
    epsilon=st.floats(0.05, 4),
    log_delta=st.floats(-12, -1.5),
    groups=st.integers(1, 10**6),
    sums=st.floats(0, 2),
    analysis=st.sampled_from(gshm.ANALYSES),
    weight=st.sampled_from([0.0, gshm.Z95, math.inf]),
)
def test_calibration_meets_its_target_and_one_step_tighter_does_not(
    epsilon: float, log_delta: float, groups: int, sums: float, analysis: gshm.Analysis, weight: float
) -> None:
    target = 10.0**log_delta
    sigma, gap = gshm.best_pair(epsilon, target, max_groups=groups, sums_ratio=sums, analysis=analysis, weight=weight)

    def delta(gap: float) -> float:
        return gshm.delta(
            epsilon,
            max_groups=groups,
            noise_std=sigma,
            gap=gap,
            sums_sensitivity=math.sqrt(sums) / sigma,
            analysis=analysis,
        )

    assert delta(gap) <= target
    assert gap == 0 or delta(gap * (1 - 1e-6)) > target


@given(log_delta=st.floats(-12, -2), groups=st.integers(1, 10**5), first=st.floats(0.05, 4), second=st.floats(0.05, 4))
def test_more_epsilon_never_adds_noise(log_delta: float, groups: int, first: float, second: float) -> None:
    low, high = sorted((first, second))
    target = 10.0**log_delta
    assert gshm.smallest_noise(high, target, groups) <= gshm.smallest_noise(low, target, groups)


def test_too_little_noise_is_refused_with_the_least_that_would_do() -> None:
    with pytest.raises(Infeasible, match=r"noise_std of at least 16\.1286"):
        gshm.smallest_gap(1, 1e-8, max_groups=10, noise_std=2)
    with pytest.raises(Infeasible, match="aggregates alone"):
        gshm.smallest_gap(1, 1e-8, max_groups=10, noise_std=100, sums_sensitivity=5.0)


def test_cor_542_for_one_group() -> None:
    epsilon, target, sigma = 1.0, 1e-5, 4.0
    gauss = gshm.delta_gauss(epsilon, 1, sigma)
    added = gshm.smallest_gap(epsilon, target, max_groups=1, noise_std=sigma, analysis="add-the-deltas")
    exact = gshm.smallest_gap(epsilon, target, max_groups=1, noise_std=sigma)
    assert added / exact == pytest.approx(float(ndtri(target - gauss) / ndtri(target)), rel=1e-8)


@pytest.mark.parametrize(("epsilon", "sigma", "gap"), [(0.1, 2.0, 1.0), (0.5, 1.5, 2.0), (1.0, 0.8, 1.5)])
def test_exact_is_the_hockey_stick_of_a_real_pair(epsilon: float, sigma: float, gap: float) -> None:
    """Two groups of one unit, one large and shared, one new: the output law integrated directly, both directions."""
    keep = norm.cdf(gap / sigma)
    shared = norm(0, sigma).pdf

    def added(y: float) -> float:
        return max(keep * shared(y - 1) - math.exp(epsilon) * shared(y), 0.0)

    def removed(y: float) -> float:
        return max(shared(y) - math.exp(epsilon) * keep * shared(y - 1), 0.0)

    # Where the densities cross, which is where quadrature needs help.
    crossing = sigma**2 * (epsilon - math.log(keep)) + 0.5
    other = -(sigma**2) * (epsilon + math.log(keep)) + 0.5
    with_new = quad(added, crossing, 40 * sigma)[0] + (1 - keep)
    without = quad(removed, -40 * sigma, other)[0]
    claimed = gshm.delta(epsilon, max_groups=2, noise_std=sigma, gap=gap)
    assert max(with_new, without) <= claimed * (1 + 1e-9)
    # the worst pair of all is this one, or both groups shared, or both new
    pure = max(gshm.delta_gauss(epsilon, 2, sigma), gshm.delta_infinity(gap, 2, sigma))
    assert claimed == pytest.approx(max(with_new, without, pure), rel=1e-7)


def test_mixed_splits_bind_for_f_dp_at_small_epsilon() -> None:
    sigma, gap = gshm.best_pair(0.01, 0.2, max_groups=2, analysis="f-dp", weight=math.inf)
    assert gshm.delta(0.01, max_groups=2, noise_std=sigma, gap=gap, analysis="f-dp") <= 0.2
    assert gap > gshm.smallest_gap(0.01, 0.2, max_groups=2, noise_std=sigma) * 1.05


def test_huge_deltas_need_no_gap() -> None:
    assert gshm.smallest_gap(1.0, 0.7, max_groups=1, noise_std=5.0) == 0.0
