"""Counting the selected groups, whose keys are public by now: no threshold, all of a unit's records in them.

A unit in many selected groups would be counted with a large norm. Its weights are scaled down to a norm of at most sqrt(C),
C chosen from a private histogram of the units' norms; large groups, which can afford it, get smaller weights from the start.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from dphist.engines.memory import Integers, Pairs
from dphist.errors import Infeasible, InvalidParameter
from dphist.mechanisms.tuning import LARGEST_CAP, LATTICE_BITS, WEIGHT_BITS, Tuning
from dphist.noise import Entropy, RoundedGaussian, sample
from dphist.noise.laws import LARGEST_SCALE
from dphist.selection.rounds import ONE, Selection

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
    caps = [whole_cap(chosen) for chosen in (cap, probe_cap)]
    exact = pairs.clipped_sums(spread, caps[0], {noise.name: noise.shift for noise in sums})
    probe = pairs.clipped_sums(spread, caps[1], {})["units"]
    chosen_groups = selection.index
    drawn = noise_counts(
        mechanism,
        (cap, probe_cap),
        (exact["units"][chosen_groups], probe[chosen_groups]),
        {noise: exact[noise.name][chosen_groups] for noise in sums},
        entropy,
    )
    return noisy_counts(mechanism, chosen_groups, weights, norms, (cap, probe_cap), *drawn)


def count_stds(mechanism: AdaptiveGaussian, caps: tuple[float, float]) -> tuple[float, float]:
    """The noise on the main count and on the probe, once their caps are chosen."""
    cap, probe_cap = caps
    return up(mechanism.noise_std * math.sqrt(cap)), up(mechanism.probe_std * math.sqrt(probe_cap))


def noise_counts(
    mechanism: AdaptiveGaussian,
    caps: tuple[float, float],
    exact: tuple[Integers, Integers],
    sums: Mapping[SumNoise, Integers],
    entropy: Entropy | None = None,
) -> tuple[Integers, Integers, dict[str, Integers]]:
    """(main, probe, sums) of some of the selected groups with fresh noise: each group by itself."""
    main_std, probe_std = count_stds(mechanism, caps)
    size = len(exact[0])
    return (
        exact[0] + draw(main_std, LATTICE_BITS, size, entropy),
        exact[1] + draw(probe_std, LATTICE_BITS, size, entropy),
        {
            noise.name: steps
            + draw(up(math.ldexp(noise.std_steps * math.sqrt(caps[0]), noise.shift)), 0, size, entropy)
            for noise, steps in sums.items()
        },
    )


def noisy_counts(
    mechanism: AdaptiveGaussian,
    index: Integers,
    weights: Integers,
    norms: Norms,
    caps: tuple[float, float],
    main: Integers,
    probe: Integers,
    sums: Mapping[str, Integers],
) -> NoisyCounts:
    """What counting publishes, put together."""
    main_std, probe_std = count_stds(mechanism, caps)
    return NoisyCounts(index, weights, norms, *caps, main, probe, main_std, probe_std, sums)


def whole_cap(cap: float) -> int:
    """C in units of 4^-WEIGHT_BITS."""
    return int(cap * 4**WEIGHT_BITS)


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
    return noise_norms(mechanism, exact, float((spread.astype(np.float64) ** 2).sum()), entropy)


def noise_norms(mechanism: AdaptiveGaussian, exact: Integers, most_square: float, entropy: Entropy | None) -> Norms:
    """Noise on the buckets. most_square: the squares of all weights, which are public, added up: no unit can have more."""
    noisy = (exact << LATTICE_BITS) + draw(mechanism.histogram_std, LATTICE_BITS, len(exact), entropy)
    return norms_from(
        np.ldexp(noisy.astype(np.float64), -LATTICE_BITS),
        mechanism.histogram_std,
        most_square / ONE**2,
        mechanism.tuning,
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


CENTRES: Final = 2.0 ** (np.arange(-12, 29) / 2)
"""Half octaves of squared norms, from 1/64 to 2^14: a unit outside is put into the nearest."""

EDGES: Final = np.floor(2.0 ** ((np.arange(-12, 29) - 0.5) / 2) * 4**WEIGHT_BITS).astype(np.int64)
"""The buckets' lower ends as exact integers, in units of 4^-WEIGHT_BITS."""

CAPS: Final = 2.0 ** (np.arange(-8, 21) / 2)
"""The squared norms C to choose from: half octaves from 1/16 to `LARGEST_CAP`."""

assert CAPS[-1] == LARGEST_CAP


def kept_by(cap: float) -> Floats:
    """What clipping at C leaves of one unit of each bucket."""
    return np.asarray(np.minimum(CENTRES, np.sqrt(cap * CENTRES)))


@dataclass(frozen=True, slots=True, eq=False)
class Norms:
    """How many units have which squared norm: an estimate with its covariance, and the last bucket that is not tail."""

    units: Floats
    covariance: Floats
    last: int

    @property
    def total(self) -> float:
        """All counts together, weighted; at least 1."""
        return max(float(self.units @ CENTRES), 1.0)

    def lost(self, cap: float) -> tuple[float, float]:
        """What clipping at C takes from the total: by units below the tail, and by units of the tail."""
        lost = self.units * (CENTRES - kept_by(cap))
        return max(float(lost[: self.last + 1].sum()), 0.0), max(float(lost[self.last + 1 :].sum()), 0.0)

    def doubt(self, cap: float) -> float:
        """The standard deviation of what clipping at C takes."""
        lost = CENTRES - kept_by(cap)
        return math.sqrt(max(float(lost @ self.covariance @ lost), 0.0))

    def updated(self, caps: tuple[float, ...], totals: Floats, variances: Floats) -> Norms:
        """With noisy totals of counts clipped at these caps: the linear estimate of least variance."""
        kept = np.array([kept_by(cap) for cap in caps])
        spread = self.covariance @ kept.T
        gain = np.linalg.solve(kept @ spread + np.diag(variances), spread.T).T
        return replace(
            self, units=self.units + gain @ (totals - kept @ self.units), covariance=self.covariance - gain @ spread.T
        )


def norms_from(noisy: Floats, std: float, largest: float, tuning: Tuning) -> Norms:
    """From a noisy histogram. largest: a public bound on any unit's squared norm, all weights together."""
    possible = np.ldexp(EDGES.astype(np.float64), -2 * WEIGHT_BITS) <= largest
    possible[0] = True
    seen = possible & (noisy >= tuning.histogram_cut * std)
    last = int(np.flatnonzero(seen)[-1]) if seen.any() else int(np.argmax(np.where(possible, noisy, -np.inf)))
    steps = np.arange(len(noisy)) - last
    tail = possible & (steps > 0)
    expected = max(float(noisy[last]), std) * tuning.tail_decay ** np.maximum(steps, 0)
    believed = expected**2 + (tuning.tail_doubt * std) ** 2
    trust = np.where(tail, believed / (believed + std**2), 1.0)
    units = np.where(tail, expected + trust * (noisy - expected), np.where(seen, noisy, 0.0))
    return Norms(units, np.diag(np.where(possible, trust * std**2, 0.0)), last)
