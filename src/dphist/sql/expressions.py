"""Expressions of a statement. Each is a function of one row; DuckDB's parser reads its text once.

DuckDB must find in the text the columns that sqlglot found in the tree, and only functions that dphist has examined. So no
text has two readings, and engines get the very tree that this module checked.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeGuard

from sqlglot import exp

from dphist.engines.expressions import Expression
from dphist.engines.names import letters_of
from dphist.engines.parser import read_expression
from dphist.engines.relations import Owner, Relation, Unproved, owner
from dphist.errors import InvalidParameter
from dphist.sql.dialect import written
from dphist.sql.names import Rows, Table
from dphist.sql.parse import called, has_aggregate, located, place_of, words_of
from dphist.words import did_you_mean

MOST_RELATIONS: Final = 200
"""The most relations of one statement. Each use of a query of WITH counts."""

_CLAUSES: Final = {
    "distinct": "DISTINCT", "group": "GROUP BY", "having": "HAVING", "qualify": "QUALIFY", "windows": "WINDOW",
    "order": "ORDER BY", "limit": "LIMIT", "offset": "OFFSET", "sample": "TABLESAMPLE", "pivots": "PIVOT",
    "laterals": "LATERAL", "version": "FOR SYSTEM_TIME", "hint": "a hint", "kind": "SELECT AS", "into": "INTO",
    "locks": "FOR UPDATE", "match": "MATCH_RECOGNIZE", "connect": "CONNECT BY", "cluster": "CLUSTER BY",
    "sort": "SORT BY", "distribute": "DISTRIBUTE BY", "operation_modifiers": "a modifier", "exclude": "EXCLUDE",
    "limit_options": "PERCENT or WITH TIES",
    "db": "dots in its name", "catalog": "dots in its name"
}  # fmt: skip
_VOLATILE: Final = (
    exp.CurrentDate, exp.CurrentTime, exp.CurrentTimestamp, exp.CurrentDatetime, exp.CurrentUser, exp.SessionUser,
    exp.Rand, exp.Randn, exp.Uuid
)  # fmt: skip
NEVER: Final = {
    "all": "list the keys.",
    "rollup": "write one statement for each set of keys; they share the budget.",
    "cube": "write one statement for each set of keys; they share the budget.",
    "grouping_sets": "write one statement for each set of keys; they share the budget.",
    "by_name": "list the columns in the same order on both sides.",
    "qualify": "it compares rows of different people. Filter the private result with HAVING.",
    "windows": "a window compares rows of different people.",
    "order": "rows have no order before they are counted. Order the private result.",
    "limit": "which rows are the first depends on everybody. Limit the private result.",
    "offset": "which rows are the first depends on everybody. Limit the private result.",
    "sample": "which rows are drawn would depend on other rows. Leave it out.",
    "pivots": "write one column for each value: SUM(CASE WHEN ... THEN ... END).",
    "laterals": "use a join.",
    "db": "write the last part alone, as --table NAME=PATH (tables= in Python) names the table.",
    "catalog": "write the last part alone, as --table NAME=PATH (tables= in Python) names the table.",
}


@dataclass(slots=True, eq=False)
class Expressions:
    """The expressions of one statement. used: the tables that were named so far. places: where each text stands in it."""

    text: str
    tables: Mapping[str, Table]
    used: dict[str, Table] = field(default_factory=dict)
    places: dict[str, tuple[int, int]] = field(default_factory=dict)
    _taken: set[str] = field(default_factory=set)
    _relations: int = 0

    def refuse(self, node: exp.Expr, expected: str, got: str, hint: str = "") -> InvalidParameter:
        """A refusal at the place of a node."""
        return located(InvalidParameter(expected, got, hint), self.text, place_of(node))

    def owner(self, relation: Relation) -> Owner:
        """Find whose rows a relation has, or refuse it at its place."""
        try:
            return owner(relation)
        except Unproved as problem:
            raise located(problem, self.text, problem.place) from None

    def table_named(self, name: str) -> Table | None:
        """Find a table by its name in any case."""
        return next((one for one in self.tables.values() if one.name.casefold() == name.casefold()), None)

    def expression(self, node: exp.Expr, rows: Rows) -> Expression:
        """Check an expression of one row, and write it with the columns of the tree."""
        return self._read(node, self._resolved(node, rows))

    def expression_of_groups(
        self, node: exp.Expr, rows: Rows, keys: Mapping[str, str], fold: Callable[[exp.Expr], str]
    ) -> Expression:
        """Check and write an expression of one group. keys: columns of GROUP BY by text. fold: gives an aggregate's column."""

        def replaced(one: exp.Expr) -> exp.Expr:
            if (key := self.key_of(one, rows, keys)) is not None:
                return _column(key)
            if isinstance(one, exp.AggFunc):
                return _column(fold(one))
            self._check_node(one)
            if isinstance(one, exp.Column):
                self.find(one, rows)
                hint = "put it into GROUP BY, or into an aggregate."
                raise self.refuse(one, "columns of GROUP BY and aggregates", repr(one.name), hint)
            return self._listed(one).transform(replaced) if _is_unnested(one) else one

        return self._read(node, node.copy().transform(replaced))

    def key_of(self, node: exp.Expr, rows: Rows, keys: Mapping[str, str]) -> str | None:
        """The column of the key that an expression equals, if any."""
        if has_aggregate(node) or not isinstance(node, exp.Condition | exp.Func | exp.Column):
            return None
        try:
            return keys.get(written(self._resolved(node, rows)))
        except InvalidParameter:
            return None

    def _resolved(self, node: exp.Expr, rows: Rows) -> exp.Expr:
        """A copy of the expression with the tree's columns in the place of names."""

        def replaced(one: exp.Expr) -> exp.Expr:
            self._check_node(one)
            if isinstance(one, exp.Column):
                parts = [part.name for part in one.parts]
                inside, fields = self.find(one, rows)
                found = _column(inside)
                for name in parts[len(parts) - fields :] if fields else ():
                    found = exp.Dot(this=found, expression=exp.to_identifier(name, quoted=True))
                return found
            return self._listed(one).transform(replaced) if _is_unnested(one) else one

        return node.copy().transform(replaced)

    def _read(self, node: exp.Expr, resolved: exp.Expr) -> Expression:
        """Write a tree and have DuckDB's parser read it, which must find the same columns."""
        text = ""
        try:
            found = read_expression(text := written(resolved))
        except InvalidParameter as problem:
            place = problem.place or place_of(_culprit(problem, node))
            raise located(_of_statement(problem, text), self.text, place) from None
        columns = {column.name.casefold() for column in resolved.find_all(exp.Column)}
        if {name.casefold() for name in found.columns} != columns:
            expected = "an expression that DuckDB reads as BigQuery does"
            raise self.refuse(node, expected, "one with two readings", "write it another way.")
        self.places.setdefault(found.text, place_of(node))
        return found

    def _listed(self, node: exp.In) -> exp.In:
        """Write x IN UNNEST([1, 2]) as x IN (1, 2)."""
        unnest = node.args["unnest"]
        array = unnest.expressions[0] if isinstance(unnest, exp.Unnest) and len(unnest.expressions) == 1 else None
        if not isinstance(array, exp.Array):
            raise self.refuse(node, "IN UNNEST of a list of constants", "another")
        return exp.In(this=node.this.copy(), expressions=[one.copy() for one in array.expressions])

    def _check_node(self, node: exp.Expr) -> None:
        """Refuse a node that is no function of one row, by the name of the node."""
        if isinstance(node, exp.Query | exp.Exists):
            hint = "join the table, or write IN (SELECT ...) as a condition of its own in WHERE."
            raise self.refuse(node, "an expression of one row", "a subquery", hint)
        if isinstance(node, exp.Window):
            raise self.refuse(node, "an expression of one row", "a window function", NEVER["windows"])
        if isinstance(node, exp.AggFunc):
            hint = "aggregates stand in SELECT and HAVING, not inside of each other, WHERE, ON or GROUP BY."
            raise self.refuse(node, "an expression of one row", f"the aggregate {called(node)}", hint)
        if isinstance(node, exp.Placeholder | exp.Parameter | exp.SessionParameter):
            raise self.refuse(node, "values", "a parameter", "write the value.")
        if node.args.get("named"):
            hint = "only aggregates of the private SELECT have them."
            raise self.refuse(node, f"{called(node)} without named arguments", "some", hint)
        if isinstance(node, exp.Star):
            raise self.refuse(node, "an expression of one row", "a star", "name the columns.")
        if isinstance(node, _VOLATILE):
            hint = "clocks, users and random numbers differ from run to run; write the value that you mean."
            raise self.refuse(node, "functions of one row", called(node), hint)
        if isinstance(node, exp.GroupingSets | exp.Rollup | exp.Cube):
            raise self.refuse(node, "GROUP BY columns and expressions", words_of(node), NEVER["rollup"])

    def find(self, column: exp.Column, rows: Rows, at: exp.Expr | None = None) -> tuple[str, int]:
        """The column of the tree that a name means, and how many parts of the name are fields."""
        found = rows.search(column)
        if len(found) == 1:
            return found[0]
        name = ".".join(part.name for part in column.parts)
        if found:
            hint = "write the table before it: a.x."
            if any(
                len({inside for _, inside in one.columns} & {inside for inside, _ in found}) > 1 for one in rows.visible
            ):
                hint = (
                    "two columns differ in case at most: give one another name, in the file or by AS in the subquery."
                )
            raise self.refuse(at or column, "a name that means one column", repr(name), hint)
        hint = self.near(column.name, [one for one, _ in rows.columns])
        if (called := self._called(column, rows)) is not None:
            hint = f"FROM calls the table {called}: write {called}.{column.name}."
        raise self.refuse(at or column, "a column that exists", repr(name), hint)

    def _called(self, column: exp.Column, rows: Rows) -> str | None:
        """The alias of a table in FROM, if the column has the table's own name before it."""
        if column.table.casefold() not in (name.casefold() for name in self.used):
            return None
        owners = [
            one.alias for one in rows.visible if column.name.casefold() in (name.casefold() for name, _ in one.columns)
        ]
        return owners[0] if len(owners) == 1 and owners[0] else None

    def near(self, name: str, names: Sequence[str]) -> str:
        """A hint for a name that is not there.

        The first line of a CSV file may be a record. The hint shows a name in it only if it has the letters of `name`.
        """
        names = [one for one in names if one]
        if any(table.named_by_first_line for table in self.used.values()):
            names = [one for one in names if letters_of(one) == letters_of(name)]
        listed = f"the columns are {', '.join(names[:20])}." if names else ""
        return (did_you_mean(name, names) or listed).strip()

    def fresh(self, name: str) -> str:
        """A new name for a column of the tree."""
        found, number = name, 1
        while found.casefold() in self._taken:
            number += 1
            found = f"{name}_{number}"
        self._taken.add(found.casefold())
        return found

    def counted(self, relation: Relation, node: exp.Expr) -> Relation:
        """Count a relation, and refuse it if the statement has too many."""
        self._relations += 1
        if self._relations > MOST_RELATIONS:
            hint = "each use of a WITH is one more."
            raise self.refuse(node, f"at most {MOST_RELATIONS} tables, joins and subqueries", "more", hint)
        return relation

    def only(self, node: exp.Expr, what: str, *listed: str) -> None:
        """Refuse a clause that is not listed, by its name."""
        for name, value in node.args.items():
            if name in listed or value is None or value is False or value == []:
                continue
            place = value[0] if isinstance(value, list) else value
            words = _CLAUSES.get(name, name.strip("_").replace("_", " ").upper())
            at = place if isinstance(place, exp.Expr) else node
            raise self.refuse(at, f"{what} without {words}", words, NEVER.get(name, "leave it out."))


def _column(name: str) -> exp.Expr:
    return exp.column(exp.to_identifier(name, quoted=True))


def _is_unnested(node: exp.Expr) -> TypeGuard[exp.In]:
    return isinstance(node, exp.In) and node.args.get("unnest") is not None


def in_statement(problem: InvalidParameter, text: str, places: Mapping[str, tuple[int, int]]) -> InvalidParameter:
    """Move an engine's refusal of an expression to the place of the expression in the statement."""
    if problem.inside is None:
        return problem
    whole, at, _ = problem.inside
    around = [one for one in places if any(m.start() <= at < m.end() for m in re.finditer(re.escape(one), whole))]
    return located(_of_statement(problem, whole), text, places[max(around, key=len)]) if around else problem


def _of_statement(problem: InvalidParameter, text: str) -> InvalidParameter:
    """A problem with an expression, without DuckDB's text of it: the user sees the place in the statement instead."""
    plain = problem if problem.inside is None else problem.inside[2]
    expected = plain.expected.removesuffix(f" in {text!r}")
    if expected == "one SQL expression":
        return InvalidParameter("an expression that DuckDB can read", "another", "write it another way.")
    return InvalidParameter(expected, plain.got, plain.hint or "make it shorter.")


def _culprit(problem: InvalidParameter, node: exp.Expr) -> exp.Expr:
    """The call that a problem names, or the whole expression."""
    name = re.search(r"the function (\w+)", str(problem.got))
    calls = [one for one in node.find_all(exp.Func) if name and called(one).casefold() == name[1].casefold()]
    return calls[0] if len(calls) == 1 else node
