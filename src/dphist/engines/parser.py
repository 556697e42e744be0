"""Texts of users become expressions (`expressions`): only examined functions of one record get through.

DuckDB itself parses a text. Every node of its syntax tree must be of a known kind, and every function must be listed;
all others are refused. Comments, unbalanced brackets or a second statement cannot reach past the expression.

Why only the record's own columns: the guarantee needs each unit's contribution to depend on that unit's records alone. A
subquery, an aggregate, a window or a counter would let one unit change what another contributes. Why only a list of
functions: a function that can fail in a way that nothing catches would let one record decide whether a run succeeds.

The meaning of a text depends on nothing else, so a process reads each text once and keeps its tree.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache, lru_cache
from itertools import accumulate
from typing import Any, Final

import duckdb

from dphist.columns import quote_identifier
from dphist.engines.expressions import (
    Call,
    Case,
    Cast,
    Column,
    Expression,
    Literal,
    Node,
    Operation,
    Place,
    at,
    nodes_of,
    too_deep,
)
from dphist.engines.functions import FUNCTIONS, OPERATIONS, nearest
from dphist.engines.query import GroupByQuery, Key, parse_unit
from dphist.errors import InvalidParameter

LONGEST_EXPRESSION: Final = 2**16
"""Characters: enough for a list of some thousand values."""

LONGEST_NUMBER: Final = 400

_MOST_BRACKETS: Final = 200
"""Most brackets that are open at once. For two thousand the parser would take hundreds of megabytes."""

_BEFORE: Final = "SELECT "
"""The text before an expression where it is parsed."""

_NOWHERE: Final = 2**64 - 1
"""The place of a node that the parser adds."""

_QUOTES: Final = " Texts stand in single quotes, names of columns in double ones."
_NAMES: Final = {
    "COLLATE": "a collation",
    "DEFAULT": "a default",
    "LAMBDA": "a lambda or an arrow",
    "PARAMETER": "a parameter",
    "STAR": "a star",
    "SUBQUERY": "a subquery",
    "WINDOW": "a window function",
}


@lru_cache(maxsize=128)
def read_expression(text: str) -> Expression:
    """The tree of a text.

    Raises:
        InvalidParameter: it is not made of examined functions of one record; with the place.
    """
    if len(text) > LONGEST_EXPRESSION:
        expected, hint = f"an expression of at most {LONGEST_EXPRESSION:,} characters", "derive a column first."
        raise InvalidParameter(expected, f"one of {len(text):,}", hint)
    if max(accumulate({"(": 1, ")": -1}.get(letter, 0) for letter in text or " ")) > _MOST_BRACKETS:
        raise too_deep(text)
    try:
        tree = _node(_parsed(text), text)
        columns = [node.names[0] for node in nodes_of(tree) if isinstance(node, Column)]
    except RecursionError:
        raise too_deep(text) from None
    return Expression(text, tree, tuple(dict.fromkeys(columns)))


def read_query(query: GroupByQuery) -> tuple[list[str], dict[str, Expression]]:
    """The columns that a query names, and its expressions by their texts."""
    parts = parse_unit(query.unit)
    names = [part.name for part in parts if part.expression is None]
    names += [one.column for one in query.measures if one.column is not None and one.expression is None]
    names += [key.name for key in query.by if key.expression is None]
    found = {part.expression: read_unit(part) for part in parts if part.expression is not None}
    for text in (*(key.expression for key in query.by), *(one.expression for one in query.measures), query.where):
        if text is not None and text not in found:
            found[text] = read_expression(text)
    for key in query.by:
        if key.expression is not None and (key.role != "group" or key.numbers_in is not None):
            found[key.expression] = replace(found[key.expression], of_user=False)
    return names, found


def read_unit(part: Key) -> Expression:
    """The expression of a part of a unit. An expression without columns would give all records to one unit."""
    assert part.expression is not None
    try:
        found = read_expression(part.expression)
    except InvalidParameter as problem:
        if part.name != part.expression:
            raise
        hint = f"{problem.hint} A column of this name is written as unit={quote_identifier(part.name)}."
        raise InvalidParameter(problem.expected, problem.got, hint.strip()) from None
    if not found.columns:
        raise InvalidParameter(f"a column in the unit {part.expression!r}", "none", "it tells nobody from another.")
    return found


def serialized(sql: str) -> dict[str, Any]:
    """DuckDB's syntax tree of a statement, which is not run; where it cannot be read, `error` is true."""
    try:
        return dict(json.loads(_serialized(sql)))
    except (duckdb.Error, UnicodeEncodeError):
        return {"error": True}


@lru_cache(maxsize=2)
def _serialized(sql: str) -> str:
    """The tree as DuckDB writes it. Two trees are kept, since callers compare two texts before they read one."""
    with _database(os.getpid()).cursor() as connection:
        return str(connection.execute("SELECT json_serialize_sql(?)", [sql]).fetchall()[0][0])


def _whole(text: str, query: bool) -> dict[str, Any]:
    return serialized(text if query else f"{_BEFORE}{text}\n FROM record")


def _without_places(node: Any) -> Any:
    if isinstance(node, dict):
        return {name: _without_places(child) for name, child in node.items() if not name.startswith("query_location")}
    return [_without_places(child) for child in node] if isinstance(node, list) else node


@cache
def _database(process: int) -> duckdb.DuckDBPyConnection:
    """A database without tables, whose parser reads texts. process: a database does not outlive a fork."""
    return duckdb.connect(":memory:")


@cache
def _around() -> Any:
    """The statement around an expression, as DuckDB parses it."""
    return _without_expression(_whole("1", query=False)["statements"][0])


def _without_expression(statement: dict[str, Any]) -> Any:
    return _without_places({**statement["node"], "select_list": []})


def _parsed(text: str) -> dict[str, Any]:
    """DuckDB's syntax tree of a text that is one expression."""
    parsed = _whole(text, query=False)
    if parsed["error"] and text.strip() and str(parsed.get("position", "")).isdigit():
        hint = f"{_way_out(text)}{_QUOTES if chr(34) in text else ''}"
        problem = InvalidParameter("one SQL expression", f"{text!r}, which is none", hint)
        first = max(min(int(parsed["position"]) - len(_BEFORE), len(text.encode())), 0)
        raise at(problem, text, (first, first + 1))
    statements = [] if parsed["error"] else parsed["statements"]
    if len(statements) != 1 or statements[0]["node"].get("type") != "SELECT_NODE":
        raise InvalidParameter("one SQL expression", repr(text), _way_out(text))
    tree = statements[0]["node"]["select_list"]
    if len(tree) != 1:
        raise InvalidParameter("one SQL expression", repr(text), "write one key for each expression.")
    if tree[0]["alias"]:  # DuckDB reads 0x1F as 0 under the name x1F
        raise InvalidParameter("one SQL expression", f"{text!r}, which goes on behind one", "leave the name out.")
    if _without_expression(statements[0]) != _around():
        raise InvalidParameter("one SQL expression", repr(text), "it must not go on behind the expression.")
    return dict(tree[0])


def _way_out(text: str) -> str:
    """A hint for a text that is no expression."""
    first = text.split(maxsplit=1)[0].upper() if text.strip() else ""
    if first in ("SELECT", "WHERE", "HAVING"):
        return f"write the expression alone, without {first}: amount > 5."
    if "&&" in text or "||" in text:
        return "write AND and OR."
    return "for example date_trunc('month', time), or amount > 5 as a condition."


def _node(raw: Mapping[str, Any], text: str) -> Node:
    """DuckDB's node as our node. A node of an unknown kind is refused at its place."""
    match raw["class"]:
        case "COLUMN_REF":
            return Column(tuple(raw["column_names"]), _place(raw))
        case "CONSTANT":
            kind, content = raw["literal"]["kind"], raw["literal"]["text"]
            if kind in ("INTEGER", "NUMERIC") and len(content) > LONGEST_NUMBER:
                raise InvalidParameter(f"numbers of at most {LONGEST_NUMBER} digits in {text!r}", "a longer one")
            return Literal(kind, content, _place(raw))
        case "CASE":
            pairs = [check[name] for check in raw["case_checks"] for name in ("when_expr", "then_expr")]
            parts = _nodes([*pairs, raw["else_expr"]], text)
            return Case(parts, _place(raw, parts))
        case "CAST":
            operand = _node(raw["child"], text)
            parameters = [str(child.get("literal", {}).get("text", "")) for child in raw["type_expr"]["children"]]
            return Cast((operand,), raw["type_expr"]["type_name"], tuple(parameters), _place(raw, (operand,)))
        case "FUNCTION":
            _check_call(raw, text)
            parts = _nodes([argument["expression"] for argument in raw["arguments"]], text)
            return Call(raw["function_name"].lower(), parts, _place(raw, parts))
        case "COMPARISON" | "BETWEEN" | "CONJUNCTION" | "OPERATOR" if raw["type"] in OPERATIONS:
            operands = [raw[name] for name in ("left", "right", "input", "lower", "upper") if name in raw]
            parts = _nodes([*operands, *raw.get("children", ())], text)
            return Operation(raw["type"], parts, _place(raw, parts))
        case "OPERATOR":
            got = f"the operator {raw['type'].removeprefix('OPERATOR_').lower()}"
        case other:
            got = _NAMES.get(other, f"a {other.lower()}")
    inside = [Literal("", "", _place(one)) for one in raw_nodes(raw)]
    raise at(_refusal(text, got), text, _place({}, inside))


def _nodes(raw: Sequence[Mapping[str, Any]], text: str) -> tuple[Node, ...]:
    return tuple(_node(one, text) for one in raw)


def _place(raw: Mapping[str, Any], parts: Sequence[Node] = ()) -> Place:
    """From the first byte to the last that the parser took for a node or for its parts."""
    places = [part.place for part in parts if part.place is not None]
    if raw.get("query_location", _NOWHERE) not in (None, _NOWHERE):
        first = raw["query_location"] - len(_BEFORE)
        places.append((first, first + raw.get("query_location_length", 1)))
    return (min(first for first, _ in places), max(last for _, last in places)) if places else None


def raw_nodes(raw: Any) -> Iterator[dict[str, Any]]:
    """Every object in a syntax tree of DuckDB's."""
    if isinstance(raw, dict):
        yield raw
        raw = list(raw.values())
    if isinstance(raw, list):
        for child in raw:
            yield from raw_nodes(child)


def _check_call(raw: Mapping[str, Any], text: str) -> None:
    name = raw["function_name"].lower()
    if raw.get("schema") or raw.get("catalog"):
        problem = _refusal(text, f"the function {name} with a schema")
    elif raw.get("filter") or raw.get("distinct") or raw["order_bys"]["orders"] or raw.get("export_state"):
        problem = _refusal(text, f"the function {name} with the clause of an aggregate")
    elif any(argument["name"] for argument in raw["arguments"]):
        problem = _refusal(text, f"the function {name} with a named argument")
    elif name in FUNCTIONS:
        return
    else:
        close = nearest(name)
        hint = f"did you mean {' or '.join(close)}? " if close else ""
        expected = f"functions that were examined in {text!r}"
        problem = InvalidParameter(expected, f"the function {name}", f"{hint}docs/expressions.md lists all that work.")
    place = _place(raw)
    raise at(problem, text, None if place is None else (place[0], place[0] + len(name)))


def _refusal(text: str, got: str) -> InvalidParameter:
    return InvalidParameter(
        f"an expression of the record's own columns in {text!r}",
        got,
        "only functions of one record keep the guarantee: no subqueries, aggregates, windows, clocks or random numbers."
        " docs/expressions.md lists all that work.",
    )
