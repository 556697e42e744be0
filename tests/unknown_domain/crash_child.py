"""The process that gets killed: it imports little, so that most kills hit its work."""

from multiprocessing.connection import Connection

import numpy as np
import pyarrow as pa

import dphist as dp
from dphist.engines.histogram import ContributionBounds, Histogram

ROUNDS = 4000


def pages_of(number: int) -> dict[str, int]:
    """Batch n has n % 5 + 1 units in each of three groups, one of them new now and then."""
    return dict.fromkeys(("a", "b", f"c{number // 7}"), number % 5 + 1)


def add(stream: dp.Continual, number: int) -> None:
    """Every tenth batch through the engine, the others as histograms: they leave more time for the writing of the state."""
    name, pages = f"batch {number}", pages_of(number)
    if number % 10 == 9:
        listed = [page for page, count in pages.items() for _ in range(count)]
        keys = pa.array(listed, pa.large_string())
        stream.add(pa.table({"user": list(range(len(listed))), "page": keys}), name)
    else:
        keys = pa.table({"page": pa.array(list(pages), pa.large_string())})
        counts = np.array(list(pages.values()), np.int64)
        stream.add_histogram(Histogram(keys, counts, ContributionBounds(1)), name)


def add_until_killed(folder: str, first: int, done: Connection) -> None:
    """Add one batch after the other, and say after each that it is in."""
    stream = dp.Continual(folder)
    for number in range(first, ROUNDS):
        add(stream, number)
        done.send(number)
