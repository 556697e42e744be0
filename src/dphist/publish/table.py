"""The published table: keys, values, errors and intervals, in an order that does not depend on the input's."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from scipy.special import ndtri

from dphist.errors import InvalidParameter
from dphist.mechanisms import LaplaceThreshold
from dphist.planning import Plan
from dphist.planning.aggregates import AggregateNoise
from dphist.planning.plan import STD_ERROR
from dphist.planning.request import Aggregate

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


Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Column:
    """Noisy values with their standard errors, and the factors with which each independent noise enters their error."""

    name: str
    values: Floats
    noises: tuple[Floats, ...]

    @property
    def std_errors(self) -> Floats:
        """Independent noises add up in squares."""
        return np.asarray(np.sqrt(sum(noise**2 for noise in self.noises)))


def columns(plan: Plan, counts: Floats, sums: Mapping[str, Integers]) -> list[Column]:
    """The count and every aggregate of the plan, from noisy counts and noisy recentred sums."""
    count_std = np.full(len(counts), plan.mechanism.noise_std)
    found = [Column("count", counts, (count_std,))]
    for noisy in plan.aggregates:
        aggregate = noisy.aggregate
        recentred = np.asarray(sums[aggregate.name] * aggregate.step, np.float64)
        values = (_mean if aggregate.kind == "mean" else _sum)(aggregate, recentred, counts)
        found.append(Column(aggregate.name, values, noises(noisy, values, counts, count_std)))
    return found


def _sum(aggregate: Aggregate, recentred: Floats, counts: Floats) -> Floats:
    return recentred + aggregate.centre * counts


def _mean(aggregate: Aggregate, recentred: Floats, counts: Floats) -> Floats:
    """centre + recentred/count, cut to the bounds."""
    return np.clip(aggregate.centre + recentred / _size(counts), aggregate.lower, aggregate.upper)


def noises(noisy: AggregateNoise, values: Floats, counts: Floats, count_std: Floats) -> tuple[Floats, ...]:
    """The noises in published sums or means: their own, and the count's, which enters with the centre.

    Of means to first order, with the noise of recentred/count.
    """
    std, centre = np.full(len(counts), noisy.noise_std), noisy.aggregate.centre
    if noisy.aggregate.kind != "mean":
        return std, abs(centre) * count_std
    size = _size(counts)
    return std / size, np.abs(values - centre) * count_std / size


def _size(counts: Floats) -> Floats:
    """What a mean divides by. A count below one (only groups of a public list can have one) is taken as one."""
    return np.maximum(counts, 1.0)


def interval(plan: Plan, column: Column, level: float) -> tuple[Floats, Floats]:
    """Bounds that cover the value before noise with at least this probability (means: to first order in the noise)."""
    if isinstance(plan.mechanism, LaplaceThreshold):
        scale = plan.mechanism.scale / plan.mechanism.noise_std  # of the noise, per standard error
        step = 1 / plan.mechanism.noise_std  # discrete noise: rounded outwards by one step of the count
        reach = laplace_quantile([noise * scale for noise in column.noises], 1 - level) + step * sum(column.noises)
    else:
        reach = column.std_errors * float(ndtri(0.5 + level / 2))
    return column.values - reach, column.values + reach


def laplace_quantile(scales: Sequence[Floats], miss: float) -> Floats:
    """The smallest x with P(|sum of independent Laplace noises| > x) <= miss, for one or two noises, element by element.

    One noise: exp(-x/b). Two, with r = smaller scale/larger scale b: (exp(-x/b) - r^2 exp(-x/(r b)))/(1 - r^2), which tends
    to (1 + x/(2b)) exp(-x/b) as r tends to 1; close to it the two are taken as equal, which can only widen.
    """
    if len(scales) == 1:
        return np.asarray(scales[0] * math.log(1 / miss))
    large, small = np.maximum(*scales), np.minimum(*scales)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.where(large > 0, small / large, 0.0)
    equal = ratio > 0.999
    ratio = np.where(equal, 0.5, np.maximum(ratio, 1e-9))

    def tail(x: Floats) -> Floats:  # in units of the larger scale
        apart = (np.exp(-x) - ratio**2 * np.exp(-x / ratio)) / (1 - ratio**2)
        return np.asarray(np.where(equal, (1 + x / 2) * np.exp(-x), apart))

    low, high = np.zeros(large.shape), np.full(large.shape, 2 * math.log(1 / miss) + 4)
    for _ in range(60):
        middle = (low + high) / 2
        enough = tail(middle) <= miss
        low, high = np.where(enough, low, middle), np.where(enough, middle, high)
    return np.asarray(high * large)
