"""SQL expressions from users: only pure functions of one record get through.

An expression is parsed by DuckDB itself, and its syntax tree is walked: every kind of node and every function must be on the
safe side, anything unknown is refused. What runs later is not the user's text but the tree written out again, so that
comments, unbalanced brackets or a second statement cannot reach past the expression.

Why only the record's own columns: the guarantee needs each unit's contribution to depend on that unit's records alone. A
subquery, an aggregate, a window or a counter would let one unit change what another contributes.
"""

# ruff: noqa: S608 - SQL is what this file is for: names are quoted, expressions are checked and written out again
from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import duckdb

from dphist.errors import InvalidParameter

_CLASSES: Final = frozenset(
    {
        "BETWEEN",
        "CASE",
        "CAST",
        "COLUMN_REF",
        "COMPARISON",
        "CONJUNCTION",
        "CONSTANT",
        "FUNCTION",
        "LAMBDA",
        "OPERATOR",
        "TYPE",
    }
)
_REFUSED_OPERATORS: Final = frozenset({"GROUPING_FUNCTION", "OPERATOR_UNPACK", "STRUCT_EXTRACT_AT"})
_PURE_MACROS: Final = frozenset(
    {
        "array_append",
        "array_prepend",
        "array_reverse",
        "array_to_string",
        "date_add",
        "days_in_month",
        "fdiv",
        "fmod",
        "if",
        "json",
    }
    | {"list_append", "list_avg", "list_count", "list_first", "list_last", "list_max", "list_min", "list_prepend"}
    | {"list_reverse", "list_sum", "nullif", "split_part"}
)
_REFUSED_FUNCTIONS: Final = frozenset(
    {"current_localtime", "current_localtimestamp", "json_deserialize_sql", "json_serialize_plan", "json_serialize_sql"}
    | {"create_sort_key", "finalize", "combine", "to_aggregate_state", "unnest", "version", "alias", "getenv"}
)
_SIZED_FUNCTIONS: Final = frozenset({"array_resize", "bar", "list_resize", "lpad", "rpad"})
_UNCHECKED_TIMES: Final = frozenset({"epoch_ms", "make_timestamp", "make_timestamp_ms"})
"""With one argument they make a time of any number. Writing some of these as text ends a run, even inside TRY."""


@dataclass(frozen=True, slots=True)
class RecordExpression:
    """A checked expression: its text written out anew, and the columns it reads."""

    sql: str
    columns: tuple[str, ...]


def check_expression(text: str, connection: duckdb.DuckDBPyConnection) -> RecordExpression:
    """Parse `text` and refuse what is not a pure function of one record."""
    tree = parse(text, connection)
    columns = dict.fromkeys(_walk(tree, frozenset(), _Functions(connection), text))
    statement = {
        "error": False,
        "statements": [
            {"node": {**_template(connection), "select_list": [{**tree, "alias": ""}]}, "named_param_map": []}
        ],
    }
    written = _scalar(connection, "SELECT json_deserialize_sql(?)", json.dumps(statement))
    prefix, suffix = "SELECT ", " FROM record"
    if not (written.startswith(prefix) and written.endswith(suffix)):
        raise _refusal(text, "something that cannot be written out again")
    return RecordExpression(written.removeprefix(prefix).removesuffix(suffix), tuple(columns))


class _Functions:
    """What the catalogue says about functions."""

    def __init__(self, connection: duckdb.DuckDBPyConnection) -> None:
        self._connection = connection

    def is_pure(self, name: str) -> bool:
        if name in _PURE_MACROS:
            return True
        if name in _REFUSED_FUNCTIONS or name.startswith(("__internal", "collate_", "icu_", "pg_")):
            return False
        overloads = self._connection.execute(
            "SELECT DISTINCT function_type, stability FROM duckdb_functions() WHERE lower(function_name) = ?", [name]
        ).fetchall()
        return overloads == [("scalar", "CONSISTENT")]


def _walk(node: Any, bound: frozenset[str], functions: _Functions, text: str) -> Iterator[str]:
    """Yield the columns a tree reads; `bound` are the parameters of lambdas around it."""
    if isinstance(node, list):
        for child in node:
            yield from _walk(child, bound, functions, text)
        return
    if not isinstance(node, dict):
        return
    kind = node.get("class")
    if kind is not None and kind not in _CLASSES:
        raise _refusal(text, _NAMES.get(kind, f"a {kind.lower()}"))
    if kind == "COLUMN_REF":
        first = node["column_names"][0]
        if first.lower() not in bound:
            yield first
        return
    if kind == "OPERATOR" and node["type"] in _REFUSED_OPERATORS:
        raise _refusal(text, "an aggregate")
    if kind == "LAMBDA":
        parameters = frozenset(name.lower() for name in _walk(node["lhs"], frozenset(), functions, text))
        yield from _walk(node["expr"], bound | parameters, functions, text)
        return
    if kind == "FUNCTION":
        _check_call(node, functions, text)
    for child in node.values():
        yield from _walk(child, bound, functions, text)


def _check_call(node: dict[str, Any], functions: _Functions, text: str) -> None:
    name = node["function_name"].lower()
    if node.get("schema") or node.get("catalog"):
        raise _refusal(text, f"the function {name} with a schema")
    if node.get("filter") or node.get("distinct") or node["order_bys"]["orders"] or not functions.is_pure(name):
        raise _refusal(text, f"the function {name}")
    if name in _UNCHECKED_TIMES and len(node["arguments"]) == 1:
        raise InvalidParameter(
            f"functions that check their arguments in {text!r}",
            name,
            "to_timestamp(seconds) makes a time of a number, epoch(time) a number of a time.",
        )
    sizes = node["arguments"][1:] if name in _SIZED_FUNCTIONS else []
    if any(argument["expression"]["class"] != "CONSTANT" for argument in sizes):
        # One record must not be able to ask for all the memory there is.
        raise _refusal(text, f"the function {name} with a size that is not a constant")


_NAMES: Final = {
    "COLLATE": "a collation",
    "DEFAULT": "a default",
    "PARAMETER": "a parameter",
    "STAR": "a star",
    "SUBQUERY": "a subquery",
    "WINDOW": "a window function",
}


def _refusal(text: str, got: str) -> InvalidParameter:
    return InvalidParameter(
        f"an expression of the record's own columns in {text!r}",
        got,
        "only functions of one record keep the guarantee: no subqueries, aggregates, windows, clocks or random numbers.",
    )


def parse(text: str, connection: duckdb.DuckDBPyConnection) -> dict[str, Any]:
    """The syntax tree of one expression."""
    parsed = json.loads(_scalar(connection, "SELECT json_serialize_sql(?)", f"SELECT {text}\n FROM record"))
    statements = [] if parsed["error"] else parsed["statements"]
    if len(statements) != 1 or statements[0]["node"].get("type") != "SELECT_NODE":
        raise InvalidParameter("one SQL expression", repr(text), "for example date_trunc('month', time).")
    tree = statements[0]["node"]["select_list"]
    if len(tree) != 1:
        raise InvalidParameter("one SQL expression", repr(text), "write one key for each expression.")
    if _without_locations({**statements[0]["node"], "select_list": []}) != _without_locations(
        {**_template(connection), "select_list": []}
    ):
        raise InvalidParameter("one SQL expression", repr(text), "it must not go on behind the expression.")
    return dict(tree[0])


def _template(connection: duckdb.DuckDBPyConnection) -> dict[str, Any]:
    parsed = json.loads(_scalar(connection, "SELECT json_serialize_sql(?)", "SELECT 1 FROM record"))
    return dict(parsed["statements"][0]["node"])


def _without_locations(node: Any) -> Any:
    if isinstance(node, dict):
        return {
            name: _without_locations(child) for name, child in node.items() if not name.startswith("query_location")
        }
    return [_without_locations(child) for child in node] if isinstance(node, list) else node


def _scalar(connection: duckdb.DuckDBPyConnection, sql: str, argument: str) -> str:
    return str(connection.execute(sql, [argument]).fetchall()[0][0])
