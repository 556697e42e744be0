"""`dphist verify` examines apart: whatever a file does to its reader, the caller gets checks or one error of dphist."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from fuzz import write_bomb
from real_files import EVENTS

import dphist as dp
from dphist.checks import Check
from dphist.verification import isolated


@pytest.fixture(scope="module")
def released(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("released") / "out.parquet"
    dp.release(EVENTS, unit="user", by="item", epsilon=1, delta=1e-6, max_groups=3, sums={"spent": (0, 12)}).write(path)
    return path


@pytest.mark.parametrize(
    "code",
    [
        "import os; os.abort()",
        "import os; os._exit(0)",
        "print('{')",
        "print('[]')",
        "print('{}')",
        'print(\'{"error": "SystemExit", "words": []}\')',
        "raise SystemError",
        "x = bytearray(10**15)",
    ],
)
def test_whatever_happens_there_is_one_error_here(monkeypatch: pytest.MonkeyPatch, code: str) -> None:
    monkeypatch.setattr(isolated, "START", code)
    with pytest.raises(dp.InvalidParameter, match=r"a released file at x\.csv that can be examined"):
        isolated.verify_apart("x.csv")


def test_errors_come_back_as_they_were(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, released: Path) -> None:
    path = released
    with pytest.raises(dp.InvalidParameter) as apart:
        isolated.verify_apart(path, head="0" * 64)
    with pytest.raises(dp.InvalidParameter) as here:
        dp.verify(path, head="0" * 64)
    assert str(apart.value) == str(here.value)
    answer = {"error": "UnusableLedger", "words": ["a ledger", "none", "make one."]}
    monkeypatch.setattr(isolated, "START", f"print({json.dumps(json.dumps(answer))})")
    with pytest.raises(dp.UnusableLedger, match=r"^Expected a ledger, got none\. Hint: make one\.$"):
        isolated.verify_apart(path)
    monkeypatch.setattr(
        isolated, "START", 'print(\'{"checks": [["a", null, "b"]], "state": "intact", "named": null}\')'
    )
    assert isolated.verify_apart(path) == [Check("a", None, "b")]
    monkeypatch.setattr(sys, "executable", str(tmp_path / "no-python"))
    with pytest.raises(dp.EngineFailure, match="a process that examines"):
        isolated.verify_apart(path)


def test_the_answer_is_that_of_this_process_whatever_lies_beside_the_file(
    released: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file may come with others, in the folder where somebody looks at it."""
    here = dp.verify(released)
    (tmp_path / "json.py").write_text("raise SystemExit")
    (tmp_path / "numpy.py").write_text("raise SystemExit")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [entry for entry in sys.path if entry])
    assert isolated.verify_apart(released) == here


def test_a_small_file_cannot_ask_for_much_memory(released: Path, tmp_path: Path) -> None:
    """A table of 100 GB in a file of a megabyte."""
    path = tmp_path / "bomb.parquet"
    write_bomb(path, pq.read_schema(released), 100_000, 10)
    assert path.stat().st_size < 2_000_000
    words = (
        "import resource, sys, dphist as dp\nfrom dphist.verification import isolated\n"
        "try: isolated.verify_apart(sys.argv[1])\n"
        "except dp.InvalidParameter as problem: print(problem)\n"
        "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)"
    )
    done = subprocess.run([sys.executable, "-c", words, path], capture_output=True, text=True, check=True)
    told, most = done.stdout.splitlines()
    assert "that can be examined" in told
    assert int(most) < 1 << 20, "kilobytes"


def test_limits_end_a_process_that_works_or_grows_without_end() -> None:
    """In a process of its own: processor time, and memory."""
    script = (
        "import sys; sys.path[:] = {path!r}\n"
        "from dphist.verification import isolated\n"
        "isolated.LEAST_SECONDS, isolated.LEAST_MEMORY = 1, 100 << 20\n"
        "isolated.limit_process_for(0)\n"
        "{code}\n"
    )
    env = {**os.environ, **isolated.SETTINGS}
    for code, expected, said in (
        ("print(1, flush=True)\nwhile True: pass", -signal.SIGXCPU, b"1\n"),
        ("x = bytearray(50 << 20)\nprint(1, flush=True)\nx = bytearray(200 << 20)", 1, b"1\n"),
    ):
        text = script.format(path=sys.path, code=code)
        done = subprocess.run([sys.executable, "-c", text], env=env, capture_output=True, check=False)
        assert (done.returncode, done.stdout) == (expected, said)
