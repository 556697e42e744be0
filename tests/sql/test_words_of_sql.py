"""Refusals of statements speak of statements: no option of another command, no form of its values."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from test_refused import refusals

import dphist as dp
from dphist.ledger import DataSet, Ledger
from dphist.sql.options import in_words_of_sql

ROWS = pa.table(
    {"id": [n % 500 for n in range(1_500)], "item": [f"i{n % 3}" for n in range(1_500)], "x": list(range(1_500))}
)
PRIVATE = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS({}) "
OWN_FLAGS = {"--table", "--unit", "--public", "--epsilon", "--delta", "--ledger", "--dataset", "--type", "--no-header"}


def foreign_words(message: str) -> list[str]:
    """What belongs to `dphist release`, or to Python."""
    flags = [flag for flag in re.findall(r"(?<![\w-])--[a-z][a-z-]*", message) if flag not in OWN_FLAGS]
    return flags + re.findall(r"\b\w+:[\d.]+:[\d.]+|\bmax_groups\b|\blow_threshold\b|\bsums?=", message)


def refused(con: dp.Connection, statement: str) -> str:
    with pytest.raises(dp.InvalidParameter) as caught:
        con.prepare(statement).check()
    return str(caught.value)


def test_no_message_of_the_table_has_an_option_of_a_release() -> None:
    assert {one.what: foreign_words(one.message) for one in refusals() if foreign_words(one.message)} == {}


@pytest.mark.parametrize(
    ("options", "rest", "told"),
    [
        ("epsilon = 1, delta = 1e-8", "COUNT(DISTINCT x) AS n", "write max_groups_contributed = 10, say"),
        ("epsilon = 0.01, delta = 1e-3, min_privacy_units_per_group = 5", "SUM(x) AS n", "raise epsilon"),
        ("epsilon = 1, delta = 0, max_groups_contributed = 2", "COUNT(DISTINCT id) AS n", "delta"),
    ],
)  # fmt: skip
def test_a_plan_that_is_refused_is_in_the_words_of_the_statement(options: str, rest: str, told: str) -> None:
    con = dp.connect(tables={"t": ROWS}, unit="id")
    words = refused(con, f"{PRIVATE.format(options)} item, {rest} FROM t GROUP BY item")
    assert foreign_words(words) == []
    assert told in words


def test_what_a_statement_cannot_say_is_left_out() -> None:
    hint = "raise epsilon, or lower --records or how far weights are apart; use narrower bounds or fewer --records."
    words = str(in_words_of_sql(dp.InvalidParameter("max_groups = 3", "more", hint)))
    assert words.endswith("raise epsilon, or lower how far weights are apart; use narrower bounds.")
    assert foreign_words(words) == []


def test_a_budget_that_is_too_small_is_in_the_words_of_the_statement(tmp_path: Path) -> None:
    with Ledger(tmp_path / "l.db", create=True) as opened:
        opened.create(DataSet("d", 0.5, 1e-6, "id", "basic"))
    con = dp.connect(tables={"t": ROWS}, unit="id", ledger=tmp_path / "l.db", dataset="d")
    counted = "item, COUNT(DISTINCT id) AS n FROM t GROUP BY item"
    words = refused(con, PRIVATE.format("epsilon = 1, delta = 1e-8, max_groups_contributed = 8") + counted)
    assert foreign_words(words) == []
    assert "max_groups_contributed = " in words
    words = refused(con, PRIVATE.format("epsilon = 2, delta = 1e-8") + counted)
    assert foreign_words(words) == []


@pytest.mark.parametrize(("epsilon", "units"), [(0.5, 2), (1, 5), (3, 50)])
def test_small_groups_can_be_hidden_without_a_bound_on_groups(epsilon: float, units: int) -> None:
    """Whatever is asked for: also where quantiles would have been found in rounds, which know no such bound."""
    con = dp.connect(tables={"t": ROWS}, unit="id")
    options = f"epsilon = {epsilon}, delta = 1e-8, min_privacy_units_per_group = {units}"
    asked = ("AVG(x, contribution_bounds_per_group => (0, 9)) AS m", "PERCENTILE_CONT(x, 0.5) AS p")
    for rest in (*asked, ", ".join(asked)):
        (job,) = con.prepare(f"{PRIVATE.format(options)} item, {rest} FROM t GROUP BY item").jobs
        assert {mechanism.low_threshold for mechanism in job.plan.branches} == {units}


def test_hidden_groups_have_quantiles() -> None:
    con = dp.connect(tables={"t": ROWS}, unit="id")
    options = "epsilon = 3, delta = 1e-6, min_privacy_units_per_group = 5"
    half = "PERCENTILE_CONT(x, 0.5, contribution_bounds_per_row => (0, 1500)) AS half"
    answer = con.sql(f"{PRIVATE.format(options)} item, {half} FROM t GROUP BY item")
    assert sorted(answer.table.column("item").to_pylist()) == ["i0", "i1", "i2"]


@pytest.mark.parametrize(("listed", "most"), [(1, 1), (1, 3), (2, 3), (5, 5), (5, 3)])
def test_nobody_is_in_more_groups_than_a_public_list_has(listed: int, most: int, tmp_path: Path) -> None:
    keys = pa.table({"item": [f"i{number}" for number in range(listed)]})
    pq.write_table(ROWS, tmp_path / "t.parquet")
    pq.write_table(keys, tmp_path / "KEYS.parquet")
    con = dp.connect(tables={"t": tmp_path / "t.parquet", "keys": dp.public(keys)}, unit="id")
    options = f"epsilon = 1, delta = 1e-8, max_groups_contributed = {most}, group_selection_strategy = PUBLIC_GROUPS"
    rows = "t RIGHT JOIN (SELECT DISTINCT item FROM keys) AS k ON t.item = k.item"
    script = con.prepare(f"{PRIVATE.format(options)} k.item, COUNT(DISTINCT id) AS n FROM {rows} GROUP BY k.item")
    assert script.jobs[0].plan.request.max_groups == min(most, listed)
    command = shlex.split(script.explain().partition("command:\n")[2].partition("\n\n")[0].partition("#")[0])
    assert command[command.index("--max-groups") + 1] == str(min(most, listed))
