"""`dphist audit` as a user meets it, and the tables and reports made of an audit."""

import json
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import dphist
from dphist.audit import adaptive
from dphist.audit import run as audit_run
from dphist.audit.broken import Broken, discrete_noise, quiet_noise
from dphist.audit.claims import of_plan
from dphist.audit.judge import Claim, attack
from dphist.audit.run import Audit, audit
from dphist.cli.app import app
from dphist.errors import InvalidParameter

what_is_attacked = audit_run.what_is_attacked


def in_few_runs(engine: Any, plan: Any, *, thorough: bool) -> Any:
    """Everything, in as few runs as an audit needs to be shown."""
    asked, parts, wrong = what_is_attacked(engine, plan, thorough=thorough)
    return [replace(claim, quick=min(claim.quick, 100)) for claim in asked], parts, wrong


@pytest.fixture(scope="module")
def found() -> Iterator[Audit]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(audit_run, "what_is_attacked", in_few_runs)
        yield audit(mechanism="ranked")


def test_one_mechanism_on_the_command_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit_run, "what_is_attacked", in_few_runs)
    report = tmp_path / "audit.html"
    done = CliRunner().invoke(app, ["audit", "--mechanism", "truncated-laplace", "--report", str(report)])
    assert done.exit_code == 0, done.output
    assert "Quick audit" in done.output
    assert "1.000  holds" in done.output
    assert "data-dependent q" in done.output
    assert "99.99% confidence" in done.output
    page = report.read_text(encoding="utf-8")
    assert page.startswith("<!doctype html>")
    assert "truncated-laplace (exact)" in page
    assert "http" not in page.replace("http-equiv", "")


def test_json_is_one_object(found: Audit) -> None:
    data = json.loads(json.dumps(found.to_data(), allow_nan=False))
    assert data["passed"] is True
    assert data["confidence"] == pytest.approx(0.9999)
    assert {finding["claim"] for finding in data["findings"]} == {"ranked"}
    assert [one["name"] for one in data["broken"]] == ["the paper's unscaled threshold"]
    assert data["broken"][0]["caught"] is True
    exact = [finding for finding in data["findings"] if finding["attack"] == "exact"]
    assert all(0.9 < finding["ratio"] <= 1 for finding in exact)


def test_a_broken_claim_fails_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit_run, "what_is_attacked", lambda *_, thorough: ([discrete_noise()], [], []))
    done = CliRunner().invoke(app, ["audit"])
    assert done.exit_code == 1
    assert "BROKEN: discrete-gaussian (normal profile)." in done.output


def test_a_break_that_is_not_caught_fails_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sound = replace(quiet_noise(1.0), quick=4000)
    missed = Broken("not broken at all", "nothing", sound)
    monkeypatch.setattr(audit_run, "what_is_attacked", lambda *_, thorough: ([], [], [missed]))
    done = CliRunner().invoke(app, ["audit", "--json", "--report", str(tmp_path / "audit.md")])
    assert done.exit_code == 1
    assert "### Broken on purpose" in (tmp_path / "audit.md").read_text()
    assert json.loads(done.stdout)["passed"] is False
    assert json.loads(done.stdout)["broken"][0]["caught"] is False


def test_a_mechanism_that_does_not_exist() -> None:
    with pytest.raises(InvalidParameter, match=r"a mechanism out of adaptive, .*, got gaussian"):
        audit(mechanism="gaussian")


PLANS = {
    "gaussian": {"max_groups": 10},
    "gaussian with sums": {"max_groups": 3, "sums": {"likes": (0, 1)}},
    "laplace": {"max_groups": 2, "mechanism": "laplace"},
    "correlated": {"sparsity": 50, "mechanism": "correlated-gaussian"},
    "listed": {"keys": 10, "max_groups": 3, "mechanism": "sparse-gaussian"},
    "listed, laplace": {"keys": 10, "max_groups": 1},
    "sketch": {"sketch": 8},
    "adaptive": {"mechanism": "adaptive"},
}


@pytest.mark.parametrize("name", PLANS)
def test_plans_at_their_own_parameters(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Integrated at 1e-8: as tight as the claims are, except where the adaptive release pays for 300 groups at once."""
    monkeypatch.setattr(adaptive, "alone_in_one_group", partial(adaptive.alone_in_one_group, cells=1000))
    plan = dphist.plan(epsilon=1, delta=1e-8, **PLANS[name])  # type: ignore[arg-type]
    first, *others = of_plan(plan)
    found = attack(first, 1e-6, thorough=False)
    assert found.holds
    assert found.ratio is not None
    assert found.ratio > (1e-3 if name == "adaptive" else 0.999)
    assert all(claim.trials is not None for claim in others)


def test_a_plan_with_too_little_noise_is_broken() -> None:
    """A plan for half of the groups that it is used with: its integrated law gives it away."""
    plan = dphist.plan(epsilon=1, delta=1e-8, max_groups=10, mechanism="sparse-gaussian")
    promised = dphist.plan(epsilon=1, delta=1e-8, max_groups=5, mechanism="sparse-gaussian").mechanism
    (claim, *_) = of_plan(plan)
    quiet = Claim(claim.mechanism, claim.analysis, "", promised.delta, claim.pairs)
    assert not attack(quiet, 1e-6, thorough=False).holds


def test_a_plan_of_expressions_is_attacked_by_values() -> None:
    plan = dphist.plan(epsilon=1, delta=1e-6, max_groups=1, sums={"revenue=price*quantity": (0, 1)})
    claim = of_plan(plan)[-1]
    assert claim.trials is not None
    assert claim.trials(20).without.shape == (20, 2)


def test_a_saved_plan_on_the_command_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit_run, "what_is_attacked", lambda _, plan, *, thorough: (of_plan(plan), [], []))
    dphist.plan(epsilon=1, delta=1e-6, sketch=5).save(tmp_path / "plan.json")
    done = CliRunner().invoke(app, ["audit", "--plan", str(tmp_path / "plan.json"), "--json"])
    assert done.exit_code == 0, done.output
    (only,) = json.loads(done.output)["findings"]
    assert only["setting"] == "the plan's own parameters"


def test_the_document_keeps_everything_but_its_tables(
    found: Audit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "audit.md"
    path.write_text("# Before\n<!-- audit: begin -->\nan earlier table\n<!-- audit: end -->\nafter\n")
    monkeypatch.setattr(audit_run, "audit", lambda **_: replace(found, thorough=True, power=found.caught))
    assert audit_run.main(path) == 0
    text = path.read_text()
    assert text.startswith("# Before\n")
    assert text.endswith("<!-- audit: end -->\nafter\n")
    assert "an earlier table" not in text
    assert "| ranked | exact |" in text
    assert "### How small an error is caught" in text
    with pytest.raises(ValueError, match="no part between"):
        audit_run.replaced("nothing here", "")
