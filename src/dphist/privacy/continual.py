"""Running counts per group over a stream of batches by the binary mechanism [Rogers24, Theorem 11, corrected].

Rounds 1..L are the leaves of binary trees, one tree per group. The count after t rounds is the sum of the popcount(t)
nodes that make up 1..t, each with its own noise; a count strictly above T is released. Protected is one event: what
one unit adds in one round, 1 to each of at most max_groups groups. It is in at most B = bit_length(L) nodes that are
ever used for any prefix.

The paper's guarantee is true, its proof breaks when an item comes back after it was hidden; the argument used here
is: a group that exists only because of the event has a count of 1 in all later rounds, and the chance that any of
max_groups such groups is ever released is at most max_groups sum_(t <= L) P(S_t > T - 1), S_t the noise of round t.
Otherwise the nodes tell the story, and they are a Gaussian mechanism with rho = max_groups B/(2 noise_std^2).
Neighbours differ by adding or removing one event; one that is replaced counts twice and is not supported, nor is
max_per_group > 1.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.special import log_ndtr, logsumexp, ndtri

from dphist.privacy.search import smallest


def levels(rounds: int) -> int:
    """B = bit_length(L): the most nodes of the tree that one round is in."""
    return rounds.bit_length()


def rounds_by_popcount(rounds: int) -> list[int]:
    """How many t in 1..L have popcount p, for p = 0..B (0 for p = 0)."""
    found = [0] * (levels(rounds) + 1)
    above = 0  # set bits of L above the one looked at
    for bit in reversed(range(levels(rounds))):
        if rounds >> bit & 1:
            for chosen in range(bit + 1):  # this bit 0, any lower bits
                found[above + chosen] += math.comb(bit, chosen)
            above += 1
    found[above] += 1  # L itself
    found[0] -= 1  # t = 0
    return found


def rho(noise_std: float, max_groups: int, rounds: int) -> float:
    """[Rogers24] Theorem 11: max_groups B/(2 noise_std^2). Rounded up."""
    return max_groups * levels(rounds) / (2 * noise_std**2) * (1 + 1e-14)


def delta_infinity(threshold: float, noise_std: float, max_groups: int, rounds: int) -> float:
    """max_groups sum_(t <= L) P(N(0, noise_std^2 popcount(t)) > T - 1). Rounded up."""
    parts = [
        math.log(number) + float(log_ndtr(-(threshold - 1) / (noise_std * math.sqrt(terms))))
        for terms, number in enumerate(rounds_by_popcount(rounds))
        if number
    ]
    return min(1.0, max_groups * math.exp(float(logsumexp(np.array(parts)))) * (1 + 1e-11))


def threshold_statement(target_delta: float, noise_std: float, max_groups: int, rounds: int) -> float:
    """What the theorem states: 1 + noise_std sqrt(B + 1) z, z = -Phi^-1(delta/(max_groups L))."""
    return 1 - noise_std * math.sqrt(levels(rounds) + 1) * float(ndtri(target_delta / (max_groups * rounds)))


def threshold_proof(target_delta: float, noise_std: float, max_groups: int, rounds: int) -> float:
    """What its proof shows: 1 + noise_std sqrt(B) z."""
    return 1 - noise_std * math.sqrt(levels(rounds)) * float(ndtri(target_delta / (max_groups * rounds)))


def threshold_best(target_delta: float, noise_std: float, max_groups: int, rounds: int) -> float:
    """The smallest T with `delta_infinity` <= target_delta."""
    return smallest(
        lambda t: delta_infinity(t, noise_std, max_groups, rounds),
        target_delta,
        start=threshold_proof(target_delta, noise_std, max_groups, rounds),
        low=1.0,
        high=1 + 80 * noise_std * math.sqrt(levels(rounds)),
    )
