"""`dphist stat`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

import dphist
from dphist.cli import options
from dphist.errors import InvalidParameter
from dphist.flexible.plan import DEFAULT_DELTA, StatisticPlan, plan_statistic, trade_offs
from dphist.flexible.statistics import NAMES
from dphist.words import exactly, percent, rounded_up


def command(
    statistic: Annotated[
        str,
        typer.Argument(
            help=f"One of {', '.join(NAMES)}. median is the lower one (rank ⌈n/2⌉), a quantile the value of rank ⌈p·n⌉,"
            " std the population standard deviation."
        ),
    ],
    source: Annotated[list[str] | None, typer.Argument(help="Parquet, CSV or JSON files, or a glob of them.")] = None,
    unit: Annotated[str | None, typer.Option("--unit", help="The column that names the person protected.")] = None,
    column: Annotated[str | None, typer.Option("--column", help="The column that the statistic is of.")] = None,
    epsilon: Annotated[float | None, typer.Option("--epsilon", help="Privacy budget.")] = None,
    delta: options.Delta = DEFAULT_DELTA,
    lower: Annotated[float | None, typer.Option("--lower", help="Public lower end; values are clamped to it.")] = None,
    upper: Annotated[float | None, typer.Option("--upper", help="Public upper end; values are clamped to it.")] = None,
    error: Annotated[float | None, typer.Option("--error", help="The allowed error of the answer.")] = None,
    drop: Annotated[
        float | None, typer.Option("--drop", help="The share of records that may be disregarded, e.g. 0.005.")
    ] = None,
    min_records: Annotated[
        int | None,
        typer.Option("--min-records", help="With --drop: a public lower bound on the number of units with a value."),
    ] = None,
    max_records: Annotated[
        int, typer.Option("--max-records", help="The most different buckets or values that one unit may count in.")
    ] = 1,
    max_values: Annotated[
        int | None, typer.Option("--max-values", help="mode, max-k: a public bound on the number of different values.")
    ] = None,
    probability: Annotated[float | None, typer.Option("--probability", help="quantile: which one, e.g. 0.9.")] = None,
    k: Annotated[int | None, typer.Option("--k", help="max-k: the records that a value must have.")] = None,
    read_as: Annotated[
        str | None,
        typer.Option(
            "--as",
            metavar="number|text",
            help="mode, max-k: read values as numbers (what is no number is left out) or as text. By default they are what"
            " the file says; CSV and JSON columns are text, which max-k does not compare unless asked to.",
        ),
    ] = None,
    where: Annotated[str | None, typer.Option("--where", help="An SQL condition on a record's own columns.")] = None,
    no_header: options.NoHeader = None,
    table: Annotated[
        bool,
        typer.Option(
            "--table", help="Print how many records are dropped for which epsilon, delta and n; read no record."
        ),
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be promised; read no record.")] = False,
    ledger: options.Ledger = None,
    dataset: options.Dataset = None,
    threads: Annotated[int | None, typer.Option("--threads", help="Threads of the engine.")] = None,
    memory_limit: Annotated[str | None, typer.Option("--memory-limit", help="Memory of the engine, e.g. 4GB.")] = None,
    temp_directory: Annotated[
        Path | None, typer.Option("--temp-directory", help="Where to spill what does not fit.")
    ] = None,
    as_json: options.AsJson = False,
) -> None:
    """One private number: state the error and the share of records that may be disregarded, get an answer with a promise.

    Example: dphist stat max ages.parquet --column age --unit person --lower 0 --upper 120 --error 1 --drop 0.005 --epsilon 0.5
    """
    from dphist.publish.charge import NOT_RECORDED

    if epsilon is None:
        raise InvalidParameter("--epsilon", "none", "0.5 is a common choice for one number.")
    asked: dict[str, Any] = {
        "epsilon": epsilon, "delta": delta, "lower": lower, "upper": upper, "error": error, "drop": drop,
        "min_records": min_records, "max_records": max_records, "max_values": max_values, "probability": probability, "k": k,
        "read_as": read_as,
    }  # fmt: skip
    if table or dry_run:
        plan = plan_statistic(statistic, **asked)
        if table:
            typer.echo(_table(plan))
        if dry_run:
            typer.echo("\n".join([f"Promise: {plan.accuracy()}", plan.bounding(), f"Guarantee: {plan.privacy()}"]))
            plan.require_feasible()
        return
    if not source or unit is None:
        raise InvalidParameter("FILE and --unit COLUMN", "not both", "or --dry-run, which reads nothing.")
    found = dphist.stat(
        statistic,
        options.files(source, no_header),
        unit=unit,
        column=column,
        where=where,
        ledger=ledger,
        dataset=dataset,
        settings=dphist.PerformanceSettings(threads, memory_limit, temp_directory),
        progress=None if as_json else lambda phase: typer.echo(f"… {phase}", err=True),
        **asked,
    )
    if as_json:
        typer.echo(json.dumps(found.to_data(), indent=2, allow_nan=False, default=str))
        return
    typer.echo(str(found))
    typer.echo(NOT_RECORDED if found.receipt is None else str(found.receipt))


def _table(plan: StatisticPlan) -> str:
    """Records dropped against epsilon and delta, and the records needed for the share."""
    if plan.bars is None:
        raise InvalidParameter(
            "--max-values, a public bound on the values", "none", "the drops add up over all values."
        )
    drop = 0.005 if plan.drop is None else plan.drop
    sizes = (10_000, 1_000_000) if plan.min_records is None else (plan.min_records,)
    shares = "".join(f"{f'share of {size:,}':>20}" for size in sizes)
    title = f"{plan.bars:,} bars; up to q records are dropped from each"
    lines = [title, "", f"  epsilon     delta        q   dropped at most{shares}   needed for {percent(drop)} %"]
    own = (plan.epsilon, plan.delta)
    for row in trade_offs(plan.bars, drop, plan.mechanism.max_groups, own):
        of = "".join(f"{rounded_up(100 * row.share_of(size), 3) + ' %':>20}" for size in sizes)
        budget = f"  {exactly(row.epsilon):>7}  {rounded_up(row.delta, 2):>8}  {row.q:>7,}"
        needed = f"{row.records_needed:>{13 + len(percent(drop))},}"
        lines.append(f"{budget}  {row.dropped:>16,}{of}  {needed}{'  (yours)' * ((row.epsilon, row.delta) == own)}")
    return "\n".join(lines)
