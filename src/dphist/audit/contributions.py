"""Attacks on contribution bounds: units, keys and values that have broken other systems."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from dphist.aggregates import Measure
from dphist.audit.trials import KEY, UNIT
from dphist.engines.duckdb.engine import DuckDBEngine
from dphist.engines.query import GroupByQuery, Key
from dphist.histogram import ContributionBounds, Histogram

Outcome = tuple[bool, str]


class Bounding(Protocol):
    """What makes exact histograms of tables: the DuckDB engine, or Spark's collected."""

    def histogram(
        self, source: object, query: GroupByQuery, bounds: ContributionBounds, *, seed: int | None = None
    ) -> Histogram:
        """Bounded counts and sums."""
        ...

    def sketch(self, source: object, query: GroupByQuery, sparsity: int, *, seed: int | None = None) -> Histogram:
        """Counters of a sketch."""
        ...


def withstood(problems: Sequence[str], tried: str) -> Outcome:
    """Either what was tried, or the first problem."""
    return (False, problems[0]) if problems else (True, tried)


def contributions(engine: Bounding | None = None) -> Outcome:
    """Taking any one unit out of a nasty table changes at most max_groups groups, by one each, and sums by their bound."""
    worker = engine or DuckDBEngine()
    problems, tried = [], 0
    for name, records in nasty_tables():
        for most in (1, 2):
            query = GroupByQuery(UNIT, (Key(KEY),), measures=(_MEASURE,), want_total=True)
            whole = _by_key(worker.histogram(_table(records), query, ContributionBounds(most), seed=3))
            for unit in sorted({"u0", *(str(record[0]) for record in records[_PLAIN:])}):  # the others are alike
                left = [record for record in records if str(record[0]) != unit]
                less = _by_key(worker.histogram(_table(left), query, ContributionBounds(most), seed=3))
                tried += 1
                problem = _too_much(whole, less, most)
                if problem:
                    problems.append(f"{name}, max_groups {most}: {problem}")
    return withstood(
        problems, f"{tried} units taken out of tables with {', '.join(name for name, _ in nasty_tables())}"
    )


_MEASURE = Measure("sum_value", "sum", "value", 0.0, 10.0, 5.0, 2.0**-10, 5 * 2**10)

Record = tuple[Any, Any, Any]
_PLAIN = 20


def nasty_tables() -> list[tuple[str, list[Record]]]:
    """Records (unit, key, value) that have broken other systems."""
    plain: list[Record] = [(f"u{i}", f"k{i % 5}", float(i % 7)) for i in range(_PLAIN)]
    return [
        ("duplicates", plain + [("heavy", "k0", 9.0)] * 50 + [("heavy", f"k{i}", 1.0) for i in range(5)]),
        (
            "nulls",
            [*plain, ("n", None, 3.0), ("n", None, None), ("n", "k1", None), (None, "k1", 1.0), ("n", "k2", 1.0)],
        ),
        ("type coercion", [*plain, *(("t", key, 1.0) for key in ("1", "01", "1.0", " 1", "1e0", "TRUE", "true"))]),
        (
            "unicode-equal keys",
            [*plain, *(("é", key, 1.0) for key in ("é", "e\u0301", "ﬁ", "fi", "Å", "\u212b", "A\u030a"))],
        ),
        ("unicode-equal units", [*plain, *((unit, f"k{i}", 1.0) for unit in ("é", "e\u0301") for i in range(4))]),
        ("case and trailing blanks", [*plain, *(("c", key, 1.0) for key in ("a", "A", "a ", "ａ", "a\x00", ""))]),
        (
            "huge values",
            [*plain, *(("v", f"k{i}", v) for i, v in enumerate((1e308, -1e308, math.inf, -math.inf, math.nan)))],
        ),
    ]


def _table(records: Sequence[Record]) -> pa.Table:
    columns = list(zip(*records, strict=True))
    return pa.table(
        {
            UNIT: pa.array(columns[0], pa.string()),
            KEY: pa.array(columns[1], pa.string()),
            "value": pa.array(columns[2], pa.float64()),
        }
    )


def _by_key(histogram: Histogram) -> dict[Any, tuple[int, int]]:
    keys = histogram.keys.column(0).to_pylist()
    sums = histogram.sums.get("sum_value", np.zeros(len(keys), np.int64))
    found = dict(zip(keys, zip(histogram.counts.tolist(), sums.tolist(), strict=True), strict=True))
    if len(found) < len(keys):
        found["two groups with one key"] = (10**9, 0)
    return found


def _too_much(whole: dict[Any, tuple[int, int]], less: dict[Any, tuple[int, int]], most: int) -> str | None:
    changed = [key for key in {*whole, *less} if whole.get(key) != less.get(key)]
    if len(changed) > most:
        return f"one unit changes {len(changed)} groups"
    for key in changed:
        (count, total), (other, rest) = whole.get(key, (0, 0)), less.get(key, (0, 0))
        if count - other != 1:
            return f"one unit changes a count by {count - other}"
        if abs(total - rest) > _MEASURE.sensitivity_steps:
            return f"one unit changes a sum by {abs(total - rest)} steps"
    return None


def equal_keys(engine: Bounding | None = None) -> Outcome:
    """-0.0 and 0.0, NaNs (null, so no unit), whole numbers beyond 2^53: equal keys and units are one, different ones not."""
    worker, problems = engine or DuckDBEngine(), []
    nans = np.array([0x7FF8000000000000, 0xFFF8000000000000, 0x7FF8000000000001], np.uint64).view(np.float64)
    floats = [0.0, -0.0, *nans.tolist(), 1.0, math.nextafter(1.0, 2.0)]
    whole = [2**53, 2**53 + 1, -(2**63), 2**63 - 1]
    for name, values, kind, sizes in (
        ("floats", floats, pa.float64(), (4, 3)),
        ("integers", whole, pa.int64(), (4, 4)),
    ):
        for column, other, groups in ((KEY, UNIT, sizes[0]), (UNIT, KEY, sizes[1])):
            table = pa.table(
                {
                    column: pa.array(values, kind),
                    other: pa.array(np.arange(len(values)) if column == KEY else [1] * len(values)),
                }
            )
            found = worker.histogram(table, GroupByQuery(UNIT, (Key(KEY),)), ContributionBounds())
            size = len(found) if column == KEY else int(found.counts.sum())
            if size != groups:
                problems.append(f"{len(values)} {name} as {column} are {size} different ones instead of {groups}")
    spelled = pa.table({UNIT: ["a", "a", "a"], KEY: ["Straße", "STRASSE", "strasse"]})
    collated = worker.histogram(spelled, GroupByQuery(UNIT, (Key(KEY),)), ContributionBounds(1))
    if int(collated.counts.sum()) != 1:
        problems.append("keys that a collation calls equal let a unit count more than once")
    return withstood(
        problems, "zeros, NaNs, neighbours of 1, whole numbers beyond 2^53, ß and ss: as keys and as units"
    )
