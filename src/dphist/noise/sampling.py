"""Draw noise: arrays of exact samples in NumPy, an exact decision behind every float comparison, and what sampling adds to δ.

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

Three things separate a sampler from its law: the table rounds each block's probability to a multiple of 2^−128, the
weights it is built from are rounded, and blocks beyond the last one are missing. All three are computed by `sampler_error`,
not estimated, from the tables.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache, partial

import numpy as np
from numpy.typing import NDArray

from dphist.errors import InvalidParameter
from dphist.noise.blocks import (
    TOTAL_BITS,
    WEIGHT_BITS,
    Blocks,
    block_weights,
    blocks_of,
    build_alias_table,
    round_to_total,
)
from dphist.noise.enclosure import exp_bounds, is_below, next_word
from dphist.noise.entropy import Entropy, current_source
from dphist.noise.laws import LARGEST_SAMPLE, Law, whole_number

CHUNK = 1 << 15
"""Proposals per round: the working arrays stay in the processor's cache and use about 3 MB whatever n is."""

_FLOAT_GUARD = 2.0**-44
_CONTINUOUS_POSITION_BITS = 32
_TOP_BIT = 1 << 63
_TWO_64 = 2.0**64
_BOUND_BITS = 256


def sample(law: Law, n: int) -> NDArray[np.int64]:
    """Draw n independent samples of a law, in its unit (lattice steps for a rounded Gaussian).

    The law of each is within `sampler_error(law)` of the exact one. Running time depends on how many proposals are
    rejected.
    """
    out = np.empty(whole_number("n", n, 0, LARGEST_SAMPLE), dtype=np.int64)
    sampler_of(law).fill(out, current_source())
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
        # (linear + 2·quadratic·start)·scale over one denominator: whole numbers are much faster than fractions, and are
        # rounded once.
        slope, more = blocks.decay.linear * scale, 2 * blocks.decay.quadratic * scale
        whole = slope.denominator * more.denominator
        first, each = int(slope * whole), int(more * whole)
        slopes = [(first + each * start) / whole for start in self._starts]
        self._slopes = np.array([slopes[symbol] for symbol in self._symbols])
        unread_position = 2.0 ** (1 - self.position_bits) if blocks.continuous else 0.0
        self.guard = 2.0**-self.acceptance_bits + unread_position + _FLOAT_GUARD
        # U = signed/2^64 + 1/2 < 1 − r − guard becomes signed < −r·2^64 + this.
        self._clear = (0.5 - self.guard) * _TWO_64

    def fill(self, out: NDArray[np.int64], entropy: Entropy) -> None:
        """Fill an array with samples, a chunk of proposals at a time."""
        room = Room(min(CHUNK, out.size))
        done = 0
        while done < out.size:
            values = out[done : done + CHUNK]
            accepted = self.propose(values, room, entropy)
            self._finish(values[:accepted])
            done += accepted

    def _finish(self, values: NDArray[np.int64]) -> None:
        """From accepted values to samples, in place."""
        if self.blocks.rounded_bits:
            values += 1 << (self.blocks.rounded_bits - 1)
            values >>= self.blocks.rounded_bits
        if self.blocks.shift:
            values += self.blocks.shift

    def propose(self, values: NDArray[np.int64], room: Room, entropy: Entropy) -> int:
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

    def _draw_blocks(self, words: NDArray[np.uint64], room: Room, entropy: Entropy) -> NDArray[np.int64]:
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
        self, entries: NDArray[np.int64], seconds: NDArray[np.uint64], room: Room, entropy: Entropy
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
            rise = decay.rise(start, position * unit)
            return is_below(partial(exp_bounds, rise), leading, self.acceptance_bits, entropy)
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


class Room:
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


@lru_cache(maxsize=64)
def sampler_error(law: Law) -> Fraction:
    """An upper bound on the total-variation distance between one sample and its law, about 2^−115.

    Let τ be the distance between the block probabilities of the table and the ideal ones. Acceptance maps both to
    subprobability measures: with acceptance a ∈ [0, 1] their l1 distance is at most 2τ and their masses differ by at
    most τ (the differences sum to zero). Dividing each by its own mass, A for the ideal one, leaves ‖·‖₁ ≤ (2τ +
    τ)/A, a distance of at most 3τ/(2A). Rounding and shifting the sample cannot increase it.
    """
    blocks = blocks_of(law)
    distance = _block_distance(blocks)
    if not blocks.rejects:
        return distance
    low, _ = exp_bounds(blocks.steepest_rise, _BOUND_BITS)
    acceptance = Fraction(low, 1 << _BOUND_BITS)
    if blocks.positive_values is not None:
        # The last block of a side may reach beyond the support. It is one of 1024 or more and none is lighter,
        # so at least half of the proposals fall in whole blocks.
        acceptance /= 2
    return Fraction(3, 2) * distance / acceptance


def _block_distance(blocks: Blocks) -> Fraction:
    """τ: the distance between the table's block probabilities and the ideal ones, rounded up.

    With ŵ the integer weights, w the ideal ones (ŵ is within one unit of w, and w ≥ 1 in total) and t the weight of
    the missing blocks, the triangle inequality adds the distances table–ŵ, ŵ–w and w–(w with the missing blocks).
    """
    weights = block_weights(blocks)
    total = sum(weights)
    masses = round_to_total(weights)
    rounding = sum(abs(mass * total - (weight << TOTAL_BITS)) for mass, weight in zip(masses, weights, strict=True))
    from_rounding = Fraction(rounding, 2 * total << TOTAL_BITS)
    from_weights = Fraction(len(weights), 1 << WEIGHT_BITS)
    missing = _missing_weight(blocks, 0, blocks.positive_blocks, blocks.positive_values)
    missing += _missing_weight(blocks, blocks.negative_start, blocks.negative_blocks, blocks.negative_values)
    return from_rounding + from_weights + missing


def _missing_weight(blocks: Blocks, first: int, count: int, values: int | None) -> Fraction:
    """An upper bound on the weight of all blocks of one side behind the last one.

    h is convex, so from one block to the next the weight falls at least by the first ratio: a geometric series bounds
    the sum.
    """
    if values is not None and count << blocks.width_bits >= values:
        return Fraction(0)
    start = (count << blocks.width_bits) + first
    _, weight = exp_bounds(blocks.decay(start), _BOUND_BITS)
    _, ratio = exp_bounds(blocks.decay.rise(start, blocks.width), _BOUND_BITS)
    return Fraction(weight, (1 << _BOUND_BITS) - ratio)


def delta_surcharge(epsilon: float, changed_counters: int, error: Fraction) -> float:
    """(1 + e^ε)·(j + 1)·error, rounded up: add it to δ to pay for the sampler not being its law exactly.

    j is the largest number of counters that one unit changes; one more draw is a noise that all counters share. With
    independent noise an unchanged counter has the same law on both sides and cancels; with a shared noise the proof
    shifts the noise of every counter, so that j is all of them. For those, replacing the laws P, Q
    of a mechanism by P', Q' within distance d = (j + 1)·error changes δ(ε) = sup P(S) − e^ε Q(S) by at most d + e^ε
    d. `error` is the largest `sampler_error` of the laws in use.
    """
    if math.isnan(epsilon) or epsilon < 0:
        raise InvalidParameter("epsilon ≥ 0", epsilon)
    if changed_counters < 0:
        raise InvalidParameter("changed_counters ≥ 0", changed_counters)
    if epsilon > 700:
        return 1.0
    surcharge = (1 + _exp_above(epsilon)) * (changed_counters + 1) * error
    return 1.0 if surcharge >= 1 else math.nextafter(float(surcharge), 1.0)


@lru_cache(maxsize=256)
def _exp_above(epsilon: float) -> Fraction:
    """e^ε, rounded up: the reciprocal of a lower bound on e^−ε, 2^2048 units wide. Kept: a plan asks for it again and again."""
    low, _ = exp_bounds(Fraction(epsilon), 2048)
    return Fraction(1 << 2048, low)
