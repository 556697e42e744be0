"""Every engine against the oracle, on small tables that try to be difficult."""

from __future__ import annotations

import datetime as dt
import random
from collections.abc import Sequence

import pyarrow as pa
import pytest
from engine_oracle import (
    MASK,
    Engine,
    Record,
    canonical,
    every_engine,
    every_engine_given,
    expected,
    groups_of,
    quick,
    samples,
    table,
)
from hypothesis import strategies as st

from dphist.aggregates.count import Filled, Present, RecordWeight, RowsOfUnit
from dphist.aggregates.mean import MeanOfUnit
from dphist.aggregates.measures import Lattice, Measure
from dphist.aggregates.numbers import LARGEST_SUM
from dphist.aggregates.spread import Deviation, Square
from dphist.aggregates.total import SumOfUnit
from dphist.engines.histogram import ContributionBounds
from dphist.engines.query import GroupByQuery, Key, parse_key

SUM = SumOfUnit("value", -2.0, 6.0, lattice=Lattice(2.0, 2.0**-18))
MEAN = MeanOfUnit("value", 1.0, 5.0, lattice=Lattice(3.0, 2.0**-19))
ROWS = RowsOfUnit(None, 0.0, 3.0, lattice=Lattice(1.5, 0.5))
MEASURES = (SUM, MEAN, ROWS)
AS_IN_SQL = (
    SumOfUnit("value", 2.0, 3.0, lattice=Lattice(1.5, 2.0**-19)),
    MeanOfUnit("value", 1.0, 5.0, lattice=Lattice(3.0, 2.0**-19)),
    Filled("text", 0.0, 1.0),
    Present("value", 0.0, 1.0),
    RecordWeight("value", 0.0, 1.0, records=2),
    Deviation("value", -2.0, 6.0, records=2),
    Square("value", -2.0, 6.0, records=2),
)

SCHEMA = pa.schema(
    [
        ("user", pa.int64()),
        ("text", pa.string()),
        ("number", pa.float64()),
        ("day", pa.date32()),
        ("value", pa.float64()),
    ]
)
dyadic = st.integers(-80, 80).map(lambda eighths: eighths / 8) | st.integers(-(2**24), 2**24).map(
    lambda part: part / 2**22
)
values = st.one_of(
    st.none(), dyadic, st.sampled_from([float("nan"), float("inf"), float("-inf"), 1e300, -1e300, 5e-324])
)
records = st.lists(
    st.fixed_dictionaries(
        {
            "user": st.one_of(st.none(), st.integers(0, 6)),
            "text": st.sampled_from([None, "", "a", "A", "ä", "a\u0308", "\x00", "'; DROP TABLE source; --", "🦆"]),
            "number": st.sampled_from([None, 0.0, -0.0, 1.5, float("nan"), float("inf"), float("-inf")]),
            "day": st.one_of(st.none(), st.dates(dt.date(2024, 1, 30), dt.date(2024, 3, 2))),
            "value": values,
        }
    ),
    max_size=40,
)


@every_engine_given(
    12,
    records=records,
    drop=st.booleans(),
    keys=st.sets(st.sampled_from(["text", "number", "day"]), min_size=1),
    measures=st.sampled_from([AS_IN_SQL, MEASURES]),
)
def test_equals_the_oracle_when_nobody_has_too_many_groups(
    engine: Engine, records: list[Record], drop: bool, keys: set[str], measures: tuple[Measure, ...]
) -> None:
    by = sorted(keys)
    query = GroupByQuery("user", tuple(map(Key, by)), measures, null_keys="drop" if drop else "group", want_total=True)
    want, total = expected(records, "user", by, measures, drop_null_keys=drop)
    for bounds in (ContributionBounds(), ContributionBounds(40)):
        histogram = engine.histogram(table(records, SCHEMA), query, bounds)
        assert groups_of(histogram) == want
        assert histogram.total_units == total
        assert histogram.bounds == bounds


@every_engine_given(12, records=records)
def test_derived_keys_conditions_and_public_keys(engine: Engine, records: list[Record]) -> None:
    def month(record: Record) -> object:
        return record["day"].replace(day=1) if record["day"] else None

    def positive(record: Record) -> bool | None:
        value = canonical(record["value"])
        return None if value is None else value > 0  # type: ignore[operator]

    listed = [("a", dt.date(2024, 2, 1)), ("a", None), ("nobody", dt.date(2024, 1, 1)), (None, dt.date(2024, 3, 1))]
    public = pa.table({"text": [key[0] for key in listed], "month": [key[1] for key in listed]})
    query = GroupByQuery(
        "user",
        (Key("text"), parse_key("month=date_trunc('month', day)")),
        MEASURES,
        where="value > 0",
        public_keys=public.append_column("unused", pa.nulls(4)).select(["month", "text"]),
        want_total=True,
    )
    want, total = expected(records, "user", ["text", month], MEASURES, where=positive, listed=listed)
    histogram = engine.histogram(table(records, SCHEMA), query, ContributionBounds(4))
    got = {tuple(_day(part) for part in key): row for key, row in groups_of(histogram).items()}
    assert got == want
    assert histogram.total_units == total
    assert histogram.listed


def _day(part: object) -> object:
    return part.date() if isinstance(part, dt.datetime) else part


@every_engine
def test_records_of_ordinary_floats_are_within_one_step_per_unit_of_the_true_sum(engine: Engine) -> None:
    generator = random.Random(4)
    rows: list[Record] = [
        {"user": u, "text": "x", "value": generator.uniform(-1, 2) / 3} for u in range(50) for _ in range(7)
    ]
    histogram = engine.histogram(
        table(rows, SCHEMA), GroupByQuery("user", (Key("text"),), (SUM, MEAN)), ContributionBounds(1)
    )
    for position, measure in enumerate((SUM, MEAN)):
        exact = 0.0
        for unit in range(50):
            own = [row["value"] for row in rows if row["user"] == unit]
            amount = sum(own) / (len(own) if measure.kind == "mean" else 1)
            exact += min(max(amount, measure.lower), measure.upper) - measure.centre
        (got,) = groups_of(histogram).values()
        assert abs(got[1 + position] * measure.step - exact) <= 50 * measure.step


# Sampling: who was kept is read from a sum in which each unit has a bit of its own.

crowds = st.lists(st.tuples(st.integers(0, 9), st.integers(0, 7)), min_size=1, max_size=60)
CROWD = pa.schema([("user", pa.int64()), ("item", pa.int64()), ("bit", pa.float64())])


def crowd(pairs: Sequence[tuple[int, int]]) -> pa.Table:
    """Each pair may come several times, the bit of a unit only with the first."""
    seen: set[tuple[int, int]] = set()
    rows = []
    for user, item in pairs:
        rows.append({"user": user, "item": item, "bit": None if (user, item) in seen else 2.0**user})
        seen.add((user, item))
    return table(rows, CROWD)


ITEMS = GroupByQuery("user", (Key("item"),), (MASK,), want_total=True)


@every_engine_given(15, at_length=True, pairs=crowds, limit=st.integers(1, 9))
def test_a_unit_keeps_as_many_of_its_own_groups_as_it_may(
    engine: Engine, pairs: list[tuple[int, int]], limit: int
) -> None:
    own: dict[int, set[tuple[int]]] = {}
    for user, item in pairs:
        own.setdefault(user, set()).add((item,))
    histogram = engine.histogram(crowd(pairs), ITEMS, ContributionBounds(limit))
    kept = samples(histogram)
    assert kept.keys() == own.keys()
    for user, groups in kept.items():
        assert groups <= own[user]
        assert len(groups) == min(limit, len(own[user]))
    assert histogram.total_units == len(own)


@every_engine_given(
    12, at_length=True, pairs=crowds, limit=st.integers(1, 4), seed=st.integers(0, 2**64 - 1), order=st.randoms()
)
def test_for_every_seed_a_sample_depends_on_the_units_own_records_only(
    engine: Engine, pairs: list[tuple[int, int]], limit: int, seed: int, order: random.Random
) -> None:
    """The hypothesis of the guarantee: without one unit, and with the rows in another order, all others keep the same."""
    gone = pairs[0][0]
    bounds = ContributionBounds(limit)
    whole = samples(engine.histogram(crowd(pairs), ITEMS, bounds, seed=seed))
    others = [pair for pair in pairs if pair[0] != gone]
    order.shuffle(others)
    assert samples(engine.histogram(crowd(others), ITEMS, bounds, seed=seed)) == {
        user: groups for user, groups in whole.items() if user != gone
    }


@every_engine
def test_rows_in_another_order_and_other_threads_give_the_same_integers(engine: Engine) -> None:
    generator = random.Random(1)
    rows = [
        {"user": generator.randrange(20), "text": generator.choice("abc"), "value": generator.gauss(0, 3)}
        for _ in range(600 if quick(engine) else 5000)
    ]
    query = GroupByQuery("user", (Key("text"),), MEASURES)
    first = groups_of(engine.histogram(table(rows, SCHEMA), query, ContributionBounds(2), seed=7))
    for _ in range(1 if quick(engine) else 3):
        generator.shuffle(rows)
        assert groups_of(engine.histogram(table(rows, SCHEMA), query, ContributionBounds(2), seed=7)) == first


@every_engine
def test_adding_doubles_would_let_the_order_of_rows_move_a_step(engine: Engine) -> None:
    """Beside 2^40 a double has no room for 2^-30, which here is what makes five steps full."""
    last = SUM.centre + 5 * SUM.step - 2.0**-30
    orders = {"x": [2.0**40, 2.0**-30, -(2.0**40), last], "y": [2.0**40, -(2.0**40), 2.0**-30, last]}
    rows: list[Record] = [
        {"user": 1, "text": text, "value": value} for text, values in orders.items() for value in values
    ]
    histogram = engine.histogram(
        table(rows, SCHEMA), GroupByQuery("user", (Key("text"),), (SUM,)), ContributionBounds(2)
    )
    assert histogram.sums["sum_value"].tolist() == [5, 5]


@every_engine
def test_sums_saturate_at_a_public_limit(engine: Engine) -> None:
    huge = SumOfUnit("value", 0.0, 2.0**40, lattice=Lattice(0.0, 1.0))
    rows = pa.table({"user": list(range(5)), "item": [1] * 5, "value": [2.0**40] * 5})
    histogram = engine.histogram(rows, GroupByQuery("user", (Key("item"),), (huge,)), ContributionBounds(1))
    assert histogram.sums["sum_value"].tolist() == [5 * 2**40]
    assert LARGEST_SUM == 2**61  # reached by 2^21 such units: see the plan's arithmetic below


@pytest.mark.parametrize("total", [2**61 - 1, 2**61, 2**61 + 1, 2**80, -(2**61) - 1, -(2**90)])
def test_the_saturated_sum_of_the_plan(total: int) -> None:
    import duckdb

    from dphist.aggregates.numbers import saturated

    with duckdb.connect() as connection:
        ((got,),) = connection.sql(f"SELECT {saturated(f'CAST({total} AS HUGEINT)')}").fetchall()
    assert got == max(-LARGEST_SUM, min(LARGEST_SUM, total))


@every_engine
def test_empty_input_is_an_empty_histogram(engine: Engine) -> None:
    query = GroupByQuery("user", (Key("text"),), MEASURES, want_total=True)
    histogram = engine.histogram(table([], SCHEMA), query, ContributionBounds(1))
    assert len(histogram) == 0
    assert histogram.total_units == 0
    assert histogram.keys.schema.names == ["text"]


@every_engine
def test_units_and_groups_survive_every_clash_of_names(engine: Engine) -> None:
    names = ["unit", "key_1", "value_1", "source", "record", "pairs", "place", "priority", "units", "steps_1", "user"]
    names += ['"', "'", "a b", "ä", "", "x; DROP TABLE source", "SELECT", "--", "/*", "rowid", "a.b", "{}", "%s", "?"]
    names = [name for name in names if name]
    rows = pa.table({name: [1, 1, 2] for name in names})
    step = 8 if quick(engine) else 1  # every name is a key, one in so many the unit and the column of a sum
    for position in range(0, len(names), step):
        name, column = names[position], names[position - step - 1]
        keys = [names[position - back] for back in range(1, step + 1)]
        measure = SumOfUnit(column, 0.0, 4.0, lattice=Lattice(2.0, 2.0**-19))
        query = GroupByQuery(name, (*map(Key, keys), Key("k", _quoted(column))), (measure,))
        histogram = engine.histogram(rows, query, ContributionBounds(1))
        assert groups_of(histogram) == {(1,) * (step + 1): (1, 0), (2,) * (step + 1): (1, 0)}


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
