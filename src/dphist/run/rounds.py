"""Selecting keys in rounds: which groups can be released, found without counting any of them well."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from dphist.engines.base import Arrays, Groups, Integers, OnGroups, PairsByUnit, Rows
from dphist.mechanisms.adaptive import AdaptiveGaussian
from dphist.mechanisms.tuning import LATTICE_BITS
from dphist.mechanisms.weights import accepted, round_weights
from dphist.noise import RoundedGaussian, sample


def select(mechanism: AdaptiveGaussian, pairs: PairsByUnit) -> Groups:
    """All rounds; then the groups that were accepted after any of them, with the noisy sums that decided."""
    groups, last = pairs.first_round(), mechanism.rounds - 1
    for number in range(last):
        state = groups.each(noise_round(mechanism, number), (*totals_after(number + 1), "weight"))
        groups = pairs.next_round(state)
    return groups.each(noise_round(mechanism, last), totals_after(mechanism.rounds))


def totals_after(rounds: int) -> list[str]:
    """The columns of the noisy sums of a group, added up by the rounds' shares: one after each round."""
    return [f"total_{number}" for number in range(1, rounds + 1)]


def noise_round(mechanism: AdaptiveGaussian, number: int) -> OnGroups:
    """Fresh noise on every eligible group; then its next weight from its own sums, or in the last round the selection.

    Also a group of weight 0, given up or accepted, gets fresh noise: Lemma 2 adds up all of its noises, and a group that
    skipped a draw would show that it was decided.
    """

    def add_noise_to_round(groups: Arrays) -> Rows:
        shares = mechanism.tuning.round_shares
        totals = [groups[name] for name in totals_after(number)]
        noisy = shares[number] * noise_sums(mechanism, number, groups["exact"])
        totals.append(totals[-1] + noisy if totals else noisy)
        columns = dict(zip(totals_after(number + 1), totals, strict=True))
        if number < len(shares) - 1:
            return Rows(np.arange(len(noisy)), {**columns, "weight": round_weights(mechanism, totals)})
        selected = np.flatnonzero(accepted(mechanism, totals))
        return Rows(selected, {name: total[selected] for name, total in columns.items()})

    return add_noise_to_round


def noise_sums(mechanism: AdaptiveGaussian, number: int, exact: Integers) -> Integers:
    """Fresh noise of round `number` (from 0) on the exact sums of some of the eligible groups."""
    law = RoundedGaussian(Fraction(mechanism.round_stds[number]), LATTICE_BITS)
    return np.asarray(exact + sample(law, len(exact)))
