"""Trees of relations in Spark: a view of each table, guarded and with the barrier, and a view of each relation.

Every column has a name of ours, so that no name from outside gets into the SQL.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import duckdb

from dphist.engines.derived import Types, Written, check_owner, reads_of, write
from dphist.engines.dialect import SPARK, Dialect
from dphist.engines.duckdb.derived import constants
from dphist.engines.expressions import LONGEST_KEY, Expression
from dphist.engines.names import check_columns, check_unique
from dphist.engines.query import GroupByQuery
from dphist.engines.relations import Derived, Scan, Values
from dphist.engines.spark import types as spark_types
from dphist.engines.spark.expressions import spark_expression
from dphist.engines.spark.session import without_leaks
from dphist.engines.spark.source import Views, check_times, narrowed, read_frame, types_of
from dphist.errors import InvalidParameter
from dphist.words import printable

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def derived_frame(
    writer: SparkWriter,
    derived: Derived,
    query: GroupByQuery,
    expressions: Mapping[str, Expression],
    needed: Sequence[str],
) -> tuple[DataFrame, int]:
    """The rows of a tree with the columns that are needed, under their own names; and how long a text made of them may be."""
    from pyspark.sql import functions as F  # noqa: N812

    check_owner(derived, query, expressions)
    folded = {name.casefold() for name in needed}
    wanted = [name for name in derived.relation.names if name.casefold() in folded]
    written = write(derived.relation, wanted, writer)
    columns = [F.col(writer.quote(name)).alias(name) for name in written.types]
    return without_leaks(lambda: writer.spark.table(written.view).select(*columns)), written.longest


@dataclass(slots=True, eq=False)
class SparkWriter:
    """Writes relations for Spark: see `derived.Writer`."""

    spark: SparkSession
    tables: Mapping[str, Any]
    views: Views
    seed: int
    most_rows: int | None
    names: dict[str, str] = field(default_factory=dict)
    statements: list[str] = field(default_factory=list)
    attached: int = 0
    relations: int = 0
    dialect: Dialect = SPARK
    types: Types = spark_types

    @property
    def definitions(self) -> tuple[str, ...]:
        """The views, and what their columns stand for."""
        columns = "\n".join(f"-- {ours}: {printable(name)}" for name, ours in self.names.items())
        return (columns, *self.statements)

    def quote(self, name: str) -> str:
        """A name of ours."""
        return self.names.setdefault(name, f"item_{len(self.names)}")

    def scan(self, relation: Scan, wanted: Sequence[str]) -> Written:
        """Each scan has its own frame."""
        reads = reads_of(relation, wanted)
        table, own = self.tables[relation.table], list(reads.own.values())
        check_times(table, reads.of_unit)
        frame, _ = read_frame(self.spark, table, own, reads.expressions)
        check_unique(frame.columns)
        check_columns(own, reads.expressions, frame.columns, None)
        view, named = self._attach(frame, reads.needed, f"the table {relation.table}")
        pieces = {name: named(source) for name, source in reads.own.items()}
        pieces |= {str(reads.unit): self._expression(one, view, named) for one in reads.expressions}
        return self._define(view, pieces)

    def constants(self, relation: Values, wanted: Sequence[str]) -> Written:
        """The constants become a table of the driver, so no text of a statement is in the SQL."""
        with duckdb.connect(":memory:") as connection:
            listed = constants(relation, connection)
        frame, _ = read_frame(self.spark, listed, wanted, [])
        view, named = self._attach(frame, wanted, "constants of the statement")
        return self._define(view, {name: named(name) for name in wanted})

    def select(self, child: Written, kept: Mapping[str, str], computed: Mapping[str, Expression]) -> Written:
        """In one step."""
        pieces = {name: self.quote(source) for name, source in kept.items()}
        named = self._named(child)
        for name, expression in computed.items():
            sql = self._expression(expression, child.view, named, child.longest)
            void = types_of(self.spark, child.view, [sql]) == ["void"]
            pieces[name] = f"CAST({sql} AS STRING)" if void else sql
        return self._define(child.view, pieces)

    def filter(self, child: Written, condition: Expression, wanted: Sequence[str]) -> Written:
        """The type of the condition is checked, as in a query."""
        sql = self._expression(condition, child.view, self._named(child), child.longest)
        if (kind := types_of(self.spark, child.view, [sql])[0]) not in ("boolean", "void"):
            hint = "compare it with something, as in amount > 5."
            raise InvalidParameter(f"a condition that is true or false in {condition.text!r}", kind, hint)
        return self._define(child.view, {name: self.quote(name) for name in wanted}, f"\nWHERE {sql}")

    def define(self, sql: str) -> Written:
        """A frame under a name."""
        frame = without_leaks(lambda: self.spark.sql(sql))
        self.relations += 1
        view = self.views.add(frame, f"relation_{self.relations}")
        self.statements.append(f"CREATE TEMP VIEW {view} AS\n{sql};")
        names = {ours: name for name, ours in self.names.items()}
        return Written(view, {names[ours]: kind for ours, kind in frame.dtypes})

    def _attach(self, frame: DataFrame, columns: Sequence[str], what: str) -> tuple[str, Callable[[str], str]]:
        """A view of a table, and a function from columns to their names in it."""
        own = {name: f"own_{place}" for place, name in enumerate(dict.fromkeys(map(str.casefold, columns)))}
        self.attached += 1
        view = self.views.add(narrowed(frame, own), f"source_{self.attached}")
        self.statements.append(f"-- {view}: {printable(what)}")
        return view, lambda name: own[name.casefold()]

    def _named(self, child: Written) -> Callable[[str], str]:
        folded = {name.casefold(): name for name in child.types}
        return lambda name: self.quote(folded[name.casefold()])

    def _expression(
        self, expression: Expression, view: str, named: Callable[[str], str], longest: int = LONGEST_KEY
    ) -> str:
        return spark_expression(expression, named, lambda sql: types_of(self.spark, view, [sql])[0], longest)

    def _define(self, view: str, pieces: Mapping[str, str], where: str = "") -> Written:
        columns = ", ".join(f"{sql} AS {self.quote(name)}" for name, sql in pieces.items())
        return self.define(f"SELECT {columns}\nFROM {view}{where}")
