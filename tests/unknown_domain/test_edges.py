"""Edges that a review found: links, metadata, mismatched plans, one row too few, deltas below the sampler's error."""

from dataclasses import replace
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet
import pytest

import dphist as dp
from dphist.errors import Infeasible
from dphist.mechanisms.correlated_top_k import calibrate


def groups(rows: int) -> pa.Table:
    return pa.Table.from_pandas(
        pd.DataFrame({"key": [f"g{i:02d}" for i in range(rows)], "n": [1000 - 90 * i for i in range(rows)]})
    )


def test_a_link_is_the_same_session(tmp_path: Path) -> None:
    path, link = tmp_path / "s.json", tmp_path / "link.json"
    dp.Session.start(path, unit="u", epsilon=1, delta=1e-6, results=5, queries=3)
    link.symlink_to(path)
    assert dp.Session(link).path == path.resolve()


def test_metadata_of_the_input_is_not_published(tmp_path: Path) -> None:
    plan = dp.plan_top_k(k=3, epsilon=1, delta=1e-6)
    found = dp.release_largest(groups(10), count="n", plan=plan)
    assert not found.to_arrow().schema.metadata
    found.write(tmp_path / "out.parquet")
    assert b"pandas" not in (pa.parquet.read_schema(tmp_path / "out.parquet").metadata or {})


def test_a_plan_must_fit_its_mechanism() -> None:
    plan = dp.plan_top_k(k=20, method="from-top", max_groups=1, epsilon=1, delta=1e-6)
    for change in ({"k": 3}, {"epsilon": 0.5}, {"method": "ranked"}):
        with pytest.raises(dp.InvalidPlan):
            replace(plan, **change)


def test_one_row_too_few_is_noticed() -> None:
    plan = dp.plan_top_k(k=3, epsilon=1, delta=1e-6)
    with pytest.raises(dp.InvalidParameter, match="LIMIT 4"):
        dp.release_largest(groups(3), count="n", plan=plan)


def test_deltas_below_the_samplers_error_are_refused() -> None:
    with pytest.raises(Infeasible, match="noise sampler"):
        calibrate(40.0, 1e-25, 40)
    for epsilon, delta, k in [(25.0, 1e-15, 50), (1.0, 1e-8, 10)]:
        assert calibrate(epsilon, delta, k).delta(epsilon) <= delta
