"""Sizes of the selected groups from what the rounds have published of them. Functions of published values alone.

Selecting takes most of the budget, and its noisy sums know a group to a tenth; only, a unit gives a group what its other groups
leave of its weight, so that it takes independent counts to say what a sum means. They are regressed on the sums of the very
groups that were selected: that measures at once how much weight units give and how far selection favours lucky groups.
docs/counting.md has the formulas.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, cast

import numpy as np
from numpy.typing import NDArray

from dphist.engines.base import Arrays
from dphist.errors import EngineFailure
from dphist.mechanisms import AdaptiveGaussian, GroupMechanism
from dphist.mechanisms.tuning import LATTICE_BITS, ONE
from dphist.mechanisms.weights import round_weights
from dphist.run.rounds import totals_after

Floats = NDArray[np.float64]

FEWEST_SIZED: Final = 12
"""Groups from which the counts can say what the sums of the rounds mean."""

_TINY: Final = 1e-3
"""The smallest size, and the smallest weight that a unit is taken to give."""

_ASKED: Final = 0.02
"""Of a group in a round that says what its units give."""

_FEW: Final = 60
"""Groups from which a curve is not told from a line."""


@dataclass(frozen=True, slots=True, eq=False)
class RoundSums:
    """Of each round and selected group the noisy sum of weights, and the weight it was asked for with; each round's noise."""

    sums: Floats
    weights: Floats
    stds: Floats
    shares: Floats

    @property
    def sizes(self) -> Floats:
        """What the group's units give in a round where it is asked for with weight 1: the mean over its rounds."""
        asked = self.weights > 0
        shares = self.shares[:, None]
        return np.asarray((shares * self.sums * asked).sum(axis=0) / (shares * self.weights).sum(axis=0))


def known_columns(mechanism: GroupMechanism) -> list[str]:
    """What selection has told of the selected groups, beside their keys, and counting goes on with."""
    return totals_after(mechanism.rounds_with_sums)


def round_sums(mechanism: GroupMechanism, groups: Arrays) -> RoundSums | None:
    """The sums that decided about the selected groups, with their noise: nothing is drawn again. None after an election."""
    if not mechanism.rounds_with_sums:
        return None
    adaptive = cast(AdaptiveGaussian, mechanism)
    totals = [groups[name] for name in totals_after(adaptive.rounds)]
    steps, rest = np.divmod(np.diff(totals, axis=0, prepend=0), np.array(adaptive.tuning.round_shares)[:, None])
    if rest.any():
        raise EngineFailure("sums of rounds that are multiples of their shares", "this is a bug.")
    weights = [np.full(len(totals[0]), ONE)]
    weights += [round_weights(adaptive, totals[:number]) for number in range(1, len(totals))]
    return RoundSums(
        np.ldexp(steps.astype(np.float64), -LATTICE_BITS),
        np.array(weights) / ONE,
        np.array(adaptive.round_stds),
        np.array(adaptive.tuning.fractions),
    )


@dataclass(frozen=True, slots=True, eq=False)
class Sized:
    """What the rounds say of a group's number of scaled units: the number, the variance of its noise, and how much groups
    differ from what they are expected to be."""

    number: Floats
    noise: Floats
    spread: Floats

    @property
    def variance(self) -> Floats:
        """Of the number."""
        return self.noise + self.spread


def sizes_by_rounds(rounds: RoundSums, scaled: Floats, variance: Floats) -> Sized:
    """E[scaled units | rounds] from the sums of the rounds, and the noisy counts of scaled units with their variances."""
    sizes, noise = combine_rounds(rounds, scaled, variance)
    return regress(sizes, noise, scaled, variance)


def combine_rounds(rounds: RoundSums, scaled: Floats, variance: Floats) -> tuple[Floats, Floats]:
    """All rounds as one number of scaled units, with the variance of its noise.

    A round has the sum a g n of a group asked for with weight a whose n units give g each. g is measured for each round, in
    bins of similar sizes, and drawn to its mean over all bins. It only says how rounds are combined: `regress` measures what
    their combination means.
    """
    logs = np.log(np.maximum(rounds.sizes, _TINY))
    bins = np.array_split(np.argsort(logs, kind="stable"), max(1, min(12, len(logs) // 40)))
    centres = np.array([logs[members].mean() for members in bins])
    gains = np.empty_like(rounds.sums)
    for number, (weights, sums, std) in enumerate(zip(rounds.weights, rounds.sums, rounds.stds, strict=True)):
        asked = weights > _ASKED
        given = np.stack([sums, weights * scaled, np.full(len(sums), std**2), weights**2 * variance]) * asked
        whole, *each = (given[:, members].sum(axis=1) for members in (slice(None), *bins))
        mean = max(whole[0] / max(whole[1], _TINY), _TINY)
        above, below, noise, of_scaled = np.array(each).T
        prior = (mean / 2) ** 2
        doubt = (noise + mean**2 * of_scaled) / np.maximum(below, _TINY) ** 2
        ratios = np.where(below > _TINY, above / np.maximum(below, _TINY) * prior + mean * doubt, mean)
        ratios /= np.where(below > _TINY, prior + doubt, 1.0)
        gains[number] = weights * np.interp(logs, centres, np.maximum(ratios, _TINY))
    precision = gains / rounds.stds[:, None] ** 2
    information = (precision * gains).sum(axis=0)
    return np.maximum((precision * rounds.sums).sum(axis=0) / information, _TINY), 1 / information


def regress(sizes: Floats, noise: Floats, scaled: Floats, variance: Floats) -> Sized:
    """The noisy counts regressed on the sizes, by weighted least squares; then how far groups are off it beyond all noise.

    Counts have noise of their own, so that no correction for selection is needed: given what the rounds published a group is
    as likely above as below. The columns are size, size times its logarithm, its square, and noise over size: that corrects
    for sizes that fall like a power law, of which a noisy one is too large. The spread is relative, measured in bins of some
    30 groups and drawn to that of all, and raised by half of its own doubt.
    """
    logs = np.log(sizes) - np.log(sizes).mean()
    design = np.stack([sizes, sizes * logs, sizes * logs**2, -noise / sizes], axis=1)
    prior = np.array([0.0, 0.3**-2, (0.075 if len(sizes) < _FEW else 0.15) ** -2, 1.0])
    towards = prior * [1.0, 0.0, 0.0, 1.5]
    bins = np.array_split(np.argsort(logs, kind="stable"), max(1, len(logs) // 30))
    centres = np.array([logs[members].mean() for members in bins])
    spread = np.full(len(sizes), 0.15**2)
    for _ in range(8):
        weights = 1 / (variance + noise + spread * sizes**2)
        precision = design.T @ (weights[:, None] * design) + np.diag(prior)
        number = np.maximum(design @ np.linalg.solve(precision, design.T @ (weights * scaled) + towards), 0.2 * sizes)
        own_noise = noise * np.clip(number / sizes, 0.2, 5) ** 2
        beyond = (scaled - number) ** 2 - variance - own_noise
        trust = 1 / (variance + own_noise + 0.05 * number**2) ** 2  # no group is so precise that it alone decides
        sums = [[part[members].sum() for members in bins] for part in (beyond * number**2 * trust, number**4 * trust)]
        excess, weight = three_neighbours(np.array(sums).T).T
        common, doubt, differ = max(excess.sum() / weight.sum(), 0.0), 2 / weight, 0.05**2
        relative = (excess / weight * differ + common * doubt) / (differ + doubt)
        relative = relative + np.sqrt(differ * doubt / (differ + doubt)) / 2
        spread = np.interp(logs, centres, np.clip(relative, 1e-4, 4.0))
    of_line = np.einsum("ij,jk,ik->i", design, np.linalg.inv(precision), design)
    return Sized(number, own_noise + of_line, spread * number**2)


def three_neighbours(values: Floats) -> Floats:
    """Each row with its neighbours added."""
    padded = np.pad(values, ((1, 1), (0, 0)))
    return np.asarray(padded[:-2] + padded[1:-1] + padded[2:])
