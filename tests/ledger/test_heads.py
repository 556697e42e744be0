"""A ledger that was set back, exchanged or built anew: published files show it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dphist as dp
from command_line import dphist
from dphist.errors import BudgetExceeded, UnusableLedger
from dphist.ledger import DataSet, Ledger
from dphist.ledger.heads import check_heads, receipts_in


def run(*words: object, expect: int = 0) -> str:
    done = dphist(*map(str, words))
    assert done.returncode == expect, done.stdout + done.stderr
    return done.stdout + done.stderr


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    table = pa.table({"user": list(range(2000)), "item": ["a", "b"] * 1000})
    pq.write_table(table, tmp_path / "events.parquet")
    with Ledger(tmp_path / "ledger.db", create=True) as opened:
        opened.create(DataSet("people", 10.0, 1e-3, "user", "basic"))
    return tmp_path


def release(folder: Path, output: str, ledger: str = "ledger.db", expect: int = 0) -> str:
    return run(
        "release", folder / "events.parquet", "--unit", "user", "--by", "item", "--epsilon", "1", "--delta", "1e-6",
        "--max-groups", "1", "-o", folder / output, "--ledger", folder / ledger, "--dataset", "people", expect=expect,
    )  # fmt: skip


def verify(folder: Path, *against: str, ledger: str = "ledger.db", expect: int = 0) -> str:
    places = [word for name in against for word in ("--against", folder / name)]
    return run("ledger", "verify", "--ledger", folder / ledger, *places, expect=expect)


def test_the_head_is_told_and_kept_in_the_file(folder: Path) -> None:
    words = release(folder, "one.parquet")
    with Ledger(folder / "ledger.db") as opened:
        head = opened.entry("people", 1).hash
    assert f"Charged to 'people', entry 1, head {head}" in words
    assert json.loads((folder / "one.parquet.dphist.json").read_text())["ledger"]["hash"] == head
    assert "one.parquet: paid and intact (entry 1 of 'people' paid for it)" in verify(folder, "one.parquet")


@pytest.mark.parametrize("exchange", ["rollback", "another", "rebuilt"])
def test_a_ledger_that_forgot_a_release_is_told_and_not_charged(folder: Path, exchange: str) -> None:
    release(folder, "one.parquet")
    shutil.copy(folder / "ledger.db", folder / "old.db")
    release(folder, "two.csv")
    release(folder, "three.parquet")
    (folder / "elsewhere").mkdir()
    if exchange == "rollback":
        shutil.copy(folder / "old.db", folder / "ledger.db")
    else:
        (folder / "ledger.db").unlink()
        with Ledger(folder / "ledger.db", create=True) as opened:
            opened.create(DataSet("people", 10.0, 1e-3, "user", "basic"))
        if exchange == "rebuilt":  # as many entries as before, with other times
            for name in ("one", "two", "three"):
                release(folder, f"elsewhere/{name}.parquet")
    assert "FAIL" not in verify(folder)  # the chain by itself is in order
    words = verify(folder, "three.parquet", expect=1)
    assert "three.parquet: of another ledger (entry 5 of 'people' is another one, or missing)" in words
    assert "three.parquet: of another ledger" in verify(folder, ".", expect=1)
    with Ledger(folder / "ledger.db") as opened:
        before = len(opened.entries("people"))
    words = release(folder, "four.parquet", expect=2)
    assert "a ledger with entry 5 of 'people'" in words
    assert "Nothing was charged" in words
    assert not (folder / "four.parquet").exists()
    with Ledger(folder / "ledger.db") as opened:
        assert len(opened.entries("people")) == before
    release(folder, "elsewhere/four.parquet")


def test_every_way_to_charge_looks_beside_its_output(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copy(folder / "ledger.db", folder / "old.db")
    release(folder, "one.parquet")
    paid = ("--epsilon", "1", "--delta", "1e-6", "--ledger", folder / "old.db", "--dataset", "people", "--unit", "user")
    events = folder / "events.parquet"
    monkeypatch.chdir(folder)
    for command in (
        ("select", events, "--by", "item", "-o", folder / "keys.csv", *paid),
        ("top-k", events, "--by", "item", "--k", "1", *paid),
        ("session", "start", folder / "s.json", "--results", "5", "--queries", "2", *paid),
        ("continual", "start", folder / "stream", "--by", "item", "--rounds", "4", "--max-groups", "1", *paid),
        ("stat", "max", events, "--column", "user", "--lower", "0", "--upper", "2000", "--error", "1", *paid),
    ):
        assert "a ledger with entry 1 of 'people'" in run(*command, expect=2), command
    with Ledger(folder / "old.db") as opened:
        assert len(opened.entries("people")) == 1


def test_the_newest_entry_counts_and_what_is_no_metadata_names_nothing(folder: Path) -> None:
    release(folder, "one.parquet")
    release(folder, "two.parquet")
    for name, text in {"x": "{", "y": "[]", "z": '{"ledger": 7}', "w": '{"ledger": {"dataset": "people"}}'}.items():
        (folder / f"{name}.parquet.dphist.json").write_text(text)
    named = receipts_in([folder], "people")
    assert [(path.name, receipt.entry) for path, receipt in named] == [
        ("two.parquet.dphist.json", 3), ("one.parquet.dphist.json", 1)
    ]  # fmt: skip
    assert receipts_in([folder], "others") == receipts_in([folder / "nothing.csv"]) == []
    check_heads(folder / "ledger.db", "people", (folder / "three.parquet",))
    check_heads(None, None, (folder / "three.parquet",))
    with Ledger(folder / "new.db", create=True) as opened:
        opened.create(DataSet("people", 10.0, 1e-3, "user", "basic"))
    with pytest.raises(UnusableLedger):
        check_heads(folder / "new.db", "people", (folder / "three.parquet",))


def test_every_entry_is_looked_for_wherever_it_is_named(folder: Path) -> None:
    """Not the newest alone: after a rollback another folder may name newer ones, of the chain that goes on."""
    for name in ("a", "b"):
        (folder / name).mkdir()
    shutil.copy(folder / "ledger.db", folder / "old.db")
    release(folder, "a/lost.parquet")
    shutil.copy(folder / "old.db", folder / "ledger.db")
    release(folder, "b/one.parquet")
    release(folder, "b/two.parquet")
    assert "lost.parquet: of another ledger (entry 1" in verify(folder, "a", "b", expect=1)
    assert "FAIL" not in verify(folder, "b")
    (folder / "a" / "gone.csv.dphist.json").symlink_to("/nowhere/x")  # what cannot be read hides nothing
    assert "a ledger with entry 1" in release(folder, "a/two.parquet", expect=2)
    (folder / "a" / "lost.parquet.dphist.json").unlink()  # the metadata inside names it as well
    assert "lost.parquet: of another ledger (entry 1" in verify(folder, "a/lost.parquet", expect=1)
    assert "a ledger with entry 1" in release(folder, "a/two.parquet", expect=2)


def test_a_spent_session_raises_the_error_of_budgets(tmp_path: Path) -> None:
    session = dp.Session.start(tmp_path / "s.json", unit="user", epsilon=1, delta=1e-6, results=2, queries=1)
    table = pa.table({"user": list(range(200)), "item": ["a", "b"] * 100})
    with pytest.raises(BudgetExceeded, match="at most 2 results"):
        session.query(table, by="item", k=3)
    session.query(table, by="item", k=1)
    with pytest.raises(BudgetExceeded, match="one that is spent"):
        session.query(table, by="item", k=1)
