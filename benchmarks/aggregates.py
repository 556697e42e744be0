"""How close aggregates are on real tables at epsilon = 1: private bounds beside the best fixed ones in hindsight, and a peer.

    python benchmarks/aggregates.py DATA [--runs 3] [--peer]

DATA is a folder with online_retail.parquet, diabetes_diagnoses.parquet, npm_deps.parquet and homebrew_commits.parquet (columns
user, item and values). The error is the median over released groups of |released - true|/|true|, averaged over runs; the truth
is that of all records, unclamped. Best in hindsight is the best of a grid of bounds, found by looking at that error. PipelineDP
gets those bounds, and at most ten groups for each unit; it is installed by pip into an environment of its own under build/.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import venv
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import numpy as np

import dphist as dp

BUDGET: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-8}
BUILD = Path(__file__).resolve().parent.parent / "build"
PEER = Path(__file__).resolve().parent / "peers" / "aggregates_pipelinedp.py"


@dataclass(frozen=True)
class Task:
    """One column of one table: the aggregate, its truth per item in SQL over units' values, and bounds to try."""

    table: str
    kind: str
    column: str
    truth: str
    grid: tuple[float, ...]

    @property
    def name(self) -> str:
        """The column that is released."""
        return {"rows": "rows", "quantiles": f"p50_{self.column}"}.get(self.kind, f"{self.kind[:-1]}_{self.column}")

    def options(self, bound: Any) -> dict[str, Any]:
        """What a release is asked for, with this upper bound, or auto."""
        if self.kind == "rows":
            return {"rows": bound if bound == "auto" else int(bound)}
        if self.kind == "quantiles":
            return {"quantiles": {self.column: (0.5, 0, bound)}}
        return {self.kind: {self.column: (0, bound)}}


SUM, MEAN, ROWS = "sum(total)", "avg(mean)", "sum(records)"
VARIANCE = "avg(square) - avg(mean) * avg(mean)"
TASKS = (
    Task("online_retail", "sums", "quantity", SUM, (8, 16, 23, 32, 45, 64, 91, 128)),
    Task("online_retail", "sums", "price", SUM, (2, 4, 6, 8, 11, 16, 23, 32)),
    Task("online_retail", "means", "price", MEAN, (2, 3, 4, 6, 8, 11, 16)),
    Task("online_retail", "variances", "price", VARIANCE, (2, 3, 4, 6, 8, 11, 16)),
    Task("online_retail", "quantiles", "price", "median(mean)", (4, 8, 16, 32)),
    Task("diabetes_diagnoses", "sums", "value", SUM, (6, 8, 11, 16, 23)),
    Task("diabetes_diagnoses", "means", "value", MEAN, (6, 8, 11, 14, 16)),
    Task("diabetes_diagnoses", "variances", "value", VARIANCE, (8, 11, 14, 16)),
    Task("diabetes_diagnoses", "quantiles", "value", "median(mean)", (8, 14, 16)),
    Task("npm_deps", "rows", "item", ROWS, (1, 2, 3, 4, 6)),
    Task("homebrew_commits", "rows", "item", ROWS, (1, 2, 3, 4, 6, 8)),
)


def truth_of(path: Path, task: Task) -> dict[str, float]:
    """Per item."""
    values = "0.0" if task.kind == "rows" else f'CAST("{task.column}" AS DOUBLE)'
    units = (
        f'SELECT item, "user", sum(v) AS total, avg(v) AS mean, avg(v * v) AS square, count(*) AS records'
        f" FROM (SELECT item, \"user\", {values} AS v FROM '{path}') GROUP BY ALL"
    )
    with duckdb.connect() as connection:
        found = connection.execute(f"SELECT item, {task.truth} FROM ({units}) GROUP BY item").fetchall()
    return dict(found)


def error(found: dict[str, float], truth: dict[str, float]) -> float:
    """The median of relative errors."""
    return float(np.median([abs(found[item] - truth[item]) / abs(truth[item]) for item in found if truth[item]]))


def ours(path: Path, task: Task, bound: Any, truth: dict[str, float], runs: int, **more: Any) -> tuple[float, int, Any]:
    """The mean error, the groups of a run, the bounds that were chosen last."""
    errors, groups, chosen = [], [], None
    for _ in range(runs):
        release = dp.release(path, unit="user", by="item", **BUDGET, **task.options(bound), **more)
        table = release.to_arrow()
        if task.name not in table.column_names:
            return float("nan"), table.num_rows, "none found"
        errors.append(error(dict(zip(table["item"].to_pylist(), table[task.name].to_pylist(), strict=True)), truth))
        groups.append(table.num_rows)
        chosen = [(one.lower, one.upper) for one in release.bounds]
    return float(np.mean(errors)), int(np.mean(groups)), chosen


def peer(path: Path, task: Task, bound: float, truth: dict[str, float]) -> tuple[float, int]:
    """One run of PipelineDP with these bounds."""
    python = BUILD / "peers-pipelinedp" / "bin" / "python"
    if not python.exists():
        venv.create(python.parent.parent, with_pip=True)
        subprocess.run([python, "-m", "pip", "install", "-q", "pipeline-dp", "pyarrow"], check=True)
    call = [str(part) for part in (python, PEER, path, task.kind, task.column, bound)]
    found = json.loads(subprocess.run(call, check=True, capture_output=True, text=True).stdout)
    return error(found, truth), len(found)


def measure(folder: Path, task: Task, runs: int, with_peer: bool, tell: Callable[[str], None]) -> None:
    """One line of the table."""
    path = folder / f"{task.table}.parquet"
    truth = truth_of(path, task)
    cells = []
    for more in ({}, {"max_groups": 10}):
        auto, groups, chosen = ours(path, task, "auto", truth, runs, **more)
        tried = {bound: ours(path, task, bound, truth, runs, **more)[0] for bound in task.grid}
        best = min(tried, key=lambda bound: tried[bound])
        cells.append(f"{auto:.3f} ({groups:,}; {chosen}) | {tried[best]:.3f} (to {best:g}) | {auto / tried[best]:.2f}")
    if with_peer:
        off, groups = peer(path, task, best, truth)
        cells.append(f"{off:.3f} ({groups:,})")
    tell(f"| {task.table} {task.name} | {' | '.join(cells)} |")


def main() -> None:
    """Print one row for each task."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--peer", action="store_true")
    parser.add_argument("--only", default="", help="tasks whose name holds this")
    given = parser.parse_args()
    for task in TASKS:
        if given.only in f"{task.table} {task.name}":
            measure(given.data, task, given.runs, given.peer, lambda line: print(line, flush=True))


if __name__ == "__main__":
    main()
