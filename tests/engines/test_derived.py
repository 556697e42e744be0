"""Trees of relations on every engine: against a brute-force oracle, and each unit alone."""

from __future__ import annotations

from collections import Counter
from typing import Any

from engine_oracle import ENGINES, Engine, every_engine
from hypothesis import given
from relation_oracle import Row, Tree, cases, derived, engine_rows, evaluate, shown

import spark_sessions
from dphist.engines.parser import read_expression
from dphist.engines.relations import Combine, Filter, Fold, Folded, Join, Matching, Scan, Select, Values, owner
from example_numbers import examples

ENGINE = ENGINES["duckdb"]
Case = tuple[Tree, dict[str, list[Row]], dict[str, dict[str, str]]]


def check_equal_to_the_oracle(engine: Engine, case: Case) -> None:
    tree, tables, kinds = case
    names = tree.relation.names
    want = Counter(shown(row, names) for row in evaluate(tree.relation, tables, tree))
    assert engine_rows(engine, derived(tree, tables, kinds), owner(tree.relation).columns[0]) == want


@examples(20)
@given(case=cases())
def test_trees_equal_the_oracle(case: Case) -> None:
    """On Spark, where one takes seconds, only if it is asked for by name."""
    check_equal_to_the_oracle(ENGINE, case)
    if spark_sessions.thorough:
        check_equal_to_the_oracle(ENGINES["spark"], case)


@every_engine
def test_a_tree_of_everything_equals_the_oracle(engine: Engine) -> None:
    events = Scan("events", {"user": "user", "text": "text", "x": "x"}, "user", unit_kind="user")
    clicks = Scan("clicks", {"user_2": "user", "w": "w"}, "user_2", unit_kind="user")
    folded = Fold(
        Join(events, clicks, "left", (("user", "user_2"),)),
        ("user", "text"),
        {
            "s": Folded("sum", "x"),
            "m": Folded("avg", "w"),
            "n": Folded("count distinct", "w"),
            "w_3": Folded("max", "w"),
        },
    )
    public = Filter(Scan("urls", {"text_2": "text", "y": "x"}), read_expression("y IS NULL OR y > 0"))
    beside = Join(folded, public, "inner", (("text", "text_2"),))
    few = Matching(beside, Values(("v",), (("0",), ("2.5",), ("NULL",))), "m", negated=False)
    selected = Select(few, {"user": "user", "text": "text"}, {"z": read_expression("coalesce(s, 0) + y")})
    others = Fold(Select(events, {"user": "user", "text": "text", "x": "x"}), ("user", "text", "x"))
    columns = (("user", "user", "user"), ("text", "text", "text"), ("z", "z", "x"))
    tree = Tree(Combine(selected, others, "union", columns), {"user": "text", "text": "text", "z": "number"}, ("user",))
    tree.meanings = {
        "y IS NULL OR y > 0": lambda row: row["y"] is None or row["y"] > 0,
        "coalesce(s, 0) + y": lambda row: None if row["y"] is None else (row["s"] or 0.0) + row["y"],
    }
    private = {"user": "text", "text": "text", "x": "number", "w": "whole"}
    values: list[tuple[Any, ...]] = [
        ("1", "a", 0.1, 2),
        ("1", "a", 1e16, 3),
        ("1", "a", -1e16, None),
        ("01", "a", -0.0, 0),
        (None, "b", 1.0, 0),
    ]
    values += [("2", "b", float("nan"), 0), ("2", None, 2.0, 2), ("2", "b", None, 0)]
    rows = [dict(zip(private, row, strict=True)) for row in values]
    urls: list[Row] = [
        {"text": "a", "x": 1.5},
        {"text": "a", "x": None},
        {"text": "b", "x": 0.0},
        {"text": "b", "x": 3.0},
    ]
    tables = {"events": rows, "clicks": rows[:7], "urls": urls}
    kinds = {"events": private, "clicks": private, "urls": {"text": "text", "x": "number"}}
    assert len(evaluate(tree.relation, tables, tree)) > 8
    check_equal_to_the_oracle(engine, (tree, tables, kinds))


@examples(7)
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
