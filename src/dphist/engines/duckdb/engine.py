"""Bounding and counting in an embedded DuckDB, in a session of its own for each run."""

from __future__ import annotations

import glob
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Final, TypeVar

import duckdb
import numpy as np
import pyarrow as pa

from dphist.aggregates.measures import Measure
from dphist.aggregates.tree import Bins
from dphist.engines.base import (
    BOUNDING,
    READING,
    SIZING,
    SKETCHING,
    Engine,
    Integers,
    Progress,
    Reading,
    check_sketch,
    commented,
    fresh,
    silent,
)
from dphist.engines.buckets import buckets_sql, spread
from dphist.engines.dialect import DUCKDB
from dphist.engines.distinct import explained_sql
from dphist.engines.duckdb import types as keytypes
from dphist.engines.duckdb.derived import attach_derived
from dphist.engines.duckdb.expressions import Piece, Steps
from dphist.engines.duckdb.session import (
    fetch,
    leave_room,
    memory_limit,
    quote_text,
    session,
    set_memory_limit,
    without_leaks,
)
from dphist.engines.duckdb.sketch import MisraGries
from dphist.engines.duckdb.source import SOURCE, Attached, InputBytes, attach, described
from dphist.engines.expressions import hint_of_cast
from dphist.engines.histogram import (
    ContributionBounds,
    Histogram,
    LocalGroups,
    histogram_of,
    integers,
    local_groups,
    named,
)
from dphist.engines.names import check_columns
from dphist.engines.parser import read_query
from dphist.engines.query import GroupByQuery, PerformanceSettings, parse_unit
from dphist.engines.relations import Derived
from dphist.engines.sql import (
    Fields,
    blocks_sql,
    coverage_sql,
    fields_of,
    histogram_sql,
    pairs_sql,
    records_sql,
    steps_names,
    trees_of,
)
from dphist.errors import InvalidParameter
from dphist.files.interruption import interruptible

if TYPE_CHECKING:
    from dphist.engines.duckdb.pairs import DuckDBPairs


SKETCH_BLOCKS: Final = 64
UNREADABLE: Final = (duckdb.InvalidInputException, duckdb.ConversionException, duckdb.OutOfRangeException)
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class DuckDBEngine(Engine):
    """Rows -> bounded histogram on this machine."""

    settings: PerformanceSettings = field(default_factory=PerformanceSettings)

    @contextmanager
    def open(
        self, source: object, query: GroupByQuery, *, seed: int | None = None, progress: Progress | None = None
    ) -> Iterator[DuckDBRecords]:
        """Check everything that can be checked without reading a record."""
        tell, seed = progress or silent, fresh(seed)
        with session(self.settings) as connection:
            tell(READING)
            fields, attached = resolve(connection, source, query, seed)
            yield DuckDBRecords(connection, fields, attached, query, seed, tell)

    def columns(self, source: object) -> list[str]:
        """All columns. The source is attached without reading any of them."""
        with session(self.settings) as connection:
            return list(
                source.relation.names if isinstance(source, Derived) else attach(connection, source, []).columns
            )


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class DuckDBRecords:
    """The records of a query in an open session."""

    connection: duckdb.DuckDBPyConnection
    fields: Fields
    attached: Attached
    query: GroupByQuery
    seed: int
    tell: Progress

    def require_noise(self) -> None:
        """Noise is drawn in this process."""

    def tell_reading(self, phase: str) -> None:
        """A phase that reads the files of the source, unless they are read already or there are none."""
        files = self.attached.inputs if self.fields.kept is None else []
        self.tell(Reading(phase, InputBytes(files).share) if files else phase)

    def keep(self) -> DuckDBRecords:
        """Write the records into a table of the session, which may spill. Readers, lazy frames and some files can be read
        only once.
        """
        self.tell_reading(SIZING)
        records = records_sql(self.fields, DUCKDB)
        self.read(
            lambda: self.connection.execute(f"CREATE TEMP TABLE kept_records AS WITH {records} SELECT * FROM records")
        )
        return replace(self, fields=replace(self.fields, kept="kept_records", read=self.fields.reads))

    def sizes(self, position: int) -> Integers:
        """One bucket for each unit."""
        sql = buckets_sql(self.fields, position, self.seed, DUCKDB)
        table = self.read(lambda: self.connection.sql(sql).to_arrow_table())
        return spread(integers(table, "bucket"), integers(table, "units"))

    def with_measures(self, measures: Sequence[Measure]) -> DuckDBRecords:
        """In the same session."""
        query = replace(self.query, measures=tuple(measures))
        return replace(self, fields=self.fields.with_measures(measures), query=query)

    def groups(self, bounds: ContributionBounds) -> LocalGroups:
        """Bounded counts and sums as arrays; keys stay in the engine until they are released."""
        if self.fields.distinct and self.fields.kept is None:
            return self.keep().groups(bounds)
        measures, total = self.query.measures, None
        limit = memory_limit(self.connection)
        self._count(bounds)
        leave_room(self.connection, limit, limit / 4)  # until keys are asked for
        trees = trees_of(measures)
        columns = ["code", "units", *steps_names(measures)]
        columns += [f"{name}_{position}" for position in trees for name in ("bins", "weights")]
        arrays, bins = self._arrays(f"SELECT {', '.join(columns)} FROM counted", trees)
        if self.fields.want_total:
            # Without any unit SQL's sum is null, which would tell an empty table from one unit for certain.
            summed = "SELECT CAST(COALESCE(SUM(first_units), 0) AS BIGINT) AS total FROM counted"
            total = int(self._arrays(summed)[0]["total"][0])
        taken = sum(array.nbytes for array in arrays.values()) + sum(24 * len(one.bins) for one in bins.values())

        def keys_of(index: Integers) -> pa.Table:
            set_memory_limit(self.connection, max(limit - taken, limit / 2))
            return keys_of_codes(self, "counted", "code", index)

        return LocalGroups(
            codes=arrays.pop("code"),
            columns={**arrays, **bins},
            keys_of=keys_of,
            total=total,
            bounds=replace(bounds, sparsity=None),
            listed=self.query.public_keys is not None,
            coverage_of=self._coverage if self.query.want_coverage else None,
        )

    def _coverage(self, released: pa.Table) -> tuple[int, int]:
        """Coverage from the kept pairs, since many sources can be read only once."""
        keys = self.fields.key_names
        self.connection.register("released_keys", released.select(range(len(keys))).rename_columns(list(keys)))
        counted = fetch(self.connection, coverage_sql("pairs", "released_keys", keys, DUCKDB))
        self.connection.unregister("released_keys")
        return int(counted["covered"][0].as_py()), int(counted["other"][0].as_py())

    def _count(self, bounds: ContributionBounds) -> None:
        """A table of the groups, numbered in no order, in the engine: it may be larger than memory."""
        self.tell_reading(BOUNDING)
        taken = self._distinct(bounds)
        paired = self.query.want_coverage
        if paired:
            self.read(lambda: self.connection.execute(materialise_sql(self.fields)))
        sql = histogram_sql(self.fields, bounds, self.seed, DUCKDB, paired=paired, taken=taken)
        code = "CAST(ROW_NUMBER() OVER () - 1 AS BIGINT) AS code"
        self.read(
            lambda: self.connection.execute(f"CREATE OR REPLACE TEMP TABLE counted AS SELECT *, {code} FROM ({sql})")
        )

    def _distinct(self, bounds: ContributionBounds) -> dict[int, str]:
        """The tables of taken values, for measures of distinct values."""
        if not self.fields.distinct:
            return {}
        from dphist.engines.duckdb.pairs import count_distinct

        return count_distinct(self, bounds)

    def _arrays(self, sql: str, trees: Sequence[int] = ()) -> tuple[dict[str, Integers], dict[str, Bins]]:
        """Whole numbers, filled in batch by batch: a table in one piece would need two copies. A null is refused."""
        rows = int(fetch(self.connection, f"SELECT COUNT(*) AS rows FROM ({sql})").column("rows")[0].as_py())

        def fill() -> tuple[dict[str, Integers], dict[str, Bins]]:
            reader = self.connection.sql(sql).to_arrow_reader()
            numbers = [name for name in reader.schema.names if not name.startswith(("bins_", "weights_"))]
            arrays = {name: np.empty(rows, np.int64) for name in numbers}
            parts: dict[int, list[Bins]] = {position: [] for position in trees}
            first = 0
            for batch in reader:
                for name, array in arrays.items():
                    array[first : first + batch.num_rows] = batch.column(name).to_numpy()
                for position, found in parts.items():
                    found.append(Bins.from_lists(batch.column(f"bins_{position}"), batch.column(f"weights_{position}")))
                first += batch.num_rows
            return arrays, {f"bins_{position}": Bins.joined(found) for position, found in parts.items()}

        return without_leaks(fill)

    def sketch(self, sparsity: int) -> LocalGroups:
        """A sketch as arrays."""
        return local_groups(self.sketched(sparsity))

    def histogram(self, bounds: ContributionBounds, largest: int | None = None) -> Histogram:
        """Units per group, each unit in at most `bounds.max_groups` of its groups, drawn uniformly."""
        if self.fields.distinct and self.fields.kept is None:
            return self.keep().histogram(bounds, largest)
        self.tell_reading(BOUNDING)
        taken = self._distinct(bounds)
        sql = histogram_sql(self.fields, bounds, self.seed, DUCKDB, largest=largest, taken=taken)
        table = self.read(lambda: self.connection.sql(sql).to_arrow_table())
        return histogram_of(table, self.query, replace(bounds, sparsity=None))

    def sketched(self, sparsity: int) -> Histogram:
        """A Misra-Gries sketch with at most `sparsity` groups; it carries no sums."""
        check_sketch(self.query, sparsity)
        self.tell_reading(SKETCHING)
        sql = blocks_sql(self.fields, SKETCH_BLOCKS, self.seed, DUCKDB)
        return self.read(lambda: _fold(self.connection.sql(sql).to_arrow_reader(), self.query, sparsity))

    @contextmanager
    def pairs(self) -> Iterator[DuckDBPairs]:
        """The pairs as temporary tables of the session."""
        from dphist.engines.duckdb.pairs import pairs_of

        yield pairs_of(self)

    def explain(self, bounds: ContributionBounds) -> str:
        """The SQL that `groups` executes."""
        return commented(self.query, self.fields.explained(explained_sql(self.fields, bounds, DUCKDB)))

    def explain_pairs(self) -> str:
        """The SQL that `pairs` executes."""
        return commented(self.query, self.fields.explained(";\n".join([materialise_sql(self.fields), UNITS_SQL])))

    def read(self, work: Callable[[], _T]) -> _T:
        """Run work that reads the records. If DuckDB's reader fails on a value, run it again with null for such values."""
        with interruptible(
            self.connection.interrupt
        ):  # a reader in Python would report an interruption as an error of the source
            if self.attached.reread is None:
                return without_leaks(work)
            with suppress(*UNREADABLE):
                return without_leaks(work, let_through=UNREADABLE)
        with interruptible(self.connection.interrupt):
            without_leaks(self.attached.reread)
            return without_leaks(work)


def keys_of_codes(records: DuckDBRecords, table: str, code: str, index: Integers) -> pa.Table:
    """The keys of some groups of a table, in the order of their codes in `index`."""
    records.connection.register("wanted", pa.table({code: index, "place": np.arange(len(index))}))
    keys = ", ".join(records.fields.key_names)
    wanted = f"SELECT {keys} FROM {table} JOIN wanted USING ({code}) ORDER BY place"
    return named(fetch(records.connection, wanted), records.query)


UNITS_SQL: Final = (
    "CREATE TEMP TABLE units AS SELECT unit, CAST(ROW_NUMBER() OVER () - 1 AS INTEGER) AS unit_code,"
    " COUNT(*) AS degree FROM pairs GROUP BY unit"
)


def materialise_sql(fields: Fields) -> str:
    """One row per distinct pair, with what the unit adds to the group in whole steps."""
    stages = [records_sql(fields, DUCKDB), pairs_sql(fields, DUCKDB)]
    return "CREATE TEMP TABLE pairs AS WITH " + ",\n".join(stages) + "\nSELECT * FROM pairs"


def _fold(reader: pa.RecordBatchReader, query: GroupByQuery, sparsity: int) -> Histogram:
    """Feed the blocks, which arrive one after the other, into one sketch."""
    names = [f"key_{position}" for position in range(1, len(query.by) + 1)]
    sketch = MisraGries(sparsity, pa.schema([reader.schema.field(name) for name in names]))
    waiting: list[pa.RecordBatch] = []

    def flush() -> None:
        if waiting:
            block = pa.Table.from_batches(waiting)
            sketch.add(block.select(names), integers(block, "units"))
            waiting.clear()

    current: int | None = None
    for batch in reader:
        blocks = batch.column("block").to_numpy()
        starts = [0, *(np.flatnonzero(blocks[1:] != blocks[:-1]) + 1).tolist(), len(blocks)]
        for first, last in pairwise(starts):
            if first == last:
                continue
            if current is not None and int(blocks[first]) != current:
                flush()
            current = int(blocks[first])
            waiting.append(batch.slice(first, last - first))
    flush()
    histogram = sketch.histogram()
    return replace(histogram, keys=histogram.keys.rename_columns([key.name for key in query.by]))


_LISTED: Final = "listed_keys"


def _close_doors(connection: duckdb.DuckDBPyConnection, attached: Attached) -> None:
    """From here on the connection reads its source and its own temporary files, nothing else."""
    spelled = dict.fromkeys([*attached.paths, *map(glob.escape, attached.paths)])  # as `source` spells them
    paths = ", ".join(map(quote_text, spelled))
    connection.execute(f"SET allowed_paths = [{paths}]")
    connection.execute("SET enable_external_access = false")
    connection.execute("SET allowed_configs = ['memory_limit']")  # which is lowered where arrays need room
    connection.execute("SET lock_configuration = true")


def resolve(
    connection: duckdb.DuckDBPyConnection, source: object, query: GroupByQuery, seed: int
) -> tuple[Fields, Attached]:
    """Check everything that can be checked without reading a record. seed: of the draws from a unit's rows."""
    plain, expressions = read_query(query)
    read = [name for expression in expressions.values() for name in expression.columns]
    if isinstance(source, Derived):
        attached = attach_derived(connection, source, query, expressions, [*plain, *read], seed)
    else:
        attached = attach(connection, source, [*plain, *read])
    _close_doors(connection, attached)
    check_columns(plain, expressions.values(), list(attached.columns), attached.form)
    kinds = {name.casefold(): kind for name, kind in attached.columns.items()}
    for key in query.by:
        if key.numbers_in is not None:
            _check_numbers(key.numbers_in, keytypes.base(kinds[key.numbers_in.casefold()]))
    folded = {name.casefold() for name in (*plain, *read)}
    columns = {name: kind for name, kind in attached.columns.items() if name.casefold() in folded}
    steps = Steps(connection, columns, longest=attached.longest)

    def piece_of(name: str, expression: str | None) -> Piece:
        return steps.column(name) if expression is None else steps.write(expressions[expression])

    for part in (parts := parse_unit(query.unit)):
        for name in [part.name] if part.expression is None else expressions[part.expression].columns:
            keytypes.check_unit(kinds[name.casefold()], name)
    unit = [piece_of(part.name, part.expression) for part in parts]
    keys = [piece_of(key.name, key.expression) for key in query.by]
    for piece, key in zip(keys, query.by, strict=True):
        if key.role == "ordered value" and keytypes.is_text(piece.type_name):
            raise InvalidParameter(
                f"numbers, dates or times in {key.name!r}, which are compared",
                f"the type {keytypes.base(piece.type_name)}",
                "CSV and JSON columns are text: read them as numbers (--as number), or compare letters (--as text).",
            )
    values = [
        None if m.column is None else _value(m, piece_of(m.column, m.expression), steps, attached)
        for m in query.measures
    ]
    where = None if query.where is None else steps.condition(expressions[query.where])
    own, typed = ([(piece.sql, piece.type_name) for piece in pieces] for pieces in (unit, keys))
    read_by = steps.source(SOURCE)  # last: by now it has all steps
    fields = fields_of(query, keytypes, own, typed, values, where, read_by, attached.definitions, attached.longest)
    if query.public_keys is not None:
        fields = replace(fields, listed=_list_keys(connection, query, steps, fields.keys))
    return fields, attached


def _value(measure: Measure, piece: Piece, steps: Steps, attached: Attached) -> str:
    column, kind = str(measure.column), keytypes.base(piece.type_name)
    if measure.any_type:
        return keytypes.canonical(piece.sql, piece.type_name, repr(column))
    if kind in keytypes.NUMBERS:
        return f"CAST({piece.sql} AS DOUBLE)"
    if measure.expression is not None:
        raise InvalidParameter(
            f"numbers in {measure.expression!r}", f"the type {kind}", "cast it: CAST(... AS DOUBLE), for example."
        )
    if keytypes.base(attached.columns[column]) == "NULL" or (kind == "VARCHAR" and not attached.typed):
        number = steps.add(f"CAST({piece.sql} AS DOUBLE)", [piece], column)
        return number.sql
    hint = "sums and means need a numeric column."
    if attached.tables and kind == "VARCHAR":
        hint = hint_of_cast(column, ["number"], column=True).strip()
    raise InvalidParameter(f"numbers in {column!r}", f"the type {kind}", hint)


def _check_numbers(column: str, kind: str) -> None:
    """Refuse a type that casts to no number, such as a date: every record would be null."""
    if kind not in keytypes.NUMBERS and not keytypes.is_text(kind):
        raise InvalidParameter(
            f"numbers in {column!r}",
            f"the type {kind}",
            "derive one first, such as the year of a date or its age in days.",
        )


def _list_keys(
    connection: duckdb.DuckDBPyConnection, query: GroupByQuery, steps: Steps, canonical: Sequence[str]
) -> str:
    """Register the public list under the types of the keys. Its values are public and may be named."""
    if query.public_keys is None:
        raise AssertionError("asked for only with a list")
    typed = ", ".join(f"{sql} AS key_{position}" for position, sql in enumerate(canonical, 1))
    types = described(connection, f"(SELECT {typed} FROM {steps.source(SOURCE)}) AS typed")
    given = query.public_keys.select([key.name for key in query.by]).rename_columns(list(types))
    connection.register("given_keys", given)
    casts = []
    for (name, kind), key in zip(types.items(), query.by, strict=True):
        cast = keytypes.guarded(f"TRY_CAST({name} AS {kind})", kind)
        misfit = f"SELECT {name} FROM given_keys WHERE {name} IS NOT NULL AND {cast} IS NULL LIMIT 1"
        if misfits := connection.execute(misfit).fetchall():
            raise InvalidParameter(f"public keys of the type {kind} for {key.name!r}", repr(misfits[0][0]))
        if query.null_keys == "drop" and given.column(name).null_count:
            raise InvalidParameter(
                f"no null among the public keys for {key.name!r}", "one", "--null-keys drop drops it."
            )
        casts.append(f"{cast} AS {name}")
    connection.execute(f"CREATE TEMP TABLE {_LISTED} AS SELECT {', '.join(casts)} FROM given_keys")
    names = ", ".join(types)
    twice = f"SELECT {names} FROM {_LISTED} GROUP BY {names} HAVING COUNT(*) > 1 LIMIT 1"
    if repeated := connection.execute(twice).fetchall():
        raise InvalidParameter(
            f"public keys that differ, read as {', '.join(types.values())}",
            f"{', '.join(map(repr, repeated[0]))} more than once",
            "list each group once, spelled as in the data.",
        )
    return _LISTED
