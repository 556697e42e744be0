"""The distinct (unit, group) pairs of a source, kept for the length of one release, which reads them more than once.

    pairs     one row per (unit, group) with the steps of each measure, materialised once
    units     one row per unit: a dense code and the number of its groups
    groups    one row per group: its key and a dense code, in the order of the keys
    coded     the pairs as codes, with the mark of each unit's fixed random sample; arrays instead, if they fit

Nothing that is published depends on which unit has which code. The sample of a unit is a function of the seed and of the
unit's own groups, drawn once for all rounds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import TYPE_CHECKING, Final, NamedTuple

import duckdb
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dphist.aggregates.tree import Bins
from dphist.engines.base import BOUNDING, Integers
from dphist.engines.dialect import DUCKDB
from dphist.engines.distinct import contested_sql, different_sql, light_sql, taken_sql, valued_sql
from dphist.engines.duckdb.engine import UNITS_SQL, DuckDBRecords, keys_of_codes, materialise_sql
from dphist.engines.duckdb.session import execute, fetch, leave_room, memory_limit, without_leaks
from dphist.engines.election import Lists, elect, lists_of
from dphist.engines.histogram import (
    ContributionBounds,
    Histogram,
    LocalGroups,
    bins_of,
    histogram_of,
    integers,
    local_groups,
)
from dphist.engines.memory import CHUNK, Arrangement, BinsOf, CodedPairs, MemoryPairs, no_bins, no_keys
from dphist.engines.pairs import (
    class_sums_sql,
    degrees_sql,
    first_asked_sql,
    lists_sql,
    next_asked_sql,
    norms_sql,
    shares_sql,
    weighted_sql,
    weighted_sums_sql,
)
from dphist.engines.sql import (
    OTHER_SEED,
    binned_sql,
    bucket_sql,
    coverage_sql,
    histogram_sql,
    list_names,
    plenty,
    steps_names,
    trees_of,
)
from dphist.errors import InvalidParameter
from dphist.files.interruption import interruptible
from dphist.mechanisms.tuning import MOST_RELEASED

if TYPE_CHECKING:
    from dphist.engines.duckdb.engine import DuckDBRecords


MEMORY_SHARE: Final = 0.4
"""The part of the memory limit that pairs in NumPy may take: arrays live beside the engine's own buffers."""

UNCOUNTED: Final = 0.25
"""The part of the memory limit for what the engine does not count: its windows and joins take up to 30 % more than they say."""

BATCH: Final = 1 << 19
"""Pairs that are handed over at a time, or more where there are many units."""

BYTES_OF_GROUP: Final = 160
"""Bytes per group of the arrays that rounds and counting hold."""


class _Sizes(NamedTuple):
    """How many units, pairs and groups there are, and the most groups that a unit has."""

    units: int
    pairs: int
    degree: int
    groups: int


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class DuckDBPairs:
    """The pairs in an open session. True values: nothing here is safe to print."""

    records: DuckDBRecords

    @property
    def connection(self) -> duckdb.DuckDBPyConnection:
        """The open session."""
        return self.records.connection

    @property
    def key_names(self) -> tuple[str, ...]:
        """The names of the keys inside the plan."""
        return self.records.fields.key_names

    def groups(self, bounds: ContributionBounds) -> LocalGroups:
        """Bounded counts and sums as arrays."""
        return local_groups(self.histogram(bounds))

    def degree_histogram(self, edges: Integers) -> Integers:
        """How many units have a number of groups in [edges_k, edges_k+1); above the last, the last."""
        place = bucket_sql("degree", edges)
        sql = f"SELECT {place} AS place, COUNT(*) AS units FROM units GROUP BY place"
        return _histogram_of_units(self.connection, sql, len(edges))

    def total_units(self) -> int:
        """How many units have at least one pair."""
        return int(self._numbers("SELECT COUNT(*) AS units FROM units")["units"][0])

    def non_empty_groups(self) -> int:
        """How many groups have at least one pair."""
        listed = f"(SELECT 1 FROM pairs GROUP BY {', '.join(self.key_names)})"
        return int(self._numbers(f"SELECT COUNT(*) AS groups FROM {listed} AS listed")["groups"][0])

    def histogram(self, bounds: ContributionBounds) -> Histogram:
        """The bounded histogram of the same pairs, for the mechanisms that need one pass only."""
        records, total = self.records, self.total_units() if self.records.query.want_total else None
        sql = histogram_sql(replace(records.fields, want_total=False), bounds, records.seed, DUCKDB, paired=True)
        table = fetch(self.connection, sql)
        return histogram_of(table, records.query, ContributionBounds(bounds.max_groups), total_units=total)

    def sampled(self, most_groups: int, *, in_memory: bool | None = None) -> MemoryPairs | SqlPairs:
        """The pairs as dense codes with each unit's sample of at most `most_groups` groups: arrays if they fit.

        Nothing is asked of the pairs after this: their table makes room for the codes.
        """
        sizes = self._number_groups()
        keys = ", ".join(f"pairs.{key}" for key in self.key_names)
        place = f"ROW_NUMBER() OVER (PARTITION BY unit_code ORDER BY {self._priority}, {keys})"
        near = DUCKDB.among_first(self._priority, plenty(most_groups), "degree")
        rows = [self._coded_sql("TRUE AS sampled", f"degree <= {most_groups}")]
        if sizes.degree > most_groups:
            heavy = f"degree > {most_groups}"
            rows += [
                self._coded_sql(f"{place} <= {most_groups} AS sampled", heavy, near),
                self._coded_sql("FALSE AS sampled", heavy, f"NOT {near}"),
            ]
        if not self._fits(sizes, in_memory):
            return self._in_tables(sizes, rows)
        pairs = Arrangement(self._degrees(), self._names, self._threads, most_groups)
        self._stream(rows, self._rows_of_batch(sizes), pairs.fill)
        return self._in_arrays(sizes, pairs)

    def voters(self, *, in_memory: bool | None = None) -> MemoryPairs | SqlPairs:
        """The pairs as dense codes with the turn of each unit as its code, and the place of each pair in the unit's order."""
        sizes = self._number_groups()
        turn = DUCKDB.priority(self.records.seed, ["unit"])
        execute(
            self.connection,
            "CREATE TEMP TABLE turns AS SELECT unit, degree,"
            f" CAST(ROW_NUMBER() OVER (ORDER BY {turn}, unit) - 1 AS INTEGER) AS unit_code FROM units",
            "DROP TABLE units",
            "ALTER TABLE turns RENAME TO units",
        )
        # Codes of groups are in the order of their keys, so they break ties of the hash as the keys would.
        rows, order = self._coded_sql(f"{self._priority} AS priority"), "priority, group_code"
        if not self._fits(sizes, in_memory):
            place = f"CAST(ROW_NUMBER() OVER (PARTITION BY unit_code ORDER BY {order}) AS INTEGER) AS place"
            return self._in_tables(
                sizes, [f"SELECT * EXCLUDE priority, TRUE AS sampled, {place} FROM ({rows}) AS named"]
            )
        pairs = Arrangement(self._degrees(), self._names, self._threads)
        rows = f"SELECT group_code{self._steps} FROM ({rows}) AS named ORDER BY unit_code, {order}"
        self._stream([rows], BATCH, pairs.append)
        return self._in_arrays(sizes, pairs, ordered=True)

    def _coded_sql(self, column: str, of_units: str = "TRUE", of_pairs: str = "TRUE") -> str:
        """Codes of the pairs of some units, with a column of the pair and its steps."""
        keys, same = ", ".join(f"pairs.{key}" for key in self.key_names), self._same("pair")
        return (
            f"SELECT unit_code, group_code, {column.rpartition(' ')[2]}{self._steps} FROM (SELECT unit_code, {keys}, {column}"
            f"{self._steps} FROM pairs JOIN (SELECT * FROM units WHERE {of_units}) AS units ON pairs.unit = units.unit"
            f" WHERE {of_pairs}) AS pair JOIN groups ON {same}"
        )

    def _write_bins(self) -> None:
        """The lists of the pairs by their codes, with the order in which a unit's groups take part in quantiles.

        The order has a hash of its own, so it does not prefer groups that the unit voted for or sampled.
        """
        if names := list_names(self.records.query.measures):
            order = DUCKDB.priority(
                self.records.seed ^ OTHER_SEED, ["pairs.unit", *(f"pairs.{name}" for name in self.key_names)]
            )
            execute(
                self.connection,
                f"CREATE TEMP TABLE binned AS SELECT unit_code, group_code, {order} AS priority, {', '.join(names)}"
                f" FROM pairs JOIN units ON pairs.unit = units.unit JOIN groups ON {self._same('pairs')}",
            )

    def bins_of(self, codes: Integers, most: int) -> dict[str, Bins]:
        """The bins of some groups, from at most `most` of these groups of each unit."""
        trees, dialect = trees_of(self.records.query.measures), DUCKDB
        if not trees:
            return {}
        places = np.arange(len(codes), dtype=np.int64)
        self.connection.register(
            "given_places", pa.table({"group_code": codes.astype(np.int32), "group_place": places})
        )
        order = "ROW_NUMBER() OVER (PARTITION BY unit_code ORDER BY priority, group_code)"
        taking_part = f"(SELECT *, {order} AS place FROM binned JOIN given_places USING (group_code)) AS part"
        found = {}
        for i in trees:
            stage = binned_sql(i, f"{taking_part} WHERE place <= {most}", ["group_place"], dialect)
            table = fetch(self.connection, f"WITH {stage} SELECT * FROM binned_{i} ORDER BY group_place")
            lists, at = bins_of(table, i), integers(table, "group_place")
            lengths = np.zeros(len(codes), np.int64)
            lengths[at] = np.diff(lists.offsets)
            found[f"bins_{i}"] = Bins(np.append(0, np.cumsum(lengths)), lists.bins, lists.steps)
        return found

    def _number_groups(self) -> _Sizes:
        """Give each group a code."""
        keys = ", ".join(self.key_names)
        execute(
            self.connection,
            f"CREATE TEMP TABLE groups AS SELECT {keys},"
            # In the order of the keys. An order of rows would be data without noise, and ties and sums of doubles
            # that are computed from noisy values would show it.
            f" CAST(ROW_NUMBER() OVER (ORDER BY {keys}) - 1 AS INTEGER) AS group_code"
            f" FROM pairs GROUP BY {keys}",
        )
        found = self._numbers(
            "SELECT COUNT(*) AS units, CAST(COALESCE(SUM(degree), 0) AS BIGINT) AS pairs, COALESCE(MAX(degree), 0) AS degree,"
            " (SELECT COUNT(*) FROM groups) AS groups FROM units"
        )
        sizes = _Sizes(**{name: int(values[0]) for name, values in found.items()})
        if max(sizes.units, sizes.groups) >= MOST_RELEASED:
            raise InvalidParameter("fewer than 2^31 units and groups for the adaptive release", "more")
        return sizes

    def _fits(self, sizes: _Sizes, in_memory: bool | None) -> bool:
        """Whether there is room for arrays and for the pairs that threads work on. If so, the engine gives up that room.

        A thread works on one batch while another one waits, and later on a slice of whole units.
        """
        self._write_bins()
        worked_on = self._threads * max(2 * self._rows_of_batch(sizes), CHUNK, sizes.degree)
        arrays = (8 + 8 * len(self._names)) * sizes.pairs + 128 * sizes.units + 64 * sizes.groups
        arrays += 64 * min(sizes.pairs, worked_on)
        if in_memory is None:
            in_memory = arrays <= MEMORY_SHARE * memory_limit(self.connection)
        if in_memory:
            leave_room(self.connection, arrays)
        return in_memory

    def _in_tables(self, sizes: _Sizes, rows: Sequence[str]) -> SqlPairs:
        """The pairs in the table `coded`, which replaces the table of pairs."""
        execute(
            self.connection, f"CREATE TEMP TABLE coded AS {rows[0]}", *(f"INSERT INTO coded {sql}" for sql in rows[1:])
        )
        self._drop_pairs(sizes)
        return SqlPairs(self.connection, sizes.groups, self._names, self.keys_of, self.bins_of)

    def _in_arrays(self, sizes: _Sizes, pairs: Arrangement, *, ordered: bool = False) -> MemoryPairs:
        self._drop_pairs(sizes)
        return MemoryPairs(
            pairs.starts, pairs.group, sizes.groups, pairs.sampled, pairs.steps, self.keys_of, ordered, self.bins_of,
            self._threads,
        )  # fmt: skip

    def _drop_pairs(self, sizes: _Sizes) -> None:
        """Drop the pairs, which the codes replace, and leave room for arrays of groups."""
        execute(self.connection, "DROP TABLE pairs")
        leave_room(self.connection, BYTES_OF_GROUP * sizes.groups)

    def _rows_of_batch(self, sizes: _Sizes) -> int:
        """The pairs of a batch: more than there are units, if these are not too many."""
        return max(BATCH, min(2 * sizes.units, sizes.pairs // (8 * self._threads)))

    def _degrees(self) -> Integers:
        """How many groups each unit has, by its code."""
        found = self._numbers("SELECT unit_code, degree FROM units")
        degrees = np.zeros(len(found["degree"]), np.int64)
        degrees[found["unit_code"]] = found["degree"]
        return degrees

    def _stream(self, queries: Sequence[str], rows: int, take: Callable[[Iterable[pa.RecordBatch]], None]) -> None:
        """Hand over the rows of some queries as they come, `rows` at a time."""
        readers = (self.connection.sql(sql).to_arrow_reader(rows) for sql in queries)
        with interruptible(self.connection.interrupt):
            without_leaks(lambda: take(chain.from_iterable(readers)))

    def _same(self, table: str) -> str:
        return DUCKDB.same_keys(table, "groups", self.key_names)

    @property
    def _names(self) -> tuple[str, ...]:
        return tuple(measure.name for measure in self.records.query.measures if measure.tree is None)

    @property
    def _threads(self) -> int:
        return int(self._numbers("SELECT current_setting('threads') AS threads")["threads"][0])

    @property
    def _steps(self) -> str:
        return "".join(f", {name}" for name in steps_names(self.records.query.measures))

    def keys_of(self, index: Integers) -> pa.Table:
        """The keys of some groups, in the order of their codes in `index`."""
        return keys_of_codes(self.records, "groups", "group_code", index)

    @property
    def _priority(self) -> str:
        return DUCKDB.priority(self.records.seed, [f"pairs.{name}" for name in ("unit", *self.key_names)])

    def _numbers(self, sql: str) -> dict[str, NDArray[np.int64]]:
        table = fetch(self.connection, sql)
        return {name: integers(table, name) for name in table.column_names}


def pairs_of(records: DuckDBRecords) -> DuckDBPairs:
    """Write the pairs of some records down."""
    if records.query.public_keys is not None:
        raise InvalidParameter(
            "no public list of keys for an adaptive release", "one", "known groups need no selection."
        )
    records.tell_reading(BOUNDING)
    leave_room(records.connection, UNCOUNTED * memory_limit(records.connection))
    records.read(lambda: records.connection.execute(materialise_sql(records.fields)))
    execute(records.connection, UNITS_SQL)
    return DuckDBPairs(records)


_CODED: Final = "(SELECT unit_code AS unit, * FROM coded)"
_SAMPLED: Final = "(SELECT unit_code AS unit, * FROM coded WHERE sampled)"
_KEYS: Final = ("group_code",)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class SqlPairs(CodedPairs):
    """The table `coded` (unit_code, group_code, sampled, place for an election, steps_i) of an open connection."""

    connection: duckdb.DuckDBPyConnection
    groups: int
    names: tuple[str, ...] = ()
    keys_of: Callable[[Integers], pa.Table] = no_keys
    bins_of: BinsOf = no_bins

    def eligible(self) -> NDArray[np.bool_]:
        """Which groups some unit sampled."""
        table = fetch(self.connection, "SELECT DISTINCT group_code FROM coded WHERE sampled")
        eligible = np.zeros(self.groups, np.bool_)
        eligible[table.column("group_code").to_numpy()] = True
        return eligible

    def weighted_sums(self, weights: Integers) -> Integers:
        """Sums over the samples."""
        weighted = self._weighted(weights, _SAMPLED)
        return self._spread_column(weighted_sums_sql(weighted, _KEYS, DUCKDB), "exact")

    def norms(self, weights: Integers, edges: Integers, power: int) -> Integers:
        """One bucket for each unit that has any weight."""
        return _histogram_of_units(self.connection, norms_sql(self._weighted(weights), edges, power), len(edges))

    def class_sums(
        self, weights: Integers, chosen: Integers, bounds: Sequence[int], power: int, shifts: Mapping[str, int]
    ) -> dict[str, Integers]:
        """One query for all."""
        positions = {self.names.index(name) + 1: shift for name, shift in shifts.items()}
        sql = class_sums_sql(self._weighted(weights), _KEYS, bounds, power, positions, DUCKDB)
        table = fetch(self.connection, sql)
        rows = np.zeros(self.groups, np.int64)
        rows[chosen] = np.arange(len(chosen))
        cells = rows[table.column("group_code").to_numpy()], table.column("class").to_numpy() - 1
        sums = {}
        for name, column in zip(("units", *shifts), ("units", *(f"steps_{i}" for i in positions)), strict=True):
            sums[name] = np.zeros((len(chosen), len(bounds)), np.int64)
            sums[name][cells] = table.column(column).to_numpy()
        return sums

    def degree_histogram(self, edges: Integers) -> Integers:
        """One bucket for each unit."""
        return _histogram_of_units(self.connection, degrees_sql(_CODED, edges), len(edges))

    def shares(self) -> LocalGroups:
        """One query for all. Every group has some unit."""
        sums = self._spread_column(shares_sql(_CODED, _KEYS, DUCKDB), "exact")
        return LocalGroups(np.arange(self.groups), {"exact": sums}, self.keys_of)

    def coverage(self, groups: LocalGroups) -> tuple[int, int]:
        """One join with a table of the released codes."""
        self.connection.register("released_codes", pa.table({"group_code": groups.codes.astype(np.int32)}))
        sql = coverage_sql("coded", "released_codes", ["group_code"], DUCKDB, "unit_code")
        counted = fetch(self.connection, sql)
        return int(counted["covered"][0].as_py()), int(counted["other"][0].as_py())

    def votes(self, capacity: int, scores: Integers | None) -> Integers:
        """Round by round, until nobody is turned away. The code of a unit is its turn."""
        if scores is not None:
            codes = np.arange(self.groups, dtype=np.int32)
            self.connection.register("given_scores", pa.table({"group_code": codes, "first": scores}))
        lists = lists_sql(_CODED, None if scores is None else "given_scores", _KEYS, "unit_code", DUCKDB)
        execute(
            self.connection,
            f"CREATE OR REPLACE TEMP TABLE lists AS {lists}",
            f"CREATE OR REPLACE TEMP TABLE placed AS {first_asked_sql('lists', _KEYS)}",
        )
        while fetch(self.connection, f"SELECT 1 FROM placed WHERE rank > {capacity} LIMIT 1").num_rows:
            execute(
                self.connection,
                f"CREATE OR REPLACE TEMP TABLE next_placed AS {next_asked_sql('lists', 'placed', _KEYS, capacity, DUCKDB)}",
                "DROP TABLE placed",
                "ALTER TABLE next_placed RENAME TO placed",
            )
        votes = self._spread_column("SELECT group_code, COUNT(*) AS votes FROM placed GROUP BY group_code", "votes")
        execute(self.connection, "DROP TABLE placed", "DROP TABLE lists")
        return votes

    def _spread_column(self, sql: str, column: str) -> Integers:
        table, values = fetch(self.connection, sql), np.zeros(self.groups, np.int64)
        values[table.column("group_code").to_numpy()] = table.column(column).to_numpy()
        return values

    def _weighted(self, weights: Integers, pairs: str = _CODED) -> str:
        """Pairs with the weights of their groups: public values, which follow from published ones."""
        alive = np.flatnonzero(weights)
        self.connection.register(
            "given_weights", pa.table({"group_code": alive.astype(np.int32), "weight": weights[alive].astype(np.int64)})
        )
        execute(self.connection, "CREATE OR REPLACE TEMP TABLE weights AS SELECT * FROM given_weights")
        return weighted_sql(pairs, "weights", _KEYS, DUCKDB)


def _histogram_of_units(connection: duckdb.DuckDBPyConnection, sql: str, length: int) -> Integers:
    """Numbers of units by their place."""
    table, histogram = fetch(connection, sql), np.zeros(length, np.int64)
    histogram[table.column("place").to_numpy()] = table.column("units").to_numpy()
    return histogram


_BYTES_OF_ROW, _BYTES_OF_VOTER, _BYTES_OF_VALUE = 24, 96, 32


def count_distinct(
    records: DuckDBRecords, bounds: ContributionBounds, *, in_memory: bool | None = None
) -> dict[int, str]:
    """For each measure of distinct values, by its position, a table of groups with the number of values that are taken."""
    return {
        position: _count_distinct(records, position, int(measure.upper), bounds, in_memory)
        for position, measure in records.fields.distinct
    }


def _count_distinct(
    records: DuckDBRecords, position: int, most: int, bounds: ContributionBounds, in_memory: bool | None
) -> str:
    fields, dialect, connection = records.fields, DUCKDB, records.connection
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
    won = np.flatnonzero(_elect_values(records, most, in_memory))
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


def _elect_values(records: DuckDBRecords, most: int, in_memory: bool | None) -> Integers:
    """How many units hold each contested value: one or none."""
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
