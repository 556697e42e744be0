"""The audit of the Spark engine, made small: the product withstands, and what is broken as only a cluster can be is caught."""

from __future__ import annotations

import json
from typing import Any

import pytest
from click.testing import CliRunner

import dphist as dp
import spark_sessions
from dphist.audit import attacks, bounding, broken, claims
from dphist.audit.judge import attack
from dphist.audit.run import audit, judge, what_is_attacked
from dphist.cli.app import app
from spark_sessions import session

ALPHA = 1e-6
"""The chance that one of the sampled bounds here is wrong."""


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fewer runs, one kind of release, one nasty table."""
    runs = 2_000 if spark_sessions.thorough else 1_000
    monkeypatch.setattr(claims, "FEWER", (runs, runs))
    monkeypatch.setattr(broken, "FEWER", (2_000, 2_000))
    monkeypatch.setattr(attacks, "KINDS", ("gaussian",))
    tables = bounding.nasty_tables()[:1]
    monkeypatch.setattr(bounding, "nasty_tables", lambda: tables)


def engine() -> dp.SparkEngine:
    return dp.SparkEngine(session())


@pytest.mark.parametrize("setting", [pytest.param("new groups", marks=pytest.mark.cluster), "sums, means and rows"])
def test_claims_hold_on_executors(setting: str) -> None:
    asked = claims.releases(engine(), claims.FEWER)  # one after the other: each makes a plan of its own
    found = attack(next(claim for claim in asked if setting in claim.setting), ALPHA, thorough=False)
    assert found.holds
    assert found.attacked is not None
    assert found.attacked > 0  # the attack sees something: groups of the unit alone are shown now and then


WITHSTOOD = [
    pytest.param("support and staging", marks=pytest.mark.cluster),
    pytest.param("contribution bounds", marks=pytest.mark.cluster),  # tests/engines has them for both engines
    pytest.param("bounds, pairs written", marks=pytest.mark.cluster),
    pytest.param("equal keys and units", marks=pytest.mark.cluster),
    pytest.param("sums", marks=pytest.mark.cluster),
    pytest.param("noise on every number", marks=pytest.mark.cluster),
    pytest.param("sparsity", marks=pytest.mark.cluster),
    pytest.param("charge first", marks=pytest.mark.cluster),  # test_spark_charge watches every table and the noise
    pytest.param("strictly above", marks=pytest.mark.cluster),
    pytest.param("noise of two tasks", marks=pytest.mark.cluster),  # test_spark_noise_safety has four
]


@pytest.mark.parametrize("name", WITHSTOOD)
def test_the_product_withstands(name: str) -> None:
    _, parts, _ = what_is_attacked(engine(), None, thorough=False)
    holds, detail = next(part for part in parts if part.name == name).run()
    assert holds, detail


SEEN_IN_FEW_RUNS = [
    "threshold one too low", "every task has one seed", "rows as files have them", "places are not looked at",
    "exact tables stay",
]  # fmt: skip


@pytest.mark.cluster
@pytest.mark.parametrize("name", SEEN_IN_FEW_RUNS)
def test_what_is_broken_is_caught(name: str) -> None:
    """Others need the tables and the runs of `dphist audit --engine spark`."""
    one = next(one for one in broken.broken_on_cluster(engine()) if one.name == name)
    assert not judge(one, ALPHA, thorough=False).holds


@pytest.mark.cluster
def test_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dphist.engines.spark.session.open_session", lambda *_: engine().spark)
    done = CliRunner().invoke(app, ["audit", "--engine", "spark", "--mechanism", "discrete-gaussian", "--json"])
    found: dict[str, Any] = json.loads(done.stdout)
    assert (found["engine"], found["passed"], len(found["findings"])) == ("spark", True, 2)


def test_a_plan_is_attacked_on_its_own() -> None:
    with pytest.raises(dp.InvalidParameter, match="a plan or an engine"):
        audit(plan=dp.plan(epsilon=1, delta=1e-8, max_groups=1), engine=engine())
