"""A tutorial as Jupyter shows it, light and dark side by side: python tests/notebooks/picture.py"""

from __future__ import annotations

import html
import io
import shutil
from pathlib import Path

from PIL import Image
from playwright.sync_api import sync_playwright
from tutorials import FOLDER, read

PICTURE = FOLDER.parent / "pictures" / "notebook.png"
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))))
THEMES = {"light": ("#ffffff", "#1f1f1f", "#f5f5f5"), "dark": ("#111111", "#e0e0e0", "#1e1e1e")}
STYLE = """
body { margin: 0; display: grid; grid-template-columns: 1fr 1fr; font: 13px/1.4 system-ui, sans-serif; }
main { padding: 14px 18px; background: var(--paper); color: var(--ink); }
pre { margin: 6px 0 8px; padding: 6px 10px; background: var(--code); font: 12px/1.45 monospace; white-space: pre-wrap; }
"""


def page(cells: list[tuple[str, str]]) -> str:
    """Code and what it shows, once on each ground."""
    body = "".join(f"<pre>{html.escape(source)}</pre>{shown}" for source, shown in cells)
    sides = [
        f'<main class="{name}" style="--paper:{paper};--ink:{ink};--code:{code};color-scheme:{name}">{body}</main>'
        for name, (paper, ink, code) in THEMES.items()
    ]
    return f'<!DOCTYPE html><html lang="en"><meta charset="utf-8"><style>{STYLE}</style><body>{"".join(sides)}</body></html>'


def cells_of(path: Path, first: int, last: int) -> list[tuple[str, str]]:
    """Some of the cells whose output is a table of ours."""
    cells = [cell for cell in read(path).cells if cell.cell_type == "code"][first:last]
    return [
        (cell.source, one["data"]["text/html"])
        for cell in cells
        for one in cell.outputs
        if "text/html" in one.get("data", {})
    ]


def main() -> None:
    """Draw it."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        seen = browser.new_page(viewport={"width": 1280, "height": 600})
        seen.set_content(page(cells_of(FOLDER / "first-table.ipynb", 1, 3)))
        drawn = Image.open(io.BytesIO(seen.screenshot(full_page=True)))
        drawn.convert("RGB").quantize(96).save(PICTURE, optimize=True)
        browser.close()
    print(PICTURE.name, PICTURE.stat().st_size)


if __name__ == "__main__":
    main()
