"""A memory limit: parts of the groups, keys that stay in the engine, room for arrays, and what a process takes in all."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pytest

from dphist.aggregates.total import SumOfUnit
from dphist.engines.base import Arrays, Layout, Rows
from dphist.engines.duckdb.engine import DuckDBEngine
from dphist.engines.duckdb.session import leave_room, memory_limit, session
from dphist.engines.histogram import ContributionBounds, LocalGroups
from dphist.engines.query import GroupByQuery, Key, PerformanceSettings, memory_beside_python
from dphist.errors import InvalidParameter


def larger(groups: Arrays) -> Rows:
    index = np.flatnonzero(groups["units"] > 3)
    return Rows(index, {"count": groups["units"][index].astype(np.float64)})


@pytest.mark.parametrize("number", [0, 1, 6, 7, 8, 50])
def test_parts_of_the_groups_give_what_all_of_them_give(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    units = np.arange(number, dtype=np.int64) % 9
    keys = pa.table({"item": pa.array([f"item {code}" for code in range(number)], pa.string())})
    groups = LocalGroups(np.arange(number)[::-1].copy(), {"units": units}, lambda codes: keys.take(pa.array(codes)))
    layout = Layout(("count",), frozenset(), "key")
    whole = groups.publish(larger, layout, together=True)
    monkeypatch.setattr("dphist.engines.histogram.PART", 7)
    assert groups.publish(larger, layout) == whole
    parts, all_ = groups.each(larger, ()), groups.together(larger, ())
    assert parts.codes.tolist() == all_.codes.tolist()
    assert parts.columns["count"].tolist() == all_.columns["count"].tolist()


def test_keys_that_stayed_in_the_engine_belong_to_their_counts() -> None:
    """Two keys, one with nulls, more groups than a batch has rows: every code gives the key that was counted."""
    rng = np.random.default_rng(18)
    rows = 400_000
    number = rng.integers(0, 150_000, rows)
    items = pa.array(number, mask=number % 101 == 0)
    table = pa.table({"user": rng.integers(0, 40_000, rows), "item": items, "kind": [f"k{n % 3}" for n in number]})
    query = GroupByQuery("user", (Key("item"), Key("kind")), (SumOfUnit("user", 0, 10),))
    bounds = ContributionBounds(4)
    with DuckDBEngine().open(table, query, seed=5) as records:
        before = memory_limit(records.connection)
        groups = records.groups(bounds)
        assert memory_limit(records.connection) <= before / 3  # the rest is for arrays
        keys = groups.keys_of(groups.codes).to_pylist()
        some = groups.keys_of(groups.codes[[7, 3, 7]]).to_pylist()
    exact = DuckDBEngine().histogram(table, query, bounds, seed=5)
    expected = dict(
        zip(map(str, exact.keys.to_pylist()), zip(exact.counts, exact.sums["sum_user"], strict=True), strict=True)
    )
    columns = groups.columns
    assert len(expected) == len(keys) > 90_000
    found = dict(zip(map(str, keys), zip(columns["units"], columns["steps_1"], strict=True), strict=True))
    assert found == expected
    assert some == [keys[7], keys[3], keys[7]]
    assert groups.bounds == exact.bounds


@pytest.mark.parametrize("users", [[], ["one"]])
def test_the_total_of_nobody_is_a_number_as_that_of_one(users: list[str]) -> None:
    """A sum of nothing is null, and null as a whole number would tell an empty table from one unit for certain."""
    table = pa.table({"user": pa.array(users, pa.string()), "item": pa.array(["a"] * len(users), pa.string())})
    query = GroupByQuery("user", (Key("item"),), want_total=True)
    with DuckDBEngine().open(table, query) as records:
        groups = records.groups(ContributionBounds(2))
        assert groups.total_units() == len(users)
        assert groups.number() == groups.keys_of(groups.codes).num_rows == len(users)


def test_keys_have_the_memory_of_the_engine_again() -> None:
    table = pa.table({"user": np.arange(300_000), "item": [f"a key of some length {n}" for n in range(300_000)]})
    engine = DuckDBEngine(PerformanceSettings(threads=1, memory_limit="120MB"))
    with engine.open(table, GroupByQuery("user", (Key("item"),))) as records:
        groups = records.groups(ContributionBounds(1))
        low = memory_limit(records.connection)
        assert groups.keys_of(groups.codes).num_rows == 300_000
        assert memory_limit(records.connection) > 1.5 * low


def test_room_for_arrays_is_taken_from_the_engine() -> None:
    with session(PerformanceSettings(memory_limit="1GB")) as connection:
        leave_room(connection, 4e8)
        assert memory_limit(connection) == pytest.approx(6e8, rel=0.01)
        leave_room(connection, 1e12)
        assert memory_limit(connection) == pytest.approx(1.25e8, rel=0.01)
        leave_room(connection, 1e12)  # never more than it had
        assert memory_limit(connection) == pytest.approx(1.25e8, rel=0.01)


def test_a_limit_on_the_process_leaves_room_for_python() -> None:
    assert memory_beside_python(None) is None
    assert memory_beside_python("400MB") == "215000000B"
    for wrong in ("299MB", "0B", "much", "1001TB"):
        with pytest.raises(InvalidParameter, match="from 300MB"):
            memory_beside_python(wrong)


@pytest.mark.fuzz
@pytest.mark.parametrize("bound", [["--max-groups", "5"], []], ids=["bounded", "unbounded"])
def test_a_process_keeps_to_its_limit(bound: list[str], tmp_path: Path) -> None:
    """2 * 10^7 rows with 10^6 groups under 400 MB: within a fifth of it."""
    with duckdb.connect(":memory:") as connection:
        connection.execute("SELECT setseed(0.5)")
        connection.execute(
            "COPY (SELECT CAST(floor(pow(random(), 2) * 2000000) AS BIGINT) AS user, 'item_' ||"
            f" CAST(floor(pow(random(), 4) * 1000000) AS INT) AS item FROM range(20000000)) TO '{tmp_path}/t.parquet'"
        )
    command = [
        sys.executable, "-m", "dphist", "release", f"{tmp_path}/t.parquet", "--unit", "user", "--by", "item", "--epsilon", "1",
        "--delta", "1e-8", "--memory-limit", "400MB", "-o", f"{tmp_path}/out.parquet", "--quiet", *bound,
    ]  # fmt: skip
    watch = "import resource, subprocess, sys; subprocess.run(sys.argv[1:], check=True);" \
        " print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)"  # fmt: skip
    done = subprocess.run([sys.executable, "-c", watch, *command], capture_output=True, text=True, check=True)
    unit = 1 if sys.platform == "darwin" else 1024
    assert int(done.stdout.split()[-1]) * unit < 1.2 * 400e6
