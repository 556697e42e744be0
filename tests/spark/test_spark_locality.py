"""What a table yields on Spark is the union of what each unit's records yield alone, whatever file, session or record it is."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import Phase, example, given, settings
from hypothesis import strategies as st

import dphist as dp
import spark_sessions
from dphist.aggregates.measures import Lattice, Measure
from dphist.aggregates.total import SumOfUnit
from dphist.engines.histogram import ContributionBounds
from dphist.engines.lines import LONGEST_LINE
from dphist.engines.query import GroupByQuery, Key
from dphist.engines.source import CsvFormat, Files
from dphist.engines.spark.source import fields_of
from spark_sessions import frame, session

NAN, INF = float("nan"), float("inf")
SUM = SumOfUnit("x", 0.0, 16.0, lattice=Lattice(0.0, 2.0**-16))
MARKER = "alice-secret"

Pairs = dict[Any, set[tuple[Any, ...]]]


def pairs(source: object, *keys: Key, where: str | None = None, measures: tuple[Measure, ...] = ()) -> Pairs:
    """The groups of each unit, with what it adds to them."""
    query = GroupByQuery("u", keys, measures, where=where)
    steps = [f"steps_{i}" for i in range(1, len(measures) + 1)]
    found: Pairs = {}
    with dp.SparkEngine(session()).open(source, query, seed=1) as records:
        for row in records.sql(records.pairs_sql()).collect():
            group = tuple(row[f"key_{i}"] for i in range(1, len(keys) + 1))
            found.setdefault(row["unit"], set()).add((*group, *(row[name] for name in steps)))
    return found


FLOATS = st.sampled_from([NAN, -NAN, 0.0, -0.0, 1.0, 2.0, 10.0, INF, -INF, 1e300, 5e-324, None])
RECORDS = st.lists(st.tuples(st.integers(0, 3), FLOATS), min_size=2, max_size=12)
NASTY = [(0, NAN), (1, 1.0), (1, NAN), (0, NAN), (2, 10.0), (0, NAN), (3, None), (3, -0.0), (2, INF), (1, -INF)]
BY_FLOATS = (
    Key("x"), Key("above", "x > 5"), Key("equal", "x = x"), Key("sum", "x + x"), Key("product", "x * 0"),
    Key("quotient", "x / x"), Key("rest", "x % 2"), Key("read", "CAST(t AS DOUBLE)"), Key("least", "x <> 1"),
)  # fmt: skip


def table_of(records: list[tuple[int, float | None]]) -> pa.Table:
    units, values = zip(*records, strict=True)
    texts = [None if value is None else str(value) for value in values]
    return pa.table({"u": pa.array(units), "x": pa.array(values, pa.float64()), "t": pa.array(texts)})


def written(table: pa.Table, path: Path) -> str:
    """Every record of a row group of its own, each with its statistics, which leave NaN out."""
    pq.write_table(table, path, row_group_size=2)
    return str(path)


def check_locality(records: list[tuple[int, float | None]], folder: Path, where: str | None) -> None:
    """Each unit alone, and all of them but one."""
    table = table_of(records)
    units = table["u"].to_numpy()
    whole = pairs(written(table, folder / "whole.parquet"), *BY_FLOATS, where=where, measures=(SUM,))
    assert all(value == value for groups in whole.values() for group in groups for value in group), "NaN came out"
    first = int(units[0])
    alone = pairs(
        written(table.filter(units == first), folder / "alone.parquet"), *BY_FLOATS, where=where, measures=(SUM,)
    )
    others = pairs(
        written(table.filter(units != first), folder / "rest.parquet"), *BY_FLOATS, where=where, measures=(SUM,)
    )
    assert whole == {**alone, **others}


def test_floats_of_one_unit_change_nothing_for_others(tmp_path: Path) -> None:
    @settings(max_examples=40, phases=tuple(Phase) if spark_sessions.thorough else (Phase.explicit,))
    @given(records=RECORDS, where=st.sampled_from([None, "x > 5", "x <> 1", "x = x", "x BETWEEN 5 AND 1e308"]))
    @example(records=NASTY, where="x > 5")
    def holds(records: list[tuple[int, float | None]], where: str | None) -> None:
        check_locality([*records, (9, 7.0)], tmp_path, where)

    holds()


def test_nan_is_null_before_anything_compares_it(tmp_path: Path) -> None:
    path = written(table_of(NASTY), tmp_path / "x.parquet")
    assert set(pairs(path, Key("u"), where="x > 5")) == {2}
    assert pairs(path, Key("b", "x > 5"), Key("c", "isnan(x)"), Key("d", "CAST(t AS DOUBLE) = 1"))[0] == {(None,) * 3}
    made = (Key("e", "x - x > 5"), Key("f", "x * 0 > 5"), Key("g", "x / x > 5"), Key("h", "x % 2 > 5"))
    assert (None, None, None, None) in pairs(path, *made)[2]


def test_a_unit_that_is_not_a_number_is_nobody() -> None:
    table = pa.table({"u": [NAN, -NAN, 1.0, None], "k": ["a", "b", "c", "d"]})
    assert pairs(frame(table), Key("k")) == {1.0: {("c",)}}


def lie(path: Path, old: bytes, new: bytes) -> str:
    """Change a value where it is stored; the statistics in the footer go on about the old one."""
    content = path.read_bytes()
    at = content.index(old)
    path.write_bytes(content[:at] + new + content[at + len(old) :])
    return str(path)


HOSTILE = {
    "spark.sql.parquet.filterPushdown": "true",
    "spark.sql.parquet.recordLevelFilter.enabled": "true",
    "spark.sql.parquet.aggregatePushdown": "true",
    "spark.sql.optimizer.metadataOnly": "true",
    "spark.sql.cbo.enabled": "true",
    "spark.sql.adaptive.enabled": "true",
    "spark.sql.sources.bucketing.enabled": "true",
}


@pytest.mark.parametrize("source", ["v1", "v2", "cached"])
def test_statistics_that_lie_are_not_asked(source: str, tmp_path: Path) -> None:
    path = tmp_path / "x.parquet"
    table = pa.table({"u": [1, 2], "x": [1.25, 1.25], "k": ["aaaaaaaa", "aaaaaaaa"]})
    pq.write_table(table, path, compression="none", use_dictionary=False)
    lie(path, struct.pack("<dd", 1.25, 1.25), struct.pack("<dd", 77.0, NAN))
    lie(path, b"\x08\x00\x00\x00aaaaaaaa", b"\x08\x00\x00\x00bbbbbbbb")
    before = {name: session().conf.get(name, None) for name in HOSTILE}
    v1 = "spark.sql.sources.useV1SourceList"
    before[v1] = session().conf.get(v1)
    try:
        for name, value in {**HOSTILE, **({v1: ""} if source == "v2" else {})}.items():
            session().conf.set(name, value)
        read: Any = session().read.parquet(str(path)) if source == "cached" else str(path)
        if source == "cached":
            read.cache()
        # Spark's own answer is wrong or not, as it likes: ours is that of the values.
        both = "x > 5 AND k = 'bbbbbbbb'"  # each of them false by the statistics
        assert pairs(read, Key("k"), where=both) == {1: {("bbbbbbbb",)}}
        query = GroupByQuery("u", (Key("k"),), where=both)
        with dp.SparkEngine(session()).open(read, query, seed=1) as records:
            # Were the settings not ours to make, there would still be nothing to prune by.
            for name, value in HOSTILE.items():
                session().conf.set(name, value)
            plan = records.sql(records.pairs_sql())._jdf.queryExecution().toString()
        assert "GreaterThan" not in plan
        assert "IsNotNull(" not in plan
    finally:
        session().catalog.clearCache()
        for name, old in before.items():
            session().conf.unset(name) if old is None else session().conf.set(name, old)


def test_a_folder_does_not_replace_a_column(tmp_path: Path) -> None:
    folder = tmp_path / "all" / "K=all"
    folder.mkdir(parents=True)
    pq.write_table(pa.table({"u": [1, 2], "k": ["a", "b"]}), folder / "d.parquet")
    for path in (folder / "d.parquet", tmp_path / "all"):
        with pytest.raises(dp.UnreadableSource, match="'K' as a column of the files or in the names of"):
            pairs(Files((path,), format="parquet"), Key("k"))
    years = tmp_path / "years"
    for year in ("2023", "x"):
        (years / f"year={year}").mkdir(parents=True)
        pq.write_table(pa.table({"u": [1]}), years / f"year={year}" / "x.parquet")
    assert pairs(Files((years,), format="parquet"), Key("year")) == {1: {("2023",), ("x",)}}
    assert pairs(Files((years / "year=2023",), format="parquet"), Key("u")) == {1: {(1,)}}


@pytest.mark.parametrize(
    ("keys", "told"),
    [
        (["1", "01"], "'01' and '1'"),
        (["1", "x"], "got 'x'"),
        (["1.5", "NaN"], "got 'NaN'"),
        (["1", "1", None], None),
    ],
)
def test_public_keys_stay_what_they_are(keys: list[str | None], told: str | None) -> None:
    source = frame(pa.table({"u": [1], "k": [1.0]}))
    query = GroupByQuery("u", (Key("k"),), public_keys=pa.table({"k": keys}))
    engine = dp.SparkEngine(session())
    if told is not None:
        with pytest.raises(dp.InvalidParameter, match=told), engine.open(source, query):
            pass
        return
    with engine.open(source, query) as records:
        assert len(records.sql(f"SELECT * FROM {records.fields.listed}").collect()) == 2


CSV: dict[bytes, Pairs] = {
    b"3,b": {"3": {("b",)}},
    b'3,"b"': {"3": {("b",)}},
    b'3,"b""c,d"': {"3": {('b"c,d',)}},
    b'3,b"c': {"3": {('b"c',)}},
    b'3,"b': {},
    b'3,"b"c': {},
    b"3": {},
    b"3,b,c": {},
    b"3,": {"3": {(None,)}},
    b"": {},
    b",b": {},
    b"u,k": {"u": {("k",)}},
    b"3,\xff\xfe": {},
    b"3,b\x00": {"3": {("b\x00",)}},
    b"3,b\rc": {},
    b"3,b\r": {"3": {("b",)}},
    b"3," + b"," * 30_000: {},
    b'3,"' + b'""' * 300_000 + b'"': {"3": {(None,)}},
    b"3," + b"x" * (LONGEST_LINE - 2): {"3": {(None,)}},
    b"\xef\xbb\xbf4," + b"x" * (LONGEST_LINE - 2) + b"\r": {"4": {(None,)}},
    b"3," + b"x" * (LONGEST_LINE - 1): {},
    b"5," + b"x" * (LONGEST_LINE - 1) + b"\r": {},
    b"3,b" + b"x" * 4_000_000: {},
}
JSON: dict[bytes, Pairs] = {
    b'{"u": 3, "k": "b", "more": {}}': {"3": {("b",)}},
    b'{"u": 3, "k": {"a": [1]}}': {"3": {('{"a":[1]}',)}},
    b'{"u": 3}': {"3": {(None,)}},
    b'{"u": 3, "k"': {},
    b"[1, 2]": {},
    b"5": {},
    b"null": {},
    b"": {},
    b"\x00": {},
    b"{'u': 3, 'k': 'b'}": {},
    b'{"u": 3, "k": NaN}': {},
    b'{"u": 3, "k": "\xff"}': {},
    b'{"u": 3, "k": "\\ud800"}': {"3": {("?",)}},
    b'{"u": 3, "k": ' + b"[" * 20_000 + b"]" * 20_000 + b"}": {},
    b'{"u": 3, "k": ' + b"9" * 5_000 + b"}": {},
    b'\xef\xbb\xbf{"u": 4, "k": "' + b"x" * (LONGEST_LINE - 17) + b'"}\r': {"4": {(None,)}},
    b'{"u": 5, "k": "' + b"x" * (LONGEST_LINE - 16) + b'"}\r': {},
    b'{"u": 3, "k": "' + b"x" * 4_000_000 + b'"}': {},
}


@pytest.mark.parametrize("kind", ["csv", "json"])
def test_a_line_costs_itself_alone(kind: str, tmp_path: Path) -> None:
    """All of them in one file, each between two good lines of its own, in parts that end anywhere."""
    odd = CSV if kind == "csv" else JSON
    first = b"u,k\n" if kind == "csv" else b""
    line = "good%d,a%d\n" if kind == "csv" else '{"u": "good%d", "k": "a%d"}\n'
    lines = [content + b"\n" + (line % (i, i)).encode() for i, content in enumerate(odd)]
    path = tmp_path / f"x.{kind}"
    path.write_bytes(first + (line % (99, 99)).encode() + b"".join(lines))
    name = "spark.sql.files.maxPartitionBytes"
    before = session().conf.get(name) or ""
    session().conf.set(name, str(3_000_017))
    try:
        found = pairs(Files((path,), types={"u": "text", "k": "text"}), Key("k"))
    finally:
        session().conf.set(name, before)
    good = {f"good{i}": {(f"a{i}",)} for i in (*range(len(odd)), 99)}
    want: Pairs = {}
    for yielded in odd.values():
        for unit, groups in yielded.items():
            want.setdefault(unit, set()).update(groups)
    assert found == {**good, **want}


@settings(max_examples=200)
@given(line=st.text(alphabet='a,"\r;\x00é', max_size=12))
def test_fields_are_those_of_python(line: str) -> None:
    import csv

    try:
        want = next(csv.reader([line], strict=True), None) or None
    except csv.Error:
        want = None
    got = fields_of(line.encode(), CsvFormat(",", '"', header=True))
    assert got == want or (got is None and line.endswith("\r\r")) or not line.strip("\r")


@pytest.mark.cluster
def test_files_without_header_or_with_another_one_quote_nothing(tmp_path: Path, capfd: Any) -> None:
    path, other = tmp_path / "x.csv", tmp_path / "y.csv"
    path.write_text(f"1,{MARKER}\n2,{MARKER}\n")
    other.write_text(f"{MARKER},1\n")
    errors = []
    for source, key in (
        (Files((path,)), "k"),
        (Files((path,), header=["a", "b"]), "k"),
        (Files((path,), types={"age": "INTEGER"}), "k"),
        (Files((path, other)), MARKER),
    ):
        with pytest.raises(dp.DphistError) as caught:
            dp.release(source, unit="1", by=key, epsilon=1, delta=1e-6, max_groups=1, engine=dp.SparkEngine(session()))
        assert caught.value.__cause__ is None
        errors.append(str(caught.value).replace(f"got {MARKER!r}", "") if key == MARKER else str(caught.value))
    bare = Files((path,), header=["who", "what"])
    query = GroupByQuery("who", (Key("what"),))
    with dp.SparkEngine(session()).open(bare, query, seed=1) as records:
        assert {(row["unit"], row["key_1"]) for row in records.sql(records.pairs_sql()).collect()} == {
            ("1", MARKER),
            ("2", MARKER),
        }
    told = capfd.readouterr()
    assert MARKER not in "".join(errors) + told.err + told.out
    assert "same header" in errors[-1]


def test_text_of_any_bytes_ends_nothing(tmp_path: Path) -> None:
    path = tmp_path / "x.parquet"
    pq.write_table(
        pa.table({"u": [1, 2], "k": ["aaaaaaaa", "bbbbbbbb"]}), path, compression="none", use_dictionary=False
    )
    lie(path, b"\x08\x00\x00\x00aaaaaaaa", b"\x08\x00\x00\x00\xff\xfe\xed\xa0\x80aaa")
    assert pairs(str(path), Key("k"), Key("upper", "upper(k)")) == {1: {(None, None)}, 2: {("bbbbbbbb", "BBBBBBBB")}}


GROWING: dict[str, Callable[[str], Any]] = {
    "replace(t, 'a', t)": lambda t: t.replace("a", t),
    "replace(t, t, t || t)": lambda t: t + t,
    "t || t": lambda t: t + t,
    "upper(t)": lambda t: t.upper(),
    "replace(t, '', 'x')": lambda t: t,
    "length(replace(t, 'a', 'bb'))": lambda t: len(t.replace("a", "bb")),
}


@pytest.mark.cluster
def test_no_text_grows_beyond_the_limit() -> None:
    texts = ["a" * length for length in (1, 256, 257, 32_768, 65_536, 65_537)]
    keys = [Key(f"k{i}", text) for i, text in enumerate(GROWING)]
    keys.append(Key("deep", "||".join(["t"] * 5)))
    found = pairs(frame(pa.table({"u": list(range(len(texts))), "t": texts})), *keys)

    def bounded(value: Any) -> Any:
        return None if isinstance(value, str) and len(value.encode()) > 65_536 else value

    for unit, text in enumerate(texts):
        want: list[Any] = [None] * len(keys)
        if len(text) <= 65_536:
            for i, work in enumerate(GROWING.values()):
                want[i] = bounded(work(text))
            if len(text) > 32_768:
                want[1] = want[5] = None
            want[6] = bounded(text * 5)
        assert found[unit] == {tuple(want)}


def test_an_error_is_null_for_its_step_alone() -> None:
    table = pa.table({"u": [1, 2], "t": ["x", "7"], "n": [2**63 - 1, 1]})
    keys = (
        Key("a", "coalesce(CAST(t AS BIGINT), -1)"),
        Key("b", "coalesce(n + 1, 0)"),
        Key("c", "CAST(t AS DOUBLE) IS NULL"),
    )
    assert pairs(frame(table), *keys) == {1: {(-1, 0, True)}, 2: {(7, 2, False)}}


@pytest.mark.cluster
def test_patterns_that_take_for_ever_are_refused() -> None:
    source = frame(pa.table({"u": [1], "t": ["a" * 65_536]}))
    for pattern in ("a%", "%a", "%a_a%", "a%b", "a"):
        assert pairs(source, Key("k", f"t LIKE '{pattern}'"))[1] == {(pattern not in ("a%b", "a"),)}
    for pattern in ("%a%b%", "a%a%", "%%%"):
        with pytest.raises(dp.InvalidParameter, match="like DuckDB"):
            pairs(source, Key("k", f"t LIKE '{pattern}'"))


def test_the_length_of_an_expression_grows_by_a_sum() -> None:
    text = "t"
    for _ in range(6):
        text = f"upper(CAST({text} AS VARCHAR) || 'a')"
    query = GroupByQuery("u", (Key("k", text),))
    with dp.SparkEngine(session()).open(frame(pa.table({"u": [1], "t": ["x"]})), query) as records:
        assert len(records.pairs_sql()) < 5_000


def test_numbers_of_any_bits_come_out_as_one(tmp_path: Path) -> None:
    bits = np.array([0x7FF8000000000000, 0xFFF8000000000001, 0x7FF0000000000001, 0x8000000000000000, 0], np.uint64)
    path = tmp_path / "x.parquet"
    pq.write_table(pa.table({"u": range(5), "x": bits.view(np.float64)}), path)
    found = {unit: value for unit, groups in pairs(str(path), Key("x")).items() for (value,) in groups}
    assert [found[unit] is None or struct.pack("<d", found[unit]) for unit in range(5)] == [True] * 3 + [bytes(8)] * 2


@pytest.mark.parametrize("unit", ["s", *(pytest.param(unit, marks=pytest.mark.cluster) for unit in ("ms", "us")), "ns"])
def test_no_time_of_an_arrow_table_ends_a_run(unit: str) -> None:
    """Spark's own conversion fails on one time that microseconds cannot hold, or that a clock shows twice."""
    usual, ambiguous = 1_700_000_000, 1_698_539_400  # 2023-10-29, half past two in the night, in Berlin
    per_second = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[unit]
    moments = [usual * per_second, ambiguous * per_second, -1, 2**63 - 1, -(2**63) + 1, None]
    table = pa.table(
        {
            "u": range(len(moments)),
            "t": pa.array(moments, pa.int64()).cast(pa.timestamp(unit, "Europe/Berlin")),
            "odd": [[1]] * len(moments),
        }
    )
    query = GroupByQuery("u", (Key("t"),))
    counted = dp.SparkEngine(session()).histogram(table, query, ContributionBounds(1), seed=1)
    assert counted.counts.sum() == len(moments)  # what cannot be held is null, and null is a group
    assert (
        dp.SparkEngine(session()).histogram(table.slice(0, 2), query, ContributionBounds(1), seed=1).counts.sum() == 2
    )
    with pytest.raises(dp.InvalidParameter, match="a type that Spark has for 'odd'"):
        dp.SparkEngine(session()).histogram(table, GroupByQuery("u", (Key("odd"),)), ContributionBounds(1))
    twice = pa.Table.from_arrays([table["u"], table["u"], table["u"]], names=["u", "k", "k"])
    with pytest.raises(dp.InvalidParameter):
        dp.SparkEngine(session()).histogram(twice, GroupByQuery("u", (Key("k"),)), ContributionBounds(1))
