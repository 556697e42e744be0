"""What README and docs mention exists: commands, options, Python names, environment variables, files, links, pictures."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from options_of_commands import every_option, flags, options, split

import dphist
import pages
from dphist.demo import TABLES
from pages import PAGES, ROOT

SOURCES = ROOT / "src" / "dphist"
BENCHMARKS = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "benchmarks").glob("*.py"))
IMAGINED = {"keys.txt", "keys.csv", "keys.parquet", "public.parquet", "plan.json", "plan.png", "rounds/", "_temporary/"}
"""Files that users may have, or that dphist keeps: named to say what they are."""
DATA = re.compile(r"[\w./-]+\.(parquet|csv|json|ndjson|jsonl|html|png|db|txt)")
MOST_BYTES = 150_000
CODE = re.compile(r"(?:[\w.-]+/)*[\w.-]+\.(?:py|md|toml|svg|yml)|(?:[\w.-]+/)+")


def read(page: Path) -> str:
    return page.read_text(encoding="utf-8")


def wrong_calls(spans: list[str]) -> list[str]:
    """Calls between backticks, also shortened ones: their command and every option must exist."""
    wrong = []
    for span in spans:
        words = tuple(span.split())
        if words[0] == "dphist" and len(words) > 1:
            path, rest = split(words[1:])
            if not path and not rest[0].startswith(("-", "…", "COMMAND")):
                wrong.append(f"{span}: no such command")
            known = options(*path) or every_option()
            wrong += [f"{span}: no {flag}" for flag in flags(rest) if flag not in known]
        elif words[0].startswith("--"):
            wrong += [f"{span}: no {flag}" for flag in flags(list(words)) if not is_option(flag)]
    return wrong


def is_option(flag: str) -> bool:
    """Of a command; or of a benchmark, whose options the pages about results name."""
    return flag in every_option() or f'"{flag}"' in BENCHMARKS


def wrong_names(spans: list[str]) -> list[str]:
    """`dp.name` and `dphist.name`, with or without an attribute; and the variables of the environment."""
    sources = "".join(path.read_text(encoding="utf-8") for path in SOURCES.rglob("*.py"))
    wrong = [
        name for span in spans for name in re.findall(r"\bdp\.(\w+)", span) if name not in dphist.__all__
    ]  # fmt: skip
    return wrong + [name for span in spans for name in re.findall(r"\bDPHIST_\w+", span) if f'"{name}"' not in sources]


def wrong_files(page: Path) -> list[str]:
    """Files of the repository that are not there, and data that neither the demo nor a block of the page writes."""
    text = read(page)
    written = "".join(block.text for block in pages.blocks(text))
    wrong = []
    for span in pages.code_spans(text):
        for word in span.split():
            if word in IMAGINED or word.startswith("build/"):
                continue
            if CODE.fullmatch(word):
                wrong += [] if any((place / word).exists() for place in _places(page)) else [word]
            elif DATA.fullmatch(word) and "/" not in word:
                known = word in TABLES or word in written or _is_in_tree(word)
                wrong += [] if known else [word]
    return wrong


def _places(page: Path) -> tuple[Path, ...]:
    return ROOT, SOURCES, page.parent, ROOT / "docs", ROOT / "tests"


def _is_in_tree(name: str) -> bool:
    return any((ROOT / place / name).exists() for place in ("", "docs/pictures", "src/dphist"))


def wrong_links(page: Path) -> list[str]:
    """Links to files and headings that GitHub would not find either. Pages that the site makes are known by name."""
    wrong = []
    for link in pages.links(read(page)):
        target, _, anchor = link.partition("#")
        if ":" in target:
            continue
        path = Path(os.path.normpath(page.parent / target)) if target else page
        if path.parent == ROOT / "docs" / "reference":
            continue
        if not path.exists() or (anchor and anchor not in headings(path)):
            wrong.append(link)
    return wrong


def headings(page: Path) -> set[str]:
    """The anchors that GitHub and the site make of headings."""
    lines = re.findall(r"^#+ (.+)$", pages.prose(read(page)), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", line.lower()).replace(" ", "-") for line in lines}


@pytest.mark.parametrize("page", PAGES, ids=pages.name_of)
def test_everything_that_is_mentioned_exists(page: Path) -> None:
    spans = pages.code_spans(read(page))
    assert not wrong_calls(spans)
    assert not wrong_names(spans)
    assert not wrong_files(page)
    assert not wrong_links(page)


def test_mistakes_are_noticed(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "# A page\n`gone.parquet`, `privacy/gone.py`, `privacy/search.py`, [a](#a-page), [b](#b), [c](c.md)\n"
    )
    assert wrong_files(page) == ["gone.parquet", "privacy/gone.py"]
    assert wrong_links(page) == ["#b", "c.md"]
    assert (
        len(wrong_calls(["dphist relase", "dphist release … --unti x", "--epsilom 1", "dphist ledger show --by"])) == 4
    )
    assert not wrong_calls(["dphist release … --unit x", "--by url", "dphist ledger show"])
    assert wrong_names(["dp.relase(…)", "dp.release(…)", "DPHIST_LEGDER"]) == ["relase", "DPHIST_LEGDER"]


def test_pictures_are_small_and_have_words() -> None:
    """Screen readers read the words; a page stays light."""
    pictures = [(page, *one) for page in PAGES for one in re.findall(r"!\[([^\]]*)\]\(([^)]+)\)", read(page))]
    assert len(pictures) > 15
    assert not [(page, target) for page, words, target in pictures if len(words) < 20]
    shown = {(page.parent / target).resolve() for page, _, target in pictures}
    files = {file for folder in (ROOT / "docs").rglob("pictures") for file in folder.iterdir()}
    assert files <= shown, "shown nowhere"
    assert not [file.name for file in files if file.stat().st_size > MOST_BYTES]
