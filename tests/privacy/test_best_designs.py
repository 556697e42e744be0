"""Searches: what they find is near the best there is, and they ask the forward maps a bounded number of times."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from scipy.special import log_ndtr, ndtr

import dphist as dp
from dphist.mechanisms import correlated_top_k
from dphist.privacy import correlated_design as design
from dphist.privacy import correlated_gaussian as csh
from dphist.privacy import sparse_gaussian as gshm
from dphist.privacy.search import smallest_whole, worst_split
from example_numbers import examples, some

AROUND_EPSILON = [
    (0.013, 0.012, 3, 3, gshm.Z95),
    (0.107, 0.47, 4, 3, 0.0),
    (0.195, 0.5, 8, 8, 0.0),
    (0.0874, 0.0495, 3, 2, 0.0),
    (0.788, 0.5, 2, 2, gshm.Z95),
    (0.0064, 0.0318, 3, 3, 0.0),
    (0.05, 0.03, 20, 20, gshm.Z95),
]


@pytest.mark.parametrize(("epsilon", "delta", "sparsity", "max_groups", "weight"), some(AROUND_EPSILON, 2))
def test_no_other_noise_or_correlation_is_half_a_per_cent_better(
    epsilon: float, delta: float, sparsity: int, max_groups: int, weight: float
) -> None:
    """Every point of a grid misses the target with the gap that would make it so much better."""
    setting = design.Setting(epsilon, delta, sparsity, max_groups, weight=weight)
    best = design.best_design(setting)
    value = best.value(weight)
    assert setting.delta(best.independent_std, best.correlation, best.gap) <= delta
    around = best.correlation or 1 / math.sqrt(sparsity)
    for correlation in (0.0, *(around * np.exp(np.linspace(-1.2, 1.2, 13)))):
        least = design.smallest_independent_std(setting, correlation)
        for ratio in (1.0, 1.003, 1.01, 1.03, 1.1, 1.3):
            gap = 0.995 * value - weight * least * ratio * math.sqrt(1 + correlation)
            if gap > 0:
                assert setting.delta(least * ratio, correlation, gap, enough=delta) > delta


@examples(1)
@example(-1.0, 0.3, 200, "gap")
@given(st.floats(-3, 0), st.floats(-0.5, 1), st.integers(1, 2000), st.sampled_from(["release95", "gap"]))
def test_no_other_noise_std_is_better_where_delta_is_around_epsilon(
    log_epsilon: float, log_ratio: float, groups: int, objective: Any
) -> None:
    epsilon = 10**log_epsilon
    delta = min(0.5, epsilon * 10**log_ratio)
    for noise in ("rounded", "discrete"):
        options: dict[str, Any] = {"epsilon": epsilon, "delta": delta, "max_groups": groups, "noise": noise}
        plan = dp.plan(**options, objective=objective)
        value = plan.mechanism.objective_value(objective)
        for ratio in (0.8, 0.95, 1.0001, 1.05, 1.2, 1.6):
            try:
                other = dp.plan(**options, objective=objective, noise_std=plan.mechanism.noise_std * ratio)
            except dp.errors.Infeasible:
                continue
            best = other.mechanism.objective_value(objective)
            assert value <= best * (1.005 if noise == "rounded" else 1.02) + 0.51  # whole thresholds are coarse


@pytest.mark.parametrize(
    ("epsilon", "delta", "groups"), some([(0.694, 0.5, 9), (7e-4, 6.6e-4, 1295), (0.858, 0.21, 69)], 1)
)
def test_the_smallest_noise_has_a_threshold(epsilon: float, delta: float, groups: int) -> None:
    plan = dp.plan(epsilon=epsilon, delta=delta, sparsity=groups, objective="noise")
    assert plan.delta <= delta
    setting = design.Setting(epsilon, delta, groups, groups, weight=math.inf)
    assert plan.mechanism.noise_std <= design.best_design(setting).noise_std * (1 + 1e-6)


@pytest.mark.parametrize(("epsilon", "delta", "k"), some([(0.35, 0.8, 2), (0.72, 0.43, 5), (1e-3, 0.5, 30)], 1))
def test_correlated_lists_have_a_threshold_at_large_deltas(epsilon: float, delta: float, k: int) -> None:
    found = correlated_top_k.calibrate(epsilon, delta, k)
    assert found.delta(epsilon) <= delta
    assert math.isfinite(found.threshold)


Counts = dict[str, int]


@pytest.fixture
def evaluations(monkeypatch: pytest.MonkeyPatch) -> Counts:
    """How often each forward map is asked."""
    counts: Counts = {}

    def count(label: str, original: Callable[..., float]) -> Callable[..., float]:
        def counted(*args: Any, **options: Any) -> float:
            counts[label] = counts.get(label, 0) + 1
            return original(*args, **options)

        return counted

    monkeypatch.setattr(gshm, "delta", count("sparse_gaussian.delta", gshm.delta))
    for name in ("delta", "delta_with_base", "delta_infinity"):
        monkeypatch.setattr(csh, name, count(f"correlated_gaussian.{name}", getattr(csh, name)))
    return counts


@pytest.mark.parametrize(
    ("options", "sparse", "correlated"),
    [
        ({"epsilon": 1, "delta": 1e-8, "max_groups": 10}, 700, 0),
        ({"epsilon": 0.1, "delta": 0.1, "max_groups": 2000}, 1000, 0),
        ({"epsilon": 0.01, "delta": 0.01, "sparsity": 20}, 1000, 2500),
        ({"epsilon": 1, "delta": 1e-8, "max_groups": 5000, "sparsity": 5000, "sums": {"x": (0, 1)}}, 1000, 1000),
    ],
)
def test_a_plan_asks_the_forward_maps_a_bounded_number_of_times(
    options: dict[str, Any], sparse: int, correlated: int, evaluations: Counts
) -> None:
    dp.plan(**options)
    assert 0 < evaluations.get("sparse_gaussian.delta", 0) <= sparse
    assert evaluations.get("correlated_gaussian.delta", 0) <= correlated
    assert evaluations.get("correlated_gaussian.delta_infinity", 0) <= 1500


def test_a_correlated_list_asks_its_forward_map_a_bounded_number_of_times(evaluations: Counts) -> None:
    correlated_top_k.calibrate(4e-3, 1e-2, 20)
    assert evaluations["correlated_gaussian.delta_with_base"] <= 800


@given(size=st.integers(1, 3000), rise=st.floats(0.1, 3), fall=st.floats(0.1, 3), enough=st.floats(0.01, 3))
def test_worst_split_can_stop_when_it_knows_enough(size: int, rise: float, fall: float, enough: float) -> None:
    """What it returns up to `enough` is a bound; what it returns above it is below the maximum at most by being early."""

    def upper(low: np.ndarray, high: np.ndarray) -> np.ndarray:
        return (high / (size + 1)) ** rise * (1 + (size - low) / (size + 1)) ** fall

    every = np.arange(1, size + 1)
    exact = float(upper(every, every).max())
    found = worst_split(upper, 1, size, enough=enough)
    if found <= enough:
        assert found >= exact
    else:
        assert exact * (1 + 1e-9) >= found > enough


@given(place=st.integers(0, 10**9), start=st.one_of(st.none(), st.integers(0, 10**9)), limit=st.integers(0, 10**9))
def test_the_smallest_whole_number_is_found_from_anywhere(place: int, start: int | None, limit: int) -> None:
    asked: list[int] = []

    def holds(number: int) -> bool:
        asked.append(number)
        assert 0 <= number <= limit
        return number >= place

    if place > limit:
        with pytest.raises(dp.errors.Infeasible):
            smallest_whole(holds, limit=limit, start=start)
    else:
        found = smallest_whole(holds, limit=limit, start=start)
        assert place <= found <= place + 1e-6 * found + 1
        assert found == place or found > 10**6
        assert found in asked
    assert len(asked) <= 65


def true_delta(epsilon: float, groups: int, chosen: design.Design, new: int, moved: int) -> float:
    """The hockey stick of one kind of neighbours, either way, by quadrature: docs/correlated.md, section 4, without a bound.

    L, the privacy loss of the shared counters, and m, the mean of the common noise given them, are jointly normal; given m the
    new counters stay hidden with probability q(m).
    """
    s, c, t, shared = chosen.independent_std, chosen.correlation, chosen.gap / chosen.independent_std, groups - new
    scale = 1 + c * shared
    squared = (moved - moved**2 * c / scale) / s**2
    spread, cov = c * c * shared / scale, c * moved / (scale * s)
    x, w = np.polynomial.hermite_e.hermegauss(61)
    grid = np.linspace(-9, 9, 2401)
    weight = np.exp(-(grid**2) / 2)
    weight /= weight.sum()
    mean = math.sqrt(spread) * grid
    q = np.exp(new * log_ndtr(t - mean[:, None] - math.sqrt(c - spread) * x)) @ (w / w.sum())
    slope = cov / spread if spread else 0.0
    loss, var = squared / 2 + slope * mean, max(squared - slope * cov, 1e-24)
    left = (epsilon - np.log(q) - loss) / math.sqrt(var)
    more = 1 - weight @ (q * ndtr(left) + np.exp(epsilon - loss + var / 2) * ndtr(-left - math.sqrt(var)))
    right = (-epsilon - np.log(q) - loss) / math.sqrt(var)
    less = weight @ (np.exp(var / 2 - loss) * ndtr(right + math.sqrt(var)) - math.exp(epsilon) * q * ndtr(right))
    return float(max(more, less))


@pytest.mark.parametrize(
    ("epsilon", "delta", "groups", "weight", "excess"),
    some(
        [
            (0.1, 1e-3, 5, gshm.Z95, 1e-4),
            (0.05, 0.02, 8, gshm.Z95, 0.02),
            (0.1, 0.1, 5, 0.0, 0.03),
            (0.26, 0.33, 5, 0.0, 0.06),
        ],
        2,
    ),
)
def test_the_stated_delta_of_correlated_noise_is_above_the_truth_by_what_limits_say(
    epsilon: float, delta: float, groups: int, weight: float, excess: float
) -> None:
    setting = design.Setting(epsilon, delta, groups, groups, weight=weight)
    best = design.best_design(setting)
    stated = setting.delta(best.independent_std, best.correlation, best.gap)
    truth = max(
        true_delta(epsilon, groups, best, new, moved) for new in range(groups + 1) for moved in range(groups - new + 1)
    )
    assert truth * (1 - 1e-5) <= stated <= truth * (1 + excess)
    more = design.Design(best.independent_std * 1.05, best.correlation, 0.0)
    gap = design.smallest_gap(setting, more.independent_std, more.correlation)
    wide = design.Design(more.independent_std, more.correlation, gap)
    truth = max(true_delta(epsilon, groups, wide, new, groups - new) for new in range(groups + 1))
    assert truth * (1 - 1e-5) <= delta


def test_whatever_the_search_finds_no_correlation_is_the_worst_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    setting = design.Setting(1.0, 1e-5, 50, 1)
    plain, poor = design.design_for(setting, 0.0), design.design_for(setting, 30.0)
    assert poor.value(setting.weight) > plain.value(setting.weight)
    monkeypatch.setattr(design, "moved", lambda *_: poor)
    assert design.best_design(setting) == plain
