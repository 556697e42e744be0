"""Bins of records, and noise of trees at the cost of counts: what tests of quantiles start from."""

import math
from fractions import Fraction

import numpy as np
from numpy.typing import ArrayLike

from dphist.aggregates.tree import Bins, Tree
from dphist.noise import DiscreteLaplace, RoundedGaussian


def bins_of_records(groups: int, group: ArrayLike, bins: ArrayLike, steps: ArrayLike) -> Bins:
    """Add up the steps of equal bins of equal groups, which are numbers below `groups`, in any order."""
    of, at, weight = (np.asarray(part, np.int64) for part in (group, bins, steps))
    order = np.lexsort((at, of))
    of, at, weight = of[order], at[order], weight[order]
    first = np.ones(len(of), np.bool_)
    first[1:] = (of[1:] != of[:-1]) | (at[1:] != at[:-1])
    starts = np.flatnonzero(first)
    added = np.add.reduceat(weight, starts) if len(starts) else weight
    return Bins(np.searchsorted(of[starts], np.arange(groups + 1)), at[starts], added)


def gaussian_law(tree: Tree, noise_std: float, weight: float = 1.0) -> RoundedGaussian:
    """The noise of each draw, rounded up, at the cost of counts with noise_std/sqrt(weight)."""
    std = noise_std * math.sqrt(tree.levels / weight) * (1 + 2.0**-48)
    return RoundedGaussian(Fraction(std) * tree.sensitivity_steps, 0)


def laplace_law(tree: Tree, scale: float, weight: float = 1.0) -> DiscreteLaplace:
    """The noise of each draw at the cost of counts with discrete Laplace noise of scale/weight. Exact."""
    return DiscreteLaplace(Fraction(scale) / Fraction(weight) * tree.levels * tree.sensitivity_steps)
