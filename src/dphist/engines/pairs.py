"""Pairs of units and groups in SQL, for all engines: weights are joined to them, norms added up by unit, sums by group.

The integer arithmetic is that of `memory`, line by line: squares add up as integers, the only square root is taken of
an integer below 2^53, and every number is rounded down. A pair has a `unit`, its keys and `steps_i`; weights are a
table of keys and `weight`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from dphist.engines.dialect import Dialect
from dphist.engines.sql import bucket_sql
from dphist.mechanisms.tuning import FACTOR_BITS, LATTICE_BITS, NORM_BITS, WEIGHT_BITS

_ROOT: Final = "CAST(floor(sqrt(CAST({} AS DOUBLE))) AS BIGINT)"


def weighted_sql(pairs: str, weights: str, keys: Sequence[str], dialect: Dialect) -> str:
    """The pairs of weighted groups, each with the weight of its group."""
    matches = dialect.same_keys("pair", "given", keys)
    return f"SELECT pair.*, given.weight FROM {pairs} AS pair JOIN {weights} AS given ON {matches}"


def _with_norms(weighted: str, power: int, columns: Mapping[str, str], dialect: Dialect) -> str:
    """Weighted pairs with columns computed from the `norm` of their unit, which is the sum of its weights to the power."""
    added = ", ".join(f"{sql} AS {name}" for name, sql in columns.items())
    if dialect.holds_windows:
        norms = f"SELECT unit, {_norm(power)} AS norm FROM ({weighted}) AS weighted GROUP BY unit"
        by_unit = f"SELECT unit, {added} FROM ({norms}) AS norms"
        return f"SELECT * FROM ({weighted}) AS weighted JOIN ({by_unit}) AS by_unit USING (unit)"
    norms = f"SELECT *, {_norm(power, ' OVER (PARTITION BY unit)')} AS norm FROM ({weighted}) AS weighted"
    return f"SELECT *, {added} FROM ({norms}) AS norms"


def _norm(power: int, window: str = "") -> str:
    return f"CAST(SUM({'weight' if power == 1 else 'weight * weight'}){window} AS BIGINT)"


def _summed(rows: str, keys: Sequence[str], columns: Mapping[str, str]) -> str:
    listed = ", ".join(keys)
    sums = ", ".join(f"CAST(SUM({sql}) AS BIGINT) AS {name}" for name, sql in columns.items())
    return f"SELECT {listed}, {sums} FROM ({rows}) AS added GROUP BY {listed}"


def weighted_sums_sql(weighted: str, keys: Sequence[str], dialect: Dialect) -> str:
    """The `exact` sum of each group: every unit's weights are scaled to a norm of at most 1."""
    factor = _ROOT.format(dialect.quotient(1 << 2 * NORM_BITS, "norm"))
    rows = _with_norms(weighted, 2, {"factor": factor}, dialect)
    return _summed(rows, keys, {"exact": dialect.shifted("weight * factor", NORM_BITS - LATTICE_BITS)})


def shares_sql(pairs: str, keys: Sequence[str], dialect: Dialect) -> str:
    """For every group the sum of its units' shares: 2^LATTICE_BITS over a unit's number of groups, rounded down."""
    rows = f"SELECT *, CAST(1 AS BIGINT) AS weight FROM {pairs} AS pair"
    shared = _with_norms(rows, 1, {"share": dialect.quotient(1 << LATTICE_BITS, "norm")}, dialect)
    return _summed(shared, keys, {"exact": "share"})


def norms_sql(weighted: str, edges: NDArray[np.int64], power: int) -> str:
    """For each bucket, how many units have their norm in it. Units without weight are in none."""
    norms = f"SELECT {_norm(power)} AS norm FROM ({weighted}) AS weighted GROUP BY unit"
    return f"SELECT {bucket_sql('norm', edges)} AS place, COUNT(*) AS units FROM ({norms}) AS norms GROUP BY 1"


def degrees_sql(pairs: str, edges: NDArray[np.int64]) -> str:
    """For each bucket, how many units have a number of groups in it."""
    degrees = f"SELECT COUNT(*) AS degree FROM {pairs} AS pair GROUP BY unit"
    return f"SELECT {bucket_sql('degree', edges)} AS place, COUNT(*) AS units FROM ({degrees}) AS degrees GROUP BY 1"


def class_sums_sql(
    weighted: str,
    keys: Sequence[str],
    bounds: Sequence[int],
    power: int,
    shifts: Mapping[int, int],
    dialect: Dialect,
) -> str:
    """For each group and class, from 1: `units`, the sum of weights, and `steps_i`, the sums of clipped steps.

    Steps are rounded towards zero. A unit beyond the last bound is scaled down to it and is in the last class.
    """
    down = WEIGHT_BITS + FACTOR_BITS
    sums = {"units": dialect.shifted("weight * factor", down - LATTICE_BITS)}
    for position, shift in shifts.items():
        scaled = dialect.shifted(f"abs(steps_{position}) * (weight * factor)", down - shift)
        sums[f"steps_{position}"] = f"CASE WHEN steps_{position} < 0 THEN -({scaled}) ELSE {scaled} END"
    quotient = dialect.quotient(bounds[-1] << power * FACTOR_BITS, "norm")
    scale = quotient if power == 1 else _ROOT.format(quotient)
    factor = f"CASE WHEN norm <= {bounds[-1]} THEN {1 << FACTOR_BITS} ELSE {scale} END"
    cases = " ".join(f"WHEN norm <= {bound} THEN {place}" for place, bound in enumerate(bounds[:-1], 1))
    place = f"CASE {cases} ELSE {len(bounds)} END" if cases else "1"
    rows = _with_norms(weighted, power, {"factor": factor, "class": place}, dialect)
    return _summed(rows, [*keys, "class"], sums)


def lists_sql(pairs: str, look: str | None, keys: Sequence[str], turn: str, dialect: Dialect) -> str:
    """Every unit with its turn, and its groups with their positions on its list, from 1."""
    columns = ", ".join(["unit", f"{turn} AS turn", *keys])
    if look is None:
        return f"SELECT {columns}, place AS position FROM {pairs} AS pair"
    matches = dialect.same_keys("pair", "given", keys)
    looked = f"SELECT pair.*, given.first FROM {pairs} AS pair JOIN {look} AS given ON {matches}"
    position = "ROW_NUMBER() OVER (PARTITION BY unit ORDER BY first DESC, place)"
    return f"SELECT {columns}, {position} AS position FROM ({looked}) AS pair"


def first_asked_sql(lists: str, keys: Sequence[str]) -> str:
    """Everybody asks the first group of its list. `rank`: the place of a unit among all units that have asked the group."""
    return _ranked(f"SELECT unit, turn, {', '.join(keys)} FROM {lists} WHERE position = 1", keys)


def next_asked_sql(lists: str, placed: str, keys: Sequence[str], capacity: int, dialect: Dialect) -> str:
    """A unit that was turned away asks the first group of its list that is not full with earlier units; holders stay.

    A unit need not ask a group that has `capacity` earlier units.
    """
    listed = ", ".join(keys)
    choice = dialect.combined([f"list.{key}" for key in keys])
    chosen = ", ".join(f"choice.part_{place} AS {key}" for place, key in enumerate(keys, 1))
    asking = f"SELECT unit FROM {placed} WHERE rank > {capacity}"
    full = f"SELECT {listed}, unit AS last_unit, turn AS last_turn FROM {placed} WHERE rank = {capacity}"
    asked = (
        f"SELECT list.unit, list.turn, min_by({choice}, position) AS choice FROM {lists} AS list"
        f" JOIN ({asking}) AS asking ON {dialect.same('list.unit', 'asking.unit')}"
        f" LEFT JOIN ({full}) AS taken ON {dialect.same_keys('list', 'taken', keys)}"
        " WHERE last_turn IS NULL OR list.turn < last_turn OR (list.turn = last_turn AND list.unit < last_unit)"
        " GROUP BY list.unit, list.turn"
    )
    return _ranked(
        f"SELECT unit, turn, {listed} FROM {placed} WHERE rank <= {capacity}"
        f" UNION ALL SELECT unit, turn, {chosen} FROM ({asked}) AS asked",
        keys,
    )


def _ranked(asked: str, keys: Sequence[str]) -> str:
    rank = f"ROW_NUMBER() OVER (PARTITION BY {', '.join(keys)} ORDER BY turn, unit)"
    return f"SELECT *, {rank} AS rank FROM ({asked}) AS asked"
