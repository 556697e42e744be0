"""Files of Spark that no spreadsheet runs, and a command on Spark that gets a signal."""

from __future__ import annotations

import csv
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dphist as dp
from dphist.files.spreadsheet import escaped
from dphist.ledger import DataSet, Ledger
from spark_sessions import frame

KEYS = ["=1+1", "'=1+1", "-2", "@b", " =f", " g ", "h", "＝1"]
KEYS += ["\x1b[31mred", "\u202e=1", "\x85+1", "\0=1", "a\u2028b", "a\nb", "c\rd"]


def test_a_folder_of_csv_files_is_harmless_and_verified(tmp_path: Path) -> None:
    table = pa.table({"user": list(range(30 * len(KEYS))), "=item": KEYS * 30})
    options = {"epsilon": 20, "delta": 1e-3, "max_groups": 1}
    with dp.release(frame(table), unit="user", by="=item", **options) as release:  # type: ignore[arg-type]
        for raw in (False, True):
            folder = tmp_path / f"{raw}.csv"
            release.write(folder, raw_csv=raw)
            (file,) = folder.glob("part-*.csv")
            with file.open(newline="") as opened:
                header, *rows = csv.reader(opened)
            expected = [text if raw else escaped(text) for text in ("=item", *KEYS)]
            assert header[0] == expected[0]
            assert {row[0] for row in rows} == set(expected[1:])
            assert not [check for check in dp.verify(folder) if check.failed]
            (metadata,) = (folder / "_dphist").glob("part-*")
            assert json.loads(metadata.read_text()).get("escaped_csv") == (None if raw else True)


@pytest.mark.cluster
@pytest.mark.parametrize(("signum", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_command_that_gets_a_signal_leaves_no_exact_table(signum: int, code: int, tmp_path: Path) -> None:
    """At the moment when the first exact table is there."""
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    pq.write_table(
        pa.table({"user": list(range(50_000)), "item": [n % 900 for n in range(50_000)]}), tmp_path / "e.parquet"
    )
    with Ledger(tmp_path / "l.db", create=True) as opened:
        opened.create(DataSet("people", 20.0, 1e-3, "user", "basic"))
    words = [
        "release",
        "e.parquet",
        "--unit",
        "user",
        "--by",
        "item",
        "--epsilon",
        "1",
        "--delta",
        "1e-6",
        "--max-groups",
        "1",
    ]
    words += ["--engine", "spark", "--master", "local[2]", "-o", "out.csv", "--ledger", "l.db", "--dataset", "people"]
    run = subprocess.Popen(
        [sys.executable, "-m", "dphist", *words], cwd=tmp_path, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True,
        env={**os.environ, "TMPDIR": str(temporary)},
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )  # fmt: skip
    while run.poll() is None and not list(temporary.glob("dphist-*/groups")):
        time.sleep(0.05)
    run.send_signal(signum)
    _, told = run.communicate(timeout=120)
    assert run.returncode == code
    assert "Charged to 'people', entry 1, head " in told.splitlines()[-1]
    assert not list(temporary.glob("*dphist-*"))
    assert not list(temporary.glob("blockmgr-*"))
    assert not (tmp_path / "out.csv").exists()
