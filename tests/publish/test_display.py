"""Objects as Python and notebooks show them: short, escaped, in the colours of the notebook, and without reading anything."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import escape
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dphist as dp
from dphist import demo, notebook
from dphist.errors import InvalidParameter, MissingExtra
from dphist.run.release import Release

TAGS = {"div", "b", "p", "table", "thead", "tbody", "tr", "th", "td", "svg", "rect", "path", "text"}
BUDGET: dict[str, Any] = {"epsilon": 1, "delta": 1e-6}
EVENTS = demo.events().slice(0, 20_000)


class Reader(HTMLParser):
    """What a browser would see: elements that are closed as they were opened, and text."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: set[str] = set()
        self.attributes: set[str] = set()
        self.words: list[str] = []
        self.feed(page)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.add(tag)
        self.attributes |= {name for name, _ in attrs}
        self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.add(tag)
        self.attributes |= {name for name, _ in attrs}

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words.append(data)


@pytest.fixture(scope="module")
def objects(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    """One of every kind that a notebook may show."""
    folder = tmp_path_factory.mktemp("objects")
    sums = dp.plan(**BUDGET, max_groups=3, sums={"likes": (0, 5)})
    with dp.Ledger(folder / "ledger.db", create=True) as ledger:
        ledger.create(dp.DataSet("visits", 2, 1e-6, "user_id", "gdp"))
        paid: dict[str, Any] = {"ledger": folder / "ledger.db", "dataset": "visits"}
        small: dict[str, Any] = {"unit": "user_id", "by": "country", "epsilon": 0.2, "delta": 1e-8, "max_groups": 1}
        release = dp.release(EVENTS, **small, intervals=0.9, **paid)
        session = dp.Session.start(folder / "s.json", unit="user_id", **BUDGET, results=20, queries=2)
        stream = dp.Continual.start(folder / "stream", unit="user", by="item", rounds=9, max_groups=1, **BUDGET)
        yield {
            "plan": sums,
            "open plan": dp.plan(**BUDGET),
            "public keys": dp.plan(epsilon=1, delta=0, keys=["DE", "FR"]),
            "top-k plan": dp.plan_top_k(k=3, **BUDGET),
            "release": release,
            "sums": dp.release(EVENTS, unit="user_id", by=["url", "country"], plan=sums),
            "one row": dp.release(EVENTS, unit="user_id", epsilon=1, delta=0),
            "empty": dp.release(EVENTS.slice(0, 5), **small),
            "totals": dp.release(EVENTS, **small, total=True),
            "keys": dp.select(EVENTS, unit="user_id", by="country", **BUDGET),
            "top-k": dp.top_k(EVENTS, unit="user_id", by="url", k=3, **BUDGET),
            "ranked": dp.top_k(EVENTS, unit="user_id", by="url", k=3, **BUDGET, method="ranked"),
            "running": stream.add(demo.monday(), "monday"),
            "statistic": dp.stat(
                "median", EVENTS, unit="user_id", column="age", lower=0, upper=120, error=2, epsilon=1
            ),
            "bounds": dp.bounds(EVENTS, unit="user_id", column="amount", epsilon=1),
            "session": session,
            "stream": stream,
            "ledger": ledger,
            "status": ledger.status("visits"),
            "dataset": ledger.dataset("visits"),
        }


def test_every_object_is_one_short_line(objects: dict[str, Any]) -> None:
    for name, one in objects.items():
        text = repr(one)
        assert "\n" not in text, name
        assert text.startswith(f"{type(one).__name__}("), name
        assert len(text) <= 160, (name, text)


def test_every_object_is_well_formed_in_a_notebook(objects: dict[str, Any]) -> None:
    for name, one in objects.items():
        if name == "dataset":
            continue
        page = one._repr_html_()
        seen = Reader(page)
        assert seen.seen <= TAGS, name
        assert len(page) < 20_000, name
        for bad in ("http", "white", "black", "#fff", "#000", "<style", "<script", "url("):
            assert bad not in page.lower().replace("white-space", ""), (name, bad)
        if name != "ledger":
            assert "Guarantee" in page or "guarantee" in page or name == "status", name


def test_a_release_shows_values_with_errors_a_bar_for_each_and_the_guarantee(objects: dict[str, Any]) -> None:
    release = objects["release"]
    page, words = release._repr_html_(), Reader(release._repr_html_()).words
    assert page.count("<svg") == 10
    assert sum(" ± " in word for word in words) == 10
    assert any(word.endswith(release.metadata()["guarantee"]) for word in words)
    assert "Whiskers are intervals of 90 %" in page
    row = release.to_arrow().slice(0, 1).to_pylist()[0]
    low, high = (f"{row[name]:,.0f}" for name in ("count_low", "count_high"))
    assert f"from {low} to {high}" in page.replace("from " + low.replace(",", ""), "from " + low)
    assert "<svg" not in objects["keys"]._repr_html_()
    assert "No group was released" in objects["empty"]._repr_html_()
    assert "units in all" in objects["totals"]._repr_html_()


@settings(max_examples=25)
@given(st.lists(st.text(min_size=1, max_size=90), min_size=1, max_size=3), st.floats(-10, 1e6), st.floats(0, 1e3))
def test_no_key_becomes_markup(keys: list[str], value: float, error: float) -> None:
    reaches = [notebook.Reach(value, value - error, value + error)] * len(keys)
    page = notebook.listing(
        "t", ["key", "<b>count</b>"], [[key, "1"] for key in keys], reaches, keys=1, guarantee=keys[0]
    )
    harmless = Reader(notebook.listing("t", ["key", "count"], [["k", "1"]], reaches[:1], keys=1, guarantee="g"))
    seen = Reader(page)
    assert seen.seen == harmless.seen
    assert seen.attributes - {"title"} == harmless.attributes


class _Untouched:
    """A table that is elsewhere: whoever asks for anything of it fails."""

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(f"{name} was asked for")


def test_showing_a_release_on_spark_asks_spark_for_nothing(objects: dict[str, Any]) -> None:
    here = objects["release"]
    there = Release(_Untouched(), here.plan, here.selection, None, here.created)
    assert repr(there) == re.sub(r"\d+ groups", "a table on Spark", repr(here))
    assert "to_spark()" in there._repr_html_()


def test_a_ledger_with_a_password_does_not_show_it() -> None:
    ledger = dp.Ledger("postgresql://me:secret@localhost:1/budget")
    assert "secret" not in repr(ledger)


def test_a_plot_has_a_bar_for_each_of_the_largest_and_whiskers_as_published(objects: dict[str, Any]) -> None:
    import matplotlib.pyplot as plt

    release = objects["release"]
    axes = release.plot(5)
    rows = release.to_arrow().sort_by([("count", "descending")]).slice(0, 5).to_pylist()
    assert [label.get_text() for label in axes.get_yticklabels()] == [row["country"] for row in rows]
    bars, whiskers = axes.containers
    assert [patch.get_width() for patch in getattr(bars, "patches", whiskers)] == [row["count"] for row in rows]
    segments = [segment for line in axes.collections for segment in line.get_segments()]
    ends = [(row["count_low"], row["count_high"]) for row in rows]
    assert np.array([(a[0], b[0]) for a, b in segments]) == pytest.approx(np.array(ends))
    title = " ".join(axes.get_title(loc="left").split())
    assert title == f"Whiskers are intervals of 90 %. {release.left_out()}"
    _, own = plt.subplots()
    assert release.plot(axes=own) is own
    plt.close("all")


def test_days_are_drawn_in_their_order() -> None:
    import matplotlib.pyplot as plt

    months = ["month=date_trunc('month', day)"]
    release = dp.release(EVENTS, unit="user_id", by=months, epsilon=5, delta=1e-6, max_groups=2)
    axes = release.plot()
    drawn = np.asarray(axes.lines[0].get_xdata()).tolist()
    assert drawn == sorted(row["month"] for row in release.to_arrow().to_pylist())
    plt.close("all")


def test_what_cannot_be_drawn_says_why(objects: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    with pytest.raises(InvalidParameter, match="a table with counts"):
        objects["keys"].plot()
    with pytest.raises(InvalidParameter, match="most"):
        objects["release"].plot(0)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(MissingExtra, match=r"pip install 'dphist\[plot\]'"):
        objects["release"].plot()


def test_dir_lists_every_public_name_without_loading_it() -> None:
    assert set(dp.__all__) <= set(dir(dp))
    assert pa.Table  # loaded by this test, not by dir


def test_a_card_of_a_table_elsewhere_needs_no_file(tmp_path: Path) -> None:
    session = dp.Session.start(tmp_path / "s.json", unit="user_id", **BUDGET, results=5, queries=2)
    session.path.unlink()
    assert repr(session) == "Session('s.json')"


HOSTILE = "<i onclick='go(\"1\")'>&amp;"
"""Letters that would be markup, and look like it is escaped already."""


def test_every_word_of_a_card_and_of_a_listing_is_escaped() -> None:
    """Wherever it stands: in cells of keys and of values, in heads, notes, titles and labels that are read aloud."""
    reach = notebook.Reach(1.0, 0.0, 2.0)
    pages = {
        "card": notebook.card(HOSTILE, [(HOSTILE, HOSTILE)]),
        "listing": notebook.listing(
            HOSTILE, [HOSTILE, HOSTILE], [[HOSTILE, HOSTILE]], [reach], keys=1, notes=[HOSTILE], guarantee=HOSTILE
        ),
        "share": notebook.share(0.5, HOSTILE),
        "curve": notebook.curve([(1.0, 0.5)], HOSTILE, HOSTILE),
    }
    words = {"card": 3, "listing": 7, "share": 0, "curve": 1}
    for name, page in pages.items():
        seen = Reader(page)
        assert "i" not in seen.seen
        assert "onclick" not in seen.attributes
        assert sum(HOSTILE in word for word in seen.words) == words[name], name
    for name in ("share", "curve"):
        assert 'aria-label="' + escape(HOSTILE) + '"' in pages[name]
    long = 9 * HOSTILE
    assert 'title="' + escape(long) + '"' in notebook.listing("t", ["k"], [[long]], [], keys=1)
