"""One value of any length costs its own record: Parquet files under a memory limit that is less than the value."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from engine_oracle import groups_of

import dphist as dp
from dphist.engines.duckdb import source as sources
from dphist.engines.duckdb.engine import DuckDBEngine
from dphist.engines.duckdb.parquet import Pages, _struct, fit, pages_of, readable_parquet, rows_at_a_time
from dphist.engines.expressions import LONGEST_KEY, LONGEST_LIST
from dphist.engines.histogram import ContributionBounds
from dphist.engines.query import GroupByQuery, Key, PerformanceSettings, parse_key
from dphist.errors import UnreadableSource
from dphist.ledger import DataSet, Ledger

ENGINE = DuckDBEngine(PerformanceSettings(threads=2, memory_limit="64MB"))
LONG = "x" * (40 << 20)
"""In a file some kilobytes; in memory more than what the engine has left beside it."""

ROWS = 6_000
NO_DICTIONARY = {"use_dictionary": False, "compression": "zstd"}
WAYS: dict[str, dict[str, Any]] = {
    "plain": NO_DICTIONARY,
    "snappy": {"use_dictionary": False, "compression": "snappy"},
    "second version of pages": {"use_dictionary": False, "compression": "gzip", "data_page_version": "2.0"},
    "dictionary": {"compression": "zstd", "dictionary_pagesize_limit": 1 << 30},
    "delta": {"use_dictionary": False, "compression": "zstd", "column_encoding": {"key": "DELTA_BYTE_ARRAY"}},
    "lengths": {"use_dictionary": False, "compression": "zstd", "column_encoding": {"key": "DELTA_LENGTH_BYTE_ARRAY"}},
}


def write(path: Path, keys: Sequence[Any], kind: pa.DataType | None = None, **way: Any) -> Path:
    """A file in which unit 0 has these keys too, beside half of the units in a and half in b."""
    users = pa.array([*range(1, ROWS + 1), *[0] * len(keys)])
    texts = pa.array(["a", "b"] * (ROWS // 2) + list(keys), pa.large_string())
    column = texts if kind is None else pa.array(texts.cast(pa.large_binary()).to_pylist(), kind)
    pq.write_table(pa.table({"user": users, "key": column}), path, write_statistics=False, **way)
    return path


def counted(source: Any, by: str = "key", **more: Any) -> dict[Any, Any]:
    query = GroupByQuery("user", (parse_key(by),), **more)
    return dict(groups_of(ENGINE.histogram(source, query, ContributionBounds(2))))


HALF = (ROWS // 2,)


@pytest.mark.parametrize("way", WAYS)
def test_a_value_that_is_too_long_costs_its_record_alone(way: str, tmp_path: Path) -> None:
    """However it is stored. A value beside it stays, and the record counts where a null does."""
    path = write(tmp_path / "long.parquet", [LONG, "a"], **WAYS[way])
    assert path.stat().st_size < 3 << 20
    without = counted(write(tmp_path / "null.parquet", [None, "a"], **WAYS[way]))
    assert without == {("a",): (ROWS // 2 + 1,), ("b",): HALF, (None,): (1,)}
    assert counted(path) == without
    if way == "plain":
        assert counted(path, null_keys="drop") == {("a",): (ROWS // 2 + 1,), ("b",): HALF}
        assert counted(path, where="user <> 0") == {("a",): HALF, ("b",): HALF}


@pytest.mark.parametrize("way", [{"row_group_size": 100}, {}, {"write_batch_size": 1}], ids=["groups", "page", "pages"])
def test_nor_do_many_of_them_together(way: dict[str, Any], tmp_path: Path) -> None:
    """In row groups that some of them are in, in one page, in a page each."""
    keys = [f"{number}{LONG[: 4 << 20]}" for number in range(24)]
    path = write(tmp_path / "long.parquet", keys, **NO_DICTIONARY, **way)
    assert counted(path) == {("a",): HALF, ("b",): HALF, (None,): (1,)}


@pytest.mark.parametrize("stored", [True, False])
def test_nor_does_one_that_comes_often(stored: bool, tmp_path: Path) -> None:
    """Once in the dictionary, and in thousands of rows: written out they would be 36 gigabytes."""
    codes = pa.array([*[0, 1] * (ROWS // 2), *[2] * ROWS], pa.int32())
    keys = pa.DictionaryArray.from_arrays(codes, pa.array(["a", "b", LONG[: 6 << 20]]))
    table = pa.table({"user": pa.array([*range(1, ROWS + 1), *[0] * ROWS]), "key": keys})
    more: dict[str, Any] = {"store_schema": stored, "dictionary_pagesize_limit": 1 << 30}
    pq.write_table(table, tmp_path / "x.parquet", compression="zstd", write_statistics=False, **more)
    assert counted(tmp_path / "x.parquet") == {("a",): HALF, ("b",): HALF, (None,): (1,)}


@pytest.mark.parametrize("kind", [pa.string(), pa.binary(), pa.large_binary()])
def test_nor_does_their_type_matter(kind: pa.DataType, tmp_path: Path) -> None:
    found = counted(write(tmp_path / "long.parquet", [LONG], kind, **NO_DICTIONARY))
    assert sorted(found.values()) == [(1,), HALF, HALF]


def test_the_borders_are_those_of_any_other_value(tmp_path: Path) -> None:
    """What is just not too long is a key, also where Arrow reads the file."""
    whole = ["x" * LONGEST_KEY, "é" * (LONGEST_KEY // 2)]
    path = write(tmp_path / "border.parquet", [LONG, *whole, *(f"{text}x" for text in whole)], **NO_DICTIONARY)
    groups = groups_of(ENGINE.histogram(path, GroupByQuery("user", (Key("key"),)), ContributionBounds(9)))
    assert set(dict(groups)) == {("a",), ("b",), (None,), *((text,) for text in whole)}


NASTY: dict[str, list[Any]] = {
    "whole": [1, -(2**63), None, 7],
    "number": [0.0, -0.0, float("nan"), None],
    "text": [b"a", b"\xff", None, b"a\0"],
    "time": [0, -(2**62), None, 10**15],
    "day": [0, 2**31 - 1, None, 1],
    "truth": [True, False, None, True],
    "word": ["a", "b", None, "a"],
    "struct": [{"x": 1, "t": "a"}, None, {"x": None, "t": "b"}, {"x": 1, "t": "a"}],
}
TYPES = {"text": pa.binary(), "time": pa.int64(), "day": pa.int32()}


def nasty(path: Path, keys: Sequence[Any]) -> Path:
    columns = {name: pa.array(values * 5, TYPES.get(name)) for name, values in NASTY.items()}
    columns |= {"text": columns["text"].view(pa.string()), "time": columns["time"].view(pa.timestamp("us"))}
    columns |= {"day": columns["day"].view(pa.date32()), "word": columns["word"].dictionary_encode()}
    columns["length"] = pa.array([pa.scalar(one).as_py() for one in (9, 10**15, None, 5)] * 5, pa.duration("us"))
    columns |= {"view": pa.array(["a", "b", None, "a"] * 5, pa.string_view())}
    columns |= {"bits": pa.array([b"a", b"b", None, b"a"] * 5, pa.binary_view())}
    ends = pa.array([0, 1, 3, 3, 4], pa.int32())
    times = pa.array([0, 0, -(2**62), 10**15]).view(pa.timestamp("us"))
    columns["times"] = pa.concat_arrays([pa.ListArray.from_arrays(ends, times)] * 5)
    columns["timed"] = pa.StructArray.from_arrays([columns["time"]], ["at"])
    table = pa.table({"user": pa.array(range(20)), "key": pa.array([None] * 20, pa.large_string()), **columns})
    own = {"user": pa.array([20] * len(keys)), "key": pa.array(keys, pa.large_string())}
    mine = pa.table({**own, **{name: pa.nulls(len(keys), column.type) for name, column in columns.items()}})
    pq.write_table(pa.concat_tables([table, mine]), path, write_statistics=False, **NO_DICTIONARY)
    return path


INSIDE = ["t=struct.t", "x=struct.x", "at=timed.at", "none=timed.at IS NULL", "n=len(times)", "first=times[1]"]


@pytest.mark.parametrize("by", [*(name for name in NASTY if name != "struct"), "length", "view", "bits", *INSIDE])
def test_no_value_of_others_is_read_in_another_way(by: str, tmp_path: Path) -> None:
    """The long value of one unit is in a column that is read, and Arrow reads all of them."""
    measured = {"where": "length(key) IS NULL OR key <> 'b'"}
    want = counted(nasty(tmp_path / "null.parquet", [None]), by, **measured)
    assert counted(nasty(tmp_path / "long.parquet", [LONG]), by, **measured) == want
    assert len(want) > 1


def test_files_of_one_type_agree_whoever_reads_them(tmp_path: Path) -> None:
    """Thousandths and millionths of a second are one type to the engine, and two to Arrow."""
    for text in ("short", LONG):
        for name, kind in (("a", pa.timestamp("ms")), ("b", pa.timestamp("us"))):
            table = pa.table({"user": [name], "key": [text], "at": pa.array([5], kind)})
            pq.write_table(table, tmp_path / f"{name}.parquet")
        found = counted(str(tmp_path / "*.parquet"), "at", where="length(key) IS NULL OR key <> 'b'")
        assert len(found) == 2


def test_values_that_share_a_prefix_take_room(tmp_path: Path) -> None:
    """A hundred texts of 4 MiB in a page of 4 MiB, of which a reader makes 400."""
    way = {"use_dictionary": False, "compression": "zstd", "column_encoding": {"key": "DELTA_BYTE_ARRAY"}}
    path = write(
        tmp_path / "long.parquet", [LONG[: 4 << 20]] * 100, **way, data_page_size=1 << 30, write_batch_size=1 << 20
    )
    assert pq.read_metadata(path).row_group(0).column(1).total_uncompressed_size < 5 << 20
    assert counted(path) == {("a",): HALF, ("b",): HALF, (None,): (1,)}


@pytest.mark.parametrize("kind", [pa.list_(pa.string()), pa.struct({"x": pa.string()})], ids=["list", "struct"])
def test_a_long_word_in_many_values_takes_room_for_each(kind: pa.DataType, tmp_path: Path) -> None:
    """A dictionary has it once. Short words take none that counts."""
    by = "n=len(value)" if pa.types.is_list(kind) else "x=value.x"
    for word, fits in (("b", True), ("b" * 200_000, False)):
        words = pa.DictionaryArray.from_arrays(pa.array([0] * 9 + [1] * 500, pa.int32()), pa.array(["a", word]))
        texts = words.cast(pa.string())
        value = (
            pa.ListArray.from_arrays(pa.array(range(510), pa.int32()), texts)
            if pa.types.is_list(kind)
            else pa.StructArray.from_arrays([texts], ["x"])
        )
        table = pa.table({"user": pa.array(range(509)), "value": value})
        pq.write_table(table, tmp_path / "words.parquet", compression="zstd", dictionary_pagesize_limit=1 << 30)
        if fits:
            assert len(counted(tmp_path / "words.parquet", by)) >= 1
        else:
            with pytest.raises(UnreadableSource, match="that fit into memory"):
                counted(tmp_path / "words.parquet", by)


@pytest.mark.parametrize("annotated", ["ENUM", "JSON"])
def test_texts_of_other_names_are_texts(annotated: str, tmp_path: Path) -> None:
    """Avro, Thrift and Protocol Buffers write them: the engine calls them texts, and Arrow bytes."""
    path = tmp_path / "named.parquet"
    texts = ['"plain"', '"é"', '"a\\b"', "oops"]
    for longest in ("short", LONG):
        table = pa.table({"key": [longest] * 4, "text": texts, "user": [1, 2, 3, 4]})
        pq.write_table(
            table, path, store_schema=False, compression="zstd", use_dictionary=False, write_statistics=False
        )
        content = path.read_bytes()
        footer = len(content) - 8 - int.from_bytes(content[-8:-4], "little")
        as_text = b"\x18\x04text" + bytes.fromhex("25004c1c0000")
        other = b"\x18\x04text" + bytes.fromhex("25084c4c0000" if annotated == "ENUM" else "25264ccc0000")
        assert content[footer:].count(as_text) == 1
        path.write_bytes(content[:footer] + content[footer:].replace(as_text, other))
        found = counted(path, "text", where="length(key) IS NULL OR key = 'short'")
        want = {(text,) for text in texts}
        assert set(found) == (want if annotated == "ENUM" else want - {("oops",)} | {(None,)})


def test_who_reads_a_column_follows_from_its_type(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A list of fixed length is another type to the engine, times in lists have other limits there."""
    read = []

    def read_by_arrow(path: str, names: Sequence[str], kinds: Sequence[pa.DataType]) -> Any:
        read.append(names)
        return readable_parquet(path, names, kinds)

    monkeypatch.setattr(sources, "readable_parquet", read_by_arrow)
    columns = {"fixed": pa.array([[1, 2]], pa.list_(pa.int32(), 2)), "list": pa.array([[1, 2]])}
    pq.write_table(pa.table({"user": [1], **columns}), tmp_path / "a.parquet")
    for name in columns:
        assert counted(tmp_path / "a.parquet", f"n={name}[1]") == {(1,): (1,)}
    assert read == [["user", "fixed"]]


def test_a_header_without_an_end_is_no_header(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"\x19\xf7" + b"\xff" * 8 + b"\x7f" + bytes(20))
    with (tmp_path / "x").open("rb") as file, pytest.raises(ValueError, match="no list"):
        _struct(file)


def test_durations_inside_of_a_value_are_refused(tmp_path: Path) -> None:
    """The engine reads numbers, and Arrow durations."""
    table = pa.table({"user": ["a"], "list": pa.array([[5]], pa.list_(pa.duration("us")))})
    pq.write_table(table, tmp_path / "a.parquet")
    with pytest.raises(UnreadableSource, match="durations in columns of their own"):
        counted(tmp_path / "a.parquet", "n=len(list)")


def lists(path: Path, longest: int, row_group_size: int | None = None) -> Path:
    """A file in which unit 0 has a list of so many numbers, and the others one of one."""
    ends = np.append(np.arange(ROWS + 1), ROWS + longest).astype(np.int32)
    numbers = pa.array(np.zeros(ROWS + longest))
    table = pa.table({"user": pa.array([*range(1, ROWS + 1), 0]), "list": pa.ListArray.from_arrays(ends, numbers)})
    pq.write_table(table, path, compression="zstd", write_statistics=False, row_group_size=row_group_size)
    return path


def test_a_list_that_fits_costs_its_record(tmp_path: Path) -> None:
    for longest, key in ((LONGEST_LIST, LONGEST_LIST), (LONGEST_LIST + 1, None), (400_000, None)):
        found = counted(lists(tmp_path / "lists.parquet", longest), "n=len(list)")
        assert found == {(1,): (ROWS,), (key,): (1,)}


@pytest.mark.parametrize("row_group_size", [None, 100])
def test_lists_that_do_not_fit_are_refused_before_the_charge(row_group_size: int | None, tmp_path: Path) -> None:
    """By the sizes in the file, each time in the same words, which tell no size; and only where they are asked for."""
    path = lists(tmp_path / "lists.parquet", 6_000_000, row_group_size)
    with Ledger(tmp_path / "l.db", create=True) as opened:
        opened.create(DataSet("people", 1.0, 1e-5, "user", "basic"))
    asked: dict[str, Any] = {"unit": "user", "epsilon": 0.5, "delta": 1e-6, "max_groups": 1}
    paid: dict[str, Any] = {"ledger": tmp_path / "l.db", "dataset": "people", "settings": ENGINE.settings}
    told = set()
    for where in (None, "user <> 0"):
        with pytest.raises(UnreadableSource, match="lists and structs such as 'list' that fit") as refused:
            dp.release(path, by="n=len(list)", where=where, **asked, **paid)
        told.add(str(refused.value))
    assert len(told) == 1
    assert not any(letter.isdigit() for letter in told.pop())
    with Ledger(tmp_path / "l.db") as ledger:
        assert not ledger.status("people").spends
    assert counted(path, "m=user % 2") == {(0,): (ROWS // 2 + 1,), (1,): HALF}


def test_the_refusal_tells_of_magnitudes_alone(tmp_path: Path) -> None:
    """Limits between two powers of two refuse the same files."""
    path = str(lists(tmp_path / "lists.parquet", 500_000))
    with duckdb.connect() as connection:
        for limit in (17, 20, 25, 31):
            connection.execute(f"SET memory_limit = '{limit}MiB'")
            with pytest.raises(UnreadableSource):
                fit(connection, [path], ["list"])
        for limit in (33, 40, 63, 65):
            connection.execute(f"SET memory_limit = '{limit}MiB'")
            assert fit(connection, [path], ["list"])


def test_fewer_threads_read_where_each_would_need_much(tmp_path: Path) -> None:
    """A page of six megabytes in each row group, as engines write that put all of a column into one."""
    path = write(tmp_path / "pages.parquet", [f"{number:04}" * 1_500 for number in range(1_000)], **NO_DICTIONARY)
    with duckdb.connect() as connection:
        for limit, reads, threads in (("640MB", True, 8), ("72MB", True, 2), ("40MB", True, 1), ("16MB", False, 8)):
            connection.execute(f"SET memory_limit = '{limit}'; SET threads = 8")
            assert fit(connection, [str(path)], ["user", "key"]) == reads
            assert connection.execute("SELECT current_setting('threads')").fetchall() == [(threads,)]
            assert fit(connection, [str(path)], ["user"])


@pytest.mark.parametrize("way", WAYS)
def test_pages_are_those_that_the_writer_wrote(way: str, tmp_path: Path) -> None:
    path = write(tmp_path / "x.parquet", ["c" * 70_000] * 3, **{**WAYS[way], "data_page_size": 3_000})
    column = pq.read_metadata(path).row_group(0).column(1)
    pages = pages_of(str(path), column)
    assert pages.ends[-1] == column.num_values
    assert (len(pages.ends) > 1) == (way != "dictionary")
    total = pages.sizes.sum() + pages.dictionary
    assert column.total_uncompressed_size - 100 * len(pages.ends) < total < column.total_uncompressed_size
    assert pages.prefixed == (way == "delta")
    assert 0 < pages.held(1) <= pages.held(100) <= pages.held(1 << 20)
    assert pages.held(1 << 20) == total or (way == "delta" and pages.held(1 << 20) > total)
    assert (pages.dictionary > 0) == pages.coded == (way == "dictionary")


def test_pages_that_cannot_be_told_are_one(tmp_path: Path) -> None:
    """Of a file that is damaged, or that grew: never an error of its own, and never without an end."""
    path = write(tmp_path / "x.parquet", [], **NO_DICTIONARY)
    column = pq.read_metadata(path).row_group(0).column(1)
    good = path.read_bytes()
    for fill in (b"", b"\0", b"\xff", b"\x15\x00\x15\x01\x15\x01", b"\x1c" * 5_000):
        path.write_bytes(good[:4] + (fill * len(good))[: len(good)] if fill else b"")
        pages = pages_of(str(path), column)
        assert (len(pages.ends), pages.held(1)) == (1, column.total_uncompressed_size)


def test_how_much_is_held_is_that_of_the_worst_rows() -> None:
    """Compared with every stretch of rows, as it is read from the start."""
    ends, sizes = np.array([3, 4, 4, 10]), np.array([30.0, 500.0, 7.0, 60.0])
    touched = [[page for page in range(4) if ends[page] > row >= ([0, *ends][page])] for row in range(10)]
    for rows in range(1, 12):
        stretches = [range(first, min(first + rows, 10)) for first in range(0, 10, rows)]
        least = max(sum(sizes[page] for page in {p for row in stretch for p in touched[row]}) for stretch in stretches)
        assert least <= Pages(ends, sizes).held(rows) <= least + 7
        assert Pages(ends, sizes).copied(rows) >= least
    assert Pages(ends, sizes, 1000).held(1) == 1500
    assert Pages(ends, sizes, 1000).copied(5) > 6000 > Pages(ends, sizes, 1000, coded=True).copied(1)


def test_few_rows_are_read_at_a_time_only_where_they_are_large(tmp_path: Path) -> None:
    for keys, least, most in (([], 1 << 16, 1 << 16), ([LONG], 1 << 13, 1 << 16), ([LONG[: 20 << 20]] * 8, 1, 1 << 12)):
        path = str(write(tmp_path / "x.parquet", keys, **NO_DICTIONARY))
        rows, coded = rows_at_a_time(path, pq.read_metadata(path), 0, ["user", "key"])
        assert least <= rows <= most
        assert not coded
