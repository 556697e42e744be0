"""The rounds of the adaptive release in SQL: for pairs that do not fit into memory, and for engines on a cluster.

The same integer arithmetic as `dphist.mechanisms.adaptive_pairs.MemoryPairs`, line by line, so the sums are the same bits:
squares add up as integers, the one square root is taken of an integer below 2^53, and everything is rounded down.
"""

# ruff: noqa: S608 - only numbers and names of this file are put into the SQL
from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import duckdb
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dphist.engines.session import execute, fetch
from dphist.mechanisms.adaptive_pairs import Integers
from dphist.mechanisms.adaptive_tuning import FACTOR_BITS, LATTICE_BITS, NORM_BITS, WEIGHT_BITS

_WEIGHTED = "FROM coded JOIN weights USING (group_code)"


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class SqlPairs:
    """The table `coded` (unit_code, group_code, sampled, steps_i) of an open connection."""

    connection: duckdb.DuckDBPyConnection
    groups: int
    measures: tuple[str, ...] = ()

    def eligible(self) -> NDArray[np.bool_]:
        """Which groups some unit sampled."""
        table = fetch(self.connection, "SELECT DISTINCT group_code FROM coded WHERE sampled")
        found = np.zeros(self.groups, np.bool_)
        found[table.column("group_code").to_numpy()] = True
        return found

    def weighted_sums(self, weights: Integers) -> Integers:
        """Norms by unit, then sums by group."""
        self._set_weights(weights)
        factor = f"CAST(floor(sqrt(CAST({1 << 2 * NORM_BITS} // square AS DOUBLE))) AS BIGINT)"
        weight = f"(a * factor) >> {NORM_BITS - LATTICE_BITS}"
        return self._by_group(factor, {"units": weight}, "WHERE sampled")["units"]

    def norm_histogram(self, weights: Integers, edges: Integers) -> Integers:
        """One bucket for each unit that has any weight."""
        self._set_weights(weights)
        norms = f"SELECT CAST(SUM(a * a) AS BIGINT) AS square {_WEIGHTED} GROUP BY unit_code"
        return self._histogram("square", norms, edges)

    def clipped_sums(self, weights: Integers, cap: int, shifts: Mapping[str, int]) -> dict[str, Integers]:
        """Clipped counts, and clipped steps rounded towards zero."""
        self._set_weights(weights)
        root = f"CAST(floor(sqrt(CAST({cap << 2 * FACTOR_BITS} // square AS DOUBLE))) AS BIGINT)"
        factor = f"CASE WHEN square <= {cap} THEN {1 << FACTOR_BITS} ELSE {root} END"
        sums = {"units": f"(a * factor) >> {WEIGHT_BITS + FACTOR_BITS - LATTICE_BITS}"}
        for name, shift in shifts.items():
            steps = f"steps_{self.measures.index(name) + 1}"
            down = WEIGHT_BITS + FACTOR_BITS - shift
            sums[name] = f"sign({steps}) * ((abs({steps}) * (a * factor)) >> {down})"
        return self._by_group(factor, sums, "")

    def degree_histogram(self, edges: Integers) -> Integers:
        """One bucket for each unit."""
        return self._histogram("degree", "SELECT COUNT(*) AS degree FROM coded GROUP BY unit_code", edges)

    def _by_group(self, factor: str, sums: Mapping[str, str], where: str) -> dict[str, Integers]:
        listed = ", ".join(f"CAST(SUM({sql}) AS BIGINT) AS sum_{i}" for i, sql in enumerate(sums.values()))
        table = fetch(
            self.connection,
            f"WITH factors AS (SELECT unit_code, {factor} AS factor FROM (SELECT unit_code,"
            f" CAST(SUM(a * a) AS BIGINT) AS square {_WEIGHTED} {where} GROUP BY unit_code) AS norms)"
            f" SELECT group_code, {listed} {_WEIGHTED} JOIN factors USING (unit_code) {where} GROUP BY group_code",
        )
        groups = table.column("group_code").to_numpy()
        found = {}
        for i, name in enumerate(sums):
            found[name] = np.zeros(self.groups, np.int64)
            found[name][groups] = table.column(f"sum_{i}").to_numpy()
        return found

    def _histogram(self, value: str, rows: str, edges: Integers) -> Integers:
        table = fetch(
            self.connection,
            f"SELECT {bucket_sql(value, edges)} AS place, COUNT(*) AS units FROM ({rows}) AS rows GROUP BY place",
        )
        found = np.zeros(len(edges), np.int64)
        found[table.column("place").to_numpy()] = table.column("units").to_numpy()
        return found

    def _set_weights(self, weights: Integers) -> None:
        """The groups with any weight, as a table: public values, derived from what was published before."""
        alive = np.flatnonzero(weights)
        self.connection.register(
            "given_weights", pa.table({"group_code": alive.astype(np.int32), "a": weights[alive].astype(np.int64)})
        )
        execute(self.connection, "CREATE OR REPLACE TEMP TABLE weights AS SELECT * FROM given_weights")


def bucket_sql(value: str, edges: Integers) -> str:
    """The last bucket whose lower end is not above the value, from 0; values below the first go to the first."""
    above = " + ".join(f"CAST({value} >= {int(edge)} AS INTEGER)" for edge in edges[1:])
    return f"CAST({above or '0'} AS BIGINT)"
