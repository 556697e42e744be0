"""Small elections: the loop that defines them, the check of the theorem, and versions that break it."""

from collections.abc import Callable, Sequence
from itertools import permutations

import numpy as np
from numpy.typing import NDArray

from dphist.engines.election import Lists, elect

Ballots = tuple[tuple[int, ...], ...]
"""The lists of all units, in the order of their turns."""

Votes = tuple[int, ...]
Election = Callable[[Ballots, int, int], Votes]


def every_list(groups: int) -> list[tuple[int, ...]]:
    """All orders of all sets of some groups."""
    return [order for size in range(1, groups + 1) for order in permutations(range(groups), size)]


def one_after_the_other(ballots: Ballots, groups: int, capacity: int) -> Votes:
    """The definition."""
    votes = [0] * groups
    for ballot in ballots:
        for group in ballot:
            if votes[group] < capacity:
                votes[group] += 1
                break
    return tuple(votes)


def lists_of_ballots(ballots: Ballots) -> Lists:
    starts = np.cumsum([0, *(len(ballot) for ballot in ballots)])
    return Lists(starts, np.array([group for ballot in ballots for group in ballot], np.int32))


def in_rounds(ballots: Ballots, groups: int, capacity: int) -> Votes:
    """The product, by rounds alone."""
    return tuple(elect(lists_of_ballots(ballots), groups, capacity, few=0).tolist())


def in_the_end(ballots: Ballots, groups: int, capacity: int) -> Votes:
    """The product, by its last stage alone."""
    return tuple(elect(lists_of_ballots(ballots), groups, capacity, few=1000).tolist())


def one_group_one_vote(without: Sequence[int], with_: Sequence[int], vote: int = 1) -> bool:
    """Whether h' = h or h' = h + e_x: what the theorem says, in both directions."""
    moved = [after - before for before, after in zip(without, with_, strict=True) if after != before]
    return moved in ([], [vote])


def keeps_the_theorem(election: Election, ballots: Ballots, groups: int, capacity: int, vote: int = 1) -> bool:
    """With and without each unit."""
    whole = election(ballots, groups, capacity)
    return all(
        one_group_one_vote(election(ballots[:u] + ballots[u + 1 :], groups, capacity), whole, vote)
        for u in range(len(ballots))
    )


# Broken versions


def split_votes(ballots: Ballots, groups: int, capacity: int) -> Votes:
    """Greedy weighting: a unit has two halves of a vote, and room is in halves. A whole vote is 2."""
    votes = [0] * groups
    for ballot in ballots:
        left = 2
        for group in ballot:
            given = min(left, 2 * capacity - 1 - votes[group])
            votes[group] += given
            left -= given
    return tuple(votes)


def turns_by_row(ballots: Ballots, groups: int, capacity: int) -> Votes:
    """Turns as a hash table has its rows: how many there are decides where each one is."""
    order = sorted(range(len(ballots)), key=lambda unit: (hash(ballots[unit]) % (len(ballots) + 1), unit))
    return one_after_the_other(tuple(ballots[unit] for unit in order), groups, capacity)


def capacity_from_data(ballots: Ballots, groups: int, capacity: int) -> Votes:
    """Half of all units."""
    return one_after_the_other(ballots, groups, max(1, len(ballots) // 2))


def three_rounds(ballots: Ballots, groups: int, capacity: int) -> Votes:
    """Deferred acceptance that is stopped before its end."""
    place = [0] * len(ballots)
    holders: list[list[int]] = [[] for _ in range(groups)]
    for _ in range(3):
        held = {unit for units in holders for unit in units}
        for unit, ballot in enumerate(ballots):
            if unit not in held and place[unit] < len(ballot):
                holders[ballot[place[unit]]].append(unit)
        for units in holders:
            units.sort()
            for unit in units[capacity:]:
                place[unit] += 1
            del units[capacity:]
    return tuple(len(units) for units in holders)


def random_ballots(rng: np.random.Generator, groups: int, units: int) -> Ballots:
    return tuple(tuple(rng.permutation(groups)[: rng.integers(1, groups + 1)].tolist()) for _ in range(units))


def pairs_of(lists: Lists) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.int32]]:
    """Unit, group and place of every pair."""
    sizes = np.diff(lists.starts)
    unit = np.repeat(np.arange(lists.units), sizes).astype(np.int32)
    return unit, lists.groups, (np.arange(len(unit)) - lists.starts[unit]).astype(np.int32)
