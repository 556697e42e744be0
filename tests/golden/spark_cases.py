"""Golden cases on Spark. Executors are other processes: they get a source of zeros, so that no noise is added there."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from harness import EVENTS, LIGHT, checks, cli, error, file, rows

import dphist as dp
from spark_sessions import frame
from word_sources import drawn_from

REQUESTS: dict[str, dict[str, Any]] = {
    "max-groups": {"max_groups": 3},
    "laplace": {"max_groups": 2, "mechanism": "laplace", "order": "key", "where": "likes = 1", "null_keys": "drop"},
    "everything": {
        "max_groups": 4,
        "epsilon": 2.0,
        "sums": {"likes": (0, 1), "spent": (-2, 18)},
        "means": {"spent": (0, 10)},
        "rows": 2,
        "total": True,
        "intervals": 0.95,
        "integers": True,
        "by": ["c=upper(country)", "likes"],
    },
    "sparsity": {"sparsity": 25, "mechanism": "correlated-gaussian"},
    "keys": {"keys": "keys.txt", "max_groups": 2, "sums": {"likes": (0, 1)}, "total": True},
    "sketch": {"sketch": 10},
    "adaptive": {"mechanism": "adaptive", "sums": {"spent": (-2, 18)}, "epsilon": 2.0, "intervals": 0.9},
    "default": {"source": LIGHT, "total": True},
}


def _no_noise() -> Any:
    """A source of zeros whose class travels to the executors by value."""

    class Zeros:
        def words(self, count: int) -> Any:
            return np.zeros(count, dtype=np.uint64)

    return Zeros()


def _release(name: str) -> dict[str, Any]:
    options = {"unit": "user", "by": "item", "epsilon": 1.0, "delta": 1e-6, **REQUESTS[name]}
    phases: list[str] = []
    source = frame(options.pop("source", EVENTS), 2)
    made = drawn_from(_no_noise(), dp.release, source, progress=phases.append, **options)
    with made:
        made.write(Path.cwd() / "out.csv")  # Spark's processes are in another folder
        metadata = made.metadata()
        metadata["plan"] = metadata["plan"]["mechanism"]
        return {
            "without noise": rows(made.to_arrow()),
            "total": made.total,
            "schema": made.to_spark().schema.simpleString(),
            "metadata": metadata,
            "phases": phases,
            "verify": checks("out.csv"),
        }


def _top_k() -> dict[str, Any]:
    """The driver draws this noise, from the predictable stream."""
    found = {}
    for method in ("from-top", "ranked"):
        made = dp.top_k(frame(EVENTS, 2), unit="user", by="item", k=4, epsilon=1.0, delta=1e-6, method=method)
        made.write(f"{method}.csv")
        found[method] = {"table": rows(made.table), "complete": made.complete, "file": file(f"{method}.csv")}
    return found


def _refused() -> dict[str, str]:
    wrong: dict[str, dict[str, Any]] = {
        "no such unit": {"unit": "users"},
        "no such key": {"by": "items"},
        "an aggregate": {"by": "n=count(*)"},
        "an unknown function": {"by": "n=md5(item)"},
        "a sum of text": {"sums": {"country": (0, 1)}},
        "not a condition": {"where": "country"},
    }
    usual = {"unit": "user", "by": "item", "epsilon": 1.0, "delta": 1e-6, "max_groups": 3}
    return {name: error(partial(dp.release, frame(EVENTS), **{**usual, **options})) for name, options in wrong.items()}


def _commands() -> dict[str, Any]:
    """What the command line explains; nothing of it runs."""
    people = f"release {Path.cwd()}/events.parquet --unit user --by item --engine spark --epsilon 1 --delta 1e-6"
    return cli(
        f"{people} --max-groups 3 --explain --sum likes:0:1",
        f"{people} --explain --dry-run",
    )


SPARK_CASES: dict[str, Callable[[], Any]] = {
    **{f"spark-{name}": partial(_release, name) for name in REQUESTS},
    "spark-top-k": _top_k,
    "spark-errors": _refused,
    "spark-commands": _commands,
}
