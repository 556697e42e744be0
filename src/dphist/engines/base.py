"""The table that an engine counted, with its numbered columns, as a histogram with the names of the query."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dphist.engines.query import GroupByQuery
from dphist.histogram import ContributionBounds, Histogram


def histogram_of(
    table: pa.Table, query: GroupByQuery, bounds: ContributionBounds, *, total_units: int | None = None
) -> Histogram:
    """Counts, sums and the total; `total_units` where the table does not hold it."""
    if "first_units" in table.column_names:
        total_units = int(whole(table, "first_units").sum())
    return Histogram(
        keys=named(table, query),
        counts=whole(table, "units"),
        bounds=bounds,
        sums={measure.name: whole(table, f"steps_{i}") for i, measure in enumerate(query.measures, 1)},
        measures=query.measures,
        total_units=total_units,
        listed=query.public_keys is not None,
    )


def named(table: pa.Table, query: GroupByQuery) -> pa.Table:
    """The keys under their own names."""
    numbered = [f"key_{position}" for position in range(1, len(query.by) + 1)]
    return table.select(numbered).rename_columns([key.name for key in query.by])


def whole(table: pa.Table, column: str) -> NDArray[np.int64]:
    """A column as int64."""
    values: NDArray[np.int64] = table.column(column).to_numpy().astype(np.int64, copy=False)
    return values


def commented(query: GroupByQuery, sql: str) -> str:
    """SQL with what its numbered columns stand for."""
    names = [f"key_{i}: {key.name}" for i, key in enumerate(query.by, 1)]
    names += [f"steps_{i}: {measure.name}" for i, measure in enumerate(query.measures, 1)]
    comments = [f"-- {text}".replace("\n", " ") for text in (*names, "the seed 0 stands for a fresh one in each run")]
    return "\n".join([*comments, sql])
