"""The election attacked: its laws listed, its runs sampled, and what its proof stands on, one group and one vote."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from itertools import product
from typing import Any, Final

import numpy as np
import pyarrow as pa

from dphist.audit.bounding import Outcome, outcome
from dphist.audit.judge import Claim, Run, Trials
from dphist.audit.laws import Floats, Pair
from dphist.audit.trials import KEY, QUERY, UNIT, Scene
from dphist.engines.base import Arrays, Engine, Layout, PairsByUnit, Rows
from dphist.engines.duckdb.engine import DuckDBEngine
from dphist.engines.histogram import LocalGroups
from dphist.engines.memory import MemoryPairs
from dphist.mechanisms.voting import Voting, calibrate
from dphist.run.voting import vote

Ballots = Sequence[tuple[int, ...]]
"""The lists of all units, in the order of their turns; the last unit is the one under attack unless a number says so."""

Elect = Callable[[PairsByUnit, int], Any]

STEPS: Final = 6
"""The lattice of shares in an enumeration: halves and thirds lie on it."""

_REACH: Final = 20
_BLIND: Final = Voting(vote_epsilon=math.log(2), vote_delta=0.1, capacity=3)
_LOOK: Final = Voting(vote_epsilon=0.75, vote_delta=0.1, capacity=2, look_epsilon=0.75)

_NEIGHBOURS: Final[dict[str, tuple[Ballots, int]]] = {
    "a new group": (((0,), (1,)), 1),
    "a group of two": (((0,), (0,), (0,)), 2),
    "a unit with two groups": (((0,), (0,), (1,), (1,), (0, 1)), 4),
    "a unit that drives another on": (((0, 1), (0,), (0,), (0, 1), (1, 0), (0, 1)), 0),
    "a unit behind full groups": (((0,), (0,), (0,), (1,), (0, 1)), 4),
}
"""Lists in the order of turns, and the unit under attack."""


def claims(runs: tuple[int, int]) -> Iterator[Claim]:
    """Small elections, blind and after a look, and runs of the product's own."""
    for name, mechanism in (("blind", _BLIND), ("after a look", _LOOK)):
        pairs = neighbours(mechanism)
        yield Claim("voting", "one vote", f"small elections, {name}", mechanism.delta, lambda pairs=pairs: pairs)  # type: ignore[misc]
    blind, look = calibrate(1.0, 0.2), calibrate(1.0, 0.2, look_share=0.3)
    for mechanism, name, scene in (
        (blind, "blind", Scene(1, 0, 1)),
        (blind, "blind", Scene(1, 3, 1)),
        (look, "after a look", Scene(1, 3, 1)),
        (look, "after a look", Scene(2, 4, 2)),
    ):
        kind = f"groups of {scene.base}" if scene.base else "new groups"
        setting = f"selected keys, {name}, {kind}, a unit in {scene.moved}"
        yield Claim("voting", "one vote", setting, mechanism.delta, None, elections(mechanism, scene), *runs)


def neighbours(mechanism: Voting) -> list[Pair]:
    """The laws of small elections with and without one unit."""
    return [
        Pair(kind, output(mechanism, [*ballots[:unit], *ballots[unit + 1 :]]), output(mechanism, ballots))
        for kind, (ballots, unit) in _NEIGHBOURS.items()
    ]


def output(mechanism: Voting, ballots: Ballots) -> Floats:
    """The law of which of two groups are shown, written down from the definition."""
    law = np.zeros(4)
    for first, chance in _preferences(mechanism, ballots):
        lists = [ballot if first is None else sorted(ballot, key=lambda group: group != first) for ballot in ballots]
        chances = [mechanism.release_probability(votes) for votes in _one_after_the_other(lists, mechanism.capacity)]
        for shown in product((0, 1), repeat=2):
            law[2 * shown[0] + shown[1]] += chance * math.prod(
                p if one else 1 - p for p, one in zip(chances, shown, strict=True)
            )
    return law


def _one_after_the_other(lists: Sequence[Sequence[int]], capacity: int) -> list[int]:
    votes = [0, 0]
    for ballot in lists:
        for group in ballot:
            if votes[group] < capacity:
                votes[group] += 1
                break
    return votes


def _preferences(mechanism: Voting, ballots: Ballots) -> Iterator[tuple[int | None, float]]:
    """Which of the two groups the look makes everybody prefer, with its probability; None if lists stay as they are."""
    if mechanism.look_epsilon == 0:
        yield None, 1.0
        return
    rate = mechanism.look_epsilon / STEPS
    reach = math.ceil(_REACH / rate)
    weights = np.exp(-rate * np.abs(np.arange(-reach, reach + 1)))
    weights /= weights.sum()
    sums = [sum(STEPS // len(ballot) for ballot in ballots if group in ballot) for group in (0, 1)]
    difference = np.convolve(weights, weights)  # of two noises, from -2 reach on
    at = np.arange(-2 * reach, 2 * reach + 1) + sums[0] - sums[1]
    for first, part in ((0, at > 0), (1, at < 0), (None, at == 0)):
        yield first, float(difference[part].sum())


def elections(mechanism: Voting, scene: Scene) -> Run:
    """Many runs in one election: copies have units and groups of their own, so they share nothing but the seed."""

    def run(n: int) -> Trials:
        with DuckDBEngine().open(scene.table(n), QUERY) as records, records.pairs() as pairs:
            table = vote(mechanism, pairs.voters()).publish(_keys_alone, Layout((), order="key"))
        assert isinstance(table, pa.Table)
        keys = table.column(KEY).to_numpy()
        return scene.split(n, keys, [np.ones(len(keys))])

    return run


def _keys_alone(groups: Arrays) -> Rows:
    return Rows(np.arange(len(groups["first"])), {})


# One group, one vote


def elect(voters: PairsByUnit, capacity: int) -> Any:
    """The product's own election."""
    return voters.elect(capacity)


def one_vote(engine: Engine, elect_: Elect = elect, whole: int = 1) -> Outcome:
    """Taking any one unit out of small tables takes one vote from one group, or none from any. `whole`: what a vote is."""
    problems, tried = [], 0
    for seed in range(3):
        sizes = [1 + (unit * unit + seed) % 4 for unit in range(8)]
        rows = [(unit, (unit * 7 + seed + 3 * j) % 5) for unit, size in enumerate(sizes) for j in range(size)]
        votes = _votes(engine, rows, elect_, seed)
        for unit in range(len(sizes)):
            tried += 1
            less = _votes(engine, [row for row in rows if row[0] != unit], elect_, seed)
            moved = [votes.get(key, 0) - less.get(key, 0) for key in {*votes, *less}]
            if sorted(filter(None, moved)) not in ([], [whole]):
                found = f"{sum(map(bool, moved))} groups, by {sum(map(abs, moved)) / whole:g} votes in all"
                problems.append(f"one unit moves {found}")
                break
    return outcome(problems, f"{tried} units taken out of small elections move one vote at most")


def _votes(engine: Engine, rows: list[tuple[int, int]], elect_: Elect, seed: int) -> dict[int, int]:
    table = pa.table({UNIT: [unit for unit, _ in rows], KEY: [key for _, key in rows]})
    with engine.open(table, QUERY, seed=seed) as records, records.pairs() as pairs:
        elected = elect_(pairs.voters(), 1)
        keys = elected.keys_of(elected.codes).column(KEY).to_pylist()
        return dict(zip(keys, elected.columns["votes"].tolist(), strict=True))


def split_votes(voters: PairsByUnit, capacity: int) -> LocalGroups:
    """Greedy weighting: what a group has no room for goes on to the next of the list. Two halves are a vote, room for three."""
    assert isinstance(voters, MemoryPairs)
    assert voters.ordered
    halves, left = np.zeros(voters.groups, np.int64), np.full(voters.units, 2)
    for unit, group in zip(voters.unit.tolist(), voters.group.tolist(), strict=True):
        given = min(left[unit], 2 * capacity + 1 - halves[group])
        halves[group] += given
        left[unit] -= given
    return LocalGroups(np.arange(voters.groups), {"votes": halves}, voters.keys_of)


def capacity_from_data(voters: PairsByUnit, capacity: int) -> Any:
    """As many votes for a group as a quarter of all units."""
    assert isinstance(voters, MemoryPairs)
    return voters.elect(max(1, voters.units // 4))
