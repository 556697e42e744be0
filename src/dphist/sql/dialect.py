"""Trees of sqlglot become texts that DuckDB understands as BigQuery would.

sqlglot writes most functions of BigQuery as DuckDB has them. This module has a rule for each kind of node that sqlglot would
write wrongly: a function of that node alone, or `NoForm` where DuckDB has no form. `tests/sql/test_dialect.py` compares
functions of both kinds with BigQuery's answers.

sqlglot also writes some functions as operators, and some operators without the brackets that they need: `2 * DIV(a, b)` as
`2 * a // b`, which is another number. So this writer puts brackets around every operand that is no call. The text that runs
is therefore the tree that was proved private, and no later step writes it again.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final

from sqlglot import ErrorLevel, exp
from sqlglot.errors import SqlglotError
from sqlglot.generators.duckdb import DuckDBGenerator

from dphist.errors import InvalidParameter
from dphist.sql.parse import called, place_of

_DELIMITED: Final = (
    exp.Paren, exp.Dot, exp.Case, exp.If, exp.Cast, exp.AggFunc, exp.Anonymous, exp.Bracket, exp.Array, exp.Unnest,
    exp.PropertyEQ, exp.Kwarg, exp.Slice, exp.SubqueryPredicate, exp.Struct, exp.WeekStart
)  # fmt: skip
"""Nodes that need no brackets: their own text shows where they begin and end."""

_QUOTED: Final = re.compile(r"'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"")
_BRACKETS: Final = re.compile(r"\([^()]*\)")
_FROM_THE_LEFT: Final = (exp.Add, exp.Sub, exp.Mul, exp.Div, exp.DPipe)


class NoForm(ValueError):
    """A node that DuckDB cannot express, with what to write instead."""

    def __init__(self, node: exp.Expr, got: str, hint: str) -> None:
        super().__init__(got)
        self.node, self.got, self.hint = node, got, hint


class _Writer(DuckDBGenerator):
    """Writes DuckDB's SQL in which no operator takes an operand of another operator."""

    def sql(self, expression: Any, key: str | None = None, comment: bool = True) -> str:
        """Write a node, an operand in brackets."""
        text = super().sql(expression, key, comment)
        operand = key is None and isinstance(expression, exp.Expr) and self._is_operand(expression)
        return f"({text})" if operand and not _is_call(text) else text

    def _is_operand(self, node: exp.Expr) -> bool:
        parent = node.parent
        if parent is None or isinstance(parent, exp.Escape) or not (_is_operation(node) and _is_operation(parent)):
            return False
        return (
            isinstance(parent, exp.Binary | exp.Unary | exp.Predicate) or type(parent) in self._dispatch
        )  # no f(a, b)


def _is_call(text: str) -> bool:
    """Whether the text is one call, or stands in brackets as a whole."""
    text = _QUOTED.sub("", text)
    while (outside := _BRACKETS.sub("", text)) != text:
        text = outside
    return text.isidentifier() or not text


def written(node: exp.Expr, *, quoted: bool = False) -> str:
    """An expression or a query as SQL that DuckDB's parser reads as the same tree. quoted: every name stands in quotes.

    Raises:
        InvalidParameter: DuckDB has no form of it.
    """
    try:
        writer = _Writer(dialect="duckdb", unsupported_level=ErrorLevel.RAISE, comments=False, identify=quoted)
        return str(writer.generate(as_duckdb(node), copy=False))
    except NoForm as problem:
        found = InvalidParameter("SQL that can be written for the engine", problem.got, problem.hint)
        found.place = place_of(problem.node)
        raise found from None
    except (SqlglotError, ValueError, TypeError, AttributeError, LookupError, RecursionError):
        raise InvalidParameter(
            "SQL that can be written for the engine", called(node), "write it another way."
        ) from None


def _is_operation(node: exp.Expr) -> bool:
    kinds = (exp.Binary, exp.Unary, exp.Predicate, exp.Func)
    negative = isinstance(node, exp.Neg) and isinstance(node.this, exp.Literal)
    return isinstance(node, kinds) and not isinstance(node, _DELIMITED) and not negative


def as_duckdb(tree: exp.Expr) -> exp.Expr:
    """A copy of a tree in which the rules have replaced every node that DuckDB would read otherwise."""
    tree = tree.copy()
    for node in reversed(list(tree.walk())):  # inner nodes first
        rule = _RULES.get(type(node))
        found = None if rule is None else rule(node)
        if found is None and _is_flattened(node):
            found = exp.Paren(this=node.copy())
        if found is None:
            continue
        found.meta.update(node.meta)
        if node is tree:
            tree = found
        else:
            node.replace(found)
    return tree


def _is_flattened(node: exp.Expr) -> bool:
    """Whether sqlglot would write an operation and the one around it as one: a - (b - c), (a OR b) AND c."""
    parent = node.parent
    if isinstance(node, exp.Connector):
        return isinstance(parent, exp.Connector) and type(parent) is not type(node)
    first = parent is not None and node is parent.this and isinstance(node, _FROM_THE_LEFT)  # a + b + c
    return isinstance(node, exp.Binary) and type(parent) is type(node) and not first


def _call(name: str, *arguments: exp.Expr) -> exp.Expr:
    return exp.Anonymous(this=name, expressions=[one.copy() for one in arguments])


def _case(condition: exp.Expr, value: exp.Expr, otherwise: exp.Expr | None = None) -> exp.Expr:
    return exp.Case(ifs=[exp.If(this=condition, true=value)], default=otherwise)


def _length(node: Any) -> exp.Expr:
    """LENGTH of a text. sqlglot would write a case for bytes, too, which BigQuery has."""
    return _call("length", node.this)


def _extract(node: Any) -> exp.Expr | None:
    """EXTRACT, where weeks begin on Sundays and days of the week with 1."""
    part, value = node.this, node.expression
    name = f"WEEK({part.this.name})" if isinstance(part, exp.WeekStart) else part.name
    match name.upper():
        case "WEEK" | "WEEK(SUNDAY)":
            return exp.cast(_call("strftime", value, exp.Literal.string("%U")), "bigint")
        case "WEEK(MONDAY)":
            return exp.cast(_call("strftime", value, exp.Literal.string("%W")), "bigint")
        case "ISOWEEK":
            return _call("week", value)
        case "DAYOFWEEK":
            return exp.Paren(this=exp.Add(this=_call("dayofweek", value), expression=exp.Literal.number(1)))
        case "DAYOFYEAR":
            return _call("dayofyear", value)
        case "DATE":
            return exp.cast(value.copy(), "date")
    return None


def _timestamp_diff(node: Any) -> exp.Expr:
    """TIMESTAMP_DIFF counts whole hours and days; `date_diff` counts how often the clock strikes between the two."""
    return _call("date_sub", exp.Literal.string(node.args["unit"].name.lower()), node.expression, node.this)


def _substring(node: Any) -> exp.Expr | None:
    """SUBSTR: in BigQuery 0 and places before the text mean the first place."""
    start = node.args.get("start")
    if not isinstance(start, exp.Expr) or (isinstance(start, exp.Literal) and start.name != "0"):
        return None
    one, zero = exp.Literal.number(1), exp.Literal.number(0)
    found: exp.Expr = node.copy()
    before = exp.LT(this=start.copy(), expression=exp.Neg(this=_length(node)))
    outside = exp.Or(this=exp.EQ(this=start.copy(), expression=zero), expression=before)
    found.set("start", one if start.name == "0" else _case(outside, one, start.copy()))
    return found


def _like(node: Any) -> None:
    """LIKE, where a backslash escapes in BigQuery and is a letter in DuckDB."""
    if any("\\" in str(one.this) for one in node.expression.find_all(exp.Literal, exp.RawString)):
        hint = "write STARTS_WITH(x, '50%'), ENDS_WITH(x, '_') or STRPOS(x, '50%') > 0, where % and _ are letters."
        raise NoForm(node, "LIKE with a backslash in its pattern", hint)


def _last_day(node: Any) -> None:
    """LAST_DAY of a month. DuckDB's `last_day` knows no other part of a date."""
    unit = node.args.get("unit")
    if unit is not None and unit.name.upper() != "MONTH":
        name = f"WEEK({unit.this.name})" if isinstance(unit, exp.WeekStart) else unit.name.upper()
        longer = f"DATE_ADD(DATE_TRUNC(d, {name}), INTERVAL 1 {'WEEK' if 'WEEK' in name else name.removeprefix('ISO')})"
        if name == "ISOYEAR":
            raise NoForm(node, "LAST_DAY with ISOYEAR", "use YEAR, as in EXTRACT(YEAR FROM d), or group by ISOWEEK.")
        raise NoForm(node, f"LAST_DAY with {name}", f"write DATE_SUB({longer}, INTERVAL 1 DAY), with your date for d.")


def _regexp_extract(node: Any) -> exp.Expr | None:
    """REGEXP_EXTRACT gives the group, or the whole match where there is no group; null where nothing matches."""
    pattern = node.expression
    if not isinstance(pattern, exp.Literal | exp.RawString) or node.args.get("position") or node.args.get("occurrence"):
        return None
    try:
        groups = re.compile(str(pattern.this)).groups
    except re.error:
        return None
    if groups > 1:
        return None
    text, plain = node.this, exp.Literal.string(str(pattern.this))
    matched = _call("regexp_extract", text, plain, exp.Literal.number(groups))
    return _case(_call("regexp_matches", text, plain), matched)


_RULES: Final[dict[type[exp.Expr], Callable[[Any], exp.Expr | None]]] = {
    exp.Length: _length,
    exp.Extract: _extract,
    exp.TimestampDiff: _timestamp_diff,
    exp.Substring: _substring,
    exp.Like: _like,
    exp.LastDay: _last_day,
    exp.RegexpExtract: _regexp_extract,
}
