"""SQL expressions of one record as a typed tree, which `parser` reads and every engine writes through one visitor.

    Column  Literal                 the leaves
    Operation                       a sign or word of SQL: =, AND, IS NULL, IN, BETWEEN, COALESCE, x[1]
    Call  Cast  Case                functions, CAST and TRY_CAST, CASE

A tree holds examined functions of the record's own columns and nothing else: `parser.read_expression` is the only maker of an
`Expression`. The user's text never runs: an engine writes its own SQL from the tree.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final, Generic, TypeAlias, TypeVar

from dphist.errors import InvalidParameter

T = TypeVar("T")

Place: TypeAlias = tuple[int, int] | None
"""Where a node stands in the text: its first byte and the byte after its last. None: the parser added the node."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column of the record. Further names lead to a field in it."""

    names: tuple[str, ...]
    place: Place = field(default=None, compare=False)
    parts: tuple[Node, ...] = field(default=(), init=False)


@dataclass(frozen=True, slots=True)
class Literal:
    """A constant. kind: as DuckDB calls it, such as STRING, INTEGER, NUMERIC or NULL_LITERAL."""

    kind: str
    text: str
    place: Place = field(default=None, compare=False)
    parts: tuple[Node, ...] = field(default=(), init=False)


@dataclass(frozen=True, slots=True)
class Operation:
    """Operands under a sign or a word. kind: as DuckDB calls it, see `functions.OPERATIONS`."""

    kind: str
    parts: tuple[Node, ...]
    place: Place = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Call:
    """An examined function, by its name in lower case, and its arguments."""

    name: str
    parts: tuple[Node, ...]
    place: Place = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Cast:
    """A value as another type, or null where the cast fails. parameters: of the type; "" for a parameter that is no literal."""

    parts: tuple[Node]
    type_name: str
    parameters: tuple[str, ...] = ()
    place: Place = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Case:
    """Conditions, each before its value; the value where none is true comes last."""

    parts: tuple[Node, ...]
    place: Place = field(default=None, compare=False)

    @property
    def branches(self) -> tuple[tuple[Node, Node], ...]:
        """Conditions with their values."""
        return tuple(zip(self.parts[:-1:2], self.parts[1::2], strict=True))


Node: TypeAlias = Column | Literal | Operation | Call | Cast | Case


@dataclass(frozen=True, slots=True)
class Expression:
    """An expression that was read and checked: the text for messages and files, its tree, and the columns that it reads.

    of_user: False where a statistic wrote the expression; then no message points at a place in it.
    """

    text: str
    tree: Node = field(compare=False)
    columns: tuple[str, ...] = field(compare=False)
    of_user: bool = True


class Visitor(ABC, Generic[T]):
    """One walk over a tree, with a method for each kind of node. A refusal gets the place of the innermost node."""

    text: str

    def write(self, expression: Expression) -> T:
        """The result for a whole expression."""
        self.text = expression.text
        try:
            return self.visit(expression.tree)
        except RecursionError:
            raise too_deep(expression.text) from None

    def visit(self, node: Node) -> T:
        """The result for a node."""
        try:
            match node:
                case Column():
                    return self._column(node)
                case Literal():
                    return self._literal(node)
                case Operation():
                    return self._operation(node)
                case Call():
                    return self._call(node)
                case Cast():
                    return self._cast(node)
                case Case():
                    return self._case(node)
        except InvalidParameter as problem:
            located = at(problem, self.text, node.place)
        raise located

    def every(self, nodes: Iterable[Node]) -> list[T]:
        """The results for some nodes, in order."""
        return [self.visit(node) for node in nodes]

    @abstractmethod
    def _column(self, node: Column) -> T: ...
    @abstractmethod
    def _literal(self, node: Literal) -> T: ...
    @abstractmethod
    def _operation(self, node: Operation) -> T: ...
    @abstractmethod
    def _call(self, node: Call) -> T: ...
    @abstractmethod
    def _cast(self, node: Cast) -> T: ...
    @abstractmethod
    def _case(self, node: Case) -> T: ...


def too_deep(text: str) -> InvalidParameter:
    """The refusal of an expression that is nested too deeply."""
    return InvalidParameter("an expression that is not so deep", repr(text), "derive a column first.")


def at(problem: InvalidParameter, text: str, place: Place) -> InvalidParameter:
    """A problem that points at a place in an expression. A problem that points already stays as it is.

    The parser counts bytes; people count letters, from one, and see one line.
    """
    if problem.pointer or place is None:
        return problem
    content = text.encode()
    start, end = (len(content[:byte].decode(errors="ignore")) for byte in place)
    line_start = text.rfind("\n", 0, start) + 1
    line = text[line_start:].partition("\n")[0]
    where = "at the end" if start >= len(text) else f"at character {start + 1}"
    located = type(problem)(problem.expected, f"{problem.got} {where}", problem.hint)
    carets = max(1, min(end, line_start + len(line)) - start)
    located.inside = text, start, problem
    located.pointer = f"{line}\n{' ' * (start - line_start)}{'^' * carets}"
    return located


def at_column(problem: InvalidParameter, name: str, expressions: Iterable[Expression]) -> InvalidParameter:
    """A problem with a column that points at the first place where a user's expression names the column."""
    for one in expressions:
        for node in nodes_of(one.tree) if one.of_user else ():
            if isinstance(node, Column) and node.names[0].casefold() == name.casefold():
                return at(problem, one.text, node.place)
    return problem


def nodes_of(node: Node) -> Iterator[Node]:
    """A node and everything inside of it, as it is written from left to right."""
    yield node
    for part in node.parts:
        yield from nodes_of(part)


_NUMBER: Final = ("DOUBLE", "double")
_CASTS_OF_TEXT: Final = {
    "number": _NUMBER, "whole": _NUMBER, "date": ("DATE", "date"), "timestamp": ("TIMESTAMP", "timestamp"),
    "boolean": ("BOOLEAN", "boolean"), "text": ("VARCHAR", "text"),
}  # fmt: skip


def check_literal(size: int, longest: int) -> None:
    """Refuse a text or binary value that is longer than a step may return."""
    if size > longest:
        raise InvalidParameter(
            f"texts of at most {longest:,} bytes behind a join",
            f"one of {size:,}",
            "compute it before the join.",
        )


def hint_of_cast(text: str, families: Iterable[str], *, column: bool) -> str:
    """A hint how to cast a text to the first family that it can have; nothing if there is none.

    >>> hint_of_cast("amount", ["number"], column=True)
    'write CAST(amount AS DOUBLE), or declare the column of a CSV or JSON file: --type amount=double. '
    """
    for family in families:
        if family in _CASTS_OF_TEXT:
            kind, option = _CASTS_OF_TEXT[family]
            declared = f", or declare the column of a CSV or JSON file: --type {text}={option}" if column else ""
            return f"write CAST({text} AS {kind}){declared}. "
    return ""


LONGEST_KEY: Final = 65_536
"""Bytes of a text or binary value; a longer one becomes null."""

LONGEST_LIST: Final = 4_096
"""Elements of a list; a longer one becomes null."""
