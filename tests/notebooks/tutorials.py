"""Run the tutorials of docs/notebooks and keep what they show: python tests/notebooks/tutorials.py"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient

FOLDER = Path(__file__).parents[2] / "docs" / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))


def read(path: Path) -> Any:
    """A notebook as it is kept."""
    return nbformat.read(path, as_version=4)  # type: ignore[no-untyped-call]


def run(notebook: Any, folder: Path) -> None:
    """From the first cell to the last, in a folder."""
    os.environ.setdefault("JUPYTER_PLATFORM_DIRS", "1")
    client = NotebookClient(
        notebook, timeout=300, kernel_name="python3", record_timing=False, resources={"metadata": {"path": str(folder)}}
    )
    client.execute()


def executed(path: Path, folder: Path) -> Any:
    """The notebook after a run in a folder, without what differs between machines: times, versions, numbers of runs."""
    notebook = read(path)
    run(notebook, folder)
    notebook.metadata = {"kernelspec": {"name": "python3", "display_name": "Python 3"}}
    for number, cell in enumerate(notebook.cells):
        cell.metadata = {}
        cell.id = f"cell-{number}"
    return notebook


def main() -> None:
    """Run all of them."""
    for path in NOTEBOOKS:
        with tempfile.TemporaryDirectory() as folder:
            nbformat.write(executed(path, Path(folder)), path)  # type: ignore[no-untyped-call]
        print(path.name, path.stat().st_size)


if __name__ == "__main__":
    main()
