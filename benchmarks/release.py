"""How fast a whole release is: next to the plain count, which is the limit, and next to other libraries.

    python benchmarks/release.py                                   10^5, 10^6 and 10^7 rows
    python benchmarks/release.py --peers                           also OpenDP, PipelineDP and PyDP
    python benchmarks/release.py --rows 1e8 --memory-limit 4GB     spills to disk

dphist is measured from end to end: plan, bounding, counting, noise, threshold, Parquet written. Every run has a process of its
own, so that its peak memory is its own; imports are not timed. The ways take turns and the fastest turn counts, so that other
work on the machine disturbs all alike; the CPU time beside it is disturbed least. Of the peaks of memory the largest counts.

The peers are installed by pip into environments of their own under build/, when they are first asked for.
"""

from __future__ import annotations

# Only the standard library up here: a child process inherits the peak memory of the process that starts it.
import argparse
import json
import os
import platform
import resource
import subprocess
import sys
import tempfile
import time
import venv
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

BUILD = Path(__file__).resolve().parent.parent / "build"
PEERS = Path(__file__).resolve().parent / "peers"
EPSILON, DELTA, MAX_GROUPS = 1.0, 1e-8, 10
ITEMS, ROWS_PER_UNIT = 1_000_000, 50
CHUNK, ROW_GROUP = 1 << 20, 1 << 17
PLAIN_SQL = "SELECT item, count(DISTINCT \"user\") AS units FROM '{path}' GROUP BY item"
SLOW = 20.0
"""Seconds after which a way is not repeated."""

TARGET_ROWS = 10**7
MOST_TIME, MOST_MEMORY, LEAST_GAIN = 2.5, 1.5, 8.0

Found = dict[str, Any]


@dataclass(frozen=True)
class Settings:
    """How much of the machine each way may use."""

    threads: int
    memory_limit: str | None


@dataclass(frozen=True)
class Peer:
    """Another library: what pip installs and how its script is called."""

    environment: str
    packages: tuple[str, ...]
    command: tuple[str, ...]


PEER_WAYS = {
    "OpenDP, as documented": Peer("opendp", ("opendp[polars]",), ("run_opendp.py", "documented")),
    "OpenDP, fastest query": Peer("opendp", ("opendp[polars]",), ("run_opendp.py", "fastest")),
    "OpenDP, bounded by hand": Peer("opendp", ("opendp[polars]",), ("run_opendp.py", "measurement")),
    "PipelineDP, local": Peer("pipelinedp", ("pipeline-dp", "pyarrow"), ("run_pipelinedp.py",)),
    "PyDP, Python loop": Peer("pydp", ("python-dp", "pyarrow"), ("run_pydp.py",)),
}


def generate(path: Path, rows: int) -> None:
    """Zipf items (a million, density 1/x), units with a cubic skew, fifty records per unit on average; the same every time."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    generator = np.random.default_rng(1)
    units, part = max(1, rows // ROWS_PER_UNIT), path.with_suffix(".part")
    schema = pa.schema([("user", pa.int64()), ("item", pa.int64())])
    with pq.ParquetWriter(part, schema, compression="zstd") as writer:
        for begin in range(0, rows, CHUNK):
            size = min(CHUNK, rows - begin)
            users = (units * generator.random(size) ** 3).astype(np.int64)
            items = np.exp(generator.random(size) * np.log(ITEMS)).astype(np.int64)
            writer.write_table(pa.table([users, items], schema=schema), row_group_size=ROW_GROUP)
    part.rename(path)


def with_dphist(settings: Settings) -> Callable[[Path], Found]:
    """A release from file to file."""
    from dphist import release as release_of  # loaded on first use, which is here, before the clock starts
    from dphist.engines.query import PerformanceSettings

    performance = PerformanceSettings(settings.threads, settings.memory_limit, path_of_spill())

    def run(path: Path) -> Found:
        marks = [("planning", time.perf_counter())]
        release = release_of(
            path,
            unit="user",
            by="item",
            epsilon=EPSILON,
            delta=DELTA,
            max_groups=MAX_GROUPS,
            settings=performance,
            progress=lambda phase: marks.append((phase, time.perf_counter())),
        )
        marks.append(("writing", time.perf_counter()))
        with tempfile.TemporaryDirectory(dir=BUILD) as directory:
            release.write(Path(directory) / "out.parquet")
        marks.append(("", time.perf_counter()))
        phases = {name: end - begin for (name, begin), (_, end) in pairwise(marks)}
        return {"groups": release.to_arrow().num_rows, "phases": phases}

    return run


def with_duckdb(settings: Settings) -> Callable[[Path], Found]:
    """The count without privacy: what any release has to do at least."""
    import duckdb
    import pyarrow as pa  # noqa: F401 - loaded before the clock starts

    def run(path: Path) -> Found:
        with tempfile.TemporaryDirectory(dir=path_of_spill()) as spill, duckdb.connect() as connection:
            connection.execute(f"SET preserve_insertion_order = false; SET temp_directory = '{spill}'")
            connection.execute(f"SET threads = {settings.threads}")
            if settings.memory_limit is not None:
                connection.execute(f"SET memory_limit = '{settings.memory_limit}'")
            return {"groups": connection.sql(PLAIN_SQL.format(path=path)).to_arrow_table().num_rows}

    return run


def with_polars(settings: Settings) -> Callable[[Path], Found]:
    """The same count in Polars, which has no memory limit; threads come from the environment."""
    import polars as pl

    def run(path: Path) -> Found:
        counts = pl.scan_parquet(path).group_by("item").agg(pl.col("user").n_unique()).collect()
        return {"groups": counts.height}

    return run


OWN_WAYS: dict[str, Callable[[Settings], Callable[[Path], Found]]] = {
    "DuckDB, count(DISTINCT)": with_duckdb,
    "Polars, n_unique": with_polars,
    "dphist": with_dphist,
}
PLAIN, OURS = "DuckDB, count(DISTINCT)", "dphist"


def path_of_spill() -> Path:
    """Where what does not fit into memory goes."""
    directory = BUILD / "bench-data"
    directory.mkdir(parents=True, exist_ok=True)
    return directory


def measure(way: str, path: Path, settings: Settings) -> Found:
    """One run, in this process."""
    run = OWN_WAYS[way](settings)
    begin, cpu = time.perf_counter(), time.process_time()
    found = run(path)
    seconds, cpu = time.perf_counter() - begin, time.process_time() - cpu
    unit = 1024**2 if sys.platform == "darwin" else 1024
    megabytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit
    return {"seconds": seconds, "cpu": cpu, "megabytes": megabytes, **found}


def call(command: list[str], settings: Settings, limit: float | None = None) -> Found:
    """Run a command that prints JSON; what went wrong is under `failure`."""
    environment = {**os.environ, "POLARS_MAX_THREADS": str(settings.threads)}
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=limit, env=environment)
    except subprocess.TimeoutExpired:
        return {"failure": f"stopped after {limit:.0f} s"}
    if done.returncode != 0:
        lines = [line.strip() for line in done.stderr.splitlines() if line.strip()]
        return {"failure": lines[-1][:100] if lines else f"exit code {done.returncode}"}
    found: Found = json.loads(done.stdout.splitlines()[-1])
    return found


def this_script(*arguments: str, settings: Settings) -> list[str]:
    """This script again, for one step in a process of its own."""
    memory = [] if settings.memory_limit is None else ["--memory-limit", settings.memory_limit]
    return [sys.executable, __file__, "--threads", str(settings.threads), *memory, *arguments]


def install(peer: Peer) -> tuple[Path, str | None]:
    """The interpreter of a peer's environment, and why there is none."""
    home = BUILD / f"bench-{peer.environment}"
    python = home / ("Scripts" if os.name == "nt" else "bin") / "python"
    ready = home / "installed"
    if ready.exists():
        return python, None
    venv.create(home, with_pip=True, clear=True)
    command = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *peer.packages]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        return python, "cannot be installed: " + (done.stderr.strip().splitlines() or ["no reason given"])[-1][:100]
    ready.touch()
    return python, None


def version_of(peer: Peer) -> str:
    """What pip installed."""
    python, failure = install(peer)
    name = peer.packages[0].partition("[")[0]
    if failure is not None:
        return f"{name} {failure}"
    script = f"from importlib.metadata import version; print(version({name!r}))"
    return f"{name} {subprocess.run([python, '-c', script], capture_output=True, text=True).stdout.strip()}"


def merged(before: Found | None, found: Found) -> Found:
    """The fastest turn with the least CPU time and the largest peak."""
    if before is None or "failure" in found or "failure" in before:
        return found if before is None or "failure" in before else before
    best = dict(found if found["seconds"] <= before["seconds"] else before)
    best["cpu"] = min(found["cpu"], before["cpu"])
    best["megabytes"] = max(found["megabytes"], before["megabytes"])
    return best


def compare(path: Path, settings: Settings, repeats: int, peers: bool, limit: float) -> dict[str, Found]:
    """Every way in turn, several times."""
    starts: dict[str, Callable[[], Found]] = {}
    for way in OWN_WAYS:
        starts[way] = partial(call, this_script("--one", way, "--data", str(path), settings=settings), settings)
    for way, peer in PEER_WAYS.items() if peers else ():
        python, failure = install(peer)
        command = [str(python), str(PEERS / peer.command[0]), *peer.command[1:], str(path)]
        starts[way] = partial(dict, failure=failure) if failure else partial(call, command, settings, limit)
    best: dict[str, Found] = {}
    for turn in range(repeats):
        for way, start in starts.items():
            if turn > 0 and ("failure" in best[way] or (best[way]["seconds"] > SLOW and way in PEER_WAYS)):
                continue
            best[way] = merged(best.get(way), start())
    return best


def show(rows: int, best: dict[str, Found]) -> None:
    """One table, everything beside the plain count."""
    print(f"\n{rows:,} rows\n")
    print("| way | seconds | × plain | CPU s | × plain | peak MB | × plain | groups |")
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
    plain = best[PLAIN]
    for way, found in best.items():
        if "failure" in found:
            print(f"| {way} | {found['failure']} |")
            continue
        cells = []
        for name, digits in (("seconds", 2), ("cpu", 2), ("megabytes", 0)):
            ratio = f"{found[name] / plain[name]:.2f}" if "failure" not in plain else ""
            cells += [f"{found[name]:.{digits}f}", ratio]
        print(f"| {way} | {' | '.join(cells)} | {found['groups']:,} |")
    phases = best[OURS].get("phases", {})
    print("\ndphist: " + ", ".join(f"{name} {seconds:.2f} s" for name, seconds in phases.items()), flush=True)


def show_targets(best: dict[str, Found]) -> None:
    """What was promised, beside what came out."""
    ours, plain = best[OURS], best[PLAIN]
    if "failure" in ours or "failure" in plain:
        print("\nno ratios: a run failed")
        return
    time_ratio, memory_ratio = ours["seconds"] / plain["seconds"], ours["megabytes"] / plain["megabytes"]
    cpu_ratio = ours["cpu"] / plain["cpu"]

    def verdict(holds: bool) -> str:
        return "held" if holds else "MISSED"

    print("\n| target | measured | |\n| --- | ---: | --- |")
    print(
        f"| time ≤ {MOST_TIME} × plain count | {time_ratio:.2f} (CPU {cpu_ratio:.2f}) | {verdict(time_ratio <= MOST_TIME)} |"
    )
    print(
        f"| peak memory ≤ {MOST_MEMORY} × plain count | {memory_ratio:.2f} | {verdict(memory_ratio <= MOST_MEMORY)} |"
    )
    for way in (way for way in PEER_WAYS if way.startswith("OpenDP")):
        peer = best.get(way, {"failure": "not run (--peers)"})
        if "failure" in peer:
            print(f"| ≥ {LEAST_GAIN:.0f} × faster than {way} | {peer['failure']} | |")
            continue
        gain, cpu_gain = peer["seconds"] / ours["seconds"], peer["cpu"] / ours["cpu"]
        shown = f"{gain:.1f} (CPU {cpu_gain:.1f})"
        print(f"| ≥ {LEAST_GAIN:.0f} × faster than {way} | {shown} | {verdict(gain >= LEAST_GAIN)} |", flush=True)


def processor() -> str:
    """The processor's name, where the system tells it."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(line.split(":")[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()


def arguments_of() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=float, action="append", help="how many rows; may be repeated (1e5 1e6 1e7)")
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--memory-limit", help="for DuckDB and dphist, such as 4GB; without it the engine's own choice")
    parser.add_argument("--repeats", type=int, default=3, help="turns; the fastest counts")
    parser.add_argument(
        "--peers", action="store_true", help="compare with other libraries (installs them under build/)"
    )
    parser.add_argument("--peer-limit", type=float, default=300.0, help="seconds that a peer may take at one size")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    parser.add_argument("--generate", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--data", type=Path, help=argparse.SUPPRESS)
    return parser.parse_args()


def main() -> None:
    """Generate, measure, print."""
    arguments = arguments_of()
    settings = Settings(arguments.threads, arguments.memory_limit)
    if arguments.one:
        print(json.dumps(measure(arguments.one, arguments.data, settings)))
        return
    if arguments.generate:
        generate(arguments.data, arguments.generate)
        return
    load = f", load {os.getloadavg()[0]:.1f}" if hasattr(os, "getloadavg") else ""
    print(f"{processor()}, {os.cpu_count()} CPUs{load}, Python {platform.python_version()}")
    memory = "no memory limit" if settings.memory_limit is None else f"memory limit {settings.memory_limit}"
    print(f"{settings.threads} threads, {memory}, {arguments.repeats} turns")
    print(f"epsilon {EPSILON:g}, delta {DELTA:g}, at most {MAX_GROUPS} items per unit")
    if arguments.peers:
        print("peers: " + ", ".join(dict.fromkeys(version_of(peer) for peer in PEER_WAYS.values())), flush=True)
    for rows in map(int, arguments.rows or (1e5, 1e6, 1e7)):
        path = path_of_spill() / f"events-zipf{ITEMS}-units{rows // ROWS_PER_UNIT}-rows{rows}.parquet"
        if not path.exists():
            subprocess.run(
                this_script("--generate", str(rows), "--data", str(path), settings=settings),
                check=True,
            )
        best = compare(path, settings, arguments.repeats, arguments.peers, arguments.peer_limit)
        show(rows, best)
        if rows == TARGET_ROWS:
            show_targets(best)


if __name__ == "__main__":
    main()
