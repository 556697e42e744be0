"""How each law is cut into blocks, and the table that draws one: integers and exact weights, nothing drawn yet.

Every law here is, up to a shift or a rounding, a law on integers whose two sides fall off like exp(−h(z)) with
h(z) = linear·z + quadratic·z². The values are numbered k = 0, 1, 2, … on each side; x = k on the positive side and
x = ~k = −1 − k on the negative side. A negative value stands at distance z = k + `negative_start`: 1 for laws symmetric
about zero, 0 for laws symmetric about −1/2 (the floor of a continuous symmetric variable is one of those).

Each side is cut into blocks of 2^width_bits values. A sample is proposed block first, with weight exp(−h(start)), then
uniformly inside the block, and accepted with probability exp(−(h(position) − h(start))), so that the accepted value has
weight exp(−h(position)). Blocks are narrow: acceptance is never below exp(−0.71) and 0.96 to 1 on average.

A block is drawn by an alias table: Walker's method, built in Vose's way. A table has 2^index_bits columns; a column holds a
threshold, its own symbol and one other symbol, its alias. The leading bits of a word choose a column, the other bits are
compared with the threshold: below it the column's own symbol, else the alias. Thresholds have 64 bits more than one word
leaves, so the law is a list of integers over 2^128 and building it has no rounding drift. A second word is needed only on a
tie.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from math import isqrt

from dphist.errors import InvalidParameter
from dphist.noise.enclosure import decimal_context
from dphist.noise.laws import DiscreteGaussian, DiscreteLaplace, Law, RoundedGaussian

WEIGHT_BITS = 200
"""Weights are integers in units of 2^−200, each off by less than one unit."""
TOTAL_BITS = 128
"""All probabilities of a table are multiples of 2^−128."""

# What lies beyond these multiples of the scale has probability below 2^−128: exp(−13.4²/2) < 2^−129, exp(−89.2) <
# 2^−128.6.
_GAUSSIAN_REACH = Fraction(134, 10)
_LAPLACE_REACH = Fraction(892, 10)
_GAUSSIAN_INDEX_BITS = 11
_LAPLACE_INDEX_BITS = 12
_FINEST_CONTINUOUS_STD = 64  # a continuous position is cut into blocks of at most std/32


@dataclass(frozen=True, slots=True)
class Decay:
    """h(z) = linear·z + quadratic·z² for z ≥ 0, exact."""

    linear: Fraction
    quadratic: Fraction

    def __call__(self, z: int) -> Fraction:
        """h(z)."""
        return z * (self.linear + self.quadratic * z)

    def rise(self, start: int, distance: Fraction | int) -> Fraction:
        """h(start + distance) − h(start)."""
        return distance * (self.linear + self.quadratic * (2 * start + distance))


@dataclass(frozen=True, slots=True)
class Blocks:
    """The proposal of one law and the way from an accepted value x to a sample.

    sample = ((x + 2^(rounded_bits − 1)) >> rounded_bits) + shift, with rounded_bits = 0 meaning no rounding.
    `positive_values` and `negative_values` are how many values the side has; None stands for infinitely many, of
    which the first 2^(index_bits − 1) blocks are kept and the rest is counted as sampler error. With `continuous` a
    value is the integer part of a real position, and its weight is integrated over the unit cell.
    """

    decay: Decay
    index_bits: int
    width_bits: int
    negative_start: int
    positive_values: int | None = None
    negative_values: int | None = None
    continuous: bool = False
    rounded_bits: int = 0
    shift: int = 0
    positive_blocks: int = field(init=False)
    negative_blocks: int = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "positive_blocks", self._blocks_on(self.positive_values))
        object.__setattr__(self, "negative_blocks", self._blocks_on(self.negative_values))

    def _blocks_on(self, values: int | None) -> int:
        most = 1 << (self.index_bits - 1)
        return most if values is None else min(most, -(-values >> self.width_bits))

    @property
    def width(self) -> int:
        """How many values one block has."""
        return 1 << self.width_bits

    @property
    def rejects(self) -> bool:
        """Whether anything is ever rejected: not when each block is one value."""
        return self.continuous or self.width_bits > 0

    @property
    def starts(self) -> list[int]:
        """The distance z at which each block starts, the positive side first."""
        positive = [block << self.width_bits for block in range(self.positive_blocks)]
        negative = [(block << self.width_bits) + self.negative_start for block in range(self.negative_blocks)]
        return positive + negative

    @property
    def first_values(self) -> list[int]:
        """The value x at which each block starts, in the order of `starts`."""
        positive = [block << self.width_bits for block in range(self.positive_blocks)]
        return positive + [~(block << self.width_bits) for block in range(self.negative_blocks)]

    @property
    def steepest_rise(self) -> Fraction:
        """The largest h(end) − h(start) over all blocks: h is convex, so the last block of a side has it."""
        last_positive, last_negative = self.starts[self.positive_blocks - 1], self.starts[-1]
        return max(self.decay.rise(last_positive, self.width), self.decay.rise(last_negative, self.width))


@lru_cache(maxsize=64)
def blocks_of(law: Law) -> Blocks:
    """The blocks of a law."""
    if isinstance(law, RoundedGaussian):
        return _rounded_gaussian(law)
    if isinstance(law, DiscreteGaussian):
        decay = Decay(Fraction(0), 1 / (2 * law.variance))
        reach = _reach(_GAUSSIAN_REACH**2 * law.variance)
        return Blocks(decay, _GAUSSIAN_INDEX_BITS, _width_bits(reach, _GAUSSIAN_INDEX_BITS), negative_start=1)
    if isinstance(law, DiscreteLaplace):
        reach = int(_LAPLACE_REACH * law.scale) + 2
        width_bits = _width_bits(reach, _LAPLACE_INDEX_BITS)
        return Blocks(Decay(1 / law.scale, Fraction(0)), _LAPLACE_INDEX_BITS, width_bits, negative_start=1)
    # The truncated law about its middle: positive and negative values are q/2 + 1 and q/2 (q even), or both (q + 1)/2.
    positive, negative = law.q // 2 + 1, (law.q + 1) // 2
    reach = min(positive, int(_LAPLACE_REACH / law.epsilon) + 2)
    return Blocks(
        Decay(law.epsilon, Fraction(0)),
        _LAPLACE_INDEX_BITS,
        _width_bits(reach, _LAPLACE_INDEX_BITS),
        negative_start=1 - law.q % 2,
        positive_values=positive,
        negative_values=negative,
        shift=1 - positive,
    )


def _rounded_gaussian(law: RoundedGaussian) -> Blocks:
    """The floor of Z on a lattice 2^m times finer, then rounded.

    Floors nest: floor((floor(2^m z) + 2^(m−1)) / 2^m) = floor(z + 1/2), so the coarse value is the rounded one.
    """
    rounded_bits = 1
    while law.lattice_std * (1 << rounded_bits) < _FINEST_CONTINUOUS_STD:
        rounded_bits += 1
    variance = (law.lattice_std * (1 << rounded_bits)) ** 2
    reach = _reach(_GAUSSIAN_REACH**2 * variance)
    return Blocks(
        Decay(Fraction(0), 1 / (2 * variance)),
        _GAUSSIAN_INDEX_BITS,
        _width_bits(reach, _GAUSSIAN_INDEX_BITS),
        negative_start=0,
        continuous=True,
        rounded_bits=rounded_bits,
    )


def _reach(squared: Fraction) -> int:
    """An integer at least one above the square root."""
    return isqrt(int(squared)) + 2


def _width_bits(reach: int, index_bits: int) -> int:
    """The narrowest width at which half of the table's columns cover `reach` values."""
    width_bits = 0
    while (1 << (index_bits - 1 + width_bits)) < reach:
        width_bits += 1
    return width_bits


def block_weights(blocks: Blocks) -> list[int]:
    """2^200 · exp(−h(start)) for every block, each off by less than one unit.

    Going up one side, h(start) is quadratic in the block's number, so the ratio of neighbouring weights changes by a
    constant factor: three values of exp per side and two products per block. Every product is rounded once to 90
    digits, so after n ≤ 2^11 blocks the relative error is below n²·10^−89 < 10^−82, less than 2^−200 by a factor of
    10^21.
    """
    context = decimal_context(90)

    def exp_minus(gamma: Fraction) -> Decimal:
        return context.exp(context.divide(Decimal(-gamma.numerator), Decimal(gamma.denominator)))

    unit = Decimal(1 << WEIGHT_BITS)
    bend = exp_minus(2 * blocks.decay.quadratic * blocks.width**2)
    weights: list[int] = []
    for first, count in ((0, blocks.positive_blocks), (blocks.negative_start, blocks.negative_blocks)):
        weight = context.multiply(unit, exp_minus(blocks.decay(first)))
        ratio = exp_minus(blocks.decay.rise(first, blocks.width))
        for _ in range(count):
            weights.append(int(weight))
            weight, ratio = context.multiply(weight, ratio), context.multiply(ratio, bend)
    return weights


@dataclass(frozen=True, slots=True)
class AliasTable:
    """Columns with a threshold out of 2^threshold_bits and an alias."""

    index_bits: int
    thresholds: tuple[int, ...]
    aliases: tuple[int, ...]

    @property
    def word_bits(self) -> int:
        """How many bits of the first word are compared with the threshold's leading bits."""
        return 64 - self.index_bits

    @property
    def threshold_bits(self) -> int:
        """The length of a threshold: what the first word leaves and one more word."""
        return self.word_bits + 64


def round_to_total(weights: list[int]) -> list[int]:
    """Probabilities proportional to the weights, as integers that sum to exactly 2^128.

    Each is rounded down, and what is missing, less than one unit per symbol, goes to the heaviest symbol.
    """
    total = sum(weights)
    masses = [(weight << TOTAL_BITS) // total for weight in weights]
    masses[weights.index(max(weights))] += (1 << TOTAL_BITS) - sum(masses)
    return masses


def build_alias_table(masses: list[int], index_bits: int) -> AliasTable:
    """The table whose law is `masses` over 2^128, exactly.

    Every step fills one column: a symbol with less than a column's share keeps it all and takes the rest of the
    column from a symbol that has more. Sums stay whole, so what is left in the end fills its columns exactly.
    """
    columns = 1 << index_bits
    full = 1 << (TOTAL_BITS - index_bits)
    left = masses + [0] * (columns - len(masses))
    thresholds, aliases = [full] * columns, list(range(columns))
    light = [symbol for symbol in range(columns) if left[symbol] < full]
    heavy = [symbol for symbol in range(columns) if left[symbol] > full]
    while light:
        poor, rich = light.pop(), heavy[-1]
        thresholds[poor], aliases[poor] = left[poor], rich
        left[rich] -= full - left[poor]
        if left[rich] <= full:
            heavy.pop()
            if left[rich] < full:
                light.append(rich)
    return AliasTable(index_bits, tuple(thresholds), tuple(aliases))


def largest_value(law: Law) -> int:
    """No sample of this law is larger than this in absolute value, because none is drawn from beyond the last block."""
    blocks = blocks_of(law)
    most_blocks = max(blocks.positive_blocks, blocks.negative_blocks)
    return (most_blocks << blocks.width_bits >> blocks.rounded_bits) + 1 + abs(blocks.shift)


def require_headroom(law: Law, largest_count: int, terms: int = 1) -> None:
    """Refuse, before any data is read, a sum of one count and `terms` samples that could leave the range of int64.

    `largest_count` is the public limit on a count's absolute value, in the law's unit (lattice steps for a rounded
    Gaussian).
    """
    if largest_count + terms * largest_value(law) >= 1 << 63:
        raise InvalidParameter(
            f"counts and noise that fit in 63 bits with noise up to {largest_value(law)}",
            f"counts up to {largest_count} and {terms} noise terms",
            "use a coarser lattice or a lower public limit on counts",
        )
