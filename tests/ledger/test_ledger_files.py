"""A ledger as a file: what is charged is in the file itself, and the file has one name."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from contextlib import closing
from pathlib import Path

import pytest

from dphist.errors import BudgetExceeded, UnusableLedger
from dphist.ledger import DataSet, Entry, Ledger
from dphist.ledger.database import Database
from dphist.privacy.composition import of_pure

MOST = of_pure(0.9)

CHARGE_AND_DIE = """
import os, signal, sys
from dphist.ledger import Ledger
from dphist.privacy.composition import of_pure
Ledger(sys.argv[1]).reserve("d", of_pure(0.9), unit="u", command="x", facts={})
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A ledger with one data set."""
    made = tmp_path / "ledger.db"
    with Ledger(made, create=True) as opened:
        opened.create(DataSet("d", 1.0, 1e-6, "u", "basic"))
    return made


def spend(opened: Ledger) -> Entry:
    return opened.reserve("d", MOST, unit="u", command="x", facts={})


def refuses_more(path: Path) -> None:
    with Ledger(path) as opened:
        assert len(opened.status("d").spends) == 1
        with pytest.raises(BudgetExceeded):
            spend(opened)


def test_a_charge_survives_a_kill_and_a_move_of_the_file_alone(path: Path, tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", CHARGE_AND_DIE, str(path)])
    assert done.returncode == -9
    moved = tmp_path / "elsewhere" / "ledger.db"
    moved.parent.mkdir()
    path.rename(moved)
    refuses_more(moved)


def test_a_copy_that_is_made_while_the_ledger_is_open_has_every_charge(path: Path, tmp_path: Path) -> None:
    with Ledger(path) as opened:
        spend(opened)
        shutil.copy(path, tmp_path / "copy.db")
    refuses_more(tmp_path / "copy.db")


def with_log(path: Path) -> sqlite3.Connection:
    """As older versions left it: a write-ahead log that holds changes which the file does not have."""
    connection = sqlite3.connect(path, isolation_level=None, timeout=0.1)
    assert connection.execute("PRAGMA journal_mode=WAL").fetchone() == ("wal",)
    connection.execute("PRAGMA wal_autocheckpoint=0")
    connection.execute("UPDATE dphist_schema SET version = version")
    return connection


def test_a_log_is_turned_into_the_file_when_the_ledger_is_opened(path: Path) -> None:
    made = "import os, sqlite3, sys; c = sqlite3.connect(sys.argv[1], isolation_level=None)\n"
    made += "c.execute('PRAGMA journal_mode=WAL'); c.execute('PRAGMA user_version=5'); os._exit(0)"
    subprocess.run([sys.executable, "-c", made, str(path)], check=True)
    assert Path(f"{path}-wal").stat().st_size > 0
    with Ledger(path) as opened:
        assert opened.names() == ["d"]
        assert not Path(f"{path}-wal").exists()
        spend(opened)
    with sqlite3.connect(path) as connection:
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("delete",)
        assert connection.execute("PRAGMA user_version").fetchone() == (5,)
    connection.close()
    refuses_more(path)


def test_nothing_is_charged_into_a_log(path: Path) -> None:
    with Ledger(path) as opened:
        assert opened.names() == ["d"]
        other = with_log(path)
        with pytest.raises(UnusableLedger, match=r"the journal mode delete, got wal.*nothing was charged"):
            spend(opened)
        other.close()
    with Ledger(path) as opened:
        assert spend(opened).sequence == 1


def test_a_charge_is_synchronised_with_the_folder_too(path: Path) -> None:
    with closing(Database(path)) as opened, opened.write("d") as connection:
        assert connection.exec_driver_sql("PRAGMA synchronous").scalar() == 3
        assert connection.exec_driver_sql("PRAGMA journal_mode").scalar() == "delete"


def test_a_second_name_of_the_file_is_refused(path: Path, tmp_path: Path) -> None:
    second = tmp_path / "second.db"
    with Ledger(path) as opened:
        opened.check("d", MOST, unit="u")
        os.link(path, second)
        with pytest.raises(UnusableLedger, match=r"a second \(a hard link\)"):
            spend(opened)
        for name in (path, second):
            for create in (False, True):
                with pytest.raises(UnusableLedger, match=r"a second \(a hard link\)"):
                    Ledger(name, create=create)
        second.unlink()
        assert spend(opened).sequence == 1


def test_a_symbolic_link_is_the_file_it_points_to(path: Path, tmp_path: Path) -> None:
    (tmp_path / "link.db").symlink_to(path)
    with Ledger(tmp_path / "link.db") as opened:
        assert repr(opened) == f"Ledger({str(path.resolve())!r})"
        spend(opened)
    refuses_more(path)


def test_a_file_that_was_replaced_under_an_open_ledger_is_not_charged(path: Path, tmp_path: Path) -> None:
    with Ledger(path) as opened:
        opened.check("d", MOST, unit="u")
        shutil.copy(path, tmp_path / "copy.db")
        (tmp_path / "copy.db").replace(path)
        with pytest.raises(UnusableLedger, match="nothing was charged"):
            spend(opened)
        path.unlink()
        with pytest.raises(UnusableLedger, match="nothing was charged"):
            spend(opened)


def test_options_of_sqlite_are_refused(path: Path) -> None:
    """nolock=1 and other file systems of SQLite would let two take the last of the budget."""
    for address in (
        f"sqlite:///file:{path}?nolock=1&uri=true",
        f"sqlite:///file:{path}?vfs=unix-none&uri=true",
        f"sqlite:///{path}?nolock=1&uri=true",
        f"sqlite:///{path}?timeout=1",
        f"file:{path}",
    ):
        with pytest.raises(UnusableLedger, match="a plain path"):
            Ledger(address)
    assert Ledger(f"sqlite:///{path}").names() == ["d"]


def test_a_read_only_file_can_be_read_and_not_charged() -> None:
    """As another user, since the file system does not hold root back."""
    with tempfile.TemporaryDirectory(dir="/tmp") as name:
        path = Path(name) / "ledger.db"
        with Ledger(path, create=True) as opened:
            opened.create(DataSet("d", 1.0, 1e-6, "u", "basic"))
            spend(opened)
        path.chmod(0o444)
        path.parent.chmod(0o555)
        if (child := os.fork()) == 0:
            code = 1
            try:
                if os.getuid() == 0:
                    os.setuid(65534)
                with Ledger(path) as opened:
                    with pytest.raises(UnusableLedger, match="nothing was charged: it cannot be written to"):
                        opened.reserve("d", of_pure(0.01), unit="u", command="x", facts={})
                    assert len(opened.status("d").spends) == 1
                    assert all(check.passed for check in opened.verify("d"))
                code = 0
            finally:
                os._exit(code)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        path.parent.chmod(0o755)
