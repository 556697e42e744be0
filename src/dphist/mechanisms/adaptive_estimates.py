"""From noisy clipped sums to counts with standard errors. Functions of published values alone: nothing here costs budget.

What is estimated is the number of units in the group, all of them, without any limit on a unit's groups. Clipping makes the
main count too small, by a factor that differs between groups. The probe, a second and noisier count that is hardly clipped,
tells how much: groups of similar size are compared in it and in the main count, and what differs from group to group beyond
the noise becomes part of the standard error.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dphist.mechanisms.adaptive_counting import LEFT_OF_PROBE_BIAS, NoisyCounts
from dphist.mechanisms.adaptive_selection import ONE
from dphist.mechanisms.adaptive_tuning import LATTICE_BITS

Floats = NDArray[np.float64]

GROUPS_PER_BIN = 40
MOST_BINS = 12
PRIOR_SPREAD = 0.1
"""How far, relatively, the correction of a size class is believed to be from the histogram's before the probe is looked at."""

LEAST_SPREAD = 0.01
"""Groups are never taken to be clipped more alike than this."""


@dataclass(frozen=True, slots=True, eq=False)
class Estimates:
    """Counts of units with standard errors; what each lattice step of the main sums stands for, and its relative doubt."""

    counts: Floats
    std_errors: Floats
    scale: Floats
    spread: Floats


def estimate(noisy: NoisyCounts) -> Estimates:
    """Correct, combine, and say how sure one can be."""
    if len(noisy.index) == 0:
        empty = np.zeros(0)
        return Estimates(empty, empty, empty, empty)
    a = noisy.weights / ONE
    main = np.ldexp(noisy.main.astype(np.float64), -LATTICE_BITS) / a
    probe_bias = noisy.norms.bias(noisy.probe_cap)
    probe = np.ldexp(noisy.probe.astype(np.float64), -LATTICE_BITS) / a / (1 - probe_bias)
    main_noise, probe_noise = noisy.main_std / a, noisy.probe_std / a / (1 - probe_bias)
    kept = _kept_part(main, probe, probe_noise, 1 - noisy.norms.bias(noisy.cap))
    first, first_noise = main / kept, main_noise / kept
    size = np.maximum(first, 1.0)
    spread = _spread(first - probe, first_noise**2 + probe_noise**2, size)
    one = first_noise**2 + (spread * size) ** 2
    two = probe_noise**2 + (LEAST_SPREAD * size) ** 2
    share = two / (one + two)
    counts = share * first + (1 - share) * probe
    doubt = (
        LEFT_OF_PROBE_BIAS * noisy.norms.most_bias(noisy.probe_cap) * size
    )  # common to both: neither helps the other
    return Estimates(
        counts=counts,
        std_errors=np.sqrt(one * two / (one + two) + doubt**2),
        scale=1 / (a * kept),
        spread=spread,
    )


def _kept_part(main: Floats, probe: Floats, probe_noise: Floats, believed: float) -> Floats:
    """The part of a group's count that clipping leaves, as a smooth function of its size.

    In each class of similar size sum main/sum probe, drawn towards the histogram's value where the probe is too noisy.
    """
    order = np.argsort(main, kind="stable")
    bins = np.array_split(order, int(np.clip(len(main) // GROUPS_PER_BIN, 1, MOST_BINS)))
    centres, parts = [], []
    for members in bins:
        total = max(float(main[members].sum()), 1.0)
        inverse = float(probe[members].sum()) / total
        doubt = float(np.sqrt((probe_noise[members] ** 2).sum())) / total
        prior = PRIOR_SPREAD / believed
        inverse = (inverse / doubt**2 + 1 / believed / prior**2) / (1 / doubt**2 + 1 / prior**2)
        centres.append(float(np.log(np.maximum(main[members], 1.0)).mean()))
        parts.append(1 / np.clip(inverse, 0.5, 50.0))
    return np.asarray(np.interp(np.log(np.maximum(main, 1.0)), centres, parts))


def _spread(difference: Floats, noise: Floats, size: Floats) -> Floats:
    """How much clipping differs between groups of one size, relatively: what the differences show beyond their noise."""
    order = np.argsort(size, kind="stable")
    bins = np.array_split(order, int(np.clip(len(size) // (2 * GROUPS_PER_BIN), 1, MOST_BINS // 2)))
    found = np.empty(len(size))
    for members in bins:
        trust = (size[members] / noise[members]) ** 2
        excess = (difference[members] ** 2 - noise[members]) * trust
        found[members] = max(float(excess.sum() / (size[members] ** 2 * trust).sum()), LEAST_SPREAD**2)
    return np.asarray(np.sqrt(found))
