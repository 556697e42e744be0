"""The order of groups inside a run is a function of their keys alone: an order that came from the rows would be data."""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

import dphist as dp
from dphist.engines.query import GroupByQuery, Key, PerformanceSettings
from dphist.mechanisms.tuning import Tuning
from dphist.mechanisms.voting import Voting
from duckdb_pairs import open_pairs

GROUPS = [f"group {i * 7919 % 1000:04d}" for i in range(400)]


def events(first: list[str]) -> pa.Table:
    """`first` is what one more unit did, at the top of the file; then 60 units in all groups."""
    rows = [("zoe", key) for key in first] + [(f"u{n}", key) for n in range(60) for key in GROUPS]
    return pa.table({"who": [row[0] for row in rows], "what": [row[1] for row in rows]})


def order_of_groups(table: pa.Table) -> list[str]:
    query = GroupByQuery("who", (Key("what"),))
    with open_pairs(table, query, PerformanceSettings(), seed=1) as pairs:
        coded = pairs.sampled(300)
        return list(pairs.keys_of(np.arange(coded.groups)).column("what").to_pylist())


def test_codes_follow_the_keys_whoever_comes_first() -> None:
    plain = order_of_groups(events([]))
    assert plain == sorted(GROUPS)
    assert order_of_groups(events(GROUPS[::-1][:50])) == plain
    shuffled = events([]).take(pa.array(np.random.default_rng(2).permutation(60 * len(GROUPS))))
    assert order_of_groups(shuffled) == plain
    newcomer = order_of_groups(events(["a new one", *GROUPS[::-1][:50]]))
    assert [key for key in newcomer if key in set(GROUPS)] == plain


def test_the_whole_budget_is_stated_where_the_data_chooses() -> None:
    """Each branch has its own delta; what is promised before the choice is the largest."""
    for plan in (dp.plan(epsilon=4, delta=1e-6, emphasis="counts"), dp.plan(epsilon=1, delta=1e-8)):
        assert plan.delta == plan.request.delta
        for branch in (plan.mechanism, *plan.alternatives):
            assert plan.decided(branch).delta >= branch.delta(plan.request.mechanism_epsilon)
    assert "plus delta = 1e-06" in str(dp.plan(epsilon=4, delta=1e-6))


def test_every_branch_of_a_plan_is_checked() -> None:
    plan = dp.plan(epsilon=1, delta=1e-8)
    branches = [m for m in plan.alternatives if isinstance(m, Voting)]
    assert branches
    weak = dp.Plan(plan.request, plan.mechanism, tuple(replace(m, vote_epsilon=2.0) for m in branches))
    with pytest.raises(dp.InvalidPlan):
        dp.release(events([]), unit="who", by="what", plan=weak)


@pytest.mark.parametrize("change", [{"reserve": float("nan")}, {"round_shares": (4.0, 4, 4, 4)}])
def test_constants_are_numbers_of_the_right_kind(change: dict[str, object]) -> None:
    with pytest.raises(dp.InvalidParameter):
        replace(Tuning(), **change)  # type: ignore[arg-type]
