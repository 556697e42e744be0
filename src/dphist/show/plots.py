"""Pictures of releases, plans and profiles by Matplotlib, which no other module loads. Needs the extra [plot]."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from dphist.checks import check_whole
from dphist.errors import Infeasible, InvalidParameter, MissingExtra
from dphist.files.outputs import check_outputs, replacement
from dphist.mechanisms import GroupMechanism, Mechanism
from dphist.planning import Plan, Request
from dphist.planning.describe import title
from dphist.run.record import Record
from dphist.show.table import numbers, reaches, whiskers_in_words, with_its_error
from dphist.words import cut

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_LINE: Final = 90
"""Letters above a picture."""

# Okabe and Ito's colours, which nearly everyone can tell apart. The first is for the plan.
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


def _new_axes() -> Axes:
    """Axes of a figure. A notebook shows it by itself, a script by `matplotlib.pyplot.show`."""
    try:
        from matplotlib import pyplot
    except ImportError:
        raise MissingExtra("plot", "pictures") from None
    _, axes = pyplot.subplots(layout="constrained")
    axes.spines[["top", "right"]].set_visible(False)
    return axes


def plot_counts(table: pa.Table, record: Record, most: int, axes: Axes | None) -> Axes:
    """Bars with whiskers, the largest first; or a line through days and times, in their order."""
    check_whole("most", most)
    if "count" not in table.column_names:
        raise InvalidParameter("a table with counts to draw", "keys alone", "print them, or release counts.")
    keys = [name for name in table.column_names if name in record.by]
    timed = len(keys) == 1 and pa.types.is_temporal(table.schema.field(keys[0]).type)
    if timed:
        shown = table.filter(table.column(keys[0]).is_valid()).sort_by(keys[0])
    else:
        shown = table.sort_by([("count", "descending")]).slice(0, most)
    axes = _new_axes() if axes is None else axes
    values, (low, high) = numbers(shown, "count"), reaches(shown, "count", record.intervals)
    errors = [values - low, high - values]
    colours: dict[str, Any] = {"color": _COLOURS[0], "ecolor": _COLOURS[1]}
    if timed:
        axes.errorbar(shown.column(keys[0]).to_pylist(), values, yerr=errors, elinewidth=1.2, marker=".", **colours)
        axes.set_ylabel("count")
        axes.tick_params(axis="x", rotation=30)
    else:
        labels = [", ".join(with_its_error(row, key) for key in keys) or "all" for row in shown.to_pylist()]
        axes.barh(range(len(labels)), values, xerr=errors, capsize=2, **colours)
        axes.set_yticks(range(len(labels)), [cut(label, 40) for label in labels])
        axes.invert_yaxis()
        axes.set_xlabel("count")
    words = textwrap.wrap(f"{whiskers_in_words(record.intervals)} {record.left_out}", _LINE)
    axes.set_title("\n".join(words), fontsize=9, loc="left")
    return axes


def check_picture(path: Path) -> str:
    """The format of a picture, by the suffix of its path. Refuse others, before other files are written."""
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
    """Labelled curves in different colours and dashes."""
    for i, (label, x, y) in enumerate(curves):
        axes.plot(x, y, label=label, color=_COLOURS[i % 7], linestyle=_STYLES[i % 7], linewidth=1.8)


def plot_plan(plan: Plan, path: str | Path, *, overwrite: bool = False) -> None:
    """Threshold against noise for every candidate, with a mark where the plan lies."""
    if plan.request.bound is None:
        _plot_choice(plan, path, overwrite=overwrite)
        return
    figure, axes = new_figure()
    every = (plan.mechanism, *plan.alternatives)
    curves = [(title(one), *_threshold_curve(plan.request, one)) for one in every if one.threshold is not None]
    curves = [curve for curve in curves if curve[1]]
    if not curves:
        raise InvalidParameter("a plan with a threshold to draw", plan.mechanism.name, "public keys need no threshold.")
    draw_lines(axes, curves)
    points = [(i, one.noise_std, one.threshold) for i, one in enumerate(every) if one.threshold is not None]
    for i, noise, threshold in points:
        axes.plot(noise, threshold, "o", color=_COLOURS[i % 7], markersize=9 if i == 0 else 5)
    # The limit keeps a mechanism that is many times worse from squeezing the region around the plan.
    near = [(noise, threshold) for i, noise, threshold in points if i == 0 or threshold <= 4 * points[0][2]]
    axes.set_xlim(0.85 * min(noise for noise, _ in near), 1.35 * max(noise for noise, _ in near))
    axes.set_ylim(0.8 * min(threshold for _, threshold in near), 1.35 * max(threshold for _, threshold in near))
    axes.set(xlabel="noise on a count (standard deviation)", ylabel="threshold on the noisy count")
    axes.set_title(
        f"Smallest threshold for (ε = {plan.request.epsilon:g}, δ = {plan.request.delta:g}); points: best choice of each",
        fontsize=10,
    )
    axes.legend(fontsize=8, frameon=False)
    save_figure(figure, Path(path), overwrite=overwrite)


def _plot_choice(plan: Plan, path: str | Path, *, overwrite: bool = False) -> None:
    """The probability of release by the size of a group, for each mechanism that the release may choose."""
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


def _threshold_curve(request: Request, mechanism: GroupMechanism) -> tuple[list[float], list[float]]:
    """The smallest threshold of this kind of mechanism as a function of its noise."""
    noises, thresholds = [], []
    for ratio in np.geomspace(0.7, 1.6, 60):
        try:
            other = mechanism.with_noise(replace(request, noise_std=float(mechanism.noise_std * ratio)))
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
