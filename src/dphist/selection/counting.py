"""Counting the selected groups, whose keys are public by now: no threshold, all of a unit's records in them.

A unit in many selected groups would be counted with a large norm. Its weights are scaled down to a norm of at most sqrt(C),
C chosen from a private histogram of the units' norms; large groups, which can afford it, get smaller weights from the start.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Final

import numpy as np
from numpy.typing import NDArray

from dphist.aggregates import NoisyAggregate
from dphist.engines.base import Arrays, Groups, Integers, OnGroups, Rows, SampledPairs
from dphist.mechanisms.adaptive import AdaptiveGaussian, sum_shift
from dphist.mechanisms.tuning import LARGEST_CAP, LATTICE_BITS, ONE, WEIGHT_BITS, Tuning
from dphist.noise import Entropy, RoundedGaussian, sample

Floats = NDArray[np.float64]
Caps = tuple[float, float]

NOTHING_SELECTED: Final[Caps] = (1.0, 4.0)


@dataclass(frozen=True, slots=True, eq=False)
class NoisyCounts:
    """What counting publishes of all selected groups: weights, norms, the caps chosen, noisy sums in lattice steps.

    Holds no true value.
    """

    weights: Integers
    norms: Norms
    caps: Caps
    main: Integers
    probe: Integers
    stds: tuple[float, float]
    sums: Mapping[str, Integers] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, eq=False)
class Clipping:
    """What is known of the units' norms, and the caps that were chosen. Public by then."""

    norms: Norms
    caps: Caps

    def noisy_counts(self, mechanism: AdaptiveGaussian, names: Sequence[str], groups: Arrays) -> NoisyCounts:
        """The noisy numbers of all groups, as estimates need them."""
        sums = {name: groups[f"steps_{i}"] for i, name in enumerate(names, 1)}
        stds = count_stds(mechanism, self.caps)
        return NoisyCounts(groups["weight"], self.norms, self.caps, groups["main"], groups["probe"], stds, sums)


def count(
    mechanism: AdaptiveGaussian,
    pairs: SampledPairs,
    selected: Groups,
    aggregates: Sequence[NoisyAggregate] = (),
    entropy: Entropy | None = None,
) -> tuple[Groups, Clipping]:
    """Histogram of norms, choice of C, noisy clipped counts and sums."""
    weights = selected.together(weigh_groups(mechanism), ("first", "weight", "square"))
    exact = pairs.norm_histogram(weights, EDGES)
    norms = noise_norms(mechanism, exact, float(weights.sum_of("square")), entropy)
    caps = weights.answer(lambda groups: choose_caps(mechanism, norms, groups["weight"], _first_sums(groups)))
    caps = NOTHING_SELECTED if caps is None else caps
    shifts = [sum_shift(noisy.aggregate) for noisy in aggregates]
    clipped = pairs.clipped(weights, (whole_cap(caps[0]), whole_cap(caps[1])), shifts)
    names = ["weight", "main", "probe", *(f"steps_{i}" for i in range(1, len(shifts) + 1))]
    return clipped.each(noise_clipped(mechanism, caps, aggregates, entropy), names, entropy), Clipping(norms, caps)


def weigh_groups(mechanism: AdaptiveGaussian) -> OnGroups:
    """The weights of the selected groups in the counts, from their noisy sums of round 1; and their squares."""

    def weigh(groups: Arrays) -> Rows:
        weights = group_weights(_first_sums(groups), mechanism.tuning)
        columns = {"first": groups["first"], "weight": weights, "square": weights * weights}
        return Rows(np.arange(len(weights)), columns)

    return weigh


def noise_clipped(
    mechanism: AdaptiveGaussian, caps: Caps, aggregates: Sequence[NoisyAggregate], entropy: Entropy | None
) -> OnGroups:
    """Fresh noise on the clipped counts and sums of some of the selected groups: each group by itself."""

    def add_noise_to_counts(groups: Arrays) -> Rows:
        size = len(groups["main"])
        main_std, probe_std = count_stds(mechanism, caps)
        columns = {
            "weight": groups["weight"],
            "main": groups["main"] + draw(main_std, LATTICE_BITS, size, entropy),
            "probe": groups["probe"] + draw(probe_std, LATTICE_BITS, size, entropy),
        }
        for position, noisy in enumerate(aggregates, 1):
            steps = groups[f"steps_{position}"]
            columns[f"steps_{position}"] = steps + sample(mechanism.clipped_law(noisy, caps[0]), size, entropy)
        return Rows(np.arange(size), columns)

    return add_noise_to_counts


def count_stds(mechanism: AdaptiveGaussian, caps: Caps) -> tuple[float, float]:
    """The noise on the main count and on the probe, once their caps are chosen; past the rounding of the products."""
    up = 1 + 1e-14
    return mechanism.noise_std * math.sqrt(caps[0]) * up, mechanism.probe_std * math.sqrt(caps[1]) * up


def whole_cap(cap: float) -> int:
    """C in units of 4^-WEIGHT_BITS."""
    return int(cap * 4**WEIGHT_BITS)


def draw(std: float, bits: int, size: int, entropy: Entropy | None) -> Integers:
    """Fresh rounded Gaussian noise."""
    return sample(RoundedGaussian(Fraction(std), bits), size, entropy)


def _first_sums(groups: Arrays) -> Floats:
    return np.ldexp(groups["first"].astype(np.float64), -LATTICE_BITS)


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


def noise_norms(mechanism: AdaptiveGaussian, exact: Integers, most_square: float, entropy: Entropy | None) -> Norms:
    """Noise on the buckets: each unit is in one public bucket, so one unit changes one of them by one.

    most_square: the squares of all weights, which are public, added up: no unit can have more.
    """
    noisy = (exact << LATTICE_BITS) + draw(mechanism.histogram_std, LATTICE_BITS, len(exact), entropy)
    return norms_from(
        np.ldexp(noisy.astype(np.float64), -LATTICE_BITS),
        mechanism.histogram_std,
        most_square / ONE**2,
        mechanism.tuning,
    )


def choose_caps(mechanism: AdaptiveGaussian, norms: Norms, weights: Integers, first_sums: Floats) -> Caps:
    """(C, C of the probe): the smallest predicted median error, and the smallest one in the better groups, as the probe helps
    most where groups are large. From private outputs.
    """
    if len(weights) == 0:
        return NOTHING_SELECTED
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
