"""Independent probabilities and the chi-square test that the noise tests share. Nothing here uses the package's own tables."""

from __future__ import annotations

from fractions import Fraction
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from dphist.noise import DiscreteGaussian, DiscreteLaplace, Law, RoundedGaussian, TruncatedDiscreteLaplace

Floats: TypeAlias = NDArray[np.float64]

ALPHA = 1e-6
"""False alarms per test; a wrong scale must be rejected at the same level."""


def rescaled(law: Law, factor: Fraction) -> Law:
    """The same law with its scale multiplied: what a sampler with a wrong scale would draw."""
    if isinstance(law, RoundedGaussian):
        return RoundedGaussian(law.std * factor, law.lattice_bits)
    if isinstance(law, DiscreteGaussian):
        return DiscreteGaussian(law.variance * factor**2)
    if isinstance(law, DiscreteLaplace):
        return DiscreteLaplace(law.scale * factor)
    return TruncatedDiscreteLaplace(law.epsilon / factor, law.q)


def distribution_function(law: Law, x: Floats) -> Floats:
    """Pr[Z ≤ x] for whole x, to ten digits or so."""
    if isinstance(law, RoundedGaussian):
        return np.asarray(stats.norm.cdf((x + 0.5) / float(law.lattice_std)))
    if isinstance(law, DiscreteLaplace):
        rate = float(1 / law.scale)
        tail: Floats = np.exp(-rate * (np.abs(x) + np.where(x < 0, 0.0, 1.0))) / (1 + np.exp(-rate))
        return np.asarray(np.where(x < 0, tail, 1 - tail))
    if isinstance(law, DiscreteGaussian) and law.variance > 10**8:
        return np.asarray(stats.norm.cdf((x + 0.5) / np.sqrt(float(law.variance))))
    if isinstance(law, DiscreteGaussian):
        reach = int(20 * np.sqrt(float(law.variance))) + 20
        first, weights = -reach, np.exp(-(np.arange(-reach, reach + 1.0) ** 2) / (2 * float(law.variance)))
    else:
        j = np.arange(law.q + 1.0)
        distance = law.q // 2 - np.minimum(j, law.q - j)
        first, weights = -law.q, np.exp(-float(law.epsilon) * distance)
    cumulative = np.concatenate([[0.0], np.cumsum(weights) / weights.sum()])
    return np.asarray(cumulative[np.clip(x - first + 1, 0, weights.size).astype(np.int64)])


def chi_square_p_value(samples: NDArray[np.int64], law: Law, bins: int = 200) -> float:
    """The p-value of Pearson's test of the samples against the law, in bins of about equal probability."""
    edges = np.unique(np.quantile(samples, np.arange(1, bins) / bins, method="inverted_cdf")).astype(np.float64)
    cumulative = np.concatenate([[0.0], distribution_function(law, edges), [1.0]])
    expected = np.diff(cumulative) * samples.size
    observed = np.bincount(np.searchsorted(edges, samples, side="left"), minlength=expected.size)
    # Join bins that are too thin for the chi-square approximation to their neighbours.
    keep = np.concatenate([[0], 1 + np.flatnonzero(np.diff(np.cumsum(expected) // 25))])
    expected, observed = np.add.reduceat(expected, keep), np.add.reduceat(observed, keep)
    if expected.size < 2:
        return float(observed.sum() == samples.size)
    statistic = float(np.sum((observed - expected) ** 2 / np.maximum(expected, 1e-9)))
    return float(stats.chi2.sf(statistic, expected.size - 1))
