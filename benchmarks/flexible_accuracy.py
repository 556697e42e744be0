"""How fast are private statistics and distances?

    PYTHONPATH=papers python benchmarks/flexible_accuracy.py

Sanitising 10^7 bars and a quantile of them; the lossy infinity-Wasserstein distance of two distributions of 10^6 atoms each.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from typing import TypeVar

import numpy as np
from flexible_on_line import lossy_infinity_on_line

from dphist.mechanisms import TruncatedLaplace
from dphist.planning.flexible import quantile, sanitise

BARS = 10_000_000
ATOMS = 1_000_000
T = TypeVar("T")


def timed(task: str, work: Callable[[], T]) -> T:
    """Print how long it takes: on the clock, which other programs slow down, and of the processor."""
    begin, used = time.perf_counter(), time.process_time()
    found = work()
    print(f"| {task} | {time.perf_counter() - begin:.2f} | {time.process_time() - used:.2f} |", flush=True)
    return found


def main() -> None:
    """Print one row per task."""
    random = np.random.default_rng(1)
    print("| task | seconds | of the processor |\n| --- | ---: | ---: |")
    mechanism = TruncatedLaplace.for_budget(1.0, 2.0**-20)
    values, counts = np.arange(BARS, dtype=np.float64), random.poisson(40, BARS).astype(np.int64)
    private = timed(f"sanitise 10⁷ bars (ε = 1, q = {mechanism.q})", lambda: sanitise(values, counts, mechanism))
    timed("a quantile of them", lambda: quantile(private, 0.9))
    x, y = np.sort(random.normal(size=ATOMS)), np.sort(random.normal(size=ATOMS) * 1.01)
    masses = np.ones(ATOMS, dtype=np.int64)
    for gamma in (0, 0.01, 0.3):
        timed(
            f"lossy W∞ on the line, 10⁶ atoms each, γ = {gamma:g}",
            functools.partial(lossy_infinity_on_line, (x, masses), (y, masses), gamma),
        )


if __name__ == "__main__":
    main()
