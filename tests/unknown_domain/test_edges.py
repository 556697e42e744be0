"""Edges that reviews found: links, metadata, row numbers, mismatched plans, too few rows, deltas below the sampler's error."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet
import pytest

import dphist as dp
from dphist.errors import Infeasible
from dphist.mechanisms.correlated_top_k import calibrate
from dphist.planning.top_k import Method


def groups(rows: int) -> pa.Table:
    return pa.Table.from_pandas(
        pd.DataFrame({"key": [f"g{i:02d}" for i in range(rows)], "n": [1000 - 90 * i for i in range(rows)]})
    )


def test_a_link_is_the_same_session(tmp_path: Path) -> None:
    path, link = tmp_path / "s.json", tmp_path / "link.json"
    dp.Session.start(path, unit="u", epsilon=1, delta=1e-6, results=5, queries=3)
    link.symlink_to(path)
    assert dp.Session(link).path == path.resolve()


def test_a_second_name_of_a_session_is_refused(tmp_path: Path) -> None:
    """Each name would be replaced by a file of its own at the next query: two budgets."""
    path, other = tmp_path / "s.json", tmp_path / "other.json"
    session = dp.Session.start(path, unit="u", epsilon=1, delta=1e-6, results=5, queries=3)
    other.hardlink_to(path)
    for use in (lambda: dp.Session(other), lambda: session.account):
        with pytest.raises(dp.InvalidParameter, match="file with one name"):
            use()
    with pytest.raises(dp.InvalidParameter, match="file with one name"):
        session.query(pa.table({"u": [1], "k": ["a"]}), by="k", k=1)
    other.unlink()
    assert session.account.left_queries == 3


def test_the_row_numbers_of_a_frame_are_no_key() -> None:
    """pandas puts them into Arrow tables on its own; published, they would tell the order of the rows."""
    plan = dp.plan_top_k(k=2, epsilon=1, delta=1e-6, method="from-top")
    frame = pd.DataFrame({"key": list("abc"), "n": [900, 800, 1]}, index=[7, 8, 9])
    with pytest.raises(dp.InvalidParameter, match="preserve_index=False"):
        dp.release_largest(pa.Table.from_pandas(frame), count="n", plan=plan)
    kept = dp.release_largest(pa.Table.from_pandas(frame, preserve_index=False), count="n", plan=plan)
    assert kept.table.column_names == ["key", "count", "count_std_error", "count_noisy"]
    events = pa.table({"u": [1, 2], "__index_level_12__": [0, 1]})
    with pytest.raises(dp.InvalidParameter, match="unnamed index"):
        dp.release(events, unit="u", by="__index_level_12__", epsilon=1, delta=1e-6, max_groups=1)
    named = pd.DataFrame({"n": [900, 800, 1]}, index=pd.Index(list("abc"), name="key"))
    assert "key" in dp.release_largest(pa.Table.from_pandas(named), count="n", plan=plan).table.column_names


def test_metadata_of_the_input_is_not_published(tmp_path: Path) -> None:
    plan = dp.plan_top_k(k=3, epsilon=1, delta=1e-6)
    found = dp.release_largest(groups(10), count="n", plan=plan)
    assert not found.to_arrow().schema.metadata
    found.write(tmp_path / "out.parquet")
    assert b"pandas" not in (pa.parquet.read_schema(tmp_path / "out.parquet").metadata or {})


@pytest.mark.parametrize("name", ["out.parquet", "out.csv", "out.json"])
def test_files_without_rows_can_be_verified_and_reported(name: str, tmp_path: Path) -> None:
    table = pa.table({"u": [1, 2], "k": ["a", "b"]})
    stream = dp.Continual.start(tmp_path / "s", unit="u", by="k", rounds=3, max_groups=1, epsilon=1, delta=1e-8)
    made: list[Any] = [
        dp.top_k(table, unit="u", by="k", k=3, epsilon=1, delta=1e-8, method="from-top"),
        stream.show(),
        stream.add(table, "one"),
        dp.release(table, unit="u", by="k", epsilon=1, delta=1e-8, max_groups=1),
    ]
    for empty in made:
        assert empty.to_arrow().num_rows == 0
        empty.write(tmp_path / name, overwrite=True)
        assert not any(check.failed for check in dp.verify(tmp_path / name))
        empty.report(tmp_path / "out.html", overwrite=True)
        assert "No group was released" in (tmp_path / "out.html").read_text()


def test_a_plan_must_fit_its_mechanism() -> None:
    plan = dp.plan_top_k(k=20, method="from-top", max_groups=1, epsilon=1, delta=1e-6)
    for change in ({"k": 3}, {"epsilon": 0.5}, {"method": "ranked"}):
        with pytest.raises(dp.InvalidPlan):
            replace(plan, **change)


@pytest.mark.parametrize("method", ["correlated", "from-top", "ranked"])
def test_too_few_rows_are_all_groups_only_if_the_caller_says_so(method: Method) -> None:
    """A list that was cut elsewhere would be compared with 0 instead of the next largest count."""
    plan = dp.plan_top_k(k=5, epsilon=4, delta=1e-6, method=method)
    for rows in (0, 1, 5, plan.needed - 1):
        few = groups(10).slice(0, rows)
        with pytest.raises(dp.InvalidParameter, match=f"{plan.needed} largest groups, got fewer.*LIMIT {plan.needed}"):
            dp.release_largest(few, count="n", plan=plan)
        assert dp.release_largest(few, count="n", plan=plan, all_groups=True).table.num_rows <= rows
    assert dp.release_largest(groups(plan.needed), count="n", plan=plan).table.num_rows > 1


def test_deltas_below_the_samplers_error_are_refused() -> None:
    with pytest.raises(Infeasible, match="noise sampler"):
        calibrate(40.0, 1e-25, 40)
    for epsilon, delta, k in [(25.0, 1e-15, 50), (1.0, 1e-8, 10)]:
        assert calibrate(epsilon, delta, k).delta(epsilon) <= delta
