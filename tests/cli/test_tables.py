"""What commands print of a result: a table for the terminal it goes to, and who paid."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from command_line import dphist
from dphist.cli.output import at_most, paid, screen
from dphist.ledger.charge import Receipt
from dphist.show.text import Screen

BUDGET = ["--epsilon", "1", "--delta", "1e-6"]
LEDGER = ["--ledger", "ledger.db", "--dataset", "events"]


class Terminal(io.StringIO):
    """What says that it is one."""

    def isatty(self) -> bool:
        return True


def test_colour_and_width_are_for_terminals_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("NO_COLOR", "TERM"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("COLUMNS", "123")
    monkeypatch.setattr(sys, "stdout", io.StringIO())
    assert screen() == Screen(80, styled=False)
    monkeypatch.setattr(sys, "stdout", Terminal())
    assert screen() == Screen(123, styled=True)
    monkeypatch.setenv("NO_COLOR", "1")
    assert screen() == Screen(123, styled=False)
    monkeypatch.delenv("NO_COLOR")
    monkeypatch.setenv("TERM", "dumb")
    assert screen() == Screen(123, styled=False)


@pytest.mark.parametrize(("accountant", "left"), [("basic", "ε 19 of 20 and δ 1.392e-06 of 2e-06"), ("gdp", "mu^2 ")])
def test_a_release_says_what_it_spent_and_what_is_left(accountant: str, left: str, tmp_path: Path) -> None:
    users = list(range(900))
    pq.write_table(pa.table({"user": users, "item": [f"item {n % 2}" for n in users]}), tmp_path / "e.parquet")
    total = ["--epsilon", "20", "--delta", "2e-6", "--unit", "user", "--accountant", accountant]
    assert dphist("ledger", "create", *LEDGER, *total, cwd=tmp_path).returncode == 0
    columns = ["--unit", "user", "--by", "item", "--max-groups", "1"]
    done = dphist("release", "e.parquet", *columns, *BUDGET, *LEDGER, "-o", "o.csv", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0].split() == ["item", "count"]
    assert set(lines[1].strip()) == {"─"}
    assert [line.split()[:2] for line in lines[2:4]] in ([["item", "0"], ["item", "1"]], [["item", "1"], ["item", "0"]])
    (spent,) = [line for line in lines if line.startswith("Spent")]
    assert spent.startswith(f"Spent at most ε = 1, δ = 1e-06; {left}")
    assert spent.endswith("left of 'events' in ledger.db.")
    assert any(line.startswith("Guarantee: adding or removing") for line in lines)
    assert "Table written to o.csv" in lines
    history = dphist("ledger", "history", *LEDGER, cwd=tmp_path).stdout.splitlines()
    assert history[0].split() == ["entry", "time", "kind", "what"]
    assert [line.split()[0] for line in history[2:] if line[:7].strip()] == ["0", "1", "2"]
    assert all(len(line) <= 80 for line in history)


def test_a_ledger_that_cannot_tell_leaves_a_result_as_it_is(tmp_path: Path) -> None:
    receipt = Receipt("events", 3, "0" * 64)
    told = paid(at_most(1.0, 1e-8), tmp_path / "gone.db", receipt).splitlines()
    assert told == ["Spent at most ε = 1, δ = 1e-08.", str(receipt)]


def test_a_password_in_an_address_is_not_shown(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert (
        dphist("ledger", "create", *LEDGER, *BUDGET, "--unit", "user", "--accountant", "basic", cwd=tmp_path).returncode
        == 0
    )
    told = paid(at_most(1.0, 1e-6), f"sqlite:///{tmp_path}/ledger.db", Receipt("events", 1, "0" * 64))
    assert told.splitlines()[0].endswith("left of 'events' in the ledger.")
    assert str(tmp_path) not in told
