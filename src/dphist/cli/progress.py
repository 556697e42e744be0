"""The line on a terminal that says what a command is doing, once that takes longer than a moment. It goes away at the end.

It shows the name of the phase and, while the source is read, the share of its bytes: nothing else that comes from the data.
A thread of its own asks and draws, so no engine waits for a terminal, and nothing that goes wrong here ends a run. Without a
terminal there is no line at all: logs hold results and errors.
"""

from __future__ import annotations

import os
import sys
import threading
from contextlib import suppress
from typing import Final

from dphist.files.interruption import undo_at_stop

AFTER = 2.0
"""Seconds before the line appears."""
EVERY = 0.25
"""Seconds between two looks."""
_BAR: Final = 20
_PATIENCE: Final = 0.5
"""Seconds that a terminal has to take the last text."""


class Line:
    """The line on the terminal with this handle, from its start to `stop`."""

    def __init__(self, handle: int, phase: str, after: float, every: float) -> None:
        self.phase = phase
        self._handle, self._after, self._every = handle, after, every
        self._stopped = threading.Event()
        self._width = 0
        self._thread = threading.Thread(target=self._run, name="dphist progress", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Take the line away, without waiting for a terminal that takes nothing."""
        self._stopped.set()
        self._thread.join(_PATIENCE)

    def _run(self) -> None:
        with suppress(Exception):
            turn = 0
            while not self._stopped.wait(self._every if turn else self._after):
                turn += 1
                self._draw(words(self.phase, turn))
            if turn:
                self._draw("")

    def _draw(self, text: str) -> None:
        width = 0
        with suppress(OSError):
            width = os.get_terminal_size(self._handle).columns
        text = text[: (width or 80) - 1]  # some terminals do not know their width
        home = "" if text else "\r"
        os.write(self._handle, f"\r{text:<{self._width}}{home}".encode())
        self._width = len(text)


def words(phase: str, turn: int) -> str:
    """The line about a phase: with a bar if the share of bytes that were read is known, else with dots that move."""
    from dphist.engines.base import Reading

    share = None
    with suppress(Exception):  # the reader may have closed its file
        share = phase.share() if isinstance(phase, Reading) else None
    if share is None:
        return f"  {phase} {'.' * (1 + turn % 3)}"
    done = min(max(share, 0.0), 1.0)
    return f"  {phase}  [{'#' * int(done * _BAR):.<{_BAR}}] {int(100 * done):3} % of the input read"


_line: Line | None = None


def tell(phase: str) -> None:
    """Show the name of a phase. Never raises, never waits."""
    global _line
    with suppress(Exception):
        if _line is None and sys.stderr.isatty() and os.environ.get("TERM") != "dumb":
            _line = Line(sys.stderr.fileno(), phase, AFTER, EVERY)
            undo_at_stop(stop)
        if _line is not None:
            _line.phase = phase


def stop() -> None:
    """Take the line away before anything else is printed."""
    global _line
    line, _line = _line, None
    if line is not None:
        line.stop()
