"""The rounds of the adaptive release in Spark SQL: weights joined to pairs by their keys, sums by key. Nothing is numbered.

The integer arithmetic of `dphist.engines.memory`, line by line: squares add up as integers, the one square root is
taken of an integer below 2^53, everything is rounded down. All tables here are written down before noise is drawn on them.
"""

# ruff: noqa: S608 - only numbers and names of this package are put into the SQL
from __future__ import annotations

from collections.abc import Sequence

from dphist.engines.duckdb.pairs import bucket_sql
from dphist.engines.memory import Integers
from dphist.mechanisms.tuning import FACTOR_BITS, LATTICE_BITS, NORM_BITS, WEIGHT_BITS


def first_round_sql(sampled: str, keys: Sequence[str]) -> str:
    """The eligible groups and the exact sums of round 1, in which every weight is 1."""
    one = f"(SELECT *, CAST({1 << WEIGHT_BITS} AS BIGINT) AS weight FROM {sampled})"
    listed = ", ".join(keys)
    zero = "CAST(0 AS BIGINT)"
    return f"SELECT {listed}, {zero} AS total, {zero} AS first, exact FROM ({_weighted_sums(one, keys)}) AS sums"


def round_sql(sampled: str, state: str, keys: Sequence[str]) -> str:
    """What the state says of every eligible group, with its exact sum for the weight of the state: 0 for a weight of 0."""
    sums = _weighted_sums(f"({_joined(sampled, f'(SELECT * FROM {state} WHERE weight > 0)', keys)})", keys)
    kept = ", ".join(f"state.{name}" for name in (*keys, "total", "first"))
    return (
        f"SELECT {kept}, COALESCE(sums.exact, 0) AS exact FROM {state} AS state"
        f" LEFT JOIN ({sums}) AS sums ON {_same('state', 'sums', keys)}"
    )


def norms_sql(pairs: str, weights: str, keys: Sequence[str], edges: Integers) -> str:
    """How many units have their squared norm in which bucket: one bucket for each unit that has any weight."""
    squares = f"SELECT SUM(weight * weight) AS square FROM ({_joined(pairs, weights, keys)}) AS weighted GROUP BY unit"
    return f"SELECT {bucket_sql('square', edges)} AS place, COUNT(*) AS units FROM ({squares}) AS squares GROUP BY 1"


def degrees_sql(pairs: str, edges: Integers) -> str:
    """How many units have how many groups, in buckets."""
    degrees = f"SELECT COUNT(*) AS degree FROM {pairs} GROUP BY unit"
    return f"SELECT {bucket_sql('degree', edges)} AS place, COUNT(*) AS units FROM ({degrees}) AS degrees GROUP BY 1"


def clipped_sql(pairs: str, weights: str, keys: Sequence[str], caps: tuple[int, int], shifts: Sequence[int]) -> str:
    """Of every selected group the exact clipped counts, main and probe, and the clipped steps of each measure."""
    down = WEIGHT_BITS + FACTOR_BITS
    sums = {
        "main": f"shiftright(weight * factor, {down - LATTICE_BITS})",
        "probe": f"shiftright(weight * probe_factor, {down - LATTICE_BITS})",
    }
    for position, shift in enumerate(shifts, 1):
        steps = f"steps_{position}"
        scaled = f"shiftright(abs({steps}) * (weight * factor), {down - shift})"
        sums[steps] = f"CASE WHEN {steps} < 0 THEN -{scaled} ELSE {scaled} END"
    listed = ", ".join(keys)
    added = ", ".join(f"SUM({sql}) AS {name}" for name, sql in sums.items())
    squares = (
        f"SELECT *, SUM(weight * weight) OVER (PARTITION BY unit) AS square FROM ({_joined(pairs, weights, keys)})"
    )
    factors = f"SELECT *, {_clip(caps[0])} AS factor, {_clip(caps[1])} AS probe_factor FROM ({squares}) AS squares"
    summed = f"SELECT {listed}, {added} FROM ({factors}) AS factors GROUP BY {listed}"
    kept = ", ".join(f"given.{name}" for name in (*keys, "weight"))
    found = ", ".join(f"COALESCE(sums.{name}, 0) AS {name}" for name in sums)
    return (
        f"SELECT {kept}, {found} FROM {weights} AS given LEFT JOIN ({summed}) AS sums ON {_same('given', 'sums', keys)}"
    )


def _weighted_sums(weighted: str, keys: Sequence[str]) -> str:
    """Each unit's weights scaled to a norm of at most 1, added up by group."""
    listed = ", ".join(keys)
    factor = f"CAST(floor(sqrt(CAST({1 << 2 * NORM_BITS} DIV square AS DOUBLE))) AS BIGINT)"
    squares = f"SELECT *, SUM(weight * weight) OVER (PARTITION BY unit) AS square FROM {weighted} AS weighted"
    return (
        f"SELECT {listed}, SUM(shiftright(weight * {factor}, {NORM_BITS - LATTICE_BITS})) AS exact"
        f" FROM ({squares}) AS squares GROUP BY {listed}"
    )


def _clip(cap: int) -> str:
    root = f"CAST(floor(sqrt(CAST({cap << 2 * FACTOR_BITS} DIV square AS DOUBLE))) AS BIGINT)"
    return f"CASE WHEN square <= {cap} THEN {1 << FACTOR_BITS} ELSE {root} END"


def _joined(pairs: str, weights: str, keys: Sequence[str]) -> str:
    return f"SELECT pair.*, given.weight FROM {pairs} AS pair JOIN {weights} AS given ON {_same('pair', 'given', keys)}"


def _same(left: str, right: str, keys: Sequence[str]) -> str:
    return " AND ".join(f"{left}.{key} <=> {right}.{key}" for key in keys)
