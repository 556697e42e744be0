"""The calculators of Theorems 1, 2 and 6 and Lemma 2, each against brute force, and each shown to be able to fail."""

import functools
import itertools
import math
from collections import Counter
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from flexible_composition import (
    after_preprocessing,
    compose,
    distortion_sensitivity,
    drop_and_move_distance,
    drop_distance,
    error_sensitivity,
    metric_sensitivity,
    move_distance,
)
from flexible_distances import lossy_average_distance
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linear_sum_assignment
from scipy.stats import wasserstein_distance

from dphist.errors import InvalidParameter
from dphist.planning.flexible import (
    BUCKETED,
    OUTPUT_ERROR,
    Accuracy,
    Buckets,
    PrivateHistogram,
    own_function,
    statistic,
)
from dphist.privacy.truncated_laplace import delta_profile

Records = tuple[int, ...]
quick = settings(max_examples=60, deadline=None)
PLACES = 6
DATA: list[Records] = [
    records for size in (1, 2) for records in itertools.combinations_with_replacement(range(PLACES), size)
]


@functools.cache
def moved(x: Records, y: Records) -> float:
    return move_distance(Counter(x), Counter(y))


def hausdorff(a: list[float], b: list[float]) -> float:
    distances = np.abs(np.subtract.outer(np.array(a), np.array(b)))
    return float(max(distances.min(axis=0).max(), distances.min(axis=1).max()))


def answer(name: str, records: Records) -> object:
    bars = Counter(records)
    private = PrivateHistogram(np.array(sorted(bars), float), np.array([bars[v] for v in sorted(bars)]))
    return statistic(name, private, probability=0.75)


def sensitivity(name: str, beta: float) -> float:
    """Of a statistic, over all data sets of up to two records."""

    def far(a: object, b: object) -> float:
        return hausdorff(a, b) if isinstance(a, list) and isinstance(b, list) else abs(float(a) - float(b))  # type: ignore[arg-type]

    return metric_sensitivity(lambda x: answer(name, x), DATA, beta, input_distance=moved, output_distance=far)


@pytest.mark.parametrize("name", BUCKETED)
def test_metric_sensitivities_of_the_table(name: str) -> None:
    """Every move by at most beta: attained, never exceeded."""
    for beta in (0, 1, 2):
        assert sensitivity(name, beta) == pytest.approx(OUTPUT_ERROR[name] * beta)


def test_the_mode_has_no_finite_sensitivity() -> None:
    """A move by 1 carries it across the range: 0, 0, 4, 5, 5 (mode 0) becomes 0, 1, 5, 5, 5."""
    pair = [(0, 0, 4, 5, 5), (0, 1, 5, 5, 5)]
    found = metric_sensitivity(
        lambda x: float(answer("mode", x)),  # type: ignore[arg-type]
        pair, 1, input_distance=moved, output_distance=lambda a, b: abs(a - b),
    )  # fmt: skip
    assert found == 5


def as_histogram(records: Records) -> tuple[tuple[int, int], ...]:
    return tuple(sorted(Counter(records).items()))


def dropped(x: tuple[tuple[int, int], ...], y: tuple[tuple[int, int], ...]) -> float:
    return float(drop_distance(dict(x), dict(y)))


def test_distortion_sensitivity_of_bucketing_is_the_identity() -> None:
    """What is dropped after bucketing could have been dropped before it: sigma(alpha) = alpha."""
    data = [(), *DATA]
    bucketed = {as_histogram(tuple(v // 2 for v in x)) for x in data}
    for alpha in (0, 0.5, 1):
        found = distortion_sensitivity(
            lambda x: as_histogram(tuple(v // 2 for v in x)), data, bucketed, alpha,
            input_distortion=lambda x, y: float(drop_distance(Counter(x), Counter(y))), output_distortion=dropped,
        )  # fmt: skip
        assert found == pytest.approx(alpha)
    everything_twice = distortion_sensitivity(
        lambda x: as_histogram(x + x), data, {as_histogram(x) for x in DATA}, 0.5,
        input_distortion=lambda x, y: float(drop_distance(Counter(x), Counter(y))), output_distortion=dropped,
    )  # fmt: skip
    assert everything_twice == math.inf  # one of a pair can be dropped after the step, not before it


@pytest.mark.parametrize("name", BUCKETED)
def test_theorem_1_gives_the_promise_of_each_statistic(name: str) -> None:
    """Bucketing (0, beta, 0), then noise that drops alpha, then the statistic: (alpha, factor beta, 0)."""
    beta, alpha = 1.0, 0.01
    private = compose(Accuracy(0, beta), second_alpha=alpha, second_error=lambda b, gamma: b)
    found = compose(private, second_error=error_sensitivity(lambda b: sensitivity(name, b)))
    assert (found.alpha, found.gamma) == (alpha, 0)
    assert found.beta == pytest.approx(OUTPUT_ERROR[name] * beta)


def test_theorem_1_adds_the_distortions_through_the_first_function() -> None:
    found = compose(
        Accuracy(0.02, 3, 0.1), distortion_sensitivity=lambda alpha: 2 * alpha, second_alpha=0.01, second_gamma=0.25,
        second_error=lambda beta, gamma: 10 * beta + gamma,
    )  # fmt: skip
    assert found == Accuracy(0.04, 30.1, 0.25)
    with pytest.raises(InvalidParameter, match="finite alpha"):
        compose(Accuracy(0, 1), distortion_sensitivity=lambda _: math.inf, second_error=lambda beta, gamma: beta)


Law = dict[tuple[tuple[int, int], ...], Fraction]
Step = Callable[[Records], Records]


@functools.cache
def output_law(bars: tuple[tuple[int, int], ...], q: int) -> Law:
    """The exact law of the private histogram with e^epsilon = 2."""
    weights = [Fraction(2) ** min(j, q - j) for j in range(q + 1)]
    law: Law = {(): Fraction(1)}
    for value, count in bars:
        longer: Law = {}
        for (out, p), (j, w) in itertools.product(law.items(), enumerate(weights)):
            key = (*out, (value, count + j - q)) if count + j > q else out
            longer[key] = longer.get(key, Fraction(0)) + p * w / sum(weights)
        law = longer
    return law


def worst_delta(step: Step, q: int) -> Fraction:
    """The largest delta at epsilon of the mechanism after a step, over all data sets with one record more or less."""
    worst = Fraction(0)
    for x in DATA:
        for added in range(PLACES):
            p, r = (output_law(as_histogram(step(records)), q) for records in (x, (*x, added)))
            for one, other in ((p, r), (r, p)):
                delta = sum(
                    (max(Fraction(0), m - 2 * other.get(out, Fraction(0))) for out, m in one.items()), Fraction(0)
                )
                worst = max(worst, delta)
    return worst


def test_theorem_2_by_enumeration() -> None:
    """Bucketing keeps the guarantee of the mechanism behind it; a step that makes two bars of one record does not."""
    q = 3
    promised = after_preprocessing(
        math.log(2), delta_profile(math.log(2), epsilon=Fraction(math.log(2)), q=q), neighbours_stay_neighbours=True
    )
    assert float(worst_delta(lambda x: tuple(v // 2 for v in x), q)) == pytest.approx(promised[1], rel=1e-8)
    assert float(worst_delta(lambda x: (*x, *(v + PLACES for v in x)), q)) > 1.5 * promised[1]
    with pytest.raises(InvalidParameter, match="neighbouring"):
        after_preprocessing(1, 1e-6, neighbours_stay_neighbours=False)


@quick
@given(
    st.lists(st.floats(0, 10), min_size=1, max_size=8),
    st.floats(0.3, 3),
    st.integers(0, 2),
    st.floats(0.01, 2),
    st.data(),
)
def test_theorem_6_bounds_the_distortion_of_every_outcome(
    records: list[float], error: float, q: int, eta: float, data: st.DataObject
) -> None:
    """What a user's function sees is an input at drop-and-move distortion alpha + eta beta from the truth."""
    buckets = Buckets(0, 10, error)
    bars = Counter(buckets.index(records).tolist())
    left = {float(buckets.centre(i)): max(0, c - data.draw(st.integers(0, q))) for i, c in bars.items()}
    promised = own_function(bars=len(bars), q=q, records=len(records), error=error, eta=eta)
    assert drop_and_move_distance(Counter(records), left, eta) <= promised.alpha * (1 + 1e-9)
    assert promised.beta == 0


def test_theorem_6_is_attained() -> None:
    """All records at the edge of one bucket, q of them dropped."""
    promised = own_function(bars=1, q=2, records=4, error=5, eta=0.1)
    assert drop_and_move_distance({0: 4}, {5: 2}, 0.1) == pytest.approx(promised.alpha, rel=1e-12)
    with pytest.raises(InvalidParameter, match="eta > 0"):
        own_function(bars=1, q=2, records=4, error=5, eta=0)
    with pytest.raises(InvalidParameter, match="records of at least 1"):
        own_function(bars=1, q=2, records=0, error=5, eta=1)


points = st.lists(st.integers(0, 12), min_size=2, max_size=5)


@quick
@given(points, st.data())
def test_average_distance_against_assignments(x: list[int], data: st.DataObject) -> None:
    """Equal masses: the cheapest transport of k of n is the cheapest matching of k pairs, found without our program."""
    y = data.draw(st.lists(st.integers(0, 12), min_size=len(x), max_size=len(x)))
    lost = data.draw(st.integers(0, len(x) - 1))
    costs = np.abs(np.subtract.outer(np.array(x, float), np.array(y, float)))
    # a matching that leaves `lost` out on both sides: partners that cost nothing, of which there are exactly so many
    padded = np.zeros((len(x) + lost, len(x) + lost))
    padded[: len(x), : len(x)] = costs
    padded[len(x) :, len(x) :] = 1e6  # partners do not match each other
    rows, columns = linear_sum_assignment(padded)
    best = float(padded[rows, columns].sum()) / len(x)
    ones = [1] * len(x)
    assert lossy_average_distance(ones, ones, costs, Fraction(lost, len(x))) == pytest.approx(best, abs=1e-8)
    if lost == 0:
        assert best == pytest.approx(wasserstein_distance(x, y), abs=1e-9)
