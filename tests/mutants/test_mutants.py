"""The list of mutants is sound, and a random twentieth of them is killed."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from catalogue import MUTANTS

from mutants import ROOT, SOURCES, Mutant, try_mutant

LEAST = 150
SHARE = 20


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


def some() -> list[Mutant]:
    """Other ones in every run; their names are in the ids of the tests."""
    quick = [mutant for mutant in MUTANTS if not any("spark" in test for test in mutant.tests)]
    return random.SystemRandom().sample(quick, max(1, len(quick) // SHARE)) if quick else []


def test_a_random_twentieth_is_killed() -> None:
    for mutant in some():
        verdict = try_mutant(mutant)
        assert verdict.killed, f"{mutant.name} survived: {mutant.breaks}\n{verdict.output}"


def test_a_mutant_that_changes_nothing_survives() -> None:
    """The harness can tell."""
    harmless = Mutant(
        "harmless", "version.py", "__version__", "__version__", "nothing", ("tests/privacy/test_search.py",)
    )
    assert not try_mutant(harmless).killed
    with pytest.raises(ValueError, match="once"):
        Mutant("nowhere", "version.py", "no such text", "", "nothing", ("x",)).planted(
            Path(SOURCES / "version.py").read_text()
        )
