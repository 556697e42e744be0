"""`dphist audit`."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from dphist.cli import options
from dphist.cli.options import option
from dphist.cli.output import Talk, print_json, say
from dphist.errors import InvalidParameter
from dphist.files.scratch import private_directory


def command(
    mechanism: Annotated[
        str | None, option("--mechanism", "Attack only this mechanism, e.g. laplace.", "Privacy", metavar="NAME")
    ] = None,
    thorough: Annotated[
        bool,
        option("--thorough/--quick", "Thorough: many more runs, half an hour; quick: a minute or two.", "Privacy"),
    ] = False,
    plan: options.SavedPlan = None,
    engine: options.EngineName = "duckdb",
    master: options.Master = None,
    remote: options.Remote = None,
    staging: options.StagingDirectory = None,
    report: options.Report = None,
    overwrite: options.Overwrite = False,
    quiet: options.Quiet = False,
    as_json: options.AsJson = False,
) -> None:
    """Try to break every guarantee, and check that mechanisms broken on purpose are caught. Reads no data of yours.

    Exit code 1 if a claim does not hold or a broken mechanism is not caught. --plan attacks that plan at its own parameters;
    --engine spark attacks what the Spark engine does.

    Example: dphist audit --mechanism truncated-laplace --report audit.html
    """
    from dphist.audit.run import audit
    from dphist.audit.tables import markdown, render, text
    from dphist.engines import files_of
    from dphist.files.outputs import check_outputs, write_text
    from dphist.planning import Plan

    inputs = files_of(plan)
    check_outputs(report, inputs=inputs, overwrite=overwrite)
    if plan is not None and engine == "spark":  # before a session is started
        raise InvalidParameter("--plan or --engine spark", "both", "a plan is attacked on this machine.")
    opened = options.open_engine(engine, master=master, remote=remote, staging=staging)
    cluster = opened if opened.writes_folders else None  # nothing given: everything on this machine
    with private_directory() as directory, _temporary_files_in(directory):
        outcome = audit(
            thorough=thorough,
            mechanism=mechanism,
            plan=None if plan is None else Plan.load(plan),
            engine=cluster,
            progress=Talk(quiet=quiet or as_json).phase,
        )
    if as_json:
        print_json(outcome.to_data())
    elif not quiet:
        say(text(outcome))
    if report is not None:
        form = {".md": markdown, ".txt": text}.get(report.suffix.lower(), render)
        write_text(form(outcome), report, inputs=inputs, overwrite=overwrite)
        if not quiet:
            say(f"\nReport written to {report}", err=as_json)
    if not outcome.passed:
        raise typer.Exit(1)


@contextmanager
def _temporary_files_in(directory: Path) -> Iterator[None]:
    """Attacks make many of them; they go with the directory, whatever ends the audit."""
    before, tempfile.tempdir = tempfile.tempdir, str(directory)
    try:
        yield
    finally:
        tempfile.tempdir = before
