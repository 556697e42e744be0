"""Quantiles per group from a noisy tree of balances, and what can be said about their error. docs/quantiles.md has the proofs.

Values fall into 2^height public bins. Each group has a noisy total and, for each node of the binary tree above the bins, a
noisy balance: the weight in its left half less the weight in its right half. One unit moves the total by at most `records`, and
the balances of one level by at most `records` together: height + 1 draws are paid for, however many quantiles are asked for.
Noise is drawn for those nodes alone that a walk reaches: what is published has the law of the same walks in the full tree.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Self, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dphist import checks
from dphist.aggregates.numbers import clamped, double
from dphist.errors import InvalidParameter
from dphist.noise import DiscreteLaplace, RoundedGaussian, sample
from dphist.noise.laws import Law
from dphist.privacy.search import edge
from dphist.privacy.special import ndtri

if TYPE_CHECKING:
    from dphist.engines.dialect import Dialect

Integers: TypeAlias = NDArray[np.int64]
Floats: TypeAlias = NDArray[np.float64]
TreeLaw: TypeAlias = RoundedGaussian | DiscreteLaplace
Perturb: TypeAlias = Callable[[Integers, Law], Integers]

USUAL_HEIGHT: Final = 12
MOST_HEIGHT: Final = 20
STEP_BITS: Final = 20
MOST_RECORDS: Final = 2**16
MOST_QUANTILES: Final = 64

LOST: Final = 2.0
"""A noisy number of units below so many of its standard errors, and a half, may as well be that of nobody."""

_UP: Final = 1 + 2.0**-48
WALKS_AT_ONCE: Final = 1 << 16
_LEAST_REACH: Final = 0.1
_MOST_REACH: Final = 400.0
_REACHED: Final = 1 - 1e-12
"""A cumulative weight reaches p * total if it does so up to rounding: 0.07 * 100 is a little more than 7 in doubles."""


@dataclass(frozen=True, slots=True, eq=False)
class Bins:
    """For each group its bins, in order, and their weights in whole steps: a ragged column in Arrow's layout.

    Group g has the entries from offsets[g] to offsets[g + 1]. An empty group has none.
    """

    offsets: Integers
    bins: Integers
    steps: Integers

    @classmethod
    def from_lists(cls, bins: Any, steps: Any) -> Self:
        """From two Arrow list columns (not chunked), a list per group, in any order. A null is an empty list."""
        lengths = bins.value_lengths().fill_null(0).to_numpy(zero_copy_only=False)
        at, weight = (np.asarray(column.flatten(), np.int64) for column in (bins, steps))
        keys = (np.repeat(np.arange(len(lengths)), lengths) << MOST_HEIGHT) + at
        if (keys[1:] < keys[:-1]).any():
            order = np.argsort(keys)
            at, weight = at[order], weight[order]
        return cls(np.append(0, np.cumsum(lengths, dtype=np.int64)), at, weight)

    @classmethod
    def joined(cls, parts: Sequence[Bins]) -> Self:
        """The groups of several parts, one part after the other."""
        if not parts:
            return cls(*(np.zeros(size, np.int64) for size in (1, 0, 0)))
        starts = np.cumsum([0, *(len(part.bins) for part in parts[:-1])])
        ends = [part.offsets[1:] + start for part, start in zip(parts, starts, strict=True)]
        bins, steps = ([getattr(part, name) for part in parts] for name in ("bins", "steps"))
        return cls(np.concatenate([[0], *ends]), np.concatenate(bins), np.concatenate(steps))

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, index: slice | Integers) -> Bins:
        """Some of the groups, in the order of the index."""
        chosen = np.arange(len(self))[index]
        starts, lengths = self.offsets[chosen], np.diff(self.offsets)[chosen]
        offsets = np.append(0, np.cumsum(lengths))
        entries = np.arange(offsets[-1]) + np.repeat(starts - offsets[:-1], lengths)
        return Bins(offsets, self.bins[entries], self.steps[entries])

    @property
    def totals(self) -> Integers:
        """The weight of each group."""
        return np.diff(np.append(0, np.cumsum(self.steps))[self.offsets])


@dataclass(frozen=True, slots=True)
class Tree:
    """The public shape of the tree: bounds of the values, 2^height bins, and the weight of a unit's records in one group.

    A unit with n values in a group gives each the weight min(1, records/n), in steps of 2^-20, rounded down.
    """

    lower: float
    upper: float
    height: int = USUAL_HEIGHT
    records: int = 1
    step_bits: int = STEP_BITS

    def __post_init__(self) -> None:
        bounds = f"[{self.lower}, {self.upper}]"
        if not (math.isfinite(self.lower) and math.isfinite(self.upper) and self.lower < self.upper):
            raise InvalidParameter("finite bounds lower < upper of a quantile", bounds, "for example amount:0.5:0:100.")
        for name, most in (("height", MOST_HEIGHT), ("records", MOST_RECORDS)):
            checks.check_whole(name, getattr(self, name))
            if getattr(self, name) > most:
                raise InvalidParameter(f"{name} of at most {most:,}", getattr(self, name))
        if not 0 <= self.step_bits <= STEP_BITS:
            raise InvalidParameter(f"step_bits between 0 and {STEP_BITS}", self.step_bits)
        if not 2.0**-900 < self.upper - self.lower < 2.0**900:
            raise InvalidParameter("bounds of a quantile of ordinary size", bounds)
        if self.resolution < max(abs(self.lower), abs(self.upper)) * 2.0**-50:
            hint = "subtract a public offset from the column first."
            raise InvalidParameter("bounds of a quantile not so far from zero", bounds, hint)

    @property
    def levels(self) -> int:
        """How many times a unit is paid for: the total, and each level of balances."""
        return self.height + 1

    @property
    def resolution(self) -> float:
        """The width of a bin; no answer is more exact."""
        return (self.upper - self.lower) * 2.0**-self.height

    @property
    def sensitivity_steps(self) -> int:
        """How far one unit moves the total, or the balances of one level together, in one group."""
        return self.records << self.step_bits

    def bins_of(self, values: ArrayLike) -> Integers:
        """The bin of each value, which is clamped; each bin has its lower end, the last one also `upper`."""
        clamped = np.clip(np.asarray(values, np.float64), self.lower, self.upper)
        whole = np.floor((clamped - self.lower) / self.resolution).astype(np.int64)
        return np.minimum(whole, (1 << self.height) - 1)

    def bin_sql(self, value: str, dialect: Dialect) -> str:
        """`bins_of` in SQL; null for a null."""
        away = f"({clamped(value, self.lower, self.upper)} - {double(self.lower)}) / {double(self.resolution)}"
        whole = f"LEAST(CAST({dialect.truncated(away)} AS INTEGER), {(1 << self.height) - 1})"
        return f"CASE WHEN {value} IS NOT NULL THEN {whole} END"

    def weight_steps(self, records: ArrayLike) -> Integers:
        """The weight of each of so many values of one unit in one group: all of them weigh at most `sensitivity_steps`."""
        number = np.asarray(records, np.int64)
        return np.asarray(np.minimum(1 << self.step_bits, self.sensitivity_steps // np.maximum(number, 1)))

    def weight_sql(self, records: str, dialect: Dialect) -> str:
        """`weight_steps` in SQL: rounded down, so that all of them together are at most `sensitivity_steps`."""
        share = dialect.truncated(f"{double(self.sensitivity_steps)} / GREATEST({records}, 1)")
        return f"CAST(LEAST({share}, {double(1 << self.step_bits)}) AS BIGINT)"

    def values_at(self, position: Floats) -> Floats:
        """Values at positions counted in bins, inside the bounds."""
        return np.clip(self.lower + position * self.resolution, self.lower, self.upper)

    def most_draws(self, quantiles: int) -> int:
        """How many draws there are for one group, at most: one unit can change no more, whatever its records are."""
        return 1 + sum(min(1 << level, 5 * quantiles) for level in range(self.height))


@dataclass(frozen=True, slots=True, eq=False)
class NoisyQuantiles:
    """A row for each probability, a column for each group. low and high: intervals, if a level was asked for.

    totals: the noisy weight of each group, the same in every row. Where it is lost in its noise, so is every quantile.
    """

    values: Floats
    std_errors: Floats
    totals: Floats
    low: Floats | None
    high: Floats | None


def noisy_quantiles(
    bins: Bins,
    tree: Tree,
    law: Law,
    probabilities: Sequence[float],
    level: float | None = None,
    perturb: Perturb | None = None,
) -> NoisyQuantiles:
    """Draw the trees of all groups, as far as they are needed, and read quantiles off them.

    The p-quantile of a group is a value of the smallest bin at which the cumulative weight reaches p times the total.

    Args:
        bins: the exact weights of each group.
        tree: the shape of the tree.
        law: the noise of every draw, in steps.
        probabilities: which quantiles, each in (0, 1).
        level: the probability with which the interval of each quantile covers it.
        perturb: how noise of a law is added to steps, if not by `sample`.

    Returns:
        Values that do not fall as the probability grows, their standard errors, and intervals that hold them.
    """
    if not 1 <= len(probabilities) <= MOST_QUANTILES or not all(0 < p < 1 for p in probabilities):
        raise InvalidParameter(f"1 to {MOST_QUANTILES} probabilities inside (0, 1)", list(probabilities))
    if level is not None and not 0 < level < 1:
        raise InvalidParameter("a level inside (0, 1)", level)
    assert isinstance(law, RoundedGaussian | DiscreteLaplace), "no other noise is drawn on sums"
    if isinstance(law, RoundedGaussian) and law.lattice_bits:
        raise InvalidParameter("noise in whole steps", f"2^-{law.lattice_bits} steps")
    shifts = [0.0, -1.0, 1.0]
    if level is not None:
        reach = critical_value(law, (1 - level) / tree.height)
        shifts += [-reach, reach]
    walks = _Walks(np.tile(shifts, len(probabilities)), np.repeat(probabilities, len(shifts)))
    noise = _Noise(law, perturb)
    size = max(1, WALKS_AT_ONCE // len(walks.shifts))
    positions, totals = np.empty((len(bins), len(walks.shifts))), np.empty(len(bins))
    for first in range(0, len(bins), size):
        part = slice(first, first + size)
        positions[part], totals[part] = _walk(bins[part], tree, law, walks, noise)
    lost = totals < LOST * _std(law) + (1 << tree.step_bits) / 2
    return _read(tree, positions.reshape(len(bins), len(probabilities), len(shifts)), totals, lost)


def critical_value(law: TreeLaw, miss: float) -> float:
    """How many stds a weighted sum of independent draws stays below, but with probability `miss`.

    Gaussian: the normal quantile. Laplace: given exponential variables E_i of mean 1, such a sum of std 1 is normal with
    variance V = sum w_i E_i, sum w_i = 1, and V is below E_1 in convex order. P(N(0, v) > t) is convex in v up to t^2/3 and
    concave beyond, where its tangent bounds it. So P(sum > t) <= exp(-sqrt(2) t)/2 + slope exp(-t^2/3), and the slope of that
    tangent is 3 sqrt(3) pdf(sqrt(3))/(2 t^2). Rounded up; the rounding of noise to whole steps is added by the walk.
    """
    if isinstance(law, RoundedGaussian):
        return max(_LEAST_REACH, float(-ndtri(miss)) * _UP)
    slope = 1.5 * math.sqrt(3) * math.exp(-1.5) / math.sqrt(2 * math.pi)

    def tail(t: float) -> float:
        return math.exp(-math.sqrt(2) * t) / 2 + slope / t**2 * math.exp(-t * t / 3)

    return edge(tail, miss, _MOST_REACH, _LEAST_REACH)


@dataclass(frozen=True, slots=True, eq=False)
class _Noise:
    """Where noise on nodes comes from."""

    law: TreeLaw
    perturb: Perturb | None

    def add(self, steps: Integers, nodes: Integers) -> Integers:
        """Noise on the numbers of these nodes."""
        if self.perturb is not None:
            return self.perturb(steps, self.law)
        return steps + _draw(self.law, nodes)


@dataclass(frozen=True, slots=True, eq=False)
class _Walks:
    """Walks from the root to a bin. Each goes right where the prefix is below p * total + shift stds of its noise."""

    shifts: Floats
    probabilities: Floats


def _walk(bins: Bins, tree: Tree, law: TreeLaw, walks: _Walks, noise: _Noise) -> tuple[Floats, Floats]:
    """Where all walks end in each group, in bins, and the noisy totals of groups.

    Walks without a shift end inside a bin, the others at its outer end. One without a shift goes by prefixes that are cut to
    those at the ends of the node: one rising estimate for every probability. The others go by plain prefixes, whose error is a
    known sum of noises.
    """
    groups, height, std = len(bins), tree.height, _std(law)
    shape = (groups, len(walks.shifts))
    keys = np.repeat(np.arange(groups) << height, np.diff(bins.offsets)) + bins.bins
    sums = np.append(0, np.cumsum(bins.steps))
    point = walks.shifts == 0
    total = noise.add(bins.totals, np.arange(groups)).astype(np.float64)[:, None]
    # A total below its own noise tells nothing; a positive one keeps every walk inside a bin.
    high = np.where(point, np.maximum(total, std), total)
    low = np.zeros(shape)
    targets = walks.probabilities * high * _REACHED
    # Variances and covariance of prefix - p * total at the ends of the node, in units of std^2.
    p = walks.probabilities
    low_variance, high_variance = np.broadcast_to(p * p, shape), np.broadcast_to((1 - p) ** 2, shape)
    covariance = np.broadcast_to(-p * (1 - p), shape)
    slack = np.sign(walks.shifts) * (1 + height / 2)
    nodes = np.arange(groups)[:, None] + np.zeros(shape, np.int64)  # the root of group g is g; children 2 v and 2 v + 1
    for level in range(height):
        found, where = np.unique(nodes, return_inverse=True)
        width = 1 << (height - level)
        left, middle, right = (sums[np.searchsorted(keys, found * width + part)] for part in (0, width // 2, width))
        balances = noise.add(2 * middle - left - right, found)
        middle_prefix = (low + high + balances.astype(np.float64)[where.reshape(shape)]) / 2
        middle_prefix = np.where(point, np.clip(middle_prefix, low, high), middle_prefix)
        variance = (low_variance + high_variance + 2 * covariance + 1) / 4
        goes_right = middle_prefix < targets + walks.shifts * std * np.sqrt(variance) + slack
        with_low, with_high = (low_variance + covariance) / 2, (high_variance + covariance) / 2
        covariance = np.where(goes_right, with_high, with_low)
        low_variance = np.where(goes_right, variance, low_variance)
        high_variance = np.where(goes_right, high_variance, variance)
        low, high = np.where(goes_right, middle_prefix, low), np.where(goes_right, high, middle_prefix)
        nodes = 2 * nodes + goes_right
    inside = np.clip((targets - low)[:, point] / (high - low)[:, point], 0, 1)
    ends = (nodes - (np.arange(groups)[:, None] << height)).astype(np.float64)
    ends[:, point] += inside
    ends[:, walks.shifts > 0] += 1
    return ends, total[:, 0]


def _draw(law: TreeLaw, nodes: Integers) -> Integers:
    """Noise of its own for each of these nodes. No node is drawn twice: a second draw would not have been paid for."""
    return sample(law, len(nodes))


def _std(law: TreeLaw) -> float:
    """Of one draw before it is rounded to whole steps: rounding moves it by at most one step."""
    return math.sqrt(2) * float(law.scale) if isinstance(law, DiscreteLaplace) else float(law.std)


def _read(tree: Tree, positions: Floats, totals: Floats, lost: NDArray[np.bool_]) -> NoisyQuantiles:
    """Values, standard errors (half of what one std on either side is apart, and a uniform place in a bin), intervals."""
    columns = np.moveaxis(positions, 0, -1)  # probability, walk, group
    values = tree.values_at(columns[:, 0])
    spread = (columns[:, 2] - columns[:, 1] - 1) / 2
    errors = tree.resolution * np.sqrt(np.maximum(spread, 0) ** 2 + 1 / 12)
    errors = np.where(lost, np.maximum(errors, (tree.upper - tree.lower) / 2), errors)
    weights = np.broadcast_to(np.ldexp(totals, -tree.step_bits), values.shape)
    if columns.shape[1] == 3:
        return NoisyQuantiles(values, errors, weights, None, None)
    low, high = tree.values_at(columns[:, 3]), tree.values_at(columns[:, 4])
    return NoisyQuantiles(values, errors, weights, np.minimum(low, values), np.maximum(high, values))
