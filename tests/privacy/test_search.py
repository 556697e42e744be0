"""Inversion, minimisation and the worst split: what they return has been evaluated and holds."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dphist.errors import Infeasible
from dphist.privacy.search import best_noise, bisect_floats, edge, minimise, smallest, worst_split


@given(root=st.floats(1e-6, 1e6), power=st.floats(0.3, 30), log_target=st.floats(-200, -1))
def test_edge_returns_a_point_that_holds_next_to_one_that_fails(root: float, power: float, log_target: float) -> None:
    target = 10.0**log_target

    def decreasing(x: float) -> float:
        return float(min(1.0, target * (x / root) ** -power))

    found = edge(decreasing, target, root * 50, root / 50)
    assert decreasing(found) <= target
    assert found == pytest.approx(root, rel=1e-10)


def test_edge_in_the_other_direction_and_at_kinks() -> None:
    assert edge(lambda x: x * x, 0.25, 0.0, 9.0) == pytest.approx(0.5, rel=1e-12)
    flat = [0]

    def kinked(x: float) -> float:
        flat[0] += 1
        return max(0.999, 3 - x) if x < 5 else 0.999

    assert kinked(edge(kinked, 1.0, 100.0, 0.0)) <= 1.0
    assert edge(kinked, 1.0, 100.0, 0.0) == pytest.approx(2.0, rel=1e-12)
    assert flat[0] < 140  # bisection's number, not a thousand
    assert edge(lambda x: 0.0, 0.5, 1.0, 7.0) == 7.0
    assert edge(lambda x: 0.0 if x > 3 else 1.0, 0.5, 4.0, 1.0) == pytest.approx(3.0)
    with pytest.raises(Infeasible):
        edge(lambda x: 2.0, 1.0, 0.0, 1.0)


def test_edge_stops_at_neighbouring_doubles() -> None:
    low = 1.0
    high = math.nextafter(math.nextafter(low, 2), 2)
    assert edge(lambda x: 0.0 if x > low else 1.0, 0.5, high, low, tolerance=0.0) > low


def test_smallest_walks_both_ways() -> None:
    for start in (0.0, 0.5, 3.0, 900.0):
        assert smallest(lambda x: math.exp(-x), 0.01, start=start, low=0.0, high=1e4) == pytest.approx(math.log(100))
    assert smallest(lambda x: 0.0, 0.01, start=5.0, low=2.0, high=9.0) == 2.0
    with pytest.raises(Infeasible, match="at most 9"):
        smallest(lambda x: 1.0, 0.01, start=5.0, low=2.0, high=9.0)


def test_bisect_floats_reaches_neighbours_across_zero() -> None:
    inside, outside = np.array([-5.0, 5.0, 1.0]), np.array([3.0, -3.0, 2.0])
    found = bisect_floats(lambda x: np.array([x[0] <= -1e-300, x[1] >= 0.25, True]), inside, outside)
    assert found[0] <= -1e-300 < math.nextafter(found[0], 1)
    assert found[1] == 0.25
    assert found[2] == 2.0


def test_minimise_finds_minima_inside_and_at_the_ends() -> None:
    assert minimise(lambda x: (x - 2) ** 2, 0, 5)[0] == pytest.approx(2, abs=1e-6)
    assert minimise(lambda x: x, 1, 5) == (1, 1)
    assert minimise(lambda x: -x, 1, 5) == (5, -5)


def test_best_noise_trades_noise_for_gap() -> None:
    def gap(noise: float) -> float:
        if noise < 1.1:
            raise Infeasible("more", noise)
        return 1 / (noise - 1.05)

    noise, found = best_noise(1.0, gap, weight=1.0, floor=0.0, tolerance=1e-4)
    assert found == gap(noise)
    assert noise == pytest.approx(min(1.0 * math.exp(0.5), 2.05), rel=1e-3)
    assert best_noise(1.0, gap, weight=math.inf, floor=0.0) == (1.0, math.inf)
    assert best_noise(2.0, lambda s: s, weight=1.0, floor=2.0) == (2.0, 2.0)
    assert best_noise(2.0, lambda s: s, weight=1.0, floor=0.0) == (2.0, 2.0)


@given(
    size=st.integers(0, 3000),
    rise=st.floats(0.1, 3),
    fall=st.floats(0.1, 3),
    at_least=st.floats(0, 2),
)
def test_worst_split_equals_the_brute_force_maximum(size: int, rise: float, fall: float, at_least: float) -> None:
    def upper(low: np.ndarray, high: np.ndarray) -> np.ndarray:
        return (high / (size + 1)) ** rise * (1 + (size - low) / (size + 1)) ** fall

    every = np.arange(1, size + 1)
    exact = max(at_least, float(upper(every, every).max(initial=0.0)))
    found = worst_split(upper, 1, size, at_least=at_least)
    assert exact <= found <= exact * (1 + 1e-9)


def test_worst_split_gives_up_safely_when_bounds_never_tighten() -> None:
    bound = worst_split(lambda low, high: np.where(low == high, 1.0, 2.0), 1, 10**7)
    assert bound == 2.0


@pytest.mark.parametrize("place", [77, 301, 333, 457, 500])
def test_worst_split_remembers_ranges_it_dropped(place: int) -> None:
    """A range dropped early may hold a value a little above the best single point seen later: its bound must be kept.

    Wherever that value is: at the end of a range it would be seen at once.
    """

    def upper(low: np.ndarray, high: np.ndarray) -> np.ndarray:
        inside = (low <= place) & (high >= place)
        late = (low <= 900) & (high >= 900)
        return np.where(inside, 1.0 + 9e-6, np.where(late & (low < high), 1.1, 1.0))

    assert worst_split(upper, 1, 1000, tolerance=1e-5) >= 1.0 + 9e-6
