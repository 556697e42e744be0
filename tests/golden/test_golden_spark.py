"""The golden cases that need Spark: noise is left out where executors would draw it."""

from __future__ import annotations

from pathlib import Path

import pytest
from harness import run
from spark_cases import SPARK_CASES
from test_golden_outputs import check

from spark_sessions import session

QUICK = {"spark-errors"}
"""For releases, tests/spark/test_spark_release.py has the same bits here and there, and those of here are recorded."""


@pytest.mark.parametrize(
    "name", [name if name in QUICK else pytest.param(name, marks=pytest.mark.cluster) for name in SPARK_CASES]
)
def test_spark_case(name: str, tmp_path: Path) -> None:
    session()  # starts here: its processes keep the folder they are started in, and a case removes its own
    check(name, run(SPARK_CASES[name], tmp_path))
