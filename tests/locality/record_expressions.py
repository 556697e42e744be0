"""The expressions that queries draw from, and what each means on one record, in Python.

A value is None or (tag, value): a float keeps its width, a date or time is a number of days or nanoseconds. NaN, and a column's
time out of range, are null before an expression sees them. Where DuckDB's own spelling or rounding is the only definition there
is no meaning: such an expression is compared with itself on other files, not with the oracle.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

Value = tuple[str, Any] | None
Meaning = Callable[[Any], Value]

_SECOND: Final = 10**9
_DAY: Final = 86_400 * _SECOND
_YEAR_2000: Final = 10_957


@dataclass(frozen=True, slots=True)
class Expression:
    """SQL with {c} for the column, for columns of one tag."""

    tag: str
    sql: str
    meaning: Meaning | None
    boolean: bool = False
    of_null: Value = None

    def on(self, value: Value) -> Value:
        """The value of the expression."""
        if value is None:
            return self.of_null
        if self.meaning is None:
            raise AssertionError(f"{self.sql} has no meaning outside DuckDB")
        return self.meaning(value[1])


def _flag(test: Callable[[Any], bool]) -> Meaning:
    return lambda x: ("bool", bool(test(x)))


def _text(spell: Callable[[Any], str]) -> Meaning:
    return lambda x: ("text", spell(x))


def _whole(x: Any, least: int, most: int) -> Value:
    return ("int", round(x)) if math.isfinite(x) and least <= round(x) <= most else None


def number(text: str) -> Value:
    """A text as DuckDB's double: NaN is null."""
    spelled = text.strip(" \t\n\v\f\r")
    plain = spelled.isascii() and "_" not in spelled
    try:
        x = float(spelled) if plain else math.nan
    except ValueError:
        return None
    return None if math.isnan(x) else ("float64", x)


def _truncated(unit: int) -> Meaning:
    return lambda ns: ("timestamp", ns // unit * unit)


YES: Final = ("bool", True)
NO: Final = ("bool", False)
LOW_OR_HIGH = "CASE WHEN {c} > 1.5 THEN 'high' WHEN {c} <= 1.5 THEN 'low' ELSE 'none' END"


def _of_floats(tag: str, shape: type) -> list[Expression]:
    def sized(work: Callable[[Any], Any]) -> Meaning:
        def run(x: Any) -> Value:
            with np.errstate(all="ignore"):
                y = float(work(shape(x)))
            return None if math.isnan(y) else (tag, y)

        return run

    return [
        Expression(tag, "{c} > 1.5", _flag(lambda x: x > 1.5), boolean=True),
        Expression(tag, "{c} <= 1.5", _flag(lambda x: x <= 1.5), boolean=True),
        Expression(tag, "{c} < 5", _flag(lambda x: x < 5), boolean=True),
        Expression(tag, "{c} = {c}", _flag(lambda x: True), boolean=True),
        Expression(tag, "{c} <> 1", _flag(lambda x: x != 1), boolean=True),
        Expression(tag, "NOT ({c} > 1)", _flag(lambda x: not x > 1), boolean=True),
        Expression(tag, "{c} BETWEEN 0 AND 10", _flag(lambda x: 0 <= x <= 10), boolean=True),
        Expression(tag, "{c} IS NULL", _flag(lambda x: False), boolean=True, of_null=YES),
        Expression(tag, "{c} > 1.5 OR {c} IS NULL", _flag(lambda x: x > 1.5), boolean=True, of_null=YES),
        Expression(tag, "coalesce({c} > 1.5, false)", _flag(lambda x: x > 1.5), boolean=True, of_null=NO),
        Expression(tag, "isnan({c})", _flag(lambda x: False), boolean=True),
        Expression(tag, LOW_OR_HIGH, _text(lambda x: "high" if x > 1.5 else "low"), of_null=("text", "none")),
        Expression(tag, "coalesce({c}, 7)", sized(lambda x: x), of_null=(tag, 7.0)),
        Expression(tag, "{c} * 2", sized(lambda x: x * shape(2))),
        Expression(tag, "{c} + 1", sized(lambda x: x + shape(1))),
        Expression(tag, "{c} - {c}", sized(lambda x: x - x)),
        Expression(tag, "-{c}", sized(lambda x: -x)),
        Expression(tag, "CAST({c} AS BIGINT)", lambda x: _whole(x, -(2**63), 2**63 - 1)),
        Expression(tag, "CAST({c} AS TINYINT)", lambda x: _whole(x, -128, 127)),
        Expression(tag, "CAST({c} AS VARCHAR)", None),
        Expression(tag, "{c} / 0", None),
        Expression(tag, "{c} - {c} > 5", None, boolean=True),
    ]


_OF_TIMES = [
    Expression("timestamp", "date_trunc('day', {c})", _truncated(_DAY)),
    Expression("timestamp", "date_trunc('hour', {c})", _truncated(3600 * _SECOND)),
    Expression("timestamp", "CAST({c} AS DATE)", lambda ns: ("date", ns // _DAY)),
    Expression("timestamp", "{c} > TIMESTAMP '2000-01-01'", _flag(lambda ns: ns > _YEAR_2000 * _DAY), boolean=True),
    Expression("timestamp", "{c} IS NULL", _flag(lambda ns: False), boolean=True, of_null=YES),
    Expression("timestamp", "CAST({c} AS VARCHAR)", None),
    Expression("timestamp", "date_trunc('month', {c})", None),
    Expression("instant", "date_trunc('day', {c})", lambda ns: ("instant", ns // _DAY * _DAY)),
    Expression("instant", "{c} IS NULL", _flag(lambda ns: False), boolean=True, of_null=YES),
    Expression(
        "instant", "{c} > TIMESTAMPTZ '2000-01-01 00:00:00+00'", _flag(lambda ns: ns > _YEAR_2000 * _DAY), boolean=True
    ),
    Expression("instant", "CAST({c} AS DATE)", lambda ns: ("date", ns // _DAY)),
    Expression("instant", "CAST({c} AS VARCHAR)", None),
    Expression("instant_ns", "{c} IS NULL", None, boolean=True),
    Expression("instant_ns", "CAST({c} AS VARCHAR)", None),
    Expression("date", "date_trunc('day', {c})", lambda days: ("timestamp", days * _DAY)),
    Expression("date", "{c} > DATE '2000-01-01'", _flag(lambda days: days > _YEAR_2000), boolean=True),
    Expression("date", "{c} IS NULL", _flag(lambda days: False), boolean=True, of_null=YES),
    Expression("date", "CAST({c} AS VARCHAR)", None),
    Expression("date", "CAST({c} AS TIMESTAMP)", lambda days: ("timestamp", days * _DAY)),
    Expression("time", "{c} > TIME '06:00'", _flag(lambda ns: ns > 6 * 3600 * _SECOND), boolean=True),
    Expression("time", "CAST({c} AS VARCHAR)", None),
]

_OF_TEXT = [
    Expression("text", "lower({c})", _text(str.lower)),
    Expression("text", "upper({c})", _text(str.upper)),
    Expression("text", "substring({c}, 1, 2)", _text(lambda s: s[:2])),
    Expression("text", "substring({c}, 2)", _text(lambda s: s[1:])),
    Expression("text", "length({c})", lambda s: ("int", len(s))),
    Expression("text", "length({c}) > 1", _flag(lambda s: len(s) > 1), boolean=True),
    Expression("text", "{c} = 'NaN'", _flag(lambda s: s == "NaN"), boolean=True),
    Expression("text", "{c} > 'a'", _flag(lambda s: s.encode() > b"a"), boolean=True),
    Expression("text", "{c} IS NULL", _flag(lambda s: False), boolean=True, of_null=YES),
    Expression("text", "{c} = ''", _flag(lambda s: s == ""), boolean=True),
    Expression("text", "coalesce({c}, 'none')", _text(lambda s: s), of_null=("text", "none")),
    Expression("text", "CAST({c} AS DOUBLE)", number),
    Expression("text", "CAST({c} AS DOUBLE) > 1", lambda s: _compared(number(s)), boolean=True),
    Expression("text", "isnan(CAST({c} AS DOUBLE))", lambda s: NO if number(s) else None, boolean=True),
    Expression("text", "CAST({c} AS DATE)", None),
    Expression("text", "CAST({c} AS INTEGER)", None),
    Expression("text", "CAST({c} AS TIMESTAMP)", None),
]


def _compared(x: Value) -> Value:
    return None if x is None else ("bool", x[1] > 1)


_OF_OTHERS = [
    Expression("bool", "NOT {c}", _flag(lambda x: not x), boolean=True),
    Expression("bool", "{c}", _flag(lambda x: x), boolean=True),
    Expression("bool", "CAST({c} AS INTEGER)", lambda x: ("int", int(x))),
    Expression("int", "{c} > 1", _flag(lambda x: x > 1), boolean=True),
    Expression("int", "{c} = 5", _flag(lambda x: x == 5), boolean=True),
    Expression("int", "{c} IS NULL", _flag(lambda x: False), boolean=True, of_null=YES),
    Expression("int", "CAST({c} AS VARCHAR)", _text(str)),
    Expression("int", "CAST({c} AS TINYINT)", lambda x: _whole(x, -128, 127)),
    Expression("int", "CAST({c} AS DOUBLE)", lambda x: ("float64", float(x))),
    Expression("int", "{c} + 1", None),
    Expression("int", "{c} * {c}", None),
    Expression("int", "100 / {c}", None),
    Expression("int", "{c} + 1 > 5", None, boolean=True),
    Expression("int", LOW_OR_HIGH, _text(lambda x: "high" if x > 1.5 else "low"), of_null=("text", "none")),
    Expression("decimal", "{c} > 1", _flag(lambda x: x > 1), boolean=True),
    Expression("decimal", "CAST({c} AS VARCHAR)", None),
    Expression("decimal", "{c} * {c}", None),
    Expression("binary", "{c} IS NULL", _flag(lambda x: False), boolean=True, of_null=YES),
    Expression("binary", "CAST({c} AS VARCHAR)", None),
]


def _inside(tag: str, access: str, place: str | int, inner: list[Expression]) -> list[Expression]:
    """The expressions of a part of a struct or list."""

    def part(value: Any) -> Value:
        if isinstance(place, str):
            found: Value = value[place]
        else:
            found = value[place - 1] if place <= len(value) else None
        return found

    def lifted(one: Expression) -> Expression:
        meaning = None if one.meaning is None else lambda value: one.on(part(value))
        return Expression(tag, one.sql.replace("{c}", access), meaning, one.boolean, one.of_null)

    return [Expression(tag, access, part), *map(lifted, inner)]


_FLOAT64 = _of_floats("float64", np.float64)
_NESTED_TIMES = [
    one if one.sql.startswith(("date_trunc", "CAST")) else Expression(one.tag, one.sql, None, one.boolean)
    for one in _OF_TIMES
    if one.tag == "timestamp"
]
"""Times inside of a struct are in range as keys; what a comparison makes of others is nobody's promise."""

EXPRESSIONS: Final[Mapping[str, tuple[Expression, ...]]] = {
    tag: tuple(one for one in listed if one.tag == tag)
    for listed in [
        _FLOAT64 + _of_floats("float32", np.float32) + _OF_TIMES + _OF_TEXT + _OF_OTHERS
        + _inside("struct", "{c}.x", "x", _FLOAT64) + _inside("struct", "{c}.t", "t", _NESTED_TIMES)
        + _inside("struct", "{c}.s", "s", _OF_TEXT) + _inside("list", "{c}[1]", 1, _FLOAT64)
        + [Expression("list", "{c}[2]", lambda value: value[1] if len(value) > 1 else None)]
    ]
    for tag in dict.fromkeys(one.tag for one in listed)
}  # fmt: skip
