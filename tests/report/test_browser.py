"""Reports in a real browser: the system's chromium, driven by Playwright. One browser for all of them, in one process."""

from __future__ import annotations

import itertools
import re
import shutil
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, sync_playwright
from published_tables import HOSTILE, KINDS, many, of_keys, of_two_keys, over_time

from dphist.run.release import Published
from dphist.show.table import MOST_LETTERS, MOST_ROWS, NULL
from dphist.words import cut, printable
from example_numbers import some

pytestmark = pytest.mark.xdist_group("browser")

Open: TypeAlias = Callable[..., Page]
PHONE = {"width": 360, "height": 740}
CELLS = "rows => rows.map(row => [...row.cells].map(cell => cell.textContent))"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    path = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))))
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def opened(browser: Browser, tmp_path: Path) -> Iterator[Open]:
    """Opens reports. No page may ask for anything but itself, write to the console, fail, or open a dialog."""
    names, contexts, wrong, requests = itertools.count(), [], [], []

    def open_page(published: Published | str, **options: Any) -> Page:
        path = tmp_path / f"{next(names)}.html"
        path.write_text(page_of(published) if isinstance(published, str) else published.html())
        context = browser.new_context(**{"viewport": {"width": 1000, "height": 800}, **options})
        context.set_default_timeout(15_000)
        contexts.append(context)
        page = context.new_page()
        page.on("request", lambda request: requests.append(request.url))
        for event in ("console", "pageerror", "dialog"):
            page.on(event, lambda what: wrong.append(str(what)))
        page.goto(path.as_uri())
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert wrong == []
    assert requests == [(tmp_path / f"{i}.html").as_uri() for i in range(len(contexts))]


@cache
def page_of(kind: str) -> str:
    return KINDS[kind]().html()


def shown(page: Page) -> list[list[str]]:
    found: list[list[str]] = page.eval_on_selector_all("#table tbody tr", CELLS)
    return found


def first_column(page: Page) -> list[str]:
    return [row[0] for row in shown(page)]


def status(page: Page) -> str:
    return page.inner_text("#status")


def test_search_finds_rows_wherever_they_are(opened: Open) -> None:
    page = opened(many(3000))
    page.fill("#search", "ITEM 2999")
    assert shown(page) == [["item 2999", "2999", "10.0 ± 5.0"]]
    assert status(page) == "Rows 1 to 1 of 1 that match, of 3,000 in all."
    page.fill("#search", "em 29")
    assert status(page).startswith("Rows 1 to 25 of 111 that match")
    page.fill("#search", "nobody")
    assert shown(page) == []
    assert status(page) == "No row matches."
    page.fill("#search", "")
    assert status(page) == "Rows 1 to 25 of 3,000."
    assert page.get_attribute("#status", "role") == "status"


def test_sort_is_by_value_and_by_key(opened: Open) -> None:
    page = opened(many(120))
    item, size, count = (page.get_by_role("button", name=name, exact=True) for name in ("item", "size", "count"))
    assert page.locator("th[aria-sort]").count() == 0
    count.click()
    assert page.get_attribute("th[aria-sort]", "aria-sort") == "descending"
    assert [row[2] for row in shown(page)][:2] == ["1,200.0 ± 5.0", "1,190.0 ± 5.0"]
    count.click()
    assert page.get_attribute("th[aria-sort]", "aria-sort") == "ascending"
    assert [row[2] for row in shown(page)][:2] == ["10.0 ± 5.0", "20.0 ± 5.0"]
    item.click()
    assert first_column(page)[:3] == ["item 0", "item 1", "item 2"]  # numbers in texts count as numbers
    size.click()
    size.click()
    assert [row[1] for row in shown(page)][:2] == ["119", "118"]
    assert page.locator("th[aria-sort]").count() == 1
    page.fill("#search", "item 11")
    assert first_column(page)[0] == "item 119"  # a search keeps the order


def test_missing_keys_come_last_in_order(opened: Open) -> None:
    page = opened(of_keys(["b", None, "a"]))
    page.get_by_role("button", name="key", exact=True).click()
    assert first_column(page) == ["a", "b", NULL]


def test_pages_cover_all_rows_once(opened: Open) -> None:
    page = opened(many(130))
    page.select_option("#size", "50")
    seen = first_column(page)
    for _ in range(2):
        page.click("#next")
        seen += first_column(page)
    assert seen == [f"item {i}" for i in range(130)]
    assert page.get_attribute("#next", "aria-disabled") == "true"
    page.click("#first")
    assert status(page) == "Rows 1 to 50 of 130."
    page.click("#last")
    assert status(page) == "Rows 101 to 130 of 130."
    page.click("#back")
    assert first_column(page)[0] == "item 50"
    page.select_option("#size", "500")
    assert len(shown(page)) == 130
    assert page.is_hidden(".pages")


def test_a_huge_table_is_bounded_and_says_so(opened: Open, tmp_path: Path) -> None:
    published = many(MOST_ROWS + 1)
    assert len(published.html()) < 3_000_000
    page = opened(published)
    assert "This page holds the first 20,000 of 20,001 rows; the table file has all of them." in page.inner_text("main")
    page.fill("#search", f"item {MOST_ROWS - 1}")
    assert len(shown(page)) == 1
    page.fill("#search", f"item {MOST_ROWS}")
    assert shown(page) == []


def test_without_javascript_it_is_a_good_page(opened: Open) -> None:
    with_script = opened(many(60))
    page = opened(many(60), java_script_enabled=False)
    rows = page.locator("#table tbody tr")
    assert rows.count() == 25
    assert rows.first.locator("td").all_text_contents() == ["item 0", "0", "600.0 ± 5.0"] == shown(with_script)[0]
    assert page.is_hidden(".controls")
    assert page.is_hidden(".pages")
    assert page.locator("th button").count() == 0
    assert "The first 25 of 60 rows. Search and paging need JavaScript." in page.inner_text("main")
    page.click("summary")
    assert page.locator("details h3").first.is_visible()


@pytest.mark.parametrize("script", [True, False], ids=["script", "no script"])
def test_hostile_keys_are_text(opened: Open, script: bool) -> None:
    page = opened(of_keys(HOSTILE), java_script_enabled=script)
    wanted = [NULL if key is None else cut(printable(key), MOST_LETTERS) for key in HOSTILE]
    assert page.locator("#table tbody tr td:first-child").all_text_contents() == wanted
    assert page.locator("#table tbody i").count() == 1  # the missing key, not the text that looks like it
    assert page.locator("main img, main a:not([href='#guarantee'])").count() == 0
    if script:
        assert page.evaluate("window.hacked") is None
        page.fill("#search", "</SCRIPT>")
        assert len(shown(page)) == 1
        page.get_by_role("button", name="key", exact=True).click()


@pytest.mark.parametrize("kind", some(list(KINDS), 3))
def test_a_phone_never_scrolls_sideways(opened: Open, kind: str) -> None:
    page = opened(kind, viewport=PHONE)
    page.click("summary")
    assert page.evaluate("document.documentElement.scrollWidth") == 360
    narrow = "es => es.filter(e => e.textContent.length > 3 && e.clientWidth < 90).map(e => e.textContent)"
    assert page.eval_on_selector_all("td.text div, p, dd, figcaption, h1, h2, li", narrow) == []
    too_small = "es => es.filter(e => parseFloat(getComputedStyle(e).fontSize) < 11).map(e => e.textContent)"
    assert page.eval_on_selector_all("main *", too_small) == []


@pytest.mark.parametrize(("scheme", "dark"), [("light", False), ("dark", True)])
def test_colours_follow_the_reader(opened: Open, scheme: str, dark: bool) -> None:
    page = opened(of_two_keys(), color_scheme=scheme)
    paper, ink = (_brightness(page, "main", part) for part in ("backgroundColor", "color"))
    assert (paper < 60 and ink > 200) if dark else (paper > 240 and ink < 60)


def _brightness(page: Page, selector: str, part: str) -> float:
    colour = page.eval_on_selector(selector, f"e => getComputedStyle(e).{part}")
    return sum(map(float, re.findall(r"[\d.]+", colour)[:3])) / 3


def test_paper_shows_everything_in_black_on_white(opened: Open) -> None:
    page = opened(many(130), color_scheme="dark")
    assert page.locator("details h3").first.is_hidden()
    page.emulate_media(media="print")
    page.locator("#table tbody tr").nth(129).wait_for(state="attached")
    assert _brightness(page, "main", "backgroundColor") == 255
    assert _brightness(page, "main", "color") == 0
    assert page.locator("details h3").first.is_visible()
    for control in (".controls", ".pages", "#status", "summary"):
        assert page.locator(control).is_hidden()
    page.emulate_media(media="screen")
    page.locator("#table tbody tr").nth(129).wait_for(state="detached")
    assert page.locator("details h3").first.is_hidden()


def test_everything_works_with_the_keyboard_alone(opened: Open) -> None:
    page = opened(many(60))

    def tab_to(name: str) -> None:
        for _ in range(30):
            page.keyboard.press("Tab")
            if page.evaluate("document.activeElement.id || document.activeElement.textContent").strip() == name:
                return
        raise AssertionError(name)

    tab_to("What this means")
    page.keyboard.press("Enter")
    assert page.evaluate("location.hash") == "#guarantee"
    page.evaluate("document.activeElement.blur(); getSelection().removeAllRanges()")
    page = opened(many(60))
    tab_to("search")
    page.keyboard.type("item 5")
    assert len(shown(page)) == 11
    tab_to("size")
    tab_to("count")
    page.keyboard.press("Space")
    page.keyboard.press("Space")
    assert first_column(page)[0] == "item 59"
    page.fill("#search", "")
    tab_to("next")
    page.keyboard.press("Enter")
    page.keyboard.press("Enter")
    page.keyboard.press("Enter")  # the last page: nothing happens, and the focus stays
    assert status(page) == "Rows 51 to 60 of 60."
    assert page.evaluate("document.activeElement.id") == "next"
    tab_to("Technical appendix")
    page.keyboard.press("Enter")
    assert page.locator("details h3").first.is_visible()


LOOKS: list[tuple[str, dict[str, Any]]] = [
    *((kind, {}) for kind in KINDS),
    *((kind, {"color_scheme": "dark"}) for kind in ("bars", "time", "heat")),
    *((kind, {"viewport": PHONE}) for kind in ("bars", "time", "heat")),
]
ALWAYS: list[tuple[str, dict[str, Any]]] = [
    ("keys", {}),
    ("hostile", {}),
    ("heat", {"color_scheme": "dark"}),
    ("time", {"viewport": PHONE}),
]
"""Every picture and every look once; `make test-long` has the others."""


@pytest.mark.parametrize(
    ("kind", "options"),
    [look if look in ALWAYS else pytest.param(*look, marks=pytest.mark.long) for look in LOOKS],
    ids=str,
)
def test_axe_finds_no_violation(opened: Open, kind: str, options: dict[str, Any]) -> None:
    page = opened(kind, **options)
    page.click("summary")
    results = Axe().run(page)
    assert results.violations_count == 0, results.generate_report()


def test_axe_would_notice(opened: Open) -> None:
    page = opened(over_time())
    page.evaluate("document.querySelector('svg').removeAttribute('aria-labelledby')")
    page.evaluate("document.querySelector('svg title').remove(); document.documentElement.removeAttribute('lang')")
    assert Axe().run(page).violations_count >= 2


def test_tables_and_pictures_have_names(opened: Open) -> None:
    page = opened(over_time())
    pictures = page.get_by_role("img")
    assert pictures.count() >= 2
    assert pictures.first.get_attribute("aria-labelledby") == "chart-title chart-words"
    assert page.get_by_role("img", name="Counts by day, over time").count() == 1
    assert page.locator("#table caption").count() == 1
    assert page.locator("#table th:not([scope])").count() == 0
