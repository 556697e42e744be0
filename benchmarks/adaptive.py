"""How long the adaptive release takes next to a plain release of the same table, in the same run.

    python benchmarks/adaptive.py [--rows 10000000] [--repeats 3] [--spill]

The two take turns, each in this process with its own engine; the fastest of several turns counts. --spill runs the rounds
through the engine's SQL instead of NumPy, as it happens when the pairs do not fit into memory.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path
from typing import Any

import duckdb

import dphist as dp
from dphist.engines import pairs


def generate(path: Path, rows: int) -> None:
    """Zipf items (a million, density 1/x), units with a cubic skew, fifty records per unit on average."""
    with duckdb.connect() as connection:
        connection.execute("SET preserve_insertion_order = false")
        connection.execute(
            f"""COPY (SELECT CAST(floor(exp(random() * ln(1e6))) AS BIGINT) AS item,
                CAST(floor({rows} / 50 * pow(random(), 3)) AS BIGINT) AS "user"
                FROM range({rows})) TO '{path}' (FORMAT parquet, COMPRESSION zstd)"""
        )


def seconds(path: Path, **plan: Any) -> tuple[float, int]:
    """The time of one release, and how many groups it has."""
    before = time.perf_counter()
    released = dp.release(path, unit="user", by="item", epsilon=1, delta=1e-8, **plan)
    return time.perf_counter() - before, released.to_arrow().num_rows


def main() -> None:
    """Print the times and their ratio."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--spill", action="store_true")
    options = parser.parse_args()
    if options.spill:
        pairs.MEMORY_SHARE = 0.0  # type: ignore[misc]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "events.parquet"
        generate(path, options.rows)
        plain: list[tuple[float, int]] = []
        adaptive: list[tuple[float, int]] = []
        for _ in range(options.repeats):
            plain.append(seconds(path, max_groups=10))
            adaptive.append(seconds(path))
    best, other = min(plain), min(adaptive)
    print(f"{options.rows:,} rows, fastest of {options.repeats}")
    print(f"  plain release, max_groups = 10   {best[0]:6.2f} s  {best[1]:,} groups")
    print(f"  adaptive release                 {other[0]:6.2f} s  {other[1]:,} groups")
    print(f"  ratio                            {other[0] / best[0]:6.2f}  (at most 2.5)")


if __name__ == "__main__":
    main()
