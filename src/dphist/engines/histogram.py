"""Bounded counts per group in this process: a histogram, its numbers as `Groups`, and the order of a published table."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dphist import checks
from dphist.aggregates.measures import Measure
from dphist.aggregates.tree import Bins
from dphist.engines.base import PRESENT, Arrays, Integers, Layout, Missing, OnGroups, Order, Rows
from dphist.errors import InvalidParameter
from dphist.mechanisms.lattice import enforce_sparsity

if TYPE_CHECKING:
    from dphist.engines.query import GroupByQuery

_ROW_NUMBERS: Final = re.compile(r"__index_level_\d+__")


def check_key_names(names: Iterable[str]) -> None:
    """Refuse the row numbers that a pandas frame carries into Arrow: as a key they would publish the order of the rows."""
    if found := [name for name in names if _ROW_NUMBERS.fullmatch(name)]:
        raise InvalidParameter(
            "keys that are columns of the data",
            f"{found[0]}, the unnamed index of a pandas frame",
            "drop it: frame.reset_index(drop=True), or pa.Table.from_pandas(frame, preserve_index=False).",
        )


@dataclass(frozen=True, slots=True)
class ContributionBounds:
    """The most groups one unit is counted in, and the most groups that can be non-empty; None where nothing is promised.

    `max_groups` is kept by sampling inside an engine, `sparsity` by a sketch.
    """

    max_groups: int | None = None
    sparsity: int | None = None

    def __post_init__(self) -> None:
        if self.max_groups is not None:
            checks.check_whole("max_groups", self.max_groups)
        if self.sparsity is not None:
            checks.check_whole("sparsity", self.sparsity)

    def require(self, *, max_groups: int | None = None, sparsity: int | None = None) -> None:
        """Refuse bounds that are wider than these; None asks for nothing. The only check of bounds."""
        for held, needed in ((self.max_groups, max_groups), (self.sparsity, sparsity)):
            if needed is not None and (held is None or held > needed):
                raise InvalidParameter(f"a histogram bounded to {needed} groups per unit", held)


NO_BOUNDS: Final = ContributionBounds()
"""Nothing is promised."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Histogram:
    """Units per group, and recentred sums in whole steps, in an arbitrary order of the groups.

    These are true values. Nothing here is safe to print: the representation names columns and bounds only.
    """

    keys: pa.Table
    counts: NDArray[np.int64]
    bounds: ContributionBounds
    sums: Mapping[str, NDArray[np.int64]] = field(default_factory=dict)
    measures: tuple[Measure, ...] = ()
    total_units: int | None = None
    listed: bool = False
    bins: Mapping[str, Bins] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.keys.num_columns == 0:
            raise InvalidParameter("at least one key column", "none")
        check_key_names(self.keys.column_names)
        if {*self.sums, *self.bins} != {measure.name for measure in self.measures} or len(self.sums) + len(
            self.bins
        ) != len(self.measures):
            raise InvalidParameter("one sum for each measure", sorted(self.sums))
        if any(len(bins) != self.keys.num_rows for bins in self.bins.values()):
            raise InvalidParameter("bins of each group", "of another number of them")
        # Metadata of the input may tell its number of rows or more; only names, types and values stay.
        plain = [_plain(column) for column in self.keys.columns]
        object.__setattr__(self, "keys", pa.Table.from_arrays(plain, names=self.keys.column_names))
        object.__setattr__(self, "counts", _frozen(self.counts, self.keys.num_rows))
        frozen = {name: _frozen(values, self.keys.num_rows) for name, values in self.sums.items()}
        object.__setattr__(self, "sums", MappingProxyType(frozen))

    def __len__(self) -> int:
        return int(self.keys.num_rows)

    def __repr__(self) -> str:
        return f"Histogram(by={self.keys.column_names}, sums={sorted(self.sums)}, bounds={self.bounds})"

    @property
    def key_names(self) -> tuple[str, ...]:
        """The names of the key columns."""
        return tuple(self.keys.column_names)

    def require(
        self, *, max_groups: int | None = None, sparsity: int | None = None, listed: bool | None = None
    ) -> Histogram:
        """This histogram, if its bounds are those that a guarantee assumes. Other bounds are refused."""
        self.bounds.require(max_groups=max_groups, sparsity=sparsity)
        if listed is not None and listed != self.listed:
            raise InvalidParameter("a histogram over the public list of keys, as the plan says", "another")
        return self

    def take(self, positions: NDArray[np.int64]) -> Histogram:
        """The groups at some positions, in that order."""
        return replace(
            self,
            keys=self.keys.take(pa.array(positions)),
            counts=self.counts[positions],
            sums={name: values[positions] for name, values in self.sums.items()},
            bins={name: bins[positions] for name, bins in self.bins.items()},
        )


def _plain(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """A column of single values: a dictionary or a shared buffer would be released with the few keys that use it."""
    if pa.types.is_dictionary(column.type):
        return column.cast(column.type.value_type)
    views = {pa.string_view(): pa.large_string(), pa.binary_view(): pa.large_binary()}
    return column.cast(views[column.type]) if column.type in views else column


def _frozen(values: NDArray[np.int64], rows: int) -> NDArray[np.int64]:
    if values.dtype != np.int64 or values.shape != (rows,):
        raise InvalidParameter("one int64 for each group", "another shape or type")
    view = values.view()
    view.flags.writeable = False
    return view


def largest_groups(histogram: Histogram, most: int) -> Histogram:
    """The `most` largest groups, largest first, equal counts in the order of their keys.

    Keys alone break ties. An order that the data could change would let one unit exchange every listed group with the
    smallest count.
    """
    checks.check_whole("most", most)
    counts = histogram.counts
    if len(counts) <= most:
        return histogram.take(_by_count(histogram, np.arange(len(counts)), len(counts)))
    smallest = np.partition(counts, len(counts) - most)[len(counts) - most]
    larger = np.flatnonzero(counts > smallest)
    tied = np.flatnonzero(counts == smallest)
    first = _by_count(histogram, larger, len(larger))
    return histogram.take(np.concatenate([first, _by_count(histogram, tied, most - len(larger))]))


def _by_count(histogram: Histogram, positions: np.typing.NDArray[np.int64], most: int) -> np.typing.NDArray[np.int64]:
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
        """The engine has counted them."""
        assert self.total is not None, "the query asks for it"
        return self.total

    def coverage(self, released: pa.Table) -> tuple[int, int]:
        """The engine counts them now."""
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
    """The number of groups of a table, and what is missing in some of its columns."""
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
