"""Distances and distortions against brute force and linear programming, and the paper's lemmas as properties."""

import itertools
import math
from collections.abc import Iterator
from fractions import Fraction

import numpy as np
import pytest
from flexible_composition import (
    after_preprocessing,
    compose,
    drop_and_move_distance,
    drop_distance,
    error_sensitivity,
    flexible_error_max_k,
    flexible_error_mode,
    move_distance,
)
from flexible_distances import lossy_average_distance, lossy_infinity_distance, maximum_flow, on_line
from flexible_on_line import _Chain, lossy_infinity_on_line, missing_mass
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.optimize import linprog

from dphist.errors import InvalidParameter
from dphist.planning.flexible import Accuracy
from example_numbers import examples

Histogram = dict[int, int]
P = {0: 5, 3: 3, 10: 2}
Q = {1: 4, 4: 4, 20: 2}

histograms = st.dictionaries(st.integers(0, 12), st.integers(1, 5), min_size=1, max_size=6)
shares = st.integers(0, 12).map(lambda i: Fraction(i, 12))
quick = examples(40)


def matrix(x: Histogram, y: Histogram) -> NDArray[np.float64]:
    return np.asarray(np.abs(np.subtract.outer(np.array(list(x), float), np.array(list(y), float))))


def lp_flow(x: Histogram, y: Histogram, beta: float) -> float:
    """The largest mass of the normalised histograms that can be moved within beta, by linear programming."""
    allowed = (matrix(x, y) <= beta).ravel()
    rows, columns = len(x), len(y)
    constraints = np.zeros((rows + columns, rows * columns))
    for cell in range(rows * columns):
        constraints[cell // columns, cell] = constraints[rows + cell % columns, cell] = 1
    limits = [m / sum(x.values()) for m in x.values()] + [m / sum(y.values()) for m in y.values()]
    found = linprog(-allowed.astype(float), A_ub=constraints, b_ub=limits, method="highs")
    return -float(found.fun or 0)


def lp_infinity(x: Histogram, y: Histogram, gamma: Fraction) -> float:
    if gamma >= 1:
        return 0.0
    return next(float(b) for b in np.unique(matrix(x, y)) if lp_flow(x, y, b) >= float(1 - gamma) - 1e-9)


@pytest.mark.parametrize(
    ("gamma", "infinity", "average"), [(0, 10, 3.1), (0.1, 10, 2.1), (0.2, 4, 1.1), (0.3, 1, 0.7), (0.5, 1, 0.5)]
)
def test_golden_distances(gamma: float, infinity: float, average: float) -> None:
    assert lossy_infinity_on_line(P, Q, gamma) == infinity
    assert lossy_infinity_distance([5, 3, 2], [4, 4, 2], matrix(P, Q), gamma) == infinity
    assert lossy_average_distance([5, 3, 2], [4, 4, 2], matrix(P, Q), gamma) == pytest.approx(average)


def test_golden_drop_and_move() -> None:
    assert drop_and_move_distance({0: 3, 5: 2, 9: 1}, {1: 2, 7: 2}, 0.1) == pytest.approx(8 / 15, rel=1e-15)


@quick
@given(histograms, histograms, shares)
def test_infinity_against_linear_programming(x: Histogram, y: Histogram, gamma: Fraction) -> None:
    expected = lp_infinity(x, y, gamma)
    expected = 0.0 if gamma == 1 else expected
    assert lossy_infinity_on_line(x, y, gamma) == expected
    assert lossy_infinity_distance(list(x.values()), list(y.values()), matrix(x, y), gamma) == expected


@quick
@given(st.lists(st.tuples(st.floats(-9, 9), st.integers(1, 4)), min_size=1, max_size=7), shares)
def test_infinity_with_real_values(points: list[tuple[float, int]], gamma: Fraction) -> None:
    x = dict(points)
    y = {value * 0.7 + 0.1: mass for value, mass in reversed(points)}
    found = lossy_infinity_on_line(x, y, gamma)
    values, ours = np.array(list(x)), np.array(list(y))
    exact = lossy_infinity_distance(list(x.values()), list(y.values()), np.abs(np.subtract.outer(values, ours)), gamma)
    assert found == pytest.approx(exact, rel=1e-12, abs=1e-12)


@pytest.mark.parametrize("gamma", [0, 0.01, 0.1, 0.35, 0.8])
def test_infinity_with_many_atoms(gamma: float) -> None:
    """Enough atoms for steps to be merged while the bracket shrinks."""
    random = np.random.default_rng(5)
    for size in (30, 45):
        x, y = np.sort(random.normal(size=size)), np.sort(random.normal(0.2, 1.3, size=size + 7))
        p, q = random.integers(1, 6, size), random.integers(1, 6, size + 7)
        exact = lossy_infinity_distance(p.tolist(), q.tolist(), np.abs(np.subtract.outer(x, y)), gamma)
        assert lossy_infinity_on_line((x, p), (y, q), gamma) == pytest.approx(exact, rel=1e-14)


@pytest.mark.parametrize("gamma", [0, 0.05, 0.5, 0.9])
def test_infinity_across_many_scales(gamma: float) -> None:
    """Distances from 1e-12 to 1e6: where a bracket that is only halved, or only bent, would not get to the end."""
    random = np.random.default_rng(6)
    for spread in (1, 12):
        x, y = (np.unique(10 ** random.uniform(-spread, spread / 2, size)) for size in (40, 33))
        p, q = random.integers(1, 1000, x.size), random.integers(1, 1000, y.size)
        exact = lossy_infinity_distance(p.tolist(), q.tolist(), np.abs(np.subtract.outer(x, y)), gamma)
        assert lossy_infinity_on_line((x, p), (y, q), gamma) == pytest.approx(exact, rel=1e-9, abs=1e-9)
    tiny = {0.0: 1, 5e-324: 1}, {0.0: 1, 2e-323: 2}
    assert lossy_infinity_on_line(*tiny, gamma) in (0, 1.5e-323, 2e-323)


@pytest.mark.parametrize("gamma", [0.01, 0.3])
def test_few_passes_over_all_atoms(gamma: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """What makes it fast, without a clock: few points are asked for while most atoms are still open."""
    open_atoms: list[int] = []
    missing = _Chain.missing

    def counted(chain: _Chain, beta: float) -> int:
        open_atoms.append(chain._x.size)
        return missing(chain, beta)

    monkeypatch.setattr(_Chain, "missing", counted)
    random = np.random.default_rng(7)
    x, y, masses = np.sort(random.normal(size=20_000)), np.sort(random.normal(size=20_000)), np.ones(20_000, dtype=int)
    found = lossy_infinity_on_line((x, masses), (y, masses), gamma)
    assert sum(size > 2_000 for size in open_atoms) <= 12
    assert missing_mass(x, masses, y, masses, found) <= gamma * 20_000
    assert missing_mass(x, masses, y, masses, found * (1 - 1e-9)) > gamma * 20_000


@quick
@given(histograms, histograms, st.integers(0, 12))
def test_the_reduction_is_the_flow(x: Histogram, y: Histogram, beta: int) -> None:
    values, p = on_line(x)
    others, q = on_line(y)
    near = np.abs(np.subtract.outer(values, others)) <= beta
    moved = maximum_flow([int(m) for m in p], [int(m) for m in q], near)
    assert missing_mass(values, p, others, q, beta) == int(sum(p)) - moved


@quick
@given(histograms, histograms, histograms, shares, shares)
def test_lemma_1_triangle_inequality(x: Histogram, y: Histogram, z: Histogram, a: Fraction, b: Fraction) -> None:
    both = min(Fraction(1), a + b)
    assert lossy_infinity_on_line(x, z, both) <= lossy_infinity_on_line(x, y, a) + lossy_infinity_on_line(y, z, b)


@settings(max_examples=40, deadline=None)
@given(histograms, histograms, shares, shares)
def test_lemma_5_average_against_infinity(x: Histogram, y: Histogram, a: Fraction, b: Fraction) -> None:
    masses = list(x.values()), list(y.values())
    worst = lossy_infinity_on_line(x, y, a)
    assert lossy_average_distance(masses[0], masses[1], matrix(x, y), a) <= worst + 1e-9
    if b < a:
        assert worst <= lossy_average_distance(masses[0], masses[1], matrix(x, y), b) / float(a - b) + 1e-9


@quick
@given(histograms, st.integers(0, 12), st.integers(0, 12), shares)
def test_lemma_6_pac_is_a_special_case(x: Histogram, point: int, beta: int, gamma: Fraction) -> None:
    outside = sum((Fraction(m) for v, m in x.items() if abs(v - point) > beta), Fraction(0)) / sum(x.values())
    assert (lossy_infinity_on_line({point: 1}, x, gamma) <= beta) == (outside <= gamma)


@quick
@given(histograms, histograms, shares)
def test_lemma_7_total_variation_is_a_special_case(x: Histogram, y: Histogram, gamma: Fraction) -> None:
    n, m = sum(x.values()), sum(y.values())
    variation = sum((abs(Fraction(x.get(v, 0), n) - Fraction(y.get(v, 0), m)) for v in {*x, *y}), Fraction(0)) / 2
    assert (lossy_infinity_on_line(x, y, gamma) == 0) == (variation <= gamma)


def below(x: Histogram) -> Iterator[Histogram]:
    """Every histogram that x becomes by dropping records."""
    for counts in itertools.product(*(range(count + 1) for count in x.values())):
        yield {value: count for value, count in zip(x, counts, strict=True) if count}


small = st.dictionaries(st.integers(0, 8), st.integers(1, 2), min_size=0, max_size=4)


@quick
@given(small, small)
def test_drop_and_move_against_brute_force(x: Histogram, y: Histogram) -> None:
    """The definition: the least drop distance to some histogram plus eta times the move distance from there."""
    eta = 0.25
    through = min(
        (float(drop_distance(x, middle)) + eta * move_distance(middle, y) for middle in below(x)), default=math.inf
    )
    assert drop_and_move_distance(x, y, eta) == pytest.approx(through)


@quick
@given(small, small, small)
def test_drop_and_move_is_a_quasi_metric(x: Histogram, y: Histogram, z: Histogram) -> None:
    eta = 0.25
    direct = drop_and_move_distance(x, z, eta)
    assert direct <= drop_and_move_distance(x, y, eta) + drop_and_move_distance(y, z, eta) + 1e-12
    assert (drop_and_move_distance(x, y, eta) == 0) == (x == y)


def test_edge_cases_of_distortions() -> None:
    assert drop_distance({}, {}) == move_distance({}, {}) == drop_and_move_distance({}, {}, 1) == 0
    assert drop_distance({1: 2}, {}) == 1
    assert drop_distance({1: 2}, {1: 1}) == Fraction(1, 2)
    assert drop_distance({1: 2}, {2: 1}) == drop_distance({}, {1: 1}) == math.inf
    assert move_distance({1: 2}, {1: 1}) == move_distance({}, {1: 1}) == math.inf
    assert drop_and_move_distance({1: 1}, {1: 2}, 1) == math.inf
    assert drop_and_move_distance({1: 1}, {}, 1) == 1
    with pytest.raises(InvalidParameter, match="eta > 0"):
        drop_and_move_distance({1: 1}, {1: 1}, 0)


def test_large_masses_stay_exact() -> None:
    """A share of 1/3 of coprime totals above 2^40: the common total needs Python's integers."""
    n, m = 2**40 + 15, 3 * 2**40 + 7
    x, y = {0: n}, {0: m - (m - 1) // 3, 7: (m - 1) // 3}
    exact = Fraction((m - 1) // 3, m)
    assert lossy_infinity_on_line(x, y, exact) == 0
    assert lossy_infinity_on_line(x, y, exact - Fraction(1, 10**30)) == 7


def test_arrays_fractions_and_refusals() -> None:
    arrays = np.array([3.0, 0.0, 3.0]), np.array([1, 5, 2])
    assert lossy_infinity_on_line(arrays, {0: Fraction(5, 8), 4: Fraction(3, 8)}) == 1
    for bad in ((np.array([1.0]), np.array([0.5])), (np.array([math.nan]), np.array([1])), ({1: -1})):
        with pytest.raises(InvalidParameter):
            lossy_infinity_on_line(bad, P)
    with pytest.raises(InvalidParameter, match="some mass"):
        lossy_infinity_on_line({}, P)
    for gamma in (-0.1, 1.1):
        with pytest.raises(InvalidParameter, match=r"gamma in \[0, 1\]"):
            lossy_infinity_on_line(P, Q, gamma)
    for function in (lossy_infinity_distance, lossy_average_distance):
        with pytest.raises(InvalidParameter, match="1 x 2 distances"):
            function([1], [1, 1], np.zeros((2, 2)))
        assert function([1], [1], np.ones((1, 1)), 1) == 0


counts_lists = st.lists(st.integers(0, 4), min_size=1, max_size=5)


def dropped(counts: list[int], drops: int) -> Iterator[tuple[int, ...]]:
    for left in itertools.product(*(range(count + 1) for count in counts)):
        if sum(counts) - sum(left) <= drops:
            yield left


@quick
@given(counts_lists, st.integers(0, 6), st.integers(1, 3), st.integers(0, 5))
def test_flexible_errors_against_brute_force(counts: list[int], drops: int, k: int, answer: int) -> None:
    array = np.array(counts, dtype=np.int64)
    tops = [max(i for i, c in enumerate(x) if c >= k) for x in dropped(counts, drops) if max(x) >= k]
    modes = [x.index(max(x)) for x in dropped(counts, drops) if max(x) > 0]
    expected = min((abs(answer - g) for g in tops), default=math.inf)
    assert flexible_error_max_k(array, answer, k=k, drops=drops) == expected
    assert flexible_error_mode(array, answer, drops=drops) == min((abs(answer - g) for g in modes), default=math.inf)


def test_calculators() -> None:
    bucketing = Accuracy(0, 2)
    histogram = compose(bucketing, second_alpha=0.01, second_error=lambda beta, gamma: beta)
    assert histogram == Accuracy(0.01, 2, 0)
    spread = compose(histogram, second_error=error_sensitivity(lambda beta: 2 * beta))
    assert spread == Accuracy(0.01, 4, 0)
    with pytest.raises(InvalidParameter, match="gamma = 0"):
        compose(Accuracy(0, 1, 0.5), second_error=error_sensitivity(lambda beta: beta))
    assert after_preprocessing(1, 1e-6, neighbours_stay_neighbours=True) == (1, 1e-6)
    with pytest.raises(InvalidParameter, match="neighbouring"):
        after_preprocessing(1, 1e-6, neighbours_stay_neighbours=False)
