"""SQL expressions from users: only examined functions of one record get through.

An expression is parsed by DuckDB itself and its syntax tree is walked: every kind of node and every function must be on a
list, anything else is refused. What runs later is not the user's text but SQL that an engine writes from the tree, so that
comments, unbalanced brackets or a second statement cannot reach past the expression.

Why only the record's own columns: the guarantee needs each unit's contribution to depend on that unit's records alone. A
subquery, an aggregate, a window or a counter would let one unit change what another contributes. Why only a list of
functions: a function that can fail in a way that nothing catches would let one record decide whether a run succeeds.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, Final, TypeAlias

import duckdb

from dphist.engines.functions import FUNCTIONS, nearest
from dphist.engines.query import GroupByQuery, Key, parse_unit
from dphist.errors import InvalidParameter

LONGEST_EXPRESSION: Final = 2**16
"""Characters: enough for a list of some thousand values."""

LONGEST_NUMBER: Final = 400

_MOST_BRACKETS: Final = 200
"""Open at once: of two thousand the parser would make hundreds of megabytes."""

_CLASSES: Final = frozenset(
    {"BETWEEN", "CASE", "CAST", "COLUMN_REF", "COMPARISON", "CONJUNCTION", "CONSTANT", "FUNCTION", "OPERATOR", "TYPE"}
)
_OPERATORS: Final = frozenset(
    {
        "ARRAY_EXTRACT",
        "ARRAY_SLICE",
        "COMPARE_IN",
        "OPERATOR_COALESCE",
        "OPERATOR_IS_NOT_NULL",
        "OPERATOR_IS_NULL",
        "OPERATOR_NOT",
    }
    | {"OPERATOR_TRY"}
)
_NAMES: Final = {
    "COLLATE": "a collation",
    "DEFAULT": "a default",
    "LAMBDA": "a lambda or an arrow",
    "PARAMETER": "a parameter",
    "STAR": "a star",
    "SUBQUERY": "a subquery",
    "WINDOW": "a window function",
}


@dataclass(frozen=True, slots=True)
class RecordExpression:
    """A checked expression: the user's text for messages, its syntax tree, and the columns it reads."""

    text: str
    tree: dict[str, Any]
    columns: tuple[str, ...]


Expressions: TypeAlias = dict[str, RecordExpression]


def check_expression(text: str, connection: duckdb.DuckDBPyConnection) -> RecordExpression:
    """Parse `text` and refuse what is not made of examined functions of one record."""
    if len(text) > LONGEST_EXPRESSION:
        expected, hint = f"an expression of at most {LONGEST_EXPRESSION:,} characters", "derive a column first."
        raise InvalidParameter(expected, f"one of {len(text):,}", hint)
    deep = InvalidParameter("an expression that is not so deep", repr(text), "derive a column first.")
    if max(accumulate({"(": 1, ")": -1}.get(letter, 0) for letter in text or " ")) > _MOST_BRACKETS:
        raise deep
    try:
        tree = _parse(text, connection)
        return RecordExpression(text, tree, tuple(dict.fromkeys(columns_of(tree, text))))
    except RecursionError:
        raise deep from None


def check_query(query: GroupByQuery, connection: duckdb.DuckDBPyConnection) -> tuple[list[str], Expressions]:
    """The columns that a query names, and its expressions by their texts."""
    parts = parse_unit(query.unit)
    names = [part.name for part in parts if part.expression is None]
    names += [one.column for one in query.measures if one.column is not None and one.expression is None]
    names += [key.name for key in query.by if key.expression is None]
    checked = {part.expression: _check_unit(part, connection) for part in parts if part.expression is not None}
    for text in (*(key.expression for key in query.by), *(one.expression for one in query.measures), query.where):
        if text is not None and text not in checked:
            checked[text] = check_expression(text, connection)
    return names, checked


def _check_unit(part: Key, connection: duckdb.DuckDBPyConnection) -> RecordExpression:
    """An expression without columns would make all records those of one unit."""
    assert part.expression is not None
    try:
        found = check_expression(part.expression, connection)
    except InvalidParameter as problem:
        if part.name != part.expression:
            raise
        quoted = part.name.replace('"', '""')
        hint = f'{problem.hint} A column of this name is written as unit="{quoted}".'
        raise InvalidParameter(problem.expected, problem.got, hint.strip()) from None
    if not found.columns:
        raise InvalidParameter(f"a column in the unit {part.expression!r}", "none", "it tells nobody from another.")
    return found


def columns_of(node: Any, text: str) -> Iterator[str]:
    """The columns a tree reads; refuses what is not on a list."""
    if isinstance(node, list):
        for child in node:
            yield from columns_of(child, text)
        return
    if not isinstance(node, dict):
        return
    kind = node.get("class")
    if kind is not None and kind not in _CLASSES:
        raise _refusal(text, _NAMES.get(kind, f"a {kind.lower()}"))
    if kind == "COLUMN_REF":
        yield node["column_names"][0]
        return
    if kind == "OPERATOR" and node["type"] not in _OPERATORS:
        raise _refusal(text, f"the operator {node['type'].removeprefix('OPERATOR_').lower()}")
    if kind == "FUNCTION":
        _check_call(node, text)
    if kind == "CONSTANT" and _is_long_number(**node["literal"]):
        raise InvalidParameter(f"numbers of at most {LONGEST_NUMBER} digits in {text!r}", "a longer one")
    for child in node.values():
        yield from columns_of(child, text)


def _is_long_number(kind: str, text: str) -> bool:
    return kind in ("INTEGER", "NUMERIC") and len(text) > LONGEST_NUMBER


def _check_call(node: dict[str, Any], text: str) -> None:
    name = node["function_name"].lower()
    if node.get("schema") or node.get("catalog"):
        raise _refusal(text, f"the function {name} with a schema")
    if node.get("filter") or node.get("distinct") or node["order_bys"]["orders"]:
        raise _refusal(text, f"the function {name} with the clause of an aggregate")
    if any(argument["name"] for argument in node["arguments"]):
        raise _refusal(text, f"the function {name} with a named argument")
    if name not in FUNCTIONS:
        close = nearest(name)
        raise InvalidParameter(
            f"functions that were examined in {text!r}",
            f"the function {name}",
            (f"did you mean {' or '.join(close)}? " if close else "") + "docs/expressions.md lists all that work.",
        )


def _refusal(text: str, got: str) -> InvalidParameter:
    return InvalidParameter(
        f"an expression of the record's own columns in {text!r}",
        got,
        "only functions of one record keep the guarantee: no subqueries, aggregates, windows, clocks or random numbers."
        " docs/expressions.md lists all that work.",
    )


def _parse(text: str, connection: duckdb.DuckDBPyConnection) -> dict[str, Any]:
    """The syntax tree of one expression."""
    parsed = _serialized(connection, f"SELECT {text}\n FROM record")
    statements = [] if parsed["error"] else parsed["statements"]
    if len(statements) != 1 or statements[0]["node"].get("type") != "SELECT_NODE":
        raise InvalidParameter("one SQL expression", repr(text), "for example date_trunc('month', time).")
    tree = statements[0]["node"]["select_list"]
    if len(tree) != 1:
        raise InvalidParameter("one SQL expression", repr(text), "write one key for each expression.")
    if tree[0]["alias"]:  # 0x1F, say, is 0 by the name of x1F
        raise InvalidParameter("one SQL expression", f"{text!r}, which goes on behind one", "leave the name out.")
    template = _serialized(connection, "SELECT 1 FROM record")["statements"][0]["node"]
    if _without_locations({**statements[0]["node"], "select_list": []}) != _without_locations(
        {**template, "select_list": []}
    ):
        raise InvalidParameter("one SQL expression", repr(text), "it must not go on behind the expression.")
    return dict(_without_locations(tree[0]))


def _serialized(connection: duckdb.DuckDBPyConnection, sql: str) -> dict[str, Any]:
    try:
        sql.encode()
    except UnicodeEncodeError:
        return {"error": True}
    return dict(json.loads(connection.execute("SELECT json_serialize_sql(?)", [sql]).fetchall()[0][0]))


def _without_locations(node: Any) -> Any:
    if isinstance(node, dict):
        return {
            name: _without_locations(child) for name, child in node.items() if not name.startswith("query_location")
        }
    return [_without_locations(child) for child in node] if isinstance(node, list) else node
