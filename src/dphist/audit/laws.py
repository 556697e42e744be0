"""Output laws of small mechanisms and of their worst-case neighbours, enumerated: what the proofs are held against.

Nothing here uses a formula of `dphist.privacy`: laws are written down from the definitions of the mechanisms. A law is an
array of probabilities; two laws that are compared list the same outcomes in the same order. What lies outside a window is left
out on both sides, which can only lower a divergence.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations_with_replacement, product
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from scipy.special import ndtr

from dphist.engines.duckdb.sketch import MisraGries
from dphist.mechanisms import ContinualCounts, CorrelatedGaussian, CorrelatedTopK, FromTop, Ranked, TruncatedLaplace
from dphist.mechanisms.lattice import enforce_sparsity
from dphist.noise import DiscreteGaussian, DiscreteLaplace, Law, RoundedGaussian, TruncatedDiscreteLaplace
from dphist.noise.tails import log_pmf

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Named = Mapping[Hashable, float]

NOTHING: Final = -(2**40)
"""A threshold that everything passes."""


@dataclass(frozen=True, slots=True, eq=False)
class Pair:
    """The output laws of two neighbours, over the same outcomes."""

    name: str
    without: Floats
    with_: Floats


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


def noise(law: Law, reach: int) -> dict[int, float]:
    """Every value of a noise in a window."""
    x = np.arange(-reach, reach + 1)
    return dict(zip(x.tolist(), masses(law, x).tolist(), strict=True))


def released(count: int, law: Law, threshold: int, low: int, high: int) -> Floats:
    """The law of one group: hidden, then every value threshold < x <= high. Count 0 stays hidden."""
    law_of_group = np.zeros(high - threshold + 1)
    if count == 0:
        law_of_group[0] = 1.0
        return law_of_group
    x = np.arange(low, high + 1)
    p = masses(law, x - count)
    law_of_group[0] = p[x <= threshold].sum()
    law_of_group[1:] = p[x > threshold]
    return law_of_group


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
) -> tuple[Floats, Floats]:
    """The laws of all groups of two data sets: count + own noise + common noise, shown where it is above the threshold.

    `threshold` is in lattice steps, the counts are in units of 2^bits steps; a count below `low` is never looked at.
    """
    shared = np.zeros(1, np.int64) if common is None else np.arange(-reach_of(common), reach_of(common) + 1)
    weights = np.ones(1) if common is None else masses(common, shared)
    sides: list[list[Floats]] = [[], []]
    for pair in zip(without, with_, strict=True):
        steps = [count << bits for count in pair]
        window = reach_of(own) + (0 if common is None else reach_of(common))
        shown = np.arange(max(threshold + 1, min(steps) - window), max(steps) + window + 1)
        for side, count, step in zip(sides, pair, steps, strict=True):
            law = np.zeros((len(shared), len(shown) + 1))
            if count < low:
                law[:, 0] = 1.0
            else:
                law[:, 1:] = masses(own, shown[None, :] - step - shared[:, None])
                law[:, 0] = np.maximum(0.0, 1 - law[:, 1:].sum(axis=1))  # hidden, or outside the window
            side.append(law)
    first, second = (mix(weights, side) for side in sides)
    return first, second


def mix(weights: Floats, laws: Sequence[Floats]) -> Floats:
    """sum over the common noise of the product of what the groups do given it."""
    letters = "abcdefgh"[: len(laws)]
    spec = "z," + ",".join(f"z{letter}" for letter in letters) + "->" + letters
    return np.asarray(np.einsum(spec, weights, *laws, optimize=True)).ravel()


def truncated(counts: Sequence[int], law: TruncatedDiscreteLaplace, high: int) -> Floats:
    """max(0, count + z) of every bar; an empty bar and one that became 0 look the same."""
    return joint([released(count, law, 0, -law.q, high) for count in counts])


def from_top_law(
    listed: Mapping[str, int], base: int, labels: Sequence[str], law: Law, threshold: int, high: int
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
    sequences: dict[Hashable, float] = {}

    def go(prefix: tuple[str, ...], chance: float) -> None:
        if len(prefix) == symbols or (prefix and prefix[-1] == "STOP"):
            sequences[prefix] = sequences.get(prefix, 0.0) + chance
            return
        left = {label: float(score) for label, score in scores.items() if label not in prefix} | {"STOP": float(stop)}
        best = max(left.values())
        weights = {label: math.exp(coefficient * (score - best)) for label, score in left.items()}
        total = sum(weights.values())
        for label, weight in weights.items():
            go((*prefix, label), chance * weight / total)

    go((), 1.0)
    return sequences


def three_rounds(counts: Sequence[int], law: Law, threshold: int, reach: int) -> dict[Hashable, float]:
    """A running count over three rounds: a node for round 1, one for rounds 1 and 2, and one for round 3."""
    one = noise(law, reach)

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


# The noise of mechanisms


def own_law(mechanism: Any) -> Law:
    """The noise that every group has for itself: from the parameters, not from what is drawn."""
    if hasattr(mechanism, "scale"):
        return DiscreteLaplace(Fraction(mechanism.scale))
    if hasattr(mechanism, "variance"):
        return DiscreteGaussian(mechanism.variance)
    if hasattr(mechanism, "independent_std"):
        return RoundedGaussian(Fraction(mechanism.independent_std or mechanism.noise_std), mechanism.lattice_bits)
    return mechanism.law  # type: ignore[no-any-return]


def common_law(mechanism: Any) -> Law | None:
    """The noise that all groups share."""
    if hasattr(mechanism, "common_variance"):
        return DiscreteGaussian(mechanism.common_variance)
    if not (correlation := getattr(mechanism, "correlation", None)):
        return None
    return RoundedGaussian(Fraction(math.sqrt(correlation) * mechanism.independent_std), mechanism.lattice_bits)


# Neighbours


def kinds_of_groups(mechanism: Any, per_group: int = 1) -> Iterator[Pair]:
    """All kinds of groups that one unit can be in: new, close to the threshold, large; and large ones it is not in.

    With independent noise a group that does not change cancels; with a common noise it tells about the common noise.
    """
    bits, law, common = getattr(mechanism, "lattice_bits", 0), own_law(mechanism), common_law(mechanism)
    if mechanism.threshold is None:
        threshold, low, groups = NOTHING, 0, mechanism.groups
    else:
        threshold = int(Fraction(mechanism.threshold) * 2**bits)
        low = getattr(mechanism, "low_threshold", 1)
        groups = getattr(mechanism, "sparsity", None) or mechanism.max_groups
    close = max(low, math.ceil(threshold / 2**bits)) if threshold > NOTHING else 5
    spread = reach_of(law) + (0 if common is None else reach_of(common))
    large = max(close, 0) + math.ceil(spread / 2**bits) + 1
    kinds = [("new", low - 1, per_group), ("close", close, per_group), ("large", large, per_group)]
    if threshold == NOTHING:
        kinds = [("listed", 0, per_group)]
    kinds += [("other", large, 0)] if common is not None else []
    for chosen in combinations_with_replacement(kinds, groups):
        moved = sum(unit > 0 for _, _, unit in chosen)
        if not 0 < moved <= mechanism.max_groups:
            continue
        before, after = [count for _, count, _ in chosen], [count + unit for _, count, unit in chosen]
        sides = thresholded(before, after, own=law, common=common, threshold=threshold, low=low, bits=bits)
        yield Pair(" + ".join(name for name, _, _ in chosen), *sides)


def group_with_sum(mechanism: Any, law_of_sum: Law, steps: int) -> Iterator[Pair]:
    """One group with a count and a sum that the unit moves by `steps`; the sum is shown where the count is."""
    bits, law = mechanism.lattice_bits, own_law(mechanism)
    threshold = int(Fraction(mechanism.threshold) * 2**bits)
    large = int(mechanism.threshold) + math.ceil(reach_of(law) / 2**bits) + 1
    x = np.arange(threshold + 1, ((large + 1) << bits) + reach_of(law) + 1)
    y = np.arange(-reach_of(law_of_sum), reach_of(law_of_sum) + steps + 1)

    def output(count: int, moved: int) -> Floats:
        if count == 0:
            return np.append(1.0, np.zeros(len(x) * len(y)))
        seen = masses(law, x - (count << bits))
        values = np.multiply.outer(seen, masses(law_of_sum, y - moved)).ravel()
        return np.append(1 - seen.sum(), values)

    for name, count in (("new", 0), ("close", int(mechanism.threshold)), ("large", large)):
        yield Pair(f"{name} with a sum", output(count, 0), output(count + 1, steps))


def too_many_groups(mechanism: CorrelatedGaussian, counts: Sequence[Sequence[int]]) -> Iterator[Pair]:
    """More non-empty groups than the sparsity allows: the next largest count is subtracted from all."""
    for before in counts:
        for unit in product((0, 1), repeat=len(before)):
            if not any(unit):
                continue
            after = [count + moved for count, moved in zip(before, unit, strict=True)]
            sparse = [enforce_sparsity(np.array(side), mechanism.sparsity).tolist() for side in (before, after)]
            yield _correlated_pair(mechanism, f"{before} and {unit}", *sparse)


def sketches(mechanism: CorrelatedGaussian, blocks: Sequence[Mapping[str, int]]) -> Iterator[Pair]:
    """A Misra-Gries sketch of blocks of units; the unit comes into each block in turn, with every set of groups."""
    labels = sorted({label for block in blocks for label in block})

    def sketch(parts: Iterable[Mapping[str, int]]) -> dict[str, int]:
        counters = MisraGries(mechanism.sparsity, pa.schema([("key", pa.string())]))
        for part in parts:
            here = {label: count for label, count in part.items() if count}
            keys = pa.table({"key": pa.array(list(here), pa.string())})
            counters.add(keys, np.array(list(here.values()), np.int64))
        histogram = counters.histogram()
        return dict(zip(histogram.keys.column(0).to_pylist(), histogram.counts.tolist(), strict=True))

    without = sketch(blocks)
    for place, block in enumerate(blocks):
        for unit in product((0, 1), repeat=len(labels)):
            if not any(unit):
                continue
            more = {label: block.get(label, 0) + moved for label, moved in zip(labels, unit, strict=True)}
            with_ = sketch([*blocks[:place], more, *blocks[place + 1 :]])
            seen = [label for label in labels if without.get(label, 0) or with_.get(label, 0)]
            sides = [[side.get(label, 0) for label in seen] for side in (without, with_)]
            if sides[0] != sides[1]:
                yield _correlated_pair(mechanism, f"block {place}, groups {unit}", *sides)


def _correlated_pair(mechanism: CorrelatedGaussian, name: str, before: list[int], after: list[int]) -> Pair:
    bits, own, common = mechanism.lattice_bits, own_law(mechanism), common_law(mechanism)
    threshold = int(mechanism.threshold * 2**bits)
    return Pair(name, *thresholded(before, after, own=own, common=common, threshold=threshold, low=1, bits=bits))


def lists_above_base(mechanism: CorrelatedTopK, counts: Sequence[Sequence[int]]) -> Iterator[Pair]:
    """Residuals above the (k + 1)-th count and the noisy base itself, for lists of k + 1 counts."""
    bits, own, common = mechanism.lattice_bits, own_law(mechanism), common_law(mechanism)
    base_law = RoundedGaussian(Fraction(math.sqrt(mechanism.base_variance) * mechanism.independent_std), bits)
    assert common is not None
    shared = np.arange(-reach_of(common), reach_of(common) + 1)
    weights = masses(common, shared)
    limit = int(mechanism.threshold * 2**bits)

    def output(residuals: Sequence[int], base: int, bases: Sequence[int], most: int) -> Floats:
        reach = reach_of(base_law) + reach_of(common)
        y = np.arange((min(bases) << bits) - reach, (max(bases) << bits) + reach + 1)
        parts = [masses(base_law, y[None, :] - (base << bits) + shared[:, None])]
        top = (most << bits) + reach_of(own) + reach_of(common)
        x = np.arange(limit + 1, max(limit + 1, top) + 1)
        for count in residuals:
            law = np.zeros((len(shared), len(x) + 1))
            law[:, 0] = 1.0
            if count > 0:
                law[:, 1:] = masses(own, x[None, :] - (count << bits) - shared[:, None])
                law[:, 0] = 1 - law[:, 1:].sum(axis=1)
            parts.append(law)
        return mix(weights, parts)

    for before in counts:
        for unit in product((0, 1), repeat=len(before)):
            if not any(unit):
                continue
            after = [count + moved for count, moved in zip(before, unit, strict=True)]
            bases = [sorted(side)[-mechanism.k - 1] for side in (before, after)]
            residuals = [[max(0, c - base) for c in side] for side, base in zip((before, after), bases, strict=True)]
            seen = [i for i in range(len(before)) if residuals[0][i] or residuals[1][i]]
            most = max(max(side) for side in residuals)
            first, second = (
                output([side[i] for i in seen], base, bases, most) for side, base in zip(residuals, bases, strict=True)
            )
            yield Pair(f"{before} and {unit}", first, second)


def lists_from_top(mechanism: FromTop, labels: str, most: int) -> Iterator[Pair]:
    """All neighbours with counts up to `most`; the noisy threshold is part of the view."""
    law = mechanism.law
    high = mechanism.threshold + most + mechanism.max_per_group + 5
    for without, with_ in neighbours(labels, most, mechanism.max_groups or len(labels), mechanism.max_per_group):
        (few, base), (more, other) = top(without, mechanism.most_groups), top(with_, mechanism.most_groups)
        seen = sorted(set(few) | set(more))
        first = from_top_law(few, base, seen, law, mechanism.threshold, high)
        second = from_top_law(more, other, seen, law, mechanism.threshold, high)
        yield Pair(f"{without} and {with_}", first, second)


def rankings(mechanism: Ranked, labels: str, most: int) -> Iterator[Pair]:
    """All neighbours with counts up to `most`; a session asks its queries one after the other about the same groups."""
    coefficient = mechanism.symbol_epsilon / mechanism.max_per_group

    def output(counts: Mapping[str, int]) -> Named:
        listed, base = top(counts, mechanism.shortlist)
        each = mechanism.symbols // mechanism.queries
        one = ranked_law(listed, base + mechanism.threshold, coefficient, each)
        sequences: dict[Any, float] = {(): 1.0}
        for _ in range(mechanism.queries):
            sequences = {(*a, b): p * q for a, p in sequences.items() for b, q in one.items()}
        return dict(sequences)

    for without, with_ in neighbours(labels, most, len(labels), mechanism.max_per_group):
        first, second = aligned(output(without), output(with_))
        yield Pair(f"{without} and {with_}", first, second)


def running_counts(mechanism: ContinualCounts, reach: int) -> Iterator[Pair]:
    """A group over three rounds; the event comes in each of them, into a group that is new, small or close."""
    assert mechanism.rounds == 3
    t = mechanism.threshold
    for others in ((0, 0, 0), (0, 0, 1), (0, 1, 1), (1, 1, 2), (t, t + 1, t + 2), (t + reach, t + reach, t + reach)):
        for event in (1, 2, 3):
            after = [count + (number >= event) for number, count in enumerate(others, 1)]
            first, second = aligned(
                three_rounds(others, mechanism.law, t, reach), three_rounds(after, mechanism.law, t, reach)
            )
            yield Pair(f"{others}, event in round {event}", first, second)


def bars(mechanism: TruncatedLaplace, counts: Sequence[int]) -> Iterator[Pair]:
    """Bars that are empty, smaller than the noise or larger."""
    high = max(counts) + 1
    for before in combinations_with_replacement(counts, mechanism.max_groups):
        sides = (before, tuple(count + 1 for count in before))
        first, second = (truncated(side, mechanism.law, high) for side in sides)
        yield Pair(f"bars of {before}", first, second)


def normal_shift(name: str, mu: float, new: float = 0.0) -> Pair:
    """N(mu, 1) against N(0, 1) in 20,000 cells, and an outcome that only the first has, with probability `new`."""
    edges = np.linspace(-9, mu + 9, 20_001)

    def cells(shift: float) -> Floats:
        """Differences of the normal cdf, taken in the nearer tail."""
        left = edges - shift
        return np.where(left[:-1] > 0, -np.diff(ndtr(-left)), np.diff(ndtr(left)))

    return Pair(name, np.append(cells(0.0), 0.0), np.append((1 - new) * cells(mu), new))
