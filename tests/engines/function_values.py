"""Nasty values of each type, as SQL, and literals for the arguments that must be literal."""

# ruff: noqa: E501 - lists of values read better in long lines
from __future__ import annotations

from collections.abc import Callable
from typing import Final

from dphist.engines import literals

_WHOLE: Final = {
    "TINYINT": 8, "SMALLINT": 16, "INTEGER": 32, "BIGINT": 64, "HUGEINT": 128,
    "UTINYINT": -8, "USMALLINT": -16, "UINTEGER": -32, "UBIGINT": -64,
}  # fmt: skip
"""The bits of each type, negative without a sign."""
_FRACTIONS: Final = (
    "FLOAT", "DOUBLE", "DECIMAL(4, 1)", "DECIMAL(9, 2)", "DECIMAL(18, 3)", "DECIMAL(38, 0)", "DECIMAL(38, 10)", "DECIMAL(38, 38)",
)  # fmt: skip
_LISTS: Final = (
    "VARCHAR[]",
    "BIGINT[]",
    "DOUBLE[]",
    "BOOLEAN[]",
    "DATE[]",
    "TIMESTAMP[]",
    "DECIMAL(18, 3)[]",
    "HUGEINT[]",
    "UUID[]",
)

TYPES: Final[dict[str, tuple[str, ...]]] = {
    "text": ("VARCHAR",),
    "whole": tuple(_WHOLE),
    "number": (*_WHOLE, *_FRACTIONS),
    "boolean": ("BOOLEAN",),
    "date": ("DATE",),
    "time": ("TIME",),
    "timestamp": ("TIMESTAMP", "TIMESTAMP WITH TIME ZONE", "TIMESTAMP_S", "TIMESTAMP_MS", "TIMESTAMP_NS"),
    "interval": ("INTERVAL",),
    "blob": ("BLOB",),
    "list": _LISTS,
    "struct": ("STRUCT(a BIGINT, b VARCHAR)", "STRUCT(a TIMESTAMP)"),
    "uuid": ("UUID",),
}
PLAINER: Final = {
    **TYPES,
    "whole": ("BIGINT", "HUGEINT", "UTINYINT"),
    "number": ("BIGINT", "HUGEINT", "UTINYINT", "DOUBLE", "DECIMAL(38, 10)"),
    "list": ("VARCHAR[]", "DOUBLE[]"),
    "struct": ("STRUCT(a BIGINT, b VARCHAR)",),
}
PLAINEST: Final = {
    **PLAINER,
    "whole": ("BIGINT", "UTINYINT"),
    "number": ("BIGINT", "DOUBLE", "DECIMAL(38, 10)"),
    "timestamp": ("TIMESTAMP", "TIMESTAMP WITH TIME ZONE"),
}
"""Fewer types, and even fewer for a quick run."""
for _families in (TYPES, PLAINER):
    _families["any"] = tuple(dict.fromkeys(kind for family in _families.values() for kind in family))
PLAINEST["any"] = ("VARCHAR", "BIGINT", "DOUBLE", "DATE", "TIMESTAMP WITH TIME ZONE", "VARCHAR[]")

_HEAVY_TEXT: Final = [
    f"repeat({piece}, {65_536 // width})"
    for piece, width in (
        ("'a'", 1), ("'%'", 1), ("'\\'", 1), ("' '", 1), ("chr(0)", 1), ("'ß'", 2), ("'€'", 3), ("'👩‍👩‍👧'", 18), ("'%41'", 3), ("'aB1_,/ '", 7),
    )
] + [
    "'e' || repeat(chr(769), 32767)", "'e' || repeat(chr(769) || chr(790), 16383)", "repeat('a', 65535) || 'b'",
    "'b' || repeat('a', 65535)", "repeat('9', 65536)", "'0.' || repeat('9', 65534)", "repeat('a', 32767) || 'b'", "repeat('ﷺ', 21845)",
]  # fmt: skip
_LIGHT_TEXT: Final = [
    "NULL", "''", "'a'", "'b'", "' '", "'A, b.C/d?e=f'", "'%'", "'_'", "'%a%_b%'", "'\\'", "'\\1\\0'", "'$'", "'Straße İıſ Ǆ'", "chr(0)", "'a' || chr(0) || 'b'",
    "chr(769)", "'é' || chr(769)", "'e' || chr(769)", "'👩‍👩‍👧‍👦🇨🇭'", "chr(65533) || chr(65534) || chr(65535) || chr(1114111)", "chr(55295) || chr(57344)",
    "chr(65279) || 'x'", "chr(8238) || 'abc'", "'%ff%fe%'", "'%4'", "'%F0%9F%92%A9'", "'\\xff\\x00'", "'\\x'", "'\\ud800'", "'0'", "'-0'", "'1'", "'-1'", "'1e400'",
    "'-1e-400'", "'1e2147483647'", "'1e99999999999999999999'", "'0x1F'", "'0b1'", "'1_000'", "'.5'", "'5.'", "'NaN'", "'-inf'", "'infinity'", "'9223372036854775808'",
    "'170141183460469231731687303715884105728'", "'true'", "'f'", "'2024-02-29'", "'2023-02-29'", "'0000-00-00'", "'9999-12-31 24:00:00'", "'10000-01-01'",
    "'0001-01-01 (BC)'", "'290309-12-22 (BC)'", "'294247-01-10 04:00:54.775807'", "'5881580-07-11'", "'2024-01-01 00:00:00 Mars/Phobos'", "'2024-01-01 00:00:00 Europe/Zurich'",
    "'2024-01-01 00:00:00+99:99'", "'2024-01-01T00:00:00Z'", "'2024-01-01 00:00:00.123456789'", "'23:59:60'", "'25:00:00'", "'now'", "'epoch'", "'today'", "'1 year'",
    "'99999999999999999999 days'", "'2147483648 months'", "'-1 century ago'", "'P1Y2M3DT4H5M6S'", "'01:02:03.000001'", "'550e8400-e29b-41d4-a716-446655440000'",
    "'ffffffff-ffff-ffff-ffff-ffffffffffff'", "'{550e8400e29b41d4a716446655440000}'", "'YWJj'", "'YW=='", "'=='", "'0g'", "'abc'", "'Monday, 29 February 2024 11:59:59 PM'",
    "'2024-060'", "'24 13 32'", "'2024-W53-7'", "'12:34:56.123456'", "'2024-01-01 12:34:56 +0130'",
]  # fmt: skip

_TIMES: Final = [
    "NULL", "'0001-01-01'", "'0001-01-01 00:00:00.000001'", "'1582-10-04 23:59:59'", "'1582-10-15'", "'1677-09-22'", "'1883-11-18 12:00:00'", "'1900-02-28 23:59:59.999999'",
    "'1969-12-31 23:59:59.999999'", "'1970-01-01'", "'2000-02-29 12:00:00'", "'2001-09-09 01:46:40'", "'2020-12-31 23:59:59.999'", "'2023-03-26 01:30:00'",
    "'2023-03-26 02:30:00'", "'2023-10-29 02:30:00'", "'2024-02-29'", "'2024-12-30'", "'2038-01-19 03:14:08'", "'2262-04-10 23:59:59.999999'", "'9999-12-30 23:59:59'",
    "'9999-12-31 23:59:59.999999'",
]  # fmt: skip


def _fitting(values: list[str], first: str, last: str) -> list[str]:
    return [value for value in values if value == "NULL" or first <= value.strip("'") <= last]


def _whole(bits: int) -> list[str]:
    least, most = (0, 2**-bits - 1) if bits < 0 else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    edges = [
        0,
        1,
        -1,
        2,
        -2,
        3,
        7,
        10,
        12,
        13,
        28,
        31,
        32,
        63,
        64,
        100,
        -100,
        127,
        128,
        255,
        9999,
        10_000,
        55_296,
        65_535,
        65_536,
        1_114_111,
        1_114_112,
    ]
    edges += [sign * 2**power + by for power in (15, 31, 32, 53, 63, 64, 127) for sign in (1, -1) for by in (-1, 0, 1)]
    edges += [
        least,
        least + 1,
        most - 1,
        most,
        -62_135_596_800,
        253_402_300_800,
        253_402_300_799_999,
        -62_135_596_800_000_000,
    ]
    return ["NULL", *(f"'{edge}'" for edge in dict.fromkeys(edges) if least <= edge <= most)]


def _decimal(width: int, scale: int) -> list[str]:
    most = "9" * (width - scale) + "." + "9" * scale if scale else "9" * width
    small = "0." + "0" * (scale - 1) + "1" if scale else "1"
    plain = ["0", "1", "-1", "0.5", "-0.5", "2.5", "10", "253402300800"]
    most = most if not most.startswith(".") else f"0{most}"
    fitting = [value for value in plain if len(value.lstrip("-").partition(".")[0].lstrip("0")) <= width - scale]
    return ["NULL", *(f"'{value}'" for value in dict.fromkeys([*fitting, most, f"-{most}", small, f"-{small}"]))]


def _floats(most: str, least: str) -> list[str]:
    values = [
        "0",
        "-0.0",
        "1",
        "-1",
        "0.5",
        "-2.5",
        "10",
        "1e-10",
        "1e10",
        "9007199254740993",
        "9223372036854775808",
        "-62135596801",
        "253402300799.9",
    ]
    return ["NULL", *(f"'{value}'" for value in [*values, "1e30", most, f"-{most}", least, f"-{least}", "inf", "-inf"])]


def _list(values: list[str]) -> list[str]:
    short = ", ".join(values)
    return ["NULL", "[]", "[NULL]", f"[{values[1]}]", f"[{values[1]}, NULL, {values[-1]}]", f"[{short}]", f"list_resize([{values[-1]}], 4096, {values[2]})", "list_resize([], 4096)"]  # fmt: skip


_NANOSECONDS: Final = _fitting(_TIMES, "1677-09-22", "2262-04-11")

VALUES: Final[dict[str, list[str]]] = {
    "VARCHAR": [*_LIGHT_TEXT, *_HEAVY_TEXT],
    **{name: _whole(bits) for name, bits in _WHOLE.items()},
    "FLOAT": _floats("3.4028235e38", "1e-45"),
    "DOUBLE": _floats("1.7976931348623157e308", "5e-324"),
    **{
        name: _decimal(*map(int, name.removeprefix("DECIMAL(").removesuffix(")").split(", ")))
        for name in _FRACTIONS
        if name.startswith("DECIMAL")
    },
    "BOOLEAN": ["NULL", "true", "false"],
    "DATE": list(dict.fromkeys("NULL" if value == "NULL" else f"{value[:11]}'" for value in _TIMES)),
    "TIME": ["NULL", "'00:00:00'", "'00:00:00.000001'", "'12:34:56.789012'", "'23:59:59.999999'", "'24:00:00'"],
    "TIMESTAMP": _TIMES,
    "TIMESTAMP_S": _TIMES,
    "TIMESTAMP_MS": _TIMES,
    "TIMESTAMP_NS": [*_NANOSECONDS, "'2024-02-29 12:34:56.123456789'"],
    "TIMESTAMP WITH TIME ZONE": _fitting(_TIMES, "0001-01-02", "9999-12-31"),
    "INTERVAL": [
        "NULL", "'0 days'", "'1 day'", "'-1 day'", "'1 month'", "'1 year 2 months 3 days 4 hours 5 seconds'", "'1 microsecond'", "'-1 microsecond'",
        "'2147483647 months'", "'-2147483648 months'", "'2147483647 days'", "'-2147483648 days'", "to_microseconds(9223372036854775807)",
        "to_microseconds(-9223372036854775808)", "'2147483647 months'::INTERVAL + '2147483647 days'::INTERVAL + to_microseconds(9223372036854775807)",
        "'-2147483648 months'::INTERVAL + '-2147483648 days'::INTERVAL + to_microseconds(-9223372036854775808)", "'30 days'", "'31 days'", "'24 hours'", "'1 month -1 day'",
        "'365 days'", "'0.5 seconds'", "'1 second'", "'200000000 hours'",
    ],
    "BLOB": ["NULL", "''", "'\\x00'", "'\\xFF\\xFE'", "'abc'", "'\\xC3'", "'\\xED\\xA0\\x80'", "encode(repeat('a', 65536))", "encode(repeat('ß', 32768))", "unhex(repeat('ff', 65536))"],
    "UUID": ["NULL", "'00000000-0000-0000-0000-000000000000'", "'ffffffff-ffff-ffff-ffff-ffffffffffff'", "'550e8400-e29b-41d4-a716-446655440000'", "'7fffffff-ffff-ffff-ffff-ffffffffffff'"],
    "STRUCT(a BIGINT, b VARCHAR)": ["NULL", "{'a': 1, 'b': 'x'}", "{'a': NULL, 'b': NULL}", "{'a': -9223372036854775808, 'b': repeat('a', 65536)}"],
    "STRUCT(a TIMESTAMP)": ["NULL", "{'a': NULL}", "{'a': TIMESTAMP '0001-01-01'}", "{'a': TIMESTAMP '9999-12-31 23:59:59.999999'}"],
}  # fmt: skip
for _kind in _LISTS:
    _element = _kind.removesuffix("[]")
    _values = VALUES[_element]
    VALUES[_kind] = _list(
        [f"CAST({value} AS {_element})" for value in (_LIGHT_TEXT if _element == "VARCHAR" else _values)]
    )
VALUES["VARCHAR[]"].append("[repeat('a', 65536), repeat('b', 65536)]")
VALUES["DOUBLE[]"].append("['NaN'::DOUBLE, 1]")

CORE: Final[dict[str, list[str]]] = {
    **{
        kind: ["'0'", "'1'", values[-1]]
        for kind, values in VALUES.items()
        if kind in TYPES["number"] and kind != "DECIMAL(38, 38)"
    },
    "VARCHAR": ["'a'", "''", "repeat('a', 65536)"],
    "BLOB": ["'abc'", "encode(repeat('a', 65536))"],
    "INTERVAL": ["'0 days'", "'1 day'", "'1 month'", "'2147483647 days'"],
}
"""Values of which every tuple is tried: those of which it takes two or three together to go wrong."""
for _kind, _values in VALUES.items():
    CORE.setdefault(_kind, [_values[1], _values[-1]])


def is_long(value: str) -> bool:
    """Whether a value is long."""
    return "repeat(" in value or "list_resize(" in value


def _quoted(words: frozenset[str]) -> list[str]:
    return [f"'{word}'" for word in sorted(words)]


_PATTERNS: Final = [
    "'a'", "''", "'(a)(b)?'", "'.*'", "'(?s).*.a.*.b'", "'^$'", "'(a|b)*c'", "'(a*)*b'", "'(a?){50}a{50}$'", "'[^,]+'", "'\\pL+'", "'(?i)ß'", "'\\x00'", "'([ab]*)a([ab]{20})c'",
    "'(.{0,10}a){0,20}b$'", "'\\b'", "'(((a?){5}){5}){5}c'", "'[[:alpha:]]{90}$'", "'.{40}b.{0,60}$'",
]  # fmt: skip
_REPLACEMENTS: Final = [
    "''",
    "'x'",
    "'" + "\\0" * 30 + "'",
    "'" + "y" * 60 + "'",
    "'\\1\\2'",
    "'\\9'",
    "'\\'",
    "'$1'",
    "'" + "z" * 600 + "'",
]
_FORMATS: Final = ["'%Y-%m-%d'", "'%c'", "''", "'%%'", "'" + "%A" * 100 + "'", "'" + "".join(f"%{letter}" for letter in sorted(literals.FORMAT_LETTERS - {"-", "%"})) + "'", "'%-d%-m%-y%-H%-I%-M%-S%-j'", "'é%Y'"]  # fmt: skip
_READ_FORMATS: Final = [
    "'%Y-%m-%d'", "'%Y-%m-%d %H:%M:%S %z'", "''", "'%A, %d %B %Y %I:%M:%S %p'", "'%Y-%j'", "'%y %m %d'", "'%H:%M:%S.%f'", "'%H:%M:%S.%n'", "'%H:%M:%S.%g'", "'%d'", "'%p'",
    "'" + "%Y" * 100 + "'", "'%%%Y'", "'a'", "'%a%b%j'", "'%-d'", "'%S%S%S'", "'%Y-%m-%d %H:%M:%S %Z'",
]  # fmt: skip
_ZONES: Final = [
    "'UTC'",
    "'Europe/Zurich'",
    "'America/New_York'",
    "'Asia/Kathmandu'",
    "'Pacific/Apia'",
    "'Antarctica/Troll'",
    "'Africa/Monrovia'",
    "'Etc/GMT+12'",
    "'Pacific/Kiritimati'",
    "'Mars/Phobos'",
]
_SIZES: Final = ["0", "1", "10", "1000"]
_DIGITS: Final = ["-38", "-5", "0", "2", "38"]
_GROUPS: Final = ["0", "1", "2", "9"]

CONSTANTS: Final[dict[tuple[str, int, int], list[str]]] = {
    **{(name, 2, 0): _quoted(literals.TRUNCATED_PARTS) for name in ("date_trunc", "datetrunc")},
    **{(name, 2, 0): _quoted(literals.DATE_PARTS) for name in ("date_part", "datepart")},
    **{(name, 3, 0): _quoted(literals.COUNTED_PARTS) for name in ("date_diff", "datediff", "date_sub", "datesub")},
    ("timezone", 2, 0): _ZONES,
    ("strftime", 2, 0): _FORMATS,
    ("strftime", 2, 1): _FORMATS,
    **{(name, 2, 1): _READ_FORMATS for name in ("strptime", "try_strptime")},
    **{(name, 3, 1): _SIZES for name in ("lpad", "rpad")},
    **{(name, 2, 1): _DIGITS for name in ("round", "trunc")},
    **{(name, count, 1): _PATTERNS for name in ("regexp_matches", "regexp_full_match", "regexp_extract", "regexp_replace") for count in (2, 3, 4)},
    **{(name, 3, 2): ["'i'", "'s'", "'cn'", "''", "'l'"] for name in ("regexp_matches", "regexp_full_match")},
    **{("regexp_extract", count, 2): _GROUPS for count in (3, 4)},
    ("regexp_extract", 4, 3): ["'i'", "'s'"],
    **{("regexp_replace", count, 2): _REPLACEMENTS for count in (3, 4)},
    ("regexp_replace", 4, 3): ["'g'", "'gi'", "'gs'"],
    **{(name, 3, 2): ["'$'", "'\\'", "'a'", "'%'"] for name in ("like_escape", "ilike_escape", "not_like_escape", "not_ilike_escape")},
    **{(name, 3, 1): ["'%a$_b'", "'$$'", "'%\\\\'", "''", "'a'", "'aaa%_'", "'%%b%%'"] for name in ("like_escape", "ilike_escape", "not_like_escape", "not_ilike_escape")},
    **{(name, 2, 1): ["'a'", "'b'"] for name in ("struct_extract", "array_extract")},
}  # fmt: skip
"""Literals by name, number of arguments and position. Those that a check refuses are not tried: some are there to be refused."""


def _infix(sign: str) -> Callable[..., str]:
    return lambda *arguments: f" {sign} ".join(f"({argument})" for argument in arguments)


SYNTAX_SQL: Final[dict[str, Callable[..., str]]] = {
    "COMPARE_EQUAL": _infix("="),
    "COMPARE_NOTEQUAL": _infix("<>"),
    "COMPARE_LESSTHAN": _infix("<"),
    "COMPARE_GREATERTHAN": _infix(">"),
    "COMPARE_LESSTHANOREQUALTO": _infix("<="),
    "COMPARE_GREATERTHANOREQUALTO": _infix(">="),
    "COMPARE_DISTINCT_FROM": _infix("IS DISTINCT FROM"),
    "COMPARE_NOT_DISTINCT_FROM": _infix("IS NOT DISTINCT FROM"),
    "CONJUNCTION_AND": _infix("AND"),
    "CONJUNCTION_OR": _infix("OR"),
    "COMPARE_IN": lambda value, *others: f"({value}) IN ({', '.join(others)})",
    "COMPARE_NOT_IN": lambda value, *others: f"({value}) NOT IN ({', '.join(others)})",
    "OPERATOR_NOT": lambda value: f"NOT ({value})",
    "OPERATOR_IS_NULL": lambda value: f"({value}) IS NULL",
    "OPERATOR_IS_NOT_NULL": lambda value: f"({value}) IS NOT NULL",
    "OPERATOR_COALESCE": lambda *values: f"COALESCE({', '.join(values)})",
    "CASE_EXPR": lambda condition, yes, no: f"CASE WHEN {condition} THEN {yes} ELSE {no} END",
}
