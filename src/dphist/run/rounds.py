"""Selecting keys in rounds: which groups can be released, found without counting any of them well."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from dphist.engines.base import Arrays, Groups, Integers, OnGroups, PairsByUnit, Rows
from dphist.mechanisms.adaptive import AdaptiveGaussian
from dphist.mechanisms.tuning import LATTICE_BITS
from dphist.mechanisms.weights import next_weights
from dphist.noise import RoundedGaussian, sample

STATE = ("total", "first", "weight")
"""What is known of a group between two rounds: its noisy sums, added up by the rounds' shares; that of round 1; its weight."""


def select(mechanism: AdaptiveGaussian, pairs: PairsByUnit) -> Groups:
    """All rounds; then the groups whose weighted sum is strictly above the threshold, with their noisy sums of round 1."""
    groups, last = pairs.first_round(), mechanism.tuning.rounds - 1
    for number in range(last):
        groups = pairs.next_round(groups.each(noise_round(mechanism, number), STATE))
    return groups.each(noise_round(mechanism, last), ("first",))


def noise_round(mechanism: AdaptiveGaussian, number: int) -> OnGroups:
    """Fresh noise on every eligible group; then its next weight from its own sums, or in the last round the selection.

    Also a group of weight 0 gets fresh noise: Lemma 2 adds up all of its noises, and a group that skipped a draw would
    show that it was given up.
    """

    def add_noise_to_round(groups: Arrays) -> Rows:
        shares = mechanism.tuning.round_shares
        noisy = noise_sums(mechanism, number, groups["exact"])
        total = groups["total"] + shares[number] * noisy
        first = noisy if number == 0 else groups["first"]
        if number == len(shares) - 1:
            selected = np.flatnonzero(passes(mechanism, total))
            return Rows(selected, {"first": first[selected]})
        columns = {"total": total, "first": first, "weight": next_weights(mechanism, number + 1, total)}
        return Rows(np.arange(len(total)), columns)

    return add_noise_to_round


def noise_sums(mechanism: AdaptiveGaussian, number: int, exact: Integers) -> Integers:
    """Fresh noise of round `number` (from 0) on the exact sums of some of the eligible groups."""
    law = RoundedGaussian(Fraction(mechanism.round_stds[number]), LATTICE_BITS)
    return np.asarray(exact + sample(law, len(exact)))


def passes(mechanism: AdaptiveGaussian, total: Integers) -> NDArray[np.bool_]:
    """Which weighted sums of all rounds are strictly above the threshold."""
    return np.asarray(total > int(mechanism.threshold * 2 ** (LATTICE_BITS + mechanism.tuning.share_bits)))
