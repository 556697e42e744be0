"""Counts of groups that nobody listed [Rogers24, Theorems 7, 8 and 11, corrected]; Theorems 9 and 10 are in `ranked`.

Every positive count gets noise; what is strictly above a threshold T is released. A group that holds only one unit has a
count of at most max_per_group and must stay hidden; the noise of the others is a Gaussian or Laplace mechanism. Neighbours
differ by adding or removing one unit (Theorem 11: one event). docs/unknown-domain.md has the proofs.
Noise of Theorems 8 and 11 is a Gaussian rounded to whole numbers, whose tails are here; those of discrete laws are in
`noise.tails`, and the mechanisms put them together with what is here.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from dphist.checks import proved
from dphist.privacy.gaussian import delta_gaussian, raise_for_rounding
from dphist.privacy.search import worst_split
from dphist.privacy.special import erfcx, log_ndtr, ndtr

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

_UP = 1 + 1e-14
_ACCURACY = 85.0  # the trapezoidal rule is off by less than 5 e^-85, see `correlated_gaussian.CommonNoise`
_REACH = 13.0  # P(|N(0,1)| > 13) < 2e-38
_LEFT_OUT = 1e-35  # what the rule and the tails beyond the reach can be off by, together
_MOST_NODES = 2**17
_WIDE = 3e4
_LEAST_SMOOTH_STD = 2.0

# Theorem 7, Laplace noise of scale b: one unit moves at most max_groups counts by at most max_per_group each. The noise alone
# is pure: epsilon = max_groups max_per_group/b. gap = threshold - (low_threshold - 1 + max_per_group).


@proved("[Rogers24] Theorem 7")
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


# Theorem 7, Gaussian noise on counts to which one unit adds up to max_per_group in each of max_groups groups: for lists. The
# paper's typing errors: the l2 sensitivity is max_per_group sqrt(max_groups), and rho is as below.


@proved("[Rogers24] Theorem 7")
def rho_records(noise_std: float, max_groups: int, max_per_group: int = 1) -> float:
    """Theorem 7: the zCDP parameter of Gaussian noise, max_groups max_per_group^2/(2 noise_std^2). Rounded up."""
    return max_groups * max_per_group**2 / (2 * noise_std**2) * _UP


# Theorem 8, from a source that gives only its k+1 largest counts, k = most_groups. Each of the k largest gets its own noise; a
# group is released if it is strictly above the (k+1)-th largest count (0 if there are fewer) plus T plus a noise of its own.
# That noisy threshold is free to publish.
#
# What the paper has to add: one unit can bring a group into the list and push another out, so up to max_groups + 1 coordinates
# change when max_per_group > 1, but their squared distance is at most min(max_groups, k+1) max_per_group^2. Groups with equal
# counts are taken in an order of their labels that does not depend on the data; otherwise up to k groups of the list can be
# exchanged, and only m = k is valid. Only at most m = min(max_groups, k) groups of the list are new, each with a count of at
# most max_per_group above the (k+1)-th. Replacing a unit would need T = 2 max_per_group + ... and is not supported.


@proved("[Rogers24] Theorem 8")
def new_groups(most_groups: int, max_groups: int | None) -> int:
    """m: the most groups of the list that one unit can bring into it; None is no bound on the groups of a unit."""
    return most_groups if max_groups is None else min(max_groups, most_groups)


@proved("[Rogers24] Theorem 8")
def moved_groups(most_groups: int, max_groups: int | None) -> int:
    """min(max_groups, k + 1): the squared distance of two neighbouring lists, in units of max_per_group^2."""
    return most_groups + 1 if max_groups is None else min(max_groups, most_groups + 1)


@proved("[Rogers24] Theorem 8")
def rho_from_top(noise_std: float, most_groups: int, max_groups: int | None, max_per_group: int = 1) -> float:
    """Theorem 8: min(max_groups, k+1) max_per_group^2/(2 noise_std^2), for Gaussian noise. Rounded up."""
    return rho_records(noise_std, moved_groups(most_groups, max_groups), max_per_group)


@proved("unknown-domain.md#theorem-lists")
def new_group_passes(gap: int, noise_std: float, new: int) -> float:
    """d(new) = P(max R_i > gap + R_0): one of `new` groups, max_per_group above the next largest, passes the noisy threshold.

    R_0, R_1, ... are N(0, noise_std^2) rounded to whole numbers: the sum over s of P(R_0 = s) (1 - Phi((gap + s +
    1/2)/noise_std)^new). Where the noise is wide every w-th s stands for w of them: that sum and the whole one are trapezoidal
    rules for the same integral, both within 5 e^-85 of it, because P(R_0 = s) is a mean of normal densities and obeys their
    bound on a strip. For very many groups the s are taken in bins, at their lower ends, where the summand is largest. Rounded
    up.
    """
    step = math.pi * math.sqrt(2 / (_ACCURACY * (1 + new))) * noise_std
    width = max(1, math.floor(step))
    side = math.ceil(_REACH * noise_std / width) + 1
    if side <= _MOST_NODES:
        s = width * np.arange(-side, side + 1, dtype=np.float64)
        far = np.abs(s)
        if noise_std < _WIDE:
            chance = width * (ndtr((0.5 - far) / noise_std) - ndtr((-0.5 - far) / noise_std))
        else:  # the difference would lose digits; the mean of e^(-s t) over |t| <= 1/2 is at most cosh(s/2)
            density = np.exp(-((s / noise_std) ** 2) / 2) / (noise_std * math.sqrt(2 * math.pi))
            chance = width * density * np.cosh(s / (2 * noise_std * noise_std))
    else:
        width = math.ceil(_REACH * noise_std / _MOST_NODES)
        s = width * np.arange(-_MOST_NODES, _MOST_NODES + 1, dtype=np.float64)
        near = (np.abs(s + (width - 1) / 2) - width / 2) / noise_std  # the end of the bin that is nearer to 0
        chance = ndtr(-near) - ndtr(-near - width / noise_std)
    passed = -np.expm1(new * log_ndtr((gap + s + 0.5) / noise_std))
    return raise_for_rounding(float(chance @ passed) + _LEFT_OUT)


@proved("unknown-domain.md#theorem-lists")
def delta_from_top(
    epsilon: float,
    *,
    noise_std: float,
    threshold: int,
    most_groups: int,
    max_groups: int | None = None,
    max_per_group: int = 1,
) -> float:
    """Theorem 8 for Gaussian noise that is rounded to whole numbers, by the number of groups that are exchanged. Rounded up.

    When a unit comes, a groups enter the list, all of them its own, and as many leave it at most. Those stay hidden but for
    d(a). Of the unit's other groups at most max_groups - a are listed with it and without it, and the next largest count may
    move too: m + 1 - a noisy numbers, m = min(max_groups, k), moved by at most max_per_group each. So delta is at most the
    largest of delta_G(max_per_group sqrt(min(max_groups, k+1))/noise_std, epsilon), for a = 0, and over a = 1..m of
    d(a) + delta_G(max_per_group sqrt(m + 1 - a)/noise_std, epsilon). d(a) <= min(a d(1), d(m)) is used.
    """
    new, moved = new_groups(most_groups, max_groups), moved_groups(most_groups, max_groups)
    gap, unit = threshold - max_per_group, max_per_group / noise_std
    one = new_group_passes(gap, noise_std, 1)
    all_new = min(new * one, new_group_passes(gap, noise_std, new)) if new > 1 else one

    def upper(low: Integers, high: Integers) -> Floats:
        return np.asarray(np.minimum(high * one, all_new) + delta_gaussian(np.sqrt(new + 1.0 - low) * unit, epsilon))

    noise = float(delta_gaussian(math.sqrt(moved) * unit, epsilon))
    return raise_for_rounding(worst_split(upper, 1, new, at_least=noise))


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


@proved("[Rogers24] Theorem 11")
def rho_rounds(noise_std: float, max_groups: int, rounds: int) -> float:
    """Theorem 11: max_groups B/(2 noise_std^2). Rounded up."""
    return rho_records(noise_std, max_groups * levels(rounds))


@proved("unknown-domain.md#theorem-streams")
def mu_rounds(noise_std: float, max_groups: int, rounds: int) -> float:
    """Theorem 11: with rounded noise the nodes are a Gaussian mechanism, mu^2 = max_groups B/noise_std^2. Rounded up."""
    return math.sqrt(max_groups * levels(rounds)) / noise_std * _UP


@proved("unknown-domain.md#theorem-streams")
def sum_passes(gap: int, noise_std: float, terms: int) -> float:
    """P(R_1 + ... + R_p > gap), p = terms, gap >= 0, for independent N(0, noise_std^2) rounded to whole numbers. Rounded up.

    P(R = x) is the mean of the normal density over x +- 1/2. Adding up over a lattice instead of integrating changes a product
    of two such functions by a factor of at most 1 + eta, eta < 2.1 exp(-pi^2 noise_std^2) (Poisson summation). So the sum is
    more than gap with at most (1 + eta)^(p-1) times the probability of N(0, p noise_std^2) + U_1 + ... + U_(p-1) > gap + 1/2,
    U_i uniform in +-1/2. log Phi is concave: with z = (gap + 1/2)/(noise_std sqrt p), r its hazard phi(z)/Phi(-z) and l =
    r/(noise_std sqrt p), that is at most Phi(-z) (sinh(l/2)/(l/2))^(p-1). Little noise is added up point by point.
    """
    if terms > 1 and noise_std < _LEAST_SMOOTH_STD:
        above = _tails_of_sums(noise_std, terms)[terms - 1]
        place = gap + 1 + (len(above) - 1) // 2
        return raise_for_rounding((float(above[place]) if place < len(above) else 0.0) + terms * _LEFT_OUT)
    std = noise_std * math.sqrt(terms)
    z = (gap + 0.5) / std
    log_tail = float(log_ndtr(-z))
    half = 1 / (math.sqrt(math.pi / 2) * float(erfcx(z / math.sqrt(2))) * std * 2)  # l/2
    eta = 2.1 * math.exp(-((math.pi * noise_std) ** 2))
    # log(sinh(x)/x) <= x^2/6, and close to it where the difference would be lost
    spread = half + math.log(-math.expm1(-2 * half) / (2 * half)) if half > 1e-3 else half * half / 6
    log_bound = log_tail + (terms - 1) * (eta + spread)
    return min(1.0, math.exp(log_bound + 1e-12 - 1e-15 * log_tail))  # past the rounding of the logarithms


@lru_cache(maxsize=16)
def _tails_of_sums(noise_std: float, terms: int) -> tuple[Floats, ...]:
    """P(R_1 + ... + R_p >= x) for x from the lowest value on, p = 1..terms: sums of positive numbers, small ones first."""
    side = math.ceil(_REACH * noise_std) + 1
    far = np.abs(np.arange(-side, side + 1, dtype=np.float64))
    single = ndtr((0.5 - far) / noise_std) - ndtr((-0.5 - far) / noise_std)
    law, tails = np.ones(1), []
    for _ in range(terms):
        law = np.convolve(law, single)
        tails.append(np.cumsum(law[::-1])[::-1])
    return tuple(tails)


@proved("unknown-domain.md#theorem-streams")
def delta_rounds(epsilon: float, *, noise_std: float, threshold: int, max_groups: int, rounds: int) -> float:
    """Theorem 11 for Gaussian noise that is rounded to whole numbers: d + delta_G(mu, epsilon). Rounded up.

    d = `ever_released`, the chance that a group which exists because of the event is ever released; mu = `mu_rounds`. A group
    can be new at first and old later, so the two add up even where all groups are the same.
    """
    noise = float(delta_gaussian(mu_rounds(noise_std, max_groups, rounds), epsilon))
    return raise_for_rounding(ever_released(threshold, noise_std, max_groups, rounds) + noise)


@proved("unknown-domain.md#theorem-streams")
def ever_released(threshold: int, noise_std: float, max_groups: int, rounds: int) -> float:
    """max_groups sum over t <= L of P(S_t > threshold - 1), S_t a sum of popcount(t) rounded noises. Rounded up."""
    total = math.fsum(
        number * sum_passes(threshold - 1, noise_std, terms)
        for terms, number in enumerate(rounds_by_popcount(rounds))
        if number
    )
    return raise_for_rounding(max_groups * total)
