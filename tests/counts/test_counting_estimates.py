"""Counts, standard errors and intervals, on data where the truth is known. The estimand: all units of a group."""

import numpy as np
import pytest

from adaptive_tables import chosen, codes_of, counted, loose, table, true_counts, zipf
from dphist.engines.memory import MemoryPairs, draw_sample
from dphist.mechanisms.adaptive import calibrate
from dphist.mechanisms.tuning import Tuning
from dphist.noise.entropy import allow_test_entropy
from dphist.noise.testing import SeededEntropy
from dphist.selection.counting import CAPS, CENTRES, Norms, choose_caps, norms_from
from dphist.selection.estimates import Estimates, estimate
from dphist.selection.rounds import select

Counts = np.ndarray[tuple[int], np.dtype[np.int64]]


def released(pairs: MemoryPairs, seed: int, epsilon: float = 1.0) -> tuple[Estimates, Counts]:
    mechanism = calibrate(epsilon, 1e-8)
    priority = np.random.default_rng(seed).random(len(pairs.unit))
    sampled = draw_sample(pairs.unit, pairs.units, mechanism.max_groups, priority)
    sample = MemoryPairs(pairs.unit, pairs.group, pairs.units, pairs.groups, sampled)
    with allow_test_entropy():
        entropy = SeededEntropy(seed)
        selection = select(mechanism, sample, entropy)
        counts = counted(mechanism, sample, selection, (), entropy)
    return estimate(counts, mechanism.tuning), true_counts(pairs)[codes_of(selection)]


@pytest.mark.parametrize(
    ("units", "groups", "degree", "slope", "very_heavy", "epsilon", "runs"),
    [
        (20_000, 5_000, 12, 1.0, 0, 1.0, 4),
        (40_000, 800, 4, 0.9, 0, 1.0, 4),
        (6_000, 4_000, 50, 0.8, 0, 1.0, 4),
        (20_000, 4_000, 0.5, 0.8, 60, 1.0, 25),  # units that the histogram of norms cannot see are in most groups
        (20_000, 4_000, 0.5, 0.8, 60, 3.0, 12),
    ],
)
def test_intervals_cover_the_number_of_all_units(
    units: int, groups: int, degree: float, slope: float, very_heavy: int, epsilon: float, runs: int
) -> None:
    """95 % intervals cover at least 93 % overall and 90 % in the largest tenth; n is some thousand groups.

    Seeded, as the error of the histogram of norms is common to all groups of a run.
    """
    inside: list[bool] = []
    largest: list[bool] = []
    relative: list[float] = []
    for seed in range(runs):
        found, true = released(zipf(units, groups, degree, seed, slope, very_heavy), seed, epsilon)
        covered = np.abs(found.counts - true) <= 1.959964 * found.std_errors
        inside += covered.tolist()
        largest += covered[true >= np.quantile(true, 0.9)].tolist()
        relative += (np.abs(found.counts - true) / true).tolist()
    assert len(inside) > 1000
    assert np.mean(inside) >= 0.93
    assert np.mean(largest) >= 0.90
    assert np.median(relative) < 0.2


def test_without_the_doubt_about_the_tail_heavy_units_would_not_be_covered(monkeypatch: pytest.MonkeyPatch) -> None:
    """The test above can fail: standard errors that ignore units the histogram cannot see are too small."""
    monkeypatch.setattr(Norms, "doubt", lambda self, cap: 0.0)
    inside: list[bool] = []
    for seed in range(6):
        found, true = released(zipf(20_000, 4_000, 0.5, seed, 0.8, 60), seed)
        inside += (np.abs(found.counts - true) <= 1.959964 * found.std_errors).tolist()
    assert np.mean(inside) < 0.9


def test_noise_alone_would_not_cover() -> None:
    """Why the correction is there: the main counts as they are miss the truth nearly always, in the largest groups."""
    mechanism = calibrate(1.0, 1e-8)
    pairs = zipf(20_000, 5_000, 12, 5)
    selection = select(mechanism, pairs)
    noisy = counted(mechanism, pairs, selection)
    true = true_counts(pairs)[codes_of(selection)]
    a = noisy.weights / 1024
    bare = np.ldexp(noisy.main.astype(float), -16) / a
    covered = np.abs(bare - true) <= 1.959964 * noisy.stds[0] / a
    assert covered[true >= np.quantile(true, 0.9)].mean() < 0.3


def test_nothing_selected_nothing_counted() -> None:
    mechanism, nothing = loose(), chosen(np.zeros(0, np.int64), np.zeros(0))
    noisy = counted(mechanism, table([(0, 0)], 1), nothing)
    found = estimate(noisy, mechanism.tuning)
    assert len(found.counts) == len(found.std_errors) == 0


def test_one_group_is_enough() -> None:
    mechanism = calibrate(5.0, 1e-3)
    pairs = table([(unit, 0) for unit in range(5000)], 1)
    selection = select(mechanism, pairs)
    found = estimate(counted(mechanism, pairs, selection), mechanism.tuning)
    assert found.counts[0] == pytest.approx(5000, rel=0.05)


def test_what_a_cap_loses_is_what_it_says() -> None:
    units = np.zeros(len(CENTRES))
    units[12] = units[14] = 10.0  # norms 1 and 2
    norms = Norms(units, np.zeros((len(units), len(units))), 13)
    assert norms.total == pytest.approx(30)
    assert norms.lost(2.0) == (0.0, 0.0)
    assert norms.lost(1.0)[0] == 0
    assert norms.lost(1.0)[1] == pytest.approx(10 * (2 - 2**0.5))  # of the tail, above bucket 13
    assert norms.doubt(1.0) == 0
    weights, sums = np.full(5, 1024), np.full(5, 50.0)
    cap, probe = choose_caps(loose(), norms, weights, sums)
    assert cap in CAPS
    assert cap <= probe


def test_the_tail_of_norms_is_weighed_against_its_noise() -> None:
    """Buckets far above the noise stay; in the tail what is expected and what is seen are mixed, and the doubt is told."""
    noisy = np.zeros(len(CENTRES))
    noisy[12], noisy[13], noisy[15] = 5000.0, 2000.0, 60.0
    found = norms_from(noisy, 37.0, 64.0, Tuning())
    assert found.last == 13
    assert found.units[12] == 5000
    assert found.units[14] == pytest.approx(
        1000 * (1 - 1e6 / (1e6 + 37**2)), rel=0.1
    )  # it was expected, but is not there
    assert 30 < found.units[15] < 500
    assert np.all(found.units[np.ldexp(CENTRES, 0) > 90] == 0)  # more than all weights together is impossible
    assert found.doubt(1.0) > found.doubt(16.0) > 0
    nothing = norms_from(np.full(len(CENTRES), -5.0), 37.0, 4.0, Tuning())  # all is noise: no bucket is seen
    assert nothing.total >= 1
    assert np.all(np.isfinite(nothing.units))


def test_totals_make_the_norms_surer() -> None:
    noisy = np.zeros(len(CENTRES))
    noisy[12] = 4000.0
    before = norms_from(noisy, 37.0, 256.0, Tuning())
    heavy = before.total + 3000.0  # the probe counts more than the histogram has
    after = before.updated((1.0, 64.0), np.array([4000.0, heavy]), np.array([50.0**2, 100.0**2]))
    assert after.doubt(16.0) < before.doubt(16.0)
    assert sum(after.lost(16.0)) > sum(before.lost(16.0))
    same = before.updated((1.0,), np.array([1.0]), np.array([1e18]))  # a total that says nothing
    assert same.units == pytest.approx(before.units, abs=1e-3)
