"""SELECT, GROUP BY and HAVING of a query in FROM."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from sqlglot import exp

from dphist.engines.expressions import Expression
from dphist.engines.relations import Filter, Fold, Folded, FoldFunction, Relation, Select
from dphist.sql.expressions import Expressions
from dphist.sql.names import Rows, Visible, plain_column
from dphist.sql.parse import called, has_aggregate, place_of

_FOLDS: Final[dict[type[exp.Expr], FoldFunction]] = {
    exp.Count: "count", exp.Sum: "sum", exp.Avg: "avg", exp.Min: "min", exp.Max: "max"
}  # fmt: skip


@dataclass(slots=True, eq=False)
class Grouping(Expressions):
    """Expressions of a statement, with the columns and groups that its queries make."""

    def column(self, rows: Rows, node: exp.Expr) -> tuple[Rows, str]:
        """The column that holds an expression's value. Unless the expression is a column itself, the rows get a new one."""
        node = node.unnest() if isinstance(node, exp.Paren) else node
        if isinstance(node, exp.Column) and (found := rows.search(node)) and not found[0][1]:
            return rows, self.find(node, rows)[0]
        computed, name = self.expression(node, rows), self.fresh("value")
        kept = {one: one for one in rows.relation.names}
        return replace(rows, relation=Select(rows.relation, kept, {name: computed}, place_of(node))), name

    def selected(self, node: exp.Select, rows: Rows) -> Rows:
        """The rows with the columns of SELECT, after GROUP BY and HAVING."""
        grouped = node.args.get("group") is not None or any(
            map(has_aggregate, [*node.expressions, node.args.get("having")])
        )
        if not grouped and node.args.get("having") is not None:
            raise self.refuse(node.args["having"], "HAVING with GROUP BY", "HAVING alone", "WHERE compares rows.")
        read: Callable[[exp.Expr], Expression] = partial(self.expression, rows=rows)
        if grouped:
            rows, read = self._folded(node, rows)
        items = [*self._items(node, rows, grouped=grouped)]
        kept, computed, visible = {}, {}, []
        for name, item in items:
            found = item if isinstance(item, str) else read(item)
            column = found if isinstance(found, str) else plain_column(found.text, rows.relation.names)
            # A column keeps its name in the tree, unless it is there twice.
            fresh = self.fresh(name or "value") if column is None or column in kept else column
            visible.append((name, fresh))
            if column is not None:
                kept[fresh] = column
            elif not isinstance(found, str):
                computed[fresh] = found
        relation: Relation = Select(rows.relation, kept, computed, place_of(node))
        if distinct := node.args.get("distinct"):
            if distinct.args.get("on"):
                hint = "which row is the first depends on their order."
                raise self.refuse(node, "SELECT DISTINCT", "DISTINCT ON", hint)
            relation = Fold(relation, tuple(name for _, name in visible), place=place_of(node))
        self.owner(relation)
        return Rows(self.counted(relation, node), (Visible("", tuple(visible)),))

    def _items(self, node: exp.Select, rows: Rows, *, grouped: bool) -> Iterator[tuple[str, exp.Expr | str]]:
        """The name of each column with its expression, or with the column itself where a star stands for it."""
        for item in node.expressions:
            star = item.this if isinstance(item, exp.Column) and isinstance(item.this, exp.Star) else item
            if not isinstance(star, exp.Star):
                yield item.alias_or_name, item.this if isinstance(item, exp.Alias) else item
                continue
            if grouped:
                raise self.refuse(item, "columns of GROUP BY and aggregates", "a star", "list the columns.")
            if star.args.get("replace") or star.args.get("rename"):
                raise self.refuse(item, "* or * EXCEPT (...)", "another star", "list the columns.")
            alias = item.table if isinstance(item, exp.Column) else ""
            found = [one for one in rows.visible if not alias or one.alias.casefold() == alias.casefold()]
            if alias and not found:
                hint = f"the names in FROM are {', '.join(one.alias for one in rows.visible if one.alias)}."
                raise self.refuse(item, "a table in FROM", repr(alias), hint)
            left_out = {one.name.casefold() for one in star.args.get("except_") or ()}
            columns = found[0].columns if alias else rows.columns
            if missing := left_out - {name.casefold() for name, _ in columns}:
                hint = self.near(min(missing), [name for name, _ in columns]) or "leave it out."
                raise self.refuse(item, "columns that exist in EXCEPT", repr(min(missing)), hint)
            yield from ((name, inside) for name, inside in columns if name.casefold() not in left_out)

    def _folded(self, node: exp.Select, rows: Rows) -> tuple[Rows, Callable[[exp.Expr], Expression]]:
        """The groups of GROUP BY, and a function from an item of SELECT to its expression over the groups."""
        keys: dict[str, str] = {}
        for expression in self.keys_of(node):
            text = self.expression(expression, rows).text
            rows, keys[text] = self.column(rows, expression)
        aggregates: dict[str, Folded] = {}
        names: dict[str, str] = {}

        def fold(call: exp.Expr) -> str:
            nonlocal rows
            rows, folded = self._fold(call, rows)
            name = names.setdefault(repr(folded), self.fresh("folded"))
            aggregates[name] = folded
            return name

        source = rows
        having = self._having(node)
        parts = [*node.expressions, *([] if having is None else [having])]
        found: dict[int, Expression] = {}
        for part in parts:
            inner = part.this if isinstance(part, exp.Alias) else part
            if not isinstance(inner, exp.Star):
                found[id(inner)] = self.expression_of_groups(inner, source, keys, fold)
        relation: Relation = Fold(rows.relation, tuple(dict.fromkeys(keys.values())), aggregates, place_of(node))
        self.owner(relation)
        if having is not None:
            relation = Filter(relation, found[id(having)], place_of(having))
        return Rows(self.counted(relation, node), ()), lambda item: found[id(item)]

    def _having(self, node: exp.Select) -> exp.Expr | None:
        """The condition of HAVING. A name of SELECT in it is replaced by the expression that it names."""
        if node.args.get("having") is None:
            return None
        items = {one.alias.casefold(): one.this for one in node.expressions if isinstance(one, exp.Alias)}

        def meant(one: exp.Expr) -> exp.Expr:
            if isinstance(one, exp.AggFunc):
                return one.copy()  # inside, names are those of the rows
            named = isinstance(one, exp.Column) and not one.table
            return items[one.name.casefold()].copy() if named and one.name.casefold() in items else one

        found: exp.Expr = node.args["having"].this.copy().transform(meant)
        return found

    def keys_of(self, node: exp.Select) -> list[exp.Expr]:
        """The expressions of GROUP BY. A number or an alias is replaced by the column of SELECT that it means."""
        group = node.args.get("group")
        if group is None:
            return []
        self.only(group, "GROUP BY", "expressions")
        items = {one.alias.casefold(): one.this for one in node.expressions if isinstance(one, exp.Alias) and one.alias}
        keys = []
        for key in group.expressions:
            if isinstance(key, exp.Literal) and not key.is_string:
                places = range(1, len(node.expressions) + 1)
                if not key.this.isdigit() or int(key.this) not in places:
                    hint = "numbers in GROUP BY are places in SELECT; names are clearer."
                    raise self.refuse(key, f"a column of SELECT from 1 to {len(node.expressions)}", key.this, hint)
                item = node.expressions[int(key.this) - 1]
                keys.append(item.this if isinstance(item, exp.Alias) else item)
            elif isinstance(key, exp.Column) and not key.table and key.name.casefold() in items:
                keys.append(items[key.name.casefold()])
            else:
                keys.append(key)
            if has_aggregate(keys[-1]) or isinstance(keys[-1], exp.Star):
                hint = "group by columns; for groups of aggregates, aggregate by the unit in a subquery first."
                raise self.refuse(key, "GROUP BY columns of a row", "an aggregate or a star", hint)
        return keys

    def _fold(self, call: exp.Expr, rows: Rows) -> tuple[Rows, Folded]:
        """An aggregate in a subquery. It is exact, as it is computed from the rows of one unit."""
        inside = call.this
        if isinstance(call, exp.CountIf):
            value = exp.Case(ifs=[exp.If(this=inside.copy(), true=exp.Literal.number(1))])
            value.meta.update(span=place_of(call))
            rows, column = self.column(rows, value)
            return rows, Folded("count", column)
        function = _FOLDS.get(type(call))
        if function is None or call.args.get("named") or call.args.get("expressions"):
            expected = f"{', '.join(one.key.upper() for one in _FOLDS)} or COUNTIF in a subquery"
            hint = "other aggregates of a subquery are not exact, or depend on the order of rows."
            raise self.refuse(call, expected, called(call), hint)
        if isinstance(inside, exp.Distinct):
            if function != "count" or len(inside.expressions) != 1:
                raise self.refuse(call, "COUNT(DISTINCT column)", f"{called(call)} of several, or of another kind")
            function, inside = "count distinct", inside.expressions[0]
        if isinstance(inside, exp.Star):
            return rows, Folded("count")
        if not isinstance(inside, exp.Expr) or isinstance(
            inside, exp.Order | exp.Limit | exp.IgnoreNulls | exp.HavingMax
        ):
            raise self.refuse(call, f"{called(call)} of a column", "a clause of its own", "leave it out.")
        rows, column = self.column(rows, inside)
        return rows, Folded(function, column)
