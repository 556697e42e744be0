"""Bins of records, from which quantiles are read: every engine against a few lines of Python, and what one unit can change."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from engine_oracle import (
    MASK,
    Engine,
    Record,
    canonical,
    every_engine,
    every_engine_given,
    expected,
    quick,
    samples,
    table,
)
from hypothesis import strategies as st
from test_engine_oracle import SCHEMA, records

from dphist.aggregates.measures import Measure
from dphist.aggregates.quantile import BinsOfUnit
from dphist.aggregates.total import SumOfUnit
from dphist.engines.base import Arrays, Layout, Rows
from dphist.engines.duckdb.engine import DuckDBRecords
from dphist.engines.histogram import ContributionBounds, Histogram
from dphist.engines.query import GroupByQuery, Key
from dphist.mechanisms.tuning import ONE

ONE_RECORD = BinsOfUnit("value", -2.0, 6.0)
FEW_RECORDS = BinsOfUnit("value", 0.1, 0.7, records=3)
SUM = SumOfUnit("value", -2.0, 6.0)
Bins = dict[tuple[Hashable, ...], dict[int, int]]


def expected_bins(
    rows: Sequence[Record], keys: Sequence[str], measure: Measure, listed: Sequence[tuple[Any, ...]] | None = None
) -> Bins:
    """For each group its bins with their weights, when nobody has too many groups."""
    pairs: dict[tuple[Any, ...], list[float | None]] = {}
    for record in rows:
        group = tuple(canonical(record[key]) for key in keys)
        if record["user"] is not None and (listed is None or group in listed):
            pairs.setdefault((record["user"], *group), []).append(record["value"])
    found: Bins = {group: {} for group in listed or ()}
    tree = measure.tree
    assert tree is not None
    for pair, given in pairs.items():
        values = [value for value in given if value is not None and not math.isnan(value)]
        into = found.setdefault(pair[1:], {})
        weight = min(1 << tree.step_bits, measure.sensitivity_steps // max(len(values), 1))
        for value in values:
            place = math.floor((min(max(value, tree.lower), tree.upper) - tree.lower) / tree.resolution)
            place = min(place, 2**tree.height - 1)
            into[place] = into.get(place, 0) + weight
    return found


def bins_by_key(histogram: Histogram, measure: Measure) -> Bins:
    columns = [column.to_pylist() for column in histogram.keys.columns]
    bins = histogram.bins[measure.name]
    found: Bins = {}
    for place, key in enumerate(zip(*columns, strict=True)):
        own = slice(bins.offsets[place], bins.offsets[place + 1])
        entries = list(zip(bins.bins[own].tolist(), bins.steps[own].tolist(), strict=True))
        assert entries == sorted(entries), "bins are in order"
        assert len(dict(entries)) == len(entries), "a bin is there once"
        found[tuple(map(canonical, key))] = dict(entries)
    return found


@every_engine_given(
    15,
    records=records,
    keys=st.sets(st.sampled_from(["text", "number", "day"]), min_size=1),
    most=st.sampled_from([40, None]),
)
def test_bins_are_those_of_the_oracle(engine: Engine, records: list[Record], keys: set[str], most: int | None) -> None:
    """Nulls and NaN are left out, infinities clamp, ties and equal bins add up; beside a sum, which is not disturbed."""
    by = sorted(keys)
    measures = (SUM, ONE_RECORD, FEW_RECORDS)
    query = GroupByQuery("user", tuple(map(Key, by)), measures)
    histogram = engine.histogram(table(records, SCHEMA), query, ContributionBounds(most))
    for measure in measures[1:]:
        assert bins_by_key(histogram, measure) == expected_bins(records, by, measure)
    want, _ = expected(records, "user", by, (SUM,))
    assert sorted(histogram.sums[SUM.name].tolist()) == sorted(sums for _, sums in want.values())


@every_engine
def test_listed_groups_without_records_have_no_bins(engine: Engine) -> None:
    rows: list[Record] = [
        {"user": user, "text": text, "value": value}
        for user, text, value in ((1, "a", 3.0), (1, "a", 3.0), (2, "a", math.inf), (2, "b", None), (3, "other", 1.0))
    ]
    listed: list[tuple[Any, ...]] = [("a",), ("b",), ("empty",)]
    query = GroupByQuery(
        "user", (Key("text"),), (ONE_RECORD,), public_keys=pa.table({"text": [key for (key,) in listed]})
    )
    histogram = engine.histogram(table(rows, SCHEMA), query, ContributionBounds(2))
    found = bins_by_key(histogram, ONE_RECORD)
    assert found == expected_bins(rows, ["text"], ONE_RECORD, listed)
    assert found == {("a",): {2560: 1 << 20, 4095: 1 << 20}, ("b",): {}, ("empty",): {}}


UNITS, ITEMS = 12, 9
OWN = BinsOfUnit("value", 0.0, 4096.0)
"""A bin for each number: which bins a group has says who is in it."""

CROWD = pa.schema([("user", pa.int64()), ("item", pa.int64()), ("bit", pa.float64()), ("value", pa.float64())])


def crowd(users: Sequence[int] = range(UNITS)) -> pa.Table:
    rows = [
        {"user": user, "item": item, "bit": 2.0**user, "value": user + 0.5}
        for user in users
        for item in range(ITEMS)
        if (user + item) % 4
    ]
    return table(rows, CROWD)


@every_engine
def test_bins_come_from_the_pairs_that_are_counted(engine: Engine) -> None:
    """The same sample of a unit's groups: another would make one unit change twice as many groups."""
    query = GroupByQuery("user", (Key("item"),), (MASK, OWN))
    histogram = engine.histogram(crowd(), query, ContributionBounds(3), seed=11)
    kept = samples(Histogram(histogram.keys, histogram.counts, histogram.bounds, histogram.sums, (MASK,)))
    found: dict[int, set[tuple[Hashable, ...]]] = {}
    for group, bins in bins_by_key(histogram, OWN).items():
        assert set(bins.values()) == {1 << 20}
        for user in bins:
            found.setdefault(user, set()).add(group)
    assert found == kept
    assert all(len(groups) == 3 for groups in found.values())


def distances(one: Bins, other: Bins) -> dict[tuple[Hashable, ...], int]:
    """How far each group has moved, in steps, bins together."""
    found = {}
    for group in one.keys() | other.keys():
        before, after = one.get(group, {}), other.get(group, {})
        moved = sum(abs(before.get(place, 0) - after.get(place, 0)) for place in before.keys() | after.keys())
        if moved:
            found[group] = moved
    return found


@every_engine
def test_one_unit_moves_the_bins_of_few_groups_by_no_more_than_its_sensitivity(engine: Engine) -> None:
    """The hypothesis of the theorem, also of a unit with many records all over the range; and the bound is attained."""
    greedy: list[Record] = [
        {"user": 99, "item": item, "bit": 0.0, "value": float(97 * number % 4096)}
        for item in range(5)
        for number in range(40)
    ]
    every = [*crowd().to_pylist(), *greedy]
    one, few = OWN, BinsOfUnit("value", -5.0, 700.0, records=3)
    query = GroupByQuery("user", (Key("item"),), (one, few))

    def counted(without: int | None) -> dict[str, Bins]:
        left = [record for record in every if record["user"] != without]
        histogram = engine.histogram(table(left, CROWD), query, ContributionBounds(2), seed=7)
        return {measure.name: bins_by_key(histogram, measure) for measure in (one, few)}

    before = counted(None)
    largest = Counter[str]()
    units = (99,) if quick(engine) else (0, 99)
    for unit in units:
        after = counted(unit)
        for measure in (one, few):
            moved = distances(before[measure.name], after[measure.name])
            assert 1 <= len(moved) <= 2
            assert max(moved.values()) <= measure.sensitivity_steps
            largest[measure.name] = max(largest[measure.name], *moved.values())
    assert largest[one.name] == one.sensitivity_steps or 0 not in units
    assert largest[few.name] >= few.sensitivity_steps - 40


def in_groups(engine: Engine, most: int, seed: int, users: Sequence[int] = range(UNITS)) -> dict[int, set[int]]:
    """Which selected groups each unit takes part in: all but item 0 are selected."""
    query = GroupByQuery("user", (Key("item"),), (OWN,), where="item > 0")
    found: dict[int, set[int]] = {}

    def masks(groups: Arrays) -> Rows:
        """Who is in each group, as a sum of powers of two; and the weight of all of them."""
        bins = groups["bins_1"]
        powers = np.append(0, np.cumsum(2**bins.bins))
        mask = np.diff(powers[bins.offsets]).astype(np.float64)
        return Rows(np.arange(len(mask)), {"mask": mask, "weight": bins.totals.astype(np.float64)})

    def equal_weights(groups: Arrays) -> Rows:
        number = len(groups["exact"])
        return Rows(np.arange(number), {"weight": np.full(number, ONE)})

    with engine.open(crowd(users), query, seed=seed) as opened, opened.pairs() as pairs:
        sampled = pairs.sampled(2)  # what the rounds saw is another matter
        weights = sampled.first_round().together(equal_weights, ("weight",))
        counted = sampled.by_class(weights, [1000 * ONE], 1, 1, [], most)
        published = counted.publish(masks, Layout(("mask", "weight"), order="key"), together=True)
        shown = published if isinstance(published, pa.Table) else published.to_arrow()
    for item, mask, weight in zip(
        *(shown.column(name).to_pylist() for name in ("item", "mask", "weight")), strict=True
    ):
        own = [user for user in range(UNITS) if int(mask) >> user & 1]
        assert weight == len(own) << 20
        for user in own:
            found.setdefault(user, set()).add(item)
    return found


@every_engine
def test_without_a_bound_a_unit_takes_part_in_so_many_selected_groups(engine: Engine) -> None:
    """In exactly k, or in all it has; a function of the seed and its own groups; and not the groups that it sampled."""
    everything = {user: {item for item in range(1, ITEMS) if (user + item) % 4} for user in range(UNITS)}
    few = in_groups(engine, 2, 3)
    assert {len(items) for items in few.values()} == {2}
    assert all(items <= everything[user] for user, items in few.items())
    without = in_groups(engine, 2, 3, range(1, UNITS))
    assert without == {user: items for user, items in few.items() if user}
    if quick(engine):  # seconds each
        return
    all_of_them = in_groups(engine, ITEMS, 3)
    shown = set().union(*all_of_them.values())
    assert all_of_them == {user: items & shown for user, items in everything.items()}
    assert all(items <= all_of_them[user] for user, items in few.items())
    assert in_groups(engine, 2, 4) != few


def test_pairs_in_sql_and_in_memory_have_the_same_bins() -> None:
    from duckdb_pairs import open_pairs

    query = GroupByQuery("user", (Key("item"),), (OWN,))
    found = []
    for in_memory in (True, False):
        with open_pairs(crowd(), query, seed=5) as pairs:
            assert isinstance(pairs.records, DuckDBRecords)
            voters = pairs.voters(in_memory=in_memory)
            bins = voters.bins_of(np.array([5, 1, 0]), 2)["bins_1"]
            found.append([part.tolist() for part in (bins.offsets, bins.bins, bins.steps)])
    assert found[0] == found[1]
    assert len(found[0][0]) == 4
    with open_pairs(crowd(), query, seed=5) as pairs:
        whole = pairs.histogram(ContributionBounds())
    assert bins_by_key(whole, OWN) == bins_by_key(
        Histogram(whole.keys, whole.counts, whole.bounds, {}, (OWN,), bins=dict(whole.bins)), OWN
    )
    assert {len(bins) for bins in bins_by_key(whole, OWN).values()} == {9}
