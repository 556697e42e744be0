"""Statements as texts, many of them wrong: joins, subqueries, CTEs, unions, aggregation by the unit, IN lists.

The generator knows which columns there are and which of them should be the unit. It keeps to what is private about half of the
time in each step; elsewhere the unit gets lost, joins miss it, lists are private. All columns are whole numbers of a small
range, so that a wrong join finds partners.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import count
from random import Random
from typing import Any, Final

import pyarrow as pa
from hypothesis import strategies as st

COLUMNS: Final = {
    "events": ("user_id", "page", "likes"),
    "visits": ("user_id", "page", "minutes"),
    "orders": ("customer", "page", "price"),
    "pages": ("page", "topic"),
    "topics": ("topic", "score"),
}
UNITS: Final = {"events": "user_id", "visits": "user_id", "orders": "customer"}
OPTIONS: Final = "OPTIONS(epsilon = 1, delta = 1e-8, max_groups_contributed = {}{})"
PEOPLE: Final = (1, 2, 3)
PUBLIC: Final = {
    "pages": pa.table({"page": [1, 2, 3, 2, None], "topic": [1, 1, 2, 3, 2]}),
    "topics": pa.table({"topic": [1, 2, 2], "score": [3, None, 1]}),
}


@dataclass(frozen=True, slots=True)
class Item:
    """Something to select from: its text, its columns and the one that should say whose row it is, if any.

    compared: what WHERE says of tables with a comma between them.
    """

    text: str
    columns: tuple[str, ...]
    unit: str | None = None
    compared: str = ""

    def under(self, alias: str) -> Item:
        """The same in a FROM clause, with the alias before its names."""
        unit = None if self.unit is None else f"{alias}.{self.unit}"
        return Item(f"{self.text} AS {alias}", tuple(f"{alias}.{name}" for name in self.columns), unit)


class Author:
    """Writes one statement. right: how often of 100 a step keeps to what is private."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.numbers = count(1)
        self.shared: list[tuple[str, Item]] = []
        self.right = self.pick(50, 80, 95, 100)

    def pick(self, *choices: Any) -> Any:
        """One of them."""
        return self.random.choice(choices)

    def often(self, percent: int) -> bool:
        """True so often."""
        return self.random.randrange(100) < percent

    def keeps(self) -> bool:
        """Whether this step keeps to what is private."""
        return self.often(self.right)

    def name(self, before: str = "c") -> str:
        """A new name."""
        return f"{before}{next(self.numbers)}"

    # What FROM has

    def table(self, *, private: bool) -> Item:
        """A table, or a CTE that is written already."""
        if self.shared and self.often(30):
            name, item = self.pick(*self.shared)
            return Item(name, item.columns, item.unit)
        choices = ("events", "events", "visits", "visits", "orders") if private else ("pages", "topics")
        table = self.pick(*choices)
        return Item(table, COLUMNS[table], UNITS.get(table))

    def item(self, depth: int, *, private: bool = True) -> Item:
        """A table or a subquery in brackets."""
        if depth == 0 or self.often(40):
            return self.table(private=private)
        inner = self.query(depth - 1, private=private)
        return Item(f"({inner.text})", inner.columns, inner.unit)

    def sources(self, depth: int, *, private: bool) -> Item:
        """A FROM clause: one item or a join of two."""
        first = self.item(depth, private=private).under(self.name("t"))
        if self.often(45):
            return first
        second = self.item(max(depth - 1, 0), private=self.often(60)).under(self.name("t"))
        if self.often(25):
            first, second = second, first
        return self.joined(first, second)

    def joined(self, left: Item, right: Item) -> Item:
        """Two items beside each other."""
        word = self.pick("JOIN", "JOIN", "LEFT JOIN", "RIGHT JOIN", "CROSS JOIN", ",", "FULL JOIN")
        unit = left.unit or right.unit
        if self.keeps() and left.unit and right.unit:
            condition = f"{left.unit} = {right.unit}"
            if self.often(20):
                sides = (left.unit, right.unit) if self.often(50) else (right.unit, left.unit)
                columns = (*left.columns, *right.columns)
                return Item(f"{left.text}, {right.text}", columns, left.unit, " = ".join(sides))
            word = self.pick("JOIN", "LEFT JOIN", "RIGHT JOIN")
            unit = right.unit if word == "RIGHT JOIN" else self.pick(left.unit, left.unit, right.unit)
            if self.often(30):
                condition += f" AND {self.condition((*left.columns, *right.columns))}"
        else:
            one, other = self.pick(*left.columns), self.pick(*right.columns)
            condition = self.pick(f"{one} = {other}", f"{one} < {other}", f"{one} = {other} OR {one} = 1")
        on = "" if word in ("CROSS JOIN", ",") else f" ON {condition}"
        spaced = word if word == "," else f" {word}"
        return Item(f"{left.text}{spaced} {right.text}{on}", (*left.columns, *right.columns), unit)

    def condition(self, columns: tuple[str, ...]) -> str:
        """Something to compare."""
        one, other = self.pick(*columns), self.pick(*columns)
        simple = (f"{one} > 1", f"{one} = {other}", f"{one} IS NULL", f"{one} IN (1, 2)", f"NOT {one} = 2")
        if self.often(70):
            return str(self.pick(*simple, f"COALESCE({one}, {other}) <= 2"))
        if self.keeps():
            negated = self.pick("", "", "NOT ")
            return f"{one} {negated}IN (SELECT {self.pick('page', 'topic')} FROM pages)"
        table = self.pick("events", "visits", "orders")
        column = self.pick(*COLUMNS[table])
        inner = f"SELECT {column} FROM {table}"
        return str(
            self.pick(
                f"{one} IN ({inner})",
                f"{one} NOT IN ({inner} WHERE {column} > 1)",
                f"EXISTS ({inner} WHERE {table}.{column} = {one})",
                f"{one} > (SELECT MIN({column}) FROM {table})",
            )
        )

    def where(self, source: Item) -> str:
        """A WHERE clause, or none."""
        parts = [source.compared] if source.compared else []
        if source.unit is not None and self.often(10):
            listed = self.pick("SELECT user_id FROM visits", "SELECT user_id FROM events WHERE likes > 1")
            parts.append(f"{source.unit} {self.pick('IN', 'NOT IN')} ({listed})")
        if self.often(35):
            joint = self.pick(" AND ", " OR ")
            parts.append(f"({joint.join(self.condition(source.columns) for _ in range(self.pick(1, 1, 2)))})")
        self.random.shuffle(parts)
        return f" WHERE {' AND '.join(parts)}" if parts else ""

    # Queries

    def query(self, depth: int, *, private: bool) -> Item:
        """A SELECT, or a set operation."""
        if self.often(20):
            return self.combined(depth, private=private)
        form = self.pick("plain", "plain", "grouped", "distinct")
        source = self.sources(depth, private=private)
        where = self.where(source)
        if form == "grouped":
            return self.grouped(source, where)
        listed, unit = self.unit_first(source)
        for _ in range(self.pick(1, 2, 2)):
            column = self.pick(*source.columns)
            listed[self.name()] = self.pick(column, column, f"{column} + 1", f"MOD({column}, 2)")
        word = "SELECT DISTINCT" if form == "distinct" else "SELECT"
        text = f"{word} {_listed(listed)} FROM {source.text}{where}"
        if self.right < 100 and self.often(4):
            text += " LIMIT 2"
        return Item(text, tuple(listed), unit)

    def unit_first(self, source: Item) -> tuple[dict[str, str], str | None]:
        """The unit under its own or another name; or something else in its place."""
        if source.unit is None:
            return {}, None
        name = self.pick("user_id", "user_id", self.name("u"))
        if self.keeps():
            return {name: source.unit}, name
        other = self.pick(*source.columns)
        wrong = self.pick(
            other, f"{source.unit} + 1", f"COALESCE({source.unit}, {other})", "1", f"MOD({source.unit}, 2)"
        )
        return ({}, None) if self.often(30) else ({name: wrong}, name)

    def grouped(self, source: Item, where: str) -> Item:
        """GROUP BY, mostly with the unit."""
        listed, unit = self.unit_first(source)
        if self.often(50):
            listed[self.name()] = self.pick(*source.columns)
        keys = list(listed.values())
        column = self.pick(*source.columns)
        function = self.pick(
            "COUNT(*)", f"SUM({column})", f"MAX({column})", f"MIN({column})", f"COUNT(DISTINCT {column})"
        )
        listed[self.name()] = function
        having = f" HAVING {function} > 1" if self.often(15) else ""
        if not self.keeps() and len(keys) > 1:
            keys = keys[1:]
            listed = {name: text for name, text in listed.items() if name != unit or text in keys}
        by = f" GROUP BY {', '.join(dict.fromkeys(keys))}" if keys else ""
        return Item(f"SELECT {_listed(listed)} FROM {source.text}{where}{by}{having}", tuple(listed), unit)

    def combined(self, depth: int, *, private: bool) -> Item:
        """Two SELECTs of the same columns, mostly with the unit in the same place."""
        word = self.pick("UNION ALL", "UNION ALL", "UNION DISTINCT", "INTERSECT DISTINCT", "EXCEPT DISTINCT")
        names = (self.pick("user_id", "person"), self.name(), self.name())[: self.pick(2, 3)]
        sides, unit = [], None
        for side in range(2):
            item = self.item(max(depth - 1, 0), private=private if self.keeps() else not private).under(self.name("s"))
            columns = [self.pick(*item.columns) for _ in names]
            if item.unit is not None and self.keeps():
                columns[0], unit = item.unit, names[0]
            else:
                columns[self.random.randrange(len(names))] = item.unit or columns[0]
            listed = ", ".join(f"{one} AS {name}" for one, name in zip(columns, names, strict=True))
            sides.append(f"SELECT {listed if side == 0 else ', '.join(columns)} FROM {item.text}{self.where(item)}")
        return Item(f"{sides[0]} {word} {sides[1]}", names, unit)

    # The statement

    def statement(self) -> str:
        """With the clause, perhaps CTEs before it, a key and some aggregates."""
        ctes = []
        for _ in range(self.pick(0, 0, 1, 2)):
            inner, name = self.query(1, private=self.often(80)), self.name("w")
            ctes.append(f"{name} AS ({inner.text})")
            self.shared.append((name, inner))
        source = self.sources(2, private=True)
        where, strategy = self.where(source), ""
        others = [name for name in source.columns if name != source.unit] or list(source.columns)
        keys = [self.pick(*others) for _ in range(self.pick(1, 1, 2))]
        if self.often(8):
            first, second = (
                self.table(private=True).under("e"),
                Item("(SELECT DISTINCT page FROM pages) AS p", ("p.page",)),
            )
            on = f"{self.pick(*first.columns)} = p.page"
            source = Item(
                f"{first.text} {self.pick('RIGHT JOIN', 'RIGHT JOIN', 'JOIN')} {second.text} ON {on}", first.columns
            )
            keys, strategy, where = ["p.page"], ", group_selection_strategy = PUBLIC_GROUPS", ""
        named = [self.pick(key, key, f"MOD({key}, 3)") if not strategy else key for key in dict.fromkeys(keys)]
        value = self.pick(*source.columns)
        aggregates = self.pick(
            ("COUNT(*, contribution_bounds_per_group => (0, 2)) AS n",),
            (f"SUM({value}, contribution_bounds_per_group => (-1, 3)) AS s",),
            (
                f"AVG({value}, contribution_bounds_per_group => (0, 3)) AS m",
                "COUNT(*, contribution_bounds_per_group => (0, 1)) AS n",
            ),
            (f"COUNT(DISTINCT {value}, contribution_bounds_per_group => (0, 2)) AS d",),
            (),
        )
        listed = [f"{key} AS k{place}" for place, key in enumerate(named)]
        options = OPTIONS.format(self.pick(1, 1, 2), strategy)
        before = f"WITH {', '.join(ctes)} " if ctes else ""
        by = ", ".join(f"k{place}" for place in range(len(named)))
        return (
            f"{before}SELECT WITH DIFFERENTIAL_PRIVACY {options} {', '.join([*listed, *aggregates])}"
            f" FROM {source.text}{where} GROUP BY {by}"
        )


def _listed(columns: dict[str, str]) -> str:
    return ", ".join(f"{text} AS {name}" for name, text in columns.items()) or "1 AS one"


def statements() -> st.SearchStrategy[str]:
    """Texts. Their parts are drawn evenly, from a seed: hypothesis would prefer the first of each choice."""
    return st.integers(0, 2**64 - 1).map(lambda seed: Author(seed).statement())


def schemas() -> dict[str, pa.Table]:
    """The tables, the private ones without rows."""
    empty = {name: pa.schema([(column, pa.int64()) for column in COLUMNS[name]]).empty_table() for name in UNITS}
    return {**empty, **PUBLIC}


@st.composite
def tables(draw: st.DrawFn) -> dict[str, pa.Table]:
    """Private tables of few rows and small numbers: nulls, the same row twice, rows of nobody."""
    found = dict(PUBLIC)
    for name, unit in UNITS.items():
        value, whose = st.sampled_from((1, 2, 3, None)), st.sampled_from((*PEOPLE, *PEOPLE, None))
        row = st.tuples(*(whose if column == unit else value for column in COLUMNS[name]))
        rows = draw(st.lists(row, min_size=2, max_size=7))
        rows += rows[:1] if draw(st.booleans()) else []
        arrays = [pa.array(column, pa.int64()) for column in zip(*rows, strict=True)]
        found[name] = pa.table(arrays, names=list(COLUMNS[name]))
    return found
