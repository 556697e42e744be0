"""`dphist release` and `dphist verify`."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

import dphist
from dphist.cli import options
from dphist.errors import InvalidParameter


def command(
    source: Annotated[list[str], typer.Argument(help="Parquet, CSV or JSON files, or a glob of them.")],
    unit: Annotated[str, typer.Option("--unit", help="The column that names the person protected.")],
    by: Annotated[
        list[str],
        typer.Option("--by", help="A column that makes the groups, or name=SQL expression of a record. Repeatable."),
    ],
    epsilon: Annotated[float | None, typer.Option("--epsilon", help="Privacy budget.")] = None,
    delta: Annotated[float | None, typer.Option("--delta", help="Privacy budget, for example 1e-8.")] = None,
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
    plan: Annotated[Path | None, typer.Option("--plan", help="Release a plan saved by `dphist plan --save`.")] = None,
    where: Annotated[str | None, typer.Option("--where", help="An SQL condition on a record's own columns.")] = None,
    no_header: options.NoHeader = None,
    null_keys: Annotated[
        str, typer.Option("--null-keys", help="group: null is a group like any other; drop: drop such records.")
    ] = "group",
    order: Annotated[str, typer.Option("--order", help="Rows by noisy `count` (largest first) or by `key`.")] = "count",
    intervals: Annotated[
        float | None,
        typer.Option("--intervals", help="Add bounds that cover the noise with this probability, e.g. 0.95."),
    ] = None,
    integers: Annotated[bool, typer.Option("--integers", help="Round counts to whole numbers.")] = False,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="Where to write the table (.parquet, .csv, .json).")
    ] = None,
    report: options.Report = None,
    overwrite: options.Overwrite = False,
    ledger: options.Ledger = None,
    dataset: options.Dataset = None,
    threads: Annotated[int | None, typer.Option("--threads", help="Threads of the engine.")] = None,
    memory_limit: Annotated[str | None, typer.Option("--memory-limit", help="Memory of the engine, e.g. 4GB.")] = None,
    temp_directory: Annotated[
        Path | None, typer.Option("--temp-directory", help="Where to spill what does not fit.")
    ] = None,
    engine: options.Engine = "duckdb",
    master: options.Master = None,
    remote: options.Remote = None,
    staging: options.StagingDirectory = None,
    explain: Annotated[
        bool, typer.Option("--explain", help="Print the SQL, the plan and why each step is private.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Check everything that can be checked without reading records.")
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print nothing but errors.")] = False,
    as_json: options.AsJson = False,
    show: Annotated[int, typer.Option("--show", help="How many rows of the result to print.")] = 20,
    unsafe_diagnostics: Annotated[
        bool, typer.Option("--unsafe-diagnostics", help="Print true, PRIVATE numbers to stderr. Never publish them.")
    ] = False,
) -> None:
    """Count people per group, add noise, hide small groups: write a table that is safe to publish.

    Example: dphist release events.parquet --unit user_id --by url --epsilon 1 --delta 1e-8 -o out.parquet
    """
    from dphist.publish import charge as charges
    from dphist.publish import explain as explanation
    from dphist.publish import files
    from dphist.publish import run as releasing
    from dphist.publish.text import table_text

    if output is None and report is None and not (explain or dry_run):
        raise InvalidParameter("-o FILE or --report FILE", "neither", "add -o out.parquet.")
    inputs = files.files_of(source, plan, keys)
    if engine == "duckdb":
        files.check_table(output, report, inputs=inputs, overwrite=overwrite)
    else:
        files.check_folder(output, report, inputs=inputs, overwrite=overwrite)
    budget = _budget(
        plan,
        {
            "epsilon": epsilon, "delta": delta, "max_groups": options.parse_max_groups(max_groups),
            "sparsity": sparsity, "sketch": sketch,
            "noise_std": noise_std, "correlation": correlation, "analysis": analysis, "rows": rows,
            "sums": dict(options.parse_bounds(text, "--sum") for text in sums or []),
            "means": dict(options.parse_bounds(text, "--mean") for text in means or []),
            "weights": dict(map(options.parse_weight, weights or [])),
            "total": total, "sparse": sparse,
        },
        {
            "mechanism": (mechanism, "best"), "objective": (objective, "release95"), "noise": (noise, "rounded"),
            "low_threshold": (low_threshold, 1),
        },
    )  # fmt: skip
    on_spark = options.spark_engine(engine, master, remote, staging)
    if on_spark is not None and output is not None:
        from dphist.publish.spark import check_elsewhere

        check_elsewhere(on_spark.spark, str(output))
    job = releasing.prepare(
        options.files(source, no_header),
        unit=unit,
        by=by,
        plan=plan,
        keys=keys,
        where=where,
        null_keys=null_keys,  # type: ignore[arg-type]
        order=order,  # type: ignore[arg-type]
        intervals=intervals,
        integers=integers,
        settings=dphist.PerformanceSettings(threads, memory_limit, temp_directory),
        engine=on_spark,
        **budget,
    )
    say = _Talk(quiet=quiet or as_json)
    if explain:
        typer.echo(explanation.explain(job))
    if dry_run:
        job.check_source()
        say.line(str(job.plan))
        say.line("\nDry run: the plan holds, the source can be read and has the columns. No record was counted.")
        with charges.charging(ledger, dataset, lambda: charges.spend_of_plan(job.plan, unit)) as charge:
            say.line("" if charge is None else f"It fits into what is left of {dataset!r}. Nothing was charged.")
        return
    if output is None and report is None:
        return
    with charges.charging(ledger, dataset, lambda: charges.spend_of_plan(job.plan, unit)) as charge:
        release = job.run(progress=say.phase, diagnose=_unsafe if unsafe_diagnostics else None, charge=charge)
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
        typer.echo(json.dumps({**release.metadata(), "released_groups": groups}, indent=2, allow_nan=False))
    say.line(table_text(first, release.plan, groups))
    say.line(_closing(release, output, report))


def _budget(plan: Path | None, given: dict[str, Any], chosen: dict[str, tuple[Any, Any]]) -> dict[str, Any]:
    """What was asked for beside a plan; epsilon and delta are needed without one."""
    budget = {name: value for name, value in given.items() if value not in (None, {}, False)}
    budget |= {name: value for name, (value, default) in chosen.items() if value != default}
    if plan is None:
        for name in ("epsilon", "delta"):
            if name not in budget and given[name] is None:
                raise InvalidParameter(f"--{name}", "none", "a release needs --epsilon and --delta, or --plan FILE.")
        budget["epsilon"], budget["delta"] = given["epsilon"], given["delta"]
    return budget


class _Talk:
    """Phases on stderr, results on stdout; nothing derived from data but the release itself."""

    def __init__(self, *, quiet: bool) -> None:
        self._quiet = quiet

    def phase(self, name: str) -> None:
        if not self._quiet:
            typer.echo(f"… {name}", err=True)

    def line(self, text: str) -> None:
        if not self._quiet:
            typer.echo(text)


def _unsafe(facts: dict[str, int]) -> None:
    for name, value in facts.items():
        typer.echo(f"UNSAFE, private, do not publish: {name} = {value}", err=True)


def _closing(release: dphist.Release, output: Path | None, report: Path | None) -> str:
    from dphist.planning.describe import guarantee
    from dphist.publish.charge import NOT_RECORDED

    words = guarantee(release.plan.request, release.plan.mechanism)
    lines = ["", f"Guarantee: {words}"]
    lines += [f"Table written to {output}"] if output is not None else []
    lines += [f"Report written to {report}"] if report is not None else []
    return "\n".join([*lines, NOT_RECORDED if release.receipt is None else str(release.receipt)])


def verify_command(
    file: Annotated[Path, typer.Argument(help="A file written by dphist release, top-k or continual.")],
    ledger: options.PaidBy = None,
    head: Annotated[
        str | None, typer.Option("--head", help="A hash noted earlier, which must still be in the ledger's chain.")
    ] = None,
    as_json: options.AsJson = False,
) -> None:
    """Check a published file against its plan and guarantee, without the data. Exit code 1 if a check fails.

    Example: dphist verify out.parquet
    """
    from dphist.verification.verify import NOT_KNOWN

    checks = dphist.verify(file, ledger=ledger, head=head)
    if as_json:
        found = [{"check": c.name, "state": c.state, "passed": c.passed, "detail": c.detail} for c in checks]
        typer.echo(json.dumps(found, indent=2))
    else:
        marks = {"passed": "ok  ", "failed": "FAIL", "not checked": "--  "}
        for check in checks:
            typer.echo(f"  {marks[check.state]}  {check.name:<10} {check.detail}")
        typer.echo(f"\n{NOT_KNOWN}")
    if any(check.failed for check in checks):
        sys.exit(1)
