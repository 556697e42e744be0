"""Distinct values per group in DuckDB: what light pairs take in SQL, the election of the others in arrays, if they fit."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from dphist.engines.base import Integers
from dphist.engines.distinct import contested_sql, different_sql, light_sql, taken_sql, valued_sql
from dphist.engines.duckdb.engine import DuckDBDialect
from dphist.engines.duckdb.pairs import MEMORY_SHARE, SqlPairs
from dphist.engines.duckdb.session import execute, fetch, memory_limit
from dphist.engines.election import Lists, elect, lists_of
from dphist.engines.histogram import ContributionBounds
from dphist.errors import InvalidParameter
from dphist.mechanisms.tuning import MOST_RELEASED

if TYPE_CHECKING:
    from dphist.engines.duckdb.engine import DuckDBRecords

_BYTES_OF_ROW, _BYTES_OF_VOTER, _BYTES_OF_VALUE = 24, 96, 32


def count_distinct(
    records: DuckDBRecords, bounds: ContributionBounds, *, in_memory: bool | None = None
) -> dict[int, str]:
    """A table of groups with how many values are taken, for each measure of distinct values, by its position."""
    return {
        position: _count(records, position, int(measure.upper), bounds, in_memory)
        for position, measure in records.fields.distinct
    }


def _count(records: DuckDBRecords, position: int, most: int, bounds: ContributionBounds, in_memory: bool | None) -> str:
    fields, dialect, connection = records.fields, DuckDBDialect(), records.connection
    keys, table = ", ".join(fields.key_names), f"taken_{position}"
    different = different_sql(fields, position, dialect)
    records.read(lambda: connection.execute(f"CREATE OR REPLACE TEMP TABLE different AS {different}"))
    valued = valued_sql(fields, "different", most, bounds, records.seed, dialect)
    execute(
        connection,
        f"CREATE OR REPLACE TEMP TABLE valued AS {valued}",
        "DROP TABLE different",
        f"CREATE OR REPLACE TEMP TABLE light AS {light_sql(fields, 'valued', most)}",
        "CREATE OR REPLACE TEMP TABLE contested AS SELECT *,"
        f" DENSE_RANK() OVER (ORDER BY turn, unit, {keys}) - 1 AS unit_code,"
        f" DENSE_RANK() OVER (ORDER BY {keys}, value) - 1 AS group_code"
        f" FROM ({contested_sql(fields, 'valued', 'light', most, records.seed, dialect)}) AS pair",
        "DROP TABLE valued",
    )
    won = np.flatnonzero(_elect(records, most, in_memory))
    connection.register("won_codes", pa.table({"group_code": won}))
    execute(
        connection,
        f"CREATE OR REPLACE TEMP TABLE won AS SELECT DISTINCT {keys}, value FROM contested JOIN won_codes USING (group_code)",
        f"CREATE OR REPLACE TEMP TABLE {table} AS {taken_sql(fields, 'light', 'won')}",
        "DROP TABLE light",
        "DROP TABLE contested",
        "DROP TABLE won",
    )
    connection.unregister("won_codes")
    return table


def _elect(records: DuckDBRecords, most: int, in_memory: bool | None) -> Integers:
    """How many hold each contested value: one or nobody."""
    connection = records.connection
    sizes = fetch(
        connection,
        "SELECT COUNT(*) AS rows, COALESCE(MAX(unit_code) + 1, 0) AS pairs,"
        " COALESCE(MAX(group_code) + 1, 0) AS groups FROM contested",
    )
    rows, pairs, groups = (int(sizes[name][0].as_py()) for name in ("rows", "pairs", "groups"))
    if rows == 0:
        return np.zeros(0, np.int64)
    if max(pairs * most, groups) >= MOST_RELEASED:
        raise InvalidParameter("fewer than 2^31 values of units with too many of them", "more", "a larger bound helps.")
    if in_memory is None:
        taken = _BYTES_OF_ROW * rows + _BYTES_OF_VOTER * pairs * most + _BYTES_OF_VALUE * groups
        in_memory = taken <= MEMORY_SHARE * memory_limit(connection)
    if in_memory:
        codes = fetch(
            connection,
            "SELECT CAST(unit_code AS INTEGER) AS unit_code, CAST(group_code AS INTEGER) AS group_code,"
            " CAST(place - 1 AS INTEGER) AS place FROM contested",
        )
        unit, group, place = (codes[name].to_numpy() for name in ("unit_code", "group_code", "place"))
        lists = lists_of(unit, group, place, pairs)
        return elect(Lists(lists.starts, lists.groups, most), groups, 1)
    execute(
        connection,
        f"CREATE TEMP TABLE coded AS SELECT CAST(unit_code * {most} + copy AS INTEGER) AS unit_code,"
        f" CAST(group_code AS INTEGER) AS group_code, place FROM contested CROSS JOIN range({most}) AS copies(copy)",
    )
    votes = SqlPairs(connection, groups).votes(1, None)
    execute(connection, "DROP TABLE coded")
    return votes
