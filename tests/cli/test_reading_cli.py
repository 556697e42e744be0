"""How files are read, on the command line: the same options for every command that reads records, checked before anything."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from argument_fuzz import commands

from command_line import dphist
from dphist.engines.query import ENCODINGS as KNOWN
from dphist.planning.choices import ENCODINGS

FLAGS = {"--delimiter", "--encoding", "--type", "--null", "--no-header"}
RELEASE = ["--unit", "user_id", "--by", "url", "--epsilon", "2", "--delta", "1e-6", "--max-groups", "1"]


@pytest.fixture
def semicolons(tmp_path: Path) -> Path:
    """As a spreadsheet of Windows writes it."""
    path = tmp_path / "events.csv"
    lines = ["user_id;url;amount", *(f"{n};/café;{'n/a' if n % 3 else n}" for n in range(400))]
    path.write_bytes("\r\n".join(lines).encode("cp1252"))
    return path


def test_every_command_that_reads_records_has_them() -> None:
    reading = {
        name: {flag for one in command.params for flag in one.opts} & FLAGS
        for name, command in commands().items()
        if any(one.name == "source" for one in command.params)
    }
    assert set(reading) == {"release", "select", "stat", "bounds", "top-k", "session query", "continual add"}
    assert all(found == FLAGS for found in reading.values())
    assert tuple(KNOWN) == ENCODINGS


def test_a_release_reads_as_it_is_told(semicolons: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.parquet"
    reading = ["--delimiter", ";", "--encoding", "windows-1252", "--null", "n/a", "--type", "amount=integer"]
    done = dphist("release", str(semicolons), *reading, *RELEASE, "--where", "amount >= 0", "-o", str(out))
    assert done.returncode == 0, done.stderr
    table = pq.read_table(out)
    assert table["url"].to_pylist() == ["/café"]
    assert table["count"].to_pylist() == pytest.approx([134], abs=40)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--encoding", "latin-1"], "the header looks separated by ';'; add --delimiter ';'."),
        (["--encoding", "ebcdic"], "one of the encodings utf-8, latin-1, windows-1252, utf-16"),
        (["--delimiter", ";;"], "one ASCII character as delimiter"),
        (["--delimiter", ";", "--type", "amount"], "Expected --type column=type, got 'amount'"),
        (["--delimiter", ";", "--type", "amount=money"], "a simple type for amount, got 'money'"),
        (["--delimiter", ";", "--type", "a=text", "--type", "a=date"], "one --type for each column"),
        (["--delimiter", ";", "--type", "amuont=double"], "types for columns that exist and have none, got amuont"),
    ],
)
def test_what_is_wrong_is_said_before_anything_is_read(
    semicolons: Path, tmp_path: Path, options: list[str], words: str
) -> None:
    out = tmp_path / "out.parquet"
    done = dphist("release", str(semicolons), *options, *RELEASE, "-o", str(out))
    assert done.returncode == 2
    assert words in done.stderr
    assert not out.exists()


def test_a_terminal_shows_the_place_in_an_expression(semicolons: Path, tmp_path: Path) -> None:
    """Elsewhere it is one line, which names the character."""
    words = ["release", str(semicolons), "--delimiter", ";", *RELEASE, "--where", "lower(url) = 1", "--dry-run"]
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "dphist", *words]
    piped = subprocess.run(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True, check=False)
    subprocess.run(command, stderr=theirs, stdout=subprocess.DEVNULL, check=False)
    os.close(theirs)
    shown = os.read(ours, 10_000).decode().replace("\r\n", "\n")
    os.close(ours)
    assert "text beside a number at character 1." in piped.stderr
    assert "^" not in piped.stderr
    assert shown.endswith("  lower(url) = 1\n  ^^^^^^^^^^^^^^\n")
