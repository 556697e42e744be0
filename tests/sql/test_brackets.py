"""An expression counts what it says: DuckDB reads the text that is written for it as the tree that was read."""

from __future__ import annotations

from typing import Any

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dphist as dp
from dphist.sql.dialect import written
from dphist.sql.parse import parse

ROW = "SELECT 7 AS a, 2 AS b, 3 AS c, 'x' AS t"
ANSWERS: dict[str, Any] = {
    "2 * DIV(a, b)": 6,
    "a / DIV(a, b)": 7 / 3,
    "DIV(a + 1, b - 1)": 8,
    "100 - MOD(a, b) * 10": 90,
    "c * MOD(a, 4)": 9,
    "CONCAT(t, a = 7)": "xtrue",
    "CONCAT(t, t) = 'xx'": True,
    "NOT a > 5 AND FALSE": False,
    "a - (b - c)": 8,
    "-a + b": -5,
    "a & (b | c)": 3,
    "1 << b + 1": 8,
    "t || t || t": "xxx",
    "a BETWEEN b + 1 AND c * 3 AND b = 2": True,
    "t LIKE 'y' OR NOT t LIKE 'y'": True,
    "a NOT IN (1, 2) = TRUE": True,
}


@pytest.mark.parametrize("text", ANSWERS)
def test_the_text_for_the_engine_means_what_the_statement_says(text: str) -> None:
    (statement,) = parse(f"SELECT {text} FROM row")
    with duckdb.connect() as connection:
        sql = written(statement.expressions[0])
        assert connection.execute(f"SELECT {sql} FROM ({ROW})").fetchall() == [(ANSWERS[text],)]


_NUMBERS: dict[str, Any] = {"+": lambda x, y: x + y, "-": lambda x, y: x - y, "*": lambda x, y: x * y}
_CALLS: dict[str, Any] = {"DIV": lambda x, y: int(x / y), "MOD": lambda x, y: x - y * int(x / y)}


def _join(parts: tuple[Any, str, Any]) -> tuple[str, float | None]:
    (left, x), name, (right, y) = parts
    if name in _NUMBERS:
        return f"({left}) {name} ({right})", None if x is None or y is None else _NUMBERS[name](x, y)
    return f"{name}({left}, {right})", None if x is None or not y else _CALLS[name](x, y)


_TREES = st.recursive(
    st.integers(0, 9).map(lambda number: (str(number), number)),
    lambda inner: st.tuples(inner, st.sampled_from([*_NUMBERS, *_CALLS]), inner).map(_join),
    max_leaves=8,
)


@given(_TREES)
def test_calls_that_are_written_as_operators_keep_their_operands(tree: tuple[str, float | None]) -> None:
    text, value = tree
    (statement,) = parse(f"SELECT 10 * {text if not text.startswith('(') else f'({text})'} FROM row")
    with duckdb.connect() as connection:
        sql = written(statement.expressions[0])
        connection.execute("SET error_on_division_by_zero = false")
        found = connection.execute(f"SELECT {sql}").fetchall()[0][0]
    assert value is None or found == 10 * value


@pytest.mark.parametrize("text", ["a | b & c", "a & b | c", "a ^ b << c", "a >> b || t", "a + b || t", "t || a * b"])
def test_operators_that_bigquery_ranks_otherwise_need_brackets(text: str) -> None:
    with pytest.raises(dp.InvalidParameter, match="brackets"):
        parse(f"SELECT {text} FROM row")


def test_a_statement_counts_what_it_says() -> None:
    people = pa.table({"u": list(range(2_000)), "x": [7] * 2_000})
    con = dp.connect({"people": people}, unit="u")
    clause = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 20, delta = 1e-8)"
    inner = con.sql(f"{clause} COUNT(DISTINCT u) AS n FROM people WHERE 2 * DIV(x, 2) = 6").table
    assert inner.column("n")[0].as_py() > 1_900
    outer = con.sql(f"SELECT 2 * DIV(7, 2) AS six, n FROM ({clause} COUNT(DISTINCT u) AS n FROM people)").table
    assert outer.column("six").to_pylist() == [6]
