"""Counts given release: coverage, medians and their limits, from the laws themselves and not by simulation."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import log_ndtr, ndtr, ndtri

import dphist as dp
from dphist.mechanisms import CorrelatedGaussian, CorrelatedTopK, DiscreteCorrelatedGaussian, FromTop
from dphist.mechanisms.base import GroupMechanism
from dphist.mechanisms.conditional import Estimates, Noise, estimate_given_release, exact_quantile
from dphist.mechanisms.discrete import DiscreteGaussianThreshold
from dphist.mechanisms.laplace import laplace_quantile
from dphist.noise.laws import DiscreteGaussian, DiscreteLaplace, RoundedGaussian
from dphist.noise.tails import log_pmf
from dphist.noise.testing import SeededEntropy
from word_sources import words_from

Floats = NDArray[np.float64]
Answer = Callable[[Floats], Estimates]

NEGLIGIBLE = 1e-18
"""A chance that a million of its kind together do not make visible."""


def masses(law: object, reach: int) -> Floats:
    """P(Z = z) for z in -reach..reach, by the formulas of the laws."""
    z = np.arange(-reach, reach + 1)
    if isinstance(law, RoundedGaussian):
        std = float(law.lattice_std)
        return np.asarray(ndtr((0.5 - np.abs(z)) / std) - ndtr((-0.5 - np.abs(z)) / std))
    assert isinstance(law, DiscreteGaussian | DiscreteLaplace)
    return np.exp(log_pmf(law, z))


@dataclass(frozen=True)
class Released:
    """The law of a noisy count of n units that is above its threshold."""

    noisy: Floats
    chances: Floats

    def share(self, holds: NDArray[np.bool_]) -> float:
        return float(self.chances[holds].sum())


@functools.cache
def mass_of(noise: Noise) -> Floats:
    """The law of the noise, lattice step by lattice step."""
    reach = math.ceil(math.ldexp(13 * noise.std, noise.lattice_bits)) + 40
    mass = masses(noise.laws[0], reach)
    for law in noise.laws[1:]:
        mass = np.convolve(mass, masses(law, reach))
    return mass


def released(noise: Noise, threshold: float, n: float) -> Released:
    mass = mass_of(noise)
    half = len(mass) // 2
    noisy = n + np.ldexp(np.arange(-half, half + 1).astype(np.float64), -noise.lattice_bits)
    above = noisy > threshold
    chances = mass[above] / mass[above].sum()
    return Released(noisy[above][chances > NEGLIGIBLE], chances[chances > NEGLIGIBLE])


LAWS: dict[str, GroupMechanism] = {
    "sparse Gaussian": dp.SparseGaussian(10, 16.13, 97.75),
    "sparse Gaussian on a coarse lattice": dp.SparseGaussian(1, 1.0, 6.5, lattice_bits=2),
    "low threshold": dp.SparseGaussian(10, 16.13, 130.75, low_threshold=90),
    "Laplace": dp.LaplaceThreshold(3, 3.0, 60.0),
    "Laplace of one step": dp.LaplaceThreshold(1, 1.0, 20.0),
    "discrete Gaussian": DiscreteGaussianThreshold(2, 5.0, 31.0),
    "discrete Gaussian at epsilon = 11.9": DiscreteGaussianThreshold(1, 0.42, 4.0),
    "correlated Gaussian": CorrelatedGaussian(100, 100, 6.0, 0.2, 40.0, lattice_bits=5),
    "correlated Gaussian on a coarse lattice": CorrelatedGaussian(10, 10, 1.0, 0.4, 7.0, lattice_bits=2),
    "discrete correlated": DiscreteCorrelatedGaussian(10, Fraction(16), Fraction(2), 15.5),
}


def counts_near(mechanism: GroupMechanism, lowest: float = -2.0) -> list[int]:
    """Every count, or some, from two stds below the threshold to six above."""
    assert mechanism.threshold is not None
    start = max(math.ceil(mechanism.threshold + lowest * mechanism.noise_std), mechanism.low_threshold or 1)
    stop = math.ceil(mechanism.threshold + 6 * mechanism.noise_std) + 1
    return list(range(start, stop, max(1, round(mechanism.noise_std / 2))))


def at_counts(
    mechanism: GroupMechanism, counts: Iterable[int], answer: Answer
) -> Iterator[tuple[int, Released, Estimates]]:
    """The law at each count, with the answers to its noisy counts, which are asked for once: laws of close counts overlap."""
    assert mechanism.threshold is not None
    laws = {n: released(mechanism.count_noise(), mechanism.threshold, n) for n in counts}
    noisy = np.unique(np.concatenate([law.noisy for law in laws.values()]))
    found = answer(noisy)
    for n, law in laws.items():
        places = np.searchsorted(noisy, law.noisy)
        bounds = None if found.bounds is None else (found.bounds[0][places], found.bounds[1][places])
        yield n, law, Estimates(found.counts[places], found.std_errors[places], bounds)


def coverages(mechanism: GroupMechanism, counts: Iterable[int], answer: Answer) -> dict[int, float]:
    shares = {}
    for n, law, found in at_counts(mechanism, counts, answer):
        assert found.bounds is not None
        low, high = found.bounds
        shares[n] = law.share((low <= n) & (n <= high))
    return shares


@pytest.mark.parametrize("level", [0.95, 0.5])
@pytest.mark.parametrize("name", LAWS)
def test_intervals_cover_what_they_say_given_release(name: str, level: float) -> None:
    """At every count from two stds below the threshold; from further below too, where nothing but the floor is cut."""
    mechanism = LAWS[name]
    counts = [mechanism.low_threshold or 1, *counts_near(mechanism)]
    counts = [n for n in counts if n >= (mechanism.threshold or 0) - 8 * mechanism.noise_std]
    for n, share in coverages(mechanism, counts, lambda noisy: mechanism.given_release(noisy, level)).items():
        assert share >= level - 1e-9, n


@pytest.mark.parametrize("name", [*LAWS, "much common noise"])
def test_the_law_is_the_one_that_is_drawn(name: str) -> None:
    """1,500 counts far above the threshold: the largest distance of two distributions, alpha = 0.001; without its common noise
    the last law would be 0.16 off."""
    mechanism = LAWS.get(name, CorrelatedGaussian(10, 10, 1.0, 3.0, 12.0, lattice_bits=4))
    noise, far, draws = mechanism.count_noise(), 10**6, 1500
    law = released(noise, 0.0, far)
    with words_from(SeededEntropy(7)):
        if mechanism.correlation:  # one noise for all counts of a release
            drawn = np.array([mechanism.perturb(np.array([far])).counts[0] for _ in range(draws)])
        else:
            drawn = mechanism.perturb(np.full(draws, far)).counts
    shares = np.searchsorted(np.sort(drawn), law.noisy, side="right") / draws
    assert np.abs(shares - np.cumsum(law.chances)).max() < 1.95 / math.sqrt(draws)


def test_the_intervals_are_no_wider_than_they_must_be() -> None:
    """Where the lattice is fine the coverage is the level itself."""
    mechanism = LAWS["sparse Gaussian"]
    found = coverages(mechanism, counts_near(mechanism), lambda noisy: mechanism.given_release(noisy, 0.95))
    assert all(share < 0.9505 + 0.025 * (n < 67) for n, share in found.items())


@pytest.mark.parametrize("name", ["sparse Gaussian", "Laplace", "discrete Gaussian at epsilon = 11.9"])
def test_plain_intervals_fail_the_same_check(name: str) -> None:
    mechanism = LAWS[name]

    def plain(noisy: Floats) -> Estimates:
        reach = mechanism.noise_std * float(ndtri(0.975))
        return Estimates(noisy, np.full(len(noisy), mechanism.noise_std), (noisy - reach, noisy + reach))

    assert min(coverages(mechanism, counts_near(mechanism), plain).values()) < 0.86


@pytest.mark.parametrize("name", LAWS)
def test_estimates_are_median_unbiased_as_far_as_a_lattice_allows(name: str) -> None:
    """Never more than half of the releases are too low; too high at most half and the chance of the median itself."""
    mechanism = LAWS[name]
    assert mechanism.threshold is not None
    for n, law, found in at_counts(mechanism, counts_near(mechanism), mechanism.given_release):
        counts = found.counts
        assert law.share(counts < n) <= 0.5 + 1e-6, n
        median = law.chances[np.searchsorted(np.cumsum(law.chances), 0.5)]
        if n > mechanism.threshold - 1.9 * mechanism.noise_std:
            assert law.share(counts > n) <= 0.5 + median + 1e-6, n


def test_the_bias_is_gone() -> None:
    """At one std below the threshold the plain value is too high by 1.5 stds, the estimate by less than a quarter."""
    mechanism = LAWS["sparse Gaussian"]
    law = released(mechanism.count_noise(), 97.75, 82)
    assert float(law.chances @ (law.noisy - 82)) == pytest.approx(1.5 * 16.13, rel=0.02)
    for n, law, found in at_counts(mechanism, counts_near(mechanism, -1.0), mechanism.given_release):
        assert abs(float(law.chances @ (found.counts - n))) < 0.26 * 16.13
        assert law.share(np.abs(found.counts - n) <= found.std_errors) > 0.67


@pytest.mark.parametrize("std", [0.3, 16.13, 5e5])
def test_the_table_is_the_truncated_normal_law(std: float) -> None:
    """The root of P(Y >= y | Y > T; n) = a/2 by another method, where the table has one point in many of the lattice."""
    bits = 20
    noise = Noise((RoundedGaussian(Fraction(std), bits),), bits, std)
    for above in (0.02, 0.3, 1.0, 2.5, 7.0, 29.0, 40.0):
        y = round(std * above * 2**bits) * 2.0**-bits
        found = estimate_given_release(np.array([y]), 0.0, noise, least=-(10**9), level=0.9)
        assert found.bounds is not None
        for bound, share in zip(found.bounds, (0.05, 0.95), strict=True):
            half = 2.0 ** -(bits + 1)  # rounded to y or more: at least y - half

            def off(n: float, end: float = y + (half if share > 0.5 else -half), share: float = share) -> float:
                return float(log_ndtr((n - end) / std) - log_ndtr((n - half) / std) - math.log(share))  # noqa: B023

            if off(-40 * std) < 0:
                root = brentq(off, -40 * std, 60 * std, xtol=1e-12 * std)
                ends = min(root, found.counts[0]) if share < 0.5 else max(root, found.counts[0])
                assert bound[0] == pytest.approx(ends, abs=2e-5 * std)


NOISES = st.sampled_from([mechanism.count_noise() for mechanism in LAWS.values()])


@settings(max_examples=80, deadline=None)
@given(noise=NOISES, steps=st.lists(st.integers(1, 10**6), min_size=2, max_size=30), least=st.integers(1, 50))
def test_estimates_grow_with_the_noisy_count_and_tend_to_it(noise: Noise, steps: list[int], least: int) -> None:
    threshold, step = 50.0, 2.0**-noise.lattice_bits
    noisy = threshold + np.array(sorted(steps)) * step
    found = estimate_given_release(noisy, threshold, noise, least=least, level=0.95)
    assert found.bounds is not None
    low, high = found.bounds
    for values in (found.counts, low, high):
        assert (np.diff(values) >= 0).all()
    assert (found.counts <= noisy).all()
    assert (found.counts >= least).all()
    assert (low >= least).all()
    assert ((low <= found.counts) & (found.counts <= high)).all()
    assert (found.std_errors >= noise.std * (1 - 1e-12)).all()
    assert (np.ldexp(found.counts, noise.lattice_bits) % 1 == 0).all()
    far = noisy > threshold + 40 * noise.std + 8 * step
    assert (found.counts[far] == noisy[far]).all()
    assert found.std_errors[far] == pytest.approx(np.full(far.sum(), noise.std), rel=1e-6)


def test_an_estimate_ends_two_stds_below_the_threshold_or_at_the_smallest_count() -> None:
    noise = LAWS["Laplace"].count_noise()
    found = estimate_given_release(np.array([61.0]), 60.0, noise, level=0.95)
    assert found.bounds is not None
    assert found.counts.tolist() == [math.ceil(60 - 2 * noise.std)]
    assert found.bounds[0].tolist() == [1.0]
    assert estimate_given_release(np.array([61.0]), 60.0, noise, least=58).counts.tolist() == [58.0]


def test_the_correlated_list_is_conditional_on_its_cut_off() -> None:
    """Exact by quadrature: (y, base) on a grid, with a base that the estimate does not know."""
    mechanism = CorrelatedTopK(8, 4.0, 0.35, 0.7, 30.0)
    s, c, c0, truth, base = 4.0, 0.35, 0.7, 125.0, 100.0
    z = np.linspace(-7, 7, 141)
    own, common, of_base = (grid.ravel() for grid in np.meshgrid(z, z, z))
    weight = np.exp(-(own**2 + common**2 + of_base**2) / 2)
    noisy = truth + s * (own + math.sqrt(c0) * of_base)
    cut_off = base + s * (math.sqrt(c0) * of_base - math.sqrt(c) * common) + 30.0
    listed = noisy > cut_off
    weight, noisy, cut_off = weight[listed] / weight[listed].sum(), noisy[listed], cut_off[listed]
    counts = mechanism.given_cut_off(noisy, cut_off).counts
    assert float(weight[counts < truth].sum()) == pytest.approx(0.5, abs=0.02)
    assert float(weight[noisy < truth].sum()) < 0.3  # the plain value is too high much more often


@pytest.mark.parametrize("rounded", [False, True])
def test_a_list_from_the_top_is_conditional_on_its_cut_off(rounded: bool) -> None:
    mechanism = FromTop(5, 4.0, 30, rounded=rounded)
    noise = Noise((mechanism.law,), 0, mechanism.count_std)
    for truth in range(94, 120, 3):
        law = released(noise, 100, truth)
        counts = mechanism.given_cut_off(law.noisy, 100.0).counts
        assert law.share(counts < truth) <= 0.5
        assert law.share(counts > truth) <= 0.5 + law.chances.max()


def test_quantiles_of_discrete_noise_are_exact() -> None:
    """The normal quantile, 0.82, covers 88 % of this law with whole numbers; 1 is what covers 95 %."""
    mechanism = DiscreteGaussianThreshold(1, 0.42, 4.0)
    assert mechanism.noise_quantile(0.975) == 1.0 == -mechanism.noise_quantile(0.025)
    both = DiscreteCorrelatedGaussian(10, Fraction(16), Fraction(2), 15.5)
    mass = np.convolve(masses(DiscreteGaussian(Fraction(16)), 60), masses(DiscreteGaussian(Fraction(2)), 60))
    within = np.cumsum(mass)
    for probability in (0.5, 0.9, 0.975):
        assert 2 * both.noise_quantile(probability) == np.argmax(within >= probability - 1e-12) - 120
    assert exact_quantile(both.count_noise(), 0.4) == -exact_quantile(both.count_noise(), 0.6)


def test_one_laplace_noise_reaches_as_far_as_its_tail() -> None:
    """P(|Z| > x) = exp(-x/b); with a second noise that is nothing, the same to rounding."""
    scale = np.array([2.0, 5.0])
    alone = laplace_quantile([scale], 0.05)
    assert alone == pytest.approx(scale * math.log(20))
    assert laplace_quantile([scale, 0 * scale], 0.05) == pytest.approx(alone, rel=1e-6)
