"""The tutorials run from the first cell to the last, and what they keep is what they show."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import nbformat
import pytest
from tutorials import NOTEBOOKS, executed, read, run

ELSEWHERE = re.compile(r"(?<![\w.])/(?:home|tmp|work|root|Users|usr)/")


def shown(notebook: Any) -> list[list[tuple[str, ...]]]:
    """What kinds of output each cell has."""
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    return [[(one.output_type, *sorted(one.get("data", {}))) for one in cell.outputs] for cell in cells]


LIBRARIES = ("ignore::DeprecationWarning:zmq", "ignore::DeprecationWarning:jupyter_client")


@pytest.mark.filterwarnings(*LIBRARIES)
def test_the_tutorials_run_and_show_what_they_keep(tmp_path: Path) -> None:
    """One after the other in one kernel, whose start takes longer than they do: in folders of their own, with no name left."""
    together = nbformat.v4.new_notebook()  # type: ignore[no-untyped-call]
    for path in NOTEBOOKS:
        (tmp_path / path.stem).mkdir()
        between = f"import os\nos.chdir({str(tmp_path / path.stem)!r})\n%reset -f"
        together.cells += [nbformat.v4.new_code_cell(between), *read(path).cells]  # type: ignore[no-untyped-call]
    for number, cell in enumerate(together.cells):
        cell.id = f"cell-{number}"
    run(together, tmp_path)
    kept = [[], *shown(read(NOTEBOOKS[0])), [], *shown(read(NOTEBOOKS[1]))]
    assert shown(together) == kept


@pytest.mark.long
@pytest.mark.filterwarnings(*LIBRARIES)
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
