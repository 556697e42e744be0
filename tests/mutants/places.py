"""Places in the code of the package: calls and names with the statement they stand in, so that a mutant can be made of each."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import accumulate

from mutants import SOURCES, Mutant


@dataclass(frozen=True, eq=False)
class Module:
    """A file of the package; it is parsed when it is first asked for what is in it."""

    file: str
    text: str

    @cached_property
    def tree(self) -> ast.Module:
        """What is in it."""
        return ast.parse(self.text)

    @cached_property
    def parents(self) -> dict[ast.AST, ast.AST]:
        """Every node but the module itself, with what it stands in."""
        return {child: node for node in ast.walk(self.tree) for child in ast.iter_child_nodes(node)}

    @cached_property
    def lines(self) -> tuple[tuple[int, bytes], ...]:
        """Every line as bytes, and where it begins in the text."""
        lines = self.text.splitlines(keepends=True)
        starts = accumulate((len(line) for line in lines), initial=0)
        return tuple((start, line.encode()) for start, line in zip(starts, lines, strict=False))

    def around(self, node: ast.AST) -> Iterator[ast.AST]:
        """The nodes that a node stands in, from the inside out."""
        while (parent := self.parents.get(node)) is not None:
            yield parent
            node = parent

    def function(self, node: ast.AST) -> str:
        """The names of the classes and functions that a node stands in, from the outside in."""
        names = [a.name for a in self.around(node) if isinstance(a, ast.ClassDef | ast.FunctionDef)]
        return ".".join(reversed(names)) or "module"

    def span(self, node: ast.AST) -> tuple[int, int]:
        """Where a node begins and ends in the text."""
        assert isinstance(node, ast.expr | ast.stmt)
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        ends = (node.lineno, node.col_offset), (node.end_lineno, node.end_col_offset)
        begin, end = (self.lines[line - 1][0] + len(self.lines[line - 1][1][:at].decode()) for line, at in ends)
        return begin, end  # in letters: columns are counted in bytes of UTF-8

    def of(self, node: ast.AST) -> str:
        """The text of a node."""
        begin, end = self.span(node)
        return self.text[begin:end]

    def exchanged(self, node: ast.AST, new: str) -> tuple[str, str]:
        """The lines of a node before and after it is exchanged; more of them where they stand in the file twice."""
        begin, end = self.span(node)
        first, last = self.text.rfind("\n", 0, begin) + 1, self.text.find("\n", end)
        while self.text.count(self.text[first:last]) > 1:
            first, last = self.text.rfind("\n", 0, first - 1) + 1, self.text.find("\n", last + 1)
        return self.text[first:last], self.text[first:begin] + new + self.text[end:last]

    def mutant(self, name: str, node: ast.AST, new: str, breaks: str, tests: tuple[str, ...]) -> Mutant:
        """The mutant that has something else in the place of a node."""
        return Mutant(name, self.file, *self.exchanged(node, new), breaks, tests)


@cache
def modules() -> tuple[Module, ...]:
    """Every file of the package."""
    paths = sorted(SOURCES.rglob("*.py"))
    return tuple(Module(path.relative_to(SOURCES).as_posix(), path.read_text(encoding="utf-8")) for path in paths)


def numbered(module: Module, nodes: list[ast.AST], name: Callable[[ast.AST], str]) -> dict[str, ast.AST]:
    """Nodes by file, function and name; those that share all three are numbered in the order of the text."""
    found: dict[str, list[ast.AST]] = {}
    for node in sorted(nodes, key=module.span):
        found.setdefault(f"{module.file}::{module.function(node)}::{name(node)}", []).append(node)
    return {
        key if len(same) == 1 else f"{key}-{i}": node for key, same in found.items() for i, node in enumerate(same, 1)
    }
