"""The engine behind a few functions: what the tests of locality ask of it, in one place."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import pyarrow as pa
from oracle import Groups, Question, published
from writers import Writer

from dphist.engines.duckdb.engine import DuckDBEngine
from dphist.engines.histogram import ContributionBounds, Histogram
from dphist.engines.query import PerformanceSettings
from dphist.errors import InvalidParameter
from duckdb_pairs import open_pairs

ONE_THREAD = PerformanceSettings(threads=1)
Outcome = Groups | str
"""The groups, or the words of a refusal by type."""


def count(
    writer: Writer,
    table: pa.Table,
    question: Question,
    *,
    pairs: bool = False,
    settings: PerformanceSettings = ONE_THREAD,
) -> Outcome:
    """Write the table, count it, and read the histogram bit by bit. Only a refusal by type may end a run."""
    with tempfile.TemporaryDirectory(prefix="dphist-locality-") as folder:
        source = writer.write(table, Path(folder))
        try:
            return _groups(
                _from_pairs(source, question, settings) if pairs else _in_one_pass(source, question, settings)
            )
        except InvalidParameter as refusal:
            return str(refusal)


def _in_one_pass(source: Any, question: Question, settings: PerformanceSettings) -> Histogram:
    return DuckDBEngine(settings).histogram(source, question.query(), ContributionBounds(), seed=1)


def _from_pairs(source: Any, question: Question, settings: PerformanceSettings) -> Histogram:
    with open_pairs(source, question.query(), settings, seed=1) as pairs:
        return pairs.histogram(ContributionBounds())


def _groups(histogram: Histogram) -> Groups:
    columns = [published(column) for column in histogram.keys.columns]
    keys = list(zip(*columns, strict=True))
    assert len(set(keys)) == len(keys), "a group appears twice"
    sums = [histogram.sums[measure.name].tolist() for measure in histogram.measures]
    return dict(zip(keys, zip(histogram.counts.tolist(), *sums, strict=True), strict=True))
