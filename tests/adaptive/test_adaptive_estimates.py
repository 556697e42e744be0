"""Counts, standard errors and intervals, on data where the truth is known. The estimand: all units of a group."""

import numpy as np
import pytest
from adaptive_tables import loose, table, true_counts, zipf

from dphist.mechanisms.adaptive import calibrate
from dphist.mechanisms.adaptive_counting import CAPS, CENTRES, Norms, choose_caps, count
from dphist.mechanisms.adaptive_estimates import Estimates, estimate
from dphist.mechanisms.adaptive_pairs import MemoryPairs, draw_sample
from dphist.mechanisms.adaptive_selection import Selection, select


def released(pairs: MemoryPairs, seed: int) -> tuple[Estimates, np.ndarray[tuple[int], np.dtype[np.int64]]]:
    mechanism = calibrate(1.0, 1e-8)
    priority = np.random.default_rng(seed).random(len(pairs.unit))
    sampled = draw_sample(pairs.unit, pairs.units, mechanism.max_groups, priority)
    chosen = MemoryPairs(pairs.unit, pairs.group, pairs.units, pairs.groups, sampled)
    selection = select(mechanism, chosen)
    return estimate(count(mechanism, chosen, selection)), true_counts(pairs)[selection.index]


@pytest.mark.parametrize(
    ("units", "groups", "degree", "slope"), [(20_000, 5_000, 12, 1.0), (40_000, 800, 4, 0.9), (6_000, 4_000, 50, 0.8)]
)
def test_intervals_cover_the_number_of_all_units(units: int, groups: int, degree: float, slope: float) -> None:
    """95 % intervals cover at least 93 % overall and 90 % in the largest tenth; n is some thousand groups."""
    inside: list[bool] = []
    largest: list[bool] = []
    relative: list[float] = []
    for seed in range(4):
        found, true = released(zipf(units, groups, degree, seed, slope), seed)
        covered = np.abs(found.counts - true) <= 1.959964 * found.std_errors
        inside += covered.tolist()
        largest += covered[true >= np.quantile(true, 0.9)].tolist()
        relative += (np.abs(found.counts - true) / true).tolist()
    slack = 2 * np.sqrt(0.07 * 0.93 / len(inside))
    assert np.mean(inside) >= 0.93 - slack
    assert np.mean(largest) >= 0.90
    assert np.median(relative) < 0.2


def test_noise_alone_would_not_cover() -> None:
    """Why the correction is there: the main counts as they are miss the truth nearly always, in the largest groups."""
    mechanism = calibrate(1.0, 1e-8)
    pairs = zipf(20_000, 5_000, 12, 5)
    noisy = count(mechanism, pairs, select(mechanism, pairs))
    true = true_counts(pairs)[noisy.index]
    a = noisy.weights / 1024
    bare = np.ldexp(noisy.main.astype(float), -16) / a
    covered = np.abs(bare - true) <= 1.959964 * noisy.main_std / a
    assert covered[true >= np.quantile(true, 0.9)].mean() < 0.3


def test_nothing_selected_nothing_counted() -> None:
    mechanism = loose()
    noisy = count(mechanism, table([(0, 0)], 1), Selection(np.zeros(0, np.int64), np.zeros(0)))
    found = estimate(noisy)
    assert len(found.counts) == len(found.std_errors) == 0


def test_one_group_is_enough() -> None:
    mechanism = calibrate(5.0, 1e-3)
    pairs = table([(unit, 0) for unit in range(5000)], 1)
    selection = select(mechanism, pairs)
    found = estimate(count(mechanism, pairs, selection))
    assert found.counts[0] == pytest.approx(5000, rel=0.05)


def test_the_bias_of_a_cap_is_what_it_says() -> None:
    units = np.zeros(len(CENTRES))
    units[12] = units[14] = 10.0  # norms 1 and 2
    norms = Norms(units, units)
    assert norms.bias(2.0) == pytest.approx(0)
    assert norms.bias(1.0) == pytest.approx(1 - (1 + 2**0.5) / 3)
    assert norms.most_bias(1.0) == norms.bias(1.0)
    nothing = Norms(np.zeros(len(CENTRES)), np.zeros(len(CENTRES)))
    assert nothing.bias(1.0) == 0
    weights, sums = np.full(5, 1024), np.full(5, 50.0)
    assert choose_caps(loose(), nothing, weights, sums) == (1.0, 4.0)
    cap, probe = choose_caps(loose(), norms, weights, sums)
    assert cap in CAPS
    assert cap <= probe
