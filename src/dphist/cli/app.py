"""The application: commands, each loaded on its first use, and errors as one line without a traceback."""

from __future__ import annotations

import io
import os
import sys
import traceback
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

import dphist
from dphist.cli import progress
from dphist.cli.command import HELP, Group, Option, usage, with_flags
from dphist.cli.output import say
from dphist.errors import DphistError, InvalidParameter
from dphist.files.interruption import account
from dphist.files.outputs import reason_of
from dphist.files.scratch import remove_dead
from dphist.words import printable

if TYPE_CHECKING:
    from click.shell_completion import ShellComplete

TRACEBACK: Final = "DPHIST_TRACEBACK"
"""With this environment variable a bug shows its traceback."""
_COMPLETE: Final = "_DPHIST_COMPLETE"
"""The environment variable by which a shell asks for completions."""

COMMANDS: Final = {
    "Start": {"demo": ("demo:demo", "A private table of made-up data, beside the truth.")},
    "Publish": {
        "release": ("release:release", "Counts, sums and more per group, safe to publish."),
        "sql": ("sql:sql", "SQL, as in BigQuery; without a statement a shell."),
        "select": ("release:select", "Which groups exist: keys without counts."),
        "top-k": ("lists:top_k", "The groups with the most people."),
        "stat": ("stat:stat", "One number, such as a median, with a promised error."),
        "session": ("lists:session", "Many ranked lists from one budget."),
        "continual": ("lists:continual", "Running counts over a stream of batches."),
    },
    "Prepare": {
        "plan": ("plan:plan", "Mechanism, noise and threshold for a budget. Touches no data."),
        "profile": ("plan:profile", "Epsilon and delta of a mechanism that is already chosen."),
        "bounds": ("stat:bounds", "Private bounds of a column, for sums and means to come."),
        "ledger": ("ledger:ledger", "Budgets, and what was spent of them."),
    },
    "Check": {
        "verify": ("check:verify", "A published file against its plan, without the data."),
        "audit": ("check:audit", "Try to break every guarantee."),
        "explain": ("check:explain", "The theorem behind a citation, or what a word means."),
    },
}
"""The commands by panel of the help: module and function, and a line of help."""


class _Application(Group):
    """All commands. `dphist --help` loads none of them."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names of the commands."""
        return [name for entries in COMMANDS.values() for name in entries]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Load a command."""
        for entries in COMMANDS.values():
            if cmd_name in entries:
                module, _, attribute = entries[cmd_name][0].partition(":")
                found: click.Command = getattr(import_module(f"dphist.cli.{module}"), attribute)
                return found
        return None

    def panels(self) -> dict[str, list[tuple[str, str]]]:
        """The names and lines of help of the commands, which are not loaded."""
        return {panel: [(name, words) for name, (_, words) in entries.items()] for panel, entries in COMMANDS.items()}


def _show_version(context: click.Context, option: click.Parameter, wanted: bool) -> None:
    if wanted and not context.resilient_parsing:
        say(f"dphist {dphist.__version__}")
        context.exit()


def _show_completion(context: click.Context, option: click.Parameter, wanted: bool) -> None:
    if wanted and not context.resilient_parsing:
        say(_completion(_shell()).source())
        context.exit()


def _install_completion(context: click.Context, option: click.Parameter, wanted: bool) -> None:
    if not wanted or context.resilient_parsing:
        return
    shell = _shell()
    script = _completion(shell).source()
    place, start, line = {
        "bash": (".bash_completions/dphist.sh", ".bashrc", "source ~/.bash_completions/dphist.sh"),
        "zsh": (".zfunc/_dphist", ".zshrc", "fpath+=~/.zfunc; autoload -Uz compinit; compinit"),
        "fish": (".config/fish/completions/dphist.fish", "", ""),
    }[shell]
    path = Path.home() / place
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"{script}\n", "utf-8")
    if start:
        beginning = Path.home() / start
        before = beginning.read_text("utf-8") if beginning.exists() else ""
        if line not in before:
            beginning.write_text(f"{before.rstrip()}\n\n{line}\n".lstrip(), "utf-8")
    say(f"{shell} completion installed in {path}. It takes effect in the next terminal.")
    context.exit()


def _shell() -> str:
    return Path(os.environ.get("SHELL") or "bash").name


def _completion(shell: str) -> ShellComplete:
    """The completion of this command line in a shell."""
    from click.shell_completion import get_completion_class

    kind = get_completion_class(shell)
    if kind is None:
        raise InvalidParameter("bash, zsh or fish as the shell", shell, "SHELL says which one it is.")
    return kind(app, {}, "dphist", _COMPLETE)


def _flag(flag: str, words: str, callback: Any) -> Option:
    return Option(flag, words, HELP, is_eager=True, expose_value=False, callback=callback)


app = _Application(
    "dphist",
    """Counts and sums per group under differential privacy, without knowing the groups in advance.

    \b
    Examples:
      dphist demo
      dphist plan --epsilon 1 --delta 1e-8
      dphist release events.parquet --unit user_id --by url --epsilon 1 \\
        --delta 1e-8 -o out.parquet
    """,
    _flag("--version", "Print the version.", _show_version),
    _flag("--install-completion", "Install completion for this shell.", _install_completion),
    _flag("--show-completion", "Show what completion runs in this shell.", _show_completion),
)


def run() -> None:
    """Run the command line. An error is one sentence on stderr, which also says what was charged, and exit code 2."""
    _write_anything()
    remove_dead()  # directories that a killed run left
    try:
        _check_words(sys.argv[1:])
        if wanted := os.environ.get(_COMPLETE):
            shell, _, what = wanted.partition("_")
            completion = _completion(shell)
            say(completion.source() if what == "source" else completion.complete())
            sys.exit(0)
        with app.make_context("dphist", sys.argv[1:]) as context:
            app.invoke(context)
    except click.exceptions.Exit as end:
        sys.exit(end.exit_code)
    except DphistError as problem:
        pointer = getattr(problem, "pointer", "")
        # A pointer shows a place in the user's own text, which has no flags.
        words = str(problem) if pointer else with_flags(str(problem))
        _fail(words, told=bool(problem.aftermath), pointer=pointer)
    except KeyboardInterrupt as problem:
        _fail(f"Interrupted. {problem}".strip(), code=130, told=bool(str(problem)))
    except click.ClickException as problem:
        _fail(usage(problem))
    except BrokenPipeError:  # the program that reads our output has closed it
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
        sys.exit(0)


def _check_words(words: list[str]) -> None:
    """Refuse words that are not UTF-8. Engines and databases would refuse them, too, but some only after the charge."""
    for word in words:
        try:
            word.encode()
        except UnicodeEncodeError:
            raise InvalidParameter(
                "names and options in UTF-8", ascii(word), "rename the file or the column."
            ) from None


def _write_anything() -> None:
    """Write escapes for letters that the encoding of a stream lacks: an error would come after the charge."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _fail(message: str, code: int = 2, *, told: bool = False, pointer: str = "") -> None:
    """Print the error and, unless `told`, what was charged. A terminal also shows `pointer`, the place in a statement."""
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
    """Drop text that cannot be written: Python would try again at its end, and print a traceback."""
    if stream is None:
        return
    try:
        stream.flush()
    except (OSError, ValueError):
        with suppress(OSError, ValueError, AttributeError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
