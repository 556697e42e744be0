"""What a report says, in every form that it is written in; and that keys are text in each of them."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from published_tables import CREATED, HOSTILE, KINDS, many, of_keys, of_two_keys, one_number, over_time

import dphist as dp
from dphist.cli.app import app
from dphist.columns import not_protected
from dphist.run.release import Published, Release, Selection
from dphist.show.page import FIRST_ROWS, as_json

CHEAP = [kind for kind in KINDS if kind != "keys"]


def rows_of(page: str) -> list[list[str | None]]:
    """What the script reads."""
    (text,) = re.findall(r'<script type="application/json" id="rows">([^<>&]*)</script>', page)
    rows: list[list[str | None]] = json.loads(text)["rows"]
    return rows


@pytest.mark.parametrize("kind", CHEAP)
def test_every_form_says_the_same(kind: str) -> None:
    published: Published = KINDS[kind]()
    content = published.content()
    text = " ".join(published.summary().split())
    markdown = " ".join(published.summary(markdown=True).replace("\\", "").split())
    assert [label for label, _ in content.headline] == ["Counted", "For whom", "How sure", "Missing"]
    for words in (content.title, *(words for _, words in content.headline), content.guarantee, content.citation):
        assert words in text
        assert words in markdown
    assert "ledger" not in (published.html().partition('id="metadata"')[0] + text + markdown).lower()
    if kind not in ("hostile", "ranked"):
        assert "±" in text or " to " in text


@pytest.mark.parametrize("kind", CHEAP)
def test_the_same_table_gives_the_same_bytes(kind: str) -> None:
    assert KINDS[kind]().html() == KINDS[kind]().html()


def test_the_headline_is_in_plain_words() -> None:
    told = dict(of_two_keys().content().headline)
    assert told["Counted"] == (
        "For each country and browser: how many different values of user_id there are. Units are counted, not rows."
        " 27 groups are shown."
    )
    assert told["For whom"].startswith("Only records where age > 17 were read; unit of privacy: user_id.")
    assert told["How sure"] == "± is one standard error of the noise. On a count it is about 5.0."
    assert "about 640 ± 40 units in all, of whom about 40 ± 28 are in none of the groups shown" in told["Missing"]
    assert (
        "units with each unit in at most 3 of its groups: units in more are missing from some of them"
        in told["Missing"]
    )


def test_the_share_of_people_is_told_where_it_was_paid_for() -> None:
    assert "About 94 % of the units are in at least one of the groups shown: 600 ± 28." in of_two_keys().content().seen
    assert of_two_keys().content().share == 600 / 640
    assert many(3).content().share is None
    assert "% of the units" not in many(3).html()


def test_intervals_are_shown_where_there_are_any() -> None:
    assert over_time().content().table.names == ("day", "count", "95 % interval")
    assert many(3).content().table.names == ("item", "size", "count")


def test_cautions_and_what_is_not_protected_stand_in_the_guarantee() -> None:
    unit = ("person", "day")
    plan = dp.plan(epsilon=12.0, delta=1e-6, max_groups=3)
    content = Release(many(3).table, plan, Selection(unit, ("item", "size")), None, CREATED).content()
    assert "all records of one combination of person and day" in content.guarantee
    assert not_protected(unit) in content.guarantee
    assert "CAUTION: epsilon above 10 protects little" in content.guarantee
    assert "CAUTION" not in many(3).content().guarantee


def test_a_guarantee_without_delta_speaks_of_none() -> None:
    content = one_number().content()
    assert content.guarantee.endswith("by at most a factor of 2.719 (epsilon 1).")
    assert not any("Delta" in words for words in content.explanation)


@given(st.lists(st.one_of(st.none(), st.text()), min_size=1, max_size=5))
def test_any_key_is_text_in_the_page(keys: list[str | None]) -> None:
    page = of_keys(keys, level=0.9).html()
    assert len(rows_of(page)) == len(keys)
    assert page.count("<script") == 3  # the rows, the metadata and the one that runs
    assert page.count("</script") == 3
    assert "<!--" not in page
    assert not re.search("[\u2028\u2029\u202e\x00-\x09\x0b-\x1f]", page)


@given(st.lists(st.text(min_size=1), min_size=1, max_size=5))
def test_any_key_is_one_cell_in_markdown(keys: list[str]) -> None:
    lines = of_keys(keys).summary(markdown=True).splitlines()
    table = [line for line in lines if line.startswith("| ")]
    assert len(table) == len(keys) + 2
    assert all(len(re.findall(r"(?<!\\)(?:\\\\)*\|", line)) == 3 for line in table)
    assert not any(re.search(r"(?<!\\)(?:\\\\)*[<`\[]", line) for line in table)


def test_the_page_holds_all_rows_and_shows_the_first() -> None:
    page = many(200).html()
    assert [row[0] for row in rows_of(page)] == [f"item {i}" for i in range(200)]
    assert len(re.findall(r"<tr><td", page)) == FIRST_ROWS


def test_the_name_of_the_file_chooses_the_form(tmp_path: Path) -> None:
    published = of_keys(HOSTILE)
    for name, text in (
        ("a.html", published.html()),
        ("a.MD", published.summary(markdown=True)),
        ("a.txt", published.summary()),
    ):
        published.report(tmp_path / name)
        assert (tmp_path / name).read_text() == text
    assert published.summary().splitlines()[:2] == ["Private counts by key", "====================="]
    assert published.summary(markdown=True).startswith("# Private counts by key\n")


@pytest.mark.parametrize(
    ("name", "start"), [("r.md", "# Private counts by item"), ("r.txt", "Private counts by item\n===")]
)
def test_the_command_line_writes_summaries_too(tmp_path: Path, name: str, start: str) -> None:
    pq.write_table(pa.table({"user": range(200), "item": ["a"] * 200}), tmp_path / "events.parquet")
    words = ["release", str(tmp_path / "events.parquet"), "--unit", "user", "--by", "item", "--max-groups", "1"]
    budget = ["--epsilon", "1", "--delta", "1e-6", "--report", str(tmp_path / name)]
    done = CliRunner().invoke(app, [*words, *budget])
    assert done.exit_code == 0, done.output
    assert (tmp_path / name).read_text().startswith(start)


def test_long_tables_say_where_the_rest_is() -> None:
    assert "The first 20 of 30 rows; the table file has all of them." in many(30).summary()
    assert "The first" not in many(20).summary()


def test_an_empty_table_says_why_and_is_left_out() -> None:
    published = of_keys([])
    assert "No group was released: none was large enough." in published.summary()
    assert "±" not in published.summary().partition("Guarantee")[2].partition("How to read")[0]
    assert "<table id" not in published.html()


def test_no_key_ends_the_script_that_holds_it() -> None:
    """Of long tables the page has rows as data: letters that would be markup are spelled out there."""
    table = pa.table({"k": [f"</script><b>&'{row}" for row in range(FIRST_ROWS + 5)], "n": range(FIRST_ROWS + 5)})
    text = as_json(table.to_pydict())
    assert not set(text) & set("<>&'")
    assert json.loads(text) == table.to_pydict()
