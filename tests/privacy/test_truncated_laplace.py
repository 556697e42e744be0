"""Truncated discrete Laplace noise: golden values, and the output law enumerated exactly on small histograms."""

import itertools
import math
from collections.abc import Callable, Iterator
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dphist.errors import Infeasible, InvalidParameter
from dphist.privacy import truncated_laplace as tl

Law = dict[tuple[int, ...], Fraction]


def atoms(base: Fraction, q: int) -> list[Fraction]:
    """f(0..q) with e^epsilon = base, exactly."""
    weights = [base ** min(j, q - j) for j in range(q + 1)]
    return [w / sum(weights) for w in weights]


def output_law(counts: tuple[int, ...], base: Fraction, q: int) -> Law:
    """The law of the output: bar by bar max(0, x + z); a bar of 0 is one that is not listed."""
    law: Law = {(): Fraction(1)}
    for count in counts:
        bar: dict[int, Fraction] = {}
        if count == 0:
            bar[0] = Fraction(1)  # never looked at
        else:
            for j, p in enumerate(atoms(base, q)):
                y = max(0, count + j - q)
                bar[y] = bar.get(y, Fraction(0)) + p
        law = {(*out, y): p * r for out, p in law.items() for y, r in bar.items()}
    return law


def hockey_stick(p: Law, q: Law, factor: Fraction) -> Fraction:
    return sum((max(Fraction(0), mass - factor * q.get(out, Fraction(0))) for out, mass in p.items()), Fraction(0))


def neighbours(most: int, bars: int, changed: int) -> Iterator[tuple[tuple[int, ...], tuple[int, ...]]]:
    for x in itertools.product(range(most + 1), repeat=bars):
        for places in itertools.combinations(range(bars), changed):
            yield x, tuple(count + (i in places) for i, count in enumerate(x))


@pytest.mark.parametrize(("epsilon", "expected"), [(0.1, 218), (0.2, 116), (0.5, 50), (1, 27), (2, 14)])
def test_golden_q(epsilon: float, expected: int) -> None:
    assert tl.smallest_q(epsilon, 2**-20) == expected
    assert tl.calibrate(epsilon, 2**-20) == tl.Calibrated(Fraction(epsilon), expected)


@pytest.mark.parametrize(("epsilon", "expected"), [(0.1, 171), (0.2, 93), (0.5, 41), (1, 22), (2, 12)])
def test_golden_q_at_another_delta(epsilon: float, expected: int) -> None:
    assert tl.smallest_q(epsilon, 1e-5) == expected


@pytest.mark.parametrize(
    ("epsilon", "q", "delta"),
    [
        (0.1, 218, 9.221595460948597e-07),
        (1, 27, 7.144009379836401e-07),
        (1, 0, 1),
        (1, 1, 0.5),
        (1, 2, 0.21194155761708544),
    ],
)
def test_golden_delta(epsilon: float, q: int, delta: float) -> None:
    assert delta <= tl.delta_one_bar(epsilon, q) <= delta * (1 + 3e-12)


@pytest.mark.parametrize(
    ("bars", "at", "delta"),
    [(1, 0.25, 0.1391178238875), (2, 0.5, 0.1552612104676), (2, 1, 0.0033146244933), (4, 1, 0.1008853334602)],
)
def test_golden_several_bars(bars: int, at: float, delta: float) -> None:
    assert tl.delta_profile(at, epsilon=Fraction(1, 2), q=20, bars=bars) == pytest.approx(delta, rel=2e-9)


@pytest.mark.parametrize("q", [0, 1, 2, 3, 4])
@pytest.mark.parametrize("base", [Fraction(2), Fraction(3, 2)])
def test_enumeration_delta_is_attained_and_never_exceeded(base: Fraction, q: int) -> None:
    """Both directions, every pair of histograms with two bars of at most q + 1, bars that go from 0 to 1 included."""
    claimed = atoms(base, q)[0]
    assert tl.delta_one_bar(math.log(base), q) == pytest.approx(float(claimed), rel=1e-11)
    largest = Fraction(0)
    appeared = 0
    for x, y in neighbours(q + 1, 2, 1):
        p, r = output_law(x, base, q), output_law(y, base, q)
        for first, second in ((p, r), (r, p)):
            for factor in (base, base * 2, base * 10):  # delta does not shrink beyond epsilon
                delta = hockey_stick(first, second, factor)
                assert delta <= claimed
                if factor == base:
                    largest = max(largest, delta)
        appeared += any(a == 0 and b == 1 for a, b in zip(x, y, strict=True))
    assert largest == claimed
    assert appeared > 0


def test_enumeration_a_bar_that_appears_attains_delta() -> None:
    base, q = Fraction(2), 5
    p, r = output_law((0,), base, q), output_law((1,), base, q)
    assert hockey_stick(r, p, base) == atoms(base, q)[0]  # y = 1 is seen with the probability of the outermost atom
    listed: Law = {(0,): Fraction(0), (-1,): Fraction(1)}  # an empty bar that is not listed, against one listed as 0
    assert hockey_stick(r, listed, base * 100) == 1


@pytest.mark.parametrize("q", [1, 2, 3])
@pytest.mark.parametrize("changed", [2, 3])
def test_enumeration_of_several_bars_is_the_profile(q: int, changed: int) -> None:
    """The profile of k bars is attained where nothing is clamped, and bounds every other pair."""
    base = Fraction(2)
    high = (q + 1,) * changed
    p, r = output_law(high, base, q), output_law(tuple(c + 1 for c in high), base, q)
    for power in (0, 1, 2, 3, 4):
        at = power * math.log(2) * (1 + 1e-15)
        claimed = tl.delta_profile(at, epsilon=Fraction(math.log(2)), q=q, bars=changed)
        for first, second in ((p, r), (r, p)):
            assert float(hockey_stick(first, second, base**power)) == pytest.approx(claimed, rel=1e-8)
    for x, y in neighbours(1, changed, changed):
        p, r = output_law(x, base, q), output_law(y, base, q)
        for power in (0, 1, changed):
            claimed = tl.delta_profile(power * math.log(2), epsilon=Fraction(math.log(2)), q=q, bars=changed)
            assert float(max(hockey_stick(p, r, base**power), hockey_stick(r, p, base**power))) <= claimed * (1 + 1e-12)


def worst_delta(q_of: Callable[[int], int], claimed_at: Callable[[int], int], base: Fraction) -> tuple[bool, Fraction]:
    """Whether any pair of neighbours exceeds what one bar alone would claim, and the largest excess."""
    worst = Fraction(0)
    for x, y in neighbours(4, 2, 1):
        p, r = output_law(x, base, q_of(sum(x))), output_law(y, base, q_of(sum(y)))
        claimed = atoms(base, claimed_at(sum(x)))[0]
        worst = max(worst, hockey_stick(p, r, base) - claimed, hockey_stick(r, p, base) - claimed)
    return worst > 0, worst


def test_enumeration_fails_when_q_follows_the_data() -> None:
    """q = floor(tau |x|), as the paper has it: the same enumeration refutes the claim, and passes a public q."""
    assert worst_delta(lambda _: 3, lambda _: 3, Fraction(2)) == (False, Fraction(0))
    refuted, excess = worst_delta(lambda n: n // 2, lambda n: n // 2, Fraction(2))
    assert refuted
    assert excess >= Fraction(1, 18)
    # an empty set against one record is told apart with certainty
    assert hockey_stick(output_law((1,), Fraction(2), 0), output_law((0,), Fraction(2), 0), Fraction(10)) == 1


def test_wide_laws_do_not_overflow() -> None:
    """e^(epsilon q/2) is beyond the largest double from q = 1420 on at epsilon = 1."""
    for q in (1400, 1417, 1418, 1419, 1420, 1421, 5000, 10**6, 2**40):
        loss = tl.loss_of_one_bar(1.0, q)
        top = math.expm1(1) / (math.e + 1) if q % 2 == 0 else -math.expm1(-1) / 2
        assert (loss.zero if q % 2 else 2 * loss.plus - 1) == pytest.approx(top, rel=1e-9)
        assert loss.plus + loss.minus + loss.zero == pytest.approx(1, rel=1e-9)
        for bars in (1, 3):
            profile = [tl.delta_profile(at, epsilon=Fraction(1), q=q, bars=bars) for at in (0, 0.5, 1, 2, 3)]
            assert all(a >= b > 0 for a, b in itertools.pairwise(profile))
        wide = tl.delta_profile(0.5, epsilon=Fraction(1), q=q)
        assert wide == pytest.approx(tl.delta_profile(0.5, epsilon=Fraction(1), q=1000 + q % 2), rel=1e-9)


@pytest.mark.parametrize("q", [1, 2, 5, 6, 40, 41])
@pytest.mark.parametrize("base", [Fraction(101, 100), Fraction(2), Fraction(50)])
def test_the_middle_atom_is_exact(base: Fraction, q: int) -> None:
    exact = max(atoms(base, q))
    assert exact <= Fraction(tl.middle_atom(math.log(base), q)) <= exact * Fraction(1 + 1e-11)


@settings(max_examples=200, deadline=None)
@given(st.floats(1e-3, 20), st.floats(1e-300, 0.9))
def test_smallest_q_holds_and_one_less_fails(epsilon: float, delta: float) -> None:
    q = tl.smallest_q(epsilon, delta)
    assert tl.delta_one_bar(epsilon, q) <= delta
    assert q == 0 or tl.delta_one_bar(epsilon, q - 1) > delta


@settings(max_examples=25, deadline=None)
@given(st.floats(0.05, 4), st.floats(1e-12, 0.1), st.integers(1, 16))
def test_calibration_holds_and_is_never_worse_than_an_even_split(epsilon: float, delta: float, bars: int) -> None:
    found = tl.calibrate(epsilon, delta, bars)
    assert tl.delta_profile(epsilon, epsilon=found.epsilon, q=found.q, bars=bars) <= delta
    assert found.q <= tl.smallest_q(epsilon / bars, delta / bars * (1 - 1e-9)) + 1


def test_more_bars_than_one_gain_from_the_exact_profile() -> None:
    found = tl.calibrate(1.0, 2**-20, 50)
    assert found.epsilon > Fraction(1, 50)
    assert found.q < 0.7 * tl.smallest_q(1 / 50, 2**-20 / 50)


@settings(max_examples=100, deadline=None)
@given(st.floats(0.05, 5), st.integers(0, 60), st.integers(1, 6))
def test_the_profile_falls_with_epsilon_and_grows_with_bars(epsilon: float, q: int, bars: int) -> None:
    exact = Fraction(epsilon)
    at = [tl.delta_profile(x * epsilon, epsilon=exact, q=q, bars=bars) for x in (0, 0.5, 1, 2, bars, bars + 1)]
    assert all(a >= b * (1 - 1e-8) for a, b in itertools.pairwise(at[:3] + at[4:]))
    assert at[-1] == pytest.approx(1 - (1 - tl.delta_one_bar(epsilon, q)) ** bars, rel=1e-6, abs=1e-15)
    assert tl.delta_profile(epsilon, epsilon=exact, q=q, bars=bars + 1) >= at[2] * (1 - 1e-8)


def test_delta_falls_with_q_across_parities_and_in_the_far_tail() -> None:
    for epsilon in (1e-3, 0.1, 1, 30):
        deltas = [tl.delta_one_bar(epsilon, q) for q in (*range(200), 1398, 1399, 1400, 1401, 5000)]
        assert all(a >= b for a, b in itertools.pairwise(deltas))
    assert tl.delta_one_bar(1.0, 1397) == pytest.approx(tl.delta_one_bar(1.0, 1399) * math.e, rel=1e-9)
    assert tl.delta_one_bar(1.0, 1398) > tl.delta_one_bar(1.0, 1402) > 0


def test_refusals() -> None:
    assert tl.smallest_q(1, 1) == 0
    with pytest.raises(Infeasible, match="noise below 2"):
        tl.smallest_q(1e-13, 1e-30)
    with pytest.raises(InvalidParameter, match="between 1 and 256"):
        tl.calibrate(1, 1e-6, 257)
