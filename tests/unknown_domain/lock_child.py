"""The process whose files are taken away: it stops at a point that it is told, says so, and goes on when it is told."""

import os
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from multiprocessing.synchronize import Barrier
from typing import Any
from unittest.mock import patch

import pyarrow as pa

import dphist as dp
from dphist.engines.duckdb.engine import DuckDBEngine, DuckDBRecords
from dphist.engines.histogram import ContributionBounds, Histogram
from dphist.engines.query import GroupByQuery, Key
from dphist.mechanisms import ContinualCounts, Ranked

RESULTS = 10
EVENTS = pa.table({"user": list(range(900)), "page": ["abcdef"[i % 6] for i in range(900)]})


def start_session(path: str, results: int = RESULTS) -> int:
    dp.Session.start(path, unit="user", epsilon=50.0, delta=1e-6, results=results, queries=4 * results, shortlist=20)
    return 1


def query(path: str, k: int = 5) -> int:
    """How many results were given out."""
    table, complete = dp.Session(path).query(EVENTS, by="page", k=k)
    return int(table.num_rows) + (not complete)


def start_stream(path: str) -> int:
    dp.Continual.start(path, unit="user", by="page", rounds=4, max_groups=1, epsilon=1.0, delta=1e-6)
    return 1


def add(path: str) -> list[dict[str, Any]]:
    """What the first round gives out."""
    rows: list[dict[str, Any]] = dp.Continual(path).add(EVENTS, "monday").table.to_pylist()
    return rows


WORK: dict[str, Callable[[str], object]] = {
    "start session": start_session, "query": query, "start stream": start_stream, "add": add
}  # fmt: skip

POINTS: dict[str, tuple[object, str, int]] = {
    "reading": (DuckDBRecords, "histogram", 1),
    "choosing": (Ranked, "choose", 1),
    "drawing": (ContinualCounts, "draw", 1),
    "before the first rename": (os, "fsync", 1),
    "behind the first rename": (os, "fsync", 2),
    "before the second rename": (os, "fsync", 3),
    "behind the second rename": (os, "fsync", 4),
}
"""A function and which of its calls to stop at. The files are made durable before and behind each rename."""


def obey(pipe: Connection) -> None:
    """Take (work, path, point), stop there, and send what was given out; None if that was refused."""
    while (order := pipe.recv()) is not None:
        work, path, point = order
        owner, name, call = POINTS[point]
        real, calls = getattr(owner, name), 0

        def stop(*args: Any, real: Any = real, call: int = call, **options: Any) -> Any:
            nonlocal calls
            calls += 1
            if calls == call:
                pipe.send("stopped")
                pipe.recv()
            return real(*args, **options)

        with patch.object(owner, name, stop):
            try:
                found = WORK[work](path)
            except (ValueError, OSError):
                found = None
        pipe.send(("done", found))


def use_up(path: str, seed: int, ready: Barrier, pipe: Connection) -> None:
    """Ask until nothing is left, and send how much was given out. The records are counted once: locks are the matter here."""
    session, total = dp.Session(path), 0
    asked = GroupByQuery("user", (Key("page"),))
    largest = DuckDBEngine().histogram(EVENTS, asked, ContributionBounds(), largest=21)

    def count(*_: object, **__: object) -> Histogram:
        time.sleep(0.02)
        return largest

    ready.wait()
    with patch.object(DuckDBRecords, "histogram", count):
        for turn in range(1000):
            try:
                total += query(path, 1 + (turn + seed) % 3)
            except (ValueError, OSError):
                account = session.account
                if min(account.left_results, account.left_queries) < 1:
                    break
                time.sleep(0.005)
    pipe.send(total)
