"""Texts that DuckDB reads as the tree says.

sqlglot writes some functions as operators, and some operators without the brackets that they need: `2 * DIV(a, b)` as
`2 * a // b`, which is another number. So every text is written twice, once with brackets around each operand. Where DuckDB
reads both alike the short one stands, else the one with brackets.
"""

from __future__ import annotations

import json
from typing import Any, Final

import duckdb
from sqlglot import exp

from dphist.sql.parse import written

_DELIMITED: Final = (
    exp.Paren, exp.Dot, exp.Case, exp.If, exp.Cast, exp.AggFunc, exp.Anonymous, exp.Bracket, exp.Array, exp.Unnest,
    exp.PropertyEQ, exp.Kwarg, exp.Slice, exp.SubqueryPredicate, exp.Struct, exp.WeekStart,
)  # fmt: skip
"""What has an end of its own."""

_FROM_THE_LEFT: Final = (exp.Add, exp.Sub, exp.Mul, exp.Div, exp.DPipe)


def written_as_read(node: exp.Expr, connection: duckdb.DuckDBPyConnection, *, quoted: bool = False) -> str:
    """An expression or a query as DuckDB's SQL, whose parser finds in it what the node is.

    Raises:
        InvalidParameter: it has no form there.
    """
    plain = written(node, quoted=quoted)
    safe = written(bracketed(node), quoted=quoted)
    query = isinstance(node, exp.Query)
    return plain if plain == safe or _read(plain, connection, query) == _read(safe, connection, query) else safe


def bracketed(node: exp.Expr) -> exp.Expr:
    """A copy with brackets around every operand that is an operation itself."""
    found = node.copy()
    for one in reversed(list(found.walk())):  # what stands inside first
        parent = one.parent
        if one is found or parent is None or not (_is_operation(one) and _is_operation(parent)):
            continue
        first = one is parent.this and isinstance(one, _FROM_THE_LEFT)  # a + b + c
        alike = type(one) is type(parent) and (first or isinstance(one, exp.Connector))
        if not alike and not isinstance(parent, exp.Escape):
            paren = exp.Paren()
            one.replace(paren)
            paren.set("this", one)
    return found


def _is_operation(node: exp.Expr) -> bool:
    kinds = (exp.Binary, exp.Unary, exp.Predicate, exp.Func)
    negative = isinstance(node, exp.Neg) and isinstance(node.this, exp.Literal)
    return isinstance(node, kinds) and not isinstance(node, _DELIMITED) and not negative


def _read(text: str, connection: duckdb.DuckDBPyConnection, query: bool) -> Any:
    """DuckDB's tree of a text, without places in it."""
    sql = text if query else f"SELECT {text}\n FROM record"  # noqa: S608 - parsed, never run
    try:
        return _without_places(json.loads(connection.execute("SELECT json_serialize_sql(?)", [sql]).fetchall()[0][0]))
    except (duckdb.Error, UnicodeEncodeError):
        return None


def _without_places(node: Any) -> Any:
    if isinstance(node, dict):
        return {name: _without_places(one) for name, one in node.items() if not name.startswith("query_location")}
    return [_without_places(one) for one in node] if isinstance(node, list) else node
