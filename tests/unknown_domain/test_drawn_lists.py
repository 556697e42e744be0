"""Every draw of a list and of a stream: its law, what it is added to, and that it costs what is claimed."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any, TypeAlias

import numpy as np
import pytest
from numpy.typing import NDArray
from records import GaussianRecords, LaplaceRecords
from scipy.special import ndtr

from dphist.ledger.accountant import price
from dphist.mechanisms import (
    ContinualCounts,
    CorrelatedTopK,
    FromTop,
    Ranked,
    continual,
    correlated_top_k,
    ranked,
)
from dphist.mechanisms import from_top as from_tops
from dphist.mechanisms.lattice import LARGEST_COUNT
from dphist.noise import DiscreteGaussian, DiscreteLaplace, Law, RoundedGaussian
from dphist.privacy import unknown_domain
from dphist.privacy.composition import delta_from_rho
from dphist.privacy.gaussian import delta_gaussian
from drawn_laws import Integers, recorded, silence

Floats: TypeAlias = NDArray[np.float64]
LARGEST = np.array([900, 700, 650, 600, 0], np.int64)


def test_from_top_noises_the_threshold_and_every_count() -> None:
    mechanism = FromTop(3, 2.5, 20)
    with recorded() as draws:
        kept, limit = mechanism.perturb(LARGEST)
    assert [draw.law for draw in draws] == [DiscreteGaussian(Fraction(25, 4))] * 2
    assert [len(draw.noise) for draw in draws] == [1, 3]
    assert limit == 600 + 20 + int(draws[0].noise[0])
    noisy = LARGEST[:3] + draws[1].noise
    assert kept.index.tolist() == np.flatnonzero(noisy > limit).tolist()
    assert kept.noisy.tolist() == noisy[noisy > limit].tolist()
    with recorded() as draws:
        kept, limit = mechanism.perturb(np.array([50, 0], np.int64))
    assert limit == 20 + int(draws[0].noise[0])
    assert len(draws[1].noise) == 1  # nobody is in the other


def test_from_top_hides_a_count_exactly_at_the_noisy_threshold() -> None:
    mechanism = FromTop(3, 2.5, 20)
    with recorded(silence):
        kept, limit = mechanism.perturb(np.array([131, 120, 119, 100], np.int64))
        assert limit == 120
        assert kept.index.tolist() == [0]
        # Counts are cut at the public limit, the (k + 1)-th too.
        huge = np.array([LARGEST_COUNT + 9, 50, 40, 30], np.int64)
        assert mechanism.perturb(huge)[0].noisy.tolist() == [LARGEST_COUNT]
        assert mechanism.perturb(np.full(4, LARGEST_COUNT + 9))[1] == LARGEST_COUNT + 20


def whole(law: Law, reach: int) -> tuple[Integers, Floats]:
    """Every value in a window with its probability, by a plain formula."""
    z = np.arange(-reach, reach + 1)
    if isinstance(law, RoundedGaussian):
        std = float(law.std)
        return z, ndtr((0.5 - np.abs(z)) / std) - ndtr((-0.5 - np.abs(z)) / std)
    assert isinstance(law, DiscreteGaussian)
    weights = np.exp(-(z**2) / (2 * float(law.variance)))
    return z, weights / weights.sum()


def profile(law: Law, squared: int, epsilon: float) -> float:
    """The delta of the noise alone, where one unit moves counts by sqrt(squared)."""
    if isinstance(law, RoundedGaussian):
        return float(delta_gaussian(math.sqrt(squared) / float(law.std), epsilon))
    assert isinstance(law, DiscreteGaussian)
    return delta_from_rho(float(squared / (2 * law.variance)), epsilon)


@pytest.mark.parametrize("rounded", [True, False])
@pytest.mark.parametrize("max_groups", [None, 2, 9])
def test_from_top_costs_what_its_noise_does(max_groups: int | None, rounded: bool) -> None:
    """mu or rho of the drawn law; the chance that a new group passes, by a plain sum over both noises."""
    mechanism = from_tops.calibrate(1.0, 1e-6, 4, max_groups)
    assert mechanism.rounded
    if not rounded:
        std, threshold = mechanism.noise_std * 1.1, mechanism.threshold + 20
        mechanism = FromTop(4, std, threshold, max_groups)
    with recorded(silence) as draws:
        mechanism.perturb(LARGEST)
    law = draws[0].law
    moved, new = (5, 4) if max_groups is None else (min(max_groups, 5), min(max_groups, 4))
    z, pmf = whole(law, 600)
    tails = np.cumsum(pmf[::-1])[::-1]
    needed = np.clip(mechanism.threshold - 1 + z + 1 + 600, 0, 1200)  # Z >= T - 1 + Z0 + 1
    passes = [float(pmf @ -np.expm1(a * np.log1p(-np.minimum(tails[needed], 1 - 1e-15)))) for a in range(new + 1)]
    assert passes[new] <= mechanism.delta_infinity() <= passes[new] * (1 + 1e-6)
    cost = price(mechanism.event(1.0))
    noise = profile(law, moved, 1.0)
    if rounded:
        assert isinstance(law, RoundedGaussian)
        # a groups are exchanged: as many of the moved counts are hidden, and the next largest may move
        mixed = max(noise, *(passes[a] + profile(law, new + 1 - a, 1.0) for a in range(1, new + 1)))
        assert 0.5e-6 <= mixed <= mechanism.delta(1.0) <= min(1e-6, mixed * (1 + 1e-4))
        mu = math.sqrt(moved) / float(law.std)
        assert mu <= cost.mu <= mu * (1 + 1e-9)
        assert cost.mu_delta >= passes[new]
    else:
        assert passes[new] + noise <= mechanism.delta(1.0)
    rho = float(moved / (2 * Fraction(mechanism.noise_std) ** 2))
    assert rho <= mechanism.rho <= cost.rho <= rho * (1 + 1e-9)
    assert cost.rho_delta >= passes[new]


def test_correlated_top_k_noises_base_and_counts_and_shares_one_noise() -> None:
    mechanism = CorrelatedTopK(3, 2.0, 0.25, 0.5, threshold=1.0 + 2.0**-12)
    with recorded() as draws:
        kept, base = mechanism.perturb(LARGEST)
    common, of_base, own = draws
    assert common.law == RoundedGaussian(Fraction(1.0), 12)
    assert of_base.law == RoundedGaussian(Fraction(math.sqrt(0.5) * 2.0), 12)
    assert own.law == RoundedGaussian(Fraction(2), 12)
    assert [len(draw.noise) for draw in draws] == [1, 1, 3]
    assert base == (600 << 12) + int(of_base.noise[0]) - int(common.noise[0])
    # What is published is the count with its own noise and that of the base: the common noise cancels.
    assert kept.noisy.tolist() == ((LARGEST[:3] << 12) + own.noise + int(of_base.noise[0])).tolist()


def test_correlated_top_k_hides_a_residual_exactly_at_the_threshold() -> None:
    mechanism = CorrelatedTopK(3, 2.0, 0.25, 0.5, threshold=20.0)
    with recorded(silence) as draws:
        kept, base = mechanism.perturb(np.array([121, 120, 100, 100], np.int64))
    assert kept.index.tolist() == [0]
    assert base == 100 << 12
    assert len(draws[2].noise) == 2  # a group no larger than the next one is never looked at

    def common_alone(position: int, size: int) -> Integers:
        return np.full(size, 1 if position == 0 else 0, np.int64)

    with recorded(common_alone):
        kept, _ = mechanism.perturb(np.array([121, 120, 100, 100], np.int64))
    assert kept.index.tolist() == [0, 1]  # one step of the common noise lifts all of them


def test_correlated_top_k_costs_what_its_noise_does() -> None:
    """The largest over moved counters of the squared shift, the common noise taking up what it can."""
    k = 4
    mechanism = correlated_top_k.calibrate(1.0, 1e-6, k)
    with recorded(silence) as draws:
        mechanism.perturb(LARGEST)
    common, base, own = (float(draw.law.std) for draw in draws)  # type: ignore[union-attr]
    c, c0 = (common / own) ** 2, (base / own) ** 2
    weight = k + 1 / c0 + 1 / c
    squared = max(p - p * p / weight for q in range(k + 1) for p in (q, q + 1 / c0))
    mu = math.sqrt(squared) / own
    cost = price(mechanism.event(1.0))
    assert mu <= cost.mu <= mu * (1 + 1e-6)
    nodes, weights = np.polynomial.hermite_e.hermegauss(200)
    hidden = ndtr((mechanism.threshold - 1 - common * nodes) / own) ** k
    new = float(((1 - hidden) * weights).sum() / weights.sum())
    assert new * (1 - 1e-8) <= cost.mu_delta <= new * (1 + 1e-5)  # the quadrature is good to 1e-9
    assert max(new, float(delta_gaussian(mu, 1.0))) <= mechanism.delta(1.0) <= 1e-6


@pytest.mark.parametrize("per_group", [1, 3])
def test_ranked_choices_are_what_they_cost(per_group: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The scores and the coefficient that the exponential mechanism gets, STOP's among them."""
    mechanism = ranked.calibrate(1.0, 1e-6, 3, 4, max_per_group=per_group)
    seen: list[Any] = []

    def best(scores: Integers, coefficient: Fraction, k: int) -> Integers:
        seen.append((scores.tolist(), coefficient, k))
        return np.array([1, 4, 0], np.int64)

    monkeypatch.setattr(ranked, "exponential_top_k", best)
    chosen = mechanism.choose(np.array([900, 700, 650, 600, 500], np.int64), 3)
    scores, coefficient, wanted = seen[0]
    assert scores == [900, 700, 650, 600, 500 + mechanism.threshold]
    assert coefficient * per_group == Fraction(mechanism.symbol_epsilon)
    assert wanted == 3
    assert chosen.index.tolist() == [1]
    assert chosen.stopped
    assert chosen.symbols == 2
    # A new group has at most per_group more than the next one: the chance that one of four precedes STOP.
    ahead = 4 / (4 + math.exp(float(coefficient) * (mechanism.threshold - per_group)))
    assert ahead <= mechanism.delta_infinity() <= 1e-6
    mechanism.choose(np.full(5, LARGEST_COUNT + 9, np.int64), 3)
    assert seen[1][0] == [LARGEST_COUNT] * 4 + [LARGEST_COUNT + mechanism.threshold]
    assert Ranked(3, 4, 0.5, 9).rho == pytest.approx(3 * (0.5**2 / 8), rel=0.02)


RECORDS = [
    LaplaceRecords(2, 3, 9.0, 120.0),
    GaussianRecords(2, 3, 12.0, 120.0),
    GaussianRecords(2, 3, 12.0, 120.0, discrete=True),
]


@pytest.mark.parametrize("mechanism", RECORDS, ids=["laplace", "rounded", "discrete"])
def test_counts_of_records_have_the_noise_they_cost(mechanism: LaplaceRecords | GaussianRecords) -> None:
    """One unit adds three to each of two counts."""
    with recorded() as draws:
        kept = mechanism.perturb(LARGEST)
    (draw,) = draws
    bits = mechanism.lattice_bits if isinstance(mechanism, GaussianRecords) else 0
    assert kept.index.tolist() == [0, 1, 2, 3]  # nobody is in the other
    assert kept.noisy.tolist() == ((LARGEST[:4] << bits) + draw.noise).tolist()
    cost = price(mechanism.event(1.0))
    if isinstance(draw.law, DiscreteLaplace):
        assert isinstance(mechanism, LaplaceRecords)
        assert 2 * 3 / draw.law.scale == mechanism.pure_epsilon
    elif isinstance(draw.law, RoundedGaussian):
        mu = math.sqrt(2) * 3 / float(draw.law.std)
        assert mu <= cost.mu <= mu * (1 + 1e-9)
    else:
        assert isinstance(draw.law, DiscreteGaussian)
        rho = float(2 * 9 / (2 * draw.law.variance))
        assert rho <= cost.rho <= rho * (1 + 1e-9)


@pytest.mark.parametrize("rounded", [True, False])
def test_a_node_of_a_stream_has_the_noise_it_costs(rounded: bool) -> None:
    mechanism = continual.calibrate(1.0, 1e-6, 6, 2)
    assert mechanism.rounded
    if not rounded:
        mechanism = ContinualCounts(6, 2, mechanism.noise_std * 1.1, mechanism.threshold + 20)
    with recorded() as draws:
        noise = mechanism.draw(5)
    (draw,) = draws
    assert noise.tolist() == draw.noise.tolist()
    # Six rounds: an event is in at most three nodes of each of two trees.
    rho = float(2 * 3 / (2 * Fraction(mechanism.noise_std) ** 2))
    assert rho <= mechanism.rho <= rho * (1 + 1e-9)
    _, pmf = whole(draw.law, 900)
    sums, tails = pmf, []
    for _ in range(2):
        tails.append(float(sums[len(sums) // 2 + mechanism.threshold :].sum()))  # S > T - 1
        sums = np.convolve(sums, pmf)
    # 1, 2, 4 have one set bit, 3, 5, 6 two.
    new = 2 * (3 * tails[0] + 3 * tails[1])
    assert new <= mechanism.delta_infinity() <= new * (1 + (1e-3 if rounded else 1e-6))
    assert new + profile(draw.law, 6, 1.0) <= mechanism.delta(1.0) <= 1e-6
    cost = price(mechanism.event(1.0))
    assert cost.rho >= rho
    assert cost.rho_delta >= new
    assert (cost.mu <= math.sqrt(2 * rho) * (1 + 1e-9)) is rounded
    if rounded:
        lower = ContinualCounts(6, 2, mechanism.noise_std, mechanism.threshold - 1, rounded=True)
        assert lower.delta(1.0) > 1e-6


def test_an_event_is_in_as_many_nodes_as_it_costs() -> None:
    """Every prefix of a stream is cut into nodes; the most that one round is ever in, by listing them."""
    for rounds in range(1, 70):
        nodes: dict[int, set[tuple[int, int]]] = {t: set() for t in range(1, rounds + 1)}
        for prefix in range(1, rounds + 1):
            start = 0
            for level in reversed(range(8)):
                if prefix >> level & 1:
                    for t in range(start + 1, start + 2**level + 1):
                        nodes[t].add((level, start))
                    start += 2**level
        assert max(map(len, nodes.values())) == unknown_domain.levels(rounds)
