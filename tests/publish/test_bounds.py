"""Private bounds: the histogram of sizes against plain Python on both engines, what is paid, and what is chosen."""

from __future__ import annotations

import math
from collections import Counter
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import dphist as dp
import spark_sessions
from dphist.aggregates import SIZES
from dphist.aggregates.measures import Of
from dphist.aggregates.total import SumOfUnit
from dphist.engines.base import Engine
from dphist.engines.buckets import BUCKETS, LARGEST, OF_A_SIGN, SMALLEST, upper_ends
from dphist.engines.duckdb.engine import DuckDBEngine
from dphist.engines.query import GroupByQuery, Key
from dphist.ledger.accountant import price
from dphist.noise import DiscreteLaplace
from dphist.noise.testing import SeededEntropy
from dphist.run.chosen_bounds import choose_bounds, read_sizes
from drawn_laws import recorded
from example_numbers import examples
from word_sources import drawn_from

ENGINES: dict[str, Engine] = {"duckdb": DuckDBEngine(), "spark": spark_sessions.LazySpark()}
every_engine = pytest.mark.parametrize("engine", ENGINES.values(), ids=ENGINES.keys())
VALUES = [0.0, -0.0, 1.0, 1.5, -3.0, 1e-30, 2.0**-58, 2.0**88, 1e300, math.inf, -math.inf, 0.3, 700.0, None, math.nan]


def bucket(size: float) -> int:
    if size == 0:
        return OF_A_SIGN
    far = (
        2 * (LARGEST - SMALLEST) - 1
        if abs(size) >= 2.0**LARGEST
        else math.floor(2 * math.log2(abs(size))) - 2 * SMALLEST
    )
    place = min(max(far, 0), OF_A_SIGN - 1)
    return OF_A_SIGN + 1 + place if size > 0 else OF_A_SIGN - 1 - place


def sizes(engine: Engine, table: pa.Table, of: Of, seed: int = 3) -> Counter[int]:
    measure = SIZES[of](None if of == "rows" else "x", 0.0, 1.0)
    with engine.open(table, GroupByQuery("unit", (Key("key"),), (measure,)), seed=seed) as records:
        found = records.sizes(1)
    assert len(found) == BUCKETS
    return Counter({int(place): int(found[place]) for place in np.flatnonzero(found)})


@every_engine
def test_sizes_are_those_of_plain_python(engine: Engine) -> None:
    """One group for each unit, so that nothing is chosen: sums, means and numbers of records, and single records."""
    rows = [(unit, x) for unit, x in enumerate(VALUES)]
    rows += [(100, 1.0), (100, 2.5), (101, -1.0), (101, 1.0), (102, None), (102, 8.0), (103, 5.0), (103, math.nan)]
    table = pa.table({"unit": [u for u, _ in rows], "key": ["a"] * len(rows), "x": pa.array([x for _, x in rows])})
    own: dict[int, list[float]] = {}
    for unit, x in rows:
        own.setdefault(unit, [])
        if x is not None and not math.isnan(x):
            own[unit].append(x)
    whole = {unit: [0.0 if abs(x) < 2.0**-61 else x for x in part] for unit, part in own.items()}  # the finest step
    here = [part for part in whole.values() if part]
    assert sizes(engine, table, "sum") == Counter(bucket(sum(part)) for part in here)
    assert sizes(engine, table, "mean") == Counter(bucket(sum(part) / len(part)) for part in here)
    numbers = Counter(unit for unit, _ in rows)
    assert sizes(engine, table, "rows") == Counter(bucket(float(n)) for n in numbers.values())
    single = sizes(engine, table, "record")
    assert single.total() == len(here)
    certain = Counter(bucket(part[0]) for part in own.values() if len(set(part)) == 1)
    assert not certain - single


@examples(12)
@given(
    rows=st.lists(
        st.tuples(st.integers(0, 3), st.sampled_from("abc"), st.one_of(st.none(), st.integers(-9, 9).map(float))),
        min_size=1,
        max_size=40,
    ),
    of=st.sampled_from(["sum", "mean", "rows", "record"]),
    seed=st.integers(0, 9),
)
def test_one_unit_is_in_one_bucket_whoever_else_is_there(rows: list[tuple[Any, ...]], of: Of, seed: int) -> None:
    def table(kept: list[tuple[Any, ...]]) -> pa.Table:
        types = (("unit", pa.int64()), ("key", pa.string()), ("x", pa.float64()))
        return pa.table({name: pa.array([row[i] for row in kept], kind) for i, (name, kind) in enumerate(types)})

    engine = DuckDBEngine()
    alone = Counter[int]()
    for unit in {row[0] for row in rows}:
        own = sizes(engine, table([row for row in rows if row[0] == unit]), of, seed)
        assert own.total() <= 1
        alone += own
    assert sizes(engine, table(rows[::-1]), of, seed) == alone


def test_every_bucket_has_noise_of_the_scale_that_is_paid_for() -> None:
    table = people(np.arange(400.0))
    plan = dp.plan(epsilon=1, delta=1e-6, max_groups=2, sums={"x": "auto"}, means={"x": (0, "auto")}, total=True)
    with recorded() as draws:
        dp.release(table, unit="unit", by="key", plan=plan)
    request = plan.request
    laws = [draw for draw in draws if len(draw.noise) == BUCKETS]
    assert len(laws) == len(request.sized) == 2
    paid = sum(1 / law.law.scale for law in laws if isinstance(law.law, DiscreteLaplace))
    assert float(paid) <= request.bounds_epsilon == pytest.approx(0.1)
    assert float(paid) == pytest.approx(0.1, rel=1e-9)
    assert request.total_scale is not None
    assert (
        Fraction(request.mechanism_epsilon) + Fraction(request.bounds_epsilon) + 1 / Fraction(request.total_scale) <= 1
    )
    assert request.mechanism_epsilon == pytest.approx(0.85)
    with_rho = price(plan.event, 1.0).rho
    assert with_rho > price(plan.mechanism.event(request.mechanism_epsilon)).rho + 2 * 0.05**2 / 2 * 0.9


def people(x: NDArray[np.float64] | list[float | None]) -> pa.Table:
    values = pa.array(x, pa.float64())
    return pa.table({"unit": np.arange(len(values)), "key": [f"k{i % 2}" for i in range(len(values))], "x": values})


def seeded(table: pa.Table, **options: Any) -> dp.Release:
    """With noise that is the same in every run: one histogram in a thousand has a bucket that nobody is in."""
    return drawn_from(SeededEntropy(7), dp.release, table, **options)


CASES: dict[str, NDArray[np.float64]] = {
    "tiny": np.linspace(0, 1e-12, 2000),
    "huge": np.linspace(0, 1e20, 2000),
    "negative": -np.linspace(0, 50, 2000),
    "constant": np.full(2000, 5.0),
    "both signs": np.linspace(-30, 70, 2000),
}


@pytest.mark.parametrize("name", CASES)
def test_bounds_are_found_whatever_the_size(name: str) -> None:
    """Within the noise at epsilon 5: the sum is about right, and the bounds are of the size of the values."""
    x = CASES[name]
    found = seeded(people(x), unit="unit", by="key", epsilon=5, delta=1e-6, max_groups=1, sums={"x": "auto"})
    (bounds,) = found.bounds
    assert bounds.lower is not None
    assert bounds.upper is not None
    far = np.abs(x).max()
    assert far / 4 <= max(abs(bounds.lower), abs(bounds.upper)) <= 2 * far
    assert found.to_arrow()["sum_x"].to_pylist() == pytest.approx([x[::2].sum(), x[1::2].sum()], rel=0.2, abs=40 * far)


@pytest.mark.parametrize("x", [[None] * 300, [math.nan] * 300, [1.0, 2.0]])
def test_without_values_the_rest_of_the_release_stands(x: list[float | None], tmp_path: Path) -> None:
    table = people([*x, *([None] * 4000)])
    found = seeded(
        table,
        unit="unit",
        by="key",
        epsilon=1,
        delta=1e-6,
        max_groups=1,
        sums={"x": "auto"},
        rows="auto",
        means={"x": (0, 1)},
    )
    assert "sum_x" not in found.to_arrow().column_names
    assert found.to_arrow()["count"].to_pylist() == pytest.approx([2000, 2000], rel=0.2)
    assert {"rows", "mean_x"} <= set(found.to_arrow().column_names)
    assert found.bounds[0].upper is None
    assert "no bounds were found" in str(found.plan)
    found.write(tmp_path / "out.parquet")
    assert not any(check.failed for check in dp.verify(tmp_path / "out.parquet"))


def test_the_number_of_records_is_chosen_as_a_whole_number() -> None:
    units = np.repeat(np.arange(1000), 7)
    table = pa.table({"unit": units, "key": ["a"] * len(units)})
    found = seeded(table, unit="unit", by="key", epsilon=3, delta=1e-6, max_groups=1, rows="auto")
    (bounds,) = found.bounds
    assert bounds.upper in (7, 8, 11)
    assert found.to_arrow()["rows"].to_pylist() == pytest.approx([7000], rel=0.05)


def test_a_plan_with_open_bounds_is_stored_and_used(tmp_path: Path) -> None:
    plan = dp.plan(epsilon=2, delta=1e-6, sums={"x": (0, "auto")}, variances={"x": "auto"})
    plan.save(tmp_path / "plan.json")
    assert dp.Plan.load(tmp_path / "plan.json") == plan
    assert "10% of epsilon" in str(plan)
    x = np.linspace(0, 10, 3000)
    found = dp.release(people(x), unit="unit", by="key", plan=tmp_path / "plan.json")
    assert [bounds.name for bounds in found.bounds] == ["sum_x", "variance_x"]
    assert found.bounds[0].lower == 0
    found.write(tmp_path / "out.parquet")
    checks = dp.verify(tmp_path / "out.parquet")
    assert not any(check.failed for check in checks), checks


def test_bounds_by_themselves_are_charged_and_cover_most_units(tmp_path: Path) -> None:
    x = np.linspace(0, 100, 4000)
    with dp.Ledger(tmp_path / "ledger.db", create=True) as ledger:
        ledger.create(dp.DataSet("people", 1.0, 1e-6, "unit", "basic"))
    options: dict[str, Any] = {"unit": "unit", "column": "x", "ledger": tmp_path / "ledger.db", "dataset": "people"}
    found = dp.bounds(people(x), epsilon=0.5, **options)
    assert found.lower is not None
    assert found.upper is not None
    assert 0 <= found.lower <= 8
    assert 90 <= found.upper <= 182
    assert found.outside is not None
    assert found.outside <= 0.1
    assert found.receipt is not None
    with pytest.raises(dp.BudgetExceeded):
        dp.bounds(people(x), epsilon=0.6, **options)
    known = dp.bounds(people(x), epsilon=1.0, unit="unit", column="x", lower=-5.0, of="sum", by="key")
    assert known.lower == -5.0
    rows = dp.bounds(people(x), epsilon=1.0, unit="unit", of="rows")
    assert (rows.lower, rows.upper) == (0.0, 1.0)
    assert "no bounds found" in str(dp.bounds(people([None] * 9), epsilon=0.1, unit="unit", column="x"))
    for wrong in ({"column": None}, {"epsilon": 0.0}, {"of": "median"}, {"outside": 0.7}):
        with pytest.raises(dp.InvalidParameter):
            dp.bounds(people(x), **{"epsilon": 0.5, "unit": "unit", "column": "x", **wrong})  # type: ignore[arg-type]


def test_a_source_that_can_be_read_once_is_enough() -> None:
    x = np.linspace(0, 10, 3000)
    reader = pa.RecordBatchReader.from_batches(people(x).schema, people(x).to_batches(max_chunksize=100))
    found = seeded(reader, unit="unit", by="key", epsilon=5, delta=1e-6, max_groups=1, sums={"x": (0, "auto")})
    assert found.to_arrow()["sum_x"].to_pylist() == pytest.approx([7500, 7500], rel=0.1)


def test_few_large_values_beside_many_zeros_are_seen_together() -> None:
    """No bucket by itself stands out, and zeros alone would bound everything by 0."""
    exact = np.zeros(BUCKETS, np.int64)
    exact[OF_A_SIGN] = 9000
    exact[bucket(8.0) : bucket(8.0) + 16] = 60
    found = read_sizes(exact, 10.0)
    assert found is not None
    assert found.high.max() >= 8.0 * 2**8
    exact[OF_A_SIGN + 1 :] = 0
    assert read_sizes(exact, 10.0) is None


@settings(max_examples=40, deadline=None)
@given(lower=st.floats(-1e6, 1e6), size=st.floats(1e-6, 1e6), std=st.floats(0.01, 100))
def test_chosen_bounds_are_bounds_that_a_measure_takes(lower: float, size: float, std: float) -> None:
    exact = np.zeros(BUCKETS, np.int64)
    exact[bucket(size)] = 5000
    found = read_sizes(exact, 1.0)
    assert found is not None
    for ends in ((lower, None), (None, lower), (None, None)):
        cut = choose_bounds(found, lambda low, high: std * (high - low), 50.0, *ends)
        assert cut.lower < cut.upper
        assert cut.noise > 0
        assert min(cut.bias, cut.spread) >= 0
        SumOfUnit("x", cut.lower, cut.upper)


def test_what_no_release_can_use_is_refused_before_anything_is_read() -> None:
    table = people(np.arange(30.0))
    budget: dict[str, Any] = {"unit": "unit", "by": "key", "epsilon": 0.1, "delta": 1e-8, "max_groups": 10}
    renamed = table.append_column("x_std_error", table["x"])
    with pytest.raises(dp.InvalidParameter, match="columns have different names"):
        dp.release(renamed, sums={"x": (0, 1), "x_std_error": (0, 1)}, **budget)
    with pytest.raises(dp.Infeasible, match="noise on sums that can be drawn"):
        dp.plan(epsilon=0.1, delta=1e-8, max_groups=10, variances={"x": (0, 100)}, records=10**6)
    columns = [f"c{i}" for i in range(4)]
    with pytest.raises(dp.InvalidParameter, match="at most 16 sums"):
        dp.plan(
            epsilon=1,
            delta=1e-8,
            max_groups=10,
            variances=dict.fromkeys(columns, "auto"),
            stds=dict.fromkeys(columns, (0, "auto")),
        )
    for low, high in ((5.0, 1.0), (math.nan, None), (None, math.inf)):
        with pytest.raises(dp.InvalidParameter, match="lower < upper"):
            dp.bounds(table, unit="unit", column="x", epsilon=1.0, lower=low, upper=high)
    dp.plan(epsilon=1, delta=1e-8, max_groups=1, means={"x": (1e6, "auto")})


def test_the_plan_of_a_release_is_not_used_again() -> None:
    found = seeded(
        people(np.linspace(0, 9, 900)), unit="unit", by="key", epsilon=9, delta=1e-6, max_groups=1, sums={"x": "auto"}
    )
    with pytest.raises(dp.InvalidParameter, match="still to be chosen"):
        dp.release(people(np.arange(9.0)), unit="unit", by="key", plan=found.plan)


def test_a_given_end_is_kept_and_the_other_minimises_what_is_expected() -> None:
    exact = np.zeros(BUCKETS, np.int64)
    exact[bucket(10.0)] = 5000
    exact[bucket(1000.0)] = 200
    found = read_sizes(exact, 0.01)
    assert found is not None

    def noise_of(std: float) -> Any:
        return lambda lower, upper: std * (upper - lower)

    costly = choose_bounds(found, noise_of(10_000.0), 50.0, lower=0.0)
    cheap = choose_bounds(found, noise_of(0.01), 50.0, lower=0.0)
    assert costly.lower == cheap.lower == 0.0
    assert costly.upper < 20
    assert 900 < cheap.upper < 2000
    assert cheap.bias < 1e-3 * costly.bias
    assert costly.bias == pytest.approx(200 * 860, rel=0.2)
    assert upper_ends()[0] == 2.0 ** (SMALLEST + 0.5)
    assert read_sizes(np.zeros(BUCKETS, np.int64), 1.0) is None
