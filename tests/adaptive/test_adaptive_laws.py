"""Every draw of an adaptive release: its law, what it is added to, and that together they cost what the plan says."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import dphist as dp
from adaptive_tables import codes_of, zipf
from dphist.engines.histogram import LocalGroups
from dphist.engines.memory import MemoryPairs
from dphist.ledger.accountant import price
from dphist.mechanisms.adaptive import AdaptiveGaussian
from dphist.mechanisms.tuning import LATTICE_BITS, ONE
from dphist.mechanisms.voting import calibrate as voting_calibrate
from dphist.mechanisms.weights import next_weights
from dphist.noise import DiscreteLaplace, RoundedGaussian
from dphist.planning import Plan, storage
from dphist.privacy.adaptive import Rule, delta_infinity
from dphist.run import choice
from dphist.run.choice import DEGREE_EDGES, decide, noisy_degrees
from dphist.run.rounds import select
from drawn_laws import Draw, Integers, distinct, recorded, silence

BUDGET: dict[str, Any] = {"epsilon": 2.0, "delta": 1e-4, "mechanism": "adaptive"}


def mechanism_of(plan: Plan) -> AdaptiveGaussian:
    assert isinstance(plan.mechanism, AdaptiveGaussian)
    return plan.mechanism


def gaussian(draw: Draw) -> RoundedGaussian:
    assert isinstance(draw.law, RoundedGaussian)
    return draw.law


def test_every_round_noises_every_eligible_group_with_its_own_law() -> None:
    """Also those that were given up or accepted; a noisy sum is the exact one, for weights of the last round, and fresh noise.

    A group is accepted by the first sum that is above the bar of its round, whatever the noise of later rounds.
    """
    plan = dp.plan(**BUDGET)
    mechanism, pairs = mechanism_of(plan), zipf(3000, 500, 5, 1)
    eligible = np.flatnonzero(pairs.eligible())
    lifting = math.ceil(3 * mechanism.threshold) << LATTICE_BITS  # every other group, whether it was given up or not
    lifted = {3: 2, 1: 3, 0: 7}  # in the last round every second group, before it every third, first every seventh

    def noise(position: int, size: int) -> Integers:
        every = lifted.get(position, size + 1)
        lifts = (np.arange(size) % every == every - 1).astype(np.int64)
        falls = (np.arange(size) % 3 == 2).astype(np.int64) * (position == 2)
        return np.asarray(distinct(10 * position, size) + lifting * (lifts - falls))

    with recorded(noise) as draws:
        selected = select(mechanism, pairs)
    assert [gaussian(draw) for draw in draws] == [
        RoundedGaussian(Fraction(std), LATTICE_BITS) for std in mechanism.round_stds
    ]
    assert [len(draw.noise) for draw in draws] == [len(eligible)] * 4
    total, weights = np.zeros(len(eligible), np.int64), np.full(len(eligible), ONE)
    shares, limits = (2, 3, 4, 7), (*mechanism.bars, mechanism.threshold)
    passed, fallen, totals = np.zeros(len(eligible), np.bool_), 0, []
    for number, (share, draw) in enumerate(zip(shares, draws, strict=True)):
        if number:
            weights = np.where(passed, 0, next_weights(mechanism, number, total))
        spread = np.zeros(pairs.groups, np.int64)
        spread[eligible] = weights
        noisy = pairs.weighted_sums(spread)[eligible] + draw.noise
        total = total + share * noisy
        totals.append(total)
        above = total > limits[number] * 2 ** (LATTICE_BITS + 4)
        fallen = int(np.count_nonzero(passed & ~above))
        assert np.count_nonzero(above & ~passed) > 10
        passed |= above
    assert fallen > 10  # accepted, and below the threshold in the end
    assert 0 < passed.sum() < len(eligible)
    assert np.count_nonzero(above & (weights == 0)) > 10
    assert isinstance(selected, LocalGroups)
    assert codes_of(selected).tolist() == eligible[passed].tolist()
    for number, known in enumerate(totals, 1):  # with the noise that decided
        assert selected.columns[f"total_{number}"].tolist() == known[passed].tolist()


def test_a_group_of_one_unit_is_selected_as_rarely_as_is_paid_for() -> None:
    """From the drawn laws: the weighted sum of the rounds' noises lifts the weight that is left above the threshold."""
    mechanism = mechanism_of(dp.plan(**BUDGET))
    with recorded(silence) as draws:
        select(mechanism, zipf(3000, 40, 4, 1))
    stds = tuple(float(gaussian(draw).std) for draw in draws)
    later = Rule((2 / 16, 3 / 16, 4 / 16, 7 / 16), stds, (2.0, 3.0, 4.0), 1.0, 300, 2.0**-LATTICE_BITS)
    rule = replace(later, bars=mechanism.bars)
    alone = delta_infinity(mechanism.threshold, rule)
    assert alone <= mechanism.delta_infinity() <= 0.5e-4
    assert alone == pytest.approx(0.5e-4, rel=1e-3)
    assert delta_infinity(mechanism.threshold, later) == pytest.approx(
        0.94 * 0.5e-4, rel=1e-3
    )  # a fiftieth for each bar


@pytest.mark.parametrize("asked", [{}, {"emphasis": "groups"}], ids=["balanced", "groups"])
def test_a_choice_is_noised_and_paid_for(asked: dict[str, Any]) -> None:
    """Every bucket gets Laplace noise; what that costs is missing from every branch, and is charged."""
    plan = dp.plan(epsilon=1.0, delta=1e-6, total=True, **asked)
    exact: Any = zipf(3000, 40, 4, 1)
    noised: list[Integers] = []

    def spied(degrees: Integers, *others: Any) -> Any:
        noised.append(degrees)
        return noisy_degrees(degrees, *others)

    with recorded() as draws, pytest.MonkeyPatch.context() as patch:
        patch.setattr(choice, "noisy_degrees", spied)
        decided = decide(plan, exact)
    (draw,) = draws
    assert noised[0].tolist() == exact.degree_histogram(DEGREE_EDGES).tolist()  # each unit is in one bucket, once
    assert isinstance(draw.law, DiscreteLaplace)
    assert len(draw.noise) == len(DEGREE_EDGES)
    assert plan.request.total_scale is not None
    pure = 1 / draw.law.scale + 1 / Fraction(plan.request.total_scale)
    assert float(pure) == pytest.approx(0.02 + 0.05)
    assert Fraction(decided.request.mechanism_epsilon) + pure <= 1
    assert decided.request.mechanism_epsilon == plan.request.mechanism_epsilon == pytest.approx(0.93)
    cost = price(plan.event, 1.0)
    for branch in plan.branches:
        own = price(branch.event(plan.request.mechanism_epsilon), 1.0)
        assert branch.delta(plan.request.mechanism_epsilon) <= 1e-6
        assert cost.rho > own.rho
        assert cost.mu > own.mu
        assert cost.mu_delta > own.mu_delta
    (again,) = noisy_with(exact.degree_histogram(DEGREE_EDGES), draw, 0.02)
    assert again


def noisy_with(exact: Integers, draw: Draw, epsilon: float) -> list[bool]:
    """Whether noisy degrees are the exact ones and the noise, where they are not set to 0."""
    with recorded(lambda _, size: draw.noise[:size]):
        noisy = noisy_degrees(exact, epsilon)
    shown = noisy > 0
    assert shown.any()
    return [bool((noisy[shown] == (exact + draw.noise)[shown]).all())]


def test_a_branch_that_is_not_paid_for_is_not_chosen() -> None:
    plan = dp.plan(epsilon=1.0, delta=1e-6)
    weak = voting_calibrate(30.0, 0.1)  # so few votes are enough that every choice falls on it
    light: Any = MemoryPairs.of_rows(np.arange(3000, dtype=np.int32), np.arange(3000, dtype=np.int32) % 40, 3000, 40)
    with pytest.raises(dp.InvalidPlan, match="chosen branch"):
        decide(Plan(plan.request, plan.mechanism, (weak,)), light)
    # Nor is a plan with such a branch accepted, before any record is read.
    with pytest.raises(dp.InvalidPlan, match="a stored plan"):
        storage.check_branches(plan.request, (plan.mechanism, weak), "a stored plan")


def test_aggregates_of_many_weights_are_covered() -> None:
    """The accounted sensitivity is that of the drawn laws, from above and to the last bits, whatever the weights."""
    plan = dp.plan(**BUDGET, sums={"x": (0, 3)}, means={"y": (-1, 5)}, rows=7, weights={"sum_x": 0.1, "rows": 1 / 3})
    mechanism = mechanism_of(plan)
    laws = [noisy.law for noisy in plan.measures]
    stds = [law.std for law in laws if isinstance(law, RoundedGaussian)]
    exact = sum((a.sensitivity_steps / std) ** 2 for a, std in zip(plan.request.measures, stds, strict=True))
    assert exact <= Fraction(mechanism.sums_sensitivity) ** 2 <= exact * (1 + Fraction(1, 2**40))
    assert [aggregate.weight for aggregate in plan.request.aggregates] == [0.1, 1.0, 1 / 3]
