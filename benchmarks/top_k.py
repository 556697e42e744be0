"""The largest groups of very many: each method beside a plain sort and beside DuckDB's ORDER BY ... LIMIT, in one run.

The counts are Zipf with many ties at the small end. The fastest of several turns counts; the plans are made before
the clock starts. From records, the engine groups as many records as there are groups and a fifth more, once with ORDER BY
and LIMIT inside its query and once with all groups leaving it.

    python benchmarks/top_k.py [--groups 10000000] [--k 100] [--repeats 3]
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from functools import partial

import duckdb
import numpy as np
import pyarrow as pa

import dphist as dp
from dphist.engines.duckdb.engine import DuckDBEngine
from dphist.engines.histogram import ContributionBounds, Histogram, largest_groups
from dphist.engines.query import GroupByQuery, Key
from dphist.run.top_k import privatise_largest


def generate(groups: int) -> Histogram:
    """Count of group i: 10^7/(i + 1), at least 1, in a random order; the keys are texts."""
    counts = np.maximum(10_000_000 // np.arange(1, groups + 1), 1)
    np.random.default_rng(1).shuffle(counts)
    with duckdb.connect() as connection:
        keys = connection.sql(f"SELECT 'https://example.org/' || i AS page FROM range({groups}) t(i)").to_arrow_table()
    return Histogram(keys, counts.astype(np.int64), ContributionBounds(10))


def records(groups: int) -> pa.Table:
    """One record of each group, and a fifth as many again in a few hundred groups."""
    with duckdb.connect() as connection:
        return connection.sql(
            "SELECT i AS unit, 'https://example.org/' || CASE WHEN i < $n THEN i ELSE CAST(sqrt(i - $n) AS BIGINT) END AS page"
            " FROM range($all) t(i)", params={"n": groups, "all": groups + groups // 5},
        ).to_arrow_table()  # fmt: skip


def fastest(work: Callable[[], object], repeats: int) -> float:
    """Seconds of the fastest turn."""
    best = float("inf")
    for _ in range(repeats):
        begin = time.perf_counter()
        work()
        best = min(best, time.perf_counter() - begin)
    return best


def main() -> None:
    """Measure and print one table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--groups", type=int, default=10_000_000)
    parser.add_argument("--k", type=int, default=100)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    histogram = generate(options.groups)
    table = histogram.keys.append_column("units", pa.array(histogram.counts))
    budget = {"k": options.k, "epsilon": 1.0, "delta": 1e-8}
    plans = {
        "correlated": dp.plan_top_k(method="correlated", **budget),
        "from-top, max_groups 10": dp.plan_top_k(method="from-top", max_groups=10, **budget),
        "ranked": dp.plan_top_k(method="ranked", **budget),
    }
    with duckdb.connect() as connection:
        connection.register("groups", table)
        query = f"SELECT * FROM groups ORDER BY units DESC, page LIMIT {options.k + 1}"
        rows = [
            ("DuckDB ORDER BY … LIMIT, no privacy", fastest(lambda: connection.sql(query).fetchall(), options.repeats))
        ]
    rows.append(("NumPy sort of the counts", fastest(lambda: np.sort(histogram.counts), options.repeats)))
    rows.append(
        ("largest groups, no privacy", fastest(lambda: largest_groups(histogram, options.k + 1), options.repeats))
    )
    for name, plan in plans.items():
        rows.append((name, fastest(partial(privatise_largest, histogram, plan), options.repeats)))
    source, whole = records(options.groups), GroupByQuery("unit", (Key("page"),))
    plan = plans["from-top, max_groups 10"]
    for name, work in [
        ("from records, LIMIT in the engine", lambda: dp.top_k(source, unit="unit", by="page", plan=plan)),
        (
            "from records, all groups leave it",
            lambda: privatise_largest(DuckDBEngine().histogram(source, whole, ContributionBounds(10)), plan),
        ),
    ]:
        rows.append((name, fastest(work, 1)))
    print(f"{options.groups:,} groups, k = {options.k}\n")
    for name, seconds in rows:
        print(f"  {name:<38} {seconds:8.3f} s  {seconds / options.groups * 1e9:7.1f} ns per group")
    print(f"\n  {'':<38} {'noise':>8}  {'needs above the next largest, 95 %':>36}")
    for name, plan in plans.items():
        made = plan.mechanism
        if isinstance(made, dp.mechanisms.CorrelatedTopK | dp.mechanisms.FromTop):
            noise = made.count_std if isinstance(made, dp.mechanisms.FromTop) else made.noise_std
            print(f"  {name:<38} {noise:8.2f}  {made.excess_released_with_95:36.1f}")


if __name__ == "__main__":
    main()
