"""`dphist profile`."""

from __future__ import annotations

import json
import math
from typing import Annotated

import typer

from dphist import checks
from dphist.cli import options
from dphist.errors import InvalidParameter
from dphist.mechanisms import CorrelatedGaussian, LaplaceThreshold, SparseGaussian, Thresholded, epsilon_at
from dphist.mechanisms.mechanism import round_up_to_lattice
from dphist.planning.candidates import correlated_lattice_bits, lattice_bits, scale_of_std
from dphist.planning.describe import title


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
        typer.echo(json.dumps(_record(built, points), indent=2, allow_nan=False))
    else:
        typer.echo(f"Profile of {title(built)}, by {built.theorem}\n")
        typer.echo(f"  {'epsilon':>12}  {'delta':>12}")
        for e, d in points:
            typer.echo(f"  {e:>12.6g}  {d:>12.6g}")
        typer.echo(f"\n  provided {built.assumption}.")
    if plot is not None:
        from dphist.report.plots import plot_profile

        plot_profile(built, title(built), [max(e, 1e-3) for e, _ in points], plot)
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
    """The mechanism that the options describe; the gap is rounded up to the lattice its noise is drawn on."""
    checks.check_choice("mechanism", mechanism, ("sparse-gaussian", "correlated-gaussian", "laplace"))
    checks.check_positive("noise_std", noise_std)
    checks.check_not_negative("gap", gap)
    groups = max_groups if max_groups is not None else sparsity
    if groups is None:
        raise InvalidParameter("--max-groups", "none", "the most groups one unit may be counted in.")
    if mechanism == "sparse-gaussian":
        bits = lattice_bits(noise_std)
        return SparseGaussian(
            max_groups=groups,
            noise_std=noise_std,
            threshold=low_threshold + round_up_to_lattice(gap, bits),
            low_threshold=low_threshold,
            analysis=analysis or "exact",  # type: ignore[arg-type]
            lattice_bits=bits,
        )
    if mechanism == "laplace":
        threshold = float(low_threshold + math.ceil(gap))
        return LaplaceThreshold(groups, scale_of_std(noise_std), threshold, low_threshold)
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
        independent_std=noise_std / math.sqrt(1 + correlation),
        correlation=correlation,
        threshold=low_threshold + round_up_to_lattice(gap, bits),
        low_threshold=low_threshold,
        analysis=analysis or "tight",  # type: ignore[arg-type]
        lattice_bits=bits,
    )


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
