"""docs/flexible-accuracy.md: its Python runs, its table is what the command prints."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dphist.flexible import plan_statistic, trade_offs
from dphist.flexible.accuracy import Accuracy
from dphist.flexible.plan import StatisticPlan

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "flexible-accuracy.md").read_text(encoding="utf-8")


def test_the_examples_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All of them, one after the other, as a reader would."""
    monkeypatch.chdir(tmp_path)
    ages = np.random.default_rng(1).integers(0, 100, 20_000)
    pq.write_table(pa.table({"person": np.arange(20_000), "age": ages}), "ages.parquet")
    blocks = re.findall(r"^```python\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
    assert len(blocks) == 4
    space: dict[str, Any] = {}
    for block in blocks:
        exec(compile(block, "docs/flexible-accuracy.md", "exec"), space)
    assert abs(space["found"].value - 49) <= 8
    assert space["found"].data.apply(space["share_of_minors"]) == pytest.approx(0.18, abs=0.05)
    assert space["grid"].axes == (15, 15)
    assert np.abs(space["centre"] - 0.5).max() < 0.02
    promise = space["promise"]
    assert isinstance(promise, Accuracy)
    assert promise.alpha == pytest.approx(225 * space["mechanism"].q / 150_000 + 0.05)


def shown(plan: StatisticPlan, value: str) -> str:
    return f"{value}: {plan.accuracy()}"


def test_the_answers_are_worded_as_shown() -> None:
    page = " ".join(PAGE.split())
    asked: dict[str, Any] = {"epsilon": 0.5, "lower": 0, "upper": 120, "error": 1, "drop": 0.005}
    assert shown(plan_statistic("max", **asked), "111") in page
    assert shown(plan_statistic("max", min_records=600_000, **asked), "111") in page


def test_the_table_is_the_one_that_is_computed() -> None:
    rows = {(f"{row.epsilon:g}", f"{row.delta:g}"): row for row in trade_offs(60, 0.005, own=(0.7, 1e-6))}
    printed = re.findall(r"^ +([\d.]+) +(1e-0\d) +(\d+) +([\d,]+) .* % +([\d,]+)", PAGE, re.MULTILINE)
    assert len(printed) == 5
    for epsilon, delta, q, dropped, needed in printed:
        row = rows[epsilon, delta]
        assert (f"{row.q}", f"{row.dropped:,}", f"{row.records_needed:,}") == (q, dropped, needed)
