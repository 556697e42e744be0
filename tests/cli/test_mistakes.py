"""Mistakes that new users make on the command line, and what they read: mistakes.txt, a table for people.

No traceback, code 2, one line that names what is wrong and says what to do; nothing is written and nothing is charged.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import re
import shlex
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from command_line import Done, dphist

FILE = Path(__file__).with_name("mistakes.txt")
ROWS = 600
EVENTS = pa.table(
    {
        "user": [n % 60 for n in range(ROWS)],
        "item": [f"item {n % 3}" for n in range(ROWS)],
        "country": ["de", "fr"] * (ROWS // 2),
        "likes": [n % 2 for n in range(ROWS)],
        "spent": [float(n % 90) for n in range(ROWS)],
        "day": [dt.date(2024, 1, 1 + n % 28) for n in range(ROWS)],
        "count": [1] * ROWS,
        "tags": [["a"]] * ROWS,
    }
)
CSV = "user,item,likes\n" + "".join(f"{n % 60},item {n % 3},{n % 2}\n" for n in range(60))
TEXTS = {
    "events.csv": CSV,
    "csv-in-disguise.parquet": CSV,
    "events.parq": CSV,
    "data/raw": CSV,
    "semicolons.csv": CSV.replace(",", ";"),
    "events.jsonl": '{"user": "a", "item": "b"}\n',
    "empty.csv": "",
    "empty.parquet": "",
    "empty.txt": "",
    "notes.docx": "x",
    "keys.txt": "item 0\nitem 1\n",
    "countries.csv": "country\nde\n",
    "other.json": '{"a": 1}',
}
BEFORE = (
    "plan --epsilon 1 --delta 1e-8 --max-groups 2 --save plan.json",
    "plan --epsilon 1 --delta 1e-8 --keys-only --save keys-only.json",
    "release events.parquet --unit user --by item --epsilon 1 --delta 1e-6 --max-groups 2 -o released.parquet",
    "ledger create --ledger ledger.db --dataset events --epsilon 1 --delta 1e-6 --unit user --accountant basic",
    "session start session.json --unit user --epsilon 1 --delta 1e-8 --results 5 --queries 2",
    "continual start stream --unit user --by item --rounds 4 --max-groups 1 --epsilon 1 --delta 1e-8",
)


@dataclass(frozen=True)
class Mistake:
    """One block of the table."""

    what: str
    command: str
    message: str

    @property
    def words(self) -> list[str]:
        """Those behind `dphist`."""
        return shlex.split(self.command.removeprefix("$ dphist "))


def mistakes() -> list[Mistake]:
    """All of them, in the order of the table."""
    blocks = [block.splitlines() for block in FILE.read_text().split("\n\n")]
    return [Mistake(*block) for block in blocks if len(block) == 3 and block[1].startswith("$ ")]


def prepare(folder: Path) -> None:
    """Everything that the commands name and that exists."""
    for name in ("events.parquet", "sheet.xlsx", "parquet-in-disguise.csv"):
        pq.write_table(EVENTS, folder / name)
    for name in ("data", "nothing"):
        (folder / name).mkdir()
    for name, text in TEXTS.items():
        (folder / name).write_text(text)
    for command in BEFORE:
        done = run(shlex.split(command), folder)
        assert done.returncode == 0, done.stderr


def run(words: list[str], folder: Path) -> Done:
    """In this process."""
    return dphist(*words, cwd=folder)


def message_of(done: Done, folder: Path) -> str:
    """What was read, without the place of the folder."""
    return done.stderr.replace(f"{folder.resolve()}/", "").strip().removeprefix("dphist: ")


def contents(folder: Path) -> dict[str, bytes]:
    """Every file and what is in it."""
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture(scope="module")
def folder() -> Iterator[tuple[Path, dict[str, bytes]]]:
    with tempfile.TemporaryDirectory() as name:
        prepare(Path(name))
        yield Path(name), contents(Path(name))


@pytest.fixture(autouse=True)
def plain(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("DPHIST_LEDGER", "DPHIST_DATASET"):
        monkeypatch.delenv(name, raising=False)


def test_there_are_more_than_a_hundred_and_each_is_another_one() -> None:
    found = mistakes()
    assert len(found) >= 100
    assert len({one.command for one in found}) == len({one.what for one in found}) == len(found)
    assert FILE.read_text().count("\n$ dphist ") == len(found), "a block of another form"


@pytest.mark.parametrize("part", range(8))
def test_what_a_mistake_reads(part: int, folder: tuple[Path, dict[str, bytes]]) -> None:
    place, before = folder
    for one in mistakes()[part::8]:
        done = run(one.words, place)
        assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1), (one, done)
        assert message_of(done, place) == one.message, one.what
        assert contents(place) == before, one.what


@pytest.mark.parametrize("one", mistakes(), ids=lambda one: one.what)
def test_the_message_names_what_is_wrong_and_says_what_to_do(one: Mistake) -> None:
    """Of the table, which the other test compares with the command."""
    assert re.fullmatch(r"Expected .+, got .+\..*", one.message)
    assert "Traceback" not in one.message
    assert "Error" not in one.message, "the name of an exception helps nobody"
    assert " None" not in one.message, "nor does a value of Python"
    way_out = ("Hint: ", "one of", "such as", "--engine duckdb or spark")
    assert any(words in one.message for words in way_out)
    assert any(word in one.message for word in named(one)), named(one)


def named(one: Mistake) -> set[str]:
    """The options of the command, as flags and as words, its values, and its parts; or what is missing."""
    words = [part for word in one.words for part in (word, *re.split(r"[=:,/ ()]", word)) if len(part) > 1]
    flags = [word.lstrip("-").replace("-", " ") for word in words if word.startswith("-")]
    missing = re.findall(r"(?:Expected|add) (?:a value behind )?(-{1,2}[a-z-]+|SOURCE)", one.message)
    return {*words, *flags, *missing} - {"dphist", "release", "events", "out", "of", "by"}


def write(**_: Any) -> None:
    """The table with the messages as they are now."""
    text = FILE.read_text()
    with tempfile.TemporaryDirectory() as name, contextlib.chdir(name):
        folder = Path(name)
        prepare(folder)
        for one in mistakes():
            block = f"{one.what}\n{one.command}\n"
            now = message_of(run(one.words, folder), folder)
            text = text.replace(f"{block}{one.message}\n", f"{block}{now}\n")
    FILE.write_text(text)


if __name__ == "__main__":
    write()
