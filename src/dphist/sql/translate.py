"""One SELECT WITH DIFFERENTIAL_PRIVACY becomes a release and a SELECT over its table.

keys, aggregates, options  ->  the options of `dphist.release`, or of `dphist.select` where there are keys alone
SELECT list, HAVING, ORDER BY, LIMIT  ->  an ordinary SELECT over the published table (`sql.published`)
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from sqlglot import exp

from dphist.columns import joined_name, quote_identifier, split_unit
from dphist.engines.parser import read_expression
from dphist.engines.relations import Derived, Filter, Relation, Scan, Select
from dphist.errors import InvalidParameter
from dphist.planning.plan import HIGH, LOW, NOISY, STD_ERROR
from dphist.sql.aggregates import Aggregated, Aggregates
from dphist.sql.from_clause import Relating
from dphist.sql.names import Rows, Scope, Table, plain_column
from dphist.sql.options import Clause, read_clause
from dphist.sql.parse import PrivacyClause, place_of
from dphist.sql.published import Published

_SUFFIXES: Final = (STD_ERROR, NOISY, LOW, HIGH)
_EVERY: Final = (
    "expressions", "from_", "joins", "where", "group", "having", "order", "limit", "offset", "hint", "with_"
)  # fmt: skip


@dataclass(frozen=True, slots=True, eq=False)
class PrivateSelect:
    """A private SELECT with its proof. options: the options of the release. table: the name of its table in the outer query.

    command_source: the only table of FROM, if one command makes the same release. protected: the unit as it was declared,
    for the ledger and for readers; `unit` is the column that holds it. unnamed: as in `Relating`. places: where its
    expressions stand in the statement, by their texts.
    """

    clause: Clause
    place: tuple[int, int]
    source: object
    unit: str
    protected: str
    by: tuple[str, ...]
    where: str | None
    options: Mapping[str, Any]
    aggregates: tuple[Aggregated, ...]
    keys_only: bool
    table: str
    relation: Relation
    command_source: Table | None
    public_keys: Relation | None = None
    key_names: tuple[str, ...] = ()
    unnamed: Mapping[str, str] = field(default_factory=dict)
    places: Mapping[str, tuple[int, int]] = field(default_factory=dict)


@dataclass(slots=True, eq=False)
class Translating:
    """Turns one private SELECT into a release."""

    relating: Relating
    select: exp.Select
    scope: Scope
    table: str
    in_set_operation: bool = False
    clause: Clause = field(init=False)
    aggregates: Aggregates = field(init=False)

    def refuse(self, node: exp.Expr, expected: str, got: str, hint: str = "") -> InvalidParameter:
        """A refusal at the place of a node."""
        return self.relating.refuse(node, expected, got, hint)

    def translate(self) -> tuple[PrivateSelect, exp.Select]:
        """The release, and the SELECT over its table."""
        select, relating = self.select, self.relating
        hint = select.args["hint"]
        assert isinstance(hint, PrivacyClause)
        self.clause = read_clause(hint, self.refuse)
        self.aggregates = Aggregates(relating, self.clause, hint, select.args.get("group") is not None)
        if select.args.get("distinct") is not None:
            words = "SELECT WITH DIFFERENTIAL_PRIVACY", "DISTINCT in it", "GROUP BY makes rows distinct."
            raise self.refuse(select, *words)
        relating.only(select, "a private SELECT", *_EVERY)
        if select.args.get("from_") is None:
            raise self.refuse(hint, "a FROM clause", "none", "name a table: FROM events.")
        self._declare_unit()
        relating.public_groups = self.clause.public_groups
        rows = relating.rows_of(select, self.scope)
        owner = relating.owner(rows.relation)
        if owner.public:
            got = "public ones alone"
            raise self.refuse(select.args["from_"], "a private table in FROM", got, "a public table needs no noise.")
        self._check_unit(rows, owner.columns)
        keys = self._keys(rows, owner.columns)
        texts = {text: f"key_{place}" for place, (_, text) in enumerate(keys, 1)}
        published = Published(
            relating,
            self.aggregates,
            self.clause,
            self.table,
            select,
            rows,
            texts,
            owner.columns,
            self.in_set_operation,
        )
        outer = published.select_over()
        unit, source, command_source, where = self._source(rows, owner.columns, texts)
        aggregates = self.aggregates.all
        keys_only = not aggregates and self.clause.max_groups is None and relating.public_keys is None
        if not aggregates and not keys:
            raise self.refuse(select, "an aggregate, or GROUP BY", "neither", "COUNT(DISTINCT user_id) counts people.")
        names = self._key_names([name for name, _ in keys], aggregates)
        by = tuple(_named(name, text, rows) for name, (_, text) in zip(names, keys, strict=True))
        private = PrivateSelect(
            clause=self.clause,
            place=place_of(hint),
            source=source,
            unit=unit,
            protected=self._protected(owner.kind) if command_source is None else unit,
            by=by,
            where=where,
            options=self.aggregates.options(rows),
            aggregates=aggregates,
            keys_only=keys_only,
            table=self.table,
            relation=rows.relation,
            command_source=command_source,
            public_keys=self._public_keys(keys, rows),
            key_names=names,
            unnamed=relating.unnamed,
            places=relating.places,
        )
        return private, outer

    # FROM, the unit, the keys

    def _declare_unit(self) -> None:
        """Make the column of OPTIONS the unit of every private table in FROM whose unit is not declared."""
        column = self.clause.unit
        if column is None:
            return
        parts = [part.name for part in column.parts]
        aliases = {one.alias_or_name.casefold() for one in _sources(self.select)}
        if len(parts) > 1 and parts[0].casefold() in aliases:
            parts = parts[1:]
        self._check_alias(column, parts)
        # a.b is a field of column a, or a column of this name, which files may have.
        path, itself = ".".join(parts), len(parts) == 1
        field_of = None if itself or self._is_column(path, parts[0]) else ".".join(map(quote_identifier, parts))
        self.relating.unit, self.relating.unit_place = joined_name(path, field_of, unit=True), place_of(column)

    def _check_alias(self, column: exp.Column, parts: Sequence[str]) -> None:
        """Refuse the own name of a table to which FROM gives an alias."""
        for one in _sources(self.select):
            renamed = isinstance(one, exp.Table) and one.alias and one.name.casefold() == parts[0].casefold()
            if len(parts) > 1 and renamed:
                hint = f"write {'.'.join([one.alias, *parts[1:]])}."
                raise self.refuse(column, f"the name that FROM gives the table, {one.alias}", repr(parts[0]), hint)

    def _is_column(self, path: str, first: str) -> bool:
        """Whether a private table has a column named like the path, and none has a column named like its first part."""
        tables = (self.relating.table_named(one.name) for one in self.select.root().find_all(exp.Table))
        listed = {table.name for table in tables if table is not None and not table.public}
        names = {column.casefold() for name in listed for column in self.relating.columns_of(name)}
        return path.casefold() in names and first.casefold() not in names

    def _check_unit(self, rows: Rows, columns: tuple[str, ...]) -> None:
        """Refuse a unit in OPTIONS that is not the unit of the tables."""
        column = self.clause.unit
        if column is None:
            return
        kind = self.relating.owner(rows.relation).kind
        path = split_unit(self.relating.unit or "")[0]  # a.b for a field of column a
        found = [inside if not fields else path for inside, fields in rows.search(column)]
        if not found and len(column.parts) == 1:
            hint = "select it in the subquery."
            raise self.refuse(column, "the unit among the columns of FROM", repr(column.name), hint)
        named = {*columns, kind} if path.casefold() == kind.casefold() else {*columns}
        if not any(one in named for one in found or [path]):
            hint = f"the rows belong to {kind}: leave the option out, or name that column."
            raise self.refuse(column, "the unit of the tables as privacy_unit_column", repr(column.name), hint)

    def _keys(self, rows: Rows, units: tuple[str, ...]) -> list[tuple[str, str]]:
        """Names and texts of GROUP BY."""
        relating = self.relating
        keys: list[tuple[str, str]] = []
        names = {id(one.this): one.alias for one in self.select.expressions if isinstance(one, exp.Alias)}
        for place, key in enumerate(relating.keys_of(self.select), 1):
            text = relating.expression(key, rows).text
            name = names.get(id(key)) or (key.name if isinstance(key, exp.Column) else "") or f"key_{place}"
            if plain_column(text, units) is not None:
                hint = "a group of one unit is never shown. Leave it out, or group by something that units share."
                raise self.refuse(key, "keys that several units share", f"the unit, {name}", hint)
            if text in {known for _, known in keys}:
                raise self.refuse(key, "each key of GROUP BY once", repr(name), "leave it out.")
            keys.append((name, text))
        return keys

    def _key_names(self, names: list[str], aggregates: tuple[Aggregated, ...]) -> tuple[str, ...]:
        """Names for the keys in a release, different from each other and from its other columns."""
        taken = {"count", "rows"} | {one.name.casefold() for one in aggregates}
        found: list[str] = []
        for name in names:
            fresh, number = name, 1
            while fresh.casefold() in taken or fresh.casefold().endswith(_SUFFIXES):
                number += 1
                fresh = f"key_{name}_{number}"
            taken.add(fresh.casefold())
            found.append(fresh)
        return tuple(found)

    def _names_unit(self, scan: Scan, texts: list[str]) -> bool:
        """Whether an expression names a unit that is computed: the table itself has no such column."""
        if scan.unit is None or scan.unit_expression is None:
            return False
        read = (read_expression(text).columns for text in [*texts, *self.aggregates.texts])
        return scan.unit.casefold() in {name.casefold() for names in read for name in names}

    def _source(
        self, rows: Rows, units: tuple[str, ...], keys: Iterable[str]
    ) -> tuple[str, object, Table | None, str | None]:
        """The unit, the source, the table and the condition of the release. Only if FROM is one table there is a table."""
        relation, conditions = rows.relation, []
        while isinstance(relation, Filter):
            conditions.append(relation.condition.text)
            relation = relation.child
        itself = isinstance(relation, Scan) and all(inside == column for inside, column in relation.columns.items())
        if isinstance(relation, Scan) and itself and not self._names_unit(relation, [*conditions, *keys]):
            table = self.relating.tables[relation.table]
            every = [f"({one})" for one in reversed(conditions)] if len(conditions) > 1 else conditions
            unit = table.unit or self.relating.unit
            assert unit is not None
            return unit, table.source, table, " AND ".join(every) or None
        sources = {name: table.source for name, table in self.relating.used.items()}
        source = Derived(rows.relation, sources, self.clause.most_rows)
        return joined_name(units[0], None, unit=True), source, None, None

    def _protected(self, kind: str) -> str:
        """The unit of several tables as one text. If the declarations differ, it has each of them.

        The name of an expression never stands alone: a ledger would take it for a column.
        """
        private = [table for table in self.relating.used.values() if not table.public]
        texts = {table.name: table.unit or self.relating.unit or kind for table in private}
        if len(set(texts.values())) == 1:
            return next(iter(texts.values()))
        each = [f"{split_unit(text)[1] or text} in {table}" for table, text in texts.items()]
        return f'"{kind}"={", ".join(each)}'

    def _public_keys(self, keys: list[tuple[str, str]], rows: Rows) -> Relation | None:
        """The public list of PUBLIC_GROUPS, with exactly the columns of GROUP BY."""
        if not self.clause.public_groups or not keys:
            return None
        found = self.relating.public_keys
        hint = "write FROM private RIGHT JOIN (SELECT DISTINCT key FROM public) USING (key) ... GROUP BY key."
        if found is None:
            raise self.refuse(self.select.args["hint"], "a public list of groups for PUBLIC_GROUPS", "none", hint)
        join, listed = found
        columns = [plain_column(text, rows.relation.names) for _, text in keys]
        pairs = {column: other for pair in join.pairs for column, other in (pair, pair[::-1])}
        wanted = [column if column in listed.names else pairs.get(column or "") for column in columns]
        if sorted(map(str, wanted)) != sorted(listed.names):
            got = "other columns in GROUP BY, or in the list"
            expected = "GROUP BY all columns of the public list, and no others"
            raise self.refuse(self.select.args["group"], expected, got, hint)
        return Select(listed, {column: column for column in wanted if column is not None})


def _sources(select: exp.Select) -> list[exp.Expr]:
    source = select.args.get("from_")
    return [*([] if source is None else [source.this]), *(join.this for join in select.args.get("joins") or ())]


def _named(name: str, text: str, rows: Rows) -> str:
    """A key as an option of a release: a column, or name=expression."""
    return joined_name(name, None if plain_column(text, rows.relation.names) == name else text)
