"""The auditor itself: bounds that hold, events that are learned, breaks that are seen and truths that are not called broken."""

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import binom

from dphist.audit import laws
from dphist.audit.broken import broken, low_threshold, quiet_noise
from dphist.audit.claims import MANY
from dphist.audit.judge import (
    RUN_EPSILONS,
    CellReader,
    Claim,
    Finding,
    Trials,
    attack,
    attack_laws,
    attack_runs,
    lower_bound,
    upper_bound,
)
from dphist.audit.laws import Pair
from dphist.mechanisms import SparseGaussian
from dphist.noise import DiscreteGaussian, DiscreteLaplace, Law, RoundedGaussian, TruncatedDiscreteLaplace
from dphist.privacy.gaussian import delta_gaussian


def normal(mu: float, *, hidden: float = 0.0, seed: int = 1) -> Claim:
    """Runs with N(0, 1) on one side and N(mu, 1) on the other, some of them not shown."""

    def run(n: int) -> Trials:
        rng = np.random.default_rng(seed)
        sides = [rng.normal(shift, 1, (n, 1)) for shift in (0.0, mu)]
        for side in sides:
            side[rng.random(n) < hidden] = np.nan
        return Trials(*sides)

    return Claim("normal", "", "", lambda e: (1 - hidden) * float(delta_gaussian(1.0, e)), None, run)


@pytest.mark.parametrize(("hits", "n"), [(0, 50), (1, 50), (25, 50), (50, 50), (3, 10_000)])
def test_clopper_pearson_is_the_tail_of_the_binomial_law(hits: int, n: int) -> None:
    low, high = lower_bound(hits, n, 1e-3), upper_bound(hits, n, 1e-3)
    assert 0 <= low <= hits / n <= high <= 1
    if hits > 0:
        assert binom.sf(hits - 1, n, low) == pytest.approx(1e-3)
    if hits < n:
        assert binom.cdf(hits, n, high) == pytest.approx(1e-3)


@pytest.mark.parametrize("hidden", [0.0, 0.4])
def test_the_truth_holds_and_the_bound_is_close(hidden: float) -> None:
    """n = 400,000, alpha = 1e-6: within a twentieth of the exact delta, never above it."""
    found = attack_runs(normal(1.0, hidden=hidden), 400_000, 1e-6)
    assert found.holds
    assert found.ratio is not None
    assert 0.94 < found.ratio <= 1
    assert found.attacked_epsilon is not None
    assert found.epsilon is not None
    assert found.attacked_epsilon <= found.epsilon


@pytest.mark.parametrize("mu", [1 / 0.9, 1 / 0.95])
def test_noise_that_is_too_small_is_seen(mu: float) -> None:
    """n = 400,000, alpha = 1e-6; what is claimed is mu = 1."""
    found = attack_runs(normal(mu), 400_000, 1e-6)
    assert not found.holds
    assert found.ratio is not None
    assert found.ratio > 1
    assert found.attacked_epsilon is not None
    assert found.epsilon is not None
    assert found.attacked_epsilon > found.epsilon


def test_an_event_that_only_the_training_half_shows_is_no_evidence() -> None:
    """Equal laws against a claim of nothing: at alpha = 0.01 some 2 of 200 are wrong, and 12 are a chance of 1e-6."""
    wrong = 0
    for seed in range(200):
        claim = Claim("equal", "", "", lambda _: 0.0, None, normal(0.0, hidden=0.3, seed=seed).trials)
        wrong += not attack_runs(claim, 2000, 0.01).holds
    assert wrong < 12


def test_cells_of_patterns_nobody_has_seen() -> None:
    train = Trials(np.array([[1.0, np.nan]] * 300), np.array([[2.0, np.nan]] * 300))
    reader = CellReader(train)
    assert reader.read(np.array([[np.nan, 5.0]])).tolist() == [0]
    assert len(set(reader.read(np.array([[1.0, np.nan], [2.0, np.nan]])).tolist())) == 2


def test_nothing_is_tested_where_nothing_is_promised() -> None:
    claim = Claim("all", "", "", lambda e: 1.0 if e < RUN_EPSILONS[-1] else 0.5, None, normal(3.0).trials)
    assert attack_runs(claim, 2000, 1e-3).epsilon == RUN_EPSILONS[-1]


@pytest.mark.parametrize(
    "law",
    [
        RoundedGaussian(Fraction(3, 2), 3),
        DiscreteGaussian(Fraction(2)),
        DiscreteLaplace(Fraction(2)),
        TruncatedDiscreteLaplace(Fraction(1, 2), 7),
    ],
)
def test_masses_are_the_law(law: Law) -> None:
    x = np.arange(-300, 301)
    p = laws.masses(law, x)
    assert p.sum() == pytest.approx(1, abs=1e-12)
    outside = p[np.abs(x) > laws.reach_of(law)].sum()
    assert outside < 1e-12


def test_the_enumerated_sparse_gaussian_by_hand() -> None:
    """Two new groups: shown with 1 - Phi(gap/std)^2, and a large pair: the profile of a Gaussian with sqrt(2)/std."""
    made = SparseGaussian(2, 1.5, 4.0, lattice_bits=5)
    pairs = {pair.name: pair for pair in laws.kinds_of_groups(made)}
    new = pairs["new + new"]
    hidden = (0.5 * math.erfc(-(made.gap + 2.0**-6) / made.noise_std / math.sqrt(2))) ** 2
    assert laws.hockey_stick(new.with_, new.without, 5.0) == pytest.approx(1 - hidden, rel=1e-9)
    large = pairs["large + large"]
    for epsilon in (0.0, 0.5, 2.0):
        truth = float(delta_gaussian(math.sqrt(2) / made.noise_std, epsilon))
        assert laws.hockey_stick(large.with_, large.without, epsilon) == pytest.approx(truth, rel=2e-3)
        assert laws.hockey_stick(large.without, large.with_, epsilon) <= truth


def test_an_exact_claim_that_is_a_little_too_small_is_broken() -> None:
    pair = Pair("coin", np.array([0.5, 0.5]), np.array([0.6, 0.4]))
    assert attack_laws(Claim("coin", "", "", lambda _: 0.1, lambda: [pair])).holds
    found = attack_laws(Claim("coin", "", "", lambda _: 0.0999, lambda: [pair]))
    assert not found.holds
    assert found.ratio == pytest.approx(0.1 / 0.0999)
    assert found.gap == pytest.approx(-0.0001)


def test_a_ratio_where_nothing_was_claimed() -> None:
    assert Finding("a", "implementation", "", True, "").ratio is None
    assert Finding("a", "implementation", "", True, "").gap is None
    assert Finding("a", "exact", "", False, "", 0.0, 0.0, 0.1).ratio == 1.0


def test_broken_on_purpose_is_all_that_the_auditor_was_asked_to_catch() -> None:
    names = {one.name for one in broken()}
    assert {
        "noise 10 % too small",
        "threshold one too low",
        "ties by data order",
        "arbitrary rounding",
        "discrete noise, continuous formula",
        "data-dependent q",
        "the paper's unscaled threshold",
        "adaptive weights not normalised",
        "bounding lets one unit through",
    } <= names


def test_broken_mechanisms_without_the_break_are_not_called_broken() -> None:
    """The same releases with factor 1 and a threshold that is right: what is caught is the break, nothing else."""
    for claim in (quiet_noise(1.0), low_threshold(0.0)):
        assert attack(replace(claim, quick=claim.quick // 3), 1e-7, thorough=False).holds
    assert MANY[0] >= 20_000
