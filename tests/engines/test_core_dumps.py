"""A crash writes no memory to a file where records are in memory. The limit is that of a process: each case has its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

LIMIT = """
import resource, sys
import pyarrow as pa
import dphist as dp

HARD = resource.getrlimit(resource.RLIMIT_CORE)[1]
resource.setrlimit(resource.RLIMIT_CORE, (HARD, HARD))

def told(where):
    print(where, resource.getrlimit(resource.RLIMIT_CORE)[0] == 0, resource.getrlimit(resource.RLIMIT_CORE)[1] == HARD)

def batches():
    told("reading")
    yield pa.record_batch({"user": list(range(100)), "key": ["a"] * 100})

records = pa.RecordBatchReader.from_batches(pa.schema([("user", pa.int64()), ("key", pa.string())]), batches())
"""
RELEASE = """
dp.release(records, unit="user", by="key", epsilon=1, delta=1e-6, max_groups=1)
told("after")
"""
START = """
stream = dp.Continual.start("s", unit="user", by="key", rounds=2, max_groups=1, epsilon=1, delta=1e-6)
stream.add(records, "1")
"""
SHOW = """
dp.Continual("s").show()
told("shown")
"""


def lines(script: str, cwd: Path) -> list[str]:
    done = subprocess.run([sys.executable, "-c", LIMIT + script], capture_output=True, text=True, cwd=cwd, check=True)
    return done.stdout.splitlines()


def test_no_core_is_dumped_while_records_are_in_memory(tmp_path: Path) -> None:
    assert lines(RELEASE, tmp_path) == ["reading True True", "after True True"]


def test_nor_true_counts_of_a_stream(tmp_path: Path) -> None:
    assert lines(START, tmp_path) == ["reading True True"]
    assert lines(SHOW, tmp_path) == ["shown True True"]
