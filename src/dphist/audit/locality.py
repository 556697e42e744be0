"""The attack on locality: does one unit's value change how another's is read?

Every theorem takes for granted that what a unit contributes depends on its own records alone. An engine breaks that when it
believes what a file says about all records: the largest value, which many writers take over all but NaN; a type that fits
every text. So each set of a few units is counted, and must give what its units give one by one.
"""

from __future__ import annotations

import csv
import importlib
import struct
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import chain, combinations
from pathlib import Path
from typing import Any, Final

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet

from dphist.aggregates import Measure
from dphist.audit.contributions import Bounding, Outcome, withstood
from dphist.audit.trials import KEY, UNIT
from dphist.engines.duckdb.engine import DuckDBEngine
from dphist.engines.query import Files, GroupByQuery, Key
from dphist.errors import DphistError
from dphist.histogram import ContributionBounds

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

_MEASURE = Measure("sum_second", "sum", "second", 0.0, 10.0, 5.0, 2.0**-10, 5 * 2**10)
_QUERY = GroupByQuery(
    UNIT,
    (Key(KEY), Key("low", "second <= 5")),
    measures=(_MEASURE,),
    where="first > 5 OR first IS NULL",
    want_total=True,
)
Source = Callable[[pa.Table, Path], object]


def locality(engine: Bounding | None = None) -> Outcome:
    """The histogram of every set of units is the sum of those of each unit alone, whoever wrote the file."""
    worker = engine or DuckDBEngine()
    told = []
    for name, source in sources().items():
        told.append(name)
        if (problem := next(_differences(worker, source), None)) is not None:
            return withstood([f"{name}: {problem}"], "")
    tried = f"every set of units with NaN, infinities, -0.0 and keys like 01 adds up, from {', '.join(told)}"
    return withstood([], tried)


def _differences(worker: Bounding, source: Source) -> Iterator[str]:
    alone = {unit: _counted(worker, source, {unit}) for unit in _UNITS}
    for units in chain(combinations(_UNITS, 2), combinations(_UNITS, 3)):
        added: Counter[Any] = Counter()
        for unit in units:
            added.update(alone[unit])
        if _counted(worker, source, set(units)) != added:
            yield f"the units {' and '.join(units)} together are not what each of them is alone"


def _counted(worker: Bounding, source: Source, units: set[str]) -> Counter[Any]:
    """Counts and sums by key, and the number of units; a run that ends otherwise is like no other."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            found = worker.histogram(source(table_of(units), Path(folder)), _QUERY, ContributionBounds(), seed=3)
        except DphistError:
            return Counter({"refused": 1})
    keys = list(zip(*(column.to_pylist() for column in found.keys.columns), strict=True))
    counts = zip(keys, found.counts.tolist(), strict=True)
    sums = zip((("sum", key) for key in keys), found.sums["sum_second"].tolist(), strict=True)
    return Counter(dict(chain(counts, sums, [("units", int(found.total_units or 0))])))


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
