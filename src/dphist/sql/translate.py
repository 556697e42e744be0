"""One SELECT WITH DIFFERENTIAL_PRIVACY as a release and what is left to compute from it.

    keys, aggregates, options  ->  the options of `dphist.release`, or of `dphist.select` where there are keys alone
    SELECT list, HAVING, ORDER BY, LIMIT  ->  an ordinary SELECT over the published table, which costs nothing

The published table has names of ours in that SELECT: key_1, ..., and value_1, error_1, low_1, high_1, ... for each aggregate.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from sqlglot import exp

from dphist.columns import joined_name, quoted, split_unit
from dphist.engines.parser import read_expression
from dphist.engines.relations import Derived, Filter, Relation, Scan, Select
from dphist.errors import InvalidParameter
from dphist.planning.plan import HIGH, LOW, NOISY, STD_ERROR
from dphist.sql.aggregates import LEVEL, Aggregated, Aggregates
from dphist.sql.dialect import written
from dphist.sql.options import Clause, number_of, read_clause
from dphist.sql.parse import PrivacyClause, place_of
from dphist.sql.relate import Relating
from dphist.sql.reports import bounding_report, report, reports
from dphist.sql.scope import Rows, Scope, plain_column
from dphist.sql.tables import Table

RELEASED: Final = "released"
"""Marks a table of ours in a tree: the same name in a statement means nothing."""

_SUFFIXES: Final = (STD_ERROR, NOISY, LOW, HIGH)
_EVERY: Final = (
    "expressions",
    "from_",
    "joins",
    "where",
    "group",
    "having",
    "order",
    "limit",
    "offset",
    "hint",
    "with_",
)


@dataclass(frozen=True, slots=True, eq=False)
class PrivateSelect:
    """A private SELECT, read and proved. options: of the release. outer: what is computed from its table, called `table`.

    command_source: the table itself, where FROM is one table; then the same release is one command. protected: the unit as
    it was declared, for the ledger and for readers; `unit` is the column that holds it. unnamed: columns that no explanation
    names, each with what it says instead. places: of its expressions in the statement, by their texts.
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
    keys: int
    relation: Relation
    command_source: Table | None
    public_keys: Relation | None = None
    key_names: tuple[str, ...] = ()
    unnamed: Mapping[str, str] = field(default_factory=dict)
    places: Mapping[str, tuple[int, int]] = field(default_factory=dict)


@dataclass(slots=True, eq=False)
class Translating:
    """One private SELECT on its way to a release."""

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
            raise self.refuse(
                select, "SELECT WITH DIFFERENTIAL_PRIVACY", "DISTINCT in it", "GROUP BY makes rows distinct."
            )
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
        outer = self._outer(rows, texts, owner.columns)
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
            keys=len(keys),
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
        """A column of OPTIONS is the unit of every private table in FROM whose unit is not declared."""
        column = self.clause.unit
        if column is None:
            return
        parts = [part.name for part in column.parts]
        aliases = {one.alias_or_name.casefold() for one in _sources(self.select)}
        if len(parts) > 1 and parts[0].casefold() in aliases:
            parts = parts[1:]
        self._check_alias(column, parts)
        # A field of a column is an expression; its name is the path. Of files, a column may have such a name itself.
        path, itself = ".".join(parts), len(parts) == 1
        field_of = None if itself or self._is_column(path, parts[0]) else ".".join(map(quoted, parts))
        self.relating.unit, self.relating.unit_place = joined_name(path, field_of, unit=True), place_of(column)

    def _check_alias(self, column: exp.Column, parts: Sequence[str]) -> None:
        """Refuse the name of a table in FROM that has another one there."""
        for one in _sources(self.select):
            if (
                len(parts) > 1
                and isinstance(one, exp.Table)
                and one.alias
                and one.name.casefold() == parts[0].casefold()
            ):
                hint = f"write {'.'.join([one.alias, *parts[1:]])}."
                raise self.refuse(column, f"the name that FROM gives the table, {one.alias}", repr(parts[0]), hint)

    def _is_column(self, path: str, first: str) -> bool:
        """Whether a path is the name of a column of some private table, and its first part of none."""
        tables = (self.relating.table_named(one.name) for one in self.select.root().find_all(exp.Table))
        listed = {table.name for table in tables if table is not None and not table.public}
        names = {column.casefold() for name in listed for column in self.relating.columns_of(name)}
        return path.casefold() in names and first.casefold() not in names

    def _check_unit(self, rows: Rows, columns: tuple[str, ...]) -> None:
        """What OPTIONS names must be the unit that the tables have."""
        column = self.clause.unit
        if column is None:
            return
        kind = self.relating.owner(rows.relation).kind
        path = split_unit(self.relating.unit or "")[0]  # a field of a column, by its path
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
        """Names under which a release can have the keys: none of its own columns, none twice."""
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
        """Whether an expression reads a unit that is computed, by its name: the table has no such column."""
        if scan.unit is None or scan.unit_expression is None:
            return False
        read = (read_expression(text).columns for text in [*texts, *self.aggregates.texts])
        return scan.unit.casefold() in {name.casefold() for names in read for name in names}

    def _source(
        self, rows: Rows, units: tuple[str, ...], keys: Iterable[str]
    ) -> tuple[str, object, Table | None, str | None]:
        """The unit, the source and the condition of the release: of the table itself where FROM is one table."""
        relation, conditions = rows.relation, []
        while isinstance(relation, Filter):
            conditions.append(relation.condition.text)
            relation = relation.child
        itself = isinstance(relation, Scan) and all(inside == column for inside, column in relation.columns.items())
        if isinstance(relation, Scan) and itself and not self._names_unit(relation, [*conditions, *keys]):
            table = self.relating.tables[relation.table]
            where = " AND ".join(f"({one})" for one in reversed(conditions)) if conditions else None
            unit = table.unit or self.relating.unit
            assert unit is not None
            if len(conditions) == 1:
                where = conditions[0]
            return unit, table.source, table, where
        sources = {name: table.source for name, table in self.relating.used.items()}
        return (
            joined_name(units[0], None, unit=True),
            Derived(rows.relation, sources, self.clause.most_rows),
            None,
            None,
        )

    def _protected(self, kind: str) -> str:
        """The unit of several tables in one text: as each declares it, or what each takes for it.

        Never the bare name where it stands for an expression: a ledger would take it for a column of that name.
        """
        private = [table for table in self.relating.used.values() if not table.public]
        texts = {table.name: table.unit or self.relating.unit or kind for table in private}
        if len(set(texts.values())) == 1:
            return next(iter(texts.values()))
        each = [f"{split_unit(text)[1] or text} in {table}" for table, text in texts.items()]
        return f'"{kind}"={", ".join(each)}'

    def _public_keys(self, keys: list[tuple[str, str]], rows: Rows) -> Relation | None:
        """PUBLIC_GROUPS: the list that an outer join keeps, with the columns of GROUP BY and no others."""
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
            raise self.refuse(
                self.select.args["group"], "GROUP BY all columns of the public list, and no others", got, hint
            )
        return Select(listed, {column: column for column in wanted if column is not None})

    # Aggregates

    def _outer(self, rows: Rows, keys: Mapping[str, str], units: tuple[str, ...]) -> exp.Select:
        """The SELECT over the published table."""
        select = self.select

        def computed(node: exp.Expr, *, aliases: Mapping[str, exp.Expr] | None = None) -> exp.Expr:
            return self._computed(node, rows, keys, units, aliases or {})

        items: list[exp.Expr] = []
        values: list[exp.Expr] = []
        aliases: dict[str, exp.Expr] = {}
        names: list[str] = []
        for place, item in enumerate(select.expressions, 1):
            inner = item.this if isinstance(item, exp.Alias) else item
            if isinstance(inner, exp.Star) or (isinstance(inner, exp.Column) and isinstance(inner.this, exp.Star)):
                raise self.refuse(item, "keys and aggregates in a private SELECT", "a star", "list them.")
            value = computed(inner)
            values.append(value)
            alone = self.aggregates.known(inner)
            name = item.alias if isinstance(item, exp.Alias) else self._name(inner, alone, place)
            if name.casefold() in {one.casefold() for one in names}:
                if isinstance(item, exp.Alias):
                    raise self.refuse(
                        item, "columns with different names", repr(name), "give one of them another alias."
                    )
                name = f"{name}_{place}"
            names.append(name)
            aliases[name.casefold()] = value
            items.append(exp.alias_(value.copy(), name, quoted=True))
            if alone is not None and self._has_errors(alone):
                names.append(f"{name}_std_error")
                items.append(exp.alias_(self._errors(alone), f"{name}_std_error", quoted=True))
        if len({name.casefold() for name in names}) < len(names):
            twice = next(name for name in names if [one.casefold() for one in names].count(name.casefold()) > 1)
            hint = "a column with its _std_error has two names; give one of them another alias."
            raise self.refuse(select, "columns with different names", repr(twice), hint)
        source = exp.Table(this=exp.to_identifier(self.table, quoted=True))
        source.meta[RELEASED] = True
        outer = exp.Select(expressions=items, from_=exp.From(this=source))
        if (having := select.args.get("having")) is not None:
            outer.set("where", exp.Where(this=computed(having.this, aliases=aliases)))
        if (order := select.args.get("order")) is not None:
            ordered = [
                self._ordered(one, values, lambda node: computed(node, aliases=aliases)) for one in order.expressions
            ]
            outer.set("order", exp.Order(expressions=ordered))
        for name in ("limit", "offset"):
            if (clause := select.args.get(name)) is not None:
                self._check_limit(clause)
                outer.set(name, clause.copy())
        return outer

    def _ordered(self, node: exp.Expr, values: list[exp.Expr], computed: Any) -> exp.Expr:
        inner = node.this if isinstance(node, exp.Ordered) else node
        if isinstance(inner, exp.Literal) and not inner.is_string:
            if not inner.this.isdigit() or not 1 <= int(inner.this) <= len(values):
                raise self.refuse(inner, f"a column of SELECT from 1 to {len(values)}", str(inner.this))
            value = values[int(inner.this) - 1].copy()
        else:
            value = computed(inner)
        found = node.copy() if isinstance(node, exp.Ordered) else exp.Ordered(this=value)
        found.set("this", value)
        return found

    def _check_limit(self, clause: exp.Expr) -> None:
        self.relating.only(clause, "LIMIT and OFFSET", "this", "expression")
        number = number_of(clause.expression) if isinstance(clause.expression, exp.Expr) else None
        if number is None or not number.is_integer() or number < 0:
            raise self.refuse(clause, "a whole number of rows", "something else", "write it down, as in LIMIT 10.")

    def _name(self, node: exp.Expr, alone: Aggregated | None, place: int) -> str:
        if alone is not None:
            return alone.name
        return node.name if isinstance(node, exp.Column) else f"column_{place}"

    def _has_errors(self, one: Aggregated) -> bool:
        return self.clause.std_errors and not self.in_set_operation and not one.arguments.report

    def _number(self, one: Aggregated) -> int:
        return 1 + self.aggregates.all.index(one)

    def _published(self, name: str) -> exp.Expr:
        """A column of the published table; with its name, since an alias may be spelled like the column."""
        return exp.column(name, table=exp.to_identifier(self.table, quoted=True))

    def _errors(self, one: Aggregated) -> exp.Expr:
        number = self._number(one)
        if not one.probabilities:
            return self._published(f"error_{number}")
        errors = [self._published(f"error_{number}_{place}") for place in range(1, len(one.probabilities) + 1)]
        if not one.ends:
            return errors[0]
        return exp.Array(expressions=[exp.Null(), *errors, exp.Null()])

    def _computed(
        self,
        node: exp.Expr,
        rows: Rows,
        keys: Mapping[str, str],
        units: tuple[str, ...],
        aliases: Mapping[str, exp.Expr],
    ) -> exp.Expr:
        """An expression over keys and aggregates as one over the published table."""
        relating = self.relating

        def replaced(one: exp.Expr) -> exp.Expr:
            if isinstance(one, exp.Query | exp.Exists):
                hint = "a private SELECT has keys and aggregates; use an outer query for the rest."
                raise self.refuse(one, "keys and aggregates in a private SELECT", "a subquery", hint)
            if isinstance(one, exp.Window):
                hint = "use it in an outer query, over the private result."
                raise self.refuse(one, "keys and aggregates in a private SELECT", "a window function", hint)
            if isinstance(one, exp.Filter | exp.IgnoreNulls | exp.RespectNulls):
                hint = "leave it out: nulls are ignored; COUNTIF counts some rows, SUM(IF(condition, x, NULL)) adds up some."
                raise self.refuse(one, "an aggregate without clauses", "FILTER, IGNORE NULLS or RESPECT NULLS", hint)
            if isinstance(one, exp.AggFunc):
                return self._value(self.aggregates.aggregate(one, rows, units))
            if isinstance(one, exp.Anonymous) and one.name.upper().startswith("ANON_"):
                hint = f"write {one.name[len('ANON_') :].upper()}: the clause says that it is private."
                raise self.refuse(one, "COUNT, SUM, AVG and others by these names", one.name, hint)
            if isinstance(one, exp.Star):
                raise self.refuse(one, "keys and aggregates in a private SELECT", "a star", "list them.")
            if isinstance(one, exp.Column) and not one.table and one.name.casefold() in aliases:
                return aliases[one.name.casefold()].copy()
            if isinstance(one, exp.Condition | exp.Func | exp.Column) and not one.find(exp.AggFunc):
                try:
                    text = written(one) if isinstance(one, exp.Literal) else relating.expression(one, rows).text
                except InvalidParameter:
                    if isinstance(one, exp.Column):
                        raise
                    text = ""
                if text in keys:
                    return self._published(keys[text])
            if isinstance(one, exp.Column):
                hint = "put it into GROUP BY, or into an aggregate."
                raise self.refuse(one, "keys of GROUP BY and aggregates", repr(one.name), hint)
            if one.args.get("named"):
                self.aggregates.refuse_function(one)
            return one

        return node.copy().transform(replaced)

    def _value(self, one: Aggregated) -> exp.Expr:
        """The value of an aggregate in the published table, or its report."""
        number = self._number(one)
        if one.arguments.report:
            return self._report(one, number)
        if not one.probabilities:
            return self._published(f"value_{number}")
        values = [self._published(f"value_{number}_{place}") for place in range(1, len(one.probabilities) + 1)]
        if not one.ends:
            return values[0]
        return exp.Array(expressions=[self._published(f"lower_{number}"), *values, self._published(f"upper_{number}")])

    def _report(self, one: Aggregated, number: int) -> exp.Expr:
        column = self._published
        bounding = bounding_report(column, number) if one.arguments.chosen else None
        if not one.probabilities:
            centred = one.kind in ("count", "rows", "sum", "distinct")
            return report(column, f"_{number}", LEVEL, about_zero=centred, bounding=bounding)
        places = [f"_{number}_{place}" for place in range(1, len(one.probabilities) + 1)]
        if not one.ends:
            return report(column, places[0], LEVEL, bounding=bounding)
        return reports(column, places, number, LEVEL, bounding)


def _sources(select: exp.Select) -> list[exp.Expr]:
    source = select.args.get("from_")
    return [*([] if source is None else [source.this]), *(join.this for join in select.args.get("joins") or ())]


def _named(name: str, text: str, rows: Rows) -> str:
    """A key as a release takes it: a column, or an expression under a name."""
    return joined_name(name, None if plain_column(text, rows.relation.names) == name else text)
