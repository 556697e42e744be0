"""Releases on public lists and without any groups: against plain Python without noise; with a pure epsilon, to the end."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

import dphist as dp
from dphist.cli.app import app
from dphist.ledger import DataSet, Ledger
from dphist.ledger.accountant import price
from dphist.noise import sampling
from dphist.planning.request import Request
from dphist.privacy.filters import ACCOUNTANTS
from drawn_laws import recorded, silence
from example_numbers import some

EVENTS = pa.table(
    {
        "user": [i % 60 for i in range(600)] + [None, 7],
        "country": [("DE", "FR", "CH", "XX", None)[(i * i) % 5] for i in range(602)],
        "year": [2020 + i % 3 for i in range(602)],
        "spent": [float(i % 13) if i % 11 else None for i in range(602)],
    }
)
PURE: dict[str, Any] = {"epsilon": 1.0, "delta": 0}
PRODUCT: dict[str, Any] = {"country": ["DE", "FR", "nowhere"], "year": range(2020, 2022)}


def quiet(**options: Any) -> dp.Release:
    with recorded(silence):
        return dp.release(EVENTS, unit="user", **{**PURE, **options})


def test_a_product_is_released_combination_by_combination() -> None:
    found = quiet(by=["country", "year"], keys=PRODUCT, sums={"spent": (-100, 100)}, order="key")
    for row in found.to_arrow().to_pylist():
        same = [r for r in EVENTS.to_pylist() if (r["country"], r["year"]) == (row["country"], row["year"])]
        units = {r["user"] for r in same if r["user"] is not None}
        assert row["count"] == len(units)
        total = sum(r["spent"] or 0 for r in same if r["user"] is not None)
        assert row["sum_spent"] == pytest.approx(total, abs=1e-4 * (1 + len(units)))
    keys = [(row["country"], row["year"]) for row in found.to_arrow().to_pylist()]
    assert keys == sorted((c, y) for c in PRODUCT["country"] for y in PRODUCT["year"])


def test_without_keys_there_is_one_row_and_no_key_column() -> None:
    columns: dict[str, Any] = {"sums": {"spent": (0, 200)}, "means": {"spent": (0, 20)}, "rows": 30, "total": True}
    found = quiet(**columns, intervals=0.9)
    (row,) = found.to_arrow().to_pylist()
    records = [r for r in EVENTS.to_pylist() if r["user"] is not None]
    assert row["count"] == found.total == 60
    assert row["rows"] == len(records)
    assert row["sum_spent"] == pytest.approx(sum(r["spent"] or 0 for r in records), abs=0.1)
    names = [name + suffix for name in ("count", "sum_spent", "mean_spent", "rows")
             for suffix in ("", "_std_error", "_low", "_high")]  # fmt: skip
    assert found.to_arrow().column_names == names
    assert found.metadata()["by"] == found.metadata()["keys"] == []
    assert "all units" not in json.dumps({**found.metadata(), "summary": ""})
    one = quiet(where="year = 2020", integers=True, order="key", null_keys="drop", max_groups=1)
    units = {r["user"] for r in records if r["year"] == 2020}
    assert one.to_arrow().to_pydict()["count"] == [len(units)]


@pytest.mark.parametrize("by", [{}, {"by": ["country", "year"], "keys": PRODUCT}])
def test_a_pure_release_never_asks_the_sampler_that_has_an_error(
    by: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its distance from the law would have to be paid for with delta. Every column that can be asked for is here."""

    def refuse(*_: object) -> None:
        raise AssertionError("noise of the table sampler")

    monkeypatch.setattr(sampling.BlockSampler, "fill", refuse)
    columns: dict[str, Any] = {"sums": {"spent": (0, 200)}, "means": {"spent": "auto"}, "rows": 30, "total": True}
    columns |= {"variances": {"spent": (0, 20)}, "count_of": ["spent"], "intervals": 0.9}
    assert dp.release(EVENTS, unit="user", **PURE, **columns, **by).plan.delta == 0
    with pytest.raises(AssertionError, match="table sampler"):
        dp.release(EVENTS, unit="user", epsilon=1, delta=1e-6, mechanism="sparse-gaussian")


def test_names_of_columns_never_clash_with_the_row_of_all_units() -> None:
    table = pa.table({"all units": [1, 2, 2], "key_1": [1.0, 2.0, 3.0], "count": [1, 1, 1]})
    with recorded(silence):
        found = dp.release(table, unit="all units", sums={"key_1": (0, 9), "count": (0, 5)}, **PURE)
    row = found.to_arrow().to_pylist()[0]
    assert (row["count"], row["sum_count"]) == (2, pytest.approx(3, abs=1e-4))


ASKED: list[dict[str, Any]] = [
    {}, {"intervals": 0.95, "total": True, "means": {"spent": (0, 9)}},
    {"by": ["country", "year"], "keys": PRODUCT, "sums": {"spent": (0, 9)}},
    {"by": "country", "keys": "country=DE,FR", "delta": 1e-6, "noise": "discrete", "mechanism": "sparse-gaussian"},
]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "options"), some([(name, one) for one in ASKED for name in ("out.parquet", "out.csv", "out.json")], 6)
)
def test_files_are_verified(tmp_path: Path, name: str, options: dict[str, Any]) -> None:
    found = dp.release(EVENTS, unit="user", **{**PURE, **options})
    found.write(tmp_path / name)
    checks = dp.verify(tmp_path / name)
    assert all(check.passed is not False for check in checks), checks
    assert {"guarantee", "claims", "columns", "groups"} <= {check.name for check in checks}
    found.report(tmp_path / "out.html")
    report = (tmp_path / "out.html").read_text()
    assert ("all units together" in report) == ("by" not in options)
    assert "of the public list are released" in report or "by" not in options


def test_a_file_without_keys_needs_a_plan_of_one_group(tmp_path: Path) -> None:
    listed = dp.release(EVENTS, unit="user", by="country", keys=["DE", "FR"], **PURE)
    listed.write(tmp_path / "out.parquet")
    path = tmp_path / "out.parquet"
    table = pq.read_table(path)
    metadata = json.loads(table.schema.metadata[b"dphist"])
    metadata["by"] = metadata["keys"] = []
    pq.write_table(table.drop_columns(["country"]).replace_schema_metadata({b"dphist": json.dumps(metadata)}), path)
    (tmp_path / "out.parquet.dphist.json").unlink()
    (guarantee,) = [check for check in dp.verify(path) if check.name == "guarantee"]
    assert guarantee.failed
    assert "columns that make the groups" in guarantee.detail


def test_a_pure_guarantee_says_so() -> None:
    plan = dp.plan(epsilon=1, delta=0, no_groups=True)
    assert plan.delta == plan.summary().delta == plan.summary().target_delta == 0
    words = str(plan).replace("\n               ", " ")
    assert "at most a factor e^1 = 2.719 and no delta, by [DMNS06]" in words
    assert "delta = 0" not in words
    assert "and no delta (asked for: 1e-08), by" in str(dp.plan(epsilon=1, delta=1e-8, keys=9, max_groups=1)).replace(
        "\n               ", " "
    )


@pytest.mark.parametrize("accountant", ACCOUNTANTS)
def test_a_pure_epsilon_is_charged_without_delta(tmp_path: Path, accountant: Any) -> None:
    address = tmp_path / "ledger.db"
    with Ledger(str(address), create=True) as ledger:
        ledger.create(DataSet("people", 1.2, 1e-6, "user", accountant))
    plan = dp.plan(epsilon=0.1, delta=0, no_groups=True)
    cost = price(plan.event, 1.2)
    assert (cost.epsilon, cost.delta, cost.rho_delta, cost.mu_delta) == (0.1, 0, 0, 0)
    found = dp.release(EVENTS, unit="user", plan=plan, ledger=address, dataset="people")
    found.write(tmp_path / "out.parquet")
    assert all(check.passed for check in dp.verify(tmp_path / "out.parquet", ledger=address))
    with Ledger(str(address)) as ledger:
        assert ledger.status("people").total.delta == 0
        assert all(check.passed for check in ledger.verify("people"))
        more = {"basic": 11, "gdp": 3, "zcdp": 5}[accountant]  # twelve tenths are twelve, exactly
        assert ledger.status("people").more_like_the_last() == more


def test_a_ledger_that_gaussian_noise_fits_says_so(tmp_path: Path) -> None:
    """Laplace noise is the smaller one, and adds up worse."""
    address = tmp_path / "ledger.db"
    with Ledger(str(address), create=True) as ledger:
        ledger.create(DataSet("people", 1.5, 1e-6, "user", "gdp"))
    options: dict[str, Any] = {
        "unit": "user",
        "by": "country",
        "keys": "country=DE,FR",
        "max_groups": 1,
        "epsilon": 1.0,
    }
    options |= {"ledger": address, "dataset": "people"}
    with pytest.raises(dp.BudgetExceeded, match="with --mechanism sparse-gaussian it fits as it is"):
        dp.release(EVENTS, delta=1e-7, **options)
    assert dp.release(EVENTS, delta=1e-7, mechanism="sparse-gaussian", **options).receipt is not None
    with pytest.raises(dp.BudgetExceeded) as caught:
        dp.release(EVENTS, delta=0, **options)
    assert "sparse-gaussian" not in str(caught.value)


def test_saved_plans_may_have_no_delta_where_nothing_needs_one(tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    dp.plan(epsilon=1, delta=0, keys=6, max_groups=2, sums={"spent": (0, 9)}).save(path)
    plan = dp.Plan.load(path)
    found = dp.release(EVENTS, unit="user", by=["country", "year"], keys=PRODUCT, plan=path)
    assert found.plan == plan
    data = json.loads(path.read_text())
    for change, told in (
        ({"keys": None}, "delta in"),
        ({"sparse": True}, "delta in"),
        ({"keys": None, "max_groups": None}, "delta in"),
        ({"mechanism": "sparse-gaussian"}, "delta > 0 for Gaussian noise"),
        ({"epsilon": 0.999}, "exceeds 0"),
    ):
        path.write_text(json.dumps({**data, "request": {**data["request"], **change}}))
        with pytest.raises(dp.InvalidPlan, match=told):
            dp.Plan.load(path)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"max_groups": 3}, r"delta in \(0, 1\), got 0. Hint: unknown groups need delta > 0"),
        ({}, r"delta in \(0, 1\), got 0"),
        ({"sparsity": 3}, r"delta in \(0, 1\), got 0"),
        ({"sketch": 3}, r"delta in \(0, 1\), got 0"),
        ({"keys": 5, "sparse": True}, r"delta in \(0, 1\), got 0"),
        ({"keys": 5, "mechanism": "sparse-gaussian"}, "delta > 0 for Gaussian noise"),
        ({"keys": 5, "correlation": 0.5}, "delta > 0 for Gaussian noise"),
        ({"keys": 5, "delta": -1e-9}, r"delta in \(0, 1\)"),
        ({"keys_only": True}, r"delta in \(0, 1\), got 0"),
    ],
)
def test_whatever_needs_a_delta_is_refused_without(options: dict[str, Any], message: str) -> None:
    with pytest.raises(dp.InvalidParameter, match=message):
        dp.plan(**{**PURE, **options})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"keys": ["DE"]}, "columns that make the groups, with a public list"),
        ({"by": []}, "at least one column, or none given"),
        ({"max_groups": 2}, "number of keys of at least max_groups"),
        ({"sparsity": 2}, "sparsity or keys"),
        ({"by": "country"}, r"delta in \(0, 1\)"),
        ({"by": "country", "keys": {"year": [2020]}}, "with the columns"),
    ],
)
def test_what_does_not_fit_together_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(dp.InvalidParameter, match=message):
        dp.release(EVENTS, unit="user", **PURE, **options)


def test_a_plan_of_one_group_fits_one_group_alone() -> None:
    plan = dp.plan(epsilon=1, delta=0, no_groups=True)
    assert dp.release(EVENTS, unit="user", by="country", keys=["DE"], plan=plan).table.column_names[0] == "country"
    with pytest.raises(dp.InvalidParameter, match="1 public keys, as the plan says"):
        dp.release(EVENTS, unit="user", by="country", keys=["DE", "FR"], plan=plan)
    with pytest.raises(dp.InvalidParameter, match="no public keys, as the plan says"):
        dp.release(EVENTS, unit="user", plan=dp.plan(epsilon=1, delta=1e-6, max_groups=1))
    assert plan.request == Request(epsilon=1, delta=0, keys=1)


def test_the_command_line_without_groups(tmp_path: Path) -> None:
    pq.write_table(EVENTS, tmp_path / "events.parquet")
    out = tmp_path / "out.csv"
    budget = ["--unit", "user", "--epsilon", "2", "--delta", "0"]
    ran = CliRunner().invoke(
        app, ["release", str(tmp_path / "events.parquet"), *budget, "--sum", "spent:0:9", "--explain", "-o", str(out)]
    )
    assert ran.exit_code == 0, ran.output
    assert "Each unit is counted once" in ran.output
    assert "One group, which is public" in ran.output
    assert out.read_text().splitlines()[0] == "count,count_std_error,sum_spent,sum_spent_std_error"
    assert CliRunner().invoke(app, ["verify", str(out)]).exit_code == 0
    for command in (["select"], ["top-k", "--k", "3"]):
        ran = CliRunner().invoke(app, [*command, str(tmp_path / "events.parquet"), *budget])
        assert ran.exit_code == 2
        assert "--by" in ran.output
