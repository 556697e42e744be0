"""Joins of private rows: so many rows of a unit as a limit allows, by its own rows alone, and all others as they were."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pyarrow as pa
import pytest
from engine_oracle import Engine, every_engine, quick
from relation_oracle import engine_rows

from dphist.engines.duckdb.engine import DuckDBEngine
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
from dphist.histogram import ContributionBounds

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
