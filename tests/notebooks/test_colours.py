"""In a browser: whatever is shown has the ink and the ground of the notebook, light or dark."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from picture import CHROMIUM, THEMES, cells_of, page
from playwright.sync_api import Browser, sync_playwright
from tutorials import FOLDER

COLOURS = """
theme => [...document.querySelectorAll(`main.${theme} *:not(pre)`)].filter(one => !one.closest("svg")).map(one => {
    const style = getComputedStyle(one);
    return [style.color, style.backgroundColor, one.scrollWidth <= one.clientWidth + 1 || style.display === "inline"];
})
"""
LINES = """
theme => [...document.querySelectorAll(`main.${theme} svg path[stroke=currentColor]`)].map(one => getComputedStyle(one).stroke)
"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.mark.parametrize("name", ["first-table", "budget-and-ledger"])
def test_tables_take_the_colours_of_the_notebook(name: str, browser: Browser) -> None:
    cells = [cell for cell in cells_of(FOLDER / f"{name}.ipynb", 1, 99) if "max-width:62em" in cell[1]]
    assert len(cells) >= 3
    seen = browser.new_page(viewport={"width": 1400, "height": 800})
    seen.set_content(page(cells))
    for theme, (_, ink, _) in THEMES.items():
        wanted = f"rgb({', '.join(str(int(ink[i : i + 2], 16)) for i in (1, 3, 5))})"
        found = seen.evaluate(COLOURS, theme)
        assert len(found) > 100
        assert {colour for colour, _, _ in found} == {wanted}
        assert {ground for _, ground, _ in found} == {"rgba(0, 0, 0, 0)"}
        assert all(fits for *_, fits in found)
        assert set(seen.evaluate(LINES, theme)) == {wanted}
