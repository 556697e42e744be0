"""Adaptive release: select keys in rounds, then count them. The mathematics; docs/adaptive.md has the proof.

One unit u more or less. N are the groups that only u sampled. With the noise on N fixed, u moves what is published on all
other groups by a vector of l2 norm at most 1 in every round, by one bucket in a histogram and by a bounded vector in the
counts: Gaussian mechanisms that see each other's results (`gdp`). A group of N is selected only if its own noise is large,
and the less weight u has left for it the larger that noise must be (`delta_infinity`). `delta` puts the two together.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from dphist.checks import proved
from dphist.privacy.gaussian import delta_gaussian, raise_for_rounding
from dphist.privacy.search import edge, worst_split
from dphist.privacy.special import gammaln, log_ndtr, ndtr, ndtri_exp, xlog1py, xlogy

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

_UP = 1 + 1e-14

SUM_ROUNDING: Final = 1e-9
"""Relative allowance for a sum of at most 4,096 binomial terms: logarithms up to 4e4, so that each is exact to 1e-11."""

LEVEL_SLACK: Final = 1e-8
"""How far inside its interval, relatively, a level must lie to be counted on: the rounds compute levels to 1e-14."""

SPLIT_TOLERANCE: Final = 1e-5
"""How closely the worst number of groups is looked for: 1e-5 of delta is 1e-6 of a threshold."""


@dataclass(frozen=True, slots=True)
class Rule:
    """What Lemma 2 needs to know of the rounds.

    A unit with weights a_j in [0, 1] on its sampled groups gives a_i/sqrt(sum_j a_j^2), or less, to group i. In round 1 all
    a are 1. Later a group whose published sums, over the shares so far and over the noise of the whole selection, reach a
    level between the round's cut-off and T/std + reserve sqrt(share to come) has a = 1. After each round but the last a group
    is accepted for good, with a = 0 from then on, if its sum so far is strictly above the bar of that round.

    shares: of the rounds, add up to 1. noise: the standard deviation on a sum of weights in each round. cut_offs: one before
    each round but the first. most_groups: how many groups a unit samples. lattice_step: to which noise is rounded.
    bars: one after each round but the last; none where groups are accepted at the end only.
    """

    shares: tuple[float, ...]
    noise: tuple[float, ...]
    cut_offs: tuple[float, ...]
    reserve: float
    most_groups: int
    lattice_step: float
    bars: tuple[float, ...] = ()

    @property
    def std(self) -> float:
        """The noise that decides about a group that one unit brought. Rounded up."""
        return combined_std(self.shares, self.noise)


@proved("adaptive.md#lemma-1")
def gdp(noise: Sequence[float]) -> float:
    """[DRS22] Corollary 2: Gaussian mechanisms, each chosen with the results of the others, are mu-GDP together.

    noise: each one's standard deviation over its l2 sensitivity. mu = sqrt(sum 1/noise^2). Rounded up.
    """
    return math.hypot(*(1 / std for std in noise)) * _UP


@proved("adaptive.md#lemma-2")
def combined_std(shares: Sequence[float], noise: Sequence[float]) -> float:
    """The standard deviation of sum_r share_r N(0, noise_r^2): what decides about a group that one unit brought.

    Rounded up: more noise on such a group lets it through more often.
    """
    return math.hypot(*(share * std for share, std in zip(shares, noise, strict=True))) * _UP


@proved("adaptive.md#lemma-2")
def delta_full_weight(
    threshold: float, std: float, most_groups: int, lattice_step: float, shares: float = 1.0
) -> float:
    """Lemma 2a: the probability that one of at most `most_groups` groups, sampled by one unit alone, passes a threshold.

    Its weight is at most 1 in every round, so sum_r share_r y_r <= F (1 + g/2) + N(0, std^2), F the shares that are added up
    and g the lattice step: rounding moves such a sum of noises by at most F g/2. 1 - Phi((T - F (1 + g/2))/std)^most_groups.
    Rounded up.
    """
    reach = (threshold - shares * (1 + lattice_step / 2)) / std
    return raise_for_rounding(-math.expm1(most_groups * float(log_ndtr(reach - 1e-13 * abs(reach)))))


@proved("adaptive.md#lemma-2")
def staying_levels(threshold: float, rule: Rule, later: int) -> tuple[float, float]:
    """Lemma 2b, the levels: noise of a group of one unit, from the first to the second, keeps it at weight 1 in that round.

    later: the round, from 1. With F the shares so far and g the lattice step the level that the rounds see is v + x, v =
    sum_{q<r} share_q n_q/(F std) the noise, x from -g/(2 std) to (1 + g/2)/std the unit's weight and the rounding. It lies
    between cut-off and goal if cut-off + g/std <= v <= T/std + reserve sqrt(1 - F) - (1 + g)/std. Rounded inwards.
    """
    cut_off, std, past = rule.cut_offs[later - 1], rule.std, math.fsum(rule.shares[:later])
    slack = LEVEL_SLACK * (1 + abs(cut_off) + abs(threshold) / std + abs(rule.reserve))
    goal = threshold / std + rule.reserve * math.sqrt(1 - past)
    return max(cut_off, 0.0) + rule.lattice_step / std + slack, goal - (1 + rule.lattice_step) / std - slack


@proved("adaptive.md#lemma-2")
def chances_to_stay(threshold: float, rule: Rule) -> tuple[float, ...]:
    """Lemma 2b, the rivals: for each round the probability that noise alone keeps a group of one unit at weight 1.

    1 in round 1. Later that of `staying_levels` under N(0, sum_{q<r} share_q^2 noise_q^2/(F std)^2). Rounded down.
    """
    chances = [1.0]
    for later in range(1, len(rule.shares)):
        low, high = staying_levels(threshold, rule, later)
        std = combined_std(rule.shares[:later], rule.noise[:later]) / (math.fsum(rule.shares[:later]) * rule.std)
        inside = float(ndtr(-low / std)) * (1 - 1e-11) - float(ndtr(-high / std)) * (1 + 1e-11)
        chances.append(max(0.0, inside))
    return tuple(chances)


@proved("adaptive.md#lemma-2")
def delta_shared_weight(threshold: float, rule: Rule) -> float:
    """Lemma 2b: the same probability, as other groups of the unit take their part of its weight.

    Of m groups of one unit alone, each has K_r ~ Binomial(m - 1, p_r) rivals of weight 1 in round r, independent of its own
    noise, p_r of `chances_to_stay`. So its weight is at most 1/sqrt(1 + K_r), and one of the m is selected with probability
    at most m E Q((T - g/2 - sum_r share_r/sqrt(1 + K_r))/std), Q the upper tail of N(0, 1). The maximum over m up to
    most_groups: the expectation falls with m, so a range of m is bounded by its ends. Rounded up.
    """
    chances = chances_to_stay(threshold, rule)

    def upper(low: Integers, high: Integers) -> Floats:
        return np.asarray(high * _one_selected(low, threshold, rule, chances))

    return raise_for_rounding(worst_split(upper, 1, rule.most_groups, tolerance=SPLIT_TOLERANCE) * (1 + SUM_ROUNDING))


def _one_selected(groups: Integers, threshold: float, rule: Rule, chances: Sequence[float]) -> Floats:
    """For each number m of groups an upper bound on E Q((T - g/2 - sum_r share_r W_r)/std), W_r = 1/sqrt(1 + K_r).

    The K_r of different rounds depend on each other, so only the law of each is used: for any c_r, and any positive parts
    that add up to 1, sum_r share_r W_r = sum_r part_r (centre + (share_r/part_r)(W_r - c_r)) with centre = sum_r share_r c_r,
    and Q is convex above 0, continued by its tangent below. c_r = E W_r and parts like the deviations of share_r W_r lose
    little; every choice of them is valid.
    """
    rivals = np.arange(int(groups.max()))
    others = groups[:, None] - 1
    weights = 1 / np.sqrt(1.0 + rivals)
    left = np.maximum(others - rivals, 0)
    ways = gammaln(others + 1.0) - gammaln(rivals + 1.0) - gammaln(left + 1.0)
    laws = [
        np.where(rivals <= others, np.exp(ways + xlogy(rivals, chance) + xlog1py(left, -chance)), 0.0)
        for chance in chances
    ]
    means = [law @ weights for law in laws]
    spreads = [np.sqrt(np.maximum(law @ weights**2 - mean**2, 0.0)) for law, mean in zip(laws, means, strict=True)]
    parts = [share * (spread + 1e-3) for share, spread in zip(rule.shares, spreads, strict=True)]
    whole, centre = sum(parts), sum(share * mean for share, mean in zip(rule.shares, means, strict=True))
    total = np.zeros(len(groups))
    for share, law, mean, part in zip(rule.shares, laws, means, parts, strict=True):
        moved = (share * whole / part)[:, None] * (weights - mean[:, None])
        reach = threshold - rule.lattice_step / 2 - np.asarray(centre)[:, None] - moved
        reach = (reach - 1e-13 * (abs(threshold) + 1 + np.abs(moved))) / rule.std
        total += part / whole * (law * _convex_tail(reach)).sum(axis=1)
    return total


def _convex_tail(reach: Floats) -> Floats:
    """1 - Phi above 0, and its tangent 1/2 - x/sqrt(2 pi) below, which is larger: convex everywhere."""
    return np.where(reach >= 0, ndtr(-np.maximum(reach, 0.0)), 0.5 - reach / math.sqrt(2 * math.pi))


@proved("adaptive.md#lemma-2")
def delta_bar(bar: float, rule: Rule, number: int) -> float:
    """Lemma 2, the bars: the probability that a group of one unit alone passes the bar after round `number`, from 1.

    Lemma 2a of the rounds so far: whatever the weights were, they were at most 1. Rounded up.
    """
    shares = rule.shares[:number]
    std = combined_std(shares, rule.noise[:number])
    return delta_full_weight(bar, std, rule.most_groups, rule.lattice_step, math.fsum(shares))


@proved("adaptive.md#lemma-2")
@lru_cache(maxsize=256)
def delta_infinity(threshold: float, rule: Rule) -> float:
    """Lemma 2: the smaller of its two bounds at the threshold, and the probabilities of all bars: a union bound. Rounded up.

    The two bounds hold where no group of the unit alone has passed a bar: an accepted group is no rival any more.
    """
    full = delta_full_weight(threshold, rule.std, rule.most_groups, rule.lattice_step)
    last = min(full, delta_shared_weight(threshold, rule))
    early = [delta_bar(bar, rule, number) for number, bar in enumerate(rule.bars, 1)]
    return raise_for_rounding(math.fsum([last, *early])) if early else last


def smallest_bars(target: float, rule: Rule, fine_bits: int) -> tuple[float, ...]:
    """For each round but the last the smallest multiple of 2^-fine_bits whose `delta_bar` is at most target. Rounded up."""
    quantile, bars = float(ndtri_exp(math.log1p(-target) / rule.most_groups)), []
    for number in range(1, len(rule.shares)):
        shares = rule.shares[:number]
        reach = math.fsum(shares) * (1 + rule.lattice_step / 2) + combined_std(shares, rule.noise[:number]) * quantile
        steps = math.ceil(Fraction(reach) * 2**fine_bits) - 2  # from below, until the forward map holds
        while delta_bar(math.ldexp(steps, -fine_bits), rule, number) > target:
            steps += 1
        bars.append(math.ldexp(steps, -fine_bits))
    return tuple(bars)


def smallest_threshold(target: float, rule: Rule, fine_bits: int) -> float:
    """The smallest multiple of 2^-fine_bits, up to the search, whose `delta_infinity` is at most target. Rounded up.

    fine_bits: of the lattice of weighted sums. The bars of the rule have their parts of the target already. The threshold of
    Lemma 2a for the rest is enough, and is more by at most 1: the rivals take no more than the whole weight.
    """
    left = target - math.fsum(delta_bar(bar, rule, number) for number, bar in enumerate(rule.bars, 1))
    enough = 1 + rule.lattice_step / 2 + rule.std * float(ndtri_exp(math.log1p(-left) / rule.most_groups))
    enough += 2.0**-fine_bits + 1e-12 * abs(enough)
    close = 2.0 ** -(fine_bits + 2) / max(1.0, abs(enough))
    start = edge(lambda threshold: delta_infinity(threshold, rule), target, enough, enough - 1, tolerance=close)
    steps = math.ceil(Fraction(start) * 2**fine_bits) - 1  # from below, until the forward map holds
    while delta_infinity(math.ldexp(steps, -fine_bits), rule) > target:
        steps += 1
    return math.ldexp(steps, -fine_bits)


@proved("adaptive.md#lemma-3")
def delta(epsilon: float, mu: float, infinity: float) -> float:
    """Lemma 3: 1 - (1 - delta_G)(1 - delta_infinity), delta_G the profile of a Gaussian mechanism with this mu. Rounded up."""
    gauss = raise_for_rounding(float(delta_gaussian(mu, epsilon)))
    return raise_for_rounding(gauss + infinity - gauss * infinity)


@proved("adaptive.md#lemma-3")
def delta_gauss_left(target: float, infinity: float) -> float:
    """What Lemma 3 leaves for the noise: (target - delta_infinity)/(1 - delta_infinity). Rounded down."""
    return (target - infinity) / (1 - infinity) * (1 - 1e-9)
