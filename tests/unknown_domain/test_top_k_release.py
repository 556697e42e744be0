"""`dp.top_k` and `dphist top-k` on records."""

import datetime as dt
import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

import dphist as dp
from command_line import dphist
from dphist.cli.app import app
from dphist.engines.duckdb.engine import DuckDBEngine, DuckDBRecords
from dphist.engines.histogram import ContributionBounds, Histogram, largest_groups
from dphist.engines.query import GroupByQuery, Key
from dphist.errors import InvalidParameter
from dphist.files.formats import write_table
from dphist.planning.top_k import Method

BUDGET: dict[str, Any] = {"epsilon": 2.0, "delta": 1e-6}


@pytest.fixture(scope="module")
def events() -> pa.Table:
    """Group g of 40 has 30 (40 - g) units; a unit may be in many groups."""
    groups = [g for g in range(40) for _ in range(30 * (40 - g))]
    units = [u for g in range(40) for u in range(30 * (40 - g))]
    return pa.table({"user": units, "page": [f"p{g:02}" for g in groups]})


@settings(deadline=None)
@given(st.lists(st.integers(0, 4), min_size=0, max_size=60), st.integers(1, 70))
def test_the_largest_groups_are_those_of_a_sorted_list(counts: list[int], most: int) -> None:
    labels = [f"{(i * 37) % 61:02}" for i in range(len(counts))]
    histogram = Histogram(
        pa.table({"key": pa.array(labels, pa.string())}), np.array(counts, np.int64), ContributionBounds()
    )
    found = largest_groups(histogram, most)
    expected = sorted(zip(counts, labels, strict=True), key=lambda pair: (-pair[0], pair[1]))[:most]
    assert list(zip(found.counts.tolist(), found.keys["key"].to_pylist(), strict=True)) == expected


def test_the_order_of_ties_is_that_of_the_keys_for_every_type() -> None:
    keys = pa.table({"a": [None, "b", "a", ""] * 40, "b": list(range(160))})
    found = largest_groups(Histogram(keys, np.ones(160, np.int64), ContributionBounds()), 3)
    assert found.keys.to_pylist() == [{"a": "", "b": 3}, {"a": "", "b": 7}, {"a": "", "b": 11}]


@pytest.mark.parametrize("key", [
    pa.array([None, "ä", "z", "", "Z", "a\u0301"] * 2), pa.array([2.5, float("nan"), -1.0, None, 0.0, float("inf")] * 2),
    pa.array([True, False, None, None, None, None] * 2), pa.array([b"b", None, b"", b"\xff", b"a", b"ab"] * 2),
    pa.array([5, -3, None, 2**60, 0, 1] * 2), pa.array([dt.date(2020, 1, d) for d in range(1, 7)] * 2),
    pa.array([Decimal(i) for i in (3, -1, 2, 0, 5, 4)] * 2),
])  # fmt: skip
def test_the_engine_cuts_ties_by_key_as_the_list_does(key: pa.Array) -> None:
    """Only the largest groups leave the engine; equal counts stand in the same order there and here, for every type."""
    second = pa.array(["x", None, "y"] * 4)
    table = pa.table({"user": list(range(12)), "one": key, "two": second})
    query = GroupByQuery("user", (Key("one"), Key("two")))
    whole = DuckDBEngine().histogram(table, query, ContributionBounds())
    for most in (1, 4, 100):
        cut = DuckDBEngine().histogram(table, query, ContributionBounds(), largest=most)
        same = largest_groups(whole, most)
        assert cut.counts.tolist() == same.counts.tolist()
        assert repr(cut.keys.to_pylist()) == repr(same.keys.to_pylist())
        assert len(cut) == min(most, len(whole))


@pytest.mark.parametrize("method", ["correlated", "from-top", "ranked"])
def test_only_as_many_groups_as_needed_leave_the_engine(
    events: pa.Table, method: Method, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    left: list[int] = []
    plain = DuckDBRecords.histogram

    def watched(*args: Any, **options: Any) -> Histogram:
        found = plain(*args, **options)
        left.append(len(found))
        return found

    monkeypatch.setattr(DuckDBRecords, "histogram", watched)
    plan = dp.plan_top_k(k=3, method=method, shortlist=9 if method == "ranked" else None, **BUDGET)
    dp.top_k(events, unit="user", by="page", plan=plan)
    assert left == [plan.needed]
    session = dp.Session.start(tmp_path / "s.json", unit="user", results=3, queries=1, shortlist=7, **BUDGET)
    session.query(events, by="page", k=2)
    assert left == [plan.needed, 8]


@pytest.mark.parametrize("method", ["correlated", "from-top", "ranked"])
def test_files_can_be_verified_and_reported(events: pa.Table, method: Method, tmp_path: Path) -> None:
    found = dp.top_k(events, unit="user", by='"a<b"=page', k=10, method=method, **BUDGET)
    for name in ("out.parquet", "out.csv", "out.json"):
        found.write(tmp_path / name)
        assert all(check.passed for check in dp.verify(tmp_path / name))
    good, table = found.metadata(), found.table
    assert (good["unit"], good["by"]) == ("user", ["a<b"])

    def failed(table: pa.Table, **changes: object) -> set[str]:
        write_table(table, {**good, **changes}, tmp_path / "wrong.parquet", overwrite=True)
        return {check.name for check in dp.verify(tmp_path / "wrong.parquet") if not check.passed}

    law = good["mechanism"]
    assert failed(table) == set()
    weaker = {**law, "threshold": law["threshold"] - 1}
    for wrong in ({"mechanism": weaker}, {"epsilon": 1.0}, {"delta": 1e-9}, {"k": 11}, {"method": "best"}, {"by": None},
                  {"mechanism": {**law, "x": 1}}, {"epsilon": None}):  # fmt: skip
        assert failed(table, **wrong) == {"guarantee"}
    assert failed(table.rename_columns([f"x{i}" for i in range(table.num_columns)])) == {"columns"}
    assert {"keys"} < failed(pa.concat_tables([table] * 20)) >= {"groups"}
    backwards = table.take(list(range(table.num_rows))[::-1])
    assert failed(backwards) == ({"ranks"} if method == "ranked" else {"order"})
    if method != "ranked":
        fine = table.set_column(3, "count_noisy", pa.array(np.array(table["count_noisy"], np.float64) + 2.0**-20))
        assert "lattice" in failed(fine)
        assert failed(table.set_column(1, "count", pa.array(np.array(table["count"]) + 1))) == {"estimates"}
        assert "cut-off" in failed(table, cut_off=float(max(table["count_noisy"].to_pylist())))
        assert failed(table.set_column(2, "count_std_error", pa.array([1.0] * table.num_rows))) == {"errors"}
    found.report(tmp_path / "out.html")
    page = (tmp_path / "out.html").read_text()
    assert "a&lt;b" in page
    assert "a<b" not in page
    assert found.plan.guarantee[1:40] in page
    assert ("ended early" in page) is not found.complete
    assert ("<svg" in page) is (method != "ranked")


@pytest.mark.parametrize("method", ["correlated", "from-top"])
def test_counts_of_the_largest_groups(events: pa.Table, method: str) -> None:
    found = dp.top_k(events, unit="user", by="page", k=30, method=method, **BUDGET)  # type: ignore[arg-type]
    table = found.to_arrow()
    assert table.column_names == ["page", "count", "count_std_error", "count_noisy"]
    rows = {row["page"]: row for row in table.to_pylist()}
    assert {"p00", "p01", "p05"} <= set(rows)
    for page, row in rows.items():
        assert abs(row["count"] - 30 * (40 - int(page[1:]))) < 7 * row["count_std_error"]
    counts = table["count"].to_pylist()
    assert counts == sorted(counts, reverse=True)
    assert found.metadata()["guarantee"].startswith("adding or removing all records of one unit")
    assert len(found.to_pandas()) == len(found.to_polars()) == table.num_rows


def test_a_ranked_list_has_keys_only(events: pa.Table) -> None:
    found = dp.top_k(events, unit="user", by="page", k=5, method="ranked", shortlist=38, **BUDGET)
    assert found.table.column_names == ["rank", "page"]
    assert found.complete
    assert found.table["rank"].to_pylist() == [1, 2, 3, 4, 5]
    assert "the 38 largest groups may be chosen" in str(found.plan)


def test_a_bound_is_enforced_and_needed(events: pa.Table) -> None:
    plan = dp.plan_top_k(k=30, method="from-top", max_groups=2, **BUDGET)
    found = dp.top_k(events, unit="user", by="page", plan=plan)
    assert max(found.table["count"].to_pylist()) < 400  # each unit in two random groups of its many
    limited = pa.table({"page": ["a", "b"], "n": [5000, 3]})
    with pytest.raises(InvalidParameter, match="bounded to 2 groups per unit"):
        dp.release_largest(limited, count="n", plan=plan, all_groups=True)
    again = dp.release_largest(limited, count="n", plan=plan, all_groups=True, max_groups=2)
    assert again.table["page"].to_pylist() == ["a"]
    assert not again.complete


@pytest.mark.parametrize(
    "options",
    [
        {"k": 0},
        {"k": 5, "method": "best"},
        {"k": 5, "max_groups": 3},
        {"k": 5, "method": "ranked", "max_groups": 3},
        {"k": 5, "method": "from-top", "max_groups": 0},
        {"k": 5, "shortlist": 9},
        {"k": 5, "method": "ranked", "shortlist": 4},
        {"k": 5, "neighbours": "substitution"},
    ],
)
def test_what_cannot_be_used_is_refused(options: dict[str, object]) -> None:
    with pytest.raises(InvalidParameter, match=r"^Expected "):
        dp.plan_top_k(**BUDGET, **options)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"method": "from-top"}, ["k ", "max groups   not bounded", "noise ", "threshold ", "guarantee ", "provided "]),
        ({"method": "from-top", "max_groups": 2}, ["max groups   2 for each unit"]),
        ({"method": "correlated"}, ["parts ", "common to all", "of the 6-th count", "noise ", "threshold "]),
        ({"method": "ranked"}, ["choices ", "e times as likely", "shortlist    the 50 largest", "end "]),
    ],
)
def test_a_plan_explains_all_its_parameters(options: dict[str, Any], words: list[str]) -> None:
    plan = str(dp.plan_top_k(k=5, **BUDGET, **options))
    assert all(word in plan for word in words)


def test_names_and_missing_budgets_are_refused(events: pa.Table) -> None:
    with pytest.raises(InvalidParameter, match="k, epsilon and delta"):
        dp.top_k(events, unit="user", by="page", k=3)
    plan = dp.plan_top_k(k=3, method="from-top", **BUDGET)
    for both in ({"k": 3}, {"epsilon": 1.0}, {"method": "ranked"}):
        with pytest.raises(InvalidParameter, match="a plan or a budget, got both"):
            dp.top_k(events, unit="user", by="page", plan=plan, **both)
    with pytest.raises(InvalidParameter, match="other names"):
        dp.top_k(events, unit="user", by="count=page", k=3, **BUDGET)
    with pytest.raises(InvalidParameter, match="column of counts"):
        dp.release_largest(pa.table({"n": [1]}), count="n", plan=plan)


@pytest.fixture
def folder(tmp_path: Path, events: pa.Table) -> Path:
    pq.write_table(events, tmp_path / "events.parquet")
    return tmp_path


def test_the_command(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    common = ["top-k", "events.parquet", "--unit", "user", "--by", "page", "--epsilon", "2", "--delta", "1e-6"]
    done = dphist(*common, "--k", "30", "-o", "top.parquet", cwd=folder)
    assert done.returncode == 0, done.stderr
    assert "p00" in done.stdout
    assert "Guarantee: adding or removing" in done.stdout
    stored = pq.read_table(folder / "top.parquet")
    assert json.loads(stored.schema.metadata[b"dphist"])["format"] == "dphist-top-k"
    monkeypatch.chdir(folder)
    record = json.loads(CliRunner().invoke(app, [*common, "--k", "3", "--method", "ranked", "--json"]).output)
    assert len(record["groups"]) == record["released_groups"]
    dry = CliRunner().invoke(app, [*common, "--k", "3", "--dry-run"]).output
    assert dry.startswith("Plan: at most 3 largest groups, correlated")
    done = dphist(*common, "--k", "3", "--max-groups", "2", cwd=folder)
    assert done.returncode == 2
    assert "only from-top can use a bound" in done.stderr


def test_nothing_to_release_is_a_result(folder: Path) -> None:
    pq.write_table(pa.table({"user": [1], "page": ["a"]}), folder / "events.parquet")
    done = dphist(
        "top-k", "events.parquet", "--unit", "user", "--by", "page", "--epsilon", "1", "--delta", "1e-9", "--k", "3",
        cwd=folder,
    )  # fmt: skip
    assert done.returncode == 0
    assert "No group was released." in done.stdout
    assert "ended early" in done.stdout
