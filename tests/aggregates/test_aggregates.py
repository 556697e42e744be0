"""Aggregates with the noise scripted to zero: against plain Python, and against answers that Google's documentation prints."""

from __future__ import annotations

import math
from collections import defaultdict
from statistics import fmean, pvariance
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dphist.aggregates import KINDS
from dphist.aggregates.base import merge
from dphist.aggregates.count import Rows
from dphist.aggregates.noisy_sums import NoisySum
from dphist.aggregates.quantile import Quantile
from dphist.aggregates.spread import StandardDeviation, Variance
from dphist.aggregates.total import SumOfUnit
from dphist.mechanisms.laplace import laplace_quantile
from example_numbers import examples
from quiet_releases import quiet

# The table of GoogleSQL's own tests: one group, three units, nulls in both columns.
UNITS = [1, 2, 3, 1, 2, 2, 1, 2, 3, 2]
WHOLE = [None, 2, 1, None, 1, 2, 1, 4, 2, 3]
DOUBLE = [None, 1.5, 1.5, 2.5, 3.5, None, -0.5, -1.5, 1.5, 2.5]
GOOGLE = pa.table({"unit": UNITS, "key": ["all"] * 10, "whole": WHOLE, "double": DOUBLE})


def test_the_answers_of_googlesql() -> None:
    row = quiet(
        GOOGLE,
        sums={"double": (0, 10)},
        means={"whole": (2, 3), "double": (-100, 100)},
        stds={"double": (2, 3), "whole": (2, 3)},
        variances={"double": (2, 3)},
        records=5,
    )["all"]
    assert row["sum_double"] == pytest.approx(2 + 6 + 3, abs=1e-4)
    assert row["mean_whole"] == pytest.approx(2.1333333333, abs=1e-4)
    assert row["mean_double"] == pytest.approx(1.3333333333, abs=1e-3)
    assert row["std_double"] == pytest.approx(0.35355339, abs=1e-4)
    assert row["std_whole"] == pytest.approx(0.43301270, abs=1e-4)
    assert row["variance_double"] == pytest.approx(0.125, abs=1e-4)


def test_who_has_no_value_takes_no_part() -> None:
    """Bounds (2, 3): a unit whose values are null adds neither 2 to a sum nor the centre to a mean."""
    table = pa.table(
        {"unit": [*range(8), 8, 9], "key": ["all"] * 10, "x": [2.0, 2.0, 2.0, 2.0, 2.5, 2.5, 2.5, 2.5, None, math.nan]}
    )
    row = quiet(table, sums={"x": (2, 3)}, means={"x": (2, 3)}, count_of=["x"])["all"]
    assert row["count"] == 10
    assert row["sum_x"] == pytest.approx(18, abs=1e-4)
    assert row["mean_x"] == pytest.approx(2.25, abs=1e-4)
    assert row["count_of_x"] == 8


records = st.lists(
    st.tuples(
        st.integers(0, 5),
        st.sampled_from("ab"),
        st.one_of(st.none(), st.just(math.nan), st.integers(-40, 90).map(lambda tenths: tenths / 8)),
        st.one_of(st.none(), st.sampled_from(["", "x"])),
    ),
    min_size=1,
    max_size=40,
)


@examples(10)
@given(rows=records, weight=st.integers(1, 3))
def test_aggregates_are_those_of_plain_python(rows: list[tuple[Any, ...]], weight: int) -> None:
    names = ("unit", "key", "x", "text")
    types = (pa.int64(), pa.string(), pa.float64(), pa.string())
    table = pa.table({n: pa.array([r[i] for r in rows], t) for i, (n, t) in enumerate(zip(names, types, strict=True))})
    bounds = (1.0, 6.0)
    found = quiet(
        table, sums={"x": bounds}, means={"x": bounds}, variances={"x": bounds}, count_of=["text"], records=weight
    )
    values: dict[str, dict[int, list[float]]] = defaultdict(lambda: defaultdict(list))
    texts: dict[str, set[int]] = defaultdict(set)
    for unit, key, x, text in rows:
        if x is not None and not math.isnan(x):
            values[key][unit].append(x)
        if text is not None:
            texts[key].add(unit)
    for key, row in found.items():
        own = values[key]
        clamped = [[min(max(x, 1.0), 6.0) for x in part] for part in own.values()]
        weighed = [(x, min(1.0, weight / len(part))) for part in clamped for x in part]
        assert row["sum_x"] == pytest.approx(sum(min(max(sum(part), 1.0), 6.0) for part in own.values()), abs=1e-3)
        assert row["count_of_text"] == len(texts[key])
        if own:
            assert row["mean_x"] == pytest.approx(fmean(min(max(fmean(p), 1), 6) for p in own.values()), abs=1e-3)
            total = sum(w for _, w in weighed)
            mean = sum(x * w for x, w in weighed) / total
            spread = sum((x - mean) ** 2 * w for x, w in weighed) / total
            assert row["variance_x"] == pytest.approx(spread, abs=2e-3)
        else:
            assert row["mean_x"] == 3.5  # nothing is known: the centre


def test_a_variance_of_records_is_the_plain_one_where_all_weigh_one() -> None:
    x = [float(i * i % 17) for i in range(30)]
    table = pa.table({"unit": [i // 3 for i in range(30)], "key": ["a"] * 30, "x": x})
    row = quiet(table, variances={"x": (0, 16)}, stds={"x": (0, 16)}, records=3)["a"]
    assert row["variance_x"] == pytest.approx(pvariance(x), abs=1e-3)
    assert row["std_x"] == pytest.approx(pvariance(x) ** 0.5, abs=1e-3)


@settings(max_examples=60, deadline=None)
@given(
    lower=st.floats(-100, 100),
    width=st.floats(0.01, 100),
    weight=st.sampled_from([0.25, 1.0, 3.0]),
    records=st.integers(1, 50),
)
def test_the_shares_of_an_aggregate_are_those_of_its_measures(
    lower: float, width: float, weight: float, records: int
) -> None:
    for kind in KINDS:
        bounds = (0.0, 1.0) if kind.from_zero else (lower, lower + width)
        column, probabilities = None if kind is Rows else "x", (0.5,) if kind is Quantile else ()
        own = records if kind.of_records else 1
        one = kind(column, *bounds, weight=weight, records=own, probabilities=probabilities)
        assert sum(measure.weight for measure in one.measures) == pytest.approx(weight)
    both = [
        Variance("x", lower, lower + width, 1.0, records),
        StandardDeviation("x", lower, lower + width, 2.0, records),
    ]
    measures = merge(both)
    assert len(measures) == 3
    assert sum(measure.weight for measure in measures) == pytest.approx(3.0)


def test_a_sum_reaches_to_zero() -> None:
    """Who has no value adds 0, also where that is outside the bounds: the sensitivity says so."""
    for lower, upper, sensitivity in ((2.0, 3.0, 1.5), (-3.0, -2.0, 1.5), (-1.0, 3.0, 2.0), (0.0, 4.0, 2.0)):
        assert SumOfUnit("x", lower, upper).sensitivity == sensitivity


def test_errors_of_a_spread_are_those_of_repeated_noise() -> None:
    """To first order: noise on the three sums moves the variance as far as its standard error says."""
    one = Variance("x", 0.0, 10.0)
    generator = np.random.default_rng(1)
    n, runs = 400.0, 20_000
    true = {"deviation": -300.0, "square": 800.0, "present": n / 2}
    stds = {"deviation": 12.0, "square": 30.0, "present": 4.0}
    count_std = 5.0
    counts = n + generator.normal(0, count_std, runs)
    parts = {}
    for measure in one.measures:
        std = stds[measure.kind]
        values = true[measure.kind] + generator.normal(0, std, runs)
        parts[measure.name] = NoisySum(measure, values, (np.full(runs, std),), counts, count_std)
    (column,) = one.columns(parts)
    assert column.values.std() == pytest.approx(column.std_errors.mean(), rel=0.05)
    root = StandardDeviation("x", 0.0, 10.0).columns(parts)[0]
    assert root.values.std() == pytest.approx(root.std_errors.mean(), rel=0.05)


@pytest.mark.parametrize("scales", [(1.0, 1.0, 1.0), (1.0, 0.3, 2.0), (0.0, 1.0, 0.0), (1.0, 1.02, 0.98, 1.01)])
def test_the_reach_of_several_laplace_noises_is_enough_and_not_too_much(scales: tuple[float, ...]) -> None:
    generator = np.random.default_rng(2)
    noise = sum(generator.laplace(0, scale, 400_000) for scale in scales)
    reach = float(laplace_quantile([np.array([scale]) for scale in scales], 0.05)[0])
    missed = float(np.mean(np.abs(noise) > reach))
    assert 0.02 < missed < 0.0515
