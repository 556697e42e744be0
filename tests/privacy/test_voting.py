"""The optimal rule for one vote: golden values, its inequalities in exact fractions, and what no rule may do."""

import math
from fractions import Fraction
from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dphist.errors import Infeasible, InvalidParameter
from dphist.privacy import voting
from dphist.privacy.voting import ONE, capacity, delta_of, probability, release_probabilities, votes_for

EPSILONS = st.floats(0.05, 8.0)
DELTAS = st.floats(1e-12, 0.5)


@pytest.mark.parametrize(
    ("epsilon", "expected"),
    [
        (math.log(2), [0, 0.1, 0.3, 0.7, 0.9, 1]),
        (math.log(1.5), [0, 0.1, 0.25, 0.475, 0.716667, 0.877778, 0.985185, 1]),
    ],
)
def test_golden_values(epsilon: float, expected: list[float]) -> None:
    """From the specification of the election (ln 2 and ln 1.5 with delta 0.1)."""
    table = release_probabilities(epsilon, 0.1)
    assert [p / ONE for p in table] == pytest.approx(expected, abs=1e-6)
    assert table[0] == 0
    assert table[-1] == ONE


def test_golden_sizes() -> None:
    """At epsilon 1, delta 1e-8: 19 votes for one half, room for 25, sure from 37 on."""
    table = release_probabilities(1.0, 1e-8)
    assert votes_for(table, Fraction(1, 2)) == 19
    assert capacity(table) == 25
    assert len(table) - 1 == 37
    assert capacity(table, 5) == 29


def exact_bounds(epsilon: float) -> tuple[Fraction, Fraction]:
    """e^epsilon between two fractions, by its series: nothing of the product is used."""
    x, term, total = Fraction(epsilon), 1 << 400, 0
    for n in range(120):  # each term is rounded down by at most one unit, and so is its part of the next
        total += term
        term = term * x.numerator // (x.denominator * (n + 1))
    return Fraction(total, 1 << 400), Fraction(total + (1 << 40), 1 << 400)


@given(EPSILONS, DELTAS)
def test_stored_neighbours_keep_the_inequalities_exactly(epsilon: float, delta: float) -> None:
    table, (growth, _) = release_probabilities(epsilon, delta), exact_bounds(epsilon)
    for p, q in pairwise(table):
        assert p < q <= ONE
        assert q <= growth * p + Fraction(delta) * ONE
        assert ONE - p <= growth * (ONE - q) + Fraction(delta) * ONE


@given(EPSILONS, DELTAS)
def test_no_more_is_possible(epsilon: float, delta: float) -> None:
    """One unit of 2^-100 more at any count would break an inequality: only the rounding is lost."""
    table, (_, growth) = release_probabilities(epsilon, delta), exact_bounds(epsilon)
    for p, q in pairwise(table):
        more = q + ONE // 2**100
        assert (
            q == ONE
            or more > growth * p + Fraction(delta) * ONE
            or ONE - p > growth * (ONE - more) + Fraction(delta) * ONE
        )


@given(EPSILONS, DELTAS)
def test_the_forward_map_finds_delta_again(epsilon: float, delta: float) -> None:
    table = release_probabilities(epsilon, delta)
    assert delta * (1 - 1e-9) <= delta_of(table, epsilon) <= delta


@given(st.lists(st.integers(0, ONE), max_size=6), st.floats(0, 5))
@example([ONE // 10, ONE * 3 // 10, ONE * 7 // 10, ONE * 19 // 20], 0.69)  # the last step hides too rarely
def test_the_forward_map_is_the_largest_hockey_stick(rest: list[int], epsilon: float) -> None:
    table, (low, high) = [0, *rest], exact_bounds(epsilon)

    def worst(growth: Fraction) -> Fraction:
        found = Fraction(0)
        for a, b in pairwise(table):
            for p, q in ((a, b), (b, a)):
                shown, hidden = p - growth * q, ONE - p - growth * (ONE - q)
                found = max(found, (max(shown, Fraction(0)) + max(hidden, Fraction(0))) / ONE)
        return found

    found = delta_of(table, epsilon)
    assert Fraction(found) >= worst(high)
    assert found == pytest.approx(float(worst(low)), rel=1e-12, abs=1e-300)


def test_a_rule_that_rounds_each_probability_up_is_seen() -> None:
    table = list(release_probabilities(1.0, 1e-8))
    table[9] += 1 << 60
    assert delta_of(table, 1.0) > delta_of(release_probabilities(1.0, 1e-8), 1.0)


def test_a_low_threshold_moves_the_rule() -> None:
    table = release_probabilities(1.0, 0.1)
    moved = [probability(table, n, 3) for n in range(40)]
    assert moved[:3] == [0, 0, 0]
    assert moved[3:] == [probability(table, n) for n in range(1, 38)]
    assert moved[2:] == [probability(table, n) for n in range(38)]
    assert delta_of(moved, 1.0) == delta_of(table, 1.0)
    assert probability(table, 10**9) == ONE


def test_budgets_without_a_useful_rule_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(Infeasible, match="delta of at least"):
        release_probabilities(1.0, 1e-39)
    monkeypatch.setattr(voting, "MOST_VOTES", 100)
    with pytest.raises(Infeasible, match="100 votes"):
        release_probabilities(1e-3, 1e-7)


def test_wrong_tables_are_refused() -> None:
    for table in ([], [1], [0, ONE + 1], [0, -1]):
        with pytest.raises(InvalidParameter):
            delta_of(table, 1.0)
    for epsilon in (-0.1, math.nan):
        with pytest.raises(InvalidParameter):
            delta_of([0, ONE], epsilon)
    assert delta_of([0], 1.0) == 0


def test_a_huge_epsilon_counts_as_a_smaller_one() -> None:
    assert release_probabilities(1e9, 1e-8) == release_probabilities(60.0, 1e-8)
    assert delta_of([0, ONE // 2], 1e300) == 0.5
