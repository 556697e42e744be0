"""How far the sampled law is from the exact law, and what that adds to δ.

Three things separate a sampler from its law: the table rounds each block's probability to a multiple of 2^−128, the
weights it is built from are rounded, and blocks beyond the last one are missing. All three are computed, not
estimated, from the tables.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache

from dphist.errors import InvalidParameter
from dphist.noise.alias import TOTAL_BITS, round_to_total
from dphist.noise.blocks import WEIGHT_BITS, Blocks, block_weights, blocks_of
from dphist.noise.enclosure import exp_bounds
from dphist.noise.laws import Law

__all__ = ["delta_surcharge", "sampler_error"]

_BOUND_BITS = 256


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
    low, _ = exp_bounds(Fraction(epsilon), 2048)  # e^ε ≤ 1/low: the reciprocal of a lower bound, 2^2048 units wide
    surcharge = (1 + Fraction(1 << 2048, low)) * (changed_counters + 1) * error
    return 1.0 if surcharge >= 1 else math.nextafter(float(surcharge), 1.0)
