"""What names mean: the columns that an expression may name. Also small questions about sqlglot's trees."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from sqlglot import exp

from dphist.columns import quoted
from dphist.engines.relations import Relation
from dphist.sql.parse import called


@dataclass(frozen=True, slots=True)
class Visible:
    """Columns under one name of FROM: what a statement calls each, and its name in the tree.

    merged: columns that USING has merged into those of another; only with the alias before it they are found.
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
        """The same rows with all columns under one name."""
        return Rows(self.relation, (Visible(alias, tuple(self.columns)),))

    def search(self, column: exp.Column) -> list[tuple[str, int]]:
        """The columns that a name may mean, each with how many of its parts are fields."""
        parts = [part.name.casefold() for part in column.parts]
        owned = [one for one in self.visible if len(parts) > 1 and one.alias.casefold() == parts[0]]
        listed = [pair for one in owned for pair in one.columns]
        found = [(inside, len(parts) - 2) for name, inside in listed if name.casefold() == parts[1]]
        if not found and not owned:
            found = [(inside, len(parts) - 1) for name, inside in self.columns if name.casefold() == parts[0]]
        if not found and len(parts) > 1:  # a name with a dot, which sqlglot takes apart whatever quotes it has
            found = [(inside, 0) for name, inside in self.columns if name.casefold() == ".".join(parts)]
            found += [(inside, 0) for name, inside in listed if name.casefold() == ".".join(parts[1:])]
        return found


Scope: TypeAlias = Mapping[str, "Definition"]


@dataclass(frozen=True, slots=True)
class Definition:
    """A query of WITH, and the queries of WITH that it can see itself."""

    query: exp.Expr
    scope: Scope


def ancestors(node: exp.Expr) -> Iterator[exp.Expr]:
    """The nodes around a node, from the inside outwards."""
    while (parent := node.parent) is not None:
        yield parent
        node = parent


def conjuncts(node: exp.Expr) -> Iterator[exp.Expr]:
    """The conditions that AND puts together."""
    while isinstance(node, exp.Paren):
        node = node.this
    if isinstance(node, exp.And):
        yield from conjuncts(node.this)
        yield from conjuncts(node.expression)
    else:
        yield node


def has_aggregate(node: Any) -> bool:
    """Whether an expression holds an aggregate outside of subqueries and windows."""
    if not isinstance(node, exp.Expr):
        return False
    if isinstance(node, exp.AggFunc):
        return True
    return not isinstance(node, exp.Query | exp.Window) and any(map(has_aggregate, node.iter_expressions()))


def plain_column(text: str, names: Sequence[str]) -> str | None:
    """The column that a text names, if the text is nothing but its quoted name."""
    return next((name for name in names if text == quoted(name)), None)


def words_of(node: exp.Expr) -> str:
    """A node in the words of somebody who writes SQL."""
    if isinstance(node, exp.Func):
        return f"the function {called(node)}"
    return {"groupingsets": "GROUPING SETS"}.get(node.key, node.key.upper())
