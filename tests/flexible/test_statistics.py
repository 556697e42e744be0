"""Bucketing and statistics: each promise checked by brute force on random histograms."""

import itertools
import math
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from flexible_on_line import lossy_infinity_on_line
from hypothesis import given, settings
from hypothesis import strategies as st

from dphist.errors import Infeasible, InvalidParameter
from dphist.mechanisms import TruncatedLaplace
from dphist.noise.testing import SeededEntropy
from dphist.planning.flexible import (
    BUCKETED,
    NO_BUCKET,
    OUTPUT_ERROR,
    Buckets,
    Grid,
    PrivateHistogram,
    count_rows,
    max_k,
    sanitise,
    statistic,
)
from dphist.planning.statistics import StatisticPlan, plan_statistic, trade_offs
from dphist.privacy import truncated_laplace
from dphist.words import exactly, factor_of, percent, rounded_up
from drawn_laws import recorded
from word_sources import drawn_from

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


def kept_after_noise(
    records: list[float], buckets: Buckets, q: int
) -> Iterator[tuple[PrivateHistogram, list[list[float]]]]:
    """Every outcome of the noise, and every data set that is left after dropping exactly what it dropped from each bucket."""
    index, counts = count_rows(buckets.index(records))
    members = [[v for v in records if buckets.index(v) == place] for place in index]
    for lost in itertools.product(*(range(min(q, int(count)) + 1) for count in counts)):
        noisy = counts - np.array(lost, dtype=np.int64)
        private = PrivateHistogram(buckets.centre(index[noisy > 0]), noisy[noisy > 0])
        choices = [[list(c) for c in itertools.combinations(m, int(n))] for m, n in zip(members, noisy, strict=True)]
        yield private, [list(itertools.chain(*chosen)) for chosen in itertools.product(*choices)]


def distance_to_some(name: str, answer: Any, inputs: list[list[float]], probability: float) -> float:
    """How far an answer is from the statistic of the nearest of these inputs."""
    if answer is None or answer == []:
        return 0.0 if [] in inputs else math.inf
    if name == "support":
        return min(hausdorff(answer, kept) for kept in inputs if kept)
    return min(abs(float(answer) - exact(name, kept, probability)) for kept in inputs if kept)


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.floats(-1, 11), min_size=1, max_size=5),
    st.floats(0.6, 4),
    st.integers(0, 2),
    st.sampled_from([0.0, 0.25, 0.75, 1.0]),
)
def test_every_promise_holds_for_every_outcome(records: list[float], error: float, q: int, probability: float) -> None:
    """Whatever the noise drops, the answer is within the error of the statistic of the clamped records that are left.

    At most q records of each bucket are gone, so at most t q of all: every outcome of the noise is gone through.
    """
    buckets = Buckets(0, 10, error)
    clamped = [min(max(value, 0.0), 10.0) for value in records]
    for private, inputs in kept_after_noise(clamped, buckets, q):
        dropped = len(clamped) - int(private.counts.sum())
        assert all(len(kept) == len(clamped) - dropped for kept in inputs)
        assert dropped <= buckets.number * q
        for name in BUCKETED:
            answer = statistic(name, private, probability=probability)
            limit = OUTPUT_ERROR[name] * error * (1 + 1e-9) + 1e-9
            assert distance_to_some(name, answer, inputs, probability) <= limit, name


EXTREMES: dict[str, list[float]] = {
    "max": [0.0], "min": [0.0], "median": [0.0], "quantile": [0.0], "mean": [0.0], "support": [0.0],
    "std": [0.0, 4.0], "range": [0.0, 4.0],
}  # fmt: skip


@pytest.mark.parametrize("name", BUCKETED)
def test_no_promise_could_be_smaller(name: str) -> None:
    """The check above can fail: at the ends of buckets each error is attained, and a promise of 99 % of it is broken."""
    buckets = Buckets(0, 4, 1)
    for private, inputs in kept_after_noise(EXTREMES[name], buckets, 0):
        found = distance_to_some(name, statistic(name, private, probability=0.5), inputs, 0.5)
        assert found == pytest.approx(OUTPUT_ERROR[name], rel=1e-12)
        assert found > 0.99 * OUTPUT_ERROR[name]


def test_fewer_drops_than_stated_would_not_explain_every_answer() -> None:
    """The other half of the promise: with one drop less than the noise can take, the maximum is out of reach."""
    records = [0.5, 9.5, 9.5]
    outcomes = list(kept_after_noise(records, Buckets(0, 10, 0.5), 2))
    worst = min(float(statistic("max", private)) for private, _ in outcomes if private.counts.sum() == 1)
    assert worst == 0.5
    reachable = [exact("max", kept, 0.5) for kept in subsets(records, 1)]
    assert min(abs(worst - value) for value in reachable) > 0.5
    assert worst in [exact("max", kept, 0.5) for kept in subsets(records, 2)]


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
    private = drawn_from(SeededEntropy(1), sanitise, values, np.array([100, 200, 1], dtype=np.int64), mechanism)
    rows = drawn_from(SeededEntropy(2), sanitise, np.array([[1, 2], [0, 9], [1, 0]]), np.full(3, 99), mechanism)
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
        "within 1 of the true maximum of the bounded records, clamped to [0, 120], after dropping at most 0.5 % of them,"
        " provided that there are at least 600,000 of them (stated, not compared with the data)."
    )
    assert plan.conditions() == ("there are at least 600,000 of them",)
    assert "one bucket, chosen at random" in plan.bounding()
    assert "q = 50" in plan.privacy()
    few = plan_statistic("max", epsilon=0.5, delta=2**-20, lower=0, upper=120, error=1, drop=0.005, min_records=599_999)
    with pytest.raises(Infeasible, match=r"at least 600,000 records for a share of 0\.005"):
        few.require_feasible()
    unknown = plan_statistic("range", epsilon=0.5, lower=0, upper=120, error=2, drop=0.005)
    assert unknown.buckets == Buckets(0, 120, 1)
    assert unknown.feasible is None
    assert "% if there are" in unknown.accuracy()
    assert unknown.conditions() == ()
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
    assert bounded.accuracy() == (
        "exactly the true largest value with 500 records of the bounded records after dropping at most 10 % of them,"
        " provided that there are at least 27,000 of them and they have at most 100 different values"
        " (stated, not compared with the data)."
    )
    without_share = plan_statistic("mode", epsilon=1, delta=2**-20, max_values=100)
    assert "at most 2,700 of them, provided that they have at most 100 different values" in without_share.accuracy()
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
    rows = {(row.epsilon, row.delta): row for row in trade_offs(60, 0.005, own=(0.7, 1e-6))}
    found = rows[0.5, 2.0**-20]
    assert (found.q, found.dropped, found.records_needed) == (50, 3000, 600_000)
    assert found.share_of(600_000) == Fraction(1, 200)
    assert found.share_of(1000) == 1
    assert (rows[1.0, 1e-5].q, rows[1.0, 1e-5].records_needed) == (22, 264_000)
    assert len(rows) == 5 * 3 + 1
    assert len(trade_offs(60, 0.005, own=(0.5, 2.0**-20))) == 5 * 3


def test_numbers_in_sentences_are_exact_or_rounded_up() -> None:
    assert [exactly(v) for v in (1, 0.1, 1.0000001, 120.0, 1e-7)] == ["1", "0.1", "1.0000001", "120", "1e-07"]
    assert [percent(v) for v in (0.005, 0.2, 0.12345678, 0.07)] == ["0.5", "20", "12.345678", "7"]
    assert [rounded_up(v) for v in (0.12341, 1e-6, 9.99911e-7, 2.0, 0.0)] == ["0.1235", "1e-06", "1e-06", "2", "0"]
    assert rounded_up(Fraction(3, 10), 2) == "0.3"
    assert rounded_up(Fraction(1, 3), 2) == "0.34"
    assert factor_of(0.5) == "e^0.5 = 1.649"
    assert factor_of(1000) == "e^1000"
    plan = plan_statistic(
        "mean", epsilon=0.123456789, delta=1.23456789e-7, lower=0.1, upper=1.23456789, error=0.0123456789
    )
    assert "within 0.0123456789 of" in plan.accuracy()
    assert "[0.1, 1.23456789]" in plan.accuracy()
    assert "e^0.123456789 = 1.132 plus" in plan.privacy()  # 1.1314...
    assert "(asked for: 1.23456789e-07)" in plan.privacy()
    printed = float(plan.privacy().partition("delta = ")[2].partition(" ")[0])
    assert plan.mechanism.delta(plan.epsilon) <= printed <= plan.mechanism.delta(plan.epsilon) * 1.001


def test_order_statistics_and_deviations_are_named_exactly() -> None:
    ranged: dict[str, Any] = {"epsilon": 1, "lower": 0, "upper": 10, "error": 1}
    assert "the true lower median (rank ⌈n/2⌉)" in plan_statistic("median", **ranged).accuracy()
    assert "0.9-quantile (rank ⌈0.9·n⌉" in plan_statistic("quantile", probability=0.9, **ranged).accuracy()
    assert "population standard deviation" in plan_statistic("std", **ranged).accuracy()
    even = PrivateHistogram(np.array([1.0, 2.0, 3.0, 4.0]), np.ones(4, dtype=np.int64))
    assert statistic("median", even) == 2
    assert statistic("std", even) == math.sqrt(1.25)


def test_nan_has_no_bucket() -> None:
    buckets = Buckets(0, 10, 1)
    values = np.array([0.5, math.nan, math.inf, -math.inf])
    assert buckets.index(values).tolist() == [0, NO_BUCKET, 4, 0]
    found, counts = count_rows(buckets.index(values))
    assert (found.tolist(), counts.tolist()) == ([0, 4], [2, 1])
    grid = Grid((0, 0), (1, 1), 0.5, "max")
    points = np.array([[0.1, 0.9], [math.nan, 0.5], [0.2, 0.8]])
    assert grid.index(points).tolist() == [[0, 0], [NO_BUCKET, 0], [0, 0]]
    rows, counts = count_rows(grid.index(points))
    assert (rows.tolist(), counts.tolist()) == ([[0, 0]], [2])
    labelled = np.column_stack([[-1, 1, 1], grid.index(points)])  # labels of points are records' own, -1 included
    assert count_rows(labelled)[0].tolist() == [[-1, 0, 0], [1, 0, 0]]


@pytest.mark.parametrize(
    ("lower", "upper", "error", "words"),
    [
        (1e16, 1e16 + 10, 1, "an error of at least 2048.0 for values up to"),
        (0, 1e16, 1, "an error of at least 2048.0"),
        (2**60 + 1, 2**61, 2**20, "lower to be a number that a double holds"),
        (0, 10**400, 1, "finite lower < upper"),
        (-1.7e308, 1.7e308, 1e300, "finite lower < upper"),
        (0, 1, 1e-13, "an error of at least"),
        (0, math.nan, 1, "finite lower < upper"),
    ],
)
def test_ranges_finer_than_doubles_are_refused(lower: float, upper: float, error: float, words: str) -> None:
    with pytest.raises(InvalidParameter, match=words):
        Buckets(lower, upper, error)
    with pytest.raises(InvalidParameter, match=words):
        Grid((lower,), (upper,), error)


@quick
@given(st.integers(-(2**52), 2**52), st.integers(1, 2**20), st.integers(0, 2**31))
def test_coarse_doubles_keep_the_error(lower: int, buckets: int, seed: int) -> None:
    """At the smallest error that is allowed rounding adds at most 5 units in the last place, as stated."""
    unit = math.ulp(float(abs(lower) + 2**52))
    made = Buckets(lower, lower + 2 * 1024 * unit * buckets, 1024 * unit)
    values = np.random.default_rng(seed).uniform(made.lower, made.upper, 50)
    moved = np.abs(made.centre(made.index(values)) - values)
    assert moved.max() <= made.error + 5 * math.ulp(max(abs(made.lower), abs(made.upper)))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"name": "max"}, "lower, upper and error"),
        ({"name": "mean", "lower": 1, "upper": 1, "error": 1}, "finite lower < upper"),
        ({"name": "mean", "lower": 0, "upper": 1, "error": 0}, "error > 0"),
        ({"name": "mean", "lower": 0, "upper": 2, "error": 2**-40 * 0.9}, "buckets"),
        ({"name": "mean", "lower": 0, "upper": 1, "error": 0.1, "probability": 0.5}, "no probability for mean"),
        ({"name": "mean", "lower": 0, "upper": 1, "error": 0.1, "k": 5}, "no k for mean"),
        ({"name": "mean", "lower": 0, "upper": 1, "error": 0.1, "max_values": 5}, "no max_values for mean"),
        ({"name": "mean", "lower": 0, "upper": 1, "error": 0.1, "read_as": "number"}, "no read_as for mean"),
        ({"name": "mean", "lower": 0, "upper": 1, "error": 0.1, "min_records": 9}, "drop with min_records"),
        ({"name": "mode", "drop": 0.1}, "max_values with drop or min_records for mode"),
        ({"name": "max-k", "k": 3, "min_records": 100}, "max_values with drop or min_records for max-k"),
        ({"name": "mode", "read_as": "date"}, "read_as to be one of number, text"),
        ({"name": "is-empty", "drop": 0.1}, "neither drop nor min_records for is-empty"),
        ({"name": "is-empty", "lower": 0}, "no range and no error for is-empty"),
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
    with pytest.raises(InvalidParameter, match="buckets on each axis"):
        Grid((0.0, 0.0), (1.0, 1.0), 2**-41.3)
    assert isinstance(plan_statistic("is-empty", epsilon=1), StatisticPlan)


def test_statistics_see_noisy_counts_alone() -> None:
    """The noise is drawn on every bar, and nothing else is kept of its count."""
    mechanism = TruncatedLaplace(Fraction(1, 2), 20)
    counts = np.array([100, 200, 0, 300], np.int64)
    with recorded(lambda _, size: -np.arange(1, size + 1, dtype=np.int64)) as draws:
        found = sanitise(np.array([4.0, 3.0, 2.0, 1.0]), counts, mechanism)
    assert [draw.law for draw in draws] == [mechanism.law]
    assert found.values.tolist() == [1.0, 3.0, 4.0]
    assert found.counts.tolist() == [297, 198, 99]


def test_values_outside_the_range_are_in_its_buckets() -> None:
    buckets = Buckets(0.0, 10.0, 0.5)
    assert buckets.number == 10
    assert buckets.index([-1e300, -0.1, 0.0, 9.999, 10.0, 10.1, 1e300]).tolist() == [0, 0, 0, 9, 9, 9, 9]
    grid = Grid((0.0, 0.0), (10.0, 10.0), 0.5, "max")
    assert grid.index([[-5.0, 50.0], [10.0, 0.0]]).tolist() == [[0, 9], [9, 0]]


@pytest.mark.parametrize("name", ["mean", "mode"])
def test_every_record_of_a_unit_is_paid_for(name: str) -> None:
    ranged: dict[str, Any] = {} if name == "mode" else {"lower": 0.0, "upper": 10.0, "error": 0.5}
    plan = plan_statistic(name, epsilon=1.0, delta=1e-6, max_records=4, **ranged)
    assert plan.mechanism.max_groups == 4
    assert plan.mechanism.delta(1.0) <= 1e-6
    atom = truncated_laplace.delta_one_bar(float(plan.mechanism.epsilon_per_group), plan.q)
    assert 4 * atom * (1 - 1e-5) <= 1e-6


def test_a_factor_is_rounded_up() -> None:
    for epsilon in (1e-9, 0.1, 0.5, 1.0, 3.0, 30.0):
        told = float(factor_of(epsilon).partition(" = ")[2].replace(",", ""))
        assert math.exp(epsilon) <= told <= 1.001 * math.exp(epsilon)
