"""`dphist profile`."""

from __future__ import annotations

import json
import math
from fractions import Fraction
from typing import Annotated

import typer

from dphist import checks
from dphist.cli import options
from dphist.errors import InvalidParameter
from dphist.mechanisms import CorrelatedGaussian, LaplaceThreshold, SparseGaussian, Thresholded, epsilon_at
from dphist.mechanisms.base import round_down_to_lattice
from dphist.planning.candidates import correlated_lattice_bits, lattice_bits, scale_of_std
from dphist.planning.describe import title
from dphist.words import exactly, rounded_up

_DIGITS = 6


def command(
    noise_std: Annotated[float, typer.Option("--noise-std", help="Standard deviation of all the noise on one count.")],
    gap: Annotated[float, typer.Option("--gap", help="Threshold minus low threshold.")],
    max_groups: options.MaxGroups = None,
    mechanism: options.Mechanism = "sparse-gaussian",
    sparsity: options.Sparsity = None,
    correlation: options.Correlation = None,
    analysis: options.Analysis = None,
    low_threshold: options.LowThreshold = 1,
    epsilon: Annotated[
        list[float] | None, typer.Option("--epsilon", help="Print delta at this epsilon. Repeatable.")
    ] = None,
    delta: Annotated[float | None, typer.Option("--delta", help="Print the smallest epsilon for this delta.")] = None,
    plot: options.Plot = None,
    overwrite: options.Overwrite = False,
    as_json: options.AsJson = False,
) -> None:
    """Delta at epsilon, or epsilon at delta, of a mechanism that is already chosen. Touches no data.

    Example: dphist profile --noise-std 16 --gap 98 --max-groups 10 --epsilon 0.5 --epsilon 1
    """
    if not epsilon and delta is None:
        raise InvalidParameter("--epsilon or --delta", "neither", "--epsilon may be repeated.")
    for value in epsilon or []:
        checks.check_not_negative("epsilon", value)
    if delta is not None:
        checks.check_delta(delta)
    built = build(mechanism, noise_std, gap, max_groups, sparsity, correlation, analysis, low_threshold)
    points = [(value, built.delta(value)) for value in epsilon or []]
    if delta is not None:
        points.append((epsilon_at(built, delta), delta))
    if as_json:
        asked = {"gap": gap, "noise_std": noise_std}
        typer.echo(json.dumps({**_record(built, points), "asked_for": asked}, indent=2, allow_nan=False))
    else:
        typer.echo(f"Profile of {title(built)}, by {built.theorem}")
        typer.echo(f"  gap {_used(built.gap, gap)}, noise std {_used(built.noise_std, noise_std)}\n")
        typer.echo(f"  {'epsilon':>12}  {'delta':>12}")
        for e, d in points:
            typer.echo(f"  {rounded_up(e, _DIGITS):>12}  {rounded_up(d, _DIGITS):>12}")
        typer.echo(f"\n  provided {built.assumption}.")
    if plot is not None:
        from dphist.report.plots import plot_profile

        plot_profile(built, title(built), [max(e, 1e-3) for e, _ in points], plot, overwrite=overwrite)
        typer.echo(f"\nPicture written to {plot}", err=as_json)


def build(
    mechanism: str,
    noise_std: float,
    gap: float,
    max_groups: int | None,
    sparsity: int | None,
    correlation: float | None,
    analysis: str | None,
    low_threshold: int,
) -> Thresholded:
    """The mechanism that the options describe, or one that is a little less private.

    It is chosen already: a threshold between two points of the lattice releases at most what the lower point releases (with
    whole noise exactly that), so the gap is rounded down. The noise is rounded down too, by units in the last place: less
    noise has a larger delta, and what that moves in the tails is within their allowance for rounding.
    """
    checks.check_choice("mechanism", mechanism, ("sparse-gaussian", "correlated-gaussian", "laplace"))
    checks.check_positive("noise_std", noise_std)
    checks.check_not_negative("gap", gap)
    checks.check_whole("low_threshold", low_threshold)
    groups = max_groups if max_groups is not None else sparsity
    if groups is None:
        raise InvalidParameter("--max-groups", "none", "the most groups one unit may be counted in.")

    def threshold(lattice_bits: int) -> float:
        return round_down_to_lattice(low_threshold + Fraction(gap), lattice_bits)

    if mechanism == "sparse-gaussian":
        bits = lattice_bits(noise_std)
        return SparseGaussian(
            max_groups=groups,
            noise_std=noise_std,
            threshold=threshold(bits),
            low_threshold=low_threshold,
            analysis=analysis or "exact",  # type: ignore[arg-type]
            lattice_bits=bits,
        )
    if mechanism == "laplace":
        return LaplaceThreshold(groups, scale_of_std(noise_std) * (1 - 2.0**-50), threshold(0), low_threshold)
    if sparsity is None:
        raise InvalidParameter("--sparsity for correlated-gaussian", "none", "a public bound on the non-empty groups.")
    checks.check_whole("sparsity", sparsity)
    if correlation is None:
        correlation = 1 / math.sqrt(sparsity)
    checks.check_not_negative("correlation", correlation)
    bits = correlated_lattice_bits(sparsity)
    return CorrelatedGaussian(
        sparsity=sparsity,
        max_groups=groups,
        independent_std=_independent_part(noise_std, correlation),
        correlation=correlation,
        threshold=threshold(bits),
        low_threshold=low_threshold,
        analysis=analysis or "tight",  # type: ignore[arg-type]
        lattice_bits=bits,
    )


def _independent_part(noise_std: float, correlation: float) -> float:
    """The largest s with s^2 (1 + correlation) <= noise_std^2, exactly."""
    found = noise_std / math.sqrt(1 + correlation)
    while Fraction(found) ** 2 * (1 + Fraction(correlation)) > Fraction(noise_std) ** 2:
        found = math.nextafter(found, 0.0)
    return found


def _used(value: float, asked: float) -> str:
    """What a profile is computed with, and what was asked for where a reader would see the difference."""
    if math.isclose(value, asked, rel_tol=1e-12):
        return exactly(asked)
    return f"{exactly(value)} (asked for: {exactly(asked)}, rounded down)"


def _record(built: Thresholded, points: list[tuple[float, float]]) -> dict[str, object]:
    correlated = built if isinstance(built, CorrelatedGaussian) else None
    return {
        "mechanism": built.name,
        "analysis": built.analysis,
        "max_groups": built.max_groups,
        "sparsity": correlated.sparsity if correlated else None,
        "noise_std": built.noise_std,
        "independent_std": correlated.independent_std if correlated else None,
        "correlation": correlated.correlation if correlated else None,
        "gap": built.gap,
        "low_threshold": built.low_threshold,
        "threshold": built.threshold,
        "delta_inf": built.delta_infinity(),
        "profile": [{"epsilon": e, "delta": d, "delta_gauss": built.delta_gauss(e)} for e, d in points],
        "theorem": built.theorem,
    }
