"""`dphist verify`, `dphist audit` and `dphist explain`."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from dphist.cli.command import FILE, Option, command
from dphist.cli.options import ENGINE, HEAD, LEDGER, OUTPUTS, SAVED_PLAN, EngineChoice
from dphist.cli.output import Outputs, print_json, say
from dphist.errors import InvalidParameter
from dphist.files.scratch import private_directory
from dphist.words import printable


@command(
    click.Argument(
        ["files"],
        help="Files and reports (.html) that dphist wrote, or folders of them.",
        metavar="FILE...",
        nargs=-1,
        required=True,
        type=FILE,
    ),
    LEDGER,
    HEAD,
    OUTPUTS.only("quiet", "as_json"),
)
def verify(files: list[Path], ledger: str | None, head: str | None, outputs: Outputs) -> None:
    """Check published files against their plans and guarantees, without the data. Exit code 1 if a check fails.

    With --ledger also against the entry that paid. One file is shown with every check; several files, or a folder, with a line
    for each file: intact, edited, unsealed (nothing would show an edit) or unreadable; with --ledger also unpaid or of another
    ledger.

    \b
    Examples:
      dphist verify out.parquet
      dphist verify published --ledger ledger.db
    """
    from dphist.verification.folder import examine_all, is_folder_of_files
    from dphist.verification.isolated import verify_apart
    from dphist.verification.state import NOT_KNOWN

    outputs.talk.phase("checking the file")
    if len(files) > 1 or is_folder_of_files(files[0]):
        examined = examine_all(files, ledger=ledger, head=head, apart=True)
        data, lines = [one.to_data() for one in examined], "\n".join(printable(str(one)) for one in examined)
        good = all(one.is_good for one in examined)
    else:
        checks = verify_apart(files[0], ledger=ledger, head=head)
        data = [{"check": c.name, "state": c.state, "passed": c.passed, "detail": c.detail} for c in checks]
        lines, good = str(checks), not any(check.failed for check in checks)
    if outputs.as_json:
        print_json(data)
    elif not outputs.quiet:
        say(f"{lines}\n\n{NOT_KNOWN}")
    if not good:
        sys.exit(1)


@command(
    Option("--mechanism", "Attack only this mechanism, e.g. laplace.", "Privacy", metavar="NAME"),
    Option("--thorough/--quick", "Thorough: many more runs, half an hour; quick: a minute or two.", "Privacy"),
    SAVED_PLAN,
    ENGINE.only("engine", "master", "remote", "staging"),
    OUTPUTS.only("report", "overwrite", "quiet", "as_json"),
)
def audit(mechanism: str | None, thorough: bool, plan: Path | None, engine: EngineChoice, outputs: Outputs) -> None:
    """Try to break every guarantee, and check that mechanisms broken on purpose are caught. Reads no data of yours.

    Exit code 1 if a claim does not hold or a broken mechanism is not caught. --plan attacks that plan at its own parameters;
    --engine spark attacks what the Spark engine does.

    \b
    Example:
      dphist audit --mechanism truncated-laplace --report audit.html
    """
    from dphist.audit.run import audit as attack
    from dphist.audit.run import markdown, render, text
    from dphist.engines import files_of
    from dphist.files.outputs import check_outputs, write_text
    from dphist.planning import Plan

    inputs = files_of(plan)
    check_outputs(outputs.report, inputs=inputs, overwrite=outputs.overwrite)
    if plan is not None and engine.engine == "spark":  # a session of Spark takes a while to start
        raise InvalidParameter("--plan or --engine spark", "both", "a plan is attacked on this machine.")
    opened = engine.open()
    cluster = opened if opened.writes_folders else None  # None: all engines of this machine
    with private_directory() as directory, _temporary_files_in(directory):
        outcome = attack(
            thorough=thorough,
            mechanism=mechanism,
            plan=None if plan is None else Plan.load(plan),
            engine=cluster,
            progress=outputs.talk.phase,
        )
    if outputs.as_json:
        print_json(outcome.to_data())
    elif not outputs.quiet:
        say(text(outcome))
    if outputs.report is not None:
        form = {".md": markdown, ".txt": text}.get(outputs.report.suffix.lower(), render)
        write_text(form(outcome), outputs.report, inputs=inputs, overwrite=outputs.overwrite)
        if not outputs.quiet:
            say(f"\nReport written to {outputs.report}", err=outputs.as_json)
    if not outcome.passed:
        sys.exit(1)


@contextmanager
def _temporary_files_in(directory: Path) -> Iterator[None]:
    """Put temporary files, of which attacks make many, into a directory that goes whatever ends the audit."""
    before, tempfile.tempdir = tempfile.tempdir, str(directory)
    try:
        yield
    finally:
        tempfile.tempdir = before


@command(
    click.Argument(
        ["citation"],
        help="A citation as plans and files print it, a page, a paper, a mechanism or a word.",
        nargs=-1,
        required=False,
    )
)
def explain(citation: list[str]) -> None:
    """Read the theorem behind a citation, or what a word means. Without one: list what can be read.

    \b
    Example:
      dphist explain adaptive Theorem 1
    """
    from dphist.explanations import explain as explanation

    say(explanation(" ".join(citation)))
