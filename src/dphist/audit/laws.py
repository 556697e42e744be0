"""Output laws of small mechanisms, enumerated from their definitions: what the proofs are held against.

Nothing here uses a formula of `dphist.privacy`. A law is an array of probabilities; two laws that are compared list the same
outcomes in the same order. What lies outside a window is left out on both sides, which can only lower a divergence.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator, Mapping, Sequence
from fractions import Fraction
from itertools import product

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from dphist.noise import DiscreteGaussian, DiscreteLaplace, Law, RoundedGaussian, TruncatedDiscreteLaplace
from dphist.noise.tails import log_pmf

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Named = Mapping[Hashable, float]


def hockey_stick(p: Floats, q: Floats, epsilon: float) -> float:
    """The largest P(S) - e^epsilon Q(S) over all sets S of outcomes: the smallest delta that P has against Q."""
    return float(np.sum(np.maximum(p - math.exp(epsilon) * q, 0.0)))


def both_ways(p: Floats, q: Floats, epsilon: float) -> float:
    """Adding and removing a unit."""
    return max(hockey_stick(p, q, epsilon), hockey_stick(q, p, epsilon))


def aligned(p: Named, q: Named) -> tuple[Floats, Floats]:
    """Two laws with named outcomes as arrays over the same outcomes."""
    outcomes = sorted(set(p) | set(q), key=repr)
    return np.array([p.get(o, 0.0) for o in outcomes]), np.array([q.get(o, 0.0) for o in outcomes])


def masses(law: Law, x: Integers) -> Floats:
    """P(Z = x), in the units of the law; of a rounded Gaussian as a difference of normal cdfs, in the nearer tail."""
    if isinstance(law, RoundedGaussian):
        far = np.abs(x).astype(np.float64)
        std = float(law.lattice_std)
        return np.asarray(ndtr((0.5 - far) / std) - ndtr((-0.5 - far) / std))
    return np.exp(log_pmf(law, x))


def reach_of(law: Law, tail: float = 7.5) -> int:
    """How far a window goes: `tail` standard deviations, or 30 scales of a Laplace law."""
    if isinstance(law, RoundedGaussian):
        return math.ceil(tail * float(law.lattice_std)) + 1
    if isinstance(law, DiscreteGaussian):
        return math.ceil(tail * math.sqrt(float(law.variance))) + 1
    if isinstance(law, DiscreteLaplace):
        return math.ceil(30 * float(law.scale)) + 1
    return law.q


def noise(law: DiscreteGaussian | DiscreteLaplace, reach: int) -> dict[int, float]:
    """Every value of a noise in a window."""
    x = np.arange(-reach, reach + 1)
    return dict(zip(x.tolist(), masses(law, x).tolist(), strict=True))


def released(count: int, law: Law, threshold: int, low: int, high: int) -> Floats:
    """The law of one group: hidden, then every value threshold < x <= high. Count 0 stays hidden."""
    found = np.zeros(high - threshold + 1)
    if count == 0:
        found[0] = 1.0
        return found
    x = np.arange(low, high + 1)
    p = masses(law, x - count)
    found[0] = p[x <= threshold].sum()
    found[1:] = p[x > threshold]
    return found


def joint(laws: Sequence[Floats]) -> Floats:
    """The law of independent outcomes together."""
    total = np.ones(1)
    for law in laws:
        total = np.multiply.outer(total, law).ravel()
    return total


def thresholded(
    without: Sequence[int],
    with_: Sequence[int],
    *,
    own: Law,
    common: Law | None,
    threshold: int,
    low: int,
    bits: int = 0,
    strict: bool = True,
) -> tuple[Floats, Floats]:
    """The laws of all groups of two data sets: count + own noise + common noise, shown where it is above the threshold.

    `threshold` is in lattice steps, the counts are in units of 2^bits steps; a count below `low` is never looked at.
    """
    shared = np.zeros(1, np.int64) if common is None else np.arange(-reach_of(common), reach_of(common) + 1)
    weights = np.ones(1) if common is None else masses(common, shared)
    limit = threshold if strict else threshold - 1
    sides: list[list[Floats]] = [[], []]
    for pair in zip(without, with_, strict=True):
        steps = [count << bits for count in pair]
        window = reach_of(own) + (0 if common is None else reach_of(common))
        shown = np.arange(max(limit + 1, min(steps) - window), max(steps) + window + 1)
        for side, count, step in zip(sides, pair, steps, strict=True):
            law = np.zeros((len(shared), len(shown) + 1))
            if count < low:
                law[:, 0] = 1.0
            else:
                law[:, 1:] = masses(own, shown[None, :] - step - shared[:, None])
                law[:, 0] = np.maximum(0.0, 1 - law[:, 1:].sum(axis=1))  # hidden, or outside the window
            side.append(law)
    first, second = (_mixed(weights, side) for side in sides)
    return first, second


def _mixed(weights: Floats, laws: Sequence[Floats]) -> Floats:
    """sum over the common noise of the product of what the groups do given it."""
    letters = "abcdefgh"[: len(laws)]
    spec = "z," + ",".join(f"z{letter}" for letter in letters) + "->" + letters
    return np.asarray(np.einsum(spec, weights, *laws, optimize=True)).ravel()


def truncated(counts: Sequence[int], law: TruncatedDiscreteLaplace, high: int) -> Floats:
    """max(0, count + z) of every bar; an empty bar and one that became 0 look the same."""
    return joint([released(count, law, 0, -law.q, high) for count in counts])


def from_top_law(
    listed: Mapping[str, int], base: int, labels: Sequence[str], law: DiscreteGaussian, threshold: int, high: int
) -> Floats:
    """The law of (noisy threshold, outcome of every label) on -high..high, the labels that are not listed being hidden."""
    x = np.arange(-high, high + 1)
    chances = {label: masses(law, x - count) for label, count in listed.items() if count > 0}
    never = np.append(1.0, np.zeros(len(x)))
    parts = []
    for limit in x.tolist():
        chance = float(masses(law, np.array([limit - base - threshold]))[0])
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


def three_rounds(counts: Sequence[int], variance: Fraction, threshold: int, reach: int) -> dict[Hashable, float]:
    """A running count over three rounds: a node for round 1, one for rounds 1 and 2, and one for round 3."""
    one = noise(DiscreteGaussian(variance), reach)

    def shown(count: int, z: int) -> int | None:
        return count + z if count and count + z > threshold else None

    first: dict[int | None, float] = {}
    for z, p in one.items():
        key = shown(counts[0], z)
        first[key] = first.get(key, 0.0) + p
    rest: dict[tuple[int | None, int | None], float] = {}
    for z2, p2 in one.items():
        for z3, p3 in one.items():
            key2 = (shown(counts[1], z2), shown(counts[2], z2 + z3))
            rest[key2] = rest.get(key2, 0.0) + p2 * p3
    return {(a, *b): p * q for a, p in first.items() for b, q in rest.items()}


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
