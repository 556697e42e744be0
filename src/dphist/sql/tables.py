"""The tables that statements name: which are public, and whose rows the others hold."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from dphist.engines.query import Files, parse_unit
from dphist.errors import InvalidParameter
from dphist.publish.files import files_of


@dataclass(frozen=True, slots=True, eq=False)
class PublicTable:
    """A source whose rows are nobody's."""

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
    """A table under a name. unit: the column that says whose row it is, if that is declared; public: nobody's."""

    name: str
    source: object
    public: bool = False
    unit: str | None = None

    def __repr__(self) -> str:
        whose = "public" if self.public else "unit unknown" if self.unit is None else f"unit {self.unit}"
        return f"{self.name} ({whose})"

    @property
    def named_by_first_line(self) -> bool:
        """Whether its columns are named by the first line of a text file, which may be a record. No message shows it."""
        source = self.source
        if isinstance(source, Files):
            plain = source.format == "csv" or (source.format is None and any(map(_may_be_csv, source.paths)))
            return plain and source.header is True
        paths = source if isinstance(source, list | tuple) else [source]
        return any(_may_be_csv(path) for path in paths if isinstance(path, str | Path))


def _may_be_csv(path: str | Path) -> bool:
    """By all but the ends that say otherwise: a folder or a pattern may hold anything."""
    return not str(path).lower().endswith((".parquet", ".pq", ".json", ".jsonl", ".ndjson"))


def doubtful(tables: Mapping[str, Table]) -> list[str]:
    """What is public and private at once, or has two units of one name, by its path or as an object: a sentence each."""
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
    """Whether two units have one name, in any case of its letters, and are written in two ways."""
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
    """The tables by their names, checked: names differ in more than case, units are those of private tables."""
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
