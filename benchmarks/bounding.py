"""How much bounding costs: the bounded histogram next to the plain count, in one run, as ratios.

Each way runs in a process of its own, so that its peak memory is its own; the ways take turns and the fastest of several
turns counts. The plain `count(DISTINCT unit)` is the limit: the same groups, without privacy.

    python benchmarks/bounding.py [--rows 10000000] [--repeats 5] [--threads 2] [--memory 4GB] [--only plain,dphist]
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import duckdb

from dphist.aggregates.measures import Lattice, Measure
from dphist.aggregates.total import SumOfUnit
from dphist.engines.duckdb.engine import DuckDBEngine
from dphist.engines.histogram import ContributionBounds
from dphist.engines.query import GroupByQuery, Key, PerformanceSettings

MAX_GROUPS = 10
VALUE = SumOfUnit("value", 0.0, 100.0, lattice=Lattice(50.0, 2.0**-14))


def generate(path: Path, rows: int) -> None:
    """Zipf items (a million, density 1/x), units with a cubic skew, fifty records per unit on average."""
    with duckdb.connect() as connection:
        connection.execute("SET preserve_insertion_order = false")
        connection.execute(
            f"""COPY (SELECT CAST(floor(exp(random() * ln(1e6))) AS BIGINT) AS item,
                CAST(floor({rows} / 50 * pow(random(), 3)) AS BIGINT) AS "user", round(random() * 100, 2) AS value
                FROM range({rows})) TO '{path}' (FORMAT parquet, COMPRESSION zstd)"""
        )


def plain(path: Path, settings: PerformanceSettings, sql: str) -> None:
    """One query without privacy."""
    with tempfile.TemporaryDirectory() as spill, duckdb.connect() as connection:
        connection.execute(f"SET preserve_insertion_order = false; SET temp_directory = '{spill}'")
        connection.execute(f"SET threads = {settings.threads}; SET memory_limit = '{settings.memory_limit}'")
        connection.sql(sql.format(path=path)).to_arrow_table()


def bounded(path: Path, settings: PerformanceSettings, key: Key, max_groups: int | None, *measures: Measure) -> None:
    """The engine, as a release calls it."""
    query = GroupByQuery("user", (key,), measures)
    DuckDBEngine(settings).histogram(path, query, ContributionBounds(max_groups))


ITEM = Key("item")
LINK = Key("link", "'https://example.org/a/page/' || item")
COUNT = "SELECT item, count(DISTINCT \"user\") FROM '{path}' GROUP BY item"
COUNT_SUM = "SELECT item, count(DISTINCT \"user\"), sum(value) FROM '{path}' GROUP BY item"
COUNT_LINK = (
    "SELECT 'https://example.org/a/page/' || item AS link, count(DISTINCT \"user\") FROM '{path}' GROUP BY link"
)

WAYS: dict[str, tuple[str, Callable[[Path, PerformanceSettings], None]]] = {
    "plain": ("plain", lambda path, settings: plain(path, settings, COUNT)),
    "dphist": ("plain", lambda path, settings: bounded(path, settings, ITEM, MAX_GROUPS)),
    "dphist-unbounded": ("plain", lambda path, settings: bounded(path, settings, ITEM, None)),
    "plain-sum": ("plain-sum", lambda path, settings: plain(path, settings, COUNT_SUM)),
    "dphist-sum": ("plain-sum", lambda path, settings: bounded(path, settings, ITEM, MAX_GROUPS, VALUE)),
    "plain-text": ("plain-text", lambda path, settings: plain(path, settings, COUNT_LINK)),
    "dphist-text": ("plain-text", lambda path, settings: bounded(path, settings, LINK, MAX_GROUPS)),
}


def measure(way: str, path: Path, settings: PerformanceSettings) -> dict[str, float]:
    """Seconds and peak megabytes of one way, in this process."""
    before = time.perf_counter()
    WAYS[way][1](path, settings)
    seconds = time.perf_counter() - before
    return {"seconds": seconds, "megabytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=float, default=1e7)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--memory", default="4GB")
    parser.add_argument("--only", default=",".join(WAYS), help="comma-separated ways")
    parser.add_argument("--data", type=Path, help="a Parquet file with user, item and value instead of a generated one")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    settings = PerformanceSettings(arguments.threads, arguments.memory)
    if arguments.one:
        print(json.dumps(measure(arguments.one, arguments.data, settings)))
        return
    with tempfile.TemporaryDirectory() as directory:
        path = arguments.data or Path(directory) / "events.parquet"
        if arguments.data is None:
            generate(path, int(arguments.rows))
        best: dict[str, dict[str, float]] = {}
        for _ in range(arguments.repeats):
            for way in arguments.only.split(","):
                command = [sys.executable, __file__, "--one", way, "--data", str(path)]
                command += ["--threads", str(arguments.threads), "--memory", arguments.memory]
                found = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
                best[way] = {name: min(value, best.get(way, found)[name]) for name, value in found.items()}
    print(f"{arguments.rows:.0e} rows, {arguments.threads} threads, {arguments.memory}, best of {arguments.repeats}")
    print(f"{'way':<18}{'seconds':>9}{'x plain':>9}{'peak MB':>9}{'x plain':>9}")
    for way, found in best.items():
        limit = best.get(WAYS[way][0], found)
        ratios = {name: found[name] / limit[name] for name in found}
        print(
            f"{way:<18}{found['seconds']:>9.2f}{ratios['seconds']:>9.2f}{found['megabytes']:>9.0f}{ratios['megabytes']:>9.2f}"
        )


if __name__ == "__main__":
    main()
