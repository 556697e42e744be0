"""`dphist` on the command line: in this process, since a new interpreter costs more than most commands, or in its own."""

from __future__ import annotations

import contextlib
import io
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from dphist.cli import main

Done = subprocess.CompletedProcess[str]


def dphist(*arguments: str, cwd: Path | None = None) -> Done:
    """What `python -m dphist` calls, with its words, its folder and its streams. What it does not catch, the test sees."""
    out, err = io.StringIO(), io.StringIO()
    with (
        contextlib.chdir(cwd or "."),
        _words("dphist", *arguments),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        try:
            main()
            code = 0
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else int(end.code is not None)
    return Done(["dphist", *arguments], code, out.getvalue(), err.getvalue())


def dphist_process(*arguments: str, cwd: Path | None = None) -> Done:
    """As a user starts it: a new interpreter, in which warnings are errors."""
    command = [sys.executable, "-W", "error", "-m", "dphist", *arguments]
    return subprocess.run(command, capture_output=True, text=True, encoding="utf-8", cwd=cwd, check=False)


def every_command() -> dict[tuple[str, ...], Any]:
    """Every command and every group of commands, by its words, that of the program itself first."""
    from dphist.cli.app import app

    found: dict[tuple[str, ...], Any] = {}

    def walk(command: Any, words: tuple[str, ...]) -> None:
        found[words] = command
        if hasattr(command, "list_commands"):
            context = command.context_class(command)
            for name in command.list_commands(context):
                walk(command.get_command(context, name), (*words, name))

    walk(app, ("dphist",))
    return found


def examples_of(command: Any) -> list[str]:
    """The examples in the help of a command, each in one line."""
    text = re.sub(r"\\\n\s*", "", command.help or "")
    return re.findall(r"^ +(dphist .*)$", text, re.MULTILINE)


@contextlib.contextmanager
def _words(*words: str) -> Iterator[None]:
    before, sys.argv = sys.argv, list(words)
    try:
        yield
    finally:
        sys.argv = before
