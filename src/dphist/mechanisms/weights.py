"""How the rounds of the adaptive release move weight from group to group, and what that does to a group of given size."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from dphist.mechanisms.tuning import LATTICE_BITS, ONE
from dphist.privacy.special import ndtr

if TYPE_CHECKING:
    from dphist.mechanisms.adaptive import AdaptiveGaussian

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]

_CELLS: Final = 800
"""Of the grid on which the law of a weighted sum is followed: shares that are lost are within a twentieth of themselves."""


def accepted(mechanism: AdaptiveGaussian, totals: Sequence[Integers]) -> NDArray[np.bool_]:
    """Which groups are selected by their published sums so far, one after each round: one of them is strictly above the bar of
    its round, which is the threshold after the last. Each group's own sums alone decide, and for good.
    """
    last, selected = mechanism.rounds - 1, np.zeros(len(totals[0]), np.bool_)
    for number, total in enumerate(totals):
        if number == last or mechanism.bars:
            bar = mechanism.threshold if number == last else mechanism.bars[number]
            selected |= total > int(bar * 2 ** (LATTICE_BITS + mechanism.tuning.share_bits))
    return selected


def round_weights(mechanism: AdaptiveGaussian, totals: Sequence[Integers]) -> Integers:
    """The weights of the next round, after those with these sums: 0 for a group that is accepted."""
    return np.where(accepted(mechanism, totals), 0, next_weights(mechanism, len(totals), totals[-1]))


def next_weights(mechanism: AdaptiveGaussian, number: int, total: Integers) -> Integers:
    """The weights of round `number` (from 1) of groups that are not accepted, from the published sums so far: each group's
    from its own alone.

    That locality is a hypothesis of the proof. A cut-off that looked at all eligible groups, say their median, would let
    the groups that one unit brought move the weights of all others. So is that the weight is 1 from the cut-off up to the
    goal: it is what other groups of a unit take from one that only this unit has (Lemma 2).
    """
    tuning = mechanism.tuning
    past = sum(tuning.round_shares[:number]) / 16
    left = 1 - past
    scale = 1 / mechanism.selection_std  # to units of the noise of the whole selection
    reached = np.ldexp(total.astype(np.float64), -(LATTICE_BITS + tuning.share_bits)) * scale
    level = reached / past
    goal = mechanism.threshold * scale + tuning.reserve * left**0.5
    wanted = (goal - reached) / (left * np.maximum(level, 1e-9))
    wanted = np.where(level < tuning.hopeless[number - 1], 0.0, np.clip(wanted, 0.0, 1.0))
    return np.asarray(np.floor(wanted * ONE), np.int64)


def share_selected(mechanism: AdaptiveGaussian, units: float) -> float:
    """The probability that a group is selected whose units have no other group: each gives it 1 until it is accepted, or a
    round gives it up, because it is hopeless or because it seems safe already.

    The law of the weighted sum is followed from round to round on a grid. A number for readers, no part of a proof.
    """
    tuning = mechanism.tuning
    noises = [share * std for share, std in zip(tuning.fractions, mechanism.round_stds, strict=True)]
    reach = 7 * float(np.hypot.reduce(noises))
    grid = np.linspace(-reach, max(mechanism.threshold, units) + reach, _CELLS)
    edges = np.concatenate([[-np.inf], (grid[1:] + grid[:-1]) / 2, [np.inf]])
    totals, law, selected = np.zeros(1), np.ones(1), 0.0
    for number, (share, noise) in enumerate(zip(tuning.fractions, noises, strict=True)):
        steps = np.floor(totals * 2.0 ** (LATTICE_BITS + tuning.share_bits)).astype(np.int64)
        weighs = next_weights(mechanism, number, steps) > 0 if number else np.ones(1, np.bool_)
        means = totals + share * units * weighs
        if number == 0 < tuning.rounds - 1:
            totals, law = grid, np.diff(ndtr((edges - means) / noise))
        elif number < tuning.rounds - 1:
            step = grid[1] - grid[0]
            law = _spread(law * weighs, step, share * units, noise) + _spread(law * ~weighs, step, 0.0, noise)
        if number < len(mechanism.bars):
            above = grid > mechanism.bars[number]
            selected += float(law[above].sum())
            law = np.where(above, 0.0, law)
    return selected + float(law @ ndtr((means - mechanism.threshold) / noise))


def _spread(law: Floats, step: float, shift: float, noise: float) -> Floats:
    """A law on the cells of the grid after a shift and Gaussian noise: a convolution, since only distances matter. What
    leaves the grid stays in its first or last cell."""
    cells = len(law)
    below = ndtr((np.arange(0.5 - cells, cells) * step - shift) / noise)
    spread = np.convolve(law, np.diff(below))[cells - 1 : 2 * cells - 1]
    spread[0] += law @ below[cells - 1 :: -1]
    spread[-1] += law @ (1 - below[: cells - 1 : -1])
    return spread
