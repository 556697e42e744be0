"""The whole road with the noise scripted to zero, against a few lines of plain Python; then what each result must hold."""

import json
import math
import os
import re
from collections import defaultdict
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

import dphist as dp
from dphist.engines.histogram import ContributionBounds, Histogram
from dphist.mechanisms import CorrelatedGaussian
from dphist.mechanisms.lattice import enforce_sparsity
from dphist.noise.entropy import drawing_from
from dphist.noise.testing import SeededEntropy
from dphist.run.job import prepare, privatise
from dphist.run.release import Selection
from example_numbers import examples
from word_sources import drawn_from

BUDGET = {"epsilon": 1.0, "delta": 1e-6, "max_groups": 3}


class ZeroEntropy:
    """All words are zero: every law then draws its middle, 0."""

    def words(self, count: int) -> NDArray[np.uint64]:
        return np.zeros(count, dtype=np.uint64)


def quiet(source: object, **options: object) -> dp.Release:
    """A release without noise and with the threshold 1: everything that two units share is released as it is."""
    chosen: dict[str, Any] = {
        "epsilon": 1.0,
        "delta": 1e-6,
        "max_groups": 50,
        "mechanism": "sparse-gaussian",
        **options,
    }
    job = prepare(source, **chosen)
    bare = dp.Plan(job.plan.request, dp.SparseGaussian(max_groups=50, noise_std=1e-3, threshold=1.0))
    return drawn_from(ZeroEntropy(), replace(job, plan=bare).run)


ROWS = st.lists(
    st.tuples(
        st.sampled_from(["ann", "bob", "cyd", "dan", "eve"]),
        st.sampled_from(["x", "y", "z", None, "O'Hare", 'q"q']),
        st.integers(0, 2),
        st.one_of(st.none(), st.floats(-4, 9, width=32), st.just(math.nan)),
    ),
    max_size=40,
)


def frame(rows: list[tuple[object, ...]]) -> pa.Table:
    names = ["who", "where", "year", "value"]
    types = [pa.string(), pa.string(), pa.int32(), pa.float64()]
    return pa.table(
        {n: pa.array([row[i] for row in rows], t) for i, (n, t) in enumerate(zip(names, types, strict=True))}
    )


@examples(12)
@given(rows=ROWS)
def test_against_plain_python(rows: list[tuple[object, ...]]) -> None:
    found = quiet(frame(rows), unit="who", by=["where", "year"], sums={"value": (-1.0, 5.0)}, rows=3)
    units: dict[tuple[object, object], dict[object, list[object]]] = defaultdict(lambda: defaultdict(list))
    for who, where, year, value in rows:
        units[where, year][who].append(value)
    expected = {}
    for group, members in units.items():
        total = 0.0
        records = 0
        for values in members.values():
            own = math.fsum(v for v in values if isinstance(v, float) and not math.isnan(v))
            total += min(max(own, -1.0), 5.0)
            records += min(len(values), 3)
        if len(members) > 1:
            expected[group] = (len(members), total, records)
    table = found.to_arrow().to_pylist()
    assert {(row["where"], row["year"]): row["count"] for row in table} == {g: e[0] for g, e in expected.items()}
    for row in table:
        count, total, records = expected[row["where"], row["year"]]
        assert row["sum_value"] == pytest.approx(total, abs=1e-5 * count)
        assert row["rows"] == records


def test_means_are_the_mean_of_the_units_means() -> None:
    data = pa.table({"u": [1, 1, 2, 3], "k": ["a"] * 4, "v": [2.0, 4.0, 9.0, 30.0]})
    found = quiet(data, unit="u", by="k", means={"v": (0, 20)})
    assert found.to_arrow().column("mean_v").to_pylist() == pytest.approx([(3 + 9 + 20) / 3], abs=1e-4)


SMALL: dict[str, Any] = {"epsilon": 1, "delta": 1e-6}
EVENTS = pa.table(
    {
        "user": [i % 400 for i in range(4000)],
        "item": [f"i{(i * i) % 7}" for i in range(4000)],
        "spent": [float(i % 13) for i in range(4000)],
    }
)


@pytest.mark.parametrize(
    "plan",
    [
        {"max_groups": 3},
        {"max_groups": 3, "mechanism": "laplace", "sums": {"spent": (0, 12)}},
        {"sparsity": 20},
        {"sketch": 10},
        {"max_groups": 2, "total": True, "means": {"spent": (0, 12)}, "rows": 4},
    ],
)
def test_every_mechanism_releases_writes_and_verifies(plan: dict[str, object], tmp_path: Path) -> None:
    found = dp.release(EVENTS, unit="user", by="item", epsilon=1, delta=1e-6, intervals=0.9, **plan)  # type: ignore[arg-type]
    assert found.to_arrow().num_rows > 0
    for name in ("out.parquet", "out.csv", "out.json"):
        found.write(tmp_path / name)
        checks = dp.verify(tmp_path / name)
        assert not any(check.failed for check in checks), checks
        assert {"file", "guarantee", "columns", "threshold", "lattice"} <= {check.name for check in checks}
    assert (found.total is not None) == bool(plan.get("total"))
    assert not [path for path in tmp_path.iterdir() if "partial" in path.name]


def test_known_groups_are_all_released_with_noise(tmp_path: Path) -> None:
    keys = ["i0", "i1", "i2", "nobody"]
    found = dp.release(EVENTS, unit="user", by="item", epsilon=1, delta=1e-6, max_groups=2, keys=keys)
    assert sorted(found.to_arrow().column("item").to_pylist()) == sorted(keys)
    found.write(tmp_path / "out.parquet")
    assert all(check.passed for check in dp.verify(tmp_path / "out.parquet"))
    (tmp_path / "keys.txt").write_text("i0\ni1\n\ni1\n")
    two = dp.release(EVENTS, unit="user", by="item", epsilon=1, delta=1e-6, keys=tmp_path / "keys.txt")
    assert two.to_arrow().num_rows == 2
    (tmp_path / "keys.csv").write_text("item,big\ni0,true\ni1,false\n")
    several = dp.release(EVENTS, unit="user", by=["item", "big=cast(spent > 6 as varchar)"], epsilon=1, delta=1e-6,
                         keys=tmp_path / "keys.csv")  # fmt: skip
    assert several.to_arrow().num_rows == 2
    pq.write_table(pa.table({"item": ["i0", "i4"]}), tmp_path / "keys.parquet")
    assert (
        dp.release(
            EVENTS, unit="user", by="item", epsilon=1, delta=1e-6, keys=str(tmp_path / "keys.parquet")
        ).table.num_rows
        == 2
    )
    sparse = dp.release(EVENTS, unit="user", by="item", epsilon=1, delta=1e-6, max_groups=2, keys=keys, sparse=True)
    assert sparse.to_arrow().num_rows < 4


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        (7, "as a file, a query, a table or a list"),
        ([], "at least one public key"),
        ([("a", "b")], "1 values each"),
        (pa.table({"x": ["a"]}), "with the columns"),
        ("missing.txt", "readable list of keys"),
    ],
)
def test_bad_lists_of_keys(keys: object, message: str) -> None:
    with pytest.raises(dp.InvalidParameter, match=message):
        dp.release(EVENTS, unit="user", by="item", epsilon=1, delta=1e-6, keys=keys)


def test_one_key_per_line_is_for_one_key(tmp_path: Path) -> None:
    (tmp_path / "keys.txt").write_text("a\n")
    with pytest.raises(dp.InvalidParameter, match="for several keys"):
        dp.release(EVENTS, unit="user", by=["item", "spent"], epsilon=1, delta=1e-6, keys=tmp_path / "keys.txt")


def test_sources_give_the_same(tmp_path: Path) -> None:
    pq.write_table(EVENTS, tmp_path / "events.parquet")
    pd_frame, pl_frame = EVENTS.to_pandas(), pl.from_arrow(EVENTS)
    pd_frame.to_csv(tmp_path / "events.csv", index=False)
    options = {"unit": "user", "by": "item", "sums": {"spent": (0, 100)}, "order": "key"}
    tables = [
        quiet(source, **options).to_arrow()
        for source in (EVENTS, pd_frame, pl_frame, str(tmp_path / "*.parquet"), tmp_path / "events.csv")
    ]
    assert all(table.num_rows == 4 and table.to_pylist() == tables[0].to_pylist() for table in tables)


def test_frames_of_every_kind() -> None:
    found = dp.release(EVENTS, unit="user", by="item", **BUDGET)  # type: ignore[arg-type]
    assert isinstance(found.to_pandas(), pd.DataFrame)
    assert isinstance(found.to_polars(), pl.DataFrame)
    assert found.to_pandas().shape == found.to_polars().shape == found.to_arrow().shape


def test_order_does_not_depend_on_the_input() -> None:
    shuffled = EVENTS.take(pa.array(np.arange(EVENTS.num_rows)[::-1]))
    for order in ("count", "key"):
        options = {"unit": "user", "by": "item", "order": order}
        assert quiet(EVENTS, **options).to_arrow().equals(quiet(shuffled, **options).to_arrow())
    by_key = quiet(EVENTS, unit="user", by="item", order="key").to_arrow().column("item").to_pylist()
    assert by_key == sorted(by_key)


def test_whole_counts_and_intervals() -> None:
    found = dp.release(EVENTS, unit="user", by="item", integers=True, intervals=0.95, rows=5, **BUDGET).to_arrow()  # type: ignore[arg-type]
    assert found.schema.field("count").type == pa.int64()
    assert found.schema.field("rows").type == pa.int64()
    low, high = found.column("count_low").to_numpy(), found.column("count_high").to_numpy()
    assert high - low == pytest.approx(2 * 1.959964 * found.column("count_std_error").to_numpy(), rel=2e-3)
    assert found.schema.field("count_noisy").type == pa.float64()
    assert np.rint(found.column("count_noisy").to_numpy()).tolist() == found.column("count").to_pylist()  # far above


@pytest.mark.parametrize("mechanism", ["sparse-gaussian", "laplace"])
def test_intervals_cover_what_they_say(mechanism: str) -> None:
    """3,000 groups of 400 units. alpha < 1e-9 (6 standard deviations of a binomial); an interval half as wide must fail."""
    groups = 3000
    plan = dp.plan(epsilon=1, delta=1e-3, max_groups=1, rows=3, mechanism=mechanism)
    bounds, truth = ContributionBounds(max_groups=1), {"rows": np.full(groups, -400)}
    measures = plan.request.measures
    histogram = Histogram(pa.table({"k": np.arange(groups)}), np.full(groups, 400), bounds, truth, measures)
    found = drawn_from(SeededEntropy(5), privatise, histogram, plan, Selection("u", ("k",), intervals=0.9)).to_arrow()
    assert found.num_rows == groups
    least = 0.9 - 6 * math.sqrt(0.09 / groups)
    for name in ("count", "rows"):  # rows: 400 units with one record each, recentred at 1.5
        low, high = found.column(f"{name}_low").to_numpy(), found.column(f"{name}_high").to_numpy()
        off, reach = np.abs((low + high) / 2 - 400), (high - low) / 2
        assert float((off <= reach).mean()) >= least
        assert float((off <= reach / 2).mean()) < least


def test_a_release_does_exactly_what_its_plan_paid_for(tmp_path: Path) -> None:
    plan = dp.plan(epsilon=1, delta=1e-6, max_groups=3, sums={"spent": (0, 12)})
    plan.save(tmp_path / "plan.json")
    found = dp.release(EVENTS, unit="user", by="item", plan=tmp_path / "plan.json")
    assert found.plan == plan
    assert "sum_spent" in found.to_arrow().column_names
    with pytest.raises(dp.InvalidParameter, match="a plan or a budget"):
        dp.release(EVENTS, unit="user", by="item", plan=plan, epsilon=2)
    with pytest.raises(dp.InvalidParameter, match="public keys, as the plan says"):
        dp.release(EVENTS, unit="user", by="item", plan=plan, keys=["i0"])
    keyed = dp.plan(epsilon=1, delta=1e-6, keys=3)
    with pytest.raises(dp.InvalidParameter, match="3 public keys"):
        dp.release(EVENTS, unit="user", by="item", plan=keyed, keys=["i0", "i1"])
    weak = dp.Plan(plan.request, dp.SparseGaussian(max_groups=3, noise_std=1.0, threshold=5.0))
    with pytest.raises(dp.InvalidPlan, match="exceeds"):
        dp.release(EVENTS, unit="user", by="item", plan=weak)


def test_unbounded_histograms_are_refused() -> None:
    plan = dp.plan(epsilon=1, delta=1e-6, max_groups=3)
    histogram = Histogram(pa.table({"k": ["a"]}), np.array([500]), ContributionBounds(max_groups=4))
    with pytest.raises(dp.InvalidParameter, match="bounded to 3"):
        privatise(histogram, plan, Selection("u", ("k",)))
    listed = Histogram(pa.table({"k": ["a"]}), np.array([500]), ContributionBounds(max_groups=3), listed=True)
    with pytest.raises(dp.InvalidParameter, match="public list"):
        privatise(listed, plan, Selection("u", ("k",)))


def test_test_noise_is_refused_by_the_public_api() -> None:
    with pytest.raises((TypeError, dp.InvalidParameter), match="entropy"):
        dp.release(EVENTS, unit="user", by="item", entropy=SeededEntropy(1), **BUDGET)  # type: ignore[call-arg, arg-type]
    with pytest.raises(dp.InvalidParameter, match="SystemEntropy"), drawing_from(SeededEntropy(1)):
        dp.release(EVENTS, unit="user", by="item", **BUDGET)  # type: ignore[arg-type]


def test_two_releases_differ() -> None:
    first, second = (dp.release(EVENTS, unit="user", by="item", **BUDGET).to_arrow() for _ in range(2))  # type: ignore[arg-type]
    assert not first.equals(second)


def test_an_empty_table_is_a_valid_release(tmp_path: Path) -> None:
    found = dp.release(EVENTS.slice(0, 0), unit="user", by="item", sums={"spent": (0, 1)}, intervals=0.9, **BUDGET)  # type: ignore[arg-type]
    assert found.to_arrow().num_rows == 0
    for name in ("out.parquet", "out.csv"):
        found.write(tmp_path / name)
    found.report(tmp_path / "out.html")
    assert all(check.passed for check in dp.verify(tmp_path / "out.parquet"))
    assert "No group was released" in (tmp_path / "out.html").read_text()


def test_metadata_says_everything_and_nothing_derived_from_data(tmp_path: Path) -> None:
    found = dp.release(EVENTS, unit="user", by="item", where="spent < 5", **BUDGET)  # type: ignore[arg-type]
    found.write(tmp_path / "out.parquet")
    metadata = json.loads((tmp_path / "out.parquet.dphist.json").read_text())
    for name in (
        "plan",
        "guarantee",
        "noise_std",
        "threshold",
        "dphist",
        "created",
        "summary",
        "estimand",
        "file",
        "where",
    ):
        assert metadata[name], name
    stable = {key: value for key, value in found.metadata().items() if key != "created"}
    other = dp.release(EVENTS.slice(0, 10), unit="user", by="item", where="spent < 5", **BUDGET)  # type: ignore[arg-type]
    assert {key: value for key, value in other.metadata().items() if key != "created"} == stable


@pytest.mark.parametrize(
    ("change", "failing"),
    [
        (lambda t: t.set_column(3, "count_noisy", pa.array(np.full(t.num_rows, 3.0))), "threshold"),
        (lambda t: t.set_column(3, "count_noisy", pa.array(t.column("count").to_numpy() + 0.0001)), "lattice"),
        (lambda t: t.set_column(1, "count", pa.array(t.column("count").to_numpy() + 1)), "estimates"),
        (lambda t: t.set_column(2, "count_std_error", pa.array(np.full(t.num_rows, 3.0))), "errors"),
        (lambda t: t.drop_columns(["count_std_error"]), "columns"),
        (lambda t: pa.concat_tables([t, t]), "keys"),
    ],
)
def test_verify_catches_changed_files(tmp_path: Path, change: object, failing: str) -> None:
    path = tmp_path / "out.parquet"
    dp.release(EVENTS, unit="user", by="item", **BUDGET).write(path)  # type: ignore[arg-type]
    table = pq.read_table(path)
    pq.write_table(change(table).replace_schema_metadata(table.schema.metadata), path)  # type: ignore[operator]
    failed = {check.name for check in dp.verify(path) if not check.passed}
    assert {"file", failing} <= failed


def test_verify_catches_changed_metadata(tmp_path: Path) -> None:
    path = tmp_path / "out.csv"
    dp.release(EVENTS, unit="user", by="item", **BUDGET).write(path)  # type: ignore[arg-type]
    beside = tmp_path / "out.csv.dphist.json"
    data = json.loads(beside.read_text())
    data["plan"]["mechanism"]["noise_std"] /= 2
    beside.write_text(json.dumps(data))
    assert [check.name for check in dp.verify(path) if not check.passed] == ["digest", "guarantee"]
    beside.write_text("{")
    with pytest.raises(dp.InvalidParameter, match="readable JSON object"):
        dp.verify(path)
    beside.unlink()
    with pytest.raises(dp.InvalidParameter, match="metadata of out"):
        dp.verify(path)
    with pytest.raises(dp.InvalidParameter, match="got no file"):
        dp.verify(tmp_path / "none.parquet")
    both = tmp_path / "out.parquet"
    dp.release(EVENTS, unit="user", by="item", **BUDGET).write(both)  # type: ignore[arg-type]
    beside = tmp_path / "out.parquet.dphist.json"
    beside.write_text(beside.read_text().replace('"unit": "user"', '"unit": "nobody"'))
    assert "metadata" in [check.name for check in dp.verify(both) if not check.passed]
    beside.unlink()
    alone = dp.verify(both)
    assert {check.name for check in alone if check.state == "not checked"} == {"file", "metadata"}
    assert not any(check.failed for check in alone)


def test_names_that_clash_are_refused() -> None:
    with pytest.raises(dp.InvalidParameter, match="other names than each other and the released columns"):
        dp.release(EVENTS, unit="user", by="count=item", **BUDGET)  # type: ignore[arg-type]


@pytest.mark.parametrize(("option", "value"), [("order", "size"), ("intervals", 1.5), ("null_keys", "keep")])
def test_bad_options(option: str, value: object) -> None:
    with pytest.raises(dp.InvalidParameter):
        dp.release(EVENTS, unit="user", by="item", **{**BUDGET, option: value})  # type: ignore[arg-type]


def test_a_failed_write_leaves_the_old_file_and_no_rubbish(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = dp.release(EVENTS, unit="user", by="item", **BUDGET)  # type: ignore[arg-type]
    path = tmp_path / "out.parquet"
    found.write(path)
    before = path.read_bytes()

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device", str(path))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(dp.InvalidParameter, match="No space"):
        found.write(path, overwrite=True)
    assert path.read_bytes() == before
    assert sorted(p.name for p in tmp_path.iterdir()) == ["out.parquet", "out.parquet.dphist.json"]


def test_the_report_is_one_file_without_network(tmp_path: Path) -> None:
    data = EVENTS.append_column("<b>", pa.array(["<script>alert(1)</script>"] * EVENTS.num_rows))
    found = dp.release(data, unit="user", by=["<b>", "item"], total=True, sums={"spent": (0, 9)}, **BUDGET)  # type: ignore[arg-type]
    found.report(tmp_path / "out.html")
    text = (tmp_path / "out.html").read_text()
    assert "<script>alert" not in text
    assert "&lt;script&gt;" in text
    assert not re.search(r"https?:|//\w", text)
    for words in ("Guarantee", "alternatives", "How to cite", "<svg", "standard error", "units in all"):
        assert words in text


def test_sparsity_is_enforced_not_trusted() -> None:
    counts = np.array([5, 1, 9, 3, 3])
    assert enforce_sparsity(counts, 2).tolist() == [2, 0, 6, 0, 0]
    assert enforce_sparsity(counts, 3).tolist() == [2, 0, 6, 0, 0]
    assert enforce_sparsity(counts, 5).tolist() == counts.tolist()
    rng = np.random.default_rng(3)
    for _ in range(500):
        before = rng.integers(0, 6, 8)
        after = before + rng.integers(0, 2, 8)
        change = enforce_sparsity(after, 3) - enforce_sparsity(before, 3)
        assert set(change.tolist()) <= {0, 1} or set(change.tolist()) <= {0, -1}
    mechanism = CorrelatedGaussian(3, 3, 0.01, 0.01, threshold=1.0)
    assert len(mechanism.perturb(np.full(100, 7)).index) == 0
