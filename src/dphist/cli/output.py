"""What commands print: phases on stderr, results on stdout; nothing derived from data but what is released.

Everything goes through `say`: names of columns, batches and data sets, notes and versions were typed by somebody else, and
no terminal shall act on them.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from dphist.interruption import go_on, note_printed
from dphist.words import printable

if TYPE_CHECKING:
    from dphist.publish.charge import Receipt


def say(text: str, *, err: bool = False) -> None:
    """Print some lines."""
    go_on()
    if not err:
        note_printed()
    typer.echo(printable(text, lines=True), err=err)


class Talk:
    """What a command says while it runs and at its end; nothing if it is quiet, as beside JSON."""

    def __init__(self, *, quiet: bool) -> None:
        self._quiet = quiet

    def phase(self, name: str) -> None:
        """What is being done now."""
        if not self._quiet:
            say(f"… {name}", err=True)

    def line(self, text: str) -> None:
        """A part of the result."""
        if not self._quiet:
            say(text)

    def closing(self, summary: str, output: Path | None, report: Path | None, *last: str) -> None:
        """A sentence about the result, where it was written, and who paid."""
        table = [] if output is None else [f"Table written to {printable(str(output))}"]
        html = [] if report is None else [f"Report written to {printable(str(report))}"]
        self.line("\n".join(["", summary, *table, *html, *last]))


def print_json(data: Any, *, allow_nan: bool = False) -> None:
    """One JSON object on stdout."""
    say(json.dumps(data, indent=2, allow_nan=allow_nan, default=str))


def recorded(receipt: Receipt | dict[str, Any] | None) -> str:
    """Which entry of a ledger paid, or that none did."""
    from dphist.publish.charge import NOT_RECORDED, Receipt

    return NOT_RECORDED if receipt is None else str(Receipt(**receipt) if isinstance(receipt, dict) else receipt)
