"""The bounded histogram in a few lines of Python, obviously right and slow; and what tests of every engine share."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Hashable, Sequence
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, assume, given, settings

import spark_sessions
from dphist.aggregates.measures import Amount, Lattice, Measure, Number
from dphist.aggregates.total import SumOfUnit
from dphist.engines.base import Engine as Engine
from dphist.engines.duckdb.engine import DuckDBEngine
from dphist.engines.histogram import Histogram
from example_numbers import MORE
from spark_sessions import LazySpark

ENGINES: dict[str, Engine] = {"duckdb": DuckDBEngine(), "spark": LazySpark()}
every_engine = pytest.mark.parametrize("engine", ENGINES.values(), ids=ENGINES.keys())
duckdb_and_at_length_spark = pytest.mark.parametrize(
    "engine",
    [
        pytest.param(engine, id=name, marks=[pytest.mark.cluster] if name == "spark" else [])
        for name, engine in ENGINES.items()
    ],
)
"""For what another test shows on Spark: `make test-spark` runs it there."""


def quick(engine: Engine) -> bool:
    """Whether to ask less: a query takes Spark half a second, unless it is asked for by name."""
    return isinstance(engine, LazySpark) and not spark_sessions.thorough


def every_engine_given(
    examples: int, *, at_length: bool = False, **strategies: Any
) -> Callable[[Callable[..., None]], Callable[[Engine], None]]:
    """A property of every engine. Unless Spark is asked for by name, it gets one example, which has records.

    at_length: not even that.
    """

    def decorate(check: Callable[..., None]) -> Callable[[Engine], None]:
        @(duckdb_and_at_length_spark if at_length else every_engine)
        def test(engine: Engine) -> None:
            few = quick(engine)
            quiet = [HealthCheck.filter_too_much] if few else []

            @settings(max_examples=1 if few else examples * MORE, deadline=None, suppress_health_check=quiet)
            @given(**strategies)
            def holds(**drawn: Any) -> None:
                assume(not few or all(len(rows) >= 8 for rows in drawn.values() if isinstance(rows, list)))
                check(engine, **drawn)

            holds()

        test.__name__ = check.__name__
        test.__doc__ = check.__doc__
        return test

    return decorate


Record = dict[str, Any]
Groups = dict[tuple[Hashable, ...], tuple[int, ...]]

MASK = SumOfUnit("bit", 0.0, 2.0**30, lattice=Lattice(0.0, 1.0))
"""A sum that shows who is in a group, if the unit number i has 2^i as its value in one record of each group."""


def expected(
    records: Sequence[Record],
    unit: str | Sequence[str | Callable[[Record], Any]],
    keys: Sequence[str | Callable[[Record], Any]],
    measures: Sequence[Measure] = (),
    *,
    where: Callable[[Record], Any] = lambda record: True,
    drop_null_keys: bool = False,
    listed: Sequence[tuple[Any, ...]] | None = None,
) -> tuple[Groups, int]:
    """Units and steps per group, and the number of units, when nobody has too many groups."""
    records_of: dict[Hashable, dict[tuple[Hashable, ...], list[Record]]] = {}
    for record in records:
        parts = [unit] if isinstance(unit, str) else unit
        who = tuple(canonical(record[part] if isinstance(part, str) else part(record)) for part in parts)
        group = tuple(canonical(record[key] if isinstance(key, str) else key(record)) for key in keys)
        if None in who or where(record) is not True or (drop_null_keys and None in group):
            continue
        if listed is not None and group not in [tuple(map(canonical, one)) for one in listed]:
            continue
        records_of.setdefault(who, {}).setdefault(group, []).append(record)
    groups: Groups = {tuple(map(canonical, one)): (0,) * (1 + len(measures)) for one in listed or ()}
    for own in records_of.values():
        for group, mine in own.items():
            before = groups.get(group, (0,) * (1 + len(measures)))
            added = (1, *(steps(measure, mine) for measure in measures))
            groups[group] = tuple(a + b for a, b in zip(before, added, strict=True))
    return groups, len(records_of)


def coverage(pairs: Sequence[tuple[Hashable, tuple[Hashable, ...]]], released: Collection[Any]) -> tuple[int, int]:
    """How many units have a pair with a released group, and how many have none."""
    own: dict[Hashable, set[Any]] = {}
    for unit, group in pairs:
        own.setdefault(unit, set()).add(group)
    covered = sum(not groups.isdisjoint(released) for groups in own.values())
    return covered, len(own) - covered


def steps(measure: Measure, records: Sequence[Record]) -> int:
    """What one unit adds to one group."""
    if measure.column is None:
        return _whole(measure, min(len(records), measure.upper) - measure.centre)
    given = [record[measure.column] for record in records]
    values = [value for value in given if value is not None and not (isinstance(value, float) and math.isnan(value))]
    if isinstance(measure, Number):
        return _whole(measure, min(len(values), measure.records) - measure.centre)
    assert isinstance(measure, Amount)
    if not values:
        return _whole(measure, 0.0 - measure.centre) if measure.kind == "sum" else 0
    if measure.kind in ("sum", "mean"):
        total = float(sum(_record(float(value) / measure.record_step) for value in values)) * measure.record_step
        return _whole(measure, _clamp(total / (len(values) if measure.kind == "mean" else 1), measure) - measure.centre)
    middle = measure.lower + (measure.upper - measure.lower) / 2
    power = 2 if measure.kind == "square" else 1
    amounts = [(_clamp(float(value), measure) - (middle if power == 2 else 0.0)) ** power for value in values]
    total = float(sum(_record(amount / measure.record_step) for amount in amounts)) * measure.record_step
    return _whole(measure, (total - len(values) * measure.centre) * min(1.0, measure.records / len(values)))


def _clamp(amount: float, measure: Measure) -> float:
    return min(max(amount, measure.lower), measure.upper)


def _whole(measure: Measure, away: float) -> int:
    return math.trunc(away / measure.step)


def _record(scaled: float) -> int:
    return round(min(max(scaled, -(2.0**62)), 2.0**62))


def canonical(value: Any) -> Hashable:
    """NaN is null, zeros have no sign."""
    if isinstance(value, float):
        return None if math.isnan(value) else value + 0.0
    return value  # type: ignore[no-any-return]


def groups_of(histogram: Histogram) -> Groups:
    """A histogram as the oracle writes it."""
    columns = [column.to_pylist() for column in histogram.keys.columns]
    assert not any(isinstance(value, float) and math.isnan(value) for column in columns for value in column)
    keys = [tuple(map(canonical, key)) for key in zip(*columns, strict=True)]
    assert len(set(keys)) == len(keys), "a group appears twice"
    sums = [histogram.sums[measure.name] for measure in histogram.measures]
    rows = zip(histogram.counts.tolist(), *(values.tolist() for values in sums), strict=True)
    return dict(zip(keys, rows, strict=True))


def samples(histogram: Histogram) -> dict[int, set[tuple[Hashable, ...]]]:
    """Which groups each unit kept, read from the sum MASK."""
    kept: dict[int, set[tuple[Hashable, ...]]] = {}
    for group, (count, mask) in groups_of(histogram).items():
        units = [unit for unit in range(30) if mask >> unit & 1]
        assert len(units) == count
        for unit in units:
            kept.setdefault(unit, set()).add(group)
    return kept


def table(records: Sequence[Record], schema: pa.Schema) -> pa.Table:
    return pa.Table.from_pylist(list(records), schema)
