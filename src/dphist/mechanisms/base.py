"""What all mechanisms have in common: a name, a proved profile, and noise whose size can be told."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

from dphist.errors import Infeasible, InvalidParameter
from dphist.noise import Entropy, RoundedGaussian, delta_surcharge, sample
from dphist.noise.laws import Law
from dphist.privacy.search import edge

MOST_DRAWS = 1 + 16 + 1 + 1
"""The most draws for one group: its count, up to 16 aggregates, and, in one group more than in the others, a total and the
bucket of the histogram from which a mechanism is chosen."""

SAMPLER_ERROR = Fraction(1, 2**110)
"""A bound on the error of all `MOST_DRAWS` draws for one group. A test holds `noise.sampler_error` of the laws to its share.

A total and a choice have an epsilon of their own, so theirs counts with 1 + e^that, less than what it is added to.
"""

MOST_LATTICE_BITS = 40
MOST_CORRELATION = 1e6


LARGEST_EPSILON = 30.0
"""What the sampler's error adds to delta grows with e^epsilon. A delta at 30 holds for every larger epsilon too."""


class Profile(Protocol):
    """What every mechanism has: a proved profile.

    The dataclasses share more by name: `name`, `analysis`, `theorem`, `assumption` (what must hold for the data, and who
    sees to it), `max_groups`, `noise_std` (of all the noise on one count), `delta_gauss(epsilon)` (the part of the noise
    alone), `noise_quantile(probability)`; and those with a threshold `threshold`, `low_threshold`, `gap`,
    `delta_infinity()`, `release_probability(count)` and `count_released_with(probability)`.
    """

    def delta(self, epsilon: float) -> float:
        """The trusted forward map: an upper bound on delta at epsilon, the sampler's own error included."""
        ...


def gaussian_quantile(std: float, probability: float) -> float:
    """The quantile of N(0, std^2)."""
    return std * float(ndtri(probability))


def gaussian_release_probability(count: float, threshold: float, std: float) -> float:
    """P(count + N(0, std^2) > threshold)."""
    return float(ndtr((count - threshold) / std))


def gaussian_count_released_with(probability: float, threshold: float, std: float) -> float:
    """The count at which that probability is reached."""
    return threshold + std * float(ndtri(probability))


def with_sampler_error(delta_at: Callable[[float], float], epsilon: float, changed_counters: int) -> float:
    """delta_at(epsilon) plus what the sampler's distance from its law can add to it; at most 1."""
    capped = min(epsilon, LARGEST_EPSILON)
    return min(1.0, delta_at(capped) + sampler_surcharge(capped, changed_counters))


@lru_cache(maxsize=256)
def sampler_surcharge(epsilon: float, changed_counters: int) -> float:
    """What is added to delta for the sampler, at an epsilon of at most `LARGEST_EPSILON`.

    Kept, since a profile is asked at one epsilon again and again, and an enclosure of e^epsilon takes longer than the rest.
    """
    return delta_surcharge(epsilon, changed_counters, SAMPLER_ERROR)


def round_up_to_lattice(value: float, lattice_bits: int) -> float:
    """The smallest multiple of 2^-lattice_bits that is not below value; exact in a double up to 2^53 steps."""
    return _on_lattice(math.ceil(Fraction(value) * 2**lattice_bits), lattice_bits, value)


def round_down_to_lattice(value: float | Fraction, lattice_bits: int) -> float:
    """The largest multiple of 2^-lattice_bits that is not above value: for a threshold that is fixed already."""
    return _on_lattice(math.floor(Fraction(value) * 2**lattice_bits), lattice_bits, value)


def _on_lattice(steps: int, lattice_bits: int, value: float | Fraction) -> float:
    if abs(steps) > 2**53:
        most = f"a threshold of at most 2^{53 - lattice_bits} on this lattice"
        raise InvalidParameter(most, f"{float(value):g}", "a coarser lattice")
    return math.ldexp(steps, -lattice_bits)


def round_up(value: Fraction | int) -> float:
    """The smallest double that is not below an exact value."""
    nearest = float(value)
    return nearest if Fraction(nearest) >= value else math.nextafter(nearest, math.inf)


def epsilon_at(mechanism: Profile, delta: float) -> float:
    """The smallest epsilon >= 0 at which the mechanism's delta is at most `delta`; Infeasible if there is none."""
    if mechanism.delta(0.0) <= delta:
        return 0.0
    enough = 1.0
    while mechanism.delta(enough) > delta:
        enough *= 2
        if enough > 600:
            raise Infeasible(
                "a delta that some epsilon below 600 meets",
                f"{delta:g}",
                "the probability that a group of one unit is released bounds delta from below; raise the gap.",
            )
    return edge(mechanism.delta, delta, enough, 0.0 if enough == 1.0 else enough / 2)


Integers = NDArray[np.int64]

LARGEST_COUNT = 2**40
"""A public limit on the units of one group: with up to 20 lattice bits and any noise a plan can have, int64 is enough."""


@dataclass(frozen=True, slots=True)
class Kept:
    """The positions of released groups and their noisy counts, in steps of 2^-lattice_bits. Holds no true count."""

    index: Integers
    noisy: Integers
    lattice_bits: int

    @property
    def counts(self) -> NDArray[np.float64]:
        """The noisy counts as numbers; exact below 2^53 steps."""
        return np.ldexp(self.noisy.astype(np.float64), -self.lattice_bits)


def add_noise(counts: Integers, law: Law, lattice_bits: int, entropy: Entropy | None, common: int = 0) -> Integers:
    """count + noise (+ a noise common to all), in lattice steps. Counts are saturated at the public limit first."""
    noisy = np.minimum(counts, LARGEST_COUNT) << lattice_bits
    noisy += sample(law, len(counts), entropy)
    noisy += common
    return noisy


def above(noisy: Integers, eligible: Integers, threshold: float, lattice_bits: int) -> Kept:
    """Those strictly above a threshold that lies on the lattice: with lattice noise, >= would be a leak."""
    passed = noisy > int(threshold * 2**lattice_bits)
    return Kept(eligible[passed], noisy[passed], lattice_bits)


def draw_common(law: RoundedGaussian, entropy: Entropy | None) -> int:
    """The noise that all groups share, drawn once."""
    return int(sample(law, 1, entropy)[0])
