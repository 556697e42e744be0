"""Statements that are private, and the tree of relations that proves it: accepted.txt, a table for people.

`python tests/sql/test_accepted.py` writes the trees anew.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from small_tables import connect, plans_made_once
from test_refused import Refusal, refusals, written

from dphist.engines.relations import Combine, Filter, Fold, Join, Matching, Relation, Scan, Select, Values, owner

FILE = Path(__file__).with_name("accepted.txt")


def drawn(relation: Relation, depth: int = 0) -> list[str]:
    """A tree, line by line, with whose rows each relation has."""
    children: tuple[Relation, ...] = ()
    match relation:
        case Scan():
            words = f"scan {relation.table}"
        case Values():
            words = "values"
        case Select(child=child):
            computed = [one.text for one in relation.computed.values()]
            words, children = f"select {', '.join([*relation.kept, *computed])}", (child,)
        case Filter(child=child):
            words, children = f"filter {relation.condition.text}", (child,)
        case Join():
            pairs = " and ".join(f"{one} = {other}" for one, other in relation.pairs)
            words, children = f"{relation.kind} join {pairs}".rstrip(), (relation.left, relation.right)
        case Matching():
            words = f"{relation.column} {'not in' if relation.negated else 'in'}"
            children = (relation.child, relation.listed)
        case Combine():
            words, children = relation.kind, (relation.left, relation.right)
        case Fold(child=child):
            named = [f"{one.function}({one.column or '*'})" for one in relation.aggregates.values()]
            words, children = f"group by {', '.join(relation.keys)}: {', '.join(named)}".rstrip(": "), (child,)
    found = owner(relation)
    whose = "public" if found.public else f"of {' = '.join(found.columns)}"
    return [f"| {'  ' * depth}{words}  [{whose}]", *(line for one in children for line in drawn(one, depth + 1))]


def trees(connection: Any, text: str) -> str:
    """Those of all private SELECTs, one below the other."""
    script = connection.prepare(text)
    privates = [one for statement in script.statements for one in statement.privates]
    return "\n".join(line for one in privates for line in drawn(one.relation))


def test_there_are_some_of_each_kind() -> None:
    found = refusals(FILE)
    assert len(found) >= 35
    assert len({one.what for one in found}) == len({one.statement for one in found}) == len(found)
    assert written(found, FILE) == FILE.read_text(encoding="utf-8"), "a block of another form"


@pytest.mark.parametrize("one", refusals(FILE) if FILE.exists() else [], ids=lambda one: one.what)
def test_each_is_accepted_with_its_tree(one: Refusal, connection: Any) -> None:
    assert trees(connection, one.text) == one.message


@pytest.fixture(scope="module")
def connection() -> Iterator[Any]:
    with plans_made_once():
        yield connect()


def record() -> None:
    """The table with the trees as they are now."""
    connection = connect()
    blocks = [replace(one, message=trees(connection, one.text)) for one in refusals(FILE)]
    FILE.write_text(written(blocks, FILE), encoding="utf-8")


if __name__ == "__main__":
    record()
