"""How large values are: a histogram over public buckets that grow by the square root of two, one value of each unit.

Each unit is in one bucket at most, by its own records and the seed alone: of its groups with a value it takes the first in its
random order, or of its records the first. One unit therefore changes one bucket by one.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from dphist.aggregates.numbers import double
from dphist.engines.dialect import Dialect
from dphist.engines.sql import Fields, records_sql

SMALLEST, LARGEST = -58, 88
"""Powers of two. What is closer to zero, or farther, is in the first bucket of its sign, or the last."""

OF_A_SIGN: Final = 2 * (LARGEST - SMALLEST)
BUCKETS: Final = 2 * OF_A_SIGN + 1
"""Negative values from far to near, zero, positive values from near to far."""


def upper_ends() -> NDArray[np.float64]:
    """How far from zero the buckets of a sign reach, from near to far."""
    return np.asarray(2.0 ** (SMALLEST + np.arange(1, OF_A_SIGN + 1) / 2))


def buckets_sql(fields: Fields, position: int, seed: int, dialect: Dialect) -> str:
    """`bucket`, from 0 to BUCKETS - 1, and how many `units` are in it: by the sizes that bounds of a measure are chosen by."""
    value, measure = fields.value_name(position), fields.measures[position - 1]
    hashed = ["unit", *fields.key_names, *([value] if measure.sized_by_record else [])]
    present = "" if measure.column is None else f"\n  WHERE {value} IS NOT NULL"
    columns, size = measure.sizes(f"ordered.{value}", dialect)
    return (
        f"WITH {records_sql(fields, dialect)},\nordered AS (\n  SELECT *, {dialect.priority(seed, hashed)} AS priority"
        f"\n  FROM records{present}\n),"
        "\nfirsts AS (\n  SELECT unit, MIN(priority) AS first\n  FROM ordered\n  GROUP BY unit\n),"
        # Groups with one hash, which hardly ever happens, count as one: still a function of the unit's own records.
        f"\nadded AS (\n  SELECT ordered.unit, {', '.join(columns)}\n  FROM ordered"
        "\n  JOIN firsts ON ordered.unit = firsts.unit AND priority = first\n  GROUP BY ordered.unit\n),"
        f"\nsized AS (\n  SELECT {size} AS size\n  FROM added\n)"
        f"\nSELECT {_bucket('size')} AS bucket, COUNT(*) AS units\nFROM sized\nGROUP BY bucket"
    )


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
