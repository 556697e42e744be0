"""Which picture a key gets, and that pictures say what the table says."""

from __future__ import annotations

import datetime as dt
import re
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from published_tables import keys_alone, of_keys, of_two_keys, one_number, over_time, release

from dphist.run.release import Release
from dphist.show import svg
from dphist.show.charts import MOST_BARS, Chart, chart, moments
from dphist.show.table import labels, reaches
from dphist.words import cut, printable

LONG = [f"https://example.com/shop/a-category-with-a-long-name/{i}/reviews-of-the-product" for i in range(30)]


def drawn(published: Release) -> Chart | None:
    told = published.metadata()
    return chart(published.table, told["by"], told["intervals"])


def picture(published: Release) -> str:
    found = drawn(published)
    assert found is not None
    return found.picture


@given(st.lists(st.text(min_size=1), unique_by=printable, max_size=12), st.integers(12, 40))
def test_labels_of_different_keys_differ(keys: list[str], most: int) -> None:
    assert len(set(labels(keys, most))) == len(keys)


@given(st.text("ab漢", max_size=90), st.integers(3, 40))
def test_a_cut_text_keeps_both_ends_and_fits(text: str, most: int) -> None:
    short = cut(text, most)
    assert sum(2 if letter == "漢" else 1 for letter in short) <= most
    head, mark, tail = short.partition("…")
    assert (short == text) if not mark else (text.startswith(head) and text.endswith(tail))


def test_long_keys_are_told_apart_and_whole_in_the_title() -> None:
    text = picture(of_keys(LONG))
    labels = re.findall(r'class="ink halo" [^>]*>([^<]+)<', text)
    assert len(labels) == len(set(labels)) == MOST_BARS
    assert all(f"<title>{key}: " in text for key in LONG[:MOST_BARS])


@pytest.mark.parametrize("level", [None, 0.95])
def test_whiskers_are_what_the_table_says(level: float | None) -> None:
    published = of_keys(["a", "b", "c"], level=level)
    low, high = reaches(published.table, "count", level)
    assert (high - low).tolist() == pytest.approx([10.0 if level is None else 22.0] * 3)
    scale = svg.Scale(0.0, float(high.max()), 0.0, 100.0, most=4)
    lines = re.findall(r'class="whisker" x1="([\d.]+)%" y1="([\d.]+)" x2="([\d.]+)%" y2="\2"', picture(published))
    assert [(float(x1), float(x2)) for x1, _, x2 in lines] == [
        pytest.approx((scale(a), scale(b)), abs=0.01) for a, b in zip(low, high, strict=True)
    ]
    caption = drawn(published)
    assert caption is not None
    assert ("95 % intervals" if level else "one standard error") in caption.caption
    assert ("990.0 to 1,012.0" if level else "1,000.0 ± 5.0") in published.html().replace("<span>", "").replace(
        "</span>", ""
    )


DAYS = [dt.date(2024, 2, 28) + dt.timedelta(i) for i in (2, 0, 1)]


@pytest.mark.parametrize(
    "keys",
    [
        pa.array(DAYS),
        pa.array([dt.datetime(2024, 1, 1, hour) for hour in (23, 1, 12)]),
        pa.array([dt.datetime(2024, 1, 1, hour, tzinfo=dt.UTC) for hour in (23, 1, 12)]),
        pa.array([str(day) for day in DAYS]),
        pa.array(["2024-12", "2023-01", "2024-02"]),
        pa.array(["2024", "1999", "2001"]),
        pa.array(["2024-01-01T10:00", "2024-01-01T08:30", "2024-01-01T09:59"]),
    ],
    ids=["date", "time", "zone", "day", "month", "year", "minute"],
)
def test_days_are_in_the_order_of_time(keys: pa.Array) -> None:
    """Whatever the order of the table, which is by count."""
    text = picture(of_keys(keys.to_pylist()))
    titles = [title.partition(":")[0] for title in re.findall(r"<g><title>([^<]+): [\d,]+</title>", text)]
    assert [title[:10] for title in titles] == sorted(title[:10] for title in titles)
    assert titles[0][:10] == str(keys[1].as_py())[:10]
    places = [float(x) for x in re.findall(r'<circle class="point" cx="([\d.]+)%', text)]
    assert places == sorted(places)
    assert len(places) == 3


def test_years_are_known_by_their_name() -> None:
    assert moments(pa.chunked_array([[2001, 1999]]), "birth_year") == [2001.0, 1999.0]
    assert moments(pa.chunked_array([[2001, 1999]]), "product") is None
    assert moments(pa.chunked_array([[2001, 9]]), "year") is None


@pytest.mark.parametrize(
    "keys", [["2024-01-01", "soon"], ["2024-02-30", "2024-01-01"], ["2024-00", "2024-01"], ["x", None]]
)
def test_other_texts_are_no_dates(keys: list[Any]) -> None:
    found = drawn(of_keys(keys))
    assert found is not None
    assert found.heading == "All groups"


def test_a_time_line_breaks_where_groups_are_missing() -> None:
    found = drawn(over_time())
    assert found is not None
    assert found.picture.count("<polyline") == 2
    assert "Records without day are one group" in found.caption
    assert picture(over_time(9)).count("<polyline") == 1


def test_two_keys_make_a_heat_map_of_their_counts() -> None:
    text = picture(of_two_keys())
    assert text.count("<tr>") == 8
    assert re.findall(r"<td[^>]*>([\d,]+)</td>", text) != []
    assert text.count('<td class="none">·</td>') == 1
    assert '<td class="h6">810</td>' in text
    assert sorted(int(count) for count in re.findall(r'<td class="h\d">(\d+)<', text)) == [30 * i for i in range(1, 28)]


def test_keys_that_are_not_numbers_do_not_hide_cells() -> None:
    columns = {"a": [float("nan"), float("nan"), 1.0], "b": ["x", "y", "x"]}
    assert re.findall(r'<td class="h\d">(\d+)<', picture(release(columns, [30, 20, 10]))) == ["30", "20", "10"]


def test_there_is_no_picture_of_nothing() -> None:
    assert drawn(of_keys(["a"])) is None
    assert drawn(of_keys([])) is None
    assert drawn(keys_alone()) is None
    assert drawn(one_number()) is None


def test_negative_counts_stay_in_the_picture() -> None:
    text = picture(release({"key": ["a", "b"]}, [40.0, -20.0]))
    assert all(0 <= float(x) <= 100 for x in re.findall(r'x1="(-?[\d.]+)%"', text))
    assert len(re.findall(r'class="bar"', text)) == 2


@given(st.floats(-1e9, 1e9), st.floats(0, 1e9), st.integers(1, 8))
def test_ticks_are_few_and_hold_all_values(low: float, span: float, most: int) -> None:
    ticks = svg.nice_ticks(low, low + span, most)
    assert 2 <= len(ticks) <= most + 2
    invisible = 1e-6 * max(abs(low), abs(low + span))  # of the longest bar
    assert ticks[0] <= low + invisible
    assert ticks[-1] >= low + span - invisible
