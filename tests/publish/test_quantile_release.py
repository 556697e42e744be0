"""Quantiles as a user asks for them: what is estimated, what is drawn and paid for, what a file may say."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dphist as dp
from dphist.aggregates.noisy_sums import NoisyMeasure
from dphist.aggregates.quantile import Quantile
from dphist.aggregates.total import Sum
from dphist.aggregates.tree import Tree, noisy_quantiles
from dphist.cli.options import parse
from dphist.errors import InvalidParameter
from dphist.ledger.accountant import price
from dphist.mechanisms.lattice import Kept
from dphist.mechanisms.surcharge import TREE_DRAW_ERROR, tree_surcharge
from dphist.noise import DiscreteLaplace, RoundedGaussian, sampler_error
from dphist.noise.laws import LARGEST_SCALE
from dphist.noise.testing import SeededEntropy
from dphist.planning import storage
from dphist.run import counting
from dphist.run.chosen_bounds import cover_tails, read_sizes
from dphist.run.table import draw_parts
from dphist.verification.tables import _check_quantiles
from drawn_laws import recorded, silence
from quiet_releases import Middle, quiet
from tree_tables import bins_of_records
from word_sources import drawn_from, words_from

PROBABILITIES = (0.1, 0.5, 0.75)
BUDGET: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-8}
LOWER, UPPER = -4.0, 12.0
BIN = (UPPER - LOWER) / 4096
COPIES = 400
"""Of every unit: a total below its own standard deviation would be taken as that, and walks end elsewhere."""

values = st.one_of(
    st.none(), st.integers(-8, 30).map(lambda half: half / 2), st.sampled_from([math.nan, math.inf, -math.inf, 1e300])
)
tables = st.lists(st.tuples(st.integers(0, 6), st.sampled_from("ab"), values), min_size=1, max_size=30)


def tree_of(noisy: NoisyMeasure) -> Tree:
    assert noisy.measure.tree is not None
    return noisy.measure.tree


def exact_quantile(rows: list[tuple[int, str, float | None]], key: str, p: float, records: int) -> float | None:
    """The smallest clamped value at which the cumulative weight reaches p of the total; None without any."""
    weights: dict[float, float] = {}
    for unit in range(7):
        own = [x for who, group, x in rows if (who, group) == (unit, key) and x is not None and not math.isnan(x)]
        for x in own:
            clamped = min(max(x, LOWER), UPPER)
            weights[clamped] = weights.get(clamped, 0.0) + min(1.0, records / len(own))
    below, total = 0.0, sum(weights.values())
    for value in sorted(weights):
        below += weights[value]
        if below >= p * total - 1e-5:
            return value
    return None


@settings(max_examples=12, deadline=None)
@given(rows=tables, records=st.integers(1, 3))
def test_without_noise_quantiles_are_those_of_the_records(
    rows: list[tuple[int, str, float | None]], records: int
) -> None:
    """Up to the width of a bin, and the steps of weights: nulls, NaN, infinities, ties, groups without any value."""
    units, keys, x = zip(*[(7 * copy + who, *rest) for copy in range(COPIES) for who, *rest in rows], strict=True)
    source = pa.table({"unit": units, "key": keys, "x": pa.array(x, pa.float64())})
    most = len(set(keys))
    found = quiet(
        source, quantiles={"x": (PROBABILITIES, LOWER, UPPER)}, records=records, max_groups=most, intervals=0.9
    )
    for key, row in found.items():
        before = LOWER
        for p, name in zip(PROBABILITIES, ("p10_x", "p50_x", "p75_x"), strict=True):
            value = row[name]
            assert before <= value
            assert LOWER <= row[name + "_low"] <= value <= row[name + "_high"] <= UPPER
            before = value
            # Weights are rounded down, and a tie of p with a cumulative weight may then go either way.
            near = [exact_quantile(rows, key, p + away, records) for away in (-1e-3, 0.0, 1e-3)]
            if near[1] is not None and near[0] == near[2]:
                assert abs(value - near[1]) <= BIN * (1 + 1e-9)


def test_without_noise_large_groups_have_their_quantiles() -> None:
    """So large that what stands for an uncertain total plays no role."""
    rng = np.random.default_rng(3)
    x = np.round(rng.normal(3, 2, 20_000), 1)
    source = pa.table({"unit": np.arange(20_000) // 2, "key": np.repeat(["a", "b"], 10_000), "x": x})
    found = quiet(source, quantiles={"x": (PROBABILITIES, LOWER, UPPER)}, max_groups=2, intervals=0.9)
    for key, part in (("a", x[:10_000]), ("b", x[10_000:])):
        ordered = np.sort(np.clip(part, LOWER, UPPER))
        for p, name in zip(PROBABILITIES, ("p10_x", "p50_x", "p75_x"), strict=True):
            exact = ordered[math.ceil(p * len(ordered)) - 1]
            assert abs(found[key][name] - exact) <= BIN * (1 + 1e-9)
            assert found[key][name + "_low"] <= exact <= found[key][name + "_high"]


def test_without_a_bound_quantiles_are_those_of_the_selected_groups() -> None:
    source = pa.table(
        {"unit": np.arange(8_000) // 4, "key": np.tile(["a", "b", "c", "d"], 2_000), "x": np.tile([1.0, 3.0, 5.0, 11.9], 2_000)}
    )  # fmt: skip
    with words_from(Middle()):
        found = dp.release(source, unit="unit", by="key", **BUDGET, medians={"x": (LOWER, UPPER)}, intervals=0.9)
    assert found.plan.mechanism.name == "adaptive"
    rows = {row["key"]: row for row in found.to_arrow().to_pylist()}
    for key, value in (("a", 1.0), ("b", 3.0), ("c", 5.0), ("d", 11.9)):
        assert abs(rows[key]["p50_x"] - value) <= BIN * (1 + 1e-9)
        assert rows[key]["p50_x_low"] <= value <= rows[key]["p50_x_high"]
    assert "takes part in as many" in found.metadata()["aggregates"][0]["estimand"]


def test_a_group_has_its_own_tree() -> None:
    """Also where groups before it were hidden."""
    units = np.arange(9_000)
    source = pa.table(
        {"unit": units, "key": np.where(units < 20, units, units % 2 + 100), "x": (units % 2 * 4.0).tolist()}
    )
    with words_from(Middle()):
        found = dp.release(source, unit="unit", by="key", **BUDGET, max_groups=1, medians={"x": (LOWER, UPPER)})
    rows = {row["key"]: row["p50_x"] for row in found.to_arrow().to_pylist()}
    assert rows == {100: pytest.approx(0.0, abs=BIN), 101: pytest.approx(4.0, abs=BIN)}


TREES: dict[str, Any] = {
    "sums": {"y": (0.0, 1.0)},
    "quantiles": {"x": ([0.25, 0.5], 0.0, 8.0), "y": (0.9, 0.0, 1.0)},
    "records": 3,
    "weights": {"quantile_x": 2.0, "quantile_y": 0.5},
}


@pytest.mark.parametrize("mechanism", ["sparse-gaussian", "laplace", "known", "correlated-gaussian"])
def test_the_trees_that_are_drawn_are_those_that_are_paid_for(mechanism: str) -> None:
    """Each draw of a tree has the law of its measure, and all levels of all trees together cost what the profile says."""
    groups = 2
    kinds: dict[str, dict[str, Any]] = {
        "known": {"keys": 12, "mechanism": "sparse-gaussian"},
        "correlated-gaussian": {"sparsity": 2, "mechanism": mechanism},
    }
    more = kinds.get(mechanism, {"mechanism": mechanism})
    most: dict[str, Any] = {} if "sparsity" in more else {"max_groups": groups}
    plan = dp.plan(**BUDGET, **TREES, **most, **more)
    source = pa.table(
        {"unit": np.arange(40_000) // 2, "key": np.arange(40_000) % 12 % 2, "x": [3.0] * 40_000, "y": [0.5] * 40_000}
    )
    listed = pa.table({"key": np.arange(12)}) if mechanism == "known" else None
    with recorded(silence) as draws:
        shown = dp.release(source, unit="unit", by="key", plan=plan, keys=listed, intervals=0.9).to_arrow().num_rows
    measures: dict[str, Any] = {noisy.name: noisy for noisy in plan.measures}
    trees = [noisy for noisy in plan.measures if noisy.measure.draws > 1]
    assert [noisy.measure.draws for noisy in trees] == [13, 13]
    number: dict[Any, int] = {}
    for draw in draws:
        number[draw.law] = number.get(draw.law, 0) + len(draw.noise)
    asked = plan.request.probabilities
    for noisy in trees:
        assert 13 * shown <= number[noisy.law] <= tree_of(noisy).most_draws(len(asked[noisy.name])) * shown
    own: Any = plan.mechanism
    steps = {name: noisy.measure.sensitivity_steps for name, noisy in measures.items()}
    times = {name: 13 if noisy in trees else 1 for name, noisy in measures.items()}
    assert all(steps[noisy.name] == 3 << 18 for noisy in trees)
    if mechanism == "laplace":
        pure = sum(times[name] * steps[name] / noisy.law.scale for name, noisy in measures.items())
        assert pure <= Fraction(own.sums_epsilon)
        assert float(pure) == pytest.approx(3.5 / own.scale, rel=1e-9)
    else:
        squares = sum(times[name] * (steps[name] / noisy.law.std) ** 2 for name, noisy in measures.items())
        assert squares <= Fraction(own.sums_sensitivity) ** 2
        assert float(squares) == pytest.approx(3.5 / own.noise_std**2, rel=1e-9)
    # Noise of one draw less is not paid for.
    quieter = replace(measures[trees[0].name].measure, weight=2.0 * (1 + 1e-6))
    assert not own.covers([quieter if one.name == quieter.name else one for one in plan.request.measures])


@pytest.mark.parametrize("mechanism", ["adaptive", "voting"])
def test_trees_of_selected_groups_have_noise_for_all_the_groups_of_a_unit(
    mechanism: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = dp.plan(epsilon=4.0, delta=1e-6, medians={"x": (0.0, 8.0)}, sums={"x": (0.0, 8.0)}, mechanism=mechanism)
    source = pa.table({"unit": np.arange(40_000) // 8, "key": np.arange(40_000) % 8, "x": np.arange(40_000) % 8 + 0.5})
    most: list[int] = []
    noise_trees = counting.noise_trees

    def spy(noise: Any, classes: counting.Classes, *rest: Any) -> Any:
        most.append(classes.most_in_trees)
        return noise_trees(noise, classes, *rest)

    monkeypatch.setattr(counting, "noise_trees", spy)
    with recorded(silence) as draws:
        assert dp.release(source, unit="unit", by="key", plan=plan).to_arrow().num_rows == 8
    (tree,) = (noisy for noisy in plan.measures if noisy.measure.draws > 1)
    counts: Any = plan.mechanism.counts
    laws = {draw.law for draw in draws[-13:]}
    assert len(laws) == 1
    law, k, steps = laws.pop(), most[0], tree.measure.sensitivity_steps
    assert k >= 2
    if isinstance(law, DiscreteLaplace):
        assert law.scale == tree.law.scale * k  # type: ignore[union-attr]
        both = k * (13 * steps / law.scale)
        assert both <= Fraction(counts.sums_sensitivity)
        assert float(both) == pytest.approx(float(counts.sums_sensitivity) / 2, rel=1e-9)
    else:
        assert isinstance(law, RoundedGaussian)
        both = k * 13 * (steps / law.std) ** 2
        assert both <= Fraction(counts.sums_sensitivity) ** 2
        assert float(both) == pytest.approx(float(counts.sums_sensitivity) ** 2 / 2, rel=1e-9)


def test_the_sampler_of_trees_has_its_part_of_delta() -> None:
    """Each draw within its share, all of them counted, in the plan, in what is stated and in the charge."""
    laws = [RoundedGaussian(LARGEST_SCALE / 2, 0), RoundedGaussian(Fraction(3), 0), DiscreteLaplace(LARGEST_SCALE)]
    assert all(
        sampler_error(law) <= TREE_DRAW_ERROR
        for law in [*laws, DiscreteLaplace(Fraction(5.5)), DiscreteLaplace(Fraction(10**7))]
    )
    plan = dp.plan(epsilon=1.0, delta=1e-24, max_groups=100, medians={"x": (0, 1)}, quantiles={"y": ([0.1, 0.2], 0, 1)})
    draws = 100 * (tree_of(plan.measures[0]).most_draws(1) + tree_of(plan.measures[0]).most_draws(2))
    surcharge = tree_surcharge(1.0, draws)
    assert plan.request.tree_draws == draws
    assert surcharge >= draws * 2.0**-116 * (1 + math.e)
    assert plan.mechanism.delta(1.0) <= 1e-24 - surcharge
    assert plan.mechanism.delta(1.0) + surcharge <= plan.delta <= 1e-24
    cost, alone = price(plan.event, 2.0), price(plan.mechanism.event(1.0), 2.0)
    assert cost.delta >= alone.delta + surcharge
    assert cost.mu_delta >= alone.mu_delta + tree_surcharge(2.0, draws)
    assert cost.rho_delta >= alone.rho_delta + tree_surcharge(2.0, draws)
    unbounded = dp.plan(**BUDGET, medians={"x": (0, 1)})
    assert unbounded.request.tree_draws == 1024 * tree_of(plan.measures[0]).most_draws(1)
    assert dp.plan(**BUDGET, max_groups=1).request.mechanism_delta == 1e-8
    spent = replace(plan, request=replace(plan.request, delta=plan.mechanism.delta(1.0)))
    with pytest.raises(dp.InvalidPlan, match="guarantee holds"):
        storage.check(spent.request, spent.mechanism, "a plan")


def test_laplace_noise_does_not_win_by_its_counts() -> None:
    """It is best for one count of each unit, and worst for a tree beside it."""
    counts, trees = dp.plan(**BUDGET, max_groups=1), dp.plan(**BUDGET, max_groups=1, medians={"x": (0, 1)})
    assert counts.mechanism.name == "laplace"
    assert trees.mechanism.name == "sparse-gaussian"
    asked = dp.plan(**BUDGET, max_groups=1, medians={"x": (0, 1)}, mechanism="laplace")
    assert asked.mechanism.name == "laplace"
    assert trees.measures[0].noise_std < asked.measures[0].noise_std / 1.1
    assert dp.plan(**BUDGET, medians={"x": (0, 1)}, mechanism="voting").mechanism.name == "voting"


def test_probabilities_name_columns_and_share_a_tree(tmp_path: Path) -> None:
    plan = dp.plan(
        **BUDGET, max_groups=2, quantiles={"x": ([0.999, 0.07, 0.125], 0, 1), "y": (0.5, "auto")}, medians={"x": (0, 1)}
    )
    assert plan.value_names == ["count", "p7_x", "p12_5_x", "p50_x", "p99_9_x", "p50_y"]
    assert [measure.kind for measure in plan.request.measures] == ["bins", "bins"]
    plan.save(tmp_path / "plan.json")
    assert dp.Plan.load(tmp_path / "plan.json") == plan
    assert plan.request.aggregates[0].to_data()["probabilities"] == (0.07, 0.125, 0.5, 0.999)
    assert "probabilities" not in dp.plan(**BUDGET, max_groups=2, sums={"x": (0, 1)}).request.aggregates[0].to_data()


@pytest.mark.parametrize(
    "asked",
    [
        {"quantiles": {"x": (1.0, 0, 1)}},
        {"quantiles": {"x": (0.0, 0, 1)}},
        {"quantiles": {"x": ([], 0, 1)}},
        {"quantiles": {"x": (0.5, 1, 0)}},
        {"quantiles": {"x": (0.5, 0, math.inf)}},
        {"quantiles": {"x": (0.5, 0)}},
        {"quantiles": {"x": "auto"}},
        {"quantiles": {"x": ([i / 20 for i in range(1, 18)], 0, 1)}},
        {"quantiles": {"x": (0.5, 0, 1)}, "medians": {"x": (0, 2)}},
        {"quantiles": {"x": (0.5, 0, 1)}, "records": 2**17},
        {"sketch": 10, "max_groups": None, "quantiles": {"x": (0.5, 0, 1)}},
    ],
)
def test_what_no_tree_gives_is_refused(asked: dict[str, Any]) -> None:
    with pytest.raises(InvalidParameter):
        dp.plan(**{**BUDGET, "max_groups": 1, **asked})


def test_only_quantiles_have_probabilities() -> None:
    for kind, some in ((Sum, (0.5,)), (Quantile, ()), (Quantile, (0.5, 0.5)), (Quantile, (0.7, 0.5))):
        with pytest.raises(InvalidParameter):
            kind("x", 0.0, 1.0, probabilities=some)


def test_the_command_line_takes_several() -> None:
    texts = ["amount:0.5:0:100", "amount:0.25,0.75:0:100", "a:b:0.9:auto", "c:0.5:0:auto", "d:0.1,0.2:auto"]
    assert parse({"quantiles": texts, "medians": ["m:0:1"]}) == {
        "quantiles": {
            "amount": ([0.5, 0.25, 0.75], 0.0, 100.0),
            "a:b": ([0.9], "auto", "auto"),
            "c": ([0.5], 0.0, "auto"),
            "d": ([0.1, 0.2], "auto", "auto"),
        },
        "medians": {"m": (0.0, 1.0)},
    }
    for wrong in ("amount", "amount:0.5", "amount:0.5:0", "amount:x:0:1", "amount:0.5:0:1:2:y"):
        with pytest.raises(InvalidParameter, match="--quantile"):
            parse({"quantiles": [wrong]})
    with pytest.raises(InvalidParameter, match="one pair of bounds"):
        parse({"quantiles": ["amount:0.5:0:100", "amount:0.6:0:101"]})


def published(**changes: list[float]) -> tuple[pa.Table, dp.Plan]:
    plan = dp.plan(**BUDGET, max_groups=1, quantiles={"x": ([0.25, 0.75], 0.0, 10.0)})
    columns = {
        "p25_x": [2.0, 3.0], "p25_x_std_error": [1.0, 0.1], "p25_x_low": [0.0, 2.5], "p25_x_high": [4.0, 3.5],
        "p75_x": [2.0, 7.0], "p75_x_std_error": [1.0, 2.0], "p75_x_low": [1.0, 6.0], "p75_x_high": [10.0, 9.0],
    }  # fmt: skip
    return pa.table({**columns, **changes}), plan


@pytest.mark.parametrize(
    "changes",
    [
        {"p75_x": [1.5, 7.0]},
        {"p25_x": [-0.5, 3.0], "p25_x_low": [-1.0, 2.5]},
        {"p75_x_high": [10.5, 9.0]},
        {"p25_x_low": [2.5, 2.5]},
        {"p75_x_high": [10.0, 6.5]},
        {"p25_x_std_error": [1.0, 0.0]},
        {"p25_x_std_error": [1.0, 0.0005]},  # a bin is 10/4096 wide: at a uniform place in it the error is 0.0007
        {"p25_x": [math.nan, 3.0]},
    ],
)
def test_quantiles_that_no_tree_gives_are_not_verified(changes: dict[str, list[float]]) -> None:
    assert [check.passed for check in _check_quantiles(*published(), 0.9, {})] == [True]
    assert [check.passed for check in _check_quantiles(*published(**changes), 0.9, {})] == [False]


def test_bounds_of_quantiles_cover_nearly_all_units() -> None:
    """Narrow enough to leave an outlier outside, and kept where they are given."""
    from dphist.engines.buckets import BUCKETS, OF_A_SIGN

    noisy = np.zeros(BUCKETS, np.int64)
    one = OF_A_SIGN + 1 + 2 * 58  # values from 1 to 1.41
    noisy[one : one + 4], noisy[one + 60] = 5_000, 100
    sizes = read_sizes(noisy, 1.0)
    assert sizes is not None
    low, high = cover_tails(sizes, 0.01, 0.01)
    assert [low, high] == pytest.approx([1.0, 4.0])
    low, high = cover_tails(sizes, 0.01, 0.001)
    assert high > 2**29
    assert cover_tails(sizes, 0.01, 0.01, lower=0.0) == pytest.approx((0.0, 4.0))
    assert cover_tails(sizes, 0.01, 0.01, upper=0.5)[0] < 0.5
    assert cover_tails(sizes, 0.01, 0.01, lower=9.0)[1] > 9.0


def test_private_bounds_of_quantiles() -> None:
    """Found where there are values; without any the rest of the release stands."""
    rng = np.random.default_rng(5)
    x = rng.lognormal(3, 0.5, 20_000)
    source = pa.table(
        {"unit": np.arange(20_000), "key": ["a"] * 20_000, "x": x, "none": pa.nulls(20_000, pa.float64())}
    )
    found = dp.release(
        source, unit="unit", by="key", **BUDGET, max_groups=1, medians={"x": "auto", "none": "auto"}, intervals=0.99
    )
    (row,) = found.to_arrow().to_pylist()
    assert row["p50_x"] == pytest.approx(float(np.median(x)), rel=0.05)
    assert "p50_none" not in row
    lower, upper = found.plan.request.aggregates[0].bounds
    assert 2 < lower < 15
    assert 50 < upper < 300
    there, absent = (one["in_words"] for one in found.metadata()["bounds"])
    assert re.fullmatch(r"quantile_x: values are clamped to \[\S+, \S+\]; about \S+ % of units are outside\.", there)
    assert absent.startswith("quantile_none: no bounds found")


@pytest.mark.parametrize("level", [None, 0.5, 0.9])
def test_intervals_of_quantiles_have_the_level_that_was_asked_for(level: float | None) -> None:
    plan = dp.plan(**BUDGET, max_groups=1, quantiles={"x": ([0.25, 0.75], 0.0, 10.0)})
    (noisy,) = plan.measures
    bins = bins_of_records(1, np.zeros(500, np.int64), np.arange(500) * 7, np.full(500, 1 << tree_of(noisy).step_bits))
    kept = Kept(np.zeros(1, np.int64), np.full(1, 500), 0)
    found = drawn_from(SeededEntropy(3), draw_parts, plan, kept, {"bins_1": bins}, level)[noisy.name]
    law: Any = noisy.law
    perturb = plan.mechanism.perturb_sums
    want = drawn_from(SeededEntropy(3), noisy_quantiles, bins, tree_of(noisy), law, [0.25, 0.75], level, perturb)
    for name in ("values", "std_errors", "low", "high"):
        np.testing.assert_array_equal(getattr(found, name), getattr(want, name))
