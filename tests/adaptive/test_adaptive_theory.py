"""The accounting: what the lemmas say, and which way everything is rounded."""

import math
from dataclasses import replace

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from scipy.special import ndtr, ndtri

from dphist.errors import Infeasible, InvalidParameter
from dphist.mechanisms.adaptive import AdaptiveGaussian, calibrate, changed_counters, selection_rule
from dphist.mechanisms.base import epsilon_at
from dphist.mechanisms.counts import CountNoise, count_share
from dphist.mechanisms.tuning import LATTICE_BITS, Tuning
from dphist.privacy import adaptive as theory
from dphist.privacy.gaussian import delta_gaussian
from example_numbers import examples


@examples(7)
@given(epsilon=st.floats(0.01, 10), log_delta=st.floats(-14, -0.5), sums=st.floats(0, 6))
@example(epsilon=0.1, log_delta=-10.0, sums=2.0)
def test_calibrated_means_the_forward_map_holds(epsilon: float, log_delta: float, sums: float) -> None:
    target = 10**log_delta
    made = calibrate(epsilon, target, sums_budget=sums)
    assert made.delta(epsilon) <= target
    assert made.delta(epsilon) >= 0.999 * target  # and hardly anything is given away
    assert made.delta(epsilon) <= made.delta(epsilon / 2)
    assert made.sums_sensitivity * made.noise_std == pytest.approx(math.sqrt(sums))
    assert sum(made.budget_split().values()) == pytest.approx(1)


def test_one_step_tighter_fails() -> None:
    made = calibrate(1.0, 1e-8)
    step = 2.0 ** -(LATTICE_BITS + 4)
    parts = (made.counts, made.tuning, made.bars)
    lower = AdaptiveGaussian(made.round_stds, made.threshold - 64 * step, *parts)
    assert lower.delta_infinity() > 0.5e-8
    quieter = AdaptiveGaussian(tuple(s * (1 - 1e-6) for s in made.round_stds), made.threshold, *parts)
    assert quieter.delta_noise(1.0) > made.delta_noise(1.0)


def test_the_numbers_of_the_specification() -> None:
    """theta = mu_s + Phi^-1((1 - delta_inf)^(1/D0)) in units of the selection's noise is enough, and half of mu_s too much."""
    made = calibrate(1.0, 1e-8)
    mu_s = 1 / made.selection_std
    alone = -float(ndtri(-math.expm1(math.log1p(-0.5e-8) / 300)))
    assert alone + 0.45 * mu_s < made.threshold / made.selection_std < alone + 0.55 * mu_s
    assert made.threshold == pytest.approx(41.4462, rel=1e-5)
    assert replace(made, bars=(), threshold=41.3899507522583).delta_infinity() <= 0.5e-8  # and 0.14 % less without bars
    assert float(delta_gaussian(made.mu, 1.0)) == pytest.approx(0.5e-8, rel=1e-3)
    assert mu_s == pytest.approx(made.mu * math.sqrt(made.budget_split()["selection"]), rel=1e-9)
    assert made.budget_split()["selection"] == pytest.approx(
        1 - 0.24 - 0.04, rel=0.01
    )  # a little less for a budget that is not tiny


def test_more_noise_under_a_fixed_threshold_is_not_safer() -> None:
    """+1 % of noise lets groups of one unit through half again as often: thresholds are for the noise actually used."""
    made = calibrate(1.0, 1e-8)
    louder = replace(made, round_stds=tuple(std * 1.01 for std in made.round_stds))
    assert 1.4 < louder.delta_infinity() / made.delta_infinity() < 1.7


def test_the_lemmas_are_the_formulas() -> None:
    assert theory.gdp([2.0, 4.0]) == pytest.approx(math.sqrt(1 / 4 + 1 / 16), rel=1e-12)
    assert theory.gdp([2.0]) >= 0.5
    assert theory.combined_std([0.25, 0.75], [4.0, 2.0]) == pytest.approx(math.sqrt(1 + 2.25), rel=1e-12)
    infinity = theory.delta_full_weight(5.0, 2.0, 7, 2.0**-3)
    assert infinity == pytest.approx(1 - ndtr((5 - 1 - 2.0**-4) / 2) ** 7, rel=1e-9)
    gauss = float(delta_gaussian(0.5, 1.0))
    assert theory.delta(1.0, 0.5, 0.1) == pytest.approx(1 - (1 - gauss) * 0.9, rel=1e-9)
    left = theory.delta_gauss_left(0.3, 0.1)
    assert 1 - (1 - left) * 0.9 <= 0.3


@examples(12)
@given(target=st.floats(1e-14, 0.4), std=st.floats(0.1, 1e4), groups=st.integers(1, 400))
@example(target=1e-8, std=6.0, groups=4096)
def test_thresholds_are_rounded_up_to_the_lattice(target: float, std: float, groups: int) -> None:
    tuning = Tuning(most_groups=groups)
    rule = selection_rule(tuning, tuple(std / share**0.5 for share in tuning.fractions))
    threshold = theory.smallest_threshold(target, rule, 20)
    assert (threshold * 2**20).is_integer()
    assert theory.delta_infinity(threshold, rule) <= target


def test_the_profile_is_a_mechanism_like_the_others() -> None:
    made = calibrate(1.0, 1e-6)
    assert epsilon_at(made, 1e-6) == pytest.approx(1, rel=1e-3)
    assert made.release_probability(made.count_released_with(0.95)) == pytest.approx(0.95)
    assert made.noise_quantile(0.975) == pytest.approx(1.96 * made.noise_std, rel=1e-3)
    assert made.gap == made.threshold - 1
    assert "docs/adaptive.md" in made.theorem
    assert "300" in made.assumption
    assert made.max_groups == 300


@pytest.mark.parametrize(
    "wrong",
    [
        {"round_shares": (3, 5, 7)},
        {"round_shares": ()},
        {"hopeless": (2.5,)},
        {"most_groups": 5000},
        {"most_groups": 0},
        {"delta_share": 0.0},
        {"early_share": -0.01},
        {"early_share": 1 / 3},
        {"scaled_share": 1.0},
        {"whole_share": 0.0},
        {"tail_doubt": -1.0},
        {"groups_per_bin": 0},
    ],
)
def test_constants_that_make_no_sense_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(InvalidParameter):
        Tuning(**wrong)  # type: ignore[arg-type]


def test_mechanisms_that_make_no_sense_are_refused() -> None:
    good = calibrate(1.0, 1e-8)
    with pytest.raises(InvalidParameter, match="rounds"):
        AdaptiveGaussian(good.round_stds[:2], good.threshold, good.counts)
    with pytest.raises(InvalidParameter, match="lattice"):
        AdaptiveGaussian(good.round_stds, good.threshold + 2.0**-30, good.counts)
    for bars, message in (((20.0, 30.0), "a bar after each round"), ((20.0, 30.0, 2.0**-30), "a bar on the lattice")):
        with pytest.raises(InvalidParameter, match=message):
            replace(good, bars=bars)
    with pytest.raises(InvalidParameter, match="Gaussian noise on counts"):  # it is accounted for as Gaussian
        AdaptiveGaussian(good.round_stds, good.threshold, CountNoise("laplace", 40.0, 10.0, 0.5))
    with pytest.raises(InvalidParameter, match="unit_noise"):
        CountNoise("gaussian", 1.0, 0.0, 0.5)
    with pytest.raises(Infeasible, match="sampler"):
        calibrate(1.0, 1e-24)
    with pytest.raises(Infeasible, match="million"):
        calibrate(1e-9, 1e-14)


def test_with_sums_the_counts_get_more_but_never_more_than_half() -> None:
    for share in (0.15, 0.28, 0.45):
        shares = [count_share(share, 0.0, weight) for weight in (0, 1, 4, 1000)]
        assert shares[0] == share
        assert shares == sorted(shares)
        assert share < max(shares) <= 0.5
    assert count_share(0.6, 0.0, 3.0) == 0.6  # unless the count alone has more


@examples(5)
@given(epsilon=st.floats(0.01, 10), log_delta=st.floats(-14, -0.5))
@example(epsilon=0.1, log_delta=-10.0)
def test_keys_alone_have_all_of_the_budget(epsilon: float, log_delta: float) -> None:
    target = 10**log_delta
    keys, counted = calibrate(epsilon, target, keys_only=True), calibrate(epsilon, target)
    assert 0.999 * target <= keys.delta(epsilon) <= target
    assert keys.budget_split() == {"selection": 1.0}
    assert keys.threshold < counted.threshold
    assert 1 / keys.selection_std == pytest.approx(keys.mu, rel=1e-9)
    assert keys.selection_std == pytest.approx(
        counted.selection_std * math.sqrt(counted.budget_split()["selection"]), rel=1e-6
    )
    assert AdaptiveGaussian.from_data(keys.to_data()) == keys
    assert "counted" not in keys.assumption
    assert [label for label, _ in keys.facts()] == ["budget", "selection", "threshold"]
    assert keys.sums_sensitivity == 0


def test_nothing_that_is_counted_fits_keys_alone() -> None:
    keys = calibrate(1.0, 1e-8, keys_only=True)
    assert keys.noise_std == 0
    assert changed_counters(keys.tuning, counted=False) == 4 * 300 < changed_counters(keys.tuning)
