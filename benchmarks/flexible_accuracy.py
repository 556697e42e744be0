"""How fast are private statistics and distances?

    python benchmarks/flexible_accuracy.py

Sanitising 10^7 bars and a quantile of them; the lossy infinity-Wasserstein distance of two distributions of 10^6 atoms each.
"""

from __future__ import annotations

import time

import numpy as np

from dphist.flexible import lossy_infinity_on_line
from dphist.flexible.statistics import quantile, sanitise
from dphist.mechanisms import TruncatedLaplace

BARS = 10_000_000
ATOMS = 1_000_000


def main() -> None:
    """Print one row per task."""
    random = np.random.default_rng(1)
    print("| task | seconds |\n| --- | ---: |")
    mechanism = TruncatedLaplace.for_budget(1.0, 2.0**-20)
    values, counts = np.arange(BARS, dtype=np.float64), random.poisson(40, BARS).astype(np.int64)
    begin = time.perf_counter()
    private = sanitise(values, counts, mechanism)
    middle = time.perf_counter()
    quantile(private, 0.9)
    end = time.perf_counter()
    print(f"| sanitise 10⁷ bars (ε = 1, q = {mechanism.q}) | {middle - begin:.2f} |")
    print(f"| a quantile of them | {end - middle:.2f} |")
    x, y = np.sort(random.normal(size=ATOMS)), np.sort(random.normal(size=ATOMS) * 1.01)
    masses = np.ones(ATOMS, dtype=np.int64)
    for gamma in (0, 0.01, 0.3):
        begin = time.perf_counter()
        lossy_infinity_on_line((x, masses), (y, masses), gamma)
        print(f"| lossy W∞, 10⁶ atoms each, γ = {gamma:g} | {time.perf_counter() - begin:.2f} |", flush=True)


if __name__ == "__main__":
    main()
