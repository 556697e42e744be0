"""Commands that get signals, and what they leave; run as a script, prints what happened as JSON.

Modules are loaded once and every command is forked from here, so that a run takes a part of a second and random moments are in
its work. Signals meet a forked command as they meet any other process; only the loading of modules is not hit, which
`test_signals` does with a process of its own.

    kill_commands.py FOLDER moments|all-moments          signals that commands send themselves at chosen moments
    kill_commands.py FOLDER random TIMES SEED KIND ...   signals at random moments
"""

from __future__ import annotations

import json
import os
import random
import signal
import sqlite3
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import dphist as dp
from dphist import cli
from dphist.cli import app
from dphist.engines.duckdb import engine
from dphist.files import locks, outputs
from dphist.ledger import DataSet, Ledger
from dphist.ledger.charge import Charge
from dphist.run.continual import STATE, Continual
from dphist.run.job import Work
from dphist.run.session import Session
from dphist.run.stream import State

KINDS = ("release", "sql", "ledger", "stream", "session")
SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGKILL)
CHARGE = ["--ledger", "l.db", "--dataset", "people"]
RECORDS = ["events.csv", "--unit", "user", "--by", "item"]


def prepare(folder: Path) -> None:
    """Records, a ledger, a stream and a session."""
    os.chdir(folder)
    Path("tmp").mkdir()
    tempfile.tempdir = str(folder / "tmp")
    with Path("events.csv").open("w") as file:
        file.write("user,item\n")
        file.writelines(f"u{n * 7919 % 4000},i{n * n % 97 % 40}\n" for n in range(12_000))
    with Ledger("l.db", create=True) as opened:
        opened.create(DataSet("people", 30.0, 1e-2, "user", "basic"))
        opened.create(DataSet("events", 30.0, 1e-2, "user", "basic", "event"))
    Continual.start("stream", unit="user", by="item", rounds=4000, max_groups=2, epsilon=1, delta=1e-6)
    Session.start("s.json", unit="user", epsilon=9, delta=1e-6, results=4000, queries=4000)


def words_of(kind: str, number: int) -> list[str]:
    """The command; releases differ from run to run."""
    if kind == "release":
        how = [["--mechanism", "adaptive"], ["--max-groups", "2"]][number % 2]
        out = ["out.csv", "out.parquet"][number // 2 % 2]
        return ["release", *RECORDS, "--epsilon", "0.01", "--delta", "1e-7", *how, "-o", out, *CHARGE, "--quiet"]
    if kind == "sql":
        clause = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 0.01, delta = 1e-7, max_groups_contributed = 2)"
        query = f"{clause} item, COUNT(DISTINCT user) AS people FROM events GROUP BY item"
        out = ["out.csv", "out.parquet"][number % 2]
        return ["sql", query, "--table", "events.csv", "--unit", "user", "-o", out, *CHARGE, "--quiet"]
    if kind == "ledger":
        if number % 2:
            how = ["--method", "ranked", "--epsilon", "0.01", "--delta", "1e-7"]
            return ["top-k", *RECORDS, "--k", "3", *how, "-o", "out.csv", *CHARGE]
        return ["stat", "is-empty", "events.csv", "--unit", "user", "--epsilon", "0.01", "--delta", "1e-7", *CHARGE]
    if kind == "record":
        spent = ["--unit", "user", "--protects", "unit", "--epsilon", "0.001", "--note", "elsewhere"]
        return ["ledger", "record", *spent, *CHARGE]
    if kind == "stream":
        return ["continual", "add", "stream", "events.csv", "--batch", f"batch {number}", "-o", "out.csv"]
    return ["session", "query", "s.json", "events.csv", "--by", "item", "--k", "1"]


def begin(words: list[str], hook: Callable[[], None] | None = None) -> int:
    """Fork the command as a process with files for its output. A signal waits for the first line of the command."""
    signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS[:-1])
    pid = os.fork()
    if pid:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS[:-1])
        return pid
    code = 99
    try:
        for number, name in ((1, "stdout"), (2, "stderr")):
            os.dup2(os.open(name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND, 0o600), number)
        sys.argv = ["dphist", *words]
        _patched(app, "run", lambda: signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS[:-1]))()
        if hook is not None:
            hook()
        try:
            cli.main(last=True)
            code = 0
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else int(end.code is not None)
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(code)


def entries() -> int:
    """The spends in the ledger, read without locks that a fork would inherit."""
    connection = sqlite3.connect("l.db")
    try:
        found = connection.execute("SELECT COUNT(*) FROM dphist_entries WHERE kind IN ('reserve', 'record')").fetchone()
        return int(found[0])
    finally:
        connection.close()


def state() -> dict[str, Any]:
    """What is spent and taken in, as the files say."""
    account = Session("s.json").account
    used = account.used_results + account.reserved
    return {
        "entries": entries(),
        "round": State.load(Path("stream") / STATE).round,
        "queries": account.used_queries,
        "used": used,
    }


def left_behind() -> dict[str, list[str]]:
    """Private directories, and outputs that are half written."""
    private = sorted(path.name for path in Path("tmp").iterdir())
    here = [
        path for folder in (".", "stream", "stream/rounds") if Path(folder).is_dir() for path in Path(folder).iterdir()
    ]
    partial = sorted(path.name for path in here if path.name.startswith(".") or path.name.endswith("-journal"))
    tables = {path.name.removesuffix(".dphist.json") for path in Path().glob("out.*")}
    half = [name for name in tables if not (Path(name).exists() and Path(f"{name}.dphist.json").exists())]
    return {"private": private, "partial": [*partial, *half]}


def clean() -> None:
    for path in Path().glob("out.*"):
        path.unlink()


def outcome(words: list[str], status: int, before: dict[str, Any]) -> dict[str, Any]:
    """Everything that can be seen of a command that has ended."""
    told = [line for line in Path("stderr").read_text().splitlines() if not line.startswith("… ")]
    with Ledger("l.db") as opened:
        intact = all(check.passed for name in opened.names() for check in opened.verify(name))
        within = all(not opened.status(name).exceeded for name in opened.names())
        last = max(entry.sequence for entry in opened.status("people").spends[-1:] or opened.entries("people"))
    written = sorted(path.name for path in Path().glob("out.*"))
    return {
        "last": last,
        "words": words[:2], "code": os.waitstatus_to_exitcode(status), "told": told, "before": before, "after": state(),
        "ledger": intact and within, "written": written, **left_behind(),
    }  # fmt: skip


def run(words: list[str], hook: Callable[[], None] | None = None) -> dict[str, Any]:
    """A command to its end."""
    before = state()
    _, status = os.waitpid(begin(words, hook), 0)
    return outcome(words, status, before)


def _timed(words: list[str]) -> tuple[float, dict[str, Any]]:
    began = time.monotonic()
    done = run(words)
    took = time.monotonic() - began
    clean()
    return took, done


def randomly(times: int, seed: int, kinds: list[str]) -> Iterator[dict[str, Any]]:
    """Kill `times` commands of each kind with each signal while they run; then let the same command reach its end."""
    rng = random.Random(seed)
    number = 0
    for kind in kinds:
        longest = _timed(words_of(kind, 4001))[0]
        for signum in SIGNALS:
            killed = 0
            while killed < times:
                number += 1
                words, before = words_of(kind, number), state()
                pid = begin(words)
                time.sleep(rng.uniform(0, 0.9 * longest))
                os.kill(pid, signum)
                _, status = os.waitpid(pid, 0)
                found = outcome(words, status, before)
                clean()
                took, again = _timed(words)
                longest = took if again["code"] == 0 else longest  # a busy machine takes more or less time than it did
                killed += found["code"] != 0
                yield {"kind": kind, "signal": signum.name, **found, "again": again}


def _patched(owner: Any, name: str, act: Callable[[], object], *, behind: bool = False) -> Callable[[], None]:
    """A hook that lets `act` happen before a call or behind it."""

    def hook() -> None:
        original = getattr(owner, name)

        def replaced(*given: Any, **named: Any) -> Any:
            if not behind:
                act()
            result = original(*given, **named)
            if behind:
                act()
            return result

        setattr(owner, name, replaced)

    return hook


def _send(signum: int) -> Callable[[], None]:
    def send() -> None:
        if not sent:
            sent.append(signum)
            os.kill(os.getpid(), signum)
            time.sleep(0.1)  # time enough to end the process, unless it is in the middle of a step

    sent: list[int] = []
    return send


MOMENTS: dict[str, tuple[str, Any, str, bool]] = {
    "planned": ("release", engine, "session", False),
    "before the charge": ("release", Ledger, "reserve", False),
    "charged, not noted": ("release", Ledger, "reserve", True),
    "counting": ("release", Work, "release", False),
    "noised": ("release", Work, "release", True),
    "before the files": ("release", outputs, "_put_all_in_place", False),
    "one of two files": ("release", outputs, "_put_in_place", True),
    "written, not confirmed": ("release", outputs, "_put_all_in_place", True),
    "confirmed, not noted": ("release", Ledger, "commit", True),
    "confirmed": ("release", Charge, "confirm", True),
    "recorded, not noted": ("record", Ledger, "record", True),
    "round not stored": ("stream", State, "save", True),
    "round stored": ("stream", locks, "_sync_folder", True),
    "query not reserved": ("session", locks, "_fill", False),
    "query reserved": ("session", locks, "_sync_folder", True),
    "query counted": ("session", engine.DuckDBRecords, "histogram", True),
}


EVERY = 5


def at_moments(thorough: bool) -> Iterator[dict[str, Any]]:
    """Each moment with each of the signals that can be caught, or every fifth with one of them."""
    number = 0
    places = list(enumerate(MOMENTS.items()))
    chosen = places if thorough else places[::EVERY]
    for place, (name, (kind, owner, attribute, behind)) in chosen:
        for signum in SIGNALS[:-1] if thorough else SIGNALS[place % 3 : place % 3 + 1]:
            number += 2
            words = words_of(kind, number)
            found = run(words, _patched(owner, attribute, _send(signum), behind=behind))
            clean()
            yield {"kind": kind, "signal": signum.name, "moment": name, **found, "again": run(words)}
            clean()


def main() -> None:
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    for signum in SIGNALS[:-1]:  # a shell ignores some of them for what it starts in the background
        signal.signal(signum, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    prepare(Path(sys.argv[1]).resolve())
    how, *more = sys.argv[2:]
    results = randomly(int(more[0]), int(more[1]), more[2:]) if how == "random" else at_moments(how == "all-moments")
    with suppress(BrokenPipeError):
        for result in results:
            print(json.dumps(result))


if __name__ == "__main__":
    dp.plan(epsilon=1, delta=1e-6, max_groups=1)
    main()
