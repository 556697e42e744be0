"""Printed tables: they fit, they keep keys apart, they lose nothing, and nothing in a key acts on a terminal."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from dphist.show.table import Column
from dphist.show.text import Screen, grid
from dphist.words import cut, printable, range_of, rounded_down, told_apart
from example_numbers import examples

TEXTS = st.text(st.characters(codec="utf-8") | st.sampled_from("日本e\u0301/\\…() 2"), max_size=60)
LONG = st.builds("{}{}{}".format, st.just("https://example.org/a/b/c/"), TEXTS, st.sampled_from(["", "/x" * 40]))


def keys(column: str) -> list[str]:
    return [line.strip() for line in column.splitlines()[2:]]


@given(TEXTS, st.integers(8, 40), st.sampled_from([0.0, 0.25, 0.5, 0.75, 1.0]))
def test_a_cut_text_fits_and_keeps_its_ends(text: str, width: int, share: float) -> None:
    text = printable(text)
    shown = cut(text, width, share)
    assert cell_len(shown) <= width
    if shown == text:
        return
    ends = [shown[:place] for place, letter in enumerate(shown) if letter == "…" and text.startswith(shown[:place])]
    assert any(text.endswith(shown[len(head) + 1 :]) for head in ends)
    assert cell_len(text) > width or len(text) > 4 * width
    if share == 0.5:
        assert cell_len(shown) >= width - 2, "a wide letter leaves a cell free, at most"


@given(st.lists(TEXTS | LONG, min_size=1, max_size=12), st.integers(12, 40), st.lists(TEXTS, max_size=2))
@examples(60)
def test_different_values_never_look_the_same(values: list[str], width: int, taken: list[str]) -> None:
    texts = list(map(printable, values))
    taken = [cut(printable(text), width) for text in taken]
    shown = told_apart(values, texts, [width] * len(values), taken)
    assert len(set(zip(values, shown, strict=True))) == len(set(values)) == len(set(shown))
    assert not set(shown) & set(taken)
    assert all(cell_len(text) <= width for text in shown)


def test_urls_show_where_they_differ() -> None:
    urls = [f"https://www.example.com/a/long/path/{n}/and/the/same/end/everywhere/index.html" for n in (7, 8, 13)]
    shown = told_apart(urls, urls, [40] * 3)
    assert shown == [
        "https://www.e…th/7/and/the/same/end/eve…",
        "https://www.e…th/8/and/the/same/end/eve…",
        "https://www.e…th/13/and/the/same/end/ev…",
    ]


def test_what_cannot_be_told_apart_is_numbered() -> None:
    """A line feed is shown as its escape, which somebody may have typed; a null like the word for it."""
    column = Column("key", "key", ["a\nb", "a\\nb", None, "(null)", "(other)"], "(other)")
    assert keys(grid([column], Screen())) == ["a\\nb", "a\\nb (2)", "(null)", "(null) (2)", "(other) (2)", "(other)"]
    same_ends = [f"{'a' * 50}{'b' * n}{'a' * 50}{'c' * n}{'a' * 50}" for n in (1, 2, 3)]
    assert len(set(told_apart(same_ends, same_ends, [12] * 3))) == 3


@given(
    st.lists(st.tuples(st.none() | TEXTS, TEXTS, st.integers(0, 10**9)), min_size=1, max_size=5),
    st.integers(1, 6),
    st.integers(1, 140),
    st.booleans(),
)
def test_every_line_fits_and_every_number_is_there(
    rows: list[tuple[str | None, str, int]], numbers: int, width: int, other: bool
) -> None:
    last = ["(other)", "", "5 ± 3", *[""] * (numbers - 1)] if other else [None] * (numbers + 2)
    names = ["key", "another key", "count", *[f"mean_of_a_long_name_{n}" for n in range(1, numbers)]]
    cells = [[row[0] for row in rows], [row[1] for row in rows], *[[f"{row[2]:,} ± 1" for row in rows]] * numbers]
    kinds = ["key", "key", *["number"] * numbers]
    columns = [Column(*one) for one in zip(names, kinds, cells, last, strict=True)]  # type: ignore[arg-type]
    text = grid(columns, Screen(width), "… and 4 more groups")
    assert all(cell_len(line) <= max(width, 40) for line in text.splitlines())
    assert all(letter.isprintable() or letter == "\n" for letter in text)
    assert all(line == line.rstrip() for line in text.splitlines())
    for _, _, number in rows:
        assert text.count(f"{number:,} ± 1") >= numbers
    for name in names:
        assert name in text or "…" in text
    assert text.count("… and 4 more groups") == 1
    assert ("5 ± 3" in text) >= other


def test_a_table_with_many_columns_is_stacked() -> None:
    names = [f"mean_of_something_{n}" for n in range(6)]
    columns = [Column("url", "key", ["a", "b"], "(other)"), Column("count", "number", ["1 ± 2", "3 ± 4"], "5 ± 6")]
    columns += [Column(name, "number", ["1.0", "2.0"], "") for name in names]
    lines = grid(columns, Screen(80), "… and 9 more groups").splitlines()
    assert lines[:3] == ["  url                  a", "  count                1 ± 2", "  mean_of_something_0  1.0"]
    assert lines[8] == ""
    assert lines[-4:] == ["  … and 9 more groups", "", "  url                  (other)", "  count                5 ± 6"]
    wide = grid(columns, Screen(200)).splitlines()
    assert len(wide) == 5
    assert wide[0].split() == ["url", "count", *names]


def test_numbers_are_to_the_right_and_wide_letters_take_two_cells() -> None:
    columns = [Column("城市", "key", ["東京", "Köln", "e\u0301"]), Column("count", "number", ["1", "22,000", "333"])]
    assert grid(columns, Screen()) == "\n".join(
        [
            "  城市   count",
            "  ────────────",
            "  東京       1",
            "  Köln  22,000",
            "  e\u0301        333",
        ]
    )


def test_nothing_in_a_key_is_a_style_or_an_escape() -> None:
    evil = ["[red]x[/red]", "[/]", ":smile:", "\x1b[31mred\x1b[0m", "\x9b31m", "‮rtl", "a\tb\rc"]
    for styled in (False, True):
        text = grid([Column("\x1b[1m[bold]", "key", evil)], Screen(80, styled))
        ours = text.replace("\x1b[0m", "").replace("\x1b[1m", "").replace("\x1b[2m", "")
        assert all(letter.isprintable() or letter == "\n" for letter in ours)
        for key in evil:
            assert printable(key) in text
    assert "\x1b" not in grid([Column("k", "key", evil)], Screen())


def test_without_unicode_the_rule_is_of_hyphens() -> None:
    assert grid([Column("k", "key", ["a"])], Screen(unicode=False)).splitlines()[1] == "  -"


def test_the_environment_changes_nothing_in_a_pipe() -> None:
    """Nor is Rich loaded before there is a table."""
    program = (
        "import sys, dphist.cli.app, dphist.show.text as g;"
        "print([name for name in sys.modules if name.startswith('rich')]);"
        "from dphist.cli.output import screen;"
        "print(g.grid([g.Column('k', 'key', ['x' * 200])], screen()))"
    )
    hostile = {"COLUMNS": "33", "FORCE_COLOR": "1", "TERM": "xterm", "TTY_COMPATIBLE": "1", "PYTHONUTF8": "1"}
    words = [sys.executable, "-c", program]
    done = subprocess.run(words, capture_output=True, env={**os.environ, **hostile}, check=True)
    assert done.stdout.decode().splitlines() == ["[]", *grid([Column("k", "key", ["x" * 200])], Screen()).splitlines()]


@given(st.floats(-1e9, 1e9), st.floats(0, 1e6), st.floats(1e-6, 1e6))
def test_an_interval_is_rounded_outwards(low: float, length: float, error: float) -> None:
    high = low + length
    shown = [float(end.replace(",", "")) for end in range_of(low, high, error).split(" to ")]
    assert shown[0] <= low
    assert high <= shown[1]
    assert low - shown[0] < error
    assert shown[1] - high < error


def test_an_interval_may_have_no_end() -> None:
    assert range_of(float("-inf"), float("inf"), 2.0) == "-inf to inf"


@given(st.floats(1e-12, 1e12))
def test_what_is_left_is_not_rounded_up(value: float) -> None:
    assert float(rounded_down(value)) <= value
    assert float(rounded_down(value)) == pytest.approx(value, rel=1e-3)
