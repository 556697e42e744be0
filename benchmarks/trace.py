"""How far one release travels in the package, and how large the package is: the numbers of docs/architecture.md.

    python benchmarks/trace.py

The roads are those of a release with one bound and one sum, of a release with defaults, and of one small statement. Noise is
predictable, so that two runs take the same road.
"""

from __future__ import annotations

import ast
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from types import FrameType
from typing import Any, Final

import pyarrow as pa

import dphist as dp
from dphist import mechanisms
from dphist.noise.entropy import allow_test_entropy, drawing_from
from dphist.noise.testing import SeededEntropy

PACKAGE: Final = Path(dp.__file__).parent
EVENTS: Final = pa.table(
    {
        "user": pa.array([n // 3 for n in range(3000)]),
        "item": pa.array([f"item {n * n % 11}" for n in range(3000)]),
        "likes": pa.array([n % 2 for n in range(3000)]),
    }
)

KINDS: Final = {
    "bins", "count_of", "deviation", "distinct", "filled", "mean", "present", "quantile", "rows", "square", "std", "sum",
    "variance",
}  # fmt: skip
"""Kinds of aggregates and of measures, as only `aggregates/` may compare them."""


@dataclass(frozen=True, slots=True)
class Road:
    """The calls inside the package, in order: each file, relative to the package, and function."""

    calls: tuple[tuple[Path, str], ...]

    @property
    def files(self) -> int:
        """How many files have a function that is called."""
        return len({file for file, _ in self.calls})

    @property
    def functions(self) -> int:
        """How many functions are called."""
        return len(set(self.calls))

    @property
    def changes_of_file(self) -> int:
        """How often two consecutive calls are in different files."""
        return sum(before != after for (before, _), (after, _) in pairwise(self.calls))

    def switches(self, *, inside: bool = False) -> int:
        """How often two consecutive calls are in different folders of the package. inside: without its single files."""
        rooms = [file.parts[0] for file, _ in self.calls if not inside or len(file.parts) > 1]
        return sum(before != after for before, after in pairwise(rooms))


def bounded(folder: Path, epsilon: float) -> None:
    """A count and a sum with a bound on groups, from records to a file."""
    table = dp.release(
        EVENTS, unit="user", by="item", epsilon=epsilon, delta=1e-6, max_groups=3, sums={"likes": (0, 1)}
    )
    table.write(folder / f"bounded-{epsilon}.parquet")


def default(folder: Path, epsilon: float) -> None:
    """Nothing but unit, keys and budget."""
    dp.release(EVENTS, unit="user", by="item", epsilon=epsilon + 2, delta=1e-6)


def statement(folder: Path, epsilon: float) -> None:
    """A small SELECT."""
    clause = f"OPTIONS(epsilon = {epsilon + 4}, delta = 1e-6, max_groups_contributed = 3)"
    words = f"SELECT WITH DIFFERENTIAL_PRIVACY {clause}"
    dp.connect({"events": EVENTS}, unit="user").sql(f"{words} item, COUNT(*) AS n FROM events GROUP BY item").to_arrow()


def road(travel: Callable[[Path, float], None]) -> Road:
    """The calls of a second run: a first one with another budget loads every module and leaves no calibration behind.

    Comprehensions and lambdas are parts of the function that they stand in. Each road has budgets of its own.
    """
    calls: list[tuple[Path, str]] = []

    def note(frame: FrameType, event: str, _: Any) -> None:
        file = Path(frame.f_code.co_filename)
        if event == "call" and file.is_relative_to(PACKAGE):
            calls.append((file.relative_to(PACKAGE), frame.f_code.co_qualname.partition(".<locals>.<")[0]))

    with tempfile.TemporaryDirectory() as folder, allow_test_entropy(), drawing_from(SeededEntropy(1)):
        travel(Path(folder), 2)
        sys.setprofile(note)
        try:
            travel(Path(folder), 1)
        finally:
            sys.setprofile(None)
    return Road(tuple(calls))


@dataclass(frozen=True, slots=True)
class Module:
    """A file of the package, relative to it, with its text as a tree."""

    file: Path
    text: str
    tree: ast.Module

    @property
    def lines(self) -> int:
        """All of them."""
        return self.text.count("\n")

    @property
    def code_lines(self) -> int:
        """Without docstrings, comments and blank lines."""
        docs = {
            line
            for node in ast.walk(self.tree)
            if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
            for line in range(node.lineno, (node.end_lineno or node.lineno) + 1)
        }
        rows = enumerate(self.text.splitlines(), 1)
        return sum(bool(row.strip()) and not row.strip().startswith("#") and at not in docs for at, row in rows)

    @property
    def compares_kinds(self) -> bool:
        """Whether something that is called a kind is compared with the name of one, in an expression or a `match`."""
        return any(map(_compares_a_kind, ast.walk(self.tree)))

    def tells_mechanisms_apart(self, names: set[str]) -> int:
        """How often `isinstance` or a pattern of `match` names a class of a mechanism."""
        return sum(bool(names & set(_classes_asked_for(node))) for node in ast.walk(self.tree))


def _compares_a_kind(node: ast.AST) -> bool:
    if isinstance(node, ast.Match):
        words = {part.value for case in node.cases for part in ast.walk(case.pattern) if isinstance(part, ast.Constant)}
        return _is_kind(node.subject) and bool(KINDS & words)
    if not isinstance(node, ast.Compare):
        return False
    sides = [node.left, *node.comparators]
    words = {part.value for side in sides for part in ast.walk(side) if isinstance(part, ast.Constant)}
    return any(map(_is_kind, sides)) and bool(KINDS & words)


def _is_kind(node: ast.expr) -> bool:
    name = node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""
    return name == "kind"


def _classes_asked_for(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("isinstance", "issubclass"):
        asked: list[ast.expr] = [node.args[1]]
    elif isinstance(node, ast.MatchClass):
        asked = [node.cls]
    else:
        return
    for part in (part for one in asked for part in ast.walk(one)):
        yield part.attr if isinstance(part, ast.Attribute) else part.id if isinstance(part, ast.Name) else ""


def modules() -> list[Module]:
    """Every file of the package."""
    texts = {path: path.read_text(encoding="utf-8") for path in sorted(PACKAGE.rglob("*.py"))}
    return [Module(path.relative_to(PACKAGE), text, ast.parse(text)) for path, text in texts.items()]


def size() -> dict[str, int]:
    """The numbers of the package itself."""
    found = modules()
    names = {name for name in mechanisms.__all__ if isinstance(getattr(mechanisms, name), type)} - {"Kept"}
    functions = [
        (node.end_lineno or node.lineno) - node.lineno + 1
        for module in found
        for node in ast.walk(module.tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]
    outside = {room: [one for one in found if one.file.parts[0] != room] for room in ("aggregates", "mechanisms")}
    return {
        "files": len(found),
        "lines": sum(one.lines for one in found),
        "lines of code, without docstrings, comments and blank lines": sum(one.code_lines for one in found),
        "functions": len(functions),
        "functions of five lines or fewer": sum(lines <= 5 for lines in functions),
        "files outside `aggregates/` that compare the name of a kind": sum(
            one.compares_kinds for one in outside["aggregates"]
        ),
        "`isinstance` on mechanisms outside `mechanisms/`": sum(
            one.tells_mechanisms_apart(names) for one in outside["mechanisms"]
        ),
    }


def travelled() -> dict[str, int]:
    """The numbers of the roads."""
    found: dict[str, int] = {}
    for name, travel in (("bounded release", bounded), ("default release", default), ("SQL statement", statement)):
        one = road(travel)
        found[f"{name}: files crossed"] = one.files
        found[f"{name}: functions called"] = one.functions
        found[f"{name}: changes of file"] = one.changes_of_file
        if travel is bounded:
            found[f"{name}: switches of package"] = one.switches()
            found[f"{name}: switches without single files"] = one.switches(inside=True)
    return found


def main() -> None:
    """Print the numbers."""
    for name, number in {**size(), **travelled()}.items():
        print(f"{number:>8,}  {name}")


if __name__ == "__main__":
    main()
