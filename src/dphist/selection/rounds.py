"""Selecting keys in rounds: which groups can be released, found without counting any of them well."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from dphist.engines.memory import Integers, Pairs
from dphist.mechanisms.tuning import LATTICE_BITS, WEIGHT_BITS
from dphist.noise import Entropy, RoundedGaussian, sample

if TYPE_CHECKING:
    from dphist.mechanisms.adaptive import AdaptiveGaussian

Floats = NDArray[np.float64]

ONE = 1 << WEIGHT_BITS


@dataclass(frozen=True, slots=True, eq=False)
class Round:
    """What one round publishes, in the view that the proof gives away: weights, and noisy sums of eligible groups."""

    weights: Integers
    noisy: Integers


@dataclass(frozen=True, slots=True, eq=False)
class Selection:
    """The selected groups, and the noisy sums of their weights in the first round (in weights, not lattice steps)."""

    index: Integers
    first_sums: Floats


def select(mechanism: AdaptiveGaussian, pairs: Pairs, entropy: Entropy | None = None) -> Selection:
    """All rounds, then the groups whose weighted sum is strictly above the threshold."""
    eligible = np.flatnonzero(pairs.eligible())
    total = np.zeros(len(eligible), np.int64)
    first: Integers | None = None
    for share, published in zip(
        mechanism.tuning.round_shares, rounds(mechanism, pairs, eligible, entropy), strict=True
    ):
        total += share * published.noisy
        first = published.noisy if first is None else first
    assert first is not None
    passed = passes(mechanism, total)
    return Selection(eligible[passed], np.ldexp(first[passed].astype(np.float64), -LATTICE_BITS))


def passes(mechanism: AdaptiveGaussian, total: Integers) -> NDArray[np.bool_]:
    """Which weighted sums of all rounds are strictly above the threshold."""
    return np.asarray(total > int(mechanism.threshold * 2 ** (LATTICE_BITS + mechanism.tuning.share_bits)))


def noise_sums(mechanism: AdaptiveGaussian, number: int, sums: Integers, entropy: Entropy | None = None) -> Integers:
    """Fresh noise of round `number` (from 0) on the exact sums of some of the eligible groups."""
    law = RoundedGaussian(Fraction(mechanism.round_stds[number]), LATTICE_BITS)
    return np.asarray(sums + sample(law, len(sums), entropy))


def rounds(
    mechanism: AdaptiveGaussian, pairs: Pairs, eligible: Integers, entropy: Entropy | None = None
) -> Iterator[Round]:
    """Each round: public weights, one exact pass over the pairs, fresh noise on every eligible group.

    Also a group of weight 0 gets fresh noise: Lemma 2 adds up all of its noises, and a group that skipped a draw would
    show that it was given up.
    """
    tuning = mechanism.tuning
    total = np.zeros(len(eligible), np.int64)
    weights = np.full(len(eligible), ONE, np.int64)
    for number, share in enumerate(tuning.round_shares):
        if number:
            weights = next_weights(mechanism, number, total)
        spread = np.zeros(pairs.groups, np.int64)
        spread[eligible] = weights
        noisy = noise_sums(mechanism, number, pairs.weighted_sums(spread)[eligible], entropy)
        yield Round(weights, noisy)
        total += share * noisy


def next_weights(mechanism: AdaptiveGaussian, number: int, total: Integers) -> Integers:
    """The weights of round `number` (from 1), from the published sums so far: each group's from its own alone.

    That locality is a hypothesis of the proof. A cut-off that looked at all eligible groups, say their median, would let
    the groups that one unit brought move the weights of all others.
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
