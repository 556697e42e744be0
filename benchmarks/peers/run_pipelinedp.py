"""PipelineDP on its local backend: count units per item with Gaussian noise, each unit in at most ten items.

    python run_pipelinedp.py EVENTS.parquet

Selects groups by a threshold on the noisy counts themselves, so that nothing is spent on selection alone.
"""

from __future__ import annotations

import sys
from typing import Any

import pipeline_dp  # type: ignore[import-not-found, unused-ignore]
import pyarrow.parquet as pq
from timing import report

EPSILON, DELTA, MAX_GROUPS = 1.0, 1e-8, 10


def counts(backend: Any, rows: Any, epsilon: float, delta: float, max_groups: int) -> Any:
    """(item, (noisy number of units,)) of the selected items, in the collection of a backend."""
    accountant = pipeline_dp.NaiveBudgetAccountant(total_epsilon=epsilon, total_delta=delta)
    engine = pipeline_dp.DPEngine(accountant, backend)
    parameters = pipeline_dp.AggregateParams(
        metrics=[pipeline_dp.Metrics.PRIVACY_ID_COUNT],
        noise_kind=pipeline_dp.NoiseKind.GAUSSIAN,
        max_partitions_contributed=max_groups,
        max_contributions_per_partition=1,
        partition_selection_strategy=pipeline_dp.PartitionSelectionStrategy.GAUSSIAN_THRESHOLDING,
        post_aggregation_thresholding=True,
    )
    extractors = pipeline_dp.DataExtractors(
        privacy_id_extractor=lambda row: row[0],
        partition_extractor=lambda row: row[1],
        value_extractor=lambda row: 0,
    )
    result = engine.aggregate(rows, parameters, extractors)
    accountant.compute_budgets()
    return result


def run(path: str) -> int:
    """Read the pairs into Python objects, as the local backend needs them, and release."""
    table = pq.read_table(path, columns=["user", "item"])
    rows = list(zip(table["user"].to_pylist(), table["item"].to_pylist(), strict=True))
    return len(list(counts(pipeline_dp.LocalBackend(), rows, EPSILON, DELTA, MAX_GROUPS)))


if __name__ == "__main__":
    report(run, sys.argv[1])
