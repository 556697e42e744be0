"""Real files of every kind that dphist reads back: what the tests damage."""

import json
import shutil
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa

import dphist as dp
from dphist.ledger import DataSet, Ledger

EVENTS = pa.table(
    {
        "user": [i % 400 for i in range(4000)],
        "item": [f"i{(i * i) % 7}" for i in range(4000)],
        "spent": [float(i % 13) for i in range(4000)],
    }
)
_BUDGET: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-6}
_SUMS: dict[str, Any] = {"sums": {"spent": (0, 12)}, "means": {"spent": (0, 12)}, "rows": 4}

PLANS: dict[str, dict[str, Any]] = {
    "chosen": {},
    "chosen-sums": {**_SUMS, "total": True},
    "adaptive": {"mechanism": "adaptive", **_SUMS},
    "voting": {"mechanism": "voting", **_SUMS},
    "select": {"keys_only": True},
    "sparse-gaussian": {"max_groups": 3, **_SUMS},
    "laplace": {"max_groups": 3, "mechanism": "laplace", **_SUMS, "total": True},
    "discrete-gaussian": {"max_groups": 3, "noise": "discrete"},
    "correlated": {"sparsity": 20},
    "discrete-correlated": {"sparsity": 20, "noise": "discrete"},
    "sketch": {"sketch": 30},
    "known": {"keys": 12, "max_groups": 3, **_SUMS},
    "listed": {"keys": 12, "max_groups": 3, "sparse": True},
}
"""Together they hold every mechanism that a plan can."""


def make_plans(folder: Path) -> None:
    """A plan for each of the requests."""
    folder.mkdir()
    for name, asked in PLANS.items():
        dp.plan(**_BUDGET, **asked).save(folder / f"{name}.json")


def make_lists(folder: Path) -> None:
    """A session with one query behind it, and a stream with three rounds."""
    folder.mkdir()
    session = dp.Session.start(folder / "session.json", unit="user", **_BUDGET, results=9, queries=3, shortlist=20)
    session.query(EVENTS, by="item", k=4)
    stream = dp.Continual.start(folder / "stream", unit="user", by="item", rounds=7, max_groups=3, **_BUDGET)
    for name in ("monday", "tuesday", "wednesday"):
        stream.add(EVENTS, name)
    dp.Continual.start(folder / "begun", unit="user", by=["item", "spent"], rounds=5, max_groups=2, **_BUDGET)


def make_ledger(folder: Path) -> None:
    """Two data sets with charges, confirmed or not, a spend from elsewhere, and files that it paid for."""
    folder.mkdir()
    address = folder / "ledger.db"
    with Ledger(address, create=True) as opened:
        opened.create(DataSet("events", 8.0, 1e-4, "user", "gdp"))
        opened.create(DataSet("rounds", 4.0, 1e-4, "user", "zcdp", "event"))
    paid: dict[str, Any] = {**_BUDGET, "ledger": address, "dataset": "events"}
    dp.release(EVENTS, unit="user", by=["item"], max_groups=3, **paid).write(folder / "paid.parquet")
    dp.stat("max", EVENTS, unit="user", column="spent", lower=0, upper=12, error=1, **paid)
    dp.Session.start(folder / "session.json", unit="user", results=9, queries=3, shortlist=20, **paid)
    rounds = {**paid, "dataset": "rounds"}
    dp.Continual.start(folder / "stream", unit="user", by="item", rounds=7, max_groups=3, **rounds)


def make_releases(folder: Path) -> None:
    """Published files of every kind and format, and a folder laid out as Spark's writer does."""
    folder.mkdir()
    for name, asked in PLANS.items():
        if name in ("chosen", "sparse-gaussian", "laplace", "correlated", "sketch", "discrete-gaussian"):
            release = dp.release(EVENTS, unit="user", by=["item"], **_BUDGET, **asked, intervals=0.9)
            release.write(folder / f"{name}.parquet")
    known = [f"i{i}" for i in range(7)]
    dp.release(EVENTS, unit="user", by=["item"], **_BUDGET, keys=known).write(folder / "known.json")
    dp.select(EVENTS, unit="user", by=["item"], **_BUDGET).write(folder / "select.csv")
    plain = dp.release(EVENTS, unit="user", by=["item"], **_BUDGET, max_groups=3, **_SUMS)
    plain.write(folder / "plain.csv")
    plain.write(folder / "plain.ndjson")
    for method in ("correlated", "from-top", "ranked"):
        listed = dp.top_k(EVENTS, unit="user", by="item", k=4, **_BUDGET, method=method)
        listed.write(folder / f"top-{method}.parquet")
        listed.write(folder / f"top-{method}.csv")
    stream = dp.Continual.start(folder / "s", unit="user", by="item", rounds=7, max_groups=3, **_BUDGET)
    running = stream.add(EVENTS, "one")
    running.write(folder / "running.parquet")
    running.write(folder / "running.json")
    shutil.rmtree(folder / "s")
    for kind in ("parquet", "csv", "json"):
        make_folder(plain, folder / f"spark.{kind}", kind)


def make_folder(release: dp.Release, folder: Path, kind: str) -> None:
    """What Spark's writer leaves: parts of the table, and the metadata in a folder of its own."""
    from dphist.files.digests import without_content

    folder.mkdir()
    (folder / "_dphist").mkdir()
    text = json.dumps(without_content(release.metadata()), allow_nan=False)
    (folder / "_dphist" / "part-00000-0.txt").write_text(text + "\n")
    (folder / "_dphist" / "_SUCCESS").touch()
    release.write(folder / f"part-00000-0.{kind}")
    (folder / f"part-00000-0.{kind}.dphist.json").unlink()
    (folder / "_SUCCESS").touch()


def make_all(folder: Path) -> None:
    """Everything."""
    folder.mkdir(exist_ok=True)
    make_plans(folder / "plans")
    make_lists(folder / "lists")
    make_ledger(folder / "ledger")
    make_releases(folder / "releases")


if __name__ == "__main__":
    make_all(Path(sys.argv[1]))
