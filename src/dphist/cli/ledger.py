"""`dphist ledger create|show|history|verify|export|record`."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dphist.cli import options
from dphist.errors import InvalidParameter
from dphist.privacy import composition, filters

if TYPE_CHECKING:
    from dphist.ledger import Entry

app = typer.Typer(help="Budgets and what was spent of them, in a database.", no_args_is_help=True)


def _needed(ledger: str | None, dataset: str | None) -> tuple[str, str]:
    if ledger is None or dataset is None:
        raise InvalidParameter("--ledger ADDRESS and --dataset NAME", "not both", "or DPHIST_LEDGER, DPHIST_DATASET.")
    return ledger, dataset


@app.command("create")
def create(
    epsilon: options.Epsilon,
    delta: options.Delta,
    unit: Annotated[str, typer.Option("--unit", help="The column that names the person protected.")],
    ledger: options.Ledger = None,
    dataset: options.Dataset = None,
    accountant: Annotated[
        str | None, typer.Option("--accountant", help="basic, gdp or zcdp: how spends add up. It never changes.")
    ] = None,
    expect_releases: Annotated[
        int | None, typer.Option("--expect-releases", help="How many releases you expect: recommends an accountant.")
    ] = None,
    protects: Annotated[
        str, typer.Option("--protects", help="unit: all records of one unit; event: its records in one round.")
    ] = "unit",
    delta_share: Annotated[
        float, typer.Option("--delta-share", help="gdp, zcdp: the part of delta kept for thresholds.")
    ] = filters.DELTA_SHARE,
) -> None:
    """Begin a data set: a total budget about some people. Makes the ledger if there is none.

    Example: dphist ledger create --ledger ledger.db --dataset events --epsilon 2 --delta 1e-6 --unit user --expect-releases 20
    """
    from dphist.ledger import DataSet, Ledger
    from dphist.ledger.recommend import recommend

    address, name = _needed(ledger, dataset)
    if accountant is None and expect_releases is None:
        raise InvalidParameter(
            "--accountant or --expect-releases",
            "neither",
            "the accountant never changes: 1 release is cheapest with basic, many with gdp.",
        )
    if expect_releases is not None:
        advice = recommend(epsilon, delta, expect_releases, delta_share)
        typer.echo(f"{advice}\n")
        accountant = accountant or advice.accountant
    made = DataSet(
        name,
        epsilon,
        delta,
        unit,
        accountant,  # type: ignore[arg-type]
        protects,  # type: ignore[arg-type]
        delta_share,
    )
    with Ledger(address, create=True) as opened:
        opened.create(made)
        typer.echo(str(opened.status(name)))


@app.command("show")
def show(ledger: options.Ledger = None, dataset: options.Dataset = None, as_json: options.AsJson = False) -> None:
    """Spent against the budget, and how many more such releases fit. Without --dataset: all data sets.

    Example: dphist ledger show --ledger ledger.db --dataset events
    """
    from dphist.ledger import Ledger

    if ledger is None:
        raise InvalidParameter("--ledger ADDRESS", "none", "or set DPHIST_LEDGER.")
    with Ledger(ledger) as opened:
        found = [opened.status(name) for name in ([dataset] if dataset is not None else opened.names())]
    if as_json:
        typer.echo(json.dumps([status.to_data() for status in found], indent=2, allow_nan=False))
    else:
        typer.echo("\n\n".join(map(str, found)) or "No data sets yet.")


@app.command("history")
def history(ledger: options.Ledger = None, dataset: options.Dataset = None, as_json: options.AsJson = False) -> None:
    """Every entry, oldest first, and which reservations were never confirmed.

    Example: dphist ledger history --ledger ledger.db --dataset events
    """
    from dphist.ledger import Ledger

    address, name = _needed(ledger, dataset)
    with Ledger(address) as opened:
        status = opened.status(name)
    if as_json:
        typer.echo(json.dumps([entry.to_data() for entry in status.entries], indent=2, allow_nan=False))
        return
    waiting = {entry.sequence for entry in status.unconfirmed}
    for entry in status.entries:
        typer.echo(f"{entry.sequence:>6,}  {entry.time[:19]}  {entry.kind:<8}{_facts(entry)}")
        if entry.sequence in waiting:
            typer.echo(f"{'':>8}never confirmed: it may have been cut short. Counted, since noise may have been drawn.")
        if "clock" in entry.body:
            typer.echo(f"{'':>8}the clock was {entry.body['clock']}")


def _facts(entry: Entry) -> str:
    body: dict[str, Any] = entry.body
    if entry.kind == "create":
        return f"epsilon {body['epsilon']:g}, delta {body['delta']:g}, unit {body['unit']}, {body['accountant']}"
    if entry.kind == "commit":
        return f"entry {body['entry']:,} was written" + (f" to {body['output']}" if body["output"] else "")
    cost = entry.cost
    what = body.get("note") or body.get("mechanism", "")
    return (
        f"{body['command']} {what}: epsilon {cost.epsilon:.4g}, delta {cost.delta:.3g};"
        f" rho {cost.rho:.4g}; mu {cost.mu:.4g}"
    )


@app.command("verify")
def verify(
    ledger: options.Ledger = None,
    dataset: options.Dataset = None,
    head: Annotated[
        str | None, typer.Option("--head", help="A head that was exported earlier: it must still be in the chain.")
    ] = None,
    as_json: options.AsJson = False,
) -> None:
    """Recompute every hash and every sum. Exit code 1 if something was changed.

    Example: dphist ledger verify --ledger ledger.db --dataset events
    """
    from dphist.ledger import Ledger

    address, name = _needed(ledger, dataset)
    with Ledger(address) as opened:
        found = opened.verify(name, head)
    if as_json:
        typer.echo(json.dumps([{"check": c.name, "passed": c.passed, "detail": c.detail} for c in found], indent=2))
    else:
        for check in found:
            typer.echo(f"  {'ok  ' if check.passed else 'FAIL'}  {check.name:<6} {check.detail}")
        if head is None:
            typer.echo("        Entries cut off at the end show only against a head kept elsewhere: --head HASH.")
    if not all(check.passed for check in found):
        sys.exit(1)


@app.command("export")
def export(
    ledger: options.Ledger = None,
    dataset: options.Dataset = None,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="Where to write the JSON; else printed.")
    ] = None,
) -> None:
    """Everything about a data set as JSON, with the head of its chain: keep it where the ledger's writers cannot.

    Example: dphist ledger export --ledger ledger.db --dataset events -o events-ledger.json
    """
    from dphist.ledger import Ledger
    from dphist.publish import files

    address, name = _needed(ledger, dataset)
    if output is not None:
        files.check_writable(output)
    with Ledger(address) as opened:
        data = opened.export(name)
    text = json.dumps(data, indent=2, allow_nan=False)
    if output is None:
        typer.echo(text)
        return
    files.write_text(text + "\n", output)
    typer.echo(f"Written to {output}. Head: {data['head']}")


@app.command("record")
def record(
    note: Annotated[str, typer.Option("--note", help="What was released, where; public.")],
    ledger: options.Ledger = None,
    dataset: options.Dataset = None,
    epsilon: Annotated[float | None, typer.Option("--epsilon", help="The epsilon that was spent.")] = None,
    delta: Annotated[
        float, typer.Option("--delta", help="The delta that was spent; with --rho where rho is converted.")
    ] = 0.0,
    rho: Annotated[float | None, typer.Option("--rho", help="Or the rho of zero-concentrated privacy.")] = None,
) -> None:
    """Write down what was spent about these people elsewhere, as (epsilon, delta) or rho.

    Example: dphist ledger record --ledger ledger.db --dataset events --epsilon 0.1 --delta 1e-9 --note "survey of May"
    """
    from dphist.ledger import Ledger

    address, name = _needed(ledger, dataset)
    cost, declared = declared_cost(epsilon, delta, rho)
    with Ledger(address) as opened:
        entry = opened.record(name, cost, unit=opened.dataset(name).unit, note=note, declared=declared)
        typer.echo(f"Entry {entry.sequence:,} recorded, hash {entry.hash[:16]}…\n")
        typer.echo(str(opened.status(name)))


def declared_cost(
    epsilon: float | None, delta: float, rho: float | None
) -> tuple[composition.PrivacyCost, dict[str, float]]:
    """A spend from what is known about it: (epsilon, delta), or rho with the delta at which it is converted."""
    if (epsilon is None) == (rho is None):
        raise InvalidParameter("--epsilon or --rho", "both" if rho is not None else "neither")
    if not 0 <= delta < 1:
        raise InvalidParameter("--delta in [0, 1)", delta)
    if epsilon is not None:
        return composition.of_pure(epsilon, delta), {"epsilon": epsilon, "delta": delta}
    assert rho is not None
    if delta == 0:
        raise InvalidParameter(
            "--delta beside --rho", "none", "rho is converted there for accountants that cannot use it; try 1e-9."
        )
    return composition.of_declared_rho(rho, delta), {"rho": rho, "delta": delta}
