"""The rules of `engines.relations.owner` without one of them, to show that the oracle would notice.

Where the rule alone would refuse a relation, whose children are proved, some column is taken as the unit instead.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Final
from unittest import mock

import pyarrow as pa
from statement_grammar import PUBLIC

from dphist.engines import relations
from dphist.engines.relations import Combine, Fold, Join, Matching, Owner, Relation, Select, Unproved

_SOUND: Final = relations.owner
_CLAUSE: Final = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 1, delta = 1e-8, max_groups_contributed = 1) "


@dataclass(frozen=True, slots=True)
class BrokenRule:
    """What is not required any more, of which relations, what these are taken for, and a statement that gets through."""

    name: str
    kind: type
    taken_for: Callable[..., Owner]
    statement: str

    def owner(self, relation: Relation) -> Owner:
        """The rules without this one."""
        for child in _children(relation):
            relations.owner(child)
        try:
            return _SOUND(relation)
        except Unproved:
            if isinstance(relation, self.kind):
                return self.taken_for(relation)
            raise

    @contextmanager
    def planted(self) -> Iterator[None]:
        """In the place of the rules, wherever they are used."""
        with ExitStack() as stack:
            for name, module in list(sys.modules.items()):
                if name.startswith("dphist.") and getattr(module, "owner", None) is _SOUND:
                    stack.enter_context(mock.patch.object(module, "owner", self.owner))
            yield


def _children(relation: Relation) -> list[Relation]:
    names = ("child", "listed", "left", "right")
    return [getattr(relation, name) for name in names if hasattr(relation, name)]


def _first_column(relation: Select) -> Owner:
    names = (*relation.computed, *relation.kept)
    return Owner(names[:1], relations.owner(relation.child).kind)


def _first_key(relation: Fold) -> Owner:
    return Owner((relation.keys or relation.names)[:1], relations.owner(relation.child).kind)


def _either(relation: Join) -> Owner:
    left, right = relations.owner(relation.left), relations.owner(relation.right)
    return right if left.public else left


def _unit_of_one_side(relation: Combine) -> Owner:
    left, right = relations.owner(relation.left), relations.owner(relation.right)
    units = [name for name, one, other in relation.columns if one in left.columns or other in right.columns]
    return Owner(tuple(units), left.kind or right.kind)


def _of_child(relation: Matching) -> Owner:
    return relations.owner(relation.child)


BROKEN: Final = (
    BrokenRule("join without the unit", Join, _either,
        _CLAUSE + "e.likes AS k, COUNT(*, contribution_bounds_per_group => (0, 9)) AS n"
        " FROM events AS e JOIN visits AS v ON e.page = v.page GROUP BY k"),
    BrokenRule("join of different units", Join, _either,
        _CLAUSE + "o.price AS k, COUNT(*, contribution_bounds_per_group => (0, 9)) AS n"
        " FROM events AS e JOIN orders AS o ON e.page = o.page GROUP BY k"),
    BrokenRule("GROUP BY without the unit", Fold, _first_key,
        _CLAUSE + "n AS k, COUNT(*, contribution_bounds_per_group => (0, 9)) AS m"
        " FROM (SELECT page, COUNT(*) AS n FROM events GROUP BY page) GROUP BY k"),
    BrokenRule("the unit not selected", Select, _first_column,
        _CLAUSE + "likes AS k, COUNT(*, contribution_bounds_per_group => (0, 9)) AS n"
        " FROM (SELECT page AS user_id, likes FROM events) GROUP BY k"),
    BrokenRule("the unit computed", Select, _first_column,
        _CLAUSE + "likes AS k, COUNT(*, contribution_bounds_per_group => (0, 9)) AS n"
        " FROM (SELECT MOD(user_id, 2) AS user_id, likes FROM events) GROUP BY k"),
    BrokenRule("the unit in another place of a union", Combine, _unit_of_one_side,
        _CLAUSE + "c AS k, COUNT(*, contribution_bounds_per_group => (0, 9)) AS n"
        " FROM (SELECT user_id AS a, page AS b, likes AS c FROM events"
        " UNION ALL SELECT page, user_id, minutes FROM visits) GROUP BY k"),
    BrokenRule("a public side of a union", Combine, _unit_of_one_side,
        _CLAUSE + "b AS k, COUNT(*, contribution_bounds_per_group => (0, 9)) AS n"
        " FROM (SELECT user_id AS a, page AS b FROM events UNION ALL SELECT page, topic FROM pages) GROUP BY k"),
    BrokenRule("different units in a union", Combine, _unit_of_one_side,
        _CLAUSE + "b AS k, COUNT(*, contribution_bounds_per_group => (0, 9)) AS n"
        " FROM (SELECT user_id AS a, page AS b FROM events UNION ALL SELECT customer, page FROM orders) GROUP BY k"),
    BrokenRule("a private list of IN", Matching, _of_child,
        _CLAUSE + "likes AS k, COUNT(*, contribution_bounds_per_group => (0, 9)) AS n"
        " FROM events WHERE page IN (SELECT user_id FROM visits) GROUP BY k"),
)  # fmt: skip

ROWS: Final[dict[str, list[tuple[int | None, ...]]]] = {
    "events": [(1, 1, 1), (1, 2, 3), (2, 1, 2), (2, 3, 1), (3, 2, 3), (3, 1, 2), (None, 1, 1)],
    "visits": [(1, 1, 2), (2, 2, 1), (3, 1, 3), (1, 3, 1), (2, 1, 1), (None, 2, 2)],
    "orders": [(1, 2, 1), (2, 3, 2), (3, 1, 3), (2, 1, 1)],
}


def witnesses(columns: dict[str, tuple[str, ...]]) -> dict[str, pa.Table]:
    """Tables on which each of the statements shows what is wrong with it."""
    made = {
        name: pa.table([pa.array(column, pa.int64()) for column in zip(*rows, strict=True)], list(columns[name]))
        for name, rows in ROWS.items()
    }
    return {**made, **PUBLIC}
