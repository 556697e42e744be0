"""`dp.Session` and `dphist session`: pays for what it returns, refuses when spent, survives restarts and crashes."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

import dphist as dp
from command_line import examples_of
from dphist.cli.app import app
from dphist.cli.lists import session as sessions
from dphist.errors import BudgetExceeded, InvalidParameter
from dphist.files.locks import locked
from dphist.mechanisms import Ranked
from dphist.run.session import Account
from dphist.words import hash_of

EVENTS = pa.table({"user": list(range(6000)) * 2, "page": ["a", "b", "c"] * 2000 + ["d", None] * 3000})


def started(path: Path, results: int = 12, queries: int = 3) -> dp.Session:
    return dp.Session.start(path, unit="user", epsilon=4.0, delta=1e-6, results=results, queries=queries, shortlist=20)


def test_a_query_pays_for_what_it_returns(tmp_path: Path) -> None:
    session = started(tmp_path / "s.json")
    table, complete = session.query(EVENTS, by="page", k=2)
    assert complete
    assert table.column_names == ["rank", "page"]
    assert sorted(table["page"].to_pylist(), key=str) == [None, "d"]
    assert (session.account.left_results, session.account.left_queries) == (10, 2)
    table, complete = dp.Session(tmp_path / "s.json").query(EVENTS, by="page", k=9)  # a restart in between
    assert (table.num_rows, complete) == (5, False)
    assert (session.account.left_results, session.account.left_queries) == (4, 1)  # five groups and the end
    assert (tmp_path / "s.json").stat().st_mode & 0o777 == 0o600


def test_a_spent_session_refuses(tmp_path: Path) -> None:
    session = started(tmp_path / "s.json", results=3, queries=2)
    with pytest.raises(BudgetExceeded, match="at most 3 results"):
        session.query(EVENTS, by="page", k=4)
    session.query(EVENTS, by="page", k=1)
    session.query(EVENTS, by="page", k=1)
    with pytest.raises(BudgetExceeded, match="budget left"):
        session.query(EVENTS, by="page", k=1)
    full = started(tmp_path / "t.json", results=1, queries=5)
    full.query(EVENTS, by="page", k=1)
    with pytest.raises(BudgetExceeded, match="budget left"):
        full.query(EVENTS, by="page", k=1)


def test_a_refused_query_costs_nothing(tmp_path: Path) -> None:
    session = started(tmp_path / "s.json")
    for wrong in ("pagee", "rank=page"):
        with pytest.raises(InvalidParameter):
            session.query(EVENTS, by=wrong, k=2)
    assert session.account.used_queries == 0


def test_a_reservation_that_nobody_settled_stays_spent() -> None:
    account = Account("user", 1.0, 1e-6, Ranked(10, 5, 0.1, 50, queries=4))
    lost = account.reserve(4)
    assert (lost.left_results, lost.left_queries) == (6, 3)
    after = lost.reserve(3).settle(2)
    assert (after.used_results, after.left_results, after.left_queries) == (6, 4, 2)
    with pytest.raises(BudgetExceeded, match="at most 6"):
        lost.reserve(7)


def test_a_crash_between_reservation_and_answer_is_charged(tmp_path: Path) -> None:
    started(tmp_path / "s.json")
    pq.write_table(EVENTS, tmp_path / "events.parquet")
    code = (
        "import os, dphist as dp\n"
        "from dphist.mechanisms.ranked import Ranked\n"
        "Ranked.choose = lambda *a: os._exit(9)\n"
        "dp.Session('s.json').query('events.parquet', by='page', k=5)\n"
    )
    assert subprocess.run([sys.executable, "-c", code], cwd=tmp_path, check=False).returncode == 9
    account = dp.Session(tmp_path / "s.json").account
    assert (account.left_results, account.left_queries) == (7, 2)


def test_sessions_are_never_overwritten_or_shared(tmp_path: Path) -> None:
    session = started(tmp_path / "s.json")
    with pytest.raises(InvalidParameter, match="never overwritten"):
        started(tmp_path / "s.json")
    with locked(tmp_path / "s.json"), pytest.raises(InvalidParameter, match="another process"):
        session.query(EVENTS, by="page", k=1)


def test_damaged_and_foreign_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidParameter, match="session start"):
        dp.Session(tmp_path / "none.json")
    path = tmp_path / "s.json"
    started(path)
    good = json.loads(path.read_text())
    changes: list[dict[str, object]] = [{"format": "x"}, {"version": 1}, {"version": 3}, {"account": {}}]
    for change in changes:
        path.write_text(json.dumps({**good, **change}))
        told = r"version [13]" if "version" in change else r"as dphist wrote it|a valid digest"
        with pytest.raises(InvalidParameter, match=told):
            dp.Session(path)
        path.write_text(sealed({**good, **change}))
        with pytest.raises(InvalidParameter, match=r"s\.json"):
            dp.Session(path)
    good["account"]["mechanism"]["threshold"] = 2
    path.write_text(sealed(good))
    with pytest.raises(InvalidParameter, match="guarantee holds"):
        dp.Session(path)


def sealed(record: dict[str, Any]) -> str:
    """The text of a session by somebody who computes the digest anew."""
    plain = {name: value for name, value in record.items() if name != "digest"}
    return json.dumps({**plain, "digest": hash_of(plain)}, indent=2) + "\n"


@pytest.mark.parametrize(
    "options",
    [{"results": 0}, {"queries": 0}, {"shortlist": 0}, {"epsilon": 0}, {"delta": 2}, {"unit": ""},
     {"neighbours": "substitution"}],
)  # fmt: skip
def test_impossible_sessions_are_refused(tmp_path: Path, options: dict[str, object]) -> None:
    given = {"unit": "user", "epsilon": 1.0, "delta": 1e-6, "results": 3, "queries": 2} | options
    with pytest.raises(InvalidParameter, match=r"^Expected "):
        dp.Session.start(tmp_path / "s.json", **given)  # type: ignore[arg-type]
    with pytest.raises(InvalidParameter, match="existing folder"):
        started(tmp_path / "no" / "s.json")


def test_every_command_has_an_example_that_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pq.write_table(pa.table({"user_id": range(500), "url": ["a"] * 500}), tmp_path / "events.parquet")
    monkeypatch.chdir(tmp_path)
    shown = ""
    for command in sessions.commands.values():
        (example,) = examples_of(command)
        for extra in [[]] if command.name == "start" else [[], ["--json"]]:
            done = CliRunner().invoke(app, [*example.split()[1:], *extra])
            assert done.exit_code == 0, done.output
            shown = done.output
    assert json.loads(shown)["queries_left"] == 8
