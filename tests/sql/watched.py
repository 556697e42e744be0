"""Every text that DuckDB gets to run in a block, and what it may be: one statement, tables of ours, files of the tables.

DuckDB's own parser says what a text is, so that a text with two readings cannot hide.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final
from unittest import mock

import duckdb

_CREATES: Final = re.compile(
    r"CREATE (?:OR REPLACE )?TEMP (?:TABLE|VIEW|MACRO) (\"(?:[^\"]|\"\")*\"|\w+)\s+AS\s+", re.S
)
_FUNCTIONS: Final = {"read_parquet", "duckdb_optimizers", "duckdb_functions", "range", "unnest"}
_PASSED_ON: Final = {
    "register",
    "unregister",
    "interrupt",
    "close",
    "cursor",
    "description",
    "fetchall",
    "begin",
    "commit",
}
_connect = duckdb.connect
_parser = duckdb.connect(":memory:")


class NotOurs(BaseException):
    """A text that must not run. The engine replaces other errors, which may quote a record, by its own."""


@dataclass
class Watch:
    """What was run, and what it may name."""

    files: frozenset[str] = frozenset()
    texts: list[str] = field(default_factory=list)
    names: set[str] = field(default_factory=set)

    def see(self, text: Any) -> None:
        """Refuse a text that is not what it should be, before it runs."""
        try:
            self._see(text)
        except (AssertionError, ValueError, duckdb.Error) as problem:
            raise NotOurs(str(problem)) from problem

    def _see(self, text: Any) -> None:
        assert isinstance(text, str), "a statement that was parsed elsewhere"
        self.texts.append(text)
        (statement,) = duckdb.extract_statements(text)
        kind = str(statement.type).rpartition(".")[2]
        assert kind in ("SELECT", "CREATE", "SET", "VARIABLE_SET", "DROP", "EXPLAIN", "RELATION"), (kind, text)
        if created := _CREATES.match(text):
            self.names.add(created[1].strip('"').replace('""', '"').casefold())
            text = text[created.end() :]
        text = text.removeprefix("DESCRIBE ")
        if text.startswith(("SELECT", "WITH", "FROM", "(")):
            self._see_tree(tree_of(text), text)

    def _see_tree(self, tree: Any, text: str) -> None:
        nodes = list(nodes_of(tree))
        known = {str(one["key"]).casefold() for node in nodes for one in (node.get("cte_map") or {}).get("map", ())}
        for node in nodes:
            if node.get("type") == "BASE_TABLE":
                assert node["table_name"].casefold() in known | self.names, (node["table_name"], text)
                assert (node["schema_name"], node["catalog_name"]) == ("", ""), text
            if node.get("type") == "TABLE_FUNCTION":
                call = node["function"]
                assert call["function_name"].lower() in _FUNCTIONS, (call["function_name"], text)
                if call["function_name"].lower() == "read_parquet":
                    assert constants(call) <= self.files | {"true", "false"}, text


def tree_of(text: str) -> Any:
    """The syntax tree of one SELECT, as DuckDB reads it."""
    found = json.loads(_parser.execute("SELECT json_serialize_sql(?)", [text]).fetchall()[0][0])
    assert not found["error"], (found, text)
    (statement,) = found["statements"]
    return statement


def nodes_of(tree: Any) -> Iterator[dict[str, Any]]:
    """All parts of a tree."""
    if isinstance(tree, dict):
        yield tree
        tree = list(tree.values())
    if isinstance(tree, list):
        for child in tree:
            yield from nodes_of(child)


def constants(tree: Any) -> set[str]:
    """The texts in a tree."""
    found = set()
    for node in nodes_of(tree):
        if node.get("class") == "CONSTANT":
            literal = node.get("literal") or {}
            value = literal.get("text", (node.get("value") or {}).get("value"))
            if isinstance(value, str):
                found.add(value)
    return found


class _Watched:
    """A connection that shows each text to a watch first. Any other way to run something is an error of the test."""

    def __init__(self, connection: duckdb.DuckDBPyConnection, watch: Watch) -> None:
        self._connection, self._watch = connection, watch

    def execute(self, text: Any, *arguments: Any) -> Any:
        self._watch.see(text)
        return self._connection.execute(text, *arguments)

    def sql(self, text: Any) -> Any:
        self._watch.see(text)
        return self._connection.sql(text)

    def register(self, name: str, source: object) -> Any:
        self._watch.names.add(name.casefold())
        return self._connection.register(name, source)

    def cursor(self) -> Any:
        return _Watched(self._connection.cursor(), self._watch)

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    def __getattr__(self, name: str) -> Any:
        assert name in _PASSED_ON, f"DuckDB is asked by {name}, which is not watched"
        return getattr(self._connection, name)


@contextmanager
def watched(files: frozenset[str] = frozenset()) -> Iterator[Watch]:
    """Every connection that is opened in the block is watched."""
    watch = Watch(files)
    with mock.patch.object(duckdb, "connect", lambda *a, **k: _Watched(_connect(*a, **k), watch)):
        yield watch
