"""How large values are: a histogram over public buckets that grow by the square root of two, one value of each unit.

Each unit is in one bucket at most, by its own records and the seed alone: of its groups with a value it takes the first in its
random order, or of its records the first. One unit therefore changes one bucket by one.
"""

from __future__ import annotations

from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from dphist.aggregates.measures import Measure
from dphist.engines.dialect import Dialect
from dphist.engines.sql import LARGEST_RECORD, Fields, clamped, double, records_sql

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
    value = fields.value_name(position)
    hashed = ["unit", *fields.key_names, *([value] if of == "record" else [])]
    present = "" if of == "rows" else f"\n  WHERE {value} IS NOT NULL"
    return (
        f"WITH {records_sql(fields, dialect)},\nordered AS (\n  SELECT *, {dialect.priority(seed, hashed)} AS priority"
        f"\n  FROM records{present}\n),"
        "\nfirsts AS (\n  SELECT unit, MIN(priority) AS first\n  FROM ordered\n  GROUP BY unit\n),"
        # Groups with one hash, which hardly ever happens, count as one: still a function of the unit's own records.
        f"\nadded AS (\n  SELECT ordered.unit, {', '.join(_sums(f'ordered.{value}', of, dialect))}\n  FROM ordered"
        "\n  JOIN firsts ON ordered.unit = firsts.unit AND priority = first\n  GROUP BY ordered.unit\n),"
        f"\nsized AS (\n  SELECT {_size(of)} AS size\n  FROM added\n)"
        f"\nSELECT {_bucket('size')} AS bucket, COUNT(*) AS units\nFROM sized\nGROUP BY bucket"
    )


def _sums(value: str, of: Of, dialect: Dialect) -> list[str]:
    if of == "rows":
        return ["COUNT(*) AS number"]
    if of == "distinct":
        return [f"COUNT(DISTINCT {value}) AS number"]
    if of == "record":
        return [f"MIN({value}) AS number"]
    sums = [f"COUNT({value}) AS number", f"MAX(ABS({value})) AS farthest"]
    for place, power in enumerate(_SCALES):
        scaled = clamped(f"{value} / {double(2.0**power)}", -LARGEST_RECORD, LARGEST_RECORD)
        whole = f"CASE WHEN {value} IS NOT NULL THEN {dialect.nearest(scaled)} END"
        sums.append(f"{dialect.exact_sum(whole)} AS sum_{place}")
    return sums


def _size(of: Of) -> str:
    if of in ("rows", "record", "distinct"):
        return "CAST(number AS DOUBLE)"
    read = [f"CAST(sum_{place} AS DOUBLE) * {double(2.0**power)}" for place, power in enumerate(_SCALES)]
    cases = " ".join(
        f"WHEN farthest < {double(2.0 ** (power + 58))} THEN {sql}" for power, sql in zip(_SCALES, read, strict=True)
    )
    total = f"CASE {cases} ELSE {read[-1]} END"
    return total if of == "sum" else f"({total}) / number"


def _bucket(size: str) -> str:
    # Engines differ in the last bit of a logarithm: a little more, and powers of two have one bucket everywhere.
    far = f"CAST(floor(2 * log2(ABS({size})) + 1e-9) AS BIGINT) - {2 * SMALLEST}"
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
