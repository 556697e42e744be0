"""Private statistics from tables: the promise against plain Python, bounding, refusals."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dphist
from dphist.engines.duckdb import DuckDBEngine
from dphist.errors import Infeasible, InvalidParameter
from dphist.flexible.bucketing import Buckets
from dphist.flexible.plan import plan_statistic
from dphist.histogram import ContributionBounds
from dphist.noise.entropy import allow_test_entropy
from dphist.noise.testing import SeededEntropy
from dphist.publish.stat import build_query, privatise_statistic

RANGE: dict[str, Any] = {"lower": 0, "upper": 100, "error": 2}


@pytest.fixture(scope="module")
def table() -> pa.Table:
    random = np.random.default_rng(1)
    size = 20_000
    ages: list[float | None] = list(np.round(random.gamma(9, 5, size), 1))
    ages[:4] = [None, math.nan, math.inf, -math.inf]
    return pa.table(
        {"person": np.arange(size), "age": pa.array(ages, pa.float64()), "town": [f"t{i * i % 7}" for i in range(size)]}
    )


def ages_of(table: pa.Table) -> list[float]:
    found = [value for value in table.column("age").to_pylist() if value is not None and not math.isnan(value)]
    return sorted(min(max(value, 0.0), 100.0) for value in found)


@pytest.mark.parametrize("name", ["max", "min", "range", "median", "quantile", "mean", "std"])
def test_answers_are_near_a_subset_of_the_records(table: pa.Table, name: str) -> None:
    more: dict[str, Any] = {"probability": 0.9} if name == "quantile" else {}
    found = dphist.stat(name, table, unit="person", column="age", epsilon=1, delta=1e-6, **RANGE, **more)
    ages, most = ages_of(table), found.plan.most_dropped
    assert most is not None
    lowest, highest = ages[most], ages[-1 - most]
    if name == "max":
        assert highest - 2 <= found.value <= ages[-1] + 2
    elif name == "min":
        assert ages[0] - 2 <= found.value <= lowest + 2
    elif name == "range":
        assert highest - lowest - 2 <= found.value <= ages[-1] - ages[0] + 2
    elif name in ("median", "quantile"):
        rank = int((0.5 if name == "median" else 0.9) * len(ages))
        assert ages[rank - most] - 2 <= found.value <= ages[rank + most] + 2
    elif name == "mean":
        assert abs(found.value - np.mean(ages)) < 3
    else:
        assert abs(found.value - np.std(ages)) < 4
    assert found.plan.accuracy() in str(found)


def test_support_mode_max_k_and_emptiness(table: pa.Table) -> None:
    support = dphist.stat("support", table, unit="person", column="age", epsilon=1, delta=1e-6, **RANGE)
    ages = np.array(ages_of(table))
    assert all(np.abs(ages - centre).min() <= 2 for centre in support.value)
    assert str(support).startswith("{")
    mode = dphist.stat("mode", table, unit="person", column="town", epsilon=1, delta=1e-6)
    assert mode.value in {"t1", "t2", "t4"}  # the squares modulo 7, a third of the people each, and t0
    top = dphist.stat("max-k", table, unit="person", column="town", k=1000, epsilon=1, delta=1e-6)
    assert top.value == "t4"
    none = dphist.stat("max-k", table, unit="person", column="town", k=100_000, epsilon=1, delta=1e-6)
    assert none.value is None
    assert "no value has enough records" in str(none)
    some = dphist.stat("is-empty", table, unit="person", epsilon=1)
    assert some.value is False
    assert str(some).startswith("not empty")
    nobody = dphist.stat("is-empty", table, unit="person", where="age < -1e300 and age > 0", epsilon=1)
    assert nobody.value is True
    nothing = dphist.stat("max", table, unit="person", column="age", where="person = 5", epsilon=1, delta=1e-9, **RANGE)
    assert nothing.value is None or nothing.value >= 0
    assert nothing.to_data()["q"] == nothing.plan.q


def test_sql_and_numpy_agree_on_buckets(table: pa.Table) -> None:
    plan = plan_statistic("max", epsilon=1, lower=-0.3, upper=99.1, error=0.7)
    assert plan.buckets is not None
    query = build_query(plan, unit="person", column="age", where=None)
    histogram = DuckDBEngine().histogram(table, query, ContributionBounds(1))
    values = np.array([v for v in table.column("age").to_pylist() if v is not None and not math.isnan(v)])
    index, counts = np.unique(plan.buckets.index(values), return_counts=True)
    found = dict(zip(histogram.keys.column(0).to_pylist(), histogram.counts.tolist(), strict=True))
    assert found == dict(zip(index.tolist(), counts.tolist(), strict=True))


def test_units_with_several_records_are_bounded() -> None:
    table = pa.table({"person": [1] * 50 + list(range(2, 300)), "age": [float(i % 50) for i in range(348)]})
    for most in (1, 4):
        plan = plan_statistic("mean", epsilon=1, lower=0, upper=50, error=0.5, max_records=most)
        query = build_query(plan, unit="person", column="age", where=None)
        histogram = DuckDBEngine().histogram(table, query, ContributionBounds(most))
        assert histogram.counts.sum() == 298 + most
        with allow_test_entropy():
            assert privatise_statistic(histogram, plan, SeededEntropy(1)).plan is plan
    loose = DuckDBEngine().histogram(table, query, ContributionBounds(5))
    with pytest.raises(InvalidParameter, match="bounded to 4 bars"):
        privatise_statistic(loose, plan)


def test_text_columns_of_csv_files_are_read_as_numbers(tmp_path: Path) -> None:
    lines = ["person,age", *(f"{i},{i % 90}" for i in range(5000)), "x,none"]
    (tmp_path / "ages.csv").write_text("\n".join(lines) + "\n")
    found = dphist.stat("max", tmp_path / "ages.csv", unit="person", column="age", epsilon=1, **RANGE)
    assert abs(found.value - 89) <= 2
    pq.write_table(pa.table({"person": [1], 'the "age"': [3]}), tmp_path / "odd.parquet")
    assert dphist.stat("max", tmp_path / "odd.parquet", unit="person", column='the "age"', epsilon=1, **RANGE).plan.q


def test_refusals_come_before_reading() -> None:
    with pytest.raises(Infeasible, match="at least"):
        dphist.stat("max", "missing.parquet", unit="u", column="c", epsilon=1, drop=0.01, min_records=10, **RANGE)
    with pytest.raises(InvalidParameter, match="the column of the statistic"):
        dphist.stat("max", "missing.parquet", unit="u", epsilon=1, **RANGE)
    with pytest.raises(InvalidParameter, match="SystemEntropy"):
        dphist.stat("max", "missing.parquet", unit="u", column="c", epsilon=1, entropy=SeededEntropy(1), **RANGE)
    assert Buckets(0, 100, 2).number == 25
