"""Users' expressions in Spark SQL: the same text, the same meaning, written out from the same syntax tree.

An expression is first checked as for every engine (`expressions`): a pure function of one record. What passes is written
in Spark's words, node by node; a function that is not listed here, because Spark lacks it or means something else by it, is
refused. Arithmetic and casts use the forms that give null where they fail: whether a run succeeds must not depend on a record.
Every step hands on what `spark_types.guarded` lets through: no NaN, no text over the limit, no time outside the years 1 to
9999. An error is null for its step alone.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, Final

import duckdb

from dphist.engines.duckdb.types import LONGEST_KEY
from dphist.engines.expressions import at, check_expression, columns_of, hint_of_cast
from dphist.engines.spark.types import NUMBERS, dated, family, guarded, in_range, is_moment, is_text, short
from dphist.errors import InvalidParameter

_DATED: Final = re.compile(r"\s*[+-]?[0-9]{4}")
_COMPARISONS: Final = {
    "COMPARE_EQUAL": "=",
    "COMPARE_NOTEQUAL": "<>",
    "COMPARE_GREATERTHAN": ">",
    "COMPARE_GREATERTHANOREQUALTO": ">=",
    "COMPARE_LESSTHAN": "<",
    "COMPARE_LESSTHANOREQUALTO": "<=",
    "COMPARE_NOT_DISTINCT_FROM": "<=>",
}
_TYPES: Final = {
    "BOOLEAN": "BOOLEAN", "TINYINT": "TINYINT", "SMALLINT": "SMALLINT", "INTEGER": "INT", "BIGINT": "BIGINT",
    "FLOAT": "FLOAT", "DOUBLE": "DOUBLE", "VARCHAR": "STRING", "BLOB": "BINARY", "DATE": "DATE",
    "TIMESTAMP": "TIMESTAMP_NTZ", "TIMESTAMP WITH TIME ZONE": "TIMESTAMP_LTZ",
}  # fmt: skip
_FAMILIES: Final = {"TIMESTAMP_LTZ": "timestamp"}
_MAY_OVERFLOW: Final = ("+", "-", "*", "%")
"""Their results may be NaN or leave the years 1 to 9999, by the types they are applied to."""
_PARTS: Final = {"year", "quarter", "month", "week", "day", "hour", "minute"}
_BINARY: Final = {
    "+": "try_add({}, {})", "-": "try_subtract({}, {})", "*": "try_multiply({}, {})",
    "||": "({} || {})",
    "/": "try_divide(CAST({} AS DOUBLE), {})", "%": "try_mod({}, {})", "starts_with": "startswith({}, {})",
    "ends_with": "endswith({}, {})", "suffix": "endswith({}, {})", "prefix": "startswith({}, {})",
    "contains": "contains({}, {})", "nullif": "nullif({}, {})",
}  # fmt: skip
_SAME_NAME: Final = {
    1: ("lower", "upper", "trim", "ltrim", "rtrim", "abs"),
    3: ("if",),
}
_MAY_GROW: Final = ("lower", "upper", "||")
_REPLACED: Final = (
    "transform(array(named_struct('s', {}, 'f', {}, 't', {})), v -> CASE WHEN octet_length(v.s)"
    " + coalesce((octet_length(v.s) - octet_length(replace(v.s, v.f, ''))) DIV nullif(octet_length(v.f), 0), 0)"
    f" * (octet_length(v.t) - octet_length(v.f)) <= {LONGEST_KEY} THEN replace(v.s, v.f, v.t) END)[0]"
)
"""The length is known before the text is built: replace(url, 'a', url) could ask for all the memory there is."""


def spark_expression(
    text: str, connection: duckdb.DuckDBPyConnection, name: Callable[[str], str], kind: Callable[[str], str]
) -> str:
    """A checked expression in Spark SQL; `name` turns a column of the record, which is guarded, into an identifier, `kind`
    tells Spark's type of an expression."""
    return _Writer(text, name, kind).write(check_expression(text, connection).tree)


def spark_type(name: str, column: str) -> str:
    """A declared type of a column (`Files.types`) in Spark's words."""
    if name.startswith("DECIMAL"):
        return name if "(" in name else "DECIMAL(18, 3)"
    if name not in _TYPES:
        raise InvalidParameter(
            f"a type that Spark has for {column!r}", name, f"these work: {', '.join(sorted((*_TYPES, 'DECIMAL')))}."
        )
    return _TYPES[name]


class _Writer:
    """Writes one tree."""

    def __init__(self, text: str, name: Callable[[str], str], kind: Callable[[str], str]) -> None:
        self._text, self._name, self._kind = text, name, kind

    def write(self, node: dict[str, Any]) -> str:
        try:
            return self._sql(node)
        except InvalidParameter as problem:
            located = at(problem, self._text, node)
        raise located

    def _sql(self, node: dict[str, Any]) -> str:
        kind = node["class"]
        if kind == "COLUMN_REF":
            if len(node["column_names"]) > 1:
                raise self._refusal("a field of a column")
            return self._name(node["column_names"][0])
        if kind == "CONSTANT":
            return self._constant(node["literal"])
        if kind == "COMPARISON":
            left, right = self._together([node["left"], node["right"]])
            if node["type"] == "COMPARE_DISTINCT_FROM":
                return f"(NOT ({left} <=> {right}))"
            return f"({left} {_COMPARISONS[node['type']]} {right})"
        if kind == "CONJUNCTION":
            word = " AND " if node["type"] == "CONJUNCTION_AND" else " OR "
            return "(" + word.join(map(self.write, node["children"])) + ")"
        if kind == "BETWEEN":
            value, lower, upper = self._together([node["input"], node["lower"], node["upper"]])
            return f"({value} BETWEEN {lower} AND {upper})"
        if kind == "CASE":
            *values, other = self._together([*(one["then_expr"] for one in node["case_checks"]), node["else_expr"]])
            conditions = [self.write(one["when_expr"]) for one in node["case_checks"]]
            branches = " ".join(f"WHEN {when} THEN {then}" for when, then in zip(conditions, values, strict=True))
            return f"CASE {branches} ELSE {other} END"
        if kind == "CAST":
            return self._cast(node["child"], self._type(node["type_expr"]))
        if kind == "OPERATOR":
            return self._operator(node)
        if kind == "FUNCTION":
            return self._call(node)
        raise self._refusal(f"a {kind.lower()}")

    def _cast(self, node: dict[str, Any], wanted: str) -> str:
        child, kind = self.write(node), _FAMILIES.get(wanted, wanted)
        if is_moment(kind) and is_text(self._kind(child)):
            self._check_moment(node)
            child = dated(child) if kind == "timestamp" else child
        return guarded(f"TRY_CAST({child} AS {wanted})", kind)

    def _together(self, nodes: Sequence[dict[str, Any]]) -> list[str]:
        """What becomes of one type. Spark would read text beside times as a time, and some of it by its clock."""
        written = [self.write(node) for node in nodes]
        kinds = ["string" if _text_of(one) is not None else "" for one in nodes]
        kinds = [
            kind or ("" if one["class"] == "CONSTANT" else self._kind(sql))
            for one, sql, kind in zip(nodes, written, kinds, strict=True)
        ]
        numbers = [_is_number(one) or family(kind) in NUMBERS for one, kind in zip(nodes, kinds, strict=True)]
        for node, kind in zip(nodes, kinds, strict=True):
            if any(numbers) and is_text(kind) and _text_of(node) is None:  # which Spark would cast, and DuckDB refuses
                column = node["class"] == "COLUMN_REF"
                hint = hint_of_cast(node["column_names"][0] if column else "...", ["number"], column=column)
                raise InvalidParameter(
                    f"values of one type beside each other in {self._text!r}", "text beside a number", hint.strip()
                )
        if any(map(is_moment, kinds)):
            for node, kind in zip(nodes, kinds, strict=True):
                if is_text(kind) and _text_of(node) is None:
                    raise self._refusal("a text beside a date or a time: cast it to one")
                if is_text(kind):
                    self._check_moment(node)
        return written

    def _check_moment(self, node: dict[str, Any]) -> None:
        """A text that is read as a date or a time: of a constant Spark takes 'now' and 'today' for the clock."""
        text = _text_of(node)
        if text is not None and not _DATED.match(text):
            raise self._refusal(f"{text!r} as a date or a time")
        if text is None and not any(True for _ in columns_of(node, self._text)):
            raise self._refusal("a text that is computed of constants, as a date or a time")

    def _operator(self, node: dict[str, Any]) -> str:
        alike = node["type"] in ("OPERATOR_COALESCE", "COMPARE_IN")
        written = self._together(node["children"]) if alike else [self.write(child) for child in node["children"]]
        match node["type"]:
            case "OPERATOR_IS_NULL":
                return f"({written[0]} IS NULL)"
            case "OPERATOR_IS_NOT_NULL":
                return f"({written[0]} IS NOT NULL)"
            case "OPERATOR_NOT":
                return f"(NOT {written[0]})"
            case "OPERATOR_COALESCE":
                return f"coalesce({', '.join(written)})"
            case "COMPARE_IN":
                return f"({written[0]} IN ({', '.join(written[1:])}))"
        raise self._refusal(f"the operator {node['type'].lower()}")

    def _call(self, node: dict[str, Any]) -> str:
        name = node["function_name"].lower()
        given = [argument["expression"] for argument in node["arguments"]]
        alike = given[1:] if name == "if" else given if name in ("+", "-", "*", "/", "%", "nullif") else []
        written = [*map(self.write, given[: len(given) - len(alike)]), *self._together(alike)]
        if len(written) in _SAME_NAME and name in _SAME_NAME[len(written)]:
            return self._bounded(f"{name}({', '.join(written)})", name)
        if name == "replace" and len(written) == 3:
            return _REPLACED.format(*written)
        if len(written) == 2 and name in _BINARY:
            return self._bounded(_BINARY[name].format(*written), name)
        if name in ("date_trunc", "datetrunc") and len(written) == 2:
            part = self._part(given[0])
            self._require_moment(name, written[1])
            return f"date_trunc('{part}', {in_range(f'TRY_CAST({written[1]} AS TIMESTAMP_LTZ)', 'timestamp')})"
        if name in ("date_part", "datepart") and len(written) == 2:
            self._require_moment(name, written[1])
            return f"CAST(extract({self._part(given[0])} FROM {written[1]}) AS BIGINT)"
        if name == "isnan" and len(written) == 1:
            return f"nullif({written[0]} IS NULL, TRUE)"  # NaN is null by now, and DuckDB's answer to null is null
        if name == "-" and len(written) == 1:
            return f"try_subtract(0, {written[0]})"
        if name in ("length", "len") and len(written) == 1:
            return f"CAST(char_length({written[0]}) AS BIGINT)"
        if name == "//" and all(map(_is_whole, given)):
            return f"({written[0]} DIV nullif({written[1]}, 0))"
        if name in ("~~", "!~~") and _is_simple_pattern(str(given[1].get("literal", {}).get("text", "\\"))):
            return f"({written[0]} {'LIKE' if name == '~~' else 'NOT LIKE'} {written[1]})"
        if name in _PARTS and len(written) == 1:
            self._require_moment(name, written[0])
            return (
                f"CAST({name}({written[0]}) AS BIGINT)"
                if name != "week"
                else f"CAST(weekofyear({written[0]}) AS BIGINT)"
            )
        if name in ("substring", "substr", "left") and all(_is_count(argument) for argument in given[1:]):
            return f"{'left' if name == 'left' else 'substring'}({', '.join(written)})"
        if name == "split_part" and len(written) == 3 and _is_count(given[2]):
            return f"split_part({', '.join(written)})"
        raise self._refusal(f"the function {name}")

    def _require_moment(self, name: str, sql: str) -> None:
        """Spark would make a time of a number or of a text."""
        if not is_moment(kind := self._kind(sql)):
            raise self._refusal(f"{name} of the type {kind}")

    def _bounded(self, sql: str, name: str) -> str:
        """A result without NaN, texts over the limit and times out of range, where a function can make such."""
        if name in _MAY_GROW:
            return short(sql)
        if name == "/":
            return guarded(sql, "double")
        return guarded(sql, self._kind(sql)) if name in _MAY_OVERFLOW else sql

    def _part(self, node: dict[str, Any]) -> str:
        given = str(node.get("literal", {}).get("text", "")).lower()
        if given not in _PARTS:
            raise self._refusal(f"the part {given!r} of a date")
        return given.upper()

    def _type(self, node: dict[str, Any]) -> str:
        name = node["type_name"].upper()
        if name == "DECIMAL":
            digits = [child["literal"]["text"] for child in node["children"]] or ["18", "3"]
            return f"DECIMAL({', '.join(str(int(digit)) for digit in digits)})"
        if name not in _TYPES or node["children"]:
            raise self._refusal(f"the type {name}")
        return _TYPES[name]

    def _constant(self, literal: dict[str, str]) -> str:
        kind, text = literal["kind"], literal["text"]
        if kind == "STRING":
            return quote_text(text)
        if kind == "INTEGER":
            return str(int(text))
        if kind == "NUMERIC":
            float(text)  # digits, a point and an exponent, nothing else
            return text if "e" not in text.lower() else f"CAST('{float(text)!r}' AS DOUBLE)"
        if kind == "BOOLEAN":
            return "TRUE" if text == "true" else "FALSE"
        if kind == "NULL_LITERAL":
            return "NULL"
        raise self._refusal(f"a constant of the kind {kind.lower()}")

    def _refusal(self, got: str) -> InvalidParameter:
        return InvalidParameter(
            f"an expression that Spark evaluates like DuckDB in {self._text!r}",
            got,
            "derive the column in Spark itself, with DataFrame.withColumn, and name it here.",
        )


def _text_of(node: dict[str, Any]) -> str | None:
    """The text of a quoted literal."""
    literal = node.get("literal", {})
    return str(literal["text"]) if literal.get("kind") == "STRING" else None


def _is_number(node: dict[str, Any]) -> bool:
    return node.get("literal", {}).get("kind") in ("INTEGER", "NUMERIC")


def _is_whole(node: dict[str, Any]) -> bool:
    """A whole number by its form: Spark would cut the fraction off other numbers before it divides."""
    if node["class"] == "CAST":
        return node["type_expr"]["type_name"].upper() in ("TINYINT", "SMALLINT", "INTEGER", "BIGINT")
    return bool(node.get("literal", {}).get("kind") == "INTEGER")


def _is_count(node: dict[str, Any]) -> bool:
    """A positive constant: negative positions and zero mean different things to the two engines."""
    literal = node.get("literal", {})
    return literal.get("kind") == "INTEGER" and int(literal["text"]) > 0


def _is_simple_pattern(pattern: str) -> bool:
    """Matched in one pass. Spark backtracks over other patterns, and one record of 65,536 letters could last for days."""
    return "\\" not in pattern and (pattern.count("%") <= 1 or "%" not in pattern[1:-1])


def quote_text(value: str) -> str:
    """A text as a Spark literal. What a setting could read as an escape is written as bytes."""
    if value.isascii() and value.replace(" ", "").isprintable() and "'" not in value and "\\" not in value:
        return f"'{value}'"
    return f"CAST(X'{value.encode().hex()}' AS STRING)"


def quote_identifier(name: str) -> str:
    """A column name as a Spark identifier."""
    return "`" + name.replace("`", "``") + "`"
