"""The shell of `dphist sql`: what is typed, by keys through a pipe, and once as a person meets it, on a real terminal."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import signal
import stat
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from prompt_toolkit.history import History, InMemoryHistory
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.output import DummyOutput

import dphist as dp
from dphist.cli.shell import Shell, history_file, is_done, open_history
from dphist.ledger import DataSet, Ledger
from dphist.sql.suggestions import Suggestions

PEOPLE = 600
COUNT = (
    "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 1, delta = 1e-6, max_groups_contributed = 1)\n"
    "item, COUNT(DISTINCT user) AS people FROM events GROUP BY item;"
)
LEDGER = {"ledger": "ledger.db", "dataset": "people"}
INTERRUPT, LEAVE, ENTER = "\x03", "\x04", "\r"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    users = list(range(PEOPLE))
    pq.write_table(pa.table({"user": users, "item": [f"item {n % 3}" for n in users]}), "events.parquet")
    Path("items.csv").write_text("item,the price\nitem 0,5\n")
    with Ledger("ledger.db", create=True) as opened:
        opened.create(DataSet("people", 3.0, 1e-4, "user", "basic"))
    return tmp_path


def connect(*, paid: bool = False) -> dp.Connection:
    tables = {"events": "events.parquet", "items": dp.public("items.csv")}
    return dp.connect(tables=tables, unit="user", **(LEDGER if paid else {}))  # type: ignore[arg-type]


def entries() -> int:
    with Ledger("ledger.db") as opened:
        return sum(entry.kind == "reserve" for entry in opened.entries("people"))


class Typed:
    """A shell that gets some keys, and what it printed."""

    def __init__(
        self, keys: str, capsys: pytest.CaptureFixture[str], history: History | None = None, *, paid: bool = False
    ) -> None:
        self.history = history or InMemoryHistory()
        ledger = LEDGER if paid else {}
        with create_pipe_input() as pipe:
            pipe.send_text(keys + LEAVE)
            Shell(connect(paid=paid), history=self.history, input=pipe, output=DummyOutput(), **ledger).run()  # type: ignore[arg-type]
        self.out, self.err = capsys.readouterr()


def as_keys(text: str) -> str:
    return text.replace("\n", ENTER) + ENTER


def test_a_statement_ends_with_its_semicolon_and_says_what_it_spent(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    typed = Typed(as_keys(COUNT), capsys, paid=True)
    assert typed.err == ""
    lines = typed.out.splitlines()
    assert lines[0].split() == ["item", "people"]
    assert all("±" in line for line in lines[2:5])
    assert "Guarantee: adding or removing all records of one unit" in typed.out
    assert "Spent at most ε = 1, δ = 1e-06; ε 2 of 3" in typed.out
    assert entries() == 1


@pytest.mark.parametrize(
    ("text", "done"),
    [
        ("", True), ("SELECT 1", False), ("SELECT 1;", True), ("SELECT ';", False), ("SELECT ';';", True),
        ("SELECT 1 -- ;", False), ("SELECT 1; -- done", True), ("SELECT 1 /* ;", False), ("SELECT `a;", False),
        ('SELECT "a;', False), ("SELECT '''a';", False), ("SELECT 1; SELECT 2", False), (".tables", True), ("\\q", True),
        ("quit", True), ("exit", True), ("HELP", True), (".explain SELECT 1", False), (".explain SELECT 1;", True),
        (".explain", False), ("select", False),
    ],
)  # fmt: skip
def test_enter_ends_commands_and_whole_statements(text: str, done: bool) -> None:
    assert is_done(text) is done


def test_errors_show_the_place_spend_nothing_and_do_not_end_the_shell(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    clause = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 1, delta = 1e-6)"
    wrong = f"{clause}\nitem, COUNT(nothing) FROM events GROUP BY item;"
    typed = Typed(
        as_keys(wrong) + as_keys(".schema item") + as_keys(".nonsense") + as_keys(".tables"), capsys, paid=True
    )
    lines = typed.err.splitlines()
    assert lines[0].startswith("Expected ")
    assert lines[1].strip().startswith("line 2, column 13")
    assert lines[2].strip() == "item, COUNT(nothing) FROM events GROUP BY item;"
    assert lines[3].index("^") == 2 + 12
    assert "Expected a table, got 'item'. Hint: did you mean 'items'?" in typed.err
    assert "Expected a command of the shell, got '.nonsense'." in typed.err
    assert [line.split() for line in typed.out.splitlines()[2:]] == [
        ["events", "user", "events.parquet"],
        ["items", "public", "items.csv"],
    ]
    assert entries() == 0


def test_commands(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    keys = [
        ".budget",
        ".schema `ITEMS`",
        ".write out.csv",
        COUNT,
        ".budget",
        ".write out.csv",
        ".write out.html",
        "help",
    ]
    typed = Typed("".join(map(as_keys, keys)), capsys, paid=True)
    assert (
        "Spent here: at most ε = 0, δ = 0.\nε 3 of 3 and δ 0.0001 of 0.0001 left of 'people' in ledger.db." in typed.out
    )
    assert "Spent here: at most ε = 1, δ = 1e-06.\nε 2 of 3" in typed.out
    assert "  item\n  the price\n" in typed.out
    assert "Expected an answer to write, got none yet." in typed.err
    assert len(Path("out.csv").read_text().splitlines()) == 4
    assert Path("out.html").read_text().lower().startswith("<!doctype html>")
    assert all(name in typed.out for name in (".tables", ".schema TABLE", ".quit"))
    without = Typed(as_keys(".budget"), capsys)
    assert "There is no ledger" in without.out


def test_the_budget_has_what_was_spent_before_a_failure(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fails = f"SELECT CAST(item AS INT64) FROM ({COUNT.rstrip(';')});"
    typed = Typed(as_keys(fails) + as_keys(".budget"), capsys)
    assert "which is paid for and may be published" in typed.out
    assert "Spent here: at most ε = 1, δ = 1e-06.\n" in typed.out


def test_explain_reads_and_spends_nothing(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    typed = Typed(as_keys(f".explain {COUNT}"), capsys, paid=True)
    assert "dphist release" in typed.out
    assert (typed.err, entries()) == ("", 0)


@pytest.mark.parametrize("word", ["\\q", ".quit", "quit", "EXIT;", "quit ;"])
def test_words_that_leave(word: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    typed = Typed(as_keys(word) + as_keys(".tables"), capsys)
    assert (typed.out, typed.err) == ("", "")


def test_an_interrupt_drops_the_line(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    typed = Typed(f"SELECT nonsense{ENTER}more of it{INTERRUPT}" + as_keys(".schema events"), capsys)
    assert (typed.out, typed.err) == ("  user\n  item\n", "")
    assert typed.history.get_strings() == [".schema events"]


def test_the_history_is_the_owners_and_holds_what_was_typed(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(folder / "state"))
    path = history_file()
    assert path == folder / "state" / "dphist" / "sql_history"
    before = os.umask(0)
    try:
        Typed(as_keys(COUNT) + as_keys(".tables"), capsys, open_history(path))
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    kept = [line for line in path.read_text().splitlines() if line and not line.startswith("# ")]
    assert kept == [f"+{line}" for line in [*COUNT.split("\n"), ".tables"]]
    assert list(open_history(path).load_history_strings()) == [".tables", COUNT]
    path.chmod(0o644)
    open_history(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_relative_state_directory_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", "here")
    assert history_file() == Path.home() / ".local" / "state" / "dphist" / "sql_history"


def test_a_history_that_cannot_be_written_is_told_and_not_needed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("")
    assert isinstance(open_history(tmp_path / "file" / "history"), InMemoryHistory)
    assert "No history is kept" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("before", "offered"),
    [
        ("SELECT * FROM ", ["events", "items"]),
        ("SELECT * FROM events AS e JOIN it", ["items"]),
        ("SELECT * FROM events, ", ["events", "items"]),
        ("WITH mine AS (SELECT * FROM events) SELECT * FROM m", ["mine"]),
        ("SELECT * FROM events AS e WHERE e.", ["user", "item"]),
        ("SELECT * FROM events e WHERE e.us", ["user"]),
        ("SELECT * FROM items i WHERE i.", ["item", "`the price`"]),
        ("SELECT * FROM items WHERE the", ["`the price`", "then"]),
        ("SELECT 1; SELECT * FROM items WHERE i", ["item", "intersect distinct", "in", "is null"]),
        ("SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 1, del", ["delta = "]),
        ("SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 1, ep", []),
        ("SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(group_selection_strategy = P", ["PUBLIC_GROUPS"]),
        ("SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(privacy_unit_column = u", ["user"]),
        ("SELECT SUM(x, contribution_bounds_per_g", ["contribution_bounds_per_group => "]),
        ("SEL", ["SELECT"]),
        ("sel", ["select"]),
        ("SELECT 'FROM ", []),
        ("SELECT 1 -- FROM ", []),
        ("SELECT nobody.", []),
    ],
)
def test_words_complete_by_what_stands_around_them(before: str, offered: list[str], folder: Path) -> None:
    assert Suggestions(connect()).of(before)[1] == offered


def test_an_alias_behind_the_cursor_counts(folder: Path) -> None:
    assert Suggestions(connect()).of("SELECT e.", " FROM events AS e")[1] == ["user", "item"]


def test_a_table_that_is_gone_completes_to_nothing(folder: Path) -> None:
    connection = connect()
    Path("items.csv").unlink()
    assert Suggestions(connection).of("SELECT * FROM items i WHERE i.")[1] == []


# On a terminal

SECOND_TAKES_LONG = """
import sys, time
from dphist.run.job import Work
counted, calls = Work.from_groups, []
def count(*given):
    calls.append(1)
    if len(calls) == 2:
        print("WAITING", flush=True)
        for _ in range(600):  # a signal that comes just before a long sleep would wait for its end
            time.sleep(0.1)
    return counted(*given)
Work.from_groups = count
from dphist.__main__ import main
main()
"""


class Terminal:
    """A shell on a pseudo-terminal of 100 columns."""

    def __init__(self, folder: Path, program: str, *words: str) -> None:
        self.handle, inner = pty.openpty()
        fcntl.ioctl(inner, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 100, 0, 0))
        environment = {**os.environ, "TERM": "xterm", "PROMPT_TOOLKIT_NO_CPR": "1", "PYTHONUTF8": "1"}
        environment["XDG_STATE_HOME"] = str(folder / "state")
        command = [sys.executable, "-c", program, "sql", "--table", "events.parquet", "--unit", "user", *words]
        self.process = subprocess.Popen(
            command, cwd=folder, env=environment, stdin=inner, stdout=inner, stderr=inner, start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        )  # fmt: skip
        os.close(inner)
        self.seen = ""

    def type(self, text: str) -> None:
        os.write(self.handle, text.encode())

    def until(self, words: str, seconds: float = 20) -> str:
        """What is shown until some words are, without escapes. What was shown before is not looked at again."""
        end = time.monotonic() + seconds
        while words not in self.seen:
            ready, _, _ = select.select([self.handle], [], [], max(end - time.monotonic(), 0))
            assert ready, f"no {words!r} in {self.seen!r}"
            try:
                part = os.read(self.handle, 4096)
            except OSError:
                part = b""
            assert part, f"it ended without {words!r}: {self.seen!r}"
            self.seen = re.sub(r"\x1b(\[[0-9;?]*[a-zA-Z]|[=>])", "", self.seen + part.decode(errors="replace"))
        shown, _, self.seen = self.seen.partition(words)
        return shown + words


@pytest.fixture
def terminals() -> Iterator[list[Terminal]]:
    opened: list[Terminal] = []
    yield opened
    for one in opened:
        if one.process.poll() is None:
            one.process.kill()
            one.process.wait()


def test_a_session_on_a_terminal(folder: Path, terminals: list[Terminal]) -> None:
    """An error, completion, a line that is dropped, an answer, a statement that is interrupted, and the end by a signal."""
    shell = Terminal(folder, SECOND_TAKES_LONG, "--ledger", "ledger.db", "--dataset", "people")
    terminals.append(shell)
    shell.until("dphist, ε 3 left>")
    typing = termios.tcgetattr(shell.handle)[3]
    shell.type("SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 1, delta = 1e-6)\r")
    shell.until("...")
    shell.type("item, COUNT(nothing) FROM eve\t")
    shell.until("FROM events")
    shell.type(" GROUP BY item;\r")
    shell.until("line 2, column 13")
    shell.until("^")
    shell.until("dphist, ε 3 left>")
    shell.type("half a line")
    shell.until("half a line")
    shell.type(INTERRUPT)
    shell.until("dphist, ε 3 left>")
    shell.type(as_keys(COUNT))
    assert "±" in shell.until("Charged to 'people', entry 1,")
    shell.until("dphist, ε 2 left>")
    shell.type("\x1b[A\r")  # the same once more
    shell.until("WAITING")
    shell.type(INTERRUPT)
    told = shell.until("dphist, ε 1 left>")
    assert "Interrupted. Charged to 'people', entry 3" in told
    assert "Nothing was published" in told
    assert entries() == 2
    shell.process.send_signal(signal.SIGTERM)
    shell.until("dphist: Terminated. Nothing was charged.")
    assert shell.process.wait(20) == 143
    assert not typing & termios.ECHO
    assert termios.tcgetattr(shell.handle)[3] & termios.ECHO, "what is typed is seen again"
    kept = (folder / "state" / "dphist" / "sql_history").read_text()
    assert "+item, COUNT(nothing) FROM events GROUP BY item;" in kept
    assert not [words for words in ("half a line", "±", "Charged", "item 0") if words in kept]
    os.close(shell.handle)
