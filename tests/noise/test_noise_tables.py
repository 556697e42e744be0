from __future__ import annotations

import functools
import math
from fractions import Fraction

import mpmath as mp
import numpy as np
import pytest

from dphist.errors import InvalidParameter
from dphist.noise import (
    DiscreteGaussian,
    DiscreteLaplace,
    Law,
    RoundedGaussian,
    TruncatedDiscreteLaplace,
    delta_surcharge,
    sampler_error,
)
from dphist.noise.blocks import (
    TOTAL_BITS,
    WEIGHT_BITS,
    AliasTable,
    Blocks,
    block_weights,
    blocks_of,
    build_alias_table,
    round_to_total,
)
from dphist.noise.enclosure import exp_bounds
from dphist.noise.sampling import sampler_of
from example_numbers import some

LAWS: list[Law] = [
    DiscreteGaussian(Fraction(1, 400)),
    DiscreteGaussian(Fraction(1)),
    DiscreteGaussian(Fraction(2228) ** 2),
    DiscreteGaussian(Fraction(10**12)),
    DiscreteGaussian(Fraction(1 << 90)),
    RoundedGaussian(Fraction(1, 20), 0),
    RoundedGaussian(Fraction(15, 7), 0),
    RoundedGaussian(Fraction(10**6), 20),
    DiscreteLaplace(Fraction(1, 20)),
    DiscreteLaplace(Fraction(10)),
    DiscreteLaplace(Fraction(10**6)),
    DiscreteLaplace(Fraction(1 << 45)),
    TruncatedDiscreteLaplace(Fraction(1), 0),
    TruncatedDiscreteLaplace(Fraction(1), 27),
    TruncatedDiscreteLaplace(Fraction(1, 10**4), 10**5),
    TruncatedDiscreteLaplace(Fraction(1, 10**4), 10**5 + 1),
    TruncatedDiscreteLaplace(Fraction(1, 100), 10**7),
]
SOME = some(LAWS, 8)
"""For high precision in every block: the first and the last, narrow and wide ones of every kind."""


def table_law(table: AliasTable) -> list[int]:
    """The probability of each symbol, times 2^128, exactly."""
    masses = [0] * len(table.thresholds)
    for column, (threshold, alias) in enumerate(zip(table.thresholds, table.aliases, strict=True)):
        masses[column] += threshold
        masses[alias] += (1 << table.threshold_bits) - threshold
    return masses


def _exact(value: Fraction) -> mp.mpf:
    return mp.mpf(value.numerator) / value.denominator


@functools.cache
def _ideal_weights(law: Law) -> list[mp.mpf]:
    """To 100 digits."""
    blocks = blocks_of(law)
    with mp.workdps(100):
        return [mp.exp(-_exact(blocks.decay(start))) for start in blocks.starts]


@pytest.mark.parametrize("law", SOME)
def test_weights_are_within_one_unit(law: Law) -> None:
    blocks = blocks_of(law)
    with mp.workdps(100):
        for weight, ideal in zip(block_weights(blocks), _ideal_weights(law), strict=True):
            assert -1 < weight - ideal * 2**WEIGHT_BITS < mp.mpf(10) ** -20


@pytest.mark.parametrize("law", LAWS)
def test_the_alias_table_has_exactly_the_masses_it_was_built_from(law: Law) -> None:
    masses = round_to_total(block_weights(blocks_of(law)))
    table = build_alias_table(masses, blocks_of(law).index_bits)
    assert sum(masses) == 1 << TOTAL_BITS
    assert table_law(table)[: len(masses)] == masses
    assert not any(table_law(table)[len(masses) :])
    assert all(0 <= threshold <= 1 << table.threshold_bits for threshold in table.thresholds)


def test_alias_tables_of_even_masses_have_no_light_columns() -> None:
    table = build_alias_table([1 << (TOTAL_BITS - 2)] * 4, 2)
    assert table_law(table) == [1 << (TOTAL_BITS - 2)] * 4
    assert table.aliases == (0, 1, 2, 3)


@pytest.mark.parametrize("law", LAWS)
def test_blocks_are_narrow_and_start_below_two_to_the_52(law: Law) -> None:
    """The guard band of the sampler rests on these two."""
    blocks = blocks_of(law)
    if blocks.rejects:
        assert blocks.steepest_rise < Fraction(71, 100)
        assert blocks.steepest_rise == max(blocks.decay.rise(start, blocks.width) for start in blocks.starts)
    assert max(blocks.starts) <= 1 << 52
    sampler = sampler_of(law)
    assert sampler.acceptance_bits >= 22


@pytest.mark.parametrize("law", SOME)
def test_the_stated_error_bounds_the_distance_computed_from_the_tables(law: Law) -> None:
    """TV between the sampler's law and the exact one, block by block with high precision.

    Inside a block both laws have the same shape, so their distance is half the sum over blocks of the differences of
    the accepted block masses, plus the missing tail.
    """
    blocks, masses = blocks_of(law), table_law(sampler_of(law).alias)
    with mp.workdps(80):
        ideal = _ideal_weights(law)
        starts = blocks.starts
        accepted = [_acceptance(blocks, start) if blocks.rejects else mp.mpf(1) for start in starts]
        table = [mp.mpf(mass) * share for mass, share in zip(masses, accepted, strict=False)]
        exact = [weight * share for weight, share in zip(ideal, accepted, strict=True)]
        table_total, exact_total = mp.fsum(table), mp.fsum(exact)
        distance = mp.fsum(abs(t / table_total - e / exact_total) for t, e in zip(table, exact, strict=True)) / 2
        error = _exact(sampler_error(law))
        assert distance <= error <= mp.mpf(2) ** -115
        # The bound is not wildly loose either: the tables are nearly as good as 2^−128 allows.
        assert error <= distance * 100 + mp.mpf(2) ** -124


def _acceptance(blocks: Blocks, start: int) -> mp.mpf:
    """The probability that a proposal in this block is accepted, by Simpson's rule; the same for all blocks of a line."""
    if not blocks.decay.quadratic:
        return mp.mpf(1)
    rises = [_exact(blocks.decay.rise(start, Fraction(blocks.width * step, 2))) for step in range(3)]
    return (mp.exp(-rises[0]) + 4 * mp.exp(-rises[1]) + mp.exp(-rises[2])) / 6


def test_tail_beyond_eight_standard_deviations_from_the_tables() -> None:
    """Golden value: P(|x| > 8σ) = 1.24192584574e-15 at σ = 2228."""
    law = DiscreteGaussian(Fraction(2228) ** 2)
    blocks, masses = blocks_of(law), table_law(sampler_of(law).alias)
    starts = np.array(blocks.starts)[:, None]
    positions = starts + np.arange(blocks.width)
    shares = np.exp(-(positions**2 - starts**2) / (2 * 2228.0**2))
    weights = np.array([float(mass) for mass in masses[: len(starts)]])[:, None] * shares
    tail = math.fsum(weights[positions > 8 * 2228]) / math.fsum(weights.ravel())
    assert tail == pytest.approx(1.24192584574e-15, rel=1e-11)


@pytest.mark.parametrize("bits", [1, 24, 64, 128, 1000])
@pytest.mark.parametrize("gamma", [Fraction(0), Fraction(1, 1 << 300), Fraction(1, 3), Fraction(20), Fraction(10**30)])
def test_exponential_bounds_enclose(gamma: Fraction, bits: int) -> None:
    low, high = exp_bounds(gamma, bits)
    with mp.workdps(400):
        assert low <= mp.exp(-_exact(gamma)) * 2**bits <= high <= 1 << bits
    assert high - low <= 2


def test_the_surcharge_is_the_formula_rounded_up() -> None:
    error = sampler_error(DiscreteGaussian(Fraction(10**6)))
    for epsilon in (0.0, 0.35, 1.0, 10.0, 100.0):
        for changed in (0, 1, 1000):
            with mp.workdps(60):
                exact = (1 + mp.exp(mp.mpf(epsilon))) * (changed + 1) * _exact(error)
                surcharge = delta_surcharge(epsilon, changed, error)
                assert exact <= surcharge <= exact * (1 + mp.mpf(2) ** -50) or surcharge == 1 < exact
    assert delta_surcharge(1.0, 10, error) < 1e-32
    assert delta_surcharge(90.0, 0, Fraction(1)) == 1.0
    assert delta_surcharge(701.0, 0, error) == 1.0
    assert delta_surcharge(math.inf, 0, error) == 1.0


@pytest.mark.parametrize(("epsilon", "changed"), [(-0.1, 1), (math.nan, 1), (1.0, -1)])
def test_the_surcharge_refuses_nonsense(epsilon: float, changed: int) -> None:
    with pytest.raises(InvalidParameter):
        delta_surcharge(epsilon, changed, Fraction(1, 1 << 115))
