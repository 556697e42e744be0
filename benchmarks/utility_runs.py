"""Releases of one table by every method that `utility.py` and `tuning.py` compare, and what a reader gets from each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from generated_tables import Data, Floats, Random
from numpy.typing import NDArray
from scipy.special import ndtri

import dphist as dp
from dphist.engines.histogram import LocalGroups
from dphist.engines.memory import MemoryPairs
from dphist.mechanisms import LaplaceThreshold, SparseGaussian, Voting
from dphist.mechanisms.adaptive import AdaptiveGaussian
from dphist.mechanisms.tuning import Tuning
from dphist.privacy.gaussian import largest_mu
from dphist.run.choice import DEGREE_EDGES, most_releases, noisy_degrees
from dphist.run.counting import NoisyCounts, count
from dphist.run.estimates import estimate
from dphist.run.rounds import select
from dphist.run.voting import vote


@dataclass(frozen=True)
class Result:
    """One release: how many groups, the median relative error, and how often 95 % intervals cover (all, largest tenth).

    score: the interval score, width plus 40 times how far the truth lies outside, relative to the truth: smallest, on average,
    for intervals that say what is known and no more.
    """

    groups: int
    error: float = float("nan")
    coverage: float = float("nan")
    coverage_top: float = float("nan")
    score: float = float("nan")


def result(data: Data, index: NDArray[np.int64], counts: Floats, errors: Floats | None = None) -> Result:
    """What a reader of the release gets."""
    if len(index) == 0:
        return Result(0)
    true = data.true[index]
    relative = float(np.median(np.abs(np.maximum(counts, 1) - true) / true))
    if errors is None:
        return Result(len(index), relative)
    reach, off = 1.959964 * errors, np.abs(counts - true)
    covered, top = off <= reach, true >= np.quantile(true, 0.9)
    score = float(np.mean((2 * reach + 40 * np.maximum(off - reach, 0)) / true))
    return Result(len(index), relative, float(covered.mean()), float(covered[top].mean()), score)


@lru_cache(maxsize=40)
def _places(data: Data, seed: int) -> NDArray[np.int32]:
    """The place of each pair in a random order of its unit's groups, from 0: one sort serves every bound."""
    order = np.argsort(data.unit + np.random.default_rng(seed).random(len(data.unit)))
    starts = np.concatenate([[0], np.cumsum(np.bincount(data.unit, minlength=data.units))[:-1]])
    place = np.empty(len(order), np.int32)
    place[order] = np.arange(len(order)) - starts[data.unit[order]]
    return place


def kept(data: Data, most: int, rng: Random) -> NDArray[np.bool_]:
    """Which pairs stay if each unit keeps `most` random groups; every method keeps the same ones under one seed."""
    return np.asarray(_places(data, int(rng.integers(2**32))) < most)


def bounded(data: Data, most: int, rng: Random) -> NDArray[np.int64]:
    """Counts after each unit kept `most` random groups."""
    return np.bincount(data.group[kept(data, most, rng)], minlength=data.groups).astype(np.int64)


def plain(data: Data, mechanism: SparseGaussian | LaplaceThreshold, rng: Random) -> Result:
    """One of our plain mechanisms."""
    found = mechanism.perturb(bounded(data, mechanism.max_groups, rng))
    return result(data, found.index, found.counts)


def halves(data: Data, epsilon: float, delta: float, most: int, rng: Random) -> Result:
    """Gaussian noise for half of delta, a threshold for the other half."""
    std = np.sqrt(most) / largest_mu(epsilon, delta / 2)
    threshold = 1 - std * ndtri(-np.expm1(np.log1p(-delta / 2) / most))
    counts = bounded(data, most, rng)
    noisy = counts + rng.normal(0, std, len(counts))
    found = np.flatnonzero((noisy > threshold) & (counts > 0))
    return result(data, found, noisy[found])


def set_union(data: Data, epsilon: float, delta: float, budgets: tuple[float, ...], most: int, rng: Random) -> Result:
    """How many keys `union_keys` finds."""
    return Result(int(union_keys(data, epsilon, delta, budgets, most, rng).sum()))


def union_keys(
    data: Data, epsilon: float, delta: float, budgets: tuple[float, ...], most: int, rng: Random
) -> NDArray[np.bool_]:
    """Weighted Gaussian set union in rounds that drop the keys already found; one round is the plain weighted Gaussian."""
    sampled = kept(data, most, rng)
    unit, group = data.unit[sampled], data.group[sampled]
    found = np.zeros(data.groups, bool)
    for budget in budgets:
        share = budget / sum(budgets)
        std = 1 / (largest_mu(epsilon, delta / 2) * np.sqrt(share))
        threshold = union_threshold(std, delta / 2 * share, most)
        degree = np.bincount(unit, minlength=data.units)
        sums = np.bincount(group, 1 / np.sqrt(degree[unit]), minlength=data.groups)
        noisy = sums + rng.normal(0, std, data.groups)
        found |= (noisy > threshold) & (sums > 0)
        left = ~found[group]
        unit, group = unit[left], group[left]
    return found


def union_threshold(std: float, delta: float, most: int) -> float:
    """The smallest at which t new groups of one unit, each of weight 1/sqrt(t), are shown with probability delta at most."""
    sizes = np.arange(1, most + 1)
    return float((1 / np.sqrt(sizes) - std * ndtri(-np.expm1(np.log1p(-delta) / sizes))).max())


Selecting = AdaptiveGaussian | Voting


def pairs_of(data: Data, mechanism: Selecting, rng: Random) -> MemoryPairs:
    """The pairs with a sample of each unit's groups; or with turns of units and places of their groups."""
    place = _places(data, int(rng.integers(2**32)))
    if isinstance(mechanism, AdaptiveGaussian):
        return MemoryPairs.of_rows(data.unit, data.group, data.units, data.groups, place < mechanism.max_groups)
    turn = rng.permutation(data.units).astype(np.int32)
    return MemoryPairs.of_rows(turn[data.unit], data.group, data.units, data.groups, place=place)


def selected_and_counted(data: Data, mechanism: Selecting, rng: Random) -> Result:
    """Rounds or an election, and the counts of all units, with their own noise."""
    pairs = pairs_of(data, mechanism, rng)
    selected = selection(mechanism, pairs)
    assert mechanism.counts is not None
    found = estimate(mechanism.counts, counted(mechanism, pairs, selected), mechanism.tuning)
    return result(data, selected.codes, found.counts, found.std_errors)


def selection(mechanism: Selecting, pairs: MemoryPairs) -> LocalGroups:
    """The groups that are selected."""
    selected = select(mechanism, pairs) if isinstance(mechanism, AdaptiveGaussian) else vote(mechanism, pairs)
    assert isinstance(selected, LocalGroups)
    return selected


def counted(mechanism: Selecting, pairs: MemoryPairs, selected: LocalGroups) -> NoisyCounts:
    """What counting them publishes."""
    assert mechanism.counts is not None
    groups, counting = count(mechanism, pairs, selected)
    assert isinstance(groups, LocalGroups)
    return counting.noisy_counts((), groups.columns)


Branches = list[Selecting]


def branches(epsilon: float, delta: float) -> Branches:
    """What the automatic choice chooses from, with the budget that is left."""
    found = dp.plan(epsilon=epsilon, delta=delta).branches
    return [mechanism for mechanism in found if isinstance(mechanism, AdaptiveGaussian | Voting)]


def automatic(data: Data, choices: Branches, epsilon: float, rng: Random) -> Result:
    """Choose by the noisy histogram of degrees, then release."""
    degrees = MemoryPairs.of_rows(data.unit, data.group, data.units, data.groups).degree_histogram(DEGREE_EDGES)
    chosen = most_releases(choices, noisy_degrees(degrees, Tuning().choice_share * epsilon))
    return selected_and_counted(data, chosen, rng)


def repeat(seeds: int, run: Callable[[Random], Result]) -> list[Result]:
    """One result for each seed."""
    return [run(np.random.default_rng(seed)) for seed in range(seeds)]


def line(name: str, results: list[Result]) -> str:
    """Mean ± spread."""
    groups = np.array([found.groups for found in results], float)
    text = f"  {name:<34}{groups.mean():>8.0f} ± {groups.std():<5.0f}"
    for values in (np.array([getattr(f, name) for f in results]) for name in ("error", "coverage", "coverage_top")):
        known = values[np.isfinite(values)]
        text += f"{known.mean():>8.3f} ± {known.std():<6.3f}" if len(known) else " " * 17
    return text.rstrip()
