"""The pages for newcomers name what is there: paths, packages, layers."""

from __future__ import annotations

import re
from pathlib import Path

import architecture
import pytest

ROOT = Path(__file__).parents[1]
SOURCES = ROOT / "src" / "dphist"
ARCHITECTURE = ROOT / "docs" / "architecture.md"
PAGES = (ARCHITECTURE, ROOT / "CONTRIBUTING.md")
FILE = re.compile(r"[\w.-]+\.(py|md|svg|toml|txt)")
EXAMPLES = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)


def paths_in(text: str) -> set[str]:
    """What looks like a path: in links, and among the words between backticks."""
    prose = EXAMPLES.sub("", text)
    words = {word for quoted in re.findall(r"`([^`]+)`", prose) for word in quoted.split()}
    links = set(re.findall(r"\]\(([^)#:]+)\)", prose))
    return links | {word for word in words if re.fullmatch(r"[\w.-]+(/[\w.-]+)*/?", word) and is_path(word)}


def is_path(word: str) -> bool:
    return "/" in word or FILE.fullmatch(word) is not None


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_path_exists(page: Path) -> None:
    paths = paths_in(page.read_text(encoding="utf-8"))
    assert len(paths) > 10
    assert not [
        path for path in sorted(paths) if not any((place / path).exists() for place in (ROOT, SOURCES, page.parent))
    ]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_package_is_named(page: Path) -> None:
    packages = {folder.parent.name for folder in SOURCES.glob("*/__init__.py")}
    text = page.read_text(encoding="utf-8")
    assert len(packages) > 10
    assert not [name for name in sorted(packages) if f"`{name}/`" not in text and f"`{name}`" not in text]


def test_the_table_of_rooms_is_that_of_the_tree() -> None:
    """Written anew by `python docs/code/architecture.py`."""
    assert architecture.part(ARCHITECTURE.read_text(encoding="utf-8"), "rooms") == architecture.rooms()


def test_what_a_row_names_is_in_a_file_that_it_names() -> None:
    """Functions, classes and constants of "Where do I change"."""
    rows = architecture.changes(ARCHITECTURE.read_text(encoding="utf-8"))
    assert len(rows) > 30
    for request, where in rows.items():
        files = [
            file
            for place in architecture.places(where)
            for file in ([place] if place.is_file() else place.rglob("*.*"))
        ]
        texts = [file.read_text(encoding="utf-8") for file in files if file.suffix in (".md", ".py", ".toml", ".yml")]
        names = [name for name in re.findall(r"`@?([\w.]+)`", where) if FILE.fullmatch(name) is None]
        parts = [part for name in names for part in name.split(".")]
        assert files, request
        assert not [part for part in parts if not any(re.search(rf"\b{part}\b", text) for text in texts)], request
    assert set(architecture.KINDS) <= rows.keys()


def test_a_wrong_path_would_be_found() -> None:
    assert paths_in("`run/job.py`, `make test`, [x](pictures/a.svg), `words.py`") == {
        "run/job.py", "pictures/a.svg", "words.py",
    }  # fmt: skip


def test_the_tests_that_hold_what_hard_use_found_are_there() -> None:
    """Every row names some; of the third look, every one of its twenty points has a row."""
    page = (ROOT / "docs" / "hard-use.md").read_text(encoding="utf-8")
    for title, least in (("A week of fault injection", 36), ("A third hard look", 70)):
        section = page.partition(f"\n## {title}\n")[2].partition("\n## ")[0]
        rows = [line.strip("|").split("|") for line in section.splitlines() if line.startswith("|")][2:]
        assert all(len(row) == 2 for row in rows), title
        assert all(("::test_" in tests) != what.strip().startswith("**") for what, tests in rows), title
        assert sum("::test_" in tests for _, tests in rows) >= least, title
        for _, cell in rows:
            for file in filter(None, map(str.strip, cell.split(";"))):
                path, _, tests = file.partition("::")
                written = (ROOT / "tests" / path).read_text(encoding="utf-8")
                for test in tests.split(", "):
                    assert f"def {test}(" in written, f"{path}::{test}"
        heads = [what.strip().startswith("**") for what, _ in rows]
        assert heads[0]
        assert not any(map(all, zip(heads, [*heads[1:], True], strict=True))), f"{title}: a point without a row"
    assert re.findall(r"^\| \*\*(\d+)\. ", page, re.MULTILINE) == [str(point) for point in range(1, 21)]
