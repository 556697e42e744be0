"""The command line: `dphist plan`, `dphist profile`. Parses, calls the library, prints."""

from dphist.cli.app import main

__all__ = ["main"]
