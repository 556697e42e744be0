"""How large values are: a histogram over public buckets that grow by the square root of two, one value of each unit.

Each unit is in one bucket at most, by its own records and the seed alone: of its groups with a value it takes the first in its
random order, or of its records the first. One unit therefore changes one bucket by one.
"""

from __future__ import annotations

from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from dphist.engines.sql import LARGEST_RECORD, Dialect, Fields, clamped, double, records_sql
from dphist.measures import Measure

Of = Literal["sum", "mean", "rows", "record", "distinct"]
"""Whose size: of the sum or the mean of a unit's values in a group, of its number of records or of
different values there, or of one record."""

SMALLEST, LARGEST = -58, 88
"""Powers of two. What is closer to zero, or farther, is in the first bucket of its sign, or the last."""

OF_A_SIGN: Final = 2 * (LARGEST - SMALLEST)
BUCKETS: Final = 2 * OF_A_SIGN + 1
"""Negative values from far to near, zero, positive values from near to far."""

_SCALES: Final = (-60, -30, 0, 30)
"""Records are added up as integers in steps of these powers of two; the finest that does not overflow is the one to read.
(Doubles would make a sum depend on the order of rows.)"""


def upper_ends() -> NDArray[np.float64]:
    """How far from zero the buckets of a sign reach, from near to far."""
    return np.asarray(2.0 ** (SMALLEST + np.arange(1, OF_A_SIGN + 1) / 2))


def of_measure(measure: Measure) -> Of:
    """Which values decide about the bounds of a measure."""
    kinds: dict[str, Of] = {"sum": "sum", "mean": "mean", "rows": "rows", "distinct": "distinct"}
    return kinds.get(measure.kind, "record")


def buckets_sql(fields: Fields, position: int, of: Of, seed: int, dialect: Dialect) -> str:
    """`bucket`, from 0 to BUCKETS - 1, and how many `units` are in it."""
    keys, value = ", ".join(fields.key_names), f"value_{position}"
    if of == "record":
        ordered = dialect.priority(seed, ["unit", *fields.key_names, value])
        columns = f"unit, {keys}, {value} AS size, {ordered} AS priority"
        sized = f"sized AS (\n  SELECT {columns}\n  FROM records\n  WHERE {value} IS NOT NULL\n)"
    else:
        columns = ", ".join(_sums(value, of, dialect))
        number = {"rows": "COUNT(*)", "distinct": f"COUNT(DISTINCT {value})"}.get(of, f"COUNT({value})")
        added = (
            f"added AS (\n  SELECT unit, {keys}, {number} AS number{', ' + columns if columns else ''}\n  FROM records"
            f"\n  GROUP BY unit, {keys}\n)"
        )
        ordered = dialect.priority(seed, ["unit", *fields.key_names])
        sized = (
            f"{added},\nsized AS (\n  SELECT unit, {keys}, {_size(of)} AS size, {ordered} AS priority\n  FROM added"
            "\n  WHERE number > 0\n)"
        )
    order = f"ORDER BY priority, {keys}" + (", size" if of == "record" else "")
    return (
        f"WITH {records_sql(fields, dialect)},\n{sized},\nplaced AS (\n  SELECT size, ROW_NUMBER() OVER (PARTITION BY unit"
        f" {order}) AS place\n  FROM sized\n)\nSELECT {_bucket('size')} AS bucket, COUNT(*) AS units\nFROM placed"
        "\nWHERE place = 1\nGROUP BY bucket"
    )


def _sums(value: str, of: Of, dialect: Dialect) -> list[str]:
    if of in ("rows", "distinct"):
        return []
    sums = [f"MAX(ABS({value})) AS farthest"]
    for place, power in enumerate(_SCALES):
        scaled = clamped(f"{value} / {double(2.0**power)}", -LARGEST_RECORD, LARGEST_RECORD)
        whole = f"CASE WHEN {value} IS NOT NULL THEN {dialect.nearest(scaled)} END"
        sums.append(f"{dialect.exact_sum(whole)} AS sum_{place}")
    return sums


def _size(of: Of) -> str:
    if of in ("rows", "distinct"):
        return "CAST(number AS DOUBLE)"
    read = [f"CAST(sum_{place} AS DOUBLE) * {double(2.0**power)}" for place, power in enumerate(_SCALES)]
    cases = " ".join(
        f"WHEN farthest < {double(2.0 ** (power + 58))} THEN {sql}" for power, sql in zip(_SCALES, read, strict=True)
    )
    total = f"CASE {cases} ELSE {read[-1]} END"
    return total if of == "sum" else f"({total}) / number"


def _bucket(size: str) -> str:
    far = f"CAST(floor(2 * log2(ABS({size}))) AS BIGINT) - {2 * SMALLEST}"
    place = f"LEAST(GREATEST({far}, 0), {OF_A_SIGN - 1})"
    # What is beyond the largest bucket may be infinite: its logarithm is no integer.
    beyond = f"WHEN ABS({size}) >= {double(2.0**LARGEST)} THEN {OF_A_SIGN - 1}"
    sized = f"CASE {beyond} ELSE {place} END"
    return (
        f"CASE WHEN {size} = 0 THEN {OF_A_SIGN} WHEN {size} > 0 THEN {OF_A_SIGN + 1} + {sized}"
        f" ELSE {OF_A_SIGN - 1} - {sized} END"
    )


def spread(buckets: NDArray[np.int64], units: NDArray[np.int64]) -> NDArray[np.int64]:
    """The histogram with its empty buckets."""
    histogram = np.zeros(BUCKETS, np.int64)
    histogram[buckets] = units
    return histogram
