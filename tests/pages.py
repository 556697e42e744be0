"""README and docs as they are written: their blocks of code, the commands in these, and the words between backticks."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", ROOT / "SECURITY.md", *sorted((ROOT / "docs").rglob("*.md"))]
NOT_RUN = re.compile(r"# not run: (\w.{8,})")
"""A comment that readers see too. What it marks is still parsed: its options and its syntax must be right."""

_FENCE = re.compile(r"^```(\w*)\n(.*?)^```", re.DOTALL | re.MULTILINE)
_COMMANDS = ("dphist", "export", "make", "pip", "python")


@dataclass(frozen=True)
class Block:
    """What stands between two fences."""

    line: int
    language: str
    text: str

    @property
    def reason(self) -> str:
        """Why it is not run; nothing if it is."""
        marker = NOT_RUN.search(self.text)
        return marker[1] if marker else ""


@dataclass(frozen=True)
class Command:
    """One call, with the output that the page shows for it."""

    line: int
    words: tuple[str, ...]
    shown: tuple[str, ...] = ()
    reason: str = ""


def name_of(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def blocks(text: str) -> list[Block]:
    return [Block(text.count("\n", 0, one.start()) + 2, one[1], one[2]) for one in _FENCE.finditer(text)]


def prose(text: str) -> str:
    """The page without its blocks."""
    return _FENCE.sub("", text)


def code_spans(text: str) -> list[str]:
    """What stands between backticks, in one line each."""
    return [" ".join(span.split()) for span in re.findall(r"(?<!`)`([^`]+)`(?!`)", prose(text))]


def links(text: str) -> list[str]:
    return re.findall(r"\]\(([^)\s]+)\)", prose(text))


def commands(block: Block) -> list[Command]:
    """The calls of a block: lines behind `$ `, with their output, or all lines of a script."""
    if block.language not in ("", "sh", "console"):
        return []
    lines = list(_logical_lines(block))
    if any(text.startswith("$ ") for _, text in lines):
        return _dialogue(block, lines)
    if not any(text.split(" ", 1)[0] in _COMMANDS for _, text in lines):
        return []  # a drawing, or an output alone
    return [Command(number, words, (), block.reason) for number, text in lines if (words := _words(text))]


def _dialogue(block: Block, lines: list[tuple[int, str]]) -> list[Command]:
    found: list[Command] = []
    for number, text in lines:
        if text.startswith("$ "):
            found.append(Command(number, _words(text[2:]), (), block.reason))
        elif found and text.strip():
            last = found.pop()
            found.append(Command(last.line, last.words, (*last.shown, text), last.reason))
    return found


def _logical_lines(block: Block) -> Iterator[tuple[int, str]]:
    """Lines with those that a backslash continues; the others as they stand."""
    begun, start = "", 0
    for number, line in enumerate(block.text.splitlines(), block.line):
        start = start if begun else number
        if line.endswith("\\"):
            begun += line[:-1] + " "
            continue
        yield start, begun + line
        begun = ""


def _words(text: str) -> tuple[str, ...]:
    """As a shell reads them, without the comment."""
    return tuple(shlex.split(text, comments=True))
