"""The largest groups of a histogram, as a plain ORDER BY ... LIMIT would give them."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dphist import checks
from dphist.histogram.histogram import Histogram


def largest_groups(histogram: Histogram, most: int) -> Histogram:
    """The `most` largest groups, largest first, equal counts in the order of their keys.

    That order depends on the keys alone. It has to: an order that the data could change would let one unit exchange every
    group of the list that has the smallest count in it.
    """
    checks.check_whole("most", most)
    counts = histogram.counts
    if len(counts) <= most:
        return histogram.take(_in_order(histogram, np.arange(len(counts)), len(counts)))
    smallest = np.partition(counts, len(counts) - most)[len(counts) - most]
    larger = np.flatnonzero(counts > smallest)
    tied = np.flatnonzero(counts == smallest)
    first = _in_order(histogram, larger, len(larger))
    return histogram.take(np.concatenate([first, _in_order(histogram, tied, most - len(larger))]))


def _in_order(histogram: Histogram, positions: np.typing.NDArray[np.int64], most: int) -> np.typing.NDArray[np.int64]:
    """The first of some positions by count, largest first, and then by key."""
    keys = histogram.keys.take(pa.array(positions))
    table = keys.rename_columns([f"key_{i}" for i in range(keys.num_columns)])
    table = table.append_column("units", pa.array(histogram.counts[positions]))
    order = [("units", "descending"), *((f"key_{i}", "ascending") for i in range(keys.num_columns))]
    if most < len(positions) // 16:
        try:
            return np.asarray(positions[pc.select_k_unstable(table, most, order).to_numpy()])
        except pa.ArrowNotImplementedError:  # a type of key without a partial sort
            pass
    return np.asarray(positions[pc.sort_indices(table, sort_keys=order).to_numpy()[:most]])
