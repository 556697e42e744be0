"""What commands print: phases on stderr, results on stdout; nothing derived from data but what is released."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from dphist.publish.charge import Receipt


class Talk:
    """What a command says while it runs and at its end; nothing if it is quiet, as beside JSON."""

    def __init__(self, *, quiet: bool) -> None:
        self._quiet = quiet

    def phase(self, name: str) -> None:
        """What is being done now."""
        if not self._quiet:
            typer.echo(f"… {name}", err=True)

    def line(self, text: str) -> None:
        """A part of the result."""
        if not self._quiet:
            typer.echo(text)

    def closing(self, summary: str, output: Path | None, report: Path | None, *last: str) -> None:
        """A sentence about the result, where it was written, and who paid."""
        table = [] if output is None else [f"Table written to {output}"]
        html = [] if report is None else [f"Report written to {report}"]
        self.line("\n".join(["", summary, *table, *html, *last]))


def print_json(data: Any, *, allow_nan: bool = False) -> None:
    """One JSON object on stdout."""
    typer.echo(json.dumps(data, indent=2, allow_nan=allow_nan, default=str))


def recorded(receipt: Receipt | dict[str, Any] | None) -> str:
    """Which entry of a ledger paid, or that none did."""
    from dphist.publish.charge import NOT_RECORDED, Receipt

    return NOT_RECORDED if receipt is None else str(Receipt(**receipt) if isinstance(receipt, dict) else receipt)
