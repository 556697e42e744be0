"""Small privacy bugs, planted one at a time: each must be killed by the tests that it names.

The tables beside this file list them, one for each room of the package. A mutant is one exchange of text in one file of the
package. It is planted in a copy of the sources, and the tests run against the copy. `make mutants` plants all of them,
`make test` three.
"""

from __future__ import annotations

import importlib
import os
import shutil
import signal
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parents[2]
SOURCES: Final = ROOT / "src" / "dphist"
TABLES: Final = Path(__file__).parent
FAILED: Final = 1
"""What pytest returns when tests ran and some failed."""

LONGEST: Final = 240
"""Seconds after which a mutant counts as killed: it hangs, which nobody could overlook."""

LOADED_ONCE: Final = (
    "pytest", "hypothesis.strategies", "numpy", "scipy.special", "scipy.stats", "pyarrow.parquet", "pyarrow.compute",
    "duckdb", "cryptography.hazmat.primitives.ciphers", "pydantic", "sqlalchemy", "click.testing", "sqlglot.dialects.bigquery",
)  # fmt: skip
"""What takes most of a start. Each mutant runs in a fork of a process that has loaded it, and not the package itself."""


def table(name: str) -> dict[str, Any]:
    """One of the tables: of a room by file and name of a bug, or of the places in the code that mutants are made from."""
    return tomllib.loads((TABLES / f"{name}.toml").read_text(encoding="utf-8"))


@dataclass(frozen=True, slots=True)
class Mutant:
    """A bug: its name, the exchange in a file of the package, what it breaks, and the tests that must notice."""

    name: str
    file: str
    old: str
    new: str
    breaks: str
    tests: tuple[str, ...]

    def plant(self, package: Path) -> None:
        """Exchange the text in a copy of the package."""
        path = package / self.file
        path.write_text(self.planted(path.read_text(encoding="utf-8")), encoding="utf-8")

    def planted(self, text: str) -> str:
        """The text with the bug. The old words must stand there once, or the mutant is not what it says."""
        if text.count(self.old) != 1:
            raise ValueError(
                f"{self.name}: expected {self.old!r} once in {self.file}, found it {text.count(self.old)} times"
            )
        return text.replace(self.old, self.new)


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of a mutant."""

    mutant: Mutant
    killed: bool
    seconds: float
    output: str


def try_all(mutants: Iterable[Mutant], workers: int = 2) -> Iterator[Verdict]:
    """Plant each mutant in a copy of its own and run its tests against the copy; several at a time."""
    if "dphist" in sys.modules:
        raise AssertionError("the package is loaded: a fork would test it instead of the copy")
    for name in LOADED_ONCE:
        importlib.import_module(name)
    waiting = list(mutants)[::-1]
    running: dict[int, tuple[Mutant, Path, float]] = {}
    with tempfile.TemporaryDirectory(prefix="dphist-mutants-") as folder:
        while waiting or running:
            while waiting and len(running) < workers:
                mutant = waiting.pop()
                place = Path(folder) / mutant.name
                shutil.copytree(
                    SOURCES, place / "dphist"
                )  # with what is compiled: only the file with the bug is younger
                mutant.plant(place / "dphist")
                running[_fork(mutant, place)] = (mutant, place, time.monotonic())
            pid, status = os.wait()
            mutant, place, began = running.pop(pid)
            code = os.waitstatus_to_exitcode(status)
            output = (place / "output").read_text(encoding="utf-8", errors="replace")[-4000:]
            shutil.rmtree(place, ignore_errors=True)
            yield Verdict(mutant, code in (FAILED, -signal.SIGALRM), time.monotonic() - began, output)


def _fork(mutant: Mutant, place: Path) -> int:
    """A process that runs the tests of a mutant against its copy, which comes before the installed package."""
    if pid := os.fork():
        return pid
    os.setsid()
    signal.alarm(LONGEST)
    output = os.open(place / "output", os.O_WRONLY | os.O_CREAT)
    os.dup2(output, 1)
    os.dup2(output, 2)
    os.chdir(ROOT)
    sys.path.insert(0, str(place))
    os.environ["PYTHONPATH"] = str(place)
    sys.dont_write_bytecode = True
    os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
    pytest = importlib.import_module("pytest")
    every = ["-m", ""]  # also what long runs alone have
    quiet = ["-q", "-x", "-p", "no:cacheprovider", "--no-header", "-W", "ignore::pytest.PytestAssertRewriteWarning"]
    code = 70
    try:
        code = int(pytest.main([*quiet, *every, *mutant.tests]))
    finally:
        sys.stdout.flush()
        os._exit(code)
