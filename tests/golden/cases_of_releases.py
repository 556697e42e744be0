"""Releases through `dp.release`: the table with noise, the same table without noise, and its metadata."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
from harness import EVENTS, LIGHT, checks, error, file, predictable, rows, seeded, zeros

import dphist as dp

REQUESTS: dict[str, dict[str, Any]] = {
    "max-groups": {"max_groups": 3},
    "add-the-deltas": {"max_groups": 3, "analysis": "add-the-deltas", "noise_std": 14.0},
    "laplace": {"max_groups": 2, "mechanism": "laplace"},
    "laplace-sums": {"max_groups": 2, "mechanism": "laplace", "sums": {"spent": (-2, 18)}, "means": {"likes": (0, 1)}},
    "sparsity": {"sparsity": 25, "mechanism": "correlated-gaussian"},
    "sparsity-enforced": {"sparsity": 8, "epsilon": 3.0},
    "sparsity-sums": {"sparsity": 30, "sums": {"likes": (0, 1)}, "mechanism": "correlated-gaussian", "epsilon": 4.0},
    "keys": {"keys": ["item 00", "item 01", "item 20", "nobody"]},
    "keys-file": {"keys": "keys.txt", "max_groups": 2, "sums": {"likes": (0, 1)}, "rows": 3, "total": True},
    "keys-of-two-columns": {"keys": "pairs.csv", "by": ["item", "country"], "order": "key"},
    "keys-sparse": {"keys": "keys.txt", "sparse": True, "epsilon": 2.0},
    "keys-sparse-max-groups": {"keys": "keys.txt", "sparse": True, "max_groups": 1, "means": {"spent": (-2, 18)}},
    "sketch": {"sketch": 20},
    "discrete": {"max_groups": 3, "noise": "discrete", "mechanism": "sparse-gaussian"},
    "discrete-correlated": {"sparsity": 25, "noise": "discrete"},
    "adaptive": {"mechanism": "adaptive"},
    "adaptive-sums": {
        "mechanism": "adaptive",
        "sums": {"likes": (0, 1), "spent": (-2, 18)},
        "means": {"spent": (0, 10)},
        "rows": 3,
        "epsilon": 2.0,
        "intervals": 0.9,
    },
    "default": {"epsilon": 2.0, "total": True, "intervals": 0.95},
    "default-light": {"source": LIGHT, "total": True},
    "default-means": {"epsilon": 2.0, "means": {"spent": (-2, 18)}, "integers": True},
    "voting": {"mechanism": "voting", "epsilon": 2.0},
    "voting-light": {"source": LIGHT, "mechanism": "voting"},
    "voting-sums": {"mechanism": "voting", "epsilon": 2.0, "sums": {"spent": (-2, 18)}, "rows": 2, "total": True},
    "everything": {
        "max_groups": 4,
        "epsilon": 2.0,
        "sums": {"likes": (0, 1), "spent": (-2, 18)},
        "means": {"spent": (0, 10)},
        "rows": 2,
        "weights": {"sum_likes": 0.25, "rows": 2.0},
        "total": True,
        "intervals": 0.95,
        "integers": True,
        "order": "key",
    },
    "low-threshold": {"max_groups": 3, "low_threshold": 50},
    "where": {"max_groups": 3, "where": "country = 'de' AND spent IS NOT NULL AND likes < 1"},
    "two-keys": {"max_groups": 3, "by": ["country", "item"], "epsilon": 3.0},
    "expressions": {
        "max_groups": 3,
        "by": ["c=upper(country)", "early=day < DATE '2024-01-15'", "half=CAST(floor(spent / 8) AS INTEGER)"],
        "order": "key",
        "epsilon": 3.0,
    },
    "dates": {"max_groups": 2, "by": "day", "order": "key", "epsilon": 4.0},
    "null-keys-dropped": {"max_groups": 3, "null_keys": "drop"},
    "csv": {"source": "events.csv", "max_groups": 3, "sums": {"spent": (-2, 18)}, "epsilon": 3.0},
    "csv-without-header": {
        "source": dp.Files(("bare.csv",), header=["user", "likes", "spent"], types={"likes": "INTEGER"}),
        "by": ["likes"],
        "max_groups": 1,
        "sums": {"spent": (0, 10)},
    },
    "jsonl": {
        "source": dp.Files(("events.jsonl",), format="json", types={"user": "text", "item": "text"}),
        "max_groups": 3,
        "epsilon": 3.0,
    },
    "parquet": {"source": "events.parquet", "max_groups": 3, "settings": dp.PerformanceSettings(1, "1GB")},
}


def release(**options: Any) -> dp.Release:
    """A release at the usual budget, of the usual records, unless others are given."""
    usual = {"source": EVENTS, "unit": "user", "by": "item", "epsilon": 1.0, "delta": 1e-6}
    given = {**usual, **options}
    if "plan" in given:
        del given["epsilon"], given["delta"]
    return dp.release(given.pop("source"), **given)


def _release(name: str) -> dict[str, Any]:
    options = REQUESTS[name]
    with predictable(seeded()):
        noisy = release(**options)
    with predictable(zeros()):
        quiet = release(**options)
    metadata = noisy.metadata()
    metadata["plan"] = metadata["plan"]["mechanism"]  # all of it is in the case of what is written
    return {
        "noisy": rows(noisy.to_arrow()),
        "noisy_total": noisy.total,
        "without noise": rows(quiet.to_arrow())["rows"],
        "total": quiet.total,
        "metadata": metadata,
    }


def _written() -> dict[str, Any]:
    """Every format, with what is beside it, its report, and what verify says about each."""
    found: dict[str, Any] = {}
    for name in ("max-groups", "everything", "keys-file", "sketch", "adaptive-sums"):
        with predictable(seeded()):
            made = release(**REQUESTS[name])
        for suffix in ("parquet", "csv", "json"):
            path = f"{name}.{suffix}"
            made.write(path)
            found[path] = checks(path)
        made.report(f"{name}.html")
    stored = ["everything.parquet", "max-groups.csv", "max-groups.csv.dphist.json", "max-groups.json"]
    pages = [f"{name}.html" for name in ("max-groups", "keys-file", "sketch", "adaptive-sums")]
    beside = sorted(map(str, Path().glob("max-groups*")))
    return {**found, "beside": beside, "files": {name: file(name) for name in [*stored, *pages]}}


def _frames() -> dict[str, Any]:
    """The same records as other frames, and the same release as other frames."""
    few = EVENTS.select(["user", "item", "likes"]).slice(0, 3000)
    frame = pl.from_arrow(few)
    assert isinstance(frame, pl.DataFrame)
    sources: dict[str, Any] = {"arrow": few, "pandas": few.to_pandas(), "polars": frame, "batches": few.to_reader(500)}
    found = {}
    for name, source in sources.items():
        with predictable(seeded()):
            found[name] = rows(release(source=source, max_groups=2, epsilon=3.0).to_arrow())["rows"]
    with predictable(seeded()):
        made = release(source=few, max_groups=2, epsilon=3.0)
    back = made.to_pandas()
    assert isinstance(back, pd.DataFrame)
    first, groups = made.first(2)
    return {
        **found,
        "to_pandas": [str(kind) for kind in back.dtypes],
        "to_polars": [str(kind) for kind in made.to_polars().dtypes],
        "first": [rows(first), groups],
    }


def _saved_plan() -> dict[str, Any]:
    dp.plan(epsilon=1.0, delta=1e-6, max_groups=3).save("plan.json")
    dp.plan(epsilon=1.0, delta=1e-6).save("open.json")
    phases: list[str] = []
    with predictable(seeded()):
        made = release(plan="plan.json", progress=phases.append)
        chosen = release(plan=dp.Plan.load("open.json"), progress=phases.append)
    return {"table": rows(made.to_arrow()), "chosen": rows(chosen.to_arrow()), "phases": phases}


def _wrong_releases() -> dict[str, str]:
    plan = dp.plan(epsilon=1.0, delta=1e-6, max_groups=3)
    wrong: dict[str, dict[str, Any]] = {
        "no such unit": {"unit": "users", "max_groups": 3},
        "no such key": {"by": "items", "max_groups": 3},
        "no such sum": {"max_groups": 3, "sums": {"cost": (0, 1)}},
        "a sum of text": {"max_groups": 3, "sums": {"country": (0, 1)}},
        "no key": {"by": [], "max_groups": 3},
        "the unit as a key": {"by": ["item", "item"], "max_groups": 3},
        "a released name": {"by": "count=likes", "max_groups": 3},
        "an aggregate": {"by": "n=count(*)", "max_groups": 3},
        "a window": {"by": "n=row_number() over ()", "max_groups": 3},
        "a clock": {"where": "day < current_date", "max_groups": 3},
        "random": {"where": "random() < 0.5", "max_groups": 3},
        "a subquery": {"where": "user IN (SELECT 1)", "max_groups": 3},
        "nonsense": {"where": "likes <", "max_groups": 3},
        "not a condition": {"where": "country", "max_groups": 3},
        "null keys": {"null_keys": "keep", "max_groups": 3},
        "order": {"order": "size", "max_groups": 3},
        "intervals": {"intervals": 1.5, "max_groups": 3},
        "a plan and a budget": {"plan": plan, "max_groups": 3},
        "keys beside a plan": {"plan": plan, "keys": ["item 00"]},
        "keys of two columns": {"keys": "keys.txt", "by": ["item", "country"]},
        "no keys": {"keys": []},
        "keys of no kind": {"keys": 3.5},
        "a missing list": {"keys": "nothing.txt"},
        "a missing file": {"source": "nothing.parquet", "max_groups": 3},
        "a format unknown": {"source": "keys.txt", "max_groups": 3},
        "no source": {"source": 3, "max_groups": 3},
        "memory": {"max_groups": 3, "settings": None, "ledger": "ledger.db"},
        "an unknown option": {"max_group": 3},
        "a test source": {"max_groups": 3, "entropy": object()},
    }
    found = {name: error(partial(release, **options)) for name, options in wrong.items()}
    found["memory limit"] = error(lambda: dp.PerformanceSettings(memory_limit="much"))
    found["files"] = error(lambda: dp.Files(()))
    return found


def _wrong_files() -> dict[str, Any]:
    """What verify says about files that were changed, and what write refuses."""
    with predictable(seeded()):
        made = release(max_groups=3, intervals=0.9)
    made.write("out.csv")
    found: dict[str, Any] = {
        "exists": error(lambda: made.write("out.csv")),
        "format": error(lambda: made.write("o.xls")),
    }
    text = Path("out.csv").read_text(encoding="utf-8").splitlines()
    for name, lines in {"a row twice": [*text, text[1]], "a row less": text[:-1], "no header": text[1:]}.items():
        Path("out.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
        try:
            found[name] = checks("out.csv")
        except dp.DphistError as problem:
            found[name] = str(problem)
    found["not ours"] = error(lambda: dp.verify("events.parquet"))
    found["missing"] = error(lambda: dp.verify("nothing.parquet"))
    found["head alone"] = error(lambda: dp.verify("out.csv", head="0" * 64))
    return found


def _nothing_released() -> dict[str, Any]:
    few = EVENTS.slice(0, 12)
    requests: list[dict[str, Any]] = [{"max_groups": 3}, {}, {"mechanism": "adaptive"}, {"sketch": 5}, {"sparsity": 9}]
    empty = EVENTS.slice(0, 0)
    found = {}
    for number, options in enumerate(requests):
        for name, source in {"few": few, "empty": empty}.items():
            with predictable(seeded()):
                found[f"{name} {number}"] = rows(release(source=source, **options).to_arrow())
    return found


def _odd_keys() -> dict[str, Any]:
    """Types of keys, and values that look equal."""
    number = 400
    table = pa.table(
        {
            "user": pa.array([f"u{n}" for n in range(number)]),
            "number": pa.array([(0.0, -0.0, float("nan"), 1.5, None)[n % 5] for n in range(number)], pa.float64()),
            "flag": pa.array([n % 3 == 0 for n in range(number)]),
            "whole": pa.array([n % 2 + 2**60 for n in range(number)], pa.int64()),
            "bytes": pa.array([bytes([n % 2]) for n in range(number)], pa.binary()),
            "time": pa.array([1700000000000000 + n % 2 for n in range(number)], pa.timestamp("us", "UTC")),
            "money": pa.array([n % 2 for n in range(number)], pa.decimal128(9, 2)),
        }
    )
    found = {}
    for name in table.column_names[1:]:
        with predictable(zeros()):
            made = release(source=table, by=name, max_groups=1, order="key")
        found[name] = rows(made.to_arrow())
    return found


RELEASES: dict[str, Callable[[], Any]] = {
    **{f"release-{name}": partial(_release, name) for name in REQUESTS},
    "release-written": _written,
    "release-of-frames": _frames,
    "release-of-saved-plans": _saved_plan,
    "release-of-nothing": _nothing_released,
    "release-of-odd-keys": _odd_keys,
    "errors-of-releases": _wrong_releases,
    "errors-of-files": _wrong_files,
}
