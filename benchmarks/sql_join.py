"""What a join costs: a release of a table joined with a public one, over the same release of the file that the join makes.

    python benchmarks/sql_join.py                      5 * 10^6 rows
    python benchmarks/sql_join.py --rows 1e6 --repeats 5

Users, items and amounts; 1,000,000 items have a category each in a public table. Each run has a process of its own; both
ways take turns, and the least CPU time counts, which other work on the machine disturbs least. Of peaks the largest counts.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
from pathlib import Path

from release import CHUNK, DELTA, EPSILON, ITEMS, MAX_GROUPS, ROW_GROUP, ROWS_PER_UNIT, path_of_spill

CATEGORIES = 2_000
MADE, JOINED, OF_UNIT = "the file", "joined", "joined on the unit"


def generate(folder: Path, rows: int) -> None:
    """Events, the public table of items, a table of users, and the file that a join of the first two makes."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    generator, users = np.random.default_rng(1), max(1, rows // ROWS_PER_UNIT)
    categories = generator.integers(0, CATEGORIES, ITEMS)
    names = pa.array([f"category {number}" for number in range(CATEGORIES)])
    pq.write_table(pa.table({"item": np.arange(ITEMS), "category": names.take(categories)}), folder / "items.parquet")
    pq.write_table(
        pa.table({"user": np.arange(users), "age": generator.integers(0, 90, users)}), folder / "users.parquet"
    )
    fields = [("user", pa.int64()), ("item", pa.int64()), ("amount", pa.float64())]
    with (
        pq.ParquetWriter(folder / "events.parquet", pa.schema(fields)) as events,
        pq.ParquetWriter(folder / "made.parquet", pa.schema([*fields, ("category", pa.string())])) as made,
    ):
        for begin in range(0, rows, CHUNK):
            size = min(CHUNK, rows - begin)
            owners = (users * generator.random(size) ** 3).astype(np.int64)
            items = np.exp(generator.random(size) * np.log(ITEMS - 1)).astype(np.int64)
            table = pa.table({"user": owners, "item": items, "amount": generator.random(size)})
            events.write_table(table, row_group_size=ROW_GROUP)
            joined = table.append_column("category", names.take(categories[items]))
            made.write_table(joined, row_group_size=ROW_GROUP)


def measure(way: str, folder: Path, threads: int) -> dict[str, float]:
    """CPU seconds and peak memory of one release in this process."""
    from dphist import release
    from dphist.engines.query import PerformanceSettings
    from dphist.engines.relations import Derived, Join, Scan

    columns = {name: name for name in ("user", "item", "amount")}
    events = Scan("events", columns, "user", unit_kind="user")
    tree = Join(events, Scan("items", {"item_2": "item", "category": "category"}), "inner", (("item", "item_2"),))
    if way == OF_UNIT:
        users = Scan("users", {"user_2": "user", "age": "age"}, "user_2", unit_kind="user")
        tree = Join(tree, users, "inner", (("user", "user_2"),))
    tables = {name: folder / f"{name}.parquet" for name in ("events", "items", "users")}
    source = folder / "made.parquet" if way == MADE else Derived(tree, tables)
    before = resource.getrusage(resource.RUSAGE_SELF)
    release(
        source,
        unit="user",
        by="category",
        sums={"amount": (0, 1)},
        max_groups=MAX_GROUPS,
        epsilon=EPSILON,
        delta=DELTA,
        settings=PerformanceSettings(threads, None, path_of_spill()),
    )
    after = resource.getrusage(resource.RUSAGE_SELF)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {"cpu": cpu, "megabytes": after.ru_maxrss / (1024**2 if sys.platform == "darwin" else 1024)}


def main() -> None:
    """Generate, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=float, default=5e6)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--one", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    folder = path_of_spill() / f"sql-join-rows{int(arguments.rows)}"
    if arguments.one:
        print(json.dumps(measure(arguments.one, folder, arguments.threads)))
        return
    if not folder.exists():
        folder.mkdir(parents=True)
        generate(folder, int(arguments.rows))
    runs: dict[str, list[dict[str, float]]] = {MADE: [], JOINED: [], OF_UNIT: []}
    shared = ["--rows", str(arguments.rows), "--threads", str(arguments.threads)]
    for _ in range(arguments.repeats):
        for way, found in runs.items():
            command = [sys.executable, __file__, *shared, "--one", way]
            found.append(json.loads(subprocess.run(command, check=True, capture_output=True).stdout))
    cpu = {way: min(run["cpu"] for run in found) for way, found in runs.items()}
    peak = {way: max(run["megabytes"] for run in found) for way, found in runs.items()}
    print(
        f"{int(arguments.rows):,} rows\n\n| release of | CPU s | × | peak MB | × |\n| --- | ---: | ---: | ---: | ---: |"
    )
    for way in runs:
        print(
            f"| {way} | {cpu[way]:.2f} | {cpu[way] / cpu[MADE]:.2f} | {peak[way]:.0f} | {peak[way] / peak[MADE]:.2f} |"
        )


if __name__ == "__main__":
    main()
