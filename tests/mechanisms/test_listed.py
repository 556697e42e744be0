"""Laplace and discrete Gaussian noise on public lists: output laws of neighbours, and the best of all chosen."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom

import dphist as dp
from dphist.aggregates.count import RowsOfUnit
from dphist.aggregates.noisy_sums import pure_epsilon
from dphist.aggregates.total import Sum
from dphist.audit import laws
from dphist.ledger.accountant import price
from dphist.mechanisms import KnownDiscrete, KnownGroups, KnownLaplace
from dphist.mechanisms.base import GroupMechanism
from dphist.mechanisms.lattice import LARGEST_COUNT
from dphist.noise import DiscreteLaplace
from dphist.noise.testing import SeededEntropy
from dphist.planning.request import Request
from dphist.privacy.composition import delta_from_rho
from dphist.privacy.gaussian import delta_gaussian
from drawn_laws import recorded, silence
from word_sources import drawn_from

LAPLACE = [KnownLaplace(1, 1, 1.5), KnownLaplace(1, 1, 0.4), KnownLaplace(2, 2, 1.25), KnownLaplace(3, 3, 0.8)]
DISCRETE = [KnownDiscrete(1, 1, 0.5), KnownDiscrete(2, 2, 0.6), KnownDiscrete(2, 2, 1.5), KnownDiscrete(3, 3, 0.9)]


def worst(mechanism: Any, epsilon: float) -> float:
    """The largest delta over all neighbours, from the laws of what is published."""
    return max(laws.both_ways(pair.without, pair.with_, epsilon) for pair in laws.kinds_of_groups(mechanism))


@pytest.mark.parametrize("mechanism", LAPLACE)
def test_laplace_noise_has_no_delta_from_its_epsilon_on(mechanism: KnownLaplace) -> None:
    pure = float(mechanism.pure_epsilon)
    assert mechanism.pure_epsilon == Fraction(mechanism.max_groups) / Fraction(mechanism.scale)
    assert worst(mechanism, pure) <= 1e-12
    assert mechanism.delta(math.nextafter(pure, math.inf)) == 0
    for share in (0.0, 0.3, 0.9, 0.99):
        assert 0 < worst(mechanism, share * pure) <= mechanism.delta(share * pure) * (1 + 1e-12)
    assert worst(replace(mechanism, scale=mechanism.scale * 0.9), pure) > 1e-4  # which would show less noise


@pytest.mark.parametrize("mechanism", DISCRETE)
def test_discrete_noise_has_the_delta_it_claims(mechanism: KnownDiscrete) -> None:
    for epsilon in (0.0, 0.5, 1.0, 2.0, 4.0):
        assert worst(mechanism, epsilon) * (1 - 1e-9) - 1e-13 <= mechanism.delta(epsilon) <= 1
    if mechanism.noise_std >= 0.9:
        for epsilon in (0.5, 1.0, 2.0):
            assert worst(replace(mechanism, noise_std=mechanism.noise_std * 0.95), epsilon) > mechanism.delta(epsilon)


def test_a_count_and_a_sum_share_one_pure_epsilon() -> None:
    """One listed group whose sum the unit moves by its whole sensitivity, enumerated."""
    measure = RowsOfUnit(None, 0, 3)
    mechanism = KnownLaplace(4, 1, 1.6, sums_epsilon=1 / 1.6)
    law = mechanism.aggregate_law(measure)
    assert mechanism.covers([measure])
    assert not KnownLaplace(4, 1, 1.6, sums_epsilon=0.6).covers([measure])
    x = np.arange(-60, 61)
    steps = measure.sensitivity_steps
    pure = float(mechanism.pure_epsilon)
    for moved in (-steps, steps):
        p, q = (
            laws.joint([laws.masses(DiscreteLaplace(Fraction(1.6)), x - units), laws.masses(law, x - total)])
            for units, total in ((0, 0), (1, moved))
        )
        assert laws.both_ways(p, q, pure) <= 1e-12
        assert laws.both_ways(p, q, 0.99 * pure) > 1e-4


def test_what_is_charged_covers_the_law() -> None:
    """A count and a sum in each of two groups, as rho and as mu: the loss is +-1/scale in each of four numbers."""
    mechanism = KnownLaplace(9, 2, 2.0, sums_epsilon=0.5)
    cost = price(mechanism.event(1.0))
    up = np.arange(5)
    chances = binom.pmf(up, 4, 1 / (1 + math.exp(-0.5)))
    for epsilon in (0.0, 0.25, 0.5, 1.0, 1.5):
        true = float(chances @ np.maximum(0.0, -np.expm1(epsilon - (2 * up - 4) / 2)))
        assert true <= float(delta_gaussian(cost.mu, epsilon)) + cost.mu_delta
        assert true <= delta_from_rho(cost.rho, epsilon) + cost.rho_delta
        assert true <= mechanism.delta(epsilon)


@settings(max_examples=40, deadline=None)
@given(
    epsilon=st.floats(1e-2, 40),
    delta=st.sampled_from([0.0, 1e-12, 1e-8, 1e-3]),
    listed=st.integers(1, 40),
    share=st.floats(0, 1),
    weights=st.lists(st.floats(0.05, 20), max_size=3),
    total=st.booleans(),
)
def test_every_candidate_meets_any_budget(
    epsilon: float, delta: float, listed: int, share: float, weights: list[float], total: bool
) -> None:
    aggregates = tuple(Sum(f"c{i}", 0, 1 + i, weight) for i, weight in enumerate(weights))
    groups = max(1, round(share * listed))
    request = Request(
        epsilon, delta, max_groups=groups, keys=listed, aggregates=aggregates, mechanism="laplace", total=total
    )
    (build,) = KnownLaplace.for_request(request)
    mechanism = build()
    assert mechanism.misfits(request) == []
    spent = groups * (1 / Fraction(mechanism.scale) + pure_epsilon(mechanism.noisy(request.measures)))  # type: ignore[attr-defined]
    spent += 0 if request.total_scale is None else 1 / Fraction(request.total_scale)
    assert spent <= Fraction(epsilon)
    assert mechanism.delta(math.nextafter(request.mechanism_epsilon, 0)) == 0
    cost = price(mechanism.event(request.mechanism_epsilon))
    assert (cost.delta, cost.rho_delta, cost.mu_delta) == (0, 0, 0)
    if epsilon <= 30:
        assert spent >= Fraction(epsilon) * (1 - Fraction(1, 10**9))


@pytest.mark.parametrize(
    ("epsilon", "delta", "groups"), [(1.0, 1e-8, 1), (0.3, 1e-6, 3), (4.0, 1e-9, 2), (2.0, 1e-3, 30)]
)
def test_discrete_noise_is_as_small_as_its_law_allows(epsilon: float, delta: float, groups: int) -> None:
    (build,) = KnownDiscrete.for_request(Request(epsilon, delta, max_groups=groups, keys=50))
    mechanism: Any = build()
    assert mechanism.delta(epsilon) <= delta < replace(mechanism, noise_std=0.999 * mechanism.noise_std).delta(epsilon)
    gaussian: Any = [one() for one in KnownGroups.for_request(Request(epsilon, delta, max_groups=groups, keys=50))][1]
    assert mechanism.noise_std == pytest.approx(gaussian.noise_std, rel=0.02)


def names(plan: dp.Plan) -> set[str]:
    return {mechanism.name for mechanism in (plan.mechanism, *plan.alternatives)}


def test_the_best_of_three_kinds_of_noise_is_chosen() -> None:
    one = dp.plan(epsilon=1, delta=1e-8, keys=50, max_groups=1)
    assert one.mechanism.name == "known-laplace"
    assert one.mechanism.noise_std == pytest.approx(1.357, abs=1e-3)
    assert min(other.noise_std for other in one.alternatives) == pytest.approx(5.1, abs=0.01)
    many = dp.plan(epsilon=1, delta=1e-8, keys=50, max_groups=30)
    assert many.mechanism.name == "known-groups"
    assert names(one) == names(many) == {"known-groups", "known-discrete", "known-laplace"}
    for plan in (one, many):
        assert plan.mechanism.noise_std <= min(other.noise_std for other in plan.alternatives)
    sums = dp.plan(epsilon=1, delta=1e-8, keys=50, max_groups=2, sums={"x": (0, 1)})
    assert names(sums) == {"known-groups", "known-laplace"}


@pytest.mark.parametrize(
    ("asked", "name"),
    [("laplace", "known-laplace"), ("sparse-gaussian", "known-groups"), ("correlated-gaussian", "known-groups")],
)
def test_the_mechanism_that_is_asked_for_is_honoured_on_a_list(asked: str, name: str) -> None:
    for groups in (1, 30):
        plan = dp.plan(epsilon=1, delta=1e-8, keys=50, max_groups=groups, mechanism=asked)
        assert plan.mechanism.name == name


def test_whole_counts_of_a_list() -> None:
    plan = dp.plan(epsilon=1, delta=1e-8, keys=50, max_groups=30, noise="discrete")
    assert plan.mechanism.name == "known-discrete"
    assert plan.mechanism.lattice_bits == 0
    assert "known-groups" not in names(plan)
    assert plan.mechanism.noise_quantile(0.975) == pytest.approx(1.96 * plan.mechanism.noise_std, abs=1)
    for more in ({"sums": {"x": (0, 1)}}, {"sparse": True}):
        with pytest.raises(dp.InvalidParameter, match="discrete noise on counts alone"):
            dp.plan(epsilon=1, delta=1e-8, keys=50, max_groups=30, noise="discrete", **more)


def test_noise_that_is_asked_for() -> None:
    for mechanism in ("laplace", "sparse-gaussian"):
        plan = dp.plan(epsilon=1, delta=1e-8, keys=5, max_groups=1, noise_std=9.0, mechanism=mechanism)
        assert plan.mechanism.noise_std == pytest.approx(9.0)
        with pytest.raises(dp.Infeasible, match="noise_std of at least"):
            dp.plan(epsilon=1, delta=1e-8, keys=5, max_groups=1, noise_std=1.0, mechanism=mechanism)
    whole = dp.plan(
        epsilon=1, delta=1e-8, keys=5, max_groups=5, noise_std=50.0, noise="discrete", mechanism="sparse-gaussian"
    )
    assert whole.mechanism.noise_std == 50.0
    with pytest.raises(dp.Infeasible, match="discrete noise meets delta"):
        dp.plan(epsilon=1, delta=1e-8, keys=5, noise_std=2.0, noise="discrete", mechanism="sparse-gaussian")
    shared = dp.plan(epsilon=1, delta=1e-8, keys=5, max_groups=1, correlation=0.5)
    assert names(shared) == {"known-groups"}


@pytest.mark.parametrize("mechanism", [KnownLaplace(3, 1, 2.0), KnownDiscrete(3, 2, 2.0)])
def test_every_listed_group_is_released_with_its_own_noise(mechanism: GroupMechanism) -> None:
    counts = np.array([0, 5, LARGEST_COUNT + 9])
    with recorded() as draws:
        kept = mechanism.perturb(counts)
    (draw,) = draws
    assert draw.law == mechanism.count_noise().laws[0]
    assert kept.index.tolist() == [0, 1, 2]
    assert kept.noisy.tolist() == (np.minimum(counts, LARGEST_COUNT) + draw.noise).tolist()
    first, second = (drawn_from(SeededEntropy(seed), mechanism.perturb, counts).noisy.tolist() for seed in (1, 2))
    assert first != second
    with pytest.raises(dp.InvalidParameter, match="all 3 listed groups"):
        mechanism.perturb(counts[:2])
    with recorded(silence):
        assert mechanism.perturb(np.array([1, 2, 3])).noisy.tolist() == [1, 2, 3]


def test_sums_whose_noise_is_too_wide_leave_the_other_mechanisms() -> None:
    extreme: dict[str, Any] = {"epsilon": 1e-3, "keys": 5, "sums": {"x": (0, 1), "y": (0, 1)}}
    weights = {"sum_x": 1e3, "sum_y": 1e-3}
    plan = dp.plan(delta=1e-6, weights=weights, **extreme)
    assert names(plan) == {"known-groups"}
    with pytest.raises(dp.Infeasible, match="less extreme weights"):
        dp.plan(delta=0, weights=weights, **extreme)


def test_nonsense_is_refused() -> None:
    for build in (
        lambda: KnownLaplace(2, 3, 1.0),
        lambda: KnownLaplace(2, 1, 0.0),
        lambda: KnownLaplace(2, 1, 1e30),
        lambda: KnownLaplace(2, 1, 1.0, sums_epsilon=-1.0),
        lambda: KnownDiscrete(0, 1, 1.0),
        lambda: KnownDiscrete(2, 1, -1.0),
        lambda: KnownDiscrete(2, 1, 1e40),
    ):
        with pytest.raises(dp.InvalidParameter):
            build()
    assert not KnownDiscrete(2, 1, 3.0).covers([RowsOfUnit(None, 0, 3)])
    assert "once" in KnownLaplace(1, 1, 1.0).assumption
    assert "3 keys" in KnownLaplace(3, 1, 1.0).assumption
