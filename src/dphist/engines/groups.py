"""Groups as arrays of this process, and the order of a published table."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dphist.aggregates.tree import Bins
from dphist.engines.base import PRESENT, Arrays, Integers, Layout, Missing, OnGroups, Order, Rows
from dphist.engines.histogram import NO_BOUNDS, ContributionBounds, Histogram
from dphist.engines.query import GroupByQuery
from dphist.errors import InvalidParameter
from dphist.mechanisms.lattice import enforce_sparsity

PART: Final = 1 << 18
"""How many groups get their noise at a time. Each takes some hundred bytes on the way."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class LocalGroups:
    """Groups as arrays of this process. `keys_of` gives the keys of codes. Codes of pairs follow the order of keys."""

    codes: Integers
    columns: Arrays
    keys_of: Callable[[Integers], pa.Table]
    total: int | None = None
    bounds: ContributionBounds = NO_BOUNDS
    listed: bool = False
    coverage_of: Callable[[pa.Table], tuple[int, int]] | None = None

    def each(self, function: OnGroups, names: Sequence[str]) -> LocalGroups:
        """A part of the groups at a time."""
        return self._chosen(self._in_parts(function))

    def together(self, function: OnGroups, names: Sequence[str]) -> LocalGroups:
        """All at once: groups of pairs are in the order of their keys."""
        return self._chosen(function(self.columns))

    def _chosen(self, rows: Rows) -> LocalGroups:
        return LocalGroups(self.codes[rows.index], rows.columns, self.keys_of)

    def less_next_largest(self, most: int) -> LocalGroups:
        """A partial sort."""
        return replace(self, columns={**self.columns, "units": enforce_sparsity(self.columns["units"], most)})

    def sum_of(self, column: str) -> int:
        """A sum of int64."""
        return int(self.columns[column].sum())

    def total_units(self) -> int:
        """As the engine counted them."""
        assert self.total is not None, "the query asks for it"
        return self.total

    def coverage(self, released: pa.Table) -> tuple[int, int]:
        """As the engine counts them."""
        if self.coverage_of is None:
            raise InvalidParameter("pairs of units and groups, to count who is in no released group", "groups alone")
        return self.coverage_of(released)

    def number(self) -> int:
        """The length of the arrays."""
        return len(self.codes)

    def publish(self, function: OnGroups, layout: Layout, *, together: bool = False) -> pa.Table:
        """An Arrow table. A part of the groups at a time, unless the function needs all of them together."""
        rows = function(self.columns) if together else self._in_parts(function)
        return in_order(with_columns(self.keys_of(self.codes[rows.index]), rows, layout), layout)

    def _in_parts(self, function: OnGroups) -> Rows:
        parts = []
        for first in range(0, max(len(self.codes), 1), PART):
            rows = function({name: column[first : first + PART] for name, column in self.columns.items()})
            parts.append(Rows(rows.index + first, rows.columns))
        columns = {name: np.concatenate([rows.columns[name] for rows in parts]) for name in parts[0].columns}
        return Rows(np.concatenate([rows.index for rows in parts]), columns)


def local_groups(histogram: Histogram) -> LocalGroups:
    """A histogram as groups."""
    steps: dict[str, Any] = {}
    for i, measure in enumerate(histogram.measures, 1):
        trees = measure.tree is not None
        steps[f"bins_{i}" if trees else f"steps_{i}"] = (histogram.bins if trees else histogram.sums)[measure.name]
    keys = histogram.keys
    return LocalGroups(
        codes=np.arange(len(histogram)),
        columns={"units": histogram.counts, **steps},
        keys_of=lambda chosen: keys.take(pa.array(chosen)),
        total=histogram.total_units,
        bounds=histogram.bounds,
        listed=histogram.listed,
    )


def with_columns(keys: pa.Table, rows: Rows, layout: Layout) -> pa.Table:
    """Keys and published columns as one table."""
    arrays: dict[str, Any] = {name: keys.column(name) for name in keys.column_names if layout.keys}
    for name in layout.columns:
        arrays[name] = as_arrow(rows.columns[name], whole=name in layout.whole)
    return pa.table(arrays)


def as_arrow(values: NDArray[Any], *, whole: bool) -> pa.Array:
    """A published column. NaN marks a withheld value and becomes null."""
    return pa.array(np.rint(values).astype(np.int64) if whole else values, from_pandas=True)


def missing_in(table: pa.Table, names: Sequence[str]) -> tuple[int, dict[str, Missing]]:
    """How many groups a table has, and what is missing in some of its columns."""
    found = {}
    for name in names:
        null = table.filter(pc.is_null(table.column(name)))
        found[name] = Missing(null.num_rows, _sum(null, "count"), _sum(null, PRESENT + name))
    return table.num_rows, found


def _sum(table: pa.Table, name: str) -> float:
    return float(pc.sum(table.column(name)).as_py() or 0) if name in table.column_names else 0.0


def in_order(table: pa.Table, layout: Layout) -> pa.Table:
    """The rows in the order of the layout."""
    keys = table.column_names[: table.num_columns - len(layout.columns)]
    return table.take(row_order(table, keys, layout.order)) if keys else table


def row_order(table: pa.Table, keys: Sequence[str], order: Order) -> pa.Array:
    """The positions of rows sorted by key, or by noisy count and then key. Released keys differ, so the order is complete."""
    sortable = pa.table({f"key_{i}": _sortable(table.column(name)) for i, name in enumerate(keys)})
    by: list[tuple[str, str]] = [(name, "ascending") for name in sortable.column_names]
    if order == "count":
        sortable = sortable.append_column("count", table.column("count"))
        by.insert(0, ("count", "descending"))
    return pc.sort_indices(sortable, sort_keys=by)


def _sortable(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """The column, or its text where its type has no order (lists, structs)."""
    try:
        pc.sort_indices(column.slice(0, 0))
    except (pa.ArrowNotImplementedError, pa.ArrowTypeError):
        return pa.chunked_array([pa.array([repr(value) for value in column.to_pylist()], pa.string())])
    return column


def histogram_of(
    table: pa.Table, query: GroupByQuery, bounds: ContributionBounds, *, total_units: int | None = None
) -> Histogram:
    """A counted table with numbered columns as a histogram. total_units: for a table that does not hold the total."""
    if "first_units" in table.column_names:
        total_units = int(integers(table, "first_units").sum())
    return Histogram(
        keys=named(table, query),
        counts=integers(table, "units"),
        bounds=bounds,
        sums={m.name: integers(table, f"steps_{i}") for i, m in enumerate(query.measures, 1) if m.tree is None},
        bins={m.name: bins_of(table, i) for i, m in enumerate(query.measures, 1) if m.tree is not None},
        measures=query.measures,
        total_units=total_units,
        listed=query.public_keys is not None,
    )


def named(table: pa.Table, query: GroupByQuery) -> pa.Table:
    """The keys under their own names."""
    numbered = [f"key_{position}" for position in range(1, len(query.by) + 1)]
    return table.select(numbered).rename_columns([key.name for key in query.by])


def integers(table: pa.Table, column: str) -> Integers:
    """A column as int64."""
    values: Integers = table.column(column).to_numpy().astype(np.int64, copy=False)
    return values


def bins_of(table: pa.Table, position: int) -> Bins:
    """The two columns of lists of a measure of bins."""
    lists = [table.column(f"{name}_{position}").combine_chunks() for name in ("bins", "weights")]
    return Bins.from_lists(*(one.combine_chunks() if isinstance(one, pa.ChunkedArray) else one for one in lists))
