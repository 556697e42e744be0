"""The largest groups, sessions, streams, single statistics and ledgers, through their public functions."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pyarrow as pa
from harness import EVENTS, checks, error, file, predictable, rows, seeded, zeros

import dphist as dp

BUDGET: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-6}
TOP_K: dict[str, dict[str, Any]] = {
    "correlated": {},
    "from-top": {"method": "from-top"},
    "from-top-max-groups": {"method": "from-top", "max_groups": 2},
    "ranked": {"method": "ranked", "shortlist": 12},
    "options": {"by": ["item", "country"], "where": "likes = 1", "null_keys": "drop", "method": "from-top"},
}


def _top_k(name: str) -> dict[str, Any]:
    options: dict[str, Any] = {"unit": "user", "by": "item", **TOP_K[name]}
    asked = {option: options.pop(option) for option in ("method", "max_groups", "shortlist") if option in options}
    options["plan"] = plan = dp.plan_top_k(k=4, **BUDGET, **asked)
    with predictable(seeded()):
        noisy = dp.top_k(EVENTS, **options)
    noisy.write("top.csv")
    noisy.report("top.html")
    found: dict[str, Any] = {
        "noisy": rows(noisy.table),
        "complete": noisy.complete,
        "metadata": noisy.metadata(),
        "verify": checks("top.csv"),
        "files": {name: file(name) for name in ("top.csv", "top.html")},
    }
    if plan.method != "ranked":
        with predictable(zeros()):
            found["without noise"] = rows(dp.top_k(EVENTS, **options).table)["rows"]
    return found


def _largest() -> dict[str, Any]:
    """Groups that were counted elsewhere."""
    groups = pa.table({"item": ["a", "b", "c", "d", "e"], "n": [900, 700, 350, 349, 12]})
    found: dict[str, Any] = {}
    for method in ("correlated", "from-top", "ranked"):
        extra = {"shortlist": 4} if method == "ranked" else {}
        plan = dp.plan_top_k(k=3, method=method, **BUDGET, **extra)  # type: ignore[arg-type]
        with predictable(seeded()):
            made = dp.release_largest(groups, count="n", plan=plan)
        found[method] = {"table": rows(made.table), "complete": made.complete}
        found[f"too few for {method}"] = error(partial(dp.release_largest, groups[:2], count="n", plan=plan))
    return found


def _session() -> dict[str, Any]:
    session = dp.Session.start("session.json", unit="user", results=9, queries=3, shortlist=20, **BUDGET)
    found: dict[str, Any] = {"start": str(session).splitlines()}
    found["first"], found["complete"] = _listed(session.query(EVENTS, by="item", k=3))
    found["second"], _ = _listed(session.query(EVENTS, by=["country"], k=2, where="likes = 1", null_keys="drop"))
    found["too many"] = error(lambda: session.query(EVENTS, by="item", k=8))
    found["no such key"] = error(lambda: session.query(EVENTS, by="items", k=1))
    found["rank"] = error(lambda: session.query(EVENTS, by="rank=item", k=1))
    found["again"] = error(
        lambda: dp.Session.start("session.json", unit="user", results=9, queries=3, shortlist=20, **BUDGET)
    )
    found["end"] = str(dp.Session("session.json")).splitlines()
    return {**found, "file": file("session.json")}


def _listed(found: tuple[pa.Table, bool]) -> tuple[dict[str, Any], bool]:
    return rows(found[0]), found[1]


def _continual() -> dict[str, Any]:
    options: dict[str, Any] = {"unit": "user", "by": "item", "rounds": 4, "max_groups": 2, **BUDGET}
    stream = dp.Continual.start("stream", **options)
    found: dict[str, Any] = {"start": str(stream).splitlines(), "empty": rows(stream.show().table)}
    for batch in range(3):
        counts = stream.add(f"batch{batch}.parquet", f"day {batch}")
        found[f"round {counts.round}"] = rows(counts.table)
    found["twice"] = error(lambda: stream.add("batch1.parquet", "day 1"))
    found["exists"] = error(lambda: dp.Continual.start("stream", **options))
    counts.write("out.csv")
    counts.report("out.html")
    return {
        **found,
        "end": str(stream).splitlines(),
        "batches": list(stream.batches),
        "metadata": counts.metadata(),
        "files": {name: file(name) for name in ("out.csv", "out.html")},
        "verify": checks("out.csv"),
    }


def _continual_without_noise() -> dict[str, Any]:
    with predictable(zeros()):
        stream = dp.Continual.start(
            "stream", unit="user", by=["country", "item"], rounds=3, max_groups=3, where="likes < 2", null_keys="drop",
            epsilon=2.0, delta=1e-6,
        )  # fmt: skip
        rounds = [rows(stream.add(f"batch{batch}.parquet", f"{batch}").table) for batch in range(3)]
    return {"rounds": rounds, "over": error(lambda: stream.add("batch0.parquet", "more"))}


NUMBERS: dict[str, Any] = {"column": "spent", "lower": -2, "upper": 18, "error": 1, "drop": 0.4, "min_records": 1400}
STATISTICS: dict[str, dict[str, Any]] = {
    **dict.fromkeys(("max", "min", "range", "median", "mean", "std", "support"), NUMBERS),
    "quantile": {**NUMBERS, "probability": 0.9},
    "mode": {"column": "country", "max_values": 5, "drop": 0.4, "min_records": 1400},
    "max-k": {"column": "likes", "k": 50, "max_values": 5},
    "is-empty": {"where": "spent > 17"},
}


def _statistics() -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, options in STATISTICS.items():
        with predictable(seeded()):
            made = dp.stat(name, EVENTS, unit="user", **{**BUDGET, **options})
        data = {key: held for key, held in made.to_data().items() if key not in ("accuracy", "bounding", "guarantee")}
        found[name] = {"text": str(made).splitlines(), "data": data, "type": type(made.value).__name__}
        with predictable(zeros()):
            quiet = dp.stat(name, EVENTS, unit="user", **{**BUDGET, **options})
        found[name]["without noise"] = quiet.value
    return found


def _wrong_statistics() -> dict[str, str]:
    wrong: dict[str, dict[str, Any]] = {
        "unknown": {"name": "average"},
        "no column": {"column": None},
        "no bounds": {"lower": None},
        "bounds": {"lower": 20},
        "error": {"error": 0},
        "records alone": {"drop": None},
        "too few records": {"min_records": 20},
        "a column of an answer": {"name": "is-empty", "lower": None, "upper": None, "error": None},
        "probability": {"probability": 0.5},
        "quantile alone": {"name": "quantile"},
        "no such column": {"column": "cost"},
    }
    usual = {"name": "max", **BUDGET, **NUMBERS}

    def call(options: dict[str, Any]) -> Any:
        given = {**usual, **options}
        return dp.stat(given.pop("name"), EVENTS, unit="user", **given)

    return {name: error(partial(call, options)) for name, options in wrong.items()}


def _ledger(accountant: str) -> dict[str, Any]:
    """Each kind of spend, charged until one does not fit."""
    paid: dict[str, Any] = {"ledger": "ledger.db", "dataset": "people"}
    with dp.Ledger("ledger.db", create=True) as ledger:
        ledger.create(dp.DataSet("people", 4.0, 1e-4, "user", accountant))  # type: ignore[arg-type]
        ledger.create(dp.DataSet("rounds", 4.0, 1e-4, "user", accountant, "event"))  # type: ignore[arg-type]
    with predictable(seeded()):
        made = dp.release(EVENTS, unit="user", by="item", max_groups=3, epsilon=0.5, delta=1e-6, **paid)
        dp.release(EVENTS, unit="user", by="item", epsilon=0.4, delta=1e-6, total=True, **paid)
        dp.release(EVENTS, unit="user", by="item", keys=["item 00"], epsilon=0.2, delta=1e-6, **paid)
        dp.top_k(EVENTS, unit="user", by="item", k=3, method="from-top", epsilon=0.2, delta=1e-6, **paid)
        dp.top_k(EVENTS, unit="user", by="item", k=3, method="ranked", epsilon=0.2, delta=1e-6, **paid)
        dp.stat("is-empty", EVENTS, unit="user", epsilon=0.3, delta=1e-6, **paid)
        dp.Session.start("s.json", unit="user", results=5, queries=2, epsilon=0.2, delta=1e-6, **paid)
        dp.Continual.start(
            "stream", unit="user", by="item", rounds=3, max_groups=2, epsilon=0.5, delta=1e-6, ledger="ledger.db",
            dataset="rounds",
        )  # fmt: skip
    refused: dict[str, dict[str, Any]] = {
        "too much": {"epsilon": 4.0, "delta": 1e-6, "max_groups": 3},
        "too much delta": {"epsilon": 0.1, "delta": 1e-3, "max_groups": 3},
        "another unit": {"epsilon": 0.1, "delta": 1e-6, "max_groups": 3, "unit": "country"},
        "another data set": {"epsilon": 0.1, "delta": 1e-6, "max_groups": 3, "dataset": "persons"},
        "another protection": {"epsilon": 0.1, "delta": 1e-6, "max_groups": 3, "dataset": "rounds"},
        "no data set": {"epsilon": 0.1, "delta": 1e-6, "max_groups": 3, "dataset": None},
        "no ledger": {"epsilon": 0.1, "delta": 1e-6, "max_groups": 3, "ledger": "other.db"},
    }
    errors = {
        name: error(partial(dp.release, EVENTS, **{"unit": "user", "by": "item", **paid, **options}))
        for name, options in refused.items()
    }
    made.write("paid.csv")
    with dp.Ledger("ledger.db") as ledger:
        return {
            "receipt": made.metadata()["ledger"],
            "entries": [[entry.to_data() for entry in ledger.entries(name)] for name in ledger.names()],
            "status": [str(ledger.status(name)).splitlines() for name in ledger.names()],
            "verify": [f"{check.passed} {check.name}: {check.detail}" for check in ledger.verify("people")],
            "verify the file": checks("paid.csv", ledger="ledger.db"),
            "errors": errors,
        }


LISTS: dict[str, Callable[[], Any]] = {
    **{f"top-k-{name}": partial(_top_k, name) for name in TOP_K},
    "top-k-counted-elsewhere": _largest,
    "session": _session,
    "continual": _continual,
    "continual-without-noise": _continual_without_noise,
    "statistics": _statistics,
    "errors-of-statistics": _wrong_statistics,
    **{f"ledger-{accountant}": partial(_ledger, accountant) for accountant in ("basic", "gdp", "zcdp")},
}
