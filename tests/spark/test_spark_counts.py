"""Counting on Spark: the same integers as NumPy has, for norms, classes and both halves of sums."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from dphist.aggregates.measures import Lattice
from dphist.aggregates.total import SumOfUnit
from dphist.engines.base import Arrays, Rows
from dphist.engines.histogram import LocalGroups
from dphist.engines.query import GroupByQuery, Key
from dphist.engines.spark.engine import SparkEngine
from dphist.mechanisms.tuning import ONE
from dphist.run.counting import edges
from duckdb_pairs import open_pairs
from spark_sessions import frame, session

SUM = SumOfUnit("value", -4.0, 4.0, lattice=Lattice(0.0, 2.0**-10))
QUERY = GroupByQuery("user", (Key("item"),), (SUM,))
Counts = dict[int, dict[str, int]]


def events() -> pa.Table:
    rng = np.random.default_rng(3)
    unit = np.repeat(np.arange(80), np.ceil(rng.lognormal(1, 1, 80)).astype(np.int64))
    item = (25 * rng.random(len(unit)) ** 2).astype(np.int64)
    return pa.table({"user": unit, "item": item, "value": rng.normal(0, 3, len(unit))})


@pytest.mark.parametrize("power", [1, 2])
def test_counts_by_class_are_the_same_bits_on_spark(power: int) -> None:
    """Whatever the partitions are; also for units beyond the last bound, and for values of both signs."""
    bounds, light = [int(bound * ONE**power) for bound in (0.5, 1, 2)], 2
    with open_pairs(events(), QUERY, seed=7) as pairs:
        coded = pairs.sampled(300)
        items = np.array(pairs.keys_of(np.arange(coded.groups)).column("item").to_pylist())
        given = LocalGroups(np.arange(len(items)), {"weight": items * 37 % ONE + 1}, pairs.keys_of)
        norms = coded.norm_histogram(given, edges(power), power).tolist()
        columns = coded.by_class(given, bounds, light, power, [5]).columns
    here: Counts = {
        int(item): {name: int(column[i]) for name, column in columns.items()} for i, item in enumerate(items)
    }
    assert all(any(counts[name] for counts in here.values()) for name in ("class_1", "class_3", "light_1", "heavy_1"))

    def weigh(groups: Arrays) -> Rows:
        """The groups are in the order of their keys: all numbers below the largest. It travels to executors by value."""
        places = np.arange(len(groups["exact"]))
        return Rows(places, {"weight": places * 37 % ONE + 1})

    assert sorted(items.tolist()) == list(range(len(items)))
    with SparkEngine(session()).open(frame(events(), 3), QUERY, seed=7) as records, records.pairs() as there:
        sampled = there.sampled(300)
        weights = sampled.first_round().together(weigh, ("weight",))
        assert sampled.norm_histogram(weights, edges(power), power).tolist() == norms
        rows = sampled.by_class(weights, bounds, light, power, [5]).frame.toArrow().to_pylist()
    assert {row.pop("key_1"): row for row in rows} == here
