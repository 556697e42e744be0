"""Pairs with dense codes: the exact integer arithmetic of the rounds and of counting, in NumPy.

The same arithmetic in SQL is in `duckdb/pairs.py` (for pairs that do not fit into memory) and in `spark/pairs.py`, line by
line, so the sums are the same bits: squares add up as integers, the one square root is taken of an integer below 2^53, and
everything is rounded down.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dphist.engines.base import Integers, LocalGroups
from dphist.engines.election import elect, lists_of, prefer
from dphist.errors import InvalidParameter
from dphist.mechanisms.tuning import FACTOR_BITS, LATTICE_BITS, NORM_BITS, ONE, WEIGHT_BITS
from dphist.quantiles import Bins

Codes = NDArray[np.int32]

BinsOf = Callable[[Integers, int], dict[str, Bins]]
"""The bins of some groups, by their codes, from at most so many of them of each unit, as `bins_i`."""

CHUNK: Final = 1 << 21
"""Pairs worked on at a time: what is held beside the pairs themselves stays near 100 MB."""


def no_keys(codes: Integers) -> pa.Table:
    """Pairs of numbers alone."""
    raise InvalidParameter("pairs with the keys of their groups", "codes alone")


def no_bins(codes: Integers, most: int) -> dict[str, Bins]:
    """Pairs without measures of bins."""
    return {}


class CodedPairs:
    """Pairs whose groups are numbered from 0 in the order of their keys: what the rounds ask, from sums over the codes."""

    __slots__ = ()
    groups: int
    names: tuple[str, ...]
    keys_of: Callable[[Integers], pa.Table]
    bins_of: BinsOf

    def eligible(self) -> NDArray[np.bool_]:
        """Which groups some unit sampled."""
        raise NotImplementedError

    def weighted_sums(self, weights: Integers) -> Integers:
        """For each group the sum over units of `unit_weights`: sampled pairs only, in steps of 2^-LATTICE_BITS."""
        raise NotImplementedError

    def class_sums(
        self, weights: Integers, chosen: Integers, bounds: Sequence[int], power: int, shifts: Mapping[str, int]
    ) -> dict[str, Integers]:
        """For each chosen group and class: `units`, weights in steps of 2^-LATTICE_BITS, and the steps of each aggregate."""
        raise NotImplementedError

    def norms(self, weights: Integers, edges: Integers, power: int) -> Integers:
        """How many units have a norm in which bucket, over all their pairs."""
        raise NotImplementedError

    def degree_histogram(self, edges: Integers) -> Integers:
        """How many units have a number of groups in which bucket."""
        raise NotImplementedError

    def share_sums(self) -> Integers:
        """For each group the sum over its units of `unit_shares`."""
        raise NotImplementedError

    def covered_units(self, released: NDArray[np.bool_]) -> tuple[int, int]:
        """How many units have a pair with a released group, and how many have none."""
        raise NotImplementedError

    def votes(self, capacity: int, scores: Integers | None) -> Integers:
        """The votes of each group: `elect` of the units in the order of their codes, with lists by score, then by place."""
        raise NotImplementedError

    def shares(self) -> LocalGroups:
        """Every group has some unit."""
        return LocalGroups(np.arange(self.groups), {"exact": self.share_sums()}, self.keys_of)

    def elect(self, capacity: int, look: LocalGroups | None = None) -> LocalGroups:
        """Groups without votes are left out: they are never shown."""
        scores = None if look is None else self._spread(look, "first")
        votes = self.votes(capacity, scores)
        codes = np.flatnonzero(votes)
        first = np.zeros(len(codes), np.int64) if scores is None else scores[codes]
        return LocalGroups(codes, {"votes": votes[codes], "first": first}, self.keys_of)

    def first_round(self) -> LocalGroups:
        """Every weight is 1."""
        codes = np.flatnonzero(self.eligible())
        zero = np.zeros(len(codes), np.int64)
        ones = LocalGroups(codes, {"total": zero, "first": zero, "weight": np.full(len(codes), ONE)}, self.keys_of)
        return self.next_round(ones)

    def next_round(self, state: LocalGroups) -> LocalGroups:
        """The exact sums for the weights of the state."""
        exact = self.weighted_sums(self._spread(state))[state.codes]
        columns = {"total": state.columns["total"], "first": state.columns["first"], "exact": exact}
        return LocalGroups(state.codes, columns, state.keys_of)

    def norm_histogram(self, weights: LocalGroups, edges: Integers, power: int) -> Integers:
        """One bucket for each unit that has any weight."""
        return self.norms(self._spread(weights), edges, power)

    def by_class(
        self,
        weights: LocalGroups,
        bounds: Sequence[int],
        light: int,
        power: int,
        shifts: Sequence[int],
        most: int = 1,
    ) -> LocalGroups:
        """One pass for everything; bins are where the pairs were written down."""
        named = dict(zip(self.names, shifts, strict=True))
        sums = self.class_sums(self._spread(weights), weights.codes, bounds, power, named)
        columns: dict[str, Any] = {"weight": weights.columns["weight"], **self.bins_of(weights.codes, most)}
        columns |= {f"class_{i}": column for i, column in enumerate(sums["units"].T, 1)}
        for i, name in enumerate(self.names, 1):
            columns |= {
                f"light_{i}": sums[name][:, :light].sum(axis=1),
                f"heavy_{i}": sums[name][:, light:].sum(axis=1),
            }
        return LocalGroups(weights.codes, columns, weights.keys_of)

    def coverage(self, groups: LocalGroups) -> tuple[int, int]:
        """By their codes."""
        released = np.zeros(self.groups, np.bool_)
        released[groups.codes] = True
        return self.covered_units(released)

    def _spread(self, state: LocalGroups, column: str = "weight") -> Integers:
        """A column of all groups by their codes, 0 for those that are not in the state."""
        values = np.zeros(self.groups, np.int64)
        values[state.codes] = state.columns[column]
        return values


def unit_shares(degrees: Integers) -> Integers:
    """floor(2^LATTICE_BITS/d) for each of a unit's d groups: together at most 2^LATTICE_BITS, that is 1."""
    return np.asarray((1 << LATTICE_BITS) // np.maximum(degrees, 1))


def norm_factors(squares: Integers) -> Integers:
    """Per unit, floor(2^NORM_BITS/sqrt(squares)) by an exact integer root; 0 for a unit without weight.

    The quotient is below 2^53, and the correctly rounded root of such an integer never reaches the next one from below.
    """
    whole = np.maximum(squares, 1)
    roots = np.sqrt(((1 << 2 * NORM_BITS) // whole).astype(np.float64)).astype(np.int64)
    return np.asarray(np.where(squares > 0, roots, 0))


def unit_weights(weights: Integers, factors: Integers) -> Integers:
    """w = floor(a f / 2^(NORM_BITS - LATTICE_BITS)) <= 2^LATTICE_BITS a/sqrt(sum a^2): rounded down twice.

    So a unit's sum of w^2 is at most 4^LATTICE_BITS, that is a norm of at most 1, whatever the weights are.
    """
    return np.asarray((weights * factors) >> (NORM_BITS - LATTICE_BITS))


def clip_factors(norms: Integers, cap: int, power: int) -> Integers:
    """Per unit, floor(2^FACTOR_BITS min(1, cap/norm)), of roots if the power is 2; both in units of 2^-(WEIGHT_BITS power)."""
    inside = norms <= cap
    some = np.where(inside, 1, norms)
    if power == 1:
        return np.asarray(np.where(inside, 1 << FACTOR_BITS, (cap << FACTOR_BITS) // some))
    roots = np.sqrt(((cap << 2 * FACTOR_BITS) // some).astype(np.float64)).astype(np.int64)
    return np.asarray(np.where(inside, 1 << FACTOR_BITS, roots))


def clipped_steps(steps: Integers, weights: Integers, factors: Integers, shift: int) -> Integers:
    """steps 2^shift a f, rounded towards zero, so that the norm is at most that of the exact value."""
    scaled = np.abs(steps) * (weights * factors)
    down = WEIGHT_BITS + FACTOR_BITS - shift
    return np.asarray(np.sign(steps) * (scaled >> down if down >= 0 else scaled << -down))


def bucket(values: Integers, edges: Integers) -> NDArray[np.intp]:
    """The bucket [edges_k, edges_k+1) of each value; values outside go to the first or the last."""
    return np.asarray(np.clip(np.searchsorted(edges, values, side="right") - 1, 0, len(edges) - 1))


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class MemoryPairs(CodedPairs):
    """The pairs as arrays of dense codes, in any order. `sampled` marks each unit's fixed sample; None if all are.

    For an election a unit's code is its turn, and `place` numbers its groups, from 0, in its own order.

    Sums are kept in doubles, which hold every integer below 2^53 exactly: 2^36 pairs of at most 2^16 steps each, and the
    squares of 2^32 groups of one unit.
    """

    unit: Codes
    group: Codes
    units: int
    groups: int
    sampled: NDArray[np.bool_] | None = None
    steps: Mapping[str, Integers] = field(default_factory=dict)
    keys_of: Callable[[Integers], pa.Table] = no_keys
    place: Codes | None = None
    bins_of: BinsOf = no_bins

    @property
    def names(self) -> tuple[str, ...]:  # type: ignore[override]
        """The names of the aggregates."""
        return tuple(self.steps)

    def __post_init__(self) -> None:
        if self.unit.shape != self.group.shape or (self.sampled is not None and self.sampled.shape != self.unit.shape):
            raise InvalidParameter("arrays of pairs of the same length", "different lengths")

    def eligible(self) -> NDArray[np.bool_]:
        """Which groups some unit sampled."""
        found = np.zeros(self.groups, np.bool_)
        for part in self._parts(sampled=True):
            found[self.group[part]] = True
        return found

    def weighted_sums(self, weights: Integers) -> Integers:
        """One pass to add up each unit's squares, one to add up the weights of each group.

        `unit_weights` in doubles: a, f and their product are integers below 2^53, and a power of two scales exactly.
        """
        table = weights.astype(np.float64)
        factors = norm_factors(self._norms(weights, 2, sampled=True)) * 2.0 ** (LATTICE_BITS - NORM_BITS)
        total = np.zeros(self.groups)
        for part in self._weighted_parts(weights, sampled=True):
            group = self.group[part]
            product = table[group]
            product *= factors[self.unit[part]]
            total += np.bincount(group, np.floor(product, out=product), self.groups)
        return total.astype(np.int64)

    def norms(self, weights: Integers, edges: Integers, power: int) -> Integers:
        """One bucket for each unit that has any weight."""
        norms = self._norms(weights, power, sampled=False)
        return _histogram(norms[norms > 0], edges)

    def class_sums(
        self, weights: Integers, chosen: Integers, bounds: Sequence[int], power: int, shifts: Mapping[str, int]
    ) -> dict[str, Integers]:
        """One pass for the norms, one for everything that is added up: weights scaled down by clip_factors, rounded down, so
        that a unit's norm is at most the bound of its class.
        """
        norms = self._norms(weights, power, sampled=False)
        factors = clip_factors(norms, bounds[-1], power)
        classes = np.minimum(np.searchsorted(np.array(bounds), norms), len(bounds) - 1)
        rows, cells = np.zeros(self.groups, np.int64), len(chosen) * len(bounds)
        rows[chosen] = np.arange(len(chosen)) * len(bounds)
        table = weights.astype(np.float64)
        scaled = factors * 2.0 ** (LATTICE_BITS - WEIGHT_BITS - FACTOR_BITS)
        units = np.zeros(cells)
        total = {name: np.zeros(cells, np.int64) for name in shifts}
        for part in self._weighted_parts(weights, sampled=False):
            group, unit = self.group[part], self.unit[part]
            cell = rows[group] + classes[unit]
            product = table[group]
            product *= scaled[unit]
            units += np.bincount(cell, np.floor(product, out=product), cells)
            for name, shift in shifts.items():
                np.add.at(
                    total[name], cell, clipped_steps(self.steps[name][part], weights[group], factors[unit], shift)
                )
        return {
            name: column.astype(np.int64).reshape(len(chosen), len(bounds))
            for name, column in {"units": units, **total}.items()
        }

    def degree_histogram(self, edges: Integers) -> Integers:
        """One bucket for each unit."""
        return _histogram(self._degrees(), edges)

    def share_sums(self) -> Integers:
        """One pass: the shares of a unit are alike. In doubles, which hold the integers exactly."""
        shares = unit_shares(self._degrees()).astype(np.float64)
        total = np.zeros(self.groups)
        for part in self._parts(sampled=False):
            total += np.bincount(self.group[part], shares[self.unit[part]], self.groups)
        return total.astype(np.int64)

    def covered_units(self, released: NDArray[np.bool_]) -> tuple[int, int]:
        """One pass to mark units. Every code of a unit has a pair."""
        covered = np.zeros(self.units, np.bool_)
        for part in self._parts(sampled=False):
            covered[self.unit[part][released[self.group[part]]]] = True
        number = int(np.count_nonzero(covered))
        return number, self.units - number

    def votes(self, capacity: int, scores: Integers | None) -> Integers:
        """Deferred acceptance on arrays."""
        if self.place is None:
            raise InvalidParameter("pairs with places for an election", "pairs without")
        lists = lists_of(self.unit, self.group, self.place, self.units)
        return elect(lists if scores is None else prefer(lists, scores), self.groups, capacity)

    def _degrees(self) -> Integers:
        return np.bincount(self.unit, minlength=self.units).astype(np.int64)

    def _norms(self, weights: Integers, power: int, *, sampled: bool) -> Integers:
        squares = (weights**power).astype(np.float64)
        total = np.zeros(self.units)
        for part in self._weighted_parts(weights, sampled=sampled):
            total += np.bincount(self.unit[part], squares[self.group[part]], self.units)
        return total.astype(np.int64)

    def _weighted_parts(self, weights: Integers, *, sampled: bool) -> Iterator[NDArray[np.intp] | slice]:
        """Parts of the pairs whose group has any weight: in later rounds these are few."""
        alive = weights > 0
        if alive.all():
            yield from self._parts(sampled=sampled)
            return
        for part in self._parts(sampled=sampled):
            kept = np.flatnonzero(alive[self.group[part]])
            if len(kept):
                yield kept + part.start if isinstance(part, slice) else part[kept]

    def _parts(self, *, sampled: bool) -> Iterator[NDArray[np.intp] | slice]:
        for first in range(0, len(self.unit), CHUNK):
            last = min(first + CHUNK, len(self.unit))
            if sampled and self.sampled is not None:
                yield np.flatnonzero(self.sampled[first:last]) + first
            else:
                yield slice(first, last)


def _histogram(values: Integers, edges: Integers) -> Integers:
    return np.bincount(bucket(values, edges), minlength=len(edges)).astype(np.int64)
