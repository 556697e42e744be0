"""Counts of groups that nobody listed [Rogers24, Theorems 7, 8 and 11, corrected]; Theorems 9 and 10 are in `ranked`.

Every positive count gets noise; what is strictly above a threshold T is released. A group that holds only one unit has a
count of at most max_per_group and must stay hidden; the noise of the others is a Gaussian or Laplace mechanism. Neighbours
differ by adding or removing one unit (Theorem 11: one event). The tails of the discrete laws that are drawn are in
`noise.tails`; the mechanisms put them together with what is here.
"""

from __future__ import annotations

import math

from dphist.privacy import sparse_gaussian
from dphist.privacy.gaussian import raise_for_rounding

_UP = 1 + 1e-14

# Theorem 7, Laplace noise of scale b: one unit moves at most max_groups counts by at most max_per_group each. The noise alone
# is pure: epsilon = max_groups max_per_group/b. gap = threshold - (low_threshold - 1 + max_per_group).


def delta_laplace(gap: int, scale: float, max_groups: int) -> float:
    """delta = 1 - (1 - tail)^max_groups for discrete Laplace noise, P(z) proportional to exp(-|z|/scale), gap >= 0.

    tail = P(Z > gap) = r^(gap+1)/(1 + r), r = exp(-1/scale). Rounded up.
    """
    tail = math.exp(-(gap + 1) / scale) / (1 + math.exp(-1 / scale))
    return raise_for_rounding(-math.expm1(max_groups * math.log1p(-tail)))


def smallest_gap_laplace(target_delta: float, scale: float, max_groups: int) -> int:
    """The smallest integer gap >= 0 for discrete Laplace noise: from below, until the forward map holds."""
    tail = -math.expm1(math.log1p(-target_delta) / max_groups) * (1 - 1e-12)  # of one group, rounded down
    gap = max(0, math.ceil(-scale * math.log(tail * (1 + math.exp(-1 / scale)))) - 3)
    while delta_laplace(gap, scale, max_groups) > target_delta:
        gap += 1
    return gap


def rho_laplace(epsilon_per_group: float, max_groups: int, max_per_group: int = 1) -> float:
    """The tight zCDP parameter of discrete Laplace noise, for which the formula of the continuous one is too small.

    max_groups (e - s (1 - exp(-e))/sinh(s)), e = max_per_group/scale, s = e/max_per_group the exponent per step. Rounded up.
    """
    e = epsilon_per_group
    s = e / max_per_group
    if e < 1e-3:
        return max_groups * e * e / 2  # what every pure mechanism has
    return max_groups * max(0.0, e + s * math.expm1(-e) / math.sinh(s)) * (1 + 1e-9)


# Theorem 7, Gaussian noise on counts to which one unit adds up to max_per_group in each of max_groups groups. The paper's
# typing errors: the l2 sensitivity is max_per_group sqrt(max_groups), and rho is as below.


def rho_records(noise_std: float, max_groups: int, max_per_group: int = 1) -> float:
    """Theorem 7: the zCDP parameter of Gaussian noise, max_groups max_per_group^2/(2 noise_std^2). Rounded up."""
    return max_groups * max_per_group**2 / (2 * noise_std**2) * _UP


def delta_records(
    epsilon: float, *, noise_std: float, threshold: float, max_groups: int, max_per_group: int = 1
) -> float:
    """Theorem 7, exactly: the sparse Gaussian of [KKWZ24] Theorem 5.4 in units of max_per_group. Rounded up.

    With u shared groups and v = max_groups - u new ones, mu = max_per_group sqrt(u)/noise_std and
    g = v ln Phi((T - max_per_group)/noise_std): the largest over u of 1 - e^g + e^g delta_G(mu, epsilon - g) and
    delta_G(mu, epsilon + g). Needs T >= max_per_group.
    """
    return sparse_gaussian.delta(
        epsilon,
        max_groups=max_groups,
        noise_std=noise_std / max_per_group * (1 - 1e-15),
        gap=(threshold - max_per_group) / max_per_group * (1 - 1e-15),
    )


# Theorem 8, from a source that gives only its k+1 largest counts, k = most_groups. Each of the k largest gets its own noise; a
# group is released if it is strictly above the (k+1)-th largest count (0 if there are fewer) plus T plus a noise of its own.
# That noisy threshold is free to publish.
#
# What the paper has to add: one unit can bring a group into the list and push another out, so up to max_groups + 1 coordinates
# change when max_per_group > 1, but their squared distance is at most min(max_groups, k+1) max_per_group^2. Groups with equal
# counts are taken in an order of their labels that does not depend on the data; otherwise up to k groups of the list can be
# exchanged, and only m = k is valid. Only at most m = min(max_groups, k) groups of the list are new, each with a count of at
# most max_per_group above the (k+1)-th. Replacing a unit would need T = 2 max_per_group + ... and is not supported.


def new_groups(most_groups: int, max_groups: int | None) -> int:
    """m: the most groups of the list that one unit can bring into it; None is no bound on the groups of a unit."""
    return most_groups if max_groups is None else min(max_groups, most_groups)


def moved_groups(most_groups: int, max_groups: int | None) -> int:
    """min(max_groups, k + 1): the squared distance of two neighbouring lists, in units of max_per_group^2."""
    return most_groups + 1 if max_groups is None else min(max_groups, most_groups + 1)


def rho_from_top(noise_std: float, most_groups: int, max_groups: int | None, max_per_group: int = 1) -> float:
    """Theorem 8: min(max_groups, k+1) max_per_group^2/(2 noise_std^2), for Gaussian noise. Rounded up."""
    return rho_records(noise_std, moved_groups(most_groups, max_groups), max_per_group)


# Theorem 11, running counts over a stream of batches by the binary mechanism. Rounds 1..L are the leaves of binary trees, one
# tree per group. The count after t rounds is the sum of the popcount(t) nodes that make up 1..t, each with its own noise; a
# count strictly above T is released. Protected is one event: what one unit adds in one round, 1 to each of at most max_groups
# groups. It is in at most B = bit_length(L) nodes that are ever used for any prefix.
#
# The paper's guarantee is true, its proof breaks when an item comes back after it was hidden; the argument used here is: a
# group that exists only because of the event has a count of 1 in all later rounds, and the chance that any of max_groups such
# groups is ever released is at most max_groups sum_(t <= L) P(S_t > T - 1), S_t the noise of round t. Otherwise the nodes tell
# the story, and they are a Gaussian mechanism. An event that is replaced counts twice and is not supported, nor is
# max_per_group > 1.


def levels(rounds: int) -> int:
    """B = bit_length(L): the most nodes of the tree that one round is in."""
    return rounds.bit_length()


def rounds_by_popcount(rounds: int) -> list[int]:
    """How many t in 1..L have popcount p, for p = 0..B (0 for p = 0)."""
    numbers = [0] * (levels(rounds) + 1)
    above = 0  # set bits of L above the one looked at
    for bit in reversed(range(levels(rounds))):
        if rounds >> bit & 1:
            for chosen in range(bit + 1):  # this bit 0, any lower bits
                numbers[above + chosen] += math.comb(bit, chosen)
            above += 1
    numbers[above] += 1  # L itself
    numbers[0] -= 1  # t = 0
    return numbers


def rho_rounds(noise_std: float, max_groups: int, rounds: int) -> float:
    """Theorem 11: max_groups B/(2 noise_std^2). Rounded up."""
    return rho_records(noise_std, max_groups * levels(rounds))
