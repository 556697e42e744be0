"""How large a group must be for its mean, variance or quantile to say something: by the errors that a release would state.

The plan alone tells it: noise is drawn on sums, whatever the group, and divided by the number of units with a value.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping
from typing import Final

import numpy as np

from dphist.aggregates.base import Aggregate
from dphist.aggregates.measures import NoisyMeasure, NoisySum
from dphist.aggregates.tree import Bins, noisy_quantiles
from dphist.noise import DiscreteLaplace, RoundedGaussian
from dphist.words import enough

PRECISE: Final = 0.25
"""Of half the range of a value: what the plan tells the size of a group for."""

_FAR: Final = 2**30


def sizes_in_words(aggregate: Aggregate, noisy: Mapping[str, NoisyMeasure], count_std: float) -> str:
    """From how many units on an aggregate is published, and is precise; nothing of one that no bounds limit."""
    if aggregate.span is None or aggregate.chosen == "nothing":
        return ""
    published, precise = (enough(units_for(aggregate, noisy, count_std, share)) for share in (2 * 12**-0.5, PRECISE))
    return (
        f"; if values lie evenly between the bounds, groups of fewer than about {published} units with a value have none of it,"
        f" and from {precise} on its standard error is below {PRECISE * 100:.0f} % of half its range"
    )


def units_for(aggregate: Aggregate, noisy: Mapping[str, NoisyMeasure], count_std: float, share: float) -> int:
    """The least number of units, each with one value, at which the stated error is at most this share of half the range.

    The values lie evenly between the bounds; of several quantiles the worst counts.
    """
    low, high = aggregate.span or aggregate.bounds
    most = share * (high - low) / 2

    def is_enough(units: int) -> bool:
        return _error(aggregate, noisy, count_std, units) <= most

    return 1 + bisect_left(range(1, _FAR), True, key=is_enough)


def _error(aggregate: Aggregate, noisy: Mapping[str, NoisyMeasure], count_std: float, units: int) -> float:
    """The standard error that so many even values get where no noise has moved anything."""
    if aggregate.kind == "quantile":
        (measure,) = aggregate.measures
        tree, law = measure.tree, noisy[measure.name].law
        assert isinstance(law, RoundedGaussian | DiscreteLaplace)
        ends = np.arange((1 << tree.height) + 1)
        even = Bins(ends[[0, -1]], ends[:-1], np.diff(ends * (units << tree.step_bits) >> tree.height))
        found = noisy_quantiles(even, tree, law, aggregate.probabilities, perturb=lambda steps, law: steps)
        return float(found.std_errors.max())
    half = (aggregate.bounds[1] - aggregate.bounds[0]) / 2
    sums = {}
    for measure in aggregate.measures:  # deviations from the middle cancel each other
        mean = {"mean": 0.0, "deviation": 0.0, "square": half**2 / 3 - measure.centre}.get(
            measure.kind, 1 - measure.centre
        )
        one = noisy[measure.name]
        part = NoisySum(np.array([units * mean]), (np.array([one.noise_std]),), np.array([float(units)]), count_std)
        sums[measure.name] = one, part
    (column,) = aggregate.columns(sums)
    return float(column.std_errors[0])
