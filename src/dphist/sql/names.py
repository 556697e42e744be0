"""Names of a statement: its tables, whose rows these hold, and the columns that an expression may name."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeAlias

from sqlglot import exp

from dphist.columns import quote_identifier
from dphist.engines import files_of
from dphist.engines.query import parse_unit
from dphist.engines.relations import Relation
from dphist.engines.source import Files
from dphist.errors import InvalidParameter
from dphist.sql.parse import ancestors


@dataclass(frozen=True, slots=True, eq=False)
class PublicTable:
    """A source whose rows belong to nobody."""

    source: object


def public(source: object) -> PublicTable:
    """Say that a table of `dphist.connect` is public: its rows belong to nobody, and everybody may know them.

    Args:
        source: what to read, as for `dphist.release`.

    Returns:
        The same source, marked.

    Raises:
        InvalidParameter: it is marked already.

    Example:
        >>> dp.connect(tables={"events": "events.parquet", "urls": dp.public("urls.csv")}, unit="user_id")
        Connection(events (unit user_id), urls (public))
    """
    if isinstance(source, PublicTable):
        raise InvalidParameter("a source", "one that is public already", "mark it once.")
    return PublicTable(source)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Table:
    """A table and its name. unit: the declared column that says whose row it is. public: its rows belong to nobody."""

    name: str
    source: object
    public: bool = False
    unit: str | None = None

    def __repr__(self) -> str:
        whose = "public" if self.public else "unit unknown" if self.unit is None else f"unit {self.unit}"
        return f"{self.name} ({whose})"

    @property
    def named_by_first_line(self) -> bool:
        """Whether the first line of a text file names the columns. It may be a record, so no message shows it."""
        source = self.source
        if isinstance(source, Files):
            plain = source.format == "csv" or (source.format is None and any(map(_may_be_csv, source.paths)))
            return plain and source.header is True
        paths = source if isinstance(source, list | tuple) else [source]
        return any(_may_be_csv(path) for path in paths if isinstance(path, str | Path))


def _may_be_csv(path: str | Path) -> bool:
    """Whether no suffix says otherwise: a folder or a pattern may hold CSV files."""
    return not str(path).lower().endswith((".parquet", ".pq", ".json", ".jsonl", ".ndjson"))


def doubtful(tables: Mapping[str, Table]) -> list[str]:
    """A warning for each source that is public and private at once, or has two units of one name."""
    private = [table for table in tables.values() if not table.public and table.unit is not None]
    return [
        f"{one.name!r} is public, and {other.name!r} reads the same records as private: what statements show of {one.name!r}"
        " has no noise. Are they really nobody's?"
        for one in tables.values()
        for other in tables.values()
        if one.public and not other.public and _overlap(one.source, other.source)
    ] + [
        f"{one.name!r} and {other.name!r} read the same records, whose unit is {one.unit!r} here and {other.unit!r} there:"
        " costs of both are added up as if these were the same people. Are they?"
        for number, one in enumerate(private)
        for other in private[number + 1 :]
        if _of_one_name(one, other) and _overlap(one.source, other.source)
    ]


def _of_one_name(one: Table, other: Table) -> bool:
    """Whether two units have one name, upper or lower case aside, and different values."""
    names, values = zip(
        *(
            ([part.name.casefold() for part in parts], [(part.expression or part.name).strip() for part in parts])
            for parts in (parse_unit(str(table.unit)) for table in (one, other))
        ),
        strict=True,
    )
    return bool(names[0] == names[1] and values[0] != values[1])


def _overlap(one: object, other: object) -> bool:
    paths, others = ({Path(os.path.realpath(path)) for path in files_of(source)} for source in (one, other))
    inside = any(path in (each, *each.parents) or each in path.parents for path in paths for each in others)
    return one is other or inside


def tables_of(given: Mapping[str, object], unit: str | Mapping[str, str] | None) -> dict[str, Table]:
    """The tables by their names. Names must differ in more than case, and only private tables have units."""
    if not given:
        raise InvalidParameter("at least one table", "none", "name one: --table events=events.parquet.")
    tables: dict[str, Table] = {}
    for name, source in given.items():
        if not str(name).strip():
            raise InvalidParameter("names for tables", repr(name))
        if name.casefold() in {one.casefold() for one in tables}:
            raise InvalidParameter("tables whose names differ in more than case", repr(name))
        if isinstance(source, PublicTable):
            tables[name] = Table(name, source.source, public=True)
        else:
            tables[name] = Table(name, source)
    units = {name: unit for name, one in tables.items() if not one.public} if isinstance(unit, str) else unit or {}
    for name, column in units.items():
        if name not in tables:
            raise InvalidParameter("units of tables that are there", repr(name), f"they are {', '.join(tables)}.")
        if tables[name].public:
            raise InvalidParameter(f"{name!r} with a unit, or public", "both", "a public table belongs to nobody.")
        if not str(column).strip() or not hasattr(column, "casefold"):
            raise InvalidParameter(f"one column or expression as the unit of {name!r}", repr(column))
        tables[name] = replace(tables[name], unit=column)
    return tables


@dataclass(frozen=True, slots=True)
class Visible:
    """The columns under one name of FROM: for each column its name in the statement and its name in the tree.

    merged: columns that USING has merged into another table's. A statement finds them only with the alias before their name.
    """

    alias: str
    columns: tuple[tuple[str, str], ...]
    merged: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Rows:
    """A relation, and what an expression over its rows may name."""

    relation: Relation
    visible: tuple[Visible, ...]

    @property
    def columns(self) -> list[tuple[str, str]]:
        """The columns that `*` stands for, in order."""
        return [pair for one in self.visible for pair in one.columns if pair[1] not in one.merged]

    def called(self, alias: str) -> Rows:
        """The same rows under one alias."""
        return Rows(self.relation, (Visible(alias, tuple(self.columns)),))

    def search(self, column: exp.Column) -> list[tuple[str, int]]:
        """The columns that a name may mean, each with the number of the name's parts that are fields of it."""
        parts = [part.name.casefold() for part in column.parts]
        owned = [one for one in self.visible if len(parts) > 1 and one.alias.casefold() == parts[0]]
        listed = [pair for one in owned for pair in one.columns]
        found = [(inside, len(parts) - 2) for name, inside in listed if name.casefold() == parts[1]]
        if not found and not owned:
            found = [(inside, len(parts) - 1) for name, inside in self.columns if name.casefold() == parts[0]]
        if not found and len(parts) > 1:  # sqlglot splits a name with a dot even in quotes
            found = [(inside, 0) for name, inside in self.columns if name.casefold() == ".".join(parts)]
            found += [(inside, 0) for name, inside in listed if name.casefold() == ".".join(parts[1:])]
        return found


Scope: TypeAlias = Mapping[str, "Definition"]


@dataclass(frozen=True, slots=True)
class Definition:
    """A query of WITH, and the queries of WITH that it can read."""

    query: exp.Expr
    scope: Scope


def scope_of(node: exp.Expr) -> Scope:
    """The queries of WITH that a node can read. A node inside a query of WITH can read the queries before this query."""
    around = [node, *ancestors(node)]
    scope: dict[str, Definition] = {}
    for one in reversed(around):
        clause = one.args.get("with_")
        for query in [] if clause is None else clause.expressions:
            if any(query is other for other in around):
                break
            scope[query.alias.casefold()] = Definition(query.this, dict(scope))
    return scope


def plain_column(text: str, names: Sequence[str]) -> str | None:
    """The column that a text names, if the text is nothing but its quoted name."""
    return next((name for name in names if text == quote_identifier(name)), None)
