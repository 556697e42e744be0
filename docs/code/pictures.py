"""The pictures of docs/choose, from the same functions that plans are made with: `python docs/code/pictures.py`.

No data: everything shown follows from public numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import dphist as dp
from dphist.privacy.gaussian import delta_gaussian, largest_mu
from dphist.show.plots import draw_lines, save_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FOLDER = Path(__file__).resolve().parents[1] / "choose" / "pictures"
EPSILONS = (0.1, 0.2, 0.3, 0.5, 0.7, 1, 1.5, 2, 3, 5, 8)


def main() -> None:
    """Draw all of them."""
    FOLDER.mkdir(exist_ok=True)
    for name, draw in {
        "epsilon": epsilon, "delta": delta, "unit": unit, "bounds": bounds, "tables": tables, "published": published,
    }.items():  # fmt: skip
        save_figure(draw(), FOLDER / f"{name}.png", overwrite=True)


def panels(number: int, height: float = 3.4) -> tuple[Any, Sequence[Axes]]:
    """Axes side by side."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(4.2 * number, height), layout="constrained", dpi=110)
    FigureCanvasAgg(figure)
    axes = [figure.add_subplot(1, number, 1 + place) for place in range(number)]
    for one in axes:
        one.spines[["top", "right"]].set_visible(False)
        one.grid(alpha=0.25)
    return figure, axes


def needed(epsilon: float, delta: float, max_groups: int) -> tuple[float, float]:
    """The noise on a count, and the number of people with which a group is released 95 times in 100."""
    mechanism: Any = dp.plan(epsilon=epsilon, delta=delta, max_groups=max_groups).mechanism
    return mechanism.noise_std, mechanism.count_released_with(0.95)


def epsilon() -> Any:
    """What an attacker may learn, and what it buys."""
    figure, (left, right) = panels(2)
    grid = np.linspace(0, 8, 200)
    left.plot(grid, 100 / (1 + np.exp(-grid)), color="#0072B2", linewidth=1.8)
    for at in (0.1, 0.5, 1, 2, 3, 5):
        share = 100 / (1 + np.exp(-at))
        left.plot([at], [share], "o", color="#D55E00", markersize=4)
        left.annotate(f"ε = {at:g}: {share:.0f} %", (at, share), (at + 0.25, share - 2.6), fontsize=8)
    left.set(xlabel="ε", ylabel="certainty afterwards, per cent, at most", ylim=(49, 101))
    left.set_title("Somebody who thought: fifty-fifty", fontsize=10)
    _sizes(right, EPSILONS, lambda value, groups: needed(value, 1e-8, groups)[1])
    right.set(xlabel="ε", ylabel="people", xscale="log", yscale="log")
    right.set_title("Smallest group that is usually shown (δ = 1e-8)", fontsize=10)
    _plain_ticks(right, (0.1, 0.3, 1, 3, 8))
    return figure


def _plain_ticks(axes: Axes, ticks: Sequence[float]) -> None:
    axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    axes.minorticks_off()


def _sizes(axes: Axes, values: Sequence[float], size: Callable[[float, int], float]) -> None:
    """One curve for each bound on the groups of a person."""
    curves = [
        (
            "a person in 1 group" if groups == 1 else f"in up to {groups} groups",
            list(values),
            [size(value, groups) for value in values],
        )
        for groups in (1, 10, 100)
    ]
    draw_lines(axes, curves)
    axes.legend(fontsize=8, frameon=False)


def delta() -> Any:
    """A smaller delta costs little."""
    figure, (axes,) = panels(1)
    _sizes(axes, [10.0**-power for power in range(4, 16)], lambda value, groups: needed(1, value, groups)[1])
    axes.set(xlabel="δ", ylabel="people", xscale="log", ylim=(0, None))
    axes.invert_xaxis()
    axes.set_title("Smallest group that is usually shown (ε = 1)", fontsize=10)
    return figure


def unit() -> Any:
    """What protecting a person's day says about the person."""
    figure, (axes,) = panels(1)
    days = np.unique(np.round(np.logspace(0, np.log10(365), 40)))
    mu = largest_mu(1.0, 1e-8)
    exact = [_epsilon_of(mu * np.sqrt(number), 1e-6) for number in days]
    draw_lines(
        axes, [("ε of every day added up", list(days), list(days)), ("exact, for Gaussian noise", list(days), exact)]
    )
    axes.set(xlabel="days on which the person is in the data", ylabel="ε for the person", xscale="log", yscale="log")
    _plain_ticks(axes, (1, 7, 30, 100, 365))
    axes.set_yticks([1, 3, 10, 30, 100, 365], ["1", "3", "10", "30", "100", "365"])
    axes.legend(fontsize=8, frameon=False)
    axes.set_title("One day is protected with ε = 1", fontsize=10)
    return figure


def _epsilon_of(mu: float, delta_: float) -> float:
    """The smallest epsilon that Gaussian noise with this mu has at a delta."""
    low, high = 0.0, 200.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (low, middle) if float(delta_gaussian(mu, middle)) <= delta_ else (middle, high)
    return high


def bounds() -> Any:
    """Clamping loses, noise costs: between them is the best bound; the same for the groups of a person."""
    figure, (left, right) = panels(2)
    people = 500
    values = np.exp(
        2.2 + 0.9 * _normal_scores(4001)
    )  # of a made-up column: half of them pay over 9, one in a hundred over 70
    uppers = np.geomspace(8, 500, 60)
    lost = np.array([people * np.maximum(values - upper, 0).mean() for upper in uppers])
    plan: Any = dp.plan(epsilon=1, delta=1e-8, max_groups=1, sums={"x": (0, 1)})
    noise = uppers * np.hypot(
        plan.measures[0].noise_std, 0.5 * plan.mechanism.noise_std
    )  # of the sum and of half the count
    total = people * values.mean()
    curves = [
        ("lost by clamping", uppers, 100 * lost / total),
        ("noise", uppers, 100 * noise / total),
        ("together", uppers, 100 * np.hypot(lost, noise) / total),
    ]
    draw_lines(left, [(label, list(x), list(y)) for label, x, y in curves])
    left.set(xlabel="upper bound", ylabel="per cent of the sum", xscale="log", ylim=(0, 40))
    _plain_ticks(left, (10, 20, 50, 100, 200, 500))
    left.legend(fontsize=8, frameon=False)
    left.set_title(f"A sum over {people} people, ε = 1", fontsize=10)
    groups = (1, 2, 3, 5, 10, 20, 50, 100)
    draw_lines(right, [("noise of a count", groups, [needed(1, 1e-8, one)[0] for one in groups]),
                       ("smallest group usually shown", groups, [needed(1, 1e-8, one)[1] for one in groups])])  # fmt: skip
    right.set(xlabel="--max-groups", ylabel="people", xscale="log", yscale="log")
    _plain_ticks(right, groups)
    right.legend(fontsize=8, frameon=False)
    right.set_title("Groups of one person, ε = 1, δ = 1e-8", fontsize=10)
    return figure


def _normal_scores(number: int) -> Any:
    from scipy.special import ndtri

    return ndtri((np.arange(number) + 0.5) / number)


def tables() -> Any:
    """Noise of each table if a budget is shared by so many."""
    figure, (axes,) = panels(1)
    numbers = (1, 2, 3, 5, 10, 20, 50)
    mu = largest_mu(1.0, 5e-7)
    split = [needed(1 / number, 5e-7 / number, 10)[0] for number in numbers]
    kept = [np.sqrt(10 * number) / mu for number in numbers]
    draw_lines(axes, [("ε and δ divided by hand", numbers, split), ("a ledger with the accountant gdp", numbers, kept)])
    axes.set(xlabel="tables that share ε = 1, δ = 1e-6", ylabel="noise of a count, people", xscale="log", yscale="log")
    _plain_ticks(axes, numbers)
    axes.set_yticks([20, 50, 100, 200, 500], ["20", "50", "100", "200", "500"])
    axes.legend(fontsize=8, frameon=False)
    axes.set_title("A person in at most 10 groups of each table", fontsize=10)
    return figure


PUBLISHED = (
    ("Facebook URLs, one kind of action", 0.45, "person, 99 % of them"),
    ("Wikimedia page views", 1.0, "device and day"),
    ("Facebook URLs, all actions", 1.453, "person, 96.6 % of them"),
    ("Apple, health types", 2.0, "device and day"),
    ("Google mobility reports", 2.64, "person and day"),
    ("Apple, emoji", 4.0, "device and day"),
    ("Apple, search suggestions", 8.0, "device and day"),
    ("US Census 2020, persons", 17.14, "person"),
    ("LinkedIn audience engagements", 34.9, "member and month"),
)


def published() -> Any:
    """Epsilon of what others published, with its unit."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 3.6), layout="constrained", dpi=110)
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.grid(axis="x", alpha=0.25)
    names = [name for name, _, _ in reversed(PUBLISHED)]
    values = [value for _, value, _ in reversed(PUBLISHED)]
    axes.hlines(names, 0.3, values, color="#56B4E9", linewidth=3)
    axes.plot(values, names, "o", color="#0072B2")
    for name, value, what in PUBLISHED:
        axes.annotate(f"{value:g}  per {what}", (value, name), (8, -3), textcoords="offset points", fontsize=8)
    axes.set(xscale="log", xlim=(0.3, 400), xlabel="ε")
    _plain_ticks(axes, (0.3, 1, 3, 10, 30))
    axes.tick_params(axis="y", length=0)
    return figure


if __name__ == "__main__":
    main()
