"""Users' expressions in Spark SQL: the same text, the same meaning, written out from the same syntax tree.

An expression is first checked as for every engine (`expressions`): a pure function of one record. What passes is written
in Spark's words, node by node; a function that is not listed here, because Spark lacks it or means something else by it, is
refused. Arithmetic and casts use the forms that give null where they fail: whether a run succeeds must not depend on a record.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import duckdb

from dphist.engines.expressions import check_expression
from dphist.engines.spark_types import in_range, is_moment
from dphist.errors import InvalidParameter

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
_MAY_MOVE_DATES: Final = ("+", "-")
_PARTS: Final = {"year", "quarter", "month", "week", "day", "hour", "minute"}
_BINARY: Final = {
    "+": "try_add({}, {})", "-": "try_subtract({}, {})", "*": "try_multiply({}, {})",
    "||": "({} || {})",
    "/": "try_divide(CAST({} AS DOUBLE), {})", "%": "try_mod({}, {})", "starts_with": "startswith({}, {})",
    "ends_with": "endswith({}, {})", "suffix": "endswith({}, {})", "prefix": "startswith({}, {})",
    "contains": "contains({}, {})", "nullif": "nullif({}, {})",
}  # fmt: skip
_SAME_NAME: Final = {
    1: ("lower", "upper", "trim", "ltrim", "rtrim", "abs", "isnan"),
    3: ("if", "replace"),
}


def spark_expression(
    text: str, connection: duckdb.DuckDBPyConnection, name: Callable[[str], str], kind: Callable[[str], str]
) -> str:
    """A checked expression in Spark SQL; `name` turns a column of the record into an identifier, `kind` tells Spark's type of
    an expression. No date or time that it hands on is outside the years 1 to 9999, if none in a column is."""
    return _Writer(text, name, kind).write(check_expression(text, connection).tree)


class _Writer:
    """Writes one tree."""

    def __init__(self, text: str, name: Callable[[str], str], kind: Callable[[str], str]) -> None:
        self._text, self._name, self._kind = text, name, kind

    def write(self, node: dict[str, Any]) -> str:
        kind = node["class"]
        if kind == "COLUMN_REF":
            if len(node["column_names"]) > 1:
                raise self._refusal("a field of a column")
            return self._name(node["column_names"][0])
        if kind == "CONSTANT":
            return self._constant(node["literal"])
        if kind == "COMPARISON":
            left, right = self.write(node["left"]), self.write(node["right"])
            if node["type"] == "COMPARE_DISTINCT_FROM":
                return f"(NOT ({left} <=> {right}))"
            return f"({left} {_COMPARISONS[node['type']]} {right})"
        if kind == "CONJUNCTION":
            word = " AND " if node["type"] == "CONJUNCTION_AND" else " OR "
            return "(" + word.join(map(self.write, node["children"])) + ")"
        if kind == "BETWEEN":
            return f"({self.write(node['input'])} BETWEEN {self.write(node['lower'])} AND {self.write(node['upper'])})"
        if kind == "CASE":
            branches = " ".join(
                f"WHEN {self.write(check['when_expr'])} THEN {self.write(check['then_expr'])}"
                for check in node["case_checks"]
            )
            return f"CASE {branches} ELSE {self.write(node['else_expr'])} END"
        if kind == "CAST":
            wanted = self._type(node["type_expr"])
            return in_range(f"TRY_CAST({self.write(node['child'])} AS {wanted})", _FAMILIES.get(wanted, wanted))
        if kind == "OPERATOR":
            return self._operator(node)
        if kind == "FUNCTION":
            return self._call(node)
        raise self._refusal(f"a {kind.lower()}")

    def _operator(self, node: dict[str, Any]) -> str:
        written = [self.write(child) for child in node["children"]]
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
        written = [self.write(argument) for argument in given]
        if len(written) in _SAME_NAME and name in _SAME_NAME[len(written)]:
            return f"{name}({', '.join(written)})"
        if len(written) == 2 and name in _BINARY:
            sql = _BINARY[name].format(*written)
            return in_range(sql, self._kind(sql)) if name in _MAY_MOVE_DATES else sql
        if name in ("date_trunc", "datetrunc") and len(written) == 2:
            part, kind = self._part(given[0]), self._kind(written[1])
            if not is_moment(kind):  # Spark would make a time of a number or of a text
                raise self._refusal(f"date_trunc of the type {kind}")
            return f"date_trunc('{part}', {in_range(f'TRY_CAST({written[1]} AS TIMESTAMP_LTZ)', 'timestamp')})"
        if name in ("date_part", "datepart") and len(written) == 2:
            return f"CAST(extract({self._part(given[0])} FROM {written[1]}) AS BIGINT)"
        if name == "-" and len(written) == 1:
            return f"try_subtract(0, {written[0]})"
        if name in ("length", "len") and len(written) == 1:
            return f"CAST(char_length({written[0]}) AS BIGINT)"
        if name == "//" and all(map(_is_whole, given)):
            return f"({written[0]} DIV nullif({written[1]}, 0))"
        if name in ("~~", "!~~") and "\\" not in str(given[1].get("literal", {}).get("text", "\\")):
            return f"({written[0]} {'LIKE' if name == '~~' else 'NOT LIKE'} {written[1]})"
        if name in _PARTS and len(written) == 1:
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


def _is_whole(node: dict[str, Any]) -> bool:
    """A whole number by its form: Spark would cut the fraction off other numbers before it divides."""
    if node["class"] == "CAST":
        return node["type_expr"]["type_name"].upper() in ("TINYINT", "SMALLINT", "INTEGER", "BIGINT")
    return bool(node.get("literal", {}).get("kind") == "INTEGER")


def _is_count(node: dict[str, Any]) -> bool:
    """A positive constant: negative positions and zero mean different things to the two engines."""
    literal = node.get("literal", {})
    return literal.get("kind") == "INTEGER" and int(literal["text"]) > 0


def quote_text(value: str) -> str:
    """A text as a Spark literal. What a setting could read as an escape is written as bytes."""
    if value.isascii() and value.replace(" ", "").isprintable() and "'" not in value and "\\" not in value:
        return f"'{value}'"
    return f"CAST(X'{value.encode().hex()}' AS STRING)"


def quote_identifier(name: str) -> str:
    """A column name as a Spark identifier."""
    return "`" + name.replace("`", "``") + "`"
