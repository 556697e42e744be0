"""Tables and small helpers for the tests of Spark."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

import dphist as dp
from dphist.noise import Entropy
from dphist.run.job import prepare
from word_sources import drawn_from

EVENTS = pa.table(
    {
        "user": [i % 90 for i in range(900)],
        "item": [None if i % 7 == 3 else f"i{(i * i) % 7}" for i in range(900)],
        "spent": [float(i % 13) for i in range(900)],
    }
)


def zero() -> Entropy:
    """All words are zero: every law draws its middle. A class of this function travels to the executors by value."""

    class ZeroEntropy:
        def words(self, count: int) -> np.typing.NDArray[np.uint64]:
            return np.zeros(count, dtype=np.uint64)

    return ZeroEntropy()


def quiet(source: object, mechanism: Any = None, **options: Any) -> dp.Release:
    """A release without noise, of an own mechanism if one is given."""
    job = prepare(source, **{"unit": "user", "by": "item", "epsilon": 1.0, "delta": 1e-6, **options})
    if mechanism is not None:
        job = replace(job, plan=dp.Plan(job.plan.request, mechanism))
    return drawn_from(zero(), job.run)
