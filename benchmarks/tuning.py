"""How the constants of the adaptive release were chosen: one at a time, on generated tables only.

`python benchmarks/utility.py --tune` prints, for the constants in use and for others in their place: groups released (relative
to those in use, geometric mean over tables), the median relative error, how often 95 % intervals cover the truth (mean over
tables, worst table), the same in the largest tenth of groups, and the interval score (see `Result`). Errors and scores are
geometric means over tables with 20 groups or more. Then the constants of the automatic choice: the groups that are lost by
choosing wrongly, between rounds and elections.

What was looked for. Selection and shares: groups first, then error. Counting and estimating: the interval score and the error,
among those that cover at least 93 % on every table (90 % of the largest tenth) at epsilon 0.5, 1 and 3; where several do about
equally well (within 3 %), the more careful one. The choice: the smallest loss on the worst table. A table's coverage moves by
some per cent with few runs, as the error of the histogram of norms is common to all its groups: judge it by --seeds 8 or more.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from generated_tables import Data, Floats, generated
from utility_runs import Result, branches, counted, pairs_of, repeat, result, selected_and_counted, selection

from dphist.engines.histogram import LocalGroups
from dphist.engines.memory import MemoryPairs
from dphist.mechanisms.adaptive import AdaptiveGaussian, calibrate
from dphist.mechanisms.tuning import Tuning
from dphist.run.choice import DEGREE_EDGES, most_releases, noisy_degrees
from dphist.run.counting import NoisyCounts
from dphist.run.estimates import estimate

Change = dict[str, Any]


def one_each(**tried: Sequence[Any]) -> list[Change]:
    """Every value of every constant, alone."""
    return [{name: value} for name, values in tried.items() for value in values]


ROUNDS: list[Change] = [
    {"round_shares": (5, 11), "hopeless": (3.0,)},
    {"round_shares": (3, 5, 8), "hopeless": (2.5, 4.0)},
    {"round_shares": (2, 2, 3, 4, 5), "hopeless": (2.0, 2.5, 3.5, 4.0)},
]
SELECTING = ROUNDS + one_each(
    round_shares=((3, 3, 3, 7), (1, 3, 4, 8), (3, 4, 4, 5)),
    hopeless=((1.5, 2.5, 3.5), (2.5, 3.5, 4.5), (2.0, 3.0, 3.5)),
    reserve=(0.5, 1.5),
    most_groups=(100, 1000),
    delta_share=(0.2, 0.8),
    histogram_share=(0.01, 0.04),
    scaled_share=(0.4, 0.8),
)
"""These change what is selected: everything is run anew."""

COUNTING = one_each(
    size_quantile=(0.05, 0.2),
    weight_roots=(1, 3),
    histogram_cut=(2.0, 4.0, 5.0),
    tail_decay=(0.4, 0.6),
    tail_doubt=(0.3, 0.8),
)
"""These change how the same groups are counted."""

ESTIMATING = one_each(
    tail_power=(0.4, 0.8),
    bucket_error=(0.01, 0.1),
    groups_per_bin=(6, 24),
    mix_slope=(0.25, 1.0),
    spread_doubt=(0.25, 1.0),
)
"""These change how the same noisy counts are read."""

MOVED_WEIGHTS = (0.5, 0.54, 0.58, 0.62, 0.66, 0.7, 0.75, 0.8)
EMPTY_BELOW = (2.0, 3.0, 4.0)


def tune(epsilon: float, delta: float, seeds: int) -> None:
    """The tables of all constants."""
    sets = list(generated())
    base = Tuning()
    print(f"{len(sets)} generated tables, epsilon = {epsilon:g}, delta = {delta:g}, {seeds} runs of each")
    print(f"  {'':<64}{'groups':>7}{'error':>7}{'covered':>9}{'worst':>7}{'largest':>9}{'worst':>7}{'score':>8}")
    mechanism = calibrate(epsilon, delta)
    kept: list[list[tuple[MemoryPairs, LocalGroups, NoisyCounts]]] = []
    for data in sets:
        runs = []
        for seed in range(seeds):
            pairs = pairs_of(data, mechanism, np.random.default_rng(seed))
            selected = selection(mechanism, pairs)
            runs.append((pairs, selected, counted(mechanism, pairs, selected)))
        kept.append(runs)

    def read(data: Data, selected: LocalGroups, counts: NoisyCounts, tuning: Tuning) -> Result:
        assert mechanism.counts is not None
        found = estimate(mechanism.counts, counts, tuning)
        return result(data, selected.codes, found.counts, found.std_errors)

    reference = row(
        "in use", [[read(d, run[1], run[2], base) for run in runs] for d, runs in zip(sets, kept, strict=True)]
    )
    for change in ESTIMATING:
        tuning = replace(base, **change)
        table = [[read(d, run[1], run[2], tuning) for run in runs] for d, runs in zip(sets, kept, strict=True)]
        row(text(change), table, reference)
    for change in COUNTING:
        tuning = replace(base, **change)
        other = replace(mechanism, tuning=tuning)
        table = [
            [read(d, selected, counted(other, pairs, selected), tuning) for pairs, selected, _ in runs]
            for d, runs in zip(sets, kept, strict=True)
        ]
        row(text(change), table, reference)
    for change in SELECTING:
        other = calibrate(epsilon, delta, tuning=replace(base, **change))
        row(text(change), [repeat(seeds, partial(selected_and_counted, data, other)) for data in sets], reference)
    tune_choice(sets + list(generated(seed=21, fewer=4)), epsilon, delta, seeds)


def text(change: Change) -> str:
    """A change as it is written."""
    return ", ".join(f"{name} {value}" for name, value in change.items())


def row(name: str, table: Sequence[Sequence[Result]], reference: Floats | None = None) -> Floats:
    """One line; returns the groups of each table."""
    groups = np.array([np.mean([found.groups for found in runs]) for runs in table]) + 1
    ratio = 1.0 if reference is None else float(np.exp(np.log(groups / reference).mean()))
    enough = [runs for runs in table if np.mean([found.groups for found in runs]) >= 20]
    means = {
        field: np.array([np.nanmean([getattr(found, field) for found in runs]) for runs in enough])
        for field in ("error", "coverage", "coverage_top", "score")
    }
    error, score = (float(np.exp(np.log(means[field]).mean())) for field in ("error", "score"))
    covered, top = means["coverage"], means["coverage_top"]
    print(
        f"  {name:<64}{ratio:>7.3f}{error:>7.3f}{covered.mean():>9.3f}{covered.min():>7.3f}"
        f"{top.mean():>9.3f}{top.min():>7.3f}{score:>8.3f}",
        flush=True,
    )
    return groups


def tune_choice(sets: Sequence[Data], epsilon: float, delta: float, seeds: int) -> None:
    """Groups released by each branch, then what each constant of the choice loses against the better branch, in per cent."""
    choices = branches(epsilon, delta)
    made = np.array(
        [
            [np.mean([f.groups for f in repeat(seeds, partial(selected_and_counted, d, m))]) for m in choices]
            for d in sets
        ]
    )
    exact = [MemoryPairs.of_rows(d.unit, d.group, d.units, d.groups).degree_histogram(DEGREE_EDGES) for d in sets]
    print(f"\n  the choice between {', '.join(f'{m.name} ({m.analysis})' for m in choices)}: groups of each")
    for data, groups in zip(sets, made, strict=True):
        print(f"  {data.name:<84}{''.join(f'{value:>8.0f}' for value in groups)}")
    print("\n  groups lost by choosing wrongly, in per cent: mean over tables, worst table")
    rest = Tuning().choice_share * epsilon
    for below in EMPTY_BELOW:
        for moved in MOVED_WEIGHTS:
            tuning = replace(Tuning(), moved_weight=moved, empty_below=below)
            now = [replace(m, tuning=tuning) if isinstance(m, AdaptiveGaussian) else m for m in choices]
            losses = []
            for groups, degrees in zip(made, exact, strict=True):
                if groups.max() < 10:
                    continue
                picks = [now.index(most_releases(now, noisy_degrees(degrees, rest, tuning=tuning))) for _ in range(10)]
                losses.append(1 - np.mean(groups[picks]) / groups.max())
            print(
                f"  moved_weight {moved:<6}empty_below {below:<6}{100 * np.mean(losses):>8.2f}{100 * max(losses):>8.1f}",
                flush=True,
            )
