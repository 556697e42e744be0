"""`dphist plan`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

import dphist
from dphist.cli import options


def command(
    epsilon: options.Epsilon,
    delta: options.Delta,
    max_groups: options.MaxGroupsOrAuto = None,
    sparsity: options.Sparsity = None,
    keys: options.Keys = None,
    sparse: options.Sparse = False,
    sketch: options.Sketch = None,
    sums: options.Sums = None,
    means: options.Means = None,
    rows: options.Rows = None,
    weights: options.Weights = None,
    total: options.Total = False,
    mechanism: options.Mechanism = "best",
    analysis: options.Analysis = None,
    objective: options.Objective = "release95",
    noise_std: options.NoiseStd = None,
    correlation: options.Correlation = None,
    low_threshold: options.LowThreshold = 1,
    noise: options.Noise = "rounded",
    save: Annotated[Path | None, typer.Option("--save", help="Write the plan as JSON, for a later release.")] = None,
    plot: options.Plot = None,
    overwrite: options.Overwrite = False,
    as_json: options.AsJson = False,
) -> None:
    """Choose a mechanism, its noise and its threshold for a privacy budget. Touches no data.

    Example: dphist plan --epsilon 1 --delta 1e-8
    """
    from dphist.outputs import check_outputs

    check_outputs(save, plot, inputs=() if keys is None else (keys,), overwrite=overwrite)
    plan = dphist.plan(
        epsilon=epsilon,
        delta=delta,
        max_groups=options.parse_max_groups(max_groups),
        sparsity=sparsity,
        keys=None if keys is None else options.count_keys(keys),
        sparse=sparse,
        sketch=sketch,
        total=total,
        sums=dict(options.parse_bounds(text, "--sum") for text in sums or []),
        means=dict(options.parse_bounds(text, "--mean") for text in means or []),
        rows=rows,
        weights=dict(map(options.parse_weight, weights or [])),
        mechanism=mechanism,
        analysis=analysis,
        objective=objective,  # type: ignore[arg-type]
        noise_std=noise_std,
        correlation=correlation,
        low_threshold=low_threshold,
        noise=noise,  # type: ignore[arg-type]
    )
    typer.echo(plan.to_json() if as_json else str(plan))
    if save is not None:
        plan.save(save, overwrite=overwrite)
        typer.echo(f"\nPlan written to {save}", err=as_json)
    if plot is not None:
        from dphist.report.plots import plot_plan

        plot_plan(plan, plot, overwrite=overwrite)
        typer.echo(f"\nPicture written to {plot}", err=as_json)
