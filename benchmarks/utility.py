"""What a budget buys: groups released, and how wrong their counts are, next to what others do.

    python benchmarks/utility.py [--data DIR] [--sets NAME ...] [--epsilon 1] [--delta 1e-8] [--seeds 20] [--tune]

Errors are relative to the true number of units in a group, not to a count after bounding: what bounding loses is an error,
too. Each line is the mean over seeds ± the spread (one standard deviation) of groups released / median relative error.

- plain C: our calibration, the better of exact sparse Gaussian and Laplace at max_groups C;
- peers: C = 10 with half of delta for the noise and half for the threshold, as most libraries do; and their Laplace;
- best C: the plain C with most groups, chosen by looking at the results, which nobody may do;
- weighted Gaussian set union and DP-SIPS: they publish keys, no counts. Gaussian weights 1/sqrt(d), three rounds with
  budgets 1 : 3 : 9 that drop found keys; both get our tighter accounting of the noise, so these are upper bounds;
- rounds, voting: each with the whole budget, the election blind; automatic: what `dphist release` does without a bound, which
  pays 2 % of epsilon for choosing between rounds and elections. Their counts are of all units.

--tune runs the constants of the adaptive release on generated data only, the way they were chosen.
"""

from __future__ import annotations

import argparse
from functools import partial
from pathlib import Path

import duckdb
import numpy as np
from generated_tables import Data
from tuning import tune
from utility_runs import Result, automatic, branches, halves, line, plain, repeat, selected_and_counted, set_union

import dphist as dp
from dphist.mechanisms import LaplaceThreshold, SparseGaussian, Voting
from dphist.mechanisms.adaptive import calibrate

SETS = ("npm_deps", "online_retail", "diabetes_diagnoses", "homebrew_commits")
PLAIN = (1, 3, 10, 30)
HINDSIGHT = (1, 2, 3, 5, 10, 20, 30, 50, 100)


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


def election(epsilon: float, delta: float) -> Voting:
    """Blind, with counts, as a plan has it."""
    mechanism = dp.plan(epsilon=epsilon, delta=delta, mechanism="voting").mechanism
    assert isinstance(mechanism, Voting)
    return mechanism


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
    for name, mechanism in (("rounds", calibrate(epsilon, delta)), ("voting", election(epsilon, delta))):
        print(line(name, repeat(seeds, partial(selected_and_counted, data, mechanism))))
    choices = branches(epsilon, delta)
    print(line("automatic", repeat(seeds, lambda rng: automatic(data, choices, epsilon, rng))))


def main() -> None:
    """Read the options, print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    default = Path(__file__).resolve().parents[1].parent / "shared" / "data"
    parser.add_argument("--data", type=Path, default=default, help="folder of the evaluation sets")
    parser.add_argument("--epsilon", type=float, default=1.0)
    parser.add_argument("--delta", type=float, default=1e-8)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--sets", nargs="+", choices=SETS, default=SETS, help="which of them")
    parser.add_argument("--tune", action="store_true", help="run the constants on generated data instead")
    options = parser.parse_args()
    if options.tune:
        tune(options.epsilon, options.delta, options.seeds)
        return
    if not options.data.is_dir():
        print(f"No folder {options.data}: pass --data DIR.")
        return
    for name in options.sets:
        evaluate(read(options.data, name), options.epsilon, options.delta, options.seeds)


if __name__ == "__main__":
    main()
