"""Quantiles of a release on Spark: lists of bins travel to the executors, quantiles come back from there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import dphist as dp
from spark_sessions import frame

N = 4_000
SOURCE = pa.table(
    {
        "user": np.arange(2 * N) // 2,
        "item": np.arange(2 * N) % 2,
        "x": [float(place % 2 * 4 + place // 2 % 2) for place in range(2 * N)],
    }
)
"""Two groups of everybody: half of the values of item 0 are 0 and half are 1, those of item 1 are 4 and 5."""


@pytest.mark.parametrize(
    "bound",
    [pytest.param({"max_groups": 2}, id="bounded"), pytest.param({}, id="unbounded", marks=pytest.mark.cluster)],
)
def test_quantiles_of_a_release_on_spark(bound: dict[str, Any]) -> None:
    asked: dict[str, Any] = {"quantiles": {"x": ([0.25, 0.75], -1, 9)}, "sums": {"x": (0, 5)}, "intervals": 0.999}
    with dp.release(frame(SOURCE), unit="user", by="item", epsilon=20, delta=1e-6, **bound, **asked) as found:
        rows = {row["item"]: row for row in found.to_arrow().to_pylist()}
    assert sorted(rows) == [0, 1]
    for item, row in rows.items():
        for name, exact in (("p25_x", 4 * item), ("p75_x", 4 * item + 1)):
            assert row[name] == pytest.approx(exact, abs=0.01)
            assert row[name + "_low"] <= exact <= row[name + "_high"]
        assert row["count"] == pytest.approx(N, rel=0.05)


def test_what_says_nothing_is_null_in_files_of_spark(tmp_path: Path) -> None:
    """Also in JSON, from which Spark leaves nulls out by itself; and the line has the noisy numbers of the groups on Spark."""
    nobody = SOURCE.set_column(2, "x", pa.nulls(len(SOURCE), pa.float64()))
    asked: dict[str, Any] = {"means": {"x": (0, 5)}, "medians": {"x": (0, 5)}, "sums": {"x": (0, 5)}, "intervals": 0.9}
    with dp.release(frame(nobody), unit="user", by="item", epsilon=20, delta=1e-6, max_groups=2, **asked) as found:
        (one,) = found.withheld
        assert (one.names, one.groups, one.of_groups) == (("mean_x", "p50_x"), 2, 2)
        assert one.units == pytest.approx(2 * N, rel=0.05)
        assert one.with_a_value < N / 10
        table = found.to_arrow()
        assert table.column_names[:2] == ["item", "count"]
        for name in ("mean_x", "mean_x_low", "p50_x", "p50_x_high"):
            assert table.column(name).null_count == 2
        assert table.column("sum_x").null_count == table.column("mean_x_std_error").null_count == 0
        for ending in ("parquet", "csv", "json"):
            found.write(tmp_path / f"out.{ending}")
            assert not [check for check in dp.verify(tmp_path / f"out.{ending}") if check.failed]
