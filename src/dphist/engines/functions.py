"""The functions an expression may use: each, called alone, returns or fails in a way that TRY turns into null.

TRY does not catch everything: errors of the kinds 'not implemented', 'syntax', 'internal' and 'out of memory' pass it, and
some functions end the process. One record could then decide whether a run succeeds, and an analyst who runs it again reads a
value bit by bit. So this is a list of safe functions, not of unsafe ones. tests/engines/function_fuzz.py examines every
entry.

Every argument is a text or binary value of at most 65,536 bytes, a number but NaN, a date or time of the years 1 to 9999, or
a list of at most 4,096 simple values. The writer of expressions turns every other value into null, step by step.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from dphist.engines import literals
from dphist.engines.literals import REGEX_OPTIONS, Check


@dataclass(frozen=True, slots=True)
class Function:
    """One overload of a function: the families of its arguments, and SQL of where it is called at all.

    checks: each with the positions of the arguments that it reads, which must be literals.
    """

    name: str
    arguments: tuple[str, ...]
    checks: tuple[tuple[Check, *tuple[int, ...]], ...] = ()
    repeated: bool = False
    guard: str | None = None

    @property
    def constants(self) -> frozenset[int]:
        """The positions of arguments that must be literals."""
        return frozenset(position for _, *positions in self.checks for position in positions)

    def check(self, values: Sequence[object]) -> str | None:
        """The first complaint about the literals among the arguments."""
        complaints = (check(*(values[position] for position in positions)) for check, *positions in self.checks)
        return next(filter(None, complaints), None)


_FEW_MATCHES: Final = "strlen({0}) * (strlen({2}) + 1) <= 4 * {longest}"
"""Every letter may be a match, and every reference in the replacement repeats the match."""

_PLAIN: Final = "text|number|boolean|date|time|timestamp|interval|uuid"
_MOMENT: Final = "date|timestamp"
_FIRST_SECOND, _LAST_SECOND = -62_135_596_800, 253_402_300_799

_FEW_PIECES: Final = (
    "strlen({0}) <= 4096 OR ({1} <> '' AND strlen({0}) - strlen(replace({0}, {1}, '')) < 4096 * strlen({1}))"
)
"""At most 4,096 pieces, as many as a list may have: a piece takes 16 bytes even when it is empty."""


def _each(names: str, *overloads: tuple[str, ...]) -> list[Function]:
    """Functions that need neither literals nor guards, under all their names."""
    return [Function(name, arguments) for name in names.split() for arguments in overloads]


def _with(
    names: str, *arguments: str, checks: Sequence[Any] = (), repeated: bool = False, guard: str | None = None
) -> list[Function]:
    return [Function(name, arguments, tuple(checks), repeated, guard) for name in names.split()]


def _parted(names: str, parts: frozenset[str], whole: str, *arguments: str) -> list[Function]:
    """Functions of a literal part of a date, a time or an interval."""
    return _with(names, "text", *arguments, checks=[(literals.words(parts, f"a part of {whole}"), 0)])


def _between(least: int, most: int) -> str:
    return f"{{0}} BETWEEN {least} AND {most}"


_NUMBERS: Final = [
    *_each("+ -", ("number",), ("number", "number")),
    *_each("* / // % mod fdiv fmod", ("number", "number")),
    *_each("^ ** pow power", ("number", "number")),
    *_each("abs @ sign floor ceil ceiling round trunc even", ("number",)),
    *_with("round trunc", "number", "whole", checks=[(literals.whole(-38, 38), 1)]),
    *_each(
        "sqrt cbrt exp ln log log2 log10 sin cos tan cot asin acos atan sinh cosh tanh degrees radians", ("number",)
    ),
    *_each("log atan2", ("number", "number")),
    *_each("pi", ()),
    *_each("isnan isinf isfinite", ("number",)),
    *_each("isinf isfinite", (_MOMENT,)),
    *_each("& | xor << >>", ("whole", "whole")),
    *_each("~ bit_count", ("whole",)),
    *_each("gcd greatest_common_divisor lcm least_common_multiple", ("whole", "whole")),
    *_with("greatest least", _PLAIN, repeated=True),
]

_NULLS: Final = [
    *_each("nullif", (_PLAIN, _PLAIN)),
    *_each("if", ("boolean", "any", "any")),
]

_TEXT: Final = [
    *_each("lower lcase upper ucase reverse strip_accents md5 sha1 sha256", ("text",)),
    *_each("length len char_length character_length strlen bit_length ascii unicode ord", ("text",)),
    *_each("trim ltrim rtrim", ("text",), ("text", "text")),
    *_each("substring substr", ("text", "whole"), ("text", "whole", "whole")),
    *_each("left right array_extract list_extract", ("text", "whole")),
    *_each("array_slice list_slice", ("text", "whole", "whole")),
    *_each("contains starts_with ^@ prefix ends_with suffix position instr strpos", ("text", "text")),
    *_each("||", ("text", "text"), ("blob", "blob")),
    *_with("concat", _PLAIN, repeated=True),
    *_with("concat_ws", "text", _PLAIN, repeated=True),
    *_with(
        "replace", "text", "text", "text",
        guard="strlen({0}) + (strlen({0}) - strlen(replace({0}, {1}, ''))) // greatest(strlen({1}), 1)"
        " * (strlen({2}) - strlen({1})) <= {longest}",
    ),
    *_with("translate", "text", "text", "text"),
    *_with("lpad rpad", "text", "whole", "text", checks=[(literals.whole(0, literals.WIDEST), 1)]),
    *_with("chr", "whole", guard=_between(0, 1_114_111)),
    *_with("string_split str_split split string_to_array", "text", "text", guard=_FEW_PIECES),
    *_with("split_part", "text", "text", "whole", guard=_FEW_PIECES),
    *_each("~~ !~~ ~~* !~~*", ("text", "text")),
    *_with(
        "like_escape ilike_escape not_like_escape not_ilike_escape", "text", "text", "text",
        checks=[(literals.escaped, 1, 2)],
    ),
    *_each("url_encode url_decode", ("text",)),
    *_each("hex to_hex", ("text|blob|whole",)),
    *_each("unhex from_hex from_base64", ("text",)),
    *_each("base64 to_base64 decode octet_length md5 sha1 sha256", ("blob",)),
    *_each("encode", ("text",)),
]  # fmt: skip

_PATTERN: Final = (literals.pattern, 1)
_PATTERNS: Final = [
    *_with(
        "regexp_matches regexp_full_match regexp_extract", "text", "text", checks=[_PATTERN]
    ),
    *_with(
        "regexp_matches regexp_full_match", "text", "text", "text",
        checks=[_PATTERN, (literals.options(REGEX_OPTIONS), 2)],
    ),
    *_with(
        "regexp_extract", "text", "text", "whole",
        checks=[_PATTERN, (literals.whole(0, 9), 2)],
    ),
    *_with(
        "regexp_extract", "text", "text", "whole", "text",
        checks=[_PATTERN, (literals.options(REGEX_OPTIONS), 3), (literals.whole(0, 9), 2)],
    ),
    *_with(
        "regexp_replace", "text", "text", "text", checks=[_PATTERN, (literals.short, 2)]
    ),
    *_with(
        "regexp_replace", "text", "text", "text", "text",
        guard=_FEW_MATCHES, checks=[_PATTERN, (literals.options(REGEX_OPTIONS | {"g"}), 3), (literals.short, 2)],
    ),
]  # fmt: skip

_TIMES: Final = [
    *_each(
        "year month quarter week weekofyear yearweek isoyear day dayofmonth dayofweek weekday isodow dayofyear",
        (_MOMENT,),
    ),
    *_each("decade century millennium era julian dayname monthname last_day days_in_month", (_MOMENT,)),
    *_each("hour minute second millisecond microsecond", ("date|time|timestamp",)),
    *_each("epoch epoch_ms epoch_us", ("date|timestamp|interval",)),
    *_parted("date_trunc datetrunc", literals.TRUNCATED_PARTS, "a date", "date|timestamp|interval"),
    *_parted("date_part datepart", literals.DATE_PARTS, "a date", _MOMENT),
    *_parted("date_part datepart", literals.CLOCK_PARTS, "a time", "time"),
    *_parted("date_part datepart", literals.INTERVAL_PARTS, "an interval", "interval"),
    *_parted("date_diff datediff date_sub datesub", literals.COUNTED_PARTS, "a date", _MOMENT, _MOMENT),
    *_parted("date_diff datediff date_sub datesub", literals.CLOCK_PARTS, "a time", "time", "time"),
    *_each("age", (_MOMENT, _MOMENT)),
    *_each(
        "+",
        ("date|time|timestamp", "interval"),
        ("interval", "date|time|timestamp"),
        ("date", "whole"),
        ("whole", "date"),
        ("date", "time"),
        ("time", "date"),
        ("interval", "interval"),
    ),
    *_each(
        "-",
        ("date|time|timestamp", "interval"),
        ("date", "date"),
        ("date", "whole"),
        ("timestamp", "timestamp"),
        ("interval", "interval"),
        ("interval",),
    ),
    *_each("*", ("interval", "number"), ("number", "interval")),
    *_each("/", ("interval", "number")),
    *_each("date_add", (_MOMENT, "interval")),
    *_each("to_years to_months to_weeks to_days to_hours to_minutes to_microseconds to_quarters", ("whole",)),
    *_each("to_seconds to_milliseconds", ("number",)),
    *_with(
        "time_bucket",
        "interval",
        _MOMENT,
        guard="{0} >= INTERVAL 1 SECOND AND date_part('month', {0}) = 0 AND date_part('year', {0}) = 0",
    ),
    *_with("timezone", "text", "timestamp", checks=[(literals.zone, 0)]),
    *_with("strftime", "date|timestamp", "text", checks=[(literals.format_of(literals.FORMAT_LETTERS), 1)]),
    *_with("strftime", "text", "date|timestamp", checks=[(literals.format_of(literals.FORMAT_LETTERS), 0)]),
    *_with("strptime try_strptime", "text", "text", checks=[(literals.format_of(literals.READ_LETTERS), 1)]),
    *_with("to_timestamp", "number", guard=_between(_FIRST_SECOND, _LAST_SECOND)),
    *_with("make_timestamp", "whole", guard=_between(_FIRST_SECOND * 1_000_000, _LAST_SECOND * 1_000_000)),
    *_with("epoch_ms make_timestamp_ms", "whole", guard=_between(_FIRST_SECOND * 1_000, _LAST_SECOND * 1_000)),
    *_with("make_date", "whole", "whole", "whole", guard=_between(1, 9999)),
    *_with("make_time", "whole", "whole", "number"),
    *_with("make_timestamp", "whole", "whole", "whole", "whole", "whole", "number", guard=_between(1, 9999)),
]

_NESTED: Final = [
    *_each("list_extract list_element array_extract", ("list", "whole")),
    *_with("struct_extract array_extract", "struct", "text", checks=[(literals.anything, 1)]),
    *_each("len length array_length list_unique array_unique list_count", ("list",)),
    *_each("list_min list_max list_sum list_avg list_first list_last", ("list",)),
    *_each(
        "list_contains list_has array_contains array_has contains list_position list_indexof array_position",
        ("list", _PLAIN),
    ),
    *_each("list_has_any array_has_any && list_has_all array_has_all @>", ("list", "list")),
    *_each("array_slice list_slice", ("list", "whole", "whole")),
    *_with("list_value", _PLAIN, repeated=True),
]


def _by_name(functions: list[Function]) -> Mapping[str, tuple[Function, ...]]:
    found: dict[str, tuple[Function, ...]] = {}
    for function in functions:
        found[function.name] = (*found.get(function.name, ()), function)
    return found


FUNCTIONS: Final[Mapping[str, tuple[Function, ...]]] = _by_name(
    [*_NUMBERS, *_NULLS, *_TEXT, *_PATTERNS, *_TIMES, *_NESTED]
)
"""Overloads by the name DuckDB's parser gives them, in lower case."""

OPERATIONS: Final[Mapping[str, str]] = {
    "COMPARE_EQUAL": "{} = {}",
    "COMPARE_NOTEQUAL": "{} <> {}",
    "COMPARE_GREATERTHAN": "{} > {}",
    "COMPARE_GREATERTHANOREQUALTO": "{} >= {}",
    "COMPARE_LESSTHAN": "{} < {}",
    "COMPARE_LESSTHANOREQUALTO": "{} <= {}",
    "COMPARE_NOT_DISTINCT_FROM": "{} IS NOT DISTINCT FROM {}",
    "COMPARE_DISTINCT_FROM": "{} IS DISTINCT FROM {}",
    "COMPARE_IN": "{} IN ({others})",
    "COMPARE_BETWEEN": "{} AND {}",
    "CONJUNCTION_AND": " AND ",
    "CONJUNCTION_OR": " OR ",
    "OPERATOR_NOT": "NOT {}",
    "OPERATOR_IS_NULL": "{} IS NULL",
    "OPERATOR_IS_NOT_NULL": "{} IS NOT NULL",
    "OPERATOR_COALESCE": "coalesce({all})",
    "OPERATOR_TRY": "{}",
    "ARRAY_EXTRACT": "array_extract",
    "ARRAY_SLICE": "array_slice",
}
"""Operations that the parser does not turn into functions, in DuckDB's SQL: a form, a word between operands, a function.

BETWEEN is written over two comparisons, each a step of its own. In one step DuckDB would drop the second comparison,
and the error of a cast in it, if statistics of the whole column decide the first: other rows would change the result.
"""

_WHOLE: Final = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT")

CASTS: Final[Mapping[str, frozenset[str]]] = {
    **{name: frozenset({"text", "number", "boolean"}) for name in (*_WHOLE, "FLOAT", "DOUBLE", "DECIMAL", "BOOLEAN")},
    "VARCHAR": frozenset({"text", "number", "boolean", "date", "time", "timestamp", "interval", "uuid", "blob"}),
    "DATE": frozenset({"text", "date", "timestamp"}),
    "TIME": frozenset({"text", "time", "timestamp"}),
    **{
        name: frozenset({"text", "date", "timestamp"})
        for name in ("TIMESTAMP", "TIMESTAMP_S", "TIMESTAMP_MS", "TIMESTAMP_NS", "TIMESTAMP WITH TIME ZONE")
    },
    "INTERVAL": frozenset({"text", "interval"}),
    "UUID": frozenset({"text", "uuid"}),
    "BLOB": frozenset({"text", "blob"}),
}
"""For each type, the families from which a cast to it was examined. DECIMAL may have any width and scale."""


def nearest(name: str) -> list[str]:
    """The listed functions with names closest to an unlisted one, for a hint.

    >>> nearest("datetrunk")[0]
    'datetrunc'
    """
    return difflib.get_close_matches(name.lower(), FUNCTIONS, n=3, cutoff=0.7)
