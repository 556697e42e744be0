"""One unit that is a table of its own ends no run of Spark in a JVM of one gigabyte."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

pytestmark = pytest.mark.cluster

ROWS, OTHERS = 1_000_000, 2_000
ASKED = {
    "sum": ["release", "--max-groups", "2", "--sum", "x:0:1"],
    "distinct": ["release", "--max-groups", "2", "--distinct", "x:2"],
    "quantile": ["release", "--max-groups", "2", "--quantile", "x:0.5:0:100"],
    "rounds": ["release", "--mean", "x:0:1"],
    "select": ["select"],
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Tables in which one unit has a million groups, or a million records of one group."""
    root = tmp_path_factory.mktemp("memory")
    users = pa.array(["ann"] * ROWS + [f"user {number}" for number in range(OTHERS)])
    numbers = np.arange(ROWS + OTHERS)
    for kind, groups in (("groups", numbers % ROWS), ("rows", np.zeros_like(numbers))):
        pq.write_table(pa.table({"user": users, "group": groups, "x": numbers * 1.5}), root / f"{kind}.parquet")
    return root


@pytest.mark.parametrize("kind", ["groups", "rows"])
@pytest.mark.parametrize("name", ASKED)
def test_one_heavy_unit_ends_no_run_of_spark(folder: Path, kind: str, name: str) -> None:
    command, *options = ASKED[name]
    words = [sys.executable, "-m", "dphist", command, f"{kind}.parquet", "--engine", "spark", "--unit", "user"]
    words += ["--by", "group", "--epsilon", "1", "--delta", "1e-9", *options, "-o", f"{kind} {name}.parquet", "--quiet"]
    settings = {**os.environ, "SPARK_DRIVER_MEMORY": "1g"}
    done = subprocess.run(words, cwd=folder, env=settings, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2_000:]
