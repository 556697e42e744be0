"""How fast is planning? Each delta beside a plain loop over the same formula, in one run.

    python benchmarks/planning.py

At 51,914 groups (the paper's case study) and at ten million. A delta is a maximum over all splits of a person's groups into
new and shared ones. The loop visits every split with scalar arithmetic; the array version holds them all in one NumPy array;
dphist bounds whole ranges of splits and divides only those that could hold the maximum. The fastest of several runs counts.
Then whole plans: the common request and those that once took long.
"""

from __future__ import annotations

import math
import os
import platform
import time
import tracemalloc
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy
from scipy.special import log_ndtr, ndtr

import dphist as dp
from dphist.planning.choices import Objective
from dphist.privacy import correlated_design as design
from dphist.privacy import sparse_gaussian as gshm
from dphist.privacy.gaussian import largest_mu

EPSILON, DELTA = 0.35, 1e-5
CASE_STUDY, HUGE = 51_914, 10_000_000
DELTA_LIMIT, PLAN_LIMIT = 5.0, 300.0  # milliseconds
COMMON_LIMIT, ANY_LIMIT = 60.0, 5000.0

REQUESTS: list[tuple[str, dict[str, Any]]] = [
    ("common", {"epsilon": 1, "delta": 1e-8, "max_groups": 10}),
    ("default, the data chooses", {"epsilon": 1, "delta": 1e-8}),
    ("keys alone, little epsilon", {"epsilon": 6.5e-5, "delta": 8e-22, "keys_only": True}),
    ("delta = epsilon, 10^9 groups", {"epsilon": 0.1, "delta": 0.1, "max_groups": 10**9}),
    ("the same, tiny, 10^6 groups", {"epsilon": 1e-6, "delta": 1e-6, "max_groups": 10**6}),
    ("delta = epsilon, sparsity 100", {"epsilon": 0.01, "delta": 0.01, "sparsity": 100}),
    ("a large delta, sparsity 10^6", {"epsilon": 30, "delta": 0.9, "sparsity": 1_296_927}),
    ("a large delta, sketch", {"epsilon": 1e-8, "delta": 0.52, "sketch": 147_052}),
    ("5,000 groups with a sum, gap", {
        "epsilon": 1, "delta": 1e-8, "max_groups": 5000, "sparsity": 5000, "sums": {"x": (0, 1)}, "objective": "gap",
    }),
    ("discrete noise, tiny epsilon", {"epsilon": 4e-6, "delta": 5e-26, "sparsity": 10_938, "noise": "discrete"}),
    ("from-top", {"epsilon": 1e-4, "delta": 1e-9, "k": 20, "method": "from-top"}),
    ("correlated list", {"epsilon": 1.2e-3, "delta": 0.05, "k": 1327, "method": "correlated"}),
]  # fmt: skip
"""Requests that were slow once, or are common."""


@dataclass(frozen=True, slots=True)
class Timing:
    """The fastest run of something, in milliseconds, and what it returned."""

    milliseconds: float
    value: float


def fastest(run: Callable[[], float], repeats: int) -> Timing:
    """Warm up once if it is repeated often, then take the fastest run."""
    if repeats > 2:
        run()
    best, value = math.inf, math.nan
    for _ in range(repeats):
        begin = time.perf_counter()
        value = run()
        best = min(best, time.perf_counter() - begin)
    return Timing(best * 1e3, value)


def peak_megabytes(run: Callable[[], object]) -> float:
    """The most memory held at once during a run."""
    tracemalloc.start()
    run()
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return peak / 1e6


# The same formulas, as one would write them down.


def phi(x: float) -> float:
    """The normal distribution function."""
    return 0.5 * math.erfc(-x * math.sqrt(0.5))


def delta_gaussian_plain(mu: float, epsilon: float) -> float:
    """The Gaussian profile with scalar arithmetic."""
    return phi(mu / 2 - epsilon / mu) - math.exp(epsilon) * phi(-mu / 2 - epsilon / mu)


def gshm_loop(groups: int, noise_std: float, gap: float) -> float:
    """[KKWZ24] Theorem 5.4, one split after the other."""
    log_keep = math.log1p(-phi(-gap / noise_std))
    worst = -math.expm1(groups * log_keep)
    for shared in range(1, groups + 1):
        mu = math.sqrt(shared) / noise_std
        log_beta = (groups - shared) * log_keep
        added = -math.expm1(log_beta) + math.exp(log_beta) * delta_gaussian_plain(mu, EPSILON - log_beta)
        worst = max(worst, added, delta_gaussian_plain(mu, EPSILON + log_beta))
    return worst


def delta_gaussian_array(mu: np.ndarray, epsilon: np.ndarray | float) -> np.ndarray:
    """The Gaussian profile of an array."""
    return np.asarray(ndtr(mu / 2 - epsilon / mu) - np.exp(epsilon + log_ndtr(-mu / 2 - epsilon / mu)))


def gshm_array(groups: int, noise_std: float, gap: float) -> float:
    """The same with every split in one array."""
    log_keep = float(log_ndtr(gap / noise_std))
    shared = np.arange(1, groups + 1)
    mu = np.sqrt(shared) / noise_std
    log_beta = (groups - shared) * log_keep
    added = -np.expm1(log_beta) + np.exp(log_beta) * delta_gaussian_array(mu, EPSILON - log_beta)
    removed = delta_gaussian_array(mu, EPSILON + log_beta)
    return max(-math.expm1(groups * log_keep), float(added.max()), float(removed.max()))


def common_nodes(groups: int, correlation: float) -> tuple[np.ndarray, np.ndarray]:
    """Nodes and weights for the common noise, as many as dphist uses: the integrand narrows as sqrt(1 + a c)."""
    side = math.ceil(12 / math.pi * math.sqrt(75 / 2 * (1 + groups * correlation)))
    nodes = np.linspace(-12, 12, 2 * side + 1)
    return nodes, (nodes[1] - nodes[0]) * np.exp(-(nodes**2) / 2) / math.sqrt(2 * math.pi)


def squared_plain(groups: int, correlation: float, new: int) -> float:
    """S2 for `new` new counters, every other one shared."""
    effective = groups - new + 1 / correlation
    p = min(math.floor(effective / 2), groups - new)
    q = min(p + 1, groups - new)
    return max(p - p * p / effective, q - q * q / effective)


def csh_loop(groups: int, independent_std: float, correlation: float, gap: float) -> float:
    """The product bound of the correlated histogram, one split after the other, the integral summed node by node."""
    nodes, weights = (values.tolist() for values in common_nodes(groups, correlation))
    t, root = gap / independent_std, math.sqrt(correlation)
    log_keep = [math.log1p(-phi(root * node - t)) for node in nodes]
    expm1 = math.expm1
    worst = 0.0
    for new in range(groups + 1):
        infinity = -sum(w * expm1(new * k) for w, k in zip(weights, log_keep, strict=True))
        squared = squared_plain(groups, correlation, new)
        noise = delta_gaussian_plain(math.sqrt(squared) / independent_std, EPSILON) if squared > 0 else 0.0
        worst = max(worst, noise + (1 - noise) * infinity)
    return worst


def csh_array(groups: int, independent_std: float, correlation: float, gap: float) -> float:
    """The same with every split and every node in one array."""
    nodes, weights = common_nodes(groups, correlation)
    new = np.arange(groups + 1)
    infinity = -np.expm1(new[:, None] * log_ndtr(gap / independent_std - math.sqrt(correlation) * nodes)) @ weights
    effective = groups - new + 1 / correlation
    p = np.minimum(np.floor(effective / 2), groups - new)
    q = np.minimum(p + 1, groups - new)
    squared = np.maximum(p - p * p / effective, q - q * q / effective)
    noise = np.zeros(groups + 1)
    noise[:-1] = delta_gaussian_array(np.sqrt(squared[:-1]) / independent_std, EPSILON)
    return float((noise + (1 - noise) * infinity).max())


def setting(groups: int) -> design.Setting:
    """The correlated histogram in which one person may change every counter."""
    return design.Setting(epsilon=EPSILON, target_delta=DELTA, sparsity=groups, max_groups=groups)


def calibrated(groups: int) -> tuple[float, float, design.Design]:
    """The best sparse Gaussian (noise, gap) and the best correlated design."""
    noise_std, gap = gshm.best_pair(EPSILON, DELTA, max_groups=groups)
    return noise_std, gap, design.best_design(setting(groups))


def against_loops() -> None:
    """Each delta beside the loop and the array."""
    noise_std, gap, best = calibrated(CASE_STUDY)
    chosen = (best.independent_std, best.correlation, best.gap)
    cases: list[tuple[str, Callable[[], float], Callable[[], float], Callable[[], float]]] = [
        (
            "exact GSHM delta",
            lambda: gshm.delta(EPSILON, max_groups=CASE_STUDY, noise_std=noise_std, gap=gap),
            lambda: gshm_loop(CASE_STUDY, noise_std, gap),
            lambda: gshm_array(CASE_STUDY, noise_std, gap),
        ),
        (
            "CSH bound",
            lambda: setting(CASE_STUDY).delta(*chosen),
            lambda: csh_loop(CASE_STUDY, *chosen),
            lambda: csh_array(CASE_STUDY, *chosen),
        ),
    ]
    print(f"\nOne delta at {CASE_STUDY:,} groups, beside the same formula over every split")
    header = ("", "dphist, ms", "target, ms", "loop, ms", "times slower", "array, ms", "times slower", "same delta")
    row("  {:<18}{:>12}{:>12}{:>11}{:>14}{:>11}{:>14}{:>12}", *header)
    for label, ours, loop, array in cases:
        fast, slow, wide = fastest(ours, 30), fastest(loop, 2), fastest(array, 3)
        off = max(abs(slow.value / fast.value - 1), abs(wide.value / fast.value - 1))
        row(
            "  {:<18}{:>12.2f}{:>12}{:>11,.0f}{:>13,.0f}x{:>11,.0f}{:>13,.1f}x{:>12}",
            label,
            fast.milliseconds,
            f"<= {DELTA_LIMIT:g}",
            slow.milliseconds,
            slow.milliseconds / fast.milliseconds,
            wide.milliseconds,
            wide.milliseconds / fast.milliseconds,
            f"to {off:.0e}",
        )


def sizes() -> None:
    """Every step of planning, time and memory, at both sizes."""
    print("\nEvery step, time and peak memory (targets are for the smaller size)")
    layout = "  {:<36}{:>10}{:>24}{:>24}"
    row(layout, "", "target, ms", f"{CASE_STUDY:,} groups", f"{HUGE:,} groups")
    steps = zip(planning_steps(CASE_STUDY), planning_steps(HUGE), strict=True)
    for (label, limit, small), (_, _, large) in steps:
        cells = [f"{fastest(run, 12).milliseconds:7,.1f} ms {peak_megabytes(run):5,.2f} MB" for run in (small, large)]
        row(layout, label, f"<= {limit:g}" if limit else "", *cells)


def planning_steps(groups: int) -> list[tuple[str, float | None, Callable[[], float]]]:
    """What planning is made of: a label, the target in milliseconds, one run."""
    noise_std, gap, best = calibrated(groups)
    asked = setting(groups)
    return [
        (
            "exact GSHM delta",
            DELTA_LIMIT,
            lambda: gshm.delta(EPSILON, max_groups=groups, noise_std=noise_std, gap=gap),
        ),
        ("CSH bound", DELTA_LIMIT, lambda: asked.delta(best.independent_std, best.correlation, best.gap)),
        (
            "smallest gap, exact GSHM",
            None,
            lambda: gshm.smallest_gap(EPSILON, DELTA, max_groups=groups, noise_std=noise_std),
        ),
        (
            "smallest gap, CSH",
            None,
            lambda: design.smallest_gap(asked, best.independent_std, best.correlation),
        ),
        ("best correlation", None, lambda: design.best_design(asked).gap),
        *(
            (f"full plan, best of all, {objective}", PLAN_LIMIT, lambda o=objective: full_plan(groups, o))
            for objective in ("release95", "gap", "noise")
        ),
    ]


def requests() -> None:
    """Whole plans of requests that are common or that were slow, in CPU time: they are over before a machine calms down."""
    print("\nWhole plans")
    row("  {:<36}{:>12}{:>12}", "", "target, ms", "CPU, ms")
    for label, options in REQUESTS:
        make: Callable[..., object] = dp.plan_top_k if "k" in options else dp.plan
        limit = COMMON_LIMIT if label == "common" else ANY_LIMIT
        begin = time.process_time()
        make(**options)
        row("  {:<36}{:>12}{:>12,.0f}", label, f"<= {limit:g}", (time.process_time() - begin) * 1e3)


def full_plan(groups: int, objective: Objective) -> float:
    """A plan with all its alternatives, by a process that has not met this budget before."""
    largest_mu.cache_clear()
    plan = dp.plan(epsilon=EPSILON, delta=DELTA, max_groups=groups, sparsity=groups, objective=objective)
    return plan.mechanism.noise_std


def row(layout: str, *cells: object) -> None:
    """Print one row, flushed, so that a long run shows that it lives."""
    print(layout.format(*cells).rstrip(), flush=True)


def main() -> None:
    """Print both tables. Nothing fails: timings wobble on a shared machine."""
    load = f", load {os.getloadavg()[0]:.1f}" if hasattr(os, "getloadavg") else ""
    print(
        f"Python {platform.python_version()}, numpy {np.__version__}, scipy {scipy.__version__}, "
        f"{platform.machine()}, {os.cpu_count()} CPUs{load}; epsilon = {EPSILON}, delta = {DELTA:g}"
    )
    against_loops()
    sizes()
    requests()


if __name__ == "__main__":
    main()
