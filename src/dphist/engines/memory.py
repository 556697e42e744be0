"""Pairs with dense codes: the exact integer arithmetic of the rounds and of counting, in NumPy, on slices of units.

`pairs` has the same arithmetic in SQL, line by line, for pairs that do not fit into memory and for Spark. Both give the same
bits: squares add up as integers, the only square root is taken of an integer below 2^53, and every number is rounded down.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import pairwise
from threading import Lock
from typing import Any, Final, Self, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dphist.aggregates.tree import Bins
from dphist.engines.base import Integers
from dphist.engines.election import Lists, elect, prefer
from dphist.engines.histogram import LocalGroups
from dphist.errors import EngineFailure, InvalidParameter
from dphist.mechanisms.tuning import FACTOR_BITS, LATTICE_BITS, NORM_BITS, ONE, WEIGHT_BITS

Codes = NDArray[np.int32]
Floats = NDArray[np.float64]
_T = TypeVar("_T", bound=NDArray[Any])

BinsOf = Callable[[Integers, int], dict[str, Bins]]
"""A function of codes of groups and a number of groups per unit. It gives the bins of the groups as `bins_i`."""

CHUNK: Final = 1 << 17
"""Pairs of a slice, unless one unit has more: a thread holds some 64 bytes for each, which fit into a cache."""


def no_keys(codes: Integers) -> pa.Table:
    """Pairs of numbers alone."""
    raise InvalidParameter("pairs with the keys of their groups", "codes alone")


def no_bins(codes: Integers, most: int) -> dict[str, Bins]:
    """Pairs without measures of bins."""
    return {}


class CodedPairs:
    """Pairs whose groups are numbered from 0 in the order of keys: rounds and elections from sums and votes by these codes."""

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
        """For each bucket, how many units have a norm in it, over all their pairs."""
        raise NotImplementedError

    def votes(self, capacity: int, scores: Integers | None) -> Integers:
        """The votes of each group: `elect` of the units in the order of their codes, with lists by score, then by place."""
        raise NotImplementedError

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
        return self.next_round(LocalGroups(codes, {"weight": np.full(len(codes), ONE)}, self.keys_of))

    def next_round(self, state: LocalGroups) -> LocalGroups:
        """The exact sums for the weights of the state."""
        exact = self.weighted_sums(self._spread(state))[state.codes]
        kept = {name: column for name, column in state.columns.items() if name != "weight"}
        return LocalGroups(state.codes, {**kept, "exact": exact}, state.keys_of)

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
        columns: dict[str, Any] = {**weights.columns, **self.bins_of(weights.codes, most)}
        columns |= {f"class_{i}": column for i, column in enumerate(sums["units"].T, 1)}
        for i, name in enumerate(self.names, 1):
            columns |= {
                f"light_{i}": sums[name][:, :light].sum(axis=1),
                f"heavy_{i}": sums[name][:, light:].sum(axis=1),
            }
        return LocalGroups(weights.codes, columns, weights.keys_of)

    def _spread(self, state: LocalGroups, column: str = "weight") -> Integers:
        """A column of all groups by their codes, 0 for groups that are not in the state."""
        values = np.zeros(self.groups, np.int64)
        values[state.codes] = state.columns[column]
        return values


def unit_shares(degrees: Integers) -> Integers:
    """floor(2^LATTICE_BITS/d) for each of a unit's d groups: together at most 2^LATTICE_BITS, that is 1."""
    return np.asarray((1 << LATTICE_BITS) // np.maximum(degrees, 1))


def norm_factors(squares: Integers) -> Integers:
    """Per unit, floor(2^NORM_BITS/sqrt(squares)) by an exact integer root; 0 for a unit without weight.

    The quotient is an integer below 2^53. Its correctly rounded root never reaches the next integer from below.
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
    """Per unit, floor(2^FACTOR_BITS min(1, q)), where q is cap/norm, or its root if the power is 2.

    Cap and norm are in units of 2^-(WEIGHT_BITS power).
    """
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
    """The pairs unit by unit, as arrays: unit u has the groups group[starts[u]:starts[u + 1]].

    sampled: how many groups of each unit, the first ones, are its fixed sample; None if all are. ordered: whether units
    stand in the order of their turns, and the groups of each unit in its own order, as an election needs.

    Each thread works on slices of units and has its own sums. Sums are kept in doubles, which hold every integer below
    2^53 exactly: 2^36 pairs of at most 2^16 steps each, and the squares of 2^32 groups of one unit. So slices change no
    bit of a sum.
    """

    starts: Integers
    group: Codes
    groups: int
    sampled: Integers | None = None
    steps: Mapping[str, Integers] = field(default_factory=dict)
    keys_of: Callable[[Integers], pa.Table] = no_keys
    ordered: bool = False
    bins_of: BinsOf = no_bins
    threads: int = 1

    @classmethod
    def of_rows(
        cls,
        unit: Codes,
        group: Codes,
        units: int,
        groups: int,
        sampled: NDArray[np.bool_] | None = None,
        steps: Mapping[str, Integers] | None = None,
        place: Codes | None = None,
        **more: Any,
    ) -> Self:
        """From pairs in any order; `sampled` marks the samples, `place` numbers each unit's pairs, from 0, in its order."""
        marks = np.ones(len(unit), np.bool_) if sampled is None else sampled
        if not len(unit) == len(group) == len(marks):
            raise InvalidParameter("arrays of pairs of the same length", "different lengths")
        order = np.lexsort((~marks if place is None else place, unit))
        return cls(
            starts=np.append(0, np.cumsum(np.bincount(unit, minlength=units))),
            group=group[order],
            groups=groups,
            sampled=None if sampled is None else np.bincount(unit[marks], minlength=units),
            steps={name: values[order] for name, values in (steps or {}).items()},
            ordered=place is not None,
            **more,
        )

    @property
    def units(self) -> int:
        """How many units there are."""
        return len(self.starts) - 1

    @property
    def degrees(self) -> Integers:
        """How many groups each unit has."""
        return np.diff(self.starts)

    @property
    def unit(self) -> Codes:
        """The unit of each pair."""
        return np.repeat(np.arange(self.units, dtype=np.int32), self.degrees)

    @property
    def names(self) -> tuple[str, ...]:  # type: ignore[override]
        """The names of the aggregates."""
        return tuple(self.steps)

    def eligible(self) -> NDArray[np.bool_]:
        """Which groups some unit sampled."""

        def mark(found: NDArray[np.bool_], first: int, last: int) -> None:
            found[self._slice(first, last, sampled=True).code] = True

        return self._added(mark, np.zeros(self.groups, np.bool_))

    def weighted_sums(self, weights: Integers) -> Integers:
        """The norm of each unit of a slice, then its weights, added up by group.

        `unit_weights` in doubles: a, f and their product are integers below 2^53, and a power of two scales exactly.
        """
        rank, given = _ranks(weights, np.flatnonzero(weights))

        def add(total: Floats, first: int, last: int) -> None:
            part = self._slice(first, last, sampled=True)
            cell = rank.take(part.code)
            product = given.take(cell).astype(np.float64)
            factors = norm_factors(part.added(product * product)) * 2.0 ** (LATTICE_BITS - NORM_BITS)
            product *= np.repeat(factors, part.degrees)
            _add_to(total, cell, np.floor(product, out=product))

        sums = self._added(add, np.zeros(len(given)))
        return np.where(weights > 0, sums.take(rank), 0).astype(np.int64)

    def norms(self, weights: Integers, edges: Integers, power: int) -> Integers:
        """One bucket for each unit that has any weight."""
        table = _narrow(weights**power)

        def add(total: Integers, first: int, last: int) -> None:
            part = self._slice(first, last)
            norms = part.added(table.take(part.code))
            total += _histogram(norms[norms > 0], edges)

        return self._added(add, np.zeros(len(edges), np.int64))

    def class_sums(
        self, weights: Integers, chosen: Integers, bounds: Sequence[int], power: int, shifts: Mapping[str, int]
    ) -> dict[str, Integers]:
        """The norms of a slice, then all its sums. Weights are scaled by clip_factors and rounded down, so that a
        unit's norm is at most the bound of its class.
        """
        (rank, given), classes = _ranks(weights, chosen), len(bounds)

        def add(total: Integers, first: int, last: int) -> None:
            part = self._slice(first, last)
            row = rank.take(part.code)
            norms = part.added(given.take(row).astype(np.float64) ** power)
            factors = clip_factors(norms, bounds[-1], power)
            class_ = np.minimum(np.searchsorted(np.array(bounds), norms), classes - 1)
            some = np.flatnonzero(row)
            row, unit = row.take(some).astype(np.int64), np.repeat(np.arange(last - first), part.degrees).take(some)
            own, factor, cell = given.take(row).astype(np.int64), factors.take(unit), row * classes + class_.take(unit)
            _add_to(total[0], cell, (own * factor) >> (WEIGHT_BITS + FACTOR_BITS - LATTICE_BITS))
            for place, (name, shift) in enumerate(shifts.items(), 1):
                steps = self.steps[name][self.starts[first] : self.starts[last]].take(some)
                np.add.at(total[place], cell, clipped_steps(steps, own, factor, shift))

        sums = self._added(add, np.zeros((1 + len(shifts), len(given) * classes), np.int64))
        tables = sums.reshape(1 + len(shifts), len(given), classes)[:, 1:]
        return dict(zip(("units", *shifts), tables, strict=True))

    def degree_histogram(self, edges: Integers) -> Integers:
        """One bucket for each unit."""
        return _histogram(self.degrees, edges)

    def shares(self) -> LocalGroups:
        """The shares of a unit are alike. Doubles hold the sums exactly. Every group has some unit."""

        def add(total: Floats, first: int, last: int) -> None:
            part = self._slice(first, last)
            _add_to(total, part.code, np.repeat(unit_shares(part.degrees).astype(np.float64), part.degrees))

        sums = self._added(add, np.zeros(self.groups)).astype(np.int64)
        return LocalGroups(np.arange(self.groups), {"exact": sums}, self.keys_of)

    def coverage(self, groups: LocalGroups) -> tuple[int, int]:
        """Each unit is marked by its own pairs. Every code of a unit has a pair."""
        released = np.zeros(self.groups, np.bool_)
        released[groups.codes] = True

        def add(total: Integers, first: int, last: int) -> None:
            part = self._slice(first, last)
            total += np.count_nonzero(part.added(released.take(part.code)))

        number = int(self._added(add, np.zeros(1, np.int64))[0])
        return number, self.units - number

    def votes(self, capacity: int, scores: Integers | None) -> Integers:
        """Deferred acceptance on arrays."""
        if not self.ordered:
            raise InvalidParameter("pairs with places for an election", "pairs without")
        groups = self.group
        if scores is not None:
            groups, (_, rank) = np.empty_like(groups), np.unique(scores, return_inverse=True)

            def sort(_: Integers, first: int, last: int) -> None:
                begin, end = self.starts[first], self.starts[last]
                own = Lists(self.starts[first : last + 1] - begin, self.group[begin:end])
                groups[begin:end] = prefer(own, rank).groups

            self._added(sort, np.zeros(0, np.int64))
        return elect(Lists(self.starts, groups), self.groups, capacity, threads=self.threads)

    def _slice(self, first: int, last: int, *, sampled: bool = False) -> _Slice:
        begin, end, degrees = self.starts[first], self.starts[last], np.diff(self.starts[first : last + 1])
        if sampled and self.sampled is not None and np.any(self.sampled[first:last] < degrees):
            degrees = self.sampled[first:last]
            before = np.cumsum(degrees) - degrees
            kept = np.repeat(self.starts[first:last] - before, degrees) + np.arange(int(degrees.sum()))
            return _Slice(degrees, self.group.take(kept).astype(np.int64))
        return _Slice(degrees, self.group[begin:end].astype(np.int64))

    def _added(self, add: Callable[[Any, int, int], None], total: _T) -> _T:
        """The total, which is zero at first, after `add` for all slices of units. Each thread has its own, as far as
        there is room.
        """
        cuts = np.unique(np.append(np.searchsorted(self.starts, np.arange(0, len(self.group), CHUNK)), [0, self.units]))
        slices = list(pairwise(cuts.tolist()))
        threads = min(self.threads, len(slices), 1 + len(self.group) // (total.size + 1))

        def work(thread: int) -> _T:
            own = total if thread == 0 else np.zeros_like(total)
            for first, last in slices[thread::threads]:
                add(own, first, last)
            return own

        if threads > 1:
            with ThreadPoolExecutor(threads) as pool:
                for own in list(pool.map(work, range(threads)))[1:]:
                    total += own
        elif slices:
            work(0)
        return total


@dataclass(frozen=True, slots=True)
class _Slice:
    """Pairs of some units, unit by unit: how many each has, and the codes of the groups."""

    degrees: Integers
    code: Integers

    def added(self, values: NDArray[Any]) -> Integers:
        """The values of the pairs, added up by unit."""
        some = np.flatnonzero(self.degrees)
        found = np.zeros(len(self.degrees), np.int64)
        if len(some):
            begins = np.cumsum(self.degrees) - self.degrees
            found[some] = np.add.reduceat(values, begins[some], dtype=np.float64)
        return found


def _add_to(total: NDArray[Any], cell: Integers, values: NDArray[Any]) -> None:
    """Add values to their cells: by a table of all cells if there are more values than cells."""
    if len(cell) > len(total):
        total += np.bincount(cell, values, len(total)).astype(total.dtype)
    else:
        np.add.at(total, cell, values)


def _ranks(weights: Integers, chosen: Integers) -> tuple[NDArray[Any], NDArray[Any]]:
    """For each group its rank among the chosen groups, from 1, or 0; and the weights by rank, 0 at rank 0."""
    rank = np.zeros(len(weights), np.min_scalar_type(len(chosen)))
    rank[chosen] = np.arange(1, len(chosen) + 1)
    return rank, _narrow(np.append(0, weights[chosen]))


def _narrow(weights: Integers) -> NDArray[Any]:
    """Numbers in as few bytes as they need, so that a table of all groups fits into a cache."""
    return weights.astype(np.min_scalar_type(int(weights.max(initial=0))))


def _histogram(values: Integers, edges: Integers) -> Integers:
    return np.bincount(bucket(values, edges), minlength=len(edges)).astype(np.int64)


class Arrangement:
    """Puts pairs where their units have room. The first pairs of a unit are its sample.

    degrees: how many pairs each unit has. most: how many pairs are a unit's sample. Beside the arrays each thread needs
    room for a batch.
    """

    def __init__(self, degrees: Integers, names: Sequence[str], threads: int, most: int | None = None) -> None:
        self.starts, self._threads, self._lock = np.append(0, np.cumsum(degrees)), threads, Lock()
        sampled = degrees if most is None else np.minimum(degrees, most)
        self.sampled = sampled if np.any(sampled < degrees) else None
        self.group = np.empty(int(self.starts[-1]), np.int32)
        self.steps = {name: np.empty(len(self.group), np.int64) for name in names}
        self._middle = self.starts[:-1] + sampled

    def append(self, batches: Iterable[pa.RecordBatch]) -> None:
        """All pairs in the order in which they stay: batches with group_code and the steps of each aggregate."""
        arrays: list[NDArray[Any]] = [self.group, *self.steps.values()]
        first = 0
        for batch in batches:
            for values, column in zip(arrays, batch.columns, strict=True):
                values[first : first + len(column)] = column.to_numpy()
            first += batch.num_rows

    def fill(self, streams: Iterable[pa.RecordBatch]) -> None:
        """All pairs in any order: batches with unit_code, group_code, sampled and the steps of each aggregate."""
        next_ = {True: self.starts[:-1].copy(), False: self._middle.copy()}
        with ThreadPoolExecutor(self._threads) as pool:
            waiting: deque[Future[None]] = deque()
            for batch in streams:
                waiting.append(pool.submit(self._fill, batch, next_))
                if len(waiting) > self._threads:
                    waiting.popleft().result()
            for one in waiting:
                one.result()
        if not np.array_equal(next_[True], self._middle) or not np.array_equal(next_[False], self.starts[1:]):
            raise EngineFailure(
                "as many pairs of each unit, and as many in its sample, as were counted", "this is a bug."
            )

    def _fill(self, batch: pa.RecordBatch, next_: Mapping[bool, Integers]) -> None:
        """Put the pairs of a batch after the earlier ones. The order of batches does not matter."""
        marks = batch.column("sampled").to_numpy(zero_copy_only=False)
        unit, group, *steps = (column.to_numpy() for column in batch.drop_columns(["sampled"]).columns)
        for mark, ends in next_.items():
            if np.any(marks == mark):
                kept = slice(None) if np.all(marks == mark) else marks == mark
                self._place(unit[kept], group[kept], [values[kept] for values in steps], ends)

    def _place(self, unit: Codes, group: Codes, steps: Sequence[Integers], ends: Integers) -> None:
        """Sort by unit, which a sparse table does by counting. Then copy each unit's part after its earlier pairs."""
        from scipy.sparse import coo_array

        table = coo_array((np.arange(len(unit), dtype=np.int32), (unit, group)), shape=(len(ends), (1 << 31) - 1))
        table.has_canonical_format = True  # pairs differ, and nobody asks for their order
        rows = table.tocsr()
        sizes = np.diff(rows.indptr)
        with self._lock:
            begins = ends - rows.indptr[:-1]
            ends += sizes
        at = np.repeat(begins, sizes)
        at += np.arange(len(unit))
        self.group[at] = rows.indices
        for values, given in zip(self.steps.values(), steps, strict=True):
            values[at] = given[rows.data]
