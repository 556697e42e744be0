"""The shell of `dphist sql`: statements typed on a terminal, over several lines, with history and completion.

The screen shows nothing from records but released values, and the history holds typed text alone. Ctrl-C ends the line or the
statement. A charge of that statement stays, and the shell says so.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from prompt_toolkit.completion import Completer, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.filters import Condition
from prompt_toolkit.history import FileHistory, History, InMemoryHistory
from prompt_toolkit.shortcuts import PromptSession

from dphist.cli.output import (
    Talk,
    amounts_left,
    cost_in_words,
    left_of,
    say,
    screen,
    show_answer,
    show_paid,
    show_table,
    spent_in_words,
)
from dphist.errors import DphistError, InvalidParameter
from dphist.files.interruption import UNCHARGED, account, begin, raising, undo_at_stop
from dphist.files.outputs import reason_of
from dphist.files.systems import terminal_settings
from dphist.sql.suggestions import Suggestions, is_whole
from dphist.words import did_you_mean, printable

if TYPE_CHECKING:
    from prompt_toolkit.input import Input
    from prompt_toolkit.lexers import Lexer
    from prompt_toolkit.output import Output

    from dphist.run.release import Answer, Release
    from dphist.sql.connection import Connection

WELCOME: Final = "A statement ends with a semicolon. Tab completes, .help lists commands, Ctrl-D leaves."
_COMMANDS: Final = {
    ".tables": ("", "the tables, whose rows they hold, and where they are"),
    ".schema": ("TABLE", "the columns of a table"),
    ".explain": ("STATEMENT;", "what it would do, and why that is private; spends nothing"),
    ".budget": ("", "what is spent, and what is left"),
    ".write": ("FILE", "the last answer: .parquet, .csv, .json; its report: .html"),
    ".help": ("", "these lines"),
    ".quit": ("", "leave, as Ctrl-D does"),
}
_OTHERS: Final = {
    "help": ".help",
    "?": ".help",
    "\\?": ".help",
    "\\h": ".help",
    "\\d": ".tables",
    "\\q": ".quit",
    "quit": ".quit",
    "exit": ".quit",
}
"""Names that the shells of other databases have for our commands."""


class Shell:
    """The shell of a connection. rows: how many of an answer it shows. history: where it keeps what was typed."""

    def __init__(
        self,
        connection: Connection,
        *,
        ledger: str | None = None,
        dataset: str | None = None,
        rows: int = 20,
        history: History | None = None,
        input: Input | None = None,  # noqa: A002 - as prompt_toolkit calls it
        output: Output | None = None,
    ) -> None:
        self._connection, self._ledger, self._dataset, self._rows = connection, ledger, dataset, rows
        self._suggestions = Suggestions(connection)
        self._answers: list[Answer] = []
        self._spent: list[Release] = []
        self._session: PromptSession[str] = PromptSession(
            multiline=Condition(lambda: not is_done(self._session.default_buffer.text)),
            prompt_continuation=lambda width, _line, _wrapped: "... ".rjust(width),
            completer=_Completer(self._suggestions),
            complete_while_typing=False,
            history=history or InMemoryHistory(),
            lexer=_lexer(),
            input=input,
            output=output,
        )

    def run(self) -> None:
        """Answer statements until the user leaves."""
        with suppress(OSError, ValueError):  # in a test standard input is no file
            undo_at_stop(terminal_settings(sys.stdin.fileno()))
        going = True
        with raising():
            while going:
                try:
                    going = self._take(self._read())
                except EOFError:
                    going = False
                except KeyboardInterrupt as problem:
                    say(f"Interrupted. {str(problem) or account() or UNCHARGED}", err=True)
                except BrokenPipeError:
                    raise
                except DphistError as problem:
                    _show_problem(problem)
                except OSError as problem:
                    told = f"Expected to read or write {problem.filename or 'a file'}, got: {reason_of(problem)}."
                    say(printable(f"{told} {account()}".strip()), err=True)
                except Exception as problem:  # its words may quote records
                    hint = "this is a bug; the shell goes on."
                    words = f"Expected a statement that reaches its end, got {type(problem).__name__}. Hint: {hint}"
                    say(f"{words} {account()}".strip(), err=True)

    def _read(self) -> str:
        """Read a statement. In a thread: in the main thread asyncio would take over the signals and not give them back."""
        begin()
        prompt = self._prompt()
        with _interrupts_ignored():
            try:
                return self._session.prompt(prompt, in_thread=True)
            except KeyboardInterrupt:
                return ""

    def _prompt(self) -> str:
        if self._ledger is not None and self._dataset is not None:
            with suppress(DphistError):
                (name, left, _), *_ = amounts_left(self._ledger, self._dataset)
                return f"dphist, {name} {left} left> "
        return "dphist> "

    def _take(self, text: str) -> bool:
        """Do what the text says. False: leave the shell."""
        word, _, rest = text.strip().partition(" ")
        word = _OTHERS.get(word.rstrip(";").lower(), word)
        if word == ".quit":
            return False
        if word.startswith((".", "\\")):
            self._command(word, rest.strip())
        elif text.strip(" \t\n;"):
            self._statement(text)
        return True

    def _command(self, word: str, rest: str) -> None:
        runs: dict[str, Callable[[str], None]] = {
            ".tables": self._tables, ".schema": self._schema, ".explain": self._explain, ".budget": self._budget,
            ".write": self._write, ".help": self._help,
        }  # fmt: skip
        if word not in runs:
            raise InvalidParameter("a command of the shell", repr(word), f"{did_you_mean(word, runs)}.help lists them.")
        what, _ = _COMMANDS[word]
        if bool(what) != bool(rest):
            raise InvalidParameter(f"{word} {what}".strip(), f"{word} {rest}".strip(), ".help lists the commands.")
        runs[word](rest)

    def _statement(self, text: str) -> None:
        talk = Talk(quiet=False)
        script = self._connection.prepare(text)
        try:
            found = script.run(progress=talk.phase)
        except DphistError as problem:
            self._spent += show_paid(problem)
            raise
        self._answers += found
        self._spent += [release for answer in found for release in answer.releases]
        for answer in found:
            rows = show_answer(talk, answer, self._rows)
            if rows > self._rows:
                say("All rows: .write FILE")
        say(spent_in_words(found, self._ledger))

    def _tables(self, _: str) -> None:
        from dphist.show.table import Column
        from dphist.show.text import grid

        tables = self._connection.tables.values()
        whose = ["public" if one.public else one.unit or "in OPTIONS" for one in tables]
        columns = [
            Column("table", "word", [one.name for one in tables]),
            Column("unit", "word", whose),
            Column("source", "key", [_place(one.source) for one in tables]),
        ]
        show_table(grid(columns, screen()))

    def _schema(self, table: str) -> None:
        names = {name.casefold(): name for name in self._connection.tables}
        name = names.get(table.strip("`; ").casefold())
        if name is None:
            hint = f"{did_you_mean(table, names.values())}.tables lists them."
            raise InvalidParameter("a table", repr(table), hint)
        say("\n".join(f"  {printable(column)}" for column in self._connection.columns(name)))

    def _explain(self, text: str) -> None:
        say(self._connection.explain(text))

    def _budget(self, _: str) -> None:
        say(f"Spent here: {cost_in_words(self._spent)}.")
        if self._ledger is None or self._dataset is None:
            say("There is no ledger: keep count of what you release about these people.")
        else:
            say(f"{left_of(self._ledger, self._dataset)}.")

    def _write(self, name: str) -> None:
        if not self._answers:
            raise InvalidParameter("an answer to write", "none yet", "run a statement first.")
        path = Path(name).expanduser()
        if path.suffix.lower() in (".html", ".md", ".txt"):
            self._answers[-1].report(path)
        else:
            self._answers[-1].write(path)
        say(f"Written to {printable(str(path))}")

    def _help(self, _: str) -> None:
        say(WELCOME)
        say("\n".join(f"  {f'{name} {what}':<20} {words}" for name, (what, words) in _COMMANDS.items()))


def is_done(text: str) -> bool:
    """Whether Enter ends the input: a command, nothing, or a statement with its semicolon. Else a new line begins."""
    word, _, rest = text.strip().partition(" ")
    if word == ".explain":
        return is_whole(rest) and bool(rest.strip())
    return word.startswith((".", "\\")) or word.lower() in _OTHERS or is_whole(text)


def history_file() -> Path:
    """The file that keeps statements, in the user's directory for the state of programs."""
    state = Path(os.environ.get("XDG_STATE_HOME") or "")
    return (state if state.is_absolute() else Path.home() / ".local" / "state") / "dphist" / "sql_history"


def open_history(path: Path) -> History:
    """A history in a file that its owner alone can read; if it cannot be written, in memory."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        os.close(os.open(path, os.O_CREAT | os.O_RDWR | os.O_APPEND, 0o600))
        path.chmod(0o600)  # `open` gives this mode to new files alone
    except OSError:
        say(f"No history is kept: {printable(str(path))} cannot be written.", err=True)
        return InMemoryHistory()
    return _Kept(str(path))


class _Kept(FileHistory):
    """A history in a file. A full disk does not end the shell."""

    def store_string(self, string: str) -> None:
        with suppress(OSError):
            super().store_string(string)


class _Completer(Completer):
    def __init__(self, suggestions: Suggestions) -> None:
        self._suggestions = suggestions

    def get_completions(self, document: Document, complete_event: Any) -> Iterator[Completion]:
        before, behind = document.text_before_cursor, document.text_after_cursor
        command, space, rest = before.lstrip().partition(" ")
        if command.startswith(".") and not space:
            word, offered = command, [name for name in _COMMANDS if name.startswith(command)]
        elif command == ".schema":
            word, offered = rest, [name for name in self._suggestions.tables if name.startswith(rest)]
        elif command.startswith(".") and command != ".explain":
            return
        else:
            word, offered = self._suggestions.of(rest if command == ".explain" else before, behind)
        for one in offered:
            yield Completion(one, -len(word))


def _lexer() -> Lexer | None:
    """Colours for SQL, if Pygments is installed."""
    try:
        from prompt_toolkit.lexers import PygmentsLexer
        from pygments.lexers.sql import SqlLexer
    except ModuleNotFoundError:
        return None
    return PygmentsLexer(SqlLexer)


def _show_problem(problem: DphistError) -> None:
    """Print the error, what was charged, and the place in the statement."""
    words = str(problem) if problem.aftermath else f"{problem} {account()}".strip()
    say(printable(words), err=True)
    for line in getattr(problem, "pointer", "").splitlines():
        say(printable(f"  {line}"), err=True)


def _place(source: object) -> str:
    """The paths of a table."""
    paths = getattr(source, "paths", source)
    return ", ".join(map(str, paths)) if isinstance(paths, list | tuple) else str(paths)


@contextmanager
def _interrupts_ignored() -> Iterator[None]:
    """Ignore SIGINT while a line is edited: Ctrl-C is a key then, and a signal from elsewhere has nothing to end."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
