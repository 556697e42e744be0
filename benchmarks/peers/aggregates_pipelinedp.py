"""PipelineDP on its local backend: one aggregate per item with given bounds, each unit in at most ten items.

python aggregates_pipelinedp.py EVENTS.parquet sums|means|variances|quantiles|rows COLUMN UPPER
"""

from __future__ import annotations

import json
import sys
from typing import Any

import pipeline_dp  # type: ignore[import-not-found, unused-ignore]
import pyarrow.parquet as pq

EPSILON, DELTA, MAX_GROUPS = 1.0, 1e-8, 10


def parameters(kind: str, upper: float) -> Any:
    """Bounds per unit and group for sums and rows, per record for the others, one record of a unit in a group."""
    metrics = pipeline_dp.Metrics
    metric = {
        "sums": metrics.SUM,
        "means": metrics.MEAN,
        "variances": metrics.VARIANCE,
        "quantiles": metrics.PERCENTILE(50),
        "rows": metrics.COUNT,
    }[kind]
    common: dict[str, Any] = {
        "metrics": [metric],
        "noise_kind": pipeline_dp.NoiseKind.GAUSSIAN,
        "max_partitions_contributed": MAX_GROUPS,
        "partition_selection_strategy": pipeline_dp.PartitionSelectionStrategy.GAUSSIAN_THRESHOLDING,
    }
    if kind == "rows":
        return pipeline_dp.AggregateParams(**common, max_contributions_per_partition=int(upper))
    if kind == "sums":
        bounds = {"min_sum_per_partition": 0.0, "max_sum_per_partition": upper}
        return pipeline_dp.AggregateParams(**common, **bounds, max_contributions_per_partition=1)
    return pipeline_dp.AggregateParams(**common, min_value=0.0, max_value=upper, max_contributions_per_partition=1)


def main(path: str, kind: str, column: str, upper: str) -> None:
    """Print items and values as JSON."""
    named = ["user", "item", *([] if kind == "rows" else [column])]
    table = pq.read_table(path, columns=named)
    values = [0.0] * table.num_rows if kind == "rows" else table[column].to_pylist()
    rows = list(zip(table["user"].to_pylist(), table["item"].to_pylist(), values, strict=True))
    accountant = pipeline_dp.NaiveBudgetAccountant(total_epsilon=EPSILON, total_delta=DELTA)
    engine = pipeline_dp.DPEngine(accountant, pipeline_dp.LocalBackend())
    extractors = pipeline_dp.DataExtractors(
        privacy_id_extractor=lambda row: row[0],
        partition_extractor=lambda row: row[1],
        value_extractor=lambda row: row[2],
    )
    result = engine.aggregate(rows, parameters(kind, float(upper)), extractors)
    accountant.compute_budgets()
    json.dump({item: float(next(iter(found))) for item, found in result}, sys.stdout)


if __name__ == "__main__":
    main(*sys.argv[1:])
