"""Nothing that somebody else typed acts on a terminal: every letter that is printed is printable, or ends a line of ours."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from command_line import Done, dphist
from dphist.cli.output import say
from dphist.files import interruption
from dphist.ledger.charge import Receipt, stays_charged
from dphist.words import printable

EVIL = "a\x1b[31mb\x07\u202ec\x9b\r\nforged\tline\u200b\x7f\ue000"
BUDGET = ["--epsilon", "1", "--delta", "1e-6"]


@given(st.text())
def test_whatever_is_printable_stays_and_the_rest_is_escaped(text: str) -> None:
    assert printable(text).isprintable()
    assert (printable(text) == text) == text.isprintable()
    assert printable(text, lines=True).split("\n") == [printable(line) for line in text.split("\n")]


def harmless(done: Done) -> str:
    text = done.stdout + done.stderr
    assert all(letter.isprintable() or letter == "\n" for letter in text), ascii(text)
    assert not [line for line in text.splitlines() if line.startswith("forged")], text
    return text


@pytest.fixture
def evil(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    table = pa.table({EVIL: list(range(900)), f"{EVIL}2": [EVIL if n % 3 else "b" for n in range(900)]})
    pq.write_table(table, "e.parquet")
    return tmp_path


def test_names_of_columns_files_batches_and_versions(evil: Path) -> None:
    columns = ["--unit", EVIL, "--by", f"{EVIL}2"]
    out = f"{EVIL}.csv"
    done = dphist(
        "release", "e.parquet", *columns, *BUDGET, "--max-groups", "1", "-o", out, "--report", "r.html", "--explain"
    )
    assert done.returncode == 0, done.stderr
    assert r"a\x1b[31mb\x07\u202ec" in harmless(done)
    report = Path("r.html").read_text()
    assert r"\u202e" in report
    assert all(letter.isprintable() or letter == "\n" for letter in report)
    beside = Path(f"{out}.dphist.json")
    metadata = json.loads(beside.read_text())
    beside.write_text(json.dumps({**metadata, "dphist": EVIL, "guarantee": EVIL, EVIL: EVIL}))
    assert dphist("verify", out).returncode == 1
    harmless(dphist("verify", out))
    for words in (
        ["top-k", "e.parquet", *columns, *BUDGET, "--k", "2"],
        ["select", "e.parquet", *columns, *BUDGET, "-o", "s.csv"],
    ):
        harmless(dphist(*words))
    harmless(dphist("release", EVIL, *columns, *BUDGET, "--max-groups", "1", "-o", "x.csv"))
    harmless(dphist("release", "e.parquet", "--unit", EVIL, "--by", "x" + EVIL, *BUDGET, "-o", "x.csv"))
    harmless(dphist("plan", *BUDGET, "--mechanism", EVIL))
    harmless(dphist(EVIL))
    harmless(dphist("continual", "start", "stream", *columns, *BUDGET, "--rounds", "4", "--max-groups", "1"))
    harmless(dphist("continual", "add", "stream", "e.parquet", "--batch", EVIL))
    assert harmless(dphist("continual", "show", "stream", "--batches")) == f"{printable(EVIL)}\n"
    harmless(dphist("continual", "show", "stream"))
    harmless(dphist("session", "start", "s.json", "--unit", EVIL, *BUDGET, "--results", "5", "--queries", "3"))
    harmless(dphist("session", "query", "s.json", "e.parquet", "--by", f"{EVIL}2", "--k", "2"))
    harmless(dphist("session", "show", "s.json"))


def test_notes_and_units_of_a_ledger(evil: Path) -> None:
    address = ["--ledger", "l.db", "--dataset", "people"]
    harmless(dphist("ledger", "create", *address, *BUDGET, "--unit", EVIL, "--accountant", "basic"))
    record = ["--unit", EVIL, "--protects", "unit", "--epsilon", "0.1", "--note", EVIL]
    harmless(dphist("ledger", "record", *address, *record))
    history = harmless(dphist("ledger", "history", *address)).splitlines()
    assert [line.split()[0] for line in history[2:] if line[:7].strip()] == ["0", "1"]
    for command in ("show", "verify", "export"):
        harmless(dphist("ledger", command, *address))
    harmless(dphist("ledger", "show", "--ledger", "l.db", "--dataset", EVIL))


def test_words_that_are_not_utf8_are_refused_before_anything_is_read(evil: Path) -> None:
    odd = os.fsdecode(b"\xff")
    for words in (["release", f"{odd}.csv"], ["verify", odd], ["ledger", "show", "--ledger", odd], [odd]):
        done = dphist(*words)
        assert done.returncode == 2
        assert harmless(done).startswith("dphist: Expected names and options in UTF-8, got '\\udcff")


@pytest.mark.parametrize("encoding", [pytest.param("ascii", marks=pytest.mark.long), "latin-1"])
def test_a_stream_of_another_encoding_gets_escapes(encoding: str, evil: Path) -> None:
    words = ["release", "e.parquet", "--unit", EVIL, "--by", f"{EVIL}2", *BUDGET, "--max-groups", "1", "-o", "o.csv"]
    environment = {**os.environ, "PYTHONIOENCODING": encoding, "PYTHONUTF8": "0"}
    done = subprocess.run([sys.executable, "-m", "dphist", *words], capture_output=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr
    assert b"Traceback" not in done.stderr
    assert done.stderr == b""
    assert " ± ".encode("latin-1" if encoding == "latin-1" else "utf-8") in done.stdout  # Python writes UTF-8 for ASCII
    assert b"\n  ------" in done.stdout
    assert b"\\u2500" not in done.stdout


def test_what_was_printed_after_a_charge_is_not_called_unpublished() -> None:
    receipt = Receipt("people", 1, "0" * 64)
    with interruption.watching():
        say("a plan")
        interruption.account_for(lambda: str(receipt))
        say("progress", err=True)
        assert "Nothing was published" in stays_charged(receipt)
        say("a row of the result")
        assert "What was printed may be published" in stays_charged(receipt)
        assert "out.csv is written" in stays_charged(receipt, "out.csv")
    assert "Nothing was published" in stays_charged(receipt)
    with interruption.watching():
        assert "Nothing was published" in stays_charged(receipt)


def test_what_a_command_wrote_and_spent_is_not_told_of_what_comes_after_it() -> None:
    with interruption.watching():
        interruption.account_for(lambda: "Charged.")
        interruption.note_output(Path("out.csv"))
        assert interruption.first_output() == "out.csv"
    assert interruption.first_output() is None
    assert interruption.account() == ""
