"""Private statistics from tables: the promise against plain Python, bounding, refusals."""

import json
import math
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dphist
from dphist.engines.duckdb.engine import DuckDBEngine
from dphist.engines.histogram import ContributionBounds
from dphist.engines.query import GroupByQuery, Key
from dphist.errors import Infeasible, InvalidParameter
from dphist.noise.testing import SeededEntropy
from dphist.planning.flexible import Buckets
from dphist.planning.statistics import plan_statistic
from dphist.run.statistics import build_query, privatise_statistic
from word_sources import drawn_from

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
    text: dict[str, Any] = {"unit": "person", "column": "town", "read_as": "text", "epsilon": 1, "delta": 1e-6}
    top = dphist.stat("max-k", table, k=1000, **text)
    assert top.value == "t4"
    none = dphist.stat("max-k", table, k=100_000, **text)
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
        assert drawn_from(SeededEntropy(1), privatise_statistic, histogram, plan).plan is plan
    loose = DuckDBEngine().histogram(table, query, ContributionBounds(5))
    with pytest.raises(InvalidParameter, match="bounded to 4 groups"):
        privatise_statistic(loose, plan)


def test_text_columns_of_csv_files_are_read_as_numbers(tmp_path: Path) -> None:
    lines = ["person,age", *(f"{i},{i % 90}" for i in range(5000)), "x,none"]
    (tmp_path / "ages.csv").write_text("\n".join(lines) + "\n")
    found = dphist.stat("max", tmp_path / "ages.csv", unit="person", column="age", epsilon=1, **RANGE)
    assert abs(found.value - 89) <= 2
    pq.write_table(pa.table({"person": [1], 'the "age"': [3]}), tmp_path / "odd.parquet")
    assert dphist.stat("max", tmp_path / "odd.parquet", unit="person", column='the "age"', epsilon=1, **RANGE).plan.q


LAST_OF_NUMBERS = [*["9"] * 500, *["10"] * 500, *["100"] * 500, *["abc", "", "nan", "1e3x"] * 200, *["1e2"] * 100]


@pytest.mark.parametrize("suffix", ["csv", "json"])
def test_text_is_compared_as_numbers_only_when_asked_to(tmp_path: Path, suffix: str) -> None:
    """As text "9" is the largest of 9, 10 and 100; a column that carries no type is refused, whatever is in it."""
    path = tmp_path / f"values.{suffix}"
    if suffix == "csv":
        path.write_text("person,v\n" + "".join(f"{i},{v}\n" for i, v in enumerate(LAST_OF_NUMBERS)))
    else:
        path.write_text("".join(json.dumps({"person": i, "v": v}) + "\n" for i, v in enumerate(LAST_OF_NUMBERS)))
    text = {"person": "text", "v": "text"} if suffix == "json" else {}  # nothing else says which columns JSON has
    source = dphist.Files((path,), types=text)
    asked: dict[str, Any] = {"unit": "person", "column": "v", "k": 400, "epsilon": 1, "delta": 1e-6}
    with pytest.raises(InvalidParameter, match=r"numbers, dates or times in 'v'.*--as number"):
        dphist.stat("max-k", source, **asked)
    assert dphist.stat("max-k", source, read_as="number", **asked).value == 100.0
    assert dphist.stat("max-k", source, read_as="text", **asked).value == "9"
    only_words = tmp_path / f"words.{suffix}"
    only_words.write_text("person,v\n1,a\n" if suffix == "csv" else '{"person": 1, "v": "a"}\n')
    assert (
        dphist.stat("max-k", dphist.Files((only_words,), types=text), read_as="number", **asked).value is None
    )  # no record decides whether it runs
    mode = {**asked}
    del mode["k"]
    assert dphist.stat("mode", source, read_as="number", **mode).value == 100.0  # 100 and 1e2 are one number
    assert dphist.stat("mode", source, **mode).value in {"9", "10", "100"}  # equality needs no order
    declared = dphist.Files((path,), types={**text, "v": "INTEGER"})
    assert dphist.stat("max-k", declared, **asked).value == 100


def test_dates_are_not_read_as_numbers() -> None:
    """A cast that fails for every record would leave nothing and say nothing: refused by the type of the column."""
    dates = pa.table({"person": [1], "v": pa.array([1], pa.date32())})
    for name, options in (("max", RANGE), ("mode", {"read_as": "number"}), ("max-k", {"k": 1, "read_as": "number"})):
        with pytest.raises(InvalidParameter, match=r"numbers in 'v', got the type DATE\. Hint: derive one"):
            dphist.stat(name, dates, unit="person", column="v", epsilon=1, **options)


def test_numbers_compare_as_numbers_and_nan_is_no_value() -> None:
    values = [9.0] * 400 + [10.0] * 400 + [math.nan] * 900 + [math.inf] * 300
    table = pa.table({"person": list(range(2000)), "v": values})
    asked: dict[str, Any] = {"unit": "person", "column": "v", "epsilon": 1, "delta": 1e-6}
    assert dphist.stat("mode", table, **asked).value in (9.0, 10.0)
    assert dphist.stat("max-k", table, k=350, **asked).value == 10.0
    infinite = dphist.stat("max-k", table, k=200, **asked)
    assert infinite.value == math.inf
    assert json.loads(json.dumps(infinite.to_data(), allow_nan=False))["value"] == "inf"
    # a unit with NaN and a number is never sampled into the NaN
    both = pa.table({"person": [i // 2 for i in range(2000)], "v": [7.0, math.nan] * 1000})
    query = build_query(plan_statistic("mode", epsilon=1), unit="person", column="v", where=None)
    histogram = DuckDBEngine().histogram(both, query, ContributionBounds(1))
    assert histogram.keys.column(0).to_pylist() == [7.0]
    assert histogram.counts.tolist() == [1000]
    decimals = pa.table({"person": list(range(500)), "v": pa.array([Decimal("1.5")] * 500)})
    assert dphist.stat("max-k", decimals, k=300, **asked).value == Decimal("1.5")


@pytest.mark.parametrize(
    ("unit_of_time", "zone"), [("s", None), ("us", None), ("ns", None), ("us", "UTC"), ("ms", "Europe/Berlin")]
)
def test_moments_come_back_as_moments(unit_of_time: str, zone: str | None) -> None:
    moment = datetime(2024, 5, 6, 7, 8, 9, tzinfo=UTC if zone else None)
    column = pa.array([moment] * 300, pa.timestamp(unit_of_time, zone))
    table = pa.table({"person": list(range(300)), "at": column})
    found = dphist.stat("mode", table, unit="person", column="at", epsilon=1, delta=1e-6)
    if unit_of_time == "ns":
        assert found.value == np.datetime64("2024-05-06T07:08:09", "ns")  # datetime has no nanoseconds
    else:
        assert found.value == moment
    assert str(found.value).startswith("2024-05-06")
    assert str(found).startswith("2024-05-06")


def test_what_the_promise_rests_on_is_part_of_the_data(table: pa.Table) -> None:
    asked: dict[str, Any] = {"unit": "person", "epsilon": 1, "delta": 1e-6}
    found = dphist.stat("max", table, column="age", drop=0.2, min_records=15_000, **RANGE, **asked).to_data()
    assert found["conditions"] == ["there are at least 15,000 of them"]
    assert "provided that there are at least 15,000 of them" in found["accuracy"]
    assert (found["drop"], found["min_records"], found["lower"], found["upper"], found["error"]) == (
        0.2,
        15_000,
        0,
        100,
        2,
    )
    found = dphist.stat("mode", table, column="town", max_values=7, max_records=2, **asked).to_data()
    assert found["conditions"] == ["they have at most 7 different values"]
    assert (found["bars"], found["max_records"], found["drop"], found["lower"]) == (7, 2, None, None)


def test_is_empty_is_about_units_whatever_the_histogram_is_by(table: pa.Table) -> None:
    plan = plan_statistic("is-empty", epsilon=1, delta=2**-20)
    assert plan.q == 27
    query = GroupByQuery(unit="person", by=(Key("town"), Key("age")), where="person < 40")
    many = DuckDBEngine().histogram(table, query, ContributionBounds(1))
    assert len(many) > 30  # 40 units, none of whose bars is above q: bar by bar nothing might be left
    for _ in range(20):
        assert privatise_statistic(many, plan).value is False
    nobody = GroupByQuery(unit="person", by=(Key("town"),), where="person < 0")
    assert privatise_statistic(DuckDBEngine().histogram(table, nobody, ContributionBounds(1)), plan).value is True
    with pytest.raises(InvalidParameter, match="no column for is-empty"):
        dphist.stat("is-empty", table, unit="person", column="age", epsilon=1)


def test_refusals_come_before_reading() -> None:
    with pytest.raises(Infeasible, match="at least"):
        dphist.stat("max", "missing.parquet", unit="u", column="c", epsilon=1, drop=0.01, min_records=10, **RANGE)
    with pytest.raises(InvalidParameter, match="the column of the statistic"):
        dphist.stat("max", "missing.parquet", unit="u", epsilon=1, **RANGE)
    with pytest.raises((TypeError, InvalidParameter), match="entropy"):
        dphist.stat("max", "missing.parquet", unit="u", column="c", epsilon=1, entropy=SeededEntropy(1), **RANGE)  # type: ignore[call-arg]
    assert Buckets(0, 100, 2).number == 25
