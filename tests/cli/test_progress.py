"""Progress on a real terminal: a line that shows phases and bytes, goes away, and can do no harm. Elsewhere nothing."""

from __future__ import annotations

import gzip
import io
import json
import os
import re
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from terminals import listening, on_terminal

import dphist as dp
from dphist.cli import progress
from dphist.cli.output import Talk
from dphist.engines.base import BOUNDING, NOISING, READING, Reading
from dphist.engines.duckdb.source import InputBytes, bytes_read

ROWS = 20_000
EVENTS = pa.table(
    {
        "user": [f"user {n * 7919 % 5_003:09}" for n in range(ROWS)],
        "item": [f"item {n % 7}" for n in range(ROWS)],
        "unused": [f"{n * 2654435761 % 2**32:032b}" for n in range(ROWS)],
    }
)
WORDS = ["release", "events.csv", "--unit", "user", "--by", "item", "--epsilon", "1", "--delta", "1e-6"]


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same records in every form."""
    made = tmp_path_factory.mktemp("sources")
    rows = EVENTS.to_pylist()
    (made / "events.csv").write_text("\n".join(["user,item,unused", *(",".join(row.values()) for row in rows), ""]))
    (made / "events.csv.gz").write_bytes(gzip.compress((made / "events.csv").read_bytes(), 1))
    (made / "events.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    pq.write_table(EVENTS, made / "events.parquet", row_group_size=5_000)
    return made


@pytest.fixture
def folder(sources: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """For a command on a terminal whose line appears at once."""
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(progress, "AFTER", 0.0)
    monkeypatch.setattr(progress, "EVERY", 0.002)
    (tmp_path / "events.csv").symlink_to(sources / "events.csv")
    return tmp_path


def interrupted(program: str, at: bytes, cwd: Path) -> tuple[int, str]:
    """Exit code of a process of its own, which gets a SIGINT when its terminal shows `at`, and all that the terminal gets."""
    received = bytearray()

    def look() -> None:
        if at in received and process.poll() is None:
            process.send_signal(signal.SIGINT)

    with listening(received, look) as writer:
        environment = {**os.environ, "TERM": "xterm", "PYTHONUTF8": "1"}
        process = subprocess.Popen([sys.executable, "-c", program], cwd=cwd, env=environment, stderr=writer)
        process.wait(120)
    return process.returncode, received.decode()


def left_on_screen(written: str) -> list[str]:
    """The lines of a terminal after so much was written to it."""
    lines = [""]
    for part in re.split(r"(\r\n|\r|\n)", written):
        if part == "\r":
            lines[-1] = "\r" + lines[-1].lstrip("\r")
        elif part in ("\r\n", "\n"):
            lines.append("")
        elif lines[-1].startswith("\r"):
            lines[-1] = part + lines[-1][1 + len(part) :]
        else:
            lines[-1] += part
    return [line.strip() for line in lines]


def test_a_bar_appears_on_a_terminal_and_goes_away(folder: Path) -> None:
    code, out, seen = on_terminal(*WORDS, "--max-groups", "2", "-o", "o.csv", cwd=folder)
    assert code == 0, seen
    assert f"{BOUNDING}  [" in seen
    shares = [int(share) for share in re.findall(r"(\d+) % of the input read", seen)]
    assert shares == sorted(shares)
    assert 0 <= shares[0] <= shares[-1] <= 100
    assert left_on_screen(seen) == [""], "nothing of it stays"
    assert "\r" not in out
    assert out.startswith("  item ")
    assert "input read" not in out
    assert set(re.sub(rf"{READING}|{BOUNDING}|{NOISING}|% of the input read|[\[\]#.\d \r]", "", seen)) == set()


def test_a_result_on_the_same_terminal_is_not_mixed_with_it(folder: Path) -> None:
    code, _, seen = on_terminal(*WORDS, "--max-groups", "2", "-o", "o.csv", cwd=folder, out=True)
    assert code == 0, seen
    shown = left_on_screen(re.sub(r"\x1b\[\dm", "", seen))
    assert shown[0].split() == ["item", "count"]
    assert not [line for line in shown if "[" in line and "#" in line]
    assert "\x1b[1m" in seen, "headings are bold on a terminal"


def test_nothing_with_json(folder: Path) -> None:
    code, out, seen = on_terminal(*WORDS, "--max-groups", "2", "-o", "o.csv", "--json", cwd=folder)
    assert (code, seen) == (0, "")
    assert json.loads(out)["released_groups"] == 7


class Stream(io.StringIO):
    """What says whether it is a terminal."""

    def __init__(self, *, terminal: bool) -> None:
        super().__init__()
        self._terminal = terminal

    def isatty(self) -> bool:
        return self._terminal

    def fileno(self) -> int:
        return os.open(os.devnull, os.O_WRONLY)


def test_nothing_in_a_pipe_and_nothing_if_quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    for terminal, quiet, lines in ((False, False, 0), (True, True, 0), (True, False, 1)):
        monkeypatch.setattr(sys, "stderr", Stream(terminal=terminal))
        Talk(quiet=quiet).phase("counting")
        assert (progress._line is not None) == lines
        progress.stop()
        assert progress._line is None


def test_an_interrupt_takes_the_line_away_first(tmp_path: Path) -> None:
    program = (
        "import time, dphist.cli.progress as p; p.AFTER = 0.0; p.EVERY = 0.01\n"
        "from dphist.files.interruption import watching\n"
        "with watching(last=True):\n  p.tell('bounding and counting'); time.sleep(60)\n"
    )
    code, seen = interrupted(program, b"counting ...", tmp_path)
    assert code == 130
    assert left_on_screen(seen) == ["dphist: Interrupted. Nothing was charged.", ""]


def test_an_error_takes_the_line_away_first(folder: Path) -> None:
    code, _, seen = on_terminal(*WORDS, "--by", "itm", "-o", "o.csv", cwd=folder)
    assert code == 2
    assert left_on_screen(seen)[0].startswith("dphist: Expected a column that exists, got 'itm'.")


def test_a_terminal_that_cannot_be_drawn_on_fails_nothing(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> str:
        raise OSError("no terminal")

    monkeypatch.setattr(progress, "words", fail)
    code, out, _ = on_terminal(*WORDS, "--max-groups", "2", "-o", "o.csv", cwd=folder)
    assert code == 0
    assert "Table written to o.csv" in out


def test_nobody_waits_for_a_terminal_that_takes_nothing() -> None:
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    with suppress(BlockingIOError):
        while os.write(writer, b"." * 4096):
            pass
    os.set_blocking(writer, True)
    line = progress.Line(writer, "counting", 0.0, 0.001)
    time.sleep(0.1)
    line.stop()
    assert line._thread.is_alive(), "it waits alone"
    os.close(reader)  # which ends it
    line._thread.join(20)
    assert not line._thread.is_alive()


def test_the_words_of_a_phase() -> None:
    assert progress.words("adding noise", 0) == "  adding noise ."
    assert progress.words("adding noise", 2) == "  adding noise ..."
    half = progress.words(Reading("counting", lambda: 0.5), 0)
    assert half == "  counting  [##########..........]  50 % of the input read"
    assert progress.words(Reading("counting", lambda: 7.0), 0).endswith(
        "[####################] 100 % of the input read"
    )
    assert progress.words(Reading("counting", lambda: None), 0) == "  counting ."
    assert progress.words(Reading("counting", lambda: 1 // 0), 1) == "  counting .."


@pytest.mark.skipif(bytes_read() is None, reason="the system does not count what a process reads")
@pytest.mark.parametrize(
    ("form", "bound"),
    [
        ("events.parquet", {"max_groups": 2}),
        ("events.csv", {"max_groups": 2}),
        ("events.csv.gz", {"max_groups": 2}),
        ("events.jsonl", {"max_groups": 2}),
        ("events.parquet", {"mechanism": "adaptive"}),
    ],
)
def test_the_share_of_a_source_ends_at_one(form: str, bound: dict[str, Any], sources: Path) -> None:
    """Of a Parquet file that of the columns that are read: the one that is not is the largest."""
    told: list[str] = []
    ends: list[float | None] = []

    def progress_of(phase: str) -> None:
        if told and isinstance(told[-1], Reading):
            ends.append(told[-1].share())
        told.append(phase)
        if isinstance(phase, Reading):
            share = phase.share()
            assert share is not None
            assert share < 0.3, "nothing is read yet but a footer"

    options = {"unit": "user", "by": "item", "epsilon": 1, "delta": 1e-6, **bound}
    types = {"user": "text", "item": "text"} if form.endswith("jsonl") else {}
    dp.release(dp.Files((sources / form,), types=types), progress=progress_of, **options)
    assert told[:2] == [READING, BOUNDING]
    assert [type(phase) for phase in told] == [str, Reading, str]
    assert ends == [pytest.approx(1, abs=0.02)]


def test_a_table_in_memory_has_phases_alone() -> None:
    told: list[str] = []
    dp.release(EVENTS, unit="user", by="item", epsilon=1, delta=1e-6, max_groups=1, progress=told.append)
    assert told == [READING, BOUNDING, NOISING]
    assert {type(phase) for phase in told} == {str}


def test_where_the_system_counts_nothing_no_share_is_told(monkeypatch: pytest.MonkeyPatch, sources: Path) -> None:
    monkeypatch.setattr("dphist.engines.duckdb.source.Path.read_text", lambda _: "nothing")
    assert bytes_read() is None
    assert InputBytes([(str(sources / "events.csv"), ["user"])]).share() is None
