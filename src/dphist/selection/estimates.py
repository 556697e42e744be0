"""From noisy clipped sums to counts with standard errors. Functions of published values alone: nothing here costs budget.

What is estimated is the number of units in the group, all of them, without any limit on a unit's groups. Clipping makes the
main count too small, by a factor that differs between groups. How much is lost in all is known from the histogram of norms;
how it spreads over groups is modelled, and then measured: groups of similar size are compared in the main count and in the
probe, a second and noisier count that is clipped less. What differs from group to group beyond the noise, and what the
histogram may have missed, become part of the standard error.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dphist.aggregates import Column, NoisyAggregate, NoisySum
from dphist.mechanisms.adaptive import AdaptiveGaussian, sum_shift
from dphist.mechanisms.tuning import LATTICE_BITS, ONE, Tuning
from dphist.selection.counting import NoisyCounts, Norms

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Estimates:
    """Counts of units with standard errors; what each lattice step of the main sums stands for, and its relative doubt."""

    counts: Floats
    std_errors: Floats
    scale: Floats
    spread: Floats


def estimated_columns(
    mechanism: AdaptiveGaussian, aggregates: Sequence[NoisyAggregate], noisy: NoisyCounts
) -> list[Column]:
    """The count and every aggregate, from published values alone.

    A sum is corrected for clipping like the count. In a mean, sum and count of the same clipped units, the clipping cancels.
    """
    estimates = estimate(noisy, mechanism.tuning)
    columns = [Column("count", estimates.counts, (estimates.std_errors,))]
    least = np.maximum(noisy.weights / ONE, 1e-3)
    clipped = np.maximum(np.ldexp(noisy.main.astype(np.float64), -LATTICE_BITS), least)
    for aggregate in aggregates:
        step = math.ldexp(aggregate.aggregate.step, -sum_shift(aggregate.aggregate))
        values = noisy.sums[aggregate.name].astype(np.float64) * step
        std = np.full(len(values), aggregate.noise_std * math.sqrt(noisy.caps[0]))
        recentred = values * estimates.scale
        noises = (std * estimates.scale, np.abs(recentred) * estimates.spread)
        total = NoisySum(recentred, noises, estimates.counts, estimates.std_errors)
        columns.append(aggregate.column(total, NoisySum(values, (std,), clipped, noisy.stds[0])))
    return columns


def estimate(noisy: NoisyCounts, tuning: Tuning) -> Estimates:
    """Correct, combine, and say how sure one can be."""
    if len(noisy.weights) == 0:
        empty = np.zeros(0)
        return Estimates(empty, empty, empty, empty)
    a = noisy.weights / ONE
    main = np.ldexp(noisy.main.astype(np.float64), -LATTICE_BITS) / a
    probe = np.ldexp(noisy.probe.astype(np.float64), -LATTICE_BITS) / a
    norms = _with_totals(noisy, a, main, probe, tuning)
    at_main = _correct(main, main, a, noisy.caps[0], norms, tuning)
    at_probe = _correct(probe, main, a, noisy.caps[1], norms, tuning)
    believed = np.maximum(at_main.counts, 1.0) / np.maximum(main, 1.0)
    probe, probe_noise = at_probe.counts, noisy.stds[1] / a / at_probe.alone
    scale = believed * _by_class(main, probe, probe_noise, believed, tuning)
    first, first_noise = main * scale, noisy.stds[0] / a * scale
    size = np.maximum(first, 1.0)
    spread = _spread(first - probe, first_noise**2 + probe_noise**2, size, tuning)
    one = first_noise**2 + (spread * size) ** 2
    two = probe_noise**2 + (tuning.least_spread * size) ** 2
    share = two / (one + two)
    return Estimates(
        counts=share * first + (1 - share) * probe,
        std_errors=np.sqrt(
            one * two / (one + two) + at_probe.doubt**2
        ),  # a doubt common to both: neither helps the other
        scale=scale / a,
        spread=np.hypot(spread, at_probe.doubt / size),
    )


def _with_totals(noisy: NoisyCounts, a: Floats, main: Floats, probe: Floats, tuning: Tuning) -> Norms:
    """sum_i a_i y_i is the sum over units of what clipping leaves of A: two more looks at the histogram."""
    totals = np.array([(a**2 * main).sum(), (a**2 * probe).sum()])
    variances = np.array(noisy.stds) ** 2 * (a**2).sum() + (tuning.bucket_error * totals) ** 2
    return noisy.norms.updated(noisy.caps, totals, variances)


@dataclass(frozen=True, slots=True, eq=False)
class _Corrected:
    """Counts with what clipping took put back, the doubt about it, and what it leaves of a unit in one group alone."""

    counts: Floats
    doubt: Floats
    alone: Floats


def _correct(counts: Floats, main: Floats, a: Floats, cap: float, norms: Norms, tuning: Tuning) -> _Corrected:
    """What the histogram says is lost, spread over the groups.

    Every unit of a group has a norm of at least a, so min(1, sqrt(C)/a) is certain; the rest grows with a power of the size.
    The doubt takes the larger of two spreads, by that power and in proportion to the size.
    """
    alone = np.minimum(1.0, np.sqrt(cap) / a)
    certain = counts / alone
    sizes = np.maximum(main / alone, 1.0)

    def over_groups(power: float) -> Floats:
        return np.asarray(sizes**power / (a**2 * sizes**power).sum())

    seen, tail = norms.lost(cap)
    seen = max(seen - float((a**2 * (certain - counts)).sum()), 0.0)
    even = over_groups(tuning.tail_power)
    doubt = np.hypot(norms.doubt(cap), tuning.left_of_correction * (seen + tail))
    return _Corrected(
        counts=certain + seen * over_groups(tuning.clipped_power) + tail * even,
        doubt=doubt * np.maximum(even, over_groups(1.0)),
        alone=alone,
    )


def _by_class(main: Floats, probe: Floats, probe_noise: Floats, believed: Floats, tuning: Tuning) -> Floats:
    """By how much the probe differs from the believed correction, as a smooth function of a group's size.

    In each class of similar size sum probe/sum main, drawn towards what is believed where the probe is too noisy.
    """
    order = np.argsort(main, kind="stable")
    classes = int(np.clip(len(main) // tuning.groups_per_class, 1, tuning.most_classes))
    sizes = np.maximum(main, 1.0)
    centres, ratios = [], []
    for members in np.array_split(order, classes):
        total = max(float(main[members].sum()), 1.0)
        prior = float((sizes * believed)[members].sum() / sizes[members].sum())
        seen, seen_trust = float(probe[members].sum()) / total, total**2 / float((probe_noise[members] ** 2).sum())
        prior_trust = (tuning.class_spread * prior) ** -2
        found = (seen * seen_trust + prior * prior_trust) / (seen_trust + prior_trust)
        centres.append(float(np.log(sizes[members]).mean()))
        ratios.append(np.clip(found, 0.5, 50.0) / prior)
    return np.asarray(np.interp(np.log(sizes), centres, ratios))


def _spread(difference: Floats, noise: Floats, size: Floats, tuning: Tuning) -> Floats:
    """How much clipping differs between groups of one size, relatively: what the differences show beyond their noise."""
    order = np.argsort(size, kind="stable")
    classes = int(np.clip(len(size) // (4 * tuning.groups_per_class), 1, tuning.most_classes // 2 or 1))
    found = np.empty(len(size))
    for members in np.array_split(order, classes):
        trust = (size[members] / noise[members]) ** 2
        excess = (difference[members] ** 2 - noise[members]) * trust
        least = tuning.least_spread**2
        found[members] = max(float(excess.sum() / (size[members] ** 2 * trust).sum()), least)
    return np.asarray(np.sqrt(found))
