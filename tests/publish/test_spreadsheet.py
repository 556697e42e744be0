"""CSV files that no spreadsheet runs: what is written is harmless, and every text comes back as it was."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from unicodedata import category

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dphist as dp
from command_line import dphist
from dphist.files.spreadsheet import ESCAPED, escaped, escaped_table, restored, restored_table

FIRST = "=+-@\t\r\n＝＋－＠"
SEEN = "\u0600\u0601\u0602\u0603\u0604\u0605\u06dd\u070f\u0890\u0891\u08e2"
"""Signs that Unicode counts among the marks of format, and that one sees."""

NOT_SEEN = [
    letter
    for letter in map(chr, range(0x10000))
    if category(letter) in ("Cc", "Cf", "Zs", "Zl", "Zp") and letter not in SEEN
]
TEXTS = st.text(st.sampled_from(FIRST + "'\"  a,1\\\u202e\u200b\x1b"), max_size=6) | st.text(max_size=8)
KEYS = ["=1+1", "'=1+1", "''=1+1", "-2", "+a", "@b", "\tc", "\rd", '"=e"', " =f", "'g", "h", "", "＝1", "'", "-", "a=b"]
KEYS += ["\x1b[31mred", "\u202egnp.exe", "a\0b", "a\nb", "\u2028x", "\ufeff-1", "\x85=1"]


@given(TEXTS)
def test_no_text_begins_as_a_formula_and_each_comes_back(text: str) -> None:
    written = escaped(text)
    assert written.strip(" \"'")[:1] not in tuple(FIRST) or written[0] == "'"
    assert restored(written) == text
    assert escaped(restored(written)) == written


def test_no_text_is_a_formula_behind_what_is_not_seen() -> None:
    """Each of these letters is dropped by some program before it looks; in the file it stays."""
    for letter in (*NOT_SEEN, "\U000e0041"):
        for text in (f"{letter}=1", f"'{letter}{letter}+1"):
            assert escaped(text) == f"'{text}"
            assert restored(f"'{text}") == text
        for text in (f"{letter}a", f"a{letter}=1"):
            assert (escaped(text) == text) == (letter not in "\t\r\n" or text[0] == "a")


@given(TEXTS, TEXTS)
def test_two_texts_stay_two(one: str, other: str) -> None:
    assert (escaped(one) == escaped(other)) == (one == other)


@given(st.lists(st.none() | TEXTS.filter(lambda text: text.isascii() or "\0" not in text)))
def test_tables_and_texts_follow_one_rule(texts: list[str | None]) -> None:
    for kind in (pa.string(), pa.large_string()):
        table = pa.table({"=key": pa.array(texts, kind), "count": pa.array([-1.5] * len(texts))})
        written = escaped_table(table)
        assert written.column_names == ["'=key", "count"]
        assert written["'=key"].to_pylist() == [None if text is None else escaped(text) for text in texts]
        assert written["count"] == table["count"]
        assert restored_table(written).equals(table)


def _release(keys: list[str], name: str = "item") -> dp.Release:
    table = pa.table({"user": list(range(40 * len(keys))), name: keys * 40})
    return dp.release(table, unit="user", by=name, epsilon=20, delta=1e-3, max_groups=1, keys=keys)


def test_a_file_is_harmless_and_verified(tmp_path: Path) -> None:
    release = _release(KEYS, "=item")
    release.write(tmp_path / "out.csv")
    release.write(tmp_path / "raw.csv", raw_csv=True)
    release.write(tmp_path / "out.parquet")
    with (tmp_path / "out.csv").open(newline="") as file:
        header, *rows = csv.reader(file)
    assert header[:2] == ["'=item", "count"]
    assert {row[0] for row in rows} == {escaped(key) for key in KEYS}
    assert sorted(restored(row[0]) for row in rows) == sorted(KEYS)
    assert all(float(row[1]) for row in rows), "numbers stay numbers"
    with (tmp_path / "raw.csv").open(newline="") as file:
        header, *rows = csv.reader(file)
    assert header[0] == "=item"
    assert {row[0] for row in rows} == set(KEYS)
    release.write(tmp_path / "out.json")
    lines = (tmp_path / "out.json").read_text(encoding="utf-8").split("\n")
    assert {json.loads(line)["=item"] for line in lines if line} == set(KEYS)
    for name in ("out.csv", "raw.csv", "out.parquet"):
        assert not [check for check in dp.verify(tmp_path / name) if check.failed], name
        metadata = json.loads((tmp_path / f"{name}.dphist.json").read_text())
        assert metadata.get(ESCAPED) == (True if name == "out.csv" else None)
    assert release.to_arrow()["=item"].to_pylist()[0] in KEYS, "only files are escaped"


def test_negative_counts_stay_numbers(tmp_path: Path) -> None:
    keys = [f"k{n}" for n in range(200)]
    table = pa.table({"user": ["u"], "item": ["k0"]})
    release = dp.release(table, unit="user", by="item", epsilon=0.1, delta=1e-3, max_groups=1, keys=keys)
    release.write(tmp_path / "out.csv")
    counts = [line.split(",")[1] for line in (tmp_path / "out.csv").read_text().splitlines()[1:]]
    assert min(map(float, counts)) < 0
    assert not any(count.startswith("'") for count in counts)


@pytest.mark.parametrize("more", [[], ["--raw-csv"]])
def test_the_command_line_escapes_unless_told_not_to(more: list[str], tmp_path: Path) -> None:
    lines = [f"u{n},{'=cmd' if n % 2 else 'b'}" for n in range(400)]
    (tmp_path / "events.csv").write_text("\n".join(["user,item", *lines]) + "\n")
    budget = ["--unit", "user", "--by", "item", "--epsilon", "5", "--delta", "1e-3"]
    for words in (["release", "--max-groups", "1"], ["top-k", "--k", "2"], ["select"]):
        out = f"{words[0]}.csv"
        done = dphist(words[0], "events.csv", *words[1:], *budget, "-o", out, *more, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        texts = {line.split(",")[0] for line in (tmp_path / out).read_text().splitlines()[1:]}
        assert texts == {"=cmd" if more else "'=cmd", "b"}
        assert dphist("verify", out, cwd=tmp_path).returncode == 0


@pytest.mark.parametrize("first", FIRST)
def test_every_letter_that_begins_a_formula_is_escaped(first: str) -> None:
    for text in (f"{first}1+1", f" {first}SUM(A1)", f'"{first}a'):
        assert escaped(text) == f"'{text}"
    assert escaped(f"a{first}1") == f"a{first}1"
