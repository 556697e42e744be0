"""Counts near the threshold: how far off they are and how often intervals cover, plain and given release.

    python benchmarks/near_threshold.py [--plot docs/pictures/near-threshold.png]

Exact: sums over the law of the noise, no simulation. epsilon = 1, delta = 1e-8, max_groups = 10.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

import dphist as dp
from dphist.report.plots import draw_lines, new_figure, save_figure

Floats = NDArray[np.float64]


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


def main() -> None:
    """Print the table, draw the picture."""
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
