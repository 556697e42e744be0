"""The application: its commands, and errors as one line without a traceback."""

from __future__ import annotations

import sys
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

import dphist
from dphist.cli import audit, ledger, lists, plan, profile, release, select, stat
from dphist.cli.commands import Commands
from dphist.cli.options import option
from dphist.errors import DphistError


class _Commands(TyperGroup):
    """Passes on what an interrupt has to say, which typer would turn into a bare exit code."""

    def invoke(self, ctx: typer.Context) -> Any:  # type: ignore[override]
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt as problem:
            raise typer.Abort from problem


app = Commands(
    name="dphist",
    cls=_Commands,
    help="Counts and sums per group under differential privacy, without knowing the groups in advance.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
app.command("plan")(plan.command)
app.command("profile")(profile.command)
app.command("release")(release.command)
app.command("select")(select.command)
app.command("stat")(stat.command)
app.command("verify")(release.verify_command)
app.command("top-k")(lists.top_k)
app.add_typer(ledger.app, name="ledger")
app.command("audit")(audit.command)
app.add_typer(lists.sessions, name="session")
app.add_typer(lists.streams, name="continual")


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"dphist {dphist.__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, option("--version", "Print the version and exit.", callback=_show_version, is_eager=True)
    ] = False,
) -> None:
    pass


def main() -> None:
    """Run the command line; expected errors are one line on stderr and exit code 2."""
    try:
        code = app(standalone_mode=False)
    except DphistError as problem:
        _fail(str(problem))
    except (typer.Abort, KeyboardInterrupt) as problem:
        _fail(f"Interrupted. {problem.__cause__ or problem}".strip(), code=130)
    except typer.TyperException as problem:
        _fail(_usage(problem))
    except OSError as problem:
        _fail(f"Expected to read or write {problem.filename}, got: {problem.strerror}.")
    else:
        sys.exit(code)


def _usage(problem: typer.TyperException) -> str:
    """What was wrong with the words of a call; a call without words shows the help."""
    message = problem.format_message() if hasattr(problem, "format_message") else str(problem)
    context = getattr(problem, "ctx", None)
    if message.startswith("Usage:") or context is None:
        return message
    return f"{message} Hint: {context.command_path} --help"


def _fail(message: str, code: int = 2) -> None:
    typer.echo(message if message.startswith("Usage:") else f"dphist: {message}", err=True)
    sys.exit(code)
