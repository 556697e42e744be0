"""Tables to try everything on, which nobody has to protect: made by arithmetic, the same in every run.

Every example of README and docs runs where `write_tables` wrote: visits to a web site, people's ages, orders of a shop, what
the people of a university asked for. The sizes are those of real tables of the kind: a few people do a lot, a few pages have
most of the visits, and a long tail has almost none. No person is behind any record, so that truth and release may stand side
by side.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyarrow import csv, parquet

from dphist.errors import InvalidParameter
from dphist.files.outputs import OTHER_NAME, as_path, check_outputs, reason_of, replacement

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

_PEOPLE: Final = 30_000
_SECTIONS: Final = (
    "news", "weather", "recipes", "travel", "health", "garden", "music", "books", "science", "sports", "history", "cinema",
)  # fmt: skip
_TOPICS: Final = (
    "today", "beginners", "family", "winter", "summer", "weekend", "city", "coast", "mountains", "budget", "classics",
    "trends", "interview", "guide", "quiz", "letters", "archive", "video", "gallery", "questions", "local", "world",
    "awards", "calendar", "tools", "stories", "numbers", "opinion", "repairs", "festival",
)  # fmt: skip
_COUNTRIES: Final = (
    "DE", "FR", "CH", "AT", "US", "GB", "NL", "IT", "ES", "PL", "BE", "SE", "CZ", "DK", "CA", "BR", "IN", "JP", "AU", "NO",
    "FI", "PT", "IE", "GR", "MX", "ZA", "KE", "NZ", "IS", "MT",
)  # fmt: skip
_PRODUCTS: Final = (
    "kettle", "lamp", "backpack", "tent", "headphones", "notebook", "bicycle bell", "raincoat", "chess set", "thermos",
    "map", "compass", "blanket", "whistle", "globe",
)  # fmt: skip
_ITEMS: Final = (
    ("pencil", "writing", 0.4), ("pen", "writing", 1.2), ("notebook", "paper", 3.5), ("scissors", "tools", 4.8),
    ("stapler", "tools", 9.5), ("ruler", "tools", 1.9), ("eraser", "writing", 0.6), ("envelopes", "paper", 2.2),
    ("chalk", "writing", 1.1), ("hole punch", "tools", 7.3), ("fountain pen", "writing", 28.0), ("abacus", "tools", 31.0),
)  # fmt: skip
_DEPARTMENTS: Final = ("biology", "history", "physics", "law", "music", "geology", "astronomy")
_BEGIN: Final = np.datetime64("2020-01-01T00:00:00", "s")
_DAYS: Final = 1827  # of 2020 to 2024


@functools.cache
def events() -> pa.Table:
    """Visits to a web site in five years: 30,000 people, some 700 pages, 30 countries; likes, and what was paid."""
    visits = np.minimum(1 + (4 * (uniform("visits", _PEOPLE) ** -0.4 - 1)).astype(np.int64), 100)
    person = np.repeat(np.arange(_PEOPLE), visits)
    number = len(person)
    seconds = (86_400 * _DAYS * np.sqrt(uniform("days", number))).astype(np.int64)  # more of them each year
    order = np.argsort(seconds, kind="stable")
    person, time = person[order], _BEGIN + seconds[order]
    pages = ["/", *_pages(_TOPICS), *(f"/archive{page}" for page in _pages(_TOPICS))]
    likes = (np.log(uniform("likes", number)) / np.log(0.3)).astype(np.int64)
    paid = uniform("pays", number) < 0.08
    amount = np.where(paid, np.exp(2.2 + 1.6 * (uniform("amounts", number) + uniform("tips", number) - 1)), 0.0)
    ages = (14 + 72 * uniform("ages of visitors", _PEOPLE) ** 1.4).astype(np.int64)
    return pa.table(
        {
            "user_id": pa.array(100_000 + person, pa.int64()),
            "url": _long_tail("pages", number, pages, 1.3, 5),
            "country": _long_tail("countries", _PEOPLE, _COUNTRIES, 1.2, 1).take(pa.array(person)),
            "age": pa.array(ages[person], pa.int16()),
            "likes": pa.array(likes, pa.int32()),
            "amount": np.round(amount, 2),
            "time": pa.array(time, pa.timestamp("ms")),
            "day": pa.array(time.astype("datetime64[D]")),
            "year": pa.array(1970 + time.astype("datetime64[Y]").astype(np.int64), pa.int16()),
        }
    )


def ages() -> pa.Table:
    """The ages of the 620,000 people of a large town, the oldest 111."""
    number = 620_000
    tired = np.log1p(-np.log(uniform("lives", number)) * 9_000) / 0.1  # Gompertz: the longest life of each
    age = np.minimum(111, tired * uniform("moments", number) ** 0.8).astype(np.int64)
    return pa.table({"person": pa.array(np.arange(number), pa.int32()), "age": pa.array(age, pa.uint8())})


def orders() -> pa.Table:
    """A shop's orders: 9,000 customers, 15 products, the amount of an order and the hours until it was sent."""
    number = 40_000
    amount = np.minimum(np.exp(2.5 + 2.4 * (uniform("prices", number) + uniform("sizes", number) - 0.8)), 900)
    return pa.table(
        {
            "customer": pa.array((9_000 * uniform("customers", number) ** 1.5).astype(np.int64)),
            "product": _long_tail("products", number, _PRODUCTS, 0.8, 2),
            "amount": np.round(amount, 2),
            "hours": np.round(-30 * np.log(uniform("hours", number)), 1),
        }
    )


def visits() -> pa.Table:
    """Two weeks of visits of 8,000 people to 120 pages, as a log has them."""
    number = 90_000
    seconds = np.sort((14 * 86_400 * uniform("moments of a log", number)).astype(np.int64))
    return pa.table(
        {
            "person": pa.array((8_000 * uniform("readers", number) ** 1.3).astype(np.int64)),
            "page": _long_tail("pages of a log", number, _pages(_TOPICS[:10]), 1.0, 2),
            "time": pa.array(np.datetime64("2026-01-05T00:00:00", "s") + seconds, pa.timestamp("ms")),
        }
    )


def monday() -> pa.Table:
    """One day of what 5,000 people took home: a batch of a stream."""
    items = ("bread", "milk", "apples", "rice", "coffee", "tea", "cheese", "soap", "honey", "yeast", "saffron")
    number = 12_000
    users = (5_000 * uniform("shoppers", number)).astype(np.int64)
    return pa.table({"user": pa.array(users), "item": _long_tail("items", number, items, 1.1, 1)})


def professors() -> pa.Table:
    """What 6,000 professors asked for: a few items each, and how many of them; some did not say how many."""
    return _requests("professor", 6_000, 101, 3.0, 24)


def students() -> pa.Table:
    """The same of 15,000 students, who ask for less."""
    return _requests("student", 15_000, 1, 2.0, 4)


def offices() -> pa.Table:
    """The department of each professor."""
    number = 6_000
    department = _long_tail("departments", number, _DEPARTMENTS, 1.0, 1)
    return pa.table({"id": pa.array(101 + np.arange(number)), "department": department})


def items() -> pa.Table:
    """What can be asked for, its kind and its price: a list that everybody may see."""
    return pa.table({name: [item[place] for item in _ITEMS] for place, name in enumerate(("item", "kind", "price"))})


def _requests(name: str, people: int, first: int, most: float, usual: int) -> pa.Table:
    """From one request of a person to about 2^most; quantities around the usual one, and 4 % without."""
    requests = (2 ** (most * uniform(f"{name}s ask", people))).astype(np.int64)
    person = np.repeat(np.arange(people), requests)
    quantity = np.maximum(1, (2 * usual * uniform(f"{name} quantity", len(person)) ** 1.5).astype(np.int64))
    unsaid = uniform(f"{name} unsaid", len(person)) < 0.04
    return pa.table(
        {
            "id": pa.array(first + person),
            "item": _long_tail(f"{name} items", len(person), [item for item, _, _ in _ITEMS], 3.0, 2),
            "quantity": pa.array(quantity, mask=unsaid),
        }
    )


TABLES: Final[dict[str, Callable[[], pa.Table]]] = {
    "events.parquet": events,
    "events.csv": events,
    "ages.parquet": ages,
    "orders.parquet": orders,
    "visits.parquet": visits,
    "monday.parquet": monday,
    "professors.parquet": professors,
    "students.parquet": students,
    "offices.parquet": offices,
    "items.parquet": items,
}
"""The files that README and docs name, and what is in them."""


def write_tables(directory: str | Path, *, overwrite: bool = False) -> list[Path]:
    """Write every table of the examples into a directory, which is made if it is missing.

    Args:
        directory: Where to.
        overwrite: Replace files of these names.

    Returns:
        The paths of the files.

    Raises:
        InvalidParameter: A file exists and may not be replaced, or none can be written there.
    """
    folder = as_path(directory)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as problem:
        raise InvalidParameter("a folder for the tables", f"{folder} ({reason_of(problem)})", OTHER_NAME) from None
    paths = [folder / name for name in TABLES]
    check_outputs(*paths, overwrite=overwrite)
    for path in paths:
        table = TABLES[path.name]()
        with replacement(path, overwrite=overwrite) as partial:
            if path.suffix == ".csv":
                csv.write_csv(table, partial)
            else:
                parquet.write_table(table, partial, compression="zstd")
    return paths


def _pages(topics: Sequence[str]) -> list[str]:
    """Every topic of every section, mixed: neighbours differ in both."""
    pages = [f"/{section}/{topic}" for topic in topics for section in _SECTIONS]
    return [pages[7 * place % len(pages)] for place in range(len(pages))]


def uniform(name: str, number: int) -> Floats:
    """Numbers in (0, 1) that look random and are not: the finaliser of SplitMix64 on a counter, begun at a name."""
    start = int.from_bytes(name.encode()[:8].ljust(8, b"-"), "little") ^ (len(name) * 0x5851F42D4C957F2D & _MASK)
    state = np.arange(1, number + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(start)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        state = (state ^ (state >> np.uint64(shift))) * np.uint64(factor)
    state ^= state >> np.uint64(31)
    return ((state >> np.uint64(12)).astype(np.float64) + 0.5) / 2.0**52


_MASK: Final = (1 << 64) - 1


def _long_tail(name: str, number: int, words: Sequence[str], power: float, flat: float) -> pa.Array:
    """So many of the words, the one at place r with weight 1 / (r + flat)^power."""
    weights = (np.arange(len(words)) + 1.0 + flat) ** -power
    places = np.searchsorted(np.cumsum(weights) / weights.sum(), uniform(name, number))
    return pa.DictionaryArray.from_arrays(places.clip(max=len(words) - 1), pa.array(words)).dictionary_decode()
