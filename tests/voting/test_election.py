"""The election: equal to the loop that defines it, and one group, one vote, always upward. What breaks it is caught."""

from functools import cache
from itertools import product

import numpy as np
import pytest
from small_elections import (
    Ballots,
    Election,
    capacity_from_data,
    every_list,
    in_rounds,
    in_the_end,
    keeps_the_theorem,
    lists_of_ballots,
    one_after_the_other,
    one_group_one_vote,
    pairs_of,
    random_ballots,
    split_votes,
    three_rounds,
    turns_by_row,
)

from dphist.engines.base import Arrays, Rows
from dphist.engines.election import elect, lists_of, prefer
from dphist.engines.memory import MemoryPairs, unit_shares
from dphist.errors import InvalidParameter
from dphist.mechanisms.tuning import LATTICE_BITS

UNFINISHED: Ballots = ((4, 1, 2, 3, 0), (4, 0, 3), (0, 1, 3, 4, 2), (0, 4, 3, 2))
"""From the specification: after three rounds with capacity 1, the third unit moves two groups."""


@pytest.mark.parametrize(
    ("election", "capacity"),
    [
        (in_rounds, 1),
        pytest.param(in_rounds, 2, marks=pytest.mark.long),
        pytest.param(in_the_end, 1, marks=pytest.mark.long),
        (in_the_end, 2),
        pytest.param(one_after_the_other, 1, marks=pytest.mark.long),
        pytest.param(one_after_the_other, 2, marks=pytest.mark.long),
    ],
)
def test_all_elections_of_three_units_and_groups(election: Election, capacity: int) -> None:
    """Every list of every unit, with and without each of them: 3,375 elections and their neighbours, both directions."""
    known: Election = cache(election)
    for ballots in product(every_list(3), repeat=3):
        assert keeps_the_theorem(known, ballots, 3, capacity)


@pytest.mark.parametrize("election", [in_rounds, in_the_end])
def test_random_elections_keep_the_theorem(election: Election) -> None:
    rng = np.random.default_rng(1)
    for _ in range(150):
        groups, units, capacity = int(rng.integers(2, 6)), int(rng.integers(2, 9)), int(rng.integers(1, 4))
        assert keeps_the_theorem(election, random_ballots(rng, groups, units), groups, capacity)


def test_rounds_equal_the_loop_that_defines_them() -> None:
    rng = np.random.default_rng(2)
    for _ in range(800):
        groups, units, capacity = int(rng.integers(1, 9)), int(rng.integers(0, 25)), int(rng.integers(1, 5))
        ballots = random_ballots(rng, groups, units)
        expected = one_after_the_other(ballots, groups, capacity)
        for few in (0, 2, 1000):
            assert tuple(elect(lists_of_ballots(ballots), groups, capacity, few).tolist()) == expected


def test_a_large_election_equals_the_loop() -> None:
    rng = np.random.default_rng(3)
    ballots = tuple(tuple(dict.fromkeys((200 * rng.random(6) ** 3).astype(int).tolist())) for _ in range(6000))
    assert in_rounds(ballots, 200, 25) == in_the_end(ballots, 200, 25) == one_after_the_other(ballots, 200, 25)
    assert tuple(elect(lists_of_ballots(ballots), 200, 25).tolist()) == one_after_the_other(ballots, 200, 25)


@pytest.mark.parametrize(
    ("broken", "vote"), [(split_votes, 2), (turns_by_row, 1), (capacity_from_data, 1), (three_rounds, 1)]
)
def test_broken_elections_are_caught(broken: Election, vote: int) -> None:
    rng = np.random.default_rng(4)
    sizes = [(int(rng.integers(2, 6)), int(rng.integers(2, 7))) for _ in range(3000)]
    random = ((random_ballots(rng, groups, units), groups) for groups, units in sizes)
    assert any(not keeps_the_theorem(broken, *election, 1 + (vote > 1), vote) for election in random)


def test_an_unfinished_election_moves_two_groups() -> None:
    without, with_ = (three_rounds(ballots, 5, 1) for ballots in (UNFINISHED[:2] + UNFINISHED[3:], UNFINISHED))
    assert sum(a != b for a, b in zip(without, with_, strict=True)) == 2
    assert not keeps_the_theorem(three_rounds, UNFINISHED, 5, 1)
    assert keeps_the_theorem(in_rounds, UNFINISHED, 5, 1)


def test_rounds_go_on_as_long_as_it_takes() -> None:
    """A chain: each unit is driven out by the one before it, in a round of its own."""
    links = 400
    chain: Ballots = ((0,), *((link, link + 1) for link in range(links)))
    expected = one_after_the_other(chain, links + 1, 1)
    assert expected == (1,) * (links + 1)
    assert in_rounds(chain, links + 1, 1) == in_the_end(chain, links + 1, 1) == expected


def test_the_check_sees_every_kind_of_move() -> None:
    assert one_group_one_vote((1, 2), (1, 2))
    assert one_group_one_vote((1, 2), (1, 3))
    for wrong in ((1, 1), (2, 3), (0, 3), (1, 4)):
        assert not one_group_one_vote((1, 2), wrong)


def test_pairs_in_any_order_give_the_same_lists() -> None:
    rng = np.random.default_rng(5)
    lists = lists_of_ballots(random_ballots(rng, 6, 40))
    unit, group, place = pairs_of(lists)
    order = rng.permutation(len(unit))
    again = lists_of(unit[order], group[order], place[order], 40)
    assert again.starts.tolist() == lists.starts.tolist()
    assert again.groups.tolist() == lists.groups.tolist()


def test_informed_lists_are_by_score_then_by_place() -> None:
    rng = np.random.default_rng(6)
    ballots, scores = random_ballots(rng, 8, 60), rng.integers(-2, 3, 8)
    informed = prefer(lists_of_ballots(ballots), scores)
    for unit, ballot in enumerate(ballots):
        expected = sorted(ballot, key=lambda group: -scores[group])  # stable: equal scores stay
        assert informed.groups[informed.starts[unit] : informed.starts[unit + 1]].tolist() == expected


def test_new_groups_of_one_unit_move_nobody_elses_list() -> None:
    rng = np.random.default_rng(7)
    ballots, scores = random_ballots(rng, 5, 30), rng.integers(-9, 9, 8)
    alone = (*ballots[:10], (7, 2, 5, 6), *ballots[10:])
    before, after = prefer(lists_of_ballots(ballots), scores), prefer(lists_of_ballots(alone), scores)
    split = before.starts[10]
    assert after.groups.tolist() == [
        *before.groups[:split], *after.groups[split : split + 4], *before.groups[split:],
    ]  # fmt: skip


def test_shares_of_a_unit_add_up_to_at_most_one() -> None:
    degrees = np.arange(1, 70_000)
    shares = unit_shares(degrees)
    assert (shares * degrees <= 1 << LATTICE_BITS).all()
    assert ((shares + 1) * degrees > 1 << LATTICE_BITS).all()
    assert shares[-1] == 0


def test_an_empty_election_and_pairs_without_places() -> None:
    empty = np.zeros(0, np.int32)
    pairs = MemoryPairs.of_rows(empty, empty, 0, 0, place=empty)
    assert pairs.elect(3).number() == 0
    assert pairs.elect(3, pairs.shares().each(_as_first, ("first",))).number() == 0
    with pytest.raises(InvalidParameter, match="places"):
        MemoryPairs.of_rows(empty, empty, 0, 0).elect(3)


def _as_first(groups: Arrays) -> Rows:
    return Rows(np.arange(len(groups["exact"])), {"first": groups["exact"]})
