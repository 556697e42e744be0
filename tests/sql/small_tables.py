"""Tables that statements of the tests name: two private ones of a unit, one of another unit, and two public ones."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final
from unittest import mock

import pyarrow as pa

import dphist as dp
from dphist.run import job as run

EVENTS: Final = pa.schema(
    {
        "user_id": pa.int64(), "url": pa.string(), "country": pa.string(), "likes": pa.int64(), "spent": pa.float64(),
        "age": pa.int64(), "day": pa.date32(),
    }
)  # fmt: skip
VISITS: Final = pa.schema({"user_id": pa.int64(), "url": pa.string(), "minutes": pa.float64(), "day": pa.date32()})
ORDERS: Final = pa.schema({"customer": pa.int64(), "item": pa.string(), "price": pa.float64(), "country": pa.string()})
URLS: Final = pa.schema({"url": pa.string(), "topic": pa.string(), "rank": pa.int64()})
COUNTRIES: Final = pa.schema({"country": pa.string(), "name": pa.string(), "population": pa.int64()})

TABLES: Final = {
    "events": EVENTS.empty_table(),
    "visits": VISITS.empty_table(),
    "orders": ORDERS.empty_table(),
    "urls": pa.table([["a", "b"], ["news", "art"], [1, 2]], schema=URLS),
    "countries": pa.table([["de", "fr"], ["Germany", "France"], [83, 68]], schema=COUNTRIES),
}
UNITS: Final = {"events": "user_id", "visits": "user_id", "orders": "customer"}


def connect(tables: dict[str, pa.Table] | None = None, **options: Any) -> Any:
    """A connection to such tables, with a budget."""
    sources = {**TABLES, **(tables or {})}
    given = {name: source if name in UNITS else dp.public(source) for name, source in sources.items()}
    return dp.connect(tables=given, unit=UNITS, **{"epsilon": 1.0, "delta": 1e-8, **options})


@contextmanager
def plans_made_once() -> Iterator[None]:
    """A plan takes longer than all the rest of preparing a statement, and most statements of a test have the same."""
    known: dict[str, Any] = {}
    choose = run.plan_for  # type: ignore[attr-defined]

    def plan_for(**options: Any) -> Any:
        key = repr(sorted(options.items()))
        if key not in known:
            known[key] = choose(**options)
        return known[key]

    with mock.patch.object(run, "plan_for", plan_for):
        yield
