"""The adaptive release attacked where its proof gives everything away: all rounds, the histogram of norms, the counts.

For groups that exist without the unit the best attack on that view is known. Given the same published past each part is
Gaussian around sums that differ by a known vector, so the log of the likelihood ratio is a sum of known terms. Runs of the
real code on both sides give it; the sampled attack does the rest.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from dphist.audit.findings import Floats, Pair, Trials
from dphist.engines.memory import MemoryPairs
from dphist.mechanisms.adaptive import AdaptiveGaussian
from dphist.mechanisms.tuning import LATTICE_BITS, WEIGHT_BITS, Tuning
from dphist.selection.counting import count, draw
from dphist.selection.rounds import Selection, next_weights, rounds

Integers = NDArray[np.int64]
Tables = Callable[[Integers, int, int], MemoryPairs]

GROUPS, UNITS = 8, 25
_OTHERS = np.array([(u, g) for u in range(UNITS - 1) for g in range(GROUPS) if (u * 5 + g * 3) % 7 < 3])

EVERYWHERE = tuple(range(GROUPS))
"""The unit under attack is in all of the 8 groups that 24 others share."""

IN_ONE = (0,)
"""It is in one of them, with its whole weight."""


def pairs_of(rows: Integers, groups: int, units: int) -> MemoryPairs:
    """Pairs (unit, group), all of them sampled."""
    unit, group = rows.astype(np.int32).T
    return MemoryPairs(unit.copy(), group.copy(), units, groups)


def loose(threshold: float = 3.0, *, groups: int = GROUPS, std: float = 2.0) -> AdaptiveGaussian:
    """A mechanism with deltas so large that runs see them."""
    tuning = Tuning(most_groups=groups)
    stds = tuple(std / share**0.5 for share in tuning.fractions)
    return AdaptiveGaussian(stds, threshold, 4.0, 2.5, 5.0, tuning=tuning)


def ratios(mechanism: AdaptiveGaussian, target: tuple[int, ...], tables: Tables = pairs_of) -> Callable[[int], Trials]:
    """The log of the likelihood ratio of n views on each side: disjoint copies of the same 8 groups in one run.

    What copies share is the choice of the norm that counting allows, a public number by then.
    """

    def run(n: int) -> Trials:
        loss = views(mechanism, [_copies(target, 2 * n, first, tables) for first in (2 * n, n, 0)])
        return Trials(loss[:n, None], loss[n:, None])

    return run


def _copies(target: tuple[int, ...], copies: int, first: int, tables: Tables) -> MemoryPairs:
    """Copies of the same groups and units; from copy `first` on the unit under attack is there."""
    attacked = np.array([(UNITS - 1, group) for group in target])
    size = np.array([UNITS, GROUPS])
    parts = [
        (np.arange(begin, copies)[:, None, None] * size + rows).reshape(-1, 2)
        for begin, rows in ((0, _OTHERS), (first, attacked))
    ]
    return tables(np.concatenate(parts), copies * GROUPS, copies * UNITS)


def views(mechanism: AdaptiveGaussian, tables: list[MemoryPairs]) -> Floats:
    """log P(view | with) - log P(view | without) for each copy; tables: nobody attacked, the truth, everybody attacked."""
    without, truth, with_ = tables
    eligible = np.arange(truth.groups)
    total, loss = np.zeros(truth.groups, np.int64), np.zeros(truth.groups // GROUPS)
    first: Integers | None = None
    published = rounds(mechanism, truth, eligible)
    for share, std, now in zip(mechanism.tuning.round_shares, mechanism.round_stds, published, strict=True):
        loss += _log_ratio(now.noisy, [side.weighted_sums(now.weights) for side in (without, with_)], std)
        total += share * now.noisy
        first = now.noisy if first is None else first
    assert first is not None
    passed = total > int(mechanism.threshold * 2 ** (LATTICE_BITS + mechanism.tuning.share_bits))
    counts = count(mechanism, truth, Selection(eligible[passed], first[passed] / 2.0**LATTICE_BITS))
    spread = np.zeros(truth.groups, np.int64)
    spread[counts.index] = counts.weights
    loss += _histogram_ratio(mechanism, truth, with_, spread)
    for cap, std, shown in (
        (counts.cap, counts.main_std, counts.main),
        (counts.probe_cap, counts.probe_std, counts.probe),
    ):
        limit = int(cap * 4**WEIGHT_BITS)
        sums = [side.clipped_sums(spread, limit, {})["units"] for side in (without, with_)]
        noisy = np.zeros(truth.groups, np.int64)
        noisy[counts.index] = shown
        loss += _log_ratio(noisy, sums, std)
    return loss


def _histogram_ratio(mechanism: AdaptiveGaussian, truth: MemoryPairs, with_: MemoryPairs, spread: Integers) -> Floats:
    """The unit adds one to one bucket of the norms, if it is in a selected group: a draw of the same law for each copy."""
    number = truth.groups // GROUPS
    counted = np.zeros(with_.units, np.bool_)
    counted[with_.unit[spread[with_.group] > 0]] = True
    moves = counted[UNITS - 1 :: UNITS]
    there = np.zeros(truth.units, np.bool_)
    there[truth.unit] = True
    one = np.int64(1 << LATTICE_BITS)
    noisy = there[UNITS - 1 :: UNITS] * one + draw(mechanism.histogram_std, LATTICE_BITS, number, None)
    scale = mechanism.histogram_std * 2.0**LATTICE_BITS
    ratio = ((noisy / scale) ** 2 - ((noisy - one) / scale) ** 2) / 2
    return np.asarray(np.where(moves, ratio, 0.0))


def _log_ratio(published: Integers, sums: list[Integers], std: float) -> Floats:
    """log N(published; with, std^2) - log N(published; without, std^2), summed over the groups of each copy.

    A group that is not counted has the same sums, 0, on both sides.
    """
    without, with_ = ((published - side) / (std * 2.0**LATTICE_BITS) for side in sums)
    return np.asarray(((without**2 - with_**2) / 2).reshape(-1, GROUPS).sum(axis=1))


def alone_in_one_group(mechanism: AdaptiveGaussian, cells: int = 3000) -> Pair:
    """A group that only the unit is in: whether it is selected, by the law of its weighted sum from round to round.

    Its weight is 1 until the group is given up, and then 0. The sum so far lies on a grid; each round adds share * weight and
    share * noise, rounded to the nearest point: an error of about the square of the step, below 10^-4 of the chance.
    """
    tuning = mechanism.tuning
    spread = [share * std for share, std in zip(tuning.fractions, mechanism.round_stds, strict=True)]
    reach = 8 * float(np.hypot.reduce(spread))
    grid = np.linspace(-reach, mechanism.threshold + reach, cells)
    step = grid[1] - grid[0]
    law = np.zeros(cells)
    law[np.abs(grid).argmin()] = 1.0
    for number, (share, std) in enumerate(zip(tuning.fractions, spread, strict=True)):
        weights = np.ones(cells)
        if number:
            totals = np.floor(grid * 2.0 ** (LATTICE_BITS + tuning.share_bits)).astype(np.int64)
            weights = (next_weights(mechanism, number, totals) > 0).astype(np.float64)
        centre = grid + share * weights
        edges = np.append(grid - step / 2, np.inf)
        law = law @ np.diff(ndtr((edges[None, :] - centre[:, None]) / std), axis=1)
    shown = float(law[grid > mechanism.threshold].sum())
    return Pair("alone in one group", np.array([1.0, 0.0]), np.array([1 - shown, shown]))
