"""How long the adaptive release takes next to a plain release of the same table, in the same run, and in how much memory.

    python benchmarks/adaptive.py [--rows 10000000] [--repeats 3] [--memory-limit 300MB] [--sql]

Every run has a process of its own, so that its peak memory is its own; imports are not timed. The two take turns; the fastest
turn counts, and the largest peak. Beside the peak stands that of a process that only loads the library: the rest is what the
release needed. `spilled` is the most that lay on disk at once. A small --memory-limit makes both spill, and sends the rounds of
the adaptive release through the engine's SQL; --sql does that without a limit.
"""

from __future__ import annotations

# Only the standard library up here: a child process inherits the peak memory of the process that starts it.
import argparse
import json
import resource
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

WAYS = ("nothing", "plain", "adaptive")


def generate(path: Path, rows: int) -> None:
    """Zipf items (a million, density 1/x), units with a cubic skew, fifty records per unit on average."""
    import duckdb

    with duckdb.connect() as connection:
        connection.execute("SET preserve_insertion_order = false; SET enable_progress_bar = false")
        connection.execute(
            f"""COPY (SELECT CAST(floor(exp(random() * ln(1e6))) AS BIGINT) AS item,
                CAST(floor({rows} / 50 * pow(random(), 3)) AS BIGINT) AS "user"
                FROM range({rows})) TO '{path}' (FORMAT parquet, COMPRESSION zstd)"""
        )


def measure(way: str, path: Path, memory_limit: str | None, sql: bool) -> dict[str, Any]:
    """One release in this process."""
    import dphist as dp
    from dphist.engines.duckdb import pairs

    if sql:
        pairs.MEMORY_SHARE = 0.0  # type: ignore[misc]
    bound: dict[str, Any] = {"max_groups": 10} if way == "plain" else {}
    before, groups = time.perf_counter(), 0
    with tempfile.TemporaryDirectory() as spill, _Watch(Path(spill)) as disk:
        if way != "nothing":
            settings = dp.PerformanceSettings(None, memory_limit, Path(spill))
            released = dp.release(path, unit="user", by="item", epsilon=1, delta=1e-8, settings=settings, **bound)
            groups = released.to_arrow().num_rows
        seconds = time.perf_counter() - before
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {"seconds": seconds, "peak": peak, "spilled": disk.most / 2**20, "groups": groups}


class _Watch:
    """Looks every 50 ms how much lies in a directory."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.most = folder, 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)

    def __enter__(self) -> _Watch:
        self._thread.start()
        return self

    def __exit__(self, *problem: object) -> None:
        self._stop.set()
        self._thread.join()

    def _look(self) -> None:
        while not self._stop.wait(0.05):
            sizes = []
            for path in self.folder.rglob("*"):
                try:
                    sizes.append(path.stat().st_size)
                except OSError:  # gone in the meantime
                    continue
            self.most = max(self.most, sum(sizes))


def main() -> None:
    """Print times, peaks and their ratio."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=float, default=1e7)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--memory-limit")
    parser.add_argument("--sql", action="store_true")
    parser.add_argument("--only", choices=WAYS, help=argparse.SUPPRESS)
    parser.add_argument("--table", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.only:
        print(json.dumps(measure(options.only, options.table, options.memory_limit, options.sql)))
        return
    rows = int(options.rows)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "events.parquet"
        command = [sys.executable, __file__, *(["--sql"] if options.sql else [])]
        command += ["--memory-limit", options.memory_limit] if options.memory_limit else []
        subprocess.run(
            [sys.executable, "-c", f"import adaptive, pathlib; adaptive.generate(pathlib.Path({str(path)!r}), {rows})"],
            cwd=Path(__file__).parent,
            check=True,
        )
        found: dict[str, list[dict[str, Any]]] = {way: [] for way in WAYS}
        for _ in range(options.repeats):
            for way in WAYS:
                run = subprocess.run(
                    [*command, "--only", way, "--table", str(path)], stdout=subprocess.PIPE, check=True
                )
                found[way].append(json.loads(run.stdout))
    limit = options.memory_limit or "none"
    print(f"{rows:,} rows, memory limit {limit}, fastest of {options.repeats}, largest peak")
    print(f"  {'':<34}{'seconds':>8}{'peak MB':>9}{'spilled MB':>12}{'groups':>9}")
    names = {"nothing": "the library loaded", "plain": "plain release, max_groups = 10", "adaptive": "adaptive release"}
    best = {way: min(run["seconds"] for run in runs) for way, runs in found.items()}
    for way, runs in found.items():
        peak, spilled = (max(run[name] for run in runs) for name in ("peak", "spilled"))
        print(f"  {names[way]:<34}{best[way]:>8.2f}{peak:>9.0f}{spilled:>12.0f}{runs[0]['groups']:>9,}")
    print(f"  ratio {best['adaptive'] / best['plain']:.2f}  (at most 2.5)")


if __name__ == "__main__":
    main()
