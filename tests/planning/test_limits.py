"""Numbers at the edges: one clear error of ours or an answer, before anything is charged; and what a large budget means."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import dphist as dp
from dphist.errors import DphistError
from dphist.planning.statistics import plan_statistic
from dphist.words import bounded_change

BUDGET: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-8, "max_groups": 3}
TINY = (5e-324, 1e-308, 2.2250738585072014e-308, 1e-300, 1e-100, 1e-30, 9.9e-10)
HUGE = (1e308, math.nextafter(math.inf, 0), 1e300, 1e100, 2e9)
OTHERS: tuple[dict[str, Any], ...] = (
    {},
    {"max_groups": None},
    {"max_groups": None, "keys_only": True},
    {"total": True, "sums": {"n": (0, 1)}},
    {"max_groups": None, "sparsity": 10},
    {"max_groups": None, "keys": 5},
    {"max_groups": None, "sketch": 5},
)
BEGINNINGS: dict[str, Callable[..., object]] = {
    "top-k": lambda **budget: dp.plan_top_k(k=2, **budget),
    "ranked": lambda **budget: dp.plan_top_k(k=2, method="ranked", **budget),
    "stat": lambda **budget: plan_statistic("max", lower=0, upper=9, error=1, **budget),
    "session": lambda **budget: dp.Session.start("no/where", unit="u", results=2, queries=2, **budget),
    "stream": lambda **budget: dp.Continual.start("no/where", unit="u", by="k", rounds=2, max_groups=1, **budget),
}


@pytest.mark.parametrize("change", OTHERS, ids=str)
@pytest.mark.parametrize("epsilon", TINY)
def test_an_epsilon_that_no_noise_can_meet_is_refused(epsilon: float, change: dict[str, Any]) -> None:
    with pytest.raises(dp.Infeasible, match=rf"epsilon of at least 1e-09, got {re.escape(str(epsilon))}"):
        dp.plan(**{**BUDGET, **change, "epsilon": epsilon})


@pytest.mark.parametrize("change", OTHERS, ids=str)
def test_a_delta_below_every_sampler_is_refused(change: dict[str, Any]) -> None:
    for delta in (5e-324, 1e-308, 1e-101):
        with pytest.raises(dp.Infeasible, match="delta of at least 1e-100"):
            dp.plan(**{**BUDGET, **change, "delta": delta})


@pytest.mark.parametrize("name", BEGINNINGS)
def test_every_beginning_has_the_same_limits(name: str) -> None:
    for budget in ({"epsilon": 1e-308, "delta": 1e-8}, {"epsilon": 1.0, "delta": 1e-308}):
        with pytest.raises(dp.Infeasible, match="of at least 1e-"):
            BEGINNINGS[name](**budget)


@pytest.mark.parametrize("change", OTHERS[:4], ids=str)
def test_an_epsilon_without_end_has_a_plan(change: dict[str, Any]) -> None:
    for epsilon in (31.0, 1e308):
        assert dp.plan(**{**BUDGET, **change, "epsilon": epsilon}).epsilon == epsilon


@pytest.mark.parametrize("value", [*TINY, *HUGE])
@pytest.mark.parametrize("name", ["noise_std", "correlation", "weight"])
def test_fixed_noise_and_weights_stay_where_doubles_can_follow(name: str, value: float) -> None:
    change: dict[str, Any] = {name: value}
    if name == "weight":
        change = {"sums": {"n": (0, 1), "m": (0, 1)}, "weights": {"sum_n": value}}
    elif name == "correlation":
        change = {"sparsity": 10, "max_groups": None, "correlation": value}
    with pytest.raises(dp.InvalidParameter, match=f"{'weight of sum_n' if name == 'weight' else name} from .* to"):
        dp.plan(**{**BUDGET, **change})


@given(
    name=st.sampled_from(["noise_std", "correlation", "rows", "sums", "means", "weights", "low_threshold"]),
    value=st.one_of(
        st.floats(), st.integers(-(2**70), 2**70), st.sampled_from([10**400, -(10**5000), True, "1", None])
    ),
)
def test_any_number_anywhere_gives_a_plan_or_one_error_of_ours(name: str, value: Any) -> None:
    change: dict[str, Any] = {name: value}
    if name in ("sums", "means"):
        change = {name: {"n": (0, value)}}
    elif name == "weights":
        change = {"sums": {"n": (0, 1)}, "weights": {"sum_n": value}}
    try:
        dp.plan(**{**BUDGET, "mechanism": "laplace", **change})
    except DphistError as problem:
        assert len(str(problem)) < 1_500  # noqa: PT017
        assert str(problem).startswith("Expected ")  # noqa: PT017


@pytest.mark.parametrize("name", ["max_groups", "sparsity", "keys", "sketch", "rows", "low_threshold", "keep_above"])
def test_whole_numbers_end_at_a_public_limit(name: str) -> None:
    bound: dict[str, Any] = {} if name in ("sparsity", "keys", "sketch") else {"max_groups": 3}
    for value in (2**63, 2**64, 10**400, 10**5000, 2**40 + 1, 0, -1):
        with pytest.raises(dp.InvalidParameter, match=f"{name} of at (most 2\\^40|least 1), got"):
            dp.plan(epsilon=1.0, delta=1e-8, **{**bound, name: value})


def test_a_large_budget_says_once_what_it_means() -> None:
    """The same sentence in plans, tables, answers, sessions and streams: it is a part of the guarantee."""
    certain, told = "may become 99.9973 % certain of it", r"up to 0\.0\d+ everything about a person may be told"
    large: dict[str, Any] = {"epsilon": 10.5, "delta": 0.02}
    plans = (
        dp.plan(**large, max_groups=3),
        dp.plan(**large),
        dp.plan(**large, keys_only=True),
        BEGINNINGS["ranked"](**large),
    )
    for described in plans:
        text = " ".join(str(described).split())
        assert text.count(certain) == len(re.findall(told, text)) == 1
    small = str(dp.plan(epsilon=10, delta=1e-3, max_groups=3))
    assert "CAUTION" not in small
    assert plan_statistic("max", lower=0, upper=9, error=1, epsilon=10.5).privacy().count(certain) == 1


@given(epsilon=st.floats(1e-9, 1e308), delta=st.floats(1e-100, 0.999))
def test_cautions_are_never_below_the_truth(epsilon: float, delta: float) -> None:
    text = bounded_change("x", epsilon, delta, delta, "[T]")
    assert ("epsilon above" in text) == (epsilon > 10)
    assert ("delta above" in text) == (delta > 1e-3)
    if found := re.search(r"become ([\d.]+) % certain", text):
        assert 100 / (1 + math.exp(-epsilon)) <= float(found[1]) < 100
    if found := re.search(r"up to ([\d.e-]+) everything", text):
        assert delta <= float(found[1])
