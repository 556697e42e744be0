"""Terminals for commands that run in this process."""

from __future__ import annotations

import contextlib
import io
import os
import pty
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from unittest import mock

import pytest

from dphist.cli import main, progress


@contextlib.contextmanager
def listening(received: bytearray, look: Callable[[], object]) -> Iterator[int]:
    """A terminal, and what is written to it until the block ends; `look` is called after each part."""
    reader, writer = pty.openpty()

    def listen() -> None:
        with os.fdopen(reader, "rb", buffering=0) as terminal:
            while True:
                try:
                    part = terminal.read(4096)
                except OSError:  # how Linux says that the other end is closed
                    return
                if not part:
                    return
                received.extend(part)
                look()

    listener = threading.Thread(target=listen)
    listener.start()
    try:
        yield writer
    finally:
        os.close(writer)
        listener.join(20)


def on_terminal(*words: str, cwd: Path, out: bool = False) -> tuple[int, str, str]:
    """Exit code, stdout and what a terminal gets as stderr; with `out` also as stdout. In this process."""
    received, stdout = bytearray(), io.StringIO()
    with listening(received, lambda: None) as writer, open(writer, "w", encoding="utf-8", closefd=False) as terminal:
        with (
            contextlib.chdir(cwd),
            mock.patch.object(sys, "argv", ["dphist", *words]),
            contextlib.redirect_stdout(terminal if out else stdout),
            contextlib.redirect_stderr(terminal),
            pytest.raises(SystemExit) as ended,
        ):
            main()
        assert progress._line is None
    return int(ended.value.code or 0), stdout.getvalue(), received.decode()
