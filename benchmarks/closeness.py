"""How close the counts of a default release are to the number of all units, and how honest their errors.

    python benchmarks/closeness.py [--data DIR] [--sets NAME ...] [--generated [NAME ...]] [--epsilon 1 ...] [--seeds 20]
        [--emphasis balanced]

For every table and epsilon, means over seeds: groups released; the median relative error of the counts; of the largest tenth
of groups the median error and the median half-width of 95 % intervals; how often these intervals cover the truth, overall, in
the worst third of sizes and in the worst release; the mean half-width over the mean absolute error (2.5 if errors are what
they are said to be); and how many groups of 300 units and more are missing, of all releases. The constants of counting were
chosen with `--generated` alone; the sets of `--data` are for evaluation.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
from generated_tables import Data, Floats, Random, generated, table
from numpy.typing import NDArray
from utility import SETS, read

import dphist as dp

DELTA = 1e-8
LEAST_GROUPS = 20
LARGE = 300
HEADER = (
    "| table | ε | groups | median error | largest tenth: error / half-width | covered, worst third, worst release"
    " | width/error | missing of 300 and more | by |\n"
    "| --- | --- | --- | --- | --- | --- | --- | --- | --- |"
)


def heavy_and_light() -> Iterator[Data]:
    """Light units in some groups, heavy ones in others: the table of the issue and its mirror images."""
    rng = np.random.default_rng(77)
    yield mixed("3,000 in 60 of 100, 60,000 in one of 300 others", 3000, 60, 100, 60_000, 300, rng)
    yield mixed("3,000 in 60 of 1,000, 60,000 in one of 30 others", 3000, 60, 1000, 60_000, 30, rng)
    yield mixed("400 in 200 of 400, 40,000 in one of 100 others", 400, 200, 400, 40_000, 100, rng)
    yield few_in_very_many(rng)


def mixed(name: str, heavy: int, degree: int, heavy_groups: int, light: int, light_groups: int, rng: Random) -> Data:
    """Each heavy unit in so many of its groups; each light one in one of the others."""
    unit = np.concatenate([np.repeat(np.arange(heavy), degree), heavy + np.arange(light)])
    group = np.concatenate(
        [
            *(rng.choice(heavy_groups, degree, replace=False) for _ in range(heavy)),
            heavy_groups + rng.integers(0, light_groups, light),
        ]
    )
    return Data(name, unit.astype(np.int32), np.unique(group, return_inverse=True)[1].astype(np.int32))


def few_in_very_many(rng: Random) -> Data:
    """Thirty units that hide among 10,000 light ones: too few for the histogram of norms, in 700 groups each."""
    degrees = np.concatenate([1 + rng.poisson(1, 10_000), np.full(30, 700)])
    sizes = -0.9 * np.log(np.arange(1, 1501))
    groups = [np.argsort(-(sizes + rng.gumbel(size=1500)))[:degree] for degree in degrees]
    unit = np.repeat(np.arange(len(degrees)), degrees)
    group = np.unique(np.concatenate(groups), return_inverse=True)[1]
    return Data("30 in 700 of 1,500, 10,000 in about two of them", unit.astype(np.int32), group.astype(np.int32))


def large() -> Data:
    """Five million rows: 500,000 units in about 10, at most 28, of 50,000 groups with Zipf's sizes."""
    rng = np.random.default_rng(5)
    degrees = np.clip(rng.poisson(10, 500_000), 1, 28).astype(np.float64)
    return table("5 million rows", degrees, 50_000, 1.0, 0.0, rng)


def views() -> Data:
    """A million views of 6,000 pages by 80,000 people of 14 countries, one each: url × country."""
    rng, units, pages = np.random.default_rng(1), 80_000, 6000
    active = rng.lognormal(0, 1.3, units)
    unit = rng.choice(units, 1_000_000, p=active / active.sum())
    share = 1 / np.arange(1, pages + 1.0) ** 1.05
    page = rng.choice(pages, 1_000_000, p=share / share.sum())
    of_countries = [0.3, 0.15, 0.14, 0.1, 0.08, 0.05, 0.04, 0.04, 0.03, 0.03, 0.02, 0.012, 0.004, 0.004]
    group = page * 14 + rng.choice(14, units, p=of_countries)[unit]
    unit, group = np.divmod(np.unique(unit * 14 * pages + group), 14 * pages)
    unit, group = (np.unique(codes, return_inverse=True)[1] for codes in (unit, group))
    return Data("url × country", unit.astype(np.int32), group.astype(np.int32))


def measure(data: Data, epsilon: float, seeds: int, **options: object) -> str | None:
    """One line of the table."""
    rows, source = [], pa.table({"unit": data.unit, "group": data.group})
    selected, missing, number = [], 0, int(np.count_nonzero(data.true >= LARGE))
    for _ in range(seeds):
        with dp.release(source, unit="unit", by="group", epsilon=epsilon, delta=DELTA, **options) as release:  # type: ignore[arg-type]
            released = release.to_arrow()
            selected.append(f"{release.plan.mechanism.name} ({release.plan.mechanism.analysis})")
        missing += number - int(np.count_nonzero(data.true[released["group"].to_numpy()] >= LARGE))
        if released.num_rows >= LEAST_GROUPS:
            true = data.true[released["group"].to_numpy()].astype(np.float64)
            rows.append(closeness(true, released["count"].to_numpy(), released["count_std_error"].to_numpy()))
    if not rows:
        return None
    groups, error, top_error, top_width, covered, worst, ratio = np.mean(rows, axis=0)
    lowest = np.min(rows, axis=0)[4]
    ways = ", ".join(f"{way} {selected.count(way)}" for way in sorted(set(selected)))
    return (
        f"| {data.name} | {epsilon:g} | {groups:,.0f} | {error:.3f} | {top_error:.3f} / {top_width:.3f}"
        f" | {covered:.3f}, {worst:.3f}, {lowest:.2f} | {ratio:.1f} | {missing:,} of {number * seeds:,} | {ways} |"
    )


def closeness(true: Floats, counts: Floats, errors: Floats) -> list[float]:
    """Groups, errors, widths, coverage: see above."""
    off, reach = np.abs(counts - true), 1.959964 * errors
    top = true >= np.quantile(true, 0.9)
    covered: NDArray[np.bool_] = off <= reach
    thirds = [float(covered[part].mean()) for part in np.array_split(np.argsort(true, kind="stable"), 3)]
    return [
        len(true),
        float(np.median(off / true)),
        float(np.median((off / true)[top])),
        float(np.median((reach / true)[top])),
        float(covered.mean()),
        min(thirds),
        float(reach.mean() / max(off.mean(), 1e-9)),
    ]


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--sets", nargs="*", default=SETS)
    parser.add_argument("--generated", nargs="*", help="the generated tables instead; or those that begin with a name")
    parser.add_argument("--epsilon", nargs="+", type=float, default=[1.0])
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--emphasis", default="balanced")
    asked = parser.parse_args()
    if asked.generated is None:
        tables = [read(asked.data, name) for name in asked.sets]
    else:
        tables = [*generated(), *heavy_and_light(), views(), large()]
        tables = [data for data in tables if data.name.startswith(tuple(asked.generated or [""]))]
    print(HEADER, flush=True)
    for data in tables:
        for epsilon in asked.epsilon:
            if (line := measure(data, epsilon, asked.seeds, emphasis=asked.emphasis)) is not None:
                print(line, flush=True)


if __name__ == "__main__":
    main()
