"""What one unit can change: laws of bounding on a few difficult records, fast enough to be asked for every small bug."""

from __future__ import annotations

import datetime as dt
import math
import random
from collections.abc import Iterable

import pyarrow as pa
import pytest
from engine_oracle import MASK, Engine, Groups, Record, every_engine, expected, groups_of, quick, samples, table

from dphist.aggregates.count import Filled, Present, RecordWeight, RowsOfUnit
from dphist.aggregates.mean import MeanOfUnit
from dphist.aggregates.measures import Lattice
from dphist.aggregates.spread import Deviation, Square
from dphist.aggregates.total import SumOfUnit
from dphist.engines.duckdb.engine import DuckDBEngine
from dphist.engines.duckdb.types import check_unit
from dphist.engines.histogram import ContributionBounds, Histogram, in_order, local_groups, row_order
from dphist.engines.query import GroupByQuery, Key, parse_key
from dphist.errors import InvalidParameter

SUM = SumOfUnit("value", -2.0, 6.0, lattice=Lattice(2.0, 2.0**-18))
MEAN = MeanOfUnit("value", 1.0, 5.0, lattice=Lattice(3.0, 2.0**-19))
ROWS = RowsOfUnit(None, 0.0, 3.0, lattice=Lattice(1.5, 0.5))
LOPSIDED = SumOfUnit("other", -1.0, 6.0, lattice=Lattice(0.0, 2.0**-18))
MEASURES = (SUM, MEAN, ROWS, LOPSIDED)
SCHEMA = pa.schema(
    [
        ("user", pa.int64()),
        ("text", pa.string()),
        ("number", pa.float64()),
        ("value", pa.float64()),
        ("other", pa.float64()),
    ]
)
NAN = math.nan
NASTY: list[Record] = [
    {"user": user, "text": text, "number": number, "value": value, "other": value}
    for user, text, number, value in [
        (1, "a", 0.0, 1.0), (1, "a", -0.0, 2.0), (1, "b", 0.0, NAN), (1, None, 1.5, None), (1, "A", 0.0, -1e300),
        (2, "a", 0.0, 1e300), (2, "a", 0.0, 1e300), (2, "b", NAN, -math.inf), (2, "", 0.0, 0.5),
        (3, "a", 0.0, math.inf), (3, "a", 0.0, -math.inf), (3, "b", None, 2.0**-22), (3, "c", 7.0, 5.0),
        (4, "a", 0.0, -0.25), (4, "a", 0.0, 0.625), (4, "a", 0.0, NAN), (4, "a", 0.0, None),
        (5, "a", 0.0, 5.0), (5, "a", 0.0, 5.0), (5, "b", 0.0, -5.0), (5, "b", 0.0, -5.0), (5, "c", 7.0, 2.0),
        (None, "a", 0.0, 4.0), (None, "z", 0.0, 4.0), (None, None, None, None),
    ]
]  # fmt: skip


@every_engine
@pytest.mark.parametrize("drop", [True, False])
def test_difficult_records_are_counted_as_the_oracle_counts_them(engine: Engine, drop: bool) -> None:
    """Null units, NaN, infinities, two zeros, clamped sums, means of units without a value, totals."""
    by = ["text", "number"]
    query = GroupByQuery("user", tuple(map(Key, by)), MEASURES, null_keys="drop" if drop else "group", want_total=True)
    want, total = expected(NASTY, "user", by, MEASURES, drop_null_keys=drop)
    histogram = engine.histogram(table(NASTY, SCHEMA), query, ContributionBounds(40))
    assert groups_of(histogram) == want
    assert histogram.total_units == total


@every_engine
def test_a_condition_and_a_public_list_leave_out_what_they_should(engine: Engine) -> None:
    """Records outside either are as if they were not there; listed groups without records are there, with zeros."""
    listed = [("a", 0.0), ("b", None), ("nobody", 1.0), (None, 1.5)]
    public = pa.table({"text": [text for text, _ in listed], "number": [number for _, number in listed]})
    query = GroupByQuery(
        "user", (Key("text"), Key("number")), MEASURES, where="value > 0", public_keys=public, want_total=True
    )
    want, total = expected(
        NASTY, "user", ["text", "number"], MEASURES, listed=listed,
        where=lambda record: record["value"] is not None and record["value"] > 0,
    )  # fmt: skip
    histogram = engine.histogram(table(NASTY, SCHEMA), query, ContributionBounds(4))
    assert groups_of(histogram) == want
    assert histogram.total_units == total
    assert histogram.listed


@every_engine
def test_groups_outside_a_public_list_take_no_place_in_a_sample(engine: Engine) -> None:
    """A unit that may be counted in one group is counted in the listed one, and the total is about listed groups."""
    rows: list[Record] = [{"user": user, "text": text} for user in range(20) for text in ("a", "b", "c", "listed")]
    rows += [{"user": user, "text": "b"} for user in range(20, 30)]
    query = GroupByQuery("user", (Key("text"),), public_keys=pa.table({"text": ["listed"]}), want_total=True)
    histogram = engine.histogram(table(rows, SCHEMA), query, ContributionBounds(1))
    assert groups_of(histogram) == {("listed",): (20,)}
    assert histogram.total_units == 20


def moved(one: Groups, other: Groups) -> list[tuple[int, ...]]:
    """How far the groups that differ have moved."""
    nothing = (0,) * (1 + len(MEASURES))
    pairs = [(one.get(group, nothing), other.get(group, nothing)) for group in one.keys() | other.keys()]
    return [tuple(a - b for a, b in zip(*pair, strict=True)) for pair in pairs if pair[0] != pair[1]]


@every_engine
def test_one_unit_moves_few_groups_and_each_by_no_more_than_its_sensitivity(engine: Engine) -> None:
    """The neighbouring relation that every guarantee assumes, for each unit of the table and for one that tries harder."""
    greedy: list[Record] = [
        {"user": 9, "text": text, "number": number, "value": sign * 1e300, "other": -sign * 1e300}
        for text in ("a", "b", "c", "new")
        for number, sign in ((0.0, 1), (7.0, -1))
        for _ in range(5)
    ]
    records = [*NASTY, *greedy]
    most = 2
    query = GroupByQuery("user", (Key("text"), Key("number")), MEASURES)
    before = groups_of(engine.histogram(table(records, SCHEMA), query, ContributionBounds(most), seed=5))
    for unit in (9,) if quick(engine) else (1, 2, 5, 9):
        others = [record for record in records if record["user"] != unit]
        after = groups_of(engine.histogram(table(others, SCHEMA), query, ContributionBounds(most), seed=5))
        steps = moved(before, after)
        assert 1 <= len(steps) <= most
        for count, *sums in steps:
            assert count == 1
            for step, measure in zip(sums, MEASURES, strict=True):
                assert abs(step) <= measure.sensitivity_steps
                low, high = ((end - measure.centre) / measure.step for end in (measure.lower, measure.upper))
                assert math.floor(low) <= step <= math.ceil(high)


CROWD = pa.schema([("user", pa.int64()), ("item", pa.int64()), ("bit", pa.float64())])
ITEMS = GroupByQuery("user", (Key("item"),), (MASK,), want_total=True)
PAIRS = [(user, item) for user in range(12) for item in range(8) if (user * 5 + item * 3) % 4 or user > 8]


def crowd(pairs: Iterable[tuple[int, int]]) -> pa.Table:
    return table([{"user": user, "item": item, "bit": 2.0**user} for user, item in pairs], CROWD)


@every_engine
def test_a_sample_follows_from_the_seed_and_the_units_own_groups(engine: Engine) -> None:
    """Not from the order of rows nor from other units; and each unit and each seed draws its own."""
    limit, bounds = 3, ContributionBounds(3)

    def kept(pairs: Iterable[tuple[int, int]], seed: int) -> dict[int, set[tuple[object, ...]]]:
        histogram = engine.histogram(crowd(pairs), ITEMS, bounds, seed=seed)
        assert histogram.total_units == len({user for user, _ in pairs})
        return {user: set(groups) for user, groups in samples(histogram).items()}

    whole = kept(PAIRS, 1)
    assert all(len(groups) == limit for groups in whole.values())
    gone = {user: groups for user, groups in whole.items() if user != 10}
    assert kept([pair for pair in PAIRS[::-1] if pair[0] != 10], 1) == gone
    if not quick(engine):
        assert kept(PAIRS[::-1], 1) == whole
        assert kept([pair for pair in PAIRS if pair[0] != 10], 1) == gone
    assert kept(PAIRS, 2) != whole
    alike = [tuple(sorted(whole[user], key=str)) for user in (9, 10, 11)]  # all three are in every group
    assert len(set(alike)) > 1


def test_a_pair_that_comes_twice_is_one_pair() -> None:
    once = DuckDBEngine().histogram(crowd(PAIRS), ITEMS, ContributionBounds(3), seed=4)
    rows: list[Record] = [{"user": user, "item": item, "bit": 2.0**user} for user, item in PAIRS]
    rows += [{"user": user, "item": item, "bit": None} for user, item in PAIRS] * 2
    random.Random(2).shuffle(rows)
    again = DuckDBEngine().histogram(table(rows, CROWD), ITEMS, ContributionBounds(3), seed=4)
    assert groups_of(again) == groups_of(once)


def test_only_evidence_of_the_bounds_that_are_assumed_is_accepted() -> None:
    """`require` is the only check of bounds: equal or narrower passes; wider, unknown or of another kind does not."""
    held = ContributionBounds(max_groups=4, sparsity=7)
    held.require()
    held.require(max_groups=4, sparsity=7)
    held.require(max_groups=5)
    for needed in ({"max_groups": 3}, {"sparsity": 6}, {"max_groups": 4, "sparsity": 6}):
        with pytest.raises(InvalidParameter, match="bounded to"):
            held.require(**needed)
    for missing in ({"max_groups": 10**9}, {"sparsity": 10**9}):
        with pytest.raises(InvalidParameter, match="bounded to"):
            ContributionBounds().require(**missing)
    query = GroupByQuery("user", (Key("item"),))
    bounded = DuckDBEngine().histogram(crowd(PAIRS), query, ContributionBounds(3, sparsity=5))
    assert bounded.bounds == ContributionBounds(3)  # nobody has seen to the sparsity
    assert DuckDBEngine().sketch(crowd(PAIRS), query, 5).bounds == ContributionBounds(sparsity=5)


def test_a_public_list_is_told_from_the_groups_of_the_data() -> None:
    keys, bounds = pa.table({"k": ["a"]}), ContributionBounds(2)
    counts = local_groups(Histogram(keys, pa.array([3]).to_numpy(), bounds)).columns["units"]
    for listed in (True, False):
        histogram = Histogram(keys, counts, bounds, listed=listed)
        histogram.require(max_groups=2, listed=listed)
        with pytest.raises(InvalidParameter, match="public list"):
            histogram.require(max_groups=2, listed=not listed)


def test_rows_of_equal_counts_are_in_the_order_of_their_keys() -> None:
    """Whatever their order was: noisy counts may be equal, and the order of the rows would then tell the data's."""
    from dphist.engines.base import Layout

    rows = [("b", 2.0), ("a", 2.0), (None, 2.0), ("c", 3.0), ("d", 1.0)]
    shown = []
    for order in (rows, rows[::-1], sorted(rows, key=str)):
        given = pa.table({"k": pa.array([k for k, _ in order], pa.string()), "count": [count for _, count in order]})
        shown.append(in_order(given, Layout(("count",))).column("k").to_pylist())
        assert given.take(row_order(given, ["k"], "key")).column("k").to_pylist() == ["a", "b", "c", "d", None]
    assert shown == [["c", "a", "b", None, "d"]] * 3


def test_a_key_may_be_derived_from_the_record_alone() -> None:
    for key in ("k=count(*)", "k=row_number() OVER ()", "k=(SELECT max(item) FROM source)", "k=random()", "k=now()"):
        with pytest.raises(InvalidParameter):
            DuckDBEngine().histogram(crowd(PAIRS), GroupByQuery("user", (parse_key(key),)), ContributionBounds(1))


@pytest.mark.parametrize(
    ("expression", "number", "want"),
    [
        ("split_part(text, ',', 1)", 65, {None, "a"}),
        ("chr(number)", 2**30, {None, "A"}),
        ("chr(number)", 1_114_112, {None, "A"}),
        *((f"time_bucket(to_{part}(number), day)", 0, {None}) for part in ("years", "months")),  # which end a run
        *((f"time_bucket(to_{part}(number), day)", 1, {None}) for part in ("years", "months")),
        *(("time_bucket(to_days(number), day)", number, {None, dt.date(2020, 4, 17)}) for number in (0, -1)),
    ],
)
def test_what_a_guard_rules_out_is_null_and_ends_no_run(expression: str, number: int, want: set[object]) -> None:
    """Guards stand in the SQL that is run, not only in the list of functions."""
    rows = pa.table(
        {
            "user": [1, 2],
            "text": ["," * 5000, "a,b"],
            "number": pa.array([number, 65], pa.int32()),
            "day": [dt.date(2020, 5, 5)] * 2,
        }
    )
    histogram = DuckDBEngine().histogram(rows, GroupByQuery("user", (Key("k", expression),)), ContributionBounds(1))
    assert set(histogram.keys["k"].to_pylist()) == want
    assert histogram.counts.sum() == 2


@pytest.mark.parametrize("kind", ["TIME_NS", "TIMESTAMPTZ_NS"])
def test_a_unit_that_reading_would_shorten_is_refused(kind: str) -> None:
    """Two people whose names differ in the last digit would be bounded as one."""
    with pytest.raises(InvalidParameter, match="to be read as it is"):
        check_unit(kind, "user")
    check_unit("TIMESTAMP_NS", "user")


LEFT_OUT = (
    SumOfUnit("value", 2.0, 3.0),
    MeanOfUnit("value", 1.0, 5.0),
    Filled("text", 0.0, 1.0),
    Present("value", 0.0, 1.0),
    RecordWeight("value", 0.0, 1.0, records=3),
    Deviation("value", -2.0, 6.0, records=3),
    Square("value", -2.0, 6.0, records=3),
    Deviation("other", -2.0, 6.0),
    Square("other", -2.0, 6.0),
)


@every_engine
def test_one_unit_moves_every_measure_by_its_sensitivity(engine: Engine) -> None:
    """Alone in a group, with one record or many, at either bound, or without any value: never more, and as much for some."""
    values: list[list[float | None]] = [
        [None],
        [math.nan, None],
        [1e9],
        [-1e9],
        [6.0] * 5,
        [-2.0] * 5,
        [1e9, -1e9],
        [2.0],
        [0.0],
        [3.0] * 2,
    ]
    records: list[Record] = [
        {"user": user, "text": f"g{user}", "number": 0.0, "value": value, "other": value}
        for user, own in enumerate(values)
        for value in own
    ]
    query = GroupByQuery("user", (Key("text"),), LEFT_OUT)
    histogram = engine.histogram(table(records, SCHEMA), query, ContributionBounds(1))
    assert groups_of(histogram) == expected(records, "user", ["text"], LEFT_OUT)[0]
    for measure in LEFT_OUT:
        moved = int(abs(histogram.sums[measure.name]).max())
        assert moved <= measure.sensitivity_steps
        assert moved >= measure.sensitivity_steps - 1, measure
