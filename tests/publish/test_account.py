"""What was done is said: which selection ran, what a count means, what was spent on what."""

from html import escape
from typing import Any

import pyarrow as pa
import pytest

import dphist as dp
from dphist.planning import Plan
from dphist.run.strategies import strategy_of

SMALL: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-6}
LIMITED = (
    "units with each unit in at most 10 of its groups: units in more are missing from some of them, one in 20 groups from"
    " half"
)


def ways(**options: Any) -> list[Plan]:
    """The plan as each of its branches would have it run."""
    plan = dp.plan(**{**SMALL, **options})
    return [plan.decided(mechanism) for mechanism in plan.branches] if plan.request.choice_epsilon else [plan]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (
            {},
            [
                "Selected in 4 rounds (samples of at most 300 groups a unit): 72 % of the squared Gaussian budget; counted all"
                " units in each group: 28 %; before that 2 % of epsilon for the choice of the way.",
                "Selected in 4 rounds (samples of at most 100 groups a unit): 72 % of the squared Gaussian budget; counted all"
                " units in each group: 28 %; before that 2 % of epsilon for the choice of the way.",
                "Selected by an election (blind): 73 % of epsilon; counted all units in each group: 25 %; choice of the way:"
                " 2 %.",
                "Selected by an election (after a look): 73 % of epsilon; counted all units in each group: 25 %; choice of the"
                " way: 2 %.",
            ],
        ),
        (
            {"mechanism": "voting", "sums": {"likes": (0, 1)}, "total": True},
            [
                "Selected by an election (blind): 63 % of epsilon; counted all units in each group: 19 %; sum_likes: 13 %;"
                " total of units: 5 %."
            ],
        ),
        (
            {"keys_only": True, "mechanism": "voting"},
            ["Selected by an election (blind): 100 % of epsilon; nothing was counted."],
        ),
        (
            {"max_groups": 10, "noise_std": 20.0, "total": True},
            [
                "Selected by noisy counts above 105; counts: 100 % of the squared Gaussian budget; before that 5 % of epsilon"
                f" for the total of units. A count is of {LIMITED}."
            ],
        ),
        (
            {"keys": 1},
            ["One group, which is public; counts: 100 % of epsilon. A count is of all units."],
        ),
        (
            {"keys": 3, "means": {"age": (0, 100)}, "mechanism": "sparse-gaussian"},
            [
                "Keys are a public list; counts: 50 % of the squared Gaussian budget; mean_age: 50 %. A count is of all units"
                " in the group."
            ],
        ),
    ],
)
def test_one_line_says_what_was_done(options: dict[str, Any], words: list[str]) -> None:
    assert [strategy_of(plan).what_was_done for plan in ways(**options)] == words


def test_shares_of_epsilon_add_up_to_what_was_spent() -> None:
    """Of an election with everything: the numbers of its own budget, and what was paid before."""
    (plan,) = ways(mechanism="voting", sums={"likes": (0, 1)}, total=True)
    split = plan.mechanism.budget_split()
    assert split is not None
    request = plan.request
    assert sum(split.values()) * request.mechanism_epsilon + 0.05 == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"sketch": 9}, "A count is of units in a sketch of the data, which has no more of them than the data."),
        ({"sparsity": 9}, "A count is of all units in the group, if no more than 9 groups are not empty."),
        ({"max_groups": 1}, "A count is of units with each unit in one of its groups"),
        ({"max_groups": 10, "mechanism": "laplace", "rows": 3}, "counts: 50 % of epsilon; rows: 50 %."),
    ],
)
def test_it_says_what_a_count_means(options: dict[str, Any], words: str) -> None:
    (plan,) = ways(**options)
    assert words in strategy_of(plan).what_was_done


def test_bounded_counts_say_so() -> None:
    """From public numbers alone; nothing where every group of a unit is counted."""
    assert strategy_of(dp.plan(max_groups=10, **SMALL)).left_out == f"A count is of {LIMITED}."
    assert "units with each unit in one of its groups" in strategy_of(dp.plan(max_groups=1, **SMALL)).estimand
    assert strategy_of(dp.plan(keys=3, max_groups=2, **SMALL)).left_out
    for whole in ({"keys": 3}, {"keys": 3, "max_groups": 3}, {"sparsity": 9}, {"sketch": 9}, {"mechanism": "adaptive"}):
        assert "missing" not in strategy_of(dp.plan(**SMALL, **whole)).left_out
    assert "more than 9 groups" in strategy_of(dp.plan(sparsity=9, **SMALL)).estimand
    assert (
        strategy_of(dp.plan(keys=3, **SMALL)).estimand == "the number of units in the group; intervals cover the noise"
    )


@pytest.mark.parametrize("options", [{}, {"max_groups": 2}, {"mechanism": "adaptive"}], ids=str)
def test_metadata_and_report_say_it(options: dict[str, Any]) -> None:
    table = pa.table({"user": list(range(600)), "item": [f"i{i % 3}" for i in range(600)]})
    release = dp.release(table, unit="user", by="item", **SMALL, **options)
    line = strategy_of(release.plan).what_was_done
    assert release.metadata()["summary"] == line
    assert f"<h3>What was done</h3><p>{escape(line)}</p>" in release.html()
