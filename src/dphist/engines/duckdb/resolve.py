"""From a query to checked SQL over one record of a source. No record is read: every refusal here is by name or type."""

from __future__ import annotations

import glob
from collections.abc import Mapping, Sequence
from typing import Final

import duckdb

from dphist.aggregates.measures import Measure
from dphist.engines.duckdb import types as keytypes
from dphist.engines.duckdb.derived import attach_derived
from dphist.engines.duckdb.expressions import Piece, Steps
from dphist.engines.duckdb.names import check_columns
from dphist.engines.duckdb.sources import SOURCE, Attached, attach, described, quote_text
from dphist.engines.expressions import Expression, hint_of_cast
from dphist.engines.joins import together
from dphist.engines.parser import read_query
from dphist.engines.query import GroupByQuery, Key, parse_unit
from dphist.engines.relations import Derived
from dphist.engines.sql import Fields
from dphist.errors import InvalidParameter

_LISTED: Final = "listed_keys"


def _close_doors(connection: duckdb.DuckDBPyConnection, attached: Attached) -> None:
    """From here on the connection reads its source and its own temporary files, nothing else."""
    spelled = dict.fromkeys([*attached.paths, *map(glob.escape, attached.paths)])  # as `sources` spells them
    paths = ", ".join(map(quote_text, spelled))
    connection.execute(f"SET allowed_paths = [{paths}]")
    connection.execute("SET enable_external_access = false")
    connection.execute("SET allowed_configs = ['memory_limit']")  # which is lowered where arrays need room
    connection.execute("SET lock_configuration = true")


def resolve(
    connection: duckdb.DuckDBPyConnection, source: object, query: GroupByQuery, seed: int
) -> tuple[Fields, Attached]:
    """Check everything that can be checked without reading a record. seed: of what is drawn from the rows of a unit."""
    plain, expressions = read_query(query)
    read = [name for expression in expressions.values() for name in expression.columns]
    if isinstance(source, Derived):
        attached = attach_derived(connection, source, query, expressions, [*plain, *read], seed)
    else:
        attached = attach(connection, source, [*plain, *read])
    _close_doors(connection, attached)
    check_columns(plain, expressions.values(), list(attached.columns), attached.form)
    for key in query.by:
        if key.numbers_in is not None:
            _check_numbers(key.numbers_in, attached)
    folded = {name.casefold() for name in (*plain, *read)}
    columns = {name: kind for name, kind in attached.columns.items() if name.casefold() in folded}
    steps = Steps(connection, columns, longest=attached.longest)

    def piece_of(name: str, expression: str | None) -> Piece:
        return steps.column(name) if expression is None else steps.write(expressions[expression])

    unit = [_unit(part, piece_of(part.name, part.expression), expressions, attached) for part in parse_unit(query.unit)]
    keys = [piece_of(key.name, key.expression) for key in query.by]
    canonical = [_canonical(piece, key) for piece, key in zip(keys, query.by, strict=True)]
    if attached.longest < keytypes.LONGEST_KEY:
        lengths = [keytypes.length(piece.sql, piece.type_name) for piece in keys]
        canonical = together(list(zip(canonical, lengths, strict=True)), attached.longest)
    return Fields(
        unit=tuple(unit),
        keys=tuple(canonical),
        values=tuple(
            None if m.column is None else _value(m, piece_of(m.column, m.expression), steps, attached)
            for m in query.measures
        ),
        measures=query.measures,
        where=None if query.where is None else steps.condition(expressions[query.where]),
        source=steps.source(SOURCE),  # last: by now it has all steps
        drop_null_keys=query.null_keys == "drop",
        listed=None if query.public_keys is None else _list_keys(connection, query, steps, canonical),
        want_total=query.want_total,
        definitions=attached.definitions,
    ), attached


def _unit(part: Key, piece: Piece, expressions: Mapping[str, Expression], attached: Attached) -> str:
    """The canonical form of a part of the unit, by its type and those of the columns that it reads."""
    read = [part.name] if part.expression is None else expressions[part.expression].columns
    folded = {name.casefold(): kind for name, kind in attached.columns.items()}
    for name in read:
        keytypes.check_unit(folded[name.casefold()], name)
    return keytypes.canonical(piece.sql, piece.type_name, f"the unit {part.name!r}")


def _value(measure: Measure, piece: Piece, steps: Steps, attached: Attached) -> str:
    column, kind = str(measure.column), keytypes.base(piece.type_name)
    if measure.any_type:
        return keytypes.canonical(piece.sql, piece.type_name, repr(column))
    if kind in keytypes.NUMBERS:
        return f"CAST({piece.sql} AS DOUBLE)"
    if measure.expression is not None:
        raise InvalidParameter(
            f"numbers in {measure.expression!r}", f"the type {kind}", "cast it: CAST(... AS DOUBLE), for example."
        )
    if keytypes.base(attached.columns[column]) == "NULL" or (kind == "VARCHAR" and not attached.typed):
        number = steps.add(f"CAST({piece.sql} AS DOUBLE)", [piece], column)
        return number.sql
    hint = "sums and means need a numeric column."
    if attached.tables and kind == "VARCHAR":
        hint = hint_of_cast(column, ["number"], column=True).strip()
    raise InvalidParameter(f"numbers in {column!r}", f"the type {kind}", hint)


def _canonical(piece: Piece, key: Key) -> str:
    """The canonical form of a key, by its type and its role."""
    if key.role == "ordered value" and keytypes.is_text(piece.type_name):
        raise InvalidParameter(
            f"numbers, dates or times in {key.name!r}, which are compared",
            f"the type {keytypes.base(piece.type_name)}",
            "CSV and JSON columns are text: read them as numbers (--as number), or compare letters (--as text).",
        )
    return keytypes.canonical(piece.sql, piece.type_name, f"the key {key.name!r}")


def _check_numbers(column: str, attached: Attached) -> None:
    """By the type: a date, say, casts to no number, and every record would be null."""
    kinds = {name.casefold(): keytypes.base(kind) for name, kind in attached.columns.items()}
    kind = kinds[column.casefold()]
    if kind not in keytypes.NUMBERS and not keytypes.is_text(kind):
        raise InvalidParameter(
            f"numbers in {column!r}",
            f"the type {kind}",
            "derive one first, such as the year of a date or its age in days.",
        )


def _list_keys(
    connection: duckdb.DuckDBPyConnection, query: GroupByQuery, steps: Steps, canonical: Sequence[str]
) -> str:
    """Register the public list under the types of the keys. Its values are public and may be named."""
    if query.public_keys is None:
        raise AssertionError("asked for only with a list")
    typed = ", ".join(f"{sql} AS key_{position}" for position, sql in enumerate(canonical, 1))
    types = described(connection, f"(SELECT {typed} FROM {steps.source(SOURCE)}) AS typed")
    given = query.public_keys.select([key.name for key in query.by]).rename_columns(list(types))
    connection.register("given_keys", given)
    casts = []
    for (name, kind), key in zip(types.items(), query.by, strict=True):
        cast = keytypes.guarded(f"TRY_CAST({name} AS {kind})", kind)
        misfit = f"SELECT {name} FROM given_keys WHERE {name} IS NOT NULL AND {cast} IS NULL LIMIT 1"
        if misfits := connection.execute(misfit).fetchall():
            raise InvalidParameter(f"public keys of the type {kind} for {key.name!r}", repr(misfits[0][0]))
        if query.null_keys == "drop" and given.column(name).null_count:
            raise InvalidParameter(
                f"no null among the public keys for {key.name!r}", "one", "--null-keys drop drops it."
            )
        casts.append(f"{cast} AS {name}")
    connection.execute(f"CREATE TEMP TABLE {_LISTED} AS SELECT {', '.join(casts)} FROM given_keys")
    names = ", ".join(types)
    twice = f"SELECT {names} FROM {_LISTED} GROUP BY {names} HAVING COUNT(*) > 1 LIMIT 1"
    if repeated := connection.execute(twice).fetchall():
        raise InvalidParameter(
            f"public keys that differ, read as {', '.join(types.values())}",
            f"{', '.join(map(repr, repeated[0]))} more than once",
            "list each group once, spelled as in the data.",
        )
    return _LISTED
