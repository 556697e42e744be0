"""Executed notebooks as pages of the site: text as it stands, code with what it printed or showed. A hook of mkdocs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import nbformat
from mkdocs.structure.files import File, Files

FOLDER = Path(__file__).resolve().parents[1] / "notebooks"


def on_files(files: Files, config: Any) -> Files:
    """Add a page for each."""
    for path in sorted(FOLDER.glob("*.ipynb")):
        files.append(File.generated(config, f"notebooks/{path.stem}.md", content=as_markdown(path)))
    return files


def as_markdown(path: Path) -> str:
    """The page of a notebook, with a link to the notebook itself."""
    cells = nbformat.read(path, as_version=4).cells  # type: ignore[no-untyped-call]
    parts = [part for cell in cells for part in _parts(cell)]
    return "\n\n".join([*parts, f"[Download this page as a notebook]({path.name})"]) + "\n"


def _parts(cell: Any) -> list[str]:
    if cell.cell_type != "code":
        return [cell.source]
    return [f"```python\n{cell.source}\n```", *(_shown(output) for output in cell.outputs)]


def _shown(output: Any) -> str:
    """The richest form of an output that a page can show."""
    if output.output_type == "stream":
        return f"```text\n{output.text.rstrip()}\n```"
    data = output.data
    if "image/png" in data:
        return f'<img alt="What the code above draws" src="data:image/png;base64,{data["image/png"].strip()}">'
    if "text/html" in data:
        lines = [line for line in data["text/html"].splitlines() if line.strip()]  # a blank line would end the block
        return "\n".join(['<div class="output">', *lines, "</div>"])
    return f"```text\n{data['text/plain']}\n```"
