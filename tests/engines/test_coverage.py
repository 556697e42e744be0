"""Units in some of the released groups, and in none: every engine against a count in Python, by every way of a release."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Hashable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from engine_oracle import ENGINES, Engine, Record, canonical, coverage, table
from hypothesis import example, given
from hypothesis import strategies as st

from dphist.engines.base import Arrays, Layout, Rows
from dphist.engines.duckdb.engine import DuckDBEngine
from dphist.engines.histogram import ContributionBounds
from dphist.engines.query import GroupByQuery, Key
from dphist.errors import InvalidParameter
from dphist.mechanisms.tuning import LATTICE_BITS
from dphist.run.table import keys_alone
from example_numbers import examples

SCHEMA = pa.schema([("user", pa.int64()), ("text", pa.string()), ("number", pa.float64()), ("value", pa.float64())])
LAYOUT = Layout(("count",), frozenset(), "key")
Group = tuple[Hashable, ...]

records_of_few = st.lists(
    st.fixed_dictionaries(
        {
            "user": st.one_of(st.none(), st.integers(0, 12)),
            "text": st.sampled_from([None, "", "a", "A", "ä", "\x00"]),
            "number": st.sampled_from([None, 0.0, -0.0, 1.5, float("nan"), float("inf")]),
            "value": st.sampled_from([None, -1.0, 2.0, float("nan")]),
        }
    ),
    max_size=40,
)


def at_least(units: int, name: str = "units") -> Callable[[Arrays], Rows]:
    """Release the groups of so many units."""

    def larger(groups: Arrays) -> Rows:
        index = np.flatnonzero(groups[name] >= units)
        return Rows(index, {"count": groups[name][index].astype(np.float64)})

    return larger


def pairs_of(
    records: Sequence[Record], *, drop: bool = False, positive: bool = False, listed: Sequence[Group] | None = None
) -> list[tuple[Hashable, Group]]:
    """The pairs that a release sees, whatever it bounds."""
    found: list[tuple[Hashable, Group]] = []
    for record in records:
        group = (canonical(record["text"]), canonical(record["number"]))
        value: Any = canonical(record["value"])
        if record["user"] is None or (drop and None in group) or (positive and (value is None or value <= 0)):
            continue
        if listed is None or group in listed:
            found.append((record["user"], group))
    return found


def keys_in(published: Any) -> set[Group]:
    here: pa.Table = published if isinstance(published, pa.Table) else published.to_arrow()
    return {
        tuple(map(canonical, key)) for key in zip(*(column.to_pylist() for column in here.columns[:2]), strict=True)
    }


LISTED: list[Group] = [("a", 0.0), ("a", None), (None, 1.5), ("nobody", None)]
PUBLIC = pa.table({"text": [key[0] for key in LISTED], "number": pa.array([key[1] for key in LISTED], pa.float64())})


@examples(10)
@given(
    records=records_of_few,
    drop=st.booleans(),
    way=st.sampled_from(["all", "where", "listed"]),
    most=st.integers(1, 3),
    least=st.integers(1, 4),
)
def test_one_pass_equals_the_oracle(records: list[Record], drop: bool, way: str, most: int, least: int) -> None:
    """Units are in groups that bounding took from them, too. Null, NaN and zeros with a sign; an empty table; a public list."""
    check_one_pass(DuckDBEngine(), records, drop, way, most, least)


def check_one_pass(engine: Engine, records: Sequence[Record], drop: bool, way: str, most: int, least: int) -> None:
    listed = way.endswith("listed")
    query = GroupByQuery(
        "user",
        (Key("text"), Key("number")),
        where="value > 0" if way.startswith("where") else None,
        null_keys="drop" if drop and not listed else "group",
        public_keys=PUBLIC if listed else None,
        want_coverage=True,
    )
    pairs = pairs_of(
        records,
        drop=drop and not listed,
        positive=way.startswith("where"),
        listed=LISTED if listed else None,
    )
    with engine.open(table(records, SCHEMA), query) as opened:
        groups = opened.groups(ContributionBounds(most))
        published = groups.publish(at_least(least), LAYOUT)
        assert groups.coverage(published) == coverage(pairs, keys_in(published))


def _crowd() -> list[Record]:
    """12 units in the same five groups: hardly any sample of one group each has all units in groups of three."""
    texts = ("", "a", "A", "ä", None)
    return [{"user": user, "text": text, "number": 1.5, "value": 1.0} for user in range(12) for text in texts]


@examples(5)
@given(records=records_of_few, vote=st.booleans(), least=st.integers(1, 4))
@example(records=_crowd(), vote=False, least=4)
def test_pairs_of_rounds_equal_the_oracle(records: list[Record], vote: bool, least: int) -> None:
    """Also units whose sample, or whose vote, has none of the groups; pairs as arrays and in SQL."""
    for in_memory in (True, False):
        check_rounds(DuckDBEngine(), records, vote, least, in_memory=in_memory)


def check_rounds(engine: Engine, records: Sequence[Record], vote: bool, least: int, **how: Any) -> None:
    query = GroupByQuery("user", (Key("text"), Key("number")), want_coverage=True)
    with engine.open(table(records, SCHEMA), query) as opened, opened.pairs() as kept:
        coded: Any = kept.voters(**how) if vote else kept.sampled(1, **how)
        exact = coded.shares() if vote else coded.first_round()
        chosen = exact.each(_without_values(least), ("exact",))
        published = chosen.publish(keys_alone, Layout((), order="key"))
        assert coded.coverage(chosen) == coverage(pairs_of(records), keys_in(published))


def _without_values(least: int) -> Callable[[Arrays], Rows]:
    def chosen(groups: Arrays) -> Rows:
        index = np.flatnonzero(groups["exact"] >= (least - 1) << LATTICE_BITS)
        return Rows(index, {"exact": groups["exact"][index]})

    return chosen


def difficult() -> list[Record]:
    """Every value with every other, units in one, two and many groups, and nobody's records."""
    texts, numbers = [None, "", "a", "A", "ä"], [None, 0.0, -0.0, 1.5, float("nan")]
    values = [None, -1.0, 2.0, float("nan"), 3.0, 1.0]
    both = [(text, number) for text in texts for number in numbers]
    rows: list[tuple[Any, ...]] = [
        (unit, *both[(unit * 7 + step) % len(both)]) for unit in range(20) for step in range(1 + unit % 4)
    ]
    rows += [(None, "a", 0.0), (99, "ä", 1.5), (98, "a", -0.0), (97, "a", 0.0)]
    return [
        {"user": user, "text": text, "number": number, "value": values[place % len(values)]}
        for place, (user, text, number) in enumerate(rows)
    ]


ON_SPARK = [
    pytest.param(way, id=f"spark-{way}", marks=[] if way in ("where and listed", "rounds") else [pytest.mark.cluster])
    for way in ("where", "listed", "where and listed", "rounds")
]
"""The id says to the processes of a run which of them has the session."""


@pytest.mark.parametrize("way", ON_SPARK)
def test_spark_equals_the_oracle(way: str) -> None:
    if way == "rounds":
        check_rounds(ENGINES["spark"], difficult(), vote=False, least=3)
    else:
        check_one_pass(ENGINES["spark"], difficult(), way == "where", way, most=1, least=2)


def _in_many_and_in_none() -> list[Record]:
    """A unit with three released groups, one with a released group and another, and one with another alone."""
    places: list[tuple[int, Any, float | None]] = [
        (1, "a", 0.0), (1, "a", None), (1, None, 1.5), (2, "a", -0.0), (2, "", 1.5), (3, "ä", 0.0),
    ]  # fmt: skip
    return [{"user": user, "text": text, "number": number, "value": 1.0} for user, text, number in places]


@examples(4)
@given(records=records_of_few, released=st.sets(st.sampled_from(LISTED)), most=st.integers(1, 3))
@example(records=_in_many_and_in_none(), released=set(LISTED), most=1)
def test_one_unit_changes_one_bucket_by_one(records: list[Record], released: set[Group], most: int) -> None:
    """The hypothesis of the theorem, for any released keys: also such that nobody has."""
    query = GroupByQuery("user", (Key("text"), Key("number")), want_coverage=True)
    keys = PUBLIC.filter(pa.array([group in released for group in LISTED]))

    def counted(left: list[Record]) -> tuple[int, int]:
        with DuckDBEngine().open(table(left, SCHEMA), query) as opened:
            return opened.groups(ContributionBounds(most)).coverage(keys)

    everybody = counted(records)
    assert everybody == coverage(pairs_of(records), released)
    for unit in {record["user"] for record in records} - {None}:
        less = counted([record for record in records if record["user"] != unit])
        assert sorted(np.subtract(everybody, less).tolist()) == [0, 1]


def test_keys_of_every_type_are_found_again() -> None:
    """Released keys go back to the engine as Arrow: none may be lost on the way."""
    moment = dt.datetime(2024, 2, 29, 23, 59, 59, 123457)
    columns: dict[str, pa.Array] = {
        "bool": pa.array([True, False, None]),
        "int8": pa.array([-128, 127, None], pa.int8()),
        "uint64": pa.array([0, 2**64 - 1, None], pa.uint64()),
        "float": pa.array([0.1, -0.0, float("nan")], pa.float32()),
        "double": pa.array([0.1, 5e-324, float("inf")], pa.float64()),
        "decimal": pa.array([1, 2, None], pa.decimal128(38, 3)),
        "text": pa.array(["", "ä\x00", None]),
        "large": pa.array(["x" * 65_536, "y" * 65_537, "z"], pa.large_string()),
        "blob": pa.array([b"", b"\x00\xff", None]),
        "words": pa.array(["a", "b", None]).dictionary_encode(),
        "date": pa.array([dt.date(1, 1, 1), dt.date(9999, 12, 31), None]),
        "time": pa.array([dt.time(0), dt.time(23, 59, 59, 999_999), None]),
        "moment": pa.array([moment, None, moment], pa.timestamp("ns")),
        "zoned": pa.array([moment, None, moment], pa.timestamp("us", "Asia/Kathmandu")),
    }
    for name, column in columns.items():
        users = list(range(30))
        source = pa.table({"user": users, name: column.take(pa.array([user % 3 for user in users]))})
        query = GroupByQuery("user", (Key(name),), want_coverage=True)
        with DuckDBEngine().open(source, query) as opened:
            groups = opened.groups(ContributionBounds(1))
            assert groups.coverage(groups.publish(at_least(1), LAYOUT)) == (30, 0), name
            assert groups.coverage(groups.publish(at_least(31), LAYOUT)) == (0, 30), name


def test_a_source_that_can_be_read_once_is_enough() -> None:
    rows = pa.table({"user": [1, 1, 2, 3, 4, 5], "item": ["a", "b", "a", "b", "c", "a"]})
    query = GroupByQuery("user", (Key("item"),), want_coverage=True)
    reader = pa.RecordBatchReader.from_batches(rows.schema, iter(rows.to_batches()))
    with DuckDBEngine().open(reader, query) as opened:
        groups = opened.groups(ContributionBounds(3))
        assert groups.coverage(groups.publish(at_least(3), LAYOUT)) == (3, 2)


def test_pairs_are_kept_only_if_that_is_asked_for() -> None:
    rows = pa.table({"user": [1], "item": ["a"]})
    with DuckDBEngine().open(rows, GroupByQuery("user", (Key("item"),))) as opened:
        groups = opened.groups(ContributionBounds(1))
        with pytest.raises(InvalidParameter, match="pairs of units and groups"):
            groups.coverage(groups.publish(at_least(1), LAYOUT))
    with (
        DuckDBEngine().open(rows, GroupByQuery("user", (Key("item"),), want_coverage=True)) as opened,
        pytest.raises(InvalidParameter, match="a sketch of counts alone"),
    ):
        opened.sketch(2)
