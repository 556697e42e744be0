"""Published tables made by hand, so that what a report shows is known to the digit."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

import dphist as dp
from dphist.planning.top_k import plan_top_k
from dphist.run.release import Published, Release, Selection
from dphist.run.top_k import TopK
from dphist.run.totals import Estimate, Totals

CREATED = dt.datetime(2026, 3, 14, 9, 26, 53, tzinfo=dt.UTC)
PLAN = dp.plan(epsilon=1.0, delta=1e-6, max_groups=3)
HOSTILE: list[str | None] = [
    None,
    "(null)",
    "</script><script>window.hacked = 1</script>",
    "<!--",
    "<!--<script>",
    "]]>",
    "<img src=x onerror=window.hacked=1>",
    "\"><svg onload='window.hacked=1'>",
    "' onmouseover='window.hacked=1",
    "&lt;b&gt;&amp;",
    "a\u2028b\u2029c",
    "\u202egnp.exe",
    "tab\tline\nbell\x07\x1b[31m",
    "https://example.com/a?b=c#d",
    "javascript:alert(1)",
    "{{7*7}}${7*7}",
    "𝕏 漢字 🙂 é",
    "x" * 3000,
    " leading and trailing ",
    "__proto__",
    "",
]


def release(columns: dict[str, Any], counts: Sequence[float], *, level: float | None = None, **other: Any) -> Release:
    """A release of groups with these keys and counts, ± 5, with intervals of ± 10 below and 12 above at a level."""
    values = np.asarray(counts, np.float64)
    table = pa.table(columns)
    for name, column in {"count": values, "count_std_error": np.full(len(values), 5.0), "count_noisy": values}.items():
        table = table.append_column(name, pa.array(column))
    if level is not None:
        table = table.append_column("count_low", pa.array(values - 10)).append_column(
            "count_high", pa.array(values + 12)
        )
    selection = Selection("user_id", tuple(columns), intervals=level, where=other.pop("where", None))
    return Release(table, PLAN, selection, other.pop("totals", None), CREATED)


def of_keys(keys: Sequence[Any], *, level: float | None = None, **other: Any) -> Release:
    """Groups by one key, the largest first: 1000, 993, …"""
    return release({"key": pa.array(keys)}, [1000.0 - 7 * i for i in range(len(keys))], level=level, **other)


def many(rows: int) -> Release:
    """As many groups as asked for, item 0 with the largest count."""
    return release(
        {"item": [f"item {i}" for i in range(rows)], "size": list(range(rows))},
        [10.0 * (rows - i) for i in range(rows)],
    )


def over_time(days: int = 40) -> Release:
    """Counts by day, the largest first as tables are, with a week missing and a group without a day."""
    start, chosen = dt.date(2024, 1, 30), [i for i in range(days) if not 10 <= i < 17]
    counts = [300 + 100 * np.sin(i / 5) for i in chosen] + [50]
    keys = [start + dt.timedelta(i) for i in chosen] + [None]
    order = sorted(range(len(keys)), key=lambda i: -counts[i])
    return release({"day": [keys[i] for i in order]}, [counts[i] for i in order], level=0.95)


def of_two_keys() -> Release:
    """Counts by two keys, one pair missing."""
    pairs = [(f"Country {a}", f"Browser {b}") for a in range(7) for b in range(4)][1:]
    totals = Totals(Estimate(640, 40), Estimate(600, 28), Estimate(40, 28))
    columns = {"country": [a for a, _ in pairs], "browser": [b for _, b in pairs]}
    return release(columns, [30.0 * (i + 1) for i in range(len(pairs))], totals=totals, where="age > 17")


def keys_alone() -> Release:
    """A selection: keys without counts."""
    plan = dp.plan(epsilon=1.0, delta=1e-6, keys_only=True)
    return Release(pa.table({"key": ["a", "b", "c"]}), plan, Selection("user_id", ("key",), order="key"), None, CREATED)


def one_number() -> Release:
    """All units together."""
    plan = dp.plan(epsilon=1.0, delta=0.0, keys=1)
    table = pa.table({"count": [4711.0], "count_std_error": [1.4]})
    return Release(table, plan, Selection("user_id", ()), None, CREATED)


def ranked() -> TopK:
    """The largest groups without counts."""
    plan = plan_top_k(k=3, epsilon=1.0, delta=1e-6, method="ranked")
    return TopK(pa.table({"rank": [1, 2], "key": ["b", "a"]}), plan, ("key",), False, CREATED, unit="user_id")


KINDS: dict[str, Callable[[], Published]] = {
    "bars": lambda: of_keys([f"/articles/2024/how-to-publish-counts-of-people/part-{i}" for i in range(60)], level=0.9),
    "time": over_time,
    "heat": of_two_keys,
    "keys": keys_alone,
    "number": one_number,
    "ranked": ranked,
    "hostile": lambda: of_keys(HOSTILE),
}
