"""Choosing a mechanism from how many groups units have: a noisy histogram of degrees, one public bucket per unit.

Where most units are in few groups, an election finds more of them than rounds of Gaussian noise; where they are in many, the
rounds do. Which is the case is a property of the data, so the choice is paid for: discrete Laplace noise with a small
share of epsilon on each bucket. What is chosen then runs with the rest of epsilon and the whole delta, and basic composition
of a pure mechanism with any other adds the two epsilons.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Final, TypeVar

import numpy as np
from numpy.typing import NDArray

from dphist.engines.base import Pairs
from dphist.mechanisms import GroupMechanism
from dphist.mechanisms.tuning import Tuning
from dphist.noise import DiscreteLaplace, sample
from dphist.planning import Plan, storage

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]
M = TypeVar("M", bound=GroupMechanism)

DEGREE_EDGES: Final = np.array([1, 2, 3, 4, 6, 8, 11, 16, 23, 32, 45, 64, 91, 128, 181, 256], np.int64)
"""The buckets' lower ends, half octaves. The last is open: uncapped, a few very heavy units would decide for all."""

DEGREE_CENTRES: Final = np.array([1, 2, 3, 4.9, 6.9, 9.4, 13.3, 19.2, 27.2, 38, 54, 76, 108, 152, 216, 300])

SMALL_NOISE: Final = 0.4
"""A standard deviation of counts, in units, below which their precision matters less and less: epsilon above 10."""

_DEFAULT: Final = Tuning()


def noisy_degrees(exact: Integers, epsilon: float, tuning: Tuning = _DEFAULT) -> Floats:
    """Discrete Laplace noise of scale 1/epsilon, rounded up, on each bucket; what is lost in the noise is set to 0."""
    scale = 1 / epsilon * (1 + 1e-15)
    noisy = (exact + sample(DiscreteLaplace(Fraction(scale)), len(exact))).astype(np.float64)
    return np.asarray(np.where(noisy < tuning.empty_below * math.sqrt(2) * scale, 0.0, noisy))


def most_releases(branches: Sequence[M], degrees: Floats) -> M:
    """The mechanism of which the degrees predict the most releases; the first where nothing can be told."""
    return max(branches, key=lambda mechanism: mechanism.predicted_releases(degrees, DEGREE_CENTRES))


def gain(mechanism: GroupMechanism, tuning: Tuning = _DEFAULT) -> float:
    """How many times as many groups as rounds a mechanism must be predicted to release: its counts may be less precise."""
    if not (mechanism.splits_epsilon and mechanism.counted):
        return 1.0
    return 1 + (tuning.election_gain - 1) * min(1.0, mechanism.noise_std / SMALL_NOISE)


def best_balance(branches: Sequence[M], degrees: Floats) -> M:
    """The same, but rounds unless an election shows many more groups."""
    return max(branches, key=lambda one: one.predicted_releases(degrees, DEGREE_CENTRES) / gain(one))


def decide(plan: Plan, pairs: Pairs) -> Plan:
    """The plan with the mechanism that the noisy histogram of degrees speaks for; unchanged if there is nothing to choose."""
    if not plan.request.choice_epsilon:
        return plan
    degrees = noisy_degrees(pairs.degree_histogram(DEGREE_EDGES), plan.request.choice_epsilon)
    choose = most_releases if plan.request.emphasis == "groups" else best_balance
    decided = plan.decided(choose(plan.branches, degrees))
    storage.check(decided.request, decided.mechanism, "the chosen branch of the plan")
    return decided
