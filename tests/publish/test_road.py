"""Laws of the road from groups to a table: the drawn noise is the accounted noise, and each number is that of its own group."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray

import dphist as dp
from dphist.aggregates.numbers import LARGEST_SUM
from dphist.engines.duckdb.engine import DuckDBRecords
from dphist.engines.duckdb.pairs import DuckDBPairs
from dphist.engines.histogram import NO_BOUNDS, ContributionBounds, Histogram, LocalGroups, local_groups
from dphist.mechanisms import CorrelatedGaussian, GroupMechanism
from dphist.mechanisms.lattice import Kept
from dphist.noise import DiscreteLaplace, sample, sample_exactly
from dphist.noise.testing import SeededEntropy
from dphist.planning.statistics import plan_statistic
from dphist.run.job import Work, prepare, privatise
from dphist.run.release import Selection
from dphist.run.statistics import privatise_statistic
from dphist.run.table import draw_parts, noise_groups, noisy_columns, published
from dphist.run.top_k import privatise_list
from dphist.run.totals import noisy_units
from word_sources import drawn_from, without_permission, words_from

SELECTION = Selection("user", ("item",))
BUDGET: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-6}


class Zero:
    """All words are zero: every law draws its middle, 0."""

    def words(self, count: int) -> NDArray[np.uint64]:
        return np.zeros(count, dtype=np.uint64)


def table(**sizes: int) -> pa.Table:
    """Groups with so many units of their own; the value of a unit is the size of its group."""
    items = [item for item, size in sizes.items() for _ in range(size)]
    return pa.table({"user": range(len(items)), "item": items, "value": [float(sizes[item]) for item in items]})


def released(source: pa.Table, mechanism: GroupMechanism, **options: Any) -> dp.Release:
    """A release by a mechanism of the test's own; without noise."""
    job = prepare(source, **{"unit": "user", "by": "item", **BUDGET, **options})
    return drawn_from(Zero(), replace(job, plan=dp.Plan(job.plan.request, mechanism)).run)


def rows(found: dp.Release, column: str = "count") -> dict[str, float]:
    listed = found.to_arrow()
    return dict(zip(listed["item"].to_pylist(), listed[column].to_pylist(), strict=True))


SPARSE = dp.SparseGaussian(max_groups=50, noise_std=1e-3, threshold=1.0)


@pytest.mark.parametrize("options", [{"max_groups": 2}, {"mechanism": "adaptive"}, {}], ids=str)
def test_the_total_has_the_noise_that_it_is_charged_for(options: dict[str, Any]) -> None:
    plan = dp.plan(**BUDGET, total=True, **options)
    scale = plan.request.total_scale
    assert scale is not None
    assert 1 / scale + plan.request.choice_epsilon + plan.request.mechanism_epsilon <= plan.epsilon
    source = table(a=400, b=300)
    drawn = []
    for seed in range(8):
        noise = drawn_from(SeededEntropy(seed), sample_exactly, DiscreteLaplace(Fraction(scale)), 2).tolist()
        found = drawn_from(SeededEntropy(seed), noisy_units, (600, 100), plan.request)
        assert found == [600 + noise[0], 100 + noise[1]]
        assert noise[0] != noise[1]
    for seed in range(3):
        run = prepare(source, unit="user", by="item", plan=plan)
        drawn.append(drawn_from(SeededEntropy(seed), run.run).total)
    assert drawn_from(Zero(), prepare(source, unit="user", by="item", plan=plan).run).total == 700
    assert len(set(drawn)) > 1


def test_sums_have_the_noise_of_their_law() -> None:
    plan = dp.plan(**BUDGET, max_groups=3, sums={"value": (0, 9)}, rows=4)
    steps = np.arange(40) * 1000
    groups = {"units": np.full(40, 500), "steps_1": steps, "steps_2": -steps}
    kept = Kept(np.array([3, 1, 30]), np.full(3, 500), 0)
    found = drawn_from(SeededEntropy(4), draw_parts, plan, kept, groups)
    with words_from(SeededEntropy(4)):
        for position, noisy in enumerate(plan.measures, 1):
            drawn = sample(noisy.law, 3)
            assert len(set(drawn.tolist())) == 3
            assert np.asarray(found[noisy.name]).tolist() == (groups[f"steps_{position}"][kept.index] + drawn).tolist()


def test_sums_beyond_the_limit_saturate_before_noise() -> None:
    plan = dp.plan(**BUDGET, max_groups=3, sums={"value": (0, 9)})
    groups = {"units": np.full(3, 9), "steps_1": np.array([2**63 - 1, -(2**63), 7])}
    found = drawn_from(Zero(), draw_parts, plan, Kept(np.arange(3), np.full(3, 9), 0), groups)
    assert np.asarray(found["sum_value"]).tolist() == [LARGEST_SUM, -LARGEST_SUM, 7]


def test_the_sum_beside_a_key_is_that_of_its_group() -> None:
    """Groups that are not released stand between those that are."""
    sizes = {"a": 1, "b": 5, "c": 1, "d": 2, "e": 1, "f": 4, "g": 3}
    found = released(table(**sizes), SPARSE, sums={"value": (0, 8)}, rows=2, max_groups=50)
    kept = {item: size for item, size in sizes.items() if size > 1}
    assert rows(found) == kept
    assert rows(found, "sum_value") == pytest.approx({item: size**2 for item, size in kept.items()}, abs=1e-4)
    assert rows(found, "rows") == kept


def test_sums_and_means_are_computed_with_the_count_given_release() -> None:
    """A noisy count near the threshold is too large; divided by it a mean would be too close to the centre."""
    options: dict[str, Any] = {"sums": {"value": (0, 8)}, "means": {"other": (0, 10)}, "max_groups": 10}
    plan = prepare(table(a=1), unit="user", by="item", **BUDGET, **options).plan
    mechanism = plan.mechanism
    assert mechanism.threshold is not None
    noisy = mechanism.threshold + mechanism.noise_std * np.array([0.25, 1.0, 60.0])
    steps = np.rint(np.ldexp(noisy, mechanism.lattice_bits)).astype(np.int64)
    million = np.array([10**6, 10**6, 10**6])
    recentred = {"sum_value": np.array([7, 8, 9]), "mean_other": million, "present_other": np.array([130, 140, 150])}
    columns = noisy_columns(plan, Kept(np.arange(3), steps, mechanism.lattice_bits), recentred, 0.95)
    assert columns[0].plain is not None
    found = mechanism.given_release(columns[0].plain, 0.95)
    values = published(columns, mechanism, 0.95)
    assert values["count"].tolist() == found.counts.tolist()
    assert found.bounds is not None
    assert values["count_low"].tolist() == found.bounds[0].tolist()
    assert values["count_noisy"].tolist() == np.ldexp(steps.astype(float), -mechanism.lattice_bits).tolist()
    assert (values["count"][:2] < values["count_noisy"][:2] - 0.2 * mechanism.noise_std).all()
    summed, averaged, _ = (noisy.measure for noisy in plan.measures)
    present = recentred["present_other"] / 2 + found.counts / 2
    assert values["sum_value"] == pytest.approx(4 * found.counts + recentred["sum_value"] * summed.step)
    assert values["mean_other"] == pytest.approx(5 + recentred["mean_other"] * averaged.step / present)
    std = plan.measures[0].noise_std
    assert values["sum_value_std_error"] == pytest.approx(np.hypot(std, 4 * found.std_errors))


def test_more_groups_than_the_sparsity_are_cut_on_the_road() -> None:
    """The bound is public and nobody checks the data: what is beyond it is subtracted, or one unit could move all groups."""
    mechanism = CorrelatedGaussian(3, 3, 1e-3, 0.5, 1.0)
    found = released(table(a=9, b=1, c=5, d=3, e=3), mechanism, sparsity=3)
    assert rows(found) == {"a": 6.0, "c": 2.0}
    assert rows(released(table(a=9, c=5, d=3), mechanism, sparsity=3)) == {"a": 9.0, "c": 5.0, "d": 3.0}


def test_groups_share_the_common_noise() -> None:
    """With hardly any noise of their own, all groups are off by the same amount, in one piece or in two."""
    mechanism = CorrelatedGaussian(8, 8, 0.1, 1e6, 1.0)
    plan = dp.Plan(prepare(table(a=1), unit="user", by="item", sparsity=8, **BUDGET).plan.request, mechanism)
    counts = np.full(8, 5000)
    histogram = Histogram(pa.table({"item": list("abcdefgh")}), counts, ContributionBounds(8))
    offsets = []
    for seed in range(5):
        found = drawn_from(SeededEntropy(seed), Work(plan, SELECTION).from_groups, local_groups(histogram))
        off = np.array(list(rows(found).values())) - 5000
        assert np.ptp(off) < 2
        offsets.append(off[0])
    shared = 777 << mechanism.lattice_bits
    parts = noise_groups(plan, None, shared)
    with words_from(SeededEntropy(9)):
        for part in (counts[:3], counts[3:]):
            assert parts({"units": part}).columns["count"] == pytest.approx(5777, abs=2)
    assert np.abs(offsets).max() > 20  # the common part has a standard deviation of 100


def test_a_listed_group_may_not_be_missing() -> None:
    plan = dp.plan(**BUDGET, keys=3)
    for number in (2, 4):
        keys = pa.table({"item": [f"i{i}" for i in range(number)]})
        histogram = Histogram(keys, np.full(number, 50), ContributionBounds(3), listed=True)
        with pytest.raises(dp.InvalidParameter, match="all 3 listed groups"):
            privatise(histogram, plan, SELECTION)


@pytest.mark.parametrize("most", [1, 2, 5])
def test_a_unit_is_counted_in_as_many_groups_as_its_plan_pays_for(most: int) -> None:
    source = pa.table({"user": [user for user in range(80) for _ in "abcdef"], "item": list("abcdef") * 80})
    found = released(source, dp.SparseGaussian(max_groups=most, noise_std=1e-3, threshold=1.0), max_groups=most)
    assert sum(rows(found).values()) == 80 * most


def test_a_statistic_needs_a_bounded_histogram() -> None:
    plan = plan_statistic("max", epsilon=1, delta=1e-6, lower=0, upper=90, error=9, max_records=2)
    keys = pa.table({"bucket": [0, 1]})
    counts = np.array([5000, 5000])
    privatise_statistic(Histogram(keys, counts, ContributionBounds(2)), plan)
    for bounds in (ContributionBounds(3), ContributionBounds()):
        with pytest.raises(dp.InvalidParameter, match="bounded to 2"):
            privatise_statistic(Histogram(keys, counts, bounds), plan)


def test_a_list_with_a_bound_needs_a_bounded_histogram() -> None:
    plan = dp.plan_top_k(k=2, method="from-top", max_groups=2, **BUDGET)
    keys, counts = pa.table({"item": list("abc")}), np.array([9000, 5000, 1000])
    assert privatise_list(Histogram(keys, counts, ContributionBounds(2)), plan).table.num_rows == 2
    for bounds in (ContributionBounds(3), ContributionBounds()):
        with pytest.raises(dp.InvalidParameter, match="bounded to 2"):
            privatise_list(Histogram(keys, counts, bounds), plan)


def test_whether_there_is_anyone_is_a_question_about_units() -> None:
    """Many units in one bar are somebody, however few bars there are; many empty bars are nobody."""
    plan = plan_statistic("is-empty", epsilon=1, delta=1e-6)
    for counts, empty in (([5000], False), ([0] * 5000, True)):
        keys = pa.table({"bar": range(len(counts))})
        histogram = Histogram(keys, np.array(counts, np.int64), ContributionBounds(1))
        assert privatise_statistic(histogram, plan).value is empty


def roads(folder: Path) -> dict[str, Callable[..., object]]:
    """Everything that draws noise for a caller."""
    about: dict[str, Any] = {"unit": "user", "by": "item", **BUDGET}
    session = dp.Session.start(folder / "s.json", unit="user", results=5, queries=2, **BUDGET)
    stream = dp.Continual.start(folder / "stream", rounds=3, max_groups=1, **about)
    counted = Histogram(pa.table({"item": ["a"]}), np.array([500]), ContributionBounds(1))
    largest = dp.plan_top_k(k=1, **BUDGET, method="from-top")
    return {
        "release": lambda source, **more: dp.release(source, max_groups=2, **about, **more),
        "job": lambda source, **more: prepare(source, max_groups=2, **about).run(**more),
        "adaptive": lambda source, **more: prepare(source, **about).run(**more),
        "top-k": lambda source, **more: dp.top_k(source, k=1, **about, **more),
        "largest": lambda _, **more: dp.release_largest(
            pa.table({"item": ["a", "b"], "n": [300, 2]}), count="n", plan=largest, **more
        ),
        "stat": lambda source, **more: dp.stat(
            "max", source, unit="user", column="value", lower=0, upper=90, error=9, **BUDGET, **more
        ),
        "session": lambda source, **more: session.query(source, by="item", k=1, **more),
        "stream": lambda source, **more: stream.add(source, "one", **more),
        "batch": lambda _, **more: stream.add_histogram(counted, "one", **more),
        "bounds": lambda source, **more: dp.bounds(source, unit="user", column="value", epsilon=1, **more),
    }


def test_no_road_takes_another_source_of_noise(tmp_path: Path) -> None:
    """None has it as an argument, and none draws from a source whose permission has ended."""
    read: list[None] = []
    data = table(a=400, b=300)

    def batches() -> Iterator[pa.RecordBatch]:
        read.append(None)
        yield from data.to_batches()

    for name, road in roads(tmp_path).items():
        with pytest.raises((TypeError, dp.InvalidParameter), match="entropy"):
            road(pa.RecordBatchReader.from_batches(data.schema, batches()), entropy=SeededEntropy(1))
        assert read == [], name
        with without_permission(SeededEntropy(1)), pytest.raises(dp.InvalidParameter, match="SystemEntropy"):
            road(data)


@pytest.mark.parametrize("options", [{"max_groups": 2}, {"sketch": 3}, {"keys": ["a", "b"]}])
def test_an_engine_shows_what_it_has_bounded(options: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """The road takes groups from any engine, but not without evidence: an engine that forgets to bound is refused."""
    source = table(a=400, b=300)
    assert dp.release(source, unit="user", by="item", **BUDGET, **options).to_arrow().num_rows > 0
    monkeypatch.setattr(DuckDBRecords, "groups", unbounded(DuckDBRecords.groups))
    monkeypatch.setattr(DuckDBRecords, "sketch", unbounded(DuckDBRecords.sketch))
    monkeypatch.setattr(DuckDBPairs, "groups", unbounded(DuckDBPairs.groups))
    with pytest.raises(dp.InvalidParameter, match="bounded to"):
        dp.release(source, unit="user", by="item", **BUDGET, **options)


def unbounded(count: Callable[..., LocalGroups]) -> Callable[..., LocalGroups]:
    return lambda *asked: replace(count(*asked), bounds=NO_BOUNDS)


def test_a_table_of_other_keys_is_not_published_as_the_list() -> None:
    plan = dp.plan(**BUDGET, keys=2, max_groups=1)
    histogram = Histogram(pa.table({"item": ["a", "b"]}), np.array([5, 9]), ContributionBounds(1), listed=True)
    assert privatise(histogram, plan, SELECTION).to_arrow().num_rows == 2
    with pytest.raises(dp.InvalidParameter, match="public list"):
        privatise(replace(histogram, listed=False), plan, SELECTION)
