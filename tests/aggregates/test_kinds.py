"""What a kind of aggregate is, is known in its own file: nobody outside the room asks which one it has before it."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import dphist
from dphist import aggregates
from dphist.aggregates import KINDS
from dphist.aggregates.base import Aggregate
from dphist.aggregates.measures import Measure

SOURCES = Path(dphist.__file__).parent
ROOM = Path(aggregates.__file__).parent


def _below(kind: Any) -> set[Any]:
    subclasses: list[Any] = kind.__subclasses__()
    return {kind, *(below for one in subclasses for below in _below(one))}


ALL = _below(Aggregate) | _below(Measure)
CLASSES = {one.__name__ for one in ALL} - {"Aggregate", "Measure"}
NAMES = {one.kind for one in ALL if hasattr(one, "kind")}


def _texts(node: ast.AST) -> set[object]:
    return {one.value for one in ast.walk(node) if isinstance(one, ast.Constant)}


def _names(node: ast.AST) -> set[str]:
    return {
        one.id if isinstance(one, ast.Name) else one.attr
        for one in ast.walk(node)
        if isinstance(one, ast.Name | ast.Attribute)
    }


def _classes(node: ast.AST) -> set[str]:
    """Those of a module itself: sqlglot has a `Distinct`, too."""
    return {one.id for one in ast.walk(node) if isinstance(one, ast.Name)}


def asks(node: ast.AST) -> bool:
    """Whether it compares the name of a kind, or a class, with that of an aggregate or a measure."""
    if isinstance(node, ast.Compare):
        by_name = bool(_texts(node) & NAMES) and bool(_names(node) & {"kind", "of", "aggregate", "measure"})
        return by_name or bool(_classes(node) & CLASSES)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "isinstance":
        return bool(_classes(node.args[1]) & CLASSES)
    if isinstance(node, ast.Match):
        return "kind" in _names(node.subject) and bool(
            set().union(*(_texts(case.pattern) for case in node.cases)) & NAMES
        )
    return False


def test_nobody_outside_asks_for_a_kind() -> None:
    found = [
        f"{path.relative_to(SOURCES)}:{node.lineno}"
        for path in sorted(SOURCES.rglob("*.py"))
        if ROOM not in path.parents and "audit" not in path.parts
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.expr | ast.stmt) and asks(node)
    ]
    assert not found


def test_every_kind_is_in_the_registry_and_has_an_option_of_its_own() -> None:
    assert {one.kind for one in KINDS} == {
        one.kind for one in ALL if issubclass(one, Aggregate) and hasattr(one, "kind")
    }
    assert len({one.kind for one in KINDS}) == len({one.option for one in KINDS}) == len(KINDS)
