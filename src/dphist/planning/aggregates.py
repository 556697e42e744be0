"""The noise of sums, means and numbers of records, and whether a mechanism has paid for it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from dphist.mechanisms import (
    AdaptiveGaussian,
    DiscreteCorrelatedGaussian,
    DiscreteGaussianThreshold,
    LaplaceThreshold,
    Mechanism,
)
from dphist.planning.request import Aggregate, Request
from dphist.selection.counting import SumNoise, require_room

UP = 1 + 2.0**-48
"""Past the rounding of a few floating-point operations and of a sum of sixteen weights."""


@dataclass(frozen=True, slots=True)
class AggregateNoise:
    """What a release does to one aggregate: its noise, and the lattice its sums live on."""

    aggregate: Aggregate
    noise_std: float


def aggregate_noise(request: Request, mechanism: Mechanism) -> tuple[AggregateNoise, ...]:
    """The noise of every aggregate: the count's noise is split by the weights, balanced by default.

    Gaussian budgets add up in squares: noise/sensitivity = noise_std of the count/sqrt(weight), rounded up. Laplace budgets
    add up linearly: noise scale/sensitivity = scale/weight, which a release draws exactly.
    """
    if isinstance(mechanism, LaplaceThreshold):
        scale = mechanism.scale
        return tuple(AggregateNoise(a, math.sqrt(2) * scale * a.sensitivity / a.weight) for a in request.aggregates)
    noise_std = mechanism.noise_std
    return tuple(AggregateNoise(a, noise_std * a.sensitivity / math.sqrt(a.weight) * UP) for a in request.aggregates)


def covers_aggregates(request: Request, mechanism: Mechanism) -> bool:
    """Whether the sensitivity in the mechanism is at least that of the aggregates with the noise drawn on them. Exact."""
    if isinstance(mechanism, LaplaceThreshold):  # what is missing from a pure epsilon is added to delta
        spent = sum(Fraction(aggregate.weight) for aggregate in request.aggregates) / Fraction(mechanism.scale)
        return Fraction(mechanism.sums_epsilon) >= spent
    if isinstance(mechanism, DiscreteGaussianThreshold | DiscreteCorrelatedGaussian):
        return not request.aggregates
    moved = sum(
        (Fraction(noisy.aggregate.sensitivity) / Fraction(noisy.noise_std)) ** 2
        for noisy in aggregate_noise(request, mechanism)
    )
    return Fraction(mechanism.sums_sensitivity) ** 2 >= moved


def sum_noise(noisy: AggregateNoise) -> SumNoise:
    """What the adaptive release draws on an aggregate for a unit norm of 1, in its steps."""
    aggregate = noisy.aggregate
    return SumNoise(aggregate.name, aggregate.sensitivity_steps, noisy.noise_std / aggregate.step)


def require_drawable(request: Request, mechanism: AdaptiveGaussian) -> None:
    """Refuse, before any data is read, noise that could leave the range of the sampler."""
    require_room(mechanism, [sum_noise(noisy) for noisy in aggregate_noise(request, mechanism)])
