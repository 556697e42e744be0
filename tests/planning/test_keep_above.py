"""A size that must not be missing: it holds, or is refused with the smallest epsilon of two digits that would do."""

from __future__ import annotations

import json
import math
from bisect import bisect_left
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import dphist as dp
from command_line import dphist
from dphist.planning.plan import _EPSILONS

BUDGET: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-8}
WAYS: dict[str, dict[str, Any]] = {
    "rounds": {},
    "rounds, few groups": {"keep_groups": 1},
    "rounds, precise counts": {"emphasis": "counts", "total": True},
    "keys only": {"keys_only": True},
    "bounded": {"max_groups": 5},
    "sums": {"max_groups": 20, "sums": {"likes": (0, 1)}},
    "laplace": {"max_groups": 2, "mechanism": "laplace", "low_threshold": 4},
    "sparsity": {"max_groups": 10, "sparsity": 100},
    "sparse list": {"max_groups": 3, "keys": 50, "sparse": True},
}


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
@pytest.mark.parametrize("size", [40, 150, 5000])
def test_it_holds_or_the_smallest_epsilon_that_would_do_is_named(way: dict[str, Any], size: int) -> None:
    asked = {**BUDGET, **way, "keep_above": size}
    problem: dp.Infeasible | None = None
    try:
        plan = dp.plan(**asked)
    except dp.Infeasible as refused:
        problem = refused
    if problem is not None:
        assert f"groups of {size:,} units" in str(problem)
        named = float(problem.hint.split("epsilon ")[1].split(" ")[0])
        least = int(problem.hint.split("--keep-above ")[1].split(" ")[0])
        assert dp.plan(**{**asked, "keep_above": least}).request.keep_above == least
        below = _EPSILONS[bisect_left(_EPSILONS, named) - 1]
        assert named > below >= 1
        for fails in ({"keep_above": least - 1}, {"epsilon": below}):
            with pytest.raises(dp.Infeasible):
                dp.plan(**{**asked, **fails})
        plan = dp.plan(**{**asked, "epsilon": named})
    assert all(branch.sure_size(plan.request.kept_in) <= size for branch in plan.branches)
    if not plan.mechanism.in_rounds:
        assert plan.mechanism.release_probability(size) >= 0.9998
    kept = plan.to_dict()["kept"]
    assert (kept["above"], kept["groups"]) == (size, plan.request.kept_in)
    assert kept["from"] == plan.mechanism.sure_size(plan.request.kept_in) <= size


def test_it_costs_nothing_and_changes_no_noise() -> None:
    ways: list[dict[str, Any]] = [{"mechanism": "adaptive"}, {"max_groups": 5}]
    for way in ways:
        plan, kept = (dp.plan(**{**BUDGET, **way, **more}) for more in ({}, {"keep_above": 1000}))
        assert (plan.mechanism, plan.event) == (kept.mechanism, kept.event)
    assert "kept" not in dp.plan(**BUDGET).to_dict()


def test_where_the_data_would_choose_no_election_is_held() -> None:
    """An election may lose a group of any size: of full ones about one in a thousand."""
    assert {branch.name for branch in dp.plan(**BUDGET).branches} == {"adaptive", "voting"}
    assert [branch.name for branch in dp.plan(**BUDGET, keep_above=1000).branches] == ["adaptive"]
    for way in ({"mechanism": "voting"}, {"low_threshold": 3}):
        with pytest.raises(dp.Infeasible, match="an election, which may lose any"):
            dp.plan(**BUDGET, **way, keep_above=10**9)


def test_the_groups_of_units_are_ten_or_as_many_as_bounded() -> None:
    assert [dp.plan(**{**BUDGET, **way, "keep_above": 2000}).request.kept_in for way in ({}, {"max_groups": 4})] == [
        10,
        4,
    ]
    rounds = [dp.plan(**BUDGET, keep_above=2000, keep_groups=groups) for groups in (1, 100)]
    sizes = [plan.to_dict()["kept"]["from"] for plan in rounds]
    assert sizes[1] == pytest.approx(10 * sizes[0])
    listed = dp.plan(**BUDGET, keys=20, keep_above=1)
    assert listed.to_dict()["kept"]["from"] == 0
    assert "none is missing" in str(listed)


@pytest.mark.parametrize(
    ("way", "words"),
    [
        ({"keep_groups": 3}, "--keep-above beside --keep-groups"),
        ({"keep_above": 0}, "keep_above of at least 1"),
        ({"keep_above": 100, "keep_groups": 6, "max_groups": 5}, "keep_groups of at most 5"),
        ({"keep_above": 100, "keep_groups": 301}, "keep_groups of at most 300"),
        ({"keep_above": 100, "sketch": 10}, "no --keep-above with a sketch"),
    ],
)
def test_what_means_nothing_is_refused(way: dict[str, Any], words: str) -> None:
    with pytest.raises(dp.InvalidParameter, match=words):
        dp.plan(**BUDGET, **way)


def test_a_stored_plan_keeps_its_size_or_is_refused(tmp_path: Path) -> None:
    plan = dp.plan(**BUDGET, keep_above=400)
    plan.save(tmp_path / "plan.json")
    assert dp.Plan.load(tmp_path / "plan.json") == plan
    assert "keep_above" not in json.dumps(dp.plan(**BUDGET).to_dict())
    data = json.loads((tmp_path / "plan.json").read_text())
    data["request"]["keep_above"] = 200
    (tmp_path / "plan.json").write_text(json.dumps(data))
    with pytest.raises(dp.InvalidPlan, match="groups of 200 units may be missing"):
        dp.Plan.load(tmp_path / "plan.json")
    rounds: Any = plan.mechanism
    without_bars = replace(rounds, bars=())
    assert math.isinf(without_bars.sure_size(1))
    assert "any size" in without_bars.shown_in_words


def test_releases_and_selections_take_it(tmp_path: Path) -> None:
    table = pa.table({"user": list(range(3000)), "url": [f"/{n % 2}" for n in range(3000)]})
    asked: dict[str, Any] = {"unit": "user", "by": "url", "epsilon": 1, "delta": 1e-8, "keep_above": 1000}
    release = dp.release(table, **asked)
    assert release.plan.request.keep_above == 1000
    assert release.to_arrow().num_rows == 2
    assert dp.select(table, **asked).to_arrow().num_rows == 2
    for publish in (dp.release, dp.select):
        with pytest.raises(dp.Infeasible, match=r"epsilon \d+ would do|epsilon \d+\.\d would do"):
            publish(table, **{**asked, "keep_above": 50})


def test_the_plan_says_it_in_words_and_as_json() -> None:
    words = ("plan", "--epsilon", "1", "--delta", "1e-8", "--keep-above", "500")
    assert "about one in 10,000 is missing at most" in " ".join(dphist(*words).stdout.split())
    assert json.loads(dphist(*words, "--keep-groups", "2", "--json").stdout)["kept"]["groups"] == 2
    refused = dphist("plan", "--epsilon", "1", "--delta", "1e-8", "--keep-above", "200")
    assert refused.returncode == 2
    assert "would do" in refused.stderr
