"""Users' expressions in Spark SQL: the same trees with the same meaning, in Spark's words.

A function that is not listed, because Spark lacks it or means something else by it, is refused. Arithmetic and casts have the
forms that give null where they fail.

Whether a run succeeds must not depend on a record. Every step hands on what `spark.types.guarded` lets through: no NaN, no text
over the limit, no time outside the years 1 to 9999. An error is null for its step alone.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final
from typing import Literal as OneOf

from dphist.engines.expressions import (
    LONGEST_KEY,
    Call,
    Case,
    Cast,
    Column,
    Expression,
    Literal,
    Node,
    Operation,
    Visitor,
    check_literal,
    hint_of_cast,
    nodes_of,
)
from dphist.engines.spark.types import NUMBERS, dated, family, guarded, in_range, is_moment, is_text, short
from dphist.errors import InvalidParameter

_DATED: Final = re.compile(r"\s*[+-]?[0-9]{4}")
_TYPES: Final = {
    "BOOLEAN": "BOOLEAN", "TINYINT": "TINYINT", "SMALLINT": "SMALLINT", "INTEGER": "INT", "BIGINT": "BIGINT",
    "FLOAT": "FLOAT", "DOUBLE": "DOUBLE", "VARCHAR": "STRING", "BLOB": "BINARY", "DATE": "DATE",
    "TIMESTAMP": "TIMESTAMP_NTZ", "TIMESTAMP WITH TIME ZONE": "TIMESTAMP_LTZ",
}  # fmt: skip
_FAMILIES: Final = {"TIMESTAMP_LTZ": "timestamp"}


def spark_expression(
    expression: Expression, name: Callable[[str], str], kind: Callable[[str], str], longest: int = LONGEST_KEY
) -> str:
    """An expression in Spark SQL.

    name: gives the identifier of a guarded column. kind: gives Spark's type of an expression. longest: the bytes of a text
    that a step makes.
    """
    return _Writer(name, kind, longest).write(expression)


def spark_type(name: str, column: str) -> str:
    """A declared type of a column (`Files.types`) in Spark's words."""
    if name.startswith("DECIMAL"):
        return name if "(" in name else "DECIMAL(18, 3)"
    if name not in _TYPES:
        raise InvalidParameter(
            f"a type that Spark has for {column!r}", name, f"these work: {', '.join(sorted((*_TYPES, 'DECIMAL')))}."
        )
    return _TYPES[name]


class _Writer(Visitor[str]):
    """Writes a whole tree as one text."""

    def __init__(self, name: Callable[[str], str], kind: Callable[[str], str], longest: int) -> None:
        self._name, self._kind, self._longest = name, kind, longest

    def _column(self, node: Column) -> str:
        if len(node.names) > 1:
            raise self._refusal("a field of a column")
        return self._name(node.names[0])

    def _literal(self, node: Literal) -> str:
        match node.kind:
            case "STRING":
                check_literal(len(node.text.encode()), self._longest)
                return quote_text(node.text)
            case "INTEGER":
                return str(int(node.text))
            case "NUMERIC":
                number = float(node.text)  # digits, a point and an exponent, nothing else
                return node.text if "e" not in node.text.lower() else f"CAST('{number!r}' AS DOUBLE)"
            case "BOOLEAN":
                return "TRUE" if node.text == "true" else "FALSE"
            case "NULL_LITERAL":
                return "NULL"
        raise self._refusal(f"a constant of the kind {node.kind.lower()}")

    def _operation(self, node: Operation) -> str:
        alike = node.kind.startswith("COMPARE_") or node.kind == "OPERATOR_COALESCE"
        parts = self._together(node.parts) if alike else self.every(node.parts)
        if (form := OPERATIONS.get(node.kind)) is None:
            raise self._refusal(f"the operator {node.kind.lower()}")
        if node.kind.startswith("CONJUNCTION_"):
            return f"({form.join(parts)})"
        return form.format(*parts, all=", ".join(parts), others=", ".join(parts[1:]))

    def _case(self, node: Case) -> str:
        *values, other = self._together([*(value for _, value in node.branches), node.parts[-1]])
        conditions = self.every(condition for condition, _ in node.branches)
        branches = " ".join(f"WHEN {when} THEN {then}" for when, then in zip(conditions, values, strict=True))
        return f"CASE {branches} ELSE {other} END"

    def _cast(self, node: Cast) -> str:
        (operand,), wanted = node.parts, self._type(node)
        child, kind = self.visit(operand), _FAMILIES.get(wanted, wanted)
        if is_moment(kind) and is_text(self._kind(child)):
            self._check_moment(operand)
            child = dated(child) if kind == "timestamp" else child
        return guarded(f"TRY_CAST({child} AS {wanted})", kind, self._longest)

    def _type(self, node: Cast) -> str:
        name = node.type_name.upper()
        if name == "DECIMAL" and all(digits.isdigit() for digits in node.parameters):
            return f"DECIMAL({', '.join(str(int(digits)) for digits in node.parameters or ('18', '3'))})"
        if name not in _TYPES or node.parameters:
            raise self._refusal(f"the type {name}")
        return _TYPES[name]

    def _call(self, node: Call) -> str:
        function = FUNCTIONS.get((node.name, len(node.parts)))
        first = len(node.parts) if function is None or function.alike is None else function.alike
        arguments = [*self.every(node.parts[:first]), *self._together(node.parts[first:])]
        if function is None or not function.fits(node.parts):
            raise self._refusal(f"the function {node.name}")
        if function.part:
            arguments[0] = self._part(node.parts[0])
        if function.moment and not is_moment(kind := self._kind(arguments[-1])):
            raise self._refusal(f"{node.name} of the type {kind}")  # Spark would make a time of a number or of a text
        sql = function.sql.format(*arguments, longest=self._longest)
        match function.result:
            case "text":
                return short(sql, self._longest)
            case "double":
                return guarded(sql, "double")
            case "any":
                return guarded(sql, self._kind(sql))
        return sql

    def _part(self, node: Node) -> str:
        given = node.text.lower() if isinstance(node, Literal) else ""
        if given not in PARTS:
            raise self._refusal(f"the part {given!r} of a date")
        return given.upper()

    def _together(self, nodes: Sequence[Node]) -> list[str]:
        """Values that become one type. Spark would read a text beside a time as a time, and some texts by its clock."""
        written = self.every(nodes)
        kinds = [
            "string" if _is_text(node) else "" if isinstance(node, Literal) else self._kind(sql)
            for node, sql in zip(nodes, written, strict=True)
        ]
        numbers = [
            family(kind) in NUMBERS or (isinstance(node, Literal) and node.kind in ("INTEGER", "NUMERIC"))
            for node, kind in zip(nodes, kinds, strict=True)
        ]
        for node, kind in zip(nodes, kinds, strict=True):
            if any(numbers) and is_text(kind) and not _is_text(node):  # which Spark would cast, and DuckDB refuses
                column = node.names[0] if isinstance(node, Column) else None
                hint = hint_of_cast(column or "...", ["number"], column=column is not None)
                raise InvalidParameter(
                    f"values of one type beside each other in {self.text!r}", "text beside a number", hint.strip()
                )
        if any(map(is_moment, kinds)):
            for node, kind in zip(nodes, kinds, strict=True):
                if is_text(kind) and not _is_text(node):
                    raise self._refusal("a text beside a date or a time: cast it to one")
                if is_text(kind):
                    self._check_moment(node)
        return written

    def _check_moment(self, node: Node) -> None:
        """Refuse a constant text that Spark would read by its clock as a date or a time, such as 'now' or 'today'."""
        text = node.text if isinstance(node, Literal) and _is_text(node) else None
        if text is not None and not _DATED.match(text):
            raise self._refusal(f"{text!r} as a date or a time")
        if text is None and not any(isinstance(one, Column) for one in nodes_of(node)):
            raise self._refusal("a text that is computed of constants, as a date or a time")

    def _refusal(self, got: str) -> InvalidParameter:
        return InvalidParameter(
            f"an expression that Spark evaluates like DuckDB in {self.text!r}",
            got,
            "derive the column in Spark itself, with DataFrame.withColumn, and name it here.",
        )


def _is_text(node: Node) -> bool:
    """Whether it is a quoted literal."""
    return isinstance(node, Literal) and node.kind == "STRING"


def quote_text(value: str) -> str:
    """A text as a Spark literal. A text that a setting could read as an escape is written as bytes."""
    if value.isascii() and value.replace(" ", "").isprintable() and "'" not in value and "\\" not in value:
        return f"'{value}'"
    return f"CAST(X'{value.encode().hex()}' AS STRING)"


def quote_identifier(name: str) -> str:
    """A column name as a Spark identifier."""
    return "`" + name.replace("`", "``") + "`"


OPERATIONS: Final[Mapping[str, str]] = {
    "COMPARE_EQUAL": "({} = {})",
    "COMPARE_NOTEQUAL": "({} <> {})",
    "COMPARE_GREATERTHAN": "({} > {})",
    "COMPARE_GREATERTHANOREQUALTO": "({} >= {})",
    "COMPARE_LESSTHAN": "({} < {})",
    "COMPARE_LESSTHANOREQUALTO": "({} <= {})",
    "COMPARE_NOT_DISTINCT_FROM": "({} <=> {})",
    "COMPARE_DISTINCT_FROM": "(NOT ({} <=> {}))",
    "COMPARE_IN": "({} IN ({others}))",
    "COMPARE_BETWEEN": "({} BETWEEN {} AND {})",
    "CONJUNCTION_AND": " AND ",
    "CONJUNCTION_OR": " OR ",
    "OPERATOR_NOT": "(NOT {})",
    "OPERATOR_IS_NULL": "({} IS NULL)",
    "OPERATOR_IS_NOT_NULL": "({} IS NOT NULL)",
    "OPERATOR_COALESCE": "coalesce({all})",
}
"""As `functions.OPERATIONS` has them for DuckDB."""

PARTS: Final = ("year", "quarter", "month", "week", "day", "hour", "minute")
"""The parts of dates and times."""


@dataclass(frozen=True, slots=True)
class Function:
    """A function of some number of arguments. sql: the form over them.

    alike: the first argument of those that become one type. moment: whether the last argument must be a date or a time. part:
    whether the first argument names a part of a date. result: which values become null: long texts, NaN, or all that its type
    must not have. fits: whether Spark and DuckDB agree on these arguments.
    """

    sql: str
    alike: int | None = None
    moment: bool = False
    part: bool = False
    result: OneOf["", "text", "double", "any"] = ""
    fits: Callable[[Sequence[Node]], bool] = lambda _: True


def _are_whole(nodes: Sequence[Node]) -> bool:
    """Whole numbers by their form: Spark would cut the fraction off other numbers before it divides."""
    casts = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT")
    return all(
        one.type_name.upper() in casts if isinstance(one, Cast) else isinstance(one, Literal) and one.kind == "INTEGER"
        for one in nodes
    )


def _counted_from(first: int) -> Callable[[Sequence[Node]], bool]:
    """Positive constants: negative places and zero mean different things to the two engines."""

    def fits(nodes: Sequence[Node]) -> bool:
        given = nodes[first:]
        return all(isinstance(one, Literal) and one.kind == "INTEGER" and int(one.text) > 0 for one in given)

    return fits


def _is_simple_pattern(nodes: Sequence[Node]) -> bool:
    """Matched in one pass. Spark backtracks over other patterns, and one record of 65,536 letters could last for days."""
    pattern = nodes[1].text if isinstance(nodes[1], Literal) else "\\"
    return "\\" not in pattern and (pattern.count("%") <= 1 or "%" not in pattern[1:-1])


_REPLACED: Final = (
    "transform(array(named_struct('s', {}, 'f', {}, 't', {})), v -> CASE WHEN octet_length(v.s)"
    " + coalesce((octet_length(v.s) - octet_length(replace(v.s, v.f, ''))) DIV nullif(octet_length(v.f), 0), 0)"
    " * (octet_length(v.t) - octet_length(v.f)) <= {longest} THEN replace(v.s, v.f, v.t) END)[0]"
)
"""The length is known before the text is built: replace(url, 'a', url) could ask for all the memory there is."""

_TRUNCATED: Final = Function(
    f"date_trunc('{{0}}', {in_range('TRY_CAST({1} AS TIMESTAMP_LTZ)', 'timestamp')})", moment=True, part=True
)
_EXTRACTED: Final = Function("CAST(extract({} FROM {}) AS BIGINT)", moment=True, part=True)
_LENGTH: Final = Function("CAST(char_length({}) AS BIGINT)")

FUNCTIONS: Final[Mapping[tuple[str, int], Function]] = {
    **{(name, 1): Function(f"{name}({{}})", result="text") for name in ("lower", "upper")},
    **{(name, 1): Function(f"{name}({{}})") for name in ("trim", "ltrim", "rtrim", "abs")},
    **{(name, 1): Function(f"CAST({name}({{}}) AS BIGINT)", moment=True) for name in PARTS},
    ("week", 1): Function("CAST(weekofyear({}) AS BIGINT)", moment=True),
    ("isnan", 1): Function("nullif({} IS NULL, TRUE)"),  # NaN is null by now, and DuckDB's answer to null is null
    ("-", 1): Function("try_subtract(0, {})", alike=0),
    ("length", 1): _LENGTH,
    ("len", 1): _LENGTH,
    ("+", 2): Function("try_add({}, {})", alike=0, result="any"),
    ("-", 2): Function("try_subtract({}, {})", alike=0, result="any"),
    ("*", 2): Function("try_multiply({}, {})", alike=0, result="any"),
    ("/", 2): Function("try_divide(CAST({} AS DOUBLE), {})", alike=0, result="double"),
    ("//", 2): Function("({} DIV nullif({}, 0))", fits=_are_whole),
    ("%", 2): Function("try_mod({}, {})", alike=0, result="any"),
    ("nullif", 2): Function("nullif({}, {})", alike=0),
    ("||", 2): Function("({} || {})", result="text"),
    ("~~", 2): Function("({} LIKE {})", fits=_is_simple_pattern),
    ("!~~", 2): Function("({} NOT LIKE {})", fits=_is_simple_pattern),
    ("contains", 2): Function("contains({}, {})"),
    ("starts_with", 2): Function("startswith({}, {})"),
    ("prefix", 2): Function("startswith({}, {})"),
    ("ends_with", 2): Function("endswith({}, {})"),
    ("suffix", 2): Function("endswith({}, {})"),
    ("left", 2): Function("left({}, {})", fits=_counted_from(1)),
    **{(name, 2): Function("substring({}, {})", fits=_counted_from(1)) for name in ("substring", "substr")},
    **{(name, 3): Function("substring({}, {}, {})", fits=_counted_from(1)) for name in ("substring", "substr")},
    **{(name, 2): _TRUNCATED for name in ("date_trunc", "datetrunc")},
    **{(name, 2): _EXTRACTED for name in ("date_part", "datepart")},
    ("split_part", 3): Function("split_part({}, {}, {})", fits=_counted_from(2)),
    ("replace", 3): Function(_REPLACED),
    ("if", 3): Function("if({}, {}, {})", alike=1),
}
"""By name and number of arguments."""
