"""Rows that are derived from several tables before anything is counted: a tree of relations, and the rules for each.

    Scan   Values     the leaves: a table of the caller's, or constants
    Select Filter     work on one row at a time
    Join   Matching   rows of two relations beside each other; rows that have, or lack, a partner
    Combine           UNION, INTERSECT, EXCEPT
    Fold              GROUP BY, or DISTINCT

A tree is data: names and checked expressions, no SQL of a user. `owner` decides whether rows of a tree belong to units; engines
write a tree in their own SQL (`write`, with a `Writer` each).

The columns of a relation have names that differ in more than case. Expressions over these names are read and checked as
everywhere (`parser`): functions of one row, from the list of examined ones.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeAlias

from dphist.engines.expressions import Expression
from dphist.errors import InvalidParameter

Place: TypeAlias = tuple[int, int] | None
"""A place in a user's text: its first character and the one after its last."""

JoinKind = Literal["inner", "left"]
Combination = Literal["union all", "union", "intersect", "except"]
FoldFunction = Literal["count", "count distinct", "sum", "avg", "min", "max"]


@dataclass(frozen=True, slots=True)
class Scan:
    """The rows of a table. columns: names in this tree, each with its column. unit: whose row it is; None: public.

    The unit is one of `columns`, or an expression over the table's own columns under a name of this tree.
    """

    table: str
    columns: Mapping[str, str]
    unit: str | None = None
    unit_expression: str | None = None
    unit_kind: str = ""
    place: Place = None

    @property
    def names(self) -> tuple[str, ...]:
        """The columns."""
        derived = () if self.unit_expression is None or self.unit is None else (self.unit,)
        return (*self.columns, *derived)


@dataclass(frozen=True, slots=True)
class Values:
    """Constants that the statement lists: literals in SQL, row by row. Public."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    place: Place = None

    @property
    def names(self) -> tuple[str, ...]:
        """The columns."""
        return self.columns


@dataclass(frozen=True, slots=True)
class Select:
    """Columns computed from one row each: an expression, or just a name in `kept`."""

    child: Relation
    kept: Mapping[str, str]
    computed: Mapping[str, Expression] = field(default_factory=dict)
    place: Place = None

    @property
    def names(self) -> tuple[str, ...]:
        """The columns."""
        return (*self.kept, *self.computed)


@dataclass(frozen=True, slots=True)
class Filter:
    """The rows for which a condition is true."""

    child: Relation
    condition: Expression
    place: Place = None

    @property
    def names(self) -> tuple[str, ...]:
        """The columns of the child."""
        return self.child.names


@dataclass(frozen=True, slots=True)
class Join:
    """Every row of the left beside every row of the right that is equal in all `pairs`, or beside every row if there
    are none.

    In a left join a row without a partner stays, with nulls beside it.
    """

    left: Relation
    right: Relation
    kind: JoinKind
    pairs: tuple[tuple[str, str], ...]
    place: Place = None

    @property
    def names(self) -> tuple[str, ...]:
        """The columns of both sides, which differ."""
        return (*self.left.names, *self.right.names)


@dataclass(frozen=True, slots=True)
class Matching:
    """SQL's IN or NOT IN: the rows of the child whose `column` is among the values of the only column of `listed`, or is not.

    A private list holds units. Its rows without a unit do not count.
    """

    child: Relation
    listed: Relation
    column: str
    negated: bool = False
    place: Place = None

    @property
    def names(self) -> tuple[str, ...]:
        """The columns of the child."""
        return self.child.names


@dataclass(frozen=True, slots=True)
class Combine:
    """Two relations, one below the other. columns: each with its name here, on the left and on the right."""

    left: Relation
    right: Relation
    kind: Combination
    columns: tuple[tuple[str, str, str], ...]
    place: Place = None

    @property
    def names(self) -> tuple[str, ...]:
        """The columns."""
        return tuple(name for name, _, _ in self.columns)


@dataclass(frozen=True, slots=True)
class Folded:
    """A function of the values of a column in one group, or of rows if there is no column."""

    function: FoldFunction
    column: str | None = None


@dataclass(frozen=True, slots=True)
class Fold:
    """One row per group of equal keys; without aggregates it is DISTINCT."""

    child: Relation
    keys: tuple[str, ...]
    aggregates: Mapping[str, Folded] = field(default_factory=dict)
    place: Place = None

    @property
    def names(self) -> tuple[str, ...]:
        """Keys, then aggregates."""
        return (*self.keys, *self.aggregates)


Relation: TypeAlias = Scan | Values | Select | Filter | Join | Matching | Combine | Fold


@dataclass(frozen=True, slots=True)
class Owner:
    """Whose rows they are. columns: each holds the unit of its row; without any, rows are public. kind: the word for a unit."""

    columns: tuple[str, ...] = ()
    kind: str = ""

    @property
    def public(self) -> bool:
        """Whether the rows are nobody's."""
        return not self.columns


PUBLIC: Final = Owner()


class Unproved(InvalidParameter):
    """Rows without a proof that each belongs to one unit and follows from that unit's rows. `place` says where."""

    place: Place = None


def owner(relation: Relation) -> Owner:
    """The rules: each row of a private relation belongs to one unit, and follows from that unit's rows and public tables alone.

    By induction over the tree. For every u that is not null, the rows whose unit is u are a function of the rows of u in the
    tables; a row without a unit is dropped at the end and has joined no other row on the way. Rows of one unit may be
    many: bounds on what a unit contributes are enforced where rows are counted, not here.

    Raises:
        Unproved: anything else, with the place in the statement.
    """
    match relation:
        case Scan():
            # The user declares whose row it is. An expression sees this row alone.
            return PUBLIC if relation.unit is None else Owner((relation.unit,), relation.unit_kind)
        case Values():
            return PUBLIC
        case Filter():
            # A row stays or goes by itself.
            return owner(relation.child)
        case Select():
            return _owner_of_select(relation)
        case Join():
            return _owner_of_join(relation)
        case Matching():
            return _owner_of_matching(relation)
        case Combine():
            return _owner_of_combination(relation)
        case Fold():
            # A group within the rows of one unit is a function of these rows.
            found = owner(relation.child)
            units = tuple(name for name in relation.keys if name in found.columns)
            if not found.public and not units:
                raise _unproved(
                    relation,
                    f"{found.kind} among the GROUP BY columns of a subquery",
                    "rows of several units in one",
                    f"add {found.kind} to SELECT and GROUP BY, or aggregate in SELECT WITH DIFFERENTIAL_PRIVACY.",
                )
            return Owner(units, found.kind)


def _owner_of_select(relation: Select) -> Owner:
    """The unit is carried unchanged; a computed one could name somebody else."""
    found = owner(relation.child)
    names = tuple(name for name, source in relation.kept.items() if source in found.columns)
    if not names and not found.public:
        raise _unproved(
            relation,
            f"{found.kind} among the columns of a subquery, unchanged",
            "none",
            f"add {found.kind} to its SELECT: it says whose row it is.",
        )
    return Owner(names, found.kind)


def _owner_of_join(relation: Join) -> Owner:
    """A private row stands beside a public row, or beside a row of the same unit."""
    left, right = owner(relation.left), owner(relation.right)
    if right.public:
        # A private row stands beside public rows. A left join adds nulls where no public row matches.
        return left
    if left.public:
        if relation.kind == "left":
            raise _unproved(
                relation,
                "the private table on the side that an outer join keeps",
                "a public one, whose rows would show whether anybody matches them",
                "write the private table first, or use JOIN; for a public list of groups see group_selection_strategy.",
            )
        return right
    if left.kind.casefold() != right.kind.casefold():
        raise _different_units(relation, left, right, "join")
    if not any(one in left.columns and other in right.columns for one, other in relation.pairs):
        raise _unproved(
            relation,
            f"{left.kind} = {right.kind} in the condition of a join of two private tables",
            "rows of different units beside each other",
            f"write ON a.{left.kind} = b.{right.kind} AND ..., or USING ({left.kind}).",
        )
    # Beside a row that has no partner, the right's unit is null.
    return left if relation.kind == "left" else Owner((*left.columns, *right.columns), left.kind)


def _owner_of_matching(relation: Matching) -> Owner:
    """A row stays by its own values and a public list, or by the rows of its own unit in a private list."""
    child, listed = owner(relation.child), owner(relation.listed)
    if listed.public:
        return child
    same = child.kind.casefold() == listed.kind.casefold()
    if same and relation.column in child.columns and set(relation.listed.names) <= set(listed.columns):
        return child
    raise private_list(relation.place)


def _owner_of_combination(relation: Combine) -> Owner:
    """Equal rows have equal units, so UNION, INTERSECT and EXCEPT compare rows of one unit only."""
    left, right = owner(relation.left), owner(relation.right)
    if left.public and right.public:
        return PUBLIC
    if left.public or right.public:
        raise _unproved(
            relation,
            "tables of the same unit on both sides of a set operation",
            "a private table and a public one",
            "the rows of the public one belong to nobody; join it instead.",
        )
    if left.kind.casefold() != right.kind.casefold():
        raise _different_units(relation, left, right, "set operation")
    units = tuple(name for name, one, other in relation.columns if one in left.columns and other in right.columns)
    if units:
        return Owner(units, left.kind)
    raise _unproved(
        relation,
        f"{left.kind} in the same place on both sides of a set operation",
        "another column",
        "list the columns in the same order on both sides.",
    )


def _different_units(relation: Join | Combine, left: Owner, right: Owner, where: str) -> Unproved:
    return _unproved(
        relation,
        f"tables of one unit in a {where}",
        f"{left.kind} and {right.kind}",
        "a row can belong to one unit only; if both name the same, declare both under one name: --unit TABLE=NAME=COLUMN.",
    )


def private_list(place: Place) -> Unproved:
    """The refusal of IN with a private list."""
    problem = Unproved(
        "IN (SELECT ...) from a public table, or the unit IN (SELECT the same unit ...)",
        "another private list",
        "whether a row stays would depend on other people's rows; compare the unit, or join the tables on it.",
    )
    problem.place = place
    return problem


def _unproved(relation: Relation, expected: str, got: str, hint: str) -> Unproved:
    problem = Unproved(expected, got, hint)
    problem.place = relation.place
    return problem


@dataclass(frozen=True, slots=True, eq=False)
class Derived:
    """A source that is a tree of relations over tables, each of them a source of an engine. most_rows: see `joins`."""

    relation: Relation
    tables: Mapping[str, Any]
    most_rows: int | None = None

    def __post_init__(self) -> None:
        owner(self.relation)
