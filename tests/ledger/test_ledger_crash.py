"""Kill -9 while eight processes charge: never below the truth, never above the budget, nothing broken, nobody stuck."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import sqlalchemy as sa

from dphist.ledger import DataSet, Ledger
from dphist.ledger.database import parse_address

SCRIPT = Path(__file__).with_name("crash_charges.py")
COST = 2.0**-13


def run(address: str, folder: Path, kills: int, charges: int) -> None:
    with Ledger(address, create=True) as opened:
        opened.create(DataSet("events", charges * COST, 1e-6, "user", "basic"))
    truth = folder / "truth"
    command = [sys.executable, str(SCRIPT), address, str(truth), str(kills), "7"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)  # a deadlock ends here
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["killed"] == kills, "they were charging when they were killed"
    assert told["codes"] == [0] * 8, done.stderr
    drawn = [int(line) for line in truth.read_text().split()]
    assert len(set(drawn)) == len(drawn)
    with Ledger(address) as opened:
        status = opened.status("events")
        spends = {entry.sequence for entry in status.spends}
        assert set(drawn) <= spends, "what may have been released is recorded"
        assert len(spends) == charges, "all of the budget and nothing more"
        assert status.total.within(status.dataset.limit)
        assert all(check.passed for check in opened.verify("events"))
        lost = len(status.unconfirmed)
        assert lost <= kills
    if not address.startswith("postgresql"):
        engine = sa.create_engine(parse_address(address, create=False))
        with engine.connect() as connection:
            assert connection.exec_driver_sql("PRAGMA integrity_check").scalar() == "ok"
        engine.dispose()


def test_two_kills(address: str, tmp_path: Path) -> None:
    run(address, tmp_path, kills=2, charges=28)


@pytest.mark.crash
def test_two_hundred_kills(address: str, tmp_path: Path) -> None:
    run(address, tmp_path, kills=200, charges=2000)
