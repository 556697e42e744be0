"""The published table: keys, values, errors and intervals, in an order that does not depend on the input's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dphist.errors import InvalidParameter
from dphist.planning import Plan
from dphist.planning.plan import STD_ERROR
from dphist.publish.columns import Column, interval

Order = Literal["count", "key"]
ORDERS: tuple[Order, ...] = ("count", "key")
LOW, HIGH = "_low", "_high"


def column_names(plan: Plan, level: float | None) -> list[str]:
    """The names of all columns beside the keys, in order."""
    suffixes = ["", STD_ERROR, *([] if level is None else [LOW, HIGH])]
    return [name + suffix for name in plan.value_names for suffix in suffixes]


def check_names(by: Sequence[str], plan: Plan, level: float | None) -> None:
    """A key may not have the name of a column that the release adds, nor of another key, without regard to case.

    Some formats do not tell such names apart, and writers would rename one of them.
    """
    added = {name.casefold() for name in column_names(plan, level)}
    folded = [name.casefold() for name in by]
    if clash := sorted(name for name in by if name.casefold() in added or folded.count(name.casefold()) > 1):
        raise InvalidParameter(
            "keys with other names than each other and the released columns", clash, 'rename: --by "my_count=count".'
        )


def build_table(
    keys: pa.Table, values: Sequence[Column], plan: Plan, *, level: float | None, integers: bool, order: Order
) -> pa.Table:
    """The table to publish."""
    arrays: dict[str, pa.Array | pa.ChunkedArray] = {name: keys.column(name) for name in keys.column_names}
    for column in values:
        whole = integers and column.name in ("count", "rows")
        arrays[column.name] = pa.array(np.rint(column.values).astype(np.int64) if whole else column.values)
        arrays[column.name + STD_ERROR] = pa.array(column.std_errors)
        if level is not None:
            low, high = interval(plan, column, level)
            arrays[column.name + LOW], arrays[column.name + HIGH] = pa.array(low), pa.array(high)
    table = pa.table(arrays)
    return table.take(row_order(table, keys.column_names, order))


def row_order(table: pa.Table, keys: Sequence[str], order: Order) -> pa.Array:
    """Positions in order: by key, or by noisy count and then key. Keys of a released table differ, so nothing is left open."""
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
