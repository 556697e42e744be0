"""From a query to checked SQL over one record of a source. No record is read: every refusal here is by name or type."""

# ruff: noqa: S608 - SQL is what this file is for: names are quoted, expressions are checked and written out again
from __future__ import annotations

import difflib
from collections.abc import Sequence
from typing import Final

import duckdb

from dphist.engines import keytypes
from dphist.engines.expressions import RecordExpression, check_expression
from dphist.engines.query import GroupByQuery, Key
from dphist.engines.sources import SOURCE, Attached, attach, described, quote_identifier, quote_text
from dphist.engines.sql import Fields
from dphist.errors import InvalidParameter

_LISTED: Final = "listed_keys"


def _close_doors(connection: duckdb.DuckDBPyConnection, attached: Attached) -> None:
    """From here on the connection reads its source and its own temporary files, nothing else."""
    paths = ", ".join(quote_text(path) for path in attached.paths)
    connection.execute(f"SET allowed_paths = [{paths}]")
    connection.execute("SET enable_external_access = false")
    connection.execute("SET lock_configuration = true")


def resolve(connection: duckdb.DuckDBPyConnection, source: object, query: GroupByQuery) -> Fields:
    """Check everything that can be checked without reading a record."""
    keys, where = _expressions(connection, query)
    columns = [query.unit, *(measure.column for measure in query.measures if measure.column is not None)]
    for expression in (*keys, *([where] if where is not None else [])):
        columns += expression.columns
    attached = attach(connection, source, columns)
    _close_doors(connection, attached)
    plain = {
        query.unit,
        *(m.column for m in query.measures if m.column),
        *(k.name for k in query.by if not k.expression),
    }
    for column in columns:
        _check_column(column, attached, exact=column in plain)
    unit = quote_identifier(query.unit)
    key_sql = [_tried(expression, key) for expression, key in zip(keys, query.by, strict=True)]
    types = _types(connection, [unit, *key_sql])
    for key in query.by:
        if key.numbers_in is not None:
            _check_numbers(key.numbers_in, attached)
    values = []
    for measure in query.measures:
        values.append(None if measure.column is None else _value(measure.column, attached))
    canonical = tuple(_canonical(sql, kind, key) for sql, kind, key in zip(key_sql, types[1:], query.by, strict=True))
    return Fields(
        source=SOURCE,
        unit=keytypes.canonical(unit, types[0], f"the unit {query.unit!r}"),
        keys=canonical,
        values=tuple(values),
        measures=query.measures,
        where=None if where is None else _condition(connection, where, query),
        drop_null_keys=query.null_keys == "drop",
        listed=None if query.public_keys is None else _list_keys(connection, query, canonical),
        want_total=query.want_total,
    )


def resolve_without_source(connection: duckdb.DuckDBPyConnection, query: GroupByQuery) -> Fields:
    """The same as far as it goes without knowing a type, to read, not to run."""
    keys, where = _expressions(connection, query)
    return Fields(
        source=SOURCE,
        unit=quote_identifier(query.unit),
        keys=tuple(_tried(expression, key) for expression, key in zip(keys, query.by, strict=True)),
        values=tuple(quote_identifier(m.column) if m.column is not None else None for m in query.measures),
        measures=query.measures,
        where=None if where is None else f"TRY({where.sql})",
        drop_null_keys=query.null_keys == "drop",
        listed=None if query.public_keys is None else _LISTED,
        want_total=query.want_total,
    )


def _expressions(
    connection: duckdb.DuckDBPyConnection, query: GroupByQuery
) -> tuple[list[RecordExpression], RecordExpression | None]:
    keys = [
        RecordExpression(quote_identifier(key.name), (key.name,))
        if key.expression is None
        else check_expression(key.expression, connection)
        for key in query.by
    ]
    return keys, None if query.where is None else check_expression(query.where, connection)


def _tried(expression: RecordExpression, key: Key) -> str:
    """An error in one record becomes a null key, it does not end the run."""
    return expression.sql if key.expression is None else f"TRY({expression.sql})"


def _check_column(name: str, attached: Attached, *, exact: bool) -> None:
    names = list(attached.columns)
    if name in names or (not exact and name.casefold() in {other.casefold() for other in names}):
        return
    by_fold = {other.casefold(): other for other in names}
    close = [by_fold[fold] for fold in difflib.get_close_matches(name.casefold(), by_fold, n=3, cutoff=0.5)]
    hint = f"did you mean {' or '.join(map(repr, close))}?" if close else f"the columns are {', '.join(names[:20])}."
    raise InvalidParameter("a column that exists", repr(name), hint)


def _types(connection: duckdb.DuckDBPyConnection, expressions: Sequence[str]) -> list[str]:
    """The types of expressions over one record, from the schema alone."""
    listed = ", ".join(f"{sql} AS column_{position}" for position, sql in enumerate(expressions))
    try:
        return list(described(connection, f"(SELECT {listed} FROM {SOURCE}) AS typed").values())
    except duckdb.Error as error:  # binding knows the schema and the user's own text, no record
        reason = str(error).partition("\n")[0]
    raise InvalidParameter("expressions that fit the columns", reason)


def _value(column: str, attached: Attached) -> str:
    kind = keytypes.family(attached.columns[column])
    quoted = quote_identifier(column)
    if kind in keytypes.NUMBERS:
        return f"CAST({quoted} AS DOUBLE)"
    if kind == "NULL" or (kind == "VARCHAR" and not attached.typed):
        return f"TRY_CAST({quoted} AS DOUBLE)"
    raise InvalidParameter(f"numbers in {column!r}", f"the type {kind}", "sums and means need a numeric column.")


def _canonical(sql: str, type_name: str, key: Key) -> str:
    """The canonical form of a key, by its type and its role."""
    found = keytypes.canonical(sql, type_name, f"the key {key.name!r}")
    if key.role == "ordered value" and keytypes.is_text(type_name):
        raise InvalidParameter(
            f"numbers, dates or times in {key.name!r}, which are compared",
            f"the type {keytypes.family(type_name)}",
            "CSV and JSON columns are text: read them as numbers (--as number), or compare letters (--as text).",
        )
    return found if key.role == "group" else keytypes.without_nan(found, type_name)


def _check_numbers(column: str, attached: Attached) -> None:
    """By the type: a date, say, casts to no number, and every record would be null."""
    kinds = {name.casefold(): keytypes.family(kind) for name, kind in attached.columns.items()}
    kind = kinds[column.casefold()]
    if kind not in keytypes.NUMBERS and not keytypes.is_text(kind):
        raise InvalidParameter(
            f"numbers in {column!r}",
            f"the type {kind}",
            "derive one first, such as the year of a date or its age in days.",
        )


def _condition(connection: duckdb.DuckDBPyConnection, where: RecordExpression, query: GroupByQuery) -> str:
    tried = f"TRY({where.sql})"
    if (kind := _types(connection, [tried])[0]) != "BOOLEAN":
        raise InvalidParameter(f"a condition that is true or false in {query.where!r}", kind)
    return tried


def _list_keys(connection: duckdb.DuckDBPyConnection, query: GroupByQuery, canonical: Sequence[str]) -> str:
    """Register the public list under the types of the keys, each key once. Its values are public and may be named."""
    if query.public_keys is None:
        raise AssertionError("asked for only with a list")
    types = _types(connection, canonical)
    names = [f"key_{position}" for position in range(1, len(types) + 1)]
    given = query.public_keys.select([key.name for key in query.by]).rename_columns(names)
    connection.register("given_keys", given)
    casts = []
    for name, kind, key in zip(names, types, query.by, strict=True):
        misfit = (
            f"SELECT {name} FROM given_keys WHERE {name} IS NOT NULL AND TRY_CAST({name} AS {kind}) IS NULL LIMIT 1"
        )
        if misfits := connection.execute(misfit).fetchall():
            raise InvalidParameter(f"public keys of the type {kind} for {key.name!r}", repr(misfits[0][0]))
        casts.append(f"{keytypes.canonical(f'CAST({name} AS {kind})', kind, key.name)} AS {name}")
    keep = " AND ".join(f"{name} IS NOT NULL" for name in names) if query.null_keys == "drop" else "TRUE"
    listed = f"SELECT DISTINCT * FROM (SELECT {', '.join(casts)} FROM given_keys) AS keys WHERE {keep}"
    connection.execute(f"CREATE TEMP TABLE {_LISTED} AS {listed}")
    return _LISTED
