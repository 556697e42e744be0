"""Adaptive release: select keys in rounds, then count them. The mathematics; docs/adaptive.md has the proof.

One unit u more or less. N are the groups that only u sampled. With the noise on N fixed, u moves what is published on all
other groups by a vector of l2 norm at most 1 in every round, by one bucket in a histogram and by a bounded vector in the
counts: Gaussian mechanisms that see each other's results (`gdp`). A group of N is selected only if its own noise is large
(`delta_infinity`). `delta` puts the two together.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

from scipy.special import log_ndtr, ndtri_exp

from dphist.privacy.gaussian import delta_gaussian, raise_for_rounding

_UP = 1 + 1e-14


def gdp(noise: Sequence[float]) -> float:
    """[DRS22] Corollary 2: Gaussian mechanisms, each chosen with the results of the others, are mu-GDP together.

    noise: each one's standard deviation over its l2 sensitivity. mu = sqrt(sum 1/noise^2). Rounded up.
    """
    return math.hypot(*(1 / std for std in noise)) * _UP


def combined_std(shares: Sequence[float], noise: Sequence[float]) -> float:
    """The standard deviation of sum_r share_r N(0, noise_r^2): what decides about a group that one unit brought.

    Rounded up: more noise on such a group lets it through more often.
    """
    return math.hypot(*(share * std for share, std in zip(shares, noise, strict=True))) * _UP


def delta_infinity(threshold: float, std: float, most_groups: int, lattice_step: float) -> float:
    """Lemma 2: the probability that one of at most `most_groups` groups, sampled by one unit alone, is selected.

    Its weight is at most 1 in every round, so sum_r share_r y_r <= 1 + g/2 + N(0, std^2), g the lattice step: rounding moves
    a weighted sum of noises, with weights that add up to 1, by at most g/2. 1 - Phi((T - 1 - g/2)/std)^most_groups.
    Rounded up.
    """
    reach = (threshold - 1 - lattice_step / 2) / std
    return raise_for_rounding(-math.expm1(most_groups * float(log_ndtr(reach - 1e-13 * abs(reach)))))


def smallest_threshold(target: float, std: float, most_groups: int, lattice_bits: int, extra_bits: int) -> float:
    """The smallest multiple of 2^-(lattice_bits + extra_bits) whose `delta_infinity` is at most target. Rounded up.

    The noise lives on the lattice of 2^-lattice_bits, weighted sums of it on the finer one.
    """
    step = 2.0**-lattice_bits
    per_group = math.log1p(-target) / most_groups
    start = 1 + step / 2 + std * float(ndtri_exp(per_group))
    fine = lattice_bits + extra_bits
    steps = math.ceil(Fraction(start) * 2**fine) - 2  # from below, until the forward map holds
    while delta_infinity(math.ldexp(steps, -fine), std, most_groups, step) > target:
        steps += 1
    return math.ldexp(steps, -fine)


def delta(epsilon: float, mu: float, infinity: float) -> float:
    """Lemma 3: 1 - (1 - delta_G)(1 - delta_infinity), delta_G the profile of a Gaussian mechanism with this mu. Rounded up."""
    gauss = raise_for_rounding(float(delta_gaussian(mu, epsilon)))
    return raise_for_rounding(gauss + infinity - gauss * infinity)


def delta_gauss_left(target: float, infinity: float) -> float:
    """What Lemma 3 leaves for the noise: (target - delta_infinity)/(1 - delta_infinity). Rounded down."""
    return (target - infinity) / (1 - infinity) * (1 - 1e-9)
