"""Exact output laws of small mechanisms, enumerated: what the proofs are held against."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator, Mapping, Sequence
from fractions import Fraction
from itertools import product

import numpy as np
from numpy.typing import NDArray

from dphist.noise import DiscreteGaussian, DiscreteLaplace
from dphist.noise.tails import log_pmf

Floats = NDArray[np.float64]
Law = Mapping[Hashable, float]
HIDDEN = None


def hockey_stick(p: Floats, q: Floats, epsilon: float) -> float:
    return float(np.sum(np.maximum(p - math.exp(epsilon) * q, 0.0)))


def both_ways(p: Floats, q: Floats, epsilon: float) -> float:
    return max(hockey_stick(p, q, epsilon), hockey_stick(q, p, epsilon))


def aligned(p: Law, q: Law) -> tuple[Floats, Floats]:
    outcomes = sorted(set(p) | set(q), key=repr)
    return np.array([p.get(o, 0.0) for o in outcomes]), np.array([q.get(o, 0.0) for o in outcomes])


def noise(law: DiscreteGaussian | DiscreteLaplace, reach: int) -> dict[int, float]:
    x = np.arange(-reach, reach + 1)
    return dict(zip(x.tolist(), np.exp(log_pmf(law, x)).tolist(), strict=True))


def released(count: int, law: DiscreteGaussian | DiscreteLaplace, threshold: int, low: int, high: int) -> Floats:
    """The law of one group: hidden, then every value threshold < x <= high. Count 0 stays hidden."""
    found = np.zeros(high - threshold + 1)
    if count == 0:
        found[0] = 1.0
        return found
    x = np.arange(low, high + 1)
    p = np.exp(log_pmf(law, x - count))
    found[0] = p[x <= threshold].sum()
    found[1:] = p[x > threshold]
    return found


def joint(laws: Sequence[Floats]) -> Floats:
    total = np.ones(1)
    for law in laws:
        total = np.multiply.outer(total, law).ravel()
    return total


def from_top_law(
    listed: Mapping[str, int], base: int, labels: Sequence[str], law: DiscreteGaussian, threshold: int, high: int
) -> Floats:
    """The law of (noisy threshold, outcome of every label) on -high..high, the labels that are not listed being hidden."""
    x = np.arange(-high, high + 1)
    chances = {label: np.exp(log_pmf(law, x - count)) for label, count in listed.items() if count > 0}
    never = np.append(1.0, np.zeros(len(x)))
    parts = []
    for limit in x.tolist():
        chance = math.exp(float(log_pmf(law, limit - base - threshold)))
        groups = [
            np.append(chances[label][x <= limit].sum(), np.where(x > limit, chances[label], 0.0))
            if label in chances
            else never
            for label in labels
        ]
        parts.append(chance * joint(groups))
    return np.concatenate(parts)


def ranked_law(
    scores: Mapping[str, Fraction | int], stop: Fraction | int, coefficient: float, symbols: int
) -> dict[Hashable, float]:
    """The law of the sequence of symbols, chosen one after the other without replacement."""
    found: dict[Hashable, float] = {}

    def go(prefix: tuple[str, ...], chance: float) -> None:
        if len(prefix) == symbols or (prefix and prefix[-1] == "STOP"):
            found[prefix] = found.get(prefix, 0.0) + chance
            return
        left = {label: float(score) for label, score in scores.items() if label not in prefix} | {"STOP": float(stop)}
        best = max(left.values())
        weights = {label: math.exp(coefficient * (score - best)) for label, score in left.items()}
        total = sum(weights.values())
        for label, weight in weights.items():
            go((*prefix, label), chance * weight / total)

    go((), 1.0)
    return found


def top(counts: Mapping[str, int], most: int) -> tuple[dict[str, int], int]:
    """The `most` largest positive counts, ties by label, and the next largest (0 if there is none)."""
    order = sorted(((label, c) for label, c in counts.items() if c > 0), key=lambda pair: (-pair[1], pair[0]))
    return dict(order[:most]), order[most][1] if len(order) > most else 0


def neighbours(
    labels: str, largest: int, max_groups: int, max_per_group: int
) -> Iterator[tuple[dict[str, int], dict[str, int]]]:
    """All (without, with) pairs: counts up to `largest`, one unit with up to max_per_group in up to max_groups groups."""
    for counts in product(range(largest + 1), repeat=len(labels)):
        for unit in product(range(max_per_group + 1), repeat=len(labels)):
            if 0 < sum(u > 0 for u in unit) <= max_groups:
                without = dict(zip(labels, counts, strict=True))
                yield without, {label: without[label] + u for label, u in zip(labels, unit, strict=True)}
