"""The numbers of docs/architecture.md are those of the tree, and its rows those of the history."""

from __future__ import annotations

import json
import re
import subprocess
import sys

import architecture
import pytest

CLOSE = 0.05
"""So far may a number move before somebody has to write the table anew: `python docs/code/architecture.py`."""


def test_the_numbers_are_those_of_the_tree() -> None:
    page = architecture.part(architecture.PAGE.read_text(encoding="utf-8"), "numbers")
    told = {
        name: int(number.replace(",", ""))
        for name, number in re.findall(r"^\| (.+?) \| [\d,]+ \| ([\d,]+) \|", page, re.M)
    }
    words = "import json, architecture; print(json.dumps(architecture.measured()))"
    done = subprocess.run(
        [sys.executable, "-c", words],
        cwd=architecture.ROOT / "docs" / "code",
        capture_output=True,
        text=True,
        check=True,
    )  # in a process of its own, where nothing is calibrated yet
    found = json.loads(done.stdout)
    assert found.keys() == told.keys() == architecture.BEFORE.keys()
    assert {name: number for name, number in found.items() if abs(number - told[name]) > CLOSE * told[name]} == {}


@pytest.mark.skipif(not (architecture.ROOT / ".git").exists(), reason="needs the history")
def test_commits_of_a_kind_edit_what_its_row_names() -> None:
    """A quarter of the last twenty at least: a subject tells its kind only roughly, and a merged file has lost its past."""
    assert [(request, hits, number) for request, hits, number in architecture.history() if 4 * hits < number] == []
