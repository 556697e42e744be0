"""The noise on counts of public keys: its parts, what they cost, how it is stored."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dphist as dp
from dphist.aggregates.count import RowsOfUnit
from dphist.aggregates.total import SumOfUnit
from dphist.errors import InvalidParameter
from dphist.ledger.accountant import price
from dphist.mechanisms.adaptive import AdaptiveGaussian
from dphist.mechanisms.adaptive import calibrate as calibrate_rounds
from dphist.mechanisms.counts import (
    COUNTERS,
    EMPHASES,
    GAUSSIAN_SHARES,
    HISTOGRAM_SHARE,
    LAPLACE_SHARES,
    LARGE_EPSILON,
    LARGE_MU,
    NORM_SHARES,
    CountNoise,
    Emphasis,
    count_share,
    gaussian_counts,
    laplace_counts,
    largeness,
    sum_shift,
)
from dphist.mechanisms.surcharge import sampler_surcharge
from dphist.mechanisms.tuning import Tuning
from dphist.mechanisms.voting import Voting, calibrate
from dphist.privacy.composition import rho_of_pure
from dphist.privacy.voting import delta_of

POSITIVE = st.floats(1e-6, 1e6)
NOISES = st.builds(
    CountNoise, st.sampled_from(["gaussian", "laplace"]), POSITIVE, POSITIVE, st.floats(0.01, 0.99), st.floats(0, 10)
)


@given(NOISES)
def test_stored_and_read_back(noise: CountNoise) -> None:
    """Inside its mechanism: every number, to the last bit."""
    for mechanism in (
        AdaptiveGaussian((1.0,) * 4, 30.0, replace(noise, law="gaussian")),
        Voting(1.0, 0.1, 3, counts=replace(noise, law="laplace")),
    ):
        again = type(mechanism).from_data(mechanism.to_data())
        assert again == mechanism
        assert again.counts == mechanism.counts


@given(NOISES)
def test_parts_cost_what_they_have_together(noise: CountNoise) -> None:
    """Scaled counts and classes share the counts' budget, and never cost more."""
    scaled, classes, unit = (Fraction(x) for x in (noise.scaled_noise, noise.class_noise, noise.unit_noise))
    together = 1 / scaled**noise.power + 1 / classes**noise.power
    assert together <= 1 / unit**noise.power <= together * (1 + Fraction(1, 10**12))
    assert float(1 / scaled**noise.power / together) == pytest.approx(noise.scaled_share)
    shares = noise.shares
    if noise.law == "laplace":
        assert float(noise.pure_epsilon) == pytest.approx(sum(shares.values()))
        exact = 1 / Fraction(noise.histogram_noise) + 1 / scaled + 1 / classes + Fraction(noise.sums_sensitivity)
        assert noise.pure_epsilon == exact
    else:
        assert math.fsum(part**-2 for part in noise.gaussian_parts) == pytest.approx(sum(shares.values()))
        assert len(noise.gaussian_parts) == 3 + (noise.sums_sensitivity > 0)


@given(st.floats(0.01, 40), st.floats(0, 5))
def test_the_epsilon_of_laplace_counts_is_not_exceeded(epsilon: float, sums: float) -> None:
    noise = laplace_counts(epsilon, "balanced", Tuning(), sums)
    part = epsilon * count_share(LAPLACE_SHARES["balanced"], largeness(epsilon, LARGE_EPSILON), sums)
    assert Fraction(part) * (1 - Fraction(1, 10**9)) <= noise.pure_epsilon <= Fraction(part) < Fraction(epsilon)
    assert float(1 / Fraction(noise.histogram_noise)) == pytest.approx(HISTOGRAM_SHARE * part)
    assert noise.sums_sensitivity * noise.unit_noise == pytest.approx(sums)


@given(st.floats(0.01, 10), st.sampled_from(EMPHASES), st.floats(0, 5))
def test_the_shares_of_gaussian_counts_are_what_is_asked_for(mu: float, emphasis: Emphasis, sums: float) -> None:
    noise, left = gaussian_counts(mu, emphasis, Tuning(), sums)
    spent = math.fsum(part**-2 for part in noise.gaussian_parts)
    assert spent == pytest.approx(mu**2 * (1 - left))
    share = count_share(GAUSSIAN_SHARES[emphasis], largeness(mu, LARGE_MU), sums)
    assert left == pytest.approx(1 - share - NORM_SHARES[emphasis])
    assert left > 0.3


COLUMNS: dict[str, Any] = {"sums": {"x": (0, 3)}, "means": {"y": (-1, 5)}, "rows": 7}


@pytest.mark.parametrize("mechanism", ["adaptive", "voting"])
def test_aggregates_are_covered_exactly(mechanism: str) -> None:
    """Whatever the weights are; and less than that is not covered."""
    for weights in ({"sum_x": 0.1, "rows": 1 / 3}, {"mean_y": 0.7}, {"rows": 0.05, "sum_x": 3.0}):
        plan = dp.plan(epsilon=1, delta=1e-6, mechanism=mechanism, weights=weights, **COLUMNS)
        of, aggregates = plan.mechanism, plan.request.measures
        assert isinstance(of, AdaptiveGaussian | Voting)
        assert of.counts is not None
        assert of.covers(aggregates)
        less = replace(of.counts, sums_sensitivity=of.counts.sums_sensitivity * (1 - 1e-13))
        assert not replace(of, counts=less).covers(aggregates)
        assert not replace(of, counts=replace(of.counts, sums_sensitivity=0.0)).covers(aggregates)
        assert replace(of, counts=replace(of.counts, sums_sensitivity=0.0)).covers(())


@settings(max_examples=50, deadline=None)
@given(
    st.floats(0.05, 10), st.floats(-12, -0.3), st.sampled_from([0.0, 0.1]), st.sampled_from(EMPHASES), st.floats(0, 3)
)  # fmt: skip
def test_an_election_with_counts_meets_its_budget(
    epsilon: float, log_delta: float, look: float, part: Emphasis, sums: float
) -> None:
    """And one step tighter does not: the votes have all that look and counts leave."""
    delta = 10**log_delta
    made = calibrate(epsilon, delta, look_share=look, emphasis=part, sums_budget=sums)
    assert made.counts is not None
    assert delta * 0.999 < made.delta(epsilon) <= delta
    assert made.pure_epsilon == Fraction(made.look_epsilon) + made.counts.pure_epsilon
    assert made.pure_epsilon + Fraction(made.vote_epsilon) <= min(epsilon, 50)
    if delta * math.exp(epsilon) > 0.1:
        return  # two votes are enough whatever epsilon is
    tighter = replace(made, vote_epsilon=made.vote_epsilon * (1 + 1e-3))
    assert tighter.delta(epsilon) > delta
    for change in (
        {"unit_noise": made.counts.unit_noise * 0.9},
        {"histogram_noise": made.counts.histogram_noise * 0.9},
    ):
        assert replace(made, counts=replace(made.counts, **change)).delta(epsilon) > delta  # type: ignore[arg-type]


def test_the_counts_of_an_election_are_charged() -> None:
    made = calibrate(1.0, 1e-8, emphasis="balanced")
    assert made.counts is not None
    pure = float(made.counts.pure_epsilon)
    keys = calibrate(1 - pure, 1e-8)
    assert made.vote_epsilon == pytest.approx(1 - pure, rel=1e-9)
    assert price(made.event(1.0)).rho == pytest.approx(rho_of_pure(pure) + rho_of_pure(made.vote_epsilon))
    assert price(made.event(1.0)).rho > price(keys.event(1 - pure)).rho
    assert made.delta(1.0) >= delta_of(made.probabilities, 1.0 - pure)
    assert made.delta(0.1) >= -math.expm1(0.1 - pure) / (1 + math.exp(-pure))  # counts alone have that much
    assert made.delta(1.0) - delta_of(made.probabilities, made.vote_epsilon) >= sampler_surcharge(1.0, COUNTERS) * 0.999
    tiny = replace(made, vote_delta=1e-25)
    assert price(tiny.event(1.0)).rho_delta >= sampler_surcharge(30.0, COUNTERS)
    split = made.budget_split()
    assert split is not None
    assert split == pytest.approx({"election": 1 - pure, "histogram": 0.2 * pure, "counts": 0.8 * pure}, rel=1e-6)


@pytest.mark.parametrize("emphasis", EMPHASES)
def test_an_emphasis_is_a_share_of_the_budget(emphasis: Emphasis) -> None:
    rounds = calibrate_rounds(1.0, 1e-8, emphasis=emphasis).budget_split()
    assert rounds["counts"] == pytest.approx(GAUSSIAN_SHARES[emphasis], rel=0.07)
    assert rounds["histogram"] == pytest.approx(NORM_SHARES[emphasis])
    election = dp.plan(epsilon=1, delta=1e-8, mechanism="voting", emphasis=emphasis).mechanism
    split = election.budget_split()
    assert split is not None
    assert split["counts"] + split["histogram"] == pytest.approx(LAPLACE_SHARES[emphasis], rel=0.05)


def test_more_emphasis_on_counts_is_less_noise_and_a_higher_threshold() -> None:
    for mechanism in ("adaptive", "voting"):
        plans = [dp.plan(epsilon=1, delta=1e-8, mechanism=mechanism, emphasis=one).mechanism for one in EMPHASES]
        stds = [plan.noise_std for plan in plans]
        assert stds == sorted(stds, reverse=True)
        needed = [plan.count_released_with(0.5) for plan in plans]
        assert needed == sorted(needed)
        assert len(set(stds)) == len(set(needed)) == 3


def test_what_makes_no_sense_is_refused() -> None:
    good: dict[str, Any] = {"law": "gaussian", "histogram_noise": 1.0, "unit_noise": 1.0, "scaled_share": 0.5}
    for wrong in (
        {"law": "cauchy"},
        {"histogram_noise": 0.0},
        {"unit_noise": math.inf},
        {"scaled_share": 0.0},
        {"scaled_share": 1.0},
        {"sums_sensitivity": -1.0},
    ):
        with pytest.raises(InvalidParameter):
            CountNoise(**{**good, **wrong})
    with pytest.raises(InvalidParameter, match="Laplace noise on counts"):
        Voting(1.0, 0.1, 3, counts=CountNoise(**good))
    assert Voting(1.0, 0.1, 3).noise_std == Voting(1.0, 0.1, 3).sums_sensitivity == 0


def test_sums_are_refined_before_they_are_scaled_down() -> None:
    rows = RowsOfUnit(None, 0.0, 3.0)
    assert sum_shift(rows) == 20 - rows.sensitivity_steps.bit_length()
    assert sum_shift(SumOfUnit("x", 0.0, 1.0)) == 0


def test_what_is_told() -> None:
    for mechanism, words in (
        (calibrate_rounds(1.0, 1e-8), "square root"),
        (calibrate(1.0, 1e-8, emphasis="balanced"), "that number"),
    ):
        assert words in dict(mechanism.facts())["noise"]
        assert [name for name, _ in mechanism.steps()][-1] == "Counts"
    noise = CountNoise("laplace", 1.0, 3.0, 0.5)
    assert noise.unit_std == pytest.approx(3 * math.sqrt(2))
    assert noise.reach(9.0) == 9
    assert replace(noise, law="gaussian").reach(9.0) == 3
