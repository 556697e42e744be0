"""Private bounds: every histogram that is drawn is paid for, and what is chosen and told follows from noisy numbers alone."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import dphist as dp
from dphist.aggregates.spread import Deviation
from dphist.engines.buckets import BUCKETS, OF_A_SIGN, upper_ends
from dphist.engines.duckdb.engine import DuckDBEngine
from dphist.engines.query import GroupByQuery, Key
from dphist.ledger.accountant import price
from dphist.noise import DiscreteLaplace
from dphist.run.bounds import spend_of_bounds
from dphist.run.chosen_bounds import read_sizes, share_outside
from drawn_laws import Draw, Integers, Noise, recorded, silence

UNITS = 600
BUDGET: dict[str, Any] = {"epsilon": 2.0, "delta": 1e-6, "max_groups": 1, "total": True}
AUTO: dict[str, dict[str, Any]] = {
    "one": {"sums": {"x": "auto"}},
    "variance and std": {"variances": {"x": "auto"}, "stds": {"x": "auto"}},
    "sum and mean": {"sums": {"x": "auto"}, "means": {"x": (0, "auto")}},
    "two columns": {"sums": {"x": "auto", "y": "auto"}, "rows": "auto"},
    "quantiles": {"medians": {"x": "auto"}, "quantiles": {"x": (0.9, "auto", "auto")}},
}
HISTOGRAMS = {"one": 1, "variance and std": 1, "sum and mean": 2, "two columns": 3, "quantiles": 1}


def table(scale: float, kept: int) -> pa.Table:
    """As many units and groups as in any other; in both columns only the first units have values."""
    place = np.arange(UNITS)
    x = pa.array(scale * (1 + place % 7), mask=place >= kept)
    return pa.table({"unit": place, "key": [f"k{i % 2}" for i in range(UNITS)], "x": x, "y": x})


FULL, SPARSE = table(3.0, UNITS), table(40.0, 250)


@cache
def exact(scale: float, kept: int) -> Integers:
    """How many units have a value of which size."""
    query = GroupByQuery("unit", (Key("key"),), (Deviation("x", 0.0, 1.0),))
    with DuckDBEngine().open(table(scale, kept), query) as records:
        return records.sizes(1)


def noise_for(histogram: Integers) -> Noise:
    """Noise with which every histogram of sizes comes out as the same one."""
    shown = exact(3.0, UNITS) + (np.arange(BUCKETS) * 7 % 11 - 5)
    return lambda _, size: shown - histogram if size == BUCKETS else np.zeros(size, np.int64)


def histograms(draws: list[Draw]) -> list[Fraction]:
    """The epsilon that each histogram of sizes costs: one unit changes one bucket by one."""
    laws = [draw.law for draw in draws if len(draw.noise) == BUCKETS]
    return [1 / law.scale for law in laws if isinstance(law, DiscreteLaplace)]


@pytest.mark.parametrize("of", ["record", "sum", "mean"])
@pytest.mark.parametrize("epsilon", [0.3, 1.0])
def test_bounds_by_themselves_draw_what_they_charge(epsilon: float, of: Any) -> None:
    with recorded() as draws:
        dp.bounds(FULL, unit="unit", column="x", by="key", of=of, epsilon=epsilon)
    paid = sum(histograms(draws))
    assert len(histograms(draws)) == len(draws) > 0
    assert paid <= Fraction(epsilon)
    assert float(paid) == pytest.approx(epsilon, rel=1e-9)
    assert price(spend_of_bounds(epsilon, "unit").event, epsilon).epsilon == epsilon


@pytest.mark.parametrize("name", AUTO)
def test_every_histogram_of_a_release_is_paid_for(name: str) -> None:
    """Aggregates of one source share one, and all of them cost what the plan keeps for bounds."""
    plan = dp.plan(**BUDGET, **AUTO[name])
    with recorded() as draws:
        dp.release(FULL, unit="unit", by="key", plan=plan)
    paid = histograms(draws)
    assert len(paid) == HISTOGRAMS[name]
    assert sum(paid) <= Fraction(plan.request.bounds_epsilon)
    assert float(sum(paid)) == pytest.approx(0.2, rel=1e-9)


def outcome(found: Any) -> Any:
    return found.to_data() if isinstance(found, dp.PrivateBounds) else [one.to_data() for one in found.bounds]


OUTCOMES: dict[str, Callable[[pa.Table], Any]] = {
    "bounds": lambda source: dp.bounds(source, unit="unit", column="x", epsilon=1.0),
    "one end": lambda source: dp.bounds(source, unit="unit", column="x", epsilon=1.0, lower=0.0, outside=0.45),
    "release": lambda source: dp.release(source, unit="unit", by="key", **BUDGET, **AUTO["variance and std"]),
}


@pytest.mark.parametrize("name", OUTCOMES)
def test_what_is_told_follows_from_the_noisy_histogram_alone(name: str) -> None:
    """Two tables with other values, and fewer: under noise that makes their histograms equal, everything told is equal."""
    found = []
    for source, histogram in ((FULL, exact(3.0, UNITS)), (SPARSE, exact(40.0, 250))):
        with recorded(noise_for(histogram)):
            found.append(outcome(OUTCOMES[name](source)))
    assert found[0] == found[1]
    assert name != "one end" or found[0]["outside"] > 0.2
    with recorded(silence):
        assert outcome(OUTCOMES[name](SPARSE)) != found[0]


def test_the_share_that_is_outside_is_beyond_both_ends() -> None:
    """A tenth of units have -100, seven tenths 1, two tenths 100."""
    histogram = np.zeros(BUCKETS, np.int64)
    for size, number in ((-100.0, 1_000), (1.0, 7_000), (100.0, 2_000)):
        place = int(np.searchsorted(upper_ends(), abs(size), side="right"))
        histogram[OF_A_SIGN + 1 + place if size > 0 else OF_A_SIGN - 1 - place] = number
    sizes = read_sizes(histogram, 1.0)
    assert sizes is not None
    ends = {(-10.0, 10.0): 0.3, (-1000.0, 10.0): 0.2, (-10.0, 1000.0): 0.1, (-1000.0, 1000.0): 0.0}
    assert {both: share_outside(sizes, *both) for both in ends} == pytest.approx(ends, abs=1e-3)
