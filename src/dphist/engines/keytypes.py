"""One canonical form for each key and unit: equal values have equal bits, and every value can be written out.

Grouping treats 0.0 and -0.0, or two NaNs, as equal and keeps whichever came first; a later hash or file would show which.
Writing them alike before anything else makes equality the same in every later step.

The rules that turn a value into null exist so that a run cannot fail because of one record: such values cannot be
represented in Arrow, Python or a file. They are public and depend on the value alone.
"""

from __future__ import annotations

import re
from typing import Final

from dphist.errors import InvalidParameter

LONGEST_KEY: Final = 65_536
"""Bytes of a text or binary key; a longer one becomes null."""

NUMBERS: Final = frozenset(
    {"TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT"}
    | {"HUGEINT", "UHUGEINT", "FLOAT", "DOUBLE", "DECIMAL", "BOOLEAN"}
)

_AS_THEY_ARE: Final = frozenset(
    {"TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT", "DECIMAL", "BOOLEAN"}
)
_AS_TEXT: Final = frozenset({"ENUM", "JSON", "NULL", "UUID"})
_RANGES: Final = {
    "DATE": ("0001-01-01", "9999-12-31"),
    "TIME": ("00:00:00", "23:59:59.999999"),
    "TIMESTAMP": ("0001-01-01", "9999-12-31 23:59:59.999999"),
    "TIMESTAMP_S": ("0001-01-01", "9999-12-31 23:59:59"),
    "TIMESTAMP_MS": ("0001-01-01", "9999-12-31 23:59:59.999"),
    "TIMESTAMP_NS": ("1677-09-22", "2262-04-11"),
    "TIMESTAMP WITH TIME ZONE": ("0001-01-02 00:00:00+00", "9999-12-30 23:59:59.999999+00"),
}


def family(type_name: str) -> str:
    """The type without its parameters: DECIMAL(18,3) -> DECIMAL, INTEGER[] -> LIST."""
    if type_name.endswith("]"):
        return "LIST"
    return re.sub(r"\(.*", "", type_name, flags=re.DOTALL).strip('" ')


def canonical(sql: str, type_name: str, role: str) -> str:
    """The canonical form of an expression of some DuckDB type, or a refusal by its type."""
    kind = family(type_name)
    if kind in _AS_THEY_ARE:
        return sql
    if kind in _AS_TEXT:
        return _short(f"CAST({sql} AS VARCHAR)", "strlen")
    if kind == "VARCHAR":
        return _short(sql, "strlen")
    if kind == "BLOB":
        return _short(sql, "octet_length")
    if kind in ("FLOAT", "DOUBLE"):
        zero, nan = f"CAST(0 AS {kind})", f"CAST('NaN' AS {kind})"
        return f"CASE WHEN {sql} = 0 THEN {zero} WHEN isnan({sql}) THEN {nan} ELSE {sql} END"
    if kind in ("HUGEINT", "UHUGEINT"):
        return f"TRY_CAST({sql} AS DECIMAL(38, 0))"
    if kind in _RANGES:
        first, last = _RANGES[kind]
        return f"CASE WHEN {sql} BETWEEN CAST('{first}' AS {kind}) AND CAST('{last}' AS {kind}) THEN {sql} END"
    raise InvalidParameter(
        f"{role} to be of a simple type",
        kind,
        "text, numbers, booleans, dates and times work; derive one from it, such as name=CAST(column AS VARCHAR).",
    )


def is_text(type_name: str) -> bool:
    """Whether values of a type are compared letter by letter in their canonical form."""
    return family(type_name) in _AS_TEXT | {"VARCHAR", "BLOB"}


def without_nan(sql: str, type_name: str) -> str:
    """NaN as null; only floats have it."""
    return f"CASE WHEN NOT isnan({sql}) THEN {sql} END" if family(type_name) in ("FLOAT", "DOUBLE") else sql


def _short(sql: str, length: str) -> str:
    return f"CASE WHEN {length}({sql}) <= {LONGEST_KEY} THEN {sql} END"
