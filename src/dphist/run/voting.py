"""Selecting keys by an election: every unit has one vote, whole, and gives it to one of its groups.

What is written here is all that touches data between the pairs and the selected keys. Votes, voters, rounds and the numbers of
the look at groups that are not selected are never published: a caller gets the selected groups alone.
"""

from __future__ import annotations

import numpy as np

from dphist.engines.base import Arrays, Groups, OnGroups, PairsByUnit, Rows
from dphist.mechanisms.voting import Voting
from dphist.noise import sample


def vote(mechanism: Voting, voters: PairsByUnit) -> Groups:
    """The look, the election and the coins; the selected groups with `first`, what the look says of them: 0 without one."""
    look = None if mechanism.look_law is None else voters.shares().each(noise_shares(mechanism), ("first",))
    elected = voters.elect(mechanism.capacity, look)
    return elected.each(toss_coins(mechanism), ("first",))


def noise_shares(mechanism: Voting) -> OnGroups:
    """Fresh noise on the shares of every group that some unit has: each group by itself, which is the proof's locality."""

    def add_noise_to_shares(groups: Arrays) -> Rows:
        exact = groups["exact"]
        assert mechanism.look_law is not None
        return Rows(np.arange(len(exact)), {"first": exact + sample(mechanism.look_law, len(exact))})

    return add_noise_to_shares


def toss_coins(mechanism: Voting) -> OnGroups:
    """One coin for each group that has votes: fresh and secret, never from the seed of the election."""

    def keep_by_coins(groups: Arrays) -> Rows:
        kept = mechanism.perturb_part(groups["votes"], 0).index
        return Rows(kept, {"first": groups["first"][kept]})

    return keep_by_coins
