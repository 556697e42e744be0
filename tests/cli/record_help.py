"""What `--help` and `--help-all` of every command show at 80 columns: `python tests/cli/record_help.py` records it anew."""

from __future__ import annotations

import os
from pathlib import Path
from unittest import mock

from command_line import dphist, every_command

FOLDER = Path(__file__).parent / "help"
WIDTH = 80


def texts(width: int = WIDTH) -> dict[str, str]:
    """Every file with its text; `--help-all` only where it shows more."""
    shown = {}
    with mock.patch.dict(os.environ, {"COLUMNS": str(width)}):
        for words in every_command():
            short, full = (dphist(*words[1:], flag).stdout for flag in ("--help", "--help-all"))
            shown[f"{'-'.join(words)}.txt"] = short
            if full != short:
                shown[f"{'-'.join(words)}-all.txt"] = full
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
