"""OpenDP: count units per item with Gaussian noise and a threshold, each unit in at most ten items.

    python run_opendp.py documented|fastest|measurement EVENTS.parquet

documented, fastest: its Polars interface, which bounds, counts, adds noise and thresholds, all from one query.
measurement: bounding and counting written by hand in Polars, then its `make_gaussian_threshold` on the counts.

Both spend half of delta on the Gaussian noise (as zCDP) and half on the threshold.
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import opendp.prelude as dp
import polars as pl
from timing import report

EPSILON, DELTA, MAX_GROUPS = 1.0, 1e-8, 10


def rho() -> float:
    """The zCDP budget that gives epsilon at half of delta, by the standard conversion."""
    tail = math.log(2 / DELTA)
    return (math.sqrt(EPSILON + tail) - math.sqrt(tail)) ** 2


def with_context(path: str, truncate: Callable[[Any], Any]) -> int:
    """Its query interface for data with an identifier.

    `keep="first"`, the groups that come first in sorted order, is not a fair sample of a unit's groups, but it is what works:
    `keep="sample"` of OpenDP 0.16 fails on this query with the Polars that it asks for.
    """
    context = dp.Context.compositor(
        data=pl.scan_parquet(path),
        privacy_unit=dp.unit_of(contributions=1, identifier="user"),
        privacy_loss=dp.loss_of(rho=rho(), delta=DELTA / 2),
        split_evenly_over=1,
    )
    query = truncate(context.query()).group_by("item").agg(dp.len(signed=True))
    return int(query.release().collect().height)


def as_documented(query: Any) -> Any:
    """The order and the choice of records that its user guide shows."""
    return query.truncate_per_group(1, by=["item"]).truncate_num_groups(MAX_GROUPS, by=["item"], keep="first")


def fastest(query: Any) -> Any:
    """The other order, and the first record instead of a random one: the fastest found here."""
    return query.truncate_num_groups(MAX_GROUPS, by=["item"], keep="first").truncate_per_group(
        1, by=["item"], keep="first"
    )


def with_measurement(path: str) -> int:
    """The bounding is ours to get right; OpenDP sees a dictionary of counts."""
    pairs = pl.scan_parquet(path).select("user", "item").unique()
    order = pl.struct("user", "item").hash(seed=time.time_ns()).alias("order")
    kept = pairs.with_columns(order).group_by("user").agg(pl.col("item").bottom_k_by("order", MAX_GROUPS))
    counts = kept.explode("item").group_by("item").agg(pl.len()).collect()
    domain = dp.map_domain(dp.atom_domain(T=int), dp.atom_domain(T=int))
    metric = dp.l02inf_distance(dp.absolute_distance(T=int))

    def threshold_release(scale: float, threshold: int) -> dp.Measurement:
        return dp.m.make_gaussian_threshold(domain, metric, scale=scale, threshold=threshold)

    change = (MAX_GROUPS, math.isqrt(MAX_GROUPS - 1) + 1, 1)  # groups, the l2 distance as a whole number, per group
    scale = dp.binary_search(lambda s: threshold_release(s, 10**6).map(change)[0] <= rho(), bounds=(1.0, 1e4))
    threshold = dp.binary_search(lambda t: threshold_release(scale, t).map(change)[1] <= DELTA / 2, bounds=(1, 10**6))
    noisy = threshold_release(scale, threshold)(dict(zip(counts["item"], counts["len"], strict=True)))
    return len(noisy)


WAYS: dict[str, Callable[[str], int]] = {
    "documented": partial(with_context, truncate=as_documented),
    "fastest": partial(with_context, truncate=fastest),
    "measurement": with_measurement,
}

if __name__ == "__main__":
    dp.enable_features("contrib")
    report(WAYS[sys.argv[1]], sys.argv[2])
