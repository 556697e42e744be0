"""Units of several parts and of expressions, and values of expressions: every engine against the oracle, on every road."""

from __future__ import annotations

import datetime as dt
import random
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pytest
from engine_oracle import (
    MASK,
    Engine,
    Record,
    every_engine,
    every_engine_given,
    expected,
    groups_of,
    quick,
    samples,
    table,
)
from hypothesis import strategies as st

from dphist.aggregates.mean import MeanOfUnit
from dphist.aggregates.measures import Lattice, Measure
from dphist.aggregates.total import SumOfUnit
from dphist.columns import Unit
from dphist.engines.duckdb.engine import DuckDBEngine
from dphist.engines.histogram import ContributionBounds, Histogram
from dphist.engines.query import GroupByQuery, Key
from dphist.errors import InvalidParameter

SCHEMA: Final = pa.schema(
    [
        ("first", pa.string()),
        ("last", pa.string()),
        ("number", pa.float64()),
        ("day", pa.date32()),
        ("item", pa.int64()),
        ("price", pa.float64()),
        ("quantity", pa.int64()),
    ]
)
CUTS: Final = [
    None,
    "",
    "a",
    "A",
    "a,",
    ",a",
    ",",
    "a,a",
    "('a',",
    "\x00",
    "a\x00",
    "\\",
    '"',
    "a\tb",
    "b",
    "null",
    "0.0",
]
"""Texts that are the same when they are joined, cut in another place, quoted, or taken for a null."""

records = st.lists(
    st.fixed_dictionaries(
        {
            "first": st.sampled_from(CUTS),
            "last": st.sampled_from(CUTS),
            "number": st.sampled_from([None, 0.0, -0.0, 1.5, float("nan"), float("inf")]),
            "day": st.none() | st.dates(dt.date(2024, 1, 30), dt.date(2024, 2, 2)),
            "item": st.integers(0, 2),
            "price": st.sampled_from([None, 0.0, 0.25, 3.0, -2.0, float("nan"), float("inf"), float("-inf")]),
            "quantity": st.sampled_from([None, 0, 1, 4, -3, 2**62]),
        }
    ),
    max_size=30,
)


def month(record: Record) -> Any:
    return None if record["day"] is None else record["day"].replace(day=1)


def lowered(record: Record) -> Any:
    return None if record["first"] is None else record["first"].lower()


UNITS: Final[dict[Unit, list[str | Callable[[Record], Any]]]] = {
    ("first", "last"): ["first", "last"],
    ("last", "first", "number"): ["last", "first", "number"],
    "lower(first)": [lowered],
    ("number", "lower(first)"): ["number", lowered],
    ("last", "month=date_trunc('month', day)"): ["last", month],
    "name=first": ["first"],
}
REVENUE: Final = SumOfUnit("revenue", -8.0, 8.0, lattice=Lattice(0.0, 2.0**-16), expression="price * quantity")
SPENT: Final = MeanOfUnit("spent", 0.0, 4.0, lattice=Lattice(2.0, 2.0**-19), expression="coalesce(price, 1) + 1")


def with_values(record: Record) -> Record:
    """The values of the two expressions, in doubles. NaN is null before a step and behind it."""
    price, quantity = record["price"], record["quantity"]
    known = price is not None and not np.isnan(price)
    revenue = price * quantity if known and quantity is not None else None
    return {**record, "revenue": revenue, "spent": (price if known else 1.0) + 1}


@every_engine_given(12, records=records, unit=st.sampled_from(list(UNITS)), drop=st.booleans())
def test_the_oracle_counts_the_same_units_and_values(
    engine: Engine, records: list[Record], unit: Unit, drop: bool
) -> None:
    """No two units become one and no unit becomes two; a record without a part of its unit belongs to nobody."""
    query = GroupByQuery(
        unit,
        (Key("item"), Key("last")),
        (REVENUE, SPENT),
        null_keys="drop" if drop else "group",
        want_total=True,
    )
    want, total = expected(
        list(map(with_values, records)), UNITS[unit], ["item", "last"], (REVENUE, SPENT), drop_null_keys=drop
    )
    histogram = engine.histogram(table(records, SCHEMA), query, ContributionBounds(60 if drop else None))
    assert groups_of(histogram) == want
    assert histogram.total_units == total


@every_engine
def test_units_that_joined_texts_would_mix_up_stay_apart(engine: Engine) -> None:
    """Every pair of these texts is a unit of its own, unless one of them is missing."""
    rows: list[Record] = [{"first": a, "last": b, "item": 1} for a in CUTS for b in CUTS for _ in range(2)]
    histogram = engine.histogram(
        table(rows, SCHEMA), GroupByQuery(("first", "last"), (Key("item"),), want_total=True), ContributionBounds(1)
    )
    assert histogram.counts.tolist() == [(len(CUTS) - 1) ** 2]
    assert histogram.total_units == (len(CUTS) - 1) ** 2


# Sampling: each unit has a bit of its own, as in test_engine_oracle.

NAMES: Final = [(a, b) for a in ("", "x", "x,") for b in ("", ",", ",x")]
CROWD: Final = pa.schema([("left", pa.string()), ("right", pa.string()), ("item", pa.int64()), ("bit", pa.float64())])
crowds = st.lists(st.tuples(st.integers(0, 8), st.integers(0, 7)), min_size=1, max_size=50)
ITEMS: Final = GroupByQuery(("left", "right"), (Key("item"),), (MASK,), want_total=True)


def crowd(pairs: Sequence[tuple[int, int]]) -> pa.Table:
    seen: set[tuple[int, int]] = set()
    rows = []
    for user, item in pairs:
        left, right = NAMES[user]
        bit = None if (user, item) in seen else 2.0**user
        rows.append({"left": left, "right": right, "item": item, "bit": bit})
        seen.add((user, item))
    return table(rows, CROWD)


@every_engine_given(6, pairs=crowds, limit=st.integers(1, 4), seed=st.integers(0, 2**64 - 1), order=st.randoms())
def test_a_sample_depends_on_the_seed_and_the_units_own_records(
    engine: Engine, pairs: list[tuple[int, int]], limit: int, seed: int, order: random.Random
) -> None:
    own: dict[int, set[Any]] = {}
    for user, item in pairs:
        own.setdefault(user, set()).add((item,))
    bounds = ContributionBounds(limit)
    histogram = engine.histogram(crowd(pairs), ITEMS, bounds, seed=seed)
    whole = samples(histogram)
    assert {user: len(groups) for user, groups in whole.items()} == {u: min(limit, len(g)) for u, g in own.items()}
    assert all(groups <= own[user] for user, groups in whole.items())
    assert histogram.total_units == len(own)
    gone = pairs[0][0]
    others = [pair for pair in pairs if pair[0] != gone]
    order.shuffle(others)
    left = samples(engine.histogram(crowd(others), ITEMS, bounds, seed=seed))
    assert left == {user: groups for user, groups in whole.items() if user != gone}


@every_engine
def test_pairs_elections_and_sketches_take_such_units(engine: Engine) -> None:
    """Each unit is counted once in each of its groups, and has one vote at most."""
    generator = random.Random(2)
    pairs = [(generator.randrange(9), generator.randrange(8)) for _ in range(40)]
    counts = Counter(item for _, item in set(pairs))
    degrees = Counter(user for user, _ in set(pairs))
    query = GroupByQuery(("left", "right"), (Key("item"),))
    assert _counts(engine.sketch(crowd(pairs), query, 8, seed=3)) == counts
    with engine.open(crowd(pairs), query, seed=3) as records, records.pairs() as opened:
        assert _counts(opened.histogram(ContributionBounds())) == counts
        assert opened.total_units() == len(degrees)
        few = sum(degree < 4 for degree in degrees.values())
        assert opened.degree_histogram(np.array([1, 4])).tolist() == [few, len(degrees) - few]
        places = 9 if quick(engine) else 1  # a round for each time that somebody is turned away takes Spark a second
        assert 0 < opened.voters().elect(places).sum_of("votes") <= len(degrees)


def _counts(histogram: Histogram) -> dict[Any, int]:
    return dict(zip(histogram.keys.column(0).to_pylist(), histogram.counts.tolist(), strict=True))


@every_engine
@pytest.mark.parametrize(
    ("expression", "values", "want"),
    [
        ("quantity * 4", [2**62, 1], [None, 4.0]),
        ("CAST(first AS DOUBLE)", [1, 2], [None, 12.5]),
    ],
)
def test_a_step_that_fails_is_null_for_its_record_alone(
    engine: Engine, expression: str, values: list[int], want: list[float | None]
) -> None:
    rows: list[Record] = [
        {"first": text, "item": place, "price": 3.0, "quantity": value, "last": "u"}
        for place, (value, text) in enumerate(zip(values, ("no number", "12.5"), strict=True))
    ]
    measure = MeanOfUnit("x", 0.0, 16.0, lattice=Lattice(0.0, 2.0**-10), expression=expression)
    histogram = engine.histogram(
        table(rows, SCHEMA), GroupByQuery("last", (Key("item"),), (measure,)), ContributionBounds()
    )
    got = {key: steps * measure.step for (key,), (_, steps) in groups_of(histogram).items()}
    assert got == {place: value or 0.0 for place, value in enumerate(want)}


REFUSED: Final = {
    "a function that was not examined": ("random()", "functions that were examined"),
    "a typing mistake": ("lowr(first)", "did you mean lower"),
    "a column that does not exist": ("lower(frist)", "did you mean 'first'"),
    "nobody in particular": ("lower('a')", "a column in the unit"),
    "a name that is close": ("frist", "did you mean 'first'"),
    "an aggregate": ("max(first)", "functions that were examined"),
    "a window": ("sum(item) over ()", "a window function"),
}


@every_engine
@pytest.mark.parametrize("name", REFUSED)
def test_what_is_no_unit_is_refused_by_its_text(engine: Engine, name: str) -> None:
    unit, words = REFUSED[name]
    for given in (unit, (unit, "last")):
        with pytest.raises(InvalidParameter, match=words):
            engine.histogram(table([], SCHEMA), GroupByQuery(given, (Key("item"),)), ContributionBounds())


@every_engine
def test_values_must_be_numbers_by_their_type_and_expressions_need_a_name(engine: Engine) -> None:
    def count(measure: Measure) -> None:
        engine.histogram(table([], SCHEMA), GroupByQuery("last", (Key("item"),), (measure,)), ContributionBounds())

    with pytest.raises(InvalidParameter, match=r"numbers in 'lower\(first\)'"):
        count(SumOfUnit("x", 0.0, 1.0, expression="lower(first)"))
    with pytest.raises(InvalidParameter, match="needs a name"):
        count(SumOfUnit("price*quantity", 0.0, 1.0))


def test_a_column_with_a_bracket_in_its_name_is_quoted_under_a_name() -> None:
    rows = pa.table({"Person (id)": [1, 1, 2], "item": [1, 1, 1]})
    query = GroupByQuery('person="Person (id)"', (Key("item"),))
    assert DuckDBEngine().histogram(rows, query, ContributionBounds()).counts.tolist() == [2]
    with pytest.raises(InvalidParameter, match='is written as unit="Person'):
        DuckDBEngine().histogram(rows, GroupByQuery("Person (id)", (Key("item"),)), ContributionBounds())


@pytest.mark.parametrize("unit", ["clock", "CAST(clock AS VARCHAR)", ("who", "clock")])
def test_no_part_of_a_unit_is_read_shorter_than_it_is(unit: Unit) -> None:
    """DuckDB reads such times to the microsecond: two units would become one, and be bounded as one."""
    rows = pa.table({"who": [1, 1], "clock": pa.array([1, 2], pa.time64("ns")), "item": [1, 1]})
    with pytest.raises(InvalidParameter, match="to be read as it is"):
        DuckDBEngine().histogram(rows, GroupByQuery(unit, (Key("item"),)), ContributionBounds())


@every_engine
@pytest.mark.parametrize("unit", ["time", ("who", "time"), "date_trunc('day', time)"])
def test_nanoseconds_are_told_apart_or_refused(engine: Engine, unit: Unit) -> None:
    """Spark has microseconds."""
    rows = pa.table({"who": [1, 1], "time": pa.array([1, 2], pa.timestamp("ns")), "item": [1, 1]})
    query = GroupByQuery(unit, (Key("item"),))
    if isinstance(engine, DuckDBEngine):
        days = 1 if unit == "date_trunc('day', time)" else 2
        assert engine.histogram(rows, query, ContributionBounds()).counts.tolist() == [days]
        return
    with pytest.raises(InvalidParameter, match="to be read as it is"):
        engine.histogram(rows, query, ContributionBounds())
