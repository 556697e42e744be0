"""Charges per second with 1 and 8 writers, beside the limit: a bare INSERT in a durable transaction of the same database.

Also: reading, composing and checking a history of 10,000 releases, as `ledger show` and `ledger verify` do.

    python benchmarks/ledger.py [--seconds 3]
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import sqlalchemy as sa

from dphist.ledger import DataSet, Ledger, Status, database
from dphist.privacy.composition import of_gaussian
from dphist.words import canonical

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
from postgres_server import running_server

COST = of_gaussian(1e-6, 1e-16, epsilon=1e-6, delta=1e-15)


def charge(address: str) -> Callable[[], object]:
    """One charge: reserve, durable."""
    opened = Ledger(address)
    return lambda: opened.reserve("events", COST, unit="user", command="release", facts={"mechanism": "benchmark"})


def insert(address: str) -> Callable[[], object]:
    """The limit: one row in one durable transaction."""
    found = database.Database(address)
    statement = sa.text("INSERT INTO bare (body) VALUES (:body)")

    def run() -> None:
        with found._engine.connect() as plain, plain.execution_options(dphist_begin="BEGIN IMMEDIATE").begin() as one:
            assert one.connection is not None
            one.connection.execute(statement, {"body": "x" * 800})

    return run


def rate(make: Callable[[str], Callable[[], object]], address: str, writers: int, seconds: float) -> float:
    """Transactions per second of forked writers."""
    reader, writer = os.pipe()
    children = []
    for _ in range(writers):
        if (pid := os.fork()) == 0:
            run = make(address)
            run()
            done, end = 0, time.perf_counter() + seconds
            while time.perf_counter() < end:
                run()
                done += 1
            os.write(writer, f"{done}\n".encode())
            os._exit(0)
        children.append(pid)
    for pid in children:
        os.waitpid(pid, 0)
    os.close(writer)
    with os.fdopen(reader) as lines:
        return sum(map(int, lines)) / seconds


def table(name: str, address: str, seconds: float) -> None:
    """One database."""
    with Ledger(address, create=True) as opened:
        opened.create(DataSet("events", 20.0, 0.5, "user", "gdp"))
        with opened._database.write("events") as connection:
            connection.exec_driver_sql("CREATE TABLE bare (body TEXT)")
    for writers in (1, 8):
        charges, limit = (rate(make, address, writers, seconds) for make in (charge, insert))
        print(f"{name:<12}{writers:>8}{charges:>12.0f}{limit:>14.0f}{charges / limit:>9.2f}")


def history(folder: Path, releases: int = 10_000) -> None:
    """A history of many releases, written at once, then read as the commands read it."""
    address = str(folder / "history.db")
    with Ledger(address, create=True) as opened:
        opened.create(DataSet("events", 1.0, 1e-6, "user", "gdp"))
        first = before = opened.reserve("events", COST, unit="user", command="release", facts={})
        rows = []
        for sequence in range(2, releases + 1):
            total = before.total + first.total
            entry = replace(
                before, sequence=sequence, previous=before.hash, noise_total=total.noise, delta_total=total.delta
            )
            before = replace(entry, hash=entry.digest())
            rows.append({**before.to_data(), "body": canonical(before.body)})
        with opened._database.write("events") as connection:
            connection.execute(sa.insert(database.entries), rows)
        steps: list[tuple[str, Callable[[], object]]] = [
            ("read", lambda: opened.entries("events")),
            ("compose (sum, project)", lambda: Status(status.dataset, status.entries).more_like_the_last()),
            ("show, all of it", lambda: str(opened.status("events"))),
            ("verify", lambda: opened.verify("events")),
        ]
        status = opened.status("events")
        status.comparison()  # imports
        print(f"\n{releases:,} releases")
        for name, run in steps:
            begin = time.perf_counter()
            run()
            print(f"  {name:<24}{time.perf_counter() - begin:8.3f} s")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=3.0)
    seconds = parser.parse_args().seconds
    print(f"{'database':<12}{'writers':>8}{'charges/s':>12}{'bare INSERT/s':>14}{'ratio':>9}")
    with tempfile.TemporaryDirectory() as name:
        table("SQLite", str(Path(name) / "ledger.db"), seconds)
        with running_server() as address:
            table("PostgreSQL", address, seconds)
        history(Path(name))


if __name__ == "__main__":
    main()
