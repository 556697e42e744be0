"""The mechanisms as dataclasses: what they refuse, what they promise, and exact laws on small neighbours."""

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dphist as dp
from dphist.errors import Infeasible, InvalidParameter
from dphist.mechanisms import (
    CorrelatedGaussian,
    DiscreteCorrelatedGaussian,
    DiscreteGaussianThreshold,
    GroupMechanism,
    KnownGroups,
    LaplaceThreshold,
    SparseGaussian,
    epsilon_at,
)
from dphist.mechanisms.discrete import discrete_correlated
from dphist.mechanisms.lattice import round_up_to_lattice
from dphist.mechanisms.surcharge import MOST_DRAWS, SAMPLER_ERROR
from dphist.noise import DiscreteGaussian, DiscreteLaplace, Law, RoundedGaussian, sampler_error
from dphist.noise.laws import LARGEST_SCALE
from dphist.noise.tails import log_pmf
from dphist.planning import Request

SPARSE = SparseGaussian(max_groups=10, noise_std=16.2, threshold=99.0)
CORRELATED = CorrelatedGaussian(50, 50, 20.0, 0.14, threshold=150.0)
LAPLACE = LaplaceThreshold(max_groups=3, scale=3.0, threshold=60.0)
DISCRETE = DiscreteGaussianThreshold(max_groups=3, noise_std=10.0, threshold=70.0)
DISCRETE_CORRELATED = DiscreteCorrelatedGaussian(50, Fraction(2000), Fraction(280), threshold=180.0)
KNOWN = KnownGroups(groups=100, max_groups=100, independent_std=20.0, correlation=0.1)


@pytest.mark.parametrize("mechanism", [SPARSE, CORRELATED, LAPLACE, KNOWN, DISCRETE, DISCRETE_CORRELATED])
def test_profiles_fall_and_their_inverse_holds(mechanism: SparseGaussian) -> None:
    deltas = [mechanism.delta(e) for e in (0.0, 0.1, 0.5, 1.0, 2.0, 5.0)]
    assert deltas == sorted(deltas, reverse=True)
    epsilon = epsilon_at(mechanism, 1e-4)
    assert mechanism.delta(epsilon) <= 1e-4 < mechanism.delta(epsilon * (1 - 1e-6))
    assert epsilon_at(mechanism, 1 - 1e-9) == 0.0


def test_no_epsilon_is_enough_below_delta_infinity() -> None:
    with pytest.raises(Infeasible, match="raise the gap"):
        epsilon_at(SparseGaussian(max_groups=10, noise_std=16.0, threshold=20.0), 1e-8)


@pytest.mark.parametrize("mechanism", [SPARSE, CORRELATED, LAPLACE, DISCRETE, DISCRETE_CORRELATED])
def test_release_probabilities_and_counts_agree(mechanism: SparseGaussian) -> None:
    for probability in (0.05, 0.5, 0.95, 0.999):
        count = mechanism.count_released_with(probability)
        assert mechanism.release_probability(count) >= probability - 1e-9
        assert mechanism.release_probability(count - 1) < probability
    assert mechanism.release_probability(0.5) == 0.0
    # the chance that a group of one unit is released is delta_infinity for one group
    one = mechanism.release_probability(1.0)
    assert 1 - (1 - one) ** mechanism.max_groups == pytest.approx(mechanism.delta_infinity(), rel=0.15)


@pytest.mark.parametrize("mechanism", [SPARSE, CORRELATED, LAPLACE, KNOWN, DISCRETE, DISCRETE_CORRELATED])
def test_words(mechanism: SparseGaussian) -> None:
    assert "[" in mechanism.theorem or "derivation" in mechanism.theorem
    assert mechanism.assumption
    assert mechanism.noise_quantile(0.975) > 0
    assert mechanism.noise_quantile(0.025) == pytest.approx(-mechanism.noise_quantile(0.975))
    assert mechanism.delta_noise(1.0) <= mechanism.delta(1.0)
    assert mechanism.steps() == []  # only rounds and elections have steps of their own
    assert mechanism.bound_in_words.startswith("max_groups ")


def test_one_group_is_written_in_the_singular() -> None:
    assert "one group," in SparseGaussian(max_groups=1, noise_std=5.0, threshold=30.0).assumption
    assert "public list" in CorrelatedGaussian(50, 5, 20.0, 0.14, threshold=150.0).assumption
    assert KnownGroups(groups=3, max_groups=1, independent_std=2.0).analysis == "independent"
    assert "Lemma" not in KnownGroups(groups=3, max_groups=1, independent_std=2.0).theorem


def test_paper_analyses_use_their_own_parts() -> None:
    k = 100
    mechanism = CorrelatedGaussian(k, k, 53.0, 1 / math.sqrt(k), threshold=400.0, analysis="paper-3.3")
    assert mechanism.delta(0.35) == pytest.approx(mechanism.delta_noise(0.35) + mechanism.delta_infinity(), rel=1e-9)
    tight = CorrelatedGaussian(k, k, 53.0, 1 / math.sqrt(k), threshold=400.0)
    assert tight.delta(0.35) < mechanism.delta(0.35)


@pytest.mark.parametrize(
    "build",
    [
        lambda: SparseGaussian(max_groups=0, noise_std=1.0, threshold=5.0),
        lambda: SparseGaussian(max_groups=True, noise_std=1.0, threshold=5.0),
        lambda: SparseGaussian(max_groups=2**41, noise_std=1.0, threshold=5.0),
        lambda: SparseGaussian(max_groups=1, noise_std=0.0, threshold=5.0),
        lambda: SparseGaussian(max_groups=1, noise_std=math.inf, threshold=5.0),
        lambda: SparseGaussian(max_groups=1, noise_std=1.0, threshold=0.5),
        lambda: SparseGaussian(max_groups=1, noise_std=1.0, threshold=5.0, low_threshold=6),
        lambda: SparseGaussian(max_groups=1, noise_std=1.0, threshold=5.00001),
        lambda: SparseGaussian(max_groups=1, noise_std=1.0, threshold=5.0, sums_sensitivity=-1.0),
        lambda: SparseGaussian(max_groups=1, noise_std=1.0, threshold=5.0, analysis="tight"),  # type: ignore[arg-type]
        lambda: SparseGaussian(max_groups=1, noise_std=1.0, threshold=2.0**52),
        lambda: CorrelatedGaussian(5, 6, 1.0, 0.5, threshold=5.0),
        lambda: CorrelatedGaussian(5, 5, 1.0, -0.5, threshold=5.0),
        lambda: CorrelatedGaussian(5, 5, 1.0, 0.5, threshold=5.0, analysis="paper-3.5"),
        lambda: CorrelatedGaussian(4, 3, 1.0, 0.5, threshold=5.0, analysis="paper-3.5"),
        lambda: CorrelatedGaussian(4, 4, 1.0, 0.5, threshold=5.0, sums_sensitivity=1.0, analysis="paper-3.3"),
        lambda: CorrelatedGaussian(5, 5, 1.0, 1e7, threshold=5.0),
        lambda: KnownGroups(groups=1, max_groups=1, independent_std=1e-9, correlation=1e17, lattice_bits=45),
        lambda: KnownGroups(groups=1, max_groups=1, independent_std=1.0, lattice_bits=45),
        lambda: LaplaceThreshold(1, 1.0, 5.5),
        lambda: LaplaceThreshold(1, -1.0, 5.0),
        lambda: KnownGroups(groups=3, max_groups=4, independent_std=1.0),
        lambda: DiscreteGaussianThreshold(3, 4.0, 5.5),
        lambda: DiscreteCorrelatedGaussian(3, Fraction(4), Fraction(2), 5.25),
        lambda: DiscreteCorrelatedGaussian(3, Fraction(4), Fraction(0), 5.0),
    ],
)
def test_impossible_parameters_are_refused(build: object) -> None:
    with pytest.raises(InvalidParameter, match=r"^Expected .*, got "):
        build()  # type: ignore[operator]


@given(value=st.floats(0, 1e6), bits=st.integers(0, 30))
def test_thresholds_round_up(value: float, bits: int) -> None:
    found = Fraction(round_up_to_lattice(value, bits))
    assert Fraction(value) <= found < Fraction(value) + Fraction(1, 2**bits)
    assert (found * 2**bits).denominator == 1


def test_the_samplers_are_as_exact_as_the_mechanisms_assume() -> None:
    laws: list[Law] = [
        RoundedGaussian(Fraction(16.125), 10),
        RoundedGaussian(Fraction(0.3), 20),
        RoundedGaussian(Fraction(1e6), 0),
        DiscreteGaussian(Fraction(7.5)),
        DiscreteLaplace(Fraction(3.7)),
        DiscreteLaplace(Fraction(1e5)),
        DiscreteLaplace(LARGEST_SCALE),
        RoundedGaussian(LARGEST_SCALE / Fraction(2), 0),  # the largest noise of an adaptive sum
        RoundedGaussian(Fraction(5.7), 16),
    ]
    assert all(MOST_DRAWS * sampler_error(law) <= SAMPLER_ERROR for law in laws)


def hockey_stick(p: np.ndarray, q: np.ndarray, epsilon: float) -> float:
    return float(np.maximum(p - math.exp(epsilon) * q, 0).sum())


def test_laplace_law_enumerated() -> None:
    """One group of one unit against an empty one, and shared groups, with every output listed."""
    mechanism = LaplaceThreshold(max_groups=2, scale=1.0, threshold=6.0)
    z = np.arange(-60, 61)
    law = np.exp(-np.abs(z)) / np.exp(-np.abs(z)).sum()

    def output(count: int) -> np.ndarray:
        """P(released with each value), then P(nothing released); values from -60 to 200."""
        out = np.zeros(262)
        if count == 0:
            out[-1] = 1.0
            return out
        for noise, probability in zip(z, law, strict=True):
            out[count + noise + 60 if count + noise > 6 else -1] += probability
        return out

    for before in ((0, 0), (0, 5), (3, 7), (0, 30)):
        after = tuple(count + 1 for count in before)
        p = np.outer(output(after[0]), output(after[1]))
        q = np.outer(output(before[0]), output(before[1]))
        for epsilon in (1.0, 1.7, 2.0, 2.5):
            assert hockey_stick(p, q, epsilon) <= mechanism.delta(epsilon)
            assert hockey_stick(q, p, epsilon) <= mechanism.delta(epsilon)
    empty = np.outer(output(0), output(0))
    both_new = np.outer(output(1), output(1))
    assert hockey_stick(both_new, empty, 2.0) == pytest.approx(mechanism.delta(2.0), rel=1e-9)
    # one lower and the claim would be false: a threshold that is not strict, or rounded down
    lower = LaplaceThreshold(max_groups=2, scale=1.0, threshold=7.0)
    assert hockey_stick(both_new, empty, 2.0) > lower.delta(2.0)


def test_laplace_with_aggregates_spends_epsilon_exactly() -> None:
    mechanism = LaplaceThreshold(max_groups=4, scale=8.0, threshold=100.0, sums_epsilon=0.125)
    assert mechanism.pure_epsilon == 1
    assert mechanism.delta_noise(1.0) == 0.0
    assert mechanism.delta_noise(0.999999) > 0


def test_discrete_correlated_noise_enumerated() -> None:
    """[LR25] Theorem 7.7 for two counters: every (Z_1, Z_2, Z_c) summed, both directions."""
    mechanism = DiscreteCorrelatedGaussian(2, Fraction(40), Fraction(28), threshold=12.0)
    reach = 60
    grid = np.arange(-reach, reach + 1)
    own = np.exp(log_pmf(DiscreteGaussian(mechanism.variance), grid))
    common = np.exp(log_pmf(DiscreteGaussian(mechanism.common_variance), grid))
    size = 4 * reach + 200

    def output(counts: tuple[int, int]) -> np.ndarray:
        """The joint law of both outputs in halves, shifted; the last index means: not released."""
        joint = np.zeros((size + 1, size + 1))
        for shared, probability in zip(grid, common, strict=True):
            sides = []
            for count in counts:
                side = np.zeros(size + 1)
                if count == 0:
                    side[-1] = 1.0
                else:
                    values = 2 * count + grid + shared
                    np.add.at(side, np.where(values > 24, values + 2 * reach, size), own)
                sides.append(side)
            joint += probability * np.outer(*sides)
        return joint

    pairs = [((0, 0), (1, 1)), ((0, 20), (1, 21)), ((20, 20), (21, 21)), ((20, 20), (21, 20)), ((5, 20), (6, 20))]
    for before, after in pairs:
        p, q = output(after), output(before)
        for epsilon in (0.2, 0.6, 1.2):
            claimed = mechanism.delta(epsilon)
            assert hockey_stick(p, q, epsilon) <= claimed
            assert hockey_stick(q, p, epsilon) <= claimed
    infinite = hockey_stick(output((1, 1)), output((0, 0)), 50.0)
    assert infinite == pytest.approx(mechanism.delta_infinity(), rel=1e-6)


def test_discrete_correlated_calibration() -> None:
    for k in (1, 10, 1000):
        mechanism = discrete_correlated(0.35, 1e-5, k)
        assert mechanism.delta(0.35) <= 1e-5
        tighter = DiscreteCorrelatedGaussian(
            k, mechanism.variance, mechanism.common_variance, mechanism.threshold - 0.5
        )
        assert tighter.delta(0.35) > 1e-5
        assert mechanism.rho == pytest.approx((k + math.sqrt(k)) / (2 * float(mechanism.variance)))
    assert discrete_correlated(40.0, 0.1, 1).delta(40.0) <= 0.1


def test_discrete_gaussian_law_enumerated() -> None:
    """Golden threshold 9 at (sigma, delta) = (2, 1e-5); one group new, or shared: every output summed, both directions."""
    assert (
        DiscreteGaussianThreshold(1, 2.0, 9.0).delta_infinity()
        <= 1e-5
        < DiscreteGaussianThreshold(1, 2.0, 8.0).delta_infinity()
    )
    # five units of noise: a threshold rounded down leaks
    assert DiscreteGaussianThreshold(10, 5.0, 27.0).delta_infinity() <= 1e-6
    assert DiscreteGaussianThreshold(10, 5.0, 26.0).delta_infinity() > 1e-6
    mechanism = DiscreteGaussianThreshold(1, 2.0, 5.0)
    z = np.arange(-60, 61)
    law = np.exp(log_pmf(DiscreteGaussian(Fraction(4)), z))

    def output(count: int) -> np.ndarray:
        out = np.zeros(300)
        np.add.at(out, np.where(count + z > 5, count + z + 60, 299), law)
        return out if count else np.eye(300)[299]

    for before in (0, 1, 4, 40):
        p, q = output(before + 1), output(before)
        for epsilon in (0.3, 1.0, 2.0):
            assert max(hockey_stick(p, q, epsilon), hockey_stick(q, p, epsilon)) <= mechanism.delta(epsilon)


def test_noise_lands_where_it_should() -> None:
    """alpha < 1e-9: the mean of 20,000 noises within 6 standard errors, their spread within 5 %; 10 % off must fail."""
    counts = np.full(20_000, 1000)
    for mechanism in (SPARSE, LAPLACE, DISCRETE, KnownGroups(20_000, 10, 20.0)):
        noise = mechanism.perturb(counts).counts - 1000
        assert abs(noise.mean()) < 6 * mechanism.noise_std / math.sqrt(20_000)
        assert noise.std() == pytest.approx(mechanism.noise_std, rel=0.05)
        assert noise.std() != pytest.approx(mechanism.noise_std * 1.1, rel=0.05)
    common = CorrelatedGaussian(20_000, 20_000, 5.0, 400.0, threshold=10.0).perturb(counts).counts - 1000
    assert abs(common.mean()) > 1e-3
    assert common.std() == pytest.approx(5.0, rel=0.05)
    halves = DiscreteCorrelatedGaussian(20_000, Fraction(400), Fraction(100), threshold=10.0).perturb(counts)
    assert halves.lattice_bits == 1
    assert (halves.counts - 1000).std() == pytest.approx(10.0, rel=0.05)
    with pytest.raises(InvalidParameter, match="all 100 listed groups"):
        KNOWN.perturb(counts)


def test_small_counts_are_never_looked_at() -> None:
    low = SparseGaussian(max_groups=1, noise_std=5.0, threshold=8.0, low_threshold=8)
    assert len(low.perturb(np.full(10_000, 7)).index) == 0
    kept = low.perturb(np.full(10_000, 8))
    assert 0 < len(kept.index) < 10_000
    assert (kept.counts > 8).all()


def test_laplace_just_below_its_pure_epsilon() -> None:
    mechanism = LaplaceThreshold(1, 1000.0, 41000.0)
    just_below = math.nextafter(1e-3, 0)
    assert mechanism.delta(just_below) >= 1e-19  # (e^p - e^epsilon)/(1 + e^p), not lost beside 1


def test_the_samplers_of_all_counters_count_under_common_noise() -> None:
    from dphist.mechanisms.surcharge import sampler_surcharge

    quiet = CorrelatedGaussian(10**6, 1, 1e9, 0.001, threshold=1e11)
    assert quiet.delta(20.0) >= sampler_surcharge(20.0, 10**6)
    assert quiet.delta(1e3) == quiet.delta(30.0)


def test_sparsity_is_enforced_before_small_counts_are_dropped() -> None:
    """The other order would let the subtracted count jump by low_threshold when one unit comes."""
    mechanism = CorrelatedGaussian(2, 2, 0.001, 0.001, threshold=11.0, low_threshold=10)
    counts = np.array([30, 29, 9])
    assert mechanism.perturb(counts).counts.round().tolist() == [21.0, 20.0]


@pytest.mark.parametrize("correlation", [2e-311, 5e-324, 1e7, -1.0, math.nan])
def test_absurd_correlations_are_refused(correlation: float) -> None:
    with pytest.raises(InvalidParameter, match="correlation"):
        CorrelatedGaussian(4, 4, 3.0, correlation, 20.0)
    assert CorrelatedGaussian(4, 4, 3.0, 1e-300, 20.0).delta(1.0) < 1


def test_what_a_mechanism_has_unless_it_says_otherwise() -> None:
    listed = KnownGroups(8, 3, 2.0)
    assert (listed.release_probability(0), listed.count_released_with(0.95), listed.rounds) == (1.0, 0.0, 1)
    assert GroupMechanism.gap.fget(SparseGaussian(3, 2.0, 9.0)) == 8.0  # type: ignore[attr-defined]
    assert GroupMechanism.gap.fget(listed) is None  # type: ignore[attr-defined]
    halves = dp.plan(epsilon=1, delta=1e-6, sparsity=9, noise="discrete", mechanism="correlated-gaussian")
    assert halves.mechanism.with_noise(halves.request) is halves.mechanism


def test_every_mechanism_that_is_named_is_there_and_no_other() -> None:
    """Some are loaded only when they are asked for."""
    from dphist import mechanisms

    named = set(mechanisms.__all__) - {"GROUP_MECHANISMS"}
    assert {getattr(mechanisms, name).__name__ for name in named} == named
    with pytest.raises(AttributeError, match="has no attribute 'Staircase'"):
        mechanisms.Staircase  # noqa: B018


def test_the_parameters_of_one_mechanism_are_not_read_as_those_of_another() -> None:
    data = {**SparseGaussian(max_groups=2, noise_std=5.0, threshold=40.0).to_data(), "name": "laplace"}
    with pytest.raises(InvalidParameter, match="sparse-gaussian"):
        SparseGaussian.from_data(data)


def test_correlated_noise_of_another_size_keeps_its_correlation() -> None:
    request = Request(1.0, 1e-8, sparsity=100, mechanism="correlated-gaussian")
    chosen = next(iter(CorrelatedGaussian.for_request(request)))()
    louder = chosen.with_noise(replace(request, noise_std=2 * chosen.noise_std))
    assert louder.noise_std == pytest.approx(2 * chosen.noise_std, rel=1e-3)
    assert louder.correlation == chosen.correlation
