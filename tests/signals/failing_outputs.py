"""Commands whose outputs fail after the charge, in one process; run as a script, prints what was said as JSON."""

from __future__ import annotations

import json
import os
import resource
import shutil
import signal
import sqlite3
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from dphist import cli
from dphist.files import formats, outputs
from dphist.ledger import DataSet, Ledger
from dphist.run.job import Work
from dphist.run.statistics import PrivateStatistic

RECORDS = ["events.csv", "--unit", "user", "--by", "item", "--epsilon", "0.1", "--delta", "1e-5"]
CHARGE = ["--ledger", "l.db", "--dataset", "people"]
RELEASE = ["release", *RECORDS, "--max-groups", "1", *CHARGE]


def say(words: list[str], stdout: str = "stdout") -> tuple[int, list[str]]:
    """The exit code of a command and the lines that it printed to stderr, but for its phases."""
    kept = os.dup(1), os.dup(2)
    sys.argv = ["dphist", *words]
    for number, name in ((1, stdout), (2, "stderr")):
        handle = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        os.dup2(handle, number)
        os.close(handle)
    code = 0
    try:
        cli.main()
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    with suppress(OSError):
        sys.stdout.flush()
    sys.stderr.flush()
    for number, handle in zip((1, 2), kept, strict=True):
        os.dup2(handle, number)
        os.close(handle)
    return code, [line for line in Path("stderr").read_text().splitlines() if not line.startswith("… ")]


def entries() -> int:
    with sqlite3.connect("l.db") as connection:
        return int(connection.execute("SELECT COUNT(*) FROM dphist_entries WHERE kind = 'reserve'").fetchone()[0])


def before(owner: Any, name: str, act: Callable[[], object]) -> Callable[[], None]:
    """Let something happen before a call, once; gives what puts the call back."""
    original = getattr(owner, name)

    def acting(*given: Any, **named: Any) -> Any:
        setattr(owner, name, original)
        act()
        return original(*given, **named)

    setattr(owner, name, acting)
    return lambda: setattr(owner, name, original)


def without_the_ledger() -> None:
    os.rename("l.db", "away.db")


def main() -> None:
    os.chdir(sys.argv[1])
    with open("events.csv", "w") as file:
        file.write("user,item\n")
        file.writelines(f"u{n},item number {n % 1500}\n" for n in range(6_000))
    with Ledger("l.db", create=True) as opened:
        opened.create(DataSet("people", 20.0, 1e-2, "user", "basic"))
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    found = {}

    def case(name: str, words: list[str], **more: Any) -> None:
        charged = entries()
        code, told = say(words, **more)
        if not Path("l.db").exists() or Path("away.db").exists():
            os.replace("away.db", "l.db")
        left = sorted(path.name for path in Path().iterdir() if path.name.startswith((".", "out")))
        found[name] = {"code": code, "told": told, "charged": entries() - charged, "entry": "", "left": left}
        with Ledger("l.db") as ledger:
            found[name]["entry"] = ledger.status("people").spends[-1:] and ledger.status("people").spends[-1].sequence
        for path in Path().glob("out*"):
            shutil.rmtree(path) if path.is_dir() else path.unlink()

    listed = ["--keys", "keys.txt"]
    Path("keys.txt").write_text("".join(f"item number {n}\n" for n in range(1500)))
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    for out in ("out.csv", "out.json", "out.parquet", "out.html"):
        back = before(formats, "write_table", lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (12_000, hard)))
        other = before(outputs, "replacements", lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (12_000, hard)))
        case(f"disk full {out}", [*RELEASE, *listed, *(["--report"] if out == "out.html" else ["-o"]), out])
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        back()
        other()
    Path("outer").mkdir()
    back = before(Work, "release", lambda: shutil.rmtree("outer"))
    case("folder removed", [*RELEASE, "-o", "outer/out.csv"])
    Path("outer").mkdir()
    before(formats, "_copy_as_text", lambda: shutil.rmtree("outer"))
    case("folder removed while it is written", [*RELEASE, "-o", "outer/out.csv"])
    before(Work, "release", without_the_ledger)
    case("ledger gone before the confirmation", [*RELEASE, "-o", "out.csv"])
    before(Ledger, "reserve", without_the_ledger)
    case("ledger gone before the charge", [*RELEASE, "-o", "out.csv"])
    before(Work, "release", lambda: 1 / 0)
    case("a bug behind the charge", [*RELEASE, "-o", "out.csv"])
    before(Work, "__init__", lambda: 1 / 0)
    case("a bug before the charge", [*RELEASE, "-o", "out.csv"])
    case("standard output full", [*RELEASE, "-o", "out.csv"], stdout="/dev/full")
    case("standard output full, no file", ["top-k", *RECORDS, "--k", "3", *CHARGE], stdout="/dev/full")
    before(PrivateStatistic, "__str__", lambda: 1 / 0)
    case("a bug in the words", ["stat", "is-empty", *RECORDS[:3], "--epsilon", "0.1", "--delta", "1e-6", *CHARGE])
    case("nothing charged, full", ["plan", "--epsilon", "1", "--delta", "1e-6"], stdout="/dev/full")
    resource.setrlimit(resource.RLIMIT_FSIZE, (300, hard))
    budget = ["--epsilon", "1", "--delta", "1e-6", "--results", "5", "--queries", "2"]
    case("nothing charged, disk full", ["session", "start", "out.session", "--unit", "user", *budget])
    resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    print(json.dumps(found))


if __name__ == "__main__":
    main()
