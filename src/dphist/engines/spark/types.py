"""The canonical form of each key and unit in Spark: the rules of `duckdb/types.py`, by the types that Spark has.

Spark's types are named as `DataFrame.dtypes` names them: bigint, decimal(38,0), string collate UTF8_LCASE, timestamp_ntz.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from dphist.engines.expressions import LONGEST_KEY
from dphist.errors import InvalidParameter

_TEXT: Final = frozenset({"string", "varchar", "char"})
SIGNED: Final = frozenset({"tinyint", "smallint", "int", "bigint"})
FLOATS: Final = frozenset({"float", "double"})
NUMBERS: Final = SIGNED | FLOATS | {"decimal", "boolean"}
_RANGES: Final = {
    "date": ("DATE '0001-01-01'", "DATE '9999-12-31'"),
    "timestamp": ("TIMESTAMP_LTZ '0001-01-02 00:00:00Z'", "TIMESTAMP_LTZ '9999-12-30 23:59:59.999999Z'"),
    "timestamp_ntz": ("TIMESTAMP_NTZ '0001-01-01 00:00:00'", "TIMESTAMP_NTZ '9999-12-31 23:59:59.999999'"),
}


def family(type_name: str) -> str:
    """The type without its parameters: decimal(18,3) -> decimal, varchar(9) -> varchar."""
    return type_name.partition("(")[0].partition("<")[0].partition(" collate ")[0].strip().lower()


def guarded(sql: str, type_name: str, longest: int = LONGEST_KEY) -> str:
    """A column or a step of an expression, with null for every value that the next step must not see.

    NaN, because statistics of files leave it out and engines order it differently. Text over the limit or not in UTF-8,
    because a later step would build more of it or could not write it. Dates and times outside the years 1 to 9999, because
    some of Spark's functions overflow far outside and end the run, in every mode.
    """
    kind = family(type_name)
    if kind in ("float", "double"):
        return f"nanvl({sql}, CAST(NULL AS {kind}))"
    if kind in _TEXT:
        return once(sql, lambda value: f"CASE WHEN {is_short(value, longest)} THEN try_validate_utf8({value}) END")
    return short(sql, longest) if kind == "binary" else in_range(sql, kind)


def short(sql: str, longest: int = LONGEST_KEY) -> str:
    """A text or bytes over the limit as null."""
    return once(sql, lambda value: f"CASE WHEN {is_short(value, longest)} THEN {value} END")


def is_short(sql: str, longest: int = LONGEST_KEY) -> str:
    """A condition: the text has at most so many bytes."""
    return f"octet_length({sql}) <= {longest}"


def once(sql: str, body: Callable[[str], str]) -> str:
    """A form that mentions `sql` once, however often `body` does: the length of nested guards is a sum, not a product."""
    return body(sql) if sql.isidentifier() else f"transform(array({sql}), v -> {body('v')})[0]"


def length(sql: str, type_name: str) -> str | None:
    """The bytes of a value, a nested one as text; None for types whose values are all short."""
    if is_text(type_name) or family(type_name) == "binary":
        return f"octet_length({sql})"
    return None if is_simple(type_name) or family(type_name) == "void" else f"octet_length(CAST({sql} AS STRING))"


def canonical(sql: str, type_name: str, role: str) -> str:
    """The canonical form of an expression of some Spark type, or a refusal by its type. NaN is null."""
    kind = family(type_name)
    if kind in SIGNED | {"decimal", "boolean", "time"}:
        return sql
    if kind in _TEXT or kind == "void":
        text = sql if kind == "string" else f"CAST({sql} AS STRING)"
        return f"CASE WHEN {is_short(sql)} THEN {text} END" if kind != "void" else text
    if kind == "binary":
        return short(sql)
    if kind in ("float", "double"):
        return f"CASE WHEN {sql} = 0 THEN CAST(0 AS {kind}) WHEN NOT isnan({sql}) THEN {sql} END"
    if kind in _RANGES:
        return in_range(sql, kind)
    raise InvalidParameter(
        f"{role} to be of a simple type",
        type_name,
        "text, numbers, booleans, dates and times work; derive one from it with withColumn first.",
    )


def key(sql: str, type_name: str, role: str) -> tuple[str, str]:
    """A guarded column as a key, and the type of the key."""
    text = is_text(type_name) or type_name == "void"
    return canonical(sql, type_name, role), "string" if text else type_name


def is_addable(type_name: str) -> bool:
    """Whether a type has whole numbers of at most 64 bits."""
    return type_name in SIGNED


def is_number(type_name: str) -> bool:
    """Whether a cast to double takes any value. Booleans are no numbers."""
    return family(type_name) in NUMBERS - {"boolean"}


def ordered(sql: str, type_name: str) -> str:
    """A column in a form that can be hashed and ordered: a nested value is written as text, since maps have no order."""
    return sql if is_simple(type_name) else f"CAST({sql} AS STRING)"


def is_simple(type_name: str) -> bool:
    """Whether `canonical` takes a type."""
    return family(type_name) in NUMBERS | _TEXT | _RANGES.keys() | {"time", "void", "binary"}


def in_range(sql: str, type_name: str) -> str:
    """Dates and times outside the years 1 to 9999 as null; other types as they are."""
    kind = family(type_name)
    if not is_moment(kind):
        return sql
    first, last = _RANGES[kind]
    return once(sql, lambda value: f"CASE WHEN {value} BETWEEN {first} AND {last} THEN {value} END")


def dated(sql: str) -> str:
    """A text that begins with a year, or null. To a time alone, such as 10:00, Spark would add the day of the run."""
    return once(sql, lambda value: f"CASE WHEN {value} RLIKE '^[^0-9]?[0-9]{{4}}' THEN {value} END")


def is_text(type_name: str) -> bool:
    """Whether values of a type are texts."""
    return family(type_name) in _TEXT


def check_equality(type_name: str, column: str) -> None:
    """Refuse texts whose equality is not that of their bytes: two spellings of one person would be bounded as two."""
    if " collate " in type_name.replace(" collate UTF8_BINARY", ""):
        raise InvalidParameter(
            f"{column!r} to be compared byte by byte",
            type_name,
            "derive a column that spells equal values in one way, such as CAST(lower(x) AS STRING), which has none.",
        )


def is_moment(type_name: str) -> bool:
    """Whether values of a type are dates, or times on a date."""
    return family(type_name) in _RANGES


def number(sql: str, type_name: str, column: str, *, typed: bool) -> str:
    """A column to be summed, as a double; text only where the source declares no types."""
    kind = family(type_name)
    if kind in NUMBERS:
        return f"CAST({sql} AS DOUBLE)"
    if kind == "void" or (kind == "string" and not typed):
        return f"TRY_CAST({sql} AS DOUBLE)"
    raise InvalidParameter(f"numbers in {column!r}", f"the type {type_name}", "sums and means need a numeric column.")
