"""What `--help` and `--help-all` of every command show at 80 columns: `python tests/cli/record_help.py` records it anew."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import typer
import typer.main

from dphist.cli.app import app
from dphist.cli.help import help_of

FOLDER = Path(__file__).parent / "help"
WIDTH = 80


def pages() -> dict[str, tuple[Any, ...]]:
    """The context of every command and group of commands, by the name of its file."""
    found: dict[str, Any] = {}

    def walk(command: Any, words: tuple[str, ...], parent: Any) -> None:
        context = command.context_class(command, info_name=words[-1], parent=parent)
        found["-".join(words)] = context
        for name, inner in getattr(command, "commands", {}).items():
            walk(inner, (*words, name), context)

    walk(typer.main.get_command(app), ("dphist",), None)
    return found


def texts() -> dict[str, str]:
    """Every file with its text; `--help-all` only where it shows more."""
    shown = {}
    for name, context in pages().items():
        short, full = (help_of(context, everything=everything, width=WIDTH) + "\n" for everything in (False, True))
        shown[f"{name}.txt"] = short
        if full != short:
            shown[f"{name}-all.txt"] = full
    return shown


def main() -> None:
    """Write what is new, delete what is gone, and say which."""
    before = {path.name: path.read_text() for path in FOLDER.glob("*.txt")}
    now = texts()
    for name in sorted(before.keys() | now.keys()):
        if before.get(name) == now.get(name):
            continue
        if name in now:
            (FOLDER / name).write_text(now[name])
        else:
            (FOLDER / name).unlink()
        print(f"{'changed' if name in before and name in now else 'new' if name in now else 'deleted'}: {name}")


if __name__ == "__main__":
    main()
