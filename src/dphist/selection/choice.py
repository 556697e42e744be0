"""Choosing a mechanism from how many groups units have: a noisy histogram of degrees, one public bucket per unit.

Where most units are in one group, Laplace noise releases more groups than any Gaussian; where they are in many, the adaptive
release does. Which is the case is a property of the data, so the choice is paid for: discrete Laplace noise with a small
share of epsilon on each bucket. What is chosen then runs with the rest of epsilon and the whole delta, and basic composition
of a pure mechanism with any other adds the two epsilons.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Final, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from dphist.mechanisms.adaptive import AdaptiveGaussian
from dphist.mechanisms.laplace import LaplaceThreshold
from dphist.mechanisms.sparse_gaussian import SparseGaussian
from dphist.mechanisms.tuning import Tuning
from dphist.noise import DiscreteLaplace, Entropy, sample

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]
Branch: TypeAlias = AdaptiveGaussian | SparseGaussian | LaplaceThreshold
B = TypeVar("B", bound=Branch)

DEGREE_EDGES: Final = np.array([1, 2, 3, 4, 6, 8, 11, 16, 23, 32, 45, 64, 91, 128, 181, 256], np.int64)
"""The buckets' lower ends, half octaves. The last is open: uncapped, a few very heavy units would decide for all."""

_CENTRES: Final = np.array([1, 2, 3, 4.9, 6.9, 9.4, 13.3, 19.2, 27.2, 38, 54, 76, 108, 152, 216, 300])

_DEFAULT: Final = Tuning()


def noisy_degrees(exact: Integers, epsilon: float, entropy: Entropy | None = None, tuning: Tuning = _DEFAULT) -> Floats:
    """Discrete Laplace noise of scale 1/epsilon, rounded up, on each bucket; what is lost in the noise is set to 0."""
    scale = 1 / epsilon * (1 + 1e-15)
    noisy = (exact + sample(DiscreteLaplace(Fraction(scale)), len(exact), entropy)).astype(np.float64)
    return np.asarray(np.where(noisy < tuning.empty_below * math.sqrt(2) * scale, 0.0, noisy))


def predicted_releases(mechanism: Branch, degrees: Floats) -> float:
    """A number that grows with how many groups a mechanism would release: all contributions over the size that is released.

    Exact for counts that fall like 1/rank, where it is the number of groups itself, up to a factor that all share.
    """
    if isinstance(mechanism, AdaptiveGaussian):
        contributions = np.minimum(_CENTRES, mechanism.max_groups) ** mechanism.tuning.moved_weight
    else:
        contributions = np.minimum(_CENTRES, mechanism.max_groups)
    return float((degrees * contributions).sum()) / mechanism.count_released_with(0.5)


def choose(branches: Sequence[B], degrees: Floats) -> B:
    """The branch with the most predicted releases; the first where nothing can be told."""
    return max(branches, key=lambda mechanism: predicted_releases(mechanism, degrees))
