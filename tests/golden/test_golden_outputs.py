"""Every case gives what it gave when it was recorded, bit for bit; `python tests/golden/record.py [name ...]` records."""

from __future__ import annotations

import difflib
from pathlib import Path

import pytest
from cases import CASES
from harness import OUTPUTS, run, text_of


@pytest.mark.parametrize("name", CASES)
def test_case(name: str, tmp_path: Path) -> None:
    check(name, text_of(run(CASES[name], tmp_path)))


def check(name: str, found: str) -> None:
    """Fail with the lines that differ."""
    stored = (OUTPUTS / f"{name}.json").read_text(encoding="utf-8")
    if found != stored:
        lines = list(difflib.unified_diff(stored.splitlines(), found.splitlines(), "stored", "found", n=2, lineterm=""))
        left = [f"… {len(lines) - 80} more lines"] if len(lines) > 80 else []
        pytest.fail("\n".join([f"{name} has changed:", *lines[:80], *left]), pytrace=False)


def test_nothing_is_stored_without_a_case() -> None:
    from spark_cases import SPARK_CASES

    assert {path.stem for path in OUTPUTS.glob("*.json")} == {*CASES, *SPARK_CASES}
