"""The tutorials run from the first cell to the last, and what they keep is what they show."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import nbformat
import pytest
from tutorials import NOTEBOOKS, executed, read

ELSEWHERE = re.compile(r"(?<![\w.])/(?:home|tmp|work|root|Users|usr)/")


def shown(notebook: Any) -> list[list[tuple[str, ...]]]:
    """What kinds of output each cell has."""
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    return [[(one.output_type, *sorted(one.get("data", {}))) for one in cell.outputs] for cell in cells]


@pytest.mark.filterwarnings("ignore::DeprecationWarning:zmq", "ignore::DeprecationWarning:jupyter_client")
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_tutorial_runs_and_shows_what_it_keeps(path: Path, tmp_path: Path) -> None:
    kept = read(path)
    assert shown(executed(path, tmp_path)) == shown(kept)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_tutorial_keeps_no_place_no_time_and_no_error(path: Path) -> None:
    text, kept = path.read_text(encoding="utf-8"), read(path)
    nbformat.validate(kept)
    assert not ELSEWHERE.search(text)
    assert len(text) < 200_000
    cells = [cell for cell in kept.cells if cell.cell_type == "code"]
    assert all(cell.metadata == {} for cell in kept.cells)
    assert all(one.output_type != "error" and one.get("name") != "stderr" for cell in cells for one in cell.outputs)
    assert sum("text/html" in one.get("data", {}) for cell in cells for one in cell.outputs) >= 3


def test_there_are_two() -> None:
    assert [path.stem for path in NOTEBOOKS] == ["budget-and-ledger", "first-table"]
