"""PipelineDP on its Spark backend: count units per item with Gaussian noise, each unit in at most ten items."""

from __future__ import annotations

from typing import Any

import pipeline_dp  # type: ignore[import-not-found, unused-ignore]
from run_pipelinedp import counts


def run(spark: Any, events: Any, out: str, epsilon: float, delta: float, max_groups: int) -> None:
    """Release the rows of an RDD, which is what this backend takes, and let Spark write."""
    backend = pipeline_dp.SparkRDDBackend(spark.sparkContext)
    released = counts(backend, events.rdd.map(tuple), epsilon, delta, max_groups)
    spark.createDataFrame(
        released.map(lambda row: (row[0], float(row[1][0]))), "item long, units double"
    ).write.parquet(out)
