"""Statements that must be refused, and what their authors read: refused.txt, a table for people.

Each says what is wrong, shows the place by line, column and caret, and hints at the way out. Nothing is read, nothing charged.
`python tests/sql/test_refused.py` writes the messages anew.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from small_tables import connect, plans_made_once

from dphist.errors import InvalidParameter

FILE = Path(__file__).with_name("refused.txt")
LONGEST_MESSAGE = 2500
BY_TYPE = (
    "SUM of a text",
    "AVG of a date",
    "a second statement with a column of the wrong type",
)
"""Refused by the type of a column, which has no place in the statement."""


@dataclass(frozen=True)
class Refusal:
    """A block of the table. heading: under which it stands."""

    heading: str
    what: str
    statement: str
    message: str = ""

    @property
    def text(self) -> str:
        """The statement, with what the table abbreviates: <x × 3> is x x x, <\\u0000> a letter that cannot be printed."""
        return re.sub(r"⟨([^⟩]*)⟩", lambda found: _spelled(found[1]), self.statement)


def _spelled(inside: str) -> str:
    if repeated := re.fullmatch(r"(.*) × (\d+)", inside):
        return repeated[1] * int(repeated[2])
    return chr(int(inside[2:], 16)) if inside.startswith("\\u") else inside


def printable(text: str) -> str:
    """A message as the table shows it."""
    return "".join(letter if letter.isprintable() else f"⟨\\u{ord(letter):04x}⟩" for letter in text)


def refusals(path: Path = FILE) -> list[Refusal]:
    """All of them, in the order of the table."""
    found, heading = [], ""
    for block in path.read_text(encoding="utf-8").split("\n\n"):
        lines = block.strip("\n").split("\n")
        if lines[0].startswith("## "):
            heading = lines[0].removeprefix("## ")
        elif len(lines) > 1 and lines[1].startswith("> "):
            statement = [line[2:] for line in lines if line.startswith("> ")]
            message = lines[1 + len(statement) :]
            found.append(Refusal(heading, lines[0], "\n".join(statement), "\n".join(message)))
    return found


def refused(connection: Any, text: str) -> str:
    """What its author reads; nothing if the statement passes."""
    try:
        connection.prepare(text).check()
    except InvalidParameter as problem:
        pointer = [f"| {printable(line)}" for line in problem.pointer.split("\n") if problem.pointer]
        return "\n".join([printable(str(problem)), *pointer])
    return ""


def written(blocks: list[Refusal], path: Path = FILE) -> str:
    """The table as a text."""
    head = path.read_text(encoding="utf-8").partition("\n\n")[0]
    parts, heading = [head], ""
    for one in blocks:
        if one.heading != heading:
            heading = one.heading
            parts.append(f"## {heading}")
        statement = "\n".join(f"> {line}" for line in one.statement.split("\n"))
        parts.append(f"{one.what}\n{statement}\n{one.message}".rstrip("\n"))
    return "\n\n".join(parts) + "\n"


@pytest.fixture(scope="module")
def connection() -> Iterator[Any]:
    with plans_made_once():
        yield connect()


def test_there_are_more_than_three_hundred_and_each_is_another_one() -> None:
    found = refusals()
    assert len(found) >= 320
    assert len({one.what for one in found}) == len({one.statement for one in found}) == len(found)
    assert written(found) == FILE.read_text(encoding="utf-8"), "a block of another form"


@pytest.mark.parametrize("heading", sorted({one.heading for one in refusals()}))
def test_each_is_refused_with_its_message(heading: str, connection: Any) -> None:
    for one in refusals():
        if one.heading == heading:
            assert refused(connection, one.text) == one.message, one.what


@pytest.mark.parametrize("one", refusals(), ids=lambda one: one.what)
def test_the_message_says_what_is_wrong_where_and_what_to_do(one: Refusal) -> None:
    """Of the table, which the other test compares with the code."""
    message, _, pointer = one.message.partition("\n")
    assert re.fullmatch(r"Expected .+, got .+\..* Hint: .+", message), message
    assert not re.search(r"Traceback|Error\b(?!\()| None\b|sqlglot|Internal", message), message
    assert len(one.message) <= LONGEST_MESSAGE
    if "got nothing" not in message and one.what not in BY_TYPE:
        where = re.fullmatch(r"\| line (\d+), column (\d+)\n\| (.*)\n\|( *)(\^+)", pointer)
        assert where, pointer
        assert len(where[4]) - 1 + len(where[5]) <= max(len(where[3]), 1), "a caret under nothing"


def record() -> None:
    """The table with the messages as they are now; says which statements pass."""
    connection = connect()
    blocks = [replace(one, message=refused(connection, one.text)) for one in refusals()]
    FILE.write_text(written(blocks), encoding="utf-8")
    for one in blocks:
        if not one.message:
            print(f"passes: {one.what}: {one.statement}")


if __name__ == "__main__":
    record()
