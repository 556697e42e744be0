"""The command line. Parses, calls the library, prints."""

from __future__ import annotations

from dphist.files.interruption import watching


def main(*, last: bool = False) -> None:
    """Run the command line of this process. last: the process ends with the command."""
    with watching(last=last):  # loading takes a while, and a signal may come meanwhile
        from dphist.cli.app import run

        run()
