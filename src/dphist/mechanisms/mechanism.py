"""What all mechanisms have in common: a name, a proved profile, and noise whose size can be told."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import ClassVar, Protocol

from scipy.special import ndtr, ndtri

from dphist.errors import Infeasible, InvalidParameter
from dphist.noise import delta_surcharge
from dphist.privacy.search import edge

SAMPLER_ERROR = Fraction(1, 2**110)
"""A bound on `noise.sampler_error` of every law a mechanism draws from (a test holds the laws to it)."""


class Mechanism(Protocol):
    """A calibrated mechanism on the counts of groups."""

    name: ClassVar[str]

    @property
    def analysis(self) -> str:
        """The analysis that proves its delta."""
        ...

    @property
    def theorem(self) -> str:
        """Where that analysis is stated."""
        ...

    @property
    def max_groups(self) -> int:
        """The most groups of one unit that the guarantee allows."""
        ...

    @property
    def noise_std(self) -> float:
        """The standard deviation of the noise on one count, all of it."""
        ...

    @property
    def assumption(self) -> str:
        """What must hold for the data, and who sees to it, in words."""
        ...

    def delta(self, epsilon: float) -> float:
        """The trusted forward map: an upper bound on delta at epsilon, the sampler's own error included."""
        ...

    def delta_gauss(self, epsilon: float) -> float:
        """The part of the noise alone, before any group is new."""
        ...

    def noise_quantile(self, probability: float) -> float:
        """The value that the noise on one count stays below with this probability."""
        ...


class ThresholdMechanism(Mechanism, Protocol):
    """A mechanism that hides groups below a threshold."""

    @property
    def threshold(self) -> float:
        """A group is released if its noisy count is strictly above it."""
        ...

    @property
    def low_threshold(self) -> int:
        """Groups with fewer units are dropped before any noise is drawn."""
        ...

    @property
    def gap(self) -> float:
        """threshold - low_threshold."""
        ...

    def delta_infinity(self) -> float:
        """The probability that a group is released that exists because of one unit only."""
        ...

    def release_probability(self, count: float) -> float:
        """The probability that a group with this many units is released."""
        ...

    def count_released_with(self, probability: float) -> float:
        """The number of units at which a group is released with this probability."""
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


def with_sampler_error(delta: float, epsilon: float, changed_counters: int) -> float:
    """Add what the sampler's distance from its law can add to delta; at most 1."""
    return min(1.0, delta + delta_surcharge(epsilon, changed_counters, SAMPLER_ERROR))


def round_up_to_lattice(value: float, lattice_bits: int) -> float:
    """The smallest multiple of 2^-lattice_bits that is not below value; exact in a double up to 2^53 steps."""
    steps = math.ceil(Fraction(value) * 2**lattice_bits)
    if abs(steps) > 2**53:
        raise InvalidParameter(f"a threshold below 2^{53 - lattice_bits} on this lattice", value, "a coarser lattice")
    return math.ldexp(steps, -lattice_bits)


def epsilon_at(mechanism: Mechanism, delta: float) -> float:
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
