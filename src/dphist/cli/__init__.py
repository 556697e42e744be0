"""The command line. Parses, calls the library, prints."""

from __future__ import annotations

from dphist.files.interruption import watching


def main(*, last: bool = False) -> None:
    """Run the command in the words of the process. `last`: the process ends with it."""
    with watching(last=last):  # before anything is loaded, which takes a while
        from dphist.cli.app import run

        run()
