"""Statements that say one thing must not do another, and what is paid for is not lost."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dphist as dp
from command_line import dphist
from dphist.engines.query import PerformanceSettings
from dphist.run.record import total_of
from dphist.sql import outer

PEOPLE = pa.table(
    {
        "user_id": list(range(2_000)),
        "home": [row % 900 for row in range(2_000)],
        "url": [f"/{row % 3}" for row in range(2_000)],
        "s": [{"u": row, "home": row % 900} for row in range(2_000)],
    }
)
CLAUSE = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 1, delta = 1e-8"
COUNT = f"{CLAUSE}, max_groups_contributed = 1) url, COUNT(DISTINCT user_id) AS n FROM people GROUP BY url"


@pytest.fixture
def con() -> Any:
    return dp.connect({"people": PEOPLE, "more": PEOPLE}, unit="user_id")


@pytest.mark.parametrize(
    ("unit", "source"),
    [
        ("s.home", "people"),
        ("x.y", "people"),
        ("home", "people"),
        ("home", "people JOIN more ON people.user_id = more.user_id"),
        ("s.home", "people AS s2 JOIN more ON s2.user_id = more.user_id"),
    ],
)
def test_a_unit_of_options_that_is_not_that_of_the_tables_is_refused(unit: str, source: str, con: Any) -> None:
    with pytest.raises(dp.InvalidParameter, match="unit"):
        con.prepare(f"{CLAUSE}, privacy_unit_column = {unit}) COUNT(*) AS n FROM {source}")


@pytest.mark.parametrize("unit", ["user_id", "p.user_id", "USER_ID"])
def test_a_unit_of_options_that_is_that_of_the_tables_is_not(unit: str, con: Any) -> None:
    joined = "people AS p JOIN more ON p.user_id = more.user_id"
    for source in ("people AS p", joined):
        assert con.prepare(f"{CLAUSE}, privacy_unit_column = {unit}) COUNT(*) AS n FROM {source}").jobs


def test_a_field_is_a_unit_where_none_is_declared() -> None:
    con = dp.connect({"people": PEOPLE})
    (job,) = con.prepare(f"{CLAUSE}, privacy_unit_column = p.s.u) COUNT(*) AS n FROM people AS p").jobs
    assert job.selection.unit == '"s.u"="s"."u"'


@pytest.mark.parametrize("rest", ["COUNT(*) AS n FROM people WHERE person >= 0", "COUNT(person) AS n FROM people"])
def test_a_unit_with_a_name_of_its_own_can_be_named(rest: str) -> None:
    con = dp.connect({"people": PEOPLE}, unit={"people": "person=user_id"})
    (row,) = con.sql(f"{CLAUSE}) {rest}").table.to_pylist()
    assert abs(row["n"] - 2_000) < 500


def test_count_of_two_columns_is_refused(con: Any) -> None:
    with pytest.raises(dp.InvalidParameter, match="one column"):
        con.prepare(f"{CLAUSE}) COUNT(url, home) AS n FROM people")


@pytest.mark.parametrize("call", ["__internal_barrier(n)", "json_serialize_plan('SELECT 1')"])
def test_functions_of_the_engine_itself_are_refused_in_outer_queries(call: str, con: Any) -> None:
    with pytest.raises(dp.InvalidParameter, match="functions"):
        con.prepare(f"SELECT {call} FROM ({COUNT})")


@pytest.mark.parametrize(
    "call",
    ["getenv('HOME')", "current_setting('threads')", "getvariable('x')", "random()", "uuid()", "setseed(0.5)", "nextval('s')",
     "error('no')", "pg_typeof(n)", "now_is(n)"],
)  # fmt: skip
def test_functions_that_see_or_change_more_than_the_tables_are_refused_in_outer_queries(call: str, con: Any) -> None:
    with pytest.raises(dp.InvalidParameter, match=r"functions without side effects|GoogleSQL"):
        con.prepare(f"SELECT {call} AS x FROM ({COUNT})")


@pytest.mark.parametrize(
    ("call", "fits"),
    [
        ("repeat('x', 10000)", True),
        ("repeat('x', 10001)", False),
        ("lpad('x', 10001, 'y')", False),
        ("rpad('x', 100 * 100, 'y')", False),
        ("repeat('x', n)", False),
        ("repeat(repeat('x', 10000), 10000)", False),
        ("range(1000000)", True),
        ("range(1000001)", False),
        ("generate_series(1, 1000001)", False),
        ("list_resize([1], 10001)", False),
    ],
)
def test_nothing_grows_out_of_numbers_in_outer_queries(call: str, fits: bool, con: Any) -> None:
    """The engine computes constants while it only looks at a query: before anything is charged, and without any limit."""
    with nullcontext() if fits else pytest.raises(dp.InvalidParameter, match="with sizes of at most"):
        assert con.prepare(f"SELECT {call} AS x FROM ({COUNT})").jobs


def test_a_session_of_outer_queries_reads_no_file_and_takes_no_setting() -> None:
    """Whatever a query may hold that nobody thought of."""
    with outer._opened("SELECT 1", {}, [], lambda *_: None, PerformanceSettings(), rows=False) as connection:
        for sql, words in (
            ("SELECT * FROM read_text('/etc/hosts')", "disabled"),
            ("SET threads = 1", "locked"),
            ("SET enable_external_access = true", "locked|running"),
            ("COPY (SELECT 1) TO '/tmp/out.csv'", "disabled"),
        ):
            with pytest.raises(duckdb.Error, match=words):
                connection.execute(sql)


def test_the_sum_of_guarantees_is_rounded_up(con: Any) -> None:
    """Two of 0.33333322 are more than 0.666666, which six digits make of them."""
    one = COUNT.replace("epsilon = 1", "epsilon = 0.33333322")
    answer = con.sql(f"{one} UNION ALL {one}")
    assert answer.epsilon == 0.66666644
    assert "together epsilon 0.6667, delta 2e-08" in answer.metadata()["guarantee"]
    assert total_of([0.1] * 3) == 0.3


def test_what_is_paid_for_before_a_failure_is_in_the_error(con: Any) -> None:
    with pytest.raises(dp.InvalidParameter) as caught:
        con.sql(f"{COUNT}; SELECT CAST(url AS INT64) FROM ({COUNT})")
    assert len(caught.value.releases) == 2  # type: ignore[attr-defined]


def test_a_command_prints_what_is_paid_for_also_as_json(tmp_path: Path) -> None:
    pq.write_table(PEOPLE, tmp_path / "people.parquet")
    fails = f"{COUNT}; SELECT CAST(url AS INT64) FROM ({COUNT})"
    done = dphist("sql", fails, "--table", "people.parquet", "--unit", "user_id", "--json", cwd=tmp_path)
    assert done.returncode != 0
    assert done.stdout.count("/1") == 2
