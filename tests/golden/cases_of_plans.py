"""Plans: the mechanisms chosen, their parameters and guarantees, and the words about them."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from harness import error

import dphist as dp

REQUESTS: dict[str, dict[str, Any]] = {
    "adaptive": {},
    "adaptive-given": {"mechanism": "adaptive"},
    "adaptive-sums": {"mechanism": "adaptive", "sums": {"likes": (0, 1)}, "means": {"spent": (-2, 18)}, "rows": 3},
    "adaptive-total": {"total": True, "epsilon": 0.3},
    "voting": {"mechanism": "voting"},
    "voting-sums": {"mechanism": "voting", "sums": {"likes": (0, 1)}, "total": True},
    "emphasis": {"emphasis": "counts"},
    "one-group": {"max_groups": 1},
    "ten-groups": {"max_groups": 10, "delta": 1e-8},
    "thousand-groups": {"max_groups": 1000, "epsilon": 0.1, "delta": 1e-10},
    "large-epsilon": {"max_groups": 5, "epsilon": 12.0},
    "f-dp": {"max_groups": 10, "analysis": "f-dp"},
    "add-the-deltas": {"max_groups": 10, "analysis": "add-the-deltas"},
    "exact": {"max_groups": 3, "analysis": "exact", "low_threshold": 20},
    "sparse-gaussian": {"max_groups": 2, "mechanism": "sparse-gaussian"},
    "laplace": {"max_groups": 2, "mechanism": "laplace"},
    "laplace-sums": {"max_groups": 2, "mechanism": "laplace", "sums": {"spent": (-2, 18)}, "rows": 4},
    "laplace-low-threshold": {"max_groups": 4, "mechanism": "laplace", "low_threshold": 7},
    "objective-gap": {"max_groups": 8, "objective": "gap"},
    "objective-noise": {"max_groups": 8, "objective": "noise"},
    "noise-std": {"max_groups": 10, "noise_std": 20.0},
    "several-sums": {
        "max_groups": 4,
        "sums": {"likes": (0, 1), "spent": (-2, 18)},
        "means": {"spent": (0, 10)},
        "rows": 5,
        "weights": {"sum_likes": 0.25, "rows": 2.0},
        "total": True,
    },
    "sparsity": {"sparsity": 100},
    "sparsity-tight": {"sparsity": 100, "analysis": "tight"},
    "sparsity-paper-3.5": {"sparsity": 100, "analysis": "paper-3.5"},
    "sparsity-paper-3.3": {"sparsity": 100, "analysis": "paper-3.3"},
    "sparsity-correlation": {"sparsity": 100, "mechanism": "correlated-gaussian", "correlation": 0.3},
    "sparsity-max-groups": {"sparsity": 60, "max_groups": 4},
    "sparsity-sums": {"sparsity": 60, "sums": {"likes": (0, 1)}, "objective": "gap"},
    "keys": {"keys": 12},
    "keys-max-groups": {"keys": ["a", "b", "c", "c"], "max_groups": 2, "rows": 3},
    "keys-sums": {"keys": 12, "sums": {"likes": (0, 1)}, "total": True},
    "keys-sparse": {"keys": 500, "sparse": True},
    "keys-sparse-max-groups": {"keys": 500, "sparse": True, "max_groups": 3},
    "sketch": {"sketch": 50},
    "discrete": {"max_groups": 3, "noise": "discrete"},
    "discrete-gaussian": {"max_groups": 20, "noise": "discrete", "mechanism": "sparse-gaussian"},
    "discrete-correlated": {"sparsity": 30, "noise": "discrete"},
}
SAVED = ("adaptive", "several-sums", "sparsity-sums", "keys-sums")


def plan_of(**options: Any) -> dp.Plan:
    """A plan at the usual budget, unless another is given."""
    return dp.plan(**{"epsilon": 1.0, "delta": 1e-6, **options})


def _plan(name: str) -> dict[str, Any]:
    plan = plan_of(**REQUESTS[name])
    data = plan.to_dict()
    if name not in SAVED:  # the text has them, rounded
        data["alternatives"] = len(data["alternatives"])
    found: dict[str, Any] = {
        "text": str(plan).splitlines(),
        "data": data,
        "mechanism": {"type": type(plan.mechanism).__name__, **plan.mechanism.parameters()},
        "deltas": {epsilon: plan.mechanism.delta(epsilon) for epsilon in (0.25, 1.0, 2.0)},
        "epsilon at half of it more": dp.epsilon_at(plan.mechanism, 1.5 * plan.request.delta),
        "values": plan.value_names,
        "aggregates": [aggregate.to_data() for aggregate in plan.request.aggregates],
        "measures": {noisy.name: noisy.noise_std for noisy in plan.measures},
    }
    if name in SAVED:
        plan.save("plan.json")
        found["saved"] = json.loads(Path("plan.json").read_text(encoding="utf-8"))
        assert dp.Plan.load("plan.json") == plan
    return found


def _top_k_plans() -> dict[str, Any]:
    requests: list[dict[str, Any]] = [
        {"method": "correlated"},
        {"method": "from-top"},
        {"method": "from-top", "max_groups": 3},
        {"method": "ranked"},
        {"method": "ranked", "shortlist": 25},
    ]
    found = {}
    for options in requests:
        plan = dp.plan_top_k(k=5, epsilon=1.0, delta=1e-6, **options)
        found[" ".join(map(str, options.values()))] = {
            "text": str(plan).splitlines(),
            "mechanism": plan.mechanism.parameters(),
            "needed": plan.needed,
            "guarantee": plan.guarantee,
            "deltas": {epsilon: plan.mechanism.delta(epsilon) for epsilon in (0.25, 1.0, 2.0)},
        }
    return found


def _made_by_hand() -> dict[str, Any]:
    """Mechanisms that anybody may make from the public names."""
    made: list[Any] = [
        dp.SparseGaussian(max_groups=10, noise_std=16.0, threshold=98.0),
        dp.SparseGaussian(max_groups=10, noise_std=16.0, threshold=98.0, low_threshold=5),
        dp.LaplaceThreshold(3, 3.5, 60.0, 1),
        dp.CorrelatedGaussian(50, 5, 12.0, 0.25, 80.0),
        dp.KnownGroups(3, 2, 4.0, 0.5),
    ]
    deltas = [[mechanism.delta(epsilon) for epsilon in (0.1, 0.5, 1.0, 3.0)] for mechanism in made]
    return {f"{type(m).__name__} {i}": {**asdict(m), "deltas": deltas[i]} for i, m in enumerate(made)}


def _wrong_plans() -> dict[str, str]:
    wrong: list[dict[str, Any]] = [
        {"epsilon": 0},
        {"epsilon": -1.0},
        {"epsilon": float("nan")},
        {"delta": 0},
        {"delta": 1.5},
        {"max_groups": 0},
        {"max_groups": 2.5},
        {"max_groups": 10, "sparsity": 5},
        {"sparsity": 5, "keys": 3},
        {"sparse": True},
        {"sketch": 10, "max_groups": 3},
        {"sketch": 10, "sums": {"a": (0, 1)}},
        {"sketch": 10, "mechanism": "laplace"},
        {"mechanism": "laplace"},
        {"mechanism": "best of all", "max_groups": 1},
        {"mechanism": "adaptive", "max_groups": 1},
        {"mechanism": "correlated-gaussian", "max_groups": 1},
        {"analysis": "exact"},
        {"analysis": "exactly", "max_groups": 1},
        {"analysis": "exact", "mechanism": "laplace", "max_groups": 1},
        {"objective": "beauty", "max_groups": 1},
        {"noise": "discrete", "sums": {"a": (0, 1)}, "max_groups": 1},
        {"noise_std": 1.0, "max_groups": 10},
        {"noise_std": -1.0, "max_groups": 10},
        {"sums": {"a": (1, 0)}, "max_groups": 1},
        {"sums": {"a": (0, 1)}, "weights": {"a": 2.0}, "max_groups": 1},
        {"weights": {"sum_a": -1.0}, "sums": {"a": (0, 1)}, "max_groups": 1},
        {"sums": {f"a{i}": (0, 1) for i in range(17)}, "max_groups": 1},
        {"low_threshold": 0, "max_groups": 1},
        {"low_threshold": 3, "mechanism": "adaptive"},
        {"max_groups": "auto", "keys": 3},
    ]
    return {json.dumps(options): error(partial(plan_of, **options)) for options in wrong}


def _wrong_top_k_plans() -> dict[str, str]:
    wrong: list[dict[str, Any]] = [
        {"k": 0},
        {"method": "best"},
        {"max_groups": 3},
        {"shortlist": 30},
        {"method": "ranked", "shortlist": 2},
        {"neighbours": "replace"},
    ]
    usual = {"k": 5, "epsilon": 1.0, "delta": 1e-6}
    return {json.dumps(options): error(partial(dp.plan_top_k, **{**usual, **options})) for options in wrong}


def _damaged_plans() -> dict[str, str]:
    """Plans that were changed after they were saved."""
    plan_of(max_groups=3, sums={"likes": (0, 1)}).save("plan.json")
    text = Path("plan.json").read_text(encoding="utf-8")
    data = json.loads(text)
    found = {"overwrite": error(lambda: plan_of(max_groups=3).save("plan.json"))}
    changes: dict[str, str] = {
        "not JSON": text[:-20],
        "another format": json.dumps({**data, "format": "something"}),
        "no request": json.dumps({k: v for k, v in data.items() if k != "request"}),
        "smaller noise": json.dumps({**data, "mechanism": {**data["mechanism"], "noise_std": 0.5}}),
        "smaller epsilon": json.dumps({**data, "request": {**data["request"], "epsilon": 0.1}}),
        "an unknown field": json.dumps({**data, "request": {**data["request"], "hidden": 1}}),
    }
    for name, changed in changes.items():
        Path("changed.json").write_text(changed, encoding="utf-8")
        found[name] = error(lambda: dp.Plan.load("changed.json"))
    return found


PLANS: dict[str, Callable[[], Any]] = {
    **{f"plan-{name}": partial(_plan, name) for name in REQUESTS},
    "plan-of-top-k": _top_k_plans,
    "mechanisms-by-hand": _made_by_hand,
    "errors-of-plans": _wrong_plans,
    "errors-of-top-k-plans": _wrong_top_k_plans,
    "errors-of-stored-plans": _damaged_plans,
}
