"""`dphist continual start|add|show`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

import dphist
from dphist.cli import options

if TYPE_CHECKING:
    from dphist.lists.running import RunningCounts

app = typer.Typer(help="Private running counts per group over a stream of batches.", no_args_is_help=True)
Folder = Annotated[Path, typer.Argument(help="The folder that keeps the stream. It holds true counts.")]
Output = Annotated[
    Path | None, typer.Option("-o", "--output", help="Where to write the table (.parquet, .csv, .json).")
]
Show = Annotated[int, typer.Option("--show", help="How many rows of the result to print.")]


@app.command("start")
def start(
    folder: Folder,
    unit: Annotated[str, typer.Option("--unit", help="The column that names the person protected.")],
    by: Annotated[
        list[str],
        typer.Option("--by", help="A column that makes the groups, or name=SQL expression of a record. Repeatable."),
    ],
    rounds: Annotated[int, typer.Option("--rounds", help="The most batches that will ever be added.")],
    max_groups: Annotated[int, typer.Option("--max-groups", help="The most groups one unit is counted in per batch.")],
    epsilon: options.Epsilon,
    delta: options.Delta,
    where: Annotated[str | None, typer.Option("--where", help="An SQL condition on a record's own columns.")] = None,
    null_keys: Annotated[
        str, typer.Option("--null-keys", help="group: null is a group like any other; drop: drop such records.")
    ] = "group",
    ledger: options.Ledger = None,
    dataset: options.Dataset = None,
) -> None:
    """Begin a stream. Touches no data. Protected is what one person adds in one batch.

    Example: dphist continual start stream --unit user --by item --rounds 365 --max-groups 1 --epsilon 1 --delta 1e-8
    """
    made = dphist.Continual.start(
        folder,
        unit=unit,
        by=by,
        rounds=rounds,
        max_groups=max_groups,
        epsilon=epsilon,
        delta=delta,
        where=where,
        null_keys=null_keys,  # type: ignore[arg-type]
        ledger=ledger,
        dataset=dataset,
    )
    typer.echo(str(made))
    typer.echo(options.recorded(made.receipt))


@app.command("add")
def add(
    folder: Folder,
    source: Annotated[list[str], typer.Argument(help="The records of one batch: Parquet, CSV or JSON files.")],
    batch: Annotated[str, typer.Option("--batch", help="A name for the batch, such as its date; each counts once.")],
    no_header: options.NoHeader = None,
    output: Output = None,
    report: options.Report = None,
    overwrite: options.Overwrite = False,
    show: Show = 20,
    ledger: options.PaidBy = None,
    as_json: options.AsJson = False,
) -> None:
    """Take in one batch and print the running counts after it.

    Example: dphist continual add stream monday.parquet --batch 2026-01-05
    """
    from dphist.publish import files

    files.check_table(output, report, inputs=(folder, *files.files_of(source)), overwrite=overwrite)
    added = dphist.Continual(folder).add(options.files(source, no_header), batch, ledger=ledger)
    _print(added, output, report, show, overwrite, as_json)


@app.command("show")
def show(
    folder: Folder,
    output: Output = None,
    report: options.Report = None,
    overwrite: options.Overwrite = False,
    show: Show = 20,
    batches: Annotated[bool, typer.Option("--batches", help="Print the names of the batches that are in.")] = False,
    as_json: options.AsJson = False,
) -> None:
    """The stream, and its counts as they were released in the last round. Costs nothing.

    Example: dphist continual show stream
    """
    from dphist.publish import files

    files.check_table(output, report, inputs=(folder,), overwrite=overwrite)
    stream = dphist.Continual(folder)
    if batches:
        typer.echo("\n".join(stream.batches))
        return
    if not as_json:
        typer.echo(f"{stream}\n")
    _print(stream.show(), output, report, show, overwrite, as_json)


def _print(
    found: RunningCounts, output: Path | None, report: Path | None, most: int, overwrite: bool, as_json: bool
) -> None:
    from dphist.publish.text import rows_text

    if output is not None:
        found.write(output, overwrite=overwrite)
    if report is not None:
        found.report(report, overwrite=overwrite)
    if as_json:
        record = {**found.metadata(), "released_groups": found.table.num_rows}
        if output is None:
            record["groups"] = found.table.to_pylist()
        typer.echo(json.dumps(record, indent=2, allow_nan=False, default=str))
        return
    typer.echo(rows_text(found.table, most))
    typer.echo(f"\nRound {found.round:,} of {found.mechanism.rounds:,}.")
    if output is not None:
        typer.echo(f"Table written to {output}")
    if report is not None:
        typer.echo(f"Report written to {report}")
