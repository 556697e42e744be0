"""`dphist session start|query|show`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

import dphist
from dphist.cli import options

app = typer.Typer(help="Ranked lists from one budget, each paying only for what it returned.", no_args_is_help=True)
File = Annotated[Path, typer.Argument(help="The file that keeps the session.")]


@app.command("start")
def start(
    file: File,
    unit: Annotated[str, typer.Option("--unit", help="The column that names the person protected.")],
    epsilon: options.Epsilon,
    delta: options.Delta,
    results: Annotated[int, typer.Option("--results", help="The most results of all queries together.")],
    queries: Annotated[int, typer.Option("--queries", help="The most queries.")],
    shortlist: Annotated[
        int, typer.Option("--shortlist", help="How many of the largest groups a query may choose from.")
    ] = 1000,
    ledger: options.Ledger = None,
    dataset: options.Dataset = None,
) -> None:
    """Begin a session: a number of results for a budget. Touches no data.

    Example: dphist session start session.json --unit user_id --epsilon 1 --delta 1e-8 --results 50 --queries 10
    """
    made = dphist.Session.start(
        file, unit=unit, epsilon=epsilon, delta=delta, results=results, queries=queries, shortlist=shortlist,
        ledger=ledger, dataset=dataset,
    )  # fmt: skip
    typer.echo(str(made))
    typer.echo(options.recorded(made.account.ledger))


@app.command("query")
def query(
    file: File,
    source: Annotated[list[str], typer.Argument(help="Parquet, CSV or JSON files, or a glob of them.")],
    by: Annotated[
        list[str],
        typer.Option("--by", help="A column that makes the groups, or name=SQL expression of a record. Repeatable."),
    ],
    k: Annotated[int, typer.Option("--k", help="The most groups to return.")],
    where: Annotated[str | None, typer.Option("--where", help="An SQL condition on a record's own columns.")] = None,
    no_header: options.NoHeader = None,
    null_keys: Annotated[
        str, typer.Option("--null-keys", help="group: null is a group like any other; drop: drop such records.")
    ] = "group",
    ledger: options.PaidBy = None,
    as_json: options.AsJson = False,
) -> None:
    """The groups with the most people, in order, without counts. Pays for what it returns.

    Example: dphist session query session.json events.parquet --by url --k 5
    """
    from dphist.publish.text import rows_text

    session = dphist.Session(file)
    table, complete = session.query(
        options.files(source, no_header),
        by=by,
        k=k,
        where=where,
        null_keys=null_keys,  # type: ignore[arg-type]
        ledger=ledger,
    )
    account = session.account
    left = {"results_left": account.left_results, "queries_left": account.left_queries}
    if as_json:
        typer.echo(json.dumps({"groups": table.to_pylist(), "complete": complete, **left}, indent=2, default=str))
        return
    typer.echo(rows_text(table, k))
    if not complete:
        typer.echo("\nThe list ended early: no other group was clearly larger than the rest.")
    typer.echo(f"\nLeft: {account.left_results:,} results, {account.left_queries:,} queries.")


@app.command("show")
def show(file: File, as_json: options.AsJson = False) -> None:
    """What is spent and what is left, and the guarantee.

    Example: dphist session show session.json
    """
    session = dphist.Session(file)
    account = session.account
    if as_json:
        record = {
            "unit": account.unit, "epsilon": account.epsilon, "delta": account.delta, "guarantee": session.guarantee,
            "results_left": account.left_results, "queries_left": account.left_queries,
        }  # fmt: skip
        typer.echo(json.dumps(record, indent=2, allow_nan=False))
    else:
        typer.echo(str(session))
