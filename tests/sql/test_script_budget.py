"""Several private SELECTs of one script: shares of one budget, and what is told of all charges when one fails."""

from __future__ import annotations

import math
from fractions import Fraction
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_tables import plans_made_once

import dphist as dp
from dphist.files.interruption import account
from dphist.ledger import DataSet, Ledger
from dphist.privacy.composition import of_pure
from dphist.run.job import Work
from dphist.sql.connection import _share

EVENTS = pa.table({"user": list(range(300)), "item": ["a", "b", "c"] * 100})
COUNT = (
    "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(max_groups_contributed = 1)"
    " item, COUNT(DISTINCT user) AS people FROM events GROUP BY item"
)


def decimal(value: float) -> Fraction:
    """A number as it is written, which is how budgets are kept."""
    return Fraction(repr(value))


@given(
    st.floats(1e-300, 1e3),
    st.lists(st.floats(0, 1), max_size=3).map(lambda parts: [part / 4 for part in parts]),
    st.integers(1, 100),
)
def test_equal_shares_are_the_largest_that_fit(whole: float, parts: list[float], open_parts: int) -> None:
    given_parts = [part * whole for part in parts]
    share = _share(whole, given_parts, open_parts)
    spent = sum(map(decimal, given_parts))
    assert spent + open_parts * decimal(share) <= decimal(whole)
    assert spent + open_parts * decimal(math.nextafter(math.nextafter(share, math.inf), math.inf)) > decimal(whole)


@pytest.mark.parametrize("whole", [(1.0, 1e-8), (0.1, 1e-6), (3.0, 1e-8), (1e-6, 0.1), (0.7, 3e-7)])
def test_equal_shares_fit_a_ledger_of_exactly_the_whole(whole: tuple[float, float]) -> None:
    """One to a hundred of them, and nothing of the budget is left."""
    budget = DataSet("d", *whole, "user", "basic")
    for number in range(1, 101):
        share = of_pure(*(_share(part, [], number) for part in whole))
        assert budget.amount(share).times(number).within(budget.limit)
        assert number * share.epsilon >= whole[0] * (1 - 1e-9)
        assert number * share.delta >= whole[1] * (1 - 1e-9)


@pytest.mark.parametrize(("number", "groups", "whole"), [(3, "NULL", (1.0, 1e-8)), (9, "1", (0.1, 1e-6))])
def test_a_script_of_equal_shares_runs_on_exactly_the_whole(
    number: int, groups: str, whole: tuple[float, float], tmp_path: Path
) -> None:
    """What plans cost is what they were given, so that the whole script is charged."""
    with Ledger(tmp_path / "l.db", create=True) as opened:
        opened.create(DataSet("d", *whole, "user", "basic"))
    budget = {"epsilon": whole[0], "delta": whole[1], "ledger": tmp_path / "l.db", "dataset": "d"}
    con = dp.connect({"events": EVENTS}, unit="user", **budget)  # type: ignore[arg-type]
    with plans_made_once():
        con.prepare("; ".join([COUNT.replace("= 1", f"= {groups}")] * number)).check()


def test_one_select_gets_the_whole_budget() -> None:
    script = dp.connect({"events": EVENTS}, unit="user", epsilon=1, delta=1e-6).prepare(COUNT)
    assert [(job.plan.request.epsilon, job.plan.request.delta) for job in script.jobs] == [(1.0, 1e-6)]


@pytest.mark.parametrize("problem", [KeyboardInterrupt, OSError])
def test_a_script_that_fails_tells_every_charge(
    problem: type[BaseException], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A signal that ends the process asks `account`; an error says it itself."""
    with Ledger(tmp_path / "l.db", create=True) as opened:
        opened.create(DataSet("people", 5.0, 1e-3, "user", "basic"))
    connection = dp.connect(
        {"events": EVENTS}, unit="user", epsilon=1, delta=1e-6, ledger=tmp_path / "l.db", dataset="people"
    )
    calls = []
    counted = Work.published

    def fail_the_second(*given: object, **named: object) -> object:
        calls.append(account())
        if len(calls) == 2:
            raise problem
        return counted(*given, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(Work, "published", fail_the_second)
    with pytest.raises((KeyboardInterrupt, dp.DphistError)) as caught:
        connection.script(f"{COUNT}; {COUNT}; {COUNT}")
    assert "entry 1" in calls[0]
    for words in (calls[1], str(caught.value)):
        assert "entry 1" in words
        assert "entry 2" in words
        assert "entry 3" not in words
    with Ledger(tmp_path / "l.db") as opened:
        assert len([entry for entry in opened.entries("people") if entry.kind == "reserve"]) == 2
