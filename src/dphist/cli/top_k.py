"""`dphist top-k`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

import dphist
from dphist.cli import options


def command(
    source: Annotated[list[str], typer.Argument(help="Parquet, CSV or JSON files, or a glob of them.")],
    unit: Annotated[str, typer.Option("--unit", help="The column that names the person protected.")],
    by: Annotated[
        list[str],
        typer.Option("--by", help="A column that makes the groups, or name=SQL expression of a record. Repeatable."),
    ],
    k: Annotated[int, typer.Option("--k", help="The most groups to return.")],
    epsilon: options.Epsilon,
    delta: options.Delta,
    method: Annotated[
        str,
        typer.Option("--method", help="correlated: noisy counts; from-top: from a LIMIT query; ranked: keys in order."),
    ] = "correlated",
    max_groups: Annotated[
        int | None, typer.Option("--max-groups", help="The most groups of one unit; from-top only.")
    ] = None,
    shortlist: Annotated[
        int | None, typer.Option("--shortlist", help="ranked: how many of the largest groups may be chosen (10 k).")
    ] = None,
    where: Annotated[str | None, typer.Option("--where", help="An SQL condition on a record's own columns.")] = None,
    no_header: options.NoHeader = None,
    null_keys: Annotated[
        str, typer.Option("--null-keys", help="group: null is a group like any other; drop: drop such records.")
    ] = "group",
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="Where to write the table (.parquet, .csv, .json).")
    ] = None,
    ledger: options.Ledger = None,
    dataset: options.Dataset = None,
    report: options.Report = None,
    overwrite: options.Overwrite = False,
    threads: Annotated[int | None, typer.Option("--threads", help="Threads of the engine.")] = None,
    memory_limit: Annotated[str | None, typer.Option("--memory-limit", help="Memory of the engine, e.g. 4GB.")] = None,
    engine: options.Engine = "duckdb",
    master: options.Master = None,
    remote: options.Remote = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the plan; read no record.")] = False,
    show: Annotated[int, typer.Option("--show", help="How many rows of the result to print.")] = 20,
    as_json: options.AsJson = False,
) -> None:
    """The groups with the most people: noisy counts, or a ranked list of keys.

    Example: dphist top-k events.parquet --unit user_id --by url --k 10 --epsilon 1 --delta 1e-8
    """
    from dphist.publish import files
    from dphist.publish.charge import NOT_RECORDED, stays_charged, telling
    from dphist.publish.text import rows_text

    plan = dphist.plan_top_k(
        k=k,
        epsilon=epsilon,
        delta=delta,
        method=method,  # type: ignore[arg-type]
        max_groups=max_groups,
        shortlist=shortlist,
    )
    files.check_table(output, report, inputs=files.files_of(source), overwrite=overwrite)
    if dry_run:
        typer.echo(str(plan))
        return
    found = dphist.top_k(
        options.files(source, no_header),
        unit=unit,
        by=by,
        plan=plan,
        where=where,
        null_keys=null_keys,  # type: ignore[arg-type]
        ledger=ledger,
        dataset=dataset,
        settings=dphist.PerformanceSettings(threads, memory_limit),
        engine=options.spark_engine(engine, master, remote, None),
        progress=None if as_json else lambda phase: typer.echo(f"… {phase}", err=True),
    )
    receipt = found.receipt
    with telling(lambda: "" if receipt is None else stays_charged(receipt)):
        if output is not None:
            found.write(output, overwrite=overwrite)
        if report is not None:
            found.report(report, overwrite=overwrite)
    if as_json:
        record = {**found.metadata(), "complete": found.complete, "released_groups": found.table.num_rows}
        if output is None:
            record["groups"] = found.table.to_pylist()
        typer.echo(json.dumps(record, indent=2, allow_nan=False, default=str))
        return
    typer.echo(rows_text(found.table, show))
    if not found.complete:
        typer.echo("\nThe list ended early: no other group was clearly larger than the rest.")
    typer.echo(f"\nGuarantee: {plan.guarantee}")
    if output is not None:
        typer.echo(f"Table written to {output}")
    if report is not None:
        typer.echo(f"Report written to {report}")
    typer.echo(NOT_RECORDED if found.receipt is None else str(found.receipt))
