"""A histogram whose contributions are bounded: evidence that an engine has done its work."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dphist import checks
from dphist.aggregates.measures import Measure
from dphist.aggregates.tree import Bins
from dphist.errors import InvalidParameter

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
