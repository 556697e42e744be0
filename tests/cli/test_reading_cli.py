"""How files are read, on the command line: the same options for every command that reads records, checked before anything."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from argument_fuzz import commands
from terminals import on_terminal

import dphist as dp
from command_line import dphist
from dphist.engines.source import ENCODINGS as KNOWN
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
    piped = dphist(*words)
    _, _, shown = on_terminal(*words, cwd=tmp_path)
    assert "text beside a number at character 1." in piped.stderr
    assert "^" not in piped.stderr
    assert shown.endswith("  lower(url) = 1\r\n  ^^^^^^^^^^^^^^\r\n")


def test_batches_of_a_stream_may_be_written_in_different_ways(tmp_path: Path) -> None:
    """Each is read as its own command says; keys of another type than before are refused, and the batch is not in."""
    start = ["--unit", "user", "--by", "age", "--rounds", "4", "--max-groups", "1", "--epsilon", "2", "--delta", "1e-6"]
    assert dphist("continual", "start", "s", *start, cwd=tmp_path).returncode == 0
    (tmp_path / "a.csv").write_text("user;age\n" + "".join(f"{n};7\n" for n in range(200)))
    (tmp_path / "b.jsonl").write_text("".join(f'{{"user": {n}, "age": "7"}}\n' for n in range(200)))
    pq.write_table(pa.table({"user": range(200), "age": pa.array([7] * 200, pa.int32())}), tmp_path / "c.parquet")
    read = {
        "a.csv": ["--delimiter", ";", "--type", "age=integer"],
        "b.jsonl": ["--type", "age=integer", "--type", "user=text"],
        "c.parquet": [],
    }
    for name, options in read.items():
        done = dphist("continual", "add", "s", name, "--batch", name, *options, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
    refused = dphist("continual", "add", "s", "a.csv", "--batch", "d", "--delimiter", ";", cwd=tmp_path)
    assert refused.returncode == 2
    assert "keys of the same types as in earlier batches" in refused.stderr
    stream = dp.Continual(tmp_path / "s")
    assert stream.batches == tuple(read)
    assert stream.show().to_arrow()["count"].to_pylist() == pytest.approx([600], abs=200)
