"""How fast is noise? Nanoseconds per sample, as ratios to numpy's (insecure) normal generator in the same run.

    python benchmarks/noise.py                 every law, n = 10 000 000
    python benchmarks/noise.py --peers         also OpenDP's discrete Gaussian, in an environment of its own

Runs of ours and of numpy alternate and the fastest of each counts, so other work on the machine disturbs both alike.
"""

from __future__ import annotations

import argparse
import os
import platform
import subprocess
import sys
import time
import venv
from collections.abc import Callable
from fractions import Fraction
from functools import partial
from pathlib import Path

import numpy as np

from dphist.noise import (
    DiscreteGaussian,
    DiscreteLaplace,
    Law,
    RoundedGaussian,
    SystemEntropy,
    TruncatedDiscreteLaplace,
    exponential_top_k,
    sample,
    sampler_error,
)

PEER_ENVIRONMENT = Path(__file__).resolve().parent.parent / "build" / "bench-noise"
PEER_SIZE = 20_000
PEER_SCRIPT = """
import sys, time
import opendp.prelude as dp
dp.enable_features("contrib")
size, scale = int(sys.argv[1]), float(sys.argv[2])
noise = dp.m.make_gaussian(dp.vector_domain(dp.atom_domain(T=int)), dp.l2_distance(T=float), scale=scale)
data, best = [0] * size, float("inf")
for _ in range(5):
    begin = time.perf_counter()
    noise(data)
    best = min(best, time.perf_counter() - begin)
print(best / size * 1e9)
"""


def ratio_cases(n: int) -> list[tuple[str, float | None, Callable[[], object]]]:
    """What is measured: a label, the most it may cost compared with numpy's normal, and one run."""

    def law_case(label: str, limit: float | None, law: Law) -> tuple[str, float | None, Callable[[], object]]:
        sample(law, 1)  # build the tables before the clock starts
        return label, limit, partial(sample, law, n)

    cases = []
    for scale in (1, 10, 100, 1000, 10**4, 10**5, 10**6):
        cases.append(law_case(f"discrete Gaussian, σ = {scale}", 2.5, DiscreteGaussian(Fraction(scale) ** 2)))
    for scale in (1, 10, 1000, 10**6):
        cases.append(law_case(f"rounded Gaussian, σ = {scale}, g = 1", 4.0, RoundedGaussian(Fraction(scale), 0)))
        cases.append(law_case(f"rounded Gaussian, σ = {scale}, g = 2^-20", 4.0, RoundedGaussian(Fraction(scale), 20)))
    for scale in (1, 10, 100, 1000, 10**4, 10**5, 10**6):
        cases.append(law_case(f"discrete Laplace, b = {scale}", 2.5, DiscreteLaplace(Fraction(scale))))
    truncated = TruncatedDiscreteLaplace(Fraction(1, 10), 218)
    cases.append(law_case("truncated Laplace, ε = 0.1, q = 218", None, truncated))
    wide = TruncatedDiscreteLaplace(Fraction(1, 10**4), 10**5)
    cases.append(law_case("truncated Laplace, ε = 1e-4, q = 10^5", None, wide))
    utilities = np.random.default_rng(1).zipf(1.5, n).clip(max=10**6).astype(np.int64)
    for k in (10, 10_000):
        label = f"exponential mechanism, best {k} of n"
        cases.append((label, None, partial(exponential_top_k, utilities, Fraction(1, 100), k)))
    cases.append(("one random word (AES-256-CTR)", None, lambda: _all_words(n)))
    return cases


def _all_words(n: int) -> None:
    source = SystemEntropy()
    for _ in range(0, n, 1 << 16):
        source.words(1 << 16)


def seconds(run: Callable[[], object]) -> float:
    """The wall-clock time of one run."""
    begin = time.perf_counter()
    run()
    return time.perf_counter() - begin


def compare(n: int, repeats: int) -> bool:
    """Print the table; return whether every limit holds."""
    generator = np.random.default_rng()
    print("| law | ns/sample | × numpy normal | limit |")
    print("| --- | ---: | ---: | ---: |")
    all_hold = True
    for label, limit, run in ratio_cases(n):
        ours = peer = float("inf")
        for _ in range(repeats):
            peer = min(peer, seconds(lambda: generator.normal(size=n)))
            ours = min(ours, seconds(run))
        ratio = ours / peer
        holds = limit is None or ratio <= limit
        all_hold = all_hold and holds
        shown = "" if limit is None else f"{limit:g}" + ("" if holds else " MISSED")
        print(f"| {label} | {ours / n * 1e9:.1f} | {ratio:.2f} | {shown} |", flush=True)
    return all_hold


def compare_with_peers() -> None:
    """Print our discrete Gaussian beside OpenDP's, which runs in a process and an environment of its own."""
    python = PEER_ENVIRONMENT / ("Scripts" if os.name == "nt" else "bin") / "python"
    if not python.exists():
        venv.create(PEER_ENVIRONMENT, with_pip=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", "opendp"], check=True)
    print("\n| discrete Gaussian | OpenDP, ns/sample | dphist, ns/sample | faster |")
    print("| --- | ---: | ---: | ---: |")
    for scale in (1, 1000, 10**6):
        answer = subprocess.run(
            [python, "-c", PEER_SCRIPT, str(PEER_SIZE), str(scale)], check=True, capture_output=True, text=True
        )
        theirs, size = float(answer.stdout), 1_000_000
        law = DiscreteGaussian(Fraction(scale) ** 2)
        sample(law, 1)
        ours = min(seconds(partial(sample, law, size)) for _ in range(5)) / size * 1e9
        print(f"| σ = {scale} | {theirs:.0f} | {ours:.1f} | {theirs / ours:.0f}× |", flush=True)


def processor() -> str:
    """The processor's name, where the system tells it."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(line.split(":")[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()


def main() -> int:
    """Measure and print; the exit code tells whether every limit holds."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--n", type=int, default=10_000_000, help="samples per run")
    parser.add_argument("--repeats", type=int, default=3, help="runs of each; the fastest counts")
    parser.add_argument("--peers", action="store_true", help="compare with OpenDP (installs it under build/)")
    arguments = parser.parse_args()
    print(f"{processor()}, {os.cpu_count()} CPUs, Python {platform.python_version()}, numpy {np.__version__}")
    error = float(
        max(sampler_error(DiscreteGaussian(Fraction(10**12))), sampler_error(DiscreteLaplace(Fraction(10**6))))
    )
    print(f"n = {arguments.n}, fastest of {arguments.repeats}; sampler error at most {error:.1e} per sample\n")
    all_hold = compare(arguments.n, arguments.repeats)
    if arguments.peers:
        compare_with_peers()
    return 0 if all_hold else 1


if __name__ == "__main__":
    sys.exit(main())
