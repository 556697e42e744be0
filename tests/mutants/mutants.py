"""Small privacy bugs, planted one at a time: each must be killed by the tests that it names.

A mutant is one exchange of text in one file of the package. It is planted in a copy of the sources, and the tests run against
the copy. `make mutants` plants all of them; `make test` a random twentieth.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
SOURCES: Final = ROOT / "src" / "dphist"
FAILED: Final = 1
"""What pytest returns when tests ran and some failed."""

LONGEST: Final = 240.0
"""Seconds after which a mutant counts as killed: it hangs, which nobody could overlook."""


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


def try_mutant(mutant: Mutant) -> Verdict:
    """Plant a mutant in a copy and run its tests against the copy."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="dphist-mutant-") as folder:
        package = Path(folder) / "dphist"
        shutil.copytree(SOURCES, package, ignore=shutil.ignore_patterns("__pycache__"))
        mutant.plant(package)
        command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "--no-header", *mutant.tests]
        # The copy comes before the installed package; bytecode of the copy is nobody's concern.
        settings = {**os.environ, "PYTHONPATH": folder, "PYTHONDONTWRITEBYTECODE": "1"}
        settings.pop("PYTEST_XDIST_WORKER", None)
        try:
            done = subprocess.run(command, cwd=ROOT, env=settings, capture_output=True, text=True, timeout=LONGEST)
        except subprocess.TimeoutExpired:
            return Verdict(mutant, True, time.monotonic() - began, "hung")
    output = done.stdout[-2000:] + done.stderr[-2000:]
    return Verdict(mutant, done.returncode == FAILED, time.monotonic() - began, output)


def try_all(mutants: Iterable[Mutant], workers: int = 2) -> list[Verdict]:
    """Several at a time."""
    with ThreadPoolExecutor(workers) as pool:
        return list(pool.map(try_mutant, mutants))
