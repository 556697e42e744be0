"""The election as a mechanism: its profile, its costs, what it draws and what it tells."""

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dphist.errors import Infeasible, InvalidParameter
from dphist.ledger.accountant import price
from dphist.mechanisms.base import epsilon_at
from dphist.mechanisms.surcharge import SAMPLER_ERROR, sampler_surcharge
from dphist.mechanisms.tuning import LATTICE_BITS
from dphist.mechanisms.voting import MOST_SHARES, Voting, calibrate
from dphist.noise import DiscreteLaplace, sampler_error
from dphist.noise.testing import SeededEntropy
from dphist.planning.request import Request
from dphist.privacy.composition import mu_of_pure, rho_of_pure
from dphist.privacy.voting import ONE, delta_of
from word_sources import drawn_from

BLIND = calibrate(1.0, 1e-8)
LOOK = calibrate(1.0, 1e-8, look_share=0.1)


def test_golden_sizes() -> None:
    assert (BLIND.capacity, BLIND.count_released_with(0.5), BLIND.threshold) == (25, 19, 18)
    assert BLIND.look_law is None
    assert LOOK.look_epsilon == 0.1
    assert LOOK.vote_epsilon == pytest.approx(0.9)
    assert LOOK.look_law == DiscreteLaplace(2**LATTICE_BITS / Fraction(0.1))


@given(st.floats(0.05, 40), st.floats(1e-12, 0.9), st.sampled_from([0.0, 0.1, 0.5]), st.integers(1, 9))
def test_a_calibrated_election_meets_its_budget(epsilon: float, delta: float, share: float, low: int) -> None:
    mechanism = calibrate(epsilon, delta, look_share=share, low_threshold=low)
    assert delta * 0.999 < mechanism.delta(epsilon) <= delta
    assert mechanism.release_probability(mechanism.capacity) >= 0.999
    assert mechanism.release_probability(low - 1) == 0
    assert mechanism.delta_infinity() <= delta


def test_the_look_is_paid_for() -> None:
    rule = LOOK.probabilities
    assert LOOK.delta(1.0) >= delta_of(rule, 0.9)
    assert LOOK.delta(0.9) > LOOK.delta(1.0)  # the election alone has delta 1e-8 there
    assert LOOK.delta(0.9) >= delta_of(rule, 0.8)
    assert LOOK.delta(1.0) - delta_of(rule, LOOK.vote_epsilon) >= sampler_surcharge(1.0, MOST_SHARES) * 0.999
    assert LOOK.delta(0.05) >= delta_of(rule, 0.0) + 0.02  # (e^0.1 - e^0.05)/(1 + e^0.1) = 0.0256
    assert Voting(1.0, 0.9, 1, 30.0).delta(0.0) == 1.0
    grid = [LOOK.delta(epsilon) for epsilon in np.linspace(0, 2, 41)]
    assert grid == sorted(grid, reverse=True)
    assert epsilon_at(LOOK, 1e-8) == pytest.approx(1.0)


def test_the_sampler_of_the_look_is_exact_enough() -> None:
    for share in (0.01, 0.1, 0.5):
        law = calibrate(1.0, 1e-8, look_share=share).look_law
        assert law is not None
        assert 19 * sampler_error(law) <= SAMPLER_ERROR


def test_costs() -> None:
    cost = price(LOOK.event(1.0), 2.0)
    assert LOOK.delta(math.nextafter(1.0, 0)) < cost.delta < LOOK.delta(1.0) + 1e-15
    assert price(calibrate(0.1, 1e-8).event(0.1), 2.0).delta <= 1e-8  # as a decimal, too
    assert cost.rho == pytest.approx(rho_of_pure(0.1) + rho_of_pure(LOOK.vote_epsilon))
    assert cost.mu == pytest.approx(np.hypot(mu_of_pure(0.1), mu_of_pure(LOOK.vote_epsilon)))
    assert cost.rho_delta == cost.mu_delta
    expected = delta_of(LOOK.probabilities, LOOK.vote_epsilon) + sampler_surcharge(2.0, MOST_SHARES)
    assert cost.mu_delta == math.nextafter(expected, 1)
    tiny = Voting(0.9, 1e-25, 100, 0.1)  # so that the sampler's error shows
    assert price(tiny.event(1.0)).rho_delta >= sampler_surcharge(30.0, MOST_SHARES) > 1e-16
    assert price(BLIND.event(1.0)).rho == pytest.approx(rho_of_pure(1.0))


def test_coins_have_the_rule_as_their_chance() -> None:
    """alpha < 1e-8: 6 standard deviations of a binomial of 40,000."""
    mechanism, n = calibrate(1.0, 0.1, low_threshold=2), 40_000
    for votes in range(8):
        kept = drawn_from(SeededEntropy(votes), mechanism.perturb, np.full(n, votes))
        chance = mechanism.release_probability(votes)
        assert abs(len(kept.index) / n - chance) <= 6 * (chance * (1 - chance) / n) ** 0.5
        assert not kept.counts.any()
    assert [mechanism.release_probability(votes) for votes in (0, 1)] == [0, 0]
    assert mechanism.release_probability(2) == pytest.approx(0.1)


def test_what_is_told() -> None:
    words = dict(LOOK.facts())
    assert "at most 28" in words["election"]
    assert "never published" in words["look"]
    assert "look" not in dict(BLIND.facts())
    assert "fewer than 4" in dict(calibrate(1.0, 1e-8, low_threshold=4).facts())[""]
    assert LOOK.budget_split() == pytest.approx({"look": 0.1, "election": 0.9})
    assert BLIND.budget_split() is None
    assert (BLIND.rounds, LOOK.rounds) == (1, 2)
    assert "one vote" in BLIND.assumption
    degrees, centres = np.array([10.0, 28.0]), np.array([1.0, 9.0])
    assert BLIND.predicted_releases(degrees, centres) == 1.3 * 38 / 19
    assert LOOK.predicted_releases(degrees, centres) == pytest.approx(1.3 * (10 + 28 * 9**0.15) / 21)
    budget: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-8}
    assert Voting.strategies.isdisjoint(Request(**budget, mechanism="adaptive").strategies)
    assert len(list(Voting.for_request(Request(**budget, mechanism="voting", keys_only=True)))) == 1
    blind, look = (build() for build in Voting.for_request(Request(**budget, keys_only=True)))
    assert (blind.analysis, look.analysis) == ("blind", "after a look")
    assert [name for name, _ in blind.steps()] == ["Election", "Coins"]
    assert [name for name, _ in look.steps()] == ["Look", "Election", "Coins"]
    assert BLIND.release_probability(10**9) == BLIND.release_probability(25) < 1


def test_stored_and_read_back() -> None:
    for mechanism in (BLIND, LOOK, Voting(0.5, 1e-5, 7, 0.25, 3)):
        again = Voting.from_data(mechanism.to_data())
        assert again == mechanism
        assert again.probabilities == mechanism.probabilities


def test_wrong_parameters_are_refused() -> None:
    for wrong in (
        (0.0, 0.1, 1),
        (1.0, 0.0, 1),
        (1.0, 0.1, 0),
        (1.0, 0.1, 1, -1.0),
        (1.0, 0.1, 5, 0.0, 0),
        (1.0, 0.1, 2, 0.0, 3),
    ):
        with pytest.raises(InvalidParameter):
            Voting(*wrong)
    with pytest.raises(InvalidParameter):
        Voting(1.0, 0.1, 5, 1e-12)  # noise that cannot be drawn
    for share in (-0.1, 1.0):
        with pytest.raises(InvalidParameter, match="share"):
            calibrate(1.0, 1e-8, look_share=share)
    with pytest.raises(Infeasible, match="sampler"):
        calibrate(1.0, 1e-33, look_share=0.1)
    assert calibrate(1.0, 1e-8, capacity=3).capacity == 3
    assert Voting(1.0, 0.1, 5).probabilities[-1] == ONE
