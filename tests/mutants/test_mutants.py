"""The list of mutants is sound, and a random hundredth of them is killed."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from catalogue import MUTANTS

from mutants import ROOT, SOURCES, Mutant

LEAST = 150


def test_every_mutant_has_a_name_of_its_own_and_changes_one_place() -> None:
    assert len(MUTANTS) >= LEAST
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS)
    for mutant in MUTANTS:
        text = (SOURCES / mutant.file).read_text(encoding="utf-8")
        assert mutant.planted(text) != text
        assert mutant.breaks
        assert mutant.tests
        for test in mutant.tests:
            path, _, function = test.partition("::")
            assert (ROOT / path).is_file(), test
            name = function.partition("[")[0]
            assert not name or f"def {name}(" in (ROOT / path).read_text(encoding="utf-8"), test


def run(*words: str) -> subprocess.CompletedProcess[str]:
    """In a process that has not loaded the package: each mutant is a fork of it."""
    settings = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "COV_"))}
    command = [sys.executable, str(ROOT / "tests" / "mutants" / "run.py"), *words]
    return subprocess.run(command, env=settings, capture_output=True, text=True, check=False)


def test_a_random_hundredth_is_killed() -> None:
    """Other ones in every run."""
    done = run("--some")
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_mutant_that_changes_nothing_survives() -> None:
    """The harness can tell."""
    code = (
        "from mutants import Mutant, try_all\n"
        "same = Mutant('same', 'version.py', '__version__', '__version__', '-', ('tests/privacy/test_search.py',))\n"
        "print([verdict.killed for verdict in try_all([same])])"
    )
    settings = {**os.environ, "PYTHONPATH": str(ROOT / "tests" / "mutants")}
    done = subprocess.run([sys.executable, "-c", code], env=settings, capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "[False]", done.stderr
    with pytest.raises(ValueError, match="once"):
        Mutant("nowhere", "version.py", "no such text", "", "nothing", ("x",)).planted("other text")
