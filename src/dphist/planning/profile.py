"""The mechanism whose privacy `dphist profile` prints: its parameters are given, not chosen for a budget."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import partial

from dphist import checks
from dphist.errors import InvalidParameter
from dphist.mechanisms import CorrelatedGaussian, KnownGroups, LaplaceThreshold, SparseGaussian
from dphist.mechanisms.correlated_gaussian import correlated_lattice_bits
from dphist.mechanisms.laplace import scale_of_std
from dphist.mechanisms.lattice import round_down_to_lattice
from dphist.mechanisms.sparse_gaussian import lattice_bits
from dphist.planning.choices import PROFILED, WITHOUT_THRESHOLD
from dphist.planning.request import check_noise


def described(
    mechanism: str,
    noise_std: float,
    gap: float | None,
    max_groups: int | None,
    sparsity: int | None,
    correlation: float | None,
    analysis: str | None,
    low_threshold: int,
) -> SparseGaussian | CorrelatedGaussian | LaplaceThreshold | KnownGroups:
    """The mechanism with these parameters, or one that is a little less private.

    A threshold between two points of the lattice releases at most what the lower point releases, and with whole noise exactly
    that: so the gap is rounded down. The noise is rounded down, too, by units in the last place: less noise has a larger delta,
    and the change in the tails is within their allowance for rounding.
    """
    checks.check_choice("mechanism", mechanism, PROFILED)
    check_noise(noise_std, correlation)
    checks.check_whole("low_threshold", low_threshold)
    others = {"--gap": gap, "--sparsity": sparsity, "--correlation": correlation, "--analysis": analysis}
    others["--low-threshold"] = None if low_threshold == 1 else low_threshold
    if mechanism == WITHOUT_THRESHOLD and (given := [flag for flag, value in others.items() if value is not None]):
        raise InvalidParameter(
            f"no {given[0]} for {WITHOUT_THRESHOLD}", "one", "it has neither a threshold nor common noise."
        )
    groups = max_groups if max_groups is not None else sparsity
    if groups is None:
        raise InvalidParameter("--max-groups", "none", "the most groups one unit may be counted in.")
    if mechanism == WITHOUT_THRESHOLD:
        return KnownGroups(groups=groups, max_groups=groups, independent_std=noise_std)
    if gap is None:
        hint = f"threshold minus low threshold; without a threshold: --mechanism {WITHOUT_THRESHOLD}."
        raise InvalidParameter("--gap NUMBER", "none", hint)
    checks.check_not_negative("gap", gap)
    threshold = partial(round_down_to_lattice, low_threshold + Fraction(gap))
    if mechanism == "sparse-gaussian":
        bits = lattice_bits(noise_std)
        return SparseGaussian(
            max_groups=groups,
            noise_std=noise_std,
            threshold=threshold(bits),
            low_threshold=low_threshold,
            analysis="exact" if analysis is None else analysis,  # type: ignore[arg-type]
            lattice_bits=bits,
        )
    if mechanism == "laplace":
        return LaplaceThreshold(groups, scale_of_std(noise_std) * (1 - 2.0**-50), threshold(0), low_threshold)
    if sparsity is None:
        raise InvalidParameter("--sparsity for correlated-gaussian", "none", "a public bound on the non-empty groups.")
    checks.check_whole("sparsity", sparsity)
    if correlation is None:
        correlation = 1 / math.sqrt(sparsity)
    bits = correlated_lattice_bits(sparsity)
    return CorrelatedGaussian(
        sparsity=sparsity,
        max_groups=groups,
        independent_std=_independent_part(noise_std, correlation),
        correlation=correlation,
        threshold=threshold(bits),
        low_threshold=low_threshold,
        analysis="tight" if analysis is None else analysis,  # type: ignore[arg-type]
        lattice_bits=bits,
    )


def _independent_part(noise_std: float, correlation: float) -> float:
    """The largest s with s^2 (1 + correlation) <= noise_std^2, exactly."""
    part = noise_std / math.sqrt(1 + correlation)
    while Fraction(part) ** 2 * (1 + Fraction(correlation)) > Fraction(noise_std) ** 2:
        part = math.nextafter(part, 0.0)
    return part
