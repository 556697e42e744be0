"""Bucketing and statistics: each promise checked by brute force on random histograms."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dphist.errors import Infeasible, InvalidParameter
from dphist.flexible import lossy_infinity_on_line
from dphist.flexible.bucketing import Buckets, Grid, count_rows
from dphist.flexible.plan import StatisticPlan, plan_statistic, trade_offs
from dphist.flexible.statistics import BUCKETED, OUTPUT_ERROR, PrivateHistogram, max_k, sanitise, statistic
from dphist.mechanisms import TruncatedLaplace
from dphist.noise.entropy import allow_test_entropy
from dphist.noise.testing import SeededEntropy

records_of = st.lists(st.floats(-1, 11), min_size=1, max_size=6)
quick = settings(max_examples=60, deadline=None)


def test_number_of_buckets_is_exact() -> None:
    assert Buckets(0, 120, 1).number == 60
    assert Buckets(0, 1, 0.05).number == 10  # 1/(2*0.05) is a little more than 10 in doubles
    assert Buckets(0, 1, 0.7).number == 1
    assert Buckets(-0.1, 0.2, 0.1).number == 2


@quick
@given(st.floats(-50, 50), st.floats(0.1, 100), st.floats(0.01, 5), st.lists(st.floats(-200, 200), max_size=20))
def test_a_bucket_moves_a_value_by_at_most_the_error(lower: float, width: float, error: float, x: list[float]) -> None:
    buckets = Buckets(lower, lower + width, error)
    values = np.array([*x, lower, lower + width])
    index = buckets.index(values)
    assert index.min() >= 0
    assert index.max() < buckets.number
    moved = np.abs(buckets.centre(index) - np.clip(values, lower, lower + width))
    assert moved.max() <= error * (1 + 1e-12) + 1e-12
    assert buckets.width / 2 <= error * (1 + 1e-12)


@quick
@given(st.integers(1, 4), st.floats(0.05, 3), st.sampled_from(["l2", "max"]), st.integers(0, 2**31))
def test_grids_move_points_by_at_most_the_error(d: int, error: float, metric: str, seed: int) -> None:
    grid = Grid((0.0,) * d, (1.0, 2.0, 3.0, 4.0)[:d], error, metric)  # type: ignore[arg-type]
    points = np.random.default_rng(seed).uniform(-1, 5, (30, d))
    points = np.vstack([points, np.zeros(d), np.array((1.0, 2.0, 3.0, 4.0)[:d])])
    moved = grid.centre(grid.index(points)) - np.clip(points, grid.lower, grid.upper)
    size = np.linalg.norm(moved, axis=1) if metric == "l2" else np.abs(moved).max(axis=1)
    assert size.max() <= error * (1 + 1e-12)
    assert grid.number == math.prod(grid.axes)
    if d == 1:
        assert grid.axes == (Buckets(0, 1, error).number,)


def test_the_papers_width_would_be_too_wide_in_two_dimensions() -> None:
    grid = Grid((0, 0), (1, 1), 0.1)
    assert grid.axes == (8, 8)  # ceil(sqrt(2)/0.2)
    assert Grid((0, 0), (1, 1), 0.1, "max").axes == (5, 5)  # 5 would leave an l2 error of 0.1 sqrt(2)


def subsets(records: list[float], most: int) -> list[list[float]]:
    """Every data set that is left after dropping at most `most` records."""
    return [list(kept) for size in range(max(0, len(records) - most), len(records) + 1)
            for kept in itertools.combinations(records, size)]  # fmt: skip


def exact(name: str, records: list[float], probability: float) -> float:
    ordered = sorted(records)
    rank = max(1, math.ceil(probability * len(records)))
    return {
        "max": ordered[-1], "min": ordered[0], "range": ordered[-1] - ordered[0],
        "median": ordered[math.ceil(len(records) / 2) - 1], "quantile": ordered[rank - 1],
        "mean": float(np.mean(records)), "std": float(np.std(records)),
    }[name]  # fmt: skip


def hausdorff(a: list[float], b: list[float]) -> float:
    distances = np.abs(np.subtract.outer(np.array(a), np.array(b)))
    return float(max(distances.min(axis=0).max(), distances.min(axis=1).max()))


@quick
@given(records_of, st.floats(0.3, 4), st.integers(0, 2), st.sampled_from([0.0, 0.25, 0.75, 1.0]), st.data())
def test_every_promise_holds_for_every_outcome(
    records: list[float], error: float, q: int, probability: float, data: st.DataObject
) -> None:
    """Whatever the noise drops, the answer is within the error of the statistic of some allowed sub-data set."""
    buckets = Buckets(0, 10, error)
    clamped = [min(max(value, 0.0), 10.0) for value in records]
    index, counts = count_rows(buckets.index(records))
    noisy = np.array([max(0, int(c) - data.draw(st.integers(0, q))) for c in counts], dtype=np.int64)
    private = PrivateHistogram(buckets.centre(index[noisy > 0]), noisy[noisy > 0])
    most = buckets.number * q
    allowed = subsets(clamped, most)
    for name in BUCKETED:
        answer = statistic(name, private, probability=probability)
        limit = OUTPUT_ERROR[name] * error * (1 + 1e-9) + 1e-9
        if answer is None or answer == []:
            assert [] in allowed
        elif name == "support":
            assert min(hausdorff(answer, kept) for kept in allowed if kept) <= limit
        else:
            assert min(abs(answer - exact(name, kept, probability)) for kept in allowed if kept) <= limit, name


@quick
@given(st.dictionaries(st.integers(0, 9), st.integers(1, 3), min_size=1, max_size=4), st.integers(0, 2), st.data())
def test_mode_and_max_k_are_exact_after_drops(x: dict[int, int], q: int, data: st.DataObject) -> None:
    values = np.array(sorted(x))
    left = [max(0, x[int(v)] - data.draw(st.integers(0, q))) for v in values]
    private = PrivateHistogram(values[np.array(left) > 0], np.array([c for c in left if c]))
    reachable_modes, reachable_tops = set(), set()
    for counts in itertools.product(*(range(max(0, c - q), c + 1) for c in (x[int(v)] for v in values))):
        kept = {int(v): c for v, c in zip(values, counts, strict=True) if c}
        reachable_modes.add(min((-c, v) for v, c in kept.items())[1] if kept else None)
        reachable_tops.add(max((v for v, c in kept.items() if c >= 2), default=None))
    assert statistic("mode", private) in reachable_modes
    assert statistic("max-k", private, k=2) in reachable_tops


def test_mode_of_buckets_can_be_anywhere() -> None:
    """Why mode is not offered on buckets: moving every record a little moves the mode across the range."""
    x = {0.0: 3, 9.0: 2, 9.1: 2}
    moved = {0.0: 3, 9.05: 4}
    assert lossy_infinity_on_line(x, moved) == pytest.approx(0.05)
    with pytest.raises(InvalidParameter, match="no range and no error for mode"):
        plan_statistic("mode", epsilon=1, lower=0, upper=10, error=1)


def test_sanitised_values_come_in_order_and_functions_apply() -> None:
    mechanism = TruncatedLaplace.for_budget(1, 1e-6)
    values = np.array([5.0, 1.0, 3.0])
    with allow_test_entropy():
        private = sanitise(values, np.array([100, 200, 1], dtype=np.int64), mechanism, SeededEntropy(1))
        rows = sanitise(np.array([[1, 2], [0, 9], [1, 0]]), np.full(3, 99), mechanism, SeededEntropy(2))
    assert list(private.values) == sorted(private.values)
    assert {1.0, 5.0} <= set(private.values)
    assert private.apply(lambda v, c: float((v * c).sum())) > 0
    assert rows.values.tolist() == [[0, 9], [1, 0], [1, 2]]


def test_plans_say_what_they_promise() -> None:
    plan = plan_statistic(
        "max", epsilon=0.5, delta=2**-20, lower=0, upper=120, error=1, drop=0.005, min_records=600_000
    )
    assert (plan.q, plan.bars, plan.most_dropped, plan.records_needed) == (50, 60, 3000, 600_000)
    assert plan.feasible is True
    plan.require_feasible()
    assert plan.accuracy() == (
        "within 1 of the true maximum of the bounded records, clamped to [0, 120], after dropping at most 0.5 % of them."
    )
    assert "one bucket, chosen at random" in plan.bounding()
    assert "q = 50" in plan.privacy()
    few = plan_statistic("max", epsilon=0.5, delta=2**-20, lower=0, upper=120, error=1, drop=0.005, min_records=599_999)
    with pytest.raises(Infeasible, match=r"at least 600,000 records for a share of 0\.005"):
        few.require_feasible()
    unknown = plan_statistic("range", epsilon=0.5, lower=0, upper=120, error=2, drop=0.005)
    assert unknown.buckets == Buckets(0, 120, 1)
    assert unknown.feasible is None
    assert "if there are" in unknown.accuracy()
    assert (
        "at most 2,460 of them"
        in plan_statistic("mean", epsilon=0.5, delta=1e-5, lower=0, upper=120, error=1).accuracy()
    )


def test_plans_of_unbucketed_statistics() -> None:
    mode = plan_statistic("mode", epsilon=1, delta=2**-20, max_records=3)
    assert mode.accuracy().startswith(
        "exactly the true most frequent value of the bounded records after dropping at most"
    )
    assert "at each value" in mode.accuracy()
    assert mode.records_needed is None
    assert "3 values" in mode.bounding()
    bounded = plan_statistic("max-k", epsilon=1, delta=2**-20, max_values=100, k=500, drop=0.1, min_records=27_000)
    assert bounded.most_dropped == 2700
    assert bounded.feasible is True
    assert "largest value with 500 records" in bounded.accuracy()
    empty = plan_statistic("is-empty", epsilon=1, delta=2**-20)
    assert "at most 27 units" in empty.accuracy()
    assert empty.bounding() == "Each unit counts once."


def test_the_boolean_case_is_always_right_beyond_q() -> None:
    mechanism = TruncatedLaplace.for_budget(1, 2**-20)
    chances = [mechanism.release_probability(k) for k in range(30)]
    assert chances[0] == 0
    assert chances[28] == 1
    assert all(a <= b * (1 + 1e-12) for a, b in itertools.pairwise(chances))
    assert statistic("is-empty", PrivateHistogram(np.array([]), np.array([], dtype=np.int64))) is True


def test_trade_offs() -> None:
    rows = {(epsilon, delta): rest for epsilon, delta, *rest in trade_offs(60, 0.005)}
    assert rows[0.5, 2.0**-20] == [50, 3000, 600_000]
    assert rows[1.0, 1e-5] == [22, 1320, 264_000]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"name": "max"}, "lower, upper and error"),
        ({"name": "mean", "lower": 1, "upper": 1, "error": 1}, "finite lower < upper"),
        ({"name": "mean", "lower": 0, "upper": 1, "error": 0}, "error > 0"),
        ({"name": "mean", "lower": 0, "upper": 1e30, "error": 1}, "buckets"),
        ({"name": "quantile", "lower": 0, "upper": 1, "error": 0.1}, "a probability in"),
        ({"name": "max-k"}, "k of at least 1"),
        ({"name": "median", "lower": 0, "upper": 1, "error": 0.1, "drop": 2}, "a share of dropped records"),
        ({"name": "is-empty", "max_records": 2}, "each unit once"),
        ({"name": "variance"}, "one of max, min"),
        ({"name": "mode", "max_values": 0}, "max_values of at least 1"),
    ],
)
def test_refusals(options: dict[str, object], words: str) -> None:
    with pytest.raises(InvalidParameter, match=words):
        plan_statistic(epsilon=1, **options)  # type: ignore[arg-type]


def test_more_refusals() -> None:
    private = PrivateHistogram(np.array([1.0]), np.array([2]))
    with pytest.raises(InvalidParameter, match="probability of the quantile"):
        statistic("quantile", private)
    with pytest.raises(InvalidParameter, match="a probability in"):
        statistic("quantile", private, probability=1.5)
    with pytest.raises(InvalidParameter, match="k, the records"):
        max_k(private, None)
    with pytest.raises(InvalidParameter, match="as many lower"):
        Grid((0.0,), (1.0, 2.0), 1)
    assert isinstance(plan_statistic("is-empty", epsilon=1), StatisticPlan)
