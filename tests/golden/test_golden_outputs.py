"""Every case gives what was recorded, but for last digits; `python tests/golden/record.py [name ...]` records."""

from __future__ import annotations

import difflib
import json
from pathlib import Path
from typing import Any

import pytest
from cases import CASES
from harness import OUTPUTS, run, settled, text_of

ELSEWHERE = {
    "command-continual", "command-plan-pictures", "command-release-options", "command-session", "command-top-k",
    "continual-without-noise", "errors-of-stored-plans", "ledger-basic", "ledger-gdp", "ledger-zcdp", "plan-adaptive",
    "plan-adaptive-given", "plan-adaptive-total", "plan-discrete-correlated", "plan-emphasis", "plan-keys",
    "plan-keys-max-groups", "plan-laplace", "plan-large-epsilon", "plan-noise-std", "plan-objective-gap", "plan-sparsity",
    "plan-sparsity-max-groups", "plan-sparsity-paper-3.3", "plan-thousand-groups", "plan-voting", "release-adaptive",
    "release-add-the-deltas", "release-default-means", "release-discrete", "release-jsonl", "release-keys",
    "release-keys-of-two-columns", "release-keys-sparse", "release-laplace", "release-max-groups", "release-of-frames",
    "release-of-nothing", "release-of-saved-plans", "release-parquet", "release-sparsity", "release-two-keys", "release-voting",
    "release-voting-light", "release-written", "statistics", "top-k-from-top", "top-k-ranked",
}  # fmt: skip
"""Cases that are parts of others or go the same way with other numbers: `make test-long` compares these too."""


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.long) if name in ELSEWHERE else name for name in CASES]
)
def test_case(name: str, tmp_path: Path) -> None:
    check(name, run(CASES[name], tmp_path))


def check(name: str, result: Any) -> None:
    """Fail with the lines that differ."""
    stored = (OUTPUTS / f"{name}.json").read_text(encoding="utf-8")
    found = text_of(settled(result, json.loads(stored)))
    if found != stored:
        lines = list(difflib.unified_diff(stored.splitlines(), found.splitlines(), "stored", "found", n=2, lineterm=""))
        left = [f"… {len(lines) - 80} more lines"] if len(lines) > 80 else []
        pytest.fail("\n".join([f"{name} has changed:", *lines[:80], *left]), pytrace=False)


def test_nothing_is_stored_without_a_case() -> None:
    from spark_cases import SPARK_CASES

    assert set(CASES) >= ELSEWHERE
    assert {path.stem for path in OUTPUTS.glob("*.json")} == {*CASES, *SPARK_CASES}
