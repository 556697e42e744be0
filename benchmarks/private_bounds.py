"""Whether the errors of aggregates with private bounds are what is said: thirty distributions, sizes of groups, epsilons.

    python benchmarks/private_bounds.py [--runs 4] [--draws 5] [--only NAME] [--sizes 30 ...] [--epsilon 0.1 ...] [--each]

Every table has groups of one size, or of all sizes together ("mixed"), and a public list of its groups. Bounds, values and
errors are computed as a release computes them; noise is drawn by NumPy, and records are arrays. A group is covered if its true
value, unclamped, is within two stated standard errors of the published one, or if that is withheld. Printed are, over all
sizes and epsilons, how many of the groups are, and the worst of those; with --each all of them, and the median of standard
error over truth.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

import dphist as dp
from dphist.aggregates.measures import Number
from dphist.aggregates.noisy_sums import NoisyMeasure
from dphist.engines.buckets import BUCKETS, LARGEST, OF_A_SIGN, SMALLEST
from dphist.mechanisms.lattice import Kept
from dphist.run.sizing import chosen_from
from dphist.run.table import noisy_columns

Floats = NDArray[np.float64]
Draw = Callable[[np.random.Generator, int], Floats]

SIZES: Final = (30, 300, 3_000, 30_000, 100_000)
EPSILONS: Final = (0.1, 1.0, 10.0)
KINDS: Final = ("sum", "mean", "variance", "std")
LEAST: Final = 0.9
LEAST_GROUPS: Final = 150
"""In all runs: the largest groups are few, and get more draws of noise."""
DELTA: Final = 1e-8
MOST_UNITS: Final = 600_000


def _mixture(weights: Sequence[float], *parts: Draw) -> Draw:
    def draw(rng: np.random.Generator, n: int) -> Floats:
        which = rng.choice(len(parts), n, p=weights)
        return np.choose(which, [part(rng, n) for part in parts])

    return draw


def _null(draw: Draw, part: float) -> Draw:
    return lambda rng, n: np.where(rng.random(n) < part, np.nan, draw(rng, n))


def _normal(mean: float, std: float) -> Draw:
    return lambda rng, n: rng.normal(mean, std, n)


def _lognormal(mean: float, std: float) -> Draw:
    return lambda rng, n: rng.lognormal(mean, std, n)


def _pareto(power: float, scale: float = 1.0) -> Draw:
    return lambda rng, n: scale * (1 + rng.pareto(power, n))


def _constant(value: float) -> Draw:
    return lambda rng, n: np.full(n, value)


def _negative(draw: Draw) -> Draw:
    return lambda rng, n: -draw(rng, n)


DISTRIBUTIONS: Final[dict[str, Draw]] = {
    "normal(50, 10)": _normal(50, 10),
    "normal(0, 3)": _normal(0, 3),
    "normal(1000, 1), far from zero": _normal(1000, 1),
    "normal(-20, 5), negative": _normal(-20, 5),
    "normal(25, 10), a few below zero": _normal(25, 10),
    "lognormal(10.5, 0.5), salaries": _lognormal(10.5, 0.5),
    "lognormal(0, 1)": _lognormal(0, 1),
    "lognormal(3, 1.5)": _lognormal(3, 1.5),
    "lognormal(0, 2)": _lognormal(0, 2),
    "-lognormal(2, 1), negative": _negative(_lognormal(2, 1)),
    "ratings 1 to 5": lambda rng, n: rng.integers(1, 6, n).astype(float),
    "ratings, mostly 5": lambda rng, n: rng.choice([1.0, 2, 3, 4, 5], n, p=[0.04, 0.02, 0.04, 0.1, 0.8]),
    "0 or 1, one in 20 is 1": lambda rng, n: (rng.random(n) < 0.05).astype(float),
    "uniform 0 to 100": lambda rng, n: rng.uniform(0, 100, n),
    "uniform -1 to 1": lambda rng, n: rng.uniform(-1, 1, n),
    "uniform -100 to -90": lambda rng, n: rng.uniform(-100, -90, n),
    "exponential(10)": lambda rng, n: rng.exponential(10, n),
    "ages 18 to 90": lambda rng, n: np.floor(rng.triangular(18, 35, 90, n)),
    "poisson(2)": lambda rng, n: rng.poisson(2, n).astype(float),
    "Pareto(3)": _pareto(3.0),
    "Pareto(2)": _pareto(2.0),
    "Pareto(1.5), revenue": _pareto(1.5, 10.0),
    "Student's t(3)": lambda rng, n: rng.standard_t(3, n),
    "Laplace(0, 5)": lambda rng, n: rng.laplace(0, 5, n),
    "two humps, 10 and 1000": _mixture([0.9, 0.1], _normal(10, 2), _normal(1000, 100)),
    "two humps, -50 and 50": _mixture([0.5, 0.5], _normal(-50, 5), _normal(50, 5)),
    "mostly 0, some lognormal": _mixture([0.9, 0.1], _constant(0.0), _lognormal(3, 1)),
    "constant 5": _constant(5.0),
    "constant -1000": _constant(-1000.0),
    "normal(50, 10), 9 in 10 null": _null(_normal(50, 10), 0.9),
}
EXTRA: Final[dict[str, Draw]] = {"Pareto(1.1)": _pareto(1.1)}
"""Of which errors are known to be too small: only where --only names them."""


@dataclass(frozen=True, slots=True, eq=False)
class Table:
    """The values of units that have one, group after group; units is how many each group has, present how many with a value."""

    values: Floats
    units: Floats
    present: NDArray[np.int64]

    def added(self, each: Floats) -> Floats:
        """Sums by group."""
        return np.array([part.sum() for part in np.split(each, np.cumsum(self.present)[:-1])])


def table_of(draw: Draw, sizes: Sequence[int], rng: np.random.Generator) -> Table:
    """Groups of these sizes."""
    groups = [part[~np.isnan(part)] for part in (draw(rng, size) for size in sizes)]
    return Table(np.concatenate(groups), np.array(sizes, float), np.array([len(group) for group in groups]))


def groups_of(size: int | None) -> list[int]:
    """As many groups of a size as fit, at most 200; or groups of all sizes, as many units in each size."""
    if size is None:
        return [one for one in SIZES[:4] for _ in range(min(max(30_000 // one, 2), 100))]
    return [size] * max(min(MOST_UNITS // size, 200), 3)


def truth(table: Table, kind: str) -> Floats:
    """Of each group, without bounds; NaN where there is no value."""
    sums = table.added(table.values)
    if kind == "sum":
        return sums
    with np.errstate(invalid="ignore", divide="ignore"):
        means = sums / table.present
        if kind == "mean":
            return means
        away = table.values - np.repeat(np.nan_to_num(means), table.present)
        variances = table.added(away**2) / table.present
    return variances if kind == "variance" else np.sqrt(np.maximum(variances, 0))


def histogram(values: Floats) -> NDArray[np.int64]:
    """As `dphist.engines.buckets` has it, of units with one record each."""
    size = np.abs(values)
    far = np.floor(2 * np.log2(np.where(size > 0, size, 1.0)) + 1e-9).astype(np.int64) - 2 * SMALLEST
    place = np.where(size >= 2.0**LARGEST, OF_A_SIGN - 1, np.clip(far, 0, OF_A_SIGN - 1))
    buckets = np.where(values > 0, OF_A_SIGN + 1 + place, OF_A_SIGN - 1 - place)
    return np.bincount(np.where(size == 0, OF_A_SIGN, buckets), minlength=BUCKETS)


@lru_cache(maxsize=64)
def plan_of(kind: str, epsilon: float, groups: int) -> dp.Plan:
    """A public list of groups."""
    option = {"sum": "sums", "mean": "means", "variance": "variances", "std": "stds"}[kind]
    return dp.plan(epsilon=epsilon, delta=DELTA, max_groups=1, keys=groups, **{option: {"x": "auto"}})  # type: ignore[arg-type]


def laplace(scale: float, size: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Discrete Laplace noise, as the difference of two geometric numbers."""
    chance = -np.expm1(-1 / scale)
    return np.asarray(rng.geometric(chance, size) - rng.geometric(chance, size))


def released(
    table: Table, exact: NDArray[np.int64], kind: str, epsilon: float, rng: np.random.Generator
) -> tuple[Floats, Floats] | None:
    """The values and standard errors of one release; None if no bounds were found. exact: the histogram of values."""
    plan = plan_of(kind, epsilon, len(table.units))
    (aggregate,) = plan.request.aggregates
    chosen, _ = chosen_from(plan, aggregate, exact + laplace(plan.request.bounds_scale, BUCKETS, rng))
    if chosen.chosen == "nothing":
        return None
    plan = replace(plan, request=replace(plan.request, aggregates=(chosen,)))
    sums = {one.name: noisy_sum(table, one, rng) for one in plan.measures}
    counts = table.units + rng.normal(0, plan.mechanism.noise_std, len(table.units))
    bits = plan.mechanism.lattice_bits
    kept = Kept(np.arange(len(counts)), np.rint(np.ldexp(counts, bits)).astype(np.int64), bits)
    column = noisy_columns(plan, kept, sums)[1]
    return np.where(column.withheld, np.nan, column.values), column.std_errors


def noisy_sum(table: Table, noisy: NoisyMeasure, rng: np.random.Generator) -> NDArray[np.int64]:
    """The recentred sums of a measure, in steps, of units with one record each."""
    measure = noisy.measure
    each = np.clip(table.values, measure.lower, measure.upper)
    middle = measure.lower + measure.half
    if isinstance(measure, Number):
        each = np.ones(len(each))
    elif measure.kind == "square":
        each = (each - middle) ** 2
    missing = table.units - table.present if measure.kind in ("sum", "present") else 0.0  # who has no value adds 0
    centre = middle if measure.kind == "deviation" else measure.centre
    sums = table.added(each - centre) - missing * centre + rng.normal(0, noisy.noise_std, len(table.units))
    return np.asarray(np.rint(sums / measure.step), np.int64)


@dataclass(frozen=True, slots=True)
class Cell:
    """How many groups, in all runs, of one distribution, size, epsilon and kind, and how many of them are covered, or null."""

    groups: int
    covered: int
    null: int
    width: float

    @property
    def share(self) -> float:
        """Of groups that are not wrong."""
        return (self.covered + self.null) / self.groups


def measure(
    name: str, size: int | None, epsilon: float, runs: int, draws: int, kinds: Sequence[str] = KINDS
) -> dict[str, Cell]:
    """All kinds of one table: each run has new values, each draw new noise."""
    found: dict[str, list[Cell]] = {kind: [] for kind in kinds}
    for run in range(runs):
        draws_of = {**DISTRIBUTIONS, **EXTRA}
        seed = [list(draws_of).index(name), size or 0, run]
        table = table_of(draws_of[name], groups_of(size), np.random.default_rng(seed))
        exact = histogram(table.values)
        for kind in kinds:
            rng = np.random.default_rng([*seed, int(1000 * epsilon), KINDS.index(kind)])
            true = truth(table, kind)
            enough = max(draws, -(-LEAST_GROUPS // (runs * len(true))))
            found[kind] += [compared(true, released(table, exact, kind, epsilon, rng)) for _ in range(enough)]
    return {kind: together(cells) for kind, cells in found.items()}


def compared(true: Floats, published: tuple[Floats, Floats] | None) -> Cell:
    """One release with the truth."""
    if published is None:
        return Cell(len(true), 0, len(true), np.nan)
    values, errors = published
    known = ~np.isnan(values) & ~np.isnan(true)
    covered = int((np.abs(values - true)[known] <= 2 * errors[known]).sum())
    some = known & (true != 0)
    width = float(np.median(errors[some] / np.abs(true[some]))) if some.any() else np.nan
    return Cell(len(true), covered, len(true) - int(known.sum()), width)


def together(cells: Sequence[Cell]) -> Cell:
    """Of all of them, with the median of their widths."""
    widths = [cell.width for cell in cells if not np.isnan(cell.width)]
    groups, covered, null = (sum(getattr(cell, name) for cell in cells) for name in ("groups", "covered", "null"))
    return Cell(groups, covered, null, float(np.median(widths)) if widths else np.nan)


def main() -> None:
    """Print one row for each distribution."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=4)
    parser.add_argument("--draws", type=int, default=5)
    parser.add_argument("--only", default="", help="distributions whose name holds this")
    parser.add_argument("--sizes", type=int, nargs="*", default=[*SIZES, 0], help="0: all sizes together")
    parser.add_argument("--epsilon", type=float, nargs="*", default=EPSILONS)
    parser.add_argument("--each", action="store_true", help="also a line for every size, epsilon and aggregate")
    given = parser.parse_args()
    print(f"| values | {' | '.join(KINDS)} |\n| --- |{' --- |' * len(KINDS)}")
    below = number = 0
    for name in [*DISTRIBUTIONS, *(EXTRA if given.only else [])]:
        if given.only not in name:
            continue
        found: dict[str, list[tuple[Cell, str]]] = {kind: [] for kind in KINDS}
        for epsilon in given.epsilon:
            for size in given.sizes:
                place = f"{size or 'mixed'}, ε = {epsilon:g}"
                for kind, cell in measure(name, size or None, epsilon, given.runs, given.draws).items():
                    found[kind].append((cell, place))
                    if given.each:
                        null, width = cell.null / cell.groups, cell.width
                        print(
                            f"{name}: {kind}, {place}: {cell.share:.3f}, null {null:.2f}, width {width:.3g}", flush=True
                        )
        words = []
        for cells in found.values():
            worst, place = min(cells, key=lambda one: one[0].share)
            words.append(f"{np.mean([cell.share for cell, _ in cells]):.3f}; {worst.share:.3f} ({place})")
            below += sum(cell.share < LEAST for cell, _ in cells)
            number += len(cells)
        print(f"| {name} | {' | '.join(words)} |", flush=True)
    print(f"\n{below} of {number} are below {LEAST}.")


if __name__ == "__main__":
    main()
