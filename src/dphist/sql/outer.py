"""Computations on published tables: outer queries, HAVING, ORDER BY, LIMIT. They cost nothing.

An outer query runs in a session of its own, which holds published and public tables, and nothing else: no file, no setting, no
function with a side effect. The text is written from sqlglot's tree, and DuckDB's own parser reads it before it runs.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final, TypeAlias

import duckdb
import pyarrow as pa
from sqlglot import exp

from dphist.columns import quote_identifier
from dphist.engines.duckdb.session import execute, session
from dphist.engines.duckdb.source import described
from dphist.engines.functions import FUNCTIONS
from dphist.engines.parser import raw_nodes, serialized
from dphist.engines.query import PerformanceSettings
from dphist.errors import InvalidParameter
from dphist.sql.dialect import written
from dphist.sql.expressions import Expressions
from dphist.sql.names import Table, scope_of
from dphist.sql.parse import ancestors, called
from dphist.sql.published import RELEASED

_CASTS: Final = {"DOUBLE": "double", "FLOAT64": "double", "INT64": "bigint", "STRING": "text", "BOOL": "boolean"}
"""Functions that read a value out of JSON become casts: reports are objects here, whose fields have types."""

_ALLOWED: Final = (
    "SELECT DISTINCT lower(function_name) FROM duckdb_functions() WHERE function_type IN ('scalar', 'aggregate', 'window')"
    " AND NOT coalesce(has_side_effects, false)"
)
KEPT: Final = "the error has them as `releases`"
"""Where the user finds the private tables after their outer query failed."""

_LONG_TEXTS: Final = ("repeat", "lpad", "rpad", "list_resize", "array_resize")
_GROWING: Final = {**dict.fromkeys(("generate_series", "range"), 1_000_000), **dict.fromkeys(_LONG_TEXTS, 10_000)}
"""Functions whose result grows with an argument, and the largest argument of each."""
_REFUSED: Final = frozenset(
    {"getenv", "getvariable", "current_setting", "pg_typeof", "query", "query_table", "error", "json_serialize_plan"}
)


def check_outer(statement: exp.Expr, relating: Expressions) -> set[str]:
    """The public tables that an outer query reads. A private table outside of a private SELECT is refused.

    Drops queries of WITH that only private SELECTs have read.
    """
    _drop_unread(statement)
    found: set[str] = set()
    for node in statement.find_all(exp.Table):
        name = node.name
        if not isinstance(node.this, exp.Identifier):
            hint = "a statement reads the tables that --table names, nothing else."
            raise relating.refuse(node, "the name of a table", f"the function {called(node.this)}", hint)
        if node.meta.get(RELEASED) or name.casefold() in scope_of(node):
            continue
        relating.only(node, "a table", "this", "alias", "joins", "pivots", "sample")
        table = relating.table_named(name)
        if table is None:
            raise relating.refuse(node, "a table that is named", repr(name), f"there are {', '.join(relating.tables)}.")
        if not table.public:
            expected, got = "SELECT WITH DIFFERENTIAL_PRIVACY around a private table", "a SELECT without it"
            hint = f"what it shows of {table.name!r} would have no noise: write the clause where the table is read."
            raise relating.refuse(node, expected, got, hint)
        found.add(table.name)
    return found


def _drop_unread(statement: exp.Expr) -> None:
    """Drop queries of WITH that nothing reads, the last first: it may be the only reader of an earlier query."""
    for clause in list(statement.find_all(exp.With)):
        for one in reversed(list(clause.expressions)):
            holder = clause.parent
            assert holder is not None
            name = one.alias.casefold()
            read = [table for table in holder.find_all(exp.Table) if table.name.casefold() == name]
            if all(any(one is around for around in ancestors(table)) for table in read):
                one.pop()
        if not clause.expressions:
            clause.pop()


def outer_sql(statement: exp.Expr) -> str:
    """The outer query in DuckDB's SQL."""

    def plain(node: exp.Expr) -> exp.Expr:
        if isinstance(node, exp.JSONExtractArray) and isinstance(node.this, exp.Expr):
            return node.this
        kind = _CASTS.get(str(node.name).upper()) if isinstance(node, exp.Anonymous) else None
        if kind is not None and len(node.expressions) == 1:
            return exp.Cast(this=node.expressions[0], to=exp.DataType.build(kind))
        if isinstance(node, exp.Float64 | exp.JSONCast):
            return exp.Cast(this=node.this, to=exp.DataType.build("double"))
        return node

    return written(statement.copy().transform(plain), quoted=True)


def check_sql(sql: str, tables: set[str]) -> None:
    """Refuse a text unless DuckDB reads it as one SELECT of these tables and of functions without side effects."""
    parsed = serialized(sql)
    if parsed["error"] or len(parsed["statements"]) != 1:
        raise InvalidParameter("an outer query that DuckDB can read", "another", "write it another way.")
    allowed = _allowed()
    defined = {name.casefold() for name in tables}
    for node in raw_nodes(parsed["statements"][0]):
        for one in (node.get("cte_map") or {}).get("map", ()):
            defined.add(str(one["key"]).casefold())
    for node in raw_nodes(parsed["statements"][0]):
        if node.get("type") == "BASE_TABLE":
            known = node["table_name"].casefold() in defined and not node["schema_name"] and not node["catalog_name"]
            if not known:
                expected = "tables that are published or public in an outer query"
                raise InvalidParameter(expected, repr(node["table_name"]))
        if node.get("type") == "TABLE_FUNCTION" and node["function"]["function_name"].lower() != "unnest":
            raise InvalidParameter("tables in an outer query", f"the function {node['function']['function_name']}")
        name = str(node.get("function_name") or "").lower()
        if name and name not in allowed and name.replace("_", "").isalnum() and name != "unnest":
            raise InvalidParameter("functions without side effects in an outer query", f"the function {name}")
        if name in _GROWING:
            _check_size(node, name)


def _check_size(node: dict[str, Any], name: str) -> None:
    """Refuse large results: DuckDB computes a call with constant arguments before it runs the query."""
    arguments = [one["expression"] for one in node["arguments"]]
    sizes = arguments[1:] if name in _LONG_TEXTS else arguments
    parts = [one for size in sizes for one in raw_nodes(size) if "class" in one]
    numbers = [one["literal"] for one in parts if one["class"] == "CONSTANT" and one["literal"]["kind"] != "STRING"]
    inner = any(
        str(one.get("function_name") or "").lower() in _GROWING for part in arguments for one in raw_nodes(part)
    )
    plain = all(one["class"] in ("CONSTANT", "CAST", "TYPE") for one in parts)
    if inner or not plain or any(_size(one) > _GROWING[name] for one in numbers):
        expected = f"{name} in an outer query with sizes of at most {_GROWING[name]:,}, written down"
        raise InvalidParameter(expected, "another", "use a public table for a long list.")


def _size(literal: dict[str, Any]) -> float:
    try:
        return abs(float(literal["text"]))
    except ValueError:
        return 0.0


@functools.cache
def _allowed() -> frozenset[str]:
    """The functions that DuckDB lists as free of side effects. The list is long, so it is read once."""
    with duckdb.connect(":memory:") as connection:
        names = {str(name) for (name,) in connection.execute(_ALLOWED).fetchall()} - _REFUSED
        return frozenset({*FUNCTIONS, *(name for name in names if not name.startswith("__"))})  # __ is DuckDB's own


Attach: TypeAlias = Callable[[duckdb.DuckDBPyConnection, Table, str], None]
"""Makes a public table readable in a session, once, under the given name."""


def bind(sql: str, released: Mapping[str, pa.Table], public: Sequence[Table], attach: Attach) -> None:
    """Refuse, before the charge, a query that cannot run: check names, functions and numbers of columns. Reads no row."""
    with _opened(sql, released, public, attach, PerformanceSettings(), rows=False) as connection:
        try:
            connection.execute(f"DESCRIBE {sql}")
        except duckdb.Error as problem:
            raise _unfit(problem, "nothing was charged.") from None


def compute(
    sql: str, released: Mapping[str, pa.Table], public: Sequence[Table], attach: Attach, settings: PerformanceSettings
) -> pa.Table:
    """Run an outer query on the published tables."""
    with _opened(sql, released, public, attach, settings, rows=True) as connection:
        try:
            return _as_text(connection, connection.sql(sql).to_arrow_table())
        except duckdb.Error as problem:  # the words can quote published values alone
            raise _unfit(problem, f"the private tables are paid for, and not lost: {KEPT}.") from None


def _unfit(problem: duckdb.Error, hint: str) -> InvalidParameter:
    words = str(problem).partition("\n")[0].partition(": ")[2] or "another"
    return InvalidParameter("an outer query that can run", words[:200].rstrip(".!"), hint)


@contextmanager
def _opened(
    sql: str,
    released: Mapping[str, pa.Table],
    public: Sequence[Table],
    attach: Attach,
    settings: PerformanceSettings,
    *,
    rows: bool,
) -> Iterator[duckdb.DuckDBPyConnection]:
    """A session that holds these tables and can read nothing else. Without `rows` the public tables are empty."""
    with session(settings) as connection:
        connection.execute("SET preserve_insertion_order = true")
        for name, table in released.items():
            connection.register(name, table)
        for number, one in enumerate(public, 1):
            view = f"attached_{number}_"
            attach(connection, one, view)
            name, kinds = quote_identifier(one.name), described(connection, view)
            nulls = ", ".join(f"CAST(NULL AS {kind}) AS {quote_identifier(name)}" for name, kind in kinds.items())
            read = f"TABLE {name} AS SELECT * FROM {view}" if rows else f"VIEW {name} AS SELECT {nulls}"  # noqa: S608
            # Not connection.execute: its error would not carry the private tables that are paid for.
            execute(connection, f"CREATE TEMP {read}")
        check_sql(sql, {*released, *(one.name for one in public)})
        connection.execute("SET enable_external_access = false")
        connection.execute("SET lock_configuration = true")
        yield connection


def _as_text(connection: duckdb.DuckDBPyConnection, table: pa.Table) -> pa.Table:
    """Write objects, such as reports, as JSON: all formats of files can hold it."""
    nested = [field.name for field in table.schema if _holds_struct(field.type)]
    if not nested:
        return table
    connection.register("answer_with_objects", table)
    columns = ", ".join(f"CAST(to_json({name}) AS VARCHAR) AS {name}" for name in map(quote_identifier, nested))
    return connection.sql(f"SELECT * REPLACE ({columns}) FROM answer_with_objects").to_arrow_table()  # noqa: S608


def _holds_struct(kind: pa.DataType) -> bool:
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return _holds_struct(kind.value_type)
    return bool(pa.types.is_struct(kind))
