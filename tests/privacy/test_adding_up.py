"""What costs turn into, and that sums of them are promises: golden values, exact laws, and a search for a broken filter."""

from __future__ import annotations

import itertools
import math
import sys
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy.special import ndtr, ndtri

from dphist.errors import Infeasible, InvalidParameter, MissingExtra
from dphist.ledger.accountant import price as price_of
from dphist.mechanisms import SparseGaussian, epsilon_at
from dphist.mechanisms.lattice import round_up_to_lattice
from dphist.privacy import composition, filters
from dphist.privacy.composition import (
    MOST_RESPONSES,
    PrivacyCost,
    delta_from_rho,
    epsilon_of_losses,
    mu_of_pure,
    mu_of_range,
    of_pure,
    rho_of_pure,
    together,
    worst,
)
from dphist.privacy.filters import ACCOUNTANTS, UNITS, Accountant, Amount, amount, composed_epsilon, limit
from dphist.privacy.gaussian import delta_gaussian, largest_mu


def add(costs: list[PrivacyCost], accountant: Accountant) -> Amount:
    total = Amount()
    for cost in costs:
        total += amount(cost, accountant)
    return total


@pytest.mark.parametrize("epsilon", [1e-9, 1e-4, 0.1, 1.0, 5.0, 30.0, 100.0])
def test_mu_of_pure_is_the_exact_one_from_above(epsilon: float) -> None:
    with mpmath.workdps(80):
        q = 1 / (1 + mpmath.exp(mpmath.mpf(epsilon)))
        start = mpmath.mpf(ndtri(float(q)) if q > 1e-300 else -math.sqrt(2 * epsilon))
        exact = -2 * mpmath.findroot(lambda z: mpmath.log(mpmath.ncdf(z)) - mpmath.log(q), start)
        assert exact <= mu_of_pure(epsilon) <= exact * (1 + 1e-11) + 2e-15


@given(st.floats(0.01, 8), st.floats(1e-6, 1 - 1e-6))
def test_a_gaussian_curve_lies_below_randomised_response(epsilon: float, alpha: float) -> None:
    """The curve of a mu-GDP mechanism is Phi(Phi^-1(1 - alpha) - mu)."""
    response = max(0.0, 1 - math.exp(epsilon) * alpha, math.exp(-epsilon) * (1 - alpha))
    assert float(ndtr(-ndtri(alpha) - mu_of_pure(epsilon))) <= response + 1e-12
    corner = 1 / (1 + math.exp(epsilon))
    assert float(ndtr(-ndtri(corner) - 0.99 * mu_of_pure(epsilon))) > corner  # and a smaller mu does not


@given(st.floats(0.01, 12), st.floats(-15, 15))
def test_a_bounded_range_costs_most_in_the_middle(length: float, place: float) -> None:
    """Lemma 5: any pair on two points with logit p - logit q = length has mu = Phi^-1(p) - Phi^-1(q)."""
    p, q = (1 / (1 + math.exp(-(place + side * length / 2))) for side in (1, -1))
    if q > 1e-12 and p < 1 - 1e-12:
        assert float(ndtri(p) - ndtri(q)) <= mu_of_range(length) + 1e-4 * (abs(place) > 12) + 1e-10
    assert mu_of_range(length) == mu_of_pure(length / 2)


@pytest.mark.parametrize("epsilon", [0.01, 0.3, 1.0, 4.0, 20.0])
def test_rho_of_pure_bounds_every_renyi_divergence_and_is_attained(epsilon: float) -> None:
    p = 1 / (1 + math.exp(-epsilon))

    def divergence(order: float) -> float:
        logs = (order * math.log(p) + (1 - order) * math.log1p(-p), order * math.log1p(-p) + (1 - order) * math.log(p))
        return float(np.logaddexp(*logs)) / (order - 1)

    ratios = [divergence(order) / order for order in (1.00001, 1.1, 1.5, 2, 3, 10, 100)]
    assert max(ratios) <= rho_of_pure(epsilon) * (1 + 1e-9)
    assert ratios[0] > rho_of_pure(epsilon) * (1 - 1e-4)


def golden_release() -> SparseGaussian:
    return SparseGaussian(1, 10.0, round_up_to_lattice(1 - 10 * float(ndtri(1e-9)), 10))


def test_golden_hundred_releases() -> None:
    """spec/unknown-domain.md: (epsilon 0.1, one group, delta0 = 1e-9), 100 times, epsilon at 1e-6."""
    made = golden_release()
    cost = price_of(made.event(epsilon_at(made, 1e-8 * (1 - 1e-12))))  # a hundred of them must not exceed 1e-6
    assert cost.mu == pytest.approx(0.1)
    assert cost.mu_delta == pytest.approx(1e-9, rel=1e-3)
    found = {name: composed_epsilon(add([cost] * 100, name), name, 1e-6) for name in ACCOUNTANTS}
    assert found["zcdp"] == pytest.approx(5.2430, abs=1e-4)
    assert found["basic"] == pytest.approx(49.285, abs=1e-3)
    losses = epsilon_of_losses([cost] * 100, 1e-6)
    assert losses == pytest.approx(4.9087, abs=1e-4)
    assert losses <= found["gdp"] <= found["zcdp"] <= found["basic"]
    simple = 0.5 + 2 * math.sqrt(0.5 * math.log(1 / (1e-6 - 1e-7)))
    assert simple == pytest.approx(5.7765, abs=2e-4)  # [BS16], for comparison


@pytest.mark.parametrize(
    ("groups", "std", "gap", "times"), [(1, 5.0, 30.0, 10), (10, 40.0, 260.0, 40), (3, 100.0, 700.0, 400)]
)
def test_losses_below_gdp_below_zcdp_for_gaussian_releases(groups: int, std: float, gap: float, times: int) -> None:
    cost = price_of(SparseGaussian(groups, std, 1 + gap).event(1.0))
    found = {name: composed_epsilon(add([cost] * times, name), name, 1e-5) for name in ACCOUNTANTS}
    assert epsilon_of_losses([cost] * times, 1e-5) <= found["gdp"] * (1 + 1e-6)
    assert found["gdp"] <= found["zcdp"]


def test_losses_of_pure_spends_are_those_of_randomised_response() -> None:
    cost = of_pure(0.5, 1e-9)
    assert cost.response_dominates
    weights = [math.comb(20, k) * math.exp(0.5 * k) / (1 + math.exp(0.5)) ** 20 for k in range(21)]
    atom = 1 - (1 - 1e-9) ** 20
    exact = (1e-5 - atom) / (1 - atom)

    def delta_at(epsilon: float) -> float:
        return sum(w * max(0.0, -math.expm1(epsilon - 0.5 * (2 * k - 20))) for k, w in enumerate(weights))

    found = epsilon_of_losses([cost] * 20, 1e-5)
    assert delta_at(found) <= exact * (1 + 1e-7) < delta_at(found - 0.02)


def test_losses_with_many_epsilons_and_impossible_deltas(monkeypatch: pytest.MonkeyPatch) -> None:
    different = [of_pure(0.01 + i * 1e-4) for i in range(MOST_RESPONSES + 3)]
    assert math.isfinite(epsilon_of_losses(different, 1e-5))
    assert epsilon_of_losses([of_pure(1.0, 1e-4)], 1e-5) == math.inf
    assert epsilon_of_losses([PrivacyCost(1, 1, 1, 1, 0.5, 1)], 1e-5) == math.inf
    assert epsilon_of_losses([], 1e-5) == 0.0
    monkeypatch.setitem(sys.modules, "dp_accounting.pld", None)
    with pytest.raises(MissingExtra, match="accounting"):
        epsilon_of_losses([], 1e-5)


costs = st.builds(
    PrivacyCost,
    st.floats(0, 1), st.floats(0, 1e-8), st.floats(0, 0.1), st.floats(0, 1e-8), st.floats(0, 0.3), st.floats(0, 1e-8),
)  # fmt: skip


@settings(max_examples=40)
@given(st.lists(costs, min_size=1, max_size=6), st.randoms(), st.sampled_from(ACCOUNTANTS))
def test_sums_are_exact_monotone_and_in_any_order(
    listed: list[PrivacyCost], rng: object, accountant: Accountant
) -> None:
    total = add(listed, accountant)
    shuffled = list(listed)
    rng.shuffle(shuffled)  # type: ignore[attr-defined]
    assert add(shuffled, accountant) == total
    for cost in listed:
        assert amount(cost, accountant).within(total)
    epsilons = [composed_epsilon(add(listed[:n], accountant), accountant, 1e-6) for n in range(1, len(listed) + 1)]
    # what is shown is the end of a search over orders, good to 1e-6
    assert all(a <= b * (1 + 1e-6) for a, b in itertools.pairwise(epsilons))
    whole = amount(together(listed), accountant)  # one cost for all of them is rounded up, but in fewer places
    assert total.within(whole + Amount(len(listed), len(listed)))


@given(st.lists(costs, min_size=1, max_size=5))
def test_the_worst_covers_each(listed: list[PrivacyCost]) -> None:
    covering = worst(listed)
    for accountant in ACCOUNTANTS:
        assert all(amount(cost, accountant).within(amount(covering, accountant)) for cost in listed)


@settings(max_examples=40)
@given(st.floats(0.01, 30), st.floats(1e-12, 0.1), st.floats(0.01, 0.99), st.sampled_from(["gdp", "zcdp"]))
def test_limits_meet_the_budget_and_nothing_larger_does(
    epsilon: float, delta: float, share: float, accountant: Accountant
) -> None:
    found = limit(accountant, epsilon, delta, share)
    noise = filters.delta_of_noise(found, accountant, epsilon)
    # the sums are turned into doubles upwards for this check, which a rounding of 1e-9 covers
    assert Fraction(found.delta, UNITS) + Fraction(noise) <= Fraction(delta) * (1 + Fraction(1, 10**7))
    larger = Amount(found.noise * 1001 // 1000, found.delta)
    assert filters.delta_of_noise(larger, accountant, epsilon) > delta * (1 - share)


def test_basic_limits_are_the_budget_itself() -> None:
    found = limit("basic", 0.1, 1e-9)
    assert Fraction(found.noise, UNITS) == Fraction(1, 10)
    assert Fraction(found.delta, UNITS) == Fraction(1, 10**9)
    assert amount(of_pure(0.1, 1e-9), "basic").within(found)
    assert not amount(of_pure(math.nextafter(0.1, 1), 1e-9), "basic").within(found)
    assert filters.delta_of_noise(found, "basic", 0.1) == 0.0
    assert filters.delta_of_noise(found, "basic", 0.09) == 1.0


_DECIMALS = st.decimals("0.000001", "30", places=6) | st.decimals("1e-30", "1e-20", places=35)


@given(_DECIMALS, st.integers(1, 200))
def test_equal_shares_fill_a_budget_that_is_written_in_decimal(share: Decimal, number: int) -> None:
    """As people count: ten times 0.1 is 1. In doubles it is more."""
    whole = float(share * number)
    assume(Decimal(repr(whole)) == share * number)  # at most 17 digits, or no double stands for it
    one, fixed = amount(of_pure(float(share), 1e-7), "basic"), limit("basic", whole, float(Decimal("1e-7") * number))
    assert one.times(number) == fixed


@settings(max_examples=30)
@given(st.floats(0.01, 3), st.floats(1e-9, 1e-3), st.sampled_from(["gdp", "zcdp"]))
def test_limits_hold_for_the_decimal_that_names_epsilon(epsilon: float, delta: float, accountant: Accountant) -> None:
    """The double may lie above its decimal, for which the budget is promised."""
    found = limit(accountant, epsilon, delta)
    below = math.nextafter(epsilon, 0)
    assert filters.delta_of_noise(found, accountant, below) + filters.value(found.delta) <= delta * (1 + 1e-12)


def test_a_limit_is_only_given_if_the_forward_map_allows_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(filters, "largest_mu", lambda *_: 1.0)
    with pytest.raises(Infeasible, match="a budget that some mu meets"):
        filters.limit("gdp", 1.0, 1e-6)


def test_edges_of_costs_and_sums() -> None:
    with pytest.raises(InvalidParameter, match="a cost mu in"):
        PrivacyCost(1, 0, 1, 0, math.inf, 0)
    assert PrivacyCost(1, 2, 1, 3, 1, 1.5).mu_delta == 1.0
    assert of_pure(0.0) == PrivacyCost(0, 0, 0, 0, 0, 0)
    assert composition.of_declared_rho(0.0, 0.0, convert_at=1e-9).epsilon == 0.0
    declared = composition.of_declared_rho(0.1, 1e-7, convert_at=1e-6)
    assert declared.epsilon == pytest.approx(2.141938928, rel=1e-6)
    assert (declared.rho, declared.rho_delta) == (0.1, 1e-7)
    assert declared.delta == declared.mu_delta
    assert 1.1e-6 <= declared.delta < 1.1000001e-6
    assert composition.of_declared_rho(0.1, 1.0, convert_at=0.5).delta == 1.0
    assert composed_epsilon(Amount(0, UNITS // 2), "gdp", 0.1) == math.inf
    assert composed_epsilon(Amount(0, UNITS // 2), "basic", 0.1) == math.inf
    assert composed_epsilon(amount(of_pure(50.0), "gdp"), "gdp", 1e-6) > 16
    assert Amount(5, 7) - Amount(2, 3) == Amount(3, 4)
    assert Amount(5, 7).times(2) == Amount(10, 14)
    assert filters.value(1) == 1e-100
    assert filters.value(UNITS + 1) == math.nextafter(1, 2)
    with pytest.raises(Infeasible, match="some rho"):
        filters.largest_rho(1e-9, 1e-15)


# --- Adversaries ---------------------------------------------------------------------------------------------------
# They watch the privacy loss L and choose what to spend next; delta = E_P[(1 - e^(epsilon - L))_+] is what they get.


def best_stopping(epsilon: float, steps: int, mu_squared: float, cash: Callable[[int], float]) -> float:
    """The largest delta of an adversary who draws up to `steps` Gaussian looks and may turn what is left into d at any time.

    Dynamic programming over L on a grid: under P a look adds N(m/2, m) to L, m = mu_squared/steps. `cash(j)` is the d that
    the rule allows after j looks. Grid errors are below 1e-4 of the result.
    """
    step, m = 0.01, mu_squared / steps
    grid = np.arange(-12.0, 12.0, step)
    gain = np.maximum(0.0, -np.expm1(epsilon - grid))
    side = math.ceil(8 * math.sqrt(m) / step)
    kernel = np.diff(ndtr((np.arange(-side, side + 2) - 0.5) * step / math.sqrt(m)))
    value = gain + cash(steps) * (1 - gain)
    for used in reversed(range(steps)):
        moved = np.interp(grid + m / 2, grid, value)
        going_on = np.convolve(np.pad(moved, side, mode="edge"), kernel, mode="valid")
        value = np.maximum(going_on, gain + cash(used) * (1 - gain))
    return float(np.interp(0.0, grid, value))


@pytest.mark.parametrize(("epsilon", "delta"), [(1.0, 0.05), (0.5, 0.1), (2.0, 0.05)])
def test_the_gdp_filter_holds_and_one_joint_condition_would_not(epsilon: float, delta: float) -> None:
    steps = 40
    fixed = limit("gdp", epsilon, delta)
    d, mu_squared = filters.value(fixed.delta), filters.value(fixed.noise)
    assert best_stopping(epsilon, steps, mu_squared, lambda used: d) <= delta
    # Broken on purpose: one condition for both sums. The search must find that.
    whole = largest_mu(epsilon, delta) ** 2

    def joint(used: int) -> float:
        return max(0.0, delta - float(delta_gaussian(math.sqrt(used / steps * whole), epsilon)))

    assert best_stopping(epsilon, steps, whole, joint) > 1.3 * delta


def best_responses(epsilon: float, moves: list[tuple[int, int]], budget: int, step: float, d: float) -> float:
    """The largest delta of an adversary with randomised responses of several sizes, exactly: losses lie on a lattice.

    moves: (loss in steps, price in whole units); the budget is in the same units, d is cashed at the end.
    """
    reach = max(loss * (budget // price) for loss, price in moves)
    losses = np.arange(-reach, reach + 1) * step
    gain = np.maximum(0.0, -np.expm1(epsilon - losses))
    final = gain + d * (1 - gain)
    best = [final]
    for left in range(1, budget + 1):
        value = final.copy()
        for loss, price in moves:
            if price <= left:
                p = 1 / (1 + math.exp(-loss * step))
                before = best[left - price]
                up = np.concatenate([before[loss:], np.full(loss, before[-1])])
                down = np.concatenate([np.full(loss, before[0]), before[:-loss]])
                value = np.maximum(value, p * up + (1 - p) * down)
        best.append(value)
    return float(best[budget][reach])


@pytest.mark.parametrize("accountant", ACCOUNTANTS)
@pytest.mark.parametrize(("epsilon", "delta"), [(1.0, 0.05), (3.0, 1e-3)])
def test_every_filter_holds_against_adaptive_randomised_responses(
    accountant: Accountant, epsilon: float, delta: float
) -> None:
    step, units = 0.05, 400
    fixed = limit(accountant, epsilon, delta)
    whole = filters.value(fixed.noise)
    sizes = [k for k in (1, 2, 4, 8, 16, 32) if amount(of_pure(k * step), accountant).noise <= fixed.noise]
    prices = [
        (k, max(1, math.ceil(filters.value(amount(of_pure(k * step), accountant).noise) / whole * units)))
        for k in sizes
    ]
    d = filters.value(fixed.delta)
    assert best_responses(epsilon, prices, units, step, d) <= delta * (1 + 1e-9)
    # Prices of a tenth would break it, and the search sees that.
    cheap = [(k, max(1, price // 10)) for k, price in prices]
    assert best_responses(epsilon, cheap, units, step, d) > delta


def test_gaussian_looks_break_a_zcdp_filter_that_is_too_generous() -> None:
    """A filter with rho_B for twice the delta is broken by looks alone; the right one is not."""
    epsilon, delta = 1.0, 0.05
    rho = filters.value(limit("zcdp", epsilon, delta).noise)
    assert best_stopping(epsilon, 20, 2 * rho, lambda used: delta / 2) <= delta
    generous = filters.largest_rho(epsilon, 4 * delta)
    assert best_stopping(epsilon, 20, 2 * generous, lambda used: delta / 2) > delta


def test_cks_conversion_used_by_the_limit_is_an_upper_bound_for_gaussians() -> None:
    for rho, epsilon in ((0.1, 1.0), (0.5, 3.0)):
        assert float(delta_gaussian(math.sqrt(2 * rho), epsilon)) <= delta_from_rho(rho, epsilon)
