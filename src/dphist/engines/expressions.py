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
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
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
_BEFORE: Final = "SELECT "
"""What stands before an expression where it is parsed."""

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


@dataclass(frozen=True, slots=True)
class RecordExpression:
    """A checked expression: the user's text for messages, its syntax tree, and the columns it reads.

    of_user: False where a statistic wrote it: a place in it means nothing to anybody.
    """

    text: str
    tree: dict[str, Any]
    columns: tuple[str, ...]
    of_user: bool = True


Expressions: TypeAlias = dict[str, RecordExpression]


def at(problem: InvalidParameter, text: str, node: dict[str, Any], length: int | None = None) -> InvalidParameter:
    """A problem at the place of a node in the text of an expression; one that has a place keeps it."""
    places = list(_places(node))
    if problem.pointer or not places:
        return problem
    first = min(start for start, _ in places) if length is None else node["query_location"]
    return _at(problem, text, first - len(_BEFORE), length or max(end for _, end in places) - first)


def _places(node: Any) -> Iterator[tuple[int, int]]:
    """Where a node and those below it begin and end, as far as the parser says so."""
    if isinstance(node, dict):
        if node.get("query_location") is not None:
            yield node["query_location"], node["query_location"] + node.get("query_location_length", 1)
        node = list(node.values())
    if isinstance(node, list):
        for child in node:
            yield from _places(child)


def _at(problem: InvalidParameter, text: str, first: int, length: int) -> InvalidParameter:
    """The parser counts bytes; people count letters, from one, and see one line."""
    content = text.encode()
    start, end = (len(content[:place].decode(errors="ignore")) for place in (first, first + length))
    line_start = text.rfind("\n", 0, start) + 1
    line = text[line_start:].partition("\n")[0]
    where = "at the end" if start >= len(text) else f"at character {start + 1}"
    located = type(problem)(problem.expected, f"{problem.got} {where}", problem.hint)
    carets = max(1, min(end, line_start + len(line)) - start)
    located.pointer = f"{line}\n{' ' * (start - line_start)}{'^' * carets}"
    return located


def at_column(problem: InvalidParameter, name: str, expressions: Expressions) -> InvalidParameter:
    """A problem with a column, at the first place where an expression names it."""
    for one in expressions.values():
        for node in _naming(one.tree, name) if one.of_user else ():
            return at(problem, one.text, node)
    return problem


def _naming(node: Any, name: str) -> Iterator[dict[str, Any]]:
    """The nodes that name a column."""
    if isinstance(node, dict):
        if node.get("class") == "COLUMN_REF" and node["column_names"][0].casefold() == name.casefold():
            yield node
        for child in node.values():
            yield from _naming(child, name)
    elif isinstance(node, list):
        for child in node:
            yield from _naming(child, name)


_NUMBER: Final = ("DOUBLE", "double")
_CASTS_OF_TEXT: Final = {
    "number": _NUMBER, "whole": _NUMBER, "date": ("DATE", "date"), "timestamp": ("TIMESTAMP", "timestamp"),
    "boolean": ("BOOLEAN", "boolean"), "text": ("VARCHAR", "text"),
}  # fmt: skip


def hint_of_cast(text: str, families: Iterable[str], *, column: bool) -> str:
    """How a text becomes something of the first family that it can become; nothing if there is none.

    >>> hint_of_cast("amount", ["number"], column=True)
    'write CAST(amount AS DOUBLE), or declare the column of a CSV or JSON file: --type amount=double. '
    """
    for family in families:
        if family in _CASTS_OF_TEXT:
            kind, option = _CASTS_OF_TEXT[family]
            declared = f", or declare the column of a CSV or JSON file: --type {text}={option}" if column else ""
            return f"write CAST({text} AS {kind}){declared}. "
    return ""


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
    checked = {part.expression: check_unit(part, connection) for part in parts if part.expression is not None}
    for text in (*(key.expression for key in query.by), *(one.expression for one in query.measures), query.where):
        if text is not None and text not in checked:
            checked[text] = check_expression(text, connection)
    for key in query.by:
        if key.expression is not None and (key.role != "group" or key.numbers_in is not None):
            checked[key.expression] = replace(checked[key.expression], of_user=False)
    return names, checked


def check_unit(part: Key, connection: duckdb.DuckDBPyConnection) -> RecordExpression:
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
        raise at(_refusal(text, _NAMES.get(kind, f"a {kind.lower()}")), text, node)
    if kind == "COLUMN_REF":
        yield node["column_names"][0]
        return
    if kind == "OPERATOR" and node["type"] not in _OPERATORS:
        raise at(_refusal(text, f"the operator {node['type'].removeprefix('OPERATOR_').lower()}"), text, node)
    if kind == "FUNCTION" and (problem := _problem_of_call(node, text)) is not None:
        raise at(problem, text, node, len(node["function_name"]))
    if kind == "CONSTANT" and _is_long_number(**node["literal"]):
        raise InvalidParameter(f"numbers of at most {LONGEST_NUMBER} digits in {text!r}", "a longer one")
    for child in node.values():
        yield from columns_of(child, text)


def _is_long_number(kind: str, text: str) -> bool:
    return kind in ("INTEGER", "NUMERIC") and len(text) > LONGEST_NUMBER


def _problem_of_call(node: dict[str, Any], text: str) -> InvalidParameter | None:
    name = node["function_name"].lower()
    if node.get("schema") or node.get("catalog"):
        return _refusal(text, f"the function {name} with a schema")
    if node.get("filter") or node.get("distinct") or node["order_bys"]["orders"]:
        return _refusal(text, f"the function {name} with the clause of an aggregate")
    if any(argument["name"] for argument in node["arguments"]):
        return _refusal(text, f"the function {name} with a named argument")
    if name in FUNCTIONS:
        return None
    close = nearest(name)
    return InvalidParameter(
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
    parsed = _serialized(connection, f"{_BEFORE}{text}\n FROM record")
    if parsed["error"] and text.strip() and str(parsed.get("position", "")).isdigit():
        hint = f"{_way_out(text)}{_QUOTES if chr(34) in text else ''}"
        problem = InvalidParameter("one SQL expression", f"{text!r}, which is none", hint)
        first = min(int(parsed["position"]) - len(_BEFORE), len(text.encode()))
        raise _at(problem, text, max(first, 0), 1)
    statements = [] if parsed["error"] else parsed["statements"]
    if len(statements) != 1 or statements[0]["node"].get("type") != "SELECT_NODE":
        raise InvalidParameter("one SQL expression", repr(text), _way_out(text))
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
    return dict(tree[0])


def _way_out(text: str) -> str:
    """What to write in place of a text that is no expression."""
    first = text.split(maxsplit=1)[0].upper() if text.strip() else ""
    if first in ("SELECT", "WHERE", "HAVING"):
        return f"write the expression alone, without {first}: amount > 5."
    if "&&" in text or "||" in text:
        return "write AND and OR."
    return "for example date_trunc('month', time), or amount > 5 as a condition."


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
