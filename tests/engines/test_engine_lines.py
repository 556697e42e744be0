"""Text files line by line: what one line holds has no say in how another is read."""

from __future__ import annotations

import csv
import gzip
from collections.abc import Callable
from contextlib import nullcontext
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dphist.engines import lines
from dphist.engines.lines import check_no_array, csv_batches, first_line, json_lines
from dphist.engines.source import CsvFormat
from dphist.errors import UnreadableSource
from example_numbers import some

NAMES = ["a", "b"]
COMMA = CsvFormat(",", '"', header=True)
PIECES = st.sampled_from(
    [b"a", b",", b'"', b'""', b"\r", b"\x00", b" ", b"\xc3\xa9", b"\xff", b"x,y", b'"p,q"', b'"r""s",', b"\xef\xbb\xbf"]
)
LINES = st.lists(st.lists(PIECES, max_size=6).map(b"".join), max_size=12)


def record(line: bytes, form: CsvFormat) -> tuple[str | None, ...] | None:
    """What Python's csv module makes of one line, without byte order marks."""
    quoting: Any = csv.QUOTE_MINIMAL if form.quote else csv.QUOTE_NONE
    try:
        text = [line.decode().lstrip("\ufeff").removesuffix("\r")]
        rows = list(csv.reader(text, delimiter=form.delimiter, quotechar=form.quote, quoting=quoting, strict=True))
    except (UnicodeDecodeError, csv.Error):
        return None
    return tuple(field or None for field in rows[0]) if rows and len(rows[0]) == len(NAMES) else None


def read(path: Path, form: CsvFormat) -> list[tuple[str | None, ...]]:
    table = csv_batches(str(path), form, NAMES, NAMES).read_all()
    return list(zip(*(column.to_pylist() for column in table.columns), strict=True))


@pytest.mark.parametrize("quote", ['"', None])
@given(content=LINES, ended=st.booleans(), block=st.integers(1, 40))
@example(content=[b'1,"a', b"2,b", b'3,"c'], ended=True, block=40)
@example(content=[b'a"b,"c', b'd,"e"'], ended=True, block=40)
@example(content=[b"1,a\r2,b"], ended=False, block=40)
def test_each_line_is_read_alone(
    tmp_path_factory: pytest.TempPathFactory, quote: str | None, content: list[bytes], ended: bool, block: int
) -> None:
    form = CsvFormat(",", quote, header=True)
    path = tmp_path_factory.mktemp("lines") / "x.csv"
    path.write_bytes(b"\n".join([b"a,b", *content]) + (b"\n" if ended else b""))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lines, "BLOCK", block)
        found = read(path, form)
    want = [row for row in (record(line, form) for line in content) if row is not None]
    assert sorted(found, key=repr) == sorted(want, key=repr)


HALVES = st.text(st.sampled_from('a,"\r\x00é🦆\ufeffਁĀ') | st.characters(categories=["Cs"]), max_size=8)
BYTES = st.text(st.sampled_from('a,"\r\x00é€\x81\x8d'), max_size=8)
WRITTEN: dict[str, Callable[[str], bytes]] = {
    "utf-16": lambda text: b"\xff\xfe" + text.encode("utf-16-le", "surrogatepass"),
    "utf-16 big": lambda text: b"\xfe\xff" + text.encode("utf-16-be", "surrogatepass"),
    "utf-16 without mark": lambda text: text.encode("utf-16-le", "surrogatepass"),
    "windows-1252": lambda text: b"".join(bytes([ord(c)]) if ord(c) < 256 else c.encode("cp1252") for c in text),
}


@pytest.mark.parametrize("encoding", WRITTEN)
@given(data=st.data(), ended=st.booleans(), block=st.integers(1, 40))
def test_each_line_of_another_encoding_is_read_alone(
    tmp_path_factory: pytest.TempPathFactory, encoding: str, data: st.DataObject, ended: bool, block: int
) -> None:
    """Half a letter and bytes that are none cost their own line, wherever blocks end."""
    name = encoding.split()[0]
    content = data.draw(st.lists(BYTES if name == "windows-1252" else HALVES, max_size=8))
    form = CsvFormat(",", '"', header=True, encoding=name)
    path = tmp_path_factory.mktemp("lines") / "x.csv"
    path.write_bytes(WRITTEN[encoding]("\n".join(["a,b", *content]) + ("\n" if ended else "")))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lines, "BLOCK", block)
        found = read(path, form)
    assert first_line(str(path), form) == ["a", "b"]
    letters = [text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace") for text in content]
    right = [text for text in letters if not {*text} & {"\ufffd", "\x81", "\x8d"}]
    want = [row for row in (record(text.encode(), COMMA) for text in right) if row is not None]
    assert sorted(found, key=repr) == sorted(want, key=repr)


def test_half_a_letter_at_the_end_costs_the_last_line(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    for end in (b"x", b"\x00\xd8", b"\x00\xd8x"):
        path.write_bytes("a,b\n1,2\n3,4".encode("utf-16") + end)
        assert read(path, CsvFormat(",", '"', header=True, encoding="utf-16")) == [("1", "2")]


@example(rows=[('x"y', "NA"), ("-", 'x"y')])
@given(rows=st.lists(st.tuples(*[st.sampled_from(["NA", "na", "-", '"NA"', "", 'x"y', '"x,"', '"'])] * 2), max_size=8))
def test_a_text_that_means_null_does_so_in_every_line(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[str, str]]
) -> None:
    """In lines that Arrow parses and in odd ones."""
    path = tmp_path_factory.mktemp("lines") / "x.csv"
    path.write_text("a,b\n" + "".join(f"{a},{b}\n" for a, b in rows))
    found = read(path, CsvFormat(",", '"', header=True, nulls=("NA", "-")))
    want = [record(f"{a},{b}".encode(), COMMA) for a, b in rows]
    nulled = [tuple(None if v in ("NA", "-") else v for v in row) for row in want if row is not None]
    assert sorted(found, key=repr) == sorted(nulled, key=repr)


@pytest.mark.parametrize("block", [7, 100, 2**23])
@pytest.mark.parametrize("length", [-1, 0, 1, 500])
def test_a_long_line_costs_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, length: int, block: int) -> None:
    monkeypatch.setattr(lines, "LONGEST_LINE", 60)
    monkeypatch.setattr(lines, "BLOCK", block)
    long = b"x," + b"y" * (60 + length - 2)
    path = tmp_path / "x.csv.gz"
    path.write_bytes(gzip.compress(b"a,b\n1,2\n" + long + b"\n3,4\n"))
    kept = {("1", "2"), ("3", "4")} | ({("x", "y" * (58 + length))} if length <= 0 else set())
    assert set(read(path, COMMA)) == kept


@pytest.mark.parametrize(
    ("length", "marks"), some([(length, marks) for marks in (1, 30) for length in (60, 61, 50, 59, 62)], 4)
)
def test_marks_and_returns_of_a_line_count_wherever_blocks_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, marks: int, length: int
) -> None:
    """Marks and line ends are no bytes of a record, whether it is the first of its file or any block ends inside of it."""
    monkeypatch.setattr(lines, "LONGEST_LINE", 60)
    form, path = CsvFormat(",", '"', header=False), tmp_path / "x.csv"
    line = b"\xef\xbb\xbf" * marks + b"x," + b"y" * (length - 2) + b"\r\n"
    found = set()
    for before in (b"", b"1,2\n"):
        path.write_bytes(before + line)
        for block in range(1, len(before + line) + 1):
            monkeypatch.setattr(lines, "BLOCK", block)
            found.add(tuple(row for row in read(path, form) if row != ("1", "2")))
    assert found == {(("x", "y" * (length - 2)),) if length <= 60 else ()}


@pytest.mark.parametrize(
    ("kind", "end", "pack"), some([*product(["csv", "json"], [b"\n", b"\r\n"], [bytes, gzip.compress])], 4)
)
def test_no_other_record_decides_whether_a_record_of_any_length_stays(
    kind: str, end: bytes, pack: Callable[[bytes], bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever stands before and behind it, and however the file ends: its own bytes decide."""
    monkeypatch.setattr(lines, "LONGEST_LINE", 40)
    path = tmp_path / {bytes: f"x.{kind}", gzip.compress: f"x.{kind}.gz"}[pack]

    def there(x: bytes, records: list[bytes], last: bytes) -> bool:
        path.write_bytes(pack(end.join(records) + last))
        found = csv_batches(str(path), CsvFormat(",", '"', header=False), ["a"], ["a"]) if kind == "csv" else None
        texts = (found or json_lines(str(path), "line")).read_all().column(0).to_pylist()
        return x.decode() in [text.strip("\r\n") for text in texts]

    for length in range(37, 44):
        for filler, block in product((b"y", "é".encode()), (7, 40, 42, 2**23)):
            monkeypatch.setattr(lines, "BLOCK", block)
            x = filler * ((length - 3) // len(filler)) + b"." * (3 + (length - 3) % len(filler))
            around = [[x], [b"before", x], [x, b"behind"], [b"x" * 500, x], [x, b"x" * 500]]
            found = {there(x, records, last) for records in around for last in (b"", end)}
            assert found == {length <= 40}, (length, block)


@pytest.mark.parametrize("place", [0, 1, 2])
def test_a_byte_order_mark_is_dropped_wherever_a_line_begins(tmp_path: Path, place: int) -> None:
    """Otherwise who is first in a file without a header would be read differently."""
    rows = [b"1,2\n", b"3,4\n"]
    rows.insert(place, b"\xef\xbb\xbf5,6\n")
    path = tmp_path / "x.csv"
    path.write_bytes(b"".join(rows))
    assert set(read(path, CsvFormat(",", '"', header=False))) == {("1", "2"), ("3", "4"), ("5", "6")}
    (tmp_path / "x.ndjson").write_bytes(b"".join(rows))
    found = json_lines(str(tmp_path / "x.ndjson"), "line").read_all().column("line").to_pylist()
    assert sorted(text.strip() for text in found) == ["1,2", "3,4", "5,6"]


def test_the_header_is_the_first_line_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_bytes(b'\xef\xbb\xbf"the, user",key\r\nsecret,1\r\n')
    assert first_line(str(path), COMMA) == ["the, user", "key"]
    for content in (b"caf\xe9,key\nsecret,1\n", b'user,"key\nsecret,1\n', b"x" * 2**21, b"x" * (2**20 + 1) + b"\n"):
        path.write_bytes(content)
        with pytest.raises(UnreadableSource) as caught:
            first_line(str(path), COMMA)
        assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("x.json", '\n [\n{"a": 1}\n]'),
        ("x.json", "\ufeff[]"),
        ("x.ndjson", "[1]"),
        ("x.json", '{"a": [1]}\n'),
        ("x.json", ""),
    ],
)
def test_an_array_of_records_is_refused_by_its_first_letter(name: str, content: str, tmp_path: Path) -> None:
    """In it, commas and brackets that belong to no record would decide which records there are."""
    (tmp_path / name).write_text(content, encoding="utf-8")
    array = name == "x.json" and "[" in content[:3]
    with pytest.raises(UnreadableSource, match=r"one record in each line.*jq -c") if array else nullcontext():
        check_no_array(str(tmp_path / name))


def test_text_beyond_a_limit_or_not_utf8_is_no_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines, "LONGEST_LINE", 9)
    path = tmp_path / "x.ndjson"
    path.write_bytes(b'{"a":1}\n\xff\n' + b"x" * 30 + b'\n{"a":2}')
    found = json_lines(str(path), "line").read_all().column("line").to_pylist()
    assert [text.strip() for text in found] == ['{"a":1}', '{"a":2}']
