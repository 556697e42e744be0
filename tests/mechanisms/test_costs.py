"""The cost of every mechanism: its formulas, and exact laws that would refute a cost that is too small."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray
from records import GaussianRecords, LaplaceRecords
from scipy.special import ndtr

from dphist.errors import InvalidParameter
from dphist.ledger.accountant import price
from dphist.mechanisms import (
    AdaptiveGaussian,
    CorrelatedGaussian,
    DiscreteGaussianThreshold,
    KnownDiscrete,
    KnownGroups,
    LaplaceThreshold,
    Ranked,
    SparseGaussian,
    TruncatedLaplace,
    continual,
    correlated_top_k,
    discrete,
    from_top,
    ranked,
)
from dphist.mechanisms.adaptive import calibrate as adaptive
from dphist.mechanisms.base import Mechanism
from dphist.mechanisms.surcharge import counter_event, sampler_surcharge
from dphist.planning import Request
from dphist.planning.plan import choose
from dphist.privacy import correlated_gaussian as csh
from dphist.privacy.composition import PrivacyCost, delta_from_rho, mu_of_pure, rho_of_pure
from dphist.privacy.events import ComposedEvent
from dphist.privacy.filters import ACCOUNTANTS, Amount, amount, delta_of_noise, limit, value
from dphist.privacy.gaussian import delta_gaussian

Floats = NDArray[np.float64]

GAUSSIAN: dict[str, Mechanism] = {
    "sparse": SparseGaussian(10, 16.0, 98.0),
    "sparse with sums": SparseGaussian(3, 16.0, 98.0, sums_sensitivity=0.05),
    "correlated": CorrelatedGaussian(100, 100, 30.0, 0.1, 200.0),
    "correlated, listed": CorrelatedGaussian(100, 25, 30.0, 0.05, 200.0, sums_sensitivity=0.01),
    "known": KnownGroups(50, 10, 8.0, 0.1, sums_sensitivity=0.02),
    "top-k": correlated_top_k.calibrate(1.0, 1e-6, 5),
    "adaptive": adaptive(1.0, 1e-8),
    "records": GaussianRecords(3, 4, 30.0, 250.0),
}
PURE: dict[str, Mechanism] = {
    "laplace": LaplaceThreshold(2, 4.0, 70.0),
    "laplace with sums": LaplaceThreshold(2, 4.0, 70.0, sums_epsilon=0.25),
    "laplace records": LaplaceRecords(2, 3, 12.0, 200.0),
    "truncated": TruncatedLaplace(Fraction(1, 4), 90, 3),
    "ranked": ranked.calibrate(1.0, 1e-6, 5, 50),
    "session": ranked.calibrate(1.0, 1e-6, 20, 100, queries=4),
}
CONCENTRATED: dict[str, Mechanism] = {
    "discrete": discrete.discrete_threshold(1.0, 1e-6, 3),
    "discrete correlated": discrete.discrete_correlated(1.0, 1e-6, 10),
    "discrete records": GaussianRecords(2, 3, 30.0, 250.0, discrete=True),
    "from top": from_top.calibrate(1.0, 1e-6, 10),
    "continual": continual.calibrate(1.0, 1e-6, 30, 2),
    "known discrete": KnownDiscrete(50, 10, 16.2),
}
ALL = {**GAUSSIAN, **PURE, **CONCENTRATED}


@pytest.mark.parametrize("name", ALL)
def test_no_facet_claims_less_than_the_mechanism_itself_has(name: str) -> None:
    """A mechanism's own analysis is at least as sharp as noise plus d; a facet below it would be wrong.

    But not everywhere: Laplace noise on several groups is one pure mechanism to it, whose delta is sharp only from its
    epsilon on; and a mu that comes from (epsilon, delta) says little below that epsilon.
    """
    made = ALL[name]
    cost = price(made.event(1.0))
    assert cost.epsilon == 1.0
    assert made.delta(math.nextafter(1.0, 0)) < cost.delta <= made.delta(1.0) * (1 + 1e-9) + 1e-15  # decimals
    for epsilon in (0.05, 0.3, 1.0, 2.0, 5.0) if "laplace" not in name else (1.0, 2.0, 5.0):
        own = made.delta(epsilon) * (1 - 1e-9)
        assert delta_from_rho(cost.rho, epsilon) + cost.rho_delta >= own
        if name not in CONCENTRATED or epsilon >= 1.0:
            assert float(delta_gaussian(cost.mu, epsilon)) + cost.mu_delta >= own


TENTHS: dict[str, Callable[[], Mechanism]] = {
    "sparse": lambda: choose(Request(0.1, 1e-7, max_groups=3)).mechanism,
    "laplace": lambda: choose(Request(0.1, 1e-7, max_groups=1, mechanism="laplace")).mechanism,
    "correlated": lambda: choose(Request(0.1, 1e-7, sparsity=10)).mechanism,
    "known": lambda: choose(Request(0.1, 1e-7, keys=20)).mechanism,
    "discrete": lambda: discrete.discrete_threshold(0.1, 1e-7, 3),
    "truncated": lambda: TruncatedLaplace.for_budget(0.1, 1e-7, 1),
    "session": lambda: ranked.calibrate(0.1, 1e-7, 10, 100, queries=2),
    "from top": lambda: from_top.calibrate(0.1, 1e-7, 10),
    "continual": lambda: continual.calibrate(0.1, 1e-7, 30, 2),
}


@pytest.mark.parametrize("name", TENTHS)
def test_ten_releases_of_a_tenth_fit_into_a_budget(name: str) -> None:
    cost = price(TENTHS[name]().event(0.1), 1.0)
    whole = limit("basic", 1.0, 1e-6)
    assert amount(cost, "basic").times(10).within(whole)
    assert not amount(cost, "basic").times(11).within(whole)


@pytest.mark.parametrize("name", GAUSSIAN)
def test_gaussian_costs_are_those_of_their_noise(name: str) -> None:
    made = GAUSSIAN[name]
    cost = price(made.event(1.0))
    assert cost.rho == pytest.approx(cost.mu**2 / 2, rel=1e-9)
    assert cost.rho_delta == cost.mu_delta
    assert not cost.response_dominates
    if hasattr(made, "delta_noise"):
        assert made.delta_noise(0.7) == pytest.approx(float(delta_gaussian(cost.mu, 0.7)), rel=1e-8)


def test_formulas() -> None:
    sparse = price(SparseGaussian(10, 16.0, 98.0, sums_sensitivity=0.1).event(1.0))
    assert sparse.mu**2 == pytest.approx(10 * (1 / 256 + 0.01))
    assert sparse.mu_delta == pytest.approx(-np.expm1(10 * np.log(ndtr(97 / 16))), rel=1e-9)
    laplace = price(LaplaceThreshold(2, 4.0, 70.0, sums_epsilon=0.5).event(1.5))
    assert laplace.rho == pytest.approx(2 * (rho_of_pure(0.25) + rho_of_pure(0.5)))
    assert laplace.mu**2 == pytest.approx(2 * (mu_of_pure(0.25) ** 2 + mu_of_pure(0.5) ** 2))
    records = price(LaplaceRecords(1, 5, 5.0, 100.0).event(1.0))
    assert records.rho == pytest.approx(1 - 0.2 * (1 - math.exp(-1)) / math.sinh(0.2))
    assert records.rho < rho_of_pure(1.0)
    discrete = DiscreteGaussianThreshold(2, 20.0, 150.0)
    assert price(discrete.event(1.0)).mu == mu_of_pure(1.0)
    assert price(discrete.event(1.0)).mu_delta == math.nextafter(discrete.delta(1.0), 1)
    session = PURE["session"]
    assert isinstance(session, Ranked)
    cost = price(session.event(1.0))
    assert cost.mu**2 == pytest.approx(20 * mu_of_pure(session.symbol_epsilon / 2) ** 2)
    assert cost.rho == session.rho
    assert session.delta_infinity() <= cost.rho_delta <= session.delta_infinity() * (1 + 1e-5)
    whole = price(TruncatedLaplace(Fraction(1, 4), 0, 1).event(1.0))
    assert whole.mu_delta == 1.0


def test_the_sampler_is_paid_at_the_epsilon_of_the_whole_budget() -> None:
    made = KnownGroups(50, 10, 8.0)
    for composed in (0.5, 10.0, 30.0):
        assert price(made.event(1.0), composed).mu_delta == math.nextafter(sampler_surcharge(composed, 50), 1)
    with pytest.raises(InvalidParameter, match="at most 30"):
        price(made.event(1.0), 30.1)
    big = adaptive(1.0, 1e-8)
    assert isinstance(big, AdaptiveGaussian)
    assert price(big.event(1.0), 10.0).mu_delta == pytest.approx(big.delta_infinity(), rel=1e-6)


def test_a_profile_alone_is_a_pure_epsilon_with_delta() -> None:
    class Unknown(Mechanism):
        def delta(self, epsilon: float) -> float:
            return 1e-5 * math.exp(-epsilon)

    cost = price(Unknown().event(0.5))
    assert (cost.mu, cost.mu_delta, cost.rho_delta) == (mu_of_pure(0.5), cost.delta, cost.delta)


def test_pure_parts_are_added() -> None:
    alone = SparseGaussian(10, 16.0, 98.0).event(1.0)
    main = price(alone, 2.0)
    both = price(ComposedEvent((alone, counter_event(0.02), counter_event(0.05))), 2.0)
    assert both.mu**2 == pytest.approx(main.mu**2 + mu_of_pure(0.02) ** 2 + mu_of_pure(0.05) ** 2)
    assert both.epsilon == pytest.approx(1.07)
    assert both.mu_delta == pytest.approx(main.mu_delta + 2 * price(counter_event(0.02), 2.0).mu_delta)
    pure = price(counter_event(0.02), 2.0)
    assert pure.delta == pure.rho_delta == sampler_surcharge(2.0, 1)
    plan = choose(Request(1.0, 1e-6, max_groups=3))
    assert plan.event.event == plan.mechanism.event(1.0)  # nothing is added where there is no such part


# --- Exact laws: two releases of one shared group and one that only the unit is in -----------------------------------


def laplace_laws(made: LaplaceThreshold, shared: int, reach: int) -> tuple[Floats, Floats]:
    """(with the unit, without) over all outputs: (shared group, new group), each hidden or a value."""
    threshold, r = int(made.threshold), math.exp(-1 / made.scale)
    values = np.arange(threshold + 1, threshold + reach)
    one = (1 - r) / (1 + r)

    def law(count: int) -> Floats:
        seen = one * r ** np.abs(values - count)
        return np.append(seen, 1 - seen.sum())

    hidden = np.zeros(reach)
    hidden[-1] = 1.0
    return np.outer(law(shared + 1), law(1)).ravel(), np.outer(law(shared), hidden).ravel()


def hockey_stick(p: Floats, q: Floats, epsilon: float) -> float:
    return float(np.maximum(p - math.exp(epsilon) * q, 0).sum())


def bound(costs: list[PrivacyCost], accountant: str, epsilon: float) -> float:
    total = Amount()
    for cost in costs:
        total += amount(cost, accountant)  # type: ignore[arg-type]
    return delta_of_noise(total, accountant, epsilon) + value(total.delta)  # type: ignore[arg-type]


def test_two_thresholded_releases_are_within_every_bound_and_not_without_d() -> None:
    made = LaplaceThreshold(2, 2.0, 8.0)
    with_unit, without = laplace_laws(made, shared=9, reach=40)
    p2, q2 = np.outer(with_unit, with_unit).ravel(), np.outer(without, without).ravel()
    cost = price(made.event(1.0))
    for epsilon in (0.2, 0.7, 1.0, 1.5, 2.0, 4.0):
        true = max(hockey_stick(p2, q2, epsilon), hockey_stick(q2, p2, epsilon))
        for accountant in ("gdp", "zcdp"):
            assert true <= bound([cost, cost], accountant, epsilon)
    assert max(hockey_stick(p2, q2, 2.0), hockey_stick(q2, p2, 2.0)) <= bound([cost, cost], "basic", 2.0)
    careless = PrivacyCost(cost.epsilon, 0.0, cost.rho, 0.0, cost.mu, 0.0)
    assert hockey_stick(p2, q2, 4.0) > bound([careless, careless], "gdp", 4.0)
    assert all(bound([cost], accountant, 1.0) <= bound([cost, cost], accountant, 1.0) for accountant in ACCOUNTANTS)


def test_one_noisy_count_attains_its_rho_and_a_smaller_one_fails() -> None:
    """Discrete Laplace noise is randomised response in disguise: its KL divergence is the rho that is charged."""
    scale = 1.5
    z = np.arange(-400, 402)
    p, q = (np.exp(-np.abs(z - shift) / scale) for shift in (1, 0))
    p, q = p / p.sum(), q / q.sum()
    divergence = float((p * np.log(p / q)).sum())
    rho = price(LaplaceThreshold(1, scale, 40.0).event(1.0)).rho
    assert divergence <= rho <= divergence * (1 + 1e-9)


@pytest.mark.parametrize(("shared", "moved", "correlation"), [(5, 5, 0.3), (8, 3, 0.1), (1, 1, 2.0)])
def test_lemma_4_the_bad_event_is_rarer_without_the_unit(shared: int, moved: int, correlation: float) -> None:
    """The chance that a new counter is released, given all shared ones: averaged without the unit it is below d.

    In units of independent_std: Z_c given the shared counters is N(M, v), and M is smaller where the unit is absent.
    """
    t, c, n = 3.0, correlation, shared
    v, spread = c / (1 + c * n), math.sqrt(c * c * n / (1 + c * n))
    nodes, weights = np.polynomial.hermite_e.hermegauss(80)
    weights = weights / weights.sum()

    def bad(mean: float) -> float:
        return float((weights * ndtr(-(t - mean - spread * nodes) / math.sqrt(1 + v))).sum())

    d = csh.delta_infinity(t, 1, 1.0, c)
    assert bad(0.0) == pytest.approx(d, rel=1e-9)
    assert bad(-c * moved / (1 + c * n)) < d


def test_rounded_gaussian_looks_are_a_gaussian_pair() -> None:
    """Two rounded Gaussian releases, exactly enumerated, against mu = sqrt(2)/std; a mu 5 % smaller fails."""
    std, step = 1.2, 0.25
    edges = np.arange(-60, 62) * step - step / 2

    def law(shift: float) -> Floats:
        return np.asarray(np.diff(ndtr((edges - shift) / std)))

    p, q = law(1.0), law(0.0)
    p2, q2 = np.outer(p, p).ravel(), np.outer(q, q).ravel()
    mu = price(KnownGroups(1, 1, std).event(1.0)).mu
    check: Callable[[float, float], bool] = lambda m, e: hockey_stick(p2, q2, e) <= float(delta_gaussian(m, e))  # noqa: E731
    assert all(check(mu * math.sqrt(2), e) for e in (0.1, 0.5, 1.0, 3.0))
    assert not any(check(0.95 * mu * math.sqrt(2), e) for e in (0.5, 1.0, 3.0))


CALIBRATED: dict[str, Mechanism] = {
    "truncated": TruncatedLaplace.for_budget(1.0, 1e-6, 3),
    **{name: ALL[name] for name in ("top-k", "ranked", "session", "from top", "continual")},
}


@pytest.mark.parametrize("made", CALIBRATED.values(), ids=CALIBRATED)
def test_another_budget_is_that_of_the_same_mechanism(made: Mechanism) -> None:
    assert made.with_budget(1.0, 1e-6) == made
    more = made.with_budget(2.0, 1e-6)
    assert type(more) is type(made)
    assert more.delta(2.0) <= 1e-6 < more.delta(1.0)
