"""Counts, standard errors and intervals, on data where the truth is known. The estimand: all units of a group."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import dphist as dp
from adaptive_tables import chosen, codes_of, counted, draw_sample, true_counts, zipf
from dphist.aggregates.measures import Number
from dphist.aggregates.noisy_sums import Column, one_error
from dphist.engines.memory import MemoryPairs
from dphist.mechanisms import AdaptiveGaussian, GroupMechanism, Voting
from dphist.mechanisms.adaptive import calibrate
from dphist.mechanisms.counts import CountNoise
from dphist.mechanisms.tuning import LATTICE_BITS, ONE, Tuning
from dphist.mechanisms.voting import calibrate as calibrate_election
from dphist.noise.testing import SeededEntropy
from dphist.run.counting import CENTRES, Classes, NoisyCounts, Norms, group_weights, norms_from
from dphist.run.estimates import (
    Mix,
    Observed,
    class_total,
    draw_to_line,
    estimate,
    estimated_columns,
    hidden_units,
    mean_of_heavy,
    measure_spread,
)
from dphist.run.rounds import select
from example_numbers import some
from word_sources import drawn_from

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))
from generated_tables import generated

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
LAWS = pytest.mark.parametrize("law", ["gaussian", "laplace"])


def heavy_and_light(seed: int, fewer: int = 1) -> MemoryPairs:
    """60,000 units in one of 300 groups each, and 3,000 units in 60 of 100 other groups; `fewer` divides all of it."""
    rng = np.random.default_rng(seed)
    units, groups, heavy = 60_000 // fewer, 300 // fewer, 3000 // fewer
    many, others = 60 // fewer, 100 // fewer
    light = np.stack([np.arange(units), rng.integers(0, groups, units)])
    drawn = np.argsort(rng.random((heavy, others)), axis=1)[:, :many]
    rows = np.stack([np.repeat(np.arange(heavy), many) + units, drawn.ravel() + groups])
    unit, group = np.concatenate([light, rows], axis=1).astype(np.int32)
    return MemoryPairs.of_rows(unit.copy(), group.copy(), units + heavy, groups + others)


@dataclass(frozen=True)
class Run:
    """The released groups of one run with their true counts."""

    codes: Integers
    true: Integers
    counts: Floats
    std_errors: Floats

    @property
    def off(self) -> Floats:
        return self.counts - self.true

    @property
    def covered(self) -> NDArray[np.bool_]:
        return np.asarray(np.abs(self.off) <= 1.959964 * self.std_errors)


@cache
def mechanism_of(law: str, epsilon: float, tuning: Tuning) -> GroupMechanism:
    if law == "gaussian":
        return calibrate(epsilon, 1e-8, tuning=tuning)
    return replace(calibrate_election(epsilon, 1e-8, emphasis="balanced"), tuning=tuning)


def released(
    pairs: MemoryPairs, seed: int, epsilon: float = 1.0, law: str = "gaussian", tuning: Tuning | None = None
) -> Run:
    """Rounds and Gaussian counts; or Laplace counts of all groups of 100 units and more, as after an election."""
    mechanism = mechanism_of(law, epsilon, tuning or Tuning())
    if isinstance(mechanism, AdaptiveGaussian):
        priority = np.random.default_rng(seed).random(len(pairs.unit))
        sampled = draw_sample(pairs.unit, pairs.units, mechanism.max_groups, priority)
        pairs = MemoryPairs.of_rows(pairs.unit, pairs.group, pairs.units, pairs.groups, sampled)
        selection: Any = drawn_from(SeededEntropy(seed), select, mechanism, pairs)
    else:
        codes = np.flatnonzero(true_counts(pairs) >= 100)
        selection = chosen(codes, np.zeros(len(codes)))
    noisy = drawn_from(SeededEntropy(1000 + seed), counted, mechanism, pairs, selection, ())
    assert mechanism.counts is not None
    found = estimate(mechanism.counts, noisy, mechanism.tuning)
    codes = codes_of(selection)
    return Run(codes, true_counts(pairs)[codes], found.counts, found.std_errors)


@cache
def released_of_heavy_and_light(law: str, epsilon: float) -> tuple[Run, ...]:
    return tuple(released(heavy_and_light(seed), seed, epsilon, law) for seed in range(6))


def coverage(runs: list[Run], *, third: int | None = None) -> float:
    """Of 95 % intervals; of one third of sizes."""
    inside: list[bool] = []
    for run in runs:
        place = np.argsort(np.argsort(run.true, kind="stable"), kind="stable") * 3 // max(len(run.true), 1)
        inside += run.covered[place == third].tolist() if third is not None else run.covered.tolist()
    return float(np.mean(inside))


def median_error(runs: list[Run]) -> float:
    return float(np.median(np.concatenate([np.abs(run.off) / run.true for run in runs])))


@pytest.mark.parametrize(
    ("law", "build", "epsilon", "runs"),
    [
        ("gaussian", lambda seed: zipf(20_000, 5_000, 12, seed), 1.0, 3),
        pytest.param("gaussian", lambda seed: zipf(40_000, 800, 4, seed, 0.9), 1.0, 4, marks=pytest.mark.long),
        pytest.param("gaussian", lambda seed: zipf(6_000, 4_000, 50, seed, 0.8), 1.0, 4, marks=pytest.mark.long),
        ("laplace", lambda seed: zipf(40_000, 800, 0.5, seed, 0.9), 1.0, 4),
        pytest.param("laplace", lambda seed: zipf(20_000, 800, 4, seed, 0.9), 3.0, 4, marks=pytest.mark.long),
    ],
)
def test_intervals_cover_the_number_of_all_units(
    law: str, build: Callable[[int], MemoryPairs], epsilon: float, runs: int
) -> None:
    """95 % intervals cover at least 93 % overall and 90 % in each third of sizes; n is some hundred groups and more.

    Seeded, as the error of the histogram of norms is common to all groups of a run.
    """
    found = [released(build(seed), seed, epsilon, law) for seed in range(runs)]
    assert sum(len(run.true) for run in found) > 300
    assert coverage(found) >= 0.93
    for third in range(3):
        assert coverage(found, third=third) >= 0.9
    assert median_error(found) < 0.2
    assert np.mean([run.std_errors.mean() for run in found]) < 3 * np.mean([np.abs(run.off).mean() for run in found])


@pytest.mark.long
def test_units_that_the_histogram_cannot_see_are_allowed_for() -> None:
    """Sixty units in very many groups: 90 % are covered, not 95 %. The constant for them is tried in every run, see below."""
    found = [released(zipf(20_000, 4_000, 0.5, seed, 0.8, 60), seed, 3.0) for seed in range(8)]
    assert coverage(found) >= 0.88


@pytest.mark.parametrize(
    ("kind", "epsilon"),
    some(
        [
            ("two or three; 5,000 × 4,000", 1.0),
            ("a few, heavy tail; 5,000 × 4,000", 3.0),
            ("many; 5,000 × 20,000", 1.0),
        ],
        1,
    ),
)
def test_intervals_cover_on_generated_tables(kind: str, epsilon: float) -> None:
    """Three of those that the constants were chosen on, a quarter of their size; heavy units are not like light ones."""
    data = next(one for one in generated(fewer=4) if one.name.startswith(kind))
    pairs = MemoryPairs.of_rows(data.unit, data.group, data.units, data.groups)
    found = [released(pairs, seed, epsilon) for seed in range(4)]
    assert sum(len(run.true) for run in found) > 60
    assert coverage(found) >= 0.93
    assert median_error(found) < 0.3


@LAWS
@pytest.mark.parametrize("epsilon", some([1.0, 3.0], 1))
def test_heavy_and_light_units_in_different_groups_are_covered(law: str, epsilon: float) -> None:
    """The correction for units that are scaled down goes to the groups where they are."""
    runs = released_of_heavy_and_light(law, epsilon)
    for heavy in (False, True):
        parts = [(run, (run.codes >= 300) == heavy) for run in runs]
        assert sum(int(part.sum()) for _, part in parts) > 500
        assert np.mean(np.concatenate([run.covered[part] for run, part in parts])) >= 0.93


@LAWS
@pytest.mark.parametrize("heavy", [False, True], ids=["light", "heavy"])
def test_heavy_and_light_units_are_counted_without_bias(law: str, heavy: bool) -> None:
    """On average over runs, less than half of the stated error; two thirds of it for light groups and after elections."""
    parts = [(run, (run.codes >= 300) == heavy) for run in released_of_heavy_and_light(law, 1.0)]
    bias = np.mean(np.concatenate([run.off[part] for run, part in parts]))
    most = 0.5 if heavy and law == "gaussian" else 0.67
    assert abs(bias) < most * np.mean(np.concatenate([run.std_errors[part] for run, part in parts]))


@LAWS
def test_errors_fall_with_epsilon_until_counts_are_exact(law: str) -> None:
    pairs = zipf(4000, 100, 4, 1)
    runs = [released(pairs, 1, epsilon, law) for epsilon in (1.0, 5.0, 30.0)]
    for less, more in pairwise(runs):
        assert median_error([more]) < median_error([less])
        assert np.median(more.std_errors / more.true) < np.median(less.std_errors / less.true)
    assert median_error(runs[-1:]) < 0.03
    assert np.median(runs[-1].std_errors / runs[-1].true) < 0.05


@LAWS
def test_without_noise_to_speak_of_counts_are_exact(law: str) -> None:
    """One unit at most, in every group, also where heavy and light units differ."""
    noise = CountNoise(law, 1e-5, 1e-5, 0.65)  # type: ignore[arg-type]
    mechanism: GroupMechanism = (
        calibrate(1.0, 1e-8) if law == "gaussian" else calibrate_election(1.0, 1e-8, emphasis="balanced")
    )
    mechanism = replace(mechanism, counts=noise)  # type: ignore[type-var]
    for pairs in (heavy_and_light(1, 3), zipf(4000, 100, 4, 1)):
        sizes = true_counts(pairs)
        noisy = counted(mechanism, pairs, chosen(np.arange(pairs.groups), sizes.astype(float)))
        found = estimate(noise, noisy, Tuning())
        assert np.abs(found.counts - sizes).max() < 1
        assert found.std_errors.max() < 1


# Edges: warnings are errors here.


@LAWS
@pytest.mark.parametrize("units", [1, 5000])
@pytest.mark.parametrize("groups", [0, 1, 2, 40])
def test_few_groups_are_enough(law: str, groups: int, units: int) -> None:
    """Every unit is in all of them, of equal weight."""
    mechanism = mechanism_of(law, 5.0, Tuning())
    there = max(groups, 1)
    unit, group = (part.ravel().astype(np.int32) for part in np.indices((units, there)))
    pairs = MemoryPairs.of_rows(unit, group, units, there)
    noisy = counted(mechanism, pairs, chosen(np.arange(groups), np.full(groups, float(units))))
    assert mechanism.counts is not None
    found = estimate(mechanism.counts, noisy, mechanism.tuning)
    assert len(found.counts) == len(found.std_errors) == len(found.heavy) == len(found.hidden) == groups
    assert np.all(np.isfinite(found.counts))
    assert np.all(np.isfinite(found.std_errors) & (found.std_errors > 0))
    if units > 1 and groups:
        assert np.all(np.abs(found.counts - units) <= np.maximum(6 * found.std_errors, 0.05 * units))


@LAWS
def test_one_class_and_units_beyond_the_last_bound(law: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With one class for all, and with a bound far below every norm: finite numbers."""
    mechanism = mechanism_of(law, 5.0, Tuning())
    assert mechanism.counts is not None
    power = mechanism.counts.power
    pairs = zipf(4000, 60, 8, 1)
    for bounds in ((4 * ONE**power,), (ONE**power // 50,), (ONE**power // 50, ONE**power // 25)):
        classes = Classes(bounds, 1, power, 1)
        monkeypatch.setattr("dphist.run.counting.choose_classes", lambda *_, one=classes: one)
        noisy = counted(mechanism, pairs, chosen(np.arange(60), true_counts(pairs).astype(float)))
        found = estimate(mechanism.counts, noisy, mechanism.tuning)
        assert np.all(np.isfinite(found.counts))
        assert np.all(np.isfinite(found.std_errors) & (found.std_errors > 0))


@pytest.mark.parametrize("value", [-(10**12), 0, 10**12])
def test_noisy_numbers_of_any_size_give_finite_estimates(value: int) -> None:
    noise, classes = CountNoise("gaussian", 4.0, 2.5, 0.65), Classes((ONE**2, 2 * ONE**2), 1, 2, 1)
    norms = norms_from(np.zeros(len(CENTRES)), 4.0, 8.0, Tuning())
    noisy = NoisyCounts(np.full(30, ONE), norms, classes, np.full(30, value), np.full((30, 2), value))
    found = estimate(noise, noisy, Tuning())
    assert np.all(np.isfinite(found.counts))
    assert np.all(np.isfinite(found.std_errors))


# Sums and means


@pytest.mark.parametrize(
    "mechanism",
    [
        "adaptive",
        "voting",
    ],
)
def test_sums_and_means_are_of_all_units(mechanism: str) -> None:
    """Heavy units have other values than light ones, and are in other groups."""
    plan = dp.plan(epsilon=3.0, delta=1e-8, mechanism=mechanism, sums={"x": (0, 1)}, means={"y": (0, 1)})
    assert isinstance(plan.mechanism, AdaptiveGaussian | Voting)
    assert plan.mechanism.counts is not None
    off: dict[str, list[float]] = {}
    for seed in range(3):
        pairs = heavy_and_light(seed)
        values = np.where(pairs.unit >= 60_000, 0.9, 0.2)
        steps = {
            a.name: np.rint((np.where(isinstance(a, Number), 1.0, values) - a.centre) / a.step).astype(np.int64)
            for a in plan.request.measures
        }
        pairs = MemoryPairs.of_rows(pairs.unit, pairs.group, pairs.units, pairs.groups, None, steps)
        sizes = true_counts(pairs)
        first = sizes.astype(float) if mechanism == "adaptive" else np.zeros(pairs.groups)
        selection = chosen(np.arange(pairs.groups), first)
        noisy = drawn_from(SeededEntropy(seed), counted, plan.mechanism, pairs, selection, plan.measures)
        _, sums, means = estimated_columns(
            plan.mechanism.counts, plan.request.aggregates, plan.measures, noisy, Tuning()
        )
        total = np.bincount(pairs.group, values)
        for kind, part in (("light", slice(0, 300)), ("heavy", slice(300, 400))):
            for name, column, true in (("sum", sums, total), ("mean", means, total / sizes)):
                error = column.std_errors
                assert np.all(np.isfinite(column.values) & (error > 0))
                off.setdefault(f"{kind} {name} covered", []).append(
                    float(np.mean(np.abs(column.values - true)[part] <= 1.96 * error[part]))
                )
                off.setdefault(f"{kind} {name}", []).append(float(np.median(column.values[part] / true[part])))
    found = {name: float(np.mean(values)) for name, values in off.items()}
    for kind in ("light", "heavy"):
        for name in ("sum", "mean"):
            assert found[f"{kind} {name} covered"] >= 0.9, found
    assert found["heavy sum"] == pytest.approx(1, abs=0.1)
    assert found["heavy mean"] == pytest.approx(1, abs=0.1)


def of_sums(plan: Any, pairs: MemoryPairs, values: Floats, seed: int) -> tuple[float, float]:
    """How many intervals of counts, and of sums of these values of units, cover the truth: in groups of 100 units and more."""
    found, true = sums_and_truth(plan, pairs, values, seed)
    within = [
        float(np.mean(np.abs(column.values - true) <= 1.96 * column.std_errors + 1e-6))
        for column, true in zip(found, true, strict=True)
    ]
    return within[0], within[1]


def sums_and_truth(
    plan: Any, pairs: MemoryPairs, values: Floats, seed: int, sign: int = 1
) -> tuple[list[Column], list[Floats]]:
    """Counts and sums as they are published, the noisy sums times a sign; and the truth."""
    (measure,) = plan.request.measures
    steps = np.rint((values[pairs.unit] - measure.centre) / measure.step).astype(np.int64)
    pairs = MemoryPairs.of_rows(pairs.unit, pairs.group, pairs.units, pairs.groups, None, {measure.name: steps})
    sizes = true_counts(pairs)
    codes = np.flatnonzero(sizes >= 100)
    selection = chosen(codes, np.where(isinstance(plan.mechanism, AdaptiveGaussian), sizes[codes], 0.0))
    noisy = drawn_from(SeededEntropy(seed), counted, plan.mechanism, pairs, selection, plan.measures)
    noisy = replace(noisy, sums={name: (sign * light, sign * heavy) for name, (light, heavy) in noisy.sums.items()})
    found = estimated_columns(plan.mechanism.counts, plan.request.aggregates, plan.measures, noisy, Tuning())
    truth = (sizes, np.bincount(pairs.group, values[pairs.unit]))
    return found, [of.astype(np.float64)[codes] for of in truth]


VALUES: dict[str, Callable[[Floats], Floats]] = {
    "at the upper bound": lambda norms: np.full(len(norms), 10.0),
    "at the lower bound": lambda norms: np.zeros(len(norms)),
    "growing with a unit's groups": lambda norms: 10 * np.minimum(norms / np.quantile(norms, 0.99), 1.0),
    "falling with a unit's groups": lambda norms: 10 * (1 - np.minimum(norms / np.quantile(norms, 0.99), 1.0)),
}


@pytest.mark.parametrize("values", VALUES)
@pytest.mark.parametrize("epsilon", some([1.0, 3.0], 1))
@pytest.mark.parametrize("mechanism", ["adaptive", "voting"])
def test_sums_are_covered_as_counts_are(mechanism: str, epsilon: float, values: str) -> None:
    """Whichever values units have: sums hang on the same numbers of units, and on what heavy units have on average."""
    plan = dp.plan(epsilon=epsilon, delta=1e-8, mechanism=mechanism, sums={"x": (0, 10)})
    found = []
    for seed in range(4):
        for pairs in (zipf(6_000, 1_500, 12, seed), zipf(10_000, 1_500, 0.5, seed, 0.8, 60), heavy_and_light(seed, 3)):
            norms = np.bincount(pairs.unit, minlength=pairs.units).astype(np.float64)
            found.append(of_sums(plan, pairs, VALUES[values](norms), seed))
    counts, sums = np.mean(found, axis=0)
    assert sums >= min(counts, 0.95) - 0.01


@pytest.mark.parametrize("mechanism", ["adaptive", "voting"])
def test_errors_of_sums_do_not_depend_on_their_sign(mechanism: str) -> None:
    plan = dp.plan(epsilon=1.0, delta=1e-8, mechanism=mechanism, sums={"x": (-10, 10)})
    pairs = zipf(6_000, 1_500, 12, 1)
    one, other = (sums_and_truth(plan, pairs, np.full(pairs.units, 9.0), 1, sign)[0][1] for sign in (1, -1))
    assert other.values.tolist() == pytest.approx((-one.values).tolist())
    assert other.std_errors.tolist() == pytest.approx(one.std_errors.tolist())


@pytest.mark.parametrize("true", [-1.0, 0.0, 0.3, 1.0])
@pytest.mark.parametrize("noise", [1.0, 30.0, 1000.0])
def test_the_mean_of_heavy_units_is_known_as_far_as_its_variance_says(true: float, noise: float) -> None:
    """With noise in the sums and in the numbers: within two errors in nine runs of ten, and never beyond the limit."""
    rng, inside = np.random.default_rng(1), []
    for _ in range(400):
        number = rng.pareto(1.5, 60) * 30
        noisy = np.maximum(number + rng.normal(0, noise, 60), 1.0)
        sums = true * number + rng.normal(0, noise, 60)
        trust = np.full(60, noise**-2)
        mean, variance = mean_of_heavy(noisy, np.full(60, noise**2), sums, trust, 1.0)
        assert abs(mean) <= 1
        inside.append(abs(mean - true) <= 2 * variance**0.5)
    assert np.mean(inside) >= 0.9


def test_errors_from_one_cause_add_up() -> None:
    """With their signs: those of one sign in full, those of two as if independent; never less than any of them."""
    assert one_error(3.0, 4.0) == one_error(-3.0, -4.0) == 7
    assert one_error(3.0, -4.0) == 5
    assert one_error(np.array([1.0, -1.0]), 2.0, -2.0).tolist() == [np.hypot(3, 2), np.hypot(2, 3)]


# Constants: each is needed by a check.


@cache
def runs_of(kind: str, tuning: Tuning) -> tuple[Run, ...]:
    builds: dict[str, Callable[[int], MemoryPairs]] = {
        "many": lambda seed: zipf(8_000, 2_000, 12, seed),
        "unseen": lambda seed: zipf(20_000, 4_000, 0.5, seed, 0.8, 60),
        "mixed": lambda seed: heavy_and_light(seed, 3),
    }
    return tuple(released(builds[kind](seed), seed, tuning=tuning) for seed in range(4))


def covers_many(tuning: Tuning) -> bool:
    return coverage(list(runs_of("many", tuning))) >= 0.9


def covers_units_that_the_histogram_cannot_see(tuning: Tuning) -> bool:
    return coverage(list(runs_of("unseen", tuning))) >= 0.9


def is_precise_where_mixes_differ(tuning: Tuning) -> bool:
    runs = runs_of("mixed", tuning)
    return float(np.median(np.concatenate([run.std_errors / run.true for run in runs]))) < 0.18


def is_precise(tuning: Tuning) -> bool:
    return median_error(list(runs_of("many", tuning))) < 0.1


def lets_the_smallest_tenth_have_all_weight(tuning: Tuning) -> bool:
    weights = group_weights(np.arange(1.0, 1001.0), tuning)
    return 0.05 <= float(np.mean(weights == ONE)) <= 0.2


def halves_the_weight_of_groups_16_times_as_large(tuning: Tuning) -> bool:
    return int(group_weights(np.array([1.0] * 9 + [16.0]), tuning)[-1]) == ONE // 2


def does_not_see_noise(tuning: Tuning) -> bool:
    """Units of norm 1 alone, and noise in all buckets."""
    rng, last = np.random.default_rng(1), []
    for _ in range(200):
        noisy = np.where(CENTRES == 1, 1000.0, 0.0) + rng.normal(0, 10, len(CENTRES))
        last.append(norms_from(noisy, 10.0, 1e9, tuning).last)
    return float(np.mean(np.array(last) == np.flatnonzero(CENTRES == 1)[0])) > 0.9


def expects_tails_that_fall_by_three_quarters(tuning: Tuning) -> bool:
    """Behind the last bucket that is seen, on average over noise."""
    rng, totals = np.random.default_rng(1), []
    true = np.where(np.arange(len(CENTRES)) >= 6, 4000.0 * 0.25 ** (np.arange(len(CENTRES)) - 6.0), 0.0)
    for _ in range(200):
        found = norms_from(true + rng.normal(0, 300, len(true)), 300.0, 256.0, tuning)
        if found.last < 8:
            totals.append(float(found.units[found.last + 1 :].sum() / true[found.last + 1 : 14].sum()))
    return 0.7 < float(np.median(totals)) < 1.4


def knows_the_width_of_buckets(tuning: Tuning) -> bool:
    """The total of a class by the histogram, for norms that lie anywhere in their buckets: within three errors."""
    power, inside = 2, []
    classes = Classes((int(1.19 * ONE**2), int(19.03 * ONE**2)), 1, power, 1)
    for place in (0.85, 0.9, 1.1, 1.18):
        units = np.where((CENTRES > 2) & (CENTRES < 16), 1000.0, 0.0)
        exact = float(units @ (CENTRES * place ** np.linspace(-0.5, 0.5, len(CENTRES))))
        norms = Norms(units, np.zeros(len(units)), 14, 20)
        nothing = np.zeros((1, 2), np.int64)
        total, variance = class_total(NoisyCounts(np.full(1, ONE), norms, classes, nothing[:, 0], nothing), 1, tuning)
        inside.append(abs(total - exact) <= 3 * variance**0.5)
    return all(inside)


def follows_a_mix_that_changes_with_size(tuning: Tuning) -> bool:
    """Two bins, at which the share of a class differs by a factor of two: not what noise alone would do."""
    rng, off = np.random.default_rng(1), []
    places, true = np.array([3.0, 3.7]), np.array([0.5, 1.0])
    for _ in range(300):
        ratios = true + rng.normal(0, 0.2, 2)
        line, doubt = draw_to_line(places, ratios, np.full(2, 0.04), np.ones(2), (1.5, 0.01), tuning.mix_slope)
        off.append(np.abs(line - true) <= 2 * np.sqrt(doubt))
    return float(np.mean(off)) >= 0.85


def tells_a_class_that_spreads_from_those_that_do_not(tuning: Tuning) -> bool:
    rng, groups = np.random.default_rng(1), 120
    spread = np.array([0.0, 0.0, 0.0, 1.0])
    number = 1000.0 * np.maximum(1 + np.sqrt(spread) * rng.normal(0, 1, (groups, 4)), 0.0)
    ones, sizes = np.ones((groups, 4)), np.full(groups, 1000.0)
    seen = Observed(np.ones(groups), sizes, np.full(groups, 100.0), number, 100.0 * ones, np.ones(4), 3.3)
    mix = Mix(ones, 0 * ones)
    bins = list(np.array_split(np.arange(groups), 10))
    at = np.full(groups, np.log(1000.0))
    found = measure_spread(seen, mix, sizes, bins, np.linspace(6.9, 6.91, 10), at, tuning) / sizes[:, None] ** 2
    return bool(np.median(found[:, 3]) > 0.5 and np.median(found[:, 0]) < 0.2)


def takes_hidden_units_to_be_in_small_groups_too(tuning: Tuning) -> bool:
    """A hundred units beyond the last bound: a group a hundredth as large misses more than a hundredth as many of them."""
    units = np.zeros(len(CENTRES))
    units[10] = 100.0  # in about 16 groups
    classes = Classes((ONE**2, 2 * ONE**2), 1, 2, 1)
    empty = np.zeros(50, np.int64)
    noisy = NoisyCounts(empty, Norms(units, units, 0, 7), classes, empty, np.zeros((50, 2), np.int64))
    sizes = np.concatenate([np.full(25, 10_000.0), np.full(25, 100.0)])
    hidden, _ = hidden_units(noisy, np.ones(50), sizes, tuning)
    return bool(hidden[-1] > 0.03 * hidden[0])


Check = Callable[[Tuning], bool]
NEEDED: list[tuple[Check, dict[str, Any]]] = [
    (is_precise, {"scaled_share": 0.02}),
    (is_precise_where_mixes_differ, {"whole_share": 0.999}),
    (lets_the_smallest_tenth_have_all_weight, {"size_quantile": 0.9}),
    (halves_the_weight_of_groups_16_times_as_large, {"weight_roots": 8}),
    (does_not_see_noise, {"histogram_cut": 0.3}),
    (expects_tails_that_fall_by_three_quarters, {"tail_decay": 0.01}),
    (covers_units_that_the_histogram_cannot_see, {"tail_doubt": 1e-3}),
    (takes_hidden_units_to_be_in_small_groups_too, {"tail_power": 6.0}),
    (knows_the_width_of_buckets, {"bucket_error": 1e-5}),
    (is_precise_where_mixes_differ, {"groups_per_bin": 10**6}),
    (follows_a_mix_that_changes_with_size, {"mix_slope": 1e-6}),
    (covers_many, {"model_error": 0.3}),
    (tells_a_class_that_spreads_from_those_that_do_not, {"spread_doubt": 1e-4}),
]


@pytest.mark.parametrize(("check", "change"), NEEDED, ids=[next(iter(change)) for _, change in NEEDED])
def test_each_constant_is_needed(check: Check, change: dict[str, Any]) -> None:
    """The check holds with the constant, and fails with one that is far off."""
    assert check(Tuning())
    assert not check(replace(Tuning(), **change))


def test_every_constant_of_counting_has_such_a_check() -> None:
    counting = {
        "scaled_share", "whole_share", "size_quantile", "weight_roots", "histogram_cut", "tail_decay", "tail_doubt",
        "tail_power", "bucket_error", "groups_per_bin", "mix_slope", "spread_doubt", "model_error",
    }  # fmt: skip
    assert {name for _, change in NEEDED for name in change} == counting
    others = {"round_shares", "hopeless", "reserve", "most_groups", "delta_share", "early_share"}  # parts of delta
    others |= {"choice_share", "empty_below", "moved_weight", "election_gain"}  # of the choice
    assert set(Tuning.__dataclass_fields__) == counting | others


def test_noise_alone_would_not_cover() -> None:
    """Why units are put into classes: of large groups the count of scaled units alone misses most of the truth."""
    mechanism = mechanism_of("gaussian", 10.0, Tuning())
    pairs = zipf(20_000, 5_000, 12, 5)
    assert isinstance(mechanism, AdaptiveGaussian)
    assert mechanism.counts is not None
    selection = select(mechanism, pairs)
    noisy = counted(mechanism, pairs, selection)
    true = true_counts(pairs)[codes_of(selection)]
    a = noisy.weights / ONE
    bare = np.ldexp(noisy.scaled.astype(float), -(LATTICE_BITS + 10)) / a
    std = mechanism.counts.scaled_noise * noisy.classes.scaled_bound**0.5 / a
    largest = true >= np.quantile(true, 0.9)
    assert np.mean((np.abs(bare - true) <= 1.959964 * std)[largest]) < 0.5
