"""What is accounted is never below what is true: by exact numbers, where a float would hide the difference."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.special import log_ndtr, ndtr

import dphist as dp
from dphist.ledger.accountant import price
from dphist.mechanisms import (
    ContinualCounts,
    CorrelatedGaussian,
    DiscreteGaussianThreshold,
    KnownGroups,
    LaplaceThreshold,
    SparseGaussian,
    TruncatedLaplace,
    adaptive,
)
from dphist.mechanisms.adaptive import AdaptiveGaussian
from dphist.mechanisms.base import GroupMechanism
from dphist.mechanisms.continual import LARGEST_RUNNING_COUNT
from dphist.mechanisms.counts import CountNoise
from dphist.mechanisms.surcharge import round_up, sampler_surcharge
from dphist.planning.plan import candidates
from dphist.planning.request import Request
from dphist.privacy import correlated_gaussian, filters, sparse_gaussian, weaker
from dphist.privacy.composition import PrivacyCost, of_declared_rho
from dphist.privacy.gaussian import delta_gaussian, raise_for_rounding


def test_what_is_accounted_is_rounded_up() -> None:
    for value in (Fraction(1, 3), Fraction(2, 3), Fraction(1, 10), Fraction(7, 9)):
        above = Fraction(round_up(value))
        assert value <= above < value * (1 + Fraction(1, 2**50))
    for groups in range(1, 40):
        assert Fraction(DiscreteGaussianThreshold(groups, 3.3, 50.0).rho) >= groups / (2 * Fraction(3.3) ** 2)
    assert raise_for_rounding(0.1) > 0.1
    assert raise_for_rounding(1.0) == 1.0
    for weights in ([0.1], [0.1, 0.7], [1 / 3, 0.3, 5.0]):
        plan = dp.plan(
            epsilon=1,
            delta=1e-6,
            max_groups=3,
            mechanism="laplace",
            sums={f"c{i}": (0, 1 + i) for i in range(len(weights))},
            weights={f"sum_c{i}": weight for i, weight in enumerate(weights)},
        )
        assert plan.mechanism.covers(plan.request.measures)


def test_a_coarse_lattice_is_paid_for() -> None:
    """On steps of 1/4 the best common shift is no step; from the definition, over all shifts that are."""
    mechanism = CorrelatedGaussian(7, 3, 4.0, 0.35, threshold=40.0, lattice_bits=2)
    steps = np.arange(-8, 9) / 4
    worst = max(min(p * (1 - b) ** 2 + (7 - p) * b**2 + b**2 / 0.35 for b in steps.tolist()) for p in (1, 2, 3))
    free = max(p - p * p / (7 + 1 / 0.35) for p in (1, 2, 3))
    assert worst > free * 1.001
    mu = math.sqrt(worst) / 4.0
    assert price(mechanism.event(1.0)).mu >= mu
    assert mechanism.delta(0.1) >= float(delta_gaussian(mu, 0.1))
    assert mechanism.delta_noise(0.1) >= float(delta_gaussian(mu, 0.1))


def test_samplers_of_all_listed_groups_count() -> None:
    quiet = KnownGroups(10**6, 1, 1e9, 0.001)
    assert quiet.delta(20.0) >= sampler_surcharge(20.0, 10**6)


def test_the_samplers_of_everything_a_unit_moves_count() -> None:
    """Four rounds of 300 groups, a bucket, and two counts and sixteen sums in each of 2^31 selected groups."""
    quiet = AdaptiveGaussian((1e6,) * 4, 2.0**32, CountNoise("gaussian", 1e6, 1e6, 0.5))
    assert quiet.delta(20.0) >= sampler_surcharge(20.0, 4 * 300 + 1 + 18 * 2**31)


def test_the_samplers_of_every_round_count_for_keys_alone() -> None:
    """Four rounds of 300 groups, and nothing else."""
    quiet = AdaptiveGaussian((1e6,) * 4, 2.0**32, None)
    assert quiet.delta(20.0) >= sampler_surcharge(20.0, 4 * 300)


def test_keys_alone_meet_their_budget() -> None:
    for epsilon, delta in ((1.0, 1e-8), (0.1, 1e-12), (8.0, 1e-5)):
        assert adaptive.calibrate(epsilon, delta, keys_only=True).delta(epsilon) <= delta


def test_truncated_noise_costs_every_bar() -> None:
    """Three bars: the chance that any of three outermost atoms shows; q = 3 has the atoms 1, x, x, 1."""
    mechanism = TruncatedLaplace(Fraction(1, 4), 3, 3)
    x = math.exp(0.25)
    shown = 1 - (1 - 1 / (2 + 2 * x)) ** 3
    assert mechanism.delta(3.0) == pytest.approx(shown, rel=1e-9)
    assert mechanism.delta(3.0) >= shown
    assert price(mechanism.event(1.0)).mu_delta >= shown
    assert price(mechanism.event(1.0)).mu_delta == pytest.approx(shown, rel=1e-9)


def test_calibration_is_checked_with_the_forward_map(monkeypatch: pytest.MonkeyPatch) -> None:
    """A calibration that misses its target is an error here, whatever the mistake was."""
    request = Request(epsilon=1.0, delta=1e-6, max_groups=3)

    def careless(*_: object) -> list[object]:
        return [lambda: SparseGaussian(max_groups=3, noise_std=1.0, threshold=5.0)]

    monkeypatch.setattr(SparseGaussian, "for_request", careless)
    with pytest.raises(AssertionError, match="misses its own target"):
        candidates(request)
    monkeypatch.setattr(adaptive, "largest_mu", lambda *_: 3.0)
    with pytest.raises(AssertionError, match="forward map"):
        adaptive.calibrate(1.0, 1e-8)


def test_running_counts_have_headroom() -> None:
    for rounds in (1, 7, 2**20):
        assert ContinualCounts(rounds, 1, 5.0, 50).most_per_round * rounds <= LARGEST_RUNNING_COUNT


@pytest.mark.parametrize("bound", [sparse_gaussian._exact, weaker.f_dp])
@pytest.mark.parametrize("gap", [1700.0, 2600.0])
def test_many_splits_are_bounded_from_above(bound: Callable[..., NDArray[np.float64]], gap: float) -> None:
    """A range of splits of 3,000 groups into shared and new ones has no split above the bound of the range.

    And each split is bounded by what the theorem says, when the unit comes and when it goes.
    """
    std, epsilon = 400.0, 0.1
    keep = float(log_ndtr(gap / std))
    asked = {"epsilon": epsilon, "max_groups": 3000, "log_keep": keep, "per_group": 1 / std**2}
    every = np.arange(1, 3000)
    splits = bound(every, every, **asked)
    mu, log_beta = np.sqrt(every) / std, (3000 - every) * keep
    added = -np.expm1(log_beta) + np.exp(log_beta) * delta_gaussian(mu, epsilon - log_beta)
    assert (splits >= added).all()
    assert (splits >= delta_gaussian(mu, epsilon + log_beta)).all()
    for low, high in ((1, 2999), (1, 40), (700, 1500), (2900, 2999)):
        ranged = float(bound(np.array([low]), np.array([high]), **asked)[0])
        assert ranged >= splits[low - 1 : high].max()


def test_mixed_splits_have_the_sums_too_and_deltas_add_up() -> None:
    """One shared and one new group, by f-dp, where that is the worst split; add-the-deltas is never below it."""
    asked: dict[str, Any] = {"max_groups": 2, "noise_std": 4.0, "gap": 5.2, "sums_sensitivity": 0.23}
    beta = float(ndtr(1.3))
    one = float(delta_gaussian(math.sqrt(1 / 16 + 0.23**2), 0.01))
    found = sparse_gaussian.delta(0.01, analysis="f-dp", **asked)
    both, infinity = float(delta_gaussian(math.sqrt(2 / 16 + 2 * 0.23**2), 0.01)), 1 - beta**2
    assert found >= 1 - beta + beta * one > max(both, infinity) * 1.1
    assert sparse_gaussian.delta(0.01, analysis="add-the-deltas", **asked) >= both + infinity


def test_a_split_between_the_pure_cases_can_be_the_worst() -> None:
    """One new counter, while the others move as if none were: more than the noise alone and than two new counters."""
    q, mu, epsilon = float(ndtr(1.3)), 0.5, 0.01
    mixed = 1 - q + q * float(delta_gaussian(mu, epsilon - math.log(q)))
    assert mixed > 1.1 * max(float(delta_gaussian(mu, epsilon)), 1 - q**2)
    common = correlated_gaussian.CommonNoise(0.0, 1.3, 2)
    assert correlated_gaussian.tight_bound(epsilon, lambda new: np.where(new < 2, mu, 0.0), common, 2) >= mixed


def test_a_declared_spend_keeps_its_d() -> None:
    cost = of_declared_rho(0.1, 1e-5, convert_at=1e-6)
    assert cost.rho_delta == 1e-5
    assert cost.delta >= 1.1e-5
    assert cost.mu_delta >= 1.1e-5


def test_limits_are_rounded_down() -> None:
    """And spends up: what fits exactly still fits, and nothing more."""
    for accountant in filters.ACCOUNTANTS:
        limit = filters.limit(accountant, 1.0, 1e-6, 0.3)
        whole = Fraction(1, 10**6) if accountant == "basic" else Fraction(3, 10**7)
        assert Fraction(limit.delta, filters.UNITS) <= whole
        if accountant != "basic":
            noise = filters.delta_of_noise(replace(limit, delta=0), accountant, 1.0)
            assert noise + filters.value(limit.delta) <= 1e-6 * (1 + 1e-12)
    tiny = 1e-70
    spend = filters.amount(PrivacyCost(tiny, tiny, tiny, tiny, tiny, tiny), "gdp")
    assert Fraction(spend.noise, filters.UNITS) >= Fraction(tiny) ** 2
    assert Fraction(spend.delta, filters.UNITS) >= Fraction(repr(tiny))
    assert filters.amount(PrivacyCost(1.0, 0.0, 4.5, 0.0, 3.0, 0.0), "gdp").noise == 9 * filters.UNITS
    for over in (filters.Amount(5, 3), filters.Amount(3, 5), filters.Amount(5, 5)):
        assert not over.within(filters.Amount(4, 4))
    assert filters.Amount(4, 4).within(filters.Amount(4, 4))


def test_fewer_groups_never_cost_more() -> None:
    """The bound on a unit's groups is part of every profile and every cost."""
    made: list[GroupMechanism] = [
        SparseGaussian(6, 16.0, 98.0),
        LaplaceThreshold(6, 4.0, 70.0),
        DiscreteGaussianThreshold(6, 20.0, 150.0),
    ]
    for mechanism in made:
        fewer = mechanism.with_groups(2)
        assert fewer is not None
        assert fewer.delta(0.1) < mechanism.delta(0.1)
        assert price(fewer.event(0.1)).rho < price(mechanism.event(0.1)).rho
        assert price(fewer.event(0.1)).rho_delta < price(mechanism.event(0.1)).rho_delta
