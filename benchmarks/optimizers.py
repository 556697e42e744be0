"""What it costs that the engine may not believe statistics: CPU time with the kept optimisers over that with the engine's own.

    python benchmarks/optimizers.py                    10^7 rows
    python benchmarks/optimizers.py --rows 1e6 --repeats 5

A table of integers, text and doubles, some of them NaN. Each run has a process of its own; both settings take turns and the
least CPU time counts, which other work on the machine disturbs least. The engine's own settings are there to compare with:
they let one unit change how others are read (docs/threat-model.md).
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

from release import CHUNK, DELTA, EPSILON, ITEMS, MAX_GROUPS, ROW_GROUP, ROWS_PER_UNIT, path_of_spill

CASES: dict[str, dict[str, Any]] = {
    "count": {"max_groups": MAX_GROUPS},
    "count and sum": {"max_groups": MAX_GROUPS, "sums": {"amount": (0, 1)}},
    "where": {"max_groups": MAX_GROUPS, "where": "amount > 0.5"},
    "text keys": {"max_groups": MAX_GROUPS, "by": "name"},
    "adaptive": {},
}
OWN, KEPT = "the engine's own", "kept"


def generate(path: Path, rows: int) -> None:
    """Zipf items, units with a cubic skew, as in release.py; a double of which 2 % are NaN, and a name of each item."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    generator = np.random.default_rng(1)
    part = path.with_suffix(".part")
    schema = pa.schema([("user", pa.int64()), ("item", pa.int64()), ("amount", pa.float64()), ("name", pa.string())])
    with pq.ParquetWriter(part, schema, compression="zstd") as writer:
        for begin in range(0, rows, CHUNK):
            size = min(CHUNK, rows - begin)
            users = (max(1, rows // ROWS_PER_UNIT) * generator.random(size) ** 3).astype(np.int64)
            items = np.exp(generator.random(size) * np.log(ITEMS)).astype(np.int64)
            amounts = np.where(generator.random(size) < 0.02, np.nan, generator.random(size))
            table = pa.table([users, items, amounts, pa.array((items % 20_000).astype(str))], schema=schema)
            writer.write_table(table, row_group_size=ROW_GROUP)
    part.rename(path)


def measure(case: str, settings: str, path: Path, threads: int) -> dict[str, float]:
    """CPU seconds and peak memory of one release in this process."""
    import duckdb

    from dphist import release
    from dphist.engines.duckdb import session
    from dphist.engines.query import PerformanceSettings

    if settings == OWN:
        names = {str(name) for (name,) in duckdb.execute("SELECT name FROM duckdb_optimizers()").fetchall()}
        session.KEPT_OPTIMIZERS = frozenset(names - {"common_subexpressions"})  # type: ignore[misc]
    asked = {"unit": "user", "by": "item", "epsilon": EPSILON, "delta": DELTA, **CASES[case]}
    before = resource.getrusage(resource.RUSAGE_SELF)
    release(path, settings=PerformanceSettings(threads, None, path_of_spill()), **asked)
    after = resource.getrusage(resource.RUSAGE_SELF)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {"cpu": cpu, "megabytes": after.ru_maxrss / (1024**2 if sys.platform == "darwin" else 1024)}


def main() -> None:
    """Generate, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=float, default=1e7)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--cases", nargs="*", default=list(CASES), choices=CASES)
    parser.add_argument("--one", nargs=2, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    path = path_of_spill() / f"optimizers-rows{int(arguments.rows)}.parquet"
    if arguments.one:
        case, settings = arguments.one
        print(json.dumps(measure(case, settings, path, arguments.threads)))
        return
    if not path.exists():
        generate(path, int(arguments.rows))
    shared = ["--rows", str(arguments.rows), "--threads", str(arguments.threads)]
    print(f"{int(arguments.rows):,} rows\n\n| release | CPU s, {OWN} | CPU s, {KEPT} | × | peak MB | peak MB, {KEPT} |")
    print("| --- | ---: | ---: | ---: | ---: | ---: |")
    for case in arguments.cases:
        runs: dict[str, list[dict[str, float]]] = {OWN: [], KEPT: []}
        for _ in range(arguments.repeats):
            for settings, found in runs.items():
                command = [sys.executable, __file__, *shared, "--one", case, settings]
                found.append(json.loads(subprocess.run(command, check=True, capture_output=True).stdout))
        own, kept = (min(run["cpu"] for run in runs[settings]) for settings in (OWN, KEPT))
        peaks = [max(run["megabytes"] for run in runs[settings]) for settings in (OWN, KEPT)]
        print(f"| {case} | {own:.2f} | {kept:.2f} | {kept / own:.2f} | {peaks[0]:.0f} | {peaks[1]:.0f} |", flush=True)


if __name__ == "__main__":
    main()
