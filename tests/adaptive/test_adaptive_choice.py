"""The choice of law from a noisy histogram of degrees."""

from typing import Any

import numpy as np
import pytest

import dphist as dp
from dphist.mechanisms import GroupMechanism, LaplaceThreshold, SparseGaussian
from dphist.mechanisms.tuning import Tuning
from dphist.noise.testing import SeededEntropy
from dphist.run.choice import DEGREE_CENTRES, DEGREE_EDGES, gain, most_releases, noisy_degrees
from word_sources import words_from


def branches() -> list[GroupMechanism]:
    return list(dp.plan(epsilon=1, delta=1e-8).branches)


def test_a_default_plan_has_four_branches() -> None:
    """Rounds with samples of two sizes, elections blind and after a look: each counts all units."""
    assert [(one.name, one.analysis) for one in branches()] == [
        ("adaptive", "rounds"),
        ("adaptive", "rounds, 100 groups a unit"),
        ("voting", "blind"),
        ("voting", "after a look"),
    ]
    assert all(one.counted for one in branches())


@pytest.mark.parametrize(("degree", "expected"), [(0, "voting"), (6, "adaptive"), (15, "adaptive")])
def test_light_units_vote_and_heavy_ones_take_rounds(degree: int, expected: str) -> None:
    degrees = np.zeros(len(DEGREE_EDGES))
    degrees[degree] = 10_000
    assert most_releases(branches(), degrees).name == expected


def test_without_information_the_first_is_taken() -> None:
    assert most_releases(branches(), np.zeros(len(DEGREE_EDGES))).name == "adaptive"


def test_plain_mechanisms_are_compared_by_what_they_count_over_their_threshold() -> None:
    one, ten = (dp.plan(epsilon=1, delta=1e-8, max_groups=c).mechanism for c in (1, 10))
    assert isinstance(one, LaplaceThreshold | SparseGaussian)
    assert isinstance(ten, LaplaceThreshold | SparseGaussian)
    degrees = np.zeros(len(DEGREE_EDGES))
    degrees[0] = 100
    assert one.predicted_releases(degrees, DEGREE_CENTRES) == pytest.approx(100 / one.count_released_with(0.5))
    degrees[9] = 1000
    assert ten.predicted_releases(degrees, DEGREE_CENTRES) == pytest.approx(10_100 / ten.count_released_with(0.5))


def test_degrees_get_laplace_noise_and_lose_what_is_lost_in_it() -> None:
    exact = np.zeros(len(DEGREE_EDGES), np.int64)
    exact[3] = 100_000
    draws = []
    with words_from(SeededEntropy(1)):
        for _ in range(300):
            draws.append(noisy_degrees(exact, 0.02))
    values = np.array(draws)
    assert np.std(values[:, 3]) == pytest.approx(50 * np.sqrt(2), rel=0.25)
    assert np.mean(values[:, 5] == 0) > 0.9
    assert np.all((values == 0) | (values >= 3 * 50 * np.sqrt(2) * 0.99))


def test_an_election_must_gain_less_where_all_counts_are_precise() -> None:
    def gains(epsilon: float, **options: Any) -> list[float]:
        return [gain(one) for one in dp.plan(epsilon=epsilon, delta=1e-8, **options).branches]

    asked = Tuning().election_gain
    assert gains(1) == gains(10) == [1.0, 1.0, asked, asked]
    assert all(1 < one < asked for one in gains(30)[2:])
    assert gains(1, keys_only=True) == [1.0] * 4
