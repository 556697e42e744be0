"""Trees of relations (`relations`) as SQL: every relation is a view over the views below it, with the columns that are wanted.

By induction over the tree, every view keeps these rules:

- A value follows from rows of the tables and from the relation alone: the order of rows, statistics and the number of threads
change nothing. Sums are exact (`sums`), and every operator can spill the rows of one unit to disk. - No row makes a run fail,
nor changes how others are read. Where values of two columns meet, they are of one type, or both are numbers that a cast
cannot fail for; anything else is refused, by the types alone. Units that meet have the very same type, or are both whole
numbers of at most 64 bits: as doubles, two long numbers could become one. - Values are guarded as in a column of a table.
Where they meet or are grouped, equal values have equal bits.

Engines differ in how they read a table, compute an expression and name types: `Writer`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Protocol

from dphist.engines.dialect import Dialect
from dphist.engines.expressions import LONGEST_KEY, Column, Expression
from dphist.engines.joins import LONGEST_JOINED, MOST_ROWS, Side, is_unique, joined_sql, limited_sql, together
from dphist.engines.parser import read_unit
from dphist.engines.query import GroupByQuery, Key, parse_unit
from dphist.engines.relations import (
    Combine,
    Derived,
    Filter,
    Fold,
    Folded,
    Join,
    Matching,
    Relation,
    Scan,
    Select,
    Values,
    owner,
)
from dphist.engines.sums import exact_total
from dphist.errors import InvalidParameter

_HINT_OF_CAST: Final = "cast one of them in a subquery: CAST(... AS ...)."
_HINT_OF_UNITS: Final = (
    "declare the unit of each table as text, under one name: person=CAST({} AS VARCHAR); and compare that:"
    " USING (person)."
)


@dataclass(frozen=True, slots=True)
class Written:
    """A view, and the engine's types of its columns by their names in the tree. longest: most bytes of a text made of
    the columns.
    """

    view: str
    types: Mapping[str, str]
    longest: int = LONGEST_KEY


@dataclass(frozen=True, slots=True)
class Reads:
    """The columns of a table that a scan reads.

    own: names in the tree, each with its column of the table. unit: the unit's name, where it is wanted. expressions:
    the expression that computes the unit, if there is one.
    """

    own: Mapping[str, str]
    unit: str | None
    expressions: tuple[Expression, ...]

    @property
    def of_unit(self) -> list[str]:
        """The table's columns that make up the unit."""
        return [self.own[self.unit]] if self.unit is not None and self.unit in self.own else self.of_expression

    @property
    def of_expression(self) -> list[str]:
        """The table's columns that the expression of the unit names."""
        return [name for one in self.expressions for name in one.columns]

    @property
    def needed(self) -> list[str]:
        """All of the table's columns that are read."""
        return [*self.own.values(), *self.of_expression]


def reads_of(relation: Scan, wanted: Sequence[str]) -> Reads:
    """Find the columns that a scan reads, by names alone."""
    own = {name: relation.columns[name] for name in wanted if name in relation.columns}
    unit, text = relation.unit if relation.unit in wanted else None, relation.unit_expression
    return Reads(own, unit, () if unit is None or text is None else (read_unit(Key(unit, text)),))


class Types(Protocol):
    """The rules for an engine's types: its module `types`."""

    @property
    def SIGNED(self) -> frozenset[str]:  # noqa: N802
        """Types of whole numbers up to 64 bits with a sign."""
        ...

    @property
    def FLOATS(self) -> frozenset[str]:  # noqa: N802
        """Types of floating-point numbers."""
        ...

    def key(self, sql: str, type_name: str, role: str) -> tuple[str, str]:
        """A column as a key, in which equal values have equal bits, and the key's type. Some types are refused."""
        ...

    def length(self, sql: str, type_name: str) -> str | None:
        """The bytes of a value; None for types whose values are all short."""
        ...

    def ordered(self, sql: str, type_name: str) -> str:
        """A column of any type in a form that can be hashed and ordered."""
        ...

    def is_addable(self, type_name: str) -> bool:
        """Whether `Dialect.exact_sum` takes a type."""
        ...

    def is_number(self, type_name: str) -> bool:
        """Whether a cast to double takes any value of a type."""
        ...


class Writer(Protocol):
    """The parts of a view that engines write differently. Names are names of the tree. most_rows: see `joins`."""

    dialect: Dialect
    types: Types
    seed: int
    most_rows: int | None

    def quote(self, name: str) -> str:
        """A column as an identifier of the engine."""
        ...

    def scan(self, relation: Scan, wanted: Sequence[str]) -> Written:
        """Some columns of a table, guarded."""
        ...

    def constants(self, relation: Values, wanted: Sequence[str]) -> Written:
        """Some columns of constants."""
        ...

    def select(self, child: Written, kept: Mapping[str, str], computed: Mapping[str, Expression]) -> Written:
        """Columns of a view under new names, and expressions over them, guarded."""
        ...

    def filter(self, child: Written, condition: Expression, wanted: Sequence[str]) -> Written:
        """The rows of a view for which a condition is true."""
        ...

    def define(self, sql: str) -> Written:
        """A new view; `sql` names nothing but views and quoted columns."""
        ...


def write(relation: Relation, wanted: Iterable[str], writer: Writer) -> Written:
    """The view of a relation with the columns that are wanted. One column stays even if none is wanted, since rows are
    counted, too.

    Raises:
        InvalidParameter: types that do not fit, with the place of the relation.
    """
    names = {name.casefold(): name for name in relation.names}
    if len(names) < len(relation.names):
        raise InvalidParameter("column names that differ in more than case", "some that do not")
    try:
        chosen = {_named(name, names) for name in wanted}
        listed = [name for name in relation.names if name in chosen] or list(relation.names[:1])
        return _write(relation, listed, writer)
    except InvalidParameter as problem:
        problem.place = problem.place or relation.place
        raise


def check_owner(derived: Derived, query: GroupByQuery, expressions: Mapping[str, Expression]) -> None:
    """Refuse a unit other than the one that owns the rows of a tree."""
    found = owner(derived.relation)
    if found.public:
        raise InvalidParameter(
            "rows of some unit", "public tables alone", "what they say about nobody needs no privacy."
        )
    for part in (parts := parse_unit(query.unit)):
        name: str | None = part.name
        if part.expression is not None:
            node = expressions[part.expression].tree
            name = node.names[0] if isinstance(node, Column) and len(node.names) == 1 else None
        if len(parts) > 1 or name is None or name.casefold() not in map(str.casefold, found.columns):
            raise InvalidParameter(
                f"{' or '.join(found.columns)} as the unit, whose rows these are",
                f"{part.expression or part.name!r}",
                "of another unit nothing is proved.",
            )


def _write(relation: Relation, wanted: Sequence[str], writer: Writer) -> Written:
    match relation:
        case Scan():
            return writer.scan(relation, wanted)
        case Values():
            return writer.constants(relation, wanted)
        case Select():
            kept = {name: source for name, source in relation.kept.items() if name in wanted}
            computed = {name: one for name, one in relation.computed.items() if name in wanted}
            read = [name for one in computed.values() for name in one.columns]
            child = write(relation.child, [*kept.values(), *read], writer)
            return replace(writer.select(child, kept, computed), longest=child.longest)
        case Filter():
            child = write(relation.child, [*wanted, *relation.condition.columns], writer)
            return replace(writer.filter(child, relation.condition, wanted), longest=child.longest)
        case Join():
            return _join(relation, wanted, writer)
        case Matching():
            return _match(relation, wanted, writer)
        case Combine():
            return _combine(relation, wanted, writer)
        case Fold():
            return _fold(relation, wanted, writer)


def _join(relation: Join, wanted: Sequence[str], writer: Writer) -> Written:
    """Joined rows, of each unit at most as many as `joins` allows."""
    sides, owners = (relation.left, relation.right), (owner(relation.left), owner(relation.right))
    views = []
    for number, side in enumerate(sides):
        own = [name for name in wanted if name in side.names] + [pair[number] for pair in relation.pairs]
        views.append(write(side, own, writer))
    keys: tuple[list[str], list[str]] = ([], [])
    once = [is_unique(side, [pair[number] for pair in relation.pairs]) for number, side in enumerate(sides)]
    for one, other in relation.pairs:
        same = one in owners[0].columns and other in owners[1].columns
        pair = (("a", one, views[0]), ("b", other, views[1]))
        for number, sql in enumerate(_together(pair, f"{one} = {other}", writer, exactly=same)):
            keys[number].append(sql)
        if views[0].types[one] != views[1].types[other]:
            once = [False, False]  # two long numbers may be equal as doubles
    found, columns = [], dict[str, str]()
    for view, alias, own in zip(views, "ab", keys, strict=True):
        kinds = {f"{alias}.{writer.quote(name)}": view.types[name] for name in wanted if name in view.types}
        columns |= {f"{alias}.{writer.quote(name)}": writer.quote(name) for name in wanted if name in view.types}
        found.append(Side(view.view, alias, own, kinds))
    public = [one.public for one in owners]
    # Private rows stand on the left. Of two private sides it is the one whose rows have at most one partner.
    first = int((public[0] and not public[1]) or (once[0] and not once[1] and not any(public)))
    word = ("RIGHT JOIN" if first else "LEFT JOIN") if relation.kind == "left" else "JOIN"
    if once[1 - first] or public[first]:
        written = writer.define(joined_sql(found[first], found[1 - first], word, columns))
        return replace(written, longest=min(view.longest for view in views))
    left, right = (
        replace(found[number], view=_shortened(views[number], owners[number].columns, writer).view)
        for number in (first, 1 - first)
    )
    unit = next(name for name in owners[first].columns if name in views[first].types)
    unit, most = f"{left.alias}.{writer.quote(unit)}", writer.most_rows or MOST_ROWS
    limited = limited_sql(left, right, word, columns, unit, most, writer.seed, writer.dialect, writer.types.ordered)
    written = writer.define(limited)
    return replace(written, longest=LONGEST_JOINED)


def _shortened(written: Written, units: Sequence[str], writer: Writer) -> Written:
    """The view with short rows, so that a unit may have many. The unit may take as many bytes as all other columns together."""
    lengths = {name: writer.types.length(writer.quote(name), kind) for name, kind in written.types.items()}
    if not any(lengths.values()):
        return written
    short = dict[str, str]()
    for names in ([name for name in lengths if name not in units], *([name] for name in lengths if name in units)):
        columns = [(writer.quote(name), lengths[name]) for name in names]
        short |= zip(names, together(columns, LONGEST_JOINED), strict=True)
    listed = ", ".join(f"{short[name]} AS {writer.quote(name)}" for name in lengths)
    return replace(writer.define(f"SELECT {listed}\nFROM {written.view}"), longest=written.longest)


def _match(relation: Matching, wanted: Sequence[str], writer: Writer) -> Written:
    """SQL's IN. Where only a null could decide, the answer is unknown and the row goes. No list of units holds a null.

    Engines hold all rows of one value in memory, so each value is listed once.
    """
    if len(relation.listed.names) != 1:
        raise InvalidParameter("IN (SELECT ...) with one column", f"{len(relation.listed.names)}")
    (only,) = relation.listed.names
    child = write(relation.child, [*wanted, relation.column], writer)
    listed = write(relation.listed, [only], writer)
    pair = (("a", relation.column, child), ("b", only, listed))
    of_units = not owner(relation.listed).public
    value, among = _together(pair, f"{relation.column} IN (SELECT ...)", writer, exactly=of_units)
    columns = ", ".join(f"a.{writer.quote(name)}" for name in wanted)
    word = "NOT IN" if relation.negated else "IN"
    values = f"SELECT DISTINCT {among} FROM {listed.view} AS b" + (f" WHERE {among} IS NOT NULL" if of_units else "")
    written = writer.define(f"SELECT {columns}\nFROM {child.view} AS a\nWHERE {value} {word} ({values})")
    return replace(written, longest=child.longest)


def _combine(relation: Combine, wanted: Sequence[str], writer: Writer) -> Written:
    rows = relation.kind == "union all"  # other kinds compare whole rows
    columns = [column for column in relation.columns if column[0] in wanted or not rows]
    left = write(relation.left, [one for _, one, _ in columns], writer)
    right = write(relation.right, [other for _, _, other in columns], writer)
    units = (owner(relation.left).columns, owner(relation.right).columns)
    longest = min(left.longest, right.longest)
    if longest < LONGEST_KEY:
        left, right = _shortened(left, units[0], writer), _shortened(right, units[1], writer)
    sides: tuple[list[str], list[str]] = ([], [])
    for place, (_, one, other) in enumerate(columns, 1):
        same = one in units[0] and other in units[1]
        where = f"column {place} of {relation.kind.upper()}"
        pair = (("a", one, left), ("b", other, right))
        for side, sql in zip(sides, _together(pair, where, writer, exactly=same), strict=True):
            side.append(f"{sql} AS value_{place}")
    first, second = (
        f"SELECT {', '.join(side)}, {place} AS side FROM {view} AS {alias}"
        for side, place, view, alias in zip(sides, (1, 2), (left.view, right.view), "ab", strict=True)
    )
    listed = ", ".join(f"value_{place} AS {writer.quote(name)}" for place, (name, _, _) in enumerate(columns, 1))
    # Equal rows form a group, which engines can write to disk. A join would hold one unit's rows in memory.
    sides_of_group = {"union": ">= 1", "intersect": "= 3", "except": "= 1"}
    found = "MAX(CASE side WHEN 1 THEN 1 ELSE 0 END) + MAX(CASE side WHEN 2 THEN 2 ELSE 0 END)"
    equal = (
        ""
        if rows
        else (
            f"\nGROUP BY {', '.join(f'value_{place}' for place in range(1, len(columns) + 1))}"
            f"\nHAVING {found} {sides_of_group[relation.kind]}"
        )
    )
    written = writer.define(f"SELECT {listed}\nFROM (\n  {first}\n  UNION ALL\n  {second}\n) AS rows_of_both{equal}")
    return replace(written, longest=longest)


def _fold(relation: Fold, wanted: Sequence[str], writer: Writer) -> Written:
    aggregates = {name: folded for name, folded in relation.aggregates.items() if name in wanted}
    read = [folded.column for folded in aggregates.values() if folded.column is not None]
    child = write(relation.child, [*relation.keys, *read], writer)
    if is_short := child.longest < LONGEST_KEY:
        child = _shortened(child, owner(relation.child).columns, writer)
    columns = {}
    for name in relation.keys:
        role = f"{name!r} of GROUP BY or DISTINCT"
        columns[name] = writer.types.key(f"a.{writer.quote(name)}", child.types[name], role)[0]
    # The least and the largest value may come from different rows.
    kept = len([folded for folded in aggregates.values() if folded.function in ("min", "max")])
    longest = child.longest // max(kept, 1) if is_short else None
    columns |= {name: _folded(folded, child, writer, longest) for name, folded in aggregates.items()}
    listed = ", ".join(f"{sql} AS {writer.quote(name)}" for name, sql in columns.items())
    groups = ", ".join(str(place) for place in range(1, len(relation.keys) + 1))
    written = writer.define(f"SELECT {listed}\nFROM {child.view} AS a" + (f"\nGROUP BY {groups}" if groups else ""))
    return replace(written, longest=child.longest)


def _folded(folded: Folded, child: Written, writer: Writer, longest: int | None) -> str:
    """An aggregate of the values that are not null. A whole sum that 64 bits cannot hold is null.

    longest: the bytes of a value that is kept.
    """
    if folded.column is None:
        return "COUNT(*)"
    sql, kind = f"a.{writer.quote(folded.column)}", child.types[folded.column]
    name = folded.function.upper()
    if folded.function == "count":
        return f"COUNT({sql})"
    if folded.function in ("min", "max", "count distinct"):
        key, _ = writer.types.key(sql, kind, f"{folded.column!r} in {name}")
        if folded.function == "count distinct":
            return f"COUNT(DISTINCT {key})"
        (key,) = [key] if longest is None else together([(key, writer.types.length(sql, kind))], longest)
        return f"{name}({key})"
    if writer.types.is_addable(kind):
        total = writer.dialect.exact_sum(sql)
        if folded.function == "sum":
            return f"TRY_CAST({total} AS BIGINT)"
        total = f"CAST({total} AS DOUBLE)"
    elif writer.types.is_number(kind):
        total = exact_total(
            f"CAST({sql} AS DOUBLE)",
            lambda number: f"CAST({writer.dialect.truncated(number)} AS BIGINT)",
            writer.dialect.exact_sum,
        )
    else:
        hint = "cast it in a subquery: CAST(... AS DOUBLE)."
        raise InvalidParameter(f"numbers in {name}({folded.column})", f"the type {kind}", hint)
    return total if folded.function == "sum" else f"{total} / COUNT({sql})"


def _together(
    pair: tuple[tuple[str, str, Written], tuple[str, str, Written]],
    where: str,
    writer: Writer,
    *,
    exactly: bool = False,
) -> list[str]:
    """Two columns as one type, or a refusal of their types. exactly: the columns are units."""
    keys = [
        writer.types.key(f"{alias}.{writer.quote(name)}", view.types[name], f"the columns of {where}")
        for alias, name, view in pair
    ]
    kinds = [kind for _, kind in keys]
    if kinds[0] == kinds[1]:
        return [sql for sql, _ in keys]
    if not set(kinds) <= (writer.types.SIGNED if exactly else writer.types.SIGNED | writer.types.FLOATS):
        hint = _HINT_OF_UNITS.format(pair[0][1]) if exactly else _HINT_OF_CAST
        raise InvalidParameter(f"one type on both sides of {where}", " and ".join(kinds), hint)
    common = "DOUBLE" if set(kinds) & writer.types.FLOATS else "BIGINT"
    return [f"CAST({sql} AS {common})" for sql, _ in keys]


def _named(name: str, names: Mapping[str, str]) -> str:
    if name.casefold() not in names:
        raise InvalidParameter("a column that exists", repr(name))
    return names[name.casefold()]
