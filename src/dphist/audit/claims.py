"""Every claim of the product: one row per mechanism and analysis, with parameters small enough to be attacked.

Deltas are large on purpose. A formula that is right is right for every delta, and only a large one can be seen in a sample.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction
from functools import cache

from dphist.audit.claim_parts import of_correlated, of_counts
from dphist.audit.claims_of_counts import (
    SPARSE,
    correlated_gaussian,
    discrete,
    known_groups,
    laplace,
    records,
    sketches,
    sparse_gaussian,
)
from dphist.audit.claims_of_lists import adaptive, of_bars, of_largest, of_stream, of_top, streams, top_k, truncated
from dphist.audit.findings import Claim
from dphist.mechanisms import (
    ContinualCounts,
    CorrelatedGaussian,
    CorrelatedTopK,
    DiscreteCorrelatedGaussian,
    DiscreteGaussianThreshold,
    FromTop,
    LaplaceThreshold,
    SparseGaussian,
    TruncatedLaplace,
)


@cache
def claims(*, thorough: bool = False) -> tuple[Claim, ...]:
    """All of them; the thorough audit has more settings of those that can be enumerated."""
    made = (
        *sparse_gaussian(), *laplace(), *correlated_gaussian(), *known_groups(), *discrete(), *adaptive(), *top_k(),
        *streams(), *truncated(), *records(), *sketches(),
    )  # fmt: skip
    return (*made, *more_settings()) if thorough else made


def more_settings() -> Iterator[Claim]:
    """Other parameters of what can be enumerated: little and much noise, low and high thresholds, one to three groups."""
    for groups, std, threshold, low in (
        (1, 0.4, 1.0, 1), (1, 3.0, 14.0, 1), (2, 0.8, 1.5, 1), (2, 3.0, 12.0, 3), (3, 1.0, 4.0, 1), (3, 2.0, 2.0, 2),
    ):  # fmt: skip
        made = SparseGaussian(groups, std, threshold, low, lattice_bits=1 if groups == 3 else 3)
        yield of_counts(made, *SPARSE, "low_threshold")
        yield of_counts(
            DiscreteGaussianThreshold(groups, std, float(math.ceil(threshold)), low), *SPARSE, "low_threshold"
        )
    for groups, scale, threshold in ((1, 0.5, 2.0), (1, 3.0, 10.0), (2, 0.8, 1.0), (2, 3.0, 20.0)):
        yield of_counts(LaplaceThreshold(groups, scale, threshold), "max_groups", "scale", "threshold")
    for sparsity, most, std, correlation, threshold in (
        (2, 2, 0.5, 0.2, 2.0), (2, 2, 1.0, 5.0, 5.0), (2, 1, 1.0, 1.0, 4.0), (3, 3, 0.7, 0.577, 3.0), (3, 2, 0.7, 0.2, 3.0),
        (2, 2, 3.0, 0.7, 10.0),
    ):  # fmt: skip
        yield of_correlated(CorrelatedGaussian(sparsity, most, std, correlation, threshold, lattice_bits=2))
    for variance, common in ((Fraction(4), Fraction(1)), (Fraction(1), Fraction(1)), (Fraction(30), Fraction(21))):
        yield of_correlated(DiscreteCorrelatedGaussian(2, variance, common, 5.0))
    for q, epsilon, groups in (
        (3, Fraction(1), 2),
        (9, Fraction(1, 3), 1),
        (8, Fraction(1), 2),
        (4, Fraction(1, 5), 3),
    ):
        yield of_bars(TruncatedLaplace(epsilon, q, groups))
    two = CorrelatedTopK(2, 0.7, 0.7, 1.4, 3.0, lattice_bits=1)
    yield of_largest(two, [(0, 0, 0), (1, 1, 0), (1, 1, 1), (7, 7, 1), (7, 7, 7), (3, 2, 1)])
    for std, t in ((1.4, 6), (0.7, 2)):
        yield of_stream(ContinualCounts(3, 1, std, t))
    for most, bound, std, t in ((2, 1, 0.8, 3), (1, 2, 1.1, 5)):
        yield of_top(FromTop(most, std, t, bound), 1)
