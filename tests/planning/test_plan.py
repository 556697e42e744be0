"""Plans: the best is never worse, JSON holds what users rely on, saved plans are checked anew."""

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import dphist as dp
from dphist.aggregates.count import Rows
from dphist.aggregates.total import Sum, SumOfUnit
from dphist.mechanisms import GroupMechanism, KnownGroups
from dphist.planning import storage
from dphist.planning.choices import OBJECTIVES, Objective
from dphist.planning.request import Request
from example_numbers import examples

FIELDS = {
    "mechanism", "analysis", "epsilon", "delta", "target_delta", "max_groups", "sparsity", "noise_std", "independent_std",
    "correlation", "gap", "low_threshold", "threshold", "delta_gauss", "delta_inf", "alternatives",
}  # fmt: skip


def test_the_headline_of_the_issue() -> None:
    plan = dp.plan(epsilon=0.35, delta=1e-5, max_groups=51914, sparsity=51914, objective="gap")
    found = plan.to_dict()
    assert found["mechanism"] == "correlated-gaussian"
    assert found["gap"] <= 6990
    others = {(other["mechanism"], other["analysis"]): other["gap"] for other in found["alternatives"]}
    assert others["correlated-gaussian", "paper-3.5"] == pytest.approx(7434, abs=1)
    assert others["sparse-gaussian", "exact"] == pytest.approx(13913.45, abs=0.01)


def test_fixed_noise() -> None:
    plan = dp.plan(epsilon=0.349, delta=1e-5, max_groups=51914, noise_std=2396, mechanism="sparse-gaussian")
    found = plan.to_dict()
    assert found["gap"] == pytest.approx(14998.69, abs=0.005)
    added = next(other for other in found["alternatives"] if other["analysis"] == "add-the-deltas")
    assert added["gap"] == pytest.approx(15148.72, abs=0.005)


@examples(10)
@example(0.05, -2.0, 14, 0, 1, "release95", 1)  # a large delta with thousands of groups and sums takes 18 seconds
@example(5.0, -2.0, 5000, 10**6, 3, "gap", 20)
@given(
    epsilon=st.floats(0.05, 5),
    log_delta=st.floats(-12, -4),
    max_groups=st.integers(1, 5000),
    extra=st.one_of(st.none(), st.integers(0, 10**6)),
    sums=st.integers(0, 3),
    objective=st.sampled_from(OBJECTIVES),
    low_threshold=st.sampled_from([1, 1, 20]),
)
def test_best_is_never_worse_and_always_holds(
    epsilon: float,
    log_delta: float,
    max_groups: int,
    extra: int | None,
    sums: int,
    objective: Objective,
    low_threshold: int,
) -> None:
    plan = dp.plan(
        epsilon=epsilon,
        delta=10.0**log_delta,
        max_groups=max_groups,
        sparsity=None if extra is None else max_groups + extra,
        sums={f"c{i}": (0.0, 1.0 + i) for i in range(sums)},
        objective=objective,
        low_threshold=low_threshold,
    )
    assert plan.delta <= plan.request.delta
    best = plan.mechanism.objective_value(objective)
    for other in plan.alternatives:
        assert best <= other.objective_value(objective) * (1 + 1e-9)
        assert other.delta(epsilon) <= plan.request.delta
    names = {mechanism.name for mechanism in (plan.mechanism, *plan.alternatives)}
    assert ("correlated-gaussian" in names) == (extra is not None)


def test_json_is_complete_and_null_where_it_does_not_apply() -> None:
    plan = dp.plan(epsilon=1, delta=1e-8, max_groups=10)
    found = json.loads(plan.to_json())
    assert set(found) >= FIELDS
    assert found["sparsity"] is None
    assert found["correlation"] is None
    assert found["delta"] <= found["target_delta"] == 1e-8
    assert found["threshold"] == found["gap"] + found["low_threshold"]
    for other in found["alternatives"]:
        assert set(other) >= FIELDS - {"alternatives"}
    known = dp.plan(epsilon=1, delta=1e-8, keys=20).to_dict()
    assert known["threshold"] is None
    assert known["delta_inf"] is None


def test_sparsity_without_public_keys_moves_every_counter() -> None:
    """Enforcing the bound subtracts the next largest count, after which one unit can move all k counters: m = k."""
    plan = dp.plan(
        epsilon=0.35, delta=1e-5, max_groups=5, sparsity=10, mechanism="correlated-gaussian", objective="gap"
    )
    assert plan.to_dict()["max_groups"] == 10
    assert plan.to_dict()["gap"] == pytest.approx(96.2, rel=3e-3)
    listed = dp.plan(epsilon=0.35, delta=1e-5, max_groups=5, keys=10, sparse=True, objective="gap")
    assert listed.to_dict()["max_groups"] == 5
    assert listed.to_dict()["gap"] == pytest.approx(90.0, rel=3e-3)


def test_choices_can_be_fixed() -> None:
    budget = {"epsilon": 0.5, "delta": 1e-6, "max_groups": 30, "sparsity": 30}
    assert dp.plan(**budget, mechanism="laplace").mechanism.name == "laplace"  # type: ignore[arg-type]
    assert dp.plan(**budget, analysis="paper-3.3").mechanism.analysis == "paper-3.3"  # type: ignore[arg-type]
    assert dp.plan(**budget, analysis="f-dp").mechanism.analysis == "f-dp"  # type: ignore[arg-type]
    fixed = dp.plan(**budget, mechanism="correlated-gaussian", correlation=0.5)  # type: ignore[arg-type]
    assert fixed.to_dict()["correlation"] == 0.5
    noisy = dp.plan(**budget, mechanism="correlated-gaussian", noise_std=100.0)  # type: ignore[arg-type]
    assert noisy.mechanism.noise_std == pytest.approx(100.0)
    both = dp.plan(**budget, mechanism="correlated-gaussian", noise_std=100.0, correlation=0.2)  # type: ignore[arg-type]
    assert both.to_dict()["gap"] >= noisy.to_dict()["gap"]
    laplace = dp.plan(**budget, mechanism="laplace", noise_std=200.0)  # type: ignore[arg-type]
    assert laplace.mechanism.noise_std == pytest.approx(200.0)
    with pytest.raises(dp.Infeasible):
        dp.plan(**budget, mechanism="laplace", noise_std=20.0)  # type: ignore[arg-type]
    with pytest.raises(dp.Infeasible):
        dp.plan(**budget, noise_std=0.5)  # type: ignore[arg-type]
    single = dp.plan(epsilon=1, delta=1e-6, sparsity=1, noise_std=20.0, mechanism="correlated-gaussian")
    assert single.to_dict()["correlation"] == 0.0


def test_more_noise_than_needed_buys_correlation() -> None:
    best = dp.plan(epsilon=0.35, delta=1e-5, sparsity=10, mechanism="correlated-gaussian", objective="gap")
    same = dp.plan(
        epsilon=0.35,
        delta=1e-5,
        sparsity=10,
        mechanism="correlated-gaussian",
        noise_std=best.mechanism.noise_std * 1.0001,
    )
    assert same.to_dict()["gap"] == pytest.approx(best.to_dict()["gap"], rel=1e-3)
    loud = dp.plan(epsilon=0.35, delta=1e-5, sparsity=500, mechanism="correlated-gaussian", noise_std=300.0)
    plain = dp.plan(
        epsilon=0.35, delta=1e-5, sparsity=500, mechanism="correlated-gaussian", noise_std=300.0, correlation=0.05
    )
    assert loud.to_dict()["gap"] < plain.to_dict()["gap"] * 0.95
    assert dp.plan(epsilon=0.35, delta=1e-5, sparsity=51914, objective="noise").mechanism.analysis == "tight"


def test_discrete_noise_keeps_counts_whole() -> None:
    plan = dp.plan(epsilon=1, delta=1e-8, max_groups=10, noise="discrete")
    assert plan.mechanism.name == "discrete-gaussian"
    assert {m.name for m in plan.alternatives} == {"laplace"}
    assert (
        dp.plan(epsilon=1, delta=1e-8, max_groups=10, noise="discrete", mechanism="sparse-gaussian").mechanism
        == plan.mechanism
    )
    sparse = dp.plan(epsilon=1, delta=1e-8, sparsity=500, noise="discrete", mechanism="correlated-gaussian")
    assert sparse.mechanism.name == "discrete-correlated-gaussian"
    assert sparse.to_dict()["sparsity"] == 500
    assert dp.plan(epsilon=1, delta=1e-8, sketch=500, noise="discrete").alternatives == ()
    fixed = dp.plan(epsilon=1, delta=1e-8, max_groups=10, noise="discrete", noise_std=30.0, mechanism="sparse-gaussian")
    assert fixed.mechanism.noise_std == 30.0
    with pytest.raises(dp.Infeasible):
        dp.plan(epsilon=1, delta=1e-8, max_groups=10, noise="discrete", noise_std=3.0)
    with pytest.raises(dp.InvalidParameter, match="use rounded noise"):
        dp.plan(epsilon=1, delta=1e-8, max_groups=10, noise="discrete", rows=3)


def test_totals_and_sketches_are_paid_for() -> None:
    plan = dp.plan(epsilon=1, delta=1e-8, max_groups=3, total=True)
    assert plan.request.total_scale is not None
    assert plan.request.mechanism_epsilon + 1 / plan.request.total_scale <= 1.0
    assert plan.delta <= 1e-8
    assert "5%" in str(plan)
    sketch = dp.plan(epsilon=1, delta=1e-8, sketch=100)
    assert sketch.mechanism.max_groups == 100
    assert "sketch" in str(sketch)
    for change in ({"max_groups": 3}, {"rows": 3}, {"mechanism": "laplace"}):
        with pytest.raises(dp.InvalidParameter, match="sketch"):
            dp.plan(epsilon=1, delta=1e-8, sketch=100, **change)


def test_huge_epsilons_are_capped_where_samplers_are_exact_enough() -> None:
    plan = dp.plan(epsilon=5000, delta=1e-8, max_groups=3)
    assert plan.request.mechanism_epsilon == 30
    assert plan.delta <= 1e-8
    with pytest.raises(dp.Infeasible, match="error of the noise sampler"):
        dp.plan(epsilon=30, delta=1e-30, max_groups=3)


def test_known_groups_are_correlated_when_that_is_quieter() -> None:
    plan = dp.plan(epsilon=1, delta=1e-8, keys=["a", "b", "c", "c"], mechanism="correlated-gaussian")
    assert isinstance(plan.mechanism, KnownGroups)
    assert plan.mechanism.groups == 3
    assert plan.mechanism.analysis == "correlated"
    one = dp.plan(epsilon=1, delta=1e-8, keys=50, max_groups=1, mechanism="sparse-gaussian")
    assert one.mechanism.analysis == "independent"
    loud = dp.plan(epsilon=1, delta=1e-8, keys=50, noise_std=99.0, correlation=0.1)
    assert loud.mechanism.noise_std == pytest.approx(99.0)
    with pytest.raises(dp.Infeasible):
        dp.plan(epsilon=1, delta=1e-8, keys=50, noise_std=1.0)


def test_aggregates_share_the_budget() -> None:
    plain = dp.plan(epsilon=1, delta=1e-8, max_groups=5, mechanism="sparse-gaussian")
    plan = dp.plan(
        epsilon=1,
        delta=1e-8,
        max_groups=5,
        mechanism="sparse-gaussian",
        sums={"likes": (0, 1)},
        means={"age": (18, 98)},
        rows=7,
        weights={"mean_age": 2},
    )
    assert plan.mechanism.noise_std == pytest.approx(plain.mechanism.noise_std * math.sqrt(5), rel=1e-6)
    likes, age, present, rows = plan.measures
    # the squared sensitivities in units of noise are in the ratio of the weights: 1 : 1 : 2 : 1
    sigma = plan.mechanism.noise_std
    assert likes.measure.sensitivity / likes.noise_std == pytest.approx(1 / sigma)
    assert (age.measure.sensitivity / age.noise_std) ** 2 == pytest.approx(0.8 * 2 / sigma**2)
    assert (present.measure.sensitivity / present.noise_std) ** 2 == pytest.approx(0.2 * 2 / sigma**2)
    assert rows.measure.sensitivity == 3.5
    assert likes.measure.sensitivity == 0.5
    assert age.measure.centre == 58
    assert [a.name for a in plan.request.aggregates] == ["sum_likes", "mean_age", "rows"]
    spent = sum((noisy.measure.sensitivity / noisy.noise_std) ** 2 for noisy in plan.measures)
    assert spent <= plan.mechanism.sums_sensitivity**2 * (1 + 1e-12)


def test_laplace_aggregates_spend_epsilon() -> None:
    plan = dp.plan(epsilon=1, delta=1e-8, max_groups=1, sums={"x": (-3, 5)}, mechanism="laplace")
    (noisy,) = plan.measures
    scale = noisy.noise_std / math.sqrt(2)
    spent = 1 * (1 / plan.mechanism.scale + noisy.measure.sensitivity / scale)  # type: ignore[attr-defined]
    assert spent == pytest.approx(1.0)
    assert spent <= 1.0


def test_quantised_values_never_exceed_the_sensitivity() -> None:
    for lower, upper in [(0, 1), (-1e-9, 3e-9), (0.1, 0.30000000000000004), (-1e6, 7), (5, 6)]:
        aggregate = SumOfUnit("x", lower, upper)
        assert math.log2(aggregate.step).is_integer()
        assert aggregate.sensitivity_steps * aggregate.step >= (upper - lower) / 2
        assert aggregate.sensitivity_steps <= 2**20 + 1


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"epsilon": 0}, "finite epsilon > 0"),
        ({"epsilon": math.inf}, "finite epsilon > 0"),
        ({"epsilon": math.nan}, "finite epsilon > 0"),
        ({"delta": 0}, r"delta in \(0, 1\), got 0. Hint: unknown groups need delta > 0; try 1e-8"),
        ({"delta": 1}, r"delta in \(0, 1\)"),
        ({"max_groups": 0}, "max_groups of at least 1"),
        ({"max_groups": 2.5}, "whole number"),
        ({"max_groups": None, "mechanism": "laplace"}, "a bound on how many groups"),
        ({"max_groups": None, "noise_std": 3.0}, "a bound on how many groups one unit may be in, with noise_std"),
        ({"max_groups": None, "low_threshold": 3, "mechanism": "adaptive"}, "with low_threshold"),
        ({"mechanism": "adaptive"}, "no bound on groups with adaptive"),
        ({"max_groups": "auto"}, "max_groups to be a whole number"),
        ({"emphasis": "counts"}, "an emphasis only without a bound on groups"),
        ({"max_groups": None, "emphasis": "speed"}, "emphasis to be one of"),
        ({"sparsity": 5}, "sparsity of at least max_groups = 10"),
        ({"keys": 5}, "number of keys of at least max_groups = 10"),
        ({"keys": 50, "sparsity": 50}, "sparsity or keys"),
        ({"sparse": True}, "keys together with --sparse"),
        ({"mechanism": "correlated-gaussian"}, "a sparsity bound"),
        ({"mechanism": "magic"}, "mechanism to be one of"),
        ({"objective": "fun"}, "objective to be one of"),
        ({"analysis": "guess"}, "analysis to be one of"),
        ({"analysis": "tight", "mechanism": "laplace"}, "an analysis of laplace"),
        ({"analysis": "tight"}, "a mechanism for this request"),
        ({"noise_std": -1}, "finite noise_std > 0"),
        ({"correlation": -1}, "finite correlation >= 0"),
        ({"low_threshold": 0}, "low_threshold of at least 1"),
        ({"sums": {"x": (1, 1)}}, "lower < upper"),
        ({"sums": {"x": (0, math.inf)}}, "lower < upper"),
        ({"sums": {"x": (0, 1e300)}}, "ordinary size"),
        ({"sums": {"x": (0, 1)}, "weights": {"sum_x": 0}}, "weight of sum_x"),
        ({"weights": {"sum_y": 1}}, "weights for aggregates of the plan"),
        ({"sums": {str(i): (0, 1) for i in range(17)}}, "at most 16 sums"),
    ],
)
def test_bad_input_is_named(change: dict[str, object], message: str) -> None:
    with pytest.raises(dp.InvalidParameter, match=message):
        dp.plan(**{"epsilon": 1.0, "delta": 1e-8, "max_groups": 10, **change})  # type: ignore[arg-type]


def test_aggregates_are_checked_one_by_one() -> None:
    with pytest.raises(dp.InvalidParameter, match="a column for sums"):
        SumOfUnit(None, 0, 1)
    twice = (Sum("x", 0, 1), Sum("x", 0, 2))
    with pytest.raises(dp.InvalidParameter, match="different names"):
        dp.planning.Request(epsilon=1, delta=1e-8, max_groups=1, aggregates=twice)


REQUESTS = [
    {"max_groups": 10, "sums": {"likes": (0, 1)}},
    {"max_groups": 3, "mechanism": "laplace", "means": {"age": (0, 99)}},
    {"sparsity": 40},
    {"sketch": 40, "total": True},
    {"max_groups": 4, "noise": "discrete"},
    {"sparsity": 40, "noise": "discrete", "mechanism": "correlated-gaussian"},
    {"keys": 40, "max_groups": 4},
    {"keys": 40, "max_groups": 4, "sparse": True, "mechanism": "correlated-gaussian", "rows": 3},
]


@pytest.mark.parametrize("request_", REQUESTS)
def test_saved_plans_come_back_bit_for_bit(tmp_path: Path, request_: dict[str, object]) -> None:
    plan = dp.plan(epsilon=1, delta=1e-8, **request_)  # type: ignore[arg-type]
    plan.save(tmp_path / "plan.json")
    assert dp.Plan.load(tmp_path / "plan.json") == plan


@pytest.mark.parametrize(
    ("where", "value"),
    [
        (("mechanism", "noise_std"), 15.0),
        (("mechanism", "threshold"), 60.0),
        (("mechanism", "max_groups"), 9),
        (("mechanism", "sums_sensitivity"), 0.0),
        (("request", "epsilon"), 0.9),
        (("request", "delta"), 1e-9),
        (("request", "max_groups"), 11),
        (("request", "keys"), 20),
        (("request", "mechanism"), "magic"),
        (("request", "low_threshold"), 1000),
        (("request", "epsilon"), 10**400),
        (("alternatives", 0, "noise_std"), 0.001),
        (("mechanism", "name"), "magic"),
        (("mechanism", "noise_std"), "much"),
        (("version",), 99),
        (("format",), "plan"),
        (("request",), None),
    ],
)
def test_a_plan_that_was_changed_is_refused(tmp_path: Path, where: tuple[Any, ...], value: object) -> None:
    path = tmp_path / "plan.json"
    dp.plan(epsilon=1, delta=1e-8, max_groups=10, sums={"likes": (0, 1)}).save(path)
    data = json.loads(path.read_text())
    inner = data
    for key in where[:-1]:
        inner = inner[key]
    inner[where[-1]] = value
    path.write_text(json.dumps(data))
    with pytest.raises(dp.InvalidPlan, match=r"^Expected "):
        dp.Plan.load(path)


@pytest.mark.parametrize(
    ("request_", "where", "value"),
    [
        ({"sparsity": 40}, ("mechanism", "sparsity"), 39),
        ({"sparsity": 40}, ("mechanism", "max_groups"), 10),
        ({"keys": 40, "max_groups": 4}, ("mechanism", "groups"), 41),
        ({"keys": 40, "max_groups": 4}, ("request", "sparse"), True),
        ({"max_groups": 4, "mechanism": "laplace", "rows": 2}, ("mechanism", "sums_epsilon"), 0.0),
        ({"max_groups": 4, "mechanism": "laplace"}, ("mechanism", "scale"), 3.0),
        ({"max_groups": 4, "noise": "discrete"}, ("mechanism", "noise_std"), 3.0),
        ({"sparsity": 40, "noise": "discrete"}, ("mechanism", "variance"), "100"),
    ],
)
def test_other_mechanisms_are_checked_too(
    tmp_path: Path, request_: dict[str, object], where: tuple[str, str], value: object
) -> None:
    path = tmp_path / "plan.json"
    dp.plan(epsilon=1, delta=1e-8, **request_).save(path)  # type: ignore[arg-type]
    data = json.loads(path.read_text())
    data[where[0]][where[1]] = value
    path.write_text(json.dumps(data))
    with pytest.raises(dp.InvalidPlan):
        dp.Plan.load(path)


@pytest.mark.parametrize("branch", range(4), ids=["rounds", "rounds of 100", "blind", "after a look"])
def test_every_branch_of_a_default_plan_is_checked(branch: int) -> None:
    """A release may run any of them. What cannot be checked, or would be drawn by another law, is refused like a deficit."""
    plan = dp.plan(epsilon=1, delta=1e-8, sums={"likes": (0, 1)})
    stored = json.dumps(storage.to_data(plan.request, plan.mechanism, plan.alternatives))

    def refusal(change: Callable[[dict[str, Any]], object]) -> str:
        data = json.loads(stored)
        branches = [data["mechanism"], *data["alternatives"]]
        change(branches[branch])
        with pytest.raises(dp.InvalidPlan) as refused:
            storage.from_data(data, "a test")
        return str(refused.value)

    mechanism = plan.branches[branch]
    assert mechanism.counts is not None
    other = {"gaussian": "laplace", "laplace": "gaussian"}[mechanism.counts.law]
    assert "noise on counts after" in refusal(lambda stored: stored["counts"].update(law=other))
    assert "counts are published where keys alone" in refusal(lambda stored: stored.update(counts=None))
    if other == "gaussian":
        beyond_doubles = 1e-320  # one over it is no double
        assert "= 1 exceeds" in refusal(lambda stored: stored["counts"].update(histogram_noise=beyond_doubles))
    assert "exceeds" in refusal(
        lambda stored: stored["counts"].update(unit_noise=0.999 * stored["counts"]["unit_noise"])
    )
    assert "not paid for" in refusal(lambda stored: stored["counts"].update(sums_sensitivity=0.0))
    assert "cannot be drawn" in refusal(lambda stored: stored["counts"].update(scaled_share=1 - 2**-53))


def made_for(**options: Any) -> GroupMechanism:
    """The mechanism of a plan with more delta than the request that it is then offered to."""
    return dp.plan(**{"epsilon": 1.0, "delta": 1e-9, **options}).mechanism


ROWS = (Rows(None, 0.0, 3.0),)
MISFITS: dict[str, tuple[dict[str, Any], Callable[[], GroupMechanism], str]] = {
    "no threshold": ({"keys": 20, "sparse": True}, lambda: made_for(keys=20), "a threshold is missing"),
    "another threshold": (
        {"keys": 20}, lambda: made_for(keys=20, sparse=True, mechanism="sparse-gaussian"), "does not ask for",
    ),
    "fewer groups": ({"max_groups": 9}, lambda: made_for(max_groups=8), "max_groups differs"),
    "more groups": ({"max_groups": 7}, lambda: made_for(max_groups=8), "max_groups differs"),
    "another sparsity": (
        {"sparsity": 30}, lambda: made_for(sparsity=40, mechanism="correlated-gaussian"), "sparsity bound differs",
    ),
    "another list": (
        {"keys": 30, "sparse": True},
        lambda: made_for(keys=40, sparse=True, mechanism="correlated-gaussian"),
        "number of public keys differs",
    ),
    "another list, dense": ({"keys": 30}, lambda: made_for(keys=40), "number of public keys differs"),
    "low threshold": ({"max_groups": 8, "low_threshold": 5}, lambda: made_for(max_groups=8), "low_threshold differs"),
    "bounded": ({"mechanism": "adaptive"}, lambda: made_for(max_groups=300, mechanism="laplace"), "not bounded"),
    "in rounds": ({"max_groups": 300}, lambda: made_for(mechanism="adaptive"), "are where they need not be"),
    "aggregates": ({"max_groups": 8, "aggregates": ROWS}, lambda: made_for(max_groups=8), "aggregates are not paid for"),
    "discrete": (
        {"max_groups": 8, "aggregates": ROWS}, lambda: made_for(max_groups=8, noise="discrete"), "aggregates are not paid for",
    ),
    "halves": (
        {"sparsity": 8, "aggregates": ROWS},
        lambda: made_for(sparsity=8, noise="discrete", mechanism="correlated-gaussian"),
        "aggregates are not paid for",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", MISFITS)
def test_a_mechanism_for_another_request_is_refused(name: str) -> None:
    """Each reason by itself: the budget is met in every one of these."""
    asked, build, reason = MISFITS[name]
    request, mechanism = Request(**{"epsilon": 1.0, "delta": 1e-6, **asked}), build()
    assert mechanism.delta(request.mechanism_epsilon) <= request.delta
    assert any(reason in problem for problem in mechanism.misfits(request))
    with pytest.raises(dp.InvalidPlan, match=reason):
        storage.check(request, mechanism, "a test")


def test_unreadable_plans(tmp_path: Path) -> None:
    with pytest.raises(dp.InvalidPlan, match="unreadable"):
        dp.Plan.load(tmp_path / "missing.json")
    (tmp_path / "text.json").write_text("plan")
    with pytest.raises(dp.InvalidPlan, match="unreadable"):
        dp.Plan.load(tmp_path / "text.json")


def test_a_plan_prints_what_it_promises() -> None:
    text = str(dp.plan(epsilon=1, delta=1e-8, max_groups=10, low_threshold=5, sums={"likes": (0, 1)}))
    for words in (
        "sparse-gaussian (exact)",
        "Theorem 5.4",
        "at most 10 groups",
        "95 %",
        "add-the-deltas",
        "sum_likes",
        "fewer than 5",
    ):
        assert words in text
    assert max(len(line) for line in text.splitlines()) <= 100
    assert "as asked" in str(dp.plan(epsilon=1, delta=1e-8, max_groups=10, mechanism="laplace"))
    assert "times" in str(dp.plan(epsilon=0.35, delta=1e-5, max_groups=5000))
    assert "common to all groups" in str(dp.plan(epsilon=1, delta=1e-8, sparsity=1000))
    assert "public" in str(dp.plan(epsilon=1, delta=1e-8, keys=30))


def test_a_pure_epsilon_is_compared_exactly(tmp_path: Path) -> None:
    """What is missing from a pure epsilon is added to delta: a slack of 1e-12 would be 200 times this delta."""
    path = tmp_path / "plan.json"
    dp.plan(epsilon=1, delta=1e-15, max_groups=1, sums={"a": (0, 1)}, mechanism="laplace").save(path)
    data = json.loads(path.read_text())
    scale = data["mechanism"]["scale"] * (1 - 0.49e-12)
    data["mechanism"] |= {"scale": scale, "sums_epsilon": (1 - 0.999e-12) / scale}
    path.write_text(json.dumps(data))
    with pytest.raises(dp.InvalidPlan, match="not paid for"):
        dp.Plan.load(path)
