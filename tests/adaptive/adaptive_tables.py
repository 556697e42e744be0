"""Small tables of pairs, and ways to look at everything that a run gives away."""

import numpy as np
from numpy.typing import NDArray

from dphist.engines.memory import MemoryPairs
from dphist.mechanisms.adaptive import AdaptiveGaussian
from dphist.mechanisms.tuning import Tuning


def table(rows: list[tuple[int, int]], groups: int, units: int | None = None) -> MemoryPairs:
    """Pairs (unit, group), all of them sampled."""
    pairs = np.array(sorted(set(rows)), np.int32).reshape(-1, 2)
    return MemoryPairs(pairs[:, 0].copy(), pairs[:, 1].copy(), units or int(pairs[:, 0].max()) + 1, groups)


def loose(threshold: float = 3.0, *, groups: int = 8, std: float = 2.0) -> AdaptiveGaussian:
    """A mechanism with deltas so large that a simulation sees them."""
    tuning = Tuning(most_groups=groups)
    stds = tuple(std / share**0.5 for share in tuning.fractions)
    return AdaptiveGaussian(stds, threshold, 4.0, 2.5, 5.0, tuning=tuning)


def zipf(
    units: int, groups: int, mean_degree: float, seed: int, slope: float = 1.0, very_heavy: int = 0
) -> MemoryPairs:
    """Random pairs: lognormal degrees, some units in hundreds of groups, group sizes falling with their rank."""
    rng = np.random.default_rng(seed)
    weights = np.arange(1, groups + 1.0) ** -slope
    degrees = np.ceil(rng.lognormal(np.log(mean_degree), 0.8, units)).astype(np.int64)
    degrees[:very_heavy] = rng.integers(100, 600, very_heavy)
    unit = np.repeat(np.arange(units), degrees)
    group = np.searchsorted(np.cumsum(weights) / weights.sum(), rng.random(len(unit))).clip(max=groups - 1)
    pairs = np.unique(unit * groups + group)
    return MemoryPairs((pairs // groups).astype(np.int32), (pairs % groups).astype(np.int32), units, groups)


def true_counts(pairs: MemoryPairs) -> NDArray[np.int64]:
    return np.bincount(pairs.group, minlength=pairs.groups).astype(np.int64)
