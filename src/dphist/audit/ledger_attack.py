"""Attacks on a ledger: a budget spent twice by asking again, at the same time, or by editing the database."""

from __future__ import annotations

import sqlite3
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa

from dphist.audit.contributions import Outcome, withstood
from dphist.audit.trials import KEY, UNIT
from dphist.errors import DphistError
from dphist.ledger import DataSet, Ledger
from dphist.publish.run import release

Charge = Callable[[Path], bool]

_TABLE = pa.table({UNIT: np.arange(400), KEY: np.arange(400) % 4})
_NAME: Final = "people"


def charged(path: Path) -> bool:
    """One release for the whole budget; whether it was made."""
    try:
        release(_TABLE, unit=UNIT, by=KEY, epsilon=1.0, delta=1e-6, max_groups=1, ledger=str(path), dataset=_NAME)
    except DphistError:
        return False
    return True


def replay(charge: Charge = charged) -> Outcome:
    """A data set whose budget is that of one release, in a file that the attacker may edit with plain SQL."""
    problems: list[str] = []
    with tempfile.TemporaryDirectory() as name:
        for number, attack in enumerate((_again, _at_once, _deleted, _restored)):
            problems += attack(_fresh(Path(name) / f"{number}.db"), charge)
    return withstood(problems, "asking again, four at once, deleting what was spent, a backup put back")


def _fresh(path: Path) -> Path:
    with Ledger(str(path), create=True) as ledger:
        ledger.create(DataSet(_NAME, 1.0, 1e-6, UNIT, "basic"))
    return path


def _again(path: Path, charge: Charge) -> Iterator[str]:
    if not charge(path):
        yield "a ledger refuses a release that fits"
    if charge(path):
        yield "the same budget is spent twice, one after the other"


def _at_once(path: Path, charge: Charge) -> Iterator[str]:
    with ThreadPoolExecutor(4) as pool:
        made = sum(pool.map(lambda _: charge(path), range(4)))
    if made > 1:
        yield f"a budget for one release paid for {made} at the same time"


def _deleted(path: Path, charge: Charge) -> Iterator[str]:
    """Delete the newest row of every table: the database must refuse it, or the ledger must see it."""
    charge(path)
    with sqlite3.connect(path) as database:
        tables = [row[0] for row in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        for table in tables:
            try:
                database.execute(f'DELETE FROM "{table}" WHERE rowid = (SELECT max(rowid) FROM "{table}")')
            except sqlite3.Error:
                continue
    if charge(path) and _sound(path, None):
        yield "a spend that was deleted from the database is forgotten without a trace"


def _restored(path: Path, charge: Charge) -> Iterator[str]:
    """A backup put back forgets; the head of the chain, kept elsewhere, must show it."""
    backup = path.read_bytes()
    charge(path)
    with Ledger(str(path)) as ledger:
        head = ledger.export(_NAME)["head"]
    for beside in path.parent.glob(f"{path.name}-*"):
        beside.unlink()
    path.write_bytes(backup)
    if _sound(path, head):
        yield "a backup that was put back agrees with the head of a later chain"


def _sound(path: Path, head: str | None) -> bool:
    """Whether the ledger finds nothing wrong with itself."""
    try:
        with Ledger(str(path)) as ledger:
            return all(check.passed for check in ledger.verify(_NAME, head))
    except DphistError:
        return False
