"""Every draw of counting: its law, what it is added to, and that together they cost what the plan says."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import dphist as dp
from adaptive_tables import chosen, codes_of, counted, zipf
from dphist.engines.histogram import LocalGroups
from dphist.engines.memory import MemoryPairs
from dphist.ledger.accountant import price
from dphist.mechanisms.adaptive import AdaptiveGaussian
from dphist.mechanisms.counts import CountNoise
from dphist.mechanisms.tuning import LATTICE_BITS, ONE, SCALE_BITS
from dphist.mechanisms.voting import Voting
from dphist.noise import DiscreteLaplace, RoundedGaussian
from dphist.planning import Plan
from dphist.privacy.gaussian import delta_gaussian
from dphist.privacy.voting import delta_of
from dphist.run import counting
from dphist.run.counting import Classes, edges
from dphist.run.rounds import select
from drawn_laws import Draw, Integers, recorded, silence

SUMS: dict[str, Any] = {"sums": {"x": (-3.0, 5.0)}, "rows": 7, "weights": {"sum_x": 0.25, "rows": 3.0}}
BUDGET: dict[str, Any] = {"epsilon": 2.0, "delta": 1e-4}
LAWS = pytest.mark.parametrize("mechanism", ["adaptive", "voting"], ids=["gaussian", "laplace"])
ASKED = pytest.mark.parametrize("sums", [{}, SUMS], ids=["counts", "sums"])


def pairs_with_sums(plan: Plan, pairs: MemoryPairs) -> MemoryPairs:
    rng = np.random.default_rng(2)
    steps = {
        a.name: rng.integers(-a.sensitivity_steps, a.sensitivity_steps + 1, len(pairs.unit)).astype(np.int64)
        for a in plan.request.measures
    }
    return MemoryPairs.of_rows(pairs.unit, pairs.group, pairs.units, pairs.groups, None, steps)


def selected_of(plan: Plan, pairs: MemoryPairs) -> LocalGroups:
    """All groups, with noisy sizes where a mechanism has them."""
    sizes = np.bincount(pairs.group, minlength=pairs.groups).astype(np.float64)
    return chosen(
        np.flatnonzero(sizes > 20), sizes[sizes > 20] if plan.mechanism.name == "adaptive" else 0 * sizes[sizes > 20]
    )


def noise_of(plan: Plan) -> CountNoise:
    assert plan.mechanism.counts is not None
    return plan.mechanism.counts


def moved_by(draw: Draw, by: float) -> float:
    """What a unit that moves everything under this noise by `by` in all, in the norm of the law, costs: mu, or epsilon."""
    if isinstance(draw.law, RoundedGaussian):
        return by / float(draw.law.std)
    assert isinstance(draw.law, DiscreteLaplace)
    return float(Fraction(by) / draw.law.scale)


@LAWS
@ASKED
def test_norms_counts_and_sums_are_exact_values_and_noise_of_their_own(
    mechanism: str, sums: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """And the bounds that units are put into classes by, and cut to, are those that the noise is for."""
    plan = dp.plan(**BUDGET, **sums, mechanism=mechanism)
    pairs, noise = pairs_with_sums(plan, zipf(3000, 40, 4, 1)), noise_of(plan)
    histograms: list[NDArray[np.float64]] = []
    norms_from = counting.norms_from

    def spied(noisy: NDArray[np.float64], *others: Any) -> counting.Norms:
        histograms.append(noisy)
        return norms_from(noisy, *others)

    monkeypatch.setattr(counting, "norms_from", spied)
    selected = selected_of(plan, pairs)
    with recorded() as draws:
        noisy = counted(plan.mechanism, pairs, selected, plan.measures)
    codes, power, classes = codes_of(selected), noise.power, noisy.classes
    assert 10 < len(codes) < 100
    weights = np.zeros(pairs.groups, np.int64)
    weights[codes] = noisy.weights
    assert 0 < noisy.weights.min() <= noisy.weights.max() <= ONE

    histogram, scaled, *others = draws
    classed, added = others[: len(classes.bounds)], others[len(classes.bounds) :]
    assert [len(draw.noise) for draw in draws] == [len(edges(power)), *[len(codes)] * (1 + len(others))]
    exact = pairs.norms(weights, edges(power), power)
    assert exact.sum() > 1000
    assert histograms[0].tolist() == (exact + histogram.noise / 2**LATTICE_BITS).tolist()
    shifts = {a.name: max(0, 20 - a.sensitivity_steps.bit_length()) for a in plan.request.measures}
    sums_of = pairs.class_sums(weights, codes, classes.bounds, power, shifts)
    factors = np.array(classes.factors(noise))
    assert noisy.scaled.tolist() == ((sums_of["units"] * factors).sum(axis=1) + scaled.noise).tolist()
    assert np.count_nonzero(sums_of["units"].sum(axis=0)) > 2
    for place, draw in enumerate(classed):
        assert noisy.by_class[:, place].tolist() == (sums_of["units"][:, place] + draw.noise).tolist()
    assert len(added) == 2 * len(noisy.sums) == 2 * len(shifts)
    parts = (slice(None, classes.light), slice(classes.light, None))
    left = iter(added)
    for name in shifts:
        for part, published in zip(parts, noisy.sums[name], strict=True):
            assert published.tolist() == (sums_of[name][:, part].sum(axis=1) + next(left).noise).tolist()
    numbers = np.concatenate([draw.noise for draw in draws])
    assert len(np.unique(numbers)) == len(numbers)


DIVIDED = pytest.mark.parametrize(
    ("bounds", "light"), [((0.25,), 1), ((1.0, 4.0), 1), ((0.59, 1.19, 2.38, 4.76, 1024.0), 3), ((1.0, 2.0), 2)]
)


@LAWS
@ASKED
@DIVIDED
def test_everything_that_is_drawn_costs_what_the_plan_says(
    mechanism: str, sums: dict[str, Any], bounds: tuple[float, ...], light: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A unit moves one bucket by 1, its class by C^(1/q), scaled counts by that of the last whole class, a sum likewise."""
    plan = dp.plan(**BUDGET, **sums, mechanism=mechanism)
    pairs, noise = pairs_with_sums(plan, zipf(3000, 40, 4, 1)), noise_of(plan)
    q = noise.power
    whole, last = tuple(int(bound * ONE**q) for bound in bounds), 1 + light % len(bounds)
    monkeypatch.setattr(counting, "choose_classes", lambda norms, power, tuning: Classes(whole, light, power, last))
    selected = selected_of(plan, pairs)
    with recorded(silence) as draws:
        if isinstance(plan.mechanism, AdaptiveGaussian):
            select(plan.mechanism, pairs)
        counted(plan.mechanism, pairs, selected, plan.measures)
    rounds, (histogram, scaled, *others) = (
        draws[: -2 - len(bounds) - 2 * len(plan.measures)],
        draws[-2 - len(bounds) - 2 * len(plan.measures) :],
    )
    assert len(rounds) == (4 if mechanism == "adaptive" else 0)
    reach = [(bound / ONE**q) ** (1 / q) for bound in whole]
    bits = (LATTICE_BITS, LATTICE_BITS + SCALE_BITS)
    if mechanism == "adaptive":  # the law knows its lattice
        assert [d.law.lattice_bits for d in draws if isinstance(d.law, RoundedGaussian)] == [
            *[LATTICE_BITS] * 5, bits[1], *[LATTICE_BITS] * len(bounds), *[0] * (2 * len(plan.measures)),
        ]  # fmt: skip
        bits = (0, 0)
    of_classes = [moved_by(draw, by * 2.0 ** bits[0]) for by, draw in zip(reach, others, strict=False)]
    assert max(of_classes) == pytest.approx(min(of_classes), rel=1e-9)
    of_sums = []
    added = others[len(bounds) :]
    for number, a in enumerate(plan.request.measures):
        most = a.sensitivity_steps * 2 ** max(0, 20 - a.sensitivity_steps.bit_length())
        halves = [
            moved_by(draw, by * most)
            for by, draw in zip((reach[light - 1], reach[-1]), added[2 * number : 2 * number + 2], strict=True)
        ]
        assert max(halves) == pytest.approx(min(halves), rel=1e-9)
        of_sums.append(max(halves))
    parts = [
        *(moved_by(draw, 1.0) for draw in rounds),
        moved_by(histogram, 2.0 ** bits[0]),
        moved_by(scaled, reach[last - 1] * 2.0 ** bits[1]),
        max(of_classes),
        *of_sums,
    ]
    cost = price(plan.event, 2.0)
    if isinstance(plan.mechanism, AdaptiveGaussian):
        mu = math.sqrt(math.fsum(part**2 for part in parts))
        assert mu <= plan.mechanism.mu <= mu * (1 + 1e-9)
        assert 0.45e-4 <= float(delta_gaussian(mu, 2.0)) <= 1e-4
        assert plan.mechanism.mu <= cost.mu <= plan.mechanism.mu * (1 + 1e-9)
        assert plan.mechanism.delta_infinity() <= cost.mu_delta
        return
    assert isinstance(plan.mechanism, Voting)
    pure = math.fsum(parts)
    assert pure * (1 - 1e-12) <= float(plan.mechanism.pure_epsilon) <= pure * (1 + 1e-9)
    assert plan.mechanism.delta(2.0) >= delta_of(plan.mechanism.probabilities, 2.0 - pure * (1 - 1e-9)) * (1 - 1e-12)
    assert plan.mechanism.vote_epsilon + pure == pytest.approx(2.0, rel=1e-9)
    assert cost.mu_delta >= delta_of(plan.mechanism.probabilities, plan.mechanism.vote_epsilon)


def test_noise_is_never_less_than_it_is_accounted_for() -> None:
    """The products that laws are built from are rounded up."""
    rng = np.random.default_rng(1)
    for _ in range(200):
        unit, share, bound = (float(x) for x in rng.lognormal(0, 2, 3))
        for law in ("gaussian", "laplace"):
            noise = CountNoise(law, unit, unit * 1.7, share / (1 + share))
            for drawn, size, of in (
                (noise.histogram_law(), noise.histogram_noise, 1.0),
                (noise.class_law(bound), noise.class_noise, bound),
                (noise.scaled_law(bound), noise.scaled_noise, bound),
            ):
                if isinstance(drawn, RoundedGaussian):
                    assert drawn.std**2 >= Fraction(size) ** 2 * Fraction(of)
                else:
                    assert isinstance(drawn, DiscreteLaplace)
                    assert drawn.scale >= Fraction(size) * Fraction(of) * 2**LATTICE_BITS
            split = 1 / Fraction(noise.scaled_noise) ** noise.power + 1 / Fraction(noise.class_noise) ** noise.power
            assert split <= 1 / Fraction(noise.unit_noise) ** noise.power


def test_steps_of_the_laws() -> None:
    """Discrete Laplace noise has no lattice of its own: its scale is in steps."""
    noise = CountNoise("laplace", 3.0, 5.0, 0.5)
    wanted: list[tuple[Any, Integers | int]] = [
        (noise.histogram_law(), LATTICE_BITS),
        (noise.class_law(2.0), LATTICE_BITS),
        (noise.scaled_law(2.0), LATTICE_BITS + SCALE_BITS),
    ]
    sizes = (3.0, 20.0, 20.0)
    for (law, bits), size in zip(wanted, sizes, strict=True):
        assert float(law.scale) / 2.0**bits == pytest.approx(size)
