"""Alias tables in whole numbers: draw one of many blocks with one random word and one comparison.

Walker's method, built in Vose's way. A table has 2^index_bits columns; a column holds a threshold, its own symbol and
one other symbol, its alias. Drawing: the leading bits of a word choose a column, the other bits are compared with the
threshold: below it the column's own symbol, else the alias. Thresholds have 64 bits more than one word leaves, so the
law is a list of integers over 2^128 and building it has no rounding drift. A second word is needed only on a tie.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["TOTAL_BITS", "AliasTable", "build_alias_table", "round_to_total"]

TOTAL_BITS = 128
"""All probabilities of a table are multiples of 2^−128."""


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

    def masses(self) -> list[int]:
        """The exact law: the probability of each symbol, times 2^128."""
        masses = [0] * len(self.thresholds)
        for column, (threshold, alias) in enumerate(zip(self.thresholds, self.aliases, strict=True)):
            masses[column] += threshold
            masses[alias] += (1 << self.threshold_bits) - threshold
        return masses


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
