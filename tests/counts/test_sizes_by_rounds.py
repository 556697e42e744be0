"""What the rounds have told of the selected groups: from the values that decided, for them alone, and what it is worth."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from adaptive_tables import codes_of, counted, rounds, true_counts, zipf
from dphist.engines.histogram import LocalGroups
from dphist.engines.memory import MemoryPairs
from dphist.errors import EngineFailure
from dphist.mechanisms.adaptive import AdaptiveGaussian, calibrate
from dphist.mechanisms.tuning import LATTICE_BITS, ONE
from dphist.mechanisms.weights import accepted
from dphist.noise.testing import SeededEntropy
from dphist.run.counting import count, weigh_groups
from dphist.run.estimates import Mix, Observed, Row, by_counts, combine, estimate, observe
from dphist.run.rounds import select
from dphist.run.sizes import RoundSums, known_columns, regress, round_sums, sizes_by_rounds
from word_sources import words_from

Floats = NDArray[np.float64]


def released(
    seed: int, epsilon: float = 1.0, pairs: MemoryPairs | None = None
) -> tuple[AdaptiveGaussian, LocalGroups, MemoryPairs]:
    mechanism, pairs = calibrate(epsilon, 1e-8), pairs or zipf(8_000, 2_000, 12, seed)
    with words_from(SeededEntropy(seed)):
        selected = select(mechanism, pairs)
    assert isinstance(selected, LocalGroups)
    return mechanism, selected, pairs


def test_the_sums_are_those_that_decided() -> None:
    """With the noise that decided, for the weights that were asked for: nothing is drawn again."""
    mechanism, selected, pairs = released(3)
    eligible = np.flatnonzero(pairs.eligible())
    with words_from(SeededEntropy(3)):
        published = list(rounds(mechanism, pairs, eligible))
    places = np.searchsorted(eligible, selected.codes)
    told = round_sums(mechanism, selected.columns)
    assert told is not None
    for number, one in enumerate(published):
        assert told.sums[number].tolist() == (one.noisy[places] / 2**LATTICE_BITS).tolist()
        assert told.weights[number].tolist() == (one.weights[places] / ONE).tolist()
    assert told.stds.tolist() == list(mechanism.round_stds)


def test_only_selected_groups_tell_anything() -> None:
    """Of a group that is not selected no number leaves the rounds, nor how many such groups there are: weights and classes are
    those of the selected groups alone, whatever else was eligible."""
    mechanism, selected, pairs = released(5)
    assert set(selected.columns) == set(known_columns(mechanism)) == {"total_1", "total_2", "total_3", "total_4"}
    totals = [selected.columns[name] for name in known_columns(mechanism)]
    assert accepted(mechanism, totals).all()
    assert 100 < len(totals[0]) < pairs.eligible().sum()
    assert mechanism.counts is not None
    weigh = weigh_groups(mechanism, mechanism.counts)
    whole = weigh(selected.columns)
    alone = {name: column[:1] for name, column in selected.columns.items()}
    assert weigh(alone).columns["weight"].tolist() == [ONE]  # the tenth percentile of the groups it is given
    assert whole.columns["norm"].tolist() == (whole.columns["weight"] ** 2).tolist()


def test_sums_that_are_no_multiples_of_their_shares_are_refused() -> None:
    mechanism, selected, _ = released(1)
    broken = {**selected.columns, "total_2": selected.columns["total_2"] + 1}
    with pytest.raises(EngineFailure, match="multiples of their shares"):
        round_sums(mechanism, broken)


def test_rounds_in_which_a_group_is_not_asked_for_say_nothing() -> None:
    """Noise of a round after the one that accepted a group does not move its size."""
    told = RoundSums(np.array([[10.0], [99.0]]), np.array([[1.0], [0.0]]), np.ones(2), np.array([0.25, 0.75]))
    assert told.sizes.tolist() == [10.0]
    half = replace(told, weights=np.array([[1.0], [0.5]]), sums=np.array([[10.0], [6.0]]))
    assert half.sizes == pytest.approx([(0.25 * 10 + 0.75 * 6) / (0.25 + 0.375)])


def test_counts_are_more_precise_with_the_rounds_and_covered() -> None:
    """By a third and more, with intervals that hold in each third of sizes; also of groups that were accepted early."""
    errors: dict[bool, list[Floats]] = {True: [], False: []}
    covered, early = [], []
    for seed in range(6):
        mechanism, selected, pairs = released(seed)
        assert mechanism.counts is not None
        with words_from(SeededEntropy(100 + seed)):
            noisy = counted(mechanism, pairs, selected)
        true = true_counts(pairs)[codes_of(selected)]
        for used in (True, False):
            found = estimate(mechanism.counts, noisy if used else replace(noisy, rounds=None), mechanism.tuning)
            errors[used].append(np.abs(found.counts - true) / true)
            if used:
                inside = np.abs(found.counts - true) <= 1.959964 * found.std_errors
                covered.append([inside[part].mean() for part in np.array_split(np.argsort(true), 3)])
                totals = [selected.columns[name] for name in known_columns(mechanism)]
                early.append(inside[accepted(mechanism, totals[:3])])
    with_rounds, without = (float(np.median(np.concatenate(errors[used]))) for used in (True, False))
    assert with_rounds < 0.67 * without
    assert np.mean(covered, axis=0).min() >= 0.93
    assert np.concatenate(early).mean() >= 0.93


def test_a_regression_on_selected_groups_knows_how_lucky_they_were() -> None:
    """Sizes that fall like a power law, seen in noise and kept above a threshold, are too large on average; numbers are not."""
    rng = np.random.default_rng(2)
    true = 20 * (1 - rng.random(60_000)) ** (-1 / 1.5)
    seen = 0.7 * true + rng.normal(0, 6, len(true))
    kept = seen > 42
    true, sizes = true[kept], seen[kept]
    scaled = true + rng.normal(0, 12, len(true))
    found = regress(sizes, np.full(len(sizes), 36.0), scaled, np.full(len(sizes), 144.0))
    smallest = sizes < np.quantile(sizes, 0.3)
    assert (sizes / 0.7)[smallest].mean() > 1.04 * true[smallest].mean()
    assert found.number[smallest].mean() == pytest.approx(true[smallest].mean(), rel=0.02)
    off = (found.number - true) / np.sqrt(found.variance)
    assert 0.5 < np.std(off[smallest]) < 1.2


@pytest.mark.parametrize("rows", [1, 2])
def test_the_combination_is_the_best_linear_one(rows: int) -> None:
    """Against dense generalised least squares with a flat size, group by group."""
    rng = np.random.default_rng(rows)
    groups, classes = 5, 4
    p, spread, noise = (rng.uniform(0.1, 1.0, (groups, classes)) for _ in range(3))
    seen = Observed(
        np.ones(groups),
        np.ones(groups),
        np.ones(groups),
        rng.normal(5, 2, (groups, classes)),
        noise,
        np.ones(classes),
        3.3,
    )
    others = [
        Row(rng.normal(9, 2, groups), rng.uniform(0.1, 1, groups), rng.uniform(0.2, 1, (groups, classes)))
        for _ in range(rows)
    ]
    found = combine(seen, Mix(p, 0 * p), np.ones(groups), spread, 2, others)
    for g in range(groups):
        design = np.vstack([np.eye(classes), *(row.loads[g] for row in others)])
        values = np.array([*seen.by_class[g], *(row.values[g] for row in others)])
        inverse = np.diag(1 / np.array([*noise[g], *(row.variance[g] for row in others)]))
        of_e = np.diag(1 / spread[g])
        flat = of_e - np.outer(of_e @ p[g], of_e @ p[g]) / (p[g] @ of_e @ p[g])
        precision = design.T @ inverse @ design + flat
        number = np.linalg.solve(precision, design.T @ inverse @ values)
        covariance = np.linalg.inv(precision)
        assert found.by_class[g] == pytest.approx(number, rel=1e-9)
        assert found.counts[g] == pytest.approx(number.sum(), rel=1e-9)
        assert found.variance[g] == pytest.approx(covariance.sum(), rel=1e-9)
        assert found.heavy_variance[g] == pytest.approx(covariance[2:, 2:].sum(), rel=1e-9)
        assert found.sizes[g] == pytest.approx(max((p[g] @ of_e @ number) / (p[g] @ of_e @ p[g]), 1.0), rel=1e-9)


def test_where_rounds_and_counts_disagree_intervals_are_wider() -> None:
    """Thirty groups of three hundred have other units than their neighbours of the same weight."""
    light = [(unit, unit % 270) for unit in range(27_000)]
    heavy = [(27_000 + unit, group) for unit in range(1200) for group in range(270, 300)]
    unit, group = np.array(light + heavy, np.int32).T
    pairs = MemoryPairs.of_rows(unit.copy(), group.copy(), 28_200, 300)
    further = 0
    for seed in range(3):
        mechanism, selected, _ = released(seed, 1.0, pairs)
        noise, tuning = mechanism.counts, mechanism.tuning
        with words_from(SeededEntropy(8 + seed)):
            noisy = counted(mechanism, pairs, selected)
        assert noise is not None
        assert noisy.rounds is not None
        seen = observe(noise, noisy)
        sized = sizes_by_rounds(noisy.rounds, seen.scaled, seen.scaled_variance)
        both, alone = (by_counts(noisy, seen, tuning, one) for one in (sized, None))
        found = estimate(noise, noisy, tuning)
        own, other = (tuning.model_error**2 * one.variance for one in (both, alone))
        apart = (both.counts - alone.counts) ** 2
        assert np.all(apart <= found.std_errors**2 + np.maximum(other - own, 0.0))
        further += int(np.count_nonzero(apart > np.maximum(own, other)))
    assert further > 5


def test_few_groups_are_counted_by_their_counts() -> None:
    """A dozen numbers say nothing about what the sums of rounds mean."""
    pairs = zipf(8_000, 11, 3, 1)
    mechanism, selected, _ = released(2, 1.0, pairs)
    with words_from(SeededEntropy(1)):
        groups, counting = count(mechanism, pairs, selected)
    assert isinstance(groups, LocalGroups)
    noisy = counting.noisy_counts((), groups.columns)
    assert noisy.rounds is not None
    assert 3 <= len(noisy.weights) < 12
    assert mechanism.counts is not None
    with_rounds = estimate(mechanism.counts, noisy, mechanism.tuning)
    assert (
        with_rounds.counts.tolist()
        == estimate(mechanism.counts, replace(noisy, rounds=None), mechanism.tuning).counts.tolist()
    )
