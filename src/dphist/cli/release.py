"""`dphist release` and `dphist verify`."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

import dphist
from dphist.cli import options
from dphist.cli.options import option
from dphist.cli.output import Talk, print_json, recorded
from dphist.errors import InvalidParameter
from dphist.planning.options import BudgetOptions


@options.spread(BudgetOptions)
def command(
    source: options.Source,
    unit: options.Unit,
    by: options.By,
    asked: dict[str, Any],
    plan: Annotated[Path | None, option("--plan", "Release a plan saved by `dphist plan --save`.")] = None,
    where: options.Where = None,
    no_header: options.NoHeader = None,
    null_keys: options.NullKeys = "group",
    order: options.Order = "count",
    intervals: options.Intervals = None,
    integers: options.Integers = False,
    output: options.Output = None,
    report: options.Report = None,
    overwrite: options.Overwrite = False,
    ledger: options.Ledger = None,
    dataset: options.Dataset = None,
    threads: options.Threads = None,
    memory_limit: options.MemoryLimit = None,
    temp_directory: options.TempDirectory = None,
    engine: options.EngineName = "duckdb",
    master: options.Master = None,
    remote: options.Remote = None,
    staging: options.StagingDirectory = None,
    explain: Annotated[bool, option("--explain", "Print the SQL, the plan and why each step is private.")] = False,
    dry_run: Annotated[
        bool, option("--dry-run", "Check everything that can be checked without reading records.")
    ] = False,
    quiet: Annotated[bool, option("--quiet", "Print nothing but errors.")] = False,
    as_json: options.AsJson = False,
    show: options.Show = 20,
    unsafe_diagnostics: Annotated[
        bool, option("--unsafe-diagnostics", "Print true, PRIVATE numbers to stderr. Never publish them.")
    ] = False,
) -> None:
    """Count people per group, add noise, hide small groups: write a table that is safe to publish.

    Example: dphist release events.parquet --unit user_id --by url --epsilon 1 --delta 1e-8 -o out.parquet
    """
    from dphist.engines import writes_folders
    from dphist.planning.describe import guarantee
    from dphist.publish import charge as charges
    from dphist.publish import explain as explanation
    from dphist.publish import files
    from dphist.publish import run as releasing
    from dphist.publish.result import bounded_counts
    from dphist.publish.text import table_text

    if output is None and report is None and not (explain or dry_run):
        raise InvalidParameter("-o FILE or --report FILE", "neither", "add -o out.parquet.")
    check = files.check_folder if writes_folders(engine) else files.check_table
    check(output, report, inputs=files.files_of(source, plan, asked.get("keys")), overwrite=overwrite)
    budget = options.parse(asked)
    if plan is None and (missing := [name for name in ("epsilon", "delta") if name not in budget]):
        raise InvalidParameter(f"--{missing[0]}", "none", "a release needs --epsilon and --delta, or --plan FILE.")
    cluster = {"master": master, "remote": remote, "staging": staging}
    opened = options.open_engine(engine, threads, memory_limit, temp_directory, **cluster)
    if output is not None:
        opened.check_output(str(output))
    job = releasing.prepare(
        options.files(source, no_header),
        unit=unit,
        by=by,
        plan=plan,
        where=where,
        null_keys=null_keys,  # type: ignore[arg-type]
        order=order,  # type: ignore[arg-type]
        intervals=intervals,
        integers=integers,
        engine=opened,
        **budget,
    )
    talk = Talk(quiet=quiet or as_json)
    if explain:
        typer.echo(explanation.explain(job))
    if dry_run:
        job.check_source()
        talk.line(str(job.plan))
        talk.line("\nDry run: the plan holds, the source can be read and has the columns. No record was counted.")
        with charges.charging(ledger, dataset, lambda: charges.spend_of_plan(job.plan, unit)) as charge:
            talk.line("" if charge is None else f"It fits into what is left of {dataset!r}. Nothing was charged.")
        return
    if output is None and report is None:
        return
    with charges.charging(ledger, dataset, lambda: charges.spend_of_plan(job.plan, unit)) as charge:
        release = job.run(progress=talk.phase, diagnose=_unsafe if unsafe_diagnostics else None, charge=charge)
        release = release if charge is None else replace(release, receipt=charge.receipt)
        with release:
            if output is not None:
                release.write(output, overwrite=overwrite)
                if charge is not None:
                    charge.confirm(output)
            if report is not None:
                release.report(report, overwrite=overwrite)
                if charge is not None and output is None:
                    charge.confirm(report)
            first, groups = release.first(show)
    if as_json:
        print_json({**release.metadata(), "released_groups": groups})
    talk.line(table_text(first, release.plan, groups))
    if (limited := bounded_counts(release.plan)) is not None:
        talk.line(f"A count is of {limited}.")
    words = guarantee(release.plan.request, release.plan.mechanism)
    talk.closing(f"Guarantee: {words}", output, report, recorded(release.receipt))


def _unsafe(facts: dict[str, int]) -> None:
    for name, value in facts.items():
        typer.echo(f"UNSAFE, private, do not publish: {name} = {value}", err=True)


def verify_command(
    file: Annotated[Path, typer.Argument(help="A file written by dphist release, top-k or continual.")],
    ledger: options.PaidBy = None,
    head: Annotated[
        str | None, option("--head", "A hash noted earlier, which must still be in the ledger's chain.")
    ] = None,
    as_json: options.AsJson = False,
) -> None:
    """Check a published file against its plan and guarantee, without the data. Exit code 1 if a check fails.

    Example: dphist verify out.parquet
    """
    from dphist.verification.verify import NOT_KNOWN

    checks = dphist.verify(file, ledger=ledger, head=head)
    if as_json:
        print_json([{"check": c.name, "state": c.state, "passed": c.passed, "detail": c.detail} for c in checks])
    else:
        marks = {"passed": "ok  ", "failed": "FAIL", "not checked": "--  "}
        for check in checks:
            typer.echo(f"  {marks[check.state]}  {check.name:<10} {check.detail}")
        typer.echo(f"\n{NOT_KNOWN}")
    if any(check.failed for check in checks):
        sys.exit(1)
