"""Errors of aggregates with private bounds are what is said: the invariant on a few tables, and long on thirty."""

from __future__ import annotations

import math
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import dphist as dp
from dphist.aggregates.total import Sum
from dphist.engines.buckets import BUCKETS, OF_A_SIGN
from dphist.noise.testing import SeededEntropy
from dphist.run.chosen_bounds import choose_bounds, read_sizes
from drawn_laws import recorded, silence
from word_sources import words_from

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))
from private_bounds import DISTRIBUTIONS, EPSILONS, KINDS, LEAST, SIZES, histogram, measure

FAST = (
    "normal(50, 10)",
    "normal(1000, 1), far from zero",
    "lognormal(10.5, 0.5), salaries",
    "-lognormal(2, 1), negative",
    "ratings, mostly 5",
    "Pareto(1.5), revenue",
    "two humps, 10 and 1000",
    "constant 5",
    "normal(50, 10), 9 in 10 null",
)
UNSEEN = {("two humps, 10 and 1000", 30, 0.1), ("Laplace(0, 5)", 30, 0.1)}
"""A part of 6,000 units beside noise of scale 100 on every bucket: docs/aggregates.md says from which number one is seen."""


@pytest.mark.parametrize("name", FAST)
def test_nine_in_ten_groups_are_within_two_errors(name: str) -> None:
    for size in (300, 30_000):
        for kind, cell in measure(name, size, 1.0, runs=1, draws=6).items():
            assert cell.share >= LEAST, (kind, size, cell)
            assert cell.null == 0 or size == 300


@pytest.mark.statistical
@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_nine_in_ten_groups_are_within_two_errors_on_every_table(name: str, epsilon: float) -> None:
    """Groups of a table share their bounds, so few of them are few numbers: three standard errors of the share are allowed."""
    for size in (*SIZES, None):
        if (name, size, epsilon) in UNSEEN:
            continue
        for kind, cell in measure(name, size, epsilon, runs=4, draws=3).items():
            assert cell.share >= LEAST - 3 * math.sqrt(LEAST * (1 - LEAST) / min(cell.groups, 500)), (kind, size, cell)


@pytest.mark.parametrize("kind", KINDS)
def test_two_errors_do_not_reach_much_farther_than_they_must(kind: str) -> None:
    cell = measure("lognormal(10.5, 0.5), salaries", 30_000, 1.0, runs=1, draws=3)[kind]
    assert cell.width < 0.1
    assert cell.covered < cell.groups


@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_hardly_anybody_is_outside_of_bounds_for_one_large_group(name: str) -> None:
    """And the mean is inside of those for a variance: a cut below it is no gain."""
    values = DISTRIBUTIONS[name](np.random.default_rng(5), 100_000)
    values = values[~np.isnan(values)]
    sizes = read_sizes(histogram(values), 0.5)
    assert sizes is not None
    for squared in (False, True):
        cut = choose_bounds(sizes, lambda lower, upper: 2 * (upper - lower), 1e5, squared=squared)
        assert ((values < cut.lower) | (values > cut.upper)).mean() < 0.002
        assert cut.lower <= values.mean() <= cut.upper


def test_bounds_are_narrower_where_groups_may_be_small() -> None:
    """And cut off more of what one large group has."""
    rng = np.random.default_rng(5)
    sizes = read_sizes(histogram(rng.lognormal(0, 1, 100_000)), 0.5)
    assert sizes is not None
    small, large = (choose_bounds(sizes, lambda lower, upper: 20 * (upper - lower), size) for size in (60, 1e5))
    assert small.upper < large.upper
    assert small.bias > large.bias


def test_what_is_cut_off_is_in_the_error_and_is_verified(tmp_path: Path) -> None:
    """What the tail of revenues adds beyond the last bucket that is seen is stated, stored and checked."""
    rng = np.random.default_rng(2)
    x = 10 * (1 + rng.pareto(1.5, 30_000))
    table = pa.table({"unit": np.arange(len(x)), "key": [f"k{i % 3}" for i in range(len(x))], "x": x})
    auto: dict[str, Any] = {"sums": {"x": "auto"}, "means": {"x": "auto"}, "max_groups": 1, "intervals": 0.95}
    with words_from(SeededEntropy(3)):
        found = dp.release(table, unit="unit", by="key", epsilon=1, delta=1e-6, **auto)
    added, mean = found.plan.request.aggregates
    each, spread = added.excess
    assert 0 < each < spread
    for row in found.to_arrow().to_pylist():
        cut = math.hypot(each * row["count"], spread * math.sqrt(row["count"]))
        own = found.plan.measures[0].noise_std
        assert row["sum_x_std_error"] > math.hypot(cut, own) > own
        assert row["mean_x_std_error"] > mean.excess[0]
    found.write(tmp_path / "out.parquet")
    assert not any(check.failed for check in dp.verify(tmp_path / "out.parquet"))


@pytest.mark.parametrize("excess", [(1.0,), (-1.0, 1.0), (1.0, math.inf)])
def test_what_is_cut_off_is_two_sizes(excess: tuple[float, ...]) -> None:
    with pytest.raises(dp.InvalidParameter, match="cut off"):
        Sum("x", 0.0, 1.0, chosen="both", excess=excess)
    with pytest.raises(dp.InvalidParameter, match="cut off"):
        Sum("x", 0.0, 1.0, excess=(1.0, 1.0))


def test_a_histogram_of_noise_alone_shows_nothing() -> None:
    rng = np.random.default_rng(7)
    found = [read_sizes(np.rint(rng.laplace(0, 10, BUCKETS)).astype(np.int64), 10.0) for _ in range(2000)]
    assert sum(one is not None for one in found) <= 10


@pytest.mark.parametrize("x", [[-1.0, 0, 1, 2, 3, 4], [3.0, 1, -1, 3, 1, 2]])
def test_nobody_is_cut_off_where_there_is_hardly_any_noise(x: list[float]) -> None:
    """Six units, each alone in its bucket: a mean of 1.5 was 1.9, and a variance 0.005."""
    table = pa.table({"unit": np.arange(len(x)), "key": ["a"] * len(x), "x": x})
    auto = {"means": {"x": "auto"}, "variances": {"x": "auto"}}
    with recorded(silence):
        found = dp.release(table, unit="unit", by="key", keys=["a"], epsilon=1e20, delta=1e-3, max_groups=1, **auto)  # type: ignore[arg-type]
    (row,) = found.to_arrow().to_pylist()
    assert row["mean_x"] == pytest.approx(1.5, abs=1e-4)
    assert row["variance_x"] == pytest.approx(np.var(x), abs=1e-4)


def test_values_around_zero_are_not_cut_at_zero() -> None:
    """As many negative as positive ones, of which a single bucket stands out by itself: the others do together."""
    exact = np.zeros(BUCKETS, np.int64)
    at = np.arange(4, 12)
    exact[OF_A_SIGN + at] = exact[OF_A_SIGN - at] = 60
    exact[OF_A_SIGN + 11] = 140
    sizes = read_sizes(exact, 10.0)
    assert sizes is not None
    assert sizes.low[0] <= -sizes.high[sizes.units >= 140].max()
