"""Worst-case neighbours of every mechanism with their output laws, enumerated."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from itertools import combinations_with_replacement, product
from typing import TypeAlias

import numpy as np
import pyarrow as pa
from scipy.special import ndtr

from dphist.audit import laws
from dphist.audit.findings import Pair
from dphist.mechanisms import (
    ContinualCounts,
    CorrelatedGaussian,
    CorrelatedTopK,
    DiscreteCorrelatedGaussian,
    DiscreteGaussianThreshold,
    FromTop,
    GaussianRecords,
    KnownGroups,
    LaplaceRecords,
    LaplaceThreshold,
    Ranked,
    SparseGaussian,
    TruncatedLaplace,
)
from dphist.mechanisms.correlated_gaussian import enforce_sparsity
from dphist.noise import DiscreteGaussian, DiscreteLaplace, Law, RoundedGaussian
from dphist.sketch import MisraGries

Counted: TypeAlias = (
    SparseGaussian
    | LaplaceThreshold
    | DiscreteGaussianThreshold
    | CorrelatedGaussian
    | DiscreteCorrelatedGaussian
    | KnownGroups
    | LaplaceRecords
    | GaussianRecords
)

NOTHING = -(2**40)
"""A threshold that everything passes."""


def own_law(made: Counted | CorrelatedTopK) -> Law:
    """The noise that every group has for itself."""
    if isinstance(made, LaplaceThreshold | LaplaceRecords):
        return DiscreteLaplace(Fraction(made.scale))
    if isinstance(made, DiscreteGaussianThreshold | DiscreteCorrelatedGaussian):
        return DiscreteGaussian(made.variance)
    if isinstance(made, GaussianRecords):
        return made.law
    std = made.noise_std if isinstance(made, SparseGaussian) else made.independent_std
    return RoundedGaussian(Fraction(std), made.lattice_bits)


def common_law(made: Counted | CorrelatedTopK) -> Law | None:
    """The noise that all groups share."""
    if isinstance(made, DiscreteCorrelatedGaussian):
        return DiscreteGaussian(made.common_variance)
    if isinstance(made, CorrelatedGaussian | KnownGroups | CorrelatedTopK) and made.correlation > 0:
        return RoundedGaussian(Fraction(math.sqrt(made.correlation) * made.independent_std), made.lattice_bits)
    return None


def bits_of(made: Counted) -> int:
    """How fine the lattice of the counts is."""
    return 0 if isinstance(made, LaplaceRecords) else made.lattice_bits


def counted(made: Counted, *, per_group: int = 1, strict: bool = True, own: Law | None = None) -> Iterator[Pair]:
    """All kinds of groups that one unit can be in: new, close to the threshold, large; and large ones it is not in.

    With independent noise a group that does not change cancels; with a common noise it tells about the common noise.
    """
    bits, law, common = bits_of(made), own or own_law(made), common_law(made)
    if isinstance(made, KnownGroups):
        threshold, low, groups = NOTHING, 0, made.groups
    else:
        threshold = int(Fraction(made.threshold) * 2**bits)
        low = getattr(made, "low_threshold", 1)
        groups = made.sparsity if isinstance(made, CorrelatedGaussian | DiscreteCorrelatedGaussian) else made.max_groups
    close = max(low, math.ceil(threshold / 2**bits)) if threshold > NOTHING else 5
    spread = laws.reach_of(law) + (0 if common is None else laws.reach_of(common))
    large = max(close, 0) + math.ceil(spread / 2**bits) + 1
    kinds = [("new", low - 1, per_group), ("close", close, per_group), ("large", large, per_group)]
    if isinstance(made, KnownGroups):
        kinds = [("listed", 0, per_group)]
    kinds += [("other", large, 0)] if common is not None else []
    for chosen in combinations_with_replacement(kinds, groups):
        moved = sum(unit > 0 for _, _, unit in chosen)
        if not 0 < moved <= made.max_groups:
            continue
        before = [count for _, count, _ in chosen]
        after = [count + unit for _, count, unit in chosen]
        first, second = laws.thresholded(
            before, after, own=law, common=common, threshold=threshold, low=low, bits=bits, strict=strict
        )
        yield Pair(" + ".join(name for name, _, _ in chosen), first, second)


def with_a_sum(made: SparseGaussian | LaplaceThreshold, law_of_sum: Law, steps: int) -> Iterator[Pair]:
    """One group with a count and a sum that the unit moves by `steps`; the sum is shown where the count is."""
    bits, law = made.lattice_bits, own_law(made)
    threshold = int(Fraction(made.threshold) * 2**bits)
    large = int(made.threshold) + math.ceil(laws.reach_of(law) / 2**bits) + 1
    x = np.arange(threshold + 1, ((large + 1) << bits) + laws.reach_of(law) + 1)
    y = np.arange(-laws.reach_of(law_of_sum), laws.reach_of(law_of_sum) + steps + 1)

    def output(count: int, moved: int) -> laws.Floats:
        if count == 0:
            return np.append(1.0, np.zeros(len(x) * len(y)))
        seen = laws.masses(law, x - (count << bits))
        values = np.multiply.outer(seen, laws.masses(law_of_sum, y - moved)).ravel()
        return np.append(1 - seen.sum(), values)

    for name, count in (("new", 0), ("close", int(made.threshold)), ("large", large)):
        yield Pair(f"{name} with a sum", output(count, 0), output(count + 1, steps))


def too_many_groups(made: CorrelatedGaussian, counts: Sequence[Sequence[int]]) -> Iterator[Pair]:
    """More non-empty groups than the sparsity allows: the next largest count is subtracted from all."""
    for before in counts:
        for unit in product((0, 1), repeat=len(before)):
            if not any(unit):
                continue
            after = [count + moved for count, moved in zip(before, unit, strict=True)]
            sparse = [enforce_sparsity(np.array(side), made.sparsity).tolist() for side in (before, after)]
            yield _correlated_pair(made, f"{before} and {unit}", *sparse)


def sketched(made: CorrelatedGaussian, blocks: Sequence[Mapping[str, int]]) -> Iterator[Pair]:
    """A Misra-Gries sketch of blocks of units; the unit comes into each block in turn, with every set of groups."""
    labels = sorted({label for block in blocks for label in block})

    def sketch(parts: Iterable[Mapping[str, int]]) -> dict[str, int]:
        made_of = MisraGries(made.sparsity, pa.schema([("key", pa.string())]))
        for part in parts:
            here = {label: count for label, count in part.items() if count}
            keys = pa.table({"key": pa.array(list(here), pa.string())})
            made_of.add(keys, np.array(list(here.values()), np.int64))
        found = made_of.histogram()
        return dict(zip(found.keys.column(0).to_pylist(), found.counts.tolist(), strict=True))

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
                yield _correlated_pair(made, f"block {place}, groups {unit}", *sides)


def _correlated_pair(made: CorrelatedGaussian, name: str, before: list[int], after: list[int]) -> Pair:
    bits = made.lattice_bits
    first, second = laws.thresholded(
        before, after, own=own_law(made), common=common_law(made), threshold=int(made.threshold * 2**bits), low=1, bits=bits
    )  # fmt: skip
    return Pair(name, first, second)


def largest(made: CorrelatedTopK, counts: Sequence[Sequence[int]]) -> Iterator[Pair]:
    """Residuals above the (k + 1)-th count and the noisy base itself, for lists of k + 1 counts."""
    bits, own, common = made.lattice_bits, own_law(made), common_law(made)
    base_law = RoundedGaussian(Fraction(math.sqrt(made.base_variance) * made.independent_std), bits)
    assert common is not None
    shared = np.arange(-laws.reach_of(common), laws.reach_of(common) + 1)
    weights = laws.masses(common, shared)
    limit = int(made.threshold * 2**bits)

    def output(residuals: Sequence[int], base: int, bases: Sequence[int], most: int) -> laws.Floats:
        reach = laws.reach_of(base_law) + laws.reach_of(common)
        y = np.arange((min(bases) << bits) - reach, (max(bases) << bits) + reach + 1)
        parts = [laws.masses(base_law, y[None, :] - (base << bits) + shared[:, None])]
        top = (most << bits) + laws.reach_of(own) + laws.reach_of(common)
        x = np.arange(limit + 1, max(limit + 1, top) + 1)
        for count in residuals:
            law = np.zeros((len(shared), len(x) + 1))
            law[:, 0] = 1.0
            if count > 0:
                law[:, 1:] = laws.masses(own, x[None, :] - (count << bits) - shared[:, None])
                law[:, 0] = 1 - law[:, 1:].sum(axis=1)
            parts.append(law)
        return laws._mixed(weights, parts)

    for before in counts:
        for unit in product((0, 1), repeat=len(before)):
            if not any(unit):
                continue
            after = [count + moved for count, moved in zip(before, unit, strict=True)]
            bases = [sorted(side)[-made.k - 1] for side in (before, after)]
            residuals = [[max(0, c - base) for c in side] for side, base in zip((before, after), bases, strict=True)]
            seen = [i for i in range(len(before)) if residuals[0][i] or residuals[1][i]]
            most = max(max(side) for side in residuals)
            first, second = (
                output([side[i] for i in seen], base, bases, most) for side, base in zip(residuals, bases, strict=True)
            )
            yield Pair(f"{before} and {unit}", first, second)


def from_top(made: FromTop, labels: str, most: int) -> Iterator[Pair]:
    """All neighbours with counts up to `most`; the noisy threshold is part of the view."""
    law = DiscreteGaussian(made.variance)
    high = made.threshold + most + made.max_per_group + 5
    for without, with_ in laws.neighbours(labels, most, made.max_groups or len(labels), made.max_per_group):
        (few, base), (more, other) = laws.top(without, made.most_groups), laws.top(with_, made.most_groups)
        seen = sorted(set(few) | set(more))
        first = laws.from_top_law(few, base, seen, law, made.threshold, high)
        second = laws.from_top_law(more, other, seen, law, made.threshold, high)
        yield Pair(f"{without} and {with_}", first, second)


def ranked(made: Ranked, labels: str, most: int, threshold: int | None = None) -> Iterator[Pair]:
    """All neighbours with counts up to `most`; a session asks its queries one after the other about the same groups."""
    limit = made.threshold if threshold is None else threshold
    coefficient = made.symbol_epsilon / made.max_per_group

    def output(counts: Mapping[str, int]) -> laws.Named:
        listed, base = laws.top(counts, made.shortlist)
        each = made.symbols // made.queries
        one = laws.ranked_law(listed, base + limit, coefficient, each)
        found: dict[tuple[Hashable, ...], float] = {(): 1.0}
        for _ in range(made.queries):
            found = {(*a, b): p * q for a, p in found.items() for b, q in one.items()}
        return {sequence: chance for sequence, chance in found.items()}

    for without, with_ in laws.neighbours(labels, most, len(labels), made.max_per_group):
        first, second = laws.aligned(output(without), output(with_))
        yield Pair(f"{without} and {with_}", first, second)


def running(made: ContinualCounts, reach: int) -> Iterator[Pair]:
    """A group over three rounds; the event comes in each of them, into a group that is new, small or close."""
    assert made.rounds == 3
    t = made.threshold
    for others in ((0, 0, 0), (0, 0, 1), (0, 1, 1), (1, 1, 2), (t, t + 1, t + 2), (t + reach, t + reach, t + reach)):
        for event in (1, 2, 3):
            after = [count + (number >= event) for number, count in enumerate(others, 1)]
            first, second = laws.aligned(
                laws.three_rounds(others, made.variance, t, reach), laws.three_rounds(after, made.variance, t, reach)
            )
            yield Pair(f"{others}, event in round {event}", first, second)


def bars(made: TruncatedLaplace, counts: Sequence[int]) -> Iterator[Pair]:
    """Bars that are empty, smaller than the noise or larger."""
    high = max(counts) + 1
    for before in combinations_with_replacement(counts, made.max_groups):
        sides = (before, tuple(count + 1 for count in before))
        first, second = (laws.truncated(side, made.law, high) for side in sides)
        yield Pair(f"bars of {before}", first, second)


def normal_shift(name: str, mu: float, new: float = 0.0) -> Pair:
    """N(mu, 1) against N(0, 1) in 20,000 cells, and an outcome that only the first has, with probability `new`."""
    edges = np.linspace(-9, mu + 9, 20_001)

    def cells(shift: float) -> laws.Floats:
        """Differences of the normal cdf, taken in the nearer tail."""
        left = edges - shift
        return np.where(left[:-1] > 0, -np.diff(ndtr(-left)), np.diff(ndtr(left)))

    return Pair(name, np.append(cells(0.0), 0.0), np.append((1 - new) * cells(mu), new))
