"""`dphist profile`: what it prints is never below what the mechanism has that was asked about."""

import json
import math

import mpmath as mp
import pytest
from click.testing import CliRunner
from hypothesis import example, given, settings
from hypothesis import strategies as st

from dphist.cli.app import app
from dphist.mechanisms import CorrelatedGaussian, LaplaceThreshold, SparseGaussian
from dphist.planning.profile import described
from dphist.privacy import correlated_gaussian as csh
from dphist.privacy import sparse_gaussian as gshm

DIGITS = 60


def exact_laplace(epsilon: float, groups: int, noise_std: float, gap: float) -> mp.mpf:
    """The bound of the theorem for discrete Laplace noise of exactly this standard deviation and a threshold of any value."""
    with mp.workdps(DIGITS):
        per_step = mp.acosh(1 + 1 / mp.mpf(noise_std) ** 2)  # 1/scale
        tail = mp.exp(-per_step * (math.floor(gap) + 1)) / (1 + mp.exp(-per_step))  # Z > gap, Z whole
        hidden, pure = (1 - tail) ** groups, groups * per_step
        noise = max(mp.mpf(0), (mp.exp(pure) - mp.exp(mp.mpf(epsilon))) / (1 + mp.exp(pure)))
        return 1 - hidden * (1 - noise)


def profile(*options: str) -> str:
    done = CliRunner().invoke(app, ["profile", *options])
    assert done.exit_code == 0, done.output
    return done.stdout


NOISE = st.floats(0.3, 3e5)
GAPS = st.one_of(st.floats(0, 30), st.integers(0, 30), st.sampled_from([2**-41, 1 - 2**-30, 7.0, 7.0000001]))
EPSILONS = st.one_of(st.floats(0, 8), st.floats(1e-6, 1e-3))


@settings(max_examples=150, deadline=None)
@given(NOISE, GAPS, st.integers(1, 40), st.integers(1, 5), EPSILONS)
@example(1.35696, 12.01 / 1.35696, 1, 1, 1.01)
@example(9e5, 0.0, 1, 1, math.sqrt(2) / 9e5)
def test_laplace_is_never_below_the_exact_law(
    noise_std: float, stds: float, groups: int, low_threshold: int, epsilon: float
) -> None:
    gap = stds * noise_std
    made = described("laplace", noise_std, gap, groups, None, None, None, low_threshold)
    assert isinstance(made, LaplaceThreshold)
    assert made.gap == math.floor(gap)
    assert made.delta(epsilon) >= min(exact_laplace(epsilon, groups, noise_std, gap), 1)
    with mp.workdps(DIGITS):
        exact_scale = 1 / mp.acosh(1 + 1 / mp.mpf(noise_std) ** 2)
        assert 1 - 2e-15 <= made.scale / exact_scale <= 1


@settings(max_examples=100, deadline=None)
@given(NOISE, GAPS, st.integers(1, 40), st.sampled_from(gshm.ANALYSES), EPSILONS)
def test_sparse_gaussian_lies_above_its_value_between_two_points_of_the_lattice(
    noise_std: float, stds: float, groups: int, analysis: gshm.Analysis, epsilon: float
) -> None:
    gap = stds * noise_std
    made = described("sparse-gaussian", noise_std, gap, groups, None, None, analysis, 1)
    assert isinstance(made, SparseGaussian)

    def at(other: float) -> float:
        return gshm.delta(epsilon, max_groups=groups, noise_std=noise_std, gap=other, analysis=analysis)

    step = 2.0**-made.lattice_bits
    assert made.noise_std == noise_std
    assert made.gap <= gap < made.gap + step
    assert made.delta(epsilon) >= at(made.gap) >= at(gap) >= at(made.gap + step)


@settings(max_examples=40, deadline=None)
@given(
    st.floats(0.3, 3e3), GAPS, st.integers(1, 40), st.one_of(st.none(), st.just(0.0), st.floats(1e-9, 3)),
    st.sampled_from(csh.ANALYSES), EPSILONS,
)  # fmt: skip
def test_correlated_gaussian_is_never_below_the_continuous_law(
    noise_std: float, stds: float, sparsity: int, correlation: float | None, analysis: csh.Analysis, epsilon: float
) -> None:
    gap, given_correlation = stds * noise_std, correlation if analysis == "tight" else None
    made = described("correlated-gaussian", noise_std, gap, None, sparsity, given_correlation, analysis, 1)
    assert isinstance(made, CorrelatedGaussian)
    step = 2.0**-made.lattice_bits
    assert made.gap <= gap < made.gap + step
    with mp.workdps(DIGITS):
        wanted = mp.mpf(noise_std) / mp.sqrt(1 + mp.mpf(made.correlation))
        assert wanted * (1 - mp.mpf(2) ** -51) <= made.independent_std <= wanted
    for other in (gap, made.gap + step):
        assert made.delta(epsilon) * (1 + 1e-13) >= csh.delta(
            epsilon, sparsity=sparsity, max_groups=sparsity, independent_std=noise_std / math.sqrt(1 + made.correlation),
            correlation=made.correlation, gap=other, analysis=analysis,
        )  # fmt: skip


def test_the_gap_that_was_used_is_shown_and_digits_are_rounded_up() -> None:
    options = ("--mechanism", "laplace", "--noise-std", "1.35696", "--gap", "12.01", "--max-groups", "1")
    text = profile(*options, "--epsilon", "1.01", "--delta", "3.333333333e-5")
    assert "gap 12 (asked for: 12.01, rounded down), noise std 1.35696\n" in text
    rows = [line.split() for line in text.splitlines() if line.strip()[:1].isdigit()]
    record = json.loads(profile(*options, "--epsilon", "1.01", "--delta", "3.333333333e-5", "--json"))
    assert record["gap"] == 12
    assert record["asked_for"] == {"gap": 12.01, "noise_std": 1.35696}
    for row, point in zip(rows, record["profile"], strict=True):
        assert point["epsilon"] <= float(row[0]) <= point["epsilon"] * (1 + 1e-5)
        assert point["delta"] <= float(row[1]) <= point["delta"] * (1 + 1e-5)
    assert float(rows[0][1]) >= exact_laplace(1.01, 1, 1.35696, 12.01)


@pytest.mark.parametrize("gap", ["1e300", "1e17"])
@pytest.mark.parametrize("mechanism", ["laplace", "sparse-gaussian", "correlated-gaussian"])
def test_gaps_beyond_the_lattice_are_refused(gap: str, mechanism: str) -> None:
    options = ["--noise-std", "1", "--gap", gap, "--sparsity", "3", "--epsilon", "1", "--mechanism", mechanism]
    done = CliRunner().invoke(app, ["profile", *options])
    assert "a threshold of at most 2^" in str(done.exception)


@settings(max_examples=60, deadline=None)
@given(st.floats(1e-3, 1e6), st.integers(1, 40), EPSILONS)
def test_plain_gaussian_noise_is_never_below_its_exact_law(noise_std: float, groups: int, epsilon: float) -> None:
    made = described("gaussian", noise_std, None, groups, None, None, None, 1)
    with mp.workdps(DIGITS):
        mu = mp.sqrt(groups) / mp.mpf(noise_std)
        exact = mp.ncdf(mu / 2 - epsilon / mu) - mp.exp(epsilon) * mp.ncdf(-mu / 2 - epsilon / mu)
    assert exact <= made.delta(epsilon) <= exact * (1 + 1e-9) + 1e-25  # of the sampler


def test_plain_gaussian_noise_has_no_threshold() -> None:
    text = profile("--mechanism", "gaussian", "--noise-std", "16", "--max-groups", "10", "--delta", "1e-8")
    assert "no threshold, noise std 16\n" in text
    assert "provided the groups are public, and each unit is counted in at most 10 groups, once in each" in text
    options = ["--mechanism", "gaussian", "--noise-std", "16", "--max-groups", "10", "--epsilon", "1"]
    for flag, value in (("--gap", "0"), ("--sparsity", "10"), ("--correlation", "0"), ("--low-threshold", "2")):
        done = CliRunner().invoke(app, ["profile", *options, flag, value])
        assert f"no {flag} for gaussian" in str(done.exception)
    done = CliRunner().invoke(app, ["profile", "--noise-std", "16", "--max-groups", "10", "--epsilon", "1"])
    assert "--gap NUMBER, got none" in str(done.exception)
