"""One round of a stream over very many groups, beside the limit: writing the same bytes durably.

Every batch touches every group; rounds with many set bits keep more noise. The time of a round must not grow with the rounds
before it, only with the set bits of its number.

    python benchmarks/continual.py [--groups 1000000] [--rounds 12]
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa

import dphist as dp
from dphist.engines.histogram import ContributionBounds, Histogram


def durable_write(path: Path, size: int) -> float:
    """Seconds to write so many bytes and make them durable."""
    data = os.urandom(1 << 20)
    begin = time.perf_counter()
    with path.open("wb") as file:
        for _ in range(0, size, len(data)):
            file.write(data)
        file.flush()
        os.fsync(file.fileno())
    return time.perf_counter() - begin


def main() -> None:
    """Measure and print one line per round."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--groups", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=12)
    options = parser.parse_args()
    keys = pa.table({"page": pa.array([f"page {i}" for i in range(options.groups)], pa.string())})
    counts = (np.arange(options.groups) % 50 + 1).astype(np.int64)
    batch = Histogram(keys, counts, ContributionBounds(1))
    print(f"{options.groups:,} groups\n\n  round  set bits   seconds   state MB   the same bytes written, seconds")
    with tempfile.TemporaryDirectory() as parent:
        stream = dp.Continual.start(
            Path(parent) / "stream", unit="user", by="page", rounds=365, max_groups=1, epsilon=1.0, delta=1e-8
        )
        chosen = stream.mechanism
        print(f"  noise std {chosen.count_std:.2f} per node, threshold {chosen.threshold}, rounded: {chosen.rounded}\n")
        for number in range(1, options.rounds + 1):
            begin = time.perf_counter()
            stream.add_histogram(batch, str(number))
            seconds = time.perf_counter() - begin
            size = (Path(parent) / "stream" / "state.arrow").stat().st_size
            limit = durable_write(Path(parent) / "limit", size)
            print(f"  {number:>5}  {number.bit_count():>8}  {seconds:>8.2f}  {size / 1e6:>9.1f}  {limit:>8.2f}")


if __name__ == "__main__":
    main()
