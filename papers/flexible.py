"""Reproduce [BCDP22], flexible accuracy: the six experiments of Appendix L.

    python papers/flexible.py [--out build/papers] [--sets 100] [--runs 100]

Figure 4 (Figure 3 is a part of it): the mean error of max, max_500 and mode against epsilon, actual and flexible (0.5 % of the
records may be dropped), at delta = 2^-20, in per cent of the range. Conventions that the paper leaves open: Cauchy draws are
rounded down and those outside the range discarded; without any bar the answer is the first bar; the mode of equals is the
lowest; the noise of experiment 6 is uniform on {-3, ..., 3}.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
from flexible_baselines import CHOOSING, MECHANISMS, Integers, Mechanism, Question
from flexible_composition import reachable_max_k, reachable_mode
from output import DEFAULT_FOLDER, progress, write_csv, write_table

from dphist.privacy.truncated_laplace import smallest_q
from dphist.show.plots import save_figure

EPSILONS: Final = (0.1, 0.2, 0.5, 1.0, 2.0)
SEED: Final = 2021


def cauchy(random: np.random.Generator) -> Integers:
    """About 10,000 draws around bar 45, scale 4, 100 bars."""
    draws = np.floor(45 + 4 * random.standard_cauchy(10_000))
    return np.bincount(draws[(draws >= 1) & (draws <= 100)].astype(np.int64) - 1, minlength=100)


def cauchy_without_tail(random: np.random.Generator) -> Integers:
    """The same with the last 10 bars empty."""
    counts = cauchy(random)
    counts[90:] = 0
    return counts


def steps(*pieces: tuple[int, int]) -> Integers:
    """Height x width, from left to right."""
    return np.concatenate([np.full(width, height, dtype=np.int64) for height, width in pieces])


def noisy_steps(random: np.random.Generator) -> Integers:
    """Experiment 6: five steps with a little noise."""
    flat = steps((130, 120), (200, 5), (185, 85), (190, 10), (130, 80))
    return flat + random.integers(-3, 4, flat.size)


@dataclass(frozen=True, slots=True)
class Experiment:
    """A question on random histograms."""

    title: str
    question: Question
    draw: Callable[[np.random.Generator], Integers]


EXPERIMENTS: Final = (
    Experiment("1: max, Cauchy, last bars empty", Question(1), cauchy_without_tail),
    Experiment("2: max, 1000 × 50 and 1 × 50", Question(1), lambda random: steps((1000, 50), (1, 50))),
    Experiment("3: max₅₀₀, Cauchy", Question(500), cauchy),
    Experiment("4: max₅₀₀, 540 × 50 and 490 × 50", Question(500), lambda random: steps((540, 50), (490, 50))),
    Experiment("5: mode, 30 bars, Poisson(250)", Question(None), lambda random: random.poisson(250, 30)),
    Experiment("6: mode, noisy steps", Question(None), noisy_steps),
)

Errors = dict[tuple[int, str, float], tuple[float, float]]


def flexible_errors(counts: Integers, question: Question) -> Integers:
    """For every bar the distance to the nearest bar that is right after 0.5 % of the records are dropped."""
    drops = int(counts.sum()) * 5 // 1000
    k = question.k
    reachable = reachable_mode(counts, drops) if k is None else reachable_max_k(counts, k, drops)
    right = np.flatnonzero(reachable)
    bars = np.arange(counts.size)
    return np.asarray(np.abs(bars[:, None] - right[None, :]).min(axis=1))


def run(
    experiment: Experiment, mechanisms: dict[str, Mechanism], sets: int, runs: int, random: np.random.Generator
) -> dict[tuple[str, float], tuple[float, float]]:
    """Mean actual and flexible error in per cent of the range, for each mechanism and epsilon."""
    totals = {(name, epsilon): np.zeros(2) for name in mechanisms for epsilon in EPSILONS}
    for _ in range(sets):
        counts = experiment.draw(random).astype(np.int64)
        truth, flexible = experiment.question.answer(counts), flexible_errors(counts, experiment.question)
        for (name, epsilon), total in totals.items():
            found = mechanisms[name](counts, experiment.question, epsilon, runs, random)
            total += np.array([np.abs(found - truth).mean(), flexible[found].mean()]) * 100 / counts.size
    return {key: (float(total[0] / sets), float(total[1] / sets)) for key, total in totals.items()}


def draw_figure(errors: Errors, path: Path) -> None:
    """Six panels: error against epsilon, actual as lines and flexible as dots."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 6.6), dpi=80, layout="constrained")
    FigureCanvasAgg(figure)
    for number, experiment in enumerate(EXPERIMENTS, 1):
        axes = figure.add_subplot(2, 3, number)
        for i, name in enumerate(MECHANISMS):
            lines = [[errors[number, name, epsilon][kind] for epsilon in EPSILONS] for kind in (0, 1)]
            axes.plot(EPSILONS, lines[0], color=f"C{i}", linewidth=1.5, label=name)
            axes.plot(EPSILONS, lines[1], color=f"C{i}", linestyle="none", marker="o", markersize=3.5)
        axes.set_xscale("log")
        axes.set_xticks(EPSILONS, [f"{epsilon:g}" for epsilon in EPSILONS])
        axes.minorticks_off()
        axes.set_title(experiment.title, fontsize=10)
        axes.grid(alpha=0.3)
        axes.set_xlabel("ε", fontsize=9)
    figure.supylabel("mean error in % of the range: actual (line), flexible (dots)", fontsize=10)
    handles, labels = figure.axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=4, fontsize=9, frameon=False)
    save_figure(figure, path, overwrite=True)


def write_errors(errors: Errors, names: list[str], title: str, path: Path) -> None:
    """One row per experiment and name: actual / flexible error at each epsilon."""
    cells = []
    for number in range(1, len(EXPERIMENTS) + 1):
        for name in names:
            pairs = [errors[number, name, epsilon] for epsilon in EPSILONS]
            cells.append([str(number), name, *(f"{actual:.1f} / {flexible:.1f}" for actual, flexible in pairs)])
    columns = ["experiment", title, *(f"ε = {epsilon:g}" for epsilon in EPSILONS)]
    write_table(path, columns, cells, right=range(2, 2 + len(EPSILONS)))


def main() -> None:
    """Run, write the CSV, the table and the picture."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=DEFAULT_FOLDER, help=f"folder to write to ({DEFAULT_FOLDER})")
    parser.add_argument("--sets", type=int, default=100, help="data sets per experiment (100)")
    parser.add_argument("--runs", type=int, default=100, help="runs per data set (100)")
    parsed = parser.parse_args()
    parsed.out.mkdir(parents=True, exist_ok=True)
    errors: Errors = {}
    with progress("[BCDP22] Figure 4", parsed.out / "flexible_figure_4.png", parsed.out / "flexible_figure_4.csv"):
        for number, experiment in enumerate(EXPERIMENTS, 1):
            random = np.random.default_rng([SEED, number])
            for (name, epsilon), found in run(experiment, MECHANISMS, parsed.sets, parsed.runs, random).items():
                errors[number, name, epsilon] = found
        draw_figure(errors, parsed.out / "flexible_figure_4.png")
        rows = [[n, name, epsilon, *found] for (n, name, epsilon), found in errors.items()]
        header = ["experiment", "mechanism", "epsilon", "actual_error_percent", "flexible_error_percent"]
        write_csv(parsed.out / "flexible_figure_4.csv", header, rows)
    with progress("Errors at each epsilon", parsed.out / "flexible_errors.csv"):
        write_errors(errors, list(MECHANISMS), "mechanism", parsed.out / "flexible_errors.csv")
    with progress("The choosing-based histogram with other constants", parsed.out / "flexible_choosing.csv"):
        readings: Errors = {}
        for number, experiment in enumerate(EXPERIMENTS, 1):
            random = np.random.default_rng([SEED, number, 1])
            for (name, epsilon), found in run(experiment, CHOOSING, parsed.sets, parsed.runs, random).items():
                readings[number, name, epsilon] = found
        write_errors(readings, list(CHOOSING), "constants", parsed.out / "flexible_choosing.csv")
    with progress("The smallest q", parsed.out / "flexible_q.csv"):
        found_q = [
            ["2⁻²⁰", *(str(smallest_q(e, 2.0**-20)) for e in EPSILONS)],
            ["1e-5", *(str(smallest_q(e, 1e-5)) for e in EPSILONS)],
        ]
        write_table(parsed.out / "flexible_q.csv", ["δ", *(f"ε = {e:g}" for e in EPSILONS)], found_q, right=range(1, 6))


if __name__ == "__main__":
    main()
