"""The informed election, its output law written down for small tables: at most delta, and the look must be paid for."""

import math
from itertools import product

import numpy as np
import pytest
from numpy.typing import NDArray
from small_elections import Ballots, every_list, lists_of_ballots

from dphist.engines.election import elect, prefer
from dphist.mechanisms.voting import Voting
from dphist.privacy.voting import ONE, probability, release_probabilities

GROUPS, STEPS, REACH = 3, 6, 90
LOOK, VOTE, DELTA = 1.0, math.log(2), 0.1
RULE = release_probabilities(VOTE, DELTA)
CAPACITY = 2
Law = dict[tuple[int, ...], float]


def noise() -> NDArray[np.float64]:
    """Discrete Laplace noise of scale STEPS/LOOK, from -REACH to REACH."""
    weights = np.exp(-np.abs(np.arange(-REACH, REACH + 1)) * LOOK / STEPS)
    return np.asarray(weights / weights.sum())


def orders(sums: list[int]) -> dict[tuple[int, ...], float]:
    """How likely the noisy sums stand in which order: each order by the dense ranks of its groups, the smallest 0."""
    law = noise()
    span = range(min(sums) - REACH, max(sums) + REACH + 1)
    shifted = np.zeros((GROUPS, len(span)))
    for group, exact in enumerate(sums):
        begin = exact - REACH - span.start
        shifted[group, begin : begin + len(law)] = law
    found: dict[tuple[int, ...], float] = {}
    for ranks in product(range(GROUPS), repeat=GROUPS):
        if set(ranks) != set(range(max(ranks) + 1)):
            continue
        levels = [[g for g in range(GROUPS) if ranks[g] == level] for level in range(max(ranks) + 1)]
        reached = np.ones(len(span))
        for level, groups in enumerate(levels):
            now = np.prod(shifted[groups], axis=0) * (reached if level else 1.0)
            reached = np.cumsum(now) - now
        found[ranks] = float(now.sum())
    return found


def output(ballots: Ballots) -> Law:
    """The law of the set of shown groups."""
    sums = [sum(STEPS // len(ballot) for ballot in ballots if group in ballot) for group in range(GROUPS)]
    law: Law = {}
    for ranks, chance in orders(sums).items():
        votes = elect(prefer(lists_of_ballots(ballots), np.array(ranks)), GROUPS, CAPACITY)
        chances = [probability(RULE, int(n)) / ONE for n in votes]
        for shown in product((0, 1), repeat=GROUPS):
            p = math.prod(c if s else 1 - c for c, s in zip(chances, shown, strict=True))
            law[shown] = law.get(shown, 0.0) + chance * p
    return law


def divergence(p: Law, q: Law, epsilon: float) -> float:
    return max(sum(max(a[o] - math.exp(epsilon) * b[o], 0.0) for o in p) for a, b in ((p, q), (q, p)))


def instances() -> list[Ballots]:
    rng = np.random.default_rng(1)
    lists = every_list(GROUPS)
    return [tuple(lists[i] for i in rng.integers(0, len(lists), rng.integers(2, 8))) for _ in range(60)]


def test_the_orders_are_a_law() -> None:
    law = orders([0, 3, 9])
    assert sum(law.values()) == pytest.approx(1)
    assert max(law, key=lambda ranks: law[ranks]) == (0, 1, 2)


def test_the_look_and_the_election_have_the_claimed_delta() -> None:
    """Every unit of every instance, added and removed; groups that only one unit has are among them."""
    mechanism = Voting(VOTE, DELTA, CAPACITY, LOOK)
    worst = dict.fromkeys((LOOK + VOTE, VOTE), 0.0)
    for ballots in instances():
        whole = output(ballots)
        for unit in range(len(ballots)):
            less = output(ballots[:unit] + ballots[unit + 1 :])
            for epsilon in worst:
                worst[epsilon] = max(worst[epsilon], divergence(whole, less, epsilon))
                assert divergence(whole, less, epsilon) <= mechanism.delta(epsilon)
    assert 0.5 * DELTA < worst[LOOK + VOTE] <= DELTA * (1 + 1e-9)
    assert worst[VOTE] > DELTA  # so it would be wrong not to pay for the look
