"""Histograms with at most k non-empty groups, whatever the data: reductions and Misra-Gries sketches.

`reduce`: subtract the (k+1)-th largest count t (0 if there are at most k groups) and keep what is positive.

Why a reduction keeps neighbours close ([LR25] Lemma 4.1; csh.md). Let x and x' = x + v with v in {0,1}^d. Then t' is t or
t + 1. If t' = t, each max(x_i + v_i - t, 0) exceeds max(x_i - t, 0) by 0 or 1. If t' = t + 1, each
max(x_i + v_i - t - 1, 0) is below max(x_i - t, 0) by 0 or 1. So the results differ by a vector in {0,1}^d or in {0,-1}^d,
and the same holds after adding equal counts to both sides and reducing again. A unit lives in one block only, so by
induction over the merges one unit moves a whole sketch by a vector in {0,1}^d or {0,-1}^d: k-sparse monotonic, m = k.

How wrong its counts are. A reduction by t lowers at least k + 1 counters by t each, so it removes at least (k + 1) t of the
total. The total starts as the number P of distinct (unit, group) pairs, hence all reductions together subtract at most
P / (k + 1) from any count; none is ever too large.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dphist import checks
from dphist.engines.histogram import ContributionBounds, Histogram


class MisraGries:
    """A sketch of at most `sparsity` counters that takes in one block of units after another.

    Blocks must be formed by a hash of the unit, never by arrival: adding a unit must not move another to a new block.
    Holds `sparsity` counters and the block being added.
    """

    def __init__(self, sparsity: int, schema: pa.Schema) -> None:
        checks.check_whole("sparsity", sparsity)
        self._sparsity = sparsity
        self._keys = schema.empty_table()
        self._counts = np.zeros(0, dtype=np.int64)

    def add(self, keys: pa.Table, counts: NDArray[np.int64]) -> None:
        """Merge the exact counts of one block, each key at most once, and reduce."""
        names = [f"key_{position}" for position in range(keys.num_columns)]
        block = keys.rename_columns(names).append_column("units", pa.array(counts))
        state = self._keys.rename_columns(names).append_column("units", pa.array(self._counts))
        merged = pa.concat_tables([state, block]).group_by(names).aggregate([("units", "sum")])
        total = merged.column("units_sum").to_numpy().astype(np.int64, copy=False)
        cut = _cut(total, self._sparsity)
        kept = np.flatnonzero(total > cut)
        self._keys = merged.select(names).take(pa.array(kept)).rename_columns(keys.column_names)
        self._counts = total[kept] - cut

    def histogram(self) -> Histogram:
        """The sketch so far."""
        return Histogram(self._keys, self._counts, ContributionBounds(sparsity=self._sparsity))


def _cut(counts: NDArray[np.int64], sparsity: int) -> int:
    if len(counts) <= sparsity:
        return 0
    position = len(counts) - sparsity - 1
    return max(0, int(np.partition(counts, position)[position]))
