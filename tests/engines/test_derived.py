"""Trees of relations on every engine: against a brute-force oracle, and each unit alone."""

from __future__ import annotations

from collections import Counter
from typing import Any

from engine_oracle import Engine, every_engine_given
from hypothesis import given
from relation_oracle import Row, Tree, cases, derived, engine_rows, evaluate, shown

from dphist.engines.duckdb.engine import DuckDBEngine
from dphist.engines.relations import owner
from example_numbers import MORE, examples

ENGINE = DuckDBEngine()
Case = tuple[Tree, dict[str, list[Row]], dict[str, dict[str, str]]]


@every_engine_given(40 * MORE, case=cases())
def test_trees_equal_the_oracle(engine: Engine, case: Case) -> None:
    tree, tables, kinds = case
    names = tree.relation.names
    want = Counter(shown(row, names) for row in evaluate(tree.relation, tables, tree))
    assert engine_rows(engine, derived(tree, tables, kinds), owner(tree.relation).columns[0]) == want


@examples(15)
@given(case=cases())
def test_the_rows_of_a_unit_follow_from_its_own_rows(case: Case) -> None:
    tree, tables, kinds = case
    evaluate(tree.relation, tables, tree)  # not too many rows
    unit = owner(tree.relation).columns[0]
    place = tree.relation.names.index(unit)
    together = engine_rows(ENGINE, derived(tree, tables, kinds), unit)
    users: set[Any] = {row["user"] for name in ("events", "clicks") for row in tables[name]} - {None}
    for user in users:
        alone = {name: [row for row in rows if row.get("user", user) == user] for name, rows in tables.items()}
        got = engine_rows(ENGINE, derived(tree, alone, kinds), unit)
        for_user = {row: times for row, times in together.items() if row[place] == repr(user)}
        assert {row: times for row, times in got.items() if row[place] == repr(user)} == for_user
        assert {row[place] for row in got} <= {repr(user), "None"}
