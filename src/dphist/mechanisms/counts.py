"""The noise on counts of keys that are public by then, apart from how they were selected. A keys-only release has none.

A unit in many selected groups would be counted with a large norm. So units are put into classes by their norm, each class is
counted by itself with noise for its own bound, and all units are counted once more, heavy ones scaled down to the bound of a
lighter class. A unit is in one class, so it pays for two counts however many classes there are: docs/counting.md, Theorem 1.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Final, Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray

from dphist import checks
from dphist.aggregates.measures import MOST_MEASURES, Measure
from dphist.aggregates.noisy_sums import NoisyMeasure
from dphist.checks import proved
from dphist.errors import Infeasible, InvalidParameter
from dphist.mechanisms.tuning import LARGEST_CAP, LATTICE_BITS, MOST_RELEASED, SCALE_BITS
from dphist.noise.laws import LARGEST_SCALE, DiscreteLaplace, Law, RoundedGaussian
from dphist.words import number

if TYPE_CHECKING:
    from dphist.mechanisms.tuning import Tuning

NoiseLaw = Literal["gaussian", "laplace"]
Emphasis = Literal["groups", "balanced", "counts"]
Fact: TypeAlias = tuple[str, str]
Floats: TypeAlias = NDArray[np.float64]
EMPHASES: Final[tuple[Emphasis, ...]] = get_args(Emphasis)

GAUSSIAN_SHARES: Final[dict[Emphasis, float]] = {"groups": 0.08, "balanced": 0.24, "counts": 0.42}
LAPLACE_SHARES: Final[dict[Emphasis, float]] = {"groups": 0.15, "balanced": 0.25, "counts": 0.45}
"""The part of a small budget for counts, by what is asked for: of the squared Gaussian budget, or of epsilon."""

NORM_SHARES: Final[dict[Emphasis, float]] = {"groups": 0.03, "balanced": 0.04, "counts": 0.04}
"""The part of the squared Gaussian budget for the histogram of norms: its noise is what hides heavy units."""

LARGE_SHARE: Final = 0.6
LARGE_MU: Final = 2.0
LARGE_EPSILON: Final = 10.0
"""With a large budget small groups are found anyway, and counts get this part of it. At LARGE_MU, or LARGE_EPSILON, the parts
are halfway between those of a small and those of a large budget."""

SUM_BITS: Final = 20
"""Steps of aggregates with fewer bits are refined to about so many before they are scaled down."""

MOST_SUM_STEPS: Final = 2**30
"""A public limit on one unit's steps in one group: times 2^31 units they stay far below 2^63."""

COUNTS_IN_WORDS: Final = (
    "The selected keys are public now and are counted without a threshold, all units in each of them. A private histogram of"
    " how many of them units are in divides units into classes; every class is counted with noise for its own bound, all units"
    " together are counted once more, heavy ones scaled down to the bound of a lighter class, and the two, with the sums of"
    " the rounds where there are any, are combined from noisy values alone. A unit is in one class, so that it"
    " pays for two counts however many classes there are."
)

HISTOGRAM_SHARE: Final = 0.2
"""Of the epsilon of counts under Laplace noise, for the histogram of norms."""

_UP: Final = 1 + 1e-14
"""Past the rounding of a few products and roots."""


@proved("counting.md#theorem-1")
@dataclass(frozen=True, slots=True)
class CountNoise:
    """What counting the selected keys draws and costs.

    law: Gaussian noise, for norms that are sums of squares; or Laplace noise, for norms that are plain sums: where units are
    light it is smaller. histogram_noise: on the number of units in a bucket. unit_noise: on a count that had all of the counts'
    budget, of units of norm 1. Both are standard deviations of Gaussian, scales of Laplace noise. scaled_share: the part of
    that budget for the count of scaled units; the classes have the rest. sums_sensitivity: how far one unit moves the other
    aggregates, in units of their noise.
    """

    law: NoiseLaw
    histogram_noise: float
    unit_noise: float
    scaled_share: float
    sums_sensitivity: float = 0.0

    def __post_init__(self) -> None:
        checks.check_choice("law", self.law, get_args(NoiseLaw))
        for name in ("histogram_noise", "unit_noise"):
            checks.check_positive(name, getattr(self, name))
        checks.check_share("scaled_share", self.scaled_share)
        checks.check_not_negative("sums_sensitivity", self.sums_sensitivity)

    @property
    def power(self) -> int:
        """Norms are sums of weights to this power, and bounds are their roots."""
        return 2 if self.law == "gaussian" else 1

    @property
    def scaled_noise(self) -> float:
        """On the count of scaled units, for norm 1. Rounded up."""
        return self.unit_noise / self._root(self.scaled_share) * _UP

    @property
    def class_noise(self) -> float:
        """On the count of a class, for norm 1. Rounded up."""
        return self.unit_noise / self._root(1 - self.scaled_share) * _UP

    @property
    def gaussian_parts(self) -> list[float]:
        """Noise over sensitivity of every Gaussian mechanism in here, for `privacy.adaptive.gdp`."""
        sums = [] if self.sums_sensitivity == 0 else [1 / self.sums_sensitivity]
        return [self.histogram_noise, self.scaled_noise, self.class_noise, *sums]

    @property
    def pure_epsilon(self) -> Fraction:
        """The epsilon of everything in here under Laplace noise. Exact."""
        parts = (self.histogram_noise, self.scaled_noise, self.class_noise)
        return sum((1 / Fraction(scale) for scale in parts), Fraction(self.sums_sensitivity))

    @property
    def shares(self) -> dict[str, float]:
        """The budget by what it is spent on: squares of Gaussian parameters, or epsilons."""
        return {
            "histogram": self.histogram_noise**-self.power,
            "counts": self.unit_noise**-self.power,
            "sums": self.sums_sensitivity**self.power,
        }

    @property
    def unit_std(self) -> float:
        """`unit_noise` as a standard deviation."""
        return self.std(self.unit_noise)

    @property
    def fact(self) -> Fact:
        """The noise in words."""
        root = "the square root of that number" if self.law == "gaussian" else "that number"
        return (
            "noise",
            f"std {number(self.unit_std)} on the count of a selected group if its units are in no other selected group; for"
            f" units in more of them it grows with {root}, class by class; every count is released with its own standard error",
        )

    def require_drawable(self, aggregates: Sequence[NoisyMeasure]) -> None:
        """Refuse, before any data is read, a budget whose noise could leave the range of the sampler at the largest bound."""
        reach = self.reach(LARGEST_CAP)
        for noisy in aggregates:
            if noisy.measure.sensitivity_steps > MOST_SUM_STEPS:
                steps = noisy.measure.sensitivity_steps
                raise InvalidParameter(
                    f"at most 2^30 steps for {noisy.name}", steps, "use narrower bounds or fewer --records."
                )
            steps_std = noisy.noise_std / noisy.measure.step
            if math.ldexp(steps_std * reach, sum_shift(noisy.measure)) > float(LARGEST_SCALE) / 2:
                raise Infeasible(f"noise on {noisy.name} that can be drawn", f"{steps_std:.3g} steps", "raise epsilon.")
        classes, scaled = (self.std(noise) * reach for noise in (self.class_noise, self.scaled_noise))
        largest = max(classes, math.ldexp(scaled, SCALE_BITS), self.std(self.histogram_noise))
        if math.ldexp(largest, LATTICE_BITS) > float(LARGEST_SCALE) / 2:
            shown = f"a standard deviation of {self.unit_std:.3g}"
            raise Infeasible("noise on counts that can be drawn", shown, "raise epsilon.")

    def std(self, noise: float) -> float:
        """The standard deviation of noise of this size."""
        return noise if self.law == "gaussian" else math.sqrt(2) * noise

    @property
    def far(self) -> float:
        """Standard deviations that one noise in a thousand exceeds."""
        return 3.3 if self.law == "gaussian" else 4.9

    def reach(self, bound: float) -> float:
        """What one unit whose norm is bounded can add to a count in all: the root of the bound."""
        return self._root(bound)

    def _root(self, value: float) -> float:
        return math.sqrt(value) if self.power == 2 else value

    def _law(self, noise: float, bound: float, bits: int) -> Law:
        """Noise on a count of units of this bound, in steps of 2^-bits. Never less than it is accounted for."""
        if self.law == "gaussian":
            return RoundedGaussian(Fraction(noise * math.sqrt(bound) * _UP), bits)
        return DiscreteLaplace(Fraction(noise) * Fraction(bound) * 2**bits)

    def histogram_law(self) -> Law:
        """On a bucket: one unit changes one of them by one."""
        return self._law(self.histogram_noise, 1.0, LATTICE_BITS)

    def scaled_law(self, bound: float) -> Law:
        """On the count of units that are scaled down to this bound."""
        return self._law(self.scaled_noise, bound, LATTICE_BITS + SCALE_BITS)

    def class_law(self, bound: float) -> Law:
        """On the count of a class."""
        return self._law(self.class_noise, bound, LATTICE_BITS)

    def sum_law(self, noisy: NoisyMeasure, bound: float, shift: int) -> Law:
        """On a sum of units of this bound, in steps refined by `shift` bits."""
        if isinstance(noisy.law, RoundedGaussian):
            return RoundedGaussian(Fraction(math.ldexp(float(noisy.law.std) * math.sqrt(bound), shift) * _UP), 0)
        assert isinstance(noisy.law, DiscreteLaplace)
        return DiscreteLaplace(noisy.law.scale * Fraction(bound) * 2**shift)

    def scaled_factor(self, light: int, bound: int) -> int:
        """floor(2^SCALE_BITS min(1, light/bound)), of the roots under Gaussian noise: what a unit of this class is scaled with.

        Exact: the root of a quotient of integers, by integers.
        """
        if bound <= light:
            return 1 << SCALE_BITS
        if self.power == 1:
            return (light << SCALE_BITS) // bound
        return math.isqrt((light << 2 * SCALE_BITS) // bound)


def count_share(share: float, largeness: float, sums_budget: float) -> float:
    """The part of the budget for counts and sums, of which the count alone would have `share` of a small budget.

    largeness: of the budget, from 0 to 1. sums_budget: of the sums, relative to the count's; with them the part grows, up to
    half of a small budget.
    """
    with_sums = max(share, min(share * (1 + sums_budget) / (1 + sums_budget / 2), 0.5))
    return with_sums + (max(with_sums, LARGE_SHARE) - with_sums) * largeness


def largeness(budget: float, halfway: float) -> float:
    """How large a budget is, from 0 to 1."""
    return budget**2 / (budget**2 + halfway**2)


def gaussian_counts(mu: float, emphasis: Emphasis, tuning: Tuning, sums_budget: float) -> tuple[CountNoise, float]:
    """Gaussian noise on histogram, counts and sums of a Gaussian budget mu; and the share of mu^2 that is left."""
    large = largeness(mu, LARGE_MU)
    share = count_share(GAUSSIAN_SHARES[emphasis], large, sums_budget)
    one_count = mu * math.sqrt(share / (1 + sums_budget))
    noise = CountNoise(
        law="gaussian",
        histogram_noise=1 / (mu * math.sqrt(NORM_SHARES[emphasis])),
        unit_noise=1 / one_count,
        scaled_share=tuning.scaled_share * (1 - large / 2),  # what classes know by themselves needs no scaled units
        sums_sensitivity=math.sqrt(sums_budget) * one_count * (1 + 2.0**-48),  # past the rounding of weights and of 1/x
    )
    return noise, 1 - share - NORM_SHARES[emphasis]


def laplace_counts(budget: float, emphasis: Emphasis, tuning: Tuning, sums_budget: float) -> CountNoise:
    """Laplace noise on histogram, counts and sums, for their part of the epsilon of all."""
    large = largeness(budget, LARGE_EPSILON)
    epsilon = budget * count_share(LAPLACE_SHARES[emphasis], large, sums_budget)
    one_count = epsilon * (1 - HISTOGRAM_SHARE) / (1 + sums_budget) * (1 - 1e-13)
    return CountNoise(
        law="laplace",
        histogram_noise=1 / (epsilon * HISTOGRAM_SHARE) * _UP,
        unit_noise=1 / one_count,
        scaled_share=tuning.scaled_share * (1 - large / 2),
        sums_sensitivity=sums_budget * one_count * (1 + 2.0**-48),
    )


def sum_shift(aggregate: Measure) -> int:
    """By how many bits the steps of an aggregate are refined before they are scaled down."""
    return max(0, SUM_BITS - aggregate.sensitivity_steps.bit_length())


COUNTERS: Final = 1 + MOST_RELEASED * (2 + MOST_MEASURES)
"""How many draws of the counts one unit can change: a bucket, and in every group its class, the scaled count and its sums."""
