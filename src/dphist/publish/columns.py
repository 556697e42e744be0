"""The columns of a release: noisy values, their standard errors, intervals. Functions of noisy values and the plan alone."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from dphist.mechanisms import LaplaceThreshold
from dphist.planning import Plan
from dphist.planning.request import Aggregate

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Column:
    """Noisy values with their standard errors, and the factors with which each independent noise enters their error."""

    name: str
    values: Floats
    noises: tuple[Floats, ...]

    @property
    def std_errors(self) -> Floats:
        """Independent noises add up in squares."""
        return np.asarray(np.sqrt(sum(noise**2 for noise in self.noises)))


def columns(plan: Plan, counts: Floats, sums: Mapping[str, Integers]) -> list[Column]:
    """The count and every aggregate of the plan, from noisy counts and noisy recentred sums."""
    count_std = np.full(len(counts), plan.mechanism.noise_std)
    found = [Column("count", counts, (count_std,))]
    for noisy in plan.aggregates:
        recentred = np.asarray(sums[noisy.aggregate.name] * noisy.aggregate.step, np.float64)
        std = np.full(len(counts), noisy.noise_std)
        build = _mean if noisy.aggregate.kind == "mean" else _sum
        found.append(build(noisy.aggregate, recentred, std, counts, count_std))
    return found


def _sum(aggregate: Aggregate, recentred: Floats, std: Floats, counts: Floats, count_std: Floats) -> Column:
    """recentred + centre * count: the noise of the count enters with the centre."""
    values = recentred + aggregate.centre * counts
    return Column(aggregate.name, values, (std, abs(aggregate.centre) * count_std))


def _mean(aggregate: Aggregate, recentred: Floats, std: Floats, counts: Floats, count_std: Floats) -> Column:
    """centre + recentred/count, cut to the bounds; the standard error to first order in the noise.

    A count below one (only groups of a public list can have one) is taken as one.
    """
    size = np.maximum(counts, 1.0)
    values = np.clip(aggregate.centre + recentred / size, aggregate.lower, aggregate.upper)
    return Column(aggregate.name, values, (std / size, np.abs(values - aggregate.centre) * count_std / size))


def interval(plan: Plan, column: Column, level: float) -> tuple[Floats, Floats]:
    """Bounds that cover the value before noise with at least this probability (means: to first order).

    Gaussian noise: the normal quantile of the standard error. Laplace noise of scale b exceeds b ln(1/miss) with probability
    at most `miss`; several noises share it equally, and their quantiles add up. Discrete noise is rounded outwards by one step.
    """
    if isinstance(plan.mechanism, LaplaceThreshold):
        quantile = math.log(len(column.noises) / (1 - level)) / math.sqrt(2)
        per_std = (
            quantile * plan.mechanism.scale * math.sqrt(2) / plan.mechanism.noise_std + 1 / plan.mechanism.noise_std
        )
        reach: Floats = sum(column.noises, np.zeros(len(column.values))) * per_std
    else:
        reach = column.std_errors * float(ndtri(0.5 + level / 2))
    return column.values - reach, column.values + reach
