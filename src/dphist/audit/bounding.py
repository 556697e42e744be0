"""Attacks on what an engine counts: contribution bounds, equal keys, sketches, sums, and locality.

Every theorem takes for granted that what a unit contributes is bounded and depends on its own records alone. The inputs are
those that have broken other systems. Locality is broken by an engine that believes what a file says about all records: the
largest value, which many writers take over all but NaN; a type that fits every text. So each set of a few units is counted,
and must give what its units give one by one.
"""

from __future__ import annotations

import csv
import importlib
import itertools
import math
import struct
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, combinations
from pathlib import Path
from typing import Any, Final

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet

from dphist.aggregates.measures import Lattice
from dphist.aggregates.total import SumOfUnit
from dphist.audit.trials import KEY, QUERY, UNIT
from dphist.engines.base import Engine
from dphist.engines.histogram import ContributionBounds, Histogram
from dphist.engines.query import GroupByQuery, Key
from dphist.engines.source import Files
from dphist.errors import DphistError

Outcome = tuple[bool, str]


def outcome(problems: Sequence[str], tried: str) -> Outcome:
    """Either what was tried, or the first problem."""
    return (False, problems[0]) if problems else (True, tried)


@dataclass(frozen=True, slots=True)
class FromPairs(Engine):
    """An engine that counts from pairs that are written down first, as releases do that need more than one pass over them."""

    engine: Engine

    def histogram(
        self, source: object, query: GroupByQuery, bounds: ContributionBounds, *, seed: int | None = None, **_: Any
    ) -> Histogram:
        """Bounded counts and sums."""
        with self.engine.open(source, query, seed=seed) as records, records.pairs() as pairs:
            return pairs.histogram(bounds)


def contributions(engine: Engine) -> Outcome:
    """Taking any one unit out of a nasty table changes at most max_groups groups, by one each, and sums by their bound."""
    query, tried = GroupByQuery(UNIT, (Key(KEY),), measures=(_SUM,), want_total=True), 0
    for name, records in nasty_tables():
        for most in (1, 2):
            everybody = _by_key(engine.histogram(_table(records), query, ContributionBounds(most), seed=3))
            for unit in sorted({"u0", *(str(record[0]) for record in records[_PLAIN:])}):  # the others are alike
                left = [record for record in records if str(record[0]) != unit]
                less = _by_key(engine.histogram(_table(left), query, ContributionBounds(most), seed=3))
                tried += 1
                if problem := _too_much(everybody, less, most):
                    return False, f"{name}, max_groups {most}: {problem}"
    return True, f"{tried} units taken out of tables with {', '.join(name for name, _ in nasty_tables())}"


_SUM = SumOfUnit("value", 0.0, 10.0, lattice=Lattice(5.0, 2.0**-10))

Record = tuple[Any, Any, Any]
_PLAIN = 20


def nasty_tables() -> list[tuple[str, list[Record]]]:
    """Records (unit, key, value) that have broken other systems."""
    plain: list[Record] = [(f"u{i}", f"k{i % 5}", float(i % 7)) for i in range(_PLAIN)]
    more: dict[str, list[Record]] = {
        "duplicates": [("heavy", "k0", 9.0)] * 50 + [("heavy", f"k{i}", 1.0) for i in range(5)],
        "nulls": [("n", None, 3.0), ("n", None, None), ("n", "k1", None), (None, "k1", 1.0), ("n", "k2", 1.0)],
        "type coercion": [("t", key, 1.0) for key in ("1", "01", "1.0", " 1", "1e0", "TRUE", "true")],
        "unicode-equal keys": [("é", k, 1.0) for k in ("é", "e\u0301", "ﬁ", "fi", "Å", "\u212b", "A\u030a")],
        "unicode-equal units": [(unit, f"k{i}", 1.0) for unit in ("é", "e\u0301") for i in range(4)],
        "case and trailing blanks": [("c", key, 1.0) for key in ("a", "A", "a ", "ａ", "a\x00", "")],
        "huge values": [("v", f"k{i}", v) for i, v in enumerate((1e308, -1e308, math.inf, -math.inf, math.nan))],
    }
    return [(name, plain + records) for name, records in more.items()]


def _table(records: Sequence[Record]) -> pa.Table:
    types = {UNIT: pa.string(), KEY: pa.string(), "value": pa.float64()}
    return pa.table([pa.array(c, t) for c, t in zip(zip(*records, strict=True), types.values(), strict=True)], [*types])


def _by_key(histogram: Histogram) -> dict[Any, tuple[int, int]]:
    keys = histogram.keys.column(0).to_pylist()
    sums = histogram.sums.get("sum_value", np.zeros(len(keys), np.int64))
    groups = dict(zip(keys, zip(histogram.counts.tolist(), sums.tolist(), strict=True), strict=True))
    if len(groups) < len(keys):
        groups["two groups with one key"] = (10**9, 0)
    return groups


def _too_much(more: dict[Any, tuple[int, int]], less: dict[Any, tuple[int, int]], most: int) -> str | None:
    changed = [key for key in {*more, *less} if more.get(key) != less.get(key)]
    if len(changed) > most:
        return f"one unit changes {len(changed)} groups"
    for key in changed:
        (count, total), (other, rest) = more.get(key, (0, 0)), less.get(key, (0, 0))
        if count - other != 1:
            return f"one unit changes a count by {count - other}"
        if abs(total - rest) > _SUM.sensitivity_steps:
            return f"one unit changes a sum by {abs(total - rest)} steps"
    return None


def equal_keys(engine: Engine) -> Outcome:
    """-0.0 and 0.0, NaNs (null, so no unit), whole numbers beyond 2^53: equal keys and units are one, different ones not."""
    problems = []
    nans = np.array([0x7FF8000000000000, 0xFFF8000000000000, 0x7FF8000000000001], np.uint64).view(np.float64)
    floats = [0.0, -0.0, *nans.tolist(), 1.0, math.nextafter(1.0, 2.0)]
    whole = [2**53, 2**53 + 1, -(2**63), 2**63 - 1]
    for name, values, kind, sizes in (
        ("floats", floats, pa.float64(), (4, 3)),
        ("integers", whole, pa.int64(), (4, 4)),
    ):
        for column, other, groups in ((KEY, UNIT, sizes[0]), (UNIT, KEY, sizes[1])):
            others = np.arange(len(values)) if column == KEY else np.ones(len(values), np.int64)
            table = pa.table({column: pa.array(values, kind), other: others})
            histogram = engine.histogram(table, QUERY, ContributionBounds())
            size = len(histogram) if column == KEY else int(histogram.counts.sum())
            if size != groups:
                problems.append(f"{len(values)} {name} as {column} are {size} different ones instead of {groups}")
    spelled = pa.table({UNIT: ["a", "a", "a"], KEY: ["Straße", "STRASSE", "strasse"]})
    collated = engine.histogram(spelled, QUERY, ContributionBounds(1))
    if int(collated.counts.sum()) != 1:
        problems.append("keys that a collation calls equal let a unit count more than once")
    return outcome(problems, "zeros, NaNs, neighbours of 1, whole numbers beyond 2^53, ß and ss: as keys and as units")


def sketch_moves(engine: Engine) -> Outcome:
    """One unit moves a sketch by a vector of zeros and ones or its negative, for many seeds of the blocks."""
    rows = np.arange(300)
    table = pa.table({UNIT: rows % 60, KEY: (rows * rows) % 17})
    problems, tried = [], 0
    for seed, unit in itertools.product(range(4), range(5)):
        sides = []
        for part in (table, table.filter(pc.not_equal(table.column(UNIT), unit))):
            histogram = engine.sketch(part, QUERY, 4, seed=seed)
            sides.append(dict(zip(histogram.keys.column(0).to_pylist(), histogram.counts.tolist(), strict=True)))
        moves = {sides[0].get(key, 0) - sides[1].get(key, 0) for key in {*sides[0], *sides[1]}}
        tried += 1
        if not (moves <= {0, 1} or moves <= {0, -1}):
            problems.append(f"one unit moves a sketch by {sorted(moves)}")
    return outcome(problems, f"{tried} units taken out of sketches")


def sums(engine: Engine) -> Outcome:
    """Sums saturate instead of wrapping, lose no integer, and do not depend on the order of records."""
    problems = []
    wide = SumOfUnit("value", -(2.0**30), 2.0**30, lattice=Lattice(0.0, 1.0))
    query = GroupByQuery(UNIT, (Key(KEY),), measures=(wide,))
    units = 40_000
    large = pa.table({UNIT: np.arange(units), KEY: np.zeros(units, np.int64), "value": np.full(units, 2.0**30 - 1)})
    total = int(engine.histogram(large, query, ContributionBounds(1)).sums["sum_value"][0])
    if total != units * (2**30 - 1):
        problems.append(f"a sum of {units:,} whole numbers is off by {units * (2**30 - 1) - total}")
    values = np.where(np.arange(3000) % 3 == 0, 1e16, np.where(np.arange(3000) % 3 == 1, -1e16, 0.25))
    mixed = pa.table({UNIT: np.zeros(3000, np.int64), KEY: np.zeros(3000, np.int64), "value": values})
    orders = {
        int(engine.histogram(mixed.take(pa.array(places)), query, ContributionBounds(1)).sums["sum_value"][0])
        for places in (np.arange(3000), np.arange(3000)[::-1], np.argsort(values, kind="stable"))
    }
    if len(orders) > 1:
        problems.append("the sum of a unit's records depends on their order")
    return outcome(problems, f"{units:,} sums of 2^30 - 1 are exact; 1e16 - 1e16 + 0.25 is the same in three orders")


# Locality

VALUES: Final = ("first", "second")
LARGE: Final = 10.0
_INFINITY = float("inf")
_NAN, _OTHER_NAN = np.array([0x7FF8000000000000, 0xFFF8000000000123], np.uint64).view(np.float64).tolist()
_UNITS: Final = ("unknown", "small", "large")
_ROWS: Final = (
    ("unknown", "1", _NAN, _OTHER_NAN),
    ("unknown", "01", _OTHER_NAN, _NAN),
    ("small", "1", 1.0, -0.0),
    ("small", "1", -0.0, 2.0),
    ("large", "x", LARGE, _INFINITY),
    ("large", "1", LARGE, LARGE),
)
"""Unit, key and two values. The keys are numbers but for one unit; a largest value of 2 does not tell of NaN."""

_SECOND = SumOfUnit("second", 0.0, 10.0, lattice=Lattice(5.0, 2.0**-10))
_QUERY = GroupByQuery(
    UNIT,
    (Key(KEY), Key("low", "second <= 5")),
    measures=(_SECOND,),
    where="first > 5 OR first IS NULL",
    want_total=True,
)
Source = Callable[[pa.Table, Path], object]


def locality(engine: Engine) -> Outcome:
    """The histogram of every set of units is the sum of those of each unit alone, whoever wrote the file."""
    for name, source in sources().items():
        if (problem := next(_differences(engine, source), None)) is not None:
            return False, f"{name}: {problem}"
    return True, f"every set of units with NaN, infinities, -0.0 and keys like 01 adds up, from {', '.join(sources())}"


def _differences(engine: Engine, source: Source) -> Iterator[str]:
    alone = {unit: _counted(engine, source, {unit}) for unit in _UNITS}
    for units in chain(combinations(_UNITS, 2), combinations(_UNITS, 3)):
        added: Counter[Any] = Counter()
        for unit in units:
            added.update(alone[unit])
        if _counted(engine, source, set(units)) != added:
            yield f"the units {' and '.join(units)} together are not what each of them is alone"


def _counted(engine: Engine, source: Source, units: set[str]) -> Counter[Any]:
    """Counts and sums by key, and the number of units; a run that ends otherwise is like no other."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            histogram = engine.histogram(source(table_of(units), Path(folder)), _QUERY, ContributionBounds(), seed=3)
        except DphistError:
            return Counter({"refused": 1})
    keys = list(zip(*(column.to_pylist() for column in histogram.keys.columns), strict=True))
    counts = zip(keys, histogram.counts.tolist(), strict=True)
    sums = zip((("sum", key) for key in keys), histogram.sums["sum_second"].tolist(), strict=True)
    return Counter(dict(chain(counts, sums, [("units", int(histogram.total_units or 0))])))


def table_of(units: set[str]) -> pa.Table:
    """The records of these units."""
    columns = list(zip(*(row for row in _ROWS if row[0] in units), strict=True))
    texts = {name: pa.array(column, pa.string()) for name, column in zip((UNIT, KEY), columns, strict=False)}
    return pa.table(texts | {name: pa.array(column) for name, column in zip(VALUES, columns[2:], strict=True)})


# Writers


def sources() -> dict[str, Source]:
    """Ways from a table to something that an engine reads: those of other libraries where they are installed."""
    ways: dict[str, Source] = {
        "Arrow": lambda table, _: table,
        "Parquet of Arrow": _parquet,
        "Parquet of DuckDB": _parquet_of_duckdb,
        "Parquet with wrong statistics": _parquet_with_wrong_statistics,
        "CSV": _csv,
    }
    if (polars := _installed("polars")) is not None:
        ways["Parquet of Polars"] = lambda table, folder: _written(folder, polars.from_arrow(table).write_parquet)
    if _installed("pandas") is not None:
        ways["pandas"] = lambda table, _: table.to_pandas()
    return ways


def _installed(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


def _written(folder: Path, write: Callable[[Path], object]) -> Path:
    path = folder / "records.parquet"
    write(path)
    return path


def _parquet(table: pa.Table, folder: Path) -> Path:
    return _written(folder, lambda path: pa.parquet.write_table(table, path))


def _parquet_of_duckdb(table: pa.Table, folder: Path) -> Path:
    with duckdb.connect() as connection:
        return _written(folder, lambda path: connection.from_arrow(table).write_parquet(str(path)))


def _parquet_with_wrong_statistics(table: pa.Table, folder: Path) -> Path:
    """The largest value is not told of, as if another program had appended it; alone a unit has its own."""
    path = _parquet(table, folder)
    content = path.read_bytes()
    if len(set(table.column(UNIT).to_pylist())) > 1:
        start = len(content) - 8 - struct.unpack("<I", content[-8:-4])[0]
        content = content[:start] + content[start:].replace(struct.pack("<d", LARGE), struct.pack("<d", 2.0))
        path.write_bytes(content)
    return path


def _csv(table: pa.Table, folder: Path) -> Files:
    path = folder / "records.csv"
    with path.open("w", newline="") as opened:
        writer = csv.writer(opened, lineterminator="\n")
        writer.writerows([table.column_names, *(row.values() for row in table.to_pylist())])
    return Files((path,), types=dict.fromkeys(VALUES, "DOUBLE"))
