"""Every constant of the adaptive release, with the reason for it. None of them depends on data."""

from __future__ import annotations

import math
from dataclasses import dataclass

from dphist import checks
from dphist.errors import InvalidParameter

LATTICE_BITS = 16
"""Weights and noise are multiples of 2^-16: a unit in 300 groups loses less than 2e-4 of its weight by rounding down."""

WEIGHT_BITS = 10
"""A group's public weight a is a multiple of 2^-10, so that the sum of squares of a unit is an exact integer."""

ONE = 1 << WEIGHT_BITS
"""The largest weight of a group."""

NORM_BITS = 26
"""Half the bits of the integer under the square root: 2^52 is the largest power whose root doubles give exactly."""

FACTOR_BITS = 16
"""A unit's clipping factor in the counts is a multiple of 2^-16."""

SCALE_BITS = 10
"""What a class of units is scaled with in the count of scaled units is a multiple of 2^-10."""

LARGEST_CAP = 1024
"""The largest norm of a unit that counting allows; heavier ones are scaled down. It keeps
C 2^(2 WEIGHT_BITS + 2 FACTOR_BITS) below 2^63."""

MOST_RELEASED = 2**31
"""A public limit on the number of groups, for the error of the sampler and for 32-bit codes."""


_SHARES = (
    "delta_share",
    "scaled_share",
    "size_quantile",
    "whole_share",
    "tail_decay",
    "choice_share",
)
_POSITIVE = (
    "histogram_cut",
    "tail_doubt",
    "tail_power",
    "bucket_error",
    "mix_slope",
    "model_error",
    "spread_doubt",
    "empty_below",
    "moved_weight",
    "election_gain",
)


@dataclass(frozen=True, slots=True)
class Tuning:
    """Every constant that was chosen by experiment: `benchmarks/utility.py --tune`, on generated data only.

    Selection.
    round_shares: the rounds' shares of the selection budget, in sixteenths. The first rounds only find out which groups have
    any chance, later ones decide. Four rounds select 2 % more groups than three, 9 % more than two, a fifth 1 % more for
    another pass.
    hopeless: before each later round a group whose estimate, in units of the selection's noise, is below this gives its
    units' weight to others. Cut-offs and reserve are part of delta (Lemma 2): the fewer groups noise gives up, the lower the
    threshold.
    reserve: how far above the threshold, in standard deviations of the noise still to come, a group must be expected to end
    before it stops consuming weight.
    most_groups: D0, how many groups a unit samples. The threshold grows with its logarithm only: 100 select 1 % more, 1000 2 %
    fewer. It stands well above the degrees of nearly all units, as a cut takes its toll there.
    delta_share: the part of delta for groups of a single unit. The threshold and the noise both change with its logarithm.
    early_share: the part of that for each bar at which a group is accepted before the last round. Large groups pass early and
    cannot be lost to later noise, and their units' weight goes to others a round sooner. Anything from .01 to .05 selects as
    many groups.

    Shares of the (squared) budget. (That of the counts follows from the request's emphasis.)
    scaled_share: of a small budget for counts, for the count of scaled units; the counts of classes have the rest.

    Counting.
    size_quantile: groups up to this quantile of sizes get the full weight 1.
    weight_roots: larger ones get the size's ratio to the power 2^-this: noise costs a small group more.
    whole_share: after rounds, classes with this share of all units are not scaled down in the count of scaled units (after an
    election with half of them): the rounds have counted fully scaled units already, and the more of them are whole the less
    does the count depend on the mix.
    histogram_cut: buckets below this many standard deviations are not taken as seen, unless all heavier ones together are;
    those above the last seen one are the tail, where few units hide and matter.
    tail_decay: from bucket to bucket (an octave) the tail is expected to fall like this, before its noisy values are
    looked at. Lognormal tails fall faster, power laws more slowly.
    tail_doubt: how many units more, in standard deviations of the histogram's noise, each bucket of the tail may hold.

    Estimating.
    tail_power: the units of the tail are in a group with a probability that grows with its size to this power: units in very
    many groups are in large and small ones alike.
    bucket_error: what the width of buckets does to sums over the histogram, relatively.
    groups_per_bin: so many groups of similar size share what is known of their mix of classes.
    mix_slope: how much, relatively, the share of a class is expected to change when groups grow by a factor e.
    spread_doubt: how much the squared spread of a class may differ from that of the other classes, before it is measured.
    model_error: standard errors are raised by this factor. Mixes of classes are no straight lines with normal spreads: on the
    public table of flights errors were a tenth larger than the model said.

    The automatic choice.
    choice_share: the part of epsilon for the histogram of degrees: a bucket's noise has a standard deviation of 71 at
    epsilon 1.
    election_gain: unless groups alone are asked for, an election must be predicted to show this many times the groups of
    rounds, whose counts are much more precise. Predictions flatter elections: on generated tables those at 1.9 and more show
    1.3 to 1.9 times as many, those below it 1.1 to 1.45 times.
    empty_below: buckets below this many standard deviations count as empty.
    moved_weight: a unit in d groups counts like d^this in the adaptive release: 1/sqrt(d) in each of d groups at first, and
    more where its other groups have been decided.
    """

    round_shares: tuple[int, ...] = (2, 3, 4, 7)
    hopeless: tuple[float, ...] = (2.0, 3.0, 4.0)
    reserve: float = 1.0
    most_groups: int = 300
    delta_share: float = 0.5
    early_share: float = 0.02

    scaled_share: float = 0.7

    size_quantile: float = 0.1
    weight_roots: int = 2
    whole_share: float = 0.8
    histogram_cut: float = 3.0
    tail_decay: float = 0.25
    tail_doubt: float = 0.8

    tail_power: float = 0.6
    bucket_error: float = 0.05
    groups_per_bin: int = 12
    mix_slope: float = 0.5
    spread_doubt: float = 0.3
    model_error: float = 1.12

    choice_share: float = 0.02
    empty_below: float = 3.0
    moved_weight: float = 0.62
    election_gain: float = 1.85

    def __post_init__(self) -> None:
        for name in ("round_shares", "hopeless"):
            object.__setattr__(self, name, tuple(getattr(self, name)))
        whole = all(type(share) is int for share in self.round_shares)
        if not self.round_shares or not whole or sum(self.round_shares) != 16 or min(self.round_shares) < 1:
            raise InvalidParameter("rounds with shares of at least 1 that add up to 16", self.round_shares)
        if len(self.hopeless) != len(self.round_shares) - 1:
            raise InvalidParameter("one cut-off before each round but the first", self.hopeless)
        if not all(math.isfinite(value) for value in (*self.hopeless, self.reserve)):
            raise InvalidParameter("finite cut-offs and reserve", (*self.hopeless, self.reserve))
        for name in ("most_groups", "weight_roots", "groups_per_bin"):
            checks.check_whole(name, getattr(self, name))
        if self.most_groups > 2**12:
            raise InvalidParameter("most_groups of at most 4096", self.most_groups, "weights would round to nothing.")
        for name in _SHARES:
            checks.check_share(name, getattr(self, name))
        checks.check_not_negative("early_share", self.early_share)
        if self.early_share * (self.rounds - 1) >= 1:
            raise InvalidParameter("an early_share that leaves something for the threshold", self.early_share)
        for name in _POSITIVE:
            checks.check_positive(name, getattr(self, name))

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
