"""Attacks on a ledger: a budget spent twice by asking again, at the same time, or by editing the database.

Everything goes through what users call; the ledger is loaded when it is there, so that this file stands by itself.
"""

from __future__ import annotations

import importlib
import importlib.util
import sqlite3
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa

from dphist.audit.contributions import Outcome, withstood
from dphist.audit.trials import KEY, UNIT
from dphist.errors import DphistError
from dphist.publish.release import release

AVAILABLE: Final = importlib.util.find_spec("dphist.ledger") is not None

_TABLE = pa.table({UNIT: np.arange(400), KEY: np.arange(400) % 4})
_NAME = "people"


def replay() -> Outcome:
    """A data set whose budget is that of one release, in a file that the attacker may edit with plain SQL."""
    problems: list[str] = []
    with tempfile.TemporaryDirectory() as name:
        for number, attack in enumerate((_again, _at_once, _deleted, _restored)):
            problems += attack(_fresh(Path(name) / f"{number}.db"))
    return withstood(problems, "asking again, four at once, deleting what was spent, a backup put back")


def _module() -> Any:
    return importlib.import_module("dphist.ledger")


def _fresh(path: Path) -> Path:
    with _module().Ledger(str(path), create=True) as ledger:
        ledger.create(_module().DataSet(_NAME, 1.0, 1e-6, UNIT, "basic"))
    return path


def _charged(path: Path) -> bool:
    """One release for the whole budget; whether it was made."""
    options: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-6, "max_groups": 1, "ledger": str(path), "dataset": _NAME}
    try:
        release(_TABLE, unit=UNIT, by=KEY, **options)
    except DphistError:
        return False
    return True


def _again(path: Path) -> Iterator[str]:
    if not _charged(path):
        yield "a ledger refuses a release that fits"
    if _charged(path):
        yield "the same budget is spent twice, one after the other"


def _at_once(path: Path) -> Iterator[str]:
    with ThreadPoolExecutor(4) as pool:
        made = sum(pool.map(lambda _: _charged(path), range(4)))
    if made > 1:
        yield f"a budget for one release paid for {made} at the same time"


def _deleted(path: Path) -> Iterator[str]:
    """Delete the newest row of every table: the database must refuse it, or the ledger must see it."""
    _charged(path)
    with sqlite3.connect(path) as database:
        tables = [row[0] for row in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        for table in tables:
            try:
                database.execute(f'DELETE FROM "{table}" WHERE rowid = (SELECT max(rowid) FROM "{table}")')  # noqa: S608
            except sqlite3.Error:
                continue
    if _charged(path) and _sound(path, None):
        yield "a spend that was deleted from the database is forgotten without a trace"


def _restored(path: Path) -> Iterator[str]:
    """A backup put back forgets; the head of the chain, kept elsewhere, must show it."""
    backup = path.read_bytes()
    _charged(path)
    with _module().Ledger(str(path)) as ledger:
        head = ledger.export(_NAME)["head"]
    for beside in path.parent.glob(f"{path.name}-*"):
        beside.unlink()
    path.write_bytes(backup)
    if _sound(path, head):
        yield "a backup that was put back agrees with the head of a later chain"


def _sound(path: Path, head: Any) -> bool:
    """Whether the ledger finds nothing wrong with itself."""
    try:
        with _module().Ledger(str(path)) as ledger:
            return all(check.passed for check in ledger.verify(_NAME, head))
    except DphistError:
        return False
