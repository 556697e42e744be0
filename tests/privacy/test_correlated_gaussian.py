"""Correlated noise: golden values, an independent integration of real pairs, and the order of all bounds."""

import math
from itertools import product
from typing import Any

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import log_ndtr, ndtr

from dphist.errors import Infeasible
from dphist.privacy import correlated_design as design
from dphist.privacy import correlated_gaussian as csh
from dphist.privacy import sparse_gaussian as gshm
from dphist.privacy import weaker
from dphist.privacy.gaussian import delta_gaussian
from example_numbers import examples, some

# csh.md, (epsilon, delta) = (0.35, 1e-5): k, m, Thm 3.3, Thm 3.5, exact at 1/sqrt(k), best
GOLDEN = [
    (2, 2, 80.6, 74.7, 51.2, 49.75),
    (10, 10, 141.8, 131.9, 96.3, 96.2),
    (10, 5, 141.8, 131.9, 90.9, 90.0),
    (10, 2, 141.8, 131.9, 64.4, 60.3),
    (100, 25, 373.9, 350.2, 221.9, 219.5),
    (1000, 1000, 1100, 1036, 893.0, 893.0),
    (51914, 51914, 7840, 7434, 6987, 6987),
    (51914, 12978, 7840, 7434, 5830, 5828),
]


def paper_gap(epsilon: float, delta: float, k: int, analysis: csh.Analysis) -> float:
    return design.design_for(design.Setting(epsilon, delta, k, k, analysis=analysis), 1 / math.sqrt(k)).gap


@pytest.mark.parametrize(("k", "m", "thm33", "thm35", "exact", "best"), GOLDEN)
def test_golden_gaps(k: int, m: int, thm33: float, thm35: float, exact: float, best: float) -> None:
    setting = design.Setting(0.35, 1e-5, k, m)
    assert paper_gap(0.35, 1e-5, k, "paper-3.3") == pytest.approx(thm33, rel=3e-3)
    assert paper_gap(0.35, 1e-5, k, "paper-3.5") == pytest.approx(thm35, rel=3e-3)
    assert design.design_for(setting, 1 / math.sqrt(k)).gap == pytest.approx(exact, rel=3e-3)
    assert design.best_design(setting).gap == pytest.approx(best, rel=3e-3)


@pytest.mark.parametrize(
    ("epsilon", "delta", "k", "exact_gshm", "thm35", "best"),
    [(1, 1e-8, 10, 96.7, 86.9, 63.5), (1, 1e-8, 1000, 1082, 647, 558), (0.1, 1e-9, 100, 3367, 2325, 1852)],
)
def test_golden_gaps_at_other_budgets(
    epsilon: float, delta: float, k: int, exact_gshm: float, thm35: float, best: float
) -> None:
    assert gshm.best_pair(epsilon, delta, max_groups=k)[1] == pytest.approx(exact_gshm, rel=3e-3)
    assert paper_gap(epsilon, delta, k, "paper-3.5") == pytest.approx(thm35, rel=3e-3)
    assert design.best_design(design.Setting(epsilon, delta, k, k)).gap == pytest.approx(best, rel=3e-3)


def test_the_papers_7860_is_theorem_33_at_0349() -> None:
    assert paper_gap(0.349, 1e-5, 51914, "paper-3.3") == pytest.approx(7860.54, abs=0.05)
    assert paper_gap(0.349, 1e-5, 51914, "paper-3.5") == pytest.approx(7453, abs=0.6)


def test_lemma_34_with_its_sign_inverts_theorem_33() -> None:
    gap = weaker.gap_lemma_34(0.35, 1e-5, 100, 60.0)
    assert weaker.delta_theorem_33(0.35, 100, 60.0, gap) == pytest.approx(1e-5, rel=1e-8)
    with pytest.raises(Infeasible):
        weaker.gap_lemma_34(0.35, 1e-5, 100, 20.0)


def brute_theorem_35(epsilon: float, k: int, s: float, gap: float) -> float:
    log_keep = float(log_ndtr(gap / (s * (1 + k**-0.25))))
    found = max(-math.expm1((k + 1) * log_keep), float(delta_gaussian(0.5 * math.sqrt(k + math.sqrt(k)) / s, epsilon)))
    for j in range(1, k):
        gamma = min(math.sqrt(j), 0.5 * math.sqrt(j + math.sqrt(k))) / s
        log_psi = (k - j + 1) * log_keep
        found = max(found, -math.expm1(log_psi) + float(delta_gaussian(gamma, epsilon)))
        found = max(found, float(delta_gaussian(gamma, epsilon + log_psi)))
    return found


@pytest.mark.parametrize(("k", "t"), [(1, 2.0), (7, 4.0), (200, 5.0), (200, 2.0)])
def test_theorem_35_equals_the_loop(k: int, t: float) -> None:
    s = math.sqrt(k)
    slow = brute_theorem_35(0.5, k, s, t * s)
    assert weaker.delta_theorem_35(0.5, k, s, t * s) == pytest.approx(min(1.0, slow), rel=3e-9)


@given(
    k=st.integers(1, 12),
    m=st.integers(1, 12),
    log_c=st.floats(-5, 2),
    sums=st.floats(0, 2),
    bits=st.integers(1, 12),
    new=st.integers(0, 11),
)
def test_squared_sensitivity_against_brute_force(
    k: int, m: int, log_c: float, sums: float, bits: int, new: int
) -> None:
    m, c, g = min(m, k), math.exp(log_c), 2.0**-bits
    new = min(new, m)
    n = k - new

    def shift(p: int, b: float) -> float:
        return p * (1 - b) ** 2 + (n - p) * b**2 + b**2 / c + p * sums

    continuous = max(shift(p, p / (n + 1 / c)) for p in range(m - new + 1))
    on_lattice = max(min(shift(p, j * g) for j in range(2**bits + 1)) for p in range(m - new + 1))
    assert float(csh.squared_sensitivity(k, m, c, new, sums_ratio=sums)) == pytest.approx(continuous, abs=1e-12)
    bound = float(csh.squared_sensitivity(k, m, c, new, sums_ratio=sums, lattice_step=g))
    assert on_lattice <= bound + 1e-12
    assert bound <= continuous + (n + 1 / c) * g * g / 4 + 1e-12


def test_the_coarse_lattice_of_the_spec_costs_what_it_says() -> None:
    # noise.md: g = 1/2, k = 200, m = 60, s = c = 1, epsilon = 33: 6.0e-2 on the lattice against 2.4e-2 from S2
    parameters = {"sparsity": 200, "max_groups": 60, "independent_std": 1.0, "correlation": 1.0}
    assert csh.delta_gauss(33, **parameters) == pytest.approx(2.4e-2, rel=0.02)  # type: ignore[arg-type]
    assert csh.delta_gauss(33, **parameters, lattice_step=0.5) >= 6.0e-2  # type: ignore[arg-type]


def test_aggregates_are_maximised_jointly() -> None:
    # csh.md: k = m = 1000, c = 1/sqrt(k), mu_o^2 = 1/4: 403, where S2's own p would give 387
    assert float(csh.squared_sensitivity(1000, 1000, 1 / math.sqrt(1000), sums_ratio=0.25)) == pytest.approx(
        403, abs=0.5
    )


@pytest.mark.parametrize(
    ("a", "c", "t"), some([(1, 0.3, 2.0), (10, 0.1, 5.0), (1000, 0.03, 6.0), (3, 5.0, 9.0), (50000, 0.0044, 7.0)], 2)
)
def test_delta_infinity_against_an_independent_quadrature(a: int, c: float, t: float) -> None:
    def integrand(z: Any) -> Any:
        # 1 - Phi^a through the tail of Phi, so that nothing cancels
        tail = mp.erfc((t - mp.sqrt(c) * z) / mp.sqrt(2)) / 2
        return mp.exp(-z * z / 2) / mp.sqrt(2 * mp.pi) * -mp.expm1(a * mp.log1p(-tail))

    with mp.workdps(30):
        exact, error = mp.quad(integrand, mp.linspace(-14, 14, 15), error=True)
        assert error < 1e-20 * exact
    found = float(csh.CommonNoise(c, t, a).delta_infinity(np.array([a]))[0])
    assert found == pytest.approx(float(exact), rel=1e-11)


def test_delta_infinity_lies_below_an_upper_darboux_sum() -> None:
    edges = np.linspace(-13, 13, 400_001)
    mass = np.diff(ndtr(edges))
    upper = float(-np.expm1(20 * log_ndtr(4.0 - math.sqrt(0.2) * edges[1:])) @ mass)
    lower = float(-np.expm1(20 * log_ndtr(4.0 - math.sqrt(0.2) * edges[:-1])) @ mass)
    assert lower <= csh.delta_infinity(4.0, 20, 1.0, 0.2) <= upper


def exact_pair(epsilon: float, p: int, u: int, a: int, s: float, c: float, t: float) -> float:
    """Section 2 of the derivation, both directions, on a plain grid over (W, M): slow and independent of the code."""
    n = p + u
    mu = math.sqrt(p * (1 + c * u) / (1 + c * n)) / s
    v, v_m = c / (1 + c * n), c * c * n / (1 + c * n)
    rho = math.sqrt(p / (n * (1 + c * u)))
    z = np.linspace(-8.5, 8.5, 1201)
    weight = np.exp(-z * z / 2) * (z[1] - z[0]) / math.sqrt(2 * math.pi)
    keep = np.exp(a * log_ndtr(t - math.sqrt(v_m) * z[:, None] - math.sqrt(v) * z[None, :])) @ weight
    w = rho * z[:, None] + math.sqrt(max(0.0, 1 - rho * rho)) * z[None, :]  # rows: M, columns: the rest of W
    loss = mu * w + mu * mu / 2
    q = keep[:, None]
    added = 1 - weight @ np.minimum(q, np.exp(epsilon - loss)) @ weight
    removed = math.exp(epsilon) * (weight @ np.maximum(np.exp(-epsilon - loss) - q, 0) @ weight)
    return float(max(added, removed))


@pytest.mark.parametrize(
    ("epsilon", "k", "m", "s", "c", "t"),
    [
        (0.1, 3, 3, 9.0, 0.577, 3.0),
        (0.5, 4, 2, 3.0, 0.3, 2.5),
        pytest.param(1.0, 3, 3, 1.0, 1.0, 3.2, marks=pytest.mark.long),
        pytest.param(0.3, 5, 5, 4.0, 0.2, 3.5, marks=pytest.mark.long),
    ],
)
def test_the_bound_holds_for_every_pair_and_is_close(
    epsilon: float, k: int, m: int, s: float, c: float, t: float
) -> None:
    true = max(
        exact_pair(epsilon, p, k - p - a, a, s, c, t) for p, a in product(range(1, m + 1), range(m)) if p + a <= m
    )
    claimed = csh.delta(epsilon, sparsity=k, max_groups=m, independent_std=s, correlation=c, gap=t * s)
    infinite = csh.delta_infinity(t * s, m, s, c)
    assert max(true, infinite) <= claimed * (1 + 1e-4)  # the grid of exact_pair is good to that
    assert claimed <= max(true, infinite) * 1.08


def test_the_sharper_theorem_is_used_where_it_helps() -> None:
    k, s, c, gap = 3, 4.0, 3**-0.5, 10.0
    tight = csh.delta(0.1, sparsity=k, max_groups=k, independent_std=s, correlation=c, gap=gap)
    every = np.arange(k + 1)
    noise = delta_gaussian(np.sqrt(csh.squared_sensitivity(k, k, c, every)) / s, 0.1)
    product_bound = float((noise + (1 - noise) * csh.CommonNoise(c, gap / s, k).delta_infinity(every)).max())
    true = max(exact_pair(0.1, p, k - p - a, a, s, c, gap / s) for p, a in [(1, 1), (1, 2), (2, 1)])
    assert true < tight < product_bound * 0.95


def test_without_correlation_it_is_the_sparse_gaussian() -> None:
    for epsilon, groups, s, t in [(0.4, 1, 3.0, 4.0), (0.4, 5, 6.0, 2.0), (0.4, 300, 40.0, 4.0), (0.01, 2, 20.0, 2.19)]:
        correlated = csh.delta(epsilon, sparsity=1000, max_groups=groups, independent_std=s, correlation=0.0, gap=t * s)
        plain = gshm.delta(epsilon, max_groups=groups, noise_std=s, gap=t * s)
        assert correlated == pytest.approx(plain, rel=1e-5)


@examples(12)
@given(
    epsilon=st.floats(0.05, 3),
    log_delta=st.floats(-11, -2.5),
    k=st.integers(1, 10**6),
    share=st.floats(0.001, 1),
    weight=st.sampled_from([0.0, gshm.Z95, math.inf]),
    sums=st.sampled_from([0.0, 0.7]),
)
def test_best_design_meets_its_target_and_beats_the_others(
    epsilon: float, log_delta: float, k: int, share: float, weight: float, sums: float
) -> None:
    target, m = 10.0**log_delta, max(1, round(share * k))
    setting = design.Setting(epsilon, target, k, m, sums_budget=sums, weight=weight, lattice_step=2.0**-18)
    best = design.best_design(setting)
    assert setting.delta(best.independent_std, best.correlation, best.gap) <= target
    assert setting.delta(best.independent_std, best.correlation, best.gap * (1 - 1e-5)) > target
    for other in (0.0, 1 / math.sqrt(k)):
        assert best.value(weight) <= design.design_for(setting, other).value(weight) * (1 + 1e-6)
    sigma, gap = gshm.best_pair(epsilon, target, max_groups=m, sums_ratio=sums, weight=weight)
    assert best.value(weight) <= (sigma if math.isinf(weight) else gap + weight * sigma) * (1 + 1e-6)


@settings(max_examples=40, deadline=None)
@given(epsilon=st.floats(0.05, 3), k=st.integers(2, 10**5), relative=st.floats(0.4, 4), t=st.floats(2, 9))
def test_bounds_are_ordered(epsilon: float, k: int, relative: float, t: float) -> None:
    s = relative * math.sqrt(k) / 2
    c = 1 / math.sqrt(k)
    parameters = {"sparsity": k, "max_groups": k, "independent_std": s, "correlation": c}
    tight, thm35, thm33 = (
        csh.delta(epsilon, **parameters, gap=t * s, analysis=a)  # type: ignore[arg-type]
        for a in csh.ANALYSES
    )
    lower = max(csh.delta_gauss(epsilon, **parameters), csh.delta_infinity(t * s, k, s, c))  # type: ignore[arg-type]
    assert lower <= tight * (1 + 1e-12)
    assert tight <= thm35 * (1 + 1e-5)
    assert thm35 <= thm33 * (1 + 1e-8)


def test_too_little_noise_is_refused() -> None:
    with pytest.raises(Infeasible, match="independent noise of at least"):
        design.smallest_gap(design.Setting(0.35, 1e-5, 100, 100), 1.0, 0.1)
    for analysis in csh.ANALYSES[1:]:
        with pytest.raises(Infeasible):
            design.smallest_gap(design.Setting(0.35, 1e-5, 100, 100, analysis=analysis), 1.0, 0.1)


def test_known_groups_noise_scales_as_half() -> None:
    # csh.md: total noise (sqrt d + 1)/2 instead of sqrt d
    setting = design.Setting(1.0, 1e-6, 10_000, 10_000)
    c = design.quietest_correlation(setting)
    quiet = design.smallest_independent_std(setting, c) * math.sqrt(1 + c)
    assert quiet / design.smallest_independent_std(setting, 0.0) == pytest.approx((100 + 1) / 2 / 100, rel=1e-3)
    assert design.quietest_correlation(design.Setting(1.0, 1e-6, 50, 1)) == 0.0


def test_closed_form_correlation_is_near_the_best() -> None:
    for k, m in [(100, 25), (100, 60), (100, 100), (10, 9), (1000, 2)]:
        setting = design.Setting(0.5, 1e-6, k, m, weight=math.inf)
        c = design.noise_optimal_correlation(k, m)
        closed = design.Design(design.smallest_independent_std(setting, c), c, 0.0).noise_std
        best = design.quietest_correlation(setting)
        found = design.Design(design.smallest_independent_std(setting, best), best, 0.0).noise_std
        assert found <= closed <= found * 1.01


def test_the_best_of_some_correlations_is_the_best_of_them() -> None:
    setting = design.Setting(0.35, 1e-5, 10, 10)
    chosen = design.best_of(setting, [0.3, 5.0, 1 / 3, 0.0], lambda c: 0.0)
    assert chosen == design.design_for(setting, 1 / 3)


def test_nothing_cancels_at_extreme_correlations() -> None:
    for c in (1e6, 1e8, 1e17):
        assert float(csh.squared_sensitivity(1, 1, c)) == pytest.approx(1 / (1 + c), rel=1e-12)
    assert float(csh.squared_sensitivity(5, 5, 1e12, 4)) == pytest.approx(1 / (1 + 1e12), rel=1e-12)


def test_absurdly_correlated_noise_is_given_up_not_computed() -> None:
    assert csh.delta_infinity(100.0, 10**9, 1.0, 1e6) == 1.0


def test_many_new_counts_are_summed_in_pieces() -> None:
    common = csh.CommonNoise(0.5, 6.0, 60_000)
    every = np.arange(1, 4001)
    assert common.delta_infinity(every)[-1] == common.delta_infinity(np.array([4000]))[0]


def test_the_fast_bound_is_never_below_the_sharp_one() -> None:
    parameters = {"sparsity": 6, "max_groups": 6, "independent_std": 2.0, "correlation": 0.577, "gap": 4.0}
    fast = csh.delta(0.1, **parameters, sharp=False)  # type: ignore[arg-type]
    assert csh.delta(0.1, **parameters) < fast * 0.95  # type: ignore[arg-type]


def test_a_design_without_a_gap_stays_one() -> None:
    hopeless = design.Design(1.0, 0.1, math.inf)
    assert design.sharpened(design.Setting(0.35, 1e-5, 100, 100), hopeless) is hopeless


def test_the_sharper_bound_lowers_the_gap_where_mixed_cases_bind() -> None:
    setting = design.Setting(0.1, 0.08, 3, 3)
    s = design.smallest_independent_std(setting, 0.577) * 1.02
    gap = design.smallest_gap(setting, s, 0.577)
    assert setting.delta(s, 0.577, gap) <= 0.08
    assert gap < design.fast_gap(setting, s, 0.577)
