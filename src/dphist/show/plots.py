"""Pictures of plans and profiles. Needs the extra [plot]."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from dphist.errors import Infeasible, InvalidParameter, MissingExtra
from dphist.files.outputs import check_outputs, replacement
from dphist.mechanisms import GroupMechanism, Mechanism
from dphist.planning import Plan, Request
from dphist.planning.describe import title

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Okabe and Ito's colours, told apart by nearly everyone; the plan itself is drawn in the first.
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
_STYLES = ("-", "--", "-.", ":", (0, (5, 1)), (0, (3, 1, 1, 1)), (0, (1, 1)))


def new_figure(width: float = 7.2, height: float = 4.5) -> tuple[Figure, Axes]:
    """A quiet figure that needs no screen."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError:
        raise MissingExtra("plot", "pictures") from None
    figure = Figure(figsize=(width, height), layout="constrained", dpi=150)
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(alpha=0.25)
    return figure, axes


def new_axes() -> Axes:
    """Axes of a figure that a notebook shows by itself, and a script with `matplotlib.pyplot.show`."""
    try:
        from matplotlib import pyplot
    except ImportError:
        raise MissingExtra("plot", "pictures") from None
    _, axes = pyplot.subplots(layout="constrained")
    axes.spines[["top", "right"]].set_visible(False)
    return axes


def draw_reaches(
    axes: Axes, places: Sequence[Any], reaches: Sequence[tuple[float, float, float]], *, timed: bool
) -> None:
    """Values with the ends of their errors: bars from the top, or points through time."""
    values = [value for value, _, _ in reaches]
    errors = [[value - low for value, low, _ in reaches], [high - value for value, _, high in reaches]]
    if timed:
        axes.errorbar(places, values, yerr=errors, color=_COLOURS[0], ecolor=_COLOURS[1], elinewidth=1.2, marker=".")
        axes.set_ylabel("count")
        axes.tick_params(axis="x", rotation=30)
        return
    rows = range(len(places))
    axes.barh(rows, values, xerr=errors, color=_COLOURS[0], ecolor=_COLOURS[1], capsize=2)
    axes.set_yticks(rows, places)
    axes.invert_yaxis()
    axes.set_xlabel("count")


def check_picture(path: Path) -> str:
    """The format of a picture, which is the suffix of its path; refused before other files are written."""
    kind = path.suffix.lstrip(".").lower()
    if kind not in new_figure()[0].canvas.get_supported_filetypes():
        raise InvalidParameter("a picture name ending in .png, .svg or .pdf", path.name)
    return kind


def save_figure(figure: Figure, path: Path, *, overwrite: bool = False) -> None:
    """Write the picture. An existing file is refused unless `overwrite`."""
    kind = check_picture(path)
    check_outputs(path, overwrite=overwrite)
    with replacement(path, overwrite=overwrite) as partial:
        figure.savefig(partial, format=kind)


def draw_lines(axes: Axes, curves: Sequence[tuple[str, Sequence[float], Sequence[float]]]) -> None:
    """Labelled curves in colours and dashes that can be told apart."""
    for i, (label, x, y) in enumerate(curves):
        axes.plot(x, y, label=label, color=_COLOURS[i % 7], linestyle=_STYLES[i % 7], linewidth=1.8)


def plot_plan(plan: Plan, path: str | Path, *, overwrite: bool = False) -> None:
    """Threshold against noise for every candidate: what each noise would cost, and where the plan lies."""
    if plan.request.choice != "given" or plan.request.unbounded:
        plot_choice(plan, path, overwrite=overwrite)
        return
    figure, axes = new_figure()
    curves = []
    for mechanism in (plan.mechanism, *plan.alternatives):
        noises, thresholds = threshold_curve(plan.request, mechanism)
        if noises:
            curves.append((title(mechanism), noises, thresholds))
    if not curves:
        raise InvalidParameter("a plan with a threshold to draw", plan.mechanism.name, "public keys need no threshold.")
    draw_lines(axes, curves)
    for i, point in enumerate((plan.mechanism, *plan.alternatives)):
        if point.threshold is not None:
            axes.plot(point.noise_std, point.threshold, "o", color=_COLOURS[i % 7], markersize=9 if i == 0 else 5)
    _frame(plan, axes)
    axes.set(xlabel="noise on a count (standard deviation)", ylabel="threshold on the noisy count")
    axes.set_title(
        f"Smallest threshold for (ε = {plan.request.epsilon:g}, δ = {plan.request.delta:g}); points: best choice of each",
        fontsize=10,
    )
    axes.legend(fontsize=8, frameon=False)
    save_figure(figure, Path(path), overwrite=overwrite)


def plot_choice(plan: Plan, path: str | Path, *, overwrite: bool = False) -> None:
    """The probability of release by the size of a group, for everything that a release may choose."""
    figure, axes = new_figure()
    branches = [m for m in (plan.mechanism, *plan.alternatives) if m.threshold is not None]
    grid = [float(x) for x in np.linspace(0, 1.1 * max(m.count_released_with(0.99) for m in branches), 300)]
    curves = []
    for mechanism in branches:
        name = title(mechanism) if mechanism.in_rounds else f"{mechanism.name}, {mechanism.bound_in_words}"
        curves.append((name, grid, [mechanism.release_probability(x) for x in grid]))
    draw_lines(axes, curves)
    axes.set_xlabel("units in the group after bounding (adaptive: the weight they give it; voting: their votes)")
    axes.set_ylabel("probability that it is released")
    axes.set_title(f"ε = {plan.request.epsilon:g}, δ = {plan.request.delta:g}", fontsize=10)
    axes.legend(fontsize=8, frameon=False)
    save_figure(figure, Path(path), overwrite=overwrite)


def _frame(plan: Plan, axes: Axes) -> None:
    """Show the region around the plan; a mechanism that is many times worse would squeeze it."""
    points = [(m.noise_std, m.threshold) for m in (plan.mechanism, *plan.alternatives) if m.threshold is not None]
    noises, thresholds = zip(points[0], *((n, t) for n, t in points[1:] if t <= 4 * points[0][1]), strict=True)
    axes.set_xlim(0.85 * min(noises), 1.35 * max(noises))
    axes.set_ylim(0.8 * min(thresholds), 1.35 * max(thresholds))


def threshold_curve(request: Request, mechanism: GroupMechanism, points: int = 60) -> tuple[list[float], list[float]]:
    """The smallest threshold of this kind of mechanism as a function of its noise."""
    if mechanism.threshold is None:
        return [], []
    noises, thresholds = [], []
    for ratio in np.geomspace(0.7, 1.6, points):
        asked = replace(request, noise_std=float(mechanism.noise_std * ratio))
        try:
            other = mechanism.with_noise(asked)
        except Infeasible:
            continue
        if other.threshold is not None:
            noises.append(other.noise_std)
            thresholds.append(other.threshold)
    return noises, thresholds


def plot_profile(
    mechanism: Mechanism, label: str, epsilons: Sequence[float], path: str | Path, *, overwrite: bool = False
) -> None:
    """delta as a function of epsilon."""
    figure, axes = new_figure()
    top = max(epsilons) * 1.5
    grid = [float(e) for e in np.linspace(0, top, 200)]
    draw_lines(axes, [(label, grid, [max(mechanism.delta(e), 1e-300) for e in grid])])
    axes.plot(epsilons, [mechanism.delta(e) for e in epsilons], "o", color=_COLOURS[0])
    axes.set(yscale="log", xlabel="ε", ylabel="δ")
    axes.set_title(f"Privacy profile of {label}", fontsize=10)
    save_figure(figure, Path(path), overwrite=overwrite)
