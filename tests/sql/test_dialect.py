"""What BigQuery means is what DuckDB computes: expressions with the answers that BigQuery gives, as far as we know it.

sqlglot's part is pinned here too: another version that writes one of these otherwise is noticed.
"""

from __future__ import annotations

import datetime as dt
import hashlib
from collections.abc import Iterator
from typing import Any

import duckdb
import pytest
from sqlglot import exp

from dphist.engines.parser import read_expression
from dphist.errors import InvalidParameter
from dphist.sql.dialect import written
from dphist.sql.parse import parse

ROW = """
SELECT 'ab c' AS s, -7 AS i, NULL::BIGINT AS n, NULL::VARCHAR AS empty, 2.5::DOUBLE AS f, -2.5::DOUBLE AS g, 0 AS zero,
  DATE '2024-01-31' AS d, DATE '2024-02-04' AS sunday, TIMESTAMP '2024-01-31 10:05:00' AS t, 'aXaXa' AS a
"""
ANSWERS: dict[str, Any] = {
    # Weeks, days and clocks.
    "EXTRACT(WEEK FROM d)": 4,
    "EXTRACT(WEEK FROM sunday)": 5,
    "EXTRACT(WEEK(MONDAY) FROM sunday)": 5,
    "EXTRACT(ISOWEEK FROM sunday)": 5,
    "EXTRACT(DAYOFWEEK FROM sunday)": 1,
    "EXTRACT(DAYOFWEEK FROM d) * 2": 8,
    "EXTRACT(DAYOFYEAR FROM sunday)": 35,
    "EXTRACT(DATE FROM t)": dt.date(2024, 1, 31),
    "EXTRACT(QUARTER FROM d)": 1,
    "EXTRACT(HOUR FROM t)": 10,
    "DATE(t)": dt.date(2024, 1, 31),
    "CAST(DATE_TRUNC(d, WEEK) AS DATE)": dt.date(2024, 1, 28),
    "CAST(DATE_TRUNC(sunday, WEEK) AS DATE)": dt.date(2024, 2, 4),
    "CAST(DATE_TRUNC(sunday, WEEK(MONDAY)) AS DATE)": dt.date(2024, 1, 29),
    "CAST(DATE_TRUNC(sunday, ISOWEEK) AS DATE)": dt.date(2024, 1, 29),
    "CAST(TIMESTAMP_TRUNC(t, HOUR) AS STRING)": "2024-01-31 10:00:00",
    "DATE_DIFF(sunday, d, WEEK)": 1,
    "DATE_DIFF(sunday, d, ISOWEEK)": 0,
    "DATE_DIFF(sunday, d, MONTH)": 1,
    "TIMESTAMP_DIFF(TIMESTAMP '2024-01-31 12:00:00+00', TIMESTAMP '2024-01-31 10:59:00+00', HOUR)": 1,
    "DATETIME_DIFF(DATETIME '2024-01-31 12:00:00', DATETIME '2024-01-31 10:59:00', HOUR)": 2,
    "CAST(DATE_ADD(d, INTERVAL 1 MONTH) AS DATE)": dt.date(2024, 2, 29),
    "CAST(DATE_SUB(d, INTERVAL 1 DAY) AS DATE)": dt.date(2024, 1, 30),
    "FORMAT_DATE('%Y-%m', d)": "2024-01",
    "PARSE_DATE('%Y%m%d', '20240131') = d": True,
    "LAST_DAY(sunday)": dt.date(2024, 2, 29),
    # Texts.
    "LENGTH(s)": 4,
    "LENGTH(SUBSTR(s, 0, LENGTH(s) - 1))": 3,
    "SUBSTR(s, 0, 2)": "ab",
    "SUBSTR(s, zero, 2)": "ab",
    "SUBSTR(s, 1, 2)": "ab",
    "SUBSTR(s, -2)": " c",
    "SUBSTR(s, -2, 1)": " ",
    "SUBSTR(s, -9, 2)": "ab",
    "SUBSTR(s, i, 2)": "ab",
    "SUBSTR(s, -9)": "ab c",
    "SPLIT(s, ' ')[OFFSET(1)]": "c",
    "SPLIT(s, ' ')[ORDINAL(1)]": "ab",
    "REGEXP_EXTRACT(s, r'b (.)')": "c",
    "REGEXP_EXTRACT(s, r'[a-z]+')": "ab",
    "REGEXP_EXTRACT(s, r'z(.)')": None,
    "REGEXP_EXTRACT(LOWER(a), r'x(.)')": "a",
    "REGEXP_REPLACE(a, r'a', 'b')": "bXbXb",
    "REGEXP_CONTAINS(s, r'b c')": True,
    "STRPOS(s, 'c')": 4,
    "STARTS_WITH(s, 'ab')": True,
    "CONTAINS_SUBSTR(s, 'AB')": True,
    "CONCAT(s, empty)": None,
    "s || empty": None,
    "LPAD(s, 6, 'x')": "xxab c",
    "TO_HEX(MD5(s))": hashlib.md5(b"ab c").hexdigest(),
    "s LIKE 'AB%'": False,
    "'a' < 'B'": False,
    "CAST(d AS STRING)": "2024-01-31",
    # Numbers and nulls.
    "LOG(f)": 0.9162907318741551,
    "LOG(8, 2)": 3.0,
    "DIV(i, 2)": -3,
    "MOD(i, 2)": -1,
    "i / 2": -3.5,
    "ROUND(g)": -3.0,
    "TRUNC(g)": -2.0,
    "GREATEST(i, n)": None,
    "LEAST(i, n)": None,
    "SAFE_DIVIDE(i, zero)": None,
    "IF(n = 1, 'a', 'b')": "b",
    "IFNULL(n, 5)": 5,
    "NULLIF(i, -7)": None,
    "n IN (1, NULL)": None,
    "SAFE_CAST(s AS INT64)": None,
}


@pytest.fixture(scope="module")
def connection() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect(":memory:") as opened:
        opened.execute("SET TimeZone = 'UTC'")
        opened.execute(f"CREATE TABLE t AS {ROW}")
        yield opened


def text_of(expression: str) -> str:
    (statement,) = parse(f"SELECT {expression} FROM t")
    return written(statement.expressions[0])


@pytest.mark.parametrize("expression", ANSWERS, ids=str)
def test_an_expression_means_what_it_means_in_bigquery(expression: str, connection: duckdb.DuckDBPyConnection) -> None:
    text = text_of(expression)
    read_expression(text)
    ((found,),) = connection.execute(f"SELECT {text} FROM t").fetchall()
    expected = ANSWERS[expression]
    assert found == (pytest.approx(expected) if isinstance(expected, float) else expected)
    assert (found is None) == (expected is None)


@pytest.mark.parametrize(
    "expression",
    [
        "REGEXP_EXTRACT(s, r'(a)(b)')",
        "REGEXP_EXTRACT(s, r'a', 2)",
        "REGEXP_EXTRACT(s, r'(')",
        "EXTRACT(WEEK(FRIDAY) FROM d)",
        r"s LIKE r'a\%'",
        r"s NOT LIKE 'a\\_'",
        "LAST_DAY(d, WEEK)",
        "LAST_DAY(d, YEAR)",
    ],
)
def test_what_has_no_rule_is_refused(expression: str) -> None:
    with pytest.raises(InvalidParameter):
        read_expression(text_of(expression))


def test_a_tree_is_left_as_it_was() -> None:
    (statement,) = parse("SELECT LENGTH(SUBSTR(s, 0)) FROM t")
    before = repr(statement)
    written(statement)
    assert repr(statement) == before
    assert isinstance(statement.expressions[0], exp.Length)
