"""The election on Spark: the same votes as in NumPy from the same turns and places, whatever the partitions are."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from dphist.engines.dialect import SPARK
from dphist.engines.election import Lists, elect, prefer
from dphist.engines.query import GroupByQuery, Key
from dphist.engines.spark.engine import SparkEngine, SparkRecords
from dphist.engines.spark.pairs import SparkPairs
from dphist.mechanisms.tuning import LATTICE_BITS
from dphist.mechanisms.voting import calibrate
from dphist.run.voting import vote
from spark_sessions import frame, session

QUERY = GroupByQuery("who", (Key("what"), Key("where")))
Named = dict[tuple[Any, ...], int]


def events(units: int = 60) -> pa.Table:
    rng = np.random.default_rng(0)
    who = np.repeat(np.arange(units), rng.geometric(0.25, units))
    what = (30 * rng.random(len(who)) ** 2).astype(np.int64)
    return pa.table(
        {
            "who": pa.array([f"u{n}" for n in who], mask=rng.random(len(who)) < 0.02),
            "what": pa.array([f"w{n:02d}" for n in what], mask=what == 3),
            "where": pa.array((what + who) % 2),
        }
    )


def by_name(groups: Any, column: str) -> Named:
    return {(row["key_1"], row["key_2"]): row[column] for row in groups.frame.toArrow().to_pylist()}


def expected_votes(records: SparkRecords, pairs: SparkPairs, capacity: int, informed: bool) -> tuple[Named, Named]:
    """Shares, and votes by NumPy from the hashes that Spark has."""
    turn = SPARK.priority(records.seed, ["unit"])
    rows = records.sql(f"SELECT unit, {turn} AS turn, key_1, key_2, place FROM {pairs.view}").toArrow().to_pylist()
    ballots: dict[tuple[int, str], list[tuple[int, Any]]] = {}
    for row in rows:
        ballots.setdefault((row["turn"], row["unit"]), []).append((row["place"], (row["key_1"], row["key_2"])))
    names = sorted({(row["key_1"], row["key_2"]) for row in rows}, key=repr)
    own = [[names.index(name) for _, name in sorted(ballots[voter])] for voter in sorted(ballots)]
    shares = np.zeros(len(names), np.int64)
    for ballot in own:
        shares[ballot] += 2**LATTICE_BITS // len(ballot)
    lists = Lists(np.cumsum([0, *map(len, own)]), np.array([group for ballot in own for group in ballot], np.int32))
    votes = elect(prefer(lists, shares) if informed else lists, len(names), capacity)
    return (
        dict(zip(names, shares.tolist(), strict=True)),
        {name: int(n) for name, n in zip(names, votes, strict=True) if n},
    )


@pytest.mark.parametrize(("informed", "partitions"), [pytest.param(False, 1, marks=pytest.mark.cluster), (True, 3)])
def test_spark_votes_as_numpy_does(informed: bool, partitions: int) -> None:
    with (
        SparkEngine(session()).open(frame(events(), partitions), QUERY, seed=2**64 - 5) as records,
        records.pairs() as pairs,
    ):
        voters = pairs.voters()
        shares, votes = expected_votes(records, pairs, 3, informed)
        exact = voters.shares()
        assert by_name(exact, "exact") == shares
        look = None
        if informed:
            look = type(exact)(records, exact.frame.withColumnRenamed("exact", "first"))
        elected = voters.elect(3, look)
        assert max(votes.values()) == 3
        assert by_name(elected, "votes") == votes
        firsts = by_name(elected, "first")
        assert firsts == {name: shares[name] if informed else 0 for name in votes}


@pytest.mark.cluster
def test_selected_keys_stay_on_the_cluster_without_votes() -> None:
    mechanism = calibrate(20.0, 0.4, look_share=0.2)
    with SparkEngine(session()).open(frame(events(60)), QUERY, seed=1) as records, records.pairs() as pairs:
        records.require_noise()
        selected: Any = vote(mechanism, pairs.voters())
        assert selected.frame.columns == ["key_1", "key_2", "first"]
        assert selected.number() > 3
        assert len(set(by_name(selected, "first").values())) > 1
