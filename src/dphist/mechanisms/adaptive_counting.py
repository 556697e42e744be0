"""Counting the selected groups, whose keys are public by now: no threshold, all of a unit's records in them.

A unit in many selected groups would be counted with a large norm. Its weights are scaled down to a norm of at most sqrt(C),
C chosen from a private histogram of the units' norms; large groups, which can afford it, get smaller weights from the start.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from dphist.errors import Infeasible, InvalidParameter
from dphist.mechanisms.adaptive_norms import CAPS, EDGES, Norms, norms_from
from dphist.mechanisms.adaptive_pairs import Integers, Pairs
from dphist.mechanisms.adaptive_selection import ONE, Selection
from dphist.mechanisms.adaptive_tuning import LATTICE_BITS, WEIGHT_BITS, Tuning
from dphist.noise import Entropy, RoundedGaussian, sample
from dphist.noise.laws import LARGEST_SCALE

if TYPE_CHECKING:
    from dphist.mechanisms.adaptive import AdaptiveGaussian

Floats = NDArray[np.float64]

SUM_BITS: Final = 20
"""Steps of measures with fewer bits are refined to about so many before they are scaled down."""

MOST_SUM_STEPS: Final = 2**30
"""A public limit on one unit's steps in one group: times 2^31 units they stay far below 2^63."""


@dataclass(frozen=True, slots=True, eq=False)
class NoisyCounts:
    """What counting publishes: weights, norms, the caps chosen, and noisy sums in lattice steps. Holds no true value."""

    index: Integers
    weights: Integers
    norms: Norms
    cap: float
    probe_cap: float
    main: Integers
    probe: Integers
    main_std: float
    probe_std: float
    sums: Mapping[str, Integers] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SumNoise:
    """One more aggregate: one unit's most steps in one group, and the noise for a unit norm of 1, in steps."""

    name: str
    most_steps: int
    std_steps: float

    def __post_init__(self) -> None:
        if self.most_steps > MOST_SUM_STEPS:
            raise InvalidParameter(f"at most 2^30 steps for {self.name}", self.most_steps, "use narrower bounds.")

    @property
    def shift(self) -> int:
        """By how many bits its steps are refined."""
        return max(0, SUM_BITS - self.most_steps.bit_length())


def require_room(mechanism: AdaptiveGaussian, sums: Sequence[SumNoise]) -> None:
    """Refuse, before any data is read, a budget whose noise could leave the range of the sampler at the largest C."""
    for noise in sums:
        if math.ldexp(noise.std_steps * math.sqrt(CAPS[-1]), noise.shift) > float(LARGEST_SCALE) / 2:
            raise Infeasible(
                f"noise on {noise.name} that can be drawn", f"{noise.std_steps:.3g} steps", "raise epsilon."
            )
    largest = math.sqrt(CAPS[-1]) * max(mechanism.noise_std, mechanism.probe_std)
    if math.ldexp(max(largest, *mechanism.round_stds), LATTICE_BITS) > float(LARGEST_SCALE) / 2:
        raise Infeasible(
            "noise on counts that can be drawn", f"a standard deviation of {largest:.3g}", "raise epsilon."
        )


def count(
    mechanism: AdaptiveGaussian,
    pairs: Pairs,
    selection: Selection,
    sums: tuple[SumNoise, ...] = (),
    entropy: Entropy | None = None,
) -> NoisyCounts:
    """Histogram of norms, choice of C, noisy clipped counts and sums."""
    weights = group_weights(selection.first_sums, mechanism.tuning)
    spread = np.zeros(pairs.groups, np.int64)
    spread[selection.index] = weights
    norms = noisy_norms(mechanism, pairs, spread, entropy)
    cap, probe_cap = choose_caps(mechanism, norms, weights, selection.first_sums)
    caps = [int(chosen * 4**WEIGHT_BITS) for chosen in (cap, probe_cap)]
    exact = pairs.clipped_sums(spread, caps[0], {noise.name: noise.shift for noise in sums})
    probe = pairs.clipped_sums(spread, caps[1], {})["units"]
    main_std, probe_std = up(mechanism.noise_std * math.sqrt(cap)), up(mechanism.probe_std * math.sqrt(probe_cap))
    size = len(selection.index)
    return NoisyCounts(
        index=selection.index,
        weights=weights,
        norms=norms,
        cap=cap,
        probe_cap=probe_cap,
        main=exact["units"][selection.index] + draw(main_std, LATTICE_BITS, size, entropy),
        probe=probe[selection.index] + draw(probe_std, LATTICE_BITS, size, entropy),
        main_std=main_std,
        probe_std=probe_std,
        sums={
            noise.name: exact[noise.name][selection.index]
            + draw(up(math.ldexp(noise.std_steps * math.sqrt(cap), noise.shift)), 0, size, entropy)
            for noise in sums
        },
    )


def up(std: float) -> float:
    """A standard deviation, raised past the rounding of the products that made it."""
    return std * (1 + 1e-14)


def draw(std: float, bits: int, size: int, entropy: Entropy | None) -> Integers:
    """Fresh rounded Gaussian noise."""
    return sample(RoundedGaussian(Fraction(std), bits), size, entropy)


def group_weights(first_sums: Floats, tuning: Tuning) -> Integers:
    """a = min(1, q/y)^(1/4), y the noisy sums of round 1 and q their tenth percentile: from published values alone.

    Noise costs a small group more than a large one, so the large ones lend their share of the norm. Rounded down to the
    lattice, at least one step. (The power and the quantile are those of `tuning`.)
    """
    if len(first_sums) == 0:
        return np.zeros(0, np.int64)
    least = max(float(np.quantile(first_sums, tuning.size_quantile)), 2.0**-LATTICE_BITS)
    ratio = least / np.maximum(first_sums, least)
    for _ in range(tuning.weight_roots):
        ratio = np.sqrt(ratio)
    return np.asarray(np.maximum(np.floor(ratio * ONE), 1), np.int64)


def noisy_norms(mechanism: AdaptiveGaussian, pairs: Pairs, spread: Integers, entropy: Entropy | None) -> Norms:
    """One public bucket for each unit: one unit changes one bucket by one."""
    exact = pairs.norm_histogram(spread, EDGES)
    noisy = (exact << LATTICE_BITS) + draw(mechanism.histogram_std, LATTICE_BITS, len(exact), entropy)
    all_weights = float((spread.astype(np.float64) ** 2).sum()) / ONE**2  # public, and no unit can have more
    return norms_from(
        np.ldexp(noisy.astype(np.float64), -LATTICE_BITS), mechanism.histogram_std, all_weights, mechanism.tuning
    )


def choose_caps(
    mechanism: AdaptiveGaussian, norms: Norms, weights: Integers, first_sums: Floats
) -> tuple[float, float]:
    """(C, C of the probe): the smallest predicted median error, and the smallest one in the better groups, as the probe helps
    most where groups are large. From private outputs.
    """
    if len(weights) == 0:
        return 1.0, 4.0
    tuning = mechanism.tuning
    a = weights / ONE
    sizes = np.maximum(first_sums, max(float(np.quantile(first_sums, tuning.size_quantile)), 2.0**-LATTICE_BITS))
    sizes = np.maximum(sizes * norms.total / float((sizes * a**2).sum()), 1.0)

    def error(cap: float) -> float:
        noise = math.sqrt(cap) * mechanism.noise_std / (a * sizes)
        return float(np.median(np.hypot(noise, tuning.left_of_bias * sum(norms.lost(cap)) / norms.total)))

    def probe_error(cap: float) -> float:
        noise = math.sqrt(cap) * mechanism.probe_std / (a * sizes)
        left = math.hypot(tuning.left_of_probe_bias * sum(norms.lost(cap)), norms.doubt(cap)) / norms.total
        return float(np.quantile(np.hypot(noise, left), tuning.probe_quantile))

    cap = float(min(CAPS, key=error))
    return cap, float(min((c for c in CAPS if c >= cap), key=probe_error))
