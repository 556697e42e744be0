"""What a budget buys: groups released, and how wrong their counts are, next to what others do.

    python benchmarks/utility.py [--data DIR] [--epsilon 1] [--delta 1e-8] [--seeds 20] [--tune]

Errors are relative to the true number of units in a group, not to a count after bounding: what bounding loses is an error,
too. Each line is the mean over seeds ± the spread (one standard deviation) of groups released / median relative error.

- plain C: our calibration, the better of exact sparse Gaussian and Laplace at max_groups C;
- peers: C = 10 with half of delta for the noise and half for the threshold, as most libraries do; and their Laplace;
- best C: the plain C with most groups, chosen by looking at the results, which nobody may do;
- weighted Gaussian set union and DP-SIPS: they publish keys, no counts. Gaussian weights 1/sqrt(d), three rounds with
  budgets 1 : 3 : 9 that drop found keys; both get our tighter accounting of the noise, so these are upper bounds;
- adaptive: the adaptive mechanism with the whole budget; automatic: what `dphist release` does without a bound, which pays
  2 % of epsilon for choosing between adaptive and Laplace thresholding.

--tune runs the constants of the adaptive release on generated data only, the way they were chosen.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import duckdb
import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

import dphist as dp
from dphist.mechanisms import LaplaceThreshold, SparseGaussian
from dphist.mechanisms.adaptive import AdaptiveGaussian, calibrate
from dphist.mechanisms.adaptive_counting import count
from dphist.mechanisms.adaptive_estimates import estimate
from dphist.mechanisms.adaptive_pairs import MemoryPairs, draw_sample
from dphist.mechanisms.adaptive_selection import select
from dphist.mechanisms.adaptive_tuning import Tuning
from dphist.mechanisms.choice import CHOICE_SHARE, DEGREE_EDGES, choose, noisy_degrees, predicted_releases
from dphist.privacy.gaussian import largest_mu

Codes = NDArray[np.int32]
Floats = NDArray[np.float64]
Random = np.random.Generator

SETS = ("npm_deps", "online_retail", "diabetes_diagnoses", "homebrew_commits")
PLAIN = (1, 3, 10, 30)
HINDSIGHT = (1, 2, 3, 5, 10, 20, 30, 50, 100)


@dataclass(frozen=True)
class Data:
    """Distinct pairs of units and groups."""

    name: str
    unit: Codes
    group: Codes

    @property
    def units(self) -> int:
        """How many units."""
        return int(self.unit.max()) + 1

    @property
    def groups(self) -> int:
        """How many groups."""
        return int(self.group.max()) + 1

    @property
    def true(self) -> NDArray[np.int64]:
        """Units per group."""
        return np.bincount(self.group, minlength=self.groups).astype(np.int64)


@dataclass(frozen=True)
class Result:
    """One release: how many groups, the median relative error, and how often 95 % intervals cover (all, largest tenth)."""

    groups: int
    error: float = float("nan")
    coverage: float = float("nan")
    coverage_top: float = float("nan")


def read(folder: Path, name: str) -> Data:
    """One of the evaluation sets."""
    found = (
        duckdb.connect()
        .execute(
            f"""SELECT dense_rank() OVER (ORDER BY u) - 1 AS u, dense_rank() OVER (ORDER BY item) - 1 AS i
            FROM (SELECT DISTINCT "user" AS u, item FROM '{folder / name}.parquet' WHERE item IS NOT NULL)"""
        )
        .fetchnumpy()
    )
    return Data(name, found["u"].astype(np.int32), found["i"].astype(np.int32))


def generated() -> Iterator[Data]:
    """Kinds of tables: who has how many groups, and how fast groups get smaller."""
    rng = np.random.default_rng(20)
    degrees: dict[str, Callable[[int], Floats]] = {
        "one group each": lambda n: np.ones(n),
        "mostly one": lambda n: rng.zipf(2.2, n).clip(max=2000).astype(np.float64),
        "two or three": lambda n: np.asarray(rng.poisson(1.5, n) + 1.0, np.float64),
        "a few": lambda n: np.ceil(rng.lognormal(1.1, 0.7, n)),
        "many": lambda n: np.ceil(rng.lognormal(2.5, 1.1, n)),
        "very many": lambda n: np.ceil(rng.lognormal(3.8, 1.0, n)),
    }
    for (kind, draw), (units, groups, slope) in (
        (kind, shape)
        for kind in degrees.items()
        for shape in ((20_000, 20_000, 1.0), (20_000, 4_000, 0.8), (80_000, 2_000, 1.3))
    ):
        weights = np.arange(1, groups + 1.0) ** -slope
        edges = np.cumsum(weights) / weights.sum()
        wanted = draw(units).astype(np.int64)
        unit = np.repeat(np.arange(units), wanted)
        group = np.searchsorted(edges, rng.random(len(unit)))
        pairs = np.unique(unit * groups + group.clip(max=groups - 1))
        unit, group = pairs // groups, np.unique(pairs % groups, return_inverse=True)[1]
        yield Data(f"{kind}, {units:,} × {groups:,}, slope {slope}", unit.astype(np.int32), group.astype(np.int32))


def result(data: Data, index: NDArray[np.int64], counts: Floats, errors: Floats | None = None) -> Result:
    """What a reader of the release gets."""
    if len(index) == 0:
        return Result(0)
    true = data.true[index]
    relative = float(np.median(np.abs(np.maximum(counts, 1) - true) / true))
    if errors is None:
        return Result(len(index), relative)
    covered = np.abs(counts - true) <= 1.959964 * errors
    top = true >= np.quantile(true, 0.9)
    return Result(len(index), relative, float(covered.mean()), float(covered[top].mean()))


def bounded(data: Data, most: int, rng: Random) -> NDArray[np.int64]:
    """Counts after each unit kept `most` random groups."""
    kept = draw_sample(data.unit, data.units, most, rng.random(len(data.unit)))
    return np.bincount(data.group[kept], minlength=data.groups).astype(np.int64)


def plain(data: Data, mechanism: SparseGaussian | LaplaceThreshold, rng: Random) -> Result:
    """One of our plain mechanisms."""
    kept = mechanism.perturb(bounded(data, mechanism.max_groups, rng))
    return result(data, kept.index, kept.counts)


def halves(data: Data, epsilon: float, delta: float, most: int, rng: Random) -> Result:
    """Gaussian noise for half of delta, a threshold for the other half."""
    std = np.sqrt(most) / largest_mu(epsilon, delta / 2)
    threshold = 1 - std * ndtri(-np.expm1(np.log1p(-delta / 2) / most))
    counts = bounded(data, most, rng)
    noisy = counts + rng.normal(0, std, len(counts))
    kept = np.flatnonzero((noisy > threshold) & (counts > 0))
    return result(data, kept, noisy[kept])


def set_union(data: Data, epsilon: float, delta: float, budgets: tuple[float, ...], most: int, rng: Random) -> Result:
    """Weighted Gaussian set union in rounds that drop the keys already found; one round is the plain weighted Gaussian."""
    kept = draw_sample(data.unit, data.units, most, rng.random(len(data.unit)))
    unit, group = data.unit[kept], data.group[kept]
    found = np.zeros(data.groups, bool)
    for budget in budgets:
        share = budget / sum(budgets)
        std = 1 / (largest_mu(epsilon, delta / 2) * np.sqrt(share))
        sizes = np.arange(1, most + 1)
        tails = np.log1p(-delta / 2 * share) / sizes
        threshold = float((1 / np.sqrt(sizes) - std * ndtri(-np.expm1(tails))).max())
        degree = np.bincount(unit, minlength=data.units)
        sums = np.bincount(group, 1 / np.sqrt(degree[unit]), minlength=data.groups)
        noisy = sums + rng.normal(0, std, data.groups)
        found |= (noisy > threshold) & (sums > 0)
        left = ~found[group]
        unit, group = unit[left], group[left]
    return Result(int(found.sum()))


def adaptive(data: Data, mechanism: AdaptiveGaussian, rng: Random) -> Result:
    """The adaptive release itself, with its own noise."""
    sampled = draw_sample(data.unit, data.units, mechanism.max_groups, rng.random(len(data.unit)))
    pairs = MemoryPairs(data.unit, data.group, data.units, data.groups, sampled)
    selection = select(mechanism, pairs)
    found = estimate(count(mechanism, pairs, selection))
    return result(data, selection.index, found.counts, found.std_errors)


Branches = list[AdaptiveGaussian | LaplaceThreshold]


def branches(epsilon: float, delta: float) -> Branches:
    """What the automatic choice chooses from, with the budget that is left."""
    left = epsilon * (1 - CHOICE_SHARE)
    plans = [dp.plan(epsilon=left, delta=delta, max_groups=most, mechanism="laplace") for most in (1, 2, 3)]
    light = [plan.mechanism for plan in plans if isinstance(plan.mechanism, LaplaceThreshold)]
    return [calibrate(left, delta), *light]


def automatic(data: Data, choices: Branches, epsilon: float, rng: Random) -> Result:
    """Choose by the noisy histogram of degrees, then release."""
    degrees = MemoryPairs(data.unit, data.group, data.units, data.groups).degree_histogram(DEGREE_EDGES)
    chosen = choose(choices, noisy_degrees(degrees, CHOICE_SHARE * epsilon))
    return released(data, chosen, rng)


def released(data: Data, mechanism: AdaptiveGaussian | SparseGaussian | LaplaceThreshold, rng: Random) -> Result:
    """By whatever mechanism it is."""
    return adaptive(data, mechanism, rng) if isinstance(mechanism, AdaptiveGaussian) else plain(data, mechanism, rng)


def repeat(seeds: int, run: Callable[[Random], Result]) -> list[Result]:
    """One result for each seed."""
    return [run(np.random.default_rng(seed)) for seed in range(seeds)]


def line(name: str, results: list[Result]) -> str:
    """Mean ± spread."""
    groups = np.array([found.groups for found in results], float)
    text = f"  {name:<34}{groups.mean():>8.0f} ± {groups.std():<5.0f}"
    for values in (np.array([getattr(f, name) for f in results]) for name in ("error", "coverage", "coverage_top")):
        known = values[np.isfinite(values)]
        text += f"{known.mean():>8.3f} ± {known.std():<6.3f}" if len(known) else " " * 17
    return text.rstrip()


def evaluate(data: Data, epsilon: float, delta: float, seeds: int) -> None:
    """The table of one data set."""
    print(f"\n{data.name}: {data.units:,} units, {data.groups:,} groups, epsilon = {epsilon:g}, delta = {delta:g}")
    print(f"  {'':<34}{'groups':>8}{'':<11}{'error':>8}{'':<9}{'covered':>8}{'':<9}{'of largest tenth'}")
    ours: dict[int, list[Result]] = {}
    for most in HINDSIGHT:
        made = dp.plan(epsilon=epsilon, delta=delta, max_groups=most).mechanism
        assert isinstance(made, SparseGaussian | LaplaceThreshold)
        ours[most] = repeat(seeds, partial(plain, data, made))
        if most in PLAIN:
            print(line(f"plain, C = {most} ({made.name})", ours[most]))
    print(line("peers, C = 10, half and half", repeat(seeds, lambda rng: halves(data, epsilon, delta, 10, rng))))
    laplace = dp.plan(epsilon=epsilon, delta=delta, max_groups=10, mechanism="laplace").mechanism
    assert isinstance(laplace, LaplaceThreshold)
    print(line("peers, C = 10, Laplace", repeat(seeds, lambda rng: plain(data, laplace, rng))))
    best = max(ours, key=lambda most: float(np.mean([found.groups for found in ours[most]])))
    print(line(f"best plain C with hindsight: {best}", ours[best]))
    for name, rounds, most in (("weighted Gaussian set union", (1.0,), 100), ("DP-SIPS", (1.0, 3.0, 9.0), 100)):
        print(line(name, repeat(seeds, partial(set_union, data, epsilon, delta, rounds, most))))
    mechanism = calibrate(epsilon, delta)
    print(line("adaptive", repeat(seeds, lambda rng: adaptive(data, mechanism, rng))))
    choices = branches(epsilon, delta)
    print(line("automatic", repeat(seeds, lambda rng: automatic(data, choices, epsilon, rng))))


def tune(epsilon: float, delta: float, seeds: int) -> None:
    """The constants one at a time on generated data: groups relative to the default, and the median error."""
    sets = list(generated())
    base = Tuning()
    others = {
        "the default": base,
        **{f"round_shares {s}": replace(base, round_shares=s) for s in ((3, 3, 3, 7), (1, 3, 4, 8), (3, 4, 4, 5))},
        "two rounds": replace(base, round_shares=(5, 11), hopeless=(3.0,)),
        "three rounds": replace(base, round_shares=(3, 5, 8), hopeless=(2.5, 4.0)),
        "five rounds": replace(base, round_shares=(2, 2, 3, 4, 5), hopeless=(2.0, 2.5, 3.5, 4.0)),
        **{f"hopeless {h}": replace(base, hopeless=h) for h in ((1.5, 2.5, 3.5), (2.5, 3.5, 4.5), (2.0, 3.0, 3.5))},
        **{f"reserve {r}": replace(base, reserve=r) for r in (0.5, 1.5)},
        **{f"most_groups {m}": replace(base, most_groups=m) for m in (100, 1000)},
        **{f"delta_share {d}": replace(base, delta_share=d) for d in (0.2, 0.8)},
        **{f"count_share {c}": replace(base, count_share=c) for c in (0.15, 0.2, 0.3)},
        **{f"histogram_share {h}": replace(base, histogram_share=h) for h in (0.01, 0.04)},
        **{f"probe_share {p}": replace(base, probe_share=p) for p in (0.25, 0.75)},
    }
    print(f"  {'':<28}{'groups':>8}{'error':>8}{'covered':>9}{'of largest tenth':>18}   (geometric mean, means)")
    reference: Floats | None = None
    for name, tuning in others.items():
        mechanism = calibrate(epsilon, delta, tuning=tuning)
        table = [repeat(seeds, partial(released, data, mechanism)) for data in sets]
        groups = np.array([np.mean([found.groups for found in row]) for row in table]) + 1
        reference = groups if reference is None else reference
        ratio = float(np.exp(np.log(groups / reference).mean()))
        means = [
            np.nanmean([getattr(found, field) for row in table for found in row if found.groups >= 20])
            for field in ("error", "coverage", "coverage_top")
        ]
        print(f"  {name:<28}{ratio:>8.3f}{means[0]:>8.3f}{means[1]:>9.3f}{means[2]:>18.3f}", flush=True)
    print("\n  the choice: adaptive/Laplace released, and the same as predicted from degrees")
    choices = branches(epsilon, delta)
    for data in sets:
        made = [repeat(seeds, partial(released, data, mechanism)) for mechanism in choices]
        groups = np.array([np.mean([found.groups for found in row]) for row in made])
        exact = MemoryPairs(data.unit, data.group, data.units, data.groups).degree_histogram(DEGREE_EDGES)
        scores = np.array([predicted_releases(m, exact.astype(float)) for m in choices])
        print(f"  {data.name:<44}{groups[0]:>7.0f}{groups[1:].max():>7.0f}{groups[0] / max(groups[1:].max(), 1):>8.2f}"
              f"{scores[0] / scores[1:].max():>8.2f}", flush=True)  # fmt: skip


def main() -> None:
    """Read the options, print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    default = Path(__file__).resolve().parents[1].parent / "shared" / "data"
    parser.add_argument("--data", type=Path, default=default, help="folder of the evaluation sets")
    parser.add_argument("--epsilon", type=float, default=1.0)
    parser.add_argument("--delta", type=float, default=1e-8)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--tune", action="store_true", help="run the constants on generated data instead")
    options = parser.parse_args()
    if options.tune:
        tune(options.epsilon, options.delta, options.seeds)
        return
    if not options.data.is_dir():
        print(f"No folder {options.data}: pass --data DIR.")
        return
    for name in SETS:
        evaluate(read(options.data, name), options.epsilon, options.delta, options.seeds)


if __name__ == "__main__":
    main()
