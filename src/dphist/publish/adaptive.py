"""The adaptive release: from the pairs of an engine to columns, and the choice of a law from the data."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from dphist.engines.memory import Integers, Pairs
from dphist.mechanisms import AdaptiveGaussian, LaplaceThreshold, SparseGaussian
from dphist.mechanisms.tuning import LATTICE_BITS
from dphist.noise import Entropy
from dphist.planning import Plan, storage
from dphist.planning.aggregates import AggregateNoise, sum_noise
from dphist.publish.table import Column, Floats
from dphist.selection.choice import DEGREE_EDGES, choose, noisy_degrees
from dphist.selection.counting import NoisyCounts, SumNoise, count
from dphist.selection.estimates import Estimates, estimate
from dphist.selection.rounds import ONE, select


class Degrees(Protocol):
    """Pairs that can tell how many groups units have."""

    def degree_histogram(self, edges: Integers) -> Integers:
        """How many units have a number of groups in [edges_k, edges_k+1); above the last, the last."""
        ...


def decide(plan: Plan, table: Degrees, entropy: Entropy | None = None) -> Plan:
    """The plan with the mechanism that the noisy histogram of degrees speaks for; unchanged if there is nothing to choose."""
    if not plan.request.undecided:
        return plan
    branches = [
        mechanism
        for mechanism in (plan.mechanism, *plan.alternatives)
        if isinstance(mechanism, AdaptiveGaussian | SparseGaussian | LaplaceThreshold)
    ]
    degrees = noisy_degrees(table.degree_histogram(DEGREE_EDGES), plan.request.choice_epsilon, entropy)
    decided = plan.decided(choose(branches, degrees))
    storage.check(decided.request, decided.mechanism, "the chosen branch of the plan")
    return decided


@dataclass(frozen=True, slots=True, eq=False)
class Counted:
    """The selected groups by their codes, and the columns to publish for them."""

    index: Integers
    columns: Sequence[Column]


def run_rounds(plan: Plan, mechanism: AdaptiveGaussian, pairs: Pairs, entropy: Entropy | None = None) -> Counted:
    """Select, count, estimate."""
    sums = tuple(sum_noise(noisy) for noisy in plan.aggregates)
    noisy = count(mechanism, pairs, select(mechanism, pairs, entropy), sums, entropy)
    return Counted(noisy.index, estimated_columns(plan, mechanism, noisy))


def estimated_columns(plan: Plan, mechanism: AdaptiveGaussian, noisy: NoisyCounts) -> list[Column]:
    """The count and every aggregate, from published values alone."""
    sums = tuple(sum_noise(noisy_sum) for noisy_sum in plan.aggregates)
    found = estimate(noisy, mechanism.tuning)
    columns = [Column("count", found.counts, (found.std_errors,))]
    for part, aggregate in zip(sums, plan.aggregates, strict=True):
        build = _mean if aggregate.aggregate.kind == "mean" else _sum
        columns.append(build(aggregate, part, noisy, found))
    return columns


def _values(aggregate: AggregateNoise, part: SumNoise, noisy: NoisyCounts) -> tuple[Floats, float]:
    """Noisy recentred sums of clipped and weighted values, and their noise, in the units of the column."""
    step = math.ldexp(aggregate.aggregate.step, -part.shift)
    return noisy.sums[part.name].astype(np.float64) * step, aggregate.noise_std * math.sqrt(noisy.cap)


def _sum(aggregate: AggregateNoise, part: SumNoise, noisy: NoisyCounts, found: Estimates) -> Column:
    """The recentred sum, corrected for clipping like the count, plus the centre for each unit."""
    values, std = _values(aggregate, part, noisy)
    recentred, centre = values * found.scale, aggregate.aggregate.centre
    noises = (std * found.scale, np.abs(recentred) * found.spread, abs(centre) * found.std_errors)
    return Column(part.name, recentred + centre * found.counts, noises)


def _mean(aggregate: AggregateNoise, part: SumNoise, noisy: NoisyCounts, found: Estimates) -> Column:
    """centre + sum/count of the same clipped units, in which the clipping cancels; to first order in the noise."""
    values, std = _values(aggregate, part, noisy)
    least = np.maximum(noisy.weights / ONE, 1e-3)
    units = np.maximum(np.ldexp(noisy.main.astype(np.float64), -LATTICE_BITS), least)
    lower, upper, centre = aggregate.aggregate.lower, aggregate.aggregate.upper, aggregate.aggregate.centre
    means = np.clip(centre + values / units, lower, upper)
    return Column(part.name, means, (std / units, np.abs(means - centre) * noisy.main_std / units))
