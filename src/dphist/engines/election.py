"""The election in NumPy: deferred acceptance on codes, where a unit's code is its place in the order of the election.

    every unit without a place asks the first group of its list that would take it
    every group keeps the first `capacity` units, by their places, of those that it holds and those that ask

until nobody is turned away. The outcome is the same as if units acted one after the other and each voted for the first
group of its list with room (docs/voting.md). It does not depend on the order of rows, chunks or rounds, so the SQL of
`pairs` gives the same votes for the same places and lists. The number of rounds depends on the data and has no cap: an
unfinished election has no guarantee.

A full group turns away every unit later than its last holder, and the last holder only gets earlier. So a unit passes
over each group that is full with earlier units. It need not remember which groups it has asked.
"""

from __future__ import annotations

import heapq
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Final

import numpy as np
from numpy.typing import NDArray

Integers = NDArray[np.int64]

FEW: Final = 1024
"""So few units are placed one by one. A round costs as much as all holders, but the last rounds move few units."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Lists:
    """The groups of all units, list after list: unit u has groups[starts[u]:starts[u + 1]], most preferred first.

    copies: how many consecutive units share a list. Unit u has list number u // copies and a place of its own.
    """

    starts: Integers
    groups: NDArray[np.int32]
    copies: int = 1

    @property
    def units(self) -> int:
        """How many units there are."""
        return (len(self.starts) - 1) * self.copies

    @property
    def begins(self) -> Integers:
        """Where the list of each unit begins."""
        return np.repeat(self.starts[:-1], self.copies)

    @property
    def ends(self) -> Integers:
        """Where the list of each unit ends."""
        return np.repeat(self.starts[1:], self.copies)


def lists_of(unit: NDArray[np.int32], group: NDArray[np.int32], place: NDArray[np.int32], units: int) -> Lists:
    """The lists of pairs in any order; `place` numbers the pairs of each unit from 0."""
    starts = np.zeros(units + 1, np.int64)
    np.cumsum(np.bincount(unit, minlength=units), out=starts[1:])
    groups = np.empty(len(group), np.int32)
    groups[starts[unit] + place] = group
    return Lists(starts, groups)


def prefer(lists: Lists, score: Integers) -> Lists:
    """The lists sorted by the scores of groups, largest first. Equal scores keep their order. Scores are small, such as
    ranks.
    """
    unit = np.repeat(np.arange(lists.units), np.diff(lists.starts))
    order = np.argsort(unit * (int(np.ptp(score)) + 1 if len(score) else 1) - score[lists.groups], kind="stable")
    return Lists(lists.starts, lists.groups[order])


def elect(lists: Lists, groups: int, capacity: int, few: int = FEW, threads: int = 1) -> Integers:
    """The votes of each group."""
    units = max(lists.units, 1)
    next_, ends = lists.begins, lists.ends
    last = np.full(groups, units, np.int64)  # the last holder of a full group; for other groups, after all units
    held = np.empty(0, np.int64)  # group * units + unit, in order
    asking = np.arange(lists.units)
    with ThreadPoolExecutor(threads) as pool:
        while len(asking) > few:
            pass_over = partial(_pass_over, lists.groups, last, next_, ends)
            asking = np.concatenate(list(pool.map(pass_over, np.array_split(asking, threads))))
            asked = np.sort(lists.groups[next_[asking]].astype(np.int64) * units + asking)
            held = np.sort(np.concatenate([held, asked]), kind="stable")  # two runs in order: merged in one pass
            group = held // units
            first = np.flatnonzero(np.diff(group, prepend=-1))
            size = np.diff(first, append=len(held))
            kept = np.arange(len(held)) - np.repeat(first, size) < capacity
            full = first[size >= capacity]
            last[group[full]] = held[full + capacity - 1] % units
            asking = held[~kept] % units
            held = held[kept]
    votes = np.bincount(held // units, minlength=groups).astype(np.int64)
    _one_by_one(lists, capacity, held, next_, asking, votes)
    return votes


def _pass_over(
    groups: NDArray[np.int32], last: Integers, next_: Integers, ends: Integers, asking: Integers
) -> Integers:
    """Move each unit on to the next group of its list that would take it. Units without such a group are left out."""
    waiting, placed = asking, [asking[:0]]
    while len(waiting):
        waiting = waiting[next_[waiting] < ends[waiting]]
        refused = last[groups[next_[waiting]]] < waiting
        placed.append(waiting[~refused])
        waiting = waiting[refused]
        next_[waiting] += 1
    return np.concatenate(placed)


def _one_by_one(
    lists: Lists, capacity: int, held: Integers, next_: Integers, asking: Integers, votes: Integers
) -> None:
    """The rest of the election: each unit asks until a group takes it, and a unit that loses its place asks next."""
    holders: dict[int, list[int]] = {}  # of each group that was asked, its units, negated, as a heap
    units = max(lists.units, 1)
    for unit in asking.tolist():
        while next_[unit] < lists.starts[unit // lists.copies + 1]:
            group = int(lists.groups[next_[unit]])
            if group not in holders:
                begin, end = np.searchsorted(held, [group * units, (group + 1) * units])
                holders[group] = [-one for one in (held[begin:end] % units).tolist()]
                heapq.heapify(holders[group])
            if len(holders[group]) < capacity:
                heapq.heappush(holders[group], -unit)
                votes[group] += 1
                break
            unit = -heapq.heappushpop(holders[group], -unit)  # the one that is turned away goes on
            next_[unit] += 1
