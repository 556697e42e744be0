"""Counts near the threshold: how far off they are and how often intervals cover, plain and given release.

    python benchmarks/near_threshold.py [--plot docs/pictures/near-threshold.png]

Exact: sums over the law of the noise, no simulation. epsilon = 1, delta = 1e-8, max_groups = 10. And, for several budgets, the
lowest coverage of ± 1.96 standard errors anywhere from two standard deviations below the threshold to five above it, for the
count, and for the sum and mean of values that are all at the upper bound of 0..10.
"""

from __future__ import annotations

import argparse
import math
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

import dphist as dp
from dphist.show.plots import draw_lines, new_figure, save_figure

Floats = NDArray[np.float64]
Z = float(ndtri(0.975))
SETTINGS = (
    *(("Gaussian", *setting) for setting in ((1, 1e-8, 1), (1, 1e-8, 10), (10, 1e-8, 1), (30, 1e-8, 1))),
    *(("Gaussian", 1, delta, 1) for delta in (1e-5, 1e-3, 1e-2)),
    *(("Laplace", *setting) for setting in ((1, 1e-8, 1), (3, 1e-8, 1), (1, 1e-3, 1))),
)


def near(mechanism: dp.SparseGaussian, n: int) -> list[float]:
    """(n - T)/std, mean error of the plain count, mean and median error of the estimate, coverage of both, in stds."""
    std, threshold, step = mechanism.noise_std, mechanism.threshold, 2.0**-mechanism.lattice_bits
    noisy = threshold + step * np.arange(1.0, int((12 * std + max(n - threshold, 0)) / step))
    chances = ndtr((noisy + step / 2 - n) / std) - ndtr((noisy - step / 2 - n) / std)
    chances /= chances.sum()
    found = mechanism.given_release(noisy, 0.95)
    assert found.bounds is not None
    low, high = found.bounds
    median = found.counts[np.searchsorted(np.cumsum(chances), 0.5)]
    errors = (chances @ (noisy - n), chances @ (found.counts - n), median - n)
    covered = (np.abs(noisy - n) <= std * ndtri(0.975), (low <= n) & (n <= high))
    return [(n - threshold) / std, *(float(e) / std for e in errors), *(float(chances[c].sum()) for c in covered)]


def plain_intervals(law: str, epsilon: float, delta: float, max_groups: int) -> list[float]:
    """The threshold, the std, and the lowest coverage of count, sum and mean ± 1.96 standard errors."""
    name = "sparse-gaussian" if law == "Gaussian" else "laplace"
    plan = dp.plan(epsilon=epsilon, delta=delta, max_groups=max_groups, mechanism=name, sums={"x": (0, 10)})
    assert isinstance(plan.mechanism, dp.SparseGaussian | dp.LaplaceThreshold)
    mechanism, (measure,) = plan.mechanism, plan.measures
    std, threshold, centre = mechanism.noise_std, float(mechanism.threshold), measure.measure.centre
    quantiles = (np.arange(1000) + 0.5) / 1000
    noise = ndtri(quantiles) if law == "Gaussian" else -np.sign(quantiles - 0.5) * np.log(1 - 2 * abs(quantiles - 0.5))
    drawn = noise * measure.noise_std / float(np.std(noise))
    worst = np.ones(3)
    for place in np.arange(-2, 5.1, 0.25):
        true = max(threshold + place * std, 1.0)
        noisy = np.linspace(threshold, max(true, threshold) + 9 * std, 4001)[1:]
        if law == "Laplace":  # on whole numbers
            true, noisy = float(round(true)), np.unique(np.ceil(noisy))
        off = (noisy - true) / std
        chances = np.exp(-(off**2) / 2 if law == "Gaussian" else -math.sqrt(2) * abs(off))
        found = mechanism.given_release(noisy, 0.95)
        errors, units = found.std_errors[:, None], np.maximum(found.counts, 1)[:, None]
        means = np.clip(centre + (centre * true + drawn) / units, 0, 10)
        sums = centre * (found.counts - true)[:, None] + drawn
        inside = (
            np.abs(found.counts - true) <= Z * found.std_errors,
            (np.abs(sums) <= Z * np.hypot(measure.noise_std, centre * errors)).mean(axis=1),
            (10 - means <= Z * np.hypot(measure.noise_std, np.abs(means - centre) * errors) / units).mean(axis=1),
        )
        worst = np.minimum(worst, [float(chances @ part / chances.sum()) for part in inside])
    return [threshold, std, *worst]


def main() -> None:
    """Print the tables, draw the picture."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--plot", type=Path)
    plot: Path | None = parser.parse_args().plot
    mechanism = dp.plan(epsilon=1, delta=1e-8, max_groups=10).mechanism
    assert isinstance(mechanism, dp.SparseGaussian)
    std, threshold = mechanism.noise_std, mechanism.threshold
    rows = [near(mechanism, n) for n in range(int(threshold - 2 * std) + 1, int(threshold + 5 * std), 2)]
    print(f"threshold T = {threshold:g}, std = {std:.4g}; errors in stds")
    print("(n - T)/std  plain: mean error  covered   given release: mean error  median  covered")
    for place, plain, mean, median, covers, given in rows[::8]:
        print(f"{place:11.2f}{plain:19.2f}{covers:9.1%}{mean:27.2f}{median:8.2f}{given:9.1%}")
    print("\n| noise | ε | δ | groups per unit | threshold | σ | count | sum | mean at a bound |\n|" + " --- |" * 9)
    for setting in SETTINGS:
        at, deviation, *worst = plain_intervals(*setting)
        law, epsilon, delta, groups = setting
        print(f"| {law} | {epsilon:g} | {delta:g} | {groups} | {at:.1f} | {deviation:.2f} |", end="")
        print("".join(f" {100 * part:.0f} % |" for part in worst))
    if plot is None:
        return
    columns: list[list[float]] = [list(column) for column in zip(*rows, strict=True)]
    where = columns[0]
    figure, first = new_figure(9.0, 3.6)
    first.remove()
    left, right = figure.subplots(1, 2)
    for axes in (left, right):
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(alpha=0.25)
        axes.axvline(0, color="#999999", linewidth=0.8)
        axes.set_xlabel("true count − threshold, in standard deviations of the noise")
    names = ("plain noisy count", "estimate given release", "its median")
    draw_lines(left, [(name, where, columns[i]) for i, name in enumerate(names, 1)])
    left.set_title("mean error of released counts, in standard deviations", fontsize=10)
    labels = ("plain, ± 1.96 standard deviations", "given release")
    draw_lines(right, [(name, where, columns[i]) for i, name in enumerate(labels, 4)])
    right.axhline(0.95, color="#999999", linewidth=0.8)
    right.set_ylim(0, 1.02)
    right.set_title("released counts whose 95 % interval covers the truth", fontsize=10)
    for axes in (left, right):
        axes.legend(fontsize=8, frameon=False, loc="upper right" if axes is left else "lower right")
    save_figure(figure, plot, overwrite=True)


if __name__ == "__main__":
    main()
