"""How a release on Spark grows, next to the plain count of the same cluster: time, memory of each executor, shuffles.

    python benchmarks/spark.py                           10^6 and 10^7 rows on two executors of this machine
    python benchmarks/spark.py --rows 1e6 1e7 1e8 --plot docs/pictures/spark-growth.png
    python benchmarks/spark.py --rows 1e7 --peers        also Tumult Analytics and PipelineDP, in environments of their own
    python benchmarks/spark.py --rows 1e7 --skew --memory 1024
                                                         one unit with a tenth of the rows, one group with half of the others

Every way has a session of its own on `local-cluster[2,1,...]`: two executor processes, one core each, that share nothing but
files. The data are those of benchmarks/release.py. dphist is measured from end to end, the plain count until its table is
written. The peak of an executor is the largest resident size of its JVM plus that of its Python processes. The peers need Spark
3.5: they are installed by pip under build/ when they are first asked for, and run on a cluster of the same shape.
"""

from __future__ import annotations

import argparse
import importlib
import io
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / "build"
sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parent / "peers")]

import release  # noqa: E402 - its neighbour, which loads nothing but the standard library

EPSILON, DELTA, MAX_GROUPS = 1.0, 1e-8, 10
MOST_TIME, MOST_MORE_SHUFFLES, TARGET_ROWS = 3.0, 2, 10**7
WAYS = ("plain count", "dphist", "dphist, adaptive")
PEERS = {
    "Tumult Analytics": release.Peer("spark-tumult", ("tmlt.analytics", "pyspark<3.6"), ("spark_tumult",)),
    "PipelineDP": release.Peer(
        "spark-pipelinedp", ("pipeline-dp", "pyspark<3.6", "pyarrow<20", "setuptools"), ("spark_pipelinedp",)
    ),
}
PLAIN = "SELECT item, COUNT(DISTINCT user) AS units FROM events GROUP BY item"

Found = dict[str, Any]


def generate(path: Path, rows: int, *, skew: bool) -> None:
    """The data of benchmarks/release.py; with `skew` one unit has a tenth of the rows, one group half of the others."""
    if not skew:
        release.generate(path, rows)
        return
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    place = np.arange(rows)
    generator = np.random.default_rng(1)
    user = np.where(place < rows // 10, -1, generator.integers(0, rows // 50, rows))
    item = np.where(generator.random(rows) < 0.5, 0, np.exp(generator.random(rows) * np.log(10**6)).astype(np.int64))
    item = np.where(user == -1, place, item)
    pq.write_table(pa.table({"user": user, "item": item}), path, row_group_size=1 << 17)


def session(memory: int) -> Any:
    """Two executors with one core each."""
    import pyspark
    from pyspark.sql import SparkSession

    home = BUILD / f"spark-home-{pyspark.__version__}"  # a local cluster puts its working directories there
    home.mkdir(parents=True, exist_ok=True)
    for part in ("bin", "jars", "python", "sbin"):
        if not (home / part).exists() and (Path(pyspark.__file__).parent / part).exists():
            (home / part).symlink_to(Path(pyspark.__file__).parent / part)
    os.environ["SPARK_HOME"] = str(home)
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    builder: Any = SparkSession.builder.master(f"local-cluster[2,1,{memory + 512}]")
    for name, value in {
        "spark.executor.memory": f"{memory}m",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": "32",
        "spark.sql.adaptive.enabled": "true",
        "spark.driver.memory": "1g",
        "spark.sql.warehouse.dir": str(BUILD / "spark-warehouse"),
    }.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def measure(way: str, path: Path, memory: int) -> Found:
    """One way in this process: warm up on a little, then from the file to a written table."""
    spark = session(memory)
    events = spark.read.parquet(str(path))
    events.createOrReplaceTempView("events")
    spark.sql(PLAIN.replace("FROM events", "FROM (SELECT * FROM events LIMIT 10000)")).collect()
    with tempfile.TemporaryDirectory(dir=BUILD) as directory:
        out, begin = f"{directory}/out.parquet", time.perf_counter()
        if way == "plain count":
            spark.sql(PLAIN).write.parquet(out)
        elif way in PEERS:
            importlib.import_module(PEERS[way].command[0]).run(spark, events, out, EPSILON, DELTA, MAX_GROUPS)
        else:
            import dphist as dp

            bound: dict[str, Any] = {} if "adaptive" in way else {"max_groups": MAX_GROUPS}
            engine = dp.SparkEngine(spark, directory)
            with dp.release(
                events, unit="user", by="item", epsilon=EPSILON, delta=DELTA, engine=engine, **bound
            ) as found:
                found.write(out)
        seconds = time.perf_counter() - begin
        groups = spark.read.parquet(out).count()
    executors = executor_usage()
    shuffles = shuffles_of(spark, events, way)
    spark.stop()
    return {
        "seconds": seconds,
        "groups": groups,
        "shuffles": shuffles,
        "peak_mb": [round(peak / 2**20) for peak, _ in executors],
        "cpu_seconds": sum(cpu for _, cpu in executors),
    }


def shuffles_of(spark: Any, events: Any, way: str) -> int | None:
    """Exchanges of rows by hash in the physical plan of the count; not for ways that are several queries."""
    printed = io.StringIO()
    with redirect_stdout(printed):
        if way == "plain count":
            spark.sql(PLAIN).explain()
        elif "adaptive" in way or way in PEERS:
            return None
        else:
            from dphist.engines.histogram import ContributionBounds
            from dphist.engines.query import GroupByQuery, Key
            from dphist.engines.spark.engine import SparkEngine

            with SparkEngine(spark).open(events, GroupByQuery("user", (Key("item"),))) as records:
                records.sql(records.histogram_sql(ContributionBounds(MAX_GROUPS))).explain()
    return printed.getvalue().count("Exchange hashpartitioning")


def executor_usage() -> list[tuple[int, float]]:
    """(peak resident bytes, CPU seconds) of each executor with its Python processes, from /proc."""
    parents: dict[int, int] = {}
    usage: dict[int, tuple[int, float]] = {}
    executors = []
    for status in Path("/proc").glob("[0-9]*/status"):
        try:
            facts = dict(line.split(":", 1) for line in status.read_text().splitlines() if ":" in line)
            command = (status.parent / "cmdline").read_bytes()
            times = (status.parent / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        process = int(status.parent.name)
        parents[process] = int(facts["PPid"])
        peak = int(facts.get("VmHWM", "0 kB").split()[0]) * 1024
        usage[process] = (
            peak,
            (int(times[11]) + int(times[12]) + int(times[13]) + int(times[14])) / os.sysconf("SC_CLK_TCK"),
        )
        if b"CoarseGrainedExecutorBackend" in command:
            executors.append(process)
    ours = [process for process in executors if os.getpid() in ancestors(process, parents)]
    found = []
    for executor in ours:
        family = [process for process in usage if executor in (process, *ancestors(process, parents))]
        found.append((sum(usage[p][0] for p in family), sum(usage[p][1] for p in family)))
    return found


def ancestors(process: int, parents: dict[int, int]) -> list[int]:
    """The parents of a process, up to the first."""
    found = []
    while (process := parents.get(process, 0)) > 1:
        found.append(process)
    return found


def run_child(way: str, path: Path, memory: int) -> Found:
    """A process of its own, so that its peaks are its own."""
    python, failure = release.install(PEERS[way]) if way in PEERS else (Path(sys.executable), None)
    if failure is not None:
        raise SystemExit(f"{way} {failure}")
    command = [str(python), "-W", "ignore", __file__, "--child", way, "--file", str(path), "--memory", str(memory)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"{way} failed: {done.stderr[-1500:]}")
    found: Found = json.loads(done.stdout.splitlines()[-1])
    return found


def plot(results: dict[int, dict[str, Found]], target: Path) -> None:
    """Time and memory over rows, both on logarithmic axes."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 3.6), layout="constrained")
    time_axes, memory_axes = figure.subplots(1, 2)
    for way in (*WAYS, *PEERS):
        rows = [size for size in results if way in results[size]]
        if not rows:
            continue
        time_axes.loglog(rows, [results[size][way]["seconds"] for size in rows], marker="o", label=way)
        memory_axes.loglog(rows, [max(results[size][way]["peak_mb"]) for size in rows], marker="o", label=way)
    for axes, label in ((time_axes, "seconds"), (memory_axes, "peak MB of the larger executor")):
        axes.set_xlabel("rows")
        axes.set_ylabel(label)
        axes.grid(alpha=0.3)
    figure.legend(*time_axes.get_legend_handles_labels(), loc="outside upper center", ncols=len(WAYS))
    figure.savefig(target, dpi=130)


def main() -> None:
    """Print tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=float, nargs="+", default=[1e6, 1e7])
    parser.add_argument("--memory", type=int, default=2048, help="MB of each executor's heap")
    parser.add_argument("--skew", action="store_true")
    parser.add_argument("--ways", nargs="+", choices=(*WAYS, *PEERS), default=list(WAYS))
    parser.add_argument("--peers", action="store_true", help="also the other libraries")
    parser.add_argument("--plot", type=Path)
    parser.add_argument("--child", help=argparse.SUPPRESS)
    parser.add_argument("--file", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.child:
        print(json.dumps(measure(given.child, given.file, given.memory)))
        return
    BUILD.mkdir(exist_ok=True)
    print(
        f"{platform.machine()}, {os.cpu_count()} cores, two executors with one core and {given.memory} MB of heap each\n"
    )
    ways = [*given.ways, *(PEERS if given.peers else ())]
    results: dict[int, dict[str, Found]] = {}
    for rows in map(int, given.rows):
        path = BUILD / f"{'skewed' if given.skew else 'events'}-{rows}.parquet"
        if not path.exists():
            generate(path, rows, skew=given.skew)
        results[rows] = {way: run_child(way, path, given.memory) for way in ways}
        print(f"{rows:,} rows{', skewed' if given.skew else ''}")
        print(
            f"  {'':<18}{'seconds':>9}{'× plain':>9}{'CPU s':>8}{'peak MB per executor':>22}{'shuffles':>10}{'groups':>11}"
        )
        base = results[rows].get("plain count", {}).get("seconds", float("nan"))
        for way, found in results[rows].items():
            peaks = ", ".join(map(str, found["peak_mb"]))
            shuffles = "" if found["shuffles"] is None else found["shuffles"]
            print(
                f"  {way:<18}{found['seconds']:>9.1f}{found['seconds'] / base:>9.2f}{found['cpu_seconds']:>8.0f}"
                f"{peaks:>22}{shuffles:>10}{found['groups']:>11,}",
                flush=True,
            )
        print()
    if not given.skew:
        remember(results)
    if given.plot is not None:
        plot(remembered(), given.plot)
    verdict(results)


def remember(results: dict[int, dict[str, Found]]) -> None:
    """Keep what was measured, so that sizes measured on different days can be drawn in one picture."""
    kept = remembered()
    for rows, ways in results.items():
        kept[rows] = {**kept.get(rows, {}), **ways}
    (BUILD / "spark-results.json").write_text(json.dumps(kept), encoding="utf-8")


def remembered() -> dict[int, dict[str, Found]]:
    """Everything that was measured on this machine."""
    path = BUILD / "spark-results.json"
    stored = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    return {int(rows): stored[rows] for rows in sorted(stored, key=int)}


def verdict(results: dict[int, dict[str, Found]]) -> None:
    """Whether the targets hold at the size they are stated for."""
    found = results.get(TARGET_ROWS, {})
    if "plain count" not in found or "dphist" not in found:
        return
    ratio = found["dphist"]["seconds"] / found["plain count"]["seconds"]
    more = found["dphist"]["shuffles"] - found["plain count"]["shuffles"]
    print(f"target: at most {MOST_TIME:g} times the plain count at 10^7 rows: {ratio:.2f}")
    print(f"target: at most {MOST_MORE_SHUFFLES} shuffles more: {more}")


if __name__ == "__main__":
    main()
