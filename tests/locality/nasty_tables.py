"""Small tables of records that try to be difficult: hypothesis strategies, and one table with everything in it.

Each column draws from a handful of values of its kind, so that groups repeat and so that a column's smallest and largest value
depend on who is in the table. The values are given as bits where bits matter: NaN has many.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final

import pyarrow as pa
from hypothesis import strategies as st

UNIT: Final = "column0"
"""The columns have the names that DuckDB gives to a file without a header."""

HUGE_TEXT: Final = "x" * 70_000
"""Longer than a key may be."""

_NANS64: Final = (0x7FF8 << 48, 0xFFF8 << 48, (0x7FF8 << 48) + 0xDEADBEEF, (0x7FF0 << 48) + 1, (0xFFF0 << 48) + 1)
_NANS32: Final = (0x7FC0_0000, 0xFFC0_0000, 0x7FC0_BEEF, 0x7F80_0001)
_NUMBERS64: Final = (0, 1 << 63, 0x7FF0 << 48, 0xFFF0 << 48, 1, (1 << 63) + 1, 0x3FF0 << 48, 0x4022 << 48, 0x7FE1 << 48)
_NUMBERS32: Final = (0, 1 << 31, 0x7F80_0000, 0xFF80_0000, 1, 0x3F80_0000, 0x4110_0000, 0x7F7F_FFFF)
_TEXTS: Final = (
    *(
        "",
        "a",
        "A",
        "b",
        "ä",
        "a\u0308",
        "NaN",
        "nan",
        "inf",
        "-inf",
        "1",
        "1.0",
        "=1+1",
        "null",
        "NULL",
        "\\N",
        " ",
        "🦆",
    ),
    *(
        '"',
        'a"b',
        '""',
        "'",
        "a,b",
        "a\nb",
        "a\r\nb",
        "\r",
        "\n",
        "\t",
        "\x00",
        "a\x00b",
        "\\ud800",
        "\\",
        "{",
        "[1",
        "\x01",
    ),
    *("\ufeff", "'; DROP TABLE source; --", "yz" * 1500),
)
_DAY: Final = 86_400
_FIRST, _LAST = -719_162, 2_932_896  # 0001-01-01 and 9999-12-31 as days since 1970
_SMALLEST, _LARGEST = -(2**63), 2**63 - 1


@dataclass(frozen=True, slots=True)
class ColumnKind:
    """A type of column: a pool of values, and how a list of them (or of None) becomes an Arrow array."""

    name: str
    pool: tuple[Any, ...]
    build: Callable[[Sequence[Any]], pa.Array]
    weight: int = 1

    def __repr__(self) -> str:
        return self.name


def _plain(kind: pa.DataType) -> Callable[[Sequence[Any]], pa.Array]:
    return lambda values: pa.array(values, kind)


def _viewed(stored: pa.DataType, kind: pa.DataType) -> Callable[[Sequence[Any]], pa.Array]:
    """From the integers that a type is stored as: no bit is lost on the way."""
    return lambda values: pa.array(values, stored).view(kind)


def _encoded(values: Sequence[Any]) -> pa.Array:
    """A dictionary in which one word stands twice, another nobody uses, and one is null."""
    words = ["a", "b", "a", "unused", None, ""]
    places = {"a": 0, "b": 1, "a again": 2, "no word": 4, "": 5}
    indices = pa.array([None if value is None else places[value] for value in values], pa.int8())
    return pa.DictionaryArray.from_arrays(indices, pa.array(words, pa.string()))


def _encoded_floats(values: Sequence[Any]) -> pa.Array:
    bits = list(_NANS64 + _NUMBERS64)
    indices = pa.array([None if value is None else bits.index(value) for value in values], pa.int16())
    return pa.DictionaryArray.from_arrays(indices, pa.array(bits, pa.uint64()).view(pa.float64()))


def _structs(values: Sequence[Any]) -> pa.Array:
    parts = [(None, None, None) if value is None else value for value in values]
    return pa.StructArray.from_arrays(
        [
            pa.array([part[0] for part in parts], pa.uint64()).view(pa.float64()),
            pa.array([part[1] for part in parts], pa.int64()).view(pa.timestamp("us")),
            pa.array([part[2] for part in parts], pa.string()),
        ],
        ["x", "t", "s"],
        mask=pa.array([value is None for value in values]),
    )


def _lists(values: Sequence[Any]) -> pa.Array:
    inner = [number for value in values if value is not None for number in value]
    offsets, end = [], 0
    for value in values:
        offsets.append(None if value is None else end)
        end += 0 if value is None else len(value)
    offsets.append(end)
    numbers = pa.array(inner, pa.uint64()).view(pa.float64())
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), numbers)


def _integers(bits: int, *, signed: bool) -> ColumnKind:
    kind = getattr(pa, f"{'' if signed else 'u'}int{bits}")()
    least, most = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if signed else (0, 2**bits - 1)
    return ColumnKind(str(kind), (least, least + 1, 0, 1, 2, 5, most - 1, most), _plain(kind))


def _instants(unit: str, zone: str | None) -> ColumnKind:
    second = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[unit]
    before = -1000 if unit == "ns" else -1  # DuckDB rounds nanoseconds towards 1970, which is nobody else's business
    near = (0, before, 1_700_000_000 * second, 1_700_006_400 * second, 951_782_400 * second, second)
    far = (_SMALLEST, _LARGEST, _LARGEST - 1) if unit == "ns" else _far(second)
    kind = pa.timestamp(unit, zone)
    return ColumnKind(str(kind), near + far, _viewed(pa.int64(), kind))


def _far(second: int) -> tuple[int, ...]:
    ends = (
        _FIRST * _DAY * second,
        _FIRST * _DAY * second - 1,
        (_LAST + 1) * _DAY * second - 1,
        (_LAST + 1) * _DAY * second,
    )
    # What does not fit into microseconds is a test of its own: some writers themselves give up on it.
    finer = 10**6 // second
    return (*ends, _SMALLEST // finer + 1, _LARGEST // finer)


_WORDS = ColumnKind("text", _TEXTS, _plain(pa.string()), weight=3)
_FLOATS = ColumnKind("float64", _NANS64 + _NUMBERS64, _viewed(pa.uint64(), pa.float64()), weight=6)
KINDS: Final = (
    _FLOATS,
    ColumnKind("float32", _NANS32 + _NUMBERS32, _viewed(pa.uint32(), pa.float32()), weight=4),
    _WORDS,
    ColumnKind("large text", ("", "a", "yz" * 1500, HUGE_TEXT, "ä" * 40_000), _plain(pa.large_string())),
    ColumnKind("text view", ("", "a", "a text that is not inlined", "another that is not"), _plain(pa.string_view())),
    ColumnKind("binary", (b"", b"\x00", b"\xff\xfe", b"a", b"x" * 65_536, b"x" * 65_537), _plain(pa.binary())),
    ColumnKind("fixed binary", (b"\x00\xff", b"ab", b"NN"), _plain(pa.binary(2))),
    ColumnKind("bool", (True, False), _plain(pa.bool_())),
    ColumnKind("null", (None,), _plain(pa.null())),
    *(_integers(bits, signed=signed) for bits in (8, 16, 32, 64) for signed in (True, False)),
    ColumnKind(
        "decimal", (*map(Decimal, ("0.00", "-0.01", "1.50", "999.99", "-999.99")),), _plain(pa.decimal128(5, 2))
    ),
    ColumnKind(
        "wide decimal",
        (Decimal(0), Decimal("1.5"), Decimal(10**35 - 1), Decimal(1 - 10**35)),
        _plain(pa.decimal128(38, 3)),
    ),
    ColumnKind(
        "date32",
        (0, -1, 19_675, _FIRST, _FIRST - 1, _LAST, _LAST + 1, -(2**31), -(2**31) + 1, 2**31 - 1),
        _viewed(pa.int32(), pa.date32()),
    ),
    ColumnKind(
        "date64",
        tuple(day * _DAY * 1000 for day in (0, 19_675, _FIRST, _LAST, _LAST + 1)),
        _viewed(pa.int64(), pa.date64()),
    ),
    ColumnKind("time32", (0, 1, 43_200, _DAY - 1), _viewed(pa.int32(), pa.time32("s"))),
    ColumnKind("time64", (0, 1, 43_200 * 10**6, _DAY * 10**6 - 1, _DAY * 10**6), _viewed(pa.int64(), pa.time64("us"))),
    ColumnKind("time64 ns", (0, 1, _DAY * 10**9 - 1), _viewed(pa.int64(), pa.time64("ns"))),
    *(_instants(unit, zone) for unit in ("s", "ms", "us", "ns") for zone in (None, "UTC")),
    _instants("us", "Asia/Kolkata"),
    ColumnKind("words", ("a", "b", "a again", "no word", ""), _encoded),
    ColumnKind("encoded floats", _NANS64 + _NUMBERS64, _encoded_floats),
    ColumnKind(
        "struct",
        tuple(
            (x, t, s)
            for x, t, s in zip(
                (*_NANS64[:3], *_NUMBERS64),
                (0, _SMALLEST, 10**15, None, _LARGEST, 0, 1, 10**15, -1, 0, 86_400_000_000, _SMALLEST + 1),
                ("a", None, "A", "NaN", "", HUGE_TEXT, "a", "ä", "b", "b", "", "x"),
                strict=True,
            )
        ),
        _structs,
        weight=2,
    ),
    ColumnKind(
        "list",
        ((), _NANS64[:1], _NANS64[2:4], (_NANS64[0], _NUMBERS64[6]), (_NUMBERS64[6], _NANS64[0]), _NUMBERS64[1:5]),
        _lists,
        weight=2,
    ),
)
_BY_NAME: Final = {kind.name: kind for kind in KINDS}
_UNIT_KINDS: Final = (
    "int64",
    "int64",
    "text",
    "text",
    "float64",
    "large text",
    "words",
    "uint64",
    "timestamp[s]",
    "date32",
)
_WEIGHTED: Final = tuple(kind for kind in KINDS for _ in range(kind.weight))


@st.composite
def tables(draw: st.DrawFn, most_columns: int = 6) -> pa.Table:
    """Six to twelve records of up to four units. The columns are the unit, text, floats, and then anything."""
    size = draw(st.integers(6, 12))
    kinds = [_BY_NAME[draw(st.sampled_from(_UNIT_KINDS))], _WORDS, draw(st.sampled_from(KINDS[:2]))]
    kinds += draw(st.lists(st.sampled_from(_WEIGHTED), min_size=1, max_size=most_columns - 3))
    columns = [_column(draw, kind, size, least=3 if position == 0 else 2) for position, kind in enumerate(kinds)]
    return pa.table(columns, [f"column{position}" for position in range(len(columns))])


def _column(draw: st.DrawFn, kind: ColumnKind, size: int, least: int) -> pa.Array:
    """Few values, so that a unit more or less changes the smallest or the largest."""
    least = min(least, len(set(kind.pool)))
    pool = draw(st.lists(st.sampled_from(kind.pool), min_size=least, max_size=least + 1, unique_by=repr))
    pool += [None] if draw(st.booleans()) else []
    return kind.build(draw(st.lists(st.sampled_from(pool), min_size=size, max_size=size)))


def everything(records: int = 48, units: int = 4) -> pa.Table:
    """A column of each kind, each value of its pool in turn: the same table in every run."""
    columns = [pa.array([record % units for record in range(records)], pa.int64())]
    for shift, kind in enumerate(KINDS):
        pool = (*kind.pool, None)
        columns.append(kind.build([pool[(record // units + record * shift) % len(pool)] for record in range(records)]))
    return pa.table(columns, [f"column{position}" for position in range(len(columns))])
