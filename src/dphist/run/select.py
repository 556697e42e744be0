"""Selecting keys, in whichever way the plan has: what comes after is the same."""

from __future__ import annotations

from dphist.engines.base import Groups, Pairs, PairsByUnit
from dphist.mechanisms import AdaptiveGaussian, GroupMechanism, Voting
from dphist.run import rounds, voting


def select_keys(mechanism: GroupMechanism, pairs: Pairs) -> tuple[Groups, PairsByUnit]:
    """The selected groups with their first noisy numbers, `first`; and the pairs as counting goes on with them."""
    if isinstance(mechanism, Voting):
        voters = pairs.voters()
        return voting.vote(mechanism, voters), voters
    assert isinstance(mechanism, AdaptiveGaussian)  # the two that select from pairs
    sampled = pairs.sampled(mechanism.max_groups)
    return rounds.select(mechanism, sampled), sampled
