"""For every kind of plan and of column: the noise that is drawn is the noise that is published and the noise that is paid for.

The budget is computed anew, from the drawn laws alone, by the plain formulas of the theorems.
"""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from scipy.special import ndtr
from scipy.stats import norm

import dphist as dp
from dphist.aggregates.base import Aggregate
from dphist.engines.histogram import ContributionBounds, Histogram, local_groups
from dphist.ledger.accountant import price
from dphist.mechanisms.lattice import enforce_sparsity
from dphist.noise import DiscreteGaussian, DiscreteLaplace, RoundedGaussian
from dphist.noise.laws import Law
from dphist.planning import Plan
from dphist.privacy.composition import delta_from_rho
from dphist.privacy.gaussian import delta_gaussian
from dphist.run.job import Work
from dphist.run.release import Selection
from drawn_laws import Draw, Integers, recorded

BUDGET: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-6, "total": True}
WEIGHTED: dict[str, Any] = {
    "sums": {"x": (-3.0, 5.0), "z": (2.0, 10.0)},
    "means": {"y": (0.0, 12.0)},
    "rows": 7,
    "variances": {"v": (-1.0, 3.0)},
    "count_of": ["w"],
    "distinct": {"d": 5},
    "records": 3,
    "weights": {"sum_x": 0.25, "mean_y": 3.0, "rows": 0.5},
}
PLANS: dict[str, dict[str, Any]] = {
    "sparse": {"max_groups": 3, "mechanism": "sparse-gaussian", **WEIGHTED},
    "sparse, low threshold": {"max_groups": 3, "mechanism": "sparse-gaussian", "low_threshold": 20},
    "laplace": {"max_groups": 3, "mechanism": "laplace", **WEIGHTED},
    "laplace, low threshold": {"max_groups": 2, "mechanism": "laplace", "low_threshold": 20},
    "correlated": {"sparsity": 8, "mechanism": "correlated-gaussian", **WEIGHTED},
    "correlated, low threshold": {"sparsity": 8, "mechanism": "correlated-gaussian", "low_threshold": 20},
    "listed": {"keys": 12, "max_groups": 4, "sparse": True, "mechanism": "correlated-gaussian", **WEIGHTED},
    "known": {"keys": 12, "max_groups": 4, "mechanism": "sparse-gaussian", **WEIGHTED},
    "known, all": {"keys": 12, "mechanism": "correlated-gaussian"},
    "known laplace": {"keys": 12, "max_groups": 4, "mechanism": "laplace", **WEIGHTED},
    "known laplace, one": {"keys": 12, "max_groups": 1},
    "known discrete": {"keys": 12, "max_groups": 4, "noise": "discrete", "mechanism": "sparse-gaussian"},
    "discrete": {"max_groups": 3, "noise": "discrete", "mechanism": "sparse-gaussian"},
    "discrete, low threshold": {"max_groups": 3, "noise": "discrete", "mechanism": "sparse-gaussian", "low_threshold": 20},
    "discrete correlated": {"sparsity": 8, "noise": "discrete", "mechanism": "correlated-gaussian"},
    "sketch": {"sketch": 8},
}  # fmt: skip
COUNTS = np.array([90_000, 70_000, 0, 45_000, 3, 1, 52_000, 61_000, 30_000, 2, 40_000, 81_000], np.int64)
STEPS = np.arange(12, dtype=np.int64) * 1000 - 4000
UNITS, COVERAGE = 123_456, (123_400, 56)


def plan_of(name: str) -> Plan:
    return dp.plan(**BUDGET, **PLANS[name])


def released(plan: Plan, counts: Integers = COUNTS) -> dp.Release:
    """In the order of the keys."""
    groups = len(counts)
    request = plan.request
    bounds = ContributionBounds(None if request.sketch else request.groups_per_unit, request.sketch)
    sums = {noisy.name: STEPS[:groups] * (i + 1) for i, noisy in enumerate(plan.measures)}
    keys, listed = pa.table({"k": [f"{i:02}" for i in range(groups)]}), request.keys is not None
    histogram = Histogram(keys, counts, bounds, sums, request.measures, UNITS, listed)
    selection = Selection("unit", ("k",), order="key", allow_negative=True)
    return Work(plan, selection).from_groups(replace(local_groups(histogram), coverage_of=lambda _: COVERAGE))


@pytest.mark.parametrize("name", PLANS)
def test_what_is_published_is_the_exact_value_and_noise_of_its_own(name: str) -> None:
    plan = plan_of(name)
    with recorded() as draws:
        table = released(plan).to_arrow()
    numbers = np.concatenate([draw.noise for draw in draws])
    assert len(np.unique(numbers)) == len(numbers)
    left = list(draws)
    mechanism, counts = plan.mechanism, COUNTS
    if mechanism.sparsity is not None:
        counts = enforce_sparsity(counts, mechanism.sparsity)
    shared = int(left.pop(0).noise[0]) if mechanism.correlation else 0
    # Each group that may be looked at has noise of its own, and no other group has any.
    low = mechanism.low_threshold
    eligible = np.arange(12) if low is None else np.flatnonzero(counts >= low)
    own = left.pop(0).noise
    assert len(own) == len(eligible)
    noisy = (counts[eligible] << mechanism.lattice_bits) + own + shared
    values = noisy / 2**mechanism.lattice_bits
    kept = np.ones(len(values), bool) if mechanism.threshold is None else values > mechanism.threshold
    assert table["k"].to_pylist() == [f"{i:02}" for i in eligible[kept]]
    assert table["count"].to_pylist() == values[kept].tolist()
    assert len(values[kept]) == 12 if low is None else 6 <= len(values[kept]) < 12
    sums = {}
    for i, measure in enumerate(plan.request.measures):
        noise = left.pop(0).noise
        assert len(noise) == np.count_nonzero(kept)
        sums[measure.name] = ((STEPS * (i + 1))[eligible[kept]] + noise) * measure.step
    for aggregate in plan.request.aggregates:
        stated = table[aggregate.name]
        there = stated.is_valid().to_numpy()  # some groups are too small for a mean
        exact = np.array(expected(aggregate, sums, values[kept]))[there]
        assert stated.drop_null().to_pylist() == pytest.approx(exact.tolist(), rel=1e-12)
        assert there.sum() >= 6
    check_totals(plan, left)


def expected(aggregate: Aggregate, sums: dict[str, np.ndarray], counts: np.ndarray) -> list[float]:
    """A column from noisy recentred sums and counts."""
    first = aggregate.measures[0]
    total = sums[first.name] + first.centre * counts
    if aggregate.kind == "mean":
        number = np.maximum(sums[f"present_{aggregate.column}"] + counts / 2, 1)
        total = np.clip(first.centre + sums[first.name] / number, aggregate.lower, aggregate.upper)
    if aggregate.kind == "variance":
        away, squares = (sums[measure.name] for measure in aggregate.measures[:2])
        number = np.maximum(sums[aggregate.measures[2].name] + aggregate.records / 2 * counts, 1)
        half = (aggregate.bounds[1] - aggregate.bounds[0]) / 2
        total = np.clip(squares / number + half**2 / 2 - (away / number) ** 2, 0, half**2)
    return total.tolist()  # type: ignore[no-any-return]


def check_totals(plan: Plan, left: list[Draw]) -> None:
    """The noise of totals is the last that was drawn: one number for each bucket of units, of the law that is paid for."""
    with recorded() as draws:
        found = released(plan)
    totals, noise = found.totals, draws[-1].noise.tolist()
    assert totals is not None
    assert plan.request.total_scale is not None
    assert [draw.law for draw in left] == [DiscreteLaplace(Fraction(plan.request.total_scale))]
    if totals.covered is None or totals.other is None:
        assert not plan.request.other
        assert totals.total.value == UNITS + noise[0]
        assert len(left[0].noise) == len(noise) == 1
        return
    assert plan.request.other
    assert len(left[0].noise) == len(noise) == 2
    assert [totals.covered.value, totals.other.value] == [COVERAGE[0] + noise[0], COVERAGE[1] + noise[1]]
    assert found.total == totals.total.value == sum(COVERAGE) + sum(noise)


@pytest.mark.parametrize("name", PLANS)
def test_the_noise_that_is_drawn_meets_the_budget(name: str) -> None:
    """delta of everything that is drawn at what the total leaves of epsilon; and the charge says the same."""
    plan = plan_of(name)
    with recorded() as draws:
        released(plan)
    total = draws.pop().law
    assert isinstance(total, DiscreteLaplace)
    left = Fraction(1) - 1 / total.scale
    assert left == pytest.approx(0.95)
    groups = PLANS[name].get("sparsity") or PLANS[name].get("sketch") or PLANS[name].get("max_groups") or 12
    of_all = PLANS[name].get("keys") or groups  # those that share a noise
    common = draws.pop(0).law if plan.mechanism.correlation else None
    own = draws.pop(0).law
    sums = [(a.sensitivity_steps, d.law) for a, d in zip(plan.request.measures, draws, strict=True)]
    cost = price(plan.event, 1.0)
    assert cost.epsilon == 1.0
    assert cost.delta <= 1e-6
    mechanism: Any = plan.mechanism
    gap = None if mechanism.threshold is None else mechanism.threshold - PLANS[name].get("low_threshold", 1)
    new = released_alone(own, groups, gap, common)
    if isinstance(own, DiscreteLaplace):
        pure = groups * (1 / own.scale + sum(steps / scale_of(law) for steps, law in sums))
        assert float(left) * (1 - 1e-9) <= pure <= left
        assert pure <= mechanism.pure_epsilon

        def noise(at: float) -> float:  # of one group alone, and no more than all of them
            return max(0.0, -math.expm1(at - float(pure)) / (1 + math.exp(-float(pure)))) if groups == 1 else 0.0

    elif isinstance(own, DiscreteGaussian):
        assert not sums
        rho = groups / (2 * own.variance)
        if common is not None:
            assert isinstance(common, DiscreteGaussian)
            rho = of_all / (2 * own.variance) + 1 / (2 * common.variance)  # a shift by half a unit in every counter
        assert rho <= Fraction(mechanism.rho)
        assert cost.rho > rho

        def noise(at: float) -> float:
            if gap is None:
                return delta_of_sum(at, float(own.variance), groups)
            return delta_from_rho(float(rho), at)

    else:
        assert isinstance(own, RoundedGaussian)
        mu = math.sqrt(squared_shift(groups, of_all, own, common, sums))
        alone = price(mechanism.event(float(left))).mu
        assert mu <= alone <= mu * (1 + 1e-6)
        assert cost.mu > alone  # the total is in the charge too

        def noise(at: float) -> float:
            return float(delta_gaussian(mu, at))

    assert new * (1 - 1e-6) <= cost.rho_delta  # quadrature
    assert noise(float(left)) <= 1e-6
    assert new <= 1e-6
    if gap is None and isinstance(own, DiscreteLaplace):  # nothing is left that needs a delta
        assert cost.delta == new == 0
    else:
        assert max(noise(float(left)), new) >= 0.4e-6
    # The profile is never below either, also where the noise decides, or a new group.
    for at in (0.05, float(left), 4.0):
        assert mechanism.delta(at) >= max(noise(at), new) * (1 - 1e-6)


def delta_of_sum(epsilon: float, variance: float, groups: int) -> float:
    """Discrete noise on some groups: the loss is a function of the sum of the noises, whose law is convolved."""
    x = np.arange(-400, 401)
    one = np.exp(-x * x / (2 * variance))
    law = np.ones(1)
    for _ in range(groups):
        law = np.convolve(law, one / one.sum())
    total = np.arange(len(law)) - 400 * groups
    return float(np.sum(law * np.maximum(0.0, -np.expm1(epsilon - (2 * total + groups) / (2 * variance)))))


def scale_of(law: Law) -> Fraction:
    assert isinstance(law, DiscreteLaplace)
    return law.scale


def squared_shift(groups: int, of_all: int, own: RoundedGaussian, common: Any, sums: list[tuple[int, Any]]) -> float:
    """How far one unit moves everything, in units of the noise, squared: the largest over p <= groups moved counters.

    The common noise takes up a shift b of all counters.
    """
    per_group = float(sum((steps / law.std) ** 2 for steps, law in sums))
    if common is None:
        return groups * (1 / float(own.std) ** 2 + per_group)
    s, c = float(own.std), float((common.std / own.std) ** 2)
    return max(((p - p * p / (of_all + 1 / c)) / s**2 + p * per_group) for p in range(1, groups + 1))


def released_alone(own: Any, groups: int, gap: float | None, common: Any = None) -> float:
    """The chance that one of some groups of a single unit passes, from the laws of the noise by plain sums."""
    if gap is None:
        return 0.0
    if isinstance(own, RoundedGaussian):
        nodes, weights = np.polynomial.hermite_e.hermegauss(200)
        shift = 0.0 if common is None else float(common.std)
        hidden = ndtr((gap - shift * nodes) / float(own.std)) ** groups
        return float(((1 - hidden) * weights).sum() / weights.sum())
    reach = 4000
    z = np.arange(-reach, reach + 1)
    if isinstance(own, DiscreteLaplace):
        law = np.exp(-np.abs(z) / float(own.scale))
        unit = 1
    else:
        law = np.exp(-(z**2) / (2 * float(own.variance)))
        unit = 1 if common is None else 2
    tails = np.cumsum((law / law.sum())[::-1])[::-1]  # P(Z >= z)
    if common is None:
        return float(-np.expm1(groups * np.log1p(-tails[reach + int(gap) + 1])))
    around = np.arange(-1000, 1001)
    weights = norm.pdf(around, scale=math.sqrt(common.variance))
    passed = 1 - (1 - tails[reach + int(unit * gap) + 1 - around]) ** groups
    return float((passed * weights).sum() / weights.sum())


@pytest.mark.parametrize("name", [name for name in PLANS if not name.startswith("known")])
def test_a_group_exactly_at_the_threshold_stays_hidden(name: str) -> None:
    """With noise on a lattice >= would be another mechanism; so would one step of the threshold, or of low_threshold."""
    plan = plan_of(name)
    mechanism = plan.mechanism
    assert mechanism.threshold is not None
    bits, low = mechanism.lattice_bits, mechanism.low_threshold or 1
    needed = int(mechanism.threshold * 2**bits) - (low << bits)
    counts = np.array([low, low, low, low - 1, 0, 0, 0, 0, 0, 0, 0, 0], np.int64)
    first = 1 if mechanism.correlation else 0

    def noise(position: int, size: int) -> Integers:
        if position == first:
            assert size == 3
            return np.array([needed - 1, needed, needed + 1], np.int64)
        return np.zeros(size, np.int64)

    with recorded(noise) as draws:
        table = released(plan, counts).to_arrow()
    assert table["k"].to_pylist() == ["02"]
    assert len(draws) >= 2
