"""Draw noise: whole arrays of exact samples in NumPy, with an exact decision behind every floating-point comparison.

One proposal takes two words. The first draws a block through the alias table. The second holds the position inside
the block in its low bits and the acceptance uniform U in the others. A proposal at distance d in a block is accepted
if U < exp(−r), r = h(start + d) − h(start). Floats only sort the clear cases out: accepted when U is clearly below 1
− r ≤ exp(−r), else decided by exp when that is clear, else exactly, with integers and as many more words as it takes.

Error of the float arithmetic, in units of U, with u = 2^−53. Positions are integers below 2^53, hence exact. Both
coefficients are rounded once (u each); q·d, s + q·d (equal signs) and the product with d are rounded once each, so r
has a relative error below 5u and, as r < 1, an absolute one below 2^−50. Converting the second word to float costs
2^−54, adding the constant 2^−53, exp 4u. All of it together is below 2^−48; `_FLOAT_GUARD` is sixteen times that.
What a float does not know about U, or about a continuous position, is no rounding error but unread bits: U is known
to 2^−acceptance_bits, and a position of p bits leaves r open by at most 2·r_max·2^−p < 2^(1−p).
"""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from dphist.noise.alias import build_alias_table, round_to_total
from dphist.noise.blocks import Blocks, block_weights, blocks_of
from dphist.noise.enclosure import below_exp, exp_bounds, next_word
from dphist.noise.entropy import Entropy, require_secure
from dphist.noise.laws import Law
from dphist.noise.parameters import LARGEST_SAMPLE, whole_number

__all__ = ["sample"]

CHUNK = 1 << 15
"""Proposals per round: the working arrays stay in the processor's cache and use about 3 MB whatever n is."""

_FLOAT_GUARD = 2.0**-44
_CONTINUOUS_POSITION_BITS = 32
_TOP_BIT = 1 << 63
_TWO_64 = 2.0**64


def sample(law: Law, n: int, entropy: Entropy | None = None) -> NDArray[np.int64]:
    """Draw n independent samples of a law, in its unit (lattice steps for a rounded Gaussian).

    The law of each is within `sampler_error(law)` of the exact one. Running time depends on how many proposals are
    rejected.
    """
    source = require_secure(entropy)
    out = np.empty(whole_number("n", n, 0, LARGEST_SAMPLE), dtype=np.int64)
    sampler_of(law).fill(out, source)
    return out


@lru_cache(maxsize=16)
def sampler_of(law: Law) -> BlockSampler:
    """The sampler of a law; building one takes some 20 ms, and each holds about 300 KB."""
    return BlockSampler(blocks_of(law))


class BlockSampler:
    """The tables of one law, ready to draw from. Read-only after construction, so threads may share it."""

    def __init__(self, blocks: Blocks) -> None:
        self.blocks = blocks
        self.alias = build_alias_table(round_to_total(block_weights(blocks)), blocks.index_bits)
        # A column's threshold with the column's number in front of it can be compared with a whole word. Full columns
        # are their own alias, so lowering their threshold 2^word_bits by one, to make it fit, changes nothing.
        largest = (1 << self.alias.word_bits) - 1
        self._cuts = np.array(
            [
                column << self.alias.word_bits | min(threshold >> 64, largest)
                for column, threshold in enumerate(self.alias.thresholds)
            ],
            dtype=np.uint64,
        )
        # Entry 2c + 1 belongs to column c's own symbol, entry 2c to its alias. Symbols beyond the last block have no
        # weight.
        self._starts, first_values = blocks.starts, blocks.first_values
        symbols = [symbol for column in enumerate(self.alias.aliases) for symbol in reversed(column)]
        self._symbols = [min(symbol, len(self._starts) - 1) for symbol in symbols]
        self._first_values = np.array([first_values[symbol] for symbol in self._symbols], dtype=np.int64)
        self.position_bits = max(blocks.width_bits, _CONTINUOUS_POSITION_BITS if blocks.continuous else 0)
        self.acceptance_bits = 64 - self.position_bits
        self._prepare_acceptance()

    def _prepare_acceptance(self) -> None:
        """Coefficients of −r·2^64 = position · (slope + bend · position), and what call is too close for floats."""
        blocks = self.blocks
        unit = Fraction(1 << blocks.width_bits, 1 << self.position_bits)  # one step of the position, in values
        scale = -unit * 2**64
        self._bend = float(blocks.decay.quadratic * unit * scale)
        slopes = [float((blocks.decay.linear + 2 * blocks.decay.quadratic * start) * scale) for start in self._starts]
        self._slopes = np.array([slopes[symbol] for symbol in self._symbols])
        unread_position = 2.0 ** (1 - self.position_bits) if blocks.continuous else 0.0
        self.guard = 2.0**-self.acceptance_bits + unread_position + _FLOAT_GUARD
        # U = signed/2^64 + 1/2 < 1 − r − guard becomes signed < −r·2^64 + this.
        self._clear = (0.5 - self.guard) * _TWO_64

    def fill(self, out: NDArray[np.int64], entropy: Entropy) -> None:
        """Fill an array with samples, a chunk of proposals at a time."""
        room = _Room(min(CHUNK, out.size))
        done = 0
        while done < out.size:
            values = out[done : done + CHUNK]
            accepted = self._propose(values, room, entropy)
            self._finish(values[:accepted])
            done += accepted

    def _finish(self, values: NDArray[np.int64]) -> None:
        """From accepted values to samples, in place."""
        if self.blocks.rounded_bits:
            values += 1 << (self.blocks.rounded_bits - 1)
            values >>= self.blocks.rounded_bits
        if self.blocks.shift:
            values += self.blocks.shift

    def _propose(self, values: NDArray[np.int64], room: _Room, entropy: Entropy) -> int:
        """Put accepted proposals at the front of `values` and return how many there are."""
        size = values.size
        if not self.blocks.rejects:
            entries = self._draw_blocks(entropy.words(size), room, entropy)
            np.take(self._first_values, entries, out=values, mode="wrap")
            return size
        words = entropy.words(2 * size)
        entries = self._draw_blocks(words[:size], room, entropy)
        seconds = words[size:]
        accepted = self._accept(entries, seconds, room, entropy)
        np.take(self._first_values, entries, out=values, mode="wrap")
        offsets = room.positions[:size]
        if self.position_bits > self.blocks.width_bits:
            offsets >>= self.position_bits - self.blocks.width_bits
        # A block's first value ends in zeros, or in ones on the negative side, so this counts away from zero.
        values ^= offsets
        self._reject_outside(values, accepted)
        return _close_gaps(values, accepted)

    def _draw_blocks(self, words: NDArray[np.uint64], room: _Room, entropy: Entropy) -> NDArray[np.int64]:
        """The table entry that each word draws. Overwrites `words`."""
        size = words.size
        entries = room.entries[:size]
        np.right_shift(words, self.alias.word_bits, out=entries.view(np.uint64))
        cuts = np.take(self._cuts, entries, out=room.cuts[:size], mode="wrap")
        words -= cuts  # wraps below zero exactly when the word is below the cut
        undecided = np.flatnonzero(words == 0) if np.count_nonzero(words) < size else ()
        words >>= np.uint64(63)
        entries += entries
        entries += words.view(np.int64)
        for index in undecided:
            # A tie, probability 2^−53: the column's own symbol if a further word is below the rest of the threshold.
            threshold = self.alias.thresholds[int(entries[index]) >> 1]
            entries[index] += next_word(entropy) < threshold - (threshold >> 64 << 64)
        return entries

    def _accept(
        self, entries: NDArray[np.int64], seconds: NDArray[np.uint64], room: _Room, entropy: Entropy
    ) -> NDArray[np.bool_]:
        """Which proposals are accepted; leaves their positions in `room.positions`."""
        size = entries.size
        positions = np.bitwise_and(
            seconds, np.uint64((1 << self.position_bits) - 1), out=room.positions[:size].view(np.uint64)
        ).view(np.int64)
        position = room.position[:size]
        position[...] = positions
        uniform = room.uniform[:size]
        uniform[...] = seconds.view(np.int64)  # U − 1/2 in units of 2^−64: a signed word has U's top bit flipped
        limit = room.limit[:size]
        if self.blocks.decay.quadratic:
            slopes = np.take(self._slopes, entries, out=room.slopes[:size], mode="wrap")
            np.multiply(position, self._bend, out=limit)
            limit += slopes
            limit *= position
        else:
            np.multiply(position, self._slopes[0], out=limit)
        limit += self._clear
        accepted = np.less(uniform, limit, out=room.accepted[:size])
        open_cases = np.flatnonzero(~accepted)
        exponent = (limit[open_cases] - self._clear) / _TWO_64
        surplus = np.exp(exponent) - (uniform[open_cases] / _TWO_64 + 0.5)
        accepted[open_cases] = surplus > 0
        for index in open_cases[np.abs(surplus) <= self.guard]:
            start = self._starts[self._symbols[int(entries[index])]]
            accepted[index] = self.accepts_exactly(start, int(seconds[index]), entropy)
        return accepted

    def accepts_exactly(self, start: int, second_word: int, entropy: Entropy) -> bool:
        """Whether U < exp(−(h(start + d) − h(start))), decided with exact bounds and as many words as needed."""
        leading = (second_word ^ _TOP_BIT) >> self.position_bits
        position = second_word & ((1 << self.position_bits) - 1)
        unit = Fraction(1 << self.blocks.width_bits, 1 << self.position_bits)
        decay = self.blocks.decay
        if not self.blocks.continuous:
            return below_exp(decay.rise(start, position * unit), leading, self.acceptance_bits, entropy)
        bits = self.acceptance_bits
        while True:  # the position lies in [position, position + 1] · unit; both it and U gain a word per turn
            low, _ = exp_bounds(decay.rise(start, (position + 1) * unit), bits)
            _, high = exp_bounds(decay.rise(start, position * unit), bits)
            if leading + 1 <= low:
                return True
            if leading >= high:
                return False
            leading, bits = leading << 64 | next_word(entropy), bits + 64
            position, unit = position << 64 | next_word(entropy), unit / (1 << 64)

    def _reject_outside(self, values: NDArray[np.int64], accepted: NDArray[np.bool_]) -> None:
        """Reject what the last blocks of a truncated law hold beyond its support."""
        positive, negative = self.blocks.positive_values, self.blocks.negative_values
        if positive is not None and negative is not None:
            accepted &= values < positive
            accepted &= values >= -negative


class _Room:
    """Working arrays of one call, reused for every chunk."""

    def __init__(self, size: int) -> None:
        self.entries, self.positions = np.empty(size, np.int64), np.empty(size, np.int64)
        self.cuts, self.accepted = np.empty(size, np.uint64), np.empty(size, np.bool_)
        self.position, self.uniform, self.limit, self.slopes = (np.empty(size) for _ in range(4))


def _close_gaps(values: NDArray[np.int64], accepted: NDArray[np.bool_]) -> int:
    """Move accepted values from the end into the places of rejected ones; return how many were accepted.

    The moves depend on the flags alone, and accepted values are independent of where they stand, so their law is
    untouched.
    """
    count = int(np.count_nonzero(accepted))
    gaps = np.flatnonzero(~accepted[:count])
    values[gaps] = values[count:][accepted[count:]]
    return count
