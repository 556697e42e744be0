"""Trees of relations in DuckDB: a view `source_i` for each table and a view `relation_i` for each relation.

A table that comes twice is attached twice, since many sources allow one pass only. If DuckDB's reader fails on a value of a
Parquet file, other tables have been read by then. So everything is attached anew, and the files are read with null for such
values, as a table alone would be.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import duckdb
import pyarrow as pa

from dphist.columns import quote_identifier
from dphist.engines.derived import Types, Written, check_owner, reads_of, write
from dphist.engines.dialect import DUCKDB, Dialect
from dphist.engines.duckdb import types as keytypes
from dphist.engines.duckdb.expressions import Piece, Steps
from dphist.engines.duckdb.session import execute, fetch, session, without_leaks
from dphist.engines.duckdb.source import SOURCE, Attached, attach, described
from dphist.engines.expressions import Expression
from dphist.engines.names import check_columns
from dphist.engines.parser import read_expression
from dphist.engines.query import GroupByQuery, PerformanceSettings
from dphist.engines.relations import Derived, Scan, Values, owner
from dphist.errors import EngineFailure, InvalidParameter
from dphist.words import printable


def attach_derived(
    connection: duckdb.DuckDBPyConnection,
    derived: Derived,
    query: GroupByQuery,
    expressions: Mapping[str, Expression],
    needed: Sequence[str],
    seed: int,
) -> Attached:
    """Make a tree readable under the name SOURCE. Refusals are by names and types; no record is read."""
    check_owner(derived, query, expressions)
    relation, folded = derived.relation, {name.casefold() for name in needed}
    wanted = [name for name in relation.names if name.casefold() in folded]
    writer = DuckDBWriter(connection, derived.tables, seed, derived.most_rows)
    written = write(relation, wanted, writer)
    writer.create(SOURCE, f"SELECT * FROM {written.view}")
    tables = tuple(writer.attached)
    return Attached(
        columns={**dict.fromkeys(relation.names, ""), **written.types},
        typed=True,
        paths=tuple(dict.fromkeys(path for table in tables for path in table.paths)),
        form=next((table.form for table in tables if table.form is not None), None),
        reread=writer.rereading(),
        tables=tables,
        definitions=tuple(writer.definitions),
        longest=written.longest,
    )


def public_rows(derived: Derived, settings: PerformanceSettings) -> pa.Table:
    """All rows of a tree of public tables, in the order of their columns."""
    found = owner(derived.relation)
    if not found.public:
        raise InvalidParameter("public tables", f"rows of some {found.kind}")
    with session(settings) as connection:
        writer = DuckDBWriter(connection, derived.tables)
        written, reread = write(derived.relation, derived.relation.names, writer), writer.rereading()
        sql = f"SELECT {', '.join(map(quote_identifier, derived.relation.names))} FROM {written.view}"
        try:
            return fetch(connection, sql)
        except EngineFailure:
            if reread is None:
                raise
        without_leaks(reread)
        return fetch(connection, sql)


@dataclass(slots=True, eq=False)
class DuckDBWriter:
    """Writes relations for DuckDB: see `derived.Writer`."""

    connection: duckdb.DuckDBPyConnection
    tables: Mapping[str, Any]
    seed: int = 0
    most_rows: int | None = None
    attached: list[Attached] = field(default_factory=list)
    again: list[Callable[[], object]] = field(default_factory=list)
    definitions: list[str] = field(default_factory=list)
    once: Counter[int] = field(default_factory=Counter)
    relations: int = 0
    dialect: Dialect = DUCKDB
    types: Types = keytypes

    def quote(self, name: str) -> str:
        """The name itself."""
        return quote_identifier(name)

    def scan(self, relation: Scan, wanted: Sequence[str]) -> Written:
        """Each scan attaches its table anew."""
        reads = reads_of(relation, wanted)
        table = self.tables[relation.table]
        self._check_once(table, relation.table)
        view = self._attach(table, reads.needed, f"the table {relation.table}")
        attached = self.attached[-1]
        check_columns(list(reads.own.values()), reads.expressions, list(attached.columns), attached.form)
        types = {name.casefold(): kind for name, kind in attached.columns.items()}
        for name in reads.of_unit:
            keytypes.check_unit(types[name.casefold()], name)
        steps = self._steps(attached, reads.needed)
        pieces = {name: steps.column(source) for name, source in reads.own.items()}
        pieces |= {str(reads.unit): steps.write(expression) for expression in reads.expressions}
        return self._define(steps, view, pieces)

    def constants(self, relation: Values, wanted: Sequence[str]) -> Written:
        """The constants become a table in memory, so no text of a statement is in the SQL."""
        view = self._attach(constants(relation, self.connection), wanted, "constants of the statement")
        steps = self._steps(self.attached[-1], wanted)
        return self._define(steps, view, {name: steps.column(name) for name in wanted})

    def select(self, child: Written, kept: Mapping[str, str], computed: Mapping[str, Expression]) -> Written:
        """Steps over the view."""
        steps = Steps(self.connection, child.types, guarded=True, longest=child.longest)
        pieces = {name: steps.column(source) for name, source in kept.items()}
        pieces |= {name: steps.write(expression) for name, expression in computed.items()}
        return self._define(steps, child.view, pieces)

    def filter(self, child: Written, condition: Expression, wanted: Sequence[str]) -> Written:
        """The condition is the last step."""
        steps = Steps(self.connection, child.types, guarded=True, longest=child.longest)
        where = steps.condition(condition)
        return self._define(steps, child.view, {name: steps.column(name) for name in wanted}, f"\nWHERE {where}")

    def define(self, sql: str) -> Written:
        """A temporary view."""
        self.relations += 1
        view = f"relation_{self.relations}"
        self.create(view, sql)
        return Written(view, described(self.connection, view))

    def create(self, view: str, sql: str) -> None:
        """A temporary view, which is shown with the SQL of a run."""
        self.definitions.append(f"CREATE TEMP VIEW {view} AS\n{sql};")
        execute(self.connection, self.definitions[-1])

    def rereading(self) -> Callable[[], None] | None:
        """A function that attaches everything anew. It runs at once where the user gave a reader with only one pass."""
        if all(table.reread is None for table in self.attached):
            return None
        again = tuple(self.again)

        def reread() -> None:
            for one in again:
                one()

        if not self.once:
            return reread
        for table in self.attached:
            if table.reread is not None:
                table.reread()
        return None

    def _check_once(self, table: object, name: str) -> None:
        if isinstance(table, pa.RecordBatchReader):
            self.once[id(table)] += 1
            if self.once[id(table)] > 1:
                raise InvalidParameter(
                    f"a table that can be read twice as {printable(name)}",
                    "a reader, whose records come once",
                    "read it into an Arrow table first: reader.read_all().",
                )

    def _attach(self, table: object, needed: Sequence[str], what: str) -> str:
        view = f"source_{len(self.attached) + 1}"
        attached = attach(self.connection, table, needed, view)
        self.attached.append(attached)
        self.again.append(attached.reread or partial(attach, self.connection, table, needed, view))
        self.definitions.append(f"-- {view}: {printable(what)}")
        return view

    def _steps(self, attached: Attached, names: Sequence[str]) -> Steps:
        folded = {name.casefold() for name in names}
        columns = {name: kind for name, kind in attached.columns.items() if name.casefold() in folded}
        return Steps(self.connection, columns)

    def _define(self, steps: Steps, view: str, pieces: Mapping[str, Piece], where: str = "") -> Written:
        columns = []
        for name, piece in pieces.items():
            sql = f"CAST({piece.sql} AS VARCHAR)" if piece.family == "null" else piece.sql
            columns.append(f"{sql} AS {quote_identifier(name)}")
        return self.define(f"SELECT {', '.join(columns)}\nFROM {steps.source(view)}{where}")


def constants(relation: Values, connection: duckdb.DuckDBPyConnection) -> pa.Table:
    """Literals as a table. A column holds whole numbers of 64 bits, or doubles, or values of one other type."""
    steps, pieces = Steps(connection, {}), dict[str, Piece]()
    for text in dict.fromkeys(text for row in relation.rows for text in row):
        expression = read_expression(text)
        if expression.columns:
            raise InvalidParameter("constants alone", repr(text), "it reads a column.")
        pieces[text] = steps.write(expression)
    kinds = [_kind([pieces[row[place]] for row in relation.rows]) for place in range(len(relation.columns))]
    rows = [
        "(" + ", ".join(f"CAST({pieces[text].sql} AS {kind})" for text, kind in zip(row, kinds, strict=True)) + ")"
        for row in relation.rows
    ]
    nothing = ", ".join(f"CAST(NULL AS {kind})" for kind in kinds)
    listed = f"VALUES {', '.join(rows)}" if rows else f"SELECT {nothing} LIMIT 0"
    return connection.sql(listed).to_arrow_table().rename_columns(list(relation.columns))


def _kind(pieces: Sequence[Piece]) -> str:
    kinds = {piece.type_name for piece in pieces if piece.family != "null"}
    if not kinds:
        return "VARCHAR"
    if kinds <= keytypes.SIGNED:
        return "BIGINT"
    if all(keytypes.family(kind) in ("whole", "number") for kind in kinds):
        return "DOUBLE"
    (kind, *others) = sorted(kinds)
    if others or keytypes.family(kind) in ("list", "struct", "interval", "other"):
        raise InvalidParameter("constants of one simple type in each column", " and ".join(sorted(kinds)))
    return kind
