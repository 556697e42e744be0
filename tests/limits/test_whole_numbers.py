"""Whole numbers that are asked for, or that a file may hold: no part of one, no truth value, none beyond the public limit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from records import LaplaceRecords

import dphist as dp
from dphist.aggregates.count import Filled
from dphist.aggregates.tree import Tree
from dphist.cli.output import Outputs
from dphist.engines.base import check_sketch
from dphist.engines.duckdb.sketch import MisraGries
from dphist.engines.histogram import ContributionBounds, Histogram, largest_groups
from dphist.engines.query import GroupByQuery, Key, PerformanceSettings
from dphist.errors import DphistError
from dphist.ledger.charge import Receipt
from dphist.ledger.dataset import recommend
from dphist.mechanisms import continual, correlated_top_k, discrete, from_top, ranked
from dphist.mechanisms.tuning import Tuning
from dphist.planning.flexible import PrivateHistogram, max_k, own_function
from dphist.planning.profile import described
from dphist.planning.statistics import plan_statistic
from dphist.run.session import Account

BUDGET: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-6}
OPTIONS: tuple[dict[str, Any], ...] = (
    {"max_groups": 3, "mechanism": "laplace"},
    {"max_groups": 3, "mechanism": "sparse-gaussian"},
    {"sparsity": 30, "mechanism": "correlated-gaussian"},
    {"sparsity": 30, "noise": "discrete"},
    {"keys": 30, "max_groups": 20},
    {"keys": 3000, "max_groups": 300, "noise": "discrete"},
    {"keys": 30, "max_groups": 3, "delta": 0},
    {"keys_only": True, "mechanism": "voting"},
)
OBJECTS: tuple[Any, ...] = (
    *(dp.plan(**{**BUDGET, **options}).mechanism for options in OPTIONS),
    discrete.discrete_threshold(1.0, 1e-6, 3),
    LaplaceRecords(1, 1, 1.0, 21.0),
    continual.calibrate(1.0, 1e-6, 4, 2),
    correlated_top_k.calibrate(1.0, 1e-6, 3),
    from_top.calibrate(1.0, 1e-6, 3, 2),
    ranked.calibrate(1.0, 1e-6, 3, 10),
    Tuning(),
    Tree(0.0, 1.0),
    Filled("n", 0.0, 1.0),
    PerformanceSettings(threads=2),
    ContributionBounds(2),
    ContributionBounds(2, 9),
    Receipt("d", 3, "0" * 64),
    dp.plan(**BUDGET, max_groups=3).request,
)
FIELDS: dict[str, Callable[[Any], object]] = {
    f"{place} {type(one).__name__}.{field.name}": lambda value, one=one, name=field.name: replace(one, **{name: value})  # type: ignore[misc]
    for place, one in enumerate(OBJECTS)
    for field in fields(one)
    if type(getattr(one, field.name, None)) is int and field.init and field.name != "step_bits"
}


def statistic(name: str, **options: Any) -> object:
    return plan_statistic(name, lower=0, upper=9, error=1, **{**BUDGET, **options})


def session(**options: Any) -> object:
    return dp.Session.start("no/where", unit="u", **{**BUDGET, "results": 2, "queries": 2, **options})


PEOPLE = pa.table({"u": range(90), "k": ["a"] * 90})
HISTOGRAM = Histogram(pa.table({"k": ["a"]}), np.array([3]), ContributionBounds(1))
ACCOUNT = Account("u", 1.0, 1e-6, ranked.calibrate(1.0, 1e-6, 9, 9, queries=9))
CALLS: dict[str, Callable[[Any], object]] = {
    "k of a list": lambda x: dp.plan_top_k(k=x, **BUDGET),
    "k of a list from the top": lambda x: dp.plan_top_k(k=x, method="from-top", **BUDGET),
    "k of a ranked list": lambda x: dp.plan_top_k(k=x, method="ranked", **BUDGET),
    "groups of a list": lambda x: dp.plan_top_k(k=3, method="from-top", max_groups=x, **BUDGET),
    "shortlist": lambda x: dp.plan_top_k(k=1, method="ranked", shortlist=x, **BUDGET),
    "rows": lambda x: dp.plan(**BUDGET, max_groups=3, rows=x),
    "bars": lambda x: own_function(bars=x, q=1, records=9, error=1.0, eta=1.0),
    "records": lambda x: own_function(bars=1, q=1, records=x, error=1.0, eta=1.0),
    "q": lambda x: own_function(bars=1, q=x, records=9, error=1.0, eta=1.0),
    "records of a statistic": lambda x: statistic("max", min_records=x),
    "values of a unit": lambda x: statistic("max", max_values=x),
    "k of a statistic": lambda x: statistic("max-k", k=x),
    "sketch": lambda x: check_sketch(GroupByQuery("u", (Key("k"),)), x),
    "counters": lambda x: MisraGries(x, pa.schema([("k", pa.string())])),
    "bars of a plot": lambda x: dp.release(PEOPLE, unit="u", epsilon=1, delta=0).plot(x),
    "low threshold of a profile": lambda x: described("laplace", 3.0, 9.0, 3, None, None, None, x),
    "sparsity of a profile": lambda x: described("correlated-gaussian", 3.0, 9.0, None, x, None, None, 1),
    "records of a largest value": lambda x: max_k(PrivateHistogram(np.arange(3), np.arange(3)), x),
    "releases": lambda x: recommend(1.0, 1e-6, x),
    "rows that are shown": lambda x: Outputs(show=x),
    "results": lambda x: session(results=x),
    "queries": lambda x: session(queries=x),
    "shortlist of a session": lambda x: session(shortlist=x),
    "k of a query": ACCOUNT.reserve,
    "largest groups": lambda x: largest_groups(HISTOGRAM, x),
    "rounds": lambda x: continual.calibrate(1.0, 1e-6, x, 1),
    "groups of a round": lambda x: continual.calibrate(1.0, 1e-6, 4, x),
    "k of correlated noise": lambda x: correlated_top_k.calibrate(1.0, 1e-6, x),
}


@pytest.mark.parametrize("name", [*FIELDS, *CALLS])
@pytest.mark.parametrize("value", [True, 1.5, 2**40 + 1, -1, pytest.param(10**400, id="huge")])
def test_what_is_no_whole_number_within_the_limits_is_refused(name: str, value: Any) -> None:
    with pytest.raises(DphistError, match=r"whole number|of at (least|most)"):
        {**FIELDS, **CALLS}[name](value)
