"""The list of mutants is sound, and three of them are killed."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys

import mutants_of_draws
import mutants_of_limits
import pytest
from catalogue import MUTANTS, ROOMS
from places import modules
from run import SOME

from mutants import ROOT, SOURCES, Mutant

LEAST = 1000


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


def test_every_table_has_the_bugs_of_its_room() -> None:
    for room, files in ROOMS.items():
        assert {file.partition("/")[0] if "/" in file else "single_files" for file in files} == {room}


def test_every_draw_has_tests() -> None:
    """A new one fails here until `draws.toml` names the tests that notice that it is too small."""
    assert set(mutants_of_draws.draws()) == set(mutants_of_draws.TESTS)


def test_every_limit_has_tests() -> None:
    """A new use fails here until `limits.toml` names the tests that notice that it is too large, or says why none can."""
    assert mutants_of_limits.limited() == set(mutants_of_limits.TESTS)
    assert mutants_of_limits.guards().keys() == mutants_of_limits.GUARDS.keys()
    assert mutants_of_limits.bounds().keys() == mutants_of_limits.BOUNDS.keys()
    assert mutants_of_limits.clamps().keys() == mutants_of_limits.CLAMPS.keys()
    assert mutants_of_limits.checked().keys() == set(mutants_of_limits.CHECKED)
    assert not mutants_of_limits.NO_LIMITS - mutants_of_limits.constants()


def test_nothing_reads_entropy_past_the_samplers() -> None:
    """Random words are read in noise/ alone, so that the list of draws is complete; no signature above it has their source."""
    readers = {
        module.file
        for module in modules()
        for node in (module.parents if ".words(" in module.text else ())
        if isinstance(node, ast.Attribute)
        and node.attr == "words"
        and ast.unparse(node.value).endswith(("entropy", "source"))
    }
    assert "noise/sampling.py" in readers
    assert {file for file in readers if not file.startswith(("noise/", "audit/"))} == set()
    doors = {module.file for module in modules() if "current_source" in module.text or "drawing_from" in module.text}
    assert {file for file in doors if not file.startswith(("noise/", "audit/"))} == {"engines/spark/groups.py"}
    given = {
        module.file
        for module in modules()
        for node in (module.parents if "ntropy" in module.text else ())
        if isinstance(node, ast.arg) and (node.arg == "entropy" or "Entropy" in ast.dump(node))
    }
    assert {file for file in given if not file.startswith("noise/")} == set()


SCRIPT = """
import json
from mutants import Mutant, try_all
from run import chosen
same = Mutant("same", "version.py", "__version__", "__version__", "-", ("tests/privacy/test_search.py",))
print(json.dumps({verdict.mutant.name: (verdict.killed, verdict.output) for verdict in try_all([same, *chosen(["--some"])])}))
"""


@pytest.fixture(scope="module")
def verdicts() -> dict[str, tuple[bool, str]]:
    """Of a mutant that changes nothing and of three others, from a process that has not loaded the package."""
    settings = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "COV_"))}
    settings["PYTHONPATH"] = str(ROOT / "tests" / "mutants")
    done = subprocess.run([sys.executable, "-c", SCRIPT], env=settings, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    found: dict[str, tuple[bool, str]] = json.loads(done.stdout)
    return found


def test_some_are_killed(verdicts: dict[str, tuple[bool, str]]) -> None:
    """The same ones in every run, others in `make test-explore`."""
    alive = {name: output for name, (killed, output) in verdicts.items() if not killed and name != "same"}
    assert len(verdicts) == 1 + SOME
    assert not alive


def test_a_mutant_that_changes_nothing_survives(verdicts: dict[str, tuple[bool, str]]) -> None:
    """The harness can tell."""
    killed, output = verdicts["same"]
    assert not killed, output
    assert " passed" in output
    with pytest.raises(ValueError, match="once"):
        Mutant("nowhere", "version.py", "no such text", "", "nothing", ("x",)).planted("other text")
