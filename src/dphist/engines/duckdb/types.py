"""The types of DuckDB: which family each belongs to, which values are read as null, and what a key or a unit may be.

Every column and every step of an expression passes `guarded`: NaN, texts that are too long and times that nothing outside the
engine can represent are null before anything compares, filters, groups or adds them. Equal values have equal bits: 0.0 and
-0.0 are one value. The rules are public and depend on the value alone, so a run cannot fail because of one record, and no
record changes how another is read.
"""

from __future__ import annotations

import re
from typing import Final

from dphist.engines.expressions import LONGEST_KEY, LONGEST_LIST
from dphist.errors import InvalidParameter

_WHOLE: Final = frozenset(
    {"TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT", "HUGEINT", "UHUGEINT"}
)
SIGNED: Final = _WHOLE - {"UBIGINT", "HUGEINT", "UHUGEINT"}
FLOATS: Final = frozenset({"FLOAT", "DOUBLE"})
NUMBERS: Final = _WHOLE | FLOATS | {"DECIMAL", "BOOLEAN"}
"""Types whose values can be summed."""

_RANGES: Final = {
    "DATE": ("0001-01-01", "9999-12-31"),
    "TIME": ("00:00:00", "23:59:59.999999"),
    "TIMESTAMP": ("0001-01-01", "9999-12-31 23:59:59.999999"),
    "TIMESTAMP_S": ("0001-01-01", "9999-12-31 23:59:59"),
    "TIMESTAMP_MS": ("0001-01-01", "9999-12-31 23:59:59.999"),
    "TIMESTAMP_NS": ("1677-09-22", "2262-04-11"),
    "TIMESTAMP WITH TIME ZONE": ("0001-01-02 00:00:00+00", "9999-12-30 23:59:59.999999+00"),
}
_FAMILIES: Final = {
    **dict.fromkeys(_WHOLE - {"UHUGEINT"}, "whole"),  # no function was examined with UHUGEINT
    **dict.fromkeys((*FLOATS, "DECIMAL"), "number"),
    **{name: "timestamp" for name in _RANGES if name.startswith("TIMESTAMP")},
    "DATE": "date", "TIME": "time", "BOOLEAN": "boolean", "VARCHAR": "text", "BLOB": "blob", "UUID": "uuid",
    "INTERVAL": "interval", "LIST": "list", "STRUCT": "struct", "NULL": "null",
}  # fmt: skip
_READ_AS: Final = {
    **dict.fromkeys(("ENUM", "JSON", "NULL"), "VARCHAR"),
    # Most files can hold microseconds, not nanoseconds.
    "TIME_NS": "TIME",
    "TIMESTAMPTZ_NS": "TIMESTAMP WITH TIME ZONE",
}


def base(type_name: str) -> str:
    """The type without its parameters: DECIMAL(18,3) -> DECIMAL, INTEGER[] -> LIST."""
    if type_name.endswith("]"):
        return "LIST"
    return re.sub(r"\(.*", "", type_name, flags=re.DOTALL).strip('" ')


def family(type_name: str) -> str:
    """The family that functions see in a type: text, whole, number, date, ...; "other" where no expression may use it."""
    return _FAMILIES.get(base(type_name), "other")


def guarded(sql: str, type_name: str, longest: int = LONGEST_KEY) -> str:
    """A column or a step of an expression, with null for every value that the next step must not see. `sql` is written out up
    to three times.

    longest: the bytes of a text or binary value.
    """
    kind = base(type_name)
    if kind in FLOATS:
        return f"CASE WHEN isnan({sql}) THEN NULL WHEN {sql} = 0 THEN CAST(0 AS {kind}) ELSE {sql} END"
    if kind == "VARCHAR":
        return f"CASE WHEN strlen({sql}) <= {longest} THEN {sql} END"
    if kind == "BLOB":
        return f"CASE WHEN octet_length({sql}) <= {longest} THEN {sql} END"
    if kind == "LIST":
        return f"CASE WHEN len({sql}) <= {LONGEST_LIST} THEN {sql} END"
    if kind in _RANGES:
        first, last = _RANGES[kind]
        return f"CASE WHEN {sql} BETWEEN CAST('{first}' AS {kind}) AND CAST('{last}' AS {kind}) THEN {sql} END"
    return sql


def column(sql: str, type_name: str, longest: int = LONGEST_KEY) -> tuple[str, str]:
    """A column of the source, or a step, as every later step sees it, and its type."""
    if (kind := _READ_AS.get(base(type_name))) is not None:
        sql, type_name = f"CAST({sql} AS {kind})", kind
    return guarded(sql, type_name, longest), type_name


def length(sql: str, type_name: str) -> str | None:
    """The bytes of a value, a nested one as text; None for types whose values are all short."""
    kind = base(type_name)
    if kind in NUMBERS or kind in _RANGES or kind in ("NULL", "UUID", "INTERVAL"):
        return None
    return (
        f"octet_length({sql})"
        if kind == "BLOB"
        else f"strlen({sql if kind == 'VARCHAR' else f'CAST({sql} AS VARCHAR)'})"
    )


def canonical(sql: str, type_name: str, role: str) -> str:
    """A guarded column or step as a key or a unit that any file can hold, or a refusal by its type."""
    kind = base(type_name)
    if kind in ("HUGEINT", "UHUGEINT"):
        return f"TRY_CAST({sql} AS DECIMAL(38, 0))"
    if kind in ("NULL", "UUID"):
        return f"CAST({sql} AS VARCHAR)"
    if kind in NUMBERS or kind in _RANGES or kind in ("VARCHAR", "BLOB"):
        return sql
    raise InvalidParameter(
        f"{role} to be of a simple type",
        kind,
        "text, numbers, booleans, dates and times work; derive one from it, such as name=column.field.",
    )


def key(sql: str, type_name: str, role: str) -> tuple[str, str]:
    """A guarded column as a key, and the type of the key."""
    kinds = {"HUGEINT": "DECIMAL(38,0)", "UHUGEINT": "DECIMAL(38,0)", "UUID": "VARCHAR", "NULL": "VARCHAR"}
    return canonical(sql, type_name, role), kinds.get(base(type_name), type_name)


def is_addable(type_name: str) -> bool:
    """Whether a type has whole numbers of at most 64 bits."""
    return type_name in SIGNED or type_name == "UBIGINT"


def is_number(type_name: str) -> bool:
    """Whether a cast to double takes any value. Booleans are no numbers."""
    return base(type_name) in NUMBERS - {"BOOLEAN"}


def ordered(sql: str, type_name: str) -> str:
    """A column in a form that can be hashed and ordered. In DuckDB every type can."""
    return sql


def check_unit(type_name: str, name: str) -> None:
    """Refuse a unit that is shortened when it is read: two people could become one and be bounded as one."""
    if base(type_name) in ("TIME_NS", "TIMESTAMPTZ_NS"):
        raise InvalidParameter(
            f"the unit {name!r} to be read as it is", type_name, "cast it to text or microseconds first."
        )


def is_text(type_name: str) -> bool:
    """Whether values of a type are compared letter by letter in their canonical form."""
    return base(type_name) in ("VARCHAR", "BLOB", "ENUM", "JSON", "NULL", "UUID")
