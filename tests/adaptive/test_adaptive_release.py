"""The default of a release: planned, released, verified, explained; and the engine below it."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from click.testing import CliRunner

import dphist as dp
from dphist.aggregates.measures import Lattice
from dphist.aggregates.total import SumOfUnit
from dphist.cli.app import app
from dphist.engines.duckdb.pairs import DuckDBPairs, SqlPairs
from dphist.engines.histogram import ContributionBounds
from dphist.engines.memory import MemoryPairs
from dphist.engines.query import GroupByQuery, Key, PerformanceSettings
from dphist.errors import InvalidParameter, InvalidPlan
from dphist.mechanisms import AdaptiveGaussian, CorrelatedGaussian, KnownGroups, SparseGaussian, Voting
from dphist.mechanisms.tuning import ONE
from dphist.planning import storage
from dphist.run.choice import DEGREE_EDGES
from dphist.run.counting import edges
from dphist.run.job import prepare
from dphist.run.strategies import explain
from duckdb_pairs import open_pairs

MEASURE = SumOfUnit("value", 0.0, 10.0, lattice=Lattice(5.0, 2.0**-17))


def events(units: int, groups: int, degree: float, seed: int = 0) -> pa.Table:
    rng = np.random.default_rng(seed)
    unit = np.repeat(np.arange(units), np.ceil(rng.lognormal(np.log(degree), 0.7, units)).astype(np.int64))
    item = np.floor(np.exp(rng.random(len(unit)) * np.log(groups))).astype(np.int64)
    names = np.array([f"i{k:05d}" for k in range(groups + 1)])
    return pa.table({"user": unit, "item": names[item], "big": item > 50, "value": rng.random(len(unit)) * 12 - 1})


MANY = events(6000, 500, 8)
LIGHT = events(6000, 300, 0.2)
BUDGET: dict[str, Any] = {"epsilon": 1, "delta": 1e-6}


def true_counts(data: pa.Table) -> dict[str, int]:
    pairs = data.select(["user", "item"]).group_by(["user", "item"]).aggregate([])
    found = pairs.group_by("item").aggregate([("user", "count")])
    return dict(zip(found.column("item").to_pylist(), found.column("user_count").to_pylist(), strict=True))


def test_the_default_needs_only_a_budget_and_a_unit(tmp_path: Path) -> None:
    found = dp.release(MANY, unit="user", by="item", intervals=0.95, **BUDGET)
    assert isinstance(found.plan.mechanism, AdaptiveGaussian)
    table, true = found.to_arrow(), true_counts(MANY)
    counts = table.column("count").to_numpy()
    truth = np.array([true[item] for item in table.column("item").to_pylist()])
    assert len(counts) > 20
    assert np.median(np.abs(counts - truth) / truth) < 0.25
    covered = (table.column("count_low").to_numpy() <= truth) & (truth <= table.column("count_high").to_numpy())
    assert covered.mean() > 0.85
    assert "all of them" in found.metadata()["estimand"]
    assert found.metadata()["threshold"] is None
    for name in ("out.parquet", "out.csv", "out.json"):
        found.write(tmp_path / name)
        checks = dp.verify(tmp_path / name)
        assert not any(check.failed for check in checks), checks
    found.report(tmp_path / "out.html")
    assert "about one in 10,000 is missing" in (tmp_path / "out.html").read_text()


def test_light_units_vote_and_get_laplace_noise(tmp_path: Path) -> None:
    """Also then a count is of all units."""
    # The choice is noisy, and another one in about one release of a hundred.
    tries = (dp.release(LIGHT, unit="user", by="item", intervals=0.95, **BUDGET) for _ in range(5))
    found = next(one for one in tries if isinstance(one.plan.mechanism, Voting))
    assert found.plan.request.mechanism_epsilon < 1
    table, true = found.to_arrow(), true_counts(LIGHT)
    truth = np.array([true[item] for item in table.column("item").to_pylist()])
    covered = (table.column("count_low").to_numpy() <= truth) & (truth <= table.column("count_high").to_numpy())
    assert len(truth) > 20
    assert covered.mean() > 0.7
    assert "all of them" in found.metadata()["estimand"]
    found.write(tmp_path / "out.parquet")
    assert not any(check.failed for check in dp.verify(tmp_path / "out.parquet"))
    found.report(tmp_path / "out.html")


def test_sums_means_rows_totals_and_several_keys() -> None:
    budget: dict[str, Any] = {
        "epsilon": 4,
        "delta": 1e-4,
        "sums": {"value": (0, 10)},
        "means": {"value": (0, 10)},
        "rows": 3,
    }
    found = dp.release(MANY, unit="user", by=["item", "big"], total=True, integers=True, **budget)
    assert found.total == pytest.approx(6000, abs=100)
    table = found.to_arrow()
    assert table.num_rows > 30
    top = table.slice(0, 1).to_pylist()[0]
    rows = MANY.filter(pa.compute.equal(MANY.column("item"), top["item"])).to_pandas()
    clamped = rows.groupby("user")["value"].sum().clip(0, 10)
    assert top["sum_value"] == pytest.approx(clamped.sum(), abs=5 * top["sum_value_std_error"])
    assert top["mean_value"] == pytest.approx(rows.groupby("user")["value"].mean().clip(0, 10).mean(), abs=1)
    assert top["rows"] == pytest.approx(rows.groupby("user").size().clip(upper=3).sum(), abs=5 * top["rows_std_error"])
    assert isinstance(top["count"], int)


def test_plans_are_saved_shown_and_checked_again(tmp_path: Path) -> None:
    for asked in (
        {},
        {"mechanism": "adaptive"},
        {"mechanism": "voting"},
        {"emphasis": "counts"},
        {"sums": {"x": (0, 1)}},
    ):
        made = dp.plan(**BUDGET, **asked)
        made.save(tmp_path / "plan.json", overwrite=True)
        assert dp.Plan.load(tmp_path / "plan.json") == made
        assert "choice" in str(made) or "mechanism" in asked
        assert made.delta <= 1e-6
    made = dp.plan(**BUDGET)
    for change in (
        {"mechanism": {"threshold": 30.0}},
        {"mechanism": {"counts": {"unit_noise": 5.0}}},
        {"mechanism": {"counts": {"histogram_noise": 9.0}}},
        {"mechanism": {"counts": {"law": "laplace"}}},
        {"mechanism": {"tuning": {"most_groups": 4096}}},
        {"mechanism": {"tuning": {"round_shares": [1, 1, 1, 13]}}},
        {"request": {"mechanism": "voting"}},
        {"request": {"choice": "given"}},
        {"request": {"max_groups": 300}},
        {"alternatives": made_of_nothing()},
    ):
        data = storage.to_data(made.request, made.mechanism, made.alternatives)
        for part, values in change.items():
            data[part] = merged(data[part], values) if isinstance(values, dict) else values
        with pytest.raises(InvalidPlan):
            storage.from_data(json.loads(json.dumps(data)), "a test")


def rows_to(upper: int) -> dict[str, Any]:
    return {"kind": "rows", "column": None, "lower": 0.0, "upper": float(upper), "weight": 1.0}


@pytest.mark.parametrize(
    ("asked", "change"),
    [
        (
            {"mechanism": "adaptive"},
            {"mechanism": {"counts": {"unit_noise": 1e9}}},
        ),  # drawn on a lattice of 2^-26, times 32
        ({"mechanism": "adaptive"}, {"mechanism": {"counts": {"histogram_noise": 1e12}}}),
        ({"mechanism": "voting"}, {"mechanism": {"counts": {"unit_noise": 1e9}}}),
        ({"mechanism": "voting", "rows": 3}, {"request": {"aggregates": [rows_to(2**31)]}}),
        ({"mechanism": "adaptive", "rows": 3}, {"mechanism": {"counts": {"unit_noise": 1e13}}}),
        ({"mechanism": "adaptive", "rows": 3}, {"request": {"aggregates": [rows_to(2**31)]}}),
    ],
)
def test_noise_that_cannot_be_drawn_is_found_when_a_plan_is_read(
    asked: dict[str, Any], change: dict[str, dict[str, Any]]
) -> None:
    """Not when the release has read the data, and paid for it."""
    made = dp.plan(**BUDGET, **asked)
    data = storage.to_data(made.request, made.mechanism, ())
    with pytest.raises(InvalidPlan, match="cannot be drawn"):
        storage.from_data({**data, **{part: merged(data[part], values) for part, values in change.items()}}, "a test")


@pytest.mark.parametrize(
    "asked", [{"mechanism": "adaptive"}, {"mechanism": "voting"}, {"max_groups": 70}, {"sparsity": 50}, {"keys": 20}]
)
def test_aggregates_are_paid_for_to_the_last_bit(asked: dict[str, Any]) -> None:
    weights = {"sum_x": 0.1, "mean_y": 0.7, "rows": 1 / 3}
    made = dp.plan(**BUDGET, **asked, sums={"x": (0, 3)}, means={"y": (-1, 5)}, rows=7, weights=weights)
    assert isinstance(made.mechanism, AdaptiveGaussian | CorrelatedGaussian | KnownGroups | SparseGaussian | Voting)
    assert made.mechanism.covers(made.request.measures)
    scale, less = 1 - 1e-13, made.mechanism
    if isinstance(less, AdaptiveGaussian | Voting):
        assert less.counts is not None
        less = replace(less, counts=replace(less.counts, sums_sensitivity=less.counts.sums_sensitivity * scale))
    else:
        less = replace(less, sums_sensitivity=less.sums_sensitivity * scale)
    assert not less.covers(made.request.measures)
    with pytest.raises(InvalidPlan, match="not paid for"):
        storage.check(made.request, less, "a test")


def merged(old: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
    return {**old, **{k: merged(old[k], v) if isinstance(v, dict) else v for k, v in new.items()}}


def made_of_nothing() -> list[dict[str, object]]:
    """A branch that the choice between laws does not know."""
    plain = dp.plan(epsilon=0.5, delta=1e-6, max_groups=3, mechanism="sparse-gaussian")
    data: dict[str, Any] = storage.to_data(plain.request, plain.mechanism, ())
    return [data["mechanism"]]


def test_a_saved_plan_is_released_as_it_is(tmp_path: Path) -> None:
    dp.plan(**BUDGET, mechanism="adaptive").save(tmp_path / "plan.json")
    found = dp.release(MANY, unit="user", by="item", plan=tmp_path / "plan.json")
    assert found.plan == dp.Plan.load(tmp_path / "plan.json")
    assert found.plan.request.mechanism_epsilon == 1


def test_it_is_explained_in_words() -> None:
    words = explain(prepare(MANY, unit="user", by="item", **BUDGET))
    for step in ("Choice", "Rounds", "Threshold", "Counts", "Together", "CREATE TEMP TABLE pairs"):
        assert step in words
    assert "Choice" not in explain(prepare(MANY, unit="user", by="item", mechanism="adaptive", **BUDGET))
    assert "Election" in explain(prepare(MANY, unit="user", by="item", mechanism="voting", **BUDGET))


def test_the_command_line_without_a_bound(tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    pq.write_table(MANY, tmp_path / "events.parquet")
    out = str(tmp_path / "out.parquet")
    common = ["release", str(tmp_path / "events.parquet"), "--unit", "user", "--by", "item", "--epsilon", "1"]
    run = CliRunner().invoke(app, [*common, "--delta", "1e-6", "-o", out, "--unsafe-diagnostics"])
    assert run.exit_code == 0, run.output
    assert CliRunner().invoke(app, ["verify", out]).exit_code == 0
    run = CliRunner().invoke(app, [*common, "--delta", "1e-6", "--max-groups", "auto", "-o", out, "--overwrite"])
    assert isinstance(run.exception, InvalidParameter), run.output
    run = CliRunner().invoke(app, [*common, "--delta", "1e-6", "--emphasis", "counts", "-o", out, "--overwrite"])
    assert run.exit_code == 0, run.output
    picture = str(tmp_path / "plan.svg")
    shown = CliRunner().invoke(
        app, ["plan", "--epsilon", "1", "--delta", "1e-8", "--mechanism", "adaptive", "--plot", picture]
    )
    assert Path(picture).stat().st_size > 1000
    assert "selection" in shown.output
    assert "budget" in shown.output
    data = json.loads(CliRunner().invoke(app, ["plan", "--epsilon", "1", "--delta", "1e-8", "--json"]).output)
    assert data["budget_split"]["selection"] > 0.5
    assert data["choice"] == "law"


def by_key(table: DuckDBPairs, pairs: MemoryPairs | SqlPairs, values: np.ndarray[Any, np.dtype[Any]]) -> dict[str, int]:
    keys = table.keys_of(np.arange(pairs.groups)).column("item").to_pylist()
    return dict(zip(keys, values.tolist(), strict=True))


def all_sums(data: pa.Table, *, in_memory: bool | None, most_groups: int = 4, **settings: Any) -> list[object]:
    """Every answer of the engine, by key, under weights that are a function of the key."""
    query = GroupByQuery("user", (Key("item"),), (MEASURE,))
    with open_pairs(data, query, PerformanceSettings(**settings), seed=7) as table:
        pairs = table.sampled(most_groups, in_memory=in_memory)
        if in_memory is not None:
            assert isinstance(pairs, MemoryPairs if in_memory else SqlPairs)
        keys = table.keys_of(np.arange(pairs.groups)).column("item").to_pylist()
        weights = np.array([int(key[1:]) * 37 % 1025 for key in keys])
        chosen = np.flatnonzero(weights)
        sums = [
            pairs.class_sums(weights, chosen, (ONE**power, 2 * ONE**power), power, {"sum_value": 1}) for power in (1, 2)
        ]
        return [
            by_key(table, pairs, pairs.eligible()),
            by_key(table, pairs, pairs.weighted_sums(weights)),
            [dict(zip(chosen.tolist(), column.tolist(), strict=True)) for one in sums for column in one.values()],
            [pairs.norms(weights, edges(power), power).tolist() for power in (1, 2)],
            pairs.degree_histogram(DEGREE_EDGES).tolist(),
            table.degree_histogram(DEGREE_EDGES).tolist(),
            table.total_units(),
        ]


def test_shuffled_rows_threads_and_sql_give_the_same_bits() -> None:
    """H5 on the engine: order of rows, threads, NumPy or SQL with little memory: the sums are the same integers."""
    data = events(400, 60, 6, 3)
    expected = all_sums(data, in_memory=True)
    order = np.random.default_rng(1).permutation(data.num_rows)
    shuffled = data.take(pa.array(order))
    assert all_sums(shuffled, in_memory=True, threads=1) == expected
    assert all_sums(data, in_memory=False) == expected
    assert all_sums(shuffled, in_memory=False, threads=2, memory_limit="200MB") == expected


def test_what_does_not_fit_is_left_to_the_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    query = GroupByQuery("user", (Key("item"),))
    for share, kind in ((0.4, MemoryPairs), (0.0, SqlPairs)):
        monkeypatch.setattr("dphist.engines.duckdb.pairs.MEMORY_SHARE", share)
        with open_pairs(events(50, 10, 2), query, PerformanceSettings()) as table:
            assert isinstance(table.sampled(300), kind)
    monkeypatch.setattr("dphist.engines.duckdb.pairs.MOST_RELEASED", 5)
    with (
        open_pairs(events(50, 10, 2), query, PerformanceSettings()) as table,
        pytest.raises(InvalidParameter, match="fewer than"),
    ):
        table.sampled(300)


def test_a_units_records_do_not_move_another_units_sample() -> None:
    """H4 on the engine: with one unit more, what the others sampled stays, group by group."""
    data = events(300, 80, 10, 5)
    without = data.filter(pa.compute.not_equal(data.column("user"), 17))
    query = GroupByQuery("user", (Key("item"),))

    def samples(source: pa.Table) -> set[tuple[int, str]]:
        with open_pairs(source, query, PerformanceSettings(), seed=3) as table:
            table.sampled(3, in_memory=False)
            rows = table.connection.execute(
                "SELECT unit, key_1 FROM coded JOIN units USING (unit_code) JOIN groups USING (group_code) WHERE sampled"
            ).fetchall()
            return set(rows)

    all_of_them, others = samples(data), samples(without)
    assert {row for row in all_of_them if row[0] != 17} == others
    sizes = np.bincount([row[0] for row in all_of_them])
    assert sizes.max() == 3


def test_the_plain_histogram_of_the_pairs_is_bounded() -> None:
    data = events(300, 40, 6, 6)
    query = GroupByQuery("user", (Key("item"),), (MEASURE,), want_total=True)
    with open_pairs(data, query, PerformanceSettings()) as table:
        bounded = table.histogram(ContributionBounds(2))
        free = table.histogram(ContributionBounds())
    true = true_counts(data)
    assert dict(zip(free.keys.column("item").to_pylist(), free.counts.tolist(), strict=True)) == true
    assert bounded.counts.sum() <= 2 * 300
    assert bounded.total_units == len(set(data.column("user").to_pylist()))
    with (
        pytest.raises(InvalidParameter, match="public list"),
        open_pairs(
            data, GroupByQuery("user", (Key("item"),), public_keys=pa.table({"item": ["a"]})), PerformanceSettings()
        ),
    ):
        pass
