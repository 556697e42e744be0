"""Joins of private rows: so many rows of a unit as a limit allows, by its own rows alone, and all others as they were."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pyarrow as pa
import pytest
from engine_oracle import Engine, every_engine, quick
from relation_oracle import engine_rows

from dphist.engines.duckdb.engine import DuckDBEngine
from dphist.engines.histogram import ContributionBounds
from dphist.engines.joins import is_unique
from dphist.engines.parser import read_expression
from dphist.engines.query import GroupByQuery, Key, PerformanceSettings
from dphist.engines.relations import (
    Combine,
    Derived,
    Filter,
    Fold,
    Folded,
    Join,
    Matching,
    Relation,
    Scan,
    Select,
    Values,
    owner,
)
from dphist.errors import InvalidParameter

MANY = Scan("rows", {"user": "user", "item": "item"}, "user", unit_kind="user")
AGAIN = Scan("rows", {"user_2": "user", "item_2": "item"}, "user_2", unit_kind="user")
PUBLIC = Scan("public", {"item_3": "item", "site": "site"})
LISTED = Values(("n",), tuple((str(n),) for n in range(7)))
TOTALS = Select(Fold(AGAIN, ("user_2",), {"total": Folded("count")}), {"user_3": "user_2", "total": "total"})

SELF = Join(MANY, AGAIN, "inner", (("user", "user_2"),))
OUTER = Join(MANY, AGAIN, "left", (("user", "user_2"), ("item", "item_2")))
SITES = Join(MANY, PUBLIC, "left", (("item", "item_3"),))
EVERY = Join(LISTED, MANY, "inner", ())
MULTIPLIED: dict[str, Relation] = {"self": SELF, "outer": OUTER, "sites": SITES, "every": EVERY}

ROWS = [("ann", f"a{n % 5}") for n in range(30)] + [("bob", "a1"), ("bob", "zz"), ("eve", "a0")]
SITE_TABLE = pa.table({"item": [f"a{n % 3}" for n in range(12)] + ["a4"], "site": [f"s{n}" for n in range(13)]})
NOBODY = [(None, "a1")] * 3


def tables(rows: list[tuple[Any, str]]) -> dict[str, pa.Table]:
    columns = {"user": [user for user, _ in rows], "item": [item for _, item in rows]}
    return {"rows": pa.table(columns, pa.schema({"user": pa.string(), "item": pa.string()})), "public": SITE_TABLE}


def derived(engine: Engine, relation: Relation, most: int, rows: list[tuple[Any, str]] = ROWS) -> Counter[Any]:
    return engine_rows(engine, Derived(relation, tables(rows), most), owner(relation).columns[0])


def of_unit(found: Counter[Any], relation: Relation, user: str) -> Counter[Any]:
    place = relation.names.index(owner(relation).columns[0])
    return Counter({row: number for row, number in found.items() if row[place] == repr(user)})


@every_engine
@pytest.mark.parametrize("name", MULTIPLIED)
def test_rows_with_several_partners_become_so_many_of_one_unit(engine: Engine, name: str) -> None:
    relation = MULTIPLIED[name]
    every = derived(engine, relation, 10_000)
    for most in (1, 10, 100) if not quick(engine) else (10,):
        found = derived(engine, relation, most)
        assert found <= every
        for user in ("ann", "bob", "eve"):
            mine, full = of_unit(found, relation, user), of_unit(every, relation, user)
            several = full - Counter({row: n for row, n in full.items() if row in _alone(name)})
            alone = full - several
            assert mine & alone == alone
            assert (mine - alone).total() == min(several.total(), most)


def _alone(name: str) -> set[tuple[str, ...]]:
    """The rows that are there because their left side has one partner, or none."""
    rows: set[tuple[str, ...]] = set()
    if name == "sites":
        rows |= {
            ("'ann'", "'a4'", "'a4'", "'s12'"),
            ("'ann'", "'a3'", "None", "None"),
            ("'bob'", "'zz'", "None", "None"),
        }
    if name in ("self", "outer"):
        rows |= {("'eve'", "'a0'", "'eve'", "'a0'")}
    if name == "outer":
        rows |= {("'bob'", item, "'bob'", item) for item in ("'a1'", "'zz'")}
    return rows


@every_engine
@pytest.mark.parametrize("name", MULTIPLIED)
def test_what_stays_of_a_unit_follows_from_its_own_rows(engine: Engine, name: str) -> None:
    """In whatever order they are, and whoever else is there."""
    relation = MULTIPLIED[name]
    together = derived(engine, relation, 9, [*ROWS, *NOBODY])
    assert of_unit(derived(engine, relation, 9, ROWS[::-1]), relation, "ann") == of_unit(together, relation, "ann")
    for user in ("ann",) if quick(engine) else ("ann", "bob", "eve"):
        alone = derived(engine, relation, 9, [row for row in ROWS if row[0] == user])
        assert alone == of_unit(together, relation, user)


@every_engine
def test_a_join_with_one_partner_at_most_has_no_limit(engine: Engine) -> None:
    """Of a key that is unique by the statement, or by chance."""
    unique = [Join(MANY, TOTALS, "inner", (("user", "user_3"),)), Join(TOTALS, MANY, "left", (("user_3", "user"),))]
    for relation in unique:
        assert of_unit(derived(engine, relation, 1), relation, "ann").total() == 30
    public = {**tables(ROWS), "public": pa.table({"item": [f"a{n}" for n in range(5)], "site": ["s"] * 5})}
    found = engine_rows(engine, Derived(SITES, public, 1), "user")
    assert of_unit(found, SITES, "ann").total() == 30


def test_a_limit_that_nobody_gives() -> None:
    """Two partners for each of 40,000 rows."""
    twice = Join(MANY, Values(("n",), (("1",), ("2",))), "inner", ())
    source = Derived(twice, tables([("ann", "a")] * 40_000))
    assert engine_rows(DuckDBEngine(), source, "user").total() == 65_536


def test_what_is_unique_by_the_statement() -> None:
    pairs = Fold(MANY, ("user", "item"))
    assert is_unique(pairs, ["user", "item"])
    assert not is_unique(pairs, ["user"])
    assert is_unique(
        Select(Filter(pairs, read_expression("item > 'a'")), {"u": "user", "i": "item"}), ["i", "u", "more"]
    )
    assert not is_unique(Select(pairs, {"u": "user"}, {"i": read_expression("lower(item)")}), ["u", "i"])
    assert is_unique(Fold(PUBLIC, (), {"n": Folded("count")}), [])
    columns = (("user", "user", "user_2"),)
    assert is_unique(Combine(MANY, AGAIN, "union", columns), ["user"])
    assert not is_unique(Combine(MANY, AGAIN, "union all", columns), ["user"])
    assert is_unique(Values(("n",), (("1",),)), [])
    assert not is_unique(LISTED, ["n"])
    assert not is_unique(MANY, ["user", "item"])


def test_unique_keys_of_two_types_may_be_equal() -> None:
    """As doubles, long numbers are: each of them has two partners."""
    near = pa.table({"user": [2**53, 2**53 + 1], "item": ["a", "b"]})
    one = Scan("one", {"user": "user", "x": "x"}, "user", unit_kind="user")
    keys = Fold(Scan("public", {"key": "user"}), ("key",))
    source = Derived(
        Join(one, keys, "inner", (("x", "key"),)),
        {"one": pa.table({"user": ["ann"], "x": [2.0**53]}), "public": near},
        1,
    )
    assert engine_rows(DuckDBEngine(), source, "user").total() == 1


UNITS = Select(Filter(AGAIN, read_expression("item_2 > 'i'")), {"user_3": "user_2"})
SAME = (("user", "user", "user_2"), ("item", "item", "item_2"))
SUMS = {name: Folded(name, "item_2") for name in ("count distinct", "min", "max")}
HEAVY: dict[str, Relation] = {
    **MULTIPLIED,
    "unique": Join(TOTALS, MANY, "left", (("user_3", "user"),)),
    "union": Combine(MANY, AGAIN, "union", SAME),
    "intersect": Combine(MANY, AGAIN, "intersect", SAME),
    "except": Combine(MANY, AGAIN, "except", SAME),
    "in": Matching(MANY, UNITS, "user"),
    "not in": Matching(MANY, UNITS, "user", negated=True),
    "fold": Fold(AGAIN, ("user_2",), SUMS),
    "distinct": Fold(MANY, ("user", "item")),
}


def heavy(rows: int, name: str) -> dict[str, pa.Table]:
    """One unit with so many rows, half of them alike, and others with one each."""
    items = pa.array([f"item {number % (rows // 2)}" for number in range(rows)] + ["a0"] * 100)
    users = pa.array([name] * rows + [f"user {number}" for number in range(100)])
    return {"rows": pa.table({"user": users, "item": items}), "public": SITE_TABLE}


def count(relation: Relation, tables: dict[str, pa.Table], memory: str) -> None:
    query = GroupByQuery(owner(relation).columns[0], (Key("everything", "0"),))
    engine = DuckDBEngine(PerformanceSettings(threads=1, memory_limit=memory))
    engine.histogram(Derived(relation, tables, 1_000), query, ContributionBounds(1))


@pytest.mark.parametrize("name", HEAVY)
def test_the_rows_of_one_unit_do_not_stay_in_memory(name: str) -> None:
    """They are more bytes than there is memory, but where rows are ordered within a unit."""
    count(HEAVY[name], heavy(200_000, "ann" if name in MULTIPLIED else "ann" * 100), "40MB")


@pytest.mark.long
@pytest.mark.parametrize("name", HEAVY)
def test_ten_million_rows_of_one_unit_do_not_stay_in_memory(name: str) -> None:
    count(HEAVY[name], heavy(10_000_000, "ann"), "400MB")


def sized(texts: dict[str, list[str]], engine: Engine, relation: Relation, *keys: str) -> Counter[Any]:
    """The lengths in a relation over rows of one unit each, with one partner."""
    users = [f"user {number}" for number in range(len(texts["item"]))]
    source = Derived(relation, {"rows": pa.table({"user": users, **texts}), "public": SITE_TABLE})
    query = GroupByQuery("user", tuple(Key(f"key_{place}", key) for place, key in enumerate(keys)))
    found = engine.histogram(source, query, ContributionBounds(len(keys)))
    columns = [column.to_pylist() for column in found.keys.columns]
    return Counter(dict(zip(zip(*columns, strict=True), found.counts.tolist(), strict=True)))


WIDE = Scan("rows", {"user": "user", "item": "item", "x": "x", "y": "y"}, "user", unit_kind="user")
ONE = Filter(Values(("n",), (("1",), ("2",))), read_expression("n = 1"))
"""One row, which the statement alone does not say: a join with it may multiply rows."""
BESIDE = Join(WIDE, ONE, "inner", ())
GROUPED = Fold(BESIDE, ("user", "x", "y"), {"n": Folded("count")})
BELOW = (("user", "user", "user"), ("x", "x", "x"), ("y", "y", "y"))


@every_engine
def test_texts_of_a_row_behind_a_join_are_short_together(engine: Engine) -> None:
    """1,024 bytes; where there are more, a text that has more than its share is null. A letter has two bytes."""
    texts = {
        "item": ["a"] * 5,
        "x": ["é" * 512, "é" * 512 + "x", "x" * 24, "x" * 512, "x" * 1_024],
        "y": ["", "", "y" * 1_000, "y" * 513, "y"],
    }
    stay = {(512, 0): 1, (None, 0): 1, (24, 1_000): 1, (512, None): 1, (None, 1): 1}
    before = {(512, 0): 1, (513, 0): 1, (24, 1_000): 1, (512, 513): 1, (1_024, 1): 1}
    lengths = ("length(x)", "length(y)")
    assert sized(texts, engine, WIDE, *lengths) == before
    assert sized(texts, engine, BESIDE, *lengths) == stay
    if not quick(engine):
        assert sized(texts, engine, Join(LISTED, WIDE, "inner", ()), *lengths) == stay
        once = Combine(WIDE, WIDE, "union", BELOW)
        for relation in (GROUPED, Combine(BESIDE, WIDE, "union", BELOW), Combine(WIDE, BESIDE, "intersect", BELOW)):
            assert sized(texts, engine, relation, *lengths) == stay
        assert sized(texts, engine, once, *lengths) == before


@every_engine
def test_steps_and_keys_behind_a_join_are_short(engine: Engine) -> None:
    texts = {"item": ["a", "b"], "x": ["x" * 512, "x" * 513], "y": ["y" * 512, "y"]}
    twice = Select(
        BESIDE, {"user": "user", "x": "x"}, {"double": read_expression("x || x"), "upper": read_expression("upper(x)")}
    )
    found = sized(texts, engine, twice, "length(double)", "length(upper)")
    assert found == {(1_024, 512): 1, (None, 513): 1}
    assert sized(texts, engine, BESIDE, "length(x || x)") == {(1_024,): 1, (None,): 1}
    assert sized(texts, engine, BESIDE, "x", "x || 'z'") == {("x" * 512, None): 1, (None, None): 1}


LISTED_UNITS = Scan("rows", {"user_2": "user"}, "user_2", unit_kind="user")
ABOVE: dict[str, Relation] = {
    "select": Select(BESIDE, {"user": "user", "x": "x"}),
    "filter": Filter(BESIDE, read_expression("x IS NOT NULL")),
    "join": Join(BESIDE, Values(("m",), (("1",),)), "inner", ()),
    "in": Matching(BESIDE, LISTED_UNITS, "user"),
    "union all": Combine(BESIDE, WIDE, "union all", BELOW),
    "fold": GROUPED,
}


@pytest.mark.parametrize("name", ABOVE)
def test_steps_above_a_join_are_short_whatever_stands_between(name: str) -> None:
    texts = {"item": ["a", "b"], "x": ["x" * 512, "x" * 513], "y": ["", ""]}
    assert sized(texts, DuckDBEngine(), WIDE, "length(x || x)") == {(1_024,): 1, (1_026,): 1}
    assert sized(texts, DuckDBEngine(), ABOVE[name], "length(x || x)") == {(1_024,): 1, (None,): 1}


@every_engine
def test_the_least_and_largest_texts_behind_a_join_share(engine: Engine) -> None:
    texts = {"item": ["a", "b"], "x": ["x" * 512, "x" * 513], "y": ["", ""]}
    ends = Fold(BESIDE, ("user",), {"low": Folded("min", "x"), "high": Folded("max", "x")})
    assert sized(texts, engine, ends, "length(low)", "length(high)") == {(512, 512): 1, (None, None): 1}
    alone = Fold(BESIDE, ("user",), {"low": Folded("min", "x")})
    assert sized(texts, engine, alone, "length(low)") == {(512,): 1, (513,): 1}


@every_engine
def test_a_literal_behind_a_join_is_short(engine: Engine) -> None:
    texts = {"item": ["a"], "x": ["x"], "y": [""]}
    for place in ("'{}' || x", "CASE WHEN x = 'x' THEN '{}' END"):
        assert sized(texts, engine, BESIDE, f"length({place.format('l' * 1_023)})").total() == 1
        assert sized(texts, engine, WIDE, f"length({place.format('l' * 1_025)})").total() == 1
        with pytest.raises(InvalidParameter, match="texts of at most 1,024 bytes behind a join, got one of 1,025"):
            sized(texts, engine, BESIDE, f"length({place.format('l' * 1_025)})")


def test_lists_behind_a_join_are_short() -> None:
    """They are as long as their text."""
    texts = {"item": ["a,b", ",".join(["x" * 100] * 11)], "x": ["", ""], "y": ["", ""]}
    lists = Select(WIDE, {"user": "user"}, {"parts": read_expression("string_split(item, ',')")})
    assert sized(texts, DuckDBEngine(), lists, "len(parts)") == {(2,): 1, (11,): 1}
    joined = Join(lists, ONE, "inner", ())
    assert sized(texts, DuckDBEngine(), joined, "len(parts)") == {(2,): 1, (None,): 1}


def test_a_joined_row_leaves_room_for_its_text() -> None:
    """One record beside 20,000 rows, with columns that are longer than all memory if each of them is kept."""
    long = {f"x_{place}": f"repeat_{place}" for place in range(8)}
    scan = Scan("rows", {"user": "user", "one": "one", **dict.fromkeys(long, "text")}, "user", unit_kind="user")
    relation: Relation = Join(scan, Scan("public", {"key": "one", "n": "n"}), "left", (("one", "key"),))
    relation = Join(relation, Scan("public", {"key_2": "one", "n_2": "n"}), "left", (("one", "key_2"),))
    relation = Filter(relation, read_expression(" AND ".join(f"{name} IS NOT NULL OR n > 0" for name in long)))
    tables = {
        "rows": pa.table({"user": ["ann", "bob"], "one": [1, 0], "text": ["x" * 1_000, "x"]}),
        "public": pa.table({"one": [1] * 20_000, "n": range(20_000)}),
    }
    query = GroupByQuery("user", (Key("everything", "0"),))
    engine = DuckDBEngine(PerformanceSettings(threads=1, memory_limit="60MB"))
    assert engine.histogram(Derived(relation, tables, 20_000), query, ContributionBounds(1)).counts.tolist() == [2]
