"""Which keys a budget finds: `dphist select` beside what was published before it. No counts.

    python benchmarks/keys.py [--data DIR] [--sets NAME ...] [--epsilon 1] [--deltas 1e-5 1e-8] [--seeds 3] [--tune]

Each line is the mean over seeds ± one standard deviation of the keys found, and the missing mass: the share of pairs of a unit
and a group whose group was not found.

- weighted Gaussian: weights 1/sqrt(d), one round; DP-SIPS: three rounds with budgets 1 : 3 : 9 that drop found keys;
- policy Gaussian: units in random order give a vector of l2 norm 1 towards groups that are below a cut-off;
- greedy weighting: units in random order give a weight of 1, in parts, to groups below a cut-off, fullest first, with Laplace
  noise. NOT PRIVATE as published: one unit can make several new groups, see docs/voting.md;
- select: what `dphist select` does, the choice included; then each of its three ways with the whole budget.

The first three get our tighter accounting of Gaussian noise, so they are upper bounds. Their noise here is floating point.
--tune runs the three ways on generated tables only, which is how the constants of the choice were chosen.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
from generated_tables import Data, Random, generated
from numpy.typing import NDArray
from utility import SETS, read
from utility_runs import _places, union_keys, union_threshold

import dphist as dp
from dphist.engines.histogram import LocalGroups
from dphist.engines.memory import MemoryPairs
from dphist.mechanisms import AdaptiveGaussian, GroupMechanism, Voting
from dphist.privacy.gaussian import largest_mu
from dphist.run import rounds, voting
from dphist.run.choice import decide

Keys = NDArray[np.bool_]
Method = Callable[[Data, float, float, Random], Keys]
MOST = 100
"""The groups of a unit that the rivals use."""

CUT_OFF = 4.0
"""How many standard deviations above the threshold a rival's group takes no more weight."""


def weighted(data: Data, epsilon: float, delta: float, rng: Random) -> Keys:
    """Gopi, Gulhane, Kulkarni, Shen, Shokouhi and Yekhanin 2020, the weighted Gaussian."""
    return union_keys(data, epsilon, delta, (1.0,), MOST, rng)


def sips(data: Data, epsilon: float, delta: float, rng: Random) -> Keys:
    """Swanberg, Desfontaines and Haney 2023."""
    return union_keys(data, epsilon, delta, (1.0, 3.0, 9.0), MOST, rng)


def policy(data: Data, epsilon: float, delta: float, rng: Random) -> Keys:
    """Gopi et al. 2020, the policy Gaussian: towards the cut-off, by at most 1 in l2."""
    std = 1 / largest_mu(epsilon, delta / 2)
    threshold = union_threshold(std, delta / 2, MOST)
    cut_off, sums = threshold + CUT_OFF * std, np.zeros(data.groups)
    for groups in lists(data, rng):
        gap = cut_off - sums[groups]
        norm = float(np.sqrt((gap * gap).sum()))
        sums[groups] += gap if norm <= 1 else gap / norm
    noisy = sums + rng.normal(0, std, data.groups)
    return np.asarray((noisy > threshold) & (sums > 0))


def greedy(data: Data, epsilon: float, delta: float, rng: Random) -> Keys:
    """Carvalho, Wang and Gondara 2022, as their paper describes it: not private, since a unit can make several new groups."""
    threshold = 1 + np.log(1 / (2 * delta)) / epsilon
    cut_off, sums = threshold + CUT_OFF / epsilon, np.zeros(data.groups)
    for groups in lists(data, rng):
        order = groups[np.argsort(-sums[groups])]
        room = cut_off - sums[order]
        before = np.concatenate([[0.0], np.cumsum(room)[:-1]])
        sums[order] += np.clip(1 - before, 0.0, room)
    noisy = sums + rng.laplace(0, 1 / epsilon, data.groups)
    return np.asarray((noisy > threshold) & (sums > 0))


def lists(data: Data, rng: Random) -> list[NDArray[np.int32]]:
    """At most `MOST` random groups of each unit, the units in random order."""
    kept = _places(data, int(rng.integers(2**32))) < MOST
    unit, group = data.unit[kept], data.group[kept]
    order = np.argsort(unit, kind="stable")
    parts = np.split(group[order], np.cumsum(np.bincount(unit, minlength=data.units))[:-1])
    return [parts[i] for i in rng.permutation(data.units)]


def automatic(data: Data, epsilon: float, delta: float, rng: Random) -> Keys:
    """`dphist select`, the choice from the data included."""
    pairs = pairs_of(data, rng)
    plan = decide(dp.plan(epsilon=epsilon, delta=delta, keys_only=True), pairs)  # type: ignore[arg-type]
    return run(plan.mechanism, pairs)


def way(number: int, data: Data, epsilon: float, delta: float, rng: Random) -> Keys:
    """One of the ways alone, with the whole budget."""
    names = ("adaptive", "voting", "voting")
    mechanism = dp.plan(epsilon=epsilon, delta=delta, keys_only=True, mechanism=names[number]).mechanism
    if number == 2:
        mechanism = voting_after_a_look(epsilon, delta)
    return run(mechanism, pairs_of(data, rng))


def voting_after_a_look(epsilon: float, delta: float) -> Voting:
    """Calibrated as a plan does it."""
    from dphist.mechanisms.voting import LOOK_SHARE, calibrate

    return calibrate(epsilon, delta, look_share=LOOK_SHARE)


def pairs_of(data: Data, rng: Random) -> MemoryPairs:
    """Random turns of units, random places of their groups."""
    turn = rng.permutation(data.units).astype(np.int32)
    place = _places(data, int(rng.integers(2**32)))
    return MemoryPairs.of_rows(turn[data.unit], data.group, data.units, data.groups, place=place)


def run(mechanism: GroupMechanism, pairs: MemoryPairs) -> Keys:
    """The selection itself, with its own noise."""
    if isinstance(mechanism, Voting):
        selected = voting.vote(mechanism, pairs)
    else:
        assert isinstance(mechanism, AdaptiveGaussian)
        sampled = np.minimum(pairs.degrees, mechanism.max_groups)
        selected = rounds.select(mechanism, replace(pairs, sampled=sampled))
    assert isinstance(selected, LocalGroups)
    keys = np.zeros(pairs.groups, bool)
    keys[selected.codes] = True
    return keys


RIVALS: dict[str, Method] = {
    "weighted Gaussian": weighted,
    "DP-SIPS": sips,
    "policy Gaussian": policy,
    "greedy weighting (NOT PRIVATE)": greedy,
}
OURS: dict[str, Method] = {
    "rounds alone": partial(way, 0),
    "voting, blind, alone": partial(way, 1),
    "voting after a look, alone": partial(way, 2),
}


def evaluate(data: Data, epsilon: float, delta: float, seeds: int) -> None:
    """The table of one data set and budget."""
    print(f"\n{data.name}: {data.units:,} units, {data.groups:,} groups, epsilon = {epsilon:g}, delta = {delta:g}")
    for name, method in {**RIVALS, "select": automatic, **OURS}.items():
        found = [method(data, epsilon, delta, np.random.default_rng([17, seed])) for seed in range(seeds)]
        counts = [int(keys.sum()) for keys in found]
        missing = [1 - float(data.true[keys].sum() / data.true.sum()) for keys in found]
        words = f"{np.mean(counts):8.1f} ± {np.std(counts):<6.1f} missing mass {np.mean(missing):.3f}"
        print(f"  {name:<32}{words}", flush=True)


def tune(seeds: int) -> None:
    """Keys of the three ways on generated tables, at four budgets, and of what the choice takes."""
    shares = []
    for data in generated():
        for epsilon, delta in ((1.0, 1e-8), (1.0, 1e-5), (0.3, 1e-8), (3.0, 1e-8)):
            generators = [np.random.default_rng([17, seed]) for seed in range(seeds)]
            counts = {
                name: float(np.mean([method(data, epsilon, delta, rng).sum() for rng in generators]))
                for name, method in {**OURS, "select": automatic}.items()
            }
            shares.append(counts["select"] / max(counts.values()))
            numbers = " ".join(f"{count:8.1f}" for count in counts.values())
            print(f"  {data.name[:70]:<70} {epsilon:4g} {delta:g} {numbers}", flush=True)
    print(f"of the best of all, select finds {np.mean(shares):.1%}, at worst {min(shares):.1%}")


def main() -> None:
    """Read the options, print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    default = Path(__file__).resolve().parents[1].parent / "shared" / "data"
    parser.add_argument("--data", type=Path, default=default, help="folder of the evaluation sets")
    parser.add_argument("--epsilon", type=float, default=1.0)
    parser.add_argument("--deltas", type=float, nargs="+", default=[1e-5, 1e-8])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--sets", nargs="+", choices=SETS, default=SETS, help="which of them")
    parser.add_argument("--tune", action="store_true", help="run the three ways on generated tables instead")
    options = parser.parse_args()
    if options.tune:
        tune(options.seeds)
        return
    if not options.data.is_dir():
        print(f"No folder {options.data}: pass --data DIR.")
        return
    for name in options.sets:
        data = read(options.data, name)
        for delta in options.deltas:
            evaluate(data, options.epsilon, delta, options.seeds)


if __name__ == "__main__":
    main()
