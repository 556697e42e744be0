"""Every constant of the adaptive release, with the reason for it. None of them depends on data."""

from __future__ import annotations

from dataclasses import dataclass

from dphist import checks
from dphist.errors import InvalidParameter

LATTICE_BITS = 16
"""Weights and noise are multiples of 2^-16: a unit in 300 groups loses less than 2e-4 of its weight by rounding down."""

WEIGHT_BITS = 10
"""A group's public weight a is a multiple of 2^-10, so that the sum of squares of a unit is an exact integer."""

NORM_BITS = 26
"""Half the bits of the integer under the square root: 2^52 is the largest power whose root doubles give exactly."""

FACTOR_BITS = 16
"""A unit's clipping factor in the counts is a multiple of 2^-16."""

LARGEST_CAP = 1024
"""The largest squared norm C that counting may allow a unit: keeps C 2^(2 WEIGHT_BITS + 2 FACTOR_BITS) below 2^63."""

MOST_RELEASED = 2**31
"""A public limit on the number of groups, for the error of the sampler and for 32-bit codes."""


@dataclass(frozen=True, slots=True)
class Tuning:
    """The constants that were chosen by experiment: `benchmarks/utility.py --tune`, on generated data only.

    round_shares: the rounds' shares of the selection budget, in sixteenths. The first rounds only find out which groups have
    any chance, later ones decide. Four rounds select 4 % more groups than three, a fifth only 1 % more for another pass.
    hopeless: before each later round a group whose estimate, in units of the selection's noise, is below this gives its
    units' weight to others.
    reserve: how far above the threshold, in standard deviations of the noise still to come, a group must be expected to end
    before it stops consuming weight.
    most_groups: D0, how many groups a unit samples. The threshold grows with its logarithm only; nearly all units are in
    fewer groups.
    delta_share: the part of delta for groups of a single unit. The threshold and the noise both change with its logarithm.
    count_share: the part of the (squared) budget for counts; with sums it grows towards `most_count_share`.
    histogram_share: the part for the histogram of the units' norms, from which the clipping bound is chosen.
    probe_share: relative to the count's budget, for a second, hardly clipped count, from which the clipping of the first is
    corrected group by group.
    """

    round_shares: tuple[int, ...] = (2, 3, 4, 7)
    hopeless: tuple[float, ...] = (2.0, 3.0, 4.0)
    reserve: float = 1.0
    most_groups: int = 300
    delta_share: float = 0.5
    count_share: float = 0.25
    most_count_share: float = 0.5
    histogram_share: float = 0.02
    probe_share: float = 0.5

    def __post_init__(self) -> None:
        for name in ("round_shares", "hopeless"):
            object.__setattr__(self, name, tuple(getattr(self, name)))
        if not self.round_shares or sum(self.round_shares) != 16 or min(self.round_shares) < 1:
            raise InvalidParameter("rounds with shares of at least 1 that add up to 16", self.round_shares)
        if len(self.hopeless) != len(self.round_shares) - 1:
            raise InvalidParameter("one cut-off before each round but the first", self.hopeless)
        checks.check_whole("most_groups", self.most_groups)
        if self.most_groups > 2**12:
            raise InvalidParameter("most_groups of at most 4096", self.most_groups, "weights would round to nothing.")
        for name in ("delta_share", "count_share", "most_count_share", "histogram_share", "probe_share"):
            if not 0 < getattr(self, name) < 1:
                raise InvalidParameter(f"{name} in (0, 1)", getattr(self, name))
        if self.most_count_share + self.histogram_share >= 1 or self.count_share > self.most_count_share:
            raise InvalidParameter("shares of counts and histogram that leave some for the selection", "more")

    @property
    def share_bits(self) -> int:
        """Weighted sums over the rounds lie on a lattice finer by this many bits."""
        return 4

    @property
    def rounds(self) -> int:
        """How many rounds there are."""
        return len(self.round_shares)

    @property
    def fractions(self) -> tuple[float, ...]:
        """The shares as numbers that add up to 1, exactly."""
        return tuple(share / 16 for share in self.round_shares)

    def counts(self, sums_budget: float) -> float:
        """The share of counts and sums together, sums_budget being that of the sums relative to the count's."""
        wanted = self.count_share * (1 + sums_budget) / (1 + sums_budget / 2)
        return min(wanted, self.most_count_share)
