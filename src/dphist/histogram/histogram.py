"""A histogram whose contributions are bounded: evidence that an engine has done its work."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dphist.errors import InvalidParameter
from dphist.histogram.bounds import ContributionBounds
from dphist.histogram.measure import Measure

LARGEST_SUM: Final = 2**62
"""Sums saturate here, a public limit: saturation never adds to what one unit can change, wrapping would."""


_ROW_NUMBERS: Final = re.compile(r"__index_level_\d+__")


def check_key_names(names: Iterable[str]) -> None:
    """Refuse the row numbers that a pandas frame carries into Arrow: as a key they would publish the order of the rows."""
    if found := [name for name in names if _ROW_NUMBERS.fullmatch(name)]:
        raise InvalidParameter(
            "keys that are columns of the data",
            f"{found[0]}, the unnamed index of a pandas frame",
            "drop it: frame.reset_index(drop=True), or pa.Table.from_pandas(frame, preserve_index=False).",
        )


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

    def __post_init__(self) -> None:
        if self.keys.num_columns == 0:
            raise InvalidParameter("at least one key column", "none")
        check_key_names(self.keys.column_names)
        if set(self.sums) != {measure.name for measure in self.measures} or len(self.sums) != len(self.measures):
            raise InvalidParameter("one sum for each measure", sorted(self.sums))
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

    def take(self, positions: NDArray[np.int64]) -> Histogram:
        """The groups at some positions, in that order."""
        return replace(
            self,
            keys=self.keys.take(pa.array(positions)),
            counts=self.counts[positions],
            sums={name: values[positions] for name, values in self.sums.items()},
        )


def _plain(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Each value by itself: a dictionary or a shared buffer would go along with the few keys that are released."""
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
