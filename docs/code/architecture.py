"""The tables of docs/architecture.md that are made from the tree: rooms and numbers. `python docs/code/architecture.py`

With `history` it prints, for every row of "Where do I change" that says which commits are of its kind, how many of them edit
a file that the row names: a row that the history contradicts names the wrong file.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
SOURCES: Final = ROOT / "src" / "dphist"
PAGE: Final = ROOT / "docs" / "architecture.md"
sys.path.insert(0, str(ROOT / "benchmarks"))

BEFORE: Final = {
    "files": 253,
    "lines": 49_766,
    "lines of code, without docstrings, comments and blank lines": 33_715,
    "functions": 3560,
    "functions of five lines or fewer": 1717,
    "files outside `aggregates/` that compare the name of a kind": 16,
    "`isinstance` on mechanisms outside `mechanisms/`": 4,
    "bounded release: files crossed": 65,
    "bounded release: functions called": 470,
    "bounded release: changes of file": 1383,
    "bounded release: switches of package": 660,
    "bounded release: switches without single files": 241,
    "default release: files crossed": 67,
    "default release: functions called": 454,
    "default release: changes of file": 1209,
    "SQL statement: files crossed": 78,
    "SQL statement: functions called": 565,
    "SQL statement: changes of file": 1692,
}
"""Of the package before its rooms were rebuilt, commit `cf964e9`."""

AIMS: Final = {
    "files": 130, "lines": 36_000, "lines of code, without docstrings, comments and blank lines": 22_000,
    "files outside `aggregates/` that compare the name of a kind": 0,
    "`isinstance` on mechanisms outside `mechanisms/`": 0,
    "bounded release: files crossed": 40, "bounded release: switches of package": 250,
}  # fmt: skip

KINDS: Final = {
    "a new mechanism": r"\bmechanism",
    "a new engine": r"\bengines?\b",
    "a new command": r"\bcommands?\b",
    "a new option": r"\boptions?\b|\bflags?\b|--\w",
    "which rows of a statement are proved private": r"\bjoins?\b|\brelations?\b|\bunions?\b",
    "a theorem": r"\btheorems?\b|\blemmas?\b|\bproofs?\b|\bprove",
    "a ledger column": r"\bledgers?\b",
    "a page of the documentation": r"\bdocument|\bpages?\b",
    "a planted bug": r"\bmutants?\b|\bbugs?\b",
    "an input format": r"\bCSV\b|\bJSON\b|\bParquet\b",
}
"""Words of the subjects of commits that make a change of this kind, by the request in the table."""


def layers() -> list[list[str]]:
    """The rooms of each layer, from the top, as import-linter checks them."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"][
        "contracts"
    ]
    (found,) = (contract["layers"] for contract in contracts if contract["type"] == "layers")
    return [[name.strip().removeprefix("dphist.") for name in layer.split("|")] for layer in found]


def about(room: str) -> str:
    """The first paragraph of a room's docstring, as a cell of a table."""
    path = SOURCES / room / "__init__.py"
    text = (path if path.exists() else SOURCES / f"{room}.py").read_text(encoding="utf-8")
    words = (ast.get_docstring(ast.parse(text)) or "").split("\n\n")[0].replace("\n", " ")
    return words.removesuffix(".").replace("|", "/")


def rooms() -> str:
    """The table of rooms."""
    rows = [f"| {number} | `{room}` | {about(room)} |" for number, layer in enumerate(layers(), 1) for room in layer]
    return "\n".join(["| layer | room | what it does |", "| --- | --- | --- |", *rows])


def measured() -> dict[str, int]:
    """The numbers of benchmarks/trace.py, which has the name of a module of Python."""
    from importlib import util

    spec = util.spec_from_file_location("trace_of_dphist", ROOT / "benchmarks" / "trace.py")
    assert spec is not None
    assert spec.loader is not None
    module = util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return {**module.size(), **module.travelled()}


def numbers() -> str:
    """The table of numbers."""
    rows = [
        f"| {name} | {BEFORE[name]:,} | {number:,} | {format(AIMS[name], ',') if name in AIMS else ''} |"
        for name, number in measured().items()
    ]
    return "\n".join(["| | before | now | aim |", "| --- | --- | --- | --- |", *rows])


def replaced(page: str, name: str, table: str) -> str:
    """A page with the part between two marks replaced."""
    begin, end = f"<!-- {name}: begin -->\n", f"<!-- {name}: end -->"
    before, _, rest = page.partition(begin)
    _, found, after = rest.partition(end)
    if not found:
        raise SystemExit(f"{PAGE.name} has no part between {begin.strip()} and {end}")
    return f"{before}{begin}{table}\n{end}{after}"


def part(page: str, name: str) -> str:
    """What stands between two marks of a page."""
    return page.partition(f"<!-- {name}: begin -->\n")[2].partition(f"\n<!-- {name}: end -->")[0]


def changes(page: str) -> dict[str, str]:
    """The rows of "Where do I change": the request, and where."""
    section = page.partition("\n## Where do I change")[2].partition("\n## ")[0]
    rows = [line.strip("| ").split(" | ", 1) for line in section.splitlines() if line.startswith("| ")]
    return dict(rows[2:])


def places(where: str) -> list[Path]:
    """The files and folders that a row names."""
    words = [word for quoted in re.findall(r"`([^`]+)`", where) for word in quoted.split()]
    paths = [word for word in words if re.fullmatch(r"[\w.-]+(/[\w.-]+)*/?", word) and ("/" in word or "." in word)]
    found = [next((root / path for root in (SOURCES, ROOT) if (root / path).exists()), None) for path in paths]
    return [place for place in found if place is not None]


def history() -> Iterator[tuple[str, int, int]]:
    """Of the last 20 commits of each kind: how many edit a file that the row names, under the name it had then."""
    command = ["git", "-C", str(ROOT), "log", "-M40", "--name-status", "--format=%x01%s", "HEAD"]
    log = subprocess.run(command, capture_output=True, text=True, check=True).stdout  # noqa: S603
    today: dict[str, str] = {}  # from the name of a file then
    commits: list[tuple[str, set[str]]] = []
    for commit in log.split("\x01")[1:]:
        subject, _, changed = commit.partition("\n")
        files = set()
        for line in filter(None, changed.splitlines()):
            status, *paths = line.split("\t")
            name = today.get(paths[-1], paths[-1])
            files.add(name)
            if status.startswith("R"):
                today[paths[0]] = name
        commits.append((subject, files))
    rows = changes(PAGE.read_text(encoding="utf-8"))
    for request, words in KINDS.items():
        named = [place.relative_to(ROOT).as_posix() for place in places(rows[request])]
        last = [files for subject, files in commits if re.search(words, subject, re.IGNORECASE)][:20]
        hits = sum(
            any(file == name or file.startswith(f"{name}/") for file in files for name in named) for files in last
        )
        yield request, hits, len(last)


def main(asked: list[str]) -> None:
    """Write the tables, or print the history."""
    if asked == ["history"]:
        for request, hits, number in history():
            print(f"{hits:>3} of {number:>2}  {request}")
        return
    page = PAGE.read_text(encoding="utf-8")
    for name, table in (("rooms", rooms()), ("numbers", numbers())):
        page = replaced(page, name, table)
    PAGE.write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
