"""The application: its commands, and errors as one line without a traceback."""

from __future__ import annotations

import io
import os
import sys
import traceback
from contextlib import suppress
from typing import Annotated, Any, Final

import typer

import dphist
from dphist.cli import progress
from dphist.cli.commands import Commands, Registered
from dphist.cli.options import option
from dphist.cli.output import say
from dphist.errors import DphistError, InvalidParameter
from dphist.files.interruption import account
from dphist.files.outputs import reason_of
from dphist.files.scratch import remove_dead
from dphist.words import printable

TRACEBACK: Final = "DPHIST_TRACEBACK"
"""The environment variable of who looks for a bug."""


class _Unread(Exception):
    """Nobody reads the output any more."""


class _Root(Registered):
    """Passes on what an interrupt or a closed pipe has to say, which typer would turn into a bare exit code."""

    def parse_args(self, ctx: typer.Context, args: list[str]) -> list[str]:  # type: ignore[override]
        for one in self.params:
            one.default = bool(one.default)  # typer's flags of completion have none, and would load pydantic to read it
        return super().parse_args(ctx, args)

    def invoke(self, ctx: typer.Context) -> Any:  # type: ignore[override]
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt as problem:
            raise typer.Abort from problem
        except BrokenPipeError:
            raise _Unread from None


app = Commands(
    name="dphist",
    cls=_Root,
    add_completion=True,
    help="""Counts and sums per group under differential privacy, without knowing the groups in advance.

    Example: dphist demo
    Example: dphist plan --epsilon 1 --delta 1e-8
    Example: dphist release events.parquet --unit user_id --by url --epsilon 1 --delta 1e-8 -o out.parquet
    """,
)


def _show_version(wanted: bool) -> None:
    if wanted:
        say(f"dphist {dphist.__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, option("--version", "Print the version.", "Help", callback=_show_version, is_eager=True)
    ] = False,
) -> None:
    pass


def run() -> None:
    """Run the command line; what goes wrong is one sentence on stderr and exit code 2, with what it cost all the same."""
    _write_anything()
    remove_dead()  # what a killed run left, also if this command reads no record
    try:
        _check_words(sys.argv[1:])
        code = app(standalone_mode=False, prog_name="dphist")
    except DphistError as problem:
        from dphist.cli.usage import with_flags

        pointer = getattr(problem, "pointer", "")
        # What is wrong in a text of the user's own has the names that the text has.
        words = str(problem) if pointer else with_flags(str(problem))
        _fail(words, told=bool(problem.aftermath), pointer=pointer)
    except (typer.Abort, KeyboardInterrupt) as problem:
        words = str(problem.__cause__ or problem)
        _fail(f"Interrupted. {words}".strip(), code=130, told=bool(words))
    except typer.TyperException as problem:
        from dphist.cli.usage import usage

        _fail(usage(problem))
    except _Unread:  # whoever read the result has seen enough of it
        _fail("Expected a reader of the result, got none." if account() else "", code=141)
    except OSError as problem:
        what = "a file" if problem.filename is None else problem.filename
        _fail(f"Expected to read or write {what}, got: {reason_of(problem)}.")
    except Exception as problem:
        if os.environ.get(TRACEBACK):
            traceback.print_exception(problem)
        hint = f"this is a bug; with {TRACEBACK}=1 it is shown where, which may quote records."
        _fail(f"Expected a command that reaches its end, got {type(problem).__name__}. Hint: {hint}", code=70)
    else:
        sys.exit(code)


def _check_words(words: list[str]) -> None:
    """Engines, databases and files of metadata take UTF-8 only, and some would say so after the charge."""
    for word in words:
        try:
            word.encode()
        except UnicodeEncodeError:
            raise InvalidParameter(
                "names and options in UTF-8", ascii(word), "rename the file or the column."
            ) from None


def _write_anything() -> None:
    """Letters that the encoding of a stream lacks are written as escapes; an error would come after the charge."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _fail(message: str, code: int = 2, *, told: bool = False, pointer: str = "") -> None:
    """Say why, and what was charged, unless that is told already; on a terminal point at the place in what was written."""
    words = message if told else f"{message} {account()}".strip()
    progress.stop()
    try:
        if words.startswith("Usage:"):
            say(words, err=True)
        elif words:
            say(printable(f"dphist: {words}"), err=True)
            for line in pointer.splitlines() if sys.stderr.isatty() else ():
                say(printable(f"  {line}"), err=True)
    finally:
        _forget_unwritten(sys.stdout)
        _forget_unwritten(sys.stderr)
    sys.exit(code)


def _forget_unwritten(stream: Any) -> None:
    """What cannot be written now would end the process with a traceback of its own."""
    if stream is None:
        return
    try:
        stream.flush()
    except (OSError, ValueError):
        with suppress(OSError, ValueError, AttributeError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
