"""Relations in a few lines of Python, obviously right and slow; random trees of them; and rows as an engine derives them."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import pyarrow as pa
from engine_oracle import Engine, canonical
from hypothesis import reject
from hypothesis import strategies as st

from dphist.engines.parser import read_expression
from dphist.engines.query import GroupByQuery, Key
from dphist.engines.relations import (
    Combine,
    Derived,
    Filter,
    Fold,
    Folded,
    Join,
    Matching,
    Relation,
    Scan,
    Select,
    Values,
    owner,
)

Row = dict[str, Any]
Expression = tuple[str, Callable[[Row], Any]]
"""A text, and what it means."""

MOST_ROWS = 1_500
LARGEST = math.nextafter(2.0**155, 0.0)
NAMES = [
    "a",
    'a"b',
    "x; DROP TABLE y",
    "step_1",
    "unit",
    "key_1",
    "SELECT",
    "two\nlines",
    "b",
    "a`b",
    "relation_1",
    "Ä--",
]
VALUES: dict[str, list[Any]] = {
    "text": [None, "", "a", "A", "1", "01", "'; --", "ä"],
    "number": [None, 0.0, -0.0, 1.0, 1.5, float("nan"), float("inf"), float("-inf"), 1e300, 0.1, -1e300],
    "whole": [None, 0, 1, 2, -3, 2**53, 2**53 + 1, 2**63 - 1, -(2**63)],
}
TYPES = {"text": pa.string(), "number": pa.float64(), "whole": pa.int64()}


@dataclass
class Tree:
    """A relation with the kinds of its columns, and what the expressions in it mean, by their texts.

    A whole number of one side of a set operation that is a double on the other has `float` under the name of the column.
    """

    relation: Relation
    kinds: dict[str, str]
    units: tuple[str, ...] = ()
    meanings: dict[str, Callable[[Any], Any]] = field(default_factory=dict)


def evaluate(relation: Relation, tables: Mapping[str, Sequence[Row]], tree: Tree) -> list[Row]:
    """All rows of a relation, as SQL has it."""
    rows = list(_rows(relation, tables, tree))
    if len(rows) > MOST_ROWS:
        reject()
    return rows


def _rows(relation: Relation, tables: Mapping[str, Sequence[Row]], tree: Tree) -> list[Row]:
    match relation:
        case Scan():
            return [
                {name: canonical(row[own]) for name, own in relation.columns.items()} for row in tables[relation.table]
            ]
        case Values():
            return [dict(zip(relation.columns, map(_literal, row), strict=True)) for row in relation.rows]
        case Select():
            return [
                {name: row[own] for name, own in relation.kept.items()}
                | {name: canonical(tree.meanings[one.text](row)) for name, one in relation.computed.items()}
                for row in evaluate(relation.child, tables, tree)
            ]
        case Filter():
            keep = tree.meanings[relation.condition.text]
            return [row for row in evaluate(relation.child, tables, tree) if keep(row) is True]
        case Join():
            left, right = evaluate(relation.left, tables, tree), evaluate(relation.right, tables, tree)
            if len(left) * len(right) > 20 * MOST_ROWS:
                reject()
            nothing = dict.fromkeys(relation.right.names)
            joined = []
            for one in left:
                partners = [b for b in right if all(_equal(one[x], b[y]) for x, y in relation.pairs)]
                joined += [one | other for other in partners or ([nothing] if relation.kind == "left" else [])]
            return joined
        case Matching():
            listed = [row[relation.listed.names[0]] for row in evaluate(relation.listed, tables, tree)]
            if not owner(relation.listed).public:
                listed = [unit for unit in listed if unit is not None]
            found = [(row, _in(row[relation.column], listed)) for row in evaluate(relation.child, tables, tree)]
            return [row for row, isin in found if isin is (not relation.negated)]
        case Combine():
            return _combined(relation, tables, tree)
        case Fold():
            groups: dict[tuple[Any, ...], list[Row]] = {} if relation.keys else {(): []}
            for row in evaluate(relation.child, tables, tree):
                groups.setdefault(tuple(row[name] for name in relation.keys), []).append(row)
            return [
                dict(zip(relation.keys, key, strict=True))
                | {name: _folded(folded, rows) for name, folded in relation.aggregates.items()}
                for key, rows in groups.items()
            ]


def _literal(text: str) -> Any:
    return None if text == "NULL" else text[1:-1] if text.startswith("'") else float(text) if "." in text else int(text)


def _equal(one: Any, other: Any) -> bool:
    if one is None or other is None:
        return False
    return float(one) == float(other) if isinstance(one, float) or isinstance(other, float) else bool(one == other)


def _in(value: Any, listed: Sequence[Any]) -> bool | None:
    if any(_equal(value, other) for other in listed):
        return True
    return None if listed and (value is None or None in listed) else False


def _combined(relation: Combine, tables: Mapping[str, Sequence[Row]], tree: Tree) -> list[Row]:
    sides = []
    for side, place in ((relation.left, 1), (relation.right, 2)):
        found = evaluate(side, tables, tree)
        sides.append([tuple(row[column[place]] for column in relation.columns) for row in found])
    floats = [tree.meanings.get(name) is float for name in relation.names]
    left, right = (
        [tuple(float(v) if f and v is not None else v for v, f in zip(row, floats, strict=True)) for row in side]
        for side in sides
    )
    match relation.kind:
        case "union all":
            rows = left + right
        case "union":
            rows = list(dict.fromkeys(left + right))
        case "intersect":
            rows = [row for row in dict.fromkeys(left) if row in set(right)]
        case "except":
            rows = [row for row in dict.fromkeys(left) if row not in set(right)]
    return [dict(zip(relation.names, row, strict=True)) for row in rows]


def _folded(folded: Folded, rows: Sequence[Row]) -> Any:
    if folded.column is None:
        return len(rows)
    values = [row[folded.column] for row in rows if row[folded.column] is not None]
    if folded.function == "count":
        return len(values)
    if folded.function == "count distinct":
        return len(set(values))
    if not values:
        return None
    if folded.function in ("min", "max"):
        return min(values, key=_order) if folded.function == "min" else max(values, key=_order)
    if isinstance(values[0], int):
        total: Any = sum(values)
        if folded.function == "sum":
            return total if -(2**63) <= total < 2**63 else None
        total = float(total)
    else:
        total = exact_total(values)
    return canonical(total if folded.function == "sum" else total / len(values))


def exact_total(values: Sequence[float]) -> float:
    """Whole steps of 2^-155, five times 62 bits of each value added up apart; what is larger is the largest value."""
    total = 0.0
    steps = [int(Fraction(max(-LARGEST, min(value, LARGEST))) * 2**155) for value in values]
    for place in range(5):
        parts = [(abs(one) >> 62 * place) % 2**62 * (1 if one > 0 else -1) for one in steps]
        total += float(sum(parts)) * 2.0 ** (62 * place - 155)
    return total


def _order(value: Any) -> Any:
    return value.encode() if isinstance(value, str) else value


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _expressions(name: str, kind: str) -> tuple[list[tuple[str, Callable[[Any], Any]]], list[tuple[str, Any]]]:
    """Conditions on a column, and columns computed from it: texts, and functions of a value."""

    def unless_null(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
        return lambda value: None if value is None else function(value)

    sql = quoted(name)
    conditions: list[tuple[str, Callable[[Any], Any]]] = [
        (f"{sql} IS NULL", lambda value: value is None),
        (f"{sql} IS NOT NULL", lambda value: value is not None),
    ]
    if kind == "text":
        conditions.append((f"{sql} = 'a'", unless_null(lambda value: value == "a")))
        return conditions, [(f"{sql} || 'x'", unless_null(lambda value: value + "x"))]
    conditions.append((f"{sql} > 0", unless_null(lambda value: value > 0)))
    if kind == "number":
        return conditions, [(f"{sql} * 2", unless_null(lambda value: value * 2))]

    def plus_one(value: int) -> int | None:
        return value + 1 if value < 2**63 - 1 else None

    return conditions, [(f"{sql} + 1", unless_null(plus_one))]


class _Grower:
    """Draws trees. Names are never used twice in one."""

    def __init__(self, draw: Any, unit_kind: str, tables: Mapping[str, Mapping[str, str]]) -> None:
        self._draw, self._unit_kind, self._tables, self._number = draw, unit_kind, tables, 0

    def name(self) -> str:
        self._number += 1
        name = NAMES[self._draw(st.integers(0, len(NAMES) - 1))]
        return name if self._number == 1 else f"{name}{self._number}"

    def choice(self, options: Sequence[Any]) -> Any:
        return options[self._draw(st.integers(0, len(options) - 1))]

    def scan(self, table: str) -> Tree:
        columns = {self.name(): own for own in self._tables[table]}
        kinds = {name: self._tables[table][own] for name, own in columns.items()}
        unit = next((name for name, own in columns.items() if own == "user"), None)
        scan = Scan(table, columns, unit, unit_kind="user" if unit is not None else "")
        return Tree(scan, kinds, () if unit is None else (unit,))

    def public(self, depth: int) -> Tree:
        if depth == 0 and self._draw(st.booleans()):
            kind, name = self.choice(["text", "whole"]), self.name()
            texts = ["'a'", "'1'", "NULL", "'01'"] if kind == "text" else ["1", "NULL", "2", "-3"]
            rows = tuple((text,) for text in self._draw(st.lists(st.sampled_from(texts), min_size=1, max_size=3)))
            if all(row == ("NULL",) for row in rows):
                kind = "text"
            return Tree(Values((name,), rows), {name: kind})
        tree = self.scan("urls")
        return tree if depth == 0 else self.unary(tree)

    def private(self, depth: int) -> Tree:
        if depth == 0:
            return self.scan(self.choice(["events", "clicks"]))
        match self.choice(["unary", "unary", "public", "private", "combine", "match"]):
            case "unary":
                return self.unary(self.private(depth - 1))
            case "public":
                left, right = self.private(depth - 1), self.public(self.choice([0, 1]))
                kind = self.choice(["inner", "left"])
                if kind == "inner" and self._draw(st.booleans()):
                    left, right = right, left
                pairs = self.pairs(left, right)
                return self.joined(left, right, kind, pairs, left.units or right.units)
            case "private":
                left, right = self.private(depth - 1), self.private(0)
                pairs = ((self.choice(left.units), self.choice(right.units)), *self.pairs(left, right))
                kind = self.choice(["inner", "left"])
                return self.joined(left, right, kind, pairs, left.units + (right.units if kind == "inner" else ()))
            case "match":
                of_units = self._draw(st.booleans())
                child, listed = self.private(depth - 1), self.private(0) if of_units else self.public(0)
                column = self.choice(list(child.units if of_units else child.kinds))
                fitting = [name for name, kind in listed.kinds.items() if _fit(kind, child.kinds[column])]
                if not fitting:
                    return child
                only = self.choice(list(listed.units) if of_units else fitting)
                one = Select(listed.relation, {only: only})
                matching = Matching(child.relation, one, column, self._draw(st.booleans()))
                return Tree(matching, child.kinds, child.units, child.meanings | listed.meanings)
            case _:
                return self.combined(self.private(depth - 1), self.private(0))

    def pairs(self, left: Tree, right: Tree) -> tuple[tuple[str, str], ...]:
        fitting = [(a, b) for a, kind in left.kinds.items() for b, other in right.kinds.items() if _fit(kind, other)]
        fitting = [pair for pair in fitting if not (pair[0] in left.units and pair[1] in right.units)]
        return (self.choice(fitting),) if fitting and self._draw(st.booleans()) else ()

    def joined(self, left: Tree, right: Tree, kind: Any, pairs: Any, units: tuple[str, ...]) -> Tree:
        join = Join(left.relation, right.relation, kind, pairs)
        return Tree(join, left.kinds | right.kinds, units, left.meanings | right.meanings)

    def combined(self, left: Tree, right: Tree) -> Tree:
        columns, kinds, mixed = [], {}, dict[str, Any]()
        units = (self.choice(left.units), self.choice(right.units))
        pairs = [units] + [
            (a, b) for a, kind in left.kinds.items() for b, other in right.kinds.items() if _fit(kind, other)
        ]
        chosen = [pairs[0], *self._draw(st.lists(st.sampled_from(pairs), max_size=2))]
        chosen = [pair for pair in chosen if pair == units or not (pair[0] in left.units and pair[1] in right.units)]
        for one, other in dict.fromkeys(chosen):
            name = self.name()
            columns.append((name, one, other))
            kinds[name] = left.kinds[one]
            if left.kinds[one] != right.kinds[other]:
                kinds[name], mixed[name] = "number", float
        kind = self.choice(["union all", "union", "intersect", "except"])
        combine = Combine(left.relation, right.relation, kind, tuple(columns))
        return Tree(combine, kinds, (columns[0][0],), left.meanings | right.meanings | mixed)

    def unary(self, child: Tree) -> Tree:
        match self.choice(["filter", "select", "fold", "distinct"]):
            case "filter":
                name = self.choice(list(child.kinds))
                text, meaning = self.choice(_expressions(name, child.kinds[name])[0])
                meanings = child.meanings | {text: lambda row: meaning(row[name])}
                return Tree(Filter(child.relation, read_expression(text)), child.kinds, child.units, meanings)
            case "select":
                return self.selected(child)
            case "distinct":
                keys = self.keys(child)
                kinds = {name: child.kinds[name] for name in keys}
                return Tree(Fold(child.relation, keys), kinds, _kept(child.units, keys), child.meanings)
            case _:
                keys, kinds, aggregates = self.keys(child), {}, {}
                for _ in range(self.choice([1, 2])):
                    name, column = self.name(), self.choice([None, *child.kinds])
                    kind = "" if column is None else child.kinds[column]
                    functions = ["count"] if column is None else ["count", "count distinct", "min", "max"]
                    function = self.choice(functions + (["sum", "avg"] if kind in ("number", "whole") else []))
                    aggregates[name] = Folded(function, column)
                    kinds[name] = "whole" if "count" in function else "number" if function == "avg" else kind
                kinds = {name: child.kinds[name] for name in keys} | kinds
                return Tree(Fold(child.relation, keys, aggregates), kinds, _kept(child.units, keys), child.meanings)

    def keys(self, child: Tree) -> tuple[str, ...]:
        others = [name for name in child.kinds if name not in child.units[:1]]
        chosen = self._draw(st.lists(st.sampled_from(others), unique=True, max_size=2)) if others else []
        return (*child.units[:1], *chosen) or tuple(list(child.kinds)[:1])

    def selected(self, child: Tree) -> Tree:
        kept = {self.name(): own for own in self.keys(child)}
        name, own = self.name(), self.choice(list(child.kinds))
        text, meaning = self.choice(_expressions(own, child.kinds[own])[1])
        meanings = child.meanings | {text: lambda row: meaning(row[own])}
        kinds = {new: child.kinds[old] for new, old in kept.items()} | {name: child.kinds[own]}
        units = tuple(new for new, old in kept.items() if old in child.units)
        return Tree(Select(child.relation, kept, {name: read_expression(text)}), kinds, units, meanings)


def _fit(one: str, other: str) -> bool:
    return one == other or {one, other} <= {"number", "whole"}


def _kept(units: Sequence[str], keys: Sequence[str]) -> tuple[str, ...]:
    return tuple(name for name in keys if name in units)


@st.composite
def cases(draw: Any, depth: int = 3) -> tuple[Tree, dict[str, list[Row]], dict[str, dict[str, str]]]:
    """A private tree, its tables, and the kinds of their columns."""
    unit_kind = draw(st.sampled_from(["text", "whole"]))
    private = {"user": unit_kind, 'te"xt': "text", "num": "number", "SELECT": "whole"}
    kinds = {
        "events": private,
        "clicks": dict(reversed(private.items())),
        "urls": {"t": "text", "n": "number", "w": "whole"},
    }
    tables = {}
    for table, columns in kinds.items():
        fields = {name: st.sampled_from(VALUES[kind]) for name, kind in columns.items()}
        if "user" in fields:
            fields["user"] = st.sampled_from(
                [None, "1", "01", "a"] if unit_kind == "text" else [None, 1, 2**53, 2**53 + 1]
            )
        tables[table] = draw(st.lists(st.fixed_dictionaries(fields), max_size=5))
        tables[table] += tables[table][: draw(st.integers(0, 1))]  # a row that comes twice
    tree = _Grower(draw, unit_kind, kinds).private(draw(st.integers(1, depth)))
    return tree, tables, kinds


def arrow(rows: Sequence[Row], kinds: Mapping[str, str]) -> pa.Table:
    return pa.Table.from_pylist(list(rows), pa.schema([(name, TYPES[kind]) for name, kind in kinds.items()]))


def derived(tree: Tree, tables: Mapping[str, Sequence[Row]], kinds: Mapping[str, Mapping[str, str]]) -> Derived:
    return Derived(tree.relation, {name: arrow(rows, kinds[name]) for name, rows in tables.items()})


def engine_rows(engine: Engine, source: Derived, unit: str) -> Counter[tuple[str, ...]]:
    """The rows that an engine derives, before anything is counted: each value to the last bit."""
    names = source.relation.names
    query = GroupByQuery(unit, tuple(map(Key, names)))
    with engine.open(source, query, seed=0) as opened:
        records: Any = opened
        if hasattr(records, "connection"):
            table = records.connection.sql("SELECT * FROM source").to_arrow_table()
        else:
            order = [f"column_{place}" for place in _places(query)]
            table = records.spark.table(records.fields.source).select(order).toArrow().rename_columns(list(names))
            rows = [{name: canonical(value) for name, value in row.items()} for row in table.to_pylist()]
            return Counter(shown(row, names) for row in rows)  # a zero may have a sign until it is a key
        return Counter(shown(row, names) for row in table.select(list(names)).to_pylist())


def _places(query: GroupByQuery) -> list[int]:
    """Where Spark's view has the keys: names are numbered in the order in which a query has them."""
    order = list(dict.fromkeys([str(query.unit), *(key.name for key in query.by)]))
    return [order.index(key.name) for key in query.by]


def shown(row: Row, names: Sequence[str]) -> tuple[str, ...]:
    return tuple(repr(row[name]) for name in names)
