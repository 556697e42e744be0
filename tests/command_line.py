"""`dphist` on the command line: in this process, since a new interpreter costs more than most commands, or in its own."""

from __future__ import annotations

import contextlib
import io
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

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


@contextlib.contextmanager
def _words(*words: str) -> Iterator[None]:
    before, sys.argv = sys.argv, list(words)
    try:
        yield
    finally:
        sys.argv = before
