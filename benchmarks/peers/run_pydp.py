"""PyDP: count units per item with Gaussian noise, each unit in at most ten items.

    python run_pydp.py EVENTS.parquet

PyDP has no group by: bounding and counting are plain Python, its Gaussian group selection and its Gaussian mechanism do the
rest, each with half of epsilon and delta.
"""

from __future__ import annotations

import math
import random
import sys
from collections import Counter, defaultdict

import pyarrow.parquet as pq
from pydp.algorithms.numerical_mechanisms import GaussianMechanism  # type: ignore[import-not-found, unused-ignore]
from pydp.algorithms.partition_selection import (  # type: ignore[import-not-found, unused-ignore]
    create_partition_strategy,
)
from timing import report

EPSILON, DELTA, MAX_GROUPS = 1.0, 1e-8, 10


def run(path: str) -> int:
    """Bound in Python, then select and add noise group by group."""
    table = pq.read_table(path, columns=["user", "item"])
    items: defaultdict[int, set[int]] = defaultdict(set)
    for user, item in zip(table["user"].to_pylist(), table["item"].to_pylist(), strict=True):
        items[user].add(item)
    counts: Counter[int] = Counter()
    for own in items.values():
        counts.update(own if len(own) <= MAX_GROUPS else random.sample(sorted(own), MAX_GROUPS))
    select = create_partition_strategy("gaussian", EPSILON / 2, DELTA / 2, MAX_GROUPS)
    noise = GaussianMechanism(EPSILON / 2, DELTA / 2, math.sqrt(MAX_GROUPS))
    released = {item: noise.add_noise(count) for item, count in counts.items() if select.should_keep(count)}
    return len(released)


if __name__ == "__main__":
    report(run, sys.argv[1])
