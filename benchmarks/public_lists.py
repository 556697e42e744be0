"""Noise on a public list, before and after there was a choice, beside the formulas that peers use. For docs/public-lists.md.

python benchmarks/public_lists.py
"""

from __future__ import annotations

import math

import dphist as dp

LISTED = 1000
DELTA = 1e-8


def laplace(groups: int, epsilon: float) -> float:
    """The Laplace mechanism with all of a unit's counts in one L1 sensitivity: std sqrt(2) groups/epsilon."""
    return math.sqrt(2) * groups / epsilon


def gaussian(groups: int, epsilon: float, delta: float) -> float:
    """[DR14] Theorem A.1, the formula of textbooks: sqrt(2 ln(1.25/delta) groups)/epsilon."""
    return math.sqrt(2 * math.log(1.25 / delta) * groups) / epsilon


def zcdp(groups: int, epsilon: float, delta: float) -> float:
    """[BS16] Proposition 1.3: epsilon = rho + 2 sqrt(rho ln(1/delta)), rho = groups/(2 std^2)."""
    log = math.log(1 / delta)
    rho = (math.sqrt(log + epsilon) - math.sqrt(log)) ** 2
    return math.sqrt(groups / (2 * rho))


def main() -> None:
    """The table, in Markdown."""
    head = "groups per unit | before | now, δ = 10⁻⁸ | chosen | now, δ = 0 | Laplace | Gaussian, textbook | Gaussian by zCDP"
    print(f"| {head} |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    for groups in (1, 3, 10, 30):
        budget = {"epsilon": 1.0, "keys": LISTED, "max_groups": groups}
        before = dp.plan(delta=DELTA, mechanism="correlated-gaussian", **budget).mechanism  # type: ignore[arg-type]
        now = dp.plan(delta=DELTA, **budget).mechanism  # type: ignore[arg-type]
        pure = dp.plan(delta=0.0, **budget).mechanism  # type: ignore[arg-type]
        peers = (laplace(groups, 1.0), gaussian(groups, 1.0, DELTA), zcdp(groups, 1.0, DELTA))
        shown = [before.noise_std, now.noise_std, now.name, pure.noise_std, *peers]
        cells = [cell if isinstance(cell, str) else f"{cell:.3g}" for cell in shown]
        print(f"| {groups} | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
