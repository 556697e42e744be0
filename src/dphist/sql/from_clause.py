"""FROM and WHERE of a statement become a tree of relations.

The tree decides whose rows they are (`engines.relations.owner`), not this module. A clause that is not listed here is refused
by its name, with its place in the text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from sqlglot import exp

from dphist.columns import split_unit
from dphist.engines.relations import (
    Combination,
    Combine,
    Filter,
    Fold,
    Join,
    Matching,
    Relation,
    Scan,
    Select,
    Unproved,
    Values,
    private_list,
)
from dphist.errors import InvalidParameter
from dphist.sql.dialect import written
from dphist.sql.expressions import NEVER
from dphist.sql.grouping import Grouping
from dphist.sql.names import Definition, Rows, Scope, Table, Visible
from dphist.sql.parse import PrivacyClause, called, conjuncts, located, place_of, words_of
from dphist.words import did_you_mean


@dataclass(slots=True, eq=False)
class Relating(Grouping):
    """Turns one statement into relations. unit: the column of OPTIONS, for tables whose unit is not declared.

    asked: the names in the statement, in lower case. unnamed: an explanation's names for columns that the statement does not
    name, of tables whose first line may be a record. public_groups: whether an outer join may keep a public list of groups.
    public_keys: this join, and the list.
    """

    columns_of: Callable[[str], Sequence[str]] = field(kw_only=True)
    asked: frozenset[str] = frozenset()
    unnamed: dict[str, str] = field(default_factory=dict)
    unit: str | None = None
    unit_place: tuple[int, int] | None = None
    public_groups: bool = False
    public_keys: tuple[Join, Relation] | None = None

    # FROM and WHERE

    def rows_of(self, select: exp.Select, scope: Scope) -> Rows:
        """The rows that FROM and WHERE leave."""
        source = select.args.get("from_")
        if source is None:
            raise self.refuse(select, "a FROM clause", "none", "name a table: FROM events.")
        joins, where = select.args.get("joins") or [], select.args.get("where")
        conditions = [] if where is None else [*conjuncts(where.this)]
        kept_right = [join for join in joins if str(join.args.get("side") or "").upper() == "RIGHT"]
        if kept_right and any(self.text[place_of(join)[0]] == "," for join in joins):
            hint = "which rows are kept depends on what is joined first: write CROSS JOIN, or brackets."
            raise self.refuse(kept_right[0], "no comma in FROM beside RIGHT JOIN", "one", hint)
        # RIGHT JOIN keeps rows without a partner, and WHERE filters them, too: its equalities are no conditions of joins.
        equalities = [] if kept_right else [one for one in conditions if isinstance(one, exp.EQ)]
        rows = self._item(source.this, scope)
        for join in joins:
            rows = self._join(rows, join, scope, equalities)
        for condition in conditions:
            rows = self._filtered(rows, condition, scope)
        return rows

    def _filtered(self, rows: Rows, condition: exp.Expr, scope: Scope) -> Rows:
        inside = condition.this if isinstance(condition, exp.Not) else condition
        inside = inside.unnest() if isinstance(inside, exp.Paren) else inside
        if isinstance(inside, exp.In) and inside.args.get("query") is not None:
            rows, column = self.column(rows, inside.this)
            try:
                listed = self.query(inside.args["query"], scope, rows)
            except Unproved:  # a private table without its unit column, which would not help here
                raise located(private_list(place_of(inside)), self.text, place_of(inside)) from None
            if len(listed.columns) != 1:
                hint = "select the one that is compared."
                raise self.refuse(inside, "one column in the list of IN", f"{len(listed.columns)}", hint)
            listed_column = listed.columns[0][1]
            only = Select(listed.relation, {listed_column: listed_column})
            negated = isinstance(condition, exp.Not)
            found = Matching(rows.relation, only, column, negated, place_of(inside))
            self.owner(found)
            return replace(rows, relation=self.counted(found, inside))
        place = place_of(condition)
        return replace(rows, relation=Filter(rows.relation, self.expression(condition, rows), place))

    def _item(self, node: exp.Expr, scope: Scope) -> Rows:
        match node:
            case exp.Table():
                self.only(node, "a table", "this", "alias", "joins")
                if not isinstance(node.this, exp.Identifier):
                    hint = "a statement reads the tables that --table names, nothing else."
                    raise self.refuse(node, "the name of a table", f"the function {called(node.this)}", hint)
                rows = self._table(node, scope)
            case exp.Subquery():
                self.only(node, "a subquery", "this", "alias", "joins")
                if isinstance(node.this, exp.Table):  # (a JOIN b)
                    self.only(node, "a join in brackets", "this", "joins")
                    rows = self._item(node.this, scope)
                else:
                    rows = self.query(node.this, scope).called(self._alias(node))
            case exp.Unnest():
                rows = self._unnested(node)
            case _:
                raise self.refuse(node, "tables, subqueries and joins in FROM", words_of(node), NEVER["laterals"])
        for join in node.args.get("joins") or ():
            rows = self._join(rows, join, scope)
        return rows

    def _alias(self, node: exp.Expr) -> str:
        alias = node.args.get("alias")
        if alias is not None and alias.args.get("columns"):
            raise self.refuse(node, "an alias for the table alone", "one for its columns", "name them in its SELECT.")
        return str(node.alias or (node.name if isinstance(node, exp.Table) else ""))

    def _table(self, node: exp.Table, scope: Scope) -> Rows:
        name, alias = node.name, self._alias(node)
        if (defined := scope.get(name.casefold())) is not None:
            return self.query(defined.query, defined.scope).called(alias)
        table = self.table_named(name)
        if table is None:
            others = [*self.tables, *scope]
            hint = did_you_mean(name, others) or f"the tables are {', '.join(others[:20])}."
            raise self.refuse(node, "a table that is named", repr(name), hint.strip())
        self.used[table.name] = table
        names = self.columns_of(table.name)
        columns = {self.fresh(self._shown(column, place, table)): column for place, column in enumerate(names, 1)}
        visible = [(column, inside) for inside, column in columns.items()]
        scan = Scan(table.name, columns, place=place_of(node))
        if not table.public:
            scan = self._owned(scan, table, node)
            taken = {column.casefold() for column in names}
            if scan.unit_expression is not None and scan.unit is not None and scan.unit_kind.casefold() not in taken:
                visible.append((scan.unit_kind, scan.unit))
        return Rows(self.counted(scan, node), (Visible(alias, tuple(visible)),))

    def _shown(self, column: str, place: int, table: Table) -> str:
        """The name of a column in explanations; its number, if the name may be a record's value and nobody wrote it."""
        unit = table.unit or self.unit or ""
        asked = {*self.asked, *re.findall(r"\w+", unit.casefold()), split_unit(unit)[0].casefold()}
        if table.public or not table.named_by_first_line or column.casefold() in asked:
            return column
        return self.unnamed.setdefault(column, f"column_{place}")

    def _owned(self, scan: Scan, table: Table, node: exp.Expr) -> Scan:
        """The scan of a private table with its unit, from the declaration or from OPTIONS."""
        text = table.unit or self.unit
        if text is None:
            hint = "OPTIONS(privacy_unit_column = user_id), or --unit user_id; or that they are public."
            raise self.refuse(node, f"the unit of {table.name!r}", "none", f"say whose rows they are: {hint}")
        kind, expression = split_unit(text)
        if expression is None:
            found = [inside for inside, column in scan.columns.items() if column.casefold() == kind.casefold()]
            if not found:
                problem = InvalidParameter(
                    f"the unit {kind!r} among the columns of {table.name!r}",
                    "no such column",
                    "" if table.named_by_first_line else did_you_mean(kind, list(scan.columns.values())).strip(),
                )
                raise located(problem, self.text, self.unit_place if table.unit is None else place_of(node))
            return replace(scan, unit=found[0], unit_kind=kind)
        return replace(scan, unit=self.fresh(kind), unit_expression=expression, unit_kind=kind)

    def _unnested(self, node: exp.Unnest) -> Rows:
        """Read UNNEST of constants: a public table with one column."""
        self.only(node, "UNNEST", "expressions", "alias")
        listed = node.expressions[0] if len(node.expressions) == 1 else None
        if not isinstance(listed, exp.Array):
            hint = "arrays of people's rows cannot be spread out; derive a table with one row each."
            raise self.refuse(node, "UNNEST of a list of constants", words_of(node), hint)
        alias = node.args.get("alias")
        names = [] if alias is None else [one.name for one in alias.args.get("columns") or ()] or [alias.name]
        column = self.fresh(names[0] if names else "value")
        rows = tuple((self._literal(one),) for one in listed.expressions)
        if not rows:
            raise self.refuse(node, "constants in UNNEST", "an empty list")
        values = Values((column,), rows, place_of(node))
        name = names[0] if names else ""
        return Rows(self.counted(values, node), (Visible(name, ((name, column),)),))

    def _literal(self, node: exp.Expr) -> str:
        plain = node.this if isinstance(node, exp.Neg) else node
        if isinstance(plain, exp.Literal | exp.Boolean | exp.Null):
            return written(node)
        raise self.refuse(node, "a constant", words_of(node), "only numbers, texts, TRUE, FALSE and NULL are listed.")

    # Joins

    def _join(self, left: Rows, join: exp.Join, scope: Scope, equalities: Sequence[exp.EQ] = ()) -> Rows:
        """Join rows. equalities: the equalities of WHERE, which are conditions of inner joins, too."""
        self.only(join, "a join", "this", "side", "kind", "on", "using", "method")
        side, kind, method = (str(join.args.get(name) or "").upper() for name in ("side", "kind", "method"))
        if method:
            hint = "write the columns: USING (user_id), or ON."
            raise self.refuse(join, "JOIN with ON or USING", f"{method} JOIN", hint)
        if side not in ("", "LEFT", "RIGHT") or kind not in ("", "INNER", "OUTER", "CROSS"):
            hint = (
                "rows without a partner on either side would show who is missing." if side == "FULL" else "write JOIN."
            )
            got = " ".join(word for word in (side, kind, "JOIN") if word)
            raise self.refuse(join, "JOIN, LEFT JOIN, RIGHT JOIN or CROSS JOIN", got, hint)
        right = self._item(join.this, scope)
        self._check_aliases(left, right, join)
        first, second = (right, left) if side == "RIGHT" else (left, right)
        outer = side in ("LEFT", "RIGHT")
        if join.args.get("using"):
            first, second, pairs, merged = self._using(first, second, join)
            rest: list[exp.Expr] = []
        else:
            on = join.args.get("on")
            first, second, pairs, rest = self._on(first, second, [] if on is None else [*conjuncts(on)])
            merged = frozenset()
        if not outer:  # WHERE filters later all the same, and refuses unclear names
            clear = [one for one in equalities if self._shared_name(one, first, second) is None]
            first, second, more, _ = self._on(first, second, clear)
            pairs += [pair for pair in more if pair not in pairs]
        if outer and not pairs:
            raise self.refuse(join, f"{side} JOIN ... ON with an equality", "none", "compare columns of both sides.")
        if outer:
            second, rest = self._before_outer(second, rest)
        relation = Join(first.relation, second.relation, "left" if outer else "inner", tuple(pairs), place_of(join))
        if outer and self.public_groups and self.owner(first.relation).public and not self._lists_groups(relation):
            hint = "list each group once: RIGHT JOIN (SELECT DISTINCT key FROM public) USING (key)."
            raise self.refuse(join, "SELECT DISTINCT of the groups, for PUBLIC_GROUPS", "a public table as it is", hint)
        if outer and self._lists_groups(relation):
            outer = False
            if self.public_keys is not None:
                hint = "list the groups once, with all columns of GROUP BY."
                raise self.refuse(join, "one public list of groups", "a second one", hint)
            relation = replace(relation, kind="inner")
            self.public_keys = relation, first.relation
        self.owner(relation)
        hidden = tuple(replace(one, merged=one.merged | merged) for one in second.visible)
        visible = (*hidden, *first.visible) if side == "RIGHT" else (*first.visible, *hidden)
        rows = Rows(self.counted(relation, join), visible)
        for condition in rest:
            place = place_of(condition)
            rows = replace(rows, relation=Filter(rows.relation, self.expression(condition, rows), place))
        return rows

    def _lists_groups(self, join: Join) -> bool:
        """Whether a join keeps all groups of a public list, as PUBLIC_GROUPS asks.

        The release gets the list (`dphist.release(keys=...)`), so the join itself may drop groups that nobody is in.
        """
        listed = isinstance(join.left, Fold) and not join.left.aggregates
        return self.public_groups and listed and self.owner(join.left).public and not self.owner(join.right).public

    def _check_aliases(self, left: Rows, right: Rows, join: exp.Join) -> None:
        taken = {one.alias.casefold() for one in left.visible if one.alias}
        for one in right.visible:
            if one.alias.casefold() in taken:
                raise self.refuse(join, "different names in FROM", repr(one.alias), "give one of them an alias.")

    def _using(
        self, first: Rows, second: Rows, join: exp.Join
    ) -> tuple[Rows, Rows, list[tuple[str, str]], frozenset[str]]:
        pairs, merged = [], set()
        for name in join.args["using"]:
            column = exp.column(exp.to_identifier(name.name, quoted=True))
            column.meta.update(span=place_of(join))
            one, other = (self.find(column, side, join)[0] for side in (first, second))
            pairs.append((one, other))
            merged.add(other)
        return first, second, pairs, frozenset(merged)

    def _on(
        self, first: Rows, second: Rows, conditions: Sequence[exp.Expr]
    ) -> tuple[Rows, Rows, list[tuple[str, str]], list[exp.Expr]]:
        """Split conditions: equalities of one side with the other become pairs of columns; the rest is returned last."""
        pairs, rest = [], []
        for condition in conditions:
            condition = condition.unnest() if isinstance(condition, exp.Paren) else condition
            if (column := self._shared_name(condition, first, second)) is not None:
                hint = "write the table before it: a.x."
                raise self.refuse(column, "a name that means one column", repr(column.name), hint)
            sides = (condition.this, condition.expression) if isinstance(condition, exp.EQ) else None
            if sides is not None and not self._within(sides[0], first):
                sides = sides[::-1]
            if sides is None or not (self._within(sides[0], first) and self._within(sides[1], second)):
                rest.append(condition)
                continue
            first, one = self.column(first, sides[0])
            second, other = self.column(second, sides[1])
            pairs.append((one, other))
        return first, second, pairs, rest

    def _shared_name(self, condition: exp.Expr, first: Rows, second: Rows) -> exp.Column | None:
        """A column of the condition whose name both sides of a join have."""
        names = condition.find_all(exp.Column)
        return next((one for one in names if first.search(one) and second.search(one)), None)

    def _before_outer(self, second: Rows, rest: list[exp.Expr]) -> tuple[Rows, list[exp.Expr]]:
        """Filter the optional side of an outer join before the join, by the conditions about that side alone."""
        for condition in rest:
            if not self._within(condition, second):
                hint = "only equalities, and conditions on the optional side."
                raise self.refuse(condition, "a condition that an outer join can have", "another", hint)
            place = place_of(condition)
            second = replace(second, relation=Filter(second.relation, self.expression(condition, second), place))
        return second, []

    def _within(self, node: exp.Expr, rows: Rows) -> bool:
        """Whether an expression names columns, all of them of these rows."""
        columns = [*node.find_all(exp.Column)]
        return bool(columns) and all(map(rows.search, columns))

    # Queries inside of FROM

    def query(self, node: exp.Expr, scope: Scope, outer: Rows | None = None) -> Rows:
        """The rows of a subquery, a query of WITH or one side of a set operation. They have no alias yet."""
        while isinstance(node, exp.Subquery):
            self.only(node, "a subquery", "this", "alias", "with_")
            scope = self.defined(node, scope)
            node = node.this
        scope = self.defined(node, scope)
        if isinstance(node, exp.SetOperation):
            return self._combined(node, scope)
        if not isinstance(node, exp.Select):
            raise self.refuse(node, "a SELECT in FROM", words_of(node), "a statement reads tables; it changes none.")
        if isinstance(node.args.get("hint"), PrivacyClause):
            hint = "a private result is ready when everything is counted; join it in an outer query."
            raise self.refuse(node.args["hint"], "tables in FROM", "a private SELECT", hint)
        self.only(node, "a subquery", "expressions", "from_", "joins", "where", "group", "having", "distinct", "with_")
        if node.args.get("from_") is None:
            return self._constants(node)
        try:
            rows = self.rows_of(node, scope)
            return self.selected(node, rows)
        except InvalidParameter as problem:
            if outer is None or not problem.expected.startswith("a column that exists"):
                raise
            hint = f"{problem.hint} A subquery sees its own tables alone.".strip()
            found = type(problem)(problem.expected, problem.got, hint)
            found.pointer = problem.pointer
            raise found from None

    def defined(self, node: exp.Expr, scope: Scope) -> Scope:
        """The scope of a query, with the queries of its own WITH."""
        clause = node.args.get("with_")
        if clause is None:
            return scope
        if clause.args.get("recursive"):
            hint = "how often it repeats would depend on everybody's rows."
            raise self.refuse(clause, "WITH", "WITH RECURSIVE", hint)
        found = dict(scope)
        own: set[str] = set()
        for one in clause.expressions:
            name = one.alias.casefold()
            if name in own:
                hint = "names that differ in case alone are the same."
                raise self.refuse(one, "different names in WITH", repr(one.alias), hint)
            if one.args["alias"].args.get("columns"):
                raise self.refuse(one, "a name for the query alone", "names for its columns", "name them in SELECT.")
            own.add(name)
            found[name] = Definition(one.this, dict(found))
        return found

    def _constants(self, node: exp.Select) -> Rows:
        """Read SELECT of constants without FROM: one public row."""
        self.only(node, "a SELECT without FROM", "expressions")
        names = [one.alias_or_name for one in node.expressions]
        inside = tuple(self.fresh(name or "value") for name in names)
        row = tuple(self._literal(one.this if isinstance(one, exp.Alias) else one) for one in node.expressions)
        values = Values(inside, (row,), place_of(node))
        return Rows(self.counted(values, node), (Visible("", tuple(zip(names, inside, strict=True))),))

    def _combined(self, node: exp.SetOperation, scope: Scope) -> Rows:
        self.only(node, "a set operation", "this", "expression", "distinct", "with_")
        every = node.args.get("distinct") is False
        word = type(node).__name__.upper()
        if every and not isinstance(node, exp.Union):
            raise self.refuse(node, f"{word} DISTINCT", f"{word} ALL", f"BigQuery has {word} DISTINCT alone.")
        left, right = self.query(node.this, scope), self.query(node.expression, scope)
        if len(left.columns) != len(right.columns):
            got = f"{len(left.columns)} and {len(right.columns)}"
            hint = "list the same columns on both sides."
            raise self.refuse(node, f"as many columns on both sides of {word}", got, hint)
        kinds: dict[str, Combination] = {"UNION": "union all" if every else "union", "INTERSECT": "intersect"}
        pairs = zip(left.columns, right.columns, strict=True)
        columns = [(name, one, other) for (name, one), (_, other) in pairs]
        inside = tuple((one, one, other) for _, one, other in columns)
        relation = Combine(left.relation, right.relation, kinds.get(word, "except"), inside, place_of(node))
        self.owner(relation)
        return Rows(self.counted(relation, node), (Visible("", tuple((name, one) for name, one, _ in columns)),))
