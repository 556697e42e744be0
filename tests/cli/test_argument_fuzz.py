"""Whatever the words of a call are: a documented exit code, one sentence about what is wrong, no password, in bounds."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from argument_fuzz import MOST_BYTES, MOST_SECONDS, SECRET, Call, Outcome, name_calls, option_calls, prepare, sample

from command_line import dphist

SCRIPT = Path(__file__).parent / "argument_fuzz.py"
FEW, OPTIONS, NAMES = 25, 2_400, 800


@contextlib.contextmanager
def _environment(call: Call) -> Iterator[None]:
    before = dict(os.environ)
    try:
        os.environ.update(call.environment)
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("files")
    prepare(folder)
    return folder


@pytest.mark.parametrize("kind", ["options", "names"])
def test_a_few_calls_end_well(kind: str, files: Path) -> None:
    for call in sample(option_calls() if kind == "options" else name_calls(), FEW):
        with _environment(call):
            done = dphist(*call.words, cwd=files)
        outcome = Outcome(call, done.returncode, 0, 0, done.stdout, done.stderr)
        assert outcome.problems() == [], (call, done.stderr[-500:])


def test_an_outcome_that_must_not_be_is_seen() -> None:
    call = Call("option", "plan --epsilon", ("plan",))
    good = Outcome(call, 2, 0.1, 10**8, "", "dphist: Expected x, got y.\n")
    assert good.problems() == []
    for bad in (
        Outcome(call, 70, 0.1, 10**8, "", "Traceback (most recent call last):\n"),
        Outcome(call, -9, 0.1, 10**8, "", ""),
        Outcome(call, 2, 0.1, 10**8, "", ""),
        Outcome(call, 2, 0.1, 10**8, "", "dphist: Expected x.\ndphist: Expected y.\n"),
        Outcome(call, 0, 0.1, 10**8, SECRET, ""),
        Outcome(call, 0, 10.1, 10**8, "", ""),
        Outcome(call, 0, 0.1, 2 * 10**9, "", ""),
    ):
        assert bad.problems()


@pytest.mark.fuzz
@pytest.mark.parametrize(("kind", "number"), [("options", OPTIONS), ("names", NAMES)])
def test_many_calls_end_well(kind: str, number: int, capsys: pytest.CaptureFixture[str]) -> None:
    """Each in a process of its own, two at a time."""
    parts = [
        subprocess.Popen([sys.executable, SCRIPT, kind, str(number), str(part), "2"], stdout=subprocess.PIPE, text=True)
        for part in range(2)
    ]
    lines = [line for part in parts for line in part.communicate()[0].splitlines()]
    problems = [line for line in lines if line.startswith("PROBLEM")]
    counts: Counter[str] = Counter()
    for line in lines:
        if line.startswith("COUNT "):
            _, much, what = line.split(maxsplit=2)
            counts[what] += int(much)
    with capsys.disabled():
        print(f"\n{kind}: {sum(counts.values()):,} calls, {len(problems)} with a problem")
        for ended, times in sorted(counts.items()):
            print(f"  {times:>6,}  {ended}")
        print("\n".join(line[:600] for line in problems))
    assert all(part.returncode == 0 for part in parts)
    assert sum(counts.values()) == number
    assert problems == []


@pytest.mark.fuzz
@pytest.mark.parametrize("kind", ["parquet", "csv"])
def test_a_hundred_thousand_columns_are_read_in_bounds(kind: str, tmp_path: Path) -> None:
    table = pa.table({"user": ["a"], "url": ["b"], **{f"c{i}": ["1"] for i in range(99_998)}})
    file = tmp_path / f"wide.{kind}"
    if kind == "parquet":
        pq.write_table(table, file)
    else:
        file.write_text(f"{','.join(table.column_names)}\na,b{',1' * 99_998}\n")
    words = [
        "release",
        str(file),
        "--unit",
        "user",
        "--by",
        "url",
        "--epsilon",
        "1",
        "--delta",
        "1e-6",
        "--max-groups",
        "1",
    ]
    child = subprocess.Popen([sys.executable, "-m", "dphist", *words, "-o", str(tmp_path / "out.csv")])
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    assert child.returncode == 0
    assert usage.ru_utime + usage.ru_stime < MOST_SECONDS
    assert usage.ru_maxrss * 1024 < MOST_BYTES
