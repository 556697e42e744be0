"""Small tables of pairs, and ways to look at everything that a run gives away."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dphist.aggregates.noisy_sums import NoisyMeasure
from dphist.engines.base import Groups
from dphist.engines.histogram import LocalGroups
from dphist.engines.memory import MemoryPairs, no_keys
from dphist.mechanisms import GroupMechanism
from dphist.mechanisms.adaptive import AdaptiveGaussian
from dphist.mechanisms.counts import CountNoise
from dphist.mechanisms.tuning import LATTICE_BITS, ONE, Tuning
from dphist.mechanisms.weights import next_weights
from dphist.run.counting import NoisyCounts, count
from dphist.run.rounds import noise_sums

Integers = NDArray[np.int64]


def table(rows: list[tuple[int, int]], groups: int, units: int | None = None) -> MemoryPairs:
    """Pairs (unit, group), all of them sampled."""
    pairs = np.array(sorted(set(rows)), np.int32).reshape(-1, 2)
    return MemoryPairs.of_rows(pairs[:, 0].copy(), pairs[:, 1].copy(), units or int(pairs[:, 0].max()) + 1, groups)


def loose(
    threshold: float = 3.0, *, groups: int = 8, std: float = 2.0, bars: tuple[float, ...] = ()
) -> AdaptiveGaussian:
    """A mechanism with deltas so large that a simulation sees them."""
    tuning = Tuning(most_groups=groups)
    stds = tuple(std / share**0.5 for share in tuning.fractions)
    return AdaptiveGaussian(stds, threshold, CountNoise("gaussian", 4.0, 2.5, 0.65), tuning, bars)


def zipf(
    units: int, groups: int, mean_degree: float, seed: int, slope: float = 1.0, very_heavy: int = 0
) -> MemoryPairs:
    """Random pairs: lognormal degrees, some units in hundreds of groups, group sizes falling with their rank."""
    rng = np.random.default_rng(seed)
    weights = np.arange(1, groups + 1.0) ** -slope
    degrees = np.ceil(rng.lognormal(np.log(mean_degree), 0.8, units)).astype(np.int64)
    degrees[:very_heavy] = rng.integers(100, 600, very_heavy)
    unit = np.repeat(np.arange(units), degrees)
    group = np.searchsorted(np.cumsum(weights) / weights.sum(), rng.random(len(unit))).clip(max=groups - 1)
    pairs = np.sort(unit * groups + group)
    pairs = pairs[np.diff(pairs, prepend=-1) > 0]
    return MemoryPairs.of_rows((pairs // groups).astype(np.int32), (pairs % groups).astype(np.int32), units, groups)


def true_counts(pairs: MemoryPairs) -> NDArray[np.int64]:
    return np.bincount(pairs.group, minlength=pairs.groups).astype(np.int64)


@dataclass(frozen=True)
class Round:
    """What one round publishes, in the view that the proof gives away: weights, and noisy sums of eligible groups."""

    weights: Integers
    noisy: Integers


def rounds(mechanism: AdaptiveGaussian, pairs: MemoryPairs, eligible: Integers) -> Iterator[Round]:
    """All rounds of a selection, with what they publish of every eligible group."""
    total, weights = np.zeros(len(eligible), np.int64), np.full(len(eligible), ONE, np.int64)
    passed, bars = np.zeros(len(eligible), np.bool_), dict(enumerate(mechanism.bars))
    for number, share in enumerate(mechanism.tuning.round_shares):
        if number:
            weights = np.where(passed, 0, next_weights(mechanism, number, total))
        spread = np.zeros(pairs.groups, np.int64)
        spread[eligible] = weights
        noisy = noise_sums(mechanism, number, pairs.weighted_sums(spread)[eligible])
        yield Round(weights, noisy)
        total += share * noisy
        passed |= total > bars.get(number, math.inf) * 2 ** (LATTICE_BITS + 4)


def chosen(codes: Integers, sums: NDArray[np.float64]) -> LocalGroups:
    """Selected groups, with noisy sums that are the same in every round, and in a look."""
    steps = np.rint(sums * 2.0**LATTICE_BITS).astype(np.int64)
    past = np.cumsum(Tuning().round_shares)
    totals = {f"total_{number}": share * steps for number, share in enumerate(past, 1)}
    return LocalGroups(codes, {"first": steps, **totals}, no_keys)


def counted(
    mechanism: GroupMechanism,
    pairs: MemoryPairs,
    selected: Groups,
    aggregates: Sequence[NoisyMeasure] = (),
) -> NoisyCounts:
    """What counting publishes."""
    assert mechanism.counts is not None
    groups, counting = count(mechanism, pairs, selected, aggregates)
    assert isinstance(groups, LocalGroups)
    return counting.noisy_counts([noisy.name for noisy in aggregates], groups.columns)


def codes_of(groups: Groups) -> Integers:
    """The numbers of some groups."""
    assert isinstance(groups, LocalGroups)
    return groups.codes


def draw_sample(
    unit: NDArray[np.int32], units: int, most_groups: int, priority: NDArray[np.float64]
) -> NDArray[np.bool_]:
    """For each unit its `most_groups` pairs of smallest priority: a function of unit, group and a seed."""
    order = np.lexsort((priority, unit))
    starts = np.concatenate([[0], np.cumsum(np.bincount(unit, minlength=units))[:-1]])
    place = np.empty(len(unit), np.int64)
    place[order] = np.arange(len(unit)) - starts[unit[order]]
    return np.asarray(place < most_groups)
